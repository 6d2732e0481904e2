"""Gradients that are averaged while the backward pass goes on.

The arrays are divided into buckets, in the order in which the backward pass completes their
gradients: in the first call from the last array to the first, from then on as process 0 has seen it
(an array that is used twice is complete late). When all gradients of a bucket are there, they are
averaged over the processes: between GPUs by NCCL on a stream of its own, on the CPU by a thread.
Small ones are laid one behind another in one array; on a GPU large ones travel as they are. Each
process begins with its buckets in the same order.
"""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import recording
from ..core.array import ndarray, wrap
from ..core.devices import CPU
from ..core.dispatch.call_record import open_records, traced
from ..core.fp_errors import quiet
from ..core.layout import Layout
from ..cpu import collective as on_host
from ..ops.creation import empty, zeros
from ..ops.join import concatenate
from ..runtime import stream as streams
from ..runtime.communication import nccl
from ..runtime.communication.world import BUCKETS, World
from .collectives import exchanged, fold, in_order, ordered, scattered, sums
from .orders import agreed, known

#: Bytes of a bucket: large enough for the full rate, small enough that the last one is short.
BYTES = 25 << 20

#: Bytes from which on a copy costs more than a further call in a group of NCCL's.
LARGE = 1 << 20

#: Buckets that are under way before the backward pass waits for the first of them, so that the
#: memory of its gradients is free again.
FLIGHT = 4


class Parcel(NamedTuple):
    """Arrays that lie one behind another: their numbers, layouts, and how many elements of each
    come back."""

    numbers: tuple[int, ...]
    layouts: tuple[Layout, ...]
    widths: tuple[int, ...]


@functools.lru_cache(256)
def divided(
    layouts: tuple[Layout, ...], order: tuple[int, ...], nbytes: int, parts: int
) -> tuple[tuple[Parcel, ...], ...]:
    """Buckets of arrays of one dtype and device each. order: in which they are complete. parts: of
    how many parts each array's width is one."""
    open_now: dict[tuple, list[int]] = {}
    full: list[list[int]] = []
    for i in order:
        kind = layouts[i].dtype, layouts[i].device
        bucket = open_now.setdefault(kind, [])
        bucket.append(i)
        if sum(layouts[k].nbytes for k in bucket) >= nbytes:
            full.append(open_now.pop(kind))
    full += open_now.values()
    full.sort(key=lambda bucket: order.index(bucket[-1]))  # what is complete first comes first
    found = []
    for bucket in full:
        alone = [
            (i,)
            for i in bucket
            if layouts[i].device != CPU
            and layouts[i].nbytes >= LARGE
            and layouts[i].size % parts == 0
        ]
        rest = tuple([i for i in bucket if (i,) not in alone])
        found.append(tuple([_parcel(some, layouts, parts) for some in (*alone, rest) if some]))
    return tuple(found)


def _parcel(numbers: tuple[int, ...], layouts: Sequence[Layout], parts: int) -> Parcel:
    some = [layouts[i] for i in numbers]
    return Parcel(numbers, tuple(some), tuple([math.ceil(x.size / parts) for x in some]))


class Averages:
    """Collects gradients (`value_and_grad_into`): their means over all processes.

    Parameters
    ----------
    arrays : list of ndarray
        What is differentiated.
    world : World
        The processes.
    sharded : bool
        Of each mean only this process's piece is wanted, as `to_shards` cuts it.
    deterministic : bool
        Add in the order of the ranks.
    nbytes : int
        Size of a bucket.
    """

    def __init__(
        self,
        arrays: list[ndarray],
        world: World,
        *,
        sharded: bool = False,
        deterministic: bool = False,
        nbytes: int = BYTES,
    ):
        self.arrays, self.world, self.sharded = arrays, world, sharded
        self.layouts = tuple([x._layout for x in arrays])
        order = known("gradients", self.layouts, world)
        observed = order is not None or (open_records and traced()) or recording.state.depth
        self.seen: list[int] | None = None if observed else []
        if order is None:
            order = tuple(reversed(range(len(arrays))))
        self.buckets = divided(self.layouts, order, nbytes, world.size if sharded else 1)
        self.home = {
            i: k for k, some in enumerate(self.buckets) for parcel in some for i in parcel.numbers
        }
        self.missing = [sum([len(parcel.numbers) for parcel in some]) for some in self.buckets]
        self.begun = 0  # buckets that are under way
        self.gradients: dict[int, ndarray | None] = {}
        self.results: list[Callable[[], Sequence[ndarray]]] = []
        self.deterministic = deterministic
        self.carriers: dict[int, Any] = {}

    def ready(self, i: int, g: ndarray | None) -> None:
        """The gradient of array i is complete; None if there is none."""
        if self.seen is not None:
            self.seen.append(i)
        self.gradients[i] = g
        self.missing[self.home[i]] -= 1
        while self.begun < len(self.buckets) and not self.missing[self.begun]:
            bucket = self.buckets[self.begun]
            self.begun += 1
            flats = [self._laid_out(parcel) for parcel in bucket]
            self.results.append(self._carrier(bucket[0].layouts[0].device).begin(flats))

    def collected(self) -> list[ndarray]:
        """The means, in the order of the arrays."""
        found: list[Any] = [None] * len(self.arrays)
        for carrier in self.carriers.values():
            carrier.end()
        for bucket, result in zip(self.buckets, self.results, strict=True):
            for parcel, flat in zip(bucket, result(), strict=True):
                at = 0
                for i, layout, width in zip(*parcel, strict=True):
                    piece = flat[at : at + width]
                    found[i] = piece if self.sharded else piece.reshape(layout.shape)
                    at += width
        if self.seen is not None:
            agreed("gradients", self.layouts, self.seen, self.world)
        return found

    def _laid_out(self, parcel: Parcel) -> ndarray:
        """The gradients of a parcel in one array: (n,), or sharded (size, n), row i for process
        i."""
        parts = []
        for i, layout, width in zip(*parcel, strict=True):
            g = self.gradients.pop(i)
            if g is None:
                flat = zeros(layout.size, dtype=layout.dtype, device=self.arrays[i].device)
            else:
                flat = g.reshape(-1)
            if self.sharded:
                missing = width * self.world.size - layout.size
                if missing:
                    more = zeros(missing, dtype=flat.dtype, device=flat.device)
                    flat = concatenate([flat, more])
                flat = flat.reshape(self.world.size, width)
            parts.append(flat)
        return parts[0] if len(parts) == 1 else concatenate(parts, axis=1 if self.sharded else 0)

    def _carrier(self, device: int) -> Any:
        """What averages arrays of a device."""
        found = self.carriers.get(device)
        if found is None:
            found = self.carriers[device] = self._chosen(device)
        return found

    def _chosen(self, device: int) -> Any:
        if (open_records and traced()) or recording.state.depth:
            return Inline(self.world, self.sharded, self.deterministic)
        if device == CPU:
            return Thread(self.world, self.sharded)
        if self.deterministic or nccl.why_not(self.world, device):
            return Inline(self.world, self.sharded, self.deterministic)
        return Beside(self.world, device, self.sharded)


class Inline:
    """Averages at once, by the collectives: they may be part of a program, or differentiated."""

    def __init__(self, world: World, sharded: bool, deterministic: bool):
        self.world, self.sharded, self.deterministic = world, sharded, deterministic

    def begin(self, flats: list[ndarray]) -> Callable[[], Sequence[ndarray]]:
        means = [self._mean(flat) for flat in flats]
        return lambda: means

    def _mean(self, flat: ndarray) -> ndarray:
        world, device = self.world, flat._layout.device
        if self.deterministic and device != CPU and not nccl.why_not(world, device):
            if not self.sharded:
                return in_order(flat, op="mean", world=world)
            (rows,) = exchanged(flat, world=world)
            return fold(rows, "mean")
        if self.sharded:
            (mean,) = scattered(flat, op="mean", world=world)
        else:
            (mean,) = sums(flat, op="mean", about="gradients", world=world)
        return mean

    def end(self) -> None:
        """Nothing is under way."""


class Thread:
    """Averages arrays of the CPU in a thread of this process, which has a channel of its own."""

    def __init__(self, world: World, sharded: bool):
        self.world, self.sharded = world, sharded
        worker = world.__dict__.get("worker")
        if worker is None:
            worker = concurrent.futures.ThreadPoolExecutor(1, "gradients")
            world.__dict__["worker"] = worker
        self.worker = worker

    def begin(self, flats: list[ndarray]) -> Callable[[], Sequence[ndarray]]:
        channel: Any = Channel(self.world, BUCKETS)
        data: list[np.ndarray] = [flat._data for flat in flats]

        def work() -> tuple[np.ndarray, ...]:
            if self.sharded:
                return on_host.reduce_scatter(*data, op="mean", world=channel)
            return on_host.all_reduce(*data, op="mean", about="gradients", world=channel)

        future = self.worker.submit(quiet().run, work)
        return lambda: [wrap(mean) for mean in future.result()]

    def end(self) -> None:
        """The results wait."""


class Channel:
    """A world whose letters keep apart from those of others."""

    def __init__(self, world: World, number: int):
        self.rank, self.size = world.rank, world.size
        self.exchange = functools.partial(world.exchange, channel=number)
        self.gather = functools.partial(world.gather, channel=number)
        self.agree = functools.partial(world.agree, channel=number)


class Beside:
    """Averages arrays of a GPU by NCCL, on a stream beside that of the backward pass.

    The arrays are kept until the streams meet, so their memory is not used for anything else
    meanwhile. In the capture of a graph the streams part and meet in the same way.
    """

    def __init__(self, world: World, device: int, sharded: bool):
        self.of = nccl.communicator(world, device, "gradients")
        self.main = streams.stream_of(device)
        self.sharded, self.size = sharded, world.size
        self.kept: collections.deque[tuple[streams.Event, list[ndarray]]] = collections.deque()

    def begin(self, flats: list[ndarray]) -> Callable[[], Sequence[ndarray]]:
        flats = [ordered(flat) for flat in flats]
        outs = [
            empty(flat.shape[1:] if self.sharded else flat.shape, flat.dtype, device=flat.device)
            for flat in flats
        ]
        call = self.of.reduce_scatter if self.sharded else self.of.all_reduce
        calls = [
            call(flat._data, out._data, _kind(out), nccl.SUMS["mean"])
            for flat, out in zip(flats, outs, strict=True)
            if out.size
        ]
        if calls:
            event = self.of.call_beside(self.main, "the means of gradients", calls)
            self.kept.append((event, flats))
        while len(self.kept) > FLIGHT:
            self.main.wait(self.kept.popleft()[0])
        return lambda: outs

    def end(self) -> None:
        """The stream of the backward pass waits for the other one."""
        self.of.meet(self.main)
        self.kept.clear()


def _kind(x: ndarray) -> nccl.Kind:
    kind = nccl.added(x.size, x.dtype)
    assert kind is not None  # gradients are floating-point or complex
    return kind


def averages(
    world: World, *, sharded: bool, deterministic: bool, nbytes: int
) -> Callable[[list[ndarray]], Averages]:
    """What makes a collector."""

    def make(arrays: Sequence[ndarray]) -> Averages:
        return Averages(
            list(arrays), world, sharded=sharded, deterministic=deterministic, nbytes=nbytes
        )

    return make
