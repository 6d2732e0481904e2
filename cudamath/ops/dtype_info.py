"""What dtypes and this namespace are: limits, kinds, casts, and the array API's inspection
functions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..core import devices, dtypes
from ..core.array import ndarray
from ..core.devices import Device, default_device, device_of, index_of
from ..core.typing import ArrayLike, DTypeLike
from ..runtime.device import device_count
from .out_argument import casting_rule

__all__ = [
    "__array_namespace_info__",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "issubdtype",
    "promote_types",
    "typecodes",
]

#: NumPy's characters of dtypes by kind, of the dtypes that arrays hold.
typecodes: dict[str, str] = {
    kind: "".join([code for code in str(codes) if np.dtype(code) in dtypes.ANY])
    for kind, codes in np.typecodes.items()
}


class FloatInfo(NamedTuple):
    """Limits of a floating-point dtype, as Python numbers: what `cm.finfo` returns."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    smallest_subnormal: float
    precision: int
    dtype: np.dtype

    @property
    def tiny(self) -> float:
        """NumPy's name of `smallest_normal`."""
        return self.smallest_normal

    @property
    def epsneg(self) -> float:
        """The distance from 1 to the next smaller number."""
        return self._detail("epsneg", float)

    @property
    def nmant(self) -> int:
        """Bits of the mantissa."""
        return self._detail("nmant")

    @property
    def nexp(self) -> int:
        """Bits of the exponent."""
        return self._detail("nexp")

    @property
    def iexp(self) -> int:
        """NumPy's other name of `nexp`."""
        return self._detail("iexp")

    @property
    def machep(self) -> int:
        """The exponent of `eps`."""
        return self._detail("machep")

    @property
    def negep(self) -> int:
        """The exponent of `epsneg`."""
        return self._detail("negep")

    @property
    def minexp(self) -> int:
        """The exponent of `smallest_normal`."""
        return self._detail("minexp")

    @property
    def maxexp(self) -> int:
        """The smallest exponent of 2 that overflows."""
        return self._detail("maxexp")

    def __repr__(self) -> str:
        return repr(ml_dtypes.finfo(self.dtype))

    def _detail(self, name: str, kind: type = int) -> Any:
        return kind(getattr(ml_dtypes.finfo(self.dtype), name))

    @property
    def resolution(self) -> float:
        """10 ** -precision."""
        return float(10.0**-self.precision)


class IntInfo(NamedTuple):
    """Limits of an integer dtype, as Python integers: what `cm.iinfo` returns."""

    bits: int
    max: int
    min: int
    dtype: np.dtype

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def _dtype_of(name: str, obj: Any, category: dtypes.Category) -> np.dtype:
    if isinstance(obj, (int, float, complex)) and not isinstance(obj, bool | np.generic):
        obj = type(obj)  # of a number, as NumPy reads it
    found = (
        obj.dtype
        if hasattr(obj, "dtype") and not isinstance(obj, type)
        else dtypes.as_dtype(obj, name)
    )
    if found not in category:
        raise ValueError(f"{name}: wants a {category.name} dtype, got {found}")
    return found


def finfo(dtype: Any, /) -> FloatInfo:
    """Return the limits of a floating-point dtype.

    Of a complex dtype they are those of its parts.

    Parameters
    ----------
    dtype : dtype_like or array_like
        A dtype, or an array whose dtype is taken.

    Returns
    -------
    FloatInfo
        Limits with the attributes bits, eps, max, min, smallest_normal, smallest_subnormal,
        precision (decimal digits) and dtype.

    Raises
    ------
    ValueError
        The dtype is not of that kind.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.finfo(cm.float32).eps, cm.finfo("bfloat16").bits
    (1.1920928955078125e-07, 16)
    """
    try:
        return _KNOWN[dtype]
    except (KeyError, TypeError):  # an array has no hash
        pass
    found = _dtype_of("finfo", dtype, dtypes.INEXACT)
    limits = _KNOWN[found] = _KNOWN[found.type] = _limits(dtypes.real_dtype(found))
    return limits


#: By dtypes and by the classes of their numbers.
_KNOWN: dict[np.dtype | type, FloatInfo] = {}


@functools.cache
def _limits(found: np.dtype) -> FloatInfo:
    info = ml_dtypes.finfo(found)
    return FloatInfo(
        int(info.bits),
        float(info.eps),
        float(info.max),
        float(info.min),
        float(info.smallest_normal),
        float(info.smallest_subnormal),
        int(info.precision),
        found,
    )


def iinfo(dtype: DTypeLike | ArrayLike, /) -> IntInfo:
    """Return the limits of an integer dtype.

    Parameters
    ----------
    dtype : dtype_like or array_like
        A dtype, or an array whose dtype is taken.

    Returns
    -------
    IntInfo
        Limits with the attributes bits, max, min and dtype.

    Raises
    ------
    ValueError
        The dtype is not of that kind.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.iinfo(cm.int8).max
    127
    """
    found = _dtype_of("iinfo", dtype, dtypes.INTEGER)
    info = np.iinfo(found)
    return IntInfo(int(info.bits), int(info.max), int(info.min), found)


_KINDS = {
    "bool": dtypes.BOOLEAN,
    "signed integer": dtypes.SIGNED,
    "unsigned integer": dtypes.UNSIGNED,
    "integral": dtypes.INTEGER,
    "real floating": dtypes.FLOATING,
    "complex floating": dtypes.COMPLEX,
    "numeric": dtypes.NUMERIC,
}


def isdtype(dtype: DTypeLike, kind: DTypeLike | Sequence[DTypeLike]) -> bool:
    """Whether a dtype is of a kind.

    Parameters
    ----------
    dtype : dtype_like
        The dtype.
    kind : dtype_like or sequence of dtype_like
        Another dtype, or one of "bool", "signed integer", "unsigned integer", "integral", "real
        floating", "complex floating" and "numeric", or a tuple of these.

    Returns
    -------
    bool
        True if the dtype is of that kind.

    Raises
    ------
    ValueError
        The kind is unknown.
    TypeError
        An argument is not a dtype.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.isdtype(cm.float32, "real floating"), cm.isdtype(cm.int8, (cm.int16, "bool"))
    (True, False)
    """
    found = dtypes.as_dtype(dtype, "isdtype")
    if isinstance(kind, tuple):
        return any([isdtype(found, k) for k in kind])
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(
                f"isdtype: no kind {kind!r}; wants a dtype or one of {', '.join(map(repr, _KINDS))}"
            )
        return found in _KINDS[kind]
    return found == dtypes.as_dtype(kind, "isdtype")


def issubdtype(dtype: DTypeLike, kind: DTypeLike, /) -> bool:
    """Return whether a dtype is of one of NumPy's classes (np.integer, np.floating, ...).

    In bfloat16 is floating as well.

    Parameters
    ----------
    dtype : dtype_like
        A dtype.
    kind : dtype_like
        A dtype, or one of NumPy's abstract classes.

    Returns
    -------
    bool
        True if the dtype is of that class.

    Examples
    --------
    >>> import numpy as np, cudamath as cm
    >>> cm.issubdtype(cm.float32, np.floating), cm.issubdtype(cm.bfloat16, np.floating)
    (True, True)
    """
    found = dtypes.as_dtype(dtype, "issubdtype")
    if found == dtypes.bfloat16 and kind in (np.floating, np.inexact, np.number, np.generic):
        return True
    return bool(np.issubdtype(found, dtypes.bfloat16 if kind == "bfloat16" else kind))


def can_cast(from_: DTypeLike | ArrayLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a dtype may be converted to another.

    Parameters
    ----------
    from_ : dtype_like or array_like
        Source, a dtype or an array.
    to : dtype_like
        Target dtype.
    casting : str, default "safe"
        NumPy's casting rule: "no", "equiv", "safe" (every value is kept), "same_kind" or "unsafe".

    Returns
    -------
    bool
        True if the condition holds.

    Raises
    ------
    TypeError
        An argument is not a dtype.
    ValueError
        The casting rule is unknown.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.can_cast(cm.int16, cm.float32), cm.can_cast(cm.float64, cm.float32)
    (True, False)
    """
    source = (
        from_.dtype
        if isinstance(from_, ndarray | np.ndarray | np.generic)
        else dtypes.as_dtype(from_, "can_cast")
    )
    target = dtypes.as_dtype(to, "can_cast")
    casting_rule("can_cast", casting)
    if dtypes.bfloat16 in (source, target) and casting in ("safe", "same_kind"):
        if casting == "safe":
            return dtypes.promote(source, target) == target
        source, target = (dtypes.float16 if d == dtypes.bfloat16 else d for d in (source, target))
    return bool(np.can_cast(source, target, casting))  # type: ignore[arg-type]


def promote_types(a: DTypeLike, b: DTypeLike, /) -> np.dtype:
    """Return the dtype to which arrays of two dtypes are promoted.

    It is NumPy's, with bfloat16 treated as float16. The two together give float32.

    Parameters
    ----------
    a, b : dtype_like
        The two dtypes.

    Returns
    -------
    numpy.dtype
        The dtype.

    Raises
    ------
    TypeError
        An argument is not a dtype.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.promote_types(cm.int32, cm.float32), cm.promote_types(cm.bfloat16, cm.float16)
    (dtype('float64'), dtype('float32'))
    """
    if getattr(a, "metadata", None) or getattr(b, "metadata", None):
        return np.promote_types(a, b)
    try:
        return _promoted[a, b]
    except (KeyError, TypeError):  # not seen before, or nothing that a dict can look up
        found = dtypes.promote(
            dtypes.as_dtype(a, "promote_types"), dtypes.as_dtype(b, "promote_types")
        )
    if len(_promoted) < _MOST_PAIRS:
        _promoted[a, b] = found  # as_dtype has looked both up
    return found


#: Pairs of what stands for dtypes -> the common one.
_promoted: dict[tuple, np.dtype] = {}
_MOST_PAIRS = 4096


# -------------------- the array API's inspection

_STANDARD = [
    np.dtype(n)
    for n in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
        "complex64",
        "complex128",
    )
]


class Info:
    """What `cm.__array_namespace_info__()` returns: the inspection functions of the array API."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and shapes that depend on data are supported; arrays have at most 64
        dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The default device: where new arrays are created."""
        return default_device()

    def devices(self) -> tuple[Device, ...]:
        """The CPU and every GPU."""
        return tuple([device_of(i) for i in (devices.CPU, *range(device_count()))])

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of Python's floats, complex numbers and integers, and of indices."""
        index_of(device)
        return {
            "real floating": dtypes.scalar_dtype(float),
            "complex floating": dtypes.scalar_dtype(complex),
            "integral": np.dtype(np.int64),
            "indexing": np.dtype(np.int64),
        }

    def dtypes(
        self, *, device: Any = None, kind: str | Sequence[str] | None = None
    ) -> dict[str, np.dtype]:
        """Name -> dtype, of those of the standard that are of a kind (see `cm.isdtype`); every
        device has all of them."""
        index_of(device)
        return {d.name: d for d in _STANDARD if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> Info:
    """The array API's inspection functions: capabilities, devices and dtypes of this namespace.

    >>> import cudamath as cm
    >>> info = cm.__array_namespace_info__()
    >>> info.default_dtypes()["integral"], "float32" in info.dtypes(kind="real floating")
    (dtype('int64'), True)
    """
    return Info()
