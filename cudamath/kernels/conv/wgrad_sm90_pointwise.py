"""The weight gradient of filters of one tap on tensor cores of compute capability 9.0, where two
blocks share a tile's sum.

Without windows and strides dw = dy.T @ x is a plain product: few results, each a sum over all
pixels. wgrad_sm90.py explains how pixels are loaded and multiplied. For 2,048 x 512 filters there
are 64 tiles of 128 x 128, one for half of the multiprocessors, so the pixels are split. The time
then depends on how the partial sums are combined.

Two blocks that sum up the same tile, each over its share of the pixels, are a *pair*: a cluster of
two. When a block has finished, it sends its sums of one half of the columns from its registers into
the other's shared memory, and receives those of its own half (`swap_halves`). A barrier there
counts the bytes that arrive (``st.async``), so no other synchronisation is needed, and a block may
end when it has received all. Half a tile is then rounded and stored by TMA. Nothing goes through
global memory.

Where two blocks for each tile are too few, there are several pairs. Their sums go to memory in
float32, and a second kernel (lib/split_k_reduce.py) adds them in a fixed order.

Measured on an H200, 3,136 pixels, 2,048 x 512 filters: 13.9 us. Two blocks of which the first reads
the other's sums (matmul/sm90.py, "share 2") take 17.7, and cuBLAS 14.4; in CUDA graphs 12.7, 14.5
and 11.6. Of these the multiplication takes 7.3, at the full rate of the tensor cores; 1.2 until the
first pixels arrive; 0.6, 0.5 and 0.5 to send, to receive and to store; 1.1 from the end of one
kernel to the next one's start. Tried:

- tiles of 128 x 256 in clusters of 4 (35 us);
- for larger images clusters of 4 and 8 (1.4 to 1.6 times as long: the device has no room for 128
  such blocks);
- sums that are sent into the ring's own memory once it is free (14.8);
- pixels prefetched into the second-level cache before the kernel ahead has ended (15.4 for 6 steps,
  20 for 24).

50,176 pixels, 512 x 128 filters, sixteen parts: 24.0 us (25.1 with six stages and an adder that
waited for each of its loads, cuBLAS and PyTorch 23.9), in CUDA graphs 22.5 (23.0, 21.5); of these
20.4 without the adder, and 15 for the memory. Tried: steps dealt to the blocks in turn, not in a
run each (the same); four stages (22.9).

The floor: 2 * pixels * outputs * channels operations, or the bytes of dy and x, each read once.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import TensorMap
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16, float32
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.channels_last import ReorderedPlan
from ..lib.integers import blocks
from ..lib.split_k_reduce import add
from .problem import Problem
from .tiles_sm90 import THREADS, store_channels
from .wgrad_sm90 import PIECE, PIXELS, sum_of_steps

if not SIMULATOR:
    from ..lib import tma_pipeline
    from ..lib.cluster_exchange import cluster_arrive, cluster_wait, send_quad
    from ..ptx import sm80 as ptx_sm80
    from ..ptx import sm90 as ptx

SIDE = 128  # outputs and channels of a tile
STAGE = 4 * PIECE  # bytes of a step: 64 pixels of both
HALF = 16384  # bytes that a warpgroup receives: half the sums of its 64 x 128
EXCHANGE = 2 * (HALF + 8)  # bytes: for both warpgroups, and a barrier each
BESIDE = 2048  # bytes left to a block of the kernel that adds parts
i32, i64, f32 = types.int32, types.int64, types.float32


@functools.cache
def swap_halves(count: int) -> Any:
    """A device function that adds `count` sums per thread of the same warpgroup in the two blocks
    of a pair, each block one half: (sums, the half to be filled, rank, shared address where this
    thread's numbers arrive, barrier that counts them).

    Rank 0 has the first half. Quads of a warpgroup's threads follow each other, 2,048 bytes. a + b
    = b + a: the same bits whoever adds."""
    own, quads = count // 2, count // 8

    @device_function
    def swap_halves(sums, mine, rank, here, barrier):
        if rank == 0:
            for i in range(quads):
                e = own + 4 * i
                send_quad(
                    i32(here + 2048 * i),
                    barrier,
                    sums[e],
                    sums[e + 1],
                    sums[e + 2],
                    sums[e + 3],
                    i32(1),
                )
            for i in range(own):
                mine[i] = sums[i]
        else:
            for i in range(quads):
                e = 4 * i
                send_quad(
                    i32(here + 2048 * i),
                    barrier,
                    sums[e],
                    sums[e + 1],
                    sums[e + 2],
                    sums[e + 3],
                    i32(0),
                )
            for i in range(own):
                mine[i] = sums[own + i]
        ptx.barrier_wait_cluster(barrier, i32(0))
        for i in range(quads):
            x, y, z, w = ptx_sm80.load_shared_float_4(i32(here + 2048 * i))
            e = 4 * i
            mine[e], mine[e + 1] = f32(mine[e] + x), f32(mine[e + 1] + y)
            mine[e + 2], mine[e + 3] = f32(mine[e + 2] + z), f32(mine[e + 3] + w)

    return swap_halves


def ring_stages(whole: bool) -> int:
    """Stages of the ring. Of parts one fewer: then blocks of the kernel that adds them, and after
    these the next call's, are on the multiprocessor before they can begin."""
    return tma_pipeline.ring_stages(STAGE, EXCHANGE if whole else EXCHANGE + BESIDE)


@functools.cache
def conv2d_weight_pairs(dtype: np.dtype, whole: bool) -> Any:
    """Half a tile of the weight gradient a block, over the pixels of both blocks of its pair.
    whole: these are all, so results are stored, else float32 parts."""
    kind = "bf16" if dtype == bfloat16 else "f16"
    stages = ring_stages(whole)
    ring = stages * STAGE
    add_steps = sum_of_steps(kind, [(SIDE, 0, 0, 0)], PIECE, PIECE, stages, STAGE)
    swap = swap_halves(SIDE // 2)
    stage_box, read = tma_pipeline.stage_box(kind), ptx.bulk_wait(0, read=True)
    divide = ptx_sm80.divide_unsigned

    @device_function
    def ask(to, grads, images, output, channel, at, barrier):
        """For a step."""
        ptx.tma_load_2d(to, grads, output, at, barrier)
        ptx.tma_load_2d(i32(to + PIECE), grads, i32(output + 64), at, barrier)
        ptx.tma_load_2d(i32(to + 2 * PIECE), images, channel, at, barrier)
        ptx.tma_load_2d(i32(to + 3 * PIECE), images, i32(channel + 64), at, barrier)

    @cuda.jit(launch_bounds=(THREADS, 1))
    def conv2d_weight_pairs(
        grads, images, result, partial, across, tiles, steps, units, channels, outputs
    ):
        """grads, images: tensor maps of dy (pixels, outputs) and x (pixels, channels), boxes
        (PIXELS, 64); result: map of dw (1, outputs, channels), box (1, 64, 64), if whole; else
        partial (parts, outputs, channels), as a line.

        across: tiles in a row; tiles: in all; steps: of PIXELS pixels; units: blocks to a tile,
        which share them, at most so many."""
        base = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        received = i32(base + ring)
        full = i32(received + 2 * HALF)
        arrived = i32(full + 16 * stages)
        thread = i32(cuda.threadIdx.x)
        group = i32(thread >> 7)
        pair = i32(cuda.blockIdx.x >> 1)
        rank = i32(cuda.blockIdx.x & 1)
        part = divide(pair, tiles)
        tile = i32(pair - part * tiles)
        row = divide(tile, across)
        output = i32(SIDE * row)
        channel = i32(SIDE * (tile - row * across))
        unit = i32(2 * part + rank)
        begin = i32(PIXELS * divide(i32(steps * unit), units))
        end = i32(PIXELS * divide(i32(steps * (unit + 1)), units))
        if thread == 0:
            ptx.prefetch_map(grads)
            ptx.prefetch_map(images)
            for i in range(2):
                ptx.barrier_init(i32(arrived + 8 * i), 1)
                ptx.barrier_expect(i32(arrived + 8 * i), HALF)
            tma_pipeline.make_ring(full, stages, 1, 2)
        cluster_arrive()
        ptx.let_next_begin()
        ptx.wait_for_previous()
        at = begin
        if thread == 0:  # the first ones need not wait for the threads that multiply
            filled = i32(0)
            while filled < stages and at < end:
                barrier = i32(full + 8 * filled)
                ptx.barrier_expect(barrier, STAGE)
                ask(i32(base + filled * STAGE), grads, images, output, channel, at, barrier)
                at = i32(at + PIXELS)
                filled = i32(filled + 1)
        cuda.syncthreads()
        if group == 0:  # ---------------- the one that fetches
            if thread == 0:
                stage, phase = i32(0), i32(0)
                while at < end:
                    barrier = tma_pipeline.refill(full, stages, stage, phase, STAGE)
                    ask(i32(base + stage * STAGE), grads, images, output, channel, at, barrier)
                    stage, phase = tma_pipeline.advance(stage, phase, stages)
                    at = i32(at + PIXELS)
            cuda.syncwarp()
            cluster_wait()
        else:  # ---------------- those that multiply
            me = i32(group - 1)
            thread = i32(thread & 127)
            total = cuda.local.array(64, f32)
            mine = cuda.local.array(32, f32)
            add_steps(
                total, full, i32(base + me * PIECE), i32(base + 2 * PIECE), begin, end, thread
            )
            cluster_wait()  # the other block has begun, long since
            here = i32(received + me * HALF)
            swap(total, mine, rank, i32(here + 16 * thread), i32(arrived + 8 * me))
            output = i32(output + 64 * me)
            channel = i32(channel + 64 * rank)
            if whole:
                stage_box(mine, 0, thread, i32(1 + me), here, i32(0))
                ptx.fence_async_shared()
                ptx.named_sync(i32(1 + me), 128)
                if thread == 0:
                    ptx.tma_store_3d(result, channel, output, i32(0), here)
                    ptx.bulk_commit()
                    read()  # shared memory must outlive the store
            else:
                column = i32(channel + 2 * (thread & 3))
                for half in range(2):
                    line = i32(output + 8 * half + (thread >> 5) * 16 + ((thread & 31) >> 2))
                    if line < outputs:
                        store_channels(
                            partial,
                            (i64(part) * outputs + line) * channels + column,
                            mine,
                            2 * half,
                            column,
                            channels,
                        )

    return conv2d_weight_pairs


# -------------------- planner


def parts_of(tiles: int, steps: int, many: int) -> int:
    """How many pairs of blocks a tile has: as many as fill the multiprocessors, each block with a
    step at least."""
    return max(1, min(many // 2 // tiles, steps // 2))


def weight_gradient(problem: Problem, parts: int | None = None) -> Plan | None:
    """y (N, M, P, Q), x (N, C, P, Q) -> weight (M, C, 1, 1). parts: pairs of blocks that share a
    tile."""
    grad, x, out = problem.y, problem.x, problem.weight
    images, outputs, tall, wide = grad.shape
    channels = x.shape[1]
    positions = images * tall * wide
    steps = blocks(positions, PIXELS)
    across = blocks(channels, SIDE)
    tiles = across * blocks(outputs, SIDE)
    parts = min(parts or parts_of(tiles, steps, multiprocessors(problem.device)), steps // 2)
    plan = ReorderedPlan(out, grad, x)
    target = plan.target.view((out.size,))
    whole = parts == 1
    partial = (
        target if whole else plan.temp(Layout.new((parts, out.size), float32, out.device)).flat
    )
    maps = [
        TensorMap(operand, (positions, columns), None, (PIXELS, 64), kind=x.dtype.name)
        for operand, columns in zip(plan.operands, (outputs, channels), strict=True)
    ]
    of_result = TensorMap(plan.target, (1, outputs, channels), None, (1, 64, 64), kind=x.dtype.name)
    numbers = [np.int32(n) for n in (across, tiles, steps, 2 * parts, channels, outputs)]
    shared = tma_pipeline.ring_bytes(STAGE, ring_stages(whole), EXCHANGE)
    arguments = [*maps, of_result if whole else np.int64(0), partial, *numbers]
    plan.steps.append(
        Launch(
            conv2d_weight_pairs(x.dtype, whole),
            2 * parts * tiles,
            THREADS,
            arguments,
            shared,
            2,
            early=True,
        )
    )
    if not whole:
        plan.steps.append(add(out, parts, partial, target, early=True))
    return plan.build()
