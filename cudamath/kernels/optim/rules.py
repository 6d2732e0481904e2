"""The rules of optimizers: device functions of a parameter, its gradient, two states and eight
numbers, that return the new parameter and states (steps.py has the formulas)."""

import math

from ..compiler.lazy_numba import cuda


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
    step = (
        lr if u > u - u else (-lr if u < u - u else lr * u)
    )  # by the sign; 0 and NaN stay themselves
    return keep * p - step, beta2 * m + rest2 * g, t


#: What stands for the rule's numbers 1 and 2 (None: the same) where a parameter's weights do not
#: decay.
UNDECAYED = {
    sgd_rule: (0, None),
    momentum_rule: (0, None),
    nesterov_rule: (0, None),
    adam_rule: (1, 0),
    rmsprop_rule: (0, None),
    lion_rule: (1, None),
}
