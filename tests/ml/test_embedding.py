"""Embedding: values, gradient, errors, and each kernel version by name."""

import numpy as np
import pytest
from gradient_checks import (
    DTYPES,
    check_gradient,
    check_second_order,
    numbers,
    run_version,
    versions,
    wide,
)
from simulated_gpu import give_vectors_and_warps

import cudamath as cm
from cudamath.testing import assert_close


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("integer", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (), (0,), (4, 0)])
@pytest.mark.parametrize("columns", [1, 7, 64])
def test_values(device, shape, columns, integer, dtype):
    weight = numbers((11, columns), dtype)
    indices = np.random.default_rng(1).integers(0, 11, shape).astype(integer)
    y = cm.ml.embedding(indices, cm.asarray(weight))
    assert y.shape == (*shape, columns) and y.dtype == weight.dtype
    assert np.array_equal(y.to_numpy(), weight[indices])


@pytest.mark.parametrize("columns", [1, 5])
def test_gradients(device, columns):
    weight, indices = numbers((6, columns)), np.array([[0, 5, 0], [3, 3, 0]])
    check_gradient(lambda w: cm.ml.embedding(indices, w), lambda w: w[indices], weight)
    check_second_order(lambda w: cm.ml.embedding(indices, w), weight)


@pytest.mark.parametrize("dtype, rtol", [("float32", 1e-5), ("bfloat16", 1e-2), ("float16", 2e-3)])
def test_gradient_of_many_equal_indices_is_accurate_and_reproducible(device, dtype, rtol):
    weight = numbers((40, 12), dtype)
    indices = np.random.default_rng(2).integers(0, 40, 20000)
    indices[::2] = 7
    g = np.abs(numbers((20000, 12), dtype))
    expected = np.zeros((40, 12))
    np.add.at(expected, indices, wide(g))

    def gradient():
        return cm.vjp(lambda w: cm.ml.embedding(indices, w), cm.asarray(weight))[1](cm.asarray(g))[
            0
        ].to_numpy()

    first = gradient()
    assert_close(first, expected, rtol=rtol)
    for _ in range(3):
        assert np.array_equal(gradient(), first)


def test_strided_operands(device):
    weight, indices = numbers((4, 6)), np.arange(8).reshape(4, 2) % 6
    y = cm.ml.embedding(cm.asarray(indices).T, cm.asarray(weight).T)
    assert np.array_equal(y.to_numpy(), weight.T[indices.T])


@pytest.mark.parametrize("bad", [-1, 6, 2**40])
def test_index_out_of_range(device, bad):
    weight = cm.asarray(numbers((6, 3)))
    with pytest.raises(IndexError, match="embedding"):
        cm.ml.embedding(cm.asarray([0, bad]), weight)
        if device == "cuda":
            cm.cuda.synchronize()
    assert cm.ml.embedding([5], weight).shape == (1, 3)


def test_rows_that_pad_the_table(device):
    """Whatever the kernel: short rows (by groups of threads), long ones (by warps)."""
    for columns in (3, 512):
        table = numbers((8, columns), "float32")
        y, pull = cm.vjp(lambda w: cm.ml.embedding([[5, 0]], w, classes=6), cm.asarray(table))
        assert np.array_equal(y.to_numpy(), table[[[5, 0]]])
        assert pull(cm.ones_like(y))[0].to_numpy().sum(1).tolist() == [
            columns,
            0,
            0,
            0,
            0,
            columns,
            0,
            0,
        ]
        with pytest.raises(IndexError, match="embedding"):
            cm.ml.embedding(cm.asarray([5, 6]), cm.asarray(table), classes=6)
            if device == "cuda":
                cm.cuda.synchronize()
    for wrong in (0, 9):
        with pytest.raises(
            ValueError, match=f"embedding: wants 1 to 8 classes for weight .*got {wrong}"
        ):
            cm.ml.embedding([0], cm.asarray(table), classes=wrong)


def test_errors(device):
    with pytest.raises(TypeError, match="embedding: .*indices.*float64"):
        cm.ml.embedding(cm.zeros(2), cm.zeros((3, 2)))
    with pytest.raises(TypeError, match="embedding: .*weight.*int64"):
        cm.ml.embedding([0], cm.zeros((3, 2), "int64"))
    with pytest.raises(ValueError, match=r"embedding: .*\(3,\)"):
        cm.ml.embedding([0], cm.zeros(3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("machine, version", versions("plain", "rows", "long_rows"))
def test_versions(machine, version, dtype):
    from cudamath.kernels.index.dispatch import embedding

    for columns in (
        (1, 6)
        if machine == "simulator"
        else (1, 2, 3, 4, 6, 8, 12, 64, 100, 256, 768, 1600, 2049, 4096)
    ):
        weight = numbers((9, columns), dtype)
        row_bytes = columns * weight.itemsize
        if version == "long_rows" and (row_bytes % 16 or row_bytes < 512):
            continue
        indices = (
            np.random.default_rng(3)
            .integers(0, 9, 13 if machine == "simulator" else 700)
            .astype(np.int32)
        )
        y = run_version(machine, lambda i, w: embedding(i, w, version=version), indices, weight)
        assert np.array_equal(y, weight[indices]), columns


@pytest.mark.simulator
def test_long_rows_out_of_range_by_their_upper_bits_simulated(monkeypatch):
    from cudamath.kernels.index import dispatch, gather
    from cudamath.kernels.ptx import vector_access

    give_vectors_and_warps(monkeypatch)
    monkeypatch.setattr(dispatch, "SIMULATOR", False)  # the version is one of the hardware's
    for access in ("load_vector", "store_vector"):
        monkeypatch.setattr(gather, access, getattr(vector_access, access), raising=False)
    weight = numbers((9, 128), np.float32)
    for wrong in (9, -1, (1 << 32) + 3):
        indices = np.array([0, wrong, 8])
        plan = dispatch.embedding(
            *map(cm.testing.layout_of, (indices, weight)), version="long_rows"
        )
        assert [step.kernel.__name__ for step in plan.steps] == ["gather_long"]
        with pytest.raises(IndexError):
            cm.testing.simulate(plan, indices, weight)


@pytest.mark.parametrize("dtype", [*DTYPES, "int64", "uint8", "bool"])
@pytest.mark.parametrize("integer", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (), (0,)])
def test_one_hot(device, shape, integer, dtype):
    indices = np.random.default_rng(1).integers(0, 7, shape).astype(integer)
    y = cm.ml.one_hot(cm.asarray(indices), 7, dtype=dtype)
    assert y.dtype == cm.asarray(numbers((), dtype)).dtype
    np.testing.assert_array_equal(y.to_numpy(), np.eye(7)[indices].astype(y.dtype))


def test_one_hot_finds_the_number_of_classes(device):
    assert cm.ml.one_hot([3, 0]).shape == (2, 4)
    with pytest.raises(ValueError, match=r"one_hot: .*\(0,\)"):
        cm.ml.one_hot(cm.zeros(0, "int64"))
    with pytest.raises(ValueError, match="one_hot: .*got 0"):
        cm.ml.one_hot([1], 0)
    with pytest.raises(TypeError, match="one_hot: .*float64"):
        cm.ml.one_hot([1.0], 3)


@pytest.mark.parametrize("wrong", [[0, 3], [-1, 0]])
def test_one_hot_out_of_range(device, wrong):
    with pytest.raises(IndexError, match="one_hot"):
        cm.ml.one_hot(wrong, 3)
        if device == "cuda":
            cm.cuda.synchronize()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
@pytest.mark.parametrize("machine, version", versions("plain"))
def test_one_hot_kernel(machine, version, dtype):
    from cudamath.kernels.index import embedding

    indices = np.array([2, 0, 4])
    y = run_version(
        machine, lambda i: embedding.one_hot(i, classes=5, dtype=numbers((), dtype).dtype), indices
    )
    np.testing.assert_array_equal(y.astype(float), np.eye(5)[indices])


def test_padding_row_gets_no_gradient(device):
    torch = pytest.importorskip("torch")
    weight, indices, g = (
        numbers((6, 3)),
        np.array([[0, 5, 2], [2, 2, 0]]),
        numbers((2, 3, 3), seed=1),
    )
    there = torch.tensor(weight, requires_grad=True)
    expected = torch.nn.functional.embedding(torch.tensor(indices), there, padding_idx=2)
    gradient = torch.autograd.grad(expected, there, torch.tensor(g))[0].numpy()
    for same in (2, -4):
        y, pull = cm.vjp(
            lambda w: cm.ml.embedding(indices, w, padding_idx=same),
            cm.asarray(weight),  # noqa: B023
        )  # noqa: B023
        assert_close(y, expected.detach().numpy(), rtol=0)
        assert_close(pull(cm.asarray(g))[0], gradient, rtol=1e-14)
    with pytest.raises(ValueError, match="embedding: .*padding_idx in -6 .. 5, got 6"):
        cm.ml.embedding(indices, weight, padding_idx=6)
