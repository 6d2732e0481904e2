"""NumPy's functions of polynomials, run on arrays of this package.

They are Python, written with `np.zeros`, `c[1:] * x` and the like. The same code with another `np`
among its globals computes on our arrays, wherever they are, with NumPy's results, errors and
gradients by parts. So nothing is written twice: `functions_of("chebyshev")` gives each function of
`numpy.polynomial.chebyshev` anew, with this package in the place of NumPy.

Coefficients are read one by one, and compared with 0 where leading ones are cut off. On a GPU that
waits for it: series of few coefficients belong on the CPU, whatever they are evaluated at.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.asarray import asarray


def _package() -> Any:
    """This package, which is imported before its parts are."""
    return sys.modules[__package__.partition(".")[0]]


class _Namespace(types.SimpleNamespace):
    """This package in the place of NumPy."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_package(), name)


def _array(x: Any, dtype: Any = None, *, copy: Any = True, ndmin: int = 0) -> ndarray:
    """`np.array`, of a sequence of arrays too; `copy=None` as there: where needed."""
    x = asarray(x, dtype, copy=copy, name="array")
    return x.reshape((1,) * (ndmin - x.ndim) + x.shape) if x.ndim < ndmin else x


def _eigvals(a: Any) -> ndarray:
    """`np.linalg.eigvals`: real where all are. The functions look at their values anyway."""
    values = _package().linalg.eigvals(a)
    plain = a.dtype.kind != "c" and not bool(_package().any(values.imag != 0))
    return values.real if plain else values


class _LinearAlgebra(types.SimpleNamespace):
    """`cudamath.linalg` in the place of `numpy.linalg`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_package().linalg, name)


def _objects() -> Any:
    """`np.dtypes.ObjectDType`, for which NumPy asks where arrays have no common type: they may be
    of objects there."""
    raise ValueError("Coefficient arrays have no common type")


_linalg = _LinearAlgebra(eigvals=_eigvals)
#: What stands for `np` in NumPy's functions; `la` is what some versions call its `linalg`.
_np = _Namespace(
    array=_array,
    linalg=_linalg,
    lib=np.lib,
    dtypes=types.SimpleNamespace(ObjectDType=_objects),
)


@functools.cache
def namespace_of(module: str) -> dict[str, Any]:
    """The globals of `numpy.polynomial.<module>` with its functions on arrays of this package."""
    theirs = importlib.import_module(f"numpy.polynomial.{module}")
    ours = dict(vars(theirs))
    ours |= {"np": _np, "la": _linalg, "__name__": f"{__package__}.{module}"}
    if "pu" in ours:
        ours["pu"] = types.SimpleNamespace(**namespace_of("polyutils"))
    for name, value in vars(theirs).items():
        value = getattr(value, "_implementation", value)  # of what asks for __array_function__
        if not isinstance(value, types.FunctionType):
            continue
        if value.__module__ == theirs.__name__:
            ours[name] = _on_arrays(value, ours)
        elif value.__module__ == "numpy.polynomial.polyutils":  # chebtrim and the like
            ours[name] = namespace_of("polyutils")[value.__name__]
    return ours


def _on_arrays(function: types.FunctionType, namespace: dict[str, Any]) -> types.FunctionType:
    """The same function with other globals."""
    copy = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__doc__ = function.__doc__
    copy.__module__ = function.__module__  # where its documentation is NumPy's
    return copy


def functions_of(module: str) -> dict[str, Any]:
    """The public names of `numpy.polynomial.<module>`, without the class of its series."""
    ours = namespace_of(module)
    return {name: ours[name] for name in ours["__all__"] if not isinstance(ours[name], type)}
