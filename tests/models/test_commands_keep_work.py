"""Commands with a package missing, a place that cannot be written, a full disk, Ctrl-C: nothing is
lost, and one line says what to do."""

from __future__ import annotations

import builtins
import contextlib
import errno
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import cudamath as cm
from cudamath import preflight
from cudamath.__main__ import main
from cudamath.models import command, gpt2, training

TEXT = pathlib.Path(__file__).parents[1] / "data" / "tinyshakespeare.txt"
SMALL = gpt2.Config(vocabulary=256, context=16, layers=1, heads=2, width=16)
NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setitem(gpt2.SIZES, "tiny", SMALL)


def options(out, steps=6, **more):
    texts = ["--text", str(TEXT), "--batch", "2", "--device", "cpu", "--every", "2"]
    extra = [word for name, value in more.items() for word in (f"--{name}", str(value))]
    return ["train", "gpt2", *texts, "--out", str(out), "--steps", str(steps), *extra]


def said_in_one_line(capsys, *words):
    found = capsys.readouterr().err
    assert found.count("\n") == 1 and all(word in found for word in words), found


@pytest.fixture
def without(monkeypatch):
    """Make modules look as if they were not installed."""

    def hide(*names):
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *a: None if name in names else find(name, *a)
        )

    return hide


# -------------------- before the work


@pytest.mark.parametrize(
    "words, module, extra",
    [
        (["train", "gpt2", "--text", str(TEXT)], "safetensors", "io"),
        (["sample", "gpt2"], "safetensors", "io"),
        (["demo"], "sklearn", "demo"),
        (["demo"], "matplotlib", "demo"),
        (["bench", "host_add", "--plot", "chart.png"], "matplotlib", "demo"),
        (["bench", "host_add", "--plots"], "matplotlib", "demo"),
    ],
    ids=lambda value: "_".join(value[:1]) if isinstance(value, list) else value,
)
def test_a_missing_package_is_said_at_once(
    words, module, extra, without, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    without(module)
    assert main(words) == 2
    said_in_one_line(capsys, f"{words[0]}: needs ", module, f"pip install 'cudamath[{extra}]'")
    assert list(tmp_path.iterdir()) == []


def unwritable(tmp_path, monkeypatch, kind):
    """A path at which nothing can be written; what the error says."""
    if kind == "no folder":
        return tmp_path / "nowhere" / "file", "there is no folder"
    if kind == "a folder":
        return tmp_path, "it is a folder"
    if kind == "a pipe":
        os.mkfifo(tmp_path / "pipe")
        return tmp_path / "pipe", "not a regular file"
    if kind == "kernel's":  # nobody may make files there, not even root
        return pathlib.Path("/proc/cudamath.safetensors"), "cannot write /proc"
    opened, error = builtins.open, {"read-only": errno.EROFS, "full": errno.ENOSPC}[kind]

    def refused(path, mode="r", *more, **named):
        if isinstance(path, str | os.PathLike) and "x" in mode and str(tmp_path) in str(path):
            raise OSError(error, os.strerror(error), str(path))
        return opened(path, mode, *more, **named)

    monkeypatch.setattr(builtins, "open", refused)
    return tmp_path / "file", os.strerror(error)


@pytest.mark.skipif(os.name == "nt", reason="pipes and /proc")
@pytest.mark.parametrize(
    "kind", ["no folder", "a folder", "a pipe", "kernel's", "read-only", "full"]
)
@pytest.mark.parametrize("name", ["train", "bench plot", "bench json", "demo json"])
def test_a_place_that_cannot_be_written_is_said_at_once(name, kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path, says = unwritable(tmp_path, monkeypatch, kind)
    monkeypatch.setattr(training, "Trainer", None)  # the work does not begin
    monkeypatch.setattr("cudamath.demo._compare", None)
    words = {
        "train": [*options(path), "--overwrite"],
        "bench plot": ["bench", "host_add", "--plot", str(path)],
        "bench json": ["bench", "host_add", "--json", str(path)],
        "demo json": ["demo", "--json", str(path)],
    }[name]
    assert main(words) == 2
    said_in_one_line(capsys, f"{name.split()[0]}: cannot write", says)
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".cudamath")]


def test_what_is_read_is_looked_for_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "Trainer", None)
    out, nothing = tmp_path / "a.safetensors", str(tmp_path / "nothing")
    for words, says in (
        (options(out, text=nothing), "train: cannot read"),
        ([*options(out), "--resume"], "train: cannot read"),
        (["sample", "gpt2", "--checkpoint", nothing], "sample: cannot read"),
        (["warm-up", "--capability", "9.0", "--from-program", nothing], "warm-up: cannot read"),
    ):
        assert main(words) == 2
        said_in_one_line(capsys, says, "No such file")


def test_an_earlier_run_is_not_overwritten_by_mistake(tmp_path, capsys):
    pytest.importorskip("safetensors")
    out = tmp_path / "run.safetensors"
    assert main(options(out, 2)) == 0
    before = out.read_bytes()
    capsys.readouterr()
    assert main(options(out, 2, seed=5)) == 2
    said_in_one_line(capsys, "exists", "--resume", "--overwrite", "--out")
    assert out.read_bytes() == before
    assert main([*options(out, 2, seed=5), "--overwrite"]) == 0
    assert out.read_bytes() != before


def test_a_probe_leaves_nothing_and_changes_nothing(tmp_path):
    (tmp_path / "old").write_text("kept")
    preflight.require_writable_file("train", tmp_path / "old")
    preflight.require_writable_file("train", tmp_path / "new")
    preflight.require_writable_folder("demo", tmp_path / "a" / "b")
    assert {p.name for p in tmp_path.iterdir()} == {"old", "a"}
    assert (tmp_path / "old").read_text() == "kept" and not any((tmp_path / "a/b").iterdir())


# -------------------- in the middle of it


def stopping_at(monkeypatch, step, number=signal.SIGINT):
    """A signal while this step is being made."""
    make = training.Trainer.step

    def interrupted(self, *batch):
        if self.steps == step - 1:
            os.kill(os.getpid(), number)
        return make(self, *batch)

    monkeypatch.setattr(training.Trainer, "step", interrupted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_the_run_bit_for_bit(number, tmp_path, monkeypatch, capsys):
    pytest.importorskip("safetensors")
    monkeypatch.setattr(  # whatever --steps
        command.ml.schedules, "cosine", lambda *_, **__: cm.ml.schedules.constant(1e-3)
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main(options(whole, 7, dropout=0.1)) == 0
    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        stopping_at(patch, 3, number)
        capsys.readouterr()
        assert main(options(parts, 7, dropout=0.1)) == 130
    said_in_one_line(capsys, "stopped after step 3 of 7", str(parts), "--resume")
    assert signal.getsignal(signal.SIGINT) is handler
    assert int(cm.load(parts, device="cpu")["state"]["step"]) == 3
    assert main([*options(parts, 7, dropout=0.1), "--resume"]) == 0
    one, other = (cm.load(path, device="cpu") for path in (whole, parts))
    assert one["data"] == other["data"] and one["rng"] == other["rng"]
    for name, p in one["params"].items():
        np.testing.assert_array_equal(p.to_numpy(), other["params"][name].to_numpy())


def test_a_second_ctrl_c_interrupts_at_once():
    with pytest.raises(KeyboardInterrupt), preflight.stop_requested() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)


@contextlib.contextmanager
def full_disk(monkeypatch, folder, after=0):
    """Saving below this folder fails, after so many times that it went well."""
    save, count = training.Trainer.save, [0]

    def full(self, path, **more):
        count[0] += 1
        if str(path).startswith(str(folder)) and count[0] > after:
            raise OSError(errno.ENOSPC, f"save: cannot write {path}: {NO_SPACE.strerror}")
        save(self, path, **more)

    with monkeypatch.context() as patch:
        patch.setattr(training.Trainer, "save", full)
        yield


def test_a_full_disk_ends_no_training_and_the_end_is_kept_elsewhere(tmp_path, monkeypatch, capsys):
    pytest.importorskip("safetensors")
    full, spare = tmp_path / "full", tmp_path / "spare"
    full.mkdir(), spare.mkdir()
    out = full / "run.safetensors"
    monkeypatch.setattr(command.tempfile, "mkdtemp", lambda prefix: str(spare))
    with full_disk(monkeypatch, full, after=1):
        assert main(options(out, 6)) == 0
    found = capsys.readouterr()
    assert "no checkpoint of this step" in found.out and "goes on" in found.out
    assert "No space left" in found.err and str(spare / "run.safetensors") in found.err
    assert int(cm.load(out, device="cpu")["state"]["step"]) == 2  # the last one that went well
    assert int(cm.load(spare / "run.safetensors", device="cpu")["state"]["step"]) == 6


@pytest.mark.skipif(os.name == "nt", reason="limits of a process")
def test_a_real_limit_of_the_system_leaves_the_checkpoint_before(tmp_path):
    """Files of this process may not grow beyond some bytes from now on, as on a full disk."""
    pytest.importorskip("safetensors")
    code = """if True:
        import resource, sys
        import cudamath as cm
        cm.save("kept.safetensors", {"x": cm.arange(3, device="cpu")})
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        try:
            cm.save("kept.safetensors", {"x": cm.zeros(100_000, device="cpu")})
        except OSError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        print(cm.load("kept.safetensors", device="cpu")["x"].tolist())
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    error, values = done.stdout.splitlines()
    assert error.startswith("save: cannot write kept.safetensors") and values == "[0, 1, 2]"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.safetensors"]


def test_an_interrupted_bench_keeps_its_figures(tmp_path, monkeypatch, capsys):
    from benchmarks import run

    made, measure = [], run.measure

    def interrupted(row, *arguments):
        if made:
            raise KeyboardInterrupt
        made.append(row.name)
        return measure(row, *arguments)

    monkeypatch.setattr(run, "measure", interrupted)
    monkeypatch.setattr(run, "ceilings", lambda device: {})
    file = tmp_path / "figures.json"
    with cm.device("cpu"):
        words = ["bench", "host_", "--iterations", "1", "--json", str(file)]
        assert main(words) == 130
    assert "stopped" in capsys.readouterr().err
    assert [row["name"] for row in json.loads(file.read_text())] == made
