"""Special functions: ufuncs that Numba makes of the scalar functions of core/specs/special, each
when it is first needed. They compute in float64, whatever they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.specs.special.library import copied, scalar
from .lib.numba_cache import njit, vectorize


@functools.cache
def _compiled(function: Callable) -> Any:
    """A scalar function that others call."""
    return njit(copied(function, _compiled), error_model="numpy")


@functools.cache
def _ufunc(name: str) -> np.ufunc:
    function = scalar(name)
    numbers = ", ".join(["float64"] * function.__code__.co_argcount)
    return vectorize([f"float64({numbers})"])(copied(function, _compiled))


def __getattr__(name: str) -> np.ufunc:
    """The ufunc of a scalar function."""
    try:
        return _ufunc(name)
    except KeyError:
        raise AttributeError(name) from None
