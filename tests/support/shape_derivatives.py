"""mpmath's derivatives of the incomplete gamma and beta functions by the parameters of their shape.

`python tests/support/shape_derivatives.py` computes tests/data/shape_derivatives.npz anew (mpmath,
which the tests do not need): central differences of the fourth order in many digits.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
from special_domains import context, lower_beta, lower_gamma

FILE = pathlib.Path(__file__).parents[1] / "data" / "shape_derivatives.npz"
COUNT = 60
#: Function -> limits of its shape parameters; None: of gamma's x, which is drawn beside a.
REGIONS = {
    "gammainc": [(1e-3, 1.0, 5.0), (1.0, 30.0, 60.0), (30.0, 300.0, None), (200.0, 1e5, None)],
    "betainc": [(0.01, 2.0, 1.0), (1.0, 30.0, 1.0), (20.0, 300.0, 1.0)],
}


def points(name: str, region: int) -> np.ndarray:
    """(COUNT, arguments)."""
    rng = np.random.default_rng([region, *name.encode()])
    low, high, last = REGIONS[name][region]
    shapes = np.exp(rng.uniform(np.log(low), np.log(high), (2, COUNT)))
    if name == "betainc":
        a, b = shapes
        middle = a / (a + b)
        wide = np.minimum(3 * np.sqrt(middle * (1 - middle) / (a + b)), 1)
        x = np.clip(middle + rng.uniform(-1, 1, COUNT) * wide, 1e-3, 1 - 1e-3)
        return np.stack([a, b, x], axis=1)
    a = shapes[0]
    x = (
        a + np.sqrt(a) * rng.uniform(-5, 5, COUNT)
        if last is None
        else rng.uniform(0.01, last, COUNT)
    )
    return np.stack([a, x], axis=1)


def slope(function: Any, a: Any) -> Any:
    h = a / 10**15
    near, far = function(a + h) - function(a - h), function(a + 2 * h) - function(a - 2 * h)
    return (8 * near - far) / (12 * h)


def compute() -> None:
    mp = context(150)
    found: dict[str, list] = {"gammainc_by_a": [], "betainc_by_a": [], "betainc_by_b": []}
    for region in range(len(REGIONS["gammainc"])):
        rows = [[mp.mpf(float(v)) for v in p] for p in points("gammainc", region)]
        found["gammainc_by_a"].append(
            [float(slope(lambda a, x=x: lower_gamma(mp, a, x), a)) for a, x in rows]
        )
    for region in range(len(REGIONS["betainc"])):
        rows = [[mp.mpf(float(v)) for v in p] for p in points("betainc", region)]
        found["betainc_by_a"].append(
            [float(slope(lambda a, b=b, x=x: lower_beta(mp, a, b, x), a)) for a, b, x in rows]
        )
        found["betainc_by_b"].append(
            [float(slope(lambda b, a=a, x=x: lower_beta(mp, a, b, x), b)) for a, b, x in rows]
        )
    np.savez_compressed(FILE, **{name: np.array(values) for name, values in found.items()})


if __name__ == "__main__":
    compute()
