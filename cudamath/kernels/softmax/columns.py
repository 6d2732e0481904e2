"""Softmax along an axis whose elements are no neighbours, and its gradient: the versions `columns`
and `columns_split` (dispatch.py has the formulas).

A block takes LANES neighbouring lines, so that a warp reads that many neighbouring elements, and
PARTS threads share a line. Each finds a maximum and the sum of exp(. - maximum) of its part, AHEAD
elements in flight; then parts are merged, and the line is read again and written. Few lines do not
fill the device: `columns_split` cuts them into segments, whose maxima and sums go to scratch
memory, and a second launch merges those of all segments before it writes. Every part and every
segment has its place, so the bits are the same every time.

Gradients do the same with sums of `term`, and maxima of 0.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.fast_math import exponential
from ..lib.integers import blocks
from ..lib.widths import wide
from .online import formula, online, rescale
from .problem import LANES, PARTS, Problem, cut_columns

AHEAD = 4  # elements of a thread in flight; as many of each array in the gradient


@functools.cache
def column_steps(dtype: np.dtype, log: bool, gradient: bool) -> tuple[Any, Any, Any]:
    """Device functions of a thread that has every PARTS-th of the elements first .. stop - 1 of the
    line from `start` on: found(a, b, start, inner, first, stop) -> maximum and sum of its part;
    merged(m, s, lane, part) -> those of all parts; put(a, b, out, start, inner, first, stop, m, s)
    writes its results. a, b: x and x, or g and y."""
    load, store, T = codec(dtype)
    take, rescaled, exp = online(dtype), rescale(dtype), exponential(dtype)
    term, slope = formula(dtype, log)
    lowest, shape = T(-math.inf), (PARTS, LANES)

    @device_function
    def found(a, b, start, inner, first, stop):
        v = cuda.local.array(AHEAD, T)
        m, s = lowest, T(0)
        k = first
        while k + (AHEAD - 1) * PARTS < stop:
            for i in range(AHEAD):
                v[i] = load(b[start + (k + i * PARTS) * inner])
            m, s = take(m, s, v, AHEAD)
            k += AHEAD * PARTS
        while k < stop:
            v[0] = load(b[start + k * inner])
            m, s = take(m, s, v, 1)
            k += PARTS
        return m, s

    @device_function
    def found_slope(a, b, start, inner, first, stop):
        u = cuda.local.array(AHEAD, T)
        v = cuda.local.array(AHEAD, T)
        s = T(0)
        k = first
        while k + (AHEAD - 1) * PARTS < stop:
            for i in range(AHEAD):
                u[i] = load(a[start + (k + i * PARTS) * inner])
                v[i] = T(0) if log else load(b[start + (k + i * PARTS) * inner])
            for i in range(AHEAD):
                s += term(u[i], v[i])
            k += AHEAD * PARTS
        while k < stop:
            s += term(load(a[start + k * inner]), load(b[start + k * inner]))
            k += PARTS
        return T(0), s

    @device_function
    def merged(m, s, lane, part):
        tops = cuda.shared.array(shape, T)
        sums = cuda.shared.array(shape, T)
        tops[part, lane] = m
        sums[part, lane] = s
        cuda.syncthreads()
        for p in range(PARTS):
            m = max(m, tops[p, lane])
        s = T(0)
        for p in range(PARTS):
            s += rescaled(tops[p, lane], sums[p, lane], m)
        return m, s

    @device_function
    def put(a, b, out, start, inner, first, stop, m, s):
        v = cuda.local.array(AHEAD, T)
        shift, scale = T(0), T(0)
        if first < stop:
            shift, scale = math.log(s), T(1) / s
        k = first
        while k < stop:
            for i in range(AHEAD):
                if k + i * PARTS < stop:
                    v[i] = load(b[start + (k + i * PARTS) * inner]) - m
            for i in range(AHEAD):
                if k + i * PARTS < stop:
                    out[start + (k + i * PARTS) * inner] = store(
                        v[i] - shift if log else exp(v[i]) * scale
                    )
            k += AHEAD * PARTS

    @device_function
    def put_slope(a, b, out, start, inner, first, stop, m, s):
        u = cuda.local.array(AHEAD, T)
        v = cuda.local.array(AHEAD, T)
        k = first
        while k < stop:
            for i in range(AHEAD):
                if k + i * PARTS < stop:
                    u[i] = load(a[start + (k + i * PARTS) * inner])
                    v[i] = load(b[start + (k + i * PARTS) * inner])
            for i in range(AHEAD):
                if k + i * PARTS < stop:
                    out[start + (k + i * PARTS) * inner] = store(slope(u[i], v[i], s))
            k += AHEAD * PARTS

    return (found_slope, merged, put_slope) if gradient else (found, merged, put)


@functools.cache
def softmax_columns(dtype: np.dtype, log: bool, gradient: bool) -> Any:
    """a, b, out: (outer * n * inner,); block (LANES, PARTS), grid: blocks of LANES lines."""
    found, merged, put = column_steps(dtype, log, gradient)

    @bounded(LANES * PARTS)
    def softmax_columns(a, b, out, lines, n, inner):
        lane, part = cuda.threadIdx.x, cuda.threadIdx.y
        line = cuda.blockIdx.x * LANES + lane
        start = line // inner * n * inner + line % inner
        stop = n if line < lines else 0
        m, s = found(a, b, start, inner, part, stop)
        m, s = merged(m, s, lane, part)
        put(a, b, out, start, inner, part, stop, m, s)

    return softmax_columns


@functools.cache
def softmax_columns_found(dtype: np.dtype, log: bool, gradient: bool) -> Any:
    """marks[0], marks[1]: maximum and sum of each segment of `length` elements; marks: (2,
    segments, lines); grid (blocks of lines, segments)."""
    found, merged, _ = column_steps(dtype, log, gradient)

    @bounded(LANES * PARTS)
    def softmax_columns_found(a, b, marks, n, inner, length):
        lane, part, segment = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.y
        lines = marks.shape[2]
        line = cuda.blockIdx.x * LANES + lane
        start = line // inner * n * inner + line % inner
        stop = min((segment + 1) * length, n) if line < lines else 0
        m, s = found(a, b, start, inner, segment * length + part, stop)
        m, s = merged(m, s, lane, part)
        if line < lines and part == 0:
            marks[0, segment, line] = m
            marks[1, segment, line] = s

    return softmax_columns_found


@functools.cache
def softmax_columns_put(dtype: np.dtype, log: bool, gradient: bool) -> Any:
    """Results of each segment from the maxima and sums of all, see ``softmax_columns_found``."""
    _, merged, put = column_steps(dtype, log, gradient)
    rescaled, T = rescale(dtype), codec(dtype)[2]
    lowest = T(0) if gradient else T(-math.inf)

    @bounded(LANES * PARTS)
    def softmax_columns_put(a, b, out, marks, n, inner, length):
        lane, part, segment = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.y
        segments, lines = marks.shape[1], marks.shape[2]
        line = cuda.blockIdx.x * LANES + lane
        start = line // inner * n * inner + line % inner
        m = lowest
        s = T(0)
        if line < lines:
            for i in range(part, segments, PARTS):
                top = max(m, marks[0, i, line])
                s = rescaled(m, s, top) + rescaled(marks[0, i, line], marks[1, i, line], top)
                m = top
        m, s = merged(m, s, lane, part)
        stop = min((segment + 1) * length, n) if line < lines else 0
        put(a, b, out, start, inner, segment * length + part, stop, m, s)

    return softmax_columns_put


def _arguments(p: Problem) -> list[Any]:
    """a, b and out."""
    *given, out = (a.flat for a in p.arrays)
    return [given[0], given[-1], out]


def plan(p: Problem) -> Plan:
    """The plan of PARTS threads per line, and blocks of neighbouring lines."""
    kernel = softmax_columns(p.x.dtype, p.log, p.gradient)
    arguments = [*_arguments(p), p.lines, p.n, p.inner]
    return Plan([p.x.like()], [Launch(kernel, blocks(p.lines, LANES), (LANES, PARTS), arguments)])


def plan_split(p: Problem) -> Plan:
    """The plan of as many threads per segment of a line."""
    segments, length = cut_columns(p)
    kind = p.x.dtype, p.log, p.gradient
    *given, out = _arguments(p)
    grid, block, sizes = (blocks(p.lines, LANES), segments), (LANES, PARTS), (p.n, p.inner, length)
    marks = p.x.like((2, segments, p.lines), wide(p.x.dtype))
    steps = [
        Launch(softmax_columns_found(*kind), grid, block, [*given, Temp(0), *sizes]),
        Launch(softmax_columns_put(*kind), grid, block, [*given, out, Temp(0), *sizes]),
    ]
    return Plan([p.x.like()], steps, [marks])
