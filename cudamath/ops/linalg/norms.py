"""Norms of vectors and matrices. Kernels: kernels/reduce/dispatch.py,
kernels/reduce/power_norm.py."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core import dtypes
from ...core.array import ndarray
from ...core.devices import TRACED
from ...core.dispatch.checks import MISTAKES, as_numbers, as_of, require
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.op import INEXACT, Composed
from ...core.shapes import normalize_axes
from ...core.specs import reductions as specs
from ...core.typing import ArrayLike
from .. import reduce
from ..elementwise import PRECISE, abs
from ..reduction_op import kept_axes
from ..shape import astype, expand_dims, moveaxis
from .keywords import scipy_keywords

__all__ = ["matrix_norm", "norm", "vector_norm"]


@fast_path("x")
def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> ndarray:
    """Norm of vectors: (Σ |x|^ord)^(1 / ord).

    The order inf gives max |x|, -inf gives min |x|, and 0 gives the number of elements that are not
    0.

    Parameters
    ----------
    x : array_like
        Numeric or bool array.
    axis : int or sequence of int, optional
        Axis or axes whose elements form a vector. None takes all of them.
    keepdims : bool, default False
        Whether these axes stay in the result with size 1.
    ord : float, default 2
        Order of the norm.

    Returns
    -------
    ndarray
        Real array of x's precision (float64 for integers), without the reduced axes.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range, or the order is -inf and there are no elements.

    Notes
    -----
    The gradient is g x / y for the order 2, and g sign(x) (|x| / y)^(ord - 1) otherwise. It is 0
    where x or y is 0, and so are its own derivatives there.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.vector_norm([[3.0, 4.0], [6.0, 8.0]], axis=1).tolist()
    [5.0, 10.0]
    """  # noqa: E501
    x = _numbers("vector_norm", x)
    axes = tuple(sorted(normalize_axes("vector_norm", axis, x.ndim)))
    return _vector_norm("vector_norm", x, axes, keepdims, ord)


def _numbers(name: str, x: Any) -> ndarray:
    """Numbers, as which bools count: 0 and 1."""
    x = require(name, x)
    return astype(x, np.uint8) if x._layout.dtype.kind == "b" else x


# A norm of any order is one launch, a block a vector, up to _SHORT elements: of fewer than _WHOLE,
# up to _FEW vectors.
_SHORT, _WHOLE, _FEW = 1 << 14, 128, 1 << 13
#: Orders that take one pass over an array of any size.
_PASSES: dict[float, specs.Norm] = {
    0: specs.NORM_0,
    1: specs.NORM_1,
    2: specs.NORM,
    math.inf: specs.NORM_INF,
    -math.inf: specs.NORM_MINUS_INF,
}


def _vector_norm(
    name: str, x: ndarray, axes: tuple[int, ...], keepdims: bool, ord: float
) -> ndarray:
    (ord,) = as_numbers(name, "real numbers", ord)  # of Python's: they do not widen x
    traced = x._layout.device == TRACED  # by its parts a norm can be fused
    if ord in _PASSES and (ord == 2 or not traced):
        return reduce.vector_length(name, x, axes, keepdims, _PASSES[ord])
    result = dtypes.real_dtype(dtypes.default_float() if x.dtype.kind in "iu" else x.dtype)
    if ord == 0:
        return astype(reduce.count_nonzero(x, axis=axes, keepdims=keepdims), result)
    length = math.prod([x.shape[i] for i in axes])
    recorded = x._node is not None and not traced
    if (
        recorded and x.dtype not in PRECISE and x.dtype not in dtypes.COMPLEX
    ):  # the card's rule knows no numbers of 16 bits
        return astype(
            _vector_norm(name, astype(x, dtypes.compute_dtype(result)), axes, keepdims, ord),
            result,
            copy=False,
        )
    params: dict[str, Any] = {
        "axis": axes,
        "keepdims": kept_axes(name, keepdims, x),
        "dtype": result,
    }
    if (
        not traced
        and ord not in _PASSES
        and length <= _SHORT
        and (length >= _WHOLE or x.size <= _FEW * length)
    ):
        return reduce._power_norm(x, scalars=(ord,), **params)
    if traced:  # of a fused function the parts are differentiated
        return _parts(x, **params, scalars=(ord,))
    return _by_parts(x, **params, scalars=(ord,))


def _parts(
    x: ndarray, *, axis: tuple[int, ...], keepdims: bool, dtype: np.dtype, scalars: tuple[float]
) -> ndarray:
    """The norm by powers and a sum."""
    (ord,) = scalars
    sizes = abs(x if x.dtype in INEXACT else astype(x, dtype))  # |-128| is not an int8
    if ord == 1 or math.isinf(ord):
        return (reduce.sum if ord == 1 else reduce.max if ord > 0 else reduce.min)(
            sizes, axis=axis, keepdims=keepdims
        )
    wide = dtypes.compute_dtype(dtype)  # powers of 16-bit numbers soon leave their range
    total = reduce.sum(astype(sizes, wide, copy=False) ** ord, axis=axis, keepdims=keepdims)
    return astype(total ** (1 / ord), dtype, copy=False)


#: One rule for vectors of all lengths, which knows what to do at 0.
_by_parts = Composed("power_norm", _parts, reduce._power_norm_grad)


@fast_path("x")
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> ndarray:
    """Norm of matrices.

    The order "fro" is the root of the sum of squares; 1 and -1 are the largest and the smallest sum
    of absolute values of a column; inf and -inf those of a row; 2 and -2 the largest and the
    smallest singular value; "nuc" is the sum of the singular values.

    Parameters
    ----------
    x : array_like of shape (..., m, n)
        Numeric or bool matrices.
    keepdims : bool, default False
        Whether the last two axes stay in the result with size 1.
    ord : float or str, default "fro"
        Order of the norm, see above.

    Returns
    -------
    ndarray
        Real array of shape (...) and of x's precision (float64 for integers).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        There are fewer than two dimensions, the order is unknown, or the smallest of no elements is
        requested.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.matrix_norm([[1.0, -7.0], [2.0, 3.0]], ord=1))
    10.0
    """
    x, ord = _numbers("matrix_norm", x), _order("matrix_norm", ord)
    keepdims = kept_axes("matrix_norm", keepdims, x)
    if x.ndim < 2:
        raise ValueError(
            f"matrix_norm: wants arrays of at least two dimensions, got shape {x.shape}"
        )
    if ord == "fro" or ord is None:
        return reduce.vector_length("matrix_norm", x, (x.ndim - 2, x.ndim - 1), keepdims)
    if ord in (2, -2, "nuc"):
        from .spectral import svdvals

        found = (reduce.sum if ord == "nuc" else _extreme(x, ord, min(x.shape[-2:])))(
            svdvals(x), axis=-1
        )
        return expand_dims(found, axis=(-2, -1)) if keepdims else found
    if not isinstance(ord, (int, float, np.integer, np.floating)) or builtins.abs(ord) not in (
        1,
        math.inf,
    ):
        raise ValueError(
            f"matrix_norm: wants ord 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}"
        )
    lines, both = (x.ndim - (2 if builtins.abs(ord) == 1 else 1),), (x.ndim - 2, x.ndim - 1)
    sums = _vector_norm("matrix_norm", x, lines, True, 1)
    return _extreme(x, ord, x.shape[both[0] + both[1] - lines[0]])(
        sums, axis=both, keepdims=keepdims
    )


def _order(name: str, ord: Any) -> Any:
    """An order, or the number in an array of one element."""
    return (
        as_numbers(name, "one number as ord", ord)[0]
        if isinstance(ord, (ndarray, np.ndarray))
        else ord
    )


def _extreme(x: ndarray, ord: Any, count: int) -> Callable:
    """What chooses the largest (ord > 0) or smallest of so many sizes. The largest of none is 0, as
    in NumPy: their sum."""
    if not count and ord < 0:
        raise ValueError(
            f"matrix_norm: no elements to choose from for ord {ord} of an array of shape {x.shape}"
        )
    return (reduce.max if ord > 0 else reduce.min) if count else reduce.sum


@fast_path("x")
@scipy_keywords(check_finite=("x",))
def norm(
    x: ArrayLike,
    /,
    ord: float | str | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> ndarray:
    """Norm of vectors or matrices: `vector_norm` for one axis, `matrix_norm` for two.

    Without `ord` and `axis` it is the norm of all elements.

    Parameters
    ----------
    x : array_like
        Numeric or bool array.
    ord : float or str, optional
        Order of the norm. None is 2 for vectors and "fro" for matrices.
    axis : int or sequence of int, optional
        Axis of the vectors, or the two axes of the matrices. None takes all elements.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    ndarray
        Real array of x's precision (float64 for integers).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range, the order is unknown, or there are more than two dimensions, an
        order and no axis.

    Notes
    -----
    The gradient is that of `vector_norm` and `matrix_norm`.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.norm([[1.0, 2.0], [2.0, 4.0]]))
    5.0
    """
    x, ord = _numbers("norm", x), _order("norm", ord)
    if ord is axis is None:
        return reduce.vector_length("norm", x, tuple(range(x.ndim)), keepdims)
    axes = normalize_axes("norm", axis, x.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"norm: wants a number as the order of a vector norm, got {ord!r}")
        return _vector_norm("norm", x, axes, keepdims, 2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(
            f"norm: wants one axis or two, got axes {axes} of an array of shape {x.shape}"
        )
    order: float | str = "fro" if ord is None or ord == "f" else ord
    matrices = moveaxis(x, axes, (-2, -1))
    try:
        moved = matrix_norm(matrices, keepdims=keepdims, ord=order)
    except MISTAKES as error:
        raise as_of("norm", error) from None
    return moveaxis(moved, (-2, -1), axes) if keepdims else moved
