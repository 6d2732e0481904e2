"""Who computes together: the number of this process, how many there are, and how they meet."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

from ..core.devices import CPU, default_index, set_default_device
from ..core.dispatch.call_record import MET, obstruct
from ..core.dispatch.checks import require_function
from ..core.typing import PathLike
from ..runtime import device as devices
from ..runtime.communication import environment, groups, nccl, rendezvous, threads
from ..runtime.communication.environment import world
from ..runtime.communication.world import World, default_timeout
from ..runtime.errors import CommunicationError
from ..runtime.interrupts import context_manager, uninterrupted

__all__ = [
    "CommunicationError",
    "Group",
    "barrier",
    "group",
    "in_threads",
    "initialize",
    "local_rank",
    "mesh",
    "rank",
    "size",
    "transport",
    "use_own_device",
]


def initialize(
    rank: int | None = None,
    size: int | None = None,
    *,
    address: str | None = None,
    file: PathLike | None = None,
    timeout: float | None = None,
) -> None:
    """Join the other processes, instead of at the first call that needs them.

    Without arguments a launcher's environment says who they are: `python -m cudamath launch`,
    torchrun, mpiexec, srun. Otherwise each process says its number, how many there are, and where
    they meet: at an address where number 0 listens, or by a file that all can read and write.

    Parameters
    ----------
    rank, size : int, optional
        Number of this process, and how many there are.
    address : str, optional
        "host:port", where process 0 listens.
    file : path, optional
        File that process 0 writes and removes.
    timeout : float, optional
        Seconds that a process waits for another one, here (at least 60) and in all later calls. The
        default is 600, or CUDAMATH_DISTRIBUTED_TIMEOUT.

    Raises
    ------
    CommunicationError
        A process did not come in time; the error names it.
    RuntimeError
        This process is one of several already.
    ValueError
        The numbers do not fit, there is no place to meet or there are two, or the timeout is not
        positive.
    ImportError
        mpiexec started the process, and mpi4py is not installed.

    Notes
    -----
    Whoever can reach the address may join: use a network whose machines you trust.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.initialize(0, 1)
    """
    seconds = default_timeout() if timeout is None else timeout
    if not seconds > 0:
        raise ValueError(f"initialize: timeout is a positive number of seconds, got {timeout!r}")
    if (rank is None) != (size is None):
        raise ValueError(f"initialize: wants rank and size, or neither, got {rank} and {size}")
    if rank is None:
        if address is not None or file is not None:
            raise ValueError("initialize: an address or a file wants rank and size too")
        place = environment.from_environment()
        if place is None:
            place = environment.place_of(0, 1, 0, rendezvous.Meeting())
    else:
        place = environment.place_of(rank, size, None, _meeting(size, address, file))
    environment.set_world_of_process(place, seconds)


def _meeting(size: Any, address: str | None, file: PathLike | None) -> rendezvous.Meeting:
    if address is not None and file is not None:
        raise ValueError("initialize: wants an address or a file, got both")
    if file is not None:
        return rendezvous.Meeting(path=os.fspath(file))
    host, colon, port = (address or "").rpartition(":")
    if address is not None and not (host and port.isdecimal()):
        raise ValueError(f"initialize: an address is 'host:port', got {address!r}")
    if not colon and size != 1:
        raise ValueError("initialize: wants an address or a file where the processes meet")
    return rendezvous.Meeting(host, int(port or 0))


def in_threads(
    count: int, function: Callable[[int], Any], *, timeout: float | None = None
) -> list[Any]:
    """Call a function in several threads, which take themselves for processes.

    In each, `rank()` is the number of the thread and `size()` their number, and collectives are
    between them. So a program for several processes can be tried, debugged and tested in one; on a
    machine with several GPUs each thread may use one of them.

    Parameters
    ----------
    count : int
        Number of threads, at least 1.
    function : callable
        Of the thread's number.
    timeout : float, optional
        Seconds that a thread waits for another one.

    Returns
    -------
    list
        What the calls returned, in order of their numbers.

    Raises
    ------
    ValueError
        `count` is less than 1.
    CommunicationError
        A thread did not come to a collective within the timeout. Other errors of `function` are
        raised as they are.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.in_threads(3, lambda rank: int(cm.distributed.all_reduce(cm.array(rank))))
    [3, 3, 3]
    """
    require_function("in_threads", function)
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"in_threads: wants at least 1 thread, got {count!r}")
    return threads.run_together(count, function, environment.member, timeout)


class Group:
    """Some of the processes: a line of a `mesh`.

    In its `with` block everything of `distributed` is about these processes alone: `rank()` is the
    number of this process among them, `all_reduce` adds over them.

    Parameters
    ----------
    world : World
        The processes, as `mesh` finds them.
    shape : tuple of int
        Of the mesh.
    axis : int
        Along which it is a line.

    Attributes
    ----------
    rank, size : int
        The number of this process in the group, and how many there are.
    """

    def __init__(self, world: groups.GroupWorld, shape: tuple[int, ...] = (), axis: int = 0):
        self._world, self._line = world, (world.members, shape, axis)
        self._outer: list[World | None] = []  # of the blocks it is in, the world outside
        self.rank, self.size = world.rank, world.size

    def __enter__(self) -> Group:
        self._outer.append(environment.here.world)
        environment.here.world = self._world
        return self

    @uninterrupted
    def __exit__(self, *_: Any) -> None:
        environment.here.world = self._outer[-1]
        del self._outer[-1]

    def __eq__(self, other: object) -> bool:
        """Whether the other one is the same line of such a mesh."""
        return isinstance(other, Group) and other._line == self._line

    def __hash__(self) -> int:
        return hash(self._line)

    def __repr__(self) -> str:
        return f"<Group: rank {self.rank} of {self.size}>"


def mesh(*shape: int) -> tuple[Group, ...]:
    """Arrange the processes in a grid, and return this one's line along each axis.

        data, tensor = distributed.mesh(2, 4)    # 8 processes: 2 replicas, each on 4 GPUs

    Processes whose ranks are next to each other are next to each other along the last axis.

    Parameters
    ----------
    *shape : int
        Lengths of the axes. Their product is `size()`.

    Returns
    -------
    tuple of Group
        For each axis the processes that differ from this one along it alone.

    Raises
    ------
    ValueError
        The product of the lengths is another number.

    Notes
    -----
    All processes call it in the same order.

    Examples
    --------
    >>> import cudamath as cm
    >>> def program(rank):
    ...     rows, columns = cm.distributed.mesh(2, 2)
    ...     with columns:
    ...         return int(cm.distributed.all_reduce(cm.array(rank)))
    >>> cm.distributed.in_threads(4, program)
    [1, 1, 5, 5]
    """
    here = world()
    if any(type(n) is not int or n < 1 for n in shape) or math.prod(shape) != here.size:
        raise ValueError(
            f"mesh: wants lengths whose product is {here.size}, the number of processes, got "
            f"{shape}"
        )
    return tuple([Group(each, shape, axis) for axis, each in enumerate(groups.mesh(here, shape))])


def rank() -> int:
    """Return the number of this process among those that were started together.

    Numbers begin at 0. A process alone has the number 0.

    Returns
    -------
    int
        The number.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.
    CommunicationError
        The other processes did not come in time.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.rank()
    0
    """
    return world().rank


def size() -> int:
    """Return the number of processes that were started together; 1 for a process alone.

    Returns
    -------
    int
        The number.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.
    CommunicationError
        The other processes did not come in time.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.size()
    1
    """
    return world().size


def local_rank() -> int:
    """Return the number of this process among those on the same machine, from 0 on.

    Returns
    -------
    int
        The number.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.
    CommunicationError
        The other processes did not come in time.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.local_rank()
    0
    """
    return world().local_rank


def use_own_device() -> str:
    """Make GPU number `local_rank()` the default device.

    The numbers begin again after the last GPU. Without a GPU the CPU stays the default device.

    Returns
    -------
    str
        Name of the device.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.
    CommunicationError
        The other processes did not come in time.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.use_own_device() == cm.default_device()
    True
    """
    count = devices.device_count()
    name = f"cuda:{world().local_rank % count}" if count else "cpu"
    set_default_device(name)
    return name


def transport() -> str:
    """Return how arrays on GPUs travel between the processes, and why not otherwise.

    All processes call it, each with its own GPU as the default device.

    Returns
    -------
    str
        "nccl"; or "host" and the reason, where arrays travel through the memory of the host.

    Raises
    ------
    CommunicationError
        A process did not come in time.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.device("cpu"):
    ...     cm.distributed.transport()
    'host: the default device is the CPU'
    """
    device = default_index()
    if device == CPU:
        return "host: the default device is the CPU"
    reason = nccl.why_not(world(), device)
    return f"host: {reason}" if reason else "nccl"


@context_manager
def group() -> Iterator[None]:
    """Context: what is sent and received inside may go on at once, in any order.

    Between GPUs a `send` ends when the other process receives. If each of several processes sends
    first and then receives, all wait for ever, unless they do both in a group. What was received
    may be used after the group.

    Yields
    ------
    None
        Nothing.

    Raises
    ------
    CommunicationError
        A process failed.

    Examples
    --------
    >>> import cudamath as cm
    >>> def program(rank):
    ...     with cm.distributed.group():
    ...         cm.distributed.send(cm.array(rank), 1 - rank)
    ...         return cm.distributed.recv(cm.array(0), 1 - rank)
    >>> [int(x) for x in cm.distributed.in_threads(2, program)]
    [1, 0]
    """
    device, here = default_index(), world()
    if device == CPU or nccl.why_not(here, device):
        yield
        return
    of = nccl.communicator(here, device)
    of.begin_group()
    try:
        yield
    finally:
        of.end_group()


def barrier() -> None:
    """Wait until all processes have called this function.

    It is about the processes, not about what their GPUs still have to do.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.
    CommunicationError
        A process failed, or did not come in time.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.barrier()
    """
    obstruct(MET)
    world().barrier()
