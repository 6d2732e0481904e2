"""Regressions of elementwise functions: each test failed on an earlier version."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy_comparison import agree
from simulated_gpu import simulated_gpu

import cudamath as cm

RNG = np.random.default_rng(7)


CUBE = RNG.integers(-9, 9, (2, 3, 4))


#: Functions of the module and of a function that makes its arrays.
CALLS = [
    # where= promoted the result with out= before the rule was asked
    lambda m, a: m.power(
        *a(np.array([[2, 3], [3, 1]], "u8")), out=a(np.array([7, 7], "i8")), where=a([True, False])
    ),
    # numbers beside logical functions were rounded first: 1e-300 to a float32 0, 300 to no uint8
    *[
        lambda m, a, f=f, t=t, n=n: (
            getattr(m, f)(a(np.array([0, 1, 3], t)), n),
            getattr(m, f)(n, a(np.array([0, 1, 3], t))),
        )
        for f in ("logical_and", "logical_or", "logical_xor")
        for t in ("u1", "f4", "c8")
        for n in (300, 1e-300, 0.0, 1e-300j)
    ],
    *[
        lambda m, a, n=n: m.logical_and(n, a(np.array([2, 0], "u1")), dtype="?")
        for n in (256, 2**40, 1e-300, 0.5, 0)
    ],
    *[
        lambda m, a, t=t: m.logical_xor(a(np.array([0, 1, 3], t)), 1e-300, out=a(np.zeros(3, t)))
        for t in ("f4", "u1")
    ],
    # weighted quantiles of integers went through float64; slopes took the coordinates' dtype
    *[
        lambda m, a, t=t, k=k: m.gradient(
            a(np.array([1, 4, 2, 7], t)), a([0.5, 1, 3, 3.5]), edge_order=k
        )
        for t in ("f4", "c8", "i4")
        for k in (1, 2)
    ],
    # scans of a number, and in the dtype they are written in; bounds of bools; angles of small
    # whole numbers
    *[
        lambda m, a, b=b: m.clip(a([True, False]), *b)
        for b in ((0, 2), (True, None), (0.5, None), (None, False), (-1, 1.5))
    ],
    # to thousands: multiples of 1 / 0.001 are none of 1000
    *[
        lambda m, a, t=t, k=k: m.round(a(np.array([1000.5, 60000, 15, 25, 1250, 12345], t)), k)
        for k in (-1, -2, -3, -4)
        for t in ("f2", "f4", "f8", "i4", "u2")
    ],
    # NaN where there is nothing
    *[
        lambda m, a, t=t: m.angle(a(np.array([1, 0, 3], t)), deg=True)
        for t in ("u1", "i1", "i2", "i8", "?", "f4")
    ],
]


#: Functions of the module, of an array, and of what is a scalar of NumPy's and a 0-d array here:
#: neither can be looked up by.
OF_SCALARS = [
    lambda m, x, n: m.gradient(x[0], edge_order=n),
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
            np.testing.assert_allclose(got.to_numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_and_dtypes_of_numpy(device, call):
    mine, theirs = call(cm, lambda x: cm.asarray(x, copy=True)), call(np, np.asarray)
    for got, expected in (
        zip(mine, theirs, strict=True) if isinstance(theirs, tuple) else [(mine, theirs)]
    ):
        assert got.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(
            got.to_numpy(), expected, rtol=1e-12 if got.dtype == np.float64 else 1e-6
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.logical_or.reduce(m.asarray(x), dtype="f8"),
        lambda m, x: m.divide.reduce(m.asarray(x.astype(int)), dtype="i8"),
        lambda m, x: m.logical_and(
            m.asarray(x), 1, out=m.zeros(3), where=m.asarray(x > 0), casting="no"
        ),
        lambda m, x: m.fmax(
            m.asarray(x.astype("i1")),
            1,
            out=m.zeros(3, dtype="i4"),
            where=m.asarray(x > 0),
            casting="no",
        ),
        lambda m, x: m.putmask(m.zeros(3, dtype="i1"), m.asarray(x > 0), m.asarray(x)),
        lambda m, x: m.insert(m.asarray(x.astype(int)), 0, 1 + 2j),
        lambda m, x: m.place(m.zeros(3, dtype="f4"), m.asarray(x > 0), m.asarray(x)),
    ],
)
def test_what_would_be_lost_without_a_word(device, call):
    x = np.array([1.5, -2.5, 300.25])
    for module, words in ((np, None), (cm, r"^\w+(\.\w+)?: ")):
        with pytest.raises(TypeError, match=words):
            call(module, x)


@pytest.mark.parametrize(
    "values, power", [("u1", 1.5), ("i8", 2.0), ("u2", 2j), ("u1", np.array([1, 2, 3]))]
)
def test_powers_in_place_lose_nothing(device, values, power):
    """They were cast to the array's dtype, whatever they were."""
    for module, error in ((np, TypeError), (cm, TypeError)):
        x = module.asarray(np.array([1, 2, 3], values))
        with pytest.raises(error):
            x **= power if module is np or not isinstance(power, np.ndarray) else cm.asarray(power)
    x = y = cm.asarray(np.array([1, 2, 3], values))
    x **= 2
    assert x is y and x.to_numpy().tolist() == [1, 4, 9]
    x **= x
    assert x.to_numpy()[:2].tolist() == [1, 4**4 % 256 if values == "u1" else 4**4]


@pytest.mark.parametrize("step", [2, 4, -4, 8])
@pytest.mark.parametrize("dtype", ["f4", "i4", "f8", "i8"])
def test_negative_in_place_of_some_places(device, dtype, step):
    """NumPy 2.4 reads others than these where they are 4 (of 4 bytes) or 8 (of 8 bytes) apart."""
    given = np.arange(1, 400).astype(dtype)
    expected, x = given.copy(), cm.asarray(given, copy=True)
    expected[::step] = -given[::step].copy()
    part = x[::step]
    assert cm.negative(part, out=part) is part
    np.testing.assert_array_equal(x.to_numpy(), expected)


def signed_zeros(m, dtype):
    """-0 with nothing, -0, or 0 added to it, by few sources and by many, copied and in place;
    gradients begin at 0."""
    x = m.asarray(
        np.full(4, complex(-0.0, -0.0)).astype(dtype)
        if dtype == "c8"
        else np.full(4, -0.0).astype(dtype)
    )
    found = []
    for places, values in (
        ([1, 2, 1], x[:3]),
        ([3], m.asarray(np.zeros(1, dtype))),
        ([0] * 40 + [2], x[[0] * 41]),
    ):
        y = x.copy()
        m.add.at(y, m.asarray(places), values)
        if m is np:
            z = y
        else:
            z = m.index_add(x, m.asarray(places), values)
        found += [y, z]
    return found


@pytest.mark.parametrize("dtype", ["f4", "f2", "c8", "f8"])
def test_minus_nothing_stays_minus_nothing(device, dtype):
    for mine, theirs in zip(signed_zeros(cm, dtype), signed_zeros(np, dtype), strict=True):
        mine = mine.to_numpy()
        for a, b in (
            ((mine.real, theirs.real), (mine.imag, theirs.imag))
            if dtype == "c8"
            else ((mine, theirs),)
        ):
            assert np.signbit(a).tolist() == np.signbit(b).tolist()
    slope = cm.grad(lambda x: -(x[[1, 1]] * 0.0).sum())(cm.asarray([1.0, 2.0, 3.0])).to_numpy()
    assert np.signbit(slope).tolist() == [False] * 3


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_parts_of_complex_numbers_are_rounded_to_what_they_print_as(dtype, device):
    """12 * (1 / 10) is 1.2000000000000002."""
    x = (RNG.integers(-900, 900, (2, 50)) / 8 * [[1], [1j]]).sum(0).astype(dtype)
    x[:3] = [complex(np.inf, 1.25), complex(0.25, np.nan), complex(-0.0, -0.0)]
    for decimals in (1, 2, -1, -2):
        both = cm.round(cm.asarray(x), decimals).to_numpy(), np.round(x, decimals)
        ours, numpys = (np.array([y.real, y.imag]) for y in both)
        np.testing.assert_array_equal(ours, numpys)
        there = ~np.isnan(numpys)
        np.testing.assert_array_equal(np.signbit(ours[there]), np.signbit(numpys[there]))


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_parts_of_complex_numbers_are_rounded_simulated(dtype, monkeypatch):
    x = (RNG.integers(-900, 900, (2, 50)) / 8 * [[1], [1j]]).sum(0).astype(dtype)
    with simulated_gpu(monkeypatch):
        for decimals in (1, -1):
            assert (
                cm.round(cm.asarray(x), decimals).to_numpy().tobytes()
                == np.round(x, decimals).tobytes()
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
    # with dtype= numbers were made int64 first, and then cast: 300 became 44, and 2**64 was refused
    lambda m, a: m.multiply(a([1.0, 2.0]), 2**64, dtype="f8"),
    lambda m, a: m.less(a(np.array([1, 2], "u1")), 300, dtype=bool),
    *[
        lambda m, a, t=t, n=n: (
            m.add(a(np.array([1, 2], "u1")), n, dtype=t),
            m.subtract(n, a(np.array([1, 2], "u1")), dtype=t),
        )
        for t in ("i4", "u2", "f2", "f4", "f8", "c8")
        for n in (300, True)
    ],
    lambda m, a: m.add(a([1, 2]), 2.5, dtype="i4", casting="unsafe"),
    lambda m, a: m.negative(3, dtype="f4"),
    lambda m, a: m.add(a([True, False]), 1, dtype=bool, casting="unsafe"),
    lambda m, a: m.add(1, 2, dtype="f4"),
    *[
        lambda m, a, n=n: m.logical_and(a(np.array([1, 2], "u1")), n, dtype=bool)
        for n in (256, 1e-300, 0)
    ],
    # functions written by hand lacked the options of ufuncs
    *[
        lambda m, a, f=f, t=t, k=k: getattr(m, f)(a(np.array([7.5, 7, 2], t)), **k)
        for f in ("fabs", "spacing", "modf")
        for t in ("f4", "f8", "i2", "u1")
        for k in ({"dtype": "f4"}, {"dtype": "f8", "casting": "safe"}, {"casting": "unsafe"})
    ],
    *[
        lambda m, a, f=f: getattr(m, f)(a(EIGHTHS), a(np.zeros(3, "f8")), where=a(KEPT))
        for f in ("fabs", "spacing")
    ],
    *[
        lambda m, a, k=k: m.float_power(a(EIGHTHS), 2, **k)
        for k in ({"dtype": "f8"}, {"dtype": "c16"}, {"casting": "safe"})
    ],
    lambda m, a: m.float_power(a([2, 3, 5]), a([1.5, 2, 3]), out=a(np.ones(3)), where=a(KEPT)),
    *[lambda m, a, t=t: m.divmod(a(np.array([7, -7, 9])), 4, dtype=t) for t in ("f4", "i2", "f8")],
    *[
        lambda m, a, f=f, n=n, q=q, r=r: getattr(m, f)(
            a(np.array([7.5, -7, 2])), *n, out=(a(np.ones(3, q)), a(np.ones(3, r))), where=a(KEPT)
        )
        for f, n, q, r in (
            ("divmod", (3,), "f4", "c16"),
            ("modf", (), "f8", "f4"),
            ("frexp", (), "f8", "i8"),
        )
    ],
    lambda m, a: m.divmod(a([7, -7]), 3, out=(None, a(np.zeros(2)))),
    lambda m, a: m.ldexp(a(EIGHTHS), 2, out=a(np.ones(3)), where=a(KEPT)),
    lambda m, a: m.ldexp(a(EIGHTHS), a([1, 2, 3]), out=a(np.ones(3)), where=a(KEPT)),
    *[
        lambda m, a, b=b, k=k: m.clip(a(np.array([1, 5, 9], "u1")), *b, **k)
        for b in ((2, 7), (None, 7), (2, 300), (-3, None))
        for k in ({"dtype": "f4"}, {"dtype": "u1"}, {"dtype": "i8", "casting": "safe"})
    ],
    lambda m, a: m.clip(a([1, 5, 9.5]), 2, 7, dtype="i4", casting="unsafe"),
    *[
        lambda m, a, b=b: m.clip(
            a(np.array([1, 5, 9])), *b, a(np.zeros(3)), where=a(KEPT), dtype="f4"
        )
        for b in ((2, 7), (2, None))
    ],
    # indices of dtypes that no range is made in; a diagonal that nothing is assigned to
    *[
        lambda m, a, s=s, t=t: m.indices(s, dtype=t)
        for s in ((2,), (2, 1), (0, 2), ())
        for t in ("c8", "c16", "?", "f2", "i1")
    ],
    # bools are numbers, 0 and 1
    lambda m, a: (
        m.trapezoid(a(KEPT)),
        m.trapezoid(a(KEPT), a([1, 3, 4])),
        m.trapezoid(a([1.0, 2, 4]), a(KEPT)),
    ),
]


@pytest.mark.parametrize("call", REVIEWED_CALLS)
def test_results_agree_with_numpy(call, device):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = call(np, lambda x: np.array(x))
    agree(call(cm, lambda x: cm.asarray(np.array(x))), theirs)


#: Calls that are refused: (function, error, how its message begins).
REFUSED: list[tuple[Any, type[Exception], str]] = [
    # numbers that the dtype asked for cannot hold
    *[
        (
            lambda n=n, k=k: cm.add(cm.ones(2, "u1"), n, dtype="u1", **k),
            OverflowError,
            f"add: Python integer {n} out of bounds",
        )
        for n in (300, -1)
        for k in ({}, {"casting": "unsafe"}, {"where": KEPT[:2]})
    ],
    (lambda: cm.add(300, 1, dtype="u1"), OverflowError, "add: 300 as uint8"),
    *[
        (
            lambda f=f: getattr(cm, f)(cm.asarray(EIGHTHS), dtype="i4"),
            TypeError,
            f"{f}: wants a floating-point dtype, got int32",
        )
        for f in ("fabs", "spacing", "modf")
    ],
    (
        lambda: cm.fabs(cm.ones(2), dtype="f4", casting="safe"),
        TypeError,
        "fabs: cannot compute in dtype float32",
    ),
    (lambda: cm.modf(cm.ones(2), casting="wild"), ValueError, "modf: casting must be"),
    (
        lambda: cm.float_power(cm.ones(2), 2, dtype="f4"),
        TypeError,
        "float_power: is computed in float64 or complex128",
    ),
    (
        lambda: cm.float_power(cm.asarray(TURNED), 2, dtype="f8"),
        TypeError,
        "float_power: cannot compute in dtype float64",
    ),
    (
        lambda: cm.clip(cm.ones(2), 0, 1, dtype="i4"),
        TypeError,
        "clip: cannot compute in dtype int32",
    ),
    *[
        (
            lambda f=f, k=k: getattr(cm, f)(cm.ones(2), *k, out=cm.ones(2)),
            TypeError,
            f"{f}: out must be a tuple of two arrays",
        )
        for f, k in (("divmod", (2,)), ("modf", ()), ("frexp", ()))
    ],
    (lambda: cm.frexp(cm.ones(2), out=(None, cm.zeros(2, "?"))), TypeError, "frexp: "),
    # NumPy's arrays cannot be written into together with ours, or by our functions
    (
        lambda: cm.add(cm.ones(2), 1, out=np.zeros(2)),
        TypeError,
        "add: out must be an ndarray of this package, got numpy",
    ),
    (
        lambda: np.divmod(cm.ones(2), 1, out=(None, np.zeros(2))),
        TypeError,
        "divmod: out must be an ndarray of this package",
    ),
]


@pytest.mark.parametrize(("call", "error", "begins"), REFUSED)
def test_invalid_calls_are_refused(call, error, begins, device):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(begins)


def test_nothing_but_infinity_is_close_to_infinity(device):
    """The tolerance of an infinite number is infinite: any number passed."""
    cm.testing.assert_close(
        cm.asarray([np.inf, -np.inf, np.nan]), [np.inf, -np.inf, np.nan], rtol=1e-6
    )
    for wrong in (1.0, -np.inf, np.nan):
        with pytest.raises(AssertionError, match="1 of 1 elements differ"):
            cm.testing.assert_close(cm.asarray([wrong]), [np.inf], rtol=1e-6)
