"""Regressions of indexing, selection and assignment: each test failed on an earlier version."""

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
    # what NumPy lets a number be
    lambda m, a: m.argwhere(a(3)),
    lambda m, a: m.argwhere(a(0)),
    # at the end of a table, of equal places another one than the last
    *[
        lambda m, a, t=t, k=k: m.interp(
            a(np.array([3, 0, 2, 4, -1], t)), a([0.0, 0, 1, 3, 3, 3]), a(np.arange(6) ** 2 * k)
        )
        for t in ("f4", "i4", "f8")
        for k in (1.5, 1j)
    ],
    # a float64 for NaN made float64 of all; integers met one another before they met the float
    lambda m, a: m.select(
        [a([True, False]), a([False, True])],
        [a(np.ones(2, "u1")), a(np.ones(2, "i1"))],
        np.float16(2),
    ),
    *[
        lambda m, a, t=t, n=n: m.r_[a(np.array([1, 2], t)), n, 2:4]
        for t in ("f4", "c8")
        for n in (0.5, 1, 1j)
    ],
    *[
        lambda m, a, t=t: (m.r_[a(np.ones(2, t)), 3, True], m.r_[1, a(np.ones(2, t)), [4]])
        for t in ("u1", "f2", "?")
    ],
    # numbers were rounded to the choice beside them before they met the others
    *[
        lambda m, a, k=k, n=n, t=t: m.select(
            [a([1, 0, 0]) > 0, a([0, 1, 0]) > 0], [a(np.ones(3, k)), a(np.ones(3, t))], n
        )
        for k, t in (("f8", "f4"), ("c16", "u1"), ("f4", "f2"), ("i8", "u2"))
        for n in (0.1, -1, 1e-30)
    ],
    lambda m, a: m.select([a([True, False])] * 2, [0.1, a(np.ones(2, "f4"))], a(np.ones(2))),
    # one position in a list takes all values
    *[
        lambda m, a, v=v, k=k: m.insert(a(CUBE), k, a(np.array(v)), axis=1)
        for v in (7, [[1], [2]], np.ones((2, 5, 4)), np.ones((1, 4)))
        for k in ([1], [-1], slice(2, 3), np.array([0, 1, 0]) > 0)
    ],
    lambda m, a: (
        m.insert(a([1, 2, 3]), [1], [7, 8]),
        m.insert(a([1, 2, 3]), [1], a(np.zeros(0, "i8"))),
    ),
    # dtypes of results
    lambda m, a: a(CUBE).compress([False, True], 1, a(np.zeros((2, 1, 4), CUBE.dtype))),
]


#: Functions of the module, of an array, and of what is a scalar of NumPy's and a 0-d array here:
#: neither can be looked up by.
OF_SCALARS = [
    lambda m, x, n: m.tril_indices(4, n),
    lambda m, x, n: m.diag_indices(3, n),
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
    "target, source",
    [
        ((0, 10, 2), (0, 5, 1)),
        ((4, 9, 1), (0, 10, 2)),
        ((9, 4, -1), (9, None, -2)),
        ((0, 10, 3), (1, 9, 2)),
        ((9, None, -3), (0, 4, 1)),
        ((1, 9, 1), (0, 8, 1)),
    ],
)
def test_what_is_assigned_is_read_before_it_is_written(device, target, source):
    """NumPy 2.4 does not look for an overlap of two vectors; the CPU's short way is NumPy's."""
    expected, x = np.arange(10.0), cm.arange(10.0, dtype="float64")
    expected[slice(*target)] = expected[slice(*source)].copy()
    x[slice(*target)] = x[slice(*source)]
    np.testing.assert_array_equal(x.to_numpy(), expected)


#: Values that NumPy takes or refuses: its own numbers are cast like Python's, arrays only where
#: nothing is lost.
VALUES = [
    1.5,
    2,
    -1,
    True,
    np.float64(1.5),
    np.float32(1.5),
    np.int64(3),
    np.array([2.5]),
    np.array([1, 2], "i4"),
    [1, 2],
    1j,
    1e300,
    float("nan"),
    300,
]


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "bool", "c8"])
def test_values_of_place_and_putmask(device, dtype):
    """NumPy's numbers were refused; Python's went into integers, and complex ones into real arrays,
    whatever was lost."""
    for name in ("place", "putmask"):
        for value in VALUES:

            def call(m, name=name, value=value):
                x = m.asarray(np.arange(9).reshape(3, 3).astype(dtype))
                mask = m.asarray(np.arange(9).reshape(3, 3) % 2 == 0)
                getattr(m, name)(
                    x, mask, m.asarray(value) if isinstance(value, np.ndarray) else value
                )
                return x

            with np.errstate(all="ignore"):
                try:
                    expected = call(np)
                except (TypeError, ValueError, OverflowError) as error:
                    with pytest.raises((TypeError, ValueError, OverflowError), match=f"^{name}: "):
                        call(cm)
                    assert error
                else:
                    np.testing.assert_array_equal(
                        call(cm).to_numpy(), expected, err_msg=f"{name} {value!r}"
                    )


def test_errors_of_what_is_written_name_the_function(device):
    x, row = cm.zeros((3, 3)), cm.broadcast_to(cm.zeros(3), (3, 3))
    for name, call in {
        "copyto": lambda: cm.copyto(x, cm.zeros((3, 4))),
        "vector_norm": lambda: cm.linalg.vector_norm(x, ord="x"),
        "fill_diagonal": lambda: cm.fill_diagonal(row, 1.0),
        "putmask": lambda: cm.putmask(row, x == 0, 1.0),
        "array": lambda: cm.array(1.0, ndmin="a"),
    }.items():
        with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
            call()
    assert (
        row.tolist() == [[0.0] * 3] * 3
    )  # the diagonal of a row that is repeated is no view that overlaps


def test_numbers_that_do_not_fit_are_not_inserted(device):
    """Of 300 became 44, of -1 255."""
    for module, words in ((np, None), (cm, "^insert: (300|-1) as uint8")):
        for value in (300, -1):
            with pytest.raises(OverflowError, match=words):
                module.insert(module.asarray(np.array([1, 2], "u1")), 0, value)
    assert (
        cm.insert(cm.asarray([1, 2]), 1, [2.75, 3]).tolist()
        == np.insert([1, 2], 1, [2.75, 3]).tolist()
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
    # numbers among choices widened the others, and whole numbers beside uint64 made float64 of it
    *[
        lambda m, a, t=t, n=n: m.choose(a([0, 1]), [a(np.array([2, 1], t)), n])
        for t in ("f2", "f4", "u1", "u8", "c8", "?")
        for n in (2.5, 1, True)
    ],
    lambda m, a: m.choose(a([1, 0]), [3, a(np.array([2**64 - 1, 5], "u8"))]),
    lambda m, a: m.choose(a([0, 1, 0]), [1, 2.5]),
    lambda m, a: m.choose(a([1, 0]), [np.float64(0.1), a(np.array([2, 1], "f4"))]),
    # bools are numbers, 0 and 1
    *[
        lambda m, a, k=k, i=i: (
            m.take(a(5), i, axis=k),
            m.repeat(a(5.5), 3, axis=k),
            m.repeat(a(5), [2], axis=k),
        )
        for k in (0, -1)
        for i in ([0, 0], -1)
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
    # with `where=` nobody had asked whether the dtype will do; and means dropped imaginary parts
    (
        lambda: cm.choose(cm.asarray([0, 1]), [cm.ones(2, "u1"), 300]),
        OverflowError,
        "choose: 300 as uint8",
    ),
    # numbers that the dtype asked for cannot hold
    *[
        (
            lambda f=f: getattr(cm, f)(cm.asarray(5), 0, axis=1),
            np.exceptions.AxisError,
            f"{f}: axis 1 is out of bounds",
        )
        for f in ("take", "repeat")
    ],
    # imaginary parts were dropped, or the error was Python's or NumPy's own
    (
        lambda: pow(cm.asarray([2]), 3, 5),
        TypeError,
        "pow: no power of arrays is taken modulo a number, got 5 for int64",
    ),
]


@pytest.mark.parametrize(("call", "error", "begins"), REFUSED)
def test_invalid_calls_are_refused(call, error, begins, device):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(begins)
