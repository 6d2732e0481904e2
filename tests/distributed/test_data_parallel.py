"""Training on shares of a batch: on several devices of a process, and in several processes, which
are threads here, so that one body runs on every device."""

from __future__ import annotations

import os

import numpy as np
import pytest
from processes import each

import cudamath as cm
from cudamath import distributed

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)


def test_wrong_use():
    with pytest.raises(ValueError, match="wants at least one device, got none"):
        distributed.value_and_grad(lambda x: x, devices=[])
    with pytest.raises(TypeError, match="distributed.value_and_grad"):
        distributed.value_and_grad(3)
    with pytest.raises(cm.cuda.DeviceError, match="'gpu' is not a device"):
        distributed.value_and_grad(lambda x: x, devices=["gpu"])
    for split in (0, 2, (1, -3)):
        step = distributed.value_and_grad(
            lambda w, x: (w * x).sum(), devices=["cpu", "cpu"], split=split
        )
        with pytest.raises(ValueError, match="but the function was called with 2 arguments"):
            step(cm.ones(()), cm.ones(4))
    assert (
        distributed.value_and_grad(lambda w, x: (w * x).mean(), devices=["cpu", "cpu"], split=-1)(
            cm.ones(()), np.ones(4)
        )[1]
        == 1
    )
    step = distributed.value_and_grad(lambda w, x: (w * x).sum(), devices=["cpu", "cpu"])
    with pytest.raises(ValueError, match=r"divides into 2 equal parts, got shape \(3,\)"):
        step(cm.ones(()), cm.ones(3))


def test_a_tree_without_parameters():
    """Has a value and no gradients, whole and in pieces."""
    for size in (1, 2):
        for options in ({}, {"sharded": True}, {"sharded": True, "like": {}}):
            step = distributed.value_and_grad(lambda p, x: (x * x).sum(), **options)
            for value, grads in each(size, lambda rank: step({}, cm.ones(3) + rank)):  # noqa: B023
                assert value == (3 if size == 1 else 7.5) and grads == {}


def loss(params, x, y, scale, training=True):
    """Cross entropy of a small network; aux: a running mean, a count, and words."""
    h = cm.tanh(x @ params["w"] + params["b"])
    value = cm.ml.cross_entropy(h @ params["v"], y) * scale["s"]
    return value, {"mean": h.mean(0), "count": cm.asarray(3), "training": training}


def network(device, dtype="float32"):
    rng = np.random.default_rng(0)
    params = {
        name: cm.asarray(rng.normal(size=shape), dtype=dtype, device=device)
        for name, shape in (("w", (5, 8)), ("b", (8,)), ("v", (8, 4)))
    }
    return params, rng.normal(size=(12, 5)).astype(dtype), rng.integers(0, 4, 12)


def check(results, device, tolerance=1e-5):
    """Each as of the whole batch; all of the same bits."""
    params, x, y = network(device)
    scale = {"s": cm.asarray(np.float32(2), device=device)}
    batch = cm.asarray(x, device=device), cm.asarray(y, device=device)
    (value, aux), grads = cm.value_and_grad(loss, has_aux=True)(
        params, *batch, scale, training=False
    )
    for (v, a), g in results:
        np.testing.assert_allclose(float(v), float(value), rtol=tolerance)
        np.testing.assert_allclose(
            np.asarray(a["mean"]), np.asarray(aux["mean"]), rtol=tolerance, atol=tolerance
        )
        assert int(a["count"]) == 3 and a["training"] is False
        for name, g0 in grads.items():
            assert g[name].device == g0.device
            np.testing.assert_allclose(
                np.asarray(g[name]), np.asarray(g0), rtol=tolerance, atol=tolerance
            )
            assert np.asarray(g[name]).tobytes() == np.asarray(results[0][1][name]).tobytes()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_devices_share_a_batch(device, count):
    params, x, y = network(device)
    step = distributed.value_and_grad(loss, has_aux=True, devices=[device] * count, split=(1, 2))
    check([step(params, x, y, {"s": np.float32(2)}, training=False) for _ in range(2)], device)


def test_complex_gradients_are_averaged(device):
    """They were those of the first device, or process."""
    rng = np.random.default_rng(0)
    w, x = (
        cm.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape), device=device)
        for shape in (3, (8, 3))
    )

    def power(w, x):
        y = x @ w
        return (y.real**2 + y.imag**2).mean()

    _, expected = cm.value_and_grad(power)(w, x)
    both, alone = (
        distributed.value_and_grad(power, devices=[device] * 2),
        distributed.value_and_grad(power),
    )
    for found in (both(w, x), *each(2, lambda rank: alone(w, distributed.share(x)))):
        np.testing.assert_allclose(np.asarray(found[1]), np.asarray(expected), rtol=1e-13)


@pytest.mark.parametrize("devices", [1, 2])
def test_processes_share_a_batch(device, devices):
    def one(rank):
        params, x, y = network(device)
        params = distributed.broadcast(
            params if rank == 0 else {name: 0 * p for name, p in params.items()}
        )
        places = None if devices == 1 else [device] * devices
        step = distributed.value_and_grad(loss, has_aux=True, devices=places, split=(1, 2))
        x, y = (cm.asarray(part, device=device) for part in distributed.share((x, y)))
        return step(params, x, y, {"s": cm.asarray(np.float32(2), device=device)}, training=False)

    check(each(3, one), device)


def test_each_process_keeps_a_share_of_the_optimizer(device):
    """The same bits as where each process updates everything; the moments of all processes together
    are those of one."""
    x, y = network(device)[1:]

    def one(rank, divided):
        params = network(device)[0]
        mine = distributed.owned(params) if divided else params
        state = cm.ml.adam_init(mine)
        step = distributed.value_and_grad(lambda p, x, y: loss(p, x, y, {"s": 1.0})[0])
        for _ in range(3):
            _, grads = step(
                params, *(cm.asarray(part, device=device) for part in distributed.share((x, y)))
            )
            cm.ml.adamw_update(mine, distributed.owned(grads) if divided else grads, state, lr=1e-2)
            if divided:
                distributed.take_from_owners(params)
        return {name: np.asarray(p) for name, p in params.items()}, [
            m.shape for m in state["m"]
        ] if divided else None

    whole = each(2, lambda rank: one(rank, False))
    parts = each(2, lambda rank: one(rank, True))
    assert [shapes for _, shapes in parts] == [[(5, 8)], [(8,), (8, 4)]]  # 160 bytes, and 32 + 128
    for params, _ in [*whole, *parts]:
        for name, p in params.items():
            np.testing.assert_array_equal(p, whole[0][0][name])


def test_two_gpus_of_a_fake_driver(fake):
    """Launches on both, results on the first; the default device is what it was."""
    step = distributed.value_and_grad(
        lambda w, x: ((x @ w) ** 2).mean(), devices=["cuda:0", "cuda:1"]
    )
    value, gradient = step(
        cm.asarray(np.ones((5, 3), "f4"), device="cuda:1"), np.ones((8, 5), "f4")
    )
    assert (value.device, gradient.device, gradient.shape) == ("cuda:0", "cuda:0", (5, 3))
    used = [cm.cuda.memory_stats(index)["allocations"] for index in (0, 1)]
    assert min(used) > 0 and cm.default_device() == "cuda:0"


@pytest.mark.multigpu
def test_two_gpus_share_a_batch():
    params, x, y = network("cuda:0")
    step = distributed.value_and_grad(
        loss, has_aux=True, devices=["cuda:0", "cuda:1"], split=(1, 2)
    )
    check([step(params, x, y, {"s": np.float32(2)}, training=False) for _ in range(2)], "cuda:0")
