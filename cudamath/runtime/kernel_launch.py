"""From a compiled kernel to its launch, and the on-disk cache of compiled kernels.

A kernel is compiled once per source, signature and compute capability (by
`kernels/compiler/compile.py`), kept as a cubin on disk, and loaded into the driver as a library
that serves every device of that capability.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import struct
from collections.abc import Callable
from typing import Any

from . import device as devices
from . import memory
from . import stream as streams
from .errors import CudaError, check, fail, record_with_line
from .interrupts import uninterrupted
from .memory import pool_of
from .roofline import UNKNOWN, Work
from .state import device_cache, runtime

# -------------------- loaded kernels


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A kernel loaded on a device: the driver's handles and the resources the compiler gave it."""

    name: str
    handle: Any  # CUfunction, for launching
    kernel: Any  # CUkernel, for attributes
    device: int
    arguments: tuple[int | None, ...] = ()  # dimensions of each array argument, None for a scalar

    def attribute(self, name: str) -> int:
        """A resource of the kernel: NUM_REGS, LOCAL_SIZE_BYTES, SHARED_SIZE_BYTES,
        MAX_THREADS_PER_BLOCK ..."""
        cu = devices.driver()
        kind = getattr(cu.CUfunction_attribute, "CU_FUNC_ATTRIBUTE_" + name)
        return int(
            check(cu.cuKernelGetAttribute(kind, self.kernel, check(cu.cuDeviceGet(self.device))))
        )

    def allow_shared(self, nbytes: int) -> None:
        """Allow this much dynamic shared memory a block. Beyond 48 KiB, the kernel's own static
        memory counted in, it must be asked for; never less than before."""
        allowed = self.attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES")
        if nbytes + self.attribute("SHARED_SIZE_BYTES") > 48 << 10 and (
            nbytes > allowed or allowed <= 48 << 10
        ):
            cu = devices.driver()
            kind = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(
                cu.cuKernelSetAttribute(
                    kind, nbytes, self.kernel, check(cu.cuDeviceGet(self.device))
                )
            )

    def form_clusters(self, blocks: int) -> None:
        """From now on, `blocks` neighbouring blocks of the grid's first dimension form a
        cluster."""
        cu = devices.driver()
        index = check(cu.cuDeviceGet(self.device))
        for name, size in (("WIDTH", blocks), ("HEIGHT", 1), ("DEPTH", 1)):
            kind = getattr(cu.CUfunction_attribute, "CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_" + name)
            check(cu.cuKernelSetAttribute(kind, size, self.kernel, index))

    def occupancy(self, block: int, shared: int = 0) -> int:
        """How many blocks of this size one multiprocessor holds at a time."""
        with streams.in_context(self.device):
            return int(
                check(
                    devices.driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                        self.handle, block, shared
                    )
                )
            )

    def __str__(self) -> str:
        return self.name


@device_cache
def _library(cubin: bytes, cluster: int) -> tuple[Any, Any]:
    """(CUlibrary, its only kernel). Libraries are not bound to a device: one serves all of its
    capability. But the size of clusters is the kernel's, for all its launches: each size has a
    library of its own."""
    cu = devices.driver()
    library = check(cu.cuLibraryLoadData(cubin, [], [], 0, [], [], 0))
    if check(cu.cuLibraryGetKernelCount(library)) != 1:
        raise CudaError("a compiled kernel must hold exactly one entry point")
    return library, check(cu.cuLibraryEnumerateKernels(1, library))[0]


def load(
    name: str,
    cubin: bytes,
    index: int,
    shared: int = 0,
    arguments: tuple[int | None, ...] = (),
    cluster: int = 1,
) -> Function:
    """Load a compiled kernel on a device. `arguments`: see Function; shared, cluster: what its
    launches will need."""
    cu = devices.driver()

    def loaded() -> Function:
        _, kernel = _library(cubin, cluster)
        return Function(name, check(cu.cuKernelGetFunction(kernel)), kernel, index, arguments)

    with (
        devices.lock,
        streams.in_context(index),
        streams.relaxed(),
    ):  # a capture may be the first to need it
        function = pool_of(index).insist(loaded)
        function.allow_shared(shared)
        if cluster > 1:
            function.form_clusters(cluster)
        runtime.functions[int(function.handle)] = function
    return function


# -------------------- launching


class Block:
    """The words of a kernel's arguments, one 64-bit word each, and the array of their addresses
    that the driver reads.

    `q`, `u`, `f` and `d` are the same memory seen as int64, uint64, float32 (two a word) and
    float64. The last two words are no arguments: they tell the profiler what the launch has to do
    (Work.words).
    """

    __slots__ = ("memory", "q", "u", "f", "d", "addresses", "pointer", "config")

    def __init__(
        self, words: tuple[int, ...], extended: tuple[Any, ...] = (), work: Work = UNKNOWN
    ):
        words = (*words, *work.words())
        count = len(words)
        self.memory = bytearray(8 * count)
        struct.pack_into(f"<{count}q", self.memory, 0, *words)
        view = memoryview(self.memory)
        self.q, self.u, self.f, self.d = (
            view.cast("q"),
            view.cast("Q"),
            view.cast("f"),
            view.cast("d"),
        )
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.addresses = (ctypes.c_void_p * count)(*range(base, base + 8 * count, 8))
        self.pointer = ctypes.addressof(self.addresses)
        self.config = extended_config(*extended) if extended else None


def extended_config(kind: str, *sizes: int) -> Any:
    """How to launch a kernel with an attribute, which a captured graph keeps.

    kind: "early": the kernel may begin before the one ahead of it in its stream has ended (compute
    capability 9.0). Its blocks are placed as soon as all of the other's have begun to run or ended;
    the kernel itself must execute griddepcontrol.wait before it touches global memory.
    "cooperative": all blocks run at the same time, so that they may wait for one another; the
    driver refuses a grid that is too large for that. sizes: of the grid and the block, three each,
    and of dynamic shared memory; the stream is filled in at each launch.
    """
    cu = devices.driver()
    config, attribute = cu.CUlaunchConfig(), cu.CUlaunchAttribute()
    (
        config.gridDimX,
        config.gridDimY,
        config.gridDimZ,
        config.blockDimX,
        config.blockDimY,
        config.blockDimZ,
        config.sharedMemBytes,
    ) = sizes
    kinds = cu.CUlaunchAttributeID
    if kind == "early":
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
    else:
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
    config.attrs, config.numAttrs = [attribute], 1
    return config


def word(value: Any) -> int:
    """A scalar argument (int, or a NumPy scalar of at most 8 bytes) as the 64-bit word the driver
    reads."""
    raw = (
        value.to_bytes(8, "little", signed=value < 0)
        if type(value) is int
        else value.tobytes().ljust(8, b"\0")
    )
    return struct.unpack("<q", raw)[0]


def prepare_launcher() -> dict[str, Any]:
    """`runtime.launcher`: the namespace in which the launch code of plans runs (see
    core/dispatch/plan.py). It is filled on first use, because the driver is not imported before.

    Its entry `launch` is the driver's cuLaunchKernel; profiling replaces it and so sees every
    launch, while a run without it pays nothing. Memory debugging replaces `allocate`. Library calls
    go through `observe_call` if it is set. Cooperative kernels go through `launch_extended`,
    cuLaunchKernelEx, which profiling replaces, too; so do kernels that may begin early, unless
    `in_order` (CUDAMATH_LAUNCH_IN_ORDER=1, and profiling).
    """
    launcher = runtime.launcher
    if "launch" not in launcher:
        launcher.update(
            memory.code_names(),
            launch=devices.driver().cuLaunchKernel,
            local=runtime.local,
            recent=_recorder(),
            fail=fail,
            observe_call=None,
            launch_extended=devices.driver().cuLaunchKernelEx,
            in_order=os.environ.get("CUDAMATH_LAUNCH_IN_ORDER", "0") not in ("", "0"),
        )
    return launcher


@uninterrupted
def launch_lines(enabled: bool) -> bool:
    """Choose whether launches are remembered with the user's Python line; returns whether they
    were."""
    before, runtime.launch_lines = runtime.launch_lines, enabled
    if runtime.launcher:
        runtime.launcher["recent"] = _recorder()
    return before


def _recorder() -> Callable[[Any], None]:
    """The function that takes down each launch."""
    return record_with_line if runtime.launch_lines else runtime.recent_launches.append


def launch(
    function: Function, grid: tuple, block: tuple, words: tuple[int, ...], shared: int = 0
) -> None:
    """Launch on the current stream with arguments given as words (see `word`); the convenient, not
    the fast way."""
    stream = streams.stream_of(function.device)
    arguments = Block(words)
    launcher = prepare_launcher()
    with streams.on_device(function.device):
        (status,) = launcher["launch"](
            function.handle, *grid, *block, shared, stream.handle, arguments.pointer, 0
        )
    launcher["recent"](function)
    if status:
        fail(status, function.name)
