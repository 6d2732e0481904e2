"""A physics-informed network for Burgers' equation: second derivatives within the loss."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

import cudamath as cm
from cudamath import ml

TRAINS = True


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int = 5
    width: int = 128
    points: int = 20000
    edges: int = 1000
    dtype: str = "float32"


SIZES = {"pinn": Config()}
SMALL = {"pinn": Config(2, 8, 20, 6)}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    sizes = [2, *[c.width] * c.layers, 1]
    out: dict[str, tuple[int, ...]] = {}
    for i, (of, to) in enumerate(zip(sizes, sizes[1:], strict=False)):
        out[f"layers.{i}.weight"], out[f"layers.{i}.bias"] = (to, of), (to,)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Points (x, t) inside, and points at the start with the values there."""
    x, t = rng.uniform(-1, 1, c.points), rng.uniform(0, 1, c.points)
    start = rng.uniform(-1, 1, c.edges)
    return tuple(a.astype(np.float32) for a in (x, t, start, -np.sin(np.pi * start)))


def network(p: dict, x: Any, t: Any) -> Any:
    y, count = cm.stack([x, t], axis=-1), len(p) // 2
    for i in range(count):
        y = ml.linear(y, p[f"layers.{i}.weight"], p[f"layers.{i}.bias"])
        y = cm.tanh(y) if i < count - 1 else y
    return y[:, 0]


def loss(p: dict, x: Any, t: Any, start: Any, values: Any) -> Any:
    def by_x(x: Any) -> Any:
        return cm.grad(lambda x: network(p, x, t).sum())(x)

    u = network(p, x, t)
    u_t = cm.grad(lambda t: network(p, x, t).sum())(t)
    u_x, u_xx = by_x(x), cm.grad(lambda x: by_x(x).sum())(x)
    residual = u_t + u * u_x - 0.01 / math.pi * u_xx
    there = network(p, start, cm.zeros_like(start))
    return cm.mean(residual**2) + cm.mean((there - values) ** 2)


def step(c: Config, params: dict, state: dict, *points: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, *points)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
