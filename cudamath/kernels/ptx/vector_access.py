"""Loads and stores of several elements at once, as PTX instructions."""

from __future__ import annotations

import functools
from typing import Any

from ..compiler.lazy_numba import SIMULATOR, intrinsic, ir, types

if not SIMULATOR:

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
    def load_words(typingctx, array, index, count):
        """`count` (a literal) words of 32 bits, as a tuple: those of a 1-D contiguous array of
        16-bit elements from element `index` on (aligned as in `load_vector`)."""
        if not isinstance(count, types.IntegerLiteral):
            return None
        number = count.literal_value
        signature = types.UniTuple(types.uint32.real, number)(array, types.int64.real, count)

        def generate(context, builder, sig, values):
            _, pointer, _ = _vector(context, builder, sig, values, number)
            vector = ir.VectorType(ir.IntType(32), number)
            loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()))
            loaded.align = 4 * number
            items = [
                builder.extract_element(loaded, ir.Constant(ir.IntType(32), k))
                for k in range(number)
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
