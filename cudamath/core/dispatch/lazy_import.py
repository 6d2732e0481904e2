"""Functions of cudamath.cpu and cudamath.kernels, imported when they are first needed."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
from collections.abc import Callable


@functools.cache
def lazy(package: str, path: str) -> Callable:
    """The function `path` = "file.name" of cudamath.cpu or cudamath.kernels, imported when first
    needed."""
    file, _, name = path.rpartition(".")
    try:
        module = importlib.import_module(f"cudamath.{package}.{file}")
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _cache_elsewhere()
        module = importlib.import_module(f"cudamath.{package}.{file}")
    return getattr(module, name)


def _cache_elsewhere() -> None:
    """Numba keeps what it compiles beside the source or in the user's cache folder, and refuses
    where it may write to neither (a container's package, a user without a home). Then a folder of
    this process' own serves, and goes with it."""
    import shutil  # rarely needed
    import tempfile

    folder, owner = tempfile.mkdtemp(prefix="cudamath-"), os.getpid()

    @atexit.register
    def remove() -> None:
        if os.getpid() == owner:  # not a fork
            shutil.rmtree(folder, ignore_errors=True)

    os.environ["NUMBA_CACHE_DIR"] = folder
    importlib.import_module("numba.core.config").reload_config()
