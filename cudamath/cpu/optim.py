"""Optimizer steps on the CPU: one compiled pass over each parameter, in place.

The formulas are those of kernels/optim/steps.py. A pass reads and writes every array once, where a
chain of NumPy calls would stream each of its dozen temporaries through memory. float16 and bfloat16
parameters are widened to float32, stepped, and rounded back; their moments are float32 throughout.
"""

import math

import numpy as np

from ..core.specs.optimizer import PLAIN
from .lib.llvm_compiled import loop


@loop
def sgd_pass(p, g, lr, weight_decay):
    """p, g: (n,) of one dtype. p -= lr (g + weight_decay p)."""
    for i in range(p.size):
        p[i] -= lr * (g[i] + weight_decay * p[i])


@loop
def momentum_pass(p, g, u, lr, weight_decay, momentum):
    """p, g, u: (n,) of one dtype. u = momentum u + d, d = g + weight_decay p;  p -= lr u."""
    for i in range(p.size):
        u[i] = momentum * u[i] + (g[i] + weight_decay * p[i])
        p[i] -= lr * u[i]


@loop
def nesterov_pass(p, g, u, lr, weight_decay, momentum):
    """p, g, u: (n,) of one dtype. u as above;  p -= lr (d + momentum u)."""
    for i in range(p.size):
        d = g[i] + weight_decay * p[i]
        u[i] = momentum * u[i] + d
        p[i] -= lr * (d + momentum * u[i])


@loop
def adam_pass(p, g, m, v, step_size, keep, l2, rest1, beta2, rest2, inverse, eps):
    """p, g, m, v: (n,) of one dtype; the scalars are those of kernels/optim/steps.py: adam."""
    for i in range(p.size):
        x = p[i] * keep
        d = g[i] + l2 * x
        m[i] += rest1 * (d - m[i])
        v[i] = beta2 * v[i] + rest2 * (d * d)
        p[i] = x - step_size * m[i] / (np.sqrt(v[i]) * inverse + eps)


#: The rule's numbers 1 and 2 where weights do not decay, as in kernels/optim/steps.py; None: the
#: same.
UNDECAYED = {"plain": (0.0, None), "adam": (1.0, 0.0), "lion": (1.0, None)}


def in_place(step, arrays, copy, scalars, factor):
    """step(*flat arrays of one compute dtype, *scalars); what had to be widened is rounded back
    into arrays[0], and its values go into the copy (unless it is arrays[0] itself, or None)."""
    p, g, *state = arrays
    compute = np.dtype(np.float64 if p.dtype == np.float64 else np.float32)
    wide = p.astype(compute, copy=False).reshape(-1)
    g = np.ascontiguousarray(g, compute).reshape(-1)
    step(
        wide,
        g if factor == 1 else g * compute.type(factor),
        *(s.reshape(-1) for s in state),
        *(compute.type(s) for s in scalars),
    )
    if p.dtype != compute:
        p.reshape(-1)[:] = wide.astype(p.dtype)
    if copy is not None and copy.dtype != p.dtype:
        copy.reshape(-1)[:] = wide.astype(copy.dtype)


def each(step, states, arrays, scalars, form=PLAIN, kind="plain", most=8):
    """`step` on every parameter; arrays: as `form` (core/specs/optimizer.py) arranges them.

    With 0-d arrays at the end the scalars are those of kernels/optim/steps.py: coefficients. most:
    how many numbers `step` takes.
    """
    factor = 1.0
    if form.extra:
        arrays, extra = arrays[: -form.extra], list(arrays[-form.extra :])
        lr, decay, *rest = scalars
        if form.factor:
            factor = extra.pop().item()
        if form.rate:
            lr = extra.pop().item()
        if math.isnan(factor):
            return ()
        scalars = [lr, decay, *rest] if kind == "plain" else [lr, 1 - lr * decay, *rest]
        if kind == "adam":
            t = extra[0].item() + 1
            if t < 1:  # a GPU, where looking would wait, gives NaN
                raise ValueError(f"adam_update: wants a step >= 0 in state, got {t - 1}")
            extra[0][...] = t
            scalars[0] = lr / -math.expm1(t * math.log1p(-scalars[3])) if scalars[3] < 1 else lr
            scalars[6] = (
                1 / math.sqrt(-math.expm1(t * math.log1p(-scalars[5]))) if scalars[5] < 1 else 1.0
            )
    first, second = UNDECAYED[kind]
    undecayed = [scalars[0], first, scalars[2] if second is None else second, *scalars[3:]]
    count = len(arrays) // (2 + states + form.copies)
    for i in range(count):
        mine = arrays[i::count]
        numbers = scalars if form.decays is None or form.decays[i] else undecayed
        in_place(
            step, mine[: 2 + states], mine[-1] if form.copies else None, numbers[:most], factor
        )
    return ()


def sgd(*arrays, scalars, form=PLAIN):
    """arrays: parameters, gradients; scalars = (lr, weight_decay, 0 ...). In place."""
    return each(sgd_pass, 0, arrays, scalars, form, most=2)


def momentum(*arrays, scalars, nesterov, form=PLAIN):
    """arrays: parameters, gradients, velocities; scalars = (lr, weight_decay, momentum, 0 ...). In
    place."""
    return each(nesterov_pass if nesterov else momentum_pass, 1, arrays, scalars, form, most=3)


def adam(*arrays, scalars, form=PLAIN):
    """arrays: parameters, gradients, first and second moments; scalars: the eight of the rule. In
    place."""
    return each(adam_pass, 2, arrays, scalars, form, "adam")


@loop
def rmsprop_pass(p, g, v, lr, weight_decay, alpha, rest, eps):
    """p, g, v: (n,) of one dtype. d = g + weight_decay p;  v = alpha v + rest d^2;  p -= lr d /
    (sqrt(v) + eps)."""
    for i in range(p.size):
        d = g[i] + weight_decay * p[i]
        v[i] = alpha * v[i] + rest * (d * d)
        p[i] -= lr * d / (np.sqrt(v[i]) + eps)


@loop
def lion_pass(p, g, m, lr, keep, beta1, rest1, beta2, rest2):
    """p, g, m: (n,) of one dtype. p = keep p - lr sign(beta1 m + rest1 g);  m = beta2 m + rest2
    g."""
    for i in range(p.size):
        p[i] = keep * p[i] - lr * np.sign(beta1 * m[i] + rest1 * g[i])
        m[i] = beta2 * m[i] + rest2 * g[i]


def rmsprop(*arrays, scalars, form=PLAIN):
    """arrays: parameters, gradients, mean squares; scalars = (lr, weight_decay, alpha, rest, eps, 0
    ...). In place."""
    return each(rmsprop_pass, 1, arrays, scalars, form, most=5)


def lion(*arrays, scalars, form=PLAIN):
    """arrays: parameters, gradients, moments; scalars = (lr, keep, beta1, rest1, beta2, rest2, 0
    ...). In place."""
    return each(lion_pass, 1, arrays, scalars, form, "lion", most=6)


def norm_and_factor(grads, most):
    """The norm of all gradients (float64 if any is), and min(1, most / (norm + 1e-6)), NaN where it
    is not finite."""
    wide = np.float64 if any(g.dtype == np.float64 for g in grads) else np.float32
    with np.errstate(over="ignore", invalid="ignore"):
        total = sum(np.vdot(w, w) for w in (g.astype(wide, copy=False).ravel() for g in grads))
        norm = np.sqrt(wide(total))
        return norm, min(wide(1), wide(most) / (norm + wide(1e-6))) if np.isfinite(norm) else wide(
            np.nan
        )


def clip_factor(*arrays, scalars, scaling, strict):
    """As kernels/optim/gradient_norm.py: factor. arrays: gradients, and with scaling scale, good
    and skipped, changed in place. strict: the card sees to it."""
    count = len(arrays) - 3 * scaling
    norm, factor = norm_and_factor(arrays[:count], scalars[0])
    if scaling:
        scale, good, skipped = arrays[count:]
        old = scale.item()
        with np.errstate(all="ignore"):
            norm = norm / type(norm)(old)
        most = type(norm)(scalars[0])
        finite = np.isfinite(norm)
        factor = (
            min(type(norm)(1), most / (norm + type(norm)(1e-6))) / type(norm)(old)
            if finite
            else type(norm)(np.nan)
        )
        if finite:
            good[...] += 1
            if good == scalars[3]:
                good[...] = 0
                with np.errstate(over="ignore"):
                    new = scale * np.float32(scalars[1])
                scale[...] = new if np.isfinite(new) else scale
        else:
            scale[...] = scale * np.float32(scalars[2])
            good[...] = 0
            skipped[...] += 1
    return np.asarray(norm), np.asarray(factor)


def clip(*grads, scalars):
    """grads -> the norm of all, and for each dtype the scaled ones in one array, each from a
    multiple of 8 on."""
    norm, factor = norm_and_factor(grads, scalars[0])
    results = []
    for dtype in dict.fromkeys(g.dtype for g in grads):
        parts = []
        for g in grads:
            if g.dtype == dtype:
                compute = dtype if dtype.itemsize > 2 else np.dtype(np.float32)
                scaled = (
                    (g.astype(compute, copy=False) * compute.type(factor))
                    .astype(dtype, copy=False)
                    .ravel()
                )
                parts += [scaled, np.zeros(-g.size % 8, dtype)]
        results.append(np.concatenate(parts))
    return norm, *results
