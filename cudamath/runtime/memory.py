"""Device memory: stream-ordered pools, statistics and limits; copies.

Blocks come from the driver's stream-ordered allocator. A freed block goes to the free list of its
size, on the stream that used it last. Taking a block from a free list costs a list pop (0.06 us,
against 0.95 us for the driver's allocate and free). Sizes are rounded so that similar arrays share
blocks: to 512 bytes below 1 MiB, to an eighth of a power of two above (at most 12.5 % lost).

`Buffer` owns one block and returns it when it is finalised. A block that was used on a second
stream is returned only after the owning stream has been made to wait for that use, so the user need
not keep arrays alive.

A stream carries four fields of this module: `pool`, the pool of its device, and three fields that
`Pool.attach` adds: `free`, its free lists by size, and, during the capture of a graph, `borrowed`,
the free lists that it took over from the stream `lender`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import struct
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from . import device as devices
from . import stream as streams
from .dry import FIRST, DryStream
from .errors import CudaError, OutOfMemoryError, check, named, out_of_memory, public_function
from .interrupts import call_at_once, uninterrupted
from .state import runtime

T = TypeVar("T")

SMALL = 512
LARGE = 1 << 20


def rounded(nbytes: int) -> int:
    """Size of the block that serves a request of `nbytes`."""
    if nbytes <= LARGE:
        return (nbytes + SMALL - 1) & -SMALL or SMALL
    step = 1 << ((nbytes - 1).bit_length() - 4)
    return (nbytes + step - 1) & -step


@devices.finalised
class Buffer:
    """The owner of one block of device memory; the block returns to its stream's free list when
    the last reference goes."""

    __slots__ = ("address", "size", "stream", "users")

    address: int
    size: int
    stream: streams.Stream
    users: list[streams.Stream] | None

    def __new__(cls, nbytes: int, stream: streams.Stream) -> Buffer:
        buffer = object.__new__(cls)
        buffer.size, buffer.stream, buffer.users = rounded(nbytes), stream, None
        # Last: where memory runs out, or an interrupt (Ctrl-C) comes, the buffer owns nothing yet.
        buffer.address = allocate(buffer.size, stream)
        return buffer

    def used_on(self, stream: streams.Stream) -> None:
        """Note a use on a stream that is not the owner: the block will be reused only after it."""
        if stream.graph_only:  # replays will use it: it lives as long as the graph
            stream.kept[id(self)] = self
        elif self.users is None:
            self.users = [stream]
        elif stream not in self.users:
            self.users.append(stream)

    @uninterrupted
    def __del__(self) -> None:
        # Hot: every result array dies here. Everything unusual is in Pool.release.
        try:
            address = self.address
            size = self.size
            stream = self.stream
            pool = stream.pool
            if self.users is None and pool.cache_limit is None:
                blocks = stream.free[size]
                pool.used -= size
                blocks.append(address)
                return
        except AttributeError:  # it has no block yet
            return
        except KeyError:  # the stream has ended
            pass
        pool.used -= size
        pool.release(address, size, stream, self.users or [])


def live_buffers(index: int) -> list[Buffer]:
    """The buffers of a device, but for those that another thread is about to make."""
    return [
        b
        for b in gc.get_objects()
        if type(b) is Buffer and hasattr(b, "address") and b.stream.device == index
    ]


#: `Buffer(nbytes, stream)` as text, for generated launch code, where two Python calls would cost a
#: tenth of a launch. It leaves {name}_address and {name}_buffer, and finds {name}_size, a rounded
#: size, and `stream`. tests/runtime/test_memory.py holds it against `Buffer`.
_BUFFER_CODE = """\
{name}_buffer = b = new(Buffer); b.size = {name}_size; b.stream = stream; b.users = None
b.address = {name}_address = allocate({name}_size, stream)
"""


def buffer_code(name: str) -> list[str]:
    """The lines that make a Buffer in generated code; their names are those of `code_names`."""
    return _BUFFER_CODE.format(name=name).splitlines()


def code_names() -> dict[str, Any]:
    """What the lines of `buffer_code` use."""
    return {"allocate": allocate, "Buffer": Buffer, "new": object.__new__}


@devices.finalised
class Borrowed:
    """Memory that another library owns; kept alive as long as an array refers to it.

    Once returned it may be reused at once, in the order of that library's stream. That is the
    default stream unless its user chose another, so the default stream is made to wait for what we
    did elsewhere.
    """

    __slots__ = ("owner", "stream", "users")

    def __init__(self, owner: Any, stream: streams.Stream):
        self.owner = owner
        self.stream = stream
        self.users = {stream}

    def used_on(self, stream: streams.Stream) -> None:
        """Note a use on another stream."""
        if stream.graph_only:
            stream.kept[id(self)] = self
        else:
            self.users.add(stream)

    def __del__(self) -> None:
        try:
            home = streams.default_stream(self.stream.device)
            for user in self.users:
                if user is not home and user.standing() is not home:
                    user.settle()
        except Exception:  # interpreter shutdown
            pass


def checked_fraction(fraction: float) -> float:
    """A fraction of a device's memory; ValueError if it is none."""
    if not 0 < fraction <= 1:
        raise ValueError(f"set_memory_fraction: fraction must be in (0, 1], got {fraction}")
    return fraction


class Pool:
    """All memory of one device: what is in use, what is cached, and the limits on both."""

    def __init__(self, index: int):
        self.device = index
        self.used = 0  # bytes in live buffers
        self.reserved = 0  # bytes held from the driver
        self.peak = 0
        self.reserved_peak = 0
        self.allocations = 0  # blocks asked of the driver
        self.releases = 0
        self.limit: int | None = None  # most bytes reserved
        self.streams: weakref.WeakSet[streams.Stream] = weakref.WeakSet()
        self.watch: Callable[[Pool, str, int], None] | None = (
            None  # told of growth ("reserved") and "exhausted"
        )
        self._side: Any = None  # a stream that never takes part in a capture
        #: Blocks, with sizes, that have no owner and whose last use is not known to have ended:
        #: failures to order their reuse, and interrupts, leave them. `trim` frees them.
        self.strays: list[tuple[int, int]] = []
        fraction = _setting("CUDAMATH_MEMORY_FRACTION", float)
        if fraction is not None:
            self.set_fraction(fraction)
        self.cache_limit: int | None = _setting(
            "CUDAMATH_CACHE_SIZE", parse_size
        )  # most bytes cached

    def set_fraction(self, fraction: float) -> None:
        """Reserve at most this fraction of the device's memory."""
        self.limit = int(devices.info(self.device).total_memory * checked_fraction(fraction))

    @property
    def cached(self) -> int:
        """Bytes held from the driver and not in use."""
        return self.reserved - self.used

    def attach(self, stream: streams.Stream) -> None:
        """Give a new stream its free lists."""
        stream.free, stream.borrowed, stream.lender = {}, {}, None
        with devices.lock:
            self.streams.add(stream)

    def refill(self, size: int, stream: streams.Stream, blocks: list[int]) -> None:
        """Add to a stream's free blocks of this size one that was borrowed for a capture, or a new
        one."""
        borrowed = stream.borrowed.get(size)
        if borrowed:
            try:
                # one line: see `allocate`
                address = borrowed[-1]; del borrowed[-1]; blocks.append(address)  # fmt: skip # noqa: E702
                return
            except IndexError:  # another thread was faster
                pass
        self.add_new(size, stream, blocks)

    def add_new(self, size: int, stream: streams.Stream, blocks: list[int]) -> None:
        """Add a block from the driver to a list. When memory or a limit is exhausted, cached blocks
        are given back first."""
        with devices.lock:
            if self.limit is not None and self.reserved + size > self.limit:
                self.trim()
                if self.reserved + size > self.limit:
                    raise self.exhausted(
                        size,
                        f"the limit set by set_memory_fraction / CUDAMATH_MEMORY_FRACTION "
                        f"is {human(self.limit)}",
                    )
            try:
                self.insist(lambda: self._from_driver(size, stream, blocks))
            except OutOfMemoryError:
                raise self.exhausted(size, "the device has no more") from None
        if self.watch is not None:
            self.watch(self, "reserved", size)

    def _from_driver(self, size: int, stream: streams.Stream, blocks: list[int]) -> None:
        if stream.capturing:
            self.beside_capture(lambda side: self._new_block(size, side, blocks))
            return
        with streams.in_context(self.device):
            streams.take_back(self.device)  # the default stream is of whatever device is current
            self._new_block(size, stream.handle, blocks)

    def _new_block(self, size: int, handle: Any, blocks: list[int]) -> None:
        outcome: list[tuple] = []
        try:
            call_at_once(outcome, devices.driver().cuMemAllocAsync, size, handle)
            address = int(check(outcome[0]))
        except BaseException:  # an interrupt (Ctrl-C) too
            if outcome and not outcome[0][0]:
                self.reserved += size
                self.strays.append((int(outcome[0][1]), size))
            raise
        self.reserved += size
        blocks.append(address)  # the first call since the block is ours
        self.allocations += 1
        self.reserved_peak = max(self.reserved_peak, self.reserved)

    def insist(self, work: Callable[[], T]) -> T:
        """`work()`; where memory runs out once more, with all cached blocks given back: they may be
        what it lacks."""
        try:
            return work()
        except Exception as error:
            if not out_of_memory(error):
                raise
        self.trim()
        return work()

    def beside_capture(self, work: Callable[[Any], T]) -> T:
        """Run `work(stream)` at once, outside any capture under way: a graph must not own what it
        only uses."""
        cu = devices.driver()
        with devices.lock, streams.in_context(self.device), relaxed():
            if self._side is None:
                self._side = check(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
            result = self.insist(lambda: work(self._side))
            check(cu.cuStreamSynchronize(self._side))
            return result

    def prefetch(self, nbytes: int) -> None:
        """Have the driver map this much: it keeps what it has mapped until `trim`."""

        def work(side: Any) -> None:
            check(
                devices.driver().cuMemFreeAsync(
                    check(devices.driver().cuMemAllocAsync(nbytes, side)), side
                )
            )

        try:
            self.beside_capture(work)
        except OutOfMemoryError:
            raise self.exhausted(nbytes, "the device has no more") from None

    @uninterrupted
    def release(
        self, address: int, size: int, stream: streams.Stream, users: list[streams.Stream]
    ) -> None:
        """Return the block of a buffer that has died, where an ended stream, its use on other
        streams or a cache limit makes that more than a list append."""
        try:
            stream = self._after_last_use(stream, users)
            over_limit = self.cache_limit is not None and self.cached > self.cache_limit
            blocks = stream.free.setdefault(size, [])
        except BaseException as error:  # no event could be made; a capture is under way; Ctrl-C
            self.strays.append((address, size))
            if isinstance(error, Exception):
                return
            raise
        if not over_limit or stream.graph_only:
            blocks.append(address)
            return
        with contextlib.suppress(Exception):  # it is a stray then
            self._to_driver(address, size, stream)

    def _after_last_use(
        self, stream: streams.Stream, users: list[streams.Stream]
    ) -> streams.Stream:
        """The stream that takes a block over from `stream`, once it has been ordered after the work
        of all users."""
        ended = [user for user in (stream, *users) if not user.standing().open]
        if ended:  # finalised first, in the same cycle of garbage: wait for everything
            with streams.in_context(self.device):
                check(devices.driver().cuCtxSynchronize())
        stream = streams.default_stream(self.device) if stream in ended else stream.standing()
        for user in users:
            if user not in ended and user.standing() is not stream:
                stream.wait(user.standing())
        return stream

    @uninterrupted
    def _to_driver(self, address: int, size: int, stream: streams.Stream) -> None:
        outcome: list[tuple] = []
        try:
            with devices.lock, streams.in_context(self.device):
                free, handle = devices.driver().cuMemFreeAsync, stream.standing().handle
                call_at_once(outcome, free, address, handle)
        finally:  # also where an interrupt follows
            if outcome and not outcome[0][0]:
                self.reserved -= size
                self.releases += 1
            else:
                self.strays.append((address, size))
        check(outcome[0])

    def release_stream(self, stream: streams.Stream) -> None:
        """Give all cached blocks of a stream back to the driver."""
        for size, blocks in list(stream.free.items()):
            while True:
                try:
                    address = blocks[-1]; del blocks[-1]  # fmt: skip # noqa: E702 see `allocate`
                except IndexError:  # not tested beforehand: other threads take blocks meanwhile
                    break
                self._to_driver(address, size, stream)

    def _release_strays(self) -> None:
        """Give the blocks without an owner back to the driver, when all work that may use them has
        ended."""
        if not self.strays or runtime.captures:  # a capture does not allow to wait for a device
            return
        check(devices.driver().cuCtxSynchronize())
        stream = streams.default_stream(self.device)
        for _ in range(len(self.strays)):
            address, size = self.strays[0]; del self.strays[0]  # fmt: skip # noqa: E702
            self._to_driver(address, size, stream)

    def trim(self) -> None:
        """Give every cached block back to the driver and the driver's own cache back to the
        device."""
        cu = devices.driver()
        with devices.lock, streams.in_context(self.device), relaxed():
            for stream in self.streams:
                if stream.borrowed:
                    return_blocks(stream)
            open_streams = [s for s in self.streams if not s.graph_only and s.open]
            for stream in open_streams:
                self.release_stream(stream)
            self._release_strays()
            with contextlib.suppress(CudaError):  # a device cannot be waited for: the next time
                release_host_memory()
            for stream in open_streams:
                if stream.standing() is stream:
                    check(cu.cuStreamSynchronize(stream.handle))
            check(
                cu.cuMemPoolTrimTo(
                    check(cu.cuDeviceGetDefaultMemPool(check(cu.cuDeviceGet(self.device)))), 0
                )
            )

    def free_blocks(self) -> dict[int, int]:
        """Cached blocks: size -> how many."""
        counts: Counter[int] = Counter()
        with devices.lock:
            for stream in self.streams:
                for size, blocks in [*stream.free.items(), *stream.borrowed.items()]:
                    counts[size] += len(blocks)
            counts.update(size for _, size in self.strays)
        return {size: count for size, count in sorted(counts.items()) if count}

    def exhausted(self, size: int, why: str) -> OutOfMemoryError:
        """The error that says what was requested, what there is, and who holds most."""
        if self.watch is not None:
            self.watch(self, "exhausted", size)
        free, total = memory_info(self.device)
        largest = max(self.free_blocks(), default=0)
        holders = (
            ", ".join(
                f"{human(nbytes)} in {count} buffer{'s' * (count > 1)} of {human(each)}"
                for nbytes, each, count in biggest_holders(self.device)
            )
            or "none"
        )
        return OutOfMemoryError(
            named(
                f"cuda:{self.device}: cannot allocate {human(size)}: {why}. In use "
                f"{human(self.used)}, reserved {human(self.reserved)}, largest cached block "
                f"{human(largest)}, free on the device {human(free)} of {human(total)}. Biggest "
                f"holders: {holders}"
            )
        )


relaxed = streams.relaxed


def pool_of(index: int) -> Pool:
    """The pool of a device."""
    pool = runtime.pools.get(index)
    if pool is None:
        with devices.lock:
            pool = runtime.pools.get(index)
            if pool is None:
                _keep_driver_cache(index)
                pool = runtime.pools[index] = Pool(index)
    return pool


streams.pool_of = pool_of


def _keep_driver_cache(index: int) -> None:
    """Let the driver's pool keep freed memory until we trim it, instead of unmapping it at each
    synchronisation."""
    cu = devices.driver()
    with streams.in_context(index):
        handle = check(cu.cuDeviceGetDefaultMemPool(check(cu.cuDeviceGet(index))))
        attribute = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        check(cu.cuMemPoolSetAttribute(handle, attribute, cu.cuuint64_t((1 << 64) - 1)))


def allocate(size: int, stream: streams.Stream) -> int:
    """Address of a block of exactly `size` (a rounded size), from the stream's free list or the
    driver."""
    pool = stream.pool
    while True:
        try:
            blocks = stream.free[size]
            # One line without a call: Python neither switches threads nor runs signal handlers
            # there. The caller too stores the block before it calls anything.
            address = blocks[-1]; del blocks[-1]; pool.used += size  # fmt: skip # noqa: E702
        except LookupError:
            pool.refill(size, stream, stream.free.setdefault(size, []))
        else:
            if pool.used > pool.peak:
                pool.peak = pool.used
            return address


def _allocate_without_gil(size: int, stream: streams.Stream) -> int:
    """`allocate` where threads run at the same time: an interrupt may lose a block, but no two
    threads get one."""
    blocks, pool = stream.free.setdefault(size, []), stream.pool
    while True:
        try:
            address = blocks.pop()
        except IndexError:
            pool.refill(size, stream, blocks)
        else:
            pool.used += size
            pool.peak = max(pool.peak, pool.used)
            return address


if not getattr(sys, "_is_gil_enabled", lambda: True)():
    allocate = _allocate_without_gil


@uninterrupted
def replace_allocate(function: Callable[[int, streams.Stream], int]) -> None:
    """Let `function` take the place of `allocate`, in `Buffer` and in generated code."""
    global allocate
    allocate = function  # type: ignore[assignment]
    if "allocate" in runtime.launcher:
        runtime.launcher["allocate"] = function


def borrow_blocks(stream: streams.Stream, lender: streams.Stream) -> None:
    """Let a stream, which has waited for the lender, take blocks from the lender's free lists until
    `return_blocks`."""
    stream.lender = lender
    for size, blocks in list(lender.free.items()):
        addresses = stream.borrowed[size] = []
        while True:
            try:
                address = blocks[-1]; del blocks[-1]; addresses.append(address)  # fmt: skip # noqa: E702
            except IndexError:  # not tested beforehand: other threads take blocks meanwhile
                break


@uninterrupted
def return_blocks(stream: streams.Stream) -> None:
    """Return the blocks that a stream borrowed and did not use."""
    try:
        lender = stream.lender
        for size, blocks in stream.borrowed.items():
            if lender is not None and blocks:
                free = lender.free.setdefault(size, [])
                free += blocks
                del blocks[:]
        stream.borrowed = {}
    finally:  # an interrupt (Ctrl-C) leaves the rest where `trim` and the stream's end find it
        stream.lender = None


def biggest_holders(index: int, most: int = 3) -> list[tuple[int, int, int]]:
    """(total bytes, block size, count) of the live buffers of a device, grouped by size, largest
    total first."""
    sizes = Counter(b.size for b in live_buffers(index))
    return sorted(((size * count, size, count) for size, count in sizes.items()), reverse=True)[
        :most
    ]


def memory_info(index: int) -> tuple[int, int]:
    """(free, total) bytes of a device, as the driver sees them."""
    with streams.in_context(devices.validate(index, "memory_info")):
        free, total = check(devices.driver().cuMemGetInfo())
    return int(free), int(total)


def human(nbytes: int) -> str:
    """Bytes in words: 1536 -> '1.50 KiB'."""
    value, unit = float(nbytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{nbytes} B" if unit == "B" else f"{value:.2f} {unit}"


def _setting(variable: str, read: Callable[[str], T]) -> T | None:
    """What `read` makes of an environment variable; None if that is not set. ValueError names the
    variable."""
    text = os.environ.get(variable)
    try:
        return read(text) if text else None
    except ValueError as error:
        raise ValueError(f"{variable}={text}: {error}") from None


def parse_size(text: str | int, name: str = "set_cache_size") -> int:
    """'2GB', '512 MiB' or a number of bytes -> bytes (GB and GiB both mean 2**30)."""
    if isinstance(text, int):
        return text
    if not isinstance(text, str):
        raise TypeError(
            f"{name}: wants a size such as '2GB' or a number of bytes, got {type(text).__name__} "
            f"{text!r:.60}"
        )
    cleaned = text.strip().upper().replace("IB", "B").rstrip("B").strip()
    scale = 1
    if cleaned and cleaned[-1] in "KMGT":
        scale = 1 << (10 * ("KMGT".index(cleaned[-1]) + 1))
        cleaned = cleaned[:-1]
    try:
        value = float(cleaned)
    except ValueError:
        raise ValueError(f"{name}: cannot read {text!r} as a size such as '2GB'") from None
    if value < 0:
        raise ValueError(f"{name}: a size cannot be negative, got {text!r}")
    return int(value * scale)


def _copy(
    kind: str, function: str, target: Any, source: Any, nbytes: int, stream: streams.Stream
) -> None:
    """One asynchronous copy, `function(target, source, nbytes, stream)` of the driver."""
    if not nbytes:
        return
    run, current = getattr(devices.driver(), function), runtime.local.stream
    observe = runtime.observe_copy
    if (
        observe is None and current is not None and current.device == stream.device
    ):  # without a context manager
        check(run(target, source, nbytes, stream.handle))
        return
    if current.__class__ is DryStream and max(target, source) >= FIRST:
        current.refuse(f"{kind}: of an array without memory")
    with streams.in_context(stream.device):
        if observe is None:
            check(run(target, source, nbytes, stream.handle))
        else:
            check(observe(kind, nbytes, stream, lambda: run(target, source, nbytes, stream.handle)))


def upload(
    address: int, host: int, nbytes: int, stream: streams.Stream, *, wait: bool = True
) -> None:
    """Copy host memory to the device, in stream order. With `wait` the host memory may be reused on
    return.

    In a graph the values are those of the capture.
    """
    if not nbytes:
        return
    if stream.capturing:
        copy(address, graph_constant(ctypes.string_at(host, nbytes), stream), nbytes, stream)
        return
    _copy("copy host to device", "cuMemcpyHtoDAsync", address, host, nbytes, stream)
    if wait:  # pageable memory has been staged by now; page-locked memory is still being read
        with streams.in_context(stream.device):
            if _locked(host):
                check(devices.driver().cuStreamSynchronize(stream.handle))


def _locked(host: int) -> bool:
    """Whether host memory is page-locked, by whomever."""
    cu = devices.driver()
    return not cu.cuPointerGetAttribute(
        cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host
    )[0]


def download(
    host: int, address: int, nbytes: int, stream: streams.Stream, *, wait: bool = True
) -> None:
    """Copy device memory to the host, in stream order; waits unless the host memory is pinned and
    `wait` is False."""
    stream.refuse_capture("copy to the host")
    _copy("copy device to host", "cuMemcpyDtoHAsync", host, address, nbytes, stream)
    if wait:
        stream.synchronize()


def constant(data: bytes, index: int) -> int:
    """Address of a device copy of `data`, uploaded once and kept for good: the tables that kernels
    read. Small ones share a block, for a program may meet arrays of any number of shapes.

    Uploaded outside any capture, so that a graph may refer to it.
    """
    key, size = (index, data), max(len(data) + 15 & -16, 16)
    with devices.lock:
        address = runtime.constants.get(key)
        if address is None:
            pool, cu = pool_of(index), devices.driver()
            address, left = runtime.constant_space.get(index, (0, 0))
            if size > left:
                left = max(size, LARGE >> 4)
                address = pool.beside_capture(
                    lambda side: int(check(cu.cuMemAllocAsync(left, side)))
                )
                runtime.constant_space[index] = address, left  # also if the copy fails
            if data:
                pool.beside_capture(
                    lambda side: check(cu.cuMemcpyHtoDAsync(address, data, len(data), side))
                )
            runtime.constant_space[index] = address + size, left - size
            runtime.constants[key] = address
        return address


def graph_constant(data: bytes, stream: streams.Stream) -> int:
    """Address of a device copy of `data` that lives as long as the graph that `stream` is
    capturing."""
    return _graph_constant(data, stream).address


def _graph_constant(data: bytes, stream: streams.Stream) -> Buffer:
    buffer = graph_buffer(len(data), stream)
    stream.kept[id(buffer)] = buffer
    address = buffer.address
    stream.pool.beside_capture(
        lambda side: check(devices.driver().cuMemcpyHtoDAsync(address, data, len(data), side))
    )
    return buffer


def graph_buffer(nbytes: int, stream: streams.Stream) -> Buffer:
    """A block for the graph that `stream` is capturing, to be filled before a replay.

    Never a cached block: an earlier kernel of the graph may write there, or one that is queued on
    the stream around it.
    """
    buffer = object.__new__(Buffer)
    buffer.size = size = rounded(nbytes)
    buffer.stream, buffer.users = stream, None
    stream.free.setdefault(size, [])  # where it will wait once released
    blocks: list[int] = []
    try:
        stream.pool.add_new(size, stream, blocks)
    except BaseException:  # what is told of growth may raise
        stream.pool.strays += [(address, size) for address in blocks]
        raise
    buffer.address = blocks[0]
    stream.pool.used += size
    return buffer


MOST_UPLOADS = 256


def address_table(addresses: tuple[int, ...], stream: streams.Stream) -> int:
    """Address of a device array holding these addresses. Repeated tables (a training loop's) are
    uploaded once."""
    return table(struct.pack(f"<{len(addresses)}Q", *addresses), stream).address


def table(data: bytes, stream: streams.Stream) -> Buffer:
    """A device copy of `data`, which nobody writes into: uploaded once for a stream, as long as it
    is asked for."""
    if stream.capturing:
        return _graph_constant(data, stream)
    key = (id(stream), data)  # the buffer keeps its stream alive, so that the id stays the stream's
    with devices.lock:
        uploads = runtime.uploads
        buffer = uploads.get(key)
        if buffer is None:
            buffer = Buffer(len(data), stream)
            with streams.in_context(
                stream.device
            ):  # copied to the driver's staging memory before the call returns
                check(
                    devices.driver().cuMemcpyHtoDAsync(
                        buffer.address, data, len(data), stream.handle
                    )
                )
            uploads[key] = buffer  # now that it holds the data
            if len(uploads) > MOST_UPLOADS:
                uploads.popitem(last=False)
        else:
            uploads.move_to_end(key)
        return buffer


def copy(target: int, source: int, nbytes: int, stream: streams.Stream) -> None:
    """Copy within a device, in stream order."""
    _copy("copy on the device", "cuMemcpyDtoDAsync", target, source, nbytes, stream)


def copy_peer(
    target: int, to: streams.Stream, source: int, at: streams.Stream, nbytes: int
) -> None:
    """Copy between devices, after the work queued on both streams; peer to peer where the hardware
    can."""
    for stream in (to, at):
        stream.refuse_capture("copy between devices", "a graph is of one device")
    peer_access(to.device, at.device)
    to.wait(at)
    if nbytes:
        cu = devices.driver()
        contexts = devices.context(to.device), devices.context(at.device)

        def run() -> tuple:
            return cu.cuMemcpyPeerAsync(target, contexts[0], source, contexts[1], nbytes, to.handle)

        observe = runtime.observe_copy
        with streams.in_context(to.device):
            check(run() if observe is None else observe("copy between devices", nbytes, to, run))
    at.wait(to)


def peer_access(index: int, peer: int) -> bool:
    """Let `index` read and write the memory of `peer` directly; True where the hardware can."""
    if index == peer:
        return True
    if (index, peer) not in runtime.peers:
        cu = devices.driver()
        able = bool(
            check(
                cu.cuDeviceCanAccessPeer(
                    check(cu.cuDeviceGet(devices.validate(index, "peer_access"))),
                    check(cu.cuDeviceGet(devices.validate(peer, "peer_access"))),
                )
            )
        )
        if able:
            with streams.in_context(index):
                (status,) = cu.cuCtxEnablePeerAccess(devices.context(peer), 0)
                if status != cu.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
                    check((status,))
                # Memory of the stream-ordered allocator is shared through its pool, not through the
                # context.
                access = cu.CUmemAccessDesc()
                access.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
                access.location.id = index
                access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                handle = check(cu.cuDeviceGetDefaultMemPool(check(cu.cuDeviceGet(peer))))
                check(cu.cuMemPoolSetAccess(handle, [access], 1))
        runtime.peers[index, peer] = able
    return runtime.peers[index, peer]


@devices.finalised
class HostBuffer:
    """Page-locked host memory: copies from and to it overlap with computation. `managed` memory
    migrates instead."""

    __slots__ = ("address", "nbytes", "kind", "__weakref__")

    def __init__(self, nbytes: int, kind: str = "pinned"):
        cu = devices.driver()
        self.nbytes, self.kind = nbytes, kind
        size, outcome = max(nbytes, 1), []  # type: tuple[int, list[tuple]]
        try:
            with streams.in_context(streams.current_device()), relaxed():
                if kind == "managed":
                    flags = int(cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)
                    call_at_once(outcome, cu.cuMemAllocManaged, size, flags)
                else:
                    flags = cu.CU_MEMHOSTALLOC_PORTABLE | cu.CU_MEMHOSTALLOC_DEVICEMAP
                    call_at_once(outcome, cu.cuMemHostAlloc, size, flags)
            self.address = int(check(outcome[0]))
        except OutOfMemoryError:
            name = public_function() or kind
            raise OutOfMemoryError(
                f"{name}: the system has no {human(size)} of {kind} memory left"
            ) from None
        except BaseException:  # an interrupt (Ctrl-C) too
            if outcome and not outcome[0][0]:
                self.address = int(outcome[0][1])  # `__del__` frees it
            raise

    def bytes(self) -> Any:
        """The memory as a ctypes array of bytes that keeps this buffer alive."""
        array = (ctypes.c_char * self.nbytes).from_address(self.address)
        array._owner = self  # type: ignore[attr-defined]
        return array

    @uninterrupted
    def __del__(self) -> None:
        try:
            ended = self.address, self.kind
        except AttributeError:  # it has no memory
            return
        runtime.ended_host_memory.append(ended)
        try:
            release_host_memory()
        except Exception:  # interpreter shutdown; or the wait failed: `Pool.trim` tries again
            pass


def release_host_memory() -> None:
    """Free the host memory of buffers that have died, when no copy from or to it is under way.

    A copy returns before the memory has been read or written, and whoever would have waited for it
    may have met an error or an interrupt (Ctrl-C). So every device is waited for.
    """
    ended = runtime.ended_host_memory
    if not ended or runtime.captures:  # a capture does not allow to wait for a device
        return
    cu = devices.driver()
    with devices.lock, relaxed():
        count = len(ended)
        for index in list(runtime.contexts):
            with streams.in_context(index):
                check(cu.cuCtxSynchronize())
        for _ in range(count):
            if not ended:  # freed meanwhile, by a finaliser
                return
            address, kind = entry = ended[0]; del ended[0]  # fmt: skip # noqa: E702 see `allocate`
            outcome: list[tuple] = []
            try:
                free = cu.cuMemFree if kind == "managed" else cu.cuMemFreeHost
                call_at_once(outcome, free, address)
            finally:  # also where an interrupt follows
                if not outcome:
                    ended.append(entry)
