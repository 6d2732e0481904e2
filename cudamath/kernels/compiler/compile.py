"""Compiling kernels: the one module that touches numba.cuda's internals.

A kernel goes Python -> NVVM IR -> LTO-IR (Numba) -> cubin (nvJitLink), which needs the CUDA
compiler libraries but no GPU, so every kernel can be compiled for every architecture anywhere. Its
key on disk is its source as the compiler sees it: bytecode, constants, and the same of all it
refers to.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import os
import pickle
import types as python_types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core import compile_notice
from ...core.layout import Layout
from ...runtime import cubin_cache, fork, kernel_packs
from ...runtime import device as devices
from ...runtime.interrupts import context_manager
from ...runtime.state import runtime
from . import linking_order, portable, shortcuts, worker_pool
from .cache_key import installed, source_key
from .cache_key import key as key_of
from .lazy_numba import cuda
from .storage_types import Kind, _order, arguments_type, storage
from .target import _under_way, architecture, target

# -------------------- compiling

_lock = fork.new_reentrant_lock()
_capability: list[tuple] = []  # the target of the compilation under way, or of the last one


@context_manager
def _compiling_for(cc: tuple) -> Iterator[None]:
    """Numba asks the current device for its capability when a kernel calls a device function:
    answer for it. Of the many small objects that a compilation makes few are garbage at once: the
    collector, which would look through them again and again for a tenth of the time, waits."""
    from numba.cuda import dispatcher

    linking_order.install()
    shortcuts.install()
    original, collects = dispatcher.get_current_device, gc.isenabled()
    gc.disable()
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
        if collects:
            gc.enable()


@functools.cache
def _device_functions() -> weakref.WeakSet:
    """Numba's device functions that may have been compiled: those there are now, and others as they
    are compiled."""
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


def compile_cubin(kernel: Any, signature: Sequence[Kind], capability: tuple[int, int]) -> bytes:
    """The machine code of a kernel for these argument types and this compute capability: from a
    pack, from the disk, from a worker that has begun to compile it, or compiled now."""
    kernel, seen = _parts(kernel)
    cc = target(capability)
    key = cache_key(kernel, signature, cc, seen)
    packed = kernel_packs.read(architecture(cc), source_key(key))
    if packed is not None:
        cubin_cache.statistics["loaded_from_disk"] += 1
        return packed
    return cubin_cache.cached_cubin(key, lambda: _compiled(key, kernel, signature, cc, seen))


def _parts(kernel: Any) -> tuple[Any, Callable[[np.dtype], np.dtype]]:
    """(the function, what it sees of a dtype): storage types, unless the kernel is a user's
    (kernels/generated/user_kernels.py)."""
    return getattr(kernel, "dispatcher", kernel), getattr(kernel, "seen", storage)


def _compiled(
    key: str,
    kernel: Any,
    signature: Sequence[Kind],
    cc: tuple,
    seen: Callable[[np.dtype], np.dtype],
) -> bytes:
    """A kernel that is not on the disk: while it is compiled, workers begin with those that this
    thread needs next, those of the gradient that it records, and on a new machine with common
    ones."""
    pool = worker_pool.pool()
    if pool.size:
        compile_ahead(runtime.local.upcoming, cc[:2])
        _compile_gradient_ahead(pool, cc[:2])
        _compile_common_ahead(pool, cc[:2])
    name = getattr(kernel, "__name__", "a kernel")
    what = f"{name} for {architecture(cc)}"
    with compile_notice.waiting(what, cubin_cache.cache_directory()):
        if pool.size < worker_pool.MANY:
            code = pool.take(key)
        else:
            message = _message((key, kernel, list(signature), cc, seen))
            code = pool.need(key, message) if message else None
        return code or compile_now(kernel, arguments_type(signature, seen), cc)[0]


def _message(content: tuple) -> bytes | None:
    """What a worker is told; None for what no other process can make."""
    try:
        return portable.dumps(content)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError):
        return None


def compile_ahead(
    kernels: Iterable[tuple[Any, Sequence[Kind]]],
    capability: tuple[int, int],
    pool: worker_pool.Pool | None = None,
    *,
    needed: bool = False,
) -> list[worker_pool.Job]:
    """Let workers compile what is neither in a pack nor on the disk; returns at once. kernels:
    (kernel, signature). A user's kernel that no other process can make is left out. needed: all of
    them are waited for. So they are begun in the order of their sizes: what takes long at the end
    would leave the other workers idle. (The length of a kernel by value tells 60 to 85 % of the
    variance of its time, and that order ends within 1 % of the best one.)"""
    pool, cc = pool or worker_pool.pool(), target(capability)
    messages: dict[str, bytes] = {}
    if pool.size == 0:
        return []
    for each, signature in kernels:
        kernel, seen = _parts(each)
        key = cache_key(kernel, signature, cc, seen)
        if is_stored(key, cc):
            continue
        if message := _message((key, kernel, list(signature), cc, seen)):
            messages[key] = message
    keys = sorted(messages, key=lambda key: -len(messages[key])) if needed else messages
    return [pool.submit(key, messages[key], needed=needed) for key in keys]


def compile_together(
    kernels: Iterable[tuple[Any, Sequence[Kind]]], capability: tuple[int, int], name: str
) -> None:
    """Let all workers compile the kernels of a program, and wait for them; where there are few
    workers, let them begin. name: of the program."""
    pool, cc = worker_pool.pool(), target(capability)
    jobs = compile_ahead(kernels, capability, needed=True)
    if pool.size < worker_pool.MANY or not jobs:
        return
    what = f"{len(jobs)} kernels of {name} for {architecture(cc)}"
    with compile_notice.waiting(what, cubin_cache.cache_directory()):
        for job in jobs:
            if job.done.wait(worker_pool.HANGS) and is_stored(job.key, cc):
                pool.take(job.key)  # nobody asks the pool for it
    _compile_common_ahead(pool, capability)


def _compile_gradient_ahead(pool: worker_pool.Pool, capability: tuple[int, int]) -> None:
    """Let a worker find out which kernels the gradient of the recorded call needs, and workers
    compile them (gradients.py)."""
    call = runtime.local.recorded
    if call is None:
        return
    _, layouts, *_ = call
    ordinal = next(layout.device for layout in layouts if layout is not None)
    if message := _message(("gradient", *call, *_machine(ordinal, capability))):
        name = f"gradient {hashlib.sha256(message).hexdigest()}"
        pool.submit(name, message, functools.partial(_submit_all, pool, capability, later=False))


def _machine(ordinal: int, capability: tuple[int, int]) -> tuple:
    """What plans depend on besides the call: (capability, name of the device, libraries)."""
    from ...runtime import rehearsal  # which a process that compiles nothing does without

    return capability, devices.name(ordinal), rehearsal.found()


def _submit_all(
    pool: worker_pool.Pool, capability: tuple[int, int], answer: bytes, *, later: bool
) -> None:
    """Submit the kernels that a worker answered with, as (key, message)."""
    for key, kernel in portable.loads(answer):
        if not is_stored(key, target(capability)):
            pool.submit(key, kernel, later=later)


# -------------------- a new machine


@functools.cache
def _is_new() -> bool:
    """Whether this machine had no kernels when it was first asked: no pack, nothing on the disk."""
    if any(cubin_cache.cache_directory().glob("*.cubin")):
        return False
    named = os.environ.get("CUDAMATH_KERNEL_PACKS", "")
    return named == "0" or not (named or any(map(_is_pack, installed())))


def _is_pack(package: str) -> bool:
    return package.startswith(kernel_packs.package_name("sm").replace("_", "-"))


def prepare() -> None:
    """Start what compiles, on a new machine: while the driver initialises, before anything is
    needed."""
    if _is_new():
        worker_pool.prepare()


def _compile_common_ahead(pool: worker_pool.Pool, capability: tuple[int, int]) -> None:
    """On a new machine, let workers compile what most programs need (kernel_list.COMMON), after all
    that this one asks for."""
    if not _is_new() or capability in _common_submitted:
        return
    _common_submitted.add(capability)
    content = ("common", PER_WORKER * pool.size, *_machine(0, capability))
    if message := _message(content):
        then = functools.partial(_submit_all, pool, capability, later=True)
        pool.submit(f"common {capability}", message, then, later=True)


#: Common kernels that are compiled ahead, for each worker: some ten seconds of its time.
PER_WORKER = 14
_common_submitted: set[tuple[int, int]] = set()


def message_of(
    kernel: Any, signature: Sequence[Kind], capability: tuple[int, int]
) -> tuple[str, bytes]:
    """(key, message to a worker) of a kernel. An error of `portable.dumps` for one that no other
    process can make."""
    function, seen = _parts(kernel)
    cc = target(capability)
    key = cache_key(function, signature, cc, seen)
    return key, portable.dumps((key, function, list(signature), cc, seen))


def is_stored(key: str, cc: tuple) -> bool:
    """Whether a kernel is in a pack or on the disk."""
    packs = kernel_packs.packs(architecture(cc))
    return any(source_key(key) in pack for pack in packs) or cubin_cache.place(key).exists()


def cache_key(
    kernel: Any,
    signature: Sequence[Kind],
    cc: tuple,
    seen: Callable[[np.dtype], np.dtype] = storage,
) -> str:
    """The key of a kernel for these argument types and this target."""
    arguments = [
        f"{seen(k.dtype)} {max(k.ndim, 1)} {_order(k)}" if isinstance(k, Layout) else seen(k).name
        for k in signature
    ]
    return key_of(kernel, arguments, cc)


def compile_now(kernel: Any, arguments: Any, cc: tuple) -> tuple[bytes, str]:
    """(cubin, the assembler's report on registers and spills)."""
    options = kernel.targetoptions
    keep = {k: options[k] for k in ("fastmath", "launch_bounds", "lineinfo") if options.get(k)}
    with _lock, _compiling_for(cc):
        code, _ = cuda.compile(
            kernel.py_func, arguments, cc=cc, device=False, abi="numba", output="ltoir", **keep
        )
    return _linked(kernel, code, cc)


def compile_each(kernel: Any, arguments: Any, targets: Sequence[tuple]) -> list[tuple[bytes, str]]:
    """The same for several targets. From Python to LLVM IR, the longer half of the way, is gone
    only once, for the first."""
    library = to_llvm(kernel, arguments, min(targets))  # what intrinsics emit then holds for all
    return [from_llvm(kernel, library, cc) for cc in targets]


def to_llvm(kernel: Any, arguments: Any, cc: tuple) -> Any:
    """Numba's library of a kernel: its LLVM IR (`get_llvm_str()`), which `from_llvm` takes on."""
    from numba.cuda.compiler import _compile_pyfunc_with_fixup

    options = kernel.targetoptions
    keep = {k: options[k] for k in ("fastmath", "launch_bounds", "lineinfo") if options.get(k)}
    with _lock, _compiling_for(cc):
        library, _ = _compile_pyfunc_with_fixup(
            kernel.py_func, arguments, cc=cc, device=False, abi="numba", lto=True, **keep
        )
    return library


def from_llvm(kernel: Any, library: Any, cc: tuple) -> tuple[bytes, str]:
    """(cubin, the assembler's report) of what `to_llvm` made, for that target or a newer one."""
    return _linked(kernel, library.get_ltoir(cc=cc), cc)


def _linked(kernel: Any, ltoir: bytes, cc: tuple) -> tuple[bytes, str]:
    options = kernel.targetoptions
    return cubin_cache.link(
        ltoir, architecture(cc), options.get("max_registers"), options.get("fma", True)
    )


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
