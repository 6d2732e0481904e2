"""The key of a compiled kernel follows the device code it refers to, in whatever folder below
cudamath/kernels it lies: else an edited helper would leave machine code of its older version in
use, in silence."""

from __future__ import annotations

import ast
import importlib
import itertools
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cudamath import kernels
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import cache_key, lazy_numba
from cudamath.kernels.compiler import compile as compiler
from cudamath.runtime import kernel_packs

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")

FOLDERS = ("", "shelf0", "shelf0.shelf1", "shelf0.shelf1.shelf2")  # 0 to 3 folders deep
OLD, NEW = "value + 1", "value + 2"

#: How a kernel may refer to `advance` of the module `helper` in the package {place}.
USES = {
    "function of a module": """
        from {place} import helper
        @cuda.jit
        def kernel(x):
            x[0] = helper.advance(x[0])
    """,
    "function": """
        from {place}.helper import advance
        @cuda.jit
        def kernel(x):
            x[0] = advance(x[0])
    """,
    "function in a closure": """
        from {place}.helper import advance
        def factory(step):
            @cuda.jit
            def kernel(x):
                x[0] = step(x[0])
            return kernel
        kernel = factory(advance)
    """,
    "module in a closure": """
        def factory():
            from {place} import helper
            @cuda.jit
            def kernel(x):
                x[0] = helper.advance(x[0])
            return kernel
        kernel = factory()
    """,
    "function of a module of a package": """
        import {place}.helper
        import {place} as package
        @cuda.jit
        def kernel(x):
            x[0] = package.helper.advance(x[0])
    """,
    "helper of a helper": """
        from {middle} import middle
        @cuda.jit
        def kernel(x):
            x[0] = middle.twice(x[0])
    """,
    "helper of a function": """
        from {middle}.middle import twice
        @cuda.jit
        def kernel(x):
            x[0] = twice(x[0])
    """,
}

HELPER = """
    @cuda.jit(device=True)
    def advance(value):
        return {body}
"""
MIDDLE = """
    from {place} import helper
    @cuda.jit(device=True)
    def twice(value):
        return helper.advance(helper.advance(value))
"""
HEAD = f"""
from {lazy_numba.__name__} import cuda
"""


class Tree:
    """Folders of a temporary tree that Python takes for a part of cudamath.kernels."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        for folder in (*FOLDERS[1:], "kernel_here", "middle_here"):
            path = self.root.joinpath(*folder.split("."))
            path.mkdir()
            (path / "__init__.py").touch()

    def write(self, place: str, name: str, source: str) -> None:
        lines = [line[4:] for line in source.splitlines()]
        text = HEAD + "\n".join(lines)
        self.root.joinpath(*filter(None, place.split(".")), f"{name}.py").write_text(text)

    def fingerprint(self, use: str, depth: int, body: str) -> str:
        """Of the kernel that uses a helper with this body."""
        return cache_key.fingerprint(self.kernel(use, depth, body))

    def kernel(self, use: str, depth: int, body: str) -> Any:
        """The kernel that uses a helper with this body, all modules imported anew."""
        for helper in self.root.rglob("helper.py"):
            helper.unlink()
        forget()
        place = f"{kernels.__name__}.{FOLDERS[depth]}".rstrip(".")
        middle = f"{kernels.__name__}.middle_here"
        self.write(FOLDERS[depth], "helper", HELPER.format(body=body))
        self.write("middle_here", "middle", MIDDLE.format(place=place))
        source = USES[use].replace("\n    ", "\n").format(place=place, middle=middle)
        self.write("kernel_here", "kernel", source)
        importlib.invalidate_caches()
        module = importlib.import_module(f"{kernels.__name__}.kernel_here.kernel")
        return module.kernel


def forget() -> None:
    """Modules of the temporary tree that were imported."""
    here = ("shelf0", "kernel_here", "middle_here", "helper")
    for name in list(sys.modules):
        package, _, rest = name.partition(f"{kernels.__name__}.")
        if not package and rest.partition(".")[0] in here:
            del sys.modules[name]
    for name in here:
        vars(kernels).pop(name, None)


@pytest.fixture
def tree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    monkeypatch.setattr(kernels, "__path__", [*kernels.__path__, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # edits within a second, of equal length
    yield Tree(tmp_path)
    forget()


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("use", USES)
def test_an_edited_helper_is_another_kernel(tree: Tree, use: str, depth: int) -> None:
    before = tree.fingerprint(use, depth, OLD)
    assert tree.fingerprint(use, depth, OLD) == before
    assert tree.fingerprint(use, depth, NEW) != before


@pytest.fixture
def packed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable]:
    """packed(kernel) puts "machine code" of a kernel into the only pack; served(kernel) is what the
    loader then gives for one: b"packed", or b"compiled" anew."""
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", str(tmp_path))
    monkeypatch.setattr(compiler, "compile_now", lambda *_: (b"compiled", ""))
    x = Layout.new((9,), np.dtype("f4"), 0)

    def put(kernel: Any) -> None:
        key = cache_key.source_key(compiler.cache_key(kernel, [x], (9, 0, "a")))
        kernel_packs.write(tmp_path / "sm_90a.kernels", "sm_90a", {key: b"packed"})
        kernel_packs.packs.cache_clear()

    yield put, lambda kernel: compiler.compile_cubin(kernel, [x], (9, 0))
    kernel_packs.packs.cache_clear()


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("use", USES)
def test_a_packed_kernel_is_taken_only_for_the_same_sources(
    tree: Tree, packed: tuple[Callable, Callable], use: str, depth: int
) -> None:
    put, served = packed
    put(tree.kernel(use, depth, OLD))
    assert served(tree.kernel(use, depth, OLD)) == b"packed"
    assert served(tree.kernel(use, depth, NEW)) == b"compiled"
    assert served(tree.kernel(use, depth, OLD)) == b"packed"


def test_a_packed_kernel_is_not_taken_for_other_instructions_or_another_way_to_the_compilers(
    tree: Tree,
    packed: tuple[Callable, Callable],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put, served = packed
    kernel = tree.kernel("function", 0, OLD)
    put(kernel)
    for module in (*cache_key.ptx_sources(), pathlib.Path(compiler.__file__)):
        read = pathlib.Path.read_bytes
        with monkeypatch.context() as patch:
            changed = lambda self, m=module: read(self) + b" " * (self == m)  # noqa: E731
            patch.setattr(pathlib.Path, "read_bytes", changed)
            cache_key._shared_sources.cache_clear()
            assert served(kernel) == b"compiled", module
        cache_key._shared_sources.cache_clear()
    assert served(kernel) == b"packed"


def test_a_packed_kernel_serves_whichever_compilers_are_installed(
    tree: Tree, packed: tuple[Callable, Callable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is machine code already. What this machine compiles is kept apart by compiler."""
    put, served = packed
    kernel = tree.kernel("function", 0, OLD)
    x = Layout.new((9,), np.dtype("f4"), 0)
    put(kernel)
    key = compiler.cache_key(kernel, [x], (9, 0, "a"))
    monkeypatch.setattr(cache_key, "_toolchain", lambda: "numba=0.1")
    assert compiler.cache_key(kernel, [x], (9, 0, "a")) != key
    assert served(kernel) == b"packed"


@pytest.mark.parametrize("use", [use for use in USES if "package" not in use])
def test_a_helper_that_only_moves_leaves_the_kernel_as_it_was(tree: Tree, use: str) -> None:
    """Nobody compiles anew because a file went into another folder."""
    assert len({tree.fingerprint(use, depth, OLD) for depth in range(4)}) == 1


def test_the_package_is_known_wherever_the_compiler_lies() -> None:
    assert cache_key.KERNELS == kernels.__name__


def test_modules_that_share_device_code() -> None:
    def is_kit(name: str) -> bool:
        return cache_key._is_kit(type(sys)(name))

    root = kernels.__name__
    assert is_kit(f"{root}.hopper") and is_kit(f"{root}.lib.tma") and is_kit(f"{root}.a.b.c.tile")
    # Instructions are a part of every key already, with their text.
    for name in ("ptx", "ptx_mma", "ptx.sm80", "ptx.more.sm80"):
        assert not is_kit(f"{root}.{name}")
    assert is_kit(f"{root}.lib.ptx_words")  # not among them: see ptx_sources
    for name in ("numba.cuda", "cudamath.core.dispatch.plan", f"{root}_other.tile", "math"):
        assert not is_kit(name)


# ---------------------------------------------------------------- the text of instructions


@pytest.mark.parametrize(
    "files",
    [
        ("ptx.py", "ptx_mma.py"),
        ("ptx/__init__.py", "ptx/sm80.py"),
        ("ptx/__init__.py", "ptx/hopper/__init__.py", "ptx/hopper/sm90.py"),
    ],
)
def test_sources_of_instructions_are_found_in_every_layout(
    tmp_path: pathlib.Path, files: tuple[str, ...]
) -> None:
    for name in (*files, "build.py", "lib/__init__.py", "lib/tile.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.touch()
    assert [p.relative_to(tmp_path).as_posix() for p in cache_key.ptx_sources(tmp_path)] == sorted(
        files
    )


def test_no_sources_of_instructions_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "build.py").touch()
    with pytest.raises(FileNotFoundError, match="no sources of PTX instructions"):
        cache_key.ptx_sources(tmp_path)


def defines_intrinsics(path: pathlib.Path) -> bool:
    def is_intrinsic(node: ast.expr) -> bool:
        return ast.unparse(node).partition("(")[0].rpartition(".")[2] == "intrinsic"

    return any(
        (isinstance(node, ast.FunctionDef) and any(map(is_intrinsic, node.decorator_list)))
        or (isinstance(node, ast.Call) and is_intrinsic(node.func))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_every_intrinsic_is_part_of_a_key() -> None:
    """Those of the ptx files by their text; those of a kernel's own file by the code that generates
    them."""
    sources = set(cache_key.ptx_sources())
    root = pathlib.Path(kernels.__file__).parent
    defining = {p for p in root.rglob("*.py") if defines_intrinsics(p)}
    assert sources & defining
    for path in defining - sources:
        name = ".".join((kernels.__name__, *path.relative_to(root).with_suffix("").parts))
        members = vars(importlib.import_module(name)).values()
        made = {
            member.__name__: member
            for member in members
            if isinstance(getattr(member, "generator", None), Callable)
            and member.generator.__module__ == name
        }
        tree = ast.parse(path.read_text(encoding="utf-8"))
        written = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and any("intrinsic" in ast.unparse(mark) for mark in node.decorator_list)
        }
        assert written and written <= set(made), f"{path}: not in its kernels' keys"


def test_instructions_are_told_from_the_rest_in_one_way() -> None:
    """What `ptx_sources` reads is what `_is_kit` leaves out."""
    root, sources = pathlib.Path(kernels.__file__).parent, set(cache_key.ptx_sources())
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join((kernels.__name__, *parts)).removesuffix(".__init__")
        assert cache_key._is_kit(type(sys)(name)) != (path in sources), name


def test_a_function_that_has_run_has_the_same_key():
    """The interpreter replaces instructions of a function that runs often by special ones, and
    keeps notes between them."""

    def function(a, b):
        total = 0
        for i in range(len(a)):
            total += a[i] * b.real
        return total

    before = cache_key._code.__wrapped__(function.__code__)
    for _ in range(200):
        function([1, 2, 3], 2.0), function((1.0, 2), 3)
    assert cache_key._code.__wrapped__(function.__code__) == before
    changed = function.__code__.replace(co_consts=(None, 1))
    assert cache_key._code.__wrapped__(changed) != before


STEP = 1


def test_every_order_of_helpers_is_another_kernel() -> None:
    """Also of helpers that the kernel has called before: where `doubled` and `negated` were met, a
    third call told nothing of which it was, and abs(exp(x)) ran the machine code of -exp(x)."""

    def doubled(value):
        return value + value

    def negated(value):
        return -value

    def kernel_of(first, second, third, fourth):
        def kernel(x):
            x[0] = first(second(third(fourth(x[0]))))

        return kernel

    orders = list(itertools.product((doubled, negated), repeat=4))
    assert len({cache_key.fingerprint(kernel_of(*order)) for order in orders}) == len(orders)
    one = cache_key.fingerprint(kernel_of(*orders[5]))
    assert one == cache_key.fingerprint(kernel_of(*orders[5]))


def test_a_fingerprint_is_kept_only_where_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within `unchanging` it is computed once; after it, what has changed counts."""

    @lazy_numba.cuda.jit
    def kernel(x):  # type: ignore[no-untyped-def]
        x[0] = x[0] + STEP

    computed = []
    compute = cache_key._fingerprint
    monkeypatch.setattr(cache_key, "_fingerprint", lambda k: computed.append(k) or compute(k))
    old = cache_key.fingerprint(kernel)
    with cache_key.unchanging():
        assert [cache_key.fingerprint(kernel) for _ in range(3)] == [old] * 3
    assert len(computed) == 2
    monkeypatch.setitem(kernel.py_func.__globals__, "STEP", 2)
    new = cache_key.fingerprint(kernel)
    assert new != old
    with cache_key.unchanging():
        assert cache_key.fingerprint(kernel) == new
