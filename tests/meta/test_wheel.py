"""The wheel: it holds the whole package, and works where there is no source tree."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

import cudamath as cm
from cudamath.core.dispatch import autotune

PACKAGE = pathlib.Path(cm.__file__).parent
ROOT = PACKAGE.parent

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)


def files_of_the_package() -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def only_python(folder: str, names: list[str]) -> list[str]:
    return [n for n in names if not n.endswith(".py") and not pathlib.Path(folder, n).is_dir()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The wheel, built as pip builds it but in this environment, without a network, and from a
    copy: what an earlier build left in the source tree would go into it."""
    pytest.importorskip("setuptools", minversion="77")
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(
        PACKAGE, tree / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    for name in ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "benchmarks", tree / "benchmarks", ignore=only_python)
    code = "import setuptools.build_meta as b; b.build_wheel('dist')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = (tree / "dist").glob("*.whl")
    return made


def test_the_wheel_holds_the_package_and_nothing_else(wheel: pathlib.Path) -> None:
    """A folder without an `__init__.py` would be left out, and so would a file that is neither
    Python nor named in setup.cfg."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    rows = {name for name in names if name.startswith("cudamath/bench_tree/benchmarks/")}
    assert names - rows == files_of_the_package()
    assert {"run.py", "rows.py", "rows_matmul.py"} <= {pathlib.PurePath(n).name for n in rows}


def test_rows_are_measured_without_the_source_tree(
    wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("matplotlib")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    options = ["--iterations", "1", "--json", "figures.json", "--plot", "chart.png"]
    done = subprocess.run(
        [sys.executable, "-m", "cudamath", "bench", "host_add", *options],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed"), "CUDAMATH_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "figures.json").read_text())
    assert rows and all(row["results"]["cudamath"]["median"] > 0 for row in rows)
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_the_wheel_brings_the_command_and_says_what_it_needs(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        about = {pathlib.PurePosixPath(name).name: name for name in archive.namelist()}
        commands = archive.read(about["entry_points.txt"]).decode()
        needs = archive.read(about["METADATA"]).decode()
    assert "[console_scripts]\ncudamath = cudamath.__main__:main\n" in commands
    assert f"\nVersion: {cm.__version__}\n" in needs
    assert "\nRequires-Python: <3.15,>=3.11\n" in needs


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert {str(f) for f in folders if not (f / "__init__.py").exists()} == set()


def test_the_wheel_works_without_the_source_tree(
    wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It imports, a module of each folder too, and finds the tables of measurements."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    needs = {"cudamath.demo", "cudamath.__main__"}  # packages that want an extra, and the command
    modules = {}
    for name in sorted(files_of_the_package()):
        parts = pathlib.PurePosixPath(name).with_suffix("").parts
        if name.endswith(".py") and parts[-1] != "__init__" and ".".join(parts[:-1]) not in needs:
            modules.setdefault(parts[:-1], ".".join(parts))
    source = """
        import importlib, json, sys
        import cudamath as cm
        for name in json.loads(sys.argv[1]):
            importlib.import_module(name)
        tables = sys.modules[sys.argv[2]]._shipped()
        files = {m.__file__ for name, m in sys.modules.items() if name.split(".")[0] == "cudamath"}
        print(json.dumps([sorted(files), list(tables), (cm.arange(3) + 1).tolist()]))
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "\n".join(line[8:] for line in source.splitlines()),
            json.dumps([*modules.values(), autotune.__name__]),
            autotune.__name__,
        ],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    files, tables, values = json.loads(done.stdout)
    assert all(pathlib.Path(file).is_relative_to(tmp_path) for file in files)
    assert len(files) > len(modules) and "NVIDIA H200" in tables and values == [1, 2, 3]
