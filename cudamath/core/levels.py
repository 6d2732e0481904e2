"""Device numbers of batched arrays, and what core does with such arrays.

A number below TRACED stands for (a level of `vmap`, the device number of the arrays behind), which
may be such a number again. What batched arrays do is in batched.py, which is built on the rest of
core; so it puts its functions into `work`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_HIGHEST = -3  # below devices.TRACED
_behind: list[tuple[int, int]] = []
_numbers: dict[tuple[int, int], int] = {}


def batched_index(level: int, under: int) -> int:
    """The device number of arrays of a call of `vmap`, over arrays on the device `under`."""
    number = _numbers.get((level, under))
    if number is None:
        _behind.append((level, under))
        number = _numbers[level, under] = _HIGHEST + 1 - len(_behind)
    return number


def level_of(device: int) -> int:
    """The level of `vmap` that a device number belongs to; 0 for a device."""
    return _behind[_HIGHEST - device][0] if device <= _HIGHEST else 0


def under(device: int) -> int:
    """The device number of the arrays behind those on a batched device."""
    return _behind[_HIGHEST - device][1]


def place_of(device: int) -> int:
    """The device on which elements are in the end: the CPU, a GPU, or none (TRACED)."""
    while device <= _HIGHEST:
        device = under(device)
    return device


def common_device(one: int, other: int) -> int | None:
    """The device number on which an op of arrays on two devices runs, at least one of which is
    batched: the innermost level. None where their elements are on different devices."""
    if place_of(one) != place_of(other):
        return None
    return max(one, other, key=level_of)


class _Work:
    """Functions of batched.py and of `cudamath.batching`.

    Attributes
    ----------
    allocate, upload, to_numpy, describe, constant, runner : callable
        Those of batched.py.
    composed : callable
        (card, arrays, params) -> the result of a composed card of batched arrays.
    custom : callable
        (custom_vjp, args) -> the result of a function with a gradient rule of the user's.
    recorded_view : callable
        (array, layout, offset) -> a recorded view of it.
    """

    allocate: Callable[..., Any]
    upload: Callable[..., Any]
    to_numpy: Callable[..., Any]
    describe: Callable[..., str]
    runner: Callable[..., Callable]
    constant: Callable[..., Any]
    composed: Callable[..., Any]
    custom: Callable[..., Any]
    recorded_view: Callable[..., Any]


work = _Work()
