"""The cache of the CPU's compiled functions on disk, and packs of them: what is kept, what is not
trusted, what a changed source does."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from cudamath.cpu.lib import code_cache, llvm_compiled, processor
from cudamath.runtime import kernel_packs
from packs import functions

LEVEL = processor.LEVELS["x86_64_v3"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", "0")
    kernel_packs.packs.cache_clear()
    yield tmp_path / "kernels" / "cpu"
    kernel_packs.packs.cache_clear()


def _doubled(x):
    for i in range(x.size):
        x[i] *= 2


def called(monkeypatch, dtype="f8"):
    """Call a function that this process has not compiled; whether it was compiled now."""
    compiled, compile = [], llvm_compiled._compile
    monkeypatch.setattr(llvm_compiled, "_compile", lambda m: compiled.append(m) or compile(m))
    x = np.arange(5, dtype=dtype)
    llvm_compiled.loop(_doubled)(x)
    assert x.tolist() == [0, 2, 4, 6, 8]
    monkeypatch.setattr(llvm_compiled, "_compile", compile)
    return bool(compiled)


def files(folder):
    return sorted(folder.rglob(f"*{code_cache.SUFFIX}"))


def test_a_second_process_compiles_nothing(folder, monkeypatch):
    assert called(monkeypatch) and not called(monkeypatch)
    assert called(monkeypatch, "f4")
    assert len(files(folder)) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in [folder, *files(folder)])


def test_a_warm_process_imports_no_numba(folder):
    """Neither does a cold one."""
    program = (
        "import sys, cudamath as cm\n"
        "x, w = cm.ones((1, 2, 8, 8), device='cpu'), cm.ones((3, 2, 3, 3), device='cpu')\n"
        "cm.grad(lambda x, w: cm.ml.conv2d(x, w).sum(), argnums=(0, 1))(x, w)\n"
        "cm.ml.max_pool2d(x, 2), cm.special.betaincinv(x, x, x), cm.ml.gelu(x)\n"
        "cm.ml.upsample(x, scale_factor=2)\n"
        "assert 'numba' not in sys.modules"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize("what", ["sources", "a processor", "llvmlite"])
def test_another_machine_or_version_compiles_anew(folder, monkeypatch, what):
    assert called(monkeypatch)
    if what == "sources":
        monkeypatch.setattr(code_cache, "stamp", lambda: "another version")
    elif what == "llvmlite":
        monkeypatch.setattr(code_cache.llvmlite, "__version__", "0.1")
    else:
        monkeypatch.setattr(code_cache, "_processor", lambda: "another")
    assert called(monkeypatch) and not called(monkeypatch)


@pytest.mark.parametrize("damage", ["a changed byte", "cut off", "another's", "everybody's"])
def test_what_cannot_be_trusted_is_compiled(folder, monkeypatch, damage):
    called(monkeypatch), called(monkeypatch, "f4")
    first, second = files(folder)
    data = first.read_bytes()
    if damage == "a changed byte":
        first.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
    elif damage == "cut off":
        first.write_bytes(data[:20])
    elif damage == "another's":  # whole, of another function
        first.write_bytes(second.read_bytes())
    else:
        first.chmod(0o666)
    assert called(monkeypatch) + called(monkeypatch, "f4") == 1


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    place = tmp_path / "file"
    place.write_text("no folder")
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(place))
    assert called(monkeypatch) and called(monkeypatch)


def test_packs_hold_these_functions(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(processor, "level", lambda: LEVEL)
    assert called(monkeypatch)
    pack, count = functions.write(LEVEL, folder, tmp_path / "packs")
    assert count == 1
    for path in files(folder):
        path.unlink()
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", str(pack))
    kernel_packs.packs.cache_clear()
    assert not called(monkeypatch) and files(folder) == []
    assert called(monkeypatch, "f4")  # which the pack has not
    monkeypatch.setattr(code_cache, "stamp", lambda: "another version")
    assert called(monkeypatch)


@pytest.mark.skipif(LEVEL not in processor.runnable(), reason="not this machine's")
def test_a_pack_is_made_for_its_level():
    """No instruction of this machine alone."""
    program = (
        "from cudamath.cpu.lib import code_cache, llvm_functions\n"
        "print(llvm_functions.machine().triple != '', code_cache._processor())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | processor.settings(LEVEL),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["True", "x86_64_v3"]
