"""Cards that are made of other functions and have a gradient of their own: both are batched with
what they call, and the physical card keeps the gradient."""

from __future__ import annotations

import functools
from typing import Any

from ..core.array import ndarray
from ..core.batched import Frame, Outside, frame_of
from ..core.dispatch.op import Composed
from ..core.levels import level_of, work
from ..core.scalar import inside
from ..ops.reduce import sum as total
from ..ops.shape import _sum_to


def composed(card: Composed, arrays: tuple, params: dict[str, Any]) -> ndarray:
    """The result of a composed card of arrays of which some belong to a call of `vmap`."""
    frame = frame_of(max([x._layout.device for x in arrays], key=level_of))
    differ = tuple([frame.differs(x) for x in arrays])
    with Outside(frame):
        if not any(differ):
            return frame.shared(card(*[frame.one(x) for x in arrays], **params))
        physical = [
            frame.all(x) if d else frame.one(x) for x, d in zip(arrays, differ, strict=True)
        ]
        lifted = Composed(
            card.name,
            functools.partial(_value, card.function, frame.size, differ, params),
            functools.partial(_slopes, card, frame.size, differ, params),
        )
        lifted._saves = True, (True,) * len(physical)
        return frame.mapped(lifted(*physical))


def _value(function: Any, size: int, differ: tuple, params: dict, *physical: ndarray) -> ndarray:
    with Frame(size) as frame, inside():
        y = function(*_of_a_call(frame, differ, physical), **params)
    with Outside(frame):
        return frame.all(y)


def _of_a_call(frame: Frame, differ: tuple, physical: tuple) -> list[ndarray]:
    return [frame.mapped(x) if d else x for x, d in zip(physical, differ, strict=True)]


def _slopes(
    card: Composed,
    size: int,
    differ: tuple,
    params: dict,
    g: ndarray,
    y: ndarray,
    *physical: ndarray,
) -> tuple:
    """The gradients of all calls; of an input that they share, the sum of theirs."""
    with Frame(size) as frame, inside():
        inputs = _of_a_call(frame, differ, physical)
        given = frame.mapped(g), frame.mapped(y)
        rules = card.vjp
        found = (
            [rule(*given, *inputs, **params) for rule in rules]
            if isinstance(rules, tuple)
            else list(rules(*given, *inputs, **params))
        )
        if card.broadcasts:
            found = [
                s if s is None else _sum_to(s, x.shape) for s, x in zip(found, inputs, strict=True)
            ]
    with Outside(frame):
        return tuple(
            [
                s if s is None else frame.all(s) if d else total(frame.all(s), axis=0)
                for s, d in zip(found, differ, strict=True)
            ]
        )


work.composed = composed
