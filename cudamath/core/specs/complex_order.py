"""The order of complex numbers: by real part, then by imaginary part, with NumPy's rules for NaN.

    x < y   where the real parts are equal, the imaginary parts decide;
            elsewhere the real parts decide, and a NaN among the imaginary parts makes it false
    sorted  5+1j, 1+nan j, nan+1j, nan+nan j: numbers without a NaN come first, then those whose
            imaginary part alone is NaN, then the others, each by the part that is a number

Functions are plain Python functions of numbers; a GPU's side hands in the decorator. They need
neither the compiler's complex comparison, which has only == and !=, nor a branch for real numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class ComplexOrder(NamedTuple):
    """Device functions (x, y) -> bool of two complex numbers."""

    less: Callable
    less_equal: Callable
    before: Callable  # whether x comes before y in a sorted array


def complex_order(device: Callable) -> ComplexOrder:
    """The comparisons, as functions that `device` decorates."""

    @device
    def less(x, y):
        if x.real == y.real:
            return x.imag < y.imag
        return x.real < y.real and x.imag == x.imag and y.imag == y.imag

    @device
    def less_equal(x, y):
        if x.real == y.real:
            return x.imag <= y.imag
        return x.real < y.real and x.imag == x.imag and y.imag == y.imag

    @device
    def rank(x):  # how late a number comes for its NaNs
        return (2 if x.real != x.real else 0) + (1 if x.imag != x.imag else 0)

    @device
    def before(x, y):
        i, j = rank(x), rank(y)
        if i != j:
            return i < j
        if i >= 2:  # among those without a real part the imaginary parts decide, if there are any
            return x.imag < y.imag
        if i == 1:
            return x.real < y.real
        return x.real < y.real or (x.real == y.real and x.imag < y.imag)

    return ComplexOrder(less, less_equal, before)


def at_least(device: Callable, kind: str, largest: bool) -> Callable:
    """The device function (x, y) -> whether x is as large as y, or as small unless `largest`, for
    numbers of a dtype of this kind; false where either is NaN."""
    return _comparison(device, kind, largest, equal=True)


def beyond(device: Callable, kind: str, largest: bool) -> Callable:
    """The device function (x, y) -> whether x is larger than y, or smaller unless `largest`, for
    numbers of a dtype of this kind; false where either is NaN."""
    return _comparison(device, kind, largest, equal=False)


def _comparison(device: Callable, kind: str, largest: bool, equal: bool) -> Callable:
    if kind == "c":
        order = complex_order(device)
        below = order.less_equal if equal else order.less

        def above(x, y):
            return below(y, x)

        return device(above) if largest else below
    sign = (">" if largest else "<") + ("=" if equal else "")
    return device(_REAL[sign])


def _greater(x, y):
    return x > y


def _greater_equal(x, y):
    return x >= y


def _less(x, y):
    return x < y


def _less_equal(x, y):
    return x <= y


_REAL = {">": _greater, ">=": _greater_equal, "<": _less, "<=": _less_equal}
