"""Regressions of linear algebra: each test failed on an earlier version."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy_comparison import agree

import cudamath as cm

RNG = np.random.default_rng(7)


CUBE = RNG.integers(-9, 9, (2, 3, 4))


#: Functions of the module and of a function that makes its arrays.
CALLS = [
    # |-128| is not an int8: norms of integers took it for negative
    *[
        lambda m, a, o=o: m.linalg.norm(a(np.array([-128, 1, 7], "i1")), o)
        for o in (1, 3, 0, np.inf, -np.inf)
    ],
    lambda m, a: m.linalg.norm(a(np.array([[-128, 1], [100, 100]], "i1")), 1),
    # integers beyond 2^53 went through float64
    lambda m, a: m.vander(a(np.array([2**63, 1], "u8")), 2),
    # condition of nothing but zeros; constants of integration: none, or several
    lambda m, a: (
        m.linalg.cond(a(np.zeros((2, 2))), -2),
        m.linalg.cond(a(np.zeros((3, 2, 3))), -2),
    ),
    # dtypes of results
    *[
        lambda m, a, t=t, p=p: m.linalg.cond(a(np.array([[1, 2], [3, 5]], t)), p)
        for t in ("f4", "c8", "f8")
        for p in (None, 2, 1)
    ],
    lambda m, a: m.linalg.cond(a(np.array([[[1, 2], [2, 5]], [[1, 0], [0, 0]]], "f4"))),
    lambda m, a: m.linalg.multi_dot(
        [a(CUBE[0]), a(CUBE[1].T), a(CUBE[1])], out=a(np.zeros((3, 4), CUBE.dtype))
    ),
]


#: Functions of the module, of an array, and of what is a scalar of NumPy's and a 0-d array here:
#: neither can be looked up by.
OF_SCALARS = [
    lambda m, x, n: m.tensordot(x, x, n),
]


@pytest.mark.parametrize("call", OF_SCALARS)
def test_0d_arrays_serve_as_scalars(device, call):
    numbers = np.cos(np.arange(12.0)).reshape(3, 4)
    for _ in range(2):  # new, and seen before
        mine = call(cm, cm.asarray(numbers, copy=True), cm.max(cm.asarray([1, 2])))
        theirs = call(np, numbers, np.max([1, 2]))
        for got, expected in (
            zip(mine, theirs, strict=True) if isinstance(theirs, tuple) else [(mine, theirs)]
        ):
            assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-12)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_and_dtypes_of_numpy(device, call):
    mine, theirs = call(cm, lambda x: cm.asarray(x, copy=True)), call(np, np.asarray)
    for got, expected in (
        zip(mine, theirs, strict=True) if isinstance(theirs, tuple) else [(mine, theirs)]
    ):
        assert got.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(
            np.asarray(got), expected, rtol=1e-12 if got.dtype == np.float64 else 1e-6
        )


@pytest.mark.parametrize(
    "letters, shape",
    [("ii", (1, 3)), ("ii->i", (1, 0)), ("iij->j", (3, 1, 2)), ("...ii", (2, 3, 1))],
)
def test_a_diagonal_is_as_long_as_both_axes(device, letters, shape):
    """One of length 1 was broadcast."""
    for module in (np, cm):
        with pytest.raises(ValueError, match="fit|match"):
            module.einsum(letters, module.asarray(np.ones(shape)))
    with pytest.raises(ValueError, match="^einsum: term"):
        cm.einsum("ii,i->i", cm.ones((3, 1)), cm.ones(3))


def test_orders_of_norms_that_are_arrays(device):
    x = np.array([1.0, -2.0, 3.0])
    for order in (
        np.array(3),
        np.float32(2.5),
        np.int64(3),
        cm.asarray(3.0),
        cm.asarray(1),
        np.array(np.inf),
    ):
        for _ in range(2):
            np.testing.assert_allclose(
                float(cm.linalg.vector_norm(cm.asarray(x), ord=order)),
                np.linalg.vector_norm(x, ord=float(order)),
            )


EIGHTHS, KEPT = np.array([1.875, 2.125, 2.875], "f4"), np.array([True, False, True])


TURNED = np.array([1 + 2j, 3 - 1j, 0.5])


def at(m: Any, function: str, x: Any, values: Any) -> Any:
    """What `ufunc.at` leaves, where one position occurs twice."""
    getattr(m, function).at(x, [0, 2, 0], values)
    return x


def diagonal(m: Any, x: Any, values: Any, wrap: bool) -> Any:
    """What `fill_diagonal` leaves."""
    m.fill_diagonal(x, values, wrap)
    return x


def over(m: Any, x: Any) -> Any:
    """Quotients and remainders, the first of which are written into what both are of."""
    return m.divmod(x, 3, out=(x, None))


#: Functions of the module and of a function that makes its arrays, whose answers are NumPy's.
REVIEWED_CALLS = [
    # indices of dtypes that no range is made in; a diagonal that nothing is assigned to
    *[
        lambda m, a, v=v, w=w: diagonal(m, a(np.arange(8).reshape(4, 2)), v, w)
        for v in ([], np.zeros((0, 3)))
        for w in (True, False)
    ],
    lambda m, a: m.einsum("i,i", a(TURNED), a(EIGHTHS), dtype="c16"),
    # bools are numbers, 0 and 1
    *[lambda m, a, o=o: m.linalg.norm(a(KEPT), o) for o in (None, 0, 1, 2, 3, np.inf, -np.inf)],
    *[
        lambda m, a, o=o: m.linalg.norm(a([[True, True], [False, True]]), o)
        for o in (None, "fro", "nuc", 1, -1, 2, np.inf)
    ],
    lambda m, a: (m.linalg.vector_norm(a(KEPT)), m.linalg.matrix_norm(a(KEPT[None]))),
]


@pytest.mark.parametrize("call", REVIEWED_CALLS)
def test_results_agree_with_numpy(call, device):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = call(np, lambda x: np.array(x))
    agree(call(cm, lambda x: cm.asarray(np.array(x))), theirs)


#: Calls that are refused: (function, error, how its message begins).
REFUSED: list[tuple[Any, type[Exception], str]] = [
    # imaginary parts were dropped, or the error was Python's or NumPy's own
    (
        lambda: cm.einsum("i,i", cm.asarray(TURNED), cm.asarray(EIGHTHS), dtype="f4"),
        TypeError,
        "einsum: complex128 cannot become float32 by the rule 'same_kind'",
    ),
]


@pytest.mark.parametrize(("call", "error", "begins"), REFUSED)
def test_invalid_calls_are_refused(call, error, begins, device):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(begins)
