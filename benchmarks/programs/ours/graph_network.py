"""A graph network: messages along edges by gather, sums at nodes by scatter. Training."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.programs import values
from cudamath import ml

TRAINS = True


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int = 3
    width: int = 128
    nodes: int = 20000
    edges: int = 200000
    classes: int = 16
    dtype: str = "float32"


SIZES = {"graph_network": Config()}
SMALL = {"graph_network": Config(2, 8, 12, 40, 5)}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    w, out = c.width, {}
    for i in range(c.layers):
        at = f"layers.{i}."
        for name, size in {"message": (w, 2 * w), "update": (w, 2 * w), "norm": (w,)}.items():
            out[f"{at}{name}.weight"], out[f"{at}{name}.bias"] = size, size[:1]
    return {**out, "head.weight": (c.classes, w), "head.bias": (c.classes,)}


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """States of the nodes, where edges begin and end, and the classes of the nodes."""
    ends = rng.integers(0, c.nodes, (2, c.edges))
    return values.normal(rng, c.nodes, c.width), *ends, rng.integers(0, c.classes, c.nodes)


def loss(p: dict, c: Config, x: Any, source: Any, target: Any, labels: Any) -> Any:
    def linear(x: Any, name: str) -> Any:
        return ml.linear(x, p[name + ".weight"], p[name + ".bias"])

    for i in range(c.layers):
        at = f"layers.{i}."
        pairs = cm.concatenate([x[source], x[target]], axis=-1)
        messages = ml.relu(linear(pairs, at + "message"))
        gathered = cm.index_add(cm.zeros_like(x), target, messages)
        y = linear(cm.concatenate([x, gathered], axis=-1), at + "update")
        y = ml.layer_norm(y, c.width, p[at + "norm.weight"], p[at + "norm.bias"])
        x = x + ml.relu(y)
    return ml.cross_entropy(linear(x, "head"), labels)


def step(c: Config, params: dict, state: dict, *graph: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, *graph)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
