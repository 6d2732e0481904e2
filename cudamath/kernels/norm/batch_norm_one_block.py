"""Batch norm of few numbers in training: one kernel does what batch_norm.py does in three.

The idea. Where a layer's input is small, the launches cost more than the memory. A block has a
channel to itself: it sums the distances to a pivot, then the squares of the distances to the mean,
then writes the results. It reads its channel three times, the last two from the caches. The order
of sums depends on the shape alone.

One version, `batch_few`, of up to FEW elements (batch_norm.py).
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.widths import wide
from .batch_norm_welford import running_average, typical
from .problem import BatchForward

THREADS = 32 if SIMULATOR else 256  # (there a thread is one of Python's)


@functools.cache
def block_sum(T: Any) -> Any:
    """Device function: the sum of a number of each thread of a block; `shared`: room for THREADS of
    them."""

    @device_function
    def summed(shared, t, value):
        shared[t] = value
        half = THREADS // 2
        while half > 0:
            cuda.syncthreads()
            if t < half:
                shared[t] += shared[t + half]
            half //= 2
        cuda.syncthreads()
        total = shared[0]
        cuda.syncthreads()  # before the room is used again
        return total

    return summed


@functools.cache
def batch_few(dtype: np.dtype, param: np.dtype, add: bool, relu: bool) -> Any:
    """One block per channel. x, more, y: (N, C, S); all others: (C,); `more`: the residual, or
    untouched without `add`."""
    load, store, T = codec(dtype)
    load_param = codec(param)[0]
    pivot, mixed, summed = typical(dtype), running_average(param), block_sum(T)

    @bounded(THREADS)
    def batch_few(
        x,
        more,
        weight,
        bias,
        running_mean,
        running_var,
        y,
        mean,
        rstd,
        new_mean,
        new_var,
        momentum,
        eps,
    ):
        shared = cuda.shared.array(THREADS, T)
        c, t = cuda.blockIdx.x, cuda.threadIdx.x
        samples, run = x.shape[0], x.shape[2]
        size, width = (
            samples * run,
            types.uint32(run),
        )  # by which 32 bits divide in half the time of 64
        count = T(size)
        origin = pivot(x[0, c, 0], x[samples // 2, c, run // 2], x[samples - 1, c, run - 1])
        total = T(0)
        for i in range(t, size, THREADS):
            n = types.int64(types.uint32(i) // width)
            total += load(x[n, c, i - n * run]) - origin
        middle = summed(shared, t, total) / count
        total = T(0)
        for i in range(t, size, THREADS):
            n = types.int64(types.uint32(i) // width)
            d = load(x[n, c, i - n * run]) - origin - middle
            total += d * d
        m2 = summed(shared, t, total)
        middle += origin
        inverse = T(1) / math.sqrt(m2 / count + eps)
        if t == 0:
            mean[c] = middle
            rstd[c] = inverse
            new_mean[c] = mixed(running_mean, c, middle, momentum)
            new_var[c] = mixed(running_var, c, m2 / (count - T(1)), momentum)
        factor = inverse * load_param(weight[c])
        shift = load_param(bias[c])
        for i in range(t, size, THREADS):
            n = types.int64(types.uint32(i) // width)
            s = i - n * run
            v = (load(x[n, c, s]) - middle) * factor + shift
            if add:
                v += load(more[n, c, s])
            if relu:
                v = T(0) if v < T(0) else v  # NaN stays
            y[n, c, s] = store(v)

    return batch_few


def plan(p: BatchForward) -> Plan:
    """The plan of a block per channel, which does all steps."""
    geo, T = p.geometry, wide(p.x.dtype)
    shape = geo.n, geo.channels, geo.run
    more = Input(5) if p.add else Input(0)
    arguments = [
        Input(0).view(shape),
        more.view(shape),
        *[Input(i) for i in range(1, 5)],
        Output(0).view(shape),
        *[Output(i) for i in range(1, 5)],
        T.type(p.momentum),
        T.type(p.eps),
    ]
    kernel = batch_few(p.x.dtype, p.weight.dtype, p.add, p.relu)
    return Plan(p.outputs, [Launch(kernel, geo.channels, THREADS, arguments)])
