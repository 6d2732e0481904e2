"""Creation: arrays from other objects, filled arrays, ranges and triangles.

On a GPU an array is made there by one kernel (a fill, a ramp); nothing crosses the bus but what
comes from the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import array as core
from ..core import asarray as core_asarray
from ..core import devices, dtypes
from ..core.array import ndarray
from ..core.autograd import constants
from ..core.devices import TRACED, default_index, index_of
from ..core.dispatch.call_record import open_records, report
from ..core.dispatch.checks import refuse_text, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.fp_errors import silence
from ..core.layout import Layout
from ..core.scalar import Scalar
from ..core.shapes import MOST_AXES, as_integer, axes_in_copy, normalize_shape, order_letter
from ..core.typing import ArrayLike, DeviceLike, DTypeLike, SupportsDLPack
from ..core.user_warnings import warn
from ..runtime.errors import DeviceError
from .shape import (
    _broadcast_as,
    _copy,
    _fill,
    _inverse,
    as_new,
    astype,
    broadcast_to,
    in_order,
    pattern,
    permute_dims,
    reshape,
    transpose,
)

__all__ = [
    "array",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "identity",
    "ones",
    "ones_like",
    "tri",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | Sequence[int]

_ramp, _full = (
    Op("ramp", cpu="shape.ramp", cuda="copy.planners.ramp"),
    Op("full", cpu="shape.full", cuda="copy.planners.full"),
)
_ones_band = Op("eye", cpu="triangles.ones", cuda="shape.triangles.ones")
_band: Op = Op(
    "tril",
    cpu="triangles.band",
    cuda="shape.triangles.band",
    vjp=lambda g, _y, _x, low, high: (
        _band(g if g._layout.contiguous else _copy(g), low=low, high=high),
    ),
)
_LARGEST = (1 << 63) - 1  # integer of int64
_FAR = 1 << 40  # further than any diagonal

# -------------------- from objects


def asarray(
    obj: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """Make an array from any object.

    The object is a NumPy array, a scalar, nested lists, or an array of another library on the CPU
    or a GPU.

    Parameters
    ----------
    obj : array_like
        Object with DLPack, ``__cuda_array_interface__`` or one of NumPy's protocols, or nested
        sequences of numbers.
    dtype : dtype_like, optional
        Dtype of the result. The default is the object's own dtype.
    order : str, optional
        Memory layout of the result: "C", "F", "A" (Fortran's order where the object has it,
        otherwise C order), or "K" and None (as it is). The data are copied if they have another
        one.
    device : device_like, optional
        Device of the result: "cpu", "cuda:1", .... By default an array on a GPU stays there, and
        other data go to the default device.
    copy : bool, optional
        True always copies. None copies only if `dtype`, `order` or `device` requires it. False
        raises ValueError instead of copying.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    TypeError
        The object does not consist of numbers.

    Notes
    -----
    The gradient passes through unchanged.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.asarray([[1, 2], [3, 4]], dtype="float32")
    array([[1., 2.],
           [3., 4.]], dtype=float32, device='cpu')
    """
    if like is not None:
        device = _beside("asarray", like, device)
    if (
        type(obj) in (bool, float) and dtype is order is None and copy is not False
    ):  # one launch; to copy it there takes longer
        index = default_index() if device is None else index_of(device)
        if index >= 0:
            return full((), obj, device=device)
    return _made("asarray", obj, dtype, order, device, copy)


def _made(
    name: str, obj: Any, dtype: Any, order: str | None, device: Any, copy: bool | None
) -> ndarray:
    """An array from any object, in an order of NumPy's. A scalar is copied: nothing may write into
    it."""
    refuse_text(name, copy)
    if isinstance(obj, Scalar):
        if copy is False:
            raise ValueError(
                f"{name}: a scalar of {obj.dtype} cannot become an array without a copy"
            )
        obj = obj.own_array()
    if order is None or order_letter(name, order, "K") == "K":
        if type(obj) is np.ndarray and not obj.flags.c_contiguous:
            axes = axes_in_copy(obj.shape, obj.strides)
            made = core_asarray.asarray(obj.transpose(axes), dtype, device, copy, name)
            return as_new(permute_dims(made, _inverse(axes)))
        copies = copy and isinstance(obj, ndarray) and not obj._layout.contiguous
        out = core_asarray.asarray(obj, dtype, device, None if copies else copy, name)
        return in_order(name, out, "K", copy=True) if copies and out is obj else out
    out = core_asarray.asarray(obj, dtype, device, copy, name)
    fitting = in_order(name, out, order)
    if copy is False and fitting is not out:
        raise ValueError(
            f"{name}: an array with strides {out.strides} cannot be brought into order {order!r} "
            "without a copy"
        )
    return fitting


def array(
    obj: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: ndarray | None = None,
) -> ndarray:
    """Make a new array from any object: ``asarray`` with a copy.

    New axes are put in front if the array has fewer than ``ndmin``.

    Parameters
    ----------
    obj : array_like
        Object with DLPack, ``__cuda_array_interface__`` or one of NumPy's protocols, or nested
        sequences of numbers.
    dtype : dtype_like, optional
        Dtype of the result. The default is the object's own dtype.
    device : device_like, optional
        Device of the result: "cpu", "cuda:1", .... By default an array on a GPU stays there, and
        other data go to the default device.
    copy : bool or None, default True
        Whether the data are copied: True always copies, None copies only if it is necessary, and
        False raises ValueError if a copy is necessary.
    order : str or None, default "K"
        Memory layout of the result: "C", "F", "A" (Fortran's order where the object has it,
        otherwise C order), or "K" and None (as it is). The data are copied if they have another
        one.
    subok : bool, default False
        Accepted for compatibility with NumPy. There are no subclasses.
    ndmin : int, default 0
        Smallest number of axes of the result.
    ndmax : int, default 0
        Largest number of axes of the result. 0 is no limit.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    TypeError
        The object does not consist of numbers.

    Notes
    -----
    The gradient passes through unchanged.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.array((1.5, 2.5))
    array([1.5, 2.5], device='cpu')
    """
    if like is not None:
        device = _beside("array", like, device)
    if not 0 <= as_integer("array", "ndmax", ndmax) <= MOST_AXES:
        raise ValueError(f"array: ndmax must be in the range [0, {MOST_AXES}], got {ndmax}")
    if copy is False and isinstance(obj, (bool, int, float, complex, np.generic)):
        raise ValueError(f"array: {obj!r} cannot become an array without a copy")
    out = _made("array", obj, dtype, order, device, copy)
    if ndmax and out.ndim > ndmax:
        raise ValueError(f"array: wants at most {ndmax} axes, got shape {out.shape}")
    if ndmin and (least := as_integer("array", "ndmin", ndmin)) > out.ndim:
        out = reshape(out, (1,) * (least - out.ndim) + out.shape)
    return out


def from_dlpack(
    x: SupportsDLPack, /, *, device: DeviceLike | None = None, copy: bool | None = None
) -> ndarray:
    """An array over the memory of another library's array, by the DLPack protocol.

    Parameters
    ----------
    x : supports_dlpack
        Object with ``__dlpack__`` (NumPy, torch, CuPy, JAX, ...).
    device : device_like, optional
        Device of the result. The default is the object's own device.
    copy : bool, optional
        True always copies. None copies only if `dtype`, `order` or `device` requires it. False
        raises ValueError instead of copying.

    Returns
    -------
    ndarray
        Array over the same memory.

    Raises
    ------
    TypeError
        ``x`` has no ``__dlpack__``.

    Notes
    -----
    Gradients do not pass through other libraries.

    Examples
    --------
    >>> import numpy as np, cudamath as cm
    >>> cm.from_dlpack(np.arange(3))
    array([0, 1, 2], device='cpu')
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack: {type(x).__name__} has no __dlpack__")
    if isinstance(x, np.ndarray):  # host memory stays where it is unless a device is named
        device = "cpu" if device is None else device
    if isinstance(x, Scalar):
        return _made("from_dlpack", x, None, None, device, copy)
    return core_asarray.asarray(x, None, device, copy, name="from_dlpack")


# -------------------- filled


def _layout(name: str, shape: Any, dtype: Any, device: Any) -> Layout:
    """The layout of a new array in C order."""
    sizes = normalize_shape(name, shape)
    kind = dtypes.default_float() if dtype is None else dtypes.own_order(dtype, name)
    try:
        return Layout.new(sizes, kind, index_of(device))
    except DeviceError:
        raise
    except ValueError as error:  # too large
        raise ValueError(f"{name}: {error}") from None


def _allocated(layout: Layout) -> ndarray:
    """A new array, its elements undefined."""
    out = core.allocate(layout)
    if open_records:
        report(_full, (), (), {}, functools.partial(core.allocate, layout), out)
    return out


def _filled(name: str, layout: Layout, value: Any) -> ndarray:
    """A new array that holds a scalar everywhere."""
    return _patterned(layout, pattern(name, _as_converted(name, value, layout.dtype), layout.dtype))


def _as_converted(name: str, value: Any, dtype: np.dtype) -> Any:
    """A number as NumPy's rule "unsafe" converts it: complex ones lose their imaginary part, with a
    warning; floats that no integer holds are undefined."""
    if type(value) is complex and dtype.kind in "fiu":
        warn(
            f"{name}: {dtype} discards the imaginary part of {value}",
            np.exceptions.ComplexWarning,
        )
        value = value.real
    if type(value) is float and dtype.kind in "iu":
        with silence():
            return np.asarray(value).astype(dtype).item()
    return value


def _patterned(layout: Layout, halves: tuple[int, int]) -> ndarray:
    """A new array from the 16 bytes that repeat in its memory."""
    if layout.device == TRACED:
        out = core.allocate(layout)
        _fill(out, scalars=halves)
        return out
    return _full(scalars=halves, layout=layout, device=layout.device)


def _new(
    name: str,
    shape: Any,
    dtype: Any,
    order: str | None,
    device: Any,
    make: Callable[[Layout], ndarray],
) -> ndarray:
    """What `make(layout)` makes, with its elements in memory in C or Fortran's order."""
    if order == "C" or order_letter(name, order, "C", "CF") == "C":
        return make(_layout(name, shape, dtype, device))
    return as_new(transpose(make(_layout(name, normalize_shape(name, shape)[::-1], dtype, device))))


def _beside(name: str, like: Any, device: Any) -> Any:
    """The device that is meant by `like`, unless another one is named."""
    if like is None:
        return device
    if not isinstance(like, ndarray):
        raise TypeError(
            f"{name}: like must be an ndarray of this package, got {type(like).__name__}"
        )
    return like.device if device is None else device


@fast_path(rare=("like",), scalars=False)
def empty(
    shape: Shape,
    dtype: DTypeLike | None = None,
    order: str | None = "C",
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """A new array whose elements are undefined.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    dtype : dtype_like, optional
        Dtype of the result. The default is the default float (float64, unless ``set_default_dtype``
        has changed it).
    order : str or None, default "C"
        Memory layout of the result: "C" (last axis fastest) or "F" (first axis fastest).
    device : device_like, optional
        Device of the result. The default is the default device.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The shape does not consist of integers, or the dtype is not supported.
    OutOfMemoryError
        The memory of the device is exhausted.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.empty((2, 3), "float16").shape
    (2, 3)
    """
    return _new("empty", shape, dtype, order, _beside("empty", like, device), _allocated)


@fast_path(rare=("like",), scalars=False)
def zeros(
    shape: Shape,
    dtype: DTypeLike | None = None,
    order: str | None = "C",
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """Make a new array of zeros.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    dtype : dtype_like, optional
        Dtype of the result. The default is the default float (float64, unless ``set_default_dtype``
        has changed it).
    order : str or None, default "C"
        Memory layout of the result: "C" (last axis fastest) or "F" (first axis fastest).
    device : device_like, optional
        Device of the result. The default is the default device.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The shape does not consist of integers, or the dtype is not supported.
    OutOfMemoryError
        The memory of the device is exhausted.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.zeros(3)
    array([0., 0., 0.], device='cpu')
    """
    return _new("zeros", shape, dtype, order, _beside("zeros", like, device), _zeros)


@fast_path(rare=("like",), scalars=False)
def ones(
    shape: Shape,
    dtype: DTypeLike | None = None,
    order: str | None = "C",
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """Make a new array of ones.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    dtype : dtype_like, optional
        Dtype of the result. The default is the default float (float64, unless ``set_default_dtype``
        has changed it).
    order : str or None, default "C"
        Memory layout of the result: "C" (last axis fastest) or "F" (first axis fastest).
    device : device_like, optional
        Device of the result. The default is the default device.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The shape does not consist of integers, or the dtype is not supported.
    OutOfMemoryError
        The memory of the device is exhausted.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ones((1, 2), "int32")
    array([[1, 1]], dtype=int32, device='cpu')
    """
    return _new("ones", shape, dtype, order, _beside("ones", like, device), _ones)


def _zeros(layout: Layout) -> ndarray:
    return _patterned(layout, (0, 0))


def _ones(layout: Layout) -> ndarray:
    return _patterned(layout, pattern("ones", 1, layout.dtype))


@fast_path(rare=("like",), scalars=False)
def full(
    shape: Shape,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = "C",
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """A new array that holds one value everywhere.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    fill_value : array_like
        A scalar, or an array that broadcasts to ``shape``.
    dtype : dtype_like, optional
        Dtype of the result. The default is the dtype of the value.
    order : str or None, default "C"
        Memory layout of the result: "C" (last axis fastest) or "F" (first axis fastest).
    device : device_like, optional
        Device of the result. The default is the default device.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length is negative, or the value does not broadcast to the shape.
    OverflowError
        The dtype does not hold the number.

    Notes
    -----
    With respect to an array ``fill_value``, the gradient is the sum over the elements that it was
    repeated to.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.full(2, 7)
    array([7, 7], device='cpu')
    """
    device = _beside("full", like, device)
    if type(fill_value) in (bool, int, float, complex):
        if dtype is None:
            beyond = type(fill_value) is int and fill_value > _LARGEST
            dtype = np.dtype(np.uint64) if beyond else dtypes.scalar_dtype(type(fill_value))
        return _new(
            "full", shape, dtype, order, device, lambda layout: _filled("full", layout, fill_value)
        )
    value = core_asarray.asarray(fill_value, dtype, device, name="full")
    return in_order(
        "full",
        _broadcast_as("full", value, normalize_shape("full", shape)),
        order_letter("full", order, "C", "CF"),
        copy=True,
    )


def _like(
    name: str,
    x: Any,
    dtype: Any,
    order: str | None,
    device: Any,
    shape: Any,
    make: Callable[[Layout], ndarray],
) -> ndarray:
    """An array like another."""
    x = require(name, x)
    layout = x._layout
    if device is None and shape is None and order in ("K", "C", None) and layout.contiguous:
        if dtype is None or dtype is layout.dtype:
            return make(layout if layout.aligned else layout.like())
        return make(layout.like(dtype=dtypes.as_dtype(dtype, name)))
    dtype, device = layout.dtype if dtype is None else dtype, x.device if device is None else device
    sizes = layout.shape if shape is None else normalize_shape(name, shape)
    order = order_letter(name, order, "K")
    if order == "K" and len(sizes) == layout.ndim:
        axes = axes_in_copy(layout.shape, layout.strides)
        made = make(_layout(name, tuple([sizes[i] for i in axes]), dtype, device))
        return as_new(permute_dims(made, _inverse(axes)))
    if order == "A":
        order = "F" if x.flags.fnc else "C"
    return _new(name, sizes, dtype, "C" if order == "K" else order, device, make)


def _number_like(
    name: str, x: Any, value: Any, dtype: Any, order: str | None, device: Any, shape: Any
) -> ndarray:
    """An array like another that holds a Python number everywhere."""
    return _like(name, x, dtype, order, device, shape, lambda layout: _filled(name, layout, value))


@fast_path("x", rare=("subok",), scalars=False)
def empty_like(
    x: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    order: str | None = "K",
    subok: bool = True,
    shape: Shape | None = None,
    *,
    device: DeviceLike | None = None,
) -> ndarray:
    """Make a new array with the shape, dtype and device of another one.

    Arguments replace them. The elements are undefined.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    dtype : dtype_like, optional
        Replaces that of `x`.
    order : str or None, default "K"
        Memory layout of the result: "C", "F", "A" (Fortran's order where ``x`` has it, otherwise C
        order), or "K" and None (the axes in the order in which they lie in ``x``).
    subok : bool, default True
        Accepted for compatibility with NumPy. There are no subclasses.
    shape : int or sequence of int, optional
        Replaces that of `x`.
    device : device_like, optional
        Replaces that of `x`.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The shape does not consist of integers, or the dtype is not supported.
    OutOfMemoryError
        The memory of the device is exhausted.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.empty_like(cm.zeros((2, 3)), dtype="int8").dtype
    dtype('int8')
    """
    return _like("empty_like", x, dtype, order, device, shape, _allocated)


@fast_path("x", rare=("subok",), scalars=False)
def zeros_like(
    x: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    order: str | None = "K",
    subok: bool = True,
    shape: Shape | None = None,
    *,
    device: DeviceLike | None = None,
) -> ndarray:
    """Make an array of zeros with the shape, dtype and device of another one.

    Arguments replace the shape, the dtype and the device.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    dtype : dtype_like, optional
        Replaces that of `x`.
    order : str or None, default "K"
        Memory layout of the result: "C", "F", "A" (Fortran's order where ``x`` has it, otherwise C
        order), or "K" and None (the axes in the order in which they lie in ``x``).
    subok : bool, default True
        Accepted for compatibility with NumPy. There are no subclasses.
    shape : int or sequence of int, optional
        Replaces that of `x`.
    device : device_like, optional
        Replaces that of `x`.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The shape does not consist of integers, or the dtype is not supported.
    OutOfMemoryError
        The memory of the device is exhausted.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.zeros_like(cm.asarray([1, 2]))
    array([0, 0], device='cpu')
    """
    return _number_like("zeros_like", x, 0, dtype, order, device, shape)


@fast_path("x", rare=("subok",), scalars=False)
def ones_like(
    x: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    order: str | None = "K",
    subok: bool = True,
    shape: Shape | None = None,
    *,
    device: DeviceLike | None = None,
) -> ndarray:
    """Make an array of ones with the shape, dtype and device of another one.

    Arguments replace the shape, the dtype and the device.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    dtype : dtype_like, optional
        Replaces that of `x`.
    order : str or None, default "K"
        Memory layout of the result: "C", "F", "A" (Fortran's order where ``x`` has it, otherwise C
        order), or "K" and None (the axes in the order in which they lie in ``x``).
    subok : bool, default True
        Accepted for compatibility with NumPy. There are no subclasses.
    shape : int or sequence of int, optional
        Replaces that of `x`.
    device : device_like, optional
        Replaces that of `x`.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The shape does not consist of integers, or the dtype is not supported.
    OutOfMemoryError
        The memory of the device is exhausted.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ones_like(cm.asarray([1.5, 2.5]))
    array([1., 1.], device='cpu')
    """
    return _number_like("ones_like", x, 1, dtype, order, device, shape)


@fast_path("x", rare=("subok",), scalars=False)
def full_like(
    x: ArrayLike,
    /,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = "K",
    subok: bool = True,
    shape: Shape | None = None,
    *,
    device: DeviceLike | None = None,
) -> ndarray:
    """Make an array of one value with the shape, dtype and device of another one.

    Arguments replace the shape, the dtype and the device.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    fill_value : array_like
        A scalar, or an array that broadcasts to ``shape``.
    dtype : dtype_like, optional
        Replaces that of `x`.
    order : str or None, default "K"
        Memory layout of the result: "C", "F", "A" (Fortran's order where ``x`` has it, otherwise C
        order), or "K" and None (the axes in the order in which they lie in ``x``).
    subok : bool, default True
        Accepted for compatibility with NumPy. There are no subclasses.
    shape : int or sequence of int, optional
        Replaces that of `x`.
    device : device_like, optional
        Replaces that of `x`.

    Returns
    -------
    ndarray
        The new array.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The shape does not consist of integers, or the dtype is not supported.
    OutOfMemoryError
        The memory of the device is exhausted.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.full_like(cm.asarray([1.5, 2.5]), 7)
    array([7., 7.], device='cpu')
    """
    if type(fill_value) in (bool, int, float, complex):
        return _number_like("full_like", x, fill_value, dtype, order, device, shape)
    if order in ("C", "c"):
        return _like(
            "full_like",
            x,
            dtype,
            order,
            device,
            shape,
            lambda layout: full(
                layout.shape, fill_value, layout.dtype, device=devices.device_of(layout.device)
            ),
        )
    made = _like("full_like", x, dtype, order, device, shape, _allocated)
    value = _broadcast_as(
        "full_like",
        core_asarray.asarray(fill_value, None, made.device, name="full_like"),
        made.shape,
    )
    if value._node is not None:  # a gradient goes through a copy, not through an assignment
        axes = axes_in_copy(made.shape, made.strides)
        value = permute_dims(astype(value, made.dtype, copy=False), axes)
        return as_new(permute_dims(_copy(value), _inverse(axes)))
    made[...] = value
    return made


# -------------------- diagonals and triangles


@fast_path(rare=("like",), scalars=False)
def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    order: str | None = "C",
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """Return zeros with ones on a diagonal.

    Parameters
    ----------
    N : int
        Number of rows and of columns. `M` defaults to `N`.
    M : int, optional
        Number of rows and of columns. `M` defaults to `N`.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.
    dtype : dtype_like, optional
        Dtype of the result. The default is the default float (float64, unless ``set_default_dtype``
        has changed it).
    order : str or None, default "C"
        Memory layout of the result: "C" (last axis fastest) or "F" (first axis fastest).
    device : device_like, optional
        Device of the result. The default is the default device.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Array of shape (N, M).

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        A size or `k` is not an integer, or the dtype is not supported.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.eye(2, 3, k=1)
    array([[0., 1., 0.],
           [0., 0., 1.]], device='cpu')
    """
    device = _beside("eye", like, device)
    if order_letter("eye", order, "C", "CF") == "C":
        return _band_of_ones("eye", N, M, dtype, device, k, k)
    below = -as_integer("eye", "k", k)  # of the transposed matrix
    return transpose(_band_of_ones("eye", N if M is None else M, N, dtype, device, below, below))


@fast_path(rare=("like",), scalars=False)
def identity(
    n: int,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """Make the n x n identity matrix: ``eye(n)``.

    Parameters
    ----------
    n : int
        Number of rows and of columns.
    dtype : dtype_like, optional
        Dtype of the result. The default is the default float (float64, unless ``set_default_dtype``
        has changed it).
    device : device_like, optional
        Device of the result. The default is the default device.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Array of shape (n, n).

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        A size or `k` is not an integer, or the dtype is not supported.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.identity(2)
    array([[1., 0.],
           [0., 1.]], device='cpu')
    """
    return _band_of_ones("identity", n, None, dtype, _beside("identity", like, device), 0, 0)


@fast_path(rare=("like",), scalars=False)
def tri(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """Return ones on and below a diagonal, zeros above.

    Parameters
    ----------
    N : int
        Number of rows and of columns. `M` defaults to `N`.
    M : int, optional
        Number of rows and of columns. `M` defaults to `N`.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.
    dtype : dtype_like, optional
        Dtype of the result. The default is the default float (float64, unless ``set_default_dtype``
        has changed it).
    device : device_like, optional
        Device of the result. The default is the default device.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Array of shape (N, M).

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        A size or `k` is not an integer, or the dtype is not supported.

    Notes
    -----
    The gradient is that of `eye`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.tri(2, 3)
    array([[1., 0., 0.],
           [1., 1., 0.]], device='cpu')
    """
    return _band_of_ones("tri", N, M, dtype, _beside("tri", like, device), -_FAR, k)


def _band_of_ones(
    name: str, rows: int, columns: int | None, dtype: Any, device: Any, low: int, high: int
) -> ndarray:
    layout = _layout(name, (rows, rows if columns is None else columns), dtype, device)
    return _ones_band(
        layout=layout,
        device=layout.device,
        low=as_integer(name, "k", low),
        high=as_integer(name, "k", high),
    )


@fast_path("x", scalars=False)
def tril(x: ArrayLike, /, k: int = 0) -> ndarray:
    """The lower triangles of the matrices in the last two axes: 0 above diagonal ``k``.

    Parameters
    ----------
    x : array_like
        Array of at least 1 dimension. A vector counts as every row of a square matrix.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    ValueError
        The array has no dimensions.

    Notes
    -----
    The gradient is the same triangle of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.tril(cm.asarray([[1, 2], [3, 4]]))
    array([[1, 0],
           [3, 4]], device='cpu')
    """
    return _triangle("tril", x, k)


@fast_path("x", scalars=False)
def triu(x: ArrayLike, /, k: int = 0) -> ndarray:
    """The upper triangles of the matrices in the last two axes: 0 below diagonal ``k``.

    Parameters
    ----------
    x : array_like
        Array of at least 1 dimension. A vector counts as every row of a square matrix.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    ValueError
        The array has no dimensions.

    Notes
    -----
    The gradient is the same triangle of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.triu(cm.asarray([[1, 2], [3, 4]]))
    array([[1, 2],
           [0, 4]], device='cpu')
    """
    return _triangle("triu", x, k)


def _triangle(name: str, x: Any, k: int) -> ndarray:
    x = require(name, x)
    if x.ndim < 2:
        if not x.ndim:
            raise ValueError(f"{name}: wants at least 1 dimension, got {x.dtype} of shape ()")
        x = broadcast_to(x, (x.size, x.size))
    k = as_integer(name, "k", k)
    low, high = (-_FAR, k) if name == "tril" else (k, _FAR)
    return _band(x if x._layout.contiguous else _copy(x), low=low, high=high)


constants.full, constants.full_like = full, full_like  # which gradients begin with
