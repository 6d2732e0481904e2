"""Dry streams, on which nothing runs.

While a *dry stream* is in the place of a thread's current stream, plans return results without
memory: they have layouts and addresses, which tell apart what overlaps, and no bytes. No kernel
is compiled, loaded or launched for them (core/dispatch/plan_codegen.py). So `jit` learns what a
function does before any of it is done.

Of a dry stream's device no array is (`NOWHERE`): whatever asks whether an array's device is the
current one goes its slow way, and there meets the dry stream.
"""

from __future__ import annotations

import weakref
from typing import Any

from .interrupts import uninterrupted
from .state import runtime

NOWHERE = -(1 << 40)
FIRST = 1 << 60  # the lowest address without memory, beyond all that devices have
_STEP = 512  # addresses are multiples of it, as those of the pool's blocks


class NeedsDevice(RuntimeError):
    """What is being recorded on a dry stream cannot be known without running it."""


class Unallocated:
    """In the place of the owner of memory: memory that was never allocated.

    Attributes
    ----------
    address : int
        Where it would begin.
    name : str
        The function that is recorded.
    """

    __slots__ = ("address", "name", "__weakref__")

    stream = None  # no stream is the one on which it was used last

    def __init__(self, address: int, name: str):
        self.address, self.name = address, name

    def used_on(self, _stream: Any) -> None:
        """Raise RuntimeError: a kernel or a copy is about to use the memory."""
        raise RuntimeError(_no_values(self.name))


class Gone:
    """In the place of an address of memory that was never allocated, once the trace is over."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError(_no_values(self.name))

    __index__ = __int__ = __add__ = __radd__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse


def _no_values(name: str) -> str:
    return (
        f"jit: an array was kept beyond the trace of {name}, in which it had no values: return "
        "arrays from the function"
    )


class DryStream:
    """Context: this thread's current stream is one on which nothing runs.

    Parameters
    ----------
    standing : Stream
        The current stream of the device, on which other work goes on: copies of the host's arrays.
    name : str
        The function that is recorded.

    Attributes
    ----------
    reason : str
        Why the function cannot be recorded so; "" as long as it can.
    used : dict
        Plans that ran here and whose kernels have not been loaded yet, in order.
    """

    device = NOWHERE
    capturing = graph_only = False

    def __init__(self, standing: Any, name: str):
        self.standing, self.name, self.reason = standing, name, ""
        self.used: dict[Any, None] = {}
        self._next = FIRST
        self._owners: list[weakref.ref] = []

    def take(self, nbytes: int) -> Unallocated:
        """The owner of so many bytes, at addresses that nothing else has."""
        owner = Unallocated(self._next, self.name)
        self._next += (nbytes + _STEP - 1) // _STEP * _STEP or _STEP
        self._owners.append(weakref.ref(owner))
        return owner

    def refuse(self, reason: str) -> None:
        """Raise NeedsDevice. The reason stays known where the function catches the error."""
        self.reason = self.reason or reason
        raise NeedsDevice(reason)

    def refuse_capture(self, name: str, why: str = "it needs the device") -> None:
        """What no graph can hold, a dry stream cannot do either."""
        self.refuse(f"{name}: {why}")

    def wait(self, event: Any) -> None:
        """Let the work that does go on wait."""
        self.standing.wait(event)

    def __enter__(self) -> DryStream:
        self._before = runtime.local.stream
        runtime.local.stream = self
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        runtime.local.stream = self._before

    def kept(self) -> set[int]:
        """The ids of the owners that somebody still has."""
        return {id(owner) for owner in [find() for find in self._owners] if owner is not None}


class launching:
    """Context: work of this thread runs inside, also while a function is recorded. For what decides
    by measuring."""

    def __enter__(self) -> launching:
        self._before = before = runtime.local.stream
        if before.__class__ is DryStream:
            runtime.local.stream = before.standing
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        runtime.local.stream = self._before
