"""Rows of 16-bit pools, transposes, joins, gathers, embeddings and dropout, and of functions
without a float32 row elsewhere.

`work` is the floor in bytes, as in rows_bandwidth.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.rows import repeated, row
from benchmarks.rows_bandwidth import IMAGES, PIXELS, SIDE, VOCABULARY, N, in_bfloat16, pair, slopes

# -------------------- pools: with their gradient x, y; dy, dx (and which, 4 bytes)

row(
    "max_pool2d_bf16",
    "device",
    "max_pool2d, 32x64x256x256, 2x2, bfloat16",
    repeated(IMAGES),
    pair(lambda ml, x: ml.max_pool2d(x, 2), lambda f, x: f.max_pool2d(x, 2), "bfloat16"),
    work=2.5 * PIXELS,
    unit="B",
)
for name, how, text in (("", (2,), "2x2"), ("_3x3", (3, 2, 1), "3x3, stride 2")):
    row(
        f"max_pool2d{name}_gradient_bf16",
        "device",
        f"max_pool2d and gradient, 32x64x256x256, {text}, bfloat16",
        repeated(IMAGES),
        slopes(
            lambda ml, x, how=how: ml.max_pool2d(x, *how),
            lambda f, x, how=how: f.max_pool2d(x, *how),
            "bfloat16",
        ),
        work=5.5 * PIXELS,
        unit="B",
    )
row(
    "avg_pool2d_bf16",
    "device",
    "avg_pool2d, 32x64x256x256, 2x2, bfloat16",
    repeated(IMAGES),
    pair(lambda ml, x: ml.avg_pool2d(x, 2), lambda f, x: f.avg_pool2d(x, 2), "bfloat16"),
    work=2.5 * PIXELS,
    unit="B",
)
for kind, ending, width in (("float32", "", 4), ("bfloat16", "_bf16", 2)):
    row(
        f"avg_pool2d_gradient{ending}",
        "device",
        f"avg_pool2d and gradient, 32x64x256x256, 2x2, {kind}",
        repeated(IMAGES),
        slopes(lambda ml, x: ml.avg_pool2d(x, 2), lambda f, x: f.avg_pool2d(x, 2), kind),
        work=2.5 * PIXELS * width,
        unit="B",
    )

# -------------------- transposes, joins, gathers


def ordered(lib: Any, a: Any) -> Any:
    """In C order."""
    return lib.copy(a) if lib.__name__ == "cudamath" else a.contiguous()


def permuted(lib: Any, a: Any, axes: tuple[int, ...]) -> Any:
    """The axes in another order."""
    return a.transpose(axes) if lib.__name__ == "cudamath" else a.permute(axes)


row(
    "copy_transposed_bf16",
    "device",
    "a.T in C order, 8192x8192, bfloat16",
    repeated((SIDE, SIDE)),
    in_bfloat16(lambda lib, a: ordered(lib, a.T)),
    work=4 * SIDE * SIDE,
    unit="B",
)
row(
    "channels_first_bf16",
    "device",
    "NHWC to NCHW, 32x128x128x128, bfloat16",
    repeated((32, 128, 128, 128)),
    in_bfloat16(lambda lib, a: ordered(lib, permuted(lib, a, (0, 3, 1, 2)))),
    work=4 * 32 * 128**3,
    unit="B",
)
row(
    "axes_turned_bf16",
    "device",
    "axes (2, 0, 1) of 512x512x512, bfloat16",
    repeated((512, 512, 512)),
    in_bfloat16(lambda lib, a: ordered(lib, permuted(lib, a, (2, 0, 1)))),
    work=4 * N,
    unit="B",
)
row(
    "concat_bf16",
    "device",
    "two 8192x4096 side by side, bfloat16",
    repeated((SIDE, 4096), (SIDE, 4096)),
    in_bfloat16(
        lambda lib, a, b: (
            lib.concat([a, b], axis=1) if lib.__name__ == "cudamath" else lib.cat([a, b], 1)
        )
    ),
    work=8 * SIDE * 4096,
    unit="B",
)
row(
    "concat_first_bf16",
    "device",
    "two 8192x4096 one below the other, bfloat16",
    repeated((SIDE, 4096), (SIDE, 4096)),
    in_bfloat16(
        lambda lib, a, b: (
            lib.concat([a, b], axis=0) if lib.__name__ == "cudamath" else lib.cat([a, b], 0)
        )
    ),
    work=8 * SIDE * 4096,
    unit="B",
)


def places(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Arguments: a matrix, and for each of its numbers the column of another one."""
    return (*repeated((SIDE, 4096))(rng), np.resize(rng.integers(0, 4096, 1 << 20), (SIDE, 4096)))


def chosen(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Arguments: a table of GPT-2's tokens, and 16,384 of its rows."""
    return (*repeated((VOCABULARY, 768))(rng), rng.integers(0, VOCABULARY, 16384))


row(
    "gather_bf16",
    "device",
    "take_along_axis(a, i, 1), 8192x4096, bfloat16, int64",
    places,
    {
        "cudamath": lambda lib, a, i: (lambda x: lambda: lib.take_along_axis(x, i, axis=1))(
            a.astype("bfloat16")
        ),
        "torch": lambda lib, a, i: (lambda x: lambda: lib.gather(x, 1, i))(a.bfloat16()),
    },
    work=12 * SIDE * 4096,
    unit="B",
)
row(
    "take_bf16",
    "device",
    "take(a, i, 0), 16384 rows of 50257x768, bfloat16",
    chosen,
    {
        "cudamath": lambda lib, a, i: (lambda x: lambda: lib.take(x, i, axis=0))(
            a.astype("bfloat16")
        ),
        "torch": lambda lib, a, i: (lambda x: lambda: lib.index_select(x, 0, i))(a.bfloat16()),
    },
    work=4 * 16384 * 768,
    unit="B",
    copies=2,
)
for kind, ending, width in (("float32", "", 4), ("bfloat16", "_bf16", 2)):
    row(
        f"embedding{ending}",
        "device",
        f"embedding, 16384 of 50257x768, {kind}",
        chosen,
        pair(lambda ml, w, i: ml.embedding(i, w), lambda f, w, i: f.embedding(i, w), kind, fixed=1),
        work=2 * width * 16384 * 768,
        unit="B",
        copies=2,
    )
row(
    "embedding_gradient_bf16",
    "device",
    "embedding and gradient, 8192 of 50257x768, bfloat16",
    lambda rng: (*repeated((VOCABULARY, 768))(rng), rng.integers(0, VOCABULARY, 8192)),
    slopes(
        lambda ml, w, i: ml.embedding(i, w), lambda f, w, i: f.embedding(i, w), "bfloat16", fixed=1
    ),
    work=6 * 8192 * 768 + 2 * VOCABULARY * 768,
    unit="B",
    hide_host=True,
)

# -------------------- dropout: x, y; dy, dx

row(
    "dropout_bf16",
    "device",
    "dropout, 2^27, bfloat16",
    repeated((N,)),
    pair(lambda ml, x: ml.dropout(x, 0.1), lambda f, x: f.dropout(x, 0.1), "bfloat16"),
    work=4 * N,
    unit="B",
    random=True,
)
for kind, ending, width in (("float32", "", 4), ("bfloat16", "_bf16", 2)):
    row(
        f"dropout_gradient{ending}",
        "device",
        f"dropout and gradient, 2^26, {kind}",
        repeated((N // 2,)),
        slopes(lambda ml, x: ml.dropout(x, 0.1), lambda f, x: f.dropout(x, 0.1), kind),
        work=2 * N * width,
        unit="B",
        random=True,
    )
