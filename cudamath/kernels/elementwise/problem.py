"""The problem that the planners of elementwise operations solve."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import ArrayArg, Input, Scalar
from ...core.dtypes import COMPLEX
from ...core.layout import Layout
from ..lib.transpose_tiles import Operand, Squares
from ..ptx.coded_access import CODES, kind

ACCESS = 16  # bytes a thread moves at a time
# elements below which a thread each is as quick, since all run at once (bfloat16 (618, 14) - (14,)
# 2.2 instead of 2.6 us on an H100, float32 (3,001, 33) - (33,) 2.5 both)
FEW = 1 << 17
RANK = 3  # dimensions that are left after merging, where they are arguments of a kernel


class Formula(NamedTuple):
    """A scalar expression, the dtype in which it is computed, and that of its result."""

    expression: str
    compute: np.dtype
    output: np.dtype

    def kinds(self, inputs: Sequence[np.dtype]) -> tuple[tuple[np.dtype, ...], np.dtype] | None:
        """(kinds in which a kernel has the operands, that of the result before it is stored). None
        where a dtype has no code, or where storing would not round as a cast does."""
        if not {*inputs, self.compute, self.output} <= CODES.keys():
            return None
        compute, output = kind(self.compute), kind(self.output)
        if self.output == np.bool_:
            output = self.output
        elif compute.kind == output.kind or {compute.kind, output.kind} == {"i", "u"}:
            output = compute
        elif compute.kind != "c" or output.kind != "f":
            return None
        mixed = sorted(d.kind for d in inputs) == ["i", "u"] and compute.kind == "f"
        if mixed and self.output == np.bool_:  # compared as whole numbers: see `scalar_function`
            return tuple([kind(d) for d in inputs]), output
        is_real = compute.kind != "c"
        return tuple([kind(d) if d.kind == "c" and is_real else compute for d in inputs]), output


@dataclass(frozen=True, eq=False)
class ElementwiseProblem:
    """target = function(operands), element by element.

    Parameters
    ----------
    function : device function
        From stored elements of the operands to a stored element of the target.
    operands : sequence of Layout or dtype
        Arrays, and the dtypes of run-time scalars.
    target : Layout
        The result. Arrays broadcast to its shape.
    place : ArrayArg
        The result as an argument of the plan.
    inputs : sequence of ArrayArg, optional
        The arrays as arguments of the plan. By default they are its inputs in order.
    takes_long : bool
        Whether the function is more than a few instructions.
    formula : Formula, optional
        The function as an expression, which can be compiled for numbers of other dtypes too.
    """

    function: Any
    operands: Sequence[Layout | np.dtype]
    target: Layout
    place: ArrayArg
    inputs: Sequence[ArrayArg] | None = None
    takes_long: bool = True
    formula: Formula | None = None

    @functools.cached_property
    def layouts(self) -> list[Layout]:
        """Those of the array operands."""
        return [x for x in self.operands if isinstance(x, Layout)]

    @functools.cached_property
    def everything(self) -> list[Layout]:
        """The array operands and the target."""
        return [*self.layouts, self.target]

    @functools.cached_property
    def arrays(self) -> tuple[bool, ...]:
        """Which operands are arrays."""
        return tuple(isinstance(x, Layout) for x in self.operands)

    @functools.cached_property
    def kinds(self) -> tuple[tuple[np.dtype, ...], np.dtype] | None:
        """In which dtypes a kernel of small arrays has the operands and the result."""
        if self.formula is None:
            return None
        dtypes = [x.dtype if isinstance(x, Layout) else x for x in self.operands]
        return self.formula._replace(output=self.target.dtype).kinds(dtypes)

    @functools.cached_property
    def width(self) -> int:
        """Elements per access: 16 bytes of the widest array."""
        widest = max(x.itemsize for x in self.everything)
        if len(self.layouts) == 1:
            # A narrower result still takes a whole access, so that as much is under way.
            return max(1, min(ACCESS // self.target.itemsize, 2 * ACCESS // widest))
        return max(1, ACCESS // widest)

    @functools.cached_property
    def aligned(self) -> bool:
        return all(x.aligned and x.dtype not in COMPLEX for x in self.everything)

    @functools.cached_property
    def merged(self) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        """(shape, byte strides of each array) of the axes that remain when those that merge are
        one. The target is dense along the last axis."""
        order = shapes.axes_by_stride(self.target.strides)
        shape = self.target.shape
        strides = [shapes.broadcast_strides(x.shape, x.strides, shape) for x in self.everything]
        merged, *steps = shapes.collapse(*[tuple([s[i] for i in order]) for s in (shape, *strides)])
        return merged, steps

    @functools.cached_property
    def inner(self) -> list[int]:
        """The byte stride of each array along the last axis."""
        pairs = zip(self.merged[1], self.everything, strict=True)
        return [steps[-1] if steps else x.itemsize for steps, x in pairs]

    @functools.cached_property
    def is_dense(self) -> bool:
        """All arrays are dense in one order."""
        dense = all(i == x.itemsize for i, x in zip(self.inner, self.everything, strict=True))
        return self.target.size == 0 or (dense and len(self.merged[0]) < 2)

    @functools.cached_property
    def has_rows(self) -> bool:
        """Each operand is a run of elements or one value along the last axis, and all rows begin
        at borders of accesses."""
        (shape, steps), inner, width = self.merged, self.inner, self.width
        return (
            self.aligned
            and bool(shape)
            and min(map(min, steps)) >= 0
            and shape[-1] % width == 0
            and inner[-1] == self.target.itemsize
            and all(i in (0, x.itemsize) for i, x in zip(inner, self.layouts, strict=False))
            and all(
                s % min(ACCESS, width * x.itemsize) == 0
                for along, x, i in zip(steps, self.everything, inner, strict=True)
                if i
                for s in along[:-1]
            )
        )

    @functools.cached_property
    def has_parts(self) -> bool:
        """The result is dense as a whole, and so is each operand, or it is broadcast."""
        steps = self.merged[1]
        if not (self.aligned and self.merged[0] and self.is_whole(steps[-1], self.target)):
            return False
        return all(
            self.is_whole(along, x) or min(along) == 0
            for along, x in zip(steps[:-1], self.layouts, strict=True)
        )

    def is_whole(self, steps: Sequence[int], x: Layout) -> bool:
        """An array with these byte strides along the merged axes is dense as the result is."""
        return shapes.is_contiguous(self.merged[0], tuple(steps), x.itemsize)

    def arguments(self, view: Callable[[ArrayArg, Layout, int], ArrayArg]) -> list[Any]:
        """The operands as arguments of a kernel: arrays as `view(argument, layout, number)`
        says, the others as run-time scalars in order."""
        arguments: list[Any] = []
        arrays = scalars = 0
        for operand in self.operands:
            if isinstance(operand, Layout):
                place = self.inputs[arrays] if self.inputs else Input(arrays)
                arguments.append(view(place, operand, arrays))
                arrays += 1
            else:
                arguments.append(Scalar(scalars, operand))
                scalars += 1
        return arguments

    @functools.cached_property
    def lines(self) -> list[Any]:
        """The operands as arguments of a kernel: of arrays the memory, in one dimension."""
        return self.arguments(lambda argument, x, _: memory(argument, x))

    @functools.cached_property
    def squares(self) -> Squares | None:
        """The squares of a result across which an operand lies."""
        (shape, steps), strides = self.merged, iter(self.merged[1])
        operands = [
            Operand(argument, x.dtype, next(strides), x.aligned)
            if isinstance(x, Layout)
            else Operand(argument, x, None)
            for argument, x in zip(self.lines, self.operands, strict=True)
        ]
        out = Operand(self.line, self.target.dtype, steps[-1], self.target.aligned)
        return Squares.of(operands, out, shape)

    @property
    def line(self) -> ArrayArg:
        """The result's memory, in one dimension."""
        return memory(self.place, self.target)


def memory(argument: ArrayArg, layout: Layout) -> ArrayArg:
    """The memory behind an argument of any shape, in one dimension."""
    reach = shapes.byte_bounds(layout.shape, layout.strides, layout.itemsize)[1]
    return argument.view((max(reach // layout.itemsize, 1),))
