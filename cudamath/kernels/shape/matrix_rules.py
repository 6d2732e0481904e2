"""Matrices whose elements are a function of row and column (hilbert, hadamard, helmert, dft), or
the numbers of vectors at places that row and column name (companion, leslie, fiedler_companion,
toeplitz, circulant, hankel).

    formula     out[i, j] = f(i, j, n, more)
    placed      out[..., i, j] = line[..., place(i, j)], or 1, or 0

The function is plain Python, a device function of numbers. Formulas compute in float64 (hadamard in
integers) and are rounded once. The line is what the vectors are, one after the other, or, of a
polynomial's coefficients, -x[1:] / x[0]: divided where it stands, n times or 2 n. A leading
coefficient of 0 raises the error flag.

The floor is one write an element: a block owns ITEMS x THREADS neighbouring columns of a row, so no
element's number is divided.
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime import kernel_errors
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..copy.casts import converter
from ..elementwise.scalar_functions import functions
from ..lib.codec import codec
from .triangles import ITEMS, THREADS, grid_of_rows, stored_type

ONE, ZERO = -1, -2  # places of what is in no vector

# -------------------- functions of row and column


@device_function
def hilbert(i, j, n, more):
    return 1.0 / (i + j + 1)


@device_function
def hadamard(i, j, n, more):
    """-1 where the bits that two numbers share are odd in number."""
    shared = types.uint32(i & j)
    for shift in (16, 8, 4, 2, 1):
        shared ^= shared >> types.uint32(shift)
    return 1 - 2 * types.int64(shared & types.uint32(1))


@device_function
def helmert(i, j, n, more):
    """more: the number of the first row."""
    row = i + more
    size = math.sqrt(float(row) * (row + 1.0)) if row > 0 else math.sqrt(float(n))
    if row == 0 or j < row:
        return 1.0 / size
    return -row / size if j == row else 0.0


@device_function
def dft(i, j, n, more):
    """more: a factor."""
    angle = -2 * math.pi / n * ((i * j) % n)
    return math.cos(angle) * more, math.sin(angle) * more


FORMULAS = {"hilbert": hilbert, "hadamard": hadamard, "helmert": helmert, "dft": dft}


@device_function
def companion(i, j, n):
    if i == 0:
        return j
    return ONE if i == j + 1 else ZERO


@device_function
def leslie(i, j, n):
    if i == 0:
        return j
    return n + j if i == j + 1 else ZERO


@device_function
def fiedler_companion(i, j, n):
    """Even rows have the numbers, odd ones ones: five diagonals."""
    if i & 1:
        return ONE if j == i - 2 or i == 1 and j == 0 else ZERO
    if j == i - 1 or i == 0 and j == 0:
        return i
    if j == i + 1:
        return j
    return ONE if j == i + 2 else ZERO


@device_function
def toeplitz(i, j, n):
    """A first column, and a first row whose first number is not read."""
    return i - j if i >= j else n + j - i


@device_function
def circulant(i, j, n):
    return i - j if i >= j else n + i - j


@device_function
def hankel(i, j, n):
    """A first column, and a last row whose first number is not read."""
    return i + j if i + j < n else i + j + 1


@device_function
def hankel_of_column(i, j, n):
    return i + j if i + j < n else ZERO


#: Name -> (place by row, column and the length of the first vector, whether the line is that of a
#: polynomial, whether the second vector has the length of a row)
PLACES = {
    "companion": (companion, True, False),
    "leslie": (leslie, False, False),
    "fiedler_companion": (fiedler_companion, True, False),
    "toeplitz": (toeplitz, False, True),
    "circulant": (circulant, False, False),
    "hankel": (hankel, False, True),
    "hankel_of_column": (hankel_of_column, False, False),
}
for _rule, (_, _monic, _) in PLACES.items():
    if _monic:
        kernel_errors.failures[_rule] = "the leading coefficient is 0"
        kernel_errors.exceptions[_rule] = ValueError

# -------------------- kernels


def quotient(x, y):
    return x / y


@functools.cache
def formula_rows(rule: str, dtype: np.dtype) -> Any:
    """out: (rows, columns); more: int64 or float64, as the rule takes it."""
    element = FORMULAS[rule]
    if rule == "dft":
        C = numba_type(dtype)

        @device_function
        def rounded(v):
            return C(complex(v[0], v[1]))
    else:
        kind = np.dtype(np.int64 if rule == "hadamard" else np.float64)
        rounded = converter(kind, dtype)

    @cuda.jit
    def formula_rows(out, n, more):
        first = cuda.blockIdx.x * (THREADS * ITEMS) + cuda.threadIdx.x
        for row in range(cuda.blockIdx.y, out.shape[0], cuda.gridDim.y):
            for i in range(ITEMS):
                column = first + i * THREADS
                if column < out.shape[1]:
                    out[row, column] = rounded(element(row, column, n, more))

    return formula_rows


@functools.cache
def placed_rows(rule: str, dtype: np.dtype) -> Any:
    """x: (matrices, m), more: (matrices, k), out: (matrices * rows, n), of what is stored; flag:
    (1,) int64."""
    place, monic, _ = PLACES[rule]
    stored = stored_type(dtype)
    zero, one = np.zeros((), stored)[()], np.ones((), dtype).reshape(1).view(stored)[0]
    if monic:
        load, store, T = codec(dtype)
        divide = functions(T)["divide"] if dtype.kind == "c" else device_function(quotient)

        @device_function
        def number(x, more, matrix, k):
            return store(-divide(T(load(x[matrix, k + 1])), T(load(x[matrix, 0]))))

        @device_function
        def is_refused(x, matrix):
            return T(load(x[matrix, 0])) == T(0)
    else:

        @device_function
        def number(x, more, matrix, k):
            return x[matrix, k] if k < x.shape[1] else more[matrix, k - x.shape[1]]

        @device_function
        def is_refused(x, matrix):
            return False

    @cuda.jit
    def placed_rows(x, more, out, rows, flag, ticket):
        n = out.shape[1]
        first = cuda.blockIdx.x * (THREADS * ITEMS) + cuda.threadIdx.x
        for line in range(cuda.blockIdx.y, out.shape[0], cuda.gridDim.y):
            matrix = line // rows
            row = line - matrix * rows
            if row == 0 and first == 0 and is_refused(x, matrix):
                flag[0] = -ticket
            for i in range(ITEMS):
                column = first + i * THREADS
                if column < n:
                    k = place(row, column, x.shape[1])
                    v = one if k == ONE else zero
                    if k >= 0:
                        v = number(x, more, matrix, k)
                    out[line, column] = v

    return placed_rows


# -------------------- planners


def formula(*, layout: Layout, device: int, rule: str, n: int, more: float) -> Plan:
    """A matrix of a function of row and column."""
    if not layout.size:
        return Plan([layout], [])
    kernel, grid = formula_rows(rule, layout.dtype), grid_of_rows(*layout.shape)
    last = np.float64(more) if isinstance(more, float) else more
    return Plan([layout], [Launch(kernel, grid, THREADS, [Output(0), n, last])])


def placed(x: Layout, *more: Layout, rule: str) -> Plan:
    """Matrices of vectors (..., m): contiguous."""
    _, monic, oblong = PLACES[rule]
    second = more[0] if more else x
    rows = x.shape[-1] - monic
    n = second.shape[-1] if oblong else rows
    out = x.like((*x.shape[:-1], rows, n))
    if not out.size:
        return Plan([out], [])
    matrices = out.size // (rows * n)
    arguments = [
        Input(0).view((matrices, x.shape[-1])),
        Input(len(more)).view((matrices, second.shape[-1])),
        Output(0).view((matrices * rows, n)),
        rows,
        Flag(),
        Ticket(),
    ]
    kernel = placed_rows(rule, x.dtype)
    return Plan([out], [Launch(kernel, grid_of_rows(matrices * rows, n), THREADS, arguments)])
