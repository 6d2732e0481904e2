"""Embedding: rows of a table by index; one-hot: rows of the identity."""

from __future__ import annotations

from ..autodiff.transforms import stop_gradient
from ..core.array import ndarray
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, INTEGER, Op
from ..core.dtypes import as_dtype
from ..core.shapes import as_integer
from ..core.typing import ArrayLike, DTypeLike
from ..ops.index import _gather_grad
from ..ops.where import where
from .softmax import in_order

__all__ = ["embedding", "one_hot"]


@fast_path("indices", "weight")
def embedding(
    indices: ArrayLike,
    weight: ArrayLike,
    *,
    padding_idx: int | None = None,
    classes: int | None = None,
) -> ndarray:
    """Return rows of a table chosen by index: y[..., :] = weight[indices[...], :].

    Parameters
    ----------
    indices : array of integers, any shape
        0 <= index < rows. Negative indices are errors: in a table of tokens they are mistakes.
    weight : array (rows, columns); floating-point
        The table, one row per entry of the vocabulary.
    padding_idx : int, optional
        The index of a row that is looked up but gets no gradient; a negative one counts from the
        end.
    classes : int, optional
        Indices from it on are errors, too: for a table padded with rows that stand for nothing.

    Returns
    -------
    ndarray
        Shape indices.shape + (columns,), dtype of `weight`.

    Raises
    ------
    TypeError
        Indices are not integers, or weight is not floating-point.
    ValueError
        Weight is not two-dimensional, or has no row `padding_idx`; `classes` is below 1 or above
        the rows.
    IndexError
        An index outside 0 .. rows - 1, or classes - 1. On the GPU it is raised at the next
        synchronisation.

    Notes
    -----
    Gradient: with respect to weight, the rows of g added by index in the order of the indices, of
    any order. Deterministic: no atomics of floats.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.embedding(cm.array([[1, 0]]), cm.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[[3.0, 4.0], [1.0, 2.0]]]
    """
    indices, weight = coerce("embedding", (indices, weight))
    require("embedding", indices, INTEGER, "indices")
    require("embedding", weight, FLOATING, "weight")
    if weight.ndim != 2:
        raise ValueError(f"embedding: wants weight (rows, columns), got shape {weight.shape}")
    if padding_idx is not None:
        padding_idx = as_integer("embedding", "padding_idx", padding_idx)
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise ValueError(
                f"embedding: wants padding_idx in {-weight.shape[0]} .. {weight.shape[0] - 1}, "
                f"got {padding_idx}"
            )
        padding_idx %= weight.shape[0]
    if (
        classes is not None
        and not 1 <= (classes := as_integer("embedding", "classes", classes)) <= weight.shape[0]
    ):
        raise ValueError(
            f"embedding: wants 1 to {weight.shape[0]} classes for weight {weight.shape}, got "
            f"{classes}"
        )
    flat = in_order(indices).reshape((indices.size,))
    rows = _embedding(flat, in_order(weight), classes=classes)
    if padding_idx is not None and rows._node is not None:
        rows = where((flat == padding_idx)[:, None], stop_gradient(rows), rows)
    return rows.reshape((*indices.shape, weight.shape[1]))


def one_hot(
    indices: ArrayLike, num_classes: int | None = None, *, dtype: DTypeLike = "int64"
) -> ndarray:
    """Class indices as rows of the identity: y[..., c] = 1 where c = indices[...], else 0.

    Parameters
    ----------
    indices : array of integers, any shape
        0 <= index < num_classes.
    num_classes : int, at least 1, optional
        By default one more than the largest index, which is looked for (on a GPU: waited for).
    dtype : dtype, default "int64"
        Of the result; a floating-point one makes soft labels of it.

    Returns
    -------
    ndarray
        Shape indices.shape + (num_classes,).

    Raises
    ------
    TypeError
        Indices are not integers, or num_classes is none.
    ValueError
        Num_classes is below 1, or missing although there are no indices.
    IndexError
        An index outside 0 .. num_classes - 1. On the GPU it is raised at the next synchronisation.

    Notes
    -----
    Gradient: none, the result is constant. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.one_hot(cm.array([1, 0]), 3).tolist()
    [[0, 1, 0], [1, 0, 0]]
    """
    indices = require("one_hot", indices, INTEGER, "indices")
    if num_classes is None:
        if not indices.size:
            raise ValueError(
                "one_hot: wants num_classes where there are no indices, got indices of shape "
                f"{indices.shape}"
            )
        num_classes = max(int(indices.max()) + 1, 1)
    num_classes = as_integer("one_hot", "num_classes", num_classes, 1)
    rows = _one_hot(
        in_order(indices).reshape((indices.size,)),
        classes=num_classes,
        dtype=as_dtype(dtype, "one_hot"),
    )
    return rows.reshape((*indices.shape, rows.shape[1]))


_embedding = Op(
    "embedding",
    cpu="embedding.embedding",
    cuda="index.dispatch.embedding",
    vjp=lambda g, _y, indices, weight, **_: (
        None,
        _gather_grad(in_order(g), indices, shape=weight.shape, axis=0),
    ),
)
_one_hot = Op("one_hot", cpu="embedding.one_hot", cuda="index.embedding.one_hot")
