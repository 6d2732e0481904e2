"""A small convolutional network: about 25 lines to read, to change and to train (`python -m
cudamath demo` does).

A network is a function of its parameters: a dict of arrays that autodiff differentiates and Adam
updates. Running statistics of the batch normalisations are not parameters (nothing differentiates
them), so they travel beside.
"""

from __future__ import annotations

import cudamath as cm
from cudamath import ml

LAYERS = {
    "a": (1, 32),
    "b": (32, 32),
    "c": (32, 64),
}  # 3x3 convolutions: name -> channels in, channels out
CLASSES = 10

Tree = dict[str, cm.ndarray]


def create(rng: cm.random.Generator) -> tuple[Tree, Tree]:
    """Fresh (parameters, running statistics), float32."""
    params, stats = {}, {}
    for name, (channels, filters) in LAYERS.items():
        params[name + ".kernel"] = ml.init.kaiming_normal((filters, channels, 3, 3), rng=rng)
        params[name + ".scale"], params[name + ".shift"] = (
            ml.init.ones(filters),
            ml.init.zeros(filters),
        )
        stats[name + ".mean"], stats[name + ".var"] = ml.init.zeros(filters), ml.init.ones(filters)
    features = 4 * 4 * filters
    params["out.weight"] = ml.init.kaiming_normal((CLASSES, features), rng=rng)
    params["out.bias"] = ml.init.zeros(CLASSES)
    return params, stats


def convolve(
    params: Tree, stats: Tree, name: str, x: cm.ndarray, training: bool
) -> tuple[cm.ndarray, Tree]:
    """(n, c, h, w) -> (n, filters, h, w): convolution, batch normalisation, relu."""
    x = ml.conv2d(x, params[name + ".kernel"], padding="same")
    operands = (
        stats[name + ".mean"],
        stats[name + ".var"],
        params[name + ".scale"],
        params[name + ".shift"],
    )
    if not training:
        return ml.batch_norm(x, *operands, activation="relu"), stats
    x, mean, var = ml.batch_norm(x, *operands, training=True, activation="relu")
    return x, stats | {name + ".mean": mean, name + ".var": var}


def forward(
    params: Tree, stats: Tree, x: cm.ndarray, rng: cm.random.Generator | None = None
) -> tuple[cm.ndarray, Tree]:
    """Images (n, 1, 8, 8) -> logits (n, 10), and the new running statistics. An `rng` means
    training."""
    training = rng is not None
    x, stats = convolve(params, stats, "a", x, training)  # (n, 32, 8, 8)
    x, stats = convolve(params, stats, "b", x, training)
    x = ml.max_pool2d(x, 2)  # (n, 32, 4, 4)
    x, stats = convolve(params, stats, "c", x, training)  # (n, 64, 4, 4)
    x = ml.dropout(x.reshape(x.shape[0], -1), 0.5, training=training, rng=rng)
    return ml.linear(x, params["out.weight"], params["out.bias"]), stats


def loss(
    params: Tree, stats: Tree, x: cm.ndarray, labels: cm.ndarray, rng: cm.random.Generator
) -> tuple[cm.ndarray, Tree]:
    """Mean cross-entropy of a batch, and the new running statistics (what
    `value_and_grad(has_aux=True)` expects)."""
    logits, stats = forward(params, stats, x, rng)
    return ml.cross_entropy(logits, labels), stats
