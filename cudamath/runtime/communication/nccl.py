"""NCCL: what GPUs tell each other, on their streams.

A communicator belongs to one member of a world, one of its devices, and one purpose (`lane`). All
calls return at once; the GPU does the work in the order of the stream, also in CUDA graphs.

NCCL waits for ever for a member that does not come. So each communicator is watched by a thread:
when the world's connections on the host say that a member has failed, or a call has not ended
within the world's timeout, the communicator is aborted. Its kernels end then, and the next wait for
the device raises an error that names the member.
"""

from __future__ import annotations

import collections
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from .. import device as devices
from .. import fork, kernel_errors
from .. import stream as streams
from ..errors import CommunicationError, CudaError, check, named
from . import rendezvous
from .world import MAIN, World

__all__ = ["DTYPES", "SUMS", "Communicator", "Kind", "communicator", "why_not"]

#: NCCL's numbers of dtypes (ncclDataType_t) whose elements it can add.
DTYPES: dict[np.dtype, int] = {
    np.dtype(np.int8): 0,
    np.dtype(np.uint8): 1,
    np.dtype(np.int32): 2,
    np.dtype(np.uint32): 3,
    np.dtype(np.int64): 4,
    np.dtype(np.uint64): 5,
    np.dtype(np.float16): 6,
    np.dtype(np.float32): 7,
    np.dtype(np.float64): 8,
    np.dtype(ml_dtypes.bfloat16): 9,
}
_BYTES = 1  # of what is only moved

#: NCCL's numbers of operations (ncclRedOp_t).
SUMS = {"sum": 0, "max": 2, "min": 3, "mean": 4}

_SUCCESS, _IN_PROGRESS = 0, 7  # of ncclResult_t
_TURN = 0.2  # seconds between two looks of the thread that watches
_ANSWER = 2.0  # seconds in which the others say how far they are
PROGRESS = 2  # the channel on which they do


class Kind(NamedTuple):
    """How NCCL sees an array: so many numbers of a type."""

    size: int
    number: int


def added(count: int, dtype: np.dtype) -> Kind | None:
    """An array whose elements are added; None if NCCL cannot. Complex numbers are pairs."""
    if dtype.kind == "c":
        return Kind(2 * count, DTYPES[np.dtype(f"f{dtype.itemsize // 2}")])
    return Kind(count, DTYPES[dtype]) if dtype in DTYPES else None


def moved(nbytes: int) -> Kind:
    """An array whose bytes are moved."""
    return Kind(nbytes, _BYTES)


def _bindings() -> Any:
    from nccl.bindings import nccl

    return nccl


def identity(device: int) -> str:
    """What tells a GPU from all others, on this and other machines."""
    cu = devices.driver()
    handle = check(cu.cuDeviceGet(device))
    return bytes(check(cu.cuDeviceGetUuid(handle)).bytes).hex()


def _obstacle() -> str:
    """Why this process cannot use NCCL; "" if it can."""
    try:
        _bindings().get_version()
    except Exception as problem:  # not installed, or its library is not: errors differ by version
        text = " ".join(str(problem).split())[:200]
        return f"nccl4py or NCCL is missing ({text}): pip install 'cudamath[distributed]'"
    return ""


def why_not(world: World, device: int) -> str:
    """Why the members of a world do not use NCCL on their devices; "" if they do.

    All find the same. The first call waits for all members.
    """
    found: dict[int, str] = world.__dict__.setdefault("without_nccl", {})
    if device not in found:
        mine = json.dumps([_obstacle(), rendezvous.host(), identity(device)])
        told = [json.loads(text) for text in world.texts("the choice of NCCL", mine)]
        found[device] = _reason(told)
    return found[device]


def _reason(told: list[list[str]]) -> str:
    """What prevents NCCL, if anything: it is missing somewhere, or two members share a GPU."""
    owner: dict[str, int] = {}
    for rank, (problem, host, gpu) in enumerate(told):
        if problem:
            return f"rank {rank} on {host}: {problem}"
        if gpu in owner:
            return f"ranks {owner[gpu]} and {rank} share one GPU of {host}"
        owner[gpu] = rank
    return ""


def communicator(world: World, device: int, lane: str = "") -> Communicator:
    """The communicator of this member for one of its devices. The first call waits for all."""
    made: dict[tuple[int, str], Communicator] = world.__dict__.setdefault("communicators", {})
    found = made.get((device, lane))
    if found is None:
        found = made[device, lane] = Communicator(world, device)
    return found


class Communicator:
    """One member's end of the connections between all GPUs of a world."""

    def __init__(self, world: World, device: int):
        self.world, self.device = world, device
        self.nccl = _bindings()
        self.issued = 0  # calls so far
        self._captured = False  # whether graphs hold some of them
        self._beside: streams.Stream | None = None
        self.handle: Any = None
        self._lock = fork.new_lock()
        self._last: tuple[Any, str] | None = None  # the stream and name of the last call
        self._pending: collections.deque[tuple[streams.Event, float, str]] = collections.deque()
        unique = np.zeros(128, np.uint8)
        if world.rank == 0:
            unique[:] = np.frombuffer(bytes(self.nccl.get_unique_id()), np.uint8)
        world.broadcast(unique, 0, "the choice of a communicator", MAIN)
        self._connect(unique.tobytes())
        world.mailbox.on_failure.append(self.abort)
        world.connections.append(self)
        kernel_errors.view(device)  # it is there before it is needed
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="NCCL's watch", daemon=True)
        self._watcher.start()

    def _connect(self, unique: bytes) -> None:
        """Connect to the others. It happens in another thread, because NCCL waits for ever for a
        member that has just died."""
        outcome: list[Any] = []
        world = self.world

        def connect() -> None:
            try:
                with streams.in_context(self.device):
                    make = self.nccl.comm_init_rank_scalable
                    outcome.append(make(world.size, world.rank, 1, bytearray(unique), 0))
            except Exception as problem:
                outcome.append(problem)

        thread = threading.Thread(target=connect, name="NCCL connects", daemon=True)
        thread.start()
        deadline = time.monotonic() + world.timeout
        while thread.is_alive() and time.monotonic() < deadline:
            thread.join(_TURN)
            world.mailbox.check()
        if not outcome:
            world.fail(world.rank, f"was not connected by NCCL within {world.timeout:g} s")
            world.mailbox.check()
        if isinstance(outcome[0], Exception):
            raise CudaError(named(f"NCCL: {outcome[0]}")) from None
        self.handle = outcome[0]

    def abort(self) -> None:
        """End all calls under way, here; what they would have written is not there."""
        with self._lock:
            handle, self.handle = self.handle, None
        if handle is not None:
            kernel_errors.break_off(self.device, self.world.mailbox.error)
            self.nccl.comm_abort(handle)

    def wait(self) -> None:
        """Until the device has done all its work."""
        streams.synchronize(self.device)

    def close(self) -> None:
        """End the connections, when all members have waited. The watch ends first: it holds streams
        and events, which are not to outlive their world."""
        self._closing.set()
        if self._watcher is not threading.current_thread():
            self._watcher.join(_ANSWER)
        self._last = None
        self._pending.clear()
        with self._lock:
            handle, self.handle = self.handle, None
        # NCCL would wait until the graphs that hold its calls are gone, which may be at the end of
        # the process: then the connections end with the process.
        if handle is not None and not self._captured:
            self.nccl.comm_destroy(handle)

    # -------------------- calls

    def begin_group(self) -> None:
        """From now on calls are collected."""
        self.world.mailbox.check()
        self.nccl.group_start()

    def end_group(self) -> None:
        """All calls since `begin_group` begin, at once."""
        try:
            self.nccl.group_end()
        except self.nccl.NCCLError as problem:
            self.world.mailbox.check()
            raise CudaError(named(f"NCCL: {problem}")) from None

    def call_beside(self, stream: Any, what: str, calls: Sequence[Callable]) -> streams.Event:
        """Put calls on this communicator's own stream, after what is on `stream` so far. Returns
        the event of their end."""
        if self._beside is None:
            self._beside = streams.Stream(self.device, priority=-1)
        self._beside.wait(stream)
        self.call(self._beside, what, calls)
        if stream.capturing:  # and so is the stream beside it
            self._captured = True
        else:  # this thread marks it: the next call may be part of a capture
            self._mark(self._beside, what)
        return self._beside.record()

    def meet(self, stream: Any) -> None:
        """What comes next on `stream` comes after all calls beside it."""
        if self._beside is not None:
            stream.wait(self._beside)

    def call(self, stream: Any, what: str, calls: Sequence[Callable]) -> None:
        """Put calls on a stream, as one group."""
        self.world.mailbox.check()
        handle, nccl = self.handle, self.nccl
        if handle is None:
            raise CommunicationError(named("the communicator was aborted"))
        try:
            if len(calls) == 1:
                calls[0](handle, stream.ptr)
            else:
                nccl.group_start()
                try:
                    for each in calls:
                        each(handle, stream.ptr)
                finally:
                    nccl.group_end()
        except nccl.NCCLError as problem:
            self.world.mailbox.check()
            raise CudaError(named(f"NCCL: {problem}")) from None
        self.issued += 1
        if stream.capturing:
            self._captured = True
        elif stream is not self._beside:
            self._last = stream, what

    def _mark(self, stream: streams.Stream, what: str) -> None:
        """From now on it is watched when what is on the stream so far has ended."""
        mark = streams.Event(timing=False, device=self.device)
        stream.record(mark)
        self._pending.append((mark, time.monotonic() + self.world.timeout, what))

    def all_reduce(self, x: int, y: int, kind: Kind, op: int) -> Callable[[Any, int], None]:
        """y = x of all members, added or the like."""
        return lambda comm, stream: self.nccl.all_reduce(x, y, *kind, op, comm, stream)

    def reduce_scatter(self, x: int, y: int, kind: Kind, op: int) -> Callable[[Any, int], None]:
        """y, of `kind`: this member's part of what `all_reduce` gives."""
        return lambda comm, stream: self.nccl.reduce_scatter(x, y, *kind, op, comm, stream)

    def all_gather(self, x: int, y: int, kind: Kind) -> Callable[[Any, int], None]:
        """y = x, each of `kind`, of all members, one after another."""
        return lambda comm, stream: self.nccl.all_gather(x, y, *kind, comm, stream)

    def broadcast(self, x: int, y: int, kind: Kind, root: int) -> Callable[[Any, int], None]:
        """y = x of member `root`."""
        return lambda comm, stream: self.nccl.broadcast(x, y, *kind, root, comm, stream)

    def send(self, x: int, kind: Kind, peer: int) -> Callable[[Any, int], None]:
        """x goes to a member."""
        return lambda comm, stream: self.nccl.send(x, *kind, peer, comm, stream)

    def receive(self, y: int, kind: Kind, peer: int) -> Callable[[Any, int], None]:
        """y comes from a member."""
        return lambda comm, stream: self.nccl.recv(y, *kind, peer, comm, stream)

    def all_to_all(self, x: int, y: int, kind: Kind, step: int) -> list[Callable]:
        """Part i of x, `step` bytes each, goes to member i; part i of y comes from it."""
        return [
            each
            for peer in range(self.world.size)
            for each in (
                self.send(x + peer * step, kind, peer),
                self.receive(y + peer * step, kind, peer),
            )
        ]

    # -------------------- the watch

    def _watch(self) -> None:
        """Until the world ends: abort what has failed or not ended in time, and answer those who
        ask."""
        mailbox = self.world.mailbox
        while mailbox.failure is None and self.handle is not None:
            if self._closing.wait(_TURN):
                return
            try:
                self._answer()
                self._look_for_errors()
                late = self._late()
                if late is not None:
                    self._blame(late)
            except Exception:  # a device that is lost; the main thread says so
                return

    def _look_for_errors(self) -> None:
        """End the world if NCCL's own connections have failed."""
        with self._lock:
            if self.handle is None:
                return
            status = int(self.nccl.comm_get_async_error(self.handle))
        if status not in (_SUCCESS, _IN_PROGRESS):
            rank = self.world.rank
            self.world.fail(rank, f"lost NCCL's connections: {self.nccl.get_error_string(status)}")

    def _late(self) -> str | None:
        """What has not ended in time, if anything. A mark behind the last call, once a turn, costs
        the calls themselves nothing."""
        pending = self._pending
        with streams.relaxed(), streams.in_context(self.device):
            last, self._last = self._last, None
            if last is not None:
                self._mark(*last)
            while pending and pending[0][0].query():
                pending.popleft()
        return pending[0][2] if pending and time.monotonic() > pending[0][1] else None

    def _answer(self) -> None:
        """Tell those who ask how many calls this member has made."""
        for peer in self.world.peers():
            letter = self.world.mailbox.poll(peer, PROGRESS)
            if letter is not None and letter.what == "how far?":
                self._say_how_far(peer, "so far")

    def _say_how_far(self, peer: int, what: str) -> None:
        self.world.post(peer, PROGRESS, what, np.array([self.issued], np.int64).view(np.uint8))

    def _blame(self, what: str) -> None:
        """Find out who is late, and end the world."""
        counts = {self.world.rank: self.issued}
        for peer in self.world.peers():
            self._say_how_far(peer, "how far?")
        deadline = time.monotonic() + _ANSWER
        while len(counts) < self.world.size and time.monotonic() < deadline:
            time.sleep(_TURN / 10)
            for peer in self.world.peers():
                letter = self.world.mailbox.poll(peer, PROGRESS)
                if letter is not None:
                    counts[peer] = int(letter.data.view(np.int64)[0])
                    if letter.what == "how far?":
                        self._say_how_far(peer, "so far")
        silent = [peer for peer in self.world.peers() if peer not in counts]
        first = min(counts.values())
        behind = [rank for rank, count in counts.items() if count == first != max(counts.values())]
        guilty = (*silent, *behind, self.world.rank)[0]
        how = "did not come to" if silent or behind else "did not end"
        self.world.fail(guilty, f"{how} {what} within {self.world.timeout:g} s")
