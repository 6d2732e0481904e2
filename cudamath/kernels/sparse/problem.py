"""The problems that planners of sparse products solve: layouts, and the quantities that choose a
version."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.decorators import WARP
from ..lib.integers import power_of_two
from ..lib.widths import vector_width

# items of a share, and the fewest items for which that many still give work to all multiprocessors
SHARES = ((2048, 1 << 21), (1024, 1 << 19), (512, 1 << 17), (256, 0))


def items_of_shares(items: int) -> int:
    """How many items a share has, of a matrix with so many: its stored elements and ends of
    rows."""
    return next(share for share, least in SHARES if items >= least)


def lanes_of_rows(rows: int, stored: int) -> int:
    """How many threads of a warp a row of mean length has: two to four elements for each."""
    return max(1, min(power_of_two(stored // rows + 1) // 4, WARP))


def are_alike(rows: int, stored: int, longest: int, turns: int) -> bool:
    """Whether a warp's equal groups of threads suit the rows. longest: the length of one; turns:
    the sum over all warps of how often their longest rows make them turn. A row that is longer by
    16 turns than twice the mean would be waited for; and of the threads' turns, two of five or more
    must meet an element or the end of a row."""
    lanes = lanes_of_rows(rows, stored)
    short = longest <= 2 * (stored // rows) + 16 * lanes
    return short and 2 * WARP * turns <= 5 * (stored + rows * lanes)


@dataclass(frozen=True)
class ProductProblem:
    """A compressed matrix times a dense one: data, indices (nnz,), indptr (rows + 1,), b (n, k),
    all contiguous; starts (shares + 1,), where they are known, how many rows end before each share;
    places (nnz,), where the values lie in `data`, if not in their order.

    Parameters
    ----------
    data, indices, indptr, b : Layout
    starts : Layout, optional
    alike : bool
        Whether the rows are known to be alike (`are_alike`).
    places : Layout, optional
    ahead : int
        How many inputs of the plan are ahead of the places; those that are missing do not count.
    """

    data: Layout
    indices: Layout
    indptr: Layout
    b: Layout
    starts: Layout | None = None
    alike: bool = False
    places: Layout | None = None
    ahead: int = 0

    @property
    def rows(self) -> int:
        return self.indptr.size - 1

    @property
    def columns(self) -> int:
        """The columns of b, and of the result."""
        return self.b.shape[1]

    @property
    def stored(self) -> int:
        """The number of stored elements."""
        return self.indices.size

    @property
    def lanes(self) -> int:
        """Threads of a row, where rows are alike."""
        return lanes_of_rows(self.rows, self.stored)

    @functools.cached_property
    def out(self) -> Layout:
        return self.b.like((self.rows, self.columns))

    @property
    def items(self) -> int:
        """How many elements and ends of rows a share has."""
        return items_of_shares(self.rows + self.stored)

    @property
    def width(self) -> int:
        """Neighbouring elements of a row of b, and of the result, that move together: at most four,
        and at most 16 bytes."""
        return min(vector_width(self.columns, self.b, self.out), 4)

    def partial(self, count: int) -> Layout:
        """Scratch memory for the sums of `count` parts, in the type of the computation."""
        return self.b.like((count, self.columns), compute_dtype(self.b.dtype))


@dataclass(frozen=True)
class SampledProblem:
    """Elements (rows[e], columns[e]) of a b^T: rows, columns (nnz,), indptr (m + 1,), a (m, k), b
    (n, k), all contiguous.

    Parameters
    ----------
    rows, columns, indptr, a, b : Layout
    """

    rows: Layout
    columns: Layout
    indptr: Layout
    a: Layout
    b: Layout

    @functools.cached_property
    def out(self) -> Layout:
        return self.a.like((self.rows.size,))


@dataclass(frozen=True)
class TriangularProblem:
    """A triangular matrix, and right-hand sides b (n, k), contiguous.

    Parameters
    ----------
    b : Layout
    lower, unit : bool
        Which triangle, and whether its diagonal is ones.
    """

    b: Layout
    lower: bool
    unit: bool
