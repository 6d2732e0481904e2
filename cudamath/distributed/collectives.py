"""What processes tell each other: sums, means and copies of trees of arrays."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.devices import set_default_device
from ..core.dispatch.checks import require
from ..core.dtypes import INEXACT, NUMERIC, REAL, Category, compute_dtype
from ..core.shapes import normalize_axis
from ..core.typing import ArrayLike, Tree
from ..runtime import device as runtime
from ..runtime.mpi import world

__all__ = [
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "local_rank",
    "rank",
    "reduce_scatter",
    "share",
    "size",
    "use_own_device",
]

MOST = (
    1 << 26
)  # bytes in one message to each process: MPI counts in 32 bits, and buffers stay small
OPS: dict[str, tuple[Callable[..., Any], Any]] = {  # name -> (of two arrays, the dtypes it is for)
    "sum": (np.add, NUMERIC),
    "mean": (np.add, INEXACT),
    "max": (np.maximum, REAL),
    "min": (np.minimum, REAL),
}


def rank() -> int:
    """Return the number of this process among those that `mpiexec` started together.

    Numbers begin at 0. A process alone has the number 0.

    Returns
    -------
    int
        The number.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.rank()
    0
    """
    return world().rank


def size() -> int:
    """Return the number of processes that `mpiexec` started together; 1 for a process alone.

    Returns
    -------
    int
        The number.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.size()
    1
    """
    return world().size


def local_rank() -> int:
    """Return the number of this process among those on the same machine, from 0 on.

    Returns
    -------
    int
        The number.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.local_rank()
    0
    """
    return world().local_rank


def use_own_device() -> str:
    """Make GPU number `local_rank()` the default device.

    The numbers begin again after the last GPU. Without a GPU the CPU stays the default device.

    Returns
    -------
    str
        Name of the device.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.use_own_device() == cm.default_device()
    True
    """
    count = runtime.device_count()
    name = f"cuda:{world().local_rank % count}" if count else "cpu"
    set_default_device(name)
    return name


def barrier() -> None:
    """Wait until all processes have called this function.

    Raises
    ------
    ImportError
        `mpiexec` started the process, but mpi4py is not installed.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.barrier()
    """
    world().barrier()


def arrays_of(name: str, tree: Any, category: Category | None = None) -> tuple[list[ndarray], Any]:
    """The leaves of a tree as arrays, and its structure; TypeError for dtypes, and for what carries
    a gradient."""
    leaves, structure = trees.flatten(name, tree)
    arrays = [
        asarray(leaf, name=name) if category is None else require(name, leaf, category)
        for leaf in leaves
    ]
    for x in arrays:
        if x._node is not None:
            raise TypeError(
                f"{name}: gradients do not pass between processes: take the gradient of what one "
                "process computes, "
                f"and reduce that; got an array of shape {x.shape} that carries one"
            )
    return arrays, structure


def agree(name: str, arrays: list[ndarray], *more: Any) -> None:
    """ValueError on all processes, unless all of them brought the same dtypes and shapes, and the
    same besides."""
    here = world()
    if here.size == 1:
        return
    text = ", ".join([*(f"{x.dtype}{x.shape}" for x in arrays), *map(str, more)]).encode()
    mine = np.frombuffer(text, np.uint8)
    head = np.array([mine.size, zlib.crc32(text)], np.uint64)
    heads = here.gather(head.view(np.uint8)).view(np.uint64)
    if (heads == heads[0]).all():
        return
    padded = np.zeros(int(heads[:, 0].max()), np.uint8)
    padded[: mine.size] = mine
    rows = here.gather(padded)
    seen = [
        bytes(row[: int(length)]).decode() for row, length in zip(rows, heads[:, 0], strict=True)
    ]
    other = next(i for i, text in enumerate(seen) if text != seen[0])
    raise ValueError(
        f"{name}: all processes must bring the same; rank 0 brought {seen[0][:300]}, "
        f"rank {other} {seen[other][:300]}"
    )


def told(host: np.ndarray, root: int) -> np.ndarray:
    """A C-ordered array, overwritten with that of process `root`."""
    data = host.reshape(-1).view(np.uint8)
    for first in range(0, data.size, MOST):
        world().broadcast(data[first : first + MOST], root)
    return host


def _own(parts: np.ndarray, op: str) -> np.ndarray:
    """(size, n): row i for process i -> (n,), row `rank` of all processes, reduced in the order of
    the ranks."""
    here, dtype = world(), parts.dtype
    received = here.exchange(parts.view(np.uint8)).view(dtype)
    total = received[0].astype(compute_dtype(dtype))
    for part in received[1:]:
        total = OPS[op][0](total, part.astype(total.dtype))
    return (total / here.size if op == "mean" else total).astype(dtype)


def _all(vector: np.ndarray, op: str) -> np.ndarray:
    """(n,) of each process -> (n,), reduced: each process adds up a share of it and hands it to the
    others."""
    here, step = world(), MOST // vector.itemsize * world().size
    out = np.empty_like(vector)
    for first in range(0, vector.size, step):
        piece = vector[first : first + step]
        parts = np.zeros((here.size, -(-piece.size // here.size)), vector.dtype)
        parts.reshape(-1)[: piece.size] = piece
        whole = here.gather(_own(parts, op).view(np.uint8)).view(vector.dtype)
        out[first : first + step] = whole.reshape(-1)[: piece.size]
    return out


def _operation(name: str, op: str) -> Any:
    if op not in OPS:
        raise ValueError(f"{name}: op must be one of {', '.join(OPS)}, got {op!r}")
    return OPS[op][1]


def all_reduce(tree: Tree, op: str = "sum") -> Any:
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
        The dtype is not supported, or a gradient of an array is being recorded.

    Notes
    -----
    The result has no gradient. The order of the sums is that of the ranks, with 16-bit numbers in
    float32: every process has the same bits.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.all_reduce({"loss": cm.array([1.0, 2.0])}, "mean")["loss"].tolist()
    [1.0, 2.0]
    """
    arrays, structure = arrays_of("all_reduce", tree, _operation("all_reduce", op))
    if world().size == 1:
        return structure.unflatten(arrays)
    agree("all_reduce", arrays, op, structure)
    found: list[Any] = [None] * len(arrays)
    for dtype in dict.fromkeys(x.dtype for x in arrays):
        chosen = [i for i, x in enumerate(arrays) if x.dtype == dtype]
        whole = _all(np.concatenate([arrays[i].to_numpy().ravel() for i in chosen]), op)
        at = 0
        for i in chosen:
            x = arrays[i]
            found[i] = asarray(whole[at : at + x.size].reshape(x.shape), device=x.device)
            at += x.size
    return structure.unflatten(found)


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
    TypeError
        A gradient of an array is being recorded.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.broadcast([cm.ones(2), 3.0])[1].tolist()
    3.0
    """
    here = world()
    if not isinstance(root, (int, np.integer)) or not 0 <= root < here.size:
        raise ValueError(f"broadcast: wants a root from 0 to {here.size - 1}, got {root!r}")
    arrays, structure = arrays_of("broadcast", tree)
    if here.size == 1:
        return structure.unflatten(arrays)
    agree("broadcast", arrays, root, structure)
    return structure.unflatten(
        [
            asarray(told(np.array(x.to_numpy(), order="C"), int(root)), device=x.device)
            for x in arrays
        ]
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
    TypeError
        A gradient of the array is being recorded.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.all_gather(cm.array([1, 2])).tolist()
    [1, 2]
    """
    (x,), _ = arrays_of(
        "all_gather", x if isinstance(x, ndarray) else asarray(x, name="all_gather")
    )
    host = np.atleast_1d(x.to_numpy())
    axis = normalize_axis("all_gather", axis, host.ndim)
    agree("all_gather", [x], axis)
    data = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    pieces = [world().gather(data[first : first + MOST]) for first in range(0, data.size, MOST)]
    rows = np.concatenate(pieces, 1) if pieces else np.empty((world().size, 0), np.uint8)
    parts = [np.ascontiguousarray(row).view(host.dtype).reshape(host.shape) for row in rows]
    return asarray(np.concatenate(parts, axis), device=x.device)


def reduce_scatter(x: ArrayLike, op: str = "sum") -> ndarray:
    """Return this process's share of a reduction of an array over all processes.

    The share is along the first axis of the sum, mean, maximum or minimum. It is the first half of
    `all_reduce`, with half of its bytes, for an optimizer that keeps a share of its state in each
    process and distributes new parameters by `all_gather`.

    Parameters
    ----------
    x : array_like
        Array of the same shape and dtype in every process. The length of its first axis is a
        multiple of `size()`.
    op : str, default "sum"
        "sum", "mean", "max" or "min". NaN takes precedence in the last two, which take no complex
        numbers.

    Returns
    -------
    ndarray
        Array of shape (length / size(), ...) on the device of `x`.

    Raises
    ------
    ValueError
        The operation is unknown, the first axis cannot be divided, or the processes pass different
        shapes.
    TypeError
        The dtype is not supported, or a gradient of the array is being recorded.

    Notes
    -----
    The result has no gradient. The function is deterministic, as `all_reduce`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.reduce_scatter(cm.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    (x,), _ = arrays_of(
        "reduce_scatter",
        x if isinstance(x, ndarray) else asarray(x, name="reduce_scatter"),
        _operation("reduce_scatter", op),
    )
    here = world()
    agree("reduce_scatter", [x], op)
    if x.ndim == 0 or x.shape[0] % here.size:
        raise ValueError(
            f"reduce_scatter: wants a first axis that {here.size} processes can divide, got shape "
            f"{x.shape}"
        )
    shape = (x.shape[0] // here.size, *x.shape[1:])
    parts = np.ascontiguousarray(x.to_numpy()).reshape(here.size, -1)
    out = np.empty(parts.shape[1], parts.dtype)
    step = MOST // parts.itemsize
    for first in range(0, parts.shape[1], step):
        out[first : first + step] = _own(np.ascontiguousarray(parts[:, first : first + step]), op)
    return asarray(out.reshape(shape), device=x.device)


def share(tree: Tree) -> Any:
    """Return this process's share of a batch.

    It is, of each array, the rows that begin at `rank()` times its length / `size()`.

    Parameters
    ----------
    tree : tree
        Arrays, the lengths of whose first axes are multiples of `size()`. NumPy arrays stay NumPy
        arrays: only the share goes to a GPU.

    Returns
    -------
    tree
        Tree of views.

    Raises
    ------
    ValueError
        A first axis cannot be divided evenly (the mean of means would not be the mean).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.share(cm.arange(4)).tolist()
    [0, 1, 2, 3]
    """
    here = world()
    return trees.map_leaves("share", lambda x: part("share", x, here.rank, here.size), tree)


def part(name: str, x: Any, number: int, count: int) -> Any:
    """One of `count` equal stretches of rows."""
    if not isinstance(x, (ndarray, np.ndarray)):
        x = asarray(x, name=name)
    if x.ndim == 0 or x.shape[0] % count:
        raise ValueError(
            f"{name}: wants arrays whose first axis divides into {count} equal parts, got shape "
            f"{x.shape}"
        )
    rows = x.shape[0] // count
    return x[number * rows : (number + 1) * rows]
