"""Kalman filters of many objects at once: position, velocity, acceleration, by `scan`."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.programs import values

TRAINS = False


@dataclasses.dataclass(frozen=True)
class Config:
    objects: int = 10000
    steps: int = 50
    dtype: str = "float32"


SIZES = {"kalman": Config()}
SMALL = {"kalman": Config(5, 9)}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    return {}


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Measured positions, the matrix of a step, and the noise of the process."""
    measured = np.cumsum(values.normal(rng, c.steps, c.objects), axis=0)
    motion = np.array([[1, 0.1, 0.005], [0, 1, 0.1], [0, 0, 1]], dtype=np.float32)
    return measured, motion, 0.01 * np.eye(3, dtype=np.float32)


def step(c: Config, params: dict, state: None, measured: Any, motion: Any, noise: Any) -> Any:
    def filtered(carry: tuple, z: Any) -> tuple:
        x, covariance = carry
        x = x @ motion.T
        covariance = motion @ covariance @ motion.T + noise
        gain = covariance[:, :, 0] / (covariance[:, :1, 0] + 0.5)
        x = x + gain * (z - x[:, 0])[:, None]
        covariance = covariance - gain[:, :, None] * covariance[:, :1, :]
        return (x, covariance), x

    start = cm.zeros((c.objects, 3), dtype="float32", device=measured.device)
    spread = cm.broadcast_to(cm.eye(3, dtype="float32", device=measured.device), (c.objects, 3, 3))
    return cm.scan(filtered, (start, spread), measured)[1]
