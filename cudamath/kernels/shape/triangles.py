"""Matrices of which only a band of diagonals is filled: eye, tri, tril, triu.

    out[r, c] = x[r, c], or 1,   where low <= c - r <= high,   else 0

Diagonal 0 is the main one, those above it count up. The floor is one write per element (and one
read inside the band): a block owns ITEMS x THREADS neighbouring columns of a row, so no element
number is divided, and elements outside the band are not read. Ones of rows that divide into 16
bytes are written by 16 bytes.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.integers import blocks

if not SIMULATOR:
    from ..ptx.vector_access import store_vector

THREADS = 128
ITEMS = 4  # columns per thread, THREADS apart, so that several loads are in flight
MOST_ROWS = 65_535  # of a grid's second dimension


@functools.cache
def band_rows(dtype: np.dtype) -> Any:
    """x, out: (matrices * rows, columns). What is stored of 16-bit floats is moved as it is."""
    zero = np.zeros((), dtype)[()]

    @cuda.jit
    def band_rows(x, out, rows, low, high):
        first = cuda.blockIdx.x * (THREADS * ITEMS) + cuda.threadIdx.x
        for line in range(cuda.blockIdx.y, out.shape[0], cuda.gridDim.y):
            row = line % rows
            for i in range(ITEMS):
                column = first + i * THREADS
                if column < out.shape[1]:
                    if low <= column - row <= high:
                        out[line, column] = x[line, column]
                    else:
                        out[line, column] = zero

    return band_rows


@functools.cache
def band_ones(dtype: np.dtype, one: Any) -> Any:
    """out: (rows, columns); one: the stored form of 1."""
    zero = np.zeros((), dtype)[()]

    @cuda.jit
    def band_ones(out, low, high):
        first = cuda.blockIdx.x * (THREADS * ITEMS) + cuda.threadIdx.x
        for row in range(cuda.blockIdx.y, out.shape[0], cuda.gridDim.y):
            for i in range(ITEMS):
                column = first + i * THREADS
                if column < out.shape[1]:
                    out[row, column] = one if low <= column - row <= high else zero

    return band_ones


@functools.cache
def band_ones_wide(size: int, one: int) -> Any:
    """The same, 16 bytes a store, several rows per thread. out: (rows * columns * size / 8,)
    uint64; size: bytes of an element, one: its bits of 1."""
    each = 8 // size  # elements of a word
    bit, nothing = types.uint64(one), types.uint64(0)

    @cuda.jit
    def band_ones_wide(out, rows, columns, low, high):
        words = columns // each
        first = (cuda.blockIdx.x * THREADS + cuda.threadIdx.x) * 2
        if first < words:
            for row in range(cuda.blockIdx.y, rows, cuda.gridDim.y):
                a = b = nothing
                for i in range(each):
                    distance = first * each + i - row
                    if low <= distance <= high:
                        a |= bit << types.uint64(8 * size * i)
                    if low <= distance + each <= high:
                        b |= bit << types.uint64(8 * size * i)
                store_vector(out, row * words + first, (a, b))

    return band_ones_wide


def stored_type(dtype: np.dtype) -> np.dtype:
    """The type in which a kernel sees elements that it only moves."""
    if dtype.kind in "iuc" or dtype in (np.float32, np.float64):
        return dtype
    return np.dtype(f"u{dtype.itemsize}")


def grid_of_rows(rows: int, columns: int) -> tuple[int, int]:
    return blocks(columns, THREADS * ITEMS), min(rows, MOST_ROWS)


def band(x: Layout, *, low: int, high: int) -> Plan:
    """The band of contiguous matrices (..., rows, columns)."""
    out = x.like()
    if not out.size:
        return Plan([out], [])
    rows, columns = x.shape[-2:]
    lines = x.size // columns
    kernel = band_rows(stored_type(x.dtype))
    return Plan(
        [out],
        [
            Launch(
                kernel,
                grid_of_rows(lines, columns),
                THREADS,
                [
                    Input(0).view((lines, columns)),
                    Output(0).view((lines, columns)),
                    rows,
                    low,
                    high,
                ],
            )
        ],
    )


def ones(*, layout: Layout, device: int, low: int, high: int) -> Plan:
    """A new matrix of ones on a band."""
    if not layout.size:
        return Plan([layout], [])
    stored = stored_type(layout.dtype)
    one = np.ones((), layout.dtype).reshape(1).view(stored)[0]
    rows, columns = layout.shape
    size = layout.itemsize
    if size <= 8 and columns * size % 16 == 0 and not SIMULATOR:
        word = np.dtype(np.uint64)
        return Plan(
            [layout],
            [
                Launch(
                    band_ones_wide(size, int(one.reshape(1).view(f"u{size}")[0])),
                    (blocks(columns * size // 16, THREADS), min(blocks(rows, ITEMS), MOST_ROWS)),
                    THREADS,
                    [Output(0).view((layout.nbytes // 8,), dtype=word), rows, columns, low, high],
                )
            ],
        )
    return Plan(
        [layout],
        [
            Launch(
                band_ones(stored, one), grid_of_rows(*layout.shape), THREADS, [Output(0), low, high]
            )
        ],
    )
