"""Layer norm, RMS norm and group norm: rows standardised by their own mean and variance, and (in
backward.py) the gradients.

    y = (x - mean) * rstd * weight + bias,    rstd = 1 / sqrt(variance + eps)           (RMS norm:
                                              mean = 0, no bias)

    dx      = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)),   gw = g * weight,  xhat = (x - mean)
            * rstd
    dweight = sum over rows of g * xhat,    dbias = sum over rows of g                  (RMS norm:
                                            no mean(gw), no dbias)

With a residual r, what is standardised is h = x + r, which is written beside y; backward the
gradient that h has got from elsewhere is added to dx. Weight and bias may be missing. In group norm
a row is a group of a sample's channels, and weight and bias belong to channels, runs of the row,
instead of columns; its gradient is in group_norm_backward.py.

The floor is memory: read x, write y (2 x size bytes; with a residual 4 x); the gradient reads g and
x and writes dx (3 x). The variance is the mean square of x - mean, with the row still in registers,
never E[x^2] - E[x]^2.

Versions, from simple to fast.

1. `plain`  one thread per row; for the sums over rows, one thread per column. Any GPU, and the
   simulator.
2. `rows`   a row in the registers of a group of threads (see lib/vector_io.py): x is read once. Of
            short rows a thread has one access,
            for which memory leaves it some 200 instructions: so nothing is tested twice, and the
            root is the hardware's. (To read four rows before working on any takes 2.5 percent
            longer: fewer blocks are then on a multiprocessor.) The gradient's groups take rows g, g
            + groups, g + 2 groups, ... in turn, and fetch the next row before they work on this
            one, so that memory never waits for arithmetic. A thread meets the same columns in every
            row, so it adds up dweight and dbias in registers on the way; the groups of a block add
            theirs in shared memory, and a second kernel the blocks'. Nothing is atomic: the order
            of every sum is fixed by the shapes.
3. `shared` (forward_cluster.py)  forward: groups, whose channels it finds in fewer instructions,
                                  and
   rows too long for a block's
            registers, in those of a cluster of blocks (9.0 on). Read once.
4. `ring` (backward_tma.py)  gradients of rows of 16-bit numbers that take a warp or more: as
   `rows`, but the rows to come
            wait in shared memory, loaded by TMA (9.0 and 10.0).
5. `cluster` (backward_cluster.py)  gradients of rows too long for a block, in the shared memory of
   a cluster of blocks (9.0
            and 10.0): read once, too.
6. `long_rows`  rows too long for registers: one block per row, which reads it again for each step
   (from the L2 cache),
            and the sums over rows in a kernel of their own, by blocks of columns.

weight and bias have x's dtype or float32. What is missing among the inputs is None for the
planners, and for the kernels any array in their place, which kernels made without it (see Parts) do
not touch. mean and rstd are for the gradient: where none is recorded they are arrays without
elements, and not written. Of rows of 64 float32 they are 1.6 percent of all bytes.

Measured (row versions_norm):
layer norm of 87,040 x 768, bfloat16; NVIDIA H200, commit 52457ee46004, 2026-11-23

                    GB/s     of a copy
    plain            142          0.03
    long_rows        359          0.08
    rows           3,817          0.90

(end of what was measured)
"""

import functools
import math

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import bounded, device
from ..compiler.lazy_numba import cuda, types
from ..elementwise.generator import launch, scalar_function
from ..lib.block_reduce import group_sum, group_total, inverse_root
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.row_layout import Rows, fitting, spread
from ..lib.vector_io import reader, writer
from ..lib.widths import vector_width, wide
from .row_parts import FEW, HELD, LONG, LONG_GROUP, MOST, NEIGHBOURS, Channels, Parts

i32 = types.int32


@functools.cache
def places(channels: bool):
    """Device function (row, column, groups, share, run): the place of the weight. Group norm: row %
    groups is the number of the group, which has `share` channels of `run` columns."""

    @device
    def by_channel(row, column, groups, share, run):
        return types.int64(types.uint32(row) % types.uint32(groups)) * share + types.int64(
            types.uint32(column) // types.uint32(run)
        )

    @device
    def by_column(row, column, groups, share, run):
        return column

    return by_channel if channels else by_column


@functools.cache
def parameter(param, width, channels):
    """Device function (a, row, column, v, groups, share, run): v[0], ... = the weights (or biases)
    of `width` columns."""
    read, one, place = reader(param, width), codec(param)[0], places(channels)

    @device
    def by_columns(a, row, column, v, groups, share, run):
        read(a, column, v, 0)

    @device
    def by_channel(a, row, column, v, groups, share, run):
        value = one(a[place(row, column, groups, share, run)])
        for j in range(width):
            v[j] = value

    return by_channel if channels else by_columns


@functools.cache
def plain(dtype, param, parts):
    """One thread per row; x, r, y, h: (rows, columns); weight, bias: (columns,) or (channels,);
    mean, rstd: (rows,) or (0,)."""
    load, store, T = codec(dtype)
    load_param, _, _ = codec(param)
    place = places(parts.channels)
    center, weighted, biased, residual, _ = parts

    @cuda.jit
    def norm_plain(x, weight, bias, r, y, h, mean, rstd, groups, share, run, eps):
        row = cuda.grid(1)
        if row < x.shape[0]:
            columns = x.shape[1]
            if residual:
                for c in range(columns):
                    h[row, c] = store(load(x[row, c]) + load(r[row, c]))
            total = T(0)
            if center:
                for c in range(columns):
                    total += load(h[row, c])
            middle = total / T(columns)
            total = T(0)
            for c in range(columns):
                d = load(h[row, c]) - middle
                total += d * d
            scale = T(1) / math.sqrt(total / T(columns) + eps)
            for c in range(columns):
                v = (load(h[row, c]) - middle) * scale
                if weighted:
                    v *= load_param(weight[place(row, c, groups, share, run)])
                if biased:
                    v += load_param(bias[place(row, c, groups, share, run)])
                y[row, c] = store(v)
            if rstd.size:
                if center:
                    mean[row] = middle
                rstd[row] = scale

    return norm_plain


@functools.cache
def rows(dtype, param, shape, parts, full):
    """A row in the registers of a group of threads (see Rows); x, r, y, h: (rows * columns,); block
    (threads, rows per block).

    Groups for which no row is left do the last one once more and write the same, so that no access
    waits for a test of rows; full: nor for one of columns, as all threads have equally many.
    weight, bias: (columns,) or (channels,); mean, rstd: (rows,) or (0,); part: 1 / columns, as
    every warp pays for a division.
    """
    load, store, T = codec(dtype)
    threads, together, width, vectors = shape
    read, write = reader(dtype, width), writer(dtype, width)
    read_param = parameter(param, width, parts.channels)
    total_of, root = group_total(threads, T), inverse_root(T)
    held = vectors * width
    center, weighted, biased, residual, _ = parts

    @bounded(max(threads, 128))
    def norm_rows(
        x, weight, bias, r, y, h, mean, rstd, rows, columns, groups, share, run, eps, part
    ):
        tx = i32(cuda.threadIdx.x)
        row = min(cuda.blockIdx.x * together + cuda.threadIdx.y, rows - 1)
        start = row * columns
        length = i32(columns)
        v = cuda.local.array(held, T)
        w = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        if not full:
            for e in range(held):
                v[e] = T(0)
        for k in range(vectors):
            column = i32((k * threads + tx) * width)
            if full or column < length:
                read(x, start + column, v, k * width)
        if residual:
            for k in range(vectors):
                column = i32((k * threads + tx) * width)
                if full or column < length:
                    read(r, start + column, w, 0)
                    for j in range(width):  # rounded as it is stored: the gradient will read that
                        v[k * width + j] = load(store(v[k * width + j] + w[j]))
                    write(h, start + column, v, k * width)
        middle = T(0)
        if center:
            for e in range(held):
                middle += v[e]
            middle = total_of(middle, 0) * part
        total = T(0)
        for k in range(vectors):
            if full or i32((k * threads + tx) * width) < length:
                for e in range(k * width, (k + 1) * width):
                    v[e] -= middle
                    total += v[e] * v[e]
        scale = root(total_of(total, 1) * part + eps)
        if tx == 0 and rstd.size:
            if center:
                mean[row] = middle
            rstd[row] = scale
        for k in range(vectors):
            column = i32((k * threads + tx) * width)
            if full or column < length:
                if weighted:
                    read_param(weight, row, column, w, groups, share, run)
                if biased:
                    read_param(bias, row, column, b, groups, share, run)
                for j in range(width):
                    e = k * width + j
                    v[e] *= scale
                    if weighted:
                        v[e] *= w[j]
                    if biased:
                        v[e] += b[j]
                write(y, start + column, v, k * width)

    return norm_rows


@functools.cache
def long_rows(dtype, param, width, parts):
    """One block of LONG threads per row of any length; x, y: (rows * columns,); grid: rows. (A
    residual is added before.)

    weight, bias: (columns,) or (channels,); mean, rstd: (rows,) or (0,).
    """
    _, _, T = codec(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    read_param = parameter(param, width, parts.channels)
    total_of, root = group_sum(LONG, T), inverse_root(T)
    center, weighted, biased, _, _ = parts

    @bounded(LONG)
    def norm_long_rows(x, weight, bias, y, mean, rstd, columns, groups, share, run, eps):
        row = cuda.blockIdx.x
        start = row * columns
        first = cuda.threadIdx.x * width
        v = cuda.local.array(width, T)
        w = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        middle = T(0)
        if center:
            for column in range(first, columns, LONG * width):
                read(x, start + column, v, 0)
                for j in range(width):
                    middle += v[j]
            middle = total_of(middle) / T(columns)
        total = T(0)
        for column in range(first, columns, LONG * width):
            read(x, start + column, v, 0)
            for j in range(width):
                total += (v[j] - middle) * (v[j] - middle)
        scale = root(total_of(total) / T(columns) + eps)
        for column in range(first, columns, LONG * width):
            read(x, start + column, v, 0)
            if weighted:
                read_param(weight, row, column, w, groups, share, run)
            if biased:
                read_param(bias, row, column, b, groups, share, run)
            for j in range(width):
                v[j] = (v[j] - middle) * scale
                if weighted:
                    v[j] *= w[j]
                if biased:
                    v[j] += b[j]
            write(y, start + column, v, 0)
        if first == 0 and rstd.size:
            if center:
                mean[row] = middle
            rstd[row] = scale

    return norm_long_rows


# Planners. x: rows of `columns` elements, no gaps; weight, bias: `columns` elements or None;
# residual: like x or None.


def numbered(*inputs: Layout | None) -> list[ArrayArg | None]:
    """The arguments for a plan's inputs, of which those that are None are missing."""
    numbers = iter(range(len(inputs)))
    return [None if x is None else Input(next(numbers)) for x in inputs]


def fitting_rows(
    columns: int, width: int, held: int, limit: int = LONG, together: int = 1
) -> Rows | None:
    """`row_layout.spread` with no more accesses per thread than the row has."""
    shape = spread(columns, width, held, limit, together)
    return shape and shape._replace(
        vectors=min(shape.vectors, blocks(blocks(columns, width), shape.threads))
    )


def sum_into(place: ArrayArg, target: Layout, *terms: tuple[ArrayArg, Layout]) -> Launch:
    """target = the sum of two arrays, of one dtype and without gaps."""
    (_, x), (_, y) = terms
    function = scalar_function("x + y", (x.dtype, y.dtype), wide(x.dtype), target.dtype)
    return launch(function, (x, y), target, place, arguments=[argument for argument, _ in terms])


def forward(
    version: str,
    x: Layout,
    weight: Layout | None,
    bias: Layout | None,
    residual: Layout | None,
    columns: int,
    eps: float,
    *,
    center: bool = True,
    channels: Channels | None = None,
    kept: bool = True,
) -> Plan:
    """The plan of one version by name, "plain", "rows", "shared" or "long_rows". kept: with mean
    and rstd."""
    rows_ = x.size // columns
    T = wide(x.dtype)
    per_row = x.like((rows_,), T)
    outputs = [
        x.like(),
        *[per_row] * (1 + center if kept else 0),
        *[x.like()] * (residual is not None),
    ]
    if x.size == 0:
        return Plan(outputs, [])
    parts = Parts(
        center, weight is not None, bias is not None, residual is not None, channels is not None
    )
    given = next((p for p in (weight, bias) if p is not None), x)
    first, *others = numbered(x, weight, bias, residual)
    w, b, r = (first.view((x.size,)) if each is None else each.flat for each in others)
    h = first if residual is None else Output(len(outputs) - 1)
    mean, rstd = (Output(1), Output(1 + center)) if kept else [Output(0).view((0,), dtype=T)] * 2
    numbers = [*(channels or (1, 1, 1)), T.type(eps)]
    if version == "plain":
        seen = [
            a.view((rows_, columns))
            for a in (first, first if residual is None else others[2], Output(0), h)
        ]
        return Plan(
            outputs,
            [
                Launch(
                    plain(x.dtype, given.dtype, parts),
                    blocks(rows_, 128),
                    128,
                    [seen[0], w, b, *seen[1:], mean, rstd, *numbers],
                )
            ],
        )
    flat = [first.flat, r, Output(0).flat, h.flat]
    width = width_of(columns, channels, x, weight, bias, residual)
    added = [] if residual is None else [sum_into(h, x, (first, x), (others[2], residual))]
    if version == "shared":
        from . import forward_cluster

        return Plan(
            outputs,
            [
                *added,
                forward_cluster.launch(
                    x,
                    given.dtype,
                    width,
                    columns,
                    parts,
                    channels,
                    [h, w, b, flat[2], mean, rstd],
                    T.type(eps),
                ),
            ],
        )
    if version == "long_rows":
        kernel = long_rows(x.dtype, given.dtype, width, parts._replace(residual=False))
        return Plan(
            outputs,
            [
                *added,
                Launch(
                    kernel, rows_, LONG, [flat[3], w, b, flat[2], mean, rstd, columns, *numbers]
                ),
            ],
        )
    shape = spread_rows(columns, width, x.dtype)
    if shape is None:
        raise ValueError(
            f"norm: version 'rows' cannot hold a row of {columns} elements of {x.dtype} in "
            "registers"
        )
    kernel = rows(
        x.dtype, given.dtype, shape, parts, columns == shape.threads * shape.vectors * shape.width
    )
    return Plan(
        outputs,
        [
            Launch(
                kernel,
                shape.grid(rows_),
                shape.block,
                [
                    flat[0],
                    w,
                    b,
                    *flat[1:],
                    mean,
                    rstd,
                    rows_,
                    columns,
                    *numbers,
                    T.type(1 / columns),
                ],
            )
        ],
    )


def spread_rows(columns: int, width: int, dtype: np.dtype) -> Rows | None:
    """How a row is spread over threads; None where it is too long."""
    few = (
        fitting_rows(columns, width, fitting(FEW, dtype), MOST, NEIGHBOURS)
        if dtype.itemsize > 2
        else None
    )
    return few or fitting_rows(columns, width, fitting(HELD, dtype), together=NEIGHBOURS)


def width_of(columns: int, channels: Channels | None, *arrays: Layout | None) -> int:
    """Elements of an access to rows: in group norm all of one channel."""
    width = vector_width(columns, *[a for a in arrays if a is not None])
    return width if channels is None or channels.run % width == 0 else 1


def best(columns: int, width: int, x: Layout, channels: Channels | None = None) -> str:
    """The fastest version."""
    alone = spread(columns, width, fitting(HELD, x.dtype))
    if width > 1 and (alone is None or (channels and columns >= LONG_GROUP)):
        from . import forward_cluster

        if forward_cluster.fits(columns, width, x, channels):
            return "shared"
    return "rows" if alone else "long_rows"


def layer_norm(
    x: Layout,
    weight: Layout | None,
    bias: Layout | None,
    residual: Layout | None,
    *,
    columns: int,
    eps: float,
    kept: bool = True,
) -> Plan:
    """x: (..., columns); weight, bias: columns -> y like x, if kept mean and rstd (rows,), with a
    residual x + it."""
    version = best(columns, width_of(columns, None, x, weight, bias, residual), x)
    return forward(version, x, weight, bias, residual, columns, eps, kept=kept)


def rms_norm(
    x: Layout,
    weight: Layout | None,
    residual: Layout | None,
    *,
    columns: int,
    eps: float,
    kept: bool = True,
) -> Plan:
    """x: (..., columns); weight: columns -> y like x, if kept rstd (rows,), with a residual x +
    it."""
    version = best(columns, width_of(columns, None, x, weight, residual), x)
    return forward(version, x, weight, None, residual, columns, eps, center=False, kept=kept)


def group_norm(
    x: Layout,
    weight: Layout | None,
    bias: Layout | None,
    *,
    groups: int,
    eps: float,
    version: str | None = None,
    kept: bool = True,
) -> Plan:
    """x: (N, C, ...), C order; weight, bias: (C,) -> y like x, if kept mean and rstd (N *
    groups,)."""
    share, run = x.shape[1] // groups, math.prod(x.shape[2:])
    channels, columns = Channels(groups, share, run), share * run
    version = version or best(columns, width_of(columns, channels, x, weight, bias), x, channels)
    return forward(version, x, weight, bias, None, columns, eps, channels=channels, kept=kept)


# Where a function keeps the result of a call like one before alone, it asks for a plan without the
# statistics (Op.bound).
for planner in (layer_norm, rms_norm, group_norm):
    planner.alone = functools.partial(planner, kept=False)  # type: ignore[attr-defined]
