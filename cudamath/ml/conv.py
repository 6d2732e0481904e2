"""Convolution: the cards of conv2d and of its two gradients."""

from __future__ import annotations

import operator
from typing import Any

from ..core.array import ndarray
from ..core.op import FLOATING, Op, require

__all__ = ["conv2d"]


def pair(name: str, what: str, value: Any, least: int) -> tuple[int, int]:
    """`value`, one integer or two (rows, columns), as two that are at least `least`."""
    try:
        both = tuple(operator.index(v) for v in (value if isinstance(value, (tuple, list)) else (value, value)))
    except TypeError:
        raise ValueError(f"{name}: wants {what} as an integer or two (rows, columns), got {value!r}") from None
    if len(both) != 2 or min(both) < least:
        raise ValueError(f"{name}: wants {what} as one or two integers >= {least}, got {value!r}")
    return both


def images(name: str, x: Any) -> ndarray:
    """x as a floating-point array (N, C, H, W)."""
    x = require(name, x, FLOATING)
    if x.ndim != 4:
        raise ValueError(f"{name}: wants x of shape (N, C, H, W), got shape {x.shape}")
    return x


def _margins(padding: Any, stride: tuple[int, int], dilation: tuple[int, int],
             kernel: tuple[int, int]) -> tuple[int, int, int, int]:
    """Padding as (top, bottom, left, right)."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"conv2d: wants padding as integers, 'same' or 'valid', got {padding!r}")
        if padding == "same" and stride != (1, 1):
            raise ValueError(f"conv2d: padding 'same' wants stride 1, got stride {stride}")
        both = [dilation[i] * (kernel[i] - 1) if padding == "same" else 0 for i in (0, 1)]
        return both[0] // 2, both[0] - both[0] // 2, both[1] // 2, both[1] - both[1] // 2
    rows, columns = pair("conv2d", "padding", padding, 0)
    return rows, rows, columns, columns


def conv2d(x: Any, weight: Any, bias: Any = None, *, stride: int | tuple[int, int] = 1,
           padding: int | tuple[int, int] | str = 0, dilation: int | tuple[int, int] = 1, groups: int = 1) -> ndarray:
    """Two-dimensional convolution of images (cross-correlation, as in every ML library).

    y[n, k, p, q] = bias[k] + sum over c, r, s of
    weight[k, c, r, s] * x[n, c', p * stride + r * dilation - padding, q * stride + s * dilation - padding],
    where x is 0 outside, and c' is channel c of the group that output k belongs to.
    P = floor((H + 2 padding - dilation (R - 1) - 1) / stride) + 1; Q alike.

    Parameters
    ----------
    x : array (N, C, H, W) of float16, bfloat16, float32 or float64
        Images. 16-bit numbers are summed in float32. Any strides.
    weight : array (K, C / groups, R, S), dtype of `x`
        Filters.
    bias : array (K,), dtype of `x`, optional
        Added to every position.
    stride, dilation : int or (rows, columns), at least 1
        Distance between windows, and between the taps of a window.
    padding : int or (rows, columns), at least 0; or "valid" (none) or "same"
        Zeros around the images. "same" keeps H x W (stride 1 only); an odd total puts the extra one below and right.
    groups : int
        Splits channels and outputs into so many equal groups; an output sees the channels of its own group only.
        groups = C is a depthwise convolution.

    Returns
    -------
    ndarray
        (N, K, P, Q), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point, or the dtypes differ.
    ValueError
        Shapes that do not fit each other or `groups`; a stride, padding or dilation out of range; a window larger
        than the padded images.

    Gradient: with respect to x, weight and bias, of any order. Every sum is taken in a fixed order: the same inputs
    give the same bits.

    Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.

    >>> import cudamath as cm
    >>> x = cm.asarray([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]])
    >>> edges = cm.asarray([[[[1.0, -1.0]]]])
    >>> cm.ml.conv2d(x, edges).tolist()
    [[[[-1.0, -1.0], [-1.0, -1.0], [-1.0, -1.0]]]]
    >>> cm.ml.conv2d(x, cm.ones((4, 1, 3, 3)), cm.ones(4), stride=2, padding=1).shape
    (1, 4, 2, 2)
    """
    x = images("conv2d", x)
    weight = require("conv2d", weight, FLOATING, "weights")
    if weight.ndim != 4 or 0 in weight.shape[2:]:
        raise ValueError(f"conv2d: wants weight of shape (K, C / groups, R, S), got shape {weight.shape}")
    try:
        groups = operator.index(groups)
    except TypeError:
        raise ValueError(f"conv2d: wants groups as an integer, got {groups!r}") from None
    channels, outputs = x.shape[1], weight.shape[0]
    if groups < 1 or channels % groups or outputs % groups:
        raise ValueError(f"conv2d: groups must divide the {channels} channels of x {x.shape} and the {outputs} outputs "
                         f"of weight {weight.shape}, got groups={groups}")
    if weight.shape[1] * groups != channels:
        raise ValueError(f"conv2d: x {x.shape} has {channels} channels in {groups} groups, so weight wants "
                         f"{channels // groups} in its second axis, got weight {weight.shape}")
    operands = [x, weight]
    if bias is not None:
        operands.append(require("conv2d", bias, FLOATING, "biases"))
        if operands[2].shape != (outputs,):
            raise ValueError(f"conv2d: wants bias of shape ({outputs},) for weight {weight.shape}, "
                             f"got shape {operands[2].shape}")
    if any(a.dtype != x.dtype for a in operands):
        found = ", ".join(str(a.dtype) for a in operands)
        raise TypeError(f"conv2d: wants x, weight and bias of one dtype, got {found}")
    stride, dilation = pair("conv2d", "stride", stride, 1), pair("conv2d", "dilation", dilation, 1)
    margins = _margins(padding, stride, dilation, weight.shape[2:])
    for i in (0, 1):
        padded = x.shape[2 + i] + margins[2 * i] + margins[2 * i + 1]
        window = dilation[i] * (weight.shape[2 + i] - 1) + 1
        if window > padded:
            raise ValueError(f"conv2d: a window of {window} {('rows', 'columns')[i]} (weight {weight.shape}, dilation "
                             f"{dilation}) is larger than the {padded} of the padded images (x {x.shape}, padding "
                             f"{padding!r})")
    return _conv2d(*operands, stride=stride, padding=margins, dilation=dilation, groups=groups)


# The three are one trilinear form in (x, weight, gradient): the gradients of each are the other two, to any order.
# A gradient that nothing waits for (of the images, in a network's first layer) is not computed.


def _conv2d_rule(g: ndarray, _y: None, x: ndarray, weight: ndarray, *_bias: None, **where: Any) -> tuple:
    return (_conv2d_input_grad(g, weight, size=x.shape[2:], **where) if x._node else None,
            _conv2d_weight_grad(g, x, kernel=weight.shape[2:], **where) if weight._node else None,
            *[g.sum(axis=(0, 2, 3)) for _ in _bias])


def _input_grad_rule(g: ndarray, _y: None, grad: ndarray, weight: ndarray, *, size: Any, **where: Any) -> tuple:
    return (_conv2d(g, weight, **where) if grad._node else None,
            _conv2d_weight_grad(grad, g, kernel=weight.shape[2:], **where) if weight._node else None)


def _weight_grad_rule(g: ndarray, _y: None, grad: ndarray, x: ndarray, *, kernel: Any, **where: Any) -> tuple:
    return (_conv2d(x, g, **where) if grad._node else None,
            _conv2d_input_grad(grad, g, size=x.shape[2:], **where) if x._node else None)


_conv2d = Op("conv2d", cpu="conv.conv2d", cuda="conv.conv2d", vjp=_conv2d_rule)
_conv2d_input_grad = Op("_conv2d_input_grad", cpu="conv.conv2d_input_grad", cuda="conv.conv2d_input_grad",
                        vjp=_input_grad_rule)
_conv2d_weight_grad = Op("_conv2d_weight_grad", cpu="conv.conv2d_weight_grad", cuda="conv_grad.conv2d_weight_grad",
                         vjp=_weight_grad_rule)
