"""How a row is divided among threads, warps and blocks in the forward pass."""

from __future__ import annotations

from typing import NamedTuple

HELD = 32  # elements of a row a thread holds, of 16 bits or where the row is too long for ..
FEW, MOST = (
    16,
    512,
)  # .. so many in as many threads: then twice as many of these are on a multiprocessor

# threads that share a row at least, if it has an access for each: they read a quarter of a kilobyte
NEIGHBOURS = 16
LONG = 1024  # threads for a row of any length
LONG_GROUP = 2048  # elements of a group from which on a block of 64 threads has something to hold


class Parts(NamedTuple):
    """What a kernel is compiled with."""

    center: bool = True  # layer norm; else RMS norm
    weight: bool = True
    bias: bool = True
    residual: bool = False  # forward: x + r is standardised; backward: a gradient is added
    channels: bool = False  # weight and bias by channels (group norm)


class Channels(NamedTuple):
    """Group norm: groups of a sample, channels of a group, elements of a channel."""

    groups: int
    share: int
    run: int
