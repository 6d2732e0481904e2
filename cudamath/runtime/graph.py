"""CUDA graphs: launches recorded once and replayed with one driver call.

While a graph is captured nothing runs: launches and copies become its nodes. What the nodes point
to must be there at each replay, so memory is kept as follows.

- What is allocated during the capture comes from a stream of the graph's own; its free blocks are
  neither trimmed nor handed to anyone else while the graph lives. Where it has none, it takes over
  a free block of the stream around it: the same work was done there a moment ago, and both would
  hold as much memory otherwise.
- Buffers of other streams that the graph uses live as long as it does (`Buffer.used_on`), whoever
  drops them.
- Host memory is read at the capture, into a block kept with the graph (`memory.graph_constant`): a
  replay never touches it.

What is new at each replay comes from *feeds*: functions, left on the stream during the capture,
that write a few bytes into such a block before each launch (a random generator's place in its
sequence).

What a graph cannot hold is refused with a RuntimeError that says so (`Stream.refuse_capture`):
waiting for the device, copies to the host, other streams and devices.
"""

from __future__ import annotations

import gc
from typing import Any

from . import device as devices
from . import kernel_errors, library_handles, memory
from . import stream as streams
from .errors import CudaError, check
from .state import runtime
from .stream import refuse_capture

__all__ = ["Capture", "Graph", "refuse_capture"]


@devices.finalised
class Graph:
    """Recorded work. `nodes`: how many kernels and copies; `stream`: the one whose memory the graph
    uses."""

    def __init__(self, executable: Any, nodes: int, stream: streams.Stream):
        self.executable, self.nodes, self.stream = executable, nodes, stream
        self.feeds = tuple(stream.feeds.values())
        self.last = stream  # where it was launched last; before that, where its memory comes from
        # In a cycle of garbage the stream could otherwise be finalised before its graph.
        runtime.graph_streams[id(self)] = stream

    def after_last(self, stream: streams.Stream) -> None:
        """Order later work on `stream` after the last replay: replays share memory, so they cannot
        overlap."""
        if self.last is not stream:
            last = self.last.standing()
            if last is not stream:
                stream.wait(last)
        self.last = stream

    def launch(self, stream: streams.Stream) -> None:
        """Queue the whole graph on a stream, after its last replay."""
        self.after_last(stream)
        for feed in self.feeds:
            feed(stream)
        run = devices.driver().cuGraphLaunch
        with streams.in_context(stream.device):
            observe = runtime.observe_copy
            if observe is None or stream.capturing:
                check(run(self.executable, stream.handle))
            else:
                check(
                    observe(
                        f"graph of {self.nodes} nodes",
                        0,
                        stream,
                        lambda: run(self.executable, stream.handle),
                    )
                )

    def __del__(self) -> None:
        try:
            with streams.relaxed():  # this thread may be capturing the next one
                check(
                    devices.driver().cuGraphExecDestroy(self.executable)
                )  # the driver lets a running replay end first
                self.stream.wait(self.last.standing())
                self.feeds = ()
                _release(self.stream)
        except Exception:  # interpreter shutdown
            pass
        finally:
            runtime.graph_streams.pop(id(self), None)


def _release(stream: streams.Stream) -> None:
    """Give back the memory that was held for a graph, in order after the work on its stream."""
    stream.feeds.clear()
    owners = {
        id(owner): owner
        for buffer in stream.kept.values()
        if (owner := getattr(buffer, "stream", stream)) is not stream
    }
    for owner in owners.values():
        owner.standing().wait(stream)
    stream.graph_only = False
    stream.kept.clear()
    stream.pool.release_stream(stream)


class Capture:
    """Context: this thread's work on a device is recorded, not run; `.graph` is there
    afterwards."""

    graph: Graph

    def __init__(self, device: int):
        self.device = devices.validate(device, "graph")
        refuse_capture("graph", "graphs do not nest")
        self.stream = streams.Stream(self.device)
        self.stream.graph_only = True

    def __enter__(self) -> Capture:
        cu = devices.driver()
        gc.collect()  # so that finalisers, which call the driver, are few during the capture
        outer = streams.current_stream(self.device)
        outer.refuse_capture("graph", "graphs do not nest")
        memory.borrow_blocks(self.stream, outer)
        self.stream.wait(outer)  # after the last use of what was borrowed
        self.stream.__enter__()
        library_handles.capture_begins()
        try:
            mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            check(cu.cuStreamBeginCapture(self.stream.handle, mode))
        except BaseException:
            library_handles.capture_ends()
            self.stream.__exit__()
            memory.return_blocks(self.stream)
            raise
        self.stream.capturing = True
        self.first = kernel_errors.mark()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        cu = devices.driver()
        status, recorded = cu.cuStreamEndCapture(self.stream.handle)
        self.stream.capturing = False
        library_handles.capture_ends()
        memory.return_blocks(self.stream)
        self.stream.__exit__()
        try:
            if kind is not None:
                return
            if status:
                name = getattr(status, "name", status)
                raise CudaError(
                    f"graph: the capture was broken ({name}): the function called something that "
                    "waits for the "
                    "device or uses another stream",
                    status,
                )
            with streams.in_context(self.device):
                nodes = int(check(cu.cuGraphGetNodes(recorded, 0))[-1])
                self.graph = Graph(check(cu.cuGraphInstantiate(recorded, 0)), nodes, self.stream)
            kernel_errors.keep(self.first)
        finally:
            if recorded is not None and int(recorded):
                check(cu.cuGraphDestroy(recorded))
            if not hasattr(self, "graph"):
                _release(self.stream)
