"""Methods and attributes of ndarray that NumPy's arrays have and that need ops: the constructor,
byteswap, resize, dumps, data."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import dtypes, shapes
from ..core.array import ndarray, refuse_misaligned, wrap
from ..core.devices import CPU, index_of
from ..core.dispatch.checks import MISTAKES, as_of
from ..core.dispatch.fast_path import fast_path
from ..core.typing import ArrayLike, DeviceLike, DTypeLike
from ..runtime.files import naming, whole_file
from .creation import empty
from .elementwise import clip, conj
from .index import _check_writable
from .shape import _copy, as_new, flip, reshape, unrecorded_view, view

__all__: list[str] = []


def construct(
    shape: int | Sequence[int],
    dtype: DTypeLike = float,
    buffer: Any = None,
    offset: int = 0,
    strides: Sequence[int] | None = None,
    order: str | None = None,
    *,
    device: DeviceLike | None = None,
) -> ndarray:
    """What `ndarray(...)` makes: a new array, or one over the memory of `buffer`."""
    sizes, kind = shapes.normalize_shape("ndarray", shape), dtypes.as_dtype(dtype, "ndarray")
    letter = shapes.order_letter("ndarray", order, "C", "CF")
    steps = None if strides is None else shapes.sizes_of("ndarray", strides)
    if steps is not None and len(steps) != len(sizes):
        raise ValueError(f"ndarray: strides {steps} do not have an element for each of {sizes}")
    if buffer is None:
        if steps is None:
            return empty(sizes, kind, letter, device=device)
        memory = empty(shapes.prod(sizes) * kind.itemsize, np.uint8, device=device)
        return _over(memory, sizes, kind, 0, steps)
    if not isinstance(buffer, ndarray):
        if device is not None and index_of(device) != CPU:
            raise ValueError("ndarray: a buffer is in host memory; use to(device) afterwards")
        try:
            return wrap(np.ndarray(sizes, kind, buffer, offset, steps, letter))  # type: ignore
        except MISTAKES as error:
            raise as_of("ndarray", error) from None
    if not buffer._layout.contiguous:
        raise ValueError(
            f"ndarray: wants a buffer without gaps, got strides {buffer.strides} of shape "
            f"{buffer.shape}"
        )
    offset = shapes.as_integer("ndarray", "offset", offset)
    if steps is None:
        needed = offset + shapes.prod(sizes) * kind.itemsize
        if needed > buffer._layout.nbytes:
            raise TypeError(
                f"ndarray: a buffer of {buffer._layout.nbytes} bytes is too small for {kind} of "
                f"shape {sizes} from byte {offset} on"
            )
        steps = shapes.contiguous_strides(sizes[::-1] if letter == "F" else sizes, kind.itemsize)
        steps = steps[::-1] if letter == "F" else steps
    return _over(buffer, sizes, kind, offset, steps)


def _over(buffer: ndarray, sizes: tuple, kind: np.dtype, offset: int, steps: tuple) -> ndarray:
    """An array over the memory of another one, within its bounds."""
    if buffer._node is not None:
        raise RuntimeError(
            f"ndarray: a gradient is being recorded for the buffer of shape {buffer.shape}; its "
            "bytes have none"
        )
    low, high = shapes.byte_bounds(sizes, steps, kind.itemsize)
    if offset + low < 0 or offset + high > buffer._layout.nbytes:
        raise ValueError(
            f"ndarray: shape {sizes} and strides {steps} from byte {offset} on reach beyond the "
            f"{buffer._layout.nbytes} bytes of the buffer"
        )
    layout = buffer._layout.view(sizes, steps, offset, kind)
    out = unrecorded_view(buffer, layout, offset)
    if layout.device != CPU:
        refuse_misaligned("ndarray", layout, out._data)
    return out


def byteswap(x: ndarray, inplace: bool = False) -> ndarray:
    """Return the array with the bytes of each element in reverse order.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    inplace : bool, default False
        Whether the elements are changed in place, and the array itself is returned.

    Returns
    -------
    ndarray
        New array of the same dtype, or `x`.
    """
    if inplace:
        _check_writable("byteswap", x)
        x[...] = byteswap(x)
        return x
    if x._node is not None:
        raise RuntimeError(
            f"byteswap: the gradient of an array of shape {x.shape} is being recorded; its bytes "
            "have none"
        )
    kind = dtypes.real_dtype(x.dtype)
    x = _copy(x)
    if kind.itemsize == 1 or not x.size:
        return x
    each = reshape(view(reshape(x, (-1,)), np.uint8), (-1, kind.itemsize))
    return as_new(reshape(view(reshape(_copy(flip(each, 1)), (-1,)), x.dtype), x.shape))


def resize(x: ndarray, *new_shape: Any, refcheck: bool = True) -> None:
    """Change the shape in place; new elements are 0, and elements too many are dropped.

    Parameters
    ----------
    x : ndarray
        Array that owns its memory.
    *new_shape : int or sequence of int
        The shape. Without one nothing changes.
    refcheck : bool, default True
        Accepted for compatibility with NumPy. Views of the array keep the old memory.
    """
    wanted = new_shape[0] if len(new_shape) == 1 else new_shape or None
    sizes = x.shape if wanted is None else shapes.normalize_shape("resize", wanted)
    _check_writable("resize", x)
    if not x.flags.owndata:
        raise ValueError("resize: cannot resize this array: it does not own its data")
    if not x._layout.contiguous:
        raise ValueError(
            f"resize: wants an array in C order, got strides {x.strides} of shape {x.shape}"
        )
    size = shapes.prod(sizes)
    if size == x.size:
        made = reshape(x, sizes)
    else:
        from .creation import zeros

        made = zeros(size, x.dtype, device=x.device)
        kept = min(size, x.size)
        made[:kept] = reshape(x, (-1,))[:kept]
        made = reshape(made, sizes)
    x._layout, x._data, x._owner = made._layout, made._data, made._owner


def setflags(
    x: ndarray, write: bool | None = None, align: bool | None = None, uic: bool | None = None
) -> None:
    """Make the elements read-only, or writable again.

    Parameters
    ----------
    x : ndarray
        Array on the CPU. Memory on a GPU is always writable.
    write : bool, optional
        Whether assignments are allowed.
    align : bool, optional
        Accepted for compatibility with NumPy.
    uic : bool, optional
        Accepted for compatibility with NumPy.
    """
    if write is None or bool(write) == x.flags.writeable:
        return
    if x._layout.device != CPU:
        raise ValueError(f"setflags: memory on {x.device} cannot be made read-only or writable")
    try:
        x._data.flags.writeable = bool(write)
    except ValueError as error:
        raise ValueError(f"setflags: {error}") from None


def dumps(x: ndarray) -> bytes:
    """Return the array as a pickle.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.

    Returns
    -------
    bytes
        The pickle.
    """
    return pickle.dumps(x)


def dump(x: ndarray, file: Any) -> None:
    """Write the array to a file as a pickle. A file at a path appears whole or not at all.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    file : path_like or file
        Path or open file.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    if hasattr(file, "write"):
        with naming("dump", file):
            pickle.dump(x, file)
        return
    path = os.fsdecode(file)
    with whole_file("dump", path, special=True) as beside, open(beside, "wb") as opened:
        pickle.dump(x, opened)


def data(x: ndarray) -> memoryview:
    """The memory of the elements on the CPU, as NumPy's `data`; ValueError on a GPU."""
    if x._layout.device != CPU:
        raise ValueError(
            f"data: the memory of an array on {x.device} is not the host's; see ptr, or to('cpu')"
        )
    return x.__array__().data


def clipped(
    x: ndarray,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    out: ndarray | None = None,
    **options: Any,
) -> ndarray:
    """Limit the elements to the interval [min, max]: `cm.clip`, where one bound is enough.

    Parameters
    ----------
    x : ndarray
        Real or bool array.
    min, max : array_like, optional
        The bounds. None is no bound.
    out : ndarray, optional
        Array that receives the result.
    **options : object
        Options of `cm.clip`.

    Returns
    -------
    ndarray
        Array of the common dtype.
    """
    return clip(x, min, max, out, **options)


@fast_path("x")
def conjugated(x: ndarray, out: ndarray | None = None) -> ndarray:
    """Return the complex conjugate: `cm.conj`, and a bool array as it is.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    out : ndarray, optional
        Array for the result, of its shape.

    Returns
    -------
    ndarray
        The conjugates.
    """
    if out is not None:
        return conj(x, out)
    return conj(x) if x._layout.dtype.kind == "c" else x
