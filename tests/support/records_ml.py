"""The rows of machine learning: as tests/support/records.py, which has those of array math."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from record_types import CUBE, IMAGE, A, M, Row, V, W

# truths that NumPy has no function for


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normal_cdf(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2))


def standard(x: np.ndarray, axes: Any, e: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + e)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal, queries in groups, the last query aligned with the last key."""
    k, v = (np.repeat(a, q.shape[1] // a.shape[1], axis=1) for a in (k, v))
    hidden = ~np.tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], dtype=bool)
    return (
        softmax(np.where(hidden, -np.inf, q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]))) @ v
    )


def self_attention(qkv: np.ndarray) -> np.ndarray:
    """Two heads."""
    q, k, v = np.moveaxis(qkv.reshape(*qkv.shape[:2], 3, 2, -1), (2, 3), (0, 2))
    return attention(q, k, v).swapaxes(1, 2).reshape(*qkv.shape[:2], -1)


def windows(x: np.ndarray, size: tuple[int, int], stride: int, dilation: int = 1) -> np.ndarray:
    """(N, C, H, W) -> (N, C, oh, ow, kh, kw)."""
    reach = [(k - 1) * dilation + 1 for k in size]
    return sliding_window_view(x, reach, (2, 3))[:, :, ::stride, ::stride, ::dilation, ::dilation]


VOLUME = A((2, 2, 4, 4, 6))


def blocks(x: np.ndarray) -> np.ndarray:
    """(N, C, D, H, W) -> (N, C, D / 2, 2, H / 2, 2, W / 2, 2)."""
    n, c, d, h, w = x.shape
    return x.reshape(n, c, d // 2, 2, h // 2, 2, w // 2, 2)


def between(x: np.ndarray, axis: int) -> np.ndarray:
    """Twice as many elements but one, the new ones half way between their neighbours."""
    n = x.shape[axis]
    return (
        np.repeat(x, 2, axis).take(range(1, 2 * n), axis)
        + np.repeat(x, 2, axis).take(range(2 * n - 1), axis)
    ) / 2


def padded(x: np.ndarray, by: int, value: float = 0.0) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 0), (by, by), (by, by)), constant_values=value)


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    halves = zip(np.split(padded(x, 1), 2, axis=1), np.split(w, 2), strict=True)
    parts = [np.einsum("nchwij,ocij->nohw", windows(a, v.shape[2:], 2), v) for a, v in halves]
    return np.concatenate(parts, 1) + b[:, None, None]


ML_ROWS = [
    # activations
    Row(
        "ml.relu",
        lambda xp, x: xp.ml.relu(x),
        (M,),
        lambda x: np.maximum(x, 0),
        error=0,
        cards=("relu", "relu_grad"),
    ),
    Row(
        "ml.leaky_relu",
        lambda xp, x: xp.ml.leaky_relu(x, 0.1),
        (M,),
        lambda x: np.where(x > 0, x, 0.1 * x),
        cards=("leaky_relu", "leaky_relu_grad"),
    ),
    Row(
        "ml.prelu",
        lambda xp, x, w: xp.ml.prelu(x, w),
        (M, V),
        lambda x, w: np.where(x > 0, x, w * x),
        cards=("leaky_relu_slope",),
    ),
    Row(
        "ml.relu6",
        lambda xp, x: xp.ml.relu6(x),
        (A((4, 6), -3, 9),),
        lambda x: np.clip(x, 0, 6),
        error=0,
        cards=("relu6", "relu6_grad"),
    ),
    Row(
        "ml.hardtanh",
        lambda xp, x: xp.ml.hardtanh(x, -1, 1.5),
        (M,),
        lambda x: np.clip(x, -1, 1.5),
        error=0,
        cards=("hardtanh",),
    ),
    Row(
        "ml.selu",
        lambda xp, x: xp.ml.selu(x),
        (M,),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        cards=("selu", "selu_grad"),
    ),
    Row(
        "ml.celu",
        lambda xp, x: xp.ml.celu(x, 1.5),
        (M,),
        lambda x: np.where(x > 0, x, 1.5 * np.expm1(x / 1.5)),
        cards=("celu", "celu_grad"),
    ),
    Row(
        "ml.softsign",
        lambda xp, x: xp.ml.softsign(x),
        (M,),
        lambda x: x / (1 + abs(x)),
        cards=("softsign", "softsign_grad"),
    ),
    Row(
        "ml.hardsigmoid",
        lambda xp, x: xp.ml.hardsigmoid(x),
        (A((4, 6), -5, 5),),
        lambda x: np.clip(x / 6 + 0.5, 0, 1),
        cards=("hardsigmoid", "hardsigmoid_grad"),
    ),
    Row(
        "ml.hardswish",
        lambda xp, x: xp.ml.hardswish(x),
        (A((4, 6), -5, 5),),
        lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
        cards=("hardswish", "hardswish_grad"),
    ),
    Row(
        "ml.mish",
        lambda xp, x: xp.ml.mish(x),
        (M,),
        lambda x: x * np.tanh(np.log1p(np.exp(x))),
        cards=("mish", "mish_grad"),
    ),
    Row(
        "ml.log_sigmoid",
        lambda xp, x: xp.ml.log_sigmoid(x),
        (M,),
        lambda x: -np.log1p(np.exp(-x)),
        cards=("log_sigmoid", "log_sigmoid_grad"),
    ),
    Row(
        "ml.glu",
        lambda xp, x: xp.ml.glu(x),
        (M,),
        lambda x: x[:, :3] / (1 + np.exp(-x[:, 3:])),
        cards=("glu", "glu_gate"),
    ),
    Row(
        "ml.elu",
        lambda xp, x: xp.ml.elu(x, 1.5),
        (M,),
        lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)),
        cards=("elu", "elu_grad"),
    ),
    Row(
        "ml.sigmoid",
        lambda xp, x: xp.ml.sigmoid(x),
        (M,),
        lambda x: 1 / (1 + np.exp(-x)),
        cards=("sigmoid", "sigmoid_grad"),
    ),
    Row(
        "ml.silu",
        lambda xp, x: xp.ml.silu(x),
        (M,),
        lambda x: x / (1 + np.exp(-x)),
        cards=("silu", "silu_grad"),
    ),
    Row(
        "ml.softplus",
        lambda xp, x: xp.ml.softplus(x, 2.0),
        (M,),
        lambda x: np.log1p(np.exp(2 * x)) / 2,
        cards=("softplus", "softplus_grad"),
    ),
    Row(
        "ml.gelu",
        lambda xp, x: xp.ml.gelu(x),
        (M,),
        lambda x: x * normal_cdf(x),
        cards=("gelu", "gelu_grad"),
    ),
    Row(
        "ml.gelu",
        lambda xp, x: xp.ml.gelu(x, approximate="tanh"),
        (M,),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        cards=("gelu_tanh", "gelu_tanh_grad"),
    ),
    Row(
        "ml.activation",
        lambda xp, x: xp.ml.activation(x, "tanh"),
        (M,),
        np.tanh,
        cards=("tanh", "tanh_grad"),
    ),
    # softmax and losses
    Row(
        "ml.softmax",
        lambda xp, x: xp.ml.softmax(x, axis=1),
        (CUBE,),
        lambda x: softmax(x, 1),
        cards=("softmax", "softmax_grad"),
    ),
    Row(
        "ml.log_softmax",
        lambda xp, x: xp.ml.log_softmax(x),
        (CUBE,),
        lambda x: np.log(softmax(x)),
        cards=("log_softmax", "log_softmax_grad"),
    ),
    Row(
        "ml.cross_entropy",
        lambda xp, x, t: xp.ml.cross_entropy(x, t, label_smoothing=0.1),
        (A((5, 7)), W((5,), 7)),
        lambda x, t: (-np.log(softmax(x)) * (0.9 * np.eye(7)[t] + 0.1 / 7)).sum(1).mean(),
        cards=("cross_entropy", "cross_entropy_grad"),
    ),
    Row(
        "ml.cross_entropy",
        lambda xp, x, q: xp.ml.cross_entropy(x, q, reduction="sum"),
        (A((5, 7)), A((5, 7), 0, 1)),
        lambda x, q: -(np.log(softmax(x)) * q).sum(),
        cards=("cross_entropy (probabilities)", "cross_entropy_grad (probabilities)"),
    ),
    Row(
        "ml.nll_loss",
        lambda xp, x, t: xp.ml.nll_loss(x, t, reduction="none"),
        (A((5, 7, 2), -4, 0), W((5, 2), 7)),
        lambda x, t: -np.take_along_axis(x, t[:, None], 1)[:, 0],
        error=0,
        cards=("nll_loss", "nll_loss_grad"),
    ),
    Row(
        "ml.mse_loss",
        lambda xp, x, t: xp.ml.mse_loss(x, t),
        (M, M),
        lambda x, t: ((x - t) ** 2).mean(),
        cards=("pointwise_loss (of two)", "pointwise_loss_grads"),
    ),
    Row(
        "ml.mse_loss",
        lambda xp, x: xp.ml.mse_loss(x, np.ones((4, 6), getattr(x, "dtype", None))),
        (M,),
        lambda x: ((x - 1) ** 2).mean(),
        cards=("pointwise_loss", "pointwise_loss_grad"),
    ),
    Row("ml.l1_loss", lambda xp, x, t: xp.ml.l1_loss(x, t), (M, M), lambda x, t: abs(x - t).mean()),
    Row(
        "ml.huber_loss",
        lambda xp, x, t: xp.ml.huber_loss(x, t, delta=0.5),
        (M, M),
        lambda x, t: np.where(abs(x - t) < 0.5, (x - t) ** 2 / 2, abs(x - t) / 2 - 0.125).mean(),
    ),
    Row(
        "ml.smooth_l1_loss",
        lambda xp, x, t: xp.ml.smooth_l1_loss(x, t, reduction="none"),
        (M, M),
        lambda x, t: np.where(abs(x - t) < 1, (x - t) ** 2 / 2, abs(x - t) - 0.5),
    ),
    Row(
        "ml.bce_with_logits",
        lambda xp, x, t: xp.ml.bce_with_logits(x, t, pos_weight=2.0),
        (M, A((4, 6), 0, 1)),
        lambda x, t: (2 * t * np.log1p(np.exp(-x)) + (1 - t) * np.log1p(np.exp(x))).mean(),
    ),
    Row(
        "ml.binary_cross_entropy",
        lambda xp, x, t: xp.ml.binary_cross_entropy(x, t),
        (A((4, 6), 0.1, 0.9), A((4, 6), 0, 1)),
        lambda x, t: -(t * np.log(x) + (1 - t) * np.log1p(-x)).mean(),
    ),
    Row(
        "ml.kl_div",
        lambda xp, x, t: xp.ml.kl_div(x, t, reduction="batchmean"),
        (M, A((4, 6), 0.1, 1)),
        lambda x, t: (t * (np.log(t) - x)).sum() / 4,
    ),
    Row(
        "ml.kl_div",
        lambda xp, x, t: xp.ml.kl_div(x, t, log_target=True),
        (M, A((4, 6), -2, 0)),
        lambda x, t: (np.exp(t) * (t - x)).mean(),
    ),
    # layers
    Row(
        "ml.scaled_dot_product_attention",
        lambda xp, q, k, v: xp.ml.scaled_dot_product_attention(q, k, v, causal=True),
        (A((2, 4, 5, 6)), A((2, 2, 7, 6)), A((2, 2, 7, 3))),
        attention,
        cards=("scaled_dot_product_attention", "attention_grad"),
    ),
    Row(
        "ml.self_attention",
        lambda xp, qkv: xp.ml.self_attention(qkv, 2),
        (A((2, 5, 18)),),
        self_attention,
        cards=("self_attention", "self_attention_grad"),
    ),
    Row(
        "ml.linear",
        lambda xp, x, w, b: xp.ml.linear(x, w, b),
        (A((2, 3, 6)), A((5, 6)), A((5,))),
        lambda x, w, b: x @ w.T + b,
        cards=("linear",),
    ),
    Row(
        "ml.grouped_matmul",
        lambda xp, x, w: xp.ml.grouped_matmul(x, w, [2, 2, 5]),
        (A((6, 4)), A((3, 4, 5))),
        lambda x, w: np.concatenate([x[:2] @ w[0], x[2:5] @ w[2], np.zeros((1, 5))]),
        cards=("grouped_matmul", "grouped_outer"),
    ),
    Row(
        "ml.mlp",
        lambda xp, x, u, b, w, c: xp.ml.mlp(x, u, b, w, c, activation="silu"),
        (A((2, 3, 6)), A((5, 6)), A((5,)), A((4, 5)), A((4,))),
        lambda x, u, b, w, c: ((z := x @ u.T + b) / (1 + np.exp(-z))) @ w.T + c,
        cards=("mlp", "product_slope"),
    ),
    Row(
        "ml.mlp",
        lambda xp, x, u, b, w, c: xp.ml.mlp(x, u, b, w, c, activation="gelu", recompute=True),
        (A((2, 3, 6)), A((5, 6)), A((5,)), A((4, 5)), A((4,))),
        lambda x, u, b, w, c: ((z := x @ u.T + b) * normal_cdf(z)) @ w.T + c,
        cards=("mlp (recomputed)",),
    ),
    Row(
        "ml.linear_cross_entropy",
        lambda xp, x, w, t: xp.ml.linear_cross_entropy(x, w, t, classes=6, rows=3).astype(x.dtype),
        (A((2, 4, 6)), A((7, 6)), W((2, 4), 6)),
        lambda x, w, t: -np.log(np.take_along_axis(softmax(x @ w[:6].T), t[..., None], 2)).mean(),
        cards=("linear_loss",),
    ),
    Row(
        "ml.embedding",
        lambda xp, i, w: xp.ml.embedding(i, w),
        (W((3, 4), 5), A((5, 6))),
        lambda i, w: w[i],
        error=0,
        cards=("embedding",),
    ),
    Row(
        "ml.one_hot",
        lambda xp, i: xp.ml.one_hot(i, 5),
        (W((3, 4), 5),),
        lambda i: np.eye(5, dtype=int)[i],
        error=0,
        grad=False,
        cards=("one_hot",),
    ),
    Row(
        "ml.conv2d",
        lambda xp, x, w, b: xp.ml.conv2d(x, w, b, stride=2, padding=1, groups=2),
        (IMAGE, A((6, 2, 3, 2)), A((6,))),
        conv2d,
        cards=("conv2d", "_conv2d_input_grad", "_conv2d_weight_grad"),
    ),
    Row(
        "ml.conv1d",
        lambda xp, x, w: xp.ml.conv1d(x, w, padding=1),
        (A((2, 3, 7)), A((4, 3, 3))),
        lambda x, w: np.einsum(
            "nclr,kcr->nkl", sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1))), 3, 2), w
        ),
    ),
    Row(
        "ml.conv3d",
        lambda xp, x, w: xp.ml.conv3d(x, w, stride=(2, 1, 1)),
        (A((2, 3, 5, 4, 5)), A((4, 3, 2, 3, 2))),
        lambda x, w: np.einsum(
            "ncdhwtrs,kctrs->nkdhw", sliding_window_view(x, (2, 3, 2), (2, 3, 4))[:, :, ::2], w
        ),
        cards=("_conv3d", "_conv3d_input_grad", "_conv3d_weight_grad"),
    ),
    Row(
        "ml.conv_transpose2d",
        lambda xp, x, w: xp.ml.conv_transpose2d(x, w),
        (A((2, 3, 4, 4)), A((3, 4, 2, 2))),
        lambda x, w: np.einsum(
            "nchwrs,kcrs->nkhw",
            sliding_window_view(padded(x, 1), (2, 2), (2, 3)),
            w.swapaxes(0, 1)[:, :, ::-1, ::-1],
        ),
    ),
    Row(
        "ml.conv_transpose1d",
        lambda xp, x, w: xp.ml.conv_transpose1d(x, w, stride=2),
        (A((2, 3, 4)), A((3, 4, 2))),
        lambda x, w: np.einsum("ncl,ckr->nklr", x, w).reshape(2, 4, 8),
    ),
    Row(
        "ml.conv_transpose3d",
        lambda xp, x, w: xp.ml.conv_transpose3d(x, w, stride=2),
        (A((2, 3, 2, 2, 3)), A((3, 4, 2, 2, 2))),
        lambda x, w: np.einsum("ncdhw,cktrs->nkdthrws", x, w).reshape(2, 4, 4, 4, 6),
    ),
    Row(
        "ml.conv_transpose3d",
        lambda xp, x, w: xp.ml.conv_transpose3d(
            x, w, dilation=2, output_padding=1
        ),  # zeros at each end
        (A((2, 3, 2, 2, 3)), A((3, 4, 2, 1, 1))),
        lambda x, w: np.pad(
            np.einsum("ncdhw,cktrs->nktdhw", x, w).reshape(2, 4, 4, 2, 3),
            ((0, 0), (0, 0), *((0, 1),) * 3),
        ),
        cards=("overlap_add", "overlap_take"),
    ),
    Row(
        "ml.max_pool2d",
        lambda xp, x: xp.ml.max_pool2d(x, (3, 2), 2, 1),
        (IMAGE,),
        lambda x: windows(padded(x, 1, -np.inf), (3, 2), 2).max((-2, -1)),
        error=0,
        cards=("max_pool2d", "max_pool2d (with positions)", "_max_pool2d_grad", "_max_pool2d_take"),
    ),
    Row(
        "ml.avg_pool2d",
        lambda xp, x: xp.ml.avg_pool2d(x, (3, 2), 2, 1),
        (IMAGE,),
        lambda x: windows(padded(x, 1), (3, 2), 2).mean((-2, -1)),
        cards=("avg_pool2d", "_avg_pool2d_grad"),
    ),
    Row(
        "ml.batch_norm",
        lambda xp, x, w, b: xp.ml.batch_norm(x, None, None, w, b, training=True)[0],
        (IMAGE, A((4,)), A((4,))),
        lambda x, w, b: standard(x, (0, 2, 3)) * w[:, None, None] + b[:, None, None],
        cards=("batch_norm", "batch_norm_grad"),
    ),
    Row(
        "ml.batch_norm",
        lambda xp, x, m, v, w, b: xp.ml.batch_norm(x, m, v, w, b),
        (A((5, 3)), A((3,)), A((3,), 0.5, 2), A((3,)), A((3,))),
        lambda x, m, v, w, b: (x - m) / np.sqrt(v + 1e-5) * w + b,
        cards=("batch_norm_inference",),
    ),
    Row(
        "ml.batch_norm",
        lambda xp, x, w, b, r: xp.ml.batch_norm(
            x, None, None, w, b, training=True, activation="relu", residual=r
        )[0],
        (IMAGE, A((4,)), A((4,)), IMAGE),
        lambda x, w, b, r: np.maximum(
            standard(x, (0, 2, 3)) * w[:, None, None] + b[:, None, None] + r, 0
        ),
        cards=("batch_norm_residual_grad",),
    ),
    Row(
        "ml.layer_norm",
        lambda xp, x, w, b: xp.ml.layer_norm(x, (4, 5), w, b),
        (CUBE, A((4, 5)), A((4, 5))),
        lambda x, w, b: standard(x, (1, 2)) * w + b,
        cards=("layer_norm", "layer_norm_grad"),
    ),
    Row(
        "ml.rms_norm",
        lambda xp, x, w: xp.ml.rms_norm(x, 5, w, eps=1e-5),
        (CUBE, A((5,))),
        lambda x, w: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w,
        cards=("rms_norm", "rms_norm_grad"),
    ),
    Row(
        "ml.group_norm",
        lambda xp, x, w, b: xp.ml.group_norm(x, 2, w, b),
        (IMAGE, A((4,)), A((4,))),
        lambda x, w, b: (
            standard(x.reshape(len(x), 2, -1), 2).reshape(x.shape) * w[:, None, None]
            + b[:, None, None]
        ),
        cards=("group_norm", "group_norm_grad"),
    ),
    Row(
        "ml.instance_norm",
        lambda xp, x: xp.ml.instance_norm(x),
        (IMAGE,),
        lambda x: standard(x, (2, 3)),
    ),
    Row(
        "ml.max_pool1d",
        lambda xp, x: xp.ml.max_pool1d(x, 2),
        (A((2, 3, 6)),),
        lambda x: x.reshape(2, 3, 3, 2).max(3),
        error=0,
    ),
    Row(
        "ml.avg_pool1d",
        lambda xp, x: xp.ml.avg_pool1d(x, 3),
        (A((2, 3, 6)),),
        lambda x: x.reshape(2, 3, 2, 3).mean(3),
    ),
    Row(
        "ml.max_pool3d",
        lambda xp, x: xp.ml.max_pool3d(x, 2),
        (VOLUME,),
        lambda x: blocks(x).max((3, 5, 7)),
        error=0,
        cards=("max_pool3d",),
    ),
    Row(
        "ml.avg_pool3d",
        lambda xp, x: xp.ml.avg_pool3d(x, 2),
        (VOLUME,),
        lambda x: blocks(x).mean((3, 5, 7)),
        cards=("avg_pool3d",),
    ),
    Row(
        "ml.adaptive_avg_pool1d",
        lambda xp, x: xp.ml.adaptive_avg_pool1d(x, 2),
        (A((2, 3, 5)),),
        lambda x: np.stack([x[..., :3].mean(2), x[..., 2:].mean(2)], 2),
    ),
    Row(
        "ml.adaptive_max_pool1d",
        lambda xp, x: xp.ml.adaptive_max_pool1d(x, 2),
        (A((2, 3, 5)),),
        lambda x: np.stack([x[..., :3].max(2), x[..., 2:].max(2)], 2),
        error=0,
    ),
    Row(
        "ml.adaptive_avg_pool3d",
        lambda xp, x: xp.ml.adaptive_avg_pool3d(x, (2, 1, 3)),
        (VOLUME,),
        lambda x: blocks(x).mean((3, 4, 5, 7))[:, :, :, None],
        cards=("adaptive_pool",),
    ),
    Row(
        "ml.adaptive_max_pool3d",
        lambda xp, x: xp.ml.adaptive_max_pool3d(x, (2, 1, 3)),
        (VOLUME,),
        lambda x: blocks(x).max((3, 4, 5, 7))[:, :, :, None],
        error=0,
    ),
    Row(
        "ml.pad",
        lambda xp, x: xp.ml.pad(x, (2, 1, 0, 3), "reflect"),
        (IMAGE,),
        lambda x: np.pad(x, ((0, 0), (0, 0), (0, 3), (2, 1)), "reflect"),
        error=0,
    ),
    Row(
        "ml.upsample",
        lambda xp, x: xp.ml.upsample(x, scale_factor=2),
        (IMAGE,),
        lambda x: x.repeat(2, 2).repeat(2, 3),
        error=0,
        grad=False,
    ),
    Row(
        "ml.upsample",
        lambda xp, x: xp.ml.upsample(x, (13, 11), mode="bilinear", align_corners=True),
        (IMAGE,),
        lambda x: between(between(x, 2), 3),
        cards=("resize", "_resize_grad"),
    ),
    Row(
        "ml.adaptive_avg_pool2d",
        lambda xp, x: xp.ml.adaptive_avg_pool2d(x, (1, None)),
        (IMAGE,),
        lambda x: x.mean(2, keepdims=True),
    ),
    Row(
        "ml.adaptive_max_pool2d",
        lambda xp, x: xp.ml.adaptive_max_pool2d(x, (None, 1)),
        (IMAGE,),
        lambda x: x.max(3, keepdims=True),
        error=0,
    ),
    Row(
        "ml.global_avg_pool2d",
        lambda xp, x: xp.ml.global_avg_pool2d(x),
        (IMAGE,),
        lambda x: x.mean((2, 3), keepdims=True),
    ),
    Row(
        "ml.global_max_pool2d",
        lambda xp, x: xp.ml.global_max_pool2d(x),
        (IMAGE,),
        lambda x: x.max((2, 3), keepdims=True),
        error=0,
    ),
]
