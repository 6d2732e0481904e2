"""Filters of one tap: matrix products of operands as they lie.

16-bit images channels last are one matrix X of pixels x channels, so all three are single products:

    forward Y = X @ w.T        input gradient dX = dY @ w        weight gradient dw = dY.T @ X

Our own kernel (matmul/sm90.py) stores whole lines by TMA, where fprop_dgrad_sm90.py, which is made
for windows, stores 32 bytes at a time: the product is 1.05 to 1.25 times as fast where sums are
short. cuBLAS computes it as well.

float32 and float64 images in C order are a matrix x[n] of channels x pixels each, for cuBLAS:

    forward          y[n] = w @ x[n]             one w for all
    input gradient   dx[n] = w.T @ dy[n]
    weight gradient  dw = sum over n of dy[n] @ x[n].T; the products are stored one by one, then
                     added in a fixed order

Nothing is gathered or transposed. An input gradient with a stride is that product, copied to its
places among zeros; no other product here has a stride. 16-bit images in C order are multiplied
likewise ("pointwise_images"), by the version of matmul that is the fastest for these matrices;
products of single images in a weight gradient are float32. Tables of measurements decide where the
others run (core/dispatch/autotune.py, "pointwise_matmul" and "pointwise_cublas").
"""

from __future__ import annotations

import math

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.layout import Layout
from ...runtime import cublas
from ..copy.channels_last import ReorderedPlan
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.integers import blocks
from ..lib.plan_edit import renumber
from ..matmul.dispatch import contenders as matmul_contenders
from ..matmul.dispatch import matmul
from ..matmul.problem import transpose
from ..matmul.sm90_tiles import LOW, Choice
from .problem import Problem, add_bias
from .wgrad_simt import sum_partials
from .work import image_product

MOST = 1 << 28  # bytes that products of single images may take in a weight gradient


# -------------------- 16 bits, channels last


def matrices(problem: Problem) -> tuple[Layout, Layout]:
    """The operands of the product, channels last: x and filters, dy and filters, or dy and x."""
    a, b = [
        Layout.new((x.size // x.shape[1], x.shape[1]), x.dtype, x.device) for x in problem.operands
    ]
    return (
        transpose(a) if problem.kind == "weight" else a,
        transpose(b) if problem.kind == "forward" else b,
    )


def contenders(problem: Problem) -> list[str]:
    """The versions of matmul worth timing: also tiles for products that memory limits."""
    a, b = matrices(problem)
    found = [version for version in matmul_contenders(a, b) if version.startswith("sm90")]
    tiles = [f"sm90 {Choice(*tile)}" for tile in LOW if tile[1] <= b.shape[1]]
    return list(dict.fromkeys([*found, *tiles]))


def as_product(problem: Problem, version: str) -> Plan:
    """The plan as one product by this version of matmul, "sm90 TILE" or "cublas". Of a forward
    convolution "sm90" adds the bias, too."""
    plan = ReorderedPlan(problem.out, *problem.operands)
    a, b = matrices(problem)
    if problem.kind != "forward" or problem.bias is None:
        product = matmul(a, b, version=version)
    else:
        from ..matmul import tensor_core_dispatch  # its imports have no meaning in the simulator

        product = tensor_core_dispatch.wgmma(
            a,
            b,
            version.removeprefix("sm90").strip(),
            epilogue=tensor_core_dispatch.Epilogue(bias=Input(2)),
        )
    places: dict[ArrayArg, ArrayArg] = {
        Input(i): operand for i, operand in enumerate(plan.operands)
    }
    places[Output(0)] = plan.target
    places |= {Temp(i): plan.temp(scratch) for i, scratch in enumerate(product.temps)}
    plan.steps += renumber(product.steps, places)
    return plan.build()


def by_matmul(problem: Problem) -> Plan | None:
    """The plan by matmul/sm90.py, with the tile that was measured to be the fastest. A bias is
    added by the epilogue, which no split of the sum has."""
    biased = problem.kind == "forward" and problem.bias is not None
    timed = problem.fastest(("pointwise_matmul",), whole=biased)
    version = timed.choice.replace("pointwise_matmul", "sm90") if timed else "sm90"
    plan = as_product(problem, version)
    return plan if problem.kind == "forward" else add_bias(plan, problem)


# -------------------- 16 bits, C order


def by_images(problem: Problem) -> Plan | None:
    """The plan by one product of matrices for each image, as images lie in C order."""
    if problem.kind == "weight":
        return _weight_product(problem.weight, problem.y, problem.x)
    plan = ReorderedPlan(problem.out, *problem.operands, last=False)
    wanted = image_product(problem)
    product = matmul(wanted.a, wanted.b)
    places: dict[ArrayArg, ArrayArg] = {Input(0): plan.operands[1], Input(1): plan.operands[0]}
    places[Output(0)] = plan.target
    places |= {Temp(i): plan.temp(scratch) for i, scratch in enumerate(product.temps)}
    plan.steps += renumber(product.steps, places)
    return add_bias(plan.build(), problem)


# -------------------- cuBLAS


def by_cublas(problem: Problem) -> Plan | None:
    """The plan by cuBLAS: one product of 16-bit numbers channels last, or one for each image in C
    order. None where these would take too much memory."""
    if problem.itemsize == 2:
        plan: Plan | None = as_product(problem, "cublas")
    elif problem.kind == "weight":
        plan = _weight_product(problem.weight, problem.y, problem.x)
    elif problem.kind == "input" and max(problem.stride) > 1:
        plan = _strided_gradient(problem)
    else:
        images, weight = problem.operands
        plan = _product(problem.out, weight, images, problem.kind == "input")
    return add_bias(plan, problem)


def _product(out: Layout, weight: Layout, images: Layout, transposed: bool) -> Plan:
    """weight (or its transpose) @ each image."""
    plan = ReorderedPlan(out, images, weight, last=False)
    (count, k), m, n = images.shape[:2], out.shape[1], math.prod(out.shape[2:])
    product = cublas.gemm(
        out.dtype,
        m,
        n,
        k,
        cublas.Matrix(int(transposed), m if transposed else k),
        cublas.Matrix(0, n, k * n),
        cublas.Matrix(0, n, m * n),
        count,
    )
    plan.steps.append(Call(product, [plan.operands[1], plan.operands[0], plan.target]))
    return plan.build()


def _strided_gradient(problem: Problem) -> Plan:
    """y (N, K, P, Q), weight (K, C, 1, 1) -> x (N, C, H, W), of which every stride-th row and
    column is no zero. Products at the padding go nowhere."""
    out, grad, weight = problem.x, problem.y, problem.weight
    close = out.like((*out.shape[:2], *grad.shape[2:]))
    inner, plan = _product(close, weight, grad, True), ReorderedPlan(out, last=False)
    source = plan.temp(close)
    plan.steps += renumber(
        inner.steps,
        {Output(0): source, **{Temp(i): plan.temp(x) for i, x in enumerate(inner.temps)}},
    )
    values, image = whole(source, close), whole(plan.target, plan.target_layout)
    plan.steps += fill_part(image, np.uint64(0), np.uint64(0), None)
    for axis, step, before in zip((2, 3), problem.stride, problem.padding[::2], strict=True):
        first = -(-before // step)  # of the products inside of the image, which lies there
        start = first * step - before
        count = max(min(close.shape[axis] - first, -(-(out.shape[axis] - start) // step)), 0)
        values, image = values.slice(axis, first, count), image.every(axis, start, step, count)
    plan.steps += copy_part(values, image)
    return plan.build()


def _weight_product(out: Layout, grad: Layout, x: Layout) -> Plan | None:
    """grad (N, K, H, W), x (N, C, H, W) -> out (K, C, 1, 1)."""
    own = np.dtype(np.float32) if out.itemsize == 2 else out.dtype
    if x.shape[0] * out.size * own.itemsize > MOST:
        return None
    plan = ReorderedPlan(out, grad, x, last=False)
    (m, n), count, k = out.shape[:2], x.shape[0], math.prod(x.shape[2:])
    partial = plan.temp(Layout.new((count, out.size), own, out.device))
    product = cublas.gemm(
        out.dtype,
        m,
        n,
        k,
        cublas.Matrix(0, k, m * k),
        cublas.Matrix(1, k, n * k),
        cublas.Matrix(0, n, m * n),
        count,
        out=own,
    )
    plan.steps += [
        Call(product, [*plan.operands, partial]),
        Launch(sum_partials(out.dtype), blocks(out.size, 32), (32, 8), [partial, plan.target.flat]),
    ]
    return plan.build()
