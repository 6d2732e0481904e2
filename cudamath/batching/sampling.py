"""Rules of random numbers: the calls draw different ones.

A draw of shape s is one draw of shape (batch, *s). The generator moves on by what so many draws
take (`core.batched._Draws`), which is at least what that one takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.batched import Call, drawing, rules
from ..core.dispatch.op import registry
from ..core.levels import under
from ..ops.join import stack
from ..ops.sort import argsort
from .rules import line, lines, refused

_CELL = (3,), np.dtype(np.uint64)


def _operands(call: Call) -> list[Any]:
    """Parameters of all calls. While a graph is captured the last input is a generator's cell,
    which all calls share."""
    arrays = list(call.arrays)
    if arrays and not call.frame.owns(arrays[-1]) and isinstance(arrays[-1], ndarray):
        last = arrays[-1]._layout
        if (last.shape, last.dtype) == _CELL:
            rest = [line(call.all(i)) for i in range(len(arrays) - 1)]
            return [*rest, arrays[-1]]
    return lines(call)


def drawn(call: Call) -> Any:
    """Numbers for all calls."""
    changed: dict[str, Any] = {}
    if "shape" in call.params:
        changed["shape"] = (call.size, *call.params["shape"])
    if "device" in call.params:
        changed["device"] = under(call.params["device"])
    return call.run(*_operands(call), **changed)


_SAMPLERS = """
    random.uniform random.normal random.tail random.gamma random.beta random.integers
    random.bernoulli random.poisson random.binomial random.geometric dropout
"""
_OF_ELEMENTS = "random.bernoulli (chances by element)", "random.integers (bounds by element)"
for _name in (*_SAMPLERS.split(), *_OF_ELEMENTS):
    rules[_name] = drawn
    drawing.add(_name)


def ordered(call: Call) -> Any:
    """The first elements of a random order for each call: by random keys, or where the card has its
    own way for many elements, one call after another."""
    count, device = call.params["count"], under(call.params["device"])
    key, stream, first, n = call.scalars
    if call.params["ranked"]:
        span = (1 << 63) - 1
        keys = registry["random.integers"](
            *_operands(call),
            scalars=(key, stream, first, 0, span, span),
            shape=(call.size, n),
            dtype=np.dtype(np.int64),
            device=device,
            wide=True,
        )
        return argsort(keys, axis=1)[:, :count]
    each = [
        call.op(
            *_operands(call),
            scalars=(key, stream, first + 6 * i, n),
            **{**call.params, "device": device},
        )
        for i in range(call.size)
    ]
    return stack(each)


rules["random.permutation"] = ordered
drawing.add("random.permutation")


def chosen(call: Call) -> Any:
    """Places of random numbers among cumulative probabilities."""
    if call.differs(0):
        return _PROBABILITIES(call)
    return call.run(call.one(0), shape=(call.size, *call.params["shape"]))


_PROBABILITIES = refused(
    "the probabilities differ; draw by cm.random.Generator.random and compare with their sums"
)
rules["random.choice (thresholds)"] = chosen
rules["random.choice"] = refused("the probabilities differ from call to call")
drawing.add("random.choice (thresholds)")

#: Cards that run once for each call, for want of another way, and when.
LOOPS = {"random.permutation": "of more elements than are ordered by random keys"}
