"""Whole numbers and bits: divisors and multiples, bits counted, packed and unpacked; by NumPy's
names."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..core.array import ndarray, wrap
from ..core.asarray import asarray
from ..core.devices import CPU
from ..core.dispatch.checks import require
from ..core.dispatch.op import INTEGER, INTEGER_OR_BOOL
from ..core.shapes import as_integer, normalize_axis
from . import ufunc
from .elementwise import bitwise_and, bitwise_left_shift, bitwise_right_shift, not_equal
from .padding import pad
from .reduce import sum
from .shape import astype, expand_dims, moveaxis, ravel, reshape, span

__all__ = ["bitwise_count", "gcd", "lcm", "packbits", "unpackbits"]

unary = functools.partial(ufunc.unary, namespace=globals())
binary = functools.partial(ufunc.binary, namespace=globals())

gcd = binary(
    "gcd",
    np.gcd,
    "gcd(x, y)",
    category=INTEGER,
    doc="Greatest common divisor, never negative; gcd(0, y) is |y|.",
    example="[12, -4], [20, 6]",
)
lcm = binary(
    "lcm",
    np.lcm,
    "lcm(x, y)",
    category=INTEGER,
    doc="Least common multiple, never negative; lcm(0, y) is 0.",
    example="[12, -4], [20, 6]",
)
bitwise_count = unary(
    "bitwise_count",
    np.bitwise_count,
    "popcount(x)",
    category=INTEGER_OR_BOOL,
    doc="How many bits of the absolute value are set, as uint8.",
    example="[7, -8]",
)


def _order(name: str, bitorder: str, device: Any) -> ndarray:
    """By how much each bit of a byte is shifted, in order."""
    if bitorder not in ("big", "little"):
        raise ValueError(f"{name}: bitorder is 'big' or 'little', got {bitorder!r}")
    shifts = np.arange(8, dtype=np.uint8)
    return asarray(shifts[::-1].copy() if bitorder == "big" else shifts, device=device)


def packbits(x: Any, /, axis: int | None = None, bitorder: str = "big") -> ndarray:
    """Eight elements into one byte each: a set bit for what is not 0; the last byte is filled up
    with zeros.

    Args: x: integer or bool array; axis: along which eight neighbours make a byte, None ravels x
    first; bitorder: "big": the first element is the highest bit, "little": the lowest. Returns:
    uint8 array, ceil(n / 8) long along the axis. Raises: TypeError (dtype), ValueError (axis,
    bitorder). Not differentiable.

    >>> import cudamath as cm
    >>> cm.packbits([1, 0, 0, 0, 0, 0, 1, 1, 1]).tolist()
    [131, 128]
    """
    x = require("packbits", x, INTEGER_OR_BOOL)
    shifts = _order("packbits", bitorder, x.device)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis("packbits", axis, x.ndim)
    if x._layout.device == CPU:
        return wrap(np.packbits(x._data, axis, bitorder))  # type: ignore[call-overload]
    bits = moveaxis(astype(not_equal(x, 0), np.uint8), axis, -1)
    if more := -bits.shape[-1] % 8:
        bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, more)])
    bits = reshape(bits, (*bits.shape[:-1], bits.shape[-1] // 8, 8))
    return moveaxis(sum(bitwise_left_shift(bits, shifts), axis=-1, dtype=np.uint8), -1, axis)


def unpackbits(
    x: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> ndarray:
    """The bits of bytes, as an array of 0 and 1.

    Args: x: uint8 array; axis: along which a byte becomes eight elements, None ravels x first;
    count: how many bits to keep along the axis: more are zeros, negative: so many are left out at
    the end, None: all; bitorder: as for `packbits`. Returns: uint8 array. Raises: TypeError
    (dtype), ValueError (axis, bitorder). Not differentiable.

    >>> import cudamath as cm
    >>> cm.unpackbits(cm.asarray([131], dtype="uint8")).tolist()
    [1, 0, 0, 0, 0, 0, 1, 1]
    """
    x = require("unpackbits", x)
    if x.dtype != np.uint8:
        raise TypeError(f"unpackbits: wants uint8 arrays, got {x.dtype} of shape {x.shape}")
    shifts = _order("unpackbits", bitorder, x.device)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis("unpackbits", axis, x.ndim)
    x = expand_dims(moveaxis(x, axis, -1), axis=-1)
    bits = bitwise_and(bitwise_right_shift(x, shifts), 1)
    bits = reshape(bits, (*bits.shape[:-2], 8 * bits.shape[-2]))
    n = bits.shape[-1]
    count = n if count is None else as_integer("unpackbits", "count", count)
    if count > n:
        bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, count - n)])
    elif count < n:
        bits = span(bits, bits.ndim - 1, 0, count if count >= 0 else max(n + count, 0))
    return moveaxis(bits, -1, axis)
