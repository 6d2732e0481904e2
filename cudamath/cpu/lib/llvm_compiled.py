"""What Python calls of compiled functions: loops over arrays (`loop`, `parallel`), and ufuncs.

    @loop
    def scale(x, factor):
        for i in range(x.size):
            x[i] *= factor

A loop is compiled at its first call for each kind of arguments: NumPy arrays in C order, Python's
and NumPy's numbers, tuples of numbers. It returns nothing, runs beside Python's other threads, and
is called in a quarter of a microsecond and 10 ns for each argument. The `prange` of a `parallel`
function runs in parts, one for each core; how it is cut must not change results.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from . import llvm_functions, machine_code, threads
from .llvm_compiler import (
    Compiler,
    Made,
    Source,
    counted,
    label_of,
    registers,
    spelled,
    value_of,
)
from .llvm_functions import BYTES, INT, SIGNATURE, WORD
from .llvm_numbers import BOOL, Array, Number, Tuple, Value, cast, loaded, memory, store

_POINTER, _DOUBLE, _VOID = BYTES, ir.DoubleType(), ir.VoidType()
#: Functions of Python that compiled code calls, by name.
_PYTHON = (
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
    "PyErr_NoMemory",
    "PyFloat_AsDouble",
    "PyLong_AsUnsignedLongLongMask",
    "PyObject_IsTrue",
    "PyTuple_GetItem",
)


@functools.cache
def _symbols() -> None:
    """Tell LLVM where Python's functions are."""
    for name in _PYTHON:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        llvm.add_symbol(name, address)
    llvm.add_symbol("cudamath_none", id(None))


def _external(b: ir.IRBuilder, name: str, result: ir.Type, *values: Any) -> Any:
    kind = ir.FunctionType(result, [each.type for each in values])
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.call(function, values)


def kind_of(value: Any) -> Any:
    """The kind of an argument (llvm_compiler.py)."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype, value.ndim)
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return _INT64
    if isinstance(value, float):  # NumPy's float64 too
        return _FLOAT64
    if isinstance(value, np.generic):
        return value.dtype
    if isinstance(value, tuple):
        return ("tuple", *map(kind_of, value))
    raise TypeError(f"compiled functions take no {type(value).__name__}")


def _seen(value: Any) -> Any:
    """What tells kinds of arguments apart, found quicker than the kind. TypeError for an array
    that is not in C order: compiled code would read other numbers."""
    kind = value.__class__
    if kind is np.ndarray:
        if not value.flags.c_contiguous:
            about = f"shape {value.shape}, strides {value.strides}"
            raise TypeError(f"compiled functions take arrays in C order, got {about}")
        return value.dtype, value.ndim
    return tuple(map(type, value)) if kind is tuple else kind


_INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


# -------------------- arguments of Python


def _read(b: ir.IRBuilder, kind: Any, of: Any) -> Value:
    """The value of a Python object of this kind."""
    if isinstance(kind, np.dtype):
        if kind == BOOL:
            found = _external(b, "PyObject_IsTrue", INT, of)
            return Number(BOOL, b.icmp_signed("!=", found, INT(0)))
        if kind.kind == "f":
            return cast(b, Number(_FLOAT64, _external(b, "PyFloat_AsDouble", _DOUBLE, of)), kind)
        whole = _external(b, "PyLong_AsUnsignedLongLongMask", WORD, of)
        return cast(b, Number(np.dtype(np.uint64), whole), kind)
    if kind[0] == "tuple":
        items = [
            _read(b, part, _external(b, "PyTuple_GetItem", _POINTER, of, WORD(i)))
            for i, part in enumerate(kind[1:])
        ]
        return Tuple(tuple(items))
    _, dtype, ndim = kind
    shape = llvm_functions._field(b, of, llvm_functions._DATA + 16, WORD.as_pointer())
    lengths = tuple([b.load(b.gep(shape, [INT(k)])) for k in range(ndim)])
    return Array(dtype, llvm_functions.data(b, of, memory(dtype)), lengths)


def _write_entry(compiler: Compiler, label: str, source: Source, kinds: Sequence[Any]) -> None:
    """label(self, arguments, count): the function for Python."""
    made = compiler.made(source, kinds)
    _returns_nothing(source, made)
    b, passed = _entry(compiler.module, label, kinds)
    thread = _external(b, "PyEval_SaveThread", _POINTER)
    status = b.call(made.function, passed)
    _leave(b, thread, status)


def _write_parallel_entry(
    compiler: Compiler, label: str, source: Source, kinds: Sequence[Any]
) -> None:
    """The same of a `parallel` function. It takes five more numbers: a part and how many there
    are; or, where these are 0, addresses of OpenMP's functions (`threads.Team`)."""
    made = compiler.made(source, kinds, parts=True)
    _returns_nothing(source, made)
    b, passed = _entry(compiler.module, label, [*kinds, *[_INT64] * 5])
    passed, (part, count, *team) = passed[:-5], passed[-5:]
    with b.goto_entry_block():
        cells = b.alloca(ir.LiteralStructType([INT, WORD, WORD, *[each.type for each in passed]]))

    def cell(builder: ir.IRBuilder, of: Any, k: int) -> Any:
        return builder.gep(of, [INT(0), INT(k)])

    for k, each in enumerate([INT(0), *team[1:], *passed]):
        b.store(each, cell(b, cells, k))
    thread = _external(b, "PyEval_SaveThread", _POINTER)
    with b.if_else(b.icmp_signed(">", count, WORD(0))) as (one, together):
        with one:
            b.store(b.call(made.function, [*passed, part, count]), cell(b, cells, 0))
        with together:
            member = _write_member(compiler.module, label, made, cells.type, cell, len(passed))
            work = ir.FunctionType(_VOID, [member.type, _POINTER, INT, INT]).as_pointer()
            data = b.bitcast(cells, _POINTER)
            b.call(b.inttoptr(team[0], work), [member, data, b.trunc(part, INT), INT(0)])
    _leave(b, thread, b.load(cell(b, cells, 0)))


def _write_member(
    module: ir.Module, label: str, made: Made, kind: ir.Type, cell: Any, count: int
) -> ir.Function:
    """What each thread of a team runs."""
    function = ir.Function(module, ir.FunctionType(_VOID, [_POINTER]), f"{label}.member")
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block())
    cells = b.bitcast(function.args[0], kind)
    asked = ir.FunctionType(INT, []).as_pointer()
    found = [b.sext(b.call(b.inttoptr(b.load(cell(b, cells, k)), asked), []), WORD) for k in (1, 2)]
    passed = [b.load(cell(b, cells, 3 + k)) for k in range(count)]
    status = b.call(made.function, [*passed, *found])
    with b.if_then(b.icmp_unsigned("!=", status, INT(0)), likely=False):
        b.store(status, cell(b, cells, 0))
    b.ret_void()
    return function


def _returns_nothing(source: Source, made: Made) -> None:
    if made.result is not None:
        raise TypeError(f"{source.function.__qualname__} returns a value")


def _entry(module: ir.Module, label: str, kinds: Sequence[Any]) -> tuple[ir.IRBuilder, list[Any]]:
    """The beginning of a function for Python: its arguments in registers."""
    function = ir.Function(module, SIGNATURE, label)
    b = ir.IRBuilder(function.append_basic_block())
    values = [_read(b, kind, llvm_functions.argument(b, k)) for k, kind in enumerate(kinds)]
    return b, [each for value in values for each in registers(value)]


def _leave(b: ir.IRBuilder, thread: Any, status: Any) -> None:
    """Its end: None, or MemoryError."""
    _external(b, "PyEval_RestoreThread", _VOID, thread)
    with b.if_then(b.icmp_unsigned("!=", status, INT(0)), likely=False):
        b.ret(_external(b, "PyErr_NoMemory", _POINTER))
    none = b.module.globals.get("cudamath_none") or ir.GlobalVariable(
        b.module, ir.IntType(8), "cudamath_none"
    )
    _external(b, "Py_IncRef", _VOID, b.bitcast(none, _POINTER))
    b.ret(b.bitcast(none, _POINTER))


def _loaded(
    name: str,
    label: str,
    function: Any,
    write: Callable[[Compiler], None],
    as_written: bool = False,
) -> int:
    """The address of a function's machine code (`machine_code.loaded`)."""
    _symbols()
    what = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
    return machine_code.loaded(name, label, what, write, as_written)


# -------------------- loops


class Loop:
    """A compiled function that returns nothing."""

    def __init__(
        self,
        function: Any,
        fastmath: tuple[str, ...] = (),
        parallel: bool = False,
        as_written: bool = False,
    ):
        self.source, self._parallel = Source(function, fastmath), parallel
        self._as_written = as_written
        self._natives: dict[Any, Callable[..., None]] = {}
        functools.update_wrapper(self, function)

    def _native(self, arguments: tuple[Any, ...]) -> Callable[..., None]:
        seen = tuple([_seen(each) for each in arguments])
        native = self._natives.get(seen)
        if native is None:
            native = self._natives[seen] = self.entry(*map(kind_of, arguments))
        return native

    def alone(self, *arguments: Any) -> None:
        """A parallel function on the caller's thread: for work that ends before others begin."""
        self._native(arguments)(*arguments, 0, 1, 0, 0, 0)

    def __call__(self, *arguments: Any) -> None:
        native = self._native(arguments)
        if self._parallel:
            threads.run(native, arguments)
        else:
            native(*arguments)

    def entry(self, *kinds: Any) -> Callable[..., None]:
        """The machine code for arguments of these kinds and no others, arrays in C order."""
        try:
            return self._natives[kinds]
        except KeyError:
            pass
        function = self.source.function
        name = f"{function.__module__}.{function.__qualname__}{spelled(kinds)}"
        label = label_of(name)

        def write(compiler: Compiler) -> None:
            entry = _write_parallel_entry if self._parallel else _write_entry
            entry(compiler, label, self.source, kinds)

        address = _loaded(name, label, function, write, self._as_written)
        native = llvm_functions.new_function(function.__name__, address, llvm_functions.FASTCALL)
        return self._natives.setdefault(kinds, native)


def loop(function: Any = None, *, fastmath: tuple[str, ...] = ()) -> Any:
    """Decorator: a compiled function. fastmath: LLVM's flags, such as "reassoc"."""
    if function is None:
        return functools.partial(loop, fastmath=fastmath)
    return Loop(function, fastmath)


def parallel(function: Any = None, *, as_written: bool = False) -> Any:
    """Decorator: a compiled function whose `prange` runs on all cores. as_written: its loops are
    neither unrolled nor made vectors, for the inner ones are `emitted`: it is compiled sooner."""
    if function is None:
        return functools.partial(parallel, as_written=as_written)
    return Loop(function, parallel=True, as_written=as_written)


# -------------------- ufuncs


@functools.cache
def _new_ufunc() -> Callable[..., Any]:
    """PyUFunc_FromFuncAndData, from the table of NumPy's ufuncs."""
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    core = importlib.import_module("numpy._core._multiarray_umath")
    table = pointer(core._UFUNC_API, None)
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[1]
    return ctypes.PYFUNCTYPE(
        ctypes.py_object,
        *[ctypes.c_void_p] * 3,
        *[ctypes.c_int] * 4,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int,
    )(address)


def _write_ufunc_loop(
    compiler: Compiler, label: str, source: Source, dtype: np.dtype, count: int
) -> None:
    """label(addresses, lengths, steps, nothing): NumPy's PyUFuncGenericFunction."""
    made = compiler.written(source, [dtype] * count)
    pointers, words = BYTES.as_pointer(), WORD.as_pointer()
    kind = ir.FunctionType(_VOID, [pointers, words, words, BYTES])
    function = ir.Function(compiler.module, kind, label)
    b = ir.IRBuilder(function.append_basic_block())
    addresses, lengths, steps, _ = function.args
    starts = [b.load(b.gep(addresses, [INT(k)])) for k in range(count + 1)]
    strides = [b.load(b.gep(steps, [INT(k)])) for k in range(count + 1)]

    def place(k: int, i: Any) -> Any:
        at = b.gep(starts[k], [b.mul(i, strides[k])])
        return b.bitcast(at, memory(dtype).as_pointer())

    with counted(b, b.load(lengths)) as i:
        found = [loaded(b, place(k, i), dtype) for k in range(count)]
        result = b.call(made.function, [each.value for each in found])
        value = value_of(made.result, iter([result]))
        store(b, value, place(count, i), dtype)
    b.ret_void()


_CODES = {np.dtype(np.float32): 11, _FLOAT64: 12}  # NPY_FLOAT, NPY_DOUBLE
_kept: list[Any] = []  # what ufuncs point to


def ufunc(function: Any, dtypes: Sequence[Any] = (np.float64,)) -> np.ufunc:
    """The ufunc of a function of numbers, compiled at once for each of these dtypes."""
    count, name = function.__code__.co_argcount, function.__name__
    addresses, codes = [], []
    for dtype in map(np.dtype, dtypes):
        title = f"{function.__module__}.{function.__qualname__}({dtype}) as ufunc"
        label = label_of(title)

        def write(compiler: Compiler, label: str = label, dtype: np.dtype = dtype) -> None:
            _write_ufunc_loop(compiler, label, Source(function), dtype, count)

        addresses.append(_loaded(title, label, function, write))
        codes += [_CODES[dtype]] * (count + 1)
    functions = (ctypes.c_void_p * len(addresses))(*addresses)
    closures = (ctypes.c_void_p * len(addresses))()
    kinds = ctypes.create_string_buffer(bytes(codes))
    texts = name.encode(), (function.__doc__ or "").encode()
    _kept.append((functions, closures, kinds, texts))
    return _new_ufunc()(
        *[ctypes.addressof(each) for each in (functions, closures, kinds)],
        len(addresses),
        count,
        1,
        -1,  # PyUFunc_None: a reduction has no start
        *texts,
        0,
    )


__all__ = ["Loop", "kind_of", "loop", "parallel", "ufunc"]
