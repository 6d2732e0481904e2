"""Planners of copies, fills and ramps."""

from __future__ import annotations

import numpy as np

from ...core.dispatch.arguments import Input, Output, Scalar, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from .dispatch import copy_part
from .fill import fill_part, ramp_line
from .parts import THREADS, Part, whole


def copy(x: Layout, *, dtype: np.dtype | None = None) -> Plan:
    """A contiguous copy, cast to ``dtype`` if given."""
    out = x.like(dtype=dtype)
    return Plan([out], copy_part(whole(Input(0), x), whole(Output(0), out)))


def copy_into(target: Layout, source: Layout) -> Plan:
    """``target[...] = source``, broadcast and cast."""
    return Plan(
        [], copy_part(whole(Input(1), source).broadcast(target.shape), whole(Input(0), target))
    )


def fill(target: Layout) -> Plan:
    """``target[...] = value``; scalars: ``ops.shape.bits(value)``."""
    steps = fill_part(whole(Input(0), target), Scalar(0, np.uint64), Scalar(1, np.uint64), Temp(0))
    return Plan([], steps, [target.like(())] if len(steps) > 1 else [])


def full(*, layout: Layout, device: int) -> Plan:
    """A new array that holds one value; scalars: ``ops.shape.bits(value)``."""
    return Plan(
        [layout],
        fill_part(whole(Output(0), layout), Scalar(0, np.uint64), Scalar(1, np.uint64), None),
    )


def ramp(*, layout: Layout, device: int, count: int) -> Plan:
    """An arithmetic progression, a new vector; scalars: start, step, stop in the compute dtype."""
    T = compute_dtype(layout.dtype)
    return Plan(
        [layout],
        [
            Launch(
                ramp_line(layout.dtype),
                -(-layout.size // THREADS),
                THREADS,
                [Output(0), *(Scalar(i, T) for i in range(3)), count],
            )
        ],
    )


def unview(g: Layout, *, shape: tuple[int, ...], view: tuple) -> Plan:
    """Zeros of ``shape`` with g written where a view lies; ``view``: (shape, strides, offset) in
    elements."""
    out = g.like(shape)
    size = out.itemsize
    inside = out.view(view[0], tuple([s * size for s in view[1]]), view[2] * size)
    zero = np.uint64(0)
    return Plan(
        [out],
        [
            *fill_part(whole(Output(0), out), zero, zero, None),
            *copy_part(whole(Input(0), g), Part(Output(0), inside, view[2] * size)),
        ],
    )
