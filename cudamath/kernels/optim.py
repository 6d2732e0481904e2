"""Optimizer steps: every parameter of a model updated in place by one launch.

The idea. A step is elementwise and each element is touched once, so its floor is the memory it moves: for Adam on
float32, p, g, m, v read and p, m, v written, 28 bytes an element. What wastes time is not arithmetic but launches:
a model has hundreds of parameter arrays, most of them small. So the kernel takes all of them at once. A table made
with the plan cuts the arrays into chunks, one chunk a block:

    block b  ->  (array, first element, end)          and the addresses of the arrays come in a table of the call

Each block looks up its row, turns the addresses into arrays, and works through its chunk with 16-byte accesses.

Versions: `one`, an array a launch and an element a thread (any GPU, the simulator); `many`, the fused one, with or
without wide accesses according to the arrays' alignment (arrays are sorted into at most two launches a dtype).

The rules, element by element. Parameters and gradients of float16 and bfloat16 are widened to float32; moments and
velocities are float32 for them and of the parameter's dtype otherwise.

    sgd        d = g + weight_decay p;  p -= lr d
    momentum   d as above;  u = momentum u + d;  p -= lr u,  or lr (d + momentum u) for Nesterov
    adam       x = p keep;  d = g + l2 x;  m += (1 - beta1)(d - m);  v = beta2 v + (1 - beta2) d^2
               p = x - step_size m / (sqrt(v) inverse + eps)
               with step_size = lr / (1 - beta1^t), inverse = 1 / sqrt(1 - beta2^t); Adam: keep = 1, l2 = weight_decay;
               AdamW: keep = 1 - lr weight_decay, l2 = 0
    rmsprop    d as above;  v = alpha v + (1 - alpha) d^2;  p -= lr d / (sqrt(v) + eps);  Adagrad: v += d^2
    lion       p = keep p - lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g

What changes from step to step (the learning rate, the number of the step) may lie in device arrays, so that a CUDA graph
need not freeze it. Then one thread turns them into the rule's eight numbers first (`coefficients`), and the kernels read
those from memory instead of from their arguments.

Sources: Kingma and Ba, "Adam", 2014; Loshchilov and Hutter, "Decoupled weight decay regularization", 2017.
"""

import functools
import math

import numpy as np
from numba import cuda

from ..core.dtypes import compute_dtype
from ..core.layout import Layout
from ..core.plan import Addresses, Constant, Input, Launch, Plan, Scalar, Temp
from .build import SIMULATOR, blocks, codec

if not SIMULATOR:
    from .ptx import array_at
    from .rows import reader, writer

THREADS = 256
CHUNK = 4096  # elements a block: 4 rounds of 16 bytes a thread and array; a multiple of every vector
SCALARS = 8  # every rule takes so many; the ones it has no use for are 0


@cuda.jit(device=True)
def sgd_rule(p, g, s, t, lr, weight_decay, c2, c3, c4, c5, c6, c7):
    """No state."""
    return p - lr * (g + weight_decay * p), s, t


@cuda.jit(device=True)
def momentum_rule(p, g, u, t, lr, weight_decay, momentum, c3, c4, c5, c6, c7):
    """One state: the velocity u."""
    u = momentum * u + (g + weight_decay * p)
    return p - lr * u, u, t


@cuda.jit(device=True)
def nesterov_rule(p, g, u, t, lr, weight_decay, momentum, c3, c4, c5, c6, c7):
    """One state: the velocity u."""
    d = g + weight_decay * p
    u = momentum * u + d
    return p - lr * (d + momentum * u), u, t


@cuda.jit(device=True)
def adam_rule(p, g, m, v, step_size, keep, l2, rest1, beta2, rest2, inverse, eps):
    """Two states: the moments m and v."""
    x = p * keep
    d = g + l2 * x
    m = m + rest1 * (d - m)
    v = beta2 * v + rest2 * (d * d)
    return x - step_size * m / (math.sqrt(v) * inverse + eps), m, v


@cuda.jit(device=True)
def rmsprop_rule(p, g, v, t, lr, weight_decay, alpha, rest, eps, c5, c6, c7):
    """One state: the mean square v."""
    d = g + weight_decay * p
    v = alpha * v + rest * (d * d)
    return p - lr * d / (math.sqrt(v) + eps), v, t


@cuda.jit(device=True)
def lion_rule(p, g, m, t, lr, keep, beta1, rest1, beta2, rest2, c6, c7):
    """One state: the moment m."""
    u = beta1 * m + rest1 * g
    step = lr if u > u - u else (-lr if u < u - u else lr * u)  # by the sign; 0 and NaN stay themselves
    return keep * p - step, beta2 * m + rest2 * g, t


def places(states):
    """Where p, g, s, t are among the inputs (times their count); states that a rule has not are g again."""
    return 0, 1, 2 if states > 0 else 1, 3 if states > 1 else 1


@functools.cache
def rate_of(rated, T):
    """The device function lr -> the learning rate: of an array (rated), or the scalar itself."""
    if rated:

        @cuda.jit(device=True)
        def rate_of_array(lr):
            return T(lr[0])

        return rate_of_array

    @cuda.jit(device=True)
    def rate_of_scalar(lr):
        return lr

    return rate_of_scalar


@functools.cache
def coefficients(decoupled, dtype, rated):
    """out: (8,) dtype, the numbers of a rule: lr, c1, ..., c7; decoupled: 1 - lr c1 instead of c1. lr: (1,) if rated."""
    T = codec(dtype)[2]
    rate = rate_of(rated, T)

    @cuda.jit
    def coefficients(out, lr, c1, c2, c3, c4, c5, c6, c7):
        c0 = rate(lr)
        out[0] = c0
        out[1] = T(1) - c0 * c1 if decoupled else c1
        out[2] = c2
        out[3] = c3
        out[4] = c4
        out[5] = c5
        out[6] = c6
        out[7] = c7

    return coefficients


@functools.cache
def adam_coefficients(dtype, rated, last):
    """out: (8,) dtype, the numbers of adam's rule for the step after step[0]; last: counts it. lr: (1,) if rated.

    step: (1,) int64; c1 = decoupled weight decay, c2 = l2, c3 = 1 - beta1, c4 = beta2, c5 = 1 - beta2, c7 = eps. The
    corrections 1 - beta^t are -expm1(t log(beta)), which keeps their digits.
    """
    T = codec(dtype)[2]
    rate = rate_of(rated, T)

    @cuda.jit
    def adam_coefficients(out, step, lr, c1, c2, c3, c4, c5, c6, c7):
        count = step[0] + 1
        t = T(count)
        c0 = rate(lr)
        out[0] = c0 / -math.expm1(t * math.log1p(-c3))
        out[1] = T(1) - c0 * c1
        out[2] = c2
        out[3] = c3
        out[4] = c4
        out[5] = c5
        out[6] = T(1) / math.sqrt(-math.expm1(t * math.log1p(-c5)))
        out[7] = c7
        if last:
            step[0] = count

    return adam_coefficients


@functools.cache
def numbers(held):
    """The device function (c0, ..., c7) -> the rule's eight numbers: themselves; held: c0 is an array of all eight."""
    if held:

        @cuda.jit(device=True)
        def numbers_held(c0, c1, c2, c3, c4, c5, c6, c7):
            return c0[0], c0[1], c0[2], c0[3], c0[4], c0[5], c0[6], c0[7]

        return numbers_held

    @cuda.jit(device=True)
    def numbers_told(c0, c1, c2, c3, c4, c5, c6, c7):
        return c0, c1, c2, c3, c4, c5, c6, c7

    return numbers_told


@functools.cache
def one(rule, states, dtype, held=False):
    """p, g: (n,) dtype; s, t: (n,) compute type, or g again where the rule has no such state. A thread an element."""
    load, store, T = codec(dtype)
    eight = numbers(held)

    @cuda.jit
    def one(p, g, s, t, c0, c1, c2, c3, c4, c5, c6, c7):
        i = cuda.grid(1)
        if i < p.size:
            d0, d1, d2, d3, d4, d5, d6, d7 = eight(c0, c1, c2, c3, c4, c5, c6, c7)
            old_s = s[i] if states > 0 else T(0)
            old_t = t[i] if states > 1 else T(0)
            new, new_s, new_t = rule(load(p[i]), load(g[i]), T(old_s), T(old_t), d0, d1, d2, d3, d4, d5, d6, d7)
            p[i] = store(new)
            if states > 0:
                s[i] = new_s
            if states > 1:
                t[i] = new_t

    return one


@functools.cache
def many(rule, states, dtype, width, held=False):
    """addresses: ((2 + states) count,) int64: of all p, all g, and each state; table: (blocks, 3) int64.

    p0, s0: any parameter and any state (for their types); count: int64, arrays in this launch.
    """
    T = codec(dtype)[2]
    place_s, place_t = places(states)[2:]
    compute = compute_dtype(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    read_one, write_one = reader(dtype, 1), writer(dtype, 1)
    read_state, write_state = reader(compute, width), writer(compute, width)
    eight = numbers(held)

    @cuda.jit
    def many(addresses, table, p0, s0, count, c0, c1, c2, c3, c4, c5, c6, c7):
        d0, d1, d2, d3, d4, d5, d6, d7 = eight(c0, c1, c2, c3, c4, c5, c6, c7)
        array = table[cuda.blockIdx.x, 0]
        start = table[cuda.blockIdx.x, 1]
        end = table[cuda.blockIdx.x, 2]
        p = array_at(p0, addresses[array])
        g = array_at(p0, addresses[count + array])
        s = array_at(s0, addresses[place_s * count + array])
        t = array_at(s0, addresses[place_t * count + array])
        vp = cuda.local.array(width, T)
        vg = cuda.local.array(width, T)
        vs = cuda.local.array(width, T)
        vt = cuda.local.array(width, T)
        whole = end - (end - start) % width
        for i in range(start + cuda.threadIdx.x * width, whole, THREADS * width):
            read(p, i, vp, 0)
            read(g, i, vg, 0)
            if states > 0:
                read_state(s, i, vs, 0)
            if states > 1:
                read_state(t, i, vt, 0)
            for e in range(width):
                vp[e], vs[e], vt[e] = rule(vp[e], vg[e], vs[e], vt[e], d0, d1, d2, d3, d4, d5, d6, d7)
            write(p, i, vp, 0)
            if states > 0:
                write_state(s, i, vs, 0)
            if states > 1:
                write_state(t, i, vt, 0)
        i = whole + cuda.threadIdx.x  # what is left of the last chunk of an array: fewer than `width` elements
        if i < end:
            read_one(p, i, vp, 0)
            read_one(g, i, vg, 0)
            if states > 0:
                vs[0] = s[i]
            if states > 1:
                vt[0] = t[i]
            vp[0], vs[0], vt[0] = rule(vp[0], vg[0], vs[0], vt[0], d0, d1, d2, d3, d4, d5, d6, d7)
            write_one(p, i, vp, 0)
            if states > 0:
                s[i] = vs[0]
            if states > 1:
                t[i] = vt[0]

    return many


def chunks(sizes):
    """The table of `many`: one row (array, first element, end) a block."""
    rows = [(i, start, min(start + CHUNK, n)) for i, n in enumerate(sizes) for start in range(0, n, CHUNK)]
    return np.array(rows, np.int64).reshape(-1, 3)


def update(rule, states, layouts, version, held=(False, False), kind="plain"):
    """Plan: `layouts` are those of all parameters, then all gradients, then each state, in one order; in place.

    held: whether the number of the step (adam only, and always if the rate is), and whether the learning rate, come as
    further arrays at the end.
    """
    everything = len(layouts)
    layouts = layouts[: everything - sum(held)]
    count = len(layouts) // (2 + states)
    steps = []
    temps = []
    given = {compute_dtype(p.dtype): [Scalar(k, compute_dtype(p.dtype)) for k in range(SCALARS)] for p in layouts[:count]}
    if any(held):
        for compute, scalars in given.items():
            lr = Input(everything - 1) if held[1] else scalars[0]
            if kind == "adam":
                kernel = adam_coefficients(compute, held[1], len(temps) == len(given) - 1)
                arrays = [Temp(len(temps)), Input(everything - sum(held)), lr]
            else:
                kernel, arrays = coefficients(kind == "lion", compute, held[1]), [Temp(len(temps)), lr]
            steps.append(Launch(kernel, 1, 1, [*arrays, *scalars[1:]]))
            given[compute] = [Temp(len(temps)), *scalars[1:]]
            temps.append(Layout.new((SCALARS,), compute, layouts[0].device))
    if version == "one":
        for i in range(count):
            p = layouts[i]
            arrays = [Input(k * count + i).flat for k in places(states)]
            steps.append(Launch(one(rule, states, p.dtype, any(held)), blocks(p.size, THREADS), THREADS,
                                [*arrays, *given[compute_dtype(p.dtype)]]))
        return Plan([], steps, temps)
    groups: dict[tuple, list[int]] = {}
    for i in range(count):
        wide = all(layout.aligned for layout in layouts[i::count])
        groups.setdefault((layouts[i].dtype, wide), []).append(i)
    for (dtype, wide), members in groups.items():
        compute = compute_dtype(dtype)
        table = chunks([layouts[i].size for i in members])
        arguments = [
            Addresses(*[k * count + i for k in range(2 + states) for i in members]), Constant(table),
            Input(members[0]).flat, Input(places(states)[2] * count + members[0]).flat, len(members),
            *given[compute],
        ]
        kernel = many(rule, states, dtype, 16 // compute.itemsize if wide else 1, any(held))
        steps.append(Launch(kernel, len(table), THREADS, arguments))
    return Plan([], steps, temps)


# `held` of a planner: (number of the step, learning rate) come as arrays, after all others; see `coefficients`.


def sgd(*layouts, version="many", held=(False, False)):
    """Planner: parameters, gradients. Scalars: lr, weight_decay, 0 ..."""
    return update(sgd_rule, 0, layouts, version, held)


def momentum(*layouts, nesterov, version="many", held=(False, False)):
    """Planner: parameters, gradients, velocities. Scalars: lr, weight_decay, momentum, 0 ..."""
    return update(nesterov_rule if nesterov else momentum_rule, 1, layouts, version, held)


def adam(*layouts, version="many", held=(False, False)):
    """Planner: parameters, gradients, first and second moments. Scalars: the eight of the rule."""
    return update(adam_rule, 2, layouts, version, held, "adam")


def rmsprop(*layouts, version="many", held=(False, False)):
    """Planner: parameters, gradients, mean squares. Scalars: lr, weight_decay, alpha, rest, eps, 0 ..."""
    return update(rmsprop_rule, 1, layouts, version, held)


def lion(*layouts, version="many", held=(False, False)):
    """Planner: parameters, gradients, moments. Scalars: lr, keep (held: weight decay), beta1, rest1, beta2, rest2, 0 0"""
    return update(lion_rule, 1, layouts, version, held, "lion")
