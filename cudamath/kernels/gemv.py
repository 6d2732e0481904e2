"""Few rows times a matrix of 16-bit or packed weights: what a language model does for every token it says.

The idea. y[m, n] = sum over k of x[m, k] w[n, k] with 1 to 16 rows reads each weight once and uses it for a handful of
multiply-adds: memory sets the speed, and every bit that a weight does not have is time saved. So the weights are read as they
are packed, by 16 bytes a thread, and become 16-bit floats in registers (ptx_unpack.py), never in memory.

    mma.sync          one thread's 16 bytes hold 32 int4 weights. Ordinary multiply-adds would need an instruction for each, and
                      more to widen it; the device starts some 3.5 a weight in the time in which int4 weights arrive. A tensor
                      core takes them in pairs, for 16 rows at the price of one: 1.8 instructions a weight in all
    no shared memory  on the way in, as in attention_decode.py: a product does not care in which order it sums. Lane l of a
                      warp reads 16 bytes of row l / 4 of a tile of 8 rows of w, and takes them for the fragment of a
                      *permuted* depth; the numbers of x are permuted alike
    one launch        the warps of a block share out k between them and meet once, in shared memory, in a fixed order: no
                      second kernel, no atomics. Bias, activation and residual follow in the same place
    a chunk ahead     each warp asks for its next chunk before it multiplies the one that is there

int8, int4 and float8 weights have a scale for each row of w, one for all, or one for each `group` numbers along k. The last
kind multiplies the sum over each chunk (a part of one group) on its way into the total: weights are never rounded.

The floor: bytes of w (and of its scales) at the speed of memory.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from numba import cuda, types

from .matmul_wgmma import activate
from .ptx_mma import (
    global_address,
    load_global_4,
    mma,
    pack_bf16,
    pack_f16,
    store_global_half,
    unpack_bf16,
    unpack_f16,
)
from .ptx_unpack import high_halves, load_stream_2, load_stream_4, low_halves, unpack
from .rows import device

i32, i64, u32, f32 = types.int32, types.int64, types.uint32, types.float32

ROWS = 16  # of x, at most
COLUMNS = 8  # of y in a tile
#: numbers of w in a 32-bit word
PER_WORD = {"same": 2, "int8": 4, "int4": 8, "float8_e4m3fn": 4, "float8_e5m2": 4}


class Gemv(NamedTuple):
    """The compile-time choices of `gemv`.

    kind: "bf16" or "f16", of x and y. weights: see PER_WORD ("same": as x). words: 32-bit words of w that a thread reads at a
    time, 4 or, for small groups, 2. warps: that share k. tiles: of 8 columns of y that a block makes. wide: more than 8 rows.
    group: chunks of k (see `chunk`) with a scale of their own; 0: scales are those of rows of w. zero: there are zero points.
    activation: as of linear.py; bias, residual: whether they are there.
    """

    kind: str
    weights: str
    words: int
    warps: int
    tiles: int
    wide: bool
    group: int = 0
    zero: bool = False
    activation: str = ""
    bias: bool = False
    residual: bool = False

    @property
    def numbers(self) -> int:
        """Numbers along k that a thread reads at a time."""
        return self.words * PER_WORD[self.weights]

    @property
    def chunk(self) -> int:
        """Numbers along k that a warp reads at a time."""
        return 4 * self.numbers

    @property
    def threads(self) -> int:
        """A block's."""
        return 32 * self.warps


@functools.cache
def _fetch_weights(words: int) -> Any:
    """A device function (registers, first, address, there?): `words` words at an address, or zeros."""

    @device
    def four(w, at, address, there):
        a, b, c, d = i32(0), i32(0), i32(0), i32(0)
        if there:
            a, b, c, d = load_stream_4(address)
        w[at], w[at + 1], w[at + 2], w[at + 3] = a, b, c, d

    @device
    def two(w, at, address, there):
        a, b = i32(0), i32(0)
        if there:
            a, b = load_stream_2(address)
        w[at], w[at + 1] = a, b

    return four if words == 4 else two


@functools.cache
def _arrange(weights: str, numbers: int) -> Any:
    """A device function (fragments, 0 or 1, registers): the numbers of x that a thread has read, for one of its two rows, into
    the places where the weights' pairs are. Fragment s: registers 4 s (pair 2 s), 4 s + 2 (pair 2 s + 1); + 1: second row."""
    if weights == "int4":  # pairs are (i, i + 4) of eight numbers

        @device
        def crossed(a, half, x):
            for n in range(numbers // 8):
                a[8 * n + half] = low_halves(x[4 * n], x[4 * n + 2])
                a[8 * n + 2 + half] = high_halves(x[4 * n], x[4 * n + 2])
                a[8 * n + 4 + half] = low_halves(x[4 * n + 1], x[4 * n + 3])
                a[8 * n + 6 + half] = high_halves(x[4 * n + 1], x[4 * n + 3])

        return crossed

    @device
    def straight(a, half, x):
        for n in range(numbers // 4):
            a[4 * n + half], a[4 * n + 2 + half] = x[2 * n], x[2 * n + 1]

    return straight


@functools.cache
def _widen(weights: str, kind: str, words: int) -> tuple[Any, Any]:
    """(widen, offset): widen(fragments, words, first, what to subtract) makes pairs of 16-bit floats; offset: see `unpack`."""
    if weights == "same":

        @device
        def copy(b, w, at, less):
            for i in range(words):
                b[i] = w[at + i]

        @device
        def nothing(zero):
            return i32(0)

        return copy, nothing
    turn, offset = unpack(weights, kind)
    if weights == "int4":

        @device
        def widen_four(b, w, at, less):
            for i in range(words):
                b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3] = turn(w[at + i], less)

        return widen_four, offset

    @device
    def widen_two(b, w, at, less):
        for i in range(words):
            b[2 * i], b[2 * i + 1] = turn(w[at + i], less)

    return widen_two, offset


@functools.cache
def gemv(form: Gemv) -> Any:
    """y = f(x w^T + bias) + residual. See Gemv."""
    kind, weights, words, warps, tiles, wide = form.kind, form.weights, form.words, form.warps, form.tiles, form.wide
    numbers, threads, group, has_zero = form.numbers, form.threads, form.group, form.zero
    has_bias, has_residual = form.bias, form.residual
    steps, quarters, per_word = numbers // 4, numbers // 8, PER_WORD[weights]
    fetch, arrange = _fetch_weights(words), _arrange(weights, numbers)
    widen, offset = _widen(weights, kind, words)
    multiply = mma(kind)
    pack, unpack_pair = (pack_bf16, unpack_bf16) if kind == "bf16" else (pack_f16, unpack_f16)
    function = activate(form.activation)
    halves = 2 if wide else 1
    most, width = 8 * halves, COLUMNS * tiles
    middle = 8 if weights == "int4" else 0  # the zero point of symmetric weights
    sums_shape = (warps, most, width)
    scaled = weights != "same"
    of_total, of_w, of_x, of_a, of_b, of_factor = 4 * tiles, words * tiles, numbers // 2, 4 * steps, 2 * steps, 2 * tiles
    of_less = f32 if weights == "int8" and kind == "bf16" else i32

    @device
    def fetch_x(x, to, address, there):
        for n in range(quarters):
            a, b, c, d = i32(0), i32(0), i32(0), i32(0)
            if there:
                a, b, c, d = load_global_4(address + 16 * n)
            to[4 * n], to[4 * n + 1], to[4 * n + 2], to[4 * n + 3] = a, b, c, d

    @cuda.jit(launch_bounds=threads)
    def gemv(x, weight, scale, zero, bias, residual, y, rows, columns, depth, chunks, scales):
        """x (rows, depth), weight (columns, depth numbers, packed), y and residual (rows, columns), bias (columns,): flat. Rows
        of x and of weight are multiples of 16 bytes, of weight with 2 words: of 8. scale float32, zero uint8 or int8:
        (columns, scales), or (columns,) with scales 1, or (1,) with scales 0, flat. chunks: of k, the last perhaps not whole.
        """
        sums = cuda.shared.array(sums_shape, f32)
        thread = i32(cuda.threadIdx.x)
        warp, lane = i32(thread >> 5), i32(thread & 31)
        line, quad = i32(lane >> 2), i32(lane & 3)
        column0 = i32(i32(cuda.blockIdx.x) * width)
        pitch = i64(u32(depth) // u32(per_word)) * 4  # bytes of a row of w
        at_x = global_address(x) + 2 * (i64(line) * depth + quad * numbers)
        at_w = global_address(weight) + (column0 + line) * pitch + quad * (4 * words)
        total = cuda.local.array(of_total, f32)
        part = cuda.local.array(4, f32)
        w = cuda.local.array(of_w, i32)
        w_next = cuda.local.array(of_w, i32)
        x0 = cuda.local.array(of_x, i32)
        x1 = cuda.local.array(of_x, i32)
        a = cuda.local.array(of_a, i32)
        b = cuda.local.array(of_b, i32)
        less = cuda.local.array(tiles, of_less)
        factor = cuda.local.array(of_factor, f32)
        for i in range(4 * tiles):
            total[i] = f32(0)
        for i in range(4 * steps):
            a[i] = i32(0)
        for t in range(tiles):
            less[t] = offset(middle)
            if has_zero and group == 0:
                mine = i32(column0 + 8 * t + line)
                if mine < columns:
                    less[t] = offset(i32(zero[mine * scales]))
        chunk = warp
        inside = chunk < chunks and (chunk * 4 + quad) * numbers < depth
        for t in range(tiles):
            fetch(w_next, words * t, at_w + i64(8 * t) * pitch + i64(chunk) * (16 * words),
                  inside and column0 + 8 * t + line < columns)
        fetch_x(x, x0, at_x + i64(chunk) * (8 * numbers), inside and line < rows)
        if wide:
            fetch_x(x, x1, at_x + i64(chunk) * (8 * numbers) + i64(depth) * 16, inside and line + 8 < rows)
        while chunk < chunks:
            for i in range(words * tiles):
                w[i] = w_next[i]
            arrange(a, 0, x0)
            if wide:
                arrange(a, 1, x1)
            if group:
                of = i32(u32(chunk) // u32(group))
                for t in range(tiles):
                    for j in range(2):
                        mine = i32(column0 + 8 * t + 2 * quad + j)
                        factor[2 * t + j] = scale[i64(mine) * scales + of] if mine < columns else f32(0)
                    if has_zero:
                        mine = i32(column0 + 8 * t + line)
                        if mine < columns:
                            less[t] = offset(i32(zero[i64(mine) * scales + of]))
            chunk = i32(chunk + warps)
            inside = chunk < chunks and (chunk * 4 + quad) * numbers < depth
            for t in range(tiles):
                fetch(w_next, words * t, at_w + i64(8 * t) * pitch + i64(chunk) * (16 * words),
                      inside and column0 + 8 * t + line < columns)
            fetch_x(x, x0, at_x + i64(chunk) * (8 * numbers), inside and line < rows)
            if wide:
                fetch_x(x, x1, at_x + i64(chunk) * (8 * numbers) + i64(depth) * 16, inside and line + 8 < rows)
            for t in range(tiles):
                widen(b, w, words * t, less[t])
                if group:
                    for i in range(4):
                        part[i] = f32(0)
                    for s in range(steps):
                        multiply(part, 0, a, 4 * s, b, 2 * s)
                    for i in range(2 * halves):
                        total[4 * t + i] += part[i] * factor[2 * t + (i & 1)]
                else:
                    for s in range(steps):
                        multiply(total, 4 * t, a, 4 * s, b, 2 * s)
        for t in range(tiles):
            for i in range(2 * halves):
                sums[warp, line + 8 * (i >> 1), 8 * t + 2 * quad + (i & 1)] = total[4 * t + i]
        cuda.syncthreads()
        place = thread
        while place < rows * width:
            row = i32(u32(place) // u32(width))
            within = i32(place - row * width)
            column = i32(column0 + within)
            if column < columns:
                value = f32(0)
                for i in range(warps):
                    value += sums[i, row, within]
                if scaled and group == 0:
                    value *= scale[column * scales]
                if has_bias:
                    value += unpack_pair(i32(bias[column]))[0]
                value = function(value)
                at = i64(row) * columns + column
                if has_residual:
                    value += unpack_pair(i32(residual[at]))[0]
                store_global_half(global_address(y) + 2 * at, pack(value, f32(0)))
            place = i32(place + threads)

    return gemv
