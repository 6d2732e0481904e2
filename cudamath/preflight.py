"""What a command will need, looked at before its work begins: packages, files to read, places to
write. A problem that is said now costs a second; said at the end it costs the work."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterator

from .runtime.files import naming, require_regular
from .runtime.interrupts import context_manager

__all__ = [
    "require_file",
    "require_packages",
    "require_writable_file",
    "require_writable_folder",
    "stop_requested",
]

Path = str | os.PathLike[str]


def require_packages(command: str, extra: str, *modules: str) -> None:
    """ImportError that names the packages that are missing, and what brings them."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"{command}: needs {' and '.join(missing)}, not installed here; "
            f"pip install 'cudamath[{extra}]' brings what it needs"
        )


def require_file(command: str, path: Path) -> None:
    """OSError if a file cannot be read."""
    with naming(command, path, "read"):
        require_regular(os.stat(path).st_mode)
        with open(path, "rb"):
            pass


def require_writable_file(command: str, path: Path | None) -> None:
    """OSError if a file cannot be made there, or replaced: for want of its folder or of a
    permission, because it is a folder itself, or because the disk is full."""
    if path is None:
        return
    file = pathlib.Path(path).absolute()
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{command}: cannot write {path}: there is no folder {file.parent}")
    with naming(command, path):
        with contextlib.suppress(FileNotFoundError):
            require_regular(os.stat(file).st_mode)
        _write_something(file.parent)


def require_writable_folder(command: str, path: Path) -> None:
    """OSError if a folder cannot be made, or nothing can be written into it. The folder is there
    afterwards."""
    with naming(command, path):
        os.makedirs(path, exist_ok=True)
        _write_something(pathlib.Path(path))


def _write_something(folder: pathlib.Path) -> None:
    """Permissions alone do not tell: the disk may be full, or mounted for reading."""
    probe = folder / f".cudamath-{os.urandom(8).hex()}.tmp"
    try:
        with open(probe, "xb") as file:
            file.write(b"\0" * 4096)
    finally:
        probe.unlink(missing_ok=True)


@context_manager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """Whether someone asked to stop, by Ctrl-C or SIGTERM: a function that a loop asks between its
    steps, so that none is left half done. A second Ctrl-C interrupts at once.

    Signals reach the main thread alone; in others nobody asks.
    """
    asked = False

    def note(number: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
