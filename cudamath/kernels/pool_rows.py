"""Pooling by windows that overlap along the rows of images in C order: neighbouring results read their columns together.

A thread owns `width` neighbouring results of a row, as many as 16 bytes hold. Of each image row under them it needs

    | left columns | width x stride columns, whole accesses of 16 bytes | what the last window still reaches |

and has them in registers: for 3 x 3 windows at stride 2, two accesses and one number a row instead of twelve numbers. Columns
beyond the image belong to no window; only the first and the last windows of a row can reach there, so only these ask.

Measured (row versions_pool):
(end of what was measured)
"""

import functools
from typing import Any

import numpy as np

from ..core.layout import Layout
from .build import SIMULATOR, codec
from .lazy import cuda, types
from .pool import Window, _taking, decode, window_size
from .rows import reader, writer


def fits(x: Layout, y: Layout, window: Window) -> int:
    """Results a thread owns, or 0 where these kernels do not apply. x, y: (N, C, rows, columns) in C order."""
    width, columns, results = 16 // max(x.itemsize, y.itemsize), x.shape[3], y.shape[3]
    reach = window.left + window.columns + width * window.right
    good = (not SIMULATOR and x.aligned and y.aligned and window.column_step == 1 and window.columns >= window.right
            and results % width == 0 and columns % width == 0 and results * window.right <= columns and reach <= 40)
    return width if good and width > 1 else 0


@functools.cache
def pool_rows(kind: str, dtype: np.dtype, window: Window, width: int, large: bool) -> Any:
    """kind: as of pool.pool_windows."""
    load, _, C = codec(dtype)
    locate, read, write = decode(width, True, large), reader(dtype, width), writer(dtype, width)
    rows, columns, down, right, top, left, row_step, _ = window
    body = width * right
    after = max(columns - left - right, 0)
    span = left + body + after
    averaging = kind not in ("max", "notes")
    size = window_size(kind)
    start = C(0) if averaging else C(-np.inf)
    take = _taking(kind)

    @cuda.jit
    def pool_rows(x, y, index, count, H, W, P, Q, channels):
        """x: the memory of (n, H, W), y and index (int32; x again if no notes are taken) of (n, P, Q); count: groups of
        `width` results; channels: 1."""
        i = cuda.grid(1)
        if i >= count:
            return
        n, p, q, _ = locate(i, P, Q, channels)
        best = cuda.local.array(width, C)
        where = cuda.local.array(width, types.int32)
        line = cuda.local.array(span, C)
        for k in range(width):
            best[k] = start
            where[k] = -1
        h, w = p * down - top, q * right
        for r in range(rows):
            row = h + r * row_step
            if row >= 0 and row < H:
                base = (n * H + row) * W + w
                for s in range(right):
                    read(x, base + s * width, line, left + s * width)
                for s in range(left):
                    if w + s >= left:
                        line[s] = load(x[base - left + s])
                for s in range(after):
                    if w + body + s < W:
                        line[left + body + s] = load(x[base + body + s])
                here = types.int32(row * W + w - left)
                for k in range(width):
                    for s in range(columns):
                        e = k * right + s
                        if (e >= left or w + e >= left) and (e < left + body or w + e - left < W):
                            take(best, where, k, line[e], here + e)
        if averaging:
            for k in range(width):
                best[k] = C(best[k] / C(size(h, rows, H, top, w + k * right - left, columns, W, left)))
        at = (n * P + p) * Q + q
        write(y, at, best, 0)
        if kind == "notes":
            for k in range(width):
                index[at + k] = where[k]

    return pool_rows
