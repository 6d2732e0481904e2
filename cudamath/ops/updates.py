"""`x.at[key]`: updates that return a new array and leave ``x`` as it is.

An update is a copy and what ``x[key] = values`` or ``cm.add_at`` does to it, as one op with a
gradient. Masks become positions, as everywhere in indexing; one value under one mask is a choice
between two arrays (`where`), which needs no positions and does not wait for a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import advanced_indexing, shapes
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.dispatch.checks import MISTAKES, as_of, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Category, Composed
from ..core.dtypes import ANY, INEXACT, NUMERIC, REAL_OR_BOOL
from ..core.typing import ArrayLike, Index
from ..core.view_cache import lookup_view
from . import elementwise
from .creation import full_like, ones_like, zeros_like
from .index import _fitted, _given, getitem, setitem
from .masks import nonzero
from .ranges import arange
from .shape import _reshape, astype, copy, pattern, reshape
from .ufunc_at import checked_values, fold_into
from .where import _SCALARS, where

__all__: list[str] = []


class _Array:
    """Stands in a key for an index array."""

    def __repr__(self) -> str:
        return "array"


_ARRAY = _Array()
Key = tuple[Any, ...]  # the parts of a key, with _ARRAY for each index array


def _filled(key: Key, arrays: tuple[ndarray, ...]) -> Key:
    """A key with its index arrays."""
    rest = iter(arrays)
    return tuple([next(rest) if part is _ARRAY else part for part in key])


# -------------------- the op


def _values(
    kind: str, x: ndarray, values: ndarray, *arrays: ndarray, key: Key, **_: Any
) -> ndarray:
    """A copy of x, updated."""
    out = copy(x)
    whole = _filled(key, arrays)
    if kind == "set":
        setitem(out, whole, values)
    else:
        fold_into(f"at.{kind}", kind, _FUNCTIONS[kind], out, whole, values)
    return out


def _last(x: ndarray, arrays: tuple[ndarray, ...], key: Key, shape: tuple[int, ...]) -> ndarray:
    """Where an assignment of this shape is the last one to its position, which stays."""
    count = 1
    for n in shape:
        count *= n
    order = reshape(arange(count, device=x.device), shape)
    whole = _filled(key, arrays)
    places = zeros_like(x, dtype="int64")
    setitem(places, whole, order)
    return elementwise.equal(getitem(places, whole), order)


def _cleared(
    g: ndarray, _y: Any, _x: Any, _v: Any, *arrays: ndarray, key: Key, unique: bool
) -> ndarray:
    """g, and 0 where another value has been set."""
    return _updated(g, 0, arrays, key, unique, "set")


def _scaled(
    g: ndarray, _y: Any, _x: Any, v: ndarray, *arrays: ndarray, key: Key, unique: bool
) -> ndarray:
    """g times the factors."""
    return g * elementwise.conj_or_same(_updated(ones_like(g), v, arrays, key, unique, "multiply"))


def _set_grad(
    g: ndarray, _y: Any, _x: Any, _v: Any, *arrays: ndarray, key: Key, unique: bool
) -> ndarray:
    chosen = getitem(g, _filled(key, arrays))
    return chosen if unique else where(_last(g, arrays, key, chosen.shape), chosen, 0)


def _product_of_others(v: ndarray, arrays: tuple[ndarray, ...], key: Key, like: ndarray) -> ndarray:
    """For each of the values the product of all others at its position. A zero is taken out of the
    product and counted."""
    zero = elementwise.equal(v, 0)
    product = _updated(ones_like(like), where(zero, 1, v), arrays, key, False, "multiply")
    zeros = _updated(zeros_like(like, dtype="int64"), zero, arrays, key, False, "add")
    whole = _filled(key, arrays)
    product, zeros = getitem(product, whole), getitem(zeros, whole)
    rest = where(zero, product, product / where(zero, 1, v))
    return where(elementwise.greater(zeros, astype(zero, zeros.dtype)), 0, rest)


def _multiply_grad(
    g: ndarray, _y: Any, x: ndarray, v: ndarray, *arrays: ndarray, key: Key, unique: bool
) -> ndarray:
    whole = _filled(key, arrays)
    factor = getitem(x, whole)
    if not unique:
        factor = factor * _product_of_others(v, arrays, key, x)
    return getitem(g, whole) * elementwise.conj_or_same(factor)


def _attains(x: ndarray, extreme: ndarray) -> ndarray:
    return elementwise.logical_or(elementwise.equal(x, extreme), elementwise.isnan(x))


def _shares(
    g: ndarray, y: ndarray, x: ndarray, v: ndarray, arrays: tuple[ndarray, ...], key: Key
) -> ndarray:
    """g divided by how many attain the extreme: the element itself and the values at its
    position."""
    attain = astype(_attains(v, getitem(y, _filled(key, arrays))), x.dtype)
    count = _updated(astype(_attains(x, y), x.dtype), attain, arrays, key, False, "add")
    return g / elementwise.maximum(count, 1)


def _extreme_grad_x(
    g: ndarray, y: ndarray, x: ndarray, v: ndarray, *arrays: ndarray, key: Key, **_: Any
) -> ndarray:
    return where(_attains(x, y), _shares(g, y, x, v, arrays, key), 0)


def _extreme_grad_v(
    g: ndarray, y: ndarray, x: ndarray, v: ndarray, *arrays: ndarray, key: Key, **_: Any
) -> ndarray:
    whole = _filled(key, arrays)
    shares = getitem(_shares(g, y, x, v, arrays, key), whole)
    return where(_attains(v, getitem(y, whole)), shares, 0)


#: By kind: the gradient rules of x and of the values, and what they use (the result, x, the
#: values).
_RULES: dict[str, tuple[Callable, Callable, tuple[bool, bool, bool]]] = {
    "set": (
        _cleared,
        _set_grad,
        (False, False, False),
    ),
    "add": (
        lambda g, _y, _x, _v, *_arrays, key, unique: g,
        lambda g, _y, _x, _v, *arrays, key, unique: getitem(g, _filled(key, arrays)),
        (False, False, False),
    ),
    "multiply": (
        _scaled,
        _multiply_grad,
        (False, True, True),
    ),
    "min": (_extreme_grad_x, _extreme_grad_v, (True, True, True)),
    "max": (_extreme_grad_x, _extreme_grad_v, (True, True, True)),
}
_FUNCTIONS: dict[str, Callable] = {
    "add": elementwise.add,
    "multiply": elementwise.multiply,
    "min": elementwise.minimum,
    "max": elementwise.maximum,
}


def _no_gradient(*_: Any, **__: Any) -> None:
    """The gradient rule of positions."""


class _Update(Composed):
    """The op of a kind of update by so many index arrays."""

    def __init__(self, kind: str, arrays: int):
        self.name, self.broadcasts = f"at.{kind}", True
        self.function = functools.partial(_values, kind)
        of_x, of_values, (output, *inputs) = _RULES[kind]
        self.vjp = (of_x, of_values, *[_no_gradient] * arrays)
        self._saves = output, (*inputs, *[True] * arrays)


_op = functools.cache(_Update)


@fast_path("x", "values?", "*arrays", scalars=False)
def _updated(
    x: ndarray, values: Any, arrays: tuple[ndarray, ...], key: Key, unique: bool, kind: str
) -> ndarray:
    """The update of a kind, values cast to x's dtype and broadcast to what the key selects. unique:
    whether no position occurs twice."""
    name = f"at.{kind}"
    values = _fitted(name, _cast(name, x, values), _selection(x, _filled(key, arrays)))
    if x.dtype not in INEXACT:
        values = values._alias()  # whole numbers have no gradient
    return _op(kind, len(arrays))(x, values, *arrays, key=key, unique=unique)


def _cast(name: str, x: ndarray, values: Any) -> ndarray:
    """Values as an array of x's dtype on x's device."""
    if values.__class__ in _SCALARS:
        pattern(name, values, x.dtype)  # for its errors
        return full_like(x, values, shape=())
    return astype(_given(name, x, values), x.dtype, copy=False)


def _chosen(kind: str, x: ndarray, mask: ndarray, value: ndarray) -> ndarray:
    """The update by one value under a mask that broadcasts to x."""
    if kind == "set":
        return where(mask, value, x)
    # gradients must not see what the function does to elements that are not chosen
    updated = _FUNCTIONS[kind](where(mask, x, ones_like(x, shape=())), value)
    return where(mask, updated, x)


# -------------------- keys


def _selection(x: ndarray, key: Key) -> tuple[int, ...]:
    """The shape of ``x[key]``; all masks in the key are the literals True and False."""
    view = lookup_view(x._layout, key)
    if view is not None:
        return view[0].shape
    form = advanced_indexing.advanced(x.shape, x.strides, key)
    lengths = [(int(np.count_nonzero(a)),) if a.dtype.kind == "b" else a.shape for a in form.arrays]
    try:
        common = shapes.broadcast_shapes("index", *lengths)
    except ValueError as error:
        raise IndexError(str(error)) from None
    return advanced_indexing.result_shape(form, common)


def _parts(x: ndarray, key: Any) -> tuple[Key, tuple[ndarray, ...], bool]:
    """A key with _ARRAY for each index array, these arrays on x's device, each mask as positions;
    and whether no position can occur twice."""
    items = key if type(key) is tuple else (key,)
    parts: list[Any] = []
    arrays: list[ndarray] = []
    masks = 0
    for item in map(advanced_indexing._item, items):
        if item is None or item is Ellipsis or type(item) in (int, slice):
            parts.append(item)
            continue
        array = asarray(item, device=x.device)
        if array.dtype.kind != "b":
            arrays.append(array)
            parts.append(_ARRAY)
        elif array.ndim:
            masks += 1
            arrays += nonzero(array)
            parts += [_ARRAY] * array.ndim
        else:
            parts.append(bool(array))
    positions = sum(array.size > 1 for array in arrays)
    return tuple(parts), tuple(arrays), not positions or len(arrays) == masks == 1


def _mask(x: ndarray, key: Any) -> ndarray | None:
    """A key that is one mask over the first axes of x, with axes for the others; None for any other
    key."""
    if not isinstance(key, ndarray | np.ndarray) or key.dtype.kind != "b" or not key.ndim:
        return None
    if key.shape != x.shape[: key.ndim]:
        return None  # to be told by what indexes
    mask = asarray(key, device=x.device)
    shape = mask.shape + (1,) * (x.ndim - mask.ndim)
    return mask if shape == mask.shape else _reshape(mask, shape=shape, old=mask.shape)


# -------------------- the public face


class Selection:
    """Elements of an array that an update changes: ``x.at[key]``.

    Parameters
    ----------
    array : ndarray
        Array of any shape and dtype.
    key : index
        Index of the elements: everything that ``x[key]`` accepts.
    """

    __slots__ = ("_array", "_key")

    def __init__(self, array: ndarray, key: Index):
        self._array, self._key = array, key

    def get(self) -> ndarray:
        """Return the elements: ``x[key]``, always as an array of its own.

        Returns
        -------
        ndarray
            Array of the elements.
        """
        chosen = getitem(self._array, self._key)
        return copy(chosen) if lookup_view(self._array._layout, self._key) is not None else chosen

    def set(self, values: ArrayLike) -> ndarray:
        """Return x after ``x[key] = values``. Of repeated positions the last one takes effect.

        Parameters
        ----------
        values : array_like
            Values that are broadcast to the selection and cast to x's dtype.

        Returns
        -------
        ndarray
            New array of x's shape and dtype.
        """
        return self._update("set", values, ANY)

    def add(self, values: ArrayLike) -> ndarray:
        """Return x after ``x[key] += values``, once for each time that a position occurs.

        Parameters
        ----------
        values : array_like
            Values that are broadcast to the selection and cast to x's dtype.

        Returns
        -------
        ndarray
            New array of x's shape and dtype.
        """
        return self._update("add", values, NUMERIC)

    def subtract(self, values: ArrayLike) -> ndarray:
        """Return x after ``x[key] -= values``, once for each time that a position occurs.

        Parameters
        ----------
        values : array_like
            Values that are broadcast to the selection and cast to x's dtype.

        Returns
        -------
        ndarray
            New array of x's shape and dtype.
        """
        return self._update("add", values, NUMERIC, "subtract")

    def multiply(self, values: ArrayLike) -> ndarray:
        """Return x after ``x[key] *= values``, once for each time that a position occurs.

        Parameters
        ----------
        values : array_like
            Values that are broadcast to the selection and cast to x's dtype.

        Returns
        -------
        ndarray
            New array of x's shape and dtype.
        """
        return self._update("multiply", values, NUMERIC)

    def divide(self, values: ArrayLike) -> ndarray:
        """Return x after ``x[key] /= values``, once for each time that a position occurs.

        Values at one position are multiplied first.

        Parameters
        ----------
        values : array_like
            Values that are broadcast to the selection and cast to x's dtype.

        Returns
        -------
        ndarray
            New array of x's shape and dtype, which is floating-point or complex.
        """
        return elementwise.divide(self._array, self._factors("divide", values, INEXACT))

    def power(self, values: ArrayLike) -> ndarray:
        """Return x after ``x[key] **= values``, once for each time that a position occurs.

        Values at one position are multiplied first.

        Parameters
        ----------
        values : array_like
            Values that are broadcast to the selection and cast to x's dtype.

        Returns
        -------
        ndarray
            New array of x's shape and dtype.
        """
        x = self._array
        exponents = self._factors("power", values, NUMERIC)
        chosen = Selection(zeros_like(x, dtype="bool"), self._key).set(True)
        # the logarithm in the gradient must not see elements that are not chosen
        powers = elementwise.pow(where(chosen, x, ones_like(x)), exponents)
        return where(chosen, powers, x)

    def min(self, values: ArrayLike) -> ndarray:
        """Return x after ``x[key] = minimum(x[key], values)``, for each time a position occurs.

        Parameters
        ----------
        values : array_like
            Values that are broadcast to the selection and cast to x's dtype.

        Returns
        -------
        ndarray
            New array of x's shape and dtype, which is not complex.
        """
        return self._update("min", values, REAL_OR_BOOL)

    def max(self, values: ArrayLike) -> ndarray:
        """Return x after ``x[key] = maximum(x[key], values)``, for each time a position occurs.

        Parameters
        ----------
        values : array_like
            Values that are broadcast to the selection and cast to x's dtype.

        Returns
        -------
        ndarray
            New array of x's shape and dtype, which is not complex.
        """
        return self._update("max", values, REAL_OR_BOOL)

    def _factors(self, name: str, values: Any, category: Category) -> ndarray:
        """Ones, multiplied by the values at the key."""
        x = require(f"at.{name}", self._array, category)
        return Selection(ones_like(x), self._key)._update("multiply", values, category, name)

    def _update(self, kind: str, values: Any, category: Category, name: str = "") -> ndarray:
        """The update of a kind. name: of the method, if it is not the kind."""
        name = f"at.{name or kind}"
        x = require(name, self._array, category)
        try:
            if kind != "set":
                values = checked_values(name, kind, x, values)
            if name == "at.subtract":
                values = elementwise.negative(_cast(name, x, values))
            mask = _mask(x, self._key)
            if mask is not None and (values.__class__ in _SCALARS or np.ndim(values) == 0):
                return _chosen(kind, x, mask, _cast(name, x, values))
            key, arrays, unique = _parts(x, self._key)
            return _updated(x, values, arrays, key, unique, kind)
        except MISTAKES as error:
            raise as_of(name, error) from None


class At:
    """What ``x.at`` is: indexed by a key, it gives the elements to update.

    Parameters
    ----------
    array : ndarray
        Array of any shape and dtype.
    """

    __slots__ = ("_array",)

    def __init__(self, array: ndarray):
        self._array = array

    def __getitem__(self, key: Index) -> Selection:
        return Selection(self._array, key)
