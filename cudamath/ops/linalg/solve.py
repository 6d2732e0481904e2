"""Factors of matrices: det, LU, triangular systems, Cholesky. Plans:
kernels/linalg/lapack_plans.py; cuSOLVER and cuBLAS: runtime/cusolver.py. solve and inv:
ops/linalg/systems.py; QR, eigenvalues and singular values: ops/linalg/spectral.py; what is
composed: ops/linalg/matrix_functions.py.

All take float32, float64, complex64 and complex128; integers and bool count as float64 (the default
float), as in NumPy; there is no LAPACK for 16-bit floats, so these are a TypeError. Leading axes
are a batch.

A matrix that cannot be decomposed is numpy.linalg.LinAlgError, named in front: at once on the CPU;
on a GPU, where the call returns before the work is done, at the next synchronisation (float(x),
x.to_numpy(), cm.cuda.synchronize()), with the line of the call. A matrix with NaN in it counts as
singular on a GPU; on the CPU it gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core import dtypes
from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.dispatch.checks import require
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.lazy_import import lazy
from ...core.dispatch.op import Category, Op
from ...core.shapes import broadcast_shapes
from ...core.typing import ArrayLike
from ..creation import eye, tril, triu, zeros
from ..elementwise import conj, exp
from ..index import getitem
from ..join import concat
from ..reduce import argmax
from ..shape import astype, broadcast_to, expand_dims, in_order, matrix_transpose, moveaxis, reshape
from ..transfer import complex_of_parts
from .keywords import scipy_keywords
from .products import matmul

__all__ = [
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "lu",
    "lu_factor",
    "lu_solve",
    "slogdet",
    "solve_triangular",
]

SOLVABLE = Category(
    "float32, float64, complex, integer or bool", dtypes.ANY - {dtypes.float16, dtypes.bfloat16}
)


class SlogdetResult(NamedTuple):
    """Sign (phase) of determinants, and the logarithm of their absolute value."""

    sign: ndarray
    logabsdet: ndarray


# -------------------- what all share


def matrices(name: str, x: Any, *, square: bool = False, device: Any = None) -> ndarray:
    """An argument as an array of matrices of a dtype that LAPACK has."""
    if not isinstance(x, ndarray):
        x = asarray(x, device=device, name=name)
    if x.ndim < 2:
        raise np.linalg.LinAlgError(
            f"{name}: wants matrices, an array of at least two dimensions, got {x.dtype} of shape "
            f"{x.shape}"
        )
    x = require(name, x, SOLVABLE)
    if x.dtype not in dtypes.INEXACT:
        x = astype(x, dtypes.default_float())
    if square and x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError(
            f"{name}: Last 2 dimensions of the array must be square, got shape {x.shape}"
        )
    return x


def pair(name: str, a: Any, b: Any, *, square: bool = False) -> tuple[ndarray, ndarray]:
    """Two arrays of matrices of one dtype, on one device."""
    place = a.device if isinstance(a, ndarray) else b.device if isinstance(b, ndarray) else None
    a = matrices(name, a, square=square, device=place)
    if not isinstance(b, ndarray):
        b = asarray(b, device=place, name=name)
    b = require(name, b, SOLVABLE)
    common = dtypes.promote(
        a.dtype, b.dtype if b.dtype in dtypes.INEXACT else dtypes.default_float()
    )
    return astype(a, common, copy=False), astype(b, common, copy=False)


def adjoint(x: ndarray) -> ndarray:
    """The conjugate transpose of the matrices in the last two axes."""
    return matrix_transpose(conj(x) if x.dtype.kind == "c" else x)


def run(card: Op, *arrays: ndarray, **params: Any) -> Any:
    """Call a card. Of arrays without elements NumPy knows the answer, whatever the others hold; no
    library has to be asked."""
    if all(x.size for x in arrays):
        return card(*arrays, **params)
    blank = [
        np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape)
        if x.dtype in dtypes.INEXACT
        else np.zeros(x.shape, x.dtype)
        for x in arrays
    ]  # matrices; pivots
    found = lazy("cpu", card.cpu)(*blank, **params)
    device = arrays[0].device
    return (
        tuple(asarray(y, device=device) for y in found)
        if isinstance(found, tuple)
        else asarray(found, device=device)
    )


def _batched(name: str, a: ndarray, b: ndarray) -> tuple[ndarray, ndarray]:
    """Both with the same batch axes. One a for a batch of b's is not repeated: see
    `_columns_of`."""
    lead = broadcast_shapes(name, a.shape[:-2], b.shape[:-2])
    return (broadcast_to(x, (*lead, *x.shape[-2:])) if x.shape[:-2] != lead else x for x in (a, b))  # type: ignore


def _system(name: str, card: Op, a: ndarray, b: ndarray, *more: ndarray, **params: Any) -> ndarray:
    """A X = B for B a vector, matrices, or a batch of them: all columns that share one A are solved
    together. more: what else there is of each A, vectors."""
    if b.ndim == 0 or b.shape[-1 if b.ndim == 1 else -2] != a.shape[-1]:
        raise ValueError(
            f"{name}: the number of rows of b must be that of a, got shapes {a.shape} and {b.shape}"
        )
    if not b.size and a.size:  # a singular matrix is an error all the same
        run(card, *_batched(name, a, zeros((a.shape[-1], 1), a.dtype, device=a.device)), **params)
    if a.ndim == 2 and b.ndim > 2 and b.size:
        n, lead, k = b.shape[-2], b.shape[:-2], b.shape[-1]
        together = reshape(moveaxis(b, -2, 0), (n, b.size // n))
        return moveaxis(reshape(run(card, a, together, *more, **params), (n, *lead, k)), 0, -2)
    left, right = _batched(name, a, expand_dims(b, axis=-1) if b.ndim == 1 else b)
    more = tuple([broadcast_to(x, (*left.shape[:-2], x.shape[-1])) for x in more])
    more = tuple([in_order(name, x, "C") for x in more])
    columns = run(card, left, right, *more, **params)
    return reshape(columns, columns.shape[:-1]) if b.ndim == 1 else columns


def _transposed(name: str, trans: Any) -> Callable[[ndarray], ndarray] | None:
    """What SciPy's `trans` does with the matrix; None for nothing."""
    if isinstance(trans, (int, str)) and trans in _TRANSPOSED:
        return _TRANSPOSED[trans]
    raise ValueError(f"{name}: trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")


_TRANSPOSED: dict[int | str, Callable[[ndarray], ndarray] | None] = {
    **dict.fromkeys((0, "N")),
    **dict.fromkeys((1, "T"), matrix_transpose),
    **dict.fromkeys((2, "C"), adjoint),
}


# -------------------- LU


def _solve_grad(g: ndarray, x: ndarray, a: ndarray, _b: Any) -> tuple[ndarray, ndarray]:
    for_b = _solve(adjoint(a), g)
    return -matmul(for_b, adjoint(x)), for_b


def _slogdet_grad(g: tuple, y: tuple, a: ndarray) -> tuple[ndarray | None]:
    """d log|det| = Re t and d sign = i sign Im t, where t = tr(inv(a) da)."""
    for_sign, for_log = g
    if a.dtype.kind != "c":
        return (None if for_log is None else _spread(for_log, a),)
    factor: Any = for_log
    if for_sign is not None:
        turn = (for_sign * conj(y[0])).imag
        factor = complex_of_parts(0.0 if for_log is None else for_log, turn)
    return (_spread(factor, a),)


def _spread(factor: ndarray, a: ndarray) -> ndarray:
    return expand_dims(factor, axis=(-2, -1)) * adjoint(_inv(a))


def _lu_factor_grad(g: tuple, y: tuple, a: ndarray) -> tuple[ndarray | None]:
    packed, pivots = y
    if g[0] is None:
        return (None,)
    m, n = a.shape[-2:]
    k = min(m, n)
    low = tril(packed[..., :, :k], k=-1) + eye(m, k, dtype=a.dtype, device=a.device)
    p = matrix_transpose(_permutation(pivots, m, a.dtype))
    return (_from_factors(g[0][..., :, :k], g[0][..., :k, :], p, low, triu(packed[..., :k, :])),)


def _lu_grad(g: tuple, y: tuple, _a: Any) -> tuple[ndarray | None]:
    (_, gl, gu), (p, low, up) = g, y
    if gl is None and gu is None:
        return (None,)
    return (_from_factors(low * 0 if gl is None else gl, up * 0 if gu is None else gu, p, low, up),)


def _from_factors(gl: ndarray, gu: ndarray, p: ndarray, low: ndarray, up: ndarray) -> ndarray:
    """A = P L U, of square parts: P L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H; what sticks out on
    either side is a triangular system, and is taken back through it first."""
    m, n, k = low.shape[-2], up.shape[-1], low.shape[-1]
    gl, gu = tril(gl, k=-1), triu(gu)
    square_l, square_u = low[..., :k, :], up[..., :, :k]
    outside = None
    if m > n:  # L2 = A2 U^-1
        below = low[..., k:, :]
        outside = adjoint(_triangular(square_u, adjoint(gl[..., k:, :]), False, False))
        gu = gu - triu(matmul(adjoint(below), outside))
    elif n > m:  # U2 = L^-1 A2
        right = up[..., :, k:]
        outside = _triangular(square_l, gu[..., :, k:], True, True, True)
        gl = gl - tril(matmul(outside, adjoint(right)), k=-1)
    inner = tril(matmul(adjoint(square_l), gl[..., :k, :]), k=-1) + triu(
        matmul(gu[..., :, :k], adjoint(square_u))
    )
    inner = _triangular(square_l, inner, True, True, True)  # L^-H inner
    inner = adjoint(_triangular(square_u, adjoint(inner), False, False))  # times U^-H
    if outside is not None:
        inner = concat([inner, outside], axis=-2 if m > n else -1)
    return matmul(p, inner)


def _lu_solve_grad(
    g: ndarray, x: ndarray, packed: ndarray, _b: Any, pivots: ndarray
) -> tuple[ndarray, ndarray, None]:
    """With w = U^-H g and z = L^-H w: P^T z for b; -triu(w x^H) - tril(z (U x)^H, -1) for the
    factors."""
    w = _triangular(packed, g, False, False, True)
    z = _triangular(packed, w, True, True, True)
    for_factors = -triu(matmul(w, adjoint(x))) - tril(
        matmul(z, adjoint(matmul(triu(packed), x))), k=-1
    )
    return (
        for_factors,
        matmul(matrix_transpose(_permutation(pivots, packed.shape[-1], packed.dtype)), z),
        None,
    )


def _triangular(a: ndarray, b: ndarray, lower: bool, unit: bool, dagger: bool = False) -> ndarray:
    """The solution of a x = b, or of a^H x = b, for one triangle of a."""
    return run(_solve_triangular, adjoint(a) if dagger else a, b, lower=lower != dagger, unit=unit)


def _triangular_grad(
    g: ndarray, x: ndarray, a: ndarray, _b: Any, *, lower: bool, unit: bool
) -> tuple[ndarray, ndarray]:
    for_b = _triangular(a, g, lower, unit, True)
    for_a = -matmul(for_b, adjoint(x))
    return tril(for_a, k=-int(unit)) if lower else triu(for_a, k=int(unit)), for_b


def _cholesky_grad(g: ndarray, y: ndarray, _a: Any, *, upper: bool) -> tuple[ndarray]:
    """L^-H phi(L^H g) L^-1, phi: lower triangle, diagonal halved; made Hermitian."""
    low, g = (adjoint(y), adjoint(g)) if upper else (y, g)
    inner = matmul(adjoint(low), g)
    inner = tril(inner) - 0.5 * (tril(inner) - tril(inner, k=-1))
    inner = _triangular(low, inner, True, False, True)
    inner = adjoint(_triangular(low, adjoint(inner), True, False, True))
    return (0.5 * (inner + adjoint(inner)),)


_solve = Op("solve", cpu="decompose.solve", cuda="linalg.lapack_plans.solve", vjp=_solve_grad)
_inv = Op(
    "inv",
    cpu="decompose.inv",
    cuda="linalg.lapack_plans.inv",
    vjp=lambda g, y, _a: (-matmul(matmul(adjoint(y), g), adjoint(y)),),
)
_inv_and_sign = Op(
    "inv_and_sign", cpu="decompose.inv_and_sign", cuda="linalg.lapack_plans.inv_and_sign", outputs=2
)
_slogdet = Op(
    "slogdet",
    cpu="decompose.slogdet",
    cuda="linalg.lapack_plans.slogdet",
    vjp=_slogdet_grad,
    outputs=2,
)
_lu = Op("lu", cpu="decompose.lu", cuda="linalg.dispatch.lu", vjp=_lu_grad, outputs=3)
_lu_factor = Op(
    "lu_factor",
    cpu="decompose.lu_factor",
    cuda="linalg.dispatch.lu_factor",
    vjp=_lu_factor_grad,
    outputs=2,
)
_lu_solve = Op(
    "lu_solve", cpu="decompose.lu_solve", cuda="linalg.dispatch.lu_solve", vjp=_lu_solve_grad
)
_exchanged = Op("exchanged_rows", cpu="decompose.exchanged", cuda="linalg.lapack_plans.exchanged")
_solve_triangular = Op(
    "solve_triangular",
    cpu="decompose.solve_triangular",
    cuda="linalg.dispatch.solve_triangular",
    vjp=_triangular_grad,
)
_cholesky = Op(
    "cholesky", cpu="decompose.cholesky", cuda="linalg.lapack_plans.cholesky", vjp=_cholesky_grad
)


@fast_path("a")
def slogdet(a: ArrayLike, /) -> tuple[ndarray, ndarray]:
    """Return the sign and the logarithm of the absolute value of determinants.

    Det = sign exp(logabsdet). The logarithm does not overflow.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices.

    Returns
    -------
    SlogdetResult
        Named pair (sign, logabsdet), both of shape (...). The sign has a's dtype and the absolute
        value 1, or 0 for a singular matrix. logabsdet is real, and -inf for a singular matrix.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.
    LinAlgError
        A matrix is not square.

    Notes
    -----
    Gradient: g_log inv(a)^H (and, for complex `a`, the one of the phase). It raises LinAlgError at
    a singular matrix.

    Examples
    --------
    >>> import cudamath as cm
    >>> sign, logabsdet = cm.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
    >>> float(sign), float(logabsdet)
    (-1.0, 0.0)
    """
    return SlogdetResult(*run(_slogdet, matrices("slogdet", a, square=True)))


@fast_path("a")
@scipy_keywords("overwrite_a", check_finite=("a",))
def det(a: ArrayLike, /) -> ndarray:
    """Determinants, from the LU factors.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices.

    Returns
    -------
    ndarray
        Array of shape (...) and of a's dtype. The determinant is 1 for n = 0.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.
    LinAlgError
        A matrix is not square.

    Notes
    -----
    Gradient: g det(a) inv(a)^H. It raises LinAlgError at a singular matrix.

    Examples
    --------
    >>> import cudamath as cm
    >>> round(float(cm.linalg.det([[1.0, 2.0], [3.0, 4.0]])), 12)
    -2.0
    """
    sign, logdet = run(_slogdet, matrices("det", a, square=True))
    return sign * exp(logdet)


# -------------------- factors


@fast_path("a")
@scipy_keywords("overwrite_a", check_finite=("a",))
def lu_factor(a: ArrayLike, /) -> tuple[ndarray, ndarray]:
    """LU factors with partial pivoting, packed as LAPACK and SciPy pack them.

    Parameters
    ----------
    a : array_like of shape (..., m, n)
        Matrices.

    Returns
    -------
    tuple of ndarray
        The factors and the pivots. lu (..., m, n) holds U on and above the diagonal, and L, whose
        diagonal is 1, below it. Row i was exchanged with row pivots[..., i]. The pivots are int32
        of shape (..., min(m, n)).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.

    Notes
    -----
    lu is differentiable as long as no pivot changes.

    A singular matrix has factors: U then has a 0 on its diagonal.

    Examples
    --------
    >>> import cudamath as cm
    >>> lu, pivots = cm.linalg.lu_factor([[1.0, 2.0], [2.0, 8.0]])
    >>> lu.tolist(), pivots.tolist()
    ([[2.0, 8.0], [0.5, -2.0]], [1, 1])
    """
    return run(_lu_factor, matrices("lu_factor", a))


@fast_path("*lu_and_pivots", "b")
@scipy_keywords("overwrite_b", check_finite=("lu_and_pivots", "b"))
def lu_solve(
    lu_and_pivots: tuple[ArrayLike, ArrayLike], b: ArrayLike, /, trans: int = 0
) -> ndarray:
    """The solution x of a x = b from `lu_factor(a)`.

    Parameters
    ----------
    lu_and_pivots : tuple of array_like
        Result of `lu_factor` for square matrices.
    b : array_like of shape (n,) or (..., n, k)
        Right-hand sides, one vector or the columns of matrices. Leading axes broadcast.
    trans : {0, 1, 2}, default 0
        The system: a x = b for 0, a^T x = b for 1, a^H x = b for 2.

    Returns
    -------
    ndarray
        Array of shape (..., n) or (..., n, k) and of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other, or `trans` is unknown.
    LinAlgError
        The matrix is singular. On a GPU the next synchronisation raises the error.
    IndexError
        A pivot is not the number of a row. On a GPU the next synchronisation raises the error.

    Notes
    -----
    Gradient, with w = U^-H g and z = L^-H w: P^T z for `b`; -triu(w x^H) - tril(z (U x)^H, -1) for
    the factors.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.lu_solve(cm.linalg.lu_factor([[0.0, 2.0], [4.0, 0.0]]), [2.0, 8.0]).tolist()
    [2.0, 1.0]
    """
    try:
        packed, pivots = lu_and_pivots
    except (TypeError, ValueError):
        raise TypeError("lu_solve: wants the pair of arrays that lu_factor returns") from None
    packed, b = pair("lu_solve", packed, b, square=True)
    n = packed.shape[-1]
    if not isinstance(pivots, ndarray):
        pivots = asarray(pivots, device=packed.device)
    if not pivots.size:  # an empty list has the default dtype
        pivots = astype(pivots, np.int32)
    pivots = require(
        "lu_solve",
        pivots,
        dtypes.INTEGER,
        "pivots",
    )
    if pivots.shape[-1:] != (n,):
        raise ValueError(
            f"lu_solve: wants a pivot for each of the {n} rows, got pivots of shape {pivots.shape}"
        )
    lead = broadcast_shapes("lu_solve", packed.shape[:-2], pivots.shape[:-1])
    if packed.shape[:-2] != lead:
        packed = broadcast_to(packed, (*lead, n, n))
    pivots = in_order("lu_solve", pivots, "C")
    transposed = _transposed("lu_solve", trans)
    if transposed is None:
        return _system("lu_solve", _lu_solve, packed, b, pivots)
    packed = transposed(packed)  # a^T = U^T L^T P
    back = matrix_transpose(_permutation(pivots, n, packed.dtype))
    return _two_triangles("lu_solve", packed, packed, b, unit=True, after=back)


def _two_triangles(
    name: str,
    low: ndarray,
    up: ndarray,
    b: ndarray,
    *,
    unit: bool = False,
    after: ndarray | None = None,
) -> ndarray:
    """The solution x of low up x = b, and after @ x. unit: whether up's diagonal counts as ones."""
    columns = expand_dims(b, axis=-1) if b.ndim == 1 else b
    y = _system(name, _solve_triangular, low, columns, lower=True, unit=False)
    x = _system(name, _solve_triangular, up, y, lower=False, unit=unit)
    if after is not None:
        x = matmul(after, x)
    return reshape(x, x.shape[:-1]) if b.ndim == 1 else x


def _permutation(pivots: ndarray, m: int, dtype: np.dtype) -> ndarray:
    """P of P A = L U, (..., m, m)."""
    return getitem(
        eye(m, dtype=dtype, device=pivots.device), _exchanged(in_order("lu", pivots, "C"), m=m)
    )


@fast_path("a")
@scipy_keywords("overwrite_a", check_finite=("a",))
def lu(a: ArrayLike, /, permute_l: bool = False, *, p_indices: bool = False) -> Any:
    """LU factors as three matrices: a = p l u.

    Parameters
    ----------
    a : array_like of shape (..., m, n)
        Matrices.
    permute_l : bool, default False
        Whether p is multiplied into l: the pair (p l, u) is returned.
    p_indices : bool, default False
        Whether p is returned as numbers of rows (..., m), with a = l[p] u for one matrix.

    Returns
    -------
    tuple of ndarray
        The matrices p, l and u: a permutation (..., m, m), l (..., m, k) lower triangular with ones
        on the diagonal, and u (..., k, n) upper triangular, with k = min(m, n). On a GPU all three
        are stored by columns.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.

    Notes
    -----
    l and u are differentiable as long as no pivot changes.

    Examples
    --------
    >>> import cudamath as cm
    >>> p, l, u = cm.linalg.lu([[1.0, 2.0], [2.0, 8.0]])
    >>> (p @ l @ u).tolist()
    [[1.0, 2.0], [2.0, 8.0]]
    """
    p, low, up = run(_lu, matrices("lu", a))
    if permute_l:
        return matmul(p, low), up
    if p_indices:
        p = argmax(p.real, axis=-1) if p.size else zeros(p.shape[:-1], "int64", device=p.device)
    return p, low, up


@fast_path("a", "b")
@scipy_keywords("overwrite_b", check_finite=("a", "b"))
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    /,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> ndarray:
    """The solution x of a x = b for triangular a.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices. One triangle is read.
    b : array_like of shape (n,) or (..., n, k)
        Right-hand sides, one vector or the columns of matrices. Leading axes broadcast.
    trans : {0, 1, 2, "N", "T", "C"}, default 0
        The system: a x = b for 0 and "N", a^T x = b for 1 and "T", a^H x = b for 2 and "C".
    lower : bool, default False
        Whether the lower triangle of `a` is read instead of the upper one.
    unit_diagonal : bool, default False
        Whether the diagonal counts as ones. It is then not read.

    Returns
    -------
    ndarray
        Array of shape (..., n) or (..., n, k) and of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other, or `trans` is unknown.
    LinAlgError
        A matrix is not square. The diagonal has a 0. On a GPU the next synchronisation raises the
        error.

    Notes
    -----
    The gradient is that of `solve`, within the triangle.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0], lower=True).tolist()
    [1.0, 2.0]
    """
    a, b = pair("solve_triangular", a, b, square=True)
    transposed = _transposed("solve_triangular", trans)
    if transposed is not None:
        a, lower = transposed(a), not lower
    return _system(
        "solve_triangular",
        _solve_triangular,
        a,
        b,
        lower=bool(lower),
        unit=bool(unit_diagonal),
    )


@fast_path("a")
@scipy_keywords("overwrite_a", check_finite=("a",))
def cholesky(a: ArrayLike, /, lower: bool | None = None, *, upper: bool | None = None) -> ndarray:
    """Cholesky factor of Hermitian positive definite matrices: a = l l^H, or a = u^H u.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Hermitian positive definite matrices. One triangle is read: the lower one, or the upper one
        with `upper`.
    lower : bool, optional
        Whether the result is the lower factor l. SciPy's name for the opposite of `upper`; without
        either the result is l, as in NumPy.
    upper : bool, optional
        Whether the result is the upper factor u instead of l. NumPy's name; the default is False.

    Returns
    -------
    ndarray
        Triangular matrices of the same shape with a positive diagonal.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit, or `upper` and `lower` contradict each other.
    LinAlgError
        A matrix is not square. A matrix is not positive definite. On a GPU the next synchronisation
        raises the error.

    Notes
    -----
    Gradient, with l: l^-H phi(l^H g) l^-1, where phi is the lower triangle with the diagonal
    halved. It is Hermitian.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    if upper is not None and lower is not None and bool(upper) == bool(lower):
        raise ValueError(f"cholesky: upper={upper!r} contradicts lower={lower!r}")
    if upper is None:
        upper = lower is not None and not lower
    return run(_cholesky, matrices("cholesky", a, square=True), upper=bool(upper))


@fast_path("a")
@scipy_keywords("overwrite_a", check_finite=("a",))
def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[ndarray, bool]:
    """Return the Cholesky factor of matrices for `cho_solve`, and which triangle it is.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Hermitian positive-definite matrices. The triangle that `lower` names is read.
    lower : bool, default False
        Whether the factor is l with l l^H = a, instead of u with u^H u = a.

    Returns
    -------
    tuple of ndarray and bool
        The factor, whose other triangle is zero, and `lower`.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.
    LinAlgError
        A matrix is not square or not positive definite.

    Notes
    -----
    Gradient: that of `cholesky`.

    Examples
    --------
    >>> import cudamath as cm
    >>> c, lower = cm.linalg.cho_factor([[4.0, 2.0], [2.0, 5.0]])
    >>> cm.linalg.cho_solve((c, lower), [8.0, 20.0]).tolist()
    [0.0, 4.0]
    """
    a = matrices("cho_factor", a, square=True)
    return run(_cholesky, a, upper=not lower), bool(lower)


@scipy_keywords("overwrite_b", check_finite=("c_and_lower", "b"))
def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> ndarray:
    """The solution x of a x = b by a's Cholesky factor.

    Parameters
    ----------
    c_and_lower : tuple of array_like of shape (..., n, n) and bool
        What `cho_factor` returned.
    b : array_like of shape (n,) or (..., n, k)
        Right-hand sides, one vector or the columns of matrices. Leading axes broadcast.

    Returns
    -------
    ndarray
        Array of the shape of `b`, with the leading axes of both.

    Raises
    ------
    TypeError
        The dtype is not supported, or the first argument is no such pair.
    ValueError
        The shapes do not fit.
    LinAlgError
        A matrix is not square.

    Notes
    -----
    Two triangular systems; the gradient is theirs.

    Examples
    --------
    >>> import cudamath as cm
    >>> factor = cm.linalg.cho_factor([[4.0, 2.0], [2.0, 5.0]], lower=True)
    >>> cm.linalg.cho_solve(factor, [8.0, 20.0]).tolist()
    [0.0, 4.0]
    """
    if not isinstance(c_and_lower, tuple) or len(c_and_lower) != 2:
        raise TypeError("cho_solve: wants the pair (c, lower) that cho_factor returned")
    c, b = pair("cho_solve", c_and_lower[0], b, square=True)
    lower = bool(c_and_lower[1])
    other = adjoint(c)
    first, second = (c, other) if lower else (other, c)
    return _two_triangles("cho_solve", first, second, b)
