"""The user's scalar functions, before anybody compiles them."""

from __future__ import annotations

import types
from collections.abc import Callable

import numpy as np


def typed(function: Callable, dtype: np.dtype) -> Callable:
    """`function` with its float literals as numbers of this dtype: in float32, 0.5 must not make a
    float64."""
    if dtype != np.float32 or not isinstance(function, types.FunctionType):
        return function
    code = function.__code__
    constants = tuple([np.float32(c) if type(c) is float else c for c in code.co_consts])
    converted = types.FunctionType(
        code.replace(co_consts=constants),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    converted.__kwdefaults__ = function.__kwdefaults__
    return converted
