"""The namespace of the array API, `x.__array_namespace__()`: this package, but its results without
dimensions are arrays of this package on every device, as the standard wants them.

Under its own name the package is NumPy: there, such results are scalars (core/scalar.py), on the
CPU NumPy's own. Libraries that are written for the standard would take those for arrays of NumPy.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ..array import ndarray
from ..recording import state
from ..scalar import StandardArray, inside

_PARTS = "linalg", "fft"  # the extensions of the standard


class Namespace(types.ModuleType):
    """A module whose functions are those of another one, with arrays as results.

    Parameters
    ----------
    module : module
        The package, or one of the extensions.
    """

    def __init__(self, module: types.ModuleType):
        super().__init__(module.__name__, module.__doc__)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, types.ModuleType) and name in _PARTS:
            value = Namespace(value)
        elif isinstance(value, types.FunctionType) and not name.startswith("_"):
            value = _with_arrays(value)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return dir(self._module)


def _with_arrays(function: Callable) -> Callable:
    """A public function whose results without dimensions stay arrays."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if state.inside:
            return function(*args, **kwargs)
        with inside():
            return _arrays(function(*args, **kwargs), (*args, *kwargs.values()))

    return call


def _arrays(result: Any, arguments: tuple) -> Any:
    """The new arrays without dimensions of a result, in a class that operators keep."""
    if isinstance(result, ndarray):
        if not result._layout.ndim and all([result is not a for a in arguments]):
            result.__class__ = StandardArray
        return result
    if isinstance(result, tuple):
        kind: Any = type(result)
        members = [_arrays(y, arguments) for y in result]
        return kind(members) if kind is tuple else kind(*members)
    return result
