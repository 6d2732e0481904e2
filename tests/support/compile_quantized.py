"""Calls of quantization that reach every kernel of its own: a part of test_compile.py."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from strategies import BF16

import cudamath as cm
from cudamath.core.layout import Layout

F16, F32 = np.dtype(np.float16), np.dtype(np.float32)


def quantized(f: np.dtype) -> None:
    """Every form and every way to share scales; a few rows and many; both operands of 8 bits."""
    w, bias = cm.empty((256, 128), f), cm.empty(256, f)
    for dtype, options in (
        ("int8", {"axis": 0}),
        ("int8", {"symmetric": False}),
        ("int4", {"group": 128}),
        ("int4", {"group": 64, "symmetric": False}),
        ("float8_e4m3", {"axis": 0}),
        ("float8_e5m2", {}),
    ):
        q = cm.ml.quantize(w, dtype, **options)
        cm.ml.dequantize(q, f)
        for rows in (1, 16, 100):
            x = cm.empty((rows, 128), f)
            (
                cm.ml.linear(x, q),
                cm.ml.linear(x, q, bias, activation="gelu", residual=cm.empty((rows, 256), f)),
            )
            if dtype != "int4" and q.zero_point is None:
                (
                    cm.ml.linear_quantized(x, q, bias),
                    cm.ml.linear_quantized(x, q, scale=cm.empty((), F32)),
                )
    cm.ml.linear_quantized(cm.empty((3, 128), f), cm.ml.quantize(cm.empty((255, 128), f), axis=0))
    cm.ml.scaled_matmul(
        cm.empty((64, 128), "int8"),
        cm.empty((128, 64), "int8"),
        cm.empty((), F32),
        cm.empty(64, F32),
        dtype=f,
    )
    for t in (cm.float8_e4m3, cm.float8_e5m2):
        a, b = cm.empty((64, 127), f).astype(t), cm.empty((127, 63), f).astype(t)
        cm.ml.scaled_matmul(a, b, cm.empty((), F32), cm.empty(63, F32), dtype=f)
        cm.ml.scaled_matmul(a, b, cm.empty((), F32), cm.empty(63, F32), cm.empty(63, f), dtype=f)
    for long in (1000, 40_000):
        cm.ml.linear_quantized(
            cm.empty((2, long), f), cm.ml.quantize(cm.empty((8, long), f), axis=0)
        )
    for t in (cm.float8_e4m3, cm.float8_e5m2):
        w.astype(t).astype(f)


def by_name(plan: Callable[..., None], new: Callable[..., Layout]) -> None:
    """Versions that planners leave to other layouts and to the simulator."""
    from cudamath.kernels.matmul import gemv_plan
    from cudamath.kernels.quantize import dispatch as quantize_dispatch
    from cudamath.kernels.quantize.problem import FORMS

    x, scale = new(64, 128, dtype=F32), new(64, dtype=F32)
    for form, (stored, _, _) in FORMS.items():
        values = new(64, 64 if form == "int4" else 128, dtype=stored)
        options: Any = {"form": form, "inner": 128, "version": "plain"}
        plan(functools.partial(quantize_dispatch.quantize, **options), x, scale)
        plan(functools.partial(quantize_dispatch.dequantize, dtype=BF16, **options), values, scale)
        plan(functools.partial(quantize_dispatch.quantize_row, form=form, version="plain"), x)
    for t in (F16, BF16):
        plan(
            gemv_plan.gemv_same,
            new(9, 128, dtype=t),
            new(256, 128, dtype=t),
            new(256, dtype=t),
        )


CALLS = [(f"quantized {t}", functools.partial(quantized, t)) for t in (F16, BF16, F32)]
