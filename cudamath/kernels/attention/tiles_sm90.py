"""Tiles of forward_sm90.py: their sizes, what they cost, and which of them suit a problem; the
order in which blocks of backward_sm90.py run."""

from __future__ import annotations

from typing import NamedTuple

from ..lib.integers import blocks
from .problem import KEYS, Problem

STAGES = 2  # of keys and values
TURNS = 2  # of queries
MOST_SPLITS = 64  # of keys
# Of a multiprocessor in a cycle: products of 16-bit numbers, exponentials, bytes of memory that the
# second-level cache still holds; cycles of a step besides, what arithmetic that overlaps costs of
# the other's time, and steps that begin and end a tile
MULTIPLY_ADDS, EXPONENTIALS, BYTES = 2048, 16, 24
STEP, HINDER, ENDS = 150, 0.25, 1.5


class Tile(NamedTuple):
    """Compile-time choices. kind: "bf16" or "f16"; depth: 64, 128, 192 or 256 columns that TMA
    brings; terms: how many of them scores are sums of, a multiple of 16; width: how many the
    results have, of which `ragged` says that some are beyond D; causal; tail: keys may end within a
    tile; lengths: they are given; mask: its dtype's name, or ""; consumers: warpgroups, of 64
    queries each; split: keys are split, and parts of results are stored."""

    kind: str
    depth: int
    terms: int
    width: int
    ragged: bool
    causal: bool
    tail: bool
    lengths: bool
    mask: str
    consumers: int
    split: bool = False

    @property
    def uneven(self) -> bool:
        """Whether some tiles take longer than others: they are then taken by a counter."""
        return self.causal or self.lengths

    @property
    def keys(self) -> int:
        return KEYS[self.depth]

    @property
    def queries(self) -> int:
        return 64 * self.consumers

    @property
    def registers(self) -> tuple[int, int]:
        """Of a consumer's thread and of a producer's: 65,536 among all."""
        return (160, 32) if self.consumers == 3 else (240, 24)

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + 1)

    @property
    def turns(self) -> int:
        """Stages of queries: the next tile's are there when this one's are done with, where there
        is room for them."""
        return TURNS if self.depth <= 128 else 1


def tile_of(p: Problem, consumers: int, split: bool = False) -> Tile:
    """The kernel of a problem by so many warpgroups."""
    width = outputs_of(p.depth)
    return Tile(
        p.number,
        max(64, p.columns),
        terms_of(p.depth),
        width,
        width != p.depth,
        p.causal,
        not p.limited and p.keys % KEYS[p.columns] != 0,
        p.limited,
        "" if p.mask is None else str(p.mask.dtype),
        consumers,
        split,
    )


def terms_of(depth: int) -> int:
    """Terms of a score: an instruction adds up 16."""
    return 16 * blocks(depth, 16)


def outputs_of(depth: int) -> int:
    """Columns of the product of weights and values: what `store_rows` stores at once."""
    return 32 * blocks(depth, 32)


def tiles_of(p: Problem) -> tuple[Tile, ...]:
    """The tiles that a problem may get: of two warpgroups, and of three where their registers
    suffice: 64 x 64 outputs and 64 x 128 scores take 96, a mask some more."""
    return tuple(tile_of(p, n) for n in ((3, 2) if p.depth <= 64 and p.mask is None else (2,)))


def cycles_of(p: Problem, tile: Tile, splits: int = 1) -> float:
    """What the busiest multiprocessor has to do, in cycles: products, and exponentials beside them
    (16 a cycle); a tile that begins and ends costs what two steps do."""
    products = tile.queries * tile.keys * (tile.terms + tile.width) / MULTIPLY_ADDS
    exponentials = tile.queries * tile.keys / EXPONENTIALS
    step = max(products, exponentials) + HINDER * min(products, exponentials) + STEP
    tiles, heads = blocks(p.rows, tile.queries), p.batch * p.heads
    longest = blocks(blocks(p.keys, tile.keys), splits)
    if not p.causal:
        return blocks(tiles * heads * splits, p.multiprocessors) * (longest + ENDS) * step
    ends = [p.rows - n * tile.queries + p.keys - p.rows for n in range(tiles)]
    of_head = sum(blocks(max(end, 1), tile.keys) + ENDS * splits for end in ends)
    # tiles go from long to short to whoever is free
    return max(of_head * heads / p.multiprocessors, longest + ENDS) * step


def splits_of(p: Problem) -> tuple[Tile, int]:
    """The tile, and the parts of the keys, by which a problem is done first. A part has two tiles
    of keys at least; each one's results are written and read again."""
    most = min(MOST_SPLITS, blocks(p.keys, KEYS[p.columns]) // 2)
    found = []
    for tile in tiles_of(p):
        steps = blocks(p.keys, tile.keys)
        for wanted in range(2, most + 1):
            splits = blocks(steps, blocks(steps, wanted))  # none without keys
            moved = 8 * splits * p.q.size / p.multiprocessors / BYTES
            found.append((cycles_of(p, tile, splits) + moved, splits, tile))
    _, splits, tile = min(found)
    return tile._replace(split=True), splits


# -------------------- gradients

OWN = 128  # keys of a block of backward_sm90.py
#: Columns -> (not causal, causal): (blocks whose heads are interleaved, heads at least), up to
#: HEADS. As measured: few wait for each other's dq, many have more of it than the L2 cache holds.
TOGETHER = {64: ((512, 1), (4096, 1)), 128: ((256, 8), (4096, 1))}
HEADS, FEW = 32, 4
ENOUGH = 4  # blocks for each multiprocessor that heads are split for


def heads_together(p: Problem, shares: int, tiles_k: int, tiles_q: int) -> int:
    """How many of the shares are interleaved. Where a block has few tiles of queries it would wait
    for the one before it longer than it works: then no two of a share run at the same time."""
    at_a_time, least = TOGETHER[p.columns][p.causal]
    together = min(HEADS, max(least, at_a_time // tiles_k))
    if tiles_q * p.heads * p.batch <= FEW * shares:
        together = max(together, p.multiprocessors)
    return min(together, shares)


def head_splits(p: Problem) -> int:
    """Parts of the heads that share keys, by which there are blocks enough: a divisor of their
    number."""
    tiles = blocks(p.keys, OWN) * p.batch * p.shares
    wanted = blocks(ENOUGH * p.multiprocessors, tiles)
    return next(
        (n for n in range(2, p.repeats + 1) if p.repeats % n == 0 and n >= wanted), p.repeats
    )
