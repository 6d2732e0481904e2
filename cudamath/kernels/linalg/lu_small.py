"""LU of many small rectangles: a block for each, in one launch.

cuBLAS factors batches of square matrices only, and cuSOLVER one matrix at a time, a dozen launches
each. Here the matrix lies in shared memory. In each of min(m, n) steps the block finds the largest
element of the column below the diagonal (a tree: of equal ones the first), exchanges two rows,
divides the column and takes it out of what is right of it: four barriers a step. For any GPU and
the simulator.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import real_dtype
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from .lu_plan import lu_plan
from .plan_builder import INT32, LARGEST, Work, batch, cube, new_cube
from .problem import LUProblem

THREADS = 256  # rows and columns, by an element's bytes: the matrix lies in shared memory


@functools.cache
def lu_small(dtype: np.dtype) -> Any:
    """Packed factors of P A = L U and the exchanges. A column without a pivot stays as it is: U has
    a 0 there."""
    T, R, largest, kind = (
        numba_type(dtype),
        numba_type(real_dtype(dtype)),
        LARGEST[dtype.itemsize],
        dtype.kind,
    )
    nought, none = T(0), R(-1)

    @device_function
    def size_of(v):  # as LAPACK's
        return abs(v.real) + abs(v.imag) if kind == "c" else abs(v)

    @cuda.jit
    def lu_small(a, packed, pivots):
        """a: (count, m, n), any strides; packed: (count, m, n); pivots: (count, min(m, n)) int32,
        0-based."""
        matrix = cuda.shared.array((largest, largest), T)
        sizes = cuda.shared.array(largest, R)
        rows = cuda.shared.array(largest, types.int32)
        m, n, b, t = a.shape[1], a.shape[2], cuda.blockIdx.x, cuda.threadIdx.x
        for e in range(t, m * n, THREADS):
            matrix[e // n, e % n] = a[b, e // n, e % n]
        cuda.syncthreads()
        for j in range(min(m, n)):
            if t < largest:
                inside = j + t < m
                sizes[t] = size_of(matrix[j + t, j]) if inside else none
                rows[t] = j + t
            cuda.syncthreads()
            half = largest // 2
            while half > 0:
                if t < half:
                    if sizes[t + half] > sizes[t] or (
                        sizes[t + half] == sizes[t] and rows[t + half] < rows[t]
                    ):
                        sizes[t], rows[t] = sizes[t + half], rows[t + half]
                cuda.syncthreads()
                half //= 2
            other = rows[0]
            if t == 0:
                pivots[b, j] = other
            if other != j and t < n:
                matrix[j, t], matrix[other, t] = matrix[other, t], matrix[j, t]
            cuda.syncthreads()
            pivot = matrix[j, j]
            if pivot != nought and t < m - j - 1:
                matrix[j + 1 + t, j] = matrix[j + 1 + t, j] / pivot
            cuda.syncthreads()
            width = n - j - 1
            for e in range(t, (m - j - 1) * width, THREADS):
                row, column = j + 1 + e // width, j + 1 + e % width
                matrix[row, column] = matrix[row, column] - matrix[row, j] * matrix[j, column]
            cuda.syncthreads()
        for e in range(t, m * n, THREADS):
            packed[b, e % m, e // m] = matrix[e % m, e // m]  # neighbours lie in columns

    return lu_small


# -------------------- plans


def lu(p: LUProblem) -> Plan:
    """Version "shared_memory" of an LU decomposition."""
    return lu_plan(p, _packed)


def _packed(work: Work, a: Layout, target: Any, to: Layout, pivots: Any) -> tuple[Any, int]:
    """See `lu_plan`."""
    count, k = batch(a), min(a.shape[-2:])
    found = work.temp(a.like((count, k), INT32)) if pivots is None else pivots.view((count, k))
    arguments = [cube(Input(0), a), new_cube(target, to), found]
    work.steps.append(Launch(lu_small(a.dtype), count, THREADS, arguments))
    return found, 0
