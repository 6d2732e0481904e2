"""Single random numbers on the CPU, drawn ahead in blocks.

`rng.random()` in a loop spends its time in the preparation of a draw, which yields one number. But a
number depends only on key, stream and block, not on the draws before it, and a draw of many numbers
consists of what as many draws of one would give, `per` of them in each block. So the numbers of the
next blocks are computed at once and kept with the block of the first. The generator stands where it
would stand without this: a draw of a kept number takes its block of the sequence, and one at another
place (after a jump, another distribution, an array) does not find its block among the kept ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ...core import dtypes, recording
from ...core.devices import CPU, default_index
from ...core.dispatch.call_record import open_records
from ...core.recording import insiders
from ...core.scalar import NUMPY_SCALARS, inside
from ...runtime.state import runtime
from .bit_stream import Source

Function = TypeVar("Function", bound=Callable[..., Any])

FEW, MANY = 8, 512  # blocks of the first and of later refills
_KINDS = 16  # distributions whose numbers are kept
_NUMBERS = frozenset([int, float, np.int64, np.float64])  # classes of parameters


class _Kept:
    """The numbers of one distribution for consecutive blocks."""

    __slots__ = ("first", "numbers", "size", "default")

    def __init__(self) -> None:
        self.first, self.size = 0, FEW
        self.numbers: list[Any] = []
        self.default = dtypes.default_float()


def drawn_ahead(most: int) -> Callable[[Function], Function]:
    """Decorate a distribution whose arrays hold in each block what single draws would give.

    Parameters
    ----------
    most : int
        Number of parameters before `size`.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(draw: Function) -> Function:
        @functools.wraps(draw)
        def call(self: Source, *args: Any, **kwargs: Any) -> Any:
            if (
                kwargs
                or len(args) > most
                or open_records
                or insiders
                or recording.state.draws is not None
                or default_index() != CPU
            ):
                return draw(self, *args, **kwargs)
            kinds = tuple(map(type, args))
            if not _NUMBERS.issuperset(kinds):
                return draw(self, *args)
            with self._lock:
                kept = self._ahead.get((draw, args, kinds))
                if kept is not None:
                    i = self._offset - kept.first
                    if 0 <= i < len(kept.numbers) and kept.default is dtypes.default_float():
                        self._offset += 1
                        return kept.numbers[i]
            if kept is None:
                _remember(self, (draw, args, kinds))
                return draw(self, *args)
            return _refilled(self, draw, args, kept)

        return call  # type: ignore[return-value]

    return decorate


def _remember(source: Source, key: tuple) -> None:
    """Note a distribution: its next single number is drawn ahead."""
    if len(source._ahead) >= _KINDS:  # parameters that change from draw to draw
        source._ahead = {}
    source._ahead[key] = _Kept()


def _refilled(source: Source, draw: Callable, args: tuple, kept: _Kept) -> Any:
    """Draw a single number, and keep those that follow."""
    stream = runtime.local.stream
    before = source._offset
    first = draw(source, *args)
    if stream is not None and stream.capturing or first.__class__ not in NUMPY_SCALARS:
        return first
    twin = type(source)(0)
    twin.state = {**source.state, "offset": before + 1}
    count = kept.size * 4
    with inside():
        numbers = draw(twin, *args, size=count)._data
    blocks = twin._offset - before - 1
    with source._lock:
        kept.first, kept.default = before + 1, dtypes.default_float()
        kept.numbers = list(numbers[:: count // blocks])
        kept.size = min(4 * kept.size, MANY)
    return first
