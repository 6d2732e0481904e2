"""Batch norm in training where a multiprocessor's shared memory holds a channel: one kernel does
what batch_norm.py does in three, and reads x once.

The idea. A block has a channel to itself. It copies the channel to shared memory by accesses of 16
bytes, AHEAD of a thread in flight, and adds up the distances to a pivot on the way; then it adds up
the squares of the distances to the mean, and writes the results, both from there. A thread touches
no access but its own, so only the two sums need barriers. 16-bit numbers stay packed. Of
multiprocessors that hold two blocks or more some read while others write.

The floor is a read of x and a write of y. Channels whose numbers lie in runs (C order).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_sum
from ..lib.codec import codec
from ..lib.vector_io import fetcher, writer
from ..lib.widths import wide
from ..ptx.vector_access import load_vector, store_vector
from .batch_norm_welford import running_average, typical
from .problem import BatchForward

THREADS = 512
AHEAD = 4  # accesses of a thread in flight
WORDS = 4  # of an access


@functools.cache
def batch_held(dtype: np.dtype, param: np.dtype, width: int, add: bool, relu: bool) -> Any:
    """One block per channel. x, more: accesses (see rows.fetcher), `single` x as it is, y: (N * C *
    S,); all others: (C,); accesses: of a run; samples: N; `more`: the residual, or untouched
    without `add`. Shared memory: the channel."""
    load, _, T = codec(dtype)
    load_param, pivot, mixed = codec(param)[0], typical(dtype), running_average(param)
    fetch, widen, words, kind = fetcher(dtype, width)
    write, raw, summed = writer(dtype, width), numba_type(kind), group_sum(THREADS, T)
    packed = AHEAD * words

    @device_function
    def place(n, c, accesses, channels):
        """Where access number n of the channel lies in x."""
        sample = types.int64(types.uint32(n) // types.uint32(accesses))
        return (sample * channels + c) * accesses + n - sample * accesses

    @bounded(THREADS)
    def batch_held(
        x,
        more,
        single,
        weight,
        bias,
        running_mean,
        running_var,
        y,
        mean,
        rstd,
        new_mean,
        new_var,
        samples,
        channels,
        accesses,
        momentum,
        eps,
    ):
        held = cuda.shared.array(0, raw)
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(width, T)
        z = cuda.local.array(width, T)
        c, t = types.int64(cuda.blockIdx.x), types.int64(cuda.threadIdx.x)
        size, run = samples * accesses, accesses * width
        count = T(size * width)
        origin = pivot(
            single[c * run],
            single[(samples // 2 * channels + c) * run + run // 2],
            single[(samples - 1) * channels * run + (c + 1) * run - 1],
        )
        total = T(0)
        for i in range(t, size, AHEAD * THREADS):
            for k in range(AHEAD):
                n = i + k * THREADS
                if n < size:
                    fetch(x, place(n, c, accesses, channels), r, k * words)
            for k in range(AHEAD):
                n = i + k * THREADS
                if n < size:
                    store_vector(
                        held,
                        n * words,
                        (r[k * words], r[k * words + 1], r[k * words + 2], r[k * words + 3]),
                    )
                    widen(r, k * words, v, 0)
                    part = T(0)
                    for j in range(width):
                        part += v[j] - origin
                    total += part
        middle = summed(total) / count
        total = T(0)
        for n in range(t, size, THREADS):
            taken = load_vector(held, n * words, words)
            for j in range(words):
                r[j] = taken[j]
            widen(r, 0, v, 0)
            part = T(0)
            for j in range(width):
                d = v[j] - origin - middle
                part += d * d
            total += part
        m2 = summed(total)
        middle += origin
        inverse = T(1) / math.sqrt(m2 / count + eps)
        if t == 0:
            mean[c] = middle
            rstd[c] = inverse
            new_mean[c] = mixed(running_mean, c, middle, momentum)
            new_var[c] = mixed(running_var, c, m2 / (count - T(1)), momentum)
        factor, shift = inverse * load_param(weight[c]), load_param(bias[c])
        for n in range(t, size, THREADS):
            at = place(n, c, accesses, channels)
            taken = load_vector(held, n * words, words)
            for j in range(words):
                r[j] = taken[j]
            widen(r, 0, v, 0)
            if add:
                fetch(more, at, r, 0)
                widen(r, 0, z, 0)
            for j in range(width):
                v[j] = (v[j] - middle) * factor + shift
                if add:
                    v[j] += z[j]
                if relu:
                    v[j] = T(0) if v[j] < T(0) else v[j]  # NaN stays
            write(y, at * width, v, 0)

    return batch_held


def plan(p: BatchForward) -> Plan:
    """The plan of a block per channel, which holds it."""
    geo, T = p.geometry, wide(p.x.dtype)
    _, _, words, kind = fetcher(p.x.dtype, geo.width)
    more = Input(5) if p.add else Input(0)
    packed = (p.x.size * words // geo.width,)
    arguments = [
        Input(0).view(packed, dtype=kind),
        more.view(packed, dtype=kind),
        Input(0).flat,
        *[Input(i) for i in range(1, 5)],
        Output(0).flat,
        *[Output(i) for i in range(1, 5)],
        geo.n,
        geo.channels,
        geo.run // geo.width,
        T.type(p.momentum),
        T.type(p.eps),
    ]
    kernel = batch_held(p.x.dtype, p.weight.dtype, geo.width, p.add, p.relu)
    room = p.channel_bytes
    return Plan(p.outputs, [Launch(kernel, geo.channels, THREADS, arguments, shared=room)])
