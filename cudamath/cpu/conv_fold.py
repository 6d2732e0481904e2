"""Folding images, see kernels/conv_fold.py."""

import numpy as np


def conv_fold(x: np.ndarray, *, channels: int) -> np.ndarray:
    """x (N, C, H, W) -> (N, channels, (H + 1) // 2, (W + 1) // 2)."""
    images, own, height, width = x.shape
    y = np.zeros((images, channels, (height + 1) // 2, (width + 1) // 2), x.dtype)
    for at in range(4):
        part = x[:, :, at // 2::2, at % 2::2]
        y[:, at * own:(at + 1) * own, :part.shape[2], :part.shape[3]] = part
    return y


def conv_unfold(y: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """y (N, channels, P, Q) -> x of `shape` (N, C, H, W)."""
    x = np.empty(shape, y.dtype)
    for at in range(4):
        part = x[:, :, at // 2::2, at % 2::2]
        part[...] = y[:, at * shape[1]:(at + 1) * shape[1], :part.shape[2], :part.shape[3]]
    return x
