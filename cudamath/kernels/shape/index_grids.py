"""Arrays that are made of their indices alone: powers of evenly spaced exponents, windows, the
places of a triangle.

    powers      y[i] = base ** (start + i step), the last one base ** stop: logspace
    window      y[i] = f(t), t = (1 - n + 2 i) / (n - 1) from -1 to 1: hanning, hamming, blackman,
                bartlett; kaiser
    triangle    the rows and the columns of all elements on one side of a diagonal, in C order

Such arrays are short, and what they cost is launches: each is one. The floor is one write an
element. In a triangle nothing is counted or searched: how many elements lie in the rows above is a
sum of an arithmetic series that is cut off at 0 and at the matrix' width, so a block that owns
ITEMS x THREADS neighbouring columns of a row knows where to write.
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Output, Scalar
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda
from ..compiler.storage_types import numba_type
from ..copy.casts import converter
from ..lib.integers import blocks

THREADS = 128
ITEMS = 4  # columns of a triangle a thread, THREADS apart
MOST_ROWS = 65_535  # of a grid's second dimension


@functools.cache
def powers_line(kind: np.dtype, dtype: np.dtype) -> Any:
    """y[i] = base ** (start + i * step) for i < count, base ** stop from there on: computed in
    ``kind``, float32 or float64."""
    T, round_to = numba_type(kind), converter(kind, dtype)

    @cuda.jit
    def powers_line(
        y, start, step, stop, base, count
    ):  # y: (n,) dtype; start, step, stop, base: T; count: int64
        i = cuda.grid(1)
        if i < y.size:
            y[i] = round_to(base ** (start + T(i) * step if i < count else stop))

    return powers_line


@functools.cache
def window_line(kind: str, dtype: np.dtype) -> Any:
    """One of the classic windows: "hanning", "hamming", "blackman" or "bartlett"; float32 or
    float64."""
    T = numba_type(dtype)
    mean, first, second = {
        "hanning": (0.5, 0.5, 0.0),
        "hamming": (0.54, 0.46, 0.0),
        "blackman": (0.42, 0.5, 0.08),
        "bartlett": (1.0, 0.0, 0.0),
    }[kind]
    pi = T(math.pi)
    mean, first, second = T(mean), T(first), T(second)

    @cuda.jit
    def window_line(y):  # y: (n,)
        i = cuda.grid(1)
        n = y.size
        if i < n:
            t = T(1 - n + 2 * i) / T(max(n - 1, 1))
            if kind == "bartlett":
                v = mean - abs(t)
            elif kind == "blackman":
                v = mean + first * math.cos(pi * t) + second * math.cos(T(2) * pi * t)
            else:
                v = mean + first * math.cos(pi * t)
            y[i] = v

    return window_line


@device_function
def bessel_0(x):
    """I0(x), the sum of (x / 2)^2k / k!^2: no term is negative, so nothing is lost; about x + 20 of
    them count."""
    quarter, term, total, k = x * x * 0.25, 1.0, 1.0, 1.0
    while term > total * 1e-17:
        term *= quarter / (k * k)
        total += term
        k += 1.0
    return total


@functools.cache
def kaiser_line(dtype: np.dtype) -> Any:
    """I0(beta sqrt(1 - t^2)) / I0(beta), in float64: its parts may be too large for float32."""
    T = numba_type(dtype)

    @cuda.jit
    def kaiser_line(y, beta):  # y: (n,); beta: float64
        i = cuda.grid(1)
        n = y.size
        if i < n:
            t = float(1 - n + 2 * i) / float(max(n - 1, 1))
            y[i] = T(bessel_0(beta * math.sqrt(max(1.0 - t * t, 0.0))) / bessel_0(beta))

    return kaiser_line


@device_function
def cut_off(x, columns):
    """Sum of min(max(i, 0), columns) over all i <= x."""
    inside = min(max(x, 0), columns)
    return inside * (inside + 1) // 2 + max(x - columns, 0) * columns


@functools.cache
def triangle_places(upper: bool) -> Any:
    """The elements of a matrix on and below, or on and above, diagonal k."""

    @cuda.jit
    def triangle_places(
        row_of, column_of, rows, columns, k
    ):  # row_of, column_of: (elements,) int64
        first = cuda.blockIdx.x * (THREADS * ITEMS) + cuda.threadIdx.x
        for row in range(cuda.blockIdx.y, rows, cuda.gridDim.y):
            if upper:  # row r has columns - min(max(r + k, 0), columns) elements
                begin, end = min(max(row + k, 0), columns), columns
                at = row * columns - (cut_off(row - 1 + k, columns) - cut_off(k - 1, columns))
            else:  # min(max(r + k + 1, 0), columns)
                begin, end = 0, min(max(row + k + 1, 0), columns)
                at = cut_off(row + k, columns) - cut_off(k, columns)
            for i in range(ITEMS):
                column = begin + first + i * THREADS
                if column < end:
                    row_of[at + column - begin] = row
                    column_of[at + column - begin] = column

    return triangle_places


# -------------------- planners


def powers(*, layout: Layout, device: int, count: int, kind: np.dtype) -> Plan:
    """A new vector; scalars: start, step, stop, base in ``kind``, the dtype of the exponents."""
    return Plan(
        [layout],
        [
            Launch(
                powers_line(kind, layout.dtype),
                blocks(layout.size, THREADS),
                THREADS,
                [Output(0), *(Scalar(i, kind) for i in range(4)), count],
            )
        ],
    )


def window(*, layout: Layout, device: int, kind: str) -> Plan:
    """A new vector."""
    return Plan(
        [layout],
        [
            Launch(
                window_line(kind, layout.dtype), blocks(layout.size, THREADS), THREADS, [Output(0)]
            )
        ],
    )


def kaiser(*, layout: Layout, device: int) -> Plan:
    """A new vector. Scalar: beta."""
    return Plan(
        [layout],
        [
            Launch(
                kaiser_line(layout.dtype),
                blocks(layout.size, THREADS),
                THREADS,
                [Output(0), Scalar(0, np.float64)],
            )
        ],
    )


def triangle(*, layout: Layout, device: int, rows: int, columns: int, k: int, upper: bool) -> Plan:
    """Two vectors of this layout: the rows and the columns of the elements; -rows <= k <=
    columns."""
    grid = blocks(columns, THREADS * ITEMS), min(rows, MOST_ROWS)
    steps = (
        [Launch(triangle_places(upper), grid, THREADS, [Output(0), Output(1), rows, columns, k])]
        if layout.size
        else []
    )
    return Plan([layout, layout], steps, together=True)
