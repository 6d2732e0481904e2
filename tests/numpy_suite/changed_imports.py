"""Loads a test file of the installed NumPy or SciPy with its imports changed: what NumPy makes
public comes from cudamath, and so does what `scipy.fft`, `scipy.linalg`, `scipy.sparse` and
`scipy.special` do.

The rules, by which `import numpy as np` and `from numpy... import ...` are carried out instead:

1. An object that NumPy gives under a public name (`np.sum`, `np.linalg.inv`, `np.ndarray`) is what
   cudamath has under that name, also where a test takes it from a private module
   (`from numpy._core import sum`).
2. Where cudamath has no such name, a test gets the AttributeError that a program gets.
3. `numpy.testing` stays NumPy's (comparisons.py), as do private objects of NumPy's.

While files are loaded and tests collected, everything but tables (`np.typecodes`) is NumPy's, since
one array of objects in a list of parameters would take the whole file away. Before the first test,
`Change` replaces what was made: functions by rule 1, arrays of numbers by arrays of cudamath's on
the default device, in the file's globals, its classes and the parameters of its tests.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import operator
import pathlib
import sys
import types
from typing import Any

import comparisons
import numpy as np
import scipy.sparse
from _pytest.assertion.rewrite import rewrite_asserts

import cudamath as cm

PUBLIC = """numpy numpy.exceptions numpy.fft numpy.lib numpy.lib.array_utils numpy.lib.format numpy.lib.introspect
numpy.lib.npyio numpy.lib.scimath numpy.lib.stride_tricks numpy.linalg numpy.polynomial numpy.polynomial.chebyshev
numpy.polynomial.hermite numpy.polynomial.hermite_e numpy.polynomial.laguerre numpy.polynomial.legendre
numpy.polynomial.polynomial numpy.polynomial.polyutils numpy.random scipy.fft scipy.linalg
scipy.special scipy.sparse scipy.sparse.linalg scipy.sparse.csgraph""".split()  # noqa: E501
ROOTS = ("numpy", "scipy")
#: Public modules that cudamath lacks. What tests import from them by name stays NumPy's.
LACKING = "numpy.ma numpy.char numpy.strings numpy.rec numpy.dtypes numpy.ctypeslib".split()
MISSING = object()


def public_names() -> dict[int, str]:
    """The public name of each of NumPy's functions, classes and index objects, by identity."""
    names: dict[int, str] = {}
    for module in map(importlib.import_module, PUBLIC):
        for name in sorted(getattr(module, "__all__", [n for n in dir(module) if n[0] != "_"])):
            value = getattr(module, name)
            of_numpy = getattr(type(value), "__module__", "").startswith(ROOTS)
            if not isinstance(value, types.ModuleType) and (callable(value) or of_numpy):
                names.setdefault(id(value), f"{module.__name__}.{name}")
    return names


NAMES = public_names()


def replacement(path: str) -> Any:
    """What cudamath has under a public name of NumPy's, or MISSING."""
    value: Any = cm
    for name in path.split(".")[1:]:
        value = getattr(value, name, MISSING)
    return value


#: The public name of what cudamath has under it, by identity.
PATHS = {id(ours): path for path in NAMES.values() if callable(ours := replacement(path))}


class Absent:
    """A function that cudamath lacks, imported by name or in a list of parameters."""

    def __init__(self, path: str):
        self._path = path

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise AttributeError(f"cudamath has no {self._path}")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"cudamath has no {self._path}")

    def __bool__(self) -> bool:
        """An object of an absent class is none either: the test asks for its truth."""
        raise AttributeError(f"cudamath has no {self._path}")


class Module(types.ModuleType):
    """A module of NumPy's as a test sees it."""

    loading = True  # until the first test begins (of all modules)
    used: set[str] = set()  # the public names that the present test has asked for

    def __init__(self, name: str):
        super().__init__(name)
        self.__numpy__ = importlib.import_module(name)

    def __dir__(self) -> list[str]:
        return dir(self.__numpy__)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """For tests that look through a module for its functions."""
        names = [name for name in vars(self.__numpy__) if hasattr(self, name)]
        return {name: getattr(self, name) for name in names}

    def __getattr__(self, name: str) -> Any:
        module = object.__getattribute__(self, "__numpy__")
        path = f"{module.__name__}.{name}"
        try:
            theirs = getattr(module, name)
        except AttributeError:
            try:
                theirs = importlib.import_module(path)
            except ModuleNotFoundError:
                raise AttributeError(f"{path.partition('.')[0]} has no {path}") from None
        if isinstance(theirs, types.ModuleType):
            if path in LACKING and not Module.loading:
                raise AttributeError(f"cudamath has no {path}")
            return changed(theirs.__name__) if theirs.__name__.startswith(ROOTS) else theirs
        public = path if module.__name__ in PUBLIC else NAMES.get(id(theirs))
        if Module.loading:  # a table of dtypes is cudamath's, or tests get those it does not name
            ours = replacement(public) if type(theirs) is dict and public else MISSING
            return theirs if ours is MISSING else ours
        if public is not None:
            Module.used.add(public)
        if public is None:
            in_c = module.__name__.endswith("_tests") and isinstance(
                theirs, types.BuiltinFunctionType
            )
            return guarded(theirs) if in_c else theirs
        ours = replacement(public)
        if ours is MISSING:
            raise AttributeError(f"cudamath has no {public}")
        return ours


def guarded(function: Any) -> Any:
    """A function of NumPy's own C tests, which takes whatever it gets for one of NumPy's arrays."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, cm.ndarray) for x in args):
            raise TypeError(f"{function.__name__}: NumPy's C code reads arrays of NumPy's only")
        return function(*args, **kwargs)

    return call


@functools.cache
def changed(name: str) -> types.ModuleType:
    """The module of NumPy's of this name, as a test sees it."""
    if name == "numpy.testing":
        return comparisons.testing()
    if name in comparisons.OF_SCIPY:
        return comparisons.of_scipy(name)
    if name.startswith(("numpy.testing", *LACKING)):
        return importlib.import_module(name)
    return Module(name)


def imported(module: str, name: str) -> Any:
    """What `from module import name` gives a test."""
    if name in comparisons.REPLACED and module.startswith("numpy.testing"):
        return comparisons.REPLACED[name]
    try:
        return getattr(changed(module), name)
    except AttributeError as error:
        raise ImportError(str(error)) from None


class ImportChange(ast.NodeTransformer):
    """Replaces imports of NumPy by calls of the functions above."""

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        others = [alias for alias in node.names if alias.name.split(".")[0] not in ROOTS]
        statements: list[ast.stmt] = [ast.Import(others)] if others else []
        for alias in node.names:
            if alias not in others:
                root = alias.name.split(".")[0]
                name = alias.name if alias.asname else root
                source = f"{alias.asname or root} = __changed__({name!r})"
                statements += ast.parse(source).body
        return self._placed(statements, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.level or (node.module or "").split(".")[0] not in ROOTS:
            return node
        lines = [
            f"{alias.asname or alias.name} = __imported__({node.module!r}, {alias.name!r})"
            for alias in node.names
        ]
        return self._placed(ast.parse("\n".join(lines)).body, node)

    @staticmethod
    def _placed(statements: list[ast.stmt], node: ast.stmt) -> list[ast.stmt]:
        for statement in statements:
            for part in ast.walk(statement):
                ast.copy_location(part, node)
        return statements


def load(file: pathlib.Path) -> types.ModuleType:
    """The module of a test file below the installed NumPy or SciPy, its imports changed."""
    root = pathlib.Path(np.__file__).parents[1]
    below = (
        file.relative_to(root) if file.is_relative_to(root) else pathlib.Path("numpy", file.name)
    )
    name = ".".join(below.with_suffix("").parts)
    module = types.ModuleType(name)
    module.__file__, module.__package__ = str(file), name.rpartition(".")[0]
    module.__dict__.update(__changed__=changed, __imported__=imported)
    source = file.read_text(encoding="utf-8")
    tree = ast.fix_missing_locations(ImportChange().visit(ast.parse(source, str(file))))
    rewrite_asserts(tree, source.encode(), str(file))  # for texts that say what was not true
    sys.modules[name] = module  # pickle looks for classes there
    exec(compile(tree, str(file), "exec"), module.__dict__)
    return module


class Change:
    """Replaces what was made while files were loaded. An object that occurs twice is replaced by
    one object."""

    def __init__(self) -> None:
        self.done: dict[int, tuple[Any, Any]] = {}  # by identity: the old object, kept, and the new

    def value(self, x: Any) -> Any:
        """What takes the place of a value."""
        if id(x) not in self.done:
            self.done[id(x)] = x, x  # while it is being replaced
            self.done[id(x)] = x, self._new(x)
        return self.done[id(x)][1]

    def names(self, space: types.ModuleType | type) -> None:
        """Replace the values of a test file's globals, or of a class in it."""
        for name, value in list(vars(space).items()):
            if name.startswith("__"):
                continue
            new = self.value(value)
            if new is not value:
                # a built-in function that a class names is not a method of it, a function would be
                in_class = isinstance(space, type) and inspect.isfunction(new)
                setattr(space, name, staticmethod(new) if in_class else new)

    def _new(self, x: Any) -> Any:
        if isinstance(x, np.ndarray | np.generic):
            return self._array(x)
        if scipy.sparse.issparse(x):
            return self._sparse(x)
        if type(x) in (list, tuple, set, frozenset):
            return self._items(x)
        if type(x) is dict:
            new = {self.value(key): self.value(value) for key, value in x.items()}
            x.clear()
            x.update(new)
            return x
        if isinstance(x, functools.partial):
            keywords = {key: self.value(value) for key, value in x.keywords.items()}
            return functools.partial(self.value(x.func), *map(self.value, x.args), **keywords)
        return self._object(x)

    def _items(self, x: Any) -> Any:
        new = type(x)(map(self.value, x))
        if type(x) is not list:
            return new if any(map(operator.is_not, new, x)) else x
        x[:] = new  # others may have it
        return x

    @staticmethod
    def _array(x: Any) -> Any:
        if type(x) is not np.ndarray or x.dtype.kind not in "biufc" or x.dtype.itemsize > 16:
            return x
        try:
            return cm.asarray(x.copy("K"))
        except TypeError:  # long doubles
            return x

    @staticmethod
    def _sparse(x: Any) -> Any:
        """A sparse array of SciPy's as cudamath's class of the same name has it."""
        name = type(x).__name__
        ours = getattr(cm.sparse, name, None)
        if ours is None:
            return Absent(f"scipy.sparse.{name}")
        try:
            return ours(x)
        except TypeError:  # long doubles
            return x

    def _object(self, x: Any) -> Any:
        public = NAMES.get(id(x))
        of = getattr(x, "__self__", None)
        if public is not None and not (isinstance(x, type) and issubclass(x, np.generic)):
            ours = replacement(public)
            return Absent(public) if ours is MISSING else ours
        if isinstance(x, staticmethod):
            new = self.value(x.__func__)
            return x if new is x.__func__ else staticmethod(new)
        if isinstance(of, np.ufunc):
            return getattr(self.value(of), x.__name__)
        if getattr(x, "__objclass__", None) is np.ndarray:
            return getattr(cm.ndarray, x.__name__, Absent(f"ndarray.{x.__name__}"))
        module = sys.modules.get(getattr(x, "__module__", None) or "")
        if not hasattr(module, "__changed__"):  # of no test file
            return x
        if inspect.isfunction(x):
            if x.__defaults__:
                x.__defaults__ = tuple(map(self.value, x.__defaults__))
        elif isinstance(x, type):
            self.names(x)
        elif isinstance(getattr(x, "__dict__", None), dict):
            vars(x).update({key: self.value(value) for key, value in vars(x).items()})
        return x
