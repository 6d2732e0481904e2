"""A world: the processes, or threads, that compute together, and what they tell each other.

Each has a number, its rank, from 0 on. What is here moves bytes of host memory and computes
nothing: the caller adds in the order of the ranks, so sums do not depend on what carries them.

Every letter says what its sender is doing. Members that do different things, or the same with other
shapes, therefore find out at once, instead of waiting for each other or reading wrong bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import CommunicationError, CudaError, named
from .mailbox import Letter, Mailbox

#: Seconds that a member waits for another one, unless `initialize(timeout=...)` or the environment
#: says otherwise.
TIMEOUT = 600.0

#: Channels: letters of one never stand before letters of another.
MAIN, BUCKETS = 0, 1


def default_timeout() -> float:
    """Seconds, from CUDAMATH_DISTRIBUTED_TIMEOUT or `TIMEOUT`."""
    given = os.environ.get("CUDAMATH_DISTRIBUTED_TIMEOUT", "")
    if not given:
        return TIMEOUT
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1
    if not seconds > 0:
        raise ValueError(
            f"CUDAMATH_DISTRIBUTED_TIMEOUT is a positive number of seconds, got {given!r}"
        )
    return seconds


class World:
    """A process of its own: the only member of its world. `tcp` and `threads` derive from it.

    Attributes
    ----------
    rank, size : int
        The number of this member, and how many there are.
    local_rank : int
        The number of this member among those on the same machine.
    timeout : float
        Seconds after which a member that does not come counts as lost.
    """

    def __init__(
        self, rank: int = 0, size: int = 1, local_rank: int = 0, timeout: float | None = None
    ):
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self.timeout = default_timeout() if timeout is None else timeout
        self.mailbox = Mailbox(rank)
        #: What ends before the world does: connections between GPUs. Each has `wait` and `close`.
        self.connections: list[Any] = []

    # -------------------- what a carrier provides

    def post(self, peer: int, channel: int, what: str, data: np.ndarray) -> None:
        """Send bytes to another member; returns when `data` may be changed."""
        raise AssertionError("a member of a world of one has nobody to write to")

    def announce(self, rank: int, reason: str) -> None:
        """Tell all others that a member failed."""

    def close(self) -> None:
        """Leave in good order."""

    def end_connections(self) -> None:
        """Wait until what GPUs tell each other has ended, here and for all others, whose memory it
        may be in; then end the connections."""
        if not self.connections or self.mailbox.failure is not None:
            return
        try:
            for each in self.connections:
                each.wait()
            self.barrier("the end")
        except (CommunicationError, CudaError, ValueError):  # another one failed: there is no order
            return
        for each in self.connections:
            each.close()

    # -------------------- what is the same for all

    def peers(self) -> Iterator[int]:
        """The other members, beginning behind this one, so that not all write to the same one."""
        return ((self.rank + step) % self.size for step in range(1, self.size))

    def fail(self, rank: int, reason: str) -> None:
        """End the world, here and for all others: a member failed."""
        if self.mailbox.fail(rank, reason):
            self.announce(rank, reason)

    def take(self, peer: int, what: str = "", channel: int = MAIN) -> Letter:
        """The next letter of another member. CommunicationError if it has ended, or is too late."""
        letter = self.mailbox.take(peer, channel, self.timeout)
        if letter is None:
            about = what.partition(" of ")[0] or "a letter"
            self.fail(peer, f"did not come to {about} within {self.timeout:g} s")
            raise self.mailbox.error()
        return letter

    def _collect(self, what: str, channel: int) -> list[np.ndarray | None]:
        """One letter of each other member, all about the same as this one's."""
        letters = {peer: self.take(peer, what, channel) for peer in self.peers()}
        seen = [what if i == self.rank else letters[i].what for i in range(self.size)]
        self._compare(seen)
        return [None if i == self.rank else letters[i].data for i in range(self.size)]

    @staticmethod
    def _compare(seen: Sequence[str]) -> None:
        other = next((i for i, text in enumerate(seen) if text != seen[0]), None)
        if other is not None:
            raise ValueError(
                named(
                    "all processes must bring the same; rank 0 brought "
                    f"{seen[0][:300]}, rank {other} {seen[other][:300]}"
                )
            )

    def exchange(self, parts: np.ndarray, what: str = "", channel: int = MAIN) -> np.ndarray:
        """(size, n) bytes: row i goes to member i; in the result row i is what came from member
        i. ValueError where members are not about the same."""
        if self.size == 1:
            return parts
        self.mailbox.check()
        for peer in self.peers():
            self.post(peer, channel, what, parts[peer])
        return self._rows(parts[self.rank], self._collect(what, channel))

    def gather(self, part: np.ndarray, what: str = "", channel: int = MAIN) -> np.ndarray:
        """(n,) bytes of each member -> (size, n), on all of them. ValueError where they are not
        about the same."""
        if self.size == 1:
            return part[None]
        self.mailbox.check()
        for peer in self.peers():
            self.post(peer, channel, what, part)
        return self._rows(part, self._collect(what, channel))

    def _rows(self, own: np.ndarray, others: list[np.ndarray | None]) -> np.ndarray:
        received = np.empty((self.size, own.size), np.uint8)
        for row, data in zip(received, others, strict=True):
            row[:] = own if data is None else data
        return received

    def agree(self, what: str, channel: int = MAIN) -> None:
        """ValueError on all members unless all are about the same."""
        self.gather(np.empty(0, np.uint8), what, channel)

    def texts(self, what: str, text: str, channel: int = MAIN) -> list[str]:
        """A text of each member, on all of them."""
        if self.size == 1:
            return [text]
        mine = np.frombuffer(text.encode(), np.uint8)
        self.mailbox.check()
        for peer in self.peers():
            self.post(peer, channel, what, mine)
        return [
            text if data is None else bytes(data).decode() for data in self._collect(what, channel)
        ]

    def broadcast(self, data: np.ndarray, root: int, what: str = "", channel: int = MAIN) -> None:
        """(n,) bytes: everyone's are overwritten by those of member `root`."""
        if self.size == 1:
            return
        self.agree(what, channel)
        if self.rank == root:
            for peer in self.peers():
                self.post(peer, channel, what, data)
        else:
            data[:] = self.take(root, what, channel).data

    def barrier(self, what: str = "barrier") -> None:
        """Wait until all have come here."""
        if self.size > 1:
            self.agree(what)

    def send(self, data: np.ndarray, peer: int, what: str, channel: int = MAIN) -> None:
        """Send bytes to one member, which calls `receive` with the same words."""
        self.mailbox.check()
        self.post(peer, channel, what, data)

    def receive(self, peer: int, what: str, channel: int = MAIN) -> np.ndarray:
        """The bytes that one member sends. ValueError if it sends something else."""
        letter = self.take(peer, what, channel)
        if letter.what != what:
            raise ValueError(
                named(f"wants {what[:300]} from rank {peer}, which sent {letter.what[:300]}")
            )
        return letter.data

    def lost(self, peer: int) -> None:
        """The connection to a member has ended."""
        if self.mailbox.lose(peer):
            assert self.mailbox.failure is not None
            self.announce(*self.mailbox.failure)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} rank {self.rank} of {self.size}>"


__all__ = ["BUCKETS", "MAIN", "TIMEOUT", "CommunicationError", "World", "default_timeout"]
