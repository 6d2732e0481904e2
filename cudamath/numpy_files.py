"""NumPy's own files: archives of named arrays (.npz) and single arrays (.npy), written and read
through NumPy."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .core.array import ndarray
from .core.asarray import upload
from .core.devices import index_of
from .core.typing import File

__all__ = ["savez", "savez_compressed"]

_NPY, _NPZ = b"\x93NUMPY", (b"PK\x03\x04", b"PK\x05\x06")


def on_host(name: str, x: Any) -> np.ndarray:
    """What NumPy is to write: an array on the host. TypeError for bfloat16 and float8, which its
    files would keep as bytes, and for Python objects, which `load` does not read."""
    try:
        host = x.to_numpy() if isinstance(x, ndarray) else np.asanyarray(x)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {type(x).__name__} cannot become an array: {error}") from None
    if isinstance(host, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: a mask would be lost of {host.dtype} of shape {host.shape}: give "
            "x.filled(value)"
        )
    if host.dtype.kind == "V" and host.dtype.names is None:
        raise TypeError(
            f"{name}: NumPy's files do not know {host.dtype}, got shape {host.shape}; `save` "
            "keeps it "
            "as safetensors"
        )
    if host.dtype.hasobject:
        raise TypeError(
            f"{name}: Python objects are neither written nor read, got {type(x).__name__} (dtype "
            f"{host.dtype}, shape {host.shape})"
        )
    return host


def path_of(name: str, path: Any) -> str:
    """A path as text; TypeError for what is none."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"{name}: wants a path, got {type(path).__name__} {path!r:.60}") from None


@contextlib.contextmanager
def whole(name: str, path: str) -> Iterator[str]:
    """Another name to write under, which becomes `path` when all is written, or goes."""
    target = os.path.realpath(path)  # through links: they stay
    if os.path.isdir(target):
        raise IsADirectoryError(f"{name}: {path} is a folder")
    beside = f"{target}.{os.getpid()}-{threading.get_ident()}.tmp"
    try:
        yield beside
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        if os.path.exists(beside):
            os.unlink(beside)


def without_objects(name: str, allow_pickle: Any) -> None:
    """ValueError where NumPy's `allow_pickle` is True: no file of ours holds Python objects."""
    if allow_pickle:
        raise ValueError(
            f"{name}: Python objects are neither written nor read, as they could run any code: "
            "allow_pickle must "
            f"be False, got {allow_pickle!r}"
        )


def _write(name: str, writer: Callable, file: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    arrays, named = (
        [on_host(name, x) for x in args],
        {key: on_host(name, x) for key, x in kwargs.items()},
    )
    for taken in kwargs.keys() & {f"arr_{i}" for i in range(len(args))}:
        raise ValueError(
            f"{name}: {taken} is the name of an array without a keyword, and a keyword too"
        )
    if hasattr(file, "write"):
        writer(file, *arrays, **named)
        return
    path = path_of(name, file)
    with (
        whole(name, path if path.endswith(".npz") else f"{path}.npz") as beside,
        open(beside, "wb") as target,
    ):
        writer(target, *arrays, **named)


def savez(file: File, *args: Any, allow_pickle: bool = False, **kwargs: Any) -> None:
    """Write arrays into one uncompressed .npz file, as NumPy's `savez`.

    The arrays are named by their keywords, or arr_0, arr_1, .... The file appears whole or not at
    all, and the previous file stays if writing fails.

    Parameters
    ----------
    file : path_like or file
        Path (".npz" is added if it is missing) or open file.
    *args : object
        Arrays on any device. They are copied to the host.
    allow_pickle : bool, default False
        Accepted for compatibility with NumPy, and False: Python objects are not written.
    **kwargs : object
        Arrays on any device. They are copied to the host.

    Raises
    ------
    OSError
        The file cannot be written.
    TypeError
        An array is bfloat16 or float8 (`save` writes these), or a Python object.
    ValueError
        `allow_pickle` is True.

    Examples
    --------
    >>> import cudamath as cm, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "points.npz")
    >>> cm.savez(path, x=cm.arange(3), y=cm.ones(2))
    >>> with cm.load(path) as found:
    ...     found.files, found["x"].tolist()
    (['x', 'y'], [0, 1, 2])
    """
    without_objects("savez", allow_pickle)
    _write("savez", np.savez, file, args, kwargs)


def savez_compressed(file: File, *args: Any, allow_pickle: bool = False, **kwargs: Any) -> None:
    """Write arrays into one compressed .npz file, otherwise as `savez`.

    Parameters
    ----------
    file : path_like or file
        Path (".npz" is added if it is missing) or open file.
    *args : object
        Arrays on any device. They are copied to the host.
    allow_pickle : bool, default False
        Accepted for compatibility with NumPy, and False: Python objects are not written.
    **kwargs : object
        Arrays on any device. They are copied to the host.

    Raises
    ------
    OSError
        The file cannot be written.
    TypeError
        An array is bfloat16 or float8 (`save` writes these), or a Python object.
    ValueError
        `allow_pickle` is True.

    Examples
    --------
    >>> import cudamath as cm, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "zeros.npz")
    >>> cm.savez_compressed(path, cm.zeros(10_000))
    >>> cm.load(path)["arr_0"].shape, os.path.getsize(path) < 1000
    ((10000,), True)
    """
    without_objects("savez_compressed", allow_pickle)
    _write("savez_compressed", np.savez_compressed, file, args, kwargs)


class Archive(dict):
    """The arrays of an .npz file by name; `files` names them. All have been read: closing it does
    nothing."""

    @property
    def files(self) -> list[str]:
        """The names, in the order of the file."""
        return list(self)

    def close(self) -> None:
        """For programs that close NumPy's."""

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def read(path: Any, device: Any) -> Any:
    """What an .npy or .npz file holds, on a device: an array or an `Archive`; None if the file is
    neither."""
    opened = hasattr(path, "read")
    try:
        with contextlib.nullcontext(path) if opened else open(path, "rb") as file:
            head = file.read(6)
            if opened:
                file.seek(-len(head), os.SEEK_CUR)
    except OSError:  # for `load` to say
        return None
    if head != _NPY and head[:4] not in _NPZ:
        if opened:
            raise ValueError(
                "load: an open file must be one of NumPy's, .npy or .npz; give the path of others"
            )
        return None
    index = index_of(device)

    def placed(host: np.ndarray) -> Any:  # strings and dates stay what they are
        return (
            upload(host.astype(host.dtype.newbyteorder("="), copy=False), index)
            if host.dtype.kind in "biufc"
            else host
        )

    try:
        found = np.load(path, allow_pickle=False)
        if not isinstance(found, np.ndarray):
            with found:
                found = {name: found[name] for name in found.files}
    except MemoryError:
        raise
    # Python objects inside, cut off or damaged: zlib, tokenize, zipfile have errors of their own
    except Exception as error:
        raise ValueError(f"load: {path}: {error}") from None
    if isinstance(found, np.ndarray):
        return placed(found)
    for name, held in found.items():
        if not isinstance(
            held, np.ndarray
        ):  # NumPy gives the bytes of what does not begin as its files do
            raise ValueError(f"load: {path}: {name!r} in it is no array")
    return Archive({name: placed(held) for name, held in found.items()})
