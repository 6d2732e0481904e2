"""Barriers in shared memory: whoever initialises one, all threads meet before any of them uses it.

A thread that waits at a barrier that is not yet initialised reads whatever lay there: it hangs, or
goes on too early. That shows rarely, and only on a GPU; the order of the calls in the source shows
it always.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import cudamath

KERNELS = pathlib.Path(cudamath.__file__).parent / "kernels"
#: `total_of`: the sum of a block, for which all threads meet.
MEET = {"syncthreads", "cluster_sync", "cluster_wait", "total_of"}
INITIALISE = {"barrier_init", "make_ring"}
USE = {"barrier_wait", "refill"}


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def calls(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """(line, name) of the calls in a function, in the order of the source; not those of functions
    inside of it."""
    pending, found = list(function.body), []
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.Call):
            found.append((node.lineno, node.col_offset, called(node)))
        pending += ast.iter_child_nodes(node)
    yield from ((line, name) for line, _, name in sorted(found))


def functions() -> list[tuple[str, ast.FunctionDef]]:
    return [
        (str(path.relative_to(KERNELS)), node)
        for path in sorted(KERNELS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]


def early_uses(function: ast.FunctionDef) -> list[int]:
    """Lines where threads wait at a barrier that not all of them know as initialised."""
    pending, wrong = False, []
    for line, name in calls(function):
        if name in INITIALISE:
            pending = True
        elif name in MEET:
            pending = False
        elif pending and name in USE:
            wrong.append(line)
    return wrong


def test_all_threads_meet_between_a_barriers_beginning_and_its_use():
    """In one function; what `cluster_exchange` begins in one, its users wait for in another."""
    users = 0
    for path, node in functions():
        names = [name for _, name in calls(node)]
        if INITIALISE & {*names} and USE & {*names}:
            users += 1
            wrong = early_uses(node)
            assert not wrong, f"{path}: {node.name} waits at a barrier in lines {wrong} too early"
    assert users > 12
