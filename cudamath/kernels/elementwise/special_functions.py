"""Special functions in kernels: the scalar functions of core/specs/special as device functions.

In an expression they have the prefix `special_`. They compute in float64, also for float32 and
16-bit numbers: in float32 their recurrences and differences would lose what SciPy's results have.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.specs.special.library import copied, scalar
from ..compiler.decorators import device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, types


class _Math:
    """Python's math for the simulator: where that raises, what a device returns."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(math, name)
        if not callable(function):
            return function

        def simulated(*numbers: Any) -> Any:
            try:
                return np.float64(function(*numbers))
            except (OverflowError, ValueError):
                with np.errstate(all="ignore"):
                    return getattr(np, name)(*numbers)

        return simulated


@functools.cache
def _device(function: Callable) -> Any:
    # not forced to be inlined, as other device functions are: so many copies of the gamma function,
    # which others call several times, would take the compiler a minute
    return cuda.jit(device=True)(copied(function, _device, _Math() if SIMULATOR else None))


@functools.cache
def special_functions(expression: str, T: Any) -> dict[str, Any]:
    """The special functions that an expression on compute type T calls, by their names there."""
    found = {}
    for name in re.findall(r"\bspecial_(\w+)", expression):
        function = scalar(name)
        names = [f"x{i}" for i in range(function.__code__.co_argcount)]
        wide = ", ".join(f"types.float64({n})" for n in names)
        source = f"def special_{name}({', '.join(names)}):\n    return T(function({wide}))\n"
        namespace = {"T": T, "types": types, "function": _device(function)}
        found[f"special_{name}"] = device_function(compiled(source, f"special_{name}", namespace))
    return found
