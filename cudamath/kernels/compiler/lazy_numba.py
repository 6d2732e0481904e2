"""Numba's names for kernel files, without importing Numba: `from .lazy_numba
import cuda, types`.

Importing numba.cuda takes longer than a first result should. Only compilation needs it, not the
description of a kernel nor the search for its machine code on the disk. So kernel files see
stand-ins: `@cuda.jit` keeps the function and its options, `types.float32` is a name, `@intrinsic`
keeps the function that generates its code. When a kernel is compiled, Numba asks each object it
meets for its type (the protocol `_numba_type_`), and each stand-in answers with the type of what it
stands for, which is made then. So nothing in a kernel file has to be replaced, and kernels read as
in Numba's documentation.

A kernel's stand-in can be launched as Numba's own, `kernel[grid, block](...)`. A type's stand-in
has a name and a width, and gives a NumPy scalar when it is called (`dtype_of`); any other attribute
of `types`, `cuda`, `ir` imports Numba. In Numba's simulator, which runs kernels as
Python, all names are Numba's own.
"""

from __future__ import annotations

import functools
import importlib
import numbers
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SIMULATOR", "cuda", "dtype_of", "intrinsic", "ir", "libdevice", "numba_cuda", "types"]

#: Whether kernels run in Numba's simulator.
SIMULATOR = bool(int(os.environ.get("NUMBA_ENABLE_CUDASIM") or 0))


@functools.cache
def numba_cuda() -> Any:
    """The module numba.cuda, imported now."""
    if not hasattr(np, "row_stack"):  # numba-cuda 0.30 names it at import; NumPy 2.5 dropped it
        np.row_stack = np.vstack  # type: ignore[attr-defined]
    with warnings.catch_warnings():  # NumPy 2.5 warns of what numba-cuda 0.30 does at import
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module("numba.cuda")
    warnings.filterwarnings(
        "ignore", category=importlib.import_module("numba.core.errors").NumbaPerformanceWarning
    )
    return module


def _import(name: str) -> Any:
    numba_cuda()
    return importlib.import_module(name)


def dtype_of(T: Any) -> np.dtype:
    """The NumPy dtype of a Numba number type or its stand-in."""
    return np.dtype(str(T))


class StandIn:
    """What Numba takes for `self.real` when it meets it in a kernel."""

    def __init__(self, name: str, make: Callable[[], Any]):
        self.__name__ = name
        self._make = make

    @functools.cached_property
    def real(self) -> Any:
        """Numba's own object."""
        return self._make()

    @property
    def _numba_type_(self) -> Any:
        return _typing_context().resolve_value_type(self.real)

    def __repr__(self) -> str:
        return self.__name__


def _typing_context() -> Any:
    return _import("numba.cuda.descriptor").cuda_target.typing_context


class Number(StandIn):
    """A number type. Called with a number it gives NumPy's scalar; with types, in an intrinsic, a
    signature."""

    def __init__(self, name: str):
        super().__init__(
            name, lambda: getattr(_import("numba.types"), "boolean" if name == "bool" else name)
        )
        self.name = name
        dtype = np.dtype(name)
        self.bitwidth, self.signed = 8 * dtype.itemsize, dtype.kind != "u"

    @property
    def underlying_float(self) -> Any:
        """The type of a complex number's parts. As Numba's own, other types have none."""
        if not self.name.startswith("complex"):
            raise AttributeError(f"{self.name} has no parts")
        return getattr(types, f"float{self.bitwidth // 2}")

    def __call__(self, *args: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], (numbers.Number, np.generic)):
            return bool(args[0]) if self.name == "bool" else getattr(np, self.name)(args[0])
        return self.real(*[a.real if isinstance(a, StandIn) else a for a in args])


class Kernel(StandIn):
    """A function under `@cuda.jit`: `py_func`, `targetoptions`, and launches `kernel[grid,
    block](...)`."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        super().__init__(function.__name__, lambda: numba_cuda().jit(**options)(function))
        self.py_func, self.targetoptions = function, options
        self.__doc__, self.__module__ = function.__doc__, function.__module__

    def __getitem__(self, configuration: Any) -> Any:
        return self.real[configuration]


class Module(StandIn):
    """A module, of which known attributes are stand-ins as well; others are imported."""

    def __init__(self, name: str, attributes: dict[str, Any]):
        super().__init__(name.rpartition(".")[2], lambda: _import(name))
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks of any object
            raise AttributeError(name)
        return getattr(self.real, name)


class Functions(Module):
    """A module of functions for kernels: each attribute is a stand-in."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self.__dict__[name] = StandIn(name, lambda: getattr(self.real, name))
        return found


def _jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`@cuda.jit` and `@cuda.jit(...)`."""
    return (
        functools.partial(Kernel, options=options)
        if function is None
        else Kernel(function, options)
    )


def _intrinsic(function: Callable[..., Any]) -> StandIn:
    """Numba's `@intrinsic` for kernels."""

    def make() -> Any:
        real = _import("numba.cuda.extending").intrinsic(function)
        _typing_context().refresh()  # else the compilation under way would not know it
        return real

    made = StandIn(function.__name__, make)
    made.__doc__, made.__module__, made.generator = function.__doc__, function.__module__, function
    return made


NUMBERS = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)

cuda: Any
types: Any
libdevice: Any
ir: Any
intrinsic: Any
if SIMULATOR:
    cuda, types = numba_cuda(), importlib.import_module("numba.types")
    intrinsic = importlib.import_module("numba.extending").intrinsic  # declared, never called there
    libdevice = ir = None  # the simulator has none
else:
    # functions that are handed to others before there is a kernel; within kernels Numba looks them
    # up itself
    shuffles = {
        name: StandIn(name, functools.partial(lambda name: getattr(numba_cuda(), name), name))
        for name in ("shfl_sync", "shfl_up_sync", "shfl_xor_sync")
    }
    cuda = Module("numba.cuda", {"jit": _jit, **shuffles})
    types = Module(
        "numba.types", {name: Number(name) for name in NUMBERS} | {"boolean": Number("bool")}
    )
    libdevice = Functions("numba.cuda.libdevice", {})
    ir = Module("llvmlite.ir", {})
    intrinsic = _intrinsic
