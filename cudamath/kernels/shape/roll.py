"""Rolling along several axes, in one launch. (Along one axis: a concatenation of two parts,
concat.py.)

The idea. In C order, an axis that stays belongs to the one before it: rolling (n, m) by s along n
is rolling n * m elements by s * m. So what is left are the axes that move, each by its own shift,
and in front of them perhaps one that does not: at most four. A thread takes the number of a word of
the result apart into its place along each axis, finds where along that axis the word comes from,
and puts the number together again.

What an element is does not matter: rows move in the widest words that divide their lengths and
shifts, 16 bytes at best, and a thread has four of them under way. The floor is one read and one
write of everything, which one axis after another would need for each axis.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.dispatch import copy_part
from ..copy.parts import IN_FLIGHT, THREADS, WORDS, index_type, whole
from ..lib.integers import blocks

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

AXES = 3  # that move at once; with one in front of them that stays, these are the kernel's four


@functools.cache
def origin(axes: int, index: Any) -> Any:
    """Device function: the number of the word from which word i of the result comes. sizes, shifts:
    from the outermost axis on, in words."""

    @device_function
    def before(place, size, shift):
        return index(place - shift) if place >= shift else index(place + size - shift)

    if axes == 1:

        @device_function
        def find(i, sizes, shifts):
            return before(i, sizes[0], shifts[0])

        return find
    outer, last = origin(axes - 1, index), axes - 1

    @device_function
    def find(i, sizes, shifts):
        size = sizes[last]
        row = index(i // size)
        return index(
            outer(row, sizes, shifts) * size + before(index(i - row * size), size, shifts[last])
        )

    return find


@functools.cache
def rolled(axes: int, vector: bool, index: Any) -> Any:
    """vector: a word is two elements. index: uint32, or uint64 for so many words."""
    find = origin(axes, index)

    @device_function
    def load(x, i):
        return load_vector(x, types.int64(i) * 2, 2) if vector else x[i]

    @device_function
    def store(y, i, value):
        if vector:
            store_vector(y, types.int64(i) * 2, value)
        else:
            y[i] = value

    @cuda.jit
    def rolled(x, y, count, n0, n1, n2, n3, s0, s1, s2, s3):
        """x, y: their memory, `count` words. n0 ..., s0 ...: sizes and shifts (0 <= shift < size)
        of the axes."""
        sizes, shifts = (n0, n1, n2, n3), (s0, s1, s2, s3)
        first = index(index(cuda.blockIdx.x) * index(THREADS * IN_FLIGHT) + index(cuda.threadIdx.x))
        if first + index(3 * THREADS) < count:
            a = load(x, find(first, sizes, shifts))
            b = load(x, find(index(first + index(THREADS)), sizes, shifts))
            c = load(x, find(index(first + index(2 * THREADS)), sizes, shifts))
            d = load(x, find(index(first + index(3 * THREADS)), sizes, shifts))
            store(y, first, a)
            store(y, index(first + index(THREADS)), b)
            store(y, index(first + index(2 * THREADS)), c)
            store(y, index(first + index(3 * THREADS)), d)
        else:
            for k in range(IN_FLIGHT):
                i = index(first + index(k * THREADS))
                if i < count:
                    store(y, i, load(x, find(i, sizes, shifts)))

    return rolled


def merged(shape: tuple[int, ...], shifts: tuple[int, ...]) -> list[tuple[int, int]]:
    """(size, shift) of the axes that are left when those that stay belong to the ones before
    them."""
    axes: list[tuple[int, int]] = []
    for size, shift in zip(shape, shifts, strict=True):
        if axes and not shift:
            axes[-1] = axes[-1][0] * size, axes[-1][1] * size
        else:
            axes.append((size, shift))
    return axes


def roll(x: Layout, *, shifts: tuple[int, ...]) -> Plan:
    """x -> the same shape in C order; shifts: for each axis, from 0 to less than its size, up to
    AXES of them not 0."""
    out = x.like()
    if not out.size:
        return Plan([out], [])
    source, steps, temps = Input(0), [], []
    if not x.contiguous:
        source, temps = Temp(0), [out]
        steps = copy_part(whole(Input(0), x), whole(source, out))
    axes = merged(out.shape, shifts)
    size, shift = axes[-1]
    lengths = size * out.itemsize, shift * out.itemsize
    aligned = temps or x.aligned
    word = next(
        w
        for w in (16, 8, 4, 2, 1)
        if not any(n % w for n in lengths)
        and (w <= min(out.itemsize, 8) or aligned and not (w == 16 and SIMULATOR))
    )
    axes[-1] = lengths[0] // word, lengths[1] // word
    element, count = min(word, 8), out.nbytes // word
    index = index_type(count + THREADS * IN_FLIGHT)
    memory = [
        place.view((out.nbytes // element,), dtype=np.dtype(WORDS[element]))
        for place in (source, Output(0))
    ]
    spare = [(1, 0)] * (AXES + 1 - len(axes))
    numbers = [
        index(n) for n in (count, *(n for n, _ in axes + spare), *(s for _, s in axes + spare))
    ]
    return Plan(
        [out],
        [
            *steps,
            Launch(
                rolled(len(axes), word == 16, index),
                blocks(count, THREADS * IN_FLIGHT),
                THREADS,
                [*memory, *numbers],
            ),
        ],
        temps,
    )
