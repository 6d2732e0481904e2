"""Pooling of volumes: one thread per result walks its window of planes, rows and columns.

A window of a volume can be taken of every plane and then along the depth (`ml/pool_nd.py`, by the
kernels of dispatch.py): two launches, and what the first leaves is written and read again. Here it
is one of each: the floor is bytes(x) + bytes(y) and one launch, which for small volumes is all
there is. The window is a constant, so its loops unroll, and neighbouring threads read neighbouring
windows of a row. On an H200 that holds up to a million elements: 2^26 take 169 us, and 126 in two
launches.

``pool_bins`` divides axes into bins that need not be equally long (adaptive pooling), of volumes or
images.
"""

import functools
from typing import Any, NamedTuple

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
Three = tuple[int, int, int]


class Window(NamedTuple):
    """Along depth, rows and columns."""

    kernel: Three
    stride: Three
    padding: Three
    dilation: Three


@functools.cache
def pool_volumes(kind: str, dtype: np.dtype, window: Window, large: bool) -> Any:
    """kind: "max"; "mean", "padded mean" (the padding counts) or "sum / 7" (divided by that)."""
    load, store, C = codec(dtype)
    locate = index_walker(0, 5, not large)
    (planes, rows, columns), stride, padding, dilation = window
    averaging, padded = kind != "max", kind == "padded mean"
    number = int(kind[6:]) if kind.startswith("sum / ") else 0
    deep, down, right = stride
    front, top, left = padding
    plane_step, row_step, column_step = dilation
    start = C(0) if averaging else C(-np.inf)

    @cuda.jit
    def pool_volumes(x, y):  # x: (N, C, D, H, W), any strides; y: (N, C, O, P, Q)
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, c, o, p, q = locate(y, i)
        d0, h0, w0 = o * deep - front, p * down - top, q * right - left
        best = start
        for a in range(planes):
            d = d0 + a * plane_step
            if d >= 0 and d < x.shape[2]:
                for r in range(rows):
                    h = h0 + r * row_step
                    if h >= 0 and h < x.shape[3]:
                        for s in range(columns):
                            w = w0 + s * column_step
                            if w >= 0 and w < x.shape[4]:
                                value = C(load(x[n, c, d, h, w]))
                                if averaging:
                                    best += value
                                elif (
                                    value > best or value != value
                                ):  # NaN wins, as in NumPy and torch
                                    best = value
        if averaging:
            D, H, W = x.shape[2], x.shape[3], x.shape[4]
            if number:
                places = types.int64(number)
            elif padded:
                places = (
                    (min(d0 + planes, D + front) - d0)
                    * (min(h0 + rows, H + top) - h0)
                    * (min(w0 + columns, W + left) - w0)
                )
            else:
                places = (
                    (min(d0 + planes, D) - max(d0, 0))
                    * (min(h0 + rows, H) - max(h0, 0))
                    * (min(w0 + columns, W) - max(w0, 0))
                )
            best = C(best / C(places))
        y[n, c, o, p, q] = store(best)

    return pool_volumes


@functools.cache
def pool_bins(kind: str, dtype: np.dtype, large: bool) -> Any:
    """Bins of a given number: bin p of an axis of length H divided into P has the places p H / P,
    rounded down, up to (p + 1) H / P, rounded up. kind: "max" or "mean"."""
    load, store, C = codec(dtype)
    averaging, locate = kind == "mean", index_walker(0, 5, not large)
    start = C(0) if averaging else C(-np.inf)

    @cuda.jit
    def pool_bins(x, y):  # x: (N, C, D, H, W), any strides; y: (N, C, O, P, Q)
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, c, o, p, q = locate(y, i)
        D, H, W = x.shape[2], x.shape[3], x.shape[4]
        d0, d1 = o * D // y.shape[2], ((o + 1) * D + y.shape[2] - 1) // y.shape[2]
        h0, h1 = p * H // y.shape[3], ((p + 1) * H + y.shape[3] - 1) // y.shape[3]
        w0, w1 = q * W // y.shape[4], ((q + 1) * W + y.shape[4] - 1) // y.shape[4]
        best = start
        for d in range(d0, d1):
            for h in range(h0, h1):
                for w in range(w0, w1):
                    value = C(load(x[n, c, d, h, w]))
                    if averaging:
                        best += value
                    elif value > best or value != value:
                        best = value
        if averaging:
            best = C(best / C((d1 - d0) * (h1 - h0) * (w1 - w0)))
        y[n, c, o, p, q] = store(best)

    return pool_bins


def adaptive_pool(x: Layout, *, size: tuple[int, ...], kind: str) -> Plan:
    """x (N, C, H, W) or (N, C, D, H, W), size of the result along the axes behind C; bins are not
    empty."""
    y = x.like((*x.shape[:2], *size))

    def volumes(argument: Any, a: Layout) -> Any:  # images are volumes of one plane
        more = 5 - a.ndim
        return argument.view(
            (*a.shape[:2], *(1,) * more, *a.shape[2:]),
            (*a.strides[:2], *(0,) * more, *a.strides[2:]),
        )

    return Plan(
        [y],
        [
            Launch(
                pool_bins(kind, x.dtype, y.size >= 1 << 31),
                blocks(y.size, THREADS),
                THREADS,
                [volumes(Input(0), x), volumes(Output(0), y)],
            )
        ],
    )


def _pooled(x: Layout, size: Three, kind: str, window: Window) -> Plan:
    y = x.like((*x.shape[:2], *size))
    kernel = pool_volumes(kind, x.dtype, window, y.size >= 1 << 31)
    return Plan([y], [Launch(kernel, blocks(y.size, THREADS), THREADS, [Input(0), Output(0)])])


def max_pool3d(
    x: Layout, *, size: Three, kernel: Three, stride: Three, padding: Three, dilation: Three
) -> Plan:
    """x (N, C, D, H, W) -> maxima (N, C, O, P, Q)."""
    return _pooled(x, size, "max", Window(kernel, stride, padding, dilation))


def avg_pool3d(
    x: Layout,
    *,
    size: Three,
    kernel: Three,
    stride: Three,
    padding: Three,
    count_include_pad: bool,
    divisor: int,
) -> Plan:
    """x (N, C, D, H, W) -> means (N, C, O, P, Q); divisor: what is divided by, 0 for the number of
    positions."""
    kind = f"sum / {divisor}" if divisor else "padded mean" if count_include_pad else "mean"
    return _pooled(x, size, kind, Window(kernel, stride, padding, (1, 1, 1)))
