"""The Schur decomposition, functions of matrices by it, and Sylvester's equation.

A Schur form is made of eigenvectors: of a = v w v^-1 and v = z r follows a = z (r w r^-1) z^H.
Where eigenvectors are nearly dependent (Jordan blocks), this holds for the first ones only. These
are split off, and the rest is decomposed again. So everything is eigenvalues, QR and products,
which run where the array lies, for all matrices of a batch at once.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from ...core import dtypes, recording
from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.dispatch.checks import speaks_for
from ...core.dispatch.op import Composed
from ...core.fp_errors import silence
from ...core.scalar import scalar_results
from ...core.shapes import broadcast_shapes
from ...core.typing import ArrayLike
from ..creation import eye, tril, triu
from ..elementwise import abs, expm1, log, sqrt, where
from ..index import take_along_axis
from ..join import concat
from ..shape import astype, broadcast_to, diagonal, expand_dims, flip, reshape
from .keywords import scipy_keywords
from .norms import matrix_norm
from .products import matmul
from .solve import adjoint, matrices
from .special_matrices import block_diag
from .spectral import eig, qr
from .systems import solve

__all__ = ["logm", "rsf2csf", "schur", "solve_continuous_lyapunov", "solve_sylvester", "sqrtm"]

#: Steps of inverse iteration for a vector or a pair that eigenvectors do not give exactly enough.
_REFINEMENTS = 6
#: Rows up to which Sylvester's equation is one linear system.
_SMALL = 6
#: A Pade approximant of log(1 + x) of this degree is exact to rounding up to this 1-norm (Al-Mohy &
#: Higham 2012).
_DEGREE, _NEAR = 7, 0.2878
_COMPLEX = np.dtype(np.complex128)


# -------------------- the decomposition


def _select(name: str, sort: Any, real: bool) -> Any:
    """Which eigenvalues come first: a function of an array of them, on the host. real: whether the
    given function gets the real and the imaginary part."""
    known = {
        "lhp": lambda w: w.real < 0,
        "rhp": lambda w: w.real >= 0,
        "iuc": lambda w: np.abs(w) <= 1,
        "ouc": lambda w: np.abs(w) > 1,
    }
    if sort is None:
        return None
    if callable(sort):
        call = sort if not real else _of_parts(sort)
        return np.vectorize(lambda x: bool(call(x)), otypes=[bool])
    if sort in known:
        return known[sort]
    raise ValueError(
        f'{name}: sort must be None, "lhp", "rhp", "iuc", "ouc" or a function, got {sort!r}'
    )


def _of_parts(sort: Any) -> Any:
    """Called with the real and the imaginary part, or the real one alone, as SciPy calls it."""
    kinds = [p.kind for p in inspect.signature(sort).parameters.values()]
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    two = inspect.Parameter.VAR_POSITIONAL in kinds or sum(k in places for k in kinds) > 1
    return (lambda x: sort(x.real, x.imag)) if two else (lambda x: sort(x.real))


def _ordered(
    w: ndarray, v: ndarray, real: bool, select: Any
) -> tuple[ndarray, ndarray, np.ndarray]:
    """Those that are selected first; and how many these are. Of a pair of eigenvalues in a
    real form both are selected if one is."""
    if select is None:
        return w, v, np.zeros(w.shape[:-1], np.int64)
    values = w.to_numpy()
    chosen = np.array(select(values))
    if real:
        first = values[..., :-1].imag > 0  # the other one follows
        both = first & (chosen[..., :-1] | chosen[..., 1:])
        chosen[..., :-1] |= both
        chosen[..., 1:] |= both
    order = asarray(np.argsort(~chosen, axis=-1, kind="stable"), device=w.device)
    vectors = take_along_axis(v, broadcast_to(expand_dims(order, axis=-2), v.shape), axis=-1)
    return take_along_axis(w, order, axis=-1), vectors, chosen.sum(-1)


def _basis(w: ndarray, v: ndarray, real: bool) -> ndarray:
    """The eigenvectors; of a pair of real matrices' the real part and the imaginary part."""
    return where(expand_dims(w.imag < 0, axis=-2), v.imag, v.real) if real else v


def _quasi(w: np.ndarray, real: bool) -> np.ndarray:
    """1 below the diagonal between the two of a pair, and 0."""
    return (w.imag > 0) & real


def _split(a: ndarray, real: bool, select: Any) -> tuple[ndarray, ndarray, np.ndarray, np.ndarray]:
    """z, z^H a z, the number of its first columns that are (quasi-)triangular, and that of the
    eigenvalues which are selected."""
    w, v = eig(a)
    w, v, chosen = _ordered(w, v, real, select)
    z = qr(_basis(w, v, real)).Q
    t = matmul(matmul(adjoint(z), a), z)
    n = a.shape[-1]
    values, below = w.to_numpy(), np.array(tril(t, k=-1).to_numpy())
    pairs = _quasi(values, real)
    each = np.arange(n - 1)
    below[..., each + 1, each] *= ~pairs[..., :-1]
    limit = 10 * n * float(np.finfo(a.dtype).eps)
    sizes = np.linalg.norm(below, axis=-2)
    good = sizes <= limit * np.linalg.norm(t.to_numpy(), axis=(-2, -1))[..., None]
    count = np.cumprod(good, axis=-1).sum(-1)
    ends = np.take_along_axis(pairs, np.maximum(count - 1, 0)[..., None], -1)[..., 0]
    count = count - (ends & (count > 0))  # not between the two of a pair
    return z, t, np.where(count == 0, np.where(pairs[..., 0], -2, -1), count), chosen


def _refined(a: ndarray, z: ndarray) -> ndarray:
    """Columns that span an invariant subspace, by inverse iteration, and what is orthogonal to
    them. The shift is not quite an eigenvalue, where the system would be singular."""
    n, k = z.shape
    middle = matmul(matmul(adjoint(z), a), z)
    shift = diagonal(middle).mean()
    near = float(np.finfo(a.dtype).eps) * float(matrix_norm(a))
    shifted = a - (shift + near) * eye(n, dtype=a.dtype, device=a.device)
    for _ in range(_REFINEMENTS):
        z = qr(solve(shifted, z)).Q
    return qr(z, "complete").Q


def _deflated(a: ndarray, real: bool, select: Any) -> tuple[ndarray, ndarray, int]:
    """(t, z) of one matrix, some columns at a time; and how many eigenvalues were selected."""
    n, start, chosen = a.shape[-1], 0, None
    t, z = a, eye(n, dtype=a.dtype, device=a.device)
    while start < n:
        part = t[start:, start:]
        q, _, count, found = _split(part, real, select)
        k = int(count)
        if chosen is None:
            chosen = int(found)
        if k < 0:
            k = -k
            q = _refined(part, q[:, :k])
        whole = q if not start else block_diag(eye(start, dtype=a.dtype, device=a.device), q)
        t = matmul(matmul(adjoint(whole), t), whole)
        z = matmul(z, whole)
        start += k
        keep = np.tri(n, dtype=bool).T | (np.arange(n) >= start)  # the columns that are done
        if real:
            keep = keep | np.eye(n, k=-1, dtype=bool) & (np.arange(n) != start - 1)
        t = where(asarray(keep, device=a.device), t, 0)
    return t, z, chosen or 0


def _standard(t: ndarray, z: ndarray) -> tuple[ndarray, ndarray]:
    """LAPACK's form of the blocks of two rows: equal numbers on the diagonal, or, of real
    eigenvalues, upper triangular. The rotations of all blocks are one orthogonal matrix."""
    n = t.shape[-1]
    each = np.arange(n - 1)
    host = t.to_numpy()
    a, b = host[..., each, each], host[..., each, each + 1]
    c, d = host[..., each + 1, each], host[..., each + 1, each + 1]
    with silence():
        half, mean = (a - d) / 2, (b + c) / 2
        rest = half * half + b * c
        equal = 0.5 * np.arctan2(-half, mean)
        root = half + np.copysign(np.sqrt(np.maximum(rest, 0)), half)
        angle = np.where(rest < 0, equal, np.arctan2(c, root))  # (root, c): an eigenvector
    angle = np.where(c != 0, angle, 0)
    turn = np.broadcast_to(np.eye(n), host.shape).copy()
    cos, sin = np.cos(angle), np.sin(angle)
    block = c != 0
    turn[..., each, each] = np.where(block, cos, turn[..., each, each])
    turn[..., each + 1, each + 1] = np.where(block, cos, turn[..., each + 1, each + 1])
    turn[..., each + 1, each] = np.where(block, sin, 0)
    turn[..., each, each + 1] = np.where(block, -sin, 0)
    turned = asarray(turn.astype(t.dtype), device=t.device)
    keep = np.broadcast_to(np.tri(n, dtype=bool).T, host.shape).copy()
    keep[..., each + 1, each] = block & (rest < 0)
    t = where(asarray(keep, device=t.device), matmul(matmul(turned.mT, t), turned), 0)
    return t, matmul(z, turned)


def _schur(a: ndarray, real: bool, select: Any = None) -> tuple[ndarray, ndarray, np.ndarray]:
    """t, z and the numbers of selected eigenvalues. Nothing is recorded."""
    n = a.shape[-1]
    lead = a.shape[:-2]
    if not real:
        a = astype(a, dtypes.promote(a.dtype, np.dtype(np.complex64)), copy=False)
    if not a.size:
        return a.copy(), a.copy(), np.zeros(lead, np.int64)
    with recording.paused():
        z, t, count, chosen = _split(a, real, select)
        if (count == n).all():
            keep = np.tri(n, dtype=bool).T | (np.eye(n, k=-1, dtype=bool) & real)
            t = where(asarray(keep, device=a.device), t, 0)
        else:
            parts = [_deflated(x, real, select) for x in reshape(a, (math.prod(lead), n, n))]
            t, z = (
                reshape(concat([expand_dims(p[i], axis=0) for p in parts]), a.shape) for i in (0, 1)
            )
            chosen = np.array([p[2] for p in parts]).reshape(lead)
        if real:
            t, z = _standard(_without_noise(t), z)
    return t, z, chosen


def _without_noise(t: ndarray) -> ndarray:
    """Numbers below the diagonal that are rounding errors are 0."""
    n = t.shape[-1]
    limit = expand_dims(matrix_norm(t), axis=(-2, -1)) * (10 * n * float(np.finfo(t.dtype).eps))
    low = tril(t, k=-1)
    return triu(t) + where(abs(low) > limit, low, 0)


@scalar_results
@speaks_for("schur")
@scipy_keywords("lwork", "overwrite_a", check_finite=("a",))
def schur(a: ArrayLike, output: str = "real", *, sort: Any = None) -> Any:
    """Schur decomposition: a = z t z^H with unitary z and upper triangular t.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices.
    output : str, default "real"
        "real": of real matrices, t is real and has a block of two rows on its diagonal for each
        pair of complex eigenvalues. "complex": t is triangular, and complex. Complex matrices have
        the complex form only.
    sort : str or callable, optional
        Which eigenvalues come first: those in the left half plane ("lhp"), in the right one
        ("rhp"), inside the unit circle ("iuc"), outside of it ("ouc"), or those for which a
        function is true: of one complex number, or of the real and the imaginary part where t is
        real (of the real part, if it takes one number).

    Returns
    -------
    tuple of ndarray
        The pair (t, z), both (..., n, n). With `sort` also the number of the eigenvalues that come
        first, an int or an array of int64 (...).

    Raises
    ------
    TypeError
        The dtype is not supported, or a gradient is recorded.
    ValueError
        `output` or `sort` is unknown.
    LinAlgError
        A matrix is not square, or the iteration does not converge, for instance because of NaN.

    Notes
    -----
    The factors are not unique and have no gradient. Eigenvectors are made orthonormal. How many of
    them are independent decides how often, so the call waits for the GPU; the small blocks are
    brought into their form on the host. |a - z t z^H| is a few n eps |a|.

    Examples
    --------
    >>> import cudamath as cm
    >>> t, z = cm.linalg.schur([[1.0, 2.0], [2.0, 1.0]], sort="lhp")[:2]
    >>> cm.diagonal(t).round(12).tolist()
    [-1.0, 3.0]
    """
    a = matrices("schur", a, square=True)
    if output not in ("real", "complex", "r", "c"):
        raise ValueError(f'schur: output must be "real" or "complex", got {output!r}')
    real = a.dtype.kind != "c" and output[0] == "r"
    select = _select("schur", sort, real)
    if a._node is not None:
        raise TypeError(f"schur: {a.dtype} of shape {a.shape} has no gradient")
    t, z, chosen = _schur(a, real, select)
    if select is None:
        return t, z
    return t, z, asarray(chosen, device=a.device) if a.ndim > 2 else int(chosen)


@scalar_results
@scipy_keywords(check_finite=("T", "Z"))
def rsf2csf(T: ArrayLike, Z: ArrayLike) -> tuple[ndarray, ndarray]:
    """Return the complex Schur form of a real one.

    Parameters
    ----------
    T : array_like of shape (..., n, n)
        Quasi-triangular matrices.
    Z : array_like of shape (..., n, n)
        Orthogonal matrices.

    Returns
    -------
    tuple of ndarray
        The pair (t, z), complex: t is triangular, and Z T Z^H = z t z^H.

    Raises
    ------
    TypeError
        The dtype is not supported, or a gradient is recorded.
    ValueError
        The shapes differ.
    LinAlgError
        A matrix is not square.

    Notes
    -----
    The factors have no gradient. The call waits for the GPU, as `schur` does.

    Examples
    --------
    >>> import cudamath as cm
    >>> t, z = cm.linalg.rsf2csf([[0.0, 1.0], [-1.0, 0.0]], cm.eye(2))
    >>> sorted(cm.diagonal(t).imag.round(12).tolist())
    [-1.0, 1.0]
    """
    t, z = matrices("rsf2csf", T, square=True), matrices("rsf2csf", Z, square=True)
    if t.shape != z.shape:
        raise ValueError(f"rsf2csf: the shapes must be equal, got {t.shape} and {z.shape}")
    if t._node is not None or z._node is not None:
        raise TypeError(f"rsf2csf: {t.dtype} of shape {t.shape} has no gradient")
    found, q, _ = _schur(t, False)
    return found, matmul(z, q)


# -------------------- Sylvester's equation


def _halves(x: ndarray, rows: int, columns: int) -> tuple[ndarray, ndarray, ndarray]:
    """The blocks of a triangular matrix that are not 0: above, beside, below."""
    return x[..., :rows, :columns], x[..., :rows, columns:], x[..., rows:, columns:]


def _triangular_sylvester(s: ndarray, t: ndarray, c: ndarray, least: float = 0.0) -> ndarray:
    """y of s y + y t = c, s and t upper triangular: by halves, of which small ones are systems.
    least: what stands for a sum of two eigenvalues that is smaller."""
    m, n = c.shape[-2:]
    if m > _SMALL and m >= n:
        h = m // 2
        first, beside, second = _halves(s, h, h)
        low = _triangular_sylvester(second, t, c[..., h:, :], least)
        high = _triangular_sylvester(first, t, c[..., :h, :] - matmul(beside, low), least)
        return concat([high, low], axis=-2)
    if n > _SMALL:
        h = n // 2
        first, beside, second = _halves(t, h, h)
        left = _triangular_sylvester(s, first, c[..., :h], least)
        right = _triangular_sylvester(s, second, c[..., h:] - matmul(left, beside), least)
        return concat([left, right], axis=-1)
    # with the columns in reverse the system is upper triangular, too: nothing is exchanged
    lead, size = c.shape[:-2], m * n
    one_m, one_n = (eye(k, dtype=c.dtype, device=c.device) for k in (m, n))
    of_t = flip(t.mT, axis=(-2, -1))
    system = expand_dims(s, axis=(-3, -1)) * reshape(one_n, (1, n, 1, n)) + expand_dims(
        of_t, axis=(-4, -2)
    ) * reshape(one_m, (m, 1, m, 1))
    system = reshape(system, (*lead, size, size))
    if least:
        line = diagonal(system, 0, -2, -1)
        more = where(abs(line) < least, least, 0)
        system = system + expand_dims(more, axis=-1) * eye(size, dtype=c.dtype, device=c.device)
    found = solve(system, reshape(flip(c, axis=-1), (*lead, size, 1)))
    return flip(reshape(found, c.shape), axis=-1)


def _sylvester_value(a: ndarray, b: ndarray, q: ndarray) -> ndarray:
    if not q.size:
        return q.copy()
    s, u, _ = _schur(astype(a, _COMPLEX), False)
    t, v, _ = _schur(astype(b, _COMPLEX), False)
    y = _triangular_sylvester(s, t, matmul(matmul(adjoint(u), astype(q, _COMPLEX)), v))
    x = matmul(matmul(u, y), adjoint(v))
    return astype(x if q.dtype.kind == "c" else x.real, q.dtype, copy=False)


def _sylvester_grad(
    g: ndarray, x: ndarray, a: ndarray, b: ndarray, _q: Any
) -> tuple[ndarray, ndarray, ndarray]:
    """w of a^H w + w b^H = g for q; -w x^H for a, -x^H w for b."""
    w = _sylvester(adjoint(a), adjoint(b), g)
    return -matmul(w, adjoint(x)), -matmul(adjoint(x), w), w


_sylvester = Composed("solve_sylvester", _sylvester_value, _sylvester_grad)


@scalar_results
@speaks_for("solve_sylvester")
def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> ndarray:
    """The solution x of Sylvester's equation, a x + x b = q.

    Parameters
    ----------
    a : array_like of shape (..., m, m)
        Square matrices.
    b : array_like of shape (..., n, n)
        Square matrices. No eigenvalue of `a` is one of -b.
    q : array_like of shape (..., m, n)
        Right-hand sides. Leading axes broadcast.

    Returns
    -------
    ndarray
        Array of shape (..., m, n), of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit.
    LinAlgError
        A matrix is not square, or the equation has no single solution.

    Notes
    -----
    Bartels and Stewart's method: the complex Schur forms of both, in complex128, then triangular
    equations. The call waits for the GPU, as `schur` does. Gradient: w for `q`, where
    a^H w + w b^H = g; -w x^H for `a` and -x^H w for `b`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.solve_sylvester([[1.0, 0.0], [0.0, 2.0]], [[1.0]], [[4.0], [6.0]]).tolist()
    [[2.0], [2.0]]
    """
    given = [x for x in (a, b, q) if isinstance(x, ndarray)]
    device = given[0].device if given else None
    a = matrices("solve_sylvester", a, square=True, device=device)
    b = matrices("solve_sylvester", b, square=True, device=device)
    q = matrices("solve_sylvester", q, device=device)
    if q.shape[-2] != a.shape[-1] or q.shape[-1] != b.shape[-1]:
        raise ValueError(
            "solve_sylvester: q must have the rows of a and the columns of b, got shapes "
            f"{a.shape}, {b.shape} and {q.shape}"
        )
    dtype = dtypes.promote(dtypes.promote(a.dtype, b.dtype), q.dtype)
    lead = broadcast_shapes("solve_sylvester", a.shape[:-2], b.shape[:-2], q.shape[:-2])
    whole = [broadcast_to(astype(x, dtype, copy=False), (*lead, *x.shape[-2:])) for x in (a, b, q)]
    return _sylvester(*whole)


@scalar_results
@speaks_for("solve_continuous_lyapunov")
def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> ndarray:
    """The solution x of Lyapunov's equation, a x + x a^H = q.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices.
    q : array_like of shape (..., n, n)
        Right-hand sides. Leading axes broadcast.

    Returns
    -------
    ndarray
        Array of shape (..., n, n), of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit.
    LinAlgError
        A matrix is not square, or the equation has no single solution.

    Notes
    -----
    It is Sylvester's equation with b = a^H, and so is the gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.solve_continuous_lyapunov([[1.0, 0.0], [0.0, 2.0]], cm.eye(2)).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    device = q.device if isinstance(q, ndarray) else None
    a = matrices("solve_continuous_lyapunov", a, square=True, device=device)
    q = matrices("solve_continuous_lyapunov", q, square=True, device=a.device)
    if q.shape[-1] != a.shape[-1]:
        raise ValueError(
            "solve_continuous_lyapunov: both must have as many rows, got shapes "
            f"{a.shape} and {q.shape}"
        )
    return solve_sylvester(a, adjoint(a), q)


# -------------------- square roots and logarithms


def _triangular_root(t: ndarray) -> ndarray:
    """The principal square root of upper triangular matrices, by halves."""
    n = t.shape[-1]
    if n == 1:
        return sqrt(t)
    h = n // 2
    first, beside, second = _halves(t, h, h)
    high, low = _triangular_root(first), _triangular_root(second)
    right = _triangular_sylvester(high, low, beside, float(np.finfo(np.float64).tiny))
    below = broadcast_to(eye(n - h, h, dtype=t.dtype, device=t.device) * 0, beside.mT.shape)
    return concat([concat([high, right], axis=-1), concat([below, low], axis=-1)], axis=-2)


def _form(a: ndarray) -> tuple[ndarray, ndarray, np.ndarray]:
    """The complex Schur form in complex128, and its eigenvalues on the host. Real eigenvalues of
    real matrices have no imaginary parts: a sign of a rounding error there would choose a branch.
    """
    t, z, _ = _schur(astype(a, _COMPLEX), False)
    if a.dtype.kind != "c":
        n = a.shape[-1]
        noise = 10 * n * float(np.finfo(np.float64).eps)
        limit = expand_dims(matrix_norm(t), axis=(-2, -1)) * noise
        real = (abs(t.imag) <= limit) & (eye(n, device=a.device) == 1)
        t = where(real, astype(t.real, _COMPLEX), t)
    return t, z, diagonal(t, 0, -2, -1).to_numpy()


def _returned(f: ndarray, z: ndarray, a: ndarray, values: np.ndarray) -> ndarray:
    """z f z^H in the precision of `a`, real if `a` is real and has no eigenvalue below 0. (Of
    eigenvalues next to the axis, rounding errors may hide on which side they lie.)"""
    y = matmul(matmul(z, f), adjoint(z))
    if a.dtype.kind != "c" and not ((values.imag == 0) & (values.real < 0)).any():
        if float(abs(y.imag).max()) <= 1e-8 * float(abs(y.real).max()):
            return astype(y.real, a.dtype, copy=False)
    return astype(y, dtypes.promote(a.dtype, np.dtype(np.complex64)), copy=False)


def _for(a: ndarray, gradient: ndarray) -> ndarray:
    """Real numbers have real gradients."""
    return gradient.real if gradient.dtype.kind == "c" and a.dtype.kind != "c" else gradient


def _sqrtm_value(a: ndarray) -> ndarray:
    t, z, values = _form(a)
    root = _triangular_root(t)
    if not float(abs(root).max()) <= 1e100 * max(1.0, float(abs(t).max())):
        raise np.linalg.LinAlgError("singular matrix that has no square root")
    return _returned(root, z, a, values)


def _sqrtm_grad(g: ndarray, y: ndarray, a: ndarray) -> tuple[ndarray]:
    """x of y^H x + x y^H = g."""
    return (_for(a, _sylvester(adjoint(y), adjoint(y), g)),)


_sqrtm = Composed("sqrtm", _sqrtm_value, _sqrtm_grad)


@scalar_results
@speaks_for("sqrtm")
def sqrtm(A: ArrayLike) -> ndarray:
    """The principal square root of square matrices: the x with x x = a.

    Its eigenvalues have no negative real parts.

    Parameters
    ----------
    A : array_like of shape (..., n, n)
        Square matrices.

    Returns
    -------
    ndarray
        Array of the same shape. It is real for real matrices none of whose eigenvalues is below 0,
        and complex otherwise (for all matrices of the batch).

    Raises
    ------
    TypeError
        The dtype is not supported.
    LinAlgError
        A matrix is not square, has NaN or infinity in it, or is singular and has no square root
        (as far as rounding lets this be seen).

    Notes
    -----
    Bjorck and Hammarling's method on the complex Schur form, in complex128, by halves. The dtype
    depends on values, so the call waits for the GPU. Gradient: the x of y^H x + x y^H = g, which
    needs a regular matrix.

    References
    ----------
    .. [1] Deadman, Higham, Ralha, Blocked Schur algorithms for computing the matrix square root,
       2013.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.sqrtm([[5.0, 4.0], [4.0, 5.0]]).round(12).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """
    a = matrices("sqrtm", A, square=True)
    return _sqrtm(a) if a.size else a.copy()


def _triangular_log(t: ndarray) -> ndarray:
    """Of upper triangular matrices, by square roots and a Pade approximant, as a sum of fractions.
    What a root differs from 1 by on the diagonal comes from the logarithms there."""
    n = t.shape[-1]
    one = eye(n, dtype=t.dtype, device=t.device)
    logs = log(diagonal(t, 0, -2, -1))
    root, count = t, 0
    while count < 64 and float(matrix_norm(root - one, ord=1).max()) > _NEAR:
        root, count = _triangular_root(root), count + 1
    x = triu(root, k=1) + expand_dims(expm1(logs * 0.5**count), axis=-1) * one
    total = None
    for place, weight in zip(*np.polynomial.legendre.leggauss(_DEGREE), strict=True):
        part = solve(one + (0.5 + 0.5 * float(place)) * x, x) * (0.5 * float(weight))
        total = part if total is None else total + part
    assert total is not None
    return triu(total, k=1) * 2.0**count + expand_dims(logs, axis=-1) * one


def _logm_value(a: ndarray) -> ndarray:
    t, z, values = _form(a)
    singular = (values == 0).any(-1)
    bad = asarray(singular[..., None, None], device=a.device) if singular.any() else None
    if bad is not None:
        t = where(bad, eye(a.shape[-1], dtype=t.dtype, device=a.device), t)
    y = _returned(_triangular_log(t), z, a, values)
    return y if bad is None else where(bad, math.nan, y)


def _logm_grad(g: ndarray, _y: Any, a: ndarray) -> tuple[ndarray]:
    """The derivative at a^H in the direction g: a block of logm([[a^H, g], [0, a^H]])."""
    n = a.shape[-1]
    b = adjoint(a)
    if g.dtype != b.dtype:
        dtype = dtypes.promote(g.dtype, b.dtype)
        b, g = astype(b, dtype, copy=False), astype(g, dtype, copy=False)
    rows = [concat([b, g], axis=-1), concat([b * 0, b], axis=-1)]
    return (_for(a, _logm(concat(rows, axis=-2))[..., :n, n:]),)


_logm = Composed("logm", _logm_value, _logm_grad)


@scalar_results
@speaks_for("logm")
def logm(A: ArrayLike) -> ndarray:
    """The principal logarithm of square matrices: the x with expm(x) = a.

    The imaginary parts of its eigenvalues are above -pi and at most pi.

    Parameters
    ----------
    A : array_like of shape (..., n, n)
        Square matrices.

    Returns
    -------
    ndarray
        Array of the same shape. It is real for real matrices none of whose eigenvalues is below 0,
        and complex otherwise (for all matrices of the batch). It is NaN for singular matrices.

    Raises
    ------
    TypeError
        The dtype is not supported.
    LinAlgError
        A matrix is not square, or has NaN or infinity in it.

    Notes
    -----
    Inverse scaling and squaring on the complex Schur form, in complex128: square roots until the
    matrix is near 1, then a Pade approximant of degree 7. How many roots depends on values, so the
    call waits for the GPU. Gradient: the derivative of the logarithm at a^H in the direction g,
    which is a block of logm([[a^H, g], [0, a^H]]).

    References
    ----------
    .. [1] Al-Mohy and Higham, Improved inverse scaling and squaring algorithms for the matrix
       logarithm, 2012.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.logm([[1.0, 1.0], [0.0, 1.0]]).round(12).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    a = matrices("logm", A, square=True)
    return _logm(a) if a.size else a.copy()
