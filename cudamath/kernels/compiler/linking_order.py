"""The orders that Numba leaves to sets: the same kernel has the same machine code in every process.

Device functions are linked into a kernel in the order of a set of objects, which is that of their
addresses in memory; variables that blocks hand on are assigned in the order of a set of names,
which is another one in each process. No two builds of a pack were alike. Here device functions are
linked in the order in which the kernel asked for them, and variables follow their names.
"""

from __future__ import annotations

import functools
from typing import Any


class _InOrder(dict):
    """A set that remembers the order in which it got its members."""

    def add(self, member: Any) -> None:
        self[member] = None


@functools.cache
def install() -> None:
    """Keep to these orders from now on, in this process."""
    from numba.cuda.codegen import CUDACodeLibrary
    from numba.cuda.core.byteflow import Flow

    make, prune = CUDACodeLibrary.__init__, Flow._prune_phis

    @functools.wraps(make)
    def make_in_order(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._linking_libraries = _InOrder()

    @functools.wraps(prune)
    def prune_in_order(self: Any, runner: Any) -> None:
        prune(self, runner)
        for state in runner.finished:
            handed = sorted(state._outgoing_phis.items())
            state._outgoing_phis.clear()
            state._outgoing_phis.update(handed)

    CUDACodeLibrary.__init__, Flow._prune_phis = make_in_order, prune_in_order
