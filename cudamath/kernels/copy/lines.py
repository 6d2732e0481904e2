"""Copies of straight lines: both sides are contiguous. The choice: dispatch.py.

``line``         Words, four independent loads in flight a thread.
``line_vector``  The same by accesses of 16 bytes, where both sides are aligned to that.
``line_cast``    Such accesses, and a cast.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import SIMULATOR, cuda
from ..lib.integers import blocks
from .casts import converter
from .parts import IN_FLIGHT, THREADS
from .problem import CopyProblem

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector


# -------------------- kernels


@functools.cache
def line(source: np.dtype, target: np.dtype) -> Any:
    """(n,) -> (n,), both contiguous. Block b moves elements 1024 b ...; thread t takes t, t + 256,
    t + 512, t + 768."""
    convert = converter(source, target)

    @cuda.jit
    def line(x, y):  # x: (n,) source, y: (n,) target
        first = cuda.blockIdx.x * (THREADS * IN_FLIGHT) + cuda.threadIdx.x
        if (
            first + 3 * THREADS < y.size
        ):  # all four loads go out before the first store waits for one
            a = x[first]
            b = x[first + THREADS]
            c = x[first + 2 * THREADS]
            d = x[first + 3 * THREADS]
            y[first] = convert(a)
            y[first + THREADS] = convert(b)
            y[first + 2 * THREADS] = convert(c)
            y[first + 3 * THREADS] = convert(d)
        else:
            for i in range(first, min(first + 4 * THREADS, y.size), THREADS):
                y[i] = convert(x[i])

    return line


@functools.cache
def line_vector() -> Any:
    """(n,) -> (n,) words of 8 bytes, both contiguous, 16-byte aligned, n even: a thread moves two
    neighbours by one wide load and one wide store. There are threads enough to cover the latency:
    four accesses each take 5 % longer (1 GiB: 527 us, one access 504, the driver's own copy 508).
    """

    @cuda.jit
    def line_vector(x, y):
        i = 2 * (cuda.blockIdx.x * THREADS + cuda.threadIdx.x)
        if i < y.size:
            store_vector(y, i, load_vector(x, i, 2))

    return line_vector


@functools.cache
def line_cast(source: np.dtype, target: np.dtype) -> Any:
    """(n,) -> (n,) as line_vector, four neighbours at a time, which a thread does 4 times: the
    accesses of the narrower array are less than 16 bytes."""
    convert = converter(source, target)

    @cuda.jit
    def line_cast(x, y):  # x: (n,) source, y: (n,) target
        first = cuda.blockIdx.x * (THREADS * IN_FLIGHT) + cuda.threadIdx.x
        last = y.size // 4
        if first + 3 * THREADS < last:
            a = load_vector(x, first * 4, 4)
            b = load_vector(x, (first + THREADS) * 4, 4)
            c = load_vector(x, (first + 2 * THREADS) * 4, 4)
            d = load_vector(x, (first + 3 * THREADS) * 4, 4)
            store_vector(y, first * 4, (convert(a[0]), convert(a[1]), convert(a[2]), convert(a[3])))
            store_vector(
                y,
                (first + THREADS) * 4,
                (convert(b[0]), convert(b[1]), convert(b[2]), convert(b[3])),
            )
            store_vector(
                y,
                (first + 2 * THREADS) * 4,
                (convert(c[0]), convert(c[1]), convert(c[2]), convert(c[3])),
            )
            store_vector(
                y,
                (first + 3 * THREADS) * 4,
                (convert(d[0]), convert(d[1]), convert(d[2]), convert(d[3])),
            )
        else:
            for i in range(first, min(first + 4 * THREADS, last), THREADS):
                for k in range(i * 4, (i + 1) * 4):
                    y[k] = convert(x[k])

    return line_cast


# -------------------- launches


def by_words(p: CopyProblem) -> Launch:
    """Version "line"."""
    return Launch(line(*p.words), blocks(p.size, THREADS * IN_FLIGHT), THREADS, p.views)


def by_vectors(p: CopyProblem) -> Launch:
    """Version "line_vector": two words an access."""
    return Launch(line_vector(), blocks(p.size, THREADS * 2), THREADS, p.views)


def by_casts(p: CopyProblem) -> Launch:
    """Version "line_cast": four elements an access of the wider array."""
    return Launch(line_cast(*p.words), blocks(p.size, THREADS * IN_FLIGHT * 4), THREADS, p.views)
