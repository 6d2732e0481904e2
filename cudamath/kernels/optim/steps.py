"""Optimizer steps: every parameter of a model updated in place by one launch.

The idea. A step is elementwise and each element is touched once, so its floor is the memory it
moves: for Adam on float32, p, g, m, v read and p, m, v written, 28 bytes per element. What wastes
time is not arithmetic but launches: a model has hundreds of parameter arrays, most of them small.
So the kernel takes all of them at once. A table made with the plan cuts the arrays into chunks, one
chunk per block:

    block b  ->  (array, first element, end)          and the addresses of the arrays come in a
             table of the call

Each block looks up its row, turns the addresses into arrays, and works through its chunk with
16-byte accesses.

Versions: `one`, one array per launch and one element per thread (any GPU, the simulator); `many`,
the fused one, with or without wide accesses according to the arrays' alignment (arrays are sorted
into at most two launches per dtype).

The rules, element by element. Parameters and gradients of float16 and bfloat16 are widened to
float32; moments and velocities are float32 for them and of the parameter's dtype otherwise.

    sgd        d = g + weight_decay p;  p -= lr d
    momentum   d as above;  u = momentum u + d;  p -= lr u,  or lr (d + momentum u) for Nesterov
    adam       x = p keep;  d = g + l2 x;  m += (1 - beta1)(d - m);  v = beta2 v + (1 - beta2) d^2
               p = x - step_size m / (sqrt(v) inverse + eps)
               with step_size = lr / (1 - beta1^t), inverse = 1 / sqrt(1 - beta2^t); Adam: keep = 1,
               l2 = weight_decay; AdamW: keep = 1 - lr weight_decay, l2 = 0
    rmsprop    d as above;  v = alpha v + (1 - alpha) d^2;  p -= lr d / (sqrt(v) + eps);  Adagrad: v
               += d^2
    lion       p = keep p - lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g

What changes from step to step (the learning rate, the number of the step, a factor of the
gradients) may lie in device arrays, so that a CUDA graph need not freeze it. Then one thread turns
them into the rule's eight numbers and the factor first (`coefficients`), and the kernels read those
from memory instead of from their arguments.

Mixed precision costs no pass of its own. Gradients may be of 16 bits where the parameters are
float32; they are multiplied by the factor (clipping, loss scaling: kernels/optim/gradient_norm.py)
as they are read, and a factor that is NaN ends the step before anything is written. The 16-bit
copies with which a model computes are written beside the parameters: with bfloat16 gradients and
copies Adam moves 2 + 4 + 4 + 4 bytes in and 4 + 4 + 4 + 2 out, 28 per element as before.

Sources: Kingma and Ba, "Adam", 2014; Loshchilov and Hutter, "Decoupled weight decay
regularization", 2017.

Measured (row versions_optim):
Adam, 2^26 parameters in 148 arrays, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

               GB/s     of a copy
    one       1,912          0.45
    many      4,158          0.98

(end of what was measured)
"""

import functools
import math

import numpy as np

from ...core.dispatch.arguments import Addresses, Constant, Input, Scalar, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR, cuda
from ..lib.codec import codec
from ..lib.integers import blocks
from .problem import Step
from .rules import UNDECAYED

if not SIMULATOR:
    from ..lib.vector_io import reader, writer
    from ..ptx.vector_access import array_at

THREADS = 256
# elements per block: 4 rounds of 16 bytes per thread and array; a multiple of every vector
CHUNK = 4096
SCALARS = 8  # every rule takes so many; the ones it has no use for are 0


def places(states):
    """Where p, g, s, t are among the inputs (times their count); states that a rule has not are g
    again."""
    return 0, 1, 2 if states > 0 else 1, 3 if states > 1 else 1


@functools.cache
def value_of(array, T):
    """The device function x -> its only element (array), or x itself."""
    if array:

        @cuda.jit(device=True)
        def element(x):
            return T(x[0])

        return element

    @cuda.jit(device=True)
    def itself(x):
        return x

    return itself


@functools.cache
def coefficients(decoupled, dtype, rated, factored):
    """out: (9,) dtype: the numbers of a rule, lr, c1, ..., c7, and the factor; decoupled: 1 - lr c1
    instead of c1. lr: (1,) if rated; factor: (1,) if factored."""
    T = codec(dtype)[2]
    rate, share = value_of(rated, T), value_of(factored, T)

    @cuda.jit
    def coefficients(out, factor, lr, c1, c2, c3, c4, c5, c6, c7):
        c0 = rate(lr)
        out[0] = c0
        out[1] = T(1) - c0 * c1 if decoupled else c1
        out[2] = c2
        out[3] = c3
        out[4] = c4
        out[5] = c5
        out[6] = c6
        out[7] = c7
        out[8] = share(factor)

    return coefficients


@functools.cache
def adam_coefficients(dtype, rated, factored, last):
    """out: (9,) dtype: the numbers of adam's rule for the step after step[0], and the factor; last:
    counts the step.

    step: (1,) int64; lr: (1,) if rated; factor: (1,) if factored, and a step whose factor is NaN
    does not count. c1 = decoupled weight decay, c2 = l2, c3 = 1 - beta1, c4 = beta2, c5 = 1 -
    beta2, c7 = eps. The corrections 1 - beta^t are -expm1(t log(beta)), which keeps their digits.
    """
    T = codec(dtype)[2]
    rate, share = value_of(rated, T), value_of(factored, T)

    @cuda.jit
    def adam_coefficients(out, step, factor, lr, c1, c2, c3, c4, c5, c6, c7):
        count = step[0] + 1
        t = T(count)
        c0 = rate(lr)
        f = share(factor)
        out[0] = c0 / -math.expm1(t * math.log1p(-c3))
        out[1] = T(1) - c0 * c1
        out[2] = c2
        out[3] = c3
        out[4] = c4
        out[5] = c5
        out[6] = T(1) / math.sqrt(-math.expm1(t * math.log1p(-c5)))
        out[7] = c7
        out[8] = f
        if last and f == f:
            step[0] = count

    return adam_coefficients


@functools.cache
def numbers(held, T, c1, c2):
    """The device function (decays, c0, ..., c7) -> the rule's eight numbers and the factor: those
    given and 1; held: those of the array c0. Where weights do not decay, c1 and c2 of this function
    (None: the same) take the place of theirs."""

    @cuda.jit(device=True)
    def held_there(c0, d1, d2, d3, d4, d5, d6, d7):
        return c0[0], c0[1], c0[2], c0[3], c0[4], c0[5], c0[6], c0[7], c0[8]

    @cuda.jit(device=True)
    def told(d0, d1, d2, d3, d4, d5, d6, d7):
        return d0, d1, d2, d3, d4, d5, d6, d7, T(1)

    nine = held_there if held else told
    plain1, changes2, plain2 = T(c1), c2 is not None, T(c2 or 0)

    @cuda.jit(device=True)
    def numbers(decays, c0, c1, c2, c3, c4, c5, c6, c7):
        d0, d1, d2, d3, d4, d5, d6, d7, f = nine(c0, c1, c2, c3, c4, c5, c6, c7)
        if decays == 0:
            d1 = plain1
            d2 = plain2 if changes2 else d2
        return d0, d1, d2, d3, d4, d5, d6, d7, f

    return numbers


@functools.cache
def one(rule, states, dtypes, held=False):
    """p, g, w: (n,) of these dtypes (w: g again where there is no copy); s, t: (n,) compute type,
    or g again where the rule has no such state; decays: int64. One thread per element."""
    (load, store, T), load_g = codec(dtypes[0]), codec(dtypes[1])[0]
    copied = dtypes[2] is not None
    store_w = codec(dtypes[2])[1] if copied else store
    nine = numbers(held, T, *UNDECAYED[rule])

    @cuda.jit
    def one(p, g, s, t, w, decays, c0, c1, c2, c3, c4, c5, c6, c7):
        i = cuda.grid(1)
        if i < p.size:
            d0, d1, d2, d3, d4, d5, d6, d7, f = nine(decays, c0, c1, c2, c3, c4, c5, c6, c7)
            if f == f:
                old_s = s[i] if states > 0 else T(0)
                old_t = t[i] if states > 1 else T(0)
                new, new_s, new_t = rule(
                    load(p[i]),
                    T(load_g(g[i])) * f,
                    T(old_s),
                    T(old_t),
                    d0,
                    d1,
                    d2,
                    d3,
                    d4,
                    d5,
                    d6,
                    d7,
                )
                p[i] = store(new)
                if states > 0:
                    s[i] = new_s
                if states > 1:
                    t[i] = new_t
                if copied:
                    w[i] = store_w(new)

    return one


@functools.cache
def many(rule, states, dtypes, width, held=False):
    """addresses: ((2 + states + copied) count,) int64: of all p, all g, each state, and the copies
    of p if there are any.

    dtypes: of p, g and the copies (None: there are none). table: (blocks, 4) int64: array, first
    element, end, whether weights decay. p0, g0, s0, w0: any of each, for its type (p again for what
    there is not); count: int64, arrays in this launch.
    """
    dtype, dtype_g, dtype_w = dtypes
    copied = dtype_w is not None
    dtype_w = dtype_w if copied else dtype
    T = codec(dtype)[2]
    place_s, place_t = places(states)[2:]
    place_w = 2 + states if copied else 0
    compute = compute_dtype(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    read_one, write_one = reader(dtype, 1), writer(dtype, 1)
    read_g, read_g_one = reader(dtype_g, width), reader(dtype_g, 1)
    write_w, write_w_one = writer(dtype_w, width), writer(dtype_w, 1)
    read_state, write_state = reader(compute, width), writer(compute, width)
    nine = numbers(held, T, *UNDECAYED[rule])

    @cuda.jit
    def many(addresses, table, p0, g0, s0, w0, count, c0, c1, c2, c3, c4, c5, c6, c7):
        array = table[cuda.blockIdx.x, 0]
        start = table[cuda.blockIdx.x, 1]
        end = table[cuda.blockIdx.x, 2]
        d0, d1, d2, d3, d4, d5, d6, d7, f = nine(
            table[cuda.blockIdx.x, 3], c0, c1, c2, c3, c4, c5, c6, c7
        )
        if f != f:
            return
        p = array_at(p0, addresses[array])
        g = array_at(g0, addresses[count + array])
        s = array_at(s0, addresses[place_s * count + array])
        t = array_at(s0, addresses[place_t * count + array])
        w = array_at(w0, addresses[place_w * count + array])
        vp = cuda.local.array(width, T)
        vg = cuda.local.array(width, T)
        vs = cuda.local.array(width, T)
        vt = cuda.local.array(width, T)
        whole = end - (end - start) % width
        for i in range(start + cuda.threadIdx.x * width, whole, THREADS * width):
            read(p, i, vp, 0)
            read_g(g, i, vg, 0)
            if states > 0:
                read_state(s, i, vs, 0)
            if states > 1:
                read_state(t, i, vt, 0)
            for e in range(width):
                vp[e], vs[e], vt[e] = rule(
                    vp[e], vg[e] * f, vs[e], vt[e], d0, d1, d2, d3, d4, d5, d6, d7
                )
            write(p, i, vp, 0)
            if states > 0:
                write_state(s, i, vs, 0)
            if states > 1:
                write_state(t, i, vt, 0)
            if copied:
                write_w(w, i, vp, 0)
        i = (
            whole + cuda.threadIdx.x
        )  # what is left of the last chunk of an array: fewer than `width` elements
        if i < end:
            read_one(p, i, vp, 0)
            read_g_one(g, i, vg, 0)
            if states > 0:
                vs[0] = s[i]
            if states > 1:
                vt[0] = t[i]
            vp[0], vs[0], vt[0] = rule(
                vp[0], vg[0] * f, vs[0], vt[0], d0, d1, d2, d3, d4, d5, d6, d7
            )
            write_one(p, i, vp, 0)
            if states > 0:
                s[i] = vs[0]
            if states > 1:
                t[i] = vt[0]
            if copied:
                write_w_one(w, i, vp, 0)

    return many


def chunks(sizes):
    """The table of `many`: one row (array, first element, end) a block."""
    sizes = np.asarray(sizes, np.int64)
    counts = -(-sizes // CHUNK)
    array = np.repeat(np.arange(len(sizes)), counts)
    start = (np.arange(len(array)) - (np.cumsum(counts) - counts)[array]) * CHUNK
    return np.column_stack([array, start, np.minimum(start + CHUNK, sizes[array])])


def numbers_of(p: Step) -> tuple[list[Launch], list[Layout], dict[np.dtype, list]]:
    """The launches and scratch arrays that device memory needs to hold the rule's numbers, and the
    arguments of the numbers by compute dtype."""
    last, form = len(p.arrays), p.form
    steps: list[Launch] = []
    temps: list[Layout] = []
    found: dict[np.dtype, list] = {
        compute: [Scalar(k, compute) for k in range(SCALARS)] for compute in p.compute_dtypes
    }
    if not p.held:
        return steps, temps, found
    for compute, scalars in found.items():
        factor = Input(last - 1) if form.factor else compute.type(1)
        lr = Input(last - 1 - form.factor) if form.rate else scalars[0]
        arrays = [Temp(len(temps)), factor, lr]
        if p.coefficients == "adam":
            is_last = len(temps) == len(found) - 1
            kernel = adam_coefficients(compute, form.rate, form.factor, is_last)
            arrays.insert(1, Input(last - form.extra))
        else:
            kernel = coefficients(p.coefficients == "lion", compute, form.rate, form.factor)
        steps.append(Launch(kernel, 1, 1, [*arrays, *scalars[1:]]))
        found[compute] = [Temp(len(temps)), *scalars[1:]]
        temps.append(Layout.new((SCALARS + 1,), compute, p.arrays[0].device))
    return steps, temps, found


def plan_one(p: Step) -> Plan:
    """The plan of a launch per parameter."""
    steps, temps, numbers = numbers_of(p)
    for i, dtypes in enumerate(p.dtypes):
        kinds = (*places(p.states), 2 + p.states if dtypes.copy else 1)
        arrays = [Input(k * p.count + i).flat for k in kinds]
        arguments = [*arrays, int(p.decays[i]), *numbers[compute_dtype(dtypes.parameter)]]
        kernel = one(p.rule, p.states, dtypes, p.held)
        steps.append(Launch(kernel, blocks(p.layouts[i].size, THREADS), THREADS, arguments))
    return Plan([], steps, temps)


def plan_many(p: Step) -> Plan:
    """The plan of a launch for all parameters of the same dtypes and alignment."""
    steps, temps, numbers = numbers_of(p)
    count, states = p.count, p.states
    groups: dict[tuple, list[int]] = {}
    for i, dtypes in enumerate(p.dtypes):
        wide = all(layout.aligned for layout in p.layouts[i::count])
        groups.setdefault((dtypes, wide), []).append(i)
    for (dtypes, wide), members in groups.items():
        compute = compute_dtype(dtypes.parameter)
        table = chunks([p.layouts[i].size for i in members])
        table = np.column_stack(
            [table, np.array([p.decays[i] for i in members], np.int64)[table[:, 0]]]
        )
        kinds = (
            2 + states + (dtypes.copy is not None)
        )  # copies that are the parameters themselves are left out
        p0, g0, s0 = (Input(place * count + members[0]).flat for place in places(states)[:3])
        w0 = Input((2 + states) * count + members[0]).flat if dtypes.copy is not None else p0
        addresses = Addresses(*[k * count + i for k in range(kinds) for i in members])
        arguments = [addresses, Constant(table), p0, g0, s0, w0, len(members), *numbers[compute]]
        kernel = many(p.rule, states, dtypes, 16 // compute.itemsize if wide else 1, p.held)
        steps.append(Launch(kernel, len(table), THREADS, arguments))
    return Plan([], steps, temps)
