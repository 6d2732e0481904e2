"""Device times of kernels, library calls and copies, measured with events; export as JSON and as a
trace for chrome://tracing.

While profiling is on, the launcher's `launch` (see runtime/kernel_launch.py) is replaced by one
that records an event before and after each launch; library calls and copies are wrapped likewise.
While it is off, there is no overhead. Two events cost about 2 us of host time per launch, so sums
of device times are correct but gaps between them are not.
"""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import device as devices
from . import files, fork, kernel_launch
from . import stream as streams
from .interrupts import context_manager, uninterrupted
from .roofline import UNKNOWN, Work, peak
from .state import runtime

MOST_PENDING = (
    4096  # launches whose events have not been read yet; more, and the oldest are waited for
)
MOST_TRACED = 100_000  # events kept for the trace; statistics go on beyond it


class Traced(NamedTuple):
    """One timed piece of work; times in microseconds, `start` since the profile began on that
    device."""

    name: str
    kind: str  # "kernel", "library", "copy", "range", or "cpu" without a GPU
    device: int
    stream: int
    start: float
    duration: float
    work: Work


@dataclasses.dataclass
class _Total:
    """Sums over one kernel's launches; nbytes, operations: None once they were not known of one.
    arithmetic: the microseconds that the operations take at the device's highest rate, None once
    that was not known."""

    kind: str
    count: int = 0
    time: float = 0.0
    least: float = float("inf")
    most: float = 0.0
    nbytes: int | None = 0
    operations: float | None = 0.0
    arithmetic: float | None = 0.0

    def add(self, duration: float, work: Work, rate: float) -> None:
        self.count += 1
        self.time += duration
        self.least, self.most = min(self.least, duration), max(self.most, duration)
        self.nbytes = (
            None if self.nbytes is None or work.nbytes is None else self.nbytes + work.nbytes
        )
        counted = self.operations is not None and work.operations is not None
        self.operations = self.operations + work.operations if counted else None  # type: ignore[operator]
        self.arithmetic = (
            self.arithmetic + work.operations / rate * 1e6  # type: ignore[operator]
            if counted and rate and self.arithmetic is not None
            else None
        )


class Profile:
    """What was measured between `start()` and `stop()`."""

    nothing = "profile: nothing ran on a GPU"

    def __init__(self, nvtx: bool = True) -> None:
        self._pending: collections.deque[tuple] = collections.deque()
        self._spare: dict[int, list[streams.Event]] = collections.defaultdict(list)
        self._origins: dict[int, tuple[streams.Event, float]] = {}
        self._totals: dict[tuple[str, int | str], _Total] = {}  # by name and device
        self._traced: list[Traced] = []
        self._lock = fork.new_reentrant_lock()
        self._ranges = _nvtx() if nvtx else None
        self.untraced = 0
        self.began = time.perf_counter()

    # -------------------- measuring

    def start(self) -> None:
        """Begin to measure. Only one profile measures at a time."""
        if runtime.profile is not None:
            raise RuntimeError("profile: another profile is being taken")
        launcher = kernel_launch.prepare_launcher()
        replaced = ("launch", "launch_extended", "observe_call", "in_order")
        self._before = {name: launcher[name] for name in replaced}
        self._launch, self._launch_extended = launcher["launch"], launcher["launch_extended"]
        runtime.profile = self  # first: whoever sees it there stops it
        launcher.update(
            launch=self._timed_launch,
            launch_extended=self._timed_extended,
            observe_call=self._timed_call,
            in_order=True,
        )
        runtime.observe_copy = self._timed_copy

    @uninterrupted
    def stop(self) -> None:
        """End measuring."""
        if runtime.profile is not self:
            raise RuntimeError("profile: this profile is not being taken")
        runtime.observe_copy = runtime.profile = None
        runtime.launcher.update(self._before)

    def _timed(
        self,
        name: str,
        kind: str,
        work: Work,
        stream: streams.Stream | None,
        call: Callable[[], Any],
    ) -> Any:
        if stream is None or stream.capturing:  # inside a graph events would become part of it
            return call()
        if self._ranges is not None:
            self._ranges.push_range(name)
        before, after = self._event(stream), self._event(stream)
        try:
            stream.record(before)
            result = call()
            stream.record(after)
        finally:
            if self._ranges is not None:
                self._ranges.pop_range()
        self._pending.append((name, kind, stream, before, after, work))
        if len(self._pending) > MOST_PENDING:
            self._collect(len(self._pending) // 2)
        return result

    def _timed_kernel(self, handle: Any, pointer: Any, call: Callable[[], tuple]) -> tuple:
        function = runtime.functions.get(int(handle))
        name = str(function) if function else f"kernel {int(handle):#x}"
        return self._timed(name, "kernel", _work(function, pointer), runtime.local.stream, call)

    def _timed_launch(self, handle: Any, *rest: Any) -> tuple:
        return self._timed_kernel(handle, rest[8], lambda: self._launch(handle, *rest))

    def _timed_extended(self, config: Any, handle: Any, pointer: Any, extra: Any) -> tuple:
        return self._timed_kernel(
            handle, pointer, lambda: self._launch_extended(config, handle, pointer, extra)
        )

    def _timed_call(
        self, op: str, work: Work, fn: Callable, stream: streams.Stream, *values: Any
    ) -> Any:
        return self._timed(f"{op} (library)", "library", work, stream, lambda: fn(stream, *values))

    def _timed_copy(
        self, kind: str, nbytes: int, stream: streams.Stream, work: Callable[[], tuple]
    ) -> tuple:
        return self._timed(
            kind, "copy" if nbytes else "graph", Work(nbytes=nbytes or None), stream, work
        )

    def _event(self, stream: streams.Stream) -> streams.Event:
        if stream.device not in self._origins:
            self._origins[stream.device] = (
                stream.record(streams.Event(device=stream.device)),
                time.perf_counter(),
            )
        try:
            return self._spare[stream.device].pop()
        except IndexError:
            return streams.Event(device=stream.device)

    @context_manager
    def annotate(self, name: str) -> Iterator[None]:
        """Context: a named range of host time in the trace."""
        if self._ranges is not None:
            self._ranges.push_range(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            duration = time.perf_counter() - start
            if self._ranges is not None:
                self._ranges.pop_range()
            self._trace(
                Traced(
                    name,
                    "range",
                    -1,
                    threading.get_ident(),
                    (start - self.began) * 1e6,
                    duration * 1e6,
                    UNKNOWN,
                )
            )

    def _count(self, entry: Traced, device: int | str, rate: float = 0.0) -> None:
        """Add a piece of work to the statistics and to the trace."""
        total = self._totals.setdefault((entry.name, device), _Total(entry.kind))
        total.add(entry.duration, entry.work, rate)
        self._trace(entry)

    def _trace(self, entry: Traced) -> None:
        if len(self._traced) < MOST_TRACED:
            self._traced.append(entry)
        else:
            self.untraced += 1

    def _collect(self, count: int | None = None) -> None:
        """Read the events of the oldest `count` pieces of work (all by default), waiting for
        them."""
        with self._lock:
            for _ in range(len(self._pending) if count is None else count):
                try:
                    name, kind, stream, before, after, work = self._pending.popleft()
                except IndexError:
                    return
                duration = before.elapsed(after) * 1e3
                origin, at = self._origins[stream.device]
                start = origin.elapsed(before) * 1e3 + (at - self.began) * 1e6
                rate = peak(stream.device, work.unit) if work.unit else 0.0
                entry = Traced(name, kind, stream.device, stream.ptr, start, duration, work)
                self._count(entry, stream.device, rate)
                self._spare[stream.device] += [before, after]

    # -------------------- results

    def stats(self) -> list[dict[str, Any]]:
        """One row for each kernel, library call and kind of copy, the longest total first; waits
        for what is queued.

        name, kind, device, count, total_us, mean_us, min_us, max_us, nbytes, gb_per_s, operations,
        tflop_per_s, of_bandwidth, of_arithmetic, of_peak, hint.

        `nbytes`: of a kernel's or library call's array arguments, each counted once. `operations`:
        of products, convolutions, attention and Fourier transforms (see kernels/lib/flop_counts.py
        for what counts). None where they are not known, and so is what follows from them: the
        rates; `of_bandwidth`, the share of the memory's nominal bandwidth, and `of_arithmetic`, of
        the rate at which the device could do these operations in their dtype (runtime/roofline.py);
        `of_peak`, the larger of the two: how near the row is to the roofline. `hint` says what
        limits the row.
        """
        self._collect()
        rows = []
        for (name, index), t in sorted(self._totals.items(), key=lambda item: -item[1].time):
            bandwidth = (
                devices.info(index).memory_bandwidth  # type: ignore[arg-type]
                if t.kind in ("kernel", "library")
                else 0
            )
            gb_per_s = t.nbytes / t.time / 1e3 if t.nbytes and t.time else None
            tflop_per_s = t.operations / t.time / 1e6 if t.operations and t.time else None
            shares = (
                gb_per_s * 1e9 / bandwidth if gb_per_s is not None and bandwidth else None,
                t.arithmetic / t.time if t.arithmetic and t.time else None,
            )
            rows.append(
                {
                    "name": name,
                    "kind": t.kind,
                    "device": index,
                    "count": t.count,
                    "total_us": t.time,
                    "mean_us": t.time / t.count,
                    "min_us": t.least,
                    "max_us": t.most,
                    "nbytes": t.nbytes,
                    "gb_per_s": gb_per_s,
                    "operations": t.operations,
                    "tflop_per_s": tflop_per_s,
                    "of_bandwidth": shares[0],
                    "of_arithmetic": shares[1],
                    "of_peak": max((s for s in shares if s is not None), default=None),
                    "hint": _hint(t.kind, t.time / t.count, *shares),
                }
            )
        return rows

    def export(self, path: str | os.PathLike) -> None:
        """Write a JSON file: {"stats": rows of stats(), "devices": ..., "traceEvents": ...};
        chrome://tracing and Perfetto open it as a trace."""
        rows = self.stats()
        events: list[dict[str, Any]] = []
        for index in sorted(self._origins):
            events.append(
                {"ph": "M", "name": "process_name", "pid": index, "args": {"name": f"cuda:{index}"}}
            )
        for e in self._traced:
            counts = {"bytes": e.work.nbytes, "operations": e.work.operations}
            arguments = {name: value for name, value in counts.items() if value is not None}
            events.append(
                {
                    "ph": "X",
                    "name": e.name,
                    "cat": e.kind,
                    "pid": e.device if e.device >= 0 else "host",
                    "tid": e.stream,
                    "ts": e.start,
                    "dur": e.duration,
                    "args": arguments,
                }
            )
        about = {f"cuda:{i}": dataclasses.asdict(devices.info(i)) for i in sorted(self._origins)}
        report = {"stats": rows, "devices": about, "untraced": self.untraced, "traceEvents": events}
        with files.whole_file("export", path) as beside, open(beside, "w") as file:
            json.dump(report, file)

    def __str__(self) -> str:
        rows = self.stats()
        if not rows:
            return self.nothing
        width = max(len(row["name"]) for row in rows)
        lines = [
            f"{'':{width}}  {'count':>7} {'total us':>11} {'mean us':>9} {'GB/s':>7} "
            f"{'TFLOP/s':>7} {'peak':>5}  hint"
        ]
        for row in rows:
            bandwidth = "" if row["gb_per_s"] is None else f"{row['gb_per_s']:.0f}"
            rate = "" if row["tflop_per_s"] is None else f"{row['tflop_per_s']:.3g}"
            share = "" if row["of_peak"] is None else f"{row['of_peak']:.0%}"
            lines.append(
                f"{row['name']:{width}}  {row['count']:7} {row['total_us']:11.1f} "
                f"{row['mean_us']:9.2f} {bandwidth:>7} "
                f"{rate:>7} {share:>5}  {row['hint']}".rstrip()
            )
        return "\n".join(lines)


def _hint(kind: str, mean: float, bandwidth: float | None, rate: float | None) -> str:
    """What limits a row of this mean time (us) that moves its arguments at this share of the
    nominal bandwidth, and does its operations at this share of the highest rate.

    0.7 of the nominal bandwidth is about what a device copy reaches, 0.6 of the rate what large
    products do, as the clock falls under their load.
    """
    if kind not in ("kernel", "library"):
        return ""
    if bandwidth is not None and bandwidth >= 0.7:
        return "memory bandwidth: move fewer bytes (fuse neighbours, smaller dtypes)"
    if rate is not None and rate >= 0.6:
        return "arithmetic: fewer operations, or a dtype that tensor cores do faster"
    if mean < 5:
        return (
            "launches: too little work each; a CUDA graph or fusing saves more than a faster kernel"
        )
    if bandwidth is None and rate is None:
        return ""
    if rate is None:
        return "not bandwidth: arithmetic, latency or access pattern"
    roof = "arithmetic" if bandwidth is None or rate > bandwidth else "memory bandwidth"
    return f"latency, access pattern or too few blocks; the nearest roof is {roof}"


def _work(function: kernel_launch.Function | None, pointer: int) -> Work:
    """What a launch has to do, read from its argument block: the bytes of its array arguments, an
    element of a stride-0 axis once, and behind the arguments (module.Block) where its operations
    stand."""
    if function is None or not function.arguments:
        return UNKNOWN
    total = at = 0
    words = ctypes.cast(pointer, ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)))
    for ndim in function.arguments:
        if ndim is None:
            at += 1
            continue
        itemsize = words[at + 3][0]
        count = 1
        for axis in range(ndim):
            if words[at + 5 + ndim + axis][0]:
                count *= words[at + 5 + axis][0]
        total += count * itemsize
        at += 5 + 2 * ndim
    return Work.read(words[at][0], words[at + 1][0], total)


def _nvtx() -> Any:
    """The nvtx package where it is installed: ranges then show in Nsight Systems."""
    try:
        import nvtx
    except ImportError:
        return None
    return nvtx
