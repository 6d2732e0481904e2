"""The number of floating-point operations of a call: products, convolutions, attention, Fourier
transforms. For the profiler.

The count is that of the mathematics, a multiplication and an addition as two: a product is 2 m n k,
whatever a kernel saves (Winograd) or pads. Attention's kernels alone are counted by the operations
that each of them executes, because its gradients are shared out differently and compute the scores
once more. There is no count where it depends on numbers that only the device holds (lengths), nor
for operations that memory limits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.dtypes import STORAGE, bfloat16, float16
from ...core.layout import Layout
from ...runtime.roofline import Work

#: The kernels that do the operations, by how their names begin; beside them plans copy, pack, add
#: parts.
MAIN = re.compile(r"matmul_|conv2d_|gemv|grouped_|outer_|slide")
#: Attention's kernels and how many products each does along the width of q and k, and along that of
#: v: (scores, and the gradients of q and k), (the result, and the gradients of v and of the
#: weights).
ATTENTION = {
    "attention_plain": (1, 1),
    "attention_mma": (1, 1),
    "attention_wgmma": (1, 1),
    "attention_decode": (1, 1),
    "attention_grad_queries": (2, 1),
    "attention_grad_mma_queries": (2, 1),
    "attention_grad_wide_queries": (2, 1),
    "attention_grad_keys": (2, 2),
    "attention_grad_mma_keys": (2, 2),
    "attention_grad_wide_keys": (2, 2),
    "attention_grad_wgmma": (3, 2),
}


def of(
    name: str, plan: Plan, layouts: tuple[Layout | None, ...], params: dict[str, Any]
) -> list[Work]:
    """What each step of an op's plan has to do, as far as that is known."""
    inputs = [x for x in layouts if x is not None]
    found: list[float | None] = [None] * len(plan.steps)
    unit = ""
    if name in COUNTS and all(plan.outputs[0].shape) and plan.steps:
        unit = _unit(inputs[0].dtype, params)
        counted = COUNTS[name](plan, layouts, params)
        if isinstance(counted, dict):
            found = [
                counted.get(step.kernel.__name__) if isinstance(step, Launch) else None
                for step in plan.steps
            ]
        elif counted:
            found = _shared(plan.steps, counted)
    return [
        Work(
            operations,
            unit if operations else "",
            _nbytes(plan, step, inputs) if isinstance(step, Call) else None,
        )
        for operations, step in zip(found, plan.steps, strict=True)
    ]


def operations(
    name: str, inputs: list[Layout], outputs: list[Layout], params: dict[str, Any]
) -> float | None:
    """How many operations a call has to do, as far as that is known: for the CPU, where no kernels
    share them."""
    if name not in COUNTS or not outputs or not all(outputs[0].shape):
        return None
    counted = COUNTS[name](Plan(outputs, []), tuple(inputs), params)
    return sum(counted) or None if isinstance(counted, list) else None


def _shared(steps: list[Launch | Call], parts: list[float]) -> list[float | None]:
    """The parts of a call's operations, each to the step that does it; else equally to several
    launches of one kernel, whose sum is then right. Several kernels that share a part: nobody
    knows."""
    calls = [isinstance(step, Call) for step in steps]
    main = calls if any(calls) else [MAIN.match(step.kernel.__name__) is not None for step in steps]  # type: ignore[union-attr]
    kinds = {
        None if isinstance(step, Call) else step.kernel.__name__
        for step, ours in zip(steps, main, strict=True)
        if ours
    }
    if sum(main) != len(parts):
        parts = [sum(parts) / sum(main)] * sum(main) if len(kinds) == 1 else []
    rest = iter(parts)
    return [next(rest, None) if ours else None for ours in main]


def _unit(dtype: np.dtype, params: dict[str, Any]) -> str:
    if dtype == np.float32 and params.get("tf32"):
        return "tf32"
    if "form" in params and "group" not in params:  # quantized on its way
        return "int8" if params["form"] == "int8" else "float8"
    if dtype in STORAGE:
        return "float8"
    if dtype in (float16, bfloat16):
        return dtype.name
    return {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)


def _nbytes(plan: Plan, call: Call, inputs: list[Layout]) -> int | None:
    """Bytes of the arrays of a library call, each once, elements along an axis of stride 0 too;
    without its workspace."""
    total, seen = 0, set()
    for arg in call.args:
        if isinstance(arg, ArrayArg) and arg not in seen:
            seen.add(arg)
            layout = plan.layout(arg, inputs)
            if arg.kind != "t" or layout.dtype != np.uint8:
                total += layout.itemsize * math.prod(
                    n for n, s in zip(layout.shape, layout.strides, strict=True) if s
                )
    return total or None


# -------------------- by op

Counted = list[float] | dict[str, float]


def _times(dtype: np.dtype) -> int:
    return 8 if dtype.kind == "c" else 2  # operations of a multiplication and an addition


def _product(plan: Plan, layouts: Any, _params: dict) -> Counted:
    """... x k times k x n: a sum of k products for each number of the result."""
    return [_times(layouts[0].dtype) * plan.outputs[0].size * layouts[0].shape[-1]]


def _grouped_outer(plan: Plan, layouts: Any, _params: dict) -> Counted:
    return [2 * layouts[0].size * layouts[1].shape[1]]  # each row belongs to one group


def _mlp(plan: Plan, layouts: Any, _params: dict) -> Counted:
    rows = plan.outputs[0].size // layouts[3].shape[0]
    return [2 * rows * layouts[1].size, 2 * rows * layouts[3].size]


def _convolution(plan: Plan, layouts: Any, _params: dict) -> Counted:
    return [2 * plan.outputs[0].size * math.prod(layouts[1].shape[1:])]


def _input_gradient(plan: Plan, layouts: Any, _params: dict) -> Counted:
    return [
        2 * layouts[0].size * math.prod(layouts[1].shape[1:])
    ]  # as much as forward, whose result has grad's size


def _weight_gradient(plan: Plan, layouts: Any, _params: dict) -> Counted:
    return [2 * layouts[0].size * math.prod(plan.outputs[0].shape[1:])]


def _attention(q: Layout, k: Layout, v: Layout, causal: bool) -> dict[str, float]:
    """Each allowed pair of a query and a key costs 2 d operations in each product of width d."""
    (*heads, queries, width), keys = q.shape, k.shape[2]
    pairs = queries * keys
    if causal:  # query i sees keys 0 .. i + keys - queries
        first = keys - queries + 1
        alone = max(0, 1 - first)  # queries before the first key
        seen = queries - alone
        pairs = seen * (max(first, 1) + keys) // 2
    return {
        name: 2 * math.prod(heads) * pairs * (scores * width + values * v.shape[3])
        for name, (scores, values) in ATTENTION.items()
    }


def _lengths(layouts: tuple[Layout | None, ...]) -> bool:
    return any(x is not None for x in layouts)


def _attention_forward(_plan: Plan, layouts: Any, params: dict) -> Counted:
    return [] if _lengths(layouts[4:6]) else _attention(*layouts[:3], params["causal"])


def _attention_gradient(plan: Plan, layouts: Any, params: dict) -> Counted:
    if _lengths(layouts[7:9]):
        return []
    found = _attention(*layouts[1:4], params["causal"])
    q, v = layouts[1], layouts[3]
    names = [step.kernel.__name__ for step in plan.steps if isinstance(step, Launch)]
    if names.count("attention_grad_mma_keys") == 2:  # dk: scores, weights, dk; dv: scores, dv
        found["attention_grad_mma_keys"] *= (3 * q.shape[3] + 2 * v.shape[3]) / (
            4 * q.shape[3] + 4 * v.shape[3]
        )
    return found


def _packed(qkv: Layout, heads: int, causal: bool) -> dict[str, float]:
    batch, rows, wide = qkv.shape
    one = Layout.new((batch, heads, rows, wide // 3 // heads), qkv.dtype, qkv.device)
    return _attention(one, one, one, causal)


def _transform(plan: Plan, layouts: Any, params: dict) -> Counted:
    """5 N log2 N operations for N complex numbers, half of them where one side is real: the usual
    count."""
    x, y = layouts[0], plan.outputs[0]
    real = x.dtype.kind == "f" or y.dtype.kind == "f"
    whole = y if y.dtype.kind == "f" else x
    return [
        5
        * whole.size
        * sum(math.log2(whole.shape[axis]) for axis in params["axes"])
        / (2 if real else 1)
    ]


#: By the op's name: what its steps do, as one number or one for each step that counts (MAIN), or by
#: the kernel's name.
COUNTS: dict[str, Callable[[Plan, Any, dict], Counted]] = {
    "matmul": _product,
    "matmul (int8 to int32)": _product,
    "linear": _product,
    "linears": _product,
    "product_slope": _product,
    "linear (quantized weight)": _product,
    "linear_quantized": _product,
    "scaled_matmul": _product,
    "grouped_matmul": _product,
    "grouped_outer": _grouped_outer,
    "mlp": _mlp,
    "mlp (recomputed)": _mlp,
    "conv2d": _convolution,
    "_conv2d_input_grad": _input_gradient,
    "_conv2d_weight_grad": _weight_gradient,
    "_conv3d": _convolution,
    "_conv3d_input_grad": _input_gradient,
    "_conv3d_weight_grad": _weight_gradient,
    "convolve": lambda plan, layouts, _params: [
        2 * plan.outputs[0].size * min(x.size for x in layouts)
    ],
    "scaled_dot_product_attention": _attention_forward,
    "attention_grad": _attention_gradient,
    "self_attention": lambda _plan, layouts, params: _packed(
        layouts[0], params["heads"], params["causal"]
    ),
    "self_attention_grad": lambda _plan, layouts, params: _packed(
        layouts[1], params["heads"], params["causal"]
    ),
    "fft_c2c": _transform,
    "fft_r2c": _transform,
    "fft_c2r": _transform,
    "fft_cosines": _transform,
}
