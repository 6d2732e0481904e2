"""Batch statistics: how the work is divided, and how partial means and variances merge."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from ..lib.row_layout import fitting
from ..lib.widths import vector_width

HELD = 16  # elements a thread reads before it works on them
THREADS = 256  # a block, at most
BLOCKS = 1024  # enough to fill a GPU several times
SPLITS = 512  # parts of a channel, at most
LONG = 16  # rounds of loads that a thread adds up before it merges them with what it has

ALONE = 8  # parts that one thread may merge; for more, MERGERS threads do,
MOST_CHUNKS = 65_535  # of a grid's second dimension
NEIGHBOURS = (
    8  # in blocks of so many channels: 32 bytes of float32, what a read from memory brings at least
)


@functools.cache
def chan(T):
    """Device function: (count, mean, M2) of two disjoint parts -> of both together."""

    @device_function
    def merged(n1, mean1, m1, n2, mean2, m2):
        n = n1 + n2
        f = n2 / max(n, T(1))
        delta = mean2 - mean1
        return n, mean1 + delta * f, m1 + m2 + delta * delta * n1 * f

    return merged


@functools.cache
def typical(dtype):
    """Device function: three elements of a channel -> its pivot, the middle one of them (so no lone
    outlier)."""
    load, _, T = codec(dtype)
    highest = T(math.inf)

    @device_function
    def pivot(a, b, c):
        a, b, c = load(a), load(b), load(c)
        middle = max(min(a, b), min(max(a, b), c))
        return middle if abs(middle) < highest else T(0)  # also for NaN

    return pivot


@functools.cache
def running_average(param):
    """Device function (running statistics, channel, that of the batch, momentum) -> the new one. At
    momentum 1 the running one is not read: there may be none."""
    load, store, T = codec(param)

    @device_function
    def running_average(running, c, batch, momentum):
        return store(
            batch if momentum == T(1) else load(running[c]) * (T(1) - momentum) + batch * momentum
        )

    return running_average


def elements_per_thread(dtype, width: int) -> int:
    """Elements that a thread of the `segments` kernels reads before it works on them: 64 bytes,
    where an access has several.

    16-bit numbers stay packed until then. So four accesses are under way, and what an item of work
    costs by itself (its place, its tests) is shared by 32 numbers: memory leaves a kernel of 16-bit
    numbers half as many instructions for each."""
    return HELD * 2 if dtype.itemsize == 2 and width > 1 else fitting(HELD, dtype)


class Geometry(NamedTuple):
    """An array as (n, channels, run), and how its threads lie: `block`, and `grid` for kernels that
    visit all of it."""

    n: int
    channels: int
    run: int
    width: int
    block: tuple[int, int]
    elements: int  # of a thread (segments)

    @property
    def segments(self) -> bool:
        return self.run > 1

    @property
    def chunks(self) -> int:
        """Pieces of a run that a row of threads reads at once (segments)."""
        return blocks(self.run, self.block[0] * self.elements)

    @property
    def transposed(self) -> bool:
        """Whether a grid's second dimension has no room for the chunks (its first has:
        segments.block_of)."""
        return self.chunks > MOST_CHUNKS

    @property
    def side(self) -> int:
        """Blocks side by side over the channels (columns)."""
        return blocks(self.channels, self.block[0] * self.width)

    def parts(self) -> int:
        """Parts that each channel is cut into for the sums."""
        if self.segments:
            pieces, side = blocks(self.n * self.chunks, self.block[1]), self.channels
        else:
            pieces, side = blocks(self.n, self.block[1] * HELD // self.width), self.side
        return max(1, min(pieces, SPLITS, BLOCKS // side))

    def whole(self) -> tuple[int, int]:
        """The grid of a kernel that visits every element once."""
        if self.segments:
            grid = blocks(self.n * self.channels, self.block[1]), self.chunks
            return grid[::-1] if self.transposed else grid
        return self.side, min(blocks(self.n, self.block[1] * HELD // self.width), BLOCKS)


def geometry(*layouts: Layout) -> Geometry:
    """(N, C, ...) arrays in C order, or with the channels last in memory, all in the same order."""
    x = layouts[0]
    n, channels, run = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    if not x.contiguous:
        n, run = n * run, 1
    width = vector_width(run if run > 1 else channels, *layouts)
    if run > 1:
        many = elements_per_thread(x.dtype, width)
        threads = min(power_of_two(blocks(run, many)), THREADS)
        return Geometry(n, channels, run, width, (threads, max(128 // threads, 1)), many)
    threads = min(power_of_two(blocks(channels, width)), 32)
    return Geometry(n, channels, run, width, (threads, THREADS // threads), HELD)


def present(*layouts: Layout | None) -> list[Layout]:
    """Those that are there."""
    return [layout for layout in layouts if layout is not None]
