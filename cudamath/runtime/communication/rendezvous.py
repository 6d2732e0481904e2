"""How processes meet: each learns the addresses of all others from rank 0, and connects to them.

Rank 0 listens at an address that all know, or writes where it listens into a file that all can
read, or tells them by MPI. The others come with their own addresses. When the last one has come,
rank 0 answers with the list, and with a secret word by which members know each other.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import struct
import time
from typing import Any, NamedTuple

_SIZE = struct.Struct("!I")
_MOST = 1 << 20  # bytes of a message: who sends more is no member
_WORD = "cudamath"
_SILENCE = 10.0  # seconds after which somebody who came and says nothing is sent away
_PAUSE = 0.02  # seconds between two attempts


class Meeting(NamedTuple):
    """Where rank 0 listens: at an address, or where a file says; and what it listens with, if it
    does already."""

    address: str = ""
    port: int = 0
    path: str | os.PathLike[str] | None = None
    listener: socket.socket | None = None


class Absent(Exception):
    """A process that did not come in time."""

    def __init__(self, message: str, rank: int | None = None):
        super().__init__(message)
        self.rank = rank


def host() -> str:
    """The name of this machine, by which others on the network find it."""
    return socket.gethostname()


def listening(address: str, port: int) -> socket.socket:
    """A socket that others may connect to. OSError if the port is taken."""
    return socket.create_server((address, port), backlog=1024)


def connected(
    rank: int, size: int, meeting: Meeting, timeout: float
) -> tuple[dict[int, socket.socket], int]:
    """Connections to all other members, and the number of this one among those on its machine.

    Raises
    ------
    Absent
        Somebody did not come within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    with contextlib.ExitStack() as opened:
        found = (
            _received(size, meeting, deadline, timeout, opened)
            if rank == 0
            else _arrived(rank, size, meeting, deadline, timeout, opened)
        )
        opened.pop_all()
    return found


def _received(
    size: int, meeting: Meeting, deadline: float, timeout: float, opened: contextlib.ExitStack
) -> tuple[dict[int, socket.socket], int]:
    """Rank 0: all others come."""
    local = meeting.address in ("localhost", "127.0.0.1")
    listener = meeting.listener or listening(
        "127.0.0.1" if local else "", 0 if meeting.path else meeting.port
    )
    if meeting.path:
        _write_place(meeting.path, listener.getsockname()[1])
    sockets: dict[int, socket.socket] = {}
    hosts, ports, addresses = {0: host()}, {0: 0}, {0: ""}
    try:
        with listener:
            while len(sockets) < size - 1:
                connection = _accepted(listener, deadline)
                if connection is None:
                    missing = sorted(set(range(1, size)) - set(sockets))
                    problem = f"{_ranks(missing)} did not come within {timeout:g} s"
                    for each in sockets.values():
                        with contextlib.suppress(OSError):
                            _say(each, {"problem": problem, "rank": missing[0]})
                    raise Absent(problem, missing[0])
                try:
                    words = _heard(connection)
                    peer = words["rank"]
                    good = words["word"] == _WORD and words["size"] == size and 0 < peer < size
                except (OSError, ValueError, KeyError, TypeError):  # nobody that we know
                    connection.close()
                    continue
                if not good or peer in sockets:
                    with contextlib.suppress(OSError):
                        problem = f"rank {peer} of {words.get('size')} is not wanted among {size}"
                        _say(connection, {"problem": problem, "rank": peer})
                    connection.close()
                    continue
                sockets[peer] = opened.enter_context(connection)
                hosts[peer], ports[peer] = words["host"], words["port"]
                seen = connection.getpeername()[0]
                addresses[peer] = "" if seen.startswith("127.") or seen == "::1" else seen
    finally:
        if meeting.path:
            with contextlib.suppress(FileNotFoundError):
                os.remove(meeting.path)
    told = {
        "secret": secrets.token_hex(16),
        "members": [[hosts[i], addresses[i], ports[i]] for i in range(size)],
    }
    for connection in sockets.values():
        _say(connection, told)
    return sockets, 0


def _arrived(
    rank: int,
    size: int,
    meeting: Meeting,
    deadline: float,
    timeout: float,
    opened: contextlib.ExitStack,
) -> tuple[dict[int, socket.socket], int]:
    """Another rank: it comes to rank 0, and then meets those between them, and those after it."""
    with listening("", 0) as listener:
        first, master = _at_first(meeting, deadline, timeout)
        opened.enter_context(first)
        port = listener.getsockname()[1]
        _say(first, {"word": _WORD, "rank": rank, "size": size, "host": host(), "port": port})
        first.settimeout(max(deadline - time.monotonic(), 0.0) + 5)  # rank 0 says who is missing
        try:
            told = _heard(first)
        except (OSError, ValueError):
            raise Absent("rank 0 ended before all had come", 0) from None
        if "problem" in told:
            raise Absent(told["problem"], told["rank"])
        members, secret = told["members"], told["secret"]
        sockets = {0: first}
        for peer in range(1, rank):
            name, address, port = members[peer]
            where = "127.0.0.1" if name == host() else address or master
            try:
                connection = socket.create_connection((where, port), timeout)
            except OSError as problem:
                raise Absent(f"rank {peer} at {where}:{port} is gone: {problem}", peer) from None
            sockets[peer] = opened.enter_context(connection)
            _say(connection, {"secret": secret, "rank": rank})
        while len(sockets) < size - 1:
            newcomer = _accepted(listener, deadline)
            if newcomer is None:
                missing = sorted(set(range(size)) - set(sockets) - {rank})
                raise Absent(f"{_ranks(missing)} did not come within {timeout:g} s", missing[0])
            try:
                words = _heard(newcomer)
                peer = words["rank"]
                good = hmac.compare_digest(words["secret"], secret) and rank < peer < size
            except (OSError, ValueError, KeyError, TypeError):
                good = False
            if not good or peer in sockets:
                newcomer.close()
                continue
            sockets[peer] = opened.enter_context(newcomer)
    names = [name for name, _, _ in members]
    return sockets, names[:rank].count(names[rank])


def _at_first(meeting: Meeting, deadline: float, timeout: float) -> tuple[socket.socket, str]:
    """A connection to rank 0, and the address by which it was reached; tried until it is there."""
    problem: object = "it has not written where it is" if meeting.path else "nobody listens"
    while True:
        place = _read_place(meeting.path) if meeting.path else (meeting.address, meeting.port)
        if place is not None:
            address = "127.0.0.1" if place[0] == host() else place[0]
            try:
                return socket.create_connection((address, place[1]), timeout), address
            except OSError as error:  # not yet there
                problem = f"{address}:{place[1]}: {error}"
        if time.monotonic() > deadline:
            raise Absent(f"rank 0 did not come within {timeout:g} s ({problem})", 0)
        time.sleep(_PAUSE)


def _accepted(listener: socket.socket, deadline: float) -> socket.socket | None:
    """The next one who comes, or None if nobody does."""
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    listener.settimeout(left)
    try:
        connection, _ = listener.accept()
    except TimeoutError:
        return None
    connection.settimeout(_SILENCE)
    return connection


def _write_place(path: str | os.PathLike[str], port: int) -> None:
    """Nobody reads half a line: the file appears whole."""
    part = f"{os.fspath(path)}.{secrets.token_hex(8)}"
    try:
        with open(part, "x", encoding="utf-8") as file:  # never through a link that lies there
            json.dump([host(), port], file)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _read_place(path: str | os.PathLike[str]) -> tuple[str, int] | None:
    try:
        with open(path, encoding="utf-8") as file:
            name, port = json.load(file)
        return str(name), int(port)
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _say(connection: socket.socket, words: dict[str, Any]) -> None:
    text = json.dumps(words).encode()
    connection.sendall(_SIZE.pack(len(text)) + text)


def _heard(connection: socket.socket) -> dict[str, Any]:
    """What the other end says. ValueError if it is no message of a member."""
    (size,) = _SIZE.unpack(_exactly(connection, _SIZE.size))
    if size > _MOST:
        raise ValueError("no member sends so much")
    words = json.loads(_exactly(connection, size))
    if not isinstance(words, dict):
        raise ValueError("no member says that")
    return words


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError("the other end has gone")
        data += more
    return data


def _ranks(numbers: list[int]) -> str:
    return ("rank " if len(numbers) == 1 else "ranks ") + ", ".join(map(str, numbers))
