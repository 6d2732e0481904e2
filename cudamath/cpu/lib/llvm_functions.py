"""Functions in LLVM IR as Python functions, without Numba.

The import of Numba takes half a second and provides types, arrays and Python semantics. A loop over
numbers needs only LLVM, which loads in a tenth of that time.
"""

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from . import processor

BYTES, WORD, INT = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(32)
SIGNATURE = ir.FunctionType(
    BYTES, [BYTES, BYTES.as_pointer(), WORD]
)  # (self, arguments, how many) -> result

_DATA = (
    object.__basicsize__
)  # where the fields of NumPy's PyArrayObject begin: address, dimensions, pointer to the shape
FASTCALL = 0x80  # METH_FASTCALL
_INCREF, _SAVE, _RESTORE = (
    ctypes.cast(function, ctypes.c_void_p).value
    for function in (
        ctypes.pythonapi.Py_IncRef,
        ctypes.pythonapi.PyEval_SaveThread,
        ctypes.pythonapi.PyEval_RestoreThread,
    )
)
_kept: list[Any] = []  # code, and what Python's functions point to


class _MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def argument(builder: ir.IRBuilder, k: int) -> Any:
    """Argument k of a function of SIGNATURE."""
    return builder.load(builder.gep(builder.function.args[1], [WORD(k)]))


def data(builder: ir.IRBuilder, array: Any, kind: ir.Type) -> Any:
    """The address of the numbers of a NumPy array in C order."""
    return _field(builder, array, _DATA, kind.as_pointer())


def size(builder: ir.IRBuilder, array: Any) -> Any:
    """How many numbers a NumPy array of at least one dimension has."""
    shape = _field(builder, array, _DATA + 16, WORD.as_pointer())
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    k, total = builder.phi(INT), builder.phi(WORD)
    product, following = (
        builder.mul(total, builder.load(builder.gep(shape, [k]))),
        builder.add(k, INT(1)),
    )
    for phi, first, then in ((k, INT(0), following), (total, WORD(1), product)):
        phi.add_incoming(first, before)
        phi.add_incoming(then, loop)
    builder.cbranch(
        builder.icmp_signed("<", following, _field(builder, array, _DATA + 8, INT)), loop, after
    )
    builder.position_at_end(after)
    return product


def _field(builder: ir.IRBuilder, thing: Any, offset: int, kind: ir.Type) -> Any:
    return builder.load(builder.bitcast(builder.gep(thing, [WORD(offset)]), kind.as_pointer()))


def _python(builder: ir.IRBuilder, address: int | None, result: ir.Type, *arguments: Any) -> Any:
    """A call of one of Python's functions."""
    kind = ir.FunctionType(result, [BYTES] * len(arguments)).as_pointer()
    return builder.call(builder.inttoptr(WORD(address), kind), arguments)


@contextlib.contextmanager
def without_lock(builder: ir.IRBuilder) -> Iterator[None]:
    """What is written inside runs beside other threads of Python."""
    thread = _python(builder, _SAVE, BYTES)
    yield
    _python(builder, _RESTORE, ir.VoidType(), thread)


def return_none(builder: ir.IRBuilder) -> None:
    """The end of a function of SIGNATURE."""
    none = builder.inttoptr(WORD(id(None)), BYTES)
    _python(builder, _INCREF, ir.VoidType(), none)
    builder.ret(none)


@functools.cache
def machine() -> llvm.TargetMachine:
    """This processor, or the least one of the level that a pack is made for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = processor.target()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu,
        features=features,
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


def compiled(module: ir.Module, speed: int = 3) -> Callable[[str], int]:
    """A module, optimised and compiled: name of a function -> its address. speed: the level of
    optimisation."""
    module.triple = llvm.get_default_triple()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=speed)
    options.loop_vectorization = options.loop_unrolling = speed == 3
    passes = llvm.create_pass_builder(machine(), options)
    passes.getModulePassManager().run(parsed, passes)
    engine = llvm.create_mcjit_compiler(parsed, machine())
    engine.finalize_object()
    _kept.append(engine)
    return engine.get_function_address


def native(module: ir.Module, name: str) -> Callable[..., None]:
    """The function of this name and SIGNATURE, optimised and compiled; called from Python, it
    returns None."""
    return new_function(name, compiled(module)(name), FASTCALL)


def new_function(name: str, address: int, flags: int) -> Callable[..., Any]:
    """Machine code as a function of Python. flags: of PyMethodDef."""
    return _new_function(_definition(name, address, flags), None, None)


def new_functions(name: str, address: int, flags: int) -> Callable[[Any], Callable[..., Any]]:
    """A maker of functions of one machine code, which gets as its first argument the object that
    the maker gets."""
    definition = _definition(name, address, flags)
    return lambda bound: _new_function(definition, bound, None)


def method_of(kind: type, name: str, address: int, flags: int, parameters: str) -> Any:
    """Machine code as a method for a class. parameters: those after self, for `inspect`."""
    signature = f"{name}($self, {parameters})\n--\n\n"
    return _new_method(kind, _definition(name, address, flags, signature))


def _definition(name: str, address: int, flags: int, signature: str | None = None) -> int:
    doc = None if signature is None else signature.encode()
    method = _MethodDef(name.encode(), address, flags, doc)
    _kept.append(method)
    return ctypes.addressof(method)


_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))
_new_method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
    ("PyDescr_NewMethod", ctypes.pythonapi)
)
