"""Matrix decompositions on the CPU: NumPy's (LAPACK's), and in NumPy those that it lacks.

LU and triangular systems are computed in blocks: within a block of BLOCK columns each step is a few
vector operations over the whole batch. Everything between blocks is a matrix product, which does
most of the operations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

BLOCK = 32  # columns factored one by one


def named(name: str) -> Callable[[Callable], Callable]:
    """Decorator: a LinAlgError of NumPy begins with the name of the function."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*arrays: np.ndarray, **params: Any) -> Any:
            try:
                return function(*arrays, **params)
            except np.linalg.LinAlgError as error:
                raise np.linalg.LinAlgError(f"{name}: {error}") from None

        return call

    return decorate


@named("solve")
def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a: (..., n, n), b: (..., n, k) -> (..., n, k)."""
    return np.linalg.solve(a, b)


@named("inv")
def inv(a: np.ndarray) -> np.ndarray:
    """a: (..., n, n) -> (..., n, n)."""
    return np.linalg.inv(a)


def inv_and_sign(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a: (..., n, n) -> inverses, and signs of determinants (...). The sign of a singular matrix is
    0, that of a matrix with NaN is NaN (LAPACK's may be 0). Their inverses are any numbers."""
    sign = np.where(np.isnan(a).any((-2, -1)), np.nan, slogdet(a)[0])
    return inv(
        np.where((np.abs(sign) > 0)[..., None, None], a, np.eye(a.shape[-1], dtype=a.dtype))
    ), sign


def slogdet(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a: (..., n, n) -> sign and log |det|, both (...)."""
    sign, logdet = np.linalg.slogdet(a)
    return np.asarray(sign), np.asarray(logdet)


@named("cholesky")
def cholesky(a: np.ndarray, *, upper: bool) -> np.ndarray:
    """a: (..., n, n), one triangle of it -> its factor."""
    return np.linalg.cholesky(a, upper=upper)


@named("qr")
def qr(a: np.ndarray, *, complete: bool) -> tuple[np.ndarray, np.ndarray]:
    """a: (..., m, n) -> q: (..., m, k), r: (..., k, n)."""
    q, r = np.linalg.qr(a, "complete" if complete else "reduced")
    return q, r


@named("qr")
def qr_raw(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a: (..., m, n) -> h: (..., n, m), LAPACK's reflections, and tau: (..., k)."""
    h, tau = np.linalg.qr(a, "raw")
    return h, tau


def qr_pivots(a: np.ndarray) -> np.ndarray:
    """a: (..., m, n) -> int32 (..., n), the order of columns in which each of Householder's steps
    takes the column of which the most is left (Businger & Golub 1965)."""
    pivots = np.empty((*a.shape[:-2], a.shape[-1]), np.int32)
    for where in np.ndindex(a.shape[:-2]):
        pivots[where] = _column_order(a[where].copy())
    return pivots


def _column_order(a: np.ndarray) -> np.ndarray:
    m, n = a.shape
    order = np.arange(n, dtype=np.int32)
    for j in range(min(m, n)):
        rest = a[j:, j:]
        scale = np.abs(rest).max(axis=0)
        sizes = scale * np.linalg.norm(rest / np.where(scale > 0, scale, 1), axis=0)
        best = j + int(np.argmax(sizes))
        if not sizes[best - j] > 0:
            break
        a[:, [j, best]], order[[j, best]] = a[:, [best, j]], order[[best, j]]
        x = a[j:, j] / sizes[best - j]  # of length 1
        head = x[0] / abs(x[0]) if x[0] else 1.0
        x[0] += head
        a[j:, j:] -= np.outer(x / abs(x[0]), x.conj() @ a[j:, j:])
    return order


@named("qr")
def qr_r(a: np.ndarray) -> np.ndarray:
    """a: (..., m, n) -> r: (..., min(m, n), n)."""
    return np.asarray(np.linalg.qr(a, "r"))


@named("eigh")
def eigh(a: np.ndarray, *, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    """a: (..., n, n) -> w: (..., n), v: (..., n, n)."""
    w, v = np.linalg.eigh(a, "U" if upper else "L")
    return w, v


@named("eigvalsh")
def eigvalsh(a: np.ndarray, *, upper: bool) -> np.ndarray:
    """a: (..., n, n) -> w: (..., n)."""
    return np.linalg.eigvalsh(a, "U" if upper else "L")


@named("eig")
def eig(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a: (..., n, n) -> w: (..., n), v: (..., n, n), both complex."""
    w, v = np.linalg.eig(a)
    dtype = np.result_type(a.dtype, np.complex64)
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


@named("eigvals")
def eigvals(a: np.ndarray) -> np.ndarray:
    """a: (..., n, n) -> w: (..., n), complex."""
    return np.linalg.eigvals(a).astype(np.result_type(a.dtype, np.complex64), copy=False)


@named("svd")
def svd(a: np.ndarray, *, full: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a: (..., m, n) -> u: (..., m, m or k), s: (..., k), vh: (..., n or k, n)."""
    if np.isinf(a).any():  # LAPACK never comes back from some wide matrices with infinity
        raise np.linalg.LinAlgError("SVD did not converge")
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    return u, s, vh


@named("svdvals")
def svdvals(a: np.ndarray) -> np.ndarray:
    """a: (..., m, n) -> s: (..., min(m, n))."""
    return np.linalg.svdvals(a)


def inverted(s: np.ndarray, *, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """s: (..., k), descending -> 1 / s, or 0 where s is at most `ratio` times the largest; and the
    number of the others, int64."""
    large = s > s.dtype.type(ratio) * s[..., :1]
    return np.where(large, 1 / np.where(large, s, 1), 0).astype(s.dtype), np.asarray(
        np.count_nonzero(large, axis=-1), np.int64
    )


# -------------------- in blocks


def lu_factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a: (..., m, n) -> the packed factors of P A = L U (..., m, n) and the pivots (..., min(m,
    n)), int32, 0-based."""
    *lead, m, n = a.shape
    x = a.reshape(-1, m, n).copy() if a.size else np.empty((int(np.prod(lead)), m, n), a.dtype)
    k = min(m, n)
    pivots = np.empty((len(x), k), np.int32)
    each = np.arange(len(x))
    with np.errstate(all="ignore"):  # what is singular or not finite shows in the factors
        for first in range(0, k, BLOCK):
            last = min(first + BLOCK, k)
            for j in range(first, last):
                column = x[:, j:, j]
                sizes = np.abs(column.real)  # LAPACK's measure of complex numbers
                if x.dtype.kind == "c":
                    sizes = sizes + np.abs(column.imag)
                rows_of_pivots = j + np.argmax(sizes, axis=1)
                pivots[:, j] = rows_of_pivots
                rows = x[each, rows_of_pivots]
                x[each, rows_of_pivots] = x[:, j]
                x[:, j] = rows
                pivot = x[:, j, j, None]
                x[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)
                x[:, j + 1 :, j + 1 : last] -= x[:, j + 1 :, j, None] * x[:, None, j, j + 1 : last]
            if last < n:
                right = _substitute(
                    x[:, first:last, first:last], x[:, first:last, last:], True, True
                )
                x[:, first:last, last:] = right
                x[:, last:, last:] -= x[:, last:, first:last] @ right
    return x.reshape(a.shape), pivots.reshape(*lead, k)


def lu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a: (..., m, n) -> p: (..., m, m), l: (..., m, k), u: (..., k, n), k = min(m, n)."""
    m, k = a.shape[-2], min(a.shape[-2:])
    packed, pivots = lu_factor(a)
    p = np.eye(m, dtype=a.dtype)[exchanged(pivots, m=m)].mT
    return (
        p,
        np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=a.dtype),
        np.triu(packed[..., :k, :]),
    )


def exchanged(pivots: np.ndarray, *, m: int) -> np.ndarray:
    """pivots: row exchanges (..., k) -> the row of A that each row of P A is, (..., m)."""
    lead = pivots.shape[:-1]
    if not lead:
        rows = list(range(m))
        for i, other in enumerate(pivots.tolist()):
            rows[i], rows[other] = rows[other], rows[i]
        return np.array(rows, np.int64)
    flat = pivots.reshape(math.prod(lead), pivots.shape[-1])
    order = np.tile(np.arange(m), (len(flat), 1))
    each = np.arange(len(flat))
    for i in range(flat.shape[1]):
        other = order[each, flat[:, i]]
        order[each, flat[:, i]] = order[:, i]
        order[:, i] = other
    return order.reshape(*lead, m)


@named("lu_solve")
def lu_solve(packed: np.ndarray, b: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """packed: (..., n, n), b: (..., n, k), pivots: (..., n), 0-based -> (..., n, k); IndexError."""
    n = packed.shape[-1]
    if pivots.size and not 0 <= pivots.min() <= pivots.max() < n:
        raise IndexError(
            f"lu_solve: pivots of shape {pivots.shape} are numbers of rows, 0 .. {n - 1}, got "
            f"{pivots.min()} to {pivots.max()}"
        )
    _check_diagonal(packed)
    rows = np.take_along_axis(b, exchanged(pivots, m=n)[..., None], -2)
    return _substitute(packed, _substitute(packed, rows, True, True), False, False)


@named("solve_triangular")
def solve_triangular(a: np.ndarray, b: np.ndarray, *, lower: bool, unit: bool) -> np.ndarray:
    """a: (..., n, n), one triangle of it; b: (..., n, k) -> (..., n, k)."""
    if not unit:
        _check_diagonal(a)
    return _substitute(a, b, lower, unit)


def _check_diagonal(a: np.ndarray) -> None:
    if (np.diagonal(a, axis1=-2, axis2=-1) == 0).any():
        raise np.linalg.LinAlgError("Singular matrix")


def _substitute(a: np.ndarray, b: np.ndarray, lower: bool, unit: bool) -> np.ndarray:
    """Forward (backward) substitution in blocks."""
    n = a.shape[-1]
    x = b.copy()
    for start in range(0, n, BLOCK):
        first = start if lower else max(n - start - BLOCK, 0)
        last = min(start + BLOCK, n) if lower else n - start
        for i in range(first, last) if lower else range(last - 1, first - 1, -1):
            solved = slice(first, i) if lower else slice(i + 1, last)
            x[..., i, :] -= (a[..., i : i + 1, solved] @ x[..., solved, :])[..., 0, :]
            if not unit:
                x[..., i, :] /= a[..., i, i, None]
        rest = slice(last, n) if lower else slice(0, first)
        x[..., rest, :] -= a[..., rest, first:last] @ x[..., first:last, :]
    return x
