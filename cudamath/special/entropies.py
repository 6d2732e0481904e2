"""Products with logarithms, entropies, robust losses, and the logistic functions."""

from __future__ import annotations

import functools

from ..ops.elementwise import abs, exp, hypot, log, log1p, maximum, minimum  # noqa: F401  in gradient expressions
from ..ops.where import where  # noqa: F401  in a gradient expression
from . import definition

__all__ = [
    "entr",
    "expit",
    "exprel",
    "huber",
    "kl_div",
    "log_expit",
    "logit",
    "pseudo_huber",
    "rel_entr",
    "xlog1py",
    "xlogy",
]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())


def _unless_both(x: object, y: object) -> object:
    """y, and 1 where both are 0: x / y is 0 there."""
    return where((x == 0) & (y == 0), 1, y)


xlogy = _define(
    "xlogy",
    "x y",
    ("g * log(y)", "g * (x / _unless_both(x, y))"),
    "Compute x log(y), and 0 where x is 0.",
    "cm.special.xlogy(cm.array([0.0, 2.0]), cm.array([0.0, 1.0])).tolist()",
    "[0.0, 0.0]",
    gradient="log(y) g, and x / y g",
)
xlog1py = _define(
    "xlog1py",
    "x y",
    ("g * log1p(y)", "g * (x / _unless_both(x, y + 1))"),
    "Compute x log(1 + y), and 0 where x is 0.",
    "cm.special.xlog1py(cm.array([0.0, 2.0]), cm.array([-1.0, 0.0])).tolist()",
    "[0.0, 0.0]",
    gradient="log(1 + y) g, and x / (1 + y) g",
)
entr = _define(
    "entr",
    "x",
    ("-g * (log(x) + 1)",),
    "Compute the entropy of each element, -x log(x).",
    "cm.special.entr(cm.array([0.0, 0.5])).round(6).tolist()",
    "[0.0, 0.346574]",
    domain="0 at 0, and -inf of negative numbers.",
)
rel_entr = _define(
    "rel_entr",
    "x y",
    ("g * (log(x / y) + 1)", "-g * (x / y)"),
    "Compute the relative entropy of each pair of elements, x log(x / y).",
    "cm.special.rel_entr(cm.array([0.0, 0.5]), 0.25).round(6).tolist()",
    "[0.0, 0.346574]",
    domain="0 where x is 0 and y is not negative, infinite outside of the domain.",
)
kl_div = _define(
    "kl_div",
    "x y",
    ("g * log(x / y)", "g * (1 - x / y)"),
    "Compute the divergence of Kullback and Leibler, x log(x / y) - x + y.",
    "cm.special.kl_div(cm.array([0.0, 0.5]), 0.25).round(6).tolist()",
    "[0.25, 0.096574]",
    domain="y where x is 0 and y is not negative, infinite outside of the domain.",
)
huber = _define(
    "huber",
    "delta r",
    ("g * maximum(abs(y) - x, 0)", "g * minimum(maximum(y, -x), x)"),
    "Compute the loss of Huber: r^2 / 2 up to delta, beyond it delta (|r| - delta / 2).",
    "cm.special.huber(1.0, cm.array([0.5, 3.0])).tolist()",
    "[0.125, 2.5]",
    domain="Infinite where delta is negative.",
)
pseudo_huber = _define(
    "pseudo_huber",
    "delta r",
    (
        "g * (hypot(x, y) + x * (x / hypot(x, y)) - 2 * x)",
        "g * x * (y / hypot(x, y))",
    ),
    "Compute the smooth loss of Huber, delta^2 (sqrt(1 + (r / delta)^2) - 1).",
    "cm.special.pseudo_huber(1.0, cm.array([0.0, 3.0])).round(5).tolist()",
    "[0.0, 2.16228]",
    domain="Infinite where delta is negative.",
)
expit = _define(
    "expit",
    "x",
    ("g * (out * expit(-x))",),
    "Compute the logistic function, 1 / (1 + exp(-x)).",
    "cm.special.expit(cm.array([0.0, 2.0])).round(6).tolist()",
    "[0.5, 0.880797]",
)
log_expit = _define(
    "log_expit",
    "x",
    ("g * expit(-x)",),
    "Compute the logarithm of the logistic function.",
    "cm.special.log_expit(cm.array([0.0, -1000.0])).round(6).tolist()",
    "[-0.693147, -1000.0]",
    formula="-log(1 + exp(-x))",
)
logit = _define(
    "logit",
    "x",
    ("g / (x * (1 - x))",),
    "Compute the logit, the inverse of the logistic function.",
    "cm.special.logit(cm.array([0.5, 0.75])).round(6).tolist()",
    "[0.0, 1.098612]",
    formula="log(x / (1 - x))",
    domain="NaN outside of 0 to 1.",
)
exprel = _define(
    "exprel",
    "x",
    ("g * _exp_moment(1.0, x)",),
    "Compute the relative error exponential, (exp(x) - 1) / x.",
    "cm.special.exprel(cm.array([0.0, 1.0])).round(6).tolist()",
    "[1.0, 1.718282]",
    gradient="the integral of t exp(x t) over t from 0 to 1, times g",
)
_exp_moment = _card("exp_moment", 2, ("None", "g * _exp_moment(x + 1.0, y)"))
