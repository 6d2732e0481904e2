"""The programs of benchmarks/programs at their small sizes: eager, by `cm.jit`, and in PyTorch.

torch_values.json has what PyTorch 2.13 gave on a CPU; where PyTorch is installed it is run again.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import pathlib
import signal
import sys
import time

import numpy as np
import pytest

from benchmarks.programs import __main__ as command
from benchmarks.programs import page, peers

VALUES = json.loads((pathlib.Path(__file__).parent / "torch_values.json").read_text())
SMALL = peers.small()


@pytest.mark.parametrize("name", SMALL)
def test_values(name: str) -> None:
    """`jit` gives the bits of the eager program, and both agree with PyTorch: losses of four steps,
    optimizer included, or results."""
    module, c = SMALL[name]
    eager = peers.results(peers.Eager(module, c, "cpu"))
    jitted = peers.Jit(module, c, "cpu")
    np.testing.assert_array_equal(peers.results(jitted), eager)
    assert jitted.run.traces == 1
    theirs = np.array(VALUES[name], dtype=np.float32)
    np.testing.assert_allclose(
        eager[: theirs.size], theirs, rtol=2e-5, atol=2e-5 * np.abs(theirs).max()
    )


@pytest.mark.gpu
@pytest.mark.parametrize("name", SMALL)
def test_values_on_a_gpu(name: str) -> None:
    """On a GPU both agree with PyTorch's CPU; fused operations may round otherwise."""
    module, c = SMALL[name]
    theirs = np.array(VALUES[name], dtype=np.float32)
    for peer in (peers.Eager, peers.Jit):
        ours = peers.results(peer(module, c, "cuda"))[: theirs.size]
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4 * np.abs(theirs).max())


@pytest.mark.parametrize("name", SMALL)
def test_twins(name: str) -> None:
    pytest.importorskip("torch", reason="the twins are PyTorch's; torch_values.json has theirs")
    module, c = SMALL[name]
    theirs = np.array(VALUES[name], dtype=np.float32)
    again = peers.results(peers.Torch(module, c, "cpu"))[: theirs.size]
    np.testing.assert_allclose(again, theirs, rtol=2e-5, atol=2e-5 * np.abs(theirs).max())


def test_programs_are_short() -> None:
    """Each has a twin beside it, and neither is longer than 150 lines."""
    folder = pathlib.Path(inspect.getfile(peers)).parent
    for module in peers.MODULES:
        for side in ("ours", "twins"):
            text = (folder / side / f"{module}.py").read_text(encoding="utf-8")
            assert text.count("\n") <= 150, (module, side)
    assert {p.stem for p in (folder / "ours").glob("*.py")} == {*peers.MODULES, "__init__"}
    assert len(peers.MODULES) >= 15
    names = [*peers.cases()]
    assert len(names) == len({*names}) and {*VALUES} == {*SMALL}


def test_command(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    """The command keeps times, first calls, second processes, and how far results differ."""
    options = ["kalman", "--small", "--device", "cpu", "--peers", "jit,eager", "--rounds", "2"]
    assert command.main([*options, "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "programs.json").read_text())["programs"]["kalman"]
    assert record["jit"]["second"]["first_call"] > 0 and record["eager"]["seconds"] > 0
    assert record["jit"]["differs"] == 0.0
    assert "kalman" in capsys.readouterr().out


def runs(folder: pathlib.Path, *names: str) -> command.Runs:
    options = argparse.Namespace(
        names=[*names], peers=[*peers.PEERS], device="cpu", small=True, rounds=1, gpus=1, jobs=1
    )
    options.limit = None
    return command.Runs(options, folder, folder / "programs.json")


def test_a_base_that_failed(tmp_path: pathlib.Path) -> None:
    """Results are compared with those of the first base that ran, and every record is written at
    once, also where no base has run."""
    kept, good = runs(tmp_path, "vae"), {"seconds": 1.0}

    def keep(peer: str, record: dict, result: float = 0.0) -> dict:
        np.save(tmp_path / f"vae-{peer}.npy", np.array([result, 4.0]))
        kept.keep("vae", peer, dict(record), False)
        return json.loads((tmp_path / "programs.json").read_text())["programs"]["vae"]

    assert keep("torch", {"failed": "why"}) == {"torch": {"failed": "why"}}
    assert "differs" not in keep("compile", good, 1.0)["compile"]
    record = keep("jit", good, 2.0)
    assert record["compile"]["differs"] == 0.25 and record["jit"]["differs"] == 0.0
    assert keep("eager", good, 3.0)["jit"]["differs"] == 0.25


def test_an_error_ends_what_runs(tmp_path: pathlib.Path) -> None:
    """The scratch folder goes away only when nobody writes there any more."""
    kept, long = runs(tmp_path), [sys.executable, "-c", "import time; time.sleep(60)"]
    log, begun = tmp_path / "long.log", time.monotonic()
    with pytest.raises(KeyError), kept.queues() as (queue,):
        ended = queue.submit(kept.gpus[0].run, long, {**os.environ}, log, math.inf)
        waiting = queue.submit(print)
        while not log.exists():
            time.sleep(0.01)
        raise KeyError
    assert ended.result() == -signal.SIGKILL and waiting.cancelled()
    assert kept.until < 0 and time.monotonic() - begun < 50


def test_the_longest_begin_first(tmp_path: pathlib.Path) -> None:
    """By the record before; first of all those that are not in it, or were cut off."""
    file, names = tmp_path / "programs.json", ["short", "long", "new", "cut"]
    assert command.longest_first(names, file)["compile"] == names
    ready = {
        name: {peer: {"ready": seconds} for peer in peers.PEERS}
        for name, seconds in (("short", 1.0), ("long", 2.0), ("cut", 0.1))
    }
    ready["cut"]["compile"] = {"failed": "cut off at the limit"}  # type: ignore[dict-item]
    file.write_text(json.dumps({"programs": ready}))
    order = command.longest_first(names, file)
    assert order["compile"] == ["new", "cut", "long", "short"]
    assert order["torch"] == ["new", "long", "short", "cut"]


def test_what_went_wrong_is_said() -> None:
    """Differences beyond the limit and failures are lines of their own, and NaN is a difference."""
    known = {"kalman": ("kalman", SMALL["kalman"][1])}
    good = {"seconds": 1.0, "differs": 0.0}
    records = {"kalman": {"jit": good, "torch": {"seconds": 2.0, "differs": 0.0}}}
    lines = command.summary(records, known)
    assert lines[0].endswith("2.00") and lines[1] == "geometric mean 2.00, least 2.00"
    for bad in ({"seconds": 1.0, "differs": 0.1}, {"seconds": 1.0, "differs": float("nan")}):
        assert "differs" in command.summary({"kalman": {"jit": bad}}, known)[1]
    assert "failed: why" in command.summary({"kalman": {"jit": {"failed": "why"}}}, known)[1]


def test_page(tmp_path: pathlib.Path) -> None:
    """The record's table; what did not run is a dash."""
    assert page.section(tmp_path) == []
    ran = {"seconds": 2e-3, "first_call": 3.0}
    programs = {
        "n_body": {"jit": ran, "torch": {"seconds": 4e-3}, "compile": {"failed": "why"}},
        "vae": {"jit": {"failed": "why"}},
    }
    record = {"programs": programs, "commit": "abc", "date": "today"}
    (tmp_path / "programs.json").write_text(json.dumps(record))
    lines = page.section(tmp_path)
    assert "geometric mean 2.00" in lines[3]
    assert lines[-2] == "| n body | 2 ms | - | 4 ms | - | - | 2.00 | 3 s | - |"
    assert lines[-1] == "| vae | - | - | - | - | - | - | - | - |"
