"""Regressions of creation of arrays: each test failed on an earlier version."""

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
    # integers beyond 2^53 went through float64
    *[
        lambda m, a, e=e: m.geomspace(*e, 5)
        for e in ((1j, 8j), (1 + 1j, -2), (np.float32(1), 8), (-1, -8))
    ],
    # whole numbers between arrays were cut off towards 0; a number widened the array beside it;
    # steps of nothing
    lambda m, a: m.linspace(a([-4, -3]), 3.5, 5, dtype="i4"),
    lambda m, a: m.linspace(a([0.5, -0.5]), -4, 7, dtype=int, axis=1),
    *[
        lambda m, a, t=t, e=e: m.linspace(a(np.array([1, 2], t)), e, 4)
        for t in ("f2", "f4", "c8", "i4", "u1")
        for e in (5, 3.5, 2j, np.float64(5), [5, 6])
    ],
    lambda m, a: m.linspace(5, a(np.array([1, 2], "f2")), 3, endpoint=False),
    # scans of a number, and in the dtype they are written in; bounds of bools; angles of small
    # whole numbers
    lambda m, a: m.arange(1, 7, None),
]


#: Functions of the module, of an array, and of what is a scalar of NumPy's and a 0-d array here:
#: neither can be looked up by.
OF_SCALARS = [
    lambda m, x, n: m.linspace(0, 1, n),
    lambda m, x, n: m.logspace(0, 2, n, endpoint=n < 3),
    lambda m, x, n: m.geomspace(n, 8, n),
    lambda m, x, n: m.eye(n, k=n),
    lambda m, x, n: m.array(5, ndmin=n),
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


@pytest.mark.parametrize("dtype", [">u2", ">i4", ">f8", np.dtype(">f4"), "<i4", "u1", np.int16])
def test_bytes_in_the_other_order(device, dtype, tmp_path):
    """The bytes were read in the machine's order, whatever was asked for."""
    given = np.array([1, 2, 300 % 256, 5], dtype)
    native = given.astype(given.dtype.newbyteorder("="))
    (tmp_path / "x").write_bytes(given.tobytes())
    for found in (
        cm.frombuffer(given.tobytes(), dtype),
        cm.fromfile(tmp_path / "x", dtype),
        cm.asarray(given),
    ):
        assert found.dtype == native.dtype and found.tolist() == native.tolist()
    if np.dtype(dtype).isnative:
        assert cm.asarray(native).view(dtype).tolist() == native.tolist()
    else:
        for name, call in {
            "view": lambda: cm.asarray(native).view(dtype),
            "astype": lambda: cm.asarray(native).astype(dtype),
            "asarray": lambda: cm.asarray([1, 2], dtype),
        }.items():
            with pytest.raises(TypeError, match=f"^{name}: arrays are in the machine's byte order"):
                call()


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
        lambda m, a, s=s: m.roll(a(np.arange(6).reshape(2, 3)), s)
        for s in ((1, 2), [1, -3], (), np.array([4, 5]), (7,))
    ],
    *[
        lambda m, a, k=k, s=s: m.meshgrid(
            a(np.arange(6).reshape(2, 3)).T, a([1, 2, 3]), a(5), indexing=k, sparse=s
        )
        for k in ("xy", "ij")
        for s in (True, False)
    ],
    # indices of dtypes that no range is made in; a diagonal that nothing is assigned to
    lambda m, a: m.linspace(1j, 2, 3, dtype="c8"),
    # imaginary parts are dropped, with a warning
    lambda m, a: m.linspace(1j, 2, 3, dtype="f4"),
    lambda m, a: m.linspace(a([1j]), 2, 3, dtype="f4"),
]


@pytest.mark.parametrize("call", REVIEWED_CALLS)
def test_results_agree_with_numpy(call, device):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = call(np, lambda x: np.array(x))
    agree(call(cm, lambda x: cm.asarray(np.array(x))), theirs)


def test_grids_between_given_numbers_are_not_rounded_to_the_data(device):
    """0.7 in float32 is less than the edge 0.7 in float64, which NumPy compares it with."""
    x = (np.arange(11) / 10).astype("f4")
    for limits in (
        [(0, 1), (0.0, 1.0)],
        [(0, 1), None],
        [(np.float32(0), np.float32(1)), None],
        None,
    ):
        for bins in (10, (10, 5), (10, np.linspace(0, 1, 6, dtype="f4"))):
            ours, *edges = cm.histogram2d(cm.asarray(x), cm.asarray(x), bins, range=limits)
            theirs, *bounds = np.histogram2d(x, x, bins, range=limits)
            np.testing.assert_array_equal(ours.to_numpy(), theirs)
            for a, b in zip(edges, bounds, strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a.to_numpy(), b)
