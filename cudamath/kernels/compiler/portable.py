"""Kernels by value: as bytes, from which another process makes the same kernel.

Most kernels are closures of factories over dtypes, tile sizes and device functions, or come from
generated source. Pickle stores functions by name, and these have none. Here a function that cannot
be found by its name is stored as its code, with the values of its closure and of the globals that
it uses. The other process needs this package for it, and nothing of the user's: what a user's
function means by a module of theirs has no such form (`pickle.PicklingError`).
"""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import re
import sys
import types as python_types
from typing import Any

from ...core.layout import Layout
from . import lazy_numba
from .cache_key import _TOOLS, _names

_PACKAGE = __package__.partition(".")[0]
#: Numba's names in kernel files, which lazy_numba makes for each process.
_NAMES = {id(getattr(lazy_numba, name)): name for name in ("cuda", "types", "libdevice", "ir")}


def dumps(value: Any) -> bytes:
    """A value as bytes. `pickle.PicklingError`, TypeError or AttributeError for what has no such
    form."""
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def loads(data: bytes) -> Any:
    """The value of `dumps`, which this process or its parent must have written: as with any pickle,
    reading executes what is in it."""
    return pickle.loads(data)


#: A module of a family of kernels, in bytes: not of what the families share.
_FAMILY = re.compile(
    rf"{_PACKAGE}\.kernels\.(?!compiler|generated|lib|ptx)(\w+)\.".encode(),
)


def family(data: bytes) -> str:
    """The folder of the kernel whose bytes these are, as it names its module; "" where it has none:
    a user's, or one of generated source."""
    found = _FAMILY.search(data)
    return found[1].decode() if found else ""


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, python_types.FunctionType):
            if _is_importable(value):
                return NotImplemented
            return _attribute(value, value) or _function_parts(value)
        if isinstance(value, lazy_numba.StandIn):
            return _stand_in_parts(value)
        if isinstance(value, python_types.ModuleType):
            if value.__name__.partition(".")[0] not in _TOOLS:
                raise pickle.PicklingError(f"the module {value.__name__} is the user's")
            return importlib.import_module, (value.__name__,)
        if isinstance(value, Layout):
            return Layout.of, (value.shape, value.strides, value.dtype, value.device, value.aligned)
        if hasattr(value, "targetoptions") and hasattr(value, "py_func"):  # Numba's own dispatcher
            return lazy_numba.Kernel, (value.py_func, dict(value.targetoptions))
        if isinstance(value, type) and value.__module__.partition(".")[0] not in _TOOLS | {
            "builtins",
            "ml_dtypes",
        }:
            raise pickle.PicklingError(f"the class {value.__qualname__} is the user's")
        return NotImplemented


def _attribute(value: Any, function: python_types.FunctionType) -> tuple | None:
    """`value`, which a module of this package holds, as an attribute of it; function: what the
    module defines it by. What has a name stays one object, however many ways lead to it: keys
    depend on that."""
    if not _is_ours(function):
        return None
    module = sys.modules.get(function.__module__)
    names = vars(module).items() if module is not None else ()
    name = next((name for name, each in names if each is value), None)
    return None if name is None else (getattr, (module, name))


def _is_importable(function: python_types.FunctionType) -> bool:
    """Whether pickle finds a function of another library by its name."""
    module = function.__module__ or ""
    if _is_ours(function) or module.partition(".")[0] not in _TOOLS:
        return False
    found: Any = sys.modules.get(module)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _function_parts(function: python_types.FunctionType) -> tuple:
    """A function as (maker, arguments, state): what the state refers to may refer back to it."""
    module = _module_of(function)
    names = _names(function.__code__)
    used = {} if module else {n: v for n, v in function.__globals__.items() if n in names}
    state = (
        tuple(cell.cell_contents for cell in function.__closure__ or ()),
        function.__defaults__,
        function.__kwdefaults__,
        used,
    )
    arguments = (marshal.dumps(function.__code__), function.__name__, module)
    return _function, arguments, state, None, None, _complete


def _module_of(function: python_types.FunctionType) -> str | None:
    """The module of this package whose globals a function uses; None for a user's, and for
    generated source, which has globals of its own."""
    module = sys.modules.get(function.__module__) if _is_ours(function) else None
    if module is None or vars(module) is not function.__globals__:
        return None
    return function.__module__


def _is_ours(function: python_types.FunctionType) -> bool:
    """Whether a module of this package defines it."""
    return (function.__module__ or "").partition(".")[0] == _PACKAGE


def _function(code: bytes, name: str, module: str | None) -> python_types.FunctionType:
    made = marshal.loads(code)
    names = vars(importlib.import_module(module)) if module else {"__builtins__": __builtins__}
    cells = tuple(python_types.CellType() for _ in made.co_freevars)
    return python_types.FunctionType(made, names, name, None, cells)


def _complete(function: python_types.FunctionType, state: tuple) -> None:
    values, function.__defaults__, function.__kwdefaults__, used = state
    for cell, value in zip(function.__closure__ or (), values, strict=True):
        cell.cell_contents = value
    if used:
        function.__globals__.update(used)


def _stand_in_parts(value: lazy_numba.StandIn) -> tuple:
    if id(value) in _NAMES:
        return getattr, (lazy_numba, _NAMES[id(value)])
    generator = getattr(value, "generator", None)  # of an intrinsic
    function = generator or getattr(value, "py_func", None)
    if function is not None:
        if (named := _attribute(value, function)) is not None:
            return named
        if generator is not None:
            return lazy_numba.intrinsic, (generator,)
        return lazy_numba.Kernel, (function, value.targetoptions)
    for names in ("cuda", "types", "libdevice"):
        if vars(getattr(lazy_numba, names)).get(value.__name__) is value:
            return getattr, (getattr(lazy_numba, names), value.__name__)
    if value is lazy_numba.types.boolean:
        return getattr, (lazy_numba.types, "boolean")
    raise pickle.PicklingError(f"{value!r} has no name in another process")
