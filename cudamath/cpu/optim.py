"""Optimizer steps on the CPU: one compiled pass over each parameter, in place.

The formulas are those of kernels/optim.py. A pass reads and writes every array once, where a chain of NumPy
calls would stream each of its dozen temporaries through memory. float16 and bfloat16 parameters are widened to
float32, stepped, and rounded back; their moments are float32 throughout.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sgd_pass(p, g, lr, weight_decay):
    """p, g: (n,) of one dtype. p -= lr (g + weight_decay p)."""
    for i in range(p.size):
        p[i] -= lr * (g[i] + weight_decay * p[i])


@njit(cache=True, nogil=True)
def momentum_pass(p, g, u, lr, weight_decay, momentum, nesterov):
    """p, g, u: (n,) of one dtype. u = momentum u + g;  p -= lr u, or lr (g + momentum u) for Nesterov."""
    for i in range(p.size):
        d = g[i] + weight_decay * p[i]
        u[i] = momentum * u[i] + d
        p[i] -= lr * (d + momentum * u[i] if nesterov else u[i])


@njit(cache=True, nogil=True)
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


def sgd(*arrays, scalars):
    """arrays: all parameters, then all gradients; scalars = (lr, weight_decay). In place."""
    count = len(arrays) // 2
    for i in range(count):
        in_place(sgd_pass, arrays[i::count], scalars)


def momentum(*arrays, scalars, nesterov):
    """arrays: parameters, gradients, velocities; scalars = (lr, weight_decay, momentum). In place."""
    count = len(arrays) // 3
    for i in range(count):
        in_place(momentum_pass, arrays[i::count], (*scalars, nesterov))


def adam(*arrays, scalars):
    """arrays: parameters, gradients, first and second moments; scalars as in kernels/optim.py. In place."""
    count = len(arrays) // 4
    for i in range(count):
        in_place(adam_pass, arrays[i::count], scalars)
