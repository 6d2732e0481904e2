"""Quantizing, dequantizing and products of quantized numbers in NumPy: the same integers as on a
GPU.

Scales (and zero points) are flat; `inner` says which element has which: see
kernels/quantize/quantize.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import compute_dtype, float8_e4m3, float8_e5m2
from . import linear as plain
from .matmul import matmul_int32

#: form -> (dtype it is stored in, lowest and highest stored number)
FORMS: dict[str, tuple[Any, float, float]] = {
    "int8": (np.int8, -128, 127),
    "int4": (np.uint8, 0, 15),
    "float8_e4m3fn": (float8_e4m3, -448, 448),
    "float8_e5m2": (float8_e5m2, -57344, 57344),
}


def _spread(x: np.ndarray, scale: np.ndarray, inner: int) -> np.ndarray:
    """x as (outer, channels, inner)."""
    return x.reshape(
        x.size // max(scale.size * inner, 1), scale.size, inner
    )  # NumPy infers no -1 of an empty array


def _stored(value: np.ndarray, zero: Any, form: str) -> np.ndarray:
    """x / scale, float32, rounded to what is stored: not packed yet."""
    dtype, lowest, highest = FORMS[form]
    with np.errstate(invalid="ignore"):
        if form.startswith("int"):
            value = np.where(np.isnan(value), np.float32(0), np.clip(value, -1024, 1024))
            return np.clip(np.rint(value) + np.float32(zero), lowest, highest).astype(dtype)
        return np.clip(value, np.float32(lowest), np.float32(highest)).astype(dtype)


def _zeros(zero: np.ndarray | None, form: str) -> Any:
    """Zero points as they are subtracted."""
    return (
        np.float32(8 if form == "int4" else 0) if zero is None else zero.astype(np.float32)[:, None]
    )


def quantize(
    x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None, *, form: str, inner: int
) -> np.ndarray:
    """Stored numbers of x."""
    with np.errstate(all="ignore"):
        value = _spread(np.ascontiguousarray(x).astype(np.float32), scale, inner) / scale[:, None]
    y = _stored(value, _zeros(zero, form), form).reshape(x.shape)
    return y[..., ::2] | y[..., 1::2] << 4 if form == "int4" else y


def dequantize(
    values: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray | None = None,
    *,
    form: str,
    inner: int,
    dtype: np.dtype,
) -> np.ndarray:
    """Values of stored numbers."""
    if form == "int4":
        values = np.stack([values & 15, values >> 4], -1).reshape(*values.shape[:-1], -1)
    with np.errstate(all="ignore"):
        y = (_spread(values.astype(np.float32), scale, inner) - _zeros(zero, form)) * scale[:, None]
        return y.reshape(values.shape).astype(dtype)


def quantize_row(x: np.ndarray, *, form: str) -> tuple[np.ndarray, np.ndarray]:
    """(stored numbers, scale of each row) of (m, n): the largest absolute number becomes the
    largest stored one."""
    with np.errstate(all="ignore"):
        x = x.astype(np.float32)
        scale = np.abs(x).max(-1, initial=0) / np.float32(7 if form == "int4" else FORMS[form][2])
        scale = np.where(scale == 0, np.float32(1), scale)
        return quantize(x, scale, form=form, inner=x.shape[1]), scale


def linear_quantized(
    x: np.ndarray,
    values: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray | None,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    *,
    form: str,
    group: int,
    activation: str,
) -> np.ndarray:
    """activation(x dequantize(values)^T + bias) + residual."""
    inner = group or values.size * (2 if form == "int4" else 1) // scale.size
    wide = compute_dtype(x.dtype)
    weight = dequantize(values, scale, zero, form=form, inner=inner, dtype=wide)
    others = [None if a is None else a.astype(wide, copy=False) for a in (bias, residual)]
    with np.errstate(over="ignore"):
        return plain.linear(
            x.astype(wide, copy=False), weight, *others, activation=activation
        ).astype(x.dtype, copy=False)


def scaled_matmul(
    a: np.ndarray,
    b: np.ndarray,
    scale_a: np.ndarray,
    scale_b: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    dtype: np.dtype,
) -> np.ndarray:
    """(a b) scale_a scale_b + bias: a (m, k), b (k, n), scales (1,) or (m,) and (1,) or (n,)."""
    with np.errstate(all="ignore"):
        sums = (
            matmul_int32(a, b)
            if a.dtype == np.int8
            else a.astype(np.float32) @ b.astype(np.float32)
        )
        y = sums.astype(np.float32) * (scale_a[:, None] * scale_b)
        return (y if bias is None else y + bias.astype(np.float32)).astype(dtype)


def linear_8_bits(
    x: np.ndarray,
    values: np.ndarray,
    scale: np.ndarray,
    own: np.ndarray | None,
    bias: np.ndarray | None,
    *,
    form: str,
) -> np.ndarray:
    """x, quantized by its own scale or row by row, times values^T."""
    rows = x.reshape(-1, x.shape[-1])
    stored, by = (
        quantize_row(rows, form=form)
        if own is None
        else (quantize(rows, own, form=form, inner=rows.size), own)
    )
    return scaled_matmul(stored, values.T, by, scale, bias, dtype=x.dtype).reshape(
        *x.shape[:-1], len(values)
    )
