"""Language models of an LSTM or a GRU, whose steps are written by hand and run by `scan`."""

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
    width: int = 512
    vocabulary: int = 4096
    batch: int = 64
    length: int = 32
    dtype: str = "float32"

    @property
    def gates(self) -> int:
        return 4 if self.kind == "lstm" else 3


SIZES = {"lstm_by_hand": Config(), "gru_by_hand": Config("gru")}
SMALL = {kind + "_by_hand": Config(kind, 16, 31, 3, 7) for kind in ("lstm", "gru")}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    w, gates = c.width, c.gates * c.width
    return {
        "embedding.weight": (c.vocabulary, w),
        "inputs.weight": (gates, w),
        "inputs.bias": (gates,),
        "states.weight": (gates, w),
        "states.bias": (gates,),
        "head.weight": (c.vocabulary, w),
        "head.bias": (c.vocabulary,),
    }


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return values.tokens(rng, c.vocabulary, c.batch, c.length)


def lstm_step(p: dict, carry: tuple, x: Any) -> tuple:
    h, cell = carry
    gates = x + ml.linear(h, p["states.weight"], p["states.bias"])
    i, f, g, o = cm.split(gates, 4, axis=-1)
    cell = ml.sigmoid(f) * cell + ml.sigmoid(i) * cm.tanh(g)
    h = ml.sigmoid(o) * cm.tanh(cell)
    return (h, cell), h


def gru_step(p: dict, h: Any, x: Any) -> tuple:
    xr, xz, xn = cm.split(x, 3, axis=-1)
    hr, hz, hn = cm.split(ml.linear(h, p["states.weight"], p["states.bias"]), 3, axis=-1)
    r, z = ml.sigmoid(xr + hr), ml.sigmoid(xz + hz)
    n = cm.tanh(xn + r * hn)
    h = (1 - z) * n + z * h
    return h, h


def loss(p: dict, c: Config, tokens: Any, targets: Any) -> Any:
    x = ml.linear(
        ml.embedding(tokens.T, p["embedding.weight"]), p["inputs.weight"], p["inputs.bias"]
    )
    start = cm.zeros((c.batch, c.width), dtype=x.dtype, device=x.device)
    if c.kind == "lstm":
        _, states = cm.scan(lambda carry, row: lstm_step(p, carry, row), (start, start), x)
    else:
        _, states = cm.scan(lambda carry, row: gru_step(p, carry, row), start, x)
    logits = ml.linear(states.reshape(-1, c.width), p["head.weight"], p["head.bias"])
    return ml.cross_entropy(logits, targets.T.reshape(-1))


def step(c: Config, params: dict, state: dict, tokens: Any, targets: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, tokens, targets)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
