"""Images channels last: recognising them, making them, and plans that turn what lies otherwise."""

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.layout import Layout
from ...core.layout import is_channels_last as lies_last
from .dispatch import copy_part
from .parts import whole


def last_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of (N, C, ...) in channels-last order."""
    strides, step = [0] * len(shape), itemsize
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def as_last(layout: Layout, shape: tuple[int, ...] | None = None) -> Layout:
    """The layout of new images of this shape (the same by default), channels last."""
    shape = layout.shape if shape is None else shape
    return Layout.of(shape, last_strides(shape, layout.itemsize), layout.dtype, layout.device)


def result(first: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout of a result: in the order of the first operand (C order if that lies in both)."""
    return as_last(first, shape) if lies_last(first) and not first.contiguous else first.like(shape)


class Turned:
    """A plan under construction whose main steps see every operand and the result channels last (or
    all in C order)."""

    def __init__(self, out: Layout, *operands: Layout, last: bool = True):
        self.out, self.last = out, last
        self.temps: list[Layout] = []
        self.steps: list[Launch | Call] = []
        self.operands = [self._turned(Input(i), layout) for i, layout in enumerate(operands)]
        self.target: ArrayArg = Output(0)
        self.seen = out
        if not self._lies(out):
            self.seen = self._ordered(out)
            self.target = self.temp(self.seen)

    def _lies(self, layout: Layout) -> bool:
        return lies_last(layout) if self.last else layout.contiguous

    def _ordered(self, layout: Layout) -> Layout:
        return as_last(layout) if self.last else layout.like()

    def temp(self, layout: Layout) -> ArrayArg:
        """Scratch memory."""
        self.temps.append(layout)
        return Temp(len(self.temps) - 1)

    def _turned(self, argument: ArrayArg, layout: Layout) -> ArrayArg:
        if self._lies(layout) and layout.aligned:
            return argument
        target = self.temp(self._ordered(layout))
        self.steps += copy_part(whole(argument, layout), whole(target, self._ordered(layout)))
        return target

    def plan(self) -> Plan:
        """The plan, with the result turned back."""
        if self.seen is not self.out:
            self.steps += copy_part(whole(self.target, self.seen), whole(Output(0), self.out))
        return Plan([self.out], self.steps, self.temps)
