"""A variational autoencoder of fully connected layers. Training."""

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
    pixels: int = 784
    hidden: int = 512
    latent: int = 32
    batch: int = 1024
    dtype: str = "float32"


SIZES = {"vae": Config()}
SMALL = {"vae": Config(36, 20, 4, 6)}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {}
    for name, to, of in (
        ("encoder1", c.hidden, c.pixels),
        ("encoder2", c.hidden, c.hidden),
        ("mean", c.latent, c.hidden),
        ("logvar", c.latent, c.hidden),
        ("decoder1", c.hidden, c.latent),
        ("decoder2", c.hidden, c.hidden),
        ("decoder3", c.pixels, c.hidden),
    ):
        out[name + ".weight"], out[name + ".bias"] = (to, of), (to,)
    return out


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Images with values from 0 to 1, and the noise of the latent numbers."""
    images = rng.random((c.batch, c.pixels), dtype=np.float32)
    return images, values.normal(rng, c.batch, c.latent)


def loss(p: dict, images: Any, noise: Any) -> Any:
    def linear(x: Any, name: str) -> Any:
        return ml.linear(x, p[name + ".weight"], p[name + ".bias"])

    x = ml.relu(linear(ml.relu(linear(images, "encoder1")), "encoder2"))
    mean, logvar = linear(x, "mean"), linear(x, "logvar")
    z = mean + cm.exp(0.5 * logvar) * noise
    y = ml.relu(linear(ml.relu(linear(z, "decoder1")), "decoder2"))
    likelihood = ml.bce_with_logits(linear(y, "decoder3"), images, reduction="sum")
    divergence = -0.5 * cm.sum(1 + logvar - mean**2 - cm.exp(logvar))
    return (likelihood + divergence) / len(images)


def step(c: Config, params: dict, state: dict, images: Any, noise: Any) -> Any:
    value, grads = cm.value_and_grad(loss)(params, images, noise)
    ml.adamw_update(params, grads, state, lr=1e-3)
    return value
