"""Letters: what the other members of a world have sent to one of them, in the order of arrival.

A letter has a sender, a channel, a text that says what its sender was doing, and bytes. Letters of
one sender on one channel are read in the order in which they were written. A member that ends
without a goodbye, or says that it failed, ends every wait with an error that names it.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import fork
from ..errors import CommunicationError, named


class Letter(NamedTuple):
    """What it is about, and its bytes."""

    what: str
    data: Any


class Mailbox:
    """What has arrived for the member `rank`.

    Attributes
    ----------
    failure : (int, str) or None
        The member that ended the world, and what befell it. The first one counts.
    on_failure : list of callables
        Called once, by the thread that notices the failure.
    """

    def __init__(self, rank: int):
        self.rank = rank
        self.failure: tuple[int, str] | None = None
        self.on_failure: list[Callable[[], None]] = []
        self._changed = threading.Condition(fork.new_lock())
        self._letters: dict[tuple[int, int], collections.deque[Letter]] = collections.defaultdict(
            collections.deque
        )
        self._departed: set[int] = set()

    def put(self, source: int, channel: int, letter: Letter) -> None:
        """A letter has arrived."""
        with self._changed:
            self._letters[source, channel].append(letter)
            self._changed.notify_all()

    def depart(self, source: int) -> None:
        """A member has ended in good order: it will write nothing more."""
        with self._changed:
            self._departed.add(source)
            self._changed.notify_all()

    def lose(self, source: int) -> bool:
        """The connection to a member has ended: a failure, unless it departed before. Returns
        whether it is the first failure."""
        with self._changed:
            if source in self._departed:
                return False
        return self.fail(source, "was killed, or its connection broke")

    def fail(self, rank: int, reason: str) -> bool:
        """End the world: a member failed. Returns whether it is the first failure."""
        with self._changed:
            if self.failure is not None:
                return False
            self.failure = rank, reason
            self._changed.notify_all()
        for function in self.on_failure:
            function()
        return True

    def check(self) -> None:
        """Raise CommunicationError if the world has ended."""
        if self.failure is not None:
            raise self.error()

    def error(self) -> CommunicationError:
        """The failure as an exception."""
        assert self.failure is not None
        rank, reason = self.failure
        return CommunicationError(named(f"rank {rank} {reason}"), rank)

    def poll(self, source: int, channel: int) -> Letter | None:
        """The next letter of a member if there is one."""
        with self._changed:
            letters = self._letters[source, channel]
            return letters.popleft() if letters else None

    def take(self, source: int, channel: int, seconds: float) -> Letter | None:
        """The next letter of a member, or None if none comes in time.

        Raises
        ------
        CommunicationError
            The world has ended, or that member has.
        """
        letters = self._letters[source, channel]
        deadline = time.monotonic() + seconds
        with self._changed:
            while not letters:
                if self.failure is not None:
                    raise self.error()
                if source in self._departed:
                    raise CommunicationError(
                        named(f"rank {source} has ended, and rank {self.rank} waits for it"), source
                    )
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            return letters.popleft()
