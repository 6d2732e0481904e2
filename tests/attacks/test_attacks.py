"""The standing attacks, in a dose of some seconds each. `make attack` goes on for an hour and
writes down what it tried and found (tests/attacks/record.json)."""

import functools
import math
import os
import pathlib
import sys

import numpy as np
import pytest

import cudamath as cm
from cudamath.core import recording
from cudamath.core.fp_errors import silence

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # its modules name each other

import allocations  # noqa: E402
import beside_numpy  # noqa: E402
import damaged_files  # noqa: E402
import faults  # noqa: E402
import forks  # noqa: E402
import interrupts  # noqa: E402
import new_shapes  # noqa: E402
import threads_at_once  # noqa: E402
from outcome import Attack  # noqa: E402

pytestmark = pytest.mark.slow


def hold(under):
    """No violation, in attempts enough to be one."""
    assert not under.violations, "\n".join(under.words)
    assert under.tried >= under.least, f"only {under.tried} attempts"


def test_every_driver_call_fails_in_turn():
    under = Attack(10, least=50)
    faults.attack(under)
    hold(under)


def test_interrupts_everywhere():
    under = Attack(8, least=300)
    interrupts.attack(under)
    hold(under)


def test_interrupts_at_every_place_of_an_error_state():
    """NumPy's own errstate keeps what it has set when an interrupt comes at the wrong place."""
    under = Attack(60)
    x = cm.asarray([-1.0, 0.0], device="cpu")

    def looked_at():
        with cm.errstate(divide="raise", invalid="warn", call=print):
            cm.sqrt(-x)

    def silent():
        with silence():
            np.log(np.float64(0))

    for work in (looked_at, silent):
        interrupts.everywhere(under, work.__name__, work)
    hold(under)
    assert under.tried > 50

    def torn():
        with np.errstate(divide="raise"):
            np.sqrt(4)

    before = np.geterr()
    interrupts.everywhere(under, "torn", torn)
    np.seterr(**before)
    assert under.words[-1].endswith("leaves NumPy's error state")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_beside_threads():
    under = Attack(4, least=5)
    forks.attack(under)
    hold(under)


def test_threads_at_once():
    under = Attack(8, least=200)
    threads_at_once.attack(under, most=80)
    hold(under)


def test_allocations_fail():
    under = Attack(6, least=50)
    allocations.attack(under)
    hold(under)


def test_damaged_files(monkeypatch):
    pytest.importorskip("safetensors")
    under = Attack(6, least=200)
    damaged_files.attack(under, monkeypatch)
    hold(under)


def test_random_calls_beside_numpy():
    under = Attack(8, least=1000)
    beside_numpy.attack(under)
    hold(under)


def test_what_is_looked_for_is_seen(monkeypatch, tmp_path):
    """A violation of each kind, by functions that are wrong."""
    under = Attack(5)

    def leaves_a_tape():
        recording.state.depth += 1
        math.sqrt(2)
        recording.state.depth -= 1

    interrupts.everywhere(under, "tape", leaves_a_tape)
    assert "a tape" in under.words[-1]
    recording.state.depth = 0

    def leaves_it_long():
        recording.state.depth = 1
        for _ in range(1000):
            math.sqrt(2)
        recording.state.depth = 0

    interrupts.moments(under, "long", leaves_it_long, 100)
    assert "long at a moment: leaves a tape" in under.words[-1]
    recording.state.depth = 0
    beside_numpy.compare(under, "sum", lambda: cm.sum([1, 2]) + 1, lambda: np.sum([1, 2]))
    assert "4" in under.words[-1] and "instead of" in under.words[-1]
    beside_numpy.compare(under, "sum", lambda: {}["x"], lambda: np.sum([1, 2]))
    assert "KeyError" in under.words[-1]

    def survives():
        try:
            return np.ones(1000) + 1
        except MemoryError:
            return np.zeros(1000)

    allocations.attack_one(under, "sums", survives, [survives().tobytes()])
    assert "another answer" in under.words[-1]
    with faults.gpu_without_values() as fake:
        x, kept = cm.ones(5, "float32", device="cuda"), []

        def keeps():
            kept.append(x + 1)
            y = kept[-1] + 1
            kept.pop()
            return y

        for cold in (False, True):
            faults.attack_one(under, fake, "keeps", lambda: keeps, cold)
        kept.clear()
    assert "bytes were in use before" in under.words[-1]
    monkeypatch.setattr(cm, "load", lambda path: {}["x"])
    damaged_files.load_one(under, tmp_path, "x.npy", b"")
    assert "KeyError" in under.words[-1]
    monkeypatch.setattr(cm, "load", lambda path: {})
    for content, word in ((b"", "SafetensorError"), (b"PK\3\4", "BadZipFile")):
        damaged_files.load_one(under, tmp_path, "x.npz", content)
        assert f"its own library says {word}" in under.words[-1]
    cached = functools.cache(lambda n: n)
    monkeypatch.setattr(recording, "cached", cached, raising=False)
    monkeypatch.setattr(new_shapes, "call", cached)
    new_shapes.attack(under, count=50)
    assert "cudamath.core.recording.cached has no limit" in under.words[-1]


def test_ever_new_shapes():
    under = Attack(0, least=600)
    new_shapes.attack(under, count=100)
    hold(under)


@pytest.mark.simulator
def test_fused_programs(monkeypatch):
    import fused_programs

    under = Attack(8, least=3)
    fused_programs.attack(under, monkeypatch)
    hold(under)
