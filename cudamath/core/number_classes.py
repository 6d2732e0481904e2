"""NumPy's abstract classes of numbers: `floating`, `integer`, ...

They are NumPy's, and a `Scalar` belongs to them by its dtype: `isinstance(x.mean(), cm.floating)`
holds on every device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .scalar import Scalar

__all__ = [
    "complexfloating",
    "floating",
    "generic",
    "inexact",
    "integer",
    "number",
    "signedinteger",
    "unsignedinteger",
]


class _NumberClass(type):
    """The class of these classes: asks NumPy's class of the same name."""

    numpys: type

    def __instancecheck__(cls, value: Any) -> bool:
        if isinstance(value, Scalar):
            return cls.__subclasscheck__(value.dtype.type)
        return isinstance(value, cls.numpys)

    def __subclasscheck__(cls, other: type) -> bool:
        if other is dtypes.bfloat16.type:
            return issubclass(np.floating, cls.numpys)
        return issubclass(other, cls.numpys)

    def __eq__(cls, other: Any) -> bool:
        return other is cls or other is cls.numpys

    def __hash__(cls) -> int:
        return hash(cls.numpys)


def _class(numpys: type) -> Any:
    doc = f"NumPy's class `{numpys.__name__}`, to which scalars on a GPU belong too."
    members = {"numpys": numpys, "__module__": "cudamath", "__doc__": doc}
    return _NumberClass(numpys.__name__, (numpys,), members)


generic = _class(np.generic)
number = _class(np.number)
integer = _class(np.integer)
signedinteger = _class(np.signedinteger)
unsignedinteger = _class(np.unsignedinteger)
inexact = _class(np.inexact)
floating = _class(np.floating)
complexfloating = _class(np.complexfloating)
