"""Errors on request, at the call that makes them: `errstate(all="warn")` or "raise" looks at the
result of every op in its context, and `errstate(device="raise")` waits for the errors that kernels
find.

Elsewhere nothing is looked at: infinities and NaNs pass in silence, as on a GPU. In the context the
ops of this thread report to a record (core/dispatch/call_record.py), and no call is replayed. Each
result of floating-point numbers is tested on its device, and the host waits for the answer.
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np

from ..core.array import ndarray
from ..core.devices import CPU, TRACED
from ..core.dispatch.call_record import CallRecord, Step, unrecorded
from ..core.dtypes import INEXACT, INTEGER
from ..core.fp_errors import STATE
from ..core.user_warnings import warn
from ..runtime.interrupts import call_at_once, uninterrupted
from ..runtime.stream import synchronize
from . import elementwise, reduce
from .ufunc import Elementwise

__all__ = ["errstate"]

F = TypeVar("F", bound=Callable)

_MESSAGES = {
    "divide": "divide by zero encountered in",
    "over": "overflow encountered in",
    "invalid": "invalid value encountered in",
}
#: Ops that make an infinity of a finite number by dividing, and of their operand in a pole.
_QUOTIENTS = {"divide", "floor_divide", "remainder", "reciprocal"}
_POLES = {"log", "log2", "log10", "log1p", "atanh"}


class _Thread(threading.local):
    """What holds in a thread: how errors of each kind are met, of those that are not ignored, and
    what they are said to be in, if not in the op."""

    modes: dict[str, str] = {}
    method: str | None = None


_thread = _Thread()


class naming:
    """A context whose errors are said to be in a method of a ufunc, as NumPy's are."""

    def __init__(self, method: str):
        self.method = method

    def __enter__(self) -> None:
        self.before, _thread.method = _thread.method, self.method

    @uninterrupted
    def __exit__(self, *_: object) -> None:
        _thread.method = self.before


class errstate(np.errstate):
    """A context in which floating-point errors are warned about, raised, or ignored.

    With "warn" or "raise" the result of every operation in the context is looked at, on the CPU and
    on a GPU, which is waited for each time. Outside of such a context nothing is.

    With `device="raise"` the errors that kernels find on a GPU (an index out of range, a singular
    matrix) are raised by the call that makes them, as on the CPU. Outside of such a context they
    are raised by the next call that waits for the device: one that reads values, or `synchronize`.

    Parameters
    ----------
    device : str, optional
        "raise" or "ignore": when errors that kernels find are raised. `all` does not set it.
    **kwargs : str
        `all`, `divide`, `over`, `invalid`: "ignore", "warn" (RuntimeWarning with the line of the
        call) or "raise" (FloatingPointError). The others are NumPy's and concern NumPy alone:
        `under`, `call`.

    Raises
    ------
    ValueError
        A mode is none of these.

    Notes
    -----
    An error is a NaN or an infinity in a result where the operands have none at this place. For
    reductions, products and the like it counts whether the operands have any. What an operator
    writes in place is looked at before, and `where=` leaves no place out.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.errstate(divide="raise"):
    ...     try:
    ...         cm.asarray([1.0]) / 0.0
    ...     except FloatingPointError as error:
    ...         print(error)
    divide by zero encountered in divide

    >>> with cm.errstate(device="raise"):
    ...     try:
    ...         inverse = cm.linalg.inv(cm.zeros((2, 2)))
    ...     except cm.linalg.LinAlgError:
    ...         print("no inverse")
    no inverse
    """

    def __init__(self, *, device: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if device not in (None, "raise", "ignore"):
            raise ValueError(f"errstate: device must be 'raise' or 'ignore', got {device!r}")
        every = kwargs.get("all")
        modes = {kind: kwargs.get(kind) or every for kind in _MESSAGES}
        modes["device"] = device
        self._changes = {kind: mode for kind, mode in modes.items() if mode is not None}
        self._given = {"device": device, **kwargs}
        self._watch: CallRecord | None = None
        self._entered: list[contextvars.Token] = []

    def __call__(self, function: F) -> F:
        """The function, each call of which runs in such a context."""

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with errstate(**self._given):
                return function(*args, **kwargs)

        return cast(F, inside)

    def _numpy_state(self) -> Any:
        """What NumPy's own context sets. It runs in a copy of the thread's context variables."""
        np.errstate.__enter__(self)
        return STATE.get()

    def __enter__(self) -> Any:
        self._before = _thread.modes
        modes = {**self._before, **self._changes}
        modes = {kind: mode for kind, mode in modes.items() if mode in ("warn", "raise")}
        watch = None
        if modes and not self._before:  # one record looks for all contexts inside
            watch = CallRecord()
            watch.steps = _Watched()
            watch.of_user = True
        wanted = contextvars.copy_context().run(self._numpy_state)
        try:
            call_at_once(self._entered, STATE.set, wanted)
            if watch is not None:
                watch.__enter__()
        except BaseException:  # an interrupt (Ctrl-C) too
            if self._entered:
                STATE.reset(self._entered[0])
            raise
        self._watch, _thread.modes = watch, modes  # last, by assignments alone

    @uninterrupted
    def __exit__(self, *error: Any) -> Any:
        _thread.modes, watch = self._before, self._watch
        self._watch = None
        try:
            if watch is not None:
                watch.steps = []
                watch.__exit__(*error)
        finally:
            STATE.reset(self._entered[0])


class _Watched(list):
    """The steps of a record: looked at and not kept."""

    def append(self, step: Step) -> None:
        modes = _thread.modes
        if not modes:
            return
        if "device" in modes:
            _wait_for_errors(step)
        with unrecorded():
            kinds = _errors(step) if modes.keys() - {"device"} else []
        for kind in kinds:
            if kind in modes:
                _tell(f"{_MESSAGES[kind]} {_thread.method or step.op.name}", modes[kind])

    def __iadd__(self, steps: Iterable[Step]) -> _Watched:  # type: ignore[misc,override]
        for step in steps:
            self.append(step)
        return self


def _wait_for_errors(step: Step) -> None:
    """Wait for the devices on which an op has run, and raise what its kernels found."""
    arrays = [x for x in (*step.inputs, *step.outputs) if isinstance(x, ndarray)]
    for device in {x._layout.device for x in arrays} - {CPU, TRACED}:
        synchronize(device)


def _errors(step: Step) -> list[str]:
    """The kinds of errors that an op made."""
    inputs = [x for x in step.inputs if isinstance(x, ndarray)]
    name = step.op.name
    if any(x._layout.device == TRACED or x.dtype.kind == "V" for x in inputs):
        return []
    found = []
    for y in step.outputs:
        if not isinstance(y, ndarray) or y._layout.device == TRACED or not y.size:
            continue
        if y.dtype in INTEGER and name in ("floor_divide", "remainder"):
            dividend, divisor = step.inputs
            if _any(elementwise.equal(divisor, 0)):
                found.append("divide")
            if name == "floor_divide" and y.dtype.kind == "i":  # the least number by -1
                least = np.iinfo(y.dtype).min
                at = elementwise.logical_and(
                    elementwise.equal(dividend, least), elementwise.equal(divisor, -1)
                )
                if _any(at):
                    found.append("over")
        if y.dtype not in INEXACT or bool(reduce.all(elementwise.isfinite(y))):
            continue
        beside = isinstance(step.op, Elementwise)
        floats = [x for x in inputs if x.dtype in INEXACT]
        if _new(elementwise.isnan(y), [elementwise.isnan(x) for x in floats], beside):
            found.append("invalid")
        infinite = elementwise.isinf(y)
        before = [elementwise.logical_not(elementwise.isfinite(x)) for x in floats]
        if _new(infinite, before, beside):
            found.append("divide" if _divided(name, step.inputs) else "over")
    return found


def _new(now: ndarray, before: list[ndarray], beside: bool) -> bool:
    """Whether something is there now where it was not before: element beside element, or at all."""
    if not beside:
        return _any(now) and not any(_any(x) for x in before)
    for x in before:
        now = elementwise.logical_and(now, elementwise.logical_not(x))
    return _any(now)


def _divided(name: str, inputs: tuple) -> bool:
    """Whether an infinity comes from a division by 0 or a pole."""
    if name in _POLES:
        return True
    return name in _QUOTIENTS and _any(elementwise.equal(inputs[-1], 0))


def _any(x: Any) -> bool:
    return bool(reduce.any(x))


def _tell(message: str, mode: str) -> None:
    """A warning at the user's line, or an error."""
    if mode == "raise":
        raise FloatingPointError(message)
    warn(message, RuntimeWarning)
