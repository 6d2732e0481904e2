"""Shapes, strides and axes as tuples of Python integers: no arrays, no devices.

Strides are in bytes, as in NumPy, and may be zero (broadcast) or negative (reversed). Functions
that can fail for a user's mistake take the name of the op first and put it in front of the message.
The answers are NumPy's; the property tests compare every function here with it.
"""

import contextlib
import functools
import operator
from collections.abc import Iterable, Sequence
from math import gcd, prod
from typing import Any, cast

import numpy as np
from numpy.exceptions import AxisError

Shape = tuple[int, ...]
MOST_AXES = 64  # as NumPy

__all__ = [
    "MOST_AXES",
    "Shape",
    "as_integer",
    "axes_as_read",
    "axes_by_stride",
    "axes_in_copy",
    "broadcast_shapes",
    "broadcast_strides",
    "byte_bounds",
    "collapse",
    "contiguous_strides",
    "is_contiguous",
    "may_overlap",
    "normalize_axes",
    "normalize_axis",
    "normalize_shape",
    "not_beside",
    "order_letter",
    "overlaps_itself",
    "reshape_strides",
    "resolve_shape",
    "share_memory",
    "sizes_of",
]


# -------------------- contiguity


def contiguous_strides(shape: Shape, itemsize: int) -> Shape:
    """Byte strides of a new row-major array; all zero if it has no elements, as in NumPy."""
    if 0 in shape:
        return (0,) * len(shape)
    strides = [0] * len(shape)
    step = itemsize
    for i in range(len(shape) - 1, -1, -1):
        strides[i] = step
        step *= shape[i]
    return tuple(strides)


def is_contiguous(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Whether the elements lie in row-major order without gaps. Strides of dimensions of size 1 do
    not matter."""
    if 0 in shape:
        return True
    step = itemsize
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def axes_by_stride(strides: Shape) -> Shape:
    """The axes from the widest stride to the narrowest, whatever its sign: the order of the
    elements in memory. Equal strides keep their order."""
    return tuple(sorted(range(len(strides)), key=lambda i: -abs(strides[i])))


def axes_in_copy(shape: Shape, strides: Shape) -> Shape:
    """The axes from the outermost to the innermost in a copy of order "K", as NumPy makes it: by
    stride, but in C order where the array has it."""
    return (
        axes_by_stride(strides) if len(shape) > 1 and 0 not in shape else tuple(range(len(shape)))
    )


def axes_as_read(shape: Shape, strides: Shape) -> Shape:
    """The axes from the outermost to the innermost as NumPy reads an array in order "K": by stride,
    where repeated axes and those of one element, which lie nowhere in particular, keep their place
    among the others."""
    order: list[int] = []  # the innermost first
    for axis in reversed(range(len(shape))):
        place = len(order)
        for i in range(len(order) - 1, -1, -1):
            other = order[i]
            if 1 in (shape[axis], shape[other]) or not strides[axis] or not strides[other]:
                continue
            if abs(strides[other]) <= abs(strides[axis]):
                break
            place = i
        order.insert(place, axis)
    return tuple(reversed(order))


def collapse(shape: Shape, *strides: Shape) -> tuple[Shape, ...]:
    """The fewest dimensions that walk the same elements in the same order, for several operands at
    once.

    Dimensions of size 1 go; neighbours merge when, in every operand, a step of the outer one equals
    a full run of the inner one. Returns the new shape followed by the new strides of each operand:
    ``()`` for a single element, ``(0,)`` with zero strides for none.

    >>> collapse((4, 1, 5, 6), (120, 120, 24, 4), (0, 0, 24, 4))
    ((4, 30), (120, 4), (0, 4))
    """
    if 0 in shape:
        return ((0,), *(((0,),) * len(strides)))
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for i, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(
            s[-1] == size * stride[i] for s, stride in zip(steps, strides, strict=True)
        ):
            sizes[-1] *= size
            for s, stride in zip(steps, strides, strict=True):
                s[-1] = stride[i]
        else:
            sizes.append(size)
            for s, stride in zip(steps, strides, strict=True):
                s.append(stride[i])
    return (tuple(sizes), *map(tuple, steps))


# -------------------- broadcasting


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The common shape of several by NumPy's rule: aligned at the right, sizes equal or 1."""
    if not shapes:
        return ()
    first = shapes[0]
    if shapes.count(first) == len(shapes):
        return first
    result = [1] * max(map(len, shapes))
    for shape in shapes:
        for i in range(1, len(shape) + 1):
            size = shape[-i]
            if size != 1 and size != result[-i]:
                if result[-i] != 1:
                    listed = ", ".join(map(str, shapes[:-1])) + f" and {shapes[-1]}"
                    raise ValueError(f"{name}: shapes {listed} cannot be broadcast together")
                result[-i] = size
    return tuple(result)


def broadcast_strides(shape: Shape, strides: Shape, to_shape: Shape) -> Shape:
    """Byte strides that show an array of ``shape`` as ``to_shape``: zero along every repeated
    dimension. ``to_shape`` must be a shape that ``shape`` broadcasts to."""
    extra = len(to_shape) - len(shape)
    return (0,) * extra + tuple(
        0 if size == 1 and to != 1 else stride
        for size, stride, to in zip(shape, strides, to_shape[extra:], strict=True)
    )


# -------------------- axes


def normalize_axis(name: str, axis: int, ndim: int) -> int:
    """``axis`` counted from the front, checked: -ndim <= axis < ndim."""
    try:
        i = operator.index(axis)
    except TypeError:
        raise TypeError(f"{name}: axis must be an integer, got {shown(axis)}") from None
    if axis is True or axis is False:  # keepdims, say, in its place
        raise TypeError(
            f"{name}: axis must be an integer, got {axis!r} for an array of {ndim} dimensions"
        )
    if not -ndim <= i < ndim:
        raise AxisError(
            f"{name}: axis {i} is out of bounds for an array of {ndim} dimensions"
        )  # Value- and IndexError
    return i + ndim if i < 0 else i


def normalize_axes(name: str, axes: "int | Sequence[int] | None", ndim: int) -> Shape:
    """A tuple of axes counted from the front, in the given order; None means all of them. Repeats
    are an error."""
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, tuple | list | range):
        return (normalize_axis(name, axes, ndim),)  # type: ignore[arg-type]
    result = tuple([normalize_axis(name, axis, ndim) for axis in axes])
    if len(set(result)) != len(result):
        raise ValueError(f"{name}: repeated axis in {tuple(axes)}")
    return result


def as_integer(name: str, what: str, number: Any, least: int | None = None) -> int:
    """An argument that must be an integer, as Python's; not below `least`."""
    try:
        value = operator.index(number)
    except TypeError:
        raise TypeError(f"{name}: {what} must be an integer, got {number!r:.60}") from None
    if least is not None and value < least:
        raise ValueError(f"{name}: {what} must be at least {least}, got {value}")
    return value


# -------------------- orders in memory


def order_letter(name: str, order: Any, default: str, letters: str = "CFAK") -> str:
    """An order in memory as a capital letter: "C", "F", "A" or "K" in either case; None is the
    default."""
    if order is None:
        return default
    letter = order.upper() if isinstance(order, str) and len(order) == 1 else ""
    if not letter or letter not in letters:
        wanted = ", ".join(map(repr, letters[:-1])) + f" or {letters[-1]!r}"
        raise (ValueError if isinstance(order, str) else TypeError)(
            f"{name}: order must be {wanted}, got {order!r:.60}"
        )
    return letter


# -------------------- reshape


_NO_SHAPES = (
    bool,
    str,
    bytes,
    dict,
    set,
    frozenset,
)  # in no order, or something else by mistake, though numbers are in them


def shown(value: Any) -> str:
    """A wrong argument in a message: of an array its dtype and shape, not its elements."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"an array of {value.dtype} and shape {tuple(value.shape)}"
    return f"{value!r:.60}"


def sizes_of(name: str, shape: Any, what: str = "shape") -> Shape:
    """A tuple of sizes from an integer or a sequence of integers. what: the parameter's name."""
    try:
        if not isinstance(shape, tuple | list):
            if isinstance(shape, _NO_SHAPES):
                raise TypeError
            with contextlib.suppress(TypeError):
                return (operator.index(shape),)
        return tuple([operator.index(size) for size in shape])
    except TypeError:
        raise TypeError(
            f"{name}: {what} must be an integer or a sequence of integers, got {shown(shape)}"
        ) from None


def normalize_shape(name: str, shape: "int | Iterable[int]", what: str = "shape") -> Shape:
    """A tuple of sizes from an integer or a sequence of integers; each must be >= 0. what: the
    parameter's name."""
    sizes = sizes_of(name, shape, what)
    if sizes and min(sizes) < 0:
        raise ValueError(f"{name}: negative size in shape {sizes}")
    if len(sizes) > MOST_AXES:
        raise ValueError(f"{name}: a shape of {len(sizes)} axes is too large: at most {MOST_AXES}")
    return sizes


def resolve_shape(name: str, size: int, new_shape: Shape) -> Shape:
    """``new_shape`` with its one -1, if any, replaced so that it holds ``size`` elements."""
    unknown = new_shape.count(-1)
    if unknown > 1:
        raise ValueError(f"{name}: only one size may be -1, got {new_shape}")
    if any(n < -1 for n in new_shape):
        raise ValueError(f"{name}: negative size in shape {new_shape}")
    if not unknown:
        if prod(new_shape) != size:
            raise ValueError(f"{name}: cannot give {size} elements the shape {new_shape}")
        return new_shape
    product = -prod(new_shape)
    if product == 0 or size % product:
        raise ValueError(f"{name}: cannot give {size} elements the shape {new_shape}")
    return tuple([size // product if n == -1 else n for n in new_shape])


def reshape_strides(
    shape: Shape, strides: Shape, new_shape: Shape, itemsize: int = 1
) -> Shape | None:
    """Byte strides that show an array of ``shape`` as ``new_shape`` in row-major order, or None if
    that takes a copy. Both shapes must hold the same number of elements. ``itemsize`` matters only
    where there is nothing to step over: in an array without elements or a new leading or trailing
    dimension of size 1.

    The old and the new dimensions are cut into the shortest runs of equal products; within a run
    the old dimensions must form one evenly spaced line.
    """
    if 0 in shape:
        return contiguous_strides(new_shape, itemsize)
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    result = [0] * len(new_shape)
    i = j = 0  # the next old and the next new dimension
    while i < len(old):
        old_run, new_run = old[i][0], 1
        i_end, j_end = i + 1, j
        while new_run != old_run:
            if new_run < old_run:
                new_run *= new_shape[j_end]
                j_end += 1
            else:
                old_run *= old[i_end][0]
                i_end += 1
        for k in range(i, i_end - 1):
            if old[k][1] != old[k + 1][0] * old[k + 1][1]:
                return None
        step = old[i_end - 1][1]
        for k in range(j_end - 1, j - 1, -1):
            result[k] = step
            step *= new_shape[k]
        i, j = i_end, j_end
    step = result[j - 1] if j else itemsize  # what is left has size 1
    for k in range(j, len(new_shape)):
        result[k] = step
    return tuple(result)


# -------------------- overlap


def byte_bounds(shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """Offsets, relative to the address of the first element, of the lowest byte and one past the
    highest."""
    if 0 in shape:
        return 0, 0
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(r for r in reach if r < 0), itemsize + sum(r for r in reach if r > 0)


def may_overlap(a: tuple[int, Shape, Shape, int], b: tuple[int, Shape, Shape, int]) -> bool:
    """Whether two arrays, each given as (address, shape, strides, itemsize), reach into a common
    range of bytes. False is certain; True may be a pair of interleaved views that share no element.
    """
    a_low, a_high = byte_bounds(*a[1:])
    b_low, b_high = byte_bounds(*b[1:])
    return (
        a_low < a_high
        and b_low < b_high
        and a[0] + a_low < b[0] + b_high
        and b[0] + b_low < a[0] + a_high
    )


class _Place:
    """Memory as NumPy describes it, of which only the addresses are looked at: it may be a
    GPU's."""

    def __init__(self, address: int, shape: Shape, strides: Shape, itemsize: int):
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "strides": strides,
            "typestr": f"|V{itemsize}",
            "data": (address, True),
        }


def share_memory(
    a: tuple[int, Shape, Shape, int],
    b: tuple[int, Shape, Shape, int],
    *,
    max_work: int | None = None,
) -> bool:
    """As `may_overlap`, but exactly: whether two arrays share an element. max_work: how much to try
    before numpy.exceptions.TooHardError; None: no limit."""
    return may_overlap(a, b) and np.shares_memory(
        np.asarray(_Place(*a)),
        np.asarray(_Place(*b)),
        max_work=cast(Any, max_work),  # None is missing in the stubs of some releases
    )


@functools.lru_cache(4096)
def _blocks(shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int, Shape]:
    """An array, not empty, as blocks of bytes without gaps: the offset of the lowest, their size,
    the steps from one to the next."""
    size, steps = itemsize, []
    for step, count in sorted(
        (abs(stride), count) for count, stride in zip(shape, strides, strict=True) if count > 1
    ):
        if step <= size:
            size += step * (count - 1)
        else:
            steps.append(step)
    return byte_bounds(shape, strides, itemsize)[0], size, tuple(steps)


def not_beside(
    a: tuple[int, Shape, Shape, int], layout: tuple[Shape, Shape, int], addresses: list[int]
) -> list[int]:
    """Of the addresses of arrays of one layout (shape, strides, itemsize) those where one may share
    an element with `a`: where it does not lie beside it, nor between its elements, as another
    column of a matrix does. Neither is empty."""
    low, size, steps = _blocks(*a[1:])
    their_low, their_size, their_steps = _blocks(*layout)
    first, reach, step = (
        a[0] + low - their_low - their_size + 1,
        size + their_size - 1,
        gcd(*steps, *their_steps),
    )
    return (
        [b for b in addresses if (b - first) % step < reach]
        if step
        else [b for b in addresses if 0 <= b - first < reach]
    )


def overlaps_itself(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Whether two indices of one array may reach the same byte, as in a broadcast view. False is
    certain.

    Taken from the narrowest stride to the widest, each step must clear everything that the narrower
    ones reach; only sets of strides that interlock like the teeth of two combs are called
    overlapping without being so.
    """
    if 0 in shape:
        return False
    reach = itemsize
    steps = sorted(
        (abs(stride), size) for size, stride in zip(shape, strides, strict=True) if size != 1
    )
    for stride, size in steps:
        if stride < reach:
            return True
        reach += stride * (size - 1)
    return False
