"""The problem that the planners of copies solve."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .parts import part_view


@dataclass(frozen=True)
class CopyProblem:
    """``target[...] = source`` of the axes that remain when those that merge are one.

    Parameters
    ----------
    source, target : ArrayArg
        Arguments of a plan.
    offsets : tuple of int
        Where the part begins in each, in bytes.
    shape : tuple of int
        At least one axis, sorted by the strides of the target.
    strides : tuple
        Those of the source and of the target.
    words : tuple of dtype
        Those of the source and of the target: equal words of the bits, or a cast.
    aligned : bool
        Whether both sides are aligned to 16 bytes.
    """

    source: Any
    target: Any
    offsets: tuple[int, int]
    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], tuple[int, ...]]
    words: tuple[np.dtype, np.dtype]
    aligned: bool

    @functools.cached_property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_cast(self) -> bool:
        return self.words[0] != self.words[1]

    @property
    def is_line(self) -> bool:
        """Whether both sides are contiguous."""
        steps = tuple(strides[0] for strides in self.strides)
        return len(self.shape) == 1 and steps == (self.words[0].itemsize, self.words[1].itemsize)

    @functools.cached_property
    def views(self) -> list[Any]:
        """The arguments of kernels: source and target in this shape."""
        sides = zip((self.source, self.target), self.strides, self.words, self.offsets, strict=True)
        return [
            part_view(a, self.shape, strides, word, offset) for a, strides, word, offset in sides
        ]
