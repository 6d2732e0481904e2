"""Functions of matrices that are composed of decompositions and products: pinv, lstsq, rank, cond,
powers, exponential."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core import dtypes, recording
from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.dispatch.checks import MISTAKES, as_numbers, as_of, members, require, speaks_for
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.op import ANY, NUMERIC, REAL, Composed, Op
from ...core.fp_errors import silence
from ...core.scalar import scalar_results
from ...core.shapes import as_integer, broadcast_shapes, normalize_axes, normalize_axis
from ...core.typing import ArrayLike, DTypeLike
from .. import reduce
from ..creation import eye, zeros
from ..elementwise import abs, conj_or_same, where
from ..join import concat, stack
from ..out_argument import deliver
from ..shape import astype, broadcast_to, diagonal, expand_dims, moveaxis, permute_dims, reshape
from ..where import _where
from . import balance
from .keywords import scipy_keywords
from .norms import matrix_norm
from .products import _pair as common_pair
from .products import matmul
from .products import outer as outer_of_flat
from .solve import _inv_and_sign, adjoint, matrices, pair, run, slogdet
from .spectral import eigvalsh, svd, svdvals
from .systems import inv, solve

__all__ = [
    "cond",
    "cross",
    "expm",
    "expm_frechet",
    "lstsq",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "outer",
    "pinv",
    "tensorinv",
    "tensorsolve",
    "trace",
]


class LstsqResult(NamedTuple):
    """Solution, sums of squared residuals, rank, singular values."""

    x: ndarray
    residuals: ndarray
    rank: ndarray
    s: ndarray


# -------------------- pseudo-inverse


def _cutoff(a: ndarray, rtol: Any) -> Any:
    """The ratio to the largest singular value below which one counts as 0."""
    return max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol


def _tolerance(name: str, what: str, given: Any, a: ndarray) -> Any:
    """What is below it counts as 0: None, a number, or an array of real numbers where `a` is."""
    if isinstance(given, (ndarray, np.ndarray, list, tuple)):
        return require(name, asarray(given, device=a.device, name=name), REAL, what)
    return None if given is None else as_numbers(name, f"{what} as real numbers", given)[0]


def _number(rtol: Any) -> bool:
    """Whether it is one number for all matrices, known to the host."""
    return not isinstance(rtol, (ndarray, np.ndarray)) and np.ndim(rtol) == 0


_inverse_values = Op(
    "inverse_values", cpu="decompose.inverted", cuda="linalg.lapack_plans.inverted", outputs=2
)


def _inverted(s: ndarray, rtol: Any) -> ndarray:
    """1 / s, and 0 where s counts as 0."""
    if _number(rtol):
        return _inverse_values(s, ratio=float(rtol))[0]
    large = s > expand_dims(asarray(rtol, device=s.device), axis=-1) * reduce.max(
        s, axis=-1, keepdims=True
    )
    return where(large, 1 / where(large, s, 1), 0)


def _pinv_value(a: ndarray, *, rtol: Any) -> ndarray:
    u, s, vh = svd(a, full_matrices=False)
    return matmul(adjoint(vh) * expand_dims(_inverted(s, rtol), axis=-2), adjoint(u))


def _pinv_grad(g: ndarray, p: ndarray, a: ndarray, *, rtol: Any) -> tuple[ndarray]:
    """-p^H g p^H + (1 - a p) g^H p p^H + p^H p g^H (1 - p a): of matrices whose rank does not
    change (Golub & Pereyra)."""
    ph, gh = adjoint(p), adjoint(g)
    first, second = matmul(matmul(gh, p), ph), matmul(ph, matmul(p, gh))
    out = (
        first
        - matmul(a, matmul(p, first))
        + second
        - matmul(matmul(second, p), a)
        - matmul(matmul(ph, g), ph)
    )
    return (out,)


_pinv = Composed("pinv", _pinv_value, _pinv_grad)


@fast_path("a")
@scipy_keywords(check_finite=("a",))
def pinv(
    a: ArrayLike,
    /,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
    atol: float | None = None,
    return_rank: bool = False,
) -> Any:
    """Moore-Penrose pseudo-inverse, by the singular value decomposition.

    Parameters
    ----------
    a : array_like of shape (..., m, n)
        Matrices.
    rcond : array_like, optional
        Singular values up to this number times the largest one count as 0, a number or an array
        (...). The default is max(m, n) eps (NumPy's is 1e-15, also for float32). Both names mean
        the same.
    hermitian : bool, default False
        Accepted for compatibility with NumPy. The result is the same.
    rtol : array_like, optional
        Singular values up to this number times the largest one count as 0, a number or an array
        (...). The default is max(m, n) eps (NumPy's is 1e-15, also for float32). Both names mean
        the same.
    atol : float, optional
        Singular values up to this number count as 0; with `rtol`, up to the sum of both. Where it
        is given, the default of `rtol` is 0.
    return_rank : bool, default False
        Whether the numbers of singular values that do not count as 0 are returned too.

    Returns
    -------
    ndarray or tuple of ndarray
        Array of shape (..., n, m). With `return_rank` also the ranks, int64 (...).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit, or both `rcond` and `rtol` are given.
    LinAlgError
        The iteration does not converge.

    Notes
    -----
    Gradient: -p^H g p^H + (1 - a p) g^H p p^H + p^H p g^H (1 - p a), also at equal singular values.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    if rcond is not None and rtol is not None:
        raise ValueError("pinv: `rtol` and `rcond` can't be both set.")
    own, a = require("pinv", a).dtype, matrices("pinv", a)
    if not a.size:  # of integers too, whose dtype NumPy keeps here
        a = astype(a, own, copy=False)
        return reshape(a, (*a.shape[:-2], a.shape[-1], a.shape[-2]))
    what, given = ("rcond", rcond) if rtol is None else ("rtol", rtol)
    cutoff = _tolerance("pinv", what, given, a)
    if atol is None:
        cutoff = _cutoff(a, cutoff)
    else:
        (atol,) = as_numbers("pinv", "atol as a real number", atol)
        with recording.paused():
            cutoff = (0.0 if cutoff is None else cutoff) + atol / reduce.max(svdvals(a), axis=-1)
    if return_rank:
        return _pinv(a, rtol=cutoff), _count(svdvals(a), cutoff)
    return _pinv(a, rtol=cutoff)


@fast_path("a", "b")
@scipy_keywords(
    "overwrite_a",
    "overwrite_b",
    check_finite=("a", "b"),
    lapack_driver=("gelsd", "gelsy", "gelss"),
)
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, cond: float | None = None
) -> LstsqResult:
    """Solve least squares: the x of least norm among those that minimise |b - a x|.

    The solution is computed by the singular value decomposition.

    Parameters
    ----------
    a : array_like of shape (m, n) or (..., m, n)
        Matrix, or a batch of matrices.
    b : array_like of shape (m,), (m, k) or (..., m, k)
        Right-hand sides. A batch needs (..., m, k).
    rcond : float, optional
        Singular values up to `rcond` times the largest one count as 0. The default is max(m, n)
        eps.
    cond : float, optional
        SciPy's name of `rcond`.

    Returns
    -------
    LstsqResult
        Named tuple (x, residuals, rank, s). `x` has the shape (n,) or (..., n, k). `residuals` are
        the sums of |b - a x|^2 down the columns, of shape (k,), or (1,) for a vector; as in NumPy
        they are empty if m <= n or, for a single matrix, if its rank is below n. `rank` is an int32
        array (...), without dimensions for a single matrix, and `s` are the singular values. For a
        single matrix with m > n the call waits for the GPU, because the rank decides whether there
        are residuals.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other, or both `rcond` and `cond` are given.
    LinAlgError
        The number of dimensions does not fit, or the iteration does not converge.

    Notes
    -----
    The gradient of x is that of pinv(a) b, and the gradient of s is that of `svdvals`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0]).x.round(6).tolist()
    [1.0, 2.0]
    """
    a, b = pair("lstsq", a, b)
    if cond is not None:
        if rcond is not None:
            raise ValueError("lstsq: `cond` and `rcond` can't be both set.")
        rcond = cond
    if rcond is not None:
        (rcond,) = as_numbers("lstsq", "rcond as a real number", rcond)
    vector = b.ndim == 1
    if b.ndim == 0 or b.shape[0 if vector else -2] != a.shape[-2]:
        raise np.linalg.LinAlgError(
            f"lstsq: Incompatible dimensions, got shapes {a.shape} and {b.shape}"
        )
    columns = expand_dims(b, axis=-1) if vector else b
    m, n = a.shape[-2:]
    lead = broadcast_shapes("lstsq", a.shape[:-2], columns.shape[:-2])
    rtol = _cutoff(a, None if rcond is None or rcond == -1 else rcond) if m and n else 0.0
    if a._node is None and columns._node is None and a.size:
        u, s, vh = svd(a, full_matrices=False)
        inverse, rank = _inverse_values(s, ratio=float(rtol))
        x = matmul(adjoint(vh), expand_dims(inverse, axis=-1) * matmul(adjoint(u), columns))
    else:
        s, x = svdvals(a), matmul(pinv(a, rcond=rtol), columns)
        rank = _count(s, rtol)
    if m > n and (a.ndim > 2 or int(rank) == n):
        missing = columns - matmul(a, x)
        residuals = reduce.sum((missing * conj_or_same(missing)).real, axis=-2)
    else:
        residuals = zeros((*lead, 0), s.dtype, device=a.device)
    rank = astype(rank, np.int32)  # as LAPACK counts it, and NumPy
    return LstsqResult(reshape(x, x.shape[:-1]) if vector else x, residuals, rank, s)


def _count(s: ndarray, rtol: Any) -> ndarray:
    """How many of the singular values, in descending order, do not count as 0."""
    if not s.shape[-1]:
        return astype(asarray(np.zeros(s.shape[:-1]), device=s.device), "int64")
    if _number(rtol):
        with recording.paused():
            return _inverse_values(s, ratio=float(rtol))[1]
    return _count_above(s, rtol)


def _count_above(s: ndarray, rtol: Any) -> ndarray:
    if not _number(rtol):
        rtol = expand_dims(asarray(rtol, device=s.device), axis=-1)
    return reduce.count_nonzero(s > rtol * reduce.max(s, axis=-1, keepdims=True), axis=-1)


@fast_path("a")
def matrix_rank(
    a: ArrayLike, /, tol: Any = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> ndarray:
    """Rank of matrices: how many singular values are above a threshold.

    Parameters
    ----------
    a : array_like of shape (..., m, n)
        Matrices. An array of fewer dimensions has the rank 0 if all elements are 0, and otherwise
        1.
    tol : array_like, optional
        Threshold, a number or an array (...).
    hermitian : bool, default False
        Whether `a` is Hermitian and its eigenvalues are used.
    rtol : array_like, optional
        Threshold relative to the largest singular value. The default is max(m, n) eps.

    Returns
    -------
    ndarray
        Array of int64 of shape (...).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        Both `tol` and `rtol` are given.
    LinAlgError
        The iteration does not converge.

    Notes
    -----
    The result is an integer and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
    1
    """
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: `tol` and `rtol` can't be both set.")
    a = require("matrix_rank", a, ANY)
    if a.ndim < 2:
        return astype(reduce.any(a != 0), "int64")
    a = matrices("matrix_rank", a)
    tol, rtol = _tolerance("matrix_rank", "tol", tol, a), _tolerance("matrix_rank", "rtol", rtol, a)
    with recording.paused():
        s = abs(eigvalsh(a)) if hermitian else svdvals(a)
        if not s.shape[-1]:
            return _count(s, rtol)
        if tol is None:
            return (_count_above if hermitian else _count)(s, _cutoff(a, rtol))
        return reduce.count_nonzero(
            s > (expand_dims(tol, axis=-1) if np.ndim(tol) else tol), axis=-1
        )


@fast_path("a")
@speaks_for("cond")
def cond(a: ArrayLike, /, p: float | str | None = None) -> ndarray:
    """Condition number of matrices: norm(a) norm(inv(a)).

    Parameters
    ----------
    a : array_like of shape (..., m, n)
        Matrices, square unless `p` is None, 2 or -2.
    p : float or str, optional
        Norm that is used. None and 2: the ratio of the largest to the smallest singular value. -2:
        its inverse. "fro", 1, -1, inf, -inf and "nuc": the norm of that order.

    Returns
    -------
    ndarray
        Real array of shape (...). It is inf for singular matrices.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit, or `p` is unknown.
    LinAlgError
        A matrix is empty or not square.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.linalg.cond([[1.0, 0.0], [0.0, 4.0]]))
    4.0
    """
    a = matrices("cond", a)
    if not a.shape[-1] or not a.shape[-2]:
        raise np.linalg.LinAlgError(
            f"cond: cond is not defined on empty arrays, got shape {a.shape}"
        )
    if p in (None, 2, -2):
        s = svdvals(a)
        largest, smallest = s[..., 0], s[..., -1]
        broken = smallest == 0
        ratio = largest / where(broken, 1, smallest)
        if p == -2:
            return where(largest == 0, math.inf, smallest / where(largest == 0, 1, largest))
        return where(
            reduce.any(a != a, axis=(-2, -1)) & broken, math.nan, where(broken, math.inf, ratio)
        )
    a = matrices("cond", a, square=True)
    otherwise: Any = math.inf
    if a._node is None:
        inverse, sign = run(_inv_and_sign, a)
        regular = sign != 0  # no pivot is 0
    else:
        with recording.paused():
            unknown = reduce.any(a != a, axis=(-2, -1))
            regular = where(unknown, 0, slogdet(a)[0]) != 0
            otherwise = astype(
                where(unknown, math.nan, math.inf), dtypes.real_dtype(a.dtype), copy=False
            )
        inverse = inv(
            _where(
                expand_dims(regular, axis=(-2, -1)),
                a,
                eye(a.shape[-1], dtype=a.dtype, device=a.device),
            )
        )
    if isinstance(p, str):
        return where(regular, matrix_norm(a, ord=p) * matrix_norm(inverse, ord=p), otherwise)
    norms = matrix_norm(stack([a, inverse]), ord=p)
    return where(regular, norms[0] * norms[1], otherwise)


# -------------------- powers


@fast_path("a")
def matrix_power(a: ArrayLike, n: int) -> ndarray:
    """The n-th power of square matrices, by repeated squaring; of a negative n, of the inverse.

    Parameters
    ----------
    a : array_like of shape (..., k, k)
        Square numeric matrices.
    n : int
        Exponent. A negative one takes the power of the inverse.

    Returns
    -------
    ndarray
        Array of the same shape and dtype (floating-point for n < 0).

    Raises
    ------
    TypeError
        `n` is not an integer.
    LinAlgError
        A matrix is not square, or a matrix is singular and n < 0.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.matrix_power([[1, 1], [1, 0]], 10).tolist()
    [[89, 55], [55, 34]]
    """
    a = require("matrix_power", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError(
            f"matrix_power: Last 2 dimensions of the array must be square, got shape {a.shape}"
        )
    n = as_integer("matrix_power", "exponent", n)
    if n == 0:
        one = eye(a.shape[-1], dtype=a.dtype, device=a.device)
        return one if a.ndim == 2 else broadcast_to(one, a.shape).copy()
    given = a
    if n < 0:
        a, n = inv(a), -n
    result: ndarray | None = None
    while True:
        if n & 1:
            result = a if result is None else matmul(result, a)
        n >>= 1
        if not n:
            return result.copy() if result is given else result  # type: ignore[return-value]
        a = matmul(a, a)


#: Coefficients of the Pade approximants of exp, the size up to which they are exact to rounding
#: (Higham 2005), and the reciprocal of the first coefficient of their backward error.
_PADE = {
    4: (
        (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
        3.925724783138660,
        4487938430976000.0,
    ),
    8: (
        (
            64764752532480000.0,
            32382376266240000.0,
            7771770303897600.0,
            1187353796428800.0,
            129060195264000.0,
            10559470521600.0,
            670442572800.0,
            33522128640.0,
            1323241920.0,
            40840800.0,
            960960.0,
            16380.0,
            182.0,
            1.0,
        ),
        5.371920351148152,
        113250775606021113483283660800000000.0,
    ),
}


@scalar_results
def expm(a: ArrayLike, /) -> ndarray:
    """Matrix exponential: sum_k a^k / k!, by scaling, a Pade approximant and repeated squaring.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices; one number is a matrix of shape (1, 1).

    Returns
    -------
    ndarray
        Array of the same shape. It is NaN for matrices that are not finite.

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
    The gradient follows from those of the operations inside. The number of squarings depends on the
    values, so the call waits for the GPU.

    References
    ----------
    .. [1] Higham, The scaling and squaring method for the matrix exponential revisited, 2005.
    .. [2] Al-Mohy and Higham, A new scaling and squaring algorithm for the matrix exponential,
       2009: powers say how large a matrix is, where its norm says too much.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).round(12).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    a = asarray(a, name="expm")
    if a.ndim < 2 and a.size == 1:
        a = reshape(a, (1, 1))
    a = matrices("expm", a, square=True)
    if not a.size:
        return a.copy()
    b, limit, _ = _PADE[dtypes.real_dtype(a.dtype).itemsize]
    with recording.paused():
        sizes = matrix_norm(a, ord=1).to_numpy()
    evened = None
    if (sizes > balance.LARGE).any():
        evened = _exponents(a, sizes)
        a = _times_both(a, evened)
        with recording.paused():
            sizes = matrix_norm(a, ord=1).to_numpy()
    with silence():
        squarings = np.where(np.isfinite(sizes), np.maximum(np.ceil(np.log2(sizes / limit)), 0), 0)
    a = _scaled(a, -squarings)
    finite = None
    if not np.isfinite(sizes).all():  # a system with NaN in it counts as singular on a GPU
        finite = asarray(np.isfinite(sizes)[..., None, None], device=a.device)
        a = where(finite, a, 0)
    while squarings.any():  # more than once where powers of a fall below the least number
        needless = _needless_squarings(a, squarings)
        if not needless.any():
            break
        a, squarings = _scaled(a, needless), squarings - needless
    one = eye(a.shape[-1], dtype=a.dtype, device=a.device)
    a2 = matmul(a, a)
    a4 = matmul(a2, a2)
    a6 = matmul(a4, a2)
    odd = b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one
    even = b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    if len(b) > 8:
        odd = odd + matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
        even = even + matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    odd = matmul(a, odd)
    x = solve(even - odd, even + odd)
    most = int(squarings.max())
    every = asarray(squarings, device=a.device) if squarings.ndim else None
    for i in range(most):
        squared = matmul(x, x)
        x = squared if every is None else where(expand_dims(every > i, axis=(-2, -1)), squared, x)
    if evened is not None:
        x = _times_both(x, -evened)
    return x if finite is None else where(finite, x, math.nan)


def _exponents(a: ndarray, sizes: np.ndarray) -> np.ndarray:
    """What `balance.exponents` finds for the large ones of some matrices, and 0 for the others."""
    found = np.zeros(a.shape[:-1])
    with recording.paused():
        values = a._alias().to_numpy()
    for where_ in np.argwhere((sizes > balance.LARGE) & np.isfinite(sizes)):
        at = tuple(where_)
        found[at] = balance.exponents(values[at])
    return found


def _times_both(a: ndarray, exponents: np.ndarray) -> ndarray:
    """The elements times 2^(u_j - u_i)."""
    one, other = balance.factors(exponents, a)
    return a * one * other


def _scaled(a: ndarray, exponents: np.ndarray) -> ndarray:
    """Each matrix times a power of 2."""
    factors = np.exp2(exponents).astype(dtypes.real_dtype(a.dtype))
    return a * expand_dims(asarray(factors, device=a.device), axis=(-2, -1))


def _needless_squarings(a: ndarray, squarings: np.ndarray) -> np.ndarray:
    """How many of the squarings matrices do not need, which are scaled for them already. Each one
    costs digits, and where |a^k|^(1/k) is far below |a| they are not needed."""
    kind = dtypes.real_dtype(a.dtype)
    b, limit, reciprocal = _PADE[kind.itemsize]
    with recording.paused(), silence():
        a2 = matmul(a, a)
        a4 = matmul(a2, a2)
        fourth = matrix_norm(a4, ord=1).to_numpy() ** 0.25
        sixth = matrix_norm(matmul(a4, a2), ord=1).to_numpy() ** (1 / 6)
        size = np.maximum(np.maximum(fourth, sixth), float(np.finfo(kind).tiny) ** 0.25)
        room = float(np.finfo(kind).max) / b[0] ** 2 / matrix_norm(a, ord=1).to_numpy()
        spare = np.clip(np.floor(np.log2(np.minimum(limit / size, room))), 0, squarings)
        if not spare.any():
            return spare
        # |a|^(2m + 1) bounds what the approximant leaves out: so much are they needed after all
        bare = abs(_scaled(a, spare))
        sums = reduce.sum(bare, axis=-2, keepdims=True)
        norm = reduce.max(sums, axis=(-2, -1)).to_numpy()
        for _ in range(2 * (len(b) - 1)):
            sums = matmul(sums, bare)
        left = reduce.max(sums, axis=(-2, -1)).to_numpy() / (norm * reciprocal)
        more = np.ceil(np.log2(left / (np.finfo(kind).eps / 2)) / (2 * (len(b) - 1)))
        return np.clip(spare - np.fmax(more, 0), 0, spare)  # of zeros `more` is NaN


@scalar_results
@scipy_keywords(check_finite=("A", "E"))
def expm_frechet(
    A: ArrayLike, E: ArrayLike, method: str | None = None, compute_expm: bool = True
) -> Any:
    """Frechet derivative of the matrix exponential at a in the direction e.

    L(a, e) = int_0^1 exp((1 - t) a) e exp(t a) dt

    Parameters
    ----------
    A : array_like of shape (..., n, n)
        Square matrices.
    E : array_like of shape (..., n, n)
        Directions. Leading axes broadcast.
    method : str, optional
        Accepted for compatibility with SciPy, "SPS" or "blockEnlarge". The result is the same.
    compute_expm : bool, default True
        Whether the exponential is returned too.

    Returns
    -------
    tuple of ndarray or ndarray
        The pair (expm(a), L(a, e)), or the derivative alone, of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit, or the method is unknown.
    LinAlgError
        A matrix is not square.

    Notes
    -----
    Both are blocks of expm([[a, e], [0, a]]), and so is the gradient. The call waits for the GPU.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.expm_frechet([[0.0]], [[2.0]], compute_expm=False).round(12).tolist()
    [[2.0]]
    """
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(
            f'expm_frechet: method must be None, "SPS" or "blockEnlarge", got {method!r}'
        )
    a, e = pair("expm_frechet", A, E, square=True)
    if e.ndim < 2 or e.shape[-2:] != a.shape[-2:]:
        raise ValueError(
            f"expm_frechet: both must have as many rows, got shapes {a.shape} and {e.shape}"
        )
    lead = broadcast_shapes("expm_frechet", a.shape[:-2], e.shape[:-2])
    n = a.shape[-1]
    a, e = (broadcast_to(x, (*lead, n, n)) for x in (a, e))
    whole = expm(concat([concat([a, e], axis=-1), concat([a * 0, a], axis=-1)], axis=-2))
    derivative = whole[..., :n, n:]
    return (whole[..., :n, :n], derivative) if compute_expm else derivative


@fast_path("*arrays")
def multi_dot(arrays: Sequence[ArrayLike], /, *, out: ndarray | None = None) -> ndarray:
    """Multiply several matrices in the order that takes the fewest operations.

    In the order of multiplications that takes the fewest operations.

    Parameters
    ----------
    arrays : sequence of array_like
        Two or more matrices. The first and the last may be vectors (a row and a column).
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        A matrix, a vector or an array without dimensions.

    Raises
    ------
    ValueError
        There are fewer than two matrices, or the sizes do not match.
    LinAlgError
        The number of dimensions does not fit.

    Notes
    -----
    The gradient is that of `matmul`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.multi_dot([cm.ones((2, 50)), cm.ones((50, 3)), cm.ones(3)]).tolist()
    [150.0, 150.0]
    """
    items = [require("multi_dot", x, ANY) for x in members("multi_dot", arrays, "matrices")]
    if len(items) < 2:
        raise ValueError("multi_dot: Expecting at least two arrays.")
    last = len(items) - 1
    for i, x in enumerate(items):
        if x.ndim != 2 and (x.ndim != 1 or 0 < i < last):
            raise np.linalg.LinAlgError(f"multi_dot: wants matrices, got shape {x.shape}")
        if i and items[i - 1].shape[-1] != x.shape[0]:
            raise ValueError(
                f"multi_dot: matrix {i} of shape {x.shape} does not follow one of shape "
                f"{items[i - 1].shape}"
            )
    first = items[0].shape
    order = _grouping(
        (
            first[0] if len(first) == 2 else 1,
            first[-1],
            *[x.shape[1] if x.ndim == 2 else 1 for x in items[1:]],
        )
    )

    def product(part: Any) -> ndarray:
        return items[part] if type(part) is int else matmul(product(part[0]), product(part[1]))

    y = product(order)
    return y if out is None else deliver("multi_dot", y, out)


@functools.lru_cache(1024)
def _grouping(sizes: tuple[int, ...]) -> Any:
    """The order that takes the fewest operations for matrices of sizes[i] x sizes[i + 1]: the
    number of a matrix, or a pair of such orders."""
    count = len(sizes) - 1
    best: dict[tuple[int, int], tuple[int, Any]] = {(i, i): (0, i) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            k = builtins.min(
                range(i, j),
                key=lambda k: (
                    best[i, k][0]
                    + best[k + 1, j][0]
                    + (  # noqa: B023
                        sizes[i] * sizes[k + 1] * sizes[j + 1]
                    )
                ),
            )  # noqa: B023
            best[i, j] = (
                best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1],
                (best[i, k][1], best[k + 1, j][1]),
            )
    return best[0, count - 1][1]


# -------------------- tensors


@fast_path("a")
@speaks_for("tensorinv")
def tensorinv(a: ArrayLike, /, ind: int = 2) -> ndarray:
    """Inverse with respect to `tensordot(a, b, ind)`.

    Parameters
    ----------
    a : array_like
        Array whose first `ind` axes have as many elements as the others.
    ind : int, default 2
        Number of the first axes, > 0.

    Returns
    -------
    ndarray
        Array of shape a.shape[ind:] + a.shape[:ind].

    Raises
    ------
    ValueError
        `ind` is not positive.
    LinAlgError
        A matrix is not square, or the matrix is singular.

    Notes
    -----
    The gradient is that of `inv`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.tensorinv(cm.eye(6).reshape(2, 3, 6), ind=2).shape
    (6, 2, 3)
    """
    a, ind = require("tensorinv", a, ANY), as_integer("tensorinv", "ind", ind, 1)
    rows = math.prod(a.shape[:ind])
    if math.prod(a.shape[ind:]) != rows:
        raise np.linalg.LinAlgError(
            f"tensorinv: the axes before and after ind = {ind} must have as many elements, got "
            "shape "
            f"{a.shape}"
        )
    return reshape(inv(reshape(a, (rows, rows))), (*a.shape[ind:], *a.shape[:ind]))


@fast_path("a", "b")
@speaks_for("tensorsolve")
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> ndarray:
    """The x with tensordot(a, x, x.ndim) = b.

    Parameters
    ----------
    a : array_like
        Array of the shape b.shape + x.shape.
    b : array_like
        Right-hand side.
    axes : sequence of int, optional
        Axes of `a` that are moved to its end first.

    Returns
    -------
    ndarray
        The solution.

    Raises
    ------
    LinAlgError
        A matrix is not square, or the matrix is singular.

    Notes
    -----
    The gradient is that of `solve`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.tensorsolve(cm.eye(6).reshape(2, 3, 6), cm.ones((2, 3))).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    a, b = require("tensorsolve", a, ANY), require("tensorsolve", b, ANY)
    if axes is not None:
        last = normalize_axes("tensorsolve", axes, a.ndim)
        a = permute_dims(a, (*[i for i in range(a.ndim) if i not in last], *last))
    shape = a.shape[b.ndim :]
    if math.prod(shape) != b.size or a.size != b.size**2:
        raise np.linalg.LinAlgError(
            f"tensorsolve: Input arrays must satisfy prod(a.shape[b.ndim:]) == b.size, got shapes "
            f"{a.shape} and {b.shape}"
        )
    return reshape(solve(reshape(a, (b.size, b.size)), reshape(b, (b.size,))), shape)


@fast_path("a", "b")
def cross(a: ArrayLike, b: ArrayLike, *, axis: int = -1) -> ndarray:
    """Cross product of vectors of three elements along an axis.

    Parameters
    ----------
    a, b : array_like
        Numeric arrays whose shapes broadcast and have length 3 along `axis`.
    axis : int, default -1
        Axis of the vectors.

    Returns
    -------
    ndarray
        Array of the broadcast shape and the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other, or the axis is out of range.

    Notes
    -----
    The gradient is b x g for `a` and g x a for `b`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    a, b = common_pair("cross", a, b)
    a, b = require("cross", a, NUMERIC), require("cross", b, NUMERIC)
    i, j = normalize_axis("cross", axis, a.ndim), normalize_axis("cross", axis, b.ndim)
    if a.shape[i] != 3 or b.shape[j] != 3:
        raise ValueError(
            "cross: Both input arrays must be (arrays of) 3-dimensional vectors, got shapes "
            f"{a.shape} and "
            f"{b.shape} along axis {axis}"
        )
    broadcast_shapes("cross", a.shape, b.shape)
    x, y = (
        a if i == a.ndim - 1 else moveaxis(a, i, -1),
        b if j == b.ndim - 1 else moveaxis(b, j, -1),
    )
    vectors = _cross(x, y)
    return vectors if axis == -1 else moveaxis(vectors, -1, axis)


_cross: Op = Op(
    "cross",
    cpu="cross.cross",
    cuda="linalg.cross.cross",
    broadcasts=True,
    vjp=(
        lambda g, _y, _a, b: _cross(conj_or_same(b), g),
        lambda g, _y, a, _b: _cross(g, conj_or_same(a)),
    ),
)


@fast_path("x1", "x2")
def outer(x1: ArrayLike, x2: ArrayLike, /) -> ndarray:
    """Outer product of two vectors: y[i, j] = x1[i] x2[j].

    ``cm.outer`` flattens its arguments.

    Parameters
    ----------
    x1, x2 : array_like
        Numeric or bool vectors.

    Returns
    -------
    ndarray
        Matrix of the common dtype.

    Raises
    ------
    ValueError
        An argument is not a vector.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = common_pair("outer", x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer: wants vectors, got shapes {a.shape} and {b.shape}")
    return outer_of_flat(a, b)


@fast_path("x")
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> ndarray:
    """Sum the diagonals of the matrices in the last two axes.

    NumPy's `trace`, outside linalg, takes the first two axes.

    Parameters
    ----------
    x : array_like of shape (..., m, n)
        Numeric matrices.
    offset : int, default 0
        Number of the diagonal, > 0 above and < 0 below the main diagonal.
    dtype : dtype_like, optional
        Dtype of the sum, as for `sum`.

    Returns
    -------
    ndarray
        Array of shape (...).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.

    Notes
    -----
    The gradient is g on the diagonal.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.linalg.trace([[1, 2], [3, 4]]))
    5
    """
    x = require("trace", x, ANY)
    if x.ndim < 2:
        raise ValueError(
            f"trace: wants matrices, an array of at least two dimensions, got shape {x.shape}"
        )
    line = diagonal(x, as_integer("trace", "offset", offset), -2, -1)
    try:
        return reduce.sum(
            line, -1, dtype=None if dtype is None else dtypes.as_dtype(dtype, "trace")
        )
    except MISTAKES as error:
        raise as_of("trace", error) from None
