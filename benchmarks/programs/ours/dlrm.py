"""A recommender as DLRM: embeddings of many features, products of all pairs, two MLPs. Training."""

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
    tables: int = 16
    rows: int = 20000
    width: int = 64
    dense: int = 13
    hidden: int = 256
    batch: int = 4096
    dtype: str = "float32"

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return np.tril_indices(self.tables + 1, -1)


SIZES = {"dlrm": Config()}
SMALL = {"dlrm": Config(3, 20, 8, 5, 16, 6)}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {
        f"embedding.{i}.weight": (c.rows, c.width) for i in range(c.tables)
    }
    for name, to, of in (
        ("bottom1", c.hidden, c.dense),
        ("bottom2", c.width, c.hidden),
        ("top1", c.hidden, c.width + len(c.pairs[0])),
        ("top2", c.hidden, c.hidden),
        ("top3", 1, c.hidden),
    ):
        out[name + ".weight"], out[name + ".bias"] = (to, of), (to,)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Dense features, categories of each table, clicks."""
    categories = rng.integers(0, c.rows, (c.tables, c.batch))
    clicks = rng.integers(0, 2, c.batch).astype(np.float32)
    return values.normal(rng, c.batch, c.dense), categories, clicks


def loss(p: dict, c: Config, dense: Any, categories: Any, clicks: Any) -> Any:
    def linear(x: Any, name: str) -> Any:
        return ml.linear(x, p[name + ".weight"], p[name + ".bias"])

    x = ml.relu(linear(ml.relu(linear(dense, "bottom1")), "bottom2"))
    looked_up = [ml.embedding(categories[i], p[f"embedding.{i}.weight"]) for i in range(c.tables)]
    features = cm.stack([x, *looked_up], axis=1)
    products = features @ features.transpose(0, 2, 1)
    rows, columns = c.pairs
    x = cm.concatenate([x, products[:, rows, columns]], axis=-1)
    x = ml.relu(linear(ml.relu(linear(x, "top1")), "top2"))
    return ml.bce_with_logits(linear(x, "top3")[:, 0], clicks)


def step(c: Config, params: dict, state: dict, *batch: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, *batch)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
