"""Where variables of Numba's intermediate representation end, in less time: `insert_ends`.

Numba computes with sets of names what is live at the entry of each block, until nothing changes.
Here a set is a number, a bit for each variable. The statements that result are the same.
"""

from __future__ import annotations

from typing import Any


def insert_ends(function: Any, *, extend: bool) -> None:
    """Put a Del statement after the last use of each variable, as
    `PostProcessor._insert_var_dels`. extend: all those of a block at its end."""
    from numba.cuda.core import ir

    blocks, cfg = function.blocks, function.variable_lifetime.cfg
    bits: dict[str, int] = {}
    names: list[str] = []
    statements = {offset: _statements(block, bits, names) for offset, block in blocks.items()}
    internal, escaping = _ends(cfg, blocks, statements, bits, names)

    def named(mask: int) -> list[str]:
        found = []
        while mask:
            lowest = mask & -mask
            found.append(names[lowest.bit_length() - 1])
            mask ^= lowest
        return sorted(found)

    for offset, block in blocks.items():
        left, last = internal[offset], block.body[-1]
        ends = []
        for variables in reversed(statements[offset][0][:-1]):
            ends.append(variables & left)
            left &= ~variables
        body = [ir.Del(name, loc=block.body[0].loc) for name in reversed(named(escaping[offset]))]
        at_end = []
        for statement, mask in zip(block.body[:-1], reversed(ends), strict=True):
            if not isinstance(statement, ir.del_types):
                body.append(statement)
            if mask:
                loc = last.loc if extend else statement.loc
                dels = [ir.Del(name, loc=loc) for name in reversed(named(mask))]
                (at_end if extend else body).extend(dels)
        block.body = [*body, *at_end, last]


def local_to_a_block(blocks: Any) -> set[str]:
    """The variables that one statement assigns, and that no other block uses, as
    `Lower._find_singly_assigned_variable`."""
    from numba.cuda.core import ir

    bits: dict[str, int] = {}
    names: list[str] = []
    once = again = used = 0
    for block in blocks.values():
        _, needed, _ = _statements(block, bits, names)
        used |= needed
        for statement in block.body:
            if isinstance(statement, ir.assign_types):
                target = bits[statement.target.name]
                again |= once & target
                once |= target
    alone = once & ~(again | used)
    return {name for name, bit in bits.items() if alone & bit}


def _statements(block: Any, bits: dict[str, int], names: list[str]) -> tuple[list[int], int, int]:
    """(the variables of each statement, those used before they are defined here, those defined
    here)."""
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

    every, used, defined = [], 0, 0
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
            every.append(right | target)
            used |= (right | target) & ~defined
        else:
            every.append(mask_of(statement.list_vars()))
            used |= mask_of(ir_utils.compat_list_vars_stmt(statement)) & ~defined
    return every, used, defined


def _ends(
    cfg: Any, blocks: Any, statements: Any, bits: dict[str, int], names: list[str]
) -> tuple[dict[Any, int], dict[Any, int]]:
    """(variables that end in a block, variables that end at its entry), by block."""
    followers = {offset: [each for each, _ in cfg.successors(offset)] for offset in blocks}
    precursors = {offset: [each for each, _ in cfg.predecessors(offset)] for offset in blocks}
    used = {offset: found[1] for offset, found in statements.items()}
    defined = {offset: found[2] for offset, found in statements.items()}
    reaches = {offset: used[offset] | defined[offset] for offset in blocks}
    changed = True
    while changed:  # forward: what was met on a way to the entry
        changed = False
        for offset in blocks:
            for after in followers[offset]:
                if reaches[offset] & ~reaches[after]:
                    reaches[after] |= reaches[offset]
                    changed = True
    live = dict(used)
    backwards = list(blocks)[::-1]
    changed = True
    while changed:  # backward: what is used later
        changed = False
        for offset in backwards:
            for before in precursors[offset]:
                new = live[offset] & reaches[before] & ~defined[before] & ~live[before]
                if new:
                    live[before] |= new
                    changed = True
    internal, escaping = {}, dict.fromkeys(blocks, 0)
    for offset in blocks:
        current = live[offset] | defined[offset]
        kept = statements[offset][0][-1]  # what the last statement uses
        for after in followers[offset]:
            kept |= live[after]
        internal[offset] = current & ~kept
        for after in followers[offset]:
            escaping[after] |= current & kept & ~(live[after] | defined[after])
    return internal, escaping
