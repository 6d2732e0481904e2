"""Matrix products on the tensor cores of compute capability 9.0: TMA brings tiles, wgmma multiplies
them.

The idea. The float32 lanes of a multiprocessor set the limit of the other kernels (dispatch.py).
Its tensor cores do 2,048 multiply-adds of 16-bit numbers per clock, sixteen times as many. To keep
them busy, the warps that multiply must do nothing else. One producer thread requests whole tiles
from the TMA hardware. Two consumer warpgroups of 128 threads issue wgmma on the tiles that have
arrived. They synchronise through barriers in shared memory alone (kernels/lib/tma_pipeline.py
explains them).

From simple to fast, each step and its purpose:

    a tile of 128 x 256, k in slabs of 64     a byte from the L2 cache is used 85 times; with fewer
                                              uses the cache sets the speed
    a ring of 4 slabs                         loads are requested 3 slabs ahead: latency is hidden
    setmaxnreg                                the producer gives its registers to the consumers,
                                              whose 64 x 256 float32 accumulators take 128 each
    persistent blocks                         the producer loads the next tile while this one is
                                              stored
    stores by stmatrix and TMA                whole 128-byte lines; sizes need no masks: TMA drops
                                              rows and columns outside
    ping-pong                                 each consumer has tiles of its own, half a tile apart:
                                              one multiplies while the other rounds, adds a bias,
                                              applies gelu and stores
    split-k                                   where tiles are too few to fill the device. A second
                                              kernel sums the parts, in a fixed order; or, sharing
                                              k, the first block of a cluster, which reads the
                                              shared memory of the others
    an early start                            barriers and tensor maps are ready when the kernel
                                              ahead ends: a launch costs a microsecond less, which
                                              counts where the product takes five

The floor: 2 M N K / (multiprocessors x 2,048 x 2 x clock), about 990 TFLOP/s at 1.83 GHz for 132 of
them; at that rate the H200 meets its power limit first, so what counts is energy: cuBLAS stays near
700.

Measured (row versions_matmul_bfloat16):
4,096 x 4,096 x 4,096, bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                                     TFLOP/s     of cuBLAS
    matmul_naive                         1.3          0.00
    matmul_tiled                         7.2          0.01
    matmul_register                     40.8          0.05
    matmul_mma                           352          0.45
    matmul_wgmma 64x64                   346          0.44
    matmul_wgmma 128x128                 743          0.95
    matmul_wgmma 128x128 pingpong        722          0.92
    matmul_wgmma 128x256                 784          1.00
    cuBLAS                               784          1.00

(end of what was measured)

Slow kernels run between the fast ones here. Under the steady load of the row matmul_bfloat16_4096
the power limit leaves both about 700.

Operands may be contiguous along k ("K") or along m or n ("M"): wgmma reads 16-bit numbers either
way. TMA needs rows at multiples of 16 bytes. The planner copies other operands (odd leading
dimensions) into padded scratch. Partial tiles cost as much as full ones: TMA fills them with
zeros.

Every sum over k runs in the same order whatever the grid: results are reproducible bit for bit.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib import tma_pipeline
from ..ptx import sm90 as ptx
from ..ptx.sm80 import divide_unsigned, global_address, store_shared_float_4
from . import epilogue_sm90

i32, i64, f32 = types.int32, types.int64, types.float32

BOX = tma_pipeline.BOX
#: kind -> (bytes of a number of A and B, dtype of the sums)
KINDS = {
    "bf16": (2, f32),
    "f16": (2, f32),
    "tf32": (4, f32),
    "s8": (1, i32),
    "e4m3": (1, f32),
    "e5m2": (1, f32),
}


class Tile(NamedTuple):
    """The compile-time choices of `matmul_wgmma`.

    kind: see KINDS. a, b: "K" or (16 bits) "M". m, n: of the tile of C. pingpong: each warpgroup
    has tiles of its own, else they share one. store: "box" (16 bits, by TMA), or, rows of any
    length, "bf16", "f16", "s8" (the low byte), "wide" (the sums as they are), "pairs" (these, rows
    of even length). activation: "", "relu", "gelu", "gelu_tanh", "silu". bias, residual: whether C
    gets a row, a matrix added. share: how many blocks, a cluster, work at one tile, each on a part
    of k (float32 sums, no pingpong). out: "bf16" or "f16" if C is of that kind and A and B are not.
    scaled: "" or two letters: A B is multiplied by a number for each row ("m") or one for all
    ("1"), and by one for each column ("n") or for all. keep: what the activation is applied to is
    stored as well. slope: the residual is not added; A B is multiplied by the activation's slope
    there. Both with "box" only. parts: how many matrices B, each an array of its own, as is its
    bias, are multiplied by one A, instead of a batch.
    """

    kind: str
    a: str
    b: str
    m: int
    n: int
    pingpong: bool
    store: str
    activation: str = ""
    bias: bool = False
    residual: bool = False
    share: int = 1
    out: str = ""
    scaled: str = ""
    keep: bool = False
    slope: bool = False
    parts: int = 1

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return 2 if self.pingpong else {64: 1, 192: 3}.get(self.m, 2)

    @property
    def registers(self) -> tuple[int, int] | None:
        """Registers of a thread of the producer and of a consumer after setmaxnreg; None: as
        launched."""
        return {1: None, 2: (40, 232), 3: (32, 160)}[self.consumers]

    @property
    def blocks_m(self) -> int:
        """How many times 64 rows a warpgroup has."""
        return self.m // BOX // (1 if self.pingpong else self.consumers)

    @property
    def depth(self) -> int:
        """Numbers along k in a slab, whose rows have 128 bytes."""
        return tma_pipeline.ROW // KINDS[self.kind][0]

    @property
    def sums(self) -> Any:
        """The dtype of the accumulators."""
        return KINDS[self.kind][1]

    @property
    def stage_bytes(self) -> int:
        """Bytes of a slab of A and of B."""
        return (self.m + self.n) * tma_pipeline.ROW

    @property
    def staging(self) -> int:
        """Bytes in which tiles of C wait for TMA: two boxes a warpgroup."""
        return 2 * self.consumers * tma_pipeline.BOX_BYTES if self.store == "box" else 0

    @property
    def stages(self) -> int:
        """Slabs in the ring: as many as fit."""
        return min(
            8,
            (tma_pipeline.SHARED - tma_pipeline.ALIGNMENT - tma_pipeline.BARRIERS - self.staging)
            // self.stage_bytes,
        )

    @property
    def shared(self) -> int:
        """Bytes of shared memory a block."""
        return (
            self.stages * self.stage_bytes
            + self.staging
            + tma_pipeline.BARRIERS
            + tma_pipeline.ALIGNMENT
        )

    @property
    def threads(self) -> int:
        """A block's: one warpgroup for the producer."""
        return 128 * (self.consumers + 1)


# ------------------------------------------------------------------------------------------------ m


@functools.cache
def _load(major: str, rows: int) -> Any:
    """A device function that asks for `rows` x a slab of an operand: (shared address, map, row, k,
    z, barrier)."""
    if major == "K":  # a box of all rows

        @device_function
        def load(at, tensor, row, k, z, barrier):
            ptx.tma_load_3d(at, tensor, k, row, z, barrier)

    else:  # boxes of 64 k x 64 rows

        @device_function
        def load(at, tensor, row, k, z, barrier):
            for box in range(rows // BOX):
                ptx.tma_load_3d(
                    i32(at + box * tma_pipeline.BOX_BYTES),
                    tensor,
                    i32(row + box * BOX),
                    k,
                    z,
                    barrier,
                )

    return load


def box_of(tile: Tile, major: str, rows: int) -> tuple[int, int, int]:
    """The box that a tensor map of an operand describes (see `_load`)."""
    return (1, rows, tile.depth) if major == "K" else (1, BOX, BOX)


@functools.cache
def _of_part(parts: int) -> tuple[Any, Any]:
    """Device functions: the map of matrix z of B, and the address of its bias."""
    if parts == 1:

        @device_function
        def only(z, first, second, third, fourth):
            return first

        @device_function
        def bias_of_all(z, bias):
            return global_address(bias)

        return only, bias_of_all

    @device_function
    def one_of(z, first, second, third, fourth):
        found = first
        if z == 1:
            found = second
        elif z == 2:
            found = third
        elif z == 3:
            found = fourth
        return found

    @device_function
    def bias_of_part(z, addresses):
        return i64(addresses[z])

    return one_of, bias_of_part


@functools.cache
def matmul_wgmma(tile: Tile) -> Any:
    """C = f(A B + bias) + residual, or parts of A B; tile by tile. See Tile."""
    stages, stage_bytes, consumers = tile.stages, tile.stage_bytes, tile.consumers
    bytes_a = tile.m * tma_pipeline.ROW
    pingpong, blocks_m, tile_m, tile_n = tile.pingpong, tile.blocks_m, tile.m, tile.n
    ring_bytes, staging_bytes = stages * stage_bytes, tile.staging
    each = tile_n // 2  # accumulators of 64 rows
    held = blocks_m * each
    depth, T = tile.depth, tile.sums
    load_a, load_b = _load(tile.a, tile_m), _load(tile.b, tile_n)
    base_a = tma_pipeline.descriptor_base(tma_pipeline.BOX_BYTES if tile.a == "M" else 16)
    base_b = tma_pipeline.descriptor_base(tma_pipeline.BOX_BYTES if tile.b == "M" else 16)
    steps_a, steps_b = (
        tma_pipeline.descriptor_steps(tile.a == "M"),
        tma_pipeline.descriptor_steps(tile.b == "M"),
    )

    def group(zero: bool, last: bool) -> Any:
        return ptx.wgmma(
            tile.kind,
            tile_n,
            steps_a,
            steps_b,
            zero=zero,
            trans_a=tile.a == "M",
            trans_b=tile.b == "M",
            commit=last,
        )

    begin, begin_last = group(True, False), group(True, True)
    add, add_last = group(False, False), group(False, True)
    one_under_way, done = ptx.wgmma_wait(1), ptx.wgmma_wait(0, held, T)
    shared_out = tile.registers is not None
    few, many = (
        (ptx.registers_down(tile.registers[0]), ptx.registers_up(tile.registers[1]))
        if tile.registers
        else (None, None)
    )
    arrivals = 1 if pingpong else consumers
    store, drain = epilogue_sm90.store(tile)
    share = tile.share
    map_of, bias_of = _of_part(tile.parts)
    quads = held // 4

    @device_function
    def gather(c, thread, at, rank):
        """The sums of the blocks that share a tile come together in the first one, in the order of
        k."""
        here = i32(at + 16 * thread)
        if rank > 0:
            ptx.named_sync(6, 128 * consumers)  # nobody reads slabs any more: their memory is free
            for i in range(quads):
                store_shared_float_4(
                    i32(here + 2048 * consumers * i),
                    c[4 * i],
                    c[4 * i + 1],
                    c[4 * i + 2],
                    c[4 * i + 3],
                )
        ptx.cluster_sync()
        if rank == 0:
            for other in range(1, share):
                for i in range(quads):
                    x, y, z, w = ptx.load_cluster_float_4(
                        i32(here + 2048 * consumers * i), i32(other)
                    )
                    c[4 * i] += x
                    c[4 * i + 1] += y
                    c[4 * i + 2] += z
                    c[4 * i + 3] += w

    @device_function
    def multiply(c, at_a, at_b, first):
        """A stage: 64 blocks_m x a slab times a slab x n."""
        b = tma_pipeline.descriptor(at_b, base_b)
        for block in range(blocks_m):
            a = tma_pipeline.descriptor(at_a + block * tma_pipeline.BOX_BYTES, base_a)
            if block + 1 == blocks_m:
                if first:
                    begin_last(c, block * each, a, b)
                else:
                    add_last(c, block * each, a, b)
            elif first:
                begin(c, block * each, a, b)
            else:
                add(c, block * each, a, b)

    @device_function
    def release(barrier, thread):
        """This warpgroup is done with a stage."""
        if thread == 0:
            ptx.barrier_arrive(barrier)

    @cuda.jit(launch_bounds=(tile.threads, 1))
    def matmul_wgmma(
        map_a,
        map_b,
        map_b1,
        map_b2,
        map_b3,
        map_c,
        map_kept,
        out,
        bias,
        residual,
        scale_a,
        scale_b,
        m,
        n,
        slabs,
        splits,
        tiles_m,
        tiles_n,
        tiles,
        both_a,
        both_b,
    ):
        """map_a: of A (batch, m, k) or, "M", (batch, k, m); map_b: of B as (batch, n, k) or, "M",
        (batch, k, n); map_b1, map_b2, map_b3: of the further matrices of several `parts`; map_c: of
        C (batch, m, n) for "box"; map_kept: of what is kept, if anything; out: C for the other ways
        to store, (splits x batch, m, n), flat. bias: (n,), or of several parts the addresses of
        such, (parts,) int64; residual: (batch, m, n), scale_a: (m,) or (1,), scale_b: (n,) or (1,),
        flat; `out` where the Tile has none. slabs: of k, a tile; splits: parts of k; tiles_m: rows
        of tiles, tiles_n: columns;
        tiles: in all, batch and parts included. both_a, both_b: 1 if there is one matrix for each
        of the batch, 0 if one for all.
        """
        shared = cuda.shared.array(0, types.uint8)
        base = tma_pipeline.first_tile(shared)
        staging = i32(base + ring_bytes)
        full = i32(staging + staging_bytes)
        empty = i32(full + 8 * stages)
        thread = i32(cuda.threadIdx.x)
        group = i32(thread >> 7)
        if thread == 0:
            ptx.prefetch_map(map_a)
            ptx.prefetch_map(map_b)
            tma_pipeline.make_ring(full, stages, 1, arrivals)
        start, stride, part = i32(cuda.blockIdx.x), i32(cuda.gridDim.x), i32(0)
        if share > 1:
            part = ptx.cluster_rank()
            start, stride = divide_unsigned(start, i32(share)), divide_unsigned(stride, i32(share))
        ptx.let_next_begin()
        ptx.wait_for_previous()
        cuda.syncthreads()

        if (
            group == 0
        ):  # ---------------------------------------------------------------- the producer
            if shared_out:
                few()
            if thread == 0:
                stage, phase = i32(0), i32(1)
                index = start
                while index < tiles:
                    z, tile_row, tile_column = tma_pipeline.tile_at(index, tiles_m, tiles_n)
                    batch = divide_unsigned(z, splits)
                    k = i32((z - batch * splits + part) * (slabs * depth))
                    row, column = i32(tile_row * tile_m), i32(tile_column * tile_n)
                    from_b = map_of(batch, map_b, map_b1, map_b2, map_b3)
                    for _ in range(slabs):
                        ptx.barrier_wait(empty + 8 * stage, phase)
                        barrier = i32(full + 8 * stage)
                        at = i32(base + stage * stage_bytes)
                        ptx.barrier_expect(barrier, stage_bytes)
                        load_a(at, map_a, row, k, i32(batch * both_a), barrier)
                        load_b(i32(at + bytes_a), from_b, column, k, i32(batch * both_b), barrier)
                        k = i32(k + depth)
                        stage, phase = tma_pipeline.advance(stage, phase, stages)
                    index = i32(index + stride)
            if share > 1:
                cuda.syncwarp()
                ptx.cluster_sync()  # one of those in `gather`
        # -------------------------------------------------------------------------- the consumers
        else:
            if shared_out:
                many()
            one = i32(group - 1)
            mine = i32(thread & 127)
            c = cuda.local.array(held, T)
            stage, phase = i32(0), i32(0)
            index = start
            from_row = i32(0)
            if pingpong:
                index = i32(start + one * stride)
                if one == 1:
                    stage, phase = tma_pipeline.skip(stage, phase, slabs, stages)
                    ptx.named_arrive(4, 256)  # the first warpgroup multiplies first
            else:
                from_row = i32(one * (blocks_m * BOX))
            while index < tiles:
                if pingpong:
                    ptx.named_sync(4 + one, 256)
                before = stage
                for slab in range(slabs):
                    ptx.barrier_wait(full + 8 * stage, phase)
                    at = i32(base + stage * stage_bytes)
                    at_a = i32(at + from_row * tma_pipeline.ROW)
                    at_b = i32(at + bytes_a)
                    if slab == 0:
                        multiply(c, at_a, at_b, True)
                    else:
                        multiply(c, at_a, at_b, False)
                        one_under_way()
                        release(i32(empty + 8 * before), mine)
                    before = stage
                    stage, phase = tma_pipeline.advance(stage, phase, stages)
                if pingpong:
                    ptx.named_arrive(5 - one, 256)
                done(c, 0)
                release(i32(empty + 8 * before), mine)
                z, tile_row, tile_column = tma_pipeline.tile_at(index, tiles_m, tiles_n)
                if share > 1:
                    gather(c, i32(thread - 128), base, part)
                    if part > 0:
                        break
                store(
                    c,
                    mine,
                    one,
                    i32(staging + one * (2 * tma_pipeline.BOX_BYTES)),
                    (map_c, map_kept),
                    out,
                    z,
                    i32(tile_row * tile_m + from_row),
                    i32(tile_column * tile_n),
                    m,
                    n,
                    (bias_of(z, bias), global_address(scale_a), global_address(scale_b)),
                    global_address(residual),
                )
                if pingpong:
                    stage, phase = tma_pipeline.skip(stage, phase, slabs, stages)
                    index = i32(index + 2 * stride)
                else:
                    index = i32(index + stride)
            drain(mine)
        if share > 1:
            cuda.syncwarp()
            ptx.cluster_sync()  # shared memory must outlive what neighbours do with it

    return matmul_wgmma
