"""Variables of Numba's intermediate representation that one block alone uses, in less time.

They need no memory. Numba goes through all statements of a block for each of its variables. Here a
set of variables is a number, a bit for each of them.
"""

from __future__ import annotations

from typing import Any


def local_to_a_block(blocks: Any) -> set[str]:
    """The variables that one statement assigns, and that no other block uses, as
    `Lower._find_singly_assigned_variable`."""
    from numba.cuda.core import ir

    bits: dict[str, int] = {}
    names: list[str] = []
    once = again = used = 0
    for block in blocks.values():
        used |= _needed(block, bits, names)
        for statement in block.body:
            if isinstance(statement, ir.assign_types):
                target = bits[statement.target.name]
                again |= once & target
                once |= target
    alone = once & ~(again | used)
    return {name for name, bit in bits.items() if alone & bit}


def _needed(block: Any, bits: dict[str, int], names: list[str]) -> int:
    """The variables that a block uses before it defines them."""
    from numba.cuda.core import ir, ir_utils

    def mask_of(variables: Any) -> int:
        mask = 0
        for variable in variables:
            name = variable.name
            bit = bits.get(name)
            if bit is None:
                bit = bits[name] = 1 << len(names)
                names.append(name)
            mask |= bit
        return mask

    used = defined = 0
    for statement in block.body:
        if isinstance(statement, ir.assign_types):
            value = statement.value
            if isinstance(value, ir.inst_types):
                right = mask_of(value.list_vars())
            else:
                right = mask_of([value]) if isinstance(value, ir.var_types) else 0
            target = mask_of([statement.target])
            if not right & target:
                defined |= target
            used |= (right | target) & ~defined
        else:
            used |= mask_of(ir_utils.compat_list_vars_stmt(statement)) & ~defined
    return used
