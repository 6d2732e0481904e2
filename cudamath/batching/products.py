"""Rules of matrix products."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.batched import Call, rules
from ..ops.shape import matrix_transpose


def product(call: Call) -> Any:
    """a @ b. Where all calls share one of them, the other is not repeated."""
    n, m = len(call.shape(0)), len(call.shape(1))
    if not call.differs(1) and m <= 2:  # one b for all rows of all calls
        return call.run(call.all(0), call.one(1))
    if not call.differs(0) and n <= 2:
        a, b = call.one(0), call.all(1)
        if m > 1:
            return call.run(a, b)
        return call.run(b, matrix_transpose(a) if n == 2 else a)
    a, b = call.all(0), call.all(1)
    a = a[:, None, :] if n == 1 else a
    b = b[..., None] if m == 1 else b
    a, b = _lengthened(a, b.ndim), _lengthened(b, a.ndim)
    y = call.run(a, b)
    if n == 1:
        y = y[..., 0, :]
    return y[..., 0] if m == 1 else y


def _lengthened(x: ndarray, ndim: int) -> ndarray:
    """With as many axes behind the batch as the other operand has."""
    missing = ndim - x.ndim
    return x[(slice(None), *[None] * missing)] if missing > 0 else x


rules["matmul"] = rules["matmul (int8 to int32)"] = product
