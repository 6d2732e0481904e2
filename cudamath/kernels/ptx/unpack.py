"""PTX that turns packed weights into pairs of 16-bit floats, as tensor cores read them: a few
instructions for four bytes.

An integer becomes a float without a conversion, whose rate is a quarter of an addition's: put
behind the exponent of a power of two P it is the mantissa of P + u, and subtracting P + z leaves u
- z, exactly. u is what is stored without its sign: int8 plus 128, int4 plus 8. P is 2^7 in
bfloat16, 2^10 in float16, and 2^23 in float32, through which int8 goes to bfloat16, whose mantissa
has only seven bits behind the point.

The intrinsics take a word and "what to subtract", made by `offset` from the zero point, and return
two registers for int8 and float8 (numbers 0, 1 and 2, 3 of the word) and four for int4 (numbers i
and i + 4, i = 0 .. 3).

float8_e4m3 is converted by an instruction of SM 8.9 and later; float8_e5m2 is the upper
half of a float16.
"""

from __future__ import annotations

from typing import Any

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import types
from .intrinsics import instruction

i32, i64, f32 = types.int32, types.int64, types.float32
_TWO, _FOUR = (i32,) * 2, (i32,) * 4

load_stream_4 = instruction(
    "load_stream_4",
    "ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {$0, $1, $2, $3}, [$4];",
    _FOUR,
    (i64,),
    "16 bytes that are read once, as four int32, past the L1 cache.",
    pure=False,
)
load_stream_2 = instruction(
    "load_stream_2",
    "ld.global.nc.L1::no_allocate.L2::128B.v2.b32 {$0, $1}, [$2];",
    _TWO,
    (i64,),
    "8 bytes that are read once, as two int32, past the L1 cache.",
    pure=False,
)
low_halves = instruction(
    "low_halves", "prmt.b32 $0, $1, $2, 0x5410;", i32, (i32, i32), "The low 16 bits of a and of b."
)
high_halves = instruction(
    "high_halves",
    "prmt.b32 $0, $1, $2, 0x7632;",
    i32,
    (i32, i32),
    "The high 16 bits of a and of b.",
)

_int8_bf16 = instruction(
    "int8_bf16",
    "{ .reg .b32 u, a, b, c, d; .reg .f32 w, x, y, z; xor.b32 u, $2, 0x80808080;\n"
    + "".join(
        f"prmt.b32 {t}, u, 0x4B000000, 0x754{i}; mov.b32 {f}, {t}; sub.f32 {f}, {f}, $3;\n"
        for i, (t, f) in enumerate(zip("abcd", "wxyz", strict=True))
    )
    + "cvt.rn.bf16x2.f32 $0, x, w; cvt.rn.bf16x2.f32 $1, z, y; }",
    _TWO,
    (i32, f32),
    "Four int8 to bfloat16; $3: 2^23 + 128 + zero point.",
)
_int8_f16 = instruction(
    "int8_f16",
    "{ .reg .b32 u, a, b; xor.b32 u, $2, 0x80808080; prmt.b32 a, u, 0x64646464, 0x4140;\n"
    "prmt.b32 b, u, 0x64646464, 0x4342; sub.f16x2 $0, a, $3; sub.f16x2 $1, b, $3; }",
    _TWO,
    (i32, i32),
    "Four int8 to float16; $3: twice 2^10 + 128 + zero point.",
)


def _int4(name: str, magic: str, subtract: str, doc: str) -> Any:
    lines = [
        "{ .reg .b32 s, t0, t1, t2, t3, one; mov.b32 one, 0x3F803F80;"
    ]  # one: twice 1 in bfloat16
    lines += [
        f"shr.u32 s, $4, {4 * i}; lop3.b32 t{i}, s, 0x000F000F, {magic}, 0xEA;" for i in range(4)
    ]
    return instruction(
        name,
        "\n".join([*lines, *[subtract.format(i, i) for i in range(4)], "}"]),
        _FOUR,
        (i32, i32),
        doc,
    )


_int4_bf16 = _int4(
    "int4_bf16",
    "0x43004300",
    "fma.rn.bf16x2 ${}, t{}, one, $5;",
    "Eight int4 to bfloat16; $5: twice -(2^7 + zero point).",
)
_int4_f16 = _int4(
    "int4_f16",
    "0x64006400",
    "sub.f16x2 ${}, t{}, $5;",
    "Eight int4 to float16; $5: twice 2^10 + zero point.",
)

_e4m3_f16 = instruction(
    "e4m3_f16",
    "{ .reg .b16 a, b; mov.b32 {a, b}, $2; cvt.rn.f16x2.e4m3x2 $0, a; cvt.rn.f16x2.e4m3x2 $1, b; }",
    _TWO,
    (i32,),
    "Four float8_e4m3 to float16.",
)
_e5m2_f16 = instruction(
    "e5m2_f16",
    "prmt.b32 $0, $2, 0, 0x1404;\nprmt.b32 $1, $2, 0, 0x3424;",
    _TWO,
    (i32,),
    "Four float8_e5m2 to float16.",
)
_f16_bf16 = instruction(
    "f16_bf16",
    "{ .reg .b16 a, b; .reg .f32 x, y; mov.b32 {a, b}, $1; cvt.f32.f16 x, a; cvt.f32.f16 y, b;\n"
    "cvt.rn.bf16x2.f32 $0, y, x; }",
    i32,
    (i32,),
    "Two float16 to bfloat16.",
)


def unpack(weights: str, to: str) -> tuple[Any, Any]:
    """(unpack, offset) for weights "int8", "int4", "float8_e4m3fn" or "float8_e5m2" to "bf16" or
    "f16".

    unpack: device function (word, what to subtract) -> registers of pairs; offset: device function
    zero point -> what to subtract (int4: 8 where the weights are symmetric).
    """
    if weights == "int8" and to == "bf16":

        @device_function
        def offset_float(zero):
            return f32(8388736 + zero)

        return _int8_bf16, offset_float
    if weights.startswith("int"):
        base, negative = (0x43, 0x8000) if to == "bf16" else (0x64, 0)
        first = (base << 8) + negative + (128 if weights == "int8" else 0)

        @device_function
        def offset_pair(zero):
            bits = i32(first + zero)
            return i32(bits | i32(bits << 16))

        return {
            ("int8", "f16"): _int8_f16,
            ("int4", "f16"): _int4_f16,
            ("int4", "bf16"): _int4_bf16,
        }[weights, to], offset_pair
    to_f16 = _e4m3_f16 if weights == "float8_e4m3fn" else _e5m2_f16

    @device_function
    def none(zero):
        return i32(0)

    if to == "f16":

        @device_function
        def as_f16(word, less):
            return to_f16(word)

        return as_f16, none

    @device_function
    def as_bf16(word, less):
        a, b = to_f16(word)
        return _f16_bf16(a), _f16_bf16(b)

    return as_bf16, none
