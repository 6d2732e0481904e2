"""Compiling kernels: the one module that touches numba.cuda's internals.

A kernel goes Python -> NVVM IR -> LTO-IR (Numba) -> cubin (nvJitLink), which needs the CUDA
compiler libraries but no GPU, so every kernel can be compiled for every architecture anywhere. Its
key on disk is its source as the compiler sees it: bytecode, constants, and the same of all it
refers to.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import hashlib
import linecache
import math
import os
import pathlib
import re
import sys
import threading
import types as python_types
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ...core.dtypes import STORAGE, bfloat16, float16
from ...core.layout import Layout
from ...runtime import kernel_launch
from ...runtime.state import runtime
from .lazy_numba import SIMULATOR, Module, cuda, types

#: Compute capabilities the kernels are compiled for in the tests; "a" = architecture-specific
#: instructions.
CAPABILITIES = ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0))


# -------------------- types


@functools.cache
def storage(dtype: np.dtype) -> np.dtype:
    """What a kernel sees of a dtype: 16-bit floats as uint16, bool and 8-bit floats as uint8."""
    if dtype in (float16, bfloat16):
        return np.dtype(np.uint16)
    if dtype == np.bool_ or dtype in STORAGE:
        return np.dtype(np.uint8)
    return dtype


@functools.cache
def numba_type(dtype: np.dtype) -> Any:
    """Numba's type of a storage dtype."""
    return getattr(types, storage(dtype).name)


Kind = Layout | np.dtype  # of a kernel's argument: an array's Layout, or a scalar's dtype


def argument_type(kind: Kind, seen: Callable[[np.dtype], np.dtype] = storage) -> Any:
    """Numba's own type of a kernel argument; `seen`: what the kernel sees of a dtype."""
    if isinstance(kind, Layout):
        return types.Array(_real(seen(kind.dtype)), max(kind.ndim, 1), _order(kind))
    return _real(seen(kind))


def _real(dtype: np.dtype) -> Any:
    T = getattr(types, "boolean" if dtype == np.bool_ else dtype.name)
    return getattr(T, "real", T)


def _order(layout: Layout) -> str:
    return "C" if layout.contiguous else "A"


def arguments_type(kinds: Sequence[Kind], seen: Callable[[np.dtype], np.dtype] = storage) -> Any:
    """Numba's own type of a kernel with these arguments."""
    return types.void(*[argument_type(kind, seen) for kind in kinds])


def codec(dtype: np.dtype) -> tuple[Callable, Callable, Any]:
    """(load, store, T) for a dtype: widen a stored value, round a computed one, and the compute
    type.

    16- and 8-bit floats compute in float32; everything else in itself. `T(0)` makes a constant of
    the compute type.
    """
    from ..ptx import intrinsics

    dtype = np.dtype(dtype)
    if dtype == float16:
        return intrinsics.half_to_float, intrinsics.float_to_half, types.float32
    if dtype == bfloat16:
        return intrinsics.bfloat_to_float, intrinsics.float_to_bfloat, types.float32
    if dtype in STORAGE:
        from ..lib import float8

        return float8.decoder(dtype), float8.encoder(dtype), types.float32
    T = numba_type(dtype)
    return _identity, T, T


#: Decorates a device function. LLVM inlines it; Numba's own inline="always" gives the same code 3
#: to 5 times as slowly.
device_function = cuda.jit(device=True) if SIMULATOR else cuda.jit(device=True, forceinline=True)


@device_function
def _identity(value):
    return value


def compiled(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """The function `name` that generated source defines; its lines can be shown in a traceback."""
    filename = f"<cudamath {name} {hash(source) & 0xFFFFFFFF:x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


def blocks(count: int, per_block: int) -> int:
    """How many blocks cover `count` items."""
    return -(-count // per_block)


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n (and at least 1)."""
    return 1 << max(0, math.ceil(math.log2(max(n, 1))))


# -------------------- compiling

_lock = threading.RLock()
_capability: list[tuple] = []  # the target of the compilation under way, or of the last one
_under_way: list[
    tuple
] = []  # targets of compilations under way: intrinsics may ask for it by `target_has`


def target(capability: tuple[int, int]) -> tuple:
    """Numba's name of a target: from 9.0 on the architecture-specific one."""
    return (*capability, "a") if capability >= (9, 0) else tuple(capability)


@contextmanager
def _compiling_for(cc: tuple) -> Iterator[None]:
    """Numba asks the current device for its capability when a kernel calls a device function:
    answer for it."""
    from numba.cuda import dispatcher

    original = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: python_types.SimpleNamespace(compute_capability=cc)
    try:
        if _capability[-1:] != [
            cc
        ]:  # device functions are compiled once per dispatcher, not per target: forget them
            _capability[:] = [cc]
            for found in _device_functions():
                found.overloads.clear()
        _under_way.append(cc)
        try:
            yield
        finally:
            _under_way.pop()
    finally:
        dispatcher.get_current_device = original


def target_has(capability: tuple[int, int]) -> bool:
    """Whether what is being compiled is for a device of at least this capability (False if
    unknown)."""
    return bool(_under_way) and _under_way[-1][:2] >= capability


@functools.cache
def _device_functions() -> weakref.WeakSet:
    """Numba's device functions that may have been compiled: those there are now, and others as they
    are compiled."""
    import gc

    from numba.cuda.dispatcher import CUDADispatcher

    there = (
        o for o in gc.get_objects() if issubclass(type(o), CUDADispatcher)
    )  # isinstance would ask weak proxies
    known = weakref.WeakSet(o for o in there if o.targetoptions.get("device"))
    compile_device = CUDADispatcher.compile_device

    @functools.wraps(compile_device)
    def noted(self: Any, *args: Any, **options: Any) -> Any:
        known.add(self)
        return compile_device(self, *args, **options)

    CUDADispatcher.compile_device = noted
    return known


def compile_cubin(
    kernel: Any,
    signature: Sequence[Kind],
    capability: tuple[int, int],
    seen: Callable[[np.dtype], np.dtype] = storage,
) -> bytes:
    """The machine code of a kernel for these argument types and this compute capability; from the
    disk if it is there."""
    cc = target(capability)
    return kernel_launch.cached_cubin(
        cache_key(kernel, signature, cc, seen),
        lambda: compile_now(kernel, arguments_type(signature, seen), cc)[0],
    )


def cache_key(
    kernel: Any,
    signature: Sequence[Kind],
    cc: tuple,
    seen: Callable[[np.dtype], np.dtype] = storage,
) -> str:
    """What the machine code of a kernel depends on: its code, the types of its arguments, target
    and toolchain."""
    arguments = [
        f"{seen(k.dtype)} {max(k.ndim, 1)} {_order(k)}" if isinstance(k, Layout) else seen(k).name
        for k in signature
    ]
    return f"{fingerprint(kernel)}|{arguments}|{cc}|{_toolchain()}"


def compile_now(kernel: Any, arguments: Any, cc: tuple) -> tuple[bytes, str]:
    """(cubin, the assembler's report on registers and spills)."""
    options = kernel.targetoptions
    keep = {k: options[k] for k in ("fastmath", "launch_bounds", "lineinfo") if options.get(k)}
    with _lock, _compiling_for(cc):
        code, _ = cuda.compile(
            kernel.py_func, arguments, cc=cc, device=False, abi="numba", output="ltoir", **keep
        )
    return kernel_launch.link(code, "sm_" + "".join(map(str, cc)), options.get("max_registers"))


def compile_each(kernel: Any, arguments: Any, targets: Sequence[tuple]) -> list[tuple[bytes, str]]:
    """The same for several targets. From Python to LLVM IR, the longer half of the way, is gone
    only once, for the first."""
    from numba.cuda.compiler import _compile_pyfunc_with_fixup

    options = kernel.targetoptions
    keep = {k: options[k] for k in ("fastmath", "launch_bounds", "lineinfo") if options.get(k)}
    with _lock, _compiling_for(min(targets)):  # what intrinsics emit then holds for all
        code, _ = _compile_pyfunc_with_fixup(
            kernel.py_func, arguments, cc=min(targets), device=False, abi="numba", lto=True, **keep
        )
        linked = [(code.get_ltoir(cc=cc), "sm_" + "".join(map(str, cc))) for cc in targets]
    return [kernel_launch.link(ltoir, arch, options.get("max_registers")) for ltoir, arch in linked]


def ptx_of(kernel: Any, signature: list[Any], capability: tuple[int, int]) -> str:
    """A kernel's PTX (for checks: float64 instructions, vector loads)."""
    cc = target(capability)
    with _lock, _compiling_for(cc):
        return cuda.compile(
            kernel.py_func,
            arguments_type(signature),
            cc=cc,
            device=False,
            abi="numba",
            output="ptx",
            **{
                k: kernel.targetoptions[k]
                for k in ("fastmath", "launch_bounds")
                if kernel.targetoptions.get(k)
            },
        )[0]


runtime.compiler = compile_cubin


# -------------------- keys

_TOOLS = sys.stdlib_module_names | {"numba", "numba_cuda", "numpy", __package__.partition(".")[0]}

#: The package of everything the GPU executes, in whichever of its folders this file lies.
KERNELS = __name__.partition(".kernels.")[0] + ".kernels"
#: PTX instructions: what lies directly in it, as a file or a folder, under a name that begins so.
_PTX = "ptx"


@functools.cache
def _toolchain() -> str:
    there = _installed()
    found = [
        f"{name}={there.get(name, 'system')}"
        for name in (
            "numba-cuda",
            "numba",
            "llvmlite",
            "nvidia-nvjitlink",
            "nvidia-nvvm",
            "cuda-core",
        )
    ]
    text = b"".join(source.read_bytes() for source in ptx_sources())
    return ",".join([*found, hashlib.sha256(text).hexdigest()])


def ptx_sources(folder: pathlib.Path | None = None) -> list[pathlib.Path]:
    """The files of PTX instructions below the folder of the kernels. Intrinsics are named in keys,
    so their text is a part of the toolchain."""
    if folder is None:
        folder = pathlib.Path(sys.modules[KERNELS].__path__[0])
    found = [*folder.glob(f"{_PTX}*.py"), *folder.glob(f"{_PTX}*/**/*.py")]
    if not found:
        raise FileNotFoundError(f"kernel: no sources of PTX instructions below {folder}")
    return sorted(found)


def _installed() -> dict[str, str]:
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


def fingerprint(kernel: Any) -> str:
    """A digest of a kernel's code and of everything it refers to."""
    digest = hashlib.sha256()
    _digest(kernel, digest, set())
    options = getattr(kernel, "targetoptions", {})
    digest.update(
        repr(
            [
                (k, options.get(k))
                for k in ("fastmath", "launch_bounds", "max_registers", "lineinfo")
            ]
        ).encode()
    )
    return digest.hexdigest()


def _digest(value: Any, digest: Any, seen: set[int]) -> None:
    """Feed a function, device function or constant into the digest, following names and
    closures."""
    if isinstance(value, Module):
        digest.update(repr(value).encode())
        return
    options, value = getattr(value, "targetoptions", None) or {}, getattr(value, "py_func", value)
    if isinstance(value, python_types.FunctionType):
        if id(value) in seen:
            return
        seen.add(id(value))
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
    _digest(generator, digest, set())
    return digest.digest()


def _members(module: Any, names: list[str], digest: Any, seen: set[int]) -> None:
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
                _members(meant, names, digest, seen | {id(module)})


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
    # Instruction by instruction: the raw bytes have room for the interpreter's inline caches
    # between them.
    parts = [repr([(i.opcode, i.arg) for i in dis.get_instructions(code)]).encode()]
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
