"""A mixture of experts: each token goes to the two experts that its gate prefers. Training.

Tokens are sorted by expert, so that each expert multiplies the rows that came to it.
"""

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
    layers: int = 4
    width: int = 512
    hidden: int = 1024
    experts: int = 8
    chosen: int = 2
    classes: int = 1000
    tokens: int = 8192
    dtype: str = "bfloat16"


SIZES = {"moe": Config()}
SMALL = {"moe": Config(2, 16, 24, 4, 2, 10, 40, "float32")}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {"head.weight": (c.classes, c.width)}
    for i in range(c.layers):
        at = f"layers.{i}."
        out[at + "norm.weight"] = (c.width,)
        out[at + "gate.weight"] = (c.experts, c.width)
        out[at + "up"] = (c.experts, c.width, c.hidden)
        out[at + "down"] = (c.experts, c.hidden, c.width)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return values.normal(rng, c.tokens, c.width), rng.integers(0, c.classes, c.tokens)


def experts(p: dict, at: str, x: Any, c: Config) -> Any:
    gates = ml.softmax(ml.linear(x, p[at + "gate.weight"]).astype("float32"))
    best, which = cm.topk(gates, c.chosen)
    best = best / best.sum(-1, keepdims=True)
    which = which.reshape(-1)
    order = cm.argsort(which, stable=True)
    ends = cm.cumsum(ml.one_hot(which, c.experts).sum(0))
    rows = x[order // c.chosen]
    y = ml.grouped_matmul(
        ml.gelu(ml.grouped_matmul(rows, p[at + "up"], ends)), p[at + "down"], ends
    )
    y = y * best.reshape(-1)[order][:, None].astype(y.dtype)
    return cm.index_add(cm.zeros_like(x), order // c.chosen, y)


def loss(params: dict, c: Config, x: Any, labels: Any) -> Any:
    p = ml.amp.cast(params, c.dtype)
    x = x.astype(c.dtype)
    for i in range(c.layers):
        at = f"layers.{i}."
        x = x + experts(p, at, ml.rms_norm(x, c.width, p[at + "norm.weight"], 1e-5), c)
    return ml.cross_entropy(ml.linear(x, p["head.weight"]), labels)


def step(c: Config, params: dict, state: dict, x: Any, labels: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, x, labels)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
