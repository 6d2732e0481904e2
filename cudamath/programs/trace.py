"""Tracing: a function is run once, while its ops report their steps, and these become a program.

On the CPU the function runs as it is, on its real arguments. On a GPU its Python code runs, but no
operation does (runtime/dry.py), unless it needs more of the device. Each operand of a step must lie
in memory that is known: in an argument, in what an earlier step returned, in an array that was
there before the call, or in one that was made of values of the host. So nothing that the function
computed in another way can become a constant unnoticed.
"""

from __future__ import annotations

import bisect
import gc
import itertools
import linecache
import re
import sys
from collections.abc import Sequence
from typing import Any

from ..core.array import allocate, ndarray
from ..core.autograd.constants import Lasting
from ..core.devices import CPU
from ..core.dispatch.call_record import CHOSE, LENT, MET, READ, SEEDED, CallRecord, Step
from ..core.overlap import span
from ..ops.random.module import default_generator
from ..runtime.dry import Unallocated, launching
from ..runtime.errors import line_of, user_line, user_place
from .hidden_state import is_users
from .program import ARGUMENT, CONSTANT, RESULT, Block, Draw, Node, Program, View

__all__ = ["TraceError", "trace"]


class TraceError(RuntimeError):
    """A function does what a program cannot hold. The message names the line.

    Examples
    --------
    >>> import cudamath as cm
    >>> @cm.jit
    ... def positive(x):
    ...     return x if x.sum() > 0 else -x
    >>> try:
    ...     positive(cm.ones(3))
    ... except cm.TraceError as error:
    ...     print(str(error).partition(":")[0])
    jit
    """


#: What to write instead, by what was done.
ADVICE = {
    READ: "a program has no values while it is traced: float(x), if x, item, to_numpy and printing "
    "need one. Choose by cm.where, return the number and look at it outside, or pass what decides "
    "as a static argument",
    CHOSE: "the number of chosen elements, and so a shape, would depend on values. Use "
    "cm.where(mask, x, 0) or x.at[mask].set(value), or choose outside",
    MET: "a program may drop what has no result. Send, receive and wait outside, or use "
    "all_reduce, all_gather or all_to_all",
    SEEDED: "a program draws on from where its generators stand. Seed outside, or make the "
    "generator inside, by cm.random.default_rng(seed)",
    LENT: "what another library reads or writes there is not known. Hand arrays over outside",
    "copied into an array": "copy_to writes past the ops of a program. Write target[...] = x",
    "launched a kernel of the user": "what a kernel of your own reads and writes is not known. "
    "Launch it outside, or make it an operation by cm.elementwise or cm.reduction",
}


#: What to write instead, by what stands in the line: the first that is found.
HINTS = {
    r"\bassert\b": "asserts need a value. Return what is asserted, and look at it outside",
    r"\bprint\(|\blog(ging|ger)?\b.*\(": "there are no values to print while a function is traced. "
    "Return them, and print outside; cm.explain shows the program",
    r"\bwhile\b": "how often a Python loop runs cannot depend on values. Use cm.while_loop",
    r"\brange\(": "how often a Python loop runs cannot depend on values. Use cm.fori_loop or "
    "cm.while_loop, or pass the number as a static argument",
    r"\b(if|elif|match)\b|\band\b|\bor\b|\bnot\b": "a program takes one way for all values. "
    "Choose by cm.where or cm.cond, combine by &, | and ~, or pass what decides as a static "
    "argument",
    r"(?<!\.)\b(max|min|sorted|any|all|round)\(": "Python's functions compare values. Use those of "
    "cudamath: cm.maximum, x.max(), cm.sort(x), x.any(), cm.round(x)",
    r"\bmath\.": "functions of `math` need a number. Use those of cudamath: cm.sin(x)",
    r"\b(float|int|complex|bool)\(|\.item\(|\.tolist\(": "there is no number while a function is "
    "traced: arrays without dimensions compute like numbers. Leave the conversion out, or return "
    "the array and convert outside",
    r"\b(np|numpy)\.|to_numpy|tobytes": "NumPy's arrays hold values. Use the function of cudamath "
    "of the same name, or compute outside",
    r"\b(bincount|one_hot)\(": "how many there are would depend on the largest element. Use "
    "cm.index_add(cm.zeros(n), x, cm.ones(x.shape)), or ml.one_hot(x, n)",
    r"\bhistogram": "the edges would depend on the smallest and largest elements. Pass "
    "range=(low, high), or the edges as numbers",
    r"\brepeat\(": "how often each element is repeated decides the shape. Repeat all as often, or "
    "choose by an index that is made outside, x[index]",
    r"\b(arange|linspace|zeros|ones|full|empty|eye|reshape|split|array_split|topk|roll|pad|tile)"
    r"\(": "what decides a shape or a place cannot depend on values. Pass it as a static argument",
    r"(?<!for )\b\S+ in\b": "membership needs values. Use (x == value).any()",
    r"\bf[\"']": "there is no number to write into a text. Return it, and write the text outside",
    r"\[[^\]]*:[^\]]*\]": "the bounds of a slice decide a shape. Choose by an index, "
    "x[start + cm.arange(length)], or pass them as static arguments",
}


class Trace(CallRecord):
    """The record of a whole function."""

    program = of_user = unread = True

    def __init__(self, name: str) -> None:
        super().__init__()
        default_generator()  # if the function were the first to use it, it would seem to be its own
        self.name = name
        self.places: list[tuple] = []  # the user's line of each step
        self.host_arrays: list[tuple[ndarray, Any]] = []
        self.sources: list[Any] = []  # of random numbers, made by the function
        self.refused = ""  # the message of the error that was raised last
        # arrays that were there before: they stay alive, so that their identity and their memory
        # are not given to others
        self.before = {id(x): x for x in gc.get_objects() if issubclass(type(x), ndarray)}

    def add(self, step: Step) -> None:
        """Append a step, and the user's line."""
        self.steps.append(step)
        self.places.append(user_place(2))

    def made(self, x: Any, host: Any, fresh: bool) -> None:
        """An array was made of values of the host. Its elements are copied if it is fresh, because
        the function may write into it later."""
        self.host_arrays.append((x, host.copy() if fresh else None))

    def made_source(self, source: Any) -> None:
        """A source of random numbers was made."""
        self.sources.append(source)

    def refuse(self, reason: str) -> None:
        """Raise TraceError for what a program cannot hold. Writes in place are steps."""
        if reason in ADVICE:
            line = _users_line()
            advice = _hint(line) or ADVICE[reason] if reason == READ else ADVICE[reason]
            self.refused = f"jit: {self.name} {reason} at {line}: {advice}"
            raise TraceError(self.refused)


def _users_line() -> str:
    """The line of the user's code, in whose course a value is read: not that of Python's or another
    library, where his code called one."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return line_of((frame.f_code, frame.f_lasti))
        frame = frame.f_back  # type: ignore[assignment]
    return user_line()


def _hint(line: str) -> str:
    """What to write instead of what stands in a line; "" if nothing is known."""
    file, _, number = line.rpartition(":")
    text = linecache.getline(file, int(number)) if number.isdigit() else ""
    return next((advice for pattern, advice in HINTS.items() if re.search(pattern, text)), "")


class _Memory:
    """The blocks that are known so far, by identity and by address."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.by_identity: dict[int, View] = {}
        self.lows: list[int] = []
        self.blocks: list[tuple[int, Block, int]] = []  # high, block, address of its first element
        self.constants: list[Block] = []  # that were there before
        self.shared: list[tuple[int, int, Block, int]] = []  # arguments: low, high, block, address
        self.apart: list[tuple[int, int, Block, int]] | None = []  # these by address, if no two
        self.starts: list[int] = []  # overlap; and where each of them begins

    def add(self, x: ndarray, block: Block) -> View:
        """Make a block known by the array that spans it."""
        view = View(block, x._layout, 0)
        self.by_identity[id(x)] = view
        low, high = span(x)
        if high > low:
            at = bisect.bisect_left(self.lows, low)
            self.lows.insert(at, low)
            self.blocks.insert(at, (high, block, x._address))
        return view

    def add_arguments(self, arrays: Sequence[ndarray]) -> list[Block]:
        """The blocks of the arguments. Those that overlap are one group."""
        for i, x in enumerate(arrays):
            block = Block(ARGUMENT, x._layout, i)
            self.shared.append((*span(x), block, x._address))
            self.by_identity.setdefault(id(x), View(block, x._layout, 0))
        self.apart = sorted([one for one in self.shared if one[0] < one[1]], key=lambda one: one[0])
        self.starts = [low for low, *_ in self.apart]
        if any([low < high for (_, high, *_), (low, *_) in itertools.pairwise(self.apart)]):
            self.apart = None
            self._group()
        return [block for _, _, block, _ in self.shared]

    def _group(self) -> None:
        """Give each argument the group of the first one that overlaps it."""
        for i, (low, high, block, _) in enumerate(self.shared):
            for other_low, other_high, other, _ in self.shared[:i]:
                if low < other_high and other_low < high:
                    block.group = other.group
                    break

    def near(self, low: int) -> list[tuple[int, int, Block, int]]:
        """The arguments that may hold this address."""
        if self.apart is None:
            return self.shared
        at = bisect.bisect_right(self.starts, low)
        return self.apart[at - 1 : at] if at else []

    def find(self, x: ndarray) -> View | None:
        """The view that an array is, if its memory is known."""
        view = self.by_identity.get(id(x))
        if view is not None or id(x) in self.trace.before:
            return view  # what was there before is a constant, also where an argument overlaps it
        low, high = span(x)
        if high == low:
            return None
        address = x._address
        for first, last, block, begin in self.near(low):
            if first <= low and high <= last and block.layout.device == x._layout.device:
                return View(block, x._layout, address - begin)
        at = bisect.bisect_right(self.lows, low) - 1
        if at >= 0 and high <= self.blocks[at][0]:
            _, block, begin = self.blocks[at]
            if block.layout.device == x._layout.device:
                return View(block, x._layout, address - begin)
        return None

    def view(self, x: ndarray, line: str) -> View:
        """The view that an array is; a constant if it was there before the trace, or was made of
        values of the host."""
        view = self.find(x)
        if view is None:
            view = self.constant(x)
        if view is None:
            raise TraceError(
                f"jit: {self.trace.name} uses an array of {x.dtype}, shape {x.shape}, at {line} "
                "that no operation of cudamath made during the call: its values would be frozen. "
                "Compute it outside and pass it as an argument"
            )
        self.by_identity[id(x)] = view
        return view

    def constant(self, x: ndarray) -> View | None:
        """A view of a constant."""
        for made, host in self.trace.host_arrays:
            if made is x or _inside(x, made):
                block = Block(CONSTANT, made._layout, 0, made, fresh=host is not None)
                if host is not None:
                    block.array = host
                return View(self.add(made, block).block, x._layout, x._address - made._address)
        if id(x) in self.trace.before and x._layout.size:
            block = Block(CONSTANT, x._layout, 0, x)
            for other in self.constants:  # one may be a view of the other
                if _overlap(x, other.array):
                    block.group = other.group
                    break
            self.constants.append(block)
            return self.add(x, block)
        if type(x._owner) is Lasting:
            return self.add(x, Block(CONSTANT, x._layout, 0, x))
        if not x._layout.size:  # no address tells whose it is; what is dry is gone after the trace
            with launching():
                lasting = allocate(x._layout) if type(x._owner) is Unallocated else x
            return self.add(x, Block(CONSTANT, x._layout, 0, lasting))
        for other in self.trace.before.values():
            if _inside(x, other):  # an alias, or a view that no step made
                base = self.by_identity.get(id(other)) or self.constant(other)
                if base is not None and base.block.array is not None:
                    return View(base.block, x._layout, x._address - base.block.array._address)
        return None


def _overlap(x: ndarray, other: Any) -> bool:
    """Whether the memory of two arrays overlaps."""
    (low, high), (first, last) = span(x), span(other)
    return x._layout.device == other._layout.device and low < last and first < high


def _inside(x: ndarray, other: ndarray) -> bool:
    """Whether the memory of one array lies in that of another."""
    if x._layout.device != other._layout.device or x._layout.device < CPU:
        return False
    (low, high), (first, last) = span(x), span(other)
    return first <= low < high <= last


def trace(trace: Trace, arrays: Sequence[ndarray], leaves: Sequence[Any], device: int) -> Program:
    """The program of a record.

    Parameters
    ----------
    trace : Trace
        The record of a call that has ended.
    arrays : sequence of ndarray
        The array arguments of the call.
    leaves : sequence
        The leaves of what the function returned.
    device : int
        Where the program runs.

    Returns
    -------
    Program
        The ops as they ran.
    """
    memory = _Memory(trace)
    arguments = memory.add_arguments(arrays)
    inside = {id(source) for source in trace.sources}
    draws: dict[tuple, Draw] = {}  # by key, stream and first block
    nodes: list[Node] = []
    for step, place in zip(trace.steps, trace.places, strict=True):
        line = line_of(place)
        operands = tuple(
            [memory.view(x, line) if isinstance(x, ndarray) else x for x in step.inputs]
        )
        outputs = [y for y in step.outputs if isinstance(y, ndarray)]
        if step.run is None:  # a view of an operand
            (y,) = outputs
            (base,) = operands
            offset = y._address - step.inputs[0]._address if y._layout.size else 0
            memory.by_identity[id(y)] = View(base.block, y._layout, base.offset + offset)
            continue
        results: list[Block] = []
        for k, y in enumerate(outputs):
            if memory.find(y) is None:  # otherwise it returned an operand, or a view of one
                block = Block(RESULT, y._layout, k)
                memory.add(y, block)
                results.append(block)
        if outputs and not results and not step.written:
            continue
        # a gradient, or a second run, draws again from where the first draw began
        draw = draws.get(step.scalars[:3])
        if draw is None and step.draw is not None and id(step.draw[0]) not in inside:
            source, *taken = step.draw
            draw = draws[step.scalars[:3]] = Draw(source, tuple(taken), len(draws))
        nodes.append(
            Node(
                step.op,
                operands,
                step.scalars,
                step.params,
                step.run,
                tuple(results),
                type(step.output) is tuple,
                step.written,
                draw,
                line,
            )
        )
    if trace.drawn is not None:
        raise TraceError(
            f"jit: {trace.name} draws random numbers on the host ({trace.drawn[1]}), which would "
            "be the same at each call; draw them outside and pass them"
        )
    returned = [memory.view(y, "its end") if isinstance(y, ndarray) else y for y in leaves]
    program = Program(arguments, nodes, returned, device)
    program.ambiguous = any(
        [
            low < last and first < high and block.layout.device == constant.layout.device
            for constant in program.constants()
            if constant.outside and constant.array is not None
            for first, last in [span(constant.array)]
            for low, high, block, _ in memory.shared
        ]
    )
    return program
