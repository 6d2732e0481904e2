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
from ..core.typing import ArrayLike
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
    doc="Return the greatest common divisor, which is not negative; gcd(0, y) is |y|.",
    example="[12, -4], [20, 6]",
)
lcm = binary(
    "lcm",
    np.lcm,
    "lcm(x, y)",
    category=INTEGER,
    doc="Return the least common multiple, which is not negative; lcm(0, y) is 0.",
    example="[12, -4], [20, 6]",
)
bitwise_count = unary(
    "bitwise_count",
    np.bitwise_count,
    "popcount(x)",
    category=INTEGER_OR_BOOL,
    doc="Count the bits of the absolute value that are set, as uint8.",
    example="[7, -8]",
)


def _order(name: str, bitorder: str, device: Any) -> ndarray:
    """By how much each bit of a byte is shifted, in order."""
    if bitorder not in ("big", "little"):
        raise ValueError(f"{name}: bitorder is 'big' or 'little', got {bitorder!r}")
    shifts = np.arange(8, dtype=np.uint8)
    return asarray(shifts[::-1].copy() if bitorder == "big" else shifts, device=device)


def packbits(x: ArrayLike, /, axis: int | None = None, bitorder: str = "big") -> ndarray:
    """Pack eight elements into one byte each.

    A bit is set for an element that is not 0. Zeros fill the last byte.

    Parameters
    ----------
    x : array_like
        Integer or bool array.
    axis : int, optional
        Axis along which eight neighbours form a byte. None flattens `x` first.
    bitorder : str, default "big"
        "big": the first element is the highest bit. "little": the first element is the lowest bit.

    Returns
    -------
    ndarray
        Array of uint8 with ceil(n / 8) elements along the axis.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range, or the bit order is unknown.

    Notes
    -----
    The function is not differentiable.

    Examples
    --------
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
    x: ArrayLike, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> ndarray:
    """The bits of bytes, as an array of 0 and 1.

    Parameters
    ----------
    x : array_like
        Array of uint8.
    axis : int, optional
        Axis along which a byte becomes eight elements. None flattens `x` first.
    count : int, optional
        Number of bits to keep along the axis. Further bits are zeros, a negative number removes
        that many at the end, and None keeps all.
    bitorder : str, default "big"
        "big": the first element is the highest bit. "little": the first element is the lowest bit.

    Returns
    -------
    ndarray
        Array of uint8 with the elements 0 and 1.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range, or the bit order is unknown.

    Notes
    -----
    The function is not differentiable.

    Examples
    --------
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
