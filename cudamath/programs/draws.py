"""Random draws that do not count."""

from __future__ import annotations

from typing import Any

from ..core.recording import Draws
from ..runtime.interrupts import uninterrupted


class Rehearsal(Draws):
    """Context for a run whose random draws do not count: at its end each generator is put back."""

    def __init__(self) -> None:
        self.starts: dict[Any, int] = {}

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        for generator, start in self.starts.items():
            generator.return_to(start)

    def take(self, generator: Any, name: str, blocks: int, device: Any) -> tuple:
        """The next part of the generator's sequence."""
        place = generator.take_next(name, blocks, device)
        self.starts.setdefault(generator, place[2])
        return place
