"""Norms and their gradients as problems: the layouts and parameters of a call, and what the choice
among versions needs of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..elementwise.dispatch import launch
from ..elementwise.generator import scalar_function
from ..lib.row_layout import Rows
from ..lib.widths import vector_width, wide
from .backward_parts import spread_backward
from .batch_norm_welford import Geometry, geometry, present
from .row_parts import Channels, Parts, spread_rows


def width_of(columns: int, channels: Channels | None, *arrays: Layout | None) -> int:
    """Elements of an access to rows: in group norm all of one channel."""
    width = vector_width(columns, *present(*arrays))
    return width if channels is None or channels.run % width == 0 else 1


def long_access(
    width: int, arrays: Sequence[Layout], parameters: Sequence[Layout]
) -> tuple[int, bool]:
    """(elements of an access to long rows, whether these begin between the borders of accesses):
    where rows are not all aligned, the widest that the arrays themselves allow."""
    if width > 1 or not all(p.aligned for p in parameters):
        return width, False
    widest = vector_width(0, *arrays)  # 0 is a multiple of anything
    return widest, widest > 1


def numbered(*inputs: Layout | None) -> list[ArrayArg | None]:
    """The arguments for a plan's inputs. An input that is None has no argument and no number."""
    numbers = iter(range(len(inputs)))
    return [None if x is None else Input(next(numbers)) for x in inputs]


def sum_into(place: ArrayArg, target: Layout, *terms: tuple[ArrayArg, Layout]) -> Launch:
    """target = the sum of two arrays of one dtype, without gaps."""
    (_, x), (_, y) = terms
    function = scalar_function("x + y", (x.dtype, y.dtype), wide(x.dtype), target.dtype)
    return launch(function, (x, y), target, place, arguments=[argument for argument, _ in terms])


@dataclass(frozen=True)
class Forward:
    """Layer norm, RMS norm (not `center`) or group norm (`channels`) of rows without gaps."""

    x: Layout
    weight: Layout | None
    bias: Layout | None
    residual: Layout | None
    columns: int
    eps: float
    center: bool = True
    channels: Channels | None = None
    statistics: bool = True  # mean and rstd are outputs

    @property
    def rows(self) -> int:
        return self.x.size // self.columns

    @cached_property
    def parts(self) -> Parts:
        """What a kernel is compiled with."""
        return Parts(
            self.center,
            self.weight is not None,
            self.bias is not None,
            self.residual is not None,
            self.channels is not None,
        )

    @property
    def param(self) -> np.dtype:
        """The dtype of weight and bias."""
        return (self.weight or self.bias or self.x).dtype

    @cached_property
    def width(self) -> int:
        """Elements of an access."""
        return width_of(self.columns, self.channels, self.x, self.weight, self.bias, self.residual)

    @property
    def long_access(self) -> tuple[int, bool]:
        """See `long_access`; channels are found for whole accesses alone."""
        if self.channels:
            return self.width, False
        return long_access(
            self.width, present(self.x, self.residual), present(self.weight, self.bias)
        )

    @cached_property
    def shape(self) -> Rows | None:
        """How a row is spread over threads that hold it in registers; None if it is too long."""
        return spread_rows(self.columns, self.width, self.x.dtype)

    @cached_property
    def shifted(self) -> Rows | None:
        """As `shape`, of rows that begin between the borders of accesses: of whole accesses, the
        first of which may begin before the row."""
        width, edges = self.long_access
        return spread_rows(self.columns + width - 1, width, self.x.dtype) if edges else None

    @cached_property
    def outputs(self) -> list[Layout]:
        """y, mean, rstd, x + residual: those that there are."""
        per_row = self.x.like((self.rows,), wide(self.x.dtype))
        statistics = [per_row] * (1 + self.center if self.statistics else 0)
        return [self.x.like(), *statistics, *[self.x.like()] * self.parts.residual]

    @cached_property
    def inputs(self) -> tuple[ArrayArg, ArrayArg, ArrayArg, ArrayArg]:
        """x, weight, bias, residual; any array in the place of one that is missing."""
        first, *others = numbered(self.x, self.weight, self.bias, self.residual)
        assert first is not None
        w, b, r = (first.view((self.x.size,)) if each is None else each.flat for each in others)
        return first, w, b, r

    @property
    def sum(self) -> ArrayArg:
        """What is normalised: x, or the output x + residual."""
        return Output(len(self.outputs) - 1) if self.parts.residual else Input(0)

    @property
    def mean_rstd(self) -> tuple[ArrayArg, ArrayArg]:
        """Arguments of mean and rstd: without statistics, arrays of no elements."""
        if self.statistics:
            return Output(1), Output(1 + self.center)
        none = Output(0).view((0,), dtype=wide(self.x.dtype))
        return none, none

    @property
    def numbers(self) -> list:
        """Arguments of a kernel: groups, share, run (see Channels), eps."""
        return [*(self.channels or (1, 1, 1)), wide(self.x.dtype).type(self.eps)]

    @property
    def addition(self) -> list[Launch]:
        """The launch that writes x + residual, for kernels that do not add."""
        if self.residual is None:
            return []
        place = numbered(self.x, self.weight, self.bias, self.residual)[3]
        return [sum_into(self.sum, self.x, (Input(0), self.x), (place, self.residual))]


@dataclass(frozen=True)
class Backward:
    """The gradient of layer norm, or of RMS norm (mean is None), for rows without gaps."""

    g: Layout
    x: Layout
    weight: Layout | None
    mean: Layout | None
    rstd: Layout
    extra: Layout | None  # a gradient that is added to dx
    columns: int
    biased: bool  # there was a bias

    @property
    def rows(self) -> int:
        return self.x.size // self.columns

    @cached_property
    def parts(self) -> Parts:
        """What a kernel is compiled with."""
        return Parts(
            self.mean is not None, self.weight is not None, self.biased, self.extra is not None
        )

    @property
    def param(self) -> Layout:
        """The layout of dweight and dbias."""
        return (self.weight or self.x.like((self.columns,))).like()

    @property
    def summed(self) -> bool:
        """Whether there are sums over rows."""
        return self.parts.weight or self.biased

    @cached_property
    def width(self) -> int:
        """Elements of an access."""
        return vector_width(self.columns, *present(self.g, self.x, self.weight, self.extra))

    @property
    def long_access(self) -> tuple[int, bool]:
        """See `long_access`."""
        return long_access(self.width, present(self.g, self.x, self.extra), present(self.weight))

    @cached_property
    def shape(self) -> Rows | None:
        """How a row is spread over threads that hold it in registers; None if it is too long."""
        return spread_backward(self.columns, self.width, self.x.dtype, self.parts.residual)

    @cached_property
    def shifted(self) -> Rows | None:
        """As `shape`, of rows that begin between the borders of accesses: of whole accesses, the
        first of which may begin before the row. Their ends take the registers of a residual."""
        width, edges = self.long_access
        longest = self.columns + width - 1
        return spread_backward(longest, width, self.x.dtype, residual=True) if edges else None

    @property
    def outputs(self) -> list[Layout]:
        """dx, dweight, dbias: those that there are."""
        return [self.x.like(), *[self.param] * (self.parts.weight + self.parts.bias)]

    @cached_property
    def inputs(self) -> tuple[ArrayArg, ...]:
        """Weight, mean, rstd, extra, flat; any array in the place of one that is missing."""
        arguments = numbered(self.g, self.x, self.weight, self.mean, self.rstd, self.extra)
        return tuple(arguments[1].flat if a is None else a.flat for a in arguments[2:])

    @property
    def addend(self) -> ArrayArg:
        """The argument of `extra`, or x."""
        arguments = numbered(self.g, self.x, self.weight, self.mean, self.rstd, self.extra)
        return arguments[5] or Input(1)

    @property
    def sums(self) -> tuple[ArrayArg, ArrayArg]:
        """Arguments of dweight and dbias; rstd in the place of one that is missing."""
        rstd = self.inputs[2]
        dweight = Output(1).flat if self.parts.weight else rstd
        return dweight, Output(len(self.outputs) - 1).flat if self.biased else rstd


@dataclass(frozen=True)
class GroupBackward:
    """The gradient of group norm: g, x (N, C, ...) in C order; weight (C,); mean, rstd
    (N * groups,)."""

    g: Layout
    x: Layout
    weight: Layout | None
    mean: Layout
    rstd: Layout
    groups: int
    biased: bool  # there was a bias

    @cached_property
    def channels(self) -> Channels:
        samples_channels, *run = self.x.shape[1:]
        return Channels(self.groups, samples_channels // self.groups, math.prod(run))

    @property
    def count(self) -> int:
        """Channels of a sample."""
        return self.x.shape[1]

    @property
    def columns(self) -> int:
        """Elements of a group."""
        return self.channels.share * self.channels.run

    @property
    def rows(self) -> int:
        """Groups of all samples."""
        return self.x.shape[0] * self.groups

    @property
    def weighted(self) -> bool:
        return self.weight is not None

    @cached_property
    def width(self) -> int:
        """Elements of an access."""
        return width_of(self.columns, self.channels, self.g, self.x)

    @property
    def param(self) -> Layout:
        """The layout of dweight and dbias."""
        return (self.weight or self.x.like((self.count,), wide(self.x.dtype))).like()

    @property
    def outputs(self) -> list[Layout]:
        """dx, dweight, dbias: those that there are."""
        return [self.x.like(), *[self.param] * (self.weighted + self.biased)]

    @cached_property
    def inputs(self) -> tuple[ArrayArg, ...]:
        """g, x, weight, mean, rstd; rstd in the place of a missing weight."""
        g, x, w, m, s = numbered(self.g, self.x, self.weight, self.mean, self.rstd)
        assert g and x and m and s
        return g, x, s.flat if w is None else w.flat, m.flat, s.flat


@dataclass(frozen=True)
class BatchForward:
    """Batch norm in training: x, residual (N, C, ...); weight, like all others (C,)."""

    x: Layout
    weight: Layout
    residual: Layout | None
    momentum: float
    eps: float
    relu: bool

    @cached_property
    def geometry(self) -> Geometry:
        return geometry(*present(self.x, self.residual))

    @property
    def channel_bytes(self) -> int:
        """Of x."""
        return self.x.nbytes // self.x.shape[1]

    @property
    def add(self) -> bool:
        """Whether a residual is added."""
        return self.residual is not None

    @property
    def outputs(self) -> list[Layout]:
        """y, mean, rstd, new running mean, new running variance."""
        x, stat = self.x, self.weight.like(dtype=wide(self.x.dtype))
        y = Layout.of(x.shape, x.strides, x.dtype, x.device)
        return [y, stat, stat, self.weight.like(), self.weight.like()]


@dataclass(frozen=True)
class BatchBackward:
    """The gradient of batch norm: g, x, y, more (N, C, ...); weight, like all others (C,). y is
    there where a residual was added before the relu; the gradient is g, or g + more."""

    g: Layout
    x: Layout
    weight: Layout
    y: Layout | None
    relu: bool
    more: Layout | None = None

    @cached_property
    def geometry(self) -> Geometry:
        return geometry(*present(self.x, self.g, self.y, self.more))

    @property
    def outputs(self) -> list[Layout]:
        """dx, dweight, dbias, and with y the residual's gradient."""
        x = self.x
        like = Layout.of(x.shape, x.strides, x.dtype, x.device)
        return [like, self.weight.like(), self.weight.like(), *[like] * (self.y is not None)]
