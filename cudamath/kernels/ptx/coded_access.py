"""Loads and stores of numbers whose dtype a kernel learns at run time, as a code.

Each is a switch over the dtypes, a branch that all threads of a launch take alike. So one kernel
serves arrays of all dtypes that it computes in one type.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtypes import COMPLEX, FLOATING, bfloat16, float16
from ..compiler.lazy_numba import SIMULATOR, intrinsic, ir, types

#: What stands for a dtype in the arguments of a kernel.
CODES: dict[np.dtype, np.int32] = {
    dtype: np.int32(code)
    for code, dtype in enumerate(
        [
            *map(np.dtype, ("bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")),
            float16,
            bfloat16,
            *map(np.dtype, ("f4", "f8", "c8", "c16")),
        ]
    )
}


def kind(dtype: np.dtype) -> np.dtype:
    """The dtype in which such a kernel has the numbers of a dtype."""
    if dtype.itemsize == 2 and dtype in FLOATING:
        return np.dtype(np.float32)
    if dtype in FLOATING or dtype in COMPLEX or dtype == np.uint64:
        return dtype
    return np.dtype(np.int64)


if SIMULATOR:

    def loader(kind: np.dtype) -> Any:
        """See below."""
        dtypes = list(CODES)

        def load_coded(memory: Any, offset: Any, code: Any) -> Any:
            element = _element(memory, offset, dtypes[code])
            return element[()].astype(kind)

        return load_coded

    def storer(kind: np.dtype) -> Any:
        """See below."""
        dtypes = list(CODES)

        def store_coded(memory: Any, offset: Any, code: Any, value: Any) -> None:
            with np.errstate(all="ignore"):
                _element(memory, offset, dtypes[code])[()] = kind.type(value).astype(dtypes[code])

        return store_coded

    def _element(memory: Any, offset: Any, dtype: np.dtype) -> np.ndarray:
        """The element of a dtype at this byte, which the array need not claim to have."""
        address = np.asarray(memory[0:1]).ctypes.data + int(offset)
        return np.ndarray((), dtype, (ctypes.c_char * dtype.itemsize).from_address(address))

else:
    from .conversions import TO_BFLOAT_7

    @functools.cache
    def loader(kind: np.dtype) -> Any:
        """An intrinsic (memory, offset, code) -> the number of the dtype CODES[code] in `memory`,
        uint8 (n,), from byte `offset` on, as a number of `kind`: int64, uint64, float32, float64
        or complex. Real kinds hold real dtypes, whole ones whole dtypes."""
        dtypes = [d for d in CODES if _holds(kind, d)]

        @intrinsic
        def load_coded(typingctx, memory, offset, code):
            T = getattr(types, kind.name).real

            def generate(context, builder, sig, values):
                found = []

                def branch(pointer: Any, dtype: np.dtype) -> None:
                    value = _loaded(context, builder, pointer, dtype, T)
                    found.append((value, builder.block))

                _switch(context, builder, sig, values, dtypes, branch, kind)
                result = builder.phi(context.get_value_type(T))
                for value, block in found:
                    result.add_incoming(value, block)
                return result

            return T(memory, types.int64.real, types.int32.real), generate

        return load_coded

    @functools.cache
    def storer(kind: np.dtype) -> Any:
        """An intrinsic (memory, offset, code, value): store the value, a number of `kind`, as one
        of the dtype CODES[code], which is rounded or wraps; a bool is 0 or 1. The kinds are those
        of `loader`: whole numbers, real ones, complex ones are stored in dtypes of the like."""
        alike = "biu" if kind.kind in "iu" else kind.kind
        dtypes = [d for d in CODES if d.kind in alike or d == bfloat16 and alike == "f"]

        @intrinsic
        def store_coded(typingctx, memory, offset, code, value):
            T = getattr(types, kind.name).real

            def generate(context, builder, sig, values):
                def branch(pointer: Any, dtype: np.dtype) -> None:
                    _store(context, builder, pointer, dtype, values[3], T)

                _switch(context, builder, sig, values, dtypes, branch, kind)
                return context.get_dummy_value()

            return types.void(memory, types.int64.real, types.int32.real, T), generate

        return store_coded

    def _holds(kind: np.dtype, dtype: np.dtype) -> bool:
        """Whether numbers of the dtype are read as numbers of this kind."""
        if kind.kind in "iu":
            return dtype.kind in "biu"
        return kind.kind == "c" or dtype.kind != "c"

    def _switch(
        context: Any,
        builder: Any,
        sig: Any,
        values: Any,
        dtypes: list[np.dtype],
        branch: Callable[[Any, np.dtype], None],
        first: np.dtype,
    ) -> None:
        """Code that is `branch(pointer, dtype)` for the dtype of the code, values[2]. `first` is
        asked for first, and its code lies there; the others follow. None else is an argument."""
        memory = context.make_array(sig.args[0])(context, builder, values[0])
        pointer = builder.gep(memory.data, [values[1]])
        names = "first", "rest", "others", "behind"
        ahead, rest, others, behind = map(builder.append_basic_block, names)
        is_first = builder.icmp_signed("==", values[2], _code(values[2].type, first))
        builder.cbranch(is_first, ahead, rest)
        builder.position_at_end(ahead)
        branch(pointer, first)
        builder.branch(behind)
        builder.position_at_end(rest)
        choice = builder.switch(values[2], others)
        for dtype in dtypes:
            if dtype != first:
                block = builder.append_basic_block(dtype.name)
                choice.add_case(_code(values[2].type, dtype), block)
                builder.position_at_end(block)
                branch(pointer, dtype)
                builder.branch(behind)
        builder.position_at_end(others)
        builder.unreachable()
        builder.position_at_end(behind)

    def _code(kind: Any, dtype: np.dtype) -> Any:
        return ir.Constant(kind, int(CODES[dtype]))

    def _loaded(context: Any, builder: Any, pointer: Any, dtype: np.dtype, T: Any) -> Any:
        """A number of the dtype as one of Numba's type T."""
        if not T.name.startswith("complex"):
            return _real(builder, pointer, dtype, context.get_value_type(T))
        part = context.get_value_type(T.underlying_float)
        number = context.make_complex(builder, T)
        if dtype.kind == "c":
            each = np.dtype(f"f{dtype.itemsize // 2}")
            second = builder.gep(pointer, [ir.Constant(ir.IntType(64), each.itemsize)])
            number.real = _real(builder, pointer, each, part)
            number.imag = _real(builder, second, each, part)
        else:
            number.real = _real(builder, pointer, dtype, part)
            number.imag = ir.Constant(part, 0.0)
        return number._getvalue()

    def _store(
        context: Any, builder: Any, pointer: Any, dtype: np.dtype, value: Any, T: Any
    ) -> None:
        """Store a number of Numba's type T in a dtype alike."""
        if dtype.kind != "c":
            _store_real(builder, pointer, dtype, value)
            return
        number = context.make_complex(builder, T, value)
        each = np.dtype(f"f{dtype.itemsize // 2}")
        second = builder.gep(pointer, [ir.Constant(ir.IntType(64), each.itemsize)])
        _store_real(builder, pointer, each, number.real)
        _store_real(builder, second, each, number.imag)

    def _real(builder: Any, pointer: Any, dtype: np.dtype, to: Any) -> Any:
        """A number of a real dtype as LLVM's type `to`."""
        bits = 8 * dtype.itemsize
        value = builder.load(builder.bitcast(pointer, ir.IntType(bits).as_pointer()))
        value.align = dtype.itemsize
        if dtype.kind in "biu":
            signed = dtype.kind == "i"
            if not isinstance(to, ir.IntType):
                return (builder.sitofp if signed else builder.uitofp)(value, to)
            wider = value.type.width < to.width
            return (builder.sext if signed else builder.zext)(value, to) if wider else value
        if dtype == float16:
            return _resized(builder, _emit(builder, "cvt.f32.f16 $0, $1;", "=f,h", value, 32), to)
        if dtype == bfloat16:
            word = builder.zext(value, ir.IntType(32))
            value, bits = builder.shl(word, ir.Constant(word.type, 16)), 32
        return _resized(builder, builder.bitcast(value, _floating(bits)), to)

    def _store_real(builder: Any, pointer: Any, dtype: np.dtype, value: Any) -> None:
        bits = 8 * dtype.itemsize
        if dtype.kind in "biu":
            value = value if value.type.width == bits else builder.trunc(value, ir.IntType(bits))
        elif dtype == float16:
            wide = isinstance(value.type, ir.DoubleType)
            text = f"cvt.rn.f16.f{64 if wide else 32} $0, $1;"
            value = _emit(builder, text, "=h,d" if wide else "=h,f", value, 16)
        elif dtype == bfloat16:
            value = _resized(builder, value, _floating(32))
            value = _emit(builder, TO_BFLOAT_7, "=h,f", value, 16)
        else:
            value = _resized(builder, value, _floating(bits))
        builder.store(
            value, builder.bitcast(pointer, value.type.as_pointer())
        ).align = dtype.itemsize

    def _floating(bits: int) -> Any:
        return ir.DoubleType() if bits == 64 else ir.FloatType()

    def _resized(builder: Any, value: Any, to: Any) -> Any:
        """A floating-point number in another width."""
        if value.type == to:
            return value
        return (builder.fpext if isinstance(to, ir.DoubleType) else builder.fptrunc)(value, to)

    def _emit(builder: Any, text: str, constraints: str, value: Any, bits: int) -> Any:
        """A PTX instruction of one number; bits of the result: 16, or 32 of a float32."""
        to = ir.IntType(16) if bits == 16 else ir.FloatType()
        kind = ir.FunctionType(to, [value.type])
        return builder.call(ir.InlineAsm(kind, text, constraints), [value])
