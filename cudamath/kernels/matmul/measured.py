"""Measured choices among the versions of a matrix product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.dispatch import autotune
from ...core.layout import Layout
from .problem import Problem
from .sm90_tiles import is_tile

TILE = 16  # of matmul_tiled
TILES = (TILE, TILE)


def kind(a: Layout, b: Layout, tf32: bool = False) -> str:
    """The key of tables of measurements besides the sizes: dtype, which operand is transposed, and
    "odd" where rows of an operand or of C do not all begin at multiples of 16 bytes."""
    letters, odd = "", not b.ndim > 1 or b.shape[-1] * b.itemsize % 16 != 0
    for x in (a, b):
        flipped = x.ndim > 1 and x.strides[-1] != x.itemsize and x.strides[-2] == x.itemsize
        letters += "t" if flipped else "n"
        outer = x.strides[:-2] + x.strides[-1:] if flipped else x.strides[:-1]
        odd |= not x.aligned or any(s % 16 for s in outer)
    return f"{'tf32' if tf32 and a.dtype == np.float32 else a.dtype} {letters}{' odd' * odd}"


def fastest(
    problem: Problem, versions: Sequence[str], whole: bool = False
) -> autotune.Decision | None:
    """The fastest of these versions measured for a product, with its tile; `whole`: of those that
    do not split k."""
    p, what = problem.product, kind(problem.a, problem.b, problem.tf32)
    sizes = (p.batch * len(p.parts), p.m, p.k, p.n)
    kinds = [what]
    if what.startswith("float16"):
        kinds.append(f"b{what}")  # bfloat16 takes the same time

    def is_candidate(text: str) -> bool:
        return is_version(text, versions, whole)

    for name in kinds:
        decision = autotune.lookup("matmul", problem.a.device, name, sizes, is_candidate)
        if decision is not None:
            return decision
    return None


def is_version(text: str, versions: Sequence[str], whole: bool = False) -> bool:
    """Whether a candidate of a table is one of these versions, "sm90" with a tile that there is."""
    name, _, tile = text.partition(" ")
    return name in versions and (is_tile(tile, whole) if name == "sm90" and tile else not tile)
