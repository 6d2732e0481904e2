"""A small fake of cuda.bindings.driver, for what is logic rather than hardware in the runtime.

- Device memory is host memory, so copies copy; an access to freed memory is an AssertionError.
- A kernel is a Python function of NumPy arrays and scalars, which the fake makes from the launch's
  argument words: what is packed wrongly arrives wrongly.
- Streams are lazy. Work runs when something waits for it, and then no more of it than the waiting
  demands. So work that should have been ordered before other work, and was not, comes too late, and
  values are wrong.
- Contexts are checked: a launch or a stream of another device than the current one fails, as it
  does in CUDA.
- Captures obey CUDA's rules on what a capturing thread may call; graphs run from what was recorded.
- A launch is refused where a device would refuse it (hardware_limits.py), and an AssertionError
  where its arrays lie outside of live memory or are not aligned to their elements. With
  `alignments`, a function (kernel, kinds, capability) of vector_alignment.py, arrays must be as
  aligned as the widest access of the kernel's machine code.
- Faults: `limit` (bytes of memory), `fail[function] = status` (once), `later = [function, k,
  status]` (its k-th call from now on, once), `lost = status` (every call from then on).

`installed(...)` puts one in place of the driver, with a fresh state of the runtime.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import ctypes
import gc
import itertools
import math
import threading

import numpy as np
from fake_status import INVALID, OK, CUresult, Names
from hardware_limits import MOST_SHARED, SHARED, refusal

from cudamath.core.asarray import upload
from cudamath.core.dispatch import plan
from cudamath.core.dispatch import steps as dispatch_steps
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.simulator import poison_block
from cudamath.kernels.compiler.storage_types import storage
from cudamath.runtime.memory import Pool, live_buffers
from cudamath.runtime.state import runtime

_DYNAMIC = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
_CLUSTER = "CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH"


class FakeStream:
    def __init__(self, index, handle):
        self.device, self.handle = index, handle
        self.queue = collections.deque()
        self.done = self.queued = 0  # work that has ended, and all
        self.runner = None  # the thread that runs its present work
        self.graph = None  # what is being captured
        self.forked = self.joined = (
            False  # whether another stream's capture reached it, and it that
        )
        self.broken = False


class FakeEvent:
    def __init__(self, index):
        self.device, self.stream, self.position, self.time, self.captured = (
            index,
            None,
            0,
            None,
            False,
        )


class Block:
    def __init__(self, index, size):
        self.device, self.size = index, size
        self.data = np.zeros(size + 512, np.uint8)  # where nothing is computed, zeros are read
        self.address = self.data.ctypes.data + 511 & -512


class Blocks(dict):
    """Address -> Block; and which block an address lies in."""

    order = None

    def __setitem__(self, address, block):
        self.order = None
        super().__setitem__(address, block)

    def __delitem__(self, address):
        self.order = None
        super().__delitem__(address)

    def pop(self, address):
        self.order = None
        return super().pop(address)

    def around(self, address, nbytes=1):
        """The block in which so many bytes from an address on lie, or None."""
        order = self.order
        if order is None:
            order = self.order = sorted(self)
        place = bisect.bisect_right(order, address) - 1
        if place < 0:
            return None
        block = self[order[place]]
        return block if address + nbytes <= block.address + block.size else None


class FakeDriver:
    CUresult = CUresult
    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP = 1, 2
    CUmemAttach_flags = type("flags", (), {"CU_MEM_ATTACH_GLOBAL": 1})
    CUstream = cuuint64_t = cuuint32_t = int

    def __init__(self, devices=2, limit=1 << 30):
        self.count, self.limit = devices, limit
        # what is not written shows; switched off where nothing is computed, memory is not touched
        # at all
        self.poisons = True
        self.idle = False  # whether kernels do nothing
        self.fail, self.later, self.lost = {}, None, None
        self.calls = collections.Counter()
        self.blocks, self.host = Blocks(), Blocks()  # device memory, page-locked memory
        self.streams = {(i, 0): FakeStream(i, 0) for i in range(devices)}
        self.ending = []
        self.events = {}
        self.graphs, self.executables = {}, {}
        self.kernels, self.libraries = {}, []  # handle -> (python function, argument kinds, device)
        self.loaded = {}  # a library's handle -> its place in `libraries`
        self.attributes = {}  # (library, kind) -> value
        self.of_library = {}  # a kernel's handle -> its library
        self.alignments = None
        self.demands = {}  # place in `libraries` -> what `alignments` says of that kernel
        self.launches = []
        self.peers = set()
        self.pool_access: set[tuple[int, int]] = set()  # (pool's device, device that may access)
        self.handles = itertools.count(0x1000, 0x10)
        self.clock = 0.0
        self.threads = threading.local()
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)  # work has come, or has ended
        for name in (
            "stream_flags",
            "event_flags",
            "device_attribute",
            "function_attribute",
            "memPool_attribute",
            "memLocationType",
            "streamCaptureMode",
            "pointer_attribute",
            "memAccess_flags",
            "tensorMapDataType",
            "tensorMapInterleave",
            "tensorMapSwizzle",
            "tensorMapL2promotion",
            "tensorMapFloatOOBfill",
            "launchAttributeID",
        ):
            setattr(self, f"CU{name}", Names(f"CU{name}"))

    def CUlaunchConfig(self):
        return type("config", (), {})()

    def CUlaunchAttribute(self):
        return type("attribute", (), {"value": type("value", (), {})()})()

    def CUmemAccessDesc(self):
        return type("desc", (), {"location": type("location", (), {})()})()

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        if not (name.startswith("cu") and name[2].isupper()):
            return found

        def call(*args):
            with self.lock:
                self.calls[name] += 1
                if self.lost is not None:
                    return self.failed(name, self.lost, ())
                if name in self.fail:
                    return self.failed(name, self.fail.pop(name), args)
                if self.later is not None and self.later[0] == name:
                    self.later[1] -= 1
                    if self.later[1] <= 0:
                        _, _, status = self.later
                        self.later = None
                        return self.failed(name, status, args)
                result = found(*args)
                return (
                    result
                    if isinstance(result, tuple)
                    else (OK,)
                    if result is None
                    else (OK, result)
                )

        return call

    def failed(self, name, status, args):
        """What a function returns with a status: most have a result, a launch has none. A capture
        that cannot be ended well has ended."""
        if name == "cuStreamEndCapture" and args:
            object.__getattribute__(self, name)(*args)
        return (status,) if name in ("cuLaunchKernel", "cuLaunchKernelEx") else (status, None)

    # -------------------- threads, contexts, devices

    @property
    def contexts(self):
        return self.threads.__dict__.setdefault("contexts", [])

    @property
    def current(self):
        return self.contexts[-1] if self.contexts else None

    def cuInit(self, flags):
        pass

    def cuDeviceGetCount(self):
        return self.count

    def cuDeviceGet(self, index):
        return index

    def cuDeviceGetName(self, length, index):
        return b"Fake %d" % index + b"\0" * 4

    def cuDeviceGetUuid(self, index):
        return type("uuid", (), {"bytes": bytes([index] * 16)})()

    def cuDeviceTotalMem(self, index):
        return self.limit

    def cuDeviceGetAttribute(self, kind, index):
        return {
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 9,
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 0,
            "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR": 2048,
        }.get(kind, 100)

    def cuDevicePrimaryCtxRetain(self, index):
        return index + 100  # a context is 100 + its device

    def cuCtxSetCurrent(self, context):
        self.contexts[-1:] = [context]

    def cuCtxPushCurrent(self, context):
        self.contexts.append(context)

    def cuCtxPopCurrent(self):
        return self.contexts.pop()

    def cuCtxGetCurrent(self):
        return self.current or 0

    def cuDeviceCanAccessPeer(self, index, peer):
        return 1

    def cuCtxEnablePeerAccess(self, context, flags):
        pair = (self.current, context)
        if pair in self.peers:
            return (CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,)
        self.peers.add(pair)

    # -------------------- streams and events

    def stream(self, handle):
        found = self.streams.get((self.current - 100, handle)) if self.current else None
        return found

    def enqueue(self, handle, work):
        """Put work on a stream (a node while it is captured); the status."""
        target = self.stream(handle)
        if target is None:
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        if target.graph is not None:
            target.graph.append(work)
        else:
            target.queue.append(work)
            target.queued += 1
            self.changed.notify_all()
        return (OK,)

    def run_until(self, target, position):
        """Runs a stream's work up to a place. Work that waits (fake_nccl.py) lets other threads go
        on: what comes behind it in its stream waits as well, in whichever thread."""
        while target.done < position:
            if target.runner is not None:
                assert target.runner != threading.get_ident(), "a stream waits for itself"
                assert self.changed.wait(timeout=20), "a stream's work does not end"
                continue
            target.runner = threading.get_ident()
            work = target.queue.popleft()
            self.clock += 1e-3
            try:
                work()
            finally:
                target.runner = None
                target.done += 1
                self.changed.notify_all()

    def finish(self, target):
        self.run_until(target, target.queued)

    def unsafe(self):
        """Whether this thread is capturing and has not relaxed: CUDA then forbids some calls, and
        breaks the capture."""
        if getattr(self.threads, "mode", None) == "CU_STREAM_CAPTURE_MODE_RELAXED":
            return False
        mine = [
            s
            for s in self.streams.values()
            if s.graph is not None and s.thread == threading.get_ident()
        ]
        for s in mine:
            s.broken = True
        return bool(mine)

    def cuThreadExchangeStreamCaptureMode(self, mode):
        before = getattr(self.threads, "mode", "CU_STREAM_CAPTURE_MODE_GLOBAL")
        self.threads.mode = mode
        return before

    def cuStreamCreate(self, flags):
        assert flags == "CU_STREAM_NON_BLOCKING"
        made = FakeStream(self.current - 100, next(self.handles))
        self.streams[made.device, made.handle] = made
        return made.handle

    def cuStreamCreateWithPriority(self, flags, priority):
        return self.cuStreamCreate(flags)

    def cuStreamDestroy(self, handle):
        if self.unsafe():
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
        for key in [key for key in self.streams if key[1] == handle]:
            assert self.streams[key].graph is None
            self.ending.append(self.streams.pop(key))  # its work goes on

    def cuStreamSynchronize(self, handle):
        target = self.stream(handle)
        if target is None:
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        if target.graph is not None:
            target.broken = True
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
        if self.unsafe():
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
        self.finish(target)

    def cuStreamQuery(self, handle):
        target = self.stream(handle)
        return (OK if target.done == target.queued else CUresult.CUDA_ERROR_NOT_READY,)

    def cuStreamIsCapturing(self, handle):
        return OK, int(self.stream(handle).graph is not None)

    def cuCtxSynchronize(self):
        here = [s for s in self.streams.values() if s.device == self.current - 100]
        if any(s.graph is not None for s in here):
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
        for s in [*here, *self.ending]:
            self.finish(s)

    def cuEventCreate(self, flags):
        handle = next(self.handles)
        self.events[handle] = FakeEvent(self.current - 100)
        return handle

    def cuEventDestroy(self, handle):
        del self.events[handle]

    def cuEventRecord(self, handle, on):
        event, target = self.events[handle], self.stream(on)
        if target is None or event.device != target.device:
            return (CUresult.CUDA_ERROR_INVALID_HANDLE,)
        if target.graph is not None:
            event.captured, event.source = True, target
            return None
        event.captured = False
        event.time = None

        def mark():
            event.time = self.clock

        self.enqueue(on, mark)
        event.stream, event.position = target, target.queued

    def cuStreamWaitEvent(self, on, handle, flags):
        event = self.events[handle]
        target, source, position = self.stream(on), event.stream, event.position
        if target is None:
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        if event.captured and target.graph is None:  # the capture goes on in this stream too
            target.graph, target.broken, target.forked = event.source.graph, False, True
            target.thread = event.source.thread
            return None
        if event.captured and event.source.forked:
            event.source.joined = True
        if target.graph is not None and not event.captured:
            target.broken = True
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_ISOLATION,)
        if source is not None and not event.captured:
            target.queue.append(lambda: self.run_until(source, position))
            target.queued += 1

    def cuEventSynchronize(self, handle):
        event = self.events[handle]
        if event.stream is not None:
            self.run_until(event.stream, event.position)

    def cuEventQuery(self, handle):
        stream, position = self.events[handle].stream, self.events[handle].position
        return (OK if stream is None or stream.done >= position else CUresult.CUDA_ERROR_NOT_READY,)

    def cuEventElapsedTime(self, start, end):
        times = [self.events[e].time for e in (start, end)]
        return (CUresult.CUDA_ERROR_INVALID_HANDLE, None) if None in times else times[1] - times[0]

    # -------------------- memory

    def in_use(self, index):
        return sum(b.size for b in self.blocks.values() if b.device == index)

    def take(self, index, size):
        if self.in_use(index) + size > self.limit:
            for ended in self.ending:  # the driver waits for what is being freed
                self.finish(ended)
        if self.in_use(index) + size > self.limit:
            return (CUresult.CUDA_ERROR_OUT_OF_MEMORY, 0)
        block = Block(index, size)
        if self.poisons:
            poison_block(block.address, size)
        self.blocks[block.address] = block
        return block.address

    def cuMemAllocAsync(self, size, on):
        target = self.stream(on)
        if target is None:
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT, 0)
        assert target.graph is None, "a graph would own this memory"
        return self.take(target.device, size)

    def cuMemFreeAsync(self, address, on):
        assert address in self.blocks, "freed twice, or never taken"
        target = self.stream(on)
        assert target is None or target.graph is None, "a graph frees what it has taken alone"
        return self.enqueue(on, lambda: self.blocks.pop(address))

    def cuMemFree(self, address):
        assert not self.unsafe()
        (self.host if address in self.host else self.blocks).pop(address)

    def cuMemGetInfo(self):
        return (OK, self.limit - self.in_use(self.current - 100), self.limit)

    def cuDeviceGetDefaultMemPool(self, index):
        return index

    def cuMemPoolTrimTo(self, pool, keep):
        pass

    def cuMemPoolSetAttribute(self, pool, kind, value):
        pass

    def cuMemPoolSetAccess(self, pool, access, count):
        assert len(access) == count
        self.pool_access |= {(pool, each.location.id) for each in access}

    def cuMemHostAlloc(self, size, flags):
        assert not self.unsafe()
        block = Block(-1, size)
        if self.poisons:
            poison_block(block.address, size)
        self.host[block.address] = block
        return block.address

    def cuMemAllocManaged(self, size, flags):
        return self.cuMemHostAlloc(size, flags)

    def cuMemFreeHost(self, address):
        assert not self.unsafe()
        del self.host[address]

    def locked(self, address):
        return self.host.around(address) is not None

    def still_locked(self, block):
        """A copy from or to page-locked memory (`block`; None: to other memory) has come."""
        assert block is None or self.host.get(block.address) is block, (
            "page-locked memory went before its copy came"
        )

    def cuPointerGetAttribute(self, kind, address):
        if kind.endswith("MEMORY_TYPE"):
            return (OK, 1) if self.locked(address) else (INVALID, None)
        assert kind.endswith("DEVICE_ORDINAL")
        return self.blocks.around(address).device

    def check(self, address, nbytes, index):
        """The range must lie in live memory of the device, or in page-locked memory."""
        block = self.blocks.around(address, nbytes) or self.host.around(address, nbytes)
        if block is not None:
            assert block.device in (-1, index), (
                f"memory of cuda:{block.device} used on cuda:{index}"
            )
            return
        raise AssertionError(f"{nbytes} bytes at {address:#x} are not live memory")

    def cuMemcpyHtoDAsync(self, target, source, nbytes, on):
        index = self.current - 100
        late = self.host.around(source) if isinstance(source, int) else None
        assert late or self.stream(on).graph is None, "a replay would read pageable memory"
        data = (
            None
            if late
            else source
            if isinstance(source, bytes)
            else ctypes.string_at(source, nbytes)
        )

        def copy():
            self.still_locked(late)
            self.check(target, nbytes, index)
            ctypes.memmove(target, source if data is None else data, nbytes)

        return self.enqueue(on, copy)

    def cuMemcpyDtoHAsync(self, target, source, nbytes, on):
        source = int(source)  # the bindings make a CUdeviceptr of it
        index, late = self.current - 100, self.host.around(target)

        def copy():
            self.still_locked(late)
            self.check(source, nbytes, index)
            ctypes.memmove(target, source, nbytes)

        status = self.enqueue(on, copy)
        if late is None:  # to pageable memory the driver waits
            self.finish(self.stream(on))
        return status

    def cuMemcpyDtoDAsync(self, target, source, nbytes, on):
        index = self.current - 100

        def copy():
            self.check(source, nbytes, index)
            self.check(target, nbytes, index)
            ctypes.memmove(target, source, nbytes)

        return self.enqueue(on, copy)

    def cuMemsetD8Async(self, target, value, nbytes, on):
        index = self.current - 100

        def fill():
            self.check(target, nbytes, index)
            ctypes.memset(target, value, nbytes)

        return self.enqueue(on, fill)

    def cuMemcpyPeerAsync(self, target, target_context, source, source_context, nbytes, on):
        def copy():
            self.check(source, nbytes, source_context - 100)
            self.check(target, nbytes, target_context - 100)
            ctypes.memmove(target, source, nbytes)

        return self.enqueue(on, copy)

    # -------------------- kernels

    def compiler(self, kernel, signature, capability):
        """Stands in for runtime.compiler: the "machine code" is a number in `libraries`."""
        self.libraries.append((kernel, list(signature)))
        if self.alignments is not None:
            demand = self.alignments(kernel, signature, capability)
            self.demands[len(self.libraries) - 1] = demand
        return b"\x7fELF%d" % (len(self.libraries) - 1)

    def cuLibraryLoadData(self, code, *options):
        handle = next(self.handles)
        self.loaded[handle] = int(code[4:])
        return handle

    def cuLibraryGetKernelCount(self, library):
        return 1

    def cuLibraryEnumerateKernels(self, count, library):
        return [library]

    def cuKernelGetFunction(self, kernel):
        handle = next(self.handles)
        self.kernels[handle] = (*self.libraries[self.loaded[kernel]], self.current - 100)
        self.of_library[handle] = kernel
        return handle

    def cuKernelSetAttribute(self, kind, value, kernel, index):
        self.attributes[kernel, kind] = value

    def cuKernelGetAttribute(self, kind, kernel, index):
        return {
            "CU_FUNC_ATTRIBUTE_NUM_REGS": 32,
            "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK": 1024,
        }.get(kind, self.attributes.get((kernel, kind), 0))

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function, block, shared):
        return min(2048 // block, 4, MOST_SHARED // max(shared, 1))

    def resident(self, handle, block, shared):
        """How many blocks of a kernel run at the same time."""
        _, held = self.cuOccupancyMaxActiveBlocksPerMultiprocessor(handle, block, shared)
        kind = "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"
        _, count = self.cuDeviceGetAttribute(kind, self.kernels[handle][2])
        return held * count

    def cuLaunchKernel(self, handle, gx, gy, gz, bx, by, bz, shared, on, pointer, extra):
        library = self.of_library.get(handle)
        allowed = self.attributes.get((library, _DYNAMIC), SHARED)
        cluster = self.attributes.get((library, _CLUSTER), 1)
        if refusal((gx, gy, gz), (bx, by, bz), shared, allowed, cluster):
            return (CUresult.CUDA_ERROR_INVALID_CONFIGURATION if bx * by * bz > 1024 else INVALID,)
        kernel, kinds, index = self.kernels[handle]
        if self.current != index + 100:
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        table = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))
        args, at = [], 0
        for kind in kinds:
            if isinstance(kind, Layout):
                ndim = max(kind.ndim, 1)
                words = [
                    ctypes.c_int64.from_address(table[at + i]).value for i in range(5 + 2 * ndim)
                ]
                args.append((storage(kind.dtype), words, ndim))
                at += len(words)
            else:
                parts = 2 if kind.kind == "c" else 1
                data = b"".join(
                    ctypes.string_at(table[at + i], kind.itemsize // parts) for i in range(parts)
                )
                args.append(np.frombuffer(data, kind)[0])
                at += parts
        for described in args:
            if isinstance(described, tuple):
                self.check_array(described, index)
        demands = self.demands.get(self.loaded.get(library))
        if demands:
            self.check_alignment(demands, args, self.stream(on))
        self.launches.append(
            (getattr(kernel, "__name__", "kernel"), (gx, gy, gz), (bx, by, bz), shared, on, args)
        )

        def run():
            if not self.idle:
                kernel(*[self.view(a, index) if isinstance(a, tuple) else a for a in args])

        return self.enqueue(on, run)

    def cuLaunchKernelEx(self, config, handle, pointer, extra):
        (attribute,) = config.attrs[: config.numAttrs]
        kinds = self.CUlaunchAttributeID
        sizes = [getattr(config, f"{of}Dim{axis}") for of in ("grid", "block") for axis in "XYZ"]
        if attribute.id == kinds.CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            resident = self.resident(handle, math.prod(sizes[3:]), config.sharedMemBytes)
            if attribute.value.cooperative and math.prod(sizes[:3]) > resident:
                return (CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,)
        elif attribute.id != kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            return (CUresult.CUDA_ERROR_NOT_SUPPORTED,)
        return self.cuLaunchKernel(
            handle, *sizes, config.sharedMemBytes, config.hStream, pointer, extra
        )

    def check_array(self, described, index):
        """An array argument, whose bytes lie in live memory, and its elements where they may:
        (address of the first byte, bytes, shape, strides)."""
        dtype, (meminfo, parent, size, itemsize, address, *rest), ndim = described
        shape, strides = rest[:ndim], rest[ndim:]
        assert (meminfo, parent, itemsize) == (0, 0, dtype.itemsize) and size == math.prod(shape)
        if size == 0:
            return address, 0, shape, strides
        lowest, highest, item = 0, itemsize, min(itemsize, 8)
        assert not address % item, f"{dtype} at {address:#x}"
        for n, s in zip(shape, strides, strict=True):
            if n > 1:
                assert not s % item, f"{dtype} {s} bytes apart"
                lowest, highest = lowest + min((n - 1) * s, 0), highest + max((n - 1) * s, 0)
        self.check(address + lowest, highest - lowest, index)
        return address + lowest, highest - lowest, shape, strides

    def view(self, described, index):
        """What a kernel sees of an array argument."""
        dtype, (*_, address), _ = described[0], described[1][:5], described[2]
        start, nbytes, shape, strides = self.check_array(described, index)
        if not nbytes:
            return np.empty(shape, dtype)
        memory = (ctypes.c_char * nbytes).from_address(start)
        return np.ndarray(shape, dtype, memory, address - start, strides)

    def check_alignment(self, demands, args, target):
        """Arrays, and those in tables of addresses, are as aligned as the widest accesses."""
        for (number, through_table), nbytes in demands.items():
            dtype, words, _ = args[number]
            addresses = [words[4]] if words[2] else []
            if through_table and addresses:
                if dtype != np.int64:
                    continue  # not a table of addresses
                self.finish(target)  # which brings the table
                table = (ctypes.c_int64 * words[2]).from_address(words[4])
                addresses = [a for a in table if self.blocks.around(a)]
            for address in addresses:
                assert not address % nbytes, (
                    f"an access of {nbytes} bytes to argument {number}, which lies at {address:#x}"
                )

    def cuTensorMapEncodeTiled(self, kind, rank, address, shape, strides, box, steps, *rest):
        """A map that says: address, rank, sizes (innermost first)."""
        bad = (
            address % 16
            or any(n % 16 for n in strides)
            or not rank == len(shape) == len(strides) + 1 == len(steps)
        )
        return (
            (INVALID, None)
            if bad
            else type("map", (), {"opaque": [address, rank, *shape, *[0] * (14 - rank)]})()
        )

    def cuTensorMapEncodeIm2col(
        self, kind, rank, address, shape, strides, lower, upper, channels, pixels, steps, *rest
    ):
        return self.cuTensorMapEncodeTiled(kind, rank, address, shape, strides, shape, steps)

    # -------------------- graphs

    def cuStreamBeginCapture(self, handle, mode):
        assert mode == "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL"
        target = self.stream(handle)
        target.graph, target.broken, target.thread = [], False, threading.get_ident()

    def cuStreamEndCapture(self, handle):
        target = self.stream(handle)
        nodes, target.graph = target.graph, None
        forks = [s for s in self.streams.values() if s.graph is nodes]
        joined = all(s.joined for s in forks)
        for s in forks:
            s.graph, s.forked, s.joined = None, False, False
            target.broken |= s.broken
        if not joined:
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNJOINED, None)
        if target.broken:
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, None)
        made = next(self.handles)
        self.graphs[made] = nodes
        return made

    def cuGraphGetNodes(self, graph, count):
        return (OK, [], len(self.graphs[graph]))

    def cuGraphInstantiate(self, graph, flags):
        made = next(self.handles)
        self.executables[made] = self.graphs[graph]
        return made

    def cuGraphDestroy(self, graph):
        del self.graphs[graph]

    def cuGraphExecDestroy(self, executable):
        if self.unsafe():
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
        del self.executables[executable]

    def cuGraphLaunch(self, executable, on):
        for work in self.executables[executable]:
            status = self.enqueue(on, work)
            if status[0]:
                return status


@contextlib.contextmanager
def installed(monkeypatch, **options):
    """A fake in place of the driver, and a fresh state of the runtime."""
    fake = FakeDriver(**options)
    for variable in (
        "NUMBA_ENABLE_CUDASIM",
        "CUDAMATH_DEVICE",
        "CUDAMATH_MEMORY_FRACTION",
        "CUDAMATH_CACHE_SIZE",
    ):
        monkeypatch.delenv(variable, raising=False)
    with runtime.replaced(fake, fake.compiler):
        try:
            yield fake
            check_memory(fake)
        finally:
            fake.lost = None


def check_memory(fake):
    """Every byte that the pools hold from the driver lies in a buffer or in a free list, and those
    in free lists go back when they are asked for."""
    fake.idle = True  # what was launched and never waited for need not be a Python function
    for pool in [pool for pool in runtime.pools.values() if isinstance(pool, Pool)]:
        in_use, cached = _held_by(pool)
        if (pool.used, pool.cached) != (in_use, cached):
            gc.collect()  # of a cycle of garbage, the collection may have seen a part
            in_use, cached = _held_by(pool)
        assert (pool.used, pool.cached) == (in_use, cached), (
            f"cuda:{pool.device}: the pool counts {pool.used} bytes in use and {pool.cached} "
            f"cached; buffers hold {in_use}, free lists {cached}"
        )
        if fake.lost is None and not fake.fail:
            pool.trim()
            graphs = sum(
                size * len(blocks)
                for stream in pool.streams
                if stream.graph_only
                for size, blocks in stream.free.items()
            )
            assert pool.reserved == in_use + graphs, (
                f"cuda:{pool.device}: {pool.reserved} bytes are reserved after `empty_cache`, of "
                f"which buffers hold {in_use} and graphs {graphs}"
            )


def _held_by(pool):
    """Bytes in the buffers of a pool, and in its free lists."""
    buffers = [b for b in live_buffers(pool.device) if b.stream.pool is pool]
    cached = sum(size * count for size, count in pool.free_blocks().items())
    return sum(buffer.size for buffer in buffers), cached


def gpu(x, index=0):
    """A NumPy array, or what becomes one, on a (fake) GPU."""
    return upload(np.asarray(x), index)


def bind(
    kernel,
    inputs,
    outputs,
    args,
    *,
    grid=1,
    block=32,
    shared=0,
    temps=(),
    scalars=0,
    name="op",
    device=None,
):
    """`run` of a plan with one launch. `inputs`: arrays; outputs and temps: (shape, dtype)."""
    layouts = [x._layout for x in inputs]
    index = layouts[0].device if layouts else device or 0
    new = [
        [Layout.new(shape, np.dtype(dtype), index) for shape, dtype in group]
        for group in (outputs, temps)
    ]
    return plan.Plan(
        new[0], [dispatch_steps.Launch(kernel, grid, block, args, shared)], new[1]
    ).bind(name, layouts, scalars, index)


def public(run):
    """`run` as a public function calls it: with two frames of ours in between, by which the user's
    line is found."""
    source = (
        "def again(*arrays):\n    return run(*arrays)\n\ndef function(*arrays):\n    return "
        "again(*arrays)\n"
    )
    exec(compile(source, "<cudamath test>", "exec"), made := {"run": run})
    return made["function"]
