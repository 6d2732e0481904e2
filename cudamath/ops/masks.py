"""Selection by masks: positions of what is not zero, elements under a mask. Kernels:
kernels/index/stream_compaction.py.

The length of the result must be known on the host: one synchronisation on a GPU. Of few elements
the device writes first, into room for all of them, and the result is the beginning of that; of many
it counts first (`written`).
"""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.dispatch.call_record import CHOSE, obstruct
from ..core.dispatch.checks import require
from ..core.dispatch.op import Op
from ..core.layout import Layout
from ..core.typing import ArrayLike
from ..runtime.memory import SMALL, rounded
from .shape import _copy, ravel

__all__ = ["argwhere", "flatnonzero", "nonzero"]

_count_true = Op(
    "count_true", cpu="stream_compaction.count_true", cuda="index.stream_compaction.count_true"
)
_nonzero = Op("nonzero", cpu="stream_compaction.nonzero", cuda="index.stream_compaction.nonzero")
_chosen = Op("chosen", cpu="stream_compaction.chosen", cuda="index.stream_compaction.chosen")
_FEW = 1 << 14  # elements up to which the device writes first
FETCHED = (
    1 << 14
)  # bytes that the host fetches in less time than it takes to launch what looks through them for it
_SPARSE = 8  # times as much memory as is needed, from which on such a result gets memory of its own


def written(
    card: Op,
    arrays: tuple[ndarray, ...],
    count: Op,
    each: int,
    /,
    told: dict[str, Any] | None = None,
    **params: Any,
) -> tuple[ndarray, int]:
    """What a card of kernels/index/stream_compaction.py chooses on a GPU: a new array with room for
    as much or more, and how many there are.

    count: the card that counts them, of the first array; each: bytes of what is written for one of
    them, not counting axes; told: parameters of both cards; params: of the one that writes."""
    x, told = arrays[0], told or {}
    if x._layout.size <= _FEW:
        found, total = card(
            *arrays, capacity=x._layout.size + 1 & -2, **told, **params
        )  # even: each axis begins aligned
        return found, total.item()
    counts = count(x, **told)
    many = int(counts.to_numpy().sum())
    return card(*arrays, counts, capacity=rounded(many * each) // each, **told, **params), many


def beginning(found: ndarray, shape: tuple[int, ...]) -> ndarray:
    """The first elements of a new array, in this shape; in memory of their own if most of what they
    lie in would be idle."""
    held = found._layout
    found._layout = layout = Layout.new(shape, held.dtype, held.device)
    return _copy(found) if held.nbytes > max(layout.nbytes, SMALL) * _SPARSE else found


def elements(x: ndarray, mask: ndarray) -> ndarray:
    """``x[mask]`` for a mask of x's shape, on its device, where no gradient is recorded."""
    if x._layout.device < 0:
        obstruct(CHOSE)
        return _chosen(mask, x, capacity=0)
    found, count = written(_chosen, (mask, x), _count_true, x._layout.itemsize)
    return beginning(found, (count,))


def nonzero(x: ArrayLike, /) -> tuple[ndarray, ...]:
    """Return the positions of the elements that are not 0 (or True), in C order.

    One int64 array for each axis.

    Parameters
    ----------
    x : array_like
        Array of at least.

    Returns
    -------
    tuple of ndarray
        One int64 array for each axis.

    Raises
    ------
    ValueError
        The array has no dimensions.

    Notes
    -----
    The result is a constant and has no gradient. On a GPU the call waits for the number of
    positions.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.nonzero(cm.asarray([[0, 7], [8, 0]]))
    (array([0, 1], device='cpu'), array([1, 0], device='cpu'))
    """
    x = require("nonzero", x)
    if not x.ndim:
        raise ValueError("nonzero: wants at least 1 dimension, got a 0-d array")
    if x._layout.device < 0:
        obstruct(CHOSE)
        return _nonzero(x, capacity=0, rows=False)
    found, count = written(_nonzero, (x,), _count_true, 8, rows=False)
    if x._layout.ndim == 1:
        return (beginning(found, (count,)),)
    room = found._layout.shape[1]
    line = Layout.new((room,), found._layout.dtype, x._layout.device)
    return tuple(
        [beginning(found._view(line, 8 * room * axis), (count,)) for axis in range(x._layout.ndim)]
    )


def flatnonzero(x: ArrayLike, /) -> ndarray:
    """The positions, in the raveled array, of the elements that are not 0.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        In int64 array.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.flatnonzero(cm.asarray([[0, 7], [8, 0]]))
    array([1, 2], device='cpu')
    """
    return nonzero(ravel(require("flatnonzero", x)))[0]


def argwhere(x: ArrayLike, /) -> ndarray:
    """Return the positions of the elements that are not 0, one per row.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        Array of int64 of shape (count, ndim).

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.argwhere(cm.asarray([[0, 7], [8, 0]]))
    array([[0, 1],
           [1, 0]], device='cpu')
    """
    x = require("argwhere", x)
    if not x.ndim:
        return argwhere(x[None])[:, :0]
    if x._layout.device < 0:
        obstruct(CHOSE)
        return _nonzero(x, capacity=0, rows=True)
    found, count = written(_nonzero, (x,), _count_true, 8, rows=True)
    return beginning(found, (count, x.ndim))
