"""Lines along an axis as contiguous rows: sorts and scans along any axis begin and end so."""

from math import prod
from typing import Any

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...core.shapes import reshape_strides
from .dispatch import copy_part
from .parts import Part, whole


def with_axis_last(part: Part, axis: int) -> Part:
    """The same elements with ``axis`` last."""
    layout = part.layout
    axes = [*(i for i in range(layout.ndim) if i != axis), axis]
    shape, strides = (tuple([t[i] for i in axes]) for t in (layout.shape, layout.strides))
    return part._replace(layout=layout.view(shape, strides))


def rows_as_they_lie(argument: ArrayArg, x: Layout, axis: int) -> ArrayArg | None:
    """The lines of an argument of this layout along ``axis`` as rows of a matrix where they lie, if
    one stride leads from each to the next."""
    line = with_axis_last(whole(argument, x), axis).layout
    rows, n = prod(line.shape[:-1]), line.shape[-1]
    step = reshape_strides(line.shape[:-1], line.strides[:-1], (rows,), n * x.itemsize)
    return None if step is None else argument.view((rows, n), (*step, line.strides[-1]))


def neighbours(
    x: Layout, out: Layout, axis: int, temps: list[Layout]
) -> tuple[list[Launch], Any, list[Launch], Any]:
    """(steps, source, steps after, target): arguments in which each line of input 0 and of output 0
    (contiguous, of the same shape) along ``axis`` is a row of neighbours: themselves if they are
    that, otherwise copies in ``temps``."""
    lines_in = with_axis_last(whole(Input(0), x), axis)
    source, target = Input(0), Output(0)
    first: list[Launch] = []
    last: list[Launch] = []
    if not lines_in.layout.contiguous:
        temps.append(x.like(lines_in.layout.shape))
        source = Temp(len(temps) - 1)
        first = copy_part(lines_in, whole(source, temps[-1]))
    lines_out = with_axis_last(whole(Output(0), out), axis)
    if not lines_out.layout.contiguous:
        temps.append(out.like(lines_out.layout.shape))
        target = Temp(len(temps) - 1)
        last = copy_part(whole(target, temps[-1]), lines_out)
    return first, source, last, target
