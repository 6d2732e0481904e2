"""The quick tests: which cases of which tests they are."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
import quick
from record_types import M, Row

ROWS = [Row(name, lambda xp, x: x, (M,), lambda x: x) for name in ("a", "b", "c", "d", "e")]


def case(test: str, **parameters: Any) -> Any:
    """What the rules see of a test."""
    return types.SimpleNamespace(
        path="file",
        parent="module",
        name=f"{test}[{parameters}]",
        originalname=test,
        callspec=types.SimpleNamespace(params=parameters),
    )


def chosen(rule: Any, cases: list[Any]) -> list[dict[str, Any]]:
    return [item.callspec.params for item in rule(cases)]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.dtype("f4"), "float32"),
        (np.float64, "float64"),
        ("bfloat16", "bfloat16"),
        ("f2", "float16"),
        ("i8", "int64"),
        ("bool", "bool"),
        ("b", None),
        ("cpu", None),
        ("float", None),
        (3, None),
        (None, None),
        (float, None),
    ],
)
def test_dtypes_are_known(value: Any, dtype: str | None) -> None:
    assert quick.dtype_of(value) == (dtype and np.dtype(dtype))


def test_one_dtype_of_each_case() -> None:
    cases = [
        case("test_values", device="cpu", row=row, dtype=dtype)
        for row in ROWS[:2]
        for dtype in ("float16", "float32", "float64")
    ]
    cases += [case("test_whole", row=ROWS[0], dtype=np.dtype(t)) for t in ("i4", "i8")]
    cases += [case("test_casts", a=a, b=b) for a in ("f2", "f4") for b in ("f2", "f4")]
    assert chosen(quick.in_float32, cases) == [
        {"device": "cpu", "row": ROWS[0], "dtype": "float32"},
        {"device": "cpu", "row": ROWS[1], "dtype": "float32"},
        {"row": ROWS[0], "dtype": np.dtype("i4")},  # there is none in float32
        {"a": "f4", "b": "f4"},
    ]


def test_few_cases_of_a_test_but_each_function() -> None:
    numbers = [case("test_numbers", n=n) for n in range(10)]
    rows = [case("test_rows", row=row) for row in ROWS]
    alone = [types.SimpleNamespace(path="file", parent="module", name="test_alone")]
    assert chosen(quick.spread, numbers) == [{"n": 0}, {"n": 4}, {"n": 9}]
    assert chosen(quick.spread, numbers[:3]) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert quick.spread(rows) == rows and quick.spread(alone) == alone


def test_what_compiles_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="compile GPU kernels"):
        try:
            quick.compile_nothing("kernel")
        except Exception:  # a test may take any error for an answer: not this one
            pass
