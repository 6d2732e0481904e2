"""Matrix products: cards. Kernels: kernels/matmul/dispatch.py; cuBLAS: runtime/cublas.py."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from ...core import dtypes
from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.dispatch.checks import MISTAKES, as_of, require
from ...core.dispatch.fast_path import fast_path, forget
from ...core.dispatch.op import ANY, COMPLEX, INEXACT, NUMERIC, Composed, Op
from ...core.shapes import as_integer, broadcast_shapes, normalize_axes, normalize_axis
from ...core.typing import ArrayLike, DTypeLike
from ..dtype_info import can_cast
from ..elementwise import conj, multiply, weighted_sum
from ..out_argument import deliver, target_of
from ..shape import astype, expand_dims, matrix_transpose, moveaxis, permute_dims, reshape
from ..ufunc_keywords import gufunc_keywords

__all__ = [
    "dot",
    "gemm",
    "gemv",
    "inner",
    "matmul",
    "matvec",
    "outer",
    "set_matmul_precision",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]

_tf32 = False


def set_matmul_precision(precision: str) -> None:
    """Choose the precision of products of float32 matrices on a GPU.

    "highest" (default) in float32, "tf32" with inputs rounded to 10 bits of mantissa, on tensor
    cores (about 8 times as fast).

    Parameters
    ----------
    precision : str
        "highest" (the default) multiplies in float32. "tf32" rounds the inputs to 10 bits of
        mantissa, on tensor cores (about 8 times as fast).

    Raises
    ------
    ValueError
        The precision is neither "highest" nor "tf32".

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.set_matmul_precision("tf32")
    >>> cm.set_matmul_precision("highest")
    """
    global _tf32
    if precision not in ("highest", "tf32"):
        raise ValueError(f"set_matmul_precision: wants 'highest' or 'tf32', got {precision!r}")
    if _tf32 != (precision == "tf32"):
        _tf32 = not _tf32
        forget()


def tf32_allowed() -> bool:
    """Whether `set_matmul_precision` has allowed TF32."""
    return _tf32


# -------------------- products


# Sums over broadcast batches are the tape's (`broadcasts`), except where one product does both.


def _like(x: ndarray, left: ndarray, right: ndarray, tf32: bool) -> ndarray:
    """left right, in x's order in memory: where x is the transposed view of a weight, the gradient
    of the weight comes without a copy."""
    if x.ndim == left.ndim == right.ndim == 2 and x.mT.is_contiguous and not x.is_contiguous:
        return matrix_transpose(_matmul(matrix_transpose(right), matrix_transpose(left), tf32=tf32))
    return _matmul(left, right, tf32=tf32)


def _left_grad(g: ndarray, _y: Any, _a: ndarray, b: ndarray, *, tf32: bool) -> ndarray:
    """g b^H. Not in a's order in memory: the rule would keep a."""
    b = conj(b) if b.dtype.kind == "c" else b
    if b.ndim == 1:  # (..., k) @ (k) -> (...)
        return expand_dims(g, axis=-1) * b
    if g.ndim < b.ndim:  # (k) @ (..., k, n) -> (..., n)
        return _matmul(b, expand_dims(g, axis=-1), tf32=tf32)[..., 0]
    return _matmul(g, matrix_transpose(b), tf32=tf32)


def _right_grad(g: ndarray, _y: Any, a: ndarray, b: ndarray, *, tf32: bool) -> ndarray:
    """a^H g."""
    a = conj(a) if a.dtype.kind == "c" else a
    if a.ndim == 1:
        return g * a if b.ndim == 1 else expand_dims(a, axis=1) * expand_dims(g, axis=-2)
    if b.ndim == 1:  # (..., m, k) @ (k) -> (..., m)
        rows = reshape(a, (-1, b.shape[0])) if a.size else reshape(a, (0, b.shape[0]))
        return _matmul(matrix_transpose(rows), reshape(g, (rows.shape[0],)), tf32=tf32)
    if (
        b.ndim == 2 and a.ndim > 2
    ):  # one b for the whole batch: one tall product instead of a batch and a sum
        count = math.prod(a.shape[:-1])
        a, g = reshape(a, (count, a.shape[-1])), reshape(g, (count, g.shape[-1]))
    return _like(b, matrix_transpose(a), g, tf32)


_matmul = Op(
    "matmul",
    cpu="matmul.matmul",
    cuda="matmul.dispatch.matmul",
    vjp=(_left_grad, _right_grad),
    broadcasts=True,
)


def _pair(name: str, a: Any, b: Any) -> tuple[ndarray, ndarray]:
    """Two operands as arrays of one dtype; what is no array yet goes where the other is."""
    if not isinstance(a, ndarray) and isinstance(b, ndarray):
        a = asarray(a, device=b.device, name=name)
    elif not isinstance(b, ndarray) and isinstance(a, ndarray):
        b = asarray(b, device=a.device, name=name)
    a, b = require(name, a, ANY), require(name, b, ANY)
    if a.dtype != b.dtype:
        common = dtypes.promote(a.dtype, b.dtype)
        a, b = astype(a, common, copy=False), astype(b, common, copy=False)
    return a, b


# Exact modulo 2^32, on tensor cores where there are some.
_matmul_int32 = Op(
    "matmul (int8 to int32)", cpu="matmul.matmul_int32", cuda="matmul.dispatch.matmul_int32"
)


@fast_path("a", "b")
@gufunc_keywords((2, 2), 2)
def matmul(
    a: ArrayLike, b: ArrayLike, /, out: ndarray | None = None, *, dtype: DTypeLike | None = None
) -> ndarray:
    """Matrix product: y[..., i, j] = Σ_k a[..., i, k] b[..., k, j].

    Parameters
    ----------
    a : array_like of shape (..., m, k) or (k,)
        Left operand, numeric or bool. A vector counts as (1, k), and the result does not have that
        axis.
    b : array_like of shape (..., k, n) or (k,)
        Right operand, numeric or bool. A vector counts as (k, 1), and the result does not have that
        axis. Leading axes broadcast. The operands may have any strides, and different dtypes are
        promoted.
    out : ndarray, optional
        Array that receives the result.
    dtype : dtype_like, optional
        Dtype of the operands, the sums and the result. The default is the common dtype of the
        operands. int8 operands with the dtype int32 are multiplied as they are, on tensor cores
        where the device has them.
    **options : object
        NumPy's `axes` and other options of a generalized ufunc: `casting`, `dtype`, `order`,
        `subok`, `signature`.

    Returns
    -------
    ndarray
        Array of shape (..., m, n) and of that dtype. Sums of 16-bit floats are computed in float32
        and rounded once. Integers wrap around.

    Raises
    ------
    TypeError
        The dtype is not supported, or the operands cannot be cast to the dtype.
    ValueError
        An operand has no dimensions, or the sizes do not match.

    Notes
    -----
    The gradient is g b^T for `a` and a^T g for `b`, summed over broadcast axes.

    Accuracy: float32 stays float32 (no TF32 unless `set_matmul_precision("tf32")`); repeated calls
    agree bit for bit.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.matmul([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    >>> cm.matmul(cm.full((1, 3), 100, "int8"), cm.full((3, 1), 100, "int8"), dtype="int32").tolist()
    [[30000]]
    """  # noqa: E501
    a, b = _pair("matmul", a, b)
    wide = False
    if dtype is not None:
        wanted = dtypes.as_dtype(dtype, "matmul")
        wide = a.dtype == np.int8 and wanted == np.int32
        if not wide and a.dtype != wanted:
            if not can_cast(a.dtype, wanted, "same_kind"):
                raise TypeError(f"matmul: operands of {a.dtype} cannot become {wanted}")
            a, b = astype(a, wanted), astype(b, wanted)
    left, right = a._layout.shape, b._layout.shape
    if not left or not right:
        raise ValueError(
            f"matmul: wants arrays of at least one dimension, got shapes {left} and {right}"
        )
    if left[-1] != right[-2 if len(right) > 1 else 0]:
        raise ValueError(
            "matmul: the last axis of a must be as long as the last but one of b (the only one "
            "of a vector), "
            f"got shapes {left} and {right}"
        )
    if len(left) > 2 and len(right) > 2 and left[:-2] != right[:-2]:
        _leading("matmul", left, 2, right, 2)
    if isinstance(out, ndarray) and not wide and _matmul.into((a, b), out, tf32=_tf32):
        return out
    product = _matmul_int32(a, b) if wide else _matmul(a, b, tf32=_tf32)
    return product if out is None else deliver("matmul", product, out)


@fast_path("a", "b", "c")
def gemm(
    a: ArrayLike, b: ArrayLike, alpha: float = 1, c: ArrayLike | None = None, beta: float = 0
) -> ndarray:
    """General matrix product: alpha a @ b + beta c.

    Parameters
    ----------
    a : array_like of shape (..., m, k) or (k,)
        Left operand, numeric or bool. A vector counts as (1, k), and the result does not have that
        axis. At least two-dimensional.
    b : array_like of shape (..., k, n) or (k,)
        Right operand, numeric or bool. A vector counts as (k, 1), and the result does not have that
        axis. Leading axes broadcast. The operands may have any strides, and different dtypes are
        promoted. At least two-dimensional.
    alpha : float, default 1
        Factors of the two terms.
    c : array_like, optional
        Array that broadcasts to the product's shape. It is not read where `beta` is 0.
    beta : float, default 0
        Factors of the two terms.

    Returns
    -------
    ndarray
        Array of the product's shape, as `matmul` and the arithmetic of Python scalars give it.

    Raises
    ------
    TypeError
        The dtype is not supported, or `alpha` or `beta` is not a number.
    ValueError
        The shapes do not fit each other, or `beta` is not 0 and there is no `c`.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.gemm([[1.0, 2.0]], [[3.0], [4.0]], alpha=2, c=[[1.0]], beta=10).tolist()
    [[32.0]]
    """
    a, b = _pair("gemm", a, b)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"gemm: wants matrices (..., m, k) and (..., k, n), got shapes {a.shape} and {b.shape}"
        )
    return _scaled("gemm", matmul(a, b), alpha, c, beta)


@fast_path("a", "x", "y")
def gemv(
    a: ArrayLike, x: ArrayLike, alpha: float = 1, y: ArrayLike | None = None, beta: float = 0
) -> ndarray:
    """General matrix-vector product: alpha a @ x + beta y.

    Parameters
    ----------
    a : array_like of shape (m, k)
        Numeric or bool matrix.
    x : array_like of shape (k,)
        Numeric or bool vector.
    alpha : float, default 1
        Factors of the two terms.
    y : array_like of shape (m,), optional
        Vector that is added. It is not read where `beta` is 0.
    beta : float, default 0
        Factors of the two terms.

    Returns
    -------
    ndarray
        Vector (m,), as `matmul` and the arithmetic of Python scalars give it.

    Raises
    ------
    TypeError
        The dtype is not supported, or `alpha` or `beta` is not a number.
    ValueError
        The shapes do not fit each other, or `beta` is not 0 and there is no `y`.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.gemv([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0], alpha=2).tolist()
    [6.0, 14.0]
    """
    a, x = _pair("gemv", a, x)
    if a.ndim != 2 or x.ndim != 1 or a.shape[1] != x.size:
        raise ValueError(
            f"gemv: wants a matrix (m, k) and a vector (k,), got shapes {a.shape} and {x.shape}"
        )
    return _scaled("gemv", matmul(a, x), alpha, y, beta)


def _scaled(name: str, product: ndarray, alpha: Any, c: Any, beta: Any) -> ndarray:
    """alpha product + beta c, for gemm and gemv."""
    for what, value in (("alpha", alpha), ("beta", beta)):
        if not isinstance(value, Number) and getattr(value, "shape", None) != ():
            raise TypeError(f"{name}: {what} must be a number, got {value!r}")
    if beta == 0:
        return product if alpha == 1 else product * alpha
    if c is None:
        raise ValueError(f"{name}: beta is {beta}, but there is nothing to multiply it with")
    c = require(
        name, c if isinstance(c, ndarray) else asarray(c, device=product.device, name=name), NUMERIC
    )
    if broadcast_shapes(name, c.shape, product.shape) != product.shape:
        raise ValueError(
            f"{name}: an array of shape {c.shape} cannot be added to a product of shape "
            f"{product.shape}"
        )
    if alpha == beta == 1:
        return product + c
    if (
        product.dtype is c.dtype
        and product.dtype in INEXACT
        and {type(alpha), type(beta)} <= {int, float}
    ):
        return weighted_sum(product, c, alpha, beta)
    return (product if alpha == 1 else product * alpha) + (c if beta == 1 else c * beta)


@fast_path("a", "b")
@gufunc_keywords((1, 1), 0)
def vecdot(
    a: ArrayLike,
    b: ArrayLike,
    /,
    out: ndarray | None = None,
    *,
    axis: int = -1,
    keepdims: bool = False,
) -> ndarray:
    """Dot products of vectors along an axis: y = Σ_k conj(a[..., k]) b[..., k].

    Parameters
    ----------
    a, b : array_like
        Numeric or bool arrays whose shapes broadcast and agree along `axis`.
    out : ndarray, optional
        Array that receives the result.
    axis : int, default -1
        Axis of the operation, counted from the end.
    keepdims : bool, default False
        Whether that axis stays in the result with length 1.
    **options : object
        NumPy's `axes` and other options of a generalized ufunc: `casting`, `dtype`, `order`,
        `subok`, `signature`.

    Returns
    -------
    ndarray
        Array of the broadcast shape without that axis, of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other, or the axis is out of range.

    Notes
    -----
    The gradient is conj(g) b for `a` and g a for `b`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.vecdot([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    if keepdims:
        y = expand_dims(vecdot(a, b, axis=axis), axis)
        return y if out is None else deliver("vecdot", y, out)
    a, b = _pair("vecdot", a, b)
    a, b = require("vecdot", a), require("vecdot", b)
    if not a.ndim or not b.ndim:
        raise ValueError(
            f"vecdot: wants arrays of at least one dimension, got shapes {a.shape} and {b.shape}"
        )
    i, j = normalize_axis("vecdot", axis, a.ndim), normalize_axis("vecdot", axis, b.ndim)
    if a.shape[i] != b.shape[j]:
        raise ValueError(
            f"vecdot: lengths along axis {axis} differ: shapes {a.shape} and {b.shape}"
        )
    a, b = (
        a if i == a.ndim - 1 else moveaxis(a, i, -1),
        b if j == b.ndim - 1 else moveaxis(b, j, -1),
    )
    broadcast_shapes("vecdot", a.shape, b.shape)
    y = _vecdot(a, b) if a.dtype == b.dtype else _dot_products(a, b)
    return y if out is None else deliver("vecdot", y, out)


@fast_path("a", "b")
def _dot_products(a: ndarray, b: ndarray) -> ndarray:
    """vecdot along the last axes."""
    left = conj(a) if a.dtype.kind == "c" else a
    product = matmul(reshape(left, (*a.shape[:-1], 1, a.shape[-1])), reshape(b, (*b.shape, 1)))
    return reshape(product, broadcast_shapes("vecdot", a.shape[:-1], b.shape[:-1]))


def _dot_grad_left(g: ndarray, _y: Any, _a: Any, b: ndarray) -> ndarray:
    """The gradient of a, whose conjugate the products take: conj(g) b."""
    return expand_dims(conj(g) if g.dtype.kind == "c" else g, axis=-1) * b


#: Its gradients are products of elements; those of the matrix products that it consists of would be
#: matrix products.
_vecdot = Composed(
    "vecdot",
    _dot_products,
    (_dot_grad_left, lambda g, _y, a, _b: expand_dims(g, axis=-1) * a),
    broadcasts=True,
)


def _leading(
    name: str, left: tuple[int, ...], rows: int, right: tuple[int, ...], more: int
) -> None:
    """Check that what is left of matrices' or vectors' own axes, so many each, can be broadcast."""
    try:
        broadcast_shapes(name, left[: len(left) - rows], right[: len(right) - more])
    except ValueError:
        raise ValueError(
            f"{name}: the leading axes of shapes {left} and {right} cannot be broadcast together"
        ) from None


def _shaped(name: str, a: ndarray, wanted: int, what: str) -> None:
    if a.ndim < wanted:
        raise ValueError(f"{name}: {what}, got shape {a.shape}")


@fast_path("a", "x")
@gufunc_keywords((2, 1), 1)
def matvec(a: ArrayLike, x: ArrayLike, /, out: ndarray | None = None) -> ndarray:
    """Return matrices times vectors: y[..., i] = Σ_k a[..., i, k] x[..., k].

    Parameters
    ----------
    a : array_like of shape (..., m, k)
        Numeric matrices.
    x : array_like of shape (..., k)
        Numeric vectors. Leading axes broadcast.
    out : ndarray, optional
        Array that receives the result.
    **options : object
        NumPy's `axes` and other options of a generalized ufunc: `casting`, `dtype`, `order`,
        `subok`, `signature`.

    Returns
    -------
    ndarray
        Array of shape (..., m) and of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    The gradient is that of `matmul`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.matvec([[1, 2], [3, 4]], [[1, 1], [1, 0]]).tolist()
    [[3, 7], [1, 3]]
    """
    a, x = _pair("matvec", a, x)
    _shaped("matvec", a, 2, "wants matrices")
    _shaped("matvec", x, 1, "wants vectors")
    if a.shape[-1] != x.shape[-1]:
        raise ValueError(
            f"matvec: the last axes of shapes {a.shape} and {x.shape} differ in length"
        )
    if a.ndim > 2 and x.ndim > 1:
        _leading("matvec", a.shape, 2, x.shape, 1)
    y = matmul(a, expand_dims(x, axis=-1))[..., 0]
    return y if out is None else deliver("matvec", y, out)


@fast_path("x", "a")
@gufunc_keywords((1, 2), 1)
def vecmat(x: ArrayLike, a: ArrayLike, /, out: ndarray | None = None) -> ndarray:
    """Return vectors times matrices: y[..., j] = Σ_k conj(x[..., k]) a[..., k, j].

    Parameters
    ----------
    x : array_like of shape (..., k)
        Numeric vectors.
    a : array_like of shape (..., k, n)
        Numeric matrices. Leading axes broadcast.
    out : ndarray, optional
        Array that receives the result.
    **options : object
        NumPy's `axes` and other options of a generalized ufunc: `casting`, `dtype`, `order`,
        `subok`, `signature`.

    Returns
    -------
    ndarray
        Array of shape (..., n) and of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    The gradient is that of `matmul`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.vecmat([[1, 1], [1, 0]], [[1, 2], [3, 4]]).tolist()
    [[4, 6], [1, 2]]
    """
    x, a = _pair("vecmat", x, a)
    _shaped("vecmat", a, 2, "wants matrices")
    _shaped("vecmat", x, 1, "wants vectors")
    if a.shape[-2] != x.shape[-1]:
        raise ValueError(
            f"vecmat: the last axis of shape {x.shape} and the last but one of shape {a.shape} "
            "differ in length"
        )
    if a.ndim > 2 and x.ndim > 1:
        _leading("vecmat", x.shape, 1, a.shape, 2)
    if x.dtype.kind == "c":
        x = conj(x)
    y = matmul(expand_dims(x, axis=-2), a)[..., 0, :]
    return y if out is None else deliver("vecmat", y, out)


@fast_path("a", "b")
def vdot(a: ArrayLike, b: ArrayLike) -> ndarray:
    """Dot product of two arrays seen as vectors: Σ conj(a) b.

    Parameters
    ----------
    a, b : array_like
        Numeric arrays with equally many elements.

    Returns
    -------
    ndarray
        0-d array of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The sizes do not match.

    Notes
    -----
    The gradient is g b for `a` and g a for `b`.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.vdot([[1, 2]], [[3], [4]]))
    11
    """
    a, b = _pair("vdot", a, b)
    a, b = require("vdot", a), require("vdot", b)
    if a.size != b.size:
        raise ValueError(f"vdot: wants equally many elements, got shapes {a.shape} and {b.shape}")
    a = conj(a) if a.dtype in COMPLEX else a
    return reshape(matmul(reshape(a, (1, a.size)), reshape(b, (b.size, 1))), ())


@fast_path("a", "b")
def dot(a: ArrayLike, b: ArrayLike, out: ndarray | None = None) -> ndarray:
    """Return NumPy's dot product of two arrays.

    It is the product of two vectors or matrices. With more dimensions it sums over the last axis of
    `a` and the last but one of `b`. An operand without dimensions multiplies elementwise.

    Parameters
    ----------
    a, b : array_like
        Numeric or bool arrays.
    out : ndarray, optional
        C-contiguous array that receives the result, of exactly its shape and dtype.

    Returns
    -------
    ndarray
        Array of the common dtype, of shape a.shape[:-1] + b.shape[:-2] + b.shape[-1:].

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The sizes do not match.

    Notes
    -----
    The gradient is that of `matmul`.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.dot([1, 2, 3], [4, 5, 6]))
    32
    """
    if out is not None:
        y, target = dot(a, b), target_of("dot", out)
        if (target.shape, target.dtype) != (y.shape, y.dtype) or not target.is_contiguous:
            raise ValueError(
                f"dot: out must be C-contiguous and {y.dtype} of shape {y.shape}, got "
                f"{target.dtype} of shape {target.shape} and strides {target.strides}"
            )
        return deliver("dot", y, out)
    a, b = _pair("dot", a, b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(
            "dot: the last axis of a must be as long as the last but one of b (the only one of a "
            "vector), "
            f"got shapes {a.shape} and {b.shape}"
        )
    if b.ndim <= 2:
        return matmul(a, b)
    return tensordot(a, b, axes=((-1,), (-2,)))


@fast_path("a", "b")
def inner(a: ArrayLike, b: ArrayLike) -> ndarray:
    """Return products over the last axes: y[i.., j..] = Σ_k a[i.., k] b[j.., k].

    Parameters
    ----------
    a, b : array_like
        Numeric or bool arrays. An operand without dimensions multiplies elementwise.

    Returns
    -------
    ndarray
        Array of the common dtype, of shape a.shape[:-1] + b.shape[:-1].

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The last axes have different lengths.

    Notes
    -----
    The gradient is that of `matmul`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.inner([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    a, b = _pair("inner", a, b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"inner: wants last axes of one length, got shapes {a.shape} and {b.shape}"
        )
    if b.ndim <= 2:
        return matmul(a, b if b.ndim == 1 else b.T)
    return tensordot(a, b, axes=((-1,), (-1,)))


@fast_path("a", "b")
def outer(a: ArrayLike, b: ArrayLike, out: ndarray | None = None) -> ndarray:
    """Outer product: y[i, j] = a[i] b[j].

    Parameters
    ----------
    a, b : array_like
        Numeric or bool arrays, which are flattened.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Array of shape (a.size, b.size) and of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = _pair("outer", a, b)
    a, b = reshape(a, (a.size, 1)), reshape(b, (1, b.size))
    try:
        return multiply(a, b, out)
    except MISTAKES as error:
        raise as_of("outer", error) from None


@fast_path("a", "b", scalars=False)
def tensordot(
    a: ArrayLike, b: ArrayLike, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> ndarray:
    """Sum of products over pairs of axes.

    Parameters
    ----------
    a, b : array_like
        Numeric or bool arrays.
    axes : int or tuple of sequence of int, default 2
        A number n: the last n axes of `a` with the first n of `b`, in order. Or a pair of sequences
        of axes.

    Returns
    -------
    ndarray
        Array of the common dtype. Its axes are the remaining ones of `a`, then those of `b`.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axes are not valid, or the lengths do not match.

    Notes
    -----
    The gradient is that of `matmul`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.tensordot(cm.ones((2, 3, 4)), cm.ones((3, 4, 5)), axes=2).shape
    (2, 5)
    """
    a, b = _pair("tensordot", a, b)
    if not isinstance(axes, (tuple, list)) and np.ndim(axes) == 0:
        count = as_integer("tensordot", "axes", axes)
        if not 0 <= count <= builtins.min(a.ndim, b.ndim):
            pairs = zip(a.shape[a.ndim - count :] if count <= a.ndim else (), b.shape, strict=False)
            alike = count >= 0 and all([one == other for one, other in pairs])
            raise (IndexError if alike else ValueError)(  # NumPy compares until an axis lacks
                f"tensordot: axes={count} does not fit shapes {a.shape} and {b.shape}"
            )
        of_a, of_b = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    else:
        try:
            first, second = axes  # type: ignore[misc]
        except ValueError:
            raise ValueError(
                f"tensordot: wants axes as a number or two sequences, got {axes!r:.60}"
            ) from None
        of_a, of_b = (
            normalize_axes("tensordot", first, a.ndim),
            normalize_axes("tensordot", second, b.ndim),
        )
    if [a.shape[i] for i in of_a] != [b.shape[j] for j in of_b]:
        raise ValueError(
            f"tensordot: axes {of_a} of shape {a.shape} and axes {of_b} of shape {b.shape} differ "
            "in length"
        )
    rest_a = tuple(i for i in range(a.ndim) if i not in of_a)
    rest_b = tuple(j for j in range(b.ndim) if j not in of_b)
    shape_a, shape_b = tuple(a.shape[i] for i in rest_a), tuple(b.shape[j] for j in rest_b)
    depth = math.prod([a.shape[i] for i in of_a])
    left = reshape(permute_dims(a, rest_a + of_a), (math.prod(shape_a), depth))
    right = reshape(permute_dims(b, of_b + rest_b), (depth, math.prod(shape_b)))
    return reshape(matmul(left, right), shape_a + shape_b)
