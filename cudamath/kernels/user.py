"""A user's own `@cuda.jit` kernels, compiled and launched like the package's.

Only the argument types differ: our kernels see storage types (16-bit floats as uint16, bool as uint8), while a user's
kernel sees what Numba would show it, float16 and bool as themselves. bfloat16 is uint16 and float8 uint8 here too, for
want of such types in Numba's arrays.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, types

from ..core.layout import Layout
from ..runtime import module
from . import build

__all__ = ["UserKernel", "user_kernel"]


class UserKernel:
    """What a Launch takes for a user's kernel: `cubin` compiles it for its own argument types."""

    def __init__(self, dispatcher: Any):
        self.dispatcher = dispatcher
        self.__name__ = dispatcher.py_func.__name__

    def cubin(self, signature: list[Layout | np.dtype], capability: tuple[int, int]) -> bytes:
        """Machine code for these arguments and this compute capability, from the disk if it is there."""
        cc = build.target(capability)
        arguments = types.void(*[argument_type(kind) for kind in signature])
        key = build.cache_key(self.dispatcher, arguments, cc)
        return module.cached_cubin(key, lambda: build.compile_now(self.dispatcher, arguments, cc)[0])


def argument_type(kind: Layout | np.dtype) -> Any:
    """Numba's type of an argument: an array's Layout or a scalar's dtype."""
    dtype = kind.dtype if isinstance(kind, Layout) else kind
    if dtype == np.float16:
        element: Any = types.float16
    elif dtype == np.bool_:
        element = types.boolean
    else:
        element = build.numba_type(dtype)
    if isinstance(kind, Layout):
        return types.Array(element, max(kind.ndim, 1), "C" if kind.contiguous else "A")
    return element


@functools.cache
def user_kernel(kernel: Any) -> UserKernel:
    """The UserKernel of a `@cuda.jit` kernel or of a plain Python function that could be one."""
    if not hasattr(kernel, "py_func"):
        kernel = cuda.jit(kernel)
    return UserKernel(kernel)
