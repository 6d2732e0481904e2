"""A cache of views, by the layout of their array and the arguments of the call."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

from ..core.array import ndarray, refuse_misaligned
from ..core.devices import TRACED
from ..core.layout import Layout

Function = TypeVar("Function", bound=Callable[..., Any])
_MOST_VIEWS = 4096


def remember(table: dict, key: Any, value: Any) -> None:
    """Put into a table that forgets everything when it is full."""
    if len(table) >= _MOST_VIEWS:
        table.clear()
    table[key] = value


def all_ints(size: Any) -> bool:
    """Whether a size is an int or a tuple of ints: 3.0 would be found as 3."""
    try:
        return size.__class__ is int or (
            size.__class__ is tuple and math.prod(size).__class__ is int
        )
    except TypeError:
        return False


def viewing(function: Function) -> Function:
    """`function(x, ...)`, whose result is a view of x: for arrays on a GPU, where working it out
    takes longer than the kernel that reads it, the view is looked up by what was requested. Not
    where a gradient is recorded."""
    known: dict[tuple, tuple[Layout, int]] = {}
    new = object.__new__

    @functools.wraps(function)
    def call(x: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(x) is not ndarray or x._layout.device < 0 or x._node is not None:
            return function(x, *args, **kwargs)
        if (
            len(args) == 1 and not kwargs and args[0].__class__ is tuple
        ):  # with classes: 1.0 and True equal 1
            key: tuple = (x._layout, args, *map(type, args[0]))
        else:
            given, key = args, (x._layout, args, *map(type, args))
            if kwargs:
                given = *args, *kwargs.values()
                key = (*key, *kwargs.items(), *map(type, kwargs.values()))
            for argument in given:
                if argument.__class__ is tuple:
                    key = (*key, *map(type, argument))
        try:
            layout, offset = known[key]
        except (KeyError, TypeError) as error:
            y = function(x, *args, **kwargs)
            if (
                type(error) is KeyError and y._owner is x._owner
            ):  # TypeError: a list, which cannot be a key
                remember(known, key, (y._layout, y._data - x._data))
            return y
        out = new(ndarray)
        out._layout, out._data, out._owner, out._node = layout, x._data + offset, x._owner, None
        return out

    return call  # type: ignore[return-value]


def viewing_as(function: Function) -> Function:
    """`viewing` for `function(x, dtype)`, whose result begins where x does."""
    known: dict[tuple, Layout] = {}

    @functools.wraps(function)
    def call(x: ndarray, dtype: Any = None) -> ndarray:
        try:
            if x._node is None:
                return x._view(known[x._layout, dtype])
        except (KeyError, TypeError):  # TypeError: what has no hash is no dtype either
            pass
        y = function(x, dtype)
        if (
            x._layout.device == TRACED and y.dtype != x.dtype
        ):  # its Symbol would be taken for a value of that dtype
            raise TypeError(
                f"fuse: what is fused has no bytes to view; it saw {x.dtype} of shape {x.shape} "
                f"as {y.dtype}"
            )
        if x._layout.device >= 0 and x._node is None:
            if (
                y.itemsize > x.itemsize and not x._layout.aligned
            ):  # whether they may begin there, the layout does not say
                refuse_misaligned("view", y._layout, y._data)
            else:
                remember(known, (x._layout, dtype), y._layout)
        return y

    return call  # type: ignore[return-value]
