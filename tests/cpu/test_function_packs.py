"""Packs of the CPU's functions: what is in them, which processors they serve, and what is not
trusted. (The files of packs: tests/runtime/test_kernel_packs.py.)"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from cudamath.cpu.lib import numba_cache, processor
from cudamath.runtime import kernel_packs
from packs import functions

from .test_numba_cache import called, entries, folder  # noqa: F401

LEVEL = processor.LEVELS["x86_64_v3"]
V3 = dict.fromkeys(LEVEL.features, True)
V4 = dict.fromkeys(processor.LEVELS["x86_64_v4"].features, True)


@pytest.fixture
def packed(folder, tmp_path, monkeypatch):  # noqa: F811
    """A pack with one function, and an empty cache; this machine is of the pack's level."""
    monkeypatch.setattr(processor, "level", lambda: LEVEL)
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", "0")
    kernel_packs.packs.cache_clear()
    assert not called(folder)
    pack, count = functions.write(LEVEL, folder, tmp_path / "packs")
    assert count == 1 and pack.name == "x86_64_v3.kernels"
    for path in entries(folder):
        path.unlink()
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", str(pack))
    kernel_packs.packs.cache_clear()
    yield pack
    kernel_packs.packs.cache_clear()


def test_a_function_comes_from_a_pack(packed, folder):  # noqa: F811
    assert called(folder) and entries(folder) == []
    assert not called(folder, "f8")  # another type, which the pack has not
    assert called(folder, "f8")


def test_one_s_own_comes_first(packed, folder, monkeypatch):  # noqa: F811
    called(folder, "f8")
    monkeypatch.setattr(kernel_packs, "read", lambda *_: pytest.fail("asked a pack"))
    assert called(folder, "f8")


@pytest.mark.parametrize(
    "what", ["sources", "numba", "llvmlite", "level", "no level", "option", "Numba's own"]
)
def test_a_pack_of_something_else_is_not_used(packed, folder, monkeypatch, what):  # noqa: F811
    if what == "sources":
        monkeypatch.setattr(numba_cache, "stamp", lambda: "another version")
    elif what == "option":
        monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", "0")
    elif what == "Numba's own":  # a processor that the user names
        monkeypatch.setattr(numba_cache.numba.config, "CPU_NAME", "generic")
    elif what.endswith("level"):
        other = None if what == "no level" else processor.LEVELS["aarch64"]
        monkeypatch.setattr(processor, "level", lambda: other)
    else:
        monkeypatch.setattr(getattr(numba_cache, what), "__version__", "0.1")
    kernel_packs.packs.cache_clear()
    assert not called(folder)


@pytest.mark.parametrize("damage", ["everybody may write", "a changed byte", "cut off"])
def test_what_cannot_be_trusted_is_refused_and_compiled(packed, folder, damage):  # noqa: F811
    data = packed.read_bytes()
    if damage == "everybody may write":
        packed.chmod(0o666)
    elif damage == "cut off":
        packed.write_bytes(data[: len(data) // 2])
    else:
        packed.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
    with pytest.warns(RuntimeWarning, match="not used"):
        assert not called(folder)
    assert called(folder)  # one's own, now


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


@pytest.mark.skipif(LEVEL not in processor.runnable(), reason="not this machine's")
@pytest.mark.parametrize(("name", "width"), [("x86_64_v3", 32), ("x86_64_v4", 64)])
def test_code_and_callers_are_of_one_level(name, width):
    """The processor, its features and the length of vectors; nothing runs."""
    program = (
        "from numba.core.registry import cpu_target\n"
        "from cudamath.cpu.lib import llvm_vectors\n"
        "print(llvm_vectors.VECTOR, *cpu_target.target_context.codegen().magic_tuple()[1:])"
    )
    level = processor.LEVELS[name]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | processor.settings(level),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    vector, cpu, features = done.stdout.split()
    assert (int(vector), cpu) == (width, level.cpu)
    assert set(features.split(",")) == {f"+{feature}" for feature in level.features}


def test_processes_that_store_different_types_lose_none(folder, monkeypatch):  # noqa: F811
    """Each reads the index and writes it with its own entry."""
    save = numba_cache._OwnFiles._save_index

    def slowly(self, overloads):
        time.sleep(0.2)
        save(self, overloads)

    monkeypatch.setattr(numba_cache._OwnFiles, "_save_index", slowly)
    called(folder)
    (index,) = [path for path in entries(folder) if path.suffix == ".nbi"]
    files = [numba_cache._OwnFiles(str(index.parent), index.stem, "stamp") for _ in range(4)]
    threads = [
        threading.Thread(target=each.save, args=(f"key {i}", i)) for i, each in enumerate(files)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        assert files[0].load(f"key {i}") == i
