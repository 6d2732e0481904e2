"""Checkpoints in pieces, and batches in shares: a run goes on with another number of processes."""

from __future__ import annotations

import json
import os
import threading
import time

import numpy as np
import pytest
from processes import each

import cudamath as cm
from cudamath import distributed
from cudamath.distributed import checkpoints

pytest.importorskip("safetensors")
pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)

DATA = {
    "w": np.random.default_rng(0).normal(size=(5, 7)),
    "b": [np.float32([1, 2, 3]), np.float32(4)],
    "empty": np.zeros((0, 2)),
    "16 bits": np.arange(9).astype(cm.bfloat16),
}


def tree(device="cpu"):
    return {
        name: [cm.asarray(each, device=device) for each in x]
        if isinstance(x, list)
        else cm.asarray(x, device=device)
        for name, x in DATA.items()
    }


def saved(path, count, device="cpu", scale=1):
    def one(rank):
        shards = distributed.to_shards(tree(device))
        shards["w"] *= scale
        distributed.save_shards(path, shards, tree(device), whole={"step": scale})

    assert each(count, one) == [None] * count


def test_all_wait_for_the_index(tmp_path, monkeypatch):
    """Whoever returns may read the checkpoint at once, however late its index is written."""
    whole_file = checkpoints.whole_file

    def late(*args):
        time.sleep(0.3)
        return whole_file(*args)

    monkeypatch.setattr(checkpoints, "whole_file", late)
    path, x = tmp_path / "run", cm.arange(6.0)

    def one(rank):
        distributed.save_shards(path, distributed.to_shards(x), x)
        return (path / checkpoints._INDEX).exists()

    assert each(2, one) == [True, True]


def test_the_index_waits_for_all_pieces(tmp_path, monkeypatch):
    """It names pieces that are there; until then the previous checkpoint is whole."""
    written, whole_file = checkpoints.save, checkpoints.whole_file
    begun, there = threading.Event(), []

    def late(path, what):
        if "-1.safetensors" in str(path):
            begun.wait(1)  # in vain
        written(path, what)

    def seen(*args):
        there.extend(path.name for path in tmp_path.iterdir())
        begun.set()
        return whole_file(*args)

    saved(tmp_path / "first", 2)  # what is compiled and imported
    monkeypatch.setattr(checkpoints, "save", late)
    monkeypatch.setattr(checkpoints, "whole_file", seen)
    x = cm.arange(6.0)

    def one(rank):
        distributed.save_shards(tmp_path, distributed.to_shards(x), x)

    assert each(2, one) == [None, None]
    assert len([name for name in there if name.endswith("-1.safetensors")]) == 1


def check(path, count, device="cpu", scale=1):
    like = distributed.outline(tree())

    def one(rank):
        shards, whole = distributed.load_shards(path, like, device=device)
        return distributed.from_shards(shards, like), whole

    for found, whole in each(count, one):
        assert whole == {"step": scale}
        np.testing.assert_array_equal(np.asarray(found["w"]), DATA["w"] * scale)
        np.testing.assert_array_equal(np.asarray(found["b"][0]), DATA["b"][0])
        assert found["b"][1].shape == () and float(found["b"][1]) == 4
        assert found["empty"].shape == (0, 2) and found["16 bits"].dtype == cm.bfloat16
        np.testing.assert_array_equal(np.asarray(found["16 bits"]), DATA["16 bits"])


@pytest.mark.parametrize(("writers", "readers"), [(4, 2), (4, 1), (1, 3), (3, 5), (2, 2)])
def test_written_by_some_and_read_by_others(device, tmp_path, writers, readers):
    saved(tmp_path / "run", writers, device)
    check(tmp_path / "run", readers, device)


def test_the_next_one_takes_its_place(tmp_path):
    for scale in (1, 2):
        saved(tmp_path, 2, scale=scale)
    check(tmp_path, 2, scale=2)
    assert len(list(tmp_path.iterdir())) == 4  # two pieces, what is whole, the index


def test_a_process_that_fails_leaves_the_previous_one(tmp_path, monkeypatch):
    saved(tmp_path, 3)
    from cudamath.distributed import checkpoints

    written = checkpoints.save

    def failing(path, what):
        if "-1.safetensors" in str(path):
            raise MemoryError("no room")
        written(path, what)

    monkeypatch.setattr(checkpoints, "save", failing)

    def one(rank):
        shards = distributed.to_shards(tree())
        shards["w"] *= 2
        distributed.save_shards(tmp_path, shards, tree(), whole={"step": 2})

    with pytest.raises(MemoryError, match="no room"):
        distributed.in_threads(3, one)
    check(tmp_path, 3)


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no checkpoint: it has no index.json"):
        distributed.load_shards(tmp_path, tree())
    saved(tmp_path, 2)
    with pytest.raises(ValueError, match=r"has other arrays: \(9,\) in place of \(8,\)"):
        distributed.load_shards(tmp_path, tree() | {"16 bits": cm.ones(8)})
    with pytest.raises(ValueError, match="has other arrays: 5 arrays in place of 1"):
        distributed.load_shards(tmp_path, [cm.asarray(DATA["16 bits"])])
    (tmp_path / "index.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(ValueError, match="index.json is damaged"):
        distributed.load_shards(tmp_path, tree())


def loss(params, x, y):
    return ((cm.tanh(x @ params["w"]) @ params["v"] - y) ** 2).mean()


def test_a_run_goes_on_with_another_number_of_processes(device, tmp_path):
    """4 processes, then 2, then 1: the losses of one that runs through, batches and all."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    start = {"w": rng.normal(size=(3, 5)), "v": rng.normal(size=5)}

    def arrays():
        return {name: cm.asarray(p.copy(), device=device) for name, p in start.items()}

    def loader(share):
        return cm.data.batches((x, y), 8, shuffle=True, seed=7, device=device, share=share)

    params = arrays()
    state, losses = cm.ml.adam_init(params), []
    with loader((0, 1)) as batches:
        for batch in batches.steps(12):
            value, grads = cm.value_and_grad(loss)(params, *batch)
            cm.ml.adam_update(params, grads, state, lr=1e-2)
            losses.append(float(value))

    def part(rank, steps, first):
        params = arrays()
        like = distributed.outline(params)
        kept = {"params": like, "m": like, "v": like}
        share = distributed.rank(), distributed.size()
        with loader(share) as batches:
            if first:
                shards = distributed.to_shards(params)
                state = cm.ml.adam_init(shards)
            else:
                found, whole = distributed.load_shards(tmp_path, kept, device=device)
                shards = found.pop("params")
                state = {**found, "step": whole["step"]}
                batches.state = whole["data"]
            distributed.update_from_shards(params, shards)
            step = distributed.value_and_grad(loss, sharded=True)
            seen = []
            for batch in batches.steps(steps):
                value, grads = step(params, *batch)
                cm.ml.adam_update(shards, grads, state, lr=1e-2)
                distributed.update_from_shards(params, shards)
                seen.append(float(value))
            distributed.save_shards(
                tmp_path,
                {"params": shards, "m": state["m"], "v": state["v"]},
                kept,
                whole={"step": state["step"], "data": batches.state},
            )
        return seen

    found = []
    for count in (4, 2, 1):
        runs = each(count, lambda rank, first=count == 4: part(rank, 4, first))
        assert all(run == runs[0] for run in runs), runs
        found += runs[0]
    np.testing.assert_allclose(found, losses, rtol=1e-12)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_shares_of_batches_are_the_batches(prefetch):
    x = np.arange(22)

    def rows(share, **options):
        with cm.data.batches(x, 8, shuffle=True, prefetch=prefetch, share=share, **options) as all:
            return [batch.tolist() for batch in all.steps(6)]

    whole = rows((0, 1))
    parts = [rows((i, 2)) for i in range(2)]
    assert [a + b for a, b in zip(*parts, strict=True)] == whole
    with pytest.raises(ValueError, match="4 processes cannot divide a batch of 6 rows equally; dr"):
        rows((0, 4))
    assert len(rows((0, 4), drop_last=True)[0]) == 2
    with pytest.raises(ValueError, match="3 processes cannot divide a batch of 8 rows equally"):
        rows((0, 3), drop_last=True)
    with pytest.raises(ValueError, match="share is .number of this process"):
        rows((2, 2))
