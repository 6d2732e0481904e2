"""Language models of an LSTM or a GRU of two layers, by `ml.lstm` and `ml.gru`. Training."""

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
    kind: str = "lstm"
    layers: int = 2
    width: int = 512
    vocabulary: int = 4096
    batch: int = 64
    length: int = 128
    dtype: str = "float32"


SIZES = {"lstm": Config(), "gru": Config("gru")}
SMALL = {kind: Config(kind, 2, 16, 31, 3, 7) for kind in ("lstm", "gru")}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    w, gates = c.width, (4 if c.kind == "lstm" else 3) * c.width
    out: dict[str, tuple[int, ...]] = {"embedding.weight": (c.vocabulary, w)}
    for i in range(c.layers):
        for name in ("weight_ih", "weight_hh"):
            out[f"layers.{name}_l{i}"] = (gates, w)
        for name in ("bias_ih", "bias_hh"):
            out[f"layers.{name}_l{i}"] = (gates,)
    out["head.weight"], out["head.bias"] = (c.vocabulary, w), (c.vocabulary,)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return values.tokens(rng, c.vocabulary, c.batch, c.length)


def loss(p: dict, c: Config, tokens: Any, targets: Any) -> Any:
    layers = {k.removeprefix("layers."): w for k, w in p.items() if k.startswith("layers.")}
    x = ml.embedding(tokens.T, p["embedding.weight"])
    states, _ = ml.lstm(x, layers) if c.kind == "lstm" else ml.gru(x, layers)
    logits = ml.linear(states.reshape(-1, c.width), p["head.weight"], p["head.bias"])
    return ml.cross_entropy(logits, targets.T.reshape(-1))


def step(c: Config, params: dict, state: dict, tokens: Any, targets: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, tokens, targets)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
