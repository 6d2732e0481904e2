"""Batch, layer and RMS normalisation, and their gradients, in NumPy.

All three standardise groups of elements, y = (x - mean) * rstd * weight + bias. An array is viewed
as (N, C, S): batch norm takes its statistics over N and S for each channel C; layer and RMS norm,
with N = 1, over S for each row C. The variance is the mean square of x - mean (two passes), never
E[x^2] - E[x]^2, which cancels.
"""

import math

import numpy as np

from .lib.float32_sums import dot_outer, sum_outer, sum_rows, widen


def _channels(x: np.ndarray) -> np.ndarray:
    """(N, C, ...) -> (N, C, S) in compute precision."""
    return widen(x).reshape(*x.shape[:2], math.prod(x.shape[2:]))


def _column(v: np.ndarray, like: np.ndarray) -> np.ndarray:
    """(C,) -> (C, 1) in the dtype of `like`, to broadcast over (N, C, S)."""
    return v.astype(like.dtype, copy=False)[:, None]


def _standardise(x: np.ndarray, center: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, C, S) -> x - mean (N, C, S) in x's dtype, mean (C,) and variance (C,) in float64.

    Without `center` the mean counts as 0 and the variance is the mean square.
    """
    count = x.shape[0] * x.shape[2]
    if not center:
        return x, np.zeros(x.shape[1]), dot_outer(x, x) / count
    mean = sum_outer(x) / count
    d = x - _column(mean, x)
    # The mean was rounded to x's dtype when it was subtracted; what is left of it is the mean of d.
    rest = sum_outer(d) / count
    return d, mean, np.maximum(dot_outer(d, d) / count - rest * rest, 0)


def _finished(z, x, residual, relu):
    """(N, C, S) -> y in shape and dtype of x: plus the residual, then relu."""
    if residual is not None:
        z += _channels(residual)
    if relu:
        np.maximum(z, 0, out=z)
    return z.reshape(x.shape).astype(x.dtype, copy=False)


def batch_norm_train(
    x, weight, bias, running_mean, running_var, residual=None, *, momentum, eps, relu
):
    """x, residual (N, C, ...), all others (C,) -> y like x, mean, rstd, new running_mean, new
    running_var (C,)."""
    x3 = _channels(x)
    count = x3.shape[0] * x3.shape[2]
    with np.errstate(invalid="ignore"):
        d, mean, var = _standardise(x3)
    rstd = 1 / np.sqrt(var + eps)
    d *= _column(rstd * weight.astype(np.float64), d)
    d += _column(bias, d)
    new_mean, new_var = mean, var * (count / (count - 1))
    if momentum != 1:  # then there may be no running statistics
        new_mean = running_mean.astype(np.float64) * (1 - momentum) + new_mean * momentum
        new_var = running_var.astype(np.float64) * (1 - momentum) + new_var * momentum
    return (
        _finished(d, x, residual, relu),
        mean.astype(d.dtype),
        rstd.astype(d.dtype),
        new_mean.astype(running_mean.dtype),
        new_var.astype(running_var.dtype),
    )


def batch_norm_grad(g, x, weight, bias, mean, rstd, y=None, *, relu):
    """g, x, y (N, C, ...); weight, bias, mean, rstd (C,) -> gradients of x, weight and bias of
    batch_norm_train.

    With `relu`, of what comes after it: g counts where y is positive, or, without y, where its
    input is.
    """
    g3, x3 = _channels(g), _channels(x)
    count = x3.shape[0] * x3.shape[2]
    d = x3 - _column(mean, x3)
    wide_rstd = rstd.astype(np.float64)
    scale = weight.astype(np.float64) * wide_rstd
    if relu:
        z = d * _column(scale, d) + _column(bias, d) if y is None else _channels(y)
        g3 = g3 * (z > 0)
    sum_g = sum_outer(g3)
    sum_gd = dot_outer(g3, d)
    # dx = weight * rstd * (g - sum_g / count - d * rstd^2 * sum_gd / count), the last two sums
    # being constants.
    d *= _column(-wide_rstd * wide_rstd * sum_gd / count, d)
    d += g3
    d -= _column(sum_g / count, d)
    d *= _column(scale, d)
    return (
        d.reshape(x.shape).astype(x.dtype, copy=False),
        (sum_gd * wide_rstd).astype(weight.dtype),
        sum_g.astype(weight.dtype),
    )


def batch_norm_residual_grad(g, x, weight, bias, mean, rstd, y, more=None):
    """As `batch_norm_grad`, after a residual and relu gave y -> gradients of x, weight, bias and
    the residual.

    The gradient is g + more."""
    g = g if more is None else g + more
    return *batch_norm_grad(g, x, weight, bias, mean, rstd, y, relu=True), g * (y > 0)


def batch_norm_inference(x, running_mean, running_var, weight, bias, residual=None, *, eps, relu):
    """x, residual (N, C, ...), all others (C,), weight and bias or None -> y like x."""
    x3 = _channels(x)
    scale = (1 if weight is None else weight.astype(np.float64)) / np.sqrt(
        running_var.astype(np.float64) + eps
    )
    y = x3 - _column(running_mean, x3)
    y *= _column(scale, y)
    if bias is not None:
        y += _column(bias, y)
    return _finished(y, x, residual, relu)


def layer_norm(x, weight, bias, residual, *, columns, eps):
    """x (..., columns); weight, bias or None -> y like x, mean (rows,), rstd (rows,); with a
    residual x + it."""
    x, added = _added(x, residual)
    return *_row_norm(x, weight, bias, columns, eps), *added


def rms_norm(x, weight, residual, *, columns, eps):
    """x (..., columns); weight or None -> y like x, rstd (rows,); with a residual x + it."""
    x, added = _added(x, residual)
    y, _, rstd = _row_norm(x, weight, None, columns, eps, center=False)
    return y, rstd, *added


def group_norm(x, weight, bias, *, groups, eps):
    """x (N, C, ...); weight, bias (C,) or None -> y like x, mean and rstd (N * groups,)."""
    y, mean, rstd = _row_norm(
        widen(x), None, None, x.size // (x.shape[0] * groups) if x.size else 1, eps
    )
    channels = (1, -1, *(1,) * (x.ndim - 2))
    if weight is not None:
        y *= weight.astype(y.dtype, copy=False).reshape(channels)
    if bias is not None:
        y += bias.astype(y.dtype, copy=False).reshape(channels)
    return y.astype(x.dtype, copy=False), mean, rstd


def group_norm_grad(g, x, weight, mean, rstd, *, groups, biased):
    """g, x (N, C, ...); weight (C,) or None; mean, rstd (N * groups,) -> dx, and the gradients of
    weight and bias, where there are these."""
    dtype = rstd.dtype if weight is None else weight.dtype  # of the gradients of the parameters
    if x.size == 0:
        return np.empty_like(x), *[np.zeros(x.shape[1], dtype)] * ((weight is not None) + biased)
    samples, channels, run = len(x), x.shape[1], math.prod(x.shape[2:])
    lines, kinds = (1, samples * channels, run), (samples, groups, channels // groups)
    columns, scale = kinds[2] * run, rstd.astype(np.float64).reshape(samples, groups, 1)
    factor = scale if weight is None else scale * weight.astype(np.float64).reshape(1, *kinds[1:])
    slope = widen(g).reshape(lines)
    d = (widen(x).reshape(-1, columns) - mean[:, None]).reshape(lines)
    sum_g, sum_gx = sum_outer(slope).reshape(kinds), dot_outer(slope, d).reshape(kinds) * scale
    # dx = scale (w g - mean(w g) - d scale mean(w g xhat)), means over groups, of which the scale
    # is in the factor
    mean_g, mean_gx = (
        (factor * total).sum(2, keepdims=True) / columns for total in (sum_g, sum_gx)
    )
    d *= _column((-scale * mean_gx).repeat(kinds[2], 2).ravel(), d)
    d -= _column(mean_g.repeat(kinds[2], 2).ravel(), d)
    d += slope * _column(np.broadcast_to(factor, kinds).ravel(), d)
    sums = [
        total.sum(0).ravel()
        for total, used in ((sum_gx, weight is not None), (sum_g, biased))
        if used
    ]
    return d.reshape(x.shape).astype(x.dtype, copy=False), *[total.astype(dtype) for total in sums]


def _added(x, residual):
    """(x + residual in x's dtype, the same once more as a further result); without a residual (x,
    nothing)."""
    if residual is None:
        return x, ()
    both = (widen(x) + widen(residual)).astype(x.dtype, copy=False)
    return both, (both,)


def _row_norm(x, weight, bias, columns, eps, center=True):
    wide = widen(x).reshape(x.size // columns, columns)
    if x.size == 0:
        nothing = np.zeros(0, wide.dtype)
        return np.empty_like(x), nothing, nothing
    with np.errstate(invalid="ignore"):
        d, mean, var = _standardise(wide[None], center=center)
    rstd = 1 / np.sqrt(var + eps)
    y = d[0] * _column(rstd, d)
    if weight is not None:
        y *= weight.astype(y.dtype, copy=False).ravel()
    if bias is not None:
        y += bias.astype(y.dtype, copy=False).ravel()
    return (
        y.reshape(x.shape).astype(x.dtype, copy=False),
        mean.astype(y.dtype),
        rstd.astype(y.dtype),
    )


def layer_norm_grad(g, x, weight, mean, rstd, extra, *, columns, biased):
    """g, x, extra (..., columns); weight or None; mean, rstd (rows,) -> dx + extra, and the
    gradients of weight and bias, where there are these."""
    return _row_norm_grad(g, x, weight, mean, rstd, extra, columns, biased)


def rms_norm_grad(g, x, weight, rstd, extra, *, columns):
    """g, x, extra (..., columns); weight or None; rstd (rows,) -> dx + extra, and weight's
    gradient."""
    return _row_norm_grad(g, x, weight, None, rstd, extra, columns, False)


def _row_norm_grad(g, x, weight, mean, rstd, extra, columns, biased):
    like = (
        np.zeros(columns, x.dtype) if weight is None else weight
    )  # of the gradients of the parameters
    if x.size == 0:
        return np.empty_like(x), *[np.zeros_like(like)] * ((weight is not None) + biased)
    g, wide = widen(g).reshape(-1, columns), widen(x).reshape(-1, columns)
    xhat = (wide if mean is None else wide - mean[:, None]) * rstd[:, None]
    gw = g if weight is None else g * weight.astype(g.dtype, copy=False).ravel()
    dx = gw - xhat * _column(dot_outer(gw[None], xhat[None]) / columns, xhat)
    if mean is not None:
        dx -= _column(sum_outer(gw[None]) / columns, dx)
    dx *= rstd[:, None]
    dx = dx.reshape(x.shape)
    if extra is not None:
        dx += widen(extra)
    sums = []
    if weight is not None:
        xhat *= g
        sums.append(sum_rows(xhat))
    if biased:
        sums.append(sum_rows(g))
    return dx.astype(x.dtype, copy=False), *[
        total.astype(like.dtype).reshape(like.shape) for total in sums
    ]
