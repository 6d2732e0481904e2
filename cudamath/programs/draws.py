"""Random draws that do not count."""

from __future__ import annotations

from typing import Any

from ..core import recording
from ..runtime.interrupts import uninterrupted


class Rehearsal:
    """Context for a run whose random draws do not count: at its end each generator is put back."""

    def __init__(self) -> None:
        self.starts: dict[Any, int] = {}

    def __enter__(self) -> Rehearsal:
        self.before = recording.state.draws
        recording.state.draws = self
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        recording.state.draws = self.before
        for generator, start in self.starts.items():
            generator.return_to(start)

    def take(self, generator: Any, name: str, blocks: int, device: Any) -> tuple:
        """The next part of the generator's sequence."""
        place = generator.take_next(name, blocks, device)
        self.starts.setdefault(generator, place[2])
        return place
