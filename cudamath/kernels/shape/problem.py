"""The problem that the planners of concatenation solve."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod

from ...core.dispatch.arguments import Input
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR
from ..copy.contiguous import box


@dataclass(frozen=True)
class ConcatProblem:
    """Arrays of one dtype, one after another along an axis.

    Parameters
    ----------
    inputs : tuple of Layout
    axis : int
    sizes : tuple of int
        The lengths of the inputs along the axis.
    """

    inputs: tuple[Layout, ...]
    axis: int
    sizes: tuple[int, ...]

    @functools.cached_property
    def out(self) -> Layout:
        first, axis = self.inputs[0], self.axis
        return first.like((*first.shape[:axis], sum(self.sizes), *first.shape[axis + 1 :]))

    @property
    def rows(self) -> int:
        """The rows of the result, in which the inputs lie next to each other."""
        return prod(self.out.shape[: self.axis])

    @functools.cached_property
    def row_bytes(self) -> list[int]:
        """The bytes of a row of each input."""
        inner = prod(self.out.shape[self.axis + 1 :])
        return [n * inner * self.out.itemsize for n in self.sizes]

    @functools.cached_property
    def word(self) -> int:
        """The bytes of the widest words that divide the rows of all inputs."""
        size, aligned = self.out.itemsize, all(x.aligned for x in self.inputs)
        return next(
            w
            for w in (16, 8, 4, 2, 1)
            if not any(n % w for n in self.row_bytes)
            and (w <= min(size, 8) or aligned and not (w == 16 and SIMULATOR))
        )

    @property
    def element(self) -> int:
        """The bytes of the elements that kernels see: a word of 16 bytes is two of them."""
        return min(self.word, 8)

    @property
    def words(self) -> list[int]:
        """The words of a row of each input."""
        return [n // self.word for n in self.row_bytes]

    @functools.cached_property
    def has_boxes(self) -> bool:
        """Whether the axes around the one that is joined merge, in every input as it lies."""
        copies: list[Layout] = []
        for i, x in enumerate(self.inputs):
            box(Input(i), x, self.axis, 1, copies)
        return not copies
