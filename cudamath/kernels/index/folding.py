"""How values are folded into a row: added, multiplied, or the larger or smaller one kept."""

import functools
from typing import Any

import numpy as np

from ...core.specs.complex_order import at_least
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import dtype_of
from ..lib.accumulators import limits
from ..lib.codec import codec


def no_sum(dtype: np.dtype) -> Any:
    """What changes nothing that it is added to: -0, for 0 would make 0 of -0."""
    T = codec(dtype)[2]
    return T(complex(-0.0, -0.0) if dtype.kind == "c" else -0.0)


@functools.cache
def folding(kind: str, dtype: np.dtype) -> tuple[Any, Any]:
    """(device function that folds a value into a total, the total of nothing): add, multiply, max
    (NaN wins) or min."""
    _, _, T = codec(dtype)

    if kind == "add":

        @device_function
        def fold(total, value):
            return total + value

    elif kind == "multiply":

        @device_function
        def fold(total, value):
            return total * value

    else:
        reaches = at_least(device_function, dtype_of(T).kind, kind == "max")

        @device_function
        def fold(total, value):
            return total if reaches(total, value) or total != total else value

    if kind in ("add", "multiply"):
        return fold, no_sum(dtype) if kind == "add" else T(1)
    lowest, highest = limits(T)
    return fold, lowest if kind == "max" else highest
