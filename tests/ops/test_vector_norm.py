"""Norms of vectors and matrices against NumPy in float64: every order, dtype and axis, NaN,
nothing; power_norm by name."""

import itertools
import math

import numpy as np
import pytest
from fake_driver import FakeDriver, gpu
from gradient_checks import check_second_order
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.core.layout import Layout
from tests.ops.test_reduce import BF16, eps_of, numbers, wide


@pytest.mark.parametrize(
    "dtype", [np.dtype("f4"), np.dtype("f8"), np.dtype("c8"), np.dtype("i4")], ids=str
)
@pytest.mark.parametrize("ord", [2, 1, 0, math.inf, -math.inf, 3, 0.5])
def test_vector_norm(device, ord, dtype):
    x = numbers(np.random.default_rng(1), (4, 5, 6), dtype)
    for axis in (None, 0, (0, 2), (2, 1, 0)):
        expected = np.linalg.vector_norm(wide(x), axis=axis, ord=ord)
        got = cm.vector_norm(cm.asarray(x), axis=axis, ord=ord)
        np.testing.assert_allclose(
            np.asarray(got),
            expected,
            rtol=3e-6
            if dtype.itemsize // (1 + (dtype.kind == "c")) == 4 and dtype.kind != "i"
            else 1e-13,
        )


@pytest.mark.parametrize("dtype", [*map(np.dtype, ("f4", "f2", "f8", "c16", "i1")), BF16], ids=str)
@pytest.mark.parametrize("ord", [3, 0.5, 2.5, -1, np.float32(4)])
def test_norms_of_any_order(device, ord, dtype):
    """power_norm, and beyond its length the passes that it stands for; 16-bit powers would
    overflow. Also of a second call."""
    rng = np.random.default_rng(5)
    x = (numbers(rng, (3, 4, 5), np.dtype("f4")) * 20 + 3).astype(dtype)
    long = (rng.random((2, 20_000)) + 1.5).astype(dtype)
    for seen, axes in (
        (x, (None, 0, (0, 2), (2, 1, 0))),
        (x.transpose(2, 0, 1)[:, ::-1], (None, 1, (0, 2))),
        (long, (1, 0)),
    ):
        for axis in axes:
            with np.errstate(all="ignore"):
                want = np.asarray(np.linalg.vector_norm(wide(seen), axis=axis, ord=float(ord)))
            for keepdims in (False, True, False):
                got = cm.vector_norm(cm.asarray(seen), axis=axis, ord=ord, keepdims=keepdims)
                assert got.dtype == (np.dtype("f8") if dtype.kind in "ic" else dtype)
                with np.errstate(over="ignore"):
                    limited = wide(want.astype(got.dtype))
                inner = np.dtype("f4") if got.dtype.itemsize < 8 else got.dtype
                np.testing.assert_allclose(
                    wide(np.asarray(got)).reshape(want.shape),
                    limited,
                    rtol=40 * eps_of(inner) + 2 * eps_of(got.dtype),
                )
    assert cm.vector_norm(cm.zeros((0, 3)), axis=0, ord=3).tolist() == [0, 0, 0]
    assert cm.vector_norm(cm.zeros((0, 3)), axis=1, ord=3).shape == (0,)


def any_gradients(dtypes, orders, axes=(None, 1, (0, 2), (-1,))):
    """sign(x) (|x| / y)^(order - 1), in float64; 0 where an element or a norm is 0, as where a line
    has no other."""
    for dtype, ord in itertools.product(map(np.dtype, dtypes), orders):
        x = numbers(np.random.default_rng(2), (4, 3, 5), dtype)
        x[1], x[2, 0, ::2] = 0, -0.0
        for axis in axes:
            g = numbers(np.random.default_rng(3), np.sum(x, axis=axis).shape, dtype)
            with np.errstate(all="ignore"):
                y = np.linalg.vector_norm(wide(x), axis=axis, ord=ord, keepdims=True)
                want = (
                    np.sign(wide(x)) * (np.abs(wide(x)) / y) ** (ord - 1) * wide(g).reshape(y.shape)
                )
            want = np.where((x == 0) | (y == 0), 0, want)
            for keepdims in (False, True):
                _, pull = cm.vjp(
                    lambda v: cm.vector_norm(v, axis=axis, ord=ord, keepdims=keepdims),  # noqa: B023
                    cm.asarray(x),
                )  # noqa: B023
                (got,) = pull(cm.asarray(g.reshape(y.shape) if keepdims else g))
                assert got.dtype == dtype
                np.testing.assert_allclose(np.asarray(got), want, rtol=60 * eps_of(dtype))


def test_gradients_of_any_order(device):
    any_gradients(("f4", "f8", "f2", BF16), (3, 0.5, 2.5, 1.5, -1))


@pytest.mark.parametrize(
    ("ord", "dtype", "length"),
    [
        *itertools.product((0.5, 1.5, 3, -1, 2, 1, math.inf, 0), ("f4", "f8", "f2", "c16"), (3,)),
        *itertools.product((1.5, 3), ("f8", "f2", "c8"), (20_000,)),
    ],
    ids=str,
)
def test_derivatives_at_zero_vectors(device, ord, dtype, length):
    """0 where the vector is, the first and the second ones, beside another vector that has them as
    they are."""
    x = np.zeros((3, length), dtype)
    x[1:, 0], x[2, 1] = 2, 1
    slope = cm.grad(lambda v: cm.real(cm.vector_norm(v, axis=1, ord=ord)).sum())
    first = np.asarray(slope(cm.asarray(x)))
    weights = cm.asarray(
        np.arange(x.size).reshape(x.shape) % 5 + 1, "float32" if dtype == "f2" else dtype
    )
    second = cm.grad(lambda v: cm.real((slope(v) * weights).sum()))(cm.asarray(x)).to_numpy()
    assert np.isfinite(wide(first)).all() and np.isfinite(wide(second)).all()
    assert not first[0].any() and not second[0].any()
    if ord not in (-1, 0):
        np.testing.assert_allclose(wide(first[1, :2]), [1, 0], atol=4 * eps_of(first.real.dtype))
        if ord not in (1, math.inf):
            y = (2.0**ord + 1) ** (1 / ord)
            want = [(2 / y) ** (ord - 1), y ** (1 - ord)]
            np.testing.assert_allclose(wide(first[2, :2]), want, rtol=8 * eps_of(first.real.dtype))


@pytest.mark.simulator
def test_gradients_of_any_order_simulated(monkeypatch):
    with simulated_gpu(monkeypatch):
        any_gradients(("f4",), (3,), ((1, 2),))


@pytest.mark.parametrize("ord", [3, 2.5, -2])
def test_second_derivatives_of_any_order(device, ord):
    x = np.random.default_rng(4).standard_normal((3, 5))
    for axis in (None, 0, 1):
        check_second_order(lambda v: cm.vector_norm(v, axis=axis, ord=ord), x)  # noqa: B023


def test_launches_of_a_gradient_of_any_order(fake):
    """The norm, its sum, how the norm depends on each element, and the product of that and of the
    sum's gradient."""
    x = gpu(np.ones((4, 6), np.float32))
    with cm.device("cuda"):
        slope = cm.grad(lambda v: cm.vector_norm(v, axis=1, ord=3).sum())
        for _ in range(2):
            fake.launches.clear()
            slope(x)
            names = [launch[0] for launch in fake.launches]
            assert len(names) == 4
            assert names[0] == "power_norm" and names[1] in ("reduce_rows", "reduce_columns")


@pytest.mark.parametrize(
    ("shape", "kernels"),
    [
        ((3, 5), ["power_norm"]),
        ((8192, 127), ["power_norm"]),
        ((8193, 127), None),
        ((8193, 128), ["power_norm"]),
        ((1, 1 << 14), ["power_norm"]),
        ((1, (1 << 14) + 1), None),
        ((0, 5), []),
        ((5, 0), ["power_norm"]),
    ],
)
def test_which_vectors_have_a_block_each(shape, kernels, fake, monkeypatch):
    """Neither long ones nor many of a few elements, of which most of a block would be idle."""
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda"):
        x = cm.empty(shape, "float32")
        for _ in range(2):
            fake.launches.clear()
            cm.vector_norm(x, axis=1, ord=3)
            found = [launch[0] for launch in fake.launches]
            assert (
                found == kernels
                if kernels is not None
                else "power_norm" not in found and len(found) > 1
            )


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_vector_norms_of_what_is_not_finite(device, dtype):
    """NaN stays, signed zeros are zeros; one pass and, on a large array, several blocks of it."""
    x = np.zeros((6, 40_000), dtype)
    x[0, 7], x[1, 3], x[2, 5], x[3] = np.nan, -np.inf, -2, -0.0
    x[4] = 1 - x[0].real.astype(dtype) * 0
    for axis in (1, None):
        for ord in (0, 1, math.inf, -math.inf):
            want = np.linalg.vector_norm(x, axis=axis, ord=ord)
            np.testing.assert_array_equal(
                np.asarray(cm.vector_norm(cm.asarray(x), axis=axis, ord=ord)), want
            )
        assert cm.vector_norm(cm.zeros((0, 3)), axis=1, ord=ord).shape == (0,)
    with pytest.raises(
        ValueError,
        match="^vector_norm: no elements to choose from along axes .0,. of an array of shape",
    ):
        cm.vector_norm(cm.zeros((0, 3)), axis=0, ord=-math.inf)
    for ord in (1, math.inf):
        assert cm.vector_norm(cm.zeros((0, 3)), axis=0, ord=ord).tolist() == [0, 0, 0]
        assert cm.vector_norm(cm.zeros((0, 3)), axis=(0, 1), ord=ord, keepdims=True).tolist() == [
            [0]
        ]


@pytest.mark.parametrize("ord", ["fro", 1, -1, math.inf, -math.inf])
def test_matrix_norm(device, ord):
    x = np.random.default_rng(1).standard_normal((3, 5, 4))
    for keepdims in (False, True):
        expected = np.linalg.matrix_norm(x, ord=ord, keepdims=keepdims)
        np.testing.assert_allclose(
            np.asarray(cm.matrix_norm(cm.asarray(x), ord=ord, keepdims=keepdims)),
            expected,
            rtol=1e-13,
        )
        for axis in ((0, 1), (2, 0), (1, 2)):
            expected = np.linalg.norm(x, ord=ord, axis=axis, keepdims=keepdims)
            got = cm.norm(cm.asarray(x), ord=ord, axis=axis, keepdims=keepdims)
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-13)
    np.testing.assert_allclose(float(cm.norm(cm.asarray(x))), np.linalg.norm(x), rtol=1e-13)
    np.testing.assert_allclose(
        np.asarray(cm.norm(cm.asarray(x), axis=1)), np.linalg.norm(x, axis=1), rtol=1e-13
    )


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 2, 3)])
@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_norms_of_empty_matrices(device, ord, shape):
    """The largest of no sizes is 0 (as since NumPy 2.3); the smallest is refused, in the function's
    own words."""
    m, n = shape[-2:]
    chosen = {-1: n, -2: min(m, n), -math.inf: m}
    x = cm.zeros(shape)
    for keepdims in (False, True):
        if ord in chosen and not chosen[ord]:
            with pytest.raises(ValueError, match="^matrix_norm: no elements to choose from"):
                cm.matrix_norm(x, ord=ord, keepdims=keepdims)
            continue
        found = cm.matrix_norm(x, ord=ord, keepdims=keepdims)
        assert found.shape == shape[:-2] + (1, 1) * keepdims and not np.asarray(found).any()


@pytest.mark.simulator
@pytest.mark.parametrize("ord", [0, 1, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "c8"])
def test_norms_in_the_simulator(ord, dtype):
    from cudamath.kernels.reduce.dispatch import plan

    x = numbers(np.random.default_rng(1), (3, 5, 4), np.dtype(dtype))
    x[1, :2] = 0
    target = np.dtype({"i1": "f8", "c8": "f4"}.get(dtype, dtype))
    for axis in ((0, 1, 2), (0,), (2,), (1, 2)):
        made = plan(
            Layout.new(x.shape, x.dtype, 0),
            kind=f"norm {ord}",
            axis=axis,
            keepdims=False,
            dtype=target,
            version="plain",
        )
        got = cm.testing.simulate(made, x)
        want = np.linalg.vector_norm(wide(x), axis=axis, ord=ord)
        assert got.dtype == target and got.shape == want.shape
        np.testing.assert_allclose(wide(got), want, rtol=8 * eps_of(target))


@pytest.mark.simulator
@pytest.mark.parametrize("ord", [3, 0.5])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "c8"])
def test_power_norm_in_the_simulator(ord, dtype):
    from cudamath.kernels.reduce.power_norm import power_norm

    x = numbers(np.random.default_rng(1), (3, 5, 4), np.dtype(dtype))
    target = np.dtype({"i1": "f8", "c8": "f4"}.get(dtype, dtype))
    for seen in (x, x.transpose(2, 0, 1)[:, ::-1]):
        for axis in ((0, 1, 2), (0,), (1, 2)):
            layout = Layout.of(seen.shape, seen.strides, seen.dtype, 0, True)
            got = cm.testing.simulate(
                power_norm(layout, axis=axis, keepdims=False, dtype=target), seen, scalars=(ord,)
            )
            want = np.linalg.vector_norm(wide(seen), axis=axis, ord=ord)
            np.testing.assert_allclose(
                wide(got), wide(want.astype(target)), rtol=16 * eps_of(target)
            )
