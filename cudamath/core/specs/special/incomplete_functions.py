"""The incomplete gamma and beta functions, and their inverses.

Gamma: the series DLMF 8.11.4, the continued fraction 8.9.2, and Temme's expansion 8.12 where a is
large and x near it. Beta: the series 8.17.7 and the continued fraction of DiDonato & Morris (ACM
TOMS 708, 1992). What stands before them is a power whose exponent is a sum of two numbers
(pairs.py). Inverses: Newton's method on logarithms between bounds.
"""

from __future__ import annotations

import math

from .error_functions import erfcx, ndtri
from .gamma_functions import (
    TWO_PI,
    beta_parts,
    betaln,
    gamma,
    gammaln,
    gammaln1p,
    in_range,
    log1p_rest,
    log_gamma_ratio,
    raised,
    stirling_rest,
)
from .pairs import exp_sum, log_ratio, plus, quotient, times, two_sum
from .rounding import floor
from .temme_coefficients import TEMME

EPSILON = 1.1102230246251565e-16
DOWN = 2.0**-52
ENOUGH = 1e-9  # a relative step of Newton's method, after which the error is about its square
SHARE = 1.0  # of the terms of a fraction
FROM_END = True  # whether a fraction is computed once more, from its end


def gamma_power(a, x):
    """x^a exp(-x) / gamma(a)."""
    r, rl, rest, factor = gamma_scale(a)
    return gamma_power_by(a, x, r, rl, rest, factor)


def gamma_scale(a):
    """What a decides of the power: a number from 10 on as a sum, what Stirling's formula leaves out
    of its gamma function, and a factor."""
    r, rl, _, factor = raised(a, 0.0)
    return r, rl, stirling_rest(r), factor * math.sqrt(r / TWO_PI)


def gamma_power_by(a, x, r, rl, rest, factor):
    """gamma_power by gamma_scale."""
    if a < 1e-290 or a > 1e30 or x > 1e30 * a:
        y = a * math.log(x) - x - gammaln(a)
        return 0.0 if y < -745.0 else math.exp(y)
    y, yl = log_ratio(x, 0.0, r, rl)
    y, yl = times(y, yl, a, 0.0)
    d, dl = plus(r, rl, -x, 0.0)
    y, yl = plus(y, yl, d, dl - rest)
    return factor * exp_sum(y, yl)


def gamma_series(a, x):
    """The lower function, by gamma_power."""
    r = a
    c = 1.0
    y = 1.0
    for _ in range(500):  # four terms, over one denominator
        s = r + 2.0
        t = r + 3.0
        u = r + 4.0
        c *= x / ((r + 1.0) * s * (t * u))
        part = c * (((s + x) * t + x * x) * u + x * x * x)
        y += part
        if part <= EPSILON * y:
            break
        c *= x * x * x
        r = u
    return y / a


def gamma_fraction(a, x):
    """The upper function, by gamma_power. Of moderate numbers the continued fraction is computed
    from its end, which costs no digits."""
    if a < 30.0:
        k = 2.0 * floor(SHARE * (20.0 + 125.0 / x))
        t = 0.0
        while k > 0.0:  # two terms, by one division
            j = k - 1.0
            u = x + 2.0 * k + 1.0 - a - t
            t = j * (j - a) * u / ((x + 2.0 * j + 1.0 - a) * u - k * (k - a))
            k -= 2.0
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
        change = math.inf
        if q != 0.0:
            change = r
            r = p / q
            change = abs(r - change)
        p2 = p1
        p1 = p
        q2 = q1
        q1 = q
        if abs(p) > 1.0 / DOWN:
            p2 *= DOWN
            p1 *= DOWN
            q2 *= DOWN
            q1 *= DOWN
        if change <= EPSILON * abs(r):
            break
    return r


def temme_parts(a, x):
    """-a eta^2 / 2, the exponential of it, and eta."""
    if a < 1e30:
        e, el = log_ratio(x, 0.0, a, 0.0)
        e, el = times(e, el, a, 0.0)
        d, dl = two_sum(a, -x)
        e, el = plus(e, el, d, dl)
    else:
        e, el = a * log1p_rest((x - a) / a), 0.0
    e = min(e, 0.0)
    power = exp_sum(e, el)
    return e, power, math.copysign(math.sqrt(-2.0 * e / a), x - a)


def gamma_temme(a, x, s):
    """The upper function (s = 1) or the lower (s = -1), where a is large and x near it."""
    e, power, eta = temme_parts(a, x)
    y = 0.5 * power * erfcx(math.sqrt(-e))
    if s * eta < 0.0:
        y = 1.0 - y
    total = 0.0
    factor = 1.0
    before = math.inf
    for k in range(25):
        c = TEMME[k, 0]
        p = 1.0
        for n in range(1, 25):
            p *= eta
            term = TEMME[k, n] * p
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
    return y + s * power * total / math.sqrt(TWO_PI * a)


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
    log -= gammaln1p(a)
    return -math.expm1(log) - a * math.exp(log) * total


def gamma_part(a, x, upper):
    """The regularized lower or upper incomplete gamma function."""
    return gamma_part_by(a, x, upper, math.nan)


def gamma_part_by(a, x, upper, power):
    """The same by gamma_power, which is NaN where it is not known yet."""
    if a != a or x != x or a < 0.0 or x < 0.0:
        return math.nan
    if a == 0.0:
        return (0.0 if upper else 1.0) if x > 0.0 else math.nan
    if x == 0.0:
        return 1.0 if upper else 0.0
    if math.isinf(a):
        return math.nan if math.isinf(x) else (1.0 if upper else 0.0)
    if math.isinf(x) or (a < 1e-300 and not upper):
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
    y = power if power == power else gamma_power(a, x)
    if y == 0.0:
        return 1.0 if upper == small else 0.0
    y *= gamma_series(a, x) if small else gamma_fraction(a, x)
    if y > 1.0:  # by rounding
        y = 1.0
    return y if upper != small else 1.0 - y


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
    u = a * (0.253 + a * 0.12)  # small with a: 1 - u would not keep it
    if q > u:
        return math.exp(((math.log(p) if p < 0.5 else math.log1p(-q)) - math.log1p(-u)) / a)
    y = q * gamma(a)
    if y < 1e-3:
        y = -math.log(y)
        return y + (a - 1.0) * math.log(y)
    return 1.0 - math.log(q / u)


def gamma_inverse(a, p, q, upper):
    """The x where the lower function is p, or the upper q = 1 - p: Newton's and Halley's method for
    the logarithms of both, between bounds."""
    x = gamma_guess(a, p, q)
    if x == 0.0:
        return 0.0
    wanted = q if upper else p
    r, rl, rest, factor = gamma_scale(a)
    low = 0.0
    high = math.inf
    for _ in range(60):
        power = gamma_power_by(a, x, r, rl, rest, factor)
        part = gamma_part_by(a, x, upper, power)
        if part == wanted:
            return x
        if (part > wanted) != upper:
            high = x
        else:
            low = x
        step = log_step(part, wanted, power)
        if upper:
            step = -step
        bend = 1.0 - 0.5 * step * (a - x)
        if abs(step) < 0.1 and bend > 0.5 and abs(part - wanted) < 0.1 * wanted:
            step /= bend
        new = moved(x, step)
        if abs(step) <= ENOUGH:  # before the bounds: a step of nothing but rounding ends at one
            return new
        x = between(new, low, high)
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


def beta_power(a, b, x, xl, y, yl):
    """x^a y^b / beta(a, b)."""
    if not in_range(a, b):
        return math.exp(a * math.log(x) + b * math.log(y) - betaln(a, b))
    factor, high, low = beta_parts(a, b, x, xl, y, yl)
    return factor * exp_sum(high, low)


def beta_fraction(a, b, x, xl, y, yl):
    """The lower function by beta_power. Lentz's method finds out how many terms are needed. They
    are computed from the end, which costs no digits."""
    u, ul = times(a, 0.0, y, yl)
    v, vl = times(b, 0.0, x, xl)
    middle, rest = plus(u, ul, -v, -vl)
    middle += 1.0 + rest
    m, f = beta_depth(a, b, x, middle)
    if not FROM_END:
        return 1.0 / f
    m = floor(1.1 * m + 4.0)  # what it found may have ended where a rounding was in its favour
    f = 0.0
    while m > 0.0:
        num, den = beta_term(m, a, b, x, middle)
        f = num / (den + f)
        m -= 1.0
    return 1.0 / (a * middle / (a + 1.0) + f)


def beta_depth(a, b, x, middle):
    """How many terms the fraction needs, and its reciprocal."""
    tiny = 1e-300
    s = 1.0 / (a + 1.0)
    c = a * middle * s
    c = tiny if c == 0.0 else c
    f = c
    d = 0.0
    m = 0.0
    while m < 20000.0:
        m += 1.0
        r = s
        s = 1.0 / (a + 2.0 * m + 1.0)
        # beta_term with reciprocals, of which one serves two terms: a few digits of f less
        num = (a + m - 1.0) * r * ((a + b + m - 1.0) * r) * m * (b - m) * x * x
        den = m + m * (b - m) * x * r + (a + m) * (middle + m * (2.0 - x)) * s
        d = den + num * d
        d = 1.0 / (tiny if d == 0.0 else d)
        c = den + num / c
        c = tiny if c == 0.0 else c
        f *= c * d
        if abs(c * d - 1.0) <= EPSILON:
            break
    return m, f


def beta_term(m, a, b, x, middle):
    """The m-th numerator and denominator; middle: a y - b x + 1."""
    u = a + 2.0 * m - 1.0
    num = (a + m - 1.0) / u * (a + b + m - 1.0) / u * m * (b - m) * x * x
    den = m + m * (b - m) * x / u + (a + m) * (middle + m * (2.0 - x)) / (u + 2.0)
    return num, den


def beta_series(a, b, x):
    """The lower function of small b x is x^a / beta(a, b) by 1 / a and this, a sum of two numbers:
    of its terms the first, often the largest, has more digits than one number."""
    term = (1.0 - b) * x
    y = term / (a + 1.0)
    yl = 0.0
    if in_range(a, b):
        c, cl = two_sum(1.0, -b)
        term, rest = times(c, cl, x, 0.0)
        c, cl = two_sum(1.0, a)
        y, yl = quotient(term, rest, c, cl)
    others = 0.0
    n = 2.0
    while n < 5000.0:
        term *= (n - b) * x / n
        part = term / (a + n)
        others += part
        if abs(part) <= EPSILON * abs(y + others):
            break
        n += 1.0
    return plus(y, yl, others, 0.0)


def beta_part(a, b, x, xl, y, yl):
    """The regularized lower incomplete beta function; y = 1 - x."""
    by_series = b * x <= 1.0 and x <= 0.7
    near_1 = b <= 1.0 and y < 0.1 and a * y <= 0.6  # where the fraction would lose digits
    swapped = not by_series and (b * x > a * y or near_1)
    part = 0.0
    for again in range(2):  # a loop: so the compiler has one copy of the functions
        if again == 1 or swapped:
            a, b = b, a
            x, y = y, x
            xl, yl = yl, xl
        by_series = again == 0 and b * x <= 1.0 and x <= 0.7
        total = 0.0
        total_l = 0.0
        if by_series:
            total, total_l = beta_series(a, b, x)
            if swapped and a <= 1.0 and in_range(a, b):  # near 1: its logarithm is small
                return beta_near_one(a, b, x, xl, total, total_l)
        part = beta_power(a, b, x, xl, 1.0 if by_series else y, 0.0 if by_series else yl)
        if by_series:
            part *= 1.0 / a + total
        elif part != 0.0:
            part *= beta_fraction(a, b, x, xl, y, yl)
        if part > 1.0:  # by rounding
            part = 1.0
        if again == 1:
            return part
        if not (swapped and part > 0.5 and y < 0.98):
            break  # else the other part, which the difference would not give
    return 1.0 - part if swapped else part


def beta_near_one(a, b, x, xl, total, total_l):
    """1 less the lower function, by beta_series, of an a up to 1: a sum of logarithms, which cancel
    each other."""
    raised_b, rest = log_gamma_ratio(b, a)
    p, pl = times(x, xl, raised_b, 0.0)
    log, low = log_ratio(p, pl, 1.0, 0.0)
    log, low = times(log, low, a, 0.0)
    u, ul = times(total, total_l, a, 0.0)
    log, low = plus(log, low, -gammaln1p(a), rest)
    log, low = plus(log, low, math.log1p(u), ul / (1.0 + u))
    return -math.expm1(log + low)


def betainc(a, b, x):
    return betainc_of(a, b, x, 1.0 - x)


def betainc_of(a, b, x, y):
    """betainc, y = 1 - x: of the two, the smaller one is exact."""
    xl = 0.0
    yl = 0.0
    if x < y:
        y, yl = two_sum(1.0, -x)
    else:
        x, xl = two_sum(1.0, -y)
    return betainc_of_sums(a, b, x, xl, y, yl)


def betainc_of_sums(a, b, x, xl, y, yl):
    if not (a >= 0.0 and b >= 0.0 and x >= 0.0 and x <= 1.0) or (a == 0.0 and b == 0.0):
        return math.nan
    if math.isinf(a) and math.isinf(b):
        return math.nan
    if x == 0.0 or y == 0.0:
        return 0.0 if x == 0.0 else 1.0
    if a == 0.0 or math.isinf(b):
        return 1.0
    if b == 0.0 or math.isinf(a):
        return 0.0
    if b == 1.0:  # x^a
        power = x**a
        return power * math.exp(a * xl / x) if power > 0.0 else 0.0
    if a == b and x == 0.5:
        return 0.5
    return beta_part(a, b, x, xl, y, yl)


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
    y = 1.0 - x
    y, yl = two_sum(1.0, -x)
    return beta_power(a, b, x, 0.0, y, yl) / (x * y)


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
    x, _ = beta_inverse(a, b, p)
    return x


def beta_inverse(a, b, p):
    """The x with betainc(a, b, x) = p, and 1 - x: Newton's method on the logarithms of p and of the
    smaller one."""
    if not (a > 0.0 and b > 0.0 and p >= 0.0 and p <= 1.0):
        return math.nan, math.nan
    if p == 0.0 or p == 1.0:
        return (1.0, 0.0) if p == 1.0 else (0.0, 1.0)
    if math.isinf(a) or math.isinf(b):
        x = math.nan if a == b else (1.0 if math.isinf(a) else 0.0)
        return x, 1.0 - x
    if a == b and (a == 1.0 or p == 0.5):
        return p, 1.0 - p
    swapped = p > 0.5  # of such p the distance to 1 has more digits than p itself
    if swapped:
        a, b = b, a
        p = 1.0 - p
    x, y = beta_inverse_of_half(a, b, p)
    return (y, x) if swapped else (x, y)


def beta_inverse_of_half(a, b, p):
    """beta_inverse of p up to a half."""
    x = min(max(beta_guess(a, b, p), 0.0), 1.0)
    log_beta = betaln(a, b)
    if x < 1e-200:  # the first term of the series says more
        x = math.exp((math.log(p) + math.log(a) + log_beta) / a)
        if x < 1e-305:
            return x, 1.0
    mirrored = x > 0.5
    part = max(1.0 - x, 2.0**-54) if mirrored else x  # the smaller one
    low = 0.0
    high = 1.0
    for _ in range(100):
        rest, lost = two_sum(1.0, -part)
        of_x = rest if mirrored else part
        of_xl = lost if mirrored else 0.0
        of_y = part if mirrored else rest
        of_yl = 0.0 if mirrored else lost
        found = beta_part(a, b, of_x, of_xl, of_y, of_yl)
        # the derivative to a few digits is enough
        power = math.exp(a * math.log(of_x) + b * math.log(of_y) - log_beta)
        if found == p:
            break
        if (found > p) != mirrored:
            high = part
        else:
            low = part
        # the derivative by log(part) is the one by part times part
        step = log_step(found, p, power / rest)
        new = moved(part, -step if mirrored else step)
        done = abs(step) <= ENOUGH
        part = new if done else between(new, low, high)
        if done:
            break
    rest = 1.0 - part
    return (rest, part) if mirrored else (part, rest)
