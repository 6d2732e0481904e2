"""The order in which Numba links device functions into a kernel.

Numba keeps them in a set of objects, whose order is that of their addresses in memory: the same
kernel had other machine code in every process, and no two builds of a pack were alike. Here they
are linked in the order in which the kernel asked for them.
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
    """Link in order from now on, in this process."""
    from numba.cuda.codegen import CUDACodeLibrary

    make = CUDACodeLibrary.__init__

    @functools.wraps(make)
    def make_in_order(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._linking_libraries = _InOrder()

    CUDACodeLibrary.__init__ = make_in_order
