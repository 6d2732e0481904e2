"""Pooling on the CPU: one pass over the windows, one plane (image and channel) after the other,
planes in parallel.

Windows and planes are (H, W); a plane's gradient is scattered by one thread in a fixed order, so
the same inputs give the same bits on any number of threads. The floor is memory: read x once, write
y (and the positions of the maxima).

The op passes complete sizes: kernel, stride, padding (top, left), dilation and the output's
`size`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .lib.llvm_compiled import parallel
from .lib.llvm_compiler import prange


def _plain(a):
    """C-contiguous, writable, (planes, H, W); 16-bit floats widened to float32."""
    wide = a if a.dtype in (np.float32, np.float64, np.int32) else a.astype(np.float32)
    return np.require(wide, requirements=["C", "W"]).reshape(math.prod(a.shape[:-2]), *a.shape[-2:])


def _clip(start, count, dilation, length):
    """The range (first, last + 1) of taps t < count with 0 <= start + t * dilation < length."""
    first = 0 if start >= 0 else (-start + dilation - 1) // dilation
    last = min(count, (length - start + dilation - 1) // dilation)
    return first, last


@parallel
def _max_pool(x, kernel, stride, padding, dilation, y, index):
    """x (planes, H, W) -> y (planes, P, Q) and index (planes, P, Q) int32: position h * W + w of
    the maximum."""
    planes, height, width = x.shape
    for plane in prange(planes):
        for p in range(y.shape[1]):
            top = p * stride[0] - padding[0]
            r0, r1 = _clip(top, kernel[0], dilation[0], height)
            for q in range(y.shape[2]):
                left = q * stride[1] - padding[1]
                s0, s1 = _clip(left, kernel[1], dilation[1], width)
                best, where = x.dtype.type(-np.inf), -1
                if r0 < r1 and s0 < s1:  # else the window holds padding only: -inf, no position
                    where = (top + r0 * dilation[0]) * width + left + s0 * dilation[1]
                for r in range(r0, r1):
                    h = top + r * dilation[0]
                    for s in range(s0, s1):
                        w = left + s * dilation[1]
                        value = x[plane, h, w]
                        if value > best or value != value:  # NaN wins, as in NumPy and torch
                            best, where = value, h * width + w
                y[plane, p, q] = best
                index[plane, p, q] = where


@parallel
def _max_pool_grad(grad, index, dx):
    """grad, index (planes, P, Q). Adds each gradient to its position in dx (planes, H, W), which
    holds zeros before."""
    width = dx.shape[2]
    for plane in prange(grad.shape[0]):
        for p in range(grad.shape[1]):
            for q in range(grad.shape[2]):
                where = index[plane, p, q]
                if where >= 0:
                    h = where // width
                    dx[plane, h, where - h * width] += grad[plane, p, q]


def _span(i, size, step, before, length, padded):
    """Window i of an axis: its first and last + 1 position inside the array, and the number of its
    positions, padding included if `padded`."""
    start = i * step - before
    first, last = max(start, 0), min(start + size, length)
    count = min(start + size, length + before) - start if padded else last - first
    return first, last, count


@parallel
def _avg_pool(x, kernel, stride, padding, count_include_pad, divisor, y):
    """x (planes, H, W) -> y (planes, P, Q), the sum over each window, divided by `divisor`;
    if that is 0, by the number of the window's positions."""
    planes, height, width = x.shape
    for plane in prange(planes):
        for p in range(y.shape[1]):
            h0, h1, rows = _span(p, kernel[0], stride[0], padding[0], height, count_include_pad)
            for q in range(y.shape[2]):
                w0, w1, columns = _span(
                    q, kernel[1], stride[1], padding[1], width, count_include_pad
                )
                total = x.dtype.type(0)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        total += x[plane, h, w]
                y[plane, p, q] = total / (divisor or rows * columns)


@parallel
def _avg_pool_grad(grad, kernel, stride, padding, count_include_pad, divisor, dx):
    """grad (planes, P, Q). Adds to all elements of a window in dx (planes, H, W) their share of its
    gradient; dx holds zeros before."""
    planes, height, width = dx.shape
    for plane in prange(planes):
        for p in range(grad.shape[1]):
            h0, h1, rows = _span(p, kernel[0], stride[0], padding[0], height, count_include_pad)
            for q in range(grad.shape[2]):
                w0, w1, columns = _span(
                    q, kernel[1], stride[1], padding[1], width, count_include_pad
                )
                share = grad[plane, p, q] / (divisor or rows * columns)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        dx[plane, h, w] += share


def max_pool2d(x, *, size, kernel, stride, padding, dilation, **_):
    """x (N, C, H, W) -> maxima (N, C, P, Q) and their positions h * W + w (int32; -1 in a window of
    padding only)."""
    source = _plain(x)
    y = np.empty((len(source), *size), source.dtype)
    index = np.empty(y.shape, np.int32)
    _max_pool(source, kernel, stride, padding, dilation, y, index)
    shape = (*x.shape[:2], *size)
    return y.reshape(shape).astype(x.dtype, copy=False), index.reshape(shape)


def max_pool2d_values(x, **where):
    """The maxima alone."""
    return max_pool2d(x, **where)[0]


def max_pool2d_grad(grad, index, *, size, **_):
    """grad, index (N, C, P, Q) -> (N, C, H, W): each gradient at its position; size (H, W). The
    windows are parameters for the GPU, whose threads search them."""
    source = _plain(grad)
    dx = np.zeros((len(source), *size), source.dtype)
    _max_pool_grad(source, _plain(index), dx)
    return dx.reshape(*grad.shape[:2], *size).astype(grad.dtype, copy=False)


def max_pool2d_take(x, index, **_):
    """x (N, C, H, W), index (N, C, P, Q) -> x at these positions (N, C, P, Q), 0 where the position
    is -1."""
    if not x.size:
        return np.zeros(index.shape, x.dtype)
    flat = x.reshape(*x.shape[:2], -1)
    where = index.reshape(*x.shape[:2], -1)
    taken = np.take_along_axis(flat, np.maximum(where, 0).astype(np.intp), axis=2)
    return np.where(where >= 0, taken, x.dtype.type(0)).reshape(index.shape)


def avg_pool2d(x, *, size, kernel, stride, padding, count_include_pad, divisor, **_):
    """x (N, C, H, W) -> means (N, C, P, Q)."""
    source = _plain(x)
    y = np.empty((len(source), *size), source.dtype)
    _avg_pool(source, kernel, stride, padding, count_include_pad, divisor, y)
    return y.reshape(*x.shape[:2], *size).astype(x.dtype, copy=False)


def avg_pool2d_grad(grad, *, size, kernel, stride, padding, count_include_pad, divisor, **_):
    """grad (N, C, P, Q) -> (N, C, H, W): each gradient shared out over its window; size (H, W)."""
    source = _plain(grad)
    dx = np.zeros((len(source), *size), source.dtype)
    _avg_pool_grad(source, kernel, stride, padding, count_include_pad, divisor, dx)
    return dx.reshape(*grad.shape[:2], *size).astype(grad.dtype, copy=False)


def _by_axes(x, pool, size, first, second, **window):
    """A pool of volumes as one of their planes, and then one along their depth. window: name ->
    numbers of the three axes."""
    n, c, d, h, w = x.shape
    planes = pool(
        x.reshape(n, c * d, h, w),
        size=size[1:],
        **{name: value[1:] for name, value in window.items()},
        **first,
    )
    along = {name: (value[0], 0 if name == "padding" else 1) for name, value in window.items()}
    lines = planes.reshape(n, c, d, size[1] * size[2])
    return pool(lines, size=(size[0], lines.shape[3]), **along, **second).reshape(n, c, *size)


def max_pool3d(x, *, size, kernel, stride, padding, dilation):
    """x (N, C, D, H, W) -> maxima (N, C, O, P, Q)."""
    return _by_axes(
        x,
        max_pool2d_values,
        size,
        {},
        {},
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
    )


def avg_pool3d(x, *, size, kernel, stride, padding, count_include_pad, divisor):
    """x (N, C, D, H, W) -> means (N, C, O, P, Q); divisor: what is divided by, 0 for the number of
    positions."""
    wide = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
    how = {"count_include_pad": count_include_pad}
    y = _by_axes(
        wide,
        avg_pool2d,
        size,
        {**how, "divisor": 1 if divisor else 0},
        {**how, "divisor": divisor},
        kernel=kernel,
        stride=stride,
        padding=padding,
    )
    return y.astype(x.dtype, copy=False)


def adaptive_pool(x, *, size, kind):
    """x (N, C, ...) -> (N, C, *size): the "max" or "mean" of bins, of one axis after the other;
    bins are not empty."""
    y = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
    reduce: Any = np.mean if kind == "mean" else np.max
    for axis, (count, length) in enumerate(zip(size, x.shape[2:], strict=True), 2):
        edges = [(p * length // count, -(-(p + 1) * length // count)) for p in range(count)]
        before = (slice(None),) * axis
        y = np.stack([reduce(y[(*before, slice(*edge))], axis) for edge in edges], axis)
    return y.astype(x.dtype, copy=False)
