"""Bodies that attract each other: all pairs, leapfrog steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.programs import values

TRAINS = False


@dataclasses.dataclass(frozen=True)
class Config:
    bodies: int = 4096
    steps: int = 4
    dtype: str = "float32"


SIZES = {"n_body": Config()}
SMALL = {"n_body": Config(20, 3)}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    return {}


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Places, velocities and masses."""
    masses = rng.uniform(0.5, 1.5, c.bodies).astype(np.float32) / np.float32(c.bodies)
    return values.normal(rng, c.bodies, 3), 0.1 * values.normal(rng, c.bodies, 3), masses


def acceleration(place: Any, mass: Any) -> Any:
    apart = place[None, :, :] - place[:, None, :]
    square = (apart**2).sum(-1) + 0.01
    return (apart * (mass / (square * cm.sqrt(square)))[:, :, None]).sum(1)


def step(c: Config, params: dict, state: None, place: Any, velocity: Any, mass: Any) -> Any:
    for _ in range(c.steps):
        velocity = velocity + 0.005 * acceleration(place, mass)
        place = place + 0.01 * velocity
        velocity = velocity + 0.005 * acceleration(place, mass)
    return cm.concatenate([place, velocity])
