"""Accumulators: the types in which reductions and scans accumulate, and the device functions of a
reduction for given dtypes. The reductions themselves are defined in core/specs/reductions.py."""

import functools
import math
from typing import Any

import numpy as np

from ...core.dtypes import compute_dtype
from ...core.specs.reduction import Accumulator, Reduction
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import dtype_of, types
from ..compiler.storage_types import numba_type
from .codec import codec

SIGNED, UNSIGNED = types.int64, types.uint64


def accumulator_type(dtype: np.dtype) -> Any:
    """The type in which numbers of a dtype are accumulated: 64-bit integers, float32 for 16-bit
    floats."""
    if dtype.kind in "bi":
        return SIGNED
    if dtype.kind == "u":
        return UNSIGNED
    return numba_type(compute_dtype(dtype))


def limits(T: Any) -> tuple[Any, Any]:
    """The lowest and the highest number of an accumulator's type."""
    if dtype_of(T).kind in "iu":
        return T(np.iinfo(dtype_of(T)).min), T(np.iinfo(dtype_of(T)).max)
    if dtype_of(T).kind == "c":
        return T(complex(-math.inf, -math.inf)), T(complex(math.inf, math.inf))
    return T(-math.inf), T(math.inf)


class Numbers:
    """What the definition of a reduction needs of the GPU side (core/specs/reduction.Numbers)."""

    device_function = staticmethod(device_function)
    limits = staticmethod(limits)
    int32, int64 = types.int32, types.int64

    def __init__(self, source: np.dtype, target: np.dtype):
        self.source, self.target = source, target

    @property
    def load(self) -> Any:
        """Device function: stored element -> number."""
        return codec(self.source)[0]

    @property
    def store(self) -> Any:
        """Device function: number of type A -> stored result."""
        return codec(self.target)[1]

    @property
    def A(self) -> Any:
        """The type in which numbers of the results' dtype accumulate."""
        return accumulator_type(self.target)

    @property
    def S(self) -> Any:
        """The type in which numbers of the elements' dtype accumulate."""
        return accumulator_type(self.source)

    @property
    def zero(self) -> Any:
        """0 as `load` returns it."""
        return codec(self.source)[2](0)

    def of_results(self) -> "Numbers":
        """The same for elements of the results' dtype."""
        return Numbers(self.target, self.target)


@functools.cache
def accumulator(reduction: Reduction, source: np.dtype, target: np.dtype) -> Accumulator:
    """The device functions of a reduction of elements of dtype `source` to results of `target`."""
    return reduction.accumulator(Numbers(source, target))
