"""Conversion to ndarray: of Python numbers, lists, NumPy arrays and arrays of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime import memory
from ..runtime.errors import DeviceError
from . import dtypes, shapes
from .array import allocate_now, ndarray, over, wrap
from .devices import CPU, TRACED, default_index, device_of, index_of
from .dispatch.call_record import open_records, report_made
from .layout import Layout
from .levels import common_device, work
from .transfer.host_to_device import add_writer, copy_to

#: Classes of numbers in lists that NumPy reads as this package does.
_NUMBERS = frozenset([bool, int, float, complex, np.bool_, np.int64, np.float64])
#: What NumPy makes of such lists, where the default dtype does not matter.
_OF_LISTS = frozenset([np.dtype(np.bool_), np.dtype(np.int64)])


def _of_numbers(obj: Any, depth: int = 1) -> bool:
    """Whether there are only numbers in a list and in the lists in it, of which an array is
    made."""
    kinds = {*map(type, obj)}
    return (
        _NUMBERS.issuperset(kinds)
        or (kinds == {list} or kinds == {tuple})
        and depth < shapes.MOST_AXES
        and all([_of_numbers(inner, depth + 1) for inner in obj])
    )


def upload(host: np.ndarray, device: int, ours: bool = False, shared: bool = False) -> ndarray:
    """A NumPy array copied to a device number; on the CPU the same memory. ours: NumPy made it, so
    it is pageable memory. shared: the user has this memory too."""
    out = _uploaded(host, device, ours)
    if open_records:
        report_made(out, host, fresh=not shared or device != CPU)
    return out


def _uploaded(host: np.ndarray, device: int, ours: bool) -> ndarray:
    if device == CPU:
        return wrap(host)
    if device == TRACED:
        from . import tracing

        return tracing.constant(host)
    if device < TRACED:
        return work.upload(host, device)
    out = copy_to(host, device)
    if out is not None:
        return out
    host = host if host.flags.c_contiguous else np.ascontiguousarray(host)
    out = allocate_now(Layout.new(host.shape, host.dtype, device))
    memory.upload(
        out._data,
        host.__array_interface__["data"][0],
        host.nbytes,
        out._owner.stream,
        wait=not ours,
    )
    add_writer(out._layout, over)
    return out


def _unpickle(host: np.ndarray, device: int) -> ndarray:
    from ..runtime.device import device_count

    return upload(host, device if device < device_count() else CPU)


def asarray(
    obj: Any, dtype: Any = None, device: Any = None, copy: bool | None = None, name: str = "asarray"
) -> ndarray:
    """`obj` as an ndarray: NumPy arrays, scalars, nested lists, and anything with DLPack or
    `__cuda_array_interface__`.

    Arrays that are already on the requested device are taken without a copy unless `copy=True` or
    the dtype changes; `copy=False` raises ValueError where a copy would be needed.
    """
    if dtype is None and type(obj) is np.ndarray and copy is not False:
        out = copy_to(obj, index_of(device))
        if out is not None:
            if open_records:
                report_made(out, obj, fresh=True)
            return out
    if (
        dtype is None
        and (obj.__class__ is list or obj.__class__ is tuple)
        and _of_numbers(obj)
        and copy is not False
        and (default_index() if device is None else index_of(device)) == CPU
    ):  # most lists: nobody but NumPy looks at its numbers
        try:
            host = np.array(obj)
        except (OverflowError, ValueError):  # to be told in our words
            pass
        else:
            if host.dtype in _OF_LISTS or host.dtype == np.float64 == dtypes.default_float():
                return upload(host, CPU, ours=True)
    target = None if dtype is None else dtypes.own_order(dtype, name)
    if isinstance(obj, ndarray):
        out = obj
    elif isinstance(obj, (bool, int, float, complex)) and not isinstance(obj, np.generic):
        return upload(_host_scalar(obj, target, name), index_of(device), ours=True)
    elif (inside := _arrays_in_list(obj, name) if isinstance(obj, (list, tuple)) else []) and any(
        [x._node for x in inside]
    ):
        out = _stacked(
            obj, inside[0].device, name
        )  # on the device, so that the gradient goes through
    else:
        taken = _foreign(obj, name)
        if taken is None:
            # in a list NumPy itself sees numbers that do not fit
            listed = isinstance(obj, (list, tuple)) and target is not None and target.kind in "iuf"
            host = _host_array(_to_host(obj) if inside else obj, name, target if listed else None)
            if target is not None:
                host = _cast_host(name, host, target, copy)
            index = index_of(device)
            if copy is False and (
                index != CPU
                or not isinstance(obj, (np.ndarray, np.generic))
                or not obj.dtype.isnative
            ):
                raise ValueError(
                    f"{name}: {type(obj).__name__} cannot become an array on {device_of(index)} "
                    "without a copy"
                )
            return upload(
                host.copy() if copy and index == CPU else host,
                index,
                ours=type(obj) in (list, tuple),
                shared=bool(open_records) and _shared(host, obj),
            )
        out = taken
    if target is not None and out.dtype != target:
        if copy is False:
            raise ValueError(f"{name}: {out.dtype} cannot become {target} without a copy")
        out, copy = out.astype(target), None
    if device is not None and index_of(device) != out._layout.device:
        if copy is False:
            raise ValueError(
                f"{name}: an array on {out.device} cannot become one on {device} without a copy"
            )
        out, copy = out.to(device), None
    return out.copy() if copy else out


def _shared(host: np.ndarray, obj: Any) -> bool:
    """Whether a host array that was made of an object may lie in the memory of that object."""
    if isinstance(obj, np.ndarray):
        return np.may_share_memory(host, obj)
    return not isinstance(obj, (list, tuple, np.generic))


def _host_scalar(obj: Any, dtype: np.dtype | None, name: str) -> np.ndarray:
    """A Python number as a 0-d array: of the default dtype of its kind (an integer: the one that
    holds it) unless given."""
    if dtype is None and not isinstance(obj, int):
        dtype = dtypes.scalar_dtype(float if isinstance(obj, float) else complex)
    try:
        host = np.asarray(obj, dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise type(error)(f"{name}: {obj!r} as {dtype}: {error}") from None
    if host.dtype not in dtypes.ANY and host.dtype not in dtypes.STORAGE:
        raise OverflowError(f"{name}: Python integer {obj} does not fit into 64 bits")
    return host


def _cast_host(name: str, host: np.ndarray, dtype: np.dtype, copy: bool | None) -> np.ndarray:
    if host.dtype == dtype:
        return host
    if copy is False and host.ndim:
        raise ValueError(f"{name}: {host.dtype} cannot become {dtype} without a copy")
    return host.astype(dtype)


def _host_array(obj: Any, name: str, dtype: np.dtype | None = None) -> np.ndarray:
    """NumPy's reading of an object that is no GPU array."""
    try:
        host = np.asarray(obj, dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise type(error)(f"{name}: {type(obj).__name__} cannot become an array: {error}") from None
    host = host if host.dtype.isnative else host.astype(host.dtype.newbyteorder("="))
    if host.dtype.kind in "OUST" and host.size and isinstance(host.flat[0], str | bytes):
        raise TypeError(
            f"{name}: wants numbers, got texts: {type(obj).__name__} of dtype {host.dtype} begins "
            f"with {host.flat[0]!r:.40}; numpy.unique(texts, return_inverse=True) numbers them"
        )
    if host.dtype == object:
        for item in host.flat:
            if isinstance(item, int) and not -(2**63) <= item < 2**64:
                raise OverflowError(f"{name}: Python integer {item} does not fit into 64 bits")
    masked = hasattr(obj, "filled") and np.any(obj.mask)  # of numpy.ma
    if masked or (host.dtype not in dtypes.ANY and host.dtype not in dtypes.STORAGE):
        raise TypeError(
            f"{name}: wants numbers or something with the array protocols, got "
            f"{type(obj).__name__} (dtype "
            f"{host.dtype}{', a mask would be lost: x.filled(value)' if masked else ''})"
            f"{_no_number_in(host)}"
        )
    if (
        not isinstance(obj, (np.ndarray, np.generic))
        and not hasattr(obj, "__array__")
        and host.dtype in (np.float64, np.complex128)
    ):
        host = host.astype(
            dtypes.scalar_dtype(float if host.dtype == np.float64 else complex), copy=False
        )
    return host


def _no_number_in(host: np.ndarray) -> str:
    """Words on the first element of an array of objects that is no number, and where it is."""
    if host.dtype != object or not host.ndim:
        return ""
    for place, item in np.ndenumerate(host):
        if not isinstance(item, (int, float, complex, np.number)):
            return f" with {item!r:.40} at {list(place)}"
    return ""


def _arrays_in_list(obj: Any, name: str) -> list[ndarray]:
    """The ndarrays in a list, and in the lists in it; ValueError where they are nested too
    deeply."""
    try:
        return _arrays_in(obj)
    except RecursionError:
        raise ValueError(
            f"{name}: a list is nested too deeply, or holds itself: an array has at most 64 axes"
        ) from None


def _arrays_in(obj: Any) -> list[ndarray]:
    """The ndarrays in nested lists."""
    if isinstance(obj, (list, tuple)):
        if {bool, int, float, complex}.issuperset(
            map(type, obj)
        ):  # most lists: no item is looked at in Python
            return []
        if {ndarray}.issuperset(map(type, obj)):
            return list(obj)
        return [
            x for item in obj if isinstance(item, (list, tuple, ndarray)) for x in _arrays_in(item)
        ]
    return [obj]


def _stacked(obj: Any, device: Any, name: str) -> ndarray:
    """Nested lists with arrays in them as one array, by operations that are recorded."""
    if isinstance(obj, (list, tuple)):
        return ndarray._stack([_stacked(item, device, name) for item in obj])
    return obj if isinstance(obj, ndarray) else asarray(obj, device=device, name=name)


def _to_host(obj: Any) -> Any:
    if isinstance(obj, ndarray):
        return obj.to_numpy()
    return [_to_host(item) for item in obj] if isinstance(obj, (list, tuple)) else obj


def _foreign(obj: Any, name: str) -> ndarray | None:
    """An array of another library on a GPU (or, by DLPack, anywhere) without a copy; None if it is
    not one."""
    if isinstance(obj, (np.ndarray, np.generic)):
        return None
    if hasattr(obj, "__dlpack_device__") and hasattr(obj, "__dlpack__"):
        from .interop import dlpack

        return dlpack.take(obj, name)
    described = getattr(obj, "__cuda_array_interface__", None)
    if described is None:
        return None
    from .interop import cuda_array_interface

    return cuda_array_interface.take(obj, described, name)


def same_device(name: str, arrays: Any) -> int:
    """The device number all arrays share, the innermost of batched ones; DeviceError that names
    both if they do not."""
    first = None
    for x in arrays:
        if x is None:
            continue
        if first is None:
            first = x
        elif x._layout.device != first._layout.device:
            if x._layout.device < TRACED or first._layout.device < TRACED:
                found = common_device(x._layout.device, first._layout.device)
                if found is not None:
                    first = x if found == x._layout.device else first
                    continue
            if TRACED in (x._layout.device, first._layout.device):
                from . import tracing

                raise tracing.no_argument(x if first._layout.device == TRACED else first)
            raise DeviceError(
                f"{name}: arrays are on different devices: {first.device} (shape {first.shape}) "
                "and "
                f"{x.device} (shape {x.shape}); move one with .to(...)"
            )
    return default_index() if first is None else first._layout.device


def _reduce(self: ndarray) -> tuple:
    return _unpickle, (self._alias().to_numpy(), self._layout.device)


def install() -> None:
    """Put the methods of this file on the class."""
    for name, method in {"__reduce__": _reduce}.items():
        setattr(ndarray, name, method)
