"""Calls of functions that Numba compiled.

`entry`: calls without Numba's dispatcher, which determines the argument types at each call; that
takes as long as adding a thousand numbers. Where a plan determines the types beforehand, it calls
the compiled function directly, on arrays that are `Borrowed`.

`parallel`: functions that run on all cores, also in a forked process.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core.datamodel import models
from numba.extending import NativeValue, register_model, unbox
from numba.np import arrayobj
from numba.np.ufunc import parallel as threads

from ...runtime import device
from .numba_cache import njit

#: A parameter: (dtype, dimensions) of an array in C order, or the type of a scalar.
Parameter = tuple[np.dtype, int] | type[bool] | type[float]
_SCALARS = {bool: types.boolean, float: types.float64}


class Borrowed(types.Array):
    """An array in C order that somebody else keeps alive while the function runs.

    Numba makes an object that holds the array, and ends it after the call, for each argument that
    is a `types.Array`: 0.15 us, 0.4 us where the memory of all that has just left the nearest
    caches. Of this type it reads an address and a shape.
    """

    def __init__(self, dtype: Any, ndim: int):
        super().__init__(dtype, ndim, "C", name=f"Borrowed({dtype}, {ndim})")


register_model(Borrowed)(models.ArrayModel)
_DATA = (
    object.__basicsize__
)  # where the fields of NumPy's PyArrayObject begin, with the address; the number of dimensions
_SHAPE = _DATA + 16  # is next, then where the shape is


@unbox(Borrowed)
def _borrow(kind: Borrowed, array: Any, c: Any) -> NativeValue:
    """The array as compiled functions see it, owned by nobody they know of."""
    build, word, index = c.builder, ir.IntType(64), ir.IntType(32)
    view = arrayobj.make_array(kind)(c.context, build)
    start = build.bitcast(array, ir.IntType(8).as_pointer())

    def field(offset: int, pointer: Any) -> Any:
        return build.load(build.bitcast(build.gep(start, [index(offset)]), pointer.as_pointer()))

    lengths = field(_SHAPE, word.as_pointer())
    shape = [build.load(build.gep(lengths, [index(i)])) for i in range(kind.ndim)]
    itemsize = word(c.context.get_abi_sizeof(c.context.get_data_type(kind.dtype)))
    strides = [itemsize]
    for length in shape[:0:-1]:
        strides.insert(0, build.mul(strides[0], length))
    arrayobj.populate_array(
        view,
        data=field(_DATA, view.data.type),
        shape=shape,
        strides=strides[: kind.ndim],
        itemsize=itemsize,
        meminfo=None,
    )
    return NativeValue(view._getvalue())


def entry(function: Any, *parameters: Parameter) -> Callable[..., None]:
    """`function`, a dispatcher of Numba's, for arguments of these types and no others, NumPy's own
    arrays among them. It returns nothing."""
    kinds = [
        _SCALARS[p] if isinstance(p, type) else Borrowed(from_dtype(p[0]), p[1]) for p in parameters
    ]
    return function.get_compile_result(types.void(*kinds)).entry_point


def _openmp_of_another() -> bool:
    """Whether another library (PyTorch) has loaded the OpenMP that Numba would use. Its threads
    stayed behind, if it had any, and Numba's first loop would wait for them for ever."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any("/libgomp.so" in line for line in maps)
    except OSError:  # not Linux
        return False


def _after_fork() -> None:
    global _left_behind
    _left_behind = _left_behind or threads._is_initialized or _openmp_of_another()


#: Whether OpenMP's threads belong to the process that this one was forked from.
_left_behind = device.forked and _openmp_of_another()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def parallel(function: Callable[..., None]) -> Callable[..., None]:
    """`function` compiled, its `prange` on all cores; called from Python, it returns nothing.

    A fork takes no threads along, and GNU's OpenMP then ends the process that asks for them: there
    one thread computes.
    """
    together = njit(cache=True, parallel=True, nogil=True)(function)
    alone = njit(nogil=True)(
        function
    )  # compiled at its first call; a cache does not tell it from the other

    @functools.wraps(function)
    def call(*args: Any) -> None:
        (alone if _left_behind else together)(*args)

    return call
