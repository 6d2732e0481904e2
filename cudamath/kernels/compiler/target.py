"""Compute capabilities, and the one that is being compiled for."""

from __future__ import annotations

#: Compute capabilities the kernels are compiled for in the tests; "a" = architecture-specific
#: instructions.
CAPABILITIES = ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0))
_under_way: list[
    tuple
] = []  # targets of compilations under way: intrinsics may ask for it by `target_has`


def target(capability: tuple[int, int]) -> tuple:
    """Numba's name of a target: from 9.0 on the architecture-specific one."""
    return (*capability, "a") if capability >= (9, 0) else tuple(capability)


def architecture(cc: tuple) -> str:
    """The assembler's name of a target: "sm_90a"."""
    return "sm_" + "".join(map(str, cc))


def target_has(capability: tuple[int, int]) -> bool:
    """Whether what is being compiled is for a device of at least this capability (False if
    unknown)."""
    return bool(_under_way) and _under_way[-1][:2] >= capability
