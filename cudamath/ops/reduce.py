"""Reductions over axes: their ops, gradients and public functions. Definitions:
core/specs/reductions.py; kernels: kernels/reduce/dispatch.py."""

from __future__ import annotations

import builtins
from math import prod as product
from typing import Any

import numpy as np

from ..autodiff.transforms import vjp
from ..core import dtypes, recording
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.autograd import constants
from ..core.devices import CPU
from ..core.dispatch.checks import coerce, keeps_imaginary, require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import ANY, COMPLEX, INEXACT, REAL, Op
from ..core.specs import reductions as specs
from ..core.specs.reduction import floating_dtype
from ..core.typing import ArrayLike, DTypeLike
from . import reduction_op
from .elementwise import (
    abs,
    add,
    conj_or_same,
    equal,
    maximum,
    minimum,
    multiply,
    norm_grad,
    norm_slope,
    sign,
    spread_grad,
    sqrt,
)
from .reduction_op import Axis, ReductionOp, kept_axes, total_in, total_in_bool
from .shape import astype, broadcast_to, flip, permute_dims, reshape, span
from .ufunc import SCALARS
from .where import where as choose

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


# -------------------- gradients


def _kept(y: ndarray, shape: tuple, axis: tuple) -> ndarray:
    """A result with the reduced axes kept as axes of size 1."""
    kept = tuple([1 if i in axis else n for i, n in enumerate(shape)])
    return y if y.shape == kept else reshape(y, kept)


def _spread(y: ndarray, shape: tuple, axis: tuple) -> ndarray:
    """A result seen so that it broadcasts with what was reduced: a number does as it is."""
    return _kept(y, shape, axis) if y._layout.ndim else y


def _back(g: ndarray, shape: tuple, axis: tuple) -> ndarray:
    """The gradient of a sum: g for each of the summands."""
    return broadcast_to(_spread(g, shape, axis), shape)


_MOST_OF_HALF = (
    1 << 14
)  # parts of more are no normal float16, and from 65,520 on the count itself is none


def wide(x: ndarray) -> ndarray:
    """An array of float16 in float32, for what is beyond float16: counts, sums. (The tape brings a
    gradient back to the dtype that it is the gradient of.)"""
    return astype(x, np.float32) if x._layout.dtype == dtypes.float16 else x


def _mean_grad(
    g: ndarray, _y: Any, _x: Any, *, axis: tuple, shape: tuple, **_: Any
) -> tuple[ndarray]:
    count = _count(shape, axis)
    each = constants.divided(g, count)
    if each is None:
        each = g / count if count <= _MOST_OF_HALF else astype(wide(g) / count, g.dtype, copy=False)
    return (_back(each, shape, axis),)


def _count(shape: tuple, axis: tuple) -> int:
    return product([shape[i] for i in axis])


def _prod_grad(g: ndarray, x: ndarray, axis: tuple, dtype: np.dtype) -> ndarray:
    """g times the product of all the others. A gradient that is differentiated itself is that of
    multiplications in pairs."""
    wide = dtypes.compute_dtype(dtype)
    if not x.size:
        return x
    if not recording.state.paused and x._node is not None:
        _, pull = vjp(lambda x: _pairs(astype(x, wide, copy=False), axis), x)
        return pull(astype(_kept(g, x.shape, axis), wide, copy=False))[0]
    g, x = _kept(g, x.shape, axis), conj_or_same(astype(x, dtype, copy=False))
    y = _prod_over(g, x, axis, wide) if x._layout.device == CPU else None
    if y is not None:
        return y
    if len(axis) == 1:
        return _prod_beside(g, x, axis[0], wide)
    order = [
        *[i for i in range(x.ndim) if i not in axis],
        *axis,
    ]  # one axis, the last, in place of all
    turned = permute_dims(x, order)
    lines = reshape(turned, (*turned.shape[: x.ndim - len(axis)], -1))
    y = _prod_beside(reshape(g, (*lines.shape[:-1], 1)), lines, lines.ndim - 1, wide)
    return permute_dims(reshape(y, turned.shape), np.argsort(order).tolist())


def _prod_over(g: ndarray, x: ndarray, axis: tuple, wide: np.dtype) -> ndarray | None:
    """g times the product of all over each factor, on the CPU in a ninth to a quarter of the time
    of running products; None where that is not exact. A factor of 0 leaves its own gradient alone,
    two leave none."""
    total = prod(x, axis=axis, keepdims=True, dtype=wide)
    if reduction_op.normal(total):
        return g * (total / x)
    zero = x == 0
    others = choose(zero, 1, x)
    total = prod(others, axis=axis, keepdims=True, dtype=wide)
    if not reduction_op.normal(total):
        return None
    zeros = sum(zero, axis=axis, keepdims=True)
    return g * choose((zeros == 0) | zero & (zeros == 1), total / others, 0)


def _prod_beside(g: ndarray, x: ndarray, axis: int, wide: np.dtype) -> ndarray:
    """g times the running product of those behind times that of those before: nothing is divided by
    a factor, which may be 0, and the product of all may be beyond the dtype."""
    from .creation import ones_like
    from .join import concat
    from .scan import _scan

    n = x.shape[axis]
    before = concat([ones_like(g), span(x, axis, 0, n - 1)], axis=axis)
    behind = concat([g, flip(span(x, axis, 1, n), axis)], axis=axis)
    before, behind = (_scan(each, kind="prod", axis=axis, dtype=wide) for each in (before, behind))
    return before * flip(behind, axis)


def _pairs(x: ndarray, axis: tuple) -> ndarray:
    """The product along axes, which stay with length 1, as ceil(log2 n) products of halves."""
    for a in axis:
        n, odd = x.shape[a], None
        while n > 1:
            if n % 2:
                last = span(x, a, n - 1, n)
                odd = last if odd is None else odd * last
            n //= 2
            x = span(x, a, 0, n) * span(x, a, n, 2 * n)
        x = x if odd is None else x * odd
    return x


def _extreme_grad(g: ndarray, y: ndarray, x: ndarray, axis: tuple) -> ndarray:
    """g shared equally among the elements that attain the extreme."""
    hit = astype(equal(x, _spread(y, x.shape, axis)), x.dtype)
    return hit * (_spread(g, x.shape, axis) / sum(hit, axis=axis, keepdims=True))


def _var_grad(
    g: ndarray, _y: Any, x: ndarray, *, axis: tuple, correction: float, **_: Any
) -> tuple:
    freedom = builtins.max(_count(x.shape, axis) - correction, 0)
    return (
        spread_grad(
            x, _middle(x, axis), _spread(g, x.shape, axis), 2 / freedom if freedom else np.inf
        ),
    )


def _std_grad(
    g: ndarray, y: ndarray, x: ndarray, *, axis: tuple, correction: float, **_: Any
) -> tuple:
    """g (x - mean) / (y (n - correction)), and 0 where all are equal, as torch has it."""
    freedom = builtins.max(_count(x.shape, axis) - correction, 0)
    below = astype(y, dtypes.compute_dtype(y.dtype), copy=False) * freedom
    return (
        spread_grad(x, _middle(x, axis), _spread(norm_grad(1.0, below, g), x.shape, axis), 1.0),
    )


def _middle(x: ndarray, axis: tuple) -> ndarray:
    """The mean along axes, which stay; not rounded to 16 bits, where it is as far from the numbers
    as they are apart."""
    kind = dtypes.compute_dtype(x.dtype)
    if kind == x.dtype:
        return mean(x, axis=axis, keepdims=True)
    return sum(x, axis=axis, keepdims=True, dtype=kind) / _count(x.shape, axis)


def _norm_grad(
    g: ndarray, y: ndarray, x: ndarray, *, kind: str, axis: tuple, **_: Any
) -> tuple[ndarray | None]:
    norm = specs.REDUCTIONS[kind]
    if norm is specs.NORM:
        return (norm_grad(x, _spread(y, x.shape, axis), _spread(g, x.shape, axis)),)
    if norm is specs.NORM_0:
        return (None,)
    if norm.chooses:
        return (sign(x) * _extreme_grad(g, y, abs(x), axis),)
    return (sign(x) * _spread(g, x.shape, axis),)


def _power_norm_grad(
    g: ndarray, y: ndarray, x: ndarray, *, axis: tuple[int, ...], scalars: tuple, **_: Any
) -> tuple[ndarray]:
    g, y = _spread(g, x.shape, axis), _spread(y, x.shape, axis)
    if x.dtype in COMPLEX:  # by its size, which points where x does
        size = abs(x)
        return (norm_grad(x, size, g * norm_slope(size, y, scalars[0] - 1.0)),)
    return (g * norm_slope(x, y, scalars[0] - 1.0),)


def _mean_of(x: ndarray, where: Any, axis: Axis, keepdims: bool, *, dtype: Any = None) -> ndarray:
    """The mean of the elements that `where` does not leave out."""
    kind = floating_dtype(x.dtype) if dtype is None else dtypes.as_dtype(dtype, "mean")
    x = astype(x, dtypes.compute_dtype(kind), copy=False)
    mask = broadcast_to(asarray(where, device=x.device), x.shape)
    count = sum(mask, axis=axis, keepdims=keepdims)
    count = astype(count, x.dtype) if kind in INEXACT else count
    added = None if kind in INEXACT else kind
    total = sum(x, axis=axis, dtype=added, keepdims=keepdims, where=mask)
    return astype(total / count, kind, copy=False)


def _var_of(x: ndarray, where: Any, axis: Axis, keepdims: bool, **more: Any) -> ndarray:
    """The variance of the elements that `where` does not leave out."""
    variance, kind = _variance_of("var", x, where, axis, keepdims, **more)
    return astype(variance, kind, copy=False)


def _variance_of(
    name: str,
    x: ndarray,
    where: Any,
    axis: Axis,
    keepdims: bool,
    *,
    dtype: Any = None,
    correction: float | None = None,
    ddof: float | None = None,
    mean: Any = None,
) -> tuple[ndarray, np.dtype]:
    """That variance, not yet rounded to 16 bits; the dtype it has in the end."""
    x = _spread_in(name, x, dtype)
    kind = floating_dtype(x.dtype)
    x = astype(x, dtypes.compute_dtype(kind), copy=False)
    mask = broadcast_to(asarray(where, device=x.device), x.shape)
    x = choose(
        mask, x, 0
    )  # what is left out may be NaN or infinite, and 0 times that is no gradient
    if mean is None:
        mean = _mean_of(x, mask, axis, True)
    else:
        mean = mean if type(mean) in SCALARS else coerce(name, (x, mean))[1]
        kind = dtypes.result_type(kind, mean) if dtype is None else kind
    apart = abs(x - mean)
    freedom = astype(sum(mask, axis=axis, keepdims=keepdims), apart.dtype) - _freedom(
        name, correction, ddof
    )
    return sum(apart * apart, axis=axis, keepdims=keepdims, where=mask) / maximum(
        freedom, 0
    ), dtypes.real_dtype(kind)


def _spread_in(name: str, x: Any, dtype: Any) -> ndarray:
    """What a variance is taken of, converted to the dtype that was requested."""
    x = require(name, x, ANY)
    if dtype is None:
        return x
    kind = dtypes.as_dtype(dtype, name)
    if kind not in INEXACT:
        raise TypeError(
            f"{name}: wants a floating-point or complex dtype, got {kind} for {x.dtype} of shape "
            f"{x.shape}"
        )
    keeps_imaginary(name, x, kind)
    return astype(x, kind, copy=False)


def _std_of(x: ndarray, where: Any, axis: Axis, keepdims: bool, **more: Any) -> ndarray:
    """The root of that variance. Its gradient is 0 where all are equal, as `_std_grad`'s."""
    variance, kind = _variance_of("std", x, where, axis, keepdims, **more)
    if variance._node is None:
        return astype(sqrt(variance), kind, copy=False)
    equal_all = variance == 0
    return astype(choose(equal_all, 0, sqrt(choose(equal_all, 1, variance))), kind, copy=False)


_sum = ReductionOp(
    specs.SUM,
    lambda g, _y, _x, *, axis, shape, **_: (_back(g, shape, axis),),
    combine=add,
    widens=True,
)
_mean = ReductionOp(specs.MEAN, _mean_grad, masked=_mean_of, widens=True)
_prod = ReductionOp(
    specs.PROD,
    lambda g, _y, x, *, axis, dtype, **_: (_prod_grad(g, x, axis, dtype),),
    combine=multiply,
    widens=True,
)
_max = ReductionOp(
    specs.MAX, lambda g, y, x, *, axis, **_: (_extreme_grad(g, y, x, axis),), combine=maximum
)
_min = ReductionOp(
    specs.MIN, lambda g, y, x, *, axis, **_: (_extreme_grad(g, y, x, axis),), combine=minimum
)
_var = ReductionOp(specs.VAR, _var_grad, masked=_var_of)
_std = ReductionOp(specs.STD, _std_grad, masked=_std_of)
_norm = ReductionOp(specs.NORM, _norm_grad)
_power_norm = Op(
    "power_norm", cpu="reduce.power_norm", cuda="reduce.power_norm.power_norm", vjp=_power_norm_grad
)
_argmax, _argmin = ReductionOp(specs.ARGMAX), ReductionOp(specs.ARGMIN)
_any, _all = ReductionOp(specs.ANY), ReductionOp(specs.ALL)
_count_nonzero = ReductionOp(specs.COUNT_NONZERO)

# -------------------- checks


def _freedom(name: str, correction: float | None, ddof: float | None) -> float:
    if correction is not None and ddof:
        raise ValueError(
            f"{name}: ddof and correction can't be provided simultaneously, got ddof={ddof} and "
            f"correction={correction}"
        )
    chosen: Any = correction if correction is not None else ddof if ddof is not None else 0
    number = chosen.item() if getattr(chosen, "shape", None) == () else chosen
    if not isinstance(number, (int, float)):
        raise TypeError(f"{name}: correction must be a number, got {chosen!r}")
    return number


# -------------------- summing


@fast_path("x")
@_sum.with_numpy_options
def sum(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    keepdims: bool = False,
) -> ndarray:
    """Sum of the elements over the given axes: y = Σ x.

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype of the result, in which the sum is computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    initial : scalar, optional
        Number that is added to the result.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of `dtype`, of x's shape without the reduced axes. The sum of no elements is 0.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        An axis is out of range or occurs twice.

    Notes
    -----
    The gradient is g, repeated along the reduced axes.

    Accuracy: partial sums are combined in a tree of fixed shape; repeated calls agree bit for bit.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sum([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [4.0, 6.0]
    """
    x, kind = total_in("sum", require("sum", x, ANY), dtype)
    if kind == np.bool_:
        return total_in_bool(lambda x: sum(x, axis, keepdims=keepdims), x)
    shape = () if x._node is None else x._layout.shape
    return _sum.reduce(x, axis, keepdims, kind, out, shape=shape)


@fast_path("x")
@_prod.with_numpy_options
def prod(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    keepdims: bool = False,
) -> ndarray:
    """Product of the elements over the given axes: y = Π x.

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype of the result, in which the sum is computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    initial : scalar, optional
        Number that multiplies the result.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of `dtype`. The product of no elements is 1.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        An axis is out of range or occurs twice.

    Notes
    -----
    The gradient is g times the product of the other elements, also where elements are 0, and also
    where the product of all exceeds the dtype: the running products from both ends must not exceed
    it (for 16-bit floats: exceed float32).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.prod([[1, 2], [3, 4]], axis=1).tolist()
    [2, 12]
    """
    x, kind = total_in("prod", require("prod", x, ANY), dtype)
    if kind == np.bool_:
        return total_in_bool(lambda x: prod(x, axis, keepdims=keepdims), x)
    return _prod.reduce(x, axis, keepdims, kind, out)


@fast_path("x")
@_mean.with_numpy_options
def mean(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    keepdims: bool = False,
) -> ndarray:
    """Arithmetic mean over the given axes: y = Σ x / n.

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype to which the elements are converted first.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of x's dtype, or of the default floating-point dtype (float64) for integers and bool.
        The mean of no elements is NaN.

    Raises
    ------
    TypeError
        The dtype is not supported, or complex numbers would lose their imaginary parts.
    ValueError
        An axis is out of range or occurs twice.

    Notes
    -----
    Gradient: g / n, repeated along the reduced axes.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.mean([1, 2, 4, 5]))
    3.0
    """
    x = require("mean", x, ANY)
    if dtype is not None:
        wide = dtypes.as_dtype(dtype, "mean")
        if (
            x._layout.device >= 0
            and x._node is None
            and x.dtype in REAL
            and wide in INEXACT
            and dtypes.promote(x.dtype, wide) == wide
        ):  # converted as it is read
            return _mean.reduce(x, axis, keepdims, wide, out, shape=())
        if wide not in INEXACT:  # of the sum in that dtype, which wraps, as in NumPy
            total = sum(x, axis=axis, dtype=wide, keepdims=keepdims)
            return astype(total / (x.size // builtins.max(total.size, 1)), wide)
        x = astype(x, wide, copy=False)
    shape = () if x._node is None else x._layout.shape
    return _mean.reduce(x, axis, keepdims, out=out, shape=shape)


@fast_path("x")
@_var.with_numpy_options
@speaks_for("var")
def var(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    ddof: float | None = None,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    mean: ArrayLike | None = None,
) -> ndarray:
    """Variance over the given axes: y = Σ (x - mean)^2 / (n - correction).

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape. Complex numbers contribute |x - mean|^2.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype to which the elements are converted first.
    out : ndarray, optional
        Array that receives the result.
    ddof : float, optional
        NumPy's name of `correction`.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    correction : float, optional
        Degrees of freedom to subtract: 0 gives the variance of a population, 1 the unbiased
        estimate from a sample. The default is 0.
    mean : array_like, optional
        The mean with the reduced axes kept, if it is known. It saves no work: one pass computes
        both.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of `dtype`, or of x's dtype, or of the default floating-point dtype (float64) for
        integers and bool. A `mean` that is an array of a wider dtype widens the result where no
        `dtype` is given. The result is NaN or infinite if n <= correction.

    Raises
    ------
    TypeError
        The dtype is not floating-point, or complex numbers would lose their imaginary parts.
    ValueError
        An axis is out of range or occurs twice, or both `correction` and `ddof` are given.

    Notes
    -----
    Gradient: g 2 (x - mean) / (n - correction).

    References
    ----------
    .. [1] Chan, Golub, LeVeque (1979), Updating formulae and a pairwise algorithm for computing
       sample variances.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.var([1.0, 2.0, 3.0, 6.0], correction=1))
    4.666666666666667
    """
    x = _spread_in("var", x, dtype)
    if x.dtype in COMPLEX or mean is not None:
        return _var_of(
            x, True, axis, keepdims, dtype=dtype, correction=correction, ddof=ddof, mean=mean
        )
    return _var.reduce(x, axis, keepdims, out=out, correction=_freedom("var", correction, ddof))


@fast_path("x")
@_std.with_numpy_options
@speaks_for("std")
def std(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    ddof: float | None = None,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    mean: ArrayLike | None = None,
) -> ndarray:
    """Standard deviation over the given axes: the root of `var`.

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape. Complex numbers contribute |x - mean|^2.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype to which the elements are converted first.
    out : ndarray, optional
        Array that receives the result.
    ddof : float, optional
        NumPy's name of `correction`.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    correction : float, optional
        Degrees of freedom to subtract: 0 gives the variance of a population, 1 the unbiased
        estimate from a sample. The default is 0.
    mean : array_like, optional
        The mean with the reduced axes kept, if it is known. It saves no work: one pass computes
        both.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of `dtype`, or of x's dtype, or of the default floating-point dtype (float64) for
        integers and bool. A `mean` that is an array of a wider dtype widens the result where no
        `dtype` is given. The result is NaN or infinite if n <= correction.

    Raises
    ------
    TypeError
        The dtype is not floating-point, or complex numbers would lose their imaginary parts.
    ValueError
        An axis is out of range or occurs twice, or both `correction` and `ddof` are given.

    Notes
    -----
    Gradient: g (x - mean) / (y (n - correction)), and 0 where all elements are equal.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.std([1.0, 3.0]))
    1.0
    """
    x = _spread_in("std", x, dtype)
    if x.dtype in COMPLEX or mean is not None:
        return _std_of(
            x, True, axis, keepdims, dtype=dtype, correction=correction, ddof=ddof, mean=mean
        )
    return _std.reduce(x, axis, keepdims, out=out, correction=_freedom("std", correction, ddof))


def vector_length(
    name: str,
    x: ndarray,
    axes: tuple[int, ...],
    keepdims: bool,
    norm: specs.Norm = specs.NORM,
) -> ndarray:
    """A norm that one pass over absolute values computes; by default the root of the sum of their
    squares, which `linalg.vector_norm` and `matrix_norm` share."""
    if norm.chooses and 0 in [x.shape[i] for i in axes]:
        if norm is specs.NORM_MINUS_INF:
            raise ValueError(
                f"{name}: no elements to choose from along axes {axes} of an array of shape "
                f"{x.shape}"
            )
        norm = specs.NORM_1  # no absolute value is larger than 0
    return _norm(
        x,
        kind=norm.name,
        axis=axes,
        keepdims=kept_axes(name, keepdims, x),
        dtype=norm.result(x.dtype),
    )


# -------------------- choosing


@fast_path("x")
@_max.with_numpy_options
def max(
    x: ArrayLike, /, axis: Axis = None, out: ndarray | None = None, keepdims: bool = False
) -> ndarray:
    """Largest element over the given axes; NaN if there is one.

    Parameters
    ----------
    x : array_like
        Array of any dtype with at least one element along the axes. Complex numbers are
        ordered by real part, then by imaginary part.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    initial : scalar, optional
        Number that takes part in the comparison as one more element.
    where : array_like, default True
        Bool array that broadcasts to x's shape and selects the elements that take part. It needs an
        `initial` value.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range, or there are no elements.

    Notes
    -----
    The gradient is g, shared equally among the elements that equal the result.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.max([[1, 5], [7, 3]], axis=0).tolist()
    [7, 5]
    """
    x = require("max", x)
    return _max.reduce(x, axis, keepdims, out=out)


@fast_path("x")
@_min.with_numpy_options
def min(
    x: ArrayLike, /, axis: Axis = None, out: ndarray | None = None, keepdims: bool = False
) -> ndarray:
    """Smallest element over the given axes; NaN if there is one.

    Parameters
    ----------
    x : array_like
        Array of any dtype with at least one element along the axes. Complex numbers are
        ordered by real part, then by imaginary part.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    initial : scalar, optional
        Number that takes part in the comparison as one more element.
    where : array_like, default True
        Bool array that broadcasts to x's shape and selects the elements that take part. It needs an
        `initial` value.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range, or there are no elements.

    Notes
    -----
    The gradient is g, shared equally among the elements that equal the result.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.min([[1, 5], [7, 3]], axis=1).tolist()
    [1, 3]
    """
    x = require("min", x)
    return _min.reduce(x, axis, keepdims, out=out)


def _position(op: ReductionOp, x: Any, axis: int | None, out: Any, keepdims: bool) -> ndarray:
    name = op.name
    x = require(name, x)
    if isinstance(axis, (tuple, list)):
        raise TypeError(f"{name}: axis must be one integer or None, got {axis!r}")
    return op.reduce(x, axis, keepdims, out=out)


@fast_path("x")
@_argmax.with_numpy_options
def argmax(
    x: ArrayLike, /, axis: int | None = None, out: ndarray | None = None, *, keepdims: bool = False
) -> ndarray:
    """Return the index of the first largest element along an axis or in the flattened array.

    If there is a NaN, it is the index of the first NaN.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int, optional
        Axis of the operation. None takes the flattened array.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    ndarray
        In int64 array.

    Raises
    ------
    TypeError
        The dtype is not supported, or there are several axes.
    ValueError
        The axis is out of range, or there are no elements.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.argmax([[1, 5], [7, 3]], axis=1).tolist()
    [1, 0]
    """
    return _position(_argmax, x, axis, out, keepdims)


@fast_path("x")
@_argmin.with_numpy_options
def argmin(
    x: ArrayLike, /, axis: int | None = None, out: ndarray | None = None, *, keepdims: bool = False
) -> ndarray:
    """Return the index of the first smallest element along an axis or in the flattened array.

    If there is a NaN, it is the index of the first NaN.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int, optional
        Axis of the operation. None takes the flattened array.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    ndarray
        In int64 array.

    Raises
    ------
    TypeError
        The dtype is not supported, or there are several axes.
    ValueError
        The axis is out of range, or there are no elements.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.argmin([3.0, 1.0, 2.0, 1.0]))
    1
    """
    return _position(_argmin, x, axis, out, keepdims)


# -------------------- logical


@fast_path("x")
@_any.with_numpy_options
def any(
    x: ArrayLike, /, axis: Axis = None, out: ndarray | None = None, keepdims: bool = False
) -> ndarray:
    """Whether any element is not zero (NaN is not zero), over the given axes.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Bool array. The result over no elements is False.

    Raises
    ------
    TypeError
        `x` is not an array.
    ValueError
        An axis is out of range or occurs twice.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.any([[0, 1], [0, 0]], axis=1).tolist()
    [True, False]
    """
    x = require("any", x, ANY)
    return _any.reduce(x, axis, keepdims, out=out)


@fast_path("x")
@_all.with_numpy_options
def all(
    x: ArrayLike, /, axis: Axis = None, out: ndarray | None = None, keepdims: bool = False
) -> ndarray:
    """Whether no element is zero (NaN is not zero), over the given axes.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Bool array. The result over no elements is True.

    Raises
    ------
    TypeError
        `x` is not an array.
    ValueError
        An axis is out of range or occurs twice.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.all([[2, 1], [0, 1]], axis=1).tolist()
    [True, False]
    """
    x = require("all", x, ANY)
    return _all.reduce(x, axis, keepdims, out=out)


@fast_path("x")
@_count_nonzero.with_numpy_options
def count_nonzero(
    x: ArrayLike, /, axis: Axis = None, out: ndarray | None = None, keepdims: bool = False
) -> ndarray:
    """Number of elements that are not zero (NaN is not zero), over the given axes.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        In int64 array.

    Raises
    ------
    TypeError
        `x` is not an array.
    ValueError
        An axis is out of range or occurs twice.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.count_nonzero([0.0, 1.5, -2.0]))
    2
    """
    x = require("count_nonzero", x, ANY)
    return _count_nonzero.reduce(x, axis, keepdims, out=out)


amax, amin = max, min  # NumPy's names of the same functions
