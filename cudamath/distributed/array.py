"""One array whose elements are divided among the processes.

A layout says, for each axis, along which line of a mesh it is divided (`mesh`), or None. Every
process has one piece and the same program; the functions here are those of the whole array. Nothing
travels but where it says so: in sums over a divided axis, and where the layout is changed.

The cotangent of what several processes have alike is the same in all of them. So a gradient is that
of the whole program, not, as those of the collectives, of the sum of what all processes compute.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.devices import Device
from ..core.dispatch.op import Composed
from ..core.scalar import inside, to_user
from ..core.shapes import normalize_axis
from ..core.typing import ArrayLike, DTypeLike
from ..ops import elementwise
from ..ops.creation import full, zeros
from ..ops.elementwise import equal
from ..ops.join import concatenate
from ..ops.linalg.products import matmul
from ..ops.reduce import max as maximum_of
from ..ops.reduce import min as minimum_of
from ..ops.reduce import sum as sum_of
from ..ops.shape import copy, moveaxis
from ..ops.ufunc import SCALARS
from ..runtime.communication.environment import world
from ..runtime.communication.world import World
from .collectives import extremes, gathered, ordered, sums, swapped
from .members import Group
from .tensor_parallel import enter, leave

__all__ = ["Array", "apply", "from_piece", "shard"]

Layout = tuple[Group | None, ...]


# -------------------- pieces of an axis


def stretch(length: int, rank: int, size: int) -> slice:
    """The part of an axis that a process has: equal ones, but for the last, which may be short."""
    width = math.ceil(length / size)
    return slice(min(rank * width, length), min((rank + 1) * width, length))


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, part)


def _filled(x: ndarray, axis: int, length: int) -> ndarray:
    """An array with zeros behind it along an axis, up to a length."""
    missing = length - x.shape[axis]
    if not missing:
        return x
    shape = (*x.shape[:axis], missing, *x.shape[axis + 1 :])
    return concatenate([x, zeros(shape, dtype=x.dtype, device=x.device)], axis=axis)


def _own(x: ndarray, *, axis: int, length: int, world: World) -> ndarray:
    """A copy: the whole may go, and is not changed with its part."""
    return copy(x[_along(axis, stretch(length, world.rank, world.size))], order="C")


def _together(x: ndarray, *, axis: int, length: int, world: World) -> ndarray:
    width = math.ceil(length / world.size)
    front = ordered(moveaxis(_filled(x, axis, width), axis, 0))
    (rows,) = gathered(front, world=world)
    whole = rows.reshape(world.size * width, *front.shape[1:])[:length]
    return ordered(moveaxis(whole, 0, axis))


def _join_gradient(g: ndarray, _y: Any, _x: Any, **place: Any) -> tuple[ndarray]:
    return (cut(g, **place),)


def _cut_gradient(g: ndarray, _y: Any, _x: Any, **place: Any) -> tuple[ndarray]:
    return (join(g, **place),)


#: Each is the gradient of the other, since what is whole has one cotangent, the same everywhere.
cut = Composed("shard", _own, _cut_gradient)
join = Composed("whole", _together, _join_gradient)


def _largest(x: ndarray, *, op: str, world: World) -> ndarray:
    (y,) = extremes(ordered(x), op=op, about="", world=world)
    return y


def _largest_gradient(
    g: ndarray, y: ndarray, x: ndarray, *, op: str, world: World
) -> tuple[ndarray]:
    """In equal parts to those who have it."""
    mine = equal(x, y).astype(g.dtype)
    (owners,) = sums(ordered(mine), op="sum", about="owners", world=world)
    return (mine * g / owners,)


_extreme = Composed("max", _largest, _largest_gradient)


# -------------------- the array


class Array:
    """An array that is divided among the processes; `shard` and `from_piece` make it.

    Operators, NumPy's and this package's ufuncs and `apply` work on its pieces. They take arrays of
    any layout that agree in each axis: what is whole is cut where the others are divided, for
    nothing. `sum`, `mean`, `max`, `min` and `@` add over the processes where an axis is divided
    that they add up. A result without dimensions is a number as other functions return it, the same
    in all processes.

    It is a node of trees: `cm.grad` and the optimizers of `cm.ml` take it, and gradients are
    divided as it is.

    Parameters
    ----------
    piece : ndarray
        What this process has.
    shape : tuple of int
        Shape of the whole.
    layout : tuple of Group or None
        For each axis along which line of a mesh it is divided.

    Attributes
    ----------
    shape : tuple of int
        Shape of the whole.
    layout : tuple of Group or None
        As given.

    Examples
    --------
    >>> import cudamath as cm
    >>> from cudamath import distributed
    >>> def program(rank):
    ...     (line,) = distributed.mesh(2)
    ...     x = distributed.shard(cm.array([[1.0, 2.0], [3.0, 4.0]]), (line, None))
    ...     return x.to_local().tolist(), (x.T @ x).to_numpy().tolist()
    >>> distributed.in_threads(2, program)[1]
    ([[3.0, 4.0]], [[10.0, 14.0], [14.0, 20.0]])
    """

    __array_priority__ = 2000

    def __init__(self, piece: ndarray, shape: tuple[int, ...], layout: Layout):
        self._piece, self.shape, self.layout = piece, shape, layout

    # -------------------- what it is

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the whole."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self._piece.dtype

    @property
    def device(self) -> Device:
        """Where this process's piece is."""
        return self._piece.device

    @property
    def T(self) -> Array:
        """The axes in reverse order. Nothing travels."""
        return Array(self._piece.T, self.shape[::-1], self.layout[::-1])

    def to_local(self) -> ndarray:
        """Return this process's piece.

        Returns
        -------
        ndarray
            The piece, not a copy.
        """
        return self._piece

    def whole(self) -> ndarray:
        """Return the whole array, in every process.

        Returns
        -------
        ndarray
            The array. All pieces travel.
        """
        return self.reshard((None,) * self.ndim)._piece

    def to_numpy(self) -> np.ndarray:
        """Return the whole array as NumPy's, in every process.

        Returns
        -------
        numpy.ndarray
            A copy. All pieces travel.
        """
        return self.whole().to_numpy().copy()

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("asarray: an array of several processes is made whole by x.to_numpy()")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        divided = [
            f"axis {axis} over {group.size}"
            for axis, group in enumerate(self.layout)
            if group is not None
        ]
        how = ", ".join(divided) or "whole everywhere"
        return f"<Array {self.shape} {self.dtype}: {how}; here {self._piece.shape}>"

    # -------------------- layouts

    def reshard(self, layout: Sequence[Group | None]) -> Array:
        """Return the same array in another layout.

        Where an axis becomes whole its pieces are gathered; where it becomes divided each process
        takes its own, for nothing; where another axis is divided along the same line, parts are
        exchanged (`all_to_all`).

        Parameters
        ----------
        layout : sequence of Group or None
            For each axis along which line of a mesh it is divided.

        Returns
        -------
        Array
            The array.

        Raises
        ------
        ValueError
            The layout does not fit the dimensions, or divides two axes along one line.
        """
        after = _checked("reshard", layout, self.ndim)
        piece, now = self._piece, list(self.layout)
        for axis in range(self.ndim):
            group = now[axis]
            if group is None or group == after[axis]:
                continue
            now[axis] = None
            length = self.shape[axis]
            other = after.index(group) if group in after else None
            if other is None or now[other] is not None:
                piece = join(piece, axis=axis, length=length, world=group._world)
                continue
            piece = self._exchanged(piece, axis, other, group)
            now[other] = group
        for axis, group in enumerate(after):
            if group is not None and now[axis] is None:
                piece = cut(piece, axis=axis, length=self.shape[axis], world=group._world)
        return Array(piece, self.shape, after)

    def _exchanged(self, piece: ndarray, axis: int, other: int, group: Group) -> ndarray:
        """A piece of `axis` -> a piece of `other`, along the same line."""
        size, (length, width) = group.size, (self.shape[axis], self.shape[other])
        piece = _filled(piece, axis, math.ceil(length / size))
        part = math.ceil(width / size)
        piece = _filled(piece, other, part * size)
        piece = swapped(piece, other, axis, group._world)[_along(axis, slice(length))]
        own = stretch(width, group.rank, size)
        return ordered(piece[_along(other, slice(own.stop - own.start))])

    # -------------------- elements

    def astype(self, dtype: DTypeLike) -> Array:
        """Return the array in another dtype.

        Parameters
        ----------
        dtype : dtype_like
            Dtype of the result.

        Returns
        -------
        Array
            In the same layout.
        """
        return Array(self._piece.astype(dtype), self.shape, self.layout)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        function = getattr(elementwise, ufunc.__name__, None)
        if method != "__call__" or function is None or options or ufunc.nout > 1:
            return NotImplemented
        return apply(function, *operands)

    # -------------------- reductions

    def sum(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
        """Return the sum over axes.

        Parameters
        ----------
        axis : int or sequence of int, optional
            All by default.
        keepdims : bool, default False
            Keep these axes with length 1.

        Returns
        -------
        Array or scalar
            A number if it has no dimensions.
        """
        return self._reduced("sum", sum_of, axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
        """Return the mean over axes.

        Parameters
        ----------
        axis : int or sequence of int, optional
            All by default.
        keepdims : bool, default False
            Keep these axes with length 1.

        Returns
        -------
        Array or scalar
            A number if it has no dimensions.
        """
        count = math.prod([self.shape[i] for i in self._axes("mean", axis)])
        return self._reduced("sum", sum_of, axis, keepdims) / count

    def max(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
        """Return the maximum over axes; NaN takes precedence.

        Parameters
        ----------
        axis : int or sequence of int, optional
            All by default.
        keepdims : bool, default False
            Keep these axes with length 1.

        Returns
        -------
        Array or scalar
            A number if it has no dimensions.
        """
        return self._reduced("max", maximum_of, axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
        """Return the minimum over axes; NaN takes precedence.

        Parameters
        ----------
        axis : int or sequence of int, optional
            All by default.
        keepdims : bool, default False
            Keep these axes with length 1.

        Returns
        -------
        Array or scalar
            A number if it has no dimensions.
        """
        return self._reduced("min", minimum_of, axis, keepdims)

    def _axes(self, name: str, axis: Any) -> tuple[int, ...]:
        if axis is None:
            return tuple(range(self.ndim))
        axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
        return tuple([normalize_axis(name, each, self.ndim) for each in axes])

    def _reduced(self, op: str, function: Callable, axis: Any, keepdims: bool) -> Any:
        axes, piece = self._axes(op, axis), self._piece
        if op != "sum":
            if not all([self.shape[i] for i in axes]):
                raise ValueError(f"{op}: no elements along axes {axes} of shape {self.shape}")
            piece = _never_empty(piece, axes, op)
        y = function(piece, axis=axes, keepdims=True)
        for i in axes:
            group = self.layout[i]
            if group is not None and op == "sum":
                y = leave(y, world=group._world)
            elif group is not None and group.size > 1:
                y = _extreme(y, op=op, world=group._world)
        kept = [i for i in range(self.ndim) if keepdims or i not in axes]
        shape = tuple([1 if i in axes else self.shape[i] for i in kept])
        layout = tuple([None if i in axes else self.layout[i] for i in kept])
        y = y.reshape([y.shape[i] for i in kept])
        return Array(y, shape, layout) if shape else to_user(y)

    # -------------------- products

    def __matmul__(self, other: Any) -> Any:
        return _product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _product(other, self)


def _operator(function: Callable, swapped: bool = False) -> Callable:
    def method(self: Array, other: Any = None) -> Array:
        return apply(function, other, self) if swapped else apply(function, self, other)

    return method


for _name in (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
):
    _function = getattr(operator, f"__{_name}__")
    setattr(Array, f"__{_name}__", _operator(_function))
    if hasattr(int, f"__r{_name}__"):
        setattr(Array, f"__r{_name}__", _operator(_function, swapped=True))
for _name in ("neg", "abs", "invert"):
    setattr(
        Array,
        f"__{_name}__",
        functools.partialmethod(
            lambda self, function: apply(function, self), getattr(operator, f"__{_name}__")
        ),
    )
Array.__hash__ = None  # type: ignore[assignment]


def _taken_apart(x: Any) -> tuple[tuple[Any], Any]:
    return (x._piece,), (x.shape, x.layout)


def _put_together(about: Any, pieces: Any) -> Any:
    return Array(*pieces, *about)


optree.register_pytree_node(
    Array,  # type: ignore[arg-type]
    _taken_apart,
    _put_together,
    namespace=optree.registry.__GLOBAL_NAMESPACE,
)


# -------------------- functions


def _checked(name: str, layout: Any, ndim: int) -> Layout:
    """A layout as a tuple. ValueError if it does not fit."""
    layout = tuple(layout)
    if len(layout) != ndim:
        raise ValueError(f"{name}: wants a layout of {ndim} axes, got {len(layout)}: {layout}")
    wrong = [each for each in layout if each is not None and not isinstance(each, Group)]
    if wrong:
        raise TypeError(
            f"{name}: an axis is divided along a line of a mesh, or None; got {wrong[0]!r}"
        )
    divided = [each for each in layout if each is not None]
    if len(set(divided)) < len(divided):
        raise ValueError(f"{name}: divides two axes along one line: {layout}")
    return layout


def shard(x: ArrayLike, layout: Sequence[Group | None]) -> Array:
    """Divide an array that all processes have among them.

    Parameters
    ----------
    x : array_like
        The same in all processes. Of a NumPy array only this process's piece goes to a GPU.
    layout : sequence of Group or None
        For each axis the line of a mesh along which it is divided, or None. Pieces are equal, but
        for the last ones of an axis that cannot be divided equally.

    Returns
    -------
    Array
        The divided array. Nothing travels.

    Raises
    ------
    ValueError
        The layout does not fit the dimensions, or divides two axes along one line.
    TypeError
        The layout holds something else.

    Notes
    -----
    Gradient: with respect to x, whole.

    Examples
    --------
    >>> import cudamath as cm
    >>> (line,) = cm.distributed.mesh(1)
    >>> cm.distributed.shard(cm.ones((4, 2)), (line, None))
    <Array (4, 2) float64: axis 0 over 1; here (4, 2)>
    """
    if not isinstance(x, ndarray):
        x = np.asarray(x)
    layout = _checked("shard", layout, x.ndim)
    if isinstance(x, np.ndarray):
        own = tuple(
            [
                slice(None) if g is None else stretch(n, g.rank, g.size)
                for n, g in zip(x.shape, layout, strict=True)
            ]
        )
        return Array(asarray(x[own], name="shard"), x.shape, layout)
    return Array(x, x.shape, (None,) * x.ndim).reshard(layout)


def from_piece(piece: ArrayLike, layout: Sequence[Group | None]) -> Array:
    """Make one array of the pieces that the processes have.

    So an array can be larger than the memory of any process.

    Parameters
    ----------
    piece : array_like
        This process's piece, as `shard` would cut it: equal ones along a divided axis, but for the
        last.
    layout : sequence of Group or None
        For each axis the line of a mesh along which it is divided, or None.

    Returns
    -------
    Array
        The divided array. Only lengths travel.

    Raises
    ------
    ValueError
        The layout does not fit, or the pieces do not.
    TypeError
        The layout holds something else.

    Examples
    --------
    >>> import cudamath as cm
    >>> def program(rank):
    ...     (line,) = cm.distributed.mesh(2)
    ...     return float(cm.distributed.from_piece(cm.array([rank, 1.0]), (line,)).sum())
    >>> cm.distributed.in_threads(2, program)
    [3.0, 3.0]
    """
    piece = asarray(piece, name="from_piece")
    layout = _checked("from_piece", layout, piece.ndim)
    shape = list(piece.shape)
    for axis, group in enumerate(layout):
        if group is None:
            continue
        about = f"from_piece, {piece.dtype}, axis {axis} of {piece.ndim}"
        lengths = [int(n) for n in group._world.texts(about, str(piece.shape[axis]))]
        total = sum(lengths)
        parts = [stretch(total, i, group.size) for i in range(group.size)]
        wanted = [part.stop - part.start for part in parts]
        if lengths != wanted:
            raise ValueError(
                f"from_piece: wants pieces of {wanted} along axis {axis}, whose whole has {total}; "
                f"got {lengths}"
            )
        shape[axis] = total
    world().agree(f"from_piece of {piece.dtype}{tuple(shape)}")
    return Array(piece, tuple(shape), layout)


def apply(function: Callable, *operands: Any) -> Array:
    """Call an elementwise function on arrays that are divided among the processes.

    Parameters
    ----------
    function : callable
        Of pieces, which are ndarrays, and numbers: elementwise, as `cm.where` or one of `cm.fuse`.
    *operands : Array, array_like or number
        Of shapes that broadcast. Where one is divided the others are divided in the same way, or
        whole; what is not an `Array` is the same in all processes.

    Returns
    -------
    Array
        Divided where an operand is. Nothing travels.

    Raises
    ------
    ValueError
        Two operands are divided in different ways, the shapes do not broadcast, or the function is
        not elementwise.

    Examples
    --------
    >>> import cudamath as cm
    >>> from cudamath import distributed
    >>> def program(rank):
    ...     x = distributed.shard(cm.array([-1.0, 2.0]), distributed.mesh(2))
    ...     return distributed.apply(cm.where, x > 0, x, 0.0).to_numpy().tolist()
    >>> distributed.in_threads(2, program)[0]
    [0.0, 2.0]
    """
    name = getattr(function, "__name__", "apply").strip("_")
    given = [None if isinstance(x, (*SCALARS, np.generic)) or x is None else x for x in operands]
    arrays = [x if x is None or isinstance(x, Array) else _everywhere(name, x) for x in given]
    there = [x for x in arrays if x is not None]
    try:
        shape = np.broadcast_shapes(*[x.shape for x in there])
    except ValueError:
        shapes = ", ".join([str(x.shape) for x in there])
        raise ValueError(f"{name}: shapes {shapes} do not broadcast") from None
    layout: list[Group | None] = [None] * len(shape)
    for x in there:
        for axis, group in enumerate(x.layout, len(shape) - x.ndim):
            if group is None:
                continue
            if layout[axis] not in (None, group) or x.shape[axis - len(shape)] != shape[axis]:
                raise ValueError(
                    f"{name}: divided in different ways: {', '.join([repr(x) for x in there])}; "
                    "give one of them another layout (reshard)"
                )
            layout[axis] = group
    if len(set(layout) - {None}) + layout.count(None) < len(layout):
        raise ValueError(
            f"{name}: would divide two axes along one line: {', '.join([repr(x) for x in there])}; "
            "give one of them another layout (reshard)"
        )
    pieces = [
        number if x is None else _like_result(x, shape, layout)
        for number, x in zip(operands, arrays, strict=True)
    ]
    while pieces and pieces[-1] is None:
        pieces.pop()
    piece = function(*pieces)
    wanted = tuple(
        [
            n if g is None else len(range(n)[stretch(n, g.rank, g.size)])
            for n, g in zip(shape, layout, strict=True)
        ]
    )
    if not isinstance(piece, ndarray) or piece.shape != wanted:
        raise ValueError(
            f"{name}: an elementwise function of pieces {wanted} gives one, got "
            f"{getattr(piece, 'shape', piece)}"
        )
    return Array(piece, shape, tuple(layout))


def _everywhere(name: str, x: Any) -> Array:
    """What all processes have alike."""
    x = asarray(x, name=name)
    return Array(x, x.shape, (None,) * x.ndim)


def _like_result(x: Array, shape: tuple[int, ...], layout: Sequence[Group | None]) -> ndarray:
    """The piece of an operand that goes with a piece of the result. Where the result is divided and
    the operand is not, it is cut; where it is repeated, its gradient is added up."""
    piece = x._piece
    for axis, group in enumerate(layout, x.ndim - len(shape)):
        if group is None or (axis >= 0 and x.layout[axis] == group):
            continue
        if axis >= 0 and x.shape[axis] > 1:
            piece = cut(piece, axis=axis, length=x.shape[axis], world=group._world)
        else:
            piece = enter(piece, world=group._world)
    return piece


def _never_empty(piece: ndarray, axes: Sequence[int], op: str) -> ndarray:
    """A piece with at least one element along the axes: one that is no extreme."""
    if all([piece.shape[axis] for axis in axes]):
        return piece
    kind, shape = piece.dtype, list(piece.shape)
    for axis in axes:
        shape[axis] = max(shape[axis], 1)
    if kind.kind in "iu":
        ends: tuple[Any, Any] = np.iinfo(kind).min, np.iinfo(kind).max
    else:
        ends = (False, True) if kind.kind == "b" else (-np.inf, np.inf)
    return full(shape, ends[op == "min"], dtype=kind, device=piece.device)


def _product(x: Any, y: Any) -> Any:
    """x @ y of one or two dimensions each."""
    x, y = [z if isinstance(z, Array) else _everywhere("matmul", z) for z in (x, y)]
    if x.ndim not in (1, 2) or y.ndim not in (1, 2) or x.shape[-1] != y.shape[0]:
        raise ValueError(
            f"matmul: wants one or two dimensions each, and the last of the first as long as the "
            f"first of the second; got shapes {x.shape} and {y.shape}"
        )
    inner = x.layout[-1] or y.layout[0]
    rows, columns = x.layout[:-1], y.layout[1:]
    lines = [g for g in (*rows, inner, *columns) if g is not None]
    if (x.layout[-1] or inner) != (y.layout[0] or inner) or len(set(lines)) < len(lines):
        raise ValueError(
            f"matmul: divided in ways that do not go together: {x!r} and {y!r}; give one of them "
            "another layout (reshard)"
        )
    a = x._piece if x.layout[-1] or inner is None else _part(x, x.ndim - 1, inner)
    b = y._piece if y.layout[0] or inner is None else _part(y, 0, inner)
    for group in columns:
        a = a if group is None else enter(a, world=group._world)
    for group in rows:
        b = b if group is None else enter(b, world=group._world)
    with inside():  # the product of two vectors too is an array
        z = matmul(a, b)
    if inner is not None:
        z = leave(z, world=inner._world)
    shape = x.shape[:-1] + y.shape[1:]
    return Array(z, shape, rows + columns) if shape else to_user(z)


def _part(x: Array, axis: int, group: Group) -> ndarray:
    return cut(x._piece, axis=axis, length=x.shape[axis], world=group._world)
