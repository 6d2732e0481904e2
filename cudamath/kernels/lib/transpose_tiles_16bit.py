"""Elementwise operations on transposed operands of 16-bit numbers: squares of 128 x 128, transposed
by pairs (transpose_tiles.py explains the idea).

In squares of 64 x 64 a run of 16-bit numbers is 128 bytes, on both sides; here it is 256, in
accesses of 16 that hold eight numbers. And where `tiled_vector` writes a number at a time to shared
memory and reads one at a time, this moves words of two. A thread reads the same eight numbers of
two neighbouring lines,

    line 2j       a0 a1 a2 a3 a4 a5 a6 a7
    line 2j + 1   b0 b1 b2 b3 b4 b5 b6 b7

and has eight pairs (a0 b0), (a1 b1), ..: of each row of the result the columns 2j and 2j + 1, one
word. After the barrier four neighbouring words of a row are eight numbers of the result, an access
of 16 bytes again.

Banks. Row r's word j lies at j ^ 4 (r // 8 % 8). A warp writes word j of row 8 i + k for eight i
and four j: the i differ in bits 2 to 4 of the bank, the j in bits 0 and 1. It reads four words at
once, eight threads at a time along a row: the bits 0 and 1 of j were left as they are, so these are
still neighbours, and the eight are all 32 banks. So no column is wasted.

Axes (2, 0, 1) of 512 x 512 x 512 in bfloat16, on an H200: 138.1 us where tiled_vector takes 144.9;
a.T of 8,192 squared 69.1 and 70.3, of 5,000 x 7,000 41.5 and 47.6. By 256 threads 149 and 75 us, by
1,024 140 and 70, two blocks on a multiprocessor instead of three 153 and 77; squares of 64 x 128
141 and 69.5, of 128 x 64 144 and 69.8, of 64 x 64 145 and 70. A matrix of 4,096 squared, or many
small ones, are a percent or two faster by tiled_vector.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..compiler.decorators import bounded
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from .transpose_shapes import SHAPES, walk

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector
else:  # what they mean; they change no speed there

    @cuda.jit(device=True)
    def load_vector(array, index, count):
        return tuple([array[index + k] for k in range(count)])

    @cuda.jit(device=True)
    def store_vector(array, index, values):
        for k in range(len(values)):
            array[index + k] = values[k]


@functools.cache
def pairs_kernel(
    function: Any,
    names: tuple[str, ...],
    kinds: tuple[str, ...],
    words: tuple[np.dtype, ...],
    batch: int,
) -> Any:
    """out[..., r, c] = function(operands[..., r, c]); arguments and kinds as of
    `transpose_tiles.tiled_kernel`."""
    arrays = [
        (n, kind)
        for n, kind in zip([*names, "out"], [*kinds, "run"], strict=True)
        if kind != "value"
    ]
    width, down, over, threads = SHAPES["tiled_pairs"]
    long, wide = (
        down // width,
        over // width,
    )  # accesses of a run, of an operand that is turned and of the result
    step_in, step_out, row_words = (
        threads // long * 2,
        threads // wide,
        over // 2,
    )  # lines, rows of a pass; words of a row
    outer, halves, passes = range(batch), range(over // step_in), range(down // step_out)
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

    def first(n: str, p: Any) -> str:
        return f"at_{n} + {p} * {step_in} * {n}_step"

    def place(n: str, p: Any) -> str:
        return f"at_{n} + {p} * {step_out} * {n}_step"

    def load(n: str, p: Any) -> list[str]:
        return [
            f"{n}a{p} = load_vector({n}, {first(n, p)}, {width})",
            f"{n}b{p} = load_vector({n}, {first(n, p)} + {n}_step, {width})",
        ]

    def keep(n: str, p: Any) -> list[str]:
        word = f"(lane * {width * row_words} + (pair + {p} * {step_in // 2} ^ (lane & 7) << 2))"
        return [
            f"{n}_square[types.uint64({word} + {k * row_words})] = "
            f"types.uint32(types.uint16({n}a{p}[{k}])) "
            f"| types.uint32(types.uint16({n}b{p}[{k}])) << types.uint32(16)"
            for k in range(width)
        ]

    def read(n: str, kind: str, p: Any) -> str:
        return f"{n}v{p} = " + (
            f"load_vector({n}, {place(n, p)}, {width})" if kind == "run" else f"{n}[{place(n, p)}]"
        )

    def turned(p: Any) -> list[str]:
        row = f"(line + {p} * {step_out})"
        return [
            f"{n}r{p} = load_vector({n}_square, {row} * {row_words} + (lane_out * 4 ^ ({row} >> 3 "
            "& 7) << 2), 4)"
            for n in flips
        ]

    def result(p: Any) -> str:
        calls = []
        for k in range(width):
            operand = {
                "flip": f"{{n}}_word({{n}}r{p}[{k // 2}] >> types.uint32({k % 2 * 16}))",
                "run": f"{{n}}v{p}[{k}]",
                "one": f"{{n}}v{p}",
                "value": "{n}",
            }
            arguments = [operand[kind].format(n=n) for n, kind in zip(names, kinds, strict=True)]
            calls.append(f"function({', '.join(arguments)})")
        return f"store_vector(out, {place('out', p)}, ({', '.join(calls)},))"

    aligned = "" if SIMULATOR else ", alignment=16"
    t = "types.int64(cuda.threadIdx.x)"
    lines = [
        f"{n}_square = cuda.shared.array({down * row_words}, types.uint32{aligned})" for n in flips
    ]
    lines += walk(down, over, batch)
    lines += [
        f"lane = {t} & 7 | ({t} >> 5 & {long // 8 - 1}) << 3",
        f"pair = {t} >> 3 & 3 | {t} >> {5 + (long // 8).bit_length() - 1} << 2",
        f"lane_out = {t} & {wide - 1}",
        f"line = {t} >> {wide.bit_length() - 1}",
    ]
    for n, kind in arrays:
        along = {
            "flip": f"first_row + lane * {width} + (first_column + pair * 2) * {n}_step",
            "run": f"first_column + lane_out * {width} + (first_row + line) * {n}_step",
            "one": f"(first_row + line) * {n}_step",
        }[kind]
        lines.append(f"at_{n} = {' + '.join([along, *[f'i{d} * {n}_{d}' for d in outer]])}")
    lines += [f"if first_row + {down} <= rows and first_column + {over} <= columns:"]
    lines += [
        f"    {line}" for n in flips for p in halves for line in load(n, p)
    ]  # all reads go out before the barrier
    lines += [f"    {line}" for n in flips for p in halves for line in keep(n, p)]
    lines += ["    cuda.syncthreads()"]
    lines += [f"    {read(n, kind, p)}" for n, kind in reads for p in passes]
    lines += [f"    {line}" for p in passes for line in turned(p)]
    lines += [f"    {result(p)}" for p in passes]
    lines += [
        "else:",
        f"    for p in range({over // step_in}):",
        f"        if first_row + lane * {width} < rows and first_column + pair * 2 + p * "
        f"{step_in} < columns:",
    ]
    lines += [f"            {line}" for n in flips for line in (*load(n, "p"), *keep(n, "p"))]
    lines += [
        "    cuda.syncthreads()",
        f"    for p in range({down // step_out}):",
        f"        if first_row + line + p * {step_out} < rows and first_column + lane_out * "
        f"{width} < columns:",
        *[f"            {read(n, kind, 'p')}" for n, kind in reads],
        *[f"            {line}" for line in (*turned("p"), result("p"))],
    ]
    name = "tiled_pairs"
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    namespace = {
        "cuda": cuda,
        "types": types,
        "function": function,
        "load_vector": load_vector,
        "store_vector": store_vector,
    }
    namespace |= {f"{n}_word": numba_type(words[names.index(n)]) for n in flips}
    return bounded(threads)(compiled(source, name, namespace))
