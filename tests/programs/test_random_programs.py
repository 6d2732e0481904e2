"""Random programs give under `jit` what they give without it: results, written arguments, what they
find outside, and the numbers that they draw. `python -m tests.programs` runs ten thousand."""

from __future__ import annotations

import importlib
import json

import numpy as np
import program_comparison as comparison
import pytest
from program_comparison import batch, check
from random_programs import RandomProgram

import cudamath as cm
from cudamath.cuda import graphs
from cudamath.programs import simplify
from cudamath.programs.program import View

command = importlib.import_module("tests.programs.__main__")


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_random_programs(first: int) -> None:
    """The same bits on the CPU."""
    with cm.device("cpu"):
        for seed in range(first, first + 20):
            check("cpu", seed)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_programs_on_an_emulated_gpu(first: int) -> None:
    """A GPU's passes, plans, pool and graphs, with values."""
    with comparison.on("emulated"):
        for seed in range(first, first + 20):
            check("emulated", seed)


#: Programs that went wrong: results over what later kernels of the same operation read, and parts
#: among zeros of what was read as parts itself.
FOUND = (3_000_635, 3_001_021)


@pytest.mark.parametrize("seed", FOUND)
def test_programs_that_went_wrong(seed: int) -> None:
    with comparison.on("emulated"):
        check("emulated", seed)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_random_programs_on_a_gpu(first: int) -> None:
    with cm.device("cuda"):
        for seed in range(first, first + 20):
            check("cuda", seed)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_small_programs_on_a_gpu(first: int) -> None:
    """On a GPU `jit` gives what the CPU gives: fused operations may round otherwise."""
    for seed in range(first, first + 20):
        program = RandomProgram(seed, length=8, draws=False)
        with cm.device("cpu"):
            truth, _ = comparison.outcomes(program, False)
        with cm.device("cuda"):
            ours, _ = comparison.outcomes(program, True)
        for call, expected in zip(ours, truth, strict=True):
            for a, b in zip(call, expected, strict=True):
                np.testing.assert_allclose(a, b, 2e-5, 2e-5, err_msg=repr(program))


def _apart(arrays: list) -> list[list[int]]:
    return [[i] for i in range(len(arrays))]


def _never(*_: object) -> bool:
    return False


#: What would be wrong, and on which devices it can be.
MISTAKES = {
    "arguments are not copied in": (graphs, "_copy", _never, ["emulated"]),
    "arguments forget that they overlap": (graphs, "together", _apart, ["emulated"]),
    "copies of what changes are dropped": (simplify._Writes, "after", _never, ["cpu", "emulated"]),
    "earlier writes are not seen": (simplify._Writes, "before", _never, ["cpu", "emulated"]),
    "a part is taken for the whole": (View, "whole", True, ["cpu", "emulated"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found(name: str, monkeypatch) -> None:
    """What a pass might do wrong shows within some dozen programs."""
    where, what, wrong, devices = MISTAKES[name]
    monkeypatch.setattr(where, what, wrong)
    for device in devices:
        assert any(batch((device, seed, 1))[1] for seed in range(40)), device


def test_command(capsys, tmp_path) -> None:
    path = tmp_path / "record.json"
    options = ["--programs", "2", "--device", "cpu", "--record", f"{path}"]
    assert command.main(options) == 0
    assert "2 programs, 0 differ" in capsys.readouterr().out
    assert command.main([*options, "--add", "--first", "7"]) == 0
    noted = json.loads(path.read_text())["cpu"]
    assert (noted["programs"], noted["differ"], noted["seeds"]) == (4, 0, [[0, 2], [7, 9]])
    assert noted["changed by pass"]["simplified"] == 4
