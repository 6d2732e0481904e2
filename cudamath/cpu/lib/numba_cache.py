"""Numba's decorators, with a cache on disk that is a convenience: where it cannot be read or
written (a full disk), functions are compiled in memory.

Numba itself raises OSError from the call of a function whose code it cannot store. (Where no folder
for the cache can be written to it raises RuntimeError from the decorator:
core/dispatch/lazy_import.py.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import FunctionCache


class _Cache(FunctionCache):
    """The cache of one function."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The stored code; None if there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except (OSError, EOFError):
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code, if possible."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def njit(*functions: Callable, cache: bool = False, **options: Any) -> Any:
    """numba.njit."""

    def decorate(function: Callable) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cache:
            dispatcher._cache = _Cache(dispatcher.py_func)
        return dispatcher

    return decorate(*functions) if functions else decorate


def vectorize(signatures: list[str]) -> Callable[[Callable], Any]:
    """numba.vectorize of some signatures, which it compiles at once."""

    def decorate(function: Callable) -> Any:
        try:
            return numba.vectorize(signatures, cache=True)(function)
        except OSError:
            return numba.vectorize(signatures)(function)

    return decorate
