"""From Python's bytecode to Numba's intermediate representation, in less time: `install`.

Of the instructions that Python 3.11 lists more than half are room that its interpreter keeps for
itself behind others (CACHE). Numba decodes each of them, follows it through the function and finds
that it does nothing. Here none is decoded. Nor is the name of the method that follows an
instruction put together for each of them anew, for a log that nobody keeps.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from typing import Any


def install(bytecode: Any, byteflow: Any) -> None:
    """Let Numba's modules take it."""
    if sys.version_info[:2] == (3, 11):  # the others have no room, or Numba leaves it out
        bytecode._unpack_opargs = without_room(bytecode._unpack_opargs)
    _find_labels_quickly(bytecode.ByteCode)
    _follow_quickly(byteflow.TraceRunner)


def without_room(decode: Callable[[bytes], Iterator[tuple]]) -> Callable[[bytes], Iterator[tuple]]:
    """What decodes instructions, (offset, opcode, argument, offset of the next one), without those
    that are room."""
    room = dis.opmap["CACHE"]

    def decoded(code: bytes) -> Iterator[tuple]:
        before = None
        for offset, opcode, argument, _ in decode(code):
            if opcode != room:
                if before is not None:
                    yield *before, offset
                before = offset, opcode, argument
        if before is not None:
            yield *before, len(code)

    return decoded


def _find_labels_quickly(bytecode: Any) -> None:
    """Whether a jump leads to an instruction was looked for in a list."""
    make = bytecode.__init__

    def make_with_set(self: Any, func_id: Any) -> None:
        make(self, func_id)
        self.labels = frozenset(self.labels)

    bytecode.__init__ = make_with_set


def _follow_quickly(runner: Any) -> None:
    follow = runner.dispatch
    methods: dict[str, Any] = {}

    def follow_quickly(self: Any, state: Any) -> None:
        if state._blockstack:
            follow(self, state)
            return
        instruction = state.get_inst()
        name = instruction.opname
        method = methods.get(name)
        if method is None:
            method = getattr(runner, f"op_{name}", None)
            if method is None:
                follow(self, state)  # which says that it cannot
                return
            methods[name] = method
        method(self, state, instruction)

    runner.dispatch = follow_quickly
