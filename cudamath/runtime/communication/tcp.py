"""A world of processes that are connected by TCP, each with each.

One thread for each connection reads what arrives into the mailbox, whatever the process is doing.
So nobody who sends waits for a receiver that is busy, and a process that ends is noticed at once,
by the end of its connection.
"""

from __future__ import annotations

import atexit
import errno
import os
import socket
import struct
import sys
import threading
import types

import numpy as np

from .. import fork
from .mailbox import Letter
from .world import World

_HEADER = struct.Struct("!BxHIQ")  # kind, channel, bytes of text, bytes of data
_NOTHING = memoryview(b"")
_LETTER, _FAILURE, _GOODBYE = range(3)


class TcpWorld(World):
    """The processes at the other ends of `sockets`."""

    def __init__(
        self,
        rank: int,
        size: int,
        local_rank: int,
        sockets: dict[int, socket.socket],
        timeout: float,
    ):
        super().__init__(rank, size, local_rank, timeout)
        self._sockets = sockets
        self._locks = {peer: fork.new_lock() for peer in sockets}
        self._closed = False
        self._process = os.getpid()
        seconds = struct.pack("@ll", int(timeout) + 1, 0)
        for peer, connection in sockets.items():
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
            threading.Thread(
                target=self._read, args=(peer, connection), name=f"rank {peer}", daemon=True
            ).start()

    def post(self, peer: int, channel: int, what: str, data: np.ndarray) -> None:
        self._write(peer, _LETTER, channel, what, data.data.cast("B"))

    def announce(self, rank: int, reason: str) -> None:
        if os.getpid() != self._process:  # a fork: what befalls it is no matter of the others
            return
        for peer in self.peers():
            if peer != rank:
                self._write(peer, _FAILURE, 0, f"{rank} {reason}")

    def close(self) -> None:
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        self.end_connections()
        for peer, connection in self._sockets.items():
            self._write(peer, _GOODBYE, 0, "")
            try:
                connection.shutdown(socket.SHUT_WR)
            except OSError:  # the other end is gone already
                pass

    def _write(
        self, peer: int, kind: int, channel: int, text: str, data: memoryview = _NOTHING
    ) -> None:
        words = text.encode()
        rest = [
            memoryview(part)
            for part in (_HEADER.pack(kind, channel, len(words), data.nbytes), words, data)
        ]
        connection = self._sockets[peer]
        try:
            with self._locks[peer]:
                while rest:
                    sent = connection.sendmsg(rest)
                    while rest and sent >= rest[0].nbytes:
                        sent -= rest.pop(0).nbytes
                    if rest:
                        rest[0] = rest[0][sent:]
        except OSError as problem:
            if kind == _LETTER:
                if problem.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                    self.fail(peer, f"did not read what it was sent within {self.timeout:g} s")
                else:
                    self.lost(peer)
                # A connection also ends when its other end left in good order.
                self.mailbox.check()

    def _read(self, peer: int, connection: socket.socket) -> None:
        header = bytearray(_HEADER.size)
        try:
            while _filled(connection, memoryview(header)):
                kind, channel, words, size = _HEADER.unpack(header)
                text = bytearray(words)
                data = np.empty(size, np.uint8)
                if not (_filled(connection, memoryview(text)) and _filled(connection, data.data)):
                    break
                if kind == _LETTER:
                    self.mailbox.put(peer, channel, Letter(text.decode(), data))
                elif kind == _FAILURE:
                    rank, _, reason = text.decode().partition(" ")
                    self.mailbox.fail(int(rank), reason)
                else:
                    self.mailbox.depart(peer)
        except OSError:  # reset by the other end
            pass
        self.lost(peer)


def _filled(connection: socket.socket, target: memoryview) -> bool:
    """Whether as many bytes came as the buffer takes."""
    while target.nbytes:
        count = connection.recv_into(target)
        if not count:
            return False
        target = target[count:]
    return True


def leave_with_the_process(world: World) -> None:
    """At the end of this process the others are told: that it ended, or by which exception."""
    before = sys.excepthook

    def announce(
        kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
    ) -> None:
        world.fail(world.rank, f"ended with {described(error)}")
        before(kind, error, trace)

    sys.excepthook = announce
    atexit.register(world.close)


def described(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
