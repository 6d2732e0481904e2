"""The user's scalar functions on the CPU: compiled by Numba to a NumPy ufunc, or to a loop over
lines."""

import functools

import numba
import numpy as np

from ...core.specs.scalar_functions import typed

RUN = 128  # elements combined one after the other before a new partial result is started


@functools.lru_cache(maxsize=256)
def ufunc(function, dtype):
    """A NumPy ufunc of arrays of this dtype, compiled when it is first called."""
    return numba.vectorize(nopython=True)(typed(function, dtype))


@functools.lru_cache(maxsize=256)
def reduction(functions, dtype):
    """functions: (combine, identity, each or None, last or None) -> function of lines (n, m),
    giving (n,) of this dtype."""
    combine, identity, each, last = functions
    start = dtype.type(identity)
    T = numba.from_dtype(dtype)
    combine = numba.njit(typed(combine, dtype))
    each = numba.njit(typed(each, dtype)) if each else _same
    last = numba.njit(typed(last, dtype)) if last else _same

    @numba.njit(nogil=True, error_model="numpy")
    def lines(x):
        out = np.empty(x.shape[0], dtype)
        for i in range(x.shape[0]):
            total = start
            for first in range(0, x.shape[1], RUN):
                part = start
                for j in range(first, min(first + RUN, x.shape[1])):
                    part = T(combine(part, T(each(x[i, j]))))
                total = T(combine(total, part))
            out[i] = last(total)
        return out

    return lines


@numba.njit
def _same(x):
    return x
