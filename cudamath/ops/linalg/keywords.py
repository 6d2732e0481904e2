"""Keywords that many functions of SciPy share, and what they mean here.

`@scipy_keywords("overwrite_a", check_finite=("a", "b"))` below `@fast_path` gives a function such
keywords: it adds them to the signature and to the docstring, and the function does not see them.

- Hints (`overwrite_*`, `lwork`, `workers`) change no result. They are no part of a fast path's key,
  so a call with them costs what the call without them costs.
- `driver` and `lapack_driver` name routines of LAPACK's. They are looked at, but which routine runs
  is this package's choice.
- `check_finite` is False by default, as nothing looks at the values of NumPy's functions. True
  costs a pass over the arguments, and on a GPU a wait for its answer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.dispatch.fast_path import is_hint
from .. import reduce
from ..elementwise import isfinite

Result = TypeVar("Result")

_HINTS = {
    "lwork": (
        "int, optional",
        "Size of LAPACK's workspace, a hint of SciPy's. It changes nothing.",
    ),
    "workers": ("int, optional", "Number of threads, a hint of SciPy's. It changes nothing."),
}
_OVERWRITE = (
    "bool, default False",
    "Permission to overwrite `{0}`, a hint of SciPy's. It changes nothing: `{0}` stays as it is.",
)
_CHECK = (
    "bool, default False",
    "Whether NaN and infinity are a ValueError. On a GPU the call then waits for the answer.",
)


_DRIVER = "Name of a routine of LAPACK's, which this package chooses by itself. It changes nothing."


def _entry(name: str, choices: Sequence[str] = ()) -> str:
    """The lines of a keyword in a docstring."""
    if choices:
        kind, text = f"{{{', '.join(map(repr, choices))}}}, optional", _DRIVER
    elif name == "check_finite":
        kind, text = _CHECK
    elif name.startswith("overwrite_"):
        kind, text = _OVERWRITE
    else:
        kind, text = _HINTS[name]
    return f"    {name} : {kind}\n        {text.format(name.removeprefix('overwrite_'))}\n"


def require_finite(name: str, values: Any) -> None:
    """ValueError where an array, or one of a tuple of them, has an element that is not finite."""
    if isinstance(values, tuple):
        for part in values:
            require_finite(name, part)
        return
    x = values if isinstance(values, ndarray) else asarray(values, name=name)
    if x.dtype.kind not in "biu" and not bool(reduce.all(isfinite(x))):
        raise ValueError(
            f"{name}: array must not contain infs or NaNs, got one in {x.dtype} of shape {x.shape}"
        )


def scipy_keywords(
    *hints: str, check_finite: Sequence[str] = (), **drivers: Sequence[str]
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Decorate a function that takes hints of SciPy's, `check_finite` of the named parameters, and
    names of drivers, one of those given.

    The docstring gets their entries at the end of its parameters.
    """
    names = [*hints, *(["check_finite"] if check_finite else []), *drivers]
    assert all([is_hint(name) for name in hints]), hints

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        signature = inspect.signature(function)
        places = {n: i for i, n in enumerate(signature.parameters) if n in check_finite}
        assert len(places) == len(check_finite), function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Result:
            for name in hints:
                kwargs.pop(name, None)
            for name, choices in drivers.items():
                driver = kwargs.pop(name, None)
                if driver is not None and driver not in choices:
                    kind = ValueError if isinstance(driver, str) else TypeError
                    raise kind(
                        f"{function.__name__}: {name} must be one of "
                        f"{', '.join(map(repr, choices))}, got {driver!r}"
                    )
            if kwargs.pop("check_finite", False):
                for name, place in places.items():
                    value = args[place] if place < len(args) else kwargs.get(name)
                    if value is not None:
                        require_finite(function.__name__, value)
            return function(*args, **kwargs)

        more = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if name in _HINTS or name in drivers else False,
                annotation=(
                    "int | None" if name in _HINTS else "str | None" if name in drivers else "bool"
                ),
            )
            for name in names
        ]
        call.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*signature.parameters.values(), *more]
        )
        text, returns = function.__doc__ or "", "\n    Returns\n"
        assert text.count(returns) == 1, function
        call.__doc__ = text.replace(
            returns, "".join([_entry(n, drivers.get(n, ())) for n in names]) + returns
        )
        return call

    return decorate
