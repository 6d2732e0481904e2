"""The elementwise generator: a scalar expression becomes a kernel.

The expression is Python source on names x, y, z (inputs in order), e.g. "x if x > 0 else expm1(x)".
Its number literals become constants of the compute type, so a float32 kernel contains no float64
arithmetic. The versions of the kernel: dispatch.py.
"""

from __future__ import annotations

import ast
import functools
import re
from typing import Any

import numpy as np

from ..compiler.decorators import applying, device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from .scalar_functions import functions

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

THREADS = 256
RUN_PART = ("run", "part")
NAMES = ("x", "y", "z", *(f"x{i}" for i in range(3, 32)))


class _Typed(ast.NodeTransformer):
    """Number literals -> T(literal)."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, (int, float, complex)) and not isinstance(node.value, bool):
            return ast.copy_location(ast.Call(ast.Name("T", ast.Load()), [node], []), node)
        return node


@functools.cache
def scalar_function(
    expression: str,
    inputs: tuple[np.dtype, ...],
    compute: np.dtype,
    output: np.dtype,
    stored: bool = True,
) -> Any:
    """A device function from stored elements of the inputs to a stored element of the output; or,
    with stored=False, from and to what their dtypes are computed in (16-bit floats: float32)."""
    T = codec(compute)[2]
    namespace = {**functions(T, output.itemsize == 2), "T": T, "types": types}
    if "special_" in expression:
        from .special_functions import special_functions  # long tables, which few kernels need

        namespace |= special_functions(expression, T)
    typed, widen = ast.unparse(_Typed().visit(ast.parse(expression, mode="eval"))), "T"
    if (
        output == np.bool_
        and compute == np.float64
        and sorted(d.kind for d in inputs) == ["i", "u"]
    ):
        compared = re.fullmatch(
            r"x (\S+) y", expression
        )  # int64 with uint64: float64, where they meet, has too few digits
        if compared:
            typed, widen = _mixed_comparison(compared[1], inputs[0].kind == "i"), ""
    lines = []
    for name, dtype in zip(NAMES, inputs, strict=False):
        namespace[f"load_{name}"] = codec(dtype)[0]
        convert = f"load_{name}({name})" if stored else name
        if dtype.kind == "c" and compute.kind != "c":
            convert += ".real"
        lines.append(f"    {name} = {widen}({convert})\n")
    namespace["store"], namespace["R"] = codec(output)[1:]
    arguments = ", ".join(NAMES[: len(inputs)])
    if output == np.bool_:
        result = f"types.uint8(1) if ({typed}) else types.uint8(0)"
    else:
        result = f"store(R({typed}))" if stored else f"R({typed})"
    source = f"def scalar({arguments}):\n{''.join(lines)}    return {result}\n"
    return device_function(compiled(source, "scalar", namespace))


def _mixed_comparison(operator: str, signed_first: bool) -> str:
    """x `operator` y for an int64 and a uint64: a negative number is below every unsigned one,
    others compare as such."""
    signed = "x" if signed_first else "y"
    as_unsigned = f"types.uint64({signed})"
    compared = (
        f"{as_unsigned} {operator} types.uint64(y)"
        if signed_first
        else f"types.uint64(x) {operator} {as_unsigned}"
    )
    if operator == "!=" or operator[0] == (
        "<" if signed_first else ">"
    ):  # what a negative number answers
        return f"{signed} < types.int64(0) or {compared}"
    return f"{signed} >= types.int64(0) and {compared}"


@functools.cache
def vector_kernel(function: Any, arrays: tuple[bool, ...], width: int, ahead: int = 1) -> Any:
    """`vector`, or `vector_ahead`: contiguous operands. A block has THREADS * width elements, a
    thread `ahead` times `width` neighbours, all of which are read before the first is computed.
    Of `vector`, the last elements, which fill no access, have a thread each (`with_tail`): of few
    elements one thread's loop over them took a third of the time.
    arrays[i]: operand i is an array (n,), else a scalar."""
    names, name = NAMES[: len(arrays)], "vector_ahead" if ahead > 1 else "vector"
    apart = THREADS // ahead * width
    loads, stores = "", ""
    for at, value in [("i", "v"), *[(f"i + {m * apart}", f"v{m}") for m in range(1, ahead)]]:
        loads += "".join(
            f"        {n}{value} = load_vector({n}, {at}, {width})\n"
            for n, array in zip(names, arrays, strict=True)
            if array
        )
        calls = []
        for k in range(width):
            operands = [
                f"{n}{value}[{k}]" if array else n for n, array in zip(names, arrays, strict=True)
            ]
            calls.append(f"function({', '.join(operands)})")
        results = ", ".join(calls)
        stores += f"        store_vector(out, {at}, ({results},))\n"
    one = ", ".join(f"{n}[j]" if array else n for n, array in zip(names, arrays, strict=True))
    value = f"function({one})"
    first, last = "cuda.grid(1)", "i"
    rest = [
        f"j = cuda.grid(1) + out.size // {width} * {width - 1}",  # see `with_tail`
        "if j < out.size:",
        f"    out[j] = {value}",
    ]
    if ahead > 1:
        first, last = (
            f"(cuda.blockIdx.x * {THREADS} + cuda.threadIdx.x)",
            f"i + {apart * (ahead - 1)}",
        )
        rest = [
            f"for m in range(i, out.size, {apart}):",
            f"    for j in range(m, min(m + {width}, out.size)):",
            f"        out[j] = {value}",
        ]
    tail = "".join(f"        {line}\n" for line in rest)
    source = (
        f"def {name}({', '.join(names)}{', ' if names else ''}out):\n"
        f"    i = {first} * {width}\n    if {last} + {width} <= out.size:\n{loads}{stores}"
        f"    else:\n{tail}"
    )
    namespace = {
        "cuda": cuda,
        "load_vector": load_vector,
        "store_vector": store_vector,
        "function": function,
    }
    return applying(function)(compiled(source, name, namespace))


@functools.cache
def rows_kernel(function: Any, kinds: tuple[str, ...], ndim: int, width: int, wide: bool) -> Any:
    """`rows`: `width` neighbours per thread. kinds[i]: "run" (contiguous inside a row), "one" (one
    value per row) or "value".

    Arguments: the arrays (as the one-dimensional memory behind them), the element strides of each
    array along the outer dimensions, the sizes of the dimensions (the innermost in accesses), the
    number of accesses.
    """
    names = NAMES[: len(kinds)]
    arrays = [n for n, kind in zip(names, kinds, strict=True) if kind != "value"]
    outer = range(ndim - 1)
    integer = "types.int64" if wide else "types.uint32"
    parameters = [
        *names,
        "out",
        *[f"{n}_{d}" for n in [*arrays, "out"] for d in outer],
        *[f"size{d}" for d in range(ndim)],
    ]
    lines = [f"        rest = {integer}(n)\n"]
    for d in range(ndim - 1, 0, -1):
        lines.append(
            f"        next = rest // {integer}(size{d})\n"
            f"        i{d} = types.int64(rest - next * {integer}(size{d}))\n        rest = next\n"
        )
    lines.append("        i0 = types.int64(rest)\n")
    for n, kind in zip([*names, "out"], [*kinds, "run"], strict=True):
        if kind != "value":
            terms = [f"i{d} * {n}_{d}" for d in outer] + (
                [f"i{ndim - 1} * {width}"] if kind == "run" else []
            )
            lines.append(f"        at_{n} = {' + '.join(terms) or '0'}\n")
            if kind == "run" and n != "out":
                lines.append(f"        {n}v = load_vector({n}, at_{n}, {width})\n")
            elif kind == "one":
                lines.append(f"        {n}v = {n}[at_{n}]\n")

    def element(n: str, kind: str, k: int) -> str:
        return {"run": f"{n}v[{k}]", "one": f"{n}v", "value": n}[kind]

    results = ", ".join(
        f"function({', '.join(element(n, kind, k) for n, kind in zip(names, kinds, strict=True))})"
        for k in range(width)
    )
    source = (
        f"def rows({', '.join(parameters)}, count):\n    n = cuda.grid(1)\n    if n < "
        f"count:\n{''.join(lines)}"
        f"        store_vector(out, at_out, ({results},))\n"
    )
    namespace = {
        "cuda": cuda,
        "types": types,
        "load_vector": load_vector,
        "store_vector": store_vector,
        "function": function,
    }
    return applying(function)(compiled(source, "rows", namespace))


@functools.cache
def broadcast_kernel(
    function: Any, kinds: tuple[str, ...], ndim: int, width: int, wide: bool
) -> Any:
    """`broadcast`: `width` neighbours of a dense result per thread. kinds[i]: "run" (dense like the
    result), "part" (broadcast) or "value". The last elements, which fill no access, have a thread
    each (`with_tail`). `wide`: 64-bit element numbers.

    Arguments: the arrays (as the one-dimensional memory behind them), the element strides of each
    "part" along all dimensions, the sizes of the dimensions but for the first.
    """
    names = NAMES[: len(kinds)]
    runs, parts = ([n for n, k in zip(names, kinds, strict=True) if k == kind] for kind in RUN_PART)
    integer = "types.uint64" if wide else "types.uint32"
    inner = range(ndim - 1, 0, -1)
    strides = [f"{n}_{d}" for n in parts for d in range(ndim)]
    sizes = [f"size{d}" for d in range(1, ndim)]

    def place(number: str) -> list[str]:
        """Where element `number` is along each dimension and in each part."""
        lines = [f"rest = {integer}({number})"]
        for d in inner:
            lines += [
                f"next = rest // size{d}",
                f"i{d} = {integer}(rest - next * size{d})",
                "rest = next",
            ]
        terms = {n: " + ".join(f"i{d} * {n}_{d}" for d in range(ndim)) for n in parts}
        return [*lines, "i0 = rest", *[f"at_{n} = {integer}({terms[n]})" for n in parts]]

    def following() -> list[str]:
        """The place of the next element; modulo the integers' range, so that steps back add too."""
        lines = [f"i{ndim - 1} = {integer}(i{ndim - 1} + {integer}(1))"]
        lines += [f"at_{n} = {integer}(at_{n} + {n}_{ndim - 1})" for n in parts]
        for d in inner:
            lines += [f"over = i{d} == size{d}", f"i{d} = {integer}(0) if over else i{d}"]
            lines += [
                f"at_{n} = {integer}(at_{n} + {n}_back{d}) if over else at_{n}" for n in parts
            ]
            lines += [f"i{d - 1} = {integer}(i{d - 1} + {integer}(over))"] * (d > 1)
        return lines

    def result(run: str) -> str:
        one = {"run": f"{{n}}{run}", "part": "{n}[at_{n}]", "value": "{n}"}
        operands = [one[kind].format(n=n) for n, kind in zip(names, kinds, strict=True)]
        return f"function({', '.join(operands)})"

    body = [f"{name} = {integer}({name})" for name in [*strides, *sizes]]
    body += [
        f"{n}_back{d} = {integer}({n}_{d - 1} - size{d} * {n}_{d})" for n in parts for d in inner
    ]
    body += [f"{n}v = load_vector({n}, n, {width})" for n in runs] + place("n")
    for k in range(width):
        body += [*(following() if k else []), f"r{k} = {result(f'v[{k}]')}"]
    body.append(f"store_vector(out, n, ({', '.join(f'r{k}' for k in range(width))},))")
    tail = [f"{name} = {integer}({name})" for name in [*strides, *sizes]]
    tail += [*place("j"), f"out[j] = {result('[j]')}"]
    source = (
        f"def broadcast({', '.join([*names, 'out', *strides, *sizes])}):\n"
        f"    n = cuda.grid(1) * {width}\n"
        f"    if n + {width} <= out.size:\n"
        + "".join(f"        {line}\n" for line in body)
        + "    else:\n"
        f"        j = cuda.grid(1) + out.size // {width} * {width - 1}  # see `with_tail`\n"
        "        if j < out.size:\n" + "".join(f"            {line}\n" for line in tail)
    )
    namespace = {
        "cuda": cuda,
        "types": types,
        "load_vector": load_vector,
        "store_vector": store_vector,
        "function": function,
    }
    return applying(function)(compiled(source, "broadcast", namespace))


@functools.cache
def plain_kernel(
    function: Any,
    arrays: tuple[bool, ...],
    ndim: int,
    wide: bool,
    items: int,
    long: bool,
    apart: bool = False,
) -> Any:
    """`plain`: operands of `ndim` dimensions with any strides, `items` elements per thread, a
    block's width apart, all read before the first is written; `wide`: 64-bit element numbers;
    `long`: no row is shorter than a block is wide; `apart`: the elements of a thread differ in the
    first dimension alone, an `items`-th of it apart (`count` is of threads)."""
    names = NAMES[: len(arrays)]
    integer = "types.int64" if wide else "types.uint32"

    def place(number: str, k: Any) -> list[str]:
        lines = [f"rest = {integer}({number})"]
        for d in range(ndim - 1, 0, -1):
            lines += [
                f"size = {integer}(out.shape[{d}])",
                "next = rest // size",
                f"i{d}_{k} = rest - next * size",
                "rest = next",
            ]
        return [*lines, f"i0_{k} = rest"]

    def following(k: int) -> list[str]:
        """The place a block's width behind that of element k - 1: in the same row or the next."""
        lines = [f"i{ndim - 1}_{k} = {integer}(i{ndim - 1}_{k - 1} + {integer}({THREADS}))"]
        for d in range(ndim - 1, 0, -1):
            lines += [
                f"size = {integer}(out.shape[{d}])",
                f"over = i{d}_{k} >= size",
                f"i{d}_{k} = {integer}(i{d}_{k} - size) if over else i{d}_{k}",
                f"i{d - 1}_{k} = {integer}(i{d - 1}_{k - 1} + {integer}(over))",
            ]
        return lines

    def at(k: Any) -> str:
        return ", ".join(f"i{d}_{k}" for d in range(ndim))

    def result(k: Any) -> str:
        operands = [f"{n}[{at(k)}]" if array else n for n, array in zip(names, arrays, strict=True)]
        return f"function({', '.join(operands)})"

    def further(k: int) -> list[str]:
        """The place an `items`-th of the first dimension behind that of element k - 1."""
        return [
            f"i0_{k} = {integer}(i0_{k - 1} + step)",
            *[f"i{d}_{k} = i{d}_0" for d in range(1, ndim)],
        ]

    each, each_block = (
        (further, THREADS) if apart else (following if long else None, items * THREADS)
    )
    body = [f"step = {integer}(out.shape[0] // {items})"] * apart
    body += [
        line
        for k in range(items)
        for line in (
            *(each(k) if each and k else place(f"n + {k * THREADS}", k)),
            f"r{k} = {result(k)}",
        )
    ]
    body += [f"out[{at(k)}] = r{k}" for k in range(items)]
    last = 0 if apart else (items - 1) * THREADS
    source = (
        f"def plain({', '.join(names)}{', ' if names else ''}out, count):\n"
        f"    n = cuda.blockIdx.x * {each_block} + cuda.threadIdx.x\n"
        f"    if n + {last} < count:\n" + "".join(f"        {line}\n" for line in body)
    )
    if items > 1 and not apart:
        rest = [*place("m", "m"), f"out[{at('m')}] = {result('m')}"]
        source += f"    else:\n        for m in range(n, count, {THREADS}):\n" + "".join(
            f"            {line}\n" for line in rest
        )
    return applying(function)(
        compiled(source, "plain", {"cuda": cuda, "types": types, "function": function})
    )
