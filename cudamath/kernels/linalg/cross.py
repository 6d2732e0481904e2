"""Cross products of vectors of three elements that lie along the last axis.

The idea. Each result needs two elements of either vector, and three results need all six: a thread
computes a vector, and reads it once. Its neighbours' vectors lie beside its own, so that a warp's
three loads of an operand come from the same lines; the L1 cache holds them meanwhile. The floor is
memory: both operands and the result once.

The two products of an element are rounded before one is subtracted from the other, as NumPy has it.
Contracted to a fused multiply-add, which the compiler would do, x × x would not be 0.

One version, `cross_vectors`: any strides and broadcasts, up to three axes in front that do not
merge into one.
"""

import functools
from math import prod
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda
from ..copy.contiguous import dense
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.rounding import rounded_product

THREADS = 128
MOST_DIMS = 3  # in front of the vectors


@functools.cache
def cross_vectors(dtype: np.dtype) -> Any:
    """a, b, out: (n0, n1, n2, 3), any strides; one thread per vector."""
    load, store, T = codec(dtype)
    product = rounded_product(compute_dtype(dtype))

    @cuda.jit
    def cross_vectors(a, b, out):
        i = cuda.grid(1)
        n1, n2 = out.shape[1], out.shape[2]
        row = i // n2
        z = i - row * n2
        x = row // n1
        y = row - x * n1
        if x < out.shape[0]:
            a0, a1, a2 = load(a[x, y, z, 0]), load(a[x, y, z, 1]), load(a[x, y, z, 2])
            b0, b1, b2 = load(b[x, y, z, 0]), load(b[x, y, z, 1]), load(b[x, y, z, 2])
            out[x, y, z, 0] = store(T(product(a1, b2) - product(a2, b1)))
            out[x, y, z, 1] = store(T(product(a2, b0) - product(a0, b2)))
            out[x, y, z, 2] = store(T(product(a0, b1) - product(a1, b0)))

    return cross_vectors


def cross(a: Layout, b: Layout) -> Plan:
    """a, b: (..., 3) of one dtype, which broadcast -> the cross products, in C order."""
    shape = shapes.broadcast_shapes("cross", a.shape, b.shape)
    out = a.like(shape)
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    steps: list[Launch] = []
    layouts, arguments = [a, b, out], [Input(0), Input(1), Output(0)]
    sizes, strides = _in_front(layouts)
    if len(sizes) > MOST_DIMS:  # copies have one
        for i, x in enumerate((a, b)):
            more, arguments[i] = dense(arguments[i], x, shape, x.dtype, temps)
            steps += more
        sizes, strides = _in_front([out, out, out])
    last = [x.strides[-1] for x in ((out, out, out) if steps else layouts)]
    seen = [
        argument.view((*sizes, 3), (*front, step))
        for argument, front, step in zip(arguments, strides, last, strict=True)
    ]
    return Plan(
        [out],
        [*steps, Launch(cross_vectors(a.dtype), blocks(prod(sizes), THREADS), THREADS, seen)],
        temps,
    )


def _in_front(layouts: list[Layout]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The axes in front of the vectors, merged, at least MOST_DIMS of them: sizes, and strides of
    each layout in the shape of the last."""
    shape = layouts[-1].shape
    merged, *steps = shapes.collapse(
        shape[:-1], *[shapes.broadcast_strides(x.shape, x.strides, shape)[:-1] for x in layouts]
    )
    more = (1,) * (MOST_DIMS - len(merged))
    return more + merged, [(0,) * len(more) + step for step in steps]
