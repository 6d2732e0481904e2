"""Krylov methods for square systems A x = b, by SciPy's names, arguments and criteria.

All vectors stay on the device; each step reads the numbers that decide whether to stop. An
iteration ends where |b - A x| <= max(rtol |b|, atol).

The steps are not differentiated. The gradient is that of the solution (`_differentiable`): with
A^H y = g, it is y for b, and -y x^H, where A has elements, for A.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core import recording
from ...core.array import ndarray
from ...core.dispatch.op import Composed
from ...core.dtypes import result_type
from ...ops.creation import asarray, zeros, zeros_like
from ...ops.elementwise import conj_or_same
from ...ops.linalg.norms import vector_norm
from ...ops.linalg.products import vdot
from .operators import LinearOperator, aslinearoperator, device_of, identity, operator_of

__all__ = ["bicg", "bicgstab", "cg", "cgs", "gmres", "minres"]


class _System(NamedTuple):
    A: LinearOperator
    M: LinearOperator
    x: ndarray
    b: ndarray
    most: int
    limit: float


def norm(x: ndarray) -> float:
    """The length of a vector, on the host."""
    return float(vector_norm(x))


def product(x: ndarray, y: ndarray) -> Any:
    """conj(x) . y, on the device."""
    return vdot(x, y)


def vectors(name: str, A: Any, b: Any, x0: Any, M: Any = None) -> tuple:
    """(A, M, x, b) as operators and vectors of one floating-point dtype."""
    operator = operator_of(name, A)
    n = operator.shape[0]
    if operator.shape != (n, n):
        raise ValueError(f"{name}: wants a square A, got shape {operator.shape}")
    device = device_of(b, A, x0)
    b = asarray(b, device=device)
    if b.shape not in ((n,), (n, 1)):
        raise ValueError(f"{name}: wants b ({n},) for A of shape {operator.shape}, got {b.shape}")
    dtype = result_type(operator.dtype, b.dtype)
    dtype = np.dtype(np.float64) if dtype.kind in "biu" else dtype
    preconditioner = identity(n, dtype) if M is None else operator_of(name, M)
    if preconditioner.shape != operator.shape:
        raise ValueError(
            f"{name}: wants M of A's shape {operator.shape}, got {preconditioner.shape}"
        )
    b = b.reshape(n).astype(dtype)
    x = zeros(n, dtype=dtype, device=b.device)
    if isinstance(x0, str) and x0 == "Mb":
        x = preconditioner.matvec(b).astype(dtype, copy=True)
    elif x0 is not None:
        x = asarray(x0, device=b.device)
        if x.shape not in ((n,), (n, 1)):
            raise ValueError(f"{name}: wants x0 ({n},), got shape {x.shape}")
        x = x.reshape(n).astype(dtype, copy=True)
    return operator, preconditioner, x, b


def _begin(
    name: str, A: Any, b: Any, x0: Any, rtol: float, atol: float, maxiter: Any, M: Any
) -> _System:
    if not (isinstance(atol, (int, float)) and atol >= 0 and rtol >= 0):
        raise ValueError(f"{name}: wants rtol and atol of at least 0, got {rtol!r} and {atol!r}")
    A, M, x, b = vectors(name, A, b, x0, M)
    most = 10 * A.shape[0] if maxiter is None else int(maxiter)
    return _System(A, M, x, b, most, max(float(atol), float(rtol) * norm(b)))


def _residual(system: _System, x0: Any) -> ndarray:
    return system.b - system.A.matvec(system.x) if x0 is not None else system.b


def _done(system: _System, x: ndarray, r: ndarray) -> bool:
    length = norm(r)
    return length < system.limit or length == 0


def _differentiable(hermitian: bool = False) -> Callable[[Callable], Callable]:
    """Decorator of a solver: its solution x has a gradient.

    b - A x is computed once more, of a constant x, and recorded. Its change is that of A and b, and
    A^-1 times it is that of x. So whatever A is made of gets its gradient, a LinearOperator's
    arrays too. Such a step from x makes one more derivative right; there are as many steps as
    gradients within gradients. hermitian: A is its own adjoint.
    """

    def decorate(solver: Callable) -> Callable:
        name = solver.__name__

        @functools.wraps(solver)
        def call(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[ndarray, int]:
            if not recording.state.depth or recording.state.paused:
                return solver(A, b, x0, **options)
            with recording.paused():
                x, info = solver(A, b, x0, **options)
            operator, _, _, right = vectors(name, A, b, None)
            shift = options.get("shift", 0.0)

            def back(g: ndarray, _x: Any, _rest: Any) -> ndarray:
                adjoint = A if hermitian else operator.H
                return call(adjoint, g, **_of_adjoint(options, b))[0]

            step = Composed(name, zeros_like, (back,))
            for _ in range(recording.state.depth):
                rest = right - operator.matvec(x) + (shift * x if shift else 0.0)
                if rest._node is None:
                    return x, info
                x = x + step(rest)
            return x, info

        return call

    return decorate


def _of_adjoint(options: dict[str, Any], b: Any) -> dict[str, Any]:
    """The options of a solution with the adjoint: as exact, beside its own right-hand side."""
    kept = {n: v for n, v in options.items() if n in ("restart", "maxiter", "shift")}
    rtol, atol = options.get("rtol", 1e-5), options.get("atol", 0.0)
    if atol:
        with recording.paused():
            length = norm(asarray(b))
        rtol = max(rtol, atol / length if length else 0.0)
    preconditioner = options.get("M")
    if preconditioner is not None:
        preconditioner = aslinearoperator(preconditioner)
        kept["M"] = preconditioner.H if preconditioner.has_adjoint else None
    return {**kept, "rtol": rtol}


@_differentiable(hermitian=True)
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[ndarray], Any] | None = None,
) -> tuple[ndarray, int]:
    """Solve A x = b for a positive definite A by conjugate gradients.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (n, n), Hermitian and positive definite.
    b : array_like
        The right-hand side, of shape (n,) or (n, 1).
    x0 : array_like, optional
        Where to begin; zeros by default. "Mb" stands for ``M @ b``.
    rtol : float, default 1e-5
        The iteration ends where |b - A x| <= max(rtol |b|, atol).
    atol : float, default 0
        As above.
    maxiter : int, optional
        The most steps; 10 n by default.
    M : sparse array, array_like or LinearOperator, optional
        An approximation of the inverse of A.
    callback : callable, optional
        ``callback(x)`` after each step.

    Returns
    -------
    x : ndarray
        The solution.
    info : int
        0, or the number of steps where the tolerance was not reached.

    Notes
    -----
    Gradient: y for `b` and -y x^H, where A has elements, for A, with the solution y of A^H y = g by
    the same method and tolerance; none for `x0` and `M`.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = cm.sparse.linalg.cg(A, cm.array([1.0, 2.0]), rtol=1e-10)
    >>> bool(cm.allclose(A @ x, [1.0, 2.0])), info
    (True, 0)
    """
    system = _begin("cg", A, b, x0, rtol, atol, maxiter, M)
    x, r = system.x, _residual(system, x0)
    if not norm(system.b):
        return system.b, 0
    p: Any = None
    before: Any = None
    for _ in range(system.most):
        if _done(system, x, r):
            return x, 0
        z = system.M.matvec(r)
        rho = product(r, z)
        p = z if p is None else z + (rho / before) * p
        q = system.A.matvec(p)
        alpha = rho / product(p, q)
        x, r, before = x + alpha * p, r - alpha * q, rho
        if callback is not None:
            callback(x)
    return x, system.most


@_differentiable()
def bicg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[ndarray], Any] | None = None,
) -> tuple[ndarray, int]:
    """Solve A x = b by biconjugate gradients, which also apply the adjoint of A.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (n, n), with `rmatvec`.
    b : array_like
        The right-hand side, of shape (n,) or (n, 1).
    x0 : array_like, optional
        Where to begin; zeros by default. "Mb" stands for ``M @ b``.
    rtol : float, default 1e-5
        The iteration ends where |b - A x| <= max(rtol |b|, atol).
    atol : float, default 0
        As above.
    maxiter : int, optional
        The most steps; 10 n by default.
    M : sparse array, array_like or LinearOperator, optional
        An approximation of the inverse of A.
    callback : callable, optional
        ``callback(x)`` after each step.

    Returns
    -------
    x : ndarray
        The solution.
    info : int
        0, or the number of steps where the tolerance was not reached; below 0 for a breakdown.

    Notes
    -----
    Gradient: y for `b` and -y x^H, where A has elements, for A, with the solution y of A^H y = g by
    the same method and tolerance; none for `x0` and `M`.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = cm.sparse.linalg.bicg(A, cm.array([1.0, 2.0]), rtol=1e-10)
    >>> bool(cm.allclose(A @ x, [1.0, 2.0])), info
    (True, 0)
    """
    system = _begin("bicg", A, b, x0, rtol, atol, maxiter, M)
    x, r = system.x, _residual(system, x0)
    if not norm(system.b):
        return system.b, 0
    other, p, q, before = r, None, None, None
    tiny = np.finfo(x.dtype).eps ** 2
    for _ in range(system.most):
        if _done(system, x, r):
            return x, 0
        z, w = system.M.matvec(r), system.M.rmatvec(other)
        rho = product(other, z)
        if abs(complex(rho)) < tiny:
            return x, -10
        if p is None or q is None:
            p, q = z, w
        else:
            beta = rho / before
            p, q = z + beta * p, w + beta.conj() * q
        y = system.A.matvec(p)
        scale = product(q, y)
        if abs(complex(scale)) == 0:
            return x, -11
        alpha = rho / scale
        x, r = x + alpha * p, r - alpha * y
        other, before = other - alpha.conj() * system.A.rmatvec(q), rho
        if callback is not None:
            callback(x)
    return x, system.most


@_differentiable()
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[ndarray], Any] | None = None,
) -> tuple[ndarray, int]:
    """Solve A x = b by stabilized biconjugate gradients.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (n, n).
    b : array_like
        The right-hand side, of shape (n,) or (n, 1).
    x0 : array_like, optional
        Where to begin; zeros by default. "Mb" stands for ``M @ b``.
    rtol : float, default 1e-5
        The iteration ends where |b - A x| <= max(rtol |b|, atol).
    atol : float, default 0
        As above.
    maxiter : int, optional
        The most steps; 10 n by default.
    M : sparse array, array_like or LinearOperator, optional
        An approximation of the inverse of A.
    callback : callable, optional
        ``callback(x)`` after each step.

    Returns
    -------
    x : ndarray
        The solution.
    info : int
        0, or the number of steps where the tolerance was not reached; below 0 for a breakdown.

    Notes
    -----
    Gradient: y for `b` and -y x^H, where A has elements, for A, with the solution y of A^H y = g by
    the same method and tolerance; none for `x0` and `M`.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = cm.sparse.linalg.bicgstab(A, cm.array([1.0, 2.0]), rtol=1e-10)
    >>> bool(cm.allclose(A @ x, [1.0, 2.0])), info
    (True, 0)
    """
    system = _begin("bicgstab", A, b, x0, rtol, atol, maxiter, M)
    x, r = system.x, _residual(system, x0)
    if not norm(system.b):
        return system.b, 0
    other, p, v = r, None, None
    before: Any = None
    alpha: Any = None
    omega: Any = None
    tiny = np.finfo(x.dtype).eps ** 2
    for _ in range(system.most):
        if _done(system, x, r):
            return x, 0
        rho = product(other, r)
        if abs(complex(rho)) < tiny:
            return x, -10
        if p is None or v is None:
            p = r
        else:
            if abs(complex(omega)) < tiny:
                return x, -11
            p = r + (rho / before) * (alpha / omega) * (p - omega * v)
        better = system.M.matvec(p)
        v = system.A.matvec(better)
        scale = product(other, v)
        if abs(complex(scale)) == 0:
            return x, -11
        alpha = rho / scale
        s = r - alpha * v
        x = x + alpha * better
        if norm(s) < system.limit:
            return x, 0
        closer = system.M.matvec(s)
        t = system.A.matvec(closer)
        omega = product(t, s) / product(t, t)
        x, r, before = x + omega * closer, s - omega * t, rho
        if callback is not None:
            callback(x)
    return x, system.most


@_differentiable()
def cgs(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[ndarray], Any] | None = None,
) -> tuple[ndarray, int]:
    """Solve A x = b by conjugate gradients squared.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (n, n).
    b : array_like
        The right-hand side, of shape (n,) or (n, 1).
    x0 : array_like, optional
        Where to begin; zeros by default. "Mb" stands for ``M @ b``.
    rtol : float, default 1e-5
        The iteration ends where |b - A x| <= max(rtol |b|, atol).
    atol : float, default 0
        As above.
    maxiter : int, optional
        The most steps; 10 n by default.
    M : sparse array, array_like or LinearOperator, optional
        An approximation of the inverse of A.
    callback : callable, optional
        ``callback(x)`` after each step.

    Returns
    -------
    x : ndarray
        The solution.
    info : int
        0, or the number of steps where the tolerance was not reached; below 0 for a breakdown.

    Notes
    -----
    Gradient: y for `b` and -y x^H, where A has elements, for A, with the solution y of A^H y = g by
    the same method and tolerance; none for `x0` and `M`.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = cm.sparse.linalg.cgs(A, cm.array([1.0, 2.0]), rtol=1e-10)
    >>> bool(cm.allclose(A @ x, [1.0, 2.0])), info
    (True, 0)
    """
    system = _begin("cgs", A, b, x0, rtol, atol, maxiter, M)
    x, r = system.x, _residual(system, x0)
    if not norm(system.b):
        return system.b, 0
    other = r
    p: Any = None
    q: Any = None
    before: Any = None
    tiny = np.finfo(x.dtype).eps ** 2
    for _ in range(system.most):
        if _done(system, x, r):
            return x, 0
        rho = product(other, r)
        if abs(complex(rho)) < tiny:
            return x, -10
        if p is None:
            u = p = r
        else:
            beta = rho / before
            u = r + beta * q
            p = u + beta * (q + beta * p)
        v = system.A.matvec(system.M.matvec(p))
        scale = product(other, v)
        if abs(complex(scale)) == 0:
            return x, -11
        alpha = rho / scale
        q = u - alpha * v
        both = system.M.matvec(u + q)
        x, r, before = x + alpha * both, r - alpha * system.A.matvec(both), rho
        if callback is not None:
            callback(x)
    return x, system.most


def _givens(f: complex, g: complex) -> tuple[float, complex, complex]:
    """(c, s, r): [[c, s], [-conj(s), c]] (f, g) = (r, 0)."""
    if g == 0:
        return 1.0, 0.0, f
    if f == 0:
        return 0.0, np.conj(g) / abs(g), abs(g)
    length = math.hypot(abs(f), abs(g))
    phase = f / abs(f)
    return abs(f) / length, phase * np.conj(g) / length, phase * length


def _coefficients(basis: ndarray, w: ndarray) -> ndarray:
    """conj(basis) w; the basis, which is larger, is not copied."""
    return conj_or_same(basis @ conj_or_same(w))


@_differentiable()
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], Any] | None = None,
    callback_type: str | None = None,
) -> tuple[ndarray, int]:
    """Solve A x = b by the generalized method of minimal residuals, restarted.

    The basis is made orthogonal by two classical Gram-Schmidt steps: products of matrices, and one
    reading of numbers per step.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (n, n).
    b : array_like
        The right-hand side, of shape (n,) or (n, 1).
    x0 : array_like, optional
        Where to begin; zeros by default. "Mb" stands for ``M @ b``.
    rtol : float, default 1e-5
        The iteration ends where |b - A x| <= max(rtol |b|, atol).
    atol : float, default 0
        As above.
    restart : int, optional
        Steps between restarts; 20 or n by default.
    maxiter : int, optional
        The most restarts; 10 n by default.
    M : sparse array, array_like or LinearOperator, optional
        An approximation of the inverse of A, applied from the left.
    callback : callable, optional
        What it gets, `callback_type` says.
    callback_type : {"x", "pr_norm", "legacy"}, optional
        The solution after each restart, or the relative preconditioned residual after each step
        (the default; as "legacy", `maxiter` then counts steps).

    Returns
    -------
    x : ndarray
        The solution.
    info : int
        0, or `maxiter` where the tolerance was not reached.

    Notes
    -----
    Gradient: y for `b` and -y x^H, where A has elements, for A, with the solution y of A^H y = g by
    the same method and tolerance; none for `x0` and `M`.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = cm.sparse.linalg.gmres(A, cm.array([1.0, 2.0]), rtol=1e-10)
    >>> bool(cm.allclose(A @ x, [1.0, 2.0])), info
    (True, 0)
    """
    if callback_type not in (None, "x", "pr_norm", "legacy"):
        raise ValueError(
            f"gmres: wants callback_type 'x', 'pr_norm' or 'legacy', got {callback_type!r:.40}"
        )
    kind = (callback_type or "legacy") if callback is not None else None
    system = _begin("gmres", A, b, x0, rtol, atol, maxiter, M)
    x, r = system.x, _residual(system, x0)
    n, length = x.size, norm(system.b)
    if not length:
        return system.b, 0
    eps = float(np.finfo(x.dtype).eps)
    restart = min(20 if restart is None else int(restart), n)
    factor, steps, rest = 1.0, 0, norm(r)
    if rest < system.limit or rest == 0:
        return x, 0
    inner = norm(system.M.matvec(system.b)) * min(factor, system.limit / length)
    for _ in range(system.most):
        first = system.M.matvec(r)
        size = norm(first)
        basis = zeros((restart + 1, n), dtype=x.dtype, device=x.device)
        basis[0] = first / size if size else first
        columns = np.zeros((restart + 1, restart), np.complex128)  # triangular, after the rotations
        rotations: list[tuple[float, complex]] = []
        right = np.zeros(restart + 1, np.complex128)
        right[0] = size
        broke = False
        for j in range(restart):
            w = system.M.matvec(system.A.matvec(basis[j]))
            whole = norm(w)
            known = basis[: j + 1]
            h = _coefficients(known, w)
            w = w - h @ known
            again = _coefficients(known, w)
            w = w - again @ known
            column = np.asarray((h + again).to_numpy(), np.complex128)
            left = norm(w)
            broke = left <= eps * whole
            left = 0.0 if broke else left
            if not broke:
                basis[j + 1] = w / left
            for i, (c, s) in enumerate(rotations):
                upper, lower = column[i], column[i + 1] if i < j else 0.0
                if i + 1 <= j:
                    column[i], column[i + 1] = (
                        c * upper + s * lower,
                        -np.conj(s) * upper + c * lower,
                    )
            c, s, top = _givens(column[j], left)
            rotations.append((c, s))
            column[j] = top
            columns[: j + 1, j] = column
            right[j], right[j + 1] = c * right[j], -np.conj(s) * right[j]
            estimate = abs(right[j + 1])
            steps += 1
            if kind in ("legacy", "pr_norm") and callback is not None:
                callback(estimate / length)
            if (kind == "legacy" and steps == system.most) or estimate <= inner or broke:
                break
        count = j + 1
        if columns[j, j] == 0:
            right[j] = 0
            columns[j, j] = 1
        found = np.linalg.solve(columns[:count, :count], right[:count])
        y = found if x.dtype.kind == "c" else found.real
        x = x + asarray(y.astype(x.dtype), device=x.device) @ basis[:count]
        r = system.b - system.A.matvec(x)
        rest = norm(r)
        if kind == "legacy" and steps == system.most:
            return x, 0 if rest <= system.limit else system.most
        if kind == "x" and callback is not None:
            callback(x)
        if rest <= system.limit or broke:
            break
        factor = max(eps, 0.25 * factor) if estimate <= inner else min(1.0, 1.5 * factor)
        inner = estimate * min(factor, system.limit / rest)
    return x, 0 if rest <= system.limit else system.most


@_differentiable(hermitian=True)
def minres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[ndarray], Any] | None = None,
    show: bool = False,
    check: bool = False,
) -> tuple[ndarray, int]:
    """Solve (A - shift I) x = b for a symmetric A, definite or not, by minimal residuals.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (n, n), real and symmetric.
    b : array_like
        The right-hand side, of shape (n,) or (n, 1).
    x0 : array_like, optional
        Where to begin; zeros by default. "Mb" stands for ``M @ b``.
    rtol : float, default 1e-5
        The iteration ends where |r| <= rtol |A| |x|, by estimates of these norms, or where |A r| is
        that small beside |A| |r|.
    shift : float, default 0
        As above.
    maxiter : int, optional
        The most steps; 5 n by default.
    M : sparse array, array_like or LinearOperator, optional
        A positive definite approximation of the inverse of A.
    callback : callable, optional
        ``callback(x)`` after each step.
    show : bool, default False
        For SciPy's sake; nothing is printed.
    check : bool, default False
        Whether to look whether A and M are symmetric.

    Returns
    -------
    x : ndarray
        The solution.
    info : int
        0, or `maxiter` where the tolerance was not reached.

    Notes
    -----
    Gradient: y for `b` and -y x^H, where A has elements, for A, with the solution y of A^H y = g by
    the same method and tolerance; none for `x0` and `M`.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[2.0, 1.0], [1.0, -3.0]])
    >>> x, info = cm.sparse.linalg.minres(A, cm.array([1.0, 2.0]), rtol=1e-10)
    >>> bool(cm.allclose(A @ x, [1.0, 2.0])), info
    (True, 0)
    """
    A, M, x, b = vectors("minres", A, b, x0, M)
    most = 5 * A.shape[0] if maxiter is None else int(maxiter)
    eps = float(np.finfo(x.dtype).eps)

    def inner(u: ndarray, v: ndarray) -> float:
        return float(product(u, v).real)

    earlier = b - A.matvec(x) if x0 is not None else b
    y = M.matvec(earlier)
    squared = inner(earlier, y)
    if squared < 0:
        raise ValueError("minres: wants a positive definite M, got an indefinite one")
    if squared == 0 or not norm(b):
        return (x if squared == 0 else b), 0
    beta1 = math.sqrt(squared)
    if check:
        _check_symmetric("A", A.matvec, y, y, eps, inner)
        _check_symmetric("M", M.matvec, earlier, y, eps, inner)
    beta, old = beta1, 0.0
    dbar = epsilon = 0.0
    phibar, cosine, sine = beta1, -1.0, 0.0
    trace, largest, smallest = 0.0, 0.0, math.inf
    later = earlier
    w = second = zeros(x.size, dtype=x.dtype, device=x.device)
    for step in range(1, most + 1):
        v = y / beta
        y = A.matvec(v) - shift * v if shift else A.matvec(v)
        if step > 1:
            y = y - (beta / old) * earlier
        alpha = inner(v, y)
        y = y - (alpha / beta) * later
        earlier, later = later, y
        y = M.matvec(later)
        old, squared = beta, inner(later, y)
        if squared < 0:
            raise ValueError("minres: wants a symmetric A and a positive definite M")
        beta = math.sqrt(squared)
        trace += alpha**2 + old**2 + beta**2
        eigenvector = step == 1 and beta / beta1 <= 10 * eps
        # The rotation before, and the next one, of the tridiagonal matrix that has been made.
        epsilon_old = epsilon
        delta, gbar = cosine * dbar + sine * alpha, sine * dbar - cosine * alpha
        epsilon, dbar = sine * beta, -cosine * beta
        root = math.hypot(gbar, dbar)
        gamma = max(math.hypot(gbar, beta), eps)
        cosine, sine = gbar / gamma, beta / gamma
        phi, phibar = cosine * phibar, sine * phibar
        third, second = second, w
        w = (v - epsilon_old * third - delta * second) / gamma
        x = x + phi * w
        if callback is not None:
            callback(x)
        largest, smallest = max(largest, gamma), min(smallest, gamma)
        size, length = math.sqrt(trace), norm(x)
        test1 = phibar / (size * length) if size and length else math.inf
        test2 = root / size if size else math.inf
        if (
            eigenvector
            or 1 + test1 <= 1
            or 1 + test2 <= 1
            or largest / smallest >= 0.1 / eps
            or size * length * eps >= beta1
            or test1 <= rtol
            or test2 <= rtol
        ):
            return x, 0
    return x, most


def _check_symmetric(
    what: str, function: Callable, at: ndarray, w: ndarray, eps: float, inner: Callable
) -> None:
    """ValueError where (f(at), f(at)) and (at, f(f(at))) differ."""
    once = function(at)
    s, t = inner(once, once), inner(at, function(once))
    if abs(s - t) > (s + eps) * eps ** (1 / 3):
        raise ValueError(f"minres: {what} of shape {(at.size, at.size)} is not symmetric")
