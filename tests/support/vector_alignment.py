"""Which alignment a kernel's memory accesses demand of its array arguments, read off its PTX.

A GPU moves 2, 4, 8 or 16 bytes at a time, from an address that is a multiple of that; any other
address ends the process's context ("misaligned address"). Which accesses are wide is decided where
a call is planned, from the alignment of its arrays. So each access is followed back to the argument
from whose address its own is computed, and at every launch the arguments' addresses are compared
with what the widest access wants.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence
from typing import Any

from cudamath.core.layout import Layout
from cudamath.kernels.compiler.compile import ptx_of

_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
#: An access to global memory, or to memory of any kind: modifiers, type, register of the address.
_ACCESS = re.compile(
    r"^(?:ld|st)(?P<modifiers>(?:\.\w+(?:::\w+)*)*)\.[bsuf](?P<bits>8|16|32|64|128)\s"
    r".*\[(?P<register>%\w+)[^\]]*\]"
)
_ASYNC = re.compile(r"^cp\.async\.\w+\.shared\S*\s.*,\s*\[(?P<register>%\w+)[^\]]*\],\s*(?P<n>\d+)")
_PARAMETER = re.compile(r"^ld\.param\S*\s+(?P<register>%\w+),\s*\[\w+_param_(?P<number>\d+)\]")
_LOADED = re.compile(r"^ld\S*\.[bus]64\s+(?P<register>%\w+),\s*\[(?P<address>%\w+)[^\]]*\]")
_COMPUTED = re.compile(
    r"^(?:add|sub|mov|cvta\S*|selp|mad|or|and|max|min|shfl\S*)\S*\s+(?P<register>%rd\w+),(?P<operands>.*)"
)
_ELSEWHERE = ".shared", ".local", ".param", ".const"


def pointers(signature: Sequence[Any]) -> dict[int, int]:
    """The kernel's parameters that are addresses of arrays -> which argument that is."""
    places, at = {}, 0
    for number, kind in enumerate(signature):
        if isinstance(kind, Layout):
            places[at + 4] = number
            at += 5 + 2 * max(kind.ndim, 1)
        else:
            at += 2 if kind.kind == "c" else 1
    return places


def instructions(ptx: str) -> list[str]:
    lines = (re.sub(r"^@!?%p\w+\s+", "", line.strip()) for line in ptx.splitlines())
    return [line for line in lines if line and not line.startswith(("//", ".", "$", "{", "}"))]


def demanded(ptx: str, parameters: dict[int, int]) -> dict[tuple[int, bool], int]:
    """(argument, whether in the table of addresses that it holds) -> bytes of which an address must
    be a multiple."""
    code = instructions(ptx)
    origins: dict[str, set] = collections.defaultdict(set)
    changed = True
    while changed:  # registers of loops come round
        changed = False
        for line in code:
            if found := _PARAMETER.match(line):
                number = int(found["number"])
                new = {(parameters[number], False)} if number in parameters else set()
            elif (found := _LOADED.match(line)) and not any(s in line[:20] for s in _ELSEWHERE):
                new = {(argument, True) for argument, _ in origins[found["address"]]}
            elif found := _COMPUTED.match(line):
                new = set().union(*(origins[r] for r in re.findall(r"%rd\w+", found["operands"])))
            else:
                continue
            known = origins[found["register"]]
            if not new <= known:
                known |= new
                changed = True
    widest: dict[tuple[int, bool], int] = {}
    for line in code:
        if found := _ACCESS.match(line):
            if any(s in found["modifiers"] for s in _ELSEWHERE):
                continue
            vector = re.search(r"\.v(\d)", found["modifiers"])
            nbytes = _BYTES[found["bits"]] * (int(vector[1]) if vector else 1)
        elif found := _ASYNC.match(line):
            nbytes = int(found["n"])
        else:
            continue
        # an address loaded from one table leads nowhere else
        sources = origins[found["register"]]
        loaded = {source for source in sources if source[1]}
        for source in loaded or sources:
            widest[source] = max(widest.get(source, 1), nbytes)
    return widest


def alignments(
    kernel: Any, signature: Sequence[Any], capability: tuple[int, int]
) -> dict[tuple[int, bool], int]:
    """The same of a kernel for these arguments."""
    return demanded(ptx_of(kernel, list(signature), capability), pointers(signature))
