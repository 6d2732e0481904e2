"""The fully connected layer with its activation and residual: values, gradients, errors; versions
by name on a GPU."""

import math

import ml_dtypes
import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.runtime.device import assume
from cudamath.runtime.rehearsal import libraries

erfc = np.vectorize(math.erfc, otypes=[float])
BF16 = np.dtype(ml_dtypes.bfloat16)
F = {
    None: lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "gelu": lambda z: z * 0.5 * erfc(-z / np.sqrt(2)),
    "gelu_tanh": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
}
TOLERANCE = {np.dtype("f8"): 1e-12, np.dtype("f4"): 2e-6, np.dtype("f2"): 2.0**-10, BF16: 2.0**-7}


def operands(rng, rows, inner, out, dtype):
    shapes = ((*rows, inner), (out, inner), (out,), (*rows, out))
    return [
        (rng.standard_normal(s) / (inner**0.5 if i == 1 else 1)).astype(dtype)
        for i, s in enumerate(shapes)
    ]


def check(got, x, w, b, r, activation):
    x, w, b, r = (None if a is None else a.astype(np.float64) for a in (x, w, b, r))
    z = x @ w.T + (0 if b is None else b)
    expected = F[activation](z) + (0 if r is None else r)
    got = got.to_numpy()
    least = TOLERANCE[got.dtype] * np.abs(z).max()
    np.testing.assert_allclose(
        got.astype(np.float64), expected, rtol=TOLERANCE[got.dtype], atol=least
    )


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("activation", F)
def test_values(device, dtype, activation):
    rng = np.random.default_rng(1)
    for rows, inner, out in (
        ((), 3, 8),
        ((5,), 33, 16),
        ((2, 3), 64, 40),
        ((70,), 100, 7),
        ((0,), 4, 8),
        ((3,), 0, 8),
    ):
        x, w, b, r = (
            operands(rng, rows, inner, out, dtype)
            if inner
            else [np.zeros(s, dtype) for s in ((*rows, 0), (out, 0), (out,), (*rows, out))]
        )
        for bias, residual in ((b, r), (None, r), (b, None), (None, None)):
            arrays = [None if a is None else cm.asarray(a) for a in (x, w, bias, residual)]
            got = cm.ml.linear(*arrays[:3], activation=activation, residual=arrays[3])
            assert got.shape == (*rows, out) and got.dtype == dtype
            if got.size:
                check(got, x, w, bias, residual, activation)


@pytest.mark.parametrize("activation", F)
def test_gradients(device, activation):
    """Against the same function of products and sums, forward and one order further."""
    rng = np.random.default_rng(2)
    arrays = [cm.asarray(a) for a in operands(rng, (2, 3), 4, 5, np.dtype("f8"))]

    def ours(x, w, b, r):
        return (cm.ml.linear(x, w, b, activation=activation, residual=r) ** 2).sum()

    def apart(x, w, b, r):
        z = x @ w.mT + b
        if activation:
            z = (
                cm.ml.gelu(z, "tanh")
                if activation == "gelu_tanh"
                else cm.ml.activation(z, activation)
            )
        return ((z + r) ** 2).sum()

    for got, expected in zip(
        cm.grad(ours, (0, 1, 2, 3))(*arrays), cm.grad(apart, (0, 1, 2, 3))(*arrays), strict=True
    ):
        np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-11)

    def slope(function):
        return lambda x, w, b, r: sum(
            (g**2).sum() for g in cm.grad(function, (0, 1, 2))(x, w, b, r)
        )

    for got, expected in zip(
        cm.grad(slope(ours), (0, 1))(*arrays), cm.grad(slope(apart), (0, 1))(*arrays), strict=True
    ):
        np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-10)


def test_errors(device):
    x, w = cm.zeros((2, 3)), cm.zeros((4, 3))
    with pytest.raises(ValueError, match="^linear: activation is one of 'relu', .* got 'cube'"):
        cm.ml.linear(x, w, activation="cube")
    with pytest.raises(
        ValueError,
        match=r"^linear: x \(2, 3\) and weight \(4, 3\) want a residual of .*\(2, 4\), got \(4,\)",
    ):
        cm.ml.linear(x, w, residual=cm.zeros(4))
    with pytest.raises(
        ValueError, match=r"^linear: weight \(4, 3\) wants a bias of shape \(4,\), got \(3,\)"
    ):
        cm.ml.linear(x, w, cm.zeros(3), activation="relu")


def plan_of(x, w, b, r, activation, version, capability=(9, 0)):
    from cudamath.kernels.matmul.linear import linear

    layouts = [None if a is None else Layout.new(a.shape, a.dtype, 0) for a in (x, w, b, r)]
    with assume(capability):
        return linear(*layouts, activation=activation or "", version=version), [
            x for x in layouts if x is not None
        ]


def test_one_kernel_on_hopper():
    if lazy_numba.SIMULATOR:
        pytest.skip("planned without the simulator")
    x, w, b, r = operands(np.random.default_rng(0), (2, 64), 128, 256, BF16)
    plan, _ = plan_of(x, w, b, r, "gelu", None)
    assert [s.kernel.__name__ for s in plan.steps if isinstance(s, Launch)] == [
        "matmul_wgmma"
    ] and len(plan.steps) == 1
    for capability, out in (((8, 0), 256), ((9, 0), 255)):
        plan, _ = plan_of(x, w[:out], b[:out], r[..., :out], "gelu", None, capability)
        assert len(plan.steps) > 1


def test_cublaslt_adds_the_bias_of_float32():
    """Not where an activation or a residual follows, nor of float64."""
    if lazy_numba.SIMULATOR:
        pytest.skip("planned without the simulator")
    x, w, b, r = operands(np.random.default_rng(0), (4096,), 512, 2048, np.dtype("f4"))
    with libraries("cublas"):
        assert "cuBLASLt" in plan_of(x, w, b, None, None, None)[0].why
        for options in ((r, None), (None, "relu")):
            assert "cuBLASLt" not in plan_of(x, w, b, *options, None)[0].why
        wide = [a.astype("f8") for a in (x, w, b)]
        assert "cuBLASLt" not in plan_of(*wide, None, None, None)[0].why


@pytest.mark.gpu
@pytest.mark.parametrize(
    "version", ["sm90 128x256", "sm90 128x128 pingpong", "sm90 64x128", "cublas", "unfused"]
)
@pytest.mark.parametrize("dtype", [BF16, np.dtype("f2"), np.dtype("f4")], ids=str)
def test_versions_on_the_gpu(version, dtype):
    if version.startswith("sm90") and dtype.itemsize > 2:
        pytest.skip("16-bit numbers")
    rng = np.random.default_rng(3)
    with cm.device("cuda:0"):
        if version.startswith("sm90") and cm.cuda.devices()[0].capability != (9, 0):
            pytest.skip("compute capability 9.0")
        for activation in F:
            for rows, inner, out in (((300,), 200, 264), ((2, 65), 64, 128)):
                x, w, b, r = operands(rng, rows, inner, out, dtype)
                for bias, residual in ((b, r), (None, r), (b, None)):
                    if activation not in (None, "gelu") and (bias is None or residual is None):
                        continue
                    if version == "cublas" and (activation or bias is None or residual is not None):
                        continue
                    plan, layouts = plan_of(x, w, bias, residual, activation, version)
                    given = [cm.asarray(a) for a in (x, w, bias, residual) if a is not None]
                    check(plan.bind("linear", layouts)(*given), x, w, bias, residual, activation)
