"""einops on arrays of this package: `einops.rearrange(x, "a b -> b a")`.

einops looks for subclasses of its AbstractBackend. Ours can only be defined once einops is there,
and importing this package imports no library that the user has not asked for. So if einops is not
there yet, a finder waits for its import.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .core.array import ndarray
from .core.asarray import asarray
from .core.dtypes import INEXACT
from .ops.join import concat, stack, tile
from .ops.linalg.einsum import einsum
from .ops.ranges import arange
from .ops.shape import expand_dims

_MODULE = "einops._backends"
_classes: list[type] = []  # einops sees subclasses only as long as somebody holds them


def register(backends: ModuleType) -> None:
    """Tell einops, whose module of backends this is."""

    class Backend(backends.AbstractBackend):  # type: ignore[name-defined]
        framework_name = "cudamath"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, ndarray)

        def from_numpy(self, x: Any) -> ndarray:
            return asarray(x)

        def to_numpy(self, x: ndarray) -> Any:
            return x.to_numpy()

        def arange(self, start: int, stop: int) -> ndarray:
            return arange(start, stop)

        def stack_on_zeroth_dimension(self, tensors: list) -> ndarray:
            return stack(tensors)

        def add_axis(self, x: ndarray, new_position: int) -> ndarray:
            return expand_dims(x, axis=new_position)

        def tile(self, x: ndarray, repeats: tuple[int, ...]) -> ndarray:
            return tile(x, repeats)

        def concat(self, tensors: list, axis: int) -> ndarray:
            return concat(tensors, axis=axis)

        def is_float_type(self, x: ndarray) -> bool:
            return x.dtype in INEXACT

        def einsum(self, pattern: str, *x: ndarray) -> ndarray:
            return einsum(pattern, *x)

    _classes.append(Backend)


class _Watch(importlib.abc.MetaPathFinder):
    """Registers the backend after einops has been imported; until then costs one comparison an
    import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                register(module)

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Register now if einops has been imported, else when it is."""
    if _MODULE in sys.modules:
        register(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Watch())
