"""A user's own `@cuda.jit` kernels, compiled and launched like the package's; kernels from a user's
scalar functions.

Only the argument types differ: our kernels see storage types (16-bit floats as uint16, bool as
uint8), while a user's kernel sees what Numba would show it, float16 and bool as themselves.
bfloat16 is uint16 and float8 uint8 here too, for want of such types in Numba's arrays.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...core.specs.reduction import Accumulator
from ...core.specs.scalar_functions import typed
from ..compiler import decorators, generated, storage_types
from ..compiler.lazy_numba import cuda, types
from ..elementwise.dispatch import launch, result_layout
from ..elementwise.generator import NAMES
from ..lib import codec
from ..lib.accumulators import accumulator_type
from ..reduce.dispatch import planned
from ..reduce.problem import Problem

__all__ = ["UserKernel", "user_kernel"]


def seen(dtype: np.dtype) -> np.dtype:
    """What a user's kernel sees of a dtype."""
    return dtype if dtype in (np.float16, np.bool_) else storage_types.storage(dtype)


class UserKernel:
    """What a Launch takes for a user's kernel. The compiler (kernels/compiler/compile.py) compiles
    its `dispatcher` for the argument types that `seen` gives."""

    seen = staticmethod(seen)

    def __init__(self, dispatcher: Any):
        self.dispatcher = dispatcher
        self.__name__ = dispatcher.py_func.__name__


@functools.cache
def user_kernel(kernel: Any) -> UserKernel:
    """The UserKernel of a `@cuda.jit` kernel or of a plain Python function that could be one."""
    if not hasattr(kernel, "py_func"):
        kernel = cuda.jit(kernel)
    return UserKernel(kernel)


# -------------------- scalar functions


@functools.cache
def scalar(function: Any, inputs: tuple[np.dtype, ...], compute: np.dtype, output: np.dtype) -> Any:
    """A device function from stored elements to a stored element, by way of the user's function in
    `compute`."""
    T = codec.codec(compute)[2]
    namespace: dict[str, Any] = {
        "function": decorators.device_function(typed(function, compute)),
        "T": T,
        "types": types,
    }
    names = NAMES[: len(inputs)]
    for name, dtype in zip(names, inputs, strict=True):
        namespace[f"load_{name}"] = codec.codec(dtype)[0]
    namespace["store"], namespace["R"] = codec.codec(output)[1:]
    call = f"function({', '.join(f'T(load_{n}({n}))' for n in names)})"
    result = (
        f"types.uint8(1) if {call} else types.uint8(0)"
        if output == np.bool_
        else f"store(R({call}))"
    )
    source = f"def scalar({', '.join(names)}):\n    return {result}\n"
    return decorators.device_function(generated.compiled(source, "scalar", namespace))


def elementwise(
    *operands: Layout | np.dtype,
    function: Any,
    compute: np.dtype,
    output: np.dtype,
    version: str | None = None,
) -> Plan:
    """Planner: operands are Layouts, or dtypes of run-time scalars."""
    layouts = [x for x in operands if isinstance(x, Layout)]
    shape = shapes.broadcast_shapes("elementwise", *[x.shape for x in layouts])
    target = result_layout(layouts, shape, output)
    made = scalar(
        function, tuple(x.dtype if isinstance(x, Layout) else x for x in operands), compute, output
    )
    return Plan([target], [launch(made, operands, target, Output(0), version)])


@functools.cache
def custom(functions: tuple, source: np.dtype, target: np.dtype) -> Accumulator:
    """The device functions of a user's reduction; functions: (combine, identity, each or None, last
    or None)."""
    combine_, identity_, each_, last_ = functions
    load, store = codec.codec(source)[0], codec.codec(target)[1]
    A = accumulator_type(target)
    compute = storage_types.storage(np.dtype(str(A)))
    C = codec.codec(source)[2]
    merge = decorators.device_function(typed(combine_, compute))
    start = A(identity_)
    before = decorators.device_function(typed(each_, compute)) if each_ else None
    after = decorators.device_function(typed(last_, compute)) if last_ else None

    if before is None:

        @decorators.device_function
        def lift(value, j):
            return (A(load(value)),)

    else:

        @decorators.device_function
        def lift(value, j):
            return (A(before(C(load(value)))),)

    @decorators.device_function
    def combine(a, b):
        return (A(merge(a[0], b[0])),)

    @decorators.device_function
    def identity():
        return (start,)

    if after is None:

        @decorators.device_function
        def finish(a, divisor):
            return store(a[0])

    else:

        @decorators.device_function
        def finish(a, divisor):
            return store(A(after(a[0])))

    return Accumulator(lift, combine, identity, finish, (A,))


def reduction(
    x: Layout,
    *,
    functions: tuple,
    axis: tuple[int, ...],
    keepdims: bool,
    dtype: np.dtype,
    version: str | None = None,
) -> Plan:
    """Planner of a user's reduction."""
    made = custom(functions, x.dtype, dtype)
    return planned(Problem(x, made, axis, keepdims, dtype), version)
