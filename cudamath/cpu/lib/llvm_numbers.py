"""Values of compiled Python functions, and arithmetic on numbers, in LLVM IR.

A value is a `Number`, an `Array`, a `Tuple` or a `Constant`, which is known while the function is
compiled. Numbers are promoted as Numba promotes them: integers to 64 bits, an integer beside a
float as in NumPy. int64 beside uint64, whose result neither holds, is an error.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

WORD, INT, BIT, BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(1), ir.IntType(8)
BOOL, INT64, UINT64 = np.dtype(bool), np.dtype(np.int64), np.dtype(np.uint64)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class CompileError(TypeError):
    """What the compiler does not take."""


@dataclasses.dataclass(frozen=True)
class Number:
    """A number in a register."""

    dtype: np.dtype
    value: Any
    literal: bool = False  # a whole number in the source, which may become a float

    @property
    def kind(self) -> Any:
        return self.dtype


@dataclasses.dataclass(frozen=True)
class Array:
    """An array in C order: the address of its numbers and its shape."""

    dtype: np.dtype
    data: Any
    shape: tuple

    @property
    def kind(self) -> Any:
        return ("array", self.dtype, len(self.shape))


@dataclasses.dataclass(frozen=True)
class Tuple:
    """Several values."""

    items: tuple

    @property
    def kind(self) -> Any:
        return ("tuple", *[item.kind for item in self.items])


@dataclasses.dataclass(frozen=True)
class Constant:
    """An object of Python: a number of the source, a dtype, a function, a table."""

    value: Any

    @property
    def kind(self) -> Any:
        return ("constant", self.value)


Value = Number | Array | Tuple | Constant


def memory(dtype: np.dtype) -> ir.Type:
    """How a number lies in memory."""
    return BYTE if dtype == BOOL else register(dtype)


def register(dtype: np.dtype) -> ir.Type:
    """How a number lies in a register."""
    if dtype == FLOAT32:
        return ir.FloatType()
    if dtype == FLOAT64:
        return ir.DoubleType()
    if dtype.kind not in "biu":
        raise CompileError(f"compiled functions have no numbers of {dtype}")
    return BIT if dtype == BOOL else ir.IntType(8 * dtype.itemsize)


def number(value: Value) -> Number:
    """A value as a number."""
    if isinstance(value, Number):
        return value
    if isinstance(value, Constant):
        of = value.value
        if isinstance(of, bool):
            return Number(BOOL, BIT(int(of)))
        if isinstance(of, int):
            fits = -(1 << 63) <= of < 1 << 63
            return Number(INT64 if fits else UINT64, WORD(of), True)
        if isinstance(of, (float, np.generic)):
            dtype = np.dtype(type(of))
            plain = of.item() if isinstance(of, np.generic) else of
            return Number(dtype, ir.Constant(register(dtype), plain))
    raise CompileError(f"{value} is no number")


def loaded(b: ir.IRBuilder, pointer: Any, dtype: np.dtype) -> Number:
    """The number at an address."""
    value = b.load(pointer)
    return Number(dtype, b.icmp_unsigned("!=", value, BYTE(0)) if dtype == BOOL else value)


def store(b: ir.IRBuilder, value: Value, pointer: Any, dtype: np.dtype) -> None:
    """A number to an address, as this dtype."""
    bits = cast(b, value, dtype).value
    b.store(b.zext(bits, BYTE) if dtype == BOOL else bits, pointer)


def cast(b: ir.IRBuilder, value: Value, dtype: np.dtype) -> Number:
    """A number as one of another dtype, as in C."""
    x = number(value)
    source, kind = x.dtype, register(dtype)
    if source == dtype:
        return x
    if dtype == BOOL:
        return truth(b, x)
    if source.kind == "f":
        if dtype.kind == "f":
            resized = b.fptrunc if dtype.itemsize < source.itemsize else b.fpext
            return Number(dtype, resized(x.value, kind))
        return Number(dtype, (b.fptosi if dtype.kind == "i" else b.fptoui)(x.value, kind))
    if dtype.kind == "f":
        return Number(dtype, (b.sitofp if source.kind == "i" else b.uitofp)(x.value, kind))
    if dtype.itemsize < source.itemsize and source != BOOL:
        return Number(dtype, b.trunc(x.value, kind))
    if dtype.itemsize == source.itemsize and source != BOOL:
        return Number(dtype, x.value)
    return Number(dtype, (b.sext if source.kind == "i" else b.zext)(x.value, kind))


def truth(b: ir.IRBuilder, value: Value) -> Number:
    """Whether a number is not zero."""
    x = number(value)
    if x.dtype == BOOL:
        return x
    compare = b.fcmp_unordered if x.dtype.kind == "f" else b.icmp_unsigned
    return Number(BOOL, compare("!=", x.value, ir.Constant(x.value.type, 0)))


def word(b: ir.IRBuilder, value: Value) -> Any:
    """A whole number as LLVM's integer of 64 bits."""
    if number(value).dtype.kind == "f":
        raise CompileError("a float is no index")
    return cast(b, value, INT64).value


def common(x: np.dtype, y: np.dtype) -> np.dtype:
    """The dtype in which two numbers are added or compared."""
    if x.kind == "f" or y.kind == "f":
        return np.promote_types(x, y)
    if {x, y} == {INT64, UINT64}:
        raise CompileError("int64 beside uint64")
    return UINT64 if x.kind in "ub" and y.kind in "ub" and "u" in (x.kind, y.kind) else INT64


def _beside(x: Number, y: Number) -> Number:
    """x; a positive number of the source is a uint64 beside one."""
    if y.dtype == UINT64 and x.literal and isinstance(x.value, ir.Constant):
        if x.value.constant >= 0:
            return Number(UINT64, x.value)
    return x


def _together(b: ir.IRBuilder, x: Value, y: Value) -> tuple[np.dtype, Any, Any]:
    p, q = _beside(number(x), number(y)), _beside(number(y), number(x))
    dtype = common(p.dtype, q.dtype)
    return dtype, cast(b, p, dtype).value, cast(b, q, dtype).value


_FLOATS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_WHOLES = {"+": "add", "-": "sub", "*": "mul", "&": "and_", "|": "or_", "^": "xor", "<<": "shl"}
_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def folded(sign: str, x: Value, y: Value) -> Constant | None:
    """An operation on constants."""
    if isinstance(x, Constant) and isinstance(y, Constant):
        if type(x.value) in (int, float, bool) and type(y.value) in (int, float, bool):
            return Constant(_PYTHON[sign](x.value, y.value))
        if sign in ("==", "!="):
            return Constant(_PYTHON[sign](x.value, y.value))
    return None


def binary(b: ir.IRBuilder, sign: str, x: Value, y: Value, flags: tuple[str, ...] = ()) -> Value:
    """x sign y, as in Python; of floats / and % follow IEEE 754 where y is zero, and of whole
    numbers // and % are 0 there."""
    if (known := folded(sign, x, y)) is not None:
        return known
    if sign == "**":
        return _power(b, x, y, flags)
    if sign == "/":
        p, q = number(x), number(y)
        dtype = common(p.dtype, q.dtype) if "f" in (p.dtype.kind, q.dtype.kind) else FLOAT64
        return Number(dtype, b.fdiv(cast(b, p, dtype).value, cast(b, q, dtype).value, flags=flags))
    dtype, p, q = _together(b, x, y)
    if sign == "%" and dtype.kind == "f":
        return Number(dtype, _remainder(b, p, q))
    if dtype.kind == "f":
        if sign not in _FLOATS:
            raise CompileError(f"{sign} of floats")
        return Number(dtype, getattr(b, _FLOATS[sign])(p, q, flags=flags))
    if sign in ("//", "%"):
        return Number(dtype, _divided(b, sign, dtype, p, q))
    if number(x).dtype == number(y).dtype == BOOL and sign in "&|^":
        dtype, p, q = BOOL, number(x).value, number(y).value
    name = ("ashr" if dtype.kind == "i" else "lshr") if sign == ">>" else _WHOLES[sign]
    return Number(dtype, getattr(b, name)(p, q))


def _divided(b: ir.IRBuilder, sign: str, dtype: np.dtype, x: Any, y: Any) -> Any:
    """x // y or x % y of whole numbers, rounded down."""
    zero = ir.Constant(x.type, 0)
    if not isinstance(y, ir.Constant):
        none = b.icmp_unsigned("==", y, zero)
        y = b.select(none, ir.Constant(x.type, 1), y)
        x = b.select(none, zero, x)
    if dtype.kind == "u":
        return b.udiv(x, y) if sign == "//" else b.urem(x, y)
    rest = b.srem(x, y)
    opposite = b.icmp_signed("<", b.xor(rest, y), zero)
    off = b.and_(b.icmp_signed("!=", rest, zero), opposite)
    if sign == "%":
        return b.add(rest, b.select(off, y, zero))
    return b.sub(b.sdiv(x, y), b.zext(off, x.type))


def _remainder(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    """x % y of floats: of the sign of y."""
    zero = ir.Constant(x.type, 0)
    rest = b.frem(x, y)
    negative = b.xor(b.fcmp_ordered("<", rest, zero), b.fcmp_ordered("<", y, zero))
    there = b.fcmp_unordered("!=", rest, zero)
    return b.select(there, b.select(negative, b.fadd(rest, y), rest), call(b, "copysign", zero, y))


def _power(b: ir.IRBuilder, x: Value, y: Value, flags: tuple[str, ...]) -> Number:
    p = number(x)
    if isinstance(y, Constant) and type(y.value) is int and 0 < y.value < 64:
        square, count, result = p, y.value, None
        while count:
            if count & 1:
                result = square if result is None else number(binary(b, "*", result, square, flags))
            count >>= 1
            if count:
                square = number(binary(b, "*", square, square, flags))
        assert result is not None
        return result
    dtype = common(p.dtype, number(y).dtype)
    dtype = dtype if dtype.kind == "f" else FLOAT64
    return Number(dtype, call(b, "pow", cast(b, p, dtype).value, cast(b, y, dtype).value))


def compared(b: ir.IRBuilder, sign: str, x: Value, y: Value) -> Value:
    """x sign y; NaN only differs."""
    if (known := folded(sign, x, y)) is not None:
        return known
    dtype, p, q = _together(b, x, y)
    if dtype.kind == "f":
        return Number(BOOL, (b.fcmp_unordered if sign == "!=" else b.fcmp_ordered)(sign, p, q))
    return Number(BOOL, (b.icmp_signed if dtype.kind == "i" else b.icmp_unsigned)(sign, p, q))


def negative(b: ir.IRBuilder, value: Value) -> Value:
    """-x."""
    if isinstance(value, Constant) and type(value.value) in (int, float):
        return Constant(-value.value)
    x = number(value)
    if x.dtype.kind == "f":
        return Number(x.dtype, b.fneg(x.value))
    return binary(b, "-", Constant(0), x)


# -------------------- functions of numbers


def call(b: ir.IRBuilder, name: str, *values: Any) -> Any:
    """LLVM's own function of this name on numbers of one type."""
    kind = values[0].type
    function = b.module.declare_intrinsic(
        f"llvm.{name}", [kind], ir.FunctionType(kind, [kind] * len(values))
    )
    return b.call(function, values)


def library(b: ir.IRBuilder, name: str, result: ir.Type, *values: Any) -> Any:
    """A function of C's library."""
    kind = ir.FunctionType(result, [each.type for each in values])
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.call(function, values)


def _of_floats(emit: Callable[..., Any]) -> Callable[..., Number]:
    def function(b: ir.IRBuilder, *values: Value) -> Number:
        numbers = [number(value) for value in values]
        dtype = numbers[0].dtype
        for each in numbers[1:]:
            dtype = common(dtype, each.dtype)
        dtype = dtype if dtype.kind == "f" else FLOAT64
        found = emit(b, *[cast(b, each, dtype).value for each in numbers])
        return Number(BOOL if found.type == BIT else dtype, found)

    return function


def _intrinsic(name: str) -> Callable[..., Number]:
    return _of_floats(lambda b, *values: call(b, name, *values))


def _external(name: str) -> Callable[..., Number]:
    def emit(b: ir.IRBuilder, *values: Any) -> Any:
        kind = values[0].type
        return library(b, name + ("f" if kind == ir.FloatType() else ""), kind, *values)

    return _of_floats(emit)


def _fabs(b: ir.IRBuilder, x: Any) -> Any:
    return call(b, "fabs", x)


def _infinity(x: Any) -> Any:
    return ir.Constant(x.type, math.inf)


def _whole(name: str) -> Callable[..., Number]:
    def function(b: ir.IRBuilder, value: Value) -> Number:
        return cast(b, _intrinsic(name)(b, value), INT64)

    return function


def _abs(b: ir.IRBuilder, value: Value) -> Value:
    if isinstance(value, Constant):
        return Constant(abs(value.value))
    x = number(value)
    if x.dtype.kind == "f":
        return Number(x.dtype, _fabs(b, x.value))
    below = compared(b, "<", x, Constant(0))
    turned = number(negative(b, x))
    return Number(
        turned.dtype, b.select(number(below).value, turned.value, cast(b, x, turned.dtype).value)
    )


def _extreme(sign: str) -> Callable[..., Value]:
    """Python's min and max: a later value only where it is beyond."""

    def function(b: ir.IRBuilder, first: Value, *rest: Value) -> Value:
        best = first
        for each in rest:
            if (known := folded(sign, each, best)) is not None:
                best = each if known.value else best
                continue
            dtype, x, y = _together(b, each, best)
            beyond = compared(b, sign, Number(dtype, x), Number(dtype, y))
            best = Number(dtype, b.select(number(beyond).value, x, y))
        return best

    return function


def _frexp(b: ir.IRBuilder, value: Value) -> Tuple:
    """(fraction, exponent): 0 of what is not finite."""
    x = cast(b, value, FLOAT64).value
    with b.goto_entry_block():
        cell = b.alloca(INT)
    fraction = library(b, "frexp", x.type, x, cell)
    finite = b.fcmp_ordered("<", _fabs(b, x), _infinity(x))
    exponent = b.select(finite, b.sext(b.load(cell), WORD), WORD(0))
    return Tuple((Number(FLOAT64, b.select(finite, fraction, x)), Number(INT64, exponent)))


def _ldexp(b: ir.IRBuilder, value: Value, exponent: Value) -> Number:
    x = cast(b, value, FLOAT64).value
    whole = cast(b, exponent, np.dtype(np.int32)).value
    return Number(FLOAT64, library(b, "ldexp", x.type, x, whole))


def _sign(b: ir.IRBuilder, x: Any) -> Any:
    zero, one = ir.Constant(x.type, 0), ir.Constant(x.type, 1)
    above = b.select(b.fcmp_ordered(">", x, zero), one, b.fadd(x, zero))  # -0 + 0 is 0
    return b.select(b.fcmp_ordered("<", x, zero), ir.Constant(x.type, -1), above)


_isnan = _of_floats(lambda b, x: b.fcmp_unordered("uno", x, x))
_isfinite = _of_floats(lambda b, x: b.fcmp_ordered("<", _fabs(b, x), _infinity(x)))

#: Functions of Python and NumPy that compiled functions may call.
FUNCTIONS: dict[Any, Callable[..., Value]] = {
    abs: _abs,
    min: _extreme("<"),
    max: _extreme(">"),
    math.floor: _whole("floor"),
    math.ceil: _whole("ceil"),
    math.frexp: _frexp,
    math.ldexp: _ldexp,
    math.isnan: _isnan,
    math.isinf: _of_floats(lambda b, x: b.fcmp_ordered("==", _fabs(b, x), _infinity(x))),
    math.isfinite: _isfinite,
    math.copysign: _intrinsic("copysign"),
    math.fabs: _intrinsic("fabs"),
    np.sqrt: _intrinsic("sqrt"),
    np.floor: _intrinsic("floor"),
    np.ceil: _intrinsic("ceil"),
    np.exp: _intrinsic("exp"),
    np.log: _intrinsic("log"),
    np.expm1: _external("expm1"),
    np.log1p: _external("log1p"),
    np.sign: _of_floats(_sign),
    np.isnan: _isnan,
    np.isfinite: _isfinite,
    **{
        getattr(math, name): _intrinsic(name)
        for name in ("exp", "log", "sqrt", "sin", "cos", "pow")
    },
    **{
        getattr(math, name): _external(name)
        for name in "log1p expm1 erf erfc sinh cosh tanh tan asin acos atan atan2 hypot".split()
    },
}
