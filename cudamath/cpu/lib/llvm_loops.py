"""Elementwise arithmetic of large arrays on the CPU, compiled.

NumPy's loops are as fast as memory; what is saved is around them: most of the time that finding and
calling such a loop takes, and the look at the floating-point flags. The results are NumPy's bit for
bit: each is one rounded operation.

Every second call goes through the arrays from their last piece to the first one. Where they do not
all fit into the cache next to a core, it holds the end of what the call before has read and
written: a call that began at the beginning would find nothing of it there, and drive out the end
before it came to it. Measured where `a + b` is called again and again, 10^5 float32, 1 MiB of cache
for 1.2 of arrays: 11.4 us, from the beginning always 12.7.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from .llvm_functions import SIGNATURE, WORD, argument, data, native, return_none, size, without_lock

PIECE = (
    1 << 14
    # numbers; within a piece the loop goes forward, as the compiler's vectors and the caches'
    # guesses like it
)

Emit = Callable[..., Any]  # (builder, *values) -> value; a bit where the result is bool
_names = itertools.count()


def _call(name: str) -> Emit:
    """One of LLVM's own functions."""

    def emit(b: ir.IRBuilder, *values: Any) -> Any:
        kind = values[0].type
        return b.call(
            b.module.declare_intrinsic(
                f"llvm.{name}", [kind], ir.FunctionType(kind, [kind] * len(values))
            ),
            values,
        )

    return emit


_fabs, _one = _call("fabs"), lambda x: ir.Constant(x.type, 1)


def _compare(sign: str) -> dict[str, Emit]:
    return {
        "f": lambda b, x, y: (b.fcmp_unordered if sign == "!=" else b.fcmp_ordered)(sign, x, y),
        "i": lambda b, x, y: b.icmp_signed(sign, x, y),
        "ub": lambda b, x, y: b.icmp_unsigned(sign, x, y),
    }


def _extreme(sign: str) -> dict[str, Emit]:
    """NaN if either is; of two zeros the second, as x86's instructions have it."""
    compare = _compare(sign)
    return {
        "f": lambda b, x, y: b.select(
            b.or_(compare["f"](b, x, y), b.fcmp_unordered("uno", x, x)), x, y
        ),
        **{
            kind: lambda b, x, y, c=c: b.select(c(b, x, y), x, y)
            for kind, c in compare.items()
            if kind != "f"
        },
    }


def _bits(name: str) -> Emit:
    return lambda b, x, y: getattr(b, name)(x, y)


def _of_floats(test: Callable[[ir.IRBuilder, Any, Any], Any]) -> dict[str, Emit]:
    """A test of |x| and infinity."""
    return {"f": lambda b, x: test(b, _fabs(b, x), ir.Constant(x.type, math.inf))}


#: name of the ufunc's card -> kinds of NumPy's dtypes -> operation.
OPERATIONS: dict[str, dict[str, Emit]] = {
    "add": {"f": _bits("fadd"), "iu": _bits("add"), "b": _bits("or_")},
    "subtract": {"f": _bits("fsub"), "iu": _bits("sub")},
    "multiply": {"f": _bits("fmul"), "iu": _bits("mul"), "b": _bits("and_")},
    "divide": {"f": _bits("fdiv")},
    "equal": _compare("=="),
    "not_equal": _compare("!="),
    "less": _compare("<"),
    "less_equal": _compare("<="),
    "greater": _compare(">"),
    "greater_equal": _compare(">="),
    "maximum": _extreme(">"),
    "minimum": _extreme("<"),
    "bitwise_and": {"iub": _bits("and_")},
    "bitwise_or": {"iub": _bits("or_")},
    "bitwise_xor": {"iub": _bits("xor")},
    "logical_and": {"b": _bits("and_")},
    "logical_or": {"b": _bits("or_")},
    "logical_xor": {"b": _bits("xor")},
    "bitwise_invert": {"iu": lambda b, x: b.not_(x), "b": lambda b, x: b.xor(x, _one(x))},
    "logical_not": {"b": lambda b, x: b.xor(x, _one(x))},
    "copysign": {"f": _call("copysign")},
    "abs": {
        "f": _fabs,
        "i": lambda b, x: b.select(b.icmp_signed("<", x, ir.Constant(x.type, 0)), b.neg(x), x),
    },
    "negative": {"f": lambda b, x: b.fneg(x), "iu": lambda b, x: b.neg(x)},
    "positive": {"fiu": lambda _, x: x},
    "square": {"f": lambda b, x: b.fmul(x, x), "iu": lambda b, x: b.mul(x, x)},
    "reciprocal": {"f": lambda b, x: b.fdiv(_one(x), x)},
    "sqrt": {"f": _call("sqrt")},
    "floor": {"f": _call("floor")},
    "ceil": {"f": _call("ceil")},
    "trunc": {"f": _call("trunc")},
    "rint": {"f": _call("rint")},
    "isnan": {"f": lambda b, x: b.fcmp_unordered("uno", x, x)},
    "isinf": _of_floats(lambda b, x, infinity: b.fcmp_ordered("==", x, infinity)),
    "isfinite": _of_floats(lambda b, x, infinity: b.fcmp_ordered("<", x, infinity)),
}


def operation(name: str, dtype: np.dtype) -> Emit | None:
    """How an element of the result is computed from elements of this dtype; None: not here."""
    if dtype not in _TYPES:
        return None
    return next(
        (emit for kinds, emit in OPERATIONS.get(name, {}).items() if dtype.kind in kinds), None
    )


def conversion(source: np.dtype, target: np.dtype) -> Emit:
    """How a number becomes one of another dtype, as in C; not a float an integer, which C defines
    only where it fits."""
    kind, before, after = _TYPES[target], source.kind, target.kind
    narrower = target.itemsize < source.itemsize
    assert (before, after) not in (("f", "i"), ("f", "u"))
    if source == target:
        return lambda _, x: x
    if after == "b":
        return lambda b, x: (b.fcmp_unordered if before == "f" else b.icmp_unsigned)(
            "!=", x, ir.Constant(x.type, 0)
        )
    name = (
        ("fptrunc" if narrower else "fpext")
        if before == "f"
        else ("sitofp" if before == "i" else "uitofp")
        if after == "f"
        else "trunc"
        if narrower
        else "sext"
        if before == "i"
        else "zext"
    )
    return lambda b, x: x if x.type == kind else getattr(b, name)(x, kind)


_TYPES = {np.dtype(kind): ir.IntType(8 * np.dtype(kind).itemsize) for kind in "bhilBHIL?"} | {
    np.dtype("f"): ir.FloatType(),
    np.dtype("d"): ir.DoubleType(),
}


@functools.cache
def loop(
    name: str, dtype: np.dtype, scalars: tuple[bool, ...], target: np.dtype | None = None
) -> Callable[..., None]:
    """function(*operands, out): arrays of one shape, in C order; 0-d where `scalars` says so.
    dtype: the operands'; out: the same, bool where the operation is a test, or `target` of a
    conversion."""
    emit = operation(name, dtype) if target is None else conversion(dtype, target)
    module, label = ir.Module(), f"{name}_{next(_names)}"
    assert emit is not None
    kind = _TYPES[dtype]
    function = ir.Function(module, SIGNATURE, label)
    function.attributes.add("nounwind")
    b = ir.IRBuilder(function.append_basic_block())
    inside, result = _piece(module, emit, kind, scalars)
    arrays = [argument(b, k) for k in range(len(scalars) + 1)]
    pointers = [
        data(b, array, each)
        for array, each in zip(arrays, [kind] * len(scalars) + [result], strict=True)
    ]
    n = size(b, arrays[-1])
    way = ir.GlobalVariable(
        module, ir.IntType(1), "way"
    )  # of the next call; if threads mix them up, no result changes
    way.initializer, way.linkage = ir.Constant(ir.IntType(1), 0), "internal"
    back = b.load(way)
    b.store(b.not_(back), way)
    last = b.and_(b.sub(n, WORD(1)), WORD(-PIECE))
    with without_lock(b):
        before, turn, after = b.block, function.append_basic_block(), function.append_basic_block()
        b.cbranch(b.icmp_signed(">", n, WORD(0)), turn, after)
        b.position_at_end(turn)
        done = b.phi(WORD)
        start = b.select(back, b.sub(last, done), done)
        rest = b.sub(n, start)
        count = b.select(b.icmp_signed("<", rest, WORD(PIECE)), rest, WORD(PIECE))
        b.call(
            inside,
            [
                p if s else b.gep(p, [start])
                for p, s in zip(pointers, (*scalars, False), strict=True)
            ]
            + [count],
        )
        following = b.add(done, WORD(PIECE))
        done.add_incoming(WORD(0), before)
        done.add_incoming(following, turn)
        b.cbranch(b.icmp_signed("<", following, n), turn, after)
        b.position_at_end(after)
    return_none(b)
    return native(module, label)


def _piece(
    module: ir.Module, emit: Emit, kind: ir.Type, scalars: tuple[bool, ...]
) -> tuple[ir.Function, ir.Type]:
    """piece(*operands, out, n): the loop over n > 0 elements, and the type of the result's
    elements: a byte for a bit."""
    trial = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [kind] * len(scalars)), "trial")
    kind_of_value = emit(ir.IRBuilder(trial.append_basic_block()), *trial.args).type
    result = ir.IntType(8) if kind_of_value == ir.IntType(1) else kind_of_value
    parameters = [*[kind.as_pointer()] * len(scalars), result.as_pointer(), WORD]
    piece = ir.Function(module, ir.FunctionType(ir.VoidType(), parameters), "piece")
    piece.linkage = "internal"
    for pointer in piece.args[:-1]:  # what is written is not an operand
        pointer.add_attribute("noalias")
    *operands, out, n = piece.args
    b = ir.IRBuilder(piece.append_basic_block())
    fixed = [b.load(p) if s else None for p, s in zip(operands, scalars, strict=True)]
    before, turn, after = b.block, piece.append_basic_block(), piece.append_basic_block()
    b.branch(turn)
    b.position_at_end(turn)
    i = b.phi(WORD)
    values = [
        b.load(b.gep(p, [i])) if constant is None else constant
        for p, constant in zip(operands, fixed, strict=True)
    ]
    value = emit(b, *values)
    b.store(value if kind_of_value == result else b.zext(value, result), b.gep(out, [i]))
    following = b.add(i, WORD(1))
    i.add_incoming(WORD(0), before)
    i.add_incoming(following, turn)
    b.cbranch(b.icmp_signed("<", following, n), turn, after)
    b.position_at_end(after)
    b.ret_void()
    return piece, result
