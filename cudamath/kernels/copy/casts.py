"""Casts of stored elements, as NumPy's ``astype``."""

import functools
from typing import Any

import numpy as np

from ...core.dtypes import BOOLEAN, COMPLEX, float16, float64
from ..compiler.decorators import device_function
from ..lib.codec import codec
from ..ptx import conversions as ptx_conversions


@functools.cache
def converter(source: np.dtype, target: np.dtype) -> Any:
    """A device function from a stored element of dtype ``source`` to one of ``target``, as NumPy's
    ``astype``."""
    if source == target:

        @device_function
        def same(v):
            return v

        return same
    if (source, target) == (float64, float16):  # through float32 it would be rounded twice
        return ptx_conversions.double_to_half
    load = codec(source)[0]
    _, store, T = codec(target)
    if target in BOOLEAN:

        @device_function
        def truth(v):
            return T(1) if load(v) != 0 else T(0)

        return truth
    if source in COMPLEX and target not in COMPLEX:

        @device_function
        def real(v):
            return store(T(load(v).real))

        return real

    @device_function
    def cast(v):
        return store(T(load(v)))

    return cast
