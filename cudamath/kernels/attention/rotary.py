"""Rotary embedding: pairs of numbers, rotated by an angle that depends on the position.

    y_a = x_a cos - x_b sin,   y_b = x_a sin + x_b cos

The gradient is the same with the angle negated.

One version, `rotary`: a thread a pair, which it reads and writes once; threads of a warp take
neighbouring pairs, so that both halves of a row are read in whole lines. Tables are small and stay
in the caches.

The floor is one read and one write of x: 8 bytes per element for float32, 4 for 16-bit numbers.
"""

import functools
import math

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.integers import blocks
from .problem import result_like

THREADS = 256


@functools.cache
def rotary(dtype: np.dtype, interleaved: bool, inverse: bool):
    """One thread per pair, and one for each number behind them."""
    load, store, T = codec(dtype)
    sign = T(-1 if inverse else 1)

    @cuda.jit
    def rotary(x, cos, sin, y):
        """x (A, B, S, D), cos, sin (A, B, S, R / 2) in the compute type: any strides; y (A, B, S,
        D), of which the first R numbers of a row are turned, the others copied."""
        half = cos.shape[3]
        width = x.shape[3] - half  # threads per row
        n = cuda.grid(1)
        if n >= x.shape[0] * x.shape[1] * x.shape[2] * width:
            return
        row = n // width
        i = n - row * width
        s = row % x.shape[2]
        row //= x.shape[2]
        b = row % x.shape[1]
        a = row // x.shape[1]
        if i >= half:
            y[a, b, s, half + i] = x[a, b, s, half + i]
            return
        first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        u, v = load(x[a, b, s, first]), load(x[a, b, s, second])
        c, t = cos[a, b, s, i], sign * sin[a, b, s, i]
        y[a, b, s, first] = store(u * c - v * t)
        y[a, b, s, second] = store(u * t + v * c)

    return rotary


def plan(x: Layout, cos: Layout, sin: Layout, *, interleaved: bool, inverse: bool) -> Plan:
    """Planner: x (A, B, S, D); cos, sin broadcast to (A, B, S, R / 2) -> y like x,
    whose rows follow one another as those of x do."""
    y = result_like(x)
    half = cos.shape[-1]
    shape = (*x.shape[:3], half)
    tables = [
        Input(i).view(shape, shapes.broadcast_strides(t.shape, t.strides, shape))
        for i, t in ((1, cos), (2, sin))
    ]
    threads = math.prod(x.shape[:3]) * (x.shape[3] - half)
    return Plan(
        [y],
        [
            Launch(
                rotary(x.dtype, interleaved, inverse),
                blocks(threads, THREADS),
                THREADS,
                [Input(0), *tables, Output(0)],
            )
        ],
    )
