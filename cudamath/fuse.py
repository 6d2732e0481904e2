"""`fuse`: a Python function of arrays is compiled to one generated kernel.

The function is called once with traced arrays, which have a shape and a dtype but no data
(core/tracing.py). Its operations form a graph of elementwise ops, reductions and views. The graph
is cut into stages: all that can be computed row by row is one kernel
(kernels/generated/fusion.py). A sum of few terms, such as the coordinates of a point, is written
out; so are sums of which each is for one coordinate, where one pass finds all. A reduction along
other axes than the last is a stage of its own, whose result the next stage reads. So is what many
elements would compute again, and what is computed and then rolled. What is too much for one kernel
becomes several, which leave arrays to each other. Gradients are fused in the same way: the gradient
rules of the ops are called on traced arrays.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .autodiff import vjp
from .core import recording, tracing, trees
from .core.array import allocate, ndarray
from .core.asarray import asarray, same_device
from .core.autograd import tape
from .core.bounded_cache import store
from .core.devices import CPU, device_of
from .core.dispatch.call_record import open_records, report, traced, unrecorded
from .core.dispatch.checks import require_function
from .core.dispatch.op import registry
from .core.dispatch.planner_calls import call_planner
from .core.dtypes import FLOATING, INEXACT, compute_dtype, planned
from .core.layout import Layout
from .core.scalar import as_arrays, to_user
from .core.specs.reductions import REDUCTIONS
from .core.tracing import EQUALITY, MOVING, Symbol
from .ops import reduce as reductions
from .ops.creation import full
from .ops.shape import astype, permute_dims, reshape
from .ops.shape import copied as copy

__all__ = ["fuse"]

#: For each dimension of a kernel's domain that of an array; None: the array is repeated.
Alignment = tuple[int | None, ...]
#: What `evaluated` takes.
Waiting = Generator[Any, Any, Any]
#: Pairs of a dimension and the only index along it.
Fixed = tuple[tuple[int, int], ...]

FEW_TERMS = 4  # of a sum that is written out
FEW_COLUMNS = 64  # of a domain that is turned for a reduction
MOST_INPUTS = 12  # arrays, and parts of them, that a kernel reads with such a sum
MOST_OF_ONE = 28  # the same for a kernel of one result
MOST_ARRAYS = 16  # that a kernel reads
MOST_READS = 32  # the same, parts of them and ways to see them counted each
MOST_VALUES = 512  # of a kernel with such a sum: chains of products of small matrices
MOST_STEPS = 1024  # values of any kernel of a function that may be cut
# What a large domain repeats so many times is computed once, where it takes so many operations and
# reads: a launch takes as long as some millions of elements compute.
REPEATED, LARGE, WORK = 64, 1 << 22, 4


class _Unfusible(Exception):
    """A value cannot be computed row by row beside its neighbours; the message says why."""


# -------------------- lowering


class _Stage(NamedTuple):
    """One plan: `run(*arrays so far)` appends its results to them. writes: whether `run` takes
    `into=`, arrays into which it writes. once: inputs of which each element is read by the thread
    that writes the results' element there, and before that."""

    inputs: tuple[int, ...]
    run: Callable[..., list[ndarray]]
    results: int
    writes: bool = False
    once: frozenset[int] = frozenset()


class _Piece(NamedTuple):
    """A kernel of several that share the values of one. needed: values that it computes, and, as
    -1 - i, values i that it reads from the array of an earlier piece; left: those that it leaves to
    later ones; results: which of the results are its."""

    needed: frozenset[int]
    left: tuple[int, ...]
    results: tuple[int, ...]


def evaluated(work: Waiting) -> Any:
    """What a generator returns that yields other generators, each for what that one returns. They
    wait for each other in a list: expressions may be deeper than Python's stack."""
    waiting: list[Waiting] = [work]
    result: Any = None
    failed: Exception | None = None
    while waiting:
        last = waiting[-1]
        try:
            waiting.append(last.send(result) if failed is None else last.throw(failed))
            result = failed = None
        except StopIteration as end:
            waiting.pop()
            result, failed = end.value, None
        except Exception as error:
            waiting.pop()
            result, failed = None, error
    if failed is not None:
        raise failed
    return result


class _Rows:
    """The values of one kernel on a domain of this shape. most: how many arrays and parts of arrays
    it reads for sums that are written out."""

    def __init__(self, stages: _Stages, shape: tuple[int, ...], most: int = MOST_INPUTS):
        from .kernels.generated.fusion import Value

        self.make = Value
        self.stages, self.shape, self.most = stages, shape, most
        self.values: list[Any] = []
        self.numbers: dict[Any, int] = {}
        self.built: dict[tuple, int] = {}  # what `build` gave
        self.inputs: list[int] = []

    def value(
        self,
        kind: str,
        dtype: np.dtype,
        operands: tuple[int, ...] = (),
        detail: Any = None,
        row: bool | None = None,
    ) -> int:
        """The number of a value; equal ones share it."""
        if row is None:
            row = all(self.values[i].row for i in operands)
        description = self.make(kind, np.dtype(dtype), operands, detail, row)
        key = (*description[:3], repr(detail), row)
        if key not in self.numbers:
            self.numbers[key] = len(self.values)
            self.values.append(description)
        return self.numbers[key]

    def constant(self, number: Any, dtype: np.dtype) -> int:
        return self.value(
            "constant", compute_dtype(np.dtype(dtype)), (), (number, repr(number)), row=True
        )

    def apply(self, expression: str, dtype: np.dtype, *operands: int) -> int:
        return self.value("apply", dtype, operands, (expression, np.dtype(dtype)))

    def along(self, primitive: str, dtype: np.dtype, x: int) -> int:
        """The elements of a row combined: "sum", "max" or "min"."""
        return self.value(primitive, dtype, (x,), None, row=True)

    def load(
        self,
        array: int,
        alignment: Alignment,
        fixed: Fixed = (),
        shifts: tuple[int, ...] = (),
        bounds: tuple[tuple[int, int] | None, ...] = (),
        negative: bool = False,
    ) -> int:
        """An array's elements; shifts: by how many places each of its dimensions is rolled. bounds:
        along each dimension of the domain where the elements begin, and how many there are; zeros,
        or -0.0 (`negative`), surround them."""
        if fixed:
            array = self.stages.at(array, fixed)
        if array not in self.inputs:
            self.inputs.append(array)
        layout = self.stages.arrays[array]
        dtype = layout.dtype
        # an array that repeats along the columns has one value per row
        alignment = tuple([None if d is None or not layout.strides[d] else d for d in alignment])
        moved = tuple([0 if d is None or not shifts else shifts[d] for d in alignment])
        detail, row = (self.inputs.index(array), alignment), alignment[-1] is None
        if any(moved):
            return self.value("rolled", dtype, (), (*detail, moved), row=row)
        if any(bounds):
            row = row and not bounds[-1]
            return self.value("placed", dtype, (), (*detail, bounds, negative), row=row)
        return self.value("load", dtype, (), detail, row=row)

    def broadcast_value(
        self, symbol: Symbol, layout: Layout, of: tuple[int, ...], alignment: Alignment
    ) -> int:
        """A symbol seen through `layout` by a user of shape `of`, which is aligned so with the
        domain."""
        return evaluated(self.seen(symbol, layout, of, alignment))

    def build(self, symbol: Symbol, alignment: Alignment) -> int:
        """The number of a symbol's value. alignment: for each dimension of the domain the symbol's,
        or None."""
        return evaluated(self.built_of(symbol, alignment))

    def operation(self, symbol: Symbol, alignment: Alignment) -> int:
        """`build` of what is computed from other symbols, whether or not an array holds it."""
        return evaluated(self.computed(symbol, alignment, ()))

    def reduction(self, symbol: Symbol, alignment: Alignment) -> int:
        """A reduction along the last axis of the domain, as passes over rows."""
        return evaluated(self.reduced(symbol, alignment))

    # Each of these returns the number of a value to `evaluated`.

    def seen(
        self,
        symbol: Symbol,
        layout: Layout,
        of: tuple[int, ...],
        alignment: Alignment,
        fixed: Fixed = (),
    ) -> Waiting:
        """`broadcast_value`. fixed: where the value lies along other dimensions of the user."""
        own, first = symbol.layout, len(of) - layout.ndim

        def place(d: int | None) -> int | None:
            """The dimension of `layout`, unless it repeats along it."""
            if d is None or d < first:
                return None
            at = d - first
            return None if layout.shape[at] == 1 or layout.strides[at] == 0 else at

        places = [place(d) for d in alignment]
        held = [(at, k) for d, k in fixed if (at := place(d)) is not None]
        dims = {
            at: next(
                (
                    j
                    for j, n in enumerate(own.shape)
                    if n == layout.shape[at] and own.strides[j] == layout.strides[at]
                ),
                None,
            )
            for at in [*places, *[at for at, _ in held]]
            if at is not None
        }
        seen = [j for j in dims.values() if j is not None]
        rest = [j for j, n in enumerate(own.shape) if n > 1 and j not in seen]
        kept = tuple([None if at is None else dims[at] for at in places])
        at_index = [(d, k) for at, k in held if (d := dims[at]) is not None]
        if symbol.kind == "constant" or len({*seen}) == len(dims) and not rest:
            return (yield self.built_of(symbol, kept, tuple(at_index)))
        if len({*seen}) == len(dims):  # a view adds no offset: the first along the other axes
            before = self.state()
            first = yield self.built_of(symbol, kept, (*at_index, *[(j, 0) for j in rest]))
            if self.reads <= self.most:
                return first
            self.restore(before)
        # a reshape, a diagonal: the view of a finished array
        return self.load(self.stages.whole(symbol, layout), tuple(places), tuple(held))

    def built_of(self, symbol: Symbol, alignment: Alignment, fixed: Fixed = ()) -> Waiting:
        """`build`. fixed: where the value lies along other dimensions of the symbol."""
        if symbol.kind == "constant":
            return self.constant(symbol.params.item(), symbol.layout.dtype)
        stages = self.stages
        if symbol.kind == "argument" or symbol in stages.indices or symbol in stages.once:
            return self.load(self.stages.array_of(symbol), alignment, fixed)
        if symbol.kind == "reduce":
            if (symbol, alignment, fixed) in self.built:
                return self.built[symbol, alignment, fixed]
            if (terms := (yield self.terms(symbol, alignment, fixed))) is not None:
                self.built[symbol, alignment, fixed] = terms
                return terms
            try:
                if symbol not in self.stages.apart and not fixed:
                    return (yield self.reduced(symbol, alignment))
            except _Unfusible:
                pass
            self.stages.refused.add(symbol)
            return self.load(self.stages.array_of(symbol), alignment, fixed)
        if symbol.kind in MOVING:
            return self.moved(symbol, alignment, fixed)
        key = symbol, alignment, fixed
        if key not in self.built:  # each once: a recurrence has exponentially many paths
            self.built[key] = yield self.computed(symbol, alignment, fixed)
        return self.built[key]

    def moved(self, symbol: Symbol, alignment: Alignment, fixed: Fixed) -> int:
        """`build` of an array that is read where its elements come from."""
        ((operand, layout),), params = symbol.operands, symbol.params
        own, sizes = operand.layout, layout.shape
        if symbol.kind == "placed":
            starts = params["starts"]
            if not all([0 <= k - starts[d] < sizes[d] for d, k in fixed]):
                return self.constant(-0.0 if params["negative"] else 0, layout.dtype)
        same = (own.shape, own.strides) == (layout.shape, layout.strides)
        array = self.stages.array_of(operand) if same else self.stages.whole(operand, layout)
        if symbol.kind == "placed":
            held = tuple([(d, k - starts[d]) for d, k in fixed])
            whole = symbol.layout.shape
            bounds = [
                None
                if d is None or (starts[d], sizes[d]) == (0, whole[d])
                else (starts[d], sizes[d])
                for d in alignment
            ]
            negative = params["negative"]
            return self.load(array, alignment, held, bounds=tuple(bounds), negative=negative)
        shifts = params["shifts"]
        held = tuple([(d, (k - shifts[d]) % sizes[d]) for d, k in fixed])
        return self.load(array, alignment, held, shifts)

    def computed(self, symbol: Symbol, alignment: Alignment, fixed: Fixed) -> Waiting:
        """The value of what is computed from other symbols, element by element."""
        shape, dtype = symbol.layout.shape, symbol.layout.dtype
        operands: tuple[int, ...] = ()
        for x in symbol.operands:
            if isinstance(x, tuple):
                operands += ((yield self.seen(x[0], x[1], shape, alignment, fixed)),)
            else:
                operands += (self.constant(x, symbol.params[1]),)
        if symbol.kind == "elementwise":
            if symbol.params[0] in EQUALITY:
                pairs = zip(operands, symbol.operands, strict=True)
                operands = tuple([self.as_stored(i, x) for i, x in pairs])
            return self.value("apply", dtype, operands, symbol.params)
        if symbol.kind == "where":
            return self.value("where", dtype, operands)
        return (
            operands[0]
            if symbol.operands[0][1].dtype == dtype
            else self.value("cast", dtype, operands)
        )

    def as_stored(self, i: int, operand: Any) -> int:
        """The value of an operand, rounded as in memory where that has 16 bits.

        What a gradient looks for, a largest element, is compared with what it was found among. Each
        of the two is read from memory in one kernel, and computed but not rounded in another one
        (to the same number: `_rounds`). The largest of unrounded elements, rounded, is the largest
        of rounded ones."""
        value = self.values[i]
        dtype = operand[1].dtype if isinstance(operand, tuple) else value.dtype
        if dtype not in FLOATING or dtype.itemsize > 2 or value.kind == "constant":
            return i
        stored = value.kind in ("load", "rolled", "placed", "cast") and value.dtype == dtype
        return i if stored else self.value("cast", dtype, (i,))

    def once(self) -> frozenset[int]:
        """Arrays of which each element is read for the element there of the domain alone."""
        from .kernels.generated.fusion import ALONG_ROWS, LOADS

        if any([value.kind in ALONG_ROWS for value in self.values]):
            return frozenset()  # a row is read again
        places = tuple([i if n > 1 else None for i, n in enumerate(self.shape)])
        apart = {
            value.detail[0]
            for value in self.values
            if value.kind in LOADS and value.detail[1:] != (places,)
        }
        return frozenset(
            [
                array
                for k, array in enumerate(self.inputs)
                if k not in apart and self.stages.arrays[array].shape == self.shape
            ]
        )

    def neighbours(self) -> bool:
        """Whether along the columns the elements of each array are neighbours, of all but little
        ones, which are read as they lie."""
        from .kernels.generated.fusion import LITTLE, LOADS

        size = math.prod(self.shape)
        for value in self.values:
            if value.kind in LOADS and not value.row and value.detail[1][-1] is not None:
                argument, alignment = value.detail[:2]
                layout = self.stages.arrays[self.inputs[argument]]
                if layout.strides[alignment[-1]] != layout.itemsize and layout.size * LITTLE > size:
                    return False
        return True

    @property
    def reads(self) -> int:
        """How many arrays, parts of them, and ways to see them the kernel reads."""
        from .kernels.generated.fusion import LOADS

        return sum([value.kind in LOADS for value in self.values])

    def state(self) -> tuple:
        """What `restore` takes to forget the values that come after."""
        return len(self.values), len(self.inputs), dict(self.numbers), dict(self.built)

    def restore(self, state: tuple) -> None:
        """Forget the values since `state`, which can be restored again."""
        values, inputs, numbers, built = state
        self.numbers, self.built = dict(numbers), dict(built)
        del self.values[values:], self.inputs[inputs:]

    def terms(self, symbol: Symbol, alignment: Alignment, fixed: Fixed = ()) -> Waiting:
        """A sum or mean of few elements that are computed for it, written out: the coordinates of
        a point, the channels of a pixel; and a reduction of one element. None where it is neither,
        or reads too many arrays so."""
        if not (_of_few(symbol) or _of_one(symbol)):
            return None
        (operand, layout), params = symbol.operands[0], symbol.params
        axes = params["axis"]
        kept = [i for i in range(layout.ndim) if params["keepdims"] or i not in axes]
        inner = tuple([None if d is None else kept[d] for d in alignment])
        others = [(kept[d], k) for d, k in fixed]
        before = self.state()
        wide = compute_dtype(symbol.layout.dtype)
        total, count = 0, math.prod([layout.shape[i] for i in axes])
        for k in range(count):
            term = [(i, k) for i in axes if layout.shape[i] > 1]
            x = yield self.seen(operand, layout, layout.shape, inner, (*others, *term))
            x = x if self.values[x].dtype == wide else self.value("cast", wide, (x,))
            total = self.apply("x + y", wide, total, x) if k else x
        if self.reads > self.most or len(self.values) > MOST_VALUES:
            self.restore(before)
            return None
        if REDUCTIONS[params["kind"]].divides and count > 1:
            total = self.apply("x / y", wide, total, self.constant(float(count), wide))
        return total

    def reduced(self, symbol: Symbol, alignment: Alignment) -> Waiting:
        """`reduction`; _Unfusible where it is none."""
        from .kernels.generated.fusion import few_and_long

        (operand, layout), params = symbol.operands[0], symbol.params
        reduction, axes, shape = REDUCTIONS[params["kind"]], params["axis"], layout.shape
        kind = reduction.name
        wide = [i for i in axes if shape[i] != 1]
        dtype = symbol.layout.dtype
        if (
            reduction.in_rows is None
            or dtype not in FLOATING
            or layout.dtype not in FLOATING
            or len(wide) != 1
        ):
            raise _Unfusible(f"{kind} over axes {axes} of shape {shape}")
        if alignment[-1] is not None or shape[wide[0]] != self.shape[-1]:
            raise _Unfusible(f"{kind} along an axis that is not the last")
        if few_and_long(self.shape):
            raise _Unfusible(f"{kind} of few long rows, which other kernels cut")
        kept = [i for i in range(len(shape)) if params["keepdims"] or i not in axes]
        inner = tuple([None if d is None else kept[d] for d in alignment[:-1]]) + (wide[0],)
        lost = [i for i, n in enumerate(shape) if n > 1 and i not in inner]
        if lost:
            raise _Unfusible(f"{kind} of an array of shape {shape} among rows of {self.shape}")
        x = yield self.seen(operand, layout, shape, inner)
        if self.values[x].row:
            x = self.value("cast", self.values[x].dtype, (x,), row=False)
        count, correction = shape[wide[0]], params.get("correction", 0)
        return reduction.in_rows(self, x, compute_dtype(dtype), count, correction)


#: Pairs of the number of a stage's result and an array into which it is written; and the results
#: that are wanted nowhere else.
Into = tuple[Sequence[tuple[int, ndarray]], frozenset[int]]


class _Stages:
    """The stages of a function whose arguments are the first arrays. apart: reductions that are
    always computed by a stage of their own, never inside the kernel of another stage; once: other
    values of which the same holds; cuts: whether what is too much for one kernel becomes several;
    rounds: whether kernels round products and sums one by one; refused: reductions that some kernel
    could not compute inside."""

    def __init__(
        self,
        layouts: Sequence[Layout],
        apart: frozenset[Symbol] = frozenset(),
        once: tuple[Symbol, ...] = (),
        cuts: bool = False,
        rounds: bool = False,
    ):
        self.apart, self.once, self.cuts, self.rounds = apart, once, cuts, rounds
        self.refused: set[Symbol] = set()
        self.arrays: list[Layout] = list(layouts)
        self.indices: dict[Symbol, int] = {}
        self.parts: dict[tuple[int, Fixed], int] = {}
        self.list: list[_Stage] = []

    def array_of(self, symbol: Symbol) -> int:
        """The number of the array that holds a symbol's value, computed by a stage of its own if
        need be."""
        if symbol.kind == "argument":
            return symbol.params
        if symbol not in self.indices:
            if symbol.kind == "constant":
                self.indices[symbol] = len(self.arrays)
                self.arrays.append(symbol.layout)
                self.list.append(_Stage((0,), lambda x: [_filled(symbol, symbol.layout, x)], 1))
            elif symbol.kind == "reduce":
                self.reduce(symbol)
            else:
                self.rows(symbol.layout.shape, [symbol])
        return self.indices[symbol]

    def arrays_of(self, symbols: list[Symbol]) -> None:
        """Arrays of values of one shape, computed by one stage where that is possible."""
        left = [symbol for symbol in symbols if symbol not in self.indices]
        if len(left) > 1:
            before = self.state()
            try:
                self.rows(left[0].layout.shape, left)
            except (_Unfusible, TypeError):  # too much for one
                self.restore(before)
        for symbol in left:
            self.array_of(symbol)

    def rows(self, shape: tuple[int, ...], symbols: list[Symbol]) -> None:
        """One stage that computes symbols of this shape element by element, and reductions of such
        along the last axis."""
        from .kernels.generated.fusion import LOADS

        domain = shape or (1,)
        rows = _Rows(self, domain, MOST_OF_ONE if len(symbols) == 1 else MOST_INPUTS)
        identity: Alignment = tuple([i if n > 1 else None for i, n in enumerate(shape)]) or (None,)
        outputs = []
        for symbol in symbols:
            if symbol.kind == "reduce":
                i = rows.reduction(symbol, (*identity[:-1], None))
                same = rows.values[i].dtype == symbol.layout.dtype
                outputs.append(i if same else rows.value("cast", symbol.layout.dtype, (i,)))
                continue
            build = rows.operation if symbol in self.once else rows.build
            i = build(symbol, identity)
            if rows.values[i].row or rows.values[i].kind in LOADS:
                i = rows.value("cast", symbol.layout.dtype, (i,), row=False)
            outputs.append(i)
        self.add(
            rows,
            tuple(outputs),
            [
                lambda y, s=s: y if y.shape == s.layout.shape else reshape(y, s.layout.shape)
                for s in symbols
            ],
            symbols,
        )

    def reduce(self, symbol: Symbol) -> None:
        """A stage for a reduction: along the last axis of a kernel's domain inside the kernel, the
        rest by reducing what that leaves."""
        (operand, layout), params = symbol.operands[0], symbol.params
        reduction, axes, shape = REDUCTIONS[params["kind"]], params["axis"], layout.shape
        if (_of_few(symbol) or _of_one(symbol)) and self.written_out(symbol):
            return
        if (
            reduction.partial is not None
            and 0 not in shape
            and layout.dtype in FLOATING
            and symbol.layout.dtype in FLOATING
            and self.along_rows(symbol, reduction.partial)
        ):
            return
        source = (
            self.array_of(operand)
            if operand.layout.shape == shape and operand.layout.strides == layout.strides
            else self.whole(operand, layout)
        )
        call = {
            k: v
            for k, v in params.items()
            if k not in ("kind", "axis", "keepdims", "dtype", "shape")
        }

        def run(x: ndarray) -> list[ndarray]:
            card = registry[reduction.op]
            extra = {"shape": x.shape} if "shape" in params else {}
            return [
                card(
                    x,
                    kind=reduction.name,
                    axis=axes,
                    keepdims=params["keepdims"],
                    dtype=params["dtype"],
                    **extra,
                    **call,
                )
            ]

        self.list.append(_Stage((source,), run, 1))
        self.indices[symbol] = len(self.arrays)
        self.arrays.append(symbol.layout)

    def written_out(self, symbol: Symbol) -> bool:
        """Whether a reduction of few terms is computed element by element; then its stage is
        there."""
        before, shape = self.state(), symbol.layout.shape
        rows = _Rows(self, shape or (1,), MOST_OF_ONE)
        identity: Alignment = tuple([i if n > 1 else None for i, n in enumerate(shape)]) or (None,)
        x = evaluated(rows.terms(symbol, identity))
        if x is None or not rows.inputs:
            self.restore(before)
            return False
        if rows.values[x].row:
            x = rows.value("cast", rows.values[x].dtype, (x,), row=False)
        self.add(rows, (x,), [lambda y: reshape(y, shape)], [symbol])
        self.arrays[-1] = Layout.new(shape, rows.values[x].dtype, symbol.layout.device)
        return True

    def along_rows(self, symbol: Symbol, partial: str) -> bool:
        """Whether the kernel of rows reduces, to sums or extremes (`partial`); then its stage is
        there. Its domain has the last axis as columns, or the one that is reduced, where what it
        reads lies along that."""
        (operand, layout), params = symbol.operands[0], symbol.params
        reduction, axes, shape = REDUCTIONS[params["kind"]], params["axis"], layout.shape
        if not axes:
            return False
        last = len(shape) - 1
        columns = last if last in axes else axes[0]
        if (
            shape[columns] == 1
            or columns != last
            and (len(axes) > 1 or operand.kind == "argument" or shape[columns] < FEW_COLUMNS)
        ):
            return False
        order = [*[i for i in range(len(shape)) if i != columns], columns]
        before, wide = self.state(), compute_dtype(symbol.layout.dtype)
        together = self.side_by_side(symbol, partial, order)
        rows = _Rows(self, tuple([shape[i] for i in order]))
        alignment: Alignment = tuple([i if shape[i] > 1 else None for i in order])
        if together is None:
            self.restore(before)
            try:
                x = rows.broadcast_value(operand, layout, shape, alignment)
            except _Unfusible:
                x = None
            if x is None or not rows.inputs or columns != last and not rows.neighbours():
                self.restore(before)  # a sum of constants, or of what lies across
                return False
            if rows.values[x].row:
                x = rows.value("cast", rows.values[x].dtype, (x,), row=False)
            out = rows.along(partial, wide, x)
        count = math.prod([shape[i] for i in axes])
        parts = (
            axes if columns == last else (last,)
        )  # dimensions that the kernel leaves to be reduced

        def finish(y: ndarray) -> ndarray:
            if len(parts) > 1 or y.shape[-1] > 1:
                y = getattr(reductions, partial)(y, axis=parts)
            y = y / float(count) if reduction.divides else y
            return reshape(y, symbol.layout.shape)

        # unrounded, for other kernels; results are rounded at the end
        if together is None:
            self.add(rows, (out,), [finish], [symbol])
        else:
            inputs, run = together
            self.list.append(_Stage(inputs, lambda *arrays: [finish(run(*arrays))], 1))
            self.indices[symbol] = len(self.arrays)
            self.arrays.append(symbol.layout)
        self.arrays[-1] = Layout.new(symbol.layout.shape, wide, symbol.layout.device)
        return True

    def side_by_side(
        self, symbol: Symbol, partial: str, order: list[int]
    ) -> tuple[tuple[int, ...], Callable[..., ndarray]] | None:
        """A kernel whose rows reduce to several values each, those along a short axis: the forces
        on a body along all coordinates, which have the distance in common. None where it would
        save less than a third of the work; the state is to be restored then.

        order: the axes, columns last.

        Returns
        -------
        tuple
            The arrays that it reads; `run(*arrays)` -> the reduction, with segments as the last
            axis.
        """
        from .kernels.generated.fusion import Program, segments_of

        (operand, layout), shape = symbol.operands[0], symbol.operands[0][1].shape
        short = [i for i in order[:-1] if 1 < shape[i] <= FEW_TERMS]
        if len(short) != 1 or operand.kind == "argument":
            return None
        (axis,) = short
        rest = [i for i in order if i != axis]
        rows = _Rows(self, tuple([shape[i] for i in rest]))
        alignment: Alignment = tuple([i if shape[i] > 1 else None for i in rest])
        wide, outputs, single = compute_dtype(symbol.layout.dtype), [], 0
        for k in range(shape[axis]):
            try:
                x = evaluated(rows.seen(operand, layout, shape, alignment, ((axis, k),)))
            except _Unfusible:
                return None
            if rows.values[x].row:
                x = rows.value("cast", rows.values[x].dtype, (x,), row=False)
            outputs.append(rows.along(partial, wide, x))
            single = single or len(rows.values)
        few = len(rows.inputs) <= MOST_INPUTS and len({*outputs}) == len(outputs)
        if not few or 3 * len(rows.values) > 2 * shape[axis] * single or not rows.neighbours():
            return None
        run, at = self.kernel(rows, tuple(outputs)), order.index(axis)
        segments = segments_of(Program(tuple(rows.values), tuple(outputs)), rows.shape)
        full = (*[shape[i] for i in order[:-1]], segments)

        def joined(*arrays: ndarray) -> ndarray:
            y = allocate(Layout.new(full, wide, arrays[0]._layout.device))
            kept, step = y.shape[:at] + y.shape[at + 1 :], y.strides[at]
            strides = y.strides[:at] + y.strides[at + 1 :]
            places = [
                y._view(y._layout.view(kept, strides, k * step), k * step)
                for k in range(shape[axis])
            ]
            run(*arrays, into=([*enumerate(places)], frozenset(range(len(places)))))
            return y

        return tuple(rows.inputs), joined

    def state(self) -> tuple:
        """What `restore` takes to forget the stages that come after."""
        return (
            len(self.arrays),
            len(self.list),
            dict(self.indices),
            dict(self.parts),
            set(self.refused),
        )

    def restore(self, state: tuple) -> None:
        """Forget the stages since `state`, which can be restored again."""
        arrays, stages, indices, parts, refused = state
        self.indices, self.parts, self.refused = dict(indices), dict(parts), set(refused)
        del self.arrays[arrays:], self.list[stages:]

    def at(self, array: int, fixed: Fixed) -> int:
        """The part of an array at these indices; the dimensions remain, of size 1."""
        if (array, fixed) not in self.parts:
            layout, where = self.arrays[array], dict(fixed)
            shape = tuple([1 if d in where else n for d, n in enumerate(layout.shape)])
            offset = sum([k * layout.strides[d] for d, k in fixed])

            def run(x: ndarray) -> list[ndarray]:
                start = sum([k * x.strides[d] for d, k in fixed])
                return [x._view(x._layout.view(shape, x.strides, start), start)]

            self.list.append(_Stage((array,), run, 1))
            self.parts[array, fixed] = len(self.arrays)
            self.arrays.append(layout.view(shape, layout.strides, offset))
        return self.parts[array, fixed]

    def whole(self, symbol: Symbol, layout: Layout) -> int:
        """The array of a view: of the symbol's array, reshaped, permuted or repeated as the layout
        says."""
        source = self.array_of(symbol)
        size = self.arrays[source].itemsize  # may be wider than the symbol's

        def strides(layout: Layout) -> tuple[int, ...]:
            return tuple([s // layout.itemsize * size for s in layout.strides])

        def run(x: ndarray) -> list[ndarray]:
            x = _in_order(x, symbol.layout)
            return [x._view(Layout.of(layout.shape, strides(layout), x.dtype, x._layout.device))]

        self.list.append(_Stage((source,), run, 1))
        self.arrays.append(
            Layout.of(layout.shape, strides(layout), self.arrays[source].dtype, layout.device)
        )
        return len(self.arrays) - 1

    def add(
        self, rows: _Rows, outputs: tuple[int, ...], finish: list[Callable], symbols: list[Symbol]
    ) -> None:
        """A stage that runs the kernel of `rows`; several where that is cut, which leave arrays to
        each other."""
        kept: dict[int, int] = {}  # the arrays of values
        pieces = self.pieces(rows, outputs)
        for piece in pieces:
            part, numbers = rows, outputs
            if len(pieces) > 1:
                part, numbers = self.part(rows, outputs, piece, kept)
            ends = [*[lambda y: y for _ in piece.left], *[finish[k] for k in piece.results]]
            self.stage(part, numbers, ends)
            for i, number in zip(piece.left, numbers, strict=False):
                kept[i] = len(self.arrays)
                value, device = part.values[number], symbols[0].layout.device
                shape = (*rows.shape[:-1], 1) if value.row else rows.shape
                self.arrays.append(Layout.new(shape, value.dtype, device))
            for k in piece.results:
                self.indices[symbols[k]] = len(self.arrays)
                self.arrays.append(symbols[k].layout)

    def stage(self, rows: _Rows, outputs: tuple[int, ...], finish: list[Callable]) -> None:
        """The stage of a kernel."""
        run = self.kernel(rows, outputs)

        def finished(*arrays: ndarray, into: Into = ((), frozenset())) -> list[ndarray]:
            results = run(*arrays, into=into)
            return [end(y) for end, y in zip(finish, results, strict=True)]

        self.list.append(_Stage(tuple(rows.inputs), finished, len(outputs), True, rows.once()))

    def pieces(self, rows: _Rows, outputs: tuple[int, ...]) -> list[_Piece]:
        """How the values of `rows` are shared out among kernels, in order.

        Values are taken in their order. Where one needs too much, the operand that needs the most
        becomes an array, until it does not. As many such arrays and results as fit come from one
        kernel."""
        from .kernels.generated.fusion import LOADS

        values = rows.values
        whole = {part: array for (array, _), part in self.parts.items()}
        source: dict[int, int] = {}  # of what is read, which array
        for i, value in enumerate(values):
            if value.kind in LOADS:
                array = rows.inputs[value.detail[0]]
                source[i] = whole.get(array, array)

        def arrays(needed: frozenset[int]) -> int:
            return len({source.get(i, i) for i in needed if i < 0 or i in source})

        def fits(needed: frozenset[int]) -> bool:
            reads = sum([i < 0 or i in source for i in needed])
            few = arrays(needed) <= MOST_ARRAYS and reads <= MOST_READS
            return few and len(needed) <= MOST_STEPS

        alone = [_Piece(frozenset(range(len(values))), (), tuple(range(len(outputs))))]
        if not self.cuts or fits(alone[0].needed):
            return alone
        needs: list[frozenset[int]] = []
        cut: set[int] = set()
        for i, value in enumerate(values):
            while True:
                behind = [{-1 - j} if j in cut else needs[j] for j in value.operands]
                together = frozenset([i]).union(*behind)
                if fits(together):
                    break
                heavy = [j for j in value.operands if j not in cut and len(needs[j]) > 1]
                cut.add(max(heavy, key=lambda j: (arrays(needs[j]), len(needs[j]))))
            needs.append(together)
        found: list[_Piece] = []
        single = [_Piece(needs[i], (i,), ()) for i in sorted(cut)]
        for one in [*single, *[_Piece(needs[i], (), (k,)) for k, i in enumerate(outputs)]]:
            last = found.pop() if found else _Piece(frozenset(), (), ())
            both = _Piece(
                last.needed | one.needed, last.left + one.left, last.results + one.results
            )
            few = len(both.left) + len(both.results) <= MOST_ARRAYS
            found += [both] if few and fits(both.needed) else [last, one]
        return found

    def part(
        self, rows: _Rows, outputs: tuple[int, ...], piece: _Piece, kept: dict[int, int]
    ) -> tuple[_Rows, tuple[int, ...]]:
        """The values of a piece, and which of them it writes: what it leaves, unrounded, then its
        results. kept: the arrays of what earlier pieces left."""
        from .kernels.generated.fusion import ALONG_ROWS, LOADS

        part, numbers = _Rows(self, rows.shape), dict[int, int]()
        everywhere: Alignment = tuple(range(len(rows.shape)))
        each_row: Alignment = (*everywhere[:-1], None)

        def number(j: int) -> int:
            if j in piece.needed:
                return numbers[j]
            return part.load(kept[j], each_row if rows.values[j].row else everywhere)

        for i in sorted([i for i in piece.needed if i >= 0]):
            value = rows.values[i]
            operands, detail = tuple([number(j) for j in value.operands]), value.detail
            if value.kind in LOADS:
                array = rows.inputs[detail[0]]
                if array not in part.inputs:
                    part.inputs.append(array)
                detail = (part.inputs.index(array), *detail[1:])
            numbers[i] = part.value(value.kind, value.dtype, operands, detail, value.row)
        written = []
        for i in piece.left:
            dtype = rows.values[i].dtype
            wide = compute_dtype(dtype) if dtype in FLOATING else dtype
            # a kernel whose results are reductions alone may leave parts of these
            as_it_is = wide == dtype and rows.values[i].kind not in ALONG_ROWS
            written.append(numbers[i] if as_it_is else part.value("cast", wide, (numbers[i],)))
        written += [numbers[outputs[k]] for k in piece.results]
        return part, tuple(written)

    def kernel(self, rows: _Rows, outputs: tuple[int, ...]) -> Callable[..., list[ndarray]]:
        """`run(*arrays, into=)` -> these values of `rows`, by a kernel."""
        from .kernels.generated.fusion import Program

        program = Program(tuple(rows.values), outputs)
        whole = {part: array for (array, _), part in self.parts.items()}
        arrays = {whole.get(i, i) for i in rows.inputs}
        if len(arrays) > MOST_ARRAYS or rows.reads > MOST_READS:
            raise TypeError(
                f"fuse: a kernel reads at most {MOST_ARRAYS} arrays, and {MOST_READS} parts of "
                f"them; the function has {len(arrays)} side by side, and {rows.reads} parts"
            )
        if not rows.inputs:
            raise TypeError(
                "fuse: a result depends on no argument; compute it outside the function"
            )
        bound: dict[tuple, Callable] = {}
        shape = rows.shape

        def run(*arrays: ndarray, into: Into = ((), frozenset())) -> list[ndarray]:
            written, dropped = into
            key = tuple([x._layout for x in (*arrays, *[x for _, x in written])])
            number = key, tuple([k for k, _ in written]), dropped
            launch = bound.get(number)
            kept = [k for k in range(len(outputs)) if k not in dropped]
            if launch is None:
                params: dict[str, Any] = {"program": program, "shape": shape}
                if self.rounds:
                    params["rounds"] = True
                if written:
                    again = [outputs[k] for k in (*kept, *[k for k, _ in written])]
                    params["program"] = Program(program.values, tuple(again))
                    params["targets"] = tuple(range(len(kept), len(again)))
                plan = call_planner("fuse", "generated.fusion.fused", key, params)
                launch = bound[number] = plan.bind("fuse", list(key))
            made = launch(*arrays, *[x for _, x in written])
            made = (made,) if len(kept) == 1 else made or ()
            results = {**dict(reversed(written)), **dict(zip(kept, made, strict=True))}
            return [results[k] for k in range(len(outputs))]

        return run


def _in_order(x: ndarray, layout: Layout) -> ndarray:
    """An array whose elements lie in memory in this layout's order: what views of `x` are made of.
    A kernel of rows writes C order, even where an operation by itself would have kept that of
    transposed operands."""
    if x._layout.strides == tuple([s // layout.itemsize * x.itemsize for s in layout.strides]):
        return x
    return copy(permute_dims(x, tuple(sorted(range(x.ndim), key=lambda i: -layout.strides[i]))))


def _filled(constant: Symbol, layout: Layout, beside: ndarray) -> ndarray:
    """A constant as an array of this shape and dtype, where another array is."""
    return full(layout.shape, constant.params.item(), layout.dtype, device=beside.device)


def _of_few(symbol: Symbol) -> bool:
    """Whether a reduction adds so few elements, which are computed for it, that it is written
    out."""
    (operand, layout), params = symbol.operands[0], symbol.params
    axes = params["axis"]
    return (
        REDUCTIONS[params["kind"]].name in ("sum", "mean")
        and len(axes) == 1
        and 1 < layout.shape[axes[0]] <= FEW_TERMS
        and layout.dtype in FLOATING
        and symbol.layout.dtype in FLOATING
        and symbol.layout.size > 0
        and operand.kind not in ("argument", "constant", "reduce")
    )


def _of_one(symbol: Symbol) -> bool:
    """Whether a reduction is of single elements and gives these: a norm's sum over a weight that is
    one number."""
    layout, params = symbol.operands[0][1], symbol.params
    return (
        REDUCTIONS[params["kind"]].name in ("sum", "mean", "max", "min", "prod")
        and all([layout.shape[i] == 1 for i in params["axis"]])
        and layout.dtype in FLOATING
        and symbol.layout.dtype in FLOATING
        and symbol.layout.size > 0
    )


def _along_rows(symbol: Symbol) -> bool:
    """Whether a reduction leaves one value per row, and a kernel of rows can do it."""
    from .kernels.generated.fusion import few_and_long

    layout, params = symbol.operands[0][1], symbol.params
    return (
        REDUCTIONS[params["kind"]].in_rows is not None
        and params["axis"] == (layout.ndim - 1,)
        and layout.shape[-1] > 1
        and layout.dtype in FLOATING
        and symbol.layout.dtype in FLOATING
        and symbol.layout.size > 0
        and symbol.operands[0][0].layout.shape == layout.shape
        and not few_and_long(layout.shape)
        and not _of_few(symbol)
    )


def _repeated(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
    """What a large domain would compute again and again, but for what has one value per row: the
    places of bodies, which a kernel of all pairs reads. It is not rounded to 16 bits for that."""
    found: dict[Symbol, None] = {}
    work: dict[Symbol, frozenset[Symbol]] = {}  # the operations and arrays behind a value
    stack = [*symbols]
    while stack:
        symbol = stack[-1]
        seen = [x[0] for x in symbol.operands if isinstance(x, tuple)]
        if left := [x for x in seen if x not in work]:
            stack += left
            continue
        stack.pop()
        if symbol in work:
            continue
        for x, layout in [x for x in symbol.operands if isinstance(x, tuple)]:
            if (
                symbol.kind != "reduce"
                and x.kind not in ("argument", "constant", "reduce")
                and symbol.layout.size >= max(LARGE, REPEATED * x.layout.size)
                and compute_dtype(x.layout.dtype) == x.layout.dtype
                and len(work[x]) >= WORK
                and layout.ndim
                and layout.shape[-1] == symbol.layout.shape[-1]
                and layout.strides[-1]
            ):
                found[x] = None
        if symbol.kind in ("argument", "reduce"):
            work[symbol] = frozenset([symbol])
        else:
            parts = [{x} if x in found else work[x] for x in seen]
            own = () if symbol.kind == "constant" else (symbol,)
            work[symbol] = frozenset().union(own, *parts)
    return tuple(found)


def _in_order_of_use(symbols: Sequence[Symbol]) -> list[Symbol]:
    """These and all that they are computed from, operands before their users."""
    done: dict[Symbol, None] = {}
    stack = [*symbols]
    while stack:
        symbol = stack[-1]
        if symbol not in done and (left := [x for x in _operands(symbol) if x not in done]):
            stack += left
            continue
        done[stack.pop()] = None
    return [*done]


def _operands(symbol: Symbol) -> list[Symbol]:
    return [x[0] for x in symbol.operands if isinstance(x, tuple)]


def _rolled(symbols: Sequence[Symbol]) -> list[Symbol]:
    """Of these, what is computed and then rolled: arrays, which other threads read."""
    moved = [x for symbol in symbols if symbol.kind in MOVING for x in _operands(symbol)]
    return [x for x in dict.fromkeys(moved) if x.kind != "argument"]


def _side_by_side(symbols: Sequence[Symbol]) -> list[list[Symbol]]:
    """Of these, in order of use, what is computed and then rolled; together what follow one
    another, are of one shape and read the same, and none of them what of another was rolled: all
    fields of a step in time."""
    rolled = {*_rolled(symbols)}
    depth: dict[Symbol, int] = {}  # how often something was computed and then rolled
    reads: dict[Symbol, set[Symbol]] = {}
    found: list[list[Symbol]] = []
    for symbol in symbols:
        operands = _operands(symbol)
        moves = symbol.kind in MOVING
        depth[symbol] = max([depth[x] + (moves and x in rolled) for x in operands], default=0)
        leaf = symbol.kind == "argument" or moves
        reads[symbol] = (
            {*(operands or [symbol])}
            if leaf
            else set[Symbol]().union(*[reads[x] for x in operands])
        )
        if symbol not in rolled:
            continue
        last = found[-1][-1] if found else None
        if (
            last is not None
            and symbol.kind == last.kind == "elementwise"
            and symbol.layout.shape == last.layout.shape
            and depth[symbol] == depth[last]
            and not reads[symbol].isdisjoint(reads[last])
        ):
            found[-1].append(symbol)
        else:
            found.append([symbol])
    return found


def _rounds(symbols: Sequence[Symbol]) -> bool:
    """Whether kernels of these round each product and sum: whether a compiler makes one operation
    of the two depends on what else it finds in a kernel.

    The gradient of a maximum looks for the very number that was found. It is computed again, from
    what is read, or computed again as well; here in the same kernel, there in another one."""
    return any(
        [
            symbol.kind == "reduce"
            and REDUCTIONS[symbol.params["kind"]].name in ("max", "min")
            or symbol.kind == "elementwise"
            and symbol.params[0] in EQUALITY
            for symbol in symbols
            if any([x.kind != "argument" for x in _operands(symbol)])
        ]
    )


def _staged(
    outputs: Sequence[ndarray], layouts: Sequence[Layout], apart: frozenset[Symbol], cuts: bool
) -> tuple[_Stages, list[tuple]]:
    """The stages for traced results; (array or None for a constant, symbol, layout) of each of
    these."""
    symbols = list(dict.fromkeys(y._data for y in outputs))
    everything = _in_order_of_use(symbols)
    stages = _Stages(layouts, apart, _repeated(symbols), cuts, _rounds(everything))
    for symbol in stages.once:
        stages.array_of(symbol)
    for members in _side_by_side(everything):
        stages.arrays_of(members)
    groups: dict[tuple[int, ...], list[Symbol]] = {}
    for symbol in symbols:
        if symbol.kind not in ("argument", "constant", "reduce") and symbol not in stages.indices:
            groups.setdefault(symbol.layout.shape, []).append(symbol)
    for symbol in symbols:  # reductions of rows beside results that walk the same rows
        if (
            symbol.kind == "reduce"
            and symbol not in apart
            and _along_rows(symbol)
            and symbol.operands[0][1].shape in groups
        ):
            groups[symbol.operands[0][1].shape].append(symbol)
        elif (
            symbol.kind == "reduce"
        ):  # what reductions of columns will read is written by the same kernel
            operand, layout = symbol.operands[0]
            if (
                operand.layout is layout
                and layout.shape in groups
                and layout.ndim - 1 not in symbol.params["axis"]
                and operand.kind not in ("argument", "constant", "reduce")
                and operand not in groups[layout.shape]
            ):
                groups[layout.shape].append(operand)
    for shape, members in groups.items():
        stages.rows(shape, members)
    return stages, [
        (None if y._data.kind == "constant" else stages.array_of(y._data), y._data, y._layout)
        for y in outputs
    ]


def kernels_of(
    outputs: Sequence[ndarray],
    layouts: Sequence[Layout],
    targets: Sequence[Layout] = (),
    cuts: bool = False,
) -> Callable[..., list[ndarray]]:
    """`run(*arrays)` for traced results: the stages, and the views of their results. TypeError
    where there is no such kernel.

    cuts: what is too much for one kernel becomes several; else that is a TypeError, too.

    targets: layouts of arrays into which the last results are written; these arrays are the last
    arguments of `run`, which returns the others. TypeError where no kernel writes such a result.

    `run.over(k, i)` tells whether result k, of those into arrays as well, may be written over array
    i."""
    apart: frozenset[Symbol] = frozenset()
    # A reduction that one kernel refuses gets a stage of its own for all: computed by a stage here
    # and inside a kernel there, the two could differ in the last bit, and the gradient of a maximum
    # looks for equal numbers.
    while True:
        stages, values = _staged(outputs, layouts, apart, cuts)
        if stages.refused <= apart:
            break
        apart |= stages.refused
    steps = list(stages.list)
    placed = _placed(steps, values, len(layouts), targets)
    over = functools.partial(_over, steps, values, len(layouts))
    values = values[: len(values) - len(targets)]

    def run(*arrays: ndarray) -> list[ndarray]:
        env, given = list(arrays[: len(layouts)]), arrays[len(layouts) :]
        for stage, (places, dropped) in zip(steps, placed, strict=True):
            operands = [env[i] for i in stage.inputs]
            if places:
                into = [(k, given[number]) for k, number in places], dropped
                env += stage.run(*operands, into=into)
            else:
                env += stage.run(*operands)
        out = []
        for index, symbol, layout in values:
            if index is None:
                out.append(_filled(symbol, layout, arrays[0]))
                continue
            y = env[index]
            y = astype(y, layout.dtype, copy=False)
            if layout is not symbol.layout:
                y = _in_order(y, symbol.layout)
                y = copy(
                    y._view(Layout.of(layout.shape, layout.strides, layout.dtype, y._layout.device))
                )
            out.append(copy(y) if index < len(layouts) else y)
        return out

    run.over = over  # type: ignore[attr-defined]
    return run


def _over(steps: list[_Stage], values: list[tuple], arguments: int, k: int, i: int) -> bool:
    """Whether result k may be written over array i: no stage after its own reads that, or a view of
    it, and its own only where it writes."""
    index = values[k][0]
    if index is None or index < arguments:
        return False
    made = arguments
    for number, stage in enumerate(steps):
        made += stage.results
        if index < made:
            reads = [n for n, other in enumerate(steps) if i in other.inputs]
            kernels = all([steps[n].writes for n in reads])
            return (
                kernels
                and max(reads, default=0) <= number
                and (number not in reads or i in stage.once)
            )
    return False


def _placed(
    steps: list[_Stage], values: list[tuple], arguments: int, targets: Sequence[Layout]
) -> list[tuple[list[tuple[int, int]], frozenset[int]]]:
    """For each stage: pairs of the number of its result and the number of a target into which it is
    written; and the results that are wanted nowhere else."""
    found: list[list[tuple[int, int]]] = [[] for _ in steps]
    wanted = {index for index, _, _ in values[: len(values) - len(targets)]}
    firsts = [arguments]
    for stage in steps:
        firsts.append(firsts[-1] + stage.results)
    for number, target in enumerate(targets):
        index, symbol, layout = values[len(values) - len(targets) + number]
        if index is None or index < arguments:
            raise TypeError("a result that is an argument or a constant")
        at = bisect.bisect_right(firsts, index) - 1
        plain = layout is symbol.layout and symbol.kind != "reduce"
        neighbours = target.ndim > 0 and target.strides[-1] == target.itemsize
        same = (target.shape, target.dtype) == (layout.shape, symbol.layout.dtype)
        if not (steps[at].writes and plain and neighbours and same):
            raise TypeError("a result that is not written as it is")
        found[at].append((index - firsts[at], number))
    return [
        (places, frozenset([k for k, _ in places if first + k not in wanted]))
        for places, first in zip(found, firsts, strict=False)
    ]


# -------------------- calls


class _Fused:
    """A function of a flat list of arrays (floating-point or not) that returns a flat list, fused;
    the card of its calls."""

    several = True
    broadcasts = False

    def __init__(self, function: Callable[..., list[ndarray]], name: str):
        self.function, self.name = function, name
        #: of a GPU's layouts what `plan` returns, of the CPU's what `views` does
        self.plans: dict[tuple, Any] = {}
        planned.add(self)
        self._gradients: dict[tuple[bool, ...], _Fused] = {}

    def saves(self, count: int) -> tuple[bool, tuple[bool, ...]]:
        """Gradients are computed from the inputs."""
        return False, (True,) * count

    def __call__(self, *arrays: ndarray) -> tuple[ndarray, ...]:
        key = tuple([x._layout for x in arrays])
        run = self.plans.get(key)
        if run is None:
            with unrecorded():
                run = self.plan(key)
            store(self.plans, key, run)
        out = tuple(run(*arrays))
        if any([x._node is not None for x in arrays]):
            tape.record(self, arrays, out, {})
        if open_records:
            report(self, arrays, (), {}, run, out)
        return out

    def plan(self, layouts: Sequence[Layout]) -> Callable[..., list[ndarray]]:
        """`run(*arrays)` for arrays of a GPU of these layouts."""
        return kernels_of(self.traced(layouts), layouts, cuts=True)

    def traced(self, layouts: Sequence[Layout]) -> list[ndarray]:
        """The results of the function of traced arrays like these."""
        arguments = [tracing.argument(x.shape, x.dtype, i) for i, x in enumerate(layouts)]
        paused = recording.state.paused
        recording.state.paused = False
        try:
            with device_of(
                tracing.TRACED
            ):  # what is made of numbers alone, cm.sqrt(2.0), belongs to the kernel too
                outputs = self.function(*arguments)
        finally:
            recording.state.paused = paused
        return [
            y if y._layout.device == tracing.TRACED else tracing.constant(y.to_numpy())
            for y in outputs
        ]

    def views(self, layouts: tuple[Layout, ...]) -> tuple[int, ...]:
        """For the CPU: which of the results of the function as it is are its arguments or views,
        where a GPU would return arrays of their own. TypeError for a function that could not be
        fused on a GPU."""
        views: Any = self.plans.get(layouts)
        if views is None:
            with unrecorded():
                outputs = self.traced(layouts)
                kernels_of(outputs, layouts, cuts=True)
            views = tuple(
                [
                    i
                    for i, y in enumerate(outputs)
                    if y._data.kind == "argument" or y._layout is not y._data.layout
                ]
            )
            store(self.plans, layouts, views)
        return views

    def gradient(self, present: tuple[bool, ...]) -> _Fused:
        """The fused function of the gradients of the results, those that are present, and of the
        inputs: the gradients of the inputs."""
        if present not in self._gradients:
            self._gradients[present] = _Fused(
                functools.partial(self._pull, present), f"{self.name} (gradient)"
            )
        return self._gradients[present]

    def vjp(self, g: tuple, _y: Any, *inputs: ndarray) -> tuple:
        """Gradients of all inputs, by one fused function of the gradients of the results and the
        inputs."""
        gradient = self.gradient(tuple([each is not None for each in g]))
        which = [i for i, x in enumerate(inputs) if x.dtype in INEXACT]
        gradients = gradient(*[each for each in g if each is not None], *inputs)
        out: list[ndarray | None] = [None] * len(inputs)
        for i, each in zip(which, gradients, strict=True):
            out[i] = each
        return tuple(out)

    def _pull(self, present: tuple[bool, ...], *arrays: ndarray) -> list[ndarray]:
        count = sum(present)
        g, inputs = arrays[:count], list(arrays[count:])
        which = [i for i, x in enumerate(inputs) if x.dtype in INEXACT]

        def chosen(*xs: ndarray) -> list[ndarray]:
            full = list(inputs)
            for i, x in zip(which, xs, strict=True):
                full[i] = x
            return [y for y, used in zip(self.function(*full), present, strict=True) if used]

        _, pull = vjp(chosen, *[inputs[i] for i in which])
        return list(pull(list(g)))


class _Unfused:
    """The card of the results of a fused function on the CPU, whose operations are recorded one by
    one: it passes their gradients on, where a GPU could compute the gradient in a kernel."""

    several = True
    broadcasts = False

    def __init__(self, card: _Fused):
        self.card, self.name = card, card.name

    def saves(self, count: int) -> tuple[bool, tuple[bool, ...]]:
        """No values are needed."""
        return False, (False,) * count

    def __call__(self, inputs: tuple[Layout, ...], results: list[ndarray]) -> list[ndarray]:
        out = [y._alias() for y in results]
        params = {"inputs": inputs, "results": tuple([y._layout for y in results])}
        tape.record(self, results, tuple(out), params)
        return out

    def vjp(self, g: tuple, _y: Any, *_: Any, inputs: tuple, results: tuple) -> tuple:
        """The gradients as they are; TypeError where they could not be fused on a GPU."""
        present = tuple([each is not None for each in g])
        used = [y for y, each in zip(results, present, strict=True) if each]
        self.card.gradient(present).views((*used, *inputs))
        return g


def fuse(function: Callable) -> Callable:
    """Fuse the elementwise operations and reductions of a function into one kernel on a GPU.

    Operations one after the other read and write each intermediate result; a fused function reads
    its arguments and writes its results, and keeps what lies between in registers. Chains of
    elementwise operations with broadcasting, reductions along the last axis at any place (a layer
    norm by hand is one kernel that reads x once), and reductions along other axes at the end or
    between (a kernel for each such cut). `cm.roll` of an argument is read where its elements come
    from; what is computed first and then rolled is a kernel before. Small arrays gain as well: one
    launch.

    Parameters
    ----------
    function : callable
        Takes arrays (also NumPy's), trees of arrays, and other Python objects, which are constants
        of the kernel. Returns an array or a tree of arrays. It may use everything elementwise
        (operators, `cm.exp`, `cm.where`, `cm.ml.gelu`, ...), reductions, `cm.roll`, and views that
        add, remove or repeat axes. It must not depend on values (`if x > 0`), change arrays in
        place, or use arrays that are not arguments. Its body runs once for each combination of
        shapes and dtypes, on the CPU also at each call.

    Returns
    -------
    callable
        The same function, fused. May be used as a decorator. On the CPU it calls `function` as it
        is, once it is known that a GPU could fuse it.

    Raises
    ------
    TypeError
        `function` is not callable. At the first call with arguments of these shapes and dtypes, on
        the CPU as on a GPU: it does something that cannot be part of such a kernel.

    Notes
    -----
    Gradient: through the rules of the operations inside, fused as well, of any order. The function
    is deterministic. Accuracy: 16-bit arrays are computed in float32 throughout, without rounding
    between operations.

    Examples
    --------
    >>> import cudamath as cm
    >>> @cm.fuse
    ... def gelu(x):
    ...     return 0.5 * x * (1 + cm.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))
    >>> gelu(cm.array([-1.0, 0.0, 2.0])).round(4).tolist()
    [-0.1588, 0.0, 1.9546]
    >>> mean_square = cm.fuse(lambda x, y: ((x - y) ** 2).mean())
    >>> float(mean_square(cm.array([1.0, 2.0]), cm.array([1.0, 4.0])))
    2.0
    """
    require_function("fuse", function)
    cards: dict[Any, tuple[_Fused, list]] = {}
    name = getattr(function, "__name__", "function")

    @functools.wraps(function)
    def fused(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = trees.flatten(name, (args, kwargs))
        arrays = [x for x in leaves if isinstance(x, ndarray)]
        if len(arrays) != len(leaves) and any([isinstance(x, np.ndarray) for x in leaves]):
            leaves = [asarray(x, name=name) if isinstance(x, np.ndarray) else x for x in leaves]
            args, kwargs = structure.unflatten(leaves)
            arrays = [x for x in leaves if isinstance(x, ndarray)]
        if not arrays or _among_others(same_device(name, arrays)):
            return function(*args, **kwargs)
        rest = tuple([None if isinstance(x, ndarray) else _known_by(x) for x in leaves])
        try:
            entry = cards.get((structure, rest))
        except TypeError:
            kinds = sorted({type(x).__name__ for x in leaves if not isinstance(x, ndarray)})
            raise TypeError(
                f"fuse: arguments must be arrays or hashable constants of {name}, got {kinds}"
            ) from None
        if entry is None:
            entry = cards[structure, rest] = _card(function, name, leaves, structure)
        card, returned = entry
        if arrays[0]._layout.device != CPU:
            # the first call traces, and fills `returned`
            on_gpu = [to_user(y) for y in card(*arrays)]
            return returned[0].unflatten(on_gpu)
        layouts = tuple([x._layout for x in arrays])
        views, result = card.views(layouts), function(*args, **kwargs)
        results, shape = trees.flatten(name, result)
        results = as_arrays(f"fuse: {name}", results)
        # of a scalar a view is none in the trace, where it is copied
        shared = [i for i, y in enumerate(results) if 0 in y.strides and y.size > 1]
        if not views and not shared and all([y._node is None for y in results]):
            return result
        for i in {*views, *shared}:
            results[i] = copy(results[i])
        if any([y._node is not None for y in results]):
            results = _Unfused(card)(layouts, results)
        return shape.unflatten([to_user(y) for y in results])

    return fused


def _among_others(device: int) -> bool:
    """Whether the operations of a fused function become part of something larger: of a kernel that
    is being traced, of a GPU's program, which fuses them with their neighbours, or of what `vmap`
    does with physical arrays."""
    return device <= tracing.TRACED or device != CPU and bool(open_records) and traced()


def _known_by(constant: Any) -> tuple:
    """What tells a constant from others: -0.0 equals 0.0 and has other bits, and NaN equals
    nothing."""
    return type(constant), repr(constant) if isinstance(
        constant, (float, complex, np.inexact)
    ) else constant


def _card(function: Callable, name: str, leaves: list, structure: Any) -> tuple[_Fused, list]:
    """The fused function of the arrays among `leaves`, and where the structure of its results will
    stand."""
    returned: list = [None]
    constants = [None if isinstance(x, ndarray) else x for x in leaves]
    places = [i for i, x in enumerate(leaves) if isinstance(x, ndarray)]

    def flat(*arrays: ndarray) -> list[ndarray]:
        full = list(constants)
        for i, x in zip(places, arrays, strict=True):
            full[i] = x
        args, kwargs = structure.unflatten(full)
        results, returned[0] = trees.flatten(name, function(*args, **kwargs))
        for y in results:
            if not isinstance(y, ndarray):
                raise TypeError(
                    f"fuse: the function must return arrays, {name} returned {type(y).__name__}"
                )
        return results

    return _Fused(flat, name), returned
