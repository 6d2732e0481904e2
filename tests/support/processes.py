"""Several members of a world: threads that take themselves for processes, and processes."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from cudamath import distributed

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: All on this machine, by whatever user, more processes than cores: for MPICH and for Open MPI.
LOCAL = {
    "HYDRA_LAUNCHER": "fork",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def each(count: int, fn: Callable[[int], Any], timeout: float = 60) -> list[Any]:
    """What fn(rank) returns, or raises, in each of `count` threads."""

    def careful(rank: int) -> Any:
        try:
            return fn(rank)
        except Exception as problem:
            return problem

    return distributed.in_threads(count, careful, timeout=timeout)


def environment(**more: str) -> dict[str, str]:
    """Of a process on the CPU that finds this package."""
    return {
        **os.environ,
        **LOCAL,
        "CUDAMATH_DEVICE": "cpu",
        "OPENBLAS_NUM_THREADS": "1",
        **more,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }


def run(*command: str, timeout: float = 120, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def by_launcher(
    count: int, program: pathlib.Path, *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """A program in `count` processes of `python -m cudamath launch`."""
    launcher = (sys.executable, "-m", "cudamath", "launch", "-n", str(count))
    return run(*launcher, str(program), *arguments, **more)


def run_module(count: int, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A module, as in `python -m`, in `count` processes of `python -m cudamath launch`."""
    launcher = (sys.executable, "-m", "cudamath", "launch", "-n", str(count), "-m")
    return run(*launcher, name, *arguments)


def by_mpi(count: int, program: pathlib.Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A program in `count` processes of mpiexec."""
    pytest.importorskip("mpi4py")
    launcher = pathlib.Path(sys.executable).parent / "mpiexec"
    found = str(launcher) if launcher.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("there is no mpiexec here")
    return run(found, "-n", str(count), sys.executable, "-m", "mpi4py", str(program), **more)


def alone(
    count: int, program: pathlib.Path, own: Callable[[int], dict[str, str]]
) -> list[subprocess.Popen[str]]:
    """A program in `count` processes that nobody started together; `own(rank)` is added to the
    environment of each."""
    return [
        subprocess.Popen(
            [sys.executable, str(program)],
            cwd=ROOT,
            env=environment(**own(rank)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
