"""Functions compiled from generated source."""

from __future__ import annotations

import linecache
from typing import Any


def compiled(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """The function `name` that generated source defines; its lines can be shown in a traceback."""
    filename = f"<cudamath {name} {hash(source) & 0xFFFFFFFF:x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]
