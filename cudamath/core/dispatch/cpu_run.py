"""The function that runs an op on the CPU, made once for each combination of layouts."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array import ndarray, wrap
from ..fp_errors import quiet
from ..layout import Layout
from .cpu_codegen import straight


def cpu_runner(
    function: Callable, params: dict, scalars: int, layouts: tuple[Layout | None, ...]
) -> Callable:
    """`run(*arrays, *scalars)` for the CPU.

    A CPU function may have a `prepare(*layouts, **params)`: a function of the NumPy arrays alone,
    the layout of whose result is always the same; or (such a function of the arrays and of one for
    the result, its layout (C order), what `straight` calls `compiled`); or None where it has
    nothing faster than the function itself.

    One that takes numbers may have a `with_numbers(*layouts, scalars=numbers, **params)`: a
    function of the NumPy arrays alone for these numbers, the layout of whose result is always the
    same, or None. Replays use it, in which the numbers are constants.
    """
    ready = (
        function.prepare(*layouts, **params)
        if not scalars and hasattr(function, "prepare")
        else None
    )
    if isinstance(ready, tuple):
        into, layout, compiled = ready
        return straight("", into, (False,) * len(layouts), layout.dtype, layout, compiled)
    if ready is not None:
        return known_result(ready, len(layouts))

    bound = functools.partial(function, **params) if params else function

    def run(*operands: Any) -> Any:
        count = len(operands) - scalars
        data = [None if x is None else x._data for x in operands[:count]]
        extra = {"scalars": operands[count:]} if scalars else {}
        return wrapped(quiet().run(bound, *data, **extra))

    def of_one(x: ndarray) -> Any:
        result = quiet().run(bound, x._data)
        return wrap(result) if result.__class__ is np.ndarray else wrapped(result)

    def of_two(x: ndarray, y: ndarray) -> Any:
        result = quiet().run(bound, x._data, y._data)
        return wrap(result) if result.__class__ is np.ndarray else wrapped(result)

    def of_none(*numbers: Any) -> Any:
        result = quiet().run(bound, scalars=numbers)
        return wrap(result) if result.__class__ is np.ndarray else wrapped(result)

    def of_one_and_numbers(x: ndarray, *numbers: Any) -> Any:
        result = quiet().run(bound, x._data, scalars=numbers)
        return wrap(result) if result.__class__ is np.ndarray else wrapped(result)

    def with_numbers(numbers: tuple) -> Callable | None:
        leaner = function.with_numbers(*layouts, scalars=numbers, **params)  # type: ignore[attr-defined]
        return None if leaner is None else known_result(leaner, len(layouts))

    chosen: Any = run
    if scalars and not layouts:
        chosen = of_none
    elif scalars and len(layouts) == 1 and layouts[0] is not None:
        chosen = of_one_and_numbers
    elif not scalars and None not in layouts and 0 < len(layouts) < 3:
        chosen = of_one if len(layouts) == 1 else of_two
    if hasattr(function, "with_numbers") and None not in layouts:
        chosen.with_numbers = with_numbers
    return chosen


def wrapped(result: Any) -> Any:
    """What a CPU function returned, as arrays."""
    if result.__class__ is np.ndarray:
        return wrap(result)
    if isinstance(result, tuple):
        return tuple([wrap(r if isinstance(r, np.ndarray) else np.asarray(r)) for r in result])
    return wrap(result if isinstance(result, np.ndarray) else np.asarray(result))


def known_result(function: Callable, count: int) -> Callable:
    """`run` of `count` arrays for a function of NumPy arrays that always returns one of the same
    layout."""
    new = object.__new__
    layout: Layout | None = None  # from the first result on

    def none() -> ndarray:
        nonlocal layout
        out = new(ndarray)
        out._data = data = function()
        out._layout = layout = layout or wrap(data)._layout
        out._owner = out._node = out._base = None
        return out

    def one(x: ndarray) -> ndarray:
        nonlocal layout
        out = new(ndarray)
        out._data = data = function(x._data)
        out._layout = layout = layout or wrap(data)._layout
        out._owner = out._node = out._base = None
        return out

    def two(x: ndarray, y: ndarray) -> ndarray:
        nonlocal layout
        out = new(ndarray)
        out._data = data = function(x._data, y._data)
        out._layout = layout = layout or wrap(data)._layout
        out._owner = out._node = out._base = None
        return out

    def several(*arrays: ndarray) -> ndarray:
        nonlocal layout
        out = new(ndarray)
        out._data = data = function(*[x._data for x in arrays])
        out._layout = layout = layout or wrap(data)._layout
        out._owner = out._node = out._base = None
        return out

    return (none, one, two)[count] if count < 3 else several


def _without_none(run: Callable, present: list[bool], scalars: int) -> Callable:
    """`run` of all operands, some of them None: plans number only the inputs that are there.
    `without_none` is the function of those."""

    def shortened(*operands: Any) -> Any:
        count = len(present)
        there = itertools.compress(operands[:count], present)
        return run(*there, *operands[count:])

    shortened.without_none = run  # type: ignore[attr-defined]
    return shortened
