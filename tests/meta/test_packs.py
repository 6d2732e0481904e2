"""`make kernels`: from the list of kernels to wheels whose packs are found and used."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import cudamath as cm
from cudamath import warm_up
from cudamath.core.dispatch.planner_calls import PlannerCall
from cudamath.core.layout import Layout
from cudamath.cpu.lib import code_cache, processor
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import kernel_list, lazy_numba
from cudamath.runtime import cubin_cache, kernel_packs
from packs import build, functions, record

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
F4 = np.dtype("f4")
CALLS = [
    PlannerCall("softmax", "softmax.dispatch.softmax", (Layout.new((64, n), F4, 0),), {"axis": 1})
    for n in (32, 1024)
]


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The kernels that were "compiled"; the loader finds no packs but those of `tmp_path`."""
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", "0")
    kernel_packs.packs.cache_clear()
    made = []

    def compile_all(requests, capability, workers=0, done=None):
        for kernel, signature in requests:
            cc = (*capability, "a") if capability >= (9, 0) else capability
            key = compiler.cache_key(kernel, signature, cc)
            cubin_cache.cached_cubin(key, lambda key=key: made.append(key) or key.encode())
        return ["one was not"] if capability == (8, 0) else []

    monkeypatch.setattr(warm_up, "compile_all", compile_all)
    yield made
    kernel_packs.packs.cache_clear()


def test_a_wheel_is_built_installed_and_used(compiled, tmp_path, monkeypatch):
    path, count, errors = build.build((9, 0), tmp_path / "dist", CALLS)
    assert count == len(compiled) >= 2 and errors == []
    assert [p.name for p in (tmp_path / "dist").iterdir()] == [path.name]
    assert re.fullmatch(r"cudamath_kernels_sm90-[\d.a-z]+-cp3\d+-none-any\.whl", path.name)
    assert f"-{cm.__version__}-" in path.name
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-cache-dir",
         "--disable-pip-version-check", "--target", tmp_path / "site", path],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delenv("CUDAMATH_KERNEL_PACKS")
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(compiler, "compile_now", lambda *_: pytest.fail("compiled"))
    importlib.invalidate_caches()
    kernel_packs.packs.cache_clear()
    for each in kernel_list.wanted(CALLS, (9, 0)):
        assert compiler.compile_cubin(each.kernel, each.signature, (9, 0)) == each.key.encode()


def test_a_wheel_of_functions_is_built(compiled, tmp_path, monkeypatch):
    """For one system: its pack is found under the level's name."""
    level = processor.LEVELS["x86_64_v3"]
    found = {"one": b"1", "two": b"2"}
    monkeypatch.setattr(functions, "compile_functions", lambda *_: ["one was not"])
    monkeypatch.setattr(code_cache, "entries", lambda _: found.items())
    path, count, errors = build.build_functions(level, tmp_path / "dist")
    assert (count, errors) == (2, ["one was not"])
    assert [p.name for p in (tmp_path / "dist").iterdir()] == [path.name]
    assert re.fullmatch(r"cudamath_kernels_x8664v3-[\d.a-z]+-cp3\d+-none-\w+_\w+\.whl", path.name)
    assert not path.name.endswith("-any.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delenv("CUDAMATH_KERNEL_PACKS")
    importlib.invalidate_caches()
    kernel_packs.packs.cache_clear()
    assert [kernel_packs.read(level.name, key) for key in (*found, "three")] == [b"1", b"2", None]


def test_functions_are_compiled_for_a_level_alone(tmp_path, monkeypatch):
    """In another process, whose cache is the pack's."""
    seen = []

    def run(command, env, **_):
        seen.append((command, env))
        return subprocess.CompletedProcess(command, len(seen) - 1)

    monkeypatch.setattr(subprocess, "run", run)
    level = processor.LEVELS["x86_64_v3"]
    assert functions.compile_functions(level, tmp_path) == []
    assert functions.compile_functions(level, tmp_path) == ["functions for x86_64_v3"]
    command, environment = seen[0]
    assert "warm-up" in command
    assert environment["CUDAMATH_CACHE_DIR"] == str(tmp_path)
    assert environment["CUDAMATH_CPU_LEVEL"] == "x86_64_v3"


def test_a_build_that_was_stopped_goes_on_where_it_was(compiled, tmp_path):
    build.build((9, 0), tmp_path / "dist", CALLS[:1])
    before = len(compiled)
    _, count, _ = build.build((9, 0), tmp_path / "dist", CALLS)
    assert count == len(compiled) > before and len(set(compiled)) == len(compiled)


def test_the_command_tells_what_is_missing_or_too_large(compiled, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kernel_list, "calls", lambda: CALLS)
    arguments = ["build", "--levels", "", "--out", str(tmp_path / "dist"), "--capabilities"]
    monkeypatch.setattr(sys, "argv", [*arguments, "9.0"])
    assert build.main() == 0
    out, err = capsys.readouterr()
    assert f"{len(compiled)} kernels" in out and "MiB" in out and "not in" not in err
    monkeypatch.setattr(sys, "argv", [*arguments, "8.0"])
    assert build.main() == 1 and "not in the pack: one was not" in capsys.readouterr().err
    monkeypatch.setattr(build, "MOST", 10)
    monkeypatch.setattr(sys, "argv", [*arguments, "9.0"])
    assert build.main() == 1 and "is larger than" in capsys.readouterr().err


def test_there_is_a_wheel_for_each_architecture():
    from cudamath.kernels.compiler.target import architecture, target

    names = [kernel_packs.package_name(architecture(target(c))) for c in record.CAPABILITIES]
    assert names == [f"cudamath_kernels_sm{n}" for n in (80, 86, 89, 90, 100, 120)]


def test_a_wheel_is_the_same_each_time(compiled, tmp_path):
    one, two = (build.build((9, 0), tmp_path / name, CALLS)[0].read_bytes() for name in "ab")
    assert one == two
    with zipfile.ZipFile(tmp_path / "a" / next((tmp_path / "a").iterdir()).name) as archive:
        assert archive.testzip() is None
