"""A BERT-style encoder: post-norm, padded sequences, GELU. Inference, 16-bit weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from cudamath import ml

TRAINS = False


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int = 12
    width: int = 768
    heads: int = 12
    vocabulary: int = 30528
    batch: int = 16
    length: int = 256
    dtype: str = "bfloat16"


SIZES = {"bert": Config(), "bert_one": Config(batch=1, length=128)}
SMALL = {"bert": Config(2, 32, 4, 61, 3, 12, "float32")}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    w = c.width
    out: dict[str, tuple[int, ...]] = {
        "token_embedding.weight": (c.vocabulary, w),
        "position_embedding.weight": (c.length, w),
        "norm.weight": (w,),
        "norm.bias": (w,),
    }
    for i in range(c.layers):
        sizes = {"q": (w, w), "k": (w, w), "v": (w, w), "out": (w, w), "norm1": (w,)}
        for name, size in {**sizes, "up": (4 * w, w), "down": (w, 4 * w), "norm2": (w,)}.items():
            out[f"blocks.{i}.{name}.weight"], out[f"blocks.{i}.{name}.bias"] = size, size[:1]
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Tokens, and which of them are there: sequences are padded at their end."""
    lengths = rng.integers(c.length // 2, c.length + 1, (c.batch, 1))
    return rng.integers(0, c.vocabulary, (c.batch, c.length)), np.arange(c.length) < lengths


def step(c: Config, p: dict, state: None, tokens: Any, present: Any) -> Any:
    def linear(x: Any, name: str) -> Any:
        return ml.linear(x, p[name + ".weight"], p[name + ".bias"])

    def norm(x: Any, name: str) -> Any:
        return ml.layer_norm(x, c.width, p[name + ".weight"], p[name + ".bias"])

    def heads(x: Any) -> Any:
        return x.reshape(c.batch, c.length, c.heads, -1).transpose(0, 2, 1, 3)

    x = ml.embedding(tokens, p["token_embedding.weight"]) + p["position_embedding.weight"]
    x = norm(x, "norm")
    for i in range(c.layers):
        at = f"blocks.{i}."
        q, k, v = (heads(linear(x, at + name)) for name in "qkv")
        y = ml.scaled_dot_product_attention(q, k, v, mask=present[:, None, None, :])
        y = linear(y.transpose(0, 2, 1, 3).reshape(c.batch, c.length, c.width), at + "out")
        x = norm(x + y, at + "norm1")
        x = norm(x + linear(ml.gelu(linear(x, at + "up")), at + "down"), at + "norm2")
    return x
