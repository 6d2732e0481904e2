"""Evenly spaced numbers: arange, linspace."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.asarray import upload
from ..core.devices import index_of
from ..core.dispatch.checks import as_numbers, coerce
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import BOOLEAN, COMPLEX, FLOATING, STORAGE
from ..core.layout import Layout
from ..core.shapes import as_integer, broadcast_shapes, normalize_axis
from ..core.typing import DeviceLike, DTypeLike
from .creation import _allocated, _beside, _ramp
from .shape import astype, broadcast_to, moveaxis, reshape

__all__ = ["arange", "linspace"]


@fast_path(rare=("like",))
def arange(
    start: Any = None,
    stop: Any = None,
    step: Any = 1,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    like: ndarray | None = None,
) -> ndarray:
    """Evenly spaced numbers: start, start + step, ... below ``stop``.

    Parameters
    ----------
    start : array_like
        First number. If it is the only one given, it is `stop`, and the first number is 0.
    stop : array_like, optional
        End of the interval. The interval does not include it.
    step : array_like, default 1
        Distance between two neighbours, not 0.
    dtype : dtype_like, optional
        Dtype of the result. The default is int64 for integers and the default float otherwise.
    device : device_like, optional
        Device of the result. The default is the default device.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Array of shape ``(ceil((stop - start) / step),)``, or ``(0,)``.

    Raises
    ------
    ValueError
        The length is not finite.
    ZeroDivisionError
        `step` is 0.
    TypeError
        The dtype is bool and there are more than two numbers, or complex numbers have a real dtype.
    OverflowError
        The dtype does not hold one of the first integers (later ones wrap around if a dtype is
        given).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.arange(2, 8, 2)
    array([2, 4, 6], device='cpu')
    """
    device = _beside("arange", like, device)
    given = start, stop, step
    if start is None:
        if stop is None:
            raise TypeError("arange: requires stop to be specified, got no numbers")
        start = 0
    first, last = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    if not first.__class__ is last.__class__ is step.__class__ is int:
        first, last, step = as_numbers("arange", "numbers", first, last, step)
    whole = isinstance(first, int) and isinstance(last, int) and isinstance(step, int)
    if dtype is None:
        kind = dtypes.result_type(first, last, step)
        if whole:  # uint64 and the int64 of other integers meet in float64
            wide = any([getattr(x, "dtype", None) == np.uint64 for x in given])
            kind = dtypes.default_float() if wide else np.dtype(np.int64)
    else:
        kind = dtypes.as_dtype(dtype, "arange")
    if kind in STORAGE:
        raise TypeError(f"arange: wants a numeric dtype, got {kind}")
    if step == 0:
        raise ZeroDivisionError("arange: step must not be 0")
    span = (last - first) / step
    if not cmath.isfinite(span):
        raise ValueError(f"arange: from {first} to {last} by {step} is no finite number of steps")
    if whole:
        size = max(0, -((first - last) // step))
    elif isinstance(span, complex):  # NumPy's rule: as far as both parts go
        size = max(0, min(math.ceil(span.real), math.ceil(span.imag)))
    else:
        size = max(0, math.ceil(span))
    layout = Layout.new((size,), kind, index_of(device))
    if not size:
        return _allocated(layout)
    if kind in COMPLEX:
        part = dtypes.real_dtype(kind)
        numbers = arange(size, dtype=part, device=device)
        return astype(numbers, kind) * complex(step) + complex(first)
    if isinstance(span, complex):
        raise TypeError(f"arange: complex numbers do not fit into {kind}")
    if kind in BOOLEAN:
        if size > 2:
            raise TypeError(f"arange: bool has no {size} numbers at equal distances")
        return upload(np.array([bool(first), bool(first + step)][:size]), layout.device)
    if (
        kind in FLOATING
    ):  # the step as it is between the first two elements, rounded as they are: NumPy's rule
        T = dtypes.compute_dtype(kind).type
        begin = T(kind.type(first))
        step = float(T(kind.type(first + step)) - begin)
        first = float(begin)
    else:
        begin = int(first)
        first, step = begin, int(first + step) - begin
        low, high = _RANGE[kind]
        if not low <= begin <= high or (
            dtype is None and not low <= begin + (size - 1) * step <= high
        ):
            raise OverflowError(f"arange: from {begin} to {last} does not fit into {kind}")
    return made_of(_ramp, layout, (first, step, first), count=size)


def made_of(op: Op, layout: Layout, scalars: tuple, *_: Any, **params: Any) -> Any:
    """A new array that a card makes of numbers alone: of a ramp start, step, and what is in the
    place of those from `count` on."""
    return op(scalars=scalars, layout=layout, device=layout.device, **params)


_RANGE = {kind: (int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in dtypes.INTEGER}


def recorded(*values: Any) -> bool:
    """Whether a gradient is recorded for one of these: then they are no mere numbers."""
    return any([getattr(value, "_node", None) is not None for value in values])


@fast_path()
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: DeviceLike | None = None,
) -> Any:
    """Return ``num`` evenly spaced numbers from ``start`` to ``stop``.

    Out[i] = start + i * (stop - start) / (num - 1), and the last one is exactly ``stop``. Without
    ``endpoint`` the division is by ``num``, and ``stop`` is not included.

    Parameters
    ----------
    start, stop : array_like
        First and last number. Arrays broadcast and give one sequence for each element.
    num : int, default 50
        Number of elements, >= 0.
    endpoint : bool, default True
        Whether the sequence includes ``stop``.
    retstep : bool, default False
        Whether the result is the pair (array, step).
    dtype : dtype_like, optional
        Dtype of the result. The default is the default float (complex if an end is complex).
    axis : int, default 0
        Axis of the result along which the sequences lie if the ends are arrays.
    device : device_like, optional
        Device of the result. The default is the default device.

    Returns
    -------
    ndarray or tuple
        The numbers, or with `retstep` the pair (array, step).

    Raises
    ------
    ValueError
        `num` is negative.
    TypeError
        `num` is not an integer, or an end is complex and the dtype is real.

    Notes
    -----
    With respect to arrays, the gradient follows from those of the operations inside.

    Accuracy: computed in the dtype itself (float32 for 16-bit floats).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linspace(0, 1, 5)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ], device='cpu')
    """
    num = as_integer("linspace", "num", num, 0)
    steps = num - 1 if endpoint else num
    if np.ndim(start) or np.ndim(stop) or recorded(start, stop):
        ends = first, last = coerce("linspace", (start, stop))  # Python's numbers widen no array
        kinds = [
            x if type(x) in (bool, int, float, complex) else end
            for x, end in zip((start, stop), ends, strict=True)
        ]
        return _rows_between(
            first, last, dtypes.result_type(*kinds), num, endpoint, retstep, dtype, axis
        )
    first, last = as_numbers("linspace", "numbers", start, stop)
    if dtype is None:
        kind = dtypes.result_type(
            start if hasattr(start, "dtype") else first, stop if hasattr(stop, "dtype") else last
        )
        dtype = dtypes.default_float() if kind.kind in "biu" else kind
    out = _between(first, last, num, endpoint, dtype, index_of(device))
    if not retstep:
        return out
    step = (last - first) / steps if steps > 0 else math.nan
    return out, np.complex128(step) if isinstance(step, complex) else np.float64(step)


def _rows_between(
    start: ndarray,
    stop: ndarray,
    kind: np.dtype,
    num: int,
    endpoint: bool,
    retstep: bool,
    dtype: Any,
    axis: int,
) -> Any:
    """`linspace` of arrays; kind: what they are promoted to."""
    from .elementwise import floor
    from .where import where

    kind = dtypes.default_float() if kind.kind in "biu" else kind
    start, stop = astype(start, kind), astype(stop, kind)
    broadcast_shapes("linspace", start.shape, stop.shape)
    steps = num - 1 if endpoint else num
    step = (stop - start) / (steps if steps > 0 else math.nan)
    axis = normalize_axis("linspace", axis, step.ndim + 1)
    at = reshape(
        arange(num, dtype=dtypes.real_dtype(kind), device=start.device), (num, *[1] * step.ndim)
    )
    # a step too small for the dtype is 0: the positions are divided instead, as NumPy does
    moved = where(step == 0, at / max(steps, 1) * (stop - start), step * at)
    out = start + moved if steps > 0 else broadcast_to(start, step.shape) + at * 0
    out = moveaxis(where(at == num - 1, stop, out) if endpoint and num > 1 else out, 0, axis)
    wanted = (
        kind if dtype is None else dtypes.as_dtype(dtype, "linspace")
    )  # whole numbers: towards minus infinity, as NumPy's
    out = astype(
        floor(out) if wanted.kind in "iu" and kind.kind == "f" else out, wanted, copy=False
    )
    return (out, step if steps > 0 else math.nan) if retstep else out


def _between(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, index: int) -> ndarray:
    """`linspace` of numbers."""
    kind = dtypes.as_dtype(dtype, "linspace")
    if kind not in FLOATING or complex in (type(start), type(stop)):  # rare and short: NumPy's
        return upload(np.linspace(start, stop, num, dtype=kind, endpoint=endpoint), index)
    layout = Layout.new((num,), kind, index)
    if not num:
        return _allocated(layout)
    steps = num - 1 if endpoint else num
    step = (stop - start) / steps if steps else 0.0
    if start != stop and abs(step) < np.finfo(dtypes.compute_dtype(kind)).tiny:
        # the step has lost digits, or is 0: NumPy divides first, in float64
        return upload(np.linspace(start, stop, num, dtype=kind, endpoint=endpoint), index)
    count = num - 1 if endpoint and num > 1 else num
    return made_of(_ramp, layout, (float(start), float(step), float(stop)), count=count)
