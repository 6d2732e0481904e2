"""Kernels that `cm.fuse` generates: a whole expression of arrays in one pass over them.

The idea. Elementwise operations one after the other read and write every intermediate result: ten
of them move ten times the memory that the inputs and the result take. One kernel keeps what lies
between in registers. The floor is bytes(inputs) + bytes(outputs), whatever happens on the way. A
`Program` says what to compute, value by value, on a domain of rows (the last axis) and columns;
`fused` turns it into one of

1. `elementwise` (elementwise/dispatch.py): one result, no reduction. The values become one scalar
   function, and every version there applies: any strides, 16-byte accesses, transposed operands
   through shared memory.
2. `fused_rows`: reductions along rows, or several results. A group of threads owns a row. A
   reduction is a pass over it; what later passes need again is held in registers (a layer norm
   reads x once), as long as a row fits.
3. `fused_rows` without holding: rows too long for registers; and rows cut into segments, one per
   group of threads, so that few long rows fill the device as well: those of several results without
   reductions, and those of which reductions at the very end are wanted.

A reduction inside a kernel whose rows are few and long would leave the device to a few blocks
(`few_and_long`): fuse.py gives it stages of its own.

Sums are added in a fixed order: the same numbers in the same shape give the same bits. In the
simulator a group is one thread.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import COMPLEX, compute_dtype, float16, float64
from ...core.layout import Layout
from ..compiler.decorators import device_function, rounding, rounding_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..elementwise.dispatch import launch, result_layout
from ..elementwise.generator import NAMES, scalar_function
from ..lib.block_reduce import add, group_max, group_min, group_sum, larger, smaller
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from ..lib.row_layout import spread
from ..lib.vector_io import reader, writer
from ..lib.widths import vector_width, wide
from ..ptx import conversions as ptx_conversions

WRITTEN = 8  # elements of an access, at most: of bytes it takes eight
HELD = 32  # float32 registers a thread may hold of a row ..
# .. of more than WIDE columns of 32 bits or more: 32 is slower, 8 as fast as far as runs differ
# (limits.toml)
HELD_WIDE = 16
WIDE = 2048
MOST_THREADS = 512  # a row that is not held
UNROLL = 4  # accesses a thread has in flight where nothing is held
LITTLE = 16  # an array of so many times fewer elements than a domain is read as it lies
SEGMENT = 1 << 14  # elements of a row that one group of threads reduces, where there are few rows
FEW = 1 << 10  # rows that fill the device
# Rows of more columns than LONG should take a block longer than two more launches do, where they
# are so few that most of the device has none. Estimated (a block reads some 50 GB/s), not measured.
LONG, MOST_LONG = 1 << 16, 64
ELEMENTWISE_THREADS = 128  # of a segment without reductions


class Value(NamedTuple):
    """One value of a program.

    kind: "load" (detail: argument, alignment: for each dimension of the domain the argument's, or
    None), "rolled" (the same, and for each dimension how far it is rolled), "placed" (the same, for
    each dimension of the domain None, or where the elements begin and how many there are, and
    whether the zeros that surround them are -0.0), "constant" (detail: the number and its repr, as
    -0.0 equals 0.0), "apply" (detail: expression, compute dtype), "where",
    "cast", or one of ALONG_ROWS. row: it has one value per row.
    """

    kind: str
    dtype: np.dtype
    operands: tuple[int, ...]
    detail: Any
    row: bool


class Program(NamedTuple):
    """Values, operands before their users, and which of them are results."""

    values: tuple[Value, ...]
    outputs: tuple[int, ...]

    @property
    def reductions(self) -> list[int]:
        return [i for i, v in enumerate(self.values) if v.kind in ALONG_ROWS]


class AlongRow(NamedTuple):
    """How the elements of a row are combined.

    start: the value of no elements; more: device function of two values; together: (threads, type)
    -> device function that combines the values of a group of threads in each of them.
    """

    start: float
    more: Any
    together: Callable[[int, Any], Any]


#: The values that are read.
LOADS = ("load", "rolled", "placed")

#: The values that combine the elements of a row.
ALONG_ROWS = {
    "sum": AlongRow(0, add, group_sum),
    "max": AlongRow(-math.inf, larger, group_max),
    "min": AlongRow(math.inf, smaller, group_min),
}


# -------------------- scalar functions


@functools.cache
def value_function(value: Value, inputs: tuple[np.dtype, ...]) -> Any:
    """Device function of one value from its operands, all in what their dtypes are computed in."""
    if value.kind == "apply":
        expression, compute = value.detail
        return scalar_function(expression, inputs, compute, value.dtype, stored=False)
    R = codec(value.dtype)[2]
    if value.kind == "where":

        @device_function
        def where(mask, a, b):
            return R(a) if mask else R(b)

        return where
    load, store, _ = codec(value.dtype)
    if value.dtype == np.bool_:

        @device_function
        def truth(v):
            return R(1) if v != 0 else R(0)

        return truth
    if inputs[0] in COMPLEX and value.dtype not in COMPLEX:

        @device_function
        def real(v):
            return load(store(R(v.real)))

        return real
    if (inputs[0], value.dtype) == (float64, float16):

        @device_function
        def once(v):  # through float32 it would be rounded twice
            return load(ptx_conversions.double_to_half(v))

        return once

    @device_function
    def cast(v):
        return load(store(R(v)))

    return cast


class _Writer:
    """Generated statements for values of a program; `namespace` collects what they call."""

    def __init__(self, program: Program):
        self.program = program
        self.namespace: dict[str, Any] = {"cuda": cuda, "types": types}

    def needed(self, targets: Sequence[int], known: Callable[[int], bool]) -> list[int]:
        """What must be computed for these values, in order; not what is known."""
        found: set[int] = set()
        stack = [i for i in targets if not known(i)]
        while stack:
            i = stack.pop()
            if i not in found:
                found.add(i)
                if self.program.values[i].kind not in ALONG_ROWS:
                    stack += [j for j in self.program.values[i].operands if not known(j)]
        return sorted(found)

    def statement(self, i: int, name: Callable[[int], str]) -> str:
        """v<i> = f<i>(operands)."""
        value = self.program.values[i]
        operands = [self.program.values[j] for j in value.operands]
        self.namespace[f"f{i}"] = value_function(
            value._replace(operands=(), row=False), tuple(o.dtype for o in operands)
        )
        return f"{name(i)} = f{i}({', '.join(map(name, value.operands))})"

    def constant(self, i: int) -> str:
        """The name of a constant."""
        value = self.program.values[i]
        self.namespace[f"c{i}"] = codec(value.dtype)[2](value.detail[0])
        return f"c{i}"


@functools.cache
def composed(program: Program, rounds: bool = False) -> tuple[Any, tuple[int, ...]]:
    """(device function from the stored elements of the loads to the stored element of the one
    result, the loads). rounds: as in `fused`."""
    write = _Writer(program)
    loads = tuple(i for i, v in enumerate(program.values) if v.kind == "load")

    def name(i: int) -> str:
        return write.constant(i) if program.values[i].kind == "constant" else f"v{i}"

    lines = []
    for k, i in enumerate(loads):
        write.namespace[f"load{i}"] = codec(program.values[i].dtype)[0]
        lines.append(f"v{i} = load{i}({NAMES[k]})")
    lines += [
        write.statement(i, name)
        for i in write.needed(
            program.outputs, lambda i: program.values[i].kind in ("load", "constant")
        )
    ]
    (out,) = program.outputs
    write.namespace["store"], write.namespace["R"] = codec(program.values[out].dtype)[1:]
    arguments = ", ".join(NAMES[: len(loads)])
    source = (
        f"def fused({arguments}):\n"
        + "".join(f"    {line}\n" for line in lines)
        + f"    return store(R({name(out)}))\n"
    )
    decorated = rounding_function if rounds else device_function
    return decorated(compiled(source, "fused", write.namespace)), loads


# -------------------- rows

QUOTIENT = "x / y"


@functools.cache
def row_division() -> tuple[Any, Any]:
    """Device functions (prepare, divide) for float32: all of a row divided by one number, as
    exactly as by `/`.

    prepare(y) -> (y s, 1 / (y s), s), once per row; divide(x, y s, 1 / (y s), s) -> x / y. `/` is a
    dozen instructions with a branch for very large and small numbers, and a thread that has thirty
    such branches before it has no loads in flight. Here the product with the reciprocal is
    corrected twice by its remainder, which a fused multiply-add finds exactly; the power of two s
    keeps the reciprocal a normal number. The result is rounded correctly (Markstein 1990) where |x|
    and |x / y| are 2^-100 or more; smaller ones may be off by two units in the last place.
    """
    one, none, near, far, endless = map(np.float32, (1, 0, 2.0**-60, 2.0**60, math.inf))

    @device_function
    def prepare(y):
        size = abs(y)
        s = near if size > far else (far if size < near else one)
        y = y * s
        return y, one / y, s

    @device_function
    def divide(x, y, reciprocal, s):
        x = x * s
        first = x * reciprocal
        q = cuda.fma(cuda.fma(-y, first, x), reciprocal, first)
        q = cuda.fma(cuda.fma(-y, q, x), reciprocal, q)
        size = abs(first)  # of zeros, infinities and NaN the product alone is right, sign and all
        return q if size > none and size < endless else first

    return prepare, divide


def divisor(program: Program, i: int) -> int | None:
    """The number of the value by which `row_division` divides value i, an element; None where it is
    not such a quotient."""
    value = program.values[i]
    if value.kind != "apply" or value.row or value.detail != (QUOTIENT, np.dtype(np.float32)):
        return None
    single = all(compute_dtype(program.values[j].dtype) == np.float32 for j in (*value.operands, i))
    return (
        value.operands[1]
        if program.values[value.operands[1]].row and single and not SIMULATOR
        else None
    )


class Shape(NamedTuple):
    """What a compiled `fused_rows` knows of its launch."""

    threads: int  # a row
    rows: int  # a block
    width: int  # elements per access
    vectors: int  # accesses a thread holds; 0: nothing is held
    outer: int  # dimensions in front of the columns
    segmented: bool
    across: tuple[int, ...] = ()  # loads whose columns are no neighbours
    #: pairs of a load and a dimension along which it is rolled; `outer` stands for the columns
    moved: tuple[tuple[int, int], ...] = ()
    #: the same, of those that zeros surround
    bounded: tuple[tuple[int, int], ...] = ()


def levels(program: Program) -> list[list[int]]:
    """Reductions by how many passes must come before: those of a level share a pass."""
    depth: list[int] = []
    found: list[list[int]] = []
    for i, value in enumerate(program.values):
        before = max([depth[j] for j in value.operands], default=0)
        if value.kind in ALONG_ROWS:
            while len(found) <= before:
                found.append([])
            found[before].append(i)
            before += 1
        depth.append(before)
    return found


def held_loads(program: Program, across: Sequence[int] = ()) -> list[int]:
    """Loads along rows that more than one pass uses, but for those whose columns are no
    neighbours."""
    write, uses = _Writer(program), {}
    passes = [[program.values[i].operands[0] for i in level] for level in levels(program)]
    elements = [i for i in program.outputs if not program.values[i].row]
    for targets in [*passes, elements]:
        for i in write.needed(targets, lambda _: False):
            if program.values[i].kind in LOADS and not program.values[i].row:
                uses[i] = uses.get(i, 0) + 1
    return [i for i, n in uses.items() if n > 1 and i not in across]


@functools.cache
def fused_rows(program: Program, shape: Shape, rounds: bool = False) -> Any:
    """Arguments: the loads' arrays and the results as one-dimensional memory; their element strides
    along the outer dimensions; the sizes of these; rows, columns, columns of a segment, segments of
    a row; for loads whose columns are no neighbours how many elements lie between these; and how
    far which loads are rolled along which dimensions. rounds: as in `fused`."""
    values, write = program.values, _Writer(program)
    threads, _, width, vectors, outer, segmented, across, moved, bounded = shape
    turned = [i for i, d in moved if d == outer]  # loads that are rolled along the columns
    ends = {i for i, d in bounded if d == outer}  # loads whose rows have an end
    some = {i for i, d in bounded if d < outer}  # loads that have no row for some rows
    space = write.namespace
    held = held_loads(program, (*across, *turned, *ends, *some)) if vectors else []
    loads = [i for i, v in enumerate(values) if v.kind in LOADS]
    arrays = [*(f"a{i}" for i in loads), *(f"o{k}" for k in range(len(program.outputs)))]
    parameters = [
        *arrays,
        *(f"{a}_{d}" for a in arrays for d in range(outer)),
        *(f"size{d}" for d in range(outer)),
        "rows",
        "columns",
        "segment",
        "segments",
        *(f"step{i}" for i in across),
        *(f"shift{i}_{d}" for i, d in moved),
        *(f"{name}{i}_{d}" for i, d in bounded for name in ("start", "end")),
    ]
    space["prepare"], space["divide"] = row_division()
    for i in loads:
        space[f"read{i}"], space[f"load{i}"] = (
            reader(values[i].dtype, width),
            codec(values[i].dtype)[0],
        )
        space[f"T{i}"] = codec(values[i].dtype)[2]
        placed = values[i].kind == "placed"
        space[f"zero{i}"] = space[f"T{i}"](-0.0 if placed and values[i].detail[3] else 0)
    row_known: set[int] = set()  # one value per row, computed already
    functions: list[str] = []  # each the values of one element

    def name(i: int) -> str:
        return write.constant(i) if values[i].kind == "constant" else f"v{i}"

    def known(i: int) -> bool:
        return i in row_known or values[i].kind == "constant"

    def rows_of(targets: Sequence[int]) -> list[str]:
        """Statements for the row values among what these targets need."""
        lines = []
        for i in write.needed(targets, known):
            if (
                values[i].row
                and values[i].kind not in ALONG_ROWS
                and all(known(j) for j in values[i].operands)
            ):
                there = f" if there{i} else zero{i}" if i in some else ""
                lines.append(
                    f"v{i} = load{i}(a{i}[at_a{i}]){there}"
                    if values[i].kind in LOADS
                    else write.statement(i, name)
                )
                row_known.add(i)
        return lines

    def read(i: int, at: str) -> str:
        """The statement that reads `width` elements of a load at column `at`."""
        there = f" if there{i} else zero{i}" if i in some else ""
        if i not in across and i not in turned and i not in ends:
            line = f"read{i}(a{i}, at_a{i} + {at}, l{i}, 0)"
            chosen = [f"l{i}[{k}] = l{i}[{k}]{there}" for k in range(width if there else 0)]
            return "; ".join([line, *chosen])
        columns = [f"({at} + {k})" for k in range(width)]
        conditions = [there] * width
        if i in ends:
            start, end, also = (
                f"start{i}_{outer}",
                f"end{i}_{outer}",
                f"there{i} and " * bool(there),
            )
            conditions = [
                f" if {also}{start} <= {column} < {end} else zero{i}" for column in columns
            ]
            columns = [f"({column} - {start})" for column in columns]
        if i in turned:
            columns = [came_from(column, f"shift{i}_{outer}", "columns") for column in columns]
        if i in across:
            columns = [f"{column} * step{i}" for column in columns]
        if values[i].detail[1][-1] is None:  # one value for all columns that it has
            columns = ["0"] * width
        places = [
            f"(load{i}(a{i}[at_a{i} + {column}]){condition})"
            for column, condition in zip(columns, conditions, strict=True)
        ]
        return "; ".join([f"l{i}[{k}] = {place}" for k, place in enumerate(places)])

    def came_from(place: str, shift: str, size: str) -> str:
        """Where along a dimension that is rolled an element lay."""
        return f"({place} - {shift} + ({size} if {place} < {shift} else 0))"

    def access(
        targets: Sequence[int], at: str, use: Callable[[int], list[str]], hold: str | None
    ) -> list[str]:
        """Statements for one access of `width` elements at column `at`: reads, then per element the
        values and `use`. The values are those of one device function, which the compiler types and
        lowers once, not once for each element; the machine code is the same."""
        todo = write.needed(targets, known)
        elements = [i for i in todo if values[i].kind in LOADS and not values[i].row]
        lines = [read(i, at) for i in elements if i not in held]
        by = sorted({d for i in todo if (d := divisor(program, i)) is not None})
        made = [i for i in todo if values[i].kind not in LOADS and not values[i].row]
        rows = sorted(
            {j for i in [*made, *targets] for j in values[i].operands if values[j].row}
            | {i for i in targets if values[i].row}
        )
        rows = [j for j in rows if values[j].kind != "constant"]
        given = [f"v{i}" for i in (*elements, *rows)]
        given += [f"{part}{i}" for i in by for part in ("y", "inverse", "power")]
        inner = [element(i) for i in made]
        results = [name(i) for i in targets]
        function = f"element{len(functions)}"
        functions.append(function)
        source = f"def {function}({', '.join(given)}):\n" + "".join(
            f"    {line}\n" for line in [*inner, f"return ({', '.join(results)},)"]
        )
        space[function] = device_function(compiled(source, function, space))
        for k in range(width):
            of = {f"v{i}": f"h{i}[{hold} + {k}]" if i in held else f"l{i}[{k}]" for i in elements}
            arguments = ", ".join([of.get(one, one) for one in given])
            named = [f"t{i}_{k}" for i in targets]
            lines.append(f"{', '.join(named)}, = {function}({arguments})")
            for i, one in zip(targets, named, strict=True):
                lines += [line.format(value=one, k=k) for line in use(i)]
        return lines

    def element(i: int) -> str:
        """The statement of a value of an element."""
        by = divisor(program, i)
        if by is None:
            return write.statement(i, name)
        return f"{name(i)} = divide({name(values[i].operands[0])}, y{by}, inverse{by}, power{by})"

    body = [
        f"row = cuda.blockIdx.x * {shape.rows} + cuda.threadIdx.y",
        "inside = row < rows",
        "rest = types.uint32(row if inside else 0)",
        "lane = cuda.threadIdx.x",
    ]
    if segmented:
        body += [
            "next = rest // types.uint32(segments)",
            "first = types.int64(rest - next * types.uint32(segments)) * segment",
            "rest = next",
            "last = min(first + segment, columns)",
        ]
    else:
        body += ["first = 0", "last = columns"]
    for d in reversed(range(1, outer)):
        body += [
            f"next = rest // types.uint32(size{d})",
            f"i{d} = types.int64(rest - next * types.uint32(size{d}))",
            "rest = next",
        ]
    body += ["i0 = types.int64(rest)"] if outer else []
    for a in arrays:
        load = int(a[1:]) if a[0] == "a" else None
        places = [
            came_from(f"i{d}", f"shift{load}_{d}", f"size{d}")
            if (load, d) in moved
            else f"(i{d} - start{load}_{d})"
            if (load, d) in bounded
            else f"i{d}"
            for d in range(outer)
        ]
        at = " + ".join([f"{i} * {a}_{d}" for d, i in enumerate(places)]) or "0"
        if load in some:
            within = [
                f"start{load}_{d} <= i{d} and i{d} < end{load}_{d}"
                for d in range(outer)
                if (load, d) in bounded
            ]
            body.append(f"there{load} = {' and '.join(within)}")
            at = f"({at}) if there{load} else 0"
        body.append(f"at_{a} = {at}")
    element_loads = [i for i in loads if not values[i].row]
    body += [f"l{i} = cuda.local.array({width}, T{i})" for i in element_loads]
    for i in held:
        space[f"held{i}"] = width * vectors
        body.append(f"h{i} = cuda.local.array(held{i}, T{i})")
    if held:
        body += [
            f"for v in range({vectors}):",
            f"    i = (lane + v * {threads}) * {width}",
            "    if i < columns:",
        ]
        body += [f"        read{i}(a{i}, at_a{i} + i, h{i}, v * {width})" for i in held]

    def loop(targets: Sequence[int], use: Callable[[int], list[str]]) -> list[str]:
        by = {divisor(program, i) for i in write.needed(targets, known)} - {None}
        before = [f"y{i}, inverse{i}, power{i} = prepare({name(i)})" for i in sorted(by)]
        if held:
            return [
                *before,
                f"for v in range({vectors}):",
                f"    i = (lane + v * {threads}) * {width}",
                "    if i < columns:",
                *("        " + line for line in access(targets, "i", use, f"v * {width}")),
            ]
        return [
            *before,
            f"for i in range(first + lane * {width}, last, {threads * width}):",
            *("    " + line for line in access(targets, "i", use, None)),
        ]

    for level in levels(program):
        targets = [values[i].operands[0] for i in level]
        body += rows_of(targets)
        for i in level:
            T, along = codec(values[i].dtype)[2], ALONG_ROWS[values[i].kind]
            space[f"R{i}"] = T
            space[f"start{i}"] = T(along.start)
            space[f"together{i}"] = along.together(threads, T)
            space[f"more{i}"] = along.more
            body.append(f"s{i} = start{i}")
        of = {}
        for i in level:
            of.setdefault(values[i].operands[0], []).append(i)

        def gather(t: int, of: dict = of) -> list[str]:
            return [f"s{i} = more{i}(s{i}, R{i}({{value}}))" for i in of[t]]

        body += loop(list(of), gather)
        body += [f"v{i} = together{i}(s{i})" for i in level]
        row_known.update(level)
    body += rows_of(program.outputs)
    elements = [k for k, i in enumerate(program.outputs) if not values[i].row]
    final = ["if inside:"]
    for k, i in enumerate(program.outputs):
        space[f"store{k}"], space[f"S{k}"] = codec(values[i].dtype)[1:]
        space[f"write{k}"] = writer(values[i].dtype, width)
        if values[i].row:
            at = f"at_o{k}" + (" + first // segment" if segmented else "")
            final += ["    if lane == 0:", f"        o{k}[{at}] = store{k}(S{k}({name(i)}))"]
        else:
            body.append(f"r{k} = cuda.local.array({width}, S{k})")
    if elements:

        def collect(t: int) -> list[str]:
            return [f"r{k}[{{k}}] = S{k}({{value}})" for k in elements if program.outputs[k] == t]

        lines = loop(list(dict.fromkeys(program.outputs[k] for k in elements)), collect)
        indent = "        " if held else "    "
        lines += [f"{indent}write{k}(o{k}, at_o{k} + i, r{k}, 0)" for k in elements]
        final += ["    " + line for line in lines]
    body += final if len(final) > 1 else []
    source = f"def fused_rows({', '.join(parameters)}):\n" + "".join(
        f"    {line}\n" for line in body
    )
    decorated = rounding if rounds else cuda.jit
    return decorated(compiled(source, "fused_rows", space))


# -------------------- planner


def few_and_long(shape: Sequence[int]) -> bool:
    """Whether one block a row would leave most of the device idle for long."""
    return prod(shape[:-1]) < MOST_LONG and shape[-1] > LONG


def is_elementwise(program: Program) -> bool:
    """Whether each result has a value per element, and none needs another element's."""
    return not program.reductions and not any(program.values[i].row for i in program.outputs)


def reduced_segment(program: Program, rows: int, columns: int) -> int:
    """How many columns a group of threads reduces: all, unless the results are reductions of few
    long rows."""
    alone = all(i in program.reductions for i in program.outputs)
    cut = alone and len(levels(program)) == 1 and rows < FEW
    return max(min(SEGMENT, columns) if cut else columns, 1)


def segments_of(program: Program, shape: Sequence[int]) -> int:
    """How many values of each row its reductions leave: one for each segment."""
    return max(blocks(shape[-1], reduced_segment(program, prod(shape[:-1]), shape[-1])), 1)


def elementwise_segment(rows: int, columns: int, width: int) -> int:
    """How many columns a group of threads takes where none needs another's: `UNROLL` accesses of
    each thread, or fewer where these would not fill the device."""
    once = ELEMENTWISE_THREADS * width
    accesses = UNROLL
    while accesses > 1 and rows * blocks(columns, once * accesses) < FEW:
        accesses //= 2
    return max(min(once * accesses, columns), 1)


def fused(
    *layouts: Layout,
    program: Program,
    shape: tuple[int, ...],
    targets: tuple[int, ...] = (),
    rounds: bool = False,
) -> Plan:
    """Planner: arguments -> the results of a program on a domain of this shape: (shape) for one
    value per element, (*shape[:-1], segments) for one per row.

    targets: the results that are written into arrays of the caller, of that shape and with columns
    (segments) that are neighbours: the last arguments, one for each.

    rounds: whether products and sums are rounded one by one, and not where a compiler puts them
    together, which depends on what else a kernel computes."""
    values = program.values
    given = dict(zip(targets, range(len(layouts) - len(targets), len(layouts)), strict=True))
    loads = [i for i, v in enumerate(values) if v.kind in LOADS]
    rolled = {i: values[i].detail[2] for i in loads if values[i].kind == "rolled"}
    parts = {i: values[i].detail[2] for i in loads if values[i].kind == "placed"}
    if is_elementwise(program) and len(program.outputs) == 1 and not rolled and not parts:
        return _elementwise(layouts, program, shape, given.get(0), rounds)
    steps: list[Launch] = []
    temps: list[Layout] = []
    seen: dict[tuple[int, int], tuple[Any, Layout]] = {}
    strides, arguments = [], []
    arrays: list[Layout] = []  # the loads' and the results'
    across: dict[int, int] = {}  # loads whose columns are no neighbours: the step between these
    for i in loads:
        argument, alignment = values[i].detail[:2]
        x = layouts[argument]
        along = alignment[-1]
        # columns must be neighbours, and an index below 0 would count from the end of the memory
        scattered = along is not None and x.strides[along] != x.itemsize
        backwards = any([s < 0 for s in x.strides])
        if scattered and not backwards and x.size * LITTLE <= prod(shape):  # it stays in the cache
            across[i] = x.strides[along] // x.itemsize
            scattered = False
        if scattered or backwards:
            if (argument, along) not in seen:
                temps.append(_innermost(x, x.ndim - 1 if along is None else along))
                steps += copy_part(
                    whole(Input(argument), x), whole(Temp(len(temps) - 1), temps[-1])
                )
                seen[argument, along] = Temp(len(temps) - 1), temps[-1]
            reference, x = seen[argument, along]
        else:
            reference = Input(argument)
        strides.append(tuple([0 if d is None else x.strides[d] for d in alignment]))
        arguments.append(reference.view((_elements(x),)))
        arrays.append(x)
    makers = [*loads, *program.outputs]
    # those whose elements along the columns are neighbours, read and written several at a time
    turned = [i for i, shifts in rolled.items() if shifts[-1]]
    turned += [i for i, bounds in parts.items() if bounds[-1]]
    at = [
        k
        for k, i in enumerate(makers)
        if not values[i].row and (k >= len(loads) or i not in across and i not in turned)
    ]
    outputs: list[Layout] = []
    segment = reduced_segment(program, prod(shape[:-1]), shape[-1])
    segments = segments_of(program, shape)
    for k, i in enumerate(program.outputs):
        if k in given:
            out, reference = layouts[given[k]], Input(given[k])
        else:
            out = layouts[0].like(
                (*shape[:-1], segments) if values[i].row else shape, values[i].dtype
            )
            reference = Output(len(outputs))
            outputs.append(out)
        arrays.append(out)
        strides.append((*out.strides[:-1], 0) if values[i].row else out.strides)
        arguments.append(reference.view((_elements(out),)))
    places = [*rolled.values(), *parts.values()]
    moving = tuple([any([place[d] for place in places]) for d in range(len(shape))])
    outer, columns, steps_of, kept = _walk(
        program, shape, strides, arrays, at, bool(across), moving
    )
    moved = {
        (i, d): shifts[n - 1]
        for i, shifts in rolled.items()
        for d, n in enumerate(kept)
        if n and shifts[n - 1]
    }
    bounded = {
        (i, d): (found[0], sum(found))
        for i, bounds in parts.items()
        for d, n in enumerate(kept)
        if n and (found := bounds[n - 1])
    }
    rows = prod(outer)
    width = min(vector_width(columns, *[arrays[k] for k in at]), WRITTEN) if at else 1
    if any(s % min(16, width * arrays[k].itemsize) for k in at for s in steps_of[k]):
        width = 1
    if is_elementwise(program):
        if any(v.kind == "apply" and "special_" in v.detail[0] for v in values):
            width = 1  # too long for a copy for each of a thread's elements
        segment = elementwise_segment(rows, columns, width)
        segments = max(blocks(columns, segment), 1)
    held = held_loads(program, (*across, *turned, *{i for i, _ in bounded}))
    budget = (
        HELD
        * 4
        // max([wide(values[i].dtype).itemsize for i in held], default=4)
        // max(power_of_two(len(held)), 1)
    )
    spread_over = spread(columns, width, max(budget, width)) if held else None
    if spread_over and columns > WIDE and all(values[i].dtype.itemsize >= 4 for i in held):
        spread_over = (
            spread(columns, width, max(budget * HELD_WIDE // HELD, width), MOST_THREADS)
            or spread_over
        )
    if SIMULATOR:
        made = Shape(1, 1, 1, 0, len(outer), segments > 1)
    elif spread_over:
        made = Shape(
            spread_over.threads,
            spread_over.rows,
            width,
            spread_over.vectors,
            len(outer),
            False,
        )
    else:
        threads = (
            ELEMENTWISE_THREADS
            if segments > 1 and is_elementwise(program)
            else min(power_of_two(blocks(min(columns, SEGMENT), width * UNROLL)), MOST_THREADS)
        )
        made = Shape(
            threads,
            max(128 // threads, 1) if threads <= 32 else 1,
            width,
            0,
            len(outer),
            segments > 1,
        )
    made = made._replace(across=tuple(across), moved=tuple(moved), bounded=tuple(bounded))
    itemsizes = [values[i].dtype.itemsize for i in loads] + [
        x.itemsize for x in arrays[len(loads) :]
    ]
    element_strides = [
        s // size for step, size in zip(steps_of, itemsizes, strict=True) for s in step
    ]
    total = rows * segments
    if total >= 1 << 31:
        raise AssertionError(f"fused: {total} rows are too many for 32-bit numbers")
    steps.append(
        Launch(
            fused_rows(program, made, rounds),
            blocks(total, made.rows),
            (made.threads, made.rows),
            [
                *arguments,
                *element_strides,
                *outer,
                total,
                columns,
                segment,
                segments,
                *across.values(),
                *moved.values(),
                *[n for ends in bounded.values() for n in ends],
            ],
        )
    )
    return Plan(outputs, steps, temps)


def _walk(
    program: Program,
    shape: tuple[int, ...],
    strides: Sequence[tuple[int, ...]],
    arrays: Sequence[Layout],
    elements: Sequence[int],
    across: bool,
    moving: tuple[bool, ...],
) -> tuple[tuple[int, ...], int, list[tuple[int, ...]], tuple[int, ...]]:
    """The sizes of the dimensions in front of the columns, how many columns there are, the strides
    of each array in the former, and for each of these and the columns the number of the dimension
    along which something is rolled, from 1 on; 0 where nothing is. elements: arrays with a value
    per element, which are neighbours along the columns; across: whether those of others are not;
    moving: whether something is rolled along a dimension, which stays what it is.

    Where nothing is reduced, a row may go on in the next one: the columns are as many as lie one
    behind the other in all arrays."""
    numbers = tuple([(d + 1) * moves for d, moves in enumerate(moving)])  # no two merge, as strides
    if is_elementwise(program) and not across:
        *merging, kept = shapes.collapse(shape, *strides, numbers)
        merged, *whole_strides = merging
        unit = [x.itemsize if k in elements else 0 for k, x in enumerate(arrays)]
        if (
            merged
            and merged[-1] > shape[-1]
            and all([s[-1] == u for s, u in zip(whole_strides, unit, strict=True)])
        ):
            return merged[:-1], merged[-1], [s[:-1] for s in whole_strides], kept
    outer, *steps_of, kept = shapes.collapse(shape[:-1], *[s[:-1] for s in strides], numbers[:-1])
    return outer, shape[-1], steps_of, (*kept, numbers[-1])


def _elements(x: Layout) -> int:
    """How many elements there are from the first to the last in memory, gaps included."""
    return max(shapes.byte_bounds(x.shape, x.strides, x.itemsize)[1] // x.itemsize, 1)


def _innermost(x: Layout, axis: int) -> Layout:
    """A layout of x's shape, without gaps, in which neighbours along this axis are neighbours in
    memory."""
    order = [*(d for d in range(x.ndim) if d != axis), axis]
    steps = dict(zip(order, x.like([x.shape[d] for d in order]).strides, strict=True))
    return x.like().view(x.shape, tuple([steps[d] for d in range(x.ndim)]))


def _elementwise(
    layouts: Sequence[Layout],
    program: Program,
    shape: tuple[int, ...],
    target: int | None,
    rounds: bool,
) -> Plan:
    """One result, no reduction: the kernels of elementwise/dispatch.py with a composed function.
    target: the argument into which it is written, if any."""
    function, loads = composed(program, rounds)
    operands, arguments = [], []
    for i in loads:
        argument, alignment = program.values[i].detail
        x = layouts[argument]
        kept = tuple([0 if d is None else x.strides[d] for d in alignment])
        sizes = tuple([1 if d is None else x.shape[d] for d in alignment])
        operands.append(x.view(sizes, kept))
        arguments.append(Input(argument))
    if target is not None:
        into = layouts[target]
        return Plan([], [launch(function, operands, into, Input(target), arguments=arguments)])
    full = [x for x in operands if x.shape == shape]
    dtype = program.values[program.outputs[0]].dtype
    out = result_layout(full, shape, dtype) if full else layouts[0].like(shape, dtype)
    return Plan([out], [launch(function, operands, out, Output(0), arguments=arguments)])
