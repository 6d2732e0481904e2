"""The launches of elementwise operations, one function per version. The choice: dispatch.py."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...core.dispatch.arguments import ArrayArg
from ...core.dispatch.steps import Launch
from ..lib.integers import blocks, with_tail
from .generator import (
    NAMES,
    THREADS,
    broadcast_kernel,
    plain_kernel,
    rows_kernel,
    vector_kernel,
)
from .problem import ElementwiseProblem

AHEAD = 2  # accesses that a thread of `vector_ahead` has under way
IN_FLIGHT = (
    4  # elements a thread of `plain` reads before it writes, twice as many of one operand ..
)
MANY = 1 << 20  # .. where there are so many that all multiprocessors are full anyway
# dimensions from which on a thread's elements share all but the first place: one set of divisions
# for all of them
APART = 4


def by_vectors(p: ElementwiseProblem) -> Launch:
    """Version "vector"."""
    threads = with_tail(p.target.size, p.width)
    kernel = vector_kernel(p.function, p.arrays, p.width)
    return Launch(kernel, blocks(threads, THREADS), THREADS, [*p.lines, p.line])


def by_vectors_ahead(p: ElementwiseProblem) -> Launch:
    """Version "vector_ahead"."""
    kernel = vector_kernel(p.function, p.arrays, p.width, AHEAD)
    grid = blocks(p.target.size, THREADS * p.width)
    return Launch(kernel, grid, THREADS // AHEAD, [*p.lines, p.line])


def by_rows(p: ElementwiseProblem) -> Launch:
    """Version "rows"."""
    (shape, steps), inner = p.merged, iter(p.inner)
    kinds = tuple("value" if not a else "run" if next(inner) else "one" for a in p.arrays)
    pairs = zip(steps, p.everything, strict=True)
    elements = [s // x.itemsize for along, x in pairs for s in along[:-1]]
    count = p.target.size // p.width
    return Launch(
        rows_kernel(p.function, kinds, len(shape), p.width, count >= 1 << 31),
        blocks(count, THREADS),
        THREADS,
        [*p.lines, p.line, *elements, *shape[:-1], shape[-1] // p.width, count],
    )


def by_parts(p: ElementwiseProblem) -> Launch:
    """Version "broadcast"."""
    (shape, steps), each = p.merged, iter(zip(p.merged[1], p.layouts, strict=False))
    kinds = tuple(
        "value" if not array else "run" if p.is_whole(*next(each)) else "part" for array in p.arrays
    )
    parts = [(s, x) for s, x in zip(steps, p.layouts, strict=False) if not p.is_whole(s, x)]
    count, width = p.target.size, p.width
    return Launch(
        broadcast_kernel(p.function, kinds, len(shape), width, count + width >= 1 << 31),
        blocks(with_tail(count, width), THREADS),
        THREADS,
        [*p.lines, p.line, *[s // x.itemsize for along, x in parts for s in along], *shape[1:]],
    )


def by_tiles(p: ElementwiseProblem, version: str = "tiled") -> Launch | None:
    """Version "tiled"."""
    return p.squares and p.squares.launch(p.function, NAMES[: len(p.operands)], version)


def by_vector_tiles(p: ElementwiseProblem) -> Launch | None:
    """Version "tiled_vector"."""
    return by_tiles(p, "tiled_vector")


def by_pair_tiles(p: ElementwiseProblem) -> Launch | None:
    """Version "tiled_pairs"."""
    return by_tiles(p, "tiled_pairs")


def by_elements(p: ElementwiseProblem, most: int | None = None) -> Launch:
    """Version "plain"."""
    shape, steps = p.merged
    sides = [along or (x.itemsize,) for along, x in zip(steps, p.everything, strict=True)]
    operands = p.arguments(lambda argument, _, i: argument.view(shape or (1,), sides[i]))
    out = p.place.view(shape or (1,), sides[-1])
    return plain(p.function, p.arrays, operands, out, shape, most)


def by_single_elements(p: ElementwiseProblem) -> Launch:
    """Version "single"."""
    return by_elements(p, 1)


def plain(
    function: Any,
    arrays: tuple[bool, ...],
    operands: Sequence[Any],
    out: ArrayArg,
    shape: Sequence[int],
    most: int | None = None,
) -> Launch:
    """The launch of `plain`. arrays: see there; operands and out: views of the merged shape, or
    scalars; most: so many elements a thread at most."""
    size = prod(shape)
    long = size >= MANY and shape[-1] >= THREADS
    items = 1 if size < MANY else 2 * IN_FLIGHT if long and sum(arrays) == 1 else IN_FLIGHT
    items = items if most is None else min(items, most)
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
