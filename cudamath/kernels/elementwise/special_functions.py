"""Special functions in kernels: the scalar functions of core/specs/special as device functions.

In an expression they have the prefix `special_`. They compute in float64, also for float32 and
16-bit numbers: in float32 their recurrences and differences would lose what SciPy's results have.
Some have a shorter form for these (core/specs/special/narrow.py), which the functions that call
them have too; powers are exponentials of logarithms, and all sums end earlier (library.SHORT).

A loop over a tuple of coefficients would choose each by a switch of as many branches (the Chebyshev
series of i1e took three times CuPy's time). So series of constants are written out (`straight`).
Long functions that would be in a kernel several times are not inlined (`_several`).
What a product loses when it is rounded takes one instruction here (`_OWN`).
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import math
import re
import textwrap
from collections.abc import Callable
from fractions import Fraction
from itertools import zip_longest
from types import FunctionType
from typing import Any

import numpy as np

from ...core.specs.special.error_functions import square_rest
from ...core.specs.special.library import SHORT, copied, narrow, scalar, short_form
from ...core.specs.special.narrow import short_power
from ...core.specs.special.pairs import two_product
from ...core.specs.special.powers import exp2, exp10, inverse_root
from ...core.specs.special.waves import cos_and_sin
from ..compiler.decorators import device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, dtype_of, libdevice, types

if not SIMULATOR:
    from ..compiler.decorators import not_inlined


class _Math:
    """Python's math for the simulator: where that raises, what a device returns."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(math, name)
        if not callable(function):
            return function

        def simulated(*numbers: Any) -> Any:
            try:
                found = function(*numbers)
                return found if isinstance(found, tuple) else np.float64(found)
            except (OverflowError, ValueError):
                with np.errstate(all="ignore"):
                    return getattr(np, name)(*numbers)

        return simulated


def _horner(coefficients: tuple[float, ...]) -> list[str]:
    first, *rest = coefficients
    return [f"    y = {first!r}", *[f"    y = y * x + {c!r}" for c in rest], "    return y"]


def _chebyshev(coefficients: tuple[float, ...]) -> list[str]:
    """As a power series: a multiplication and addition for each term, where Clenshaw's recurrence
    takes two. Its errors are no larger: these series fall off so fast that the first powers have
    all the digits. Its coefficients are exact before they are rounded."""
    half = Fraction(1, 2)
    before, now = [Fraction(1)], [Fraction(0), half]  # T_k(x / 2) by powers of x
    first, *others = reversed(coefficients)
    powers = [half * Fraction(first), *[Fraction(0)] * len(others)]
    for c in others:
        powers = [p + Fraction(c) * t for p, t in zip_longest(powers, now, fillvalue=Fraction(0))]
        following = zip_longest([Fraction(0), *now], before, fillvalue=Fraction(0))
        before, now = now, [up - down for up, down in following]
    return _horner(tuple(map(float, reversed(powers))))


_SERIES: dict[str, Callable[[tuple[float, ...]], list[str]]] = {
    "horner": _horner,
    "chebyshev": _chebyshev,
}


class _Straight(ast.NodeTransformer):
    """Calls `horner(x, TABLE)` become calls of functions that have the table's numbers in them;
    short: powers become calls of `short_power`."""

    def __init__(self, names: dict[str, Any], short: bool):
        self.names = names
        self.short = short

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not (self.short and isinstance(node.op, ast.Pow)):
            return node
        self.names["short_power"] = short_power
        return ast.Call(ast.Name("short_power", ast.Load()), [node.left, node.right], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id in _SERIES):
            return node
        x, table = node.args
        assert isinstance(table, ast.Name), f"{node.func.id}: wants a table by its name"
        name = f"{node.func.id}_{table.id}"
        lines = [f"def {name}(x):", *_SERIES[node.func.id](self.names[table.id]), ""]
        self.names[name] = compiled("\n".join(lines), name, {"__name__": self.names["__name__"]})
        return ast.Call(ast.Name(name, ast.Load()), [x], [])


@functools.cache
def straight(function: Any, short: bool = False) -> Any:
    """The function, series of constants written out; short: in the form for results in float32,
    with its powers."""
    function = short_form(function) if short else function
    has_powers = short and function is not short_power and _raises(function)
    if not (has_powers or set(_SERIES) & set(function.__code__.co_names)):
        return function
    names = dict(function.__globals__)
    tree = _Straight(names, has_powers)
    tree = tree.visit(ast.parse(textwrap.dedent(inspect.getsource(function))))
    return compiled(ast.unparse(tree), function.__name__, names)


def _raises(function: Any) -> bool:
    """Whether there are powers in its code."""
    return any(i.argrepr == "**" for i in dis.get_instructions(function))


@device_function
def _fused_two_product(a, b):
    """pairs.two_product: a fused multiplication and addition rounds once."""
    p = a * b
    return p, cuda.fma(a, b, -p)


@device_function
def _fused_square_rest(x, square):
    """error_functions.square_rest."""
    return cuda.fma(x, x, -square)


@device_function
def _short_exp10(x):
    """powers.exp10: a power of a constant takes a third of a power's time."""
    return libdevice.exp10(x)


@device_function
def _short_exp2(x):
    """powers.exp2, as well."""
    return libdevice.exp2(x)


@device_function
def _together(x):
    """waves.cos_and_sin."""
    sin, cos = libdevice.sincos(x)
    return cos, sin


@device_function
def _own_inverse_root(x):
    """powers.inverse_root."""
    return libdevice.rsqrt(x)


#: Device functions in the place of scalar ones, where a GPU has better than Python.
_OWN = {
    two_product: _fused_two_product,
    square_rest: _fused_square_rest,
    exp2: _short_exp2,
    exp10: _short_exp10,
    cos_and_sin: _together,
    inverse_root: _own_inverse_root,
}
#: The same, for results in float32, whose cosines and sines are shorter ones.
_OWN_SHORT = {each: own for each, own in _OWN.items() if each is not cos_and_sin}


def _own(function: Callable, short: bool) -> Any:
    return (_OWN_SHORT if short else _OWN).get(function)


#: Instructions of Python's from which on a function is long, and a kernel takes long to compile.
LONG, VERY_LONG = 150, 5000


def _callees(function: Callable, short: bool) -> list[Callable]:
    """The scalar functions that it calls, each as often as it stands there."""
    if _own(function, short):
        return []
    written = straight(function, short)
    names = written.__globals__
    loads = (i.argval for i in dis.get_instructions(written) if i.opname == "LOAD_GLOBAL")
    return [names[n] for n in loads if isinstance(names.get(n), FunctionType)]


@functools.cache
def _length(function: Callable, short: bool) -> int:
    """Python's instructions of a function and of all that it calls."""
    own = 0 if _own(function, short) else len(straight(function, short).__code__.co_code) // 2
    return own + sum(_length(each, short) for each in _callees(function, short))


@functools.cache
def _reached(function: Callable, short: bool) -> frozenset[Callable]:
    """A function and all that it calls."""
    return frozenset([function]).union(*[_reached(f, short) for f in _callees(function, short)])


@functools.cache
def _several(root: Callable, short: bool) -> frozenset[Callable]:
    """The long functions that would be in a very long kernel more than once, if all were
    inlined."""
    if _length(root, short) < VERY_LONG:
        return frozenset()
    order: list[Callable] = []  # a function after all that it calls

    def visit(function: Callable) -> None:
        if function not in order:
            for each in _callees(function, short):
                visit(each)
            order.append(function)

    visit(root)
    copies, apart = dict.fromkeys(order, 0), set()
    copies[root] = 1
    for function in reversed(order):
        if copies[function] > 1 and _length(function, short) >= LONG:
            apart.add(function)
            copies[function] = 1
        for each in _callees(function, short):
            copies[each] += copies[function]
    return frozenset(apart)


@functools.cache
def _device(
    function: Callable, short: bool = False, apart: frozenset[Callable] = frozenset()
) -> Any:
    """short: for results in float32, sums end earlier. apart: functions that are not inlined."""
    if not SIMULATOR and (own := _own(function, short)):
        return own
    # not forced to be inlined, as other device functions are: so many copies of the gamma function,
    # which others call several times, would take the compiler a minute
    made = cuda.jit(device=True)(
        copied(
            straight(function, short),
            # of the set what it calls: so kernels share what they have in common
            lambda each: _device(each, short, apart & _reached(each, short)),
            _Math() if SIMULATOR else None,
            SHORT if short else {},
        )
    )
    if function not in apart or SIMULATOR:
        return made
    names = ", ".join(f"x{i}" for i in range(function.__code__.co_argcount))
    name = function.__name__
    source = f"def {name}({names}):\n    not_inlined()\n    return made({names})\n"
    namespace = {"not_inlined": not_inlined, "made": made, "__name__": function.__module__}
    return cuda.jit(device=True)(compiled(source, name, namespace))


@functools.cache
def special_functions(expression: str, T: Any) -> dict[str, Any]:
    """The special functions that an expression on compute type T calls, by their names there. Those
    of complex numbers take and return real parts."""
    if dtype_of(T).kind == "c":
        T = T.underlying_float
    found = {}
    for name in re.findall(r"\bspecial_(\w+)", expression):
        short = dtype_of(T) != np.float64
        function = (narrow if short else scalar)(name)
        names = [f"x{i}" for i in range(function.__code__.co_argcount)]
        wide = ", ".join(f"types.float64({n})" for n in names)
        source = f"def special_{name}({', '.join(names)}):\n    return T(function({wide}))\n"
        made = _device(function, short, _several(function, short))
        namespace = {"T": T, "types": types, "function": made}
        found[f"special_{name}"] = device_function(compiled(source, f"special_{name}", namespace))
    return found
