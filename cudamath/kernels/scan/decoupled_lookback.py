"""Device functions of the kernels of scans: they combine elements and totals, and exchange totals
between lanes and between blocks."""

import functools
from typing import Any, NamedTuple

import numpy as np

from ...core.dtypes import compute_dtype
from ...core.specs.scans import SCANS
from ..compiler.decorators import FULL, WARP, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, dtype_of, types
from ..compiler.storage_types import numba_type
from ..lib.accumulators import accumulator_type
from ..lib.codec import codec
from ..lib.lanes import lane_shuffle
from ..lib.vector_io import writer

if not SIMULATOR:
    from ..ptx.lookback import bits, load_relaxed, number, store_relaxed

THREADS = 512
WARPS = THREADS // WARP
_READY = 1 << 32  # the flag beside 32 bits


class ScanFunctions(NamedTuple):
    """The device functions of a scan: lift an element to the type A of totals, combine two totals;
    and the total of no elements."""

    lift: Any
    combine: Any
    identity: Any
    A: Any


@functools.cache
def scan_functions(kind: str, source: np.dtype, target: np.dtype) -> ScanFunctions:
    """kind: the name of a definition in core/specs/scans.py; dtypes of elements and result."""
    scan = SCANS[kind]
    A = numba_type(compute_dtype(target)) if scan.chooses else accumulator_type(target)
    load = codec(source)[0]
    skip = scan.skips_nan and not scan.chooses and source.kind in "fcV"
    skipped = scan.neutral  # stands for a NaN, in NumPy too

    @device_function
    def lift(value):
        v = A(load(value))
        if skip and v != v:
            v = A(skipped)
        return v

    combine = device_function(scan.combine(A, dtype_of(A).kind, device_function))
    return ScanFunctions(lift, combine, A(scan.start(dtype_of(A))), A)


@functools.cache
def total_exchange(A: Any) -> tuple[Any, Any, Any, Any, int]:
    """Device functions for totals of type A: shift(a, lanes): that of a lower lane; last(a): that
    of the warp's last lane; publish(words, slot, a); await(words, slot); and the number of words
    that a total takes."""
    if dtype_of(A).kind == "c":
        F = A.underlying_float
        shift_part, last_part, publish_part, await_part, parts = total_exchange(F)

        @device_function
        def shift(a, lanes):
            return A(complex(shift_part(a.real, lanes), shift_part(a.imag, lanes)))

        @device_function
        def last(a):
            return A(complex(last_part(a.real), last_part(a.imag)))

        @device_function
        def publish(words, at, a):
            publish_part(words, at, a.real)
            publish_part(words, at + parts, a.imag)

        @device_function
        def await_(words, at):
            return A(complex(await_part(words, at), await_part(words, at + parts)))

        return shift, last, publish, await_, 2 * parts

    floating = dtype_of(A).kind == "f"
    S = A if floating else types.int64 if A.bitwidth == 64 else types.int32  # what shuffles move

    @device_function
    def shift(a, lanes):
        return A(cuda.shfl_up_sync(FULL, S(a), lanes))

    @device_function
    def last(a):
        return A(cuda.shfl_sync(FULL, S(a), WARP - 1))

    @device_function
    def wait(words, at):
        word = load_relaxed(words, at)
        while word < types.uint64(_READY):
            word = load_relaxed(words, at)
        return word & types.uint64(0xFFFFFFFF)

    if A.bitwidth <= 32:

        @device_function
        def publish(words, at, a):
            store_relaxed(
                words,
                at,
                types.uint64(bits(a) if floating else types.uint32(a)) | types.uint64(_READY),
            )

        @device_function
        def await_(words, at):
            low = types.uint32(wait(words, at))
            return number(low) if floating else A(low)

        return shift, last, publish, await_, 1

    @device_function
    def publish(words, at, a):
        w = bits(a) if floating else types.uint64(a)
        store_relaxed(words, at, (w & types.uint64(0xFFFFFFFF)) | types.uint64(_READY))
        store_relaxed(words, at + 1, (w >> types.uint64(32)) | types.uint64(_READY))

    @device_function
    def await_(words, at):
        low, high = (
            load_relaxed(words, at),
            load_relaxed(words, at + 1),
        )  # both on their way at once
        while low < types.uint64(_READY):
            low = load_relaxed(words, at)
        while high < types.uint64(_READY):
            high = load_relaxed(words, at + 1)
        w = types.uint64((low & types.uint64(0xFFFFFFFF)) | (high << types.uint64(32)))
        return number(w) if floating else A(w)

    return shift, last, publish, await_, 2


def lane_scan(A: Any, combine: Any, lanes: int) -> Any:
    """Device function (a, lane): the a's of this lane and of the lower ones of its group combined.
    A group has `lanes` lanes, a power of two."""
    shift, steps = lane_shuffle(A, cuda.shfl_up_sync), lanes.bit_length() - 1

    @device_function
    def scanned(a, lane):
        for s in range(steps):
            lower = shift(a, 1 << s)
            if lane & (lanes - 1) >= 1 << s:
                a = combine(lower, a)
        return a

    return scanned


@functools.cache
def row_scan(kinds: tuple[str, np.dtype, np.dtype], lanes: int, width: int, vectors: int) -> Any:
    """Device function (v, place, end, carry): scans the elements that `lanes` neighbouring lanes
    hold. v: `vectors` accesses of `width` elements each, those of the lanes side by side. place:
    the number of this lane in its group; end: the last lane of the group, as its number in the
    warp; carry: the total before all of them. Returns the total of everything."""
    _, combine, _, A = scan_functions(*kinds)
    lower, from_lane = lane_shuffle(A, cuda.shfl_up_sync), lane_shuffle(A, cuda.shfl_sync)
    steps = lanes.bit_length() - 1

    @device_function
    def scanned(v, place, end, carry):
        up_to = cuda.local.array(vectors, A)
        for r in range(vectors):  # each access by itself
            for j in range(1, width):
                v[r * width + j] = combine(v[r * width + j - 1], v[r * width + j])
            up_to[r] = v[r * width + width - 1]
        for s in range(steps):
            for r in range(vectors):
                before = lower(up_to[r], 1 << s)
                if place >= 1 << s:
                    up_to[r] = combine(before, up_to[r])
        for r in range(vectors):  # then `carry` goes from one to the next
            before = lower(up_to[r], 1)
            before = carry if place == 0 else combine(carry, before)
            for j in range(width):
                v[r * width + j] = combine(before, v[r * width + j])
            carry = combine(carry, from_lane(up_to[r], end))
        return carry

    return scanned


@functools.cache
def row_writer(A: Any, target: np.dtype, width: int) -> Any:
    """Device function (y, base, first, n, lane, v, e): an access of `width` results v[e], .. of
    type A goes to the row that begins at y[base], from its element `first` on; nothing beyond its
    n. All lanes call it, with accesses side by side.

    Results wider than what was read take several stores. Neighbours then swap halves, so that a
    store of theirs fills whole sectors of 32 bytes, where 16 bytes in every 32 would keep the L2
    cache busy twice.
    """
    per = max(1, min(width, 16 // target.itemsize))  # results that a store takes
    write = writer(target, per)
    if width == per:

        @device_function
        def put(y, base, first, n, lane, v, e):
            if first < n:
                write(y, base + first, v, e)

        return put
    swap = lane_shuffle(A, cuda.shfl_xor_sync)

    @device_function
    def put_swapped(y, base, first, n, lane, v, e):
        odd = lane & 1
        pair = first - odd * width  # where the accesses of both begin
        for q in range(0, width, 2 * per):
            for i in range(q, q + per):
                other = swap(v[e + i] if odd else v[e + per + i], 1)
                if odd:
                    v[e + i] = other
                else:
                    v[e + per + i] = other
            at = pair + q + odd * per
            if pair < n:
                write(y, base + at, v, e + q)
            if pair + width < n:
                write(y, base + at + width, v, e + q + per)

    return put_swapped
