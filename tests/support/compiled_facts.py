"""What kernels compile to: registers, spills and arithmetic of each, kept in
tests/data/compiled_kernels.txt.

A kernel's facts depend on its sources, the types of its arguments, the compilers and the
architecture; all of these are in its key (cudamath/kernels/compiler/cache_key.py). So a kernel that
has not changed since the facts were kept need not be compiled to know them: what has changed is,
and one of SAMPLE is anyway, to see that the file tells the truth. `make compiled-facts` writes the
file: it costs some minutes and saves them in each later run.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import cache_key, shortcuts, storage_types, target
from cudamath.kernels.compiler import compile as compiler_compile
from cudamath.runtime import device
from cudamath.testing import Resources

#: Lines of a key and the numbers of `Facts`, sorted.
KEPT = pathlib.Path(__file__).parents[1] / "data" / "compiled_kernels.txt"
#: Set to a file, to which all facts that tests ask for are then added.
RECORD = "CUDAMATH_COMPILED_FACTS"
#: One kernel of so many is compiled although its facts are kept.
SAMPLE = 64

Capability = tuple[int, int]

shortcuts.verifies = True  # what users compile is not looked at for mistakes; what tests compile is


class Facts(NamedTuple):
    """Of a kernel's machine code: registers of a thread, bytes of its stack and of what it spills,
    shared memory of a block; whether ptxas made its wgmma wait for one another, whether it computes
    in float64."""

    registers: int
    stack: int
    spills: int
    shared: int
    serialised: int
    float64: int


class NotAsKept(AssertionError):
    """The file says something else than the compilers."""


def facts_of(
    kernel: Any, arguments: Any, capabilities: Sequence[Capability]
) -> dict[Capability, Facts]:
    """By capability: as kept, or from the compilers. From Python to LLVM IR a kernel goes once, for
    the first of the capabilities in order of age."""
    oldest = min(capabilities)
    with cache_key.unchanging():
        keys = {c: _key(kernel, arguments, oldest, c) for c in capabilities}
    kept = {c: _kept()[key] for c, key in keys.items() if key in _kept()}
    wanted = [c for c, key in keys.items() if c not in kept or int(key, 16) % SAMPLE == 0]
    found = dict(kept)
    if wanted:
        library = compiler_compile.to_llvm(kernel, arguments, target.target(oldest))
        for c in wanted:
            made = compiler_compile.from_llvm(kernel, library, target.target(c))
            found[c] = read(*made)
            if kept.get(c, found[c]) != found[c]:
                raise NotAsKept(
                    f"{KEPT.name} says {kept[c]}, the compilers {found[c]}: `make compiled-facts`"
                )
    if RECORD in os.environ:
        lines = [f"{keys[c]} {' '.join(map(str, found[c]))}\n" for c in capabilities]
        with open(os.environ[RECORD], "a", encoding="ascii") as file:  # lines of several workers
            file.write("".join(lines))
    return found


def compile_plan(plan: Plan, inputs: Sequence[Layout], capability: Capability) -> list[Resources]:
    """What `cudamath.testing.compile_plan` says of a plan's kernels, as kept or compiled."""
    found = []
    with device.assume(capability):
        for step in plan.steps:
            if isinstance(step, Launch):
                arguments = storage_types.arguments_type(plan.signature(step, inputs))
                facts = facts_of(step.kernel, arguments, [capability])[capability]
                found.append(
                    Resources(step.kernel.__name__, facts.registers, facts.spills, facts.shared)
                )
    return found


def _key(kernel: Any, arguments: Any, oldest: Capability, capability: Capability) -> str:
    whole = cache_key.key(kernel, [str(arguments)], (oldest, capability))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


@functools.cache
def _kept() -> dict[str, Facts]:
    if not KEPT.exists():
        return {}
    lines = (line.split() for line in KEPT.read_text("ascii").splitlines())
    return {key: Facts(*map(int, numbers)) for key, *numbers in lines}


def read(cubin: bytes, log: str) -> Facts:
    """From machine code and the assembler's report."""
    return Facts(
        registers=int(re.search(r"Used (\d+) registers", log).group(1)),
        stack=sum(map(int, re.findall(r"(\d+) bytes stack frame", log))),
        spills=sum(map(int, re.findall(r"(\d+) bytes spill stores", log))),
        shared=sum(map(int, re.findall(r"(\d+) bytes smem", log))),
        serialised=int("are serialized" in log),
        float64=int(computes_in_float64(cubin)),
    )


#: Low bits of the opcodes of float64 arithmetic since compute capability 7.0: DMUL, DADD, DSETP,
#: DFMA. An instruction has 16 bytes; bits 9 to 11 of the opcode say whether an operand comes from a
#: register, a constant or the instruction.
FLOAT64 = {0x028, 0x029, 0x02A, 0x02B}


def opcodes(cubin: bytes) -> Iterator[int]:
    """The low nine bits of the opcodes of a cubin's code sections (ELF64)."""
    (sections,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, sections + i * size) for i in range(count)]
    at = headers[names][4]
    for name, _, _, _, offset, length in headers:
        if cubin[at + name :].startswith(b".text"):
            for (word,) in struct.iter_unpack("<Q8x", cubin[offset : offset + length]):
                yield word & 0x1FF


def computes_in_float64(cubin: bytes) -> bool:
    return any(code in FLOAT64 for code in opcodes(cubin))
