"""Arrays that leave this package while a gradient is being recorded through them: as numbers, and
by the protocols of other libraries. What is computed from what has left is a constant, and the
gradient would be lost without a word."""

from __future__ import annotations

import sys
from typing import Any

from ..runtime.errors import is_ours
from .dtypes import INEXACT

#: What to write instead of a number, by the method that makes it.
_INSTEAD = {
    "bool": "cm.where(condition, x, y) instead of `if`",
    "int": "cm.floor or cm.trunc, which are arrays",
    "round": "cm.round, which is an array",
    "trunc": "cm.trunc, which is an array",
}
_ARRAYS = "the array itself (operators and functions of cm take it)"


def _lost(x: Any) -> bool:
    """Whether a gradient of x is being recorded in this thread. An array kept from a recording that
    has ended may leave."""
    from .recording import state

    return bool(state.depth) and not state.paused and x.dtype in INEXACT


def refuse_as_number(x: Any) -> None:
    """TypeError where numbers are made of an array whose gradient is being recorded: by `float`,
    `item`, `tolist`, `to_numpy`, or by a function of this package that needs them."""
    if not _lost(x):
        return
    frame: Any = sys._getframe(1)
    array = name = frame.f_code.co_filename
    while (
        frame.f_globals.get("__name__", "").partition(".")[0] == "numpy"
        or frame.f_code.co_filename == array
    ):
        if frame.f_code.co_filename == array:
            name = frame.f_code.co_name  # the method that was called
        frame = frame.f_back  # who called NumPy; who called __float__, which calls item
    if is_ours(frame.f_code):
        while frame.f_back is not None and is_ours(
            frame.f_back.f_code
        ):  # the function that the user called
            frame = frame.f_back
        raise TypeError(
            f"{frame.f_code.co_name}: wants a number where it got {x.dtype} of shape {x.shape}, "
            "whose gradient is "
            "being recorded and would be lost; give cm.stop_gradient(x) if it is meant as a "
            "constant"
        )
    if name != "__array__":
        name = name.strip("_")
    raise TypeError(
        f"{name}: the gradient of {x.dtype} of shape {x.shape} is being recorded and would be "
        f"lost; give cm.stop_gradient(x) if a constant is meant, else "
        f"{_INSTEAD.get(name, _ARRAYS)}"
    )


def refuse_to_leave(x: Any, protocol: str) -> None:
    """TypeError where another library takes an array by a protocol while its gradient is being
    recorded: `stop_gradient` says that a constant is meant."""
    if _lost(x):
        raise TypeError(
            f"{protocol}: the gradient of {x.dtype} of shape {x.shape} is being recorded and "
            "would be lost; give cm.stop_gradient(x) if a constant is meant"
        )
