"""Overlap-add of planes along the depth: each plane of x adds T planes to y, which lie `apart` from
each other and `step` further for the next plane.

    y[n, k, z] = sum over t of planes[n, d, k, t]
                 with d * step + t * apart - before = z,   0 <= d < D

It is the last step of a transposed convolution of volumes (ml/conv_transpose.py): one of images
gives the planes, all taps of a filter along the depth at once. `overlap_take` is the reverse: it
reads the plane of y that each of the planes met. It is the gradient, and its gradient is
`overlap_add`.

One thread makes one element of the result; neighbours read side by side along the columns. A sum
issues the loads of all its planes before it adds the first: where a tap met none, a plane nearby is
read, and not counted. Order: t ascending. The floor is memory: read the planes, write y.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.strided_index import index_walker

THREADS = 256


@functools.cache
def adding(dtype: np.dtype, taps: int, large: bool) -> Any:
    load, store, C = codec(dtype)
    T, locate = types.uint64 if large else types.uint32, index_walker(0, 5, not large)

    @cuda.jit
    def overlap_add(planes, y, depth, step, apart, before):
        """planes: (N * depth, K * taps, H, W), any strides; y: (N, K, Z, H, W). One thread per
        element of y."""
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, k, z, h, w = locate(y, i)
        total = C(0)
        for t in range(taps):
            place = z + before - t * apart
            d = types.int64(min(T(max(place, 0)) // T(step), T(depth - 1)))
            value = C(load(planes[n * depth + d, k * taps + t, h, w]))
            total += value if d * step == place else C(0)
        y[n, k, z, h, w] = store(total)

    return overlap_add


@functools.cache
def taking(taps: int, large: bool) -> Any:
    locate = index_walker(0, 4, not large)

    @cuda.jit
    def overlap_take(y, planes, depth, step, apart, before):
        """y: (N, K, Z, H, W), any strides; planes: (N * depth, K * taps, H, W). One thread per
        element of planes."""
        i = cuda.grid(1)
        if i >= planes.size:
            return
        m, c, h, w = locate(planes, i)
        n, k = m // depth, c // taps
        z = (m - n * depth) * step + (c - k * taps) * apart - before
        if z >= 0 and z < y.shape[2]:
            planes[m, c, h, w] = y[n, k, z, h, w]
        else:
            planes[m, c, h, w] = 0

    return overlap_take


def overlap_add(
    planes: Layout,
    *,
    shape: tuple[int, ...],
    depth: int,
    taps: int,
    step: int,
    apart: int,
    before: int,
) -> Plan:
    """planes (N * depth, K * taps, H, W) -> y of `shape` (N, K, Z, H, W)."""
    y = planes.like(shape)
    if not y.size:
        return Plan([y], [])
    kernel = adding(
        planes.dtype, taps if depth else 0, max(y.size, shape[2] + before, step) >= 1 << 31
    )
    return Plan(
        [y],
        [
            Launch(
                kernel,
                blocks(y.size, THREADS),
                THREADS,
                [Input(0), Output(0), depth, step, apart, before],
            )
        ],
    )


def overlap_take(y: Layout, *, depth: int, taps: int, step: int, apart: int, before: int) -> Plan:
    """y (N, K, Z, H, W) -> planes (N * depth, K * taps, H, W)."""
    planes = y.like((y.shape[0] * depth, y.shape[1] * taps, *y.shape[3:]))
    kernel = taking(taps, planes.size >= 1 << 31)
    return Plan(
        [planes],
        [
            Launch(
                kernel,
                blocks(planes.size, THREADS),
                THREADS,
                [Input(0), Output(0), depth, step, apart, before],
            )
        ]
        if planes.size
        else [],
    )
