"""The class of a reduction: sum, max, argmax, var ... each says once all that the package must know
about it. The reductions themselves are in reductions.py.

    the public function   `result`, `chooses`, `neutral`         ops/reduce.py, ops/reduction_op.py
    the GPU               `accumulator`, `places`, `counts`,     kernels/reduce/dispatch.py
                          `packed`, `vectors_16bit`
    the CPU               `numpy`, `quiet`, `ufunc`,             cpu/reduce.py
                          `selection`, `sums`
    fused functions       `in_rows`, `partial`, `divides`        fuse.py

Nothing here imports Numba or a kernel. The device functions of an accumulator are plain Python
functions of numbers; the GPU side hands in the types and the decorator (`Numbers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..dtypes import default_float

INT64: np.dtype = np.dtype(np.int64)
UINT64: np.dtype = np.dtype(np.uint64)
BOOL: np.dtype = np.dtype(np.bool_)

#: Every reduction by its name: the parameter `kind` of the ops.
REDUCTIONS: dict[str, Reduction] = {}


class Accumulator(NamedTuple):
    """A reduction as device functions on an accumulator, a tuple of one to three numbers.

    lift(value, j)     element number j of the reduced axes -> accumulator
    combine(a, b)      two accumulators -> one; associative
    identity()         the accumulator of no elements
    finish(a, d)       accumulator -> stored result; d is the divisor (mean, var)
    kinds              the types of the accumulator's numbers
    follow(a, b)       the same as combine(a, b) if every element of b comes after those of a; None
                       where it is combine itself
    together(v, j)     the accumulator of a load of eight numbers, v; j is the number of the first.
                       None: the elements are lifted one by one
    meet(lanes)        a power of two -> the device function that combines the accumulators of so
                       many neighbouring lanes in each of them. None: they combine pair by pair

    kernels/reduce/accumulators_16bit.py defines the last two.
    """

    lift: Any
    combine: Any
    identity: Any
    finish: Any
    kinds: tuple[Any, ...]
    follow: Any = None
    together: Any = None
    meet: Any = None

    @property
    def in_order(self) -> Accumulator:
        """The same for accumulators that follow each other, in the order of a thread's elements."""
        return self._replace(combine=self.follow or self.combine, follow=None)


class Numbers(Protocol):
    """What the GPU side hands to `Reduction.accumulator`: kernels/lib/accumulators.py."""

    source: np.dtype  # of the elements
    target: np.dtype  # of the results
    device_function: Callable  # the decorator of device functions
    int32: Any
    int64: Any

    @property
    def load(self) -> Any:
        """Device function: stored element -> number."""

    @property
    def store(self) -> Any:
        """Device function: number of type A -> stored result."""

    @property
    def A(self) -> Any:
        """The type in which numbers of the results' dtype accumulate."""

    @property
    def S(self) -> Any:
        """The type in which numbers of the elements' dtype accumulate."""

    @property
    def zero(self) -> Any:
        """0 as `load` returns it."""

    def limits(self, T: Any) -> tuple[Any, Any]:
        """The lowest and the highest number of a type."""

    def of_results(self) -> Numbers:
        """The same for elements of the results' dtype."""


class Rows(Protocol):
    """What a fused kernel of rows offers to `Reduction.in_rows`: values by their numbers."""

    def along(self, primitive: str, dtype: np.dtype, x: int) -> int:
        """A row's elements combined: "sum", "max" or "min"."""

    def apply(self, expression: str, dtype: np.dtype, *operands: int) -> int:
        """A scalar expression of x, y, ..."""

    def constant(self, number: float, dtype: np.dtype) -> int:
        """A number."""


class Sums(NamedTuple):
    """How cpu/sums.py computes a reduction: a sum of the elements or of their squares, the squares
    of distances from the mean if `centred`; then the square root if `root`."""

    squares: bool = False
    centred: bool = False
    root: bool = False


class Reduction:
    """A reduction. A subclass says what differs from here; an instance has a name.

    Attributes
    ----------
    name : str
        The parameter `kind` of the op.
    op : str
        The op that computes it: mostly the same name.
    chooses : bool
        The result is an element or its place: there must be at least one.
    places : bool
        The result is the number of an element, so elements keep their order.
    neutral : int or None
        The number that changes nothing. `where=` puts it in the place of elements it leaves out.
    counts : bool
        The accumulator counts the elements (but NaN): `finish` takes the correction in the place of
        the divisor.
    divides : bool
        The result is a total divided by the number of elements, less the correction.
    quiet : bool
        NumPy computes it without warnings, in the result's dtype.
    ufunc : np.ufunc or None
        The ufunc that has this as its `reduce`.
    selection : (str, bool) or None
        The functions of cpu/min_max.py that compute it (NAME_lines, NAME_rows), and which of their
        two forms.
    sums : Sums or None
        How cpu/sums.py computes it.
    packed : str or None
        "family.module.function" below `cudamath.kernels`: takes (reduction, source, target) and
        returns an Accumulator with `together`, for 16-bit floats.
    vectors_16bit : int or None
        Loads that a thread of a row of 16-bit floats takes at the least; None: as for other dtypes.
    partial : str or None
        The function ("sum", "max", "min") whose results over parts combine to this one.
    in_rows : method or None
        (rows: Rows, x, wide, count, correction) -> the number of the result, of dtype `wide`, over
        the `count` elements of a row. None: it is a kernel of its own in a fused function.
    """

    chooses = False
    places = False
    neutral: int | None = None
    counts = False
    divides = False
    quiet = False
    ufunc: np.ufunc | None = None
    selection: tuple[str, bool] | None = None
    sums: Sums | None = None
    packed: str | None = None
    vectors_16bit: int | None = None
    partial: str | None = None
    in_rows: Any = None

    def __init__(self, name: str, op: str | None = None):
        self.name, self.op = name, op or name
        REDUCTIONS[name] = self

    def __repr__(self) -> str:
        return f"reduction {self.name}"

    def result(self, own: np.dtype) -> np.dtype:
        """The dtype of the result for an array of this dtype: the same, unless said otherwise."""
        return own

    def accumulator(self, n: Numbers) -> Accumulator:
        """The device functions."""
        raise NotImplementedError

    def numpy(
        self,
        x: np.ndarray,
        axis: tuple[int, ...],
        keepdims: bool,
        dtype: np.dtype,
        correction: float,
    ) -> np.ndarray:
        """The same on the CPU. dtype: the compute dtype of the results, unless `quiet`."""
        assert self.ufunc is not None
        return self.ufunc.reduce(x, axis=axis, keepdims=keepdims)


def total_dtype(own: np.dtype) -> np.dtype:
    """The dtype of a sum or product: 64 bits for integers and bool."""
    if own.kind in "bi":
        return INT64
    return UINT64 if own.kind == "u" else own


def floating_dtype(own: np.dtype) -> np.dtype:
    """The dtype of a mean: the array's own, or the default floating-point dtype for integers and
    bool."""
    return default_float() if own.kind in "biu" else own
