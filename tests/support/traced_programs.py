"""Programs that a function becomes: changed and run on the CPU as if its kernels were a GPU's, or
compared with the function in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def beside_float64(
    function: Callable,
    arrays: Callable[[np.random.Generator], Any],
    dtype: str = "float32",
    tolerance: float = 3e-5,
) -> Program:
    """The program of a function on the default device, whose values are those of the function in
    float64 on the CPU. arrays: from a generator to a tree of NumPy arrays of float64."""
    jitted = cm.jit(function)
    for seed in range(3):
        given = arrays(np.random.default_rng(seed))
        with cm.device("cpu"):
            wanted = cm.tree.leaves(function(*cm.tree.map(cm.array, given)))
        found = cm.tree.leaves(
            jitted(*cm.tree.map(lambda a: cm.array(a).astype(dtype, copy=False), given))
        )
        for y, exact in zip(found, wanted, strict=True):
            exact = np.asarray(exact)
            np.testing.assert_allclose(
                np.asarray(y.astype("float64")), exact, tolerance, tolerance * abs(exact).max()
            )
    (program,) = jitted.programs()
    return program
