"""Copies of matrices whose rows begin anywhere: in the copy each row begins at a multiple of 16
bytes, so that TMA and cp.async can read it.

A product of odd sizes copies both operands in one launch. A thread makes 16 bytes of a row. It
reads their elements one by one, because their alignment is unknown; all reads are in flight
together, and neighbouring threads read neighbouring elements from the same line of the first-level
cache. It stores them by 16 bytes, bytes by 8. It pads the end of a row with zeros.

The floor is reading and writing both matrices.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import ArrayArg, Input, Temp
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.integers import blocks
from ..lib.vector_io import writer

THREADS = 256


class Rows(NamedTuple):
    """A matrix to be copied: its memory and that of the copy; rows, elements of a row, and elements
    from one row to the next."""

    source: ArrayArg
    target: ArrayArg
    count: int
    columns: int
    step: int
    span: int  # elements of the source's memory


def rows_of(source: ArrayArg, target: ArrayArg, view: Layout) -> Rows | None:
    """The matrices of a layout as one matrix of rows; None where rows are not evenly spaced, or
    elements of a row not neighbours."""
    item = view.itemsize
    if view.ndim < 2 or view.strides[-1] != item or not view.size:
        return None
    shape, strides = shapes.collapse(view.shape[:-1], view.strides[:-1])
    if len(shape) > 1:
        return None
    count, step = (shape[0], strides[0]) if shape else (1, 0)
    if step < 0 or step % item:
        return None
    return Rows(
        source,
        target,
        count,
        view.shape[-1],
        step // item,
        (count - 1) * (step // item) + view.shape[-1],
    )


@functools.cache
def pitched(word: np.dtype) -> Any:
    """Elements as the words of their size."""
    width = 16 // word.itemsize
    apart = 1 if SIMULATOR else min(width, 8)  # elements of a store
    store, stored = writer(word, apart), numba_type(word)

    @device_function
    def move(x, y, i, count, columns, step):
        """The 16 bytes number i of y, which has `count` rows."""
        across = (columns + width - 1) // width
        row = types.int64(types.uint32(i) // types.uint32(across))
        column = (i - row * across) * width
        if row < count:
            v = cuda.local.array(width, stored)
            at = row * step + column
            if column + width <= columns:
                for e in range(width):
                    v[e] = x[at + e]
            else:
                for e in range(width):
                    v[e] = stored(0)
                    if column + e < columns:
                        v[e] = x[at + e]
            for e in range(0, width, apart):
                store(y, i * width + e, v, e)

    @cuda.jit
    def pitched(x, y, count, columns, step, x_2, y_2, count_2, columns_2, step_2, first):
        """x, y: memory of a matrix of `count` rows, each `step` elements behind the last, and of
        its copy; x_2 ...: of another one, or none (count_2 0), which all blocks but the `first`
        ones move."""
        block = types.int64(cuda.blockIdx.x)
        if block < first:
            move(x, y, block * THREADS + cuda.threadIdx.x, count, columns, step)
        else:
            move(x_2, y_2, (block - first) * THREADS + cuda.threadIdx.x, count_2, columns_2, step_2)

    return pitched


def fits(rows: Rows, itemsize: int) -> bool:
    """Whether 32 bits number the threads."""
    return rows.count * blocks(rows.columns * itemsize, 16) < 1 << 31


def launch(matrices: Sequence[Rows], itemsize: int) -> Launch:
    """The launch that moves one or two matrices of elements of this size."""
    word = np.dtype(f"u{itemsize}")
    args: list[Any] = []
    grids = []
    for matrix in matrices:
        pieces = matrix.count * blocks(matrix.columns * itemsize, 16)
        grids.append(blocks(pieces, THREADS))
        args += [
            matrix.source.view((matrix.span,), None, word),
            matrix.target.view((pieces * 16 // itemsize,), None, word),
            *map(np.int64, (matrix.count, matrix.columns, matrix.step)),
        ]
    if len(matrices) == 1:
        args += [args[0], args[1], *map(np.int64, (0, 1, 0))]
    return Launch(pitched(word), sum(grids), THREADS, [*args, np.int64(grids[0])])


def dense(
    a: Layout, b: Layout, ready: list[bool]
) -> tuple[list[Layout], list[Launch], list[ArrayArg], list[Layout]]:
    """(scratch, steps, arguments, operands): operands that are not `ready` are made contiguous in
    scratch memory."""
    temps: list[Layout] = []
    steps: list[Launch] = []
    arguments, operands = [Input(0), Input(1)], [a, b]
    for i, layout in enumerate((a, b)):
        if not ready[i]:
            arguments[i], operands[i] = Temp(len(temps)), layout.like()
            temps.append(operands[i])
            steps += copy_part(whole(Input(i), layout), whole(arguments[i], operands[i]))
    return temps, steps, arguments, operands
