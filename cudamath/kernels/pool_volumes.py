"""Pooling of volumes: one thread a result walks its window of planes, rows and columns.

A window of a volume can be taken of every plane and then along the depth (`ml/pool_nd.py`, by the kernels of pool.py): two
launches, and what the first leaves is written and read again. Here it is one of each: the floor is bytes(x) + bytes(y) and one
launch, which for small volumes is all there is. The window is a constant, so its loops unroll, and neighbouring threads read
neighbouring windows of a row.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan
from .build import blocks, codec
from .lazy import cuda, types

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
    T = types.uint64 if large else types.uint32
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
        rest = T(i) // T(y.shape[4])
        q = types.int64(T(i) - rest * T(y.shape[4]))
        line = rest // T(y.shape[3])
        p = types.int64(rest - line * T(y.shape[3]))
        volume = line // T(y.shape[2])
        o = types.int64(line - volume * T(y.shape[2]))
        n = volume // T(y.shape[1])
        c = types.int64(volume - n * T(y.shape[1]))
        n = types.int64(n)
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
                                elif value > best or value != value:  # NaN wins, as in NumPy and torch
                                    best = value
        if averaging:
            D, H, W = x.shape[2], x.shape[3], x.shape[4]
            if number:
                places = types.int64(number)
            elif padded:
                places = ((min(d0 + planes, D + front) - d0) * (min(h0 + rows, H + top) - h0)
                          * (min(w0 + columns, W + left) - w0))
            else:
                places = ((min(d0 + planes, D) - max(d0, 0)) * (min(h0 + rows, H) - max(h0, 0))
                          * (min(w0 + columns, W) - max(w0, 0)))
            best = C(best / C(places))
        y[n, c, o, p, q] = store(best)

    return pool_volumes


def _pooled(x: Layout, size: Three, kind: str, window: Window) -> Plan:
    y = x.like((*x.shape[:2], *size))
    kernel = pool_volumes(kind, x.dtype, window, y.size >= 1 << 31)
    return Plan([y], [Launch(kernel, blocks(y.size, THREADS), THREADS, [Input(0), Output(0)])])


def max_pool3d(x: Layout, *, size: Three, kernel: Three, stride: Three, padding: Three, dilation: Three) -> Plan:
    """x (N, C, D, H, W) -> maxima (N, C, O, P, Q)."""
    return _pooled(x, size, "max", Window(kernel, stride, padding, dilation))


def avg_pool3d(x: Layout, *, size: Three, kernel: Three, stride: Three, padding: Three, count_include_pad: bool,
               divisor: int) -> Plan:
    """x (N, C, D, H, W) -> means (N, C, O, P, Q); divisor: what is divided by, 0 for the number of positions."""
    kind = f"sum / {divisor}" if divisor else "padded mean" if count_include_pad else "mean"
    return _pooled(x, size, kind, Window(kernel, stride, padding, (1, 1, 1)))
