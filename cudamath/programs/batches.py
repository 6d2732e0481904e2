"""Control flow in a call of `vmap`.

Conditions that differ from call to call choose between the results of both functions; a loop goes
on while one of the calls wants it to. In a function that `jit` traces as well, the loop is one of
physical arrays, whose body enters the calls of `vmap` again; its steps are traced one by one where
a gradient is taken of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import recording
from ..core.array import ndarray
from ..core.batched import Frame, Inside, Outside, frames
from ..core.devices import TRACED
from ..core.scalar import inside
from ..ops.join import stack
from ..ops.shape import in_order, moveaxis, view_of
from ..ops.where import where
from .loops import branch, in_calls, loop, repeat_while
from .trace import TraceError


def differs(x: Any) -> bool:
    """Whether a value is one of a call of `vmap`."""
    return isinstance(x, ndarray) and x._layout.device < TRACED


def any_call(condition: Any) -> Any:
    """Whether a condition holds in any call: a value of none of them."""
    while differs(condition):
        frame = next(f for f in reversed(frames()) if f.owns(condition))
        with Outside(frame):
            condition = (
                frame.all(condition).any() if frame.differs(condition) else frame.one(condition)
            )
    return condition


def chosen(condition: ndarray, one: list[ndarray], other: list[ndarray]) -> list[ndarray]:
    """The results of one function where a condition holds, of the other elsewhere."""
    with inside():
        return [where(condition, x, y) for x, y in zip(one, other, strict=True)]


def differentiates() -> bool:
    """Whether a gradient is being taken within the calls of `vmap` that this thread is in. It is
    recorded of the arrays of a call, which a loop of physical arrays knows nothing of."""
    return bool(frames()) and recording.state.depth > frames()[0].gradients


def one_by_one(
    step: Callable, carry: list[ndarray], rows: list[ndarray], steps: int, reverse: bool
) -> list[ndarray]:
    """The loop, step by step: the last carry, and what the steps leave as columns."""
    count, columns = len(carry), []
    for i in reversed(range(steps)) if reverse else range(steps):
        with inside():
            row: list[Any] = [view_of(x, (i,)) for x in rows]
        one = step([*carry, *row])
        carry = one[:count]
        columns.append(one[count:])
    if reverse:
        columns.reverse()
    return [*carry, *[stack(column) for column in zip(*columns, strict=True)]]


def branched(
    name: str, condition: ndarray, true: Callable, false: Callable, arrays: list[ndarray]
) -> list[ndarray]:
    """`branch` of a program, in the calls of `vmap` that this thread is in."""
    if frames():
        return chosen(condition, true(arrays), false(arrays))
    return branch(name, condition, true, false, arrays)


def _physical(frame: Frame, x: ndarray) -> ndarray:
    whole = frame.all(x)
    return whole if whole._layout.contiguous else in_order("scan", whole, "C")


def _lifted(frame: Frame, function: Callable) -> Callable:
    """A function of lists of a call's arrays as one of physical arrays. A gradient may run it once
    more when the calls have ended, within others: in calls of its own."""

    def of_physical(arrays: list[ndarray]) -> list[ndarray]:
        again = frames() != frame.frames
        calls = Frame(frame.size) if again else frame
        with calls if again else Inside(calls):
            results = function([calls.mapped(x) for x in arrays])
            with Outside(calls):
                return [_physical(calls, y) for y in results]

    return of_physical


def looped(
    name: str,
    step: Callable,
    carry: list[ndarray],
    rows: list[ndarray],
    steps: int,
    reverse: bool,
) -> list[ndarray]:
    """`loop` of a program, in the calls of `vmap` that this thread is in."""
    if not frames():
        return loop(name, step, carry, rows, steps, reverse)
    if steps and differentiates():
        return one_by_one(step, carry, rows, steps, reverse)
    frame = frames()[-1]
    with Outside(frame):
        out = looped(
            name,
            _lifted(frame, step),
            [_physical(frame, x) for x in carry],
            [in_order("scan", moveaxis(frame.all(x), 0, 1), "C") for x in rows],
            steps,
            reverse,
        )
        count = len(carry)
        return [
            *[frame.mapped(x) for x in out[:count]],
            *[frame.mapped(moveaxis(y, 1, 0)) for y in out[count:]],
        ]


def repeated(name: str, condition: Callable, step: Callable, carry: list[ndarray]) -> list[ndarray]:
    """`repeat_while` of a program, in the calls of `vmap` that this thread is in."""
    if not frames():
        return repeat_while(name, condition, step, carry)
    if differentiates():
        raise TraceError(
            f"{name}: the number of steps is not known when its gradient is recorded: give "
            "max_steps"
        )
    frame = frames()[-1]

    def goes_on(arrays: list[ndarray]) -> list[ndarray]:
        with Inside(frame):
            (found,) = condition([frame.mapped(x) for x in arrays])
        with Outside(frame):
            return [frame.all(found).any()]

    def guarded(arrays: list[ndarray]) -> list[ndarray]:
        (active,) = condition(arrays)
        return chosen(active, step(arrays), arrays)

    with Outside(frame):
        out = repeated(name, goes_on, _lifted(frame, guarded), [_physical(frame, x) for x in carry])
        return [frame.mapped(x) for x in out]


in_calls.update(loop=looped, branch=branched)
