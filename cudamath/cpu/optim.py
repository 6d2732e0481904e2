"""Optimizer steps on the CPU: one compiled pass over each parameter, in place.

The formulas are those of kernels/optim.py. A pass reads and writes every array once, where a chain of NumPy
calls would stream each of its dozen temporaries through memory. float16 and bfloat16 parameters are widened to
float32, stepped, and rounded back; their moments are float32 throughout.
"""

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sgd_pass(p, g, lr, weight_decay):
    """p, g: (n,) of one dtype. p -= lr (g + weight_decay p)."""
    for i in range(p.size):
        p[i] -= lr * (g[i] + weight_decay * p[i])


@njit(cache=True, nogil=True)
def momentum_pass(p, g, u, lr, weight_decay, momentum):
    """p, g, u: (n,) of one dtype. u = momentum u + d, d = g + weight_decay p;  p -= lr u."""
    for i in range(p.size):
        u[i] = momentum * u[i] + (g[i] + weight_decay * p[i])
        p[i] -= lr * u[i]


@njit(cache=True, nogil=True)
def nesterov_pass(p, g, u, lr, weight_decay, momentum):
    """p, g, u: (n,) of one dtype. u as above;  p -= lr (d + momentum u)."""
    for i in range(p.size):
        d = g[i] + weight_decay * p[i]
        u[i] = momentum * u[i] + d
        p[i] -= lr * (d + momentum * u[i])


@njit(cache=True, nogil=True, error_model="numpy")  # 0 / 0 is NaN, as on the GPU
def adam_pass(p, g, m, v, step_size, keep, l2, rest1, beta2, rest2, inverse, eps):
    """p, g, m, v: (n,) of one dtype; the scalars are those of kernels/optim.py: adam."""
    for i in range(p.size):
        x = p[i] * keep
        d = g[i] + l2 * x
        m[i] += rest1 * (d - m[i])
        v[i] = beta2 * v[i] + rest2 * (d * d)
        p[i] = x - step_size * m[i] / (np.sqrt(v[i]) * inverse + eps)


def in_place(step, arrays, scalars):
    """step(*flat arrays of one compute dtype, *scalars); what had to be widened is rounded back into arrays[0]."""
    p, g, *state = arrays
    compute = np.dtype(np.float64 if p.dtype == np.float64 else np.float32)
    wide = p.astype(compute, copy=False).reshape(-1)
    step(
        wide,
        np.ascontiguousarray(g, compute).reshape(-1),
        *(s.reshape(-1) for s in state),
        *(compute.type(s) for s in scalars),
    )
    if p.dtype != compute:
        p.reshape(-1)[:] = wide.astype(p.dtype)


def each(step, states, arrays, scalars, held=(False, False), kind="plain", most=8):
    """`step` on every parameter; arrays: all parameters, all gradients, then each state.

    held: whether the number of the step, and whether the learning rate, come as further arrays at the end; then the
    scalars are those of kernels/optim.py: coefficients. most: how many numbers `step` takes.
    """
    if any(held):
        arrays, extra = arrays[: len(arrays) - sum(held)], arrays[len(arrays) - sum(held) :]
        lr, decay, *rest = scalars
        if held[1]:
            lr = extra[-1].item()
        scalars = [lr, decay, *rest] if kind == "plain" else [lr, 1 - lr * decay, *rest]
        if kind == "adam":
            extra[0][...] += 1
            t = extra[0].item()
            scalars[0] = lr / -math.expm1(t * math.log1p(-scalars[3])) if scalars[3] < 1 else lr
            scalars[6] = 1 / math.sqrt(-math.expm1(t * math.log1p(-scalars[5]))) if scalars[5] < 1 else 1.0
    count = len(arrays) // (2 + states)
    for i in range(count):
        in_place(step, arrays[i::count], scalars[:most])
    return ()


def sgd(*arrays, scalars, held=(False, False)):
    """arrays: parameters, gradients; scalars = (lr, weight_decay, 0 ...). In place."""
    return each(sgd_pass, 0, arrays, scalars, held, most=2)


def momentum(*arrays, scalars, nesterov, held=(False, False)):
    """arrays: parameters, gradients, velocities; scalars = (lr, weight_decay, momentum, 0 ...). In place."""
    return each(nesterov_pass if nesterov else momentum_pass, 1, arrays, scalars, held, most=3)


def adam(*arrays, scalars, held=(False, False)):
    """arrays: parameters, gradients, first and second moments; scalars: the eight of the rule. In place."""
    return each(adam_pass, 2, arrays, scalars, held, "adam")


@njit(cache=True, nogil=True)
def rmsprop_pass(p, g, v, lr, weight_decay, alpha, rest, eps):
    """p, g, v: (n,) of one dtype. d = g + weight_decay p;  v = alpha v + rest d^2;  p -= lr d / (sqrt(v) + eps)."""
    for i in range(p.size):
        d = g[i] + weight_decay * p[i]
        v[i] = alpha * v[i] + rest * (d * d)
        p[i] -= lr * d / (np.sqrt(v[i]) + eps)


@njit(cache=True, nogil=True)
def lion_pass(p, g, m, lr, keep, beta1, rest1, beta2, rest2):
    """p, g, m: (n,) of one dtype. p = keep p - lr sign(beta1 m + rest1 g);  m = beta2 m + rest2 g."""
    for i in range(p.size):
        p[i] = keep * p[i] - lr * np.sign(beta1 * m[i] + rest1 * g[i])
        m[i] = beta2 * m[i] + rest2 * g[i]


def rmsprop(*arrays, scalars, held=(False, False)):
    """arrays: parameters, gradients, mean squares; scalars = (lr, weight_decay, alpha, rest, eps, 0 ...). In place."""
    return each(rmsprop_pass, 1, arrays, scalars, held, most=5)


def lion(*arrays, scalars, held=(False, False)):
    """arrays: parameters, gradients, moments; scalars = (lr, keep, beta1, rest1, beta2, rest2, 0 ...). In place."""
    return each(lion_pass, 1, arrays, scalars, held, "lion", most=6)


def clip(*grads, scalars):
    """grads -> the norm of all, and for each dtype the scaled ones in one array, each from a multiple of 8 on."""
    wide = np.float64 if any(g.dtype == np.float64 for g in grads) else np.float32
    total = sum(np.vdot(w, w) for w in (g.astype(wide, copy=False).ravel() for g in grads))
    norm = np.sqrt(wide(total))
    ratio = wide(scalars[0]) / (norm + wide(1e-6))
    factor = wide(1) if ratio > 1 else ratio
    results = []
    for dtype in dict.fromkeys(g.dtype for g in grads):
        parts = []
        for g in grads:
            if g.dtype == dtype:
                compute = dtype if dtype.itemsize > 2 else np.dtype(np.float32)
                scaled = (g.astype(compute, copy=False) * compute.type(factor)).astype(dtype, copy=False).ravel()
                parts += [scaled, np.zeros(-g.size % 8, dtype)]
        results.append(np.concatenate(parts))
    return norm, *results
