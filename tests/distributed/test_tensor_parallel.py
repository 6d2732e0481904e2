"""Layers divided among processes: values, gradients and losses of the whole ones; grids of
processes."""

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

WIDTH, HEADS, WORDS, PADDED = 8, 4, 13, 16
SHAPES = {
    "embedding": (PADDED, WIDTH),
    "qkv": (3 * WIDTH, WIDTH),
    "qkv bias": (3 * WIDTH,),
    "out": (WIDTH, WIDTH),
    "out bias": (WIDTH,),
    "up": (4 * WIDTH, WIDTH),
    "up bias": (4 * WIDTH,),
    "down": (WIDTH, 4 * WIDTH),
    "down bias": (WIDTH,),
}
#: How each weight is divided: along which axis, by thirds or not; None: whole.
AXES = {"embedding": 0, "up": 0, "up bias": 0, "out": 1, "down": 1}


def create(device):
    rng = np.random.default_rng(0)
    return {
        name: cm.asarray(rng.normal(size=shape) / 3, device=device)
        for name, shape in SHAPES.items()
    }


def tokens(device, rows=4):
    found = np.random.default_rng(1).integers(0, WORDS, (rows, 7))
    return [cm.asarray(x, device=device) for x in (found[:, :-1], found[:, 1:])]


def loss(p, x, targets):
    y = cm.ml.embedding(x, p["embedding"], classes=WORDS)
    y = y + cm.ml.linear(
        cm.ml.self_attention(cm.ml.linear(y, p["qkv"], p["qkv bias"]), HEADS),
        p["out"],
        p["out bias"],
    )
    hidden = cm.ml.linear(y, p["up"], p["up bias"], activation="gelu")
    y = y + cm.ml.linear(hidden, p["down"], p["down bias"])
    return cm.ml.cross_entropy(
        cm.ml.linear(y, p["embedding"])[..., :WORDS].reshape(-1, WORDS), targets.reshape(-1)
    )


def divided_loss(p, x, targets):
    d = distributed
    y = d.vocabulary_embedding(x, p["embedding"])
    y = y + d.parallel_attention(y, p["qkv"], p["qkv bias"], p["out"], p["out bias"], HEADS)
    hidden = d.column_linear(y, p["up"], p["up bias"], activation="gelu")
    y = y + d.row_linear(hidden, p["down"], p["down bias"])
    return d.vocabulary_cross_entropy(y, p["embedding"], targets, classes=WORDS)


def shares(params):
    """This process's part of each weight."""
    found = {}
    for name, w in params.items():
        if name.startswith("qkv"):
            thirds = w.reshape(3, WIDTH, *w.shape[1:])
            found[name] = distributed.share(thirds, axis=1).reshape(-1, *w.shape[1:])
        elif name in AXES:
            found[name] = distributed.share(w, axis=AXES[name])
        else:
            found[name] = w
        found[name] = found[name].copy()
    return found


def trained(gradient, params, data, steps=4):
    losses = []
    for _ in range(steps):
        value, grads = gradient(params, *data)
        params, _ = cm.ml.sgd_update(params, grads, lr=0.3)
        losses.append(float(value))
    return losses, params


@pytest.mark.parametrize("count", [2, 4])
def test_losses_and_weights_are_those_of_one_process(device, count):
    losses, params = trained(cm.value_and_grad(loss), create(device), tokens(device))

    def one(rank):
        mine = shares(create(device))
        found, mine = trained(cm.value_and_grad(divided_loss), mine, tokens(device))
        return found, mine, shares(params)

    for found, mine, expected in each(count, one):
        np.testing.assert_allclose(found, losses, rtol=1e-12)
        for name, w in expected.items():
            np.testing.assert_allclose(np.asarray(mine[name]), np.asarray(w), rtol=1e-9, atol=1e-12)


def test_replicas_of_divided_layers(device):
    """A grid of 2 by 2: batches along one axis, weights along the other."""
    losses, params = trained(cm.value_and_grad(loss), create(device), tokens(device))

    def one(rank):
        data, tensor = distributed.mesh(2, 2)
        assert (data.rank, tensor.rank) == (rank // 2, rank % 2)
        with tensor:
            mine = shares(create(device))
        with data:
            batch = distributed.share(tokens(device))

        def inner(p, x, targets):
            with tensor:
                return divided_loss(p, x, targets)

        step = distributed.value_and_grad(inner, bucket=500)

        def gradient(*args):
            with data:
                return step(*args)

        found, mine = trained(gradient, mine, batch)
        with tensor:
            return found, mine, shares(params)

    for found, mine, expected in each(4, one):
        np.testing.assert_allclose(found, losses, rtol=1e-12)
        for name, w in expected.items():
            np.testing.assert_allclose(np.asarray(mine[name]), np.asarray(w), rtol=1e-9, atol=1e-12)


def test_groups_of_a_mesh(device):
    def one(rank):
        groups = distributed.mesh(2, 1, 3)
        found = []
        for group in groups:
            with group:
                x = cm.asarray(rank, device=device)
                found.append(distributed.all_gather(x).tolist())
                assert (distributed.rank(), distributed.size()) == (group.rank, group.size)
        assert distributed.size() == 6
        return found

    for rank, found in enumerate(each(6, one)):
        row = 3 * (rank // 3)
        assert found == [[rank % 3, rank % 3 + 3], [rank], [row, row + 1, row + 2]]


def test_a_failure_in_a_group_is_named_by_the_rank_in_the_world():
    def one(rank):
        _, columns = distributed.mesh(2, 2)
        if rank == 3:
            raise MemoryError("no room")
        with columns:
            try:
                distributed.all_reduce(cm.ones(2))
                distributed.all_reduce(cm.ones(2))
            except distributed.CommunicationError as problem:
                assert problem.rank == 3
                seen.append(rank)

    seen = []
    with pytest.raises(MemoryError, match="no room"):
        distributed.in_threads(4, one, timeout=30)
    assert 2 in seen


def test_loss_of_rows_that_one_process_does_not_have(device):
    """Classes that fill a part of the table of one process, and none of another's."""
    rng = np.random.default_rng(0)
    x, w, targets = rng.normal(size=(5, 3)), rng.normal(size=(12, 3)), rng.integers(0, 4, 5)

    def whole(x, w):
        logits = x @ w[:5].T
        return cm.ml.cross_entropy(logits, cm.asarray(targets, device=device))

    a, b = (cm.asarray(each, device=device) for each in (x, w))
    value, (gx, gw) = cm.value_and_grad(whole, (0, 1))(a, b)

    def one(rank):
        def part(x, w):
            return distributed.vocabulary_cross_entropy(x, w, targets, classes=5)

        return cm.value_and_grad(part, (0, 1))(a, distributed.share(b))

    for rank, (found, (hx, hw)) in enumerate(each(3, one)):
        np.testing.assert_allclose(float(found), float(value), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(hx), np.asarray(gx), rtol=1e-10, atol=1e-13)
        own = np.asarray(gw)[4 * rank : 4 * rank + 4]
        np.testing.assert_allclose(np.asarray(hw), own, rtol=1e-10, atol=1e-13)


def test_wrong_use():
    with pytest.raises(ValueError, match="mesh: wants lengths whose product is 1"):
        distributed.mesh(2, 2)
    for problem in each(
        2,
        lambda rank: distributed.parallel_attention(
            cm.ones((1, 2, 3)), cm.ones((9, 3)), None, cm.ones((3, 3)), None, 3
        ),
    ):
        assert "2 processes cannot divide 3 heads equally" in str(problem)
    with pytest.raises(TypeError, match="vocabulary_embedding: wants integer indices"):
        distributed.vocabulary_embedding(cm.ones(2), cm.ones((2, 2)))
