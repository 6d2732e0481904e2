"""CudaMath's names against NumPy."""

import numpy as np
import pytest

import cudamath as cm
from cudamath import math


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return rng.standard_normal((5, 7), dtype=np.float32), rng.standard_normal(
        (7, 5), dtype=np.float32
    )


def test_to_and_fro(device, arrays):
    for host in (*arrays, np.arange(6), np.array(True), np.zeros((0, 3), np.complex64)):
        there = math.from_numpy(host)
        assert (there.device, there.dtype, there.shape) == (
            cm.default_device(),
            host.dtype,
            host.shape,
        )
        np.testing.assert_array_equal(math.to_numpy(there), host)
    made = math.create_tensor((2, 3), "int32", fill=7)
    assert made.dtype == np.int32
    np.testing.assert_array_equal(math.to_numpy(made), np.full((2, 3), 7))


def test_values(device, arrays):
    a, b = arrays
    wide = a.astype(np.float64)
    for ours, truth in (
        (math.vector_add(a, b.T), wide + b.T),
        (math.matrix_multiply(a, b), wide @ b),
        (math.matrix_transpose(a), wide.T),
        (math.relu(a), np.maximum(wide, 0)),
        (math.sigmoid(a), 1 / (1 + np.exp(-wide))),
        (math.reduce_sum(a), wide.sum()),
        (math.reduce_sum(a, 0), wide.sum(0)),
        (math.reduce_sum(a, (0, 1), keepdims=True), wide.sum((0, 1), keepdims=True)),
    ):
        assert ours.dtype == np.float32 and ours.shape == truth.shape
        np.testing.assert_allclose(math.to_numpy(ours), truth, rtol=1e-5, atol=1e-5)


def test_free_tensor(device):
    x = cm.ones((1000, 10), dtype="float32")
    view = x[2:4]
    math.free_tensor(x)
    assert x.shape == (0,) and x.dtype == np.float32 and x.device == cm.default_device()
    np.testing.assert_array_equal(
        view.to_numpy(), np.ones((2, 10))
    )  # a view keeps what it looks at
    with pytest.raises(TypeError, match="free_tensor: wants an ndarray, got list"):
        math.free_tensor([1])

    def freeing(x):
        math.free_tensor(x)
        return x.sum()

    with pytest.raises(ValueError, match="free_tensor: a gradient"):
        cm.grad(freeing)(cm.ones(3))


@pytest.mark.gpu
def test_free_tensor_gives_the_memory_back():
    before = cm.cuda.memory_allocated()
    x = cm.ones(1 << 20, dtype="float32", device="cuda")
    assert cm.cuda.memory_allocated() >= before + (4 << 20)
    math.free_tensor(x)
    assert cm.cuda.memory_allocated() < before + (4 << 20)


def test_benchmark_operations(device):
    assert all(0 < seconds < 1 for seconds in math.benchmark_operations(32, rounds=1).values())
    with pytest.raises(ValueError, match="benchmark_operations: size must be at least 1, got 0"):
        math.benchmark_operations(0)
    with pytest.raises(ValueError, match="interleave: needs at least one call and one round"):
        math.benchmark_operations(4, rounds=0)
