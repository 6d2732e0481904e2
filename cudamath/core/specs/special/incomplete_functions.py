"""The incomplete gamma and beta functions, and their inverses.

Gamma: the series DLMF 8.11.4, the continued fraction 8.9.2, and Temme's expansion 8.12 where a is
large and x near it. Beta: the series 8.17.7 and the continued fraction of DiDonato & Morris (ACM
TOMS 708, 1992). What stands before them is computed with Lanczos' approximation so that neither
overflows nor loses digits: Boost's Math Toolkit, "Incomplete Beta Functions". Inverses: Newton's
method on logarithms between bounds.
"""

from __future__ import annotations

import math

from .error_functions import ndtri
from .gamma_functions import betaln, gamma, gammaln, zeta
from .polynomials import horner
from .rounding import floor
from .temme_coefficients import TEMME

EPSILON = 1.1102230246251565e-16
EULER = 0.5772156649015329
LANCZOS_G = 6.024680040776729583740234375
E = 2.718281828459045
LANCZOS_P = (
    0.006061842346248907,
    0.5098416655656676,
    19.519927882476175,
    449.9445569063168,
    6955.999602515376,
    75999.29304014542,
    601859.6171681099,
    3481712.154980646,
    14605578.087685067,
    43338889.32467614,
    86363131.2881386,
    103794043.11634454,
    56906521.913471565,
)
LANCZOS_Q = (
    1.0,
    66.0,
    1925.0,
    32670.0,
    357423.0,
    2637558.0,
    13339535.0,
    45995730.0,
    105258076.0,
    150917976.0,
    120543840.0,
    39916800.0,
    0.0,
)
LANCZOS_P_UP = (
    56906521.913471565,
    103794043.11634454,
    86363131.2881386,
    43338889.32467614,
    14605578.087685067,
    3481712.154980646,
    601859.6171681099,
    75999.29304014542,
    6955.999602515376,
    449.9445569063168,
    19.519927882476175,
    0.5098416655656676,
    0.006061842346248907,
)
LANCZOS_Q_UP = (
    0.0,
    39916800.0,
    120543840.0,
    150917976.0,
    105258076.0,
    45995730.0,
    13339535.0,
    2637558.0,
    357423.0,
    32670.0,
    1925.0,
    66.0,
    1.0,
)


def lanczos(x):
    """gamma(x) by (x + g - 1/2)^(x - 1/2) exp(1/2 - x), in Lanczos' approximation."""
    if x > 1.0:
        return horner(1.0 / x, LANCZOS_P_UP) / horner(1.0 / x, LANCZOS_Q_UP)
    return horner(x, LANCZOS_P) / horner(x, LANCZOS_Q)


def log1p_rest(x):
    """log(1 + x) - x."""
    if abs(x) >= 0.5:
        return math.log1p(x) - x
    power = x
    y = 0.0
    n = 2.0
    while n < 500.0:
        power *= -x
        term = power / n
        y += term
        if abs(term) < EPSILON * abs(y):
            break
        n += 1.0
    return y


def gamma_power(a, x):
    """x^a exp(-x) / gamma(a)."""
    if abs(a - x) > 0.4 * abs(a):
        y = a * math.log(x) - x - gammaln(a)
        return 0.0 if y < -745.0 else math.exp(y)
    f = a + LANCZOS_G - 0.5
    y = math.sqrt(f / E) / lanczos(a)
    if a < 200.0 and x < 200.0:
        return y * math.exp(a - x) * (x / f) ** a
    rest = x - a - LANCZOS_G + 0.5
    return y * math.exp(a * log1p_rest(rest / f) + x * (0.5 - LANCZOS_G) / f)


def gamma_series(a, x):
    """The lower function, by gamma_power."""
    r = a
    c = 1.0
    y = 1.0
    for _ in range(2000):
        r += 1.0
        c *= x / r
        y += c
        if c <= EPSILON * y:
            break
    return y / a


def gamma_fraction(a, x):
    """The upper function, by gamma_power. Of moderate numbers the continued fraction is computed
    from its end, which costs no digits."""
    if a < 30.0:
        k = 40.0 + floor(250.0 / x)
        t = 0.0
        while k > 0.0:
            t = k * (k - a) / (x + 2.0 * k + 1.0 - a - t)
            k -= 1.0
        return 1.0 / (x + 1.0 - a - t)
    y = 1.0 - a
    z = x + y + 1.0
    c = 0.0
    p2 = 1.0
    q2 = x
    p1 = x + 1.0
    q1 = z * x
    r = p1 / q1
    for _ in range(2000):
        c += 1.0
        y += 1.0
        z += 2.0
        p = p1 * z - p2 * y * c
        q = q1 * z - q2 * y * c
        change = 1.0
        if q != 0.0:
            change = abs((r - p / q) * q / p)
            r = p / q
        p2 = p1
        p1 = p
        q2 = q1
        q1 = q
        if abs(p) > 4503599627370496.0:
            p2 *= EPSILON
            p1 *= EPSILON
            q2 *= EPSILON
            q1 *= EPSILON
        if change <= EPSILON:
            break
    return r


def gamma_temme(a, x, s):
    """The upper function (s = 1) or the lower (s = -1), where a is large and x near it."""
    eta = math.copysign(math.sqrt(-2.0 * log1p_rest((x - a) / a)), x - a)
    y = 0.5 * math.erfc(s * eta * math.sqrt(0.5 * a))
    total = 0.0
    factor = 1.0
    before = math.inf
    for k in range(25):
        c = TEMME[k, 0]
        power = 1.0
        for n in range(1, 25):
            power *= eta
            term = TEMME[k, n] * power
            c += term
            if abs(term) < EPSILON * abs(c):
                break
        term = c * factor
        if abs(term) > before:
            break
        total += term
        if abs(term) < EPSILON * abs(total):
            break
        before = abs(term)
        factor /= a
    return y + s * math.exp(-0.5 * a * eta * eta) * total / math.sqrt(2.0 * math.pi * a)


def loggamma1p(x):
    """log gamma(1 + x), near 0 and 1 by the series of zetas."""
    if abs(x) <= 0.5:
        return loggamma1p_series(x)
    if abs(x - 1.0) < 0.5:
        return math.log(x) + loggamma1p_series(x - 1.0)
    return gammaln(x + 1.0)


def loggamma1p_series(x):
    if x == 0.0:
        return 0.0
    y = -EULER * x
    power = -x
    n = 2.0
    while n < 42.0:
        power *= -x
        term = zeta(n, 1.0) * power / n
        y += term
        if abs(term) < EPSILON * abs(y):
            break
        n += 1.0
    return y


def gamma_upper_series(a, x):
    """The upper function of small a and x."""
    f = 1.0
    total = 0.0
    n = 1.0
    while n < 2000.0:
        f *= -x / n
        term = f / (a + n)
        total += term
        if abs(term) <= EPSILON * abs(total):
            break
        n += 1.0
    log = a * math.log(x)
    return -math.expm1(log - loggamma1p(a)) - math.exp(log - gammaln(a)) * total


def gamma_part(a, x, upper):
    """The regularized lower or upper incomplete gamma function."""
    if a != a or x != x or a < 0.0 or x < 0.0:
        return math.nan
    if a == 0.0:
        return (0.0 if upper else 1.0) if x > 0.0 else math.nan
    if x == 0.0:
        return 1.0 if upper else 0.0
    if math.isinf(a):
        return math.nan if math.isinf(x) else (1.0 if upper else 0.0)
    if math.isinf(x):
        return 0.0 if upper else 1.0
    far = abs(x - a) / a
    if (a > 20.0 and a < 200.0 and far < 0.3) or (
        a > 200.0 and (far < 4.5 / math.sqrt(a) or (a > 1e4 and far < 0.3))
    ):
        return gamma_temme(a, x, 1.0 if upper else -1.0)
    small = False  # the upper function is near 1, or the lower is wanted, and the series converges
    by_upper_series = False
    if x > 1.1:
        small = x < a
    elif x <= 0.5:
        small = -0.4 / math.log(x) < a
        by_upper_series = not small
    else:
        small = x * 1.1 < a
        by_upper_series = not small
    if not upper and x <= max(1.0, a):
        small = True
        by_upper_series = False
    if by_upper_series:
        y = gamma_upper_series(a, x)
        return y if upper else 1.0 - y
    y = gamma_power(a, x)
    if y == 0.0:
        return 1.0 if upper == small else 0.0
    if small:
        y *= gamma_series(a, x)
        return 1.0 - y if upper else y
    y *= gamma_fraction(a, x)
    return y if upper else 1.0 - y


def gammainc(a, x):
    return gamma_part(a, x, False)


def gammaincc(a, x):
    return gamma_part(a, x, True)


def gammainc_slope(a, x):
    """The derivative of gammainc by x: x^(a - 1) exp(-x) / gamma(a)."""
    if x < 0.0 or not a > 0.0:
        return math.nan
    if x == 0.0:
        return 0.0 if a > 1.0 else (1.0 if a == 1.0 else math.inf)
    return 0.0 if math.isinf(x) else gamma_power(a, x) / x


def gamma_guess(a, p, q):
    """Where the lower function is p and the upper q, roughly."""
    if a > 1.0:  # Wilson and Hilferty
        s = ndtri(p) if p < 0.5 else -ndtri(q)
        u = 1.0 - 1.0 / (9.0 * a) + s / (3.0 * math.sqrt(a))
        x = a * u * u * u if u > 0.0 else 0.0
        if x < 0.15 * (a + 1.0):  # the first term of the series
            v = math.log(p) + gammaln(a + 1.0)
            x = math.exp((v + x) / a)
            x = math.exp((v + x - math.log1p(x / (a + 1.0) * (1.0 + x / (a + 2.0)))) / a)
        return x
    t = 1.0 - a * (0.253 + a * 0.12)
    if p < t:
        return math.exp(math.log(p / t) / a)
    y = q * gamma(a)
    if y < 1e-3:
        y = -math.log(y)
        return y + (a - 1.0) * math.log(y)
    return 1.0 - math.log(q / (1.0 - t))


def gamma_inverse(a, p, q, upper):
    """The x where the lower function is p, or the upper q = 1 - p: Newton's and Halley's method for
    the logarithms of both, between bounds."""
    x = gamma_guess(a, p, q)
    if x == 0.0:
        return 0.0
    wanted = q if upper else p
    low = 0.0
    high = math.inf
    for _ in range(60):
        part = gamma_part(a, x, upper)
        if part == wanted:
            return x
        if (part > wanted) != upper:
            high = x
        else:
            low = x
        step = log_step(part, wanted, gamma_power(a, x))
        if upper:
            step = -step
        bend = 1.0 - 0.5 * step * (a - x)
        if abs(step) < 0.1 and bend > 0.5 and abs(part - wanted) < 0.1 * wanted:
            step /= bend
        new = between(moved(x, step), low, high)
        if abs(new - x) <= 2.0 * EPSILON * x:
            return new
        x = new
    return x


def log_step(part, wanted, slope):
    """log(part / wanted) by the derivative of log(part), of which slope / part is one."""
    if part == 0.0 or slope == 0.0:
        return math.copysign(math.inf, part - wanted)
    return math.log1p((part - wanted) / wanted) * part / slope


def moved(x, step):
    """x exp(-step), no further than a factor of eight."""
    if abs(step) < 1e-3:
        return x - x * step * (1.0 - 0.5 * step)
    return x * math.exp(-min(max(step, -2.0), 2.0))


def between(new, low, high):
    """new, if it lies between the bounds, else what halves them."""
    if new > low and new < high:
        return new
    if math.isinf(high):
        return 2.0 * low
    return 0.25 * high if low == 0.0 else math.sqrt(low) * math.sqrt(high)


def gammaincinv(a, p):
    if a != a or p != p or a < 0.0 or p < 0.0 or p > 1.0:
        return math.nan
    if p == 0.0:
        return 0.0
    if p == 1.0:
        return math.inf
    return math.nan if a == 0.0 or math.isinf(a) else gamma_inverse(a, p, 1.0 - p, p > 0.9)


def gammainccinv(a, q):
    if a != a or q != q or a < 0.0 or q < 0.0 or q > 1.0:
        return math.nan
    if q == 0.0:
        return math.inf
    if q == 1.0:
        return 0.0
    return math.nan if a == 0.0 or math.isinf(a) else gamma_inverse(a, 1.0 - q, q, q <= 0.9)


def beta_power(a, b, x, y):
    """x^a y^b / beta(a, b), y = 1 - x."""
    c = a + b
    ag = a + LANCZOS_G - 0.5
    bg = b + LANCZOS_G - 0.5
    cg = c + LANCZOS_G - 0.5
    r = 1.0
    for i in range(3):
        of = lanczos(c if i == 0 else (a if i == 1 else b))
        r = of if i == 0 else r / of
    r *= math.sqrt(bg / E) * math.sqrt(ag / cg)
    l1 = (x * b - y * ag) / ag  # x cg / ag - 1
    l2 = (y * a - x * bg) / bg
    log1 = math.log1p(l1) if abs(l1) < 0.5 else math.log(x * cg / ag)
    log2 = math.log1p(l2) if abs(l2) < 0.5 else math.log(y * cg / bg)
    if max(abs(l1), abs(l2)) < 0.5 and l1 * l2 < 0.0 and abs(a * log1) > 8.0:
        # the two nearly cancel: one of them is put into the other's argument
        if a < b:
            l3 = math.expm1(log1 * (a / b))
            l3 = l2 + l3 + l3 * l2
            if abs(l3) < 0.5:
                return r * math.exp(b * math.log1p(l3))
        else:
            l3 = math.expm1(log2 * (b / a))
            l3 = l1 + l3 + l3 * l1
            if abs(l3) < 0.5:
                return r * math.exp(a * math.log1p(l3))
    if abs(l1) >= 0.1 and abs(a * log1) < 650.0 and abs(b * log2) < 650.0 and abs(l2) >= 0.1:
        return r * (x * cg / ag) ** a * (y * cg / bg) ** b
    power = a * log1 + b * log2
    return 0.0 if power < -745.0 else r * math.exp(power)


def beta_fraction(a, b, x, y):
    """The lower function by beta_power."""
    tiny = 1e-300
    f = a * (a * y - b * x + 1.0) / (a + 1.0)
    f = tiny if f == 0.0 else f
    c = f
    d = 0.0
    m = 0.0
    while m < 20000.0:
        m += 1.0
        u = a + 2.0 * m - 1.0
        num = (a + m - 1.0) * (a + b + m - 1.0) * m * (b - m) * x * x / (u * u)
        den = m + m * (b - m) * x / u + (a + m) * (a * y - b * x + 1.0 + m * (2.0 - x)) / (u + 2.0)
        d = den + num * d
        d = 1.0 / (tiny if d == 0.0 else d)
        c = den + num / c
        c = tiny if c == 0.0 else c
        f *= c * d
        if abs(c * d - 1.0) <= EPSILON:
            break
    return 1.0 / f


def beta_series(a, b, x):
    """The lower function of small b x: the sum, without x^a / beta(a, b)."""
    term = 1.0
    y = 1.0 / a
    n = 1.0
    while n < 5000.0:
        term *= (n - b) * x / n
        part = term / (a + n)
        y += part
        if abs(part) <= EPSILON * abs(y):
            break
        n += 1.0
    return y


def beta_part(a, b, x, y):
    """The regularized lower incomplete beta function; y = 1 - x."""
    swapped = not (b * x <= 1.0 and x <= 0.95) and x > a / (a + b)
    if swapped:
        a, b = b, a
        x, y = y, x
    if b * x <= 1.0 and x <= 0.95:
        part = beta_power(a, b, x, y) * math.exp(-b * math.log(y)) * beta_series(a, b, x)
    else:
        part = beta_power(a, b, x, y)
        if part != 0.0:
            part *= beta_fraction(a, b, x, y)
    return 1.0 - part if swapped else part


def betainc(a, b, x):
    return betainc_of(a, b, x, 1.0 - x)


def betainc_of(a, b, x, y):
    """betainc, where 1 - x is known with all its digits."""
    if not (a >= 0.0 and b >= 0.0 and x >= 0.0 and x <= 1.0) or (a == 0.0 and b == 0.0):
        return math.nan
    if math.isinf(a) and math.isinf(b):
        return math.nan
    if x == 0.0 or y == 0.0:
        return x if x == 0.0 else 1.0
    if a == 0.0 or math.isinf(b):
        return 1.0
    if b == 0.0 or math.isinf(a):
        return 0.0
    return beta_part(a, b, x, y)


def betaincc(a, b, x):
    """1 - betainc."""
    return betainc_of(b, a, 1.0 - x, x)


def betainc_slope(a, b, x):
    """The derivative of betainc by x: x^(a - 1) (1 - x)^(b - 1) / beta(a, b)."""
    if not (a > 0.0 and b > 0.0 and x >= 0.0 and x <= 1.0):
        return math.nan
    if x == 0.0:
        return 0.0 if a > 1.0 else (b if a == 1.0 else math.inf)
    if x == 1.0:
        return 0.0 if b > 1.0 else (a if b == 1.0 else math.inf)
    return beta_power(a, b, x, 1.0 - x) / (x * (1.0 - x))


def beta_guess(a, b, p):
    """Where the lower function is p, roughly: Numerical Recipes, 6.14."""
    if a >= 1.0 and b >= 1.0:
        s = -ndtri(p)
        al = (s * s - 3.0) / 6.0
        h = 2.0 / (1.0 / (2.0 * a - 1.0) + 1.0 / (2.0 * b - 1.0))
        w = s * math.sqrt(max(al + h, 0.0)) / h
        w -= (1.0 / (2.0 * b - 1.0) - 1.0 / (2.0 * a - 1.0)) * (al + 5.0 / 6.0 - 2.0 / (3.0 * h))
        return a / (a + b * math.exp(2.0 * w))
    t = math.exp(a * math.log(a / (a + b))) / a
    u = math.exp(b * math.log(b / (a + b))) / b
    w = t + u
    if p < t / w:
        return math.exp(math.log(a * w * p) / a)
    return -math.expm1(math.log(b * w * (1.0 - p)) / b)


def betaincinv(a, b, p):
    """Newton's method on the logarithms of p and of x, or of 1 - x where that is smaller."""
    if not (a > 0.0 and b > 0.0 and p >= 0.0 and p <= 1.0):
        return math.nan
    if p == 0.0 or p == 1.0:
        return p
    if math.isinf(a) or math.isinf(b):
        return math.nan if a == b else (1.0 if math.isinf(a) else 0.0)
    x = min(max(beta_guess(a, b, p), 0.0), 1.0)
    if x < 1e-290:
        return math.exp((math.log(p) + math.log(a) + betaln(a, b)) / a)
    mirrored = x > 0.5
    part = max(1.0 - x, 0.5 * EPSILON) if mirrored else x  # the smaller one
    low = 0.0
    high = 1.0
    for _ in range(100):
        of_x = 1.0 - part if mirrored else part
        of_y = part if mirrored else 1.0 - part
        found = beta_part(a, b, of_x, of_y)
        if found == p:
            break
        if (found > p) != mirrored:
            high = part
        else:
            low = part
        # the derivative by log(part) is the one by part times part
        step = log_step(found, p, beta_power(a, b, of_x, of_y) / (1.0 - part))
        new = between(moved(part, -step if mirrored else step), low, high)
        done = abs(new - part) <= 2.0 * EPSILON * part
        part = new
        if done:
            break
    return 1.0 - part if mirrored else part
