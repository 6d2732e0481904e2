"""TMA pipelines and wgmma operands: the parts that the tensor-core kernels of SM 9.0 (products,
convolutions, attention) share.

Shared-memory tiles. TMA writes a box of rows of 128 bytes (64 numbers of 16 bits) with the
*128-byte swizzle*: the 16-byte chunk c of row r lies at chunk c xor (r % 8) of that row. So eight
threads that read one chunk each of eight rows below each other hit all banks, and wgmma reads tiles
so at full speed. A block of such rows begins at a multiple of 1,024 bytes.

Descriptors. wgmma finds an operand through 64 bits: start address / 16, two distances / 16, and the
swizzle. With 128-byte swizzle there are two cases:

    contiguous along k       Rows are those of the operand (m or n), 64 k each; the next 8 rows
    ("K")                    follow after 1,024 bytes. A step of 16 k (32 bytes) adds 2 to the
                             descriptor: 32 / 16.
    contiguous along m or n  Rows are k, 64 m (n) each; the next 8 k follow after 1,024 bytes, the
    ("M")                    next 64 m (n) after `lead` bytes. A step of 16 k is 16 rows: 2,048
                             bytes, 128.

The ring. A producer thread keeps `stages` boxes in flight; consumers multiply them in order. Each
stage has two barriers: `full` completes when the bytes are there, `empty` when every consumer is
done with them. Positions in the ring are (stage, phase); the producer starts in phase 1, the
consumers in phase 0, so that the producer's first wait at `empty` returns at once.

Tiles. Blocks are persistent: block i works on tiles i, i + grid, .. in an order in which the blocks
that run together share rows and columns in the L2 cache (`tile_at`).
"""

from __future__ import annotations

import functools
from typing import Any

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..ptx import sm90 as ptx
from ..ptx.sm80 import divide_unsigned, pack_bf16, pack_f16, shared_address, store_matrix_4

i32, i64 = types.int32, types.int64

ROW = 128  # bytes of a row of a tile
BOX = 64  # rows of a box that is loaded at a time, and its columns of 16 bits
BOX_BYTES = BOX * ROW
ALIGNMENT = 1024  # of a tile
GROUP = 16  # tile rows walked together
BARRIERS = 256  # bytes set aside for them behind the tiles
SHARED = 227 << 10  # bytes of shared memory that a block can have


def descriptor_base(lead: int = 16, row: int = ROW) -> int:
    """A descriptor without its address, an int64: a swizzle of rows of 128, 64 or 32 bytes, 8 rows
    to the next 8, `lead` bytes from one block of 64 columns to the next (operands contiguous along
    m or n)."""
    bits = ({128: 1, 64: 2, 32: 3}[row] << 62) | ((8 * row >> 4) << 32) | ((lead >> 4) << 16)
    return bits - (1 << 64) if bits >> 63 else bits


def descriptor_steps(transposed: bool, count: int = 4) -> tuple[int, ...]:
    """What to add to a descriptor for each instruction along 128 bytes of k (transposed: along 64
    rows of k)."""
    return tuple(i * (128 if transposed else 2) for i in range(count))


def ring_stages(stage: int, kept: int = 0) -> int:
    """How many stages of so many bytes there is room for beside `kept` bytes, at most 8: more hide
    nothing."""
    return min(8, (SHARED - 2 * ALIGNMENT - kept) // stage)


def ring_bytes(stage: int, stages: int, kept: int = 0) -> int:
    """Dynamic shared memory: stages, two barriers each, what is kept beside them, and room to align
    the first."""
    return ALIGNMENT + stages * (stage + 16) + kept


@device_function
def descriptor(address, base):
    """The descriptor of the tile at a shared address."""
    return ((i64(address) & 0x3FFFF) >> 4) | base


@device_function
def first_tile(shared):
    """The shared address of the first multiple of ALIGNMENT in a dynamic shared array."""
    return i32((shared_address(shared) + (ALIGNMENT - 1)) & -ALIGNMENT)


@device_function
def advance(stage, phase, stages):
    """The next position in a ring."""
    if stage + 1 == stages:
        return i32(0), i32(phase ^ 1)
    return i32(stage + 1), i32(phase)


@device_function
def skip(stage, phase, count, stages):
    """The position `count` stages on."""
    at = stage + count
    rounds = divide_unsigned(at, stages)
    return i32(at - rounds * stages), i32((phase + rounds) & 1)


@device_function
def make_ring(full, stages, producers, consumers):
    """Initialise the barriers of a ring (one thread): `full` at this address, 8 bytes each, `empty`
    behind them."""
    for stage in range(stages):
        ptx.barrier_init(full + 8 * stage, producers)
        ptx.barrier_init(full + 8 * (stages + stage), consumers)
    ptx.fence_barrier_init()
    ptx.fence_async_shared()


@device_function
def refill(full, stages, stage, phase, count):
    """The producer: wait until a stage of the ring is empty; the barrier at which `count` bytes are
    now expected."""
    ptx.barrier_wait(i32(full + 8 * (stages + stage)), phase)
    ptx.barrier_expect(i32(full + 8 * stage), count)
    return i32(full + 8 * stage)


@device_function
def release(full, stages, stage, thread):
    """A consumer: the warpgroup whose `thread` this is (0 speaks for it) is done with a stage of
    the ring."""
    if thread == 0:
        ptx.barrier_arrive(i32(full + 8 * (stages + stage)))


@device_function
def tile_at(index, tiles_m, tiles_n):
    """(z, tile row, tile column) of the index-th tile: z outermost, then groups of GROUP rows,
    columns within them."""
    each = i32(tiles_m * tiles_n)
    z = divide_unsigned(index, each)
    rest = i32(index - z * each)
    group = divide_unsigned(rest, i32(GROUP * tiles_n))
    first = i32(group * GROUP)
    height = i32(min(tiles_m - first, GROUP))
    rest = i32(rest - group * i32(GROUP * tiles_n))
    column = divide_unsigned(rest, height)
    return z, i32(first + rest - column * height), column


@functools.cache
def stage_box(kind: str, prepare: Any = None, finish: Any = None) -> Any:
    """A device function that rounds a warpgroup's accumulators for 64 x 64 numbers to 16 bits and
    writes them to shared memory as TMA wants to store them: (accumulators, index of the first,
    thread of the warpgroup, named barrier, shared address, more). The warpgroup meets at the
    barrier before anything is written.

    prepare(beside, row, column, more) fills beside, (24,) int32 registers, before that: what has to
    come from memory. finish(value, its right neighbour, number of the pair, row, column, beside,
    more) -> both is applied first, if given. A thread has pairs (row, column + 8 i) with number 2
    i, and eight rows below with number 2 i + 1; within the box.
    """
    pack = pack_bf16 if kind == "bf16" else pack_f16

    if finish is None:

        @device_function
        def ask(beside, row, column, more):
            return

        @device_function
        def pair(c, i, number, row, column, beside, more):
            return pack(c[i], c[i + 1])

    else:
        ask = prepare

        @device_function
        def pair(c, i, number, row, column, beside, more):
            x, y = finish(c[i], c[i + 1], number, row, column, beside, more)
            return pack(x, y)

    @device_function
    def columns_16(c, first, j, at, chunk, lane, row, column, beside, more):
        i, left, right, n = first + 8 * j, i32(column + 16 * j), i32(column + 16 * j + 8), 4 * j
        store_matrix_4(
            i32(at + (((chunk + 2 * j) ^ (lane & 7)) << 4)),
            pair(c, i, n, row, left, beside, more),
            pair(c, i + 2, n + 1, i32(row + 8), left, beside, more),
            pair(c, i + 4, n + 2, row, right, beside, more),
            pair(c, i + 6, n + 3, i32(row + 8), right, beside, more),
        )

    @device_function
    def stage_box(c, first, thread, barrier, address, more):
        lane = i32(thread & 31)
        warp = i32(thread >> 5)
        # lane l names row l % 8 of the 8 x 8 tile l / 8: tiles 0 and 1 are above each other, 2 and
        # 3 right of them
        at = i32(address + (warp * 16 + (lane & 15)) * ROW)
        chunk = i32(lane >> 4)
        row = i32(warp * 16 + (lane >> 2))
        column = i32(2 * (lane & 3))
        beside = cuda.local.array(24, i32)
        ask(beside, row, column, more)
        ptx.named_sync(barrier, 128)
        # four times 16 columns; written out, so that the accumulators' indices are constants (see
        # matmul/epilogue_sm90.py); no literals, for which `columns_16` would be compiled four times
        columns_16(c, first, i64(0), at, chunk, lane, row, column, beside, more)
        columns_16(c, first, i64(1), at, chunk, lane, row, column, beside, more)
        columns_16(c, first, i64(2), at, chunk, lane, row, column, beside, more)
        columns_16(c, first, i64(3), at, chunk, lane, row, column, beside, more)

    return stage_box
