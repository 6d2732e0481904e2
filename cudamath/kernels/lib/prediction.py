"""Predicted times: what a version does on a problem, and how long a device takes for it.

A family whose fastest version depends on sizes states for each version the `Work` it does on a
problem: the cycles of the busiest multiprocessor, the bytes that memory moves, the launches. A
device has a clock and a bandwidth, and so the time is

    launches * launch + ((cycle * cycles / clock)^4 + (byte * moved / bandwidth)^4)^(1/4)

(arithmetic and memory overlap; where they take equally long, they hinder each other). `Rates`
belong to a kind of version: microseconds of a launch, and how many times longer arithmetic and
memory take than they would at the highest clock and the nominal bandwidth. What is expected of a
version whose predictions spread is more than its median: exp(spread^2 / 2) times as much. They are
fitted to measurements (benchmarks/planner.py, which writes `rates.json`). Nothing else of a device
is asked for, so a device that nobody measured has its prediction, too. Libraries are versions like
others.

Partial tiles and waves are in the cycles: `tiled` counts what the tiles of a product take on the
busiest multiprocessor, rows that stay empty included.
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...runtime import device as devices
from .integers import blocks

OVERLAP = 4.0  # exponent of the norm that joins arithmetic and memory
CACHED = 0.4  # time of a byte that the second-level cache still holds, of one of memory


class Rates(NamedTuple):
    """The coefficients of a kind of version, see above, and the standard deviation of the logarithm
    of measured by predicted time. By default those of a version that nobody measured: slower than
    most, so that it does not run before one that was."""

    launch: float = 4.0
    cycle: float = 2.5
    byte: float = 2.0
    spread: float = 0.4


class Work(NamedTuple):
    """What a version does on a problem.

    Parameters
    ----------
    rates : str
        The kind of version, by which `rates.json` knows its rates.
    cycles : float
        Of the busiest multiprocessor, at the full rate of its arithmetic.
    moved : float
        Bytes read and written.
    launches : float
        Launches and calls, one after the other. One that begins early is a part of one.
    """

    rates: str
    cycles: float
    moved: float
    launches: float = 1


class Machine(NamedTuple):
    """A device as predictions see it: clock in Hz, bandwidth in bytes per second, cache in
    bytes."""

    multiprocessors: int
    clock: float
    bandwidth: float
    cache: float
    capability: tuple[int, int]

    @classmethod
    def of(cls, device: int) -> Machine:
        """The properties of a device, or of the assumed one."""
        found = devices.properties(device)
        return cls(
            found.multiprocessors,
            found.clock or 1.5e9,
            found.memory_bandwidth or 1e12,
            found.l2_cache,
            found.capability,
        )

    def rate(self, dtype: np.dtype, tensor: bool) -> float:
        """Multiply-adds of a multiprocessor in a cycle, on tensor cores or beside them."""
        size = dtype.itemsize
        if tensor:
            of_16_bits = {7: 256, 8: 1024 if self.capability == (8, 0) else 512, 9: 2048, 10: 4096}
            full = of_16_bits.get(self.capability[0], 512)
            if dtype.kind != "c" and size == 8:
                return {(8, 0): 64, (9, 0): 128}.get(self.capability, 2)
            return full * 2 / size if size < 8 else 2
        if dtype == np.float64:
            return {(8, 0): 32, (9, 0): 64, (10, 0): 64}.get(self.capability, 2)
        return 64 if self.capability in ((7, 5), (8, 0)) else 128


def seconds(work: Work, machine: Machine, rates: Rates) -> tuple[float, float]:
    """The two parts that overlap, in seconds: arithmetic and memory."""
    kept = min(work.moved, machine.cache / 2)
    moved = work.moved - (1 - CACHED) * kept
    return rates.cycle * work.cycles / machine.clock, rates.byte * moved / machine.bandwidth


def microseconds(work: Work, machine: Machine, rates: Rates | None = None) -> float:
    """The expected time; rates: by default those of `rates.json`."""
    rates = rates or rates_of(work.rates)
    return median(work, machine, rates) * math.exp(rates.spread**2 / 2)


def median(work: Work, machine: Machine, rates: Rates) -> float:
    """The time in microseconds that a version exceeds as often as not."""
    arithmetic, memory = seconds(work, machine, rates)
    together = (arithmetic**OVERLAP + memory**OVERLAP) ** (1 / OVERLAP)
    return rates.launch * work.launches + 1e6 * together


@functools.cache
def _fitted() -> dict[str, Rates]:
    file = pathlib.Path(__file__).parents[1] / "rates.json"
    table = json.loads(file.read_text(encoding="utf-8"))
    return {name: Rates(*numbers) for name, numbers in table.items()}


def kind_with_rates(name: str) -> str:
    """The kind of version by whose rates one goes: it, or that of the words before, if there are
    none of it: "cudnn weight" for "cudnn weight float32". Empty if there are none of those."""
    table = _fitted()
    while name and name not in table:
        name = name.rpartition(" ")[0]
    return name


def rates_of(name: str) -> Rates:
    """The rates of a kind of version, or of the nearest that has some."""
    return _fitted().get(kind_with_rates(name), Rates())


def has_rates(name: str) -> bool:
    """Whether a kind of version was measured as such."""
    return name in _fitted()


class Tiles(NamedTuple):
    """The tiles of a kernel for products: sizes of a tile (rows, columns), terms that a step of the
    sum has, cycles that a step takes besides its arithmetic, numbers that memory brings in a cycle
    (0: no limit), cycles at the end of a tile and numbers that it stores in a cycle, blocks that a
    multiprocessor holds, and the parts into which sums may be split."""

    sizes: Sequence[tuple[int, int]]
    depth: int = 32
    latency: float = 30
    feed: float = 0
    end: float = 600
    store: float = 10
    resident: int = 1
    splits: Iterable[int] = (1,)


ADDING = 2e-6  # seconds of the launch that adds the parts of sums


def tiled(
    tiles: Tiles, rows: int, columns: int, inner: int, count: int, machine: Machine, rate: float
) -> tuple[float, int]:
    """(cycles of the busiest multiprocessor, parts of the sum) of `count` products of rows x
    columns with sums of `inner` terms, by the tile and the split that take least time: parts, of
    four bytes a number, are written and read."""
    steps, many = max(blocks(inner, tiles.depth), 1), machine.multiprocessors
    part = 2 * 4 * rows * columns * count * machine.clock / machine.bandwidth
    found = []
    for m, n in tiles.sizes:
        busy = m * n * tiles.depth / rate  # of a step; the blocks of a multiprocessor share it
        if tiles.feed:
            busy = max(busy, (m + n) * tiles.depth / tiles.feed)
        for splits in tiles.splits:
            if splits > steps:
                continue
            own = blocks(steps, splits)
            number = blocks(rows, m) * blocks(columns, n) * count * splits
            waves = blocks(number, many * tiles.resident)
            together = min(tiles.resident, blocks(number, many))
            step = max(busy * together, tiles.latency + busy)
            cycles = waves * (own * step + m * n / tiles.store + tiles.end)
            adding = splits * part + ADDING * machine.clock if splits > 1 else 0
            found.append((cycles + adding, cycles, splits))
    return min(found)[1:]
