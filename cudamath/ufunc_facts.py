"""What elementwise functions and products say of themselves, as NumPy's ufuncs do: `add.nin`,
`.types`, `matmul.signature`, and `isinstance(add, cm.ufunc)`."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from .ops.dtype_info import typecodes

__all__ = ["ufunc"]


class _OfFunctions(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, FunctionType) and hasattr(value, "ntypes")


class ufunc(metaclass=_OfFunctions):
    """The class that `isinstance` finds the functions of in which NumPy has ufuncs.

    The functions are Python functions. They have `nin`, `nout`, `nargs`, `ntypes`, `types`,
    `identity` and `signature`, and those of two arrays `reduce`, `accumulate`, `outer`, `reduceat`
    and `at`.

    Examples
    --------
    >>> import cudamath as cm
    >>> isinstance(cm.add, cm.ufunc), isinstance(cm.sum, cm.ufunc)
    (True, False)
    >>> cm.add.nin, cm.add.types[-1], cm.matmul.signature
    (2, 'DD->D', '(n?,k),(k,m?)->(n?,m?)')
    """

    def __new__(cls) -> Any:
        raise TypeError("ufunc: make functions of arrays with cm.elementwise or cm.vectorize")


def _loops(theirs: np.ufunc) -> list[str]:
    """The signatures of a ufunc in the dtypes that arrays hold, as "dd->d"."""
    held = set(typecodes["All"]) | set("->")
    return [loop for loop in theirs.types if set(loop) <= held]


def install(package: ModuleType) -> None:
    """Give every public function in whose place NumPy has a ufunc what that says of itself."""
    for name, theirs in vars(np).items():
        ours = getattr(package, name, None) if isinstance(theirs, np.ufunc) else None
        if isinstance(ours, FunctionType):
            for fact in ("identity", "nin", "nout", "nargs", "signature"):
                setattr(ours, fact, getattr(theirs, fact))
            ours.types = _loops(theirs)  # type: ignore[attr-defined]
            ours.ntypes = len(ours.types)  # type: ignore[attr-defined]
