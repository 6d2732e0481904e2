"""The rules of the house: style, types, import contracts, what an import costs, the
command line."""

from __future__ import annotations

import ast
import configparser
import functools
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "cudamath"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ALL = SOURCES + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "benchmarks").rglob("*.py"))

# Numba compiles inside the process only when a test needs it; a simulator run would see other
# modules.
pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)


def python(
    *arguments: str, timeout: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter in the project's root."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command-line tool of this environment."""
    path = pathlib.Path(sys.executable).parent / name
    if not path.exists():
        pytest.skip(f"{name} is not installed here (pip install 'cudamath[test]')")
    return subprocess.run(
        [str(path), *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


def relative(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        pytest.param(("mypy",), marks=pytest.mark.slow),
        ("lint-imports", "--no-cache"),
    ],
    ids=["style", "format", "types", "contracts"],
)
def test_tool(command: tuple[str, ...]) -> None:
    done = tool(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_commits_are_checked_as_by_make_lint() -> None:
    """The hooks of pre-commit are the commands of `make lint`, from the project's environment."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n?)+)", makefile, re.M)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    commands = re.findall(r"^ *entry: (.*)$", hooks, re.M)
    assert commands == re.findall(r"^\t@(.*)$", recipe, re.M) and len(commands) == 5
    assert all(command.startswith(".venv/bin/") for command in commands)
    assert set(re.findall(r"(?:repo|language): (.*)$", hooks, re.M)) == {"local", "system"}


#: The most files of a folder below these; `cpu` and `ops` have a file for each family.
MOST_FILES = {"kernels": 30, "core": 30, "runtime": 30, "ml": 30, "cpu": 50, "ops": 50}


@pytest.mark.parametrize("room", MOST_FILES)
def test_folders_can_be_read_at_a_glance(room: str) -> None:
    folders = {path.parent for path in SOURCES if path.is_relative_to(PACKAGE / room)}
    sizes = {relative(folder): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: n for folder, n in sizes.items() if n > MOST_FILES[room]} == {}


def test_calls_have_one_fast_path() -> None:
    """No public function looks its plans up by itself: `@fast_path` does."""
    by_hand = re.compile(r"\.(again|remember\w*|taped|product_known)\b")
    public = [path for path in SOURCES if path.parts[len(PACKAGE.parts)] not in ("core", "runtime")]
    users = {
        relative(path): by_hand.findall(path.read_text(encoding="utf-8"))
        for path in public
        if by_hand.search(path.read_text(encoding="utf-8"))
    }
    assert users == {}


@functools.cache
def imported(path: pathlib.Path) -> set[str]:
    """Absolute names of what a file imports, in functions too: `from numba import cuda` gives numba
    and numba.cuda. Names of their modules in strings count: they are imported when first needed."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and re.fullmatch(
            r"(numba|llvmlite|nvmath|cudnn)(\.\w+)+", str(node.value)
        ):
            names.add(node.value)
    return names


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("numba.cuda", "kernels"),
        ("cuda", "runtime"),
        ("nvmath", "runtime"),
        ("cudnn", "runtime"),
        ("mpi4py", "runtime"),
        ("nccl", "runtime"),
    ],
)
def test_sole_importer(module: str, room: str) -> None:
    users = {
        relative(path)
        for path in SOURCES
        if any(name == module or name.startswith(module + ".") for name in imported(path))
    }
    assert users, f"nothing imports {module}: is this test still right?"
    assert {user for user in users if not user.startswith(f"cudamath/{room}/")} == set()


def declared() -> set[str]:
    """Names of all requirements in setup.cfg, as modules would be called."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = (
        config["options"]["install_requires"]
        + "\n"
        + "\n".join(config["options.extras_require"].values())
    )
    return {
        re.split(r"[<>=\[;~! ]", line)[0].replace("-", "_").lower()
        for line in lines.split("\n")
        if line and not line.startswith("#")
    }


MODULES = {
    "llvmlite": "numba",
    "sklearn": "scikit_learn",
    "cuda": "cuda_python",
    "nvmath": "nvmath_python",
    "cudnn": "nvidia_cudnn_frontend",
    "nccl": "nccl4py",
}  # module -> what brings it, where the names differ
#: What is no module: libraries, compilers, pytest's plugins, commands; and cuda-core, a part of
#: `cuda`.
NO_MODULES = {
    "cuda_core",
    "cuda_toolkit",
    "nvidia_nvjitlink",
    "nvidia_cudnn_cu13",
    "nvidia_nccl_cu13",
    "mpich",
    "pytest_timeout",
    "pytest_xdist",
    "ruff",
    "mypy",
    "import_linter",
    "jupyter",
    # of the site: named in docs/conf.py
    "sphinx",
    "pydata_sphinx_theme",
    "myst_nb",
}


def test_every_dependency_is_declared() -> None:
    wanted = {name.split(".")[0] for path in SOURCES for name in imported(path)} - set(
        sys.stdlib_module_names
    )
    missing = {
        name
        for name in wanted - {"cudamath", "benchmarks"}
        if MODULES.get(name, name) not in declared()
    }
    # Foreign arrays are recognised by their own libraries, which are there if such an array is.
    assert missing <= {"torch", "cupy", "jax", "dask"}


def test_every_declared_dependency_is_used() -> None:
    used = {name.split(".")[0] for path in ALL for name in imported(path)}
    used |= {
        name
        for path in ALL
        for name in re.findall(r"importorskip\(\"(\w+)", path.read_text(encoding="utf-8"))
    }
    assert declared() - {MODULES.get(name, name).lower() for name in used} - NO_MODULES == {
        "numba_cuda"
    }  # numba.cuda


def test_import_is_light() -> None:
    done = python("-c", "import sys, cudamath; print(*sorted(sys.modules))")
    assert done.returncode == 0, done.stderr
    heavy = re.compile(r"(numba|cuda|nvmath|torch|cupy|jax|matplotlib|sklearn|scipy|rich)(\.|$)")
    assert [name for name in done.stdout.split() if heavy.match(name)] == []


def test_modules_that_nothing_else_needs_are_imported_when_they_are_named() -> None:
    later = "data distributed emath fft lib math ml polynomial sparse special testing tree".split()
    code = (
        f"import sys, cudamath as cm; later = {later}\n"
        "print([name for name in later if f'cudamath.{name}' in sys.modules])\n"
        "print(set(later) <= set(dir(cm)), [name in vars(cm) for name in later].count(True))\n"
        "print(all(getattr(cm, name) is sys.modules[f'cudamath.{name}'] for name in later))\n"
        "import cudamath.fft; from cudamath import ml, data\n"
        "print(ml is cm.ml, cm.fft.fft(a=[1.0, 2.0]).tolist())\n"
        "try: cm.no_such_name\n"
        "except AttributeError as error: print(error)"
    )
    assert python("-c", code).stdout.splitlines() == [
        "[]",
        "True 0",
        "True",
        "True [(3+0j), (-1+0j)]",
        "module 'cudamath' has no attribute 'no_such_name'",
    ]


def test_ops_of_modules_that_are_not_loaded_yet_are_found_by_name() -> None:
    code = (
        "import sys, cudamath as cm; from cudamath.core.dispatch.op import registry\n"
        "print('cudamath.ml' in sys.modules, 'softmax' in registry)\n"
        "print(registry['softmax'].name, registry['fft_c2c'].name)\n"
        "try: registry['no_such_op']\n"
        "except KeyError as error: print(error)"
    )
    assert python("-c", code).stdout.splitlines() == [
        "False False",
        "softmax fft_c2c",
        "'no_such_op'",
    ]


def test_a_profile_leaves_nothing_in_modules_that_were_loaded_in_it() -> None:
    code = (
        "import cudamath as cm; from cudamath.core.dispatch.op import registry\n"
        "with cm.device('cpu'), cm.cuda.profile() as report: cm.ml.softmax(cm.ones(3))\n"
        "print('softmax' in str(report), len(registry['softmax'].plans))"
    )
    assert python("-c", code).stdout.splitlines() == ["True 0"]


def test_import_is_quick(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Processor time, because what other processes do meanwhile is no cost of the import; beside
    # NumPy's own (1.8 to 2.0 of it), because a host whose cores are shared takes up to twice as
    # long for either: 0.07 and 0.14 s, 0.11 and 0.20 were seen on one.
    code = (
        "import time; start = time.process_time(); import numpy; middle = time.process_time()\n"
        "import cudamath; print(middle - start, time.process_time() - middle)"
    )
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    python("-c", code)  # byte-compiles
    alone = {"OPENBLAS_NUM_THREADS": "1"}  # NumPy's would start threads, which takes time, too
    runs = [tuple(map(float, python("-c", code, **alone).stdout.split())) for _ in range(8)]
    of_numpy, ours = map(min, zip(*runs, strict=True))
    assert ours <= 2.4 * of_numpy, runs


def test_version_is_the_installed_one() -> None:
    import importlib.metadata

    import cudamath

    assert re.fullmatch(r"\d+\.\d+\.\d+.*", cudamath.__version__)
    try:
        installed = importlib.metadata.distribution("cudamath")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("run from the tree, not installed")
    origin = json.loads(installed.read_text("direct_url.json") or "{}").get("url", "")
    if origin.startswith("file:") and origin != ROOT.as_uri():
        pytest.skip(f"another tree is installed: {origin}")
    assert installed.version == cudamath.__version__


def test_info_names_every_library_and_what_brings_it() -> None:
    done = python("-m", "cudamath", "info", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert re.match(r"Ready on (cpu|cuda:0), .+\n", done.stdout)
    for word in (
        "driver",
        "NVVM",
        "NVRTC",
        "nvJitLink",
        "cuBLAS",
        "cuDNN",
        "kernel cache",
        "CUDA_PATH",
        "CUDNN_PATH",
    ):
        assert word in done.stdout
    import cudamath as cm
    from cudamath.info import EXTRAS, VARIABLES, version

    assert all(name in done.stdout for name in (*EXTRAS, *VARIABLES))
    for package, extra in EXTRAS.items():
        assert version(package) is not None or f"cudamath[{extra}]" in done.stdout
    if cm.cuda.device_count() == 0:
        assert "not found" in done.stdout and "Brought by an NVIDIA driver" in " ".join(
            done.stdout.replace("│", "").split()
        )
    lost = python(
        "-c",
        "import cuda.pathfinder as finder\n"
        "def nowhere(name): raise RuntimeError(f'Failure finding \"{name}\"')\n"
        "finder.load_nvidia_dynamic_lib = nowhere\n"
        "from cudamath.runtime.library_paths import find\n"
        "print(find('cublasLt'))",
    )
    assert "cudamath[cu13]" in lost.stdout and "no cublasLt" in lost.stdout, lost.stderr


def test_every_setting_is_documented() -> None:
    """The page of commands and `info` name what the package reads from the environment."""
    from cudamath.info import VARIABLES

    read = {
        name
        for path in SOURCES
        for name in re.findall(r"CUDAMATH_[A-Z_]+", path.read_text(encoding="utf-8"))
    }
    page = (ROOT / "docs" / "guide" / "commands.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(CUDA\w*|CUDNN_PATH)(?:=1)?`", page))
    assert read <= set(VARIABLES) and set(VARIABLES) - {"CUDA_VISIBLE_DEVICES"} <= listed


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_info_of_a_device_that_is_not_there(device: str) -> None:
    done = python("-m", "cudamath", "info", CUDAMATH_DEVICE=device, COLUMNS="200")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    verdict = done.stdout.splitlines()[0]
    assert verdict.startswith("Not ready: device: ") and device in verdict
    assert "CUDAMATH_DEVICE" in done.stdout and "kernel cache" in done.stdout


def test_info_honours_cudnn_path(tmp_path: pathlib.Path) -> None:
    done = python(
        "-c",
        "from cudamath.runtime.library_paths import find; print(find('cudnn'))",
        CUDNN_PATH=str(tmp_path),
    )
    if "path=None" in done.stdout:
        assert str(tmp_path) in done.stdout  # said where it was looked for
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcudnn.so.9").write_bytes(b"not a library")
    done = python(
        "-c",
        "from cudamath.runtime.library_paths import find; print(find('cudnn'))",
        CUDNN_PATH=str(tmp_path),
    )
    assert (
        str(tmp_path / "lib" / "libcudnn.so.9") in done.stdout and "cannot be used" in done.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("demo", "--device", "gpu"), "'gpu' is not a device"),
        (("demo", "--device", "cuda:99"), "cuda:99"),
        (("demo", "--device", "cpu", "--epochs", "0"), "epochs must be at least 1, got 0"),
        (("bench", "no_such_row"), "no_such_row"),
        (("nonsense",), "invalid choice"),
        (("tune", "large"), "tune: wants sizes like 4096x4096x4096"),
        (("tune", "--device", "cpu"), "tune: only a GPU"),
        (("train", "gpt2", "--text", os.devnull), "not a regular file"),
        (
            ("train", "gpt2", "--text", __file__, "--every", "0"),
            "train: every must be at least 1, got 0",
        ),
        (
            ("train", "gpt2", "--text", __file__, "--out", "nowhere/a.safetensors"),
            "there is no folder",
        ),
        (("bench", "host_add", "--json", "nowhere/a.json"), "there is no folder"),
        (("bench", "host_add", "--warmup", "-1"), "warmup must be at least 0, got -1.0"),
        (("demo", "--json", "nowhere/a.json"), "there is no folder"),
        (("demo", "--json", "."), "it is a folder"),
    ],
)
def test_wrong_use_is_explained(arguments: tuple[str, ...], words: str) -> None:
    done = python("-m", "cudamath", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_bench_verifies_charts_and_saves(tmp_path: pathlib.Path) -> None:
    import json

    out = tmp_path / "out"
    asked = (
        "bench",
        "host_add",
        "host_sum",
        "--verify",
        "--iterations",
        "3",
        "--warmup",
        "0.01",
        "--plots",
        "--save",
        str(out),
    )
    done = python("-m", "cudamath", *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((out / "rows.json").read_text())
    assert [row["name"] for row in rows] == ["host_add", "host_sum"]
    assert all(0 <= row["results"]["numpy"]["error"] < 1e-5 for row in rows)
    assert (
        "2 rows measured" in (out / "summary.txt").read_text() and "geometric mean" in done.stdout
    )
    assert (out / "rows-1.png").read_bytes().startswith(b"\x89PNG")


def test_bench_short_form(tmp_path: pathlib.Path) -> None:
    import json

    figures, picture = tmp_path / "figures.json", tmp_path / "chart.png"
    done = python(
        "-m", "cudamath", "bench", "host_add", "--json", str(figures), "--plot", str(picture)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(figures.read_text())
    assert row["name"] == "host_add" and 0 < row["results"]["cudamath"]["median"] < 1e-3
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_places_that_name_the_version_agree() -> None:
    def text(name: str) -> str:
        return (ROOT / name).read_text(encoding="utf-8")

    newest = re.search(r"^## (\S+) \((\S+)\)$", text("CHANGELOG.md"), re.M)
    cited = re.search(r"^version: (\S+)\ndate-released: (\S+)$", text("CITATION.cff"), re.M)
    assert newest and cited and newest.groups() == cited.groups()
    done = python("-m", "cudamath", "--version")
    assert done.stdout == f"cudamath {newest[1]}\n"


PUBLIC_MODULES = (
    "cuda data distributed emath fft lib linalg math ml ml.amp ml.init ml.schedules polynomial "
    "random sparse sparse.csgraph sparse.linalg special testing tree"
).split()


@pytest.mark.parametrize("name", ["", *PUBLIC_MODULES])
def test_dir_shows_public_names_alone(name: str) -> None:
    """Neither the modules that a public module needs itself, nor typing's names."""
    import cudamath

    space = functools.reduce(getattr, name.split(".") if name else [], cudamath)
    shown = {each for each in dir(space) if not each.startswith("_")}
    hidden = {"ArrayLike", "DTypeLike", "DeviceLike", "Any", "annotations", "public_dir", "np"}
    assert shown and not shown & hidden
    for each in shown:
        value = getattr(space, each)
        if inspect.ismodule(value):
            full = f"{name}.{each}".lstrip(".")
            assert full in PUBLIC_MODULES or name in ("lib", "polynomial") or each == "exceptions"
    promised = set(getattr(space, "__all__", ())) or {
        each for each, value in vars(space).items() if inspect.isfunction(value)
    }
    assert {each for each in promised if not each.startswith("_")} <= shown


def test_a_python_without_numba_is_refused_with_the_reason() -> None:
    code = (
        "import sys; sys.version_info = (3, 15, 0, 'final', 0); sys.version = '3.15.0 (main)'\n"
        "try: import cudamath\n"
        "except ImportError as error: print(error)"
    )
    said = python("-c", code).stdout
    assert "3.11 to 3.14" in said and "this is 3.15.0" in said and "Numba" in said


#: Contexts that change nothing which an interrupt (Ctrl-C) could leave changed: file -> names.
STATELESS = {
    "cudamath/numpy_files.py": {"Archive"},
    "cudamath/data.py": {"Batches"},  # closed once more when it is garbage
    "cudamath/runtime/interrupts.py": {"interrupts_first"},
    "cudamath/runtime/background_init.py": {"busy"},
    "cudamath/warm_up.py": {"progress"},
    "cudamath/cpu/lib/llvm_functions.py": {"without_lock"},
    "cudamath/custom.py": {"_compiling"},
    "cudamath/kernels/compiler/shortcuts.py": {"Context"},  # adds words to an error
}


def contexts_that_an_interrupt_tears(source: str) -> set[str]:
    """Names of classes whose `__exit__` may end before its first line, and of generators that
    contextlib makes contexts of (cudamath/runtime/interrupts.py)."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        for function in getattr(node, "body", []) if isinstance(node, ast.ClassDef) else []:
            if isinstance(function, ast.FunctionDef) and function.name == "__exit__":
                if not any("uninterrupted" in ast.unparse(d) for d in function.decorator_list):
                    found.add(node.name)
        if isinstance(node, ast.FunctionDef):
            if any("contextmanager" in ast.unparse(d) for d in node.decorator_list):
                found.add(node.name)
    return found


def test_contexts_are_left_whatever_interrupts_them():
    found = {
        relative(path): contexts
        for path in SOURCES
        if (contexts := contexts_that_an_interrupt_tears(path.read_text(encoding="utf-8")))
    }
    assert found == STATELESS
    torn = "class A:\n def __exit__(self): ...\n@contextlib.contextmanager\ndef b(): yield\n"
    assert contexts_that_an_interrupt_tears(torn) == {"A", "b"}
