"""Rows of the versions of memory-bound kernels (see rows_versions.py): bytes moved once, beside a
device copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import Bind, Call, repeated, row

F32 = np.dtype(np.float32)


def version(make: Callable[..., Any], kind: str = "float32") -> Bind:
    """The plan that `make` gives for the arguments' layouts; arguments are cast to `kind` first."""

    def bind(_lib: Any, *arrays: Any) -> Call:
        there = [a if kind == "float32" else a.astype(kind) for a in arrays]
        layouts = [a._layout for a in there]
        run = make(*layouts).bind("a version", layouts)
        return lambda: run(*there)

    return bind


def planner(path: str) -> Callable[..., Any]:
    """The function `path` = "file.name" of cudamath.kernels."""

    def call(*layouts: Any, **params: Any) -> Any:
        from cudamath.core.dispatch.lazy_import import lazy

        return lazy("kernels", path)(*layouts, **params)

    return call


elementwise, reduce = planner("elementwise.dispatch.elementwise"), planner("reduce.dispatch.plan")
softmax, norm, slope = (
    planner("softmax.dispatch.plan"),
    planner("norm.dispatch.forward"),
    planner("norm.dispatch.backward"),
)
concat = planner("shape.dispatch.concat")

SIDE = 8192
row(
    "versions_elementwise",
    "device",
    "a + b, 2^26, float32",
    repeated((SIDE, SIDE), (SIDE, SIDE)),
    {
        name: version(
            lambda a, b, name=name: elementwise(
                a, b, expression="x + y", compute=F32, output=F32, version=name
            )
        )
        for name in ("plain", "rows", "vector")
    },
    work=12 * SIDE * SIDE,
    unit="B",
)
row(
    "versions_elementwise_bfloat16",
    "device",
    "gelu of 2^27, bfloat16",
    repeated((2 * SIDE, SIDE)),
    {
        name: version(
            lambda a, name=name: elementwise(
                a, expression="gelu(x)", compute=F32, output=a.dtype, version=name
            ),
            "bfloat16",
        )
        for name in ("plain", "vector", "vector_ahead")
    },
    work=4 * 2 * SIDE * SIDE,
    unit="B",
)
row(
    "versions_reduce",
    "device",
    "sum over the last axis of 32,768 x 4,096, float32",
    repeated((32768, 4096)),
    {
        f"reduce_{name}": version(
            lambda a, name=name: reduce(
                a, kind="sum", axis=(1,), keepdims=False, dtype=F32, version=name
            )
        )
        for name in ("plain", "rows", "rows_split")
    },
    work=4 * 32768 * 4096,
    unit="B",
)
row(
    "versions_softmax",
    "device",
    "softmax of 16,384 x 4,096, float32",
    repeated((16384, 4096)),
    {
        name: version(lambda a, name=name: softmax((a,), 1, False, version=name))
        for name in ("plain", "long_rows", "rows")
    },
    work=8 * 16384 * 4096,
    unit="B",
)
row(
    "versions_softmax_cached",
    "device",
    "log-softmax of 4,096 x 50,257, bfloat16",
    repeated((4096, 50257)),
    {
        name: version(lambda a, name=name: softmax((a,), 1, True, version=name), "bfloat16")
        for name in ("long_rows", "shared_memory", "cluster")
    },
    work=4 * 4096 * 50257,
    unit="B",
)
NORM = (87040, 768)
row(
    "versions_norm",
    "device",
    "layer norm of 87,040 x 768, bfloat16",
    repeated(NORM, NORM[1:], NORM[1:]),
    {
        name: version(
            lambda x, w, b, name=name: norm(x, w, b, None, 768, 1e-5, version=name), "bfloat16"
        )
        for name in ("plain", "long_rows", "rows")
    },
    work=4 * NORM[0] * 768,
    unit="B",
)


def gradient(name: str) -> Bind:
    """The gradient of layer norm by that version; statistics are float32."""

    def bind(_lib: Any, g: Any, x: Any, w: Any, mean: Any, rstd: Any) -> Call:
        there = [*(a.astype("bfloat16") for a in (g, x, w)), mean, rstd]
        layouts = [a._layout for a in there]
        run = slope(*layouts, None, x.shape[1], True, version=name).bind("a version", layouts)
        return lambda: run(*there)

    return bind


row(
    "versions_norm_grad",
    "device",
    "gradient of layer norm, 87,040 x 768, bfloat16",
    repeated(NORM, NORM, NORM[1:], NORM[:1], NORM[:1]),
    {name: gradient(name) for name in ("plain", "long_rows", "rows", "tma")},
    work=6 * NORM[0] * 768,
    unit="B",
)
LONG = (512, 131072)
row(
    "versions_norm_grad_long",
    "device",
    "gradient of layer norm, 512 x 131,072, bfloat16",
    repeated(LONG, LONG, LONG[1:], LONG[:1], LONG[:1]),
    {name: gradient(name) for name in ("long_rows", "cluster")},
    work=6 * LONG[0] * LONG[1],
    unit="B",
)
row(
    "versions_join",
    "device",
    "two of 8,192 x 4,096 side by side, float32",
    repeated((SIDE, 4096), (SIDE, 4096)),
    {
        name: version(
            lambda a, b, name=name: concat(a, b, axis=1, sizes=(4096, 4096), version=name)
        )
        for name in ("copies", "join")
    },
    work=16 * SIDE * 4096,
    unit="B",
)
