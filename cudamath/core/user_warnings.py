"""Warnings at the line of the user's call."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from ..runtime.errors import is_ours
from .dispatch.call_record import obstruct, open_records


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line outside of this package. A call that warns is not replayed, so
    that it warns each time."""
    if open_records:
        obstruct("warned")
    frame: Any = sys._getframe(1)
    while is_ours(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno, registry=registry
    )
