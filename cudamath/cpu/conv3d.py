"""Convolutions of volumes and their gradients: a sum of image convolutions (conv.py) over the taps
along the depth.

`library` is for GPUs.
"""

from __future__ import annotations

import numpy as np

from . import conv
from .lib.float32_sums import widen


def _met(depth, planes, tap, stride, front, dilation):
    """Which of `planes` outputs meet plane o * stride + tap * dilation - front of `depth` inputs at
    this tap, and which these are; None if none does."""
    start = tap * dilation - front
    first, last = max(0, -(start // stride)), min(planes, -((start - depth) // stride))
    if first >= last:
        return None
    return slice(first, last), slice(
        first * stride + start, (last - 1) * stride + start + 1, stride
    )


def _flat(x):
    """Planes (N, C, D, H, W) as images (N * D, C, H, W)."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(
        x.shape[0] * x.shape[2], x.shape[1], *x.shape[3:]
    )


def _deep(images, count):
    """The way back."""
    return images.reshape(count, -1, *images.shape[1:]).swapaxes(1, 2)


def _inside(stride, padding, dilation, groups):
    """Options of the convolutions of planes."""
    return {
        "stride": stride[1:],
        "padding": padding[2:],
        "dilation": dilation[1:],
        "groups": groups,
    }


def conv3d(x, weight, bias=None, *, stride, padding, dilation, groups, library=False):
    """x (N, G*C, D, H, W), weight (G*M, C, T, R, S), bias (G*M,); padding before and after each
    axis -> (N, G*M, O, P, Q)."""
    wide, weights, where = widen(x), widen(weight), _inside(stride, padding, dilation, groups)
    size = [
        (n + sum(padding[2 * i : 2 * i + 2]) - dilation[i] * (weight.shape[2 + i] - 1) - 1)
        // stride[i]
        + 1
        for i, n in enumerate(x.shape[2:])
    ]
    y = np.zeros((x.shape[0], weight.shape[0], *size), wide.dtype)
    for t in range(weight.shape[2]):
        met = _met(x.shape[2], size[0], t, stride[0], padding[0], dilation[0])
        if met is not None and y.size:
            planes = conv.conv2d(_flat(wide[:, :, met[1]]), weights[:, :, t], **where)
            y[:, :, met[0]] += _deep(planes, x.shape[0])
    if bias is not None:
        y += widen(bias)[:, None, None, None]
    return y.astype(x.dtype, copy=False)


def conv3d_input_grad(
    grad, weight, bias=None, *, size, stride, padding, dilation, groups, library=False
):
    """grad (N, G*M, O, P, Q), weight (G*M, C, T, R, S), bias (G*C,), size (D, H, W) -> (N, G*C, D,
    H, W)."""
    wide, weights, where = widen(grad), widen(weight), _inside(stride, padding, dilation, groups)
    x = np.zeros((grad.shape[0], groups * weight.shape[1], *size), wide.dtype)
    for t in range(weight.shape[2]):
        met = _met(size[0], grad.shape[2], t, stride[0], padding[0], dilation[0])
        if met is not None and x.size:
            planes = conv.conv2d_input_grad(
                _flat(wide[:, :, met[0]]), weights[:, :, t], size=size[1:], **where
            )
            x[:, :, met[1]] += _deep(planes, grad.shape[0])
    if bias is not None:
        x += widen(bias)[:, None, None, None]
    return x.astype(grad.dtype, copy=False)


def conv3d_weight_grad(grad, x, *, kernel, stride, padding, dilation, groups, library=False):
    """grad (N, G*M, O, P, Q), x (N, G*C, D, H, W), kernel (T, R, S) -> (G*M, C, T, R, S)."""
    grads, wide, where = widen(grad), widen(x), _inside(stride, padding, dilation, groups)
    weight = np.zeros((grad.shape[1], x.shape[1] // groups, *kernel), wide.dtype)
    for t in range(kernel[0]):
        met = _met(x.shape[2], grad.shape[2], t, stride[0], padding[0], dilation[0])
        if met is not None and weight.size:
            weight[:, :, t] = conv.conv2d_weight_grad(
                _flat(grads[:, :, met[0]]), _flat(wide[:, :, met[1]]), kernel=kernel[1:], **where
            )
    return weight.astype(x.dtype, copy=False)
