"""Operations beside plain NumPy: the error of each against float64, and the time of each, taken in
turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import cudamath as cm
from cudamath.timing import Spread, interleave, nothing

# of the largest true value; float32 rounding over the longest sums here stays below a tenth of it
TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class Case:
    """An operation, its arguments (float32) and what NumPy's user would write instead."""

    name: str
    shapes: str
    arguments: tuple[np.ndarray, ...]
    ours: Callable[..., Any]
    numpy: Callable[..., np.ndarray]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Largest error relative to the largest true value, and the time of a call, of cudamath and of
    NumPy."""

    name: str
    shapes: str
    error: float
    numpy_error: float
    time: Spread
    numpy_time: Spread

    @property
    def passed(self) -> bool:
        """The error is within TOLERANCE."""
        return self.error <= TOLERANCE


def conv2d(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """(n, c, h, w), (f, c, 3, 3) -> (n, f, h, w): a view of all windows, then one matrix
    product."""
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    return np.moveaxis(np.tensordot(windows, w, axes=((1, 4, 5), (1, 2, 3))), -1, 1)


def max_pool2d(x: np.ndarray) -> np.ndarray:
    """(n, c, h, w) -> (n, c, h/2, w/2)."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def batch_norm(
    x: np.ndarray, mean: np.ndarray, var: np.ndarray, scale: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """(n, c, h, w) normalised over all but c; the running statistics have no part in the result."""
    centred = x - x.mean((0, 2, 3), keepdims=True)
    y = centred / np.sqrt((centred * centred).mean((0, 2, 3), keepdims=True) + x.dtype.type(1e-5))
    return y * scale[:, None, None] + shift[:, None, None]


def softmax(x: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def cases() -> Iterator[Case]:
    """What is compared, with fresh arguments from a fixed seed."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    a, b = normal(512, 512), normal(512, 512)
    yield Case("matmul", "512x512 · 512x512", (a, b), cm.matmul, np.matmul)
    yield Case(
        "conv2d",
        "16x16x32x32 * 32x16x3x3",
        (normal(16, 16, 32, 32), normal(32, 16, 3, 3)),
        lambda x, w: cm.ml.conv2d(x, w, padding=1),
        conv2d,
    )
    yield Case(
        "max_pool2d",
        "16x32x32x32, 2x2",
        (normal(16, 32, 32, 32),),
        lambda x: cm.ml.max_pool2d(x, 2),
        max_pool2d,
    )
    channels = tuple(rng.random((4, 32), dtype=np.float32))
    yield Case(
        "batch_norm",
        "16x32x32x32",
        (normal(16, 32, 32, 32), *channels),
        lambda *args: cm.ml.batch_norm(*args, training=True)[0],
        batch_norm,
    )
    yield Case("softmax", "1024x512", (normal(1024, 512),), cm.ml.softmax, softmax)
    table = rng.random((1024, 1024), dtype=np.float32)
    yield Case("sum", "1024x1024, all", (table,), cm.sum, np.sum)
    yield Case("var", "1024x1024, rows", (table,), lambda x: cm.var(x, axis=1), lambda x: x.var(1))
    yield Case(
        "max", "1024x1024, columns", (table,), lambda x: cm.max(x, axis=0), lambda x: x.max(0)
    )


def compare(case: Case, rounds: int = 7) -> Comparison:
    """Run one case on the default device and on NumPy."""
    arrays = [cm.asarray(argument) for argument in case.arguments]
    truth = case.numpy(*(argument.astype(np.float64) for argument in case.arguments))
    scale = np.abs(truth).max()

    def error(result: np.ndarray) -> float:
        if result.shape != truth.shape:
            raise ValueError(f"{case.name}: result of shape {result.shape}, expected {truth.shape}")
        return float(np.abs(result.astype(np.float64) - truth).max() / scale)

    spreads = interleave(
        {"cudamath": lambda: case.ours(*arrays), "NumPy": lambda: case.numpy(*case.arguments)},
        rounds=rounds,
        synchronize=cm.cuda.synchronize if arrays[0].device.type == "cuda" else nothing,
    )
    return Comparison(
        case.name,
        case.shapes,
        error(np.asarray(case.ours(*arrays))),
        error(np.asarray(case.numpy(*case.arguments))),
        spreads["cudamath"],
        spreads["NumPy"],
    )
