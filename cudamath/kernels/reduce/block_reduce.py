"""Device functions of the kernels of reductions: they lift the elements of a load, combine tuples
of accumulators, combine the accumulators of a warp or of a block, and write results.

Everything here is a factory: it takes an `Accumulator` (or sizes known at compile time) and returns
a device function. Functions on tuples are generated, so the compiler sees straight-line code with
constant indices.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from ...core.specs.reduction import Accumulator
from ..compiler.decorators import device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import cuda, dtype_of, types
from ..lib.strided_index import index_walker

FULL = 0xFFFFFFFF  # all lanes of a warp


# -------------------- walking


def _generated(name: str, parameters: str, lines: Sequence[str], **names: Any) -> Any:
    """A device function of these lines. One of a few statements takes the compiler a tenth of the
    time of several that call each other."""
    source = f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in lines)
    return device_function(compiled(source, name, names))


def _tuple(items: Iterable[str]) -> str:
    return f"({', '.join(items)},)"


@functools.cache
def lift_all(reduce: Accumulator, width: int, along: bool) -> Any:
    """Device function (numbers, j) -> `width` accumulators, of elements j, j + 1, ... (`along`) or
    all of number j."""
    items = _tuple(f"lift(v[{k}], j{f' + {k}' if along and k else ''})" for k in range(width))
    return _generated("read", "v, j", [f"return {items}"], lift=reduce.lift)


@functools.cache
def tree_of(reduce: Accumulator, width: int) -> Any:
    """Device function: a tuple of `width` accumulators -> one."""

    def part(first: int, count: int) -> str:
        if count == 1:
            return f"a[{first}]"
        half = count // 2
        return f"combine({part(first, half)}, {part(first + half, half)})"

    return _generated("tree", "a", [f"return {part(0, width)}"], combine=reduce.combine)


@functools.cache
def taking(reduce: Accumulator, width: int) -> Any:
    """Device function (numbers of a load, number of the first) -> their accumulator."""
    if reduce.together is not None and width == 8:
        return reduce.together
    read, tree = lift_all(reduce, width, True), tree_of(reduce.in_order, width)

    @device_function
    def take(v, j):
        return tree(read(v, j))

    return take


@functools.cache
def pairwise(reduce: Accumulator, width: int) -> Any:
    """Device function: two tuples of `width` accumulators -> one such tuple."""
    items = _tuple(f"combine(a[{k}], b[{k}])" for k in range(width))
    return _generated("pairs", "a, b", [f"return {items}"], combine=reduce.combine)


# -------------------- meeting


@functools.cache
def lane_exchange(kind: Any) -> Any:
    """Device function (value, lane distance) -> the value of the lane that many bits away."""
    if dtype_of(kind).kind == "c":
        part = lane_exchange(kind.underlying_float)

        @device_function
        def exchange(value, distance):
            return kind(complex(part(value.real, distance), part(value.imag, distance)))

    elif kind == types.uint64:

        @device_function
        def exchange(value, distance):
            return types.uint64(cuda.shfl_xor_sync(FULL, types.int64(value), distance))

    else:

        @device_function
        def exchange(value, distance):
            return kind(cuda.shfl_xor_sync(FULL, value, distance))

    return exchange


@functools.cache
def lane_swap(reduce: Accumulator) -> Any:
    """Device function (accumulator, lane distance) -> that lane's accumulator."""
    parts = [lane_exchange(kind) for kind in reduce.kinds]
    first, second, third = (parts * 3)[:3]
    if len(parts) == 1:

        @device_function
        def swap(a, distance):
            return (first(a[0], distance),)

    elif len(parts) == 2:

        @device_function
        def swap(a, distance):
            return first(a[0], distance), second(a[1], distance)

    else:

        @device_function
        def swap(a, distance):
            return first(a[0], distance), second(a[1], distance), third(a[2], distance)

    return swap


@functools.cache
def components(reduce: Accumulator) -> tuple[Any, Any]:
    """Device functions put(arrays, i, accumulator) and get(arrays, i): one 1-d array per number, in
    a tuple of three."""
    if len(reduce.kinds) == 1:

        @device_function
        def put(arrays, i, a):
            arrays[0][i] = a[0]

        @device_function
        def get(arrays, i):
            return (arrays[0][i],)

    elif len(reduce.kinds) == 2:

        @device_function
        def put(arrays, i, a):
            arrays[0][i], arrays[1][i] = a

        @device_function
        def get(arrays, i):
            return arrays[0][i], arrays[1][i]

    else:

        @device_function
        def put(arrays, i, a):
            arrays[0][i], arrays[1][i], arrays[2][i] = a

        @device_function
        def get(arrays, i):
            return arrays[0][i], arrays[1][i], arrays[2][i]

    return put, get


@functools.cache
def across_threads(reduce: Accumulator, threads: int) -> Any:
    """Device function: the accumulators of `threads` neighbouring threads -> one, valid in the
    first of them.

    Up to 32 threads: butterfly shuffles. More (a whole block then): the first lanes of the warps
    meet in shared memory.
    """
    combine, identity, swap = reduce.combine, reduce.identity, lane_swap(reduce)
    put, get = components(reduce)
    first, second, third = (reduce.kinds * 3)[:3]
    lanes, warps = min(threads, 32), threads // 32

    @device_function
    def pairs(a):
        distance = lanes // 2
        while distance:
            a = combine(a, swap(a, distance))
            distance //= 2
        return a

    warp = reduce.meet(lanes) if reduce.meet else pairs
    if threads <= 32:
        return warp

    @device_function
    def block(a):
        shared = (
            cuda.shared.array(32, first),
            cuda.shared.array(32, second),
            cuda.shared.array(32, third),
        )
        a = warp(a)
        if cuda.threadIdx.x & 31 == 0:
            put(shared, cuda.threadIdx.x >> 5, a)
        cuda.syncthreads()
        if cuda.threadIdx.x < 32:
            a = get(shared, cuda.threadIdx.x) if cuda.threadIdx.x < warps else identity()
            a = warp(a)
        return a

    return block


@functools.cache
def columns_exchange(reduce: Accumulator, width: int, room: int) -> tuple[Any, Any, Any]:
    """For `width` accumulators at once, place i of `room`: device functions put, get (as in
    components), and none()."""
    put_one, get_one = components(reduce)
    puts = [f"put(arrays, i + {k * room}, a[{k}])" for k in range(width)]
    gets = _tuple(f"get(arrays, i + {k * room})" for k in range(width))
    nones = _tuple(["identity()"] * width)
    return (
        _generated("put_all", "arrays, i, a", puts, put=put_one),
        _generated("get_all", "arrays, i", [f"return {gets}"], get=get_one),
        _generated("none", "", [f"return {nones}"], identity=reduce.identity),
    )


@functools.cache
def for_each(act: Any, width: int) -> Any:
    """Device function (arguments, o, accumulators): act(arguments, o + i, accumulator i) for all of
    them."""
    calls = [f"act(arguments, o + {k}, a[{k}])" for k in range(width)]
    return _generated("each", "arguments, o, a", calls, act=act)


@functools.cache
def column_reducer(reduce: Accumulator, fetch: Any, width: int, across: int, down: int) -> Any:
    """Device function: a block of (across, down) threads reduces elements first .. last - 1 of
    `across` vectors of columns. fetch(arrays, c, j) -> `width` accumulators. The answer, `width`
    accumulators, is valid where y = 0."""
    pairs, after = pairwise(reduce, width), pairwise(reduce.in_order, width)
    room = max(across * down // 2, 1)
    put, get, none = columns_exchange(reduce, width, room)
    one, two, three = (reduce.kinds * 3)[:3]
    size = width * room

    @device_function
    def columns(arrays, c, first, last):
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        a, b = none(), none()
        j = first + y
        while j + 3 * down < last:  # four loads set out before the first is used
            p = fetch(arrays, c, j)
            q = fetch(arrays, c, j + down)
            r = fetch(arrays, c, j + 2 * down)
            s = fetch(arrays, c, j + 3 * down)
            a = after(a, after(after(p, q), after(r, s)))
            j += 4 * down
        while j < last:
            b = after(b, fetch(arrays, c, j))
            j += down
        a = after(a, b)
        if down > 1:
            shared = (
                cuda.shared.array(size, one),
                cuda.shared.array(size, two),
                cuda.shared.array(size, three),
            )
            height = down // 2
            while height:  # the lower half of the threads takes over what the upper half has
                if height <= y < 2 * height:
                    put(shared, (y - height) * across + x, a)
                cuda.syncthreads()
                if y < height:
                    a = pairs(a, get(shared, y * across + x))
                cuda.syncthreads()
                height //= 2
        return a

    return columns


@functools.cache
def result_writer(reduce: Accumulator, kept: int, narrow: bool) -> Any:
    """Device function ((out, divisor), o, accumulator): the o-th result."""
    index, finish = index_walker(0, kept, narrow), reduce.finish

    @device_function
    def write(arguments, o, a):
        arguments[0][index(arguments[0], o)] = finish(a, arguments[1])

    return write
