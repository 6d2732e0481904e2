"""Convolutions of float32 as one matrix product by cuBLAS: the windows of all pixels written out as
rows (im2col).

    Y (pixels x outputs) = X (pixels x channels taps) @ w.T        dX = dY's windows @ w, its taps
        walked backwards

The windows take as many times the memory of the images as there are taps, once written and once
read: 58 MB for 64 images of 512 channels and 7 x 7 pixels. The product, 338 us there on an H200,
has its sum split as cuBLAS splits it, where a kernel that gathers windows itself has 100 tiles for
132 multiprocessors. All together: 496 us for the input gradient, cuDNN's best ordered plan 595.
Where it is the fastest has been measured (core/dispatch/autotune.py, "columns").
"""

from __future__ import annotations

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call
from ...core.layout import Layout
from ...runtime import cublas
from ..copy.channels_last import Turned
from ..copy.strided import Part, copy_part, fill_part, whole

Pair = tuple[int, int]
MOST = 1 << 28  # bytes that the windows may take


def forward(
    out: Layout,
    x: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    stride: Pair,
    padding: tuple[int, int, int, int],
    dilation: Pair,
    groups: int,
) -> Plan | None:
    """x (N, C, H, W), weight (K, C, R, S) -> out (N, K, P, Q), all in C order. None: not in this
    file's reach."""
    if bias is not None or groups > 1:
        return None
    return _product(out, x, weight, weight.like(), 0, stride, padding, dilation)


def input_gradient(
    out: Layout,
    grad: Layout,
    weight: Layout,
    *,
    stride: Pair,
    padding: tuple[int, int, int, int],
    dilation: Pair,
    groups: int,
) -> Plan | None:
    """grad (N, K, P, Q), weight (K, C, R, S) -> out (N, C, H, W), all in C order. None: not in this
    file's reach."""
    taps = weight.shape[2:]
    reach = [dilation[i] * (taps[i] - 1) for i in (0, 1)]
    around = tuple([reach[i // 2] - p for i, p in enumerate(padding)])
    if max(stride) > 1 or groups > 1 or min(around) < 0 or not weight.size:
        return None
    outputs, channels, down, right = weight.like().strides
    backwards = Layout.of(
        (weight.shape[1], weight.shape[0], *taps),
        (channels, outputs, -down, -right),
        weight.dtype,
        weight.device,
    )
    first = down * (taps[0] - 1) + right * (taps[1] - 1)
    return _product(
        out,
        grad,
        weight,
        backwards,
        first,
        (1, 1),
        (around[0], around[1], around[2], around[3]),
        dilation,
    )


def _product(
    out: Layout,
    images: Layout,
    weight: Layout,
    filters: Layout,
    first: int,
    stride: Pair,
    padding: tuple[int, int, int, int],
    dilation: Pair,
) -> Plan | None:
    """The plan of windows @ filters.T; filters: outputs, channels, taps down, right, `first` bytes
    into the weight."""
    outputs, channels, *taps = filters.shape
    pixels, inner = out.size // outputs if outputs else 0, channels * taps[0] * taps[1]
    if (
        out.itemsize != 4
        or not (out.size and inner and cublas.available())
        or not (out.contiguous and images.contiguous)
        or pixels * inner * out.itemsize > MOST
    ):
        return None
    plan = Turned(out, images, weight, last=False)
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
    return plan.plan()
