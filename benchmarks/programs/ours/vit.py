"""A vision transformer: patches by a convolution, a class token, LayerNorm, GELU. Training."""

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
    image: int = 224
    patch: int = 16
    classes: int = 1000
    batch: int = 32
    dtype: str = "bfloat16"

    @property
    def patches(self) -> int:
        return (self.image // self.patch) ** 2


SIZES = {"vit": Config()}
SMALL = {"vit": Config(2, 32, 4, 16, 4, 10, 3, "float32")}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    w = c.width
    out: dict[str, tuple[int, ...]] = {
        "patches.weight": (w, 3, c.patch, c.patch),
        "patches.bias": (w,),
        "class_embedding": (1, 1, w),
        "position_embedding": (1, c.patches + 1, w),
    }
    for i in range(c.layers):
        sizes = {"norm1": (w,), "qkv": (3 * w, w), "out": (w, w), "norm2": (w,)}
        for name, size in {**sizes, "up": (4 * w, w), "down": (w, 4 * w)}.items():
            out[f"blocks.{i}.{name}.weight"], out[f"blocks.{i}.{name}.bias"] = size, size[:1]
    for name, size in {"norm": (w,), "head": (c.classes, w)}.items():
        out[name + ".weight"], out[name + ".bias"] = size, size[:1]
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    images = values.normal(rng, c.batch, 3, c.image, c.image)
    return images, rng.integers(0, c.classes, c.batch)


def loss(params: dict, c: Config, images: Any, labels: Any) -> Any:
    p = ml.amp.cast(params, c.dtype)

    def linear(x: Any, name: str) -> Any:
        return ml.linear(x, p[name + ".weight"], p[name + ".bias"])

    def norm(x: Any, name: str) -> Any:
        return ml.layer_norm(x, c.width, p[name + ".weight"], p[name + ".bias"])

    x = images.astype(c.dtype)
    x = ml.conv2d(x, p["patches.weight"], p["patches.bias"], stride=c.patch)
    x = x.reshape(c.batch, c.width, c.patches).transpose(0, 2, 1)
    first = cm.broadcast_to(p["class_embedding"], (c.batch, 1, c.width))
    x = cm.concatenate([first, x], axis=1) + p["position_embedding"]
    for i in range(c.layers):
        at = f"blocks.{i}."
        qkv = linear(norm(x, at + "norm1"), at + "qkv")
        q, k, v = qkv.reshape(c.batch, -1, 3, c.heads, c.width // c.heads).transpose(2, 0, 3, 1, 4)
        y = ml.scaled_dot_product_attention(q, k, v)
        x = x + linear(y.transpose(0, 2, 1, 3).reshape(c.batch, -1, c.width), at + "out")
        x = x + linear(ml.gelu(linear(norm(x, at + "norm2"), at + "up")), at + "down")
    return ml.cross_entropy(linear(norm(x[:, 0], "norm"), "head"), labels)


def step(c: Config, params: dict, state: dict, images: Any, labels: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, images, labels)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
