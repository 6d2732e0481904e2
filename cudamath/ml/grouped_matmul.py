"""Products of groups of rows, each with a matrix of its own: what a mixture of experts does."""

from __future__ import annotations

from ..core.array import ndarray
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, INTEGER, Op
from ..core.typing import ArrayLike
from .softmax import in_order

__all__ = ["grouped_matmul"]


@fast_path("x", "weight", "ends")
def grouped_matmul(x: ArrayLike, weight: ArrayLike, ends: ArrayLike) -> ndarray:
    """Return products of different sizes in one launch.

    Rows of x in groups, each group times its own matrix.

    y[ends[g - 1] : ends[g]] = x[ends[g - 1] : ends[g]] @ weight[g], where ends[-1] is taken as 0
    for g = 0.

    Parameters
    ----------
    x : array (rows, in); floating-point
        Group by group: rows that belong together follow each other.
    weight : array (groups, in, out), dtype of x
        Its transpose, `w.mT` of an array (groups, out, in), is read where it lies.
    ends : array (groups,) of integers
        One past the last row of each group, in non-decreasing order. Groups may be empty; rows from
        the last end on are in no group and give zeros. The array stays on its device: nothing waits
        for it.

    Returns
    -------
    ndarray
        (rows, out), dtype of x. 16-bit numbers are accumulated in float32.

    Raises
    ------
    TypeError
        X and weight are not floating-point, or not of one dtype; ends are not integers.
    ValueError
        Shapes that do not fit.
    IndexError
        An end before the one ahead of it, or beyond the rows. On the GPU it is raised at the next
        synchronisation.

    Notes
    -----
    Gradient: with respect to x and weight, by such products in one launch each, of any order.
    Deterministic: each sum runs in the order of its terms.
    On GPUs of compute capability 9.0 16-bit numbers are multiplied by tensor cores if `in` and
    `out` are multiples of 8.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> weight = cm.array([[[1.0], [1.0]], [[10.0], [0.0]]])
    >>> cm.ml.grouped_matmul(x, weight, cm.array([1, 3])).tolist()
    [[3.0], [30.0], [50.0]]
    """
    x, weight, ends = coerce("grouped_matmul", (x, weight, ends))
    (
        require("grouped_matmul", x, FLOATING, "x"),
        require("grouped_matmul", weight, FLOATING, "weight"),
    )
    require("grouped_matmul", ends, INTEGER, "ends")
    if x.dtype != weight.dtype:
        raise TypeError(
            f"grouped_matmul: wants x and weight of one dtype, got {x.dtype} and {weight.dtype}"
        )
    if (
        x.ndim != 2
        or weight.ndim != 3
        or x.shape[1] != weight.shape[1]
        or ends.shape != weight.shape[:1]
    ):
        raise ValueError(
            "grouped_matmul: wants x (rows, in), weight (groups, in, out) and ends (groups,), "
            f"got {x.shape}, "
            f"{weight.shape} and {ends.shape}"
        )
    return _grouped_matmul(
        in_order(x), weight if weight.mT.is_contiguous else in_order(weight), in_order(ends)
    )


def _outer(x: ndarray, y: ndarray, ends: ndarray) -> ndarray:
    """x^T y of each group, (groups, in, out)."""
    return _grouped_outer(in_order(x), in_order(y), ends)


_grouped_matmul = Op(
    "grouped_matmul",
    cpu="grouped_matmul.grouped_matmul",
    cuda="matmul.grouped.grouped_matmul",
    vjp=(
        lambda g, _y, _x, weight, ends: grouped_matmul(g, weight.mT, ends),
        lambda g, _y, x, _weight, ends: _outer(x, g, ends),
        lambda _g, _y, _x, _weight, _ends: None,
    ),
)
_grouped_outer = Op(
    "grouped_outer",
    cpu="grouped_matmul.grouped_outer",
    cuda="matmul.grouped.grouped_outer",
    vjp=(
        lambda g, _y, _x, y, ends: grouped_matmul(y, g.mT, ends),
        lambda g, _y, x, _other, ends: grouped_matmul(x, g, ends),
        lambda _g, _y, _x, _other, _ends: None,
    ),
)
