"""What NumPy's users are used to: its smaller functions, `out=`, `where=`, `order=`, its protocols;
the answers are NumPy's."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_comparison import COMPLEX, CUBE, HOLES, LINE, MATRIX, VECTOR, WHOLE, WILD, agree, narrow
from strategies import views

import cudamath as cm

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

Call = Callable[[Any, Callable[[Any], Any]], Any]
#: name -> calls (xp, a): xp is NumPy or cudamath, `a` makes an array of the library's from a NumPy
#: array.
CALLS: dict[str, list[Call]] = {
    "angle": [lambda xp, a: xp.angle(a(COMPLEX)), lambda xp, a: xp.angle(a(CUBE), deg=True)],
    "outer of functions without a card": [
        lambda xp, a: xp.ldexp.outer(a(VECTOR), a(WHOLE[0])),
        lambda xp, a: list(xp.divmod.outer(a(VECTOR), a(LINE[1:]))),
        lambda xp, a: xp.float_power.outer(a(LINE), a(WHOLE)),
    ],
    "append": [
        lambda xp, a: xp.append(a(MATRIX), a(CUBE)),
        lambda xp, a: xp.append(a(MATRIX), a(MATRIX[:2]), axis=0),
    ],
    "apply_along_axis": [
        lambda xp, a: xp.apply_along_axis(lambda v: v[:2] * v[-1], 1, a(CUBE)),
        lambda xp, a: xp.apply_along_axis(lambda v: v.sum(), 0, a(CUBE)),
        lambda xp, a: xp.apply_along_axis(lambda v: xp.outer(v, v), 0, a(MATRIX)),
    ],
    "apply_over_axes": [lambda xp, a: xp.apply_over_axes(xp.sum, a(CUBE), (0, -1))],
    "array_equiv": [
        lambda xp, a: xp.array_equiv(a(MATRIX), a(np.stack([MATRIX] * 2))),
        lambda xp, a: xp.array_equiv(a(MATRIX), a(CUBE)),
        lambda xp, a: xp.array_equiv(a(VECTOR), a(LINE)),
    ],
    "atleast_3d": [
        lambda xp, a: [xp.atleast_3d(a(x)) for x in (CUBE[0, 0, 0], VECTOR, MATRIX, CUBE)]
    ],
    "average": [
        lambda xp, a: xp.average(a(CUBE), axis=(0, 2)),
        lambda xp, a: xp.average(a(MATRIX), 0, a(VECTOR**2)),
        lambda xp, a: xp.average(a(MATRIX), weights=a(MATRIX**2), returned=True),
        lambda xp, a: xp.average(a(WHOLE), axis=1, weights=a(WHOLE + 1), keepdims=True),
    ],
    "asanyarray": [lambda xp, a: xp.asanyarray(a(CUBE))],
    "diagflat": [lambda xp, a: xp.diagflat(a(MATRIX), -1)],
    "ascontiguousarray": [
        lambda xp, a: xp.ascontiguousarray(a(CUBE).T),
        lambda xp, a: xp.ascontiguousarray(a(np.array(2.0))),
    ],
    "asfortranarray": [lambda xp, a: xp.asfortranarray(a(CUBE))],
    "bartlett": [lambda xp, a: [xp.bartlett(m) for m in (0, 1, 2, 7)]],
    "blackman": [lambda xp, a: xp.blackman(8)],
    "hamming": [lambda xp, a: [xp.hamming(m) for m in (0, 1, 9)]],
    "hanning": [lambda xp, a: [xp.hanning(m) for m in (1, 9)]],
    "diag_indices_from": [lambda xp, a: xp.diag_indices_from(a(np.zeros((3, 3, 3))))],
    "tril_indices_from": [lambda xp, a: xp.tril_indices_from(a(MATRIX), 1)],
    "triu_indices_from": [lambda xp, a: xp.triu_indices_from(a(MATRIX), -1)],
    "frombuffer": [lambda xp, a: xp.frombuffer(bytes(range(24)), "int32", 2, 8)],
    "fromfunction": [
        lambda xp, a: xp.fromfunction(lambda i, j: i * 2 + j, (3, 2)),
        lambda xp, a: xp.fromfunction(lambda i: i, (3,), dtype=int),
    ],
    "fromiter": [lambda xp, a: xp.fromiter((i * i for i in range(5)), float)],
    "polyval": [
        lambda xp, a: xp.polyval(a(VECTOR), a(CUBE)),
        lambda xp, a: xp.polyval(a(WHOLE[0]), a(WHOLE)),
    ],
    "polyder": [
        lambda xp, a: [xp.polyder(a(LINE), m) for m in (0, 1, 2, 6)],
        lambda xp, a: xp.polyder(a(WHOLE[0])),
    ],
    "polyint": [lambda xp, a: [xp.polyint(a(LINE), m) for m in (0, 1, 3)]],
    "pad": [
        lambda xp, a, m=m: xp.pad(a(CUBE), ((1, 2), (0, 1), (3, 0)), mode=m)
        for m in (
            "edge",
            "reflect",
            "symmetric",
            "wrap",
            "maximum",
            "minimum",
            "mean",
            "median",
            "linear_ramp",
        )
    ]
    + [
        lambda xp, a: xp.pad(a(MATRIX), 1, constant_values=((1, 2), (3, 4))),
        lambda xp, a: xp.pad(a(WHOLE), 2, mode="mean"),
        lambda xp, a: xp.pad(a(MATRIX), 2, mode="maximum", stat_length=2),
        lambda xp, a: xp.pad(a(WHOLE), 2, mode="linear_ramp", end_values=9),
        lambda xp, a: xp.pad(a(WHOLE - 20), 3, mode="linear_ramp", end_values=-3),
    ],
    "block": [
        lambda xp, a: xp.block([[a(MATRIX), a(MATRIX[:, :1])], [a(np.ones((1, 6)))]]),
        lambda xp, a: xp.block([a(VECTOR), a(VECTOR)]),
        lambda xp, a: xp.block(a(MATRIX)),
    ],
    "choose": [
        lambda xp, a: xp.choose(a(WHOLE), a(CUBE[:, :3, :4])),
        lambda xp, a: xp.choose(a(WHOLE * 3 - 2), [a(VECTOR), a(WHOLE), 7.0], mode="wrap"),
        lambda xp, a: xp.choose(a(WHOLE * 3 - 2), [a(VECTOR), a(VECTOR * 2)], mode="clip"),
    ],
    "column_stack": [lambda xp, a: xp.column_stack([a(VECTOR), a(MATRIX), a(VECTOR)])],
    "compress": [
        lambda xp, a: xp.compress([True, False, True], a(CUBE), axis=1),
        lambda xp, a: xp.compress(a(VECTOR > 0), a(MATRIX)),
    ],
    "corrcoef": [
        lambda xp, a: xp.corrcoef(a(MATRIX)),
        lambda xp, a: xp.corrcoef(a(COMPLEX), rowvar=False),
    ],
    "cov": [
        lambda xp, a: xp.cov(a(MATRIX)),
        lambda xp, a: xp.cov(a(MATRIX), a(MATRIX[::-1] ** 2), ddof=0),
        lambda xp, a: xp.cov(a(MATRIX), aweights=a(np.arange(1.0, 6)), fweights=a(np.arange(1, 6))),
        lambda xp, a: xp.cov(a(VECTOR)),
        lambda xp, a: xp.cov(a(WHOLE), rowvar=False, bias=True),
    ],
    "delete": [
        lambda xp, a: xp.delete(a(CUBE), 1, axis=1),
        lambda xp, a: xp.delete(a(CUBE), [0, -1], axis=2),
        lambda xp, a: xp.delete(a(MATRIX), slice(None, None, 2)),
        lambda xp, a: xp.delete(a(VECTOR), []),
    ],
    "diag_indices": [lambda xp, a: xp.diag_indices(3, 3)],
    "divmod": [lambda xp, a: xp.divmod(a(CUBE), 1.5), lambda xp, a: xp.divmod(a(WHOLE - 1), 2)],
    "dsplit": [lambda xp, a: xp.dsplit(a(CUBE), [1, 3])],
    "dstack": [
        lambda xp, a: xp.dstack([a(MATRIX), a(CUBE[0])]),
        lambda xp, a: xp.dstack([a(VECTOR), a(VECTOR)]),
    ],
    "extract": [lambda xp, a: xp.extract(a(CUBE > 1), a(CUBE))],
    "fabs": [lambda xp, a: xp.fabs(a(CUBE)), lambda xp, a: xp.fabs(a(WHOLE - 1))],
    "fix": [lambda xp, a: xp.fix(a(CUBE))],
    "fliplr": [lambda xp, a: xp.fliplr(a(CUBE))],
    "flipud": [lambda xp, a: xp.flipud(a(CUBE))],
    "float_power": [
        lambda xp, a: xp.float_power(a(WHOLE + 1), -2),
        lambda xp, a: xp.float_power(a(CUBE**2 + 1), a(VECTOR[0])),
    ],
    "geomspace": [
        lambda xp, a: xp.geomspace(1, 256, 9),
        lambda xp, a: xp.geomspace(-8.0, -1, 4, endpoint=False),
        lambda xp, a: xp.geomspace(a(np.array([1.0, 2])), a(np.array([8.0, 9])), 4, axis=-1),
    ],
    "hsplit": [lambda xp, a: xp.hsplit(a(MATRIX), [2]), lambda xp, a: xp.hsplit(a(VECTOR), 2)],
    "indices": [lambda xp, a: xp.indices((2, 3)), lambda xp, a: xp.indices((2, 3), sparse=True)],
    "insert": [
        lambda xp, a: xp.insert(a(MATRIX), 2, 9.0, axis=1),
        lambda xp, a: xp.insert(a(VECTOR), [0, 4, 1], [7.0, 8.0, 9.0]),
        lambda xp, a: xp.insert(a(MATRIX), 1, a(VECTOR), axis=1),
        lambda xp, a: xp.insert(a(MATRIX), [1, 1], a(MATRIX[:, :2]), axis=1),
        lambda xp, a: xp.insert(a(VECTOR), slice(None, None, 2), 0.5),
        lambda xp, a: xp.insert(a(MATRIX), -1, 1.0),
    ],
    "iscomplex": [
        lambda xp, a: xp.iscomplex(a(COMPLEX * (MATRIX > 0))),
        lambda xp, a: xp.iscomplex(a(MATRIX)),
    ],
    "iscomplexobj": [lambda xp, a: xp.iscomplexobj(a(COMPLEX))],
    "isneginf": [lambda xp, a: xp.isneginf(a(WILD)), lambda xp, a: xp.isneginf(a(WHOLE))],
    "isposinf": [lambda xp, a: xp.isposinf(a(WILD))],
    "isreal": [lambda xp, a: xp.isreal(a(COMPLEX * (MATRIX > 0)))],
    "isrealobj": [lambda xp, a: xp.isrealobj(a(COMPLEX))],
    "ix_": [lambda xp, a: a(CUBE)[xp.ix_([0, 2], [True, False, True, False], [4, 1, 1])]],
    "logspace": [
        lambda xp, a: xp.logspace(-1, 3, 9),
        lambda xp, a: xp.logspace(0, 8, 4, endpoint=False, base=2.0),
    ],
    "median": [
        lambda xp, a: [
            xp.median(a(CUBE), axis=k, keepdims=d)
            for k in (None, 0, -1, (0, 2))
            for d in (False, True)
        ],
        lambda xp, a: xp.median(a(HOLES), axis=0),
        lambda xp, a: xp.median(a(WILD[1:])),
        lambda xp, a: xp.median(a(WHOLE)),
    ],
    "modf": [lambda xp, a: xp.modf(a(WILD)), lambda xp, a: xp.modf(a(CUBE))],
    "nan_to_num": [
        lambda xp, a: xp.nan_to_num(a(WILD)),
        lambda xp, a: xp.nan_to_num(a(WILD), nan=-1, posinf=5, neginf=6),
        lambda xp, a: xp.nan_to_num(a(WILD + 1j)),
        lambda xp, a: xp.nan_to_num(a(WHOLE)),
    ],
    "nanargmax": [
        lambda xp, a: xp.nanargmax(a(HOLES)),
        lambda xp, a: xp.nanargmax(a(HOLES[:, 0]), axis=0),
    ],
    "nanargmin": [lambda xp, a: xp.nanargmin(a(HOLES))],
    "percentile": [
        lambda xp, a: xp.percentile(a(CUBE), [0, 12.5, 100], axis=1),
        lambda xp, a: xp.percentile(a(WHOLE), 30),
    ],
    "quantile": [
        lambda xp, a, m=m: xp.quantile(a(CUBE), [0.0, 0.3, 0.5, 0.83, 1.0], axis=(0, 2), method=m)
        for m in (
            "linear",
            "lower",
            "higher",
            "nearest",
            "midpoint",
            "hazen",
            "weibull",
            "median_unbiased",
            "normal_unbiased",
            "interpolated_inverted_cdf",
        )
    ]
    + [lambda xp, a: xp.quantile(a(HOLES), [[0.1], [0.9]], axis=0, keepdims=True)],
    "nanpercentile": [lambda xp, a: xp.nanpercentile(a(HOLES), [25, 75], axis=2)],
    "nanquantile": [
        lambda xp, a, m=m: xp.nanquantile(a(HOLES), [0.0, 0.3, 0.83, 1.0], axis=0, method=m)
        for m in ("linear", "lower", "higher", "nearest", "midpoint", "hazen")
    ],
    "piecewise": [
        lambda xp, a: xp.piecewise(
            a(CUBE), [a(CUBE) < -1, a(CUBE) > 1], [lambda v: -v, 3.0, lambda v: v * v]
        )
    ],
    "ptp": [lambda xp, a: xp.ptp(a(CUBE), axis=1, keepdims=True), lambda xp, a: xp.ptp(a(WHOLE))],
    "ravel_multi_index": [
        lambda xp, a: xp.ravel_multi_index((a(WHOLE), a(WHOLE[::-1])), (3, 4)),
        lambda xp, a: xp.ravel_multi_index(
            (a(WHOLE * 3 - 2), a(WHOLE)), (3, 2), mode="wrap", order="F"
        ),
        lambda xp, a: xp.ravel_multi_index((a(WHOLE * 3 - 2), a(WHOLE)), (3, 2), mode="clip"),
    ],
    "real_if_close": [
        lambda xp, a: xp.real_if_close(a(MATRIX + 1e-15j)),
        lambda xp, a: xp.real_if_close(a(COMPLEX)),
    ],
    "resize": [lambda xp, a: xp.resize(a(MATRIX), (3, 9)), lambda xp, a: xp.resize(a(MATRIX), 7)],
    "rollaxis": [
        lambda xp, a: [xp.rollaxis(a(CUBE), i, j) for i in range(-3, 3) for j in range(-3, 4)]
    ],
    "select": [
        lambda xp, a: xp.select([a(CUBE) < 0, a(CUBE) > 2], [a(CUBE), a(CUBE) * 10], default=-1.0),
        lambda xp, a: xp.select([a(WHOLE) < 1, a(WHOLE) < 2], [a(WHOLE), 5]),
    ],
    "sinc": [lambda xp, a: xp.sinc(a(CUBE)), lambda xp, a: xp.sinc(a(WHOLE))],
    "trace": [lambda xp, a: xp.trace(a(CUBE), 1, 0, 2), lambda xp, a: xp.trace(a(WHOLE))],
    "tril_indices": [lambda xp, a: xp.tril_indices(4, -1, 3)],
    "triu_indices": [lambda xp, a: xp.triu_indices(4, 1, 5)],
    "trim_zeros": [
        lambda xp, a: [xp.trim_zeros(a(np.array([0, 0, 1, 0, 2, 0])), t) for t in ("f", "b", "fb")],
        lambda xp, a: xp.trim_zeros(a(np.zeros(3))),
    ],
    "unravel_index": [
        lambda xp, a: xp.unravel_index(a(WHOLE * 7), (3, 4, 5)),
        lambda xp, a: xp.unravel_index(7, (3, 4), order="F"),
    ],
    "unwrap": [
        lambda xp, a: xp.unwrap(a(CUBE * 3), axis=1),
        lambda xp, a: xp.unwrap(a(LINE), period=2.0),
    ],
    "vander": [
        lambda xp, a: xp.vander(a(VECTOR)),
        lambda xp, a: xp.vander(a(WHOLE[0]), 3, increasing=True),
    ],
    "vsplit": [lambda xp, a: xp.vsplit(a(MATRIX), 2)],
    **{
        name: [
            lambda xp, a, name=name: [
                getattr(xp, name)(a(HOLES), axis=k, keepdims=d)
                for k in (None, 0, -1, (0, 2))
                for d in (False, True)
            ],
            lambda xp, a, name=name: getattr(xp, name)(a(WHOLE), axis=1),
        ]
        for name in (
            "nansum",
            "nanprod",
            "nanmean",
            "nanvar",
            "nanstd",
            "nanmax",
            "nanmin",
            "nanmedian",
        )
    },
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_answers_are_numpys(device, name):
    for call in CALLS[name]:
        agree(call(cm, cm.asarray), call(np, np.asarray))


KEPT = [
    "average",
    "median",
    "quantile",
    "nanmean",
    "nanstd",
    "nanmax",
    "cov",
    "ptp",
    "unwrap",
    "sinc",
    "select",
    "insert",
]


@pytest.mark.parametrize("name", sorted(set(CALLS) & set(KEPT)))
def test_float32_stays_float32(device, name):
    """Where NumPy goes to float64 because of a Python number on the way (quantile's q), float32
    stays."""
    for call in CALLS[name]:
        ours = call(cm, lambda x: cm.asarray(narrow(x)))
        for one in ours if isinstance(ours, (list, tuple)) else [ours]:
            assert one.dtype in (np.float32, np.complex64, np.int32, np.int64, np.float64)
            theirs = call(np, lambda x: narrow(x))
            if (
                np.asarray(theirs[0] if isinstance(theirs, (list, tuple)) else theirs).dtype
                == np.float32
            ):
                assert one.dtype == np.float32


def test_nan_among_infinities(device):
    """NumPy answers with the position of the NaN here."""
    assert int(cm.nanargmax([np.nan, -np.inf])) == 1 and int(cm.nanargmin([np.nan, np.inf])) == 1
    for name in ("nanargmax", "nanargmin"):
        with pytest.raises(ValueError, match=f"^{name}: "):
            getattr(cm, name)([np.nan, np.nan])


# -------------------- any shape, strides, dtype, NaN, empties

ALONG = [
    "nansum",
    "nanmean",
    "nanmax",
    "nanmin",
    "nanstd",
    "median",
    "nanmedian",
    "ptp",
    "diff",
    "trapezoid",
    "average",
    "cumulative",
]


@settings(max_examples=60)
@given(data=st.data())
def test_along_any_axis_of_anything(device, data):
    name = data.draw(st.sampled_from([n for n in ALONG if n != "cumulative"]))
    shape = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple))
    view = data.draw(views(shape))
    dtype = np.dtype(data.draw(st.sampled_from(["f4", "f8", "i4", "u1"])))
    seed = np.random.default_rng(data.draw(st.integers(0, 999)))
    base = seed.integers(0, 9, view.base).astype(dtype)
    if dtype.kind == "f":
        base = np.where(
            seed.random(view.base) < data.draw(st.sampled_from([0.0, 0.3])),
            dtype.type(np.nan),
            base,
        )
    ours, theirs = view.of(cm.asarray(base)), view.of(base)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = getattr(np, name)(theirs, axis=axis)
    except (ValueError, ZeroDivisionError):
        if name == "average":  # NumPy divides by a count of nothing; of that the mean is NaN
            return
        with pytest.raises(ValueError, match=f"^({name}|max|min|quantile): "):
            getattr(cm, name)(ours, axis=axis)
        return
    got = getattr(cm, name)(ours, axis=axis)
    assert got.shape == expected.shape
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=40)
@given(data=st.data())
def test_einsum(device, data):
    """Any letters: repeated, summed, kept, in any order; up to three operands."""
    sizes = {s: data.draw(st.integers(1, 3)) for s in "abcd"}
    terms = data.draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    result = "".join(
        data.draw(st.permutations(sorted(data.draw(st.sets(st.sampled_from(used))))))
        if used
        else []
    )
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([sizes[s] for s in term]) for term in terms]
    expected = np.einsum(",".join(terms) + "->" + result, *arrays)
    for optimize in (True, False):
        got = cm.einsum(
            ",".join(terms) + "->" + result, *[cm.asarray(x) for x in arrays], optimize=optimize
        )
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_einsum_forms(device):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 5))
    a, b = cm.asarray(x), cm.asarray(y)
    np.testing.assert_allclose(cm.einsum("...i,ij", a, b), np.einsum("...i,ij", x, y), rtol=1e-13)
    by_numbers = np.einsum(x, [0, 1, 2], y, [2, 3], [3, 0])
    np.testing.assert_allclose(cm.einsum(a, [0, 1, 2], b, [2, 3], [3, 0]), by_numbers, rtol=1e-13)
    np.testing.assert_allclose(
        cm.einsum("ijk,kl", a[:, :, :1], b), np.einsum("ijk,kl", x[:, :, :1], y), rtol=1e-13
    )
    out = cm.zeros((2, 3, 5))
    assert cm.einsum("...i,ij", a, b, out=out) is out
    np.testing.assert_allclose(out, np.einsum("...i,ij", x, y), rtol=1e-13)
    for bad, arrays in (
        ("ij,jk", (a, b)),
        ("ijk,kl->ijm", (a, b)),
        ("ijk,jl", (a, b)),
        ("ijk", (a, b)),
        ("ij?", (a,)),
    ):
        with pytest.raises(ValueError, match="^einsum: "):
            cm.einsum(bad, *arrays)
    path = cm.einsum_path("ij,jk,kl->il", *[np.ones((9, 9))] * 3, optimize="optimal")[0]
    assert path[0] == "einsum_path" and len(path) == 3


def test_tensordot_again(device):
    """The second call of known layouts takes a shorter way; strided operands and gradients do
    not."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 3, 4)), rng.standard_normal((3, 4, 6))
    for _ in range(3):
        for axes in (0, 2):
            got = cm.tensordot(cm.asarray(x), cm.asarray(y), axes)
            np.testing.assert_allclose(got, np.tensordot(x, y, axes), rtol=1e-13, atol=1e-13)
        got = cm.tensordot(cm.asarray(x).T, cm.asarray(x), 1)
        np.testing.assert_allclose(got, np.tensordot(x.T, x, 1), rtol=1e-13, atol=1e-13)
    slope = cm.grad(lambda a: cm.tensordot(a, cm.asarray(y), 2).sum())(cm.asarray(x))
    np.testing.assert_allclose(slope, np.broadcast_to(y.sum(2), x.shape), rtol=1e-13)


@settings(max_examples=40)
@given(
    n=st.integers(1, 9),
    m=st.integers(1, 9),
    mode=st.sampled_from(["full", "same", "valid"]),
    dtype=st.sampled_from(["f8", "f4", "i4", "c16", "?"]),
)
def test_convolve_and_correlate(device, n, m, mode, dtype):
    rng = np.random.default_rng(n * 10 + m)
    a, v = (
        rng.integers(-4, 5, k).astype(dtype) * (1 + 1j if dtype == "c16" else 1) for k in (n, m)
    )
    for name in ("convolve", "correlate"):
        expected = getattr(np, name)(a, v, mode)
        got = getattr(cm, name)(cm.asarray(a), cm.asarray(v), mode)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=40)
@given(data=st.data())
def test_interp(device, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    n = data.draw(st.integers(1, 6))
    places = (
        np.sort(rng.integers(-3, 4, n) / 2)
        if data.draw(st.booleans())
        else np.cumsum(rng.random(n) + 0.1)
    )
    values = rng.standard_normal(n) * data.draw(st.sampled_from([1.0, 1 + 1j]))
    x = np.concatenate([rng.standard_normal(9) * 3, places, [np.nan, np.inf, -np.inf]])
    x = x.reshape(data.draw(st.sampled_from([(-1,), (-1, 1)])))
    more = data.draw(st.sampled_from([{}, {"left": -7.0}, {"right": 9.0}, {"period": 1.75}]))
    if len(set(places)) < n:  # which of equal points counts, NumPy leaves open
        return
    if "period" in more:
        x = x[np.isfinite(x)]
    agree(
        cm.interp(cm.asarray(x), cm.asarray(places), cm.asarray(values), **more),
        np.interp(x, places, values, **more),
    )


def test_joining_into_dtypes(device):
    x, y = cm.asarray(MATRIX), cm.asarray(WHOLE[:, :1] * 0 + 1)
    out = cm.zeros((8, 5))
    assert cm.concatenate([x, x], out=out) is out
    agree(out, np.concatenate([MATRIX, MATRIX]))
    agree(
        cm.concatenate([x, x], dtype="float32"), np.concatenate([MATRIX, MATRIX], dtype=np.float32)
    )
    agree(
        cm.stack([x, x], axis=1, dtype="float32"),
        np.stack([MATRIX, MATRIX], axis=1, dtype=np.float32),
    )
    agree(cm.vstack([x, x], dtype="float32"), np.vstack([MATRIX, MATRIX], dtype=np.float32))
    agree(cm.hstack([y, y], dtype="float64"), np.hstack([np.ones((3, 1)), np.ones((3, 1))]))
    with pytest.raises(TypeError, match="^concatenate: float64 cannot become int64"):
        cm.concatenate([x, x], dtype="int64")
    agree(cm.split(x, indices_or_sections=2), np.split(MATRIX, indices_or_sections=2))


@settings(max_examples=30)
@given(data=st.data())
def test_gradient_function(device, data):
    shape = data.draw(st.lists(st.integers(3, 6), min_size=1, max_size=3).map(tuple))
    x = np.random.default_rng(0).standard_normal(shape)
    order = data.draw(st.sampled_from([1, 2]))
    steps = [data.draw(st.sampled_from([0.5, np.cumsum(1 + np.arange(n)) * 0.25])) for n in shape]
    ours, theirs = (
        cm.gradient(cm.asarray(x), *steps, edge_order=order),
        np.gradient(x, *steps, edge_order=order),
    )
    agree(ours, theirs)


# -------------------- gradients of compositions, errors

DIFFERENTIABLE: list[Callable[[Any], Any]] = [
    lambda x: cm.median(x, axis=0),
    lambda x: cm.quantile(x, [0.3, 0.8], axis=1),
    lambda x: cm.cov(x),
    lambda x: cm.nansum(x, axis=1),
    lambda x: cm.nanvar(x, axis=0),
    lambda x: cm.average(x, axis=0, weights=x[:, 0] ** 2 + 1),
    lambda x: cm.trace(x),
    lambda x: cm.select([x > 0], [x**2], x),
    lambda x: cm.insert(x, 1, x[:, 0], axis=1),
    lambda x: cm.unwrap(x, axis=1),
    lambda x: cm.sinc(x),
    lambda x: cm.ptp(x, axis=1),
    lambda x: cm.sum(x, where=x > 0),
    lambda x: cm.var(x, axis=0, where=x > -9),
    lambda x: cm.apply_along_axis(lambda v: v * v[0], 1, x),
    lambda x: cm.vander(x[0]),
    lambda x: cm.logaddexp2(x, x[0]),
    lambda x: cm.linspace(x[0], x[1], 3),
    lambda x: cm.reshape(x, (5, 4), order="F"),
    lambda x: cm.copy(x, order="F"),
]


@pytest.mark.parametrize("index", range(len(DIFFERENTIABLE)))
def test_gradients_of_compositions(device, index):
    function = DIFFERENTIABLE[index]
    rng = np.random.default_rng(index)
    x, step = rng.standard_normal((4, 5)), 1e-6
    towards = rng.standard_normal(x.shape)
    weights = rng.standard_normal(function(cm.asarray(x)).shape)

    def value(v: Any) -> Any:
        return (function(v) * cm.asarray(weights)).sum()

    slope = float((cm.grad(value)(cm.asarray(x)) * cm.asarray(towards)).sum())
    near = [float(value(cm.asarray(x + s * step * towards))) for s in (1, -1)]
    assert slope == pytest.approx((near[0] - near[1]) / (2 * step), rel=1e-5, abs=1e-6)


WRONG: list[tuple[str, Callable[[], Any], type]] = [
    ("quantile", lambda: cm.quantile([1.0], 1.5), ValueError),
    ("quantile", lambda: cm.quantile([1.0], 0.5, method="no"), ValueError),
    ("quantile", lambda: cm.quantile([], 0.5), IndexError),
    ("quantile", lambda: cm.quantile([1j], 0.5), TypeError),
    ("average", lambda: cm.average([1.0, 2.0], weights=[1.0]), TypeError),
    ("average", lambda: np.asarray(cm.average([1.0, 2.0], weights=[1.0, -1.0])), ZeroDivisionError),
    (
        "average",
        lambda: np.asarray(cm.average(cm.ones((2, 2)), 1, cm.asarray([[1.0, 1.0], [2.0, -2.0]]))),
        ZeroDivisionError,
    ),
    ("cov", lambda: cm.cov(CUBE), ValueError),
    ("choose", lambda: cm.choose([2], [[1], [2]]), ValueError),
    ("select", lambda: cm.select([[True]], []), ValueError),
    ("select", lambda: cm.select([[1]], [[1]]), TypeError),
    ("diff", lambda: cm.diff(1.0), ValueError),
    ("diff", lambda: cm.diff([1.0], n=-1), ValueError),
    ("gradient", lambda: cm.gradient([1.0]), ValueError),
    ("trapezoid", lambda: cm.trapezoid([1.0, 2.0], x=[1.0]), ValueError),
    ("convolve", lambda: cm.convolve([], [1.0]), ValueError),
    ("convolve", lambda: cm.convolve([1.0], [1.0], "no"), ValueError),
    ("block", lambda: cm.block([[1], 2]), ValueError),
    ("delete", lambda: cm.delete([1, 2], 5), IndexError),
    ("insert", lambda: cm.insert([1, 2], 5, 0), IndexError),
    ("trim_zeros", lambda: cm.trim_zeros([0], "x"), ValueError),
    ("unravel_index", lambda: cm.unravel_index(9, (2, 2)), ValueError),
    ("ix_", lambda: cm.ix_([[1]]), ValueError),
    ("ravel_multi_index", lambda: cm.ravel_multi_index((2, 0), (2, 2)), ValueError),
    ("vander", lambda: cm.vander([[1]]), ValueError),
    ("geomspace", lambda: cm.geomspace(0, 1), ValueError),
    ("isdtype", lambda: cm.isdtype(np.int8, "no"), ValueError),
    ("finfo", lambda: cm.finfo("int8"), ValueError),
    ("iinfo", lambda: cm.iinfo("float32"), ValueError),
    ("fill_diagonal", lambda: cm.fill_diagonal(cm.zeros(3), 1), ValueError),
    ("expand_dims", lambda: cm.expand_dims(cm.zeros(3), axis=5), IndexError),
]


@pytest.mark.parametrize("index", range(len(WRONG)))
def test_errors_name_the_function(device, index):
    name, call, kind = WRONG[index]
    with pytest.raises(kind, match=f"^{name}: "):
        call()


def test_facts_about_arrays(device):
    x = cm.asarray(CUBE)
    assert (cm.ndim(x), cm.shape(x), cm.size(x), cm.size(x, 1)) == (3, (3, 4, 5), 60, 4)
    assert (cm.ndim([[1]]), cm.shape(2), cm.size([[1, 2]])) == (2, (), 2)
    assert (
        cm.isscalar(2.0)
        and not cm.isscalar(cm.asarray(2.0))
        and cm.isfortran(x.T)
        and not cm.isfortran(x)
    )
    assert (
        cm.may_share_memory(x, x[1:, ::2])
        and not cm.may_share_memory(x, x + 0)
        and not cm.may_share_memory(x[0], x[1])
    )
    y, b = cm.array(MATRIX), MATRIX.copy()
    for source, where in (
        (1.5, MATRIX > 0),
        (MATRIX[0], True),
        (MATRIX[::-1].copy(), MATRIX[1] < 0),
    ):
        cm.copyto(y, cm.asarray(source) if isinstance(source, np.ndarray) else source, where=where)
        np.copyto(b, source, where=where)
        agree(y, b)
    np.copyto(y, cm.asarray(MATRIX[2]))
    agree(y, np.broadcast_to(MATRIX[2], MATRIX.shape).copy())
    with pytest.raises(TypeError, match="^copyto: float64 cannot become int64"):
        cm.copyto(cm.zeros(5, dtype="int64"), cm.asarray(VECTOR))
    assert cm.array_equal(
        cm.asarray(WILD), cm.asarray(WILD), equal_nan=True
    ) and not cm.array_equal(cm.asarray(WILD), WILD)


def test_polyfit(device):
    x = np.linspace(-1, 2, 20)
    y = np.stack([x**3 - 2 * x + 1, 4 - x**2], 1)
    w = np.linspace(0.5, 1, 20)
    for right in (y, y[:, 0]):
        for weights in (None, w):
            ours = cm.polyfit(
                cm.asarray(x),
                cm.asarray(right),
                3,
                w=None if weights is None else cm.asarray(weights),
            )
            np.testing.assert_allclose(
                ours, np.polyfit(x, right, 3, w=weights), rtol=1e-9, atol=1e-9
            )


def test_printing_follows_numpys_settings():
    x = cm.asarray([2 / 3, 1e-9], device="cpu")
    before = cm.get_printoptions()
    with cm.printoptions(precision=2, suppress=True):
        assert repr(x).startswith("array([0.67, 0.  ], device=") and str(x) == "[0.67 0.  ]"
    cm.set_printoptions(precision=3)
    try:
        assert str(x) == str(np.asarray(x)) == "[6.667e-01 1.000e-09]"
    finally:
        cm.set_printoptions(precision=before["precision"])
    assert cm.get_printoptions() == before


def test_order_is_that_of_the_result_in_memory():
    """Also where all operands lie in Fortran's order and C order is asked for."""
    x = np.asfortranarray(CUBE)
    y = cm.asarray(x, device="cpu")
    for order in "CFAK":
        for call in (
            lambda xp, x, order=order: xp.add(x, 1, order=order),
            lambda xp, x, order=order: xp.sin(x, order=order),
            lambda xp, x, order=order: xp.ldexp(x, 2, order=order),
            lambda xp, x, order=order: xp.divmod(x, 2, order=order)[1],
            lambda xp, x, order=order: xp.add(x, x[0], order=order),
        ):
            assert call(cm, y).strides == call(np, x).strides
    for twin in (copy.copy, copy.deepcopy):
        assert twin(y).strides == twin(x).strides
        assert twin(y[:, ::2]).strides == twin(x[:, ::2]).strides


def test_flags_are_printed_set_and_compared_as_numpys_are():
    ours, theirs = cm.zeros((2, 3), device="cpu"), np.zeros((2, 3))
    for xp_array in (ours, theirs):
        xp_array.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            xp_array[0] = 1
    assert str(ours.flags) == repr(ours.flags) == str(theirs.flags)
    assert ours.flags.num == theirs.flags.num and ours.T.flags.num != ours.flags.num
    for xp_array in (ours, theirs):
        xp_array.flags["WRITEABLE"] = True
        xp_array[0] = 1
        assert xp_array.flags == xp_array.copy().flags != xp_array.T.flags
        with pytest.raises(AttributeError):
            xp_array.flags.bogus = True
        with pytest.raises(KeyError):
            xp_array.flags["BOGUS"]
    with pytest.raises(ValueError, match="flags: OWNDATA cannot be set"):
        ours.flags["OWNDATA"] = True


@pytest.mark.parametrize(
    "module", ["exceptions", "lib.stride_tricks", "lib.scimath", "lib.array_utils"]
)
def test_modules_are_imported_by_numpys_paths(module):
    ours = importlib.import_module(f"cudamath.{module}")
    theirs = importlib.import_module(f"numpy.{module}")
    assert set(ours.__all__) <= set(dir(theirs)) and set(ours.__all__) <= set(dir(ours))


def test_lists_are_shuffled_in_the_order_of_arrays():
    at = lambda: cm.random.default_rng(3)  # noqa: E731
    array, items, raw = cm.arange(9), list("abcdefghi"), bytearray(range(9))
    for x in (array, items, raw):
        at().shuffle(x)
    order = array.tolist()
    assert order != sorted(order) and list(raw) == order
    assert items == ["abcdefghi"[i] for i in order]
    with pytest.raises(np.exceptions.AxisError, match=r"random\.shuffle"):
        at().shuffle([1, 2], axis=1)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: cm.array([1, 2**64]),
            OverflowError,
            f"array: Python integer {2**64} does not fit",
        ),
        (lambda: cm.sum([[1, None]]), TypeError, r"sum: wants numbers .* None at \[0, 1\]"),
        (lambda: cm.vectorize(lambda x: "a")([1]), TypeError, "vectorize: arrays of <U1"),
    ],
)
def test_what_no_array_holds_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_results_print_as_numpys_do():
    assert type(cm.unique_counts([1])).__name__ == type(np.unique_counts([1])).__name__
    assert repr(cm.linspace(0, 1, 5, retstep=True)[1]) == repr(
        np.linspace(0, 1, 5, retstep=True)[1]
    )
    x = cm.arange(3, device="cpu")
    assert x.view(cm.ndarray).base is x
