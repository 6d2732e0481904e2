"""Rows on the CPU: elementwise operations of 100,000 numbers beside NumPy, where the cost of a call
is still visible (issue 2: no slower from there up). The arguments are NumPy's arrays, shared with
cudamath without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .rows import Bind, everywhere, row

SIZE = 100_000
LARGER = 1_000_000
LIBRARIES = ("cudamath", "numpy")


def drawn(
    dtype: str, count: int, size: int
) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Arguments: normal numbers, whole ones from 1 to 99, or bits."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        kind = np.dtype(dtype).kind
        draw = {"f": lambda: rng.standard_normal(size), "b": lambda: rng.random(size) > 0.5}.get(
            kind, lambda: rng.integers(1, 100, size)
        )
        return tuple(draw().astype(dtype) for _ in range(count))

    return make


def function(name: str, *more: Any) -> Bind:
    """x, ... -> library.name(x, ..., *more)."""
    return lambda lib, *arrays: lambda: getattr(lib, name)(*arrays, *more)


def method(name: str, *more: Any) -> Bind:
    """x -> x.name(*more)."""
    return lambda lib, x: lambda: getattr(x, name)(*more)


class Case(NamedTuple):
    """An operation: what it is called in the tables, its number of arguments, and the call."""

    title: str
    operands: int
    bind: Bind


CASES = {
    "add": Case("a + b", 2, lambda lib, a, b: lambda: a + b),
    "subtract": Case("a - b", 2, lambda lib, a, b: lambda: a - b),
    "multiply": Case("a * b", 2, lambda lib, a, b: lambda: a * b),
    "divide": Case("a / b", 2, lambda lib, a, b: lambda: a / b),
    "greater": Case("a > b", 2, lambda lib, a, b: lambda: a > b),
    "equal": Case("a == b", 2, lambda lib, a, b: lambda: a == b),
    "and": Case("a & b", 2, lambda lib, a, b: lambda: a & b),
    "maximum": Case("maximum(a, b)", 2, function("maximum")),
    "arctan2": Case("arctan2(a, b)", 2, function("arctan2")),
    "negative": Case("-a", 1, lambda lib, a: lambda: -a),
    "plus": Case("a + 1", 1, lambda lib, a: lambda: a + 1),
    "inverse": Case("2 / a", 1, lambda lib, a: lambda: 2 / a),
    "positive": Case("a > 0", 1, lambda lib, a: lambda: a > 0),
    "not": Case("~a", 1, lambda lib, a: lambda: ~a),
    "clip": Case("clip(a, -1, 1)", 1, function("clip", -1, 1)),
    "copy": Case("a.copy()", 1, method("copy")),
    "single": Case("a.astype(float32)", 1, method("astype", "float32")),
    "double": Case("a.astype(float64)", 1, method("astype", "float64")),
    **{
        name: Case(f"{name}(a)", 1, function(name))
        for name in (
            "abs",
            "square",
            "isnan",
            "isfinite",
            "floor",
            "rint",
            "exp",
            "expm1",
            "sin",
            "cos",
            "tanh",
            "arctan",
        )
    },
}

MEASURED = {
    (
        "float32",
        SIZE,
    ): "add subtract multiply divide greater equal maximum arctan2 negative plus inverse positive "
    "clip copy "
    "double abs square isnan isfinite floor rint exp expm1 sin cos tanh arctan",
    ("float64", SIZE): "add multiply divide greater plus maximum abs exp tanh single",
    ("int32", SIZE): "add greater and plus positive single",
    ("int64", SIZE): "add multiply equal",
    ("bool", SIZE): "and not equal",
    ("uint8", SIZE): "add plus greater",
    ("float32", LARGER): "multiply greater negative plus sin",
}

for (dtype, size), names in MEASURED.items():
    for name in names.split():
        case = CASES[name]
        row(
            f"cpu_{name}_{dtype}_{size:.0e}".replace("+0", ""),
            "cpu",
            f"{case.title}, {dtype}, {size:,}",
            drawn(dtype, case.operands, size),
            everywhere(case.bind, *LIBRARIES),
            work=(case.operands + 1) * size * np.dtype(dtype).itemsize,
            unit="B",
        )
