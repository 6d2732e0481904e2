"""Compiled functions as NumPy's own are called: without a look at the arguments.

Numba's dispatcher finds out the types of its arguments at each call, which takes as long as adding a thousand numbers.
Where a plan knows them beforehand, it calls what the dispatcher would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype, types

#: A parameter: (dtype, dimensions) of an array in C order, or the type of a scalar.
Parameter = tuple[np.dtype, int] | type[bool] | type[float]
_SCALARS = {bool: types.boolean, float: types.float64}


def entry(function: Any, *parameters: Parameter) -> Callable[..., None]:
    """`function`, a dispatcher of Numba's, for arguments of these types and no others. It returns nothing."""
    kinds = [_SCALARS[p] if isinstance(p, type) else types.Array(from_dtype(p[0]), p[1], "C") for p in parameters]
    return function.get_compile_result(types.void(*kinds)).entry_point
