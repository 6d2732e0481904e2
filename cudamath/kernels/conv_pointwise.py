"""Filters of one tap without a stride: products of matrices as they lie.

16-bit images channels last are one matrix X of pixels x channels, so all three are single products, for our own kernel
(matmul_wgmma.py), which stores whole lines by TMA where conv_wgmma.py's, made for windows, stores 32 bytes at a time:

    forward Y = X @ w.T        input gradient dX = dY @ w        weight gradient dw = dY.T @ X

float32 and float64 images in C order are a matrix x[n] of channels x pixels each, for cuBLAS:

    forward          y[n] = w @ x[n]             one w for all
    input gradient   dx[n] = w.T @ dy[n]
    weight gradient  dw = sum over n of dy[n] @ x[n].T, each kept by itself, then added in a fixed order

Nothing is gathered, and nothing is turned. Where this is the fastest has been measured (core/tune.py, "cublas").
"""

from __future__ import annotations

import math

from ..core.layout import Layout
from ..core.plan import ArrayArg, Call, Input, Launch, Output, Plan, Temp
from ..runtime import blas
from .build import blocks
from .conv_grad import sum_partials
from .conv_layout import Turned
from .matmul import turned
from .mlp import moved

Pair = tuple[int, int]
MOST = 1 << 28  # bytes that products of single images may take in a weight gradient


# -------------------------------------------------------------------------------- 16 bits, channels last, by wgmma


def by_wgmma(kind: str, out: Layout, first: Layout, second: Layout, bias: Layout | None = None, *, stride: Pair,
             padding: tuple[int, int, int, int], choice: str = "") -> Plan | None:
    """kind "forward": x, filters -> y; "input": dy, filters -> dx; "weight": dy, x -> dw; all (N, C, H, W). None: not in this
    file's reach. choice: of a tile, see matmul_tensor.Choice."""
    filters = out if kind == "weight" else second
    channels = first.shape[1], out.shape[1] if kind != "weight" else second.shape[1]
    if (filters.shape[2:] != (1, 1) or max(stride) > 1 or any(padding) or first.size * second.size * out.size == 0
            or sorted(filters.shape[:2]) != sorted(channels)):          # in groups
        return None
    from . import matmul_tensor  # what it imports has no meaning in the simulator

    whole = Turned(out, first, second)
    a, b = [Layout.new((x.size // x.shape[1], x.shape[1]), x.dtype, x.device) for x in (first, second)]
    a, b = turned(a) if kind == "weight" else a, turned(b) if kind == "forward" else b
    after = None if bias is None else matmul_tensor.Epilogue(bias=Input(2))
    plan = matmul_tensor.wgmma(a, b, choice, epilogue=after)
    places: dict[ArrayArg, ArrayArg] = {Input(i): operand for i, operand in enumerate(whole.operands)}
    places[Output(0)] = whole.target
    places |= {Temp(i): whole.temp(scratch) for i, scratch in enumerate(plan.temps)}
    whole.steps += moved(plan, places)
    return whole.plan()


# -------------------------------------------------------------------------------- float32 and float64, by cuBLAS


def serves(x: Layout, y: Layout, weight: tuple[int, ...], stride: Pair, padding: tuple[int, ...]) -> bool:
    """Whether a convolution of images x to images y by filters of this shape is such a product."""
    return (weight[2:] == (1, 1) and max(stride) == 1 and not any(padding) and weight[:2] == (y.shape[1], x.shape[1])
            and x.itemsize >= 4 and bool(x.size and y.size) and blas.available())


def _product(out: Layout, weight: Layout, images: Layout, turned: bool) -> Plan:
    """weight (or its transpose) @ each image."""
    plan = Turned(out, images, weight, last=False)
    (count, k), m, n = images.shape[:2], out.shape[1], math.prod(out.shape[2:])
    product = blas.gemm(out.dtype, m, n, k, blas.Matrix(int(turned), m if turned else k), blas.Matrix(0, n, k * n),
                        blas.Matrix(0, n, m * n), count)
    plan.steps.append(Call(product, [plan.operands[1], plan.operands[0], plan.target]))
    return plan.plan()


def conv2d(out: Layout, x: Layout, weight: Layout, bias: Layout | None = None, *, stride: Pair,
           padding: tuple[int, int, int, int]) -> Plan | None:
    """x (N, C, H, W), weight (K, C, 1, 1) -> out (N, K, H, W); None: not in this file's reach."""
    if bias is not None or not serves(x, out, weight.shape, stride, padding):
        return None
    return _product(out, weight, x, False)


def conv2d_input_grad(out: Layout, grad: Layout, weight: Layout, *, stride: Pair,
                      padding: tuple[int, int, int, int]) -> Plan | None:
    """grad (N, K, H, W), weight (K, C, 1, 1) -> out (N, C, H, W)."""
    return _product(out, weight, grad, True) if serves(out, grad, weight.shape, stride, padding) else None


def conv2d_weight_grad(out: Layout, grad: Layout, x: Layout, *, stride: Pair,
                       padding: tuple[int, int, int, int]) -> Plan | None:
    """grad (N, K, H, W), x (N, C, H, W) -> out (K, C, 1, 1)."""
    if not serves(x, grad, out.shape, stride, padding) or x.shape[0] * out.size * out.itemsize > MOST:
        return None
    plan = Turned(out, grad, x, last=False)
    (m, n), count, k = out.shape[:2], x.shape[0], math.prod(x.shape[2:])
    partial = plan.temp(Layout.new((count, out.size), out.dtype, out.device))
    product = blas.gemm(out.dtype, m, n, k, blas.Matrix(0, k, m * k), blas.Matrix(1, k, n * k), blas.Matrix(0, n, m * n), count)
    plan.steps += [Call(product, [*plan.operands, partial]),
                   Launch(sum_partials(out.dtype), blocks(out.size, 32), (32, 8), [partial, plan.target.flat])]
    return plan.plan()
