"""CUDA graphs: a function's launches recorded once and replayed with one driver call.

While a function is captured nothing runs: its launches become nodes of a graph. Memory taken during the capture
belongs to a stream that only this graph uses, so that replays always find it; see Pool.beside_capture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import device as devices
from . import stream as streams
from .errors import CudaError, check


class Graph:
    """What a function launched, ready to replay. `nodes` counts its kernels and copies."""

    def __init__(self, executable: Any, nodes: int, stream: streams.Stream):
        self.executable, self.nodes, self.stream = executable, nodes, stream

    def launch(self, stream: streams.Stream) -> None:
        """Queue the whole graph on a stream."""
        check(devices.driver().cuGraphLaunch(self.executable, stream.handle))

    def __del__(self) -> None:
        try:
            devices.driver().cuGraphExecDestroy(self.executable)
        except Exception:  # interpreter shutdown
            pass


def capture(fn: Callable[[], Any], device: int) -> tuple[Graph, Any]:
    """Record what `fn()` launches on a device: (graph, what it returned)."""
    cu = devices.driver()
    stream = streams.Stream(device)
    with streams.on_device(device):
        outer = streams.current_stream()
        stream.wait(outer)
        with stream:
            check(cu.cuStreamBeginCapture(stream.handle, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
            stream.capturing = True
            graph = None
            try:
                result = fn()
            finally:
                stream.capturing = False
                status, graph = cu.cuStreamEndCapture(stream.handle)
        if status:
            raise CudaError(f"graph: the capture was broken ({getattr(status, 'name', status)}): the function synchronised or read "
                            "a result on the host (float(x), x.to_numpy(), printing, boolean indexing)", status)
        executable = check(cu.cuGraphInstantiate(graph, 0))
        nodes = int(check(cu.cuGraphGetNodes(graph, 0))[-1])
        check(cu.cuGraphDestroy(graph))
    return Graph(executable, nodes, stream), result


