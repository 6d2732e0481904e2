"""Elementwise arithmetic of large float32 and float64 arrays on the CPU, compiled.

NumPy's loops are as fast as memory; what is saved is around them: half of the time that finding and calling such a loop
takes, and the look at the floating-point flags. The results are NumPy's bit for bit: each is one rounded operation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from numba import njit


def _binary(operation: Callable) -> Any:
    @njit(cache=True, nogil=True, error_model="numpy")  # x / 0 is infinite or NaN
    def loop(x, y, out):
        """x, y, out: of one shape; x or y may be a 0-d array. out = x op y."""
        a, b, c = x.reshape(x.size), y.reshape(y.size), out.reshape(out.size)
        if y.ndim == 0:
            second = b[0]
            for i in range(c.size):
                c[i] = operation(a[i], second)
        elif x.ndim == 0:
            first = a[0]
            for i in range(c.size):
                c[i] = operation(first, b[i])
        else:
            for i in range(c.size):
                c[i] = operation(a[i], b[i])

    return loop


add, subtract, multiply, divide = (
    _binary(each) for each in (operator.add, operator.sub, operator.mul, operator.truediv))
equal, not_equal, less, less_equal, greater, greater_equal = (
    _binary(each) for each in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge))
