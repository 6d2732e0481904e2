"""The rows of special functions; SciPy tells the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from record_types import A, Row
from scipy import special


def function(
    name: str, *ranges: tuple[float, float], cards: tuple[str, ...] = (), **options: Any
) -> Row:
    """A function of numbers between these limits, one pair for each argument."""
    return Row(
        f"special.{name}",
        lambda xp, *x: getattr(xp.special, name)(*x),
        tuple(A((4, 6), *limits) for limits in ranges),
        getattr(special, name),
        cards=(name, *cards),
        **options,
    )


SPECIAL_ROWS = [
    function("erf", (-2, 2)),
    function("erfc", (-2, 2)),
    function("erfcx", (-2, 2)),
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
    ),
    Row(
        "special.logsumexp",
        lambda xp, x, b: xp.special.logsumexp(x, axis=1, b=b),
        (A((4, 6)), A((4, 6), 0.5, 2)),
        lambda x, b: special.logsumexp(x, axis=1, b=b),
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
