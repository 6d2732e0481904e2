"""Paths and versions of the CUDA libraries: driver, compilers, cuBLAS, cuSOLVER, cuFFT, cuSPARSE,
cuDNN.

The search follows cuda.pathfinder: pip packages, conda, the system's loader, then CUDA_PATH or
CUDA_HOME. cuDNN is searched below CUDNN_PATH first. Finding a library loads it. No CUDA context is
created.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import glob
import importlib
import importlib.util
import os
import pathlib
import re
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from . import fork


@dataclasses.dataclass(frozen=True)
class Library:
    """One library. If it is missing, `path` and `version` are None and `looked` says where the
    search was."""

    name: str
    purpose: str
    remedy: str  # what to install
    path: str | None
    version: str | None
    looked: str = ""

    @property
    def optional(self) -> bool:
        """Whether all functions work without it, if more slowly."""
        return self.name in ("cuDNN", "cuSPARSE")


def _by_property(prefix: str) -> Callable[[ctypes.CDLL], str]:
    """Version of a library that has <prefix>GetProperty(major | minor | patch, int *)."""

    def version(library: ctypes.CDLL) -> str:
        parts = []
        for kind in range(3):
            value = ctypes.c_int()
            getattr(library, prefix + "GetProperty")(kind, ctypes.byref(value))
            parts.append(str(value.value))
        return ".".join(parts)

    return version


def _by_pair(function: str) -> Callable[[ctypes.CDLL], str]:
    """Version of a library that has <function>(int *major, int *minor)."""

    def version(library: ctypes.CDLL) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        getattr(library, function)(ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    return version


def _by_number(function: str) -> Callable[[ctypes.CDLL], str]:
    """Version of a library that has <function>(int *), with 13010 for 13.1."""

    def version(library: ctypes.CDLL) -> str:
        value = ctypes.c_int()
        getattr(library, function)(ctypes.byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    return version


_DRIVER = "an NVIDIA driver (the 580 series or newer)"
_COMPILER = "pip install 'cudamath[cu13]', or a CUDA 13 toolkit named by CUDA_PATH"

# pathfinder's name -> (shown name, purpose, package to install, function that returns its version)
_LIBRARIES: dict[str, tuple[str, str, str, Callable[[ctypes.CDLL], str]]] = {
    "cuda": ("driver", "everything on the GPU", _DRIVER, _by_number("cuDriverGetVersion")),
    "nvvm": ("NVVM", "compiles kernels", _COMPILER, _by_pair("nvvmVersion")),
    "nvrtc": (
        "NVRTC",
        "compiles bfloat16 and float16 helpers",
        _COMPILER,
        _by_pair("nvrtcVersion"),
    ),
    "nvJitLink": ("nvJitLink", "links kernels", _COMPILER, _by_pair("nvJitLinkVersion")),
    "cudart": (
        "CUDA runtime",
        "loaded by the libraries",
        _COMPILER,
        _by_number("cudaRuntimeGetVersion"),
    ),
    "cublas": ("cuBLAS", "matrix products", _COMPILER, _by_property("cublas")),
    "cublasLt": ("cuBLASLt", "matrix products of float8", _COMPILER, _by_property("cublasLt")),
    "cusolver": ("cuSOLVER", "linear algebra", _COMPILER, _by_property("cusolver")),
    "cufft": ("cuFFT", "Fourier transforms", _COMPILER, _by_property("cufft")),
    "cusparse": ("cuSPARSE", "products of sparse arrays", _COMPILER, _by_property("cusparse")),
    "cudnn": (
        "cuDNN",
        "convolutions",
        "pip install 'cudamath[cudnn]', or a cuDNN 9 named by CUDNN_PATH",
        _by_property("cudnn"),
    ),
}

_FILE = {"cuda": "libcuda.so.1 or nvcuda.dll"}  # not named by pathfinder


def _below_cudnn_path() -> tuple[str | None, str]:
    """(cuDNN below CUDNN_PATH or None, the places that were searched)."""
    root = os.environ.get("CUDNN_PATH")
    if not root:
        return None, ""
    patterns = ["lib/libcudnn.so*", "lib64/libcudnn.so*", "lib/*/libcudnn.so*", "bin/cudnn64_*.dll"]
    files = [
        path
        for pattern in patterns
        for path in sorted(glob.glob(str(pathlib.Path(root) / pattern)))
    ]
    return (files[0] if files else None), f"CUDNN_PATH={root}: no {' or '.join(patterns)}"


def find(name: str) -> Library:
    """Look for one library.

    Args:
        name: pathfinder's name of it: "cuda" (the driver), "nvvm", "nvrtc", "nvJitLink", "cudart",
            "cublas", "cublasLt", "cusolver", "cufft", "cusparse" or "cudnn".

    Returns:
        a Library; its `path` is None if it was not found.

    Raises:
        KeyError: the name is none of these.

    >>> find("cuda").name
    'driver'
    """
    shown, purpose, remedy, ask = _LIBRARIES[name]
    path, looked = _below_cudnn_path() if name == "cudnn" else (None, "")
    if path is None:
        try:
            from cuda.pathfinder import load_nvidia_dynamic_lib
        except ImportError:
            return Library(
                shown, purpose, "pip install cuda-python", None, None, "no package cuda-pathfinder"
            )
        try:
            path = load_nvidia_dynamic_lib(name).abs_path
        except (
            RuntimeError
        ) as error:  # pathfinder's "not found" and "not on this system" are both of this class
            sought = re.search(r'Failure finding "(.*?)"', str(error))
            looked = "; ".join(
                filter(None, [looked, f"no {sought[1] if sought else _FILE.get(name, name)}"])
            )
    if path is None:
        return Library(shown, purpose, remedy, None, None, looked)
    try:
        version = ask(ctypes.CDLL(path))
    except (OSError, AttributeError) as error:  # present but broken: say so instead of guessing
        return Library(shown, purpose, remedy, None, None, f"{path} cannot be used: {error}")
    return Library(shown, purpose, remedy, path, version)


_importing = fork.new_reentrant_lock()


class _Hollow(types.ModuleType):
    """An empty stand-in for a package that is not loaded (see `alone`). In another thread,
    attribute access loads the package."""

    def __getattr__(self, name: str) -> Any:
        if (
            self.__dict__["_owner"] == threading.get_ident()
            and sys.modules.get(self.__name__) is self
        ):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _importing:
            package = importlib.import_module(self.__name__)
        return getattr(package, name)


@functools.cache
def alone(name: str) -> Any:
    """A compiled module of bindings, "nvmath.bindings.cublas" for example. ImportError where it is
    not installed.

    The parent packages import all of their modules, which takes longer than anything else before a
    first result, and the module needs none of them. So empty packages stand in for the missing
    parents during its import.
    """
    parts = name.split(".")
    with _importing:
        hollow = {}
        for package in (".".join(parts[:k]) for k in range(1, len(parts))):
            if package not in sys.modules:
                spec = importlib.util.find_spec(package)
                if spec is None:
                    break
                hollow[package] = module = importlib.util.module_from_spec(spec)
                module.__class__, module.__dict__["_owner"] = _Hollow, threading.get_ident()
                sys.modules[package] = module
        try:
            return importlib.import_module(name)
        finally:
            for package, module in hollow.items():
                if sys.modules.get(package) is module:
                    del sys.modules[package]


@functools.cache
def bindings(name: str) -> Any:
    """nvmath's bindings of one library, "cublas" for example (see `alone`)."""
    return alone(f"nvmath.bindings.{name}")


def libraries() -> list[Library]:
    """Every library cudamath can use, found or not (see `find`).

    >>> [library.name for library in libraries()][:3]
    ['driver', 'NVVM', 'NVRTC']
    """
    return [find(name) for name in _LIBRARIES]
