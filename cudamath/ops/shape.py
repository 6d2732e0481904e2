"""Other shapes, dtypes and orders of the axes, as views where the elements can stay and copies
where they must move.

Views (``reshape`` where strides allow it, transposes, ``broadcast_to``, ``flip``, ``diagonal``,
basic slices) cost no kernel. ``join.py`` has what makes one array from several or several from one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtypes, indexing, shapes
from ..core.array import ndarray, refuse_misaligned
from ..core.devices import TRACED
from ..core.dispatch.call_record import obstruct, open_records, report
from ..core.dispatch.checks import members, refuse_text, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import HELD, Op, ViewOp
from ..core.layout import Layout
from ..core.shapes import normalize_axes, normalize_axis
from ..core.typing import ArrayLike, DeviceLike, DTypeLike
from ..core.user_warnings import warn
from ..core.view_cache import lookup_view

__all__ = [
    "astype",
    "atleast_1d",
    "atleast_2d",
    "broadcast_shapes",
    "broadcast_to",
    "copy",
    "diagonal",
    "expand_dims",
    "flatten",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
]

Axes = int | Sequence[int] | None

_IN_PLACE = tuple([tuple(range(n)) for n in range(65)])  # the axes of an array in their own order

# -------------------- cards


def _reshaped(layout: Layout, *, shape: tuple, old: tuple) -> tuple[Layout, int]:
    strides = shapes.reshape_strides(old, layout.strides, shape, layout.itemsize)
    assert strides is not None
    return layout.view(shape, strides), 0


def _permuted(layout: Layout, *, axes: tuple) -> tuple[Layout, int]:
    return layout.view(
        tuple([layout.shape[i] for i in axes]), tuple([layout.strides[i] for i in axes])
    ), 0


def _repeated(layout: Layout, *, shape: tuple, old: tuple) -> tuple[Layout, int]:
    return layout.view(shape, shapes.broadcast_strides(old, layout.strides, shape)), 0


def _seen(layout: Layout, *, here: tuple, view: tuple, shape: tuple) -> tuple[Layout, int]:
    return layout.view(*here), here[2]


def _inverse(axes: tuple) -> tuple:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def _sum_to(g: ndarray, shape: tuple) -> ndarray:
    """The adjoint of a broadcast: sums over the axes along which ``shape`` was repeated."""
    extra = g.ndim - len(shape)
    repeated = tuple(
        [i for i, n in enumerate(g.shape) if i < extra or shape[i - extra] == 1 and n != 1]
    )
    return reshape(g.sum(axis=repeated), shape) if repeated else g


def _within(x: ndarray, view: tuple) -> ndarray:
    """A view given as (shape, strides, offset) in elements of a contiguous array."""
    x = x if x._layout.contiguous else _copy(x)
    size = x.itemsize
    here = (view[0], tuple([s * size for s in view[1]]), view[2] * size)
    return _window(x, here=here, view=view, shape=x.shape)


_reshape: ViewOp = ViewOp(
    "reshape",
    _reshaped,
    vjp=lambda g, _y, _x, shape, old: (reshape(g, old),),  # type: ignore[has-type]
)
_permute: ViewOp = ViewOp(
    "permute_dims", _permuted, vjp=lambda g, _y, _x, axes: (_permute(g, axes=_inverse(axes)),)
)
_broadcast = ViewOp("broadcast_to", _repeated, vjp=lambda g, _y, _x, shape, old: (_sum_to(g, old),))
# A basic slice, diagonal or flip. here: (shape, strides, offset) in bytes of this layout; view: the
# same in elements of a contiguous array of x's shape, which is where the gradient is written.
_window = ViewOp(
    "getitem", _seen, vjp=lambda g, _y, _x, here, view, shape: (_unview(g, shape=shape, view=view),)
)


def _add_into(total: ndarray, g: ndarray, *, here: tuple, view: tuple, shape: tuple) -> bool:
    """total[view] += g, so that the gradients of many parts of an array cost no pass over the whole
    each."""
    layout = total._layout
    if not layout.contiguous or layout.device == TRACED:
        return False
    places, strides, offset = (
        view[0],
        tuple([s * layout.itemsize for s in view[1]]),
        view[2] * layout.itemsize,
    )
    part = total._view(layout.view(places, strides, offset), offset)
    part += g
    return True


_window.add_into = _add_into
_unview: Op = Op(
    "unview",
    cpu="shape.unview",
    cuda="copy.planners.unview",
    vjp=lambda g, _y, _g, shape, view: (_within(g, view),),
)
_copy = Op("copy", cpu="shape.copy", cuda="copy.planners.copy", vjp=lambda g, _y, _x: (g,))
_cast = Op(
    "astype", cpu="shape.copy", cuda="copy.planners.copy", vjp=lambda g, _y, _x, dtype: (g,)
)  # the tape gives it the dtype of x
_copy_into = Op("copy_into", cpu="shape.copy_into", cuda="copy.planners.copy_into", writes=True)
_fill = Op("fill", cpu="shape.fill", cuda="copy.planners.fill", writes=True)


def span(x: ndarray, axis: int, start: int, stop: int) -> ndarray:
    """Elements start ... stop - 1 along an axis, as a view."""
    return view_of(x, (*[slice(None)] * axis, slice(start, stop)))  # type: ignore[return-value]


def in_memory_order(make: Callable[[ndarray], ndarray], x: ndarray) -> ndarray:
    """What `make` makes of `x`, an array of its shape, with the axes lying in memory as those of
    `x` do: channels last remain channels last."""
    if x._layout.contiguous:
        return make(x)
    order = shapes.axes_by_stride(x.strides)
    back = sorted(range(x.ndim), key=order.__getitem__)
    return permute_dims(make(permute_dims(x, order)), back)


def view_of(x: ndarray, key: Any) -> ndarray | None:
    """``x[key]`` as a view, recorded; None if the key is not basic."""
    found = lookup_view(x._layout, key)
    if found is None:
        return None
    if x._node is None:
        return unrecorded_view(x, *found)
    view = indexing.basic(x.shape, shapes.contiguous_strides(x.shape, 1), key)
    return _window(x, here=(found[0].shape, found[0].strides, found[1]), view=view, shape=x.shape)


def unrecorded_view(x: ndarray, layout: Layout, offset: int = 0) -> ndarray:
    """A view in another layout, through which no gradient goes."""
    out = x._view(layout, offset)
    if open_records:
        report(_window, (x,), (), {}, None, out)
    return out


def bits(value: Any, dtype: np.dtype) -> tuple[int, int]:
    """The 16 bytes that repeat in memory filled with ``value``, as two integers of 8 bytes: the
    scalars of a fill."""
    element = np.array(value, dtype).reshape(1)
    pattern = np.tile(element, 16 // element.itemsize).view(np.uint64)
    return int(pattern[0]), int(pattern[1])


@functools.lru_cache(maxsize=256, typed=True)
def _known_pattern(value: Any, dtype: np.dtype) -> tuple[int, int]:
    return bits(value, dtype)


def pattern(name: str, value: Any, dtype: np.dtype) -> tuple[int, int]:
    """`bits` of a Python scalar, remembered; but where there are zeros with signs: -0.0 equals 0.0
    and has other bits."""
    try:
        if type(value) is not complex and (value or type(value) is not float):
            return _known_pattern(value, dtype)
        return (
            (0, 0) if type(value) is float and math.copysign(1.0, value) > 0 else bits(value, dtype)
        )
    except (OverflowError, TypeError, ValueError) as error:
        raise type(error)(f"{name}: {value!r} as {dtype}: {error}") from None


# -------------------- copies and casts


def as_new(x: ndarray) -> ndarray:
    """A view of all of an array that nobody else has, as an array of its own."""
    x._base = None
    return x


def in_order(name: str, x: ndarray, order: str | None, *, copy: bool = False) -> ndarray:
    """``x`` in NumPy's `order` ("C", "F", "A": F if it is so already, else C; "K": the axes as they
    lie); a copy where it must be. None: as it is, and a copy in C order."""
    letter = shapes.order_letter(name, order, "K")
    if letter == "K":
        if not copy:
            return x
        axes = _IN_PLACE[x.ndim] if order is None else shapes.axes_in_copy(x.shape, x.strides)
        if axes == _IN_PLACE[x.ndim]:
            return _copy(x)
        return as_new(permute_dims(_copy(permute_dims(x, axes)), _inverse(axes)))
    turned = shapes.is_contiguous(x.shape[::-1], x.strides[::-1], x.itemsize)
    if letter == "F" or letter == "A" and turned and not x._layout.contiguous:
        return x if turned and not copy else as_new(transpose(_copy(transpose(x))))
    return _copy(x) if copy or not x._layout.contiguous else x


@fast_path("x", rare=("subok",), scalars=False)
def copy(x: ArrayLike, /, order: str | None = "K", subok: bool = False) -> ndarray:
    """A copy of ``x`` without gaps.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    order : str or None, default "K"
        Memory layout of the copy: "C", "F" (Fortran's order), "A" (Fortran's order where ``x`` has
        it, otherwise C order), or "K" and None (the axes in the order in which they lie in ``x``).
    subok : bool, default False
        Accepted for compatibility with NumPy. There are no subclasses.

    Returns
    -------
    ndarray
        New array of the same shape, dtype and device.

    Notes
    -----
    The gradient passes through unchanged.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.asarray([1, 2, 3])
    >>> y = cm.copy(x)
    >>> y[0] = 9
    >>> x
    array([1, 2, 3], device='cpu')
    """
    return in_order("copy", require("copy", x, HELD), order or "K", copy=True)


def _copied(x: ndarray, order: str | None = "C") -> ndarray:
    """Return a copy of the array.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    order : str or None, default "C"
        Memory layout of the copy, as for `cm.copy`. None is "C".

    Returns
    -------
    ndarray
        New array of the same shape, dtype and device.
    """
    return in_order("copy", x, order or "C", copy=True)


_copied.__name__ = _copied.__qualname__ = "copy"  # the method's, which errors show
copied = fast_path("x", scalars=False)(_copied)


@fast_path("x", rare=("subok",), scalars=False)
def astype(
    x: ArrayLike,
    /,
    dtype: DTypeLike,
    order: str | None = None,
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
    *,
    device: DeviceLike | None = None,
) -> ndarray:
    """Convert the elements of ``x`` to ``dtype``.

    Floats become integers by truncation, numbers become bool by ``!= 0``, complex numbers become
    real by dropping the imaginary part. Values that the new type cannot hold are undefined, as in
    C.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    dtype : dtype_like
        Dtype of the result.
    order : str, optional
        Memory layout of the result, as for ``copy``.
    casting : str, default "unsafe"
        NumPy's casting rule ("safe", "same_kind", ...). Conversions that the rule does not allow
        raise TypeError.
    subok : bool, default True
        Accepted for compatibility with NumPy. There are no subclasses.
    copy : bool, default True
        Whether the result is always a copy. False returns ``x`` itself if it has the dtype already.
    device : device_like, optional
        Device of the result. The default is x's device.

    Returns
    -------
    ndarray
        Array of the new dtype.

    Raises
    ------
    TypeError
        Arrays cannot have the dtype, or `casting` does not allow the conversion.

    Notes
    -----
    The gradient is cast back, for floating-point and complex ``x``.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.astype(cm.asarray([0.5, 1.9, -1.9]), "int32")
    array([ 0,  1, -1], dtype=int32, device='cpu')
    """
    x = require("astype", x, HELD)
    if device is not None:
        x = x.to(device)
    wanted = dtypes.own_order(dtype, "astype")
    if casting != "unsafe":
        from .dtype_info import can_cast
        from .out_argument import casting_rule

        if not can_cast(x.dtype, wanted, casting_rule("astype", casting)):
            raise TypeError(f"astype: {x.dtype} cannot become {wanted} by the rule {casting!r}")
    if wanted == x.dtype:
        return in_order("astype", x, order, copy=copy)
    if x.dtype in dtypes.COMPLEX and wanted in dtypes.REAL:
        warn(
            f"astype: {wanted} discards the imaginary part of {x.dtype}",
            np.exceptions.ComplexWarning,
        )
    return in_order("astype", _cast_as_it_lies(x, wanted), order)


def converted(x: ndarray, dtype: np.dtype) -> ndarray:
    """x in another dtype as an operand, repeated along the axes along which it was: these say
    nothing of the order of the result in memory."""
    if x._layout.dtype == dtype:
        return x
    if 0 not in x.strides or not x.size:
        return astype(x, dtype)
    once: Any = view_of(x, tuple([slice(None) if step else slice(0, 1) for step in x.strides]))
    return broadcast_to(astype(once, dtype), x.shape)


def _cast_as_it_lies(x: ndarray, dtype: np.dtype) -> ndarray:
    """x converted; the axes of the result lie as a copy's of order "K"."""
    if not x._layout.contiguous:
        axes = shapes.axes_in_copy(x.shape, x.strides)
        if axes != _IN_PLACE[x.ndim]:
            return as_new(permute_dims(_cast(permute_dims(x, axes), dtype=dtype), _inverse(axes)))
    return _cast(x, dtype=dtype)


@fast_path("x", scalars=False)
def view(x: ndarray, dtype: DTypeLike | None = None, type: Any = None) -> ndarray:
    """Return the same bytes read as another dtype (`x.view("int32")`).

    Without a dtype the result is another array object over the same elements.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    dtype : dtype_like, optional
        Dtype of the result. A dtype of another size divides or multiplies the length of the last
        axis, whose elements must be adjacent in memory.
    type : type, optional
        Accepted for compatibility with NumPy. There are no subclasses.

    Returns
    -------
    ndarray
        View of the bytes.

    Raises
    ------
    ValueError
        The sizes do not fit, or, on a GPU, the address is not a multiple of the new size.
    TypeError
        The argument is not a dtype.
    RuntimeError
        A gradient is being recorded, and bits have no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.asarray([1.0], dtype="float32").view("int32").tolist()
    [1065353216]
    """
    if dtype is None or dtype is ndarray:  # the class, as NumPy's `type`: there is but one
        return view_of(x, ...)  # type: ignore[return-value]
    if isinstance(dtype, int | tuple):  # PyTorch's view is another function
        raise TypeError(
            f"view: {dtype!r} is not a dtype as which the bytes of {x.dtype} of shape {x.shape} "
            "can be read; reshape gives another shape"
        )
    wanted = dtypes.as_dtype(dtype, "view")
    if dtypes.is_swapped(dtype):
        raise TypeError(
            f"view: arrays are in the machine's byte order, got {dtype!r} for {x.dtype} of shape "
            f"{x.shape}"
        )
    if x._node is not None:
        raise RuntimeError(
            f"view: the gradient of an array of shape {x.shape} is being recorded; its bits have "
            "none"
        )
    layout, old, new = x._layout, x.itemsize, wanted.itemsize
    shape, strides = layout.shape, layout.strides
    if old != new:
        if not shape or strides[-1] != old and shape[-1] > 1 and x.size or shape[-1] * old % new:
            raise ValueError(
                f"view: {x.dtype} of shape {shape} and strides {strides} cannot be read as "
                f"{wanted}: the last "
                "axis must be contiguous and its bytes divisible"
            )
        if any([s % new for s, n in zip(strides[:-1], shape[:-1], strict=True) if n > 1]):
            raise ValueError(
                f"view: strides {strides} are not divisible by the {new} bytes of {wanted}"
            )
        shape = (*shape[:-1], shape[-1] * old // new)
        strides = (*strides[:-1], new) if x.size else shapes.contiguous_strides(shape, new)
    y = unrecorded_view(x, layout.view(shape, strides, 0, wanted))
    if layout.device == TRACED and wanted != x.dtype:
        raise TypeError(  # its Symbol would be taken for a value of that dtype
            f"fuse: what is fused has no bytes to view; it saw {x.dtype} of shape {x.shape} "
            f"as {y.dtype}"
        )
    if layout.device >= 0 and new > old and not layout.aligned:
        obstruct("looked at an address")
        refuse_misaligned("view", y._layout, y._data)
    return y


# -------------------- new shapes


@fast_path("x", scalars=False)
def reshape(
    x: Any, /, shape: int | Sequence[int], order: str = "C", *, copy: bool | None = None
) -> ndarray:
    """Return the elements of ``x`` in another shape.

    The result is a view where the strides of ``x`` allow it.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    shape : int or sequence of int
        Shape of the result. One of the lengths may be -1 and follows from the others.
    order : str, default "C"
        Order in which the elements are read and written: "C" (last axis fastest), "F" (first axis
        fastest) or "A" (as they lie in memory).
    copy : bool, optional
        True always copies. False raises ValueError instead of copying.

    Returns
    -------
    ndarray
        View or copy of the elements.

    Raises
    ------
    ValueError
        The number of elements differs.

    Notes
    -----
    The gradient is g in the old shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.reshape(cm.arange(6), (2, -1))
    array([[0, 1, 2],
           [3, 4, 5]], device='cpu')
    """
    x = require("reshape", x, HELD)
    refuse_text("reshape", copy)
    layout = x._layout
    new = shapes.resolve_shape("reshape", layout.size, shapes.sizes_of("reshape", shape))
    if order != "C" and _by_columns("reshape", x, order):
        return transpose(reshape(transpose(x), new[::-1], copy=copy))
    if not layout.contiguous and shapes.reshape_strides(layout.shape, layout.strides, new) is None:
        if copy is False:
            raise ValueError(
                f"reshape: {layout.shape} with strides {layout.strides} cannot become {new} as a "
                "view"
            )
        x = _copy(x)
    elif copy:
        x = _copy(x)
    return _reshape(x, shape=new, old=layout.shape)


def _as_read(name: str, x: ndarray, order: str) -> ndarray:
    """``x`` with its axes in the order in which they are read: "K": as they lie in memory."""
    order = shapes.order_letter(name, order, "C")
    if order == "K":
        return permute_dims(x, shapes.axes_as_read(x.shape, x.strides))
    return transpose(x) if _by_columns(name, x, order) else x


def _by_columns(name: str, x: ndarray, order: str) -> bool:
    """Whether an order reads the first axis fastest."""
    order = shapes.order_letter(name, order, "C", "CFA")
    if order == "F":
        return True
    return (
        order != "C"
        and not x._layout.contiguous
        and shapes.is_contiguous(x.shape[::-1], x.strides[::-1], x.itemsize)
    )


@fast_path("x", scalars=False)
def ravel(x: ArrayLike, /, order: str = "C") -> ndarray:
    """Flatten ``x`` to one dimension; a view if ``x`` is contiguous.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    order : str, default "C"
        Order in which the elements are read: "C", "F", "A" (as for `reshape`) or "K" (as in
        memory).

    Returns
    -------
    ndarray
        Array of shape ``(x.size,)``.

    Notes
    -----
    The gradient is g in the old shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ravel(cm.asarray([[1, 2], [3, 4]]))
    array([1, 2, 3, 4], device='cpu')
    """
    x = _as_read("ravel", require("ravel", x, HELD), order)
    return _reshape(x if x._layout.contiguous else _copy(x), shape=(x.size,), old=x.shape)


@fast_path("x", scalars=False)
def flatten(x: ArrayLike, /, order: str = "C") -> ndarray:
    """A copy of ``x`` in one dimension.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    order : str, default "C"
        Order in which the elements are read: "C", "F", "A" (as for `reshape`) or "K" (as in
        memory).

    Returns
    -------
    ndarray
        New array of shape ``(x.size,)``.

    Notes
    -----
    The gradient is g in the old shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.flatten(cm.asarray([[1, 2], [3, 4]]))
    array([1, 2, 3, 4], device='cpu')
    """
    x = require("flatten", x, HELD)
    return ravel(_copy(_as_read("flatten", x, order)))


@fast_path("x", scalars=False)
def expand_dims(x: ArrayLike, /, axis: int | Sequence[int] = 0) -> ndarray:
    """A view with new axes of size 1 at the given positions of the result.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axis : int or sequence of int, default 0
        Position or positions of the new axes in the result.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        An axis is out of bounds or occurs twice.

    Notes
    -----
    The gradient is g in the old shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.expand_dims(cm.zeros((2, 3)), axis=1).shape
    (2, 1, 3)
    """
    x = require("expand_dims", x, HELD)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    new = set(normalize_axes("expand_dims", axes, x.ndim + len(axes)))
    sizes = iter(x.shape)
    return _reshape(
        x,
        shape=tuple([1 if i in new else next(sizes) for i in range(x.ndim + len(axes))]),
        old=x.shape,
    )


@fast_path("x", scalars=False)
def squeeze(x: ArrayLike, /, axis: Axes = None) -> ndarray:
    """A view without axes of size 1: the given ones, or all.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        A given axis does not have size 1.

    Notes
    -----
    The gradient is g in the old shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.squeeze(cm.zeros((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    x = require("squeeze", x, HELD)
    if axis is None or not x.ndim and type(axis) is int and axis in (0, -1):  # as in NumPy
        gone = {i for i, n in enumerate(x.shape) if n == 1}
    else:
        gone = set(normalize_axes("squeeze", axis, x.ndim))
        if any(x.shape[i] != 1 for i in gone):
            raise ValueError(
                f"squeeze: axes {sorted(gone)} of shape {x.shape} are not all of size 1"
            )
    return _reshape(
        x, shape=tuple([n for i, n in enumerate(x.shape) if i not in gone]), old=x.shape
    )


@fast_path("*arrays", scalars=False)
def atleast_1d(*arrays: ArrayLike) -> Any:
    """Each array with at least one dimension: a number as (1,).

    Parameters
    ----------
    *arrays : array_like
        Arrays of any shape and dtype.

    Returns
    -------
    ndarray or tuple of ndarray
        A view, or the array itself. Several arrays give a tuple.

    Notes
    -----
    The gradient is g in the old shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.atleast_1d(cm.asarray(3.0)).shape
    (1,)
    """
    out = tuple(
        [reshape(x, (1,)) if x.ndim == 0 else x for x in (require("atleast_1d", a) for a in arrays)]
    )
    return out[0] if len(out) == 1 else out


@fast_path("*arrays", scalars=False)
def atleast_2d(*arrays: ArrayLike) -> Any:
    """Each array with at least two dimensions, new ones in front.

    Parameters
    ----------
    *arrays : array_like
        Arrays of any shape and dtype.

    Returns
    -------
    ndarray or tuple of ndarray
        A view, or the array itself. Several arrays give a tuple.

    Notes
    -----
    The gradient is g in the old shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.atleast_2d(cm.zeros(3)).shape
    (1, 3)
    """
    out = tuple(
        [
            _reshape(x, shape=(1,) * (2 - x.ndim) + x.shape, old=x.shape) if x.ndim < 2 else x
            for x in (require("atleast_2d", a) for a in arrays)
        ]
    )
    return out[0] if len(out) == 1 else out


# -------------------- order of axes


@fast_path("x", scalars=False)
def permute_dims(x: ArrayLike, /, axes: Sequence[int] | None = None) -> ndarray:
    """A view with the axes in another order: axis i of the result is axis ``axes[i]`` of ``x``.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axes : sequence of int
        Order of the axes, each axis once.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        An axis is missing, out of bounds or occurs twice.

    Notes
    -----
    The gradient is permuted back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.permute_dims(cm.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return _permuted_by("permute_dims", require("permute_dims", x, HELD), axes)


@fast_path("x", scalars=False)
def transpose(x: ArrayLike, /, axes: Sequence[int] | None = None) -> ndarray:
    """A view with the axes reversed, or in the order ``axes``.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axes : sequence of int, optional
        Order of the axes, each axis once. None reverses them.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        An axis is missing, out of bounds or occurs twice.

    Notes
    -----
    The gradient is permuted back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.transpose(cm.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    x = require("transpose", x, HELD)
    return _permuted_by("transpose", x, axes)


def _permuted_by(name: str, x: ndarray, axes: Sequence[int] | int | None) -> ndarray:
    if axes is None:
        return _permute(x, axes=tuple(range(x.ndim - 1, -1, -1)))
    given = (axes,) if hasattr(axes, "__index__") and not np.ndim(axes) else axes
    order = normalize_axes(name, members(name, given, "axes"), x.ndim)
    if len(order) != x.ndim:
        raise ValueError(
            f"{name}: axes {order} do not name each of the {x.ndim} axes of shape {x.shape}"
        )
    return _permute(x, axes=order)


@fast_path("x", scalars=False)
def matrix_transpose(x: ArrayLike, /) -> ndarray:
    """View with the last two axes exchanged.

    Parameters
    ----------
    x : array_like
        Array of at least.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        The array has fewer dimensions.

    Notes
    -----
    The gradient is transposed.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.matrix_transpose(cm.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = require("matrix_transpose", x, HELD)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: wants at least 2 dimensions, got shape {x.shape}")
    return _permute(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@fast_path("x", scalars=False)
def swapaxes(x: ArrayLike, /, axis1: int, axis2: int) -> ndarray:
    """A view with two axes exchanged.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axis1, axis2 : int
        The two axes.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        An axis is out of bounds.

    Notes
    -----
    The axes of the gradient are exchanged back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.swapaxes(cm.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = require("swapaxes", x, HELD)
    i, j = normalize_axis("swapaxes", axis1, x.ndim), normalize_axis("swapaxes", axis2, x.ndim)
    axes = list(range(x.ndim))
    axes[i], axes[j] = axes[j], axes[i]
    return _permute(x, axes=tuple(axes))


@fast_path("x", scalars=False)
def moveaxis(
    x: ArrayLike, /, source: int | Sequence[int], destination: int | Sequence[int]
) -> ndarray:
    """A view with some axes moved to other positions; the others keep their order.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    source, destination : int or sequence of int
        Present and new positions of the axes, one or several, equally many of both.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        The numbers of axes differ, or an axis is out of bounds or occurs twice.

    Notes
    -----
    The gradient is moved back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.moveaxis(cm.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = require("moveaxis", x, HELD)
    here, there = (
        normalize_axes("moveaxis", source, x.ndim),
        normalize_axes("moveaxis", destination, x.ndim),
    )
    if len(here) != len(there):
        raise ValueError(
            f"moveaxis: source {source} and destination {destination} are not equally many"
        )
    order = [i for i in range(x.ndim) if i not in here]
    for to, axis in sorted(zip(there, here, strict=True)):
        order.insert(to, axis)
    return _permute(x, axes=tuple(order))


@fast_path("x", scalars=False)
def flip(x: ArrayLike, /, axis: Axes = None) -> ndarray:
    """A view with the elements in reverse order along the given axes, or all.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        The axis is out of bounds.

    Notes
    -----
    The gradient is flipped back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.flip(cm.asarray([1, 2, 3]))
    array([3, 2, 1], device='cpu')
    """
    x = require("flip", x, HELD)
    axes = normalize_axes("flip", axis, x.ndim)
    return view_of(x, tuple([slice(None, None, -1 if i in axes else 1) for i in range(x.ndim)]))  # type: ignore


@fast_path("x", scalars=False)
def diagonal(x: ArrayLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> ndarray:
    """A view of the diagonals of the planes of two axes, as the last axis of the result.

    Parameters
    ----------
    x : array_like
        Array of at least.
    offset : int, default 0
        Number of the diagonal, > 0 above and < 0 below the main diagonal.
    axis1 : int, default 0
        Axes of the rows and of the columns.
    axis2 : int, default 1
        Axes of the rows and of the columns.

    Returns
    -------
    ndarray
        View of the diagonals.

    Raises
    ------
    ValueError
        ``x`` has fewer than 2 dimensions, or the axes are equal or out of bounds.

    Notes
    -----
    The gradient is 0 except on the diagonal, where it is g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.diagonal(cm.asarray([[1, 2], [3, 4]]))
    array([1, 4], device='cpu')
    """
    x, offset = require("diagonal", x), shapes.as_integer("diagonal", "offset", offset)
    if x.ndim < 2:
        raise ValueError(f"diagonal: wants at least 2 dimensions, got shape {x.shape}")
    rows, columns = normalize_axes("diagonal", (axis1, axis2), x.ndim)

    def along(strides: tuple) -> tuple[tuple, tuple, int]:
        start = offset * strides[columns] if offset >= 0 else -offset * strides[rows]
        size = max(0, min(x.shape[rows] - max(-offset, 0), x.shape[columns] - max(offset, 0)))
        rest = [i for i in range(x.ndim) if i not in (rows, columns)]
        shape = (*[x.shape[i] for i in rest], size)
        return (
            shape,
            (*[strides[i] for i in rest], strides[rows] + strides[columns]),
            start if 0 not in shape else 0,
        )

    return _window(
        x, here=along(x.strides), view=along(shapes.contiguous_strides(x.shape, 1)), shape=x.shape
    )


# -------------------- broadcasting


def broadcast_shapes(*shape: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    Parameters
    ----------
    *shape : sequence of int
        Shapes, each a tuple of int or an int.

    Returns
    -------
    tuple of int
        Lengths of the dimensions.

    Raises
    ------
    ValueError
        The shapes do not broadcast.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return shapes.broadcast_shapes(
        "broadcast_shapes", *[shapes.normalize_shape("broadcast_shapes", s) for s in shape]
    )


@fast_path("x", rare=("subok",), scalars=False)
def broadcast_to(x: ArrayLike, /, shape: int | Sequence[int], subok: bool = False) -> ndarray:
    """A view of ``x`` repeated to ``shape``; it cannot be written to.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    shape : int or sequence of int
        Shape of the result, to which ``x.shape`` broadcasts.
    subok : bool, default False
        Accepted for compatibility with NumPy. There are no subclasses.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        ``x.shape`` does not broadcast to the shape.

    Notes
    -----
    The gradient is summed over the repeated axes.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.broadcast_to(cm.asarray([1, 2]), (2, 2))
    array([[1, 2],
           [1, 2]], device='cpu')
    """
    x = require("broadcast_to", x, HELD)
    return _broadcast_as("broadcast_to", x, shapes.normalize_shape("broadcast_to", shape))


@fast_path("x", scalars=False)
def turned(x: ndarray) -> ndarray:
    """View with the axes reversed."""
    return transpose(x)


@fast_path("x", scalars=False)
def reshaped(x: ndarray, *shape: Any, order: str = "C", copy: bool | None = None) -> ndarray:
    """Return the elements in another shape: x.reshape(2, 3) or x.reshape((2, 3)).

    One length may be -1 and follows from the others.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    *shape : int or sequence of int
        Shape of the result.
    order : str, default "C"
        Memory layout, "C", "F", "A" or "K".
    copy : bool, optional
        Whether the result is always a copy.

    Returns
    -------
    ndarray
        View or copy of the elements.
    """
    return reshape(x, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def _broadcast_as(name: str, x: ndarray, shape: tuple) -> ndarray:
    extra = len(shape) - x.ndim
    if extra < 0 or any(n not in (1, to) for n, to in zip(x.shape, shape[extra:], strict=True)):
        raise ValueError(f"{name}: an array of shape {x.shape} cannot be broadcast to {shape}")
    return _broadcast(x, shape=shape, old=x.shape)
