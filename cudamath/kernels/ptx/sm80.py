"""PTX of SM 8.0 and later: matrix fragments, mma.sync, asynchronous copies; and small
arithmetic.

A *fragment* is a matrix spread over the registers of a warp. `ldmatrix` and `stmatrix` move 8 x 8
tiles of 16-bit numbers between shared memory and fragments: lane l names row l % 8 of tile l / 8,
and receives numbers 2 (l % 4), 2 (l % 4) + 1 of row l / 4 of every tile, packed in one 32-bit
register a tile. `mma` multiplies fragments:

    shape            A (registers a thread)   B (registers)    C and D
    m16n8k16  16-bit      4                        2            4 float32
    m16n8k8   tf32        4                        2            4 float32
    m16n8k32  int8        4                        2            4 int32

C's registers 0 and 1 are columns 2 (l % 4), +1 of row l / 4; registers 2 and 3 the same columns
eight rows below. Shared addresses are 32-bit ones of the shared window (`shared_address`). None of
this exists in the simulator: kernels that use it are made in factories that import this file.
"""

from __future__ import annotations

import functools
from typing import Any

from ..compiler.lazy_numba import intrinsic, ir, types
from .intrinsics import Registers, array_instruction, instruction

i32, i64, f32, void = types.int32, types.int64, types.float32, None


@intrinsic
def shared_address(typingctx, array):
    """The 32-bit address, in the shared window, of a shared array's first element."""

    def generate(context, builder, signature, values):
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        generic = builder.ptrtoint(data, ir.IntType(64))
        convert = ir.InlineAsm(
            ir.FunctionType(ir.IntType(32), [ir.IntType(64)]),
            "{ .reg .b64 t; cvta.to.shared.u64 t, $1; cvt.u32.u64 $0, t; }",
            "=r,l",
        )
        return builder.call(convert, [generic])

    return types.int32(array), generate


@intrinsic
def global_address(typingctx, array):
    """The 64-bit address of a global array's first element."""

    def generate(context, builder, signature, values):
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate


# -------------------- fragments

_FOUR, _TWO = (i32,) * 4, (i32,) * 2


def _fragment(name: str, form: str, result: Any, doc: str) -> Any:
    registers = ", ".join(f"${i}" for i in range(len(result)))
    return instruction(
        name,
        f"ldmatrix.sync.aligned.m8n8.{form}.shared.b16 {{{registers}}}, [${len(result)}];",
        result,
        (i32,),
        doc,
        pure=False,
        convergent=True,
    )


load_matrix_4 = _fragment(
    "load_matrix_4",
    "x4",
    _FOUR,
    "Four 8 x 8 tiles; lane l gives the address of row l % 8 of tile l / 8.",
)
load_matrix_2 = _fragment(
    "load_matrix_2", "x2", _TWO, "Two 8 x 8 tiles; lanes 0 to 15 give the addresses of their rows."
)
load_matrix_4_transposed = _fragment(
    "load_matrix_4_transposed",
    "x4.trans",
    _FOUR,
    "Four 8 x 8 tiles, each transposed on its way into the registers.",
)
load_matrix_2_transposed = _fragment(
    "load_matrix_2_transposed",
    "x2.trans",
    _TWO,
    "Two 8 x 8 tiles, each transposed on its way into the registers.",
)
store_matrix_4 = instruction(
    "store_matrix_4",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};",
    void,
    (i32, i32, i32, i32, i32),
    "Four 8 x 8 tiles to shared memory (9.0 on): the way back of load_matrix_4.",
    pure=False,
    convergent=True,
)
store_matrix_4_transposed = instruction(
    "store_matrix_4_transposed",
    "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [$0], {$1, $2, $3, $4};",
    void,
    (i32, i32, i32, i32, i32),
    "Four 8 x 8 tiles, each transposed on its way to shared memory (9.0 on).",
    pure=False,
    convergent=True,
)
transpose_tile = instruction(
    "transpose_tile",
    "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;",
    i32,
    (i32,),
    "An 8 x 8 tile of 16-bit numbers transposed across the warp.",
    convergent=True,
)

#: kind -> (shape, type of A and B, type of C)
_MMA = {
    "bf16": ("m16n8k16", "bf16", "f32"),
    "f16": ("m16n8k16", "f16", "f32"),
    "tf32": ("m16n8k8", "tf32", "f32"),
    "s8": ("m16n8k32", "s8", "s32"),
}


@functools.cache
def mma(kind: str) -> Any:
    """mma(c, i, a, j, b, k): c[i : i + 4] += A(a[j : j + 4]) B(b[k : k + 2]) of the fragments that
    a warp holds.

    kind: "bf16", "f16", "tf32" (c: float32) or "s8" (c: int32). a, b: int32 registers in local
    arrays.
    """
    shape, of, to = _MMA[kind]
    return array_instruction(
        f"mma_{kind}",
        f"mma.sync.aligned.{shape}.row.col.{to}.{of}.{of}.{to} <0>, <1>, <2>, <0>;",
        (
            Registers(i32 if to == "s32" else f32, 4, "update"),
            Registers(i32, 4, "read"),
            Registers(i32, 2, "read"),
        ),
        f"One {shape} multiplication of fragments, {kind}.",
    )


@functools.cache
def mma_double(whole: bool) -> Any:
    """mma_double(c, i, a, j, b, k): c[i : i + 4] += A(a[j : j + 8]) B(b[k : k + 4]), float64, 16 x
    16 by 16 x 8.

    In lane l, a[2 p] and a[2 p + 1] are column 4 p + l % 4 of rows l / 4 and l / 4 + 8 of A, b[p]
    is row 4 p + l % 4 of column l / 4 of B; c as in the table above. whole: one instruction (9.0
    on), else eight m8n8k4 (8.0).
    """
    if whole:
        lines = ["mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 <0>, <1>, <2>, <0>;"]
    else:
        lines = [
            f"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 <0:{2 * half}:{2 * half + 2}>, "
            f"<1:{2 * p + half}:{2 * p + half + 1}>, <2:{p}:{p + 1}>, "
            f"<0:{2 * half}:{2 * half + 2}>;"
            for p in range(4)
            for half in range(2)
        ]
    f64 = types.float64
    return array_instruction(
        f"mma_double_{int(whole)}",
        "\n".join(lines),
        (Registers(f64, 4, "update"), Registers(f64, 8, "read"), Registers(f64, 4, "read")),
        "16 x 16 by 16 x 8, float64.",
    )


# -------------------- shared and global memory

load_shared_double = instruction(
    "load_shared_double",
    "ld.shared.f64 $0, [$1];",
    types.float64,
    (i32,),
    "A float64 at a shared address.",
    pure=False,
)
copy_16 = instruction(
    "copy_16",
    "cp.async.cg.shared.global [$0], [$1], 16;",
    void,
    (i32, i64),
    "16 bytes from a global to a shared address, asynchronously, past the L1 cache.",
    pure=False,
)
copy_16_or_zero = instruction(
    "copy_16_or_zero",
    "cp.async.cg.shared.global [$0], [$1], 16, $2;",
    void,
    (i32, i64, i32),
    "As copy_16, but only the first `bytes` (0 to 16) are read; the rest is zeros.",
    pure=False,
)
copy_4_or_zero = instruction(
    "copy_4_or_zero",
    "cp.async.ca.shared.global [$0], [$1], 4, $2;",
    void,
    (i32, i64, i32),
    "4 bytes from a global to a shared address, or zeros where `bytes` is 0.",
    pure=False,
)
copy_commit = instruction(
    "copy_commit",
    "cp.async.commit_group;",
    void,
    (),
    "The copies so far that are in no group yet form one.",
    pure=False,
)


@functools.cache
def copy_wait(pending: int) -> Any:
    """An intrinsic that waits until at most `pending` of this thread's groups of copies are under
    way."""
    return instruction(
        f"copy_wait_{pending}",
        f"cp.async.wait_group {pending};",
        void,
        (),
        f"Wait until at most {pending} groups of copies are under way.",
        pure=False,
    )


load_shared_4 = instruction(
    "load_shared_4",
    "ld.shared.v4.b32 {$0, $1, $2, $3}, [$4];",
    _FOUR,
    (i32,),
    "16 bytes at a shared address, as four int32.",
    pure=False,
)
load_shared = instruction(
    "load_shared",
    "ld.shared.b32 $0, [$1];",
    i32,
    (i32,),
    "4 bytes at a shared address.",
    pure=False,
)
store_shared = instruction(
    "store_shared",
    "st.shared.b32 [$0], $1;",
    void,
    (i32, i32),
    "4 bytes to a shared address.",
    pure=False,
)
store_shared_4 = instruction(
    "store_shared_4",
    "st.shared.v4.b32 [$0], {$1, $2, $3, $4};",
    void,
    (i32, i32, i32, i32, i32),
    "16 bytes to a shared address.",
    pure=False,
)
store_shared_float = instruction(
    "store_shared_float",
    "st.shared.f32 [$0], $1;",
    void,
    (i32, f32),
    "A float32 to a shared address.",
    pure=False,
)
store_shared_float_2 = instruction(
    "store_shared_float_2",
    "st.shared.v2.f32 [$0], {$1, $2};",
    void,
    (i32, f32, f32),
    "Two float32 to a shared address.",
    pure=False,
)
store_shared_float_4 = instruction(
    "store_shared_float_4",
    "st.shared.v4.f32 [$0], {$1, $2, $3, $4};",
    void,
    (i32, f32, f32, f32, f32),
    "Four float32 to a shared address.",
    pure=False,
)
load_shared_float_2 = instruction(
    "load_shared_float_2",
    "ld.shared.v2.f32 {$0, $1}, [$2];",
    (f32,) * 2,
    (i32,),
    "Two float32 at a shared address.",
    pure=False,
)
load_shared_float_4 = instruction(
    "load_shared_float_4",
    "ld.shared.v4.f32 {$0, $1, $2, $3}, [$4];",
    (f32,) * 4,
    (i32,),
    "Four float32 at a shared address.",
    pure=False,
)
load_global_4 = instruction(
    "load_global_4",
    "ld.global.v4.b32 {$0, $1, $2, $3}, [$4];",
    _FOUR,
    (i64,),
    "16 bytes at a global address, as four int32.",
    pure=False,
)
load_global_float_4 = instruction(
    "load_global_float_4",
    "ld.global.v4.f32 {$0, $1, $2, $3}, [$4];",
    (f32,) * 4,
    (i64,),
    "Four float32 at a global address.",
    pure=False,
)
load_global_float = instruction(
    "load_global_float",
    "ld.global.f32 $0, [$1];",
    f32,
    (i64,),
    "A float32 at a global address.",
    pure=False,
)
load_global_float_2 = instruction(
    "load_global_float_2",
    "ld.global.v2.f32 {$0, $1}, [$2];",
    (f32,) * 2,
    (i64,),
    "Two float32 at a global address.",
    pure=False,
)
load_global = instruction(
    "load_global",
    "ld.global.b32 $0, [$1];",
    i32,
    (i64,),
    "4 bytes at a global address.",
    pure=False,
)
load_global_half = instruction(
    "load_global_half",
    "{ .reg .b16 h; ld.global.b16 h, [$1]; cvt.u32.u16 $0, h; }",
    i32,
    (i64,),
    "2 bytes at a global address, zeros above them.",
    pure=False,
)
store_global_half = instruction(
    "store_global_half",
    "{ .reg .b16 h; cvt.u16.u32 h, $1; st.global.b16 [$0], h; }",
    void,
    (i64, i32),
    "The low 2 bytes of an int32 to a global address.",
    pure=False,
)
store_global_byte = instruction(
    "store_global_byte",
    "st.global.b8 [$0], $1;",
    void,
    (i64, i32),
    "The low byte of an int32 to a global address.",
    pure=False,
)
store_global = instruction(
    "store_global",
    "st.global.b32 [$0], $1;",
    void,
    (i64, i32),
    "4 bytes to a global address.",
    pure=False,
)
store_global_2 = instruction(
    "store_global_2",
    "st.global.v2.b32 [$0], {$1, $2};",
    void,
    (i64, i32, i32),
    "8 bytes to a global address.",
    pure=False,
)
store_global_float_2 = instruction(
    "store_global_float_2",
    "st.global.v2.f32 [$0], {$1, $2};",
    void,
    (i64, f32, f32),
    "Two float32 to a global address.",
    pure=False,
)
store_global_4 = instruction(
    "store_global_4",
    "st.global.v4.b32 [$0], {$1, $2, $3, $4};",
    void,
    (i64, i32, i32, i32, i32),
    "16 bytes to a global address.",
    pure=False,
)
store_global_float = instruction(
    "store_global_float",
    "st.global.f32 [$0], $1;",
    void,
    (i64, f32),
    "A float32 to a global address.",
    pure=False,
)
store_global_float_4 = instruction(
    "store_global_float_4",
    "st.global.v4.f32 [$0], {$1, $2, $3, $4};",
    void,
    (i64, f32, f32, f32, f32),
    "Four float32 to a global address.",
    pure=False,
)

# -------------------- between blocks and warps

fence_gpu = instruction(
    "fence_gpu",
    "fence.acq_rel.gpu;",
    void,
    (),
    "What this thread wrote is seen, in order, by the device.",
    pure=False,
)
load_acquire = instruction(
    "load_acquire",
    "ld.acquire.gpu.global.s32 $0, [$1];",
    i32,
    (i64,),
    "An int32 written by another block; what that block released with it is seen too.",
    pure=False,
)
store_release = instruction(
    "store_release",
    "st.release.gpu.global.s32 [$0], $1;",
    void,
    (i64, i32),
    "An int32 for other blocks, after all this thread wrote before.",
    pure=False,
)
atomic_add = instruction(
    "atomic_add",
    "atom.global.add.s32 $0, [$1], $2;",
    i32,
    (i64, i32),
    "Add to an int32 in global memory; what was there before.",
    pure=False,
)
shuffle_xor = instruction(
    "shuffle_xor",
    "shfl.sync.bfly.b32 $0, $1, $2, 0x1f, 0xffffffff;",
    i32,
    (i32, i32),
    "The value that lane (own lane xor mask) holds.",
    convergent=True,
)
shuffle_xor_float = instruction(
    "shuffle_xor_float",
    "shfl.sync.bfly.b32 $0, $1, $2, 0x1f, 0xffffffff;",
    f32,
    (f32, i32),
    "The float32 that lane (own lane xor mask) holds.",
    convergent=True,
)
any_lane = instruction(
    "any_lane",
    "{ .reg .pred p, q; setp.ne.s32 p, $1, 0; vote.sync.any.pred q, p, 0xffffffff; "
    "selp.s32 $0, 1, 0, q; }",
    i32,
    (i32,),
    "1 if the value is not 0 in any lane of the warp.",
    convergent=True,
)

# -------------------- arithmetic

pack_bf16 = instruction(
    "pack_bf16",
    "cvt.rn.bf16x2.f32 $0, $2, $1;",
    i32,
    (f32, f32),
    "Two float32 rounded to bfloat16, the first in the low half.",
)
pack_f16 = instruction(
    "pack_f16",
    "cvt.rn.f16x2.f32 $0, $2, $1;",
    i32,
    (f32, f32),
    "Two float32 rounded to float16, the first in the low half.",
)
_PAIR = (f32,) * 2
unpack_bf16 = instruction(
    "unpack_bf16",
    "{ shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000; }",
    _PAIR,
    (i32,),
    "The two bfloat16 of a packed pair, the low half first.",
)
unpack_f16 = instruction(
    "unpack_f16",
    "{ .reg .b16 x, y; mov.b32 {x, y}, $2; cvt.f32.f16 $0, x; cvt.f32.f16 $1, y; }",
    _PAIR,
    (i32,),
    "The two float16 of a packed pair, the low half first.",
)
round_tf32 = instruction(
    "round_tf32",
    "{ .reg .b32 t; cvt.rna.tf32.f32 t, $1; mov.b32 $0, t; }",
    f32,
    (f32,),
    "A float32 rounded to 10 bits of mantissa, as tensor cores read it.",
)
float_bits = instruction("float_bits", "mov.b32 $0, $1;", i32, (f32,), "The bits of a float32.")
bits_float = instruction(
    "bits_float", "mov.b32 $0, $1;", f32, (i32,), "The float32 with these bits."
)
exp2 = instruction(
    "exp2", "ex2.approx.ftz.f32 $0, $1;", f32, (f32,), "2 to the power x, within 2 ulp; 0 for -inf."
)
rsqrt = instruction(
    "rsqrt", "rsqrt.approx.ftz.f32 $0, $1;", f32, (f32,), "1 / sqrt(x), to 2^-22; infinity for 0."
)
log2 = instruction(
    "log2", "lg2.approx.ftz.f32 $0, $1;", f32, (f32,), "Logarithm to base 2, approximate."
)
reciprocal = instruction(
    "reciprocal", "rcp.approx.ftz.f32 $0, $1;", f32, (f32,), "1 / x, within 1 ulp."
)
tanh = instruction(
    "tanh", "tanh.approx.f32 $0, $1;", f32, (f32,), "Hyperbolic tangent, relative error 2^-11."
)
maximum = instruction(
    "maximum",
    "max.f32 $0, $1, $2;",
    f32,
    (f32, f32),
    "The larger one, in one instruction; the other one of a NaN.",
)
maximum_nan = instruction(
    "maximum_nan", "max.NaN.f32 $0, $1, $2;", f32, (f32, f32), "The larger one; NaN if one is."
)
minimum = instruction(
    "minimum",
    "min.f32 $0, $1, $2;",
    f32,
    (f32, f32),
    "The smaller one, in one instruction; the other one of a NaN.",
)
divide_unsigned = instruction(
    "divide_unsigned",
    "div.u32 $0, $1, $2;",
    i32,
    (i32, i32),
    "Quotient of two int32 that are not negative (`//` of int32 is 64-bit and signed in Numba).",
)
