"""The problems that planners of indexing solve: layouts, and the quantities that choose a version.

Arrays indexed along neighbouring axes are seen as boxes (before, rows, after): see positions.py.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input
from ...core.layout import Layout
from ..copy.contiguous import box, dense, widest

FEW_SOURCES = 1024  # of sums whose destinations lie in shared memory: scatter_add_few.py


class IndexedAxes:
    """Arrays `indices` of one shape index ``len(indices)`` axes of x from `axis` on."""

    x: Layout
    indices: tuple[Layout, ...]
    axis: int

    @property
    def count(self) -> int:
        """The number of axes that are indexed."""
        return len(self.indices)

    @property
    def m(self) -> int:
        """The number of positions."""
        return self.indices[0].size

    @property
    def sizes(self) -> tuple[int, ...]:
        """The lengths of the axes that are indexed."""
        return self.x.shape[self.axis : self.axis + self.count]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what the indices choose, to which values broadcast."""
        x, axis = self.x.shape, self.axis
        return (*x[:axis], *self.indices[0].shape, *x[axis + self.count :])


@dataclass(frozen=True)
class GatherProblem(IndexedAxes):
    """x indexed along ``len(indices)`` axes from ``axis`` on by arrays of one shape.

    Parameters
    ----------
    x : Layout
    indices : tuple of Layout
    axis : int
    """

    x: Layout
    indices: tuple[Layout, ...]
    axis: int

    @functools.cached_property
    def out(self) -> Layout:
        return self.x.like(self.shape)

    @functools.cached_property
    def box(self) -> Layout:
        """x as (before, rows, after), or the contiguous copy that has such a form."""
        return box(Input(0), self.x, self.axis, self.count, [])[2]


@dataclass(frozen=True)
class TakeAlongProblem:
    """out[..., j, ...] = x[..., index[..., j, ...], ...] along an axis; the other axes are equal.

    Parameters
    ----------
    x : Layout
    index : Layout
    axis : int
    """

    x: Layout
    index: Layout
    axis: int

    @property
    def m(self) -> int:
        """The number of positions in a line."""
        return self.index.shape[self.axis]

    @functools.cached_property
    def out(self) -> Layout:
        return self.x.like(self.index.shape)

    @functools.cached_property
    def box(self) -> Layout:
        """x as (before, n, after), or the contiguous copy that has such a form."""
        return box(Input(0), self.x, self.axis, 1, [])[2]

    @functools.cached_property
    def dense_index(self) -> Layout:
        """The index array, or its contiguous copy."""
        index = self.index
        return index.like() if dense(Input(1), index, index.shape, index.dtype, [])[0] else index


@dataclass(frozen=True)
class TakeAlongGradientProblem:
    """Zeros of ``size`` along ``axis`` with g[..., j, ...] added at index[..., j, ...], in the
    order of j.

    Parameters
    ----------
    g : Layout
    index : Layout
    size : int
    axis : int
    """

    g: Layout
    index: Layout
    size: int
    axis: int

    @property
    def m(self) -> int:
        """The number of sources in a line."""
        return self.g.shape[self.axis]

    @functools.cached_property
    def out(self) -> Layout:
        shape, axis = self.g.shape, self.axis
        return self.g.like((*shape[:axis], self.size, *shape[axis + 1 :]))


@dataclass(frozen=True)
class ScatterProblem(GatherProblem):
    """``x[..., indices, ...] = values`` in place; ``out`` is in the shape of the values.

    Parameters
    ----------
    x : Layout
    indices : tuple of Layout
    axis : int
    values : Layout
        They broadcast to the shape that gather gives.
    """

    values: Layout

    @property
    def rows(self) -> int:
        return self.box.shape[1]

    @functools.cached_property
    def words(self) -> Any:
        """The values as an argument of the widest words that x allows: (before, m, after)."""
        flat = self.x.like((self.box.shape[0], self.m, self.box.shape[2]))
        values = Input(1).view(flat.shape, flat.strides)
        return widest((Input(0).view(self.box.shape), self.box), (values, flat))[1]

    @property
    def size(self) -> int:
        """The number of words that are assigned."""
        return prod(self.words.shape)

    @property
    def claim(self) -> np.dtype:
        """The dtype of the number of a position, of which two bits are free."""
        return np.dtype(np.int32 if self.m < 2**30 else np.int64)


@dataclass(frozen=True)
class ScatterAddProblem(IndexedAxes):
    """Rows of values added into rows chosen by index, equal indices in their order.

    Parameters
    ----------
    base : str
        What the values are added to: "place", x itself; "copy", a copy of x; "zeros".
    x : Layout
        What has the shape of the result.
    values : Layout
    indices : tuple of Layout
    axis : int
        The first of the axes that are indexed.
    kind : str
        What is done instead of adding: see folding.py.
    """

    base: str
    x: Layout
    values: Layout
    indices: tuple[Layout, ...]
    axis: int
    kind: str = "add"

    @functools.cached_property
    def box(self) -> Layout:
        """The result as (before, rows, after): x as it lies, or new memory."""
        if self.base == "place":
            return box(Input(0), self.x, self.axis, self.count, [])[2]
        shape, axis = self.x.shape, self.axis
        rows = prod(self.sizes)
        return self.x.like((prod(shape[:axis]), rows, prod(shape[axis + self.count :])))


@dataclass(frozen=True)
class EmbeddingProblem:
    """Rows of a table chosen by index.

    Parameters
    ----------
    indices : Layout
        (n,) integers below `classes`.
    weight : Layout
        (rows, columns), in C order.
    classes : int
        How many rows of the table kernels see.
    """

    indices: Layout
    weight: Layout
    classes: int

    @functools.cached_property
    def out(self) -> Layout:
        return self.weight.like((self.indices.size, self.weight.shape[1]))

    @property
    def row_bytes(self) -> int:
        return self.weight.shape[1] * self.weight.itemsize
