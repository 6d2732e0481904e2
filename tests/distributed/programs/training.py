"""A small language model, trained in every way to share the work, beside one process with the whole
batch; two runs in the order of the ranks give the same bits."""

import sys

import numpy as np

import cudamath as cm
from cudamath import distributed as d
from cudamath.models import gpt2, training

CONFIG = gpt2.Config(vocabulary=256, context=32, layers=2, heads=2, width=64)
device = d.use_own_device()
rank, size = d.rank(), d.size()


def made(parallel, **options):
    params = gpt2.create(CONFIG, rng=cm.random.default_rng(0))
    return training.Trainer(
        gpt2.loss, params, CONFIG, dtype="float32", schedule=1e-2, parallel=parallel, **options
    )


def batch(seed):
    x = np.random.default_rng(seed).integers(0, 256, (4 * size, 33))
    return x[:, :-1], x[:, 1:]


def curve(trainer):
    own = d.share if trainer.parallel else lambda x: x
    return [float(trainer.step(*own(batch(i)))[0]) for i in range(6)]  # from the second on a graph


expected = curve(made(None))
for way in training.PARALLEL[1:]:
    found = curve(made(way))
    np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=way)
    trainers = [made(way, deterministic=True) for _ in range(2)]
    curves = [curve(trainer) for trainer in trainers]
    np.testing.assert_allclose(curves[0], expected, rtol=1e-4, err_msg=way)
    assert curves[0] == curves[1], way
    first, second = (trainer.params for trainer in trainers)
    for name in first:
        assert (np.asarray(first[name]) == np.asarray(second[name])).all(), (way, name)

params = gpt2.create(CONFIG, rng=cm.random.default_rng(0))
step = d.value_and_grad(gpt2.loss, deterministic=True, bucket=1 << 16)
runs = [step(params, *d.share(batch(0)), CONFIG) for _ in range(2)]
for name in params:
    a, b = (np.asarray(grads[name]) for _, grads in runs)
    assert (a == b).all(), name
whole = cm.value_and_grad(gpt2.loss)(params, *batch(0), CONFIG)[1]
for name, g in whole.items():
    np.testing.assert_allclose(
        np.asarray(runs[0][1][name]), np.asarray(g), rtol=1e-3, atol=1e-5, err_msg=name
    )
sys.stdout.write(f"good {rank} {size} {d.transport().split(':')[0]}\n")  # in one piece
