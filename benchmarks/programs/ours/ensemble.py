"""An ensemble of classifiers, trained at once by `vmap`: each weighs the samples in its own way."""

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
    members: int = 32
    features: int = 784
    width: int = 256
    classes: int = 10
    batch: int = 1024
    dtype: str = "float32"


SIZES = {"ensemble": Config()}
SMALL = {"ensemble": Config(3, 6, 8, 4, 10)}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    sizes = [c.features, c.width, c.width, c.classes]
    out: dict[str, tuple[int, ...]] = {}
    for i, (of, to) in enumerate(zip(sizes, sizes[1:], strict=False)):
        out[f"kernel{i}"], out[f"bias{i}"] = (c.members, to, of), (c.members, to)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Samples, their classes, and how often each member has drawn each sample (bagging)."""
    x = values.normal(rng, c.batch, c.features)
    labels = rng.integers(0, c.classes, c.batch)
    drawn = rng.multinomial(c.batch, np.full(c.batch, 1 / c.batch), c.members)
    return x, labels, drawn.astype(np.float32)


def member(p: dict, x: Any, labels: Any, drawn: Any) -> Any:
    """The loss of one network."""
    for i in range(2):
        x = ml.relu(ml.linear(x, p[f"kernel{i}"], p[f"bias{i}"]))
    scores = ml.linear(x, p["kernel2"], p["bias2"])
    return cm.mean(ml.cross_entropy(scores, labels, reduction="none") * drawn)


def loss(p: dict, x: Any, labels: Any, drawn: Any) -> Any:
    return cm.vmap(member, in_axes=(0, None, None, 0))(p, x, labels, drawn).sum()


def step(c: Config, params: dict, state: dict, *data: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, *data)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
