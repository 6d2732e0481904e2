"""Regressions of gradients of fused functions: each test failed on an earlier version."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm


def real_parts_in_fused_functions():
    """They were the complex numbers themselves: in results, and in gradients of real numbers among
    complex ones."""
    rng = np.random.default_rng(5)
    z, r = (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)) for _ in range(2))
    for w in (rng.normal(size=(2, 3)), rng.normal(size=3) + 1j * rng.normal(size=3)):
        size = abs(w) + 1
        np.testing.assert_allclose(
            cm.fuse(lambda x: cm.real(x) * (1j * x))(cm.asarray(z)).to_numpy(), z.real * (1j * z)
        )
        np.testing.assert_allclose(
            cm.fuse(lambda x: x * x.real.sum(1, keepdims=True))(cm.asarray(z)).to_numpy(),
            z * z.real.sum(1, keepdims=True),
        )

        def loss(x, y):
            part = cm.fuse(lambda x, y: cm.real(x * y[1] / (abs(y[0]) + 1)))(
                x, (y, cm.asarray(r.conj()))
            )
            return part.sum()

        by_x, by_w = cm.grad(loss, (0, 1))(cm.asarray(z), cm.asarray(w))
        slope = -(z * r.conj()).real / size**2 * w / abs(w)
        np.testing.assert_allclose(by_x.to_numpy(), r / size)
        np.testing.assert_allclose(
            by_w.to_numpy(), slope if slope.shape == w.shape else slope.sum(0)
        )


def test_real_parts_in_fused_functions(device):
    real_parts_in_fused_functions()


@pytest.mark.simulator
def test_real_parts_in_fused_functions_simulated(monkeypatch):
    with simulated_gpu(monkeypatch), cm.device("cuda:0"):
        real_parts_in_fused_functions()
        with pytest.raises(
            TypeError, match="fuse: what is fused has no bytes to view; it saw float64 .* as int64"
        ):
            cm.fuse(lambda x: x.view("int64") + 1)(cm.ones(3))


IN_PLACE = {
    "a row": lambda y: y.__setitem__(0, 5),
    "all": lambda y: y.__setitem__(..., 7),
    "fill": lambda y: y.fill(3),
    "copyto": lambda y: cm.copyto(y, 2),
    "fill_diagonal": lambda y: cm.fill_diagonal(y, 3),
    "add": lambda y: y.__iadd__(1),
}


@pytest.mark.simulator
@pytest.mark.parametrize("name", IN_PLACE)
def test_fused_functions_that_write_numbers(monkeypatch, name):
    """What was written was lost."""

    def changed(x, start):
        y = start(x)
        IN_PLACE[name](y)
        return y + x

    with simulated_gpu(monkeypatch), cm.device("cuda:0"):
        for start in (lambda x: x * 1, cm.zeros_like, lambda x: x):
            with pytest.raises(
                TypeError,
                match="fuse: a function that is fused makes new arrays; it changed one in place",
            ):
                cm.fuse(lambda x, start=start: changed(x, start))(cm.ones((3, 3)))
        assert (
            cm.fuse(lambda x: cm.full_like(x, 2) + x)(cm.ones((3, 3))).tolist() == [[3.0] * 3] * 3
        )
