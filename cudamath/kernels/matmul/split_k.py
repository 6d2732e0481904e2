"""Split-k: products of parts of the inner dimension, and the sum of the parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.plan_edit import embed
from .problem import Product


def in_parts(a: Layout, b: Layout, count: int, tiles: Callable[..., Launch]) -> Plan:
    """Parts of k as a batch of products, by that launch (arguments as of simt.block), and their
    sum, in the order of k."""
    p = Product(a, b)
    k, rest = divmod(p.k, count)
    x = a.view((count, p.m, k), (k * p.strides_a[2], *p.strides_a[1:]))
    y = b.view((count, k, p.n), (k * p.strides_b[1], *p.strides_b[1:]))
    launches = [tiles(Product(x, y), x, y, (0, 0, 0), count)]
    if rest:  # what is left of k, fewer steps than there are parts: a part of its own
        x, y = a.view((p.m, rest), p.strides_a[1:]), b.view((rest, p.n), p.strides_b[1:])
        behind = (
            count * k * p.strides_a[2],
            count * k * p.strides_b[1],
            count * p.m * p.strides_c[1],
        )
        launches.append(tiles(Product(x, y), x, y, behind, 1))
    return Plan(
        [p.out],
        [
            *embed(launches, {0: Input(0), 1: Input(1)}, Temp(0), 0),
            Launch(
                sum_parts(a.dtype, a.dtype),
                blocks(p.out.size, 256),
                256,
                [
                    Temp(0).flat,
                    Output(0).flat,
                    np.int64(len(launches) + count - 1),
                    np.int64(p.out.size),
                ],
            ),
        ],
        [a.like((len(launches) + count - 1, p.m, p.n))],
    )


@functools.cache
def sum_parts(part: np.dtype, dtype: np.dtype) -> Any:
    """C = sum of its parts, in ascending order of k."""
    _, _, S = codec(part)
    _, store, T = codec(dtype)

    @cuda.jit
    def sum_parts(parts, out, splits, size):
        """parts: (batch, splits, size) float32 or int32, out: (batch, size), both flat. A thread an
        element."""
        i = cuda.grid(1)
        if i < out.size:
            batch = i // size
            at = batch * (splits - 1) * size + i
            total = S(0)
            for _ in range(splits):
                total = S(total + parts[at])
                at += size
            out[i] = store(T(total))

    return sum_parts
