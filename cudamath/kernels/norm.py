"""Layer norm and RMS norm: rows standardised by their own mean and variance, and the gradients.

    y = (x - mean) * rstd * weight + bias,    rstd = 1 / sqrt(variance + eps)           (RMS norm: mean = 0, no bias)

    dx      = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)),   gw = g * weight,  xhat = (x - mean) * rstd
    dweight = sum over rows of g * xhat,    dbias = sum over rows of g                  (RMS norm: no mean(gw), no dbias)

The floor is memory: read x, write y (2 x size bytes); the gradient reads g and x and writes dx (3 x size).
The variance is the mean square of x - mean, with the row still in registers, never E[x^2] - E[x]^2.

Versions, from simple to fast.

1. `plain`  one thread a row; for the sums over rows, one thread a column. Any GPU, and the simulator.
2. `rows`   a row in the registers of a group of threads (see rows.py): x is read once. The gradient's groups take
            rows g, g + groups, g + 2 groups, ... in turn; a thread meets the same columns in every row, so it adds up
            dweight and dbias in registers on the way, and a second kernel adds the groups' sums. Nothing is atomic:
            the order of every sum is fixed by the shapes.
3. `long_rows`  rows too long for registers: one block a row, which reads it again for each step (from the L2 cache),
            and the sums over rows in a kernel of their own, by blocks of columns.

weight and bias have x's dtype or float32. RMS norm has no bias and no mean: inputs stand in their
places, which kernels made with center = False do not touch.
"""

import functools
import math

from numba import cuda

from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan, Temp
from .build import blocks, codec
from .rows import bounded, fitting, group_sum, reader, spread, vector_width, wide, writer

HELD = 32  # elements of a row a thread holds
HELD_GRAD = 16  # the gradient holds g, x, and its sums of dweight and dbias: 64 values, so blocks of at most ...
THREADS_GRAD = 512  # ... 512 threads, which may have 128 registers each
LONG = 1024  # threads for a row of any length
IN_FLIGHT = 1 << 16  # threads of a gradient: more would fill a GPU no better and leave more sums to add
SPLITS = 64  # parts the rows are cut into where a kernel of its own sums over them
LANES, PARTS = 32, 16  # sums over rows: columns a block, threads a column


@functools.cache
def plain(dtype, param, center):
    """One thread a row; x, y: (rows, columns); weight, bias: (columns,); mean, rstd: (rows,)."""
    load, store, T = codec(dtype)
    load_param, _, _ = codec(param)

    @cuda.jit
    def norm_plain(x, weight, bias, y, mean, rstd, eps):
        row = cuda.grid(1)
        if row < x.shape[0]:
            columns = x.shape[1]
            total = T(0)
            if center:
                for c in range(columns):
                    total += load(x[row, c])
            middle = total / T(columns)
            total = T(0)
            for c in range(columns):
                d = load(x[row, c]) - middle
                total += d * d
            scale = T(1) / math.sqrt(total / T(columns) + eps)
            for c in range(columns):
                v = (load(x[row, c]) - middle) * scale * load_param(weight[c])
                y[row, c] = store(v + load_param(bias[c]) if center else v)
            if center:
                mean[row] = middle
            rstd[row] = scale

    return norm_plain


@functools.cache
def rows(dtype, param, threads, vectors, width, center):
    """A row in the registers of `threads` threads; x, y: (rows * columns,); block (threads, rows a block).

    weight, bias: (columns,); mean, rstd: (rows,).
    """
    _, _, T = codec(dtype)
    read, read_param, write = reader(dtype, width), reader(param, width), writer(dtype, width)
    total_of = group_sum(threads, T)
    held = vectors * width

    @bounded(max(threads, 128))
    def norm_rows(x, weight, bias, y, mean, rstd, rows, columns, eps):
        tx = cuda.threadIdx.x
        row = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        start = row * columns
        v = cuda.local.array(held, T)
        w = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        for e in range(held):
            v[e] = T(0)
        for k in range(vectors):
            column = (k * threads + tx) * width
            if row < rows and column < columns:
                read(x, start + column, v, k * width)
        middle = T(0)
        if center:
            for e in range(held):
                middle += v[e]
            middle = total_of(middle) / T(columns)
        total = T(0)
        for k in range(vectors):
            if (k * threads + tx) * width < columns:
                for e in range(k * width, (k + 1) * width):
                    v[e] -= middle
                    total += v[e] * v[e]
        scale = T(1) / math.sqrt(total_of(total) / T(columns) + eps)
        for k in range(vectors):
            column = (k * threads + tx) * width
            if row < rows and column < columns:
                read_param(weight, column, w, 0)
                if center:
                    read_param(bias, column, b, 0)
                for j in range(width):
                    e = k * width + j
                    v[e] = v[e] * scale * w[j]
                    if center:
                        v[e] += b[j]
                write(y, start + column, v, k * width)
        if row < rows and tx == 0:
            if center:
                mean[row] = middle
            rstd[row] = scale

    return norm_rows


@functools.cache
def long_rows(dtype, param, width, center):
    """One block of LONG threads a row of any length; x, y: (rows * columns,); grid: rows.

    weight, bias: (columns,); mean, rstd: (rows,).
    """
    _, _, T = codec(dtype)
    read, read_param, write = reader(dtype, width), reader(param, width), writer(dtype, width)
    total_of = group_sum(LONG, T)

    @bounded(LONG)
    def norm_long_rows(x, weight, bias, y, mean, rstd, columns, eps):
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
        scale = T(1) / math.sqrt(total_of(total) / T(columns) + eps)
        for column in range(first, columns, LONG * width):
            read(x, start + column, v, 0)
            read_param(weight, column, w, 0)
            if center:
                read_param(bias, column, b, 0)
            for j in range(width):
                v[j] = (v[j] - middle) * scale * w[j]
                if center:
                    v[j] += b[j]
            write(y, start + column, v, 0)
        if first == 0:
            if center:
                mean[row] = middle
            rstd[row] = scale

    return norm_long_rows


# Gradients.


@functools.cache
def plain_grad(dtype, param, center):
    """One thread a row; g, x, dx: (rows, columns); weight: (columns,); mean, rstd: (rows,)."""
    load, store, T = codec(dtype)
    load_param, _, _ = codec(param)

    @cuda.jit
    def norm_plain_grad(g, x, weight, mean, rstd, dx):
        row = cuda.grid(1)
        if row < x.shape[0]:
            columns = x.shape[1]
            middle = mean[row] if center else T(0)
            scale = rstd[row]
            sum_g = T(0)
            sum_gx = T(0)
            for c in range(columns):
                gw = load(g[row, c]) * load_param(weight[c])
                sum_g += gw
                sum_gx += gw * ((load(x[row, c]) - middle) * scale)
            mean_g = sum_g / T(columns) if center else T(0)
            mean_gx = sum_gx / T(columns)
            for c in range(columns):
                gw = load(g[row, c]) * load_param(weight[c])
                dx[row, c] = store(scale * (gw - mean_g - (load(x[row, c]) - middle) * scale * mean_gx))

    return norm_plain_grad


@functools.cache
def plain_sums(dtype, param, center):
    """One thread a column; g, x: (rows, columns); mean, rstd: (rows,); dweight, dbias: (columns,)."""
    load, _, T = codec(dtype)
    _, store_param, _ = codec(param)

    @cuda.jit
    def norm_plain_sums(g, x, mean, rstd, dweight, dbias):
        c = cuda.grid(1)
        if c < x.shape[1]:
            sum_gx = T(0)
            sum_g = T(0)
            for row in range(x.shape[0]):
                d = load(x[row, c]) - mean[row] if center else load(x[row, c])
                sum_gx += load(g[row, c]) * (d * rstd[row])
                sum_g += load(g[row, c])
            dweight[c] = store_param(sum_gx)
            if center:
                dbias[c] = store_param(sum_g)

    return norm_plain_sums


@functools.cache
def rows_grad(dtype, param, threads, vectors, width, center):
    """Groups of `threads` threads take rows in turn; g, x, dx: (rows * columns,); block (threads, groups a block).

    weight: (columns,); mean, rstd: (rows,); sums: (2, groups, columns), each group's dweight and dbias.
    """
    _, _, T = codec(dtype)
    read, read_param, write = reader(dtype, width), reader(param, width), writer(dtype, width)
    total_of = group_sum(threads, T)
    held = vectors * width

    @bounded(max(threads, 128))
    def norm_rows_grad(g, x, weight, mean, rstd, dx, sums, rows, columns):
        tx = cuda.threadIdx.x
        groups = cuda.gridDim.x * cuda.blockDim.y
        group = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        a = cuda.local.array(held, T)
        v = cuda.local.array(held, T)
        w = cuda.local.array(width, T)
        dweight = cuda.local.array(held, T)
        dbias = cuda.local.array(held, T)
        for e in range(held):
            dweight[e] = T(0)
            dbias[e] = T(0)
        # All groups of a block go round equally often (the reductions are joint work), the last time perhaps idly.
        for turn in range((rows + groups - 1) // groups):
            row = turn * groups + group
            start = row * columns
            scale = T(0)
            middle = T(0)
            if row < rows:
                scale = rstd[row]
                if center:
                    middle = mean[row]
            for e in range(held):
                a[e] = T(0)
                v[e] = middle
            for k in range(vectors):
                column = (k * threads + tx) * width
                if row < rows and column < columns:
                    read(g, start + column, a, k * width)
                    read(x, start + column, v, k * width)
            sum_g = T(0)
            sum_gx = T(0)
            for k in range(vectors):
                column = (k * threads + tx) * width
                if column < columns:
                    read_param(weight, column, w, 0)
                    for j in range(width):
                        e = k * width + j
                        v[e] = (v[e] - middle) * scale
                        dweight[e] += a[e] * v[e]
                        if center:
                            dbias[e] += a[e]
                        a[e] *= w[j]
                        sum_g += a[e]
                        sum_gx += a[e] * v[e]
            mean_g = total_of(sum_g) / T(columns) if center else T(0)
            mean_gx = total_of(sum_gx) / T(columns)
            for k in range(vectors):
                column = (k * threads + tx) * width
                if row < rows and column < columns:
                    for e in range(k * width, (k + 1) * width):
                        a[e] = scale * (a[e] - mean_g - v[e] * mean_gx)
                    write(dx, start + column, a, k * width)
        for k in range(vectors):
            column = (k * threads + tx) * width
            if column < columns:
                for j in range(width):
                    sums[0, group, column + j] = dweight[k * width + j]
                    if center:
                        sums[1, group, column + j] = dbias[k * width + j]

    return norm_rows_grad


@functools.cache
def long_rows_grad(dtype, param, width, center):
    """One block of LONG threads a row of any length; g, x, dx: (rows * columns,); grid: rows.

    weight: (columns,); mean, rstd: (rows,).
    """
    _, _, T = codec(dtype)
    read, read_param, write = reader(dtype, width), reader(param, width), writer(dtype, width)
    total_of = group_sum(LONG, T)

    @bounded(LONG)
    def norm_long_rows_grad(g, x, weight, mean, rstd, dx, columns):
        row = cuda.blockIdx.x
        start = row * columns
        first = cuda.threadIdx.x * width
        a = cuda.local.array(width, T)
        v = cuda.local.array(width, T)
        w = cuda.local.array(width, T)
        scale = rstd[row]
        middle = mean[row] if center else T(0)
        sum_g = T(0)
        sum_gx = T(0)
        for column in range(first, columns, LONG * width):
            read(g, start + column, a, 0)
            read(x, start + column, v, 0)
            read_param(weight, column, w, 0)
            for j in range(width):
                sum_g += a[j] * w[j]
                sum_gx += a[j] * w[j] * ((v[j] - middle) * scale)
        mean_g = total_of(sum_g) / T(columns) if center else T(0)
        mean_gx = total_of(sum_gx) / T(columns)
        for column in range(first, columns, LONG * width):
            read(g, start + column, a, 0)
            read(x, start + column, v, 0)
            read_param(weight, column, w, 0)
            for j in range(width):
                a[j] = scale * (a[j] * w[j] - mean_g - (v[j] - middle) * scale * mean_gx)
            write(dx, start + column, a, 0)

    return norm_long_rows_grad


@functools.cache
def column_sums(dtype, center):
    """Sums over a part of the rows; g, x: (rows * columns,); block (LANES columns, PARTS), grid (columns, splits).

    mean, rstd: (rows,); sums: (2, splits, columns), each split's dweight and dbias.
    """
    load, _, T = codec(dtype)

    @bounded(LANES * PARTS)
    def norm_column_sums(g, x, mean, rstd, sums, rows, columns):
        parts = cuda.shared.array((2, PARTS, LANES), T)
        lane, part = cuda.threadIdx.x, cuda.threadIdx.y
        column = cuda.blockIdx.x * LANES + lane
        sum_gx = T(0)
        sum_g = T(0)
        if column < columns:
            for row in range(cuda.blockIdx.y * PARTS + part, rows, cuda.gridDim.y * PARTS):
                a = load(g[row * columns + column])
                v = load(x[row * columns + column])
                if center:
                    v -= mean[row]
                sum_gx += a * (v * rstd[row])
                sum_g += a
        parts[0, part, lane] = sum_gx
        parts[1, part, lane] = sum_g
        cuda.syncthreads()
        if part < 2 and column < columns:  # threads of part 0 add up dweight, those of part 1 dbias
            total = T(0)
            for p in range(PARTS):
                total += parts[part, p, lane]
            sums[part, cuda.blockIdx.y, column] = total

    return norm_column_sums


@functools.cache
def finish(param, center):
    """The last sum; sums: (2, groups, columns); dweight, dbias: (columns,); block (LANES columns, PARTS)."""
    _, store_param, T = codec(param)

    @bounded(LANES * PARTS)
    def norm_finish(sums, dweight, dbias):
        parts = cuda.shared.array((2, PARTS, LANES), T)
        lane, part = cuda.threadIdx.x, cuda.threadIdx.y
        column = cuda.blockIdx.x * LANES + lane
        groups, columns = sums.shape[1], sums.shape[2]
        for which in range(2):
            total = T(0)
            if column < columns and (center or which == 0):
                for group in range(part, groups, PARTS):
                    total += sums[which, group, column]
            parts[which, part, lane] = total
        cuda.syncthreads()
        if part < 2 and column < columns:
            total = T(0)
            for p in range(PARTS):
                total += parts[part, p, lane]
            if part == 0:
                dweight[column] = store_param(total)
            elif center:
                dbias[column] = store_param(total)

    return norm_finish


# Planners. x: (rows, columns), no gaps; weight, bias: (columns,).


def forward(version: str, inputs: tuple[Layout, ...], eps: float) -> Plan:
    """The plan of one version by name, "plain", "rows" or "long_rows"; inputs x, weight and for layer norm bias."""
    x, weight, *_ = inputs
    center = len(inputs) == 3
    rows_, columns = x.shape
    T = wide(x.dtype)
    per_row = x.like((rows_,), T)
    outputs = [x.like(), per_row, per_row] if center else [x.like(), per_row]
    if x.size == 0:
        return Plan(outputs, [])
    bias, mean, rstd = (Input(2), Output(1), Output(2)) if center else (Input(1), Input(1), Output(1))
    if version == "plain":
        return Plan(outputs, [Launch(plain(x.dtype, weight.dtype, center), blocks(rows_, 128), 128,
                                     [Input(0), Input(1), bias, Output(0), mean, rstd, T.type(eps)])])
    width = vector_width(columns, *inputs)
    arrays = [Input(0).flat, Input(1), bias, Output(0).flat, mean, rstd]
    if version == "long_rows":
        return Plan(outputs, [Launch(long_rows(x.dtype, weight.dtype, width, center), rows_, LONG,
                                     [*arrays, columns, T.type(eps)])])
    shape = spread(columns, width, fitting(HELD, x.dtype))
    if shape is None:
        raise ValueError(f"norm: version 'rows' cannot hold a row of {columns} elements of {x.dtype} in registers")
    kernel = rows(x.dtype, weight.dtype, shape.threads, shape.vectors, width, center)
    return Plan(outputs, [Launch(kernel, shape.grid(rows_), shape.block, [*arrays, rows_, columns, T.type(eps)])])


def backward(version: str, inputs: tuple[Layout, ...]) -> Plan:
    """The plan of one version by name; inputs g, x, weight, for layer norm mean, and rstd."""
    g, x, weight, *_ = inputs
    center = len(inputs) == 5
    rows_, columns = x.shape
    T = wide(x.dtype)
    outputs = [x.like(), weight.like(), weight.like()][:3 if center else 2]
    mean, rstd = (Input(3), Input(4)) if center else (Input(3), Input(3))
    dweight, dbias = Output(1), Output(2) if center else rstd
    last = blocks(columns, LANES)
    if version == "plain" or x.size == 0:  # without rows, `plain_sums` writes the zeros of dweight and dbias
        return Plan(outputs, [
            Launch(plain_grad(x.dtype, weight.dtype, center), blocks(rows_, 128), 128,
                   [Input(0), Input(1), Input(2), mean, rstd, Output(0)]),
            Launch(plain_sums(x.dtype, weight.dtype, center), blocks(columns, 128), 128,
                   [Input(0), Input(1), mean, rstd, dweight, dbias]),
        ][rows_ == 0:])
    width = vector_width(columns, g, x, weight)
    arrays = [Input(0).flat, Input(1).flat, Input(2), mean, rstd, Output(0).flat]
    if version == "long_rows":
        splits = min(SPLITS, blocks(rows_, PARTS))
        steps = [
            Launch(long_rows_grad(x.dtype, weight.dtype, width, center), rows_, LONG, [*arrays, columns]),
            Launch(column_sums(x.dtype, center), (last, splits), (LANES, PARTS),
                   [Input(0).flat, Input(1).flat, mean, rstd, Temp(0), rows_, columns]),
        ]
        groups = splits
    else:
        shape = spread(columns, width, fitting(HELD_GRAD, x.dtype), THREADS_GRAD)
        if shape is None:
            raise ValueError(f"norm: version 'rows' cannot hold a row of {columns} elements of {x.dtype} in registers")
        grid = min(shape.grid(rows_), IN_FLIGHT // (shape.threads * shape.rows))
        groups = grid * shape.rows
        kernel = rows_grad(x.dtype, weight.dtype, shape.threads, shape.vectors, width, center)
        steps = [Launch(kernel, grid, shape.block, [*arrays, Temp(0), rows_, columns])]
    steps.append(Launch(finish(weight.dtype, center), last, (LANES, PARTS), [Temp(0), dweight, dbias]))
    return Plan(outputs, steps, [x.like((2, groups, columns), T)])


def best(inputs: tuple[Layout, ...], held: int, limit: int) -> str:
    """The fastest version for these arrays, the first of them (rows, columns)."""
    columns = inputs[0].shape[1]
    held = fitting(held, inputs[0].dtype)
    return "rows" if spread(columns, vector_width(columns, *inputs), held, limit) else "long_rows"


def layer_norm(x: Layout, weight: Layout, bias: Layout, *, eps: float) -> Plan:
    """x: (rows, columns); weight, bias: (columns,) -> y like x, mean and rstd (rows,)."""
    return forward(best((x, weight, bias), HELD, LONG), (x, weight, bias), eps)


def rms_norm(x: Layout, weight: Layout, *, eps: float) -> Plan:
    """x: (rows, columns); weight: (columns,) -> y like x, rstd (rows,)."""
    return forward(best((x, weight), HELD, LONG), (x, weight), eps)


def layer_norm_grad(g: Layout, x: Layout, weight: Layout, mean: Layout, rstd: Layout) -> Plan:
    """g, x: (rows, columns); weight: (columns,); mean, rstd: (rows,) -> dx, dweight, dbias."""
    return backward(best((g, x, weight), HELD_GRAD, THREADS_GRAD), (g, x, weight, mean, rstd))


def rms_norm_grad(g: Layout, x: Layout, weight: Layout, rstd: Layout) -> Plan:
    """g, x: (rows, columns); weight: (columns,); rstd: (rows,) -> dx, dweight."""
    return backward(best((g, x, weight), HELD_GRAD, THREADS_GRAD), (g, x, weight, rstd))
