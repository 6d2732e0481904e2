"""Moving elements: copies between any two layouts, casts, fills, and the pieces of concat, pad and
where.

The idea. A copy reads every element once and writes it once; the floor is (bytes in + bytes out) /
bandwidth, and only the order of the accesses decides how near a kernel comes: neighbouring threads
should touch neighbouring addresses, in wide words, with several loads in flight. What the bits mean
does not matter to a copy, so all kernels but the casts move unsigned words of 1, 2, 4 or 8 bytes.

What ``copy_part`` does with a pair of layouts:

1. Sorts the axes by the stride of the target and merges those that are contiguous in both
   (``shapes.collapse``). Most copies become one- or two-dimensional; a copy between two equally
   transposed arrays becomes a straight line.
2. Widens: where the innermost runs are contiguous in both and all distances are multiples of 8
   bytes, a run of float32 becomes a run of uint64 half as long.
3. Picks a kernel:
   ``line``     both contiguous: a straight line of words, 4 independent loads in flight a thread;
                and
   ``line_vector``, ``line_cast`` the same by accesses of 16 bytes, where both sides are aligned to
   that.
   ``tiled``    the target runs along one axis and the source along another (a transpose, NCHW <->
                NHWC): squares
                are staged in shared memory, so that each side is walked along its own rows
                (lib/transpose_tiles.py).
   ``strided``  anything else of up to 4 dimensions: the element's number is taken apart by
   division. Of more
                dimensions (windows of images, say): ``plain``, the kernel of elementwise operations
                (elementwise/generator.py).

``fill`` writes one value, ``ramp`` an arithmetic progression.
Other planners use ``copy_part`` and ``fill_part`` too: a ``Part`` is a view inside one of a plan's
arguments.

Measured (row copy_transposed):
a.T in C order, 8192x8192; NVIDIA H200, commit 52457ee46004, 2026-11-23

                   GB/s     of a copy
    cudamath      4,017          0.95
    torch         1,144          0.27
    cupy          1,177          0.28

(end of what was measured)
"""

import functools
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core import shapes
from ...core.dispatch.steps import Launch
from ...core.dtypes import BOOLEAN, COMPLEX, float16, float64
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda
from ..elementwise.generator import plain
from ..lib.codec import codec
from ..lib.transpose_tiles import Operand, tiled
from ..ptx import conversions as ptx_conversions

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

THREADS = 256
IN_FLIGHT = 4  # independent loads a thread has in flight, to cover the latency of DRAM
MOST_DIMS = 4  # of the strided kernels
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
LONG_LINE = 64  # elements of lines that are filled one by one
MOST_LINES = 65_535  # of a grid's second dimension


# -------------------- casts


@functools.cache
def converter(source: np.dtype, target: np.dtype) -> Any:
    """A device function from a stored element of dtype ``source`` to one of ``target``, as NumPy's
    ``astype``."""
    if source == target:

        @device_function
        def same(v):
            return v

        return same
    if (source, target) == (float64, float16):  # through float32 it would be rounded twice
        return ptx_conversions.double_to_half
    load = codec(source)[0]
    _, store, T = codec(target)
    if target in BOOLEAN:

        @device_function
        def truth(v):
            return T(1) if load(v) != 0 else T(0)

        return truth
    if source in COMPLEX and target not in COMPLEX:

        @device_function
        def real(v):
            return store(T(load(v).real))

        return real

    @device_function
    def cast(v):
        return store(T(load(v)))

    return cast


# -------------------- kernels


@functools.cache
def line(source: np.dtype, target: np.dtype) -> Any:
    """(n,) -> (n,), both contiguous. Block b moves elements 1024 b ...; thread t takes t, t + 256,
    t + 512, t + 768."""
    convert = converter(source, target)

    @cuda.jit
    def line(x, y):  # x: (n,) source, y: (n,) target
        first = cuda.blockIdx.x * (THREADS * IN_FLIGHT) + cuda.threadIdx.x
        if (
            first + 3 * THREADS < y.size
        ):  # all four loads go out before the first store waits for one
            a = x[first]
            b = x[first + THREADS]
            c = x[first + 2 * THREADS]
            d = x[first + 3 * THREADS]
            y[first] = convert(a)
            y[first + THREADS] = convert(b)
            y[first + 2 * THREADS] = convert(c)
            y[first + 3 * THREADS] = convert(d)
        else:
            for i in range(first, min(first + 4 * THREADS, y.size), THREADS):
                y[i] = convert(x[i])

    return line


@functools.cache
def line_vector() -> Any:
    """(n,) -> (n,) words of 8 bytes, both contiguous, 16-byte aligned, n even: a thread moves two
    neighbours by one wide load and one wide store. There are threads enough to cover the latency:
    four accesses each take 5 % longer (1 GiB: 527 us, one access 504, the driver's own copy 508).
    """

    @cuda.jit
    def line_vector(x, y):
        i = 2 * (cuda.blockIdx.x * THREADS + cuda.threadIdx.x)
        if i < y.size:
            store_vector(y, i, load_vector(x, i, 2))

    return line_vector


@functools.cache
def line_cast(source: np.dtype, target: np.dtype) -> Any:
    """(n,) -> (n,) as line_vector, four neighbours at a time, which a thread does 4 times: the
    accesses of the narrower array are less than 16 bytes."""
    convert = converter(source, target)

    @cuda.jit
    def line_cast(x, y):  # x: (n,) source, y: (n,) target
        first = cuda.blockIdx.x * (THREADS * IN_FLIGHT) + cuda.threadIdx.x
        last = y.size // 4
        if first + 3 * THREADS < last:
            a = load_vector(x, first * 4, 4)
            b = load_vector(x, (first + THREADS) * 4, 4)
            c = load_vector(x, (first + 2 * THREADS) * 4, 4)
            d = load_vector(x, (first + 3 * THREADS) * 4, 4)
            store_vector(y, first * 4, (convert(a[0]), convert(a[1]), convert(a[2]), convert(a[3])))
            store_vector(
                y,
                (first + THREADS) * 4,
                (convert(b[0]), convert(b[1]), convert(b[2]), convert(b[3])),
            )
            store_vector(
                y,
                (first + 2 * THREADS) * 4,
                (convert(c[0]), convert(c[1]), convert(c[2]), convert(c[3])),
            )
            store_vector(
                y,
                (first + 3 * THREADS) * 4,
                (convert(d[0]), convert(d[1]), convert(d[2]), convert(d[3])),
            )
        else:
            for i in range(first, min(first + 4 * THREADS, last), THREADS):
                for k in range(i * 4, (i + 1) * 4):
                    y[k] = convert(x[k])

    return line_cast


@functools.cache
def strided(rank: int, source: np.dtype, target: np.dtype, index: Any) -> Any:
    """Any strides, 1 to 4 dimensions; thread i moves the i-th element in row-major order. ``index``
    is uint32, or uint64 for 2**32 elements and more: 64-bit divisions cost several times as much.
    """
    convert = converter(source, target)

    @cuda.jit
    def strided(x, y):  # x, y: same shape, `rank` dimensions
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        # `rank` is a constant: Numba drops the branches of the other ranks before it looks at their
        # types.
        if rank == 1:
            if i < index(y.shape[0]):
                y[i] = convert(x[i])
        elif rank == 2:
            n = index(y.shape[1])
            j = i // n
            if j < index(y.shape[0]):
                y[j, i - j * n] = convert(x[j, i - j * n])
        elif rank == 3:
            n = index(y.shape[2])
            m = index(y.shape[1])
            j = i // n
            k = j // m
            if k < index(y.shape[0]):
                y[k, j - k * m, i - j * n] = convert(x[k, j - k * m, i - j * n])
        else:
            n = index(y.shape[3])
            m = index(y.shape[2])
            o = index(y.shape[1])
            j = i // n
            k = j // m
            p = k // o
            if p < index(y.shape[0]):
                y[p, k - p * o, j - k * m, i - j * n] = convert(
                    x[p, k - p * o, j - k * m, i - j * n]
                )

    return strided


@functools.cache
def fill_line(word: Any) -> Any:
    """Every word of a contiguous target = the low bits of ``even`` or ``odd`` by turns (complex128
    is two words)."""

    @cuda.jit
    def fill_line(y, even, odd):  # y: (n,) words; even, odd: uint64
        first = cuda.blockIdx.x * (THREADS * IN_FLIGHT) + cuda.threadIdx.x
        for i in range(first, min(first + IN_FLIGHT * THREADS, y.size), THREADS):
            y[i] = word(odd) if i & 1 else word(even)

    return fill_line


@functools.cache
def fill_lines(word: Any) -> Any:
    """The same for a target of lines of any strides, of elements of at most a word."""

    @cuda.jit
    def fill_lines(y, even):  # y: (lines, n) words; even: uint64
        first = cuda.blockIdx.x * (THREADS * IN_FLIGHT) + cuda.threadIdx.x
        for line in range(cuda.blockIdx.y, y.shape[0], cuda.gridDim.y):
            for i in range(first, min(first + IN_FLIGHT * THREADS, y.shape[1]), THREADS):
                y[line, i] = word(even)

    return fill_lines


@functools.cache
def ramp_line(dtype: np.dtype) -> Any:
    """y[i] = start + i * step for i < count, stop from there on (linspace: its last element is
    exactly the end)."""
    _, store, T = codec(dtype)

    @cuda.jit
    def ramp_line(y, start, step, stop, count):  # y: (n,); start, step, stop: T; count: int64
        i = cuda.grid(1)
        if i < y.size:
            y[i] = store(start + T(i) * step) if i < count else store(stop)

    return ramp_line


# -------------------- launches for parts of arguments


class Part(NamedTuple):
    """A view inside an argument of a plan: ``layout`` starting ``offset`` bytes after the
    argument's first element."""

    argument: Any
    layout: Layout
    offset: int = 0

    def slice(self, axis: int, start: int, size: int) -> "Part":
        """Elements start ... start + size - 1 along one axis."""
        layout = self.layout
        step = start * layout.strides[axis] if layout.size else 0
        shape = (*layout.shape[:axis], size, *layout.shape[axis + 1 :])
        return Part(self.argument, layout.view(shape, layout.strides, step), self.offset + step)

    def every(self, axis: int, start: int, step: int, size: int) -> "Part":
        """Elements start, start + step, ... along one axis: `size` of them."""
        part = self.slice(axis, start, size)
        strides = list(part.layout.strides)
        strides[axis] *= step
        return part._replace(layout=part.layout.view(part.layout.shape, tuple(strides)))

    def broadcast(self, shape: shapes.Shape) -> "Part":
        """The same elements repeated to a shape."""
        layout = self.layout
        return self._replace(
            layout=layout.view(shape, shapes.broadcast_strides(layout.shape, layout.strides, shape))
        )


def whole(argument: Any, layout: Layout) -> Part:
    """All of an argument."""
    return Part(argument, layout)


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
    return [
        _launch(
            source.argument,
            source.offset,
            from_strides,
            target.argument,
            target.offset,
            to_strides,
            shape,
            words,
            aligned,
        )
    ]


def _widen(shape, from_strides, to_strides, source, target):
    """The same copy in the widest words: of 8 bytes if both sides allow it, else of the item's
    size."""
    size = target.itemsize
    if size == 16:  # two words per element
        return (*shape, 2), (*from_strides, 8), (*to_strides, 8), np.dtype(np.uint64)
    word = np.dtype(_WORDS[size])
    if (
        not shape
        or from_strides[-1] != size
        or to_strides[-1] != size
        or not (source.aligned and target.aligned)
    ):
        return shape, from_strides, to_strides, word
    if any(s % 8 for s in (*from_strides[:-1], *to_strides[:-1], shape[-1] * size)):
        return shape, from_strides, to_strides, word
    short = (*shape[:-1], shape[-1] * size // 8)
    return short, (*from_strides[:-1], 8), (*to_strides[:-1], 8), np.dtype(np.uint64)


def _launch(
    source, from_offset, from_strides, target, to_offset, to_strides, shape, words, aligned
) -> Launch:
    """The kernel for collapsed dimensions."""
    if not shape:
        shape, from_strides, to_strides = (1,), (words[0].itemsize,), (words[1].itemsize,)
    size = prod(shape)
    views = [
        _view(source, shape, from_strides, words[0], from_offset),
        _view(target, shape, to_strides, words[1], to_offset),
    ]
    if (
        len(shape) == 1
        and from_strides[0] == words[0].itemsize
        and to_strides[0] == words[1].itemsize
    ):
        same = words[0] == words[1]
        count = 2 if same else 4  # elements of an access of 16 bytes: two words, or a cast
        if not aligned or (same and words[0].itemsize < 8) or size % count or SIMULATOR:
            return Launch(line(*words), -(-size // (THREADS * IN_FLIGHT)), THREADS, views)
        if same:
            return Launch(line_vector(), -(-size // (THREADS * count)), THREADS, views)
        return Launch(line_cast(*words), -(-size // (THREADS * IN_FLIGHT * count)), THREADS, views)
    memory = [
        (
            (max(shapes.byte_bounds(shape, strides, word.itemsize)[1] // word.itemsize, 1),),
            None,
            word,
        )
        for strides, word in zip((from_strides, to_strides), words, strict=True)
    ]
    crossed = tiled(
        converter(*words),
        ("x",),
        [Operand(_view(source, *memory[0], from_offset), words[0], from_strides, aligned)],
        Operand(_view(target, *memory[1], to_offset), words[1], to_strides, aligned),
        shape,
    )
    if crossed:
        return crossed
    if len(shape) > MOST_DIMS:
        return plain(converter(*words), (True,), views[:1], views[1], shape)
    return Launch(
        strided(len(shape), *words, index_type(size)), -(-size // THREADS), THREADS, views
    )


def _view(argument, shape, strides, dtype, offset):
    return argument.view(shape, strides, dtype=dtype, offset=offset)


def index_type(size: int) -> Any:
    """The index type for that many threads: the last block may count past the end."""
    return np.uint32 if size + THREADS < 2**32 else np.uint64


def fill_part(target: Part, even: Any, odd: Any, temp: Any) -> list[Launch]:
    """Launches that fill a part with one value, given as the two 8-byte halves of 16 bytes of it
    (``ops.shape.bits``).
    ``temp`` is scratch for one element, used only if there is more than one launch."""
    layout = target.layout
    if not layout.size:
        return []
    if not layout.contiguous:
        order = shapes.axes_by_stride(layout.strides)
        shape, steps = shapes.collapse(
            *[tuple([x[i] for i in order]) for x in (layout.shape, layout.strides)]
        )
        if (
            layout.itemsize <= 8
            and shape
            and (len(shape) == 1 or (len(shape) == 2 and shape[1] >= LONG_LINE))
        ):
            count, n = (1, *shape)[-2:]
            word = np.dtype(_WORDS[layout.itemsize])
            lines = _view(target.argument, (count, n), (0, *steps)[-2:], word, target.offset)
            grid = -(-n // (THREADS * IN_FLIGHT)), min(count, MOST_LINES)
            return [Launch(fill_lines(word.type), grid, THREADS, [lines, even])]
        one = Layout.new((), layout.dtype, layout.device)
        return [
            *fill_part(whole(temp, one), even, odd, None),
            *copy_part(whole(temp, one).broadcast(layout.shape), target),
        ]
    size = 8 if layout.nbytes % 8 == 0 and layout.aligned else layout.itemsize
    words = layout.nbytes // size
    return [
        Launch(
            fill_line(_WORDS[size]),
            -(-words // (THREADS * IN_FLIGHT)),
            THREADS,
            [
                _view(target.argument, (words,), (size,), np.dtype(_WORDS[size]), target.offset),
                even,
                odd,
            ],
        )
    ]
