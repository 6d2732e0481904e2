"""The rows of special functions; SciPy tells the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from record_types import A, Row
from scipy import special


def function(
    name: str,
    *ranges: tuple[float, float] | float,
    cards: tuple[str, ...] = (),
    truth: Any = None,
    **options: Any,
) -> Row:
    """A function of numbers between these limits, one pair for each argument; a number stands for
    itself."""
    numbers = [r for r in ranges if not isinstance(r, tuple)]
    places = [i for i, r in enumerate(ranges) if isinstance(r, tuple)]
    theirs = getattr(special, name) if truth is None else truth

    def full(x: tuple) -> list:
        given, fixed = iter(x), iter(numbers)
        return [next(given) if i in places else next(fixed) for i in range(len(ranges))]

    return Row(
        f"special.{name}",
        lambda xp, *x: getattr(xp.special, name)(*full(x)),
        tuple(A((4, 6), *ranges[i]) for i in places),
        lambda *x: theirs(*full(x)),
        cards=(name, *cards),
        **options,
    )


SPECIAL_ROWS = [
    function("erf", (-2, 2)),
    function("erfc", (-2, 2)),
    function("erfcx", (-2, 2)),
    function("erfi", (-2, 2)),
    function("dawsn", (-2, 2)),
    function("erfinv", (-0.9, 0.9)),
    function("erfcinv", (0.1, 1.9)),
    function("ndtr", (-2, 2)),
    function("log_ndtr", (-3, 2), cards=("ndtr_mills",)),
    function("ndtri", (0.05, 0.95)),
    function("gamma", (0.5, 4)),
    function("gammaln", (0.5, 4)),
    function("gammasgn", (0.5, 4)),
    function("loggamma", (0.5, 4)),
    function("rgamma", (0.5, 4), cards=("rgamma_slope",)),
    function("digamma", (1, 4)),
    function("beta", (0.5, 3), (0.5, 3), error=8),
    function("betaln", (0.5, 3), (0.5, 3), error=8),
    function("xlogy", (-2, 2), (0.2, 2)),
    function("xlog1py", (-2, 2), (-0.5, 2)),
    function("entr", (0.1, 2)),
    function("rel_entr", (0.2, 2), (0.2, 2)),
    function("kl_div", (0.2, 2), (0.2, 2)),
    function("huber", (0.5, 1), (-2, 2)),
    function("pseudo_huber", (0.5, 1), (-2, 2)),
    function("expit", (-3, 3)),
    function("log_expit", (-3, 3)),
    function("logit", (0.1, 0.9)),
    function("exprel", (-2, 2), cards=("exp_moment",)),
    function("gammainc", 2.5, (0.5, 4), error=16, cards=("gammainc_slope",)),
    function("gammaincc", 2.5, (0.5, 4), error=16),
    function("gammaincinv", 2.5, (0.1, 0.9)),
    function("gammainccinv", 2.5, (0.1, 0.9)),
    function("betainc", 2.5, 1.5, (0.1, 0.9), cards=("betainc_slope",)),
    *[
        Row(
            f"special.{name}",
            lambda xp, *x, name=name: getattr(xp.special, name)(*x),
            tuple(A((4, 6), *limits) for limits in ranges),
            getattr(special, name),
            error=16,
            second=False,
            cards=cards,
        )
        for name, cards, *ranges in (
            ("gammainc", ("gammainc_by_a",), (0.5, 4), (0.5, 4)),
            ("betainc", ("betainc_by_a", "betainc_by_b"), (0.5, 4), (0.5, 4), (0.2, 0.8)),
        )
    ],
    function("betaincc", 2.5, 1.5, (0.1, 0.9)),
    function("betaincinv", 2.5, 1.5, (0.1, 0.9), error=16),
    function("bdtr", 3.0, 7, (0.1, 0.9)),
    function("bdtrc", 3.0, 7, (0.1, 0.9)),
    function("bdtri", 3.0, 7, (0.1, 0.9), error=16),
    function("chdtr", 3.0, (0.5, 4), error=16),
    function("chdtrc", 3.0, (0.5, 4), error=16),
    function("chdtri", 3.0, (0.1, 0.9), error=16),
    function("fdtr", 3.0, 5.0, (0.5, 4)),
    function("fdtrc", 3.0, 5.0, (0.5, 4)),
    function("fdtri", 3.0, 5.0, (0.1, 0.9), error=16),
    function("gdtr", (0.5, 2), 3.0, (0.5, 4)),
    function("gdtrc", (0.5, 2), 3.0, (0.5, 4)),
    function("nbdtr", 3, 4, (0.1, 0.9)),
    function("nbdtrc", 3, 4, (0.1, 0.9)),
    function("nbdtri", 3, 4, (0.1, 0.9), error=16),
    function("pdtr", 3.0, (0.5, 4)),
    function("pdtrc", 3.0, (0.5, 4)),
    function("pdtri", 3, (0.1, 0.9)),
    function("stdtr", 3.0, (0.5, 4)),
    *[function(name, (0.5, 4)) for name in "j0 j1 i0 i0e i1 i1e y0 y1 k0 k0e k1 k1e".split()],
    function("yn", 3, (2, 5)),
    function("jn", 3, (2, 5)),
    function("spherical_yn", 3, (2, 5)),
    function("wright_bessel", 0.7, 1.5, (0.5, 4)),
    function("exp1", (0.5, 4)),
    function("expi", (0.5, 4)),
    function("expn", 3, (0.5, 4)),
    function("ellipk", (-2, 0.9)),
    function("ellipkm1", (0.1, 3)),
    function("ellipe", (-2, 0.9)),
    function("sindg", (-200, 200)),
    function("cosdg", (-200, 200)),
    function("tandg", (-60, 60)),
    function("cotdg", (30, 120)),
    function("radian", (0, 90), (0, 60), (0, 60)),
    function("cosm1", (-2, 2)),
    function("exp10", (-1, 1)),
    function("boxcox", (0.5, 3), (-2, 2), error=8),
    function("boxcox1p", (0.5, 3), (-2, 2), error=8),
    function("inv_boxcox", (0.5, 1.5), (0.5, 2), error=8),
    function("inv_boxcox1p", (0.5, 1.5), (0.5, 2), error=8),
    function("poch", (0.5, 3), (0.5, 2), error=8),
    function("binom", (3, 5), (0.5, 2), error=8),
    function("zeta", 2.5, (0.5, 3)),
    function("lpmv", 1, 3, (-0.9, 0.9)),
    function("zetac", (1.5, 4), grad=False),
    function("ellipkinc", (-2, 2), (0.1, 0.7)),
    function("ellipeinc", (-2, 2), (0.1, 0.7)),
    Row(
        "special.sici",
        lambda xp, x: xp.special.sici(x),
        (A((4, 6), 0.5, 4),),
        special.sici,
        cards=("sine_integral", "cosine_integral"),
    ),
    Row(
        "special.shichi",
        lambda xp, x: xp.special.shichi(x),
        (A((4, 6), 0.5, 4),),
        special.shichi,
        cards=("hyperbolic_sine_integral", "hyperbolic_cosine_integral"),
    ),
    Row(
        "special.zeta",
        lambda xp, x: xp.special.zeta(x),
        (A((4, 6), 1.5, 4),),
        special.zeta,
        grad=False,
        cards=("riemann_zeta",),
    ),
    Row(
        "special.ellipj",
        lambda xp, x: xp.special.ellipj(x, 0.5),
        (A((4, 6), -2, 2),),
        lambda x: special.ellipj(x, 0.5),
        cards=("ellipj_sn", "ellipj_cn", "ellipj_dn", "ellipj_ph"),
    ),
    Row(
        "special.ellipj",
        lambda xp, x, m: xp.special.ellipj(x, m),
        (A((4, 6), -2, 2), A((4, 6), 0.2, 0.8)),
        special.ellipj,
        cards=("ellipj_sn", "ellipj_cn", "ellipj_dn", "ellipj_ph"),
    ),
    Row(
        "special.lambertw",
        lambda xp, x: xp.special.lambertw(x),
        (A((4, 6), 0.5, 4),),
        lambda x: special.lambertw(x).real,
        cards=("lambertw0",),
    ),
    Row(
        "special.lambertw",
        lambda xp, x: xp.special.lambertw(x, -1),
        (A((4, 6), -0.3, -0.1),),
        lambda x: special.lambertw(x, -1).real,
        cards=("lambertw_below",),
    ),
    Row(
        "special.polygamma",
        lambda xp, x: xp.special.polygamma(1, x),
        (A((4, 6), 1, 4),),
        lambda x: special.polygamma(1, x),
        cards=("polygamma",),
    ),
    Row(
        "special.multigammaln",
        lambda xp, x: xp.special.multigammaln(x, 3),
        (A((4, 6), 2, 4),),
        lambda x: np.vectorize(special.multigammaln)(x, 3),
        cards=("multigammaln", "multipolygamma"),
    ),
    Row(
        "special.logsumexp",
        lambda xp, x, b: xp.special.logsumexp(x, axis=1, b=b),
        (A((4, 6)), A((4, 6), 0.5, 2)),
        lambda x, b: special.logsumexp(x, axis=1, b=b),
    ),
    Row(
        "special.logsumexp",
        lambda xp, x: xp.special.logsumexp(x, axis=1),
        (A((4, 6)),),
        lambda x: special.logsumexp(x, axis=1),
    ),
    Row(
        "special.softmax",
        lambda xp, x: xp.special.softmax(x, axis=(0, 2)),
        (A((3, 4, 5)),),
        lambda x: special.softmax(x, axis=(0, 2)),
        cards=("softmax", "softmax_grad"),
    ),
    Row(
        "special.log_softmax",
        lambda xp, x: xp.special.log_softmax(x),
        (A((3, 4)),),
        special.log_softmax,
        cards=("log_softmax", "log_softmax_grad"),
    ),
]
