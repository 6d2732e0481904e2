"""Where the special functions are compared with mpmath: regions of their domains, and mpmath's
formulas.

`python tests/support/special_domains.py` computes tests/data/special_values.npz anew (mpmath with
50 and with 80 digits, which must agree; eight minutes). The tests only read that file, by
`special_truth.py`. Arguments of the first half of each region are numbers of float32 where they
are in its range: they serve both dtypes.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

FILE = pathlib.Path(__file__).parents[1] / "data" / "special_values.npz"
COUNT = 80  # points in a region


def linear(low: float, high: float) -> Callable:
    """Numbers between these, evenly."""
    return lambda rng, n: rng.uniform(low, high, n)


def powers(low: float, high: float) -> Callable:
    """Numbers between these of one sign, whose logarithms lie evenly."""
    s = np.sign(low)
    return lambda rng, n: s * np.exp(rng.uniform(np.log(abs(low)), np.log(abs(high)), n))


def whole(low: int, high: int) -> Callable:
    return lambda rng, n: rng.integers(low, high + 1, n).astype(float)


def beside(center: float, least: float = 1e-12, most: float = 1e-2) -> Callable:
    """Numbers at distances of many sizes on both sides."""
    far = powers(least, most)
    return lambda rng, n: center + far(rng, n) * rng.choice([-1.0, 1.0], n)


def below(limit: float, least: float = 1e-15, most: float = 0.1) -> Callable:
    """Numbers at distances of many sizes below this one."""
    far = powers(least, most)
    return lambda rng, n: limit - far(rng, n)


U, P, N, B = linear, powers, whole, beside

#: Function -> its regions; a region has one drawing for each argument.
REGIONS: dict[str, list[tuple]] = {
    "erf": [(U(-1, 1),), (U(-6, 6),), (P(1e-300, 1e-5),)],
    "erfc": [(U(-6, 1),), (U(1, 26),)],
    "erfcx": [(U(-26, 0),), (U(0, 3),), (P(3, 1e9),)],
    "erfi": [(U(-1, 1),), (U(1, 26),), (P(1e-300, 1e-5),)],
    "dawsn": [(U(-1, 1),), (U(1, 6),), (P(6, 1e9),), (P(1e-300, 1e-5),)],
    "erfinv": [(U(-0.9, 0.9),), (below(1),), (P(1e-200, 1e-5),)],
    "erfcinv": [(U(0.1, 1.9),), (P(1e-300, 0.1),), (B(1),)],
    "ndtr": [(U(-1.4, 9),), (U(-37, -1.4),)],
    "log_ndtr": [(U(-5, 3),), (P(-5, -1e10),), (U(3, 37),)],
    "ndtri": [(U(0.05, 0.95),), (P(1e-300, 0.05),), (B(0.5),), (below(1),)],
    "gamma": [(U(0, 4),), (U(4, 33),), (U(33, 171.6),), (U(-33, 0),), (U(-170, -33),)],
    "gammaln": [
        (U(0, 4),),
        (U(4, 40),),
        (P(40, 1e10),),
        (P(1e-300, 0.1),),
        (U(-40, 0),),
        (B(1),),
        (B(2),),
    ],
    "loggamma": [(U(0, 4),), (U(4, 40),), (P(40, 1e10),), (P(1e-300, 0.1),), (B(1),), (B(2),)],
    "rgamma": [(U(-4, 4),), (U(4, 170),), (U(-30, -4),)],
    "digamma": [
        (U(0, 3),),
        (U(3, 60),),
        (P(60, 1e10),),
        (U(-20, 0),),
        (B(1.4616321449683623),),
        (B(-0.5040830082644554),),
        (P(1e-300, 0.1),),
    ],
    "polygamma": [(N(1, 5), U(0.1, 5)), (N(1, 5), P(5, 1e5)), (N(1, 5), U(-9, 0))],
    "beta": [
        (U(0, 5), U(0, 5)),
        (U(0, 100), U(0, 100)),
        (U(100, 400), U(0.1, 5)),
        (U(-5, 0), U(0, 20)),
    ],
    "betaln": [
        (U(0, 5), U(0, 5)),
        (U(0, 100), U(0, 100)),
        (U(100, 2000), U(100, 2000)),
        (P(1e3, 1e9), U(0.1, 50)),
        (U(-5, 0), U(0, 20)),
    ],
    "poch": [
        (U(0, 5), U(0, 5)),
        (U(0, 60), U(-20, 30)),
        (P(1e2, 1e6), U(0, 3)),
        (U(-5, 0), U(-10, 30)),
    ],
    "binom": [
        (U(0, 60), U(0, 60)),
        (U(0, 100), N(0, 19)),
        (U(-5, 0), U(-10, 30)),
        (P(1e2, 1e6), U(0, 5)),
    ],
    "xlogy": [(U(0, 5), U(0, 5)), (U(0, 5), B(1))],
    "xlog1py": [(U(0, 5), U(-0.9, 5)), (U(0, 5), P(1e-20, 1e-3))],
    "entr": [(U(0, 5),), (B(1),)],
    "rel_entr": [
        (U(0, 5), U(0, 5)),
        (P(1e-100, 1e100), P(1e-100, 1e100)),
        (U(0.9, 1.1), U(0.9, 1.1)),
    ],
    "kl_div": [
        (U(0, 5), U(0, 5)),
        (P(1e-100, 1e100), P(1e-100, 1e100)),
        (U(0.9, 1.1), U(0.9, 1.1)),
    ],
    "huber": [(U(0, 5), U(-5, 5))],
    "pseudo_huber": [(U(0, 5), U(-5, 5)), (P(1e-10, 1e10), P(1e-10, 1e10))],
    "expit": [(U(-5, 5),), (U(-700, 50),)],
    "log_expit": [(U(-5, 5),), (U(-700, 50),)],
    "logit": [(U(0, 1),), (P(1e-300, 0.1),), (B(0.5),)],
    "exprel": [(U(-5, 5),), (U(-50, 700),), (B(0),)],
    "gammainc": [
        (U(0, 5), U(0, 5)),
        (U(0, 60), U(0, 60)),
        (U(60, 190), U(60, 190)),
        (P(1e-10, 1), P(1e-10, 1)),
        (P(200, 1e4), None),
    ],
    "gammaincc": [
        (U(0, 5), U(0, 5)),
        (U(0, 60), U(0, 60)),
        (U(60, 190), U(60, 190)),
        (P(1e-10, 1), P(1e-10, 1)),
        (P(200, 1e4), None),
    ],
    "gammaincinv": [
        (U(0.5, 5), U(0, 1)),
        (U(5, 60), U(0, 1)),
        (U(60, 400), U(0, 1)),
        (U(0.5, 60), P(1e-100, 0.1)),
        (P(0.05, 0.5), U(0.01, 1)),
    ],
    "gammainccinv": [
        (U(0.5, 5), U(0, 1)),
        (U(5, 60), U(0, 1)),
        (U(60, 400), U(0, 1)),
        (U(0.5, 60), P(1e-100, 0.1)),
        (P(0.05, 0.5), P(1e-10, 0.5)),
    ],
    "betainc": [
        (U(0, 5), U(0, 5), U(0, 1)),
        (U(0, 60), U(0, 60), U(0, 1)),
        (U(60, 500), U(60, 500), U(0.3, 0.7)),
        (P(1e-3, 1e3), P(1e-3, 1e3), P(1e-10, 1)),
    ],
    "betaincc": [
        (U(0, 5), U(0, 5), U(0, 1)),
        (U(0, 60), U(0, 60), U(0, 1)),
        (U(60, 500), U(60, 500), U(0.3, 0.7)),
        (P(1e-3, 1e3), P(1e-3, 1e3), P(1e-10, 1)),
        (U(0.05, 1), P(20, 1e4), P(1e-8, 1e-4)),
    ],
    "betaincinv": [
        (U(0.5, 5), U(0.5, 5), U(0, 1)),
        (U(5, 60), U(5, 60), U(0, 1)),
        (U(0.5, 20), U(0.5, 20), P(1e-50, 0.1)),
        (U(0.5, 20), U(0.5, 20), below(1)),
    ],
    "chdtr": [(U(0.1, 40), U(0, 60)), (N(1, 10), P(1e-5, 30))],
    "chdtrc": [(U(0.1, 40), U(0, 60)), (N(1, 10), P(1e-5, 300))],
    "chdtri": [(U(1, 40), U(0, 1)), (N(1, 10), P(1e-50, 0.1))],
    "gdtr": [(U(0, 3), U(0, 20), U(0, 10))],
    "gdtrc": [(U(0, 3), U(0, 20), U(0, 10))],
    "pdtr": [(N(0, 40), U(0, 60)), (N(0, 10), P(1e-5, 100))],
    "pdtrc": [(N(0, 40), U(0, 60)), (N(0, 10), P(1e-5, 100))],
    "pdtri": [(N(0, 40), U(0, 1)), (N(0, 10), P(1e-50, 0.1))],
    "fdtr": [(U(0.1, 20), U(0.1, 20), U(0, 5)), (N(1, 60), N(1, 60), P(1e-3, 20))],
    "fdtrc": [(U(0.1, 20), U(0.1, 20), U(0, 5)), (N(1, 60), N(1, 60), P(1e-3, 20))],
    "fdtri": [(U(1, 20), U(1, 20), U(0, 1))],
    "stdtr": [(U(0.1, 30), U(-10, 10)), (N(1, 100), P(-1e-3, -50)), (N(1, 100), P(1e-3, 5))],
    "bdtr": [(N(0, 30), N(31, 60), U(0, 1)), (N(0, 5), N(6, 1000), P(1e-5, 1))],
    "bdtrc": [(N(0, 30), N(31, 60), U(0, 1)), (N(0, 5), N(6, 1000), P(1e-5, 1))],
    "bdtri": [(N(0, 30), N(31, 60), U(0, 1))],
    "nbdtr": [(N(0, 60), N(1, 60), U(0, 1))],
    "nbdtrc": [(N(0, 60), N(1, 60), U(0, 1))],
    "nbdtri": [(N(0, 60), N(1, 60), U(0, 1))],
    "j0": [(U(0, 5),), (U(5, 60),), (P(60, 1e5),)],
    "j1": [(U(0, 5),), (U(5, 60),), (P(60, 1e5),), (P(1e-20, 1e-3),)],
    "y0": [(U(0, 5),), (U(5, 60),), (P(60, 1e5),), (P(1e-20, 1e-3),)],
    "y1": [(U(0, 5),), (U(5, 60),), (P(60, 1e5),), (P(1e-20, 1e-3),)],
    "i0": [(U(0, 8),), (U(8, 700),)],
    "i0e": [(U(0, 8),), (P(8, 1e10),)],
    "i1": [(U(-8, 8),), (U(8, 700),)],
    "i1e": [(U(-8, 8),), (P(8, 1e10),)],
    "k0": [(U(0, 2),), (U(2, 700),), (P(1e-300, 0.1),)],
    "k0e": [(U(0, 2),), (P(2, 1e10),), (P(1e-300, 0.1),)],
    "k1": [(U(0, 2),), (U(2, 700),), (P(1e-300, 0.1),)],
    "k1e": [(U(0, 2),), (P(2, 1e10),), (P(1e-300, 0.1),)],
    "yn": [(N(2, 20), U(0.5, 60)), (N(40, 60), U(0.4, 3))],
    "jn": [(N(2, 20), U(0, 60)), (N(2, 20), P(1e-5, 1))],
    "spherical_yn": [(N(0, 20), U(0.5, 60))],
    "wright_bessel": [
        (U(0.001, 2), U(0.01, 5), U(0, 20)),
        (U(0.3, 2), U(0.5, 4), P(20, 1e4)),
        (U(1, 100), U(1, 150), P(1, 1e6)),
    ],
    "exp1": [(U(0, 1),), (U(1, 700),), (P(1e-300, 0.1),)],
    "expi": [(U(0, 6),), (U(6, 40),), (U(40, 700),), (U(-50, 0),), (B(0.37250741078136663),)],
    "expn": [(N(2, 50), U(0, 1)), (N(2, 50), U(1, 100)), (N(51, 500), U(0, 100))],
    "ellipk": [(U(-20, 0.9),), (below(1),)],
    "ellipkm1": [(U(0, 1),), (P(1e-300, 0.1),), (U(1, 30),)],
    "ellipe": [(U(-20, 1),), (P(-20, -1e10),), (P(1e-20, 0.1),), (U(-40, -9),)],
    "sindg": [(U(-2000, 2000),), (P(1e-20, 1),)],
    "cosdg": [(U(-2000, 2000),)],
    "tandg": [(U(-2000, 2000),)],
    "cotdg": [(U(-2000, 2000),)],
    "radian": [(N(0, 90), N(0, 60), U(0, 60))],
    "cosm1": [(U(-5, 5),), (P(1e-100, 0.1),)],
    "exp10": [(U(-5, 5),), (U(-300, 300),)],
    "boxcox": [
        (U(0, 5), U(-3, 3)),
        (P(1e-50, 1e50), U(-3, 3)),
        (B(1), U(-3, 3)),
        (U(0, 5), P(1e-20, 0.1)),
    ],
    "boxcox1p": [(U(-0.99, 5), U(-3, 3)), (P(1e-50, 1e50), U(-3, 3)), (U(0, 5), P(1e-20, 0.1))],
    "inv_boxcox": [(U(0, 5), U(0, 3)), (U(0, 5), P(1e-20, 0.1)), (P(1e-20, 1), U(-0.9, 0.9))],
    "inv_boxcox1p": [(U(0, 5), U(0, 3)), (U(0, 5), P(1e-20, 0.1)), (P(1e-20, 1), U(-0.9, 0.9))],
    "zeta": [
        (U(1, 60),),
        (U(-1, 1),),
        (U(-60, -1),),
        (U(1, 20), U(0.01, 20)),
        (U(1, 20), P(20, 1e6)),
    ],
    "zetac": [(U(2, 60),), (U(-1, 1),), (U(-60, -1),)],
    "ellipkinc": [(U(-1.5, 1.5), U(-5, 1)), (U(-30, 30), U(-5, 0.99)), (U(0, 1.57), below(1.0))],
    "ellipeinc": [(U(-1.5, 1.5), U(-5, 1)), (U(-30, 30), U(-5, 0.99)), (U(0, 1.57), below(1.0))],
    "sici[0]": [(U(-2, 2),), (U(2, 60),), (P(60, 1e6),)],
    "sici[1]": [(U(0, 2),), (U(2, 60),), (P(60, 1e6),)],
    "shichi[0]": [(U(-2, 2),), (U(2, 60),), (U(60, 700),), (U(709, 710.4),)],
    "shichi[1]": [(U(0, 2),), (U(2, 60),), (U(60, 700),), (U(709, 710.4),)],
    "lpmv": [(N(0, 4), N(0, 20), U(-1, 1))],
    "lambertw": [(U(-0.36, 3),), (P(3, 1e300),), (P(1e-300, 0.1),), (U(-0.3678, -0.3),)],
}


def arguments(name: str) -> tuple[np.ndarray, ...]:
    """The points, as rows of one array for each argument: (regions, COUNT). A missing argument of
    a region is NaN."""
    rng = np.random.default_rng([*name.encode()])
    regions = REGIONS[name]
    most = max(map(len, regions))
    all_points = np.full((most, len(regions), COUNT), np.nan)
    for r, region in enumerate(regions):
        for i, draw in enumerate(region):
            if draw is None:  # beside the argument before: where the function goes from 0 to 1
                a = all_points[i - 1, r]
                points = a + np.sqrt(a) * rng.uniform(-5, 5, COUNT)
            else:
                points = draw(rng, COUNT)
            half = points[: COUNT // 2]
            fits = (np.abs(half) > 1e-37) & (np.abs(half) < 1e38)
            narrow = half.copy()
            narrow[fits] = half[fits].astype(np.float32)
            fits &= (narrow != np.round(narrow)) | (half == narrow)  # not onto a pole or zero
            half[fits] = narrow[fits]
            all_points[i, r] = points
    if name in ("bdtr", "bdtrc", "bdtri"):  # at most n of n
        all_points[1] = np.maximum(all_points[0] + 1, all_points[1])
    return tuple(all_points)


# -------------------- mpmath


def context(digits: int) -> Any:
    import mpmath

    mp = mpmath.mp.clone() if hasattr(mpmath.mp, "clone") else mpmath.mp
    mp.dps = digits
    return mp


def lower_gamma(mp, a, x):
    """The regularized lower function by a series of positive numbers."""
    if x == 0:
        return mp.zero
    term = total = mp.one
    n = 0
    while term > total * mp.eps * mp.mpf(10) ** -5 or n < x - a:
        n += 1
        term *= x / (a + n)
        total += term
    return mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1)) * total


def upper_gamma(mp, a, x):
    """1 - the lower one, with as many digits more as that costs."""
    digits = mp.dps
    y = 1 - lower_gamma(mp, a, x)
    while y < mp.mpf(10) ** (digits - mp.dps - 5):
        mp.dps += 40 + int(x / 2)
        y = 1 - lower_gamma(mp, +a, +x)
    mp.dps = digits
    return +y


def lower_beta(mp, a, b, x, rest=None):
    """The regularized lower function; rest: 1 - x."""
    rest = 1 - x if rest is None else rest
    if x <= 0 or rest <= 0:
        return mp.zero if x <= 0 else mp.one
    if x > a / (a + b) and x > 0.5:
        return complement(mp, lambda: lower_beta_series(mp, b, a, rest, x))
    return lower_beta_series(mp, a, b, x, rest)


def lower_beta_series(mp, a, b, x, rest):
    term = total = mp.one
    n = 0
    while term > total * mp.eps * mp.mpf(10) ** -5 or (a + b + n) * x > a + 1 + n:
        term *= (a + b + n) / (a + 1 + n) * x
        n += 1
        total += term
    log = mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b)
    return mp.exp(a * mp.log(x) + b * mp.log(rest) + log) * total


def complement(mp, function):
    """1 - what the function gives, with as many digits more as that costs."""
    digits = mp.dps
    y = 1 - function()
    while y < mp.mpf(10) ** (digits - mp.dps - 5):
        mp.dps = 2 * mp.dps + 40
        y = 1 - function()
        if mp.dps > 3000:
            raise ArithmeticError("complement")
    mp.dps = digits
    return +y


def upper_beta(mp, a, b, x, rest=None):
    rest = 1 - x if rest is None else rest
    return lower_beta(mp, b, a, rest, x)


def solved(mp, function, low, high, rising=True):
    """Where the function, which rises or falls, is 0: its bounds are halved, then the secant."""
    digits = mp.dps
    mp.dps = 25
    a, b = mp.mpf(low), mp.mpf(high)
    for _ in range(90):
        middle = (a + b) / 2
        if (function(middle) < 0) == rising:
            a = middle
        else:
            b = middle
        if abs(b - a) < mp.mpf(2) ** -40 * max(abs(a), mp.mpf(10) ** -300):
            break
    mp.dps = digits + 10
    x, y = a, b
    fx, fy = function(x), function(y)
    for _ in range(30):
        if fx == fy:
            break
        x, y = y, y - fy * (y - x) / (fy - fx)
        fx, fy = fy, function(y)
        if abs(y - x) <= abs(y) * mp.mpf(10) ** (-digits + 5):
            break
    mp.dps = digits
    return +y


def inverse_gamma(mp, a, p, upper):
    """By t = log(x)."""
    f = upper_gamma if upper else lower_gamma
    log = mp.log(p)
    low, high = -2000 / min(a, 1), mp.log(a + 30 * mp.sqrt(a) + 300)
    return mp.exp(solved(mp, lambda t: mp.log(f(mp, a, mp.exp(t))) - log, low, high, not upper))


def inverse_beta(mp, a, b, p):
    """By the logarithm of x, or of 1 - x where that is smaller."""
    half = lower_beta(mp, a, b, mp.mpf("0.5"))
    log, other = mp.log(p), mp.log1p(-p)
    if half > p:
        t = solved(mp, lambda t: mp.log(lower_beta(mp, a, b, mp.exp(t))) - log, -1500, 0)
        return mp.exp(t)
    t = solved(
        mp,
        lambda t: mp.log(upper_beta(mp, a, b, 1 - mp.exp(t), mp.exp(t))) - other,
        -1500, 0,
    )  # fmt: skip
    return 1 - mp.exp(t)


def normal(mp, x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def inverse_normal(mp, p):
    if p < 0.5:
        x = solved(mp, lambda x: mp.log(normal(mp, x)) - mp.log(p), -40, 0)
    elif p == 0.5:
        return mp.zero
    else:
        x = -solved(mp, lambda x: mp.log(normal(mp, x)) - mp.log(1 - p), -40, 0)
    return x


def degrees(mp, function, x):
    return function(x * mp.pi / 180)


def inverse_erf(mp, y):
    if abs(y) < mp.mpf(10) ** -6:
        return mp.erfinv(y)
    s = mp.sign(y)
    rest = 1 - abs(y)
    return s * solved(mp, lambda x: mp.log(mp.erfc(x)) - mp.log(rest), 0, 30, False)


def inverse_erfc(mp, y):
    if y > 1:
        return inverse_erf(mp, 1 - y)
    return solved(mp, lambda x: mp.log(mp.erfc(x)) - mp.log(y), 0, 30, False) if y < 1 else mp.zero


def student(mp, v, t):
    tail = lower_beta(mp, v / 2, mp.mpf("0.5"), v / (v + t * t), t * t / (v + t * t)) / 2
    return tail if t < 0 else 1 - tail


def legendre(mp, m, v, x):
    """With the phase of Condon and Shortley: by the derivatives of the polynomial."""
    m, v = int(m), int(v)
    if m > v:
        return mp.zero
    now, last = mp.one, mp.zero
    for k in range(1, m + 1):
        now *= -(2 * k - 1) * mp.sqrt((1 - x) * (1 + x))
    for k in range(m + 1, v + 1):
        now, last = ((2 * k - 1) * x * now - (k + m - 1) * last) / (k - m), now
    return now


def boxed(mp, x, lam):
    return mp.expm1(lam * mp.log(x)) / lam


def unboxed(mp, x, lam):
    return mp.log1p(lam * x) / lam


def log_of_normal(mp, x):
    return mp.log(normal(mp, x)) if x < 0 else mp.log1p(-normal(mp, -x))


def log1mexp(mp, x):
    return -mp.log1p(mp.exp(-x)) if x > 0 else x - mp.log1p(mp.exp(x))


def expint(mp, n, x):
    """By the incomplete gamma function of whole orders: from E1 down the recurrence, with digits
    to spare."""
    digits = mp.dps
    mp.dps = digits * 4 + int(2 * n)
    n = int(n)
    y = mp.e1(x)
    for k in range(1, n):
        y = (mp.exp(-x) - x * y) / k
    mp.dps = digits
    return +y


def hurwitz(mp, x, q):
    """mpmath's has so many digits after the point, not of the number."""
    digits = mp.dps
    mp.dps += 20 + int(x * mp.log10(q + 1))
    y = mp.zeta(x, q)
    mp.dps = digits
    return +y


def wright(mp: Any, a: Any, b: Any, x: Any) -> Any:
    """The sum of x^k / (k! gamma(a k + b)), term by term."""
    total, k, largest, power = mp.zero, 0, mp.zero, mp.one
    while True:
        term = power * mp.rgamma(a * k + b)
        total += term
        if term < largest and term < total * mp.eps / 100:
            return total
        largest = max(largest, term)
        k += 1
        power *= x / k


TRUTH: dict[str, Callable] = {
    "erf": lambda mp, x: mp.erf(x),
    "erfc": lambda mp, x: mp.erfc(x),
    "erfi": lambda mp, x: mp.erfi(x),
    "dawsn": lambda mp, x: x * mp.hyp1f1(1, mp.mpf(3) / 2, -x * x),
    "erfcx": lambda mp, x: (
        mp.exp(x * x) * mp.erfc(x)
        if x < 1e4
        else mp.quad(lambda t: mp.exp(-t - t * t / (4 * x * x)), [0, 10, 50, 200])
        / x
        / mp.sqrt(mp.pi)
    ),
    "erfinv": inverse_erf,
    "erfcinv": inverse_erfc,
    "ndtr": normal,
    "log_ndtr": log_of_normal,
    "ndtri": inverse_normal,
    "gamma": lambda mp, x: mp.gamma(x),
    "gammaln": lambda mp, x: mp.re(mp.loggamma(x)),
    "loggamma": lambda mp, x: mp.loggamma(x),
    "rgamma": lambda mp, x: mp.rgamma(x),
    "digamma": lambda mp, x: mp.digamma(x),
    "polygamma": lambda mp, n, x: mp.polygamma(int(n), x),
    "beta": lambda mp, a, b: mp.gamma(a) * mp.gamma(b) * mp.rgamma(a + b),
    "betaln": lambda mp, a, b: mp.re(mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)),
    "poch": lambda mp, a, m: mp.gamma(a + m) * mp.rgamma(a),
    "binom": lambda mp, n, k: mp.gamma(n + 1) * mp.rgamma(k + 1) * mp.rgamma(n - k + 1),
    "xlogy": lambda mp, x, y: x * mp.log(y),
    "xlog1py": lambda mp, x, y: x * mp.log1p(y),
    "entr": lambda mp, x: -x * mp.log(x),
    "rel_entr": lambda mp, x, y: x * mp.log(x / y),
    "kl_div": lambda mp, x, y: x * mp.log(x / y) - x + y,
    "huber": lambda mp, d, r: r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2),
    "pseudo_huber": lambda mp, d, r: r * r / (1 + mp.sqrt(1 + (r / d) ** 2)),
    "expit": lambda mp, x: 1 / (1 + mp.exp(-x)),
    "log_expit": log1mexp,
    "logit": lambda mp, x: mp.log(x) - mp.log1p(-x),
    "exprel": lambda mp, x: mp.expm1(x) / x,
    "gammainc": lower_gamma,
    "gammaincc": upper_gamma,
    "gammaincinv": lambda mp, a, p: inverse_gamma(mp, a, p if p < 0.5 else 1 - p, p >= 0.5),
    "gammainccinv": lambda mp, a, q: inverse_gamma(mp, a, q if q < 0.5 else 1 - q, q < 0.5),
    "betainc": lower_beta,
    "betaincc": upper_beta,
    "betaincinv": inverse_beta,
    "chdtr": lambda mp, v, x: lower_gamma(mp, v / 2, x / 2),
    "chdtrc": lambda mp, v, x: upper_gamma(mp, v / 2, x / 2),
    "chdtri": lambda mp, v, p: 2 * inverse_gamma(mp, v / 2, p if p < 0.5 else 1 - p, p < 0.5),
    "gdtr": lambda mp, a, b, x: lower_gamma(mp, b, a * x),
    "gdtrc": lambda mp, a, b, x: upper_gamma(mp, b, a * x),
    "pdtr": lambda mp, k, m: upper_gamma(mp, k + 1, m),
    "pdtrc": lambda mp, k, m: lower_gamma(mp, k + 1, m),
    "pdtri": lambda mp, k, y: inverse_gamma(mp, k + 1, y if y < 0.5 else 1 - y, y < 0.5),
    "fdtr": lambda mp, a, b, x: lower_beta(mp, a / 2, b / 2, a * x / (b + a * x), b / (b + a * x)),
    "fdtrc": lambda mp, a, b, x: lower_beta(mp, b / 2, a / 2, b / (b + a * x), a * x / (b + a * x)),
    "fdtri": lambda mp, a, b, p: (lambda w: b * w / (a * (1 - w)))(
        inverse_beta(mp, a / 2, b / 2, p)
    ),
    "stdtr": student,
    "bdtr": lambda mp, k, n, p: lower_beta(mp, n - k, k + 1, 1 - p, p) if k < n else mp.one,
    "bdtrc": lambda mp, k, n, p: lower_beta(mp, k + 1, n - k, p),
    "bdtri": lambda mp, k, n, y: inverse_beta(mp, k + 1, n - k, 1 - y),
    "nbdtr": lambda mp, k, n, p: lower_beta(mp, n, k + 1, p),
    "nbdtrc": lambda mp, k, n, p: lower_beta(mp, k + 1, n, 1 - p, p),
    "nbdtri": lambda mp, k, n, y: inverse_beta(mp, n, k + 1, y),
    "j0": lambda mp, x: mp.besselj(0, x),
    "j1": lambda mp, x: mp.besselj(1, x),
    "y0": lambda mp, x: mp.bessely(0, x),
    "y1": lambda mp, x: mp.bessely(1, x),
    "i0": lambda mp, x: mp.besseli(0, x),
    "i0e": lambda mp, x: mp.besseli(0, x) * mp.exp(-abs(x)),
    "i1": lambda mp, x: mp.besseli(1, x),
    "i1e": lambda mp, x: mp.besseli(1, x) * mp.exp(-abs(x)),
    "k0": lambda mp, x: mp.besselk(0, x),
    "k0e": lambda mp, x: mp.besselk(0, x) * mp.exp(x),
    "k1": lambda mp, x: mp.besselk(1, x),
    "k1e": lambda mp, x: mp.besselk(1, x) * mp.exp(x),
    "yn": lambda mp, n, x: mp.bessely(n, x),
    "jn": lambda mp, n, x: mp.besselj(n, x),
    "spherical_yn": lambda mp, n, x: mp.sqrt(mp.pi / (2 * x)) * mp.bessely(n + mp.mpf("0.5"), x),
    "wright_bessel": wright,
    "exp1": lambda mp, x: mp.e1(x),
    "expi": lambda mp, x: mp.ei(x),
    "expn": expint,
    "ellipk": lambda mp, m: mp.ellipk(m),
    "ellipkm1": lambda mp, p: mp.pi / 2 / mp.agm(1, mp.sqrt(p)),
    "ellipe": lambda mp, m: mp.ellipe(m),
    "sindg": lambda mp, x: degrees(mp, mp.sin, x),
    "cosdg": lambda mp, x: degrees(mp, mp.cos, x),
    "tandg": lambda mp, x: degrees(mp, mp.tan, x),
    "cotdg": lambda mp, x: degrees(mp, mp.cot, x),
    "radian": lambda mp, d, m, s: degrees(mp, lambda x: x, d + m / 60 + s / 3600),
    "cosm1": lambda mp, x: -2 * mp.sin(x / 2) ** 2,
    "exp10": lambda mp, x: mp.mpf(10) ** x,
    "boxcox": boxed,
    "boxcox1p": lambda mp, x, lam: mp.expm1(lam * mp.log1p(x)) / lam,
    "inv_boxcox": lambda mp, x, lam: mp.exp(unboxed(mp, x, lam)),
    "inv_boxcox1p": lambda mp, x, lam: mp.expm1(unboxed(mp, x, lam)),
    "zeta": lambda mp, x, q=None: mp.zeta(x) if q is None else hurwitz(mp, x, q),
    "zetac": lambda mp, x: mp.zeta(x) - 1,
    "ellipkinc": lambda mp, phi, m: mp.ellipf(phi, m),
    "ellipeinc": lambda mp, phi, m: mp.ellipe(phi, m),
    "sici[0]": lambda mp, x: mp.si(x),
    "sici[1]": lambda mp, x: mp.ci(x),
    "shichi[0]": lambda mp, x: mp.shi(x),
    "shichi[1]": lambda mp, x: mp.re(mp.chi(x)),
    "lpmv": legendre,
    "lambertw": lambda mp, x: mp.re(mp.lambertw(x)),
}


def split(value: Any) -> tuple[float, float]:
    """A number of mpmath as the sum of two of float64, of which the first is it rounded."""
    high = float(value)
    return high, float(value - high) if np.isfinite(high) else 0.0


def values(name: str, digits: int = 50) -> np.ndarray:
    """(2, regions, COUNT): the function at its points, as two numbers each. Twice, with more digits
    the second time: they must agree."""
    points = np.stack(arguments(name))
    result = np.zeros((2, *points.shape[1:]))
    for at in np.ndindex(*points.shape[1:]):
        given = [x for x in points[(slice(None), *at)] if x == x]
        both = []
        for more in (0, 30):
            mp = context(digits + more)
            both.append(split(TRUTH[name](mp, *[mp.mpf(float(x)) for x in given])))
        (a, b), (c, d) = both
        if a != c or abs(b - d) > 1e-25 * abs(a):
            raise ArithmeticError(f"{name}{given}: {both}")
        result[(slice(None), *at)] = both[1]
    return result


def main() -> None:
    names = sys.argv[1:] or list(REGIONS)
    known = dict(np.load(FILE)) if FILE.exists() and sys.argv[1:] else {}
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for name, found in zip(names, pool.map(guarded, names), strict=True):
            if isinstance(found, str):
                print(found, flush=True)
                continue
            known[f"{name}.points"] = np.stack(arguments(name))
            known[f"{name}.values"] = found
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **known)


def guarded(name: str) -> np.ndarray | str:
    try:
        return values(name)
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
