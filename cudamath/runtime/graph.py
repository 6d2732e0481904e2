"""CUDA graphs: launches recorded once and replayed with one driver call.

During the capture nothing runs: launches and copies become nodes of the graph. The memory that
nodes refer to must be valid at each replay:

- Memory allocated during the capture comes from a stream of the graph's own. Its free blocks are
  neither trimmed nor passed to other streams while the graph lives. If it has no free block, it
  takes one of the surrounding stream: that stream ran the same work before, and two sets of blocks
  would take twice the memory.
- Buffers of other streams that the graph uses live as long as the graph (`Buffer.used_on`).
- Host memory is read during the capture, into a block that belongs to the graph
  (`memory.graph_constant`). A replay does not read it again.

Values that change at each replay come from *feeds*: functions, registered on the stream during the
capture, that write a few bytes into such a block before each launch (for example a random
generator's position in its sequence).

Operations that a graph cannot contain raise RuntimeError (`Stream.refuse_capture`): waiting for the
device, copies to the host, other streams and devices.
"""

from __future__ import annotations

import gc
from typing import Any

from . import device as devices
from . import kernel_errors, library_handles, memory
from . import stream as streams
from .errors import CudaError, check
from .interrupts import call_at_once, uninterrupted
from .state import runtime
from .stream import refuse_capture

__all__ = ["Capture", "Graph", "refuse_capture"]


@devices.finalised
class Graph:
    """A captured graph. `nodes`: number of kernels and copies; `stream`: the stream whose memory
    the graph uses."""

    def __init__(self, executable: Any, nodes: int, stream: streams.Stream):
        self.executable, self.nodes, self.stream = executable, nodes, stream
        self.feeds = tuple(stream.feeds.values())
        self.last = stream  # of the last launch; before the first, the graph's own
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

    @uninterrupted
    def __del__(self) -> None:
        try:
            with streams.relaxed():  # this thread may be capturing another graph
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
    """Release the memory of a graph, in order after the work on its stream."""
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
    """Context: this thread's work on a device is captured, not run; `.graph` is set at its end."""

    graph: Graph

    def __init__(self, device: int):
        self.device = devices.validate(device, "graph")
        refuse_capture("graph", "graphs do not nest")
        self.stream = streams.Stream(self.device)
        self.stream.graph_only = True

    def __enter__(self) -> Capture:
        cu = devices.driver()
        gc.collect()  # so that few finalisers, which call the driver, run during the capture
        outer = streams.current_stream(self.device)
        outer.refuse_capture("graph", "graphs do not nest")
        mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        begun: list[tuple] = []
        try:
            memory.borrow_blocks(self.stream, outer)
            self.stream.wait(outer)  # after the last use of borrowed blocks
            self.stream.__enter__()
            library_handles.capture_begins(self)
            self.first = kernel_errors.mark()
            call_at_once(begun, cu.cuStreamBeginCapture, self.stream.handle, mode)
            check(begun[0])
        except BaseException:  # an interrupt (Ctrl-C) too
            if begun and not begun[0][0]:
                cu.cuStreamEndCapture(self.stream.handle)
            self._leave()
            raise
        self.stream.capturing = True
        return self

    @uninterrupted
    def _leave(self) -> None:
        """End everything that `__enter__` began, but for the capture in the driver."""
        self.stream.capturing = False
        try:
            self.stream.__exit__()
        finally:
            try:
                library_handles.capture_ends(self)
            finally:
                memory.return_blocks(self.stream)

    @uninterrupted
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        ended: list[tuple] = []
        try:
            try:
                end = devices.driver().cuStreamEndCapture
                call_at_once(ended, end, self.stream.handle)
            finally:
                try:
                    if not ended:  # an interrupt (Ctrl-C) came first
                        ended.append(devices.driver().cuStreamEndCapture(self.stream.handle))
                finally:
                    self._leave()
            if kind is None:
                self._instantiate(*ended[0])
        finally:
            recorded = ended[0][1]
            if recorded is not None and int(recorded):
                check(devices.driver().cuGraphDestroy(recorded))
            if not hasattr(self, "graph"):
                _release(self.stream)

    def _instantiate(self, status: Any, recorded: Any) -> None:
        """Make a graph of the driver's recording."""
        if status:
            name = getattr(status, "name", status)
            raise CudaError(
                f"graph: the capture was broken ({name}): the function called something that "
                "waits for the device or uses another stream",
                status,
            )
        cu = devices.driver()
        with streams.in_context(self.device):
            nodes = int(check(cu.cuGraphGetNodes(recorded, 0))[-1])
            self.graph = Graph(check(cu.cuGraphInstantiate(recorded, 0)), nodes, self.stream)
        kernel_errors.keep(self.first)
