"""What is not finite, added up anew, behind a version by Fourier's or Winograd's transform.

A transform mixes all pixels of an image or of a tile: one infinite pixel makes NaN of every result
that was transformed with it. No result that an infinity truly reaches stays finite. So one launch
reads the result once and ends where all of it is finite; whatever else it takes from the
definition, the sums of direct.py, dgrad_simt.py and wgrad_simt.py: a thread for each result of a
forward convolution or element of an input gradient, a block for each weight.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..copy.channels_last import as_channels_last
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.strided_index import index_walker
from .dgrad_simt import steps_of, sum_of_element
from .direct import THREADS, arguments, is_large, sum_of_result, walks_of
from .geometry import grouped, numbers, walks
from .problem import ROLES, Problem
from .wgrad_simt import ADDERS, added_anew

READS = 4  # of a thread, which are in flight together


@device_function
def number_of(i, channels, area):
    """The number in C order, images (or outputs) x channels x area, of element i of memory that
    holds images x area x channels."""
    rest = i // channels
    return (rest // area * channels + i % channels) * area + rest % area


@functools.cache
def are_finite(dtype: np.dtype) -> Any:
    """Device function: whether all READS elements of a thread are, THREADS apart."""
    load, _, C = codec(dtype)

    @device_function
    def are_finite(line, first):
        finite = True
        for k in range(READS):
            value = load(line[min(first + k * THREADS, line.size - 1)])
            finite = finite & (value - value == C(0))
        return finite

    return are_finite


@functools.cache
def conv2d_not_finite(dtype: np.dtype, large: bool) -> Any:
    """A thread for READS results, of which it takes what is not finite from the definition."""
    load, store, C = codec(dtype)
    share, locate = sum_of_result(dtype, large), index_walker(0, 6, not large)
    all_finite = are_finite(dtype)

    @cuda.jit
    def conv2d_not_finite(
        x,
        w,
        images,
        filters,
        bias,
        y,
        biased,
        plane_start,
        plane_step,
        plane_tap,
        row_start,
        row_step,
        row_tap,
        column_start,
        column_step,
        column_tap,
        line,
        channels,
        area,
    ):
        """As conv2d_direct; line: y's memory, in which channels and area lie as `number_of` has
        them."""
        first = cuda.blockIdx.x * (READS * THREADS) + cuda.threadIdx.x
        if all_finite(line, first):
            return
        for k in range(READS):
            i = first + k * THREADS
            if i < line.size:
                value = load(line[i])
                if not (value - value == C(0)):
                    n, g, m, o, p, q = locate(y, number_of(i, channels, area))
                    total = share(
                        x,
                        w,
                        images,
                        filters,
                        n,
                        g,
                        m,
                        o,
                        p,
                        q,
                        plane_start,
                        plane_step,
                        plane_tap,
                        row_start,
                        row_step,
                        row_tap,
                        column_start,
                        column_step,
                        column_tap,
                    )
                    if biased != 0:
                        total += load(bias[g * w.shape[1] + m])
                    line[i] = store(total)

    return conv2d_not_finite


@functools.cache
def conv2d_input_not_finite(dtype: np.dtype, large: bool) -> Any:
    """The same of an input gradient."""
    load, store, C = codec(dtype)
    share, locate = sum_of_element(dtype, large), index_walker(0, 6, not large)
    all_finite = are_finite(dtype)

    @cuda.jit
    def conv2d_input_not_finite(
        dy,
        w,
        outputs,
        filters,
        bias,
        dx,
        biased,
        pad_o,
        stride_o,
        apart_o,
        every_o,
        back_o,
        pad_p,
        stride_p,
        apart_p,
        every_p,
        back_p,
        pad_q,
        stride_q,
        apart_q,
        every_q,
        back_q,
        line,
        channels,
        area,
    ):
        """As conv2d_input_direct; line, channels, area: of dx, as in conv2d_not_finite."""
        first = cuda.blockIdx.x * (READS * THREADS) + cuda.threadIdx.x
        if all_finite(line, first):
            return
        for k in range(READS):
            i = first + k * THREADS
            if i < line.size:
                value = load(line[i])
                if not (value - value == C(0)):
                    n, g, c, d, h, v = locate(dx, number_of(i, channels, area))
                    total = share(
                        dy,
                        w,
                        outputs,
                        filters,
                        n,
                        g,
                        c,
                        d,
                        h,
                        v,
                        pad_o,
                        stride_o,
                        apart_o,
                        every_o,
                        back_o,
                        pad_p,
                        stride_p,
                        apart_p,
                        every_p,
                        back_p,
                        pad_q,
                        stride_q,
                        apart_q,
                        every_q,
                        back_q,
                    )
                    if biased != 0:
                        total += load(bias[g * w.shape[2] + c])
                    line[i] = store(total)

    return conv2d_input_not_finite


@functools.cache
def conv2d_weight_not_finite(dtype: np.dtype, large: bool) -> Any:
    """A block for ADDERS weights, which adds up together what is not finite. large: 64-bit
    positions."""
    load, store, C = codec(dtype)
    anew = added_anew(dtype, large)

    @cuda.jit
    def conv2d_weight_not_finite(
        dy,
        x,
        dw,
        plane_start,
        plane_step,
        plane_tap,
        row_start,
        row_step,
        row_tap,
        column_start,
        column_step,
        column_tap,
        line,
        channels,
        area,
    ):
        """As conv2d_weight_direct; line, channels, area: of dw, as in conv2d_not_finite."""
        parts = cuda.shared.array(ADDERS, C)
        asked = cuda.shared.array(ADDERS, types.int32)
        t, first = cuda.threadIdx.x, cuda.blockIdx.x * ADDERS
        value = load(line[min(first + t, line.size - 1)])
        asked[t] = 0 if value - value == C(0) or first + t >= line.size else 1
        if not cuda.syncthreads_or(asked[t]):
            return
        for k in range(ADDERS):
            if asked[k] != 0:
                total = anew(
                    parts,
                    dy,
                    x,
                    dw,
                    number_of(first + k, channels, area),
                    t,
                    plane_start,
                    plane_step,
                    plane_tap,
                    row_start,
                    row_step,
                    row_tap,
                    column_start,
                    column_step,
                    column_tap,
                )
                if t == 0:
                    line[first + k] = store(total)

    return conv2d_weight_not_finite


# -------------------- planners


def added_up_anew(
    problem: Problem, arrays: Mapping[str, ArrayArg], bias: ArrayArg | None, last: bool
) -> Launch:
    """The launch that takes from the definition whatever is not finite of a result.

    arrays: "x", "weight" and "y", one of which is the result, all channels last or in C order.
    bias: one run of numbers, of which the result has one in each channel, or None."""
    role, dtype, groups = ROLES[problem.kind][2], problem.dtype, problem.groups
    x, w, y = (
        grouped(arrays[name], _in_order(getattr(problem, name), last), groups, axis)
        for name, axis in (("x", 1), ("weight", 0), ("y", 1))
    )
    out = problem.out
    line = arrays[role].view((out.size,), (out.itemsize,))
    order = numbers(out.shape[1], math.prod(out.shape[2:])) if last else numbers(1, 1)
    if problem.kind == "weight":
        large = math.prod(y.shape[3:]) >= 1 << 31
        steps = numbers(*walks(*walks_of(problem)))
        args = [y.volumes(), x.volumes(), w.volumes(), *steps, line, *order]
        kernel = conv2d_weight_not_finite(dtype, large)
        return Launch(kernel, blocks(out.size, ADDERS), ADDERS, args)
    if problem.kind == "forward":
        factory, first, target, steps = conv2d_not_finite, x, y, walks(*walks_of(problem))
    else:
        factory, first, target, steps = conv2d_input_not_finite, y, x, steps_of(problem)
    kernel = factory(dtype, is_large(dtype, first, w, target, steps))
    args = [*arguments(dtype, first, w, bias, target, steps), line, *order]
    return Launch(kernel, blocks(out.size, READS * THREADS), THREADS, args)


def _in_order(layout: Layout, last: bool) -> Layout:
    return as_channels_last(layout) if last else layout.like()


def copied(result: Layout, *inputs: Layout, problem: Problem) -> Plan:
    """The plan of a copy of a result in which what is not finite is added up anew; inputs: those of
    the problem, which lie, as its result does, channels last or in C order. For tests."""
    arguments = [Input(i + 1) for i in range(len(inputs))]
    arrays = dict(zip(ROLES[problem.kind], (*arguments[:2], Output(0)), strict=True))
    bias = arguments[2] if problem.bias is not None else None
    steps = copy_part(whole(Input(0), result), whole(Output(0), problem.out))
    last = not problem.out.contiguous
    return Plan([problem.out], [*steps, added_up_anew(problem, arrays, bias, last)])
