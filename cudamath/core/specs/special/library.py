"""The scalar functions by name, and their copies for a compiler.

A function calls others of these files, which a compiler only follows where it has compiled them
itself. So it gets copies: in their globals is what it made of the functions they call.
"""

from __future__ import annotations

import dis
import functools
import importlib
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

#: The files, by the package's name.
FILES = (
    "gamma_functions",
    "complex_gamma",
    "error_functions",
    "complex_error",
    "entropies",
    "incomplete_functions",
    "shape_derivatives",
    "distributions",
    "bessel_functions",
    "integrals",
    "wave_integrals",
    "angles",
    "powers",
    "factorials",
    "complex_zeta",
)


@functools.cache
def scalar(name: str) -> Callable[..., float]:
    """The scalar function of this name."""
    for file in FILES:
        module = importlib.import_module(f"{__package__}.{file}")
        found = vars(module).get(name)
        if isinstance(found, types.FunctionType) and found.__module__ == module.__name__:
            return found
    raise KeyError(name)


@functools.cache
def narrow(name: str) -> Callable[..., float]:
    """The scalar function for results in float32."""
    return _narrow().get(name) or scalar(name)


def short_form(function: Callable) -> Callable:
    """The function for results in float32 in the place of one that others call."""
    return _narrow().get(function.__name__, function)


@functools.cache
def _narrow() -> dict[str, Callable[..., Any]]:
    module = importlib.import_module(f"{__package__}.narrow")
    return {
        name: found
        for name, found in vars(module).items()
        if isinstance(found, types.FunctionType) and found.__module__ == module.__name__
    }


def is_scalar(function: Any) -> bool:
    """Whether it is a function of these files, or the copy of one."""
    return str(getattr(function, "__module__", "")).startswith(f"{__package__}.")


#: Constants of these files by which sums and iterations end, as results in float32 need them: 1e-10
#: is a thousandth of a unit in the last place. ENOUGH is of steps whose errors are squared,
#: SHARE of the terms of continued fractions, whose number's root is what digits grow with, TERMS of
#: sums before a formula goes on.
SHORT = {
    "EPSILON": 1e-10,
    "SMALL_TERM": 1e-10,
    "SMALL_LOG": 24.0,
    "ENOUGH": 1e-6,
    "SHARE": 0.4,
    "TERMS": 5.0,
    "FROM_END": False,
}


def copied(
    function: Callable,
    compile: Callable[[Callable], Any],
    math: Any = None,
    constants: Mapping[str, Any] = MappingProxyType({}),
) -> Callable:
    """A copy of a scalar function that calls what `compile` makes of the copies of others. math:
    what stands in the place of Python's module; constants: in the place of the function's own."""
    names = function.__globals__
    own: dict[str, Any] = {"__name__": function.__module__}
    for name in {i.argval for i in dis.get_instructions(function) if i.opname == "LOAD_GLOBAL"}:
        value = names.get(name)
        if isinstance(value, types.FunctionType):
            own[name] = compile(value)
        elif value is not None:
            stands_in = math if name == "math" and math is not None else value
            own[name] = constants.get(name, stands_in)
    return types.FunctionType(function.__code__, own, function.__name__)
