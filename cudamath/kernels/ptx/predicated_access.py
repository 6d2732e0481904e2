"""Loads and stores that happen where a word is not 0, as PTX instructions: no thread branches."""

from __future__ import annotations

from typing import Any

from ..compiler.lazy_numba import SIMULATOR, types

if not SIMULATOR:
    from .intrinsics import instruction

    _FORMS = {"uint16": "u16", "uint32": "b32", "float32": "f32"}

    def _kind(name: str) -> Any:
        return types.float32 if name == "float32" else types.uint32

    def _access(name: str, count: int, registers: list[str]) -> tuple[str, str]:
        """(the form of an instruction that moves so many, its registers)."""
        form = f".v2.{_FORMS[name]}" if count == 2 else f".{_FORMS[name]}"
        return form, "{" + ", ".join(registers) + "}" if count == 2 else registers[0]

    def _load(name: str, count: int) -> Any:
        registers = [f"${i}" for i in range(count)]
        form, moved = _access(name, count, registers)
        zeros = " ".join(f"mov.b32 {register}, 0;" for register in registers)
        return instruction(
            f"load_{name}_{count}",
            f"{{ .reg .pred there; setp.ne.u32 there, ${count + 1}, 0; {zeros} "
            f"@there ld.global.nc{form} {moved}, [${count}]; }}",
            (_kind(name),) * count if count == 2 else _kind(name),
            (types.int64, types.uint32),
            "(address, there) -> what lies there, of an array that the kernel does not write; or "
            "0.",
        )

    def _store(name: str, count: int) -> Any:
        form, moved = _access(name, count, [f"${i + 2}" for i in range(count)])
        return instruction(
            f"store_{name}_{count}",
            f"{{ .reg .pred there; setp.ne.u32 there, $1, 0; "
            f"@there st.global{form} [$0], {moved}; }}",
            None,
            (types.int64, types.uint32) + (_kind(name),) * count,
            "(address, there, values..).",
            pure=False,
        )

    #: by the name of what lies in memory (uint16 in a word's lower half) and how many of them
    LOADS = {(name, count): _load(name, count) for name in _FORMS for count in (1, 2)}
    STORES = {(name, count): _store(name, count) for name in _FORMS for count in (1, 2)}
