"""Normalisation: batch, layer, RMS, group and instance norm, and their gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..autodiff.transforms import stop_gradient
from ..core.array import ndarray
from ..core.autograd import backward as autograd_backward
from ..core.autograd import tape
from ..core.dispatch.checks import coerce
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, Op
from ..core.layout import Layout, is_channels_last
from ..core.shapes import as_integer, normalize_shape
from ..core.typing import ArrayLike
from ..ops.creation import ones, ones_like, zeros
from ..ops.elementwise import sqrt, where
from ..ops.random.bit_stream import number
from ..ops.shape import copied as copy
from ..ops.shape import moveaxis
from .norm_second_order import second_order, through_statistics
from .softmax import in_order

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


# -------------------- checks


def _parameters(
    name: str,
    x: ndarray,
    shape: tuple[int, ...],
    values: dict[str, ndarray | None],
    *,
    optional: bool = False,
) -> list:
    """Weight, bias, ...: checked, of one dtype; ones for a missing weight (or variance), zeros for
    the rest, or, if they are optional, None."""
    dtype = next((v.dtype for v in values.values() if v is not None), x.dtype)
    out: list[ndarray | None] = []
    for what, value in values.items():
        if value is None:
            if optional:
                out.append(None)
                continue
            value = (ones if what in ("weight", "running_var") else zeros)(
                shape, dtype=dtype, device=x.device
            )
        if value.shape != shape:
            raise ValueError(
                f"{name}: x of shape {x.shape} wants {what} of shape {shape}, got {value.shape}"
            )
        small = x.dtype.itemsize == 2
        if value.dtype != dtype or not (dtype == x.dtype or small and dtype == np.float32):
            raise TypeError(
                f"{name}: x of dtype {x.dtype} wants all parameters in {x.dtype}"
                f"{' or all in float32' if small else ''}, got {what} of {value.dtype}"
            )
        out.append(in_order(value))
    return out


def _operands(
    name: str, x: Any, values: dict[str, Any]
) -> tuple[ndarray, dict[str, ndarray | None]]:
    """x and the parameters that are there as floating-point arrays on one device."""
    there = [what for what, value in values.items() if value is not None]
    x, *found = coerce(name, (x, *(values[what] for what in there)), FLOATING)
    return x, dict.fromkeys(values) | dict(zip(there, found, strict=True))


@functools.cache
def _order(layout: Layout) -> str:
    """How (N, C, ...) lies in memory: "C", "channels last", or "" for anything else."""
    if layout.contiguous:
        return "C"
    return "channels last" if is_channels_last(layout) else ""


def _ordered_as(g: ndarray, x: ndarray) -> ndarray:
    """`g` with the strides of `x`: itself, or a copy."""
    if g.strides == x.strides:
        return g
    return in_order(g) if x.is_contiguous else moveaxis(copy(moveaxis(g, 1, -1)), -1, 1)


# -------------------- batch norm


@fast_path("x", "running_mean", "running_var", "weight", "bias", "residual")
def batch_norm(
    x: Any,
    running_mean: ArrayLike | None = None,
    running_var: ArrayLike | None = None,
    weight: Any = None,
    bias: Any = None,
    *,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    activation: str | None = None,
    residual: ArrayLike | None = None,
) -> Any:
    """Batch normalisation: every channel standardised over the batch, then scaled and shifted.

    y[n, c, ...] = (x[n, c, ...] - mean[c]) / sqrt(var[c] + eps) * weight[c] + bias[c] + residual[n,
    c, ...], or relu of that.

    In training, mean and variance are those of `x` over all axes but the channels; otherwise the
    running ones. Nothing is updated in place: training returns the new running statistics,

    new_mean = (1 - momentum) running_mean + momentum mean,   new_var the same with the variance
        over count - 1.

    Parameters
    ----------
    x : array (N, C) or (N, C, d1, ...) of float16, bfloat16, float32 or float64
        In C order or with the channels last in memory; the result lies in the same order on the
        GPU.
    running_mean, running_var : arrays (C,), optional
        Required unless `training`; without them training returns the statistics of this batch.
    weight, bias : arrays (C,), optional
        1 and 0 if missing. All four in the dtype of `x`; for 16-bit `x` also all in float32.
    training : bool, default False
        Whether the statistics of this batch are used, and the running ones updated.
    momentum : float, default 0.1
        Share of this batch in the new running statistics.
    eps : float, default 1e-5
        Added to the variance.
    activation : None or "relu", optional
        Applied last. It and the residual cost no pass over memory of their own, forward and
        backward.
    residual : array, shape and dtype of `x`, optional
        Added before the activation.

    Returns
    -------
    ndarray, or in training a tuple (y, new_mean, new_var)
        Y in shape and dtype of `x`; new statistics (C,). No gradient flows through the new
        statistics.

    Raises
    ------
    TypeError
        An operand is not floating-point, or parameters of another dtype than said above.
    ValueError
        Shapes that do not fit; inference without running statistics; training with fewer than two
        values per channel; an unknown activation.

    Notes
    -----
    Gradient: with respect to x, weight, bias and residual (and, in inference, the statistics), of
    any order. The function is deterministic. Accuracy: the variance is found from distances to the
    mean, so a large mean costs no digits. The gradient of the weight is a sum of g (x - mean) /
    deviation: where g hardly varies it cancels, and the mean's rounding times the sum of g remains.

    References
    ----------
    .. [1] Ioffe & Szegedy (2015); parts are merged as in Chan, Golub & LeVeque (1979).

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.array([[1.0, 10.0], [3.0, 30.0]])
    >>> y, mean, var = cm.ml.batch_norm(x, cm.zeros(2), cm.ones(2), training=True)
    >>> y.round(3).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    >>> mean.round(3).tolist(), var.round(3).tolist()
    ([0.2, 2.0], [1.1, 20.9])
    >>> cm.ml.batch_norm(x, cm.array([2.0, 20.0]), cm.ones(2)).round(3).tolist()
    [[-1.0, -10.0], [1.0, 10.0]]
    >>> mean, var = cm.array([2.0, 20.0]), cm.ones(2)
    >>> cm.ml.batch_norm(x, mean, var, activation="relu", residual=x).round(3).tolist()
    [[0.0, 0.0], [4.0, 40.0]]
    """
    name = "batch_norm"
    x, parameters = _operands(
        name,
        x,
        {
            "running_mean": running_mean,
            "running_var": running_var,
            "weight": weight,
            "bias": bias,
            "residual": residual,
        },
    )
    residual = parameters.pop("residual")
    if x.ndim < 2:
        raise ValueError(f"{name}: wants x (N, C, ...), got shape {x.shape}")
    without = parameters["running_mean"] is None
    if without != (parameters["running_var"] is None) or (without and not training):
        raise ValueError(
            f"{name}: wants running_mean and running_var"
            + (" both or neither" if training else "")
            + f", got {'no' if without else 'only'} running_mean"
        )
    if activation not in (None, "relu"):
        raise ValueError(f"{name}: wants activation None or 'relu', got {activation!r}")
    if without:  # two arrays to stand in their places, which momentum 1 does not read
        del parameters["running_mean"], parameters["running_var"]
    *running, weight, bias = _parameters(name, x, (x.shape[1],), parameters, optional=not training)
    mean, var = running or (bias, weight)
    if not _order(x._layout):
        x = copy(x)
    more = []
    if residual is not None:
        if residual.shape != x.shape:
            raise ValueError(f"{name}: wants residual of x's shape {x.shape}, got {residual.shape}")
        if residual.dtype != x.dtype:
            raise TypeError(
                f"{name}: wants residual of x's dtype {x.dtype}, got {residual.dtype} of shape "
                f"{residual.shape}"
            )
        more = [_ordered_as(residual, x)]
    relu, eps = activation == "relu", number(name, "eps", eps)
    if not training:
        return _batch_norm_inference(
            x, mean, var, weight, bias, *(more or (None,)), eps=eps, relu=relu
        )
    count = x.shape[0] * math.prod(x.shape[2:])
    if count < 2:
        raise ValueError(
            f"{name}: training wants at least two values a channel, x of shape {x.shape} has "
            f"{count}"
        )
    momentum = 1.0 if without else number(name, "momentum", momentum)
    y, _, _, new_mean, new_var = _batch_norm_train(
        x, weight, bias, mean, var, *more, momentum=momentum, eps=eps, relu=relu
    )
    if y._node is None:
        return y, new_mean, new_var
    if not (relu and more):  # then x says where the relu was on
        tape.not_needed(y)
    return y, stop_gradient(new_mean), stop_gradient(new_var)


def _batch_norm_rule(
    g: tuple,
    y: tuple,
    x: ndarray,
    weight: ndarray,
    bias: ndarray,
    _mean: None,
    _var: None,
    *_residual: None,
    momentum: float,
    eps: float,
    relu: bool,
) -> tuple:
    more = None
    if g[1] is not None or g[2] is not None:
        to_mean, to_rstd = [
            None if v is None else _over_channels(autograd_backward.total(v), x) for v in g[1:3]
        ]
        more = through_statistics(
            to_mean, to_rstd, x, _over_channels(y[1], x), _over_channels(y[2], x)
        )
    if g[0] is None:
        return more, *(None,) * (4 + len(_residual))
    values = x, weight, bias, y[1], y[2]
    if relu and _residual:
        first, *other = [_ordered_as(each, x) for each in autograd_backward.terms(g[0])]
        dx, *grads, to_residual = _batch_norm_residual_grad(first, *values, y[0], *other)
    else:
        to_residual = autograd_backward.total(g[0])
        dx, *grads = _batch_norm_grad(_ordered_as(to_residual, x), *values, relu=relu)
    return dx if more is None else dx + more, *grads, None, None, *[to_residual] * len(_residual)


def _batch_norm_grad_rule(
    h: tuple,
    _dx: None,
    g: ndarray,
    x: ndarray,
    weight: ndarray,
    bias: ndarray,
    mean: ndarray,
    rstd: ndarray,
    *y: ndarray,
    relu: bool = True,
) -> tuple:
    if len(y) == 2:  # the second part of g
        g = g + y[1]
    axes = (0, *range(2, x.ndim))
    weight, bias, mean, rstd = (_over_channels(v, x) for v in (weight, bias, mean, rstd))
    on = None  # where the relu let something through
    if y:
        on = y[0] > 0
    elif relu:
        on = (x - mean) * rstd * weight + bias > 0
    h = h[0], *(None if v is None else _over_channels(v, x) for v in h[1:3]), *h[3:]
    dg, dx, dweight = second_order(
        h[:3], g if on is None else where(on, g, 0), x, weight, mean, rstd, axes
    )
    if y and h[3] is not None:
        dg = dg + h[3]
    dg = dg if on is None else where(on, dg, 0)
    return (
        dg,
        dx,
        None if dweight is None else dweight.sum(axes),
        *[None] * (3 + min(len(y), 1)),
        *[dg] * (len(y) - 1),
    )


def _over_channels(v: ndarray, x: ndarray) -> ndarray:
    """(C,) -> (1, C, 1, ...), to broadcast over x."""
    return v.reshape((1, -1, *(1,) * (x.ndim - 2)))


def _inference_rule(
    g: ndarray,
    y: ndarray,
    x: ndarray,
    mean: ndarray,
    var: ndarray,
    weight: ndarray | None,
    _bias: None,
    *_residual: None,
    eps: float,
    relu: bool,
) -> tuple:
    if relu:
        g = where(y > 0, g, 0)
    axes = (0, *range(2, x.ndim))
    rstd = 1 / sqrt(var + eps)
    distance = x - _over_channels(mean, x)
    sum_g, sum_gd = g.sum(axes, dtype=mean.dtype), (g * distance).sum(axes)
    scale = rstd if weight is None else rstd * weight
    return (
        g * _over_channels(scale, x),
        -sum_g * scale,
        sum_gd * scale * rstd * rstd * -0.5,
        sum_gd * rstd,
        sum_g,
        *[g] * len(_residual),
    )


_batch_norm_train = Op(
    "batch_norm",
    cpu="norm.batch_norm_train",
    cuda="norm.dispatch.batch_norm_train",
    outputs=5,
    vjp=_batch_norm_rule,
    adds=True,
)
_batch_norm_grad = Op(
    "batch_norm_grad",
    cpu="norm.batch_norm_grad",
    cuda="norm.dispatch.batch_norm_grad",
    outputs=3,
    vjp=_batch_norm_grad_rule,
)
_batch_norm_residual_grad = Op(
    "batch_norm_residual_grad",
    cpu="norm.batch_norm_residual_grad",
    outputs=4,
    cuda="norm.dispatch.batch_norm_residual_grad",
    vjp=_batch_norm_grad_rule,
)
_batch_norm_inference = Op(
    "batch_norm_inference",
    cpu="norm.batch_norm_inference",
    cuda="norm.dispatch.batch_norm_inference",
    vjp=_inference_rule,
)


# -------------------- layer and RMS norm


def _row_operands(
    name: str, x: Any, normalized_shape: int | Sequence[int], weight: Any, bias: Any, residual: Any
) -> tuple:
    """(columns, x, weight, bias, residual), checked and in C order; what is missing stays None."""
    x, parameters = _operands(name, x, {"weight": weight, "bias": bias, "residual": residual})
    shape = normalize_shape(name, normalized_shape, "normalized_shape")
    if not shape or 0 in shape or x.shape[-len(shape) :] != shape:
        raise ValueError(
            f"{name}: normalized_shape {shape} is not the non-empty end of x's shape {x.shape}"
        )
    residual = parameters.pop("residual")
    if residual is not None and (residual.shape != x.shape or residual.dtype != x.dtype):
        raise (ValueError if residual.dtype == x.dtype else TypeError)(
            f"{name}: wants a residual like x, {x.dtype} of shape {x.shape}, got {residual.dtype} "
            f"of shape {residual.shape}"
        )
    scales = _parameters(name, x, shape, parameters, optional=True)
    columns = math.prod(shape)
    return columns, *[None if v is None else in_order(v) for v in (x, *scales, residual)]


@fast_path("x", "weight", "bias", "residual")
def layer_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    residual: Any = None,
) -> Any:
    """Layer normalisation: the trailing axes standardised, then scaled and shifted.

    y = (x - mean) / sqrt(var + eps) * weight + bias, mean and variance over the axes of
    `normalized_shape`. With a residual, h = x + residual is what is standardised, in the same pass
    over memory; so is its gradient.

    Parameters
    ----------
    x : array (..., *normalized_shape) of float16, bfloat16, float32 or float64
        Array whose trailing axes are normalised.
    normalized_shape : int or sequence of int
        Lengths of the trailing axes to normalise over.
    weight, bias : arrays of shape `normalized_shape`, optional
        Left out if missing. In the dtype of `x`; for 16-bit `x` also both in float32.
    eps : float, default 1e-5
        Added to the variance.
    residual : array, shape and dtype of `x`, optional
        Added to `x` before the normalisation. The sum is returned as well.

    Returns
    -------
    ndarray, or with a residual a tuple (y, h)
        Shape and dtype of `x`. 16-bit numbers are computed in float32; h is rounded before it is
        standardised.

    Raises
    ------
    TypeError
        An operand is not floating-point, or of another dtype than said above.
    ValueError
        Shapes that do not fit.

    Notes
    -----
    Gradient: with respect to x, weight, bias and residual, of any order. Deterministic: sums over
    rows in a fixed order.

    References
    ----------
    .. [1] Ba, Kiros & Hinton (2016).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.layer_norm(cm.array([[1.0, 3.0], [5.0, 5.0]]), 2).round(3).tolist()
    [[-1.0, 1.0], [0.0, 0.0]]
    >>> y, h = cm.ml.layer_norm(cm.array([0.0, 1.0]), 2, residual=cm.array([1.0, 2.0]))
    >>> y.round(3).tolist(), h.tolist()
    ([-1.0, 1.0], [1.0, 3.0])
    """
    columns, x, weight, bias, residual = _row_operands(
        "layer_norm", x, normalized_shape, weight, bias, residual
    )
    eps = number("layer_norm", "eps", eps)
    results = _layer_norm(x, weight, bias, residual, columns=columns, eps=eps)
    return results[0] if residual is None else (results[0], results[3])


@fast_path("x", "weight", "residual")
def rms_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    eps: float | None = None,
    *,
    residual: Any = None,
) -> Any:
    """Root-mean-square normalisation.

    The trailing axes divided by their root mean square, then scaled.

    y = x / sqrt(mean(x^2) + eps) * weight, the mean over the axes of `normalized_shape`. With a
    residual, h = x + residual is what is normalised, in the same pass over memory; so is its
    gradient.

    Parameters
    ----------
    x : array (..., *normalized_shape) of float16, bfloat16, float32 or float64
        Array of any shape and dtype.
    normalized_shape : int or sequence of int
        Lengths of the trailing axes to normalise over.
    weight : array of shape `normalized_shape`, optional
        1 if missing. In the dtype of `x`; for 16-bit `x` also in float32.
    eps : float, optional
        By default the distance from 1 to the next number of x's dtype, as in PyTorch.
    residual : array, shape and dtype of `x`, optional
        Added to `x` before the normalisation. The sum is returned as well.

    Returns
    -------
    ndarray, or with a residual a tuple (y, h)
        Shape and dtype of `x`. 16-bit numbers are computed in float32; h is rounded before it is
        normalised.

    Raises
    ------
    TypeError
        An operand is not floating-point, or of another dtype than said above.
    ValueError
        Shapes that do not fit.

    Notes
    -----
    Gradient: with respect to x, weight and residual, of any order. Deterministic: sums over rows in
    a fixed order.

    References
    ----------
    .. [1] Zhang & Sennrich (2019).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.rms_norm(cm.array([3.0, 4.0, 0.0, 0.0]), 4).round(3).tolist()
    [1.2, 1.6, 0.0, 0.0]
    """
    columns, x, weight, _, residual = _row_operands(
        "rms_norm", x, normalized_shape, weight, None, residual
    )
    eps = _EPS[x._layout.dtype] if eps is None else number("rms_norm", "eps", eps)
    results = _rms_norm(x, weight, residual, columns=columns, eps=eps)
    return results[0] if residual is None else (results[0], results[2])


_EPS = {
    np.dtype(kind): float(ml_dtypes.finfo(kind).eps)
    for kind in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
}


def _layer_norm_rule(
    g: tuple,
    y: tuple,
    x: ndarray,
    weight: ndarray | None,
    bias: ndarray | None,
    _residual: None,
    *,
    columns: int,
    eps: float,
) -> tuple:
    extra, h = (g[3], y[3]) if len(y) > 3 else (None, x)
    more = _through_rows(g[1], g[2], h, y[1], y[2], columns)
    if more is not None:
        extra = more if extra is None else extra + more
    if g[0] is None:
        return extra, None, None, extra
    scale = (
        ones_like(bias) if weight is None and bias is not None else weight
    )  # shape and dtype of the bias's gradient, too
    dx, *slopes = _layer_norm_grad(
        in_order(g[0]),
        h,
        scale,
        y[1],
        y[2],
        None if extra is None else in_order(extra),
        columns=columns,
        biased=bias is not None,
    )
    return dx, None if weight is None else slopes[0], None if bias is None else slopes[-1], dx


def _layer_norm_grad_rule(
    h: tuple,
    _dx: None,
    g: ndarray,
    x: ndarray,
    weight: ndarray | None,
    mean: ndarray,
    rstd: ndarray,
    _extra: None,
    *,
    columns: int,
    biased: bool,
) -> tuple:
    h = (h[0], None if weight is None else h[1], h[-1] if biased else None)
    dg, dx, dweight = _second_order_rows(h, g, x, weight, mean, rstd, columns)
    return dg, dx, dweight, None, None, h[0]


def _rms_norm_rule(
    g: tuple,
    y: tuple,
    x: ndarray,
    weight: ndarray | None,
    _residual: None,
    *,
    columns: int,
    eps: float,
) -> tuple:
    extra, h = (g[2], y[2]) if len(y) > 2 else (None, x)
    more = _through_rows(None, g[1], h, None, y[1], columns)
    if more is not None:
        extra = more if extra is None else extra + more
    if g[0] is None:
        return extra, None, extra
    slopes = _rms_norm_grad(
        in_order(g[0]), h, weight, y[1], None if extra is None else in_order(extra), columns=columns
    )
    return slopes[0], None if weight is None else slopes[1], slopes[0]


def _rms_norm_grad_rule(
    h: tuple,
    _dx: None,
    g: ndarray,
    x: ndarray,
    weight: ndarray | None,
    rstd: ndarray,
    _extra: None,
    *,
    columns: int,
) -> tuple:
    h = (h[0], None if weight is None else h[1], None)
    dg, dx, dweight = _second_order_rows(h, g, x, weight, None, rstd, columns)
    return dg, dx, dweight, None, h[0]


def _through_rows(
    to_mean: ndarray | None,
    to_rstd: ndarray | None,
    x: ndarray,
    mean: ndarray | None,
    rstd: ndarray,
    columns: int,
) -> ndarray | None:
    """`through_statistics` over rows, in the shape and dtype of x."""
    if to_mean is None and to_rstd is None:
        return None
    to_mean, to_rstd, mean = [
        None if v is None else v.reshape((-1, 1)) for v in (to_mean, to_rstd, mean)
    ]
    found = through_statistics(
        to_mean, to_rstd, x.reshape((-1, columns)), mean, rstd.reshape((-1, 1))
    )
    return found.reshape(x.shape).astype(x.dtype, copy=False)


def _second_order_rows(
    h: tuple,
    g: ndarray,
    x: ndarray,
    weight: ndarray | None,
    mean: ndarray | None,
    rstd: ndarray,
    columns: int,
) -> tuple:
    """`second_order` over rows, in the shapes of g, x and weight."""

    def rows(v: ndarray | None, width: int) -> Any:
        return None if v is None else v.reshape((-1, width))

    h = (rows(h[0], columns), *[None if v is None else v.reshape((-1,)) for v in h[1:]])
    scale: Any = 1.0 if weight is None else weight.reshape((-1,))
    dg, dx, dweight = second_order(
        h, rows(g, columns), rows(x, columns), scale, rows(mean, 1), rows(rstd, 1), (1,)
    )
    if weight is not None and dweight is not None:
        dweight = dweight.sum(0).reshape(weight.shape)
    return dg.reshape(x.shape), dx.reshape(x.shape), None if weight is None else dweight


_layer_norm = Op(
    "layer_norm",
    cpu="norm.layer_norm",
    cuda="norm.dispatch.layer_norm",
    outputs=3,
    vjp=_layer_norm_rule,
)
_layer_norm_grad = Op(
    "layer_norm_grad",
    cpu="norm.layer_norm_grad",
    cuda="norm.dispatch.layer_norm_grad",
    outputs=3,
    vjp=_layer_norm_grad_rule,
)
_rms_norm = Op(
    "rms_norm", cpu="norm.rms_norm", cuda="norm.dispatch.rms_norm", outputs=2, vjp=_rms_norm_rule
)
_rms_norm_grad = Op(
    "rms_norm_grad",
    cpu="norm.rms_norm_grad",
    cuda="norm.dispatch.rms_norm_grad",
    outputs=2,
    vjp=_rms_norm_grad_rule,
)


# -------------------- group and instance norm


@fast_path("x", "weight", "bias")
def group_norm(
    x: ArrayLike,
    num_groups: int,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
) -> ndarray:
    """Group normalisation: the channels of a sample in groups, each standardised.

    Then scaled and shifted by channel.

    y[n, c, ...] = (x[n, c, ...] - mean[n, k]) / sqrt(var[n, k] + eps) * weight[c] + bias[c], mean
    and variance over all places of the channels of group k = c num_groups // C of sample n.

    Parameters
    ----------
    x : array (N, C, ...) of float16, bfloat16, float32 or float64
        Channels last in memory are brought into C order.
    num_groups : int
        Divides C.
    weight, bias : arrays (C,), optional
        Left out if missing. In the dtype of `x`; for 16-bit `x` also both in float32.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    ndarray
        Shape and dtype of `x`.

    Raises
    ------
    TypeError
        An operand is not floating-point, or parameters of another dtype than said above.
    ValueError
        Shapes that do not fit; num_groups that does not divide C; groups without elements.

    Notes
    -----
    Gradient: with respect to x, weight and bias, of any order. The function is deterministic.
    16-bit numbers are computed in float32.

    References
    ----------
    .. [1] Wu & He (2018).

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.array([[1.0, 3.0, 10.0, 30.0]])
    >>> cm.ml.group_norm(x, 2).round(3).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    return _grouped("group_norm", x, num_groups, weight, bias, eps)


@fast_path("x", "weight", "bias")
def instance_norm(
    x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5
) -> ndarray:
    """Instance normalisation: each channel of each sample standardised, then scaled and shifted.

    It is `group_norm` with as many groups as channels.

    Parameters
    ----------
    x : array (N, C, ...) of float16, bfloat16, float32 or float64
        Channels last in memory are brought into C order.
    weight, bias : arrays (C,), optional
        Left out if missing. In the dtype of `x`; for 16-bit `x` also both in float32.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    ndarray
        Shape and dtype of `x`.

    Raises
    ------
    TypeError
        An operand is not floating-point, or parameters of another dtype than said above.
    ValueError
        Shapes that do not fit; num_groups that does not divide C; groups without elements.

    References
    ----------
    .. [1] Ulyanov, Vedaldi & Lempitsky (2016).

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.array([[[1.0, 3.0], [10.0, 30.0]]])
    >>> cm.ml.instance_norm(x, cm.array([1.0, 2.0])).round(3).tolist()
    [[[-1.0, 1.0], [-2.0, 2.0]]]
    """
    return _grouped("instance_norm", x, None, weight, bias, eps)


def _grouped(name: str, x: Any, groups: int | None, weight: Any, bias: Any, eps: float) -> ndarray:
    x, parameters = _operands(name, x, {"weight": weight, "bias": bias})
    if x.ndim < 2:
        raise ValueError(f"{name}: wants x (N, C, ...), got shape {x.shape}")
    channels = x.shape[1]
    groups = channels if groups is None else as_integer(name, "num_groups", groups, 1)
    if groups and channels % groups:
        raise ValueError(
            f"{name}: num_groups must divide the channels of x {x.shape}, got {groups}"
        )
    if not groups or not channels // groups * math.prod(x.shape[2:]):
        raise ValueError(f"{name}: groups without elements, x has shape {x.shape}")
    weight, bias = _parameters(name, x, (channels,), parameters, optional=True)
    eps = number(name, "eps", eps)
    return _group_norm(in_order(x), weight, bias, groups=groups, eps=eps)[0]


def _group_norm_rule(
    g: tuple,
    y: tuple,
    x: ndarray,
    weight: ndarray | None,
    bias: ndarray | None,
    *,
    groups: int,
    eps: float,
) -> tuple:
    columns = x.shape[1] // groups * math.prod(x.shape[2:])
    more = _through_rows(g[1], g[2], x, y[1], y[2], columns)
    if g[0] is None:
        return more, None, None
    slopes = iter(
        _group_norm_grad(
            in_order(g[0]), x, weight, y[1], y[2], groups=groups, biased=bias is not None
        )
    )
    dx = next(slopes)
    return (
        dx if more is None else dx + more,
        None if weight is None else next(slopes),
        None if bias is None else next(slopes),
    )


def _group_norm_grad_rule(
    h: tuple,
    _dx: None,
    g: ndarray,
    x: ndarray,
    weight: ndarray | None,
    mean: ndarray,
    rstd: ndarray,
    *,
    groups: int,
    biased: bool,
) -> tuple:
    samples, share = x.shape[0], x.shape[1] // groups

    def grouped(v: ndarray | None, *shape: int) -> Any:
        return None if v is None else v.reshape(shape)

    def planes(v: ndarray | None) -> Any:
        return grouped(v, samples, groups, share, math.prod(x.shape[2:]))

    def parameter(v: ndarray | None) -> Any:
        return grouped(v, 1, groups, share, 1)

    h = (
        planes(h[0]),
        None if weight is None else parameter(h[1]),
        parameter(h[-1]) if biased else None,
    )
    mean, rstd = (grouped(v, samples, groups, 1, 1) for v in (mean, rstd))
    scale: Any = 1.0 if weight is None else parameter(weight)
    dg, dx, dweight = second_order(h, planes(g), planes(x), scale, mean, rstd, (2, 3))
    if weight is not None and dweight is not None:
        dweight = dweight.sum((0, 3)).reshape(weight.shape)
    return dg.reshape(x.shape), dx.reshape(x.shape), None if weight is None else dweight, None, None


_group_norm = Op(
    "group_norm",
    cpu="norm.group_norm",
    cuda="norm.dispatch.group_norm",
    outputs=3,
    vjp=_group_norm_rule,
)
_group_norm_grad = Op(
    "group_norm_grad",
    cpu="norm.group_norm_grad",
    cuda="norm.dispatch.group_norm_grad",
    outputs=3,
    vjp=_group_norm_grad_rule,
)
