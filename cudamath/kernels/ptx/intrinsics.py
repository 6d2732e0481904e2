"""PTX instructions as Numba intrinsics, each stated once: conversions and wide loads, and how an
intrinsic is made.

Tensor cores of compute capability 8.0 and what goes with them: sm80.py. Those of 9.0:
sm90.py. In Numba's simulator the same names are plain Python functions where a meaning
without a GPU exists (conversions).
"""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..compiler.lazy_numba import SIMULATOR, cuda, intrinsic, ir, types

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
    _REGISTER = {
        types.uint16: "h",
        types.int32: "r",
        types.uint32: "r",
        types.int64: "l",
        types.uint64: "l",
        types.float32: "f",
        types.float64: "d",
    }

    def _llvm(kind: Any) -> Any:
        """LLVM's type of a number."""
        return (
            {"float32": ir.FloatType, "float64": ir.DoubleType}[kind.name]()
            if kind.name.startswith("float")
            else (ir.IntType(kind.bitwidth))
        )

    def instruction(
        name: str,
        assembly: str,
        result: Any,
        arguments: tuple,
        doc: str,
        *,
        pure: bool = True,
        convergent: bool = False,
    ) -> Any:
        """An intrinsic that emits `assembly`. $0, $1, .. are the result (one register; several for
        a tuple of types; none for None), then the arguments.

        pure: touches no memory and may be moved. convergent: all threads of a warp must meet in it.
        """
        several = isinstance(result, tuple)
        each = result[0] if several else result
        count = len(result) if several else int(result is not None)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            returned = (
                ir.VoidType()
                if not count
                else ir.LiteralStructType([_llvm(each)] * count)
                if several
                else _llvm(each)
            )
            kind = ir.FunctionType(returned, [_llvm(a) for a in arguments])
            constraints = [f"={_REGISTER[each]}" for _ in range(count)] + [
                _REGISTER[a] for a in arguments
            ]
            constraints += [] if pure else ["~{memory}"]
            value = builder.call(
                ir.InlineAsm(kind, assembly, ",".join(constraints), side_effect=not pure),
                values,
                attrs=("convergent",) if convergent else (),
            )
            if not count:
                return context.get_dummy_value()
            if not several:
                return value
            return context.make_tuple(
                builder,
                signature.return_type,
                [builder.extract_value(value, i) for i in range(count)],
            )

        def typed(*_: Any) -> tuple[Any, Any]:
            returned = (
                types.UniTuple(each.real, count)
                if several
                else types.void
                if result is None
                else each.real
            )
            return returned(*[a.real for a in arguments]), generate

        return _intrinsic(name, len(arguments), typed, doc)

    class Registers(NamedTuple):
        """An operand of `array_instruction`: `count` consecutive elements of a cuda.local.array,
        held in registers.

        The intrinsic takes two arguments for it, the array and the index of the first of them,
        which must be known when the kernel is compiled. use: "read", "write" or "update".
        """

        kind: Any
        count: int
        use: str

    def array_instruction(name: str, assembly: str, operands: tuple, doc: str) -> Any:
        """An intrinsic on registers of local arrays. In `assembly`, <i> stands for the i-th
        operand: a scalar type, or a `Registers`, written as {$a, $b, ..}; <i:j:k> for some
        registers of it. All threads of a warp must meet in it."""
        written = [o for o in operands if isinstance(o, Registers) and o.use != "read"]
        outputs = [o.kind for o in written for _ in range(o.count)]
        inputs: list[
            Any
        ] = []  # kinds of registers that are read; those of an update are tied to an output
        constraints = [
            "=&" + _REGISTER[o.kind] if o.use == "write" else "=" + _REGISTER[o.kind]
            for o in written
            for _ in range(o.count)
        ]
        places: list[
            tuple[int, int]
        ] = []  # (number of the first register, how many or 0 for a scalar) of each operand
        at = 0
        for operand in operands:
            if not isinstance(operand, Registers):
                places.append((len(constraints), 0))
                constraints.append(_REGISTER[operand])
                inputs.append(operand)
            elif operand.use == "read":
                places.append((len(constraints), operand.count))
                constraints += [_REGISTER[operand.kind]] * operand.count
                inputs += [operand.kind] * operand.count
            else:
                places.append((at, operand.count))
                if operand.use == "update":
                    constraints += [str(at + i) for i in range(operand.count)]
                    inputs += [operand.kind] * operand.count
                at += operand.count

        def written_out(match: re.Match[str]) -> str:
            first, number = places[int(match[1])]
            if not number:
                return f"${first}"
            start, stop = (int(match[2]), int(match[3])) if match[2] else (0, number)
            return "{" + ", ".join(f"${first + i}" for i in range(start, stop)) + "}"

        assembly = re.sub(r"<(\d+)(?::(\d+):(\d+))?>", written_out, assembly)
        constraints.append("~{memory}")

        def typed(*arguments: Any) -> tuple[Any, Any]:
            given = iter(arguments)
            kinds = []
            for operand in operands:
                first = next(given)
                if isinstance(operand, Registers):
                    next(given)
                    kinds += [first, types.int64.real]
                else:
                    kinds.append(operand.real)
            return types.void(*kinds), generate

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            reads, writes = [], []
            position = 0
            for operand in operands:
                if not isinstance(operand, Registers):
                    reads.append(values[position])
                    position += 1
                    continue
                data = context.make_array(signature.args[position])(
                    context, builder, values[position]
                ).data
                places = [
                    builder.gep(
                        data, [builder.add(values[position + 1], ir.Constant(ir.IntType(64), i))]
                    )
                    for i in range(operand.count)
                ]
                if operand.use != "write":
                    reads += [builder.load(place) for place in places]
                if operand.use != "read":
                    writes += places
                position += 2
            returned = (
                ir.LiteralStructType([_llvm(k) for k in outputs])
                if len(outputs) > 1
                else (_llvm(outputs[0]) if outputs else ir.VoidType())
            )
            kind = ir.FunctionType(returned, [_llvm(k) for k in inputs])
            value = builder.call(
                ir.InlineAsm(kind, assembly, ",".join(constraints), side_effect=True),
                reads,
                attrs=("convergent",),
            )
            for i, place in enumerate(writes):
                builder.store(builder.extract_value(value, i) if len(outputs) > 1 else value, place)
            return context.get_dummy_value()

        return _intrinsic(name, sum(1 + isinstance(o, Registers) for o in operands), typed, doc)

    def _intrinsic(name: str, count: int, typed: Any, doc: str) -> Any:
        """An intrinsic `name` of `count` arguments; `typed(*types)` gives (signature, code
        generator)."""
        names = ", ".join(f"a{i}" for i in range(count))
        namespace = {"typed": typed}
        exec(f"def {name}(typingctx, {names}):\n    return typed({names})\n", namespace)
        function = namespace[name]
        function.__doc__ = doc
        return intrinsic(function)

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
    _TO_BFLOAT_7 = """{ .reg .b32 b, r; .reg .pred p; mov.b32 b, $1; shr.u32 r, b, 16; and.b32 r, r, 1; add.u32 r, r, b;
        add.u32 r, r, 0x7FFF; shr.u32 r, r, 16; setp.nan.f32 p, $1, $1; selp.b32 r, 0x7FFF, r, p; cvt.u16.u32 $0, r; }"""  # noqa: E501

    @intrinsic
    def float_to_bfloat(typingctx, value):
        """float32 rounded to the nearest bfloat16 (ties to even), held as uint16; NaN is 0x7FFF.

        One instruction from compute capability 8.0 on, which 16-bit kernels do notice: nine
        elsewhere.
        """

        def generate(context, builder, sig, values):
            from ..compiler.compile import target_has

            kind = ir.FunctionType(ir.IntType(16), [ir.FloatType()])
            return builder.call(
                ir.InlineAsm(kind, _TO_BFLOAT if target_has((8, 0)) else _TO_BFLOAT_7, "=h,f"),
                values,
            )

        return types.uint16(types.float32), generate

    @intrinsic
    def load_vector(typingctx, array, index, count):
        """`count` (a literal) consecutive elements of a 1-D contiguous array from `index` on, as a
        tuple.

        The address must be a multiple of min(16, count * itemsize) bytes: one 16-byte access is
        then the widest.
        """
        if not isinstance(count, types.IntegerLiteral):
            return None  # Numba tries the arguments as literals next
        number = count.literal_value
        signature = types.UniTuple(array.dtype, number)(array, types.int64.real, count)

        def generate(context, builder, sig, values):
            element, pointer, width = _vector(context, builder, sig, values, number)
            if element is None:  # complex numbers: a vector of them is no LLVM vector
                items = [
                    context.unpack_value(
                        builder, array.dtype, builder.gep(pointer, [ir.Constant(ir.IntType(64), k)])
                    )
                    for k in range(number)
                ]
            else:
                packed = _packed(element, number)
                vector = (
                    ir.VectorType(ir.IntType(32), number // packed)
                    if packed
                    else ir.VectorType(element, number)
                )
                loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()))
                loaded.align = width
                items = [
                    builder.extract_element(loaded, ir.Constant(ir.IntType(32), k))
                    for k in range(vector.count)
                ]
                if packed:
                    items = [
                        builder.trunc(
                            builder.lshr(item, ir.Constant(item.type, k * element.width)), element
                        )
                        for item in items
                        for k in range(packed)
                    ]
            return context.make_tuple(builder, sig.return_type, items)

        return signature, generate

    @intrinsic
    def store_vector(typingctx, array, index, values):
        """Store a tuple of elements to consecutive places of a 1-D contiguous array from `index` on
        (aligned as loads)."""
        number = len(values)
        signature = types.void(array, types.int64.real, types.UniTuple(array.dtype, number))

        def generate(context, builder, sig, arguments):
            element, pointer, width = _vector(context, builder, sig, arguments, number)
            items = [builder.extract_value(arguments[2], k) for k in range(number)]
            if element is None:
                for k, item in enumerate(items):
                    context.pack_value(
                        builder,
                        array.dtype,
                        item,
                        builder.gep(pointer, [ir.Constant(ir.IntType(64), k)]),
                    )
            else:
                packed = _packed(element, number)
                if packed:
                    word = ir.IntType(32)
                    wide = [
                        builder.shl(
                            builder.zext(item, word), ir.Constant(word, k % packed * element.width)
                        )
                        for k, item in enumerate(items)
                    ]
                    items = [
                        functools.reduce(builder.or_, wide[k : k + packed])
                        for k in range(0, number, packed)
                    ]
                vector = ir.Constant(ir.VectorType(items[0].type, len(items)), ir.Undefined)
                for k, item in enumerate(items):
                    vector = builder.insert_element(vector, item, ir.Constant(ir.IntType(32), k))
                stored = builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer()))
                stored.align = width
            return context.get_dummy_value()

        return signature, generate

    def _packed(element: Any, number: int) -> int:
        """How many small integers travel in a 32-bit word, or 0: PTX moves at most four values at a
        time."""
        if (
            not isinstance(element, ir.IntType)
            or element.width >= 32
            or number * element.width % 32
        ):
            return 0
        return 32 // element.width

    def _vector(
        context: Any, builder: Any, sig: Any, values: Any, number: int
    ) -> tuple[Any, Any, int]:
        """(LLVM element type or None for complex, pointer to the first element, alignment in
        bytes)."""
        kind = sig.args[0]
        array = context.make_array(kind)(context, builder, values[0])
        pointer = builder.gep(array.data, [values[1]])
        if isinstance(kind.dtype, types.Complex):
            return None, pointer, 0
        return pointer.type.pointee, pointer, min(16, number * kind.dtype.bitwidth // 8)

    @intrinsic
    def array_at(typingctx, like, address):
        """The 1-D array at a device address (int64), of the type of the array `like`, whose length
        it claims to have."""
        signature = like(like, types.int64.real)

        def generate(context, builder, sig, values):
            array = context.make_array(sig.args[0])(context, builder, values[0])
            kind = array.data.type
            in_global = builder.inttoptr(values[1], kind.pointee.as_pointer(1))
            array.data = builder.addrspacecast(in_global, kind)
            return array._getvalue()

        return signature, generate
