"""Gradients of products: of all the others, where factors are 0 and where the product of all is
beyond the dtype."""

import itertools

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.ops import reduction_op, scan


def others(x, axis):
    """The product along axes of all elements but each itself, one by one."""
    found = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        rest = x.copy()
        rest[place] = 1
        found[place] = np.prod(rest, axis=axis)[
            tuple(j for i, j in enumerate(place) if i not in axis)
        ]
    return found


def running(x, w):
    """The gradient of the running products of a vector, weighted."""
    return np.array(
        [
            sum(w[j] * np.prod(np.delete(x[: j + 1], i)) for j in range(i, len(x)))
            for i in range(len(x))
        ]
    )


@pytest.fixture(params=["division", "running products"])
def way(request, monkeypatch):
    """On the CPU a division, where it is exact; the GPU's way on all devices."""
    if request.param == "running products":
        monkeypatch.setattr(reduction_op, "normal", lambda x: False)
        monkeypatch.setattr(scan, "normal", lambda x: False)


BEYOND = [
    ("float16", [0.01] * 4),
    ("float16", [300.0, 300.0]),
    ("float16", [1e-4, 1e-4, 1e-4, 1e4]),
    ("bfloat16", [1e20] * 2),
    ("float32", [1e20, 1e20]),
    ("float32", [1e-30, 1e-25]),
    ("float64", [1e200, 1e200]),
    ("float64", [1e-200, 1e-150]),
    ("float32", [1e25, 1e25, 0.0]),
    ("complex64", [1e20j, 1e20 + 1e20j]),
]


@pytest.mark.parametrize(("dtype", "values"), BEYOND)
def test_products_beyond_the_dtype(device, dtype, values):
    """0, infinite or NaN, as the product of all is, which was divided by each."""
    x = cm.asarray(values).astype(dtype)
    exact = x.astype("complex128" if dtype == "complex64" else "float64").to_numpy()
    near = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-6, "complex64": 1e-6}.get(
        dtype, 1e-15
    )
    wanted = np.conj(others(exact, (0,)))
    fits = abs(wanted) < float(cm.finfo(dtype).max)
    for f in (cm.prod, cm.nanprod):
        got = cm.grad(lambda x, f=f: f(x).real)(x)
        assert got.dtype == x.dtype
        got = got.astype(exact.dtype).to_numpy()
        np.testing.assert_allclose(
            got[fits], wanted[fits], rtol=near, atol=6e-8 * (dtype == "float16")
        )


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 1, 3), (2, 3, 4)])
@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_products_of_all_others(device, way, shape, zeros, dtype):
    rng = np.random.default_rng(1)
    x = np.asarray(rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == "c16" else 0))
    x.reshape(-1)[: zeros * 2 : 2] = 0
    for axis in itertools.chain(
        *(itertools.combinations(range(x.ndim), r) for r in range(x.ndim + 1))
    ):
        w = np.asarray(rng.normal(size=np.prod(x, axis=axis).shape))
        got = cm.grad(lambda x, axis=axis, w=w: (cm.prod(x, axis=axis).real * w).sum())(
            cm.asarray(x)
        )
        np.testing.assert_allclose(
            got.to_numpy(),
            np.conj(others(x, axis)) * np.expand_dims(w, axis),
            rtol=1e-12,
            atol=1e-15,
        )


def test_products_of_nothing(device, way):
    for f in (cm.prod, cm.cumprod):
        for shape in ((0,), (0, 3), (3, 0)):
            assert cm.grad(lambda x, f=f: f(x, axis=0).sum())(cm.zeros(shape)).shape == shape


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_running_products_beyond_the_dtype(device, dtype):
    """NaN: 0 times the infinite product of factors behind."""
    big = 300.0 if dtype == "float16" else 1e20
    x = cm.asarray([big, 2.0, big, 3.0]).astype(dtype)
    for last in (1, 2):
        got = cm.grad(lambda x, last=last: cm.cumprod(x)[:last].real.sum())(x)
        wanted = running(x.astype("complex128").to_numpy(), [1.0] * last + [0.0] * (4 - last))
        np.testing.assert_allclose(got.astype("complex128").to_numpy(), wanted, rtol=1e-2)
    x = cm.asarray([big, big]).astype(dtype)
    got, wide = cm.grad(lambda x: cm.cumprod(x)[1].real)(x), x.astype("complex128").to_numpy()
    np.testing.assert_allclose(got.astype("complex128").to_numpy(), wide, rtol=1e-2)
    small = cm.asarray([1 / big, 1 / big]).astype(dtype)
    got, wide = (
        cm.grad(lambda x: cm.cumprod(x)[1].real)(small),
        small.astype("complex128").to_numpy(),
    )
    np.testing.assert_allclose(got.astype("complex128").to_numpy(), wide, rtol=1e-2)


def test_running_products_beyond_float64_that_nobody_asks_for(device):
    """There is no wider dtype to take them in."""
    assert cm.grad(lambda x: cm.cumprod(x)[0])(cm.asarray([1e200, 1e200, 1e200])).tolist() == [
        1,
        0,
        0,
    ]


@pytest.mark.parametrize("zeros", [[], [0], [3], [1, 2], [0, 4], [1, 3, 5]])
def test_running_products_with_zeros(device, way, zeros):
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=6), rng.normal(size=6)
    x[zeros] = 0
    for dtype, near in (("float64", 1e-12), ("float32", 1e-5), ("float16", 1e-2)):
        rows = cm.asarray(np.stack([x, x[::-1]], axis=1)).astype(dtype)
        got = cm.grad(
            lambda x, rows=rows: (
                cm.cumprod(x, axis=0) * cm.asarray(w[:, None]).astype(rows.dtype)
            ).sum()
        )(rows)
        wanted = np.stack([running(x, w), running(x[::-1], w)], axis=1)
        np.testing.assert_allclose(got.astype("float64").to_numpy(), wanted, rtol=near, atol=near)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_products_simulated(monkeypatch, dtype):
    with simulated_gpu(monkeypatch):
        values, w = np.array([[1.5, 0.0, 2.0], [-0.5, 3.0, 1.25]]), np.array([0.5, 2.0])
        x, weights = cm.asarray(values).astype(dtype), cm.asarray(w).astype(dtype)
        for axis in ((0,), (1,), (0, 1)):
            got = (
                cm.grad(lambda x, axis=axis: cm.prod(x, axis=axis).sum())(x).to_numpy().astype("f8")
            )
            np.testing.assert_allclose(got, others(values, axis), rtol=2e-3)
        got = (
            cm.grad(lambda x: (cm.cumprod(x, axis=0) * weights[:, None]).sum())(x)
            .to_numpy()
            .astype("f8")
        )
        np.testing.assert_allclose(
            got, np.stack([running(v, w) for v in values.T], axis=1), rtol=2e-3
        )
        big = cm.asarray([300.0, 300.0]).astype(dtype)
        assert cm.grad(cm.prod)(big).to_numpy().tolist() == [300, 300]
        assert cm.grad(lambda x: cm.cumprod(x)[0])(big).to_numpy().tolist() == [1, 0]
