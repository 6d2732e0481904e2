"""Programs that a function becomes, changed and run on the CPU as if its kernels were a GPU's."""

from __future__ import annotations

import numpy as np

import cudamath as cm
from cudamath.core.array import ndarray
from cudamath.core.dispatch.cpu_run import cpu_runner
from cudamath.core.dispatch.lazy_import import lazy
from cudamath.core.dispatch.op import Op
from cudamath.ops.ufunc import Elementwise
from cudamath.programs.program import Node, Program
from cudamath.programs.run import lying, straight_line


def bound_on_the_cpu(monkeypatch) -> None:
    """What a pass binds for a GPU runs on the CPU."""
    monkeypatch.setattr(
        Op,
        "bound",
        lambda op, layouts, params, scalars, device: cpu_runner(
            lazy("cpu", op.cpu), params, scalars, layouts
        ),
    )


def elementwise(node: Node) -> bool:
    """Whether a node may be part of a region."""
    return (
        isinstance(node.op, Elementwise)
        and not node.targets
        and len(node.results) == 1
        and not node.several
        and node.draw is None
    )


def run(program: Program, arrays: list[ndarray]) -> list[np.ndarray]:
    """The results of a program, and what it leaves in its arguments."""
    made = straight_line(program)(*arrays)
    places = {block: i for i, block in enumerate(program.made())}
    views = list(program.returned())
    out = [np.array(lying(v, places.get(v.block), made, arrays)) for v in views]
    return out + [np.array(x) for x in arrays]


def traced(function, *arrays) -> Program:
    jitted = cm.jit(function)
    jitted(*arrays)
    (program,) = jitted.programs()
    return program
