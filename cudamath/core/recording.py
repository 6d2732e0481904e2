"""Whether a gradient is being recorded, in each thread."""

from __future__ import annotations

import threading
from typing import Any, Self

from ..runtime import fork
from ..runtime.interrupts import uninterrupted


class paused:
    """Context: nothing is recorded inside."""

    def __enter__(self) -> paused:
        self.before, state.paused = state.paused, True
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        state.paused = self.before


class Draws:
    """Context that hands out the random numbers of a function which is run for another reason than
    them: each draw inside is its `take`."""

    def __enter__(self) -> Self:
        self.before = state.draws
        state.draws = self
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        state.draws = self.before

    def take(self, generator: Any, name: str, blocks: int, device: Any) -> tuple:
        """The place in the generator's sequence that a draw has."""
        raise NotImplementedError


class _State(threading.local):
    depth = 0  # gradients being taken, one within another
    paused = False
    inside = False  # whether this package calls its own functions: see scalar.py
    newest: tuple[Any, dict] = None, {}  # the op of the newest node, and its parameters
    # who hands out random numbers while a function is run whose draws must be repeated: see Draws
    draws: Draws | None = None


state = _State()
#: Contexts of all threads in which `state.inside` is set. While it is empty nobody needs to ask.
insiders: list[Any] = []


@fork.in_child
def _forget_other_threads() -> None:
    if not state.inside:
        insiders.clear()
