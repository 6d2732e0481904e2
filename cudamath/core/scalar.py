"""Scalars: what NumPy returns as a scalar is a value here too.

An element `x[i]`, a reduction over all axes, and arithmetic of such are values: later writes to an
array do not change them, and `t += h` makes a new one. Their class depends on where they are:

    on the CPU                                   NumPy's scalar: np.float64, np.int64, ...
    on a GPU; while a gradient is recorded or    a `Scalar`: an array without dimensions that
    a function is traced; bfloat16               refuses writes, and otherwise acts as NumPy's do

Inside of this package all results are arrays. A public function turns its result into a scalar
where it returns to the user: `fast_path` and the operators do that for theirs, `scalar_results` for
the rest. Functions that return arrays without dimensions in NumPy (`zeros`, `reshape`, `asarray`,
`where`, ...) do so here.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from ..runtime.errors import shown_as
from ..runtime.interrupts import uninterrupted
from . import dtypes
from .array import ndarray, wrap
from .devices import CPU
from .dispatch.call_record import open_records, returns_to_user, values_unread
from .layout import Layout
from .recording import insiders, state

Function = TypeVar("Function", bound=Callable[..., Any])

#: NumPy's scalar types that take the place of an array without dimensions on the CPU.
NUMPY_SCALARS: frozenset[type] = frozenset(
    [d.type for d in dtypes.ANY if d.type.__module__ == "numpy"]
)


class Scalar(ndarray):
    """A value on a device: an array without dimensions that nothing changes.

    It converts, compares, hashes and prints as NumPy's scalars do. These wait for the device;
    arithmetic does not.

    Parameters
    ----------
    *args : object
        Accepted only to raise an error, as those of `ndarray` are.
    **kwargs : object
        Accepted only to raise an error, as those of `ndarray` are.

    Examples
    --------
    >>> import cudamath as cm
    >>> total = cm.sum(cm.array([1.0, 2.0, 3.0]))
    >>> before = total
    >>> total += 1
    >>> float(before), float(total), hash(before) == hash(6.0)
    (6.0, 7.0, True)
    """

    __slots__ = ()
    _is_scalar = True

    def own_array(self) -> ndarray:
        """A new array without dimensions that has this value."""
        out = self.copy()
        out.__class__ = ndarray
        return out

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        """This value in another dtype, as a scalar."""
        return to_user(ndarray.astype(self, *args, **kwargs))  # type: ignore[attr-defined]

    def __getitem__(self, key: Any) -> Any:
        if key == ():
            return self
        if (
            key is Ellipsis
            or key is None
            or type(key) is tuple
            and {None, Ellipsis}.issuperset(key)
        ):
            return self.own_array()[key]
        raise IndexError("index: invalid index to scalar variable")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(f"setitem: a scalar of {self.dtype} does not support item assignment")

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.to_numpy()[()])

    def __repr__(self) -> str:
        return repr(self.to_numpy()[()])

    def __copy__(self) -> Scalar:
        return self

    def __deepcopy__(self, memo: Any) -> Scalar:
        return self

    def __reduce__(self) -> tuple:
        return _restore, (self.own_array(),)


class BoolScalar(Scalar):
    """A truth value on a device."""

    __slots__ = ()


class IntegerScalar(Scalar):
    """An integer on a device."""

    __slots__ = ()

    def is_integer(self) -> bool:
        """True: as Python's integers have it."""
        return True

    def bit_count(self) -> int:
        """How many bits of the magnitude are 1. Waits for the device."""
        return int(self).bit_count()

    @property
    def numerator(self) -> Scalar:
        """The value itself."""
        return self

    @property
    def denominator(self) -> int:
        """1."""
        return 1


class RealScalar(Scalar):
    """A floating-point number on a device."""

    __slots__ = ()

    def is_integer(self) -> bool:
        """Whether the value is finite and whole. Waits for the device."""
        return float(self).is_integer()

    def as_integer_ratio(self) -> tuple[int, int]:
        """The value as a fraction in lowest terms, its denominator above 0. Waits for the device.

        Returns
        -------
        tuple of int
            Numerator and denominator.

        Raises
        ------
        OverflowError
            The value is infinite.
        ValueError
            The value is NaN.
        """
        return float(self).as_integer_ratio()


class ComplexScalar(Scalar):
    """A complex number on a device."""

    __slots__ = ()


numbers.Integral.register(IntegerScalar)
numbers.Real.register(RealScalar)
numbers.Complex.register(ComplexScalar)

_CLASSES: dict[str, type[Scalar]] = {
    "b": BoolScalar,
    "i": IntegerScalar,
    "u": IntegerScalar,
    "c": ComplexScalar,
}


def _no_inplace(x: Scalar, other: Any) -> Any:
    """`x += other` of a scalar: Python then evaluates x + other."""
    return NotImplemented


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    setattr(Scalar, f"__i{_name}__", _no_inplace)


class StandardArray(ndarray):
    """An array without dimensions that a function of the array API has returned: results of
    operators and functions on it are such arrays and no scalars. See
    core/interop/array_api_namespace.py.

    Parameters
    ----------
    *args : object
        Accepted only to raise an error, as those of `ndarray` are.
    **kwargs : object
        Accepted only to raise an error, as those of `ndarray` are.
    """

    __slots__ = ()


def result_of(x: ndarray, arguments: tuple) -> Any:
    """A new array without dimensions as the user gets it who passed these arguments."""
    recorded = False
    for a in arguments:
        if isinstance(a, ndarray):
            if a.__class__ is StandardArray:
                x.__class__ = StandardArray
                return x
            recorded = recorded or a._node is not None
    return scalar(x, recorded)


def is_numpys(layout: Layout) -> bool:
    """Whether NumPy's scalar takes the place of an unrecorded array of this layout."""
    return layout.device == CPU and layout.dtype.type in NUMPY_SCALARS


@functools.cache
def scalar_class(dtype: np.dtype) -> type[Scalar]:
    """The class of scalars of a dtype."""
    return _CLASSES.get(dtype.kind, RealScalar)


def scalar(x: ndarray, recorded: bool = False) -> Any:
    """The scalar of a new array without dimensions. Only its producer may call this: the array
    itself becomes the scalar, unless NumPy's takes its place. recorded: a node will be attached."""
    layout = x._layout
    if (
        not recorded
        and x._node is None
        and is_numpys(layout)
        and not (open_records and values_unread())  # a program has no values yet
    ):
        return x._data[()]
    x.__class__ = scalar_class(layout.dtype)
    return x


def as_arrays(name: str, results: list) -> list[ndarray]:
    """What a function of the user returned, as arrays: a scalar of NumPy, which does not depend on
    what is differentiated, becomes an array again."""
    arrays = []
    for y in results:
        if type(y) in NUMPY_SCALARS:
            y = scalar(wrap(np.asarray(y)), recorded=True)
        if not isinstance(y, ndarray):
            raise TypeError(f"{name} must return arrays, got {type(y).__name__}")
        arrays.append(y)
    return arrays


def _restore(x: ndarray) -> Any:
    return scalar(x)


# -------------------- where a public function returns


class inside:
    """A context in which functions of this package return arrays, because this package calls
    them."""

    def __enter__(self) -> None:
        global insiders  # no call changes it, after which an interrupt could come
        self.before = state.inside
        insiders += [self]
        state.inside = True

    @uninterrupted
    def __exit__(self, *_: object) -> None:
        state.inside = self.before
        del insiders[-1]


def as_array(function: Callable, args: tuple, options: dict[str, Any]) -> Any:
    """The result of a function as an array, also without dimensions: what `out=...` asks for."""
    with inside():
        return function(*args, **{name: v for name, v in options.items() if name != "out"})


def is_outermost() -> bool:
    """Whether this call comes from the user, and not from another function of this package."""
    return not state.inside and (not open_records or returns_to_user())


def to_user(result: Any, arguments: tuple = ()) -> Any:
    """A result as the user gets it: arrays without dimensions as scalars, also in a tuple.

    Parameters
    ----------
    result : object
        What the function returned.
    arguments : tuple
        The arguments of the function. One that was returned itself is copied first.

    Returns
    -------
    object
        The result.
    """
    if isinstance(result, ndarray):
        if result._layout.ndim or not is_outermost():
            return result
        if not isinstance(result, Scalar) and any([result is a for a in _members(arguments)]):
            result = result.copy()
        return result_of(result, arguments)
    if isinstance(result, tuple) and any(
        [isinstance(y, ndarray) and not y._layout.ndim for y in result]
    ):
        members = [to_user(y, arguments) for y in result]
        kind: Any = type(result)
        return kind(members) if kind is tuple else kind(*members)
    return result


def arrays_to_user(result: Any, arguments: tuple) -> Any:
    """Arrays as the user gets them from a function that makes views: a view of a scalar is copied,
    because who writes into it must not change the scalar."""
    if not is_outermost():
        return result
    arguments = _members(arguments)
    if any([a.__class__ is StandardArray for a in arguments]) and isinstance(result, ndarray):
        if not result._layout.ndim:
            result.__class__ = StandardArray
        return result
    scalars = [a for a in arguments if isinstance(a, Scalar)]
    if not scalars:
        return result
    if isinstance(result, ndarray):
        own = [a for a in scalars if a._address == result._address]
        return result.copy() if own else result
    if isinstance(result, (tuple, list)):
        return type(result)([arrays_to_user(y, arguments) for y in result])
    return result


def own_memory(result: Any, arguments: Iterable[Any]) -> None:
    """Results that are views of arrays made on the way are no views for the caller."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    views = [y for y in results if isinstance(y, ndarray) and y._base is not None]
    if views:
        arrays = [x for x in arguments if isinstance(x, ndarray)]
        for x in arguments:
            arrays += (
                [each for each in x if isinstance(each, ndarray)]
                if type(x) in (list, tuple)
                else []
            )
        lenders = {id(x if x._base is None else x._base) for x in arrays}
        for y in views:
            if id(y._base) not in lenders:
                y._base = None


def _members(arguments: tuple) -> tuple:
    """Arguments, with the members of those that are sequences of arrays (`*arrays`)."""
    if not any([a.__class__ is tuple or a.__class__ is list for a in arguments]):
        return arguments
    return tuple(
        [y for a in arguments for y in (a if isinstance(a, (tuple, list)) else (a,))],
    )


def scalar_results(function: Function) -> Function:
    """Decorate a public function that is not replayed: its results without dimensions are scalars,
    but for the array that it was given as `out`.

    Parameters
    ----------
    function : callable
        A public function. It does not call functions of the user.

    Returns
    -------
    callable
        The function.
    """

    code = inspect.unwrap(function).__code__
    names = code.co_varnames[: code.co_argcount]  # those of a signature would cost the import
    place = names.index("out") if "out" in names else len(names)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is ...:
            return as_array(function, args, kwargs)
        if not is_outermost():
            return function(*args, **kwargs)
        with inside():
            result = function(*args, **kwargs)
        own_memory(result, (*args, *kwargs.values()))
        if result.__class__ is ndarray and result._layout.ndim:
            return result
        out = args[place] if len(args) > place else kwargs.get("out")
        if out is not None and (result is out or type(out) is tuple and result is out[0]):
            return result
        return to_user(result, (*args, *kwargs.values()))

    return shown_as(function.__name__, call)  # type: ignore[return-value]
