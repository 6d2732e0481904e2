"""One status check for every CUDA call, and the exceptions users see."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from .state import runtime

F = TypeVar("F", bound=Callable)


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


class DeviceError(RuntimeError, ValueError):
    """A device that does not exist, cannot be used, or was mixed with another."""


class OutOfMemoryError(MemoryError):
    """Device memory is exhausted, or a limit was reached.

    The message tells what was requested and what is available.
    """


class CommunicationError(RuntimeError):
    """A process that this one computes with failed, was lost, or did not come in time.

    `.rank` is the number of that process.

    Parameters
    ----------
    message : str
        Text of the error; it names the process and what befell it.
    rank : int, optional
        Number of the process, where it is known.
    """

    def __init__(self, message: str, rank: int | None = None):
        super().__init__(message)
        self.rank = rank


def out_of_memory(error: Exception) -> bool:
    """Whether an error of the driver or of a library means that memory is exhausted."""
    return isinstance(error, OutOfMemoryError) or "ALLOC_FAILED" in str(error)


def public_function() -> str:
    """Name of the public function that the user called, "" if there is none: of the frames of this
    package above the user's, the first with a public name; `__add__` is "add"."""
    name, frame = "", sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back  # type: ignore[assignment]
    while frame is not None and is_ours(frame.f_code):
        name = public_name(frame.f_code) or name
        frame = frame.f_back  # type: ignore[assignment]
    return name


def public_name(code: Any) -> str:
    """The name of a function of this package, "" if it is not a public one."""
    name, place = code.co_name, code.co_qualname
    inner = "<locals>" in place and place.endswith(f".{name}")  # and not `shown_as` another
    public = name.startswith("__") or not (inner or name.startswith(("_", "<")))
    return name.strip("_") if public else ""


def named(message: str) -> str:
    """An error message that begins with the name of the public function that the user called."""
    name = public_function()
    return message if not name or message.startswith(f"{name}: ") else f"{name}: {message}"


def of_host(error: MemoryError) -> MemoryError:
    """What a public function raises where NumPy had no memory: an error that begins with its name.
    (Those of a device do already.)"""
    if isinstance(error, OutOfMemoryError):
        return error
    text, kind = named(str(error) or "there is not enough memory"), type(error)
    if kind is MemoryError:
        return MemoryError(text)
    # of NumPy's own class, which makes its text of the array's shape
    return type(kind.__name__, (kind,), {"__str__": lambda _: text})(*error.args)


def shown_as(name: str, function: F) -> F:
    """Let a function that shares its text with others appear under its own name in tracebacks, and
    in the messages of errors."""
    function.__code__ = function.__code__.replace(co_name=name)
    return function


def library_error(error: Exception, what: str) -> CudaError | OutOfMemoryError:
    """The exception for an error of the bindings of cuBLAS, cuSOLVER or cuFFT, with the name of the
    status."""
    message = named(f"{what}: {error}")
    return (
        OutOfMemoryError(message)
        if out_of_memory(error)
        else CudaError(message, getattr(error, "status", None))
    )


def _no_streams() -> str:
    return ""


#: on_lost_context() makes the context of this thread's device current again if it is not, and
#: returns a sentence for the error message; "" if it was current. Set by stream.py.
on_lost_context: Callable[[], str] = _no_streams

_OURS = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    "<cudamath",
)  # files, and generated code


def is_ours(code: Any) -> bool:
    """Whether a frame's code belongs to this package."""
    return is_our_file(code.co_filename)


def is_our_file(name: str) -> bool:
    """Whether a file is of this package, or code that it generated."""
    return name.startswith(_OURS)


_files: dict[str, bool] = {}  # file name -> whether it belongs to this package


def user_place(above: int = 1) -> tuple[Any, int, Any]:
    """The caller of cudamath: the innermost frame outside this package, as its code and position,
    for `line_of`, and the code that it called. above: the number of frames that belong to this
    package for certain.
    """
    called = None
    try:
        frame = sys._getframe(above)
    except ValueError:  # called by the interpreter itself (atexit)
        frame = sys._getframe(1)
    while True:
        code = frame.f_code
        ours = _files.get(code.co_filename)
        if ours is None:
            ours = _files[code.co_filename] = code.co_filename.startswith(_OURS)
        back = frame.f_back if ours else None  # Python creates an object for it: only when needed
        if back is None:
            return code, frame.f_lasti, called
        called, frame = code, back


def line_of(place: tuple[Any, ...]) -> str:
    """The Python line ("file:number") of a place. Computing the number takes longer than storing
    the place."""
    code, at = place[:2]
    line = next((number for start, stop, number in code.co_lines() if start <= at < stop), None)
    return f"{code.co_filename}:{line}"


def user_line() -> str:
    """The Python line ("file:number") that called cudamath: of the innermost frame outside this
    package."""
    return line_of(user_place())


def record_with_line(launch: Any) -> None:
    """Add the user's line to the recent launches: about 0.5 us, so only on demand."""
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
    """Unpack the result of a cuda.bindings call: raise if its status is an error, else return its
    value(s)."""
    status = result[0]
    if status:
        fail(status)
    if len(result) == 2:
        return result[1]
    return result[1:] if len(result) > 2 else None


def fail(status: Any, what: str = "") -> None:
    """Raise the exception for a non-zero CUDA status."""
    name = getattr(status, "name", str(status))
    message = named(f"{what}: {name}" if what else name)
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
