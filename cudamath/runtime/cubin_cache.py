"""The cubin cache: compiled kernels on disk, by key; their linking and removal.

What lies there runs on the GPU. So the folder is made for this user alone, and files of other users
than this one and root are not read (runtime/files.py). The digest after the code also covers the
key: a file that was damaged, or that was made for another kernel, counts as missing.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import tempfile
from collections.abc import Callable

from . import files

statistics = {"compiled": 0, "loaded_from_disk": 0}  # packs are on the disk too
_homeless = functools.cache(tempfile.TemporaryDirectory)  # goes when the interpreter ends


def _home_cache() -> str:
    """The cache folder in the user's home. For a user without a home (a bare number in a
    container), a temporary folder of this process."""
    folder = os.path.expanduser("~/.cache")
    return folder if os.path.isabs(folder) else _homeless(prefix="cudamath-").name


def cache_path(variable: str, name: str) -> pathlib.Path:
    """The path in an environment variable; by default this name in cudamath's part of the user's
    cache folder."""
    chosen = os.environ.get(variable)
    if chosen:
        return pathlib.Path(chosen)
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or _home_cache()
    return pathlib.Path(base) / "cudamath" / name


def cache_directory() -> pathlib.Path:
    """The folder of compiled kernels: CUDAMATH_CACHE_DIR, or one in the user's cache folder."""
    return cache_path("CUDAMATH_CACHE_DIR", "kernels")


def clear_kernel_cache() -> int:
    """Delete every compiled kernel on disk; returns how many there were."""
    count = 0
    for path in cache_directory().glob("*.cubin"):
        path.unlink(missing_ok=True)
        count += 1
    return count


_DIGEST = 16  # bytes of the digest after the machine code (tools that read cubins ignore them)


def _digest(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + data).digest()[:_DIGEST]


def stored_cubin(key: str) -> bytes | None:
    """The cubin stored under `key`, None if there is none that is whole and this user's own."""
    try:
        stored = files.read_own(place(key))
    except OSError:
        return None
    data, digest = stored[:-_DIGEST], stored[-_DIGEST:]
    if digest != _digest(key, data):
        return None
    statistics["loaded_from_disk"] += 1
    return data


def place(key: str) -> pathlib.Path:
    """Where the cubin of a key lies, or would."""
    return cache_directory() / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.cubin"


def cached_cubin(key: str, compile: Callable[[], bytes]) -> bytes:
    """The cubin stored under `key`, or a fresh one, stored for the next process."""
    stored = stored_cubin(key)
    if stored is not None:
        return stored
    statistics["compiled"] += 1
    data = compile()
    try:
        path = place(key)
        files.make_private_folder(path.parent)
        with (
            files.whole_file("kernel cache", path, private=True, durable=False) as beside,
            open(beside, "wb") as file,
        ):
            file.write(data + _digest(key, data))
    except OSError:
        pass  # a read-only home, a full disk: the next process compiles again
    return data


def link(
    ltoir: bytes, arch: str, registers: int | None = None, fma: bool = True
) -> tuple[bytes, str]:
    """LTO-IR to machine code for one architecture ("sm_90a"): (cubin, the assembler's report).
    Needs no GPU. fma: whether a product and a sum may become one operation, which rounds once.

    nvJitLink keeps no cache of its own: for that it would initialise the driver, in each process
    that links, which takes longer than most kernels. It is called by its own names, as cuda.core's
    linker (1.2) passes "-fma=true", which it refuses."""
    from cuda.bindings import nvjitlink

    options = [f"-arch={arch}", "-lto", "-Xptxas=-v", "-no-cache"]
    options += [f"-maxrregcount={registers}"] if registers else []
    options += [] if fma else ["-fma=0"]
    handle = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, ltoir, len(ltoir), "kernel")
        nvjitlink.complete(handle)
        code = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, code)
        log = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, log)
    except nvjitlink.nvJitLinkError as error:
        why = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, why)
        raise RuntimeError(f"{error}: {why.rstrip(bytes(1)).decode()}") from error
    finally:
        nvjitlink.destroy(handle)
    return bytes(code), log.rstrip(bytes(1)).decode()
