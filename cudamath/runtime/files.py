"""Files that appear whole or not at all, and folders and files that belong to this user alone.

Whatever the package writes is first written beside its place, under a name that nobody can foresee
and that no one else holds, and then renamed. So neither a full disk, nor an interrupt, nor another
process, nor a link that lies there leaves half a file or writes into another one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from .interrupts import context_manager

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
# what file systems without locks or without synchronised folders answer
_NOT_SUPPORTED = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL, errno.EACCES)


@context_manager
def whole_file(
    name: str,
    path: str | os.PathLike[str],
    *,
    private: bool = False,
    durable: bool = True,
    ending: str = "",
    special: bool = False,
) -> Iterator[str]:
    """The path of an empty file to write; it becomes `path` when the block ends, or goes.

    Links at `path` stay, and the file that they point to is replaced. The file keeps the mode of
    the one that it replaces; a new one has the mode that the umask leaves. A `private` file has the
    mode 0600, and takes the place of a link. Errors of the system begin with `name`. A file that is
    not `durable` may be lost, or be empty, after a power cut. ending: of the name of the file to
    write. special: a pipe or device that lies there is written into.
    """
    if special and _is_special(path):
        with naming(name, path):
            yield os.fspath(path)
        return
    target = os.path.abspath(path) if private else os.path.realpath(path)
    folder = os.path.dirname(target)
    beside = os.path.join(folder, f".cudamath-{os.urandom(8).hex()}.tmp{ending}")
    try:
        with naming(name, path):
            mode = PRIVATE_FILE if private else _mode_before(target)
            _make_file(beside, private=mode is not None)
            if mode is None:
                mode = stat.S_IMODE(os.stat(beside).st_mode)
            yield beside
            if durable:
                with open(beside, "rb+") as file:
                    os.fsync(file.fileno())
            os.chmod(beside, mode)  # the writer may have replaced the file
            os.replace(beside, target)
            if durable:
                _synchronize_folder(folder)
    finally:
        with contextlib.suppress(OSError):  # it was renamed, or never made
            os.unlink(beside)


@context_manager
def naming(name: str, path: object, what: str = "write") -> Iterator[None]:
    """Errors of the system say which function could not do what with a path, or an open file."""
    try:
        yield
    except OSError as error:
        if str(error.strerror or error).startswith(f"{name}: "):
            raise
        if isinstance(path, str | bytes | os.PathLike):
            place = os.fsdecode(path)
        else:
            place = getattr(path, "name", "the open file")
        message = f"{name}: cannot {what} {place}: {error.strerror or error}"
        named = type(error)(message)
        named.errno = error.errno  # given to the class, it would be put before the name
        raise named from error


def _mode_before(target: str) -> int | None:
    """The mode of the file that lies there, None where there is none. OSError for what is no
    regular file: renaming would replace a device by a file."""
    try:
        return stat.S_IMODE(require_regular(os.stat(target).st_mode))
    except FileNotFoundError:
        return None


def require_regular(mode: int) -> int:
    """The mode of a regular file; OSError for a folder, and for a pipe, which may wait for ever."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is a {_kind(mode)}, not a regular file")
    return mode


def _is_special(path: str | os.PathLike[str]) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _kind(mode: int) -> str:
    """What lies at a place, in words."""
    for is_kind, kind in (
        (stat.S_ISFIFO, "pipe"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
    ):
        if is_kind(mode):
            return kind
    return "special file"


def _make_file(path: str, private: bool) -> None:
    """A new, empty file; never one that lies there, nor through a link. The system applies the
    umask and the folder's rules, unless the file is private."""

    def make(path: str, flags: int) -> int:
        return os.open(path, flags, PRIVATE_FILE if private else 0o666)

    with open(path, "xb", opener=make):
        pass


def _synchronize_folder(folder: str) -> None:
    """Bring the renaming itself to the disk: a power cut could undo it otherwise."""
    if os.name == "nt":  # which opens no folders
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder that may be written but not read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    finally:
        os.close(descriptor)


def make_private_folder(folder: str | os.PathLike[str]) -> None:
    """Make a folder, and those above it that are missing, for this user alone. One that exists
    stays as it is."""
    missing = []
    place = os.path.abspath(folder)
    while not os.path.isdir(place) and place not in missing:
        missing.append(place)
        place = os.path.dirname(place)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.mkdir(each, PRIVATE_FOLDER)
    if not os.path.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, "there is no folder", os.fspath(folder))


def open_own(path: str | os.PathLike[str]) -> BinaryIO:
    """A file of a cache, open for reading. OSError for what someone else may have put there: a
    link, a pipe, a folder, a file of another user but root, or one that everybody may write."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))  # NONBLOCK: a pipe has no writer
    file = open(descriptor, "rb")
    try:
        about = os.fstat(descriptor)
        require_regular(about.st_mode)
        if os.name != "nt":
            if about.st_uid not in (os.geteuid(), 0):
                raise PermissionError(errno.EPERM, f"it belongs to user {about.st_uid}")
            if about.st_mode & stat.S_IWOTH:
                raise PermissionError(errno.EPERM, "everybody may write it")
    except OSError:
        file.close()
        raise
    return file


def read_own(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file of a cache; OSError as `open_own`."""
    with open_own(path) as file:
        return file.read()


@context_manager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """One process, and one thread of it, at a time: the lock of an empty file that stays. File
    systems without locks give none."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, PRIVATE_FILE)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)  # which gives the lock back


def _lock(descriptor: int) -> None:
    if fcntl is None:
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
