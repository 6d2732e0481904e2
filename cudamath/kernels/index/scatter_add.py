"""Adding rows into rows chosen by index, in a fixed order: the gradient of a gather, and
``add_at``; so with max and min.

Many sources may go to one destination. Float atomics would add them in an order that changes from
run to run; here the order is that of the sources, so the sum is the same bit for bit every time.
Three steps:

1. Sort the destinations, keeping each one's source number, by as many bits as the largest
   destination has (sort/dispatch.py): two passes of 8 bits for a vocabulary of 50,257.
2. ``sum_chunks``: the sorted sources are cut into chunks of 32. A block walks its chunk in order
   with a sum per column in registers. A destination that lies within the chunk is written at once;
   a sum that began in the chunk before or goes on in the next is put aside.
3. ``join_chunks``: where a destination goes on over chunks, the block of its first chunk adds what
   was put aside.

Long rows, and not too many sources of them, do without a sort: scatter_add_by_owner.py; gradients
of many rows: scatter_add_hashed.py.

Where there are few sources, `add_few` does without all that: each element of the result goes
through all destinations, in their order, and adds what is for it. In place, `fold_few`: each
element of the sources looks whether it is the first one of its destination, and if so, folds it and
those behind it.

So a destination that occurs 16,000 times (padding) costs 500 additions one after another, not
16,000. The floor is one read of the sources and a read and a write of the destinations that occur:
(sources + 2 x distinct destinations) x row bytes / bandwidth.

Measured (row embedding_gradient):
embedding and gradient, 8192 of 50257x768; NVIDIA H200, commit 52457ee46004, 2026-11-23

                   GB/s     of a copy
    cudamath      3,257          0.77
    torch           819          0.19

(end of what was measured)
"""

import functools
from math import prod
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.decorators import device
from ..compiler.lazy_numba import cuda
from ..copy.contiguous import box, dense
from ..copy.strided import copy_part, fill_part, whole
from ..lib.codec import codec
from ..lib.integers import blocks
from ..sort.key_steps import key_steps
from ..sort.radix_keys import coding
from .gather import add_along, along_positions, flat_positions, own
from .scatter import positions_of
from .scatter_add_by_owner import fits, folding, no_sum, row_steps
from .scatter_add_hashed import claimed_steps, claims

CHUNK = 32
AHEAD = 8  # sources of it whose loads are in flight at once
THREADS = 256
FEW, COMPARED = (
    1024,
    1 << 24,
)  # sources of `add_few`, and comparisons of a destination with an element's row. To find the
# row costs an element as much as so many comparisons. (2^24 of them: about 20 us on an H200,
# sorting 40.)
OWN = 10
ALIKE = (
    1 << 20
)  # comparisons of destinations, by all elements of the sources, up to which `fold_few` is chosen
OWNED = "each block looks for the sources of its rows"
CLAIMED = "each source claims a slot of its row"
FEW_STEPS = 64  # along an axis, that a thread may make one after another


# -------------------- sorting


@cuda.jit
def number_keys(positions, keys, rows):  # positions: (m,) int64, keys: (m,) uint32 or uint64
    """keys = positions with -1 (out of range) replaced by ``rows``, which sorts last."""
    j = cuda.grid(1)
    if j < keys.size:
        keys[j] = positions[j] if positions[j] >= 0 else rows


def sort_steps(
    positions: Any, m: int, rows: int, device: int, temps: list[Layout]
) -> tuple[list[Launch], Any, Any]:
    """Steps that sort ``m`` positions below ``rows``: (steps, sorted keys, source number of each).
    Keys out of range come last, as ``rows``."""
    code = coding(np.dtype(np.uint32 if rows < 2**32 else np.uint64))
    here = len(temps)
    keys = Layout.new((m,), code.word, device)
    temps += [keys, keys, Layout.new((m,), np.dtype(np.int64), device)]
    given, ordered, order = (Temp(here + i) for i in range(3))
    steps = [
        Launch(number_keys, blocks(m, THREADS), THREADS, [positions, given, rows]),
        *key_steps(
            given, ordered, order, code, (1, m), code.no_flip, device, temps, rows.bit_length()
        ),
    ]
    return steps, ordered, order


# -------------------- summing


@functools.cache
def sum_chunks(dtype: np.dtype, kind: str) -> Any:
    """x[b, key, a] += the sum of the sources of that key, for keys within one chunk; other sums are
    put aside: aside[0] for a key that began in an earlier chunk, aside[1] for one that goes on in
    the next."""
    load, store, T = codec(dtype)
    fold, nothing = folding(kind, dtype)

    @cuda.jit
    def sum_chunks(x, values, keys, order, aside):
        # x: (before, rows, after), values: (before, m, after), keys, order: (m,), aside: (2,
        # chunks, columns) of T
        i = cuda.grid(1)  # neighbouring threads: neighbouring columns
        columns = aside.shape[2]
        chunk = i // columns
        column = i - chunk * columns
        after = values.shape[2]
        if chunk < aside.shape[1]:
            b = column // after
            a = column - b * after
            first = chunk * CHUNK
            last = min(first + CHUNK, keys.size)
            key = keys[first]
            began_before = first > 0 and keys[first - 1] == key
            total = nothing
            before = nothing  # what x holds of this key: nobody else writes there meanwhile
            v = cuda.local.array(AHEAD, T)
            held = cuda.local.array(AHEAD, T)
            for start in range(first, last, AHEAD):
                for k in range(AHEAD):  # all loads go out before the first is waited for
                    if start + k < last:
                        v[k] = load(values[b, order[start + k], a])
                        if keys[start + k] < x.shape[1]:
                            held[k] = load(x[b, keys[start + k], a])
                for k in range(AHEAD):
                    if start + k < last:
                        if keys[start + k] != key:
                            if began_before:
                                aside[0, chunk, column] = total
                            elif key < x.shape[1]:
                                x[b, key, a] = store(fold(before, total))
                            key = keys[start + k]
                            began_before = False
                            total = nothing
                        before = held[k]
                        total = fold(total, v[k])
            if began_before:
                aside[0, chunk, column] = total
            elif last < keys.size and keys[last] == key:
                aside[1, chunk, column] = total
            elif key < x.shape[1]:
                x[b, key, a] = store(fold(before, total))

    return sum_chunks


@functools.cache
def join_chunks(dtype: np.dtype, kind: str) -> Any:
    """For a key that begins in this thread's chunk and goes on: x[b, key, a] += all that was put
    aside for it."""
    load, store, _ = codec(dtype)
    fold, _ = folding(kind, dtype)

    @cuda.jit
    def join_chunks(
        x, keys, aside, after
    ):  # x: (before, rows, after), keys: (m,), aside: (2, chunks, columns) of T
        i = cuda.grid(1)
        chunk = i // aside.shape[2]
        column = i - chunk * aside.shape[2]
        last = (chunk + 1) * CHUNK
        if last < keys.size:
            key = keys[last]
            begins_here = keys[last - 1] == key and (chunk == 0 or keys[chunk * CHUNK - 1] != key)
            if begins_here and key < x.shape[1]:
                total = aside[1, chunk, column]
                while last < keys.size and keys[last] == key:
                    total = fold(total, aside[0, last // CHUNK, column])
                    last += CHUNK
                b = column // after
                a = column - b * after
                x[b, key, a] = store(fold(load(x[b, key, a]), total))

    return join_chunks


def add_steps(
    target: Any,
    x: Layout,
    source: Any,
    positions: Any,
    m: int,
    temps: list[Layout],
    kind: str = "add",
) -> list[Launch]:
    """Steps for ``x[:, positions[j], :] += values[:, j, :]``; x: (before, rows, after) with its
    argument ``target``; ``source``: the argument of the values, contiguous (before, m, after);
    kind: see ``folding``."""
    before, rows, after = x.shape
    steps, keys, order = sort_steps(positions, m, rows, x.device, temps)
    columns = before * after
    chunks = blocks(m, CHUNK)
    temps.append(Layout.new((2, chunks, columns), compute_dtype(x.dtype), x.device))
    aside = Temp(len(temps) - 1)
    grid = blocks(chunks * columns, THREADS)
    values = source.view((before, m, after))
    return [
        *steps,
        Launch(sum_chunks(x.dtype, kind), grid, THREADS, [target, values, keys, order, aside]),
        Launch(join_chunks(x.dtype, kind), grid, THREADS, [target, keys, aside, after]),
    ]


@functools.cache
def listing(row_of: Any) -> Any:
    """Device function (index, places, rows, flag, ticket): the rows that few indices choose, for a
    block, in shared memory. row_of: (index, rows) -> row or -1."""

    @device
    def list_places(index, places, rows, flag, ticket):
        for j in range(cuda.threadIdx.x, index.size, THREADS):
            place = row_of(np.int64(index[j]), rows)
            if place < 0:
                flag[0] = ticket
            places[j] = place
        cuda.syncthreads()

    return list_places


@functools.cache
def add_few(dtype: np.dtype) -> Any:
    """out[b, k, a] = x[b, k, a] + the sum of values[b, j, a] over the j with index[j] == k; one
    thread per element."""
    load, store, _ = codec(dtype)
    nothing, list_places = no_sum(dtype), listing(own)

    @cuda.jit
    def add_few(x, values, index, out, flag, ticket):
        # x, out: (before, rows, after), values: (before, m, after), index: (m,), m <= FEW
        places = cuda.shared.array(FEW, np.int64)
        m, rows, after = index.size, out.shape[1], out.shape[2]
        list_places(index, places, rows, flag, ticket)
        i = cuda.grid(1)
        line = i // after
        a = i - line * after
        b = line // rows
        k = line - b * rows
        if b < out.shape[0]:
            total = nothing
            for j in range(m):
                if places[j] == k:
                    total += load(values[b, j, a])
            out[b, k, a] = store(load(x[b, k, a]) + total)

    return add_few


# -------------------- planners


def index_add(x: Layout, index: Layout, values: Layout, *, axis: int) -> Plan:
    """``x`` with values[..., j, ...] added at index[j] along an axis; values in the shape that this
    makes."""
    out = x.like()
    m = index.size
    if not out.size:
        return Plan([out], [])
    few = m <= FEW and (m + OWN) * x.size <= COMPARED
    temps: list[Layout] = []
    again, source = dense(Input(2), values, values.shape, x.dtype, temps)
    shape = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    if few and m:
        more, given, _, _ = box(Input(0), x, axis, 1, temps)
        arguments = [
            given,
            source.view((shape[0], m, shape[2])),
            Input(1),
            Output(0).view(shape),
            Flag(),
            Ticket(),
        ]
        return Plan(
            [out],
            [*more, *again, Launch(add_few(x.dtype), blocks(x.size, THREADS), THREADS, arguments)],
            temps,
            f"each element looks through the {m} indices",
        )
    if fits(out.like(shape), m):
        more, given = dense(Input(0), x, x.shape, x.dtype, temps)
        found, *places = positions_of((index,), (x.shape[axis],), 1, temps)
        added = row_steps("copy", given, Output(0), out.like(shape), source, *places, m, temps)
        return Plan([out], [*again, *more, *found, *added], temps, OWNED)
    steps = copy_part(whole(Input(0), x), whole(Output(0), out))
    if m:
        more, positions = flat_positions((index,), (x.shape[axis],), 1, temps)
        steps += [
            *again,
            *more,
            *add_steps(Output(0).view(shape), out.like(shape), source, positions, m, temps),
        ]
    return Plan([out], steps, temps, "sorted by their destinations")


@functools.cache
def fold_few(dtype: np.dtype, kind: str, row_of: Any) -> Any:
    """x[b, k, a] folded with values[b, j, a] of all j that lead to row k, in their order; kind: see
    ``folding``; row_of: (index, rows) -> row or -1. One thread per element of the values: that of a
    row's first j does what there is to do."""
    load, store, _ = codec(dtype)
    (fold, nothing), list_places = folding(kind, dtype), listing(row_of)

    @cuda.jit
    def fold_few(
        x, values, index, flag, ticket
    ):  # x: (before, rows, after), values: (before, m, after), index: (m,), m <= FEW
        places = cuda.shared.array(FEW, np.int64)
        m, rows, after = index.size, x.shape[1], x.shape[2]
        list_places(index, places, rows, flag, ticket)
        i = cuda.grid(1)
        line = i // after
        a = i - line * after
        b = line // m
        first = line - b * m
        if b < x.shape[0]:
            place = places[first]
            mine = place >= 0
            for j in range(first):
                if places[j] == place:
                    mine = False
            if mine:
                total = nothing
                for j in range(first, m):
                    if places[j] == place:
                        total = fold(total, load(values[b, j, a]))
                x[b, place, a] = store(fold(load(x[b, place, a]), total))

    return fold_few


def scatter_add(x: Layout, values: Layout, *indices: Layout, axis: int, kind: str = "add") -> Plan:
    """``x[..., indices, ...] += values`` in place, equal indices added in their order; values are
    broadcast. ``kind``: what is done instead of adding, see ``folding``."""
    count = len(indices)
    shape = (*x.shape[:axis], *indices[0].shape, *x.shape[axis + count :])
    sizes, m = x.shape[axis : axis + count], indices[0].size
    temps: list[Layout] = []
    if 0 in shape or not x.size:
        return Plan([], flat_positions(indices, sizes, 2, temps)[0], temps)
    steps, target, layout, copied = box(Input(0), x, axis, count, temps)
    again, source = dense(Input(1), values, shape, x.dtype, temps)
    steps += again
    before, _, after = layout.shape
    if m <= FEW and m * (m + OWN) * before * after <= ALIKE:
        found, positions, row_of = positions_of(indices, sizes, 2, temps)
        steps += [
            *found,
            Launch(
                fold_few(x.dtype, kind, row_of),
                blocks(before * m * after, THREADS),
                THREADS,
                [target, source.view((before, m, after)), positions, Flag(), Ticket()],
            ),
        ]
    elif fits(layout, m):
        found, *places = positions_of(indices, sizes, 2, temps)
        steps += [
            *found,
            *row_steps("place", target, target, layout, source, *places, m, temps, kind),
        ]
    else:
        found, positions = flat_positions(indices, sizes, 2, temps)
        steps += [*found, *add_steps(target, layout, source, positions, m, temps, kind)]
    if copied is not None:
        steps += copy_part(copied, whole(Input(0), x))
    return Plan([], steps, temps)


def gather_grad(g: Layout, *indices: Layout, shape: tuple[int, ...], axis: int) -> Plan:
    """Zeros of ``shape`` with g added at the indices: the gradient of ``gather``."""
    out = g.like(shape)
    if not out.size:
        return Plan([out], [])
    count, m = len(indices), indices[0].size
    sizes = shape[axis : axis + count]
    rows = out.like((prod(shape[:axis]), prod(sizes), prod(shape[axis + count :])))
    temps: list[Layout] = []
    again, source = dense(Input(0), g, g.shape, g.dtype, temps)
    if claims(rows, m):
        found, *places = positions_of(indices, sizes, 1, temps)
        return Plan(
            [out],
            [*again, *found, *claimed_steps(Output(0), rows, source, *places, m, temps)],
            temps,
            CLAIMED,
        )
    if fits(rows, m):
        found, *places = positions_of(indices, sizes, 1, temps)
        added = row_steps("zeros", source, Output(0), rows, source, *places, m, temps)
        return Plan([out], [*again, *found, *added], temps, OWNED)
    steps: list[Launch] = fill_part(whole(Output(0), out), np.uint64(0), np.uint64(0), None)
    if g.size:
        found, positions = flat_positions(indices, sizes, 1, temps)
        steps += [
            *again,
            *found,
            *add_steps(Output(0).view(rows.shape), rows, source, positions, m, temps),
        ]
    return Plan([out], steps, temps)


def take_along_grad(g: Layout, index: Layout, *, size: int, axis: int) -> Plan:
    """Zeros of ``size`` along ``axis`` with g[..., j, ...] added at index[..., j, ...], in the
    order of j.

    Lines that are short, or many, are walked by a thread each (``gather.add_along``). Otherwise
    every element of g has a position in the result, and all are sorted and summed as rows of one
    element are.
    """
    out = g.like((*g.shape[:axis], size, *g.shape[axis + 1 :]))
    if not out.size:
        return Plan([out], [])
    before, m, after = prod(g.shape[:axis]), g.shape[axis], prod(g.shape[axis + 1 :])
    walk = m <= FEW_STEPS
    T = compute_dtype(g.dtype) if walk else g.dtype
    temps: list[Layout] = []
    total: Any = Output(0)
    if T != g.dtype:
        temps.append(out.like(dtype=T))
        total = Temp(0)
    sums = whole(total, out.like(dtype=T))
    steps: list[Launch] = fill_part(sums, np.uint64(0), np.uint64(0), None)
    if g.size:
        more, given = dense(Input(0), g, g.shape, g.dtype, temps)
        again, indices = dense(Input(1), index, g.shape, index.dtype, temps)
        steps += [*more, *again]
        shape = (before, m, after)
        if walk:
            steps.append(
                Launch(
                    add_along(g.dtype),
                    blocks(before * after, THREADS),
                    THREADS,
                    [
                        given.view(shape),
                        indices.view(shape),
                        total.view((before, size, after)),
                        Flag(),
                        Ticket(),
                    ],
                )
            )
        else:
            temps.append(Layout.new((g.size,), np.dtype(np.int64), g.device))
            positions = Temp(len(temps) - 1)
            steps.append(
                Launch(
                    along_positions,
                    blocks(g.size, THREADS),
                    THREADS,
                    [indices.view((g.size,)), positions, m, size, after, Flag(), Ticket()],
                )
            )
            steps += add_steps(
                total.view((1, out.size, 1)),
                out.like((1, out.size, 1)),
                given,
                positions,
                g.size,
                temps,
            )
    if T != g.dtype:
        steps += copy_part(sums, whole(Output(0), out))
    return Plan([out], steps, temps)
