"""Matrices with a band of diagonals, and such as functions of row and column make: see
kernels/shape/triangles.py and matrix_rules.py."""

from collections.abc import Callable

import numpy as np

from ..core.layout import Layout
from .lib.float32_sums import widen


def _inside(rows: int, columns: int, low: int, high: int) -> np.ndarray:
    """Where low <= column - row <= high."""
    apart = np.arange(columns, dtype=np.int32) - np.arange(rows, dtype=np.int32)[:, None]
    if low <= -rows:
        return apart <= high
    return apart >= low if high >= columns else (apart >= low) & (apart <= high)


def band(x: np.ndarray, *, low: int, high: int) -> np.ndarray:
    """The band of matrices."""
    return np.where(_inside(x.shape[-2], x.shape[-1], low, high), x, np.zeros((), x.dtype))


def ones(*, layout: Layout, device: int, low: int, high: int) -> np.ndarray:
    """A new matrix of ones on a band."""
    if low == high:
        return np.eye(layout.shape[0], layout.shape[1], low, layout.dtype)
    return _inside(layout.shape[0], layout.shape[1], low, high).astype(layout.dtype)


# -------------------- functions of row and column


def _hilbert(i: np.ndarray, j: np.ndarray, n: int, more: float) -> np.ndarray:
    return 1.0 / (i + j + 1)


def _hadamard(i: np.ndarray, j: np.ndarray, n: int, more: float) -> np.ndarray:
    """-1 where the bits that two numbers share are odd in number."""
    return 1 - 2 * (np.bitwise_count(i & j) & 1).astype(np.int8)


def _helmert(i: np.ndarray, j: np.ndarray, n: int, more: float) -> np.ndarray:
    row = i + more
    size = np.sqrt(np.where(row > 0, row * (row + 1.0), n))
    end = np.where(row > 0, row, n)
    return np.where(j < end, 1 / size, np.where(j == end, -row / size, 0.0))


def _dft(i: np.ndarray, j: np.ndarray, n: int, more: float) -> np.ndarray:
    roots = np.exp(-2j * np.pi / n * np.arange(n)) * more
    return roots[i.astype(np.int64) * j % n]


_FORMULAS = {"hilbert": _hilbert, "hadamard": _hadamard, "helmert": _helmert, "dft": _dft}


def formula(*, layout: Layout, device: int, rule: str, n: int, more: float) -> np.ndarray:
    """A matrix of a function of row and column."""
    i, j = np.ogrid[: layout.shape[0], : layout.shape[1]]
    if not layout.size:
        return np.zeros(layout.shape, layout.dtype)
    made = _FORMULAS[rule](i.astype(np.int32), j.astype(np.int32), n, more)
    return made.astype(layout.dtype, copy=False)


def _place_companion(line: np.ndarray, y: np.ndarray, n: int) -> None:
    y[..., :n], y[..., n :: n + 1] = line, 1


def _place_fiedler_companion(line: np.ndarray, y: np.ndarray, n: int) -> None:
    """Even rows have the numbers, odd ones ones: five diagonals."""
    above, below = y[..., 1 : n * (n - 1) : n + 1], y[..., n :: n + 1]
    y[..., 0] = line[..., 0]
    above[..., ::2], below[..., 1::2] = line[..., 1::2], line[..., 2::2]
    y[..., 2 : n * max(n - 2, 0) : n + 1][..., ::2] = 1
    y[..., 2 * n :: n + 1][..., 1::2] = 1
    if n > 1:
        y[..., n] = 1


def _place_leslie(line: np.ndarray, y: np.ndarray, n: int) -> None:
    y[..., :n], y[..., n :: n + 1] = line[..., :n], line[..., n:]


_PLACING = {
    "companion": _place_companion,
    "fiedler_companion": _place_fiedler_companion,
    "leslie": _place_leslie,
}


def _windows(line: np.ndarray, columns: int) -> np.ndarray:
    """y[..., i, j] = line[..., i + j]"""
    return np.lib.stride_tricks.sliding_window_view(line, columns, axis=-1)


#: Matrices whose rows are windows of a line.
_WINDOWS: dict[str, Callable[..., np.ndarray]] = {
    "toeplitz": lambda c, r: _windows(
        np.concatenate([c[..., ::-1], r[..., 1:]], axis=-1), r.shape[-1]
    )[..., ::-1, :],
    "circulant": lambda c: _windows(
        np.concatenate([c[..., ::-1], c[..., :0:-1]], axis=-1), c.shape[-1]
    )[..., ::-1, :],
    "hankel": lambda c, r: _windows(np.concatenate([c, r[..., 1:]], axis=-1), r.shape[-1]),
    "hankel_of_column": lambda c: _windows(
        np.concatenate([c, np.zeros_like(c[..., 1:])], axis=-1), c.shape[-1]
    ),
}


def placed(x: np.ndarray, *more: np.ndarray, rule: str) -> np.ndarray:
    """Matrices of vectors (..., m): their numbers, one after the other, or of a polynomial's
    coefficients -x[1:] / x[0], at places of the rule."""
    if rule in _WINDOWS:
        return np.ascontiguousarray(_WINDOWS[rule](x, *more))
    if rule == "leslie":
        n, line = x.shape[-1], np.concatenate([x, *more], axis=-1)
    else:
        if not np.all(x[..., 0]):
            raise ValueError(f"{rule}: the leading coefficient is 0: {x.dtype} of shape {x.shape}")
        n, wide = x.shape[-1] - 1, widen(x)
        line = -(wide[..., 1:] / wide[..., :1])
    y = np.zeros((*x.shape[:-1], n * n), x.dtype)
    _PLACING[rule](line, y, n)
    return y.reshape(*x.shape[:-1], n, n)
