"""Device times of kernels, library calls and copies, taken with events; JSON and a trace for chrome://tracing.

While profiling is on, the launcher's `launch` (see runtime/module.py) is replaced by one that records an event before
and one after each launch; library calls and copies go through the same. Off, nothing is measured and nothing is paid.
Two events cost about 2 us of host time a launch, so sums of device times are right while gaps between them are not.
"""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import device as devices
from . import memory, module
from . import stream as streams

MOST_PENDING = 4096  # launches whose events have not been read yet; more, and the oldest are waited for
MOST_TRACED = 100_000  # events kept for the trace; statistics go on beyond it


class Traced(NamedTuple):
    """One timed piece of work; times in microseconds, `start` since the profile began on that device."""

    name: str
    kind: str  # "kernel", "library", "copy" or "range"
    device: int
    stream: int
    start: float
    duration: float
    nbytes: int | None


class _Total:
    __slots__ = ("kind", "count", "time", "least", "most", "nbytes", "known")

    def __init__(self, kind: str):
        self.kind, self.count, self.time, self.least, self.most = kind, 0, 0.0, float("inf"), 0.0
        self.nbytes, self.known = 0, True


class Profile:
    """What was measured between `start()` and `stop()`."""

    def __init__(self, nvtx: bool = True) -> None:
        self._pending: collections.deque[tuple] = collections.deque()
        self._spare: dict[int, list[streams.Event]] = collections.defaultdict(list)
        self._origins: dict[int, tuple[streams.Event, float]] = {}
        self._totals: dict[tuple[str, int], _Total] = {}
        self._traced: list[Traced] = []
        self._lock = threading.RLock()
        self._ranges = _nvtx() if nvtx else None
        self.untraced = 0
        self.began = time.perf_counter()

    # ------------------------------------------------------------ measuring

    def start(self) -> None:
        """Begin to measure. Only one profile measures at a time."""
        global active
        if active is not None:
            raise RuntimeError("profile: another profile is being taken")
        launcher = module.prepare_launcher()
        self._before = {name: launcher[name] for name in ("launch", "observe_call", "in_order")}
        self._launch = launcher["launch"]
        launcher.update(launch=self._timed_launch, observe_call=self._timed_call, in_order=True)
        memory.observe = self._timed_copy
        active = self

    def stop(self) -> None:
        """End measuring."""
        global active
        if active is not self:
            raise RuntimeError("profile: this profile is not being taken")
        module.launcher.update(self._before)
        memory.observe = None
        active = None

    def _timed(self, name: str, kind: str, nbytes: int | None, stream: streams.Stream | None,
               work: Callable[[], Any]) -> Any:
        if stream is None or stream.capturing:  # inside a graph events would become part of it
            return work()
        if self._ranges is not None:
            self._ranges.push_range(name)
        before, after = self._event(stream), self._event(stream)
        try:
            stream.record(before)
            result = work()
            stream.record(after)
        finally:
            if self._ranges is not None:
                self._ranges.pop_range()
        self._pending.append((name, kind, stream, before, after, nbytes))
        if len(self._pending) > MOST_PENDING:
            self._collect(len(self._pending) // 2)
        return result

    def _timed_launch(self, handle: Any, *rest: Any) -> tuple:
        function = module.functions.get(int(handle))
        name = str(function) if function else f"kernel {int(handle):#x}"
        return self._timed(name, "kernel", _array_bytes(function, rest[8]), streams.local.stream,
                           lambda: self._launch(handle, *rest))

    def _timed_call(self, op: str, fn: Callable, stream: streams.Stream, *values: Any) -> Any:
        return self._timed(f"{op} (library)", "library", None, stream, lambda: fn(stream, *values))

    def _timed_copy(self, kind: str, nbytes: int, stream: streams.Stream, work: Callable[[], tuple]) -> tuple:
        return self._timed(kind, "copy" if nbytes else "graph", nbytes or None, stream, work)

    def _event(self, stream: streams.Stream) -> streams.Event:
        if stream.device not in self._origins:
            self._origins[stream.device] = stream.record(streams.Event(device=stream.device)), time.perf_counter()
        try:
            return self._spare[stream.device].pop()
        except IndexError:
            return streams.Event(device=stream.device)

    @contextmanager
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
            self._trace(Traced(name, "range", -1, threading.get_ident(), (start - self.began) * 1e6, duration * 1e6, None))

    def _trace(self, entry: Traced) -> None:
        if len(self._traced) < MOST_TRACED:
            self._traced.append(entry)
        else:
            self.untraced += 1

    def _collect(self, count: int | None = None) -> None:
        """Read the events of the oldest `count` pieces of work (all by default), waiting for them."""
        with self._lock:
            for _ in range(len(self._pending) if count is None else count):
                try:
                    name, kind, stream, before, after, nbytes = self._pending.popleft()
                except IndexError:
                    return
                duration = before.elapsed(after) * 1e3
                origin, at = self._origins[stream.device]
                start = origin.elapsed(before) * 1e3 + (at - self.began) * 1e6
                total = self._totals.setdefault((name, stream.device), _Total(kind))
                total.count += 1
                total.time += duration
                total.least, total.most = min(total.least, duration), max(total.most, duration)
                total.known &= nbytes is not None
                total.nbytes += nbytes or 0
                self._trace(Traced(name, kind, stream.device, stream.ptr, start, duration, nbytes))
                self._spare[stream.device] += [before, after]

    # ------------------------------------------------------------ results

    def stats(self) -> list[dict[str, Any]]:
        """One row for each kernel, library call and kind of copy, the longest total first; waits for what is queued.

        name, kind, device, count, total_us, mean_us, min_us, max_us, nbytes, gb_per_s, of_peak, hint. `nbytes` of a
        kernel are the bytes of its array arguments, each counted once; None where they are not known (library calls),
        and so are gb_per_s and of_peak, its fraction of the memory's nominal bandwidth. `hint` says what limits the
        row. Floating-point operations are not counted: a compiled kernel does not tell.
        """
        self._collect()
        rows = []
        for (name, index), t in sorted(self._totals.items(), key=lambda item: -item[1].time):
            nbytes = t.nbytes if t.known else None
            rate = nbytes / t.time / 1e3 if nbytes and t.time else None
            peak = devices.info(index).memory_bandwidth / 1e9 if t.kind == "kernel" else 0
            share = rate / peak if rate is not None and peak else None
            rows.append({"name": name, "kind": t.kind, "device": index, "count": t.count, "total_us": t.time,
                         "mean_us": t.time / t.count, "min_us": t.least, "max_us": t.most, "nbytes": nbytes,
                         "gb_per_s": rate, "of_peak": share, "hint": _hint(t.kind, t.time / t.count, share)})
        return rows

    def export(self, path: str | os.PathLike) -> None:
        """Write a JSON file: {"stats": rows of stats(), "devices": ..., "traceEvents": ...}; chrome://tracing and
        Perfetto open it as a trace."""
        rows = self.stats()
        events: list[dict[str, Any]] = []
        for index in sorted(self._origins):
            events.append({"ph": "M", "name": "process_name", "pid": index, "args": {"name": f"cuda:{index}"}})
        for e in self._traced:
            arguments = {} if e.nbytes is None else {"bytes": e.nbytes}
            events.append({"ph": "X", "name": e.name, "cat": e.kind, "pid": e.device if e.device >= 0 else "host",
                           "tid": e.stream, "ts": e.start, "dur": e.duration, "args": arguments})
        about = {f"cuda:{i}": dataclasses.asdict(devices.info(i)) for i in sorted(self._origins)}
        report = {"stats": rows, "devices": about, "untraced": self.untraced, "traceEvents": events}
        folder = os.path.dirname(os.path.abspath(path))
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".json")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(report, file)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def __str__(self) -> str:
        rows = self.stats()
        if not rows:
            return "profile: nothing ran on a GPU"
        width = max(len(row["name"]) for row in rows)
        lines = [f"{'':{width}}  {'count':>7} {'total us':>11} {'mean us':>9} {'GB/s':>7} {'peak':>5}  hint"]
        for row in rows:
            rate = "" if row["gb_per_s"] is None else f"{row['gb_per_s']:.0f}"
            share = "" if row["of_peak"] is None else f"{row['of_peak']:.0%}"
            lines.append(f"{row['name']:{width}}  {row['count']:7} {row['total_us']:11.1f} {row['mean_us']:9.2f} {rate:>7} "
                         f"{share:>5}  {row['hint']}".rstrip())
        return "\n".join(lines)


def _hint(kind: str, mean: float, share: float | None) -> str:
    """What limits a kernel of this mean time (us) that moves its arguments at this share of the nominal bandwidth.

    Read against the roofline's slanted part only: 0.7 of the nominal bandwidth is about what a device copy reaches.
    """
    if kind != "kernel":
        return ""
    if share is not None and share >= 0.7:
        return "memory bandwidth: move fewer bytes (fuse neighbours, smaller dtypes)"
    if mean < 5:
        return "launches: too little work each; a CUDA graph or fusing saves more than a faster kernel"
    return "" if share is None else "not bandwidth: arithmetic, latency or access pattern"


#: The profile being taken, if any.
active: Profile | None = None


def _array_bytes(function: module.Function | None, pointer: int) -> int | None:
    """Bytes of the array arguments of a launch, read from its argument block: an element of a stride-0 axis once."""
    if function is None or not function.arguments:
        return None
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
    return total


def _nvtx() -> Any:
    """The nvtx package where it is installed: ranges then show in Nsight Systems."""
    try:
        import nvtx
    except ImportError:
        return None
    return nvtx
