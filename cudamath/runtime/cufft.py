"""cuFFT on raw addresses: plans, their cache, and their workspace.

Making a cuFFT plan takes a millisecond or more, using it a few microseconds. So each device caches
plans, and drops the least recently used one when there are too many. A plan's workspace comes from
the pool for the duration of a call: `memory_stats` counts it, all plans share it, and two streams
never share it. The tables that cuFFT allocates itself (twiddle factors, generated code) are not
counted.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import device as devices
from . import fork, library_handles, library_paths
from . import stream as streams
from .errors import DeviceError, library_error
from .memory import Buffer, pool_of, relaxed
from .state import runtime

MOST_PLANS = 64  # per device: each one holds device memory

#: (dtype of the input, dtype of the output) -> cufftType.
KINDS = {
    (np.dtype(a), np.dtype(b)): kind
    for a, b, kind in (
        ("c8", "c8", 0x29),
        ("f4", "c8", 0x2A),
        ("c8", "f4", 0x2C),
        ("c16", "c16", 0x69),
        ("f8", "c16", 0x6A),
        ("c16", "f8", 0x6C),
    )
}
_EXECUTE = {
    0x29: "exec_c2c",
    0x2A: "exec_r2c",
    0x2C: "exec_c2r",
    0x69: "exec_z2z",
    0x6A: "exec_d2z",
    0x6C: "exec_z2d",
}


class Walk(NamedTuple):
    """The layout of an array for cuFFT, in elements: its storage along the transformed axes, the
    stride along the last of them, and the stride from one transform of the batch to the next."""

    embed: tuple[int, ...]
    step: int
    batch: int


class Spec(NamedTuple):
    """A transform: `kind` is a cufftType, `sizes` the logical (real) lengths, at most three."""

    kind: int
    sizes: tuple[int, ...]
    source: Walk
    target: Walk
    batch: int


_bindings = functools.partial(library_paths.bindings, "cufft")


def _explain(error: Exception, spec: Spec) -> Exception:
    """The exception that belongs to an error of the bindings."""
    return library_error(error, f"fft: cuFFT, {spec.batch} transforms of {spec.sizes}")


@devices.finalised
class Plan:
    """A cuFFT plan. A thread takes `lock` to set stream and workspace and queue the transform."""

    __slots__ = ("handle", "work", "lock", "device", "execute", "directed", "__weakref__")

    def __init__(self, spec: Spec, index: int):
        if library_paths.find("cufft").path is None:
            library = library_paths.find("cufft")
            raise DeviceError(
                f"fft: cuFFT was not found ({library.looked}). Install it: {library.remedy}"
            )
        cufft = _bindings()
        self.device, self.lock = index, fork.new_lock()
        self.execute = getattr(cufft, _EXECUTE[spec.kind])
        self.directed = spec.kind in (0x29, 0x69)

        def make(_side: Any) -> tuple[int, int]:
            handle = cufft.create()
            try:
                cufft.set_auto_allocation(handle, 0)
                return handle, cufft.make_plan_many64(
                    handle,
                    len(spec.sizes),
                    spec.sizes,
                    spec.source.embed,
                    spec.source.step,
                    spec.source.batch,
                    spec.target.embed,
                    spec.target.step,
                    spec.target.batch,
                    spec.kind,
                    spec.batch,
                )
            except cufft.cuFFTError:
                cufft.destroy(handle)
                raise

        try:
            self.handle, self.work = pool_of(index).beside_capture(make)
        except cufft.cuFFTError as error:
            raise _explain(error, spec) from None

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            try:
                library_handles.after_captures(
                    functools.partial(_destroy, self.handle, self.device)
                )
            except Exception:  # interpreter shutdown: the driver cleans up
                pass


def _destroy(handle: int, index: int) -> None:
    with streams.in_context(index), relaxed():
        _bindings().destroy(handle)


_lock = fork.new_lock()


def plan(spec: Spec, index: int) -> Plan:
    """The plan of a transform on a device, from the cache or new."""
    with _lock:
        # the plans of a device, the most recently used last
        plans: collections.OrderedDict[Spec, Plan] = runtime.fft_plans.setdefault(
            index, collections.OrderedDict()
        )
        if spec in plans:
            plans.move_to_end(spec)
            return plans[spec]
    fresh = Plan(spec, index)
    dropped: list[Plan] = []  # destroyed with this list, outside the lock
    with _lock:
        chosen = plans.setdefault(spec, fresh)
        while len(plans) > MOST_PLANS:
            dropped.append(plans.popitem(last=False)[1])
    return chosen


def transform(spec: Spec, inverse: bool) -> Callable[[Any, int, int], None]:
    """A function (stream, address of the input, of the output) that queues the transform, unscaled.

    `inverse` chooses the sign of the exponent of complex transforms; real ones have one direction.
    """
    direction = (1 if inverse else -1,) if spec.kind in (0x29, 0x69) else ()

    def transform(stream: Any, x: int, y: int) -> None:
        plans = runtime.fft_plans.get(stream.device, {})
        one = plans.get(spec)
        if (
            one is None or len(plans) * 2 > MOST_PLANS
        ):  # the order matters only if plans may be dropped
            one = plan(spec, stream.device)
        if stream.capturing:  # the graph uses the plan's tables: keep the plan
            stream.kept[id(one)] = one
        work = Buffer(one.work, stream) if one.work else None
        cufft = _bindings()
        try:
            with one.lock:
                cufft.set_stream(one.handle, stream.ptr)
                if work is not None:
                    cufft.set_work_area(one.handle, work.address)
                one.execute(one.handle, x, y, *direction)
        except cufft.cuFFTError as problem:
            raise _explain(problem, spec) from None

    return transform
