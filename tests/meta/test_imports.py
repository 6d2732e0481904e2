"""Who imports whom: no circles, and in runtime/ no import from an upper floor.

Every import statement of the package counts: at the top of a module, inside a function, under
TYPE_CHECKING, relative or absolute, and the strings that `importlib.import_module` is given. An
import of a package inside a function (`import cudamath as cm`) counts as an import of its
`__init__`.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re

import pytest

import cudamath

ROOT = pathlib.Path(cudamath.__file__).parent


def module_name(path: pathlib.Path) -> str:
    parts = (ROOT.name, *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def modules() -> dict[str, pathlib.Path]:
    return {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


class Imports(ast.NodeVisitor):
    """The modules of the package that one module imports."""

    def __init__(self, name: str, known: dict[str, pathlib.Path]):
        self.name, self.known = name, known
        is_package = known[name].name == "__init__.py"
        self.package = name if is_package else name.rpartition(".")[0]
        self.targets: set[str] = set()
        self.in_function = False
        self.visit(ast.parse(known[name].read_text(encoding="utf-8")))
        self.targets.discard(name)

    def add(self, target: str) -> None:
        """A dotted name: of a module, or of something in a module."""
        while target and target not in self.known:
            target = target.rpartition(".")[0]
        if target:
            self.targets.add(target)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, self.in_function = self.in_function, True
        self.generic_visit(node)
        self.in_function = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self.package.split(".")
            base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
        for alias in node.names:
            self.add(f"{base}.{alias.name}")
        if base == ROOT.name and self.in_function:
            self.add(base)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        called = (
            function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        )
        if called == "import_module":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    level = len(argument.value) - len(argument.value.lstrip("."))
                    parts = self.package.split(".")
                    base = parts[: len(parts) - level + 1] if level else []
                    self.add(".".join([*base, argument.value.lstrip(".")]))
        self.generic_visit(node)


@functools.cache
def imports() -> dict[str, set[str]]:
    """Module -> the modules that it imports."""
    known = modules()
    return {name: Imports(name, known).targets for name in known}


def components(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in graph[name]:
            if target not in order:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], order[target])
        if low[name] == order[name]:
            at = stack.index(name)
            component = set(stack[at:])
            del stack[at:]
            if len(component) > 1:
                found.append(component)

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return found


def within(package: str) -> dict[str, set[str]]:
    """The imports among the modules of a package."""
    prefix = f"{ROOT.name}.{package}"
    inside = {name for name in modules() if name == prefix or name.startswith(prefix + ".")}
    return {name: imports()[name] & inside for name in inside}


def test_there_are_no_circles():
    assert components(imports()) == []


def test_runtime_imports_from_lower_floors():
    """The floors are those of the docstring of runtime/__init__.py."""
    prefix = f"{ROOT.name}.runtime"
    text = ast.get_docstring(ast.parse(modules()[prefix].read_text(encoding="utf-8"))) or ""
    rows = re.findall(r"^ *(\d+)  ([\w.]+(?:, [\w.]+)*)$", text, re.M)
    floors = {f"{prefix}.{name}": int(number) for number, row in rows for name in row.split(", ")}
    assert set(floors) == set(within("runtime")) - {prefix}
    upward = [
        f"{name} -> {target}"
        for name in floors
        for target in imports()[name]
        if floors.get(target, len(floors)) >= floors[name]
    ]
    assert not upward


@pytest.mark.parametrize(
    ("statement", "target"),
    [
        ("from . import array", "cudamath.core.array"),
        ("from .array import ndarray", "cudamath.core.array"),
        ("from .. import fuse", "cudamath.fuse"),
        ("from ..runtime.stream import Stream", "cudamath.runtime.stream"),
        ("import cudamath.ops.shape", "cudamath.ops.shape"),
        ("from cudamath.ops import shape", "cudamath.ops.shape"),
        ("def f():\n    import cudamath as cm", "cudamath"),
        ("def f():\n    from .. import where", "cudamath"),
        ("def f():\n    from .array import ndarray", "cudamath.core.array"),
        ("if TYPE_CHECKING:\n    from .array import ndarray", "cudamath.core.array"),
        ("importlib.import_module('cudamath.ops.shape')", "cudamath.ops.shape"),
        ("import_module('..ops.shape', __package__)", "cudamath.ops.shape"),
    ],
)
def test_every_kind_of_import_counts(statement, target, tmp_path):
    path = tmp_path / "new.py"
    path.write_text(statement)
    known = {**modules(), "cudamath.core.new": path}
    assert target in Imports("cudamath.core.new", known).targets


def test_components():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert sorted(map(sorted, components(graph))) == [["b", "c"], ["e", "f"]]
