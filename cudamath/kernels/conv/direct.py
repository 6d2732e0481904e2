"""Convolution by one thread for each result, or a few threads: one launch, and the right one where
there is little to do.

A result is the sum over a box of taps: columns x rows x planes x channels. A thread finds for each
axis once which taps lie within the images, so the loop of the sum has no bounds checks and keeps
several loads in flight. It takes one tap after another, and channel after channel within a tap.
Where there are few results, several threads share one: they share its channels or, if channels are
few, its taps. Their partial sums are added in a fixed order. The input gradient (dgrad_simt.py) is
the same sum over another box.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.strided_index import index_walker
from .geometry import Sources, View, Walk, grouped, numbers, walks
from .problem import Problem

# of a block: results side by side (threadIdx.x), and those that share the channels (y) and the taps
# (z) of one
THREADS = 256


@functools.cache
def sum_of_taps(dtype: np.dtype, large: bool) -> Any:
    """Device function: one thread's part of a sum over columns, rows, planes and channels. large:
    64-bit places."""
    load, _, C = codec(dtype)
    signed, unsigned, place = (
        (types.int64 if large else types.int32),
        (types.uint64 if large else types.uint32),
        types.uint64,
    )

    @cuda.jit(device=True)
    def sum_of_taps(
        x,
        w,
        at_x,
        at_w,
        columns,
        rows,
        planes,
        channels,
        x_column,
        x_row,
        x_plane,
        x_channel,
        w_column,
        w_row,
        w_plane,
        w_channel,
    ):
        """x, w: memory as a line; at_x, at_w: where the first product's factors lie; then how many
        there are and how far apart.

        A tap is found by divisions; along its channels, a product costs two loads and no
        comparison."""
        total, first, apart = C(0), cuda.threadIdx.y, cuda.blockDim.y
        share = signed(unsigned(channels - first + apart - 1) // unsigned(apart))
        for k in range(cuda.threadIdx.z, columns * rows * planes, cuda.blockDim.z):
            row = unsigned(unsigned(k) // unsigned(columns))
            plane = unsigned(row // unsigned(rows))
            r, s = signed(row - plane * rows), signed(k - row * columns)
            of_x = place(
                signed(
                    at_x + s * x_column + r * x_row + signed(plane) * x_plane + first * x_channel
                )
            )
            of_w = place(
                signed(
                    at_w + s * w_column + r * w_row + signed(plane) * w_plane + first * w_channel
                )
            )
            for _ in range(share):
                total += load(w[of_w]) * load(x[of_x])
                of_x, of_w = (
                    place(of_x + place(apart * x_channel)),
                    place(of_w + place(apart * w_channel)),
                )
        return total

    return sum_of_taps


@cuda.jit(device=True)
def taps_inside(at, apart, taps, size):
    """Of taps at `at`, at + apart, ...: the first within 0 <= place < size, and their number."""
    first, last = 0, taps
    while first < last and (at + first * apart < 0 or at + first * apart >= size):
        first += 1
    while first < last and (at + (last - 1) * apart < 0 or at + (last - 1) * apart >= size):
        last -= 1
    return first, last - first


@functools.cache
def sum_of_lanes(C: Any) -> Any:
    """Device function: the sum over the threads of a result, in a fixed order. The thread with y =
    z = 0 gets it."""

    @cuda.jit(device=True)
    def sum_of_lanes(total):
        sums = cuda.shared.array(THREADS, C)
        x, wide, across = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockDim.y
        sums[(cuda.threadIdx.z * across + cuda.threadIdx.y) * wide + x] = total
        cuda.syncthreads()
        for lane in range(1, across * cuda.blockDim.z):
            total += sums[lane * wide + x]
        return total

    return sum_of_lanes


@functools.cache
def sum_of_result(dtype: np.dtype, large: bool) -> Any:
    """Device function: one thread's part of one result of a forward convolution. large: 64-bit
    places."""
    share, size = sum_of_taps(dtype, large), dtype.itemsize

    @cuda.jit(device=True)
    def sum_of_result(
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
    ):
        """Arrays and steps as in conv2d_direct; n, g, m, o, p, q: the place in y."""
        d, h, v = (
            plane_start + o * plane_step,
            row_start + p * row_step,
            column_start + q * column_step,
        )
        t, planes = taps_inside(d, plane_tap, w.shape[3], x.shape[3])
        r, rows = taps_inside(h, row_tap, w.shape[4], x.shape[4])
        s, columns = taps_inside(v, column_tap, w.shape[5], x.shape[5])
        far, wide = x.strides, w.strides
        at_x = (
            n * far[0]
            + g * far[1]
            + (d + t * plane_tap) * far[3]
            + (h + r * row_tap) * far[4]
            + (v + s * column_tap) * far[5]
        ) // size
        at_w = (g * wide[0] + m * wide[1] + t * wide[3] + r * wide[4] + s * wide[5]) // size
        return share(
            images,
            filters,
            at_x,
            at_w,
            columns,
            rows,
            planes,
            w.shape[2],
            far[5] * column_tap // size,
            far[4] * row_tap // size,
            far[3] * plane_tap // size,
            far[2] // size,
            wide[5] // size,
            wide[4] // size,
            wide[3] // size,
            wide[2] // size,
        )

    return sum_of_result


@functools.cache
def conv2d_direct(dtype: np.dtype, large: bool) -> Any:
    """A column of threads per result: each has every blockDim.y-th channel of every blockDim.z-th
    tap."""
    load, store, C = codec(dtype)
    share, add_lanes = sum_of_result(dtype, large), sum_of_lanes(C)
    locate = index_walker(0, 6, not large)

    @cuda.jit
    def conv2d_direct(
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
    ):
        """x (N, G, C, D, H, W), w (G, M, C, T, R, S), bias (G * M,) if biased, y (N, G, M, O, P,
        Q); any strides. images, filters: the memory of x and w. Images are one plane deep.

        Input row = row_start + p * row_step + r * row_tap; planes and columns alike."""
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        n, g, m, o, p, q = locate(y, min(i, y.size - 1))
        total = add_lanes(
            share(
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
        )
        if cuda.threadIdx.y == 0 and cuda.threadIdx.z == 0 and i < y.size:
            if biased != 0:
                total += load(bias[g * w.shape[1] + m])
            y[n, g, m, o, p, q] = store(total)

    return conv2d_direct


# -------------------- planners

MOST_LANES = 16
#: Threads of the device, 512 to a multiprocessor, from which on results are not shared: each thread
#: has to find its place, in some 700 instructions.
ENOUGH_THREADS = 1 << 16
LEAST_PRODUCTS = 4  # of a lane


def lanes_for(results: int, channels: int, taps: int) -> tuple[int, int]:
    """How many threads share the channels of a result, and its taps: enough to fill the device, if
    each has enough products. Channels come first, as long as each thread has some in a row: they
    are walked in a simple loop, which begins anew at every tap."""
    across = along = 1
    while across * along < MOST_LANES and across * along * results < ENOUGH_THREADS:
        if channels >= 2 * LEAST_PRODUCTS * across:
            across *= 2
        elif taps >= 2 * along and channels * taps >= 2 * LEAST_PRODUCTS * across * along:
            along *= 2
        else:
            break
    return across, along


def launch(
    kernel: Callable,
    dtype: np.dtype,
    x: View,
    w: View,
    bias: ArrayArg | None,
    y: View,
    channels: int,
    taps: int,
    steps: Sequence[int],
) -> Launch:
    """The launch of `conv2d_direct`, or of a kernel with the same arguments (`kernel` is its
    factory), of `channels` x `taps` products a result. steps: its last arguments."""
    results = math.prod(y.shape)
    across, along = lanes_for(results, channels, taps)
    wide = THREADS // (across * along)
    return Launch(
        kernel(dtype, is_large(dtype, x, w, y, steps)),
        blocks(results, wide),
        (wide, across, along),
        arguments(dtype, x, w, bias, y, steps),
    )


def is_large(dtype: np.dtype, x: View, w: View, y: View, steps: Sequence[int]) -> bool:
    """Whether places need 64 bits."""
    spans = x.span(dtype.itemsize), w.span(dtype.itemsize), math.prod(y.shape) + THREADS
    return max(*spans, *map(abs, steps)) >= 1 << 30


def arguments(
    dtype: np.dtype, x: View, w: View, bias: ArrayArg | None, y: View, steps: Sequence[int]
) -> list[Any]:
    """The arguments of `conv2d_direct`, or of a kernel with the same ones."""
    return [
        x.volumes(),
        w.volumes(),
        x.line(dtype.itemsize),
        w.line(dtype.itemsize),
        w.argument.view((1,), (dtype.itemsize,)) if bias is None else bias,  # not read
        y.volumes(),
        *numbers(bias is not None, *steps),
    ]


def walks_of(problem: Problem) -> list[Walk]:
    """Along the axes of the images or volumes."""
    return [
        Walk(-before, step, apart)
        for before, step, apart in zip(
            problem.padding[::2], problem.stride, problem.dilation, strict=True
        )
    ]


def forward(problem: Problem) -> Plan:
    """x (N, G*C, H, W), weight (G*M, C, R, S), bias (G*M,) -> y (N, G*M, P, Q); volumes alike."""
    if not problem.y.size:
        return Plan([problem.y], [])
    sources = Sources(*problem.inputs)
    (x, x_layout), (w, w_layout), *bias = sources.operands
    sources.steps.append(
        launch(
            conv2d_direct,
            problem.dtype,
            grouped(x, x_layout, problem.groups, 1),
            grouped(w, w_layout, problem.groups, 0),
            bias[0][0] if bias else None,
            grouped(Output(0), problem.y, problem.groups, 1),
            problem.group_channels,
            math.prod(problem.taps),
            walks(*walks_of(problem)),
        )
    )
    return Plan([problem.y], sources.steps, sources.temps)
