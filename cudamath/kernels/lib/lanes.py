"""Values of other lanes of a warp, of any type."""

from __future__ import annotations

from typing import Any

from ..compiler.decorators import FULL, device_function
from ..compiler.lazy_numba import dtype_of, types


def lane_shuffle(A: Any, shuffle: Any) -> Any:
    """Device function (a, i): a of another lane, by one of Numba's shuffles; i is the shuffle's
    other argument."""
    if dtype_of(A).kind == "c":
        part, F = lane_shuffle(A.underlying_float, shuffle), A.underlying_float

        @device_function
        def move(a, i):
            return A(complex(part(F(a.real), i), part(F(a.imag), i)))

        return move
    S = (
        A if dtype_of(A).kind == "f" else types.int64 if A.bitwidth == 64 else types.int32
    )  # what shuffles move

    @device_function
    def move(a, i):
        return A(shuffle(FULL, S(a), i))

    return move
