"""The input gradient of a convolution, which is the transposed convolution: every output adds its
filter to the input.

    dx[c, h] = sum over m and r of w[m, c, r] * dy[m, p]
               with p * stride + r * dilation - padding = h   (columns alike)

With a stride, input row h meets only those taps r for which h + padding - r * dilation is a
multiple of the stride. Two planners:

``direct``          ``conv2d_input_direct``: one thread for each element of dx, or a few. A thread
                    finds along each axis the first tap that meets an output, and how many follow.
                    It is one launch for any stride, for images and volumes, with a bias: the right
                    one where there is little to do, and for few channels.
``input_gradient``  the rows (and columns) of one residue form a convolution of their own, with
                    every stride-th tap and no stride: one product for each, by the tiles of
                    fprop_simt.py.
"""

import functools
import itertools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ..compiler.lazy_numba import cuda, types
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.strided_index import index_walker
from .direct import conv2d_direct, launch, sum_of_lanes, sum_of_taps
from .fprop_simt import append_launches
from .geometry import Sources, View, fits, grouped, residues, walks
from .problem import Problem, is_small, meeting_taps, tiles_pay


@functools.cache
def meeting(large: bool) -> Any:
    """Device function: along one axis, the taps that meet an output from place `at` (padding
    counted): the first one, how many, and the output that it meets. From one to the next it is
    `every` taps on and `back` outputs back. large: 64-bit places."""
    signed, unsigned = (types.int64, types.uint64) if large else (types.int32, types.uint32)

    @cuda.jit(device=True)
    def meeting(at, size, taps, stride, dilation, every, back):
        tap, rest = signed(0), signed(at)
        while tap < taps and rest > 0 and unsigned(rest) % unsigned(stride) != unsigned(0):
            tap, rest = signed(tap + 1), signed(rest - dilation)
        place = signed(unsigned(max(rest, 0)) // unsigned(stride))
        while tap < taps and place >= size:
            tap, place = signed(tap + every), signed(place - back)
        count = 0
        if rest >= 0 and tap < taps and place >= 0:
            count = 1 + min((taps - 1 - tap) // every, place // back)
        return tap, count, place

    return meeting


@functools.cache
def sum_of_element(dtype: np.dtype, large: bool) -> Any:
    """Device function: one thread's part of one element of an input gradient. large: 64-bit
    places."""
    share, meet, size = sum_of_taps(dtype, large), meeting(large), dtype.itemsize

    @cuda.jit(device=True)
    def sum_of_element(
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
    ):
        """Arrays and steps as in conv2d_input_direct; n, g, c, d, h, v: the place in dx."""
        t, planes, o = meet(d + pad_o, dy.shape[3], w.shape[3], stride_o, apart_o, every_o, back_o)
        r, rows, p = meet(h + pad_p, dy.shape[4], w.shape[4], stride_p, apart_p, every_p, back_p)
        s, columns, q = meet(v + pad_q, dy.shape[5], w.shape[5], stride_q, apart_q, every_q, back_q)
        far, wide = dy.strides, w.strides
        at_y = (n * far[0] + g * far[1] + o * far[3] + p * far[4] + q * far[5]) // size
        at_w = (g * wide[0] + c * wide[2] + t * wide[3] + r * wide[4] + s * wide[5]) // size
        return share(
            outputs,
            filters,
            at_y,
            at_w,
            columns,
            rows,
            planes,
            w.shape[1],
            -back_q * far[5] // size,
            -back_p * far[4] // size,
            -back_o * far[3] // size,
            far[2] // size,
            every_q * wide[5] // size,
            every_p * wide[4] // size,
            every_o * wide[3] // size,
            wide[1] // size,
        )

    return sum_of_element


@functools.cache
def conv2d_input_direct(dtype: np.dtype, large: bool) -> Any:
    """A column of threads per element of the input: each has every blockDim.y-th output of every
    blockDim.z-th of its taps."""
    load, store, C = codec(dtype)
    share, add_lanes = sum_of_element(dtype, large), sum_of_lanes(C)
    locate = index_walker(0, 6, not large)

    @cuda.jit
    def conv2d_input_direct(
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
    ):
        """dy (N, G, M, O, P, Q), w (G, M, C, T, R, S), bias (G * C,) if biased, dx (N, G, C, D, H,
        W); any strides. outputs, filters: the memory of dy and w. Planes, rows and columns: padding
        in front, stride, dilation; from a tap that meets an output to the next, taps and outputs.
        """
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        n, g, c, d, h, v = locate(dx, min(i, dx.size - 1))
        total = add_lanes(
            share(
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
        )
        if cuda.threadIdx.y == 0 and cuda.threadIdx.z == 0 and i < dx.size:
            if biased != 0:
                total += load(bias[g * w.shape[2] + c])
            dx[n, g, c, d, h, v] = store(total)

    return conv2d_input_direct


# -------------------- planners


def steps_of(problem: Problem) -> list[int]:
    """The last arguments of `conv2d_input_direct`: along planes (of volumes), rows, columns."""
    stride, dilation, padding = problem.stride, problem.dilation, problem.padding[::2]
    steps: list[int] = []
    for step, apart, before in [(1, 1, 0)] * (3 - len(stride)) + list(
        zip(stride, dilation, padding, strict=True)
    ):
        common = math.gcd(step, apart)
        steps += [before, step, apart, step // common, apart // common]
    return steps


def direct(problem: Problem) -> Plan:
    """y (N, G*M, P, Q), weight (G*M, C, R, S), bias (G*C,) -> x (N, G*C, H, W) by one launch;
    volumes alike."""
    if not problem.x.size:
        return Plan([problem.x], [])
    sources = Sources(*problem.inputs)
    (y, y_layout), (w, w_layout), *bias = sources.operands
    sources.steps.append(
        launch(
            conv2d_input_direct,
            problem.dtype,
            grouped(y, y_layout, problem.groups, 1),
            grouped(w, w_layout, problem.groups, 0),
            bias[0][0] if bias else None,
            grouped(Output(0), problem.x, problem.groups, 1),
            problem.group_outputs,
            meeting_taps(problem),
            steps_of(problem),
        )
    )
    return Plan([problem.x], sources.steps, sources.temps)


def input_gradient(problem: Problem, splits: int | None = None, tiles: bool | None = None) -> Plan:
    """y (N, G*M, P, Q), weight (G*M, C, R, S), bias (G*C,) -> x (N, G*C, H, W) by a product for
    each residue. splits: as in fprop_simt.py. tiles: whether all products, or none, are computed in
    tiles; by default those for which tiles pay."""
    out, groups = problem.x, problem.groups
    sources = Sources(*problem.inputs)
    (y_argument, y_layout), (w_argument, w_layout), *rest = sources.operands
    bias = rest[0][0] if rest else None
    dy = grouped(y_argument, y_layout, groups, 1)
    w = grouped(w_argument, w_layout, groups, 0)
    dx = grouped(Output(0), out, groups, 1)
    kernel, size = problem.taps, out.shape[2:]
    stride, padding, dilation = problem.stride, problem.padding, problem.dilation
    axes = [residues(kernel[i], size[i], stride[i], padding[2 * i], dilation[i]) for i in (0, 1)]
    products = [*itertools.product(*axes)]
    met = [product for product in products if all(range(kernel[i])[product[i][2]] for i in (0, 1))]
    if bias is None and len(met) < len(products):
        sources.steps += fill_part(whole(Output(0), out), np.uint64(0), np.uint64(0), None)
        products = met
    for (top, height, r, rows), (left, width, s, columns) in products:
        ws = w.strides  # (G, M, C, R, S) read as (G, C, M, R', S')
        part = View(
            w_argument,
            (groups, w.shape[2], w.shape[1], len(range(kernel[0])[r]), len(range(kernel[1])[s])),
            (ws[0], ws[2], ws[1], r.step * ws[3], s.step * ws[4]),
            r.start * ws[3] + s.start * ws[4],
        )
        ds = dx.strides
        target = View(
            Output(0),
            (*dx.shape[:3], height, width),
            (*ds[:3], stride[0] * ds[3], stride[1] * ds[4]),
            top * ds[3] + left * ds[4],
        )
        if tiles or tiles is None and _in_tiles(problem.itemsize, dy, part, target):
            append_launches(sources, problem.dtype, dy, part, bias, target, rows, columns, splits)
        else:
            sources.steps.append(
                launch(
                    conv2d_direct,
                    problem.dtype,
                    dy,
                    part,
                    bias,
                    target,
                    part.shape[2],
                    part.shape[3] * part.shape[4],
                    walks(rows, columns),
                )
            )
    return Plan([out], sources.steps, sources.temps)


def _in_tiles(itemsize: int, images: View, filters: View, target: View) -> bool:
    """Whether tiles can compute a product, and pay."""
    count, groups, outputs, height, width = target.shape
    terms, positions = math.prod(filters.shape[2:]), count * height * width
    results = positions * groups * outputs
    return bool(
        terms
        and groups <= 65535
        and positions < 1 << 30
        and terms * outputs * groups < 1 << 30
        and fits(images, itemsize)
        and tiles_pay(outputs, terms, results)
        and not is_small(terms, results * terms)
    )
