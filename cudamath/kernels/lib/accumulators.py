"""What reductions do with their elements: accumulators and the four functions on them (see
reduce/dispatch.py)."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...core.dtypes import compute_dtype
from ..compiler.decorators import device
from ..compiler.lazy_numba import dtype_of, types
from ..compiler.storage_types import numba_type
from .codec import codec

SIGNED, UNSIGNED = types.int64, types.uint64


class Reduction(NamedTuple):
    """Device functions lift, combine, identity, finish; `kinds`: the types of an accumulator's
    numbers; `follow`: what may stand for `combine(a, b)` where every element of b comes after those
    of a; `together`: the accumulator of a whole load of eight, (numbers, number of the first), if
    there is a shorter way to it than one by one; `meet`: lanes, a power of two -> device function
    that combines the accumulators of so many neighbours in each of them, if not pair by pair (both:
    reduce/accumulators_16bit.py)."""

    lift: Any
    combine: Any
    identity: Any
    finish: Any
    kinds: tuple[Any, ...]
    follow: Any = None
    together: Any = None
    meet: Any = None

    @property
    def in_order(self) -> "Reduction":
        """The same where what is combined follows each other, as a thread meets its elements."""
        return self._replace(combine=self.follow or self.combine, follow=None)


def accumulator(dtype: np.dtype) -> Any:
    """The type in which numbers of a dtype are accumulated: 64-bit integers, float32 for 16-bit
    floats."""
    if dtype.kind in "bi":
        return SIGNED
    if dtype.kind == "u":
        return UNSIGNED
    return numba_type(compute_dtype(dtype))


@functools.cache
def reduction(kind: str, source: np.dtype, target: np.dtype) -> Reduction:
    """The functions of one reduction: of elements of dtype `source` to a result of dtype `target`.

    kind: sum, mean, prod, max, min, argmax, argmin, any, all, count_nonzero, var, std, norm (root
    of the sum of squared absolute values), norm 1, norm inf, norm -inf (their sum, the largest, the
    smallest), norm 0 (how many are not 0); nansum, nanmean, nanprod, nanmax, nanmin, nanvar,
    nanstd, which leave NaN out.
    """
    if kind in ("sum", "mean", "prod", "nansum", "nanprod"):
        return _arithmetic(kind, source, target)
    if kind == "nanmean":
        return _mean_of_numbers(source, target)
    if kind in ("nanmax", "nanmin"):
        return _extreme_of_numbers(kind == "nanmax", source, target)
    if kind in ("nanvar", "nanstd"):
        return _spread_of_numbers(kind == "nanstd", source, target)
    if kind in ("max", "min"):
        return _extreme(kind == "max", source, target)
    if kind in ("argmax", "argmin"):
        return _position(kind == "argmax", source)
    if kind in ("any", "all", "count_nonzero"):
        return _truth(kind, source)
    if kind in ("var", "std"):
        return _spread(kind == "std", source, target)
    if kind == "norm":
        return _norm(source, target)
    return _sizes(kind, source, target)


def _result(target: np.dtype) -> tuple[Any, Any]:
    """(accumulator type A, function from A to what the output array holds)."""
    _, store, _ = codec(target)
    return accumulator(target), store


def _arithmetic(kind: str, source: np.dtype, target: np.dtype) -> Reduction:
    load = codec(source)[0]
    A, store = _result(target)
    start = A(1) if kind in ("prod", "nanprod") else A(0)

    if kind.startswith("nan"):

        @device
        def lift(value, j):
            v = A(load(value))
            return (v if v == v else start,)

    else:

        @device
        def lift(value, j):
            return (A(load(value)),)

    if kind in ("prod", "nanprod"):

        @device
        def combine(a, b):
            return (A(a[0] * b[0]),)

    else:

        @device
        def combine(a, b):
            return (A(a[0] + b[0]),)

    @device
    def identity():
        return (start,)

    if kind != "mean":

        @device
        def finish(a, divisor):
            return store(a[0])

    elif target.kind == "c":

        @device
        def finish(a, divisor):
            return A(complex(a[0].real / divisor, a[0].imag / divisor))

    else:

        @device
        def finish(a, divisor):
            return store(a[0] / divisor)

    return Reduction(lift, combine, identity, finish, (A,))


def _mean_of_numbers(source: np.dtype, target: np.dtype) -> Reduction:
    load = codec(source)[0]
    A, store = _result(target)
    part = A.underlying_float if target.kind == "c" else A
    none, yes, no = A(0), part(1), part(0)

    @device
    def lift(value, j):
        v = A(load(value))
        return (v, yes) if v == v else (none, no)

    @device
    def combine(a, b):
        return A(a[0] + b[0]), part(a[1] + b[1])

    @device
    def identity():
        return none, no

    if target.kind == "c":

        @device
        def finish(a, divisor):
            return A(complex(a[0].real / a[1], a[0].imag / a[1]))

    else:

        @device
        def finish(a, divisor):
            return store(a[0] / a[1])

    return Reduction(lift, combine, identity, finish, (A, part))


def _limits(A: Any) -> tuple[Any, Any]:
    """(lowest, highest) value of an accumulator type."""
    if dtype_of(A).kind in "iu":
        return A(np.iinfo(dtype_of(A)).min), A(np.iinfo(dtype_of(A)).max)
    return A(-math.inf), A(math.inf)


def _extreme(largest: bool, source: np.dtype, target: np.dtype) -> Reduction:
    load = codec(source)[0]
    A, store = _result(target)
    if target.kind in "bi" and target.itemsize <= 4:  # chosen, never added
        A = types.int32
    lowest, highest = _limits(A)
    start = lowest if largest else highest

    @device
    def lift(value, j):
        return (A(load(value)),)

    if largest:

        @device
        def combine(a, b):  # x != x: NaN wins
            return a if a[0] >= b[0] or a[0] != a[0] else b

    else:

        @device
        def combine(a, b):
            return a if a[0] <= b[0] or a[0] != a[0] else b

    @device
    def identity():
        return (start,)

    @device
    def finish(a, divisor):
        return store(a[0])

    return Reduction(lift, combine, identity, finish, (A,))


def _sizes(kind: str, source: np.dtype, target: np.dtype) -> Reduction:
    """The reduction of a real array, of absolute values in the type of the result; or ones in the
    place of what is not 0."""
    real = (
        _arithmetic("sum", target, target)
        if kind in ("norm 0", "norm 1")
        else _extreme(kind == "norm inf", target, target)
    )
    load, A = codec(source)[0], real.kinds[0]
    none, one, infinity = A(0), A(1), A(math.inf)

    if kind == "norm 0" and source.kind == "c":

        @device
        def lift(value, j):
            return (one if value.real != none or value.imag != none else none,)

    elif kind == "norm 0":

        @device
        def lift(value, j):
            return (none if A(load(value)) == none else one,)

    elif source.kind == "c":

        @device
        def lift(
            value, j
        ):  # scaled: squares of large numbers overflow; a sum is right for 0 and NaN
            a, b = abs(value.real), abs(value.imag)
            high, low = (a, b) if a > b else (b, a)
            ratio = low / high
            if ratio <= one:
                return (high * math.sqrt(one + ratio * ratio),)
            return (infinity if high == infinity or low == infinity else a + b,)

    else:

        @device
        def lift(value, j):
            return (abs(A(load(value))),)

    return real._replace(lift=lift)


def _extreme_of_numbers(largest: bool, source: np.dtype, target: np.dtype) -> Reduction:
    """NaN stands for no number."""
    load = codec(source)[0]
    A, store = _result(target)
    nothing = A(math.nan)

    @device
    def lift(value, j):
        return (A(load(value)),)

    if largest:

        @device
        def combine(a, b):
            return a if a[0] >= b[0] or b[0] != b[0] else b

    else:

        @device
        def combine(a, b):
            return a if a[0] <= b[0] or b[0] != b[0] else b

    @device
    def identity():
        return (nothing,)

    @device
    def finish(a, divisor):
        return store(a[0])

    return Reduction(lift, combine, identity, finish, (A,))


def _position(largest: bool, source: np.dtype) -> Reduction:
    load = codec(source)[0]
    A = accumulator(source)
    lowest, highest = _limits(A)
    start = lowest if largest else highest
    nowhere = SIGNED(np.iinfo(np.int64).max)  # any element is before it

    @device
    def lift(value, j):
        return A(load(value)), SIGNED(j)

    if largest:

        @device
        def beats(a, b):
            return a > b

    else:

        @device
        def beats(a, b):
            return a < b

    @device
    def combine(a, b):  # of equal values, and of NaNs, the first; a NaN beats every number
        if beats(b[0], a[0]) or (b[0] != b[0] and a[0] == a[0]):
            return b
        if (b[0] == a[0] or (b[0] != b[0] and a[0] != a[0])) and b[1] < a[1]:
            return b
        return a

    @device
    def follow(a, b):  # no index to look at
        return b if beats(b[0], a[0]) or (b[0] != b[0] and a[0] == a[0]) else a

    @device
    def identity():
        return start, nowhere

    @device
    def finish(a, divisor):
        return (
            a[1] if a[1] != nowhere else SIGNED(0)
        )  # `follow` takes nothing that equals the start: then all do

    return Reduction(lift, combine, identity, finish, (A, SIGNED), follow)


def _truth(kind: str, source: np.dtype) -> Reduction:
    load = codec(source)[0]
    A = SIGNED if kind == "count_nonzero" else types.int32
    start, yes, no = A(1) if kind == "all" else A(0), A(1), A(0)

    if source.kind == "c":

        @device
        def lift(value, j):
            return (yes if value.real != 0 or value.imag != 0 else no,)

    else:
        zero = codec(source)[2](0)

        @device
        def lift(value, j):
            return (yes if load(value) != zero else no,)

    if kind == "count_nonzero":

        @device
        def combine(a, b):
            return (A(a[0] + b[0]),)

    elif kind == "any":

        @device
        def combine(a, b):
            return (A(a[0] | b[0]),)

    else:

        @device
        def combine(a, b):
            return (A(a[0] & b[0]),)

    @device
    def identity():
        return (start,)

    @device
    def finish(a, divisor):
        return a[0]

    return Reduction(lift, combine, identity, finish, (A,))


def _spread(root: bool, source: np.dtype, target: np.dtype) -> Reduction:
    load = codec(source)[0]
    A, store = _result(target)
    none, one = A(0), A(1)

    @device
    def lift(value, j):
        return A(load(value)), none, one

    @device
    def combine(a, b):
        count = a[2] + b[2]
        if count == none:
            return a
        delta, part = (
            b[0] - a[0],
            b[2] / count,
        )  # its square may be infinite where nothing was before
        return a[0] + delta * part, a[1] + b[1] + delta * (delta * (a[2] * part)), count

    @device
    def identity():
        return none, none, none

    if root:

        @device
        def finish(a, divisor):
            return store(math.sqrt(a[1] / divisor))

    else:

        @device
        def finish(a, divisor):
            return store(a[1] / divisor)

    return Reduction(lift, combine, identity, finish, (A, A, A))


def _spread_of_numbers(root: bool, source: np.dtype, target: np.dtype) -> Reduction:
    """As `_spread`, of elements that count 1 or, NaN, 0. The divisor is the correction: how many
    count is only known here."""
    spread = _spread(root, source, target)
    load = codec(source)[0]
    A, store = _result(target)
    none, one = A(0), A(1)
    nothing = A(math.nan)

    @device
    def lift(value, j):
        v = A(load(value))
        return (v, none, one) if v == v else (none, none, none)

    @device
    def variance(a, correction):
        freedom = a[2] - correction
        return a[1] / freedom if freedom > none else nothing

    if root:

        @device
        def finish(a, divisor):
            return store(math.sqrt(variance(a, divisor)))

    else:

        @device
        def finish(a, divisor):
            return store(variance(a, divisor))

    return Reduction(lift, spread.combine, spread.identity, finish, (A, A, A))


def _norm(source: np.dtype, target: np.dtype) -> Reduction:
    load = codec(source)[0]
    A, store = _result(target)
    none = A(0)

    if source.kind == "c":

        @device
        def lift(value, j):
            return (A(value.real * value.real + value.imag * value.imag),)

    else:

        @device
        def lift(value, j):
            v = A(load(value))
            return (v * v,)

    @device
    def combine(a, b):
        return (a[0] + b[0],)

    @device
    def identity():
        return (none,)

    @device
    def finish(a, divisor):
        return store(math.sqrt(a[0]))

    return Reduction(lift, combine, identity, finish, (A,))
