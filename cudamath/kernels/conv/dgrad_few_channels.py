"""The gradient of images of few channels, by the strips of depthwise/nchw.py: the red, green and
blue of a first layer.

    dx[n, c, h, w] = sum over m, r, s of w[m, c, r, s] * dy[n, m, p, q]
                     with p * stride + r - top = h   (columns alike)

A matrix product like that of fprop_simt.py has a row for each channel, 3 of its tile's 32, and a
launch for each residue of a stride. Here a thread has a strip of HIGH x (4 or 8) pixels of *all*
channels in registers, 96 sums for three. A block brings a tile of some planes m of dy, with its
frame of zeros, into shared memory, and their filters with the channels of a tap side by side, so
that one access of 16 bytes reads them. Then each thread walks down the rows of dy below its strip.
For 7 x 7 taps and a stride of 2 that is 54 accesses of shared memory, most of which read the same
address in all threads, for 1,176 multiply-adds, none of them with an avoidable zero.

The floor is 2 * N * K * P * Q * C * R * S operations at the rate of plain arithmetic: 0.25 ms for
ResNet-50's first layer and 64 images on an H200, where this takes 0.68 and cuDNN 0.97. Images
channels last are copied to C order first; 16-bit numbers are summed in float32.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ..compiler.decorators import bounded, device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import cuda, types
from ..copy.channels_last import ReorderedPlan
from ..lib.codec import codec
from ..lib.integers import blocks
from .depthwise.nchw import (
    HIGH,
    ROOM,
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
    strip_writer,
)
from .geometry import numbers
from .problem import Problem, add_bias

MOST = 4  # channels: of a tap, one access of shared memory
SUMS = (
    96  # of a thread, up to which three blocks share the registers of a multiprocessor; beyond, two
)


class Tiles(NamedTuple):
    """How planes (P, Q) of dx are cut, a strip a thread; the last arguments of the kernel, in their
    order. count: planes of dy, (rows, pitch), that shared memory holds at a time, with their
    filters."""

    count: int
    tall: int
    broad: int
    tiles_down: int
    tiles_across: int
    rows: int
    pitch: int
    by_rows: int
    by_pitch: int
    down: int
    across: int
    by_across: int


def tiles(how: Scheme, planes: int, P: int, Q: int, reads: int) -> Tiles:
    """The fewest tiles; of these the widest, which read rows in long runs."""
    wide, strips_down, strips_across = (
        how.columns.wide,
        blocks(P, HIGH),
        blocks(Q, how.columns.wide),
    )

    def cut(most: int) -> tuple[int, int, int]:
        across = blocks(strips_across, blocks(strips_across, most))
        down = min(strips_down, THREADS // across)
        down = blocks(strips_down, blocks(strips_down, down))
        return blocks(strips_down, down) * blocks(strips_across, across), -across, down

    _, across, down = min(cut(most) for most in range(1, min(strips_across, THREADS) + 1))
    across = -across
    pitch = (across - 1) * wide * how.columns.down // how.columns.up + 4 * how.vectors
    rows = (down - 1) * HIGH * how.rows.down // how.rows.up + how.height
    tall, broad = down * HIGH, across * wide
    count = max(1, min(planes, ROOM // (rows * pitch + MOST * how.rows.taps * how.columns.taps)))
    return Tiles(
        count,
        tall,
        broad,
        blocks(P, tall),
        blocks(Q, broad),
        rows,
        pitch,
        inverse(rows),
        inverse(pitch // reads),
        down,
        across,
        inverse(across),
    )


def straight(how: Scheme, channels: int, C: Any) -> Any:
    """Device function (slab, at, pitch, filters, v, u, total) that walks down the rows of dy below
    a strip, written out.

    at: place of the first row's first number; filters: of the first tap's channels, 4 numbers a
    tap; v, u: room for a row and for the channels of a tap; total (channels, rows, columns of the
    strip)."""
    wide, results = how.columns.wide, HIGH * how.columns.wide
    met = [
        [
            (k, j)
            for k in range(4 * how.vectors)
            for j, t in how.columns.pairs(how.left + k)
            if t == s
        ]
        for s in range(how.columns.taps)
    ]
    lines = ["def meet(slab, filters, v, u, n0, total):"]
    for s, pairs in enumerate(met):
        lines.append(f"    read(slab, filters + {4 * s}, u, i64(0))")
        lines += [
            f"    total[n0 + {c * results + j}] += u[{c}] * v[{k}]"
            for c in range(channels)
            for k, j in pairs
        ]
    space = {"read": four(C), "i64": types.int64}
    meet = device_function(compiled("\n".join([*lines, ""]), "meet", dict(space)))
    lines = ["def strip(slab, at, pitch, filters, v, u, total):"]
    for row in range(how.height):
        lines += [
            f"    read(slab, at + {row} * pitch + {4 * k}, v, i64({4 * k}))"
            for k in range(how.vectors)
        ]
        lines += [
            f"    meet(slab, filters + {4 * r * how.columns.taps}, v, u, i64({i * wide}), total)"
            for i, r in how.rows.pairs(how.first + row)
        ]
    return device_function(compiled("\n".join([*lines, ""]), "strip", {**space, "meet": meet}))


@functools.cache
def conv2d_few_input(dtype: np.dtype, how: Scheme, channels: int, reads: int, writes: int) -> Any:
    """One block per tile of an image. reads, writes: numbers that one access of memory moves."""
    load, _, C = codec(dtype)
    fill, strip = filler(dtype, reads), straight(how, channels, C)
    write_strip = strip_writer(dtype, how.columns.wide, writes)
    up_down, up_across = how.rows.up, how.columns.up
    wide, area, window = how.columns.wide, how.rows.taps * how.columns.taps, 4 * how.vectors
    first, left, results = how.first, how.left, HIGH * wide
    sums, filters_size = channels * results, area * MOST

    @bounded((THREADS, 3 if sums <= SUMS else 2))
    def conv2d_few_input(
        dy,
        weights,
        dx,
        planes,
        H,
        W,
        P,
        Q,
        count,
        tall,
        broad,
        tiles_down,
        tiles_across,
        rows,
        pitch,
        by_rows,
        by_pitch,
        down,
        across,
        by_across,
    ):
        """dy (images, planes, H, W), weights (planes, channels, R * S), dx (images, channels, P,
        Q): flat. A tile: `tall` x `broad` pixels, in `down` x `across` strips; in shared memory
        (count, rows, pitch) of dy, then (count, R * S, MOST) filters, turned. by_...: inverses."""
        slab = cuda.shared.array(0, C)
        v = cuda.local.array(window, C)
        u = cuda.local.array(MOST, C)
        total = cuda.local.array(sums, C)
        t = cuda.threadIdx.x
        image, p0, q0 = place_of_tile(cuda.blockIdx.x, tall, broad, tiles_down, tiles_across)
        p = divide(t, by_across)
        q = (t - p * across) * wide
        inside = p < down and p0 + p * HIGH < P and q0 + q < Q
        at = p * HIGH // up_down * pitch + q // up_across
        p = p0 + p * HIGH
        q = q0 + q
        room = count * rows * pitch
        for k in range(sums):
            total[k] = C(0)
        for m0 in range(0, planes, count):
            here = min(count, planes - m0)
            cuda.syncthreads()  # all have done with the planes before
            fill(
                slab,
                0,
                dy,
                image * planes + m0,
                1,
                here,
                p0 // up_down + first,
                q0 // up_across + left,
                H,
                W,
                rows,
                pitch,
                by_rows,
                by_pitch,
            )
            for i in range(t, here * filters_size, THREADS):
                m, k, c = i // filters_size, i % filters_size // MOST, i % MOST
                value = C(0)
                if c < channels:
                    value = load(weights[((m0 + m) * channels + c) * area + area - 1 - k])
                slab[room + i] = value
            cuda.syncthreads()
            if inside:
                for m in range(here):
                    strip(slab, m * rows * pitch + at, pitch, room + m * filters_size, v, u, total)
        if inside:
            for c in range(channels):
                to = ((image * channels + c) * P + p) * Q + q
                write_strip(dx, to, total, c * results, p, q, P, Q)

    return conv2d_few_input


# -------------------- planner


def input_gradient(problem: Problem) -> Plan | None:
    """y (N, K, P, Q), weight (K, C, R, S), bias (C,) -> x (N, C, H, W)."""
    grad, weight, out = problem.y, problem.weight, problem.x
    (_, channels, *taps), (images, planes, H, W), (P, Q) = weight.shape, grad.shape, out.shape[2:]
    how = scheme(*read_as(problem))
    cut = tiles(how, planes, P, Q, access(W))
    needed = cut.count * (cut.rows * cut.pitch + MOST * taps[0] * taps[1])
    plan = ReorderedPlan(out, grad, weight, last=False)
    dy, w = [operand.flat for operand in plan.operands]
    plan.steps.append(
        Launch(
            conv2d_few_input(out.dtype, how, channels, access(W), access(Q)),
            images * cut.tiles_down * cut.tiles_across,
            THREADS,
            [dy, w, plan.target.flat, *numbers(planes, H, W, P, Q, *cut)],
            shared=needed * compute_dtype(out.dtype).itemsize,
        )
    )
    return add_bias(plan.build(), problem)
