"""Linear operators: what takes vectors to vectors, whether or not a matrix is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.array import ndarray
from ...core.dispatch.checks import MISTAKES, as_of, speaks_for
from ...core.dtypes import as_dtype, result_type
from ...ops.creation import asarray, zeros
from ...ops.elementwise import conj_or_same
from ...ops.join import concatenate
from ..base import is_number, issparse, sparray
from ..kinds import ARRAYS
from ..other_libraries import is_sparse
from ..structure import sizes_of

__all__ = ["LinearOperator", "aslinearoperator"]


def _found(matvec: Callable[[Any], Any], n: int) -> np.dtype:
    """The dtype of an operator: that of its value at zeros of the smallest integers."""
    try:
        return asarray(matvec(zeros(n, dtype=np.int8))).dtype
    except OverflowError:  # of a Python integer that int8 does not hold
        return np.dtype(np.int64)


def _of_column(many: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """A function of vectors by one of several columns."""
    return None if many is None else lambda x: asarray(many(x.reshape(-1, 1))).reshape(-1)


class LinearOperator:
    """A linear map of vectors, given by functions, or by the methods of a subclass.

    A subclass defines ``_matvec`` or ``_matmat`` and, if it has an adjoint, ``_rmatvec``,
    ``_rmatmat`` or ``_adjoint``. It calls ``super().__init__(dtype, shape)``, or sets `dtype` and
    `shape`.

    Parameters
    ----------
    shape : tuple of int
        (m, n): from n to m numbers.
    matvec : callable
        ``matvec(v)`` for v of shape (n,) -> (m,). A subclass gives none.
    rmatvec : callable, optional
        The adjoint's: (m,) -> (n,).
    matmat : callable, optional
        Of several columns: (n, k) -> (m, k); column by column by default.
    dtype : dtype, optional
        Of the results; found out by a call of `matvec` with zeros of int8 by default.
    rmatmat : callable, optional
        The adjoint's of several columns.

    Examples
    --------
    >>> import cudamath as cm
    >>> twice = cm.sparse.linalg.LinearOperator((3, 3), matvec=lambda v: 2 * v)
    >>> (twice @ cm.array([1.0, 2.0, 3.0])).tolist()
    [2.0, 4.0, 6.0]
    """

    __array_ufunc__ = None
    __array_priority__ = 1001
    ndim = 2
    _checked = False  # whether the functions are this package's: they need no looking after
    #: What the constructor or a subclass gives.
    _matvec: Callable[[Any], Any] | None = None
    _rmatvec: Callable[[Any], Any] | None = None
    _matmat: Callable[[Any], Any] | None = None
    _rmatmat: Callable[[Any], Any] | None = None

    def __init__(
        self,
        shape: Any,
        matvec: Any = None,
        rmatvec: Callable[[Any], Any] | None = None,
        matmat: Callable[[Any], Any] | None = None,
        dtype: Any = None,
        rmatmat: Callable[[Any], Any] | None = None,
    ):
        if type(self) is not LinearOperator and isinstance(matvec, tuple):
            shape, dtype, matvec = matvec, shape, None
        self.shape = sizes_of("LinearOperator", shape)
        given = {"matvec": matvec, "rmatvec": rmatvec, "matmat": matmat, "rmatmat": rmatmat}
        for what, function in given.items():
            if function is not None:
                if not callable(function):
                    raise TypeError(
                        f"LinearOperator: wants a function {what}, got {function!r:.60}"
                    )
                setattr(self, f"_{what}", function)
        if self._matvec is None and self._matmat is None:
            raise TypeError(
                f"LinearOperator: wants a function matvec, or a subclass with _matvec or _matmat, "
                f"got none for shape {self.shape}"
            )
        self.dtype = (
            _found(self.matvec, n=self.shape[1])
            if dtype is None
            else as_dtype(dtype, "LinearOperator")
        )

    def __repr__(self) -> str:
        m, n = self.shape
        return f"<{m}x{n} {type(self).__name__} with dtype={self.dtype}>"

    def _applied(self, name: str, function: Callable | None, x: Any, m: int, n: int) -> ndarray:
        """function(x) for a vector of n numbers, or a column of them."""
        if self._checked and isinstance(x, ndarray) and x.shape == (n,):
            return function(x)  # type: ignore[misc]
        x = asarray(x)
        if x.shape not in ((n,), (n, 1)):
            raise ValueError(
                f"{name}: an operator of shape {self.shape} takes ({n},), got {x.shape}"
            )
        if function is None:
            raise NotImplementedError(f"{name}: the operator of shape {self.shape} has no rmatvec")
        y = asarray(function(x.reshape(n)))
        if y.size != m:
            raise ValueError(f"{name}: an operator of shape {self.shape} gave shape {y.shape}")
        return y.reshape((m,) if x.ndim == 1 else (m, 1))

    @property
    def has_adjoint(self) -> bool:
        """Whether there is an `rmatvec`."""
        return self._of_adjoint() is not None

    def _of_adjoint(self) -> Callable[[Any], Any] | None:
        """The adjoint's function of vectors."""
        if self._rmatvec is not None or self._rmatmat is not None:
            return self._rmatvec or _of_column(self._rmatmat)
        own = type(self)._adjoint is LinearOperator._adjoint
        return None if own else self._adjoint().matvec

    def matvec(self, x: Any) -> ndarray:
        """Return the operator's value at a vector.

        Parameters
        ----------
        x : array_like
            Of shape (n,) or (n, 1).

        Returns
        -------
        ndarray
            Of shape (m,) or (m, 1).
        """
        function = self._matvec or _of_column(self._matmat)
        return self._applied("matvec", function, x, *self.shape)

    def rmatvec(self, x: Any) -> ndarray:
        """Return the adjoint's value at a vector.

        Parameters
        ----------
        x : array_like
            Of shape (m,) or (m, 1).

        Returns
        -------
        ndarray
            Of shape (n,) or (n, 1).
        """
        return self._applied("rmatvec", self._of_adjoint(), x, *self.shape[::-1])

    def matmat(self, X: Any) -> ndarray:
        """Return the operator's values at the columns of a matrix.

        Parameters
        ----------
        X : array_like
            Of shape (n, k).

        Returns
        -------
        ndarray
            Of shape (m, k).
        """
        return self._columns("matmat", self._matmat, self.matvec, X, *self.shape)

    def rmatmat(self, X: Any) -> ndarray:
        """Return the adjoint's values at the columns of a matrix.

        Parameters
        ----------
        X : array_like
            Of shape (m, k).

        Returns
        -------
        ndarray
            Of shape (n, k).
        """
        return self._columns("rmatmat", self._rmatmat, self.rmatvec, X, *self.shape[::-1])

    def _columns(
        self, name: str, whole: Callable | None, each: Callable, X: Any, m: int, n: int
    ) -> ndarray:
        X = asarray(X)
        if X.ndim != 2 or X.shape[0] != n:
            raise ValueError(
                f"{name}: an operator of shape {self.shape} takes ({n}, k), got {X.shape}"
            )
        if whole is not None:
            return asarray(whole(X))
        if not X.shape[1]:
            return zeros((m, 0), dtype=result_type(self.dtype, X.dtype), device=X.device)
        return concatenate([each(X[:, i : i + 1]) for i in range(X.shape[1])], axis=1)

    def adjoint(self) -> LinearOperator:
        """Return the adjoint, the conjugate transpose.

        Returns
        -------
        LinearOperator
            Of shape (n, m).
        """
        return self._adjoint()

    def _adjoint(self) -> LinearOperator:
        return LinearOperator(
            self.shape[::-1], self.rmatvec, self.matvec, self.rmatmat, self.dtype, self.matmat
        )

    def transpose(self) -> LinearOperator:
        """Return the transpose.

        Returns
        -------
        LinearOperator
            Of shape (n, m).
        """

        def turned(function: Callable) -> Callable:
            return lambda x: conj_or_same(function(conj_or_same(asarray(x))))

        parts = self.rmatvec, self.matvec, self.rmatmat, self.matmat
        one, other, many, others = map(turned, parts)
        return LinearOperator(self.shape[::-1], one, other, many, self.dtype, others)

    @property
    def H(self) -> LinearOperator:
        """The adjoint, the conjugate transpose."""
        return self.adjoint()

    @property
    def T(self) -> LinearOperator:
        """The transpose."""
        return self.transpose()

    # -------------------- arithmetic

    def _with(self, other: Any, sign: int) -> Any:
        if not isinstance(other, LinearOperator):
            return NotImplemented
        if other.shape != self.shape:
            raise ValueError(
                f"add: wants operators of one shape, got {self.shape} and {other.shape}"
            )
        return LinearOperator(
            self.shape,
            lambda x: self.matvec(x) + sign * other.matvec(x),
            lambda x: self.rmatvec(x) + sign * other.rmatvec(x),
            lambda x: self.matmat(x) + sign * other.matmat(x),
            result_type(self.dtype, other.dtype),
            lambda x: self.rmatmat(x) + sign * other.rmatmat(x),
        )

    def __add__(self, other: Any) -> Any:
        return self._with(other, 1)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, -1)

    def __neg__(self) -> LinearOperator:
        return self._scaled(-1)

    def _scaled(self, factor: Any) -> LinearOperator:
        other = np.conj(factor)
        return LinearOperator(
            self.shape,
            lambda x: factor * self.matvec(x),
            lambda x: other * self.rmatvec(x),
            lambda x: factor * self.matmat(x),
            np.result_type(self.dtype, np.asarray(factor).dtype.type(0))
            if isinstance(factor, np.generic)
            else result_type(self.dtype, factor),
            lambda x: other * self.rmatmat(x),
        )

    def __mul__(self, other: Any) -> Any:
        return self.dot(other)

    def __rmul__(self, other: Any) -> Any:
        return self._scaled(other) if is_number(other) else self._from_left(other)

    def __rmatmul__(self, other: Any) -> Any:
        if is_number(other):
            raise ValueError(
                f"matmul: wants an array beside an operator {self.shape}, got a number; use *"
            )
        return self._from_left(other)

    def _from_left(self, x: Any) -> ndarray:
        """x times the operator, for a vector (m,) or rows (k, m)."""
        x = asarray(x)
        return self.T.dot(x.T).T

    def __matmul__(self, other: Any) -> Any:
        if is_number(other):
            raise ValueError(
                f"matmul: wants an array beside an operator {self.shape}, got a number; use *"
            )
        return self.dot(other)

    def __call__(self, other: Any) -> Any:
        return self.dot(other)

    def __pow__(self, n: Any) -> LinearOperator:
        if not isinstance(n, (int, np.integer)) or n < 0 or self.shape[0] != self.shape[1]:
            raise ValueError(
                f"pow: wants a square operator and n >= 0, got {self.shape} and {n!r:.40}"
            )

        def repeated(function: Callable) -> Callable:
            def power(x: Any) -> Any:
                for _ in range(n):
                    x = function(x)
                return x

            return power

        parts = self.matvec, self.rmatvec, self.matmat, self.rmatmat
        one, other, many, others = map(repeated, parts)
        return LinearOperator(self.shape, one, other, many, self.dtype, others)

    def dot(self, x: Any) -> Any:
        """Return the operator's value, or its product with an operator or a number.

        Parameters
        ----------
        x : LinearOperator, array_like or scalar
            A vector (n,), a matrix (n, k), an operator with n rows, or a factor.

        Returns
        -------
        ndarray or LinearOperator
            An operator of operators and numbers.
        """
        if isinstance(x, LinearOperator):
            if x.shape[0] != self.shape[1]:
                raise ValueError(
                    f"matmul: operators of shapes {self.shape} and {x.shape} do not fit"
                )
            return LinearOperator(
                (self.shape[0], x.shape[1]),
                lambda v: self.matvec(x.matvec(v)),
                lambda v: x.rmatvec(self.rmatvec(v)),
                lambda v: self.matmat(x.matmat(v)),
                result_type(self.dtype, x.dtype),
                lambda v: x.rmatmat(self.rmatmat(v)),
            )
        if is_number(x):
            return self._scaled(x)
        x = asarray(x)
        if x.ndim not in (1, 2):
            raise ValueError(
                f"matmul: an operator of shape {self.shape} takes no array of shape {x.shape}"
            )
        return self.matvec(x) if x.ndim == 1 else self.matmat(x)


def operator_of(name: str, A: Any) -> LinearOperator:
    """`aslinearoperator` in the name of the function that was called."""
    try:
        return aslinearoperator(A)
    except MISTAKES as error:
        raise as_of(name, error) from None


@speaks_for("aslinearoperator")
def aslinearoperator(A: Any) -> LinearOperator:
    """Return a matrix as a linear operator.

    Parameters
    ----------
    A : LinearOperator, sparse array or array_like
        Of shape (m, n), or any object with a shape and `matvec`.

    Returns
    -------
    LinearOperator
        `A` itself if it is one.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.linalg.aslinearoperator(cm.sparse.eye_array(2))
    >>> A.matvec(cm.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    if isinstance(A, LinearOperator):
        return A
    if is_sparse(A) and not issparse(A):
        A = ARRAYS[A.format if A.format in ARRAYS else "csr"](A)
    if issparse(A):
        A = A.tocsr() if A.format in ("coo", "dia") else A
    elif hasattr(A, "matvec") and hasattr(A, "shape"):
        return LinearOperator(
            A.shape,
            A.matvec,
            getattr(A, "rmatvec", None),
            getattr(A, "matmat", None),
            getattr(A, "dtype", None),
        )
    else:
        A = asarray(A)
        if A.ndim != 2:
            raise ValueError(f"aslinearoperator: wants a matrix, got shape {A.shape}")
    adjoint: list[Any] = []

    def turned(x: Any) -> Any:
        if not adjoint:
            adjoint.append(A.T.conj() if issparse(A) else conj_or_same(A.T))
        return adjoint[0] @ x

    def forward(x: Any) -> Any:
        return A @ x

    return _checked(LinearOperator(A.shape, forward, turned, forward, A.dtype, turned))


def identity(n: int, dtype: np.dtype) -> LinearOperator:
    """The operator that returns its vectors."""

    def same(v: Any) -> Any:
        return v

    return _checked(LinearOperator((n, n), same, same, same, dtype, same))


def _checked(operator: LinearOperator) -> LinearOperator:
    operator._checked = True
    return operator


def device_of(A: Any, *arrays: Any) -> Any:
    """The device of the first array of this package; None for the default one."""
    for x in (A, *arrays):
        if isinstance(x, (ndarray, sparray)):
            return x.device
    return None
