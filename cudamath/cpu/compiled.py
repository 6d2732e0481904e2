"""How functions compiled by Numba are called.

`entry`: as NumPy's own are, without a look at the arguments. Numba's dispatcher finds out their types at each call, which
takes as long as adding a thousand numbers. Where a plan knows them beforehand, it calls what the dispatcher would.

`parallel`: on all cores, also in a process that was forked.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype, njit, types
from numba.np.ufunc import parallel as threads

#: A parameter: (dtype, dimensions) of an array in C order, or the type of a scalar.
Parameter = tuple[np.dtype, int] | type[bool] | type[float]
_SCALARS = {bool: types.boolean, float: types.float64}


def entry(function: Any, *parameters: Parameter) -> Callable[..., None]:
    """`function`, a dispatcher of Numba's, for arguments of these types and no others. It returns nothing."""
    kinds = [_SCALARS[p] if isinstance(p, type) else types.Array(from_dtype(p[0]), p[1], "C") for p in parameters]
    return function.get_compile_result(types.void(*kinds)).entry_point


_left_behind = False  # whether Numba's threads belong to the process that this one was forked from


def _after_fork() -> None:
    global _left_behind
    _left_behind = threads._is_initialized


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def parallel(function: Callable[..., None]) -> Callable[..., None]:
    """`function` compiled, its `prange` on all cores; called from Python, it returns nothing.

    A fork takes no threads along, and GNU's OpenMP then ends the process that asks for them: there one thread computes.
    """
    together = njit(cache=True, parallel=True, nogil=True)(function)
    alone = njit(nogil=True)(function)  # compiled at its first call; a cache does not tell it from the other

    @functools.wraps(function)
    def call(*args: Any) -> None:
        (alone if _left_behind else together)(*args)

    return call
