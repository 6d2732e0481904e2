"""Rows of further memory-bound layers: elementwise losses, resizing, padding, activations and their
gradients.

`work` is the floor in bytes, as in rows_bandwidth.py.
"""

from __future__ import annotations

import numpy as np

from benchmarks.rows import repeated, row
from benchmarks.rows_bandwidth import pair, slopes

N = 1 << 26
SMALL, LARGE = (32, 64, 128, 128), (32, 64, 256, 256)
PIXELS = 32 * 64 * 128 * 128

row(
    "mse_loss",
    "device",
    "mse_loss, 2^26",
    repeated((N,), (N,)),
    pair(lambda ml, x, t: ml.mse_loss(x, t), lambda f, x, t: f.mse_loss(x, t)),
    work=8 * N,
    unit="B",
)
for name, ours, torch in (
    ("mse_loss", lambda ml, x, t: ml.mse_loss(x, t), lambda f, x, t: f.mse_loss(x, t)),
    (
        "smooth_l1_loss",
        lambda ml, x, t: ml.smooth_l1_loss(x, t),
        lambda f, x, t: f.smooth_l1_loss(x, t),
    ),
    (
        "bce_with_logits",
        lambda ml, x, t: ml.bce_with_logits(x, t),
        lambda f, x, t: f.binary_cross_entropy_with_logits(x, t),
    ),
):
    row(
        f"{name}_gradient",
        "device",
        f"{name} and gradient, 2^26",
        repeated((N,), (N,)),
        slopes(ours, torch, fixed=1),
        work=20 * N,
        unit="B",
    )
row(
    "mse_loss_gradients_bf16",
    "device",
    "mse_loss and both gradients, 2^26, bfloat16",
    repeated((N,), (N,)),
    slopes(lambda ml, x, t: ml.mse_loss(x, t), lambda f, x, t: f.mse_loss(x, t), "bfloat16"),
    work=12 * N,
    unit="B",
)

for mode in ("nearest", "bilinear"):
    row(
        f"upsample_{mode}_gradient",
        "device",
        f"upsample x 2, {mode}, and gradient, 32x64x128x128",
        repeated(SMALL),
        slopes(
            lambda ml, x, mode=mode: ml.upsample(x, scale_factor=2, mode=mode),
            lambda f, x, mode=mode: f.interpolate(x, scale_factor=2, mode=mode),
        ),
        work=40 * PIXELS,
        unit="B",
    )
row(
    "upsample_bilinear",
    "device",
    "upsample x 2, bilinear, 32x64x128x128",
    repeated(SMALL),
    pair(
        lambda ml, x: ml.upsample(x, scale_factor=2, mode="bilinear"),
        lambda f, x: f.interpolate(x, scale_factor=2, mode="bilinear"),
    ),
    work=20 * PIXELS,
    unit="B",
)
row(
    "pad_reflect_gradient",
    "device",
    "pad by 1, reflect, and gradient, 32x64x256x256",
    repeated(LARGE),
    slopes(
        lambda ml, x: ml.pad(x, (1, 1, 1, 1), "reflect"),
        lambda f, x: f.pad(x, (1, 1, 1, 1), "reflect"),
    ),
    work=64 * PIXELS,
    unit="B",
)
for name in ("leaky_relu", "mish", "hardswish"):
    row(
        f"{name}_gradient",
        "device",
        f"{name} and gradient, 2^26",
        repeated((N,)),
        slopes(
            lambda ml, x, name=name: getattr(ml, name)(x),
            lambda f, x, name=name: getattr(f, name)(x),
        ),
        work=20 * N,
        unit="B",
    )
row(
    "cross_entropy_soft_gradient",
    "device",
    "cross_entropy of probabilities and gradient, 4096x32768",
    lambda rng: (
        np.resize(rng.standard_normal(1 << 20, dtype=np.float32), (4096, 32768)),
        np.full((4096, 32768), 1 / 32768, np.float32),
    ),
    slopes(lambda ml, x, q: ml.cross_entropy(x, q), lambda f, x, q: f.cross_entropy(x, q), fixed=1),
    work=20 * (1 << 27),
    unit="B",
)
row(
    "cross_entropy_weighted_gradient",
    "device",
    "cross_entropy with class weights and gradient, 8192x32768",
    lambda rng: (
        np.resize(rng.standard_normal(1 << 20, dtype=np.float32), (8192, 32768)),
        rng.integers(0, 32768, 8192),
        np.ones(32768, np.float32),
    ),
    slopes(
        lambda ml, x, t, w: ml.cross_entropy(x, t, weight=w),
        lambda f, x, t, w: f.cross_entropy(x, t, w),
        fixed=2,
    ),
    work=12 * (1 << 28),
    unit="B",
)
