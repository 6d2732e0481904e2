"""Few random numbers on the CPU, drawn ahead in blocks.

`rng.random()` in a loop spends its time in the preparation of a draw, which yields one number. But
a number depends only on key, stream and its place in the blocks, not on the draws before it: a draw
of many numbers consists of the numbers that draws of a few would give. So the numbers of the next
blocks are computed at once and kept with the number of the first block. The generator stands where
it would stand without this: a draw of kept numbers takes its blocks of the sequence, and one at
another place (after a jump, another distribution, a long array) does not find them among the kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any, TypeVar

import numpy as np

from ...core import recording
from ...core.array import wrap
from ...core.devices import CPU, default_index
from ...core.dispatch.call_record import open_records
from ...core.dtypes import default_float
from ...core.recording import insiders
from ...core.scalar import inside
from ...runtime.state import runtime
from .bit_stream import Source, lock

Function = TypeVar("Function", bound=Callable[..., Any])

FEW, MANY = 8, 2048  # blocks of the first and of later refills
LONGEST = 256  # numbers of an array that is drawn ahead
_KINDS = 16  # distributions whose numbers are kept
_NUMBERS = frozenset([int, float, np.int64, np.float64])  # classes of parameters


class _Kept:
    """The numbers of one distribution for consecutive blocks.

    Attributes
    ----------
    first : int
        The first block.
    numbers : numpy.ndarray
        The numbers, `count` of them, `per` of each block.
    blocks : int
        Number of blocks of the next refill.
    default : numpy.dtype
        The default dtype with which they were drawn.
    """

    __slots__ = ("first", "numbers", "count", "per", "blocks", "default")

    def __init__(self) -> None:
        self.first, self.count, self.per, self.blocks = 0, 0, 1, FEW
        self.numbers = np.empty(0)
        self.default = default_float()


def drawn_ahead(most: int) -> Callable[[Function], Function]:
    """Decorate a distribution whose arrays hold in each block what draws of a few would give.

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
            parameters, size = args, None
            if kwargs:
                size = kwargs.get("size")
                if size is None or len(kwargs) > 1:
                    return draw(self, *args, **kwargs)
            elif len(args) == most + 1:
                parameters, size = args[:most], args[most]
            if (
                len(parameters) > most
                or size is not None
                and (size.__class__ is not int or not 0 < size <= LONGEST)
                or open_records
                or insiders
                or recording.state.draws is not None
                or default_index() != CPU
                or (stream := runtime.local.stream) is not None
                and stream.capturing
            ):
                return draw(self, *args, **kwargs)
            key: Any = draw
            if parameters:
                kinds = tuple(map(type, parameters))
                if not _NUMBERS.issuperset(kinds):
                    return draw(self, *args, **kwargs)
                key = draw, parameters, kinds
            begin = self._offset
            try:
                kept = self._ahead.get(key)
                if kept is None:
                    _remember(self, key)
                    return draw(self, *parameters, size=size)
                with lock:
                    first = self._offset
                    start = (first - kept.first) * kept.per
                    end = start + (size or 1)
                    if 0 <= start and end <= kept.count and kept.default is default_float():
                        if self._taker != (thread := get_ident()):
                            self._taker, self._since = thread, first
                        if size is None:
                            self._offset = first + 1
                            return kept.numbers[start]
                        self._offset = first - (-size // kept.per)
                        return wrap(kept.numbers[start:end].copy())
                return _refilled(self, draw, parameters, size, kept)
            except BaseException:  # an interrupt, when numbers have been taken
                self.return_to(begin)
                raise

        return call  # type: ignore[return-value]

    return decorate


def _remember(source: Source, key: Any) -> None:
    """Note a distribution: from now on its numbers are drawn ahead."""
    if len(source._ahead) >= _KINDS:  # parameters that change from draw to draw
        source._ahead = {}
    source._ahead[key] = _Kept()


def _refilled(
    source: Source, draw: Callable, parameters: tuple, size: int | None, kept: _Kept
) -> Any:
    """Draw a few numbers, and keep those that follow."""
    result = draw(source, *parameters, size=size)
    twin = type(source)(0)
    twin.state = state = source.state
    count = 4 * kept.blocks
    with inside():
        numbers = draw(twin, *parameters, size=count)._data
    with lock:
        kept.first, kept.default = state["offset"], default_float()
        kept.numbers, kept.count, kept.per = (
            numbers,
            count,
            count // (twin._offset - state["offset"]),
        )
        kept.blocks = min(4 * kept.blocks, MANY)
    return result
