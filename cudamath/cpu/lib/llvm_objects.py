"""Machine code that deals with Python's objects: functions in LLVM IR over CPython's C API.

They read fields of objects where these have lain since CPython 3.8 (type, size and items, in builds
with a global lock) and NumPy 1.7 (PyArrayObject). `supported` looks whether this Python and this
NumPy have them there: it compares what lies in the memory of a few objects with what Python says of
them, and reads nothing outside of these objects before that is settled.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from .llvm_functions import BYTES, INT, WORD

WIDTH = 8  # bytes of a pointer
TYPE, SIZE, ITEMS = 8, 16, 24  # offsets in objects: type; size of a tuple, list or dict; items
# offsets in PyArrayObject
DATA, AXES, SHAPE, STRIDES, BASE, DESCR, FLAGS = 16, 24, 32, 40, 48, 56, 64
CONTIGUOUS, OWNED, ALIGNED, WRITEABLE = 0x1, 0x4, 0x100, 0x400  # NPY_ARRAY_... in the flags
NULL = ir.Constant(BYTES, None)
_kept: list[Any] = []  # objects whose addresses are in the code


def keep(thing: Any) -> Any:
    """Keep an object alive whose address is in the code."""
    _kept.append(thing)
    return thing


def supported() -> bool:
    """Whether objects lie in memory as this file has it."""
    return (
        sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and getattr(sys, "_is_gil_enabled", lambda: True)()
        and struct.calcsize("P") == struct.calcsize("n") == WIDTH
        and object.__basicsize__ == SIZE
        and _containers_as_here()
        and _arrays_as_here()
    )


def _word(thing: Any, offset: int) -> int:
    """Eight bytes of an object."""
    return ctypes.c_size_t.from_address(id(thing) + offset).value


def _containers_as_here() -> bool:
    items = object(), object()
    pair, several, table = tuple(items), list(items), dict.fromkeys(items)
    containers: list[Any] = [pair, several, table]
    empty: list[Any] = [(), [], {}]
    if not (
        tuple.__basicsize__ == ITEMS and tuple.__itemsize__ == WIDTH and dict.__basicsize__ > SIZE
    ):
        return False
    return (
        all([_word(each, TYPE) == id(type(each)) for each in [*items, *containers]])
        and all([_word(each, SIZE) == 2 for each in containers])
        and [_word(pair, ITEMS + k * WIDTH) for k in range(2)] == [id(item) for item in items]
        and not any([_word(each, SIZE) for each in empty])
    )


def _arrays_as_here() -> bool:
    owner = np.zeros((5, 7), np.int16)
    view = owner[1:3, ::2]
    if np.ndarray.__basicsize__ < FLAGS + 4:
        return False
    for x in (owner, view):
        fields = [
            (TYPE, id(np.ndarray)),
            (DATA, x.ctypes.data),
            (BASE, 0 if x.base is None else id(x.base)),
            (DESCR, id(x.dtype)),
        ]
        if any([_word(x, offset) != value for offset, value in fields]):
            return False
        axes = ctypes.c_int.from_address(id(x) + AXES).value
        flags = ctypes.c_int.from_address(id(x) + FLAGS).value
        if axes != x.ndim or flags != x.flags.num:
            return False
        shape, strides = _word(x, SHAPE), _word(x, STRIDES)
        if strides - shape != WIDTH * x.ndim or shape % WIDTH:  # NumPy makes room for both at once
            return False
        for address, values in ((shape, x.shape), (strides, x.strides)):
            if [*(ctypes.c_ssize_t * x.ndim).from_address(address)] != [*values]:
                return False
    return True


def offsets_of(kind: type, names: Sequence[str]) -> dict[str, int] | None:
    """Bytes from the beginning of an object of a class to its `__slots__`: the places in the memory
    of an object at which there are the values that were put into the slots. None where they are not
    found."""
    specimen: Any = object.__new__(kind)
    values = {name: object() for name in names}
    before = [_word(specimen, offset) for offset in range(SIZE, kind.__basicsize__, WIDTH)]
    for name, value in values.items():
        setattr(specimen, name, value)
    words = [_word(specimen, offset) for offset in range(SIZE, kind.__basicsize__, WIDTH)]
    for name in names:
        delattr(specimen, name)
    places = {
        name: [k for k, word in enumerate(words) if word == id(value) and not before[k]]
        for name, value in values.items()
    }
    if any([len(found) != 1 for found in places.values()]):
        return None
    return {name: SIZE + WIDTH * k for name, (k,) in places.items()}


def numpys(index: int) -> int:
    """The address of a function or object of NumPy's C API, by its number there."""
    capsule = ctypes.pythonapi.PyCapsule_GetPointer
    capsule.restype, capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = capsule(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    return ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[index] or 0


def _api(name: str) -> int:
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address


class Writer:
    """A function being written. `slow` is the block to which it goes where it cannot go on."""

    def __init__(self, module: ir.Module, name: str, arguments: int):
        kind = ir.FunctionType(BYTES, [BYTES] * arguments)
        self.function = ir.Function(module, kind, name)
        self.function.attributes.add("nounwind")
        self.b = ir.IRBuilder(self.function.append_basic_block())
        self.stack = self.b.alloca(BYTES, size=INT(4))  # arguments of a call
        self.slow = self.function.append_basic_block("slow")

    def object(self, thing: Any) -> Any:
        """An object of Python as a constant."""
        return self.b.inttoptr(WORD(id(keep(thing))), BYTES)

    def bytes(self, text: bytes) -> Any:
        """A text of C as a constant."""
        place = keep(ctypes.create_string_buffer(text))
        return self.b.inttoptr(WORD(ctypes.addressof(place)), BYTES)

    def field(self, thing: Any, offset: Any, kind: ir.Type = BYTES) -> Any:
        return self.b.load(self.place(thing, offset, kind))

    def place(self, thing: Any, offset: Any, kind: ir.Type = BYTES) -> Any:
        at = WORD(offset) if isinstance(offset, int) else offset
        return self.b.bitcast(self.b.gep(thing, [at]), kind.as_pointer())

    def call(self, name: str, *arguments: Any, result: ir.Type = BYTES) -> Any:
        """A call of Python's C API."""
        kind = ir.FunctionType(result, [a.type for a in arguments]).as_pointer()
        return self.b.call(self.b.inttoptr(WORD(_api(name)), kind), arguments)

    def ask(self, function: Any, *arguments: Any) -> Any:
        """A call of a Python function: an object, or a value of the code."""
        if not isinstance(function, ir.Value):
            function = self.object(function)
        for k, a in enumerate(arguments):
            self.b.store(a, self.b.gep(self.stack, [WORD(k)]))
        stack = self.b.bitcast(self.stack, BYTES)
        count = WORD(len(arguments))
        return self.call("PyObject_Vectorcall", function, stack, count, NULL)

    def same(self, one: Any, other: Any) -> Any:
        return self.b.icmp_unsigned("==", one, other)

    def require(self, condition: Any, otherwise: Any = None) -> None:
        """Go on if it holds."""
        further = self.function.append_basic_block()
        self.b.cbranch(condition, further, otherwise or self.slow)
        self.b.position_at_end(further)

    def is_one_of(self, kind: Any, kinds: list[type]) -> Any:
        checks = [self.same(kind, self.object(k)) for k in kinds]
        result = checks[0]
        for check in checks[1:]:
            result = self.b.or_(result, check)
        return result

    def numpys(self, index: int, *arguments: Any, result: ir.Type = BYTES) -> Any:
        """A call of NumPy's C API, by the number of the function there."""
        kind = ir.FunctionType(result, [a.type for a in arguments]).as_pointer()
        return self.b.call(self.b.inttoptr(WORD(numpys(index)), kind), arguments)

    def release(self, thing: Any) -> None:
        self.call("Py_DecRef", thing, result=ir.VoidType())

    def retain(self, thing: Any) -> None:
        self.call("Py_IncRef", thing, result=ir.VoidType())

    def require_result(self, failed: Any) -> None:
        """Go on unless a call raised an error, which is forgotten: the slow way raises its own."""
        wrong, further = self.function.append_basic_block(), self.function.append_basic_block()
        self.b.cbranch(failed, wrong, further)
        self.b.position_at_end(wrong)
        self.call("PyErr_Clear", result=ir.VoidType())
        self.b.branch(self.slow)
        self.b.position_at_end(further)

    def require_basic(self, key: Any, kinds: list[type]) -> None:
        """Go on for an integer, a slice, ..., or a tuple of these."""
        b, function = self.b, self.function
        done, many = function.append_basic_block(), function.append_basic_block()
        loop, item = function.append_basic_block(), function.append_basic_block()
        kind = self.field(key, TYPE)
        b.cbranch(self.is_one_of(kind, kinds), done, many)
        b.position_at_end(many)
        self.require(self.same(kind, self.object(tuple)))
        before, count = b.block, self.field(key, SIZE, WORD)
        b.branch(loop)
        b.position_at_end(loop)
        k = b.phi(WORD)
        b.cbranch(b.icmp_signed("<", k, count), item, done)
        b.position_at_end(item)
        part = self.field(key, b.add(WORD(ITEMS), b.mul(k, WORD(8))))
        following = b.add(k, WORD(1))
        self.require(self.is_one_of(self.field(part, TYPE), kinds))
        k.add_incoming(WORD(0), before)
        k.add_incoming(following, b.block)
        b.branch(loop)
        b.position_at_end(done)

    def require_flag(self, data: Any, flag: int, otherwise: Any = None) -> None:
        """Go on if an array of NumPy has a flag."""
        bit = self.b.and_(self.field(data, FLAGS, INT), INT(flag))
        self.require(self.b.icmp_unsigned("!=", bit, INT(0)), otherwise)

    def owner(self, data: Any) -> Any:
        """The array of NumPy that owns the memory of `data`, or go the slow way."""
        base = self.field(data, BASE)
        owner = self.b.select(self.same(base, NULL), data, base)
        self.require(self.same(self.field(owner, TYPE), self.object(np.ndarray)))
        self.require_flag(owner, OWNED)
        return owner

    def require_plain(self, x: Any, slots: dict[str, int], open_records: list) -> Any:
        """Go on with NumPy's array of an array on the CPU, while nothing is recorded."""
        data = self.field(x, slots["_data"])
        self.require(self.same(self.field(data, TYPE), self.object(np.ndarray)))
        self.require(self.same(self.field(x, slots["_node"]), self.object(None)))
        self.require(self.same(self.field(self.object(open_records), SIZE, WORD), WORD(0)))
        return data
