"""What an attack reports, and how long it may go on."""

from __future__ import annotations

import dataclasses
import functools
import random
import time

#: Violations that are written down of an attack; all are counted.
MOST_WORDS = 20


@dataclasses.dataclass
class Attack:
    """An attack under way: it counts, and goes on until its time is up and it has made the least
    number of attempts. Its time begins when it first looks at the clock, so that a busy machine
    makes it longer and not weaker.

    seconds: how long. seed: of its choices. device: where ("cpu" has the fake driver, too). least:
    attempts. tried: attempts so far. words: what was violated.
    """

    seconds: float
    seed: int = 0
    device: str = "cpu"
    least: int = 0
    tried: int = 0
    violations: int = 0
    words: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.chance = random.Random(self.seed)

    @functools.cached_property
    def end(self) -> float:
        """When the time is up."""
        return time.monotonic() + self.seconds

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.end or self.tried < self.least

    def violation(self, words: str) -> None:
        self.violations += 1
        if len(self.words) < MOST_WORDS:
            self.words.append(words[:500])

    def endless(self, items):
        """The items in random order, again and again, until the time is up."""
        items = list(items)
        while True:
            self.chance.shuffle(items)
            for item in items:
                if not self.goes_on:
                    return
                yield item
