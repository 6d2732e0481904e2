"""Rows that blocks share, and rows that whole accesses read and write: what versions of scatter-add
ask of a box (before, rows, after)."""

from ...core.dtypes import bfloat16
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR
from ..lib.integers import blocks

LEAST = 256  # bytes of a row, at least: half of a warp's lanes have one access each
OWNERS, MOST_OWNERS = 128, 1024  # blocks
MOST_OWN = 640  # rows of a block: (WARPS + 1) counts each, in 48 KB of shared memory


def owners_of(rows: int) -> int:
    """How many blocks share so many rows."""
    owners = OWNERS
    while blocks(rows, owners) > MOST_OWN:
        owners *= 2
    return owners


def aligned_rows(x: Layout) -> bool:
    """Whether x: (before, rows, after) is one stretch of long rows of real numbers, read and
    written by whole accesses."""
    before, _, after = x.shape
    nbytes = after * x.itemsize
    return (
        not SIMULATOR
        and before == 1
        and nbytes >= LEAST
        and nbytes % 16 == 0
        and x.contiguous
        and x.aligned
        and (x.dtype.kind in "fiu" or x.dtype == bfloat16)
        and x.itemsize in (2, 4, 8)
    )
