"""The key under which a compiled kernel is stored: a digest of its code and of all it refers to."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import os
import pathlib
import re
import sys
import threading
import types as python_types
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ...runtime.interrupts import context_manager
from .lazy_numba import Module, Number

_TOOLS = sys.stdlib_module_names | {"numba", "numba_cuda", "numpy", __package__.partition(".")[0]}

#: The package of everything the GPU executes, in whichever of its folders this file lies.
KERNELS = __name__.partition(".kernels.")[0] + ".kernels"

#: PTX instructions: what lies directly in it, as a file or a folder, under a name that begins so.
_PTX = "ptx"

#: Files of this folder that determine what the compilers get.
_WAY = ("compile", "decorators", "storage_types", "target")


@functools.cache
def _toolchain() -> str:
    """Versions of the compilers, as names in a key."""
    there = installed()
    return ",".join(
        f"{name}={there.get(name, 'system')}"
        for name in (
            "numba-cuda",
            "numba",
            "llvmlite",
            "nvidia-nvjitlink",
            "nvidia-nvvm",
            "cuda-core",
        )
    )


@functools.cache
def _shared_sources() -> str:
    """A digest of what every kernel is made with: PTX instructions, and the way from a kernel to
    the compilers."""
    here = pathlib.Path(__file__).parent
    sources = [*ptx_sources(), *(here / f"{name}.py" for name in _WAY)]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def ptx_sources(folder: pathlib.Path | None = None) -> list[pathlib.Path]:
    """The files of PTX instructions below the folder of the kernels. Intrinsics are named in keys,
    so their text is a part of every key."""
    if folder is None:
        folder = pathlib.Path(sys.modules[KERNELS].__path__[0])
    found = [*folder.glob(f"{_PTX}*.py"), *folder.glob(f"{_PTX}*/**/*.py")]
    if not found:
        raise FileNotFoundError(f"kernel: no sources of PTX instructions below {folder}")
    return sorted(found)


def installed() -> dict[str, str]:
    """{package: version} of what is installed, by the names of folders. (importlib.metadata reads
    what is in them, for which it imports a parser of e-mail: longer than everything else about a
    key.)"""
    found: dict[str, str] = {}
    for folder in sys.path:
        with suppress(OSError):  # an archive, or a folder that is gone or not ours to read
            for entry in sorted(os.listdir(folder or os.curdir)):
                if told := re.fullmatch(r"([^-]+)-([^-]+)(-py[^-]*)?\.(dist|egg)-info", entry):
                    found.setdefault(re.sub(r"[_.]+", "-", told[1]).lower(), told[2])
    return found


def key(kernel: Any, arguments: Sequence[str], cc: tuple) -> str:
    """What the machine code of a kernel depends on: its code, the types of its arguments, target
    and toolchain."""
    return f"{fingerprint(kernel)}|{arguments}|{cc}|{_shared_sources()}|{_toolchain()}"


def source_key(key: str) -> str:
    """The part of a key that describes sources. Kernels of packs have it as their key: they are
    machine code already, whichever compilers are installed here."""
    return key.rpartition("|")[0]


class _Kept(threading.local):
    """The fingerprints that this thread has computed since `unchanging` began; None outside."""

    found: dict[int, tuple[Any, str]] | None = None


_kept = _Kept()


@context_manager
def unchanging() -> Iterator[None]:
    """A context in which no kernel changes, nor what it refers to: each fingerprint is computed
    once."""
    before, _kept.found = _kept.found, {} if _kept.found is None else _kept.found
    try:
        yield
    finally:
        _kept.found = before


def fingerprint(kernel: Any) -> str:
    """A digest of a kernel's code and of everything it refers to."""
    if _kept.found is None:
        return _fingerprint(kernel)
    if id(kernel) not in _kept.found:  # which keeps it alive: its number stays its own
        _kept.found[id(kernel)] = kernel, _fingerprint(kernel)
    return _kept.found[id(kernel)][1]


def _fingerprint(kernel: Any) -> str:
    """The same, computed."""
    digest = hashlib.sha256()
    _digest(kernel, digest, {})
    options = getattr(kernel, "targetoptions", {})
    digest.update(
        repr(
            [
                (k, options.get(k))
                for k in ("fastmath", "launch_bounds", "max_registers", "lineinfo")
            ]
        ).encode()
    )
    if not options.get("fma", True):
        digest.update(b"fma=False")
    return digest.hexdigest()


#: What most constants are: tables of names and numbers.
_PLAIN = (str, int, bool, float, bytes, complex, type(None))


def _digest(value: Any, digest: Any, seen: dict[int, int]) -> None:
    """Feed a function, device function or constant into the digest, following names and
    closures. seen: the numbers of those that it has, by their ids: one that is met again is told by
    its number, or else f(g(x)) and f(f(x)) would be the same behind g(f(x))."""
    if type(value) in _PLAIN:
        digest.update(repr(value).encode())
        return
    if type(value) is Number:
        digest.update(f"{value.__module__}.{value.__name__}".encode())
        return
    if isinstance(value, Module):
        digest.update(repr(value).encode())
        return
    options, value = getattr(value, "targetoptions", None) or {}, getattr(value, "py_func", value)
    if isinstance(value, python_types.FunctionType):
        if (number := seen.get(id(value))) is not None:
            digest.update(f"#{number};".encode())
            return
        seen[id(value)] = len(seen)
        digest.update(_code(value.__code__))
        for chosen in (value.__defaults__, value.__kwdefaults__, options.get("fastmath")):
            if chosen:
                _digest(chosen, digest, seen)
        captured = {
            name: cell.cell_contents
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        }
        names = sorted(_names(value.__code__))
        for name in names:
            if name not in captured and name not in value.__globals__:
                continue
            meant = captured[name] if name in captured else value.__globals__[name]
            digest.update(name.encode())
            _digest(meant, digest, seen)
            _members(meant, names, digest, seen)
    elif isinstance(value, python_types.ModuleType):
        digest.update(
            value.__name__.rpartition(".")[2].encode()
        )  # numba.types is renamed while numba is imported
    elif isinstance(value, np.ndarray):
        digest.update(str((value.dtype, value.shape)).encode() + value.tobytes())
    elif isinstance(
        value, (tuple, list)
    ):  # named tuples hold functions: their repr would be an address
        digest.update(f"{type(value).__name__}{len(value)}".encode())
        for item in value:
            _digest(item, digest, seen)
    elif isinstance(value, dict):
        _digest(sorted(value.items(), key=lambda item: repr(item[0])), digest, seen)
    elif isinstance(value, enum.EnumMeta):
        _digest({member.name: member.value for member in value}, digest, seen)
    elif isinstance(value, (set, frozenset)):
        digest.update(repr(sorted(map(repr, value))).encode())
    elif isinstance(
        value, (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype)
    ):
        digest.update(repr(value).encode())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _digest([getattr(value, field.name) for field in dataclasses.fields(value)], digest, seen)
    elif hasattr(
        value, "__name__"
    ):  # builtins, classes: named here, as they are part of the toolchain; intrinsics
        digest.update(f"{getattr(value, '__module__', '')}.{value.__name__}".encode())
        if (generator := getattr(value, "generator", None)) is not None:
            digest.update(_generated(generator))
    elif isinstance(value, python_types.GenericAlias) or " at 0x" not in repr(value):
        digest.update(repr(value).encode())
    else:
        raise TypeError(
            f"kernel: cannot tell what {value!r}, which the kernel refers to, stands for in "
            "another process"
        )


@functools.cache
def _generated(generator: Callable) -> bytes:
    """A digest of what an intrinsic emits: the code that generates it and, in its closures, the
    assembly."""
    digest = hashlib.sha256()
    _digest(generator, digest, {})
    return digest.digest()


def _members(module: Any, names: list[str], digest: Any, seen: dict[int, int]) -> None:
    """What a function that uses these names may mean by module.member; of packages and of the
    user's modules module.module.member too."""
    kit = _is_kit(module)
    if id(module) in seen or not (kit or _is_users(module)):
        return
    for member in names:
        if hasattr(module, member):
            meant = getattr(module, member)
            if not kit and isinstance(meant, python_types.FunctionType):
                continue  # which Numba calls none of: the name is that of something else's member
            digest.update(member.encode())
            _digest(meant, digest, seen)
            if not kit or hasattr(module, "__path__"):
                _members(meant, names, digest, seen | {id(module): len(seen)})


def _is_kit(value: Any) -> bool:
    """Whether it is a module of device functions that kernels share: one of the package of kernels,
    at any depth. Those of PTX instructions are in the toolchain's name."""
    if not isinstance(value, python_types.ModuleType):
        return False
    name = f"{value.__name__}."
    return name.startswith(f"{KERNELS}.") and not name.startswith(f"{KERNELS}.{_PTX}")


def _is_users(value: Any) -> bool:
    """Whether it is a module whose members may change while the toolchain stays what it is: none of
    Python's, say."""
    return (
        isinstance(value, python_types.ModuleType)
        and value.__name__.partition(".")[0] not in _TOOLS
    )


@functools.lru_cache(
    4096
)  # many kernels are closures over one function's code, and call the same helpers
def _code(code: python_types.CodeType) -> bytes:
    """What of a code object goes into the digest."""
    parts = [code.co_code]  # without what the interpreter notes between instructions as it runs
    for constant in code.co_consts:
        parts.append(
            _code(constant)
            if isinstance(constant, python_types.CodeType)
            else repr(constant).encode()
        )
    parts.append(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    return b"".join(parts)


@functools.lru_cache(4096)
def _names(code: python_types.CodeType) -> frozenset[str]:
    names = frozenset((*code.co_names, *code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            names |= _names(constant)
    return names
