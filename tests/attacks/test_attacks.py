"""The standing attacks, in a dose of some seconds each. `make attack` goes on for an hour and
writes down what it tried and found (tests/attacks/record.json)."""

import os
import pathlib
import sys

import pytest

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


def hold(under, least):
    """No violation, in attempts enough to be one."""
    assert not under.violations, "\n".join(under.words)
    assert under.tried >= least, f"only {under.tried} attempts"


def test_every_driver_call_fails_in_turn():
    under = Attack(10)
    faults.attack(under)
    hold(under, 50)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="tells apart where 3.11 looks for signals")
def test_interrupts_everywhere():
    under = Attack(8)
    interrupts.attack(under)
    hold(under, 300)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_beside_threads():
    under = Attack(4)
    forks.attack(under)
    hold(under, 5)


def test_threads_at_once():
    under = Attack(8)
    threads_at_once.attack(under, most=80)
    hold(under, 200)


def test_allocations_fail():
    under = Attack(6)
    allocations.attack(under)
    hold(under, 50)


def test_damaged_files(monkeypatch):
    pytest.importorskip("safetensors")
    under = Attack(6)
    damaged_files.attack(under, monkeypatch)
    hold(under, 200)


def test_random_calls_beside_numpy():
    under = Attack(8)
    beside_numpy.attack(under)
    hold(under, 1000)


def test_ever_new_shapes():
    under = Attack(0)
    new_shapes.attack(under, count=100)
    hold(under, 600)


@pytest.mark.simulator
def test_fused_programs(monkeypatch):
    import fused_programs

    under = Attack(8)
    fused_programs.attack(under, monkeypatch)
    hold(under, 3)
