"""Joining, splitting and rearranging: ``concat`` and what is made of it, rolling, tiles and
repeats."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtypes, shapes
from ..core.array import asarray, ndarray, wrap
from ..core.devices import CPU
from ..core.layout import Layout
from ..core.op import Op, coerce, lazy, members, require, seen_as
from ..core.shapes import normalize_axis
from .shape import (
    Axes,
    _broadcast,
    _cast,
    _copy,
    _reshape,
    atleast_1d,
    atleast_2d,
    expand_dims,
    ravel,
    reshape,
    span,
    view_of,
)
from .views import remember

__all__ = [
    "array_split",
    "concat",
    "concatenate",
    "hstack",
    "repeat",
    "roll",
    "split",
    "stack",
    "tile",
    "unstack",
    "vstack",
]

# -------------------- cards


def _pieces(g: ndarray, axis: int, sizes: tuple) -> tuple[ndarray, ...]:
    ends = list(itertools.accumulate(sizes))
    return tuple([span(g, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)])


_concat = Op(
    "concat",
    cpu="shape.concat",
    cuda="join.concat",
    vjp=lambda g, _y, *_xs, axis, sizes: _pieces(g, axis, sizes),
)
_roll: Op = Op(
    "roll",
    cpu="shape.roll",
    cuda="roll.roll",
    vjp=lambda g, _y, _x, shifts: (
        _roll(
            g, shifts=tuple([step and n - step for step, n in zip(shifts, g.shape, strict=True)])
        ),
    ),
)


# -------------------- joining, splitting


def concat(
    arrays: Sequence[Any],
    /,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> ndarray:
    """The arrays one after another along an existing axis.

    Args: arrays: at least one, of equal shape but along ``axis``; axis: None ravels them first;
    out: array for the result; dtype: of the result, by default their common one; casting: NumPy's
    rule for that. Returns: a new array, or ``out``. Raises: ValueError if there are none, one is
    0-d, shapes differ, or for another rule; TypeError if the dtype is refused. Gradient: its
    pieces.

    >>> import cudamath as cm
    >>> cm.concat([cm.asarray([1, 2]), cm.asarray([3.5])])
    array([1. , 2. , 3.5])
    """
    key = ("concat", axis, axis.__class__)
    if (
        out is None
        and dtype is None
        and casting == "same_kind"
        and arrays.__class__ in (list, tuple)
    ):
        known = _concat.again(key, arrays)
        if known is not None:
            return known
    return _delivered("concat", _joined("concat", arrays, axis, dtype, casting, key), out, casting)


def concatenate(
    arrays: Sequence[Any],
    /,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> ndarray:
    """NumPy's name of ``concat``.

    Args, Returns, Raises, Gradient: as for ``concat``.

    >>> import cudamath as cm
    >>> cm.concatenate([cm.zeros((2, 1)), cm.ones((2, 1))], axis=1)
    array([[0., 1.],
           [0., 1.]])
    """
    key = ("concatenate", axis, axis.__class__)
    if (
        out is None
        and dtype is None
        and casting == "same_kind"
        and arrays.__class__ in (list, tuple)
    ):
        known = _concat.again(key, arrays)
        if known is not None:
            return known
    return _delivered(
        "concatenate", _joined("concatenate", arrays, axis, dtype, casting, key), out, casting
    )


def _inputs(name: str, arrays: Any) -> list[ndarray]:
    arrays = members(name, arrays)
    if not arrays:
        raise ValueError(f"{name}: wants at least one array")
    return coerce(name, arrays)


def _delivered(name: str, result: ndarray, out: Any, casting: str) -> ndarray:
    if out is None:
        return result
    from .output import deliver

    return deliver(name, result, out, casting)


def _joined(
    name: str,
    arrays: Sequence[Any],
    axis: int | None,
    dtype: Any = None,
    casting: str = "same_kind",
    key: tuple | None = None,
    given: Sequence[ndarray] | None = None,
) -> ndarray:
    """key: under which the card finds such a join of arrays as `given` again (by default as these
    are)."""
    asked = None
    usual = dtype is None and casting == "same_kind"
    if arrays.__class__ in (list, tuple) and axis.__class__ is int and usual and given is None:
        asked = key, axis, *[x._layout if type(x) is ndarray else None for x in arrays]
        if asked in _checked:  # where a gradient is recorded
            axis, sizes = _checked[asked]
            return _concat(*arrays, axis=axis, sizes=sizes)
    inputs = _inputs(name, arrays)
    given = given or inputs
    if axis is None:
        inputs, axis = [ravel(x) for x in inputs], 0
    first = inputs[0].shape
    if not all(x.ndim for x in inputs):
        raise ValueError(
            f"{name}: 0-d arrays cannot be joined along an axis; got shapes {_listed(inputs)}"
        )
    axis = normalize_axis(name, axis, len(first))
    for x in inputs:
        if (
            x.ndim != len(first)
            or x.shape[:axis] != first[:axis]
            or x.shape[axis + 1 :] != first[axis + 1 :]
        ):
            raise ValueError(
                f"{name}: shapes must be equal but along axis {axis}, got {_listed(inputs)}"
            )
    dtype = dtypes.result_type(*inputs) if dtype is None else dtypes.as_dtype(dtype, name)
    if not usual:
        from .output import can_write, casting_rule

        for x in inputs:
            if not can_write(x.dtype, dtype, casting_rule(name, casting)):
                raise TypeError(f"{name}: {x.dtype} cannot become {dtype} by the rule {casting!r}")
    inputs = [x if x.dtype == dtype else _cast(x, dtype=dtype) for x in inputs]
    sizes = tuple([x.shape[axis] for x in inputs])
    out = _concat(*inputs, axis=axis, sizes=sizes)
    if key is not None and usual:
        _concat.remember(key, given, inputs, axis=axis, sizes=sizes)
    if asked is not None and all([x is y for x, y in zip(arrays, inputs, strict=True)]):
        remember(_checked, asked, (axis, sizes))
    return out


#: Joins of arrays as they are that were found right: (key, axis, *layouts) -> (axis from the front,
#: sizes along it).
_checked: dict[tuple, tuple[int, tuple[int, ...]]] = {}


def _listed(inputs: Sequence[ndarray]) -> str:
    return ", ".join([str(x.shape) for x in inputs])


def stack(
    arrays: Sequence[Any],
    axis: int = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> ndarray:
    """The arrays, all of one shape, along a new axis.

    Args: arrays: at least one; axis: place of the new axis in the result; out, dtype, casting: as
    for ``concat``. Raises: ValueError if there are none or shapes differ. Gradient: its slices.

    >>> import cudamath as cm
    >>> cm.stack([cm.asarray([1, 2]), cm.asarray([3, 4])], axis=1)
    array([[1, 3],
           [2, 4]])
    """
    key = ("stack", axis, axis.__class__)
    if (
        out is None
        and dtype is None
        and casting == "same_kind"
        and arrays.__class__ in (list, tuple)
    ):
        known = _concat.again(key, arrays)
        if known is not None:
            return known
    inputs = _inputs("stack", arrays)
    usual = out is None and dtype is None and casting == "same_kind"
    if (
        inputs[0]._layout.device == CPU
        and usual
        and type(axis) is int
        and not any([x._node is not None or x._layout is not inputs[0]._layout for x in inputs])
        and (-inputs[0].ndim - 1 <= axis <= inputs[0].ndim)
    ):
        return wrap(np.stack([x._data for x in inputs], axis))
    if any(x.shape != inputs[0].shape for x in inputs):
        raise ValueError(f"stack: wants arrays of one shape, got {_listed(inputs)}")
    axis = normalize_axis("stack", axis, inputs[0].ndim + 1)
    slices = [expand_dims(x, axis=axis) for x in inputs]
    return _delivered(
        "stack", _joined("stack", slices, axis, dtype, casting, key, inputs), out, casting
    )


def vstack(arrays: Sequence[Any], /, *, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    """The arrays under one another: along axis 0, 1-d arrays as rows. See ``concat``.

    Args: arrays: at least one, of equal shape but along that axis; dtype, casting: as for
    ``concat``. Returns: a new array. Raises: ValueError (shapes). Gradient: g's part at each array.

    >>> import cudamath as cm
    >>> cm.vstack([cm.asarray([1, 2]), cm.asarray([3, 4])])
    array([[1, 2],
           [3, 4]])
    """
    key = ("vstack",)
    if dtype is None and casting == "same_kind" and arrays.__class__ in (list, tuple):
        known = _concat.again(key, arrays)
        if known is not None:
            return known
    given = _inputs("vstack", arrays)
    return _joined("vstack", [atleast_2d(x) for x in given], 0, dtype, casting, key, given)


def hstack(arrays: Sequence[Any], /, *, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    """The arrays side by side: along axis 1, or axis 0 if they are 1-d. See ``concat``.

    Args: arrays: at least one, of equal shape but along that axis; dtype, casting: as for
    ``concat``. Returns: a new array. Raises: ValueError (shapes). Gradient: g's part at each array.

    >>> import cudamath as cm
    >>> cm.hstack([cm.asarray([1, 2]), cm.asarray([3])])
    array([1, 2, 3])
    """
    key = ("hstack",)
    if dtype is None and casting == "same_kind" and arrays.__class__ in (list, tuple):
        known = _concat.again(key, arrays)
        if known is not None:
            return known
    given = _inputs("hstack", arrays)
    inputs = [atleast_1d(x) for x in given]
    return _joined("hstack", inputs, 0 if inputs[0].ndim == 1 else 1, dtype, casting, key, given)


def unstack(x: Any, /, axis: int = 0) -> tuple[ndarray, ...]:
    """Views of the slices of ``x`` along an axis, without that axis.

    Args: x: array of at least 1 dimension; axis: the axis. Raises: ValueError if out of bounds.
    Gradient: stacked.

    >>> import cudamath as cm
    >>> cm.unstack(cm.asarray([[1, 2], [3, 4]]))
    (array([1, 2]), array([3, 4]))
    """
    plain = type(x) is ndarray and x._node is None and x._layout.device >= 0 and type(axis) is int
    if plain:
        known = _parts.get((x._layout, "unstack", axis, True))
        if known is not None:
            return tuple([x._view(layout, offset) for layout, offset in known])
    x, asked = require("unstack", x), axis
    axis = normalize_axis("unstack", axis, x.ndim)
    parts = tuple([view_of(x, (*[slice(None)] * axis, i)) for i in range(x.shape[axis])])
    if plain:
        remember(
            _parts,
            (x._layout, "unstack", asked, True),
            [(y._layout, y._data - x._data) for y in parts],  # type: ignore
        )
    return parts  # type: ignore[return-value]


def array_split(
    x: Any, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[ndarray]:
    """Views of ``x`` cut along an axis: into this many parts of nearly equal size (the longer ones
    first), or before each of the given indices.

    Args: x: array of at least 1 dimension; indices_or_sections: how many, or where. Raises:
    ValueError if there are to be no parts or the axis is out of bounds. Gradient: joined.

    >>> import cudamath as cm
    >>> cm.array_split(cm.arange(5), 2)
    [array([0, 1, 2]), array([3, 4])]
    """
    return _cut("array_split", x, indices_or_sections, axis, even=False)


def split(x: Any, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[ndarray]:
    """Views of ``x`` cut along an axis: into this many parts of equal size, or before each of the
    given indices.

    Args: x: array of at least 1 dimension; indices_or_sections: how many, or where. Raises:
    ValueError if the axis cannot be divided evenly or is out of bounds. Gradient: joined.

    >>> import cudamath as cm
    >>> cm.split(cm.arange(6), [1, 3])
    [array([0]), array([1, 2]), array([3, 4, 5])]
    """
    return _cut("split", x, indices_or_sections, axis, even=True)


#: (layout, sections, axis, even) -> (layout, offset in bytes) of the parts, of arrays whose
#: gradient is not recorded
_parts: dict[tuple, list[tuple[Layout, int]]] = {}


def _cut(name: str, x: Any, sections: Any, axis: int, even: bool) -> list[ndarray]:
    x = require(name, x)
    sections = tuple(sections) if sections.__class__ is list else sections
    plain = x._node is None and {
        type(axis),
        *map(type, sections if type(sections) is tuple else (sections,)),
    } == {int}
    if plain:
        known = _parts.get((x._layout, sections, axis, even))
        if known is not None:
            return [x._view(layout, offset) for layout, offset in known]
    size = x.shape[axis := normalize_axis(name, axis, x.ndim)]
    if isinstance(sections, Sequence) or np.ndim(sections) > 0:
        at = [0, *_integers(name, "places", sections), size]
    else:
        (count,) = _integers(name, "a number of parts", [sections])
        if count <= 0:
            raise ValueError(f"{name}: wants at least one part, got {count}")
        if even and size % count:
            raise ValueError(
                f"{name}: axis {axis} of shape {x.shape} cannot be divided into {count} equal parts"
            )
        each, more = divmod(size, count)
        at = [0, *itertools.accumulate([each + 1] * more + [each] * (count - more))]
    parts = [span(x, axis, start, stop) for start, stop in itertools.pairwise(at)]
    if plain:
        step = x._layout.strides[axis]
        remember(
            _parts,
            (x._layout, sections, axis, even),
            [
                (
                    part._layout,
                    (start if start >= 0 else max(start + size, 0)) * step if part.size else 0,
                )
                for part, start in zip(parts, at, strict=False)
            ],
        )
    return parts


def _integers(name: str, what: str, given: Any) -> list[int]:
    try:
        return [operator.index(i) for i in given]
    except TypeError:
        raise TypeError(f"{name}: wants {what} as integers, got {given!r:.80}") from None


# -------------------- rearranging


def roll(x: Any, /, shift: int | Sequence[int], axis: Axes = None) -> ndarray:
    """A copy with the elements shifted by ``shift`` positions; those shifted beyond the end
    reappear at the start.

    Args: x: any array; shift: an integer, or one for each axis; axis: None rolls the raveled array,
    by the sum of several shifts. Raises: ValueError if shifts and axes do not match, TypeError for
    other shifts. Gradient: rolled back.

    >>> import cudamath as cm
    >>> cm.roll(cm.arange(5), 2)
    array([3, 4, 0, 1, 2])
    """
    single = shift.__class__ is int and (axis is None or axis.__class__ is int)
    plain = (
        single
        or shift.__class__ is axis.__class__ is tuple
        and {*map(type, shift), *map(type, axis)} == {int}
    )
    if plain and type(x) is ndarray and x._node is None:
        known = _concat.plans.get(("roll", x._layout, shift, axis))
        if known is not None:
            return known(x)
    x = require("roll", x)
    if isinstance(shift, ndarray | np.ndarray):
        shift = shift.tolist()
    if axis is None:
        flat = ravel(x)
        out = reshape(roll(flat, shift, axis=0), x.shape)
        known = _concat.plans.get(("roll", flat._layout, shift, 0)) if single else None
        if known is not None and flat._data == x._data:
            _concat.keep(("roll", x._layout, shift, None), seen_as(known, out._layout))
        return out
    axes = [
        normalize_axis("roll", a, x.ndim)
        for a in (axis if isinstance(axis, tuple | list) else (axis,))
    ]
    steps: list[Any] = list(shift) if isinstance(shift, tuple | list) else [shift]
    if len(steps) == 1:
        steps *= len(axes)
    if len(axes) == 1:
        axes *= len(steps)
    if len(steps) != len(axes):
        raise ValueError(f"roll: {len(steps)} shifts do not match {len(axes)} axes")
    totals: dict[int, int] = {}
    for a, step in zip(axes, steps, strict=True):
        try:
            totals[a] = totals.get(a, 0) + (
                int(step) if hasattr(step, "__int__") else operator.index(step)
            )
        except (OverflowError, TypeError, ValueError):  # an array, or no finite number
            raise TypeError(f"roll: shifts must be integers, got {shift!r:.80}") from None
    moving = {
        a: step % x.shape[a] for a, step in totals.items() if x.shape[a] and step % x.shape[a]
    }
    if not moving:
        return _copy(x)
    ((a, step), *others) = moving.items()
    if others or a and max(x.shape[:a]) > 1:
        return _rolled(x, moving, ("roll", x._layout, shift, axis) if plain else None)
    parts = [span(x, a, x.shape[a] - step, x.shape[a]), span(x, a, 0, x.shape[a] - step)]
    if x._layout.device >= 0 and plain:
        _concat.keep(("roll", x._layout, shift, axis), _joining("roll", x, parts, a))
    return _joined("roll", parts, a)


def _rolled(x: ndarray, moving: dict[int, int], key: tuple | None) -> ndarray:
    """x rolled along some axes, three at a time; key: under which a call on a GPU finds the plan
    again."""
    if len(moving) > 3:
        first = dict(itertools.islice(moving.items(), 3))
        return _rolled(
            _rolled(x, first, None), {a: step for a, step in moving.items() if a not in first}, None
        )
    shifts = tuple([moving.get(a, 0) for a in range(x.ndim)])
    out = _roll(x, shifts=shifts)
    if key is not None and x._layout.device >= 0:
        _concat.keep(key, _roll.plans[x._layout, shifts])
    return out


def _joining(
    name: str, whole: ndarray, parts: list[ndarray], axis: int
) -> Callable[[ndarray], ndarray]:
    """The join of these parts of an array on a GPU, as a function of the array: they are its own
    elements."""
    layouts = [part._layout for part in parts]
    params: dict[str, Any] = {"axis": axis, "sizes": tuple([part.shape[axis] for part in parts])}
    plan = lazy("kernels", _concat.cuda)(*layouts, **params)
    plan.works = lazy("kernels", "work.of")("concat", plan, tuple(layouts), params)
    return plan.of_one(layouts, tuple([part._data - whole._data for part in parts])).bind(
        name, [whole._layout]
    )


def tile(x: Any, /, reps: int | Sequence[int]) -> ndarray:
    """Copies of ``x`` laid side by side: ``reps`` along each axis, new axes in front if there are
    more of them.

    Args: x: any array; reps: an integer or several, >= 0. Raises: ValueError if negative. Gradient:
    g summed over the copies of each element.

    >>> import cudamath as cm
    >>> cm.tile(cm.asarray([1, 2]), (2, 2))
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    key, given = ("tile", reps, *map(type, reps if isinstance(reps, tuple) else (reps,))), (x,)
    known = _copy.again(key, given)
    if known is not None:
        return known
    x = require("tile", x)
    counts = shapes.normalize_shape("tile", reps)
    ndim = max(len(counts), x.ndim)
    counts = (1,) * (ndim - len(counts)) + counts
    sizes = (1,) * (ndim - x.ndim) + x.shape
    apart = reshape(x, tuple(itertools.chain.from_iterable((1, n) for n in sizes)))
    together = tuple(itertools.chain.from_iterable(zip(counts, sizes, strict=True)))
    spread = _broadcast(apart, shape=together, old=apart.shape)
    copied = _copy(spread)
    out = reshape(copied, tuple([c * n for c, n in zip(counts, sizes, strict=True)]))
    _copy.remember(key, given, (spread,), (copied, out))
    return out


def repeat(x: Any, /, repeats: Any, axis: int | None = None) -> ndarray:
    """Each element (or slice along ``axis``) several times in a row.

    Args: x: any array; repeats: an integer, or one for each element along the axis; axis: None
    ravels first. Raises: ValueError if a number is negative or their count does not fit, TypeError
    if one is no integer. Gradient: g summed over the copies of each element.

    >>> import cudamath as cm
    >>> cm.repeat(cm.asarray([1, 2, 3]), [1, 0, 2])
    array([1, 3, 3])
    """
    key, given = ("repeat", repeats, repeats.__class__, axis, axis.__class__), (x,)
    known = _copy.again(key, given)
    if known is not None:
        return known
    x = require("repeat", x)
    if axis is None or not x.ndim and axis in (0, -1):  # NumPy lets a number be a vector here
        x, axis = ravel(x), 0
    axis = normalize_axis("repeat", axis, x.ndim)
    if type(repeats) is int and repeats >= 0:
        return _each(x, repeats, axis, key, given)
    counts = repeats.to_numpy() if isinstance(repeats, ndarray) else np.asarray(repeats)
    if counts.dtype.kind not in "iu":
        raise TypeError(f"repeat: repeats must be integers, got {counts.dtype}")
    if counts.size and counts.min() < 0:
        raise ValueError(f"repeat: repeats cannot be negative, got {counts.min()}")
    if counts.size == 1:
        return _each(x, int(counts.reshape(())[()]), axis)
    if counts.shape != (x.shape[axis],):
        raise ValueError(
            f"repeat: repeats of shape {counts.shape} do not fit axis {axis} of shape {x.shape}"
        )
    from .index import take

    return take(x, asarray(np.repeat(np.arange(x.shape[axis]), counts), device=x.device), axis=axis)


def _each(x: ndarray, count: int, axis: int, key: tuple = (), given: tuple = ()) -> ndarray:
    """Every slice along an axis so many times in a row; under a key the copy remembers it, as a
    function of `given`."""
    first, rest = x.shape[: axis + 1], x.shape[axis + 1 :]
    apart = _reshape(x, shape=(*first, 1, *rest), old=x.shape)
    spread = _broadcast(apart, shape=(*first, count, *rest), old=apart.shape)
    copied = _copy(spread)
    out = _reshape(copied, shape=(*first[:-1], first[-1] * count, *rest), old=copied.shape)
    if key:
        _copy.remember(key, given, (spread,), (copied, out))
    return out
