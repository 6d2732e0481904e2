"""Concatenation: several arrays side by side, in one launch. The choice: dispatch.py.

Along any axis, C-ordered inputs are matrices of as many rows as the result, and lie next to each
other in its rows:

    result row r:  | input 0 row r | input 1 row r | ...
    axis 0:        one row, the inputs one after another

An element is moved as bits: rows in the widest words that divide the lengths of all of them, 16
bytes at best. The floor is one read and one write of everything.

``join``           Each thread has four words in flight. The second grid dimension is the number of
                   the input.
``join_gathered``  Only words of 4 or 8 bytes divide all lengths, as when an array is rolled by an
                   odd number of elements. The result can still be written in 16 bytes: each thread
                   gathers its vectors from the inputs.
``join_strided``   Small arrays, not all of them in C order, are read as they lie.
Copies             More than 8 inputs, and large arrays that are not in C order, are copied one by
                   one (copy_part).

Measured (row versions_join):
two of 8,192 x 4,096 side by side, float32; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                 GB/s     of a copy
    copies      3,494          0.83
    join        3,930          0.93

(end of what was measured)
"""

import functools
import itertools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.contiguous import box
from ..copy.dispatch import copy_part
from ..copy.parts import IN_FLIGHT, THREADS, WORDS, whole
from ..lib.integers import blocks
from .problem import ConcatProblem

if SIMULATOR:

    def store_vector(y, i, values):
        """What the access of 16 bytes does."""
        for k, value in enumerate(values):
            y[i + k] = value

else:
    from ..ptx.vector_access import load_vector, store_vector


@functools.cache
def mover(vector: bool, single: bool) -> Any:
    """Device function: moves words first, first + THREADS, ... of x, a matrix of `count` words in
    rows of n, into rows of y. vector: a word is two elements; single: there is one row, and nothing
    to divide."""

    @device_function
    def load(x, i):
        return load_vector(x, i * 2, 2) if vector else x[i]

    @device_function
    def store(y, row, column, value):
        if vector:
            store_vector(y, (row + column) * 2, value)
        else:
            y[row + column] = value

    @device_function
    def place(i, n, start, total):
        if single:
            return types.int64(start), types.int64(i)
        row = types.uint32(i) // types.uint32(n)
        return types.int64(row) * total + start, i - types.int64(row) * n

    @device_function
    def move(x, y, first, n, count, start, total):
        if first + 3 * THREADS < count:
            a = load(x, first)
            b = load(x, first + THREADS)
            c = load(x, first + 2 * THREADS)
            d = load(x, first + 3 * THREADS)
            row, column = place(first, n, start, total)
            store(y, row, column, a)
            row, column = place(first + THREADS, n, start, total)
            store(y, row, column, b)
            row, column = place(first + 2 * THREADS, n, start, total)
            store(y, row, column, c)
            row, column = place(first + 3 * THREADS, n, start, total)
            store(y, row, column, d)
        else:
            for i in range(first, count, THREADS):
                row, column = place(i, n, start, total)
                store(y, row, column, load(x, i))

    return move


@functools.cache
def join(inputs: int, vector: bool, single: bool) -> Any:
    """x0, x1, ..., y: (words,); then the words of a row of each, the words of a row of y, and the
    rows."""
    numbers = range(inputs)
    lines = []
    for k in numbers:
        start = " + ".join(["0", *(f"n{j}" for j in range(k))])
        lines.append(
            f"    {'el' if k else ''}if which == {k}:\n"
            f"        move(x{k}, y, first, n{k}, n{k} * rows, {start}, total)\n"
        )
    source = (
        f"def join({', '.join(f'x{k}' for k in numbers)}, y, "
        f"{', '.join(f'n{k}' for k in numbers)}, total, rows):\n"
        f"    first = cuda.blockIdx.x * {THREADS * IN_FLIGHT} + cuda.threadIdx.x\n    which = "
        "cuda.blockIdx.y\n" + "".join(lines)
    )
    return cuda.jit(compiled(source, "join", {"cuda": cuda, "move": mover(vector, single)}))


@functools.cache
def join_gathered(inputs: int, count: int, single: bool) -> Any:
    """As join, but a thread takes IN_FLIGHT vectors of `count` words of y, whatever input their
    words are from. Rows are whole vectors; a single one may have words left over."""
    numbers = range(inputs)
    xs, ns = ", ".join(f"x{k}" for k in numbers), ", ".join(f"n{k}" for k in numbers)
    starts = [" + ".join(["0", *(f"n{j}" for j in range(k))]) for k in range(inputs + 1)]
    chain = [
        f"    if column < {end}:\n        return x{k}[row * n{k} + column - ({start})]\n"
        for k, (start, end) in enumerate(itertools.pairwise(starts))
    ]
    chain[-1] = f"    return x{inputs - 1}[row * n{inputs - 1} + column - ({starts[-2]})]\n"
    within = [
        f"    if {start} <= column and column + {count} <= {end}:\n        at = row * n{k} + "
        f"column - ({start})\n"
        f"        return {', '.join(f'x{k}[at + {e}]' for e in range(count))}\n"
        for k, (start, end) in enumerate(itertools.pairwise(starts))
    ]
    words = ", ".join(f"word({xs}, row, column + {e}, {ns})" for e in range(count))
    word = device_function(
        compiled(f"def word({xs}, row, column, {ns}):\n" + "".join(chain), "word", {})
    )
    gathered = device_function(
        compiled(
            f"def gathered({xs}, row, column, {ns}):\n" + "".join(within) + f"    return {words}\n",
            "gathered",
            {"word": word},
        )
    )

    place = (
        ("0", "i * {}") if single else ("i // types.uint32(total // {})", "i * {} - row * total")
    )
    fetch = device_function(
        compiled(
            f"def fetch({xs}, i, total, {ns}):\n    row = types.int64({place[0].format(count)})\n"
            f"    return gathered({xs}, row, types.int64({place[1].format(count)}), {ns})\n",
            "fetch",
            {"gathered": gathered, "types": types},
        )
    )
    names, last = "abcd", f"y.size // {count} - 1"
    source = (
        f"def join_gathered({xs}, y, {ns}, total):\n"
        f"    first = types.uint32(cuda.blockIdx.x * {THREADS * IN_FLIGHT} + cuda.threadIdx.x)\n  "
        f"  last = {last}\n"
        + "".join(
            f"    {name} = fetch({xs}, types.uint32(min(first + {k * THREADS}, last)), total, "
            f"{ns})\n"
            for k, name in enumerate(names)
        )
        + "".join(
            f"    if first + {k * THREADS} <= last:\n"
            f"        store_vector(y, types.int64(first + {k * THREADS}) * {count}, {name})\n"
            for k, name in enumerate(names)
        )
        + f"    rest = (last + 1) * {count} + first\n"
        f"    if {single} and rest < y.size:\n        y[rest] = word({xs}, 0, rest, {ns})\n"
    )
    return cuda.jit(
        compiled(
            source,
            "join_gathered",
            {
                "cuda": cuda,
                "types": types,
                "fetch": fetch,
                "word": word,
                "store_vector": store_vector,
            },
        )
    )


@functools.cache
def join_strided(inputs: int) -> Any:
    """x0, x1, ...: (rows, n, inner) words in any strides; y: (words,), rows of `total` by inner.
    One thread a word."""
    xs = [f"x{k}" for k in range(inputs)]
    source = (
        f"def join_strided({', '.join(xs)}, y, total):\n"
        f"    i = types.uint32(cuda.blockIdx.x * {THREADS} + cuda.threadIdx.x)\n    if i < "
        "y.size:\n"
        "        inner = types.uint32(x0.shape[2])\n        line = i // inner\n"
        "        a = types.int64(i - line * inner)\n"
        "        row = types.int64(line // types.uint32(total))\n        at = types.int64(line) - "
        "row * total\n"
        + "".join(
            f"        if 0 <= at < {x}.shape[1]:\n            y[i] = {x}[row, at, a]\n"
            f"        at -= {x}.shape[1]\n"
            for x in xs
        )
    )
    return cuda.jit(compiled(source, "join_strided", {"cuda": cuda, "types": types}))


# -------------------- planners


def by_words(p: ConcatProblem) -> Plan:
    """Version "join"."""
    words, total = p.words, sum(p.words)
    launch = Launch(
        join(len(p.inputs), p.word == 16, p.rows == 1),
        (blocks(max(words) * p.rows, THREADS * IN_FLIGHT), len(p.inputs)),
        THREADS,
        [*_flat_inputs(p), _flat_output(p), *words, total, p.rows],
    )
    return Plan([p.out], [launch])


def by_vectors(p: ConcatProblem) -> Plan:
    """Version "join_gathered"."""
    target, count = _flat_output(p), 16 // p.element
    launch = Launch(
        join_gathered(len(p.inputs), count, p.rows == 1),
        blocks(target.shape[0] // count, THREADS * IN_FLIGHT),
        THREADS,
        [*_flat_inputs(p), target, *p.words, sum(p.words)],
    )
    return Plan([p.out], [launch])


def _flat_inputs(p: ConcatProblem) -> list[Any]:
    return [
        Input(i).view((max(x.nbytes // p.element, 1),), dtype=np.dtype(WORDS[p.element]))
        for i, x in enumerate(p.inputs)
    ]


def _flat_output(p: ConcatProblem) -> Any:
    return Output(0).view((p.out.nbytes // p.element,), dtype=np.dtype(WORDS[p.element]))


def by_strides(p: ConcatProblem) -> Plan:
    """Version "join_strided"."""
    word = WORDS[p.out.itemsize]
    boxes = [box(Input(i), x, p.axis, 1, [])[1] for i, x in enumerate(p.inputs)]
    words = [b.view(b.shape, b.strides, dtype=word) for b in boxes]
    launch = Launch(
        join_strided(len(p.inputs)),
        blocks(p.out.size, THREADS),
        THREADS,
        [*words, Output(0).view((p.out.size,), dtype=word), sum(p.sizes)],
    )
    return Plan([p.out], [launch])


def by_copies(p: ConcatProblem) -> Plan:
    """Version "copies": a copy into each slice."""
    steps: list[Launch] = []
    start = 0
    for i, (x, size) in enumerate(zip(p.inputs, p.sizes, strict=True)):
        target = whole(Output(0), p.out).slice(p.axis, start, size)
        steps += copy_part(whole(Input(i), x), target)
        start += size
    return Plan([p.out], steps)
