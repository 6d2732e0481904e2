"""Weights and data of the programs: drawn by NumPy, so that all libraries get the same."""

from __future__ import annotations

import math

import numpy as np


def weights(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, np.ndarray]:
    """Float32 weights of these shapes: matrices of a variance that keeps that of their input, norms
    near 1, biases near 0, embeddings of deviation 0.02."""
    rng, out = np.random.default_rng(seed), {}
    for name, shape in shapes.items():
        x = rng.standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            x = x * np.float32(0.1) + np.float32(name.endswith("weight"))
        elif "embedding" in name:
            x *= np.float32(0.02)
        else:
            x *= np.float32(1 / math.sqrt(math.prod(shape[1:])))
        out[name] = x
    return out


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Standard normal numbers in float32."""
    return rng.standard_normal(shape, dtype=np.float32)


def tokens(rng: np.random.Generator, vocabulary: int, *shape: int) -> tuple[np.ndarray, ...]:
    """Random tokens and the next ones, of one shape."""
    text = rng.integers(0, vocabulary, (*shape[:-1], shape[-1] + 1))
    return text[..., :-1].copy(), text[..., 1:].copy()
