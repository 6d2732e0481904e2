"""The special functions beside mpmath's values (special_domains.py): errors in units in the last
place, ours and SciPy's, by region.

`python tests/support/special_truth.py [--device cuda] [NAME ...]` prints them.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special as scipy_special
from special_domains import FILE, REGIONS

import cudamath as cm

#: An error may be twice SciPy's. Below so many units nobody asks for SciPy's.
FLOOR = {"float64": 4.0, "float32": 1.0}
#: Functions with zeros, beside which errors are measured in units of the size of their waves.
WAVES = ("j0", "j1", "y0", "y1", "jn", "yn", "spherical_yn", "lpmv")


@functools.cache
def table() -> dict[str, np.ndarray]:
    return dict(np.load(FILE))


class Region(NamedTuple):
    """Points of a region and the truth there, as the sum of two numbers."""

    name: str
    index: int
    dtype: np.dtype
    points: list[np.ndarray]
    high: np.ndarray
    low: np.ndarray

    def errors(self, result: np.ndarray) -> np.ndarray:
        """In units in the last place of the truth; inf where one is no number and the other is."""
        with np.errstate(all="ignore"):
            size = np.abs(self.high)
            if self.name in WAVES:
                size = np.maximum(size, least_wave(self.name, self.points))
            unit = np.spacing(size.astype(self.dtype)).astype(np.longdouble)
            wide = result.astype(np.longdouble)
            error = np.abs((wide - self.high) - self.low) / unit
            rounded = (self.high + self.low).astype(self.dtype)
            same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
        error = np.where(same & ~np.isfinite(error), 0, np.nan_to_num(error, nan=np.inf))
        return error.astype(float)


def least_wave(name: str, points: Sequence[np.ndarray]) -> np.ndarray:
    """The height of the waves at a point; 0 where there are none yet."""
    x = points[-1]
    if name == "lpmv":
        return np.full(x.shape, 0.05)
    order = points[0] if len(points) > 1 else 1.0
    height = np.sqrt(2 / (np.pi * x)) if name != "spherical_yn" else 1 / x
    return np.where(x > np.maximum(order, 1), height, 0)


def regions(name: str, dtype: str = "float64") -> Iterator[Region]:
    points, values = table()[f"{name}.points"], table()[f"{name}.values"]
    for r in range(values.shape[1]):
        kept = [p[r] for p in points if not np.isnan(p[r]).all()]
        high, low = values[:, r]
        if dtype == "float32":
            with np.errstate(over="ignore"):
                chosen = np.all([p == p.astype(np.float32) for p in kept], axis=0)
            chosen &= (np.abs(high) < 3e38) & (np.abs(high) > 1e-37)
            kept, high, low = [p[chosen] for p in kept], high[chosen], low[chosen]
        if high.size:
            yield Region(name, r, np.dtype(dtype), [p.astype(dtype) for p in kept], high, low)


def part_of(name: str, results: Any) -> Any:
    """Of a function of several results, such as sici[1], the one that the name numbers."""
    return results[int(name[-2])] if name.endswith("]") else results


def ours(name: str, points: Sequence[np.ndarray], device: str = "cpu") -> np.ndarray:
    function = getattr(cm.special, name.split("[")[0])
    return part_of(name, function(*[cm.asarray(p, device=device) for p in points])).to_numpy()


def scipys(name: str, points: Sequence[np.ndarray]) -> np.ndarray:
    """SciPy's, of the same dtype; where it is complex, the real part."""
    with np.errstate(all="ignore"):
        function = getattr(scipy_special, name.split("[")[0])
        result: Any = part_of(name, function(*points))
    return np.real(result).astype(points[0].dtype)


def theirs_of(region: Region) -> float:
    """SciPy's largest error."""
    return float(region.errors(scipys(region.name, region.points)).max())


def limit(region: Region) -> float:
    """What an error may be: twice SciPy's largest in the region."""
    return max(FLOOR[region.dtype.name], 2 * theirs_of(region))


def of_function(name: str, dtype: str, device: str = "cpu") -> tuple[float, float]:
    """The worst errors over all regions, ours and SciPy's."""
    found = [
        (region.errors(ours(name, region.points, device)).max(), theirs_of(region))
        for region in regions(name, dtype)
    ]
    first, second = zip(*found, strict=True)
    return float(max(first)), float(max(second))


def report(name: str, device: str) -> list[str]:
    """A line for each region of a function."""
    lines = []
    for dtype in FLOOR:
        for region in regions(name, dtype):
            error = region.errors(ours(name, region.points, device))
            worst = int(error.argmax())
            theirs = region.errors(scipys(name, region.points))
            at = ", ".join(f"{float(p[worst])!r}" for p in region.points)
            mark = "WORSE" if error.max() > limit(region) else ""
            lines.append(
                f"{name:14} {dtype} {region.index}  ours {error.max():10.4g} "
                f"(median {np.median(error):.2g})  SciPy {theirs.max():10.4g} {mark} at ({at})"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of the special functions.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = options.names or list(REGIONS)
    fork = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, fork) as pool:
        for lines in pool.map(report, names, [options.device] * len(names)):
            print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()
