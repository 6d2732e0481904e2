"""Machine code of the CPU's functions on disk: the folder `cpu` in that of the GPU's kernels
(CUDAMATH_CACHE_DIR), or a pack of the processor's level (processor.py, runtime/kernel_packs.py).

What lies there is executed. So the folder is made for this user alone, and files of other users
than this one and root are not read (runtime/files.py). The digest after the code also covers the
key. The key has a digest of all files of `cudamath/cpu` and of the scalar special functions: a
function may call any of them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import platform
import sys
from collections.abc import Callable, Iterator

import llvmlite
import llvmlite.binding as llvm

from ...core import compile_notice
from ...runtime import cubin_cache, files, kernel_packs
from . import processor

_PACKAGE = pathlib.Path(__file__).parents[2]
_SOURCES = (_PACKAGE / "cpu", _PACKAGE / "core" / "specs" / "special")
SUFFIX = ".code"
_DIGEST = 16  # bytes


@functools.cache
def stamp() -> str:
    """A digest of every file that is compiled."""
    digest = hashlib.sha256()
    for source in _SOURCES:
        for path in sorted(source.rglob("*.py")):
            digest.update(path.relative_to(source).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def folder() -> pathlib.Path:
    """Where compiled functions of the CPU are kept."""
    return cubin_cache.cache_directory() / "cpu"


def _packed_key(name: str) -> str:
    """What a function is called in a pack; of the processor it tells no more than the system."""
    python = f"{sys.implementation.cache_tag} {platform.machine()}"
    made_by = [llvmlite.__version__, llvm.get_default_triple(), python]
    return "\n".join([*made_by, stamp(), name])


@functools.cache
def _processor() -> str:
    """The processor that code is compiled for."""
    return " ".join(processor.target())


def cached(name: str, what: str, compile: Callable[[], bytes]) -> bytes:
    """The machine code of this name from a pack or the disk; or compiled, and kept for the next
    process. what: as the line on stderr calls it."""
    packed, level = _packed_key(name), processor.level()
    key = f"{packed}\n{_processor()}"
    path = folder() / (hashlib.sha256(key.encode()).hexdigest()[:40] + SUFFIX)
    if (stored := _read(path, key)) is not None:
        return stored
    if level is not None and processor.LEVEL is None:
        if (code := kernel_packs.read(level.name, packed)) is not None:
            return code
    with compile_notice.waiting(f"{what} for the CPU", folder()):
        code = compile()
    try:
        files.make_private_folder(path.parent)
        with (
            files.whole_file("compiled functions", path, private=True, durable=False) as beside,
            open(beside, "wb") as file,
        ):
            file.write(_entry(key, packed, code))
    except OSError:
        pass  # a read-only home, a full disk: the next process compiles again
    return code


def _entry(key: str, packed: str, code: bytes) -> bytes:
    """A file: the key in packs, and the code, with its digest."""
    name = packed.encode()
    return len(name).to_bytes(8, "little") + name + code + _digest(key, code)


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + code).digest()[:_DIGEST]


def _parts(stored: bytes) -> tuple[str, bytes, bytes]:
    """(key in packs, code, digest) of a file."""
    end = 8 + int.from_bytes(stored[:8], "little")
    return stored[8:end].decode(errors="replace"), stored[end:-_DIGEST], stored[-_DIGEST:]


def _read(path: str | os.PathLike[str], key: str) -> bytes | None:
    try:
        _, code, digest = _parts(files.read_own(path))
    except OSError:
        return None
    return code if digest == _digest(key, code) else None


def entries(of: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """(key, code) of all that a folder holds of this version, for a pack."""
    for path in sorted(of.rglob(f"*{SUFFIX}")):
        name, code, digest = _parts(files.read_own(path))
        if stamp() in name.split("\n") and digest == _digest(f"{name}\n{_processor()}", code):
            yield name, code
