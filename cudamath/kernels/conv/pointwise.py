"""Filters of one tap: products of matrices as they lie.

16-bit images channels last are one matrix X of pixels x channels, so all three are single products:

    forward Y = X @ w.T        input gradient dX = dY @ w        weight gradient dw = dY.T @ X

for our own kernel (matmul/sm90.py), which stores whole lines by TMA where fprop_dgrad_sm90.py's,
made for windows, stores 32 bytes at a time: 1.05 to 1.25 times as fast where little is summed. For
cuBLAS as well.

float32 and float64 images in C order are a matrix x[n] of channels x pixels each, for cuBLAS:

    forward          y[n] = w @ x[n]             one w for all
    input gradient   dx[n] = w.T @ dy[n]
    weight gradient  dw = sum over n of dy[n] @ x[n].T, each kept by itself, then added in a fixed
    order

Nothing is gathered, and nothing is turned. With a stride an input gradient is that product, copied
to its places among zeros. Strides are for nothing else here. Where this is the fastest has been
measured (core/dispatch/autotune.py, "cublas").
"""

from __future__ import annotations

import math

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.layout import Layout
from ...runtime import cublas
from ..copy.channels_last import Turned
from ..copy.strided import copy_part, fill_part, whole
from ..lib.integers import blocks
from ..lib.plan_edit import renumber
from ..matmul.dispatch import contenders as matmul_contenders
from ..matmul.dispatch import matmul
from ..matmul.problem import transpose
from .wgrad_simt import sum_partials

Pair = tuple[int, int]
LOW = (
    "256x64",
    "128x64 pingpong",
    "64x128 pingpong",
    "256x128",
    "192x128",
)  # where little is summed
MOST = 1 << 28  # bytes that products of single images may take in a weight gradient


# -------------------- 16 bits, channels last


def one_tap(
    filters: tuple[int, ...], channels: tuple[int, int], stride: Pair, padding: tuple[int, ...]
) -> bool:
    """Whether filters of this shape have one tap, at every pixel. channels: of images and results,
    which groups divide."""
    return (
        filters[2:] == (1, 1)
        and max(stride) == 1
        and not any(padding)
        and sorted(filters[:2]) == sorted(channels)
    )


def operands(kind: str, first: Layout, second: Layout) -> tuple[Layout, Layout]:
    """The matrices of the product; kind "forward": of x, filters; "input": dy, filters; "weight":
    dy, x; channels last."""
    a, b = [
        Layout.new((x.size // x.shape[1], x.shape[1]), x.dtype, x.device) for x in (first, second)
    ]
    return transpose(a) if kind == "weight" else a, transpose(b) if kind == "forward" else b


def contenders(kind: str, first: Layout, second: Layout) -> list[str]:
    """The versions of matmul worth timing as `product`: also tiles for products that memory
    limits."""
    a, b = operands(kind, first, second)
    found = [version for version in matmul_contenders(a, b) if version.startswith("sm90")]
    tiles = [f"sm90 {tile}" for tile in LOW if int(tile.split()[0].split("x")[1]) <= b.shape[1]]
    return list(dict.fromkeys([*found, *tiles]))


def as_product(
    kind: str,
    out: Layout,
    first: Layout,
    second: Layout,
    bias: Layout | None = None,
    *,
    stride: Pair,
    padding: tuple[int, int, int, int],
    version: str = "sm90",
) -> Plan | None:
    """kind: see `operands`; all (N, C, H, W). None: not in this file's reach. version: of matmul,
    "sm90" or "cublas"."""
    filters, other = (out, second) if kind == "weight" else (second, out)
    channels = first.shape[1], other.shape[1]
    if not (
        one_tap(filters.shape, channels, stride, padding)
        and out.itemsize == 2
        and first.size
        and second.size
        and (cublas.available() if version == "cublas" else all(c % 8 == 0 for c in channels))
    ):
        return None
    whole = Turned(out, first, second)
    a, b = operands(kind, first, second)
    if bias is None:
        plan = matmul(a, b, version=version)
    elif version.startswith("sm90"):
        from ..matmul import tensor_core_dispatch  # what it imports has no meaning in the simulator

        plan = tensor_core_dispatch.wgmma(
            a,
            b,
            version.removeprefix("sm90").strip(),
            epilogue=tensor_core_dispatch.Epilogue(bias=Input(2)),
        )
    else:
        return None
    places: dict[ArrayArg, ArrayArg] = {
        Input(i): operand for i, operand in enumerate(whole.operands)
    }
    places[Output(0)] = whole.target
    places |= {Temp(i): whole.temp(scratch) for i, scratch in enumerate(plan.temps)}
    whole.steps += renumber(plan.steps, places)
    return whole.plan()


# -------------------- float32 and float64, by cuBLAS


def serves(
    x: Layout, y: Layout, weight: tuple[int, ...], stride: Pair, padding: tuple[int, ...]
) -> bool:
    """Whether a convolution of images x to images y by filters of this shape is such a product."""
    return (
        one_tap(weight, (y.shape[1], x.shape[1]), stride, padding)
        and x.itemsize >= 4
        and bool(x.size and y.size)
        and cublas.available()
    )


def _product(out: Layout, weight: Layout, images: Layout, turned: bool) -> Plan:
    """weight (or its transpose) @ each image."""
    plan = Turned(out, images, weight, last=False)
    (count, k), m, n = images.shape[:2], out.shape[1], math.prod(out.shape[2:])
    product = cublas.gemm(
        out.dtype,
        m,
        n,
        k,
        cublas.Matrix(int(turned), m if turned else k),
        cublas.Matrix(0, n, k * n),
        cublas.Matrix(0, n, m * n),
        count,
    )
    plan.steps.append(Call(product, [plan.operands[1], plan.operands[0], plan.target]))
    return plan.plan()


def by_images(
    kind: str,
    out: Layout,
    first: Layout,
    second: Layout,
    bias: Layout | None = None,
    *,
    stride: Pair,
    padding: tuple[int, int, int, int],
) -> Plan | None:
    """kind: see `operands`; all (N, C, H, W) in C order. None: not in this file's reach."""
    images, results, filters = {
        "forward": (first, out, second),
        "input": (out, first, second),
        "weight": (second, first, out),
    }[kind]
    if kind == "input" and max(stride) > 1:
        return _apart(out, first, second, stride, padding)
    if bias is not None or not serves(images, results, filters.shape, stride, padding):
        return None
    return (
        _weight_product(out, first, second)
        if kind == "weight"
        else _product(out, second, first, kind == "input")
    )


def _apart(
    out: Layout, grad: Layout, weight: Layout, stride: Pair, padding: tuple[int, int, int, int]
) -> Plan | None:
    """grad (N, K, P, Q), weight (K, C, 1, 1) -> out (N, C, H, W), of which every stride-th row and
    column is no zero. Products at the padding go nowhere."""
    close = out.like((*out.shape[:2], *grad.shape[2:]))
    if not serves(close, grad, weight.shape, (1, 1), (0,) * 4):
        return None
    inner, plan = _product(close, weight, grad, True), Turned(out, last=False)
    source = plan.temp(close)
    plan.steps += renumber(
        inner.steps,
        {Output(0): source, **{Temp(i): plan.temp(x) for i, x in enumerate(inner.temps)}},
    )
    values, image = whole(source, close), whole(plan.target, plan.seen)
    plan.steps += fill_part(image, np.uint64(0), np.uint64(0), None)
    for axis, step, before in zip((2, 3), stride, padding[::2], strict=True):
        first = -(-before // step)  # of the products inside of the image, which lies there
        start = first * step - before
        count = max(min(close.shape[axis] - first, -(-(out.shape[axis] - start) // step)), 0)
        values, image = values.slice(axis, first, count), image.every(axis, start, step, count)
    plan.steps += copy_part(values, image)
    return plan.plan()


def _weight_product(out: Layout, grad: Layout, x: Layout) -> Plan | None:
    """grad (N, K, H, W), x (N, C, H, W) -> out (K, C, 1, 1)."""
    if x.shape[0] * out.size * out.itemsize > MOST:
        return None
    plan = Turned(out, grad, x, last=False)
    (m, n), count, k = out.shape[:2], x.shape[0], math.prod(x.shape[2:])
    partial = plan.temp(Layout.new((count, out.size), out.dtype, out.device))
    product = cublas.gemm(
        out.dtype,
        m,
        n,
        k,
        cublas.Matrix(0, k, m * k),
        cublas.Matrix(1, k, n * k),
        cublas.Matrix(0, n, m * n),
        count,
    )
    plan.steps += [
        Call(product, [*plan.operands, partial]),
        Launch(sum_partials(out.dtype), blocks(out.size, 32), (32, 8), [partial, plan.target.flat]),
    ]
    return plan.plan()
