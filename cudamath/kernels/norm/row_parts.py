"""How a row is divided among threads, warps and blocks in the forward pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.layout import Layout
from ...runtime.device import capability
from ..lib.integers import blocks, power_of_two
from ..lib.row_layout import Rows, fitting, spread
from ..lib.widths import wide

HELD = 32  # elements of a row a thread holds, of 16 bits or where the row is too long for ..
FEW, MOST = (
    16,
    512,
)  # .. so many in as many threads: then twice as many of these are on a multiprocessor

# threads that share a row at least, if it has an access for each: they read a quarter of a kilobyte
NEIGHBOURS = 16
LONG = 1024  # threads for a row of any length
LONG_GROUP = 2048  # elements of a group from which on a block of 64 threads has something to hold

# A row in the registers of a cluster's blocks (forward_cluster.py):
CLUSTER_THREADS = 256  # a block, where at most eight of them hold a row
CLUSTER_MOST = 8  # blocks of a cluster, on any device
SHIFT = 42  # bits of the fraction that finds a channel


class Parts(NamedTuple):
    """What a kernel is compiled with."""

    center: bool = True  # layer norm; else RMS norm
    weight: bool = True
    bias: bool = True
    residual: bool = False  # forward: x + r is standardised; backward: a gradient is added
    channels: bool = False  # weight and bias by channels (group norm)


class Channels(NamedTuple):
    """Group norm: groups of a sample, channels of a group, elements of a channel."""

    groups: int
    share: int
    run: int


def fitting_rows(
    columns: int, width: int, elements: int, limit: int = LONG, together: int = 1
) -> Rows | None:
    """`row_layout.spread` with no more accesses per thread than the row has."""
    shape = spread(columns, width, elements, limit, together)
    return shape and shape._replace(
        vectors=min(shape.vectors, blocks(blocks(columns, width), shape.threads))
    )


def spread_rows(columns: int, width: int, dtype: np.dtype) -> Rows | None:
    """How a row is spread over threads; None where it is too long."""
    few = (
        fitting_rows(columns, width, fitting(FEW, dtype), MOST, NEIGHBOURS)
        if dtype.itemsize > 2
        else None
    )
    return few or fitting_rows(columns, width, fitting(HELD, dtype), together=NEIGHBOURS)


def cluster_held(dtype: np.dtype) -> int:
    """Elements that a thread of a cluster holds."""
    return 2 * HELD if dtype.itemsize == 2 else HELD


def spread_cluster(columns: int, clusters: bool, dtype: np.dtype) -> tuple[int, int]:
    """(blocks that share a row, threads of such a block)."""
    most = cluster_held(dtype)
    ranks = (
        min(power_of_two(blocks(columns, CLUSTER_THREADS * most)), CLUSTER_MOST) if clusters else 1
    )
    return ranks, max(power_of_two(blocks(columns, ranks * most)), 64)


def fits_cluster(columns: int, width: int, x: Layout, channels: Channels | None) -> bool:
    """Whether the blocks of a cluster, or one block, can hold rows of x, and channels are found by
    the fraction of SHIFT bits."""
    _, threads = spread_cluster(columns, capability(x.device) >= (9, 0), x.dtype)
    exact = channels is None or (
        columns * channels.run < 1 << SHIFT and channels.share < 1 << 62 - SHIFT
    )
    return width > 1 and wide(x.dtype).itemsize == 4 and threads <= LONG and exact
