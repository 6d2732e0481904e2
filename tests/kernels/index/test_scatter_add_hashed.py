"""Gradients of embeddings by claimed slots, by name: in the simulator, whose threads meet as a
warp's do, and on a GPU."""

import numpy as np
import pytest
import simulated_gpu

import cudamath as cm
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.lazy_numba import cuda
from cudamath.kernels.index import dispatch, owners
from cudamath.kernels.index import scatter_add_hashed as kernels
from cudamath.kernels.lib import vector_io
from cudamath.runtime.device import assume

NAMES = ["clear_claims", "claim_slots", "sum_claimed"]


def named(plan):
    return [step.kernel.__name__ for step in plan.steps]


def planned(g, *indices, shape, axis=0):
    return dispatch.gather_grad(*map(cm.testing.layout_of, (g, *indices)), shape=shape, axis=axis)


def sources(rng, table, m, columns, dtype, often):
    """(index, values, expected sums); the `often`, a share of the indices each, are the same
    rows."""
    index = rng.integers(-table, table, m)
    for row, share in enumerate(often):
        index[rng.random(m) < share] = table - 1 - 3 * row
    values = rng.integers(-9, 9, (m, columns)).astype(dtype)
    sums = np.zeros((table, columns))
    np.add.at(sums, index, values.astype("f8"))
    return index, values, sums


SMALL = {
    "WARPS": 2,
    "THREADS": 64,
    "LOOKS": 2,
    "DEEP": 2,
    "LIST": 64,
    "SLOTS": 5,
    "NARROWER": (8, 12, 20, 40),
    "TASK": 200,
    "OWN": 64,
    "CLAIMS": 32,
    "CREWS": 1,
}
ANY_SIZE = {"HASHED_ROW": 16, "HASHED_SIZE": 0, "HASHED_CROWD": 1000}


@pytest.fixture
def small(monkeypatch):
    """Blocks of two warps, short lists, in the simulator; any result is large enough."""
    from numba.cuda.simulator.kernelapi import FakeCUDAModule

    for name, function in simulated_gpu.Warps().functions().items():
        monkeypatch.setattr(FakeCUDAModule, name, function, raising=False)
    monkeypatch.setattr(
        vector_io,
        "load_vector",
        lambda a, i, count: tuple(a[int(i) : int(i) + count]),
        raising=False,
    )
    monkeypatch.setattr(
        vector_io,
        "store_vector",
        lambda a, i, v: a.__setitem__(slice(int(i), int(i) + len(v)), v),
        raising=False,
    )
    monkeypatch.setattr(owners, "SIMULATOR", False)
    monkeypatch.setattr(owners, "LEAST", 16)
    for name, value in SMALL.items():
        monkeypatch.setattr(kernels, name, value)
    for name, value in ANY_SIZE.items():
        monkeypatch.setattr(dispatch, name, value)
    made = (
        kernels.claim_slots,
        kernels.clear_claims,
        kernels.sum_claimed,
        kernels.crew,
        kernels.tasks_of,
        kernels.running,
        kernels.finding,
        kernels.ordered,
        vector_io.fetcher,
        vector_io.writer,
    )
    for factory in made:
        factory.cache_clear()
    yield
    for factory in made:
        factory.cache_clear()


@pytest.mark.simulator
@pytest.mark.parametrize(
    "table, m, columns, dtype, often",
    [
        (50, 70, 12, "f4", ()),
        (50, 200, 72, "f4", (0.3, 0.1, 0.04)),
        (3, 5, 8, "i4", ()),
        (40, 150, 4, "f8", (1,)),
        (9, 66, 1032, "f4", (0.5,)),
        (21, 100, 40, "f2", (0.5, 0.1)),
        (1, 1, 4, "f4", ()),
        (70, 420, 4, "f4", ()),
    ],
)
def test_sums_of_claimed_slots_simulated(small, table, m, columns, dtype, often):
    """Rows without sources, with some, with more than slots, with more than a crew has in order at
    once, more such rows than a crew has threads."""
    index, values, sums = sources(np.random.default_rng(table), table, m, columns, dtype, often)
    if table == 70:
        index = np.arange(m) % 70  # six sources each: all are chosen often
        sums = values.reshape(6, 70, columns).sum(0, dtype="f8")
    with assume((8, 0), 3):
        plan = planned(values, index, shape=sums.shape)
    per = min(max(64 // (columns * values.itemsize), 1), 32)
    assert named(plan) == NAMES and plan.steps[2].grid[0] == 3 * (m > 5) - (-table // (2 * per))
    np.testing.assert_array_equal(cm.testing.simulate(plan, values, index), sums)


@pytest.mark.simulator
@pytest.mark.parametrize("table, m, columns", [(50, 70, 12), (3, 5, 8)])
def test_an_index_that_is_not_there_simulated(small, table, m, columns):
    index, values, sums = sources(np.random.default_rng(table), table, m, columns, "f4", ())
    index[m // 2] = table
    with assume((8, 0), 3):
        plan = planned(values, index, shape=sums.shape)
    with pytest.raises(IndexError):
        cm.testing.simulate(plan, values, index)


def turned(plan, slots):
    """The same plan where the sources of each row have come in the opposite order."""

    @cuda.jit
    def turned(counts, lists, keys):
        row = cuda.grid(1)
        count, mine = counts[row], []
        for k in range(-(-count // slots)):
            at = row
            if k:
                at = counts.size - 1 + np.flatnonzero(np.asarray(keys) == (row << 32 | k))[0]
            mine += [at * slots + i for i in range(min(slots, count - k * slots))]
        found = [lists[i] for i in mine]
        for i, source in zip(mine, reversed(found), strict=True):
            lists[i] = source

    counts, lists, _, keys = plan.steps[1].args[1:5]
    plan.steps.insert(2, Launch(turned, plan.outputs[0].shape[0], 1, [counts, lists, keys]))
    return plan


@pytest.mark.simulator
@pytest.mark.parametrize("m, often", [(90, 0.0), (90, 0.3), (90, 1.0)])
def test_sums_of_claimed_slots_keep_their_order_simulated(small, m, often):
    """Whatever order they came in: 1e8 and -1e8 cancel only in the order of the sources."""
    rng = np.random.default_rng(7)
    index, values, _ = sources(rng, 20, m, 4, "f4", (often,))
    values *= rng.choice(np.array([1e8, 1, 1e-3], "f4"), (m, 1))
    with assume((8, 0), 3):
        plan = planned(values, index, shape=(20, 4))
    assert named(plan) == NAMES
    once = cm.testing.simulate(plan, values, index)
    np.testing.assert_array_equal(cm.testing.simulate(turned(plan, 5), values, index), once)
    for row in range(20):
        mine = np.flatnonzero(index % 20 == row)
        turns = 1
        if mine.size > 5:  # slots here: 64 threads in groups of 32 lanes and fewer
            turns = 2 << sum(mine.size >= n for n in SMALL["NARROWER"])
        groups = np.zeros((turns, 4), "f4")
        for turn, j in enumerate(mine):
            groups[turn % turns] += values[j]
        total = groups[0]
        for group in groups[1:]:
            total = total + group
        np.testing.assert_array_equal(once[row], total)


@pytest.mark.simulator
def test_claims_along_two_axes_simulated(small):
    """Rows chosen by two indices are told first; a gradient that is broadcast is made whole."""
    rng = np.random.default_rng(3)
    i, j, g = (
        rng.integers(-6, 6, 60),
        rng.integers(-5, 5, 60),
        rng.integers(-9, 9, (60, 8)).astype("f4"),
    )
    sums = np.zeros((6, 5, 8))
    np.add.at(sums, (i, j), g)
    with assume((8, 0), 3):
        plan = planned(g, i, j, shape=(6, 5, 8))
    assert named(plan) == ["first_two_positions", *NAMES]
    np.testing.assert_array_equal(cm.testing.simulate(plan, g, i, j), sums)


@pytest.mark.simulator
@pytest.mark.parametrize("count", [1, 40, kernels.LIST, kernels.LIST + 1])
@pytest.mark.parametrize("vectors", [1, 33, 40_000, 3_000_000])
def test_tasks_cover_a_row_of_any_length(count, vectors):
    """Their slices, each of as many accesses as a group has lanes, are all of the row, and no task
    is empty; rows may be longer than 16 bits count."""
    narrower = kernels.NARROWER
    bits, several, tasks = map(int, kernels.tasks_of(narrower)(np.int32(count), np.int32(vectors)))
    assert bits == 5 - sum(count >= n for n in narrower) and several >= 1
    slices = -(-vectors // (1 << bits))
    assert several * (tasks - 1) < slices <= several * tasks


@pytest.mark.skipif(owners.SIMULATOR, reason="the simulator has no wide loads")
def test_what_claims_slots():
    """Gradients of large tables of long rows that not too many sources go to; else what there was
    before."""

    def steps(shape, m, dtype="f4", axis=0):
        with assume((9, 0)):
            g = Layout.new((*shape[:axis], m, *shape[axis + 1 :]), np.dtype(dtype), 0)
            return named(
                dispatch.gather_grad(g, Layout.new((m,), np.dtype("i8"), 0), shape=shape, axis=axis)
            )

    for shape, m, dtype in (
        ((50257, 768), 8192, "f4"),
        ((50257, 768), 1, cm.bfloat16),
        ((800_000, 256), 4096, "f4"),
        ((50257, 768), 1 << 14, "f4"),
        ((800, 4096), 12_800, "i4"),
        ((1000, 8192), 32, "f2"),
    ):
        assert steps(shape, m, dtype) == [f"{name}_early" for name in NAMES]
    for shape, m, dtype, axis in (
        ((50257, 768), (1 << 14) + 1, "f4", 0),
        ((800, 4096), 12_801, "f4", 0),
        ((2000, 1024), 200, "f4", 0),
        ((50257, 128), 8192, "f4", 0),
        ((50257, 769), 8192, "f4", 0),
        ((50257, 768), 8192, "c8", 0),
        ((3, 5000, 768), 8192, "f4", 1),
        ((50257, 768), 0, "f4", 0),
    ):
        assert not any("claim" in name for name in steps(shape, m, dtype, axis))


@pytest.mark.skipif(owners.SIMULATOR, reason="the simulator has no wide loads")
def test_rows_of_more_accesses_than_16_bits_count():
    """2^18 numbers of 4 bytes are 2^16 accesses of 16 bytes."""
    with assume((9, 0)):
        g, index = (
            Layout.new((64, 1 << 18), np.dtype("f4"), 0),
            Layout.new((64,), np.dtype("i8"), 0),
        )
        plan = dispatch.gather_grad(g, index, shape=(64, 1 << 18), axis=0)
    assert named(plan) == [f"{name}_early" for name in NAMES]
    assert 1 << 16 in [int(a) for a in plan.steps[2].args if isinstance(a, np.integer)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f2", cm.bfloat16, "f8", "i4", "u2"])
@pytest.mark.parametrize(
    "table, m, columns, often",
    [
        (20_000, 8192, 768, ()),
        (12_001, 16_000, 1040, (0.3, 0.1, 0.03, 0.01, 0.004, 0.002)),
        (20_000, 3000, 520, (1,)),
        (1200, 2400, 8200, (0.02,)),
        (9000, 20, 520, ()),
        (4200, 16_384, 1024, (1,)),
        (4200, 16_384, 1024, (0.1, 0.02)),
    ],
)
def test_sums_of_claimed_slots_on_gpu(table, m, columns, often, dtype):
    """Whole numbers; then twice the same bits of any, and what float64 gives; an index that does
    not exist."""
    rng = np.random.default_rng(3)
    index, _, _ = sources(rng, table, m, 1, "f4", often)
    values = rng.integers(0, 3, (m, columns), np.int8)
    order = np.argsort(index % table, kind="stable")
    found, starts = np.unique((index % table)[order], return_index=True)
    wide = "f4" if dtype != "f8" else "f8"
    with cm.device("cuda"):
        g, places = cm.asarray(values.astype(dtype)), cm.asarray(index)
        plan = dispatch.gather_grad(g._layout, places._layout, shape=(table, columns), axis=0)
        assert [name.removesuffix("_early") for name in named(plan)] == NAMES
        run = plan.bind("claimed", [g._layout, places._layout])
        memory = [
            cm.full((table, columns), 7, dtype=dtype)
        ]  # what rows without sources must not keep
        memory.clear()
        got = run(g, places).to_numpy()
        assert not got[np.setdiff1d(np.arange(table), found)].any()
        sums = np.add.reduceat(values[order], starts, axis=0, dtype="i4")
        np.testing.assert_array_equal(got[found], sums.astype(wide).astype(dtype))
        if np.dtype(dtype).kind not in "iu":
            noise = rng.standard_normal((m, columns), dtype="f4").astype(dtype)
            g = cm.asarray(noise)
            once = run(g, places).to_numpy()
            exact = np.add.reduceat(noise[order].astype("f8"), starts, axis=0)
            most = np.bincount(index % table).max()
            tolerance = {2: 2.0**-8 if dtype == cm.bfloat16 else 2.0**-11, 4: 0, 8: 0}[
                np.dtype(dtype).itemsize
            ]
            np.testing.assert_allclose(
                once[found].astype("f8"), exact, rtol=tolerance, atol=2e-6 * most
            )
            for _ in range(3):
                np.testing.assert_array_equal(run(g, places).to_numpy(), once)
        places[m // 2] = table
        with pytest.raises(IndexError):
            run(g, places)
            cm.cuda.synchronize()


@pytest.mark.gpu
def test_claimed_gradient_of_embedding_in_a_graph():
    """Padding gets none; replayed with other tokens, counts begin at 0 again; tokens twice as often
    give twice as much."""
    rng = np.random.default_rng(5)
    with cm.device("cuda"):
        weight = cm.zeros((4096, 640), "f4")
        slope = cm.grad(lambda w, i: (cm.ml.embedding(i, w, padding_idx=3) * 2).sum())
        step = cm.cuda.graph(lambda i: slope(weight, i))
        for share in (0, 0.5, 0.9):
            new = rng.integers(0, 4096, 5000)
            new[rng.random(5000) < share] = 3
            new[:60] = 17
            expected = 2.0 * np.bincount(new, minlength=4096)
            expected[3] = 0
            np.testing.assert_array_equal(
                step(cm.asarray(new)).to_numpy(), np.broadcast_to(expected[:, None], (4096, 640))
            )
