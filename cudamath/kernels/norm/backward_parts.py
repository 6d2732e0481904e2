"""How rows are divided among blocks in the backward pass."""

from __future__ import annotations

import functools

from ..compiler.decorators import device
from ..lib.row_layout import Rows

# elements of a row a thread holds: g, x, the next of both, and the sums of dweight and dbias ..
HELD = 16
HELD_WARP = 24  # .. more of them where a warp then has a row of 16-bit numbers to itself

# threads on a multiprocessor, so of 128 registers; there are no more blocks than can run at once
RESIDENT = 512
RESIDENT_WARP = 384  # .. of 168 registers
RESIDENT_SHORT = 896  # .. 72 registers will do, ..
RESIDENT_SHORT_ADDED = 768  # .. or 80 where a third array is under way
KEPT = 8  # weights that a thread keeps in registers


@functools.cache
def gathered(parts):
    """Device function (a, v, e, weight, middle, scale, dweight, dbias, sum_g, sum_gx) -> the two
    sums with element e in them: a[e], v[e] = g, x become gw, xhat, and dweight[e], dbias[e] grow by
    what they add."""
    center, weighted, biased, _, _ = parts

    @device
    def gather(a, v, e, weight, middle, scale, dweight, dbias, sum_g, sum_gx):
        v[e] = (v[e] - middle) * scale
        if weighted:
            dweight[e] += a[e] * v[e]
        if biased:
            dbias[e] += a[e]
        if weighted:
            a[e] *= weight
        return sum_g + a[e] if center else sum_g, sum_gx + a[e] * v[e]

    return gather


def resident(shape: Rows, dtype, residual: bool) -> int:
    """Blocks on a multiprocessor."""
    held = shape.vectors * shape.width
    if held <= KEPT and shape.width == 8:
        most = RESIDENT_SHORT_ADDED if residual else RESIDENT_SHORT
    else:
        most = RESIDENT_WARP if held > HELD or dtype.itemsize == 8 else RESIDENT
    return max(most // (shape.threads * shape.rows), 1)
