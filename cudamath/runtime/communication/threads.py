"""A world of threads in one process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import CommunicationError
from .mailbox import Letter
from .tcp import described
from .world import World


class ThreadWorld(World):
    """One of several threads; `members` are all of them, by rank."""

    members: list[ThreadWorld]

    def post(self, peer: int, channel: int, what: str, data: np.ndarray) -> None:
        self.members[peer].mailbox.put(self.rank, channel, Letter(what, data.copy()))

    def announce(self, rank: int, reason: str) -> None:
        for peer in self.peers():
            self.members[peer].mailbox.fail(rank, reason)

    def close(self) -> None:
        for peer in self.peers():
            self.members[peer].mailbox.depart(self.rank)


def thread_worlds(count: int, timeout: float | None) -> list[ThreadWorld]:
    """A world of so many threads, as each of them sees it."""
    members = [ThreadWorld(rank, count, rank, timeout) for rank in range(count)]
    for member in members:
        member.members = members
    return members


def run_together(
    count: int,
    work: Callable[[int], Any],
    inside: Callable[[World], contextlib.AbstractContextManager],
    timeout: float | None,
) -> list[Any]:
    """work(rank) in each of `count` threads; what they return. The error of the one that failed
    first is raised, not those of the others, who were told of it."""
    worlds = thread_worlds(count, timeout)
    found: list[Any] = [None] * count
    errors: dict[int, BaseException] = {}

    def one(rank: int) -> None:
        world = worlds[rank]
        try:
            with inside(world):
                found[rank] = work(rank)
                world.end_connections()
        except BaseException as error:
            errors[rank] = error
            world.fail(rank, f"ended with {described(error)}")
        finally:
            world.close()

    threads = [
        threading.Thread(target=one, args=(rank,), name=f"rank {rank}") for rank in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next(
            (error for error in errors.values() if not _about_another(error, errors)),
            next(iter(errors.values())),
        )
    return found


def _about_another(error: BaseException, errors: dict[int, BaseException]) -> bool:
    """Whether a member was only told that another one failed."""
    return isinstance(error, CommunicationError) and error.rank in errors
