"""Quantizing and dequantizing: floats to int8, packed int4 or float8 with scales, and back.

The picture. In all forms the memory of an array is (outer, channels, inner) in C order: `channels`
scales, and element i belongs to channel (i // inner) % channels: one channel for all, `inner`
numbers behind an axis for each index along it, or `inner` numbers of the last axis for each group.
So one kernel serves all.

    stored = clip(rint(x / scale) + zero, lowest, highest)        value = (stored - zero) * scale

in float32, ties to even. float8 is rounded as it is, without a zero point. int4 lies two in a byte,
the first in the low half, as 0 .. 15: stored + 8 where there are no zero points.

``quantize_plain``, ``dequantize_plain``   one thread per stored byte; any GPU and the simulator
``quantize_wide``, ``dequantize_wide``     a thread takes 8 neighbours of one channel: 16-byte
                                           accesses of 16-bit numbers. ``dequantize_wide`` takes two
                                           such groups, and reads both before it writes the first

Weights by channel or group, and activations, whose scales are computed first: quantize_rows.py.

The floor is memory: each number read once and written once.

Measured (row dequantize_int8):
dequantize 8,192 squared, int8 to bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                   GB/s     of a copy
    cudamath      3,823          0.90

(end of what was measured)
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.float8 import decoder, encoder
from ..lib.integers import blocks
from ..lib.vector_io import writer
from .problem import FORMS, WIDTH, QuantizeProblem

if not SIMULATOR:
    from ..ptx.intrinsics import instruction
    from ..ptx.vector_access import load_vector, store_vector

    int8_floats = instruction(
        "int8_floats",
        "{ .reg .b32 u, t; xor.b32 u, $4, 0x80808080;\n"
        + "".join(
            f"prmt.b32 t, u, 0x4B000000, 0x754{i}; mov.b32 ${i}, t; sub.f32 ${i}, ${i}, $5;\n"
            for i in range(4)
        )
        + "}",
        (types.float32,) * 4,
        (types.uint32, types.float32),
        "Four int8 less the zero point: put behind the exponent of 2^23; $5: 2^23 + 128 + zero "
        "point.",
    )
    int4_floats = instruction(
        "int4_floats",
        "{ .reg .b32 t;\n"
        + "".join(
            f"lop3.b32 t, $4, {15 << 4 * i}, 0x4B000000, 0xEA; mov.b32 ${i}, t; "
            f"fma.rn.f32 ${i}, ${i}, 0f{struct.pack('>f', 2.0 ** (-4 * i)).hex()}, ${5 + i};\n"
            for i in range(4)
        )
        + "}",
        (types.float32,) * 4,
        (types.uint32,) + (types.float32,) * 4,
        "The low four int4 of a word less the zero point, each where it lies in a mantissa; $5, "
        "..: -(2^(23 - 4 i) + zero).",
    )

THREADS = 256
NARROW = 1 << 31  # elements
GROUPS = 2  # times WIDTH neighbours a thread of `dequantize_wide` takes
ENOUGH = 1 << 22  # elements: with fewer it takes one group, so that all multiprocessors have some
i32, i64, f32 = types.int32, types.int64, types.float32


@functools.cache
def _read(form: str) -> Any:
    """(stored number, zero point) -> value before its scale. int4: one of 0 .. 15."""
    if form.startswith("int"):

        @device_function
        def read_integer(stored, zero):
            return f32(i32(stored) - i32(zero))

        return read_integer
    decode = decoder(FORMS[form][0])

    @device_function
    def read_float(stored, zero):
        return decode(stored)

    return read_float


@functools.cache
def rounding(form: str) -> Any:
    """(x / scale, zero point) -> stored number. NaN becomes 0 as an integer, what is too large the
    largest one."""
    _, lowest, highest = FORMS[form]
    low, high = f32(lowest), f32(highest)
    if form.startswith("int"):
        to = types.int8 if form == "int8" else types.uint8
        magic = f32(
            12582912
        )  # 1.5 x 2^23: added, a small number is rounded to an integer, ties to even

        @device_function
        def write_integer(value, zero):
            if value != value:
                value = f32(0)
            value = f32(min(max(value, f32(-1024)), f32(1024)))
            value = f32(f32(f32(value + magic) - magic) + f32(zero))
            return to(i32(min(max(value, low), high)))

        return write_integer
    encode = encoder(FORMS[form][0])

    @device_function
    def write_float(value, zero):
        if value < low:  # False for NaN, which stays
            value = low
        if value > high:
            value = high
        return encode(value)

    return write_float


def default_zero(form: str) -> int:
    """The zero point where there is none."""
    return 8 if form == "int4" else 0


@functools.cache
def quantize_plain(form: str, dtype: np.dtype, zeros: bool) -> Any:
    """(n,) -> (n,) or, int4, (n / 2,); scale, zero: (channels,)."""
    load, _, _ = codec(dtype)
    write, middle, packed = rounding(form), default_zero(form), form == "int4"

    @cuda.jit
    def quantize_plain(x, scale, zero, y, inner):
        """A thread a stored byte. zero: anything without `zeros`."""
        i = cuda.grid(1)
        if i >= y.size:
            return
        if packed:
            byte = i32(0)
            for half in range(2):
                channel = (2 * i + half) // inner % scale.size
                at = i32(zero[channel]) if zeros else i32(middle)
                byte |= i32(write(f32(f32(load(x[2 * i + half])) / scale[channel]), at)) << (
                    4 * half
                )
            y[i] = types.uint8(byte)
        else:
            channel = i // inner % scale.size
            at = i32(zero[channel]) if zeros else i32(middle)
            y[i] = write(f32(f32(load(x[i])) / scale[channel]), at)

    return quantize_plain


@functools.cache
def _channel(narrow: bool) -> Any:
    """A device function (i, inner, channels): the channel of element i. narrow: fewer than 2^31
    elements, so that 32-bit division will do; in 64 bits it would take longer than the memory."""
    number = types.uint32 if narrow else i64

    @device_function
    def channel(i, inner, channels):
        part = number(i) // number(inner)
        return i64(number(part % number(channels)))

    return channel


@functools.cache
def quantize_wide(form: str, dtype: np.dtype, zeros: bool, narrow: bool) -> Any:
    """As quantize_plain, 8 neighbours of one channel a thread: inner is a multiple of 8."""
    load, _, _ = codec(dtype)
    channel_of = _channel(narrow)
    write, middle, packed = rounding(form), default_zero(form), form == "int4"

    @cuda.jit
    def quantize_wide(x, scale, zero, y, inner):
        """x: (n,), y: (n,) or (n / 2,), both aligned; scale, zero: (channels,)."""
        first = cuda.grid(1) * WIDTH
        if first >= x.size:
            return
        channel = channel_of(first, inner, scale.size)
        by = scale[channel]
        at = i32(zero[channel]) if zeros else i32(middle)
        v = load_vector(x, first, WIDTH)
        a, b = write(f32(f32(load(v[0])) / by), at), write(f32(f32(load(v[1])) / by), at)
        c, d = write(f32(f32(load(v[2])) / by), at), write(f32(f32(load(v[3])) / by), at)
        e, f = write(f32(f32(load(v[4])) / by), at), write(f32(f32(load(v[5])) / by), at)
        g, h = write(f32(f32(load(v[6])) / by), at), write(f32(f32(load(v[7])) / by), at)
        if packed:
            store_vector(
                y,
                first >> 1,
                (
                    types.uint8(a | b << 4),
                    types.uint8(c | d << 4),
                    types.uint8(e | f << 4),
                    types.uint8(g | h << 4),
                ),
            )
        else:
            store_vector(y, first, (a, b, c, d, e, f, g, h))

    return quantize_wide


@functools.cache
def dequantize_plain(form: str, dtype: np.dtype, zeros: bool) -> Any:
    """(n,) or, int4, (n / 2,) -> (n,) of a floating-point dtype; scale, zero: (channels,)."""
    _, store, T = codec(dtype)
    read, middle, packed = _read(form), default_zero(form), form == "int4"

    @cuda.jit
    def dequantize_plain(x, scale, zero, y, inner):
        """A thread a stored byte. zero: anything without `zeros`."""
        i = cuda.grid(1)
        if i >= x.size:
            return
        if packed:
            for half in range(2):
                channel = (2 * i + half) // inner % scale.size
                at = i32(zero[channel]) if zeros else i32(middle)
                stored = (i32(x[i]) >> (4 * half)) & 15
                y[2 * i + half] = store(T(f32(read(stored, at) * scale[channel])))
        else:
            channel = i // inner % scale.size
            at = i32(zero[channel]) if zeros else i32(middle)
            y[i] = store(T(f32(read(x[i], at) * scale[channel])))

    return dequantize_plain


@functools.cache
def _eight(form: str) -> Any:
    """A device function (words, k, zero, v): v[0] .. v[7] = the values, before their scale, of the
    eight stored numbers in words[k] and, but for int4, words[k + 1]."""
    if form == "int8":

        @device_function
        def eight_int8(words, k, zero, v):
            for half in range(2):
                four = int8_floats(words[k + half], f32(f32(zero) + f32(8388736)))
                for j in range(4):
                    v[4 * half + j] = four[j]

        return eight_int8
    if form == "int4":

        @device_function
        def eight_int4(words, k, zero, v):
            at = f32(zero)
            for half in range(2):
                four = int4_floats(
                    words[k] >> types.uint32(16 * half),
                    f32(f32(-8388608) - at),
                    f32(f32(-524288) - at),
                    f32(f32(-32768) - at),
                    f32(f32(-2048) - at),
                )
                for j in range(4):
                    v[4 * half + j] = four[j]

        return eight_int4
    decode = decoder(FORMS[form][0])

    @device_function
    def eight_float8(words, k, zero, v):
        for half in range(2):
            for j in range(4):
                v[4 * half + j] = decode(
                    types.uint8((words[k + half] >> types.uint32(8 * j)) & types.uint32(255))
                )

    return eight_float8


@functools.cache
def dequantize_wide(form: str, dtype: np.dtype, zeros: bool, narrow: bool, groups: int) -> Any:
    """As dequantize_plain, `groups` times 8 neighbours of one channel a thread: inner is a multiple
    of 8."""
    _, store, T = codec(dtype)
    eight, middle, words = _eight(form), default_zero(form), 1 if form == "int4" else 2
    number = types.uint32 if narrow else i64
    put = writer(dtype, WIDTH)
    held = groups * words

    @bounded(THREADS)
    def dequantize_wide(x, scale, zero, y, inner, channels_on, inner_on):
        """x: the stored numbers, four bytes an element, y: (n,), both aligned; scale, zero:
        (channels,). From one group of 8 to the thread's next it is `channels_on` channels and
        `inner_on` numbers, which spares it the divisions."""
        first = i64(cuda.blockIdx.x) * (groups * THREADS) + cuda.threadIdx.x  # a number of groups
        last = y.size // WIDTH - 1
        part = number(first * WIDTH) // number(inner)
        rest = first * WIDTH - i64(part) * inner
        channel = i64(number(part % number(scale.size)))
        taken = cuda.local.array(held, types.uint32)
        by = cuda.local.array(groups, f32)
        at = cuda.local.array(groups, i32)
        for k in range(groups):
            loaded = load_vector(x, min(first + k * THREADS, last) * words, words)
            for j in range(words):
                taken[k * words + j] = loaded[j]
            by[k] = scale[channel]
            at[k] = i32(zero[channel]) if zeros else i32(middle)
            channel += channels_on
            rest += inner_on
            if rest >= inner:
                rest -= inner
                channel += 1
            if channel >= scale.size:
                channel -= scale.size
        v = cuda.local.array(WIDTH, f32)
        out = cuda.local.array(WIDTH, T)
        for k in range(groups):
            if first + k * THREADS <= last:
                eight(taken, k * words, at[k], v)
                for j in range(WIDTH):
                    out[j] = T(f32(v[j] * by[k]))
                put(y, (first + k * THREADS) * WIDTH, out, 0)

    return dequantize_wide


# -------------------- launches


def plan_quantize_wide(p: QuantizeProblem) -> Plan:
    kernel = quantize_wide(p.form, p.dtype, p.zero is not None, p.size < NARROW)
    grid = blocks(blocks(p.size, WIDTH), THREADS)
    return Plan([], [Launch(kernel, grid, THREADS, [p.x.flat, *p.arguments])])


def plan_quantize_plain(p: QuantizeProblem) -> Plan:
    kernel = quantize_plain(p.form, p.dtype, p.zero is not None)
    return Plan([], [Launch(kernel, blocks(p.stored, THREADS), THREADS, [p.x.flat, *p.arguments])])


def plan_dequantize_wide(p: QuantizeProblem) -> Plan:
    groups = GROUPS if p.size >= ENOUGH else 1
    channels_on, inner_on = divmod(THREADS * WIDTH, p.inner)
    words = p.x.view((p.stored // 4,), dtype=np.dtype(np.uint32))
    launch = Launch(
        dequantize_wide(p.form, p.dtype, p.zero is not None, p.size < NARROW, groups),
        blocks(p.size, groups * THREADS * WIDTH),
        THREADS,
        [words, *p.arguments, channels_on % p.channels, inner_on],
    )
    return Plan([], [launch])


def plan_dequantize_plain(p: QuantizeProblem) -> Plan:
    kernel = dequantize_plain(p.form, p.dtype, p.zero is not None)
    return Plan([], [Launch(kernel, blocks(p.stored, THREADS), THREADS, [p.x.flat, *p.arguments])])
