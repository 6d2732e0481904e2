"""What processes tell each other: sums, means, and copies of arrays, with gradients.

The gradients are those of the sum of what all processes compute: if each takes the gradient of its
own loss, an array that went through a collective gets the part of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.devices import CPU
from ..core.dispatch.call_record import MET, obstruct
from ..core.dispatch.checks import require
from ..core.dispatch.lazy_import import lazy
from ..core.dispatch.op import Composed, Op
from ..core.dtypes import FLOATING, HELD, INEXACT, NUMERIC, REAL, Category, compute_dtype
from ..core.shapes import normalize_axis
from ..core.typing import ArrayLike, Tree
from ..ops.creation import zeros
from ..ops.elementwise import equal, maximum, minimum
from ..ops.join import concatenate
from ..ops.shape import copy, moveaxis
from ..runtime.communication import nccl
from ..runtime.communication.environment import world
from ..runtime.communication.world import World

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "recv",
    "reduce_scatter",
    "send",
    "share",
]

#: What may be asked for, and of which dtypes.
OPS: dict[str, Category] = {"sum": NUMERIC, "mean": INEXACT, "max": REAL, "min": REAL}


# -------------------- cards


class Collective(Op):
    """An op whose arrays travel between the members of a world, which is its parameter `world`.

    On the CPU the world carries their bytes. On a GPU NCCL does, on the stream; where it cannot
    (`nccl.why_not`), they go through the memory of the host.
    """

    alone = "the processes wait for each other"

    def plan(self, arrays: tuple, scalars: int, params: dict) -> Callable:
        device = arrays[0]._layout.device
        if device >= 0 and nccl.why_not(params["world"], device):
            return self._through_host(params)  # not kept: it has no work to save
        return super().plan(arrays, scalars, params)

    def _through_host(self, params: dict) -> Callable:
        function = lazy("cpu", self.cpu)

        def run(*arrays: ndarray) -> Any:
            device = arrays[0].device
            found = function(
                *[np.array(x._alias().to_numpy(), order="C") for x in arrays], **params
            )
            if not self.several:
                return asarray(found, device=device)
            return tuple([asarray(y, device=device) for y in found])

        return run


def _each(g: Sequence[ndarray | None], function: Callable[..., Sequence[ndarray]]) -> tuple:
    """`function` of the gradients that are there; None for the others."""
    found = iter(function(*[ordered(x) for x in g if x is not None]))
    return tuple([None if x is None else next(found) for x in g])


def ordered(x: ndarray) -> ndarray:
    return x if x.is_contiguous else copy(x, order="C")


def _sums_vjp(
    g: Any, _y: Any, *_x: Any, op: str, about: Any, world: World
) -> tuple[ndarray | None, ...]:
    return _each(g, lambda *given: sums(*given, op=op, about="gradients", world=world))


def _extremes_vjp(
    g: Any, y: Any, *x: Any, op: str, about: Any, world: World
) -> tuple[ndarray | None, ...]:
    """The gradient goes to whoever had the extreme; among several in equal parts."""

    def one(g: ndarray, y: ndarray, x: ndarray) -> ndarray:
        mine = equal(x, y).astype(g.dtype)
        total, owners = sums(ordered(g), mine, op="sum", about="gradients", world=world)
        return mine * total / owners

    return tuple([None if g is None else one(g, y, x) for g, y, x in zip(g, y, x, strict=True)])


def _gather_vjp(g: Any, _y: Any, *_x: Any, world: World) -> tuple[ndarray | None, ...]:
    return _each(g, lambda *given: scattered(*given, op="sum", world=world))


def _scatter_vjp(g: Any, _y: Any, *_x: Any, op: str, world: World) -> tuple[ndarray | None, ...]:
    rows = _each(g, lambda *given: gathered(*given, world=world))
    if op == "mean":
        return tuple([None if x is None else x / world.size for x in rows])
    return rows


def _broadcast_vjp(
    g: Any, _y: Any, *_x: Any, root: int, about: Any, world: World
) -> tuple[ndarray | None, ...]:
    totals = _each(g, lambda *given: sums(*given, op="sum", about="gradients", world=world))
    if world.rank == root:
        return totals
    return tuple([None if x is None else x * 0 for x in totals])


def _exchange_vjp(g: Any, _y: Any, *_x: Any, world: World) -> tuple[ndarray | None, ...]:
    return _each(g, lambda *given: exchanged(*given, world=world))


def _send_vjp(_g: Any, _y: Any, x: ndarray, *, to: int, world: World) -> tuple[ndarray]:
    return (_receive(x, source=to, world=world),)


def _receive_vjp(g: ndarray, _y: Any, _x: Any, *, source: int, world: World) -> tuple[ndarray]:
    # What came is no function of the array that says what was expected: its gradient is 0.
    return (g * 0 + _send(ordered(g), to=source, world=world),)


sums = Collective(
    "all_reduce",
    cpu="collective.all_reduce",
    cuda="collective.plans.all_reduce",
    vjp=_sums_vjp,
    outputs=2,
)
extremes = Collective(
    "all_reduce (max, min)",
    cpu="collective.all_reduce",
    cuda="collective.plans.all_reduce",
    vjp=_extremes_vjp,
    outputs=2,
)
gathered = Collective(
    "all_gather",
    cpu="collective.all_gather",
    cuda="collective.plans.all_gather",
    vjp=_gather_vjp,
    outputs=2,
)
scattered = Collective(
    "reduce_scatter",
    cpu="collective.reduce_scatter",
    cuda="collective.plans.reduce_scatter",
    vjp=_scatter_vjp,
    outputs=2,
)
_told = Collective(
    "broadcast (processes)",
    cpu="collective.broadcast",
    cuda="collective.plans.broadcast",
    vjp=_broadcast_vjp,
    outputs=2,
)
exchanged = Collective(
    "all_to_all",
    cpu="collective.all_to_all",
    cuda="collective.plans.all_to_all",
    vjp=_exchange_vjp,
    outputs=2,
)
_send = Collective("send", cpu="collective.send", cuda="collective.plans.send", vjp=_send_vjp)
_receive = Collective(
    "recv", cpu="collective.receive", cuda="collective.plans.receive", vjp=_receive_vjp
)


# -------------------- the order of the ranks, on GPUs


_EXTREMES = {"max": maximum, "min": minimum}


def fold(rows: ndarray, op: str) -> ndarray:
    """The rows of all members -> one, in their order, 16-bit numbers in float32."""
    wide = compute_dtype(rows.dtype)
    total = rows[0].astype(wide)
    for i in range(1, len(rows)):
        row = rows[i].astype(wide)
        total = _EXTREMES[op](total, row) if op in _EXTREMES else total + row
    if op == "mean":
        total = total / len(rows)
    return total.astype(rows.dtype)


def _reduced_in_order(x: ndarray, *, op: str, world: World) -> ndarray:
    """A sum, mean or extreme in the order of the ranks: each member adds up a part of it."""
    flat = ordered(x).reshape(-1)
    rows = fold(_received_parts(flat, world), op)
    (whole,) = gathered(rows, world=world)
    return whole.reshape(-1)[: x.size].reshape(x.shape)


def _received_parts(flat: ndarray, world: World) -> ndarray:
    """(n,) -> (size, n / size): this member's part of what each has."""
    missing = -flat.size % world.size
    if missing:
        flat = concatenate([flat, zeros(missing, dtype=flat.dtype, device=flat.device)])
    (parts,) = exchanged(flat.reshape(world.size, -1), world=world)
    return parts


def _in_order_vjp(g: ndarray, y: ndarray, x: ndarray, *, op: str, world: World) -> tuple[ndarray]:
    if op in ("sum", "mean"):
        return (in_order(g, op=op, world=world),)
    mine = equal(x, y).astype(g.dtype)
    total, owners = [in_order(each, op="sum", world=world) for each in (g, mine)]
    return (mine * total / owners,)


in_order = Composed("all_reduce", _reduced_in_order, _in_order_vjp)


def _needs_order(x: ndarray, op: str, world: World, deterministic: bool) -> bool:
    """Whether an array on a GPU is reduced in the order of the ranks by this package: on demand,
    and where NCCL has another meaning (it drops NaN) or no such dtype."""
    device = x._layout.device
    if device == CPU or nccl.why_not(world, device):
        return False
    extreme = op in ("max", "min") and x.dtype in FLOATING
    return x.size > 0 and (deterministic or extreme or nccl.added(x.size, x.dtype) is None)


# -------------------- public functions


def arrays_of(name: str, tree: Any, category: Category = HELD) -> tuple[list[ndarray], Any]:
    """The leaves of a tree as arrays in C order, and its structure; TypeError for dtypes."""
    leaves, structure = trees.flatten(name, tree)
    arrays = [
        require(name, leaf, category) if category is not HELD else asarray(leaf, name=name)
        for leaf in leaves
    ]
    return [ordered(x) for x in arrays], structure


def by_device(
    arrays: Sequence[ndarray], function: Callable[[list[ndarray]], Sequence[ndarray]]
) -> list[ndarray]:
    """`function` of the arrays on each device, in one call; the results in the order of the
    arrays."""
    found: list[Any] = [None] * len(arrays)
    for device in dict.fromkeys(x._layout.device for x in arrays):
        chosen = [i for i, x in enumerate(arrays) if x._layout.device == device]
        for i, y in zip(chosen, function([arrays[i] for i in chosen]), strict=True):
            found[i] = y
    return found


def operation(name: str, op: str) -> Category:
    """The dtypes of an operation. ValueError if there is none of that name."""
    if op not in OPS:
        raise ValueError(f"{name}: op must be one of {', '.join(OPS)}, got {op!r}")
    return OPS[op]


def member(name: str, what: str, number: Any, here: World) -> int:
    """The number of a process. ValueError if there is none."""
    if (
        isinstance(number, bool)
        or not isinstance(number, (int, np.integer))
        or not 0 <= number < here.size
    ):
        raise ValueError(f"{name}: wants a {what} from 0 to {here.size - 1}, got {number!r}")
    return int(number)


def all_reduce(tree: Tree, op: str = "sum", *, deterministic: bool = False) -> Any:
    """Return the sum, mean, maximum or minimum over all processes of each array of a tree.

    Every process gets the result. Arrays of one dtype travel together. Each process reduces a share
    of the numbers and sends it to the others, so that each process sends twice the tree's bytes,
    regardless of their number.

    Parameters
    ----------
    tree : tree
        Arrays (float16 to complex128; also integers, except for "mean"). Numbers become arrays.
        Structure, shapes and dtypes are the same in every process.
    op : str, default "sum"
        "sum", "mean", "max" or "min". NaN takes precedence in the last two, which take no complex
        numbers.
    deterministic : bool, default False
        Add in the order of the ranks, 16-bit numbers in float32. Without NCCL it is always so. NCCL
        adds in an order of its own, in the dtype of the arrays.

    Returns
    -------
    tree
        Tree of new arrays on the devices of the old ones. A process without others gets its own
        arrays.

    Raises
    ------
    ValueError
        The operation is unknown, or the processes pass different trees.
    TypeError
        The dtype is not supported.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: of a sum or mean it is the sum or mean of the gradients of all processes. That of an
    extreme goes to those who have it, in equal parts. Every process has the same bits.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.all_reduce({"loss": cm.array([1.0, 2.0])}, "mean")["loss"].tolist()
    [1.0, 2.0]
    """
    arrays, structure = arrays_of("all_reduce", tree, operation("all_reduce", op))
    here = world()
    if here.size == 1:
        return structure.unflatten(arrays)
    card = sums if op in ("sum", "mean") else extremes

    def reduce(some: list[ndarray]) -> list[ndarray]:
        apart = [_needs_order(x, op, here, deterministic) for x in some]
        together = [x for x, alone in zip(some, apart, strict=True) if not alone]
        done = iter(card(*together, op=op, about=structure, world=here) if together else ())
        return [
            in_order(x, op=op, world=here) if alone else next(done)
            for x, alone in zip(some, apart, strict=True)
        ]

    return structure.unflatten(by_device(arrays, reduce))


def broadcast(tree: Tree, root: int = 0) -> Any:
    """Return the arrays of process `root` in all processes.

    For parameters before training: all processes then begin alike.

    Parameters
    ----------
    tree : tree
        Arrays of any dtype. Numbers become arrays. The trees of the other processes have the same
        structure, shapes and dtypes, and their values do not matter.
    root : int, default 0
        Rank of the process whose arrays are sent.

    Returns
    -------
    tree
        Tree of new arrays on the devices of the old ones. A process without others gets its own
        arrays.

    Raises
    ------
    ValueError
        There is no such process, or the processes pass different trees.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: the sum of the gradients of all processes, in process `root`; 0 in the others.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.broadcast([cm.ones(2), 3.0])[1].tolist()
    3.0
    """
    here = world()
    root = member("broadcast", "root", root, here)
    arrays, structure = arrays_of("broadcast", tree)
    if here.size == 1:
        return structure.unflatten(arrays)
    return structure.unflatten(
        by_device(arrays, lambda some: _told(*some, root=root, about=structure, world=here))
    )


def all_gather(x: ArrayLike, axis: int = 0) -> ndarray:
    """The arrays of all processes one after another along an axis, in the order of the ranks.

    Parameters
    ----------
    x : array_like
        Array of any dtype, of the same shape in every process. An array without dimensions counts
        as one of length 1.
    axis : int, default 0
        Axis along which the arrays are joined.

    Returns
    -------
    ndarray
        Array on the device of `x`. Its length along that axis is `size()` times as large.

    Raises
    ------
    ValueError
        The axis is out of range, or the processes pass different shapes.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: this process's part of the sum of the gradients of all processes (`reduce_scatter`).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.all_gather(cm.array([1, 2])).tolist()
    [1, 2]
    """
    x = asarray(x, name="all_gather")
    x = x if x.ndim else x.reshape(1)
    axis = normalize_axis("all_gather", axis, x.ndim)
    here = world()
    if here.size == 1:
        return ordered(x)
    (rows,) = gathered(ordered(moveaxis(x, axis, 0)), world=here)
    return moveaxis(rows.reshape(-1, *rows.shape[2:]), 0, axis)


def reduce_scatter(
    x: ArrayLike, op: str = "sum", *, axis: int = 0, deterministic: bool = False
) -> ndarray:
    """Return this process's share of a reduction of an array over all processes.

    The share is along an axis of the sum, mean, maximum or minimum. It is the first half of
    `all_reduce`, with half of its bytes, for an optimizer that keeps a share of its state in each
    process and distributes new parameters by `all_gather`.

    Parameters
    ----------
    x : array_like
        Array of the same shape and dtype in every process. The length of that axis is a multiple
        of `size()`.
    op : str, default "sum"
        "sum", "mean", "max" or "min". NaN takes precedence in the last two, which take no complex
        numbers.
    axis : int, default 0
        Axis that is divided.
    deterministic : bool, default False
        Add in the order of the ranks, 16-bit numbers in float32; see `all_reduce`.

    Returns
    -------
    ndarray
        Array on the device of `x`; the length of that axis is divided by `size()`.

    Raises
    ------
    ValueError
        The operation is unknown, the axis is out of range or cannot be divided, or the processes
        pass different shapes.
    TypeError
        The dtype is not supported; an extreme of an array with a gradient.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: of a sum, the gradients of all processes one after another (`all_gather`); of a mean,
    these divided by `size()`. An extreme has none.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.reduce_scatter(cm.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    x = require("reduce_scatter", x, operation("reduce_scatter", op))
    here = world()
    rows, axis = _rows("reduce_scatter", x, axis, here)
    if op in ("max", "min") and x._node is not None:
        raise TypeError(f"reduce_scatter: {op} has no gradient; use all_reduce and share")
    if here.size == 1:
        return ordered(x)
    if op in ("max", "min") or _needs_order(x, op, here, deterministic):
        (received,) = exchanged(rows, world=here)
        out = fold(received, op)
    else:
        (out,) = scattered(rows, op=op, world=here)
    return moveaxis(out, 0, axis)


def _rows(name: str, x: ndarray, axis: int, here: World) -> tuple[ndarray, int]:
    """(size, length / size, ...): the parts of an array along an axis, in C order; and the
    axis."""
    axis = normalize_axis(name, axis, x.ndim) if x.ndim else 0
    if x.ndim == 0 or x.shape[axis] % here.size:
        raise ValueError(
            f"{name}: wants {'a first axis' if axis == 0 else f'an axis {axis}'} that {here.size} "
            f"processes can divide, got shape {x.shape}"
        )
    front = ordered(moveaxis(x, axis, 0))
    return front.reshape(here.size, front.shape[0] // here.size, *front.shape[1:]), axis


def all_to_all(x: ArrayLike, split: int = 0, join: int | None = None) -> ndarray:
    """Exchange parts of an array: part i goes to process i, and part i of the result comes from it.

    An array that is divided among the processes along one axis is so divided along another one.

    Parameters
    ----------
    x : array_like
        Array of any dtype, of the same shape in every process.
    split : int, default 0
        Axis along which the array is cut into `size()` equal parts.
    join : int, optional
        Axis along which the parts that arrive are joined. The default is `split`.

    Returns
    -------
    ndarray
        Array on the device of `x`.

    Raises
    ------
    ValueError
        An axis is out of range or cannot be divided, or the processes pass different shapes.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: parts of it take the way back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.all_to_all(cm.array([1, 2])).tolist()
    [1, 2]
    """
    x = asarray(x, name="all_to_all")
    here = world()
    rows, split = _rows("all_to_all", x, split, here)
    join = split if join is None else normalize_axis("all_to_all", join, x.ndim)
    if here.size == 1:
        return ordered(x)
    return _rejoined(rows, split, join, here)


def _rejoined(rows: ndarray, split: int, join: int, here: World) -> ndarray:
    """Parts along an axis, one for each process -> those that arrive, joined along another one."""
    (received,) = exchanged(rows, world=here)
    parts = moveaxis(received, 1, split + 1)  # (size, ...), each with its axes in order again
    parts = moveaxis(parts, 0, join)
    shape = (*parts.shape[:join], here.size * parts.shape[join + 1], *parts.shape[join + 2 :])
    return parts.reshape(shape)


def swapped(x: ndarray, split: int, join: int, here: World) -> ndarray:
    """`all_to_all` among the members of any world."""
    rows, split = _rows("all_to_all", x, split, here)
    return _rejoined(rows, split, join, here)


def send(x: ArrayLike, to: int) -> ndarray:
    """Send an array to one process, which calls `recv`.

    Parameters
    ----------
    x : array_like
        Array of any dtype.
    to : int
        Rank of the process that receives it; not this one.

    Returns
    -------
    ndarray
        A number that is 0. If it is added to a loss, the gradient of `x` comes back from the
        process that received it.

    Raises
    ------
    ValueError
        There is no such process, or it is this one.
    CommunicationError
        A process failed.

    Notes
    -----
    Gradient: that of the received array, sent back by the other process in its backward pass. Both
    call in the same order. On a GPU the call returns at once.

    Examples
    --------
    >>> import cudamath as cm
    >>> def program(rank):
    ...     x = cm.array([1.0, 2.0])
    ...     return cm.distributed.recv(x, 0) if rank else cm.distributed.send(2 * x, 1)
    >>> cm.distributed.in_threads(2, program)[1].tolist()
    [2.0, 4.0]
    """
    here = world()
    to = _other("send", "rank", to, here)
    obstruct(MET)
    return _send(ordered(asarray(x, name="send")), to=to, world=here)


def recv(like: ArrayLike, source: int) -> ndarray:
    """Receive an array from one process, which calls `send`.

    Parameters
    ----------
    like : array_like
        Array of the shape and dtype that are expected; its values do not matter.
    source : int
        Rank of the process that sends it; not this one.

    Returns
    -------
    ndarray
        Array on the device of `like`.

    Raises
    ------
    ValueError
        There is no such process, it is this one, or it sends an array of another shape or dtype (on
        GPUs with NCCL that is not noticed).
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: if `like` carries one, the gradient of the result is sent to the other process; that
    of `like` is 0.

    Examples
    --------
    >>> import cudamath as cm
    >>> def program(rank):
    ...     x = cm.array([1.0, 2.0])
    ...     return cm.distributed.recv(x, 0) if rank else cm.distributed.send(2 * x, 1)
    >>> cm.distributed.in_threads(2, program)[1].tolist()
    [2.0, 4.0]
    """
    here = world()
    source = _other("recv", "rank", source, here)
    obstruct(MET)
    return _receive(ordered(asarray(like, name="recv")), source=source, world=here)


def _other(name: str, what: str, number: Any, here: World) -> int:
    number = member(name, what, number, here)
    if number == here.rank:
        raise ValueError(f"{name}: wants another process, got rank {number}, which is this one")
    return number


def share(tree: Tree, axis: int = 0) -> Any:
    """Return this process's share of a batch, or of a layer's weights.

    It is, of each array, the rows that begin at `rank()` times its length / `size()`.

    Parameters
    ----------
    tree : tree
        Arrays, the lengths of whose axes are multiples of `size()`. NumPy arrays stay NumPy
        arrays: only the share goes to a GPU.
    axis : int, default 0
        Axis that is divided.

    Returns
    -------
    tree
        Tree of views.

    Raises
    ------
    ValueError
        The axis is out of range, or cannot be divided evenly (the mean of means would not be the
        mean).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.share(cm.arange(4)).tolist()
    [0, 1, 2, 3]
    """
    here = world()
    return trees.map_leaves("share", lambda x: part("share", x, here.rank, here.size, axis), tree)


def part(name: str, x: Any, number: int, count: int, axis: int = 0) -> Any:
    """One of `count` equal stretches of rows."""
    if not isinstance(x, (ndarray, np.ndarray)):
        x = asarray(x, name=name)
    axis = normalize_axis(name, axis, x.ndim) if x.ndim else 0
    if x.ndim == 0 or x.shape[axis] % count:
        which = "first axis" if axis == 0 else f"axis {axis}"
        raise ValueError(
            f"{name}: wants arrays whose {which} divides into {count} equal parts, got shape "
            f"{x.shape}"
        )
    rows = x.shape[axis] // count
    return x[(slice(None),) * axis + (slice(number * rows, (number + 1) * rows),)]
