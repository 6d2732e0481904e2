"""How the channels of a group are divided into pieces."""

from __future__ import annotations

from ...core.layout import Layout
from ...runtime.device import capability
from ..compiler.decorators import WARP
from ..lib.integers import blocks, power_of_two
from ..lib.widths import wide
from .row_parts import LONG, Channels

THREADS = 256  # of a block of `long`
PIECE = 16_384  # elements of a channel that a block adds up
BLOCK = 256  # threads of a block of `shared`, where at most eight hold a group
MOST = 8  # blocks of a cluster, on any device
HELD = 64  # bytes of g and of x that a thread holds
SINGLE = 8  # accesses, where each moves one number

# threads that a channel has at least, if it has an access for each: they read a quarter of a
# kilobyte
NEIGHBOURS = 16


def pieces_of(dtype, width: int, run: int) -> tuple[int, int, int, int]:
    """(pieces of a channel, accesses of a piece, threads of a piece, accesses of a thread)."""
    accesses, most = run // width, HELD // (dtype.itemsize * width) if width > 1 else SINGLE
    lanes = min(
        max(power_of_two(blocks(accesses, most)), min(NEIGHBOURS, power_of_two(accesses))), WARP
    )
    pieces = blocks(accesses, lanes * most)
    part = blocks(accesses, pieces)
    return pieces, part, lanes, blocks(part, lanes)


def spread(x: Layout, width: int, channels: Channels) -> tuple[int, int, int]:
    """(blocks that share a group, threads of such a block, pieces it has)."""
    pieces, _, lanes, _ = pieces_of(x.dtype, width, channels.run)
    units = channels.share * pieces
    clusters = capability(x.device) >= (9, 0) and wide(x.dtype).itemsize == 4
    ranks = min(power_of_two(blocks(units * lanes, BLOCK)), MOST) if clusters else 1
    most = blocks(units, ranks)
    return ranks, max(power_of_two(most * lanes), WARP), most


def fits_block(x: Layout, width: int, channels: Channels) -> bool:
    """Whether the registers of a block, or of a cluster's blocks, hold groups of x."""
    return spread(x, width, channels)[1] <= LONG
