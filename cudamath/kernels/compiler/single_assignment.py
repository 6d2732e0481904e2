"""Numba's static single assignment, in less time: `reconstruct`.

Numba takes the variables that are assigned more than once in turn, and for each of them goes
through all statements of the function, twice. Here it goes through the blocks that mention the
variable. Names, phi nodes and their order are the same.
"""

from __future__ import annotations

import collections
from typing import Any


def install(ssa: Any) -> None:
    """Let Numba's module `ssa` take it."""

    def run(blocks: dict[Any, Any]) -> dict[Any, Any]:
        return reconstruct(ssa, blocks)

    ssa._run_ssa = run
    ssa._FixSSAVars._stmt_index = _position


def reconstruct(ssa: Any, blocks: dict[Any, Any]) -> dict[Any, Any]:
    """`ssa._run_ssa`."""
    if not blocks:
        return {}
    cfg = ssa.compute_cfg_from_blocks(blocks)
    violators, mentioned = _violators(ssa, blocks, cfg)
    if not violators:
        return blocks
    fronts, lists, blocks = ssa._iterated_domfronts(cfg), ssa._CacheListVars(), dict(blocks)
    for name in violators:
        there = [label for label in blocks if label in mentioned[name]]
        assigned: dict[Any, list[Any]] = collections.defaultdict(list)
        states = {"scope": ssa._get_scope(blocks), "varname": name, "defmap": assigned}
        _rewrite(ssa, blocks, there, states, ssa._FreshVarHandler())
        phis: dict[Any, list[Any]] = collections.defaultdict(list)
        states = {
            "scope": ssa._get_scope(blocks),
            "varname": name,
            "defmap": assigned,
            "phimap": phis,
            "cfg": cfg,
            "phi_locations": ssa._compute_phi_locations(fronts, assigned),
        }
        _rewrite(ssa, blocks, there, states, ssa._FixSSAVars(lists))
        for label, nodes in phis.items():
            if nodes:
                blocks[label] = _copy(ssa, blocks[label], nodes + blocks[label].body)
    return blocks


def _violators(ssa: Any, blocks: Any, cfg: Any) -> tuple[list[str], dict[str, set[Any]]]:
    """(names assigned more than once, or used where their one assignment does not reach; the blocks
    that mention a name)."""
    assigned: dict[str, list[Any]] = collections.defaultdict(list)
    used: dict[str, dict[Any, None]] = collections.defaultdict(dict)
    mentioned: dict[str, set[Any]] = collections.defaultdict(set)
    for label, block in blocks.items():
        for statement in block.body:
            own = None
            if isinstance(statement, ssa.ir.assign_types):
                own = statement.target.name
                assigned[own].append(label)
                mentioned[own].add(label)
            for variable in statement.list_vars():
                name = variable.name
                if name != own:
                    used[name][label] = None
                    mentioned[name].add(label)
    found = {name: None for name, labels in assigned.items() if len(labels) > 1}
    dominators = cfg.dominators()
    for name, labels in used.items():
        if name not in found:
            there = set(assigned[name])
            if any(not there & dominators[label] for label in labels):
                found[name] = None
    return list(found), mentioned


def _copy(ssa: Any, block: Any, body: list[Any]) -> Any:
    new = ssa.ir.Block(scope=block.scope, loc=block.loc)
    new.body = body
    return new


def _rewrite(ssa: Any, blocks: Any, labels: list[Any], states: Any, handler: Any) -> None:
    """Replace these blocks by what the handler makes of their statements."""
    assignment = ssa.ir.assign_types
    for label in labels:
        block = blocks[label]
        states["label"], states["block"] = label, block
        body = [
            handler.on_assign(states, each)
            if isinstance(each, assignment)
            else handler.on_other(states, each)
            for each in block.body
        ]
        blocks[label] = _copy(ssa, block, body)


def _position(self: Any, statement: Any, block: Any, stop: int = -1) -> int:
    """The index of a statement, by identity, in a block; its length where it is not there, or at
    `stop` or behind it. self: of a variable; it asks about one block after another."""
    known, places = getattr(self, "_places", (None, {}))
    if known is not block:
        places = {id(each): i for i, each in reversed(list(enumerate(block.body)))}
        self._places = block, places
    end = stop if stop >= 0 else len(block.body) + stop
    place = places.get(id(statement))
    return len(block.body) if place is None or place >= end else place
