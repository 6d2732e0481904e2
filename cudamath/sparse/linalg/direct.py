"""Direct solutions: triangular systems, and LU factors of sparse matrices.

Factors are found on the host (cpu/sparse/factors.py), one column after the other, with partial
pivoting. Solving with them, permutations included, happens on the device of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ...core.array import ndarray
from ...core.dispatch.checks import MISTAKES, as_of, coerce, speaks_for
from ...core.dispatch.lazy_import import lazy
from ...core.dispatch.op import Composed
from ...core.dtypes import result_type
from ...core.shapes import as_integer
from ...ops.creation import asarray
from ...ops.elementwise import conj_or_same
from ..base import issparse
from ..construct import eye_of
from ..csc import csc_array
from ..csr import csr_array
from ..products import sampled_product, triangular_solve
from ..structure import Shape

__all__ = ["SuperLU", "factorized", "inv", "matrix_power", "splu", "spsolve", "spsolve_triangular"]


def _square(name: str, A: Any) -> Any:
    """A sparse square array."""
    try:
        A = A if issparse(A) else csc_array(A)
    except MISTAKES as error:
        raise as_of(name, error) from None
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"{name}: wants a square A, got shape {A.shape}")
    return A


def _right_side(name: str, A: Any, b: Any) -> ndarray:
    """b (n,) or (n, k), dense."""
    b = b.toarray() if issparse(b) else coerce(name, (A.data, b))[1]
    if b.ndim not in (1, 2) or b.shape[0] != A.shape[0]:
        raise ValueError(f"{name}: wants b with {A.shape[0]} rows for A {A.shape}, got {b.shape}")
    return b


def _floating(*operands: Any) -> np.dtype:
    """The dtype of a solution."""
    dtype = result_type(*[x.dtype for x in operands])
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def spsolve_triangular(
    A: Any,
    b: Any,
    lower: bool = True,
    overwrite_A: bool = False,
    overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> ndarray:
    """Solve A x = b for a triangular A.

    Parameters
    ----------
    A : sparse array
        Of shape (n, n). Elements of the other triangle do not count.
    b : array_like
        The right-hand side, of shape (n,) or (n, k).
    lower : bool, default True
        Which triangle.
    overwrite_A : bool, default False
        For SciPy's sake.
    overwrite_b : bool, default False
        For SciPy's sake.
    unit_diagonal : bool, default False
        Whether the diagonal is taken for ones.

    Returns
    -------
    ndarray
        The solution, of the shape of b.

    Raises
    ------
    LinAlgError
        An element of the diagonal is zero. On a GPU it is raised at the next synchronisation.

    Notes
    -----
    Gradient: with respect to the values of A and to b, of any order.

    Examples
    --------
    >>> import cudamath as cm
    >>> L = cm.sparse.csr_array([[2.0, 0.0], [1.0, 4.0]])
    >>> cm.sparse.linalg.spsolve_triangular(L, cm.array([2.0, 9.0])).tolist()
    [1.0, 2.0]
    """
    A = _square("spsolve_triangular", A)
    b = _right_side("spsolve_triangular", A, b)
    kind = result_type(A.dtype, b.dtype)
    dtype = _floating(A, b)
    rows = A._in_rows() if A.format == "coo" else A.tocsr()
    dense = b.astype(dtype, copy=False)
    x = triangular_solve(
        rows.data.astype(dtype, copy=False),
        rows._indices,
        rows._indptr,
        dense if b.ndim == 2 else dense.reshape(-1, 1),
        lower=bool(lower),
        unit=bool(unit_diagonal),
    )
    x = x.reshape(b.shape)
    return x.astype(kind) if kind.itemsize == 2 and kind.kind not in "iu" else x


class SuperLU:
    """LU factors of a sparse matrix: L U = A[perm_r, :][:, perm_c], by their places in SciPy.

    It is what `splu` returns.

    Parameters
    ----------
    A : csc_array
        Of shape (n, n).
    permc_spec : {"RCM", "NATURAL"}, default "RCM"
        The order of the columns.
    diag_pivot_thresh : float, default 1
        An element of the diagonal is the pivot where it is this part of the largest one at least.

    Examples
    --------
    >>> import cudamath as cm
    >>> lu = cm.sparse.linalg.splu(cm.sparse.csc_array([[4.0, 1.0], [2.0, 3.0]]))
    >>> lu.shape, lu.nnz
    ((2, 2), 4)
    """

    def __init__(self, A: Any, permc_spec: str = "RCM", diag_pivot_thresh: float = 1.0):
        dtype = _floating(A)
        host = A.to("cpu")
        wide = np.complex128 if dtype.kind == "c" else np.float64
        indices, indptr = (x.to_numpy().astype(np.int64) for x in (host._indices, host._indptr))
        values = host.data.to_numpy().astype(wide)
        n = A.shape[0]
        order = (
            np.arange(n)
            if permc_spec == "NATURAL"
            else lazy("cpu", "sparse.factors.band_order")(indices, indptr, n)
        )
        found = lazy("cpu", "sparse.factors.lu")(values, indices, indptr, order, diag_pivot_thresh)
        if found is None:
            raise LinAlgError(f"splu: A of shape {A.shape} is singular")
        (low, low_at, low_starts), (up, up_at, up_starts), rows = found
        self._shape, self._dtype, self._device = A.shape, dtype, A.device

        def factor(data: Any, at: Any, starts: Any) -> Any:
            made = csc_array((data.astype(dtype), at, starts), shape=A.shape)
            return made.to(A.device)

        self._lower, self._upper = factor(low, low_at, low_starts), factor(up, up_at, up_starts)
        self._rows = asarray(rows, device=A.device)  # row i of A is row rows[i] of L U
        self._order = asarray(order, device=A.device)  # column i of L U is column order[i] of A
        self._parts: dict[tuple, tuple] = {}

    @property
    def shape(self) -> Shape:
        """The shape of the matrix."""
        return self._shape

    @property
    def nnz(self) -> int:
        """The number of stored elements of L and U; the ones of L do not count."""
        return self._lower.nnz + self._upper.nnz - self._shape[0]

    @property
    def L(self) -> Any:
        """The lower factor, with ones on the diagonal."""
        return self._lower

    @property
    def U(self) -> Any:
        """The upper factor."""
        return self._upper

    @property
    def perm_r(self) -> ndarray:
        """The row of L U that each row of A becomes."""
        return self._rows

    @property
    def perm_c(self) -> ndarray:
        """The column of L U that each column of A becomes."""
        return self._order.argsort()

    def solve(self, rhs: Any, trans: str = "N") -> ndarray:
        """Return the solution for a right-hand side.

        Parameters
        ----------
        rhs : array_like
            Of shape (n,) or (n, k).
        trans : {"N", "T", "H"}, default "N"
            Whether A, its transpose or its adjoint is meant.

        Returns
        -------
        ndarray
            Of the shape of `rhs`.
        """
        if trans not in ("N", "T", "H"):
            raise ValueError(f"solve: wants trans 'N', 'T' or 'H', got {trans!r:.40}")
        b = asarray(rhs, device=self._device)
        if b.ndim not in (1, 2) or b.shape[0] != self._shape[0]:
            raise ValueError(
                f"solve: wants {self._shape[0]} rows for A {self._shape}, got {b.shape}"
            )
        dtype = result_type(self._dtype, _floating(b))
        b = b.astype(dtype)
        columns = b if b.ndim == 2 else b.reshape(-1, 1)
        if trans == "N":
            columns = columns[self._rows.argsort()]
            columns = self._solved(self._solved(columns, True, trans), False, trans)
            x = columns[self.perm_c]
        else:
            columns = columns[self._order]
            columns = self._solved(self._solved(columns, False, trans), True, trans)
            x = columns[self._rows]
        return x.reshape(b.shape)

    def _solved(self, columns: ndarray, lower: bool, trans: str) -> ndarray:
        """One triangle, or its transpose."""
        key = lower, trans, columns.dtype
        if key not in self._parts:
            factor = self._lower if lower else self._upper
            rows = factor.tocsr() if trans == "N" else factor.T
            data = conj_or_same(rows.data) if trans == "H" else rows.data
            self._parts[key] = data.astype(columns.dtype), rows._indices, rows._indptr
        data, indices, indptr = self._parts[key]
        downwards = lower == (trans == "N")
        return triangular_solve(data, indices, indptr, columns, lower=downwards, unit=False)


def splu(
    A: Any,
    permc_spec: str | None = None,
    diag_pivot_thresh: float | None = None,
    relax: int | None = None,
    panel_size: int | None = None,
    options: Any = None,
) -> SuperLU:
    """Return the LU factors of a sparse matrix, found on the host with partial pivoting.

    Parameters
    ----------
    A : sparse array
        Of shape (n, n).
    permc_spec : {"RCM", "NATURAL"}, optional
        The order of the columns: by default reverse Cuthill and McKee's of A + A^T, which gives
        bands.
    diag_pivot_thresh : float, optional
        An element of the diagonal is the pivot where it is this part of the largest one at least;
        1 by default.
    relax : None
        For SciPy's sake.
    panel_size : None
        For SciPy's sake.
    options : None
        For SciPy's sake.

    Returns
    -------
    SuperLU
        Its `solve` runs on the device of A.

    Raises
    ------
    LinAlgError
        A is singular.

    Examples
    --------
    >>> import cudamath as cm
    >>> lu = cm.sparse.linalg.splu(cm.sparse.csc_array([[4.0, 1.0], [2.0, 3.0]]))
    >>> lu.solve(cm.array([6.0, 8.0])).tolist()
    [1.0, 2.0]
    """
    A = _square("splu", A)
    if permc_spec not in (None, "RCM", "NATURAL"):
        raise ValueError(f"splu: wants permc_spec 'RCM' or 'NATURAL', got {permc_spec!r:.40}")
    if options is not None:
        raise NotImplementedError(f"splu: takes no options, got {options!r:.60}")
    threshold = 1.0 if diag_pivot_thresh is None else float(diag_pivot_thresh)
    return SuperLU(A.tocsc()._summed(), permc_spec or "RCM", threshold)


@speaks_for("factorized")
def factorized(A: Any) -> Callable[[Any], ndarray]:
    """Return a function that solves A x = b for many b.

    Parameters
    ----------
    A : sparse array
        Of shape (n, n).

    Returns
    -------
    callable
        ``solve(b)``.

    Examples
    --------
    >>> import cudamath as cm
    >>> solve = cm.sparse.linalg.factorized(cm.sparse.csc_array([[4.0, 1.0], [2.0, 3.0]]))
    >>> solve(cm.array([6.0, 8.0])).tolist()
    [1.0, 2.0]
    """
    return splu(A).solve


def _solution(lu: SuperLU, A: Any, b: ndarray, trans: str) -> ndarray:
    """A^-1 b, or that of the adjoint ("H"), with gradients: both rules are such solutions."""
    rows = A.tocsr()

    def of_values(g: ndarray, x: ndarray, data: ndarray, b: ndarray) -> ndarray:
        back = _solution(lu, rows._with_data(data), g, "H" if trans == "N" else "N")
        left, right = (back, x) if trans == "N" else (x, back)
        left, right = (v if v.ndim == 2 else v.reshape(-1, 1) for v in (left, right))
        return -sampled_product(
            rows._majors(), rows._indices, rows._indptr, left, conj_or_same(right)
        )

    def of_b(g: ndarray, _x: Any, data: ndarray, _b: Any) -> ndarray:
        return _solution(lu, rows._with_data(data), g, "H" if trans == "N" else "N")

    card = Composed("spsolve", lambda _data, b: lu.solve(b, trans), (of_values, of_b))
    return card(rows.data, b)


def spsolve(A: Any, b: Any, permc_spec: str | None = None, use_umfpack: bool = True) -> Any:
    """Solve A x = b by LU factors.

    Parameters
    ----------
    A : sparse array
        Of shape (n, n).
    b : array_like or sparse array
        The right-hand side, of shape (n,) or (n, k).
    permc_spec : {"RCM", "NATURAL"}, optional
        The order of the columns, as in `splu`.
    use_umfpack : bool, default True
        For SciPy's sake.

    Returns
    -------
    ndarray or sparse array
        The solution: of shape (n,) for one column, sparse where b is, of more than one column.

    Raises
    ------
    LinAlgError
        A is singular. (SciPy warns, and returns NaN.)

    Notes
    -----
    Gradient: with respect to the values of A and to b, of any order; A is factored once.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[4.0, 1.0], [2.0, 3.0]])
    >>> cm.sparse.linalg.spsolve(A, cm.array([6.0, 8.0])).tolist()
    [1.0, 2.0]
    """
    A = _square("spsolve", A)
    dense = _right_side("spsolve", A, b)
    dtype = _floating(A, dense)
    rows = A.tocsr()._summed().astype(dtype, copy=False)
    lu = splu(rows._with_data(rows.data._alias()), permc_spec)
    x = _solution(lu, rows, dense.astype(dtype, copy=False), "N")
    if issparse(b) and b.ndim == 2 and b.shape[1] > 1:
        return csr_array(x) if A.format == "csr" else csc_array(x)
    return x.reshape(A.shape[0]) if x.ndim == 2 and x.shape[1] == 1 else x


def inv(A: Any) -> Any:
    """Return the inverse of a sparse matrix; it is rarely sparse.

    Parameters
    ----------
    A : sparse array
        Of shape (n, n).

    Returns
    -------
    sparse array
        In CSR format if A is, else in CSC.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csc_array([[2.0, 0.0], [0.0, 4.0]])
    >>> cm.sparse.linalg.inv(A).toarray().tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    if not issparse(A):
        raise TypeError(f"inv: wants a sparse array, got {type(A).__name__}")
    n = _square("inv", A).shape[0]
    whole = np.eye(n, dtype=_floating(A))
    x = spsolve(A, asarray(whole, device=A.device))
    return csr_array(x.reshape(n, n)).asformat("csr" if A.format == "csr" else "csc")


def matrix_power(A: Any, power: int) -> Any:
    """Return a whole power of a square array, by repeated squaring.

    Parameters
    ----------
    A : sparse array
        Of shape (n, n).
    power : int
        The exponent, from 0 on.

    Returns
    -------
    sparse array
        The product of `power` arrays; of 0 the identity, of 1 a copy.

    Raises
    ------
    TypeError
        `A` is no sparse array, or `power` is no whole number.
    ValueError
        `A` is not square, or `power` is negative.

    Notes
    -----
    The gradient follows from that of the products.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[1, 1], [1, 0]])
    >>> cm.sparse.linalg.matrix_power(A, 5).toarray().tolist()
    [[8, 5], [5, 3]]
    """
    if not issparse(A):
        raise TypeError(f"matrix_power: wants a sparse array, got {type(A).__name__}")
    A = _square("matrix_power", A)
    power = as_integer("matrix_power", "power", power, 0)
    if power == 0:
        return eye_of(A.shape[0], A.dtype, A.device, A.kinds).todia()
    if power == 1:
        return A.copy()
    half = matrix_power(A, power // 2) if power > 3 else A
    squared = half @ half
    return A @ squared if power % 2 else squared
