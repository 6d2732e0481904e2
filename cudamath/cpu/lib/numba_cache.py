"""`njit` and `vectorize` of Numba, with a cache on disk that is no more than a cache: where it
cannot be written (a full disk, a folder that became read-only), functions are compiled again by the
next process, and nothing raises. Numba lets the error of the disk out of the call that compiles.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numba
from numba.core.caching import FunctionCache


class _OptionalCache(FunctionCache):
    @contextlib.contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        """Numba reads and writes inside of this; what it leaves out was not read, or written."""
        with contextlib.suppress(OSError):
            yield


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """`numba.njit` of these options."""

    def compiled(function: Callable) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cache:
            dispatcher._cache = _OptionalCache(dispatcher.py_func)
        return dispatcher

    return compiled


def vectorize(signatures: list[str]) -> Callable[[Callable], Any]:
    """`numba.vectorize` for these types, which compiles at once."""

    def compiled(function: Callable) -> Any:
        try:
            return numba.vectorize(signatures, cache=True)(function)
        except OSError:
            return numba.vectorize(signatures)(function)

    return compiled
