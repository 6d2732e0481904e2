"""The classes of sparse arrays by format: "csr" -> csr_array. Formats convert into one another, and
find
each other here; each class adds itself."""

from __future__ import annotations

from typing import Any

ARRAYS: dict[str, type[Any]] = {}
MATRICES: dict[str, type[Any]] = {}
