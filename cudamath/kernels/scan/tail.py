"""The last elements of one long row, which do not fill an access: `tiles` and `ring` scan those
before them by whole accesses (Problem.body), and one thread goes on from there."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from .decoupled_lookback import scan_functions
from .problem import Problem


@functools.cache
def scan_tail(kind: str, source: np.dtype, target: np.dtype) -> Any:
    """y[j] = y[j - 1] combine x[j] from element `first` on; one thread."""
    lift, combine, _, A = scan_functions(kind, source, target)
    load, store, _ = codec(target)

    @cuda.jit
    def scan_tail(x, y, first):  # x, y: (n,); first > 0
        total = A(load(y[first - 1]))
        for j in range(first, y.size):
            total = combine(total, lift(x[j]))
            y[j] = store(total)

    return scan_tail


def tail_steps(p: Problem) -> list[Launch]:
    """What follows the scan of a problem's body."""
    if p.body is p:
        return []
    x, y = Input(0).view((p.n,)), Output(0).view((p.n,))
    return [Launch(scan_tail(*p.kinds), 1, 1, [x, y, p.body.n])]
