"""NumPy's own files: archives of named arrays (.npz) and single arrays (.npy), written and read
through NumPy."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .core.array import ndarray
from .core.asarray import upload
from .core.devices import index_of
from .core.typing import File
from .runtime.files import naming, require_regular, whole_file
from .runtime.interrupts import interrupts_first

__all__ = ["savez", "savez_compressed"]

_NPY, _NPZ = b"\x93NUMPY", (b"PK\x03\x04", b"PK\x05\x06")


def on_host(name: str, x: Any) -> np.ndarray:
    """What NumPy is to write: an array on the host. TypeError for bfloat16 and float8, which its
    files would keep as bytes, and for Python objects, which `load` does not read."""
    try:
        host = x._alias().to_numpy() if isinstance(x, ndarray) else np.asanyarray(x)
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
        with naming(name, file), interrupts_first():
            writer(file, *arrays, **named)
        return
    path = path_of(name, file)
    with (
        interrupts_first(),
        whole_file(name, path if path.endswith(".npz") else f"{path}.npz") as beside,
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


class _Bytes:
    """An open file of which NumPy knows only how to read and write bytes.

    Of a file of the system, NumPy asks whether it is a path, and takes an interrupt (Ctrl-C) in
    there for a yes: the interrupt would be lost, and a TypeError come in its place.
    """

    __slots__ = ("read", "seek", "write")

    write: Any

    def __init__(self, file: Any):
        self.read, self.seek, self.write = file.read, file.seek, getattr(file, "write", None)


def write_array(file: Any, host: np.ndarray) -> None:
    """Write an .npy file into an open one."""
    np.save(_Bytes(file), host, allow_pickle=False)


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
    if not opened and not os.path.exists(path):  # for `load` to say
        return None
    with interrupts_first(), contextlib.nullcontext(path) if opened else open_regular(path) as file:
        head = file.read(6)
        if isinstance(head, str):
            raise TypeError(f"load: wants a path, got {type(path).__name__} of text")
        file.seek(-len(head), os.SEEK_CUR)
        if head != _NPY and head[:4] not in _NPZ:
            if opened:
                raise ValueError(
                    "load: an open file must be one of NumPy's, .npy or .npz; give the path of "
                    "others"
                )
            return None
        index = index_of(device)
        try:
            if head == _NPY:
                return _placed(_read_array(file), index)
            arrays = _read_archive(file)
        except MemoryError as error:
            raise MemoryError(f"load: {path}: {error}") from None
        # Python objects inside, cut off or damaged: zlib, tokenize, zipfile have errors of their
        # own
        except Exception as error:
            raise ValueError(f"load: {path}: {error}") from None
    return Archive({name: _placed(array, index) for name, array in arrays.items()})


def _placed(host: np.ndarray, index: int) -> Any:
    """An array on a device number; strings and dates stay what they are."""
    if host.dtype.kind not in "biufc":
        return host
    return upload(host.astype(host.dtype.newbyteorder("="), copy=False), index)


def open_regular(path: Any, name: str = "load") -> Any:
    """A file open for reading. OSError, by `name`, for what is none: a pipe might wait for ever."""
    place = path_of(name, path)
    with naming(name, place, "read"):
        require_regular(os.stat(place).st_mode)
        return open(place, "rb")


def map_array(name: str, path: Any) -> np.ndarray:
    """The array of an .npy file, mapped into memory, after the checks of `load`. Errors begin with
    `name`."""
    with interrupts_first(), open_regular(path, name) as file:
        try:
            if file.read(len(_NPY)) != _NPY:
                raise ValueError("it is no .npy file")
            file.seek(0)
            _require_bytes(file)
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:
            raise ValueError(f"{name}: {path}: {error}") from None


def _read_array(file: Any) -> np.ndarray:
    """The array of an .npy file. Its header is compared with the bytes that follow, before memory
    is asked for."""
    _require_bytes(file)
    return np.load(_Bytes(file), allow_pickle=False)


def _require_bytes(file: Any) -> None:
    """ValueError where fewer bytes follow than the header of an .npy file announces."""
    begin = file.tell()
    wanted = _promised_bytes(file)
    here = file.tell()
    present = file.seek(0, os.SEEK_END) - here
    file.seek(begin)
    if wanted > present:
        raise ValueError(f"the header promises {wanted:,} bytes, {present:,} follow")


def _read_archive(file: Any) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name; all headers are compared with the sizes of the members
    before the first array is made."""
    with np.load(file, allow_pickle=False) as archive:
        for member in archive.zip.infolist():
            with archive.zip.open(member) as inside:
                if inside.read(len(_NPY)) != _NPY:
                    name = member.filename.removesuffix(".npy")
                    raise ValueError(f"{name!r} in it is no array")
            with archive.zip.open(member) as inside:
                wanted = _promised_bytes(inside)
                present = member.file_size - inside.tell()
            if wanted != present:
                raise ValueError(
                    f"the header of {member.filename!r} promises {wanted:,} bytes, {present:,} "
                    "follow"
                )
        return {name: archive[name] for name in archive.files}


def _promised_bytes(file: Any) -> int:
    """Bytes of the array that the header of an .npy file announces; reads the header."""
    version = np.lib.format.read_magic(file)
    # versions 2.0 and 3.0 differ in how names of fields are encoded, which does not matter here
    header = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read")
    if min(shape, default=0) < 0:
        raise ValueError(f"no array has the shape {shape}")
    return math.prod(shape) * dtype.itemsize
