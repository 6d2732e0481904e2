"""The kinds of rules: how a card computes for all calls of `vmap` at once.

A rule is `rule(call)` (`core/batched.py`: Call) and returns physical results with the batch as
their first axis. It is written with public functions and cards, so gradients go through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..core import batched
from ..core.array import ndarray
from ..core.batched import Call
from ..ops.ranges import arange
from ..ops.shape import _copy

Rule = Callable[[Call], Any]


def line(x: ndarray | None) -> Any:
    """A physical array without gaps, as cards want it whose public functions see to that."""
    return x if x is None or x._layout.contiguous else _copy(x)


def lines(call: Call) -> list[Any]:
    """All inputs, the batch in front, without gaps."""
    return [line(call.all(i)) for i in range(len(call.arrays))]


def stacked(call: Call) -> Any:
    """Of cards that compute on the last axes, whatever is in front of them: one axis more there."""
    return call.run(*lines(call))


def along(*names: str, before: tuple = ()) -> Rule:
    """The rule of cards that compute along axes: their numbers grow by one. names: the parameters
    that hold numbers of axes."""

    def rule(call: Call) -> Any:
        return call.run(*lines(call), **{name: further(call.params[name]) for name in names})

    return rule


def further(axis: Any) -> Any:
    """Numbers of axes, where there is an axis more in front."""
    return tuple([i + 1 for i in axis]) if isinstance(axis, tuple) else axis + 1


def with_first(**firsts: Any) -> Rule:
    """The rule of cards with a parameter that has an entry for each axis: the batch's comes
    first."""

    def rule(call: Call) -> Any:
        return call.run(
            *lines(call),
            **{name: (first, *call.params[name]) for name, first in firsts.items()},
        )

    return rule


def broadcast(call: Call) -> Any:
    """Of cards whose inputs broadcast."""
    arrays = [x for x in call.arrays if x is not None]
    ndim = max([x._layout.ndim for x in arrays])
    ready = iter(batched.aligned(call.frame, arrays, ndim))
    return call.run(*[None if x is None else next(ready) for x in call.arrays])


def merged(x: ndarray | None) -> Any:
    """(batch, n, ...) as (batch * n, ...)."""
    if x is None:
        return None
    x = line(x)
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def parted(x: Any, size: int) -> Any:
    """(batch * n, ...) as (batch, n, ...)."""
    if isinstance(x, tuple):
        return tuple([parted(y, size) for y in x])
    return x.reshape(size, x.shape[0] // size if size else 0, *x.shape[1:])


def folded(call: Call) -> Any:
    """Of cards that compute for each entry along the first axis by itself: the batch becomes a part
    of that axis."""
    return parted(call.run(*[merged(call.all(i)) for i in range(len(call.arrays))]), call.size)


def iota(call: Call, ndim: int, device: Any) -> ndarray:
    """The number of each call, as an index that broadcasts to `ndim` axes behind the batch."""
    return arange(call.size, device=device).reshape(call.size, *[1] * ndim)


def refused(why: str) -> Rule:
    """The rule of a card that cannot be batched."""

    def rule(call: Call) -> NoReturn:
        raise TypeError(
            f"{call.op.name}: vmap: cannot be mapped over inputs that differ from call to call: "
            f"{why}"
        )

    rule.why = why  # type: ignore[attr-defined]
    return rule
