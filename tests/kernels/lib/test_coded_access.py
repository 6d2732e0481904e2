"""Numbers whose dtype is a code: what is loaded and stored, by the same LLVM code on the CPU.

16-bit floats are converted by PTX instructions, which a GPU alone executes: the versions "small" in
test_elementwise_generator.py and test_small_reductions.py load and store those.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from cudamath.kernels.compiler import lazy_numba

if lazy_numba.SIMULATOR:
    pytest.skip("the simulator has no such code", allow_module_level=True)

from cudamath.kernels.ptx import coded_access

DTYPES = [np.dtype(t) for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")]
VALUES = {"i8": ir.IntType(64), "u8": ir.IntType(64), "f4": ir.FloatType(), "f8": ir.DoubleType()}
KINDS = list(VALUES)


def compiled(body: Callable[[Any, Any, Any], None]) -> Any:
    """A C function (source, target) whose code `body(builder, source, target)` makes, and what
    keeps it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module, byte = ir.Module(), ir.IntType(8).as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [byte, byte]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    body(builder, *function.args)
    builder.ret_void()
    target = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), target)
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address("f")
    )
    return lambda x, y: (call(x.ctypes.data, y.ctypes.data), engine)


def awkward(dtype: np.dtype) -> np.ndarray:
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind == "f":
        return np.array([0.0, -0.0, 1.5, -2.75, 1e-40, 3e38, np.inf, np.nan], dtype)
    limits = np.iinfo(dtype)
    return np.array([0, 1, 100, limits.min, limits.max, limits.max - 1, limits.min + 1], dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_are_loaded_as_astype_has_them(dtype, kind):
    if dtype.kind == "f" and kind in ("i8", "u8"):
        assert not coded_access._holds(np.dtype(kind), dtype)
        return
    assert coded_access._holds(np.dtype(kind), dtype)

    def body(builder, source, target):
        value = coded_access._real(builder, source, dtype, VALUES[kind])
        builder.store(value, builder.bitcast(target, value.type.as_pointer()))

    load, out = compiled(body), np.empty(1, kind)
    for x in awkward(dtype):
        load(np.array([x]), out)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out, np.array([x]).astype(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_numbers_are_stored_as_astype_stores_them(dtype, kind):
    """Whole numbers wrap, real ones are rounded."""
    if (dtype.kind == "f") != (kind in ("f4", "f8")):
        return

    def body(builder, source, target):
        value = builder.load(builder.bitcast(source, VALUES[kind].as_pointer()))
        coded_access._store_real(builder, target, dtype, value)

    store, out = compiled(body), np.empty(1, dtype)
    for x in awkward(np.dtype(kind)):
        store(np.array([x]), out)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out, np.array([x]).astype(dtype))


def test_every_dtype_of_arrays_has_a_code():
    from cudamath.core.dtypes import ANY

    assert coded_access.CODES.keys() == ANY
    assert sorted(coded_access.CODES.values()) == list(range(len(ANY)))
