"""How elementwise ops run on the CPU where the layouts are known: a call of NumPy's or a compiled loop, and little else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import host
from ..core.array import ndarray, wrap
from ..core.layout import Layout
from ..core.quiet import quiet

#: In place of `host.supply`: NumPy makes the array of the result.
NOTHING: tuple[Any, Any] = (), lambda: (None, ())

#: Ufuncs as functions of positional arguments, of which the last one is the array for the result: quicker than `out=`, but
#: of these two NumPy does not like it, since `np.maximum(a, b, c)` looks like the largest of three.
_BY_POSITION: dict[Callable, Callable] = {
    np.maximum: lambda x, y, out: np.maximum(x, y, out=out), np.minimum: lambda x, y, out: np.minimum(x, y, out=out)}

#: Which way the next call of a compiled loop goes through its arrays (see cpu/loops.py).
_back = itertools.cycle((False, True)).__next__


def straight(name: str, function: Callable, scalars: tuple[bool, ...], compute: np.dtype,
             supply: tuple[Any, Callable]) -> Callable:
    """`run` for a ufunc that does what we want and arrays of known layouts: the layout of the first result is that of all.

    A Python scalar is made an array in the dtype in which NumPy would read it, and kept: most often it is the same one
    next time, and NumPy takes longer to make the array than for all else that it does before the loop. `supply` gives the
    array for the result (see `host.supply`).
    """
    new, count, free = object.__new__, host.references, host.FREE
    arrays, more = supply
    function = _BY_POSITION.get(function, function)
    layout: Layout | None = None
    kept: tuple[Any, Any] = (None, None)

    def one(x: ndarray) -> ndarray:
        nonlocal layout, arrays
        for data in arrays:
            if count(data) == free:
                break
        else:
            data, arrays = more()
        out = new(ndarray)
        out._data = data = quiet().run(function, x._data, data)
        out._layout = layout = layout or wrap(data)._layout
        out._owner = out._node = None
        return out

    def two(x: ndarray, y: ndarray) -> ndarray:
        nonlocal layout, arrays
        for data in arrays:
            if count(data) == free:
                break
        else:
            data, arrays = more()
        out = new(ndarray)
        out._data = data = quiet().run(function, x._data, y._data, data)
        out._layout = layout = layout or wrap(data)._layout
        out._owner = out._node = None
        return out

    def left(x: ndarray, y: Any) -> ndarray:
        nonlocal layout, kept, arrays
        scalar, array = kept
        if scalar is not y:
            array = _array(name, y, compute)
            kept = y, array
        for data in arrays:
            if count(data) == free:
                break
        else:
            data, arrays = more()
        out = new(ndarray)
        out._data = data = quiet().run(function, x._data, array, data)
        out._layout = layout = layout or wrap(data)._layout
        out._owner = out._node = None
        return out

    def right(x: Any, y: ndarray) -> ndarray:
        nonlocal layout, kept, arrays
        scalar, array = kept
        if scalar is not x:
            array = _array(name, x, compute)
            kept = x, array
        for data in arrays:
            if count(data) == free:
                break
        else:
            data, arrays = more()
        out = new(ndarray)
        out._data = data = quiet().run(function, array, y._data, data)
        out._layout = layout = layout or wrap(data)._layout
        out._owner = out._node = None
        return out

    runs: dict[tuple[bool, ...], Callable] = {(False,): one, (False, False): two, (False, True): left, (True, False): right}
    return runs[scalars]


def looped(name: str, loop: Callable, scalars: tuple[bool, ...], compute: np.dtype, layout: Layout) -> Callable:
    """`straight` for a loop of cpu/loops.py, which writes into an array that it is given."""
    new, count, free, back = object.__new__, host.references, host.FREE, _back
    arrays, more = host.supply(layout.shape, layout.dtype)
    kept: tuple[Any, Any] = (None, None)

    def one(x: ndarray) -> ndarray:
        nonlocal arrays
        for data in arrays:
            if count(data) == free:
                break
        else:
            data, arrays = more()
        loop(x._data, data, back())
        out = new(ndarray)
        out._layout, out._data = layout, data
        out._owner = out._node = None
        return out

    def two(x: ndarray, y: ndarray) -> ndarray:
        nonlocal arrays
        for data in arrays:
            if count(data) == free:
                break
        else:
            data, arrays = more()
        loop(x._data, y._data, data, back())
        out = new(ndarray)
        out._layout, out._data = layout, data
        out._owner = out._node = None
        return out

    def one_scalar(x: Any, y: Any) -> ndarray:
        nonlocal kept, arrays
        value, array = kept
        given = x if first else y
        if value is not given:
            array = _array(name, given, compute)
            kept = given, array
        for data in arrays:
            if count(data) == free:
                break
        else:
            data, arrays = more()
        if first:
            loop(array, y._data, data, back())
        else:
            loop(x._data, array, data, back())
        out = new(ndarray)
        out._layout, out._data = layout, data
        out._owner = out._node = None
        return out

    first = scalars[0]
    return one if len(scalars) == 1 else one_scalar if any(scalars) else two


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
        return quiet().run(np.asarray, scalar, dtype)
    except OverflowError as error:
        raise OverflowError(f"{name}: {error}") from None
