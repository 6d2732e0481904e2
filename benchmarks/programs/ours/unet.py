"""A U-Net with attention, as in diffusion models: GroupNorm, SiLU, time embedding. Training."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.programs import values
from cudamath import ml

TRAINS = True


@dataclasses.dataclass(frozen=True)
class Config:
    widths: tuple[int, ...] = (128, 256, 256)
    image: int = 64
    groups: int = 32
    heads: int = 4
    batch: int = 16
    dtype: str = "bfloat16"

    @property
    def blocks(self) -> dict[str, tuple[int, int]]:
        """Name -> widths of what goes in and comes out."""
        w, out = self.widths, {}
        for i in range(len(w)):
            out[f"down{i}"] = (w[max(i - 1, 0)], w[i])
        out["middle0"] = out["middle1"] = (w[-1], w[-1])
        for i in reversed(range(len(w))):
            out[f"up{i}"] = (w[min(i + 1, len(w) - 1)] + w[i], w[i])
        return out


SIZES = {"unet": Config()}
SMALL = {"unet": Config((8, 16), 8, 4, 2, 2, "float32")}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {}

    def layer(name: str, *shape: int) -> None:
        out[name + ".weight"], out[name + ".bias"] = shape, shape[:1]

    first, last = c.widths[0], c.widths[-1]
    layer("time1", first * 4, first)
    layer("time2", first * 4, first * 4)
    layer("first", first, 3, 3, 3)
    for name, (a, b) in c.blocks.items():
        layer(f"{name}.norm1", a)
        layer(f"{name}.conv1", b, a, 3, 3)
        layer(f"{name}.time", b, first * 4)
        layer(f"{name}.norm2", b)
        layer(f"{name}.conv2", b, b, 3, 3)
        if a != b:
            layer(f"{name}.skip", b, a, 1, 1)
    layer("attention.norm", last)
    layer("attention.qkv", 3 * last, last, 1, 1)
    layer("attention.out", last, last, 1, 1)
    layer("norm", first)
    layer("last", 3, first, 3, 3)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    shape = c.batch, 3, c.image, c.image
    noisy, noise = values.normal(rng, *shape), values.normal(rng, *shape)
    return noisy, rng.uniform(0, 1000, c.batch).astype(np.float32), noise


def predicted(p: dict, c: Config, x: Any, times: Any) -> Any:
    def linear(x: Any, name: str) -> Any:
        return ml.linear(x, p[name + ".weight"], p[name + ".bias"])

    def conv(x: Any, name: str, padding: int = 1) -> Any:
        return ml.conv2d(x, p[name + ".weight"], p[name + ".bias"], padding=padding)

    def norm(x: Any, name: str) -> Any:
        return ml.group_norm(x, c.groups, p[name + ".weight"], p[name + ".bias"])

    def block(x: Any, name: str) -> Any:
        y = conv(ml.silu(norm(x, f"{name}.norm1")), f"{name}.conv1")
        y = y + linear(ml.silu(time), f"{name}.time")[:, :, None, None]
        y = conv(ml.silu(norm(y, f"{name}.norm2")), f"{name}.conv2")
        return y + (conv(x, f"{name}.skip", 0) if f"{name}.skip.weight" in p else x)

    half = c.widths[0] // 2
    angles = times[:, None] * cm.exp(-math.log(10000) / half * cm.arange(half, dtype="float32"))
    time = cm.concatenate([cm.sin(angles), cm.cos(angles)], axis=-1).astype(c.dtype)
    time = linear(ml.silu(linear(time, "time1")), "time2")
    x, skips = conv(x, "first"), []
    for i in range(len(c.widths)):
        x = block(x, f"down{i}")
        skips.append(x)
        if i < len(c.widths) - 1:
            x = ml.avg_pool2d(x, 2)
    x = block(x, "middle0")
    b, w, h, _ = x.shape
    qkv = conv(norm(x, "attention.norm"), "attention.qkv", 0)
    q, k, v = qkv.reshape(b, 3, c.heads, w // c.heads, h * h).transpose(1, 0, 2, 4, 3)
    y = ml.scaled_dot_product_attention(q, k, v).transpose(0, 1, 3, 2).reshape(b, w, h, h)
    x = block(x + conv(y, "attention.out", 0), "middle1")
    for i in reversed(range(len(c.widths))):
        x = block(cm.concatenate([x, skips[i]], axis=1), f"up{i}")
        if i:
            x = ml.interpolate(x, scale_factor=2)
    return conv(ml.silu(norm(x, "norm")), "last")


def loss(params: dict, c: Config, noisy: Any, times: Any, noise: Any) -> Any:
    p = ml.amp.cast(params, c.dtype)
    return ml.mse_loss(predicted(p, c, noisy.astype(c.dtype), times).astype("float32"), noise)


def step(c: Config, params: dict, state: dict, noisy: Any, times: Any, noise: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, c, noisy, times, noise)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
