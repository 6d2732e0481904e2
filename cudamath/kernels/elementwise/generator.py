"""The elementwise generator: a scalar expression becomes a kernel.

An elementwise op reads each input once and writes its output once; it does a few operations on the
way. Its floor is (bytes in + bytes out) / bandwidth, so all that matters is how memory is touched:

1. `plain`: one thread per element, or four or eight of them, any strides. In the dimensions that
   are left after merging (`shapes.collapse`), an element's number is taken apart by 32-bit
   divisions. Four elements' divisions take longer than their loads, so where rows are not short the
   next element's place follows from the last one's by additions; of four dimensions and more a
   thread's elements differ in the first one alone.
2. `rows`: the innermost runs are contiguous (or one value repeated) in every array: a bias, a slice
   of columns, one value a row. A thread still moves 16 bytes; the division finds its row.
3. `tiled`, `tiled_vector` (lib/transpose_tiles.py): some arrays lie across the result, as in a +
   b.T: squares through shared memory.
4. `vector`: all arrays dense in one order. A thread moves 16 bytes of the widest array (PTX
   `ld.v4`), as many elements of the others: an eighth to a quarter of the load instructions, more
   bytes in flight. Two accesses of the widest would be half sectors each, which costs up to a
   twentieth.
5. `vector_ahead`: the same, a block of half the threads, each of which reads two accesses before it
   computes the first. Of a 16-bit operand one access is eight elements, and eight functions take as
   long as memory does: while the first eight are computed the others are under way. On an H200 the
   root of 2^27 bfloat16 takes 132.7 us instead of 149, a copy 128.6. An exponential, which is
   short, takes 129.0 instead of 128.3: such functions are left to `vector`, as are small arrays
   (log1p of 1 MB takes 2.4 instead of 2.0).

The expression is Python source on names x, y, z (inputs in order), e.g. "x if x > 0 else expm1(x)".
Its number literals become constants of the compute type, so a float32 kernel contains no float64
arithmetic.

Measured (row versions_elementwise):
a + b, 2^26, float32; NVIDIA H200, commit bc3687d1d531, 2026-11-23

                 GB/s     of a copy
    plain       4,326          1.02
    rows        4,317          1.02
    vector      4,316          1.01

(end of what was measured)

Measured (row versions_elementwise_bfloat16):
gelu of 2^27, bfloat16; NVIDIA H200, commit bc3687d1d531, 2026-11-23

                       GB/s     of a copy
    plain             3,084          0.73
    vector            3,876          0.91
    vector_ahead      4,151          0.98

(end of what was measured)
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...core import shapes, tracing
from ...core.devices import TRACED
from ...core.dispatch.arguments import ArrayArg, Flag, Input, Output, Scalar, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import COMPLEX, compute_dtype
from ...core.layout import Layout
from ...runtime import kernel_errors
from ..compiler.decorators import device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.transpose_tiles import Operand, tiled
from .scalar_functions import functions

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

THREADS = 256
ACCESS = 16  # bytes a thread moves at a time
AHEAD = 2  # accesses that a thread of `vector_ahead` has under way, ..
LONG = (
    1 << 22
    # .. of so many elements on: twice as many as the threads that a large device holds have in one
    # access each
)
#: Functions of a few instructions, which memory hides anyway; so are those without a call, unless
#: they divide.
SHORT = {
    "abs",
    "ceil",
    "copysign",
    "exp",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "maximum",
    "minimum",
    "round_even",
    "sigmoid",
    "sign",
    "signbit",
    "trunc",
}
IN_FLIGHT = (
    4  # elements a thread of `plain` reads before it writes, twice as many of one operand ..
)
MANY = 1 << 20  # .. where there are so many that all multiprocessors are full anyway
# dimensions from which on a thread's elements share all but the first place: one set of divisions
# for all of them
APART = 4
NAMES = ("x", "y", "z", *(f"x{i}" for i in range(3, 32)))

kernel_errors.failures["average"], kernel_errors.exceptions["average"] = (
    "weights add up to 0",
    ZeroDivisionError,
)


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
    namespace = dict(functions(T, output.itemsize == 2)) | {"T": T, "types": types}
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
    first, last, rest = "cuda.grid(1)", "i", ["for j in range(i, out.size):"]
    if ahead > 1:
        first, last = (
            f"(cuda.blockIdx.x * {THREADS} + cuda.threadIdx.x)",
            f"i + {apart * (ahead - 1)}",
        )
        rest = [
            f"for m in range(i, out.size, {apart}):",
            f"for j in range(m, min(m + {width}, out.size)):",
        ]
    tail = "".join(
        f"{'    ' * (2 + depth)}{line}\n"
        for depth, line in enumerate([*rest, f"out[j] = function({one})"])
    )
    source = (
        f"def {name}({', '.join(names)}{', ' if names else ''}out):\n"
        f"    i = {first} * {width}\n"
        f"    if {last} + {width} <= out.size:\n{loads}{stores}"
        f"    else:\n{tail}"
    )
    namespace = {
        "cuda": cuda,
        "load_vector": load_vector,
        "store_vector": store_vector,
        "function": function,
    }
    return cuda.jit(compiled(source, name, namespace))


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
    return cuda.jit(compiled(source, "rows", namespace))


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
    return cuda.jit(compiled(source, "plain", {"cuda": cuda, "types": types, "function": function}))


def result_layout(layouts: Sequence[Layout], shape: tuple[int, ...], dtype: np.dtype) -> Layout:
    """The layout of a new result: in the order of the operands where all that have its shape lie in
    one dense order (as in NumPy: what is made of channels-last images is channels-last), else C
    order."""
    full = [x for x in layouts if x.shape == shape]
    first = full[0] if full else layouts[0]
    if (
        first.contiguous
        or not full
        or any(
            x.strides != tuple([s // first.itemsize * x.itemsize for s in first.strides])
            for x in full
        )
    ):
        return first.like(shape, dtype)
    order = shapes.axes_by_stride(first.strides)
    if not shapes.is_contiguous(
        tuple([shape[i] for i in order]), tuple([first.strides[i] for i in order]), first.itemsize
    ):
        return first.like(shape, dtype)
    return Layout.of(
        shape,
        tuple([s // first.itemsize * dtype.itemsize for s in first.strides]),
        dtype,
        first.device,
    )


def elementwise(
    *operands: Layout | np.dtype,
    expression: str,
    compute: np.dtype,
    output: np.dtype,
    inplace: bool = False,
    version: str | None = None,
) -> Plan | tracing.TracedPlan:
    """Plan of an elementwise op. An operand is a Layout, or a dtype for a run-time scalar (float32,
    float64, complex, integer).

    With `inplace` the first operand is overwritten and the plan has no output.
    """
    layouts = [x for x in operands if isinstance(x, Layout)]
    shape = shapes.broadcast_shapes("elementwise", *[x.shape for x in layouts])
    target = layouts[0] if inplace else result_layout(layouts, shape, output)
    if target.device == TRACED:
        return tracing.elementwise(operands, expression, compute, target, inplace)
    function = scalar_function(
        expression,
        tuple(x.dtype if isinstance(x, Layout) else x for x in operands),
        compute,
        output,
    )
    takes_long = (
        "/" in expression
        or "**" in expression
        or not SHORT.issuperset(re.findall(r"(\w+)\(", expression))
    )
    step = launch(
        function,
        operands,
        target,
        Input(0) if inplace else Output(0),
        version,
        takes_long=takes_long,
    )
    return Plan([] if inplace else [target], [step])


def launch(
    function: Any,
    operands: Sequence[Layout | np.dtype],
    target: Layout,
    place: ArrayArg,
    version: str | None = None,
    arguments: Sequence[ArrayArg] | None = None,
    takes_long: bool = True,
) -> Launch:
    """The launch for target = function(operands), in the version that fits the layouts. `function`
    takes and returns stored elements; takes_long: more than a few instructions. arguments: which
    input each array operand is; by default they are the inputs in order."""
    layouts = [x for x in operands if isinstance(x, Layout)]
    arrays = tuple(isinstance(x, Layout) for x in operands)
    everything = [*layouts, target]
    size = max([x.itemsize for x in everything])
    width = max(1, ACCESS // size)
    if (
        len(layouts) == 1
    ):  # one operand: a narrower result still takes a whole access, so that as much is under way
        width = max(1, min(ACCESS // target.itemsize, 2 * ACCESS // size))
    aligned = all(x.aligned for x in everything) and not any(x.dtype in COMPLEX for x in everything)
    order = shapes.axes_by_stride(
        target.strides
    )  # the last axis is the one along which the target is dense
    strides = [shapes.broadcast_strides(x.shape, x.strides, target.shape) for x in everything]
    merged, *steps = shapes.collapse(
        *[tuple([s[i] for i in order]) for s in (target.shape, *strides)]
    )
    inner = [step[-1] if step else x.itemsize for step, x in zip(steps, everything, strict=True)]
    dense = all(i == x.itemsize for i, x in zip(inner, everything, strict=True))
    straight = target.size == 0 or (dense and len(merged) < 2)
    # in `rows` an operand is a run of elements or one value; the merged dimensions but the last
    # walk on 16-byte borders
    rows = (
        aligned
        and bool(merged)
        and min(map(min, steps)) >= 0
        and merged[-1] % width == 0
        and inner[-1] == target.itemsize
        and all(i in (0, x.itemsize) for i, x in zip(inner, layouts, strict=False))
        and all(
            s % min(ACCESS, width * x.itemsize) == 0
            for step, x, i in zip(steps, everything, inner, strict=True)
            if i
            for s in step[:-1]
        )
    )

    def memory(argument: ArrayArg, layout: Layout) -> ArrayArg:  # one dimension, whatever the shape
        reach = shapes.byte_bounds(layout.shape, layout.strides, layout.itemsize)[1]
        return argument.view((max(reach // layout.itemsize, 1),))

    crossed = None
    if version in ("tiled", "tiled_vector", "tiled_pairs") or (
        version is None and not (straight and aligned or rows)
    ):
        args = _arguments(operands, memory, arguments)
        seen = iter(steps)
        crossed = tiled(
            function,
            NAMES[: len(operands)],
            [
                Operand(arg, x.dtype, next(seen), x.aligned)
                if isinstance(x, Layout)
                else Operand(arg, x, None)
                for arg, x in zip(args, operands, strict=True)
            ],
            Operand(memory(place, target), target.dtype, steps[-1], target.aligned),
            merged,
            version,
        )
    if version is None:
        ahead = (
            takes_long
            and len(layouts) == 1
            and size == target.itemsize == 2
            and target.size >= LONG
        )
        version = (
            "tiled"
            if crossed
            else "plain"
            if SIMULATOR
            else f"vector{'_ahead' * ahead}"
            if straight and aligned
            else "rows"
            if rows
            else "plain"
        )
    if version.startswith("tiled"):
        if crossed is None:
            raise AssertionError(
                f"{version}: wants operands that lie across the result, got {everything}"
            )
        return crossed
    if version.startswith("vector"):
        ahead = AHEAD if version == "vector_ahead" else 1
        return Launch(
            vector_kernel(function, arrays, width, ahead),
            blocks(target.size, THREADS * width),
            THREADS // ahead,
            [*_arguments(operands, memory, arguments), memory(place, target)],
        )
    if version == "rows":
        seen_inner = iter(inner)
        kinds = tuple(
            "value" if not array else "run" if next(seen_inner) else "one" for array in arrays
        )
        elements = [
            s // x.itemsize for step, x in zip(steps, everything, strict=True) for s in step[:-1]
        ]
        count = target.size // width
        kernel = rows_kernel(function, kinds, len(merged), width, count >= 1 << 31)
        return Launch(
            kernel,
            blocks(count, THREADS),
            THREADS,
            [
                *_arguments(operands, memory, arguments),
                memory(place, target),
                *elements,
                *merged[:-1],
                merged[-1] // width,
                count,
            ],
        )
    walk = iter(steps)
    args = _arguments(
        operands,
        lambda ref, layout: ref.view(merged or (1,), next(walk) or (layout.itemsize,)),
        arguments,
    )
    return plain(
        function, arrays, args, place.view(merged or (1,), steps[-1] or (target.itemsize,)), merged
    )


def plain(
    function: Any,
    arrays: tuple[bool, ...],
    operands: Sequence[Any],
    out: ArrayArg,
    shape: Sequence[int],
) -> Launch:
    """The launch of `plain`. arrays: see there; operands and out: views of the merged shape, or
    scalars."""
    size = prod(shape)
    long = size >= MANY and shape[-1] >= THREADS
    items = 1 if size < MANY else 2 * IN_FLIGHT if long and sum(arrays) == 1 else IN_FLIGHT
    apart = not long and items > 1 and len(shape) >= APART and shape[0] % items == 0
    kernel = plain_kernel(
        function, arrays, max(len(shape), 1), size + items * THREADS >= 1 << 31, items, long, apart
    )
    return Launch(
        kernel,
        blocks(size, items * THREADS),
        THREADS,
        [*operands, out, size // items if apart else size],
    )


def _arguments(
    operands: Sequence[Layout | np.dtype],
    see: Callable[[ArrayArg, Layout], ArrayArg],
    arguments: Sequence[ArrayArg] | None,
) -> list[Any]:
    """Array operands as inputs in order (seen as `see` says), the others as run-time scalars in
    order."""
    args: list[Any] = []
    inputs = scalars = 0
    for operand in operands:
        if isinstance(operand, Layout):
            args.append(see(arguments[inputs] if arguments else Input(inputs), operand))
            inputs += 1
        else:
            args.append(Scalar(scalars, operand))
            scalars += 1
    return args


@functools.cache
def checked_quotient(dtype: np.dtype) -> Any:
    """out[i] = sums[i] / totals[i], the quotient that divide has; a total of 0 raises the error
    flag."""
    load, _, T = codec(dtype)
    compute = compute_dtype(dtype)
    divide = scalar_function(
        "divide(x, y)" if dtype in COMPLEX else "x / y", (dtype, dtype), compute, dtype
    )
    zero = T(0)

    @cuda.jit
    def checked_quotient(
        sums, totals, out, flag, ticket
    ):  # sums, totals, out: (n,); flag: (1,) int64
        i = cuda.grid(1)
        if i < out.size:
            if load(totals[i]) == zero:
                flag[0] = -ticket
            out[i] = divide(sums[i], totals[i])

    return checked_quotient


def average(sums: Layout, totals: Layout) -> Plan:
    """Quotients of what reductions gave: both contiguous, of one shape and dtype. None of the
    totals may be 0."""
    return Plan(
        [sums],
        [
            Launch(
                checked_quotient(sums.dtype),
                blocks(sums.size, THREADS),
                THREADS,
                [Input(0).flat, Input(1).flat, Output(0).flat, Flag(), Ticket()],
            )
        ],
    )
