"""Comparison of the results of a row's libraries before they are timed: `python -m cudamath bench
--verify`.

The error of a peer against cudamath is the largest difference of two results, over the largest
absolute value. At most MOST elements of a result are compared, evenly spaced, because copying a
gigabyte to the host takes longer than computing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import cudamath as cm

MOST = 1 << 20
#: The largest error that passes, by the width of the result's numbers in bytes: 16-bit numbers are
#: rounded at other places, float32 products are summed in other orders, or in TF32 where a row says
#: so. Integers must agree.
THRESHOLDS = {1: 0.1, 2: 0.03, 4: 0.003, 8: 1e-6}


class Disagreement(ArithmeticError):
    """A peer's result differs from cudamath's by more than the threshold."""


def sampled(result: Any) -> list[np.ndarray]:
    """The floating-point, integer and bool arrays in a call's result, as vectors on the host,
    thinned out to MOST elements."""
    if isinstance(result, (tuple, list)):
        return [x for each in result for x in sampled(each)]
    if not hasattr(result, "shape") or not hasattr(result, "dtype"):
        return (
            [np.asarray(result).reshape(-1)]
            if isinstance(result, (bool, int, float, complex))
            else []
        )
    flat = result.reshape(-1)
    step = int(np.prod(result.shape)) // MOST | 1  # odd: not always the same place of a tile
    flat = flat[::step]
    if type(flat).__module__.startswith("torch"):
        flat = flat.detach()
        flat = (
            (flat.float() if str(flat.dtype) in ("torch.bfloat16", "torch.float16") else flat)
            .cpu()
            .numpy()
        )
    elif hasattr(flat, "get") and not isinstance(flat, cm.ndarray):  # CuPy
        flat = flat.get()
    host = np.asarray(flat)
    return [host if host.dtype.kind in "biufc" else host.astype(np.float32)]


def width(result: Any) -> int:
    """Bytes of the real numbers of a result's first array."""
    if isinstance(result, (tuple, list)):
        return min([width(each) for each in result], default=8)
    dtype = getattr(result, "dtype", None)
    if not isinstance(dtype, np.dtype):
        return 8
    return dtype.itemsize // (2 if dtype.kind == "c" else 1)


def error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference over the largest absolute value; NaN and infinities must stand at the
    same places."""
    ours, theirs = (
        x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (ours, theirs)
    )
    there = np.isfinite(theirs)
    if not np.array_equal(there, np.isfinite(ours)):
        return float("inf")
    size = np.max(np.abs(theirs[there]), initial=0.0)
    return float(np.max(np.abs(ours[there] - theirs[there]), initial=0.0) / (size or 1.0))


def compare(results: Mapping[str, Any], threshold: float | None = None) -> dict[str, float]:
    """The error of each library's result against cudamath's (among versions of a kernel the first
    one's), for those that can be compared with it.

    Args: results: library -> what its call returned; threshold: by default that of the result's
    width (THRESHOLDS).

    Raises: Disagreement, which names the libraries and their errors.
    """
    first = "cudamath" if "cudamath" in results else next(iter(results))
    ours = sampled(results[first])
    most = THRESHOLDS.get(width(results[first]), 1e-6) if threshold is None else threshold
    differences = {}
    for name, result in results.items():
        theirs = sampled(result) if name != first else []
        pairs = [(a, b) for a, b in zip(ours, theirs, strict=False) if a.shape == b.shape]
        if not pairs or pairs[0][0].shape != ours[0].shape:  # nothing returned, or something else
            continue
        differences[name] = max(error(a, b) for a, b in pairs)
    apart = {name: value for name, value in differences.items() if not value <= most}
    if apart:
        raise Disagreement(
            f"more than {most:g} apart: "
            + ", ".join(f"{name} by {value:.2g}" for name, value in apart.items())
        )
    return differences
