"""Least squares by Golub and Kahan's bidiagonalization: LSQR and LSMR (Paige and Saunders 1982,
Fong and
Saunders 2011), with their stopping criteria. Vectors stay on the device; the rotations are numbers
of the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.array import ndarray
from ...core.dtypes import result_type
from ...ops.creation import asarray, zeros
from .iterative import norm
from .operators import LinearOperator, device_of, operator_of

__all__ = ["lsmr", "lsqr"]


def _rotation(a: float, b: float) -> tuple[float, float, float]:
    """(c, s, r) with c a + s b = r and s a - c b = 0."""
    r = math.hypot(a, b)
    if a < 0 and abs(a) > abs(b):
        r = -r
    if not r:
        return 0.0, 0.0, 0.0
    if b < 0 and abs(b) >= abs(a):
        r = -r
    return a / r, b / r, r


def _problem(
    name: str, A: Any, b: Any, x0: Any
) -> tuple[LinearOperator, ndarray, ndarray, ndarray]:
    """(A, b, x, b - A x)."""
    operator = operator_of(name, A)
    m, n = operator.shape
    b = asarray(b, device=device_of(b, A, x0))
    if b.shape not in ((m,), (m, 1)) and not (b.ndim == 0 and m == 1):
        raise ValueError(f"{name}: wants b ({m},) for A of shape {operator.shape}, got {b.shape}")
    dtype = result_type(operator.dtype, b.dtype)
    dtype = np.dtype(np.float64) if dtype.kind in "biu" else dtype
    b = b.reshape(m).astype(dtype)
    if x0 is None:
        return operator, b, zeros(n, dtype=dtype, device=b.device), b
    x = asarray(x0, device=b.device)
    if x.size != n:
        raise ValueError(f"{name}: wants x0 ({n},), got shape {x.shape}")
    x = x.reshape(n).astype(dtype)
    return operator, b, x, b - operator.matvec(x)


def _unit(x: ndarray) -> tuple[ndarray, float]:
    """A vector of length 1, and the length that it had."""
    length = norm(x)
    return (x / length if length > 0 else x), length


def _reason(
    test1: float,
    test2: float,
    test3: float,
    t1: float,
    limits: tuple[float, float, float],
    last: bool,
) -> int:
    """Why an iteration ends, SciPy's number; 0 if it does not. The later tests count more."""
    rtol, atol, ctol = limits
    found = 0
    for number, ends in (
        (7, last),
        (6, 1 + test3 <= 1),
        (5, 1 + test2 <= 1),
        (4, 1 + t1 <= 1),
        (3, test3 <= ctol),
        (2, test2 <= atol),
        (1, test1 <= rtol),
    ):
        found = number if ends else found
    return found


def lsqr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: Any = None,
) -> tuple:
    """Solve least squares, min |b - A x|^2 + damp^2 |x - x0|^2, by LSQR.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (m, n), with `rmatvec`.
    b : array_like
        The right-hand side, of shape (m,).
    damp : float, default 0
        As above.
    atol : float, default 1e-6
        The iteration ends where |A^H r| <= atol |A| |r|.
    btol : float, default 1e-6
        It also ends where |r| <= btol |b| + atol |A| |x|.
    conlim : float, default 1e8
        It also ends where the condition number exceeds this number.
    iter_lim : int, optional
        The most steps; 2 n by default.
    show : bool, default False
        For SciPy's sake; nothing is printed.
    calc_var : bool, default False
        Whether to estimate the diagonal of (A^H A + damp^2 I)^-1.
    x0 : array_like, optional
        Where to begin.

    Returns
    -------
    x : ndarray
        The solution.
    istop : int
        1: A x = b; 2: least squares; 7: `iter_lim` was reached; others as in SciPy.
    itn : int
        The number of steps.
    r1norm : float
        |b - A x|.
    r2norm : float
        With the damping.
    anorm : float
        An estimate of |A| (Frobenius's).
    acond : float
        An estimate of the condition number.
    arnorm : float
        |A^H r|.
    xnorm : float
        |x|.
    var : ndarray
        The estimates of `calc_var`, else zeros.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> x, istop, *_ = cm.sparse.linalg.lsqr(A, cm.array([1.0, 2.0, 1.0]))
    >>> [round(float(v), 6) for v in x], istop
    ([1.0, 1.0], 1)
    """
    A, b, x, u = _problem("lsqr", A, b, x0)
    n = x.size
    most = 2 * n if iter_lim is None else int(iter_lim)
    var = zeros(n, dtype=np.float64, device=x.device)
    eps = float(np.finfo(np.float64).eps)
    whole = norm(b)
    u, beta = _unit(u)
    v, alpha = _unit(A.rmatvec(u)) if beta > 0 else (x, 0.0)
    if not alpha * beta:
        return x, 0, 0, beta, beta, 0.0, 0.0, 0.0, 0.0, var
    w = v
    ctol = 1 / conlim if conlim > 0 else 0.0
    rhobar, phibar = alpha, beta
    anorm = ddnorm = res2 = xxnorm = z = sine2 = 0.0
    cosine2 = -1.0
    istop, itn = 0, 0
    r1norm = r2norm = beta
    acond, arnorm, xnorm = 0.0, alpha * beta, 0.0
    while itn < most and not istop:
        itn += 1
        u, beta = _unit(A.matvec(v) - alpha * u)
        if beta > 0:
            anorm = math.sqrt(anorm**2 + alpha**2 + beta**2 + damp**2)
            v, alpha = _unit(A.rmatvec(u) - beta * v)
        rhobar1, psi = rhobar, 0.0
        if damp > 0:
            rhobar1 = math.hypot(rhobar, damp)
            psi, phibar = damp / rhobar1 * phibar, rhobar / rhobar1 * phibar
        c, s, rho = _rotation(rhobar1, beta)
        theta, rhobar = s * alpha, -c * alpha
        phi, phibar = c * phibar, s * phibar
        tau = s * phi
        ddnorm += (norm(w) / rho) ** 2
        if calc_var:
            var = var + (abs(w) / rho) ** 2
        x, w = x + (phi / rho) * w, v - (theta / rho) * w
        # A rotation from the right, for the length of x.
        delta, gambar = sine2 * rho, -cosine2 * rho
        rhs = phi - delta * z
        xnorm = math.sqrt(xxnorm + (rhs / gambar) ** 2)
        gamma = math.hypot(gambar, theta)
        cosine2, sine2, z = gambar / gamma, theta / gamma, rhs / gamma
        xxnorm += z**2
        acond = anorm * math.sqrt(ddnorm)
        res2 += psi**2
        r2norm = math.sqrt(phibar**2 + res2)
        arnorm = alpha * abs(tau)
        r1norm = r2norm
        if damp > 0:
            square = r2norm**2 - damp**2 * xxnorm
            r1norm = math.copysign(math.sqrt(abs(square)), square)
        test1, test2 = r2norm / whole, arnorm / (anorm * r2norm + eps)
        test3 = 1 / (acond + eps)
        istop = _reason(
            test1,
            test2,
            test3,
            test1 / (1 + anorm * xnorm / whole),
            (btol + atol * anorm * xnorm / whole, atol, ctol),
            itn >= most,
        )
    return x, istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var


def lsmr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    maxiter: int | None = None,
    show: bool = False,
    x0: Any = None,
) -> tuple:
    """Solve least squares, min |b - A x|^2 + damp^2 |x|^2, by LSMR: |A^H r| falls at every step.

    Parameters
    ----------
    A : sparse array, array_like or LinearOperator
        Of shape (m, n), with `rmatvec`.
    b : array_like
        The right-hand side, of shape (m,).
    damp : float, default 0
        As above.
    atol : float, default 1e-6
        The iteration ends where |A^H r| <= atol |A| |r|.
    btol : float, default 1e-6
        It also ends where |r| <= btol |b| + atol |A| |x|.
    conlim : float, default 1e8
        It also ends where the condition number exceeds this number.
    maxiter : int, optional
        The most steps; min(m, n) by default.
    show : bool, default False
        For SciPy's sake; nothing is printed.
    x0 : array_like, optional
        Where to begin.

    Returns
    -------
    x : ndarray
        The solution.
    istop : int
        1: A x = b; 2: least squares; 7: `maxiter` was reached; others as in SciPy.
    itn : int
        The number of steps.
    normr : float
        |b - A x|.
    normar : float
        |A^H r|.
    norma : float
        An estimate of |A| (Frobenius's).
    conda : float
        An estimate of the condition number.
    normx : float
        |x|.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> x, istop, *_ = cm.sparse.linalg.lsmr(A, cm.array([1.0, 2.0, 1.0]))
    >>> [round(float(v), 6) for v in x], istop
    ([1.0, 1.0], 1)
    """
    A, b, x, u = _problem("lsmr", A, b, x0)
    most = min(A.shape) if maxiter is None else int(maxiter)
    whole = norm(b)
    u, beta = _unit(u)
    v, alpha = (
        _unit(A.rmatvec(u)) if beta > 0 else (zeros(x.size, dtype=x.dtype, device=x.device), 0.0)
    )
    zetabar, alphabar = alpha * beta, alpha
    rho = rhobar = cbar = 1.0
    sbar = 0.0
    h, hbar = v, zeros(x.size, dtype=x.dtype, device=x.device)
    betadd, betad, rhodold = beta, 0.0, 1.0
    tautilde = thetatilde = zeta = d = 0.0
    square, largest, smallest = alpha**2, 0.0, 1e100
    ctol = 1 / conlim if conlim > 0 else 0.0
    istop, itn = 0, 0
    normr, normar, norma, conda, normx = beta, alpha * beta, alpha, 1.0, 0.0
    if not normar or not whole:
        return (x if not normar else 0 * x), istop, itn, normr, normar, norma, conda, normx
    while itn < most and not istop:
        itn += 1
        u, beta = _unit(A.matvec(v) - alpha * u)
        if beta > 0:
            v, alpha = _unit(A.rmatvec(u) - beta * v)
        chat, shat, alphahat = _rotation(alphabar, damp)
        rho_old = rho
        c, s, rho = _rotation(alphahat, beta)
        thetanew, alphabar = s * alpha, c * alpha
        rhobar_old, zeta_old = rhobar, zeta
        thetabar, rhotemp = sbar * rho, cbar * rho
        cbar, sbar, rhobar = _rotation(rhotemp, thetanew)
        zeta, zetabar = cbar * zetabar, -sbar * zetabar
        hbar = h - (thetabar * rho / (rho_old * rhobar_old)) * hbar
        x = x + (zeta / (rho * rhobar)) * hbar
        h = v - (thetanew / rho) * h
        # Rotations of the right-hand side, for |r|.
        betaacute, betacheck = chat * betadd, -shat * betadd
        betahat, betadd = c * betaacute, -s * betaacute
        theta_old = thetatilde
        ctilde, stilde, rhotilde = _rotation(rhodold, thetabar)
        thetatilde, rhodold = stilde * rhobar, ctilde * rhobar
        betad = -stilde * betad + ctilde * betahat
        tautilde = (zeta_old - theta_old * tautilde) / rhotilde
        taud = (zeta - thetatilde * tautilde) / rhodold
        d += betacheck**2
        normr = math.sqrt(d + (betad - taud) ** 2 + betadd**2)
        square += beta**2
        norma = math.sqrt(square)
        square += alpha**2
        largest = max(largest, rhobar_old)
        if itn > 1:
            smallest = min(smallest, rhobar_old)
        conda = max(largest, rhotemp) / min(smallest, rhotemp)
        normar, normx = abs(zetabar), norm(x)
        test1 = normr / whole
        test2 = normar / (norma * normr) if norma * normr else math.inf
        istop = _reason(
            test1,
            test2,
            1 / conda,
            test1 / (1 + norma * normx / whole),
            (btol + atol * norma * normx / whole, atol, ctol),
            itn >= most,
        )
    return x, istop, itn, normr, normar, norma, conda, normx
