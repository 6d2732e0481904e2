"""Rows of random numbers: host time of a draw, and draws of 2^20 to 2^30 elements on the GPU.

`work` is the floor in bytes: the result is written once; dropout also reads. CuPy draws by its new
Generator (XORWOW by default), torch by Philox4x32-10, as cudamath does. torch and CuPy permute by
sorting random keys, cudamath by a bijection; see `Generator.permutation`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks import rows
from benchmarks.rows import Bind, normal, repeated

row = functools.partial(rows.row, random=True)
SMALL = 4096
SIZES = {20: "2^20", 26: "2^26", 30: "2^30"}
KINDS = [np.dtype(kind) for kind in ("f4", "f8", "i4", "i8")]


def nothing(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """No arguments."""
    return ()


def ours(draw: Callable[[Any], Any]) -> Bind:
    """cudamath: a draw from a generator of its own."""

    def bind(lib: Any) -> Callable[[], Any]:
        rng = lib.random.default_rng(1)
        return lambda: draw(rng)

    return bind


def cupys(draw: Callable[[Any], Any]) -> Bind:
    """CuPy: the same."""
    return ours(draw)


def torchs(function: str, *args: Any, dtype: np.dtype | None = None) -> Bind:
    """torch: a function of the module, on the device that is measured."""

    def bind(lib: Any) -> Callable[[], Any]:
        call, device = getattr(lib, function), str(cm.default_device())
        more = {} if dtype is None else {"dtype": getattr(lib, dtype.name)}
        return lambda: call(*args, device=device, **more)

    return bind


def draws(n: int, dtype: np.dtype) -> dict[str, dict[str, Bind]]:
    """Name of a draw -> its calls."""
    if dtype.kind == "i":
        return {
            "integers": {
                "cudamath": ours(lambda g: g.integers(0, 1000, n, dtype=dtype)),
                "torch": torchs("randint", 0, 1000, (n,), dtype=dtype),
                "cupy": cupys(lambda g: g.integers(0, 1000, n, dtype=dtype)),
            }
        }
    return {
        "uniform": {
            "cudamath": ours(lambda g: g.random(n, dtype=dtype)),
            "torch": torchs("rand", n, dtype=dtype),
            "cupy": cupys(lambda g: g.random(n, dtype=dtype)),
        },
        "normal": {
            "cudamath": ours(lambda g: g.standard_normal(n, dtype=dtype)),
            "torch": torchs("randn", n, dtype=dtype),
            "cupy": cupys(lambda g: g.standard_normal(n, dtype=dtype)),
        },
    }


def permuted(n: int) -> dict[str, Bind]:
    """Permutations of 0 .. n - 1."""
    return {
        "cudamath": ours(lambda g: g.permutation(n)),
        "torch": torchs("randperm", n),
        "cupy": lambda lib: lambda: lib.random.permutation(n),
    }


def dropped(lib: Any, x: Any) -> Callable[[], Any]:
    """cudamath's dropout."""
    return lambda: lib.ml.dropout(x, 0.1)


def torch_dropped(lib: Any, x: Any) -> Callable[[], Any]:
    """torch's."""
    return lambda: lib.nn.functional.dropout(x, 0.1)


for kind in KINDS:
    short = kind.str[1:]
    for name, calls in draws(SMALL, kind).items():
        if kind in (np.float32, np.int64):
            row(f"host_{name}", "host", f"random.{name}, {SMALL:,} {kind}", nothing, calls)
    for power, text in SIZES.items():
        for name, calls in draws(1 << power, kind).items():
            row(
                f"random_{name}_{short}_{power}",
                "device",
                f"random.{name}, {text} {kind}",
                nothing,
                calls,
                work=kind.itemsize << power,
                unit="B",
            )

row(
    "host_dropout",
    "host",
    "dropout, 4,096",
    normal((SMALL,)),
    {"cudamath": dropped, "torch": torch_dropped},
)
for power, text in SIZES.items():
    row(
        f"dropout_{power}",
        "device",
        f"dropout, {text} float32",
        repeated((1 << power,)),
        {"cudamath": dropped, "torch": torch_dropped},
        work=8 << power,
        unit="B",
    )

row("host_permutation", "host", f"random.permutation, {SMALL:,}", nothing, permuted(SMALL))
for power in (20, 26):
    row(
        f"random_permutation_{power}",
        "device",
        f"random.permutation, {SIZES[power]}",
        nothing,
        permuted(1 << power),
        work=8 << power,
        unit="B",
    )
row(
    "random_gamma",
    "device",
    "random.standard_gamma(2.5), 2^26 float32",
    nothing,
    {
        "cudamath": ours(lambda g: g.standard_gamma(2.5, 1 << 26, dtype="float32")),
        "cupy": cupys(lambda g: g.standard_gamma(2.5, 1 << 26, dtype=np.float32)),
    },
    work=4 << 26,
    unit="B",
)
row(
    "random_poisson",
    "device",
    "random.poisson(100), 2^26",
    nothing,
    {
        "cudamath": ours(lambda g: g.poisson(100.0, 1 << 26)),
        "cupy": cupys(lambda g: g.poisson(100.0, 1 << 26)),
    },
    work=8 << 26,
    unit="B",
)
