"""Functions of cudamath.cpu and cudamath.kernels, imported when they are first needed."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable


@functools.cache
def lazy(package: str, path: str) -> Callable:
    """The function `path` = "file.name" of cudamath.cpu or cudamath.kernels, imported when first
    needed."""
    file, _, name = path.rpartition(".")
    module = importlib.import_module(f"cudamath.{package}.{file}")
    return getattr(module, name)
