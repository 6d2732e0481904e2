"""Linear systems and inverses. Of a general matrix: LU with partial pivoting
(kernels/linalg/lapack_plans.py); of one of known structure what that structure allows.

Dtypes, batches and failures: as in ops/linalg/solve.py.
"""

from __future__ import annotations

from typing import Any

from ...core.array import ndarray
from ...core.dispatch.checks import MISTAKES, as_of
from ...core.dispatch.fast_path import fast_path
from ...core.typing import ArrayLike
from ..creation import eye, tril, triu, zeros
from ..join import concat, stack
from ..shape import diagonal, expand_dims, matrix_transpose, reshape
from .banded import solve_banded
from .keywords import scipy_keywords
from .solve import (
    _inv,
    _solve,
    _system,
    adjoint,
    cho_factor,
    cho_solve,
    matrices,
    pair,
    run,
    solve_triangular,
)

__all__ = ["inv", "solve"]

#: SciPy's names of structures, and the short ones.
_STRUCTURES = {
    "general": "general",
    "gen": "general",
    "banded": "general",
    "diagonal": "diagonal",
    "tridiagonal": "tridiagonal",
    "upper triangular": "upper triangular",
    "lower triangular": "lower triangular",
    "symmetric": "symmetric",
    "sym": "symmetric",
    "hermitian": "hermitian",
    "her": "hermitian",
    "positive definite": "positive definite",
    "pos": "positive definite",
}


def _structure(name: str, assume_a: Any) -> str:
    if assume_a is None:
        return "general"
    if isinstance(assume_a, str) and assume_a in _STRUCTURES:
        return _STRUCTURES[assume_a]
    raise ValueError(
        f"{name}: {assume_a!r} is not a recognized matrix structure; assume_a is None or one of "
        f"{', '.join(map(repr, _STRUCTURES))}"
    )


def mirrored(a: ndarray, lower: bool, hermitian: bool) -> ndarray:
    """The symmetric or Hermitian matrix of which one triangle is known."""
    half, strict = (tril(a), tril(a, k=-1)) if lower else (triu(a), triu(a, k=1))
    return half + (adjoint(strict) if hermitian else matrix_transpose(strict))


def _three_diagonals(a: ndarray) -> ndarray:
    """A tridiagonal matrix as `solve_banded` takes it."""
    main = diagonal(a, 0, -2, -1)
    end = zeros((*a.shape[:-2], 1), a.dtype, device=a.device)
    above, below = diagonal(a, 1, -2, -1), diagonal(a, -1, -2, -1)
    return stack([concat([end, above], axis=-1), main, concat([below, end], axis=-1)], axis=-2)


def _structured(name: str, a: ndarray, b: ndarray, structure: str, lower: bool) -> ndarray:
    """The solution of a x = b for a matrix that is not general."""
    try:
        if structure in ("symmetric", "hermitian"):
            return _system(name, _solve, mirrored(a, lower, structure == "hermitian"), b)
        if structure == "positive definite":
            return cho_solve(cho_factor(a, lower), b)
        if structure == "tridiagonal":
            return solve_banded((1, 1), _three_diagonals(a), b)
        if structure == "diagonal":
            return _diagonal_system(a, b)
        return solve_triangular(a, b, lower=structure == "lower triangular")
    except MISTAKES as error:
        raise as_of(name, error) from None


def _diagonal_system(a: ndarray, b: ndarray) -> ndarray:
    """n systems of one row."""
    vector = b.ndim == 1
    rows = expand_dims(expand_dims(b, axis=-1) if vector else b, axis=-2)
    x = solve_triangular(reshape(diagonal(a, 0, -2, -1), (*a.shape[:-1], 1, 1)), rows)
    x = reshape(x, (*x.shape[:-2], x.shape[-1]))
    return reshape(x, x.shape[:-1]) if vector else x


@fast_path("a", "b")
@scipy_keywords("overwrite_a", "overwrite_b", check_finite=("a", "b"))
def solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    assume_a: str | None = None,
    lower: bool = False,
    transposed: bool = False,
) -> ndarray:
    """The solution x of a x = b, by LU with partial pivoting or as the structure of a allows.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices of float32, float64, complex numbers, integers or bool, of any strides.
    b : array_like of shape (n,) or (..., n, k)
        Right-hand sides, one vector or the columns of matrices. Leading axes broadcast.
    assume_a : str, optional
        What is known of `a`, by SciPy's names: "general", "diagonal", "tridiagonal", "banded",
        "upper triangular", "lower triangular", "symmetric", "hermitian", "positive definite", or
        "gen", "sym", "her", "pos". What lies outside of that structure is not read; "banded" is
        solved as "general". By default `a` is general, whatever it holds.
    lower : bool, default False
        Which triangle of a symmetric, Hermitian or positive definite `a` is read.
    transposed : bool, default False
        Whether the system is a^T x = b.

    Returns
    -------
    ndarray
        Array of shape (..., n) or (..., n, k) and of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other, or `assume_a` is unknown.
    LinAlgError
        A matrix is not square, or singular, or not positive definite as assumed. On a GPU the next
        synchronisation raises the error.

    Notes
    -----
    Gradient: g_b = solve(a^H, g), g_a = -g_b x^H, of what is read of `a`. Symmetric and Hermitian
    matrices are completed and solved by LU, positive definite ones by Cholesky's factor.

    Accuracy: LAPACK's: the exact answer to a problem within about n eps of the given one.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.solve([[3.0, 1.0], [1.0, 2.0]], [9.0, 8.0]).tolist()
    [2.0, 3.0]
    """
    a, b = pair("solve", a, b, square=True)
    structure = _structure("solve", assume_a)
    if transposed:
        a, lower = matrix_transpose(a), not lower
        structure = _OF_TRANSPOSE.get(structure, structure)
    if structure == "general":
        return _system("solve", _solve, a, b)
    return _structured("solve", a, b, structure, bool(lower))


_OF_TRANSPOSE = {"upper triangular": "lower triangular", "lower triangular": "upper triangular"}


@fast_path("a")
@scipy_keywords("overwrite_a", check_finite=("a",))
def inv(a: ArrayLike, /, *, assume_a: str | None = None, lower: bool = False) -> ndarray:
    """The inverse of square matrices.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices.
    assume_a : str, optional
        What is known of `a`, by SciPy's names: "general", "diagonal", "tridiagonal", "banded",
        "upper triangular", "lower triangular", "symmetric", "hermitian", "positive definite", or
        "gen", "sym", "her", "pos". What lies outside of that structure is not read; "banded" is
        taken as "general". By default `a` is general, whatever it holds.
    lower : bool, default False
        Which triangle of a symmetric, Hermitian or positive definite `a` is read.

    Returns
    -------
    ndarray
        Array of the same shape.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        `assume_a` is unknown.
    LinAlgError
        A matrix is not square, or singular, or not positive definite as assumed. On a GPU the next
        synchronisation raises the error.

    Notes
    -----
    Gradient: -y^H g y^H.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    a, structure = matrices("inv", a, square=True), _structure("inv", assume_a)
    if structure == "general":
        return run(_inv, a)
    one = eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return _structured("inv", a, one, structure, bool(lower))
