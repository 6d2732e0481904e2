"""Arrays that leave this package while a gradient is being recorded through them: as numbers, and
by the protocols of other libraries. What is computed from what has left is a constant, and the
gradient would be lost without a word."""

from __future__ import annotations

import sys
from typing import Any

from ..runtime.errors import is_ours
from .dtypes import INEXACT


def refuse_as_number(x: Any) -> None:
    """TypeError where a function of this package makes a number of an array whose gradient is being
    recorded. In the user's own code the conversion is allowed."""
    frame: Any = sys._getframe(1)
    array = frame.f_code.co_filename
    while (
        frame.f_globals.get("__name__", "").partition(".")[0] == "numpy"
        or frame.f_code.co_filename == array
    ):
        frame = frame.f_back  # who called NumPy; who called __float__, which calls item
    if is_ours(frame.f_code):
        while frame.f_back is not None and is_ours(
            frame.f_back.f_code
        ):  # the function that the user called
            frame = frame.f_back
        raise TypeError(
            f"{frame.f_code.co_name}: wants a number where it got {x.dtype} of shape {x.shape}, "
            "whose gradient is "
            "being recorded and would be lost; give "
            f"{'float' if x.size == 1 else 'stop_gradient'}(x) if it is "
            "meant as a constant"
        )


def refuse_to_leave(x: Any, protocol: str) -> None:
    """TypeError where another library takes an array by a protocol while its gradient is being
    recorded: `to_numpy` and `stop_gradient` say that a constant is meant. An array kept from a
    recording that has ended may leave."""
    from .recording import state

    if state.depth and not state.paused and x.dtype in INEXACT:
        raise TypeError(
            f"{protocol}: the gradient of {x.dtype} of shape {x.shape} is being recorded and "
            "would be lost; give "
            "cm.stop_gradient(x), or to NumPy x.to_numpy(), if it is meant as a constant"
        )
