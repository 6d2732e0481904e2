"""Functions whose code is written at their first call.

To write and compile the code of a function takes 0.1 to 0.2 ms, and the import of the package makes
several hundred of them.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any


def deferred(name: str, bind: Callable[..., Callable], *arguments: Any) -> types.FunctionType:
    """A function that gets its code at the first call.

    Parameters
    ----------
    name : str
        Name of the function, which errors show.
    bind : callable
        `bind(function, *arguments)` gives the function its code, and returns it.
    *arguments : object
        Further arguments of `bind`.

    Returns
    -------
    function
        The function. Its globals are a dict of its own.
    """
    namespace: dict[str, Any] = {}
    function = types.FunctionType(_UNBOUND.replace(co_name=name), namespace, name)
    namespace["bind"] = functools.partial(bind, function, *arguments)
    return function


def _unbound(*args: Any, **kwargs: Any) -> Any:
    return bind()(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


_UNBOUND = _unbound.__code__
