"""Products of one operand that run side by side: in the plans of an emulated GPU, and on a GPU.
The truth is the function in float64 on the CPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm
from cudamath import ml
from cudamath.core.layout import Layout
from cudamath.kernels.matmul import linear as layers
from cudamath.runtime.device import assume

ROWS, WIDTH = 48, 64


def projections(x, q, k, v, b):
    """Queries, keys and values."""
    queries, keys, values = ml.linear(x, q, b), ml.linear(x, k, b * 2), ml.linear(x, v, b * 3)
    return ml.softmax(queries @ keys.T / 8, axis=-1) @ values


def gates(x, q, k, v, b):
    """No biases, weights that lie across, one activation."""
    return cm.tanh(ml.relu(x @ q) * ml.relu(x @ k)), ml.relu(x @ v) + 1


def made_on_the_way(x, q, k, v, b):
    """The second weight is there after the first product only."""
    y, z = x @ q, x @ (k * 2)
    return cm.exp(-abs(y)) * z


def changed(x, q, k, v, b):
    """The operand changes between them."""
    x = x.copy()
    y = x @ q
    x += 1
    return cm.tanh(y) * (x @ k)


def one_uses_the_other(x, q, k, v, b):
    return cm.tanh(x @ (q * cm.tanh(x @ k).sum(0)))


def others(x, q, k, v, b):
    """Different activations, another width, a result that goes to the caller."""
    return cm.tanh(ml.silu(x @ q) * ml.gelu(x @ k)) * (x @ v[:, :1]), x @ v


def far(x, q, k, v, b):
    """The results are needed at times that lie far apart."""
    y, z = x @ q, x @ k
    for _ in range(12):
        y = ml.softmax(y, axis=-1) * 2
    return y * cm.tanh(z)


#: Function -> how many products run with others.
CASES = {
    projections: 3,
    gates: 3,
    made_on_the_way: 2,
    changed: 0,
    one_uses_the_other: 0,
    others: 0,
    far: 0,
}


def data(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = (ROWS, WIDTH), *[(WIDTH, WIDTH)] * 3, (WIDTH,)
    arrays = [rng.normal(size=shape) / 4 for shape in shapes]
    return [x.astype(ml_dtypes.bfloat16) for x in arrays]


def compared(function):
    """A program's calls beside the CPU."""
    jitted = cm.jit(function)
    for seed in range(3):
        arrays = data(seed)
        with cm.device("cpu"):
            wanted = cm.tree.leaves(function(*[cm.array(x.astype("float64")) for x in arrays]))
        found = cm.tree.leaves(jitted(*map(cm.array, arrays)))
        for y, exact in zip(found, wanted, strict=True):
            np.testing.assert_allclose(
                y.astype("float64").to_numpy(), np.asarray(exact), rtol=0.02, atol=0.03
            )
    return jitted


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_products_of_one_operand_run_side_by_side(monkeypatch, function) -> None:
    with emulated_gpu(monkeypatch):
        (program,) = compared(function).programs()
    counts = [n.params["count"] for n in program.nodes if n.name == "linears"]
    assert sum(counts) == CASES[function]


@pytest.mark.gpu
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_on_a_gpu(function) -> None:
    with cm.device("cuda"):
        compared(function)


def layout(*shape: int) -> Layout:
    return Layout.new(shape, np.dtype(ml_dtypes.bfloat16), 0)


@pytest.mark.parametrize("rows, saves", [(128, True), (4096, False), (4, False)])
def test_products_that_fill_the_device_stay(rows: int, saves: bool) -> None:
    with assume((9, 0)):
        saved = layers.saved(layout(rows, 768), layout(768, 768), layout(768), "", 3)
    assert (saved > 1) == saves


@pytest.mark.parametrize("deep", [768, 3072])
def test_blocks_share_long_sums_of_few_tiles(deep: int) -> None:
    """A layer of few tiles, whose sums the kernel itself must complete."""
    with assume((9, 0)):
        plan = layers.linear(
            layout(128, deep), layout(768, deep), layout(768), None, activation="gelu"
        )
    (step,) = plan.steps
    assert (step.cluster > 1) == (deep == 3072)


@pytest.mark.gpu
@pytest.mark.parametrize("tile", ["64x64 share 2", "64x64 share 4", "128x64 share 4"])
@pytest.mark.parametrize("activation", ["", "gelu"])
def test_blocks_that_share_sums_finish_a_layer(tile: str, activation: str) -> None:
    """Bias, activation and residual come to whole sums, in the first block of a cluster."""
    rng = np.random.default_rng(2)
    shapes = (100, 1000), (264, 1000), (264,), (100, 264)
    data = [(rng.normal(size=shape) / 8).astype(ml_dtypes.bfloat16) for shape in shapes]
    with cm.device("cuda"):
        arrays = [cm.array(x) for x in data]
        plan = layers.linear(
            *[x._layout for x in arrays], activation=activation, version=f"sm90 {tile}"
        )
        found = plan.bind("linear", [x._layout for x in arrays], 0, 0)(*arrays).to_numpy()
    x, weight, bias, residual = [x.astype("float64") for x in data]
    wanted = x @ weight.T + bias
    with cm.device("cpu"):
        wanted = ml.gelu(cm.array(wanted)).to_numpy() if activation else wanted
    np.testing.assert_allclose(found.astype("float64"), wanted + residual, rtol=0.01, atol=0.01)
