"""Methods of arrays on the CPU as machine code: `x[key]`, `x[key] = value`, `x + y`, and `wrap`.

A program that works on single elements and small arrays spends all of its time between Python and
NumPy. Of the quarter of a microsecond that `x[i]` takes in Python, NumPy needs a sixth. So these
methods are written in LLVM IR, as functions that Python calls as its own. They do what
ops/subscript.py and ops/methods.py do in the commonest cases, and call those for all others: for
arrays on a GPU, while a gradient or the steps of a call are being recorded, for results whose
memory is pooled, and where NumPy raises an error, which is told in our words then.

    wrap(data)        the array over NumPy's; its layout comes from a table of shapes and strides
    x[key]            integers, slices, None, ..., and tuples of these: NumPy's element, or wrap;
                      and arrays of bool or int64
    x[key] = value    the same keys; numbers, and arrays of the same dtype in other memory
    x + y, x += y     operands for which the op's plan is NumPy's ufunc (`direct` of its card): its
                      inner loop at once (llvm_ufuncs.py), or the ufunc
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import EllipsisType, NoneType
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from .llvm_functions import (
    BYTES,
    INT,
    WORD,
    compiled,
    method_of,
    new_function,
    new_functions,
)
from .llvm_objects import (
    AXES,
    CONTIGUOUS,
    DATA,
    DESCR,
    ITEMS,
    NULL,
    SHAPE,
    SIZE,
    STRIDES,
    TYPE,
    Writer,
    keep,
    offsets_of,
    supported,
)
from .llvm_ufuncs import Ufuncs
from .numpy_loops import Table, numbers_as_here

_FASTCALL, _KEYWORDS = 0x80, 0x02  # METH_FASTCALL, METH_KEYWORDS
_ONE, _NONE = 0x08, 0x04  # METH_O, METH_NOARGS
_MOST_AXES = 4  # of the layouts in the table of `wrap`
_ENTRIES = 1 << 10  # of that table
_ENTRY = 16 + 16 * _MOST_AXES  # bytes: dtype and axes, layout, shape, strides

#: Classes of basic indices, the commonest first.
_BASIC = [int, slice, np.int64, NoneType, EllipsisType]


def _write_wrap(module: ir.Module, array: type, slots: dict[str, int], wrap: Callable) -> Any:
    """wrap(base, data): the layout comes from a table with one place for each hash. base: the array
    of which the new one is a view, or None, as the function gets it that Python calls."""
    w = Writer(module, "wrap", 2)
    b, (root, data) = w.b, w.function.args
    table = keep(ctypes.create_string_buffer(_ENTRIES * _ENTRY))
    w.require(w.same(w.field(data, TYPE), w.object(np.ndarray)))
    axes = b.zext(w.field(data, AXES, INT), WORD)
    w.require(b.icmp_unsigned("<=", axes, WORD(_MOST_AXES)))
    descr = w.field(data, DESCR)
    shape = w.field(data, SHAPE, WORD.as_pointer())
    strides = w.field(data, STRIDES, WORD.as_pointer())

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
    w.require_result(w.same(out, NULL))
    none = w.object(None)
    fields = {"_layout": layout, "_data": data, "_owner": none, "_node": none, "_base": root}
    for name, value in fields.items():
        w.retain(value)
        b.store(value, w.place(out, slots[name]))
    b.ret(out)

    b.position_at_end(miss)
    failed = w.function.append_basic_block()
    made = w.ask(wrap, data)
    w.require(b.icmp_unsigned("!=", made, NULL), failed)
    _set_base(w, made, root, slots)
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
    with b.if_then(b.icmp_unsigned("!=", old, NULL)):
        w.release(old)
    b.ret(made)
    b.position_at_end(w.slow)
    made = w.ask(wrap, data)
    w.require(b.icmp_unsigned("!=", made, NULL), failed)
    _set_base(w, made, root, slots)
    b.ret(made)
    b.position_at_end(failed)
    b.ret(NULL)
    return w.function


def _set_base(w: Writer, x: Any, root: Any, slots: dict[str, int]) -> None:
    """Make `root` what an array of Python's `wrap` is a view of."""
    old = w.field(x, slots["_base"])
    w.retain(root)
    w.b.store(root, w.place(x, slots["_base"]))
    w.release(old)


def _write_getitem(
    module: ir.Module,
    array: type,
    slots: dict[str, int],
    wrap: Any,
    scalars: list[type],
    open_records: list,
    insiders: list,
    getitem: Callable,
) -> None:
    """getitem(self, key)."""
    w = Writer(module, "getitem", 2)
    b, (x, key) = w.b, w.function.args
    w.require(w.same(w.field(x, TYPE), w.object(array)))
    data = w.require_plain(x, slots, open_records)
    basic, many = [w.function.append_basic_block() for _ in range(2)]
    b.cbranch(w.same(w.field(key, TYPE), w.object(array)), many, basic)
    b.position_at_end(many)  # the elements at some places: a copy
    places = _places(w, key, slots, open_records)
    w.retain(places)
    chosen = w.call("PyObject_GetItem", data, places)
    w.release(places)
    w.require_result(w.same(chosen, NULL))
    other = w.function.append_basic_block()
    w.require(w.same(w.field(chosen, TYPE), w.object(np.ndarray)), other)
    w.require_flag(chosen, CONTIGUOUS, other)
    copy = b.call(wrap, (w.object(None), chosen))
    w.release(chosen)
    b.ret(copy)
    b.position_at_end(other)
    w.release(chosen)
    b.branch(w.slow)
    b.position_at_end(basic)
    w.require_basic(key, _BASIC)
    item = w.call("PyObject_GetItem", data, key)
    w.require_result(w.same(item, NULL))
    kind = w.field(item, TYPE)
    element = w.function.append_basic_block()
    w.require(w.same(kind, w.object(np.ndarray)), element)
    root = w.field(x, slots["_base"])
    root = b.select(w.same(root, w.object(None)), x, root)
    view = b.call(wrap, (root, item))
    w.release(item)
    b.ret(view)

    b.position_at_end(element)
    not_ours = w.function.append_basic_block()
    w.require(w.is_one_of(kind, scalars), not_ours)
    w.require(w.same(w.field(w.object(insiders), SIZE, WORD), WORD(0)), not_ours)
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
    w = Writer(module, "setitem", 3)
    b, (x, arguments, count) = w.b, w.function.args
    odd = w.function.append_basic_block("odd")
    w.require(w.same(b.ptrtoint(count, WORD), WORD(2)), odd)
    key, value = w.field(arguments, 0), w.field(arguments, 8)
    w.require(w.same(w.field(x, TYPE), w.object(array)))
    data = w.require_plain(x, slots, open_records)
    # PyDictObject has the number of its items where a list has its size
    w.require(w.same(w.field(w.object(holders), SIZE, WORD), WORD(0)))
    w.require(w.same(w.field(w.field(x, slots["_layout"]), separate), w.object(True)))
    number, other = w.function.append_basic_block(), w.function.append_basic_block()
    assign = w.function.append_basic_block("assign")
    kind = w.field(value, TYPE)
    b.cbranch(w.is_one_of(kind, numbers), number, other)
    b.position_at_end(number)
    many = w.function.append_basic_block("many")
    b.cbranch(w.same(w.field(key, TYPE), w.object(array)), many, assign)
    b.position_at_end(many)  # a number at some places, which are not in the memory of x
    places = _places(w, key, slots, open_records)
    w.require(b.icmp_unsigned("!=", *[w.owner(a) for a in (data, places)]))
    for each in (data, places):
        w.retain(each)
    failed = w.call("PyObject_SetItem", data, places, value, result=INT)
    for each in (data, places):
        w.release(each)
    w.require_result(b.icmp_signed("<", failed, INT(0)))
    w.retain(w.object(None))
    b.ret(w.object(None))
    b.position_at_end(other)  # an array of the same dtype in memory of its own
    w.require(w.same(kind, w.object(array)))
    source = w.require_plain(value, slots, open_records)
    w.require(w.same(w.field(source, DESCR), w.field(data, DESCR)))
    mine, theirs = [w.owner(a) for a in (data, source)]
    overlapping = w.function.append_basic_block("overlapping")
    w.require(b.icmp_unsigned("!=", mine, theirs), overlapping)
    after = b.block
    b.branch(assign)
    b.position_at_end(assign)
    operand = b.phi(BYTES)
    operand.add_incoming(value, number)
    operand.add_incoming(source, after)
    w.require_basic(key, _BASIC)
    both = data, operand  # while NumPy copies, another thread may give the array other memory
    for each in both:
        w.retain(each)
    failed = w.call("PyObject_SetItem", data, key, operand, result=INT)
    for each in both:
        w.release(each)
    w.require_result(b.icmp_signed("<", failed, INT(0)))
    done = w.function.append_basic_block("done")
    b.branch(done)
    b.position_at_end(done)
    none = w.object(None)
    w.retain(none)
    b.ret(none)
    b.position_at_end(overlapping)  # x[key] += value has written it already
    w.require_basic(key, _BASIC)
    item = w.call("PyObject_GetItem", data, key)
    w.require_result(w.same(item, NULL))
    view, other_place = [w.function.append_basic_block() for _ in range(2)]
    b.cbranch(w.same(w.field(item, TYPE), w.object(np.ndarray)), view, other_place)
    b.position_at_end(view)
    equal = _same_place(w, item, source)
    w.release(item)
    w.require(equal)
    b.branch(done)
    b.position_at_end(other_place)
    w.release(item)
    b.branch(w.slow)
    b.position_at_end(odd)  # Python says what is missing
    method = w.call("PyMethod_New", w.object(setitem), x)
    result = w.call("PyObject_Vectorcall", method, arguments, b.ptrtoint(count, WORD), NULL)
    w.release(method)
    b.ret(result)
    b.position_at_end(w.slow)
    b.ret(w.ask(setitem, x, key, value))


def _places(w: Writer, key: Any, slots: dict[str, int], open_records: list) -> Any:
    """NumPy's array of a key that is an array of bool or int64 with at least one axis."""
    data = w.require_plain(key, slots, open_records)
    w.require(w.b.icmp_unsigned("!=", w.field(data, AXES, INT), INT(0)))
    kinds = [w.same(w.field(data, DESCR), w.object(np.dtype(d))) for d in (np.bool_, np.int64)]
    w.require(w.b.or_(*kinds))
    return data


def _same_place(w: Writer, one: Any, other: Any) -> Any:
    """Whether two arrays of NumPy of one dtype are the same elements, as a bit; only of one or two
    axes, as most are."""
    b = w.b
    axes = w.field(one, AXES, INT)
    equal = b.and_(
        w.same(w.field(one, DATA), w.field(other, DATA)), w.same(axes, w.field(other, AXES, INT))
    )
    last = b.sub(axes, INT(1))
    few = b.icmp_unsigned("<=", last, INT(1))  # one or two
    last = b.select(few, last, INT(0))
    for offset in (SHAPE, STRIDES):
        mine, theirs = [w.field(a, offset, WORD.as_pointer()) for a in (one, other)]
        any_axes = b.and_(equal, few)
        before, look, after = b.block, *[w.function.append_basic_block() for _ in range(2)]
        b.cbranch(any_axes, look, after)
        b.position_at_end(look)
        same = ir.IntType(1)(1)
        for k in (INT(0), last):
            same = b.and_(same, w.same(b.load(b.gep(mine, [k])), b.load(b.gep(theirs, [k]))))
        b.branch(after)
        b.position_at_end(after)
        equal = b.phi(ir.IntType(1))
        equal.add_incoming(ir.IntType(1)(0), before)
        equal.add_incoming(same, look)
    return equal


class Operator(NamedTuple):
    """A method of arrays that is a ufunc."""

    name: str  # of the method: "__add__"
    form: str  # "forward", "reflected", "inplace" or "unary"
    ufunc: np.ufunc
    direct: dict  # the operands for which the ufunc does what the op does: see `key` below
    function: Callable  # for all others


class _Common(NamedTuple):
    """What the functions of operators need."""

    module: ir.Module
    array: type
    slots: dict[str, int]
    wrap: Any
    open_records: list
    insiders: list
    holders: dict
    context: Any
    ufuncs: Ufuncs


def _write_operator(form: str, common: _Common, separate: int) -> Any:
    """operator(x, y, ufunc, direct, function) of one form. separate: where the layout has it.

    The key of `direct` is as that of a card's plans: the layout of both, or a tuple of layouts and
    classes of numbers, with True at its end for an operation in place.
    """
    w = Writer(common.module, form, 5)
    w.function.attributes.add("noinline")
    w.function.linkage = "internal"
    slots = common.slots
    b, (x, y, ufunc, direct, function) = w.b, w.function.args
    inplace = form == "inplace"
    w.require(w.same(w.field(x, TYPE), w.object(common.array)))
    if inplace:
        w.require(w.same(w.field(w.object(common.holders), SIZE, WORD), WORD(0)))
    left = w.require_plain(x, slots, common.open_records)
    layout = w.field(x, slots["_layout"])
    dtype = w.field(left, DESCR)
    if form == "unary":
        operands, tags = [left], [dtype]
    else:
        ours, ready = [w.function.append_basic_block() for _ in range(2)]
        kind, before = w.field(y, TYPE), b.block
        b.cbranch(w.same(kind, w.object(common.array)), ours, ready)
        b.position_at_end(ours)
        data = w.require_plain(y, slots, common.open_records)
        other_layout, other_dtype, last = (
            w.field(y, slots["_layout"]),
            w.field(data, DESCR),
            b.block,
        )
        b.branch(ready)
        b.position_at_end(ready)
        # the other operand for NumPy; what the table has of it; what `direct` has of it
        right, tag, part = [b.phi(BYTES) for _ in range(3)]
        for phi, of_number, of_array in (
            (right, y, data),
            (tag, kind, other_dtype),
            (part, kind, other_layout),
        ):
            phi.add_incoming(of_number, before)
            phi.add_incoming(of_array, last)
        operands, tags = [left, right], [dtype, tag]
        if form.startswith("reflected"):
            operands, tags = operands[::-1], tags[::-1]
    entry, known = common.ufuncs.find(w, ufunc, inplace, *tags, *[None] * (2 - len(tags)))
    hit, usual = [w.function.append_basic_block() for _ in range(2)]
    b.cbranch(known, hit, usual)
    b.position_at_end(hit)
    if inplace:
        w.require(w.same(w.field(layout, separate), w.object(True)))
    at_once = b.call(common.ufuncs.apply[len(operands), inplace], (entry, *operands))
    finish, after_hit = w.function.append_basic_block("finish"), b.block
    b.cbranch(w.same(at_once, NULL), usual, finish)

    b.position_at_end(usual)
    if form == "unary":
        allowed = w.call("PyDict_GetItemWithError", direct, layout)
    else:
        alike, unlike, asked = [w.function.append_basic_block() for _ in range(3)]
        b.cbranch(
            ir.IntType(1)(0) if inplace else w.same(layout, part), alike, unlike
        )  # of two arrays of one layout that alone is the key
        b.position_at_end(alike)
        of_both, after_both = w.call("PyDict_GetItemWithError", direct, layout), b.block
        b.branch(asked)
        b.position_at_end(unlike)
        parts = [part, layout] if form.startswith("reflected") else [layout, part]
        parts += [w.object(True)] * inplace
        key = w.call("PyTuple_Pack", WORD(len(parts)), *parts)
        w.require_result(w.same(key, NULL))
        of_each = w.call("PyDict_GetItemWithError", direct, key)
        w.release(key)
        after_each = b.block
        b.branch(asked)
        b.position_at_end(asked)
        allowed = b.phi(BYTES)
        allowed.add_incoming(of_both, after_both)
        allowed.add_incoming(of_each, after_each)
    w.require(b.icmp_unsigned("!=", allowed, NULL))
    learn, further = [w.function.append_basic_block() for _ in range(2)]
    b.cbranch(known, further, learn)
    b.position_at_end(learn)
    learner = common.ufuncs.table.learn_inplace if inplace else common.ufuncs.table.learn
    learnt = w.ask(learner, ufunc, *operands)
    w.require_result(w.same(learnt, NULL))
    w.release(learnt)
    b.branch(further)
    b.position_at_end(further)
    entered = w.call("PyContext_Enter", w.object(common.context), result=INT)
    w.require_result(b.icmp_signed("<", entered, INT(0)))  # another thread is in this context
    by_numpy = w.ask(ufunc, *operands, *[left] * inplace)
    w.call("PyContext_Exit", w.object(common.context), result=INT)
    w.require_result(w.same(by_numpy, NULL))
    if inplace:
        w.release(by_numpy)
        b.branch(finish)
        b.position_at_end(finish)
        w.retain(x)
        b.ret(x)
    else:
        after_numpy = b.block
        b.branch(finish)
        b.position_at_end(finish)
        result = b.phi(BYTES)
        result.add_incoming(at_once, after_hit)
        result.add_incoming(by_numpy, after_numpy)
        element = w.function.append_basic_block()
        w.require(w.same(w.field(result, TYPE), w.object(np.ndarray)), element)
        out = b.call(common.wrap, (w.object(None), result))
        w.release(result)
        b.ret(out)
        b.position_at_end(element)  # a product of vectors: one of NumPy's scalars
        inside = w.function.append_basic_block()
        w.require(w.same(w.field(w.object(common.insiders), SIZE, WORD), WORD(0)), inside)
        b.ret(result)
        b.position_at_end(inside)
        w.release(result)
        b.branch(w.slow)
    b.position_at_end(w.slow)
    if form == "reflected_ufunc":
        b.ret(NULL)
        return w.function
    b.ret(w.ask(function, x) if form == "unary" else w.ask(function, x, y))
    return w.function


def _write_run(count: int, common: _Common) -> None:
    """run(bound, x) or run(bound, arguments, how many): a plan that is a ufunc alone, of arrays or
    of numbers. bound: the tuple of the ufunc and of the plan in Python, for errors."""
    w = Writer(common.module, f"run_of_{count}", count + 1)
    b, (bound, first, *_) = w.b, w.function.args
    operands = [first] if count == 1 else [w.field(first, 0), w.field(first, 8)]
    ufunc, plan = w.field(bound, ITEMS), w.field(bound, ITEMS + 8)
    if count == 2:
        w.require(w.same(b.ptrtoint(w.function.args[2], WORD), WORD(2)))
    data, tags = [], []
    for x in operands:
        ours, other, after = [w.function.append_basic_block() for _ in range(3)]
        kind, base = w.field(x, TYPE), w.object(common.array)
        b.cbranch(w.same(kind, base), ours, other)
        b.position_at_end(other)  # a number, or an array of a subclass: a scalar
        derived = w.call("PyType_IsSubtype", kind, base, result=INT)
        b.cbranch(b.icmp_unsigned("!=", derived, INT(0)), ours, after)
        b.position_at_end(ours)
        own = w.field(x, common.slots["_data"])
        w.require(w.same(w.field(own, TYPE), w.object(np.ndarray)))
        dtype, last = w.field(own, DESCR), b.block
        b.branch(after)
        b.position_at_end(after)
        value, tag = b.phi(BYTES), b.phi(BYTES)
        for block, of_value, of_tag in ((other, x, kind), (last, own, dtype)):
            value.add_incoming(of_value, block)
            tag.add_incoming(of_tag, block)
        data.append(value)
        tags.append(tag)
    entry, known = common.ufuncs.find(w, ufunc, False, *tags, *[None] * (2 - count))
    hit, learn, usual = [w.function.append_basic_block() for _ in range(3)]
    b.cbranch(known, hit, learn)
    b.position_at_end(hit)
    at_once = b.call(common.ufuncs.apply[count, False], (entry, *data))
    finish, after_hit = w.function.append_basic_block("finish"), b.block
    b.cbranch(w.same(at_once, NULL), usual, finish)
    b.position_at_end(learn)
    learnt = w.ask(common.ufuncs.table.learn, ufunc, *data)
    w.require_result(w.same(learnt, NULL))
    w.release(learnt)
    b.branch(usual)
    b.position_at_end(usual)
    entered = w.call("PyContext_Enter", w.object(common.context), result=INT)
    w.require_result(b.icmp_signed("<", entered, INT(0)))  # another thread is in this context
    by_numpy = w.ask(ufunc, *data)
    w.call("PyContext_Exit", w.object(common.context), result=INT)
    w.require_result(w.same(by_numpy, NULL))
    after_numpy = b.block
    b.branch(finish)
    b.position_at_end(finish)
    result = b.phi(BYTES)
    result.add_incoming(at_once, after_hit)
    result.add_incoming(by_numpy, after_numpy)
    number = w.function.append_basic_block()
    w.require(w.same(w.field(result, TYPE), w.object(np.ndarray)), number)
    out = b.call(common.wrap, (w.object(None), result))
    w.release(result)
    b.ret(out)
    b.position_at_end(number)  # of numbers alone
    b.ret(result)
    b.position_at_end(w.slow)
    b.ret(w.ask(plan, *operands))


def _write_array_ufunc(
    module: ir.Module, reflected: Any, directs: dict, array_ufunc: Callable
) -> None:
    """array_ufunc(self, arguments, how many, names): `ufunc("__call__", number, self)`, with which
    NumPy's scalars ask for their product with an array."""
    w = Writer(module, "array_ufunc", 4)
    b, (x, arguments, count, names) = w.b, w.function.args
    more = b.ptrtoint(count, WORD)
    w.require(w.same(names, NULL))
    w.require(w.same(more, WORD(4)))
    ufunc, method, y, second = [w.field(arguments, 8 * k) for k in range(4)]
    w.require(w.same(second, x))
    w.require(b.icmp_unsigned("!=", y, x))
    called = w.call("PyUnicode_CompareWithASCIIString", method, w.bytes(b"__call__"), result=INT)
    w.require(w.same(called, INT(0)))
    direct = w.call("PyDict_GetItemWithError", w.object(directs), ufunc)
    w.require(b.icmp_unsigned("!=", direct, NULL))
    result = b.call(reflected, (x, y, ufunc, direct, NULL))
    w.require(b.icmp_unsigned("!=", result, NULL))
    b.ret(result)
    b.position_at_end(w.slow)
    w.call("PyErr_Clear", result=ir.VoidType())
    keywords = w.function.append_basic_block()
    ready = w.function.append_basic_block()
    before = b.block
    b.cbranch(w.same(names, NULL), ready, keywords)
    b.position_at_end(keywords)
    named = w.field(names, SIZE, WORD)
    b.branch(ready)
    b.position_at_end(ready)
    extra = b.phi(WORD)
    extra.add_incoming(WORD(0), before)
    extra.add_incoming(named, keywords)
    total = b.add(more, extra)
    stack = b.alloca(BYTES, size=b.add(total, WORD(1)))
    b.store(x, stack)
    copied = b.mul(total, WORD(8))
    place = b.bitcast(b.gep(stack, [WORD(1)]), BYTES)
    move = module.declare_intrinsic("llvm.memcpy", [BYTES, BYTES, WORD])
    b.call(move, (place, arguments, copied, ir.IntType(1)(0)))
    function = w.object(array_ufunc)
    start = b.bitcast(stack, BYTES)
    b.ret(w.call("PyObject_Vectorcall", function, start, b.add(more, WORD(1)), names))


def _write_method(module: ir.Module, operator: Operator, generic: Any) -> None:
    """The function of one operator."""
    w = Writer(module, operator.name, 2)
    constants = [w.object(o) for o in (operator.ufunc, operator.direct, operator.function)]
    w.b.ret(w.b.call(generic, (*w.function.args, *constants)))
    w.b.position_at_end(w.slow)
    w.b.unreachable()


def methods(
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
    operators: list[Operator],
    directs: dict[np.ufunc, dict],
    array_ufunc: Callable,
    context: Any,
    run: Callable,
    forget: list[Callable],
) -> tuple[Callable, dict[int, Callable], dict[str, Any]] | None:
    """In machine code `wrap`, makers of plans that are a ufunc of one or two operands, from (ufunc,
    plan in Python), and the methods by their names; None where objects lie otherwise.

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
    operators : list of Operator
        The operators.
    directs : dict
        Ufunc -> `direct` of its operator.
    array_ufunc : callable
        `__array_ufunc__` for all other cases.
    context : contextvars.Context
        A context of their own in which NumPy's floating-point errors pass in silence.
    run : callable
        Calls a function in another such context.
    forget : list of callable
        What is called when a setting changes on which ops depend.
    """
    if not (supported() and numbers_as_here()):
        return None
    slots = offsets_of(array, ("_layout", "_data", "_owner", "_node", "_base"))
    of_layout = offsets_of(layout, ("separate",))
    if slots is None or of_layout is None:
        return None
    module = ir.Module()
    inner = _write_wrap(module, array, slots, wrap)
    separate = of_layout["separate"]
    _write_getitem(module, array, slots, inner, scalars, open_records, insiders, getitem)
    _write_setitem(module, array, slots, separate, numbers, open_records, holders, setitem)
    table = Table(run)
    forget.append(table.clear)
    common = _Common(
        module,
        array,
        slots,
        inner,
        open_records,
        insiders,
        holders,
        context,
        Ufuncs(module, table),
    )
    generic = {
        form: _write_operator(form, common, separate)
        for form in ("forward", "reflected", "reflected_ufunc", "inplace", "unary")
    }
    _write_array_ufunc(module, generic["reflected_ufunc"], directs, array_ufunc)
    for operator in operators:
        _write_method(module, operator, generic[operator.form])
    for count in (1, 2):
        _write_run(count, common)
    address = compiled(module, speed=1)
    made = {
        "__getitem__": method_of(array, "__getitem__", address("getitem"), _ONE, "key, /"),
        "__setitem__": method_of(
            array, "__setitem__", address("setitem"), _FASTCALL, "key, value, /"
        ),
        "__array_ufunc__": method_of(
            array,
            "__array_ufunc__",
            address("array_ufunc"),
            _FASTCALL | _KEYWORDS,
            "ufunc, method, /, *inputs, **kwargs",
        ),
    }
    for name, form, *_ in operators:
        flags, parameters = (_NONE, "/") if form == "unary" else (_ONE, "other, /")
        made[name] = method_of(array, name, address(name), flags, parameters)
    runs = {
        1: new_functions("run", address("run_of_1"), _ONE),
        2: new_functions("run", address("run_of_2"), _FASTCALL),
    }
    return new_function("wrap", address("wrap"), _ONE), runs, made
