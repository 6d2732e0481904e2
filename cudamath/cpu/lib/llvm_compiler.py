"""Functions of Python as functions of LLVM IR.

Numba takes all of Python's numbers and arrays, and seconds. The loops of this package need little
of it: numbers, arrays in C order, tuples, `for` over a range or a tuple, `while`, `if`, calls of
each other. For these one pass over the syntax tree is enough, and LLVM's time remains.

- A variable has one type. A whole number in the source may become a float; other changes are
  errors, since they would round silently.
- An index is not negative, and lies within the array. The ends of a slice may lie beyond it.
  The step of a range that is not known is positive.
- Arguments are passed by value; of a function that gets a constant (a table, a dtype) there is a
  copy for each.
- `np.empty` and `np.zeros` are scratch memory, which is freed when the same line is reached again
  and at the end of the function.
- `for i in prange(n)`, once in a function that Python calls, runs over one part of the range. The
  arrays of such a function share no memory.
- `emitted` functions write LLVM IR themselves.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ...runtime.interrupts import context_manager
from . import llvm_numbers as numbers
from .llvm_numbers import (
    BYTE,
    FLOAT64,
    INT,
    INT64,
    WORD,
    Array,
    CompileError,
    Constant,
    Number,
    Tuple,
    Value,
    cast,
    memory,
    number,
    register,
    word,
)

POINTER = BYTE.as_pointer()
RETURNED = "return"  # the variable of what is returned


class Emitted:
    """A function that is written in LLVM IR: emit(builder, *values) -> value or None."""

    def __init__(self, emit: Callable[..., Value | None]):
        self.emit = emit
        self.__doc__ = emit.__doc__

    def __call__(self, *_values: Any) -> Any:
        raise NotImplementedError("only compiled functions call it")


emitted = Emitted


def prange(*_limits: int) -> range:
    """The range whose parts run beside each other."""
    raise NotImplementedError("prange: only in compiled functions")


class Source:
    """A function that is compiled, and how: fastmath: LLVM's flags of its operations on floats."""

    def __init__(self, function: types.FunctionType, fastmath: tuple[str, ...] = ()):
        self.function, self.fastmath = function, fastmath


class Made:
    """A compiled function: of LLVM, the kind of its result (None: nothing), whether it allocates
    memory, which may fail."""

    def __init__(self, function: ir.Function, result: Any, allocates: bool):
        self.function, self.result, self.allocates = function, result, allocates


class Part:
    """A function of numbers in a module of its own, which all that call it share.

    label: its name for the linker; text: the module, where it has another name; kind: the types of
    its registers; size: how many instructions it has before they are optimised; parts: those that
    it calls, by label.
    """

    def __init__(self, label: str, made: Made, parts: dict[str, Part]):
        function = made.function
        self.label, self.parts = label, parts
        self.name, self.text = function.name, str(function.module)
        self.kind, self.result, self.allocates = function.ftype, made.result, made.allocates
        self.size = sum(len(block.instructions) for block in function.blocks)


class _Again(Exception):
    """A variable has another type than the pass over the function assumed."""


@functools.lru_cache(64)
def _functions(file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions of a file by (name, first line, that of decorators)."""
    with open(file, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    return {
        (node.name, min([node.lineno, *[each.lineno for each in node.decorator_list]])): node
        for node in _definitions(tree)
    }


def _definitions(node: Any) -> Iterator[ast.FunctionDef]:
    """The functions in a statement, found without a look at expressions."""
    for field in ("body", "orelse", "finalbody", "handlers"):
        for each in getattr(node, field, ()):
            if isinstance(each, ast.FunctionDef):
                yield each
            yield from _definitions(each)


@functools.lru_cache(1024)
def _stores(node: ast.FunctionDef) -> dict[str, int]:
    """How often a function assigns to each name; more than once where a loop does."""
    found: dict[str, int] = {}

    def assigned(target: ast.expr, times: int) -> None:
        if isinstance(target, ast.Name):
            found[target.id] = found.get(target.id, 0) + times
        for each in target.elts if isinstance(target, ast.Tuple) else ():
            assigned(each, times)

    def count(lines: Sequence[ast.stmt], times: int) -> None:
        for line in lines:
            if isinstance(line, ast.Assign):
                for target in line.targets:
                    assigned(target, times)
            elif isinstance(line, ast.AugAssign):
                assigned(line.target, times)
            elif isinstance(line, ast.If):
                count(line.body, times)
                count(line.orelse, times)
            elif isinstance(line, ast.For):
                assigned(line.target, 2)
                count(line.body, 2)
            elif isinstance(line, ast.While):  # what a loop assigns has no one value
                count(line.body, 2)

    count(node.body, 1)
    return found


@functools.lru_cache(1024)
def _fixed(node: ast.FunctionDef) -> frozenset[str]:
    """The names that have one value from a statement of the function's body on, outside of loops
    and branches: they need no memory. LLVM would find that out."""
    stores = _stores(node)
    arguments = {each.arg for each in node.args.args}
    targets = [each for line in node.body if isinstance(line, ast.Assign) for each in line.targets]
    names = {
        each.id
        for target in targets
        for each in (target.elts if isinstance(target, ast.Tuple) else [target])
        if isinstance(each, ast.Name) and stores[each.id] == 1
    }
    return frozenset((arguments - stores.keys()) | (names - arguments))


def _syntax(function: types.FunctionType) -> ast.FunctionDef:
    """The function's tree, from its file. RuntimeError where that is not what was imported."""
    code = function.__code__
    try:
        return _functions(code.co_filename)[code.co_name, code.co_firstlineno]
    except (OSError, SyntaxError, KeyError):
        raise RuntimeError(
            f"{code.co_filename} has changed since it was imported, or is not there: "
            f"{code.co_name} cannot be compiled; start Python anew"
        ) from None


def _names(function: types.FunctionType) -> dict[str, Any]:
    """What a function's free names mean."""
    cells = function.__closure__ or ()
    closed = {n: c.cell_contents for n, c in zip(function.__code__.co_freevars, cells, strict=True)}
    return {**vars(builtins), **function.__globals__, **closed}


# -------------------- kinds and registers


def spelled(kinds: Any) -> str:
    """Kinds as text."""
    if isinstance(kinds, np.dtype):
        return kinds.name
    if isinstance(kinds, (tuple, list)):
        return "(" + ", ".join(map(spelled, kinds)) + ")"
    return str(kinds)


def label_of(name: str) -> str:
    """What the linker calls a function."""
    return "f" + hashlib.sha256(name.encode()).hexdigest()[:20]


def types_of(kind: Any) -> list[ir.Type]:
    """The registers in which a value of this kind is passed."""
    if isinstance(kind, np.dtype):
        return [register(kind)]
    if kind[0] == "array":
        return [memory(kind[1]).as_pointer(), *[WORD] * kind[2]]
    if kind[0] == "tuple":
        return [each for part in kind[1:] for each in types_of(part)]
    return []  # a constant


def registers(value: Value) -> list[Any]:
    """The registers of a value."""
    if isinstance(value, Number):
        return [value.value]
    if isinstance(value, Array):
        return [value.data, *value.shape]
    if isinstance(value, Tuple):
        return [each for item in value.items for each in registers(item)]
    return []


def value_of(kind: Any, found: Iterator[Any]) -> Value:
    """The value of this kind in the next registers."""
    if isinstance(kind, np.dtype):
        return Number(kind, next(found))
    if kind[0] == "array":
        return Array(kind[1], next(found), tuple([next(found) for _ in range(kind[2])]))
    if kind[0] == "tuple":
        return Tuple(tuple([value_of(part, found) for part in kind[1:]]))
    return Constant(kind[1])


class _Variable:
    """The memory of a variable, which LLVM turns into registers."""

    def __init__(self, b: ir.IRBuilder, kind: Any):
        self.kind = kind
        with b.goto_entry_block():
            self._cells = [b.alloca(each) for each in types_of(kind)]

    def store(self, b: ir.IRBuilder, value: Value) -> None:
        for cell, each in zip(self._cells, registers(value), strict=True):
            b.store(each, cell)

    def load(self, b: ir.IRBuilder) -> Value:
        return value_of(self.kind, iter([b.load(cell) for cell in self._cells]))


def _materialized(value: Value) -> Value:
    """A value in registers: numbers of the source too."""
    if isinstance(value, Tuple):
        return Tuple(tuple([_materialized(item) for item in value.items]))
    if isinstance(value, Constant):
        if isinstance(value.value, tuple):
            return Tuple(tuple([_materialized(Constant(item)) for item in value.value]))
        if isinstance(value.value, (bool, int, float, np.generic)):
            return number(value)
    return value


def _is_literal(value: Value) -> bool:
    return isinstance(value, Number) and value.literal


# -------------------- modules


_parts: dict[Any, Part] = {}


def _is_part(source: Source, kinds: Sequence[Any]) -> bool:
    """Whether a function is the same wherever it is called: of a file, and of numbers alone."""
    function = source.function
    home = sys.modules.get(function.__module__)
    return getattr(home, function.__name__, None) is function and all(map(_is_plain, kinds))


def _is_plain(kind: Any) -> bool:
    if isinstance(kind, np.dtype):
        return True
    return kind[0] == "tuple" and all(map(_is_plain, kind[1:]))


def _part(source: Source, kinds: Sequence[Any]) -> Part:
    """The part of a function, which is written once in a process."""
    function = source.function
    key = (function, source.fastmath, tuple(kinds))
    if key not in _parts:
        name = f"{function.__module__}.{function.__qualname__}{spelled(kinds)}{source.fastmath}"
        label = label_of(name)
        compiler = Compiler(ir.Module(label))
        _parts[key] = Part(label, compiler.written(source, kinds), compiler.parts)
    return _parts[key]


class Compiler:
    """Functions of one LLVM module. parts: what it calls of others, by label."""

    def __init__(self, module: ir.Module):
        self.module = module
        self.parts: dict[str, Part] = {}
        self._made: dict[Any, Made] = {}
        self._tables: dict[int, tuple[Any, ir.GlobalVariable]] = {}

    def made(self, source: Source, kinds: Sequence[Any], *, parts: bool = False) -> Made:
        """A function for arguments of these kinds. parts: two more arguments say which part of its
        `prange` it runs over, of how many."""
        key = (source.function, source.fastmath, tuple(kinds), parts)
        if key not in self._made:
            if not parts and _is_part(source, kinds):
                self._made[key] = self._declared(_part(source, kinds))
            else:
                self._made[key] = self.written(source, kinds, parts)
        return self._made[key]

    def _declared(self, part: Part) -> Made:
        self.parts[part.label] = part
        function = ir.Function(self.module, part.kind, part.label)
        function.attributes.add("nounwind")
        return Made(function, part.result, part.allocates)

    def written(self, source: Source, kinds: Sequence[Any], parts: bool = False) -> Made:
        """A function that this module contains."""
        known: dict[str, Any] = {}
        while True:
            body = _Body(self, source, kinds, known, parts)
            try:
                return body.emit()
            except _Again:
                del self.module.globals[body.function.name]

    def new(self, name: str, kind: ir.FunctionType) -> ir.Function:
        """A new function of the module."""
        function = ir.Function(self.module, kind, self.module.get_unique_name(f"python.{name}"))
        function.linkage = "internal"
        function.attributes.add("nounwind")
        return function

    def table(self, source: Any) -> Array:
        """An array of the source, or a tuple of numbers."""
        values = np.asarray(source)
        if id(source) not in self._tables:
            kind = memory(values.dtype)
            data = ir.Constant(ir.ArrayType(kind, values.size), values.ravel().tolist())
            name = self.module.get_unique_name("table")
            table = ir.GlobalVariable(self.module, data.type, name)
            table.linkage, table.global_constant, table.initializer = "internal", True, data
            self._tables[id(source)] = source, table
        table = self._tables[id(source)][1]
        start = table.gep([INT(0), INT(0)])
        return Array(values.dtype, start, tuple([WORD(n) for n in values.shape]))


class _Loop:
    def __init__(self, following: ir.Block, after: ir.Block):
        self.following, self.after = following, after


class _Body:
    """One pass over a function."""

    def __init__(
        self, compiler: Compiler, source: Source, kinds: Sequence[Any], known: dict, parts: bool
    ):
        self.compiler, self.flags, self.known = compiler, source.fastmath, known
        self._source, self._kinds, self._parts = source, kinds, parts
        self._names, self._node = _names(source.function), _syntax(source.function)
        self._variables: dict[str, _Variable] = {}
        self._constants: dict[str, Constant] = {}
        self._loops: list[_Loop] = []
        self._scratch: list[Any] = []
        self._allocates = False
        self._stores, self._fixed = _stores(self._node), _fixed(self._node)
        self._values: dict[str, Value] = {}
        arguments = [each for kind in kinds for each in types_of(kind)] + [WORD, WORD] * parts
        self.function = compiler.new(self._node.name, ir.FunctionType(INT, arguments))
        if parts:  # the arrays of a parallel function share no memory
            for argument in self.function.args:
                if isinstance(argument.type, ir.PointerType):
                    argument.add_attribute("noalias")
        self.b = ir.IRBuilder(self.function.append_basic_block())

    def emit(self) -> Made:
        """Write the function. _Again: `known` says more now than before."""
        found = iter(self.function.args)
        for argument, kind in zip(self._node.args.args, self._kinds, strict=True):
            value = value_of(kind, found)
            if isinstance(value, Constant):
                self._constants[argument.arg] = value
            else:
                self._assign(argument.arg, value)
        if self._parts:
            self._part, self._count = next(found), next(found)
        start = self.function.append_basic_block()
        entry, self._exit = self.b.block, self.function.append_basic_block()
        with self.b.goto_entry_block():
            self._status = self.b.alloca(INT)
            self.b.store(INT(0), self._status)
        self.b.position_at_end(start)
        self._statements(self._node.body)
        if not self.b.block.is_terminated:
            self.b.branch(self._exit)
        self.b.position_at_end(self._exit)
        for cell in self._scratch:
            numbers.library(self.b, "free", ir.VoidType(), self.b.load(cell))
        returned = self._variables.get(RETURNED)
        if returned is None:
            self.b.ret(self.b.load(self._status))
        else:
            if self._allocates:
                raise self._error(self._node, "a function that returns a value allocates memory")
            found = registers(returned.load(self.b))
            result = found[0] if len(found) == 1 else self._struct(found)
            # the function was made before it was known what it returns
            self.function.ftype.return_type = self.function.return_value.type = result.type
            self.b.ret(result)
        self.b.position_at_end(entry)
        self.b.branch(start)
        kind = None if returned is None else returned.kind
        return Made(self.function, kind, self._allocates)

    def _struct(self, found: list[Any]) -> Any:
        kind = ir.LiteralStructType([each.type for each in found])
        struct = ir.Constant(kind, ir.Undefined)
        for k, each in enumerate(found):
            struct = self.b.insert_value(struct, each, k)
        return struct

    def _error(self, node: ast.AST, text: str) -> CompileError:
        code = self._source.function.__code__
        line = getattr(node, "lineno", code.co_firstlineno)
        return CompileError(f"{code.co_filename}:{line}: {code.co_name}: {text}")

    # -------------------- variables

    def _assign(self, name: str, value: Value) -> None:
        once = self._stores.get(name) == 1 and name not in self._variables
        if isinstance(value, Constant) and once:
            self._constants[name] = value
            return
        value = _materialized(value)
        if name in self._fixed:
            self._values[name] = value_of(value.kind, iter(registers(value)))
            return
        kind = self.known.get(name)
        if kind is None:
            kind = self.known[name] = value.kind
            self.known[name, "literal"] = _is_literal(value)
        merged = self._merged(name, kind, value.kind, _is_literal(value))
        if merged != kind:
            self.known[name] = merged
            raise _Again
        self.known[name, "literal"] &= _is_literal(value)
        variable = self._variables.get(name)
        if variable is None:
            variable = self._variables[name] = _Variable(self.b, kind)
        variable.store(self.b, self._as(value, kind))

    def _merged(self, name: str, kind: Any, new: Any, literal: bool) -> Any:
        if kind == new:
            return kind
        if isinstance(kind, np.dtype) and isinstance(new, np.dtype):
            if new.kind == "f" and kind == INT64 and self.known[name, "literal"]:
                return new
            if kind.kind == "f" and literal:
                return kind
            if {kind.kind, new.kind} <= set("iu") and "i" in (kind.kind, new.kind):
                wide = np.promote_types(kind, new)
                if wide.kind == "i":
                    return wide
        elif kind[0] == new[0] == "tuple" and len(kind) == len(new):
            merged = [
                self._merged(name, a, c, literal) for a, c in zip(kind[1:], new[1:], strict=True)
            ]
            return ("tuple", *merged)
        raise CompileError(
            f"{self._source.function.__qualname__}: {name} is {kind}, and then {new}"
        )

    def _as(self, value: Value, kind: Any) -> Value:
        if value.kind == kind:
            return value
        if isinstance(kind, np.dtype):
            return cast(self.b, value, kind)
        assert isinstance(value, Tuple)
        return Tuple(tuple([self._as(v, k) for v, k in zip(value.items, kind[1:], strict=True)]))

    # -------------------- statements

    def _statements(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self.b.block.is_terminated:
                return
            handler = getattr(self, f"_do_{type(statement).__name__}", None)
            if handler is None:
                raise self._error(statement, f"no {type(statement).__name__} here")
            try:
                handler(statement)
            except CompileError as error:
                if ".py:" in str(error):
                    raise
                raise self._error(statement, str(error)) from None

    def _do_Pass(self, _node: ast.Pass) -> None:
        pass

    def _do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._value(node.value, optional=True)

    def _do_Assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._put(target, value)

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        sign = _SIGNS[type(node.op)]
        if isinstance(node.target, ast.Name):
            before = self._load(node.target)
            self._assign(node.target.id, self._binary(sign, before, self._value(node.value)))
            return
        assert isinstance(node.target, ast.Subscript)
        pointer, dtype = self._place(node.target)
        right = self._value(node.value)
        result = self._binary(sign, numbers.loaded(self.b, pointer, dtype), right)
        numbers.store(self.b, result, pointer, dtype)

    def _put(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._assign(target.id, value)
        elif isinstance(target, ast.Tuple):
            items = self._items(value)
            # each is read before any is written: a, b = b, a
            for each, item in zip(target.elts, items, strict=True):
                self._put(each, item)
        elif isinstance(target, ast.Subscript):
            if self._has_slice(target):
                self._fill(target, value)
            else:
                pointer, dtype = self._place(target)
                numbers.store(self.b, value, pointer, dtype)
        else:
            raise self._error(target, "no such target")

    def _fill(self, target: ast.Subscript, value: Value) -> None:
        """array[...] = number."""
        array = self._value(target)
        assert isinstance(array, Array)
        total = functools.reduce(lambda x, y: self.b.mul(x, y, flags=("nsw",)), array.shape)
        filler = cast(self.b, value, array.dtype)
        with counted(self.b, total) as i:
            numbers.store(self.b, filler, self.b.gep(array.data, [i], inbounds=True), array.dtype)

    def _do_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            self._assign(RETURNED, self._value(node.value))
        self.b.branch(self._exit)

    def _do_If(self, node: ast.If) -> None:
        test = self._value(node.test)
        if isinstance(test, Constant):
            self._statements(node.body if test.value else node.orelse)
            return
        then, otherwise = self._blocks(2)
        after = self.function.append_basic_block() if node.orelse else otherwise
        self.b.cbranch(self._bit(test), then, otherwise)
        self.b.position_at_end(then)
        self._statements(node.body)
        self._branch(after)
        if node.orelse:
            self.b.position_at_end(otherwise)
            self._statements(node.orelse)
            self._branch(after)
        self.b.position_at_end(after)

    def _do_While(self, node: ast.While) -> None:
        if node.orelse:
            raise self._error(node, "no else of a loop here")
        test, body, after = self._blocks(3)
        self.b.branch(test)
        self.b.position_at_end(test)
        condition = self._value(node.test)
        if isinstance(condition, Constant):
            self.b.branch(body if condition.value else after)
        else:
            self.b.cbranch(self._bit(condition), body, after)
        self.b.position_at_end(body)
        self._loop_body(node.body, _Loop(test, after))
        self._branch(test)
        self.b.position_at_end(after)

    def _loop_body(self, body: Sequence[ast.stmt], loop: _Loop) -> None:
        self._loops.append(loop)
        self._statements(body)
        self._loops.pop()

    def _do_Break(self, _node: ast.Break) -> None:
        self.b.branch(self._loops[-1].after)

    def _do_Continue(self, _node: ast.Continue) -> None:
        self.b.branch(self._loops[-1].following)

    def _do_For(self, node: ast.For) -> None:
        if node.orelse:
            raise self._error(node, "no else of a loop here")
        if isinstance(node.iter, ast.Call):
            called = self._value(node.iter.func)
            if isinstance(called, Constant) and called.value in (range, prange):
                limits = [self._value(each) for each in node.iter.args]
                self._for_range(node, limits, called.value is prange)
                return
        after = self.function.append_basic_block()
        for item in self._items(self._value(node.iter)):
            following = self.function.append_basic_block()
            self._put(node.target, item)
            self._loop_body(node.body, _Loop(following, after))
            self._branch(following)
            self.b.position_at_end(following)
        self.b.branch(after)
        self.b.position_at_end(after)

    def _for_range(self, node: ast.For, limits: list[Value], in_parts: bool) -> None:
        b = self.b
        step = limits[2] if len(limits) > 2 else Constant(1)
        rises = not isinstance(step, Constant) or step.value > 0
        apart = word(b, step)
        start = word(b, limits[0]) if len(limits) > 1 else WORD(0)
        stop = word(b, limits[1 if len(limits) > 1 else 0])
        if in_parts:
            if not self._parts or len(limits) > 1:
                raise self._error(node, "prange(n) stands in functions that Python calls")
            total = stop
            start, stop = (
                b.sdiv(b.mul(total, number_of), self._count)
                for number_of in (self._part, b.add(self._part, WORD(1)))
            )
        with b.goto_entry_block():
            cell = b.alloca(WORD)
        b.store(start, cell)
        test, body, following, after = self._blocks(4)
        b.branch(test)
        b.position_at_end(test)
        i = b.load(cell)
        b.cbranch(b.icmp_signed("<" if rises else ">", i, stop), body, after)
        b.position_at_end(body)
        self._put(node.target, Number(INT64, i))
        self._loop_body(node.body, _Loop(following, after))
        self._branch(following)
        b.position_at_end(following)
        b.store(b.add(b.load(cell), apart, flags=("nsw",)), cell)
        b.branch(test)
        b.position_at_end(after)

    def _blocks(self, count: int) -> list[ir.Block]:
        return [self.function.append_basic_block() for _ in range(count)]

    def _branch(self, to: ir.Block) -> None:
        if not self.b.block.is_terminated:
            self.b.branch(to)

    # -------------------- expressions

    def _value(self, node: ast.expr, optional: bool = False) -> Value:
        handler = getattr(self, f"_of_{type(node).__name__}", None)
        if handler is None:
            raise self._error(node, f"no {type(node).__name__} here")
        value: Value | None = handler(node)
        if value is None and not optional:
            raise self._error(node, "there is no value")
        return value  # type: ignore[return-value]

    def _bit(self, value: Value) -> Any:
        return numbers.truth(self.b, value).value

    def _binary(self, sign: str, x: Value, y: Value) -> Value:
        return numbers.binary(self.b, sign, x, y, self.flags)

    def _items(self, value: Value) -> Sequence[Value]:
        if isinstance(value, Tuple):
            return value.items
        if isinstance(value, Constant) and isinstance(value.value, (tuple, list)):
            return [Constant(item) for item in value.value]
        raise CompileError(f"{type(value).__name__} is no tuple")

    def _of_Constant(self, node: ast.Constant) -> Value:
        return Constant(node.value)

    def _of_Name(self, node: ast.Name) -> Value:
        return self._load(node)

    def _load(self, node: ast.Name) -> Value:
        name = node.id
        if name in self._constants:
            return self._constants[name]
        if name in self._values:
            return self._values[name]
        if name in self._variables:
            return self._variables[name].load(self.b)
        if name in self._stores:  # assigned farther down, in a loop
            raise self._error(node, f"{name} is read before it is assigned")
        try:
            found = self._names[name]
        except KeyError:
            raise self._error(node, f"there is no {name}") from None
        if isinstance(found, np.ndarray):
            return self.compiler.table(found)
        return Constant(found)

    def _of_Tuple(self, node: ast.Tuple) -> Value:
        return Tuple(tuple([self._value(each) for each in node.elts]))

    def _of_Attribute(self, node: ast.Attribute) -> Value:
        of = self._value(node.value)
        if isinstance(of, Constant):
            return Constant(getattr(of.value, node.attr))
        if isinstance(of, Array):
            if node.attr == "shape":
                return Tuple(tuple([Number(INT64, n) for n in of.shape]))
            if node.attr == "size":
                return Number(INT64, functools.reduce(self.b.mul, of.shape))
            if node.attr in ("dtype", "itemsize", "ndim"):
                known = {"dtype": of.dtype, "itemsize": of.dtype.itemsize, "ndim": len(of.shape)}
                return Constant(known[node.attr])
        raise self._error(node, f"no attribute {node.attr}")

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self._value(node.operand)
        if isinstance(node.op, ast.USub):
            return numbers.negative(self.b, value)
        if isinstance(node.op, ast.Not):
            if isinstance(value, Constant):
                return Constant(not value.value)
            return Number(numbers.BOOL, self.b.not_(self._bit(value)))
        if isinstance(node.op, ast.Invert):
            x = number(value)
            return Number(x.dtype, self.b.not_(x.value))
        raise self._error(node, "no such operator here")

    def _of_BinOp(self, node: ast.BinOp) -> Value:
        return self._binary(_SIGNS[type(node.op)], self._value(node.left), self._value(node.right))

    def _of_Compare(self, node: ast.Compare) -> Value:
        left, result = self._value(node.left), None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._value(right_node)
            if isinstance(op, (ast.Is, ast.IsNot)):
                same = isinstance(left, Constant) and isinstance(right, Constant)
                same = same and left.value is right.value  # type: ignore[union-attr]
                this: Value = Constant(same == isinstance(op, ast.Is))
            else:
                this = numbers.compared(self.b, _SIGNS[type(op)], left, right)
            if result is None:
                result = this
            elif isinstance(result, Constant):
                result = this if result.value else result
            else:
                result = Number(numbers.BOOL, self.b.and_(self._bit(result), self._bit(this)))
            left = right
        assert result is not None
        return result

    def _of_BoolOp(self, node: ast.BoolOp) -> Value:
        """The first value that decides; the others are not computed."""
        decides = isinstance(node.op, ast.Or)
        *earlier, last = node.values
        found: list[tuple[Value, ir.Block]] = []
        after = self.function.append_basic_block()
        for each in earlier:
            value = self._value(each)
            if isinstance(value, Constant):
                if bool(value.value) == decides:
                    last = each
                    break
                continue
            found.append((value, self.b.block))
            following = self.function.append_basic_block()
            bit = self._bit(value)
            self.b.cbranch(bit, *((after, following) if decides else (following, after)))
            self.b.position_at_end(following)
        value = self._value(last)
        if not found:
            self.b.branch(after)
            self.b.position_at_end(after)
            return value
        return self._joined([*found, (value, self.b.block)], after)

    def _joined(self, found: list[tuple[Value, ir.Block]], after: ir.Block) -> Value:
        """One of several values, by the block that was left last; the last of these blocks has no
        end yet."""
        values = [_materialized(value) for value, _ in found]
        kind = values[0].kind
        for value in values[1:]:
            kind = self._wider(kind, value.kind)
        rows = []
        for value, (_, block) in zip(values, found, strict=True):
            if block.is_terminated:
                self.b.position_before(block.terminator)
            else:
                self.b.position_at_end(block)
            rows.append(registers(self._converted(value, kind)))
            if not block.is_terminated:
                self.b.branch(after)
        self.b.position_at_end(after)
        joined = []
        for column in zip(*rows, strict=True):
            phi = self.b.phi(column[0].type)
            for each, (_, block) in zip(column, found, strict=True):
                phi.add_incoming(each, block)
            joined.append(phi)
        return value_of(kind, iter(joined))

    def _wider(self, kind: Any, other: Any) -> Any:
        if kind == other:
            return kind
        if isinstance(kind, np.dtype) and isinstance(other, np.dtype):
            if numbers.BOOL in (kind, other):
                raise CompileError("either a bool or a number")
            return numbers.common(kind, other)
        if kind[0] == other[0] == "tuple" and len(kind) == len(other):
            return ("tuple", *[self._wider(a, c) for a, c in zip(kind[1:], other[1:], strict=True)])
        raise CompileError(f"either {kind} or {other}")

    def _converted(self, value: Value, kind: Any) -> Value:
        if isinstance(value, Tuple):
            parts = zip(value.items, kind[1:], strict=True)
            return Tuple(tuple([self._converted(item, part) for item, part in parts]))
        return cast(self.b, value, kind) if isinstance(value, Number) else value

    def _of_IfExp(self, node: ast.IfExp) -> Value:
        test = self._value(node.test)
        if isinstance(test, Constant):
            return self._value(node.body if test.value else node.orelse)
        then, otherwise, after = self._blocks(3)
        self.b.cbranch(self._bit(test), then, otherwise)
        self.b.position_at_end(then)
        first, first_block = self._value(node.body), self.b.block
        self.b.position_at_end(otherwise)
        second, second_block = self._value(node.orelse), self.b.block
        return self._joined([(first, first_block), (second, second_block)], after)

    # -------------------- arrays

    def _has_slice(self, node: ast.Subscript) -> bool:
        index = node.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        return any(isinstance(part, ast.Slice) for part in parts)

    def _of_Subscript(self, node: ast.Subscript) -> Value:
        of = self._value(node.value)
        if isinstance(of, Constant) and isinstance(of.value, np.ndarray):
            of = self.compiler.table(of.value)
        if isinstance(of, Array):
            if not self._has_slice(node):
                pointer, rest = self._element(of, node)
                if rest:
                    return Array(of.dtype, pointer, rest)
                return numbers.loaded(self.b, pointer, of.dtype)
            return self._sliced(of, node)
        if isinstance(of, Constant) and not isinstance(node.slice, (ast.Slice, ast.Constant)):
            index = self._value(node.slice)
            if not isinstance(index, Constant):  # a table of numbers
                table = self.compiler.table(of.value)
                at = self.b.gep(table.data, [word(self.b, index)], inbounds=True)
                return numbers.loaded(self.b, at, table.dtype)
        items = self._items(of)
        if isinstance(node.slice, ast.Slice):
            ends = [node.slice.lower, node.slice.upper]
            known = [None if end is None else self._value(end).value for end in ends]  # type: ignore[union-attr]
            return Tuple(tuple(items[slice(*known)]))
        index = self._value(node.slice)
        if isinstance(index, Constant):
            return items[index.value]
        result = items[-1]
        for k in range(len(items) - 2, -1, -1):
            same = self._bit(numbers.compared(self.b, "==", index, Constant(k)))
            x, y = _materialized(items[k]), _materialized(result)
            pairs = zip(registers(x), registers(y), strict=True)
            result = value_of(x.kind, iter([self.b.select(same, p, q) for p, q in pairs]))
        return result

    def _place(self, node: ast.Subscript) -> tuple[Any, np.dtype]:
        """The address of an element, and its dtype."""
        of = self._value(node.value)
        if not isinstance(of, Array):
            raise self._error(node, "no array")
        pointer, rest = self._element(of, node)
        if rest:
            raise self._error(node, "no number")
        return pointer, of.dtype

    def _element(self, of: Array, node: ast.Subscript) -> tuple[Any, tuple]:
        """The address of what an index names, and its shape."""
        value = self._value(node.slice)
        index = self._items(value) if isinstance(value, Tuple) else [value]
        at = self._flat(of, [word(self.b, each) for each in index])
        return self.b.gep(of.data, [at], inbounds=True), of.shape[len(index) :]

    def _flat(self, of: Array, index: Sequence[Any]) -> Any:
        at = None
        for k, length in enumerate(of.shape):
            if at is not None:
                at = self.b.mul(at, length, flags=("nsw",))
            if k < len(index):
                at = index[k] if at is None else self.b.add(at, index[k], flags=("nsw",))
        return at

    def _sliced(self, of: Array, node: ast.Subscript) -> Array:
        b, index = self.b, node.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        leading = [word(b, self._value(part)) for part in parts if not isinstance(part, ast.Slice)]
        axis = len(leading)
        cut = parts[axis]
        if len(parts) != axis + 1 or not isinstance(cut, ast.Slice) or cut.step is not None:
            raise self._error(node, "a slice comes last, and has no step")
        length = of.shape[axis]

        def end(part: ast.expr | None, default: Any) -> Any:
            if part is None:
                return default
            at = word(b, self._value(part))
            return b.select(b.icmp_signed("<", at, length), at, length)

        first, last = end(cut.lower, WORD(0)), end(cut.upper, length)
        count = b.sub(last, first, flags=("nsw",))
        count = b.select(b.icmp_signed(">", count, WORD(0)), count, WORD(0))
        data = b.gep(of.data, [self._flat(of, [*leading, first])], inbounds=True)
        return Array(of.dtype, data, (count, *of.shape[axis + 1 :]))

    # -------------------- calls

    def _of_Call(self, node: ast.Call) -> Value | None:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            of = self._value(node.func.value)
            if isinstance(of, Array):
                return self._reshaped(of, [self._value(each) for each in node.args])
        called = self._value(node.func)
        if not isinstance(called, Constant):
            raise self._error(node, "no function")
        function = called.value
        if function in (np.empty, np.zeros):
            return self._allocated(function, *[self._value(each) for each in node.args])
        arguments = [self._value(each) for each in node.args]
        if isinstance(function, Emitted):
            return function.emit(self.b, *arguments)
        source = getattr(function, "source", function)
        if isinstance(source, types.FunctionType):
            source = Source(source)
        if isinstance(source, Source):
            named = {str(each.arg): self._value(each.value) for each in node.keywords}
            return self._called(source, arguments, named)
        if node.keywords:
            raise self._error(node, "no keywords here")
        return self._builtin(node, function, arguments)

    def _builtin(self, node: ast.Call, function: Any, arguments: list[Value]) -> Value:
        if function is len:
            (of,) = arguments
            if isinstance(of, Array):
                return Number(INT64, of.shape[0])
            return Constant(len(self._items(of)))
        if function in (int, float, bool):
            function = {int: np.int64, float: np.float64, bool: np.bool_}[function]
        if isinstance(function, np.dtype):
            function = function.type
        if isinstance(function, type) and issubclass(function, np.generic):
            return cast(self.b, arguments[0], np.dtype(function))
        try:
            emit = numbers.FUNCTIONS[function]
        except (KeyError, TypeError):
            raise self._error(node, f"{function} cannot be called here") from None
        return emit(self.b, *arguments)

    def _reshaped(self, of: Array, lengths: list[Value]) -> Array:
        if len(lengths) == 1 and isinstance(lengths[0], Constant) and lengths[0].value == -1:
            return Array(of.dtype, of.data, (functools.reduce(self.b.mul, of.shape),))
        return Array(of.dtype, of.data, tuple([word(self.b, each) for each in lengths]))

    def _allocated(self, function: Any, shape: Value, *kinds: Value) -> Array:
        b, self._allocates = self.b, True
        dtype = FLOAT64
        for kind in kinds:
            assert isinstance(kind, Constant)
            dtype = np.dtype(kind.value)
        lengths = self._items(shape) if isinstance(shape, Tuple) else [shape]
        sizes = tuple([word(b, each) for each in lengths])
        nbytes = b.mul(functools.reduce(b.mul, sizes), WORD(dtype.itemsize))
        nbytes = b.select(b.icmp_signed(">", nbytes, WORD(0)), nbytes, WORD(1))
        with b.goto_entry_block():
            cell = b.alloca(POINTER)
            b.store(POINTER(None), cell)
        self._scratch.append(cell)
        numbers.library(b, "free", ir.VoidType(), b.load(cell))
        if function is np.zeros:
            data = numbers.library(b, "calloc", POINTER, nbytes, WORD(1))
        else:
            data = numbers.library(b, "malloc", POINTER, nbytes)
        b.store(data, cell)
        self._check(b.icmp_unsigned("==", data, POINTER(None)))
        return Array(dtype, b.bitcast(data, memory(dtype).as_pointer()), sizes)

    def _check(self, failed: Any) -> None:
        """Leave the function where there is no memory."""
        none, there = self._blocks(2)
        self.b.cbranch(failed, none, there)
        self.b.position_at_end(none)
        self.b.store(INT(1), self._status)
        self.b.branch(self._exit)
        self.b.position_at_end(there)

    def _called(self, source: Source, given: list[Value], named: dict[str, Value]) -> Value | None:
        code = source.function.__code__
        names = code.co_varnames[: code.co_argcount]
        defaults = source.function.__defaults__ or ()
        known: dict[str, Value] = {}
        known |= zip(names[len(names) - len(defaults) :], map(Constant, defaults), strict=True)
        known |= dict(zip(names, given, strict=False)) | named
        arguments = [self._argument(known[name]) for name in names]
        made = self.compiler.made(source, [each.kind for each in arguments])
        passed = [each for argument in arguments for each in registers(argument)]
        result = self.b.call(made.function, passed)
        if made.result is None:
            if made.allocates:
                self._allocates = True
                self._check(self.b.icmp_unsigned("!=", result, INT(0)))
            return None
        count = len(types_of(made.result))
        found = [result] if count == 1 else [self.b.extract_value(result, k) for k in range(count)]
        return value_of(made.result, iter(found))

    def _argument(self, value: Value) -> Value:
        """As it is passed: tables of numbers and functions are constants of the callee."""
        if isinstance(value, Constant) and isinstance(value.value, np.ndarray):
            return self.compiler.table(value.value)
        if isinstance(value, Constant) and isinstance(value.value, tuple):
            return value
        return _materialized(value)


@context_manager
def counted(b: ir.IRBuilder, count: Any) -> Iterator[Any]:
    """Context: the body of a loop of `count` turns; the number of the turn."""
    before, test, body, after = b.block, *[b.append_basic_block() for _ in range(3)]
    b.branch(test)
    b.position_at_end(test)
    turn = b.phi(WORD)
    turn.add_incoming(WORD(0), before)
    b.cbranch(b.icmp_signed("<", turn, count), body, after)
    b.position_at_end(body)
    yield turn
    turn.add_incoming(b.add(turn, WORD(1), flags=("nsw",)), b.block)
    b.branch(test)
    b.position_at_end(after)


_SIGNS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
