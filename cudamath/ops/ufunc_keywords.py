"""Keywords of NumPy's ufuncs for functions that are no cards of `ufunc.py`: order, subok,
signature, and of the generalized ones axes, casting and dtype as well."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.checks import coerce, members
from ..core.shapes import normalize_axis, order_letter
from .out_argument import casting_rule, deliver
from .shape import astype, in_order, moveaxis
from .ufunc_options import loop_dtypes

Function = TypeVar("Function", bound=Callable[..., Any])

_FURTHER = ("order", "subok", "signature", "sig")
_CONVERTING = (*_FURTHER, "dtype", "casting")


def ufunc_keywords(function: Function) -> Function:
    """Decorate a function of so many positional arrays that has the other keywords of a
    ufunc. Its parameters get `**options`: order, subok and signature."""
    name = function.__name__
    count = _operands(function)
    takes_dtype = "dtype" in inspect.signature(function).parameters
    further = _FURTHER if takes_dtype else _CONVERTING

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs.keys().isdisjoint(further):
            return function(*args, **kwargs)
        options = {key: kwargs.pop(key) for key in further if key in kwargs}
        letter = order_letter(name, options.get("order"), "K")
        signature = options.get("sig", options.get("signature"))
        if not takes_dtype:
            args = (*_in_loop(name, args[:count], options, signature), *args[count:])
        elif signature is not None:
            loop = loop_dtypes(name, count, kwargs.get("dtype"), signature)
            kwargs["dtype"] = loop[-1] or next((kind for kind in loop if kind is not None), None)
        result = function(*args, **kwargs)
        written = any([x is not None for x in (*args[count:], kwargs.get("out"))])
        if letter == "K" or written:
            return result
        arrays = [x if isinstance(x, ndarray) else np.asarray(x) for x in args[:count]]
        columns = letter == "F" or letter == "A" and all([x.flags.f_contiguous for x in arrays])
        results = [
            in_order(name, y, "F" if columns else "C")
            for y in (result if isinstance(result, tuple) else (result,))
        ]
        return type(result)(results) if isinstance(result, tuple) else results[0]

    return _with_options(call, function)


def _in_loop(name: str, operands: tuple, options: dict[str, Any], signature: Any) -> Sequence[Any]:
    """The operands in the dtypes of the loop that NumPy's ufunc of this name takes."""
    dtype, casting = options.get("dtype"), casting_rule(name, options.get("casting", "same_kind"))
    if dtype is None is signature and casting == "same_kind":
        return operands
    ufunc, arrays = getattr(np, name), coerce(name, operands)
    results: list[Any] = [None] * ufunc.nout
    loop = signature
    if dtype is not None:
        loop = [*[None] * ufunc.nin, dtypes.as_dtype(dtype, name), *results[1:]]
    try:
        wanted = ufunc.resolve_dtypes(
            (*[x.dtype for x in arrays], *results),
            casting=casting,
            **({} if loop is None else {"signature": tuple(loop)}),
        )
    except TypeError:
        raise TypeError(
            f"{name}: cannot compute by the rule {casting!r} on operands of "
            + " and ".join([str(x.dtype) for x in arrays])
        ) from None
    return [astype(x, kind, copy=False) for x, kind in zip(arrays, wanted, strict=False)]


def gufunc_keywords(inputs: Sequence[int], result: int) -> Callable[[Function], Function]:
    """Decorate a product of arrays as a generalized ufunc: it gets the keywords axes, casting,
    dtype, order, subok and signature.

    Parameters
    ----------
    inputs : sequence of int
        How many axes of each operand it takes at once.
    result : int
        How many axes of the result belong to one product.
    """

    def decorate(function: Function) -> Function:
        name = function.__name__
        own_dtype = "dtype" in inspect.signature(function).parameters

        @functools.wraps(function)
        def call(
            *args: Any,
            axes: Any = None,
            casting: str = "same_kind",
            order: str = "K",
            subok: bool = True,
            signature: Any = None,
            **kwargs: Any,
        ) -> Any:
            signature = kwargs.pop("sig", signature)
            dtype = kwargs.pop("dtype", None)
            if axes is None and dtype is None is signature and casting == "same_kind":
                if order in ("K", "C"):
                    return function(*args, **kwargs)
            elif casting == "same_kind" and own_dtype and axes is None and signature is None:
                kwargs["dtype"], dtype = dtype, None
            letter = order_letter(name, order, "K")
            operands, rest = [*coerce(name, args[:2])], args[2:]
            out = kwargs.pop("out", rest[0] if rest else None)
            operands = _cast(name, operands, dtype, signature, casting)
            if axes is not None:
                operands, back = _moved(name, operands, axes, [*inputs, result])
            y = function(*operands, **kwargs)
            if axes is not None and back:
                y = moveaxis(y, tuple(range(-len(back), 0)), back)
            if out is not None:
                return deliver(name, y, out, casting)
            return in_order(name, y, letter if letter in "CF" else "K")

        return _with_options(call, function)

    return decorate


def _operands(function: Callable) -> int:
    """How many arrays a function computes on: its positional parameters without a default."""
    parameters = inspect.signature(function).parameters.values()
    return sum([p.kind is p.POSITIONAL_ONLY and p.default is p.empty for p in parameters])


def _with_options(call: Any, function: Callable) -> Any:
    """`call` with the signature of the function and `**options`."""
    signature = inspect.signature(function)
    options = inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD, annotation="Any")
    parameters = [*signature.parameters.values(), options]
    call.__signature__ = signature.replace(parameters=parameters)
    return call


def _cast(
    name: str, operands: list[ndarray], dtype: Any, signature: Any, casting: str
) -> list[ndarray]:
    """The operands in the dtypes that `dtype` or `signature` name, by a rule."""
    from .dtype_info import can_cast

    casting_rule(name, casting)
    *kinds, last = loop_dtypes(name, len(operands), dtype, signature)
    cast = []
    for x, kind in zip(operands, kinds, strict=True):
        wanted = kind or last
        if wanted is None and casting in ("no", "equiv"):
            wanted = dtypes.result_type(*operands)
        if wanted is not None and not can_cast(x.dtype, wanted, casting):
            raise TypeError(f"{name}: {x.dtype} cannot become {wanted} by the rule {casting!r}")
        cast.append(x if wanted is None else astype(x, wanted, copy=False))
    return cast


def _moved(
    name: str, operands: list[ndarray], axes: Any, counts: list[int]
) -> tuple[list[ndarray], tuple[int, ...]]:
    """The operands with the axes that `axes` names at the end, and the places of the result's."""
    each = list(members(name, axes, "axes of the operands and of the result"))
    if len(each) == len(operands) and not counts[-1]:
        each = [*each, ()]
    if len(each) != len(counts):
        raise ValueError(
            f"{name}: axes must have an entry for each operand and the result, got {axes!r:.60}"
        )
    entries = [tuple(entry) if isinstance(entry, tuple | list) else (entry,) for entry in each]
    for entry, count, x in zip(entries, counts, [*operands, None], strict=True):
        count = count if x is None else min(count, x.ndim)
        if len(entry) != count and (x is not None or len(entry) > count):
            raise ValueError(f"{name}: axes entry {entry} must name {count} axes")
    moved = [
        moveaxis(
            x,
            tuple([normalize_axis(name, axis, x.ndim) for axis in entry]),
            tuple(range(-len(entry), 0)),
        )
        for x, entry in zip(operands, entries[:-1], strict=True)
    ]
    return moved, entries[-1]
