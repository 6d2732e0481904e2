"""NumPy's own files: archives of named arrays (.npz) and single arrays (.npy), written and read through NumPy."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np

from .core.array import ndarray, upload
from .core.devices import index_of

__all__ = ["savez", "savez_compressed"]

_NPY, _NPZ = b"\x93NUMPY", (b"PK\x03\x04", b"PK\x05\x06")


def on_host(name: str, x: Any) -> Any:
    """What NumPy is to write: arrays on the host. TypeError for bfloat16 and float8, which its files would keep as bytes."""
    host = x.to_numpy() if type(x) is ndarray else x
    if isinstance(host, np.ma.MaskedArray):
        raise TypeError(f"{name}: a mask would be lost of {host.dtype} of shape {host.shape}: give x.filled(value)")
    if isinstance(host, np.ndarray) and host.dtype.kind == "V" and host.dtype.names is None:
        raise TypeError(f"{name}: NumPy's files do not know {host.dtype}, got shape {host.shape}; `save` keeps it "
                        "as safetensors")
    return host


def without_objects(name: str, allow_pickle: Any) -> None:
    """ValueError where NumPy's `allow_pickle` is True: no file of ours holds Python objects."""
    if allow_pickle:
        raise ValueError(f"{name}: Python objects are neither written nor read, as they could run any code: allow_pickle must "
                         f"be False, got {allow_pickle!r}")


def _hosted(name: str, args: tuple, kwargs: dict[str, Any]) -> tuple[list, dict[str, Any]]:
    return [on_host(name, x) for x in args], {key: on_host(name, x) for key, x in kwargs.items()}


def savez(file: Any, *args: Any, **kwargs: Any) -> None:
    """Arrays into one uncompressed .npz file, as NumPy's `savez` does: named by their keywords, or arr_0, arr_1, ...

    Args: file: path (".npz" is added if it is missing) or open file; args, kwargs: arrays on any device, copied to the host.
    Raises: OSError if the file cannot be written; TypeError for bfloat16 and float8, which are for `save`.

    >>> import cudamath as cm, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "points.npz")
    >>> cm.savez(path, x=cm.arange(3), y=cm.ones(2))
    >>> with cm.load(path) as found:
    ...     found.files, found["x"].tolist()
    (['x', 'y'], [0, 1, 2])
    """
    arrays, named = _hosted("savez", args, kwargs)
    np.savez(file, *arrays, **named)


def savez_compressed(file: Any, *args: Any, **kwargs: Any) -> None:
    """`savez` with the arrays compressed.

    >>> import cudamath as cm, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "zeros.npz")
    >>> cm.savez_compressed(path, cm.zeros(10_000))
    >>> cm.load(path)["arr_0"].shape, os.path.getsize(path) < 1000
    ((10000,), True)
    """
    arrays, named = _hosted("savez_compressed", args, kwargs)
    np.savez_compressed(file, *arrays, **named)


class Archive(dict):
    """The arrays of an .npz file by name; `files` names them. All have been read: closing it does nothing."""

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
    """What an .npy or .npz file holds, on a device: an array or an `Archive`; None if the file is neither."""
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
            raise ValueError("load: an open file must be one of NumPy's, .npy or .npz; give the path of others")
        return None
    import zipfile  # which takes a while, and NumPy imports it where there is an archive

    index = index_of(device)

    def placed(host: np.ndarray) -> Any:  # strings and dates stay what they are
        return upload(host.astype(host.dtype.newbyteorder("="), copy=False), index) if host.dtype.kind in "biufc" else host

    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return placed(found)
        with found:
            return Archive({name: placed(found[name]) for name in found.files})
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:  # Python objects inside, or cut off
        raise ValueError(f"load: {path if opened else os.fspath(path)}: {error}") from None
