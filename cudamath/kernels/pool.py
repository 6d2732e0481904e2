"""Pooling: one thread a result, in both directions.

The idea. Forward, a thread owns one output and walks its window. Backward, a thread owns one *input* place and walks
the windows that cover it: p from ceil((h + padding - extent) / stride) to floor((h + padding) / stride), where extent =
dilation * (R - 1). Every sum then belongs to one thread and is taken in a fixed order: no atomics, the same bits
every time. For the maximum, the forward kernel notes where it found it; backward a window contributes if its note names
the thread's own place.

There is one version of each: it is limited by memory, and neighbouring threads read neighbouring addresses (the
overlap of windows is served by the L1 cache). The floor is bytes(x) + bytes(y), and 4 more an output for the notes.
"""

import functools
from typing import Any

import numpy as np
from numba import cuda, types

from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan
from .build import blocks, codec

THREADS = 256


@functools.cache
def place(large: bool) -> Any:
    """Device function i -> (n, c, row, column) in an array (N, C, rows, columns), 32-bit divisions unless large."""
    T = types.uint64 if large else types.uint32

    @cuda.jit(device=True)
    def place(i, channels, rows, columns):
        rest = T(i) // T(columns)
        column = types.int64(i) - types.int64(rest) * columns
        plane = T(rest) // T(rows)
        row = types.int64(rest) - types.int64(plane) * rows
        n = types.int64(T(plane) // T(channels))
        return n, types.int64(plane) - n * channels, row, column

    return place


@functools.cache
def max_pool2d_kernel(dtype: np.dtype, large: bool) -> Any:
    """A thread an output."""
    load, store, C = codec(dtype)
    locate = place(large)

    @cuda.jit
    def max_pool2d(x, y, index, rows, columns, down, right, top, left, row_step, column_step):
        """x (N, C, H, W), any strides; y and index (int32) (N, C, P, Q). rows, columns: of the window; down, right:
        stride; top, left: padding; row_step, column_step: dilation."""
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
                        if where < 0 or value > best or value != value:        # NaN wins, as in NumPy and torch
                            best, where = value, h * x.shape[3] + w
        y[n, c, p, q] = store(best)
        index[n, c, p, q] = where

    return max_pool2d


@functools.cache
def max_pool2d_grad_kernel(dtype: np.dtype, large: bool) -> Any:
    """A thread an input place."""
    load, store, C = codec(dtype)
    locate = place(large)

    @cuda.jit
    def max_pool2d_grad(grad, index, dx, rows, columns, down, right, top, left, row_step, column_step):
        """grad, index (int32) (N, C, P, Q), any strides; dx (N, C, H, W); numbers as in max_pool2d."""
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
                if index[n, c, p, q] == here:
                    total += load(grad[n, c, p, q])
        dx[n, c, h, w] = store(total)

    return max_pool2d_grad


@functools.cache
def max_pool2d_take_kernel(dtype: np.dtype, large: bool) -> Any:
    """A thread an output."""
    _, store, C = codec(dtype)
    locate = place(large)

    @cuda.jit
    def max_pool2d_take(x, index, y):
        """x (N, C, H, W), index (int32) (N, C, P, Q), any strides; y (N, C, P, Q): x at these positions."""
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, c, p, q = locate(i, y.shape[1], y.shape[2], y.shape[3])
        where = types.int64(index[n, c, p, q])
        if where < 0:
            y[n, c, p, q] = store(C(0))
        else:
            h = where // x.shape[3]
            y[n, c, p, q] = x[n, c, h, where - h * x.shape[3]]

    return max_pool2d_take


@functools.cache
def avg_pool2d_kernel(dtype: np.dtype, large: bool, padded: bool) -> Any:
    """A thread an output. padded: the padding counts."""
    load, store, C = codec(dtype)
    locate = place(large)
    size = window_size(padded)

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
        y[n, c, p, q] = store(C(total / C(size(h0, rows, x.shape[2], top) * size(w0, columns, x.shape[3], left))))

    return avg_pool2d


@functools.cache
def avg_pool2d_grad_kernel(dtype: np.dtype, large: bool, padded: bool) -> Any:
    """A thread an input place."""
    load, store, C = codec(dtype)
    locate = place(large)
    size = window_size(padded)

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
            height = size(p * down - top, rows, dx.shape[2], top)
            for q in range(q0, q1):
                width = size(q * right - left, columns, dx.shape[3], left)
                total += C(load(grad[n, c, p, q]) / C(height * width))
        dx[n, c, h, w] = store(total)

    return avg_pool2d_grad


@cuda.jit(device=True)
def covering(position, extent, step, count):
    """The windows p, first and last + 1, with p * step <= position <= p * step + extent; 0 <= position < 2**32."""
    first = types.uint32(max(position - extent + step - 1, 0)) // types.uint32(step)
    last = types.uint32(position) // types.uint32(step)
    return types.int64(first), min(types.int64(last) + 1, count)


@functools.cache
def window_size(padded: bool) -> Any:
    """Device function: how many places of a window that starts at `start` count along one axis."""

    @cuda.jit(device=True)
    def window_size(start, length, size, padding):
        if padded:
            return min(start + length, size + padding) - start
        return min(start + length, size) - max(start, 0)

    return window_size


# ------------------------------------------------------------------------------------------------ planners


def _plan(kernel: Any, outputs: list[Layout], inputs: int, *pairs: tuple[int, int]) -> Plan:
    """A thread an element of the first output; arguments: inputs, outputs, numbers."""
    numbers = [np.int64(n) for both in pairs for n in both]
    arguments = [*map(Input, range(inputs)), *map(Output, range(len(outputs))), *numbers]
    return Plan(outputs, [Launch(kernel, blocks(outputs[0].size, THREADS), THREADS, arguments)])


def _large(layout: Layout) -> bool:
    return layout.size >= 1 << 31


def max_pool2d(x: Layout, *, size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int],
               padding: tuple[int, int], dilation: tuple[int, int]) -> Plan:
    """x (N, C, H, W) -> maxima (N, C, P, Q) and their positions h * W + w, int32 (-1: none)."""
    y = x.like((*x.shape[:2], *size))
    index = y.like(dtype=np.int32)
    return _plan(max_pool2d_kernel(x.dtype, _large(y)), [y, index], 1, kernel, stride, padding, dilation)


def max_pool2d_grad(grad: Layout, index: Layout, *, size: tuple[int, int], kernel: tuple[int, int],
                    stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]) -> Plan:
    """grad, index (N, C, P, Q) -> (N, C, H, W); size (H, W)."""
    dx = grad.like((*grad.shape[:2], *size))
    return _plan(max_pool2d_grad_kernel(grad.dtype, _large(dx)), [dx], 2, kernel, stride, padding, dilation)


def max_pool2d_take(x: Layout, index: Layout, **_: Any) -> Plan:
    """x (N, C, H, W), index (N, C, P, Q) -> x at these positions (N, C, P, Q), 0 where there is none."""
    y = x.like(index.shape)
    return _plan(max_pool2d_take_kernel(x.dtype, _large(y)), [y], 2)


def avg_pool2d(x: Layout, *, size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int],
               padding: tuple[int, int], count_include_pad: bool) -> Plan:
    """x (N, C, H, W) -> means (N, C, P, Q)."""
    y = x.like((*x.shape[:2], *size))
    return _plan(avg_pool2d_kernel(x.dtype, _large(y), count_include_pad), [y], 1, kernel, stride, padding)


def avg_pool2d_grad(grad: Layout, *, size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int],
                    padding: tuple[int, int], count_include_pad: bool) -> Plan:
    """grad (N, C, P, Q) -> (N, C, H, W); size (H, W)."""
    dx = grad.like((*grad.shape[:2], *size))
    return _plan(avg_pool2d_grad_kernel(grad.dtype, _large(dx), count_include_pad), [dx], 1, kernel, stride, padding)
