"""Packs: files of kernels that were compiled ahead, one file for each architecture.

A package such as `cudamath_kernels_sm90` brings a pack (`packs/build.py` makes
it); CUDAMATH_KERNEL_PACKS names others by path. A pack is read as the cache on disk is: it must
belong to this user or to root, and nobody else may write it (runtime/files.py). Its entries are
found by what a kernel's machine code is made from (`cache_key.source_key`): a kernel whose source
has changed since, at any depth, has another key and is compiled.

The file: a head of 96 bytes (`_HEAD`), the index, the compressed machine code. The index has 48
bytes for each kernel: the SHA-256 of its key, the place and the length of its code. The head holds
the digest of the index, and each piece of code ends with its own, which covers the key too.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import pathlib
import struct
import warnings
import zlib
from collections.abc import Iterable, Mapping

from . import files

SUFFIX = ".kernels"
_HEAD = struct.Struct("<16s16sQ32s24x")  # magic, architecture, kernels, digest of the index
_ENTRY = struct.Struct("<32sQQ")  # digest of the key, place and length in the file
_MAGIC = b"cudamath pack 1\0"
_DIGEST = 16  # bytes of the digest after each kernel's machine code


def package_name(architecture: str) -> str:
    """The package that brings the pack of an architecture ("sm_90a"): cudamath_kernels_sm90."""
    return "cudamath_kernels_" + architecture.replace("_", "").rstrip("a")


class Pack:
    """An open pack. OSError for a file that others may have written, ValueError for one that is no
    whole pack of this architecture."""

    def __init__(self, path: str | os.PathLike[str], architecture: str):
        self.path = pathlib.Path(path)
        with files.open_own(path) as file:
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size or head[: len(_MAGIC)] != _MAGIC:
                raise ValueError("it is no pack of this version of cudamath")
            _, made_for, count, digest = _HEAD.unpack(head)
            if made_for.rstrip(b"\0").decode("ascii", "replace") != architecture:
                raise ValueError(f"it is not for {architecture}")
            index = file.read(min(count * _ENTRY.size, os.fstat(file.fileno()).st_size))
        if hashlib.sha256(index).digest() != digest or len(index) != count * _ENTRY.size:
            raise ValueError("its index is damaged")
        self._places = {key: (at, length) for key, at, length in _ENTRY.iter_unpack(index)}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return _hashed(key) in self._places

    def read(self, key: str) -> bytes | None:
        """The machine code of a kernel; None if it is not here, or is damaged (with a warning)."""
        place = self._places.get(_hashed(key))
        if place is None:
            return None
        try:
            with files.open_own(self.path) as file:
                file.seek(place[0])
                compressed = file.read(place[1])
            data = zlib.decompress(compressed)
        except (OSError, zlib.error) as error:
            _refuse(self.path, f"a kernel in it cannot be read: {error}")
            return None
        code, digest = data[:-_DIGEST], data[-_DIGEST:]
        if digest != _digest(key, code):
            _refuse(self.path, "a kernel in it is damaged")
            return None
        return code


def write(path: str | os.PathLike[str], architecture: str, kernels: Mapping[str, bytes]) -> None:
    """Write a pack of {key: machine code}."""
    index, pieces = [], []
    at = _HEAD.size + _ENTRY.size * len(kernels)
    for key, code in sorted(kernels.items()):
        compressed = zlib.compress(code + _digest(key, code), 9)
        index.append(_ENTRY.pack(_hashed(key), at, len(compressed)))
        pieces.append(compressed)
        at += len(compressed)
    entries = b"".join(index)
    digest = hashlib.sha256(entries).digest()
    head = _HEAD.pack(_MAGIC, architecture.encode(), len(kernels), digest)
    with files.whole_file("kernel pack", path) as beside, open(beside, "wb") as file:
        file.writelines([head, entries, *pieces])


def read(architecture: str, key: str) -> bytes | None:
    """The machine code of a kernel from the packs of an architecture, None if none has it."""
    for pack in packs(architecture):
        if (code := pack.read(key)) is not None:
            return code
    return None


@functools.cache
def packs(architecture: str) -> list[Pack]:
    """The packs of an architecture: those that CUDAMATH_KERNEL_PACKS names, then the package's.
    One that cannot be trusted or read is left out, with a warning."""
    opened = []
    for path in _paths(architecture):
        try:
            opened.append(Pack(path, architecture))
        except (OSError, ValueError) as error:
            _refuse(path, str(getattr(error, "strerror", None) or error))
    return opened


def _paths(architecture: str) -> Iterable[pathlib.Path]:
    """Where packs of an architecture lie."""
    chosen = os.environ.get("CUDAMATH_KERNEL_PACKS", "")
    if chosen == "0":
        return
    name = architecture + SUFFIX
    for place in filter(None, chosen.split(os.pathsep)):
        path = pathlib.Path(place)
        if not path.is_dir():
            yield from [path] if path.name == name or not path.exists() else []
        elif (path / name).exists():
            yield path / name
    package = importlib.util.find_spec(package_name(architecture))
    for folder in (package and package.submodule_search_locations) or ():  # none of it is imported
        yield pathlib.Path(folder) / name


def _refuse(path: pathlib.Path, why: str) -> None:
    warnings.warn(
        f"kernel pack {path}: not used, {why}; its kernels are compiled instead",
        RuntimeWarning,
        stacklevel=2,
    )


def _hashed(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + code).digest()[:_DIGEST]
