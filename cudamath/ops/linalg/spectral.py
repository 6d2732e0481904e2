"""QR, eigenvalues and singular values: cards. Plans: kernels/linalg/dispatch.py; cuSOLVER:
runtime/cusolver.py.

Dtypes, batches and failures: as in ops/linalg/solve.py. Vectors are determined up to a sign (a
phase, if complex) each, and libraries choose differently: a CPU and a GPU may return different,
equally right ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.array import ndarray
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.op import Op
from ..creation import eye, tril, triu
from ..elementwise import conj
from ..join import concat
from ..reduce import sum
from ..shape import astype, expand_dims
from .products import matmul
from .solve import adjoint, matrices, run, solve, solve_triangular

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
        out = out + matmul((gu - matmul(u, for_u)) / row, vh)
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
def qr(a: Any, /, mode: str = "reduced") -> Any:
    """QR decomposition: a = q r with orthonormal columns of q and upper triangular r, by
    Householder reflections.

    Args:
        a: array (..., m, n).
        mode: "reduced" (q (..., m, k), r (..., k, n), k = min(m, n)), "complete" (q (..., m, m), r
        (..., m, n)) or "r".

    Returns: named pair (Q, R); with mode "r" the array R alone. On a GPU q lies in columns (its
    strides say so). Raises: TypeError (dtype), ValueError (dimensions, mode). Gradient: (g_q + q h)
    r^-H, h Hermitian with the upper triangle of g_r r^H - q^H g_q; of mode "complete" only for m <=
    n; the first min(m, n) columns of a must be independent.

    >>> import cudamath as cm
    >>> q, r = cm.linalg.qr(cm.asarray([[3.0, 1.0], [4.0, 2.0]]))
    >>> cm.allclose(q @ r, [[3.0, 1.0], [4.0, 2.0]])
    True
    """
    a = matrices("qr", a)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    if mode == "r":
        return run(_qr_r, a) if a._node is None else run(_qr, a, complete=False)[1]
    return QRResult(*run(_qr, a, complete=mode == "complete"))


def _triangle(name: str, UPLO: str) -> bool:
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(f"{name}: UPLO argument must be 'L' or 'U', got {UPLO!r}")
    return UPLO in "Uu"


@fast_path("a")
def eigh(a: Any, /, UPLO: str = "L") -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian (real symmetric) matrices: a v = v diag(w).

    Args: a: array (..., n, n), of which one triangle is read; UPLO: "L" or "U", which.
    Returns: named pair (eigenvalues (..., n), real and ascending; eigenvectors (..., n, n),
    orthonormal columns). On a GPU
        the vectors lie in columns; matrices with rows of up to 256 bytes, 64 of float32, are done
        in one launch, by Jacobi's method, and larger ones by cuSOLVER.
    Raises: TypeError (dtype), ValueError (dimensions, UPLO), LinAlgError (not square; no
    convergence, as where there is NaN;
        on the CPU LAPACK may not notice that, and returns vectors of NaN).
    Gradient: v (diag(g_w) + (v^H g_v) / (w_j - w_i)) v^H, Hermitian; through the vectors only where
    all eigenvalues differ.

    >>> import cudamath as cm
    >>> cm.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [1.0, 2.0]
    """
    upper = _triangle("eigh", UPLO)
    return EighResult(*run(_eigh, matrices("eigh", a, square=True), upper=upper))


@fast_path("a")
def eigvalsh(a: Any, /, UPLO: str = "L") -> ndarray:
    """Eigenvalues of Hermitian (real symmetric) matrices, ascending.

    Args, Raises: as for `eigh`. Returns: real array (..., n). On a GPU, of up to 32 rows
    (complex128: 16) by Jacobi's method. Gradient: v diag(g) v^H.

    >>> import cudamath as cm
    >>> cm.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    upper = _triangle("eigvalsh", UPLO)
    a = matrices("eigvalsh", a, square=True)
    return run(_eigvalsh, a, upper=upper) if a._node is None else run(_eigh, a, upper=upper)[0]


@fast_path("a")
def eig(a: Any, /) -> EigResult:
    """Eigenvalues and right eigenvectors of square matrices: a v = v diag(w).

    Args: a: array (..., n, n).
    Returns: named pair (eigenvalues (..., n), in no order; eigenvectors (..., n, n), columns of
    length 1). Both are always
        complex, as the array API has it: NumPy returns real ones when all of them happen to be
        real. On a GPU, matrices of up to 64 rows (complex ones with vectors: 48) go to LAPACK on
        the host, which is faster than cuSOLVER there.
    Raises: TypeError (dtype), ValueError (dimensions), LinAlgError (not square; no convergence).
    Gradient: v^-H (diag(g_w) + (v^H g_v - v^H v diag(Re v^H g_v)) / conj(w_j - w_i)) v^H; a must
    have a full set of vectors and, through the vectors, different eigenvalues.

    >>> import cudamath as cm
    >>> w, v = cm.linalg.eig([[0.0, -1.0], [1.0, 0.0]])
    >>> sorted(w.imag.tolist())
    [-1.0, 1.0]
    """
    return EigResult(*run(_eig, matrices("eig", a, square=True)))


@fast_path("a")
def eigvals(a: Any, /) -> ndarray:
    """Eigenvalues of square matrices, in no order.

    Args, Raises: as for `eig`. Returns: complex array (..., n).
    Gradient: v^-H diag(g) v^H.

    >>> import cudamath as cm
    >>> sorted(cm.linalg.eigvals([[0.0, 1.0], [1.0, 0.0]]).real.tolist())
    [-1.0, 1.0]
    """
    a = matrices("eigvals", a, square=True)
    return run(_eigvals, a) if a._node is None else run(_eig, a)[0]


@fast_path("a")
def svd(
    a: Any, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Singular value decomposition: a = u diag(s) vh.

    Args:
        a: array (..., m, n).
        full_matrices: u (..., m, m) and vh (..., n, n); else u (..., m, k) and vh (..., k, n), k =
        min(m, n). compute_uv: False: the singular values alone. hermitian: accepted for NumPy's
        sake; the answer is the same.

    Returns: named triple (U, S, Vh), S real and descending (..., k); or S. On a GPU u and vh of a
    large tall matrix lie in
        columns; the values come from A^H A in float64, by which those of float32 are as exact as
        float32 can say, and those of float64 by a step of Jacobi's method more
        (kernels/linalg/svd_products.py). The vectors of values that are 0, and those that
        full_matrices adds, are any orthonormal ones.
    Raises: TypeError (dtype), ValueError (dimensions), LinAlgError (no convergence, as where there
    is NaN or infinity). Gradient: u [(skew(u^H g_u) / e) s + s (skew(v^H g_v) / e) + diag(g_s)] v^H
    + what lies outside, e_ij = s_j^2 - s_i^2; through the vectors only where singular values differ
    and are not 0, and not through those that full_matrices adds.

    >>> import cudamath as cm
    >>> cm.linalg.svd([[0.0, 2.0], [1.0, 0.0]]).S.tolist()
    [2.0, 1.0]
    """
    if not compute_uv:
        return svdvals(a)
    return SVDResult(*run(_svd, matrices("svd", a), full=bool(full_matrices)))


@fast_path("a")
def svdvals(a: Any, /) -> ndarray:
    """Singular values, descending.

    Args: a: array (..., m, n). Returns: real array (..., min(m, n)).
    Raises: TypeError (dtype), ValueError (dimensions), LinAlgError (no convergence).
    Gradient: u diag(g) vh.

    >>> import cudamath as cm
    >>> cm.linalg.svdvals([[0.0, 2.0], [1.0, 0.0]]).tolist()
    [2.0, 1.0]
    """
    a = matrices("svdvals", a)
    return run(_svdvals, a) if a._node is None else run(_svd, a, full=False)[1]
