"""QR, eigenvalues and singular values: cards. Plans: kernels/linalg/dispatch.py; cuSOLVER:
runtime/cusolver.py.

Dtypes, batches and failures: as in ops/linalg/solve.py. Vectors are determined up to a sign (a
phase, if complex) each, and libraries choose differently: a CPU and a GPU may return different,
equally right ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.dispatch.checks import MISTAKES, as_of
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.lazy_import import lazy
from ...core.dispatch.op import Op
from ...core.typing import ArrayLike
from ..creation import eye, tril, triu
from ..elementwise import conj, sqrt
from ..index import take_along_axis
from ..join import concat, stack
from ..reduce import sum
from ..shape import astype, expand_dims
from .keywords import scipy_keywords
from .products import matmul
from .solve import adjoint, cholesky, matrices, pair, run, solve_triangular
from .systems import inv, mirrored, solve

__all__ = ["eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]


class QRResult(NamedTuple):
    """Q: orthonormal columns; R: upper triangular."""

    Q: ndarray
    R: ndarray


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: ndarray
    eigenvectors: ndarray


class EighResult(NamedTuple):
    """Ascending eigenvalues, and orthonormal eigenvectors as columns."""

    eigenvalues: ndarray
    eigenvectors: ndarray


class SVDResult(NamedTuple):
    """U: orthonormal columns; S: singular values, descending; Vh: orthonormal rows."""

    U: ndarray
    S: ndarray
    Vh: ndarray


# -------------------- gradients


def _qr_grad(g: tuple, y: tuple, a: ndarray, *, complete: bool) -> tuple[ndarray]:
    """(g_q + q h) r^-H, where h is Hermitian, its upper triangle that of g_r r^H - q^H g_q.

    A wide matrix is [x | z], with q r = x and r_z = q^H z."""
    (gq, gr), (q, r) = g, y
    m, n = a.shape[-2:]
    if complete and m > n:
        raise ValueError(
            f"qr: mode 'complete' of shape {a.shape} has no gradient: the added columns of Q are "
            "arbitrary"
        )
    gq = q * 0 if gq is None else gq
    gr = r * 0 if gr is None else gr
    if m >= n:
        return (_square_qr_grad(gq, gr, q, r),)
    z, gz = a[..., :, m:], gr[..., :, m:]
    gx = _square_qr_grad(gq + matmul(z, adjoint(gz)), gr[..., :, :m], q, r[..., :, :m])
    return (concat([gx, matmul(q, gz)], axis=-1),)


def _square_qr_grad(gq: ndarray, gr: ndarray, q: ndarray, r: ndarray) -> ndarray:
    h = triu(matmul(gr, adjoint(r)) - matmul(adjoint(q), gq))
    h = h + adjoint(h)
    h = h - 0.5 * tril(triu(h))  # the diagonal has been added twice
    return adjoint(solve_triangular(r, adjoint(gq + matmul(q, h))))


def _eigh_grad(g: tuple, y: tuple, _a: Any, *, upper: bool) -> tuple[ndarray]:
    """v (diag(g_w) + (v^H g_v) / (w_j - w_i)) v^H, made Hermitian."""
    (gw, gv), (w, v) = g, y
    inner = None
    if gv is not None:
        gap = expand_dims(w, axis=-2) - expand_dims(w, axis=-1)
        inner = matmul(adjoint(v), gv) * _off_diagonal(gap)
    if gw is not None:
        inner = _diagonal(gw, v) if inner is None else inner + _diagonal(gw, v)
    if inner is None:
        return (v * 0,)
    out = matmul(matmul(v, inner), adjoint(v))
    return (0.5 * (out + adjoint(out)),)


def _off_diagonal(gap: ndarray) -> ndarray:
    """1 / gap, and 0 on the diagonal."""
    one = eye(gap.shape[-1], dtype=gap.dtype, device=gap.device)
    return (1 - one) / (gap + one)


def _diagonal(values: ndarray, like: ndarray) -> ndarray:
    """Diagonal matrices of `like`'s dtype."""
    return expand_dims(astype(values, like.dtype, copy=False), axis=-1) * eye(
        values.shape[-1], dtype=like.dtype, device=like.device
    )


def _svd_grad(g: tuple, y: tuple, a: ndarray, *, full: bool) -> tuple[ndarray]:
    """U [(skew(U^H gU) / E) S + S (skew(V^H gV) / E) + diag(gS)] V^H, E_ij = s_j^2 - s_i^2, and
    what lies outside the spaces of U and V. For complex matrices the phases, which the loss must
    not depend on, share what is left."""
    (gu, gs, gvh), (u, s, vh) = g, y
    m, n = a.shape[-2:]
    k = min(m, n)
    if full and m != n:
        if gu is not None and m > n or gvh is not None and n > m:
            raise ValueError(
                f"svd: full_matrices=True of shape {a.shape} has no gradient through the added "
                "vectors, which "
                "are arbitrary; give full_matrices=False"
            )
        if gu is None and gvh is None and u._node is not None:  # recorded: without added vectors
            u, s, vh = run(_svd, a, full=False)
        u, vh = u[..., :, :k], vh[..., :k, :]
    inner = _diagonal(gs, a) if gs is not None else _diagonal(s * 0, a)
    row, column = expand_dims(s, axis=-2), expand_dims(s, axis=-1)
    gap = _off_diagonal((row - column) * (row + column))
    for_u = None if gu is None else matmul(adjoint(u), gu)
    gv = None if gvh is None else adjoint(gvh)
    if for_u is not None:
        skew = for_u - adjoint(for_u)
        inner = inner + skew * gap * row
        if a.dtype.kind == "c":
            inner = inner + skew * _diagonal(0.5 / s, a)
    if gv is not None:
        for_v = matmul(vh, gv)
        inner = inner + column * ((for_v - adjoint(for_v)) * gap)
    out = matmul(matmul(u, inner), vh)
    if gu is not None and m > k:
        out = out + matmul((gu - matmul(u, for_u)) / row, vh)  # type: ignore[arg-type]
    if gvh is not None and n > k:
        out = out + matmul(u / row, gvh - matmul(matmul(gvh, adjoint(vh)), vh))
    return (out,)


def _eig_grad(g: tuple, y: tuple, _a: Any) -> tuple[ndarray]:
    """v^-H (diag(g_w) + (v^H g_v - v^H v diag(Re v^H g_v)) / conj(w_j - w_i)) v^H, for vectors of
    length 1."""
    (gw, gv), (w, v) = g, y
    vh = adjoint(v)
    inner = v * 0 if gw is None else _diagonal(gw, v)
    if gv is not None:
        along = matmul(vh, gv)
        own = sum(
            (along * eye(w.shape[-1], dtype=v.dtype, device=v.device)).real, axis=-2, keepdims=True
        )
        gap = expand_dims(w, axis=-2) - expand_dims(w, axis=-1)
        inner = inner + (along - matmul(vh, v) * own) * _off_diagonal(conj(gap))
    return (solve(vh, matmul(inner, vh)),)


_qr = Op("qr", cpu="decompose.qr", cuda="linalg.dispatch.qr", vjp=_qr_grad, outputs=2)
_qr_r = Op("qr_r", cpu="decompose.qr_r", cuda="linalg.dispatch.qr_r")
_eigh = Op("eigh", cpu="decompose.eigh", cuda="linalg.dispatch.eigh", vjp=_eigh_grad, outputs=2)
_eigvalsh = Op("eigvalsh", cpu="decompose.eigvalsh", cuda="linalg.dispatch.eigvalsh")
_eig = Op("eig", cpu="decompose.eig", cuda="linalg.lapack_plans.eig", vjp=_eig_grad, outputs=2)
_eigvals = Op("eigvals", cpu="decompose.eigvals", cuda="linalg.lapack_plans.eigvals")
_svd = Op("svd", cpu="decompose.svd", cuda="linalg.dispatch.svd", vjp=_svd_grad, outputs=3)
_svdvals = Op("svdvals", cpu="decompose.svdvals", cuda="linalg.dispatch.svdvals")

# -------------------- functions
# What computes less than the whole decomposition has no gradient of its own: where one is recorded,
# the whole is computed.


@fast_path("a")
@scipy_keywords("overwrite_a", "lwork", check_finite=("a",))
def qr(a: ArrayLike, /, mode: str = "reduced", *, pivoting: bool = False) -> Any:
    """QR decomposition: a = q r with orthonormal columns of q and upper triangular r.

    It is computed by Householder reflections.

    Parameters
    ----------
    a : array_like of shape (..., m, n)
        Matrices.
    mode : str, default "reduced"
        "reduced": q (..., m, k) and r (..., k, n) with k = min(m, n); "economic" is SciPy's name
        for it. "complete": q (..., m, m) and r (..., m, n), SciPy's "full". "r": r alone. "raw":
        LAPACK's Householder vectors h (..., n, m), whose upper triangle, transposed, is r, and
        their factors tau (..., k); the host computes these, so that a GPU is waited for, and they
        have no gradient.
    pivoting : bool, default False
        Whether columns are exchanged so that the diagonal of r descends in absolute value:
        a[:, p] = q r. The host finds p, so that a GPU is waited for.

    Returns
    -------
    QRResult, ndarray or tuple of ndarray
        Named pair (Q, R), or the pair (h, tau). The mode "r" gives the array R alone. With
        `pivoting` the triple (q, r, p), or the pair (r, p); p (..., n) are int32. On a GPU q
        is stored by columns (see its strides).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit, or the mode is unknown.

    Notes
    -----
    Gradient: (g_q + q h) r^-H, where h is Hermitian with the upper triangle of g_r r^H - q^H g_q.
    For the mode "complete" it exists only for m <= n. The first min(m, n) columns of `a` must be
    independent.

    Examples
    --------
    >>> import cudamath as cm
    >>> q, r = cm.linalg.qr(cm.asarray([[3.0, 1.0], [4.0, 2.0]]))
    >>> cm.allclose(q @ r, [[3.0, 1.0], [4.0, 2.0]])
    True
    """
    a = matrices("qr", a)
    if mode == "economic":
        mode = "reduced"
    if mode not in ("reduced", "complete", "r", "raw") or pivoting and mode == "raw":
        raise ValueError(
            "qr: mode must be 'reduced' ('economic'), 'complete', 'r' or, without pivoting, 'raw', "
            f"got {mode!r}"
        )
    if pivoting:
        p = asarray(lazy("cpu", "decompose.qr_pivots")(a._alias().to_numpy()), device=a.device)
        found = qr(take_along_axis(a, expand_dims(p, axis=-2), axis=-1), mode)
        return (found, p) if mode == "r" else (*found, p)
    if mode == "raw":
        return _reflections(a)
    if mode == "r":
        return run(_qr_r, a) if a._node is None else run(_qr, a, complete=False)[1]
    return QRResult(*run(_qr, a, complete=mode == "complete"))


def _reflections(a: ndarray) -> tuple[ndarray, ndarray]:
    """LAPACK's form of a QR decomposition."""
    if a._node is not None:
        raise TypeError(f"qr: mode 'raw' of {a.dtype} of shape {a.shape} has no gradient")
    parts = lazy("cpu", "decompose.qr_raw")(a.to_numpy())
    h, tau = (asarray(part, device=a.device) for part in parts)
    return h, tau


#: SciPy's options for Hermitian matrices that hardly any call has.
_OF_PAIRS = "eigvals_only", "lower", "type", "subset_by_index", "subset_by_value"
_DRIVERS = "ev", "evd", "evr", "evx", "gv", "gvd", "gvx"


def _uplo_or_b(name: str, UPLO: Any, b: Any) -> tuple[str, Any]:
    """NumPy's second parameter, and SciPy's."""
    if isinstance(UPLO, str):
        return UPLO, b
    if b is not None:
        raise ValueError(f"{name}: UPLO argument must be 'L' or 'U', got {UPLO!r}")
    return "L", UPLO


def _triangle(name: str, UPLO: str) -> bool:
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(f"{name}: UPLO argument must be 'L' or 'U', got {UPLO!r}")
    return UPLO in "Uu"


def _reduced(
    name: str, a: Any, b: Any, upper: bool, kind: int
) -> tuple[ndarray, Callable[[ndarray], ndarray]]:
    """The Hermitian matrix that has the eigenvalues of a generalized problem, and what makes that
    problem's vectors of its own. With b = l l^H it is l^-1 a l^-H, or l^H a l."""
    if kind not in (1, 2, 3):
        raise ValueError(f'{name}: the keyword "type" only accepts 1, 2 and 3, got {kind!r}')
    a, b = pair(name, a, b, square=True)
    if a.shape[-2:] != b.shape[-2:]:
        raise ValueError(f"{name}: wrong dimensions of b, got shapes {a.shape} and {b.shape}")
    a = mirrored(a, not upper, True)
    try:
        low = cholesky(mirrored(b, not upper, True))
    except MISTAKES as error:
        raise as_of(name, error) from None
    if kind == 1:
        half = solve_triangular(low, a, lower=True)
        a = adjoint(solve_triangular(low, adjoint(half), lower=True))
    else:
        a = matmul(matmul(adjoint(low), a), low)
    if kind == 3:
        return a, lambda v: matmul(low, v)
    return a, lambda v: solve_triangular(low, v, "C", lower=True)


def _hermitian_values(name: str, a: Any, b: Any, upper: bool, kind: int) -> ndarray:
    """The eigenvalues of Hermitian matrices, or of pairs of them."""
    if b is None:
        a = matrices(name, a, square=True)
    else:
        a, upper = _reduced(name, a, b, upper, kind)[0], False
    return run(_eigvalsh, a, upper=upper) if a._node is None else run(_eigh, a, upper=upper)[0]


def _subset(name: str, by_index: Any, by_value: Any) -> Callable[[ndarray], slice]:
    """The function that finds a requested part of ascending eigenvalues."""
    if by_index is not None and by_value is not None:
        raise ValueError(f"{name}: either an index or a value subset can be requested, got both")
    if by_index is None and by_value is None:
        return lambda w: slice(None)
    low, high = by_value if by_index is None else map(operator.index, by_index)

    def among(w: ndarray) -> slice:
        if not 0 <= low <= high < w.shape[-1]:
            raise ValueError(
                f"{name}: requested eigenvalue indices are not valid: 0 <= first <= last < "
                f"{w.shape[-1]}, got {low} and {high}"
            )
        return slice(low, high + 1)

    def between(w: ndarray) -> slice:
        if w.ndim > 1:
            raise ValueError(f"{name}: subset_by_value wants one matrix, got values of {w.shape}")
        return slice(int(sum(w <= low)), int(sum(w <= high)))

    if by_index is not None:
        return among
    if not low < high:
        raise ValueError(
            f"{name}: requested eigenvalue bounds are not valid: low < high, got {low} and {high}"
        )
    return between


def _part(w: ndarray, subset: Callable[[ndarray], slice]) -> ndarray:
    part = subset(w)
    return w if part == slice(None) else w[..., part]


@fast_path("a", "b", rare=_OF_PAIRS)
@scipy_keywords("overwrite_a", "overwrite_b", check_finite=("a", "b"), driver=_DRIVERS)
def eigh(
    a: ArrayLike,
    /,
    UPLO: Any = "L",
    *,
    b: ArrayLike | None = None,
    lower: bool | None = None,
    eigvals_only: bool = False,
    type: int = 1,
    subset_by_index: Sequence[int] | None = None,
    subset_by_value: Sequence[float] | None = None,
) -> Any:
    """Compute eigenvalues and eigenvectors of Hermitian matrices: a v = v diag(w).

    Real matrices are symmetric.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices. One triangle is read.
    UPLO : str, default "L"
        Triangle that is read, "L" (lower) or "U" (upper). SciPy's `b` is accepted in its place.
    b : array_like of shape (..., n, n), optional
        Hermitian positive definite matrices of a generalized problem. The same triangle is read.
    lower : bool, optional
        Whether the lower triangle is read, SciPy's name. The default is what `UPLO` says.
    eigvals_only : bool, default False
        Whether the eigenvalues are returned alone.
    type : {1, 2, 3}, default 1
        The generalized problem: a v = b v diag(w), a b v = v diag(w), or b a v = v diag(w).
    subset_by_index : tuple of int, optional
        Numbers of the first and the last eigenvalue that are returned.
    subset_by_value : tuple of float, optional
        Bounds (low, high] of the eigenvalues that are returned, of one matrix. The call waits for
        a GPU.

    Returns
    -------
    EighResult or ndarray
        Named pair (eigenvalues, eigenvectors). The eigenvalues (..., n) are real and ascending, and
        the eigenvectors (..., n, n) are orthonormal columns; of a generalized problem they are
        orthonormal with respect to b, or to its inverse for type 3. With `eigvals_only` the
        eigenvalues alone. On a GPU the eigenvectors are stored by columns. Matrices with rows of
        up to 256 bytes (64 of float32) take one launch, by Jacobi's method, and cuSOLVER computes
        larger ones.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit, or `UPLO`, `type` or a subset is wrong.
    LinAlgError
        A matrix is not square, `b` is not positive definite, or the iteration does not converge,
        for instance because of NaN. On the CPU, LAPACK may not notice this and returns vectors of
        NaN.

    Notes
    -----
    Gradient: v (diag(g_w) + (v^H g_v) / (w_j - w_i)) v^H, Hermitian. The gradient through the
    vectors exists only where all eigenvalues differ.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [1.0, 2.0]
    """
    UPLO, b = _uplo_or_b("eigh", UPLO, b)
    upper = _triangle("eigh", UPLO) if lower is None else not lower
    subset = _subset("eigh", subset_by_index, subset_by_value)
    if eigvals_only:
        return _part(_hermitian_values("eigh", a, b, upper, type), subset)
    back: Any = None
    if b is None:
        a = matrices("eigh", a, square=True)
    else:
        a, back = _reduced("eigh", a, b, upper, type)
        upper = False
    w, v = run(_eigh, a, upper=upper)
    if back is not None:
        v = back(v)
    part = subset(w)
    return EighResult(w, v) if part == slice(None) else EighResult(w[..., part], v[..., part])


@fast_path("a", "b", rare=_OF_PAIRS[1:])
@scipy_keywords("overwrite_a", "overwrite_b", check_finite=("a", "b"), driver=_DRIVERS)
def eigvalsh(
    a: ArrayLike,
    /,
    UPLO: Any = "L",
    *,
    b: ArrayLike | None = None,
    lower: bool | None = None,
    type: int = 1,
    subset_by_index: Sequence[int] | None = None,
    subset_by_value: Sequence[float] | None = None,
) -> ndarray:
    """Compute eigenvalues of Hermitian (real symmetric) matrices, ascending.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices. One triangle is read.
    UPLO : str, default "L"
        Triangle that is read, "L" (lower) or "U" (upper). SciPy's `b` is accepted in its place.
    b : array_like of shape (..., n, n), optional
        Hermitian positive definite matrices of a generalized problem. The same triangle is read.
    lower : bool, optional
        Whether the lower triangle is read, SciPy's name. The default is what `UPLO` says.
    type : {1, 2, 3}, default 1
        The generalized problem: a v = b v diag(w), a b v = v diag(w), or b a v = v diag(w).
    subset_by_index : tuple of int, optional
        Numbers of the first and the last eigenvalue that are returned.
    subset_by_value : tuple of float, optional
        Bounds (low, high] of the eigenvalues that are returned, of one matrix. The call waits for
        a GPU.

    Returns
    -------
    ndarray
        Real array of shape (..., n). On a GPU, Jacobi's method computes matrices of up to 32 rows
        (complex128: 16).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit, or `UPLO`, `type` or a subset is wrong.
    LinAlgError
        A matrix is not square, `b` is not positive definite, or the iteration does not converge,
        for instance because of NaN. On the CPU, LAPACK may not notice this and returns vectors of
        NaN.

    Notes
    -----
    Gradient: v diag(g) v^H.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    UPLO, b = _uplo_or_b("eigvalsh", UPLO, b)
    upper = _triangle("eigvalsh", UPLO) if lower is None else not lower
    subset = _subset("eigvalsh", subset_by_index, subset_by_value)
    return _part(_hermitian_values("eigvalsh", a, b, upper, type), subset)


def _general_pair(name: str, a: Any, b: Any) -> tuple[ndarray, ndarray | None]:
    """The matrix b^-1 a, and b."""
    if b is None:
        return matrices(name, a, square=True), None
    a, b = pair(name, a, b, square=True)
    if a.shape[-2:] != b.shape[-2:]:
        raise ValueError(f"{name}: wrong dimensions of b, got shapes {a.shape} and {b.shape}")
    try:
        return solve(b, a), b
    except MISTAKES as error:
        raise as_of(name, error) from None


def _of_length_1(v: ndarray) -> ndarray:
    return v / sqrt(sum((v * conj(v)).real, axis=-2, keepdims=True))


def _homogeneous(w: ndarray) -> ndarray:
    """Eigenvalues as SciPy's pairs alpha, beta with w = alpha / beta."""
    return stack([w, w * 0 + 1], axis=-2)


@fast_path("a", "b", rare=("left", "right", "homogeneous_eigvals"))
@scipy_keywords("overwrite_a", "overwrite_b", check_finite=("a", "b"))
def eig(
    a: ArrayLike,
    /,
    b: ArrayLike | None = None,
    left: bool = False,
    right: bool = True,
    *,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Compute eigenvalues and right eigenvectors of square matrices: a v = v diag(w).

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices.
    b : array_like of shape (..., n, n), optional
        Matrices of a generalized problem a v = b v diag(w). They must not be singular (SciPy's
        eigenvalues are then infinite).
    left : bool, default False
        Whether left eigenvectors u are returned: u^H a = diag(w) u^H, or diag(w) u^H b. They are
        found as the inverse of all right ones.
    right : bool, default True
        Whether right eigenvectors are returned.
    homogeneous_eigvals : bool, default False
        Whether eigenvalues are returned as pairs (..., 2, n), whose quotients they are.

    Returns
    -------
    EigResult, tuple of ndarray or ndarray
        Named pair (eigenvalues, eigenvectors), as in NumPy; with `left` the triple of eigenvalues,
        left and right eigenvectors, and less where less is asked for. The eigenvalues (..., n) are
        in no order, and the eigenvectors (..., n, n) are columns of length 1. Both are always
        complex, as in the array API (NumPy returns real ones when all of them happen to be real).
        On a GPU, LAPACK on the host computes matrices of up to 64 rows (complex ones with vectors:
        48), where it is faster than cuSOLVER.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.
    LinAlgError
        A matrix is not square, or the iteration does not converge.

    Notes
    -----
    Gradient: v^-H (diag(g_w) + (v^H g_v - v^H v diag(Re v^H g_v)) / conj(w_j - w_i)) v^H. `a` must
    have a full set of eigenvectors and, for the gradient through the vectors, different
    eigenvalues.

    Examples
    --------
    >>> import cudamath as cm
    >>> w, v = cm.linalg.eig([[0.0, -1.0], [1.0, 0.0]])
    >>> sorted(w.imag.tolist())
    [-1.0, 1.0]
    """
    a, b = _general_pair("eig", a, b)
    w, v = run(_eig, a)
    values = _homogeneous(w) if homogeneous_eigvals else w
    if right and not left:
        return EigResult(values, v)
    if not left:
        return values
    u = adjoint(inv(v))
    if b is not None:
        u = solve(adjoint(b), u)
    u = _of_length_1(u)
    return (values, u, v) if right else (values, u)


@fast_path("a", "b")
@scipy_keywords("overwrite_a", check_finite=("a", "b"))
def eigvals(
    a: ArrayLike, /, b: ArrayLike | None = None, *, homogeneous_eigvals: bool = False
) -> ndarray:
    """Compute eigenvalues of square matrices, in no order.

    Parameters
    ----------
    a : array_like of shape (..., n, n)
        Square matrices.
    b : array_like of shape (..., n, n), optional
        Matrices of a generalized problem, which must not be singular, as in `eig`.
    homogeneous_eigvals : bool, default False
        Whether eigenvalues are returned as pairs (..., 2, n), whose quotients they are.

    Returns
    -------
    ndarray
        Complex array of shape (..., n).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.
    LinAlgError
        A matrix is not square, or the iteration does not converge.

    Notes
    -----
    Gradient: v^-H diag(g) v^H.

    Examples
    --------
    >>> import cudamath as cm
    >>> sorted(cm.linalg.eigvals([[0.0, 1.0], [1.0, 0.0]]).real.tolist())
    [-1.0, 1.0]
    """
    a = _general_pair("eigvals", a, b)[0]
    w = run(_eigvals, a) if a._node is None else run(_eig, a)[0]
    return _homogeneous(w) if homogeneous_eigvals else w


@fast_path("a")
@scipy_keywords("overwrite_a", check_finite=("a",), lapack_driver=("gesdd", "gesvd"))
def svd(
    a: ArrayLike, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Singular value decomposition: a = u diag(s) vh.

    Parameters
    ----------
    a : array_like of shape (..., m, n)
        Matrices.
    full_matrices : bool, default True
        True: u (..., m, m) and vh (..., n, n). False: u (..., m, k) and vh (..., k, n) with k =
        min(m, n).
    compute_uv : bool, default True
        Whether u and vh are computed. False returns the singular values alone.
    hermitian : bool, default False
        Accepted for compatibility with NumPy. The result is the same.

    Returns
    -------
    SVDResult or ndarray
        Named triple (U, S, Vh), S (..., k) real and descending, or S alone. On a GPU u and vh of a
        large tall matrix are stored by columns. Their singular values come from A^H A in float64,
        which is exact to float32 precision; one step of Jacobi's method refines those of float64.
        The vectors of zero singular values, and the additional ones of `full_matrices`, are
        arbitrary orthonormal vectors.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.
    LinAlgError
        The iteration does not converge, for instance because of NaN or infinity.

    Notes
    -----
    Gradient: u [(skew(u^H g_u) / e) s + s (skew(v^H g_v) / e) + diag(g_s)] v^H, plus a part outside
    the subspaces, with e_ij = s_j^2 - s_i^2. The gradient through the vectors exists only where
    singular values differ and are not 0, and not through the additional vectors of `full_matrices`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.svd([[0.0, 2.0], [1.0, 0.0]]).S.tolist()
    [2.0, 1.0]
    """
    if not compute_uv:
        return svdvals(a)
    return SVDResult(*run(_svd, matrices("svd", a), full=bool(full_matrices)))


@fast_path("a")
@scipy_keywords("overwrite_a", check_finite=("a",))
def svdvals(a: ArrayLike, /) -> ndarray:
    """Singular values, descending.

    Parameters
    ----------
    a : array_like of shape (..., m, n)
        Matrices.

    Returns
    -------
    ndarray
        Real array of shape (..., min(m, n)).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The number of dimensions does not fit.
    LinAlgError
        The iteration does not converge.

    Notes
    -----
    Gradient: u diag(g) vh.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.svdvals([[0.0, 2.0], [1.0, 0.0]]).tolist()
    [2.0, 1.0]
    """
    a = matrices("svdvals", a)
    return run(_svdvals, a) if a._node is None else run(_svd, a, full=False)[1]
