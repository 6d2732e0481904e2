"""Worlds of some members of a world: the rows and columns of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import CommunicationError
from .mailbox import Letter
from .world import World

#: Channels that a group takes of its world's.
CHANNELS = 16


class _Mailbox:
    """The letters of a group, in the mailbox of the world. Ranks are those of the group."""

    def __init__(self, of: World, members: Sequence[int], first: int):
        self.of, self.members, self.first = of.mailbox, members, first

    @property
    def failure(self) -> tuple[int, str] | None:
        return self.of.failure

    @property
    def on_failure(self) -> list[Callable[[], None]]:
        return self.of.on_failure

    def check(self) -> None:
        self.of.check()

    def error(self) -> CommunicationError:
        return self.of.error()

    def poll(self, source: int, channel: int) -> Letter | None:
        return self.of.poll(self.members[source], self.first + channel)

    def take(self, source: int, channel: int, seconds: float) -> Letter | None:
        return self.of.take(self.members[source], self.first + channel, seconds)


class GroupWorld(World):
    """Some members of a world, with ranks of their own. Errors name ranks of the world.

    number: of the group, the same for groups without a common member; from 1 on.
    """

    def __init__(self, of: World, members: Sequence[int], number: int):
        super().__init__(members.index(of.rank), len(members), of.local_rank, of.timeout)
        self.of, self.members, self.first = of, tuple(members), CHANNELS * number
        self.mailbox: Any = _Mailbox(of, self.members, self.first)
        self.connections = of.connections  # they end when the world does

    def post(self, peer: int, channel: int, what: str, data: np.ndarray) -> None:
        self.of.post(self.members[peer], self.first + channel, what, data)

    def fail(self, rank: int, reason: str) -> None:
        self.of.fail(self.members[rank], reason)


def mesh(of: World, shape: Sequence[int]) -> list[GroupWorld]:
    """The members, numbered along the last axis first, as a grid: for each axis the group of those
    that differ from this one along it alone. All members call it, in the same order."""
    grid = np.arange(of.size).reshape(shape)
    place = np.unravel_index(of.rank, grid.shape)
    made: list[GroupWorld] = []
    for axis in range(grid.ndim):
        number = of.__dict__["groups"] = of.__dict__.get("groups", 0) + 1
        line: list[Any] = list(place)
        line[axis] = slice(None)
        made.append(GroupWorld(of, grid[tuple(line)].tolist(), number))
    return made
