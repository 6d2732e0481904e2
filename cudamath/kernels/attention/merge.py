"""Parts of attention's results: those of parts of the keys are merged, gradients of parts of the
heads that share keys are added."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Output
from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from .problem import HIDDEN, Problem

THREADS = 256
LN2 = math.log(2)
f32 = types.float32


@functools.cache
def attention_merge(dtype: np.dtype) -> Any:
    """y and lse from the parts of several splits, in their order. A thread per number of y."""
    store = codec(dtype)[1]
    ln2 = f32(LN2)

    @cuda.jit
    def attention_merge(parts, marks, y, lse, splits, rows, columns):
        """parts (splits, rows, D), marks (splits, rows, 2): base of exponents of 2, sum of weights;
        y (rows, D), lse (rows,); all flat; splits, rows, columns: int64."""
        n = types.int64(cuda.grid(1))
        row = n // columns
        if row < rows:
            base = f32(HIDDEN)
            for i in range(splits):
                base = max(base, marks[2 * (i * rows + row)])
            total, result = f32(0), f32(0)
            for i in range(splits):
                at = i * rows + row
                if marks[2 * at + 1] > f32(0):
                    weight = math.exp((marks[2 * at] - base) * ln2)
                    total += weight * marks[2 * at + 1]
                    result += weight * parts[at * columns + n - row * columns]
            y[n] = store(result / total if total > f32(0) else f32(0))
            if n == row * columns:
                lse[row] = math.log(total) + base * ln2 if total > f32(0) else f32(math.inf)

    return attention_merge


def merge_launch(p: Problem, parts: Sequence[Any], splits: int) -> Launch:
    """The launch of ``attention_merge`` for parts and marks."""
    lines = p.batch * p.heads * p.rows
    arguments = [*parts, Output(0).flat, Output(1).flat, splits, lines, p.depth]
    return Launch(attention_merge(p.q.dtype), blocks(lines * p.depth, THREADS), THREADS, arguments)


@functools.cache
def attention_sum(dtype: np.dtype) -> Any:
    """Gradients from those of several parts of the heads, in their order. A thread per number."""
    store = codec(dtype)[1]

    @cuda.jit
    def attention_sum(parts, out, splits, size, scale):
        """parts (heads, splits, size), out (heads, size), flat; splits, size: int64."""
        n = types.int64(cuda.grid(1))
        if n < out.size:
            head = n // size
            at = head * splits * size + n - head * size
            total = f32(0)
            for i in range(splits):
                total += parts[at + i * size]
            out[n] = store(total * scale)

    return attention_sum


def sum_launches(p: Problem, parts: Sequence[Any], splits: int) -> list[Launch]:
    """The launches that add up dk, which is to be scaled, and dv."""
    numbers = p.batch * p.shares * p.keys * p.depth
    return [
        Launch(
            attention_sum(p.k.dtype),
            blocks(numbers, THREADS),
            THREADS,
            [part, Output(i).flat, splits, p.keys * p.depth, scale],
        )
        for i, part, scale in ((1, parts[0], p.factors[1]), (2, parts[1], np.float32(1)))
    ]
