"""Convolutions of few outputs: one product of matrices for all taps at once, then sums over taps.

    forward         Z (pixels x outputs taps) = X (pixels x channels) @ w.T
                    y[p] = sum over taps t of Z[p step + t, t]
    input gradient  Z (pixels x taps channels) = dY (pixels x outputs) @ w
                    dx[h] = sum over taps t of Z[(h - t) / step, t], where that is whole

Kernels that gather windows have tiles of 64 outputs at least: of the last layer of a network that
draws images, which has three, they multiply 61 rows of zeros. Taken together, the taps of three
outputs fill tiles, and each pixel is read once. Z is written and read, in the type of sums: it
costs taps times the outputs, so this pays where channels are many beside these.

Many products lie taps before outputs, as threads read them, for which forward filters are copied:
else neighbours would read numbers of different sectors of 32 bytes.

The product is cuBLAS's; `sum_taps` has a thread for each result, which asks for the products of all
taps before it adds the first. Order: taps ascending.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ...runtime import cublas
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda, types
from ..copy.channels_last import ReorderedPlan
from ..copy.dispatch import copy_part
from ..copy.parts import Part, whole
from ..lib.codec import codec
from ..lib.integers import blocks
from .problem import Pair, Problem, add_bias

MOST = 1 << 28  # bytes that the products may take
TURNED = 1 << 23  # bytes of them, from which on their order is worth a launch
THREADS = 256
i32, i64 = types.int32, types.int64


def shape_of_products(p: Problem) -> tuple[int, int, int]:
    """(pixels, products of a pixel, terms of their sums)."""
    images = p.operands[0]
    terms = images.shape[1]
    return images.size // terms, p.weight.size // terms, terms


@functools.cache
def sum_taps(dtype: np.dtype, taps: Pair, forward: bool) -> Any:
    """out[n, k, a, b] = the sum of its products; a thread for each."""
    _, store, T = codec(dtype)
    down, right = taps
    many = down * right

    @bounded(THREADS)
    def sum_taps(
        products,
        out,
        high,
        wide,
        step_down,
        step_right,
        apart_down,
        apart_right,
        above,
        left,
        of_output,
        of_tap,
    ):
        # products: (N * high * wide, products of a pixel) of T; out: (N, K, P, Q), any strides;
        # step, apart: of windows, and of taps; above, left: the padding; of_output, of_tap:
        # distances of a pixel's products
        i = i64(cuda.grid(1))
        if i >= out.size:
            return
        pixel = i // out.shape[1]
        k = i - pixel * out.shape[1]
        line = pixel // out.shape[3]
        b = i32(pixel - line * out.shape[3])
        n = line // out.shape[2]
        a = i32(line - n * out.shape[2])
        found = cuda.local.array(many, T)
        first = n * high
        for r in range(down):
            row = i32(a * step_down - above + r * apart_down)
            good_row = True
            if not forward:
                at = i32(a + above - r * apart_down)
                row = i32(at // step_down)
                good_row = at - row * step_down == 0
            good_row = good_row and 0 <= row < high
            for s in range(right):
                column = i32(b * step_right - left + s * apart_right)
                good = good_row
                if not forward:
                    at = i32(b + left - s * apart_right)
                    column = i32(at // step_right)
                    good = good and at - column * step_right == 0
                good = good and 0 <= column < wide
                there = first + min(max(row, 0), high - 1)  # of none, one nearby is read
                there = there * wide + min(max(column, 0), wide - 1)
                value = products[there, k * of_output + (r * right + s) * of_tap]
                found[r * right + s] = value if good else T(0)
        total = found[0]
        for t in range(1, many):
            total += found[t]
        out[n, k, a, b] = store(total)

    return sum_taps


def outputs_first(p: Problem) -> bool:
    """Whether the products of a pixel lie outputs before taps, as forward filters do."""
    pixels, each, _ = shape_of_products(p)
    return p.kind == "forward" and pixels * each * compute_dtype(p.dtype).itemsize < TURNED


def sum_step(p: Problem, products: ArrayArg, out: ArrayArg) -> Launch:
    """The launch that sums the products of `p`."""
    forward, taps = p.kind == "forward", math.prod(p.taps)
    channels = p.out.shape[1]
    pixels, each, _ = shape_of_products(p)
    high, wide = p.operands[0].shape[2:]
    return Launch(
        sum_taps(p.dtype, p.taps, forward),
        blocks(p.out.size, THREADS),
        THREADS,
        [
            products.view((pixels, each)),
            out,
            *map(np.int32, (high, wide, *p.stride, *p.dilation, *p.padding[::2])),
            *map(np.int32, (taps, 1) if outputs_first(p) else (1, channels)),
        ],
    )


def sums(_products: Layout, *, problem: Problem) -> Plan:
    """Planner of the sums alone, of products (pixels, products of a pixel)."""
    return Plan([problem.out], [sum_step(problem, Input(0), Output(0))])


def plan(p: Problem) -> Plan | None:
    """Planner of forward convolutions and input gradients; None where the products take more than
    MOST bytes."""
    pixels, each, terms = shape_of_products(p)
    own = compute_dtype(p.dtype)
    if pixels * each * own.itemsize > MOST:
        return None
    plan = ReorderedPlan(p.out, *p.operands)
    products = plan.temp(Layout.new((pixels, each), own, p.device))
    images, weight = plan.operands
    filters = cublas.Matrix(1, terms) if p.kind == "forward" else cublas.Matrix(0, each)
    if p.kind == "forward" and not outputs_first(p):
        weight = _taps_first(plan, p, weight)
    product = cublas.gemm(
        p.dtype,
        pixels,
        each,
        terms,
        cublas.Matrix(0, terms),
        filters,
        cublas.Matrix(0, each),
        out=own if p.itemsize == 2 else None,
    )
    plan.steps += [Call(product, [images, weight, products]), sum_step(p, products, plan.target)]
    return add_bias(plan.build(), p)


def _taps_first(plan: ReorderedPlan, p: Problem, weight: ArrayArg) -> ArrayArg:
    """Append a copy of filters channels last, (K, R, S, C), as (R, S, K, C)."""
    outputs, channels, *taps = p.weight.shape
    size = p.itemsize
    output, column, row = (channels * size * n for n in (math.prod(taps), 1, taps[1]))
    turned = p.weight.like((*taps, outputs, channels))
    steps = (row, column, output, size)
    given = Layout.of(turned.shape, steps, p.dtype, p.device)
    target = plan.temp(turned)
    plan.steps += copy_part(Part(weight, given), whole(target, turned))
    return target
