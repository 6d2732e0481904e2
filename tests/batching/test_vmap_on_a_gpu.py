"""`vmap` of arrays on a GPU: on the fake driver, how many kernels run and where results are; on a
GPU, values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudamath as cm


def attempts(x: Any) -> Any:
    """Views, reductions, products, gathers, writes and new arrays."""
    y = cm.zeros(5)
    y[1:] = cm.exp(x[0, 1:]) + x.sum(axis=0)[1:]
    y[0] = x[1, 2]
    return y + (x @ x.T)[0, 1] + x[cm.asarray([2, 0])].max()


def test_results_are_where_the_arguments_are(fake: Any) -> None:
    x = cm.zeros((4, 3, 5), device="cuda:1")
    with cm.device("cuda:1"):
        y = cm.vmap(attempts)(x)
        assert y.device == "cuda:1" and y.shape == (4, 5)
        seen = []
        cm.vmap(lambda x: (seen.append(x.device), x)[1])(x)
        assert seen == ["cuda:1"]
    with pytest.raises(cm.cuda.DeviceError, match="add: arrays are on different devices"):
        cm.vmap(lambda x: x + cm.zeros(5, device="cpu"))(x)


def test_each_operation_is_one_launch(fake: Any) -> None:
    x, w = cm.zeros((64, 8), device="cuda"), cm.zeros((8,), device="cuda")

    def launches(fn: Any) -> int:
        fn(x)
        before = len(fake.launches)
        fn(x)
        return len(fake.launches) - before

    assert launches(cm.vmap(lambda r: r * w)) == launches(lambda x: x * w) == 1
    assert launches(cm.vmap(cm.sum)) == launches(lambda x: cm.sum(x, axis=1))
    assert launches(cm.vmap(cm.sort)) == launches(lambda x: cm.sort(x, axis=1))


def test_draws_within_a_graph_are_those_of_all_calls(fake: Any) -> None:
    rng = cm.random.default_rng(0)
    drawn = cm.cuda.graph(cm.vmap(lambda x: x + rng.normal(size=5)))
    x = cm.zeros((4, 5), device="cuda")
    assert drawn(x).shape == drawn(x).shape == drawn(x).shape == (4, 5)


@pytest.mark.gpu
def test_values_on_a_gpu() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 5))
    with cm.device("cpu"):
        wanted = cm.vmap(attempts)(cm.asarray(x)).to_numpy()
    given = cm.asarray(x, device="cuda")
    for fn in (cm.vmap(attempts), cm.jit(cm.vmap(attempts)), cm.cuda.graph(cm.vmap(attempts))):
        for _ in range(3):
            np.testing.assert_allclose(fn(given).to_numpy(), wanted, rtol=1e-12)
