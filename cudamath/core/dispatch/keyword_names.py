"""NumPy's names of positional parameters, as keywords: `cm.sum(a=x)`, `cm.array(object=x)`.

Public functions name their arrays x and take them by position, as the array API does. NumPy calls
them a, arr, m, ... and takes these names as keywords as well. `accept` writes NumPy's names into
the code of a function. Python looks at the names of parameters only where a call has keywords, so
that a call by position costs what it did. The signature that `help` shows stays that of the source.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping


def accept(function: Callable, names: Mapping[str, str]) -> None:
    """Let a function take all its parameters as keywords, some of them by NumPy's names.

    Parameters
    ----------
    function : callable
        Function, of the fast path or not.
    names : mapping of str to str
        From the names of parameters to NumPy's names of them.
    """
    assert isinstance(function, types.FunctionType)
    later = function.__globals__.get("keyword_names")
    if type(later) is dict:  # the fast path writes the code of its wrapper at the first call
        later.update(names)
    elif not function.__code__.co_argcount and hasattr(function, "__wrapped__"):
        accept(function.__wrapped__, names)  # a decorator's function(*args, **kwargs)
        return
    else:  # `inspect.signature` follows __wrapped__
        source = types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        source.__kwdefaults__, source.__annotations__ = (
            function.__kwdefaults__,
            function.__annotations__,
        )
        function.__dict__.setdefault("__wrapped__", source)
    function.__code__ = renamed(function.__code__, names)


def renamed(code: types.CodeType, names: Mapping[str, str]) -> types.CodeType:
    """The code of a function whose parameters have other names and can all be keywords."""
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(
        code.co_flags & inspect.CO_VARKEYWORDS
    )
    count = code.co_argcount + code.co_kwonlyargcount + starred
    parameters = [names.get(name, name) for name in code.co_varnames[:count]]
    changes = dict(zip(code.co_varnames, parameters, strict=False))
    # local variables that have the name of a parameter now; those of closures are cells
    local = {*code.co_varnames[count:], *code.co_cellvars} - {*code.co_varnames[:count]}
    changes |= {name: f"{name}_" for name in local if name in parameters}
    return code.replace(
        co_varnames=tuple([changes.get(name, name) for name in code.co_varnames]),
        co_cellvars=tuple([changes.get(name, name) for name in code.co_cellvars]),
        co_posonlyargcount=0,
    )
