"""How rows are spread over lanes and warps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler.decorators import WARP
from .integers import blocks, power_of_two
from .widths import vector_width, wide

# bytes of a row from which on rows that begin between borders are read by whole accesses. Softmax
# of 443 16-bit numbers: element by element 1,056 instructions of a warp for a row, by accesses 468;
# of 77 212 and 117
LONG_ENOUGH = 128


class Rows(NamedTuple):
    """How rows are spread over threads: the launch and the compile-time constants of a rows
    kernel."""

    threads: int  # threads per row
    rows: int  # rows per block; 1 when a row has more than a warp
    width: int  # elements per access
    vectors: int  # accesses per thread

    @property
    def block(self) -> tuple[int, int]:
        return self.threads, self.rows

    def grid(self, rows: int) -> int:
        """Blocks for that many rows."""
        return blocks(rows, self.rows)


def fitting(held: int, dtype: np.dtype) -> int:
    """How many elements take as many registers as `held` of float32: half as many of float64."""
    return held * 4 // wide(dtype).itemsize


def access(columns: int, *layouts) -> tuple[int, bool]:
    """(elements an access moves, whether rows begin between the borders of accesses).

    Rows of 50,257 elements are not all 16-byte aligned, but what lies inside them can still be read
    by whole accesses: the first and the last of a row then belong in part to its neighbours (see
    `row_reader`). Short rows are not worth it.
    """
    width = vector_width(columns, *layouts)
    if width > 1 or columns * max(layout.itemsize for layout in layouts) < LONG_ENOUGH:
        return width, False
    width = vector_width(0, *layouts)  # 0 is a multiple of anything
    return width, width > 1


def spread(
    columns: int, width: int, held: int, limit: int = 1024, together: int = 1
) -> Rows | None:
    """Rows of `columns` elements over threads holding `held` elements each; None if `limit` threads
    are too few. `together`: threads that share a row at least, if it has an access for each:
    sixteen read a quarter of a kilobyte in one piece.

    Few distinct answers (beyond short rows `vectors` depends on `width` and `held` alone): each
    costs a compiled kernel.
    """
    vectors = held // width if width > 1 else min(held, 8)
    threads = power_of_two(blocks(columns, width * vectors))
    if threads > limit:
        return None
    if width > 1 and threads < together:
        threads = min(power_of_two(blocks(columns, width)), together)
        vectors = min(power_of_two(blocks(columns, width * threads)), vectors)
    return Rows(threads, max(128 // threads, 1) if threads <= WARP else 1, width, vectors)


def spread_between(
    columns: int, width: int, edges: bool, held: int, limit: int = 1024, together: int = 1
) -> Rows | None:
    """`spread` of rows that may begin between the borders of accesses (`edges`): these have up to
    width - 1 numbers of their neighbours in their accesses. Where that takes one more, each thread
    has one more: twice as many threads, of which half would have nothing, cost more."""
    shape = spread(columns, width, held, limit, together)
    if shape is None or not edges:
        return shape
    needed = blocks(blocks(columns + width - 1, width), shape.threads)
    if needed > shape.vectors and shape.threads == 1024:  # they have no register left
        return None
    return shape._replace(vectors=max(shape.vectors, needed))
