"""Gradients of norms beyond the first order: of the gradient, and of what it takes from the forward
pass besides x."""

from __future__ import annotations

from ..core.array import ndarray

__all__: list[str] = []


def through_statistics(
    to_mean: ndarray | None,
    to_rstd: ndarray | None,
    x: ndarray,
    mean: ndarray | None,
    rstd: ndarray,
) -> ndarray:
    """The gradient of x by those of the mean and of rstd = 1 / sqrt(variance + eps), if any, which
    all broadcast over x.

    d mean / dx = 1 / count, d rstd / dx = -rstd^3 (x - mean) / count. Only third derivatives come
    to this: `second_order` is written in mean and rstd, and they are results of the forward pass.
    """
    found = 0 * x
    if to_rstd is not None:
        found = found - to_rstd * rstd * rstd * rstd * (x if mean is None else x - mean)
    if to_mean is not None:
        found = found + to_mean
    return found * (rstd.size / max(x.size, 1))


def second_order(
    h: tuple,
    g: ndarray,
    x: ndarray,
    weight: ndarray,
    mean: ndarray | None,
    rstd: ndarray,
    axes: tuple[int, ...],
) -> tuple[ndarray, ndarray, ndarray | None]:
    """Gradients of (dx, dweight, dbias) with respect to g, x and weight (the last before it is
    summed over rows).

    The first-order rule is dx = rstd P(g weight) with the projection P(v) = v - avg(v) - xhat avg(v
    xhat), the averages over `axes` (RMS norm, mean None: without avg(v)); P is its own transpose.
    dweight and dbias sum g xhat and g. h = (h of dx, of dweight, of dbias), each perhaps None;
    weight, mean and rstd broadcast over x. mean and rstd count as functions of x.
    """

    def avg(v: ndarray) -> ndarray:
        return v.mean(axes, keepdims=True)

    def project(v: ndarray) -> ndarray:
        rest = v - xhat * avg(v * xhat)
        return rest if mean is None else rest - avg(v)

    xhat = (x if mean is None else x - mean) * rstd
    to_g, to_xhat = x * 0, x * 0
    to_x, to_weight = to_g, None
    if h[0] is not None:
        gw = g * weight
        back = rstd * project(h[0])
        to_g, to_weight = back * weight, back * g
        to_xhat = -rstd * (h[0] * avg(gw * xhat) + gw * avg(h[0] * xhat))
        to_x = (
            -rstd * rstd * xhat * avg(h[0] * project(gw))
        )  # through rstd itself: d rstd / dx = -rstd^2 xhat / count
    if h[1] is not None:
        to_g, to_xhat = to_g + h[1] * xhat, to_xhat + h[1] * g
    if h[2] is not None:
        to_g = to_g + h[2]
    return to_g, to_x + rstd * project(to_xhat), to_weight
