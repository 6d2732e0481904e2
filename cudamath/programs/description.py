"""What a program does, in words: for `cm.explain`."""

from __future__ import annotations

from ..core.devices import device_of
from ..core.layout import Layout
from ..runtime.memory import human
from .fusion import Fused, fusible, rule
from .memory_plan import memory_plan
from .program import Node, Program, View
from .run import most_copied


def described(name: str, program: Program) -> str:
    """A paragraph per program: its operations in order, why neighbours are not fused, and its
    memory."""
    arguments = ", ".join([_array(block.layout) for block in program.arguments])
    place = device_of(program.device)
    lines = [f"{name}({arguments}) on {place}: {len(program.nodes)} operations"]
    lines += _body(program, "  ")
    if program.device >= 0 and program.reads:
        lines.append("  no CUDA graph: a loop reads its condition at each step; give it max_steps")
    elif program.device >= 0 and most_copied(program) < 0:
        lines.append("  no CUDA graph: copies of its results would take longer than launches")
    plan = memory_plan(program)
    inputs = {view.block for node in program.nodes for view in node.views if view.block.outside}
    floor = sum([block.layout.nbytes for block in inputs])
    floor += sum([block.layout.nbytes for block in program.made()])
    moved = _moved(program)
    lines.append(
        f"  bytes: {human(moved)} are read and written, of which arguments and results are "
        f"{human(floor)}"
    )
    lines.append(f"  memory: {human(plan.total)}, of which {human(plan.peak)} are in use at a time")
    return "\n".join(lines)


def _moved(program: Program) -> int:
    """How many bytes the operations read and write. Steps of a loop whose number is not known count
    once, and of a condition both branches."""
    total = 0
    for node in program.nodes:
        bodies = getattr(node.op, "programs", {}).values()
        if bodies:
            total += node.op.times * sum(map(_moved, bodies))
        else:
            total += sum([view.layout.nbytes for view in node.views])
            total += sum([block.layout.nbytes for block in node.results])
    return total


def _body(program: Program, indent: str) -> list[str]:
    """The operations, those of loops and branches below them, and what was done to the program."""
    lines = []
    for number, node in enumerate(program.nodes):
        lines.append(f"{indent}{number}: {_node(node)}{_why(node, program, indent)}")
        for what, inner in getattr(node.op, "programs", {}).items():
            lines.append(f"{indent}   {what}: {len(inner.nodes)} operations")
            lines += _body(inner, indent + "     ")
    return lines + [indent + note for note in program.notes]


def _array(layout: Layout) -> str:
    return f"{layout.dtype} {layout.shape}"


def _node(node: Node) -> str:
    operands = ", ".join(
        [_array(x.layout) if isinstance(x, View) else repr(x) for x in node.operands]
    )
    results = ", ".join([_array(block.layout) for block in node.results])
    arrow = f" -> {results}" if results else f", writes {len(node.targets)}"
    return f"{node.name}({operands}){arrow} at {node.line}"


def _why(node: Node, program: Program, indent: str) -> str:
    """Why a node stands alone, on a GPU."""
    if program.device < 0 or isinstance(node.op, Fused):
        return ""
    why = rule(node.op)[1] or fusible(node) or "its neighbours cannot be fused with it"
    return f"\n{indent}   alone: {why}"
