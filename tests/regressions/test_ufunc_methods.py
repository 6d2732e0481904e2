"""Regressions of methods and options of ufuncs: each test failed on an earlier version."""

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
    # the first element stayed what it was, among bools
    *[
        lambda m, a, f=f: getattr(m, f).accumulate(a([[3, 0, 2], [0, 5, 0]]), axis=1)
        for f in ("logical_and", "logical_or", "logical_xor")
    ],
    lambda m, a: m.less.accumulate(a([True, False, True])),
    # the dtype of a reduction was not heeded
    *[
        lambda m, a, f=f: (
            getattr(m, f).reduce(a(CUBE), dtype="f8"),
            getattr(m, f).accumulate(a(CUBE.astype("i4")), 1, "i8"),
        )
        for f in ("maximum", "fmin", "remainder", "add")
    ],
    lambda m, a: m.bitwise_or.reduce(a(CUBE > 0), dtype="i8"),
    lambda m, a: m.maximum.reduce(a([1.5, 2.5]), dtype="i4"),
    lambda m, a: m.fmin.accumulate(a([2.5, 1.5]), dtype="i8"),
    lambda m, a: m.add.reduceat(a([1.5, 2.5]), [0, 1], dtype="i4"),
    lambda m, a: (
        m.logical_and.reduce(a(CUBE), dtype=bool),
        m.less.accumulate(a(CUBE > 0), dtype=bool),
    ),
    # an initial value that is no number of the result's dtype made another one of it, also where
    # that was requested
    *[
        lambda m, a, f=f, k=k: getattr(m, f).reduce(a(CUBE)[:, :k], (0, 1), initial=0)
        for f in ("fmax", "bitwise_or", "logical_and", "logical_or", "gcd")
        for k in (0, 3)
    ],
    lambda m, a: m.logical_and.reduce(a([1, 2]), initial=2),
    lambda m, a: m.logical_or.reduce(a(CUBE), keepdims=True, initial=1),
    # what NumPy lets a number be
    lambda m, a: m.add.reduce(a(3.5)),
    # along no axis, what comes first was forgotten, and with one element the dtype of results; all
    # bits of an unsigned dtype
    *[
        lambda m, a, f=f, i=i, x=x: getattr(m, f).reduce(
            a(x), axis=() if x.ndim else None, initial=i
        )
        for x in (np.array(2, "u2"), np.array([[3, 4]], "i1"), np.array([0.5, -2.0]))
        for f, i in (
            ("fmin", 1),
            ("copysign", -2),
            ("divide", 9),
            ("floor_divide", 9),
            ("hypot", 3),
            ("arctan2", 1),
        )
    ],
    *[
        lambda m, a, f=f: (
            getattr(m, f).reduce(a(np.array([5], "i8"))),
            getattr(m, f).accumulate(a(np.array([[7]], "u4")), 1),
        )
        for f in ("divide", "copysign", "hypot", "arctan2", "logaddexp")
    ],
    lambda m, a: m.divide.reduce(a([3, 2]), initial=np.nan),
    lambda m, a: m.copysign.reduce(a(5)),
    lambda m, a: m.bitwise_and.reduce(a(np.zeros((0, 2), "u2"))),
    lambda m, a: m.logical_xor.reduce(a(2), axis=None, initial=1j),
    *[
        lambda m, a, f=f, x=x, k=k: getattr(m, f).reduce(a(np.array(x)), k)
        for f in ("hypot", "gcd")
        for k in ((), 0, None)
        for x in ([[-2]], [[-2], [3]], -4)
    ],
    # elements left out of reductions by functions that are no sums
    *[
        lambda m, a, f=f, k=k: getattr(m, f).reduce(a(CUBE), k, where=a(CUBE > -3))
        for k in (1, None, (0, 2))
        for f in (
            "bitwise_or",
            "bitwise_and",
            "bitwise_xor",
            "logical_xor",
            "gcd",
            "hypot",
            "logaddexp",
        )
    ],
    *[
        lambda m, a, f=f: getattr(m, f).reduce(a(CUBE), 2, where=a(CUBE[:, :1] > 0), initial=2)
        for f in ("fmax", "fmin", "lcm")
    ],
    lambda m, a: m.bitwise_and.reduce(a(np.array([7, 3, 8], "u1")), where=a([True, True, False])),
]


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


@pytest.mark.parametrize("name", ["less", "equal", "greater_equal"])
def test_comparisons_follow_one_another_between_bools_only(device, name):
    for method in ("reduce", "accumulate"):
        for module in (np, cm):
            with pytest.raises(TypeError):
                getattr(getattr(module, name), method)(module.asarray([3, 1, 2]))


def test_bools_are_subtracted_at_positions(device):
    x = cm.asarray([1.0, 2.0, 3.0])
    cm.subtract.at(x, cm.asarray([0, 1, 0]), True)
    assert np.asarray(x).tolist() == [-1, 1, 3]


def test_extremes_of_bools_at_positions_are_of_bools(device):
    """-1 was True, and beside False the larger of them: numbers are compared, then converted."""
    for values in (-1, 2, -1.0, np.array([-1, 3])):
        for name in ("maximum", "minimum"):
            x, expected = cm.asarray([False, True]), np.array([False, True])
            getattr(cm, name).at(x, cm.asarray([0, 1]), values)
            getattr(np, name).at(expected, [0, 1], values)
            assert x.tolist() == expected.tolist()
    x = cm.asarray([False, True])
    cm.maximum.at(x, cm.asarray([0, 0]), 0)
    cm.minimum.at(x, cm.asarray([1]), cm.asarray([True]))
    assert x.tolist() == [False, True]


@pytest.mark.parametrize(
    ("own", "other"), [("u1", "i1"), ("i1", "u2"), ("i2", "i8"), ("u8", "i8"), ("i8", "u8")]
)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_at_positions_of_numbers_the_array_cannot_hold(device, name, own, other):
    """-3 was 253 among uint8, and so the larger one."""
    limits = np.iinfo(own)
    x = np.array([0, 5, 100, 7], own)
    values, places = (
        np.array([0, 3, np.iinfo(other).min, np.iinfo(other).max, 50, 6], other),
        np.array([0, 1, 2, 2, 3, 1]),
    )
    for key, given in ((places, values), (slice(None), values[1:5])):
        exact = x.astype(object)
        getattr(np, name).at(exact, key, given.astype(object))
        y = cm.asarray(x)
        getattr(cm, name).at(y, cm.asarray(key) if key is places else key, cm.asarray(given))
        np.testing.assert_array_equal(
            np.asarray(y), np.clip(exact, limits.min, limits.max).astype(own)
        )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["f4", "c16", "i8", "u8", "i2", "u1"])
@pytest.mark.parametrize(
    "values",
    [np.array([1, 255, 3], "u1"), np.array([1, -128, 127], "i1"), np.array([1, 2**31, 0], "u4")],
)
def test_what_is_subtracted_at_positions_is_negated_in_their_dtype(device, dtype, values):
    """Minus uint8(1) was 255, and minus int8(-128) itself."""
    x, expected = cm.asarray(np.array([5, 7], dtype)), np.array([5, 7], dtype)
    cm.subtract.at(x, cm.asarray([0, 1, 0]), cm.asarray(values))
    for place, value in zip(
        [0, 1, 0], values.astype(dtype), strict=True
    ):  # whole numbers modulo 2^n
        expected[place] = expected[place] - value
    assert np.asarray(x).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_fractions_are_not_lost_at_positions(device, name):
    """1.5 was taken for 1, where NumPy adds 1.5 and drops the fraction of the sum."""
    x, at = cm.asarray([3, 4, 5]), getattr(cm, name).at
    expected = np.array([3, 4, 5])
    for values in (1.5, np.float64(-1.5), np.array([1.5, 2.0, 2.5]), 2.0):
        at(x, cm.asarray([0, 1, 0]), values)
        getattr(np, name).at(expected, [0, 1, 0], values)
        assert np.asarray(x).tolist() == expected.tolist()
    with pytest.raises(TypeError, match="^add_at: values of float64 would lose"):
        cm.add_at(x, cm.asarray([0, 1]), 1.5)
    y = cm.asarray(np.array([250, 4], "u1"))
    getattr(cm, name).at(y, cm.asarray([0, 0]), cm.asarray([1, 2]))
    expected = np.array([250, 4], "u1")
    getattr(np, name).at(expected, [0, 0], np.array([1, 2], "u1"))
    assert np.asarray(y).tolist() == expected.tolist()


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
    # in place of unsigned numbers a Python number was refused
    *[
        lambda m, a, f=f, t=t, n=n: at(m, f, a(np.array([4, 3, 9], t)), n)
        for t in ("u1", "u4", "i2", "i8")
        for f in (
            "bitwise_or",
            "floor_divide",
            "power",
            "left_shift",
            "logical_and",
            "subtract",
            "gcd",
            "fmax",
            "add",
        )
        for n in (1, 2, [1, 2, 3])
    ],
    *[
        lambda m, a, f=f: at(m, f, a(np.array([4, 3, 9], "u8")), 2)
        for f in ("floor_divide", "power", "subtract", "fmin")
    ],
    *[
        lambda m, a, f=f, t=t: at(m, f, a(np.array([4, 3, 9], t)), 2)
        for t in ("f4", "f2", "c8")
        for f in ("divide", "add")
    ],
    lambda m, a: at(m, "logical_and", a(np.array([4, 3, 9], "u1")), 256),
    lambda m, a: at(m, "hypot", a(EIGHTHS), 2.0),
    # functions written by hand lacked the options of ufuncs
    lambda m, a: over(m, a([7, -7, 5])),
    *[
        lambda m, a, f=f, t=t, n=n: at(m, f, a(np.array([2, 3, 5], t)), n)
        for f in ("float_power", "ldexp")
        for t in ("f4", "f8")
        for n in (2, [1, 2, 3])
    ],
]


@pytest.mark.parametrize("call", REVIEWED_CALLS)
def test_results_agree_with_numpy(call, device):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = call(np, lambda x: np.array(x))
    agree(call(cm, lambda x: cm.asarray(np.array(x))), theirs)


#: Calls that are refused: (function, error, how its message begins).
REFUSED: list[tuple[Any, type[Exception], str]] = [
    # subtract.at spoke of add_at, and took a number that does not fit
    *[
        (lambda f=f, n=n: getattr(cm, f).at(cm.ones(3, "u1"), [0, 0], n), OverflowError, begins)
        for f, begins in (
            ("add", "add_at: "),
            ("subtract", "subtract.at: "),
            ("bitwise_or", "bitwise_or: Python integer"),
        )
        for n in (300, -1)
    ],
    (lambda: cm.subtract.at(cm.ones(3), 7, 1), IndexError, "subtract.at: "),
    # where a function had nothing to be applied to, nobody had asked for dtypes
    *[
        (
            lambda f=f, x=x, k=k: getattr(cm, f).reduce(cm.asarray(x), axis=k),
            TypeError,
            f"{f}.reduce: wants {wanted} arrays, got float64 of shape {np.shape(x)}",
        )
        for f, wanted in (("bitwise_or", "integer or bool"), ("gcd", "integer"))
        for x, k in (([[1.5, 2.5]], 0), ([[1.5, 2.5]], ()), (1.5, None), (np.zeros((0, 2)), 0))
    ],
    *[
        (
            lambda f=f: getattr(cm, f).accumulate(cm.asarray([[1j, 2]]), axis=0),
            TypeError,
            f"{f}.accumulate: wants ",
        )
        for f in ("hypot", "fmod", "bitwise_xor", "logaddexp")
    ],
    (
        lambda: cm.subtract.reduce(cm.asarray([[True]]), axis=0),
        TypeError,
        "subtract.reduce: wants numeric arrays, got bool",
    ),
]


@pytest.mark.parametrize(("call", "error", "begins"), REFUSED)
def test_invalid_calls_are_refused(call, error, begins, device):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(begins)


def test_numpys_ufuncs_pass_their_options_on(device):
    x, y, pair = cm.asarray(EIGHTHS), cm.zeros(3), (cm.zeros(3), cm.zeros(3))
    assert np.fabs(x, out=y, where=cm.asarray(KEPT)) is y and y.tolist() == [1.875, 0, 2.875]
    assert np.divmod(x, 2, out=pair)[1] is pair[1]
    assert [each.tolist() for each in pair] == [each.tolist() for each in np.divmod(EIGHTHS, 2)]
    np.float_power.at(y, [0, 0], 2)
    assert y.tolist() == [1.875**4, 0, 2.875]


@pytest.mark.parametrize("first", [False, True], ids=["new first", "out first"])
@pytest.mark.parametrize("name", "add multiply fmax arctan2 logaddexp copysign".split())
def test_plans_for_a_new_array_and_for_the_first_operand(name, first, device):
    """In turns, and for layouts that no call has met: each has its own plan."""
    for n in (211, 212) if first else (213, 214):
        host = np.random.default_rng(n).normal(size=n)
        other, function = cm.full(n, 0.5, dtype="float64"), getattr(cm, name)
        for turn in range(4):
            x = cm.asarray(host.copy())
            into = turn % 2 != first
            found = function(x, other, out=x) if into else function(x, other)
            expected = getattr(np, name)(host, 0.5)
            np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-14)
            assert (found is x) == into
            np.testing.assert_allclose(x.to_numpy(), expected if into else host, rtol=1e-14)
