"""Systems whose matrix has few diagonals.

A window moves down the diagonal, WINDOW columns at a time: what it shows is a dense matrix of few
rows, which is decomposed with LAPACK's pivoting. The rows that are not finished move on with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.dispatch.checks import MISTAKES, as_of
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.op import Composed
from ...core.shapes import as_integer, broadcast_shapes
from ...core.typing import ArrayLike
from .. import reduce
from ..creation import tril, zeros
from ..elementwise import conj_or_same
from ..index import take
from ..join import concat
from ..shape import broadcast_to, expand_dims, reshape
from .keywords import scipy_keywords
from .products import matmul
from .solve import adjoint, cholesky, lu, matrices, pair, solve_triangular

__all__ = ["cho_solve_banded", "cholesky_banded", "solve_banded", "solveh_banded"]

WINDOW = 32


def _numbers(x: ndarray, places: np.ndarray) -> ndarray:
    """The numbers of (..., rows, columns) at flat places; at -1 stands 0, at -2 stands 1."""
    flat = reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    end = zeros((*x.shape[:-2], 1), x.dtype, device=x.device)
    line = concat([flat, end + 1, end], axis=-1)
    count = line.shape[-1]
    where = asarray(places.reshape(-1) % count, device=x.device)
    return reshape(take(line, where, axis=-1), (*x.shape[:-2], *places.shape))


def _places(i: np.ndarray, j: np.ndarray, n: int, lower: int, upper: int) -> np.ndarray:
    """Where element (i, j) of the matrix lies in its diagonals. Below its end the matrix goes on
    with ones on its diagonal."""
    row = upper + i - j
    inside = (row >= 0) & (row <= lower + upper) & (i < n) & (j < n)
    return np.where(inside, row * n + j, np.where((i == j) & (i >= n), -2, -1))


def _windows(ab: ndarray, lower: int, upper: int) -> tuple[ndarray, ndarray]:
    """The rows that lie above the first window, and those that enter with each."""
    n = ab.shape[-1]
    count = -(-n // WINDOW)
    wide = WINDOW + lower + upper
    i, j = np.ogrid[:lower, : lower + upper]
    above = _places(i, j, n, lower, upper)
    first = np.arange(count)[:, None, None] * WINDOW
    i, j = np.ogrid[:WINDOW, :wide]
    return _numbers(ab, above), _numbers(ab, _places(first + lower + i, first + j, n, lower, upper))


def _banded_value(ab: ndarray, b: ndarray, *, lower: int, upper: int) -> ndarray:
    n, k = b.shape[-2:]
    lead = b.shape[:-2]
    rest, entering = _windows(ab, lower, upper)
    count = entering.shape[-3]
    more = count * WINDOW + lower - n
    right = b
    if more:
        right = concat([b, zeros((*lead, more, k), b.dtype, device=b.device)], axis=-2)
    top = right[..., :lower, :]
    blank = zeros((*lead, lower, WINDOW), b.dtype, device=b.device)
    factors = []
    for step in range(count):
        row = lower + step * WINDOW
        rows = entering[..., step, :, :]
        if lower:
            rows = concat(
                [concat([rest, blank], axis=-1), rows],
                axis=-2,
            )
            known = concat([top, right[..., row : row + WINDOW, :]], axis=-2)
        else:
            known = right[..., row : row + WINDOW, :]
        p, low, up = lu(rows[..., :WINDOW])
        others = matmul(p.mT, concat([rows[..., WINDOW:], known], axis=-1))
        done = solve_triangular(
            low[..., :WINDOW, :], others[..., :WINDOW, :], lower=True, unit_diagonal=True
        )
        factors.append((up, done))
        if lower:
            left = others[..., WINDOW:, :] - matmul(low[..., WINDOW:, :], done)
            rest, top = left[..., : lower + upper], left[..., lower + upper :]
    beside = lower + upper
    after = zeros((*lead, beside, k), b.dtype, device=b.device)
    found = []
    for up, done in reversed(factors):
        y = done[..., beside:]
        if beside:
            y = y - matmul(done[..., :beside], after)
        x = solve_triangular(up, y)
        found.append(x)
        after = concat([x, after], axis=-2)[..., :beside, :]
    return concat(found[::-1], axis=-2)[..., :n, :]


def _adjoint_diagonals(ab: ndarray, lower: int, upper: int) -> ndarray:
    """The diagonals of a^H."""
    n = ab.shape[-1]
    row, j = np.ogrid[: lower + upper + 1, :n]
    i = j + row - lower
    inside = (i >= 0) & (i < n)
    return conj_or_same(_numbers(ab, np.where(inside, (upper + lower - row) * n + i, -1)))


def _banded_grad(
    g: ndarray, x: ndarray, ab: ndarray, _b: Any, *, lower: int, upper: int
) -> tuple[ndarray, ndarray]:
    """The solution with a^H for b; minus its products with x^H where ab has numbers."""
    n, k = x.shape[-2:]
    for_b = _banded(_adjoint_diagonals(ab, lower, upper), g, lower=upper, upper=lower)
    row, j, column = np.ogrid[: lower + upper + 1, :n, :k]
    i = j + row - upper
    rows = _numbers(for_b, np.where((i >= 0) & (i < n), i * k + column, -1))
    return -reduce.sum(rows * conj_or_same(expand_dims(x, axis=-3)), axis=-1), for_b


_banded = Composed("solve_banded", _banded_value, _banded_grad)


def _checked(name: str, ab: Any, b: Any, diagonals: int | None) -> tuple[ndarray, ndarray, bool]:
    """Both with the same leading axes; whether b was a vector."""
    ab, b = pair(name, ab, b)
    if diagonals is not None and ab.shape[-2] != diagonals:
        raise ValueError(
            f"{name}: invalid values for the number of lower and upper diagonals: ab must have "
            f"{diagonals} rows, got shape {ab.shape}"
        )
    vector = b.ndim == 1
    if b.ndim == 0 or b.shape[-1 if vector else -2] != ab.shape[-1]:
        raise ValueError(
            f"{name}: shapes of ab and b are not compatible, got {ab.shape} and {b.shape}"
        )
    if vector:
        b = expand_dims(b, axis=-1)
    lead = broadcast_shapes(name, ab.shape[:-2], b.shape[:-2])
    ab, b = (broadcast_to(x, (*lead, *x.shape[-2:])) for x in (ab, b))
    return ab, b, vector


@fast_path("ab", "b")
@scipy_keywords("overwrite_ab", "overwrite_b", check_finite=("ab", "b"))
def solve_banded(l_and_u: tuple[int, int], ab: ArrayLike, b: ArrayLike) -> ndarray:
    """The solution x of a x = b for a matrix of few diagonals.

    ab[u + i - j, j] = a[i, j]

    Parameters
    ----------
    l_and_u : tuple of int
        The numbers of the diagonals below and above the main one.
    ab : array_like of shape (..., l + u + 1, n)
        The diagonals, the highest one first. What lies outside of the matrix is not read.
    b : array_like of shape (n,) or (..., n, k)
        Right-hand sides, one vector or the columns of matrices. Leading axes broadcast.

    Returns
    -------
    ndarray
        Array of shape (..., n) or (..., n, k) and of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other.
    LinAlgError
        The matrix is singular. On a GPU the next synchronisation raises the error.

    Notes
    -----
    LU with partial pivoting in windows of 32 columns, n (l + u)^2 operations. Gradient: the
    solution y of a^H y = g for `b`; -y x^H, where it has diagonals, for `ab`.

    Examples
    --------
    >>> import cudamath as cm
    >>> ab = [[0.0, 1.0, 1.0], [2.0, 2.0, 2.0], [1.0, 1.0, 0.0]]
    >>> cm.linalg.solve_banded((1, 1), ab, [3.0, 4.0, 3.0]).round(12).tolist()
    [1.0, 1.0, 1.0]
    """
    try:
        lower, upper = l_and_u
    except (TypeError, ValueError):
        raise TypeError(f"solve_banded: wants a pair of integers (l, u), got {l_and_u!r}") from None
    lower = as_integer("solve_banded", "l", lower, 0)
    upper = as_integer("solve_banded", "u", upper, 0)
    ab, b, vector = _checked("solve_banded", ab, b, lower + upper + 1)
    if not b.size:
        x = b.copy()
    else:
        try:
            x = _banded(ab, b, lower=lower, upper=upper)
        except MISTAKES as error:
            raise as_of("solve_banded", error) from None
    return reshape(x, x.shape[:-1]) if vector else x


def _lower_diagonals(name: str, ab: ndarray, lower: bool) -> ndarray:
    """The main diagonal and those below it, of Hermitian matrices."""
    if ab.shape[-1] and not ab.shape[-2]:
        raise ValueError(f"{name}: ab must have a diagonal, got shape {ab.shape}")
    if lower or not ab.size:
        return ab
    return _adjoint_diagonals(ab, 0, ab.shape[-2] - 1)


def _factor(ab: ndarray) -> ndarray:
    """The diagonals of the lower Cholesky factor."""
    below, n = ab.shape[-2] - 1, ab.shape[-1]
    lead = ab.shape[:-2]
    width = max(WINDOW, below)
    count = -(-n // width)
    first = np.arange(count)[:, None, None] * width
    i, j = np.ogrid[: width + below, : width + below]
    entering = _numbers(ab, _places(first + i, first + j, n, below, 0))
    entering = entering + adjoint(tril(entering, k=-1))
    change: ndarray | None = None  # of the first rows and columns of the next window
    blocks = []
    for step in range(count):
        window = entering[..., step, :, :]
        if change is not None:
            blank = zeros((*lead, below, width), ab.dtype, device=ab.device)
            rows = concat([change, blank], axis=-1)
            others = zeros((*lead, width, width), ab.dtype, device=ab.device)
            window = window + concat([rows, concat([blank.mT, others], axis=-1)], axis=-2)
        low = cholesky(window[..., :width, :width])
        under = adjoint(solve_triangular(low, adjoint(window[..., width:, :width]), lower=True))
        if below:
            change = -matmul(under, adjoint(under))
        blocks.append(expand_dims(concat([low, under], axis=-2), axis=-3))
    columns = concat(blocks, axis=-3)
    row, j = np.ogrid[: below + 1, :n]
    block, place = j // width, j % width
    places = (block * (width + below) + place + row) * width + place
    columns = reshape(columns, (*lead, count * (width + below), width))
    return _numbers(columns, np.where(j + row < n, places, -1))


@fast_path("ab")
@scipy_keywords("overwrite_ab", check_finite=("ab",))
def cholesky_banded(ab: ArrayLike, *, lower: bool = False) -> ndarray:
    """Cholesky factor of a Hermitian positive definite matrix of few diagonals.

    ab[u + i - j, j] = a[i, j] for the upper triangle, ab[i - j, j] = a[i, j] for the lower one

    Parameters
    ----------
    ab : array_like of shape (..., u + 1, n)
        The main diagonal and those above it, the highest one first; with `lower` the main diagonal
        and those below it. What lies outside of the matrix is not read.
    lower : bool, default False
        Whether `ab` is the lower triangle and the result the factor l with l l^H = a, instead of u
        with u^H u = a.

    Returns
    -------
    ndarray
        The diagonals of the factor, of the same shape. What lies outside of the matrix is 0.

    Raises
    ------
    TypeError
        The dtype is not supported.
    LinAlgError
        The matrix is not positive definite. On a GPU the next synchronisation raises the error.

    Notes
    -----
    The gradient follows from those of `cholesky` and `solve_triangular`, in windows of at least 32
    columns.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.cholesky_banded([[4.0, 5.0], [2.0, 0.0]], lower=True).tolist()
    [[2.0, 2.0], [1.0, 0.0]]
    """
    ab = _lower_diagonals("cholesky_banded", matrices("cholesky_banded", ab), bool(lower))
    if not ab.size:
        return ab.copy()
    try:
        factor = _factor(ab)
    except MISTAKES as error:
        raise as_of("cholesky_banded", error) from None
    return factor if lower else _adjoint_diagonals(factor, ab.shape[-2] - 1, 0)


@scipy_keywords("overwrite_b", check_finite=("cb_and_lower", "b"))
def cho_solve_banded(cb_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> ndarray:
    """The solution x of a x = b by the Cholesky factor of a matrix of few diagonals.

    Parameters
    ----------
    cb_and_lower : tuple of array_like of shape (..., u + 1, n) and bool
        What `cholesky_banded` returned, and its `lower`.
    b : array_like of shape (n,) or (..., n, k)
        Right-hand sides, one vector or the columns of matrices. Leading axes broadcast.

    Returns
    -------
    ndarray
        Array of shape (..., n) or (..., n, k) and of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported, or the first argument is no such pair.
    ValueError
        The shapes do not fit each other.
    LinAlgError
        The factor is singular. On a GPU the next synchronisation raises the error.

    Notes
    -----
    Two triangular systems; the gradient is that of `solve_banded`.

    Examples
    --------
    >>> import cudamath as cm
    >>> c = cm.linalg.cholesky_banded([[4.0, 5.0], [2.0, 0.0]], lower=True)
    >>> cm.linalg.cho_solve_banded((c, True), [8.0, 20.0]).tolist()
    [0.0, 4.0]
    """
    if not isinstance(cb_and_lower, tuple) or len(cb_and_lower) != 2:
        raise TypeError("cho_solve_banded: wants a pair (cb, lower)")
    return _by_factor("cho_solve_banded", cb_and_lower[0], b, bool(cb_and_lower[1]))


def _by_factor(name: str, cb: Any, b: Any, lower: bool) -> ndarray:
    cb, b, vector = _checked(name, cb, b, None)
    cb = _lower_diagonals(name, cb, lower)
    below = cb.shape[-2] - 1
    if not b.size:
        x = b.copy()
    else:
        try:
            y = _banded(cb, b, lower=below, upper=0)
            x = _banded(_adjoint_diagonals(cb, below, 0), y, lower=0, upper=below)
        except MISTAKES as error:
            raise as_of(name, error) from None
    return reshape(x, x.shape[:-1]) if vector else x


@fast_path("ab", "b")
@scipy_keywords("overwrite_ab", "overwrite_b", check_finite=("ab", "b"))
def solveh_banded(ab: ArrayLike, b: ArrayLike, *, lower: bool = False) -> ndarray:
    """The solution x of a x = b for a Hermitian positive definite matrix of few diagonals.

    ab[u + i - j, j] = a[i, j] for the upper triangle, ab[i - j, j] = a[i, j] for the lower one

    Parameters
    ----------
    ab : array_like of shape (..., u + 1, n)
        The main diagonal and those above it, the highest one first; with `lower` the main diagonal
        and those below it. What lies outside of the matrix is not read.
    b : array_like of shape (n,) or (..., n, k)
        Right-hand sides, one vector or the columns of matrices. Leading axes broadcast.
    lower : bool, default False
        Whether `ab` is the lower triangle.

    Returns
    -------
    ndarray
        Array of shape (..., n) or (..., n, k) and of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other.
    LinAlgError
        The matrix is not positive definite. On a GPU the next synchronisation raises the error.

    Notes
    -----
    It is `cholesky_banded`, then `cho_solve_banded`, and so is the gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> ab = [[0.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    >>> cm.linalg.solveh_banded(ab, [3.0, 4.0, 3.0]).round(12).tolist()
    [1.0, 1.0, 1.0]
    """
    ab, b = pair("solveh_banded", ab, b)
    try:
        factor = cholesky_banded(ab, lower=lower)
    except MISTAKES as error:
        raise as_of("solveh_banded", error) from None
    return _by_factor("solveh_banded", factor, b, bool(lower))
