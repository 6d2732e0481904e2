"""Copies and boxes of contiguous memory: the widest words that fit."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Temp
from ...core.layout import Layout
from .dispatch import copy_part
from .parts import WORDS, Part, whole, widest_word


def dense(
    argument: Any, x: Layout, shape: tuple[int, ...], dtype: np.dtype, temps: list[Layout]
) -> tuple[list, Any]:
    """An argument broadcast to a shape, cast and contiguous: (steps, argument); itself if it is
    that already. (Strides of axes of length 1 do not count.)"""
    full = x.like(shape, dtype)
    if x is full:
        return [], argument
    if x.contiguous and (x.shape, x.dtype, x.aligned) == (full.shape, full.dtype, full.aligned):
        return [], argument.view(full.shape, full.strides)
    temps.append(full)
    temp = Temp(len(temps) - 1)
    return copy_part(whole(argument, x).broadcast(shape), whole(temp, full)), temp


def box(
    argument: Any, x: Layout, axis: int, count: int, temps: list[Layout]
) -> tuple[list, Any, Layout, Part | None]:
    """An array as (before, rows, after), rows being ``count`` axes from ``axis`` on: (steps,
    argument, its layout, the temporary copy or None). A copy is made only if a group of axes does
    not merge into one."""
    split = (x.shape[:axis], x.shape[axis : axis + count], x.shape[axis + count :])
    sizes = tuple(map(prod, split))
    parts = (x.strides[:axis], x.strides[axis : axis + count], x.strides[axis + count :])
    strides = []
    for shape, part, size in zip(split, parts, sizes, strict=True):
        merged = shapes.reshape_strides(shape, part, (size,), x.itemsize)
        if merged is None:
            copy = x.like()
            temps.append(copy)
            temp = Temp(len(temps) - 1)
            steps = copy_part(whole(argument, x), whole(temp, copy))
            return steps, temp.view(sizes), copy.like(sizes), whole(temp, copy)
        strides.append(merged[0])
    layout = x.view(sizes, tuple(strides))
    return [], argument.view(sizes, tuple(strides)), layout, None


def widest(*boxes: tuple[Any, Layout]) -> list[Any]:
    """Boxes (argument, layout) of equal ``after`` in words as wide as all of them allow."""
    layouts = [layout for _, layout in boxes]
    size, after = layouts[0].itemsize, layouts[0].shape[2]
    strides = [_lengths(x) for x in layouts]
    wide = size
    if all(x.aligned and (x.strides[2] == size or after == 1) for x in layouts):
        wide = widest_word(size, [after * size, *(s for pair in strides for s in pair)])
    if wide == size:
        word = np.dtype(WORDS[size])
        return [argument.view(x.shape, x.strides, dtype=word) for argument, x in boxes]
    word, columns = np.dtype(WORDS[wide]), after * size // wide
    return [
        argument.view((*x.shape[:2], columns), (*pair, wide), dtype=word)
        for (argument, x), pair in zip(boxes, strides, strict=True)
    ]


def _lengths(x: Layout) -> tuple[int, int]:
    """The strides of a box's first two axes; where an axis has one element, that of C order."""
    before, rows, after = x.shape
    second = x.strides[1] if rows > 1 else after * x.itemsize
    return x.strides[0] if before > 1 else rows * second, second
