"""ConvNeXt: depthwise convolutions, LayerNorm over channels, GELU, layer scale. Training."""

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
    depths: tuple[int, ...] = (3, 3, 9, 3)
    widths: tuple[int, ...] = (96, 192, 384, 768)
    image: int = 224
    classes: int = 1000
    batch: int = 32
    dtype: str = "bfloat16"


SIZES = {"convnext": Config()}
SMALL = {"convnext": Config((1, 2), (8, 16), 32, 10, 3, "float32")}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {}

    def layer(name: str, *shape: int) -> None:
        out[name + ".weight"], out[name + ".bias"] = shape, shape[:1]

    before = 3
    for i, (depth, w) in enumerate(zip(c.depths, c.widths, strict=True)):
        if i:
            layer(f"norms.{i}", before)
        layer(f"downs.{i}", w, before, *((2, 2) if i else (4, 4)))
        if not i:
            layer("norms.0", w)
        for k in range(depth):
            at = f"stages.{i}.{k}."
            layer(at + "depthwise", w, 1, 7, 7)
            layer(at + "norm", w)
            layer(at + "up", 4 * w, w)
            layer(at + "down", w, 4 * w)
            out[at + "scale"] = (w,)
        before = w
    layer("norm", before)
    layer("head", c.classes, before)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    images = values.normal(rng, c.batch, 3, c.image, c.image)
    return images, rng.integers(0, c.classes, c.batch)


def loss(params: dict, c: Config, images: Any, labels: Any) -> Any:
    p = ml.amp.cast(params, c.dtype)

    def linear(x: Any, name: str) -> Any:
        return ml.linear(x, p[name + ".weight"], p[name + ".bias"])

    def norm(x: Any, name: str) -> Any:
        return ml.layer_norm(x, x.shape[-1], p[name + ".weight"], p[name + ".bias"], 1e-6)

    def conv(x: Any, name: str, **how: Any) -> Any:
        return ml.conv2d(x, p[name + ".weight"], p[name + ".bias"], **how)

    x = images.astype(c.dtype)
    for i, (depth, width) in enumerate(zip(c.depths, c.widths, strict=True)):
        if i:
            x = norm(x.transpose(0, 2, 3, 1), f"norms.{i}").transpose(0, 3, 1, 2)
        x = conv(x, f"downs.{i}", stride=2 if i else 4)
        if not i:
            x = norm(x.transpose(0, 2, 3, 1), "norms.0").transpose(0, 3, 1, 2)
        for k in range(depth):
            at = f"stages.{i}.{k}."
            y = conv(x, at + "depthwise", padding=3, groups=width)
            y = norm(y.transpose(0, 2, 3, 1), at + "norm")
            y = linear(ml.gelu(linear(y, at + "up")), at + "down") * p[at + "scale"]
            x = x + y.transpose(0, 3, 1, 2)
    return ml.cross_entropy(linear(norm(x.mean((2, 3)), "norm"), "head"), labels)


def step(c: Config, params: dict, state: dict, images: Any, labels: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, images, labels)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
