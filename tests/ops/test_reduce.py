"""Reductions against NumPy in float64: values, dtypes, NaN, ties, empty arrays, gradients, errors;
each kernel by name."""

import math
import os
import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.runtime.device import assume

BF16 = np.dtype(ml_dtypes.bfloat16)
EPS = {
    np.dtype(np.float16): 2.0**-11,
    BF16: 2.0**-8,
    np.dtype(np.float32): 2.0**-24,
    np.dtype(np.float64): 2.0**-53,
}
FLOATS = list(EPS)
INTS = [np.dtype(c) for c in "bhilBHIL"]
COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
BOOL = np.dtype(bool)
ARITHMETIC = ["sum", "mean", "prod", "var", "std"]
EXACT = ["max", "min", "argmax", "argmin", "any", "all", "count_nonzero"]


def eps_of(dtype):
    dtype = np.dtype(dtype)
    return EPS.get(np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype, 0.0)


def wide(x):
    """The same numbers in float64, complex128 or int64, where NumPy computes the truth."""
    return x.astype(
        np.complex128 if x.dtype.kind == "c" else x.dtype if x.dtype.kind in "biu" else np.float64
    )


def exact(x, kind):
    """The same numbers as `wide`, in long double where a reduction rounds. It holds every 64-bit
    integer."""
    if kind in EXACT or (kind in ("sum", "prod") and x.dtype.kind in "biu"):
        return wide(x)
    return wide(x).astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def truth(kind, x, axis, keepdims, **extra):
    """NumPy's answer. Its float64 sums along outer axes add row by row, which is less exact than
    what is tested here: sums are found in long double, whose errors (2^-64 an addition) are nothing
    beside those of float64 (2^-53)."""
    with np.errstate(all="ignore"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of means of nothing
            return np.asarray(
                getattr(np, kind)(exact(x, kind), axis=axis, keepdims=keepdims, **extra)
            )


def check(kind, got, x, axis, keepdims=False, **extra):
    """`got` against NumPy in float64, within the rounding errors of a sum in the compute type."""
    expected = truth(kind, x, axis, keepdims, **extra)
    got = np.asarray(got) if isinstance(got, cm.ndarray) else got
    assert got.shape == expected.shape, (kind, got.shape, expected.shape)
    if kind in EXACT:
        assert np.array_equal(wide(got), wide(expected), equal_nan=x.dtype.kind in "fV"), (
            kind,
            got,
            expected,
        )
        return
    if x.dtype.kind in "biu" and kind in ("sum", "prod"):
        assert got.dtype == expected.dtype and np.array_equal(got, expected)
        return
    own = eps_of(got.dtype)
    inner = min(own, eps_of(np.float32)) if got.dtype.itemsize == 2 else own
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    count = max(math.prod([x.shape[i] for i in axes]), 1)
    with np.errstate(all="ignore"):
        # A chain of h roundings errs by h u sum|x| at most, by about sqrt(h) u sum|x| in practice
        # (Higham & Mary 2019). The longest chain, that of the plain kernel, has 128 + n / 128: its
        # root is about 8 + log2 n or less here.
        if kind in ("sum", "mean"):
            size = np.abs(wide(x)).sum(axis=axis, keepdims=keepdims) / (
                count if kind == "mean" else 1
            )
            allowed = own * np.abs(expected) + (8 + math.log2(count)) * inner * size
        elif kind == "prod":
            allowed = (own + 2 * count * inner) * np.abs(expected)
        else:  # var and std: relative to the squared size of the elements
            size = (np.abs(wide(x) - wide(x).mean(axis=axis, keepdims=True)) ** 2).mean(
                axis=axis, keepdims=keepdims
            )
            scale = np.abs(wide(x)).max(initial=0) * inner
            allowed = own * np.abs(expected) + (16 + math.log2(count)) * inner * (
                np.abs(expected) + np.sqrt(size)
            )
            allowed = allowed + 8 * scale * (np.sqrt(size) if kind == "var" else 1)
        wrong = ~(
            (np.abs(wide(got) - expected) <= allowed)
            | (np.isnan(got) & np.isnan(expected))
            | (got == expected)
        )
    assert not wrong.any(), (kind, x.dtype, x.shape, axis, got[wrong][:3], expected[wrong][:3])


def numbers(rng, shape, dtype, kind="sum"):
    if dtype == BOOL:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -100, 100, shape).astype(dtype)
    scale = (
        1 + 0.1 * rng.standard_normal(shape) if kind == "prod" else rng.standard_normal(shape) + 0.5
    )
    if dtype.kind == "c":
        return (scale + 0.3j * rng.standard_normal(shape)).astype(dtype)
    return np.asarray(scale).astype(dtype)


@st.composite
def views(draw):
    """(a function NumPy array -> a view with odd strides, shape of the array it wants)."""
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=4)))
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -2])) for _ in shape]
    return (lambda x: x.transpose(order)[tuple(slice(None, None, s) for s in steps)]), shape


# -------------------- values


@given(
    views(),
    st.sampled_from(ARITHMETIC + EXACT),
    st.sampled_from(FLOATS + INTS + [BOOL] + COMPLEX),
    st.booleans(),
    st.data(),
)
def test_any_axes_and_strides(device, view, kind, dtype, keepdims, data):
    see, shape = view
    if dtype in COMPLEX and kind in ("max", "min", "argmax", "argmin", "var", "std"):
        dtype = np.dtype(np.float32)
    x = see(numbers(np.random.default_rng(7), shape, dtype, kind))
    if kind.startswith("arg"):
        axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
    else:
        axes = data.draw(st.lists(st.integers(0, x.ndim - 1), unique=True)) if x.ndim else []
        axis = data.draw(st.sampled_from([None, tuple(axes), *range(-x.ndim, x.ndim)]))
    count = (
        x.size
        if axis is None
        else math.prod([x.shape[i] for i in (axis if isinstance(axis, tuple) else (axis,))])
    )
    call = getattr(cm, kind)
    if kind in ("max", "min", "argmax", "argmin") and count == 0:
        with pytest.raises(ValueError, match=f"^{kind}: no elements"):
            call(cm.asarray(x), axis=axis)
        return
    y = call(cm.asarray(x), axis=axis, keepdims=keepdims)
    check(kind, y, x, axis, keepdims)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "shape, axis",
    [
        ((100_003,), None),
        ((300, 1001), 1),
        ((1001, 300), 0),
        ((7, 129, 64), 1),
        ((16, 8, 30, 30), (0, 2, 3)),
        ((3, 70_000), 1),
        ((70_000, 3), 0),
    ],
)
@pytest.mark.parametrize("kind", ["sum", "mean", "var", "max", "argmin"])
def test_larger(device, kind, shape, axis, dtype):
    if kind == "argmin" and isinstance(axis, tuple):
        axis = 1
    x = numbers(np.random.default_rng(1), shape, dtype)
    check(kind, getattr(cm, kind)(cm.asarray(x), axis=axis), x, axis)


@pytest.mark.parametrize("kind", ["sum", "prod"])
def test_dtypes_are_numpys(device, kind):
    for dtype in INTS + [BOOL, *FLOATS, *COMPLEX]:
        x = np.ones((2, 3), dtype)
        expected = dtype if dtype == BF16 else getattr(np, kind)(x).dtype
        assert getattr(cm, kind)(cm.asarray(x)).dtype == expected
    for dtype in INTS + FLOATS[:1] + FLOATS[2:] + [BOOL]:
        for asked in ("int32", "float32", "float64", "complex64"):
            x = np.arange(6).reshape(2, 3).astype(dtype)
            got = getattr(cm, kind)(cm.asarray(x), axis=1, dtype=asked)
            assert got.dtype == asked and np.array_equal(
                np.asarray(got), getattr(np, kind)(x, axis=1, dtype=asked)
            )


@pytest.mark.parametrize("kind", ["mean", "var", "std"])
def test_means_of_integers_are_float64(device, kind):
    for dtype in INTS + [BOOL]:
        x = (np.arange(12).reshape(3, 4) % 5).astype(dtype)
        got = getattr(cm, kind)(cm.asarray(x), axis=0)
        assert got.dtype == np.float64
        np.testing.assert_allclose(np.asarray(got), getattr(np, kind)(x, axis=0), rtol=1e-15)


def test_float16_sums_are_kept_in_float32(device):
    x = np.full(5000, 3, np.float16)  # beyond 2048, 3 is lost when added in float16 itself
    assert float(cm.sum(cm.asarray(x))) == 15_000
    assert float(cm.mean(cm.asarray(np.full(5000, 60_000, np.float16)))) == 60_000
    y = np.full(1000, 1.0, BF16)
    assert float(cm.sum(cm.asarray(y))) == 1000


def test_float16_counts_and_sums_beyond_its_range(device):
    n = 70_000
    x = cm.full(n, 2.0, dtype="float16")
    (slope,) = cm.vjp(cm.mean, x)[1](cm.asarray(1.0, dtype="float16"))
    assert slope.dtype == np.float16 and (slope.to_numpy() == np.float16(1 / n)).all()
    mean, total = cm.average(x, weights=cm.ones_like(x), returned=True)
    assert mean.dtype == total.dtype == np.float16
    assert (float(mean), float(total)) == (2.0, math.inf)


def test_float32_sum_is_pairwise(device):
    x = np.full(1 << 24, 0.1, np.float32)
    exact = x.astype(np.float64).sum()
    assert abs(float(cm.sum(cm.asarray(x))) - exact) < 4e-7 * exact  # one by one: 1 % off


def test_variance_with_a_large_mean(device):
    x = (1e4 + np.random.default_rng(3).standard_normal((4, 5000))).astype(np.float32)
    expected = x.astype(np.float64).var(axis=1)
    np.testing.assert_allclose(np.asarray(cm.var(cm.asarray(x), axis=1)), expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["correction", "ddof"])
def test_correction(device, name):
    x = np.random.default_rng(0).standard_normal((5, 6))
    for amount in (0, 1, 2.5, 6, 7):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of amount >= 6
            expected = np.var(x, axis=1, ddof=amount)
        got = np.asarray(cm.var(cm.asarray(x), axis=1, **{name: amount}))
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        np.testing.assert_allclose(
            np.asarray(cm.std(cm.asarray(x), axis=1, **{name: amount})),
            np.sqrt(expected),
            rtol=1e-12,
        )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_and_infinity(device, dtype):
    rows = [
        [1, math.nan, 3],
        [math.inf, 1, -math.inf],
        [-math.inf] * 3,
        [math.nan] * 3,
        [2, 2, 5],
        [math.inf, math.nan, 0],
    ]
    x = np.array(rows).astype(dtype)
    for kind in ("max", "min", "argmax", "argmin", "any", "all", "count_nonzero", "sum", "mean"):
        for axis in (None, 0, 1):
            got = np.asarray(getattr(cm, kind)(cm.asarray(x), axis=axis))
            assert np.array_equal(wide(got), truth(kind, x, axis, False), equal_nan=True), (
                kind,
                axis,
            )


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("i4"), BOOL], ids=str)
@pytest.mark.parametrize(
    "shape, axis", [((1000,), 0), ((50, 3000), 1), ((3000, 50), 0), ((70_000,), None)]
)
def test_first_of_equals(device, shape, axis, dtype):
    x = np.random.default_rng(5).integers(0, 2, shape).astype(dtype)
    for kind in ("argmax", "argmin"):
        check(kind, getattr(cm, kind)(cm.asarray(x), axis=axis), x, axis)
    check("argmax", cm.argmax(cm.asarray(x.T), axis=None), x.T, None)


def test_extreme_integers(device):
    for dtype in INTS:
        info = np.iinfo(dtype)
        x = np.array([[info.min, info.max], [info.max, info.min], [info.min, info.min]], dtype)
        for kind in ("max", "min", "argmax", "argmin"):
            check(kind, getattr(cm, kind)(cm.asarray(x), axis=1), x, 1)
        assert int(cm.sum(cm.asarray(x), dtype=dtype)) == int(
            x.sum(dtype=dtype)
        )  # wraps as NumPy does


def test_empty(device):
    for shape, axis in (
        ((0,), None),
        ((3, 0), 1),
        ((0, 3), 0),
        ((0, 3), 1),
        ((2, 0, 4), (0, 2)),
        ((0, 0), None),
    ):
        x = np.zeros(shape, np.float32)
        for kind in ("sum", "prod", "any", "all", "count_nonzero"):
            check(kind, getattr(cm, kind)(cm.asarray(x), axis=axis), x, axis)
        for kind in ("mean", "var", "std"):
            y = getattr(cm, kind)(cm.asarray(x), axis=axis)
            assert y.shape == np.sum(x, axis=axis).shape and np.isnan(np.asarray(y)).all()
    assert cm.max(cm.asarray(np.zeros((0, 3))), axis=1).shape == (0,)
    assert cm.argmax(cm.asarray(np.zeros((0, 3))), axis=1).shape == (0,)


def test_no_axes_and_zero_dimensions(device):
    x = np.array([[1.5, -2.0], [0.0, 4.0]], np.float32)
    for kind in ("sum", "prod", "mean", "max", "min"):
        assert np.array_equal(np.asarray(getattr(cm, kind)(cm.asarray(x), axis=())), x)
    for kind in ARITHMETIC + EXACT:
        check(kind, getattr(cm, kind)(cm.asarray(np.float32(3.0))), np.array(3.0, np.float32), None)
    assert np.array_equal(np.asarray(cm.any(cm.asarray(x), axis=())), x != 0)
    assert np.array_equal(np.asarray(cm.var(cm.asarray(x), axis=())), np.zeros_like(x))


def test_repeated_calls_agree_bit_for_bit(device):
    x = cm.asarray(np.random.default_rng(2).standard_normal((513, 4099)).astype(np.float32))
    for axis in (None, 0, 1):
        assert len({cm.sum(x, axis=axis).tobytes() for _ in range(5)}) == 1
        assert len({cm.var(x, axis=axis).tobytes() for _ in range(5)}) == 1


def test_methods(device):
    x = np.random.default_rng(2).standard_normal((3, 4))
    a = cm.asarray(x)
    for kind in (
        "sum",
        "prod",
        "mean",
        "var",
        "std",
        "min",
        "max",
        "argmin",
        "argmax",
        "any",
        "all",
    ):
        np.testing.assert_allclose(
            np.asarray(getattr(a, kind)(axis=1)), getattr(x, kind)(axis=1), rtol=1e-13
        )
        np.testing.assert_allclose(np.asarray(getattr(a, kind)()), getattr(x, kind)(), rtol=1e-13)


# -------------------- gradients


def slope(f, x, h=1e-6):
    """Central differences of a scalar function of a float64 array."""
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        g[i] = (f(up) - f(down)) / (2 * h)
    return g


FUNCTIONS = {
    **{
        kind: (lambda x, kind=kind, **k: getattr(cm, kind)(x, **k))
        for kind in ("sum", "mean", "prod", "var", "std", "max", "min", "vector_norm")
    },
    "norm1": lambda x, **k: cm.vector_norm(x, ord=1, **k),
    "norm3": lambda x, **k: cm.vector_norm(x, ord=3, **k),
    "norminf": lambda x, **k: cm.vector_norm(x, ord=math.inf, **k),
    "norm0": lambda x, **k: cm.vector_norm(x, ord=0, **k) + 0 * cm.sum(x),
    "var1": lambda x, **k: cm.var(x, correction=1, **k),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_gradient(device, name, axis, keepdims):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((3, 2, 4))
    f = FUNCTIONS[name]
    w = rng.standard_normal(f(cm.asarray(x), axis=axis, keepdims=keepdims).shape)

    def total(a):
        return cm.sum(f(a, axis=axis, keepdims=keepdims) * w)

    got = np.asarray(cm.grad(total)(cm.asarray(x)))
    expected = slope(lambda a: float(total(cm.asarray(a))), x)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "var", "std", "vector_norm", "norm1", "norm3", "norminf"]
)
def test_gradient_of_gradient(device, name):
    x = np.random.default_rng(4).standard_normal((2, 3)) + 0.2

    def first(a):
        return cm.sum(cm.grad(lambda b: cm.sum(FUNCTIONS[name](b, axis=1) ** 2))(a) ** 2)

    got = np.asarray(cm.grad(first)(cm.asarray(x)))
    np.testing.assert_allclose(
        got, slope(lambda a: float(first(cm.asarray(a))), x), rtol=2e-6, atol=1e-7
    )


def test_gradients_at_ties_and_zeros(device):
    x = cm.asarray(np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]]))
    g = cm.grad(lambda a: cm.sum(cm.max(a, axis=1)))(x)
    assert g.tolist() == [[0, 0.5, 0.5], [1, 0, 0]]
    y = cm.asarray(np.array([[2.0, 0.0, 5.0], [0.0, 0.0, 4.0], [1.0, 2.0, 3.0]]))
    assert cm.grad(lambda a: cm.sum(cm.prod(a, axis=1)))(y).tolist() == [
        [0, 10, 0],
        [0, 0, 0],
        [6, 3, 2],
    ]
    assert (
        cm.grad(lambda a: cm.sum(cm.vector_norm(a, axis=1)))(cm.asarray(np.zeros((2, 3)))).tolist()
        == [[0.0] * 3] * 2
    )


# -------------------- errors


def test_errors(device):
    x = cm.zeros((2, 3))
    for kind in ARITHMETIC + EXACT:
        call = getattr(cm, kind)
        with pytest.raises(ValueError, match=f"^{kind}: axis 2 is out of bounds"):
            call(x, axis=2)
        with pytest.raises(TypeError, match=f"^{kind}: axis must be"):
            call(x, axis=0.5)
        with pytest.raises(TypeError, match=f"^{kind}: "):
            call(object())
        if not kind.startswith("arg"):
            with pytest.raises(ValueError, match=f"^{kind}: repeated axis"):
                call(x, axis=(0, 0))
    for kind in ("argmax", "argmin"):
        with pytest.raises(TypeError, match=f"^{kind}: axis must be one integer or None"):
            getattr(cm, kind)(x, axis=(0, 1))
    for kind in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match=rf"^{kind}: no elements .* shape \(0, 3\)"):
            getattr(cm, kind)(cm.zeros((0, 3)), axis=0)
    with pytest.raises(ValueError, match="^var: ddof and correction"):
        cm.var(x, correction=1, ddof=1)
    with pytest.raises(TypeError, match="^std: correction must be a number"):
        cm.std(x, correction="one")
    with pytest.raises(ValueError, match="^matrix_norm: wants ord"):
        cm.matrix_norm(x, ord=3)
    with pytest.raises(ValueError, match="^matrix_norm: wants arrays of at least two"):
        cm.matrix_norm(cm.zeros(3))
    with pytest.raises(ValueError, match="^norm: wants one axis or two"):
        cm.norm(cm.zeros((2, 2, 2)), ord=1)


# -------------------- kernels, each by name

KINDS = ARITHMETIC[:2] + ["prod", "var", "std"] + EXACT
VERSIONS = ["plain", "small", "rows", "columns", "rows_split", "columns_split"]


def planned(x, kind, axis, version, keepdims=False, capability=(9, 0)):
    """The plan of a kernel version for a NumPy array as it would lie on a GPU."""
    from cudamath.kernels.reduce.dispatch import plan

    layout = Layout.of(x.shape, x.strides, x.dtype, 0, True)
    axes = (
        tuple(range(x.ndim))
        if axis is None
        else axis
        if isinstance(axis, tuple)
        else (axis % x.ndim,)
    )
    dtype = getattr(cm, kind)(wrapped(x), axis=axis).dtype
    with assume(capability):
        return plan(layout, kind=kind, axis=axes, keepdims=keepdims, dtype=dtype, version=version)


def wrapped(x):
    with cm.device("cpu"):
        return cm.asarray(x)


@pytest.mark.simulator
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "dtype",
    [np.dtype("f4"), np.dtype("f2"), BF16, np.dtype("f8"), np.dtype("i4"), np.dtype("u1"), BOOL],
    ids=str,
)
def test_plain_in_the_simulator(kind, dtype):
    x = numbers(np.random.default_rng(1), (3, 5, 4), dtype, kind)
    for axis in (None, 0, 1, (0, 2)):
        if kind.startswith("arg") and isinstance(axis, tuple):
            continue
        for seen in (x, x.transpose(2, 0, 1)[:, ::-1]):
            check(kind, cm.testing.simulate(planned(seen, kind, axis, "plain"), seen), seen, axis)


@pytest.mark.simulator
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, BOOL, *COMPLEX], ids=str)
def test_small_in_the_simulator(kind, dtype, monkeypatch):
    """One kernel for all dtypes of a kind, whose strides are arguments."""
    from simulated_gpu import give_vectors_and_warps

    from cudamath.kernels.reduce import small

    if dtype in COMPLEX and kind in ("var", "std"):
        pytest.skip("of complex numbers those of the parts are added")
    give_vectors_and_warps(monkeypatch)
    monkeypatch.setattr(small, "THREADS", 64)  # of a block: two warps
    x = numbers(np.random.default_rng(1), (3, 5, 4), dtype, kind)
    for seen, axes in (
        (x, (None, 0, (0, 2))),
        (x.swapaxes(0, 2)[:, ::-1, ::2], (1, -1, (0, 2))),
        (x[1], (0,)),
    ):
        for axis in axes:
            if kind.startswith("arg") and isinstance(axis, tuple):
                continue
            made = planned(seen, kind, axis, "small")
            assert [step.kernel.__name__ for step in made.steps] == ["reduce_small"]
            check(kind, cm.testing.simulate(made, seen), seen, axis)


@pytest.mark.simulator
@pytest.mark.parametrize("count", [1, 2, 31, 33, 127, 129, 300, 513])
def test_threads_that_share_a_small_result_in_the_simulator(count, monkeypatch):
    """A few lanes of a warp, a warp, several."""
    from simulated_gpu import give_vectors_and_warps

    give_vectors_and_warps(monkeypatch)
    x = numbers(np.random.default_rng(1), (3, count), np.dtype("f8"))
    for kind in ("sum", "argmax", "var", "all"):
        check(kind, cm.testing.simulate(planned(x, kind, 1, "small"), x), x, 1)


def test_the_version_fits_the_size():
    """Few elements share a kernel, whatever their dtype and strides."""
    from cudamath.kernels.compiler import lazy_numba

    if lazy_numba.SIMULATOR:
        pytest.skip("the simulator chooses no small version")
    kernels = set()
    for dtype in ("i1", "i2", "i4", "i8", "?"):
        x = np.zeros((8, 9, 10), dtype)
        for seen, axis in ((x, None), (x, 0), (x, 2), (x, (0, 2)), (x.T[::2, ::-1], 1)):
            (launch,) = planned(seen, "sum", axis, None).steps
            kernels.add(launch.kernel)
    assert len(kernels) == 1
    for shape, axis, name in (
        ((128, 128), 1, "reduce_small"),
        ((3, 4, 5, 6), (0, 2), "reduce_small"),
        ((128, 1290), 1, "reduce_rows"),
        ((128, 12900), 0, "reduce_columns"),
        ((2048,), 0, "reduce_small"),
        ((4096,), 0, "reduce_rows"),
        ((3, 0), 1, "reduce_plain"),
    ):
        floats = planned(np.zeros(shape, "f4"), "sum", axis, None).steps[0].kernel.__name__
        assert floats in ("reduce_rows", "reduce_columns", "reduce_plain"), shape
        assert planned(np.zeros(shape), "sum", axis, None).steps[0].kernel.__name__ == name, shape


@pytest.mark.simulator
def test_long_runs_in_the_simulator():
    x = numbers(np.random.default_rng(1), (2, 300), np.dtype("f4"))
    for kind in ("sum", "var", "argmax"):
        check(kind, cm.testing.simulate(planned(x, kind, 1, "plain"), x), x, 1)
    y = np.array([[1, 1, 7, 7], [np.nan, 1, np.nan, 3]], np.float32)
    assert cm.testing.simulate(planned(y, "argmax", 1, "plain"), y).tolist() == [2, 0]
    assert cm.testing.simulate(planned(y, "argmin", 1, "plain"), y).tolist() == [0, 0]


@pytest.mark.simulator
@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("kind", ["sum", "max", "var", "argmin"])
def test_versions_in_the_simulator(kind, version, monkeypatch):
    """Threads that share a result, whichever of those that meet at a barrier goes on first."""
    from simulated_gpu import give_vectors_and_warps

    from cudamath.kernels.compiler import simulator
    from cudamath.kernels.reduce import small

    give_vectors_and_warps(monkeypatch)
    monkeypatch.setattr(small, "THREADS", 64)
    rng = np.random.default_rng(1)
    shuffled = lambda threads: rng.permutation(np.array(threads, object)).tolist()  # noqa: E731
    axis = 1 if version.startswith("rows") else 0
    x = numbers(rng, (5 if axis else 40, 19 if version == "small" else 70), np.dtype("f4"), kind)
    for order in (reversed, iter, shuffled):
        monkeypatch.setattr(simulator, "next_order", order)
        plan = planned(x, kind, axis, version, capability=(7, 5))
        check(kind, cm.testing.simulate(plan, x), x, axis)


@pytest.mark.parametrize("kind", ["sum", "var"])
@pytest.mark.parametrize("columns", [1, 3, 31, 64, 1000])
def test_a_thread_of_the_second_launch_has_few_parts(kind, columns):
    """Few results of many segments are combined by as many threads as a sector of memory lets."""
    plan = planned(np.zeros((200_000, columns)), kind, 0, "columns_split")
    first, second = plan.steps
    (across, down, _), parts = second.block, first.grid[1]
    assert parts <= 4 * down or across == 4 and parts <= 20 * down
    assert second.grid[0] * across >= columns > (second.grid[0] - 1) * across


@pytest.mark.simulator
@pytest.mark.parametrize("version", ["rows", "rows_split"])
@pytest.mark.parametrize("dtype", [np.dtype("f2"), np.dtype("u1")], ids=str)
@pytest.mark.parametrize("kind", ["sum", "var", "argmax"])
def test_rows_between_borders_in_the_simulator(kind, dtype, version, monkeypatch):
    """Rows whose first elements lie before a load's border: each shift, and ends of each length."""
    from simulated_gpu import give_vectors_and_warps

    give_vectors_and_warps(monkeypatch)
    rng = np.random.default_rng(1)
    for shape in ((9, 129), (3, 3, 203)):
        x = numbers(rng, shape, dtype, kind)
        seen = x if len(shape) < 3 else x[:, :2]
        axis = len(shape) - 1
        plan = planned(seen, kind, axis, version, capability=(9, 0))
        check(kind, cm.testing.simulate(plan, seen), seen, axis)


@pytest.mark.simulator
def test_few_columns_of_many_parts_in_the_simulator(monkeypatch):
    from simulated_gpu import give_vectors_and_warps

    give_vectors_and_warps(monkeypatch)
    x = numbers(np.random.default_rng(1), (6000, 17), np.dtype("f8"), "var")
    plan = planned(x, "var", 0, "columns_split", capability=(7, 5))
    assert plan.steps[1].block[1] > 8
    check("var", cm.testing.simulate(plan, x), x, 0)


def test_the_divisor_is_as_exact_as_the_accumulator():
    """A correction that float32 rounds."""
    from cudamath.kernels.reduce.dispatch import plan

    for dtype, kind in (("f8", np.float64), ("i4", np.float64), ("c16", np.float64)):
        layout = Layout.new((10, 30), np.dtype(dtype), 0)
        result = np.dtype("f8")
        with assume((9, 0)):
            made = plan(layout, kind="var", axis=(1,), keepdims=False, dtype=result, correction=0.1)
        (divisor,) = [a for a in made.steps[-1].args if isinstance(a, np.floating)]
        assert type(divisor) is kind and divisor == 30 - 0.1


@pytest.mark.simulator
def test_no_elements_in_the_simulator():
    x = np.zeros((3, 0), np.float32)
    assert cm.testing.simulate(planned(x, "sum", 1, None), x).tolist() == [0, 0, 0]
    assert cm.testing.simulate(planned(x, "prod", 1, None), x).tolist() == [1, 1, 1]


# rows and columns that end before, at and after a vector, a warp's and a block's share, and a
# segment
SHAPES = [
    ((1, 1), 1),
    ((3, 3), 1),
    ((5, 127), 1),
    ((5, 128), 1),
    ((5, 129), 1),
    ((2, 1023), 1),
    ((2, 1024), 1),
    ((2, 4097), 1),
    ((501, 333), 1),
    ((3, 40_007), 1),
    ((1, 70_001), 1),
    ((2000, 17), 1),
    ((20_000, 3), 1),
    ((3, 5), 0),
    ((127, 33), 0),
    ((129, 128), 0),
    ((1025, 7), 0),
    ((5000, 260), 0),
    ((70_001, 1), 0),
    ((33_001, 31), 0),
    ((9, 40, 33), 1),
    ((8, 3, 28, 28), (0, 2, 3)),
    ((6, 5, 4, 3, 2), (0, 2, 4)),
]


@pytest.mark.gpu
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "kind", ["sum", "mean", "var", "max", "argmax", "argmin", "any", "count_nonzero"]
)
@pytest.mark.parametrize(
    "dtype",
    [np.dtype("f4"), np.dtype("f2"), BF16, np.dtype("f8"), np.dtype("i1"), np.dtype("u8"), BOOL],
    ids=str,
)
def test_versions_on_the_gpu(version, kind, dtype):
    rng = np.random.default_rng(8)
    for shape, axis in SHAPES:
        if kind.startswith("arg") and isinstance(axis, tuple):
            continue
        if version == "small" and len(shape) == 5:
            continue  # more dimensions than it has arguments for
        whole = numbers(rng, shape, dtype, kind)
        for x in (whole, np.asfortranarray(whole), whole[::-1]):
            if (
                version.endswith("split")
                and x.shape[axis if isinstance(axis, int) else axis[0]] < 2
            ):
                continue
            base = np.ascontiguousarray(whole)
            with cm.device("cuda:0"):
                a = cm.asarray(base)[::-1] if x is not whole and x.strides[0] < 0 else cm.asarray(x)
                plan = planned_on_gpu(a, kind, axis, version)
                check(kind, plan.bind(kind, [a._layout])(a), x, axis)


def planned_on_gpu(a, kind, axis, version):
    from cudamath.kernels.reduce.dispatch import plan

    axes = axis if isinstance(axis, tuple) else (axis,)
    dtype = getattr(cm, kind)(a, axis=axis).dtype
    return plan(a._layout, kind=kind, axis=axes, keepdims=False, dtype=dtype, version=version)


@pytest.mark.gpu
@pytest.mark.parametrize("version", VERSIONS)
def test_nan_and_ties_on_the_gpu(version):
    rng = np.random.default_rng(8)
    x = rng.integers(0, 3, (700, 600)).astype(np.float32)
    x[5, 7] = x[5, 300] = x[600, 7] = np.nan
    ends = x.copy()
    ends[9], ends[10], ends[:, 11], ends[:, 12] = (
        -np.inf,
        np.inf,
        -np.inf,
        np.inf,
    )  # nothing but what a search begins with
    ends[11, 3:] = -np.inf
    with cm.device("cuda:0"):
        for kind, values in (
            *((kind, ends) for kind in ("argmax", "argmin", "max", "min")),
            ("sum", x),
        ):
            a = cm.asarray(values)
            for axis in (0, 1):
                check(
                    kind,
                    planned_on_gpu(a, kind, axis, version).bind(kind, [a._layout])(a),
                    values,
                    axis,
                )


def test_a_small_array_is_one_launch():
    for shape, axis in (((4096,), 0), ((64, 64), 0), ((64, 64), 1)):
        assert len(planned(np.zeros(shape, np.float32), "sum", axis, None).steps) == 1
    assert len(planned(np.zeros(1 << 24, np.float32), "sum", 0, None).steps) == 2


@pytest.mark.parametrize(
    "kind",
    [
        "sum",
        "prod",
        "mean",
        "var",
        "std",
        "max",
        "min",
        "any",
        "all",
        "argmax",
        "argmin",
        "nansum",
        "nanmax",
        "count_nonzero",
    ],
)
def test_keepdims_of_other_types(device, kind):
    """What NumPy takes for true or false and what not, for the same reason on every device."""
    x = np.arange(6.0).reshape(2, 3)
    a = cm.asarray(x)
    for keepdims in (None, 0, 1, 2, np.int64(1), np.array(1), "a"):
        try:
            shape = getattr(np, kind)(x, axis=1, keepdims=keepdims).shape
        except TypeError:
            with pytest.raises(TypeError, match=rf"^{kind}: wants keepdims .*\(2, 3\)"):
                getattr(cm, kind)(a, axis=1, keepdims=keepdims)
        else:
            assert getattr(cm, kind)(a, axis=1, keepdims=keepdims).shape == shape


@pytest.mark.skipif(os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="plans of a GPU")
@pytest.mark.parametrize(
    "kind, shape, block",
    [
        ("sum", (65_536, 4096), (256, 1)),
        ("max", (65_536, 3072), (64, 1)),
        ("any", (65_536, 4096), (256, 1)),
        ("sum", (65_536, 800), (32, 8)),
        ("sum", (65_536, 64), (4, 64)),
        ("sum", (16_384, 65_536), (512, 1)),
        ("var", (65_536, 4096), (32, 8)),
        ("argmax", (16_384, 16_384), (32, 8)),
        ("var", (2048, 32_768), (64, 1)),
        ("var", (100, 32_768), (1024, 1)),
    ],
)
def test_threads_of_a_row(kind, shape, block):
    """Many for one number where a row is long, a warp for several numbers where there are rows
    enough."""
    from cudamath.kernels.reduce.dispatch import plan

    x = Layout.new(shape, np.dtype("f4"), 0)
    dtype = {"argmax": np.dtype(int), "any": BOOL}.get(kind, x.dtype)
    with assume((9, 0)):
        (step,) = plan(x, kind=kind, axis=(1,), keepdims=False, dtype=dtype).steps
    assert step.block[:2] == block


@pytest.mark.skipif(os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="plans of a GPU")
@pytest.mark.parametrize(
    "dtype, shape, block",
    [
        ("f2", (8192, 64, 256), (256, 1)),
        (BF16, (32_768, 16, 256), (256, 1)),
        ("f4", (8192, 64, 256), (32, 8)),
        ("f2", (80, 64, 256), (32, 8)),
        ("f2", (8192, 128, 256), (128, 2)),
    ],
)
def test_threads_of_a_column(dtype, shape, block):
    """Small elements want more of them for each thread, where columns are many."""
    from cudamath.kernels.reduce.dispatch import plan

    x = Layout.new(shape, np.dtype(dtype), 0)
    with assume((9, 0)):
        (step,) = plan(x, kind="sum", axis=(1,), keepdims=False, dtype=x.dtype).steps
    assert step.block[:2] == block and step.grid[0] == -(
        -shape[0] * shape[2] * x.itemsize // (16 * block[0])
    )


@pytest.mark.parametrize("given", [*INTS, BOOL], ids=str)
@pytest.mark.parametrize("wanted", INTS, ids=str)
def test_means_as_whole_numbers(device, given, wanted):
    """Of the sum in that dtype, which wraps; not of numbers that were converted one by one."""
    rng = np.random.default_rng(0)
    for shape, axis in (((7,), None), ((3, 400), 1), ((3, 400), None), ((2, 3, 4), (0, 2))):
        x = (rng.integers(0, 256, shape).astype(np.uint8) - 100).astype(np.int8).astype(given)
        for where in (True, x > 0):
            for keepdims in (False, True):
                options = {"axis": axis, "dtype": wanted, "keepdims": keepdims, "where": where}
                expected = np.mean(x, **options)
                y = np.asarray(cm.mean(cm.asarray(x), **options))
                np.testing.assert_array_equal(y, expected)
                assert y.dtype == wanted
