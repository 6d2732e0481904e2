"""The weight gradient of a convolution in groups of few channels, or of few channels in one group,
by the strips of depthwise/nchw.py.

    dw[m, c, r, s] = sum over n, p, q of dy[n, m, p, q] * x[n, c, p * stride + r - top, ...]
        m, c: of one group

A matrix product like that of wgrad_simt.py would be 8 rows high for 8 outputs a group, a quarter of
its smallest tile. Here a block has one group and a share of the images. It brings a tile of the
group's channels of x (with their frame of zeros) and of dy into shared memory. A thread has one
channel and one or two outputs: it takes strips of dy, and walks the rows of x below them as the
depthwise kernel does; each number of x that it reads meets both outputs. There are few pairs of
outputs and channels (32 for 8 of each), so several threads have the same pair and take its strips
in turn. The sums of threads are added at the end in a fixed order, then those of blocks
(``strips_summed`` of wgrad_simt.py).

The red, green and blue of a first layer are one group of many outputs. Blocks share these, 64 to
each if there are as many, and all read the same channels: 147 taps would be 57 % of two tiles of
128. Taps may be 7 x 7 then. A thread has 98 sums of two outputs, so blocks are of 192 threads (32
pairs of outputs, 3 channels, twice), two to a multiprocessor, and there is one wave of blocks: on
an H200 535 us for ResNet-50's first layer and 64 images (PyTorch 821, our product 907). With 75 KB
of shared memory a block instead of 100 it took 587, with four blocks of 96 threads 538, with one of
384 threads, for which only some devices have the memory, 510.

In shared memory the planes of two channels are an odd number of 16-byte pieces apart: threads that
read the same place of different channels read from different banks.

The floor is 2 * N * K * P * Q * C / groups * R * S operations. The limit is reading shared memory:
a strip takes R + 3 rows of 2 or 3 accesses for x and 8 accesses for dy, of 16 bytes per thread
each, for 32 * R * S multiply-adds.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ...runtime.device import multiprocessors, properties
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda
from ..copy.channels_last import ReorderedPlan
from ..lib.codec import codec
from ..lib.integers import blocks
from .depthwise.nchw import (
    ACROSS,
    ENOUGH_BLOCKS,
    HIGH,
    THREADS,
    Scheme,
    access,
    divide,
    filler,
    four,
    inverse,
    place_of_tile,
    read_as,
    scheme,
    shared_out,
    straight,
)
from .geometry import numbers
from .problem import Problem
from .wgrad_simt import strips_summed

ROOM = 11776  # numbers in shared memory


class Block(NamedTuple):
    """A block for one group, whose outputs several blocks share: threads, blocks that a
    multiprocessor holds, channels and outputs at most, taps of each axis, and numbers in shared
    memory. At the end these hold the sums of all threads."""

    threads: int = 192
    blocks: int = 2
    channels: int = 4
    outputs: int = 64
    taps: int = 7
    room: int = 25_000


ALONE = Block()


class Tiles(NamedTuple):
    """How images are cut; the last arguments of the kernel, in their order. rows, pitch: of x in
    shared memory; rows_dy, pitch_dy: of dy."""

    tall: int
    broad: int
    tiles_down: int
    tiles_across: int
    rows: int
    pitch: int
    rows_dy: int
    pitch_dy: int
    by_rows: int
    by_pitch: int
    by_rows_dy: int
    by_pitch_dy: int
    down: int
    across: int
    by_across: int


def _odd(n: int) -> int:
    """The next odd number: so many pieces of 16 bytes from plane to plane keep neighbours in
    different banks."""
    return n | 1


def tiles(
    how: Scheme,
    outputs: int,
    channels: int,
    P: int,
    Q: int,
    reads: int,
    reads_dy: int,
    room: int = ROOM,
) -> Tiles:
    """The largest tiles that shared memory has room for."""
    step_down, step_across = how.rows.down, how.columns.down

    def lines(down: int, across: int) -> tuple[int, int, int, int]:
        """rows, pitch, rows_dy and pitch_dy for so many strips."""
        return (
            _odd((down - 1) * HIGH * step_down + how.height),
            4 * _odd((across - 1) * step_across + how.vectors),
            _odd(down * HIGH),
            4 * _odd(across),
        )

    def fits(down: int, across: int) -> bool:
        rows, pitch, rows_dy, pitch_dy = lines(down, across)
        return channels * rows * pitch + outputs * rows_dy * pitch_dy <= room

    strips_down, strips_across = blocks(P, HIGH), blocks(Q, 4)
    most = next(n for n in range(min(strips_across, ACROSS // 8), 0, -1) if n == 1 or fits(1, n))
    across = blocks(strips_across, blocks(strips_across, most))  # the same for all tiles
    most = next(n for n in range(strips_down, 0, -1) if n == 1 or fits(n, across))
    down = blocks(strips_down, blocks(strips_down, most))
    rows, pitch, rows_dy, pitch_dy = lines(down, across)
    tall, broad = down * HIGH, across * 4
    return Tiles(
        tall,
        broad,
        blocks(P, tall),
        blocks(Q, broad),
        rows,
        pitch,
        rows_dy,
        pitch_dy,
        inverse(rows),
        inverse(pitch // reads),
        inverse(rows_dy),
        inverse(pitch_dy // reads_dy),
        down,
        across,
        inverse(across),
    )


@functools.cache
def conv2d_few_weight(
    dtype: np.dtype,
    how: Scheme,
    outputs: int,
    channels: int,
    reads: int,
    reads_dy: int,
    alone: bool = False,
) -> Any:
    """One block per group of its share of the images. alone: groups are parts of one, they read the
    same channels."""
    _, _, C = codec(dtype)
    threads = ALONE.threads if alone else THREADS
    fill, fill_dy, read = filler(dtype, reads, threads), filler(dtype, reads_dy, threads), four(C)
    area, window, results = how.rows.taps * how.columns.taps, 4 * how.vectors, 4 * HIGH
    own = 2 - outputs % 2  # outputs of a thread
    pairs = outputs // own * channels
    workers = threads // pairs  # threads that have the same pair
    held_size, sums_size, weights = own * results, own * area, outputs * channels * area
    term = "; ".join(
        f"sums[{o * area} + {{t}}] += dy[{o * results} + {{n}}] * v[{{k}}]" for o in range(own)
    )
    strip = straight(how, "dy, sums", term, C)
    step_down, step_across, first, left = how.rows.down, how.columns.down, how.first, how.left

    @bounded((threads, ALONE.blocks) if alone else threads)
    def conv2d_few_weight(
        dy,
        x,
        partial,
        jobs,
        groups,
        images,
        H,
        W,
        P,
        Q,
        tall,
        broad,
        tiles_down,
        tiles_across,
        rows,
        pitch,
        rows_dy,
        pitch_dy,
        by_rows,
        by_pitch,
        by_rows_dy,
        by_pitch_dy,
        down,
        across,
        by_across,
    ):
        """dy (images, groups * outputs, P, Q), x (images, groups * channels, H, W), partial
        (splits, groups, outputs, channels, R * S): flat; jobs: tiles that a block adds up. by_...:
        inverses. Grid: groups, splits."""
        slab = cuda.shared.array(
            0, C
        )  # x (channels, rows, pitch), then dy (outputs, rows_dy, pitch_dy)
        v = cuda.local.array(window, C)
        held = cuda.local.array(held_size, C)
        sums = cuda.local.array(sums_size, C)
        g, t = cuda.blockIdx.x, cuda.threadIdx.x
        worker = t // pairs
        m, c = t % pairs // channels * own, t % channels
        size, size_dy = rows * pitch, rows_dy * pitch_dy
        for k in range(sums_size):
            sums[k] = C(0)
        end = min((cuda.blockIdx.y + 1) * jobs, images * tiles_down * tiles_across)
        for tile in range(cuda.blockIdx.y * jobs, end):
            image, p0, q0 = place_of_tile(tile, tall, broad, tiles_down, tiles_across)
            plane = image * groups + g
            seen = image if alone else plane
            cuda.syncthreads()
            fill(
                slab,
                0,
                x,
                seen * channels,
                1,
                channels,
                p0 * step_down + first,
                q0 * step_across + left,
                H,
                W,
                rows,
                pitch,
                by_rows,
                by_pitch,
            )
            fill_dy(
                slab,
                channels * size,
                dy,
                plane * outputs,
                1,
                outputs,
                p0,
                q0,
                P,
                Q,
                rows_dy,
                pitch_dy,
                by_rows_dy,
                by_pitch_dy,
            )
            cuda.syncthreads()
            for i in range(worker, down * across if worker < workers else 0, workers):
                p = divide(i, by_across)
                q = i - p * across
                for o in range(own):
                    at = channels * size + (m + o) * size_dy + p * HIGH * pitch_dy + 4 * q
                    for k in range(HIGH):
                        read(slab, at + k * pitch_dy, held, o * results + 4 * k)
                strip(
                    slab,
                    c * size + p * HIGH * step_down * pitch + 4 * q * step_across,
                    pitch,
                    v,
                    held,
                    sums,
                )
        cuda.syncthreads()
        for k in range(sums_size):  # the images have done their duty: their place is free
            slab[k * threads + t] = sums[k]
        cuda.syncthreads()
        for i in range(t, weights, threads):
            k = i % area
            pair = i // area // channels // own * channels + i // area % channels
            at = (i // area // channels % own * area + k) * threads + pair
            total = C(0)
            for w in range(workers):
                total += slab[at + w * pairs]
            partial[(cuda.blockIdx.y * groups + g) * weights + i] = total

    return conv2d_few_weight


# -------------------- planner


def weight_gradient(problem: Problem) -> Plan | None:
    """y (N, G*M, P, Q), x (N, G*C, H, W) -> weight (G*M, C, R, S); None where shared memory has no
    room for a tile."""
    grad, x, out = problem.y, problem.x, problem.weight
    groups, alone = problem.groups, problem.groups == 1
    (images, _, H, W), (P, Q) = x.shape, grad.shape[2:]
    if alone:  # parts of its outputs
        pairs = out.shape[0] // 2
        groups = next(
            n for n in range(1, pairs + 1) if pairs % n == 0 and pairs // n * 2 <= ALONE.outputs
        )
    outputs, channels = out.shape[0] // groups, out.shape[1]
    how, reads, reads_dy = scheme(*read_as(problem)), access(W), access(Q)
    threads, room, wave = (
        (ALONE.threads, ALONE.room, ALONE.blocks * multiprocessors(problem.device))
        if alone
        else (THREADS, ROOM, ENOUGH_BLOCKS)
    )
    size = compute_dtype(out.dtype).itemsize
    room = min(room, properties(problem.device).max_shared_memory // size)
    cut = tiles(how, outputs, channels, P, Q, reads, reads_dy, room)
    needed = max(
        channels * cut.rows * cut.pitch + outputs * cut.rows_dy * cut.pitch_dy,
        threads * (2 - outputs % 2) * out.shape[2] * out.shape[3],
    )
    if needed > room:
        return None
    plan = ReorderedPlan(out, grad, x, last=False)
    count = images * cut.tiles_down * cut.tiles_across
    jobs, splits = shared_out(count, groups, wave)
    partial = plan.temp(Layout.new((splits, out.size), compute_dtype(out.dtype), out.device))
    dy, image = [operand.flat for operand in plan.operands]
    plan.steps += [
        Launch(
            conv2d_few_weight(out.dtype, how, outputs, channels, reads, reads_dy, alone),
            (groups, splits),
            threads,
            [dy, image, partial.flat, *numbers(jobs, groups, images, H, W, P, Q, *cut)],
            shared=needed * size,
        ),
        strips_summed(problem, partial, plan.target.flat, plan.operands, [grad.like(), x.like()]),
    ]
    return plan.build()
