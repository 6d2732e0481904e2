"""The reductions: each one once, for the GPU, the CPU and fused functions (see reduction.py).

Where an accumulator is more than a number:

      argmax  (value, index)   the larger value; of equal ones the lower index
      var     (mean, M2, n)    Chan, Golub & LeVeque: with f = nb / (na + nb), d = mean_b - mean_a
                               mean_a + d f,  M2_a + M2_b + d^2 na f,  na + nb: one pass, without
                               cancellation
      nanmean (sum, n)         of the elements that are not NaN
      logsumexp (m, n, rest)   the largest number, how often it is there, and the sum of exp(x - m)
                               of the others: of the smaller m both counts become shares

A comparison x != x is true for NaN alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..dtypes import real_dtype
from .complex_order import at_least, beyond
from .pairwise_sum import count_along, total
from .reduction import (
    BOOL,
    INT64,
    REDUCTIONS,
    Accumulator,
    Numbers,
    Reduction,
    Rows,
    Sums,
    floating_dtype,
    total_dtype,
)

__all__ = ["REDUCTIONS", "absolute"]

Axes = tuple[int, ...]


# -------------------- sums and products


class Sum(Reduction):
    """The sum; NaN counts as 0 if `skips_nan`."""

    neutral: int | None = 0
    skips_nan = False

    def result(self, own):
        return total_dtype(own)

    def accumulator(self, n: Numbers) -> Accumulator:
        load, store, A = n.load, n.store, n.A
        start = A(self.neutral or 0)

        if self.skips_nan:

            @n.device_function
            def lift(value, j):
                v = A(load(value))
                return (v if v == v else start,)

        else:

            @n.device_function
            def lift(value, j):
                return (A(load(value)),)

        @n.device_function
        def identity():
            return (start,)

        @n.device_function
        def finish(a, divisor):
            return store(a[0])

        return Accumulator(lift, self.combination(n), identity, finish, (A,))

    def combination(self, n: Numbers) -> Callable:
        """The device function `combine`."""
        A = n.A

        @n.device_function
        def combine(a, b):
            return (A(a[0] + b[0]),)

        return combine

    def numpy(self, x, axis, keepdims, dtype, correction):
        x = np.where(x == x, x, 0) if self.skips_nan else x
        return total(x, axis, keepdims, dtype)


class PlainSum(Sum):
    """The sum of all elements, NaN included."""

    sums: Sums | None = Sums()
    partial: str | None = "sum"

    def in_rows(self, rows: Rows, x: int, wide: np.dtype, count: int, correction: float) -> int:
        return rows.along("sum", wide, x)


class NanSum(Sum):
    """The sum of the elements that are not NaN."""

    skips_nan = True


class Product(Sum):
    """The product."""

    neutral = 1

    def combination(self, n):
        A = n.A

        @n.device_function
        def combine(a, b):
            return (A(a[0] * b[0]),)

        return combine

    def numpy(self, x, axis, keepdims, dtype, correction):
        x = np.where(x == x, x, 1) if self.skips_nan else x
        return np.multiply.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)


class NanProduct(Product):
    """The product of the elements that are not NaN."""

    skips_nan = True


class Mean(PlainSum):
    """The sum divided by the number of elements."""

    neutral = None
    divides = True

    def result(self, own):
        return floating_dtype(own)

    def accumulator(self, n):
        store, A = n.store, n.A

        if n.target.kind == "c":

            @n.device_function
            def finish(a, divisor):
                return A(complex(a[0].real / divisor, a[0].imag / divisor))

        else:

            @n.device_function
            def finish(a, divisor):
                return store(a[0] / divisor)

        return super().accumulator(n)._replace(finish=finish)

    def numpy(self, x, axis, keepdims, dtype, correction):
        sums = total(x, axis, keepdims, dtype)
        return np.true_divide(sums, count_along(x, axis), dtype=dtype)

    def in_rows(self, rows, x, wide, count, correction):
        return rows.apply(
            "x / y", wide, rows.along("sum", wide, x), rows.constant(float(count), wide)
        )


class NanMean(Reduction):
    """The mean of the elements that are not NaN."""

    def result(self, own):
        return floating_dtype(own)

    def accumulator(self, n):
        load, store, A = n.load, n.store, n.A
        part = A.underlying_float if n.target.kind == "c" else A
        none, yes, no = A(0), part(1), part(0)

        @n.device_function
        def lift(value, j):
            v = A(load(value))
            return (v, yes) if v == v else (none, no)

        @n.device_function
        def combine(a, b):
            return A(a[0] + b[0]), part(a[1] + b[1])

        @n.device_function
        def identity():
            return none, no

        if n.target.kind == "c":

            @n.device_function
            def finish(a, divisor):
                return A(complex(a[0].real / a[1], a[0].imag / a[1]))

        else:

            @n.device_function
            def finish(a, divisor):
                return store(a[0] / a[1])

        return Accumulator(lift, combine, identity, finish, (A, part))

    def numpy(self, x, axis, keepdims, dtype, correction):
        numbers = x == x
        count = np.add.reduce(numbers, axis=axis, dtype=real_dtype(dtype), keepdims=keepdims)
        return total(np.where(numbers, x, 0), axis, keepdims, dtype) / count


# -------------------- extremes


class Extreme(Reduction):
    """The largest or the smallest element; NaN if there is one."""

    chooses = True
    quiet = True
    vectors_16bit = 16

    def __init__(self, name: str, ufunc: np.ufunc, largest: bool):
        super().__init__(name)
        self.ufunc, self.largest = ufunc, largest
        self.selection = "best_of", largest
        self.partial = name

    def accumulator(self, n):
        load, store, A = n.load, n.store, n.A
        if n.target.kind in "bi" and n.target.itemsize <= 4:  # chosen, never added
            A = n.int32
        lowest, highest = n.limits(A)
        start = lowest if self.largest else highest
        reaches = at_least(n.device_function, n.source.kind, self.largest)

        @n.device_function
        def lift(value, j):
            return (A(load(value)),)

        @n.device_function
        def combine(a, b):  # NaN wins
            return a if reaches(a[0], b[0]) or a[0] != a[0] else b

        @n.device_function
        def identity():
            return (start,)

        @n.device_function
        def finish(a, divisor):
            return store(a[0])

        return Accumulator(lift, combine, identity, finish, (A,))

    def in_rows(self, rows: Rows, x: int, wide: np.dtype, count: int, correction: float) -> int:
        return rows.along(self.name, wide, x)


class NanExtreme(Reduction):
    """The largest or the smallest element that is not NaN; NaN if there is none."""

    chooses = True

    def __init__(self, name: str, numpy_ufunc: np.ufunc, largest: bool):
        super().__init__(name)
        self.numpy_ufunc, self.largest = numpy_ufunc, largest

    def accumulator(self, n):
        load, store, A = n.load, n.store, n.A
        nothing = A(math.nan)
        reaches = at_least(n.device_function, n.source.kind, self.largest)

        @n.device_function
        def lift(value, j):
            return (A(load(value)),)

        @n.device_function
        def combine(a, b):  # NaN loses
            return a if reaches(a[0], b[0]) or b[0] != b[0] else b

        @n.device_function
        def identity():
            return (nothing,)

        @n.device_function
        def finish(a, divisor):
            return store(a[0])

        return Accumulator(lift, combine, identity, finish, (A,))

    def numpy(self, x, axis, keepdims, dtype, correction):
        return self.numpy_ufunc.reduce(x, axis=axis, keepdims=keepdims)


class Place(Reduction):
    """The number of the first largest or smallest element; of the first NaN if there is one."""

    chooses = True
    places = True
    quiet = True
    packed = "reduce.accumulators_16bit.place"

    def __init__(self, name: str, find: Callable, largest: bool):
        super().__init__(name)
        self.find, self.largest = find, largest
        self.selection = "places_in", largest

    def result(self, own):
        return INT64

    def accumulator(self, n):
        load, A, index = n.load, n.S, n.int64
        lowest, highest = n.limits(A)
        start = lowest if self.largest else highest
        nowhere, first = (
            index(np.iinfo(np.int64).max),
            index(0),
        )  # every element is before `nowhere`

        @n.device_function
        def lift(value, j):
            return A(load(value)), index(j)

        beats = beyond(n.device_function, n.source.kind, self.largest)

        @n.device_function
        def combine(a, b):  # of equal values, and of NaNs, the first; a NaN beats every number
            if beats(b[0], a[0]) or (b[0] != b[0] and a[0] == a[0]):
                return b
            if (b[0] == a[0] or (b[0] != b[0] and a[0] != a[0])) and b[1] < a[1]:
                return b
            return a

        @n.device_function
        def follow(a, b):  # does not compare the indices
            return b if beats(b[0], a[0]) or (b[0] != b[0] and a[0] == a[0]) else a

        @n.device_function
        def identity():
            return start, nowhere

        @n.device_function
        def finish(a, divisor):
            # `follow` takes no element that equals `start`: if none was taken, all equal it
            return a[1] if a[1] != nowhere else first

        return Accumulator(lift, combine, identity, finish, (A, index), follow)

    def numpy(self, x, axis, keepdims, dtype, correction):
        # NumPy takes one axis or, as None, all of them; so does the public function
        return self.find(x, axis=axis[0] if len(axis) == 1 else None, keepdims=keepdims)


# -------------------- truth


class Truth(Reduction):
    """Whether any or every element is not zero: bits that are joined by `or` or `and`."""

    quiet = True

    def __init__(self, name: str, ufunc: np.ufunc, every: bool):
        super().__init__(name)
        self.ufunc, self.every, self.neutral = ufunc, every, int(every)
        self.selection = "any_or_all_of", every

    def result(self, own):
        return BOOL

    def accumulator(self, n):
        A = n.int32

        if self.every:

            @n.device_function
            def combine(a, b):
                return (A(a[0] & b[0]),)

        else:

            @n.device_function
            def combine(a, b):
                return (A(a[0] | b[0]),)

        return _of_nonzero(n, A, 1 if self.every else 0, combine)


class CountNonzero(Reduction):
    """The number of elements that are not zero."""

    neutral = 0
    quiet = True

    def result(self, own):
        return INT64

    def accumulator(self, n):
        A = n.int64

        @n.device_function
        def combine(a, b):
            return (A(a[0] + b[0]),)

        return _of_nonzero(n, A, 0, combine)

    def numpy(self, x, axis, keepdims, dtype, correction):
        return _count_nonzero(x, axis, keepdims)


def _of_nonzero(n: Numbers, A, neutral: int, combine: Callable) -> Accumulator:
    """An accumulator of one number of type A: 1 for each element that is not zero, 0 for others."""
    load = n.load
    start, yes, no = A(neutral), A(1), A(0)

    if n.source.kind == "c":

        @n.device_function
        def lift(value, j):
            return (yes if value.real != 0 or value.imag != 0 else no,)

    else:
        zero = n.zero

        @n.device_function
        def lift(value, j):
            return (yes if load(value) != zero else no,)

    @n.device_function
    def identity():
        return (start,)

    @n.device_function
    def finish(a, divisor):
        return a[0]

    return Accumulator(lift, combine, identity, finish, (A,))


def _count_nonzero(x: np.ndarray, axis: Axes, keepdims: bool) -> np.ndarray:
    nonzero = x if x.dtype == np.bool_ else x != 0
    if len(axis) < x.ndim:
        return total(nonzero, axis, keepdims, INT64)
    return np.full((1,) * x.ndim if keepdims else (), np.count_nonzero(nonzero))


class LogSumExp(Reduction):
    """The logarithm of the sum of exponentials. Those of the largest elements are counted, and the
    others added in units of them by log1p: a logarithm near 0 has all its digits."""

    def result(self, own):
        return floating_dtype(own)

    def accumulator(self, n):
        load, store, A = n.load, n.store, n.A
        none, one, least = A(0), A(1), A(-math.inf)

        @n.device_function
        def lift(value, j):
            return A(load(value)), one, none

        @n.device_function
        def combine(a, b):
            if a[0] == b[0]:
                return a[0], a[1] + b[1], a[2] + b[2]
            distance = b[0] - a[0]
            share = A(math.exp(-abs(distance)))
            if distance > none:
                return b[0], b[1], b[2] + (a[1] + a[2]) * share
            return a[0], a[1], a[2] + (b[1] + b[2]) * share  # NaN where one of them is

        @n.device_function
        def identity():
            return least, none, none

        @n.device_function
        def finish(a, divisor):
            if math.isinf(a[0]) and a[2] == a[2]:
                return store(a[0])
            return store(A(a[0] + (math.log1p(a[2] / a[1]) + math.log(a[1]))))

        return Accumulator(lift, combine, identity, finish, (A, A, A))

    def numpy(self, x, axis, keepdims, dtype, correction):
        x = x.astype(dtype, copy=False)
        largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
        scaled = x - np.where(np.isfinite(largest), largest, 0)
        first = scaled == 0
        count = total(first, axis, True, dtype)
        rest = total(np.where(first, 0, np.exp(scaled)), axis, True, dtype)
        y = largest + (np.log1p(rest / count) + np.log(count))
        y = np.where(np.isinf(largest), largest, y)
        return y if keepdims else y.reshape([n for i, n in enumerate(x.shape) if i not in axis])


# -------------------- variances


class Spread(Reduction):
    """A variance, or its square root: the accumulator of both kinds below."""

    def __init__(self, name: str, root: bool):
        super().__init__(name)
        self.root = root

    def result(self, own):
        return floating_dtype(own)

    def accumulator(self, n):
        load, store, A = n.load, n.store, n.A
        none, one = A(0), A(1)

        @n.device_function
        def lift(value, j):
            return A(load(value)), none, one

        @n.device_function
        def combine(a, b):
            count = a[2] + b[2]
            if count == none:
                return a
            # the square of delta may be infinite where one of the two is empty
            delta, part = b[0] - a[0], b[2] / count
            return a[0] + delta * part, a[1] + b[1] + delta * (delta * (a[2] * part)), count

        @n.device_function
        def identity():
            return none, none, none

        if self.root:

            @n.device_function
            def finish(a, divisor):
                return store(math.sqrt(a[1] / divisor))

        else:

            @n.device_function
            def finish(a, divisor):
                return store(a[1] / divisor)

        return Accumulator(lift, combine, identity, finish, (A, A, A))


class Variance(Spread):
    """The variance of all elements, or its square root."""

    divides = True
    packed = "reduce.accumulators_16bit.spread"

    def __init__(self, name: str, root: bool):
        super().__init__(name, root)
        self.sums = Sums(squares=True, centred=True, root=root)

    def numpy(self, x, axis, keepdims, dtype, correction):
        mean = MEAN.numpy(x, axis, True, dtype, 0)
        distances = np.asarray(np.subtract(x, mean, dtype=dtype))
        squares = np.multiply(distances, distances, out=distances)
        freedom = max(count_along(x, axis) - correction, 0)
        y = np.true_divide(total(squares, axis, keepdims, dtype), freedom, dtype=dtype)
        return np.sqrt(y) if self.root else y

    def in_rows(self, rows: Rows, x: int, wide: np.dtype, count: int, correction: float) -> int:
        distance = rows.apply("x - y", wide, x, MEAN.in_rows(rows, x, wide, count, 0))
        squares = rows.along("sum", wide, rows.apply("x * x", wide, distance))
        freedom = rows.constant(float(max(count - correction, 0)), wide)
        y = rows.apply("x / y", wide, squares, freedom)
        return rows.apply("sqrt(x)", wide, y) if self.root else y


class NanVariance(Spread):
    """The variance of the elements that are not NaN, or its square root. `finish` takes the
    correction in the place of the divisor: only the accumulator knows the number of elements."""

    counts = True

    def accumulator(self, n):
        load, store, A = n.load, n.store, n.A
        none, one = A(0), A(1)
        nothing = A(math.nan)

        @n.device_function
        def lift(value, j):
            v = A(load(value))
            return (v, none, one) if v == v else (none, none, none)

        @n.device_function
        def variance(a, correction):
            freedom = a[2] - correction
            return a[1] / freedom if freedom > none else nothing

        if self.root:

            @n.device_function
            def finish(a, divisor):
                return store(math.sqrt(variance(a, divisor)))

        else:

            @n.device_function
            def finish(a, divisor):
                return store(variance(a, divisor))

        return super().accumulator(n)._replace(lift=lift, finish=finish)

    def numpy(self, x, axis, keepdims, dtype, correction):
        numbers = x == x
        count = np.add.reduce(numbers, axis=axis, dtype=dtype, keepdims=True)
        mean = total(np.where(numbers, x, 0), axis, True, dtype) / count
        distances = np.subtract(x, mean, dtype=dtype)
        squares = total(np.where(numbers, distances * distances, 0), axis, True, dtype)
        y = np.where(count > correction, squares / (count - correction), np.nan)
        if not keepdims:
            y = y.reshape([n for i, n in enumerate(x.shape) if i not in axis])
        return np.sqrt(y) if self.root else y


# -------------------- norms: reductions of absolute values


class Norm(Reduction):
    """A reduction of absolute values, in the real dtype of the result: the norms of order 1,
    infinity and -infinity. `real` reduces the absolute values."""

    def __init__(self, name: str, real: Reduction):
        super().__init__(name, "vector_norm")
        self.real, self.chooses = real, real.chooses

    def result(self, own):
        return real_dtype(floating_dtype(own))

    def accumulator(self, n):
        real = self.real.accumulator(n.of_results())
        return real._replace(lift=self.size(n, real.kinds[0]))

    def size(self, n: Numbers, A) -> Callable:
        """The device function `lift`, to an absolute value of type A."""
        load = n.load
        one, infinity = A(1), A(math.inf)

        if n.source.kind == "c":

            @n.device_function
            def lift(value, j):
                # Scaled: squares of large numbers overflow. The sum is right for 0 and NaN.
                a, b = abs(value.real), abs(value.imag)
                high, low = (a, b) if a > b else (b, a)
                ratio = low / high
                if ratio <= one:
                    return (high * math.sqrt(one + ratio * ratio),)
                return (infinity if high == infinity or low == infinity else a + b,)

        else:

            @n.device_function
            def lift(value, j):
                return (abs(A(load(value))),)

        return lift

    def numpy(self, x, axis, keepdims, dtype, correction):
        return self.real.numpy(absolute(x, dtype), axis, keepdims, dtype, correction)


class CountNorm(Norm):
    """The norm of order 0: the number of elements that are not zero."""

    def size(self, n, A):
        load = n.load
        none, one = A(0), A(1)

        if n.source.kind == "c":

            @n.device_function
            def lift(value, j):
                return (one if value.real != none or value.imag != none else none,)

        else:

            @n.device_function
            def lift(value, j):
                return (none if A(load(value)) == none else one,)

        return lift

    def numpy(self, x, axis, keepdims, dtype, correction):
        return _count_nonzero(x, axis, keepdims)


class RootOfSquares(Norm):
    """The norm of order 2: the root of the sum of squared absolute values."""

    sums = Sums(squares=True, root=True)

    def accumulator(self, n):
        load, store, A = n.load, n.store, n.A
        none = A(0)

        if n.source.kind == "c":

            @n.device_function
            def lift(value, j):
                return (A(value.real * value.real + value.imag * value.imag),)

        else:

            @n.device_function
            def lift(value, j):
                v = A(load(value))
                return (v * v,)

        @n.device_function
        def combine(a, b):
            return (a[0] + b[0],)

        @n.device_function
        def identity():
            return (none,)

        @n.device_function
        def finish(a, divisor):
            return store(math.sqrt(a[0]))

        return Accumulator(lift, combine, identity, finish, (A,))

    def numpy(self, x, axis, keepdims, dtype, correction):
        if x.dtype.kind == "c":
            parts = x.real.astype(real_dtype(x.dtype), copy=False), x.imag
            squares = parts[0] * parts[0] + parts[1] * parts[1]
        else:
            squares = np.multiply(x, x, dtype=dtype)
        return np.sqrt(total(np.asarray(squares), axis, keepdims, dtype))


def absolute(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Absolute values; those of integers in `dtype`, as |-128| is not an int8."""
    return np.abs(x if x.dtype.kind in "fc" else x.astype(dtype))


# -------------------- the reductions

SUM, NANSUM = PlainSum("sum"), NanSum("nansum")
PROD, NANPROD = Product("prod"), NanProduct("nanprod")
MEAN, NANMEAN = Mean("mean"), NanMean("nanmean")
MAX, MIN = Extreme("max", np.maximum, True), Extreme("min", np.minimum, False)
NANMAX, NANMIN = NanExtreme("nanmax", np.fmax, True), NanExtreme("nanmin", np.fmin, False)
ARGMAX, ARGMIN = Place("argmax", np.argmax, True), Place("argmin", np.argmin, False)
ANY, ALL = Truth("any", np.logical_or, False), Truth("all", np.logical_and, True)
COUNT_NONZERO = CountNonzero("count_nonzero")
LOGSUMEXP = LogSumExp("logsumexp")
VAR, STD = Variance("var", root=False), Variance("std", root=True)
NANVAR, NANSTD = NanVariance("nanvar", root=False), NanVariance("nanstd", root=True)
NORM, NORM_0, NORM_1 = RootOfSquares("norm", SUM), CountNorm("norm 0", SUM), Norm("norm 1", SUM)
NORM_INF, NORM_MINUS_INF = Norm("norm inf", MAX), Norm("norm -inf", MIN)
