"""Scalar functions as a GPU has them: in Python, in the form that kernels give them; or with every
product and sum that follows it rounded once, and functions that are off by as much as CUDA's."""

from __future__ import annotations

import ast
import ctypes
import functools
import inspect
import math
import textwrap
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from cudamath.core.specs.special.library import SHORT, copied, is_scalar
from cudamath.kernels.elementwise import special_functions

#: The largest errors of libdevice (CUDA 13.0) in units in the last place, beside mpmath at 3,000
#: numbers each. NVIDIA documents 1 to 2, erfc 5.
ULPS = {
    "exp": 0.82,
    "expm1": 1.0,
    "log": 0.52,
    "log1p": 1.36,
    "pow": 1.22,
    "sin": 1.22,
    "cos": 1.3,
    "tan": 1.49,
    "erf": 1.11,
    "erfc": 2.6,
    "sinh": 1.17,
    "cosh": 1.08,
    "tanh": 1.17,
    "atan": 1.5,
    "asin": 1.8,
    "atan2": 2.0,
}
_fma = ctypes.CDLL(None).fma
_fma.restype, _fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3


@functools.cache
def as_in_kernels(function: Callable, short: bool = False) -> Callable:
    """A scalar function as kernels have it; short: in those whose results are float32."""
    others = functools.partial(as_in_kernels, short=short)
    written = special_functions.straight(function, short)
    return copied(written, others, special_functions._Math(), SHORT if short else {})


class Contracted(ast.NodeTransformer):
    """a * b + c and a * b - c as one function, powers as another."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Pow):
            return self.call("_pow", node.left, node.right)
        if not isinstance(node.op, ast.Add | ast.Sub):
            return node
        minus = isinstance(node.op, ast.Sub)
        sides = (node.left, node.right, True), (node.right, node.left, False)
        for product, other, first in sides:
            if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
                a = product.left
                if minus and first:
                    other = ast.UnaryOp(ast.USub(), other)
                elif minus:
                    a = ast.UnaryOp(ast.USub(), a)
                return self.call("_fma", a, product.right, other)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        target = ast.parse(ast.unparse(node.target), mode="eval").body
        return self.visit(ast.Assign([node.target], ast.BinOp(target, node.op, node.value)))

    @staticmethod
    def call(name: str, *arguments: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


class DeviceMath:
    """Python's math, off at random by as much as a device may be."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def off(self, y: float, ulps: float) -> float:
        if not math.isfinite(y) or y == 0 or y in (1.0, -1.0):
            return y
        return y + float(self.rng.uniform(-ulps + 0.5, ulps - 0.5)) * math.ulp(y)

    def __getattr__(self, name: str) -> Any:
        function = getattr(math, name)
        if not callable(function):
            return function

        def rounded(*numbers: Any) -> float:
            try:
                y = function(*numbers)
            except (OverflowError, ValueError):
                with np.errstate(all="ignore"):
                    y = float(getattr(np, name)(*numbers))
            return self.off(y, ULPS[name]) if name in ULPS else y

        return rounded

    def pow(self, a: float, b: float) -> float:
        with np.errstate(all="ignore"):
            return self.off(float(np.float64(a) ** b), ULPS["pow"])


def of_device(function: Callable, seed: int) -> Callable:
    """The function, and those that it calls, as a device computes it."""
    device_math = DeviceMath(seed)

    @functools.cache
    def copy(scalar: Callable) -> Callable:
        tree = ast.parse(textwrap.dedent(inspect.getsource(scalar)))
        tree = ast.fix_missing_locations(Contracted().visit(tree))
        names = dict(scalar.__globals__)
        for name, value in names.items():
            if isinstance(value, types.FunctionType) and is_scalar(value):
                names[name] = lambda *a, value=value: copy(value)(*a)
        names |= {"math": device_math, "_pow": device_math.pow, "_fma": fused}
        exec(compile(tree, scalar.__name__, "exec"), names)
        return names[scalar.__name__]

    return copy(function)


def fused(a: float, b: float, c: float) -> float:
    return np.float64(_fma(a, b, c))
