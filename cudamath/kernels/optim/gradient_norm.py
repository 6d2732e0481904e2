"""The norm of all gradients together, and what they are multiplied by: a few launches, however many
arrays there are.

The idea. The norm needs every element once, the scaling every element once more (read and written):
12 bytes per element for float32. Hundreds of arrays, most of them small, would cost a launch each;
so, as in steps.py, a table made with the plan cuts all arrays into chunks, one chunk per block, and
their addresses come in a table of the call.

1. `squares`: a block sums the squares of its chunk -> one partial sum a block.
2. `norm_of`: one block sums the partial sums in a fixed order -> the norm and the factor min(1,
   most / (norm + 1e-6)).
3. `scaled`: a block writes its chunk times the factor. The results of one dtype lie in one new
   array, each beginning on a border of 16 bytes. An optimizer that multiplies by the factor itself
   as it reads the gradients (kernels/optim/steps.py) does without: 4 bytes per element in place of
   12.

A norm that is not finite makes the factor NaN, for which optimizers skip the step. With loss
scaling (`settle`) the gradients are those of scale times the loss: one thread turns norm and factor
into those of the loss itself, halves the scale after an overflow and doubles it after many steps
without one. Nothing of this waits for the host.

Versions: `one`, one array per launch and one thread per chunk or element (any GPU, the simulator);
`many`, the fused one, with 16-byte accesses where arrays are aligned. No atomics: the same
gradients give the same bits.

Measured (row versions_clip):
norm of 2^27 gradients in 148 arrays, float32; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

               GB/s     of a copy
    one         7.1          0.00
    many      3,909          0.92

(end of what was measured)
"""

import functools
import math

import numpy as np

from ...core.dispatch.arguments import (
    Addresses,
    Constant,
    Flag,
    Input,
    Output,
    Scalar,
    Temp,
    Ticket,
)
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...runtime import kernel_errors
from ..compiler.lazy_numba import SIMULATOR, cuda
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_sum
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import RUN, reader, writer
from .problem import Clip, Factor
from .steps import CHUNK, THREADS, chunks

if not SIMULATOR:
    from ..ptx.vector_access import array_at

NOT_FINITE = "the norm of the gradients is not finite (the step was left out)"
for name in ("clip_factor", "unscale"):
    kernel_errors.failures[name], kernel_errors.exceptions[name] = NOT_FINITE, FloatingPointError

NORM_THREADS = 1024  # of the one block that sums the partial sums
BORDER = 8  # results begin at multiples of so many elements


@functools.cache
def squares_one(dtype, total):
    """x: (n,) dtype; partial: (...,) total; first: int64. Thread t: partial[first + t] = sum of the
    squares of chunk t."""
    load, T = codec(dtype)[0], numba_type(total)

    @cuda.jit
    def squares_one(x, partial, first):
        t = cuda.grid(1)
        if t * CHUNK < x.size:
            end = min(t * CHUNK + CHUNK, x.size)
            s = T(0)
            for start in range(
                t * CHUNK, end, RUN
            ):  # runs, so that errors do not grow with every element
                part = T(0)
                for i in range(start, min(start + RUN, end)):
                    part += T(load(x[i])) * T(load(x[i]))
                s += part
            partial[first + t] = s

    return squares_one


@functools.cache
def squares(dtype, total, width):
    """addresses: (arrays,) int64; table: (blocks, 3) int64: array, first element, end; x0: any of
    the arrays, for its type; partial: (...,) total; first: int64. Block b: partial[first + b] = sum
    of the squares of its chunk."""
    T = numba_type(total)
    read, read_one, together = reader(dtype, width), reader(dtype, 1), group_sum(THREADS, T)
    C = codec(dtype)[2]

    @cuda.jit
    def squares(addresses, table, x0, partial, first):
        x = array_at(x0, addresses[table[cuda.blockIdx.x, 0]])
        start, end = table[cuda.blockIdx.x, 1], table[cuda.blockIdx.x, 2]
        v = cuda.local.array(width, C)
        s = T(0)
        whole = end - (end - start) % width
        for i in range(start + cuda.threadIdx.x * width, whole, THREADS * width):
            read(x, i, v, 0)
            for e in range(width):
                s += T(v[e]) * T(v[e])
        i = whole + cuda.threadIdx.x
        if i < end:
            read_one(x, i, v, 0)
            s += T(v[0]) * T(v[0])
        s = together(s)
        if cuda.threadIdx.x == 0:
            partial[first + cuda.blockIdx.x] = s

    return squares


@functools.cache
def limit_of(total):
    """Device function (n, most) -> min(1, most / (n + 1e-6)), or NaN where n is not finite."""
    T = numba_type(total)
    one, small, nan = T(1), T(1e-6), T(math.nan)

    @cuda.jit(device=True)
    def limit(n, most):
        if not math.isfinite(n):
            return nan
        f = most / (n + small)
        return one if f > one else f

    return limit


@functools.cache
def norm_of_one(total):
    """partial: (n,), norm: (1,), factor: (1,) total. One thread."""
    T = numba_type(total)
    limit = limit_of(total)

    @cuda.jit
    def norm_of_one(partial, norm, factor, most):
        s = T(0)
        for i in range(partial.size):
            s += partial[i]
        n = math.sqrt(s)
        norm[0] = n
        factor[0] = limit(n, most)

    return norm_of_one


@functools.cache
def norm_of(total):
    """As norm_of_one, one block."""
    T = numba_type(total)
    limit, together = limit_of(total), group_sum(NORM_THREADS, T)

    @cuda.jit
    def norm_of(partial, norm, factor, most):
        s = T(0)
        for i in range(cuda.threadIdx.x, partial.size, NORM_THREADS):
            s += partial[i]
        s = together(s)
        if cuda.threadIdx.x == 0:
            n = math.sqrt(s)
            norm[0] = n
            factor[0] = limit(n, most)

    return norm_of


@functools.cache
def settle(total):
    """norm, factor: (1,) total, of scaled gradients, become those of the gradients themselves;
    scale: (1,) float32, good and skipped: (1,) int64: steps since the scale changed, steps left out
    so far. One thread."""
    T = numba_type(total)
    limit = limit_of(total)

    @cuda.jit
    def settle(norm, factor, scale, good, skipped, most, growth, backoff, interval):
        old = scale[0]
        n = norm[0] / T(old)
        norm[0] = n
        factor[0] = limit(n, most) / T(old)
        if math.isfinite(n):
            count = good[0] + 1
            if count == interval:
                count = 0
                new = old * growth
                if math.isfinite(new):
                    scale[0] = new
            good[0] = count
        else:
            scale[0] = old * backoff
            good[0] = 0
            skipped[0] += 1

    return settle


@cuda.jit
def insist(norm, flag, ticket):
    """norm: (1,) float32 or float64; raises the error flag (1,) where it is not finite. One
    thread."""
    if not math.isfinite(norm[0]):
        flag[0] = -ticket


@functools.cache
def scaled_one(dtype, total):
    """x: (n,), y: (n,) dtype; factor: (1,) total. One thread per element."""
    load, store, T = codec(dtype)

    @cuda.jit
    def scaled_one(x, y, factor):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = store(load(x[i]) * T(factor[0]))

    return scaled_one


@functools.cache
def scaled(dtype, total, width):
    """addresses, table, x0: as for squares, the table with a fourth column: where in y the array
    begins; y: (m,) dtype."""
    T = codec(dtype)[2]
    read, write = reader(dtype, width), writer(dtype, width)
    read_one, write_one = reader(dtype, 1), writer(dtype, 1)

    @cuda.jit
    def scaled(addresses, table, x0, y, factor):
        x = array_at(x0, addresses[table[cuda.blockIdx.x, 0]])
        start, end, begin = (
            table[cuda.blockIdx.x, 1],
            table[cuda.blockIdx.x, 2],
            table[cuda.blockIdx.x, 3],
        )
        f = T(factor[0])
        v = cuda.local.array(width, T)
        whole = end - (end - start) % width
        for i in range(start + cuda.threadIdx.x * width, whole, THREADS * width):
            read(x, i, v, 0)
            for e in range(width):
                v[e] *= f
            write(y, begin + i, v, 0)
        i = whole + cuda.threadIdx.x
        if i < end:
            read_one(x, i, v, 0)
            v[0] *= f
            write_one(y, begin + i, v, 0)

    return scaled


def places(layouts):
    """[(dtype, members, where each begins in the array of their results, its length)], for the card
    and the planner."""
    groups: dict = {}
    for i, layout in enumerate(layouts):
        groups.setdefault(layout.dtype, []).append(i)
    found = []
    for dtype, members in groups.items():
        begins, end = [], 0
        for i in members:
            begins.append(end)
            end += blocks(layouts[i].size, BORDER) * BORDER
        found.append((dtype, members, begins, end))
    return found


def sums_of_squares(layouts, total, version):
    """Launches that write the partial sums into Temp(0), and how many sums there are; `total` is
    their dtype."""
    first, sums = 0, []
    for dtype, members, _, _ in places(layouts):
        if version == "one":
            for i in members:
                count = blocks(layouts[i].size, CHUNK)
                sums.append(
                    Launch(
                        squares_one(dtype, total),
                        blocks(count, THREADS),
                        THREADS,
                        [Input(i).flat, Temp(0), first],
                    )
                )
                first += count
            continue
        for wide, chosen in by_alignment(layouts, members):
            table = chunks([layouts[members[k]].size for k in chosen])
            addresses, x0 = Addresses(*[members[k] for k in chosen]), Input(members[chosen[0]]).flat
            sums.append(
                Launch(
                    squares(dtype, total, 16 // dtype.itemsize if wide else 1),
                    len(table),
                    THREADS,
                    [addresses, Constant(table), x0, Temp(0), first],
                )
            )
            first += len(table)
    return sums, first


def by_alignment(layouts, members):
    """[(whether aligned, which of the members)], without empty arrays."""
    found = [
        (wide, [k for k, i in enumerate(members) if layouts[i].aligned == wide and layouts[i].size])
        for wide in (True, False)
    ]
    return [(wide, chosen) for wide, chosen in found if chosen]


def norm_launch(total, version, norm, factor):
    """The launch that sums the partial sums in Temp(0). Scalar 0: the largest norm."""
    kernel, threads = (
        (norm_of_one(total), 1) if version == "one" else (norm_of(total), NORM_THREADS)
    )
    return Launch(kernel, 1, threads, [Temp(0), norm, factor, Scalar(0, total)])


def plan_factor(p: Factor, version: str = "many") -> Plan:
    """The plan of norm and factor."""
    like, total, count = p.gradients[0].like, p.total, len(p.gradients)
    sums, partial = sums_of_squares(p.gradients, total, version)
    steps = [*sums, norm_launch(total, version, Output(0), Output(1))]
    if p.scaling:
        state = [Input(count + k) for k in range(3)]
        numbers = [
            Scalar(0, total),
            Scalar(1, np.float32),
            Scalar(2, np.float32),
            Scalar(3, np.int64),
        ]
        steps.append(Launch(settle(total), 1, 1, [Output(0), Output(1), *state, *numbers]))
    if p.strict:
        steps.append(Launch(insist, 1, 1, [Output(0), Flag(), Ticket()]))
    return Plan([like((), total), like((), total)], steps, [like((partial,), total)])


def plan_factor_one(p: Factor) -> Plan:
    """The same by a launch per gradient."""
    return plan_factor(p, "one")


def plan_clip(p: Clip) -> Plan:
    """The plan of the norm and scaled gradients, by a launch for all of a dtype and alignment."""
    layouts, total, scales = p.gradients, p.total, []
    for g, (dtype, members, begins, _) in enumerate(places(layouts)):
        for wide, chosen in by_alignment(layouts, members):
            table = chunks([layouts[members[k]].size for k in chosen])
            begin = np.array([begins[k] for k in chosen], np.int64)[table[:, 0]]
            addresses, x0 = Addresses(*[members[k] for k in chosen]), Input(members[chosen[0]]).flat
            width = 16 // compute_dtype(dtype).itemsize if wide else 1
            rows = Constant(np.column_stack([table, begin]))
            arguments = [addresses, rows, x0, Output(1 + g).flat, Temp(1)]
            scales.append(Launch(scaled(dtype, total, width), len(table), THREADS, arguments))
    return clipped(p, scales, "many")


def plan_clip_one(p: Clip) -> Plan:
    """The same by a launch per gradient."""
    layouts, total, scales = p.gradients, p.total, []
    for g, (dtype, members, begins, _) in enumerate(places(layouts)):
        for i, begin in zip(members, begins, strict=True):
            size = layouts[i].size
            part = Output(1 + g).view((size,), dtype=dtype, offset=begin * dtype.itemsize)
            arguments = [Input(i).flat, part, Temp(1)]
            kernel = scaled_one(dtype, total)
            scales.append(Launch(kernel, blocks(size, THREADS), THREADS, arguments))
    return clipped(p, scales, "one")


def clipped(p: Clip, scales: list[Launch], version: str) -> Plan:
    """The plan of the norm, and of the launches that scale the gradients."""
    like, total = p.gradients[0].like, p.total
    results = [like((end,), dtype) for dtype, _, _, end in places(p.gradients)]
    sums, count = sums_of_squares(p.gradients, total, version)
    steps = [*sums, norm_launch(total, version, Output(0), Temp(1)), *scales]
    return Plan([like((), total), *results], steps, [like((count,), total), like((1,), total)])
