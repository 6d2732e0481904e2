"""Resizing and padding images on the CPU: one plane after the other, planes in parallel, each sum
in a fixed order."""

from __future__ import annotations

import math

import numpy as np

from ..core.specs.resample import MIXED, taps
from .lib.llvm_compiled import parallel
from .lib.llvm_compiler import prange


def _between(one, s, first, second):
    """(1 - s) first + s second; `first` if s is 0, since 0 times infinity would be NaN."""
    return first if s == 0 else (one - s) * first + s * second


@parallel
def _resize(x, top, bottom, down, left, right, across, y):
    """x (planes, H, W) -> y (planes, P, Q). top, bottom: (P,), the two rows of x that row p mixes;
    down: (P,), the weight of the second. left, right, across: (Q,), the same of columns."""
    one = x.dtype.type(1)
    for plane in prange(len(x)):
        for p in range(y.shape[1]):
            a, b, f = top[p], bottom[p], down[p]
            for q in range(y.shape[2]):
                c, d, e = left[q], right[q], across[q]
                upper = _between(one, e, x[plane, a, c], x[plane, a, d])
                lower = _between(one, e, x[plane, b, c], x[plane, b, d])
                y[plane, p, q] = _between(one, f, upper, lower)


@parallel
def _nearest(x, rows, columns, y):
    """The same without mixing: elements are copied, infinities included."""
    for plane in prange(len(x)):
        for p in range(y.shape[1]):
            for q in range(y.shape[2]):
                y[plane, p, q] = x[plane, rows[p], columns[q]]


@parallel
def _resize_grad(g, top, bottom, down, left, right, across, dx):
    """g (planes, P, Q). Adds each gradient to the elements of dx (planes, H, W) that its result was
    made from; dx holds zeros before."""
    one = g.dtype.type(1)
    for plane in prange(len(g)):
        for p in range(g.shape[1]):
            a, b, f = top[p], bottom[p], down[p]
            for q in range(g.shape[2]):
                c, d, e = left[q], right[q], across[q]
                v = g[plane, p, q]
                dx[plane, a, c] += (one - f) * (one - e) * v
                dx[plane, a, d] += (one - f) * e * v
                dx[plane, b, c] += f * (one - e) * v
                dx[plane, b, d] += f * e * v


@parallel
def _nearest_grad(g, rows, columns, dx):
    """The same without mixing."""
    for plane in prange(len(g)):
        for p in range(g.shape[1]):
            for q in range(g.shape[2]):
                dx[plane, rows[p], columns[q]] += g[plane, p, q]


def _mixed(axes):
    return any(mode in MIXED for mode, _ in axes)


def _tables(source, target, axes, dtype):
    tables = [
        taps(length, count, *axis) for length, count, axis in zip(source, target, axes, strict=True)
    ]
    if not _mixed(axes):
        return [axis.first for axis in tables]
    return [
        table.astype(dtype) if table.dtype == np.float64 else table
        for axis in tables
        for table in axis
    ]


def _planes(x):
    """C-contiguous (planes, rows, columns), widened."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.require(wide, requirements=["C", "W"]).reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


def resize(x, *, size, axes, **_):
    """x (N, C, H, W) -> (N, C, *size); axes: mode and number for the rows, and for the columns
    (core/specs/resample.py)."""
    source = _planes(x)
    y = np.empty((len(source), *size), source.dtype)
    (_resize if _mixed(axes) else _nearest)(
        source, *_tables(x.shape[2:], size, axes, source.dtype), y
    )
    return y.reshape(*x.shape[:2], *size).astype(x.dtype, copy=False)


def resize_grad(g, *, size, axes, **_):
    """g (N, C, P, Q) -> (N, C, *size), the gradient of images of this size."""
    source = _planes(g)
    dx = np.zeros((len(source), *size), source.dtype)
    (_resize_grad if _mixed(axes) else _nearest_grad)(
        source, *_tables(size, g.shape[2:], axes, source.dtype), dx
    )
    return dx.reshape(*g.shape[:2], *size).astype(g.dtype, copy=False)
