"""The cache of the CPU's compiled functions: whose files it reads, and when an entry counts."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import stat
import subprocess
import sys

import numpy as np
import pytest

from cudamath.cpu.lib import code_cache, numba_cache
from cudamath.runtime import compile_notice

posix = pytest.mark.skipif(os.name == "nt", reason="owners and modes of POSIX")
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
SOURCE = """
from cudamath.cpu.lib.numba_cache import njit
@njit(cache=True)
def last(x):
    return x[x.size - 1]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> pathlib.Path:
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(numba_cache.numba.config, "CACHE_DIR", "")
    (tmp_path / "functions.py").write_text(SOURCE)
    return tmp_path / "cache" / "cpu"


def called(folder: pathlib.Path, kind: str = "f4") -> bool:
    """Import the function anew, as another process would, and call it; whether it came from the
    cache."""
    spec = importlib.util.spec_from_file_location("functions", folder.parents[1] / "functions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.last(np.arange(9, dtype=kind)) == 8
    stats = module.last.stats
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) == 1
    return bool(stats.cache_hits)


def entries(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]


@posix
def test_functions_are_kept_in_the_folder_of_kernels_for_this_user_alone(folder):
    assert not called(folder) and called(folder) and not called(folder, "f8") and called(folder)
    assert sorted(path.suffix for path in entries(folder)) == [".nbc", ".nbc", ".nbi"]
    for path in (folder, *folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in entries(folder)} == {0o600}


@posix
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("what", ["mode", "owner", "link"])
def test_what_others_could_have_written_is_not_read(folder, monkeypatch, suffix, what):
    called(folder)
    (path,) = [path for path in entries(folder) if path.suffix == suffix]
    if what == "mode":
        path.chmod(0o666)
    elif what == "link":
        path.rename(folder / "other")
        path.symlink_to(folder / "other")
    elif ROOT:
        os.chown(path, 12345, -1)
    else:
        me = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert not called(folder)
    if what != "owner" or ROOT:
        assert called(folder)  # replaced by one of our own


@posix
@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_folder_in_which_others_may_rename_is_not_read(folder, above):
    """Entries of one's own could lie there under each other's names."""
    called(folder)
    (index,) = [path for path in entries(folder) if path.suffix == ".nbi"]
    shared = index.parents[above]
    shared.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=f"everybody may write the folder {shared}"):
        assert not called(folder)
    shared.chmod(0o1777)  # as /tmp: only one's own files may be renamed
    assert called(folder)
    shared.chmod(0o700)
    assert called(folder)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", [b"", b"\x80\x04garbage", b"\0" * 100])
def test_a_damaged_entry_is_compiled_again(folder, suffix, damage):
    called(folder)
    (path,) = [path for path in entries(folder) if path.suffix == suffix]
    path.write_bytes(damage)
    assert not called(folder) and called(folder)


def test_an_entry_counts_for_one_version_of_all_files_of_the_cpu(folder, monkeypatch):
    """A function may call those of other files, of which Numba knows nothing."""
    called(folder)
    monkeypatch.setattr(numba_cache, "stamp", lambda: "another version")
    assert not called(folder) and called(folder)
    monkeypatch.undo()


def test_the_stamp_follows_every_file(tmp_path, monkeypatch):
    assert [path.name for path in code_cache._SOURCES] == ["cpu", "special"]
    other = tmp_path / "special"
    tmp_path /= "cpu"
    other.mkdir()
    monkeypatch.setattr(code_cache, "_SOURCES", (tmp_path, other))

    def stamp() -> str:
        code_cache.stamp.cache_clear()
        return code_cache.stamp()

    (tmp_path / "lib").mkdir(parents=True)
    stamps = [stamp()]
    for name, text in (("a.py", "1"), ("lib/b.py", "1"), ("lib/b.py", "2"), ("c.py", "1")):
        (tmp_path / name).write_text(text)
        stamps.append(stamp())
    (tmp_path / "a.py").rename(tmp_path / "lib" / "a.py")
    stamps.append(stamp())
    (other / "a.py").write_text("1")
    stamps.append(stamp())
    assert len(set(stamps)) == len(stamps) and stamp() == stamps[-1]
    code_cache.stamp.cache_clear()


def test_ufuncs_are_kept_there_too(folder):
    def half(x):
        return x * 0.5

    made = numba_cache.vectorize(["float32(float32)"])(half)
    assert made(np.float32(3)) == np.float32(1.5)
    assert {path.suffix for path in entries(folder)} == {".nbi", ".nbc"}


def test_a_line_says_what_is_compiled(monkeypatch):
    """Of this package's functions; users compile their own."""
    said = []

    class Waiting:
        def __init__(self, what, kept):
            self.what = what

        def __enter__(self):
            said.append(self.what)

        def __exit__(self, *_):
            said.append("end")

    monkeypatch.setattr(compile_notice, "waiting", Waiting)

    def add(x):
        return x + 1

    numba_cache.njit()(add)(3)
    assert said == []
    add.__module__ = "cudamath.cpu.example"
    numba_cache.njit()(add)(3)
    assert said == ["example.add for the CPU", "end"]
    with pytest.raises(numba_cache.numba.TypingError):
        numba_cache.njit()(add)("text")
    assert said[2:] == ["example.add for the CPU", "end"]


# -------------------- without a cache everything computes

_PROGRAM = """
import math, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # as on a full disk, writing fails
import numpy as np
import cudamath as cm

cm.set_default_device("cpu")
x = cm.ones((1, 1, 4, 4), dtype="float32")
assert cm.ml.max_pool2d(x, 2).tolist() == [[[[1, 1], [1, 1]]]]
assert cm.ml.conv2d(x, x[:, :, :3, :3]).tolist() == [[[[9, 9], [9, 9]]]]
assert abs(cm.ml.gelu(x)[0, 0, 0, 0].item() - (1 + math.erf(math.sqrt(0.5))) / 2) < 1e-6
assert abs(cm.random.default_rng(0).gamma(2.0, 1.0, 10_000).mean().item() - 2) < 0.1
assert cm.ml.dropout(x, 0.5, rng=cm.random.default_rng(0)).shape == x.shape
assert cm.random.default_rng(0).permutation(4).sum().item() == 6
assert cm.nanmax(cm.asarray([1.0, math.nan, 3.0])).item() == 3
print("computed")
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_full_disk(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env=environment,
    )
    assert done.stdout == "computed\n", done.stderr


def test_a_cache_that_cannot_be_read(tmp_path, monkeypatch):
    from numba.core.caching import FunctionCache

    def broken(*_):
        raise OSError("input/output error")

    monkeypatch.setattr(FunctionCache, "_load_overload", broken)
    monkeypatch.setattr(FunctionCache, "_save_overload", broken)

    @numba_cache.njit(cache=True)
    def twice(x):
        return 2 * x

    assert twice(3) == 6 and twice(1.5) == 3.0
