"""`njit` and `vectorize` of Numba, with a cache on disk: the folder `cpu` in that of the GPU's
kernels (CUDAMATH_CACHE_DIR), or where NUMBA_CACHE_DIR says.

The cache is no more than a cache: where it cannot be written (a full disk, a folder that became
read-only), functions are compiled again by the next process, and nothing raises. What lies there is
executed. So the folder is made for this user alone, and files of other users than this one and
root, and those that everybody may write, are not read (runtime/files.py), nor is any where
everybody may rename them: entries have no digest that tells one from another. And it outlives this
version of the package: an entry counts while all files of `cudamath/cpu` and of the
scalar special functions are what they were, since
a function may call any of them. Numba would look at the function's own file.

What is not there may be in a pack of the processor's level (processor.py, runtime/kernel_packs.py),
for the same versions of all that took part.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite
import numba
from numba.core import caching, event, sigutils
from numba.np.ufunc import ufuncbuilder

from ...runtime import compile_notice, files, kernel_packs
from ...runtime.interrupts import context_manager
from . import processor
from .code_cache import folder, stamp

#: What reading a file raises that is not there, not one's own, or damaged: a pickle may then name
#: what does not exist.
_UNREADABLE = (
    OSError,
    EOFError,
    pickle.UnpicklingError,
    ValueError,
    TypeError,
    AttributeError,
    ImportError,
    LookupError,
)


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """The place of a function's entries."""

    def __init__(self, function: Callable, file: str):
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        self._path = folder() / self.get_suitable_cache_subpath(file)

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> str:
        return stamp()

    def ensure_cache_path(self) -> None:
        files.make_private_folder(self._path)
        if not os.access(self._path, os.W_OK):
            raise PermissionError("it cannot be written")


class _Places(caching.CompileResultCacheImpl):
    _locator_classes = [
        caching.UserProvidedCacheLocator,
        _Locator,
        *caching.CompileResultCacheImpl._locator_classes,
    ]


class _OwnFiles(caching.IndexDataCacheFile):
    """Entries that this user or root wrote; others count as missing, and are replaced."""

    def save(self, key: Any, data: Any) -> None:
        """One process at a time: each reads the index and writes it with its entry."""
        with files.locked(os.path.join(self._cache_path, ".lock")):
            super().save(key, data)

    def _load_index(self) -> dict:
        try:
            files.require_own_names(self._cache_path)
        except PermissionError as error:
            warnings.warn(
                f"cache of the CPU's functions: not used, {error.strerror} {error.filename}; "
                "functions are compiled in every process",
                RuntimeWarning,
                stacklevel=2,
            )
            return {}
        except OSError:  # it is not there yet
            return {}
        try:
            stream = io.BytesIO(files.read_own(self._index_path))
            if pickle.load(stream) != self._version:
                return {}
            stamp, overloads = pickle.load(stream)
        except _UNREADABLE:
            return {}
        return overloads if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> Any:
        return pickle.loads(files.read_own(self._data_path(name)))

    @context_manager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        with (
            files.whole_file("compiled functions", filepath, private=True, durable=False) as path,
            open(path, "wb") as file,
        ):
            yield file


class _OptionalCache(caching.FunctionCache):
    _impl_class = _Places

    def __init__(self, function: Callable):
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = _OwnFiles(
            self._cache_path, self._impl.filename_base, locator.get_source_stamp()
        )

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function from the folder or from a pack; None if neither has it."""
        stored = super()._load_overload(sig, target_context)
        level = processor.level()
        if stored is None and level is not None and numba.config.CPU_NAME is None:
            key = _packed_key(
                self._impl.filename_base, self._index_key(sig, target_context.codegen())
            )
            if (data := kernel_packs.read(level.name, key)) is not None:
                return self._impl.rebuild(target_context, pickle.loads(data))
        return stored

    @context_manager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        """Numba reads and writes inside of this; what it leaves out was not read, or written."""
        with contextlib.suppress(*_UNREADABLE):
            yield


def _packed_key(name: str, key: tuple) -> str:
    """What an entry is called in a pack. name, key: of its index, as Numba has them. Of the
    processor it tells no more than the system; the pack has a level."""
    signature, (triple, _, _), hashes = key
    arguments, result = sigutils.normalize_signature(signature)
    types = [kind.name for kind in arguments] + [str(result)]
    made_by = [numba.__version__, llvmlite.__version__, triple, str(numba.config.USING_SVML)]
    return "\n".join([*made_by, stamp(), name, *types, *hashes])


def entries(folder: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """All that a folder holds of this version, for a pack."""
    for path in sorted(folder.rglob("*.nbi")):
        for key, name in _OwnFiles(str(path.parent), path.stem, stamp())._load_index().items():
            yield _packed_key(path.stem, key), files.read_own(path.parent / name)


class _Notice(event.Listener):
    """The line on stderr about what is being compiled (runtime/compile_notice.py)."""

    def __init__(self) -> None:
        self._thread = threading.local()

    @property
    def _waits(self) -> list[contextlib.ExitStack]:
        return self._thread.__dict__.setdefault("waits", [])

    def on_start(self, event: Any) -> None:
        function, wait = event.data["dispatcher"].py_func, contextlib.ExitStack()
        if (function.__module__ or "").startswith(__package__.partition(".")[0] + "."):
            name = f"{function.__module__.rpartition('.')[2]}.{function.__name__} for the CPU"
            wait.enter_context(compile_notice.waiting(name, folder()))
        self._waits.append(wait)

    def on_end(self, event: Any) -> None:
        if self._waits:
            self._waits.pop().close()


event.register("numba:compile", _Notice())


def njit(*functions: Callable, cache: bool = False, **options: Any) -> Any:
    """`numba.njit`: of a function, or as a decorator with options."""

    def compiled(function: Callable) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cache:
            dispatcher._cache = _OptionalCache(dispatcher.py_func)
        return dispatcher

    return compiled(*functions) if functions else compiled


def vectorize(signatures: list[str]) -> Callable[[Callable], Any]:
    """`numba.vectorize` for these types, which compiles at once."""

    def compiled(function: Callable) -> Any:
        numbas, ufuncbuilder.FunctionCache = ufuncbuilder.FunctionCache, _OptionalCache
        try:
            return numba.vectorize(signatures, cache=True)(function)
        finally:
            ufuncbuilder.FunctionCache = numbas

    return compiled
