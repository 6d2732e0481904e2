"""Moving elements: copies between any two layouts, casts, fills, and the pieces of concat, pad and
where; the choice among the kernels of a copy.

The idea. A copy reads every element once and writes it once. The floor is (bytes in + bytes out) /
bandwidth, and only the order of the accesses decides how near a kernel comes: neighbouring threads
should touch neighbouring addresses, in wide words, with several loads in flight. What the bits mean
does not matter to a copy, so all kernels but the casts move unsigned words of 1, 2, 4 or 8 bytes.

What ``copy_part`` does with a pair of layouts:

1. It sorts the axes by the stride of the target and merges those that are contiguous in both
   (``shapes.collapse``). Most copies become one- or two-dimensional; a copy between two equally
   transposed arrays becomes a straight line.
2. It widens: where the innermost runs are contiguous in both and all distances are multiples of 8
   bytes, a run of float32 becomes a run of uint64 half as long; of 4 or 2, narrower words.
3. It picks a kernel:

       line          both contiguous: a straight line of words (lines.py), and
       line_vector   the same by accesses of 16 bytes, where both sides are aligned to that,
       line_cast     with a cast
       tiled         the target runs along one axis and the source along another (a transpose, NCHW
                     <-> NHWC): squares are staged in shared memory, so that each side is walked
                     along its own rows (lib/transpose_tiles.py)
       rows          the last axis of what is left has as many elements as a line of threads: a
                     thread finds its row once, for all its elements (strided.py)
       broadcast     the target is contiguous, and elements of the source fill several places of it
                     (repeat along the last axis, rows of all lengths): whole accesses are written
                     (the kernel of elementwise operations with a broadcast operand)
       repeated      rows of a source whose elements go to several places (repeat, tile, a
                     broadcast): each is read once (strided.py)
       strided       anything else of up to 4 dimensions: the element's number is taken apart by
                     division (strided.py)
       elementwise   more dimensions (windows of images, say): the kernel of elementwise operations
                     (elementwise/dispatch.py)

Fills and arithmetic progressions: fill.py. Other planners use ``copy_part`` and ``fill_part`` too:
a ``Part`` is a view inside one of a plan's arguments.

Measured (row copy_transposed):
a.T in C order, 8192x8192; NVIDIA H200, commit 52457ee46004, 2026-11-23

                   GB/s     of a copy
    cudamath      4,017          0.95
    torch         1,144          0.27
    cupy          1,177          0.28

(end of what was measured)
"""

from __future__ import annotations

import numpy as np

from ...core import shapes
from ...core.dispatch.steps import Launch
from ...core.dtypes import COMPLEX
from ..compiler.lazy_numba import SIMULATOR
from ..elementwise.problem import FEW
from ..lib.versions import Version, first
from .parts import IN_FLIGHT, MANY, WORDS, Part, widest_word
from .problem import CopyProblem

MOST_DIMS = 4  # of the strided kernels
LONG_ROW = 8 * IN_FLIGHT  # elements
MOST_PLACES = 64  # of an element that a thread writes


def is_line(p: CopyProblem) -> bool:
    return p.is_line


def has_vectors(p: CopyProblem) -> bool:
    """A line of words of 8 bytes, in whole accesses of 16."""
    words = not p.is_cast and p.words[0].itemsize == 8
    return not SIMULATOR and words and p.aligned and p.size % 2 == 0 and p.is_line


def has_cast_vectors(p: CopyProblem) -> bool:
    """A line in whole accesses of four elements."""
    return not SIMULATOR and p.is_cast and p.aligned and p.size % 4 == 0 and p.is_line


def has_few_axes(p: CopyProblem) -> bool:
    return len(p.shape) <= MOST_DIMS


def has_long_rows(p: CopyProblem) -> bool:
    """Many elements, in rows of which eight threads have all that they can have under way: there
    divisions for each element take longer than its bytes (2,972 x 1,671 uint8 upside down: 19 us on
    an H100, the bytes 5). A small copy takes the time of a launch."""
    rows = 2 <= len(p.shape) <= MOST_DIMS and p.shape[-1] >= LONG_ROW
    return rows and p.size >= MANY


def is_broadcast(p: CopyProblem) -> bool:
    """A dense target of which each element of the source fills several places: whole accesses are
    written. Element by element they take a division and a store each (245 x 14,574 bfloat16, each
    twice: 29 us on an H100, the bytes 6)."""
    if SIMULATOR or not p.aligned or min(p.strides[0]) != 0:
        return False
    return shapes.is_contiguous(p.shape, p.strides[1], p.words[1].itemsize)


def prefers_parts(p: CopyProblem) -> bool:
    """Many elements, where equal neighbours follow each other or sources are not read once for all
    their places."""
    return p.size >= FEW and (p.strides[0][-1] == 0 or not repeats(p))


def repeats(p: CopyProblem) -> bool:
    """Many elements, each of which goes to a few places, in rows as long: read once for all of
    them, not again from the L2 cache or, where the places are far apart, from memory. Neighbours
    that are equal are written side by side instead: "broadcast"."""
    if len(p.shape) > MOST_DIMS or 0 not in p.strides[0][:-1]:
        return False
    axis = p.strides[0].index(0)
    places = p.shape[axis]
    rest = [n for i, n in enumerate(p.shape) if i != axis]
    return places <= MOST_PLACES and rest[-1] >= LONG_ROW and p.size >= places * MANY


COPY = (
    Version("line_vector", "copy.lines.by_vectors", has_vectors),
    Version("line_cast", "copy.lines.by_casts", has_cast_vectors),
    Version("line", "copy.lines.by_words", is_line),
    Version("tiled", "copy.strided.by_tiles"),
    Version("broadcast", "copy.strided.by_parts", is_broadcast, prefers_parts),
    Version("repeated", "copy.strided.by_repeats", repeats),
    Version("rows", "copy.strided.by_rows", has_long_rows),
    Version("strided", "copy.strided.by_strides", has_few_axes),
    Version("elementwise", "copy.strided.by_elements"),
)


def copy_part(source: Part, target: Part) -> list[Launch]:
    """Launches for ``target[...] = source`` with a cast if the dtypes differ. Shapes must be equal;
    the parts must not overlap."""
    if not target.layout.size:
        return []
    order = shapes.axes_by_stride(target.layout.strides)
    shape, from_strides, to_strides = shapes.collapse(
        *(
            tuple([s[i] for i in order])
            for s in (target.layout.shape, source.layout.strides, target.layout.strides)
        )
    )
    words = (source.layout.dtype, target.layout.dtype)
    aligned = source.layout.aligned and target.layout.aligned and not COMPLEX & {*words}
    if words[0] == words[1]:
        shape, from_strides, to_strides, word = _widen(
            shape, from_strides, to_strides, source.layout, target.layout
        )
        words = (word, word)
    if not shape:
        shape, from_strides, to_strides = (1,), (words[0].itemsize,), (words[1].itemsize,)
    problem = CopyProblem(
        source.argument,
        target.argument,
        (source.offset, target.offset),
        shape,
        (from_strides, to_strides),
        words,
        aligned,
    )
    return [first(COPY, problem)]


def _widen(shape, from_strides, to_strides, source, target):
    """The same copy in the widest words that both sides allow, up to 8 bytes."""
    size = target.itemsize
    if size == 16:  # two words per element
        return (*shape, 2), (*from_strides, 8), (*to_strides, 8), np.dtype(np.uint64)
    word = np.dtype(WORDS[size])
    if (
        not shape
        or from_strides[-1] != size
        or to_strides[-1] != size
        or not (source.aligned and target.aligned)
    ):
        return shape, from_strides, to_strides, word
    wide = widest_word(size, [*from_strides[:-1], *to_strides[:-1], shape[-1] * size])
    short = (*shape[:-1], shape[-1] * size // wide)
    word = np.dtype(WORDS[wide])
    return short, (*from_strides[:-1], wide), (*to_strides[:-1], wide), word
