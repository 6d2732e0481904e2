"""The first call on a GPU: the function is recorded before anything runs there. So the program's
kernels are all that is compiled, its memory all that is taken, its bits those of later calls."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fake_driver import FakeDriver
from in_place_writes import WRITES
from program_comparison import on
from records import ROWS

import cudamath as cm
from benchmarks.programs import peers
from cudamath.programs import kernel_loading
from cudamath.runtime import rehearsal
from cudamath.runtime.dry import FIRST, DryStream, Unallocated
from cudamath.runtime.state import runtime
from cudamath.runtime.stream import stream_of
from tests.programs.test_every_function import depends_on_values

#: Functions whose results cannot be known without running them, and why. They run at the first
#: call, and `cm.explain` says so.
RUNS_FIRST: dict[str, str] = {}


@pytest.fixture
def gpu(fake, monkeypatch):
    """A GPU whose kernels do not run."""
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)
    with cm.device("cuda:0"):
        yield fake


def compiled(monkeypatch) -> list[str]:
    """The kernels that are compiled from now on, by name."""
    names: list[str] = []
    compiler = runtime.compiler

    def noted(kernel, *rest):
        names.append(getattr(kernel, "__name__", "kernel"))
        return compiler(kernel, *rest)

    monkeypatch.setattr(runtime, "compiler", noted)
    return names


def reasons(jitted) -> list[str]:
    """Why the first calls ran the function as it is."""
    notes = [note for program in jitted.programs() for note in program.notes]
    return [note.partition("as it is: ")[2] for note in notes if "as it is: " in note]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_function_is_recorded_before_it_runs(gpu, monkeypatch, row) -> None:
    arrays = [cm.array(x) for x in row.arrays(np.dtype(np.float32), 0)]
    names = compiled(monkeypatch)

    def call(*arrays):
        return row.run(cm, *arrays)

    jitted = cm.jit(call)
    gpu.launches.clear()
    if depends_on_values(row):
        with pytest.raises(cm.TraceError, match=r"jit: call .* at .*records.*\.py:\d+: "):
            jitted(*arrays)
        assert not names and not gpu.launches
        return
    jitted(*arrays)
    assert reasons(jitted) == ([RUNS_FIRST[row.name]] if row.name in RUNS_FIRST else [])
    assert {*names} <= {launch[0] for launch in gpu.launches}


@pytest.mark.parametrize("name", peers.small())
def test_a_program_s_first_call_is_the_program(gpu, monkeypatch, name) -> None:
    """What it compiles, it launches; and its memory is no more than the second call's, but for
    constants that it computes beforehand."""
    peer = peers.Jit(*peers.small()[name], "cuda:0")
    names, pool, taken, launched = compiled(monkeypatch), runtime.pools[0], [], []
    for _ in range(2):
        pool.peak = before = pool.used
        gpu.launches.clear()
        peer.step()
        taken.append(pool.peak - before)
        launched.append([launch[0] for launch in gpu.launches])
    assert reasons(peer.run) == []
    assert {*names} <= {*launched[0]} and {*launched[1]} <= {*launched[0]}
    assert len(launched[0]) <= len(launched[1]) + 12
    assert taken[0] <= taken[1] + (64 << 10)


def test_workers_hear_of_all_kernels_before_the_first_is_needed(gpu, monkeypatch) -> None:
    """Those of constants, and then those of the program."""
    peer, names = peers.Jit(*peers.small()["llama"], "cuda:0"), compiled(monkeypatch)
    told: list[tuple[list[str], int]] = []

    def compile_together(kernels, capability, name):
        told.append(([kernel.__name__ for kernel, _ in kernels], len(names)))

    monkeypatch.setattr(kernel_loading, "compile_cubin", runtime.compiler)
    monkeypatch.setattr(kernel_loading, "compile_together", compile_together)
    peer.step()
    ends = [before for _, before in told[1:]] + [len(names)]
    for (ahead, before), end in zip(told, ends, strict=True):
        assert sorted(ahead) == sorted(names[before:end])
    assert [len(ahead) > least for (ahead, _), least in zip(told, (2, 20), strict=True)] == [
        True
    ] * 2


def test_memory_of_the_first_call(gpu) -> None:
    """All pairs of bodies are never stored, as the function itself would store them."""
    module, c = peers.small()["n_body"]
    c = dataclasses.replace(c, bodies=1024)
    pool, taken = runtime.pools[0], []
    for peer in (peers.Jit(module, c, "cuda:0"), peers.Eager(module, c, "cuda:0")):
        pool.peak = before = pool.used
        peer.step()
        taken.append(pool.peak - before)
    assert 2 * taken[0] < taken[1], taken


def test_the_bits_of_the_first_call_are_those_of_later_ones() -> None:
    with on("emulated"):
        x = cm.random.default_rng(0).normal(size=(64, 64)).astype("float16")
        jitted = cm.jit(lambda x: cm.tanh(x * 3 + 0.1) / 7 + x)
        first, *later = [jitted(x).to_numpy() for _ in range(4)]
        for y in later:
            np.testing.assert_array_equal(first, y)


def test_random_numbers_are_drawn_once() -> None:
    with on("emulated"):
        rng, other = (cm.random.default_rng(3) for _ in range(2))
        jitted = cm.jit(lambda x: x + rng.normal(size=5) * rng.uniform(size=5))
        for _ in range(4):
            expected = cm.zeros(5) + other.normal(size=5) * other.uniform(size=5)
            np.testing.assert_allclose(jitted(cm.zeros(5)).to_numpy(), expected.to_numpy())


def test_what_fails_has_changed_nothing() -> None:
    with on("emulated"):
        rng, x = cm.random.default_rng(3), cm.zeros(3)

        def f(x):
            x += rng.normal(size=3)
            if x.sum() > 0:
                return x
            return -x

        with pytest.raises(cm.TraceError, match=r"jit: f read values at .*test_dry_trace\.py:\d+"):
            cm.jit(f)(x)
        assert x.tolist() == [0] * 3
        np.testing.assert_array_equal(
            rng.normal(size=3).to_numpy(), cm.random.default_rng(3).normal(size=3).to_numpy()
        )
        assert runtime.local.stream is stream_of(0)


def test_arrays_that_are_kept_say_that_they_have_no_values(gpu) -> None:
    kept = []

    def f(x):
        kept.append(x * 2)
        kept.append(kept[0][1:])
        return x

    with pytest.raises(cm.TraceError, match=r"jit: f changes kept at .*test_dry_trace\.py"):
        cm.jit(f)(cm.ones(3))
    for use in (lambda y: y + 1, lambda y: y.to_numpy(), lambda y: y.__setitem__(0, 1), print):
        for y in kept:
            with pytest.raises(RuntimeError, match="jit: an array was kept beyond the trace of f"):
                use(y)


@pytest.mark.parametrize("name", WRITES)
def test_writes_on_the_host_happen_once(name) -> None:
    """A function of a GPU's arrays that writes into one on the CPU runs as it is."""
    write = WRITES[name]
    with on("emulated"):
        with cm.device("cpu"):
            ours, theirs = (cm.arange(3.0) for _ in range(2))

        def f(x, target):
            with cm.device("cpu"):
                write(target)
            return x + 1

        f(cm.ones(2), theirs)
        jitted = cm.jit(lambda x: f(x, ours))
        try:
            jitted(cm.ones(2))
        except cm.TraceError:
            assert name in ("place", "copy_to")
            return
        (reason,) = reasons(jitted)
        assert reason.endswith(": it writes into an array on the CPU")
        np.testing.assert_array_equal(ours.to_numpy(), theirs.to_numpy())


def test_other_streams_are_a_reason_to_run(gpu) -> None:
    def f(x):
        with cm.cuda.Stream():
            y = x * 2
        return y + 1

    jitted = cm.jit(f)
    jitted(cm.ones(3))
    (reason,) = reasons(jitted)
    assert reason == "with stream: the function switches to another stream"
    assert f"the first call ran the function as it is: {reason}" in str(cm.explain(jitted))


def test_a_plan_bound_dry_is_the_plan(gpu, monkeypatch) -> None:
    """Its kernels are compiled when it runs; from then on it is the function that `Plan.bind` would
    have made."""
    x, names = cm.ones((16, 16)), compiled(monkeypatch)
    with DryStream(stream_of(0), "f") as dry:
        before = gpu.calls["cuLaunchKernel"]
        y = cm.cumsum(x, 0)
        assert y._data >= FIRST and not names and gpu.calls["cuLaunchKernel"] == before
        assert cm.empty(3)._data >= FIRST > cm.array([1.0])._data
    assert len(dry.used) == 1
    y = cm.cumsum(x, 0)
    assert y._data < FIRST and names
    before = len(names)
    cm.cumsum(x, 0)
    assert len(names) == before


def test_a_result_without_elements_outlives_the_trace() -> None:
    """No address says whose it is, so the program keeps it: what cuDNN would reserve for a
    gradient is such a result in a rehearsal."""
    there = {"there": ("cublas", "cudnn"), "name": "assumed"}
    with rehearsal.rehearsing((9, 0), lambda *_: b"\x7fELF", **there), cm.device("cuda:0"):
        peer = peers.Jit(*peers.small()["lstm"], "cuda:0")
        for _ in range(2):
            peer.step()
        (program,) = peer.run.programs()
    assert "recurrent" in " ".join([node.name for node in program.nodes])
    kept = [block.array for block in program.constants()]
    assert 0 in [x.size for x in kept]
    assert not any([type(x._owner) is Unallocated for x in kept])
