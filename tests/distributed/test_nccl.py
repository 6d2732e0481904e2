"""NCCL: what is asked of it, on the fake driver and a fake of its bindings; and on real GPUs, alone
and between two."""

from __future__ import annotations

import inspect
import os
import threading
import time

import fake_nccl
import numpy as np
import pytest
from processes import each

import cudamath as cm
from cudamath import distributed
from cudamath.distributed import collectives, gatherer
from cudamath.models import gpt2, training
from cudamath.runtime.communication import nccl
from cudamath.runtime.communication.environment import world
from cudamath.runtime.communication.world import World
from cudamath.runtime.errors import CommunicationError, CudaError

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)


@pytest.fixture
def library(fake, monkeypatch):
    """The fake of NCCL over the fake driver with two devices."""
    with fake_nccl.installed(monkeypatch, fake) as made:
        yield made


def values(rank, shape, dtype):
    return (np.random.default_rng(rank).normal(size=shape) * 10).astype(dtype)


def on(rank, x):
    return cm.asarray(x, device=f"cuda:{rank}")


@pytest.mark.parametrize("dtype", ["float32", "float16", cm.bfloat16, "int64", "complex64"])
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_all_reduce(library, op, dtype):
    kind = np.dtype(dtype).kind
    if (op == "mean" and kind == "i") or (op == "max" and kind != "i"):
        pytest.skip("not NCCL's")
    parts = [[values(rank + 10 * i, n, dtype) for i, n in enumerate((5, 0, 3))] for rank in (0, 1)]
    found = each(
        2,
        lambda rank: [
            y.to_numpy() for y in distributed.all_reduce([on(rank, x) for x in parts[rank]], op)
        ],
    )
    for a, b, *results in zip(*parts, *found, strict=True):
        expected = np.maximum(a, b) if op == "max" else a + b
        expected = (expected / 2).astype(dtype) if op == "mean" else expected
        for y in results:
            np.testing.assert_array_equal(y, expected)
    assert library.calls == ["all_reduce"] * 4  # none for the empty array, groups of two


def test_the_others(library):
    parts = [values(rank, (4, 3), "float32") for rank in (0, 1)]

    def one(rank):
        x = on(rank, parts[rank])
        if rank == 0:
            distributed.send(x, 1)
        received = distributed.recv(x, 0) if rank else x
        return [
            y.to_numpy()
            for y in (
                distributed.all_gather(x),
                distributed.reduce_scatter(x),
                distributed.broadcast(x, 1),
                distributed.all_to_all(x),
                received,
            )
        ]

    for rank, (gathered, scattered, told, exchanged, received) in enumerate(each(2, one)):
        rows = slice(2 * rank, 2 * rank + 2)
        np.testing.assert_array_equal(gathered, np.concatenate(parts))
        np.testing.assert_array_equal(scattered, sum(parts)[rows])
        np.testing.assert_array_equal(told, parts[1])
        np.testing.assert_array_equal(exchanged, np.concatenate([x[rows] for x in parts]))
        np.testing.assert_array_equal(received, parts[0])


def test_a_ring_in_a_group(library):
    def one(rank):
        x = on(rank, values(rank, 3, "float32"))
        with cm.device(f"cuda:{rank}"), distributed.group():
            distributed.send(x, 1 - rank)
            received = distributed.recv(x, 1 - rank)
        return received.to_numpy()

    for rank, y in enumerate(each(2, one)):
        np.testing.assert_array_equal(y, values(1 - rank, 3, "float32"))


def test_plans_are_kept_and_make_one_call(library):
    def one(rank):
        x = on(rank, np.float32([1, 2]))
        return [distributed.all_reduce(x).to_numpy().tolist() for _ in range(4)]

    assert each(2, one) == [[[2.0, 4.0]] * 4] * 2
    assert library.calls == ["all_reduce"] * 8


def test_in_graphs_and_on_streams(library):
    """Recorded once and replayed: with the numbers of each replay."""

    def one(rank):
        step = cm.cuda.graph(lambda x: distributed.all_reduce(x))
        found = []
        with cm.cuda.Stream(rank):
            for number in range(5):
                x = on(rank, np.float32([number, rank]))
                found.append(step(x).to_numpy().tolist())
        return found

    assert each(2, one) == [[[2.0 * i, 1.0] for i in range(5)]] * 2
    assert library.calls == ["all_reduce"] * 4  # the first call, and the capture


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("sharded", [False, True])
def test_gradients_travel_on_a_stream_of_their_own(library, fake, monkeypatch, sharded, captured):
    """In a graph too; the streams part and meet, and the watch, which looks all the time here,
    leaves what is captured alone. (Kernels do nothing here.)"""
    fake.idle = True
    monkeypatch.setattr(nccl, "_TURN", 1e-4)

    def one(rank):
        with cm.device(f"cuda:{rank}"):
            params = [on(rank, np.ones((4, 4), "f4")) for _ in range(3)]
            x = on(rank, np.ones((2, 4), "f4"))

            def loss(params, x):
                for w in params:
                    x = cm.tanh(x * w[0])
                return x.sum()

            step = distributed.value_and_grad(loss, bucket=1, sharded=sharded)
            call = cm.cuda.graph(step) if captured else step
            for _ in range(3):
                value, grads = call(params, x)
            cm.cuda.synchronize()
            beside = nccl.communicator(world(), rank, "gradients")._beside
            assert beside is not None and beside is not cm.cuda.current_stream()
            return [g.shape for g in grads]

    shape = (8,) if sharded else (4, 4)
    assert each(2, one) == [[shape] * 3] * 2
    call = "reduce_scatter" if sharded else "all_reduce"
    times = 2 if captured else 3
    expected = {call: 2 * times * 3, "all_reduce": 2 * times * (1 if sharded else 4)}
    assert {name: library.calls.count(name) for name in set(library.calls)} == expected


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("deterministic", [False, True])
def test_parameters_are_put_together_beside(library, fake, monkeypatch, deterministic, captured):
    """Those that are read next are on their way while the others are used; their memory is free
    again in between, also within a graph. (Kernels do nothing here.)"""
    fake.idle = True
    monkeypatch.setattr(nccl, "_TURN", 1e-4)
    monkeypatch.setattr(gatherer, "KEPT", 2)
    side = 64

    def one(rank):
        with cm.device(f"cuda:{rank}"):
            params = [on(rank, np.ones((side, side), "f4")) for _ in range(10)]
            like, shards = distributed.outline(params), distributed.to_shards(params)
            x = on(rank, np.ones((2, side), "f4"))
            del params

            def loss(params, x):
                for w in params:
                    x = cm.tanh(x @ w)
                return x.sum()

            step = distributed.value_and_grad(
                loss, like=like, bucket=1, deterministic=deterministic
            )
            call = cm.cuda.graph(step) if captured else step
            peaks = []
            for _ in range(3):
                cm.cuda.synchronize()
                before = cm.cuda.memory_allocated()
                cm.cuda.reset_peak_memory_stats()
                value, grads = call(shards, x)
                cm.cuda.synchronize()
                peaks.append(cm.cuda.max_memory_allocated() - before)
                assert [g.shape for g in grads] == [(side * side // 2,)] * 10
                del value, grads
            return peaks

    for peaks in each(2, one):
        # five for the pieces of ten gradients; parameters and gradients that are kept or on their
        # way. Ten parameters and the pieces would be fifteen.
        assert peaks[-1] < 4 * side * side * (14 if deterministic else 13)
    count = {name: library.calls.count(name) for name in set(library.calls)}
    calls = 2 * (2 if captured else 3)
    most = 20 + (3 if deterministic else 0)  # the value, the gradients' order
    assert 15 * calls <= count["all_gather"] <= most * calls
    assert count.get("reduce_scatter", 0) == (0 if deterministic else 10 * calls)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_step_in_pieces_is_one_graph(library, fake, recompute):
    """Pieces are float32, and bfloat16 where they are put together: inside of the calls that read
    them, before the capture and in it. (Kernels do nothing here.)"""
    fake.idle = True
    config = gpt2.Config(vocabulary=50, context=12, layers=2, heads=2, width=64)
    tokens = np.zeros((4, 9), int)

    def one(rank):
        with cm.device(f"cuda:{rank}"):
            params = gpt2.create(config, rng=cm.random.default_rng(0))
            trainer = training.Trainer(
                gpt2.loss, params, config, parallel="zero3", bucket=1 << 12, recompute=recompute
            )
            for _ in range(4):
                trainer.step(*distributed.share((tokens, tokens)))
            cm.cuda.synchronize()
            return trainer._step.graphs

    assert each(2, one) == [1, 1]
    count = len(gpt2.shapes(config))
    assert library.calls.count("all_gather") > 2 * 2 * count  # members, passes; in the first call


def test_processes_that_differ_are_told_before_nccl_reads(library):
    for problem in each(2, lambda rank: distributed.all_reduce(on(rank, np.ones(2 + rank)))):
        assert "all processes must bring the same; rank 0 brought all_reduce, sum" in str(problem)
    assert library.calls == []


@pytest.mark.parametrize("reason", ["shared", "missing"])
def test_without_nccl_arrays_travel_through_the_host(library, monkeypatch, reason):
    if reason == "shared":
        monkeypatch.setattr(nccl, "identity", lambda device: "the only one")
    else:
        monkeypatch.setattr(nccl, "_obstacle", lambda: "it is not there")

    def one(rank):
        with cm.device(f"cuda:{rank}"):
            x = on(rank, values(rank, 5, "float32"))
            return distributed.transport(), distributed.all_reduce(x).to_numpy()

    for how, y in each(2, one):
        assert how.startswith("host: ") and ("share one GPU" in how or "it is not there" in how)
        np.testing.assert_array_equal(y, values(0, 5, "float32") + values(1, 5, "float32"))
    assert library.calls == []


def test_a_failed_member_ends_what_is_under_way(library):
    """The other one waits for the device; its communicator is aborted, and the wait raises."""
    begun = threading.Event()

    def one(rank):
        x = on(rank, np.float32([1, 2]))
        distributed.all_reduce(x).to_numpy()
        if rank == 1:
            begun.wait(20)
            time.sleep(0.1)
            raise MemoryError("no room")
        y = distributed.all_reduce(x)
        begun.set()
        with pytest.raises(CommunicationError, match="rank 1 ended with MemoryError") as seen:
            y.to_numpy()
        with pytest.raises(CommunicationError, match="all_reduce: rank 1 ended with MemoryError"):
            distributed.all_reduce(x)
        return seen.value.rank

    seen = []

    def careful(rank):
        seen.append(one(rank))

    with pytest.raises(MemoryError, match="no room"):
        distributed.in_threads(2, careful, timeout=30)
    assert seen == [1]


def test_a_late_member_is_named(library):
    done = threading.Event()

    def one(rank):
        x = on(rank, np.float32([1, 2]))
        distributed.all_reduce(x).to_numpy()
        if rank == 1:
            done.wait(30)
            return None
        y = distributed.all_reduce(x)
        with pytest.raises(
            CommunicationError, match="rank 1 did not come to all_reduce within 1 s"
        ) as seen:
            y.to_numpy()
        done.set()
        return seen.value.rank

    assert each(2, one, timeout=1) == [1, None]


def test_a_communicator_that_has_ended_takes_no_call(library):
    """NCCL has freed what the call would name."""

    def one(rank):
        x = on(rank, np.float32([1, 2]))
        distributed.all_reduce(x).to_numpy()
        (comm,) = world().connections
        comm.close()
        distributed.all_reduce(x)

    for problem in each(2, one):
        assert isinstance(problem, CommunicationError), problem
        assert "all_reduce" in str(problem) and "aborted" in str(problem)


def test_connections_end_with_the_threads(library):
    def one(rank):
        rows, columns = distributed.mesh(1, 2)
        with columns:
            distributed.all_reduce(on(rank, np.float32([1])))
        return distributed.all_reduce(on(rank, np.float32([1, 2])))

    found = each(2, one)
    assert [y.to_numpy().tolist() for y in found] == [[2.0, 4.0]] * 2
    assert [comm.destroyed for comm in library.made] == [True] * 4


def test_connections_end_when_their_calls_have(library):
    """Also those whose results nobody has read."""
    found = each(2, lambda rank: distributed.all_reduce(on(rank, np.float32([rank, 2]))))
    assert [comm.destroyed for comm in library.made] == [True] * 2
    assert [y.to_numpy().tolist() for y in found] == [[1.0, 4.0]] * 2


def test_an_error_of_nccls_connections_ends_the_world(library):
    def one(rank):
        distributed.all_reduce(on(rank, np.float32([1, 2]))).to_numpy()
        if rank == 0:
            next(comm for comm in library.made if comm.rank == 0).status = 6
        while True:
            time.sleep(0.02)
            distributed.all_reduce(on(rank, np.float32([1, 2]))).to_numpy()

    for problem in each(2, one):
        assert isinstance(problem, CommunicationError) and problem.rank == 0
        assert "rank 0 lost NCCL's connections: remote process exited" in str(problem)


def test_an_error_of_nccl_has_the_name_of_the_function(library):
    def one(rank):
        x = on(rank, np.float32([1, 2]))
        distributed.all_reduce(x).to_numpy()
        if rank == 0:
            library.fail = "unhandled system error"
            return distributed.all_reduce(x)
        return None

    problem = each(2, one)[0]
    assert isinstance(problem, CudaError)
    assert str(problem) == "all_reduce: NCCL: unhandled system error"


# -------------------- real bindings, real GPUs


def test_the_fake_has_the_signatures_of_the_bindings():
    bindings = pytest.importorskip("nccl.bindings.nccl")
    for name, function in vars(fake_nccl.FakeNccl).items():
        real = getattr(bindings, name, None)
        if name.startswith("_") or real is None or isinstance(real, type):
            continue
        wanted = (real.__doc__ or "").splitlines()[0].partition("(")[2].partition(")")[0]
        taken = list(inspect.signature(function).parameters)[1:]
        assert len(taken) == len(list(filter(None, wanted.split(",")))), name
    names = {name for name in vars(fake_nccl.FakeNccl) if hasattr(bindings, name)}
    assert names >= {"all_reduce", "comm_init_rank_scalable", "comm_get_async_error", "group_end"}


@pytest.mark.gpu
def test_a_world_of_one_on_a_gpu():
    """NCCL itself, in graphs too."""
    pytest.importorskip("nccl")
    alone = World()
    assert nccl.why_not(alone, 0) == ""
    x = cm.asarray(values(0, (4, 3), "float32"), device="cuda:0")

    def step(x):
        (y,) = collectives.sums(x * 2, op="sum", about="", world=alone)
        return y + 1

    captured = cm.cuda.graph(step)
    for _ in range(4):
        np.testing.assert_array_equal(captured(x).to_numpy(), x.to_numpy() * 2 + 1)
    (rows,) = collectives.gathered(x, world=alone)
    np.testing.assert_array_equal(rows.to_numpy()[0], x.to_numpy())


@pytest.mark.multigpu
@pytest.mark.parametrize("dtype", ["float32", "float16", cm.bfloat16, "int32", "complex64"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_two_gpus(dtype, deterministic):
    """Threads, each with a GPU: what NCCL gives, and what the host gives."""
    pytest.importorskip("nccl")
    parts = [values(rank, (1000, 3), dtype) for rank in (0, 1)]

    def one(rank):
        with cm.device(f"cuda:{rank}"):
            assert distributed.transport() == "nccl"
            x = on(rank, parts[rank])
            return (
                distributed.all_reduce(x, deterministic=deterministic).to_numpy(),
                distributed.all_gather(x).to_numpy(),
                distributed.all_to_all(x).to_numpy(),
            )

    wide = np.dtype(dtype).kind in "V" or np.dtype(dtype).itemsize == 2
    a, b = [x.astype("float32") if wide else x for x in parts]
    for total, gathered, exchanged in each(2, one):
        # of two numbers there is one sum, rounded once
        np.testing.assert_array_equal(total, (a + b).astype(dtype))
        np.testing.assert_array_equal(gathered, np.concatenate(parts))
        assert exchanged.shape == (1000, 3)


@pytest.mark.multigpu
def test_extremes_on_two_gpus_know_nan():
    pytest.importorskip("nccl")

    def one(rank):
        with cm.device(f"cuda:{rank}"):
            x = on(rank, np.float32([np.nan, 1, 2] if rank else [0, 3, 1]))
            return distributed.all_reduce(x, "max").to_numpy(), world().rank

    for y, _ in each(2, one):
        np.testing.assert_array_equal(y, np.float32([np.nan, 3, 2]))


def test_gradients_through_the_host(library, fake):
    """Two members share a GPU. (Kernels do nothing here: their values are tested on the CPU.)"""
    fake.idle = True

    def one(rank):
        x = cm.asarray(values(rank, (3, 2), "float64"), device="cuda:0")
        gradient = cm.grad(lambda x: (distributed.all_reduce(x) ** 2).sum())
        return gradient(x).shape, cm.grad(lambda x: gradient(x).sum())(x).shape

    assert each(2, one) == [((3, 2), (3, 2))] * 2


def test_views_are_put_in_c_order():
    """NCCL moves bytes as they lie."""
    x = cm.moveaxis(cm.asarray(values(0, (4, 3), "float32"), device="cpu"), 1, 0)
    assert collectives.ordered(x).strides == (16, 4)


@pytest.mark.parametrize("lane", ["", "gradients"])
def test_what_graphs_hold_is_not_destroyed_before_them(library, fake, lane):
    """NCCL would wait for the graphs; also what goes beside the captured stream is theirs."""
    fake.idle = True

    def one(rank):
        with cm.device(f"cuda:{rank}"):
            x = on(rank, np.ones(3, "f4"))
            made = nccl.communicator(world(), rank, lane)
            if lane:
                step = cm.cuda.graph(distributed.value_and_grad(lambda x: (x * x).sum()))
            else:
                step = cm.cuda.graph(distributed.all_reduce)
            for _ in range(2):
                step(x)
            return made

    for made in each(2, one):
        assert made._captured and made.handle is None
    destroyed = [comm.destroyed for comm in library.made]
    assert destroyed.count(False) == (4 if lane else 2)  # the loss's too
