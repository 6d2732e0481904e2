"""Choice between two arrays by a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes, shapes
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.devices import TRACED
from ..core.dispatch.checks import MISTAKES, as_of, coerce
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import BOOLEAN, INTEGER
from .creation import full
from .masks import nonzero
from .shape import converted, pattern

__all__ = ["where"]


_SCALARS = (bool, int, float, complex)

#: Dtypes that a kernel sees as they are, and the integers that they hold.
_NUMBERS = {
    **dict.fromkeys((dtypes.float32, dtypes.float64), range(-(1 << 24), 1 << 24)),
    **{kind: range(int(np.iinfo(kind).min), int(np.iinfo(kind).max) + 1) for kind in INTEGER},
}
_where: Op = Op(
    "where",
    cpu="index.where",
    cuda="index.where.where",
    broadcasts=True,
    vjp=(
        lambda _g, _y, _mask, _a, _b: None,
        lambda g, _y, mask, _a, _b: where(mask, g, 0),  # type: ignore[has-type]
        lambda g, _y, mask, _a, _b: where(mask, 0, g),  # type: ignore[has-type]
    ),
)
_where_number: Op = Op(
    "where_number",
    cpu="index.where_number",
    cuda="index.where.where_number",
    broadcasts=True,
    vjp=lambda g, _y, mask, _a, *, swapped, **_: (
        None,
        where(mask, 0, g) if swapped else where(mask, g, 0),  # type: ignore[has-type]
    ),
)
_where_into = Op("where_into", cpu="index.where_into", cuda="index.where.where_into", writes=True)


def _is_scalar(value: Any) -> bool:
    return type(value) in _SCALARS or getattr(value, "ndim", None) == 0


@fast_path("condition", "x?", "y?", scalars=False, numbers=True)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Select ``x`` where a condition holds, and ``y`` elsewhere.

    With the condition alone the result is ``nonzero(condition)``.

    Parameters
    ----------
    condition : array_like
        Bool array. Numbers count as True if they are not 0.
    x, y : array_like, optional
        Arrays or scalars. All three operands broadcast.

    Returns
    -------
    ndarray or tuple of ndarray
        New array of the common dtype of `x` and `y`, or the positions.

    Raises
    ------
    ValueError
        The shapes do not broadcast, or only one of `x` and `y` is given.

    Notes
    -----
    The gradient of `x` is g where the condition holds, and that of `y` is g where it does not.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.where(cm.asarray([True, False]), cm.asarray([1.0, 2.0]), 0.0)
    array([1., 0.], device='cpu')
    """
    if x is None and y is None:
        try:
            return nonzero(condition)
        except MISTAKES as error:
            raise as_of("where", error) from None
    if x is None or y is None:
        raise ValueError("where: wants both x and y, or neither")
    if (
        isinstance(condition, ndarray) and condition.dtype == np.bool_
    ):  # the common cases, without the conversions below
        if (
            isinstance(x, ndarray)
            and isinstance(y, ndarray)
            and x._layout.dtype is y._layout.dtype
            and condition.shape == x.shape == y.shape
        ):
            return _where(condition, x, y)
        for a, value, swapped in ((x, y, False), (y, x, True)):
            if (number := _by_value("where", condition, a, value)) is not None:
                return _where_number(condition, a, scalars=(number,), swapped=swapped)
        kind = (
            dtypes.result_type(x, y)
            if type(x) in (int, float) and type(y) in (int, float)
            else None
        )
        if (
            kind is not None
            and _is_own(kind, x)
            and _is_own(kind, y)
            and condition._layout.device != TRACED
        ):
            return _where_number(condition, scalars=(x, y), swapped=False, dtype=kind)
    place = next((a for a in (condition, x, y) if isinstance(a, ndarray)), None)
    mask = coerce("where", (condition,) if place is None else (place, condition))[-1]
    if mask.dtype not in BOOLEAN:
        mask = converted(mask, np.dtype(np.bool_))
    dtype = dtypes.result_type(
        *[
            a
            if type(a) in _SCALARS or hasattr(a, "dtype")
            else asarray(a, device="cpu", name="where")
            for a in (x, y)
        ]
    )
    for a in (x, y):
        if type(a) in _SCALARS:
            pattern("where", a, dtype)  # whether it fits
    operands = [
        full((), a, dtype, device=mask.device)
        if type(a) in _SCALARS
        else converted(coerce("where", (mask, a))[1], dtype)
        for a in (x, y)
    ]
    shapes.broadcast_shapes("where", mask.shape, *[a.shape for a in operands])
    return _where(mask, *operands)


def _is_own(dtype: np.dtype, number: Any) -> bool:
    """Whether an int or a float is a number of a dtype that a kernel sees as it is."""
    held = _NUMBERS.get(dtype)
    return held is not None and (dtype not in INTEGER if type(number) is float else number in held)


def _by_value(name: str, mask: ndarray, x: Any, number: Any) -> float | None:
    """Of an array and a number that its dtype takes as it is: the number as a launch takes it, so
    that no array is made of it (of 16-bit floats on a GPU, its bits). Otherwise None."""
    if (
        not isinstance(x, ndarray)
        or type(number) not in (int, float)
        or x._layout.device == TRACED
        or (x._layout.device != mask._layout.device)
    ):
        return None
    if x._layout.device >= 0 and x.dtype in (dtypes.float16, dtypes.bfloat16):
        number = pattern(name, number, x.dtype)[0] & 0xFFFF
    elif not _is_own(x.dtype, number):
        return None
    shapes.broadcast_shapes("where", mask.shape, x.shape)
    return number
