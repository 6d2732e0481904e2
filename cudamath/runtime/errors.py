"""One status check for every CUDA call, and the exceptions users see."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from .state import runtime


class CudaError(RuntimeError):
    """A CUDA call failed.

    `.status` is the status of the driver or library.

    Parameters
    ----------
    message : str
        Text of the error.
    status : object, optional
        Status of the driver or library.
    """

    def __init__(self, message: str, status: Any = None):
        super().__init__(message)
        self.status = status


class DeviceError(RuntimeError):
    """A device that does not exist, cannot be used, or was mixed with another."""


class OutOfMemoryError(MemoryError):
    """Device memory is exhausted, or a limit was reached.

    The message tells what was requested and what is available.
    """


def out_of_memory(error: Exception) -> bool:
    """Whether the driver, or a library through its bindings, says that there is no more memory."""
    return isinstance(error, OutOfMemoryError) or "ALLOC_FAILED" in str(error)


def library_error(error: Exception, what: str) -> CudaError | OutOfMemoryError:
    """The exception that belongs to an error of the bindings of cuBLAS and its relatives, status
    name included."""
    message = f"{what}: {error}"
    return (
        OutOfMemoryError(message)
        if out_of_memory(error)
        else CudaError(message, getattr(error, "status", None))
    )


def _no_streams() -> str:
    return ""


#: on_lost_context() makes the context of this thread's device current again where it is not, and
#: says so for an error message; "" where it was current. stream.py puts its function here.
on_lost_context: Callable[[], str] = _no_streams

_OURS = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    "<cudamath",
)  # files, and generated code


def is_ours(code: Any) -> bool:
    """Whether a frame's code belongs to this package."""
    return code.co_filename.startswith(_OURS)


_files: dict[str, bool] = {}  # of code that was looked at: whether it is ours


def user_place(above: int = 1) -> tuple[Any, int]:
    """What called cudamath, the innermost frame that is none of ours: its code and where it is in
    it, for `line_of`. above: so many frames from here on are known to be ours, if there are more.
    """
    try:
        frame = sys._getframe(above)
    except ValueError:  # called by the interpreter itself (atexit)
        frame = sys._getframe(1)
    while True:
        code = frame.f_code
        ours = _files.get(code.co_filename)
        if ours is None:
            ours = _files[code.co_filename] = code.co_filename.startswith(_OURS)
        back = (
            frame.f_back if ours else None
        )  # which Python makes an object for: not before it is needed
        if back is None:
            return code, frame.f_lasti
        frame = back


def line_of(place: tuple[Any, int]) -> str:
    """The Python line ("file:number") of a place. Finding the number takes longer than remembering
    the place."""
    code, at = place
    line = next((number for start, stop, number in code.co_lines() if start <= at < stop), None)
    return f"{code.co_filename}:{line}"


def user_line() -> str:
    """The Python line ("file:number") that called cudamath: the innermost frame that is none of
    ours."""
    return line_of(user_place())


def record_with_line(launch: Any) -> None:
    """Put into the recent launches with the user's line: about 0.5 us, so only on demand."""
    runtime.recent_launches.append(f"{launch} at {user_line()}")


# These statuses mean that the context is lost: the fault belongs to an earlier, asynchronous
# launch.
_STICKY = (
    "ILLEGAL_ADDRESS",
    "LAUNCH_FAILED",
    "LAUNCH_TIMEOUT",
    "MISALIGNED",
    "ILLEGAL_INSTRUCTION",
    "HARDWARE_STACK",
    "INVALID_ADDRESS_SPACE",
    "INVALID_PC",
    "ASSERT",
)


def check(result: tuple) -> Any:
    """Unpack what a cuda.bindings call returned: raise if its status is not success, else give back
    its value(s)."""
    status = result[0]
    if status:
        fail(status)
    if len(result) == 2:
        return result[1]
    return result[1:] if len(result) > 2 else None


def fail(status: Any, what: str = "") -> None:
    """Raise the exception that belongs to a non-zero CUDA status."""
    name = getattr(status, "name", str(status))
    message = f"{what}: {name}" if what else name
    if "INVALID_CONTEXT" in name or "INVALID_HANDLE" in name:
        message += on_lost_context()
    if "OUT_OF_MEMORY" in name:
        raise OutOfMemoryError(message)
    if any(word in name for word in _STICKY):
        names = ", ".join(str(launch) for launch in reversed(runtime.recent_launches)) or "none"
        message += f" (reported asynchronously; last launches, newest first: {names}"
        message += (
            ")"
            if " at " in names
            else "; with cm.cuda.launch_lines() or CUDAMATH_LAUNCH_LINES=1 each with its line)"
        )
    raise CudaError(message, status)
