"""Shapes of the tiles in which arrays are transposed."""

from __future__ import annotations

from typing import NamedTuple

THREADS = 256
LEAST = 16  # with fewer rows or columns a square would be mostly empty
SHARED = 48 << 10  # bytes a block may have without asking
PASSES = 4  # accesses of a thread to each operand, of squares that need a column more
LONG, MANY = (
    512,
    128,
)  # rows and columns, squares of as many, of matrices from which on `tiled_pairs` is taken
BAND = 8  # rows of squares that are walked together


class Shape(NamedTuple):
    """Of the squares of a version."""

    width: int  # elements of an access
    rows: int
    columns: int
    threads: int


SHAPES = {
    "tiled": Shape(1, 32, 32, THREADS),
    "tiled_vector": Shape(4, 64, 64, THREADS),
    "tiled_pairs": Shape(8, 128, 128, 512),
}


def walk(down: int, over: int, batch: int) -> list[str]:
    """Source: which square of `down` rows and `over` columns a block has, and of which of the outer
    dimensions' i0, i1, ..."""
    lines = [
        "tile = types.uint32(cuda.blockIdx.x)",
        "stripe = tile // types.uint32(band * across)",
        "tile = types.uint32(tile - stripe * types.uint32(band * across))",
        "column = tile // types.uint32(band)",
        "row = types.uint32(tile - column * types.uint32(band))",
        "rest = stripe // types.uint32(bands)",
        "stripe = types.uint32(stripe - rest * types.uint32(bands))",
        f"first_row = (types.int64(stripe) * band + types.int64(row)) * {down}",
        f"first_column = types.int64(column) * {over}",
        "if first_row >= rows:",
        "    return",
    ]
    for d in reversed(range(1, batch)):
        lines += [
            f"next = rest // types.uint32(size{d})",
            f"i{d} = types.int64(rest - next * types.uint32(size{d}))",
            "rest = next",
        ]
    return lines + (["i0 = types.int64(rest)"] if batch else [])
