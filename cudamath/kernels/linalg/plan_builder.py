"""Plans of decompositions under construction: steps and scratch, layouts of matrices in columns,
and arguments as cubes (matrices, rows, columns)."""

import math
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Flag, Input, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.dtypes import real_dtype
from ...core.layout import Layout
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.integers import blocks
from .lapack_helpers import THREADS, addresses, check_info

INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
# Rows and columns of matrices that lie in a block's shared memory, by an element's bytes.
LARGEST = {8: 64, 4: 64, 16: 32}
# Rows of a triangular system whose panels of 32 columns do so; columns of it that a block solves.
MOST_ROWS = {8: 128, 4: 128, 16: 64}
SOLVED_COLUMNS = 16


# -------------------- layouts


def batch(layout: Layout, trailing: int = 2) -> int:
    return math.prod(layout.shape[: layout.ndim - trailing])


def in_columns(layout: Layout) -> Layout:
    """The layout of new memory for these matrices, each column-major."""
    m, n = layout.shape[-2:]
    outer = shapes.contiguous_strides(layout.shape, layout.itemsize)[:-2]
    return Layout.of(
        layout.shape, (*outer, layout.itemsize, m * layout.itemsize), layout.dtype, layout.device
    )


def lies_in_columns(layout: Layout) -> bool:
    """Whether a matrix lies column by column, so that a copy in that order is a straight one."""
    return abs(layout.strides[-2]) < abs(layout.strides[-1])


def real_like(layout: Layout, shape: tuple[int, ...]) -> Layout:
    return layout.like(shape, real_dtype(layout.dtype))


def transposed(layout: Layout) -> Layout:
    """The transposed matrices, as they lie."""
    *lead, m, n = layout.shape
    *outer, row, column = layout.strides
    return Layout.of((*lead, n, m), (*outer, column, row), layout.dtype, layout.device)


def is_batched(count: int, n: int, share: int) -> bool:
    """Whether these matrices go to a batched routine."""
    return count > 1 and n * n <= count * share


# -------------------- arguments


def new_cube(argument: Any, layout: Layout) -> Any:
    """A new array's argument as (count, m, n)."""
    return argument.view(
        (batch(layout), *layout.shape[-2:]),
        (math.prod(layout.shape[-2:]) * layout.itemsize, *layout.strides[-2:]),
    )


def cube(argument: Any, layout: Layout, transpose: bool = False) -> Any:
    """An argument as (matrices, rows, columns), or its transpose; None if its leading
    axes do not merge into one."""
    lead, steps = shapes.collapse(layout.shape[:-2], layout.strides[:-2])
    if len(lead) > 1:
        return None
    order = -1 if transpose else 1
    return argument.view(
        (*(lead or (1,)), *layout.shape[-2:][::order]),
        (*(steps if lead else (0,)), *layout.strides[-2:][::order]),
    )


def input_cube(a: Layout, transpose: bool = False) -> tuple[Any, list[Launch], list[Layout]]:
    """(the first input as `cube` has it; steps that copy it first, where its leading axes do not
    merge; their scratch)."""
    given = cube(Input(0), a, transpose)
    if given is not None:
        return given, [], []
    dense = a.like()
    return (
        cube(Temp(0), dense, transpose),
        copy_part(whole(Input(0), a), whole(Temp(0), dense)),
        [dense],
    )


# -------------------- steps


class Work:
    """The parts of a plan under construction."""

    def __init__(self, *outputs: Layout):
        self.outputs = list(outputs)
        self.steps: list[Any] = []
        self.temps: list[Layout] = []

    def temp(self, layout: Layout) -> Any:
        self.temps.append(layout)
        return Temp(len(self.temps) - 1)

    def copy(self, source: Any, layout: Layout, target: Any, to: Layout) -> Any:
        self.steps += copy_part(whole(source, layout), whole(target, to))
        return target

    def call(self, function: Any, *arguments: Any) -> None:
        self.steps.append(Call(function, arguments))

    def launch(self, kernel: Any, count: int, *arguments: Any) -> None:
        self.steps.append(Launch(kernel, blocks(count, THREADS), THREADS, arguments))

    def info(self, like: Layout, count: int) -> Any:
        return self.temp(like.like((count,), INT32))

    def check(self, info: Any, count: int) -> None:
        self.launch(check_info, count, info, Flag(), Ticket())

    def table(self, argument: Any, layout: Layout, count: int, step: int) -> Any:
        """A table of the addresses of matrices that lie `step` bytes apart."""
        table = self.temp(layout.like((count,), INT64))
        self.launch(addresses, count, argument, step, table)
        return table

    def plan(self) -> Plan:
        return Plan(self.outputs, self.steps, self.temps)
