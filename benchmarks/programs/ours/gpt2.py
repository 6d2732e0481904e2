"""GPT-2: learned positions, LayerNorm, GELU, the head tied to the embedding. Training."""

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
    layers: int = 12
    width: int = 768
    heads: int = 12
    vocabulary: int = 50304
    batch: int = 8
    length: int = 512
    dtype: str = "bfloat16"


SIZES = {"gpt2": Config()}
SMALL = {"gpt2": Config(2, 32, 4, 61, 2, 12, "float32")}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    w = c.width
    out: dict[str, tuple[int, ...]] = {
        "token_embedding.weight": (c.vocabulary, w),
        "position_embedding.weight": (c.length, w),
    }
    for i in range(c.layers):
        sizes = {"norm1": (w,), "qkv": (3 * w, w), "out": (w, w), "norm2": (w,)}
        for name, size in {**sizes, "up": (4 * w, w), "down": (w, 4 * w)}.items():
            out[f"blocks.{i}.{name}.weight"], out[f"blocks.{i}.{name}.bias"] = size, size[:1]
    out["norm.weight"], out["norm.bias"] = (w,), (w,)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return values.tokens(rng, c.vocabulary, c.batch, c.length)


def block(p: dict, at: str, x: Any, c: Config) -> Any:
    def linear(x: Any, name: str) -> Any:
        return ml.linear(x, p[f"{at}{name}.weight"], p[f"{at}{name}.bias"])

    def norm(x: Any, name: str) -> Any:
        return ml.layer_norm(x, c.width, p[f"{at}{name}.weight"], p[f"{at}{name}.bias"])

    b, s = c.batch, c.length
    qkv = linear(norm(x, "norm1"), "qkv").reshape(b, s, 3, c.heads, -1)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)
    y = ml.scaled_dot_product_attention(q, k, v, causal=True)
    x = x + linear(y.transpose(0, 2, 1, 3).reshape(b, s, c.width), "out")
    return x + linear(ml.gelu(linear(norm(x, "norm2"), "up"), "tanh"), "down")


def loss(params: dict, c: Config, tokens: Any, targets: Any) -> Any:
    p = ml.amp.cast(params, c.dtype)
    x = ml.embedding(tokens, p["token_embedding.weight"]) + p["position_embedding.weight"]
    for i in range(c.layers):
        x = block(p, f"blocks.{i}.", x, c)
    x = ml.layer_norm(x, c.width, p["norm.weight"], p["norm.bias"])
    logits = x.reshape(-1, c.width) @ p["token_embedding.weight"].T
    return ml.cross_entropy(logits, targets.reshape(-1))


def step(c: Config, params: dict, state: dict, tokens: Any, targets: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, tokens, targets)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
