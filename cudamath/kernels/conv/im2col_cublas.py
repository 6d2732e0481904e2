"""Convolutions of float32 as one matrix product by cuBLAS: the windows of all pixels are written
out as rows (im2col).

    Y (pixels x outputs) = X (pixels x channels taps) @ w.T
    dX                   = dY's windows @ w, its taps walked backwards

The windows take as many times the memory of the images as there are taps. They are written once and
read once: 58 MB for 64 images of 512 channels and 7 x 7 pixels. The product, 338 us there on an
H200, has its sum split by cuBLAS; a kernel that gathers windows itself has 100 tiles for 132
multiprocessors. All together take 496 us for the input gradient, cuDNN's best ordered plan 595.
Tables of measurements decide where this runs (core/dispatch/autotune.py, "im2col_cublas").
"""

from __future__ import annotations

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call
from ...core.layout import Layout
from ...runtime import cublas
from ..copy.channels_last import ReorderedPlan
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import Part, whole
from .problem import Lengths, Problem, add_bias

MOST = 1 << 28  # bytes that the windows may take


def forward(problem: Problem) -> Plan | None:
    """x (N, C, H, W), weight (K, C, R, S) -> y (N, K, P, Q), all in C order; None where the windows
    take more than MOST bytes."""
    return _product(problem, problem.weight.like(), 0, problem.stride, problem.padding)


def input_gradient(problem: Problem) -> Plan | None:
    """y (N, K, P, Q), weight (K, C, R, S) -> x (N, C, H, W), all in C order; None where the windows
    take more than MOST bytes."""
    weight, taps = problem.weight, problem.taps
    outputs, channels, down, right = weight.like().strides
    backwards = Layout.of(
        (weight.shape[1], weight.shape[0], *taps),
        (channels, outputs, -down, -right),
        weight.dtype,
        weight.device,
    )
    first = down * (taps[0] - 1) + right * (taps[1] - 1)
    around = gradient_padding(problem)
    return add_bias(_product(problem, backwards, first, (1, 1), around), problem)


def gradient_padding(problem: Problem) -> Lengths:
    """The padding of dy, for an input gradient without strides, as the forward convolution that it
    then is."""
    extent = [problem.dilation[i] * (problem.taps[i] - 1) for i in (0, 1)]
    return tuple([extent[i // 2] - p for i, p in enumerate(problem.padding)])


def _product(
    problem: Problem, filters: Layout, first: int, stride: Lengths, padding: Lengths
) -> Plan | None:
    """The plan of windows @ filters.T; filters: outputs, channels, taps down, right, `first` bytes
    into the weight."""
    out, (images, weight), dilation = problem.out, problem.operands, problem.dilation
    outputs, channels, *taps = filters.shape
    pixels, inner = out.size // outputs, channels * taps[0] * taps[1]
    if pixels * inner * out.itemsize > MOST:
        return None
    plan = ReorderedPlan(out, images, weight, last=False)
    source = whole(plan.operands[0], images)
    if any(padding):
        larger = images.like(
            (
                *images.shape[:2],
                *[n + padding[2 * i] + padding[2 * i + 1] for i, n in enumerate(images.shape[2:])],
            )
        )
        framed = whole(plan.temp(larger), larger)
        plan.steps += fill_part(framed, np.uint64(0), np.uint64(0), None)
        plan.steps += copy_part(
            source,
            framed.slice(2, padding[0], images.shape[2]).slice(3, padding[2], images.shape[3]),
        )
        source = framed
    image, channel, row, pixel = source.layout.strides
    count, _, height, width = out.shape
    windows = Layout.of(
        (count, height, width, channels, *taps),
        (
            image,
            row * stride[0],
            pixel * stride[1],
            channel,
            row * dilation[0],
            pixel * dilation[1],
        ),
        out.dtype,
        out.device,
    )
    a, b = plan.temp(out.like(windows.shape)), plan.operands[1]
    plan.steps += copy_part(source._replace(layout=windows), whole(a, out.like(windows.shape)))
    if not filters.contiguous:
        b = plan.temp(out.like(filters.shape))
        plan.steps += copy_part(
            Part(plan.operands[1], filters, first), whole(b, out.like(filters.shape))
        )
    last = out.like((count, height, width, outputs))
    c = plan.temp(last)
    plan.steps.append(
        Call(
            cublas.gemm(
                out.dtype,
                pixels,
                outputs,
                inner,
                cublas.Matrix(0, inner),
                cublas.Matrix(1, inner),
                cublas.Matrix(0, outputs),
            ),
            [a, b, c],
        )
    )
    across = Layout.of(
        out.shape, tuple([last.strides[i] for i in (0, 3, 1, 2)]), out.dtype, out.device
    )
    plan.steps += copy_part(whole(c, across), whole(plan.target, out))
    return plan.build()
