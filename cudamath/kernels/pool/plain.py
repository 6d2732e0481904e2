"""Pooling by one thread per result, for any strides and windows (dispatch.py has the idea)."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.windows import THREADS, covering, is_large, place, window_size
from .argmax_encoding import BYTE, MAXIMA, NOTE, spot
from .problem import Backward, Forward


@functools.cache
def max_pool2d_kernel(dtype: np.dtype, large: bool) -> Any:
    """One thread per output."""
    load, store, C = codec(dtype)
    locate = place(large)

    @cuda.jit
    def max_pool2d(x, y, index, rows, columns, down, right, top, left, row_step, column_step):
        """x (N, C, H, W), any strides; y and index (int32) (N, C, P, Q). rows, columns: of the
        window; down, right: stride; top, left: padding; row_step, column_step: dilation."""
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, c, p, q = locate(i, y.shape[1], y.shape[2], y.shape[3])
        best, where = C(-np.inf), -1
        for r in range(rows):
            h = p * down - top + r * row_step
            if h >= 0 and h < x.shape[2]:
                for s in range(columns):
                    w = q * right - left + s * column_step
                    if w >= 0 and w < x.shape[3]:
                        value = C(load(x[n, c, h, w]))
                        if (
                            where < 0 or value > best or value != value
                        ):  # NaN wins, as in NumPy and torch
                            best, where = value, h * x.shape[3] + w
        y[n, c, p, q] = store(best)
        index[n, c, p, q] = where

    return max_pool2d


@functools.cache
def max_pool2d_grad_kernel(dtype: np.dtype, within: bool, large: bool) -> Any:
    """One thread per input position. within: notes are bytes."""
    load, store, C = codec(dtype)
    locate = place(large)

    @cuda.jit
    def max_pool2d_grad(
        grad, index, dx, rows, columns, down, right, top, left, row_step, column_step
    ):
        """grad, index (N, C, P, Q), any strides; dx (N, C, H, W); numbers as in max_pool2d."""
        i = cuda.grid(1)
        if i >= dx.size:
            return
        n, c, h, w = locate(i, dx.shape[1], dx.shape[2], dx.shape[3])
        here = h * dx.shape[3] + w
        p0, p1 = covering(h + top, (rows - 1) * row_step, down, grad.shape[2])
        q0, q1 = covering(w + left, (columns - 1) * column_step, right, grad.shape[3])
        total = C(0)
        for p in range(p0, p1):
            for q in range(q0, q1):
                note = types.int64(index[n, c, p, q])
                if within:
                    note = spot(
                        note,
                        p,
                        q,
                        dx.shape[3],
                        columns,
                        down,
                        right,
                        top,
                        left,
                        row_step,
                        column_step,
                    )
                if note == here:
                    total += load(grad[n, c, p, q])
        dx[n, c, h, w] = store(total)

    return max_pool2d_grad


@functools.cache
def max_pool2d_take_kernel(dtype: np.dtype, within: bool, large: bool) -> Any:
    """One thread per output. within: notes are bytes."""
    _, store, C = codec(dtype)
    locate = place(large)

    @cuda.jit
    def max_pool2d_take(x, index, y, rows, columns, down, right, top, left, row_step, column_step):
        """x (N, C, H, W), index (N, C, P, Q), any strides; y (N, C, P, Q): x at these positions;
        numbers as in max_pool2d."""
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, c, p, q = locate(i, y.shape[1], y.shape[2], y.shape[3])
        where = types.int64(index[n, c, p, q])
        if within:
            where = spot(
                where, p, q, x.shape[3], columns, down, right, top, left, row_step, column_step
            )
        if where < 0:
            y[n, c, p, q] = store(C(0))
        else:
            h = where // x.shape[3]
            y[n, c, p, q] = x[n, c, h, where - h * x.shape[3]]

    return max_pool2d_take


@functools.cache
def avg_pool2d_kernel(dtype: np.dtype, large: bool, kind: str) -> Any:
    """One thread per output. kind: as in pool_windows."""
    load, store, C = codec(dtype)
    locate = place(large)
    size = window_size(kind)

    @cuda.jit
    def avg_pool2d(x, y, rows, columns, down, right, top, left):
        """x (N, C, H, W), any strides; y (N, C, P, Q); numbers as in max_pool2d."""
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, c, p, q = locate(i, y.shape[1], y.shape[2], y.shape[3])
        h0, w0 = p * down - top, q * right - left
        total = C(0)
        for h in range(max(h0, 0), min(h0 + rows, x.shape[2])):
            for w in range(max(w0, 0), min(w0 + columns, x.shape[3])):
                total += load(x[n, c, h, w])
        y[n, c, p, q] = store(
            C(total / C(size(h0, rows, x.shape[2], top, w0, columns, x.shape[3], left)))
        )

    return avg_pool2d


@functools.cache
def avg_pool2d_grad_kernel(dtype: np.dtype, large: bool, kind: str) -> Any:
    """One thread per input position."""
    load, store, C = codec(dtype)
    locate = place(large)
    size = window_size(kind)

    @cuda.jit
    def avg_pool2d_grad(grad, dx, rows, columns, down, right, top, left):
        """grad (N, C, P, Q), any strides; dx (N, C, H, W); numbers as in max_pool2d."""
        i = cuda.grid(1)
        if i >= dx.size:
            return
        n, c, h, w = locate(i, dx.shape[1], dx.shape[2], dx.shape[3])
        p0, p1 = covering(h + top, rows - 1, down, grad.shape[2])
        q0, q1 = covering(w + left, columns - 1, right, grad.shape[3])
        total = C(0)
        for p in range(p0, p1):
            for q in range(q0, q1):
                places = size(
                    p * down - top,
                    rows,
                    dx.shape[2],
                    top,
                    q * right - left,
                    columns,
                    dx.shape[3],
                    left,
                )
                total += C(load(grad[n, c, p, q]) / C(places))
        dx[n, c, h, w] = store(total)

    return avg_pool2d_grad


# Planners.


def plan_forward(p: Forward) -> Plan:
    """The plan of a thread per result. Positions, also those that only the gradient reads, are
    int32."""
    y = p.x.like((*p.x.shape[:2], *p.size))
    if p.kind not in MAXIMA:
        kernel = avg_pool2d_kernel(p.x.dtype, is_large(y), p.kind)
        return one_launch(kernel, [Input(0), Output(0)], y, p.window[:6], [y])
    kernel = max_pool2d_kernel(p.x.dtype, is_large(y))
    index = y.like(dtype=NOTE)
    if p.kind == "max":
        return one_launch(kernel, [Input(0), Output(0), Temp(0)], y, p.window, [y], [index])
    return one_launch(kernel, [Input(0), Output(0), Output(1)], y, p.window, [y, index])


def plan_backward(p: Backward) -> Plan:
    """The plan of a thread per position of the image."""
    dx = p.grad.like((*p.grad.shape[:2], *p.size))
    if p.index is None:
        kernel = avg_pool2d_grad_kernel(p.grad.dtype, is_large(dx), p.kind)
        return one_launch(kernel, [Input(0), Output(0)], dx, p.window[:6], [dx])
    kernel = max_pool2d_grad_kernel(p.grad.dtype, p.kind == "bytes", is_large(dx))
    return one_launch(kernel, [Input(0), Input(1), Output(0)], dx, p.window, [dx])


def plan_take(x: Layout, index: Layout, window: Sequence[int]) -> Plan:
    """The plan of a thread per result: x at the positions of maxima."""
    y = x.like(index.shape)
    kernel = max_pool2d_take_kernel(x.dtype, index.dtype == BYTE, is_large(y))
    return one_launch(kernel, [Input(0), Input(1), Output(0)], y, window, [y])


def one_launch(
    kernel: Any,
    arrays: list,
    result: Layout,
    window: Sequence[int],
    outputs: list[Layout],
    temps: Sequence[Layout] = (),
) -> Plan:
    """A thread per element of `result`; arguments: arrays, and the numbers of the window."""
    arguments = [*arrays, *map(np.int64, window)]
    return Plan(outputs, [Launch(kernel, blocks(result.size, THREADS), THREADS, arguments)], temps)
