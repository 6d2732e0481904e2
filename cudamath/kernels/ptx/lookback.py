"""Exchange of numbers between the blocks of one launch: loads and stores that are visible to the
whole GPU at once.

One block writes a word, and others wait for it while all of them run. Such a word carries its own
flag, so no order among several words matters and no fence is needed: ``relaxed`` accesses suffice.
Not for the simulator, whose blocks run one after another.
"""

from __future__ import annotations

from typing import Any

from ..compiler.lazy_numba import intrinsic, ir, types


def _element(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Pointer to an element of a contiguous array."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


def _register(width: int) -> str:
    return "r" if width == 32 else "l"


@intrinsic
def load_relaxed(typingctx, array, index):
    """array[index] of a contiguous array of uint32 or uint64, as memory holds it now."""
    signature = array.dtype(array, types.int64.real)

    def generate(context, builder, sig, values):
        pointer = _element(context, builder, sig.args[0], *values)
        word = pointer.type.pointee
        assembly = ir.InlineAsm(
            ir.FunctionType(word, [pointer.type]),
            f"ld.relaxed.gpu.u{word.width} $0, [$1];",
            f"={_register(word.width)},l,~{{memory}}",
            side_effect=True,
        )
        return builder.call(assembly, [pointer])

    return signature, generate


@intrinsic
def store_relaxed(typingctx, array, index, value):
    """array[index] = value, for a contiguous array of uint32 or uint64, visible to all blocks."""
    signature = types.void(array, types.int64.real, array.dtype)

    def generate(context, builder, sig, values):
        pointer = _element(context, builder, sig.args[0], *values[:2])
        word = pointer.type.pointee
        assembly = ir.InlineAsm(
            ir.FunctionType(ir.VoidType(), [pointer.type, word]),
            f"st.relaxed.gpu.u{word.width} [$0], $1;",
            f"l,{_register(word.width)},~{{memory}}",
            side_effect=True,
        )
        builder.call(assembly, [pointer, values[2]])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def bits(typingctx, value):
    """The bits of a float32 or float64 as an unsigned integer of that width."""
    word = types.uint32 if value.bitwidth == 32 else types.uint64

    def generate(context, builder, sig, values):
        return builder.bitcast(values[0], ir.IntType(word.bitwidth))

    return word(value), generate


@intrinsic
def number(typingctx, word):
    """The float32 or float64 of these bits."""
    kind = types.float32 if word.bitwidth == 32 else types.float64

    def generate(context, builder, sig, values):
        return builder.bitcast(
            values[0], ir.FloatType() if kind is types.float32 else ir.DoubleType()
        )

    return kind(word), generate
