"""Padding with one value along any axes, up to four that do not merge, in one launch.

Axes that do not grow are merged with those before them. A thread owns a group of neighbours of the
result: it finds the place of the first by divisions, of the next ones by additions, and writes all
of them at once. Where the edges are a large part of the result, as around 4 x 4 x 9 numbers, most
elements are the value and read nothing. The floor is bytes(x) + bytes(y). Any GPU, and the
simulator.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Scalar
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type, storage
from ..lib.integers import blocks
from ..lib.vector_io import writer
from .problem import Pad

THREADS = 128
GROUP, ACCESS = 8, 16  # neighbours of a thread, at most, and their bytes
RANK = 4

Merged = list[tuple[int, int, int]]  # of an axis: elements of x, and new ones before and behind


def merged(shape: Sequence[int], widths: Sequence[tuple[int, int]]) -> Merged:
    """The axes of x in C order, those that do not grow merged with the one before."""
    axes: Merged = [(1, 0, 0)]
    for n, (before, behind) in zip(shape, widths, strict=True):
        if before or behind:
            axes.append((n, before, behind))
        else:
            size, left, right = axes.pop()
            axes.append((size * n, left * n, right * n))
    return axes[1:] if axes[0] == (1, 0, 0) and len(axes) > 1 else axes


@functools.cache
def surround(dtype: np.dtype, group: int, vectors: bool, narrow: bool) -> Any:
    """y = x in the middle of an array of a value. x, y: flat, of words; n1, n2, n3: sizes of y but
    for the first; l0, ..: new elements before x; m0, ..: sizes of x. vectors: a group is stored at
    once; narrow: 32 bits number the elements."""
    write, W = writer(storage(dtype), group if vectors else 1), numba_type(dtype)
    number = types.uint32 if narrow else types.int64

    @cuda.jit
    def surround(x, y, n1, n2, n3, l0, l1, l2, l3, m0, m1, m2, m3, value):
        first = (types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x) * group
        if first >= y.size:
            return
        planes = types.int64(number(first) // number(n3))
        d = first - planes * n3 - l3
        boxes = types.int64(number(planes) // number(n2))
        c = planes - boxes * n2 - l2
        a = types.int64(number(boxes) // number(n1))
        b = boxes - a * n1 - l1
        a -= l0
        row = ((a * m1 + b) * m2 + c) * m3
        inside = 0 <= a < m0 and 0 <= b < m1 and 0 <= c < m2
        v = cuda.local.array(group, W)
        for e in range(group):
            v[e] = W(value)
            if inside and d >= 0 and d < m3:
                v[e] = x[row + d]
            d += 1
            if d == n3 - l3:
                d = -l3
                c += 1
                if c == n2 - l2:
                    c = -l2
                    b += 1
                    if b == n1 - l1:
                        b = -l1
                        a += 1
                row = ((a * m1 + b) * m2 + c) * m3
                inside = 0 <= a < m0 and 0 <= b < m1 and 0 <= c < m2
        if vectors and first + group <= y.size:
            write(y, first, v, 0)
        else:
            for e in range(group):
                if first + e < y.size:
                    y[first + e] = v[e]

    return surround


def plan(p: Pad) -> Plan | None:
    """The plan of one launch; None where too many axes grow."""
    axes = merged(p.x.shape, p.widths)
    if len(axes) > RANK:
        return None
    axes = [(1, 0, 0)] * (RANK - len(axes)) + axes
    dtype = np.dtype(f"u{p.y.itemsize}")
    group = min(GROUP, ACCESS // dtype.itemsize)
    new = [n + before + behind for n, before, behind in axes]
    launch = Launch(
        surround(dtype, group, p.y.aligned and not SIMULATOR, p.y.size + GROUP < 1 << 31),
        blocks(p.y.size, group * THREADS),
        THREADS,
        [
            Input(0).view((p.x.size,), dtype=dtype),
            Output(0).view((p.y.size,), dtype=dtype),
            *new[1:],
            *(before for _, before, _ in axes),
            *(n for n, _, _ in axes),
            Scalar(0, np.uint64),
        ],
    )
    return Plan([p.y], [launch])
