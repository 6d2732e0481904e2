"""What a call leaves of its thread's state, however it ends: nothing."""

from __future__ import annotations

import fake_driver
import numpy as np

from cudamath.core import compile_notice, recording
from cudamath.core.autograd import mutation
from cudamath.core.dispatch import call_record
from cudamath.ops import error_state
from cudamath.runtime import host_stream
from cudamath.runtime.state import runtime


def outside() -> tuple:
    """What a call finds, and may not change: the current stream, the contexts of devices around it,
    and how NumPy meets errors."""
    local = runtime.local
    return local.stream, local.device_stack, np.geterr(), np.geterrcall()


def left_behind(before: tuple) -> str:
    """Which part of the thread's state is not as it was outside of every call; empty if all is.

    before: what `outside` said.
    """
    stream, devices, *errors = before
    local, state, host = runtime.local, recording.state, host_stream._local
    parts = {
        "contexts entered": local.entered == (),
        "devices": local.device_stack == devices,
        "another stream": local.stream is stream,
        "a tape": (state.depth, state.paused, state.draws) == (0, False, None),
        "a record": not call_record.open_records and call_record.current() is None,
        "a holder of changes": all(holder() is None for _, holder, _ in mutation.holders.values()),
        "a capture": not runtime.captures,
        "an error state": not error_state._thread.modes and error_state._thread.method is None,
        "NumPy's error state": [np.geterr(), np.geterrcall()] == errors,
        "a stream of the CPU": host.entered == () and not host.capturing,
        "a compiler's notice": not getattr(compile_notice._here, "inside", False),
        "a profile": runtime.profile is None,
        "driver contexts": not isinstance(runtime.driver, fake_driver.FakeDriver)
        or len(runtime.driver.contexts) <= 1,
    }
    return ", ".join(part for part, clean in parts.items() if not clean)
