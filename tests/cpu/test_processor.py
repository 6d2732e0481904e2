"""Levels of processors: which machine runs the code of which, and what is compiled for one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cudamath.cpu.lib import processor

LEVEL = processor.LEVELS["x86_64_v3"]
V3 = dict.fromkeys(LEVEL.features, True)
V4 = dict.fromkeys(processor.LEVELS["x86_64_v4"].features, True)


@pytest.mark.parametrize(
    ("host", "machine", "name"),
    [
        (V4, "x86_64", "x86_64_v4"),
        (V3, "x86_64", "x86_64_v3"),
        (V3 | {"avx512f": False}, "AMD64", "x86_64_v3"),
        (V3 | {"avx512f": True}, "x86_64", None),  # longer vectors than those of v3, less than v4
        (V3 | {"fma": False}, "x86_64", None),
        ({"avx": True}, "x86_64", None),
        ({}, "x86_64", None),
        ({"neon": True}, "aarch64", "aarch64"),
        (V3, "riscv64", None),
    ],
)
def test_the_level_of_a_machine(host, machine, name):
    level = processor.level(host, machine)
    assert (level and level.name) == name


def test_a_machine_runs_the_levels_below_its_own():
    assert [each.name for each in processor.runnable(V4, "x86_64")] == ["x86_64_v3", "x86_64_v4"]
    assert [each.name for each in processor.runnable(V3, "x86_64")] == ["x86_64_v3"]


@pytest.mark.parametrize(("name", "width"), [("x86_64_v3", 32), ("x86_64_v4", 64)])
def test_code_and_callers_are_of_one_level(name, width):
    """The processor, its features and the length of vectors; nothing runs."""
    if processor.LEVELS[name] not in processor.runnable():
        pytest.skip("not this machine's")
    program = (
        "from cudamath.cpu.lib import llvm_vectors, processor\n"
        "print(llvm_vectors.VECTOR, *processor.target())"
    )
    level = processor.LEVELS[name]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {processor.VARIABLE: level.name},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    vector, cpu, features = done.stdout.split()
    assert (int(vector), cpu) == (width, level.cpu)
    assert set(features.split(",")) == {f"+{feature}" for feature in level.features}


def test_a_level_that_this_machine_does_not_run():
    with pytest.raises(ValueError, match="CUDAMATH_CPU_LEVEL: wants a level .*, got x86_64_v9"):
        processor._chosen("x86_64_v9")
    assert processor._chosen("") is None
