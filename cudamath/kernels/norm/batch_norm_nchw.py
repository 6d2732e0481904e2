"""Batch norm and its gradient where a channel's numbers lie in runs: the kernels that read them
(batch_norm.py and batch_norm_backward.py explain the steps).

The picture. A block's threads stand along a run. Each takes `elements_per_thread` elements of it in
some accesses of 16 bytes, and issues all loads before it works on any. 16-bit numbers stay packed
until they are worked on, two to a register, and a thread holds 32: the cost of an item of work, its
place and its tests, is then shared by as many bytes as in float32. Counted in instructions a number
of bfloat16, with 16 of them a thread and now: `moments` 19 and 7, `apply` 19 and 8, `sums` 18 and
10, `slope` 24 and 13. At the memory's rate there is room for some 13 to each number read or
written.

The sums of the gradient are of float32 however narrow the numbers, and narrow numbers are the worst
for them. Numbers of float16 near 3,000 are even, so all distances to a mean of 2519.35 have the
same digits after the point. As long as a sum is so large that these no longer fit, every addition
loses the same: 800 of them 800 times that, not the 30 times that chance would have it. A thread
that stands where an image has its border gets such a sum, and what sum d lost, times the mean of g,
is an error of sum g d. So `sums` adds FEW numbers, then what so few gave in an item, then the
items, and with those of d what the addition before has lost (Kahan 1965).
"""

import functools
import math

from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.codec import codec
from ..lib.vector_io import fetcher, writer
from .batch_norm_welford import LONG, chan, elements_per_thread, typical

i32 = types.int32
FEW = 4  # numbers, at least, that `sums` adds up by themselves


@functools.cache
def channel_of(rows):
    """Device function (block, row, channels): the channel of run number block * rows + row. A
    64-bit division, some hundred instructions, is left to blocks of several runs, which are short.
    """

    @device_function
    def of_block(block, row, channels):
        return types.int64(types.uint32(block) % types.uint32(channels))

    @device_function
    def of_row(block, row, channels):
        return (block * rows + row) % channels

    return of_block if rows == 1 else of_row


@functools.cache
def block_of(transposed):
    """Device function: this block's number along the runs, and along a run. `transposed`: a run has
    more chunks than a grid has room for in its second dimension (`Geometry.whole`), so the first
    one counts them."""

    @device_function
    def upright():
        return cuda.blockIdx.x, cuda.blockIdx.y

    @device_function
    def sideways():
        return cuda.blockIdx.y, cuda.blockIdx.x

    return sideways if transposed else upright


@functools.cache
def moments(dtype, threads, rows, width):
    """Block (c, split) reads some runs of channel c; x: accesses (see rows.fetcher), `single` as it
    is; parts: (4, splits, C).

    Block (threads, rows). An item of work is a chunk of a run, as many elements as `threads`
    threads hold; `chunks` of them make a run. A thread adds up the distances of LONG items to a
    center, and their squares: three operations per element. The center is the mean of the first of
    these items, then of all before. As that is one of at most LONG, or they are at most so many
    times it, no more than four bits of the squares cancel.
    """
    _, _, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    pivot, merged, raw = typical(dtype), chan(T), numba_type(kind)
    vectors = elements_per_thread(dtype, width) // width
    packed, most = vectors * words, threads * vectors
    size = threads * rows

    @bounded((size, max((1024 if T == types.float32 else 512) // size, 1)))
    def batch_segments_moments(x, single, parts, items, chunks, channels, run):
        counts = cuda.shared.array(size, T)
        means = cuda.shared.array(size, T)
        squares = cuda.shared.array(size, T)
        c, tx = cuda.blockIdx.x, i32(cuda.threadIdx.x)
        step = cuda.gridDim.y * rows
        item = cuda.blockIdx.y * rows + cuda.threadIdx.y
        samples = items // chunks
        origin = pivot(
            single[c * run],
            single[(samples // 2 * channels + c) * run + run // 2],
            single[(samples - 1) * channels * run + (c + 1) * run - 1],
        )
        accesses = run // width
        sample = item // chunks
        chunk = item - sample * chunks
        samples_on = step // chunks  # a step is so many samples, and so many chunks
        chunks_on = step - samples_on * chunks
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(width, T)
        center = origin
        count = T(0)
        mean = T(0)
        m2 = T(0)
        fresh = True
        while item < items:
            here = T(0)
            total = T(0)
            square = T(0)
            stop = min(item + LONG * step, items)
            while item < stop:
                start = (sample * channels + c) * accesses + chunk * most
                inside = i32(min(accesses - chunk * most, most))  # accesses of this chunk
                for k in range(vectors):
                    fetch(x, start + min(i32(k * threads + tx), i32(inside - 1)), r, k * words)
                if fresh:
                    fresh = False
                    number = T(0)
                    for k in range(vectors):
                        if i32(k * threads + tx) < inside:
                            number += T(width)
                            widen(r, k * words, v, 0)
                            for j in range(width):
                                total += v[j] - origin
                    center = origin + total / max(number, T(1))
                    total = T(0)
                for k in range(vectors):
                    if i32(k * threads + tx) < inside:
                        here += T(width)
                        widen(r, k * words, v, 0)
                        for j in range(width):
                            d = v[j] - center
                            total += d
                            square += d * d
                item += step
                sample += samples_on
                chunk += chunks_on
                if chunk >= chunks:
                    chunk -= chunks
                    sample += 1
            middle = total / max(here, T(1))
            delta = middle + (center - origin - mean)
            share = here / max(count + here, T(1))
            m2 += max(square - total * middle, T(0)) + delta * delta * count * share
            mean += delta * share
            count += here
            center = origin + mean
        t = cuda.threadIdx.y * threads + cuda.threadIdx.x
        counts[t] = count
        means[t] = mean
        squares[t] = m2
        half = size // 2
        while half > 0:
            cuda.syncthreads()
            if t < half:
                u = t + half
                count, mean, m2 = merged(count, mean, m2, counts[u], means[u], squares[u])
                counts[t] = count
                means[t] = mean
                squares[t] = m2
            half //= 2
        if t == 0:
            parts[0, cuda.blockIdx.y, c] = count
            parts[1, cuda.blockIdx.y, c] = mean
            parts[2, cuda.blockIdx.y, c] = m2
            parts[3, cuda.blockIdx.y, c] = origin

    return batch_segments_moments


@functools.cache
def apply(dtype, param, stat, inference, add, relu, threads, rows, width, transposed):
    """y, for S > 1; x, more: accesses (see rows.fetcher); y: (N * C * S,); weight, bias, mean,
    scale: (C,).

    Block (threads, rows), grid (runs, chunks), or `transposed`. `scale` is rstd, in inference the
    variance, from which it is computed; `more` is the residual, and is not read without `add`.
    """
    _, _, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    write, raw, channel = writer(dtype, width), numba_type(kind), channel_of(rows)
    place = block_of(transposed)
    load_param, load_stat = codec(param)[0], codec(stat)[0]
    vectors = elements_per_thread(dtype, width) // width
    packed, most = vectors * words, threads * vectors

    @bounded(threads * rows)
    def batch_apply_segments(x, more, mean, scale, weight, bias, y, runs, channels, run, eps):
        lines, chunk = place()
        line = lines * rows + cuda.threadIdx.y
        tx = i32(cuda.threadIdx.x)
        first = chunk * most
        accesses = run // width
        r_x = cuda.local.array(packed, raw)
        r_more = cuda.local.array(packed, raw)
        v = cuda.local.array(width, T)
        r = cuda.local.array(width, T)
        if line < runs:
            c = channel(lines, cuda.threadIdx.y, channels)
            start = line * accesses + first
            inside = i32(min(accesses - first, most))
            for k in range(vectors):
                at = start + min(i32(k * threads + tx), i32(inside - 1))
                fetch(x, at, r_x, k * words)
                if add:
                    fetch(more, at, r_more, k * words)
            spread_ = load_stat(scale[c])
            rstd = T(1) / math.sqrt(spread_ + eps) if inference else spread_
            factor = rstd * load_param(weight[c])
            middle = load_stat(mean[c])
            shift = load_param(bias[c])
            for k in range(vectors):
                if i32(k * threads + tx) < inside:
                    widen(r_x, k * words, v, 0)
                    if add:
                        widen(r_more, k * words, r, 0)
                    for j in range(width):
                        v[j] = (v[j] - middle) * factor + shift
                        if add:
                            v[j] += r[j]
                        if relu:
                            v[j] = T(0) if v[j] < T(0) else v[j]  # NaN stays
                    write(y, (start + i32(k * threads + tx)) * width, v, 0)

    return batch_apply_segments


@functools.cache
def sums(dtype, param, relu, with_y, two, threads, rows, width):
    """As `moments`, with g, more, x, y: accesses; dr: (N * C * S,); weight, bias, mean, rstd: (C,);
    parts: (3, splits, C)."""
    _, _, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    write, raw, load_param = writer(dtype, width), numba_type(kind), codec(param)[0]
    vectors = elements_per_thread(dtype, width) // width
    packed, most = vectors * words, threads * vectors
    size = threads * rows
    few = max(FEW // width, 1)  # accesses

    @bounded(size)
    def batch_segments_sums(
        g, more, x, y, weight, bias, mean, rstd, dr, parts, items, chunks, channels, run
    ):
        sums_g = cuda.shared.array(size, T)
        sums_gd = cuda.shared.array(size, T)
        sums_d = cuda.shared.array(size, T)
        c, tx = cuda.blockIdx.x, i32(cuda.threadIdx.x)
        step = cuda.gridDim.y * rows
        item = cuda.blockIdx.y * rows + cuda.threadIdx.y
        accesses = run // width
        sample = item // chunks
        chunk = item - sample * chunks
        samples_on = step // chunks  # a step is so many samples, and so many chunks
        chunks_on = step - samples_on * chunks
        middle = mean[c]
        factor = load_param(weight[c]) * rstd[c]
        shift = load_param(bias[c])
        r_g = cuda.local.array(packed, raw)
        r_x = cuda.local.array(packed, raw)
        r_more = cuda.local.array(packed, raw)
        r_y = cuda.local.array(packed, raw)
        a = cuda.local.array(width, T)
        v = cuda.local.array(width, T)
        z = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        sum_g = T(0)
        sum_gd = T(0)
        sum_d = T(0)
        lost = T(0)  # what sum_d has too much
        while item < items:
            start = (sample * channels + c) * accesses + chunk * most
            inside = i32(min(accesses - chunk * most, most))  # accesses of this chunk
            for k in range(vectors):
                at = start + min(i32(k * threads + tx), i32(inside - 1))
                fetch(g, at, r_g, k * words)
                fetch(x, at, r_x, k * words)
                if two:
                    fetch(more, at, r_more, k * words)
                if with_y:
                    fetch(y, at, r_y, k * words)
            item_g, item_gd, item_d = T(0), T(0), T(0)
            few_g, few_gd, few_d = T(0), T(0), T(0)
            for k in range(vectors):
                if i32(k * threads + tx) < inside:
                    widen(r_g, k * words, a, 0)
                    widen(r_x, k * words, v, 0)
                    if two:
                        widen(r_more, k * words, b, 0)
                    if with_y:
                        widen(r_y, k * words, z, 0)
                    for j in range(width):
                        d = v[j] - middle
                        if two:
                            a[j] += b[j]
                        if relu:
                            z[j] = d * factor + shift
                        if relu or with_y:
                            a[j] = a[j] if z[j] > T(0) else T(0)
                        few_g += a[j]
                        few_gd += a[j] * d
                        few_d += d
                    if with_y:
                        write(dr, (start + i32(k * threads + tx)) * width, a, 0)
                if (k + 1) % few == 0:
                    item_g += few_g
                    item_gd += few_gd
                    item_d += few_d
                    few_g, few_gd, few_d = T(0), T(0), T(0)
            sum_g += item_g
            sum_gd += item_gd
            item_d -= lost
            more_d = sum_d + item_d
            lost = (more_d - sum_d) - item_d
            sum_d = more_d
            item += step
            sample += samples_on
            chunk += chunks_on
            if chunk >= chunks:
                chunk -= chunks
                sample += 1
        t = cuda.threadIdx.y * threads + cuda.threadIdx.x
        sums_g[t] = sum_g
        sums_gd[t] = sum_gd
        sums_d[t] = sum_d
        half = size // 2
        while half > 0:
            cuda.syncthreads()
            if t < half:
                sums_g[t] += sums_g[t + half]
                sums_gd[t] += sums_gd[t + half]
                sums_d[t] += sums_d[t + half]
            half //= 2
        if t == 0:
            parts[0, cuda.blockIdx.y, c] = sums_g[0]
            parts[1, cuda.blockIdx.y, c] = sums_gd[0]
            parts[2, cuda.blockIdx.y, c] = sums_d[0]

    return batch_segments_sums


@functools.cache
def slope(dtype, param, relu, threads, rows, width, transposed):
    """dx; g, x: accesses; dx: (N * C * S,); weight, bias, mean, rstd: (C,); means: (2, C); launched
    as `apply`."""
    _, _, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    write, raw, channel, load_param = (
        writer(dtype, width),
        numba_type(kind),
        channel_of(rows),
        codec(param)[0],
    )
    place = block_of(transposed)
    vectors = elements_per_thread(dtype, width) // width
    packed, most = vectors * words, threads * vectors

    @bounded(threads * rows)
    def batch_slope_segments(g, x, weight, bias, mean, rstd, means, dx, runs, channels, run):
        lines, chunk = place()
        line = lines * rows + cuda.threadIdx.y
        tx = i32(cuda.threadIdx.x)
        first = chunk * most
        accesses = run // width
        r_g = cuda.local.array(packed, raw)
        r_x = cuda.local.array(packed, raw)
        a = cuda.local.array(width, T)
        v = cuda.local.array(width, T)
        if line < runs:
            c = channel(lines, cuda.threadIdx.y, channels)
            start = line * accesses + first
            inside = i32(min(accesses - first, most))
            for k in range(vectors):
                at = start + min(i32(k * threads + tx), i32(inside - 1))
                fetch(g, at, r_g, k * words)
                fetch(x, at, r_x, k * words)
            factor = load_param(weight[c]) * rstd[c]
            shift = load_param(bias[c])
            middle = mean[c]
            mean_g = means[0, c]
            mean_gd = means[1, c]
            for k in range(vectors):
                if i32(k * threads + tx) < inside:
                    widen(r_g, k * words, a, 0)
                    widen(r_x, k * words, v, 0)
                    for j in range(width):
                        d = v[j] - middle
                        if relu:
                            a[j] = a[j] if d * factor + shift > T(0) else T(0)
                        a[j] = factor * (a[j] - mean_g - d * mean_gd)
                    write(dx, (start + i32(k * threads + tx)) * width, a, 0)

    return batch_slope_segments
