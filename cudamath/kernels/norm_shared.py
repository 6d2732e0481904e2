"""Group norm, and norms of long rows that the blocks of a cluster hold in their registers (norm.py has the formulas).

Clusters (9.0 on). A row of 32,768 numbers fills the registers of a whole multiprocessor: nothing is read while it is reduced,
and little while it is written. Four blocks of 256 threads on four multiprocessors hold it as well, and each of these holds
parts of four rows, of which one is read while another is written. Eight blocks of 1,024 threads hold rows of 262,144 numbers,
which are read once.

Each block finds the mean of its part and the sum of squares about it; one exchange in the cluster gives every block those of
all, and they are merged as by Chan, Golub and LeVeque: squares about the common mean are the sum of the parts' own and of
n_i (mean_i - mean)^2. ("Algorithms for computing the sample variance", The American Statistician 37, 1983.)

Channels. In a group, an access has to find its channel: column // run. A division is some 20 instructions, two or three a
number; memory leaves a kernel of float32 some 30 a number. So a thread multiplies by 2^SHIFT // run + 1 and shifts. That is
too large by at most 1, the product by at most the column, and the quotient by less than 1 / run as long as column x run is
below 2^SHIFT: then it is exact.
"""

import functools
import math

from ..core.layout import Layout
from ..core.plan import Launch
from ..runtime.device import capability
from .build import blocks, codec, power_of_two
from .cluster import table
from .lazy import cuda, types
from .norm import HELD, LONG, Channels, Parts
from .ptx_hopper import cluster_rank
from .rows import bounded, device, group_sum, group_total, reader, wide, writer

THREADS = 256  # a block, where at most eight of them hold a row
MOST = 8  # blocks of a cluster, on any device
SHIFT = 42  # bits of a fraction
i32, i64 = types.int32, types.int64


def spread(columns: int, clusters: bool) -> tuple[int, int]:
    """(blocks that share a row, threads of such a block)."""
    ranks = min(power_of_two(blocks(columns, THREADS * HELD)), MOST) if clusters else 1
    return ranks, max(power_of_two(blocks(columns, ranks * HELD)), 64)


def fits(columns: int, width: int, x: Layout, channels: Channels | None) -> bool:
    """Whether this version can take rows of x."""
    ranks, threads = spread(columns, capability(x.device) >= (9, 0))
    exact = channels is None or (columns * channels.run < 1 << SHIFT and channels.share < 1 << 62 - SHIFT)
    return width > 1 and wide(x.dtype).itemsize == 4 and threads <= LONG and exact


@functools.cache
def parameter(param, width, channels):
    """Device function (a, first, column, inverse, v): v[0], ... = the weights (or biases) of `width` columns."""
    read, one = reader(param, width), codec(param)[0]

    @device
    def by_columns(a, first, column, inverse, v):
        read(a, column, v, 0)

    @device
    def by_channel(a, first, column, inverse, v):
        value = one(a[first + (i64(column) * inverse >> SHIFT)])
        for j in range(width):
            v[j] = value

    return by_channel if channels else by_columns


@functools.cache
def rows(dtype, param, width, threads, ranks, parts):
    """`ranks` blocks per row; x, y: (rows * columns,). (A residual is added before.)

    weight, bias: (columns,) or (channels,); mean, rstd: (rows,); most: columns of a block, all but the last have so many;
    groups, share: see Channels; inverse: of `run`, as above.
    """
    _, _, T = codec(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    read_param = parameter(param, width, parts.channels)
    total_of, everybody, (meet, tell) = group_total(threads, T), group_sum(ranks, T), table(ranks)
    vectors, halvings = HELD // width, ranks.bit_length() - 1
    center, weighted, biased, _, channels = parts

    @bounded((threads, max(1024 // threads, 1)))
    def norm_shared(x, weight, bias, y, mean, rstd, columns, most, groups, share, inverse, eps):
        tx = i32(cuda.threadIdx.x)
        rank = i32(0)
        if ranks > 1:
            rank = cluster_rank()
            pairs = meet()
        row = cuda.blockIdx.x >> halvings
        begin = rank * most
        count = i32(min(most, columns - begin))
        start = row * columns + begin
        v = cuda.local.array(HELD, T)
        w = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        for e in range(HELD):
            v[e] = T(0)
        for k in range(vectors):
            column = i32((k * threads + tx) * width)
            if column < count:
                read(x, start + column, v, k * width)
        middle = T(0)
        if center:
            for e in range(HELD):
                middle += v[e]
            middle = total_of(middle, 0) / T(count)
        total = T(0)
        for k in range(vectors):
            if i32((k * threads + tx) * width) < count:
                for e in range(k * width, (k + 1) * width):
                    v[e] -= middle
                    total += v[e] * v[e]
        total = total_of(total, 1)
        shift = T(0)
        if ranks > 1:
            at = tx & ranks - 1
            other, squares = tell(pairs, middle, total)
            if center:
                size = T(most if at < ranks - 1 else columns - (ranks - 1) * most)
                whole = everybody(other * size) / T(columns)
                squares += (other - whole) * (other - whole) * size
                shift = middle - whole
                middle = whole
            total = everybody(squares)
        scale = T(1) / math.sqrt(total / T(columns) + eps)
        first = i64(types.uint32(row) % types.uint32(groups)) * share if channels else i64(0)
        for k in range(vectors):
            column = i32((k * threads + tx) * width)
            if column < count:
                if weighted:
                    read_param(weight, first, begin + column, inverse, w)
                if biased:
                    read_param(bias, first, begin + column, inverse, b)
                for j in range(width):
                    e = k * width + j
                    if ranks > 1 and center:
                        v[e] += shift
                    v[e] *= scale
                    if weighted:
                        v[e] *= w[j]
                    if biased:
                        v[e] += b[j]
                write(y, start + column, v, k * width)
        if rank == 0 and tx == 0:
            if center:
                mean[row] = middle
            rstd[row] = scale

    return norm_shared


def launch(x: Layout, param, width: int, columns: int, parts: Parts, channels: Channels | None, arguments: list, eps) -> Launch:
    """arguments: x, weight, bias, y, mean, rstd."""
    ranks, threads = spread(columns, capability(x.device) >= (9, 0))
    most = blocks(columns, ranks * width) * width
    groups, share, run = channels or (1, 1, 1)
    kernel = rows(x.dtype, param, width, threads, ranks, parts._replace(residual=False))
    return Launch(kernel, x.size // columns * ranks, threads,
                  [*arguments, columns, most, groups, share, (1 << SHIFT) // run + 1, eps], cluster=ranks)
