"""Embedding: rows of a table by index."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.op import FLOATING, INTEGER, Op, coerce, require
from ..ops.index import _gather_grad
from .softmax import in_order

__all__ = ["embedding"]


def embedding(indices: Any, weight: Any) -> ndarray:
    """Rows of a table chosen by index: y[..., :] = weight[indices[...], :].

    Parameters
    ----------
    indices : array of integers, any shape
        0 <= index < rows. Negative indices are errors: in a table of tokens they are mistakes.
    weight : array (rows, columns); floating-point
        The table, one row an entry of the vocabulary.

    Returns
    -------
    ndarray
        Shape indices.shape + (columns,), dtype of `weight`.

    Raises
    ------
    TypeError
        Indices are no integers, or weight is not floating-point.
    ValueError
        Weight is not two-dimensional.
    IndexError
        An index outside 0 .. rows - 1. On the GPU it is raised at the next synchronisation.

    Gradient: with respect to weight, the rows of g added by index in the order of the indices, of any order.
    Deterministic: sorted, no atomics.

    >>> import cudamath as cm
    >>> cm.ml.embedding(cm.array([[1, 0]]), cm.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[[3.0, 4.0], [1.0, 2.0]]]
    """
    indices, weight = coerce("embedding", (indices, weight))
    require("embedding", indices, INTEGER, "indices")
    require("embedding", weight, FLOATING, "weight")
    if weight.ndim != 2:
        raise ValueError(f"embedding: wants weight (rows, columns), got shape {weight.shape}")
    rows = _embedding(in_order(indices).reshape((indices.size,)), in_order(weight))
    return rows.reshape((*indices.shape, weight.shape[1]))


_embedding = Op("embedding", cpu="embedding.embedding", cuda="embedding.embedding",
                vjp=lambda g, _y, indices, weight: (None, _gather_grad(in_order(g), indices, shape=weight.shape, axis=0)))
