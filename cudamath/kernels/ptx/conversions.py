"""Conversions between 16-bit floats and float32, as PTX instructions."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ..compiler.lazy_numba import SIMULATOR, cuda, intrinsic, ir, types

if not SIMULATOR:
    from .intrinsics import instruction


if SIMULATOR:

    @cuda.jit(device=True)
    def half_to_float(bits):
        """float16, held as uint16, widened to float32."""
        return np.float32(np.uint16(bits).view(np.float16))

    @cuda.jit(device=True)
    def float_to_half(value):
        """float32 rounded to float16, held as uint16."""
        return np.float16(value).view(np.uint16)

    @cuda.jit(device=True)
    def double_to_half(value):
        """float64 rounded once to float16, held as uint16."""
        return np.float16(value).view(np.uint16)

    @cuda.jit(device=True)
    def bfloat_to_float(bits):
        """bfloat16, held as uint16, widened to float32."""
        return np.uint32(int(bits) << 16).view(np.float32)

    @cuda.jit(device=True)
    def float_to_bfloat(value):
        """float32 rounded to the nearest bfloat16, held as uint16."""
        return np.asarray(value, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)[()]

else:
    half_to_float = instruction(
        "half_to_float",
        "cvt.f32.f16 $0, $1;",
        types.float32,
        (types.uint16,),
        "float16, held as uint16, widened to float32.",
    )

    float_to_half = instruction(
        "float_to_half",
        "cvt.rn.f16.f32 $0, $1;",
        types.uint16,
        (types.float32,),
        "float32 rounded to float16, held as uint16.",
    )

    double_to_half = instruction(
        "double_to_half",
        "cvt.rn.f16.f64 $0, $1;",
        types.uint16,
        (types.float64,),
        "float64 rounded once to float16, held as uint16.",
    )

    bfloat_to_float = instruction(
        "bfloat_to_float",
        "{ .reg .b16 z; mov.b16 z, 0; mov.b32 $0, {z, $1}; }",
        types.float32,
        (types.uint16,),
        "bfloat16, held as uint16, widened to float32.",
    )

    _TO_BFLOAT = "cvt.rn.bf16.f32 $0, $1;"

    TO_BFLOAT_7 = (
        "{ .reg .b32 b, r; .reg .pred p; mov.b32 b, $1; shr.u32 r, b, 16; and.b32 r, r, 1; "
        "add.u32 r, r, b;\n        add.u32 r, r, 0x7FFF; shr.u32 r, r, 16; setp.nan.f32 p, $1, $1; "
        "selp.b32 r, 0x7FFF, r, p; cvt.u16.u32 $0, r; }"
    )

    @intrinsic
    def float_to_bfloat(typingctx, value):
        """float32 rounded to the nearest bfloat16 (ties to even), held as uint16; NaN is 0x7FFF.

        One instruction from compute capability 8.0 on, which 16-bit kernels do notice: nine
        elsewhere.
        """

        def generate(context, builder, sig, values):
            from ..compiler.target import target_has

            kind = ir.FunctionType(ir.IntType(16), [ir.FloatType()])
            return builder.call(
                ir.InlineAsm(kind, _TO_BFLOAT if target_has((8, 0)) else TO_BFLOAT_7, "=h,f"),
                values,
            )

        return types.uint16(types.float32), generate
