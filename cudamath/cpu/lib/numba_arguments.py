"""Arrays on the CPU as arguments of a user's `numba.njit` functions: they are NumPy's arrays there,
over the same memory.

Numba calls `register` when it is imported (the entry point "numba_extensions" in setup.cfg).
"""

from __future__ import annotations

import functools
from typing import Any

from ...core.array import ndarray
from ...core.devices import CPU
from ...core.export_guard import refuse_to_leave


@functools.cache
def register() -> None:
    """Tell Numba how it reads an ndarray."""
    from numba.core import boxing, types  # later than the rest of the package: half a second
    from numba.core.datamodel import models
    from numba.extending import NativeValue, box, register_model, typeof_impl, unbox

    class Argument(types.Array):
        """The type of an ndarray. What Numba makes of one has NumPy's type."""

        def __init__(self, array: Any):
            super().__init__(
                array.dtype,
                array.ndim,
                array.layout,
                readonly=not array.mutable,
                aligned=array.aligned,
                name=f"cudamath.ndarray({array.name})",
            )
            self.array = array

        def can_convert_to(self, context: Any, other: Any) -> Any:
            """To NumPy's array of this layout, at no cost."""
            return self.array.can_convert_to(context, other) or (
                self.array.__class__.can_convert_to(self, context, other)
            )

    register_model(Argument)(models.ArrayModel)

    @typeof_impl.register(ndarray)
    def type_of(x: ndarray, context: Any) -> Any:
        if x._layout.device != CPU:
            raise TypeError(
                f"njit: wants arrays on the CPU, got {x.dtype} of shape {x.shape} on {x.device}; "
                "use to('cpu')"
            )
        if x._node is not None:
            refuse_to_leave(x, "njit")
        return Argument(typeof_impl(x._data, context))

    @unbox(Argument)
    def unboxed(kind: Any, x: Any, c: Any) -> NativeValue:
        data = c.pyapi.object_getattr_string(x, "_data")
        native = boxing.unbox_array(kind.array, data, c)
        c.pyapi.decref(data)
        return native

    @box(Argument)
    def boxed(kind: Any, value: Any, c: Any) -> Any:
        return boxing.box_array(kind.array, value, c)
