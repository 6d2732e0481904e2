"""Layer norm, RMS norm and group norm: each row is normalised by its own mean and variance.

    y = (x - mean) * rstd * weight + bias,    rstd = 1 / sqrt(variance + eps)

RMS norm has mean = 0 and no bias. The gradients (backward.py), with gw = g * weight and xhat =
(x - mean) * rstd:

    dx      = rstd * (gw - mean(gw) - xhat * mean(gw * xhat))     RMS norm: without mean(gw)
    dweight = sum over rows of g * xhat
    dbias   = sum over rows of g                                  RMS norm: none

With a residual r the kernel normalises h = x + r, and writes h beside y. In the gradient, what h
has received from elsewhere is added to dx. Weight and bias may be missing. In group norm a row is a
group of a sample's channels. Weight and bias then belong to channels, which are runs of the row,
and not to columns. Its gradient is in group_norm_backward.py.

Memory sets the floor. Forward reads x and writes y (2 x size bytes; with a residual 4 x). The
gradient reads g and x and writes dx (3 x). The variance is the mean square of x - mean, computed
while the row is in registers, never E[x^2] - E[x]^2.

Versions, from simple to fast (dispatch.py chooses):

1. `plain`      One thread per row; for the sums over rows, one thread per column. Any GPU, and the
                simulator.
2. `rows`       A row in the registers of a group of threads (see lib/vector_io.py): x is read once.
                In a short row a thread has one access, for which memory leaves it some 200
                instructions. So no condition is tested twice, and the square root is the
                hardware's. (Reading four rows before working on any takes 2.5 percent longer: fewer
                blocks then fit on a multiprocessor.)
                In the gradient, groups of threads take rows g, g + groups, g + 2 groups, ... in
                turn. They fetch the next row before they work on the current one, so memory stays
                busy. A thread has the same columns in every row, so it sums dweight and dbias in
                registers. The groups of a block add theirs in shared memory, and a second kernel
                adds the blocks'. There are no atomics: shapes fix the order of every sum.
3. `cluster`    (forward_cluster.py) Groups, whose channels it finds in fewer instructions, and rows
                too long for a block's registers, in the registers of a cluster of blocks (SM 9.0
                and later). Read once.
4. `tma`        (backward_tma.py) Gradients of rows of 16-bit numbers that take a warp or more. As
                `rows`, but TMA loads the next rows into shared memory (SM 9.0 and 10.0).
5. `cluster`    (backward_cluster.py) Gradients of rows too long for a block, in the shared memory
                of a cluster of blocks (SM 9.0 and 10.0), wherever they begin. Read once.
6. `shifted`    (forward_shifted.py, backward_shifted.py) As `rows`, where rows begin between the
                borders of accesses: whole ones all the same, in which neighbours' numbers do not
                count. Read once.
7. `long_rows`  Rows too long for registers. One block per row reads it again for each step, from
                the L2 cache, by whole accesses also where rows begin between their borders: a
                thread has one access under way, and a number at a time took the time of as many
                latencies. The sums over rows have a kernel of their own, by blocks of columns.

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

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.block_reduce import group_sum, group_total, inverse_root
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import reader, remaining, row_reader, row_writer, shifted_reader, writer
from ..lib.widths import wide
from .problem import Forward, numbered
from .row_parts import LONG

i32 = types.int32


@functools.cache
def places(channels: bool):
    """Device function (row, column, groups, share, run): the place of the weight. Group norm: row %
    groups is the number of the group, which has `share` channels of `run` columns."""

    @device_function
    def by_channel(row, column, groups, share, run):
        return types.int64(types.uint32(row) % types.uint32(groups)) * share + types.int64(
            types.uint32(column) // types.uint32(run)
        )

    @device_function
    def by_column(row, column, groups, share, run):
        return column

    return by_channel if channels else by_column


@functools.cache
def parameter(param, width, channels):
    """Device function (a, row, column, v, groups, share, run): v[0], ... = the weights (or biases)
    of `width` columns."""
    read, one, place = reader(param, width), codec(param)[0], places(channels)

    @device_function
    def by_columns(a, row, column, v, groups, share, run):
        read(a, column, v, 0)

    @device_function
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
    elements = vectors * width
    center, weighted, biased, residual, _ = parts

    @bounded(max(threads, 128))
    def norm_rows(
        x, weight, bias, r, y, h, mean, rstd, rows, columns, groups, share, run, eps, part
    ):
        tx = i32(cuda.threadIdx.x)
        row = min(cuda.blockIdx.x * together + cuda.threadIdx.y, rows - 1)
        start = row * columns
        length = i32(columns)
        v = cuda.local.array(elements, T)
        w = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        if not full:
            for e in range(elements):
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
            for e in range(elements):
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
def long_rows(dtype, param, width, parts, edges):
    """One block of LONG threads per row of any length; x, y: (rows * columns,); grid: rows. (A
    residual is added before.)

    weight, bias: (columns,) or (channels,); mean, rstd: (rows,) or (0,). edges: rows begin between
    the borders of accesses (not with channels).
    """
    _, _, T = codec(dtype)
    fetch, take, size, kind = row_reader(dtype, width, 1, edges, True)
    write, step = row_writer(dtype, width, edges), LONG * width
    read_param = parameter(param, width, parts.channels)
    read_between, room = shifted_reader(param, width), 2 * width
    total_of, root = group_sum(LONG, T), inverse_root(T)
    center, weighted, biased, _, _ = parts

    @bounded((LONG, 1) if edges else LONG)  # the ends take more than 32 registers
    def norm_long_rows(x, weight, bias, y, mean, rstd, columns, groups, share, run, eps):
        row = cuda.blockIdx.x
        start = row * columns
        first = cuda.threadIdx.x * width
        if edges:
            first -= start % width
        r = cuda.local.array(size, kind)
        v = cuda.local.array(width, T)
        w = cuda.local.array(room, T)
        b = cuda.local.array(room, T)
        middle = T(0)
        if center:
            for column in range(first, columns, step):
                rest = remaining(columns, column)
                fetch(x, start + column, rest, step, r, T(0))
                take(r, column, rest, step, v, T(0))
                for j in range(width):
                    middle += v[j]
            middle = total_of(middle) / T(columns)
        total = T(0)
        for column in range(first, columns, step):
            rest = remaining(columns, column)
            fetch(x, start + column, rest, step, r, middle)
            take(r, column, rest, step, v, middle)
            for j in range(width):
                total += (v[j] - middle) * (v[j] - middle)
        scale = root(total_of(total) / T(columns) + eps)
        for column in range(first, columns, step):
            rest = remaining(columns, column)
            fetch(x, start + column, rest, step, r, middle)
            take(r, column, rest, step, v, middle)
            if weighted:
                if edges:
                    read_between(weight, column, rest, w)
                else:
                    read_param(weight, row, column, w, groups, share, run)
            if biased:
                if edges:
                    read_between(bias, column, rest, b)
                else:
                    read_param(bias, row, column, b, groups, share, run)
            for j in range(width):
                v[j] = (v[j] - middle) * scale
                if weighted:
                    v[j] *= w[j]
                if biased:
                    v[j] += b[j]
            write(y, start + column, v, 0, column, rest)
        if cuda.threadIdx.x == 0 and rstd.size:
            if center:
                mean[row] = middle
            rstd[row] = scale

    return norm_long_rows


# Planners.


def plan_plain(p: Forward) -> Plan:
    """The plan of one thread per row."""
    _, w, b, _ = p.inputs
    x, r, y, h = (
        a.view((p.rows, p.columns))
        for a in (
            Input(0),
            numbered(p.x, p.weight, p.bias, p.residual)[3] or Input(0),
            Output(0),
            p.sum,
        )
    )
    kernel = plain(p.x.dtype, p.param, p.parts)
    arguments = [x, w, b, r, y, h, *p.mean_rstd, *p.numbers]
    return Plan(p.outputs, [Launch(kernel, blocks(p.rows, 128), 128, arguments)])


def plan_rows(p: Forward) -> Plan:
    """The plan of rows in the registers of a group of threads."""
    first, w, b, r = p.inputs
    shape = p.shape
    assert shape
    full = p.columns == shape.threads * shape.vectors * shape.width
    kernel = rows(p.x.dtype, p.param, shape, p.parts, full)
    arrays = [first.flat, w, b, r, Output(0).flat, p.sum.flat, *p.mean_rstd]
    numbers = [p.rows, p.columns, *p.numbers, wide(p.x.dtype).type(1 / p.columns)]
    return Plan(p.outputs, [Launch(kernel, shape.grid(p.rows), shape.block, [*arrays, *numbers])])


def plan_long_rows(p: Forward) -> Plan:
    """The plan of a block per row. A residual is added before."""
    _, w, b, _ = p.inputs
    width, edges = p.long_access
    kernel = long_rows(p.x.dtype, p.param, width, p.parts._replace(residual=False), edges)
    arguments = [p.sum.flat, w, b, Output(0).flat, *p.mean_rstd, p.columns, *p.numbers]
    return Plan(p.outputs, [*p.addition, Launch(kernel, p.rows, LONG, arguments)])
