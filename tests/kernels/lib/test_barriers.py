"""Barriers in shared memory: whoever initialises one, all threads meet before any of them uses it;
and before they read what one of them wrote there.

A thread that waits at a barrier that is not yet initialised reads whatever lay there: it hangs, or
goes on too early. That shows rarely, and only on a GPU; the order of the calls in the source shows
it always.
"""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterator

import cudamath

KERNELS = pathlib.Path(cudamath.__file__).parent / "kernels"
#: `total_of`, `of_block`: of all threads of a block, which meet for it.
MEET = {"syncthreads", "cluster_sync", "cluster_wait", "total_of", "of_block"}
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


@functools.cache
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


def names(node: ast.AST, context: type) -> set[str]:
    """Arrays of which a statement reads elements (Load) or writes some (Store)."""
    return {
        n.value.id
        for n in ast.walk(node)
        if isinstance(n, ast.Subscript)
        and isinstance(n.value, ast.Name)
        and isinstance(n.ctx, context)
    }


def passed(node: ast.AST) -> set[str]:
    """Names that a statement reads in any way, as what it passes to a function."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def is_one_thread(node: ast.stmt) -> bool:
    """Whether a statement is one thread's alone: `if t == 0:`, `if thread == 0:` and the like."""
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.ops[0], ast.Eq)
        and ast.unparse(node.test.left) in ("t", "thread", "cuda.threadIdx.x")
        and ast.unparse(node.test.comparators[0]) == "0"
    )


def turns(node: ast.stmt) -> str:
    """The range of a loop in which the threads of a block take turns, as `range(t, n, THREADS)`."""
    if not isinstance(node, ast.For):
        return ""
    words = ast.unparse(node.iter)
    mine = words.startswith(("range(t,", "range(thread,", "range(cuda.threadIdx.x,"))
    return words if mine and ("THREADS" in words or "blockDim" in words) else ""


def written_in_turns(node: ast.For) -> set[str]:
    """Arrays of which each turn of a loop writes its own element."""
    turn = ast.unparse(node.target)
    return {
        n.value.id
        for n in ast.walk(node)
        if isinstance(n, ast.Subscript)
        and isinstance(n.value, ast.Name)
        and isinstance(n.ctx, ast.Store)
        and ast.unparse(n.slice) == turn
    }


def hasty_reads(function: ast.FunctionDef) -> list[int]:
    """Lines where threads read what others have just written into shared memory, or into an
    argument, without a meeting in between: what one alone wrote, or all by turns that these lines
    do not take alike."""
    shared = {argument.arg for argument in function.args.args} | {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "cuda.shared.array"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    wrong = []
    for node in ast.walk(function):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            written: dict[str, str] = {}  # array -> the turns in which it was written
            for statement in body if isinstance(body, list) else []:
                if is_one_thread(statement):
                    written |= dict.fromkeys(names(statement, ast.Store) & shared, "")
                    continue
                mine = turns(statement)
                head = getattr(statement, "test", getattr(statement, "iter", None))
                within = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
                meets = any(called(n) in MEET for n in within)
                if written:
                    first = passed(head) if head is not None else set()
                    read = first if meets else passed(statement)
                    if any(x in read and not (mine and mine == by) for x, by in written.items()):
                        wrong.append(statement.lineno)
                if meets:
                    written = {}
                elif mine:
                    written |= dict.fromkeys(written_in_turns(statement) & shared, mine)
    return wrong


def test_all_threads_meet_between_what_one_writes_and_they_read():
    """Also where all write by turns, each its own elements, and then read others'."""
    writers = 0
    for path, node in functions():
        wrong = hasty_reads(node)
        assert not wrong, f"{path}: {node.name} reads in lines {wrong} what others have written"
        writers += any(is_one_thread(n) and names(n, ast.Store) for n in ast.walk(node))
    assert writers > 20
