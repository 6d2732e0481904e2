"""Some eigenvalues of Hermitian operators by blocks: LOBPCG (Knyazev 2001).

Each step seeks the eigenvectors among the present ones X, their preconditioned residuals W, and
the directions P in which they moved last. The projected matrices have at most three times as many
rows as there are vectors. The host finds their eigenvectors, in an orthonormal basis of what is
independent of [X W P] (Hetmaniuk & Lehoucq 2006).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtypes
from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.dispatch.checks import require
from ...core.scalar import scalar_results
from ...core.typing import ArrayLike
from ..creation import eye
from ..join import concat
from ..reduce import sum
from ..shape import astype
from .solve import SOLVABLE, adjoint, cho_factor, cho_solve
from .spectral import eigh

__all__ = ["lobpcg"]

#: A search space is made afresh where a residual is this many times the least one.
_LOST = 2.0**20


@scalar_results
def lobpcg(
    A: Any,
    X: ArrayLike,
    B: Any = None,
    M: Any = None,
    Y: ArrayLike | None = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool = True,
    verbosityLevel: int = 0,
    retLambdaHistory: bool = False,
    retResidualNormsHistory: bool = False,
    restartControl: int = 20,
) -> Any:
    """Find some eigenvalues of a Hermitian matrix by blocks of conjugate gradients.

    A v = B v diag(w)

    Parameters
    ----------
    A : array_like, sparse array, LinearOperator or callable
        Hermitian matrix of shape (n, n), or what takes a block (n, k) to its product.
    X : array_like of shape (n, k)
        Where to begin: k independent vectors.
    B : array_like, sparse array, LinearOperator or callable, optional
        Hermitian positive definite matrix of a generalized problem.
    M : array_like, sparse array, LinearOperator or callable, optional
        Preconditioner, an approximation of the inverse of `A`.
    Y : array_like of shape (n, m), optional
        Constraints: the vectors are sought in what is orthogonal to these columns.
    tol : float, optional
        The iteration ends where all |A v - w B v| are at most this; sqrt(eps) n by default.
    maxiter : int, optional
        The most steps; 20 by default.
    largest : bool, default True
        Whether the largest eigenvalues are sought, instead of the smallest.
    verbosityLevel : int, default 0
        For SciPy's sake. Nothing is printed.
    retLambdaHistory : bool, default False
        Whether the eigenvalues of all steps are returned, a list of arrays (k,).
    retResidualNormsHistory : bool, default False
        Whether the norms of residuals of all steps are returned, a list of arrays (k,).
    restartControl : int, default 20
        For SciPy's sake. The directions P are forgotten where they have lost the vectors.

    Returns
    -------
    tuple
        The eigenvalues (k,), the largest first or the smallest first, and the vectors (n, k), of
        the step with the smallest residuals; then the histories that are asked for.

    Raises
    ------
    TypeError
        The dtype is not supported, or a gradient is recorded.
    ValueError
        The shapes do not fit each other, or the columns of `X` or `Y` are not independent.

    Warns
    -----
    UserWarning
        The tolerance was not reached.

    Notes
    -----
    Each step takes one product with A (and B and M) and reads the projected matrices on the host,
    so that a GPU is waited for. Of problems smaller than five blocks all eigenvalues are computed.
    The result has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.diag(cm.arange(1.0, 101.0))
    >>> w, v = cm.linalg.lobpcg(A, cm.eye(100, 2) + 0.01, tol=1e-6, maxiter=200)
    >>> w.round(6).tolist()
    [100.0, 99.0]
    """
    if not isinstance(X, ndarray):
        X = asarray(X, device=getattr(A, "device", None), name="lobpcg")
    x = require("lobpcg", X, SOLVABLE, "X")
    if x.ndim != 2:
        raise ValueError(f"lobpcg: expected rank-2 array for argument X, got shape {x.shape}")
    if x._node is not None:
        raise TypeError(f"lobpcg: X of {x.dtype} of shape {x.shape}: the result has no gradient")
    x = x if x.dtype in dtypes.INEXACT else astype(x, dtypes.default_float())
    n, k = x.shape
    forward, metric, preconditioner = (
        _product(n, what, m) for what, m in {"A": A, "B": B, "M": M}.items()
    )
    constraints = _constraints(n, Y, metric, x)
    held = 0 if constraints is None else constraints[0].shape[1]
    limit = float(np.finfo(x.dtype).eps ** 0.5 * n if tol is None or tol <= 0 else tol)
    if n - held < 5 * k and constraints is None:
        w, v = _all(forward, metric, x, largest)
        found: tuple[Any, ...] = w, v, [w], [_norms(_of(forward, v) - _of(metric, v) * w)]
    else:
        steps = 20 if maxiter is None else int(maxiter)
        found = _iterated(
            forward, metric, preconditioner, constraints, x, limit, steps, bool(largest)
        )
    return tuple(
        [
            part
            for part, wanted in zip(
                found, (True, True, retLambdaHistory, retResidualNormsHistory), strict=True
            )
            if wanted
        ]
    )


Product = Callable[[ndarray], ndarray]


def _product(n: int, what: str, matrix: Any) -> Product | None:
    """The function that multiplies a block by a matrix; None for None."""
    if matrix is None:
        return None
    if not callable(matrix) and not hasattr(matrix, "shape"):
        matrix = asarray(matrix)
    if hasattr(matrix, "shape") and tuple(matrix.shape) != (n, n):
        raise ValueError(
            f"lobpcg: wants {what} of shape {(n, n)} beside X, got shape {tuple(matrix.shape)}"
        )

    def multiplied(block: ndarray) -> ndarray:
        y = asarray(matrix @ block if hasattr(matrix, "shape") else matrix(block))
        if y.shape != block.shape:
            raise ValueError(f"lobpcg: {what} made shape {y.shape} of {block.shape}")
        return astype(y, dtypes.promote(y.dtype, block.dtype), copy=False)

    return multiplied


def _of(matrix: Product | None, x: ndarray) -> ndarray:
    return x if matrix is None else matrix(x)


def _norms(x: ndarray) -> ndarray:
    return sum((x * x.conj()).real, axis=0) ** 0.5


Constraints = tuple[ndarray, ndarray, tuple]


def _constraints(n: int, Y: Any, metric: Product | None, x: ndarray) -> Constraints | None:
    """Y, B Y, and the factor of Y^H B Y."""
    if Y is None:
        return None
    y = Y if isinstance(Y, ndarray) else asarray(Y, device=x.device, name="lobpcg")
    if y.ndim != 2 or y.shape[0] != n:
        raise ValueError(f"lobpcg: wants Y of shape ({n}, m) beside X {x.shape}, got {y.shape}")
    y = astype(y, dtypes.promote(x.dtype, y.dtype), copy=False)
    by = _of(metric, y)
    try:
        return y, by, cho_factor(adjoint(y) @ by)
    except np.linalg.LinAlgError:
        raise ValueError("lobpcg: Linearly dependent constraints") from None


def _without(constraints: Constraints | None, x: ndarray) -> ndarray:
    """What of the columns is orthogonal to the constraints."""
    if constraints is None:
        return x
    y, by, factor = constraints
    return x - y @ cho_solve(factor, adjoint(by) @ x)


def _all(
    forward: Product | None, metric: Product | None, x: ndarray, largest: bool
) -> tuple[ndarray, ndarray]:
    """The eigenvalues of a small problem."""
    n, k = x.shape
    one = eye(n, dtype=x.dtype, device=x.device)
    b = None if metric is None else metric(one)
    w, v = eigh(_of(forward, one), b=b)
    k = min(k, n)
    return (w[::-1][:k], v[:, ::-1][:, :k]) if largest else (w[:k], v[:, :k])


def _best_of(
    whole: np.ndarray, unit: np.ndarray, k: int, largest: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """The wanted k eigenvalues of the pair (whole, unit), and the vectors' coefficients, in the
    space of what is independent; None if that has fewer dimensions."""
    scale = np.sqrt(np.maximum(unit.diagonal().real, np.finfo(float).tiny))
    sizes, turn = np.linalg.eigh(unit / np.outer(scale, scale))
    kept = sizes > 4 * len(sizes) * np.finfo(sizes.dtype).eps * max(sizes[-1], 0)
    if kept.sum() < k:
        return None
    basis = (turn[:, kept] / np.sqrt(sizes[kept])) / scale[:, None]
    projected = basis.conj().T @ whole @ basis
    w, v = np.linalg.eigh((projected + projected.conj().T) / 2)
    order = np.arange(len(w))[::-1][:k] if largest else np.arange(k)
    return w[order], basis @ v[:, order]


def _gram(left: ndarray, right: ndarray) -> np.ndarray:
    """left^H right on the host, made Hermitian."""
    made = (adjoint(left) @ right).to_numpy()
    made = made.astype(np.result_type(made.dtype, np.float64))
    return (made + made.conj().T) / 2


def _iterated(
    forward: Any,
    metric: Product | None,
    preconditioner: Product | None,
    constraints: Constraints | None,
    x: ndarray,
    limit: float,
    steps: int,
    largest: bool,
) -> tuple[ndarray, ndarray, list[ndarray], list[ndarray]]:
    """(eigenvalues, vectors, the eigenvalues of all steps, the residuals' norms)."""
    k = x.shape[1]
    x = _without(constraints, x)
    space, image, weighted = x, forward(x), _of(metric, x)
    moved: list[ndarray] | None = None
    values, norms = [], []
    best: tuple[float, Any, Any] = (np.inf, None, None)
    for step in range(steps + 1):
        found = _best_of(_gram(space, image), _gram(space, weighted), k, largest)
        if found is None:
            raise ValueError("lobpcg: Linearly dependent initial approximations")
        w, c = found
        parts = []
        for whole in (space, image, weighted):
            coefficients = asarray(c.astype(whole.dtype), device=whole.device)
            parts.append((whole @ coefficients, whole[:, k:] @ coefficients[k:]))
        (x, ax, bx), moved = [p[0] for p in parts], [p[1] for p in parts]
        value = asarray(w.astype(x.real.dtype), device=x.device)
        rest = ax - bx * value
        lengths = _norms(rest)
        values.append(value)
        norms.append(lengths)
        sizes = lengths.to_numpy()
        if sizes.mean() < best[0]:
            best = float(sizes.mean()), value, x
        if (sizes <= limit).all() or step == steps:
            break
        active = np.flatnonzero(sizes > limit)
        toward = _without(constraints, _of(preconditioner, rest[:, active]))
        for _ in range(2):
            toward = toward - x @ (adjoint(bx) @ toward)
        blocks = [(x, ax, bx), (toward, forward(toward), _of(metric, toward))]
        if step and sizes.mean() < _LOST * best[0]:
            blocks.append(tuple([m[:, active] for m in moved]))  # type: ignore[arg-type]
        space, image, weighted = (concat(list(p), axis=1) for p in zip(*blocks, strict=True))
    if (norms[-1] > limit).any():
        warnings.warn(
            f"lobpcg: after {steps} steps residuals of {norms[-1].to_numpy()} do not reach the "
            f"tolerance {limit}",
            UserWarning,
            stacklevel=4,
        )
    return best[1], best[2], values, norms
