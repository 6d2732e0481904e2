"""Gather by index arrays, selection by masks.

The idea. An array that is indexed along some neighbouring axes is seen as a box (before, rows,
after): the indexed axes merged into ``rows``, the axes in front and behind merged too. Index arrays
become one list of row positions; ``gather`` is then out[b, j, a] = x[b, position[j], a]. Negative
positions count from the end; a position out of range sets the device's error flag (an IndexError at
the next synchronising call) and is replaced by row 0. The floor of a gather is (2 x output +
positions) bytes / bandwidth, and each row read is at least one 32-byte sector:

``gather_rows``     one thread per word of up to 8 bytes; any strides
``gather_pairs``    the same by two index arrays, of single elements or few of them
``gather_vectors``  rows of neighbours that divide into 16-byte accesses: a thread has four of them
in flight, so that
                    gathering rows costs what copying them costs
``gather_long``     rows of half a kilobyte or more: a warp moves a piece of one, and reads the
                    index once
``gather_along``    an index for each element (take_along_axis); of long rows `along_rows`
                    (take_along_axis.py)

Masks become positions in ``stream_compaction.py``. Writing into rows lives in ``scatter.py``,
adding into them (the gradient of a gather) in ``scatter_add.py``.

Measured (row versions_gather):
65,536 rows of 1,024 in random order, float32; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                         GB/s     of a copy
    gather_rows         1,452          0.34
    gather_vectors      4,011          0.95

(end of what was measured)
"""

import functools
from math import prod
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Flag, Input, Output, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16, float16
from ...core.layout import Layout
from ..compiler.decorators import WARP, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type, storage
from ..copy.contiguous import _WORDS, box, dense, widest
from ..copy.strided import index_type
from ..elementwise.generator import launch, result_layout
from ..lib.codec import codec
from ..lib.integers import blocks
from .take_along_axis import in_rows

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

THREADS = 256
IN_FLIGHT = 4  # 16-byte accesses of a thread of ``gather_vectors``
HELD = 2 * IN_FLIGHT  # 8-byte words
PAIRED = 1 << 16  # elements of a result up to which each finds its row by two index arrays itself
LONG_WARPS = 8  # of a block of ``gather_long``

# -------------------- positions


@device_function
def own(position, rows):
    """A position counted from the front; -1 if there is no such row."""
    i = position + rows if position < 0 else position
    return i if 0 <= i < rows else np.int64(-1)


@cuda.jit
def first_position(
    index, positions, size, flag, ticket
):  # index, positions: (m,); size: of the axis
    """positions[j] = index[j], counted from the front and checked."""
    j = cuda.grid(1)
    if j < positions.size:
        i = own(np.int64(index[j]), size)
        if i < 0:
            flag[0] = ticket
        positions[j] = i


@cuda.jit
def next_position(
    index, positions, size, flag, ticket
):  # index, positions: (m,); size: of the axis
    """positions[j] = positions[j] * size + index[j]: row-major position over one axis more; -1
    stays -1."""
    j = cuda.grid(1)
    if j < positions.size:
        i = own(np.int64(index[j]), size)
        if i < 0:
            flag[0] = ticket
        positions[j] = positions[j] * size + i if i >= 0 and positions[j] >= 0 else -1


@cuda.jit
def first_two_positions(
    one, other, positions, rows, columns, flag, ticket
):  # one, other, positions: (m,)
    """positions[j] = one[j] * columns + other[j]: what the two kernels above make of two index
    arrays, in one launch."""
    j = cuda.grid(1)
    if j < positions.size:
        i, k = own(np.int64(one[j]), rows), own(np.int64(other[j]), columns)
        if i < 0 or k < 0:
            flag[0] = ticket
            positions[j] = -1
        else:
            positions[j] = i * columns + k


# -------------------- gather and scatter


@device_function
def row_of(index, j, rows, flag, ticket):
    """Row index[j], counted from the front; row 0 and the flag if there is no such row."""
    i = own(np.int64(index[j]), rows)
    if i < 0:
        flag[0] = ticket
        i = np.int64(0)
    return i


@functools.cache
def word_place(index: Any) -> Any:
    """Device function (m, after) -> (b, j, a): where this thread's word lies in an array (before,
    m, after). The numbers are unsigned: nothing is spent on places that count from the end."""

    @device_function
    def word_place(m, after):
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        q = i // index(after)
        b = q // index(m)
        return b, q - b * index(m), i - q * index(after)

    return word_place


@functools.cache
def gather_rows(index: Any) -> Any:
    """out[b, j, a] = x[b, positions[j], a]; thread i takes the i-th word of the output. ``index``:
    see index_type."""
    locate = word_place(index)

    @cuda.jit
    def gather_rows(
        x, positions, out, flag, ticket
    ):  # x: (before, rows, after), positions: (m,), out: (before, m, after)
        b, j, a = locate(out.shape[1], out.shape[2])
        if b < index(out.shape[0]):
            out[b, j, a] = x[b, row_of(positions, j, x.shape[1], flag, ticket), a]

    return gather_rows


@functools.cache
def gather_pairs(index: Any) -> Any:
    """out[b, j, a] = x[b, one[j], other[j], a], as ``gather_rows``: without a list of positions in
    between."""
    locate = word_place(index)

    @cuda.jit
    def gather_pairs(x, one, other, out, lines, columns, flag, ticket):
        # x: (before, lines * columns, after), one, other: (m,), out: (before, m, after)
        b, j, a = locate(out.shape[1], out.shape[2])
        if b < index(out.shape[0]):
            row = row_of(one, j, lines, flag, ticket) * columns + row_of(
                other, j, columns, flag, ticket
            )
            out[b, j, a] = x[b, row, a]

    return gather_pairs


@functools.cache
def gather_vectors(index: Any) -> Any:
    """The same for contiguous rows of ``length`` pairs of 8-byte words; a thread moves four
    pairs."""

    @cuda.jit
    def gather_vectors(x, positions, out, rows, m, length, flag, ticket):
        # x: (before * rows * length * 2,), out: (before * m * length * 2,), both uint64; positions:
        # (m,)
        first = index(index(cuda.blockIdx.x) * index(THREADS * IN_FLIGHT) + index(cuda.threadIdx.x))
        pairs = index(out.size // 2)
        held = cuda.local.array(HELD, np.uint64)
        for k in range(IN_FLIGHT):
            i = index(first + index(k * THREADS))
            if i < pairs:
                q = i // index(length)
                b = q // index(m)
                row = b * rows + row_of(positions, q - b * index(m), rows, flag, ticket)
                pair = load_vector(x, 2 * (row * length + np.int64(i - q * index(length))), 2)
                held[2 * k] = pair[0]
                held[2 * k + 1] = pair[1]
        for k in range(IN_FLIGHT):
            i = index(first + index(k * THREADS))
            if i < pairs:
                store_vector(out, 2 * np.int64(i), (held[2 * k], held[2 * k + 1]))

    return gather_vectors


@functools.cache
def gather_long(row_of: Any, each: int) -> Any:
    """The same for rows of a warp's accesses or more: a warp moves a piece of a row, of which each
    lane has `each` pairs of 8-byte words. row_of: see ``row_of``."""
    words = 2 * each

    @cuda.jit
    def gather_long(x, positions, out, rows, m, length, pieces, flag, ticket):
        # x: (before * rows * length * 2,), out: (before * m * length * 2,), both uint64; positions:
        # (m,); pieces of a row
        held = cuda.local.array(words, np.uint64)
        item = types.uint32(cuda.blockIdx.x * LONG_WARPS + cuda.threadIdx.x // WARP)
        line = types.uint32(item // types.uint32(pieces))
        first = types.uint32(
            (item - line * types.uint32(pieces)) * types.uint32(each * WARP)
            + cuda.threadIdx.x % WARP
        )
        target = types.int64(line) * (2 * length)
        if target < out.size:
            b = line // types.uint32(m)
            row = types.int64(b) * rows + row_of(
                positions, line - b * types.uint32(m), rows, flag, ticket
            )
            for k in range(each):
                i = types.uint32(first + types.uint32(k * WARP))
                if i < length:
                    pair = load_vector(x, 2 * (row * length + types.int64(i)), 2)
                    held[2 * k] = pair[0]
                    held[2 * k + 1] = pair[1]
            for k in range(each):
                i = types.uint32(first + types.uint32(k * WARP))
                if i < length:
                    store_vector(out, target + 2 * types.int64(i), (held[2 * k], held[2 * k + 1]))

    return gather_long


def long_rows(
    x: Any, positions: Any, out: Any, row_of: Any, before: int, rows: int, m: int, pairs: int
) -> Launch | None:
    """The launch of ``gather_long`` from (before, rows, pairs) to (before, m, pairs); None for rows
    that are too short."""
    accesses = blocks(pairs, WARP)
    each = 3 if accesses % 3 == 0 else min(accesses, 2)
    pieces = blocks(accesses, each)
    items, word = before * m * pieces, np.dtype(np.uint64)
    if pairs < WARP or items >= 1 << 31:
        return None
    return Launch(
        gather_long(row_of, each),
        blocks(items, LONG_WARPS),
        LONG_WARPS * WARP,
        [
            x.view((before * rows * pairs * 2,), dtype=word),
            positions,
            out.view((before * m * pairs * 2,), dtype=word),
            rows,
            m,
            pairs,
            pieces,
            Flag(),
            Ticket(),
        ],
    )


# -------------------- along one axis


@functools.cache
def gather_along(index: Any, word: np.dtype, last: bool) -> Any:
    """out[b, j, a] = x[b, indices[b, j, a], a]; last: there is but one a. A thread takes IN_FLIGHT
    elements: all indices are read before the first is used, and so are the elements. Beyond the end
    it reads the last one again."""
    W = numba_type(word)

    @cuda.jit
    def gather_along(
        x, indices, out, m, flag, ticket
    ):  # x: (before, n, after); indices, out: (before * m * after,)
        first = index(index(cuda.blockIdx.x) * index(THREADS * IN_FLIGHT) + index(cuda.threadIdx.x))
        n, after = x.shape[1], index(x.shape[2])
        rows = cuda.local.array(IN_FLIGHT, np.int64)
        found = cuda.local.array(IN_FLIGHT, W)
        for e in range(IN_FLIGHT):
            i = min(index(first + index(e * THREADS)), index(out.size - 1))
            rows[e] = indices[i]
        wrong = False
        for e in range(IN_FLIGHT):
            i = min(index(first + index(e * THREADS)), index(out.size - 1))
            k = rows[e] + n if rows[e] < 0 else rows[e]
            outside = k < 0 or k >= n
            wrong = wrong or outside
            q = i if last else i // after
            found[e] = x[q // index(m), 0 if outside else k, 0 if last else i - q * after]
        for e in range(IN_FLIGHT):
            i = index(first + index(e * THREADS))
            if i < out.size:
                out[i] = found[e]
        if wrong:
            flag[0] = ticket

    return gather_along


@cuda.jit
def along_positions(
    index, positions, m, size, after, flag, ticket
):  # index, positions: (before * m * after,)
    """positions[i] = where index[b, j, a] leads: (b * size + index[b, j, a]) * after + a, or -1 if
    out of range."""
    i = cuda.grid(1)
    if i < positions.size:
        q = i // after
        b = q // m
        k = own(np.int64(index[i]), size)
        if k < 0:
            flag[0] = ticket
            positions[i] = -1
        else:
            positions[i] = (b * size + k) * after + i - q * after


@functools.cache
def add_along(dtype: np.dtype) -> Any:
    """out[b, index[b, j, a], a] += g[b, j, a] for j = 0, 1, ... in this order: one thread owns a
    column (b, a). ``out`` starts as zeros, in the compute dtype. Parallel over columns only: m
    steps one after another."""
    load, _, T = codec(dtype)

    @cuda.jit
    def add_along(
        g, index, out, flag, ticket
    ):  # g, index: (before, m, after); out: (before, n, after) of T
        i = cuda.grid(1)
        b = i // out.shape[2]
        if b < out.shape[0]:
            a = i - b * out.shape[2]
            n = out.shape[1]
            for j in range(g.shape[1]):
                k = own(np.int64(index[b, j, a]), n)
                if k < 0:
                    flag[0] = ticket
                else:
                    out[b, k, a] += load(g[b, j, a])

    return add_along


# -------------------- planners


def _blocks(n: int) -> int:
    return -(-n // THREADS)


def lists(indices: tuple[Layout, ...], first: int, temps: list[Layout]) -> tuple[list, list]:
    """The index arrays (inputs ``first`` ...) as lists: (steps, arguments)."""
    steps, arguments = [], []
    for k, index in enumerate(indices):
        more, source = dense(Input(first + k), index, index.shape, index.dtype, temps)
        steps += more
        arguments.append(source.flat)
    return steps, arguments


def flat_positions(
    indices: tuple[Layout, ...], sizes: tuple[int, ...], first: int, temps: list[Layout]
) -> tuple:
    """Steps that merge the index arrays (inputs ``first`` ..., all of one shape) over axes of these
    sizes into one list of checked row positions; returns (steps, argument of the list). Appends to
    ``temps``."""
    m = indices[0].size
    device = indices[0].device
    temps.append(Layout.new((m,), np.dtype(np.int64), device))
    positions = Temp(len(temps) - 1).flat
    steps, sources = lists(indices, first, temps)
    begun = min(len(indices), 2)
    kernel = first_two_positions if begun == 2 else first_position
    steps.append(
        Launch(
            kernel,
            _blocks(m),
            THREADS,
            [*sources[:begun], positions, *sizes[:begun], Flag(), Ticket()],
        )
    )
    for source, size in zip(sources[begun:], sizes[begun:], strict=True):
        steps.append(
            Launch(next_position, _blocks(m), THREADS, [source, positions, size, Flag(), Ticket()])
        )
    return steps, positions


def gather(x: Layout, *indices: Layout, axis: int, version: str | None = None) -> Plan:
    """x indexed along ``len(indices)`` axes from ``axis`` on by arrays of one shape. version: None,
    "rows" or "vectors"."""
    count = len(indices)
    out = x.like((*x.shape[:axis], *indices[0].shape, *x.shape[axis + count :]))
    temps: list[Layout] = []
    if not (out.size and x.size):  # nothing to move, but positions out of range are still an error
        return Plan(
            [out], flat_positions(indices, x.shape[axis : axis + count], 1, temps)[0], temps
        )
    m = indices[0].size
    by_pairs = count == 2 and version is None and out.size <= max(m, PAIRED)
    if count == 1 or by_pairs:
        steps, positions = lists(indices, 1, temps)
    else:
        steps, merged = flat_positions(indices, x.shape[axis : axis + count], 1, temps)
        positions = [merged]
    more, argument, layout, _ = box(Input(0), x, axis, count, temps)
    before, rows, after = layout.shape
    nbytes = after * x.itemsize
    if (
        layout.contiguous
        and layout.aligned
        and nbytes % 16 == 0
        and not SIMULATOR
        and version != "rows"
        and not by_pairs
    ):
        long = long_rows(argument, *positions, Output(0), row_of, before, rows, m, nbytes // 16)
        if long and version is None:
            return Plan([out], [*steps, *more, long], temps)
        pairs = out.nbytes // 16
        word = np.dtype(np.uint64)
        launch = Launch(
            gather_vectors(index_type(pairs)),
            -(-pairs // (THREADS * IN_FLIGHT)),
            THREADS,
            [
                argument.view((layout.nbytes // 8,), dtype=word),
                *positions,
                Output(0).view((out.nbytes // 8,), dtype=word),
                rows,
                m,
                nbytes // 16,
                Flag(),
                Ticket(),
            ],
        )
        return Plan([out], [*steps, *more, launch], temps)
    flat = out.like((before, m, after))
    source, target = widest((argument, layout), (Output(0).view(flat.shape, flat.strides), flat))
    words = prod(target.shape)
    kernel, sizes = (gather_pairs, x.shape[axis : axis + 2]) if by_pairs else (gather_rows, ())
    launch = Launch(
        kernel(index_type(words)),
        _blocks(words),
        THREADS,
        [source, *positions, target, *sizes, Flag(), Ticket()],
    )
    return Plan([out], [*steps, *more, launch], temps)


def take_along(x: Layout, index: Layout, *, axis: int) -> Plan:
    """out[..., j, ...] = x[..., index[..., j, ...], ...]; the other axes are of equal size."""
    out = x.like(index.shape)
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    steps, argument, layout, _ = box(Input(0), x, axis, 1, temps)
    more, given = dense(Input(1), index, index.shape, index.dtype, temps)
    word = np.dtype(_WORDS[x.itemsize])
    if x.itemsize < 16:
        brought = in_rows(
            layout,
            index.like() if more else index,
            index.shape[axis],
            word,
            (argument, given, Output(0)),
        )
        if brought:
            return Plan([out], [*steps, *more, brought], temps)
    kernel = gather_along(index_type(out.size + THREADS * IN_FLIGHT), word, layout.shape[2] == 1)
    launch = Launch(
        kernel,
        blocks(out.size, THREADS * IN_FLIGHT),
        THREADS,
        [
            argument.view(layout.shape, layout.strides, dtype=word),
            given.view((out.size,)),
            Output(0).view((out.size,), dtype=word),
            index.shape[axis],
            Flag(),
            Ticket(),
        ],
    )
    return Plan([out], [*steps, *more, launch], temps)


def _by_value(dtype: np.dtype) -> np.dtype:
    """What a run-time scalar of a dtype is passed as: of 16-bit floats its bits."""
    return storage(dtype) if dtype in (float16, bfloat16) else dtype


@device_function
def _first_if(mask, a, b):
    return a if mask else b


@device_function
def _last_if(x, mask, value):
    return value if mask else x


def where(mask: Layout, a: Layout, b: Layout) -> Plan:
    """mask ? a : b, broadcast; a and b of one dtype."""
    shape = shapes.broadcast_shapes("where", mask.shape, a.shape, b.shape)
    out = result_layout([mask, a, b], shape, a.dtype)
    return Plan([out], [launch(_first_if, (mask, a, b), out, Output(0))])


def where_number(
    mask: Layout, a: Layout | None = None, *, swapped: bool, dtype: np.dtype | None = None
) -> Plan:
    """mask ? a : number, broadcast; swapped: mask ? number : a. Scalar: the number, in a's dtype
    (see `_by_value`). Without an array a: mask ? number : number, of this dtype; scalars: both."""
    if a is None:
        number, out = _by_value(dtype), result_layout([mask], mask.shape, dtype)
        return Plan([out], [launch(_first_if, (mask, number, number), out, Output(0))])
    number = _by_value(a.dtype)
    out = result_layout([mask, a], shapes.broadcast_shapes("where", mask.shape, a.shape), a.dtype)
    return Plan(
        [out],
        [launch(_first_if, (mask, number, a) if swapped else (mask, a, number), out, Output(0))],
    )


def where_into(x: Layout, mask: Layout, value: Layout | None = None) -> Plan:
    """``x = mask ? value : x`` in place; mask and value broadcast to x; x and value of one dtype.
    Without an array of values the scalar is the value, in x's dtype (see `_by_value`)."""
    return Plan(
        [],
        [launch(_last_if, (x, mask, _by_value(x.dtype) if value is None else value), x, Input(0))],
    )
