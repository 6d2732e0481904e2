"""Random programs of points and edges: all pairs, sums by index, products of chosen rows, joined
results. On an emulated GPU they give what the same functions give on the CPU.

What pays only for large arrays is made to happen for small ones.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable

import numpy as np
import pytest
from program_comparison import on

import cudamath as cm
from cudamath.kernels.index import dispatch
from cudamath.programs import fusion

PROGRAMS, OPERATIONS = 24, 12
SMOOTH = [cm.sin, cm.tanh, cm.square, lambda x: x * 0.5 + 1, cm.exp, cm.abs]
REDUCTIONS = [
    lambda x: x.sum(1),
    lambda x: x.mean(0),
    lambda x: x.max(1),
    lambda x: x.min(0),
]


def random_program(seed: int) -> tuple[Callable, list[np.ndarray]]:
    """A function of points (n, c), others, two indices and a weight, and float64 arguments."""
    rng, choose = np.random.default_rng(seed), random.Random(seed)
    n, m, c = choose.choice([5, 12]), choose.choice([7, 70]), choose.choice([2, 3, 4])
    steps = [
        (choose.choice("smooth pairs pairs joined stacked sums gradients total".split()),
         choose.choice(SMOOTH), choose.choice(SMOOTH), choose.randrange(4))
        for _ in range(OPERATIONS)
    ]  # fmt: skip

    def program(points, others, one, other, weight):
        p, results = points, []
        for kind, f, g, k in steps:
            if kind == "smooth":
                p = f(p * 0.3 + others * 0.1)
            elif kind == "pairs":
                apart = p[None] - p[:, None]
                square = (apart**2).sum(-1) + 0.5
                p = REDUCTIONS[k](apart / (square * cm.sqrt(square))[..., None]) * 0.7 + p * 0.5
            elif kind == "joined":
                results.append(cm.concatenate([f(p), g(others) + p], axis=k % 2))
            elif kind == "stacked":
                results.append(cm.stack([f(p * others), p + others, g(p)]))
            elif kind == "sums":
                p = cm.tanh(cm.index_add(cm.zeros((n, c), p.dtype), one, f(p)[other])) + p * 0.3
            elif kind == "gradients":

                def loss(w, x):
                    pairs = cm.concatenate([x[one], x[other]], axis=1)
                    return cm.sin(pairs @ cm.concatenate([w, w * 2])).sum()

                slope, g_p = cm.grad(loss, (0, 1))(weight, p)
                results.append(slope)
                p = p + cm.tanh(g_p)
            else:
                results.append((p.sum(0, keepdims=True) * cm.ones((n, c), p.dtype)).sum() * p)
        return [p, *results]

    indices = rng.integers(-n, n, m), rng.integers(0, n, m)
    points, others, weight = (rng.normal(size=s) for s in ((n, c), (n, c), (c, c + 1)))
    return program, [points, others, *indices, weight]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs_of_points_and_edges(monkeypatch, seed: int) -> None:
    fuse = importlib.import_module("cudamath.fuse")
    for name, value in {"LARGE": 60, "REPEATED": 3, "WORK": 2}.items():
        monkeypatch.setattr(fuse, name, value)
    monkeypatch.setattr(fusion, "RUN", 256 if seed % 3 == 0 else 0)
    if seed % 2:
        monkeypatch.setattr(dispatch, "sorts", lambda *_, **__: True)
    program, given = random_program(seed)
    with cm.device("cpu"):
        wanted = [np.asarray(y) for y in program(*map(cm.asarray, given))]
    with on("emulated"):
        jitted = cm.jit(program)
        for _ in range(3):  # recorded, captured, replayed
            found = jitted(*map(cm.asarray, given))
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one.to_numpy(), other, 1e-8, 1e-8)


def test_the_programs_take_what_is_tested() -> None:
    """Each pass changes some of them."""
    notes = set()
    with on("emulated"):
        for seed in range(PROGRAMS):
            program, given = random_program(seed)
            jitted = cm.jit(program)
            jitted(*map(cm.asarray, given))
            notes |= {note.partition(":")[0] for p in jitted.programs() for note in p.notes}
    assert {"chosen rows", "places", "fused"} <= notes
