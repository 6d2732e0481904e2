"""Reductions that leave NaN out: NumPy's answers in float64, in every version of the kernels; their
gradients."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.testing import simulate

KINDS = ["nansum", "nanmean", "nanprod", "nanmax", "nanmin", "nanvar", "nanstd"]
FLOATS = [np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
SHAPES = [
    ((5,), None),
    ((40, 70), 0),
    ((40, 70), 1),
    ((3, 129, 64), (0, 2)),
    ((2, 70_001), 1),
    ((20_000, 3), 0),
    ((7, 1), 1),
]
VERSIONS = ["plain", "rows", "rows_split", "columns", "columns_split"]


def with_holes(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """A third is NaN, and so is a whole line along every axis."""
    rng = np.random.default_rng(seed)
    x = 1 + 0.01 * rng.standard_normal(shape)
    x[rng.random(shape) < 0.3] = np.nan
    for axis in range(x.ndim):
        if x.shape[axis] > 2:
            np.moveaxis(x, axis, 0)[1] = np.nan
    return x.astype(dtype)


def expected(kind: str, x: np.ndarray, axis: object, **more: object) -> np.ndarray:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(getattr(np, kind)(x.astype(np.float64), axis=axis, **more))


def check(kind: str, got: np.ndarray, x: np.ndarray, axis: object, **more: object) -> None:
    right = expected(kind, x, axis, **more)
    eps = float(ml_dtypes.finfo(x.dtype).eps)
    wide = max(eps if x.dtype.itemsize > 2 else 2.0**-23, 2.0**-52)
    count = x.size if axis is None else np.prod([x.shape[i] for i in np.atleast_1d(axis)])
    spread = kind in (
        "nanvar",
        "nanstd",
    )  # relative to the size of the elements, whose spread is a hundredth
    allowed = (
        2 * eps
        + wide * (8 + 2 * np.log2(count)) * (1e4 if spread else 1)
        + (count * wide if kind == "nanprod" else 0)
    )
    assert got.dtype == x.dtype
    said = f"{kind} {x.dtype} {x.shape} {axis}"
    np.testing.assert_allclose(got.astype(np.float64), right, rtol=allowed, atol=0, err_msg=said)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_values(device, kind, dtype):
    for shape, axis in SHAPES:
        if kind in ("nanprod", "nansum") and dtype.itemsize == 2 and x_is_long(shape):
            continue  # too large for float16
        x = with_holes(shape, dtype)
        check(kind, np.asarray(getattr(cm, kind)(cm.asarray(x), axis=axis)), x, axis)
        check(kind, np.asarray(getattr(cm, kind)(cm.asarray(x).T)), x, None)


def x_is_long(shape: tuple[int, ...]) -> bool:
    return bool(np.prod(shape) > 10_000)


@pytest.mark.parametrize("kind", ["nanvar", "nanstd"])
def test_freedom(device, kind):
    x = with_holes((6, 5), np.dtype(np.float64), 3)
    for ddof in (0, 1, 3):
        check(
            kind, np.asarray(getattr(cm, kind)(cm.asarray(x), axis=1, ddof=ddof)), x, 1, ddof=ddof
        )
    check(
        kind,
        np.asarray(getattr(cm, kind)(cm.asarray(x), axis=0, correction=1, keepdims=True)),
        x,
        0,
        ddof=1,
        keepdims=True,
    )


def test_options(device):
    x = with_holes((6, 5), np.dtype(np.float64), 4)
    a, keep = cm.asarray(x), np.arange(30).reshape(6, 5) % 3 > 0
    for kind in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd"):
        got = getattr(cm, kind)(a, axis=1, where=cm.asarray(keep))
        np.testing.assert_allclose(got, expected(kind, x, 1, where=keep), rtol=1e-9)
    np.testing.assert_allclose(
        cm.nanmax(a, axis=0, initial=9.0, where=cm.asarray(keep)), np.full(5, 9.0)
    )
    np.testing.assert_allclose(
        cm.nansum(a, axis=0, initial=2.0), expected("nansum", x, 0, initial=2.0)
    )
    out = cm.zeros(6)
    assert cm.nanmin(a, axis=1, out=out) is out
    np.testing.assert_array_equal(out, expected("nanmin", x, 1))
    z = x + 1j * x[::-1]
    for kind in ("nansum", "nanmean", "nanvar", "nanstd"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(
                getattr(cm, kind)(cm.asarray(z), axis=1), getattr(np, kind)(z, axis=1), rtol=1e-9
            )
    with pytest.raises(ValueError, match="^nanmax: no elements"):
        cm.nanmax(cm.zeros((0, 3)), axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(device, kind):
    x = with_holes((4, 5), np.dtype(np.float64), 5)
    x[1] = np.arange(5)
    x[:, 1] = [1.0, 2, np.nan, 3]
    weights = np.random.default_rng(1).standard_normal(4)

    def value(v: cm.ndarray) -> cm.ndarray:
        return (cm.nan_to_num(getattr(cm, kind)(v, axis=1)) * cm.asarray(weights)).sum()

    slope, step = np.asarray(cm.grad(value)(cm.asarray(x))), 1e-6
    for i, j in np.argwhere(~np.isnan(x)):
        if np.isnan(x[i]).sum() == 4 and kind == "nanstd":
            continue  # of one number: the root of 0
        near = []
        for sign in (1, -1):
            moved = x.copy()
            moved[i, j] += sign * step
            near.append(float(value(cm.asarray(moved))))
        assert slope[i, j] == pytest.approx((near[0] - near[1]) / (2 * step), rel=1e-4, abs=1e-5), (
            i,
            j,
        )
    assert (slope[np.isnan(x) & ~np.isnan(x).all(1, keepdims=True)] == 0).all()


def test_in_a_fused_function(device):
    x = with_holes((40, 70), np.dtype(np.float32))
    fused = cm.fuse(lambda v: cm.nansum(v * 2, axis=1) + cm.nanmax(v, axis=1))
    np.testing.assert_allclose(
        fused(cm.asarray(x)), expected("nansum", 2 * x, 1) + expected("nanmax", x, 1), rtol=1e-5
    )


@pytest.mark.simulator
@pytest.mark.parametrize("kind", KINDS)
def test_plain_version(kind):
    from cudamath.kernels.reduce.dispatch import plan

    for dtype in FLOATS:
        x = with_holes((5, 9), dtype, 6)
        made = plan(
            Layout.new(x.shape, x.dtype, 0),
            kind=kind,
            axis=(1,),
            keepdims=False,
            dtype=x.dtype,
            version="plain",
        )
        check(kind, simulate(made, x), x, 1)


@pytest.mark.gpu
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_versions_on_the_gpu(kind, version):
    from cudamath.kernels.reduce.dispatch import plan

    for dtype in FLOATS:
        for shape, axis in (((40, 70), 0), ((40, 70), 1), ((2, 70_001), 1), ((20_000, 3), 0)):
            x = with_holes(shape, dtype)
            a = cm.asarray(x, device="cuda:0")
            made = plan(
                a._layout, kind=kind, axis=(axis,), keepdims=False, dtype=x.dtype, version=version
            )
            if kind != "nanprod" or dtype.itemsize > 2 or not x_is_long(shape):
                check(kind, np.asarray(made.bind(kind, [a._layout])(a)), x, axis)
