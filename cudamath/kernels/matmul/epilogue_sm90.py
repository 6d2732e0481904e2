"""The epilogue of products by wgmma: bias, activation, residual, rounding and stores of the
accumulators.

Two ways out. Rows of 16-bit numbers that TMA can store go through shared memory, 64 x 64 at a time:
rounded, written by stmatrix, sent as a box, while the next box is under way in the other half of
the memory. All others are stored from registers, pair by pair. Numbers that come in beside C (bias,
residual) are requested a whole box ahead of their use: one wait for memory, not sixteen.

A warpgroup's epilogue is 64 x n numbers on four warps, one a scheduler. Three things count: few
instructions, all numbers in registers (so loops over them are written out), and, with tiles that
two warpgroups take in turn, that the other one multiplies meanwhile.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import types
from ..lib import tma_pipeline
from ..ptx import sm90 as ptx
from ..ptx.sm80 import (
    exp2,
    global_address,
    load_global,
    load_global_float,
    load_global_float_2,
    maximum_nan,
    minimum,
    pack_bf16,
    pack_f16,
    reciprocal,
    store_global,
    store_global_2,
    store_global_byte,
    store_global_float,
    store_global_float_2,
    store_global_half,
    unpack_bf16,
    unpack_f16,
)

i32, i64, f32 = types.int32, types.int64, types.float32

BOX = tma_pipeline.BOX
LOG2_E = math.log2(math.e)
#: log2 P(Z > t), Z normal, as a polynomial in t, highest power first: within 7e-6 for t up to 6.5
#: (where P is 4e-11), and falling beyond. FAR: from there on the power of two is 0.
LOG2_TAIL = (
    -1.757776885824569e-06,
    5.9936584875686094e-05,
    -0.0009163629729300737,
    0.008447385393083096,
    -0.05382450297474861,
    -0.4586157202720642,
    -1.1511801481246948,
    -1.0000038146972656,
)
FAR = 16.0
CUBIC, LINEAR = (
    0.07135481627260025,
    1.5957691216057308,
)  # of 2 u in gelu's tanh form: x (CUBIC x^2 + LINEAR)


@functools.cache
def _tail() -> Any:
    """t -> P(Z > t) for 0 <= t <= FAR."""

    @device_function
    def tail(t):
        power = f32(LOG2_TAIL[0])
        for coefficient in LOG2_TAIL[1:]:
            power = power * t + f32(coefficient)
        return exp2(power)

    return tail


@functools.cache
def activate(name: str) -> Any:
    """float32 -> float32, with the special-function unit doing at most two operations. NaN stays
    NaN.

    gelu(x) = x P(Z < x) is max(x, 0) - |x| P(Z > |x|), and the logarithm of that tail is nearly a
    parabola: a polynomial and one power of two give it to eight digits in a million wherever 16-bit
    numbers can tell it from 0.
    """
    if name == "relu":

        @device_function
        def relu(x):
            return maximum_nan(x, f32(0))

        return relu
    if name == "silu":

        @device_function
        def silu(x):
            return x * reciprocal(f32(1) + exp2(x * f32(-LOG2_E)))

        return silu
    if name == "gelu_tanh":  # x sigmoid(2 u), as in ml/activation.py

        @device_function
        def gelu_tanh(x):
            return x * reciprocal(
                f32(1) + exp2(x * (x * x * f32(-CUBIC * LOG2_E) + f32(-LINEAR * LOG2_E)))
            )

        return gelu_tanh
    if name == "gelu":
        tail = _tail()

        @device_function
        def gelu(x):
            t = minimum(abs(x), f32(FAR))
            return maximum_nan(x, f32(0)) - t * tail(t)

        return gelu

    @device_function
    def identity(x):
        return x

    return identity


@functools.cache
def slope(name: str) -> Any:
    """The derivatives of these, float32 -> float32. They are 0 and 1 far out, where a product of x
    would overflow."""

    @device_function
    def near(x):
        return maximum_nan(-maximum_nan(-x, f32(-FAR)), f32(-FAR))

    if name == "relu":

        @device_function
        def relu_slope(x):
            return f32(1) if x > f32(0) else f32(0)

        return relu_slope
    if name == "silu":  # s (1 + x (1 - s)), s the sigmoid

        @device_function
        def silu_slope(x):
            s = reciprocal(f32(1) + exp2(x * f32(-LOG2_E)))
            return s + x * s * (f32(1) - s)

        return silu_slope
    if name == "gelu_tanh":  # the same with s = sigmoid(2 u(x)), times (2 u)'

        @device_function
        def gelu_tanh_slope(x):
            x = near(x)
            square = x * x
            s = reciprocal(
                f32(1) + exp2(x * (square * f32(-CUBIC * LOG2_E) + f32(-LINEAR * LOG2_E)))
            )
            return s + x * s * (f32(1) - s) * (square * f32(3 * CUBIC) + f32(LINEAR))

        return gelu_tanh_slope
    tail, density = _tail(), math.sqrt(0.5 / math.pi)

    @device_function
    def gelu_slope(x):  # P(Z < x) + x times the density
        x = near(x)
        below = tail(abs(x))
        return (below if x < f32(0) else f32(1) - below) + x * exp2(
            x * x * f32(-0.5 * LOG2_E)
        ) * f32(density)

    return gelu_slope


@functools.cache
def _finish(tile: Any, keep: bool = False) -> tuple[Any, Any]:
    """(prepare, finish): what happens to a box of C, 64 x 64, on its way out. With `keep`, up to
    the activation only.

    prepare(beside, row, column, more): the numbers of the bias (8 pairs) and of the residual (16
    pairs) that a thread needs, all requested at a time. finish(c, c', number, row, column, beside,
    more) -> two neighbours of C, float32; number: of the pair, see tma_pipeline.stage_box; row,
    column: within the box. more: (vectors, residual, row 0, column 0, rows, columns): the box is at
    row 0, column 0 of C; vectors: addresses of the bias (n,), of 16 bits, and of the scales of rows
    and columns, float32; residual: of rows of n numbers of 16 bits.
    """
    unpack = unpack_bf16 if (tile.out or tile.kind) == "bf16" else unpack_f16
    function = activate("" if keep or tile.slope else tile.activation)
    bias, scaled, sloped = tile.bias, tile.scaled != "", tile.slope
    residual = tile.residual and not keep
    by_row, by_column = tile.scaled.startswith("m"), tile.scaled.endswith("n")
    slope_at = slope(tile.activation) if sloped else None

    @device_function
    def prepare(beside, row, column, more):
        (at_bias, _, _), at_residual, row0, column0, rows, columns = more
        first = i32(column0 + column)
        for i in range(8):
            if bias:
                beside[i] = i32(0)
                if first + 8 * i < columns:  # they are even in number
                    beside[i] = load_global(at_bias + 2 * i64(first + 8 * i))
        at = at_residual + 2 * (i64(row0 + row) * columns + first)
        for i in range(16):
            if residual:
                down, right = 8 * (i & 1), 8 * (i >> 1)
                beside[8 + i] = i32(0)
                if row0 + row + down < rows and first + right < columns:
                    beside[8 + i] = load_global(at + 2 * (i64(down) * columns + right))

    @device_function
    def finish(x, y, number, row, column, beside, more):
        (_, at_rows, at_columns), _, row0, column0, rows, columns = more
        here = i32(column0 + column)
        if scaled:
            line = i32(min(row0 + row, rows - 1)) if by_row else i32(0)
            by = load_global_float(at_rows + 4 * i64(line))
            u, v = f32(0), f32(0)
            if by_column and here < columns:
                u, v = load_global_float_2(at_columns + 4 * i64(here))
            elif not by_column:
                u = load_global_float(at_columns)
                v = u
            x = f32(x) * (by * u)
            y = f32(y) * (by * v)
        if bias:
            u, v = unpack(beside[number >> 1])
            x += u
            y += v
        x = function(x)
        y = function(y)
        if residual:
            u, v = unpack(beside[8 + number])
            if sloped:
                x *= slope_at(u)
                y *= slope_at(v)
            else:
                x += u
                y += v
        return x, y

    return (prepare, finish) if bias or residual or scaled or tile.activation else (None, None)


@functools.cache
def _pair(store: str, T: Any) -> tuple[int, Any]:
    """(bytes of a number, device function that stores two neighbours of C: (address, both?, x,
    y))."""
    if store == "pairs":
        store_two = store_global_float_2 if T is f32 else store_global_2

        @device_function
        def pair(at, both, x, y):
            store_two(at, x, y)

        return 4, pair
    if store == "wide":
        store_one = store_global_float if T is f32 else store_global

        @device_function
        def pair(at, both, x, y):
            store_one(at, x)
            if both:
                store_one(at + 4, y)

        return 4, pair
    if store == "s8":

        @device_function
        def pair(at, both, x, y):
            store_global_byte(at, x)
            if both:
                store_global_byte(at + 1, y)

        return 1, pair
    pack = pack_bf16 if store == "bf16" else pack_f16

    @device_function
    def pair(at, both, x, y):
        bits = pack(x, y)
        store_global_half(at, bits)
        if both:
            store_global_half(at + 2, bits >> 16)

    return 2, pair


@functools.cache
def store(tile: Any) -> tuple[Any, Any]:
    """(store, drain): how a warpgroup brings its accumulators, 64 blocks_m x n, into C; and what it
    does at the end.

    store(accumulators, thread of the warpgroup, warpgroup, shared address of its staging memory,
    maps of C and of what is kept, C, z, first row, first column, rows and columns of C, addresses
    of vectors (see `_finish`), address of residual).
    """
    n, blocks_m = tile.n, tile.blocks_m
    if tile.store == "box":
        write = tma_pipeline.stage_box(tile.out or tile.kind, *_finish(tile))
        write_kept = tma_pipeline.stage_box(tile.out or tile.kind, *_finish(tile, True))
        wait_for_other, wait = ptx.bulk_wait(1, read=True), ptx.bulk_wait(0, read=True)
        across, keep = n // BOX, tile.keep
        turns = 2 if keep else 1  # boxes of staging memory are used in turn

        @device_function
        def send(put, turn, c, first, thread, group, staging, tensor, z, more):
            at = i32(staging + (turn & 1) * tma_pipeline.BOX_BYTES)
            if thread == 0:
                # what was stored from this half of the staging memory before has been read
                wait_for_other()
            put(c, first, thread, 1 + group, at, more)
            ptx.fence_async_shared()
            ptx.named_sync(1 + group, 128)
            if thread == 0:
                if more[2] < more[4] and more[3] < more[5]:
                    ptx.tma_store_3d(tensor, more[3], more[2], z, at)
                ptx.bulk_commit()

        @device_function
        def store_box(
            number,
            c,
            thread,
            group,
            staging,
            maps,
            z,
            row0,
            column0,
            rows,
            columns,
            vectors,
            residual,
        ):
            block, box = number // across, number % across
            more = (
                vectors,
                residual + 2 * i64(z) * rows * columns,
                i32(row0 + block * BOX),
                i32(column0 + box * BOX),
                rows,
                columns,
            )
            first = block * (n // 2) + 32 * box
            if keep:
                send(write_kept, 0, c, first, thread, group, staging, maps[1], z, more)
            send(
                write,
                turns * number + turns - 1,
                c,
                first,
                thread,
                group,
                staging,
                maps[0],
                z,
                more,
            )

        @device_function
        def store_boxes(
            c, thread, group, staging, maps, out, z, row0, column0, rows, columns, vectors, residual
        ):
            # Written out: LLVM leaves a long loop as it is, and then the accumulators' indices are
            # not known in time for them to be registers. No literals: `store_box` is compiled once.
            store_box(
                i64(0),
                c,
                thread,
                group,
                staging,
                maps,
                z,
                row0,
                column0,
                rows,
                columns,
                vectors,
                residual,
            )
            if blocks_m * across > 1:
                store_box(
                    i64(1),
                    c,
                    thread,
                    group,
                    staging,
                    maps,
                    z,
                    row0,
                    column0,
                    rows,
                    columns,
                    vectors,
                    residual,
                )
            if blocks_m * across > 2:
                store_box(
                    i64(2),
                    c,
                    thread,
                    group,
                    staging,
                    maps,
                    z,
                    row0,
                    column0,
                    rows,
                    columns,
                    vectors,
                    residual,
                )
            if blocks_m * across > 3:
                store_box(
                    i64(3),
                    c,
                    thread,
                    group,
                    staging,
                    maps,
                    z,
                    row0,
                    column0,
                    rows,
                    columns,
                    vectors,
                    residual,
                )

        @device_function
        def drain(thread):
            if thread == 0:
                wait()  # shared memory must outlive the stores

        return store_boxes, drain

    size, pair = _pair(tile.store, tile.sums)
    scaled, by_row, by_column = (
        tile.scaled != "",
        tile.scaled.startswith("m"),
        tile.scaled.endswith("n"),
    )

    @device_function
    def scale(at, number, count, each):
        if scaled:
            return load_global_float(at + 4 * i64(min(number, i32(count - 1)) if each else i32(0)))
        return f32(1)

    @device_function
    def times(value, by):
        return f32(value) * by

    @device_function
    def alone(value, by):
        return value

    bring = times if scaled else alone

    @device_function
    def store_pairs(
        c, thread, group, staging, maps, out, z, row0, column0, rows, columns, vectors, residual
    ):
        lane = i32(thread & 31)
        base = global_address(out)
        _, at_rows, at_columns = vectors
        for block in range(blocks_m):
            row = i32(row0 + block * BOX + (thread >> 5) * 16 + (lane >> 2))
            upper, lower = (
                scale(at_rows, row, rows, by_row),
                scale(at_rows, i32(row + 8), rows, by_row),
            )
            for j in range(n // 8):
                column = i32(column0 + 8 * j + 2 * (lane & 3))
                i = block * (n // 2) + 4 * j
                if column < columns:
                    both = column + 1 < columns
                    u, v = (
                        scale(at_columns, column, columns, by_column),
                        scale(at_columns, i32(column + 1), columns, by_column),
                    )
                    at = base + size * ((i64(z) * rows + row) * columns + column)
                    if row < rows:
                        pair(at, both, bring(c[i], upper * u), bring(c[i + 1], upper * v))
                    if row + 8 < rows:
                        pair(
                            at + 8 * size * i64(columns),
                            both,
                            bring(c[i + 2], lower * u),
                            bring(c[i + 3], lower * v),
                        )

    @device_function
    def nothing(thread):
        return

    return store_pairs, nothing
