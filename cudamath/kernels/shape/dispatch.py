"""Shapes: concatenation and the choice among its versions.

One version each, by the planners of the files: `roll` (roll.py); `band` and `ones`, triangles and
diagonals (triangles.py, which takes words of 8 bytes for small elements of ones); `triangle`,
`powers`, `window` and `kaiser` (index_grids.py). Reshapes, transposes and slices are views and have
no kernels; copies are those of the family copy.
"""

from __future__ import annotations

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ..lib.versions import Version, choose
from .problem import ConcatProblem

MOST = 8  # inputs of one launch
LONG = 1 << 22  # bytes of the result from which on wide stores pay
# Elements which the second-level cache holds, whatever their order: a launch costs more than the
# order of reads.
LITTLE = 1 << 16


def is_several(p: ConcatProblem) -> bool:
    return 1 < len(p.inputs) <= MOST and all(x.size for x in p.inputs)


def fits_words(p: ConcatProblem) -> bool:
    """A few inputs in C order; indices of 32 bits."""
    return is_several(p) and p.out.size < 1 << 32 and all(x.contiguous for x in p.inputs)


def fits_vectors(p: ConcatProblem) -> bool:
    """Words of 4 or 8 bytes, and rows of the result of whole vectors of 16."""
    if not fits_words(p) or not 4 <= p.word < 16:
        return False
    count = 16 // p.element
    regular = p.rows == 1 or sum(p.words) % count == 0
    return regular and p.out.nbytes // p.element >= count


def fits_strides(p: ConcatProblem) -> bool:
    small = p.out.itemsize <= 8 and p.out.size < 1 << 32
    return small and is_several(p) and p.has_boxes


def prefers_strides(p: ConcatProblem) -> bool:
    return not fits_words(p) and p.out.size <= LITTLE


def prefers_vectors(p: ConcatProblem) -> bool:
    return p.out.nbytes >= LONG


CONCAT = (
    Version(
        "join_strided",
        "shape.concat.by_strides",
        fits_strides,
        prefers_strides,
        "small arrays, not all in C order: one launch reads them as they lie",
    ),
    Version(
        "join_gathered",
        "shape.concat.by_vectors",
        fits_vectors,
        prefers_vectors,
        "rows of no whole vectors: threads gather the vectors that they store",
    ),
    Version("join", "shape.concat.by_words", fits_words, reason="inputs in C order: one launch"),
    Version("copies", "shape.concat.by_copies", reason="a copy into each slice"),
)


def concat(*inputs: Layout, axis: int, sizes: tuple[int, ...], version: str | None = None) -> Plan:
    """The inputs, of one dtype and `sizes` along `axis`, one after another. version: a name in
    CONCAT; by default the preferred one."""
    return choose("concat", CONCAT, ConcatProblem(inputs, axis, sizes), version)
