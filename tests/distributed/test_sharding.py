"""Training with gradients that travel during the backward pass, and with optimizer state, gradients
and parameters in pieces (ZeRO 1 to 3): the losses and parameters of one process."""

from __future__ import annotations

import os
import weakref

import numpy as np
import optree
import pytest
from processes import each

import cudamath as cm
from cudamath import distributed
from cudamath.core.layout import Layout
from cudamath.distributed import buckets, gatherer, parallel

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)

STEPS = 4


def create(device, dtype="float64"):
    rng = np.random.default_rng(0)
    make = lambda *shape: cm.asarray(rng.normal(size=shape), dtype=dtype, device=device)  # noqa: E731
    return {
        "layers": [{"w": make(5, 7), "b": make(7)}, {"w": make(7, 3), "b": make(3)}],
        "scale": make(),
        "unused": make(2),
    }


def batch(device, dtype="float64"):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(12, 5)), rng.normal(size=(12, 3))
    return [cm.asarray(each, dtype=dtype, device=device) for each in (x, y)]


def loss(params, x, y):
    for layer in params["layers"]:
        x = cm.tanh(x @ layer["w"] + layer["b"])
    return ((x * params["scale"] - y) ** 2).mean()


def numbers(params):
    return np.concatenate([np.asarray(p).ravel() for p in optree.tree_leaves(params)])


def of_one_process(device):
    params, data = create(device), batch(device)
    state, losses = cm.ml.adam_init(params), []
    for _ in range(STEPS):
        value, grads = cm.value_and_grad(loss)(params, *data)
        factor, _ = cm.ml.clip_factor(grads, 0.5)
        cm.ml.adamw_update(params, grads, state, lr=1e-2, factor=factor)
        losses.append(float(value))
    return losses, numbers(params)


def data_parallel(device, bucket, deterministic=False):
    params, data = create(device), distributed.share(batch(device))
    state, losses = cm.ml.adam_init(params), []
    step = distributed.value_and_grad(loss, bucket=bucket, deterministic=deterministic)
    for _ in range(STEPS):
        value, grads = step(params, *data)
        factor, _ = cm.ml.clip_factor(grads, 0.5)
        cm.ml.adamw_update(params, grads, state, lr=1e-2, factor=factor)
        losses.append(float(value))
    return losses, numbers(params)


def zero_two(device, bucket):
    params, data = create(device), distributed.share(batch(device))
    shards = distributed.to_shards(params)
    state, losses = cm.ml.adam_init(shards), []
    step = distributed.value_and_grad(loss, sharded=True, bucket=bucket)
    for _ in range(STEPS):
        value, grads = step(params, *data)
        factor, _ = distributed.shards_clip_factor(grads, 0.5)
        cm.ml.adamw_update(shards, grads, state, lr=1e-2, factor=factor)
        distributed.update_from_shards(params, shards)
        losses.append(float(value))
    return losses, numbers(params)


def zero_three(device, bucket):
    params, data = create(device), distributed.share(batch(device))
    shards, like = distributed.to_shards(params), distributed.outline(params)
    state, losses = cm.ml.adam_init(shards), []

    def loss_of_shards(shards, x, y):
        return loss(distributed.from_shards(shards, like), x, y) / distributed.size()

    for _ in range(STEPS):
        value, grads = cm.value_and_grad(loss_of_shards)(shards, *data)
        factor, _ = distributed.shards_clip_factor(grads, 0.5)
        cm.ml.adamw_update(shards, grads, state, lr=1e-2, factor=factor)
        losses.append(float(distributed.all_reduce(value)))
    return losses, numbers(distributed.from_shards(shards, like))


@pytest.mark.parametrize("bucket", [1, 200, 1 << 20])
@pytest.mark.parametrize("how", [data_parallel, zero_two, zero_three])
def test_losses_and_parameters_are_those_of_one_process(device, how, bucket):
    """With clipping; one array a bucket, several, all."""
    if how is zero_three and bucket > 1:
        pytest.skip("has no buckets")
    losses, params = of_one_process(device)
    found = each(4, lambda rank: how(device, bucket))
    for values, arrays in found:
        np.testing.assert_allclose(values, losses, rtol=1e-12)
        np.testing.assert_allclose(arrays, params, rtol=1e-10, atol=1e-12)
        assert values == found[0][0] and (arrays == found[0][1]).all()


def test_in_the_order_of_the_ranks(device):
    losses, params = of_one_process(device)
    runs = [each(3, lambda rank: data_parallel(device, 200, True)) for _ in range(2)]
    for values, arrays in (*runs[0], *runs[1]):
        np.testing.assert_allclose(values, losses, rtol=1e-12)
        assert (arrays == runs[0][0][1]).all()


def test_in_a_program(device):
    """The means are part of what `cm.jit` records."""

    def one(rank):
        if device == "cuda" and distributed.transport() != "nccl":
            return None
        params, data = create(device), distributed.share(batch(device))
        step = distributed.value_and_grad(loss, bucket=200)
        program = cm.jit(step)
        plain = step(params, *data)
        return [(plain, program(params, *data)) for _ in range(3)]

    for pairs in each(2, one):
        for (value, grads), (other, others) in pairs or ():
            np.testing.assert_allclose(float(value), float(other), rtol=1e-14)
            np.testing.assert_allclose(numbers(grads), numbers(others), rtol=1e-12, atol=1e-15)


def test_buckets_travel_during_the_backward_pass(monkeypatch):
    """The first one begins before the last gradient is there."""
    events = []
    begin, ready = buckets.Thread.begin, buckets.Averages.ready

    def seen_begin(self, flat):
        events.append(("begins", self.world.rank))
        return begin(self, flat)

    def seen_ready(self, i, g):
        events.append((i, self.world.rank))
        return ready(self, i, g)

    monkeypatch.setattr(buckets.Thread, "begin", seen_begin)
    monkeypatch.setattr(buckets.Averages, "ready", seen_ready)
    params, data = create("cpu"), batch("cpu")
    step = distributed.value_and_grad(loss, bucket=1)
    each(2, lambda rank: step(params, *data))
    own = [what for what, rank in events if rank == 0]
    assert own.index("begins") < own.index(0) and own.count("begins") == 6


def test_processes_may_use_different_parameters(device):
    """What one does not use counts as 0 there; buckets keep their order."""

    def one(rank):
        a, b = (cm.asarray([value], device=device) for value in (2.0, 3.0))
        step = distributed.value_and_grad(
            lambda p, x: (p["b" if rank else "a"] * x).sum(), bucket=1
        )
        return step({"a": a, "b": b}, cm.asarray([4.0], device=device))

    for value, grads in each(2, one):
        assert float(value) == 10.0
        assert (grads["a"].tolist(), grads["b"].tolist()) == ([2.0], [2.0])


def test_gradients_of_means_of_gradients(device):
    """Inside of another gradient."""

    def one(rank):
        x = cm.asarray(rank + 1.0, device=device)

        def inner(w):
            _, g = distributed.value_and_grad(lambda w: w**3 * x)(w)
            return g**2

        return cm.grad(inner)(cm.asarray(2.0, device=device))

    # the mean gradient is 3 w^2 1.5 on both; the sum of both squares has the slope 2 * 2 g g'
    assert [float(g) for g in each(2, one)] == [
        pytest.approx(2 * 2 * (3 * 4 * 1.5) * 6 * 2 * x / 2) for x in (1.0, 2.0)
    ]


def test_layers_that_are_put_together_twice(device, monkeypatch):
    """Inside of `checkpoint` whole weights are dropped after the layer, and put together again for
    its gradient: the gradients of one process."""
    rng = np.random.default_rng(0)
    weights = [{"w": rng.normal(size=(5, 5))} for _ in range(3)]
    x = rng.normal(size=(4, 5))
    read = []
    lazily = distributed.lazy.from_shards

    def counted(shards, like):
        read.append(1)
        return lazily(shards, like)

    monkeypatch.setattr(distributed.lazy, "from_shards", counted)

    def whole(layers, x):
        for layer in layers:
            x = cm.tanh(x @ layer["w"])
        return (x**2).sum()

    def one(rank):
        params = [{"w": cm.asarray(layer["w"], device=device)} for layer in weights]
        shards, like = distributed.to_shards(params), distributed.outline(params)

        def layer(shards, x):
            return cm.tanh(x @ distributed.lazily_whole(shards, like[0])["w"])

        def loss(shards, x):
            for shard in shards:
                x = cm.checkpoint(layer)(shard, x)
            return (x**2).sum() / distributed.size()

        grads = cm.grad(loss)(shards, cm.asarray(x, device=device))
        return distributed.from_shards(grads, like)

    expected = cm.grad(whole)(
        [{"w": cm.asarray(layer["w"], device=device)} for layer in weights],
        cm.asarray(x, device=device),
    )
    for found in each(2, one):
        for g, h in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(g["w"]), np.asarray(h["w"]), rtol=1e-10)
    assert len(read) == 2 * 2 * 3  # processes, times, layers


def test_lazy_trees_are_read_like_whole_ones(device):
    tree = {"a": [cm.ones(3, device=device), cm.zeros((2, 2), device=device)], "b": (cm.ones(()),)}
    lazy = distributed.lazily_whole(distributed.to_shards(tree), distributed.outline(tree))
    assert list(lazy) == ["a", "b"] and len(lazy) == 2 and "b" in lazy and "c" not in lazy
    assert lazy["a"][-1].shape == (2, 2) and lazy["a"][0] is lazy["a"][0]
    assert [x.shape for x in lazy["a"][:]] == [(3,), (2, 2)] and len(lazy["b"]) == 1
    with pytest.raises(KeyError, match="c"):
        lazy["c"]
    with pytest.raises(IndexError):
        lazy["b"][1]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sixteen_bit_copies_and_pieces(device, dtype):
    def one(rank):
        whole = {"w": cm.asarray(np.arange(7.0) / 3, dtype="float32", device=device)}
        copies = cm.ml.amp.cast(whole, dtype)
        shards = distributed.to_shards(whole)
        shards["w"] += 1
        distributed.update_from_shards(copies, shards)
        return copies["w"]

    for found in each(3, one):
        assert found.dtype == np.dtype(dtype)
        expected = (np.float32(np.arange(7.0) / 3) + np.float32(1)).astype(dtype)
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_pieces_and_wholes(device):
    data = {"a": np.arange(10.0).reshape(2, 5), "b": np.float32(3), "c": np.zeros((0, 3))}

    def one(rank):
        tree = {name: cm.asarray(x, device=device) for name, x in data.items()}
        shards = distributed.to_shards(tree)
        return shards, distributed.from_shards(shards, distributed.outline(tree))

    for rank, (shards, whole) in enumerate(each(3, one)):
        flat = np.append(data["a"], [0.0, 0.0])
        np.testing.assert_array_equal(np.asarray(shards["a"]), flat[4 * rank : 4 * rank + 4])
        assert shards["b"].tolist() == [3.0 if rank == 0 else 0.0] and shards["c"].shape == (0,)
        for name, x in data.items():
            np.testing.assert_array_equal(np.asarray(whole[name]), x)
            assert whole[name].dtype == x.dtype


def test_wrong_use():
    like = distributed.outline({"a": cm.ones((2, 3))})
    assert like["a"].shape == (2, 3) and like["a"].strides == (0, 0)
    number = distributed.outline({"rate": 0.1})["rate"]
    assert (number.shape, number.dtype) == ((), np.asarray(0.1).dtype)
    with pytest.raises(ValueError, match=r"from_shards: wants trees of one structure"):
        distributed.from_shards([cm.ones(6)], like)
    with pytest.raises(ValueError, match=r"of shape \(2, 3\) has pieces of shape \(6,\) in 1 proc"):
        distributed.from_shards({"a": cm.ones(5)}, like)
    with pytest.raises(ValueError, match="wants a bucket of at least 1 byte, got 0"):
        distributed.value_and_grad(loss, bucket=0)
    found = each(2, lambda rank: distributed.value_and_grad(loss)(create("cpu"), *batch("cpu"), 3))
    assert all(isinstance(problem, TypeError) for problem in found)

    def different(rank):
        return distributed.value_and_grad(lambda w: (w**2).sum())(cm.ones(2 + rank))

    for problem in each(2, different):
        assert isinstance(problem, ValueError)
        assert "all processes must bring the same" in str(problem)


# -------------------- parameters that are whole while something reads them


def layers_of(rng, count=6, width=8):
    return [
        {"w": rng.normal(size=(width, width)) / width**0.5, "b": rng.normal(size=width)}
        for _ in range(count)
    ]


def tied_loss(params, x, scale=1.0):
    """The first array is read first and last, so its gradient is complete last."""
    table, y = params["table"], x @ params["table"]
    for layer in params["layers"]:
        y = cm.tanh(y @ layer["w"] + layer["b"])
    return scale * ((y @ table.T) ** 2).mean()


@pytest.mark.parametrize("bucket", [1, 1000, 1 << 20])
@pytest.mark.parametrize("deterministic", [False, True])
def test_gradients_of_pieces_are_pieces_of_gradients(device, bucket, deterministic):
    """In the first call, which learns the order, and in the next ones; beside the whole batch in
    one process."""
    rng = np.random.default_rng(3)
    whole = {"layers": layers_of(rng), "table": rng.normal(size=(5, 8))}
    x = rng.normal(size=(12, 5))

    def on_device(tree):
        return optree.tree_map(lambda leaf: cm.asarray(leaf, device=device), tree)

    expected = cm.value_and_grad(tied_loss)(on_device(whole), cm.asarray(x, device=device))

    def one(rank):
        params = on_device(whole)
        like = distributed.outline(params)
        shards = distributed.to_shards(params)
        step = distributed.value_and_grad(
            tied_loss, like=like, bucket=bucket, deterministic=deterministic
        )
        found = []
        for _ in range(3):
            value, grads = step(shards, distributed.share(cm.asarray(x, device=device)), scale=1.0)
            found.append((value, distributed.from_shards(grads, like)))
        return found

    for value, grads in [pair for found in each(3, one) for pair in found]:
        np.testing.assert_allclose(float(value), float(expected[0]), rtol=1e-12)
        pairs = zip(optree.tree_leaves(grads), optree.tree_leaves(expected[1]), strict=True)
        for g, h in pairs:
            np.testing.assert_allclose(np.asarray(g), np.asarray(h), rtol=1e-10, atol=1e-12)


def test_few_parameters_are_whole_at_a_time(monkeypatch):
    """Also at the end of the forward pass, when a tape holds all that the gradient needs. Each is
    put together again for its gradient."""
    monkeypatch.setattr(gatherer, "KEPT", 2)
    rng = np.random.default_rng(3)
    whole, x = {"layers": layers_of(rng), "table": rng.normal(size=(5, 8))}, rng.normal(size=(4, 5))
    alive, most, gathers = {}, {}, {}

    class Watched(gatherer.Gatherer):
        def _begin(self, bucket):
            super()._begin(bucket)
            rank = self.world.rank
            gathers[rank] = gathers.get(rank, 0) + 1
            for y in self.there[bucket]:
                alive.setdefault(rank, []).append(weakref.ref(y._data.base))
            most[rank] = max(most.get(rank, 0), sum(ref() is not None for ref in alive[rank]))

    monkeypatch.setattr(parallel, "Gatherer", Watched)

    def one(rank):
        with cm.device("cpu"):
            params = optree.tree_map(cm.asarray, whole)
            like, shards = distributed.outline(params), distributed.to_shards(params)
            step = distributed.value_and_grad(tied_loss, like=like, bucket=1)
            for _ in range(2):
                most[rank] = gathers[rank] = 0
                step(shards, cm.asarray(x))

    each(2, one)
    for rank in (0, 1):
        assert 3 <= most[rank] <= 5  # two, the one that is read, the next; of 13
        assert gathers[rank] > 20


def test_an_order_that_was_learned_lets_gradients_go_early(monkeypatch):
    """The table is the last array of the tree, and its gradient is complete last: in the first call
    all others wait for it."""
    rng = np.random.default_rng(3)
    whole, x = {"layers": layers_of(rng), "table": rng.normal(size=(5, 8))}, rng.normal(size=(4, 5))
    begun = {}

    class Watched(buckets.Averages):
        def ready(self, i, g):
            self.came = getattr(self, "came", 0) + 1
            super().ready(i, g)
            begun[self.world.rank].append((self.came, self.begun))

    monkeypatch.setattr(buckets, "Averages", Watched)

    def one(rank):
        with cm.device("cpu"):
            step = distributed.value_and_grad(tied_loss, bucket=1)
            found = []
            for _ in range(2):
                begun[rank] = []
                step(optree.tree_map(cm.asarray, whole), cm.asarray(x))
                found.append(begun[rank])
            return found

    for first, second in each(2, one):
        assert [count for _, count in first] == [0] * 12 + [13]
        assert second == [(i, i) for i in range(1, 14)]


def test_large_gradients_of_a_gpu_travel_as_they_are():
    """The others lie one behind another; so do all of the CPU's, and those whose pieces are not
    equal parts of them."""
    shapes = [(1024, 512), (7,), (3, 1 << 19), (5,), (1025, 1023)]
    for device, parts, expected in [
        (0, 1, [[(4,), (3,)], [(2,)], [(0,), (1,)]]),
        (0, 2, [[(4, 3)], [(2,)], [(0,), (1,)]]),
        (-1, 1, [[(4, 3)], [(2,)], [(1, 0)]]),
    ]:
        layouts = tuple([Layout.new(x, np.dtype("f4"), device) for x in shapes])
        found = buckets.divided(layouts, (4, 3, 2, 1, 0), 4 << 20, parts)
        assert [[parcel.numbers for parcel in some] for some in found] == expected
        for parcel in [parcel for some in found for parcel in some]:
            for i, layout, width in zip(*parcel, strict=True):
                assert layout is layouts[i] and (width - 1) * parts < layout.size <= width * parts


def test_pieces_want_one_device():
    with pytest.raises(ValueError, match=r"value_and_grad: pieces \(like=\) want one device"):
        distributed.value_and_grad(tied_loss, like={}, devices=["cpu"])


def test_pieces_that_do_not_fit_are_refused():
    like = {"w": np.zeros(5)}
    step = distributed.value_and_grad(lambda p: p["w"].sum(), like=like)
    for problem in each(2, lambda rank: step({"w": cm.ones(5, device="cpu")})):
        assert "value_and_grad: an array of shape (5,) has pieces of shape (3,)" in str(problem)
