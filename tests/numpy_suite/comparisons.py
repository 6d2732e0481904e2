"""`numpy.testing` for tests of cudamath's arrays.

Its comparisons ask `isinstance(x, numpy.ndarray)` to decide between the comparison of arrays and
that of two objects. The values of our arrays, also of those in tuples, lists and dicts, are
therefore handed over as NumPy's arrays of the same dtype and shape. What is raised, what warns and
how is left to NumPy's own functions.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.testing
from numpy.testing._private import utils

import cudamath as cm

COMPARISONS = """assert_equal assert_almost_equal assert_approx_equal assert_array_equal assert_array_less
assert_array_almost_equal assert_array_almost_equal_nulp assert_array_max_ulp assert_allclose assert_array_compare
print_assert_equal build_err_msg nulp_diff integer_repr""".split()  # noqa: E501


def on_host(x: Any) -> Any:
    """The values of our arrays, wherever they are in `x`, as NumPy's arrays."""
    if isinstance(x, cm.ndarray):
        return x.to_numpy()
    if isinstance(x, dict):
        return {key: on_host(value) for key, value in x.items()}
    if type(x) in (tuple, list):
        return type(x)(map(on_host, x))
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(on_host, x))
    return x


def comparing(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def compare(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return function(*map(on_host, args), **{key: on_host(v) for key, v in kwargs.items()})

    return compare


def _gen_alignment_data(*args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:
    """NumPy's operands of different alignments, as our arrays."""
    for operands in utils._gen_alignment_data(*args, **kwargs):
        ours: dict[int, Any] = {}  # an array that occurs twice is one array
        yield tuple(
            ours.setdefault(id(x), cm.asarray(x)) if isinstance(x, np.ndarray) else x
            for x in operands
        )


REPLACED: dict[str, Any] = {name: comparing(getattr(utils, name)) for name in COMPARISONS}
REPLACED["_gen_alignment_data"] = _gen_alignment_data


def testing() -> types.ModuleType:
    """`numpy.testing` with these comparisons."""
    module = types.ModuleType("numpy.testing")
    module.__dict__.update(vars(numpy.testing), **REPLACED)
    return module


#: Modules of SciPy's with comparisons for arrays of any library.
OF_SCIPY = ("scipy._lib._array_api", "scipy._lib._array_api_no_0d")


def of_scipy(name: str) -> types.ModuleType:
    """Such a module, whose comparisons get NumPy's arrays, and tests the choice of a library."""
    theirs = importlib.import_module(name)
    module = types.ModuleType(name)
    module.__dict__.update(vars(theirs))
    for key, value in vars(theirs).items():
        if key.startswith(("assert_", "xp_assert_")):
            module.__dict__[key] = _of_numpy(value)
    return module


def _of_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    compare = comparing(function)

    @functools.wraps(function)
    def call(*args: Any, xp: Any = None, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return compare(*args, **kwargs)

    return call
