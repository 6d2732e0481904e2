"""Running totals against NumPy: every dtype, axes, strides, NaN, empties; gradients; errors."""

import numpy as np
import pytest
from gradient_checks import check_gradient
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BF16, eps, shapes, views

import cudamath as cm

ALL = [np.dtype(t) for t in ("?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c8", "c16")] + [
    BF16
]
KINDS = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "nancumsum": np.nancumsum,
    "nancumprod": np.nancumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "nancummax": np.fmax.accumulate,
    "nancummin": np.fmin.accumulate,
}


def numbers(seed, shape, dtype, missing):
    rng = np.random.default_rng(seed)
    if dtype.kind in "biu":
        return rng.integers(0, 2 if dtype.kind == "b" else 5, shape).astype(dtype)
    x = rng.uniform(-1.5, 1.5, shape)
    if dtype.kind == "c":
        x = x + 1j * rng.uniform(-1.5, 1.5, shape)
    x = np.where(rng.random(shape) < 0.15, np.nan, x) if missing else x
    return x.astype(dtype)


@settings(max_examples=60)
@given(
    data=st.data(),
    seed=st.integers(0, 9999),
    dtype=st.sampled_from(ALL),
    name=st.sampled_from(sorted(KINDS)),
)
def test_scans(device, data, seed, dtype, name):
    extreme = name.endswith(("max", "min"))
    if extreme and dtype.kind == "c":
        dtype = np.dtype("f4")
    shape = data.draw(shapes())
    view = data.draw(views(shape))
    base = numbers(seed, view.base, dtype, name.startswith("nan") or extreme)
    x, ours = view.of(base), view.of(cm.asarray(base))
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    got = getattr(cm, name)(ours, axis=axis)
    wide = {"f": "f8", "V": "f8", "c": "c16"}.get(dtype.kind, dtype)
    flat, along = (x.ravel(), 0) if axis is None else (x, axis)
    expected = KINDS[name](flat.astype(wide), along)
    assert got.shape == expected.shape
    assert got.dtype == (dtype if dtype.kind not in "biu" else expected.dtype)
    size = np.max(np.abs(np.nan_to_num(expected)), initial=1.0) if expected.size else 1.0
    exact = dtype.kind in "biu" or extreme
    np.testing.assert_allclose(
        got.to_numpy().astype(expected.dtype),
        expected,
        rtol=0,
        atol=0 if exact else 8 * eps(dtype) * float(size),
    )


@pytest.mark.parametrize("name", ["cumsum", "nancumsum"])
@pytest.mark.parametrize("dtype", [t for t in ALL if t.kind in "fcV"], ids=str)
@pytest.mark.parametrize(
    "shape, axis",
    [((1,), 0), ((700,), 0), ((3, 20_001), 1), ((300, 64), 0), ((5, 70, 9), 1)],
    ids=str,
)
def test_signs_of_zeros(device, name, dtype, shape, axis):
    """Sums of -0.0 alone are -0.0; a NaN that is skipped counts as 0.0."""
    x = np.full(shape, -0.0, "f4")
    if len(shape) > 1:
        x[1:, shape[1] // 2 :] = 0.0
    parts, x = x, x.astype(dtype)
    if dtype.kind == "c":
        x.real, x.imag = -0.0, parts
    if name == "nancumsum":
        x[..., shape[-1] // 2] = np.nan
    expected = KINDS[name](x.astype({"f": "f8", "V": "f8", "c": "c16"}[dtype.kind]), axis)
    got = getattr(cm, name)(cm.asarray(x), axis=axis).to_numpy().astype(expected.dtype)
    assert (got == 0).all()
    for part in ("real", "imag") if dtype.kind == "c" else ("real",):
        np.testing.assert_array_equal(
            np.signbit(getattr(got, part)), np.signbit(getattr(expected, part))
        )


@pytest.mark.parametrize("n", [1, 511, 16_383, 16_385, 200_001])
@pytest.mark.parametrize("dtype", ["f4", "i4", "f8", "c8"])
def test_long_lines(device, dtype, n):
    x = numbers(n, (2, n), np.dtype(dtype), False)
    expected = np.cumsum(x.astype({"f": "f8", "c": "c16", "i": "i8"}[x.dtype.kind]), 1)
    got = cm.cumsum(cm.asarray(x), axis=1)
    np.testing.assert_allclose(
        got.to_numpy(),
        expected,
        rtol=0,
        atol=0 if dtype == "i4" else n * eps(x.dtype) * np.abs(expected).max(),
    )
    same = cm.cumsum(cm.asarray(x), axis=1)
    np.testing.assert_array_equal(got.to_numpy(), same.to_numpy())  # bit for bit
    across = cm.cumsum(cm.asarray(np.ascontiguousarray(x.T)), axis=0)
    np.testing.assert_allclose(
        across.to_numpy().T,
        expected,
        rtol=0,
        atol=0 if dtype == "i4" else n * eps(x.dtype) * np.abs(expected).max(),
    )


@pytest.mark.parametrize("n", [8_192, 16_385, 40_001, 100_003, 300_000])
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f2", BF16], ids=str)
def test_long_lines_of_narrow_numbers(device, dtype, n):
    """Totals of less than four bytes; lines that begin between the borders of accesses, too."""
    x = np.random.default_rng(n).integers(0, 2 if dtype == "?" else 99, (2, n)).astype(dtype)
    ours = cm.asarray(x)
    for part in ((...,), (0,), (1, slice(1, None)), (slice(None), slice(3, -2))):
        line = np.maximum.accumulate(x[part].astype("f4"), -1)
        np.testing.assert_array_equal(cm.cummax(ours[part], axis=-1).to_numpy().astype("f4"), line)


@pytest.mark.parametrize("dtype", ["i1", "u2", "f2", "f4"])
@pytest.mark.parametrize("result", [None, "i4", "f8", "f4"])
def test_dtype_of_the_result(device, dtype, result):
    x = np.arange(1, 5).astype(dtype)
    for ours, theirs in ((cm.cumsum, np.cumsum), (cm.cumprod, np.cumprod)):
        got, expected = ours(cm.asarray(x), dtype=result), theirs(x, dtype=result)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got.to_numpy(), expected)


def test_standard_names(device):
    x = np.arange(1, 7).reshape(2, 3)
    for name in ("cumulative_sum", "cumulative_prod"):
        for initial in (False, True):
            for axis in (0, 1, -1):
                got = getattr(cm, name)(cm.asarray(x), axis=axis, include_initial=initial)
                np.testing.assert_array_equal(
                    got.to_numpy(), getattr(np, name)(x, axis=axis, include_initial=initial)
                )
    assert cm.cumulative_sum(cm.asarray([], dtype="f4"), include_initial=True).tolist() == [0]


@pytest.mark.parametrize("name", sorted(KINDS))
def test_gradients(name):
    rng = np.random.default_rng(5)
    x = rng.permutation(np.linspace(-1.4, 1.6, 12)).reshape(3, 4)
    check_gradient(lambda x: getattr(cm, name)(x, axis=1), lambda x: KINDS[name](x, axis=1), x)
    check_gradient(lambda x: getattr(cm, name)(x), lambda x: KINDS[name](x.ravel()), x)


def test_gradient_of_products_with_zeros():
    """Of several zeros in a line, too: differences of a polynomial in each factor are exact."""
    for line in ([2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 5.0], [1.0, 2.0, 3.0, 0.0]):
        check_gradient(cm.cumprod, np.cumprod, np.array(line))


def test_gradient_of_extremes_behind_a_nan():
    """From a NaN on, the running extreme is the latest NaN: that it is no number, and equal to
    nothing, sends no gradient elsewhere."""
    x, g = cm.asarray([1.0, np.nan, 2.0, np.nan, 3.0]), np.array([1.0, 10, 100, 1000, 10000])
    for name in ("cummax", "cummin"):
        _, pull = cm.vjp(getattr(cm, name), x)
        assert pull(cm.asarray(g))[0].tolist() == [1, 110, 0, 11000, 0], name


def test_gradient_of_missing_numbers():
    x = cm.asarray([1.0, np.nan, 3.0])
    assert cm.grad(lambda x: cm.nancumsum(x).sum())(x).tolist() == [3, 0, 1]
    assert cm.grad(lambda x: cm.nancumprod(x).sum())(x).tolist() == [5, 0, 1]
    assert cm.grad(lambda x: cm.nancummax(x).sum())(x).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: cm.cumsum(cm.zeros((2, 3)), axis=2), ValueError, "cumsum: "),
        (
            lambda: cm.cumulative_sum(cm.zeros((2, 3))),
            ValueError,
            r"cumulative_sum: axis .*\(2, 3\)",
        ),
    ],
)
def test_errors(device, call, error, words):
    with pytest.raises(error, match=words):
        call()
