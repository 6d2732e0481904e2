"""A linear layer and its cross entropy as one function, which holds few of the scores at a time."""

from __future__ import annotations

from typing import Any

from ..autodiff.transforms import vjp
from ..core import recording
from ..core.array import ndarray
from ..core.asarray import same_device
from ..core.autograd import tape
from ..core.devices import TRACED
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.op import FLOATING, INTEGER, Op
from ..core.dtypes import compute_dtype, float16
from ..core.scalar import scalar_results
from ..core.shapes import as_integer
from ..core.typing import ArrayLike
from ..ops.elementwise import not_equal
from ..ops.join import concat
from .linear import linear
from .loss import cross_entropy, signed
from .softmax import in_order

__all__ = ["linear_cross_entropy"]

NAME = "linear_cross_entropy"
SMALL = 1 << 16  # scores up to which separate operations are fewer launches
MOST = 2 << 30  # bytes of scores held at a time, unless requested otherwise

_linear_loss = Op(
    "linear_loss",
    cpu="linear_loss.linear_loss",
    cuda="loss.dispatch.linear_loss",
    writes=True,
)


@scalar_results
def linear_cross_entropy(
    x: Any,
    weight: Any,
    targets: ArrayLike,
    *,
    classes: int | None = None,
    ignore_index: int = -100,
    rows: int | None = None,
) -> ndarray:
    """Mean cross entropy between `linear(x, weight)` and class indices.

    The end of a language model.

    loss = mean over i of log sum_c exp(s_ic) - s_it,   s = x @ weight.mT,   t = targets[i], over
        the first `classes` columns

    The scores are by far the largest array of a language model. Here the gradient takes their place
    as soon as a row's loss is known, and the products of the gradients follow at once; with many
    rows a part of them is done at a time. So at most `rows` x weight.shape[0] scores are held,
    once, and the loss costs one read and one write of them.

    Parameters
    ----------
    x : array (..., in) of float16, bfloat16, float32 or float64
        Array of any shape and dtype.
    weight : array (out, in), dtype of `x`
        A row for each class. Rows beyond `classes` pad the products to efficient sizes; they get no
        gradient.
    targets : array (...) of integers
        Class indices, 0 <= target < classes.
    classes : int, optional
        How many of the rows of `weight` count; by default all.
    ignore_index : int, default -100
        Targets of this value count neither in the loss nor in the gradient.
    rows : int, optional
        Rows of x to do at a time; by default as many as have 2 GiB of scores.

    Returns
    -------
    ndarray
        0-d; float32 for 16-bit operands, else of their dtype. NaN if every target is ignored.

    Raises
    ------
    TypeError
        X or weight is not floating-point, they differ in dtype, or targets are not integers.
    ValueError
        Shapes that do not fit; `classes` or `rows` out of range.
    IndexError
        A target outside 0 .. classes - 1. On the GPU it is raised at the next synchronisation.

    Notes
    -----
    Gradient: with respect to x and weight, of any order. It is found along with the loss (for
    float16, which needs the loss scaled first, it is that of `linear` and `cross_entropy`).
    Deterministic: sums in a fixed order.

    Accuracy: 16-bit scores are rounded once, as those of `linear` are; what follows is computed in
    float32.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, weight = cm.array([[2.0, 0.0], [0.0, 0.0]]), cm.array([[1.0, 0.0], [0.0, 1.0]])
    >>> round(cm.ml.linear_cross_entropy(x, weight, cm.array([0, 1])).item(), 4)
    0.41
    """
    x, weight, targets = coerce(NAME, (x, weight, targets))
    require(NAME, x, FLOATING, "x")
    require(NAME, weight, FLOATING, "weight")
    require(NAME, targets, INTEGER, "targets")
    if x.dtype != weight.dtype:
        raise TypeError(
            f"{NAME}: wants x and weight in one dtype, got {x.dtype} and {weight.dtype}"
        )
    if (
        not x.ndim
        or weight.ndim != 2
        or x.shape[-1] != weight.shape[1]
        or targets.shape != x.shape[:-1]
    ):
        raise ValueError(
            f"{NAME}: wants x (..., in), weight (out, in) and targets (...), got {x.shape}, "
            f"{weight.shape} and "
            f"{targets.shape}"
        )
    classes = weight.shape[0] if classes is None else as_integer(NAME, "classes", classes)
    ignored = as_integer(NAME, "ignore_index", ignore_index)
    if not 1 <= classes <= weight.shape[0]:
        raise ValueError(
            f"{NAME}: wants 1 to {weight.shape[0]} classes for weight {weight.shape}, got {classes}"
        )
    small = rows is None and targets.size * weight.shape[0] <= SMALL and x._layout.device >= 0
    rows = (
        max(1, MOST // (weight.shape[0] * x.dtype.itemsize))
        if rows is None
        else as_integer(NAME, "rows", rows, 1)
    )
    x, picks = (
        x.reshape((targets.size, weight.shape[1])),
        in_order(signed(targets)).reshape((targets.size,)),
    )
    if (
        x.dtype == float16
        and (x._node is not None or weight._node is not None)
        or small
        and x.dtype == compute_dtype(x.dtype)
        or same_device(NAME, (x, weight, targets)) < TRACED  # a call of vmap
    ):
        return _composed(x, weight, picks, classes, ignored)
    wanted = x._node is not None, weight._node is not None
    with recording.paused():
        loss, dx, dweight = _with_slopes(
            x._alias(), weight._alias(), picks, classes, ignored, rows, wanted
        )
    if any(wanted):
        inputs = (x, weight, picks, dx, dweight)
        tape.record(_Recorded, inputs, loss, {"classes": classes, "ignore_index": ignored})
    return loss


def _with_slopes(
    x: ndarray,
    weight: ndarray,
    targets: ndarray,
    classes: int,
    ignore_index: int,
    rows: int,
    wanted: tuple[bool, bool],
) -> tuple[ndarray, ndarray | None, ndarray | None]:
    """The loss, and those gradients by x and weight that are wanted, part by part."""
    wide = compute_dtype(x.dtype)
    count = not_equal(targets, ignore_index).sum().astype(wide)
    losses, slopes, total = [], [], None
    for first in range(0, max(len(targets), 1), rows):
        part = x[first : first + rows]
        scores = part @ weight.mT
        losses.append(
            _linear_loss(
                scores,
                targets[first : first + rows],
                count,
                classes=classes,
                ignore_index=ignore_index,
            )
        )
        if wanted[0]:  # `scores` now are gradients
            slopes.append(scores @ weight)
        if wanted[1]:
            more = scores.mT @ part
            total = more if total is None else total.astype(wide) + more
        del scores
    loss = (losses[0] if len(losses) == 1 else concat(losses)).sum() / count
    dx = (slopes[0] if len(slopes) == 1 else concat(slopes)) if wanted[0] else None
    return loss, dx, None if total is None else total.astype(weight.dtype)


def _composed(
    x: ndarray, weight: ndarray, targets: ndarray, classes: int, ignore_index: int
) -> ndarray:
    """The same out of public operations."""
    scores = linear(x, weight)
    scores = (scores if classes == weight.shape[0] else scores[:, :classes]).astype(
        compute_dtype(x.dtype), copy=False
    )
    return cross_entropy(scores, targets, ignore_index=ignore_index)


class _Recorded:
    """What the tape remembers of a call: its gradient, which is known but for a factor."""

    name = NAME
    several = broadcasts = False

    @staticmethod
    def saves(count: int) -> tuple[bool, tuple[bool, ...]]:
        """The result is not kept, the operands are."""
        return False, (True,) * count

    @staticmethod
    def vjp(
        g: ndarray,
        _y: None,
        x: ndarray,
        weight: ndarray,
        targets: ndarray,
        dx: ndarray | None,
        dweight: ndarray | None,
        *,
        classes: int,
        ignore_index: int,
    ) -> tuple:
        """Gradients of x and weight; recorded ones where a gradient of the gradient is being
        taken."""
        if recording.state.paused:
            by_x, by_weight = (None if d is None else d * g.astype(d.dtype) for d in (dx, dweight))
        else:
            _, pull = vjp(
                lambda x, weight: _composed(x, weight, targets, classes, ignore_index), x, weight
            )
            by_x, by_weight = pull(g)
        return by_x, by_weight, None, None, None
