"""Two layers with an activation between: values and gradients against the layers apart, errors,
plans, versions on a GPU."""

import importlib

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.autograd import tape
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.runtime.device import assume
from tests.ml.test_linear import BF16, TOLERANCE, F

ACTIVATIONS = [f for f in F if f]


def operands(rng, rows, inner, hidden, out, dtype):
    shapes = ((*rows, inner), (hidden, inner), (hidden,), (out, hidden), (out,), (*rows, out))
    scales = (1, inner**-0.5, 0.5, hidden**-0.5, 0.5, 1)
    return [
        (rng.standard_normal(s) * scale).astype(dtype)
        for s, scale in zip(shapes, scales, strict=True)
    ]


def apart(x, w1, b1, w2, b2, residual, activation):
    """NumPy, in float64."""
    x, w1, b1, w2, b2, residual = (
        None if a is None else a.astype(np.float64) for a in (x, w1, b1, w2, b2, residual)
    )
    h = F[activation](x @ w1.T + (0 if b1 is None else b1))
    return h @ w2.T + (0 if b2 is None else b2) + (0 if residual is None else residual)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_may_be_computed_again(device, activation):
    """The gradients are the same, also of second order; the node keeps one hidden array of two,
    and never the result."""
    rng = np.random.default_rng(2)
    arrays = [cm.asarray(a) for a in operands(rng, (4,), 3, 8, 5, np.float64)]

    def loss(arrays, recompute):
        return (cm.ml.mlp(*arrays[:5], activation=activation, recompute=recompute) ** 3).sum()

    def penalty(arrays, recompute):
        return sum((g**2).sum() for g in cm.grad(loss)(arrays, recompute)[:5])

    for function in (loss, penalty):
        for g, h in zip(
            *(cm.grad(function)(arrays, again) for again in (True, False)), strict=True
        ):
            np.testing.assert_allclose(g.to_numpy(), h.to_numpy(), rtol=1e-10, atol=1e-12)

    def kept(recompute):
        found = []

        def seen(arrays):
            y = cm.ml.mlp(*arrays, activation=activation, recompute=recompute)
            found.extend(tape.owner(y._node).results)
            return y.sum()

        cm.grad(seen)(arrays[:5])
        return [x is not None for x in found]

    assert kept(False) == [False, True, True] and kept(True) == [False, False, True]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_values(device, dtype, activation):
    rng = np.random.default_rng(1)
    for rows, sizes, missing in (
        ((5,), (16, 24, 8), ()),
        ((2, 3), (17, 9, 5), (2,)),
        ((), (8, 16, 8), (4, 5)),
        ((0,), (4, 8, 8), ()),
    ):
        arrays = operands(rng, rows, *sizes, dtype)
        arrays = [None if i in missing else a for i, a in enumerate(arrays)]
        *given, residual = [None if a is None else cm.asarray(a) for a in arrays]
        expected = apart(*arrays, activation)
        plain = cm.ml.mlp(*given, activation=activation, residual=residual)
        kept, pull = cm.vjp(
            lambda x: cm.ml.mlp(x, *given[1:], activation=activation, residual=residual),
            given[0],  # noqa: B023
        )  # noqa: B023
        for got in (plain, kept):
            assert got.shape == expected.shape and got.dtype == dtype
            if got.size:
                least = 2 * TOLERANCE[dtype] * np.abs(expected).max()
                np.testing.assert_allclose(
                    got.to_numpy().astype(np.float64),
                    expected,
                    rtol=2 * TOLERANCE[dtype],
                    atol=least,
                )
        (slope,) = pull(kept)
        assert slope.shape == arrays[0].shape


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients(device, activation):
    """Against the two layers apart, and one order further."""
    rng = np.random.default_rng(2)
    arrays = [cm.asarray(a) for a in operands(rng, (2, 3), 4, 6, 5, np.dtype("f8"))]

    def ours(x, w1, b1, w2, b2, residual):
        return (cm.ml.mlp(x, w1, b1, w2, b2, activation=activation, residual=residual) ** 2).sum()

    def two(x, w1, b1, w2, b2, residual):
        z = x @ w1.mT + b1
        h = cm.ml.gelu(z, "tanh") if activation == "gelu_tanh" else cm.ml.activation(z, activation)
        return ((h @ w2.mT + b2 + residual) ** 2).sum()

    every = tuple(range(6))
    for got, expected in zip(
        cm.grad(ours, every)(*arrays), cm.grad(two, every)(*arrays), strict=True
    ):
        np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-10)

    def steepness(function):
        return lambda *args: sum((g**2).sum() for g in cm.grad(function, every)(*args))

    for got, expected in zip(
        cm.grad(steepness(ours), every)(*arrays),
        cm.grad(steepness(two), every)(*arrays),
        strict=True,
    ):
        np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-9)


@pytest.mark.parametrize(
    "which, products", [((0,), 1), ((1,), 1), ((3,), 1), ((0, 3), 2), ((0, 1, 3), 3), ((4,), 0)]
)
def test_frozen_weights_cost_nothing(monkeypatch, which, products):
    """Of x, w1 and w2 only the gradients that are requested are computed, and they are what they
    are together."""
    module = importlib.import_module("cudamath.ml.mlp")  # `ml.mlp` is the function
    rng = np.random.default_rng(3)
    arrays = [cm.asarray(a, device="cpu") for a in operands(rng, (2, 3), 4, 6, 5, np.dtype("f8"))]
    every = cm.grad(lambda *a: (cm.ml.mlp(*a[:5], residual=a[5]) ** 2).sum(), tuple(range(6)))(
        *arrays
    )
    count, matmul = [], module.linalg_products.matmul
    monkeypatch.setattr(
        module.linalg_products, "matmul", lambda *a: (count.append(1), matmul(*a))[1]
    )
    found = cm.grad(lambda *a: (cm.ml.mlp(*a[:5], residual=a[5]) ** 2).sum(), which)(*arrays)
    assert len(count) == products
    for i, g in zip(which, found, strict=True):
        np.testing.assert_array_equal(g.to_numpy(), every[i].to_numpy())


def test_errors(device):
    x, w1, w2 = cm.zeros((2, 3)), cm.zeros((4, 3)), cm.zeros((5, 4))
    with pytest.raises(ValueError, match="^mlp: activation is one of 'relu', .* got 'cube'"):
        cm.ml.mlp(x, w1, None, w2, None, activation="cube")
    with pytest.raises(ValueError, match=r"^mlp: wants x .* got \(2, 3\), \(4, 3\) and \(4, 5\)"):
        cm.ml.mlp(x, w1, None, w2.mT, None)
    with pytest.raises(ValueError, match=r"^mlp: .* want b2 of shape \(5,\), got \(4,\)"):
        cm.ml.mlp(x, w1, None, w2, cm.zeros(4))
    with pytest.raises(TypeError, match="^mlp"):
        cm.ml.mlp(cm.zeros((2, 3), dtype="int32"), w1, None, w2, None)


def test_two_kernels_on_hopper():
    """Each layer is one kernel there, also where the hidden numbers are kept; and so is the
    gradient's first product."""
    if lazy_numba.SIMULATOR:
        pytest.skip("planned without the simulator")
    from cudamath.kernels.matmul import mlp

    x, w1, b1, w2, b2, r, z = (
        Layout.new(s, BF16, 0)
        for s in ((2, 64, 64), (128, 64), (128,), (64, 128), (64,), (2, 64, 64), (2, 64, 128))
    )
    for capability, first, second in (((9, 0), 1, 1), ((8, 0), 3, 2)):
        with assume(capability):
            plan = mlp.mlp(x, w1, b1, w2, b2, r, activation="gelu_tanh")
            slope = mlp.product_slope(r, w2, z, activation="gelu_tanh")
        assert len([s for s in plan.steps if isinstance(s, Launch)]) == first + second
        assert [o.shape for o in plan.outputs] == [(2, 64, 64), (2, 64, 128), (2, 64, 128)]
        assert len(slope.steps) == (1 if capability == (9, 0) else 2)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "version", ["sm90 128x256", "sm90 64x256 pingpong", "sm90 128x128 pingpong", "unfused"]
)
@pytest.mark.parametrize("dtype", [BF16, np.dtype("f2")], ids=str)
def test_versions_on_the_gpu(version, dtype):
    from cudamath.kernels.matmul import mlp

    rng = np.random.default_rng(3)
    with cm.device("cuda:0"):
        if version != "unfused" and cm.cuda.devices()[0].capability != (9, 0):
            pytest.skip("compute capability 9.0")
        for activation in ACTIVATIONS:
            for rows, sizes in (((300,), (200, 264, 136)), ((2, 65), (64, 128, 72))):
                arrays = operands(rng, rows, *sizes, dtype)
                given = [cm.asarray(a) for a in arrays]
                layouts = [a._layout for a in given]
                y, h, z = mlp.mlp(*layouts, activation=activation, version=version).bind(
                    "mlp", layouts
                )(*given)
                wide = [a.astype(np.float64) for a in arrays]
                exact = wide[0] @ wide[1].T + wide[2]
                near = [(z, exact), (h, F[activation](exact)), (y, apart(*arrays, activation))]
                g = cm.asarray(rng.standard_normal((*rows, sizes[2])).astype(dtype))
                layouts = [g._layout, given[3]._layout, z._layout]
                got = mlp.product_slope(*layouts, activation=activation, version=version).bind(
                    "slope", layouts
                )(g, given[3], z)
                kept, step = z.to_numpy().astype(np.float64), 1e-4
                slope = (F[activation](kept + step) - F[activation](kept - step)) / (2 * step)
                if activation == "relu":
                    slope = kept > 0
                near.append((got, g.to_numpy().astype(np.float64) @ wide[3] * slope))
                for found, expected in near:
                    close = 2 * TOLERANCE[dtype]
                    np.testing.assert_allclose(
                        found.to_numpy().astype(np.float64),
                        expected,
                        rtol=close,
                        atol=close * np.abs(expected).max(),
                    )
