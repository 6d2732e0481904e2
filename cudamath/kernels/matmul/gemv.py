"""Few rows times a matrix of 16-bit or packed weights: what a language model does for every token
it generates.

The idea. y[m, n] = sum over k of x[m, k] w[n, k] with 1 to 16 rows reads each weight once and uses
it for a handful of multiply-adds: memory bandwidth is the limit, and every bit that a weight does
not have saves time. So the weights are read as they are packed, by 16 bytes per thread, and become
16-bit floats in registers (ptx/unpack.py), never in memory.

    mma.sync          one thread's 16 bytes hold 32 int4 weights. Ordinary multiply-adds would need
                      an instruction for each, and more to widen it; the device starts some 3.5 a
                      weight in the time in which int4 weights arrive. A tensor core takes 16 rows
                      of w and up to 8 rows of x at the price of one
    no shared memory  on the way in, as in attention/decode_split_kv.py: a product may sum in any
                      order. Lane l of a warp reads 16 bytes of the rows l / 4 and l / 4 + 8 of a
                      tile of 16 rows of w, and uses them as the fragment of a *permuted* depth; the
                      numbers of x are permuted alike
    one launch        the warps of a block share out k between them and meet once, in shared memory,
                      in a fixed order: no second kernel, no atomics. Bias, activation and residual
                      follow in the same place
    chunks ahead      each warp has several chunks of k in flight: it multiplies a chunk that was
                      requested that many chunks before
    early             blocks of int4 weights begin before the kernel ahead has ended, bring their
                      weights to the L2 cache, and wait for that kernel before they read anything
    no masks          beyond the last row of w the last row is read again, and beyond the end of k
                      the numbers of x are zeros

int8, int4 and float8 weights have a scale for each row of w, one for all, or one for each `group`
numbers along k. The last kind multiplies the sum over each chunk (a part of one group) on its way
into the total: weights are never rounded.

The floor: bytes of w (and of its scales) at the speed of memory. One row of 4,096 times weights for
16,384 on one H200, as a CUDA graph over weights that no cache holds, microseconds and fraction of
the speed of a copy:

    bfloat16    33.3   1.01    cuBLAS through torch 33.8; for 50,257 columns of 768 numbers 19.6
                               (torch 29.1)
    int8        19.7   0.85
    int4        16.3   0.55    in groups of 128; torch's int4 kernel 20.3

(float8_e4m3, timed later and otherwise, 22.8 beside 21.9 of int8.)

The integer units of a multiprocessor limit int8 and int4: a byte permutation or a logical
operation for each number, of which 64 start per clock. Layers as small as GPT-2's (768 to 3,072)
take 2.5 to 4.5 microseconds whatever the weights: one after the other they wait for memory's
latency three times, for the launch, the weights and the last sum. Beginning early hides the first
two behind the kernel ahead: 3,072 to 768 with int4 weights 3.5 for 4.7.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ..compiler.decorators import FULL, device_function
from ..compiler.lazy_numba import cuda, types
from ..ptx.intrinsics import Registers, array_instruction, instruction
from ..ptx.sm80 import (
    global_address,
    mma,
    pack_bf16,
    pack_f16,
    store_global_half,
    unpack_bf16,
    unpack_f16,
)
from ..ptx.sm90 import let_next_begin, wait_for_previous
from ..ptx.unpack import high_halves, load_stream_2, load_stream_4, low_halves, unpack
from .epilogue_sm90 import activate

i32, i64, u32, f32 = types.int32, types.int64, types.uint32, types.float32

ROWS = 16  # of x, at most
COLUMNS = 16  # of y in a tile
#: numbers of w in a 32-bit word
PER_WORD = {"same": 2, "int8": 4, "int4": 8, "float8_e4m3fn": 4, "float8_e5m2": 4}

load_where = array_instruction(
    "load_where",
    "{ .reg .pred p; setp.ne.s32 p, <2>, 0; @p ld.global.v4.b32 <0>, [<1>]; }",
    (Registers(i32, 4, "update"), i64, i32),
    "(registers, first, address, there?): 16 bytes at an address; where they are not wanted the "
    "registers stay as they are.",
)

# The seven bits of a float8_e4m3 behind its sign are exponent and mantissa of the bfloat16 that is
# 2^-120 times as large (its smallest numbers are subnormal in both), so a shift and a
# multiplication widen two of them. By conversions, through float16 and float32, 4,096 to 16,384
# took 26.4 microseconds instead of 22.8. Only NaN, the largest pattern, would become 480:
# `e4m3_nan` looks for it. (A compiled kernel's key holds the names of instructions, not what they
# are: a changed one wants a new name.)
e4m3_bf16 = instruction(
    "e4m3_bf16",
    "{ .reg .b32 t, s, by, zero; mov.b32 by, 0x7B807B80; mov.b32 zero, 0x80008000;\n"
    "shl.b32 t, $2, 4; shl.b32 s, $2, 8; and.b32 s, s, 0x80008000; lop3.b32 t, t, 0x07F007F0, s, "
    "0xEA;\n"
    "fma.rn.bf16x2 $0, t, by, zero;\n"
    "shr.u32 t, $2, 4; and.b32 s, $2, 0x80008000; lop3.b32 t, t, 0x07F007F0, s, 0xEA;\n"
    "fma.rn.bf16x2 $1, t, by, zero; }",
    (i32, i32),
    (i32,),
    "Four float8_e4m3 to bfloat16: numbers 0 and 2, 1 and 3 of a word.",
)
e4m3_nan = instruction(
    "e4m3_nan",
    "{ .reg .b32 t; and.b32 t, $2, 0x7F7F7F7F; add.u32 t, t, 0x01010101; or.b32 $0, t, $1; }",
    i32,
    (i32, i32),
    "$1, with the uppermost bit of a byte set where the number there in $2 is NaN; other bits say "
    "nothing.",
)
prefetch_far = instruction(
    "prefetch_far",
    "cp.async.bulk.prefetch.L2.global [$0], $1;",
    None,
    (i64, i32),
    "Bring so many bytes, a multiple of 16, to the L2 cache. Compute capability 9.0.",
    pure=False,
)
NEAR = 1 << 16  # bytes of w that a block may bring near before it begins


class Gemv(NamedTuple):
    """The compile-time choices of `gemv`.

    kind: "bf16" or "f16", of x and y. weights: see PER_WORD ("same": as x). words: 32-bit words of
    w that a thread reads at a time, 4 or, for small groups, 2. warps: that share k. tiles: of 16
    columns of y that a block makes. ahead: chunks of k that a warp has in flight, 2 or 4. wide:
    more than 8 rows. even: k is a whole number of chunks. group: chunks with a scale of their own;
    0: scales are those of rows of w. zero: there are zero points. activation: as of linear.py;
    bias, residual: whether they are there. early: the block begins before the kernel ahead has
    ended, and until then brings its weights near (to the L2 cache, where what that kernel writes is
    seen, should it be these very weights).
    """

    kind: str
    weights: str
    words: int
    warps: int
    tiles: int
    ahead: int
    wide: bool
    even: bool
    group: int = 0
    zero: bool = False
    activation: str = ""
    bias: bool = False
    residual: bool = False
    early: bool = False

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
    """A device function (registers, first, address): `words` words."""

    @device_function
    def four(w, at, address):
        w[at], w[at + 1], w[at + 2], w[at + 3] = load_stream_4(address)

    @device_function
    def two(w, at, address):
        w[at], w[at + 1] = load_stream_2(address)

    return four if words == 4 else two


@functools.cache
def _arrange(weights: str, numbers: int) -> Any:
    """A device function (fragments, first, registers, first): the numbers of x that a thread has
    read, to where the weights' pairs are. Fragment s of x has the pairs 2 s and 2 s + 1."""
    if weights == "e4m3":  # pairs are (i, i + 2) of four numbers

        @device_function
        def apart(b, to, x, at):
            for n in range(numbers // 4):
                b[to + 2 * n] = low_halves(x[at + 2 * n], x[at + 2 * n + 1])
                b[to + 2 * n + 1] = high_halves(x[at + 2 * n], x[at + 2 * n + 1])

        return apart
    if weights == "int4":  # pairs are (i, i + 4) of eight numbers

        @device_function
        def crossed(b, to, x, at):
            for n in range(numbers // 8):
                b[to + 4 * n] = low_halves(x[at + 4 * n], x[at + 4 * n + 2])
                b[to + 4 * n + 1] = high_halves(x[at + 4 * n], x[at + 4 * n + 2])
                b[to + 4 * n + 2] = low_halves(x[at + 4 * n + 1], x[at + 4 * n + 3])
                b[to + 4 * n + 3] = high_halves(x[at + 4 * n + 1], x[at + 4 * n + 3])

        return crossed

    @device_function
    def straight(b, to, x, at):
        for n in range(numbers // 2):
            b[to + n] = x[at + n]

    return straight


@functools.cache
def _widen(weights: str, kind: str, words: int) -> tuple[Any, Any]:
    """(widen, offset): widen(fragments, half, words, first, what to subtract) makes pairs of 16-bit
    floats of a row of w, the upper or the lower one (half 0, 1) of a thread's two: pair p is
    register 4 (p / 2) + 2 (p % 2) + half. offset: see `unpack`.
    """
    if weights == "same":

        @device_function
        def copy(a, half, w, at, less):
            for i in range(words):
                a[2 * i + half] = w[at + i]

        @device_function
        def nothing(zero):
            return i32(0)

        return copy, nothing
    if weights == "e4m3":

        @device_function
        def widen_bits(a, half, w, at, less):
            for i in range(words):
                a[4 * i + half], a[4 * i + 2 + half] = e4m3_bf16(w[at + i])

        @device_function
        def no_zero(zero):
            return i32(0)

        return widen_bits, no_zero
    turn, offset = unpack(weights, kind)
    if weights == "int4":

        @device_function
        def widen_four(a, half, w, at, less):
            for i in range(words):
                a[8 * i + half], a[8 * i + 2 + half], a[8 * i + 4 + half], a[8 * i + 6 + half] = (
                    turn(w[at + i], less)
                )

        return widen_four, offset

    @device_function
    def widen_two(a, half, w, at, less):
        for i in range(words):
            a[4 * i + half], a[4 * i + 2 + half] = turn(w[at + i], less)

    return widen_two, offset


@functools.cache
def gemv(form: Gemv) -> Any:
    """y = f(x w^T + bias) + residual. See Gemv."""
    kind, weights, words, warps, tiles, wide = (
        form.kind,
        form.weights,
        form.words,
        form.warps,
        form.tiles,
        form.wide,
    )
    numbers, threads, group, has_zero, early = (
        form.numbers,
        form.threads,
        form.group,
        form.zero,
        form.early,
    )
    by_bits = weights == "float8_e4m3fn" and kind == "bf16"
    has_bias, has_residual, ahead, even = form.bias, form.residual, form.ahead, form.even
    steps, quarters, per_word = numbers // 4, numbers // 8, PER_WORD[weights]
    fetch, arrange = _fetch_weights(words), _arrange("e4m3" if by_bits else weights, numbers)
    widen, offset = _widen("e4m3" if by_bits else weights, kind, words)
    multiply = mma(kind)
    pack, unpack_pair = (pack_bf16, unpack_bf16) if kind == "bf16" else (pack_f16, unpack_f16)
    function = activate(form.activation)
    most, width = 16 if wide else 8, COLUMNS * tiles
    middle = 8 if weights == "int4" else 0  # the zero point of symmetric weights
    halves, half_x = 2 if wide else 1, numbers // 2
    lines = 2 * tiles  # rows of w that a thread reads
    held = words * lines
    sums_shape = (warps, most, width)
    of_w, of_x, of_a, of_b = ahead * held, 2 * halves * half_x, 4 * steps, 2 * halves * steps
    of_total, of_part, of_factors, of_zeros = (
        4 * halves * tiles,
        8 * halves,
        ahead * lines,
        ahead * lines,
    )
    step_w, step_x = (
        warps * 16 * words,
        warps * 8 * numbers,
    )  # bytes from a warp's chunk to its next
    scaled = weights != "same"
    nan, uppermost = f32(float("nan")), i32(-0x7F7F7F80)  # 0x80808080

    @device_function
    def ask_x(far, x, buffer, chunk, state):
        """Ask for the numbers of x for a chunk, that of the pointers or `far` turns of the warps
        later."""
        at_w, at_scale, at_x, quad, depth, pitch, first, second, scale, zero = state
        if not even:  # numbers beyond the last count as 0
            for n in range(halves * half_x):
                x[buffer * halves * half_x + n] = i32(0)
            if ((chunk + far * warps) * 4 + quad) * numbers >= depth:
                first, second = i32(0), i32(0)
        address = at_x[0] + far * step_x
        for n in range(quarters):
            load_where(x, buffer * halves * half_x + 4 * n, address + 16 * n, first)
        if wide:
            for n in range(quarters):
                load_where(
                    x, (buffer * 2 + 1) * half_x + 4 * n, address + i64(depth) * 16 + 16 * n, second
                )

    @device_function
    def ask(far, u, chunk, w, factors, zeros, state):
        """Ask for a chunk's weights, scales and zero points, into slot u."""
        at_w, at_scale, at_x, quad, depth, pitch, first, second, scale, zero = state
        back = i64(0)
        if not even:  # the last chunk's threads that have nothing to read, read something
            back = max(
                ((chunk + far * warps) * 4 + quad) * (4 * words) - (pitch - 4 * words), i64(0)
            )
        for r in range(lines):
            fetch(w, u * held + r * words, at_w[r] + far * step_w - back)
        if group:
            of = i32(u32(chunk + far * warps) // u32(group))
            for r in range(lines):
                factors[u * lines + r] = scale[at_scale[r] + of]
                if has_zero:
                    zeros[u * lines + r] = i32(zero[at_scale[r] + of])

    @device_function
    def use(u, w, x, a, b, part, total, factors, zeros, seen):
        """Multiply what is in slot u."""
        arrange(b, 0, x, (u & 1) * halves * half_x)
        if wide:
            arrange(b, 2 * steps, x, ((u & 1) * 2 + 1) * half_x)
        for t in range(tiles):
            for half in range(2):
                r = 2 * t + half
                at_zero = (u * lines if group else 0) + r
                less = offset(zeros[at_zero] if has_zero else i32(middle))
                widen(a, half, w, u * held + r * words, less)
                if by_bits:
                    for i in range(words):
                        seen[r] = e4m3_nan(seen[r], w[u * held + r * words + i])
            if group:
                for i in range(8 * halves):
                    part[i] = f32(0)
                for s in range(steps):
                    multiply(part, 4 * (s & 1), a, 4 * s, b, 2 * s)
                    if wide:
                        multiply(part, 8 + 4 * (s & 1), a, 4 * s, b, 2 * steps + 2 * s)
                for i in range(4 * halves):
                    both = part[8 * (i >> 2) + (i & 3)] + part[8 * (i >> 2) + 4 + (i & 3)]
                    total[4 * halves * t + i] += both * factors[u * lines + 2 * t + ((i >> 1) & 1)]
            else:
                for s in range(steps):
                    multiply(total, 4 * halves * t, a, 4 * s, b, 2 * s)
                    if wide:
                        multiply(total, 4 * halves * t + 4, a, 4 * s, b, 2 * steps + 2 * s)

    @device_function
    def slot(u, certain, chunk, chunks, w, x, a, b, part, total, factors, zeros, seen, state):
        """Multiply the chunk in slot u, and ask for the one that comes `ahead` chunks later.
        certain: all these exist."""
        if certain or chunk + u * warps < chunks:
            if certain or chunk + (u + 1) * warps < chunks:
                ask_x(u + 1, x, (u + 1) & 1, chunk, state)
            use(u, w, x, a, b, part, total, factors, zeros, seen)
            if certain or chunk + (u + ahead) * warps < chunks:
                ask(u + ahead, u, chunk, w, factors, zeros, state)

    @device_function
    def turn(certain, chunk, chunks, w, x, a, b, part, total, factors, zeros, seen, state):
        """All slots once; the pointers move on."""
        slot(i64(0), certain, chunk, chunks, w, x, a, b, part, total, factors, zeros, seen, state)
        slot(i64(1), certain, chunk, chunks, w, x, a, b, part, total, factors, zeros, seen, state)
        if ahead > 2:
            slot(
                i64(2), certain, chunk, chunks, w, x, a, b, part, total, factors, zeros, seen, state
            )
            slot(
                i64(3), certain, chunk, chunks, w, x, a, b, part, total, factors, zeros, seen, state
            )
        at_w, at_x = state[0], state[2]
        for r in range(lines):
            at_w[r] += ahead * step_w
        at_x[0] += ahead * step_x

    def gemv(x, weight, scale, zero, bias, residual, y, rows, columns, depth, chunks, scales):
        """x (rows, depth), weight (columns, depth numbers, packed), y and residual (rows, columns),
        bias (columns,): flat. Rows of x and of weight are multiples of 16 bytes, of weight with 2
        words: of 8. scale float32, zero uint8 or int8: (columns, scales), or (columns,) with scales
        1, or (1,) with scales 0, flat. chunks: of k, the last perhaps not whole.
        """
        sums = cuda.shared.array(sums_shape, f32)
        thread = i32(cuda.threadIdx.x)
        warp, lane = (
            i32(cuda.shfl_sync(FULL, thread >> 5, 0)),
            i32(thread & 31),
        )  # the shuffle: so that branches are uniform
        line, quad = i32(lane >> 2), i32(lane & 3)
        column0 = i32(i32(cuda.blockIdx.x) * width)
        pitch = i64(u32(depth) // u32(per_word)) * 4  # bytes of a row of w
        total = cuda.local.array(of_total, f32)
        part = cuda.local.array(of_part, f32)
        w = cuda.local.array(of_w, i32)
        numbers_x = cuda.local.array(of_x, i32)
        a = cuda.local.array(of_a, i32)
        b = cuda.local.array(of_b, i32)
        factors = cuda.local.array(of_factors, f32)
        zeros = cuda.local.array(of_zeros, i32)
        seen = cuda.local.array(lines, i32)  # NaN of float8_e4m3, in rows of w
        at_w = cuda.local.array(lines, i64)
        at_scale = cuda.local.array(lines, i32)
        at_x = cuda.local.array(1, i64)
        for i in range(of_total):
            total[i] = f32(0)
        for i in range(of_x):
            numbers_x[i] = i32(0)
        if early:
            nbytes = min(i32(width), i32(columns - column0)) * pitch
            if thread == 0 and nbytes <= NEAR:
                prefetch_far(global_address(weight) + column0 * pitch, i32(nbytes) & i32(-16))
            let_next_begin()
            wait_for_previous()
        for r in range(lines):
            seen[r] = i32(0)
            row = i32(min(column0 + 8 * r + line, columns - 1))
            at_w[r] = global_address(weight) + row * pitch + (warp * 4 + quad) * (4 * words)
            at_scale[r] = i32(row * scales)
            if has_zero and group == 0:
                zeros[r] = i32(zero[at_scale[r]])
        at_x[0] = global_address(x) + 2 * (i64(line) * depth + (warp * 4 + quad) * numbers)
        state = (
            at_w,
            at_scale,
            at_x,
            quad,
            depth,
            pitch,
            i32(line < rows),
            i32(line + 8 < rows),
            scale,
            zero,
        )
        chunk = warp
        if chunk < chunks:
            ask_x(i64(0), numbers_x, i64(0), chunk, state)
            ask(i64(0), i64(0), chunk, w, factors, zeros, state)
        if chunk + warps < chunks:
            ask(i64(1), i64(1), chunk, w, factors, zeros, state)
        if ahead > 2:
            if chunk + 2 * warps < chunks:
                ask(i64(2), i64(2), chunk, w, factors, zeros, state)
            if chunk + 3 * warps < chunks:
                ask(i64(3), i64(3), chunk, w, factors, zeros, state)
        while chunk + (2 * ahead - 1) * warps < chunks:
            turn(True, chunk, chunks, w, numbers_x, a, b, part, total, factors, zeros, seen, state)
            chunk = i32(chunk + ahead * warps)
        while chunk < chunks:
            turn(False, chunk, chunks, w, numbers_x, a, b, part, total, factors, zeros, seen, state)
            chunk = i32(chunk + ahead * warps)
        if by_bits:
            for r in range(lines):
                found = i32(seen[r] | cuda.shfl_xor_sync(FULL, seen[r], 1))
                found = i32(found | cuda.shfl_xor_sync(FULL, found, 2))
                if found & uppermost:
                    for i in range(2 * halves):
                        total[4 * halves * (r >> 1) + 4 * (i >> 1) + 2 * (r & 1) + (i & 1)] = nan
        for t in range(tiles):
            for i in range(4 * halves):
                sums[
                    warp, 8 * (i >> 2) + 2 * quad + (i & 1), 16 * t + line + 8 * ((i >> 1) & 1)
                ] = total[4 * halves * t + i]
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

    if weights == "float8_e4m3fn" and not by_bits:
        gemv.__name__ = "gemv_e4m3"  # compute capability 8.9 on
    if early:
        gemv.__name__ = "gemv_early"  # 9.0 on
    return cuda.jit(launch_bounds=threads)(gemv)
