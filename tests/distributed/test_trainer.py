"""A language model trained by several processes, in every way to share the work."""

from __future__ import annotations

import os

import numpy as np
import pytest
from processes import each

import cudamath as cm
from cudamath import distributed
from cudamath.models import gpt2, training

pytest.importorskip("safetensors")
pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)

CONFIG = gpt2.Config(vocabulary=50, context=12, layers=2, heads=2, width=16)
WAYS = ("data", "zero1", "zero2", "zero3")


def made(device, parallel, seed=0, dtype="float32", **options):
    with cm.device(device):
        params = gpt2.create(CONFIG, rng=cm.random.default_rng(seed))
    schedule = cm.ml.schedules.cosine(1e-2, steps=20, warmup=2)
    return training.Trainer(
        gpt2.loss,
        params,
        CONFIG,
        dtype=dtype,
        schedule=schedule,
        parallel=parallel,
        **options,
    )


def batch(seed, count=8):
    x = np.random.default_rng(seed).integers(0, CONFIG.vocabulary, (count, 9))
    return x[:, :-1], x[:, 1:]


def curve(trainer, first, last):
    share = distributed.share if trainer.parallel else lambda x: x
    return [float(trainer.step(*share(batch(i)))[0]) for i in range(first, last)]


@pytest.mark.parametrize("parallel", WAYS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_losses_are_those_of_one_process(device, parallel, dtype):
    """Whatever the parameters of the other processes were before."""
    alone = made(device, None, dtype=dtype)
    losses = curve(alone, 0, 4)
    tolerance = {"float32": 2e-5, "bfloat16": 2e-2}[dtype]

    def one(rank):
        trainer = made(device, parallel, seed=rank, dtype=dtype)
        return curve(trainer, 0, 4), {name: np.asarray(p) for name, p in trainer.params.items()}

    for found, params in each(2, one):
        np.testing.assert_allclose(found, losses, rtol=tolerance)
        for name, p in alone.params.items():
            np.testing.assert_allclose(
                params[name], np.asarray(p), rtol=10 * tolerance, atol=100 * tolerance
            )


def test_an_activation_that_is_computed_again_changes_no_loss(device):
    losses = curve(made(device, None), 0, 3)
    np.testing.assert_allclose(curve(made(device, None, recompute=True), 0, 3), losses, rtol=1e-6)
    for found in each(2, lambda rank: curve(made(device, "zero3", recompute=True), 0, 3)):
        np.testing.assert_allclose(found, losses, rtol=2e-5)


@pytest.mark.parametrize("parallel", WAYS)
def test_goes_on_with_another_number_of_processes(device, tmp_path, parallel):
    """The same losses as without the stop, but for the order of additions."""
    path = tmp_path / "run"

    def first(rank):
        trainer = made(device, parallel)
        curve(trainer, 0, 2)
        trainer.save(path, data={"batch": 2})
        return curve(trainer, 2, 4), trainer.evaluate([distributed.share(batch(9))])

    def then(rank):
        trainer = made(device, parallel, seed=3)
        assert trainer.load(path)["data"] == {"batch": 2} and trainer.steps == 2
        return curve(trainer, 2, 4), trainer.evaluate([distributed.share(batch(9))])

    losses, held_out = each(4, first)[0]
    for count in (2, 1):
        for found, value in each(count, then):
            np.testing.assert_allclose(found, losses, rtol=2e-5)
            assert value == pytest.approx(held_out, rel=2e-5)


def test_pieces_are_pieces(device):
    """The memory of AdamW and float32 parameters: a third of it each."""

    def one(rank):
        trainer = made(device, "zero3")
        state = trainer.state
        return sum(x.size for tree in (state["m"], state["v"]) for x in tree.values())

    whole = sum(np.prod(shape) for shape in gpt2.shapes(CONFIG).values())
    for size in each(3, one):
        assert size < 2 * whole / 3 * 1.02


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="Trainer: parallel is one of .*zero3.*, got 'zero4'"):
        made("cpu", "zero4")


def test_steps_through_the_host_are_no_graphs(fake):
    """Two processes share a GPU: what they tell each other is read on the host."""
    fake.idle = True

    def one(rank):
        trainer = made("cuda:0", "zero2")
        trainer.step(*distributed.share(batch(0)))
        return isinstance(trainer._step, cm.cuda.Graphed)

    assert each(2, one) == [False, False]
    assert isinstance(made("cuda:0", None)._step, cm.cuda.Graphed)
