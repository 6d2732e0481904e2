"""What is written into arrays that are there already: NumPy's `out=`, and functions that change an
array in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray, refuse_read_only
from ..core.asarray import asarray
from ..core.dispatch.call_record import obstruct, open_records
from ..core.dispatch.checks import require
from ..core.dispatch.op import ANY, Category
from ..core.dtypes import bfloat16, float16


def can_write(result: np.dtype, target: np.dtype, casting: Any = "same_kind") -> bool:
    """Whether a result of this dtype may go into an array of that one: as NumPy judges, to which
    bfloat16 is float16."""
    source, into = (float16 if dtype == bfloat16 else dtype for dtype in (result, target))
    return result == target or np.can_cast(source, into, casting)


def casting_rule(name: str, casting: Any) -> Any:
    """One of NumPy's rules for conversions."""
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise ValueError(
            f"{name}: casting is 'no', 'equiv', 'safe', 'same_kind' or 'unsafe', got {casting!r}"
        )
    return casting


def target_of(name: str, out: Any) -> ndarray:
    """The array that `out=` names, alone or in a tuple of one."""
    if type(out) is tuple and len(out) == 1:
        (out,) = out
    if not isinstance(out, ndarray):
        kind = "numpy.ndarray" if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"{name}: out must be an ndarray of this package, got {kind}")
    refuse_read_only(name, out)
    return out


def in_place(name: str, x: Any, category: Category = ANY) -> ndarray:
    """The array that a function changes in place. What is no ndarray must become one without a
    copy, as a NumPy array does on the CPU: a change of a copy would be lost."""
    if not isinstance(x, ndarray):
        try:
            held = (
                None
                if isinstance(x, bool | int | float | complex | np.generic)
                else (
                    asarray(
                        x,
                        device="cpu" if isinstance(x, np.ndarray) else None,
                        copy=False,
                        name=name,
                    )
                )
            )
        except ValueError:
            held = None
        if held is None:
            raise TypeError(
                f"{name}: wants an ndarray of this package, which it changes in place, got "
                f"{type(x).__name__}"
            )
        x = held
    if open_records:
        obstruct("wrote in place")
    return require(name, x, category)


def receiver(name: str, result: ndarray, out: Any, casting: Any = "same_kind") -> ndarray:
    """The array that `out=` names, which must take what has the shape and the dtype of `result`."""
    target = target_of(name, out)
    if result.shape != target.shape:
        raise ValueError(
            f"{name}: the result of shape {result.shape} cannot be written into an array of shape "
            f"{target.shape}"
        )
    allow(name, result, target, casting)
    return target


def deliver(name: str, result: ndarray, out: Any, casting: Any = "same_kind") -> ndarray:
    """Copies a result into `out` and returns that. casting: NumPy's rule for the conversion; or
    "held": the result must be able to hold whatever an array of out's dtype holds, as where NumPy
    computes in a copy of `out`; or "held or safe"."""
    target = receiver(name, result, out, casting)
    if open_records:
        obstruct("wrote into out")
    if result.dtype != target.dtype and casting != "same_kind":
        result = result.astype(target.dtype)
    target[...] = result
    return target


def allow(name: str, result: ndarray, target: ndarray, casting: Any) -> None:
    """Raises TypeError where the rule forbids that a result goes into an array."""
    rules = casting.split(" or ") if isinstance(casting, str) else [casting]
    fits = [
        can_write(target.dtype, result.dtype, "safe")
        if rule == "held"
        else can_write(result.dtype, target.dtype, rule)
        for rule in rules
    ]
    if not any(fits):
        raise TypeError(
            f"{name}: a result of dtype {result.dtype} cannot be written into an array of dtype "
            f"{target.dtype} "
            f"by the rule {casting!r}"
        )
