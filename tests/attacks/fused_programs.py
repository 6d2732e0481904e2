"""Random programs, fused and plain: `cm.fuse` of a program on a GPU gives what the same operations
give one by one, in float64 on the CPU.

Without a GPU in Numba's simulator, which wants NUMBA_ENABLE_CUDASIM=1.
"""

from __future__ import annotations

import warnings

import numpy as np
from simulated_gpu import simulated_gpu

import cudamath as cm

UNARY = {
    "exp": lambda xp, x: xp.exp(-xp.abs(x)),
    "sin": lambda xp, x: xp.sin(x),
    "tanh": lambda xp, x: xp.tanh(x),
    "abs": lambda xp, x: xp.abs(x),
    "square": lambda xp, x: x * x / 4,
    "sqrt": lambda xp, x: xp.sqrt(xp.abs(x) + 0.5),
    "log1p": lambda xp, x: xp.log1p(xp.abs(x)),
    "negative": lambda xp, x: -x,
    "reciprocal": lambda xp, x: 1 / (1 + xp.abs(x)),
}
BINARY = {
    "add": lambda xp, x, y: x + y,
    "subtract": lambda xp, x, y: x - y,
    "multiply": lambda xp, x, y: x * y / 2,
    "divide": lambda xp, x, y: x / (1 + y * y),
    "maximum": lambda xp, x, y: xp.maximum(x, y),
    "minimum": lambda xp, x, y: xp.minimum(x, y),
    "where": lambda xp, x, y: xp.where(x > y, x - y, 0.5 * (x - y)),  # continuous where x is y
}
ROWS = {
    "sum": lambda xp, x: xp.sum(x, axis=-1, keepdims=True) / 4,
    "mean": lambda xp, x: xp.mean(x, axis=-1, keepdims=True),
    "max": lambda xp, x: xp.max(x, axis=-1, keepdims=True),
    "var": lambda xp, x: xp.var(x, axis=-1, keepdims=True),
    "columns": lambda xp, x: xp.mean(x, axis=0, keepdims=True),
}


def program(chance, arguments, length):
    """Steps (function, places of its arguments among what there is)."""
    steps = []
    for i in range(length):
        known = arguments + i
        near = [known - 1, chance.randrange(known)]
        way = chance.random()
        if way < 0.4:
            steps.append((UNARY[chance.choice(list(UNARY))], near[:1]))
        elif way < 0.8:
            chance.shuffle(near)
            steps.append((BINARY[chance.choice(list(BINARY))], near))
        else:
            steps.append((ROWS[chance.choice(list(ROWS))], near[:1]))
    return steps


def run(xp, steps, arrays):
    known = list(arrays)
    for function, places in steps:
        known.append(function(xp, *[known[i] for i in places]))
    return known[-1]


def attack(under, monkeypatch):
    chance = under.chance
    gpu = cm.device("cuda") if under.device == "cuda" else simulated_gpu(monkeypatch)
    with warnings.catch_warnings(), gpu:
        warnings.simplefilter("ignore")
        while under.goes_on:
            seed = chance.randrange(1 << 30)
            rng = np.random.default_rng(seed)
            rows, columns = chance.choice([(3, 5), (2, 9), (1, 4), (4, 1), (5, 33)])
            shapes = [
                (rows, columns),
                chance.choice([(rows, columns), (columns,), (rows, 1), (1,)]),
            ]
            arrays = [rng.standard_normal(shape).astype("f4") for shape in shapes]
            steps = program(chance, len(arrays), chance.randrange(2, 9))

            def function(*xs, steps=steps):
                return run(cm, steps, xs)

            expected = run(np, steps, [a.astype("f8") for a in arrays])
            xs = [cm.asarray(a) for a in arrays]
            words = f"program {seed} of {len(steps)} steps on {shapes}"
            try:
                got = cm.fuse(function)(*xs).to_numpy()
                plain = function(*xs).to_numpy()
            except Exception as error:
                under.violation(f"{words}: {type(error).__name__}: {error}")
                continue
            under.tried += 1
            for what, answer in (("fused", got), ("plain", plain)):
                if answer.shape != expected.shape or not np.allclose(
                    answer, expected, rtol=2e-4, atol=2e-5
                ):
                    under.violation(f"{words}, {what}: {answer!r} instead of {expected!r}"[:400])
