"""The processor that functions of the CPU are compiled for: this machine's, or the least one of a
level, for a pack that serves all machines of that level.

Levels are those of the psABI of x86-64, and the base of arm64. LLVM knows them by `cpu`; a machine
may run the code of a level if it has all of its `features`. Which loads, tiles and scratch arrays
there are follows from FEATURES, in compiled code and in its callers alike. So the functions of a
level may only be used beside callers that cut their tiles in the same way: `level` names the
level whose vectors are as long as this machine's, or none.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Mapping

import llvmlite.binding


@dataclasses.dataclass(frozen=True)
class Level:
    """A level.

    Parameters
    ----------
    name : str
        As packs call it.
    cpu : str
        As LLVM calls it.
    machines : tuple
        What `platform.machine()` says.
    features : frozenset
        That a machine of this level has, in LLVM's words.
    widest : str
        The feature on which the length of vectors depends (lib/llvm_vectors.py).
    """

    name: str
    cpu: str
    machines: tuple[str, ...]
    features: frozenset[str]
    widest: str


_V3 = frozenset(
    "avx avx2 bmi bmi2 cmov crc32 cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sahf sse sse2 sse3 "
    "sse4.1 sse4.2 ssse3 xsave".split()
)
_V4 = _V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
LEVELS = {
    each.name: each
    for each in (
        Level("x86_64_v3", "x86-64-v3", ("x86_64", "AMD64"), _V3, "avx"),
        Level("x86_64_v4", "x86-64-v4", ("x86_64", "AMD64"), _V4, "avx512f"),
        Level("aarch64", "generic", ("aarch64", "arm64"), frozenset({"neon"}), ""),
    )
}


def runnable(host: Mapping[str, bool] | None = None, machine: str | None = None) -> list[Level]:
    """The levels whose code this machine can run, or one with these features."""
    host = llvmlite.binding.get_host_cpu_features() if host is None else host
    machine = machine or platform.machine()
    return [
        each
        for each in LEVELS.values()
        if machine in each.machines and all(host.get(name) for name in each.features)
    ]


def level(host: Mapping[str, bool] | None = None, machine: str | None = None) -> Level | None:
    """The level whose packs serve this machine, or one with these features."""
    host = llvmlite.binding.get_host_cpu_features() if host is None else host
    widest = next((name for name in ("avx512f", "avx") if host.get(name)), "")
    return next((each for each in runnable(host, machine) if each.widest == widest), None)


#: The environment variable with the name of the level that a process compiles for.
VARIABLE = "CUDAMATH_CPU_LEVEL"


def _chosen(name: str) -> Level | None:
    """The level of this name; None of "". ValueError where this machine cannot run its code."""
    found = next((each for each in runnable() if each.name == name), None)
    if name and found is None:
        known = ", ".join(each.name for each in runnable())
        raise ValueError(f"{VARIABLE}: wants a level that this machine runs ({known}), got {name}")
    return found


#: That level, while a pack is built; else code is for this machine.
LEVEL = _chosen(os.environ.get(VARIABLE, ""))


def target() -> tuple[str, str]:
    """(processor, features) that code is compiled for, in LLVM's words."""
    if LEVEL is not None:
        return LEVEL.cpu, ",".join(f"+{name}" for name in sorted(LEVEL.features))
    binding = llvmlite.binding
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def features() -> Mapping[str, bool]:
    """What the processor has that functions are compiled for."""
    if LEVEL is not None:
        return dict.fromkeys(LEVEL.features, True)
    return llvmlite.binding.get_host_cpu_features()
