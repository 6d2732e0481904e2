"""Answers and classes of errors of functions beside NumPy's: polynomials, `out=`, linear algebra,
selections, ranges and quantiles."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import cudamath as cm

RNG = np.random.default_rng(5)
M = np.arange(6.0).reshape(2, 3)
CUBE, WEIGHTS = RNG.random((3, 4, 5)).astype("f4"), RNG.random((3, 4, 5))
EYE, NIL = np.eye(3), np.zeros((2, 2))
EMPTY = np.zeros((0, 3), int)


def outcome(call: Any, m: Any, a: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call(m, a)
        except (TypeError, ValueError, IndexError, np.linalg.LinAlgError) as error:
            return error


def kind_of(error: Exception) -> type:
    """The class that a program names in `except`."""
    known = (np.linalg.LinAlgError, TypeError, IndexError, ValueError)
    return next(kind for kind in known if isinstance(error, kind))


def compare(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, Exception):
        assert isinstance(ours, kind_of(theirs)), f"{ours!r} where NumPy raises {theirs!r}"
        return
    assert not isinstance(ours, Exception), ours
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            compare(one, other)
        return
    if isinstance(theirs, np.poly1d):
        assert type(ours) is np.poly1d
        ours, theirs = ours.coeffs, theirs.coeffs
    theirs = np.asarray(theirs)
    host = ours.to_numpy() if isinstance(ours, cm.ndarray) else np.asarray(ours)
    assert (host.shape, host.dtype) == (theirs.shape, theirs.dtype)
    narrow = theirs.dtype.name in ("float32", "complex64", "float16")
    np.testing.assert_allclose(host, theirs, rtol=1e-5 if narrow else 1e-9, atol=1e-6)


def beside(call: Any) -> None:
    compare(outcome(call, cm, lambda x: cm.asarray(np.asarray(x))), outcome(call, np, np.asarray))


def written(name: str, x: np.ndarray, shape: tuple, dtype: str, **options: Any) -> Any:
    return lambda m, a: getattr(m, name)(a(x), out=a(np.zeros(shape, dtype)), **options)


# -------------------- polynomials

POLYNOMIALS = [
    *[
        lambda m, a, f=f, u=u, v=v: getattr(m, f)(u, v)
        for f in ("polyadd", "polysub", "polymul", "polydiv")
        for u, v in (
            ([1, 2.0], [1, 1]),
            (3, [1, 2, 3]),
            ([1, 2, 3], np.poly1d([1, 2])),
            (np.poly1d([1, 2]), 1),
            ([True, False], [1]),
            ([1, 2, 3, 4.0], [2, 0]),
        )
    ],
    lambda m, a: m.polyadd([], [1]),
    lambda m, a: m.polymul([], [1]),
    lambda m, a: m.polymul([0, 0], [1.0]),
    lambda m, a: m.polydiv([], [1]),
    lambda m, a: m.polyint(m.poly1d([1, 2]), k=3),
    lambda m, a: m.polyder(m.poly1d([1, 2, 3]), 2.0),
    lambda m, a: m.polyder([True, False, True]),
    lambda m, a: m.polyder([1, 2], -1),
    lambda m, a: m.polyval(m.poly1d([1, 2]), a(M)),
    lambda m, a: m.polyval(a(np.ones((2, 3))), a([1, 2, 3.0])),
    lambda m, a: m.polyval([], a([1, 2, 3])),
    lambda m, a: m.polyval(3, a([1, 2, 3])),
    lambda m, a: m.polyfit(a([1, 2, 3.0, 4]), a([1, 3, 2, 5.0]), 1.0),
    lambda m, a: m.polyfit(a([1, 2, 3.0, 4]), a([1, 3, 2, 5.0]), 1, full=True)[:4],
    lambda m, a: m.polyfit(a(M), a([1, 2]), 1),
    lambda m, a: m.polyfit(a([]), a([]), 1),
    lambda m, a: m.polyfit(a([1.0, 2]), a([1.0, 2, 3]), 1),
    lambda m, a: m.polyfit(a([1.0, 2]), a([1.0, 2]), -1),
    lambda m, a: m.polyfit(a([1.0, 2]), a([1.0, 2]), 1, w=a([1.0])),
    lambda m, a: m.roots(a(np.float32([1, 0]))),
    lambda m, a: m.roots([5]),
    lambda m, a: m.roots(m.poly1d([1, -3, 2])),
    lambda m, a: m.poly(a([True, False])),
    lambda m, a: m.poly(a(M)),
    lambda m, a: m.vander(a(np.float32([1, 2, 3])), 2, increasing=True),
]

# -------------------- out=

TOTALS = "sum prod mean var std max min any all nansum nanmean nanmax median nanmedian ptp".split()
NEWER = np.lib.NumpyVersion(np.__version__) >= "2.5.0"
#: Dtypes of `out=` for taken numbers: ours follow NumPy 2.5, before which wider ones were refused.
TAKEN = ("f4", "i8", "c16") if NEWER else ("f4", "i8")
OUTS = [
    *[
        written(name, (M + 1j if s == "c8" else M).astype(s), (3,), dtype, axis=0)
        for name in TOTALS
        for s, dtype in itertools.product(("f8", "f4", "i8", "c8"), ("i4", "f4", "f8", "c16", "?"))
    ],
    *[
        written(name, M.astype(s), (2, 3), dtype, axis=0)
        for name in ("cumsum", "cumprod", "nancumsum", "cumulative_sum")
        for s, dtype in itertools.product(("f8", "i8"), ("i4", "i8", "f4", "?"))
    ],
    *[
        written(name, M, (3,), dtype, axis=0)
        for name in ("argmax", "nanargmin")
        for dtype in ("i4", "i8", "f8")
    ],
    *[lambda m, a, d=d: m.take(a(M), [0, 1], out=a(np.zeros(2, d))) for d in TAKEN],
    *[
        lambda m, a, d=d: m.choose(a([0, 1, 0]), [a(M[0]), a(M[1])], out=a(np.zeros(3, d)))
        for d in ("f4", "i8", "c16")
    ],
    *[
        lambda m, a, d=d: m.compress([True, False], a(M), axis=0, out=a(np.zeros((1, 3), d)))
        for d in TAKEN
    ],
    *[
        lambda m, a, o=o: m.dot(a(EYE), a(EYE), out=a(o))
        for o in (np.zeros((3, 3)), np.zeros((3, 3), "f4"), np.zeros((2, 3)), np.zeros(9))
    ],
    lambda m, a: m.dot(a(EYE), a(EYE), out=a(np.zeros((3, 3))).T),
    lambda m, a: m.dot(a(EYE), a(EYE), out=a(np.zeros((6, 6)))[::2, ::2]),
    lambda m, a: m.add.reduce(a(M), axis=0, out=a(np.zeros(3, int))),
    lambda m, a: m.add.accumulate(a(M), out=a(np.zeros((2, 3), int))),
]

# -------------------- linear algebra

MATRIX_FUNCTIONS = (
    "det slogdet inv pinv eig eigvals eigh eigvalsh svd svdvals qr cond cholesky".split()
)
LINALG = [
    *[
        lambda m, a, f=f, x=x: getattr(m.linalg, f)(a(x))
        for f in MATRIX_FUNCTIONS
        for x in (np.ones(3), np.float16([1, 2]), np.array(2.0))
    ],
    lambda m, a: m.linalg.solve(a(NIL), a(np.empty((2, 0)))),
    lambda m, a: m.linalg.solve(a(EYE), a(np.empty((3, 0)))),
    lambda m, a: m.linalg.solve(a(np.ones(3)), a(np.ones(3))),
    lambda m, a: m.linalg.lstsq(a(np.ones(3)), a(np.ones(3))),
    lambda m, a: m.linalg.lstsq(a(RNG.random((4, 2)) * 0 + [[1.0, 2]] * 4), a(np.ones(4)))[2],
    lambda m, a: m.linalg.pinv(a(EMPTY)),
    lambda m, a: m.linalg.pinv(a(np.zeros((2, 0, 3)))),
    lambda m, a: m.linalg.qr(a(M), mode="raw"),
    lambda m, a: m.linalg.qr(a(np.arange(12.0).reshape(2, 3, 2) ** 2), mode="raw"),
    lambda m, a: m.linalg.qr(a(M), mode="foo"),
    lambda m, a: m.linalg.outer(a(M), a(M)),
    lambda m, a: m.linalg.outer(a([1, 2]), a([3.0, 4])),
    lambda m, a: m.tensordot(a(1.0), a(2.0)),
    lambda m, a: m.tensordot(a(M), a(M.T)),
]

# -------------------- selections


def put(x: np.ndarray, *arguments: Any, **options: Any) -> Any:
    def call(m: Any, a: Any) -> Any:
        y = a(x.copy())
        m.put(y, *arguments, **options)
        return y

    return call


SELECTIONS = [
    put(M, [0, 1], []),
    put(M, [True, False], [8.0, 9.0]),
    put(M, [0, 1, 2], [7.0, 8.0]),
    lambda m, a: m.choose(a([True, False]), [a([1, 2]), a([3, 4])]),
    lambda m, a: m.choose(a([0, 2]), [a([1, 2]), a([3, 4])]),
    lambda m, a: m.choose(a([0.0, 1]), [a([1, 2]), a([3, 4])]),
    lambda m, a: m.extract([True, False, True], a(np.arange(5))),
    lambda m, a: m.extract([True, False, True, False], a(np.arange(2))),
    lambda m, a: m.extract([True, False, False, False], a(np.arange(2))),
    lambda m, a: m.apply_along_axis(lambda v: v.sum(), 1, a(np.zeros((2, 0)))),
    lambda m, a: m.apply_along_axis(lambda v: v.sum(), 0, a(np.zeros((2, 0)))),
    lambda m, a: m.take_along_axis(a(M), a([[0.0]]), 1),
    lambda m, a: m.take(a([1, 2, 3]), a([True, False])),
    lambda m, a: m.delete(a(M), True),
    lambda m, a: m.delete(a(M), a([True, False]), 1),
    lambda m, a: m.partition(a([1.0, 2]), a([True])),
    lambda m, a: m.partition(a([1.0, 2]), a([[1]])),
    lambda m, a: m.partition(a([2.0, 1]), a(np.zeros(0, int))).shape,
    lambda m, a: m.correlate(a(1.0), a(2.0)),
    lambda m, a: m.less(a([1j, 2]), a([1, 2, 3])),
    lambda m, a: m.bitwise_and(a([1.0, 2]), a([1, 2, 3])),
    lambda m, a: m.unique(
        a([[np.nan, 1], [1, 2], [np.nan, 1], [1, 2]]), axis=0, return_counts=True
    ),
]

# -------------------- ranges, histograms, quantiles, vectors

#: NumPy 2.5 refuses vectors of the plane; here they stay, as zeros in the third place.
PLANES = [
    lambda m, a: m.cross(a(np.ones((3, 2))), a([1, 2.0])),
    lambda m, a: m.cross(a([[1, 2], [3, 4]]), a([1, 2, 3.0])),
]
if NEWER:
    PLANES.clear()

OTHERS = [
    *[
        lambda m, a, v=v: m.arange(*v)
        for v in ((3 + 3j,), (1 + 1j, 5 + 4j, 1 + 0.5j), (1j,), (0, 3, 1j))
    ],
    *[lambda m, a, n=n, t=t: m.arange(n, dtype=t) for n in (1, 2, 3) for t in (bool, "c8")],
    lambda m, a: m.arange(0j, 3 + 3j, dtype="f8"),
    *PLANES,
    lambda m, a: m.cross(a([1]), a([1, 2, 3.0])),
    *[
        lambda m, a, w=w: m.histogram(a([0, 1, 1, 2.0]), 3, weights=a(w))
        for w in (
            np.array([1, 2, 3 + 1j, 4], "c8"),
            np.array([1, 0, 1, 1], bool),
            np.float32([1, 2, 3, 4]),
        )
    ],
    lambda m, a: m.histogram2d(a([0, 1, 1, 2.0]), a([0, 1, 1, 2.0]), 3, weights=a([1, 2, 3j, 4])),
    lambda m, a: m.bincount(a(np.array([], int)), weights=a([])),
    lambda m, a: m.bincount([], minlength=3),
    lambda m, a: m.bincount(a([0, 1, 1]), weights=a(np.float32([1, 2, 3]))),
    lambda m, a: m.bincount(a([0, 1, 1]), weights=a([1j, 2, 3])),
    lambda m, a: m.interp(*[a(np.float32(x)) for x in ([1.5], [1, 2], [1, 2])]),
    lambda m, a: m.fft.irfft(a(np.float16([1, 2, 3]))),
    lambda m, a: m.fft.hfft(a(np.float16([1, 2, 3])), 5),
    *[
        lambda m, a, f=f, q=q, axis=axis, method=method: getattr(m, f)(
            a(CUBE), q, axis=axis, method=method
        )
        for f in ("quantile", "nanquantile")
        for q in (0.3, [0.1], [0, 1], [[0.1, 0.2], [0.3, 0.4]], np.full((2, 1, 2), 0.5))
        for axis in (None, 0, (0, 1))
        for method in ("linear", "lower", "hazen")
        if f == "quantile" or np.ndim(q) != 2  # NumPy orders the axes otherwise there
    ],
    lambda m, a: m.percentile(a(CUBE), [30, 50], axis=1),
    lambda m, a: m.percentile(a(CUBE), a([1j])),
    lambda m, a: m.quantile(a(CUBE), [0.3, 0.5], axis=1, weights=a(WEIGHTS), method="inverted_cdf"),
]


@pytest.mark.parametrize(
    "calls",
    [POLYNOMIALS, OUTS, LINALG, SELECTIONS, OTHERS],
    ids=["polynomials", "out", "linalg", "selections", "others"],
)
def test_beside_numpy(calls):
    failures = []
    for number, call in enumerate(calls):
        try:
            beside(call)
        except AssertionError as error:
            failures.append(f"call {number}: {error}"[:400])
    assert not failures, "\n".join(failures)
