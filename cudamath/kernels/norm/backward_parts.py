"""How rows are divided among blocks in the backward pass."""

from __future__ import annotations

import functools

import numpy as np

from ...core.layout import Layout
from ...runtime.device import capability
from ..compiler.decorators import WARP, device_function
from ..compiler.lazy_numba import cuda
from ..lib.integers import blocks, power_of_two
from ..lib.row_layout import Rows, fitting
from ..lib.widths import wide
from .row_parts import fitting_rows

THREADS = 512  # threads of a row, at most: these may have 128 registers each
# threads of a row of 16-bit numbers at least, if it has an access for each; with one access each ..
SHORT = 16
# elements of a row a thread holds: g, x, the next of both, and the sums of dweight and dbias ..
HELD = 16
HELD_WARP = 24  # .. more of them where a warp then has a row of 16-bit numbers to itself

# threads on a multiprocessor, so of 128 registers; there are no more blocks than can run at once
RESIDENT = 512
RESIDENT_WARP = 384  # .. of 168 registers
RESIDENT_SHORT = 896  # .. 72 registers will do, ..
RESIDENT_SHORT_ADDED = 768  # .. or 80 where a third array is under way
KEPT = 8  # weights that a thread keeps in registers

# of the devices with TMA, those whose shared memory has room for rows
TMA_DEVICES = ((9, 0), (10, 0))

# A row in the shared memory of a cluster's blocks (backward_cluster.py):
# accesses of a row that a thread has at most: 32 columns of 16 bits, their sums 64 registers
VECTORS, STAGES = 4, 3  # .. rows in shared memory at a time, at work and loaded
ROOM = 224 << 10  # bytes of shared memory for them and the weights
RANKS = 2, 8  # blocks of a cluster: at least; at most, on any device


@functools.cache
def gathered(parts):
    """Device function (a, v, e, weight, middle, scale, dweight, dbias, sum_g, sum_gx) -> the two
    sums with element e in them: a[e], v[e] = g, x become gw, xhat, and dweight[e], dbias[e] grow by
    what they add."""
    center, weighted, biased, _, _ = parts

    @device_function
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


@functools.cache
def groups_added(T, shape: Rows, parts):
    """Device function (dweight, dbias) that adds those of the groups of a block, in turn: the last
    group has the sums."""
    threads, together, width, vectors = shape
    _, weighted, biased, _, _ = parts
    elements = vectors * width
    size = threads * elements

    @device_function
    def add_groups(dweight, dbias):
        if together > 1 and (weighted or biased):
            tx = cuda.threadIdx.x
            room = cuda.shared.array(size, T)
            for which in range(2):
                if weighted if which == 0 else biased:
                    for other in range(together):
                        cuda.syncthreads()
                        if cuda.threadIdx.y == other:
                            for e in range(elements):
                                mine = dweight[e] if which == 0 else dbias[e]
                                if other > 0:
                                    mine += room[e * threads + tx]
                                room[e * threads + tx] = mine
                                if which == 0:
                                    dweight[e] = mine
                                else:
                                    dbias[e] = mine

    return add_groups


def resident(shape: Rows, dtype, residual: bool, shifted: bool = False) -> int:
    """Blocks on a multiprocessor."""
    elements = shape.vectors * shape.width
    if elements <= KEPT and shape.width == 8 and not shifted:
        most = RESIDENT_SHORT_ADDED if residual else RESIDENT_SHORT
    else:
        most = RESIDENT_WARP if elements > HELD or dtype.itemsize == 8 else RESIDENT
    return max(most // (shape.threads * shape.rows), 1)


def spread_backward(columns: int, width: int, dtype: np.dtype, residual: bool) -> Rows | None:
    """How a row is spread over threads; None where it is too long."""
    alone = fitting_rows(columns, width, HELD_WARP, WARP, SHORT) if width == 8 else None
    elements = (
        HELD // 2 if residual and dtype.itemsize > 2 else HELD
    )  # a third array is under way, not packed
    return alone or fitting_rows(columns, width, fitting(elements, dtype), THREADS)


def fits_tma(shape: Rows | None, columns: int, x: Layout) -> bool:
    """Whether rows of this shape can go through a ring in shared memory: TMA copies multiples of 16
    bytes."""
    return bool(
        shape
        and shape.threads >= WARP
        and shape.width > 1
        and x.itemsize == 2
        and columns % 8 == 0
        and capability(x.device) in TMA_DEVICES
    )


def cluster_vectors(width: int, dtype: np.dtype, param: np.dtype) -> int:
    """Accesses of a row that a thread has, as there is shared memory for them and as many
    weights."""
    each = THREADS * width * (STAGES * 2 * dtype.itemsize + param.itemsize)
    return min(VECTORS, ROOM // each)


def ranks_for(columns: int, width: int, vectors: int, edges: bool) -> int:
    """Blocks of a cluster that share a row."""
    most = columns + (width - 1 if edges else 0)
    return max(power_of_two(blocks(most, THREADS * vectors * width)), RANKS[0])


def fits_cluster(columns: int, width: int, edges: bool, x: Layout, param: np.dtype) -> bool:
    """Whether a cluster can hold rows of x: TMA copies multiples of 16 bytes. edges: rows begin
    between the borders of accesses; then each block must have several."""
    return bool(
        width > 1
        and wide(x.dtype).itemsize == 4
        and (columns >= THREADS if edges else columns * x.itemsize % 16 == 0)
        and ranks_for(columns, width, cluster_vectors(width, x.dtype, param), edges) <= RANKS[1]
        and capability(x.device) in TMA_DEVICES
    )
