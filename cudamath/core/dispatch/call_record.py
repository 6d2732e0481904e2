"""The record of a call: the ops that it ran, in order.

While a record is open in a thread, every op of that thread reports its step to it: the op, its
inputs, scalars and parameters, the function that ran its plan, and its output. `fast_path` turns
such a record into a replay for the next call of the same kind. `explain` opens a record so that no
call is replayed. `jit` turns the record of a whole function of the user into a program
(programs/trace.py): while such a record is open, functions return to the user as they do without
one, and values without dimensions stay on their device.

Reporting costs nothing while no record is open: a hot path only tests whether `open_records` is
empty.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ...runtime import fork
from ...runtime.interrupts import uninterrupted
from ..devices import TRACED

#: Reasons of `obstruct` for a call that gives the host values of an array, or elements that it
#: chose by their values.
READ, CHOSE = "read values", "chose elements by their values"
#: Of one that other processes take part in, whose result may be unused.
MET = "met other processes"

#: Of one that sets where a generator stands, or lends memory to another library.
SEEDED, LENT = "seeded a generator", "lent its memory to another library"

#: The open records of all threads.
open_records: list[CallRecord] = []


class Step:
    """One op of a call.

    Attributes
    ----------
    op : Op, Elementwise, Composed or ViewOp
        The op, whose rule gives the gradient.
    inputs : tuple
        Its operands: arrays, None for a missing one, and the numbers of an elementwise op.
    scalars : tuple
        Run-time scalars, which `run` takes after the inputs.
    params : dict
        Parameters of the plan.
    run : callable or None
        `run(*inputs, *scalars)` repeats the op. None for a view.
    output : ndarray or tuple of ndarray
        What the op returned.
    draw : tuple or None
        For a random draw: the bit stream and the arguments of its `take`. The first three scalars
        are then a position in the random sequence, which a replay must take anew.
    writes : bool or callable
        Whether the op writes into its inputs, as in `Op`.
    """

    writes: Any

    __slots__ = ("op", "inputs", "scalars", "params", "run", "output", "draw", "writes")

    def __init__(
        self,
        op: Any,
        inputs: tuple,
        scalars: tuple,
        params: dict,
        run: Callable | None,
        output: Any,
        draw: tuple | None = None,
        writes: bool = False,
    ):
        self.op, self.inputs, self.scalars, self.params = op, inputs, scalars, params
        self.run, self.output, self.draw = run, output, draw
        self.writes = writes or getattr(op, "writes", False)

    @property
    def outputs(self) -> tuple:
        """The outputs, always as a tuple."""
        return self.output if type(self.output) is tuple else (self.output,)

    @property
    def written(self) -> tuple[int, ...]:
        """The numbers of the inputs that the op writes into."""
        if callable(self.writes):
            return tuple(self.writes(len(self.inputs), self.params))
        return (0,) if self.writes else ()

    def __repr__(self) -> str:
        return f"<Step {self.op.name}>"


class _Local(threading.local):
    record: CallRecord | None = None


_local = _Local()


class CallRecord:
    """The steps of one call in this thread; a context manager.

    A record that is opened inside another passes its steps on to the outer one when it closes.

    Parameters
    ----------
    keep : bool
        Whether to keep the steps. They keep all arrays of the call alive.

    Attributes
    ----------
    steps : list of Step
        The ops of the call, in order.
    obstacle : str
        Why the steps do not describe the whole call; "" if they do.
    drawn : tuple or None
        A part of a random sequence that was taken, until a step reports that it has used it.
    outer : CallRecord or None
        The record inside which this one was opened.
    program : bool
        Whether this is the record of a whole function of the user.
    of_user : bool
        Whether what is recorded are calls of the user, whose results return to him as usual.
    unread : bool
        Whether values must not be read: scalars then stay on their device.
    """

    program = of_user = unread = False

    def __init__(self, keep: bool = True) -> None:
        self.keep = keep
        self.steps: list[Step] = []
        self.obstacle = "" if keep else "its steps were not kept"
        self.drawn: tuple | None = None
        self.outer: CallRecord | None = None

    def __enter__(self) -> CallRecord:
        self.outer = _local.record
        self.thread = threading.get_ident()
        try:
            open_records.append(self)
        except BaseException:  # an interrupt (Ctrl-C), which comes after the call
            open_records.remove(self)
            raise
        _local.record = self
        return self

    def add(self, step: Step) -> None:
        """Append a step."""
        self.steps.append(step)

    def made(self, x: Any, host: Any, fresh: bool) -> None:
        """Called when an array is made of values of the host. fresh: in memory of its own."""

    def made_source(self, source: Any) -> None:
        """Called when a source of random numbers is made."""

    def refuse(self, reason: str) -> None:
        """Called when the call does something that its steps do not describe. A subclass may raise
        an exception."""

    @uninterrupted
    def __exit__(self, *_: object) -> None:
        _local.record = outer = self.outer
        open_records.remove(self)
        if self.drawn is not None:
            self.obstacle = self.obstacle or "took a part of a random sequence without a step"
        if outer is not None:
            self.hand_over(outer)

    def hand_over(self, outer: CallRecord) -> None:
        """Pass the steps on to the record inside which this one was opened."""
        outer.steps += self.steps
        outer.obstacle = outer.obstacle or self.obstacle


@fork.in_child
def _forget_other_threads() -> None:
    """A forked process runs none of the calls that other threads were recording."""
    here = threading.get_ident()
    open_records[:] = [record for record in open_records if record.thread == here]


class unrecorded:
    """A context in which this thread's ops report no steps: for an op that is made of other ops and
    reports itself as one step."""

    def __enter__(self) -> None:
        self.record, _local.record = _local.record, None

    @uninterrupted
    def __exit__(self, *_: object) -> None:
        _local.record = self.record


def current() -> CallRecord | None:
    """The innermost open record of this thread."""
    return _local.record


def returns_to_user() -> bool:
    """Whether what this thread calls returns to the user, as far as records tell."""
    return _local.record is None or _local.record.of_user


def values_unread() -> bool:
    """Whether values must not be read in this thread."""
    return _local.record is not None and _local.record.unread


def traced() -> bool:
    """Whether a whole function of the user is being recorded in this thread."""
    return _local.record is not None and _local.record.program


# -------------------- reports; hot paths call them only if `open_records` is not empty


def report(
    op: Any,
    inputs: tuple,
    scalars: tuple,
    params: dict,
    run: Callable | None,
    output: Any,
    writes: bool = False,
) -> None:
    """Report a step of an op. What `vmap` runs on the arrays behind batched ones reports itself."""
    if any([y is not None and y._layout.device < TRACED for y in _arrays_of(output)]):
        return
    if (record := _local.record) is not None and record.keep:
        record.add(Step(op, inputs, scalars, params, run, output, None, writes))


def _arrays_of(output: Any) -> tuple:
    return tuple(output) if output.__class__ in (tuple, list) else (output,)


def report_made(x: Any, host: Any, fresh: bool) -> None:
    """Report an array that was made of values of the host. fresh: in memory of its own."""
    if (record := _local.record) is not None:
        record.made(x, host, fresh)


def report_source(source: Any) -> None:
    """Report a source of random numbers that was made."""
    if (record := _local.record) is not None:
        record.made_source(source)


def report_taken(source: Any, name: str, blocks: int, device: int | None) -> None:
    """Report that so many Philox blocks of a bit stream were taken, for the next step."""
    if (record := _local.record) is not None:
        if record.drawn is not None:
            record.obstacle = "took several parts of a random sequence for one step"
        record.drawn = source, name, blocks, device


def report_draw() -> None:
    """Report that the newest step drew from the part that was taken."""
    if (record := _local.record) is not None and record.steps:
        record.steps[-1].draw, record.drawn = record.drawn, None


def obstruct(reason: str) -> None:
    """Report that the call does something that its steps do not describe, for example reads values
    on the host or writes into an argument. Such a call is not replayed."""
    record = _local.record
    if record is not None:
        record.obstacle = record.obstacle or reason
    while record is not None:
        record.refuse(reason)
        record = record.outer
