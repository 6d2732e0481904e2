"""What launchers put into the environment of each process, and the world that follows from it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import fork, interrupts
from ..errors import CommunicationError, named
from . import rendezvous
from .tcp import TcpWorld, leave_with_the_process
from .world import World, default_timeout

#: Set by MPICH and Intel MPI, Open MPI, PMIx (Slurm), MVAPICH.
MPI = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE")


#: Seconds that processes may start apart, however short their timeout is.
APART = 60.0


class Place(NamedTuple):
    """Where a process stands among those that were started with it, and how they meet."""

    rank: int
    size: int
    local_rank: int | None
    meeting: rendezvous.Meeting


class _Here(threading.local):
    world: World | None = None  # that of a thread which is a member of its own


class _Process:
    world: World | None = None
    lock = fork.new_reentrant_lock()


here = _Here()


def world() -> World:
    """The world of this thread; by default that of the process, which it joins at the first call.

    Raises
    ------
    ImportError
        mpiexec started the process, and mpi4py is not installed.
    ValueError
        The environment says only half of what is needed.
    CommunicationError
        The others did not come in time.
    """
    return here.world or _Process.world or _of_process()


def _of_process() -> World:
    with _Process.lock:
        if _Process.world is None:
            place = from_environment()
            _Process.world = World() if place is None else joined(place, default_timeout())
        return _Process.world


def set_world_of_process(place: Place, timeout: float) -> World:
    """Join a world. RuntimeError if this process, or thread, is a member of one with others."""
    with _Process.lock:
        before = here.world or _Process.world
        if before is not None and before.size > 1:
            raise RuntimeError(
                named(f"this process is rank {before.rank} of {before.size} already; it joins once")
            )
        _Process.world = joined(place, timeout)
        return _Process.world


@interrupts.context_manager
def member(of: World) -> Iterator[World]:
    """Context: this thread is a member of a world of its own."""
    before = here.world
    here.world = of
    try:
        yield of
    finally:
        here.world = before


@fork.in_child
def _begin_child() -> None:
    """A forked process is no member: its parent is."""
    here.world = _Process.world = World()


def joined(place: Place, timeout: float) -> World:
    """The world, once all members have come."""
    if place.size == 1:
        return World(timeout=timeout)
    try:
        sockets, local_rank = rendezvous.connected(
            place.rank, place.size, place.meeting, max(timeout, APART)
        )
    except rendezvous.Absent as problem:
        raise CommunicationError(named(str(problem)), problem.rank) from None
    if place.local_rank is not None:
        local_rank = place.local_rank
    made = TcpWorld(place.rank, place.size, local_rank, sockets, timeout)
    leave_with_the_process(made)
    return made


def from_environment() -> Place | None:
    """The place that a launcher gave this process; None if no launcher started it."""
    environ = os.environ
    if "RANK" in environ and "WORLD_SIZE" in environ:  # torchrun, and `python -m cudamath launch`
        return _placed("RANK", "WORLD_SIZE", "LOCAL_RANK")
    if any(name in environ for name in MPI):
        return _by_mpi()
    if int(environ.get("SLURM_NTASKS", "1")) > 1 and "SLURM_PROCID" in environ:  # srun
        return _placed("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
    return None


def _placed(rank: str, size: str, local_rank: str) -> Place:
    environ = os.environ
    numbers = []
    for name in (rank, size, local_rank):
        text = environ.get(name, "-")
        if not text.isdecimal() and not (name == local_rank and text == "-"):
            raise ValueError(named(f"{name} is a whole number, got {text!r}"))
        numbers.append(int(text) if text.isdecimal() else None)
    meeting = rendezvous.Meeting()
    if numbers[1] != 1:
        path = environ.get("CUDAMATH_RENDEZVOUS")
        address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT", "")
        if path:
            meeting = rendezvous.Meeting(path=path)
        elif address and port.isdecimal():
            # torchrun's agent itself listens at that port
            taken = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
            meeting = rendezvous.Meeting(address, int(port) + taken)
        else:
            raise ValueError(
                named(
                    f"{rank} and {size} are set, and the processes need a place to meet: "
                    "MASTER_ADDR and MASTER_PORT, or a file named by CUDAMATH_RENDEZVOUS"
                )
            )
    return place_of(numbers[0], numbers[1], numbers[2], meeting)


def place_of(rank: Any, size: Any, local_rank: int | None, meeting: rendezvous.Meeting) -> Place:
    """A place whose numbers fit each other. ValueError if they do not."""
    if not 0 <= rank < size:
        raise ValueError(named(f"wants a rank from 0 to size - 1, got rank {rank} of {size}"))
    return Place(rank, size, local_rank, meeting)


def _by_mpi() -> Place:
    """The place that mpiexec gave. MPI tells where rank 0 listens, and carries nothing else."""
    try:
        from mpi4py import MPI as mpi
    except (ImportError, RuntimeError) as problem:  # RuntimeError: it is there, and no MPI library
        raise ImportError(
            "distributed: this process was started by mpiexec, which needs mpi4py and an MPI "
            "library: "
            f"pip install 'cudamath[distributed]' ({problem})"
        ) from None
    comm = mpi.COMM_WORLD
    machine = comm.Split_type(mpi.COMM_TYPE_SHARED)
    local_rank = machine.rank
    machine.Free()
    listener = rendezvous.listening("", 0) if comm.rank == 0 and comm.size > 1 else None
    mine = None if listener is None else (rendezvous.host(), listener.getsockname()[1])
    host, port = comm.bcast(mine, 0) or ("", 0)
    return Place(comm.rank, comm.size, local_rank, rendezvous.Meeting(host, port, None, listener))
