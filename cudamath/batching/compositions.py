"""Cards that are made of other functions and have a gradient of their own: both are batched with
what they call, and the physical card keeps the gradient."""

from __future__ import annotations

import functools
from typing import Any

from ..autodiff.rules import custom_vjp
from ..core import trees
from ..core.array import ndarray
from ..core.batched import Frame, Outside, frame_of
from ..core.dispatch.op import Composed
from ..core.levels import level_of, work
from ..core.scalar import as_arrays, inside
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
    return [
        frame.mapped(x) if d else frame.shared(x) for x, d in zip(physical, differ, strict=True)
    ]


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


class _Custom:
    """A function with a gradient rule of the user's, lifted to physical arrays: as the three
    functions that a rule of physical arrays consists of."""

    def __init__(self, rule: Any, frame: Frame, args: tuple):
        self.rule, self.size = rule, frame.size
        leaves, self.structure = trees.flatten(rule.kind, args)
        self.structures = [trees.flatten(rule.kind, arg)[1] for arg in args]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, ndarray)]
        self.differ = tuple([frame.differs(leaves[i]) for i in self.places])
        self.constants = [None if isinstance(x, ndarray) else x for x in leaves]
        with Outside(frame):
            self.physical = [
                frame.all(leaves[i]) if d else frame.one(leaves[i])
                for i, d in zip(self.places, self.differ, strict=True)
            ]

    def _arguments(self, frame: Frame, physical: tuple) -> tuple:
        full = list(self.constants)
        for i, x in zip(self.places, _of_a_call(frame, self.differ, physical), strict=True):
            full[i] = x
        return self.structure.unflatten(full)

    def value(self, *physical: ndarray) -> list[ndarray]:
        """The results of all calls."""
        with Frame(self.size) as frame:
            outputs, self.form = trees.flatten(
                self.rule.kind, self.rule.fn(*self._arguments(frame, physical))
            )
            outputs = as_arrays(self.rule.kind, outputs)
        with Outside(frame):
            return [frame.all(y) for y in outputs]

    def forward(self, *physical: ndarray) -> tuple[list[ndarray], list[Any]]:
        """The same, and what `backward` needs."""
        with Frame(self.size) as frame:
            pair = self.rule.forward(*self._arguments(frame, physical))
            outputs, self.form = trees.flatten(self.rule.kind, pair[0])
            outputs = as_arrays(self.rule.kind, outputs)
            residuals, self.form_of_residuals = trees.flatten(self.rule.kind, pair[1])
        with Outside(frame):
            kept = [frame.all(x) if isinstance(x, ndarray) else x for x in residuals]
            return [frame.all(y) for y in outputs], kept

    def backward(self, residuals: list[Any], g: list[ndarray]) -> list[ndarray | None]:
        """The gradients of all calls."""
        with Frame(self.size) as frame:
            kept = [frame.mapped(x) if isinstance(x, ndarray) else x for x in residuals]
            returned = self.rule.backward(
                self.form_of_residuals.unflatten(kept),
                self.form.unflatten([frame.mapped(x) for x in g]),
            )
            slopes: list[Any] = []
            for each, structure in zip(returned, self.structures, strict=True):
                if each is None:
                    slopes += [None] * structure.num_leaves
                else:
                    slopes += structure.flatten_up_to(each)
        with Outside(frame):
            return [
                None
                if slopes[i] is None
                else frame.all(slopes[i])
                if d
                else total(frame.all(slopes[i]), axis=0)
                for i, d in zip(self.places, self.differ, strict=True)
            ]


def custom(rule: Any, args: tuple) -> Any:
    """The result of a function with a gradient rule of the user's, where the physical arrays behind
    its arguments have a gradient: the rule of the physical arrays is that of all calls."""
    leaves, _ = trees.flatten(rule.kind, args)
    arrays = [x for x in leaves if isinstance(x, ndarray)]
    frame = frame_of(max([x._layout.device for x in arrays], key=level_of))
    lifted = _Custom(rule, frame, args)
    with Outside(frame):
        physical = custom_vjp(lifted.value)
        physical.local = rule.local  # how often `forward` is within itself
        physical.defvjp(lifted.forward, lifted.backward)
        outputs = physical(*lifted.physical)
        results = [frame.mapped(y) for y in outputs]
    return lifted.form.unflatten(results)


work.custom = custom
