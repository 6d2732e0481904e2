"""Special functions: ufuncs that are compiled of the scalar functions of core/specs/special, each
when it is first needed. They compute in float64, whatever they are given."""

from __future__ import annotations

import functools

import numpy as np

from ..core.specs.special.library import scalar
from .lib.llvm_compiled import ufunc


@functools.cache
def _ufunc(name: str) -> np.ufunc:
    return ufunc(scalar(name))


def __getattr__(name: str) -> np.ufunc:
    """The ufunc of a scalar function."""
    try:
        return _ufunc(name)
    except KeyError:
        raise AttributeError(name) from None
