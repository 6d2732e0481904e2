"""Where the maximum of a window is: the notes that pools take for their gradient (dispatch.py).

What the caller asks for is int32: h W + w, the position in the image. What the gradient alone will
see is a byte: r columns + s, the position in the window. It moves a quarter as much, and kernels
that know the window compare it with constants; others find the position by `spot`.
"""

import functools
from typing import Any

import numpy as np

from ...core.dtypes import bfloat16
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.vector_io import reader, writer

NOTE, BYTE = np.dtype(np.int32), np.dtype(np.uint8)  # dtypes of notes
NOWHERE = 255  # a byte's note of a window that holds no position of the image
NOTED = ("notes", "bytes")  # kinds of pools that take notes, of these dtypes
MAXIMA = ("max", *NOTED)
HALVES = (np.dtype(np.float16), np.dtype(bfloat16))  # dtypes of 16 bits


@cuda.jit(device=True)
def spot(note, p, q, W, columns, down, right, top, left, row_step, column_step):
    """h W + w of what a byte notes of window (p, q); -1 for none. Numbers as in max_pool2d."""
    r = types.int64(note) // columns
    h, w = (
        p * down - top + r * row_step,
        q * right - left + (types.int64(note) - r * columns) * column_step,
    )
    return h * W + w if note != NOWHERE else types.int64(-1)


@functools.cache
def note_reader(kind: str, width: int) -> Any:
    """Device function (index, i, where, first): these notes to where[first], ... as int32. Nothing
    for means."""
    together = width if kind == "bytes" else min(width, 4)
    read = reader(BYTE if kind == "bytes" else NOTE, together)

    @device_function
    def read_notes(index, i, where, first):
        for k in range(0, width, together):
            read(index, i + k, where, first + k)

    return read_notes


@functools.cache
def first_note(kind: str, window: Any) -> Any:
    """Device function: the note of the first position inside images (H, W) of the window that
    begins at (h, w); -1 for none. That is where the maximum is if nothing exceeds -inf: so the
    loops over a window need not ask whether there is a note."""
    rows, columns, *_, row_step, column_step = window
    within = kind == "bytes"

    @device_function
    def first_note(h, w, H, W):
        r = 0 if h >= 0 else (row_step - 1 - h) // row_step
        s = 0 if w >= 0 else (column_step - 1 - w) // column_step
        u, v = h + r * row_step, w + s * column_step
        if r >= rows or s >= columns or u >= H or v >= W:
            return types.int32(-1)
        return types.int32(r * columns + s if within else u * W + v)

    return first_note


@functools.cache
def note_writer(kind: str, width: int, window: Any) -> Any:
    """Device function (index, i, where, h, w, on, H, W): the notes of `width` neighbours, from i
    on, a multiple of it. Their windows begin at (h, w), (h, w + on), ... of images (H, W); where[k]
    is -1 if nothing in window k exceeds -inf."""
    together = width if kind == "bytes" else min(width, 4)  # 16 bytes at most
    write, first = writer(BYTE if kind == "bytes" else NOTE, together), first_note(kind, window)

    @device_function
    def write_notes(index, i, where, h, w, on, H, W):
        least = where[0]
        for k in range(1, width):
            least = min(least, where[k])
        if least < 0:
            for k in range(width):
                if where[k] < 0:
                    where[k] = first(h, w + k * on, H, W)
        for k in range(0, width, together):
            write(index, i + k, where, k)

    return write_notes


@functools.cache
def taking(kind: str) -> Any:
    """Device function: one more element of a window; position: what is noted of it."""

    @device_function
    def add(best, where, k, value, position):
        best[k] += value

    @device_function
    def larger(best, where, k, value, position):
        if value > best[k] or value != value:  # NaN wins, as in NumPy and torch
            best[k] = value

    @device_function
    def larger_at(best, where, k, value, position):
        if value > best[k] or value != value:
            best[k] = value
            where[k] = types.int32(position)

    return {"max": larger, "notes": larger_at, "bytes": larger_at}.get(kind, add)
