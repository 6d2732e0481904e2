"""The sort of keys that other families use: scatter-add sorts its destinations."""

from __future__ import annotations

from typing import Any

from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR
from .onesweep import sweep_steps
from .radix_keys import Coding
from .radix_sort import radix_steps


def key_steps(
    keys: Any,
    target: Any,
    order: Any,
    coding: Coding,
    shape: tuple[int, int],
    flip: Any,
    device: int,
    temps: list[Layout],
    bits: int | None = None,
) -> list[Launch]:
    """Steps that sort long rows of keys, stably: see ``onesweep.sweep_steps``."""
    steps = radix_steps if SIMULATOR else sweep_steps
    return steps(keys, target, order, coding, shape, flip, device, temps, bits)
