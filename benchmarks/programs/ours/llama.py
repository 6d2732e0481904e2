"""A Llama-style language model: RMSNorm, rotary positions, grouped queries, SwiGLU. Training."""

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
    layers: int = 8
    width: int = 512
    heads: int = 8
    groups: int = 4  # heads of keys and values
    hidden: int = 1408
    vocabulary: int = 32000
    batch: int = 8
    length: int = 512
    dtype: str = "bfloat16"


SIZES = {
    "llama_small": Config(),
    "llama_medium": Config(12, 768, 12, 4, 2048, batch=8, length=1024),
    "llama_large": Config(16, 1280, 20, 5, 3456, batch=4, length=1024),
}
SMALL = {"llama": Config(2, 32, 4, 2, 48, 61, 2, 12, "float32")}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    kv = c.width // c.heads * c.groups
    out: dict[str, tuple[int, ...]] = {"embedding.weight": (c.vocabulary, c.width)}
    for i in range(c.layers):
        at = f"blocks.{i}."
        out[at + "norm1.weight"] = out[at + "norm2.weight"] = (c.width,)
        out[at + "q.weight"] = out[at + "o.weight"] = (c.width, c.width)
        out[at + "k.weight"] = out[at + "v.weight"] = (kv, c.width)
        out[at + "gate.weight"] = out[at + "up.weight"] = (c.hidden, c.width)
        out[at + "down.weight"] = (c.width, c.hidden)
    out["norm.weight"], out["head.weight"] = (c.width,), (c.vocabulary, c.width)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return values.tokens(rng, c.vocabulary, c.batch, c.length)


def attention(p: dict, at: str, x: Any, c: Config) -> Any:
    b, s, depth = c.batch, c.length, c.width // c.heads
    q = ml.linear(x, p[at + "q.weight"]).reshape(b, s, c.heads, depth).transpose(0, 2, 1, 3)
    k = ml.linear(x, p[at + "k.weight"]).reshape(b, s, c.groups, depth).transpose(0, 2, 1, 3)
    v = ml.linear(x, p[at + "v.weight"]).reshape(b, s, c.groups, depth).transpose(0, 2, 1, 3)
    cos, sin = ml.rotary_tables(s, depth)
    q, k = ml.rotary_embedding(q, cos, sin), ml.rotary_embedding(k, cos, sin)
    y = ml.scaled_dot_product_attention(q, k, v, causal=True)
    return ml.linear(y.transpose(0, 2, 1, 3).reshape(b, s, c.width), p[at + "o.weight"])


def loss(params: dict, c: Config, tokens: Any, targets: Any) -> Any:
    p = ml.amp.cast(params, c.dtype)
    x = ml.embedding(tokens, p["embedding.weight"])
    for i in range(c.layers):
        at = f"blocks.{i}."
        x = x + attention(p, at, ml.rms_norm(x, c.width, p[at + "norm1.weight"], 1e-5), c)
        y = ml.rms_norm(x, c.width, p[at + "norm2.weight"], 1e-5)
        gated = ml.silu(ml.linear(y, p[at + "gate.weight"])) * ml.linear(y, p[at + "up.weight"])
        x = x + ml.linear(gated, p[at + "down.weight"])
    x = ml.rms_norm(x, c.width, p["norm.weight"], 1e-5)
    logits = ml.linear(x, p["head.weight"]).reshape(-1, c.vocabulary)
    return ml.cross_entropy(logits, targets.reshape(-1))


def step(c: Config, params: dict, state: dict, tokens: Any, targets: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, tokens, targets)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
