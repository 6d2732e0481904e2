"""Rows of sorting, scans, searching and counting, beside CuPy (Thrust and CUB) and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import MEBI, PEERS, SMALL, Bind, Call, everywhere, normal, row

LARGE = 16 * MEBI  # 2^24
WIDE = 64 * MEBI


def drawn(dtype: str, *shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """An array of random bits (integers) or of standard normals."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        kind = np.dtype(dtype)
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            return (rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True),)
        return (rng.standard_normal(shape, dtype=np.float32).astype(kind),)

    return make


def torch_sort(lib: Any, x: Any) -> Call:
    """torch's, which always gives the positions too."""
    return lambda: lib.sort(x).values


SORT: dict[str, Bind] = {
    **everywhere(lambda lib, x: lambda: lib.sort(x), "cudamath", "cupy"),
    "torch": torch_sort,
}
ARGSORT: dict[str, Bind] = {
    **everywhere(lambda lib, x: lambda: lib.argsort(x), "cudamath", "cupy"),
    "torch": lambda lib, x: lambda: lib.argsort(x, stable=True),
}

for dtype in ("uint8", "int16", "float16", "int32", "float32", "int64", "float64"):
    size = np.dtype(dtype).itemsize
    row(
        f"sort_{dtype}",
        "device",
        f"sort(a), {dtype}, 2^24",
        drawn(dtype, LARGE),
        SORT,
        work=(1 + 2 * size) * size * LARGE,
        unit="B",
    )
for dtype in ("int32", "float32", "float64"):
    size = np.dtype(dtype).itemsize
    row(
        f"argsort_{dtype}",
        "device",
        f"argsort(a), {dtype}, 2^24",
        drawn(dtype, LARGE),
        ARGSORT,
        work=(size + 2 * size * (size + 4)) * LARGE,
        unit="B",
    )
row(
    "partition_float32",
    "device",
    "partition(a, 2^23), float32, 2^24",
    drawn("float32", LARGE),
    everywhere(lambda lib, x: lambda: lib.partition(x, LARGE // 2), "cudamath", "cupy"),
    work=20 * LARGE,
    unit="B",
)
row(
    "topk_float32",
    "device",
    "topk(a, 100), float32, 2^24",
    drawn("float32", LARGE),
    everywhere(lambda lib, x: lambda: lib.topk(x, 100), "cudamath", "torch"),
    work=16 * LARGE,
    unit="B",
)
for rows, columns in ((1 << 20, 16), (1 << 14, 1 << 10), (1 << 10, 1 << 14)):
    row(
        f"sort_rows_{columns}",
        "device",
        f"sort(a, 1), float32, {rows}x{columns}",
        drawn("float32", rows, columns),
        SORT,
        work=8 * rows * columns,
        unit="B",
    )

for dtype, wide in (("float32", 4), ("float64", 8), ("int32", 8)):
    size = np.dtype(dtype).itemsize
    row(
        f"cumsum_{dtype}",
        "device",
        f"cumsum(a), {dtype}, 2^26",
        drawn(dtype, WIDE),
        everywhere(lambda lib, x: lambda: lib.cumsum(x, 0), *PEERS),
        work=(size + wide) * WIDE,
        unit="B",
    )
for axis in (0, 1):
    row(
        f"cumsum_axis_{axis}",
        "device",
        f"cumsum(a, {axis}), float32, 8192x8192",
        drawn("float32", 8192, 8192),
        everywhere(lambda lib, x, axis=axis: lambda: lib.cumsum(x, axis), *PEERS),
        work=8 * 8192 * 8192,
        unit="B",
    )


def sorted_and_numbers(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """A sorted million and 2^24 numbers to look for."""
    return np.sort(rng.standard_normal(MEBI, dtype=np.float32)), rng.standard_normal(
        LARGE, dtype=np.float32
    )


row(
    "searchsorted",
    "device",
    "searchsorted(a, v), 2^20 and 2^24",
    sorted_and_numbers,
    everywhere(lambda lib, a, v: lambda: lib.searchsorted(a, v), *PEERS),
    work=12 * LARGE,
    unit="B",
)
row(
    "bincount",
    "device",
    "bincount(i), 2^24, 1,000 bins",
    lambda rng: (rng.integers(0, 1000, LARGE),),
    everywhere(lambda lib, i: lambda: lib.bincount(i), *PEERS),
    work=16 * LARGE,
    unit="B",
)
row(
    "histogram",
    "device",
    "histogram(a, 100), 2^24",
    drawn("float32", LARGE),
    {
        **everywhere(lambda lib, x: lambda: lib.histogram(x, 100), "cudamath", "cupy"),
        "torch": lambda lib, x: lambda: lib.histc(x, 100),
    },
    work=8 * LARGE,
    unit="B",
)
row(
    "unique",
    "device",
    "unique(i), 2^24 of 1,000",
    lambda rng: (rng.integers(0, 1000, LARGE),),
    {
        **everywhere(lambda lib, i: lambda: lib.unique(i), "cudamath", "cupy"),
        "torch": lambda lib, i: lambda: lib.unique(i),
    },
    work=8 * LARGE,
    unit="B",
)


def positions(name: str) -> Bind:
    """Positions of a mask that is half true."""

    def bind(lib: Any, x: Any) -> Call:
        mask = x > 0
        return lambda: getattr(lib, name)(mask)

    return bind


row(
    "nonzero",
    "device",
    "flatnonzero(a > 0), 2^24",
    drawn("float32", LARGE),
    {
        "cudamath": positions("flatnonzero"),
        "cupy": positions("flatnonzero"),
        "torch": positions("nonzero"),
    },
    work=6 * LARGE,
    unit="B",
)

row(
    "host_sort",
    "host",
    "sort(a), 4,096",
    normal((SMALL,)),
    {**SORT, "numpy": lambda lib, x: lambda: lib.sort(x)},
)
row(
    "host_cumsum",
    "host",
    "cumsum(a), 4,096",
    normal((SMALL,)),
    everywhere(lambda lib, x: lambda: lib.cumsum(x, 0)),
)
row(
    "host_searchsorted",
    "host",
    "searchsorted(a, v), 4,096",
    lambda rng: (np.sort(rng.standard_normal(SMALL)), rng.standard_normal(SMALL)),
    everywhere(lambda lib, a, v: lambda: lib.searchsorted(a, v)),
)
row(
    "cpu_sort",
    "cpu",
    "sort(a), 1,000,000",
    normal((1_000_000,)),
    {**SORT, "numpy": lambda lib, x: lambda: lib.sort(x)},
    work=4e6,
    unit="B",
)
row(
    "cpu_cumsum",
    "cpu",
    "cumsum(a), 1,000,000",
    normal((1_000_000,)),
    everywhere(lambda lib, x: lambda: lib.cumsum(x, 0), "cudamath", "numpy", "torch"),
    work=8e6,
    unit="B",
)
