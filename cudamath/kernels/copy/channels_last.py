"""Channels-last layouts, and plans that copy operands into one memory order."""

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.layout import Layout, is_channels_last
from .dispatch import copy_part
from .parts import whole


def channels_last_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The byte strides of a channels-last array (N, C, ...)."""
    strides, step = [0] * len(shape), itemsize
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def as_channels_last(layout: Layout, shape: tuple[int, ...] | None = None) -> Layout:
    """The channels-last layout of a new array of this shape (by default the same)."""
    shape = layout.shape if shape is None else shape
    return Layout.of(
        shape, channels_last_strides(shape, layout.itemsize), layout.dtype, layout.device
    )


def result(first: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout of a result: in the memory order of the first operand. C order if that is in both
    orders."""
    return (
        as_channels_last(first, shape)
        if is_channels_last(first) and not first.contiguous
        else first.like(shape)
    )


class ReorderedPlan:
    """A plan under construction. Its main steps receive all operands and the result in
    channels-last order, or with ``last=False`` in C order; arrays in another order are copied."""

    def __init__(self, out: Layout, *operands: Layout, last: bool = True):
        self.out, self.last = out, last
        self.temps: list[Layout] = []
        self.steps: list[Launch | Call] = []
        self.operands = [self._reordered(Input(i), layout) for i, layout in enumerate(operands)]
        self.target: ArrayArg = Output(0)
        self.target_layout = out
        if not self._in_order(out):
            self.target_layout = self._new(out)
            self.target = self.temp(self.target_layout)

    def _in_order(self, layout: Layout) -> bool:
        return is_channels_last(layout) if self.last else layout.contiguous

    def _new(self, layout: Layout) -> Layout:
        return as_channels_last(layout) if self.last else layout.like()

    def temp(self, layout: Layout) -> ArrayArg:
        """Scratch memory."""
        self.temps.append(layout)
        return Temp(len(self.temps) - 1)

    def _reordered(self, argument: ArrayArg, layout: Layout) -> ArrayArg:
        if self._in_order(layout) and layout.aligned:
            return argument
        target = self.temp(self._new(layout))
        self.steps += copy_part(whole(argument, layout), whole(target, self._new(layout)))
        return target

    def build(self) -> Plan:
        """The plan. Its last step copies the result back into its own order."""
        if self.target_layout is not self.out:
            self.steps += copy_part(
                whole(self.target, self.target_layout), whole(Output(0), self.out)
            )
        return Plan([self.out], self.steps, self.temps)
