"""The types in which kernels see array elements, scalars and arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtypes import STORAGE, bfloat16, float16
from ...core.layout import Layout
from .lazy_numba import types


@functools.cache
def storage(dtype: np.dtype) -> np.dtype:
    """What a kernel sees of a dtype: 16-bit floats as uint16, bool and 8-bit floats as uint8."""
    if dtype in (float16, bfloat16):
        return np.dtype(np.uint16)
    if dtype == np.bool_ or dtype in STORAGE:
        return np.dtype(np.uint8)
    return dtype


@functools.cache
def numba_type(dtype: np.dtype) -> Any:
    """Numba's type of a storage dtype."""
    return getattr(types, storage(dtype).name)


Kind = Layout | np.dtype  # of a kernel's argument: an array's Layout, or a scalar's dtype


def argument_type(kind: Kind, seen: Callable[[np.dtype], np.dtype] = storage) -> Any:
    """Numba's own type of a kernel argument; `seen`: what the kernel sees of a dtype."""
    if isinstance(kind, Layout):
        return types.Array(_real(seen(kind.dtype)), max(kind.ndim, 1), _order(kind))
    return _real(seen(kind))


def _real(dtype: np.dtype) -> Any:
    T = getattr(types, "boolean" if dtype == np.bool_ else dtype.name)
    return getattr(T, "real", T)


def _order(layout: Layout) -> str:
    return "C" if layout.contiguous else "A"


def arguments_type(kinds: Sequence[Kind], seen: Callable[[np.dtype], np.dtype] = storage) -> Any:
    """Numba's own type of a kernel with these arguments."""
    return types.void(*[argument_type(kind, seen) for kind in kinds])
