"""Layers whose weights are divided among the processes: tensor parallelism.

All processes have the same inputs and compute the same loss; each has a share of the weights, made
by `share`. The arrays between two layers are whole, or divided along their last axis. What a
process computes is differentiated as its own: gradients of shares are those of the whole layer,
and gradients of whole arrays are the same everywhere.

Source: Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model
parallelism", 2019.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autodiff import stop_gradient
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.dispatch.checks import require
from ..core.dispatch.op import Composed
from ..core.dtypes import FLOATING, INTEGER, compute_dtype
from ..core.typing import ArrayLike
from ..ml import embedding, linear, self_attention
from ..ml.softmax import in_order
from ..ops.elementwise import exp, log, where
from ..ops.index import take_along_axis
from ..runtime.communication.environment import world
from ..runtime.communication.world import World
from .collectives import all_reduce, sums

__all__ = [
    "column_linear",
    "parallel_attention",
    "row_linear",
    "vocabulary_cross_entropy",
    "vocabulary_embedding",
]


def _same(x: ndarray, *, world: World) -> ndarray:
    return x


def _sum(x: ndarray, *, world: World) -> ndarray:
    if world.size == 1:
        return x
    (total,) = sums(in_order(x), op="sum", about="", world=world)
    return total


def _sum_of_gradients(g: ndarray, _y: Any, _x: Any, world: World) -> tuple[ndarray]:
    return (leave(g, world=world),)


def _same_gradient(g: ndarray, _y: Any, _x: Any, world: World) -> tuple[ndarray]:
    return (enter(g, world=world),)


#: A whole array enters a divided layer: each process adds to its gradient.
enter = Composed("column_linear", _same, _sum_of_gradients)
#: Parts of a sum leave it: each process has the gradient of the sum already.
leave = Composed("row_linear", _sum, _same_gradient)


def column_linear(
    x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, *, activation: str | None = None
) -> ndarray:
    """Linear layer whose outputs are divided among the processes.

    y = activation(x @ weight.T + bias), of which this process has the columns of its share.

    Parameters
    ----------
    x : array (..., in)
        The same in all processes.
    weight : array (out / size, in)
        This process's rows: `share(whole_weight)`.
    bias : array (out / size,), optional
        This process's share.
    activation : str, optional
        See `ml.linear`.

    Returns
    -------
    ndarray
        (..., out / size). `row_linear` takes it.

    Raises
    ------
    TypeError
        The arrays are not floating-point.
    ValueError
        The shapes do not fit each other; see `ml.linear`.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: with respect to all arrays. That of x is added over the processes in the backward
    pass. Nothing travels forward.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, w = cm.array([[1.0, 2.0]]), cm.array([[1.0, 0.0], [0.0, 1.0]])
    >>> def program(rank):
    ...     return cm.distributed.column_linear(x, cm.distributed.share(w)).tolist()
    >>> cm.distributed.in_threads(2, program)
    [[[1.0]], [[2.0]]]
    """
    x = require("column_linear", x, FLOATING)
    return linear(enter(x, world=world()), weight, bias, activation=activation)


def row_linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> ndarray:
    """Linear layer whose inputs are divided among the processes.

    y = x @ weight.T + bias, added over the processes.

    Parameters
    ----------
    x : array (..., in / size)
        What `column_linear` or attention over some heads gave.
    weight : array (out, in / size)
        This process's columns: `share(whole_weight, axis=1)`.
    bias : array (out,), optional
        Whole. It is added once.

    Returns
    -------
    ndarray
        (..., out), the same in all processes.

    Raises
    ------
    TypeError
        The arrays are not floating-point.
    ValueError
        The shapes do not fit each other; see `ml.linear`.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: with respect to all arrays. Nothing travels backward.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, w = cm.array([[1.0, 2.0]]), cm.array([[3.0, 4.0]])
    >>> def program(rank):
    ...     mine, own = cm.distributed.share((x, w), axis=1)
    ...     return cm.distributed.row_linear(mine, own).tolist()
    >>> cm.distributed.in_threads(2, program)
    [[[11.0]], [[11.0]]]
    """
    y = leave(linear(x, weight), world=world())
    return y if bias is None else y + asarray(bias, name="row_linear")


def parallel_attention(
    x: ArrayLike,
    qkv_weight: ArrayLike,
    qkv_bias: ArrayLike | None,
    out_weight: ArrayLike,
    out_bias: ArrayLike | None,
    heads: int,
    *,
    causal: bool = True,
) -> ndarray:
    """Self-attention whose heads are divided among the processes, with the layers around it.

    Parameters
    ----------
    x : array (B, S, in)
        The same in all processes.
    qkv_weight : array (3 width / size, in)
        Queries, then keys, then values of this process's heads:
        `share(whole.reshape(3, width, -1), axis=1).reshape(-1, in)`.
    qkv_bias : array (3 width / size,) or None
        The same share of the biases.
    out_weight : array (out, width / size)
        `share(whole, axis=1)`.
    out_bias : array (out,) or None
        Whole.
    heads : int
        Heads of all processes together.
    causal : bool, default True
        Query i sees keys 0 .. i alone.

    Returns
    -------
    ndarray
        (B, S, out), the same in all processes.

    Raises
    ------
    TypeError
        The arrays are not floating-point.
    ValueError
        The heads cannot be divided, or shapes do not fit each other.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: with respect to all arrays. One sum travels forward, one backward.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, w, v = cm.ones((1, 2, 4)), cm.ones((12, 4)), cm.ones((4, 4))
    >>> cm.distributed.parallel_attention(x, w, None, v, None, heads=2).shape
    (1, 2, 4)
    """
    count = world().size
    if heads % count:
        raise ValueError(
            f"parallel_attention: {count} processes cannot divide {heads} heads equally"
        )
    qkv = column_linear(x, qkv_weight, qkv_bias)
    return row_linear(self_attention(qkv, heads // count, causal=causal), out_weight, out_bias)


def _own_rows(name: str, indices: Any, rows: int) -> tuple[ndarray, ndarray]:
    """Indices of a vocabulary as numbers of this process's rows, and which of them are its own; the
    others are 0."""
    indices = require(name, indices, INTEGER, "indices")
    mine = indices - world().rank * rows
    own = (mine >= 0) & (mine < rows)
    return where(own, mine, 0), own


def vocabulary_embedding(indices: ArrayLike, weight: ArrayLike) -> ndarray:
    """Return rows of a table that is divided among the processes.

    Parameters
    ----------
    indices : array of integers, any shape
        The same in all processes. Those beyond the table give zeros.
    weight : array (rows / size, columns)
        This process's rows: `share(table)`.

    Returns
    -------
    ndarray
        Shape indices.shape + (columns,), the same in all processes.

    Raises
    ------
    TypeError
        Indices are not integers, or weight is not floating-point.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: with respect to weight.

    Examples
    --------
    >>> import cudamath as cm
    >>> table = cm.array([[1.0, 2.0], [3.0, 4.0]])
    >>> cm.distributed.vocabulary_embedding(cm.array([1]), table).tolist()
    [[3.0, 4.0]]
    """
    table = require("vocabulary_embedding", weight, FLOATING)
    rows, own = _own_rows("vocabulary_embedding", indices, table.shape[0])
    found = embedding(rows, table)
    return leave(where(own[..., None], found, 0), world=world())


def vocabulary_cross_entropy(
    x: ArrayLike, weight: ArrayLike, targets: ArrayLike, *, classes: int | None = None
) -> ndarray:
    """Mean cross entropy of logits whose classes are divided among the processes.

    With z = x @ whole_weight.T, the mean over all rows of log(sum over j of exp(z[j])) - z[target].
    No process has all logits of a row.

    Parameters
    ----------
    x : array (..., in)
        The same in all processes.
    weight : array (rows / size, in)
        This process's rows: `share(whole_weight)`.
    targets : array of integers (...)
        The same in all processes.
    classes : int, optional
        Rows of the whole weight from it on stand for nothing: for one that is padded.

    Returns
    -------
    ndarray
        A number, the same in all processes; float32 for 16-bit arrays.

    Raises
    ------
    TypeError
        Targets are not integers, or the others are not floating-point.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: with respect to x and weight. Three numbers a row travel forward, the gradient of x
    backward.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, w = cm.array([[0.0, 0.0]]), cm.ones((2, 2))
    >>> round(float(cm.distributed.vocabulary_cross_entropy(x, w, cm.array([1]))), 4)
    0.6931
    """
    table = require("vocabulary_cross_entropy", weight, FLOATING)
    wide = compute_dtype(table.dtype)
    logits = column_linear(x, table).astype(wide)
    rows = table.shape[0]
    if classes is not None:
        left = classes - world().rank * rows
        if left < rows:
            there = asarray(np.arange(rows) < left, device=logits.device)
            logits = where(there, logits, -np.inf)
    targets = asarray(targets, device=logits.device)
    place, own = _own_rows("vocabulary_cross_entropy", targets, rows)
    most = all_reduce(stop_gradient(logits).max(axis=-1), "max")
    shifted = logits - most[..., None]
    chosen = take_along_axis(shifted, place[..., None], axis=-1)[..., 0]
    sums = leave(exp(shifted).sum(axis=-1), world=world())
    hits = leave(where(own, chosen, 0), world=world())
    return (log(sums) - hits).mean()
