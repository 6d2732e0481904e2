"""Rows of softmax, losses and normalisation, forward and with gradients, over rows of 64 to 131,072
elements.

`work` is the floor in bytes, as in rows_bandwidth.py. torch runs eagerly and by torch.compile; the
faster one counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import Bind, repeated, row
from benchmarks.rows_bandwidth import VOCABULARY, N, pair, slopes

HALF = N // 2
CHANNELS = (64, 256, 64, 64), (256,), (256,)
SHORT = {"float32": "", "bfloat16": "_bf16"}  # how names of rows end


def targets(rows: int, classes: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Arguments: logits, and the class of each row."""
    return lambda rng: (*repeated((rows, classes))(rng), rng.integers(0, classes, rows))


def softmax(logarithm: bool, how: Callable[..., dict[str, Bind]], kind: str) -> dict[str, Bind]:
    """Along rows; how: `pair` or `slopes`."""
    name = "log_softmax" if logarithm else "softmax"
    return how(
        lambda ml, x: getattr(ml, name)(x),
        lambda f, x: getattr(f, name)(x, -1),
        kind,
        compiled=True,
    )


def layer_norm(how: Callable[..., dict[str, Bind]], kind: str) -> dict[str, Bind]:
    """Of rows, with weights and biases."""
    return how(
        lambda ml, x, w, b: ml.layer_norm(x, x.shape[1], w, b),
        lambda f, x, w, b: f.layer_norm(x, (x.shape[1],), w, b),
        kind,
        compiled=True,
    )


def rms_norm(how: Callable[..., dict[str, Bind]], kind: str) -> dict[str, Bind]:
    """Of rows, with weights."""
    return how(
        lambda ml, x, w: ml.rms_norm(x, x.shape[1], w),
        lambda f, x, w: f.rms_norm(x, (x.shape[1],), w),
        kind,
        compiled=True,
    )


def batch_norm(how: Callable[..., dict[str, Bind]], kind: str) -> dict[str, Bind]:
    """In training, with weights and biases."""
    return how(
        lambda ml, x, w, b: ml.batch_norm(x, None, None, w, b, training=True)[0],
        lambda f, x, w, b: f.batch_norm(x, None, None, w, b, True),
        kind,
        compiled=True,
    )


def group_norm(how: Callable[..., dict[str, Bind]], kind: str) -> dict[str, Bind]:
    """In 32 groups, with weights and biases."""
    return how(
        lambda ml, x, w, b: ml.group_norm(x, 32, w, b),
        lambda f, x, w, b: f.group_norm(x, 32, w, b),
        kind,
        compiled=True,
    )


def of_rows(
    name: str,
    title: str,
    calls: dict[str, Bind],
    kind: str,
    rows: int,
    columns: int,
    parameters: int,
    arrays: int,
) -> None:
    """One row; parameters: how many vectors of a row's length; arrays: how often one of all rows
    must be read or written."""
    row(
        name,
        "device",
        f"{title}, {rows}x{columns}, {kind}",
        repeated((rows, columns), *[(columns,)] * parameters),
        calls,
        work=arrays * rows * columns * (4 if kind == "float32" else 2),
        unit="B",
    )


# -------------------- softmax: with its gradient x, y; y, g, dx

for name, rows, columns, kind in (
    ("64", N // 64, 64, "float32"),
    ("50k", 4096, VOCABULARY, "float32"),
    ("128k", N // 131072, 131072, "float32"),
    ("64_bf16", N // 64, 64, "bfloat16"),
    ("4096_bf16", N // 4096, 4096, "bfloat16"),
    ("128k_bf16", N // 131072, 131072, "bfloat16"),
):
    of_rows(f"softmax_{name}", "softmax", softmax(False, pair, kind), kind, rows, columns, 0, 2)
for name, columns, kind in (
    ("64", 64, "float32"),
    ("4096_bf16", 4096, "bfloat16"),
    ("128k", 131072, "float32"),
):
    of_rows(
        f"log_softmax_{name}",
        "log_softmax",
        softmax(True, pair, kind),
        kind,
        HALF // columns,
        columns,
        0,
        2,
    )
for name, columns, kind in (
    ("64", 64, "bfloat16"),
    ("4096", 4096, "bfloat16"),
    ("128k", 131072, "bfloat16"),
    ("f32", 4096, "float32"),
):
    of_rows(
        f"softmax_gradients_{name}",
        "softmax and gradient",
        softmax(False, slopes, kind),
        kind,
        HALF // columns,
        columns,
        0,
        5,
    )
for name, rows, columns in (
    ("", 4096, VOCABULARY),
    ("_64", HALF // 64, 64),
    ("_128k", HALF // 131072, 131072),
):
    of_rows(
        f"log_softmax_gradients{name}",
        "log_softmax and gradient",
        softmax(True, slopes, "bfloat16"),
        "bfloat16",
        rows,
        columns,
        0,
        5,
    )

# -------------------- cross entropy: x; x, dx

for name, kind, rows, columns in (
    ("", "float32", 4096, VOCABULARY),
    ("_bf16", "bfloat16", 4096, VOCABULARY),
    ("_64", "float32", HALF // 64, 64),
    ("_1000", "float32", 65536, 1000),
    ("_128k", "bfloat16", HALF // 131072, 131072),
):
    row(
        f"cross_entropy{name}",
        "device",
        f"cross_entropy and gradient, {rows}x{columns}, {kind}",
        targets(rows, columns),
        slopes(
            lambda ml, x, t: ml.cross_entropy(x, t),
            lambda f, x, t: f.cross_entropy(x, t),
            kind,
            fixed=1,
            compiled=True,
        ),
        work=3 * rows * columns * (4 if kind == "float32" else 2),
        unit="B",
    )

# -------------------- normalisation: x, y; x, g, dx

for name, columns, kind in (
    ("64", 64, "float32"),
    ("768", 768, "bfloat16"),
    ("131072", 131072, "bfloat16"),
):
    of_rows(
        f"layer_norm_{name}",
        "layer_norm",
        layer_norm(pair, kind),
        kind,
        HALF // columns,
        columns,
        2,
        2,
    )
for name, columns, kind in (
    ("64", 64, "bfloat16"),
    ("768", 768, "bfloat16"),
    ("4096", 4096, "bfloat16"),
    ("131072", 131072, "bfloat16"),
    ("f32", 4096, "float32"),
):
    of_rows(
        f"layer_norm_gradients_{name}",
        "layer_norm and gradients",
        layer_norm(slopes, kind),
        kind,
        HALF // columns,
        columns,
        2,
        5,
    )


def residual_norm(ml: Any, x: Any, r: Any, w: Any, b: Any) -> Any:
    """cudamath's layer norm of x + r, and the sum once more beside it."""
    y, h = ml.layer_norm(x, 768, w, b, residual=r)
    return y + h


def residual_norm_torch(f: Any, x: Any, r: Any, w: Any, b: Any) -> Any:
    """PyTorch's."""
    h = x + r
    return f.layer_norm(h, (768,), w, b) + h


ROWS_768 = HALF // 768
row(
    "residual_norm_gradients",
    "device",
    f"layer_norm(x + r) + x + r and gradients, {ROWS_768}x768, bfloat16",
    repeated((ROWS_768, 768), (ROWS_768, 768), (768,), (768,)),
    slopes(residual_norm, residual_norm_torch, "bfloat16", compiled=True),
    work=22 * ROWS_768 * 768,
    unit="B",
)
for name, columns, kind in (
    ("rms_norm", 4096, "float32"),
    ("rms_norm_64", 64, "float32"),
    ("rms_norm_768", 768, "bfloat16"),
    ("rms_norm_131072", 131072, "bfloat16"),
):
    of_rows(name, "rms_norm", rms_norm(pair, kind), kind, HALF // columns, columns, 1, 2)
for name, columns, kind in (
    ("", 4096, "float32"),
    ("_64", 64, "bfloat16"),
    ("_768", 768, "bfloat16"),
    ("_4096", 4096, "bfloat16"),
    ("_131072", 131072, "bfloat16"),
):
    of_rows(
        f"rms_norm_gradients{name}",
        "rms_norm and gradients",
        rms_norm(slopes, kind),
        kind,
        HALF // columns,
        columns,
        1,
        5,
    )

# batch norm: x twice, y; x and g twice, dx. Group norm: x, y; x, g, dx
for function, forward, both in ((batch_norm, 3, 8), (group_norm, 2, 5)):
    title = "batch_norm (training)" if function is batch_norm else "group_norm, 32 groups"
    for kind in ("float32", "bfloat16"):
        width = 4 if kind == "float32" else 2
        row(
            f"{function.__name__}{SHORT[kind]}",
            "device",
            f"{title}, 64x256x64x64, {kind}",
            repeated(*CHANNELS),
            function(pair, kind),
            work=forward * HALF * width,
            unit="B",
        )
        row(
            f"{function.__name__}_gradients{SHORT[kind]}",
            "device",
            f"{title} and gradients, 64x256x64x64, {kind}",
            repeated(*CHANNELS),
            function(slopes, kind),
            work=both * HALF * width,
            unit="B",
        )
