"""Copies between layouts of which not both are contiguous. The choice: dispatch.py."""

import functools
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import cuda
from ..elementwise.launches import plain
from ..lib.integers import blocks
from ..lib.transpose_tiles import Operand, Squares
from .casts import converter
from .parts import THREADS, index_type, part_view
from .problem import CopyProblem


@functools.cache
def strided(rank: int, source: np.dtype, target: np.dtype, index: Any) -> Any:
    """Any strides, 1 to 4 dimensions; thread i moves the i-th element in row-major order. ``index``
    is uint32, or uint64 for 2**32 elements and more: 64-bit divisions cost several times as much.
    """
    convert = converter(source, target)

    @cuda.jit
    def strided(x, y):  # x, y: same shape, `rank` dimensions
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        # `rank` is a constant: Numba drops the branches of the other ranks before it looks at their
        # types.
        if rank == 1:
            if i < index(y.shape[0]):
                y[i] = convert(x[i])
        elif rank == 2:
            n = index(y.shape[1])
            j = i // n
            if j < index(y.shape[0]):
                y[j, i - j * n] = convert(x[j, i - j * n])
        elif rank == 3:
            n = index(y.shape[2])
            m = index(y.shape[1])
            j = i // n
            k = j // m
            if k < index(y.shape[0]):
                y[k, j - k * m, i - j * n] = convert(x[k, j - k * m, i - j * n])
        else:
            n = index(y.shape[3])
            m = index(y.shape[2])
            o = index(y.shape[1])
            j = i // n
            k = j // m
            p = k // o
            if p < index(y.shape[0]):
                y[p, k - p * o, j - k * m, i - j * n] = convert(
                    x[p, k - p * o, j - k * m, i - j * n]
                )

    return strided


# -------------------- launches


def by_tiles(p: CopyProblem) -> Launch | None:
    """Version "tiled". None where both sides run along the same axis."""
    extents = [
        max(shapes.byte_bounds(p.shape, strides, word.itemsize)[1] // word.itemsize, 1)
        for strides, word in zip(p.strides, p.words, strict=True)
    ]
    source, target = (
        Operand(part_view(argument, (extent,), None, word, offset), word, strides, p.aligned)
        for argument, extent, word, offset, strides in zip(
            (p.source, p.target), extents, p.words, p.offsets, p.strides, strict=True
        )
    )
    squares = Squares.of([source], target, p.shape)
    return squares and squares.launch(converter(*p.words), ("x",), squares.version)


def by_strides(p: CopyProblem) -> Launch:
    """Version "strided"."""
    kernel = strided(len(p.shape), *p.words, index_type(p.size))
    return Launch(kernel, blocks(p.size, THREADS), THREADS, p.views)


def by_elements(p: CopyProblem) -> Launch:
    """Version "elementwise"."""
    return plain(converter(*p.words), (True,), p.views[:1], p.views[1], p.shape)
