"""Small operations in machine code: the inner loop of a ufunc, called without the ufunc.

`Ufuncs.find` looks an operation up in the table of numpy_loops.py, by the ufunc and what the
operands are. `Ufuncs.apply` then does what NumPy does for such operands: numbers, arrays in C
order of one shape, and, where no rounding depends on it, arrays of at most two axes with any
strides that are broadcast. It makes the result, calls the loop, and returns NULL without an error
where anything is otherwise; the ufunc itself is called then.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from . import numpy_loops as loops
from .llvm_functions import BYTES, INT, WORD
from .llvm_objects import (
    ALIGNED,
    AXES,
    CONTIGUOUS,
    DATA,
    NULL,
    SHAPE,
    STRIDES,
    WRITEABLE,
    Writer,
    numpys,
)
from .numpy_loops import ARRAY, WORDS

_NEW, _SCALAR = 94, 60  # PyArray_NewFromDescr and PyArray_Scalar in NumPy's C API
_ARRAY_CLASS = 2
_MOST = 1 << 12  # elements; of more the ufunc's own time is nothing
_POINTERS = ir.PointerType(BYTES)
_LOOP = ir.FunctionType(
    ir.VoidType(), [_POINTERS, WORD.as_pointer(), WORD.as_pointer(), BYTES]
).as_pointer()


class Ufuncs:
    """Writer of what concerns the table.

    Parameters
    ----------
    module : ir.Module
        Where the functions are written.
    table : numpy_loops.Table
        The loops.
    """

    def __init__(self, module: ir.Module, table: loops.Table):
        self.table = table
        self.apply = {
            (nin, inplace): self._write_apply(module, nin, inplace)
            for nin, inplace in ((1, False), (2, False), (2, True))
        }

    def find(self, w: Writer, ufunc: Any, inplace: bool, first: Any, second: Any) -> Any:
        """The entry for a ufunc (a value of the code) and the dtypes or classes of its operands,
        and a bit that tells whether it is there."""
        b = w.b
        word = b.ptrtoint(ufunc, WORD)
        if inplace:
            word = b.add(word, WORD(1))
        tags = [WORD(0) if t is None else b.ptrtoint(t, WORD) for t in (first, second)]
        one, two, three = [WORD(f if f < 1 << 63 else f - (1 << 64)) for f in loops.FACTORS]
        mixed = b.xor(b.mul(word, one), b.xor(b.mul(tags[0], two), b.mul(tags[1], three)))
        place = b.lshr(b.mul(mixed, one), WORD(64 - (loops.ENTRIES.bit_length() - 1)))
        start = b.inttoptr(WORD(self.table.address), BYTES)
        entry = b.gep(start, [b.mul(place, WORD(WORDS * 8))])
        there = w.same(self._word(w, entry, loops.UFUNC), word)
        for field, tag in zip((loops.FIRST, loops.SECOND), tags, strict=True):
            there = b.and_(there, w.same(self._word(w, entry, field), tag))
        return entry, there

    @staticmethod
    def _word(w: Writer, entry: Any, field: int, kind: ir.Type = WORD) -> Any:
        return w.field(entry, field * 8, kind)

    def _write_apply(self, module: ir.Module, nin: int, inplace: bool) -> Any:
        """apply(entry, x, y): a new object of NumPy, or NULL without an error. Of an operation in
        place the result is x, not retained."""
        w = Writer(module, f"apply_{nin}{'_inplace' if inplace else ''}", 1 + nin)
        w.function.linkage = "internal"
        b, (entry, *operands) = w.b, w.function.args
        numbers = b.alloca(WORD, size=INT(nin + 2))
        pointers = b.alloca(BYTES, size=INT(nin + 1))
        steps = b.alloca(WORD, size=INT(nin + 1))
        extents = b.alloca(WORD, size=INT(2))
        arguments = numbers, pointers, steps, extents
        w.require(b.icmp_unsigned("!=", self._word(w, entry, loops.LOOP), WORD(0)))
        fields = (loops.KIND_X, loops.KIND_Y)[:nin]
        kinds = [self._word(w, entry, field) for field in fields]
        arrays = [w.same(kind, WORD(ARRAY)) for kind in kinds]
        addresses = [
            self._address(w, operand, kind, array, b.gep(numbers, [INT(k)]))
            for k, (operand, kind, array) in enumerate(zip(operands, kinds, arrays, strict=True))
        ]
        any_array = arrays[0] if nin == 1 else b.or_(*arrays)
        if not inplace:
            alone, beside = [w.function.append_basic_block() for _ in range(2)]
            b.cbranch(any_array, beside, alone)
            b.position_at_end(alone)
            self._of_numbers(w, entry, addresses, arguments)
            b.position_at_end(beside)
        else:
            w.require(arrays[0])
        flat, strided = [w.function.append_basic_block() for _ in range(2)]
        self._branch_if_flat(w, operands, arrays, flat, strided)
        b.position_at_end(flat)
        self._in_rows(w, entry, operands, arrays, addresses, arguments, inplace)
        b.position_at_end(strided)
        self._with_strides(w, entry, operands, arrays, addresses, arguments, inplace)
        b.position_at_end(w.slow)
        b.ret(NULL)
        return w.function

    def _address(self, w: Writer, operand: Any, kind: Any, array: Any, room: Any) -> Any:
        """Where the numbers of an operand lie: those of an array, or a number that is put into the
        room."""
        b = w.b
        of_array, of_number, after = [w.function.append_basic_block() for _ in range(3)]
        b.cbranch(array, of_array, of_number)
        b.position_at_end(of_array)
        w.require_flag(operand, ALIGNED)
        data, last = w.field(operand, DATA), b.block
        b.branch(after)
        b.position_at_end(of_number)
        put = w.function.append_basic_block()
        converted = w.function.append_basic_block()
        b.store(w.field(operand, loops.VALUE, WORD), room)
        b.cbranch(w.same(kind, WORD(loops.BYTES)), put, converted)
        b.position_at_end(converted)
        cases = {
            number: w.function.append_basic_block()
            for number in (
                loops.INT_AS_DOUBLE,
                loops.INT64_AS_DOUBLE,
                loops.INT_AS_INT64,
                loops.DOUBLE_AS_SINGLE,
            )
        }
        choice = b.switch(kind, w.slow)
        for number, block in cases.items():
            choice.add_case(WORD(number), block)
        double, single = ir.DoubleType(), ir.FloatType()
        b.position_at_end(cases[loops.INT_AS_DOUBLE])
        value = w.call("PyLong_AsDouble", operand, result=double)
        self._require_converted(w, b.fcmp_ordered("==", value, double(-1.0)))
        b.store(value, b.bitcast(room, double.as_pointer()))
        b.branch(put)
        b.position_at_end(cases[loops.INT64_AS_DOUBLE])
        b.store(b.sitofp(b.load(room), double), b.bitcast(room, double.as_pointer()))
        b.branch(put)
        b.position_at_end(cases[loops.INT_AS_INT64])
        whole = w.call("PyLong_AsLongLong", operand, result=WORD)
        self._require_converted(w, w.same(whole, WORD(-1)))
        b.store(whole, room)
        b.branch(put)
        b.position_at_end(cases[loops.DOUBLE_AS_SINGLE])
        value = b.load(b.bitcast(room, double.as_pointer()))
        b.store(b.fptrunc(value, single), b.bitcast(room, single.as_pointer()))
        b.branch(put)
        b.position_at_end(put)
        at = b.bitcast(room, BYTES)
        b.branch(after)
        b.position_at_end(after)
        address = b.phi(BYTES)
        address.add_incoming(data, last)
        address.add_incoming(at, put)
        return address

    @staticmethod
    def _require_converted(w: Writer, doubtful: Any) -> None:
        """Go on unless a number did not fit."""
        b = w.b
        ask, further = [w.function.append_basic_block() for _ in range(2)]
        b.cbranch(doubtful, ask, further)
        b.position_at_end(ask)
        w.require_result(b.icmp_unsigned("!=", w.call("PyErr_Occurred"), NULL))
        b.branch(further)
        b.position_at_end(further)

    def _call(self, w: Writer, entry: Any, addresses: list, arguments: tuple, steps: Any) -> None:
        """Call the loop over as many elements as `extents` has in its second place."""
        b = w.b
        _, pointers, _, extents = arguments
        for k, address in enumerate(addresses):
            b.store(address, b.gep(pointers, [INT(k)]))
        loop = self._word(w, entry, loops.LOOP, _LOOP)
        closure = self._word(w, entry, loops.CLOSURE, BYTES)
        b.call(loop, (pointers, b.gep(extents, [INT(1)]), steps, closure))

    def _steps(self, w: Writer, entry: Any) -> Any:
        return w.place(entry, loops.STEPS * 8, WORD)

    def _of_numbers(self, w: Writer, entry: Any, addresses: list, arguments: tuple) -> None:
        """The result is a number of NumPy."""
        b = w.b
        numbers, _, _, extents = arguments
        out = b.bitcast(b.gep(numbers, [INT(len(addresses))]), BYTES)
        b.store(WORD(1), b.gep(extents, [INT(1)]))
        self._call(w, entry, [*addresses, out], arguments, self._steps(w, entry))
        b.ret(w.numpys(_SCALAR, out, self._word(w, entry, loops.RESULT, BYTES), NULL))

    def _branch_if_flat(
        self, w: Writer, operands: list, arrays: list, flat: Any, strided: Any
    ) -> None:
        """To `flat` if all arrays lie in C order and have one shape."""
        b = w.b
        for operand, array in zip(operands, arrays, strict=True):
            further, look = [w.function.append_basic_block() for _ in range(2)]
            b.cbranch(array, look, further)
            b.position_at_end(look)
            w.require_flag(operand, CONTIGUOUS, strided)
            b.branch(further)
            b.position_at_end(further)
        if len(operands) == 1:
            b.branch(flat)
            return
        x, y = operands
        both = w.function.append_basic_block()
        b.cbranch(b.and_(*arrays), both, flat)
        b.position_at_end(both)
        axes = w.field(x, AXES, INT)
        shapes = [w.field(a, SHAPE, WORD.as_pointer()) for a in operands]
        loop, inside = [w.function.append_basic_block() for _ in range(2)]
        b.cbranch(w.same(axes, w.field(y, AXES, INT)), loop, strided)
        b.position_at_end(loop)
        k = b.phi(INT)
        b.cbranch(b.icmp_unsigned("<", k, axes), inside, flat)
        b.position_at_end(inside)
        following = b.add(k, INT(1))
        k.add_incoming(INT(0), both)
        k.add_incoming(following, inside)
        b.cbranch(w.same(*[b.load(b.gep(shape, [k])) for shape in shapes]), loop, strided)

    def _in_rows(
        self,
        w: Writer,
        entry: Any,
        operands: list,
        arrays: list,
        addresses: list,
        arguments: tuple,
        inplace: bool,
    ) -> None:
        """All numbers lie in a row."""
        b = w.b
        extents = arguments[-1]
        model = operands[0] if len(operands) == 1 else b.select(arrays[0], *operands)
        axes = w.field(model, AXES, INT)
        if inplace:
            w.require(b.icmp_unsigned("!=", axes, INT(0)))
        else:
            one, more = [w.function.append_basic_block() for _ in range(2)]
            b.cbranch(w.same(axes, INT(0)), one, more)
            b.position_at_end(one)
            self._of_numbers(w, entry, addresses, arguments)
            b.position_at_end(more)
        shape = w.field(model, SHAPE, WORD.as_pointer())
        before = b.block
        loop, inside, after = [w.function.append_basic_block() for _ in range(3)]
        b.branch(loop)
        b.position_at_end(loop)
        k, count = b.phi(INT), b.phi(WORD)
        b.cbranch(b.icmp_unsigned("<", k, axes), inside, after)
        b.position_at_end(inside)
        k.add_incoming(INT(0), before)
        k.add_incoming(b.add(k, INT(1)), inside)
        count.add_incoming(WORD(1), before)
        count.add_incoming(b.mul(count, b.load(b.gep(shape, [k]))), inside)
        b.branch(loop)
        b.position_at_end(after)
        w.require(b.icmp_unsigned("<", b.sub(count, WORD(1)), WORD(_MOST)))
        b.store(count, b.gep(extents, [INT(1)]))
        if inplace:
            out = self._target(w, operands, arrays, same_place=True)
        else:
            out = self._new(w, entry, axes, shape)
        places = [*addresses, w.field(out, DATA)]
        self._call(w, entry, places, arguments, self._steps(w, entry))
        b.ret(out)

    def _new(self, w: Writer, entry: Any, axes: Any, shape: Any) -> Any:
        """A new array of NumPy in C order."""
        b = w.b
        dtype = self._word(w, entry, loops.RESULT, BYTES)
        w.retain(dtype)  # the function takes it over
        kind = b.inttoptr(WORD(numpys(_ARRAY_CLASS)), BYTES)
        nothing = ir.Constant(WORD.as_pointer(), None)
        out = w.numpys(_NEW, kind, dtype, axes, shape, nothing, NULL, INT(0), NULL)
        w.require_result(w.same(out, NULL))
        return out

    def _target(self, w: Writer, operands: list, arrays: list, same_place: bool) -> Any:
        """x, which can be written. y has other memory, or with `same_place` is the same elements.
        Of arrays in a row of one shape, those are the same that begin at one address."""
        b = w.b
        x, y = operands
        w.require_flag(x, WRITEABLE)
        look, apart = [w.function.append_basic_block() for _ in range(2)]
        b.cbranch(arrays[1], look, apart)
        b.position_at_end(look)
        if same_place:
            other = w.function.append_basic_block()
            b.cbranch(w.same(w.field(x, DATA), w.field(y, DATA)), apart, other)
            b.position_at_end(other)
        w.require(b.icmp_unsigned("!=", *[w.owner(a) for a in operands]))
        b.branch(apart)
        b.position_at_end(apart)
        return x

    def _with_strides(
        self,
        w: Writer,
        entry: Any,
        operands: list,
        arrays: list,
        addresses: list,
        arguments: tuple,
        inplace: bool,
    ) -> None:
        """Arrays of one or two axes, which are broadcast."""
        b = w.b
        _, _, steps, extents = arguments
        w.require(b.icmp_unsigned("!=", self._word(w, entry, loops.EXACT), WORD(0)))
        axes, shapes = [], []
        for operand, array in zip(operands, arrays, strict=True):
            count, sizes = self._two_axes(w, operand, array)
            axes.append(count)
            shapes.append(sizes)
        extent = list(shapes[0][0])
        if len(operands) == 2:
            theirs = shapes[1][0]
            if not inplace:
                extent = [
                    b.select(w.same(mine, WORD(1)), other, mine)
                    for mine, other in zip(extent, theirs, strict=True)
                ]
            else:
                w.require(b.icmp_unsigned(">=", *axes))
            for size, other in zip(extent, theirs, strict=True):
                w.require(b.or_(w.same(other, size), w.same(other, WORD(1))))
        count = b.mul(*extent)
        fits = b.and_(*[b.icmp_unsigned("<=", size, WORD(_MOST)) for size in extent])
        w.require(fits)
        w.require(b.icmp_unsigned("<", b.sub(count, WORD(1)), WORD(_MOST)))
        for k, size in enumerate(extent):
            b.store(size, b.gep(extents, [INT(k)]))
        item = w.field(self._steps_end(w, entry, len(operands)), 0, WORD)
        if inplace:
            out = self._target(w, operands, arrays, same_place=False)
            across, along = shapes[0][1]
        else:
            most = axes[0]
            if len(operands) == 2:
                most = b.select(b.icmp_unsigned(">=", *axes), *axes)
            two = w.same(most, INT(2))
            shape = b.select(two, b.gep(extents, [INT(0)]), b.gep(extents, [INT(1)]))
            out = self._new(w, entry, most, shape)
            across, along = b.mul(extent[1], item), item
        rows = [s[1][0] for s in shapes] + [across]
        for k, step in enumerate([*[s[1][1] for s in shapes], along]):
            b.store(step, b.gep(steps, [INT(k)]))
        places = [*addresses, w.field(out, DATA)]
        before = b.block
        loop, inside, after = [w.function.append_basic_block() for _ in range(3)]
        b.branch(loop)
        b.position_at_end(loop)
        row = b.phi(WORD)
        b.cbranch(b.icmp_unsigned("<", row, extent[0]), inside, after)
        b.position_at_end(inside)
        here = [b.gep(place, [b.mul(row, step)]) for place, step in zip(places, rows, strict=True)]
        self._call(w, entry, here, arguments, steps)
        row.add_incoming(WORD(0), before)
        row.add_incoming(b.add(row, WORD(1)), b.block)
        b.branch(loop)
        b.position_at_end(after)
        b.ret(out)

    def _steps_end(self, w: Writer, entry: Any, nin: int) -> Any:
        return w.b.gep(entry, [WORD((loops.STEPS + nin) * 8)])

    def _two_axes(self, w: Writer, operand: Any, array: Any) -> tuple[Any, tuple[list, list]]:
        """(axes, (sizes, strides)) of an operand as of two axes, to be broadcast. A number has no
        axes, nor need an array have any; the stride along an axis of one element is 0. Those
        strides go the slow way for which NumPy would turn the result."""
        b = w.b
        look, further, two, after = [w.function.append_basic_block() for _ in range(4)]
        number = b.block
        b.cbranch(array, look, after)
        b.position_at_end(look)
        axes = w.field(operand, AXES, INT)
        b.cbranch(w.same(axes, INT(0)), after, further)
        b.position_at_end(further)
        w.require(b.icmp_unsigned("<=", b.sub(axes, INT(1)), INT(1)))
        shape = w.field(operand, SHAPE, WORD.as_pointer())
        strides = w.field(operand, STRIDES, WORD.as_pointer())
        last = b.sub(axes, INT(1))
        inner = [b.load(b.gep(p, [last])) for p in (shape, strides)]
        inner[1] = b.select(w.same(inner[0], WORD(1)), WORD(0), inner[1])
        one = b.block
        b.cbranch(w.same(axes, INT(2)), two, after)
        b.position_at_end(two)
        outer = [b.load(p) for p in (shape, strides)]
        outer[1] = b.select(w.same(outer[0], WORD(1)), WORD(0), outer[1])
        lengths = [
            b.select(b.icmp_signed("<", s, WORD(0)), b.neg(s), s) for s in (outer[1], inner[1])
        ]
        either = b.or_(*[w.same(s, WORD(0)) for s in lengths])
        w.require(b.or_(either, b.icmp_signed(">=", *lengths)))
        end = b.block
        b.branch(after)
        b.position_at_end(after)
        values = []
        for kind, of_number, of_one, of_two in (
            (INT, INT(0), axes, axes),
            (WORD, WORD(1), WORD(1), outer[0]),
            (WORD, WORD(1), inner[0], inner[0]),
            (WORD, WORD(0), WORD(0), outer[1]),
            (WORD, WORD(0), inner[1], inner[1]),
        ):
            phi = b.phi(kind)
            pairs = (of_number, number), (of_number, look), (of_one, one), (of_two, end)
            for value, block in pairs:
                phi.add_incoming(value, block)
            values.append(phi)
        count, rows, columns, across, along = values
        return count, ([rows, columns], [across, along])
