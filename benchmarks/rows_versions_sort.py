"""Rows of the versions of kernels that sort and gather, and of the loss that leaves its gradient
(see rows_versions.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.rows import Bind, Call, normal, row
from benchmarks.rows_versions_memory import planner, version

sort, gather, linear_loss = (
    planner("sort.dispatch.sort"),
    planner("index.dispatch.gather"),
    planner("loss.dispatch.linear_loss"),
)

KEYS, LINES = (1 << 24,), (16384, 1024)
row(
    "versions_sort",
    "device",
    "2^24 float32, counted as one read and four times a read and a write of each",
    normal(KEYS),
    {
        name: version(lambda x, name=name: sort(x, axis=0, descending=False, version=name))
        for name in ("radix", "onesweep")
    },
    work=9 * 4 << 24,
    unit="B",
)
row(
    "versions_sort_rows",
    "device",
    "rows of 16,384 x 1,024, float32",
    normal(LINES),
    {
        kernel: version(lambda x, name=name: sort(x, axis=1, descending=False, version=name))
        for kernel, name in (("sort_rows", "bitonic"), ("sort_held", "bitonic_registers"))
    },
    work=8 * 16384 * 1024,
    unit="B",
)


def places(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Rows, and which of them."""
    return rng.standard_normal((65536, 1024), dtype=np.float32), rng.permutation(65536)


row(
    "versions_gather",
    "device",
    "65,536 rows of 1,024 in random order, float32",
    places,
    {
        f"gather_{name}": version(lambda x, i, name=name: gather(x, i, axis=0, version=name))
        for name in ("rows", "vectors")
    },
    work=(8 * 1024 + 8) * 65536,
    unit="B",
)


def scores(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """What a language model says of its words, and which came."""
    return rng.standard_normal((8192, 50304), dtype=np.float32), rng.integers(0, 50257, 8192)


def leaves_gradient(name: str) -> Bind:
    """That version, of scores of 16 bits, which it overwrites (so the next call has other scores,
    and the same work)."""

    def bind(lib: Any, x: Any, targets: Any) -> Call:
        there = x.astype("bfloat16"), targets, lib.asarray(np.float32(8192), device=x.device)
        layouts = [a._layout for a in there]
        run = linear_loss(*layouts, classes=50257, ignore_index=-100, version=name).bind(
            "a version", layouts
        )
        return lambda: run(*there)

    return bind


row(
    "versions_linear_loss",
    "device",
    "loss and gradient in place of 8,192 x 50,304, bfloat16",
    scores,
    {name: leaves_gradient(name) for name in ("plain", "rows", "packed")},
    work=4 * 8192 * 50304,
    unit="B",
)
