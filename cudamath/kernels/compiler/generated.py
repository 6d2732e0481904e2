"""Functions compiled from generated source."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any

_generators: dict[str, str] = {}  # file name of generated source -> module that generated it


def compiled(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """The function `name` that generated source defines; its lines can be shown in a traceback."""
    filename = f"<cudamath {name} {hash(source) & 0xFFFFFFFF:x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    _generators[filename] = sys._getframe(1).f_globals["__name__"]
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


def module_of(function: Callable) -> str | None:
    """The module that defines a function or generates its source."""
    code = getattr(function, "__code__", None)
    return getattr(function, "__module__", None) or _generators.get(
        getattr(code, "co_filename", "")
    )
