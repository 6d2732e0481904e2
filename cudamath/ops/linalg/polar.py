"""The polar decomposition."""

from __future__ import annotations

from ...core.array import ndarray
from ...core.dispatch.checks import speaks_for
from ...core.dispatch.op import Composed
from ...core.scalar import scalar_results
from ...core.typing import ArrayLike
from .products import matmul
from .schur import solve_sylvester
from .solve import adjoint, matrices
from .spectral import svd
from .systems import solve

__all__ = ["polar"]


def _unitary_value(a: ndarray) -> ndarray:
    u, _, vh = svd(a, full_matrices=False)
    return matmul(u, vh)


def _unitary_grad(g: ndarray, u: ndarray, a: ndarray) -> tuple[ndarray]:
    """Of tall matrices a = u p: u w + (g - u u^H g) p^-1, where p w + w p = u^H g - g^H u."""
    p = matmul(adjoint(u), a)
    p = 0.5 * (p + adjoint(p))
    inner = matmul(adjoint(u), g)
    out = matmul(u, solve_sylvester(p, p, inner - adjoint(inner)))
    if a.shape[-2] > a.shape[-1]:
        out = out + adjoint(solve(p, adjoint(g - matmul(u, inner))))
    return (out,)


_unitary = Composed("polar", _unitary_value, _unitary_grad)


@scalar_results
@speaks_for("polar")
def polar(a: ArrayLike, side: str = "right") -> tuple[ndarray, ndarray]:
    """Polar decomposition: a = u p, or a = p u, with positive semidefinite Hermitian p.

    The columns of u are orthonormal (its rows, if there are fewer).

    Parameters
    ----------
    a : array_like of shape (..., m, n)
        Matrices.
    side : str, default "right"
        Side of p: "right" for a = u p, p (..., n, n), or "left" for a = p u, p (..., m, m).

    Returns
    -------
    tuple of ndarray
        The pair (u, p). u has the shape of `a`.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        `side` is unknown.
    LinAlgError
        `a` has fewer than two dimensions, or the iteration does not converge.

    Notes
    -----
    It is computed by the singular value decomposition. Gradient through u, of a tall matrix:
    u w + (g - u u^H g) p^-1, where p w + w p = u^H g - g^H u; p is u^H a. It needs full rank, and
    equal singular values do no harm.

    Examples
    --------
    >>> import cudamath as cm
    >>> u, p = cm.linalg.polar([[0.0, -2.0], [3.0, 0.0]])
    >>> u.round(12).tolist(), p.round(12).tolist()
    ([[0.0, -1.0], [1.0, 0.0]], [[3.0, 0.0], [0.0, 2.0]])
    """
    a = matrices("polar", a)
    if side not in ("right", "left"):
        raise ValueError(f'polar: side must be "right" or "left", got {side!r}')
    u = _unitary(a) if a.shape[-2] >= a.shape[-1] else adjoint(_unitary(adjoint(a)))
    p = matmul(adjoint(u), a) if side == "right" else matmul(a, adjoint(u))
    return u, 0.5 * (p + adjoint(p))
