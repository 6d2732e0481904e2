"""Regressions of gradients of losses: each test failed on an earlier version."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

import cudamath as cm


def test_curvature_of_bce_with_an_array_of_weights_at_0(device):
    """The logits of a layer that begins with zeros; |x| in the formula has no slope there."""
    x, t, p = (
        np.array([0.0, 0.0, 1.5, -700.0]),
        np.array([0.0, 0.25, 1.0, 0.5]),
        np.array([2.5, 2.5, 1.0, 3.0]),
    )
    found = cm.grad(
        lambda x: cm.grad(lambda x: cm.ml.bce_with_logits(x, t, pos_weight=p, reduction="sum"))(
            x
        ).sum()
    )(x)
    np.testing.assert_allclose(
        np.asarray(found), (1 + (p - 1) * t) * expit(x) * expit(-x), rtol=1e-12, atol=1e-300
    )


def test_ignored_rows_of_smoothed_weighted_losses(device):
    """Logits of an ignored row may hold anything."""
    logits, weight = (
        np.array([[0.5, 1.0, -2.0], [-np.inf] * 3, [np.nan] * 3]),
        cm.asarray([1.0, 2.0, 0.5]),
    )

    def loss(x, targets):
        return cm.ml.cross_entropy(x, cm.asarray(targets), weight=weight, label_smoothing=0.1)

    g = np.asarray(cm.grad(lambda x: loss(x, [1, -100, -100]))(cm.asarray(logits)))
    alone = np.asarray(cm.grad(lambda x: loss(x, [1]))(cm.asarray(logits[:1])))
    np.testing.assert_allclose(g[:1], alone, rtol=1e-14)
    assert alone.all() and not g[1:].any()
    for reduction, expected in (
        ("none", np.zeros(0)),
        ("sum", 0.0),
        ("mean", np.nan),
    ):  # no rows at all
        got = cm.ml.cross_entropy(
            np.zeros((0, 3)),
            np.zeros(0, int),
            weight=weight,
            label_smoothing=0.1,
            reduction=reduction,
        )
        np.testing.assert_array_equal(np.asarray(got), expected, strict=True)


def test_divergences_from_and_to_0(device):
    """Of probability 0, and its logarithm, nothing is lost: 0 inf was NaN on the CPU, exp(-inf)
    (-inf) everywhere."""
    x, t = cm.asarray([-np.inf, -1.0]), cm.asarray([0.0, 1.0])
    assert cm.ml.kl_div(x, t, reduction="none").tolist() == [0, 1]
    assert cm.grad(lambda x: cm.ml.kl_div(x, t, reduction="sum"))(x).tolist() == [0, -1]
    x, t = cm.asarray([-2.0, -np.inf, -1.0]), cm.asarray([-np.inf, -np.inf, 0.0])
    for of, expected in ((0, [0, 0, -1]), (1, [0, 0, 2])):

        def slope(x, t, of=of):
            return cm.grad(
                lambda x, t: cm.ml.kl_div(x, t, reduction="sum", log_target=True), argnums=of
            )(x, t)

        assert slope(x, t).tolist() == expected
        assert (
            cm.grad(lambda x, t: slope(x, t).sum(), argnums=1)(x, t).tolist()
            == [[0, 0, -1], [0, 0, 3]][of]
        )
