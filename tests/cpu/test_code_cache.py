"""The cache of the CPU's compiled functions on disk, and packs of them: what is kept, what is not
trusted, what a changed source does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cudamath.core.specs.special.library import scalar
from cudamath.cpu.lib import code_cache, llvm_compiled, machine_code, processor
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
    x = np.arange(5, dtype=dtype)
    with compiled(monkeypatch) as objects:
        llvm_compiled.loop(_doubled)(x)
    assert x.tolist() == [0, 2, 4, 6, 8]
    return bool(objects)


@contextlib.contextmanager
def compiled(monkeypatch):
    """The modules of which LLVM made objects."""
    found, make = [], machine_code._object
    with monkeypatch.context() as patch:
        patch.setattr(machine_code, "_object", lambda m, *rest: found.append(m) or make(m, *rest))
        yield found


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


def test_functions_share_their_large_parts(folder, monkeypatch):
    """A function of a family compiles what is its own; its file holds the others' parts too."""
    monkeypatch.setattr(machine_code, "_objects", {})
    names, counts = ("betainc", "betaincc", "betainc_by_b", "betainc_by_a"), []
    points = [x.ravel() for x in np.meshgrid([0.5, 2.0, 30.0], [0.3, 4.0], [0.1, 0.6, 0.95])]
    for name in names:
        with compiled(monkeypatch) as objects:
            function = llvm_compiled.ufunc(scalar(name))
        counts.append(len(objects))
        path = max(files(folder), key=lambda path: path.stat().st_mtime_ns)
        program = (
            "import sys, numpy as np\n"
            "from cudamath.core.specs.special.library import scalar\n"
            "from cudamath.cpu.lib import code_cache, llvm_compiled, machine_code\n"
            "machine_code.Compiler = None\n"  # nothing is compiled
            f"function = llvm_compiled.ufunc(scalar({name!r}))\n"
            f"print(function(*{[x.tolist() for x in points]!r}).tolist())\n"
        )
        for other in files(folder):
            other.rename(other.with_suffix(".away") if other != path else other)
        told = subprocess.run(
            [sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True
        )
        assert told.stdout.strip() == str(function(*points).tolist())
        expected = [scalar(name)(*map(float, row)) for row in zip(*points, strict=True)]
        assert_allclose(function(*points), expected, rtol=1e-13)
    assert counts[0] > 5 and counts[1] == 1 and counts[3] < counts[2] < counts[0]


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


@pytest.mark.parametrize("damage", ["everybody may write", "a changed byte", "cut off"])
def test_packs_that_cannot_be_trusted(folder, monkeypatch, tmp_path, damage):
    monkeypatch.setattr(processor, "level", lambda: LEVEL)
    called(monkeypatch)
    pack, _ = functions.write(LEVEL, folder, tmp_path / "packs")
    for path in files(folder):
        path.unlink()
    data = pack.read_bytes()
    if damage == "everybody may write":
        pack.chmod(0o666)
    elif damage == "cut off":
        pack.write_bytes(data[: len(data) // 2])
    else:
        pack.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", str(pack))
    kernel_packs.packs.cache_clear()
    with pytest.warns(RuntimeWarning, match="not used"):
        assert called(monkeypatch)


@pytest.mark.parametrize("what", ["no level", "another level", "a level is compiled"])
def test_packs_of_another_level(folder, monkeypatch, tmp_path, what):
    monkeypatch.setattr(processor, "level", lambda: LEVEL)
    called(monkeypatch)
    pack, _ = functions.write(LEVEL, folder, tmp_path / "packs")
    for path in files(folder):
        path.unlink()
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", str(pack))
    kernel_packs.packs.cache_clear()
    other = None if what == "no level" else processor.LEVELS["aarch64"]
    if what == "a level is compiled":  # a pack does not come of another pack
        monkeypatch.setattr(processor, "LEVEL", LEVEL)
    else:
        monkeypatch.setattr(processor, "level", lambda: other)
    assert called(monkeypatch)


def test_the_stamp_follows_every_file(tmp_path, monkeypatch):
    assert [path.name for path in code_cache._SOURCES] == ["cpu", "special"]
    other, cpu = tmp_path / "special", tmp_path / "cpu"
    other.mkdir()
    monkeypatch.setattr(code_cache, "_SOURCES", (cpu, other))

    def stamp() -> str:
        code_cache.stamp.cache_clear()
        return code_cache.stamp()

    (cpu / "lib").mkdir(parents=True)
    stamps = [stamp()]
    for name, text in (("a.py", "1"), ("lib/b.py", "1"), ("lib/b.py", "2"), ("c.py", "1")):
        (cpu / name).write_text(text)
        stamps.append(stamp())
    (cpu / "a.py").rename(cpu / "lib" / "a.py")
    stamps.append(stamp())
    (other / "a.py").write_text("1")
    stamps.append(stamp())
    assert len(set(stamps)) == len(stamps) and stamp() == stamps[-1]
    code_cache.stamp.cache_clear()


def test_a_line_says_what_is_compiled(folder, monkeypatch):
    said = []

    @contextlib.contextmanager
    def waiting(what, kept):
        said.append((what, kept))
        yield

    monkeypatch.setattr(code_cache.compile_notice, "waiting", waiting)
    called(monkeypatch), called(monkeypatch)
    assert said == [("test_code_cache._doubled for the CPU", folder)]


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
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env=os.environ | {"CUDAMATH_CACHE_DIR": str(tmp_path)},
    )
    assert done.stdout == "computed\n", done.stderr
