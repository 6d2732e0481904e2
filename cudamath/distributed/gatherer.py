"""Arrays of which each process has a piece, and which are whole while something reads them: ZeRO,
stage 3.

The function reads its parameters one after another. Some at a time are put together, between GPUs
by NCCL on a stream of its own: those that are read next are on their way while the function
computes with the ones before. A few of them are kept; the memory of the others is free again. The
backward pass reads them in the other direction, and they are put together once more.

The order in which a function reads its parameters is learned in its first call; process 0 tells it
to all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import recording, trees
from ..core.array import allocate, ndarray, over, wrap
from ..core.devices import CPU
from ..core.dispatch.call_record import unrecorded
from ..core.layout import Layout
from ..core.scalar import inside
from ..cpu import collective as on_host
from ..runtime import stream as streams
from ..runtime.communication import nccl
from ..runtime.communication.world import World
from .lazy import read_by
from .orders import agreed, known

#: How many buckets are whole at a time, but for those on their way.
KEPT = 4

_SLOTS = [vars(ndarray)[name] for name in ("_data", "_owner")]


class Whole(ndarray):
    """A parameter as the function sees it: its memory is there when it is read."""

    __slots__ = ("_gatherer", "_which")

    _gatherer: Gatherer
    _which: int

    if not TYPE_CHECKING:  # for which these are attributes, as of all arrays

        @property
        def _data(self) -> Any:
            return self._gatherer.memory(self._which)._data

        @property
        def _owner(self) -> Any:
            return self._gatherer.memory(self._which)._owner

    def _alias(self) -> ndarray:
        return self._gatherer.memory(self._which)._alias()


class Gatherer:
    """What puts pieces together, for one call of a function and its gradient.

    Memory is given up only where `between` is called: between two readings of the tree, or two
    rules of the backward pass. What an operation in between has read stays.

    Parameters
    ----------
    pieces : list of ndarray
        Of this process, all on one device.
    layouts : list of Layout
        Of the whole arrays; pieces are rounded to their dtypes before they travel.
    world : World
        The processes.
    nbytes : int
        Bytes that are put together at a time.
    beside : bool
        On a GPU, on a stream of its own.
    """

    def __init__(
        self,
        pieces: list[ndarray],
        layouts: list[Layout],
        world: World,
        *,
        nbytes: int,
        beside: bool,
    ):
        self.pieces, self.world = pieces, world
        self.layouts = tuple(layouts)
        order = known("reads", self.layouts, world)
        self.seen: dict[int, None] | None = {} if order is None else None
        if order is None:
            world.agree(f"pieces of {', '.join([f'{x.dtype}{x.shape}' for x in self.layouts])}")
            order, nbytes = tuple(range(len(pieces))), 0  # each by itself
        self.buckets = consecutive(self.layouts, order, nbytes)
        self.home = {i: (b, k) for b, some in enumerate(self.buckets) for k, i in enumerate(some)}
        self.there: dict[int, list[ndarray]] = {}  # by bucket; the one that was read last is last
        #: By bucket: the event after which it is there, and what travels until then.
        self.awaited: dict[int, tuple[Any, list[ndarray]]] = {}
        self.last: int | None = None
        self.step = 1
        self.wholes: list[Whole] = []
        self.device = pieces[0]._layout.device
        if self.device != CPU:
            self.main = streams.stream_of(self.device)
            # one communicator for all that goes beside: NCCL does it in the order of the calls
            self.of = nccl.communicator(world, self.device, "gradients" if beside else "")
        self.beside = beside

    def placeholders(self) -> list[ndarray]:
        """Arrays without memory, for what only looks at shapes."""
        return [
            over(x, np.broadcast_to(np.zeros((), x.dtype), x.shape) if x.device == CPU else 0, None)
            for x in self.layouts
        ]

    def tree(self, structure: Any, leaves: Sequence[ndarray]) -> Any:
        """What the function reads: `leaves`, which have nodes and no memory, as a tree."""
        for number, leaf in enumerate(leaves):
            whole = object.__new__(Whole)
            whole._layout, whole._node, whole._base = leaf._layout, leaf._node, None
            whole._gatherer, whole._which = self, number
            for slot in _SLOTS:  # machine code looks there, finds no array, leaves it to Python
                slot.__set__(whole, None)
            self.wholes.append(whole)
        return read_by(self.read, structure.unflatten(range(len(leaves))))

    def read(self, number: int) -> ndarray:
        """The function reads an array."""
        self.between()
        if self.seen is not None:
            self.seen[number] = None
        self._touch(self.home[number][0])
        return self.wholes[number]

    def memory(self, number: int) -> ndarray:
        """A whole array as it is now."""
        bucket, place = self.home[number]
        self._touch(bucket)
        return self.there[bucket][place]

    def between(self) -> None:
        """Give up what was not read lately."""
        while len(self.there) > KEPT:
            bucket = next(iter(self.there))
            self._wait(bucket)
            del self.there[bucket]

    def turn(self) -> None:
        """The backward pass begins."""
        self.last, self.step = None, -1

    def end(self) -> None:
        """Nothing more is read."""
        for bucket in list(self.awaited):
            self._wait(bucket)
        self.there.clear()

    def learn(self) -> None:
        """All processes read in the order in which process 0 has read, from the next call on."""
        if self.seen is not None:
            rest = [i for i in range(len(self.pieces)) if i not in self.seen]
            agreed("reads", self.layouts, [*self.seen, *rest], self.world)

    def _touch(self, bucket: int) -> None:
        if bucket not in self.there:
            self._begin(bucket)
        self._wait(bucket)
        if bucket == self.last:
            return
        self.there[bucket] = self.there.pop(bucket)
        following = bucket + self.step
        if (
            self.seen is None
            and self.last in (None, bucket - self.step)
            and 0 <= following < len(self.buckets)
            and following not in self.there
        ):
            self._begin(following)
        self.last = bucket

    def _wait(self, bucket: int) -> None:
        if bucket in self.awaited:
            event, _ = self.awaited.pop(bucket)
            self.main.wait(event)

    def _begin(self, bucket: int) -> None:
        """Put the arrays of a bucket together. This happens inside of other calls: they do not
        record it."""
        numbers, size = self.buckets[bucket], self.world.size
        layouts = [self.layouts[i] for i in numbers]
        with unrecorded(), recording.paused(), inside():
            pieces = [self.pieces[i].astype(self.layouts[i].dtype, copy=False) for i in numbers]
        if self.device == CPU:
            rows = on_host.all_gather(*[p._data for p in pieces], world=self.world)
            self.there[bucket] = [
                wrap(row.reshape(-1)[: layout.size].reshape(layout.shape))
                for row, layout in zip(rows, layouts, strict=True)
            ]
            return
        flats = [allocate(p._layout.like((size * p.size,))) for p in pieces]
        calls = [
            self.of.all_gather(p._data, flat._data, nccl.moved(p.nbytes))
            for p, flat in zip(pieces, flats, strict=True)
            if p.size
        ]
        self.there[bucket] = [
            over(layout, flat._data, flat._owner)
            for layout, flat in zip(layouts, flats, strict=True)
        ]
        if not calls:
            return
        if self.beside:
            event = self.of.call_beside(self.main, "pieces of parameters", calls)
            self.awaited[bucket] = event, pieces
        else:
            self.of.call(self.main, "pieces of parameters", calls)


def consecutive(
    layouts: Sequence[Layout], order: Sequence[int], nbytes: int
) -> list[tuple[int, ...]]:
    """Arrays that are read one after another, so many bytes together."""
    found: list[tuple[int, ...]] = []
    some: list[int] = []
    for i in order:
        some.append(i)
        if sum([layouts[k].nbytes for k in some]) >= nbytes:
            found.append(tuple(some))
            some = []
    return [*found, tuple(some)] if some else found


class Relay:
    """A collector of gradients (`value_and_grad_into`) that gives up parameters on the way."""

    def __init__(self, collector: Any, gatherer: Gatherer):
        self.collector, self.gatherer = collector, gatherer
        gatherer.turn()

    def ready(self, i: int, g: ndarray | None) -> None:
        self.collector.ready(i, g)
        self.gatherer.between()

    def collected(self) -> list[ndarray]:
        return self.collector.collected()


def gathering(
    fn: Callable,
    together: Callable[[Callable, Callable], Callable],
    averages: Callable[[list[ndarray]], Any],
    gatherer: Gatherer,
    structure: Any,
) -> Callable:
    """`fn`'s value and pieces of its gradients, as a function of its other arguments.

    together: `value_and_grad_into` without its options.
    """

    def whole(leaves: list[ndarray], *args: Any, **options: Any) -> Any:
        return fn(gatherer.tree(structure, leaves), *args, **options)

    step = together(whole, lambda arrays: Relay(averages(arrays), gatherer))

    def run(*args: Any, **options: Any) -> Any:
        try:
            value, pieces = step(gatherer.placeholders(), *args, **options)
        finally:
            gatherer.end()
        gatherer.learn()
        return value, structure.unflatten(trees.flatten("value_and_grad", pieces)[0])

    return run
