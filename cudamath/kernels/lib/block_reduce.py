"""Sums, maxima and minima over the threads of a group."""

from __future__ import annotations

import functools
import math

from ..compiler.decorators import FULL, WARP, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, libdevice, types


@functools.cache
def group_sum(threads: int, T):
    """Device function: v of each thread -> the sum over the thread's group, the same bits in every
    thread."""
    return _reduction(threads, T, add, T(0))


@functools.cache
def group_max(threads: int, T):
    """Device function: v of each thread -> the maximum over the thread's group."""
    return _reduction(threads, T, larger, T(-math.inf))


@functools.cache
def group_min(threads: int, T):
    """Device function: v of each thread -> the minimum over the thread's group."""
    return _reduction(threads, T, smaller, T(math.inf))


@functools.cache
def group_sums(threads: int, T):
    """Device function (a, b, turn): the sums of a and of b over the thread's group, together.
    `turn` must differ by one from call to call: calls take turns with two pieces of shared memory,
    and so need one barrier each instead of two."""
    warps = threads // WARP
    alone = _reduction(min(threads, WARP), T, add, T(0))

    @device_function
    def within_warp(a, b, turn):
        return alone(a), alone(b)

    @device_function
    def within_block(a, b, turn):
        parts = cuda.shared.array((2, 2, WARP), T)
        a, b = alone(a), alone(b)
        lane = cuda.threadIdx.x % WARP
        half = turn % 2
        if lane == 0:
            parts[half, 0, cuda.threadIdx.x // WARP] = a
            parts[half, 1, cuda.threadIdx.x // WARP] = b
        cuda.syncthreads()
        return (
            alone(parts[half, 0, lane] if lane < warps else T(0)),
            alone(parts[half, 1, lane] if lane < warps else T(0)),
        )

    return within_block if threads > WARP else within_warp


@functools.cache
def group_total(threads: int, T):
    """Device function (v, turn): the sum of v over the thread's group, in every thread. `turn` must
    alternate, as in group_sums; here the warps' sums meet in as many steps as there are warps to
    meet, not in those of a whole warp."""
    warps = threads // WARP
    alone, last = (
        _reduction(min(threads, WARP), T, add, T(0)),
        _reduction(max(warps, 1), T, add, T(0)),
    )

    @device_function
    def within_warp(v, turn):
        return alone(v)

    @device_function
    def within_block(v, turn):
        parts = cuda.shared.array((2, WARP), T)
        v = alone(v)
        half = turn % 2
        if cuda.threadIdx.x % WARP == 0:
            parts[half, cuda.threadIdx.x // WARP] = v
        cuda.syncthreads()
        return last(parts[half, cuda.threadIdx.x % warps])

    return within_block if threads > WARP else within_warp


@functools.cache
def inverse_root(T):
    """Device function: 1 / sqrt(v) within 2 units in the last place, as the hardware finds it. A
    root and a division that are rounded exactly take some sixty instructions of float32, which
    every thread of a row pays for: as many as all the rest where a thread has four numbers."""

    @device_function
    def plainly(v):
        return T(1) / math.sqrt(v)

    return plainly if SIMULATOR else libdevice.rsqrtf if T == types.float32 else libdevice.rsqrt


@device_function
def add(a, b):
    return a + b


@device_function
def larger(a, b):  # NaN wins
    return a if a >= b or a != a else b


@device_function
def smaller(a, b):
    return a if a <= b or a != a else b


def _reduction(threads: int, T, combine, neutral):
    steps = (min(threads, WARP) - 1).bit_length()

    @device_function
    def within_warp(v):
        for step in range(steps):
            v = combine(v, cuda.shfl_xor_sync(FULL, v, 1 << step))
        return v

    if threads <= WARP:
        return within_warp
    warps = threads // WARP

    @device_function
    def within_block(v):
        parts = cuda.shared.array(WARP, T)
        v = within_warp(v)
        lane = cuda.threadIdx.x % WARP
        if lane == 0:
            parts[cuda.threadIdx.x // WARP] = v
        cuda.syncthreads()
        v = within_warp(parts[lane] if lane < warps else neutral)
        cuda.syncthreads()  # all threads have read `parts`: the next reduction may write it
        return v

    return within_block
