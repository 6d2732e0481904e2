"""Some eigenvalues of Hermitian operators and some singular values, by Lanczos's method with thick
restarts (Wu and Simon 2000).

The basis is kept orthogonal by two classical Gram-Schmidt steps against all of it: products of
dense matrices. The projected matrix is small; its eigenvalues are found on the host.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ...core.array import ndarray
from ...core.dtypes import result_type
from ...ops.creation import asarray, eye, zeros
from ...ops.elementwise import conj_or_same
from ...ops.linalg.spectral import svd
from ...ops.random.module import default_rng
from ..base import issparse
from ..construct import eye_of
from ..csr import csr_array
from ..kinds import ARRAYS
from .direct import splu
from .iterative import norm
from .operators import LinearOperator, aslinearoperator, device_of, operator_of

__all__ = ["ArpackNoConvergence", "eigsh", "svds"]

SOLVERS = ("arpack", "lobpcg", "propack")
WHICH = ("LM", "SM", "LA", "SA", "BE")


class ArpackNoConvergence(RuntimeError):
    """Raised where an eigenvalue iteration does not converge; it holds what did.

    Parameters
    ----------
    message : str
        What happened.
    eigenvalues : ndarray
        Those that converged.
    eigenvectors : ndarray
        Theirs.
    """

    def __init__(self, message: str, eigenvalues: Any, eigenvectors: Any):
        super().__init__(message)
        self.eigenvalues, self.eigenvectors = eigenvalues, eigenvectors


def _wanted(values: np.ndarray, k: int, which: str) -> np.ndarray:
    """The places of k values, of ascending ones, in ascending order."""
    n = len(values)
    if which == "BE":
        low = k // 2
        return np.r_[0:low, n - (k - low) : n]
    order = {
        "LM": np.argsort(abs(values), kind="stable")[::-1],
        "SM": np.argsort(abs(values), kind="stable"),
        "LA": np.arange(n)[::-1],
        "SA": np.arange(n),
    }[which]
    return np.sort(order[:k])


def _lanczos(
    A: LinearOperator, k: int, which: str, start: ndarray, size: int, most: int, tol: float
) -> tuple[np.ndarray, ndarray, bool]:
    """(values, vectors as rows, whether all converged) of a Hermitian operator."""
    n, dtype = start.size, start.dtype
    eps = float(np.finfo(dtype).eps)
    small = np.complex128 if dtype.kind == "c" else np.float64
    basis = zeros((size + 1, n), dtype=dtype, device=start.device)
    basis[0] = start / norm(start)
    T = np.zeros((size, size), small)
    have = 0
    rng = np.random.default_rng(1)  # not _start's: the draws are to lie outside of the basis
    for restart in range(most):
        for j in range(have, size):
            w = A.matvec(basis[j])
            known = basis[: j + 1]
            whole = norm(w)
            h = conj_or_same(known) @ w
            w = w - h @ known
            again = conj_or_same(known) @ w
            w = w - again @ known
            T[: j + 1, j] = (h + again).to_numpy()
            T[j, : j + 1] = T[: j + 1, j].conj()
            beta = norm(w)
            if (
                beta <= eps * max(whole, 1e-300) * n**0.5
            ):  # an invariant subspace: go on outside of it
                beta = 0.0
                w = asarray(rng.standard_normal(n), device=start.device).astype(dtype)
                for _ in range(2):
                    w = w - (conj_or_same(known) @ w) @ known
                if j + 1 >= n:
                    basis[j + 1] = 0 * w
                    continue
                basis[j + 1] = w / norm(w)
            else:
                basis[j + 1] = w / beta
            if j + 1 < size:
                T[j + 1, j] = T[j, j + 1] = beta
        values, vectors = np.linalg.eigh(T)
        chosen = _wanted(values, k, which)
        rest = abs(beta * vectors[-1, chosen])
        close = rest <= np.maximum(
            max(tol, eps) * np.maximum(abs(values[chosen]), eps ** (2 / 3)),
            4 * eps * abs(values).max(),  # what the operator's own rounding leaves
        )
        if close.all() or size >= n or restart == most - 1:
            done = bool(close.all()) or size >= n
            y = asarray(vectors[:, chosen].T.astype(dtype), device=start.device)
            return values[chosen], y @ basis[:size], done
        # A thick restart: the wanted vectors and some beside them, and the last one of the basis.
        have = min(k + int(close.sum()) + max((size - k) // 3, 1), size - 1)
        kept = _wanted(values, have, which)
        y = asarray(vectors[:, kept].T.astype(dtype), device=start.device)
        last, new = basis[size].copy(), y @ basis[:size]
        basis[:have], basis[have] = new, last
        T = np.zeros((size, size), small)
        T[:have, :have] = np.diag(values[kept])
        couples = beta * vectors[-1, kept]
        T[have, :have], T[:have, have] = couples, couples.conj()
    raise AssertionError("unreachable")


def eigsh(
    A: Any,
    k: int = 6,
    M: Any = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: Any = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    Minv: Any = None,
    OPinv: Any = None,
    mode: str = "normal",
) -> Any:
    """Return k eigenvalues and eigenvectors of a symmetric or Hermitian operator.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (n, n), Hermitian.
    k : int, default 6
        How many, below n.
    M : None
        For SciPy's sake: generalized problems are not supported.
    sigma : float, optional
        Eigenvalues near this number: `which` then orders 1 / (value - sigma).
    which : {"LM", "SM", "LA", "SA", "BE"}, default "LM"
        The largest or smallest by magnitude or by value, or half from each end.
    v0 : array_like, optional
        Where to begin.
    ncv : int, optional
        The size of the basis; max(2 k + 1, 20) by default.
    maxiter : int, optional
        The most restarts; 10 n by default.
    tol : float, default 0
        The relative accuracy; 0 stands for that of the dtype.
    return_eigenvectors : bool, default True
        Whether vectors are wanted.
    Minv : None
        For SciPy's sake.
    OPinv : LinearOperator, optional
        (A - sigma I)^-1; by default A is factored.
    mode : {"normal"}, default "normal"
        Of the transformation by `sigma`.

    Returns
    -------
    w : ndarray
        The eigenvalues, ascending.
    v : ndarray
        The eigenvectors, as columns, of shape (n, k).

    Raises
    ------
    ArpackNoConvergence
        Not all of them converged within `maxiter` restarts.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.diags_array([cm.arange(1.0, 31.0)], offsets=[0])
    >>> w, v = cm.sparse.linalg.eigsh(A, k=2)
    >>> [round(float(x), 6) for x in w]
    [29.0, 30.0]
    """
    if M is not None or Minv is not None or mode != "normal":
        raise NotImplementedError(
            "eigsh: supports neither M and Minv nor other modes than 'normal'"
        )
    operator = operator_of("eigsh", A)
    n = operator.shape[0]
    if operator.shape != (n, n):
        raise ValueError(f"eigsh: wants a square A, got shape {operator.shape}")
    if which not in WHICH:
        raise ValueError(f"eigsh: wants which of {', '.join(WHICH)}, got {which!r:.40}")
    if not 0 < k < n:
        raise ValueError(f"eigsh: wants 0 < k < {n} for A of shape {operator.shape}, got {k}")
    size = min(n, max(2 * k + 1, 20) if ncv is None else int(ncv))
    if size <= k:
        raise ValueError(f"eigsh: wants k < ncv <= {n}, got k {k} and ncv {ncv}")
    kind = result_type(operator.dtype, np.float32)
    start = _start("eigsh", n, kind, v0, device_of(A, v0))
    target = operator
    if sigma is not None:
        target = (
            operator_of("eigsh", OPinv) if OPinv is not None else _shifted_inverse(A, sigma, kind)
        )
    most = 10 * n if maxiter is None else int(maxiter)
    values, vectors, done = _lanczos(target, k, which, start, size, most, float(tol))
    if sigma is not None:
        values = sigma + 1 / values
    order = np.argsort(values)
    real = np.float32 if kind in (np.float32, np.complex64) else np.float64
    w = asarray(values[order].astype(real), device=start.device)
    v = vectors[asarray(order, device=start.device)].T
    if not done:
        raise ArpackNoConvergence(
            f"eigsh: not all of {k} eigenvalues of an operator of shape {operator.shape} converged "
            f"within {most} restarts",
            w,
            v,
        )
    return (w, v) if return_eigenvectors else w


def _start(name: str, n: int, dtype: np.dtype, v0: Any, device: Any) -> ndarray:
    if v0 is None:
        v0 = np.random.default_rng(0).standard_normal(n)
    v = asarray(v0, device=device).astype(dtype)
    if v.shape != (n,):
        raise ValueError(f"{name}: wants v0 ({n},), got shape {v.shape}")
    return v


def _shifted_inverse(A: Any, sigma: float, dtype: np.dtype) -> LinearOperator:
    """(A - sigma I)^-1, by factors."""
    if not issparse(A):
        A = csr_array(aslinearoperator(A).matmat(eye(A.shape[0], dtype=dtype)))
    solve = splu(A.tocsc() - sigma * eye_of(A.shape[0], dtype, A.device, ARRAYS).tocsc()).solve
    return LinearOperator(A.shape, solve, dtype=dtype)


def svds(
    A: Any,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: str = "LM",
    v0: Any = None,
    maxiter: int | None = None,
    return_singular_vectors: bool | str = True,
    solver: str = "arpack",
    rng: Any = None,
    options: dict | None = None,
) -> Any:
    """Return k singular values and vectors, from eigenvalues of A^H A or A A^H.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (m, n).
    k : int, default 6
        How many, below min(m, n).
    ncv : int, optional
        The size of the basis; max(2 k + 1, 20) by default.
    tol : float, default 0
        The relative accuracy of the squares; 0 stands for that of the dtype.
    which : {"LM", "SM"}, default "LM"
        The largest or the smallest.
    v0 : array_like, optional
        Where to begin, of length min(m, n); of length m with the solver "propack".
    maxiter : int, optional
        The most restarts; 10 min(m, n) by default.
    return_singular_vectors : bool or {"u", "vh"}, default True
        Which vectors are wanted; those that are not are None.
    solver : {"arpack", "lobpcg", "propack"}, default "arpack"
        SciPy's names. All of them are computed by Lanczos's method with restarts; with "propack" k
        may be min(m, n).
    rng : int or cm.random.Generator, optional
        Of the vector to begin with, where there is no `v0`; the same one by default.
    options : dict, optional
        For SciPy's sake: of a solver.

    Returns
    -------
    u : ndarray
        The left vectors, as columns, of shape (m, k).
    s : ndarray
        The singular values, ascending.
    vh : ndarray
        The conjugate right vectors, as rows, of shape (k, n).

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.diags_array([cm.arange(1.0, 31.0)], offsets=[0], shape=(30, 40))
    >>> u, s, vh = cm.sparse.linalg.svds(A, k=2)
    >>> [round(float(x), 6) for x in s]
    [29.0, 30.0]
    """
    operator = operator_of("svds", A)
    m, n = operator.shape
    if not m * n:
        raise ValueError(f"svds: wants A with elements, got shape {(m, n)}")
    if which not in ("LM", "SM"):
        raise ValueError(f"svds: wants which 'LM' or 'SM', got {which!r:.40}")
    if solver not in SOLVERS:
        raise ValueError(f"svds: wants a solver of {', '.join(SOLVERS)}, got {solver!r:.40}")
    if return_singular_vectors not in (True, False, "u", "vh"):
        raise ValueError(
            f"svds: wants return_singular_vectors True, False, 'u' or 'vh', got "
            f"{return_singular_vectors!r:.40}"
        )
    if maxiter is not None and (int(maxiter) != maxiter or maxiter < 1):
        raise ValueError(f"svds: wants a maxiter of 1 or more, got {maxiter}")
    if not 0 <= tol < np.inf:
        raise ValueError(f"svds: wants a tol that is finite and not negative, got {tol}")
    if ncv is not None and not isinstance(ncv, (numbers.Real, str)):
        raise TypeError(f"svds: wants an integer as ncv, got {ncv!r:.40}")
    if ncv is not None and not (isinstance(ncv, numbers.Integral) and k < ncv < min(m, n)):
        raise ValueError(f"svds: wants k < ncv < {min(m, n)}, got k {k} and ncv {ncv}")
    most = min(m, n) - (solver != "propack")
    if int(k) != k or not 0 < k <= most:
        raise ValueError(f"svds: wants 0 < k <= {most} for A of shape {(m, n)}, got {k}")
    tall = m >= n
    first, second = (operator, operator.H) if tall else (operator.H, operator)
    square = LinearOperator(
        (min(m, n),) * 2, lambda x: second.matvec(first.matvec(x)), dtype=operator.dtype
    )
    dtype = result_type(operator.dtype, np.float32)
    start = _start_of_svds(operator, dtype, v0, rng, solver == "propack", device_of(A, v0))
    if k == min(m, n):
        vectors = eye(k, dtype=dtype, device=start.device)
    else:
        end = "LA" if which == "LM" else "SA"
        _, vectors = eigsh(square, k, which=end, v0=start, ncv=ncv, tol=tol, maxiter=maxiter)
    u, s, vh = svd(first.matmat(vectors), full_matrices=False)  # orthogonal where s is 0, too
    u, s = u[:, ::-1], s[::-1]
    if return_singular_vectors is False:
        return s
    v = vectors @ conj_or_same(vh[::-1].T)
    left, right = (u, v) if tall else (v, u)
    wants = return_singular_vectors
    return (None if wants == "vh" else left), s, (None if wants == "u" else conj_or_same(right.T))


def _start_of_svds(
    operator: LinearOperator, dtype: np.dtype, v0: Any, rng: Any, left: bool, device: Any
) -> ndarray:
    """Where to begin; left: v0 is a left vector, whatever the operator's shape."""
    m, n = operator.shape
    size = m if left else min(m, n)
    if v0 is None:
        if rng is not None:
            v0 = default_rng(rng).standard_normal(min(m, n), device=device)
        return _start("svds", min(m, n), dtype, v0, device)
    v0 = asarray(v0, device=device)
    if v0.dtype.kind not in "fc" or v0.shape != (size,):
        raise ValueError(
            f"svds: wants a v0 of floating-point numbers ({size},), got {v0.dtype} of shape "
            f"{v0.shape}"
        )
    v0 = v0.astype(dtype)
    return operator.rmatvec(v0) if left and m > n else v0
