"""What a function finds in Python, besides its arguments: global variables, closures, defaults, the
attributes of objects, what lists and dicts hold.

A program does not run the Python code again. So `jit` looks at all this when it traces a function:
what the function itself changed is an error; what has changed by the time of a later call means
that the function is traced anew. Arrays of cudamath are looked at as objects, since a program reads
their elements at each call.

The code of the function, and of the user's functions that it can reach, says which names it reads.
"""

from __future__ import annotations

import builtins
import collections
import dis
import functools
import itertools
import random
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.fast_path import exact
from ..runtime.errors import is_our_file

MANY = (
    1000  # elements of a list or dict that are looked at; of longer ones the number, and both ends
)
DEEP = 8  # objects inside of objects
_ABSENT = object()
#: Classes of values that are looked at by value.
PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib")})

#: Functions whose result is another one at each call, by module and name.
CLOCKS = {
    "time": {"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "process_time"},
    "datetime": {"now", "utcnow", "today"},
    "uuid": {"uuid1", "uuid4"},
    "secrets": {"token_bytes", "token_hex", "randbelow", "choice"},
    "os": {"urandom", "getrandom"},
    "builtins": {"input"},
}


class Reads(NamedTuple):
    """What a piece of code, and what it defines, refers to.

    Attributes
    ----------
    variables : tuple of str
        Global variables that it reads or binds.
    attributes : frozenset of str
        Names of attributes and methods.
    lines : dict
        Name -> the line where it is bound or changed, otherwise read.
    """

    variables: tuple[str, ...]
    attributes: frozenset[str]
    lines: dict[str, int]


@functools.lru_cache(4096)
def reads_of(code: types.CodeType) -> Reads:
    """What code refers to."""
    variables: dict[str, None] = {}
    attributes: set[str] = set()
    lines: dict[str, int] = {}
    bound: dict[str, int] = {}
    line = code.co_firstlineno
    for one in dis.get_instructions(code):
        line = getattr(one.positions, "lineno", None) or line
        name, how = one.argval, one.opname
        if not isinstance(name, str):
            continue
        if how in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
            variables[name] = None
        elif "ATTR" in how or "METHOD" in how:
            attributes.add(name)
        elif "DEREF" not in how:
            continue
        (bound if how.startswith(("STORE", "DELETE")) else lines).setdefault(name, line)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more = reads_of(inner)
            variables |= dict.fromkeys(more.variables)
            attributes |= more.attributes
            lines = {**more.lines, **lines}
    return Reads(tuple(variables), frozenset(attributes), {**lines, **bound})


class Same:
    """An object that is looked at as such: equal to itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


class _Root(NamedTuple):
    """A variable: its name, how to read it, and the function that uses it."""

    name: str
    read: Callable[[], Any]
    user: types.FunctionType


class HiddenState:
    """What a function finds in Python.

    Parameters
    ----------
    function : callable
        The function.
    objects : sequence
        Arguments that are neither arrays nor plain values: their attributes count too.
    """

    def __init__(self, function: Callable, objects: tuple = ()):
        objects = (*_bound(function), *objects)
        self.roots: dict[tuple, _Root] = {}
        self.attributes: set[str] = set()
        self.functions: dict[types.CodeType, types.FunctionType] = {}
        self.seen: dict[int, Any] = {}  # id -> object, which it keeps alive
        size = -1
        while size != len(self.attributes) + len(self.seen):  # new names show new methods
            size = len(self.attributes) + len(self.seen)
            self._visited: set[int] = set()
            self._visit(function, 0)
            for x in objects:
                self._visit(x, 0)
        self.objects = objects
        self.before = self.look()
        values = [(root.read, root.read()) for root in self.roots.values()]
        #: Variables whose value is looked at as an object, or does not change; and the others.
        self.fixed = [(read, x) for read, x in values if _is_fixed(x)]
        self.moving = [(read, _shown(self, x)) for read, x in values if not _is_fixed(x)]
        self.held = [(x, _shown(self, x)) for x in objects if not _is_fixed(x)]

    def unchanged(self) -> bool:
        """Whether it finds what it found before; what draws numbers may have gone on."""
        for read, value in self.fixed:
            if read() is not value:
                return self.difference() is None
        return all([_shown(self, read()) == shown for read, shown in self.moving]) and all(
            [_shown(self, x) == shown for x, shown in self.held]
        )

    def look(self) -> list[Any]:
        """What it finds now, to be compared."""
        found = [_shown(self, root.read()) for root in self.roots.values()]
        return found + [_shown(self, x) for x in self.objects]

    def difference(self) -> tuple[str, str] | None:
        """What has changed since `before`: the name, and the line that uses it; None if nothing
        has."""
        now = self.look()
        if now == self.before:
            return None
        names = [root.name for root in self.roots.values()]
        names += [type(x).__name__ for x in self.objects]
        roots: list[_Root | None] = [*self.roots.values(), *[None] * len(self.objects)]
        for name, root, a, b in zip(names, roots, self.before, now, strict=True):
            if a != b:
                path = _path(name, a, b)
                return path, self._line(path, root)
        return None

    def clock(self) -> tuple[str, str] | None:
        """A function that it may call whose result is another one at each call: its name, and the
        line."""
        for code, function in self.functions.items():
            reads = reads_of(code)
            for name in reads.variables:
                value = function.__globals__.get(name, getattr(builtins, name, None))
                for module, names in CLOCKS.items():
                    of_module = getattr(value, "__module__", None) == module
                    called = getattr(value, "__name__", None)
                    if called == module:
                        used = sorted(names & reads.attributes)
                    elif of_module and called in names:
                        used = [called]
                    elif of_module and isinstance(value, type):  # datetime.datetime
                        used = sorted(names & reads.attributes)
                    else:
                        continue
                    if used:
                        line = reads.lines.get(used[0], reads.lines.get(name, code.co_firstlineno))
                        return f"{module}.{used[0]}", f"{code.co_filename}:{line}"
        return None

    # -------------------- which variables

    def _visit(self, x: Any, depth: int) -> None:
        """Find the functions and variables that an object leads to."""
        if isinstance(x, (*PLAIN, ndarray, np.ndarray)) or depth > DEEP or id(x) in self._visited:
            return
        self._visited.add(id(x))
        self.seen[id(x)] = x
        if isinstance(x, types.MethodType):
            self._visit(x.__func__, depth)
            self._visit(x.__self__, depth)
        elif isinstance(x, types.FunctionType):
            self._function(x, depth)
        elif isinstance(x, functools.partial):
            for part in (x.func, *x.args, *x.keywords.values()):
                self._visit(part, depth + 1)
        elif isinstance(x, types.ModuleType):
            if is_users(getattr(x, "__file__", None)):
                for name in [*x.__dict__]:
                    if name in self.attributes:
                        self._root(f"{x.__name__}.{name}", x.__dict__, name, None, depth)
        elif isinstance(x, type):
            if _is_users_class(x):
                for name in (*self.attributes, "__init__"):
                    self._visit(x.__dict__.get(name), depth + 1)
        else:
            wrapped = getattr(x, "__wrapped__", None)  # what decorators leave
            if isinstance(wrapped, types.FunctionType):
                self._visit(wrapped, depth + 1)
            for part in _parts(x):
                self._visit(part, depth + 1)
            if _is_users_class(type(x)):
                for _, value in self.attributes_of(x):
                    self._visit(value, depth + 1)
                for name in (*self.attributes, "__call__"):
                    self._visit(_of_class(type(x), name), depth + 1)

    def _function(self, function: types.FunctionType, depth: int) -> None:
        code = function.__code__
        if not is_users(code.co_filename):
            return
        self.functions[code] = function
        reads = reads_of(code)
        self.attributes |= reads.attributes
        for name in reads.variables:
            if name in function.__globals__ or not hasattr(builtins, name):
                self._root(name, function.__globals__, name, function, depth)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._root(name, cell, None, function, depth)
        for k, value in enumerate(function.__defaults__ or ()):
            name = code.co_varnames[code.co_argcount - len(function.__defaults__ or ()) + k]
            if not isinstance(value, PLAIN):
                self._root(f"the default of {name}", function.__defaults__, k, function, depth)
        for name in function.__kwdefaults__ or ():
            self._root(f"the default of {name}", function.__kwdefaults__, name, function, depth)

    def _root(self, name: str, where: Any, key: Any, user: Any, depth: int) -> None:
        """Note a variable, and visit its value."""
        if isinstance(where, types.CellType):
            read = functools.partial(_cell, where)
        elif isinstance(where, dict):
            read = functools.partial(where.get, key, _ABSENT)
        else:
            read = functools.partial(where.__getitem__, key)
        self.roots.setdefault((id(where), key), _Root(name, read, user))
        self.seen[id(where)] = where
        self._visit(read(), depth + 1)

    def attributes_of(self, x: Any) -> Iterator[tuple[str, Any]]:
        """The attributes of an object that the code names."""
        own = getattr(x, "__dict__", None)
        if isinstance(own, dict):
            for name in [*own]:
                if name in self.attributes:
                    yield name, own[name]
        for kind in type(x).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name in self.attributes and hasattr(x, name):
                    yield name, getattr(x, name)

    def _line(self, path: str, root: _Root | None) -> str:
        """The line that uses a variable, or an attribute of it."""
        words = path.replace("[", ".").split(".")
        codes = [*self.functions]
        if root is not None and root.user is not None:
            codes = [root.user.__code__, *codes]
        for word in reversed(words):
            for code in codes:
                line = reads_of(code).lines.get(word)
                if line is not None:
                    return f"{code.co_filename}:{line}"
        code = codes[0]
        return f"{code.co_filename}:{code.co_firstlineno}"


def _bound(function: Any) -> list[Any]:
    """The objects that a callable brings along: that of a method, what a partial function holds, an
    object that can be called."""
    if isinstance(function, types.MethodType):
        return [function.__self__, *_bound(function.__func__)]
    if isinstance(function, functools.partial):
        parts = (*function.args, *function.keywords.values())
        return [*[x for x in parts if not isinstance(x, PLAIN)], *_bound(function.func)]
    return [] if isinstance(function, (types.FunctionType, type)) else [function]


# -------------------- what they hold


def _is_fixed(x: Any) -> bool:
    """Whether a value is compared as an object."""
    if isinstance(x, types.FunctionType):
        return not x.__dict__
    return isinstance(x, (*PLAIN, ndarray, *_OBJECTS)) or not _is_open(x)


def _is_open(x: Any) -> bool:
    """Whether what a value holds is looked at."""
    return isinstance(x, (np.ndarray, *_HOLDERS, *_drawing())) or _is_users_class(type(x))


def _shown(state: HiddenState, x: Any, depth: int = 0) -> Any:
    """A value as something to compare: plain values by value, containers and the user's objects by
    what they hold, all else as an object."""
    if isinstance(x, PLAIN):
        return exact(x)
    if isinstance(x, types.FunctionType) and depth <= DEEP:
        return Same(x), {k: _shown(state, y, depth + 1) for k, y in state.attributes_of(x)}
    if isinstance(x, (ndarray, *_OBJECTS)) or depth > DEEP:
        return Same(x)
    if isinstance(x, np.ndarray):
        return "array", x.dtype, x.shape, x.tobytes()
    if isinstance(x, _drawing()):
        return Same(x), _position(x)
    if isinstance(x, dict):
        items = x.items() if len(x) <= MANY else ()
        return type(x), len(x), {_key(k): _shown(state, v, depth + 1) for k, v in items}
    if isinstance(x, (set, frozenset)):
        return type(x), len(x), set(map(_key, x)) if len(x) <= MANY else None
    if isinstance(x, _HOLDERS):
        some: Any = x if len(x) <= MANY else (x[0], x[-1])  # type: ignore[index]
        return type(x), len(x), [_shown(state, y, depth + 1) for y in some]
    if _is_users_class(type(x)):
        held = {name: _shown(state, y, depth + 1) for name, y in state.attributes_of(x)}
        return Same(x), held
    return Same(x)


_HOLDERS = (list, tuple, collections.deque, dict, set, frozenset)
_OBJECTS = (types.FunctionType, types.ModuleType, types.MethodType, type)


@functools.cache
def _drawing() -> tuple[type, ...]:
    """Classes whose objects give another value at each call. (NumPy imports its `random` when it is
    named.)"""
    numpys = np.random.Generator, np.random.RandomState
    return random.Random, *numpys, itertools.count, types.GeneratorType


def _position(x: Any) -> Any:
    """Where something stands that gives another value at each call."""
    if isinstance(x, random.Random):
        return x.getstate()
    if isinstance(x, np.random.Generator):
        return repr(x.bit_generator.state)
    if isinstance(x, np.random.RandomState):
        return repr(x.get_state())
    if isinstance(x, types.GeneratorType):
        return x.gi_frame and x.gi_frame.f_lasti
    return repr(x)


def host_randoms() -> tuple:
    """Where the generators of `random` and `numpy.random` stand."""
    return random.getstate(), _position(np.random.mtrand._rand)


def _path(name: str, a: Any, b: Any) -> str:
    """Where two shown values differ."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and a[:-1] == b[:-1]:
        return _path(name, a[-1], b[-1])
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a:
            if key in b and a[key] != b[key]:
                field = key if isinstance(key, str) and key.isidentifier() else None
                return _path(f"{name}.{field}" if field else f"{name}[{key!r}]", a[key], b[key])
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y:
                return _path(f"{name}[{k}]", x, y)
    return name


def _key(key: Any) -> Any:
    """A key of a dict, as a key."""
    return key if isinstance(key, PLAIN) else id(key)


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return _ABSENT


def _parts(x: Any) -> list[Any]:
    """What a container holds."""
    if isinstance(x, (list, tuple, set, frozenset, collections.deque)):
        return [*x] if len(x) <= MANY else []
    if isinstance(x, dict):
        return [*x.values()] if len(x) <= MANY else []
    return []


def _of_class(kind: type, name: str) -> Any:
    """A function of a class: a method, or that of a property."""
    for base in kind.__mro__:
        found = base.__dict__.get(name)
        if found is not None:
            found = found.fget if isinstance(found, property) else found
            return getattr(found, "__func__", found)  # of static and class methods
    return None


@functools.lru_cache(4096)
def is_users(file: str | None) -> bool:
    """Whether a file is the user's: neither of this package nor of Python's or other libraries."""
    if file is None or is_our_file(file):
        return False
    return (
        "site-packages" not in file
        and "dist-packages" not in file
        and not file.startswith((*_LIBRARIES, "<frozen", "<string>", "<cudamath"))
    )


def _is_users_class(kind: type) -> bool:
    known = _classes.get(kind)
    if known is None:
        known = _classes[kind] = _of_users_module(kind)
    return known


_classes: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def _of_users_module(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    if kind.__module__ == "builtins" or module is None:
        return False
    if kind.__module__ == "__main__":
        return True
    return is_users(getattr(module, "__file__", None))
