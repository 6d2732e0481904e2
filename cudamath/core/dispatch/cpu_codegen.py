"""Code generation for elementwise ops and copies on the CPU: one call of NumPy or of a compiled
loop.

An array of 10^5 elements evicts most other data from the caches, so everything else that a call
touches is a cache miss. Each Python frame, closure cell or object less is measurable. So the
function of an op is generated for its layouts, as those of GPU plans are (plan.py), with all
constants as defaults of its parameters.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import cpu_pool
from ..array import ndarray, wrap
from ..fp_errors import quiet
from ..layout import Layout

#: Numbers of elements for which compiled loops are used (in larger arrays the cost of a call is
#: negligible, and NumPy's loops are as fast), and after how many calls: together these take about
#: as long as the compilation.
WORTH, OFTEN = range(1 << 15, 1 << 20), 1000

#: The array for the result is the last positional argument, which is faster than `out=`. For these
#: two NumPy rejects that, because `np.maximum(a, b, c)` looks like the maximum of three.
_BY_NAME = np.maximum, np.minimum

_TAKE = """
        for data in arrays:
            if count(data) == free:
                break
        else:
            data, arrays = more()"""
_SCALAR = """
        scalar, array_{0} = kept_{0}
        if scalar is not {0}:
            array_{0} = as_array({0})
            kept_{0} = {0}, array_{0}"""
_CALL = """
        try:
            {result}enter(function, {inputs}{out})
        except RuntimeError:  # another thread is in this context
            {result}quiet().run(function, {inputs}{out})"""
_ASSIGN = """
        try:
            enter(function, data, ..., {inputs})
        except RuntimeError:
            quiet().run(function, data, ..., {inputs})"""
_FIRST = """
        if loop is None:
            left -= 1
            if not left:
                loop = compiled(){call}
        else:
            loop({inputs}, data)"""
_FUNCTION = """
def make(function, as_array, layout, free, arrays, more, left, compiled):
    loop = None
    kept_x = kept_y = kept_z = None, None
    def run({parameters}, new=new, ndarray=ndarray, count=count, free=free, enter=context().run,
    function=function,
            layout=layout):
        nonlocal arrays, left, loop, kept_x, kept_y, kept_z{body}
        out = new(ndarray)
        out._data = data
        out._layout = {layout}
        out._owner = out._node = out._base = None
        return out
    return run
"""  # noqa: E501


@functools.cache
def _written(scalars: tuple[bool, ...], call: str, out: str, first: bool = False) -> Callable:
    """`make` of the functions with arrays and Python scalars at these positions. first: the
    function that is used until there is a compiled loop."""
    names = "xyz"[: len(scalars)]
    inputs = ", ".join(
        f"array_{name}" if s else f"{name}._data" for name, s in zip(names, scalars, strict=True)
    )
    call = call.format(inputs=inputs, out=out, result="" if out else "data = ")
    if first:
        call = _FIRST.format(inputs=inputs, call=call.replace("\n", "\n    "))
    body = (
        "".join([_SCALAR.format(name) for name, s in zip(names, scalars, strict=True) if s])
        + (_TAKE if out else "")
        + call
    )
    namespace: dict[str, Any] = {
        "new": object.__new__,
        "ndarray": ndarray,
        "count": cpu_pool.references,
        "context": quiet,
        "quiet": quiet,
        "first": _first,
    }
    source = _FUNCTION.format(
        parameters=", ".join(names),
        body=body,
        layout="layout" if out else "layout[0] or first(layout, data)",
    )
    exec(compile(source, "<cudamath call>", "exec"), namespace)
    return namespace["make"]


def _first(layouts: list[Layout], data: np.ndarray) -> Layout:
    """The layout of the first result. All later results have it."""
    layouts[0] = wrap(data)._layout
    return layouts[0]


def straight(
    name: str,
    function: Callable,
    scalars: tuple[bool, ...],
    compute: np.dtype,
    layout: Layout | None,
    compiled: Callable[[], Callable] | None = None,
) -> Callable:
    """`run` for arrays of known layouts and a ufunc that does what we want, another
    function(*arrays, out), or `operator.setitem`, which copies (np.copyto takes longer to begin).

    A Python scalar is made an array in the dtype in which NumPy would read it, and kept: most often
    it is the same one next time, and NumPy takes longer to make the array than for all else that it
    does before the loop. The result of a `layout` lies in memory that is used again (cpu_pool.py);
    without one NumPy makes the array.

    compiled: makes the same function(*arrays, out) out of cpu/lib/llvm_loops.py, which is used for
    WORTH elements from the call of number OFTEN on.
    """
    as_array = functools.partial(_array, name, dtype=compute)
    if layout is None:
        return _written(scalars, _CALL, "")(function, as_array, [None], None, None, None, 0, None)
    first = compiled is not None and layout.size in WORTH
    call = _ASSIGN if function is operator.setitem else _CALL
    make = _written(scalars, call, ", out=data" if function in _BY_NAME else ", data", first)
    return make(
        function,
        as_array,
        layout,
        cpu_pool.FREE,
        *cpu_pool.supply(layout.shape, layout.dtype),
        OFTEN,
        compiled,
    )


def either(run: Callable, function: Callable) -> Callable:
    """`run`, a comparison, and of a Python integer that does not fit into the array's dtype what
    NumPy says."""

    def call(*operands: Any) -> ndarray:
        try:
            return run(*operands)
        except OverflowError:
            return wrap(
                function(*[x._data + 0 if isinstance(x, ndarray) else x for x in operands])
            )  # bools as integers

    return call


def straight_inplace(name: str, function: Callable, scalar: bool, compute: np.dtype) -> Callable:
    """`run(x, y)` that writes x op y into x; y is an array or a Python scalar."""

    def run(x: ndarray, y: Any) -> ndarray:
        target = x._data
        try:
            quiet().run(function, target, _array(name, y, compute) if scalar else y._data, target)
        except ValueError as error:  # a read-only target
            raise ValueError(f"{name}: {error}") from None
        return x

    return run


def _array(name: str, scalar: Any, dtype: np.dtype) -> np.ndarray:
    """A Python scalar as a 0-d array."""
    try:
        if dtype.char in "dlD?":  # a number is not rounded to one of these with a warning
            return np.asarray(scalar, dtype)
        return quiet().run(np.asarray, scalar, dtype)
    except OverflowError as error:
        raise OverflowError(f"{name}: {error}") from None
