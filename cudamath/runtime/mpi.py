"""Several processes that compute together: MPI, on bytes in host memory.

`mpiexec -n 4 python program.py` runs a program as four processes; each has a number, its rank, from
0 on. A process reads from its environment whether a launcher started it. Any other process is a
world of one and never imports mpi4py. MPI moves bytes and computes nothing: the caller adds in the
order of the ranks, so sums do not depend on the MPI library.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

__all__ = ["World", "world"]

#: What launchers put into the environment of each process: MPICH and Intel MPI, Open MPI, PMIx
#: (Slurm), MVAPICH.
STARTED = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE")


class World:
    """All processes that were started together.

    Attributes
    ----------
    rank, size : int
        The number of this process, and how many there are.
    local_rank : int
        The number of this process among those on the same machine.
    """

    def __init__(self, comm: Any = None, local_rank: int = 0):
        self._comm = comm
        self.rank: int = comm.rank if comm is not None else 0
        self.size: int = comm.size if comm is not None else 1
        self.local_rank = local_rank

    def exchange(self, parts: np.ndarray) -> np.ndarray:
        """(size, n) bytes: row i goes to process i; in the result row i is what came from process
        i."""
        if self.size == 1:
            return parts
        received = np.empty_like(parts)
        self._comm.Alltoall(parts, received)
        return received

    def gather(self, part: np.ndarray) -> np.ndarray:
        """(n,) bytes of each process -> (size, n), on all of them."""
        if self.size == 1:
            return part[None]
        received = np.empty((self.size, part.size), np.uint8)
        self._comm.Allgather(part, received)
        return received

    def broadcast(self, data: np.ndarray, root: int) -> None:
        """(n,) bytes: everyone's are overwritten by those of process `root`."""
        if self.size > 1:
            self._comm.Bcast(data, root)

    def barrier(self) -> None:
        """Wait until all have come here."""
        if self.size > 1:
            self._comm.Barrier()


@functools.cache
def world() -> World:
    """The processes that this one was started with. ImportError where a launcher started it and
    mpi4py is not installed."""
    if not any(name in os.environ for name in STARTED):
        return World()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as problem:  # RuntimeError: it is there, and no MPI library
        raise ImportError(
            "distributed: this process was started by mpiexec, which needs mpi4py and an MPI "
            "library: "
            f"pip install 'cudamath[distributed]' ({problem})"
        ) from None
    comm = MPI.COMM_WORLD
    machine = comm.Split_type(MPI.COMM_TYPE_SHARED)
    local_rank = machine.rank
    machine.Free()
    return World(comm, local_rank)
