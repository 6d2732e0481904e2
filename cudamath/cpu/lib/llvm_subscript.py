"""`x[key]`, `x[key] = value` and `wrap` for arrays on the CPU, as machine code.

A program that reads and writes single elements spends all of its time between Python and NumPy. Of
the quarter of a microsecond that `x[i]` takes in Python, NumPy needs a sixth. So these three are
written in LLVM IR, as functions that Python calls as its own. They do what `ops/subscript.py` does
for the commonest keys, and call it for all others, for arrays on a GPU, while a gradient or the
steps of a call are being recorded, and where NumPy raises an error.

    wrap(data)           the array over NumPy's, whose layout is looked up by shape, strides and dtype
    x[key]               integers, slices, None, ..., and tuples of these: NumPy's element, or wrap
    x[key] = number      the same keys

They rely on what has been the same since CPython 3.8 (type, size and items of objects, for the
build with a global lock) and NumPy 1.7 (the fields of PyArrayObject); `supported` is False elsewhere.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from types import EllipsisType, MemberDescriptorType, NoneType
from typing import Any

import numpy as np
from llvmlite import ir

from .llvm_functions import BYTES, INT, WORD, compiled, method_of, new_function

_FASTCALL, _ONE = 0x80, 0x08  # METH_FASTCALL, METH_O
_TYPE, _SIZE, _ITEMS = 8, 16, 24  # offsets in objects: type; size of a tuple, list or dict; items
_AXES, _SHAPE, _STRIDES, _DESCR = 24, 32, 40, 56  # offsets in PyArrayObject
_MOST_AXES = 4  # of the layouts in the table of `wrap`
_ENTRIES = 1 << 10  # of that table
_ENTRY = 16 + 16 * _MOST_AXES  # bytes: descr, layout, shape, strides
_kept: list[Any] = []  # objects whose addresses are in the code


def supported() -> bool:
    """Whether objects lie in memory as this file has it."""
    return (
        sys.implementation.name == "cpython"
        and struct.calcsize("P") == 8
        and object.__basicsize__ == 16
        and getattr(sys, "_is_gil_enabled", lambda: True)()
    )


def offset_of(member: Any) -> int:
    """Bytes from the beginning of an object to one of its `__slots__`."""
    assert isinstance(member, MemberDescriptorType)
    definition = ctypes.c_void_p.from_address(id(member) + 40).value  # PyMemberDescrObject.d_member
    assert definition is not None
    return ctypes.c_ssize_t.from_address(definition + 16).value  # PyMemberDef.offset


def _api(name: str) -> int:
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address


class _Writer:
    """A function being written. `slow` is the block to which it goes where it cannot go on."""

    def __init__(self, module: ir.Module, name: str, arguments: int):
        kind = ir.FunctionType(BYTES, [BYTES] * arguments)
        self.function = ir.Function(module, kind, name)
        self.function.attributes.add("nounwind")
        self.b = ir.IRBuilder(self.function.append_basic_block())
        self.stack = self.b.alloca(BYTES, size=INT(3))  # arguments of a call
        self.slow = self.function.append_basic_block("slow")

    def object(self, thing: Any) -> Any:
        """An object of Python as a constant."""
        _kept.append(thing)
        return self.b.inttoptr(WORD(id(thing)), BYTES)

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
        """A call of a Python function."""
        for k, a in enumerate(arguments):
            self.b.store(a, self.b.gep(self.stack, [WORD(k)]))
        none = ir.Constant(BYTES, None)
        stack = self.b.bitcast(self.stack, BYTES)
        return self.call("PyObject_Vectorcall", self.object(function), stack, WORD(len(arguments)), none)

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

    def release(self, thing: Any) -> None:
        self.call("Py_DecRef", thing, result=ir.VoidType())

    def retain(self, thing: Any) -> None:
        self.call("Py_IncRef", thing, result=ir.VoidType())

    def require_result(self, failed: Any) -> None:
        """Go on unless NumPy raised an error, which is forgotten: the slow way raises its own."""
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
        kind = self.field(key, _TYPE)
        b.cbranch(self.is_one_of(kind, kinds), done, many)
        b.position_at_end(many)
        self.require(self.same(kind, self.object(tuple)))
        before, count = b.block, self.field(key, _SIZE, WORD)
        b.branch(loop)
        b.position_at_end(loop)
        k = b.phi(WORD)
        b.cbranch(b.icmp_signed("<", k, count), item, done)
        b.position_at_end(item)
        part = self.field(key, b.add(WORD(_ITEMS), b.mul(k, WORD(8))))
        following = b.add(k, WORD(1))
        self.require(self.is_one_of(self.field(part, _TYPE), kinds))
        k.add_incoming(WORD(0), before)
        k.add_incoming(following, b.block)
        b.branch(loop)
        b.position_at_end(done)

    def require_plain(self, x: Any, slots: dict[str, int], open_records: list) -> Any:
        """Go on with NumPy's array of an array on the CPU, while nothing is recorded."""
        data = self.field(x, slots["_data"])
        self.require(self.same(self.field(data, _TYPE), self.object(np.ndarray)))
        self.require(self.same(self.field(x, slots["_node"]), self.object(None)))
        self.require(self.same(self.field(self.object(open_records), _SIZE, WORD), WORD(0)))
        return data


#: Classes of basic indices, the commonest first.
_BASIC = [int, slice, np.int64, NoneType, EllipsisType]


def _write_wrap(module: ir.Module, array: type, slots: dict[str, int], wrap: Callable) -> Any:
    """wrap(self, data): the layout comes from a table with one place for each hash."""
    w = _Writer(module, "wrap", 2)
    b, data = w.b, w.function.args[1]
    table = ctypes.create_string_buffer(_ENTRIES * _ENTRY)
    _kept.append(table)
    w.require(w.same(w.field(data, _TYPE), w.object(np.ndarray)))
    axes = b.zext(w.field(data, _AXES, INT), WORD)
    w.require(b.icmp_unsigned("<=", axes, WORD(_MOST_AXES)))
    descr = w.field(data, _DESCR)
    shape = w.field(data, _SHAPE, WORD.as_pointer())
    strides = w.field(data, _STRIDES, WORD.as_pointer())

    def each_axis(first: Any, step: Callable[[Any, Any], Any]) -> Any:
        """A value carried over the axes."""
        before = b.block
        loop, inside, after = [w.function.append_basic_block() for _ in range(3)]
        b.branch(loop)
        b.position_at_end(loop)
        k, value = b.phi(WORD), b.phi(first.type)
        b.cbranch(b.icmp_unsigned("<", k, axes), inside, after)
        b.position_at_end(inside)
        following = step(k, value)
        k.add_incoming(WORD(0), before)
        k.add_incoming(b.add(k, WORD(1)), b.block)
        value.add_incoming(first, before)
        value.add_incoming(following, b.block)
        b.branch(loop)
        b.position_at_end(after)
        return value

    factor = WORD(0x9E3779B97F4A7C15 - (1 << 64))
    mixed = each_axis(
        b.xor(b.ptrtoint(descr, WORD), axes),
        lambda k, h: b.add(
            b.mul(b.xor(h, b.load(b.gep(shape, [k]))), factor),
            b.add(b.load(b.gep(strides, [k])), b.lshr(h, WORD(29))),
        ),
    )
    mixed = b.mul(mixed, factor)
    place = b.mul(b.lshr(mixed, WORD(64 - (_ENTRIES.bit_length() - 1))), WORD(_ENTRY))
    entry = b.gep(b.inttoptr(WORD(ctypes.addressof(table)), BYTES), [place])
    sizes = b.bitcast(b.gep(entry, [WORD(16)]), WORD.as_pointer())
    steps = b.bitcast(b.gep(entry, [WORD(16 + 8 * _MOST_AXES)]), WORD.as_pointer())
    # the number of axes is in the lowest bits of the address of the dtype, which is aligned
    tag = b.add(b.ptrtoint(descr, WORD), axes)
    miss = w.function.append_basic_block()
    w.require(w.same(w.field(entry, 0, WORD), tag), miss)
    equal = each_axis(
        ir.IntType(1)(1),
        lambda k, same: b.and_(
            same,
            b.and_(
                w.same(b.load(b.gep(shape, [k])), b.load(b.gep(sizes, [k]))),
                w.same(b.load(b.gep(strides, [k])), b.load(b.gep(steps, [k]))),
            ),
        ),
    )
    w.require(equal, miss)
    layout = w.field(entry, 8)
    out = w.call("PyType_GenericAlloc", w.object(array), WORD(0))
    w.require(b.icmp_unsigned("!=", out, ir.Constant(BYTES, None)))
    none = w.object(None)
    for name, value in {"_layout": layout, "_data": data, "_owner": none, "_node": none}.items():
        w.retain(value)
        b.store(value, w.place(out, slots[name]))
    b.ret(out)

    b.position_at_end(miss)
    made = w.ask(wrap, data)
    w.require(b.icmp_unsigned("!=", made, ir.Constant(BYTES, None)))
    old = w.field(entry, 8)
    layout = w.field(made, slots["_layout"])
    for thing in (layout, descr):  # neither leaves the table's address to another
        w.retain(thing)
    b.store(tag, w.place(entry, 0, WORD))
    b.store(layout, w.place(entry, 8))

    def remember(k: Any, value: Any) -> Any:
        b.store(b.load(b.gep(shape, [k])), b.gep(sizes, [k]))
        b.store(b.load(b.gep(strides, [k])), b.gep(steps, [k]))
        return value

    each_axis(WORD(0), remember)
    with b.if_then(b.icmp_unsigned("!=", old, ir.Constant(BYTES, None))):
        w.release(old)
    b.ret(made)
    b.position_at_end(w.slow)
    b.ret(w.ask(wrap, data))
    return w.function


def _write_getitem(
    module: ir.Module,
    slots: dict[str, int],
    wrap: Any,
    scalars: list[type],
    open_records: list,
    insiders: list,
    getitem: Callable,
) -> None:
    """getitem(self, key)."""
    w = _Writer(module, "getitem", 2)
    b, (x, key) = w.b, w.function.args
    data = w.require_plain(x, slots, open_records)
    w.require_basic(key, _BASIC)
    item = w.call("PyObject_GetItem", data, key)
    w.require_result(w.same(item, ir.Constant(BYTES, None)))
    kind = w.field(item, _TYPE)
    element = w.function.append_basic_block()
    w.require(w.same(kind, w.object(np.ndarray)), element)
    view = b.call(wrap, (ir.Constant(BYTES, None), item))
    w.release(item)
    b.ret(view)

    b.position_at_end(element)
    not_ours = w.function.append_basic_block()
    w.require(w.is_one_of(kind, scalars), not_ours)
    w.require(w.same(w.field(w.object(insiders), _SIZE, WORD), WORD(0)), not_ours)
    b.ret(item)
    b.position_at_end(not_ours)
    w.release(item)
    b.branch(w.slow)
    b.position_at_end(w.slow)
    b.ret(w.ask(getitem, x, key))


def _write_setitem(
    module: ir.Module,
    array: type,
    slots: dict[str, int],
    separate: int,
    numbers: list[type],
    open_records: list,
    holders: dict,
    setitem: Callable,
) -> None:
    """setitem(self, arguments, how many)."""
    w = _Writer(module, "setitem", 3)
    b, (x, arguments, count) = w.b, w.function.args
    few = w.function.append_basic_block()
    w.require(w.same(b.ptrtoint(count, WORD), WORD(2)), few)
    key, value = w.field(arguments, 0), w.field(arguments, 8)
    w.require(w.same(w.field(x, _TYPE), w.object(array)))
    data = w.require_plain(x, slots, open_records)
    # PyDictObject has the number of its items where a list has its size
    w.require(w.same(w.field(w.object(holders), _SIZE, WORD), WORD(0)))
    w.require(w.same(w.field(w.field(x, slots["_layout"]), separate), w.object(True)))
    w.require(w.is_one_of(w.field(value, _TYPE), numbers))
    w.require_basic(key, _BASIC)
    failed = w.call("PyObject_SetItem", data, key, value, result=INT)
    w.require_result(b.icmp_signed("<", failed, INT(0)))
    none = w.object(None)
    w.retain(none)
    b.ret(none)
    b.position_at_end(few)
    b.ret(w.ask(setitem, x))  # Python says what is missing
    b.position_at_end(w.slow)
    b.ret(w.ask(setitem, x, key, value))


def subscripts(
    array: type,
    layout: type,
    scalars: list[type],
    numbers: list[type],
    open_records: list,
    holders: dict,
    insiders: list,
    wrap: Callable,
    getitem: Callable,
    setitem: Callable,
) -> tuple[Callable, Any, Any] | None:
    """(wrap, `__getitem__`, `__setitem__`) in machine code; None where objects lie otherwise.

    Parameters
    ----------
    array, layout : type
        The classes ndarray and Layout.
    scalars : list of type
        Classes of elements that NumPy returns and we do.
    numbers : list of type
        Classes of numbers that NumPy assigns as we do.
    open_records : list
        Empty while the steps of no call are recorded.
    holders : dict
        Empty while no change in place needs to be noted.
    insiders : list
        Empty while elements are scalars in every thread.
    wrap, getitem, setitem : callable
        The functions for all other cases.
    """
    if not supported():
        return None
    slots = {name: offset_of(getattr(array, name)) for name in ("_layout", "_data", "_owner", "_node")}
    module = ir.Module()
    inner = _write_wrap(module, array, slots, wrap)
    _write_getitem(module, slots, inner, scalars, open_records, insiders, getitem)
    separate = offset_of(layout.separate)  # type: ignore[attr-defined]
    _write_setitem(module, array, slots, separate, numbers, open_records, holders, setitem)
    address = compiled(module)
    return (
        new_function("wrap", address("wrap"), _ONE),
        method_of(array, "__getitem__", address("getitem"), _ONE),
        method_of(array, "__setitem__", address("setitem"), _FASTCALL),
    )
