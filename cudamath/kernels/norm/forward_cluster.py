"""Group norm, and norms of long rows that the blocks of a cluster hold in their registers
(forward.py has the formulas).

Clusters (SM 9.0 and later). A row of 32,768 numbers fills the registers of a multiprocessor:
nothing is read while it is reduced, and little while it is written. Four blocks of 256 threads on
four multiprocessors hold it as well. Each multiprocessor then holds parts of four rows, of which
one is read while another is written. Eight blocks of 1,024 threads hold rows of 262,144 numbers,
which are read once.

Weights and biases come from the second-level cache, up to twice as many bytes as the row. Asked for
when the row's mean is known, each access waited for them; so a block of a cluster asks TMA for them
beside the row, 32 KB into shared memory, and for what finds no room there one access ahead, when
registers of the row are free. 512 x 131,072, bfloat16, on an H200: layer norm 77.6 us where 81.7,
RMS norm, whose weights all find room, 68.2 where 74.7. (With half of them in registers 71.4, as two
ahead.)

16-bit numbers stay packed, two to a register, so that a thread holds 64 of them: then half as many
blocks share a row, each with as many bytes under way as in float32, and eight blocks of 256
threads, four to a multiprocessor, hold 131,072. They are widened anew in each of the three passes
over the registers: an instruction a number. (With 32 a thread such a row took eight blocks of 512
threads, and of the two on a multiprocessor both waited for their clusters at times.)

Each block finds the mean of its part and the sum of squares about it; one exchange in the cluster
gives every block those of all, and they are merged as by Chan, Golub and LeVeque: squares about the
common mean are the sum of the parts' own and of n_i (mean_i - mean)^2. ("Algorithms for computing
the sample variance", The American Statistician 37, 1983.)

Channels. In a group, an access has to find its channel: column // run. A division is some 20
instructions, two or three a number; memory leaves a kernel of float32 some 30 a number. So a thread
multiplies by 2^SHIFT // run + 1 and shifts. That is too large by at most 1, the product by at most
the column, and the quotient by less than 1 / run as long as column x run is below 2^SHIFT: then it
is exact.
"""

import functools

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...runtime.device import capability
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_sum, group_total, inverse_root
from ..lib.cluster_exchange import table
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import fetcher, reader, writer
from ..ptx.sm80 import global_address, shared_address
from ..ptx.sm90 import (
    barrier_expect,
    barrier_init,
    barrier_wait,
    bulk_load,
    cluster_rank,
    fence_async_shared,
    fence_barrier_init,
)
from .problem import Forward
from .row_parts import CLUSTER_THREADS, SHIFT, cluster_held, spread_cluster

ACCESS = 16  # bytes of a thread's widest
NEAR = 32 << 10  # bytes of weights and biases in a block's shared memory
i32, i64 = types.int32, types.int64


@functools.cache
def parameter(param, width, channels):
    """Device function (a, first, column, inverse, v): v[0], ... = the weights (or biases) of
    `width` columns."""
    read, one = reader(param, width), codec(param)[0]

    @device_function
    def by_columns(a, first, column, inverse, v):
        read(a, column, v, 0)

    @device_function
    def by_channel(a, first, column, inverse, v):
        value = one(a[first + (i64(column) * inverse >> SHIFT)])
        for j in range(width):
            v[j] = value

    return by_channel if channels else by_columns


def accesses_near(dtype, param, width, threads, ranks, parts) -> int:
    """For how many of its accesses a thread has weights and biases in shared memory."""
    both = parts.weight + parts.bias
    good = (
        both
        and ranks > 1
        and threads <= CLUSTER_THREADS
        and not parts.channels
        and param.itemsize * width == ACCESS
    )
    return min(cluster_held(dtype) // width, NEAR // (ACCESS * threads)) // both if good else 0


@functools.cache
def rows(dtype, param, width, threads, ranks, parts):
    """`ranks` blocks per row; x: accesses (see rows.fetcher); y: (rows * columns,). (A residual is
    added before.)

    weight, bias: (columns,) or (channels,); mean, rstd: (rows,) or (0,); most: columns of a block,
    all but the last have so many; groups, share: see Channels; inverse: of `run`, as above.
    """
    _, _, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    write, raw, read_param = (
        writer(dtype, width),
        numba_type(kind),
        parameter(param, width, parts.channels),
    )
    fetch_param, widen_param, param_words, param_kind = fetcher(param, width)
    raw_param, vectors = numba_type(param_kind), cluster_held(dtype) // width
    near = accesses_near(dtype, param, width, threads, ranks, parts)
    room, behind, param_bytes = (
        near * threads * param_words,
        near * threads if parts.weight else 0,
        param.itemsize,
    )
    both, slots = parts.weight + parts.bias, param_words if near else 1
    all_room = both * room
    total_of, everybody, (meet, tell) = group_total(threads, T), group_sum(ranks, T), table(ranks)
    halvings, root = ranks.bit_length() - 1, inverse_root(T)
    packed = vectors * words
    center, weighted, biased, _, channels = parts

    @device_function
    def begin_next(k, tx, count, place, weight, bias, r_weight, r_bias):
        """Read what access k needs of the weights and biases, if shared memory has it not."""
        if near <= k < vectors and i32((k * threads + tx) * width) < count:
            if weighted:
                fetch_param(weight, place + k * threads, r_weight, 0)
            if biased:
                fetch_param(bias, place + k * threads, r_bias, 0)

    @device_function
    def finish(
        k,
        tx,
        count,
        r,
        v,
        w,
        b,
        weight,
        bias,
        y,
        first,
        begin,
        place,
        start,
        inverse,
        middle,
        scale,
        parameters,
        r_weight,
        r_bias,
    ):
        """Access k of the thread's, standardised."""
        column = i32((k * threads + tx) * width)
        if column < count:
            if near:
                if weighted:
                    if k < near:
                        fetch_param(parameters, k * threads + tx, r_weight, 0)
                    widen_param(r_weight, 0, w, 0)
                if biased:
                    if k < near:
                        fetch_param(parameters, behind + k * threads + tx, r_bias, 0)
                    widen_param(r_bias, 0, b, 0)
                begin_next(k + 1, tx, count, place, weight, bias, r_weight, r_bias)
            else:
                if weighted:
                    read_param(weight, first, begin + column, inverse, w)
                if biased:
                    read_param(bias, first, begin + column, inverse, b)
            widen(r, k * words, v, 0)
            for j in range(width):
                v[j] = (v[j] - middle) * (scale * w[j] if weighted else scale)
                if biased:
                    v[j] += b[j]
            write(y, start + column, v, 0)

    @bounded((threads, 14 if threads == 64 else max(1024 // threads, 1)))  # 72 registers, or 64
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
        place = begin // width + tx  # its first access in weight and bias
        r_weight = cuda.local.array(slots, raw_param)
        r_bias = cuda.local.array(slots, raw_param)
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(width, T)
        w = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        for e in range(packed):
            r[e] = raw(0)
        for k in range(vectors):
            if i32((k * threads + tx) * width) < count:
                fetch(x, start // width + i32(k * threads + tx), r, k * words)
        parameters = weight
        if near:  # on its way while the row is read and reduced
            parameters = cuda.shared.array(all_room, raw_param, alignment=16)
            full, to = (
                i32(shared_address(cuda.shared.array(1, i64))),
                i32(shared_address(parameters)),
            )
            if tx == 0:
                amount = i32(min(count, i32(near * threads * width)) * param_bytes)
                barrier_init(full, i32(1))
                fence_barrier_init()
                fence_async_shared()
                barrier_expect(full, i32(both * amount))
                if weighted:
                    bulk_load(to, global_address(weight) + begin * param_bytes, amount, full)
                if biased:
                    bulk_load(
                        i32(to + behind * ACCESS),
                        global_address(bias) + begin * param_bytes,
                        amount,
                        full,
                    )
        middle = T(0)
        if center:
            for k in range(vectors):  # zeros where nothing was read
                widen(r, k * words, v, 0)
                for j in range(width):
                    middle += v[j]
            middle = total_of(middle, 0) / T(count)
        total = T(0)
        for k in range(vectors):
            if i32((k * threads + tx) * width) < count:
                widen(r, k * words, v, 0)
                for j in range(width):
                    total += (v[j] - middle) * (v[j] - middle)
        total = total_of(total, 1)
        if ranks > 1:
            at = tx & ranks - 1
            other, squares = tell(pairs, middle, total)
            if center:
                size = T(most if at < ranks - 1 else columns - (ranks - 1) * most)
                whole = everybody(other * size) / T(columns)
                squares += (other - whole) * (other - whole) * size
                middle = whole
            total = everybody(squares)
        scale = root(total / T(columns) + eps)
        first = i64(types.uint32(row) % types.uint32(groups)) * share if channels else i64(0)
        if near:
            barrier_wait(full, i32(0))
        for k in range(
            vectors // 2
        ):  # in two loops: of one as long the compiler would not make registers of r
            finish(
                k,
                tx,
                count,
                r,
                v,
                w,
                b,
                weight,
                bias,
                y,
                first,
                begin,
                place,
                start,
                inverse,
                middle,
                scale,
                parameters,
                r_weight,
                r_bias,
            )
        for k in range(vectors // 2, vectors):
            finish(
                k,
                tx,
                count,
                r,
                v,
                w,
                b,
                weight,
                bias,
                y,
                first,
                begin,
                place,
                start,
                inverse,
                middle,
                scale,
                parameters,
                r_weight,
                r_bias,
            )
        if rank == 0 and tx == 0 and rstd.size:
            if center:
                mean[row] = middle
            rstd[row] = scale

    return norm_shared


def plan(p: Forward) -> Plan:
    """The plan of rows in the registers of a cluster's blocks. A residual is added before."""
    x, parts = p.x, p.parts
    ranks, threads = spread_cluster(p.columns, capability(x.device) >= (9, 0), x.dtype)
    most = blocks(p.columns, ranks * p.width) * p.width
    *channels, run, eps = p.numbers
    _, _, words, kind = fetcher(x.dtype, p.width)
    rows_ = p.sum.view((x.size * words // p.width,), dtype=kind)
    _, *params, _ = p.inputs
    if accesses_near(x.dtype, p.param, p.width, threads, ranks, parts):
        _, _, words, kind = fetcher(p.param, p.width)
        for i, there in enumerate((parts.weight, parts.bias)):
            if there:
                params[i] = params[i].view((p.columns * words // p.width,), dtype=kind)
    kernel = rows(x.dtype, p.param, p.width, threads, ranks, parts._replace(residual=False))
    numbers = [p.columns, most, *channels, (1 << SHIFT) // run + 1, eps]
    step = Launch(
        kernel,
        p.rows * ranks,
        threads,
        [rows_, *params, Output(0).flat, *p.mean_rstd, *numbers],
        cluster=ranks,
    )
    return Plan(p.outputs, [*p.addition, step])
