"""Regressions of shapes, joins and padding: each test failed on an earlier version."""

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
    # order "K" read in C order
    *[
        lambda m, a, p=p: (
            m.ravel(a(CUBE).transpose(p), order="K"),
            a(CUBE).transpose(p).flatten("K"),
        )
        for p in ((1, 2, 0), (2, 1, 0), (0, 2, 1))
    ],
    lambda m, a: m.ravel(a(CUBE)[:, ::-1].transpose(2, 0, 1), order="K"),
    lambda m, a: m.ravel(m.flip(m.broadcast_to(a(CUBE), (2, 2, 3, 4)), 2), order="K"),
    lambda m, a: m.ravel(
        m.broadcast_to(a(CUBE).transpose(2, 1, 0)[:, None], (4, 3, 3, 2)), order="K"
    ),
    # no elements, read as others
    *[
        lambda m, a, s=s, t=t: a(np.zeros(s, "c8")).view(t)
        for s in ((0, 4), (3, 0), (0,), (2, 0, 6))
        for t in ("u1", "c16")
    ],
    # a float64 for NaN made float64 of all; integers met one another before they met the float
    *[
        lambda m, a, t=t, f=f: getattr(m, f)([a(np.ones(2, k)) for k in t])
        for f in ("concatenate", "stack")
        for t in (
            ("u1", "i1", "f2"),
            ("i2", "u2", "c8"),
            ("u2", "f4", "i2"),
            ("i1", "u2", "f2", "i4"),
        )
    ],
    # widths by axis; mirrored in value, too
    *[lambda m, a, w=w: m.pad(a(CUBE), w, "wrap") for w in ({}, {-1: (2, 1)}, {0: 1, 1: (0, 3)})],
    *[
        lambda m, a, k=k, w=w, t=t: m.pad(a(CUBE.astype(t)), w, k, reflect_type="odd")
        for k in ("reflect", "symmetric")
        for w in (1, ((0, 0), (5, 8), (0, 2)), ((9, 3), (0, 1), (17, 2)))
        for t in ("f4", "i8", "u1", "?")
    ],
    lambda m, a: m.pad(a([5.0]), 2, "reflect", reflect_type="odd"),
]


#: Functions of the module, of an array, and of what is a scalar of NumPy's and a 0-d array here:
#: neither can be looked up by.
OF_SCALARS = [
    lambda m, x, n: m.broadcast_to(x[0], (n, 4)),
    lambda m, x, n: x.reshape(n, -1),
    lambda m, x, n: x.reshape((-1, n)),
    lambda m, x, n: x.T.reshape((n, 6)),
    lambda m, x, n: m.reshape(x, (n, 6)),
    lambda m, x, n: m.reshape(x, m.stack([n, 3 * n])),
    lambda m, x, n: x.reshape(m.asarray([6, 2])),
    lambda m, x, n: x.T.reshape(np.array([4, -1])),
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


def test_shapes_that_are_none(device):
    for shape in (np.array([[3, 4]]), cm.asarray([3.0, 4.0]), (3, cm.asarray([4]))):
        with pytest.raises(TypeError, match="^reshape: shape must be"):
            cm.arange(12).reshape(shape)
    for wrong in (cm.asarray([1]), cm.asarray([1.0, 2.0]), "1"):
        with pytest.raises(TypeError, match="^var: correction must be a number"):
            cm.arange(12).var(ddof=wrong)


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


@pytest.mark.parametrize("name", ["split", "array_split"])
@pytest.mark.parametrize("places", [[-1], [1, -1], [-9], [-20, 3], [-3, -5], [40, -2], [3, 1]])
def test_places_from_the_end_are_found_again(device, name, places):
    """The second call cut before the array's beginning."""
    numbers = np.arange(24.0).reshape(12, 2)
    base = cm.asarray(np.concatenate([np.full((2, 2), np.nan), numbers]))
    for x, theirs, axis in (
        (base[2:], numbers, 0),
        (base[:1:-1], numbers[::-1], 0),
        (base[2:].T, numbers.T, 1),
    ):
        for _ in range(3):
            mine = getattr(cm, name)(x, places, axis)
            assert [y.tolist() for y in mine] == [
                y.tolist() for y in getattr(np, name)(theirs, places, axis)
            ]


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
    # several shifts of all; grids of what is no vector; modes by axis; a number along its only
    # axis, as NumPy sees it
    *[
        lambda m, a, k=k: m.ravel_multi_index((a([2, 1]), a([7, 0])), (3, 4), mode=k)
        for k in (("wrap", "clip"), ("raise", "clip"), ["clip", "wrap"])
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
    # numbers that the dtype asked for cannot hold
    *[
        (
            lambda k=k: cm.ravel_multi_index(([1], [2]), (3, 4), mode=k),
            ValueError,
            "ravel_multi_index: mode must be",
        )
        for k in (("wrap",), ("wrap", "raise", "clip"), ("wrap", "up"))
    ],
]


@pytest.mark.parametrize(("call", "error", "begins"), REFUSED)
def test_invalid_calls_are_refused(call, error, begins, device):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(begins)
