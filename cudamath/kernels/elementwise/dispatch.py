"""Elementwise operations: the versions, and the choice among them.

An elementwise op reads each input once and writes its output once; it does a few operations on the
way. Its floor is (bytes in + bytes out) / bandwidth, so all that matters is how memory is touched:

The kernels are generated from a scalar expression (generator.py).

1. `plain`: one thread per element, or four or eight of them, any strides. In the dimensions that
   are left after merging (`shapes.collapse`), an element's number is taken apart by 32-bit
   divisions. Four elements' divisions take longer than their loads, so where rows are not short the
   next element's place follows from the last one's by additions; of four dimensions and more a
   thread's elements differ in the first one alone.
2. `rows`: the innermost runs are contiguous (or one value repeated) in every array: a bias, a slice
   of columns, one value a row. A thread still moves 16 bytes; the division finds its row.
3. `broadcast`: the result is dense and rows do not begin at whole accesses (a bias of 333, a
   divisor of each four neighbours). A thread moves 16 bytes of the result and of each operand that
   is dense like it, and reads the elements of broadcast operands one by one: those are few, so they
   come from the cache. One division a dimension finds the first, additions the others.
4. `tiled`, `tiled_vector` (lib/transpose_tiles.py): some arrays lie across the result, as in a +
   b.T: squares through shared memory.
5. `vector`: all arrays dense in one order. A thread moves 16 bytes of the widest array (PTX
   `ld.v4`), as many elements of the others: an eighth to a quarter of the load instructions, more
   bytes in flight. Two accesses of the widest would be half sectors each, which costs up to a
   twentieth. The last elements, which fill no access, have a thread each: in a loop of one thread
   they took 0.4 us of 1,346 elements' 1.7 (H100). Few elements gain nothing from a thread each
   (x + y of 4,096: 1.29 us instead of 1.14; of 65,536: 1.64 instead of 1.33).
6. `vector_ahead`: the same, a block of half the threads, each of which reads two accesses before it
   computes the first. Of a 16-bit operand one access is eight elements, and eight functions take as
   long as memory does: while the first eight are computed the others are under way. On an H200 the
   root of 2^27 bfloat16 takes 132.7 us instead of 149, a copy 128.6. An exponential, which is
   short, takes 129.0 instead of 128.3: such functions are left to `vector`, as are small arrays
   (log1p of 1 MB takes 2.4 instead of 2.0).

7. `single`: `plain` with one element per thread, for special functions. They are long, and a copy
   for each of a thread's elements would take the compiler a minute (beta: 67 s, here 2).
8. `small` (small.py): dtypes and strides are arguments, so that few kernels serve all small arrays.
   Their time is that of a launch. Usual layouts of one 16- or 32-bit floating-point dtype are left
   to the others, whose kernels most programs need anyway.

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

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core import shapes, tracing
from ...core.devices import TRACED
from ...core.dispatch.arguments import ArrayArg, Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.small_arrays import is_small
from ...core.dispatch.steps import Launch
from ...core.dtypes import BOOLEAN, FLOATING
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR
from ..lib.versions import Version, first, named
from .generator import scalar_function
from .problem import FEW, RANK, ElementwiseProblem, Formula

LONG = 1 << 22  # twice as many elements as the threads of a large device read in one access each
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


def is_dense(p: ElementwiseProblem) -> bool:
    """All arrays are dense in one order."""
    return not SIMULATOR and p.aligned and p.is_dense


def has_rows(p: ElementwiseProblem) -> bool:
    """The innermost runs are contiguous, or one value repeated, and begin at whole accesses."""
    return not SIMULATOR and p.has_rows


def has_parts(p: ElementwiseProblem) -> bool:
    """The result is dense, and each operand is dense like it or broadcast."""
    return not SIMULATOR and p.has_parts


def prefers_parts(p: ElementwiseProblem) -> bool:
    return p.target.size >= FEW


def prefers_ahead(p: ElementwiseProblem) -> bool:
    """One large operand of 16 bits, and a function of more than a few instructions."""
    halves = max(x.itemsize for x in p.everything) == p.target.itemsize == 2
    return p.takes_long and len(p.layouts) == 1 and halves and p.target.size >= LONG


def has_squares(p: ElementwiseProblem) -> bool:
    """Some operand lies across the result."""
    return p.squares is not None


def prefers_tiles(p: ElementwiseProblem) -> bool:
    return not (p.aligned and p.is_dense or p.has_rows)


def prefers_vector_tiles(p: ElementwiseProblem) -> bool:
    return prefers_tiles(p) and p.squares.version == "tiled_vector"


def prefers_pair_tiles(p: ElementwiseProblem) -> bool:
    return prefers_tiles(p) and p.squares.version == "tiled_pairs"


def fits_codes(p: ElementwiseProblem) -> bool:
    """Dtypes and strides may be arguments: a function that is an expression, few dimensions."""
    return p.kinds is not None and len(p.merged[0]) <= RANK


def prefers_codes(p: ElementwiseProblem) -> int:
    """Small arrays, but for usual layouts of one 16- or 32-bit floating-point dtype, whose kernels
    most programs have anyway."""
    if SIMULATOR or not is_small(p.target.size):
        return 0
    dtypes = {x.dtype for x in p.layouts} | ({p.target.dtype} - BOOLEAN)
    own = len(dtypes) == 1 and dtypes <= FLOATING and p.layouts[0].itemsize <= 4
    return 2 * (not own or not (is_dense(p) or has_rows(p)))


def is_special(p: ElementwiseProblem) -> int:
    """A special function: too long for a copy for each of a thread's elements."""
    return 2 * (p.formula is not None and "special_" in p.formula.expression)


VERSIONS = (
    Version("small", "elementwise.small.by_codes", fits_codes, prefers_codes),
    Version("vector_ahead", "elementwise.launches.by_vectors_ahead", is_dense, prefers_ahead),
    Version("vector", "elementwise.launches.by_vectors", is_dense),
    Version("rows", "elementwise.launches.by_rows", has_rows),
    Version("tiled_pairs", "elementwise.launches.by_pair_tiles", has_squares, prefers_pair_tiles),
    Version(
        "tiled_vector", "elementwise.launches.by_vector_tiles", has_squares, prefers_vector_tiles
    ),
    Version("tiled", "elementwise.launches.by_tiles", has_squares, prefers_tiles),
    Version("broadcast", "elementwise.launches.by_parts", has_parts, prefers_parts),
    Version("plain", "elementwise.launches.by_elements"),
    Version("single", "elementwise.launches.by_single_elements", prefers=is_special),
)


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
    formula = Formula(expression, compute, output)
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
        formula=formula,
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
    formula: Formula | None = None,
) -> Launch:
    """The launch for target = function(operands), in the version that fits the layouts. `function`
    takes and returns stored elements; takes_long: more than a few instructions. arguments: which
    input each array operand is; by default they are the inputs in order. formula: the function as
    an expression, if it is one."""
    problem = ElementwiseProblem(function, operands, target, place, arguments, takes_long, formula)
    if version is None:
        return first(VERSIONS, problem)
    return named("elementwise", VERSIONS, problem, version)
