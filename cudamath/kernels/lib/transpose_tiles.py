"""Elementwise operations on operands that are transposed to each other in memory: a + b.T,
NHWC <-> NCHW, a transposed copy.

Neighbours of the result lie along its columns, neighbours of some operand along its rows. A walk
along one of them strides through the other, and each stride fetches a 32-byte sector for 4 bytes.
So a block takes a square: it reads the operand along *its* rows into shared memory and, after a
barrier, reads the square along the other side. Every access to DRAM is then contiguous.

The versions, generated for a scalar function:

1. `tiled`: squares of 32 x 32, one element per access. Any sizes; runs in the simulator.
2. `tiled_vector`: squares of 64 x 64, four elements per access, so that a run is 256 bytes of
   float32 and a thread has 16 elements of every operand in flight before the barrier. Sizes and
   distances are multiples of four elements.
3. `tiled_pairs` (transpose_tiles_16bit.py): squares of 128 x 128 of 16-bit numbers, eight per
   access, for big matrices.

All walk the squares in bands of 8 rows of squares, so that the blocks that run together cover a
patch that is wide on both sides, and DRAM pages are used up while they are open. The floor is each
operand once and the result once. A column more than needed in the shared memory of the first two
versions puts the elements of a column in different banks.

Measured (row versions_tiles):
a + b.T, 8,192 squared, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                       GB/s     of a copy
    plain             1,564          0.37
    tiled             3,561          0.84
    tiled_vector      4,233          1.00

(end of what was measured)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Scalar
from ...core.dispatch.steps import Launch
from ...core.dtypes import COMPLEX
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from .integers import blocks
from .transpose_shapes import BAND, LEAST, LONG, MANY, PASSES, SHAPES, SHARED, THREADS, walk

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector


@functools.cache
def tiled_kernel(
    function: Any,
    names: tuple[str, ...],
    kinds: tuple[str, ...],
    words: tuple[np.dtype, ...],
    batch: int,
    width: int,
) -> Any:
    """out[..., r, c] = function(operands[..., r, c]).

    kinds[i] of an operand: "flip" (dense along r; through shared memory, as words[i]), "run" (dense
    along c), "one" (the same for all c) or "value" (a scalar). Arguments: the operands, arrays as
    the one-dimensional memory behind them, and out; the element strides of each array along c
    ("flip") or r (all others), then along the `batch` outer dimensions; rows, columns; squares in a
    band, across, and bands; the sizes of the outer dimensions.
    """
    name = "tiled" if width == 1 else "tiled_vector"
    side = SHAPES[name].rows
    lanes = side // width  # threads along a run
    step = THREADS // lanes  # runs a pass
    arrays = [
        (n, kind)
        for n, kind in zip([*names, "out"], [*kinds, "run"], strict=True)
        if kind != "value"
    ]
    outer = range(batch)
    parameters = [
        *names,
        "out",
        *[f"{n}_{s}" for n, _ in arrays for s in ("step", *outer)],
        "rows",
        "columns",
        "band",
        "across",
        "bands",
        *[f"size{d}" for d in outer],
    ]
    flips = [n for n, kind in arrays if kind == "flip"]
    reads = [(n, kind) for n, kind in arrays[:-1] if kind != "flip"]

    def load(n: str, at: str, p: Any) -> str:
        return f"{n}v{p} = load_vector({n}, {at}, {width})" if width > 1 else f"{n}v{p} = {n}[{at}]"

    def element(value: str, k: int) -> str:
        return f"{value}[{k}]" if width > 1 else value

    def place(n: str, p: Any) -> str:
        return f"at_{n} + {p} * {step} * {n}_step"

    def keep(n: str, p: Any) -> list[str]:
        return [
            f"{n}_square[line + {p} * {step}, lane * {width} + {k}] = {element(f'{n}v{p}', k)}"
            for k in range(width)
        ]

    def result(p: Any) -> str:
        calls = []
        for k in range(width):
            operand = {
                "flip": f"{{n}}_square[lane * {width} + {k}, line + {p} * {step}]",
                "run": element(f"{{n}}v{p}", k),
                "one": f"{{n}}v{p}",
                "value": "{n}",
            }
            arguments = [operand[kind].format(n=n) for n, kind in zip(names, kinds, strict=True)]
            calls.append(f"function({', '.join(arguments)})")
        at = place("out", p)
        return (
            f"store_vector(out, {at}, ({', '.join(calls)},))"
            if width > 1
            else f"out[{at}] = {calls[0]}"
        )

    def read(n: str, kind: str, p: Any) -> str:
        return load(n, place(n, p), p) if kind == "run" else f"{n}v{p} = {n}[{place(n, p)}]"

    lines = [f"{n}_square = cuda.shared.array(({side}, {side + 1}), {n}_word)" for n in flips]
    lines += walk(side, side, batch)
    lines += [
        f"lane = types.int64(cuda.threadIdx.x % {lanes})",
        f"line = types.int64(cuda.threadIdx.x // {lanes})",
    ]
    for n, kind in arrays:
        along = {
            "flip": f"first_row + lane * {width} + (first_column + line) * {n}_step",
            "run": f"first_column + lane * {width} + (first_row + line) * {n}_step",
            "one": f"(first_row + line) * {n}_step",
        }[kind]
        lines.append(f"at_{n} = {' + '.join([along, *[f'i{d} * {n}_{d}' for d in outer]])}")
    passes = range(PASSES)
    lines += [f"if first_row + {side} <= rows and first_column + {side} <= columns:"]
    lines += [
        f"    {load(n, place(n, p), p)}" for n in flips for p in passes
    ]  # all reads go out before the barrier
    lines += [f"    {read(n, kind, p)}" for n, kind in reads for p in passes]
    lines += [f"    {line}" for n in flips for p in passes for line in keep(n, p)]
    lines += ["    cuda.syncthreads()", *[f"    {result(p)}" for p in passes]]
    lines += [
        "else:",
        f"    for p in range({PASSES}):",
        f"        if first_row + lane * {width} < rows and first_column + line + p * {step} < "
        "columns:",
    ]
    lines += [
        f"            {line}"
        for n in flips
        for line in (load(n, place(n, "p"), "p"), *keep(n, "p"))
    ]
    lines += [
        "    cuda.syncthreads()",
        f"    for p in range({PASSES}):",
        f"        if first_row + line + p * {step} < rows and first_column + lane * {width} < "
        "columns:",
        *[f"            {read(n, kind, 'p')}" for n, kind in reads],
        f"            {result('p')}",
    ]
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    namespace = {"cuda": cuda, "types": types, "function": function}
    namespace |= {f"{n}_word": numba_type(words[names.index(n)]) for n in flips}
    if width > 1:
        namespace |= {"load_vector": load_vector, "store_vector": store_vector}
    return cuda.jit(compiled(source, name, namespace))


class Operand(NamedTuple):
    """An operand, or the result."""

    argument: ArrayArg | Scalar
    dtype: np.dtype
    strides: tuple[int, ...] | None  # bytes, along the merged dimensions; None: a scalar
    aligned: bool = True


class Squares(NamedTuple):
    """How squares of `rows` x `columns` tile operands that lie across their result."""

    operands: Sequence[Operand]
    out: Operand
    shape: tuple[int, ...]
    kinds: tuple[str, ...]  # of the operands, see `tiled_kernel`
    dense: int  # the dimension in which the operands that lie across are dense

    @classmethod
    def of(
        cls, operands: Sequence[Operand], out: Operand, shape: tuple[int, ...]
    ) -> Squares | None:
        """None where squares do not fit the layouts.

        `shape` and all strides are merged (`shapes.collapse`) and sorted so that the last dimension
        is the one in which the result is dense.
        """
        last = len(shape) - 1
        if last < 1 or out.strides is None or out.strides[last] != out.dtype.itemsize:
            return None
        kinds, across = [], set()
        for x in operands:
            if x.strides is None:
                kinds.append("value")
            elif min(x.strides) < 0:
                return None
            elif x.strides[last] in (0, x.dtype.itemsize):
                kinds.append("run" if x.strides[last] else "one")
            else:
                kinds.append("flip")
                across.add(next((d for d in range(last) if x.strides[d] == x.dtype.itemsize), None))
        if len(across) != 1 or None in across:
            return None
        dense = across.pop()
        if min(shape[dense], shape[last]) < LEAST or min(out.strides) < 0:
            return None
        return cls(operands, out, shape, tuple(kinds), dense)

    @property
    def rows(self) -> int:
        return self.shape[self.dense]

    @property
    def columns(self) -> int:
        return self.shape[-1]

    @property
    def outer(self) -> list[int]:
        """The other dimensions."""
        return [d for d in range(len(self.shape) - 1) if d != self.dense]

    @property
    def arrays(self) -> list[tuple[Operand, str]]:
        """The operands that are arrays, and the result, with their kinds."""
        sides = zip([*self.operands, self.out], [*self.kinds, "run"], strict=True)
        return [(x, kind) for x, kind in sides if kind != "value"]

    @property
    def shared(self) -> int:
        """Bytes of shared memory for an element of a square."""
        return sum(x.dtype.itemsize for x, kind in self.arrays if kind == "flip")

    def supports(self, version: str) -> bool:
        """Whether a version of the kernel can run this."""
        _, high, long, _ = SHAPES[version]
        pairs = version == "tiled_pairs"
        if self.shared * high * (long + (not pairs)) > SHARED:
            return False
        if version == "tiled":
            return True
        last = len(self.shape) - 1
        steps = [
            (x, s)
            for x, kind in self.arrays
            if kind != "one"
            for d, s in enumerate(x.strides)
            if d != (self.dense if kind == "flip" else last)
        ]  # at which accesses begin, in bytes
        if not all(x.aligned and x.dtype not in COMPLEX for x, _ in self.arrays):
            return False
        if pairs:
            halves = all(x.dtype.itemsize == 2 for x, _ in self.arrays)
            return (
                halves
                and self.rows % 8 == self.columns % 8 == 0
                and all(s % 16 == 0 for _, s in steps)
            )
        return (
            not SIMULATOR
            and self.rows % 4 == self.columns % 4 == 0
            and all(s % min(16, 4 * x.dtype.itemsize) == 0 for x, s in steps)
        )

    @property
    def version(self) -> str:
        """The fastest version that can run this."""
        many = min(self.rows, self.columns) >= LONG and self.rows * self.columns >= LONG**2 * MANY
        if not self.supports("tiled_vector"):
            return "tiled"
        return "tiled_pairs" if many and self.supports("tiled_pairs") else "tiled_vector"

    def launch(self, function: Any, names: tuple[str, ...], version: str) -> Launch | None:
        """The launch for out = function(operands), element by element. None where the squares are
        more than a grid may have. `function` takes and returns stored elements."""
        width, high, long, threads = SHAPES[version]
        outer = self.outer
        down, over = blocks(self.rows, high), blocks(self.columns, long)
        band = BAND if down >= 4 * BAND else down
        bands = blocks(down, band)
        sizes = [self.shape[d] for d in outer]
        grid = band * bands * over * prod(sizes)
        if grid >= 1 << 31 or not self.supports(version):
            return None
        strides = [
            x.strides[d] // x.dtype.itemsize
            for x, kind in self.arrays
            for d in (len(self.shape) - 1 if kind == "flip" else self.dense, *outer)
        ]
        kinds_and_words = self.kinds, tuple(x.dtype for x in self.operands), len(outer)
        if version == "tiled_pairs":
            from .transpose_tiles_16bit import pairs_kernel  # which imports from here

            kernel = pairs_kernel(function, names, *kinds_and_words)
        else:
            kernel = tiled_kernel(function, names, *kinds_and_words, width)
        arguments = [*[x.argument for x in self.operands], self.out.argument, *strides]
        squares = [self.rows, self.columns, band, over, bands]
        return Launch(kernel, grid, threads, [*arguments, *squares, *sizes])
