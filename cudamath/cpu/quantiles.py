"""Quantiles of sorted numbers: their positions, and lines with NaN; see
kernels/sort/quantiles.py."""

import numpy as np

from ..core.fp_errors import quiet
from .elementwise import between


def rounded(place, method, lib):
    """The place of a quantile for the methods that do not interpolate linearly. lib: NumPy, or
    cudamath."""
    below = lib.floor(place)
    if method == "lower":
        return below
    if method in ("higher", "inverted_cdf"):
        return -lib.floor(-place)
    if method == "averaged_inverted_cdf":
        return below + 0.5 + 0.5 * (place > below)
    if (
        method == "closest_observation"
    ):  # of two that are equally near the one whose number, counted from 1, is even
        return below + 1 - ((place == below) & (below % 2 == 1))
    if method == "nearest":
        return lib.rint(place)
    if method == "midpoint":
        return below + 0.5 * (place > below)
    return place


def nan_quantile(x, *, method, wide, scalars):
    """x (..., n), ascending, NaN last -> (...): the quantile at position (count - less) q + shift +
    less - 1 of each line's numbers, or their "median"; NaN if there are none. scalars: q, less,
    shift. Places are computed in ``wide``."""
    q, less, shift = map(wide.type, scalars)
    count = np.count_nonzero(x == x, axis=-1, keepdims=True)
    last = np.maximum(count - 1, 0)
    if method == "median":
        below, above, t = last // 2, np.minimum(count // 2, last), wide.type(0.5)
    else:
        place = (count.astype(wide) - less) * q + shift + (less - wide.type(1))
        place = np.clip(rounded(place, method, np), 0, last).astype(wide, copy=False)
        below = np.floor(place).astype(np.int64)
        above, t = np.minimum(below + 1, last), place - below.astype(wide)
    low, high = (np.take_along_axis(x, places, -1)[..., 0] for places in (below, above))
    t = np.broadcast_to(t, count.shape)[..., 0].astype(x.dtype)
    y = quiet().run(_halves if method == "median" else between, low, high, t)
    return np.asarray(y).astype(x.dtype, copy=False)


def _halves(low, high, t):
    total = low + high
    return np.where(
        np.isfinite(total), total * t, low * t + high * t
    )  # halves of the smallest numbers are none, or others
