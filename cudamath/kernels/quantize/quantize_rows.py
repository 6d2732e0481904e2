"""Quantizing row by row with the row's own scale: its largest absolute value over the largest
number that is stored.

Weights by channel or group, activations by row (quantize.py has the formulas and the forms).

``quantize_rows``         one pass: a block, or a part of it, reads its row once into registers
                          (lib/vector_io.py)
``quantize_rows_plain``   a block of threads reads the row twice: rows of any length, any GPU, the
                          simulator

The floor is memory: each number read once and written once. From 16 bits to 4 it leaves some seven
instructions to a number. So two numbers are compared at once, one multiply-add divides and rounds,
and one instruction packs.

Measured (row quantize_int8):
quantize 8,192 squared, bfloat16 to int8, scales of rows; NVIDIA H200, commit 74447bcdd4c1,
2026-11-23

                   GB/s     of a copy
    cudamath      4,014          0.95

(end of what was measured)
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...runtime.device import capability
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_max
from ..lib.codec import codec
from ..lib.row_layout import Rows
from ..lib.vector_io import fetcher, writer
from .problem import FORMS, RowsProblem
from .quantize import default_zero, rounding

if not SIMULATOR:
    from ..ptx.intrinsics import instruction
    from ..ptx.sm80 import bits_float, float_bits
    from ..ptx.vector_access import store_vector

    #: dtype -> device function (pair, pair): in each half the first one's number or the other's
    #: absolute value, or NaN
    larger_pair = {
        dtype: instruction(
            f"larger_{kind}",
            f"{{ .reg .b32 a; abs.{kind} a, $2; max.NaN.{kind} $0, $1, a; }}",
            types.uint32,
            (types.uint32, types.uint32),
            "Which of two is larger, for two pairs of 16-bit numbers at once; from 8.0 on.",
        )
        for dtype, kind in (("float16", "f16x2"), ("bfloat16", "bf16x2"))
    }

PLAIN_THREADS = 64  # of `quantize_rows_plain`
#: the largest stored number of a row whose scale is its own
LARGEST = {"int8": 127.0, "int4": 7.0, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
LEAST, MOST = 2.0**-80, 2.0**100  # scales with whose reciprocals rows are multiplied
# 1.5 x 2^23: added, a small number is rounded to an integer, ties to even, in the last bits of the
# sum
MAGIC = 12582912
PLACE = 2.0**-23  # from a float32 to the next, relative to a power of two

i32, i64, u32, u64, f32 = types.int32, types.int64, types.uint32, types.uint64, types.float32


@functools.cache
def _divide(dtype: np.dtype) -> Any:
    """Device function (x, by, reciprocal of by): x / by, as exactly as by `/`, for numbers x of a
    dtype.

    A division is a dozen instructions and a reciprocal of its own. Here the reciprocal is the
    row's, and the product with it is corrected by its remainder, which a fused multiply-add finds
    exactly: twice, and it is rounded correctly (Markstein 1990) as long as neither remainder nor
    reciprocal leave the normal numbers, which LEAST and MOST see to. After one correction all
    16-bit numbers are right already: tried with every mantissa of x and of `by`.
    """
    short = dtype.itemsize == 2

    @device_function
    def divide(x, by, reciprocal):
        first = f32(x * reciprocal)
        q = cuda.fma(cuda.fma(-first, by, x), reciprocal, first)
        return q if short else cuda.fma(cuda.fma(-q, by, x), reciprocal, q)

    return divide


@functools.cache
def _within(form: str) -> Any:
    """Device function: a quotient within what `form` stores, whatever it is. NaN becomes 0 as an
    integer."""
    _, lowest, highest = FORMS[form]
    integers = form.startswith("int")
    low, high = f32(lowest - default_zero(form)), f32(highest - default_zero(form))

    @device_function
    def within(value):
        if integers and value != value:
            value = f32(0)
        if value < low:  # False for NaN, which stays
            value = low
        if value > high:
            value = high
        return value

    return within


@functools.cache
def _settled(form: str) -> Any:
    """Device function (largest number of a row, its scale `by`, 1 / by) -> the r with which x r +
    MAGIC, a fused multiply-add, rounds every 16-bit number x of the row as rint(x / by) does. Not
    for rows whose `by` is exact.

    `by` is nearly largest / top, with top = 7 or 127, and x / by nearly top x / largest. Only near
    a tie, k + 1/2, can it matter how these are rounded. Significands of 16-bit numbers are so short
    that there is nothing near a tie but the ties themselves (tried: every significand of the
    largest number, every x below), where 2 top x = (2 k + 1) largest. `top` is a prime. Either it
    divides the significand of `largest`: then `by` is exact, and there are as many ties as stored
    numbers. Or it divides 2 k + 1, and x is half of `largest`: r must leave that one number on the
    side where division leaves it.
    """
    magic = f32(MAGIC)

    @device_function
    def settled(largest, by, reciprocal):
        half = f32(largest * f32(0.5))
        wanted = f32(f32(half / by) + magic)
        found = cuda.fma(half, reciprocal, magic)
        if found < wanted:
            return f32(reciprocal * f32(1 + PLACE))
        return f32(reciprocal * f32(1 - PLACE)) if found > wanted else reciprocal

    return settled


@functools.cache
def _widen(dtype: np.dtype, width: int) -> Any:
    """rows.fetcher's widen, for bfloat16 in one instruction a number."""
    if dtype.name != "bfloat16" or width == 1:
        return fetcher(dtype, width)[1]

    @device_function
    def widen_bfloats(r, k, v, e):
        for j in range(width // 2):
            v[e + 2 * j] = bits_float(u32(r[k + j] << u32(16)))
            v[e + 2 * j + 1] = bits_float(u32(r[k + j] & u32(0xFFFF0000)))

    return widen_bfloats


@functools.cache
def _put(form: str, width: int, rounded: bool = False) -> tuple[Any, np.dtype]:
    """(device function (y, i, v), dtype of y): access number i of y = the numbers v[0] .. v[width -
    1], within what `form` stores, rounded and packed. rounded: they are integers with MAGIC added.
    """
    if not form.startswith("int"):
        write = writer(FORMS[form][0], width)

        @device_function
        def put_floats(y, i, v):
            write(y, i * width, v, 0)

        return put_floats, FORMS[form][0]
    size = 4 if form == "int4" else 8  # bits of a number
    each = min(32 // size, width)  # numbers of a word
    words = width // each
    word = np.dtype(f"uint{size * each}")
    to = getattr(types, word.name)
    # With MAGIC added a number is in the last bits of the sum: two's complement of as many bits as
    # wanted. All bits are summed, shifted; what that is too much is the same for all numbers.
    magic, shift = f32(MAGIC), u32(size)
    middle = 1 << size - 1
    rest = u32(sum((middle - 0x4B400000) << size * i for i in range(each)) & 0xFFFFFFFF)
    signs = u32(
        sum(middle << size * i for i in range(each)) if form == "int8" else 0
    )  # int4 is stored less its lowest number

    @device_function
    def pack(v, e):
        w = u32(0)
        for i in range(each):
            value = v[e + each - 1 - i]
            w = u32(u32(w << shift) + u32(float_bits(value if rounded else f32(value + magic))))
        return to(u32(w + rest) ^ signs)

    @device_function
    def put_word(y, i, v):
        y[i] = pack(v, 0)

    @device_function
    def put_words(y, i, v):
        store_vector(y, i * words, (pack(v, 0), pack(v, each)))

    return put_word if words == 1 else put_words, word


@functools.cache
def quantize_rows(form: str, dtype: np.dtype, rows: Rows, pairs: bool) -> Any:
    """(m, n) -> (m, n) or, int4, (m, n / 2), and (m,) scales: the largest absolute value of a row
    over the largest number.

    pairs: whether the device compares two 16-bit numbers at once."""
    threads, each, width, vectors = rows.threads, rows.rows, rows.width, rows.vectors
    fetch, _, words, word = fetcher(dtype, width)
    load, _, T = codec(dtype)
    held, stored, widen = vectors * words, numba_type(word), _widen(dtype, width)
    put, divide, within = _put(form, width)[0], _divide(dtype), _within(form)
    largest, top, least, most = group_max(threads, f32), f32(LARGEST[form]), f32(LEAST), f32(MOST)
    packed = words < width
    once = dtype.itemsize == 2 and form.startswith("int")  # one multiply-add rounds
    put_rounded, settled, magic = _put(form, width, True)[0], _settled(form), f32(MAGIC)
    larger = larger_pair.get(dtype.name)
    bound = threads * each

    @bounded(bound)
    def quantize_rows(x, y, scale, vectors_of_row):
        """x, y: flat, words; scale: (m,); vectors_of_row: accesses of a row. Block (threads a row,
        rows)."""
        row = i64(cuda.blockIdx.x) * each + cuda.threadIdx.y
        there = row < scale.size
        t, count = i32(cuda.threadIdx.x), i32(vectors_of_row)
        first = min(row, scale.size - 1) * vectors_of_row
        raw = cuda.local.array(held, stored)
        v = cuda.local.array(width, T)
        quotients = cuda.local.array(width, f32)
        for i in range(
            vectors
        ):  # all reads go out; beyond its end the row's last access is read again
            fetch(x, first + min(i32(i * threads + t), i32(count - i32(1))), raw, i * words)

        top_value = f32(0)
        if packed:  # absolute values of 16-bit floats are ordered as their bits are, NaN above all
            bits = u32(0)
            for i in range(held):
                if pairs:
                    bits = larger(bits, raw[i])
                else:
                    pair = u32(raw[i] & u32(0x7FFF7FFF))
                    bits = u32(max(bits, u32(max(pair, u32(pair << u32(16))))))
            if pairs:
                bits = u32(max(bits, u32(bits << u32(16))))
            top_value = f32(load(types.uint16(bits >> u32(16))))
        else:
            for i in range(vectors):
                widen(raw, i * words, v, 0)
                for j in range(width):
                    size = f32(abs(v[j]))
                    top_value = size if size >= top_value or size != size else top_value
        top_value = largest(top_value)
        by = f32(top_value / top)
        if by == f32(0):  # a row of zeros, or as good as that
            by = f32(1)
        if there:
            if t == i32(0):
                scale[row] = by
            place = u64(first + t)
            if (
                by >= least and by <= most
            ):  # `by` is the row's largest number over the largest one stored: nothing is too large
                reciprocal = f32(f32(1) / by)
                if once and cuda.fma(by, -top, top_value) != f32(0):
                    reciprocal = settled(top_value, by, reciprocal)
                    for i in range(vectors):
                        if i32(i * threads + t) < count:
                            widen(raw, i * words, v, 0)
                            for j in range(width):
                                quotients[j] = cuda.fma(f32(v[j]), reciprocal, magic)
                            put_rounded(y, u64(place + u64(i * threads)), quotients)
                else:
                    for i in range(vectors):
                        if i32(i * threads + t) < count:
                            widen(raw, i * words, v, 0)
                            for j in range(width):
                                quotients[j] = divide(f32(v[j]), by, reciprocal)
                            put(y, u64(place + u64(i * threads)), quotients)
            else:  # very small or large, infinite or NaN
                for i in range(vectors):
                    if i32(i * threads + t) < count:
                        widen(raw, i * words, v, 0)
                        for j in range(width):
                            quotients[j] = within(f32(f32(v[j]) / by))
                        put(y, u64(place + u64(i * threads)), quotients)

    return quantize_rows


@functools.cache
def quantize_rows_plain(form: str, dtype: np.dtype) -> Any:
    """As quantize_rows; one block per row, which is read twice."""
    load, _, _ = codec(dtype)
    write, top, middle, packed = (
        rounding(form),
        f32(LARGEST[form]),
        default_zero(form),
        form == "int4",
    )

    @cuda.jit
    def quantize_rows_plain(x, y, scale, columns):
        """x, y: flat, rows of `columns`; scale: (m,). Blocks of PLAIN_THREADS threads."""
        parts = cuda.shared.array(PLAIN_THREADS, f32)
        thread = cuda.threadIdx.x
        first = i64(cuda.blockIdx.x) * columns
        largest = f32(0)
        for i in range(thread, columns, PLAIN_THREADS):
            size = f32(abs(f32(load(x[first + i]))))
            largest = size if size >= largest or size != size else largest
        parts[thread] = largest
        cuda.syncthreads()
        step = PLAIN_THREADS // 2
        while step > 0:
            if thread < step:
                other = parts[thread + step]
                if other >= parts[thread] or other != other:
                    parts[thread] = other
            cuda.syncthreads()
            step //= 2
        by = f32(parts[0] / top)
        if by == f32(0):
            by = f32(1)
        if thread == 0:
            scale[cuda.blockIdx.x] = by
        if packed:
            for i in range(2 * thread, columns, 2 * PLAIN_THREADS):
                low = write(f32(f32(load(x[first + i])) / by), i32(middle))
                high = write(f32(f32(load(x[first + i + 1])) / by), i32(middle))
                y[(first + i) >> 1] = types.uint8(low | high << 4)
        else:
            for i in range(thread, columns, PLAIN_THREADS):
                y[first + i] = write(f32(f32(load(x[first + i])) / by), i32(middle))

    return quantize_rows_plain


def plan_rows(p: RowsProblem) -> Plan:
    """One pass: rows are kept in registers."""
    x, (y, _), rows, width = p.x, p.outputs, p.rows, p.width
    if rows is None:
        raise AssertionError(f"quantize_rows: {x} does not fit into registers")
    read, written = fetcher(x.dtype, width)[3], _put(p.form, width)[1]
    pairs = x.itemsize == 2 and capability(x.device) >= (8, 0)
    launch = Launch(
        quantize_rows(p.form, x.dtype, rows, pairs),
        rows.grid(x.shape[0]),
        rows.block,
        [
            Input(0).view((x.size * x.itemsize // read.itemsize,), dtype=read),
            Output(0).view((y.size * y.itemsize // written.itemsize,), dtype=written),
            Output(1).flat,
            x.shape[1] // width,
        ],
    )
    return Plan(p.outputs, [launch])


def plan_plain(p: RowsProblem) -> Plan:
    """Two passes, by a block for each row."""
    m, n = p.x.shape
    arguments = [Input(0).flat, Output(0).flat, Output(1).flat, n]
    return Plan(
        p.outputs,
        [Launch(quantize_rows_plain(p.form, p.x.dtype), m, PLAIN_THREADS, arguments)],
    )
