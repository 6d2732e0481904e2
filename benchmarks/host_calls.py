"""The calls whose cost to the host is measured (`benchmarks.host_costs`): each in cudamath's words and in PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks import timer

Function = Callable[[Any, Any], object]  # (library, arguments by name) -> result
Pair = tuple[Function, Function]  # cudamath's, PyTorch's


class Arguments:
    """Small arrays in one library: a, b (64, 64); v (64,); mask; places (32,) of rows; classes (64,); images and channels;
    steps: ascending; definite: a symmetric positive definite matrix; waves: complex; lines and taps, volumes and cubes: of
    convolutions in one and three dimensions; chances: from 0 to 1, which no call writes into."""

    def __init__(self, peer: timer.Peer):
        rng = np.random.default_rng(0)
        a, b = rng.random((64, 64), np.float32), rng.random((64, 64), np.float32)
        values: dict[str, Any] = {
            "a": a, "b": b, "v": rng.random(64, np.float32), "steps": np.arange(64, dtype=np.float32) / 64,
            "definite": np.float32(0.1) * a @ a.T + np.eye(64, dtype=np.float32), "waves": a + b * np.complex64(1j),
            "mask": rng.random((64, 64)) > 0.5, "places": rng.integers(0, 64, 32), "classes": rng.integers(0, 64, 64),
            "images": rng.random((4, 8, 8, 8), np.float32), "channels": rng.random(8, np.float32),
            "kernels": rng.random((8, 8, 3, 3), np.float32), "lines": rng.random((4, 8, 64), np.float32),
            "volumes": rng.random((2, 8, 4, 8, 8), np.float32), "taps": rng.random((8, 8, 3), np.float32),
            "cubes": rng.random((8, 8, 3, 3, 3), np.float32), "chances": rng.random((64, 64), np.float32)}
        for name, value in values.items():
            setattr(self, name, peer.array(value))


def same(function: Function) -> Pair:
    """One expression for both libraries."""
    return function, function


LIST = [0.5] * 64  # what becomes an array

#: title -> (cudamath's, PyTorch's)
CALLS: dict[str, Pair] = {
    "a + b": same(lambda lib, x: x.a + x.b),
    "a + v": same(lambda lib, x: x.a + x.v),
    "a * 2.0": same(lambda lib, x: x.a * 2.0),
    "a ** 2": same(lambda lib, x: x.a**2),
    "a > b": same(lambda lib, x: x.a > x.b),
    "exp(a)": same(lambda lib, x: lib.exp(x.a)),
    "sqrt(a)": same(lambda lib, x: lib.sqrt(x.a)),
    "maximum(a, b)": same(lambda lib, x: lib.maximum(x.a, x.b)),
    "where(mask, a, b)": same(lambda lib, x: lib.where(x.mask, x.a, x.b)),
    "clip(a, 0, 1)": same(lambda lib, x: lib.clip(x.a, 0.2, 0.8)),
    "a.astype(float16)": (lambda lib, x: x.a.astype("float16"), lambda lib, x: x.a.half()),
    "isnan(a)": same(lambda lib, x: lib.isnan(x.a)),
    "a += b": same(lambda lib, x: x.a.__iadd__(x.b)),
    "a[1:3] = 1": same(lambda lib, x: x.a.__setitem__(slice(1, 3), 1.0)),
    "a[1:]": same(lambda lib, x: x.a[1:]),
    "a.T": same(lambda lib, x: x.a.T),
    "a.reshape(-1)": same(lambda lib, x: x.a.reshape(-1)),
    "broadcast_to(v, (64, 64))": same(lambda lib, x: lib.broadcast_to(x.v, (64, 64))),
    "split(a, 2)": (lambda lib, x: lib.split(x.a, 2), lambda lib, x: lib.split(x.a, 32)),
    "a.sum()": same(lambda lib, x: x.a.sum()),
    "a.sum(1)": same(lambda lib, x: x.a.sum(1)),
    "a.mean()": same(lambda lib, x: x.a.mean()),
    "var(a)": same(lambda lib, x: lib.var(x.a)),
    "argmax(a, 1)": (lambda lib, x: lib.argmax(x.a, axis=1), lambda lib, x: lib.argmax(x.a, 1)),
    "a.max()": same(lambda lib, x: x.a.max()),
    "any(mask)": same(lambda lib, x: lib.any(x.mask)),
    "nansum(a)": same(lambda lib, x: lib.nansum(x.a)),
    "cumsum(v)": (lambda lib, x: lib.cumsum(x.v), lambda lib, x: lib.cumsum(x.v, 0)),
    "norm(a)": same(lambda lib, x: lib.linalg.norm(x.a)),
    "sort(a)": same(lambda lib, x: lib.sort(x.a)),
    "argsort(a)": same(lambda lib, x: lib.argsort(x.a)),
    "take(a, places, 0)": (lambda lib, x: lib.take(x.a, x.places, axis=0), lambda lib, x: lib.index_select(x.a, 0, x.places)),
    "a[places]": same(lambda lib, x: x.a[x.places]),
    "concat([a, b])": (lambda lib, x: lib.concat([x.a, x.b]), lambda lib, x: lib.cat([x.a, x.b])),
    "stack([a, b])": same(lambda lib, x: lib.stack([x.a, x.b])),
    "pad(a, 1)": (lambda lib, x: lib.pad(x.a, 1), lambda lib, x: lib.nn.functional.pad(x.a, (1, 1, 1, 1))),
    "roll(a, 3)": same(lambda lib, x: lib.roll(x.a, 3)),
    "flip(a)": (lambda lib, x: lib.flip(x.a), lambda lib, x: lib.flip(x.a, (0, 1))),
    "tril(a)": same(lambda lib, x: lib.tril(x.a)),
    "tile(a, (2, 2))": same(lambda lib, x: lib.tile(x.a, (2, 2))),
    "repeat(a, 2)": (lambda lib, x: lib.repeat(x.a, 2), lambda lib, x: lib.repeat_interleave(x.a, 2)),
    "copy(a.T)": (lambda lib, x: lib.copy(x.a.T), lambda lib, x: x.a.T.contiguous()),
    "zeros((64, 64))": (lambda lib, x: lib.zeros((64, 64), dtype="float32"),
                        lambda lib, x: lib.zeros((64, 64), device=x.a.device)),
    "full((64, 64), 2)": (lambda lib, x: lib.full((64, 64), 2.0, dtype="float32"),
                          lambda lib, x: lib.full((64, 64), 2.0, device=x.a.device)),
    "ones_like(a)": same(lambda lib, x: lib.ones_like(x.a)),
    "arange(64)": (lambda lib, x: lib.arange(64), lambda lib, x: lib.arange(64, device=x.a.device)),
    "eye(64)": (lambda lib, x: lib.eye(64, dtype="float32"), lambda lib, x: lib.eye(64, device=x.a.device)),
    "a @ b": same(lambda lib, x: x.a @ x.b),
    "vecdot(v, v)": (lambda lib, x: lib.vecdot(x.v, x.v), lambda lib, x: lib.linalg.vecdot(x.v, x.v)),
    "outer(v, v)": same(lambda lib, x: lib.outer(x.v, x.v)),
    "einsum('ij,jk->ik', a, b)": same(lambda lib, x: lib.einsum("ij,jk->ik", x.a, x.b)),
    "tensordot(a, b, 1)": same(lambda lib, x: lib.tensordot(x.a, x.b, 1)),
    "trace(a)": same(lambda lib, x: lib.trace(x.a)),
    "relu(a)": (lambda lib, x: lib.ml.relu(x.a), lambda lib, x: lib.relu(x.a)),
    "gelu(a)": (lambda lib, x: lib.ml.gelu(x.a), lambda lib, x: lib.nn.functional.gelu(x.a)),
    "softmax(a)": (lambda lib, x: lib.ml.softmax(x.a), lambda lib, x: lib.softmax(x.a, -1)),
    "log_softmax(a)": (lambda lib, x: lib.ml.log_softmax(x.a), lambda lib, x: lib.log_softmax(x.a, -1)),
    "layer_norm(a, 64, v, v)": (lambda lib, x: lib.ml.layer_norm(x.a, 64, x.v, x.v),
                                lambda lib, x: lib.nn.functional.layer_norm(x.a, (64,), x.v, x.v)),
    "layer_norm(a, 64)": (lambda lib, x: lib.ml.layer_norm(x.a, 64), lambda lib, x: lib.nn.functional.layer_norm(x.a, (64,))),
    "rms_norm(a, 64, v)": (lambda lib, x: lib.ml.rms_norm(x.a, 64, x.v),
                           lambda lib, x: lib.nn.functional.rms_norm(x.a, (64,), x.v)),
    "group_norm(images, 2, weight, bias)": (
        lambda lib, x: lib.ml.group_norm(x.images, 2, x.channels, x.channels),
        lambda lib, x: lib.nn.functional.group_norm(x.images, 2, x.channels, x.channels)),
    "batch_norm(images)": (
        lambda lib, x: lib.ml.batch_norm(x.images, x.channels, x.channels, x.channels, x.channels),
        lambda lib, x: lib.nn.functional.batch_norm(x.images, x.channels, x.channels, x.channels, x.channels)),
    "batch_norm(images, training)": (
        lambda lib, x: lib.ml.batch_norm(x.images, None, None, x.channels, x.channels, training=True),
        lambda lib, x: lib.nn.functional.batch_norm(x.images, None, None, x.channels, x.channels, True)),
    "max_pool2d(images, 2)": (lambda lib, x: lib.ml.max_pool2d(x.images, 2),
                              lambda lib, x: lib.nn.functional.max_pool2d(x.images, 2)),
    "avg_pool2d(images, 2)": (lambda lib, x: lib.ml.avg_pool2d(x.images, 2),
                              lambda lib, x: lib.nn.functional.avg_pool2d(x.images, 2)),
    "conv2d(images, kernels)": (lambda lib, x: lib.ml.conv2d(x.images, x.kernels),
                                lambda lib, x: lib.nn.functional.conv2d(x.images, x.kernels)),
    "linear(a, b, v)": (lambda lib, x: lib.ml.linear(x.a, x.b, x.v), lambda lib, x: lib.nn.functional.linear(x.a, x.b, x.v)),
    "scaled_dot_product_attention": (
        lambda lib, x: lib.ml.scaled_dot_product_attention(x.images, x.images, x.images),
        lambda lib, x: lib.nn.functional.scaled_dot_product_attention(x.images, x.images, x.images)),
    "embedding(places, a)": (lambda lib, x: lib.ml.embedding(x.places, x.a),
                             lambda lib, x: lib.nn.functional.embedding(x.places, x.a)),
    "cross_entropy(a, classes)": (lambda lib, x: lib.ml.cross_entropy(x.a, x.classes),
                                  lambda lib, x: lib.nn.functional.cross_entropy(x.a, x.classes)),
    "mse_loss(a, b)": (lambda lib, x: lib.ml.mse_loss(x.a, x.b), lambda lib, x: lib.nn.functional.mse_loss(x.a, x.b)),
    "dropout(a, 0.1)": (lambda lib, x: lib.ml.dropout(x.a, 0.1), lambda lib, x: lib.nn.functional.dropout(x.a, 0.1)),
    "1 / a": same(lambda lib, x: 1.0 / x.a),
    "-a": same(lambda lib, x: -x.a),
    "expand_dims(a, 0)": (lambda lib, x: lib.expand_dims(x.a, 0), lambda lib, x: lib.unsqueeze(x.a, 0)),
    "swapaxes(a, 0, 1)": same(lambda lib, x: lib.swapaxes(x.a, 0, 1)),
    "permute_dims(images, ...)": (lambda lib, x: lib.permute_dims(x.images, (0, 2, 3, 1)),
                                  lambda lib, x: lib.permute(x.images, (0, 2, 3, 1))),
    "moveaxis(images, 1, -1)": same(lambda lib, x: lib.moveaxis(x.images, 1, -1)),
    "diagonal(a)": same(lambda lib, x: lib.diagonal(x.a)),
    "unstack(kernels)": (lambda lib, x: lib.unstack(x.kernels), lambda lib, x: lib.unbind(x.kernels)),
    "a[0]": same(lambda lib, x: x.a[0]),
    "a[:, 1]": same(lambda lib, x: x.a[:, 1]),
    "a[1:3, ::2]": same(lambda lib, x: x.a[1:3, ::2]),
    "a[:, places]": same(lambda lib, x: x.a[:, x.places]),
    "a[mask] = 0": same(lambda lib, x: x.a.__setitem__(x.mask, 0.0)),
    "take_along_axis": (lambda lib, x: lib.take_along_axis(x.a, x.classes[:, None], axis=1),
                        lambda lib, x: lib.gather(x.a, 1, x.classes[:, None])),
    "hstack([a, b])": same(lambda lib, x: lib.hstack([x.a, x.b])),
    "vstack([a, b])": same(lambda lib, x: lib.vstack([x.a, x.b])),
    "linspace(0, 1, 64)": (lambda lib, x: lib.linspace(0, 1, 64), lambda lib, x: lib.linspace(0, 1, 64, device=x.a.device)),
    "images.mean((2, 3))": same(lambda lib, x: x.images.mean((2, 3))),
    "cumprod(v)": (lambda lib, x: lib.cumprod(x.v), lambda lib, x: lib.cumprod(x.v, 0)),
    "searchsorted(v, v)": same(lambda lib, x: lib.searchsorted(x.v, x.v)),
    "fft(v)": same(lambda lib, x: lib.fft.fft(x.v)),
    "rfft(v)": same(lambda lib, x: lib.fft.rfft(x.v)),
    "random((64, 64))": (lambda lib, x: lib.random.random((64, 64), dtype="float32"),
                         lambda lib, x: lib.rand((64, 64), device=x.a.device)),
    "standard_normal((64, 64))": (lambda lib, x: lib.random.standard_normal((64, 64), dtype="float32"),
                                  lambda lib, x: lib.randn((64, 64), device=x.a.device)),
    "silu(a)": (lambda lib, x: lib.ml.silu(x.a), lambda lib, x: lib.nn.functional.silu(x.a)),
    "leaky_relu(a)": (lambda lib, x: lib.ml.leaky_relu(x.a), lambda lib, x: lib.nn.functional.leaky_relu(x.a)),
    "huber_loss(a, b)": (lambda lib, x: lib.ml.huber_loss(x.a, x.b), lambda lib, x: lib.nn.functional.huber_loss(x.a, x.b)),
    "bce_with_logits(a, b)": (lambda lib, x: lib.ml.bce_with_logits(x.a, x.b),
                              lambda lib, x: lib.nn.functional.binary_cross_entropy_with_logits(x.a, x.b)),
    "nll_loss(a, classes)": (lambda lib, x: lib.ml.nll_loss(x.a, x.classes),
                             lambda lib, x: lib.nn.functional.nll_loss(x.a, x.classes)),
    "a == 0": same(lambda lib, x: x.a == 0.0),
    "a % 2": same(lambda lib, x: x.a % 2.0),
    "~mask": same(lambda lib, x: ~x.mask),
    "abs(a)": same(lambda lib, x: abs(x.a)),
    "2 ** a": same(lambda lib, x: 2.0**x.a),
    "round(a, 2)": (lambda lib, x: lib.round(x.a, 2), lambda lib, x: lib.round(x.a, decimals=2)),
    "sinc(a)": same(lambda lib, x: lib.sinc(x.a)),
    "nan_to_num(a)": same(lambda lib, x: lib.nan_to_num(x.a)),
    "isclose(a, b)": same(lambda lib, x: lib.isclose(x.a, x.b)),
    "allclose(a, b)": same(lambda lib, x: lib.allclose(x.a, x.b)),
    "logaddexp(a, b)": same(lambda lib, x: lib.logaddexp(x.a, x.b)),
    "where(mask, a, 0)": same(lambda lib, x: lib.where(x.mask, x.a, 0.0)),
    "a.copy()": (lambda lib, x: x.a.copy(), lambda lib, x: x.a.clone()),
    "zeros_like(a)": same(lambda lib, x: lib.zeros_like(x.a)),
    "full_like(a, 2)": same(lambda lib, x: lib.full_like(x.a, 2.0)),
    "empty((64, 64))": (lambda lib, x: lib.empty((64, 64), dtype="float32"),
                        lambda lib, x: lib.empty((64, 64), device=x.a.device)),
    "std(a, 1)": (lambda lib, x: lib.std(x.a, axis=1), lambda lib, x: lib.std(x.a, 1)),
    "a.min(1)": (lambda lib, x: x.a.min(1), lambda lib, x: lib.amin(x.a, 1)),
    "prod(v)": same(lambda lib, x: lib.prod(x.v)),
    "count_nonzero(mask)": same(lambda lib, x: lib.count_nonzero(x.mask)),
    "float(a.sum())": same(lambda lib, x: float(x.a.sum())),
    "cummax(v)": (lambda lib, x: lib.cummax(x.v), lambda lib, x: lib.cummax(x.v, 0)),
    "median(a, 1)": (lambda lib, x: lib.median(x.a, axis=1), lambda lib, x: lib.median(x.a, 1)),
    "nanmedian(a)": same(lambda lib, x: lib.nanmedian(x.a)),
    "quantile(a, 0.3, 1)": (lambda lib, x: lib.quantile(x.a, 0.3, axis=1), lambda lib, x: lib.quantile(x.a, 0.3, dim=1)),
    "topk(a, 5)": same(lambda lib, x: lib.topk(x.a, 5)),
    "isin(places, classes)": same(lambda lib, x: lib.isin(x.places, x.classes)),
    "bincount(classes)": same(lambda lib, x: lib.bincount(x.classes)),
    "nonzero(mask)": (lambda lib, x: lib.nonzero(x.mask), lambda lib, x: lib.nonzero(x.mask, as_tuple=True)),
    "unique(classes)": same(lambda lib, x: lib.unique(x.classes)),
    "a[0, 0]": same(lambda lib, x: x.a[0, 0]),
    "a[0, 0].item()": same(lambda lib, x: x.a[0, 0].item()),
    "a[:, None]": same(lambda lib, x: x.a[:, None]),
    "a[mask]": same(lambda lib, x: x.a[x.mask]),
    "a[0] = v": same(lambda lib, x: x.a.__setitem__(0, x.v)),
    "a[:, 0] = v": same(lambda lib, x: x.a.__setitem__((slice(None), 0), x.v)),
    "a[places] = 0": same(lambda lib, x: x.a.__setitem__(x.places, 0.0)),
    "index_add(a, places, a[:32])": (lambda lib, x: lib.index_add(x.a, x.places, x.a[:32]),
                                     lambda lib, x: lib.index_add(x.a, 0, x.places, x.a[:32])),
    "diag(v)": same(lambda lib, x: lib.diag(x.v)),
    "diff(a)": same(lambda lib, x: lib.diff(x.a)),
    "meshgrid(v, v)": (lambda lib, x: lib.meshgrid(x.v, x.v),
                       lambda lib, x: [line.contiguous() for line in lib.meshgrid(x.v, x.v, indexing="xy")]),
    "meshgrid(v, v), views": (lambda lib, x: lib.meshgrid(x.v, x.v, copy=False),
                              lambda lib, x: lib.meshgrid(x.v, x.v, indexing="xy")),
    "kron(v, v)": same(lambda lib, x: lib.kron(x.v, x.v)),
    "cov(a)": same(lambda lib, x: lib.cov(x.a)),
    "trapezoid(a)": same(lambda lib, x: lib.trapezoid(x.a)),
    "a @ v": same(lambda lib, x: x.a @ x.v),
    "images @ images": same(lambda lib, x: x.images @ x.images),
    "inner(a, b)": same(lambda lib, x: lib.inner(x.a, x.b)),
    "vdot(v, v)": same(lambda lib, x: lib.vdot(x.v, x.v)),
    "cross(kernels, kernels)": same(lambda lib, x: lib.linalg.cross(x.kernels, x.kernels)),
    "einsum('i,j->ij', v, v)": same(lambda lib, x: lib.einsum("i,j->ij", x.v, x.v)),
    "matrix_norm(a)": same(lambda lib, x: lib.linalg.matrix_norm(x.a)),
    "fftshift(v)": same(lambda lib, x: lib.fft.fftshift(x.v)),
    "fftfreq(64)": (lambda lib, x: lib.fft.fftfreq(64), lambda lib, x: lib.fft.fftfreq(64, device=x.a.device)),
    "uniform(0, 1, (64, 64))": (lambda lib, x: lib.random.uniform(0.0, 1.0, (64, 64), dtype="float32"),
                                lambda lib, x: lib.empty((64, 64), device=x.a.device).uniform_(0.0, 1.0)),
    "normal(1, 2, (64, 64))": (lambda lib, x: lib.random.normal(1.0, 2.0, (64, 64), dtype="float32"),
                               lambda lib, x: lib.normal(1.0, 2.0, (64, 64), device=x.a.device)),
    "exponential(2, (64, 64))": (lambda lib, x: lib.random.exponential(2.0, (64, 64), dtype="float32"),
                                 lambda lib, x: lib.empty((64, 64), device=x.a.device).exponential_(0.5)),
    "lognormal(0, 1, (64, 64))": (lambda lib, x: lib.random.lognormal(0.0, 1.0, (64, 64), dtype="float32"),
                                  lambda lib, x: lib.empty((64, 64), device=x.a.device).log_normal_(0.0, 1.0)),
    "poisson(a)": same(lambda lib, x: (lib.random if lib is cm else lib).poisson(x.a)),
    "bernoulli(0.3, (64, 64))": (lambda lib, x: lib.random.bernoulli(0.3, (64, 64)),
                                 lambda lib, x: lib.empty((64, 64), device=x.a.device).bernoulli_(0.3)),
    "integers(0, 10, (64, 64))": (lambda lib, x: lib.random.integers(0, 10, (64, 64)),
                                  lambda lib, x: lib.randint(0, 10, (64, 64), device=x.a.device)),
    "permutation(64)": (lambda lib, x: lib.random.permutation(64), lambda lib, x: lib.randperm(64, device=x.a.device)),
    "hardtanh(a)": (lambda lib, x: lib.ml.hardtanh(x.a), lambda lib, x: lib.nn.functional.hardtanh(x.a)),
    "glu(a)": (lambda lib, x: lib.ml.glu(x.a), lambda lib, x: lib.nn.functional.glu(x.a)),
    "elu(a)": (lambda lib, x: lib.ml.elu(x.a), lambda lib, x: lib.nn.functional.elu(x.a)),
    "softplus(a)": (lambda lib, x: lib.ml.softplus(x.a), lambda lib, x: lib.nn.functional.softplus(x.a)),
    "prelu(images, channels)": (lambda lib, x: lib.ml.prelu(x.images, x.channels),
                                lambda lib, x: lib.nn.functional.prelu(x.images, x.channels)),
    "conv_transpose2d(images, kernels)": (lambda lib, x: lib.ml.conv_transpose2d(x.images, x.kernels),
                                          lambda lib, x: lib.nn.functional.conv_transpose2d(x.images, x.kernels)),
    "conv2d(images, kernels, bias, padding)": (
        lambda lib, x: lib.ml.conv2d(x.images, x.kernels, x.channels, padding=1),
        lambda lib, x: lib.nn.functional.conv2d(x.images, x.kernels, x.channels, padding=1)),
    "adaptive_avg_pool2d(images, 2)": (lambda lib, x: lib.ml.adaptive_avg_pool2d(x.images, 2),
                                       lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x.images, 2)),
    "adaptive_max_pool2d(images, 2)": (lambda lib, x: lib.ml.adaptive_max_pool2d(x.images, 2),
                                       lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x.images, 2)),
    "interpolate(images, 2)": (lambda lib, x: lib.ml.interpolate(x.images, scale_factor=2),
                               lambda lib, x: lib.nn.functional.interpolate(x.images, scale_factor=2)),
    "instance_norm(images)": (lambda lib, x: lib.ml.instance_norm(x.images),
                              lambda lib, x: lib.nn.functional.instance_norm(x.images)),
    "one_hot(classes, 64)": (lambda lib, x: lib.ml.one_hot(x.classes, 64),
                             lambda lib, x: lib.nn.functional.one_hot(x.classes, 64)),
    "l1_loss(a, b)": (lambda lib, x: lib.ml.l1_loss(x.a, x.b), lambda lib, x: lib.nn.functional.l1_loss(x.a, x.b)),
    "kl_div(a, b)": (lambda lib, x: lib.ml.kl_div(x.a, x.b), lambda lib, x: lib.nn.functional.kl_div(x.a, x.b)),
    "positive(a)": (lambda lib, x: lib.positive(x.a), lambda lib, x: lib.clone(x.a)),  # PyTorch's returns a itself
    "conj(waves)": (lambda lib, x: lib.conj(x.waves), lambda lib, x: lib.conj_physical(x.waves)),
    "real(waves)": same(lambda lib, x: lib.real(x.waves)),
    "imag(waves)": same(lambda lib, x: lib.imag(x.waves)),
    "abs(waves)": same(lambda lib, x: lib.abs(x.waves)),
    "~classes": same(lambda lib, x: ~x.classes),
    "logical_not(mask)": same(lambda lib, x: lib.logical_not(x.mask)),
    "a -= b": same(lambda lib, x: x.a.__isub__(x.b)),
    "a @ a.T": same(lambda lib, x: x.a @ x.a.T),
    "all(mask)": same(lambda lib, x: lib.all(x.mask)),
    "max(a)": (lambda lib, x: lib.max(x.a), lambda lib, x: lib.amax(x.a)),
    "max(a, 0)": (lambda lib, x: lib.max(x.a, axis=0), lambda lib, x: lib.amax(x.a, 0)),
    "std(a)": same(lambda lib, x: lib.std(x.a)),
    "logsumexp(a)": (lambda lib, x: lib.log(lib.exp(x.a).sum(1)), lambda lib, x: lib.log(lib.exp(x.a).sum(1))),
    "cumulative_sum(a, 1)": (lambda lib, x: lib.cumulative_sum(x.a, axis=1), lambda lib, x: lib.cumsum(x.a, 1)),
    "nanquantile(a, 0.3, 1)": (lambda lib, x: lib.nanquantile(x.a, 0.3, axis=1),
                               lambda lib, x: lib.nanquantile(x.a, 0.3, dim=1)),
    "reshape(a, (32, 128))": same(lambda lib, x: lib.reshape(x.a, (32, 128))),
    "reshape(a.T, (-1,))": same(lambda lib, x: lib.reshape(x.a.T, (-1,))),
    "matrix_transpose(images)": (lambda lib, x: lib.matrix_transpose(x.images), lambda lib, x: x.images.mT),
    "broadcast_arrays(a, v)": (lambda lib, x: lib.broadcast_arrays(x.a, x.v), lambda lib, x: lib.broadcast_tensors(x.a, x.v)),
    "column_stack([v, v])": same(lambda lib, x: lib.column_stack([x.v, x.v])),
    "dstack([a, b])": same(lambda lib, x: lib.dstack([x.a, x.b])),
    "hsplit(a, 2)": same(lambda lib, x: lib.hsplit(x.a, 2)),
    "asarray(a)": (lambda lib, x: lib.asarray(x.a), lambda lib, x: lib.as_tensor(x.a)),
    "asarray([1.0, 2.0])": (lambda lib, x: lib.asarray([1.0, 2.0]), lambda lib, x: lib.tensor([1.0, 2.0], device=x.a.device)),
    "asarray(2.0)": (lambda lib, x: lib.asarray(2.0), lambda lib, x: lib.tensor(2.0, device=x.a.device)),
    "a.to_numpy()": (lambda lib, x: x.a.to_numpy(), lambda lib, x: x.a.cpu().numpy()),
    "v.tolist()": same(lambda lib, x: x.v.tolist()),
    "ones((64, 64))": (lambda lib, x: lib.ones((64, 64), dtype="float32"),
                       lambda lib, x: lib.ones((64, 64), device=x.a.device)),
    "logspace(0, 1, 64)": (lambda lib, x: lib.logspace(0, 1, 64), lambda lib, x: lib.logspace(0, 1, 64, device=x.a.device)),
    "hanning(64)": (lambda lib, x: lib.hanning(64), lambda lib, x: lib.hann_window(64, device=x.a.device)),
    "tril_indices(64)": (lambda lib, x: lib.tril_indices(64), lambda lib, x: lib.tril_indices(64, 64, device=x.a.device)),
    "vander(v, 4)": same(lambda lib, x: lib.vander(x.v, 4)),
    "unique_counts(classes)": (lambda lib, x: lib.unique_counts(x.classes),
                               lambda lib, x: lib.unique(x.classes, return_counts=True)),
    "unique_inverse(classes)": (lambda lib, x: lib.unique_inverse(x.classes),
                                lambda lib, x: lib.unique(x.classes, return_inverse=True)),
    "digitize(v, steps)": (lambda lib, x: lib.digitize(x.v, x.steps), lambda lib, x: lib.bucketize(x.v, x.steps)),
    "put_along_axis": (lambda lib, x: lib.put_along_axis(x.b, x.classes[:, None], 0.0, axis=1),
                       lambda lib, x: x.b.scatter_(1, x.classes[:, None], 0.0)),
    "a[places] = a[:32]": same(lambda lib, x: x.b.__setitem__(x.places, x.a[:32])),
    "a[places, places]": same(lambda lib, x: x.a[x.places, x.places]),
    "if a[0, 0] > 0": same(lambda lib, x: bool(x.a[0, 0] > 0)),
    "linalg.solve(definite, a)": same(lambda lib, x: lib.linalg.solve(x.definite, x.a)),
    "linalg.solve_triangular(definite, a)": (
        lambda lib, x: lib.linalg.solve_triangular(x.definite, x.a, lower=True),
        lambda lib, x: lib.linalg.solve_triangular(x.definite, x.a, upper=False)),
    "linalg.matrix_power(a, 3)": same(lambda lib, x: lib.linalg.matrix_power(x.a, 3)),
    "linalg.multi_dot([a, b, a])": same(lambda lib, x: lib.linalg.multi_dot([x.a, x.b, x.a])),
    "fft.rfftfreq(64)": (lambda lib, x: lib.fft.rfftfreq(64), lambda lib, x: lib.fft.rfftfreq(64, device=x.a.device)),
    "fft.rfft2(a)": same(lambda lib, x: lib.fft.rfft2(x.a)),
    "standard_exponential((64, 64))": (lambda lib, x: lib.random.standard_exponential((64, 64), dtype="float32"),
                                       lambda lib, x: lib.empty((64, 64), device=x.a.device).exponential_()),
    "cauchy((64, 64))": (lambda lib, x: lib.random.standard_cauchy((64, 64), dtype="float32"),
                         lambda lib, x: lib.empty((64, 64), device=x.a.device).cauchy_()),
    "geometric(0.3, (64, 64))": (lambda lib, x: lib.random.geometric(0.3, (64, 64)),
                                 lambda lib, x: lib.empty((64, 64), device=x.a.device).geometric_(0.3)),
    "choice(64, (32,))": (lambda lib, x: lib.random.choice(64, (32,)),
                          lambda lib, x: lib.randint(0, 64, (32,), device=x.a.device)),
    "smooth_l1_loss(a, b)": (lambda lib, x: lib.ml.smooth_l1_loss(x.a, x.b),
                             lambda lib, x: lib.nn.functional.smooth_l1_loss(x.a, x.b)),
    "cross_entropy(a, classes, smoothing)": (
        lambda lib, x: lib.ml.cross_entropy(x.a, x.classes, label_smoothing=0.1),
        lambda lib, x: lib.nn.functional.cross_entropy(x.a, x.classes, label_smoothing=0.1)),
    "global_avg_pool2d(images)": (lambda lib, x: lib.ml.global_avg_pool2d(x.images),
                                  lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x.images, 1)),
    "global_max_pool2d(images)": (lambda lib, x: lib.ml.global_max_pool2d(x.images),
                                  lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x.images, 1)),
    "ml.pad(images, 1)": (lambda lib, x: lib.ml.pad(x.images, (1, 1, 1, 1)),
                          lambda lib, x: lib.nn.functional.pad(x.images, (1, 1, 1, 1))),
    "interpolate(images, bilinear)": (
        lambda lib, x: lib.ml.interpolate(x.images, scale_factor=2, mode="bilinear"),
        lambda lib, x: lib.nn.functional.interpolate(x.images, scale_factor=2, mode="bilinear")),
    "mlp(a, b, v, b, v)": (
        lambda lib, x: lib.ml.mlp(x.a, x.b, x.v, x.b, x.v),
        lambda lib, x: lib.nn.functional.linear(lib.nn.functional.gelu(
            lib.nn.functional.linear(x.a, x.b, x.v), approximate="tanh"), x.b, x.v)),
}


def named(name: str, *arrays: str, more: tuple = (), space: str = "", theirs: str = "", torch: str = "") -> Pair:
    """A function of the arrays of these names, and of numbers (`more`), that both libraries have: in a namespace of cudamath
    and in PyTorch's of the same name unless another (`theirs`) is given, perhaps under another name there (`torch`)."""

    def call(space: str, name: str) -> Function:
        def run(lib: Any, x: Any) -> object:
            where = lib
            for part in spaces:
                where = getattr(where, part)
            return getattr(where, name)(*[getattr(x, n) for n in arrays], *more)

        spaces = space.split(".") if space else []
        return run

    return call(space, name), call(theirs or space, torch or name)


CALLS |= {f"{name}(a)": named(name, "a") for name in (
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sin", "cos", "tan", "ceil", "floor", "trunc",
    "log", "log2", "log10", "log1p", "expm1", "exp2", "sign", "signbit", "square", "reciprocal", "isfinite", "isinf",
    "argmin", "nanmean", "squeeze", "ravel", "atleast_2d", "fliplr", "flipud", "rot90", "triu", "empty_like",
    "deg2rad", "angle", "argwhere")}
CALLS |= {f"{name}(a, b)": named(name, "a", "b") for name in (
    "subtract", "multiply", "divide", "remainder", "floor_divide", "pow", "minimum", "fmax", "fmod", "atan2", "hypot",
    "copysign", "nextafter", "logaddexp2", "heaviside", "less_equal", "not_equal")}
CALLS |= {f"{name}(classes, classes)": named(name, "classes", "classes") for name in (
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm")}
CALLS |= {f"{name}(mask, mask)": named(name, "mask", "mask") for name in ("logical_and", "logical_or", "logical_xor")}
# Decompositions by many sweeps (qr, eigh, svd and what is made of them) keep the device busy for longer than the host even at
# this size: their rows are among those of linear algebra.
CALLS |= {f"linalg.{name}(definite)": named(name, "definite", space="linalg") for name in (
    "cholesky", "inv", "det", "slogdet", "lu_factor", "vector_norm")}
CALLS |= {f"fft.{name}(waves)": named(name, "waves", space="fft") for name in (
    "ifft", "irfft", "fft2", "ifft2", "irfft2", "fftn", "ifftshift", "hfft")}
CALLS |= {f"ml.{name}(a)": named(name, "a", space="ml", theirs="nn.functional", torch=torch) for name, torch in {
    "sigmoid": "", "tanh": "", "relu6": "", "selu": "", "celu": "", "mish": "", "hardswish": "", "hardsigmoid": "",
    "log_sigmoid": "logsigmoid", "softsign": ""}.items()}
CALLS |= {f"{name}({', '.join(map(str, (*arrays, *more)))})":
          named(name, *arrays, more=more, space="ml", theirs="nn.functional") for name, arrays, more in (
              ("conv1d", ("lines", "taps"), ()), ("conv3d", ("volumes", "cubes"), ()),
              ("conv_transpose1d", ("lines", "taps"), ()),
              ("max_pool1d", ("lines",), (2,)), ("avg_pool1d", ("lines",), (2,)), ("adaptive_avg_pool1d", ("lines",), (2,)),
              ("max_pool3d", ("volumes",), (2,)), ("avg_pool3d", ("volumes",), (2,)))}
CALLS |= {f"{name}(64)": (lambda lib, x, name=name: getattr(lib, name)(64),
                          lambda lib, x, name=name: getattr(lib, f"{name}_window")(64, device=x.a.device))
          for name in ("hamming", "blackman", "bartlett")}
CALLS |= {f"{name}(a)": named(name, "a", torch=torch) for name, torch in {
    "fix": "", "frexp": "", "isneginf": "", "isposinf": "", "radians": "deg2rad",
    "degrees": "rad2deg", "rint": "round", "corrcoef": "", "atleast_3d": "", "unique_values": "unique",
    "flatnonzero": "argwhere"}.items()}
CALLS |= {f"{name}(v)": named(name, "v", torch=torch) for name, torch in {
    "gradient": "", "diagflat": "", "atleast_1d": "", "argsort": "", "unique": ""}.items()}
CALLS |= {f"{name}(a, b)": named(name, "a", "b") for name in (
    "fmin", "greater", "less", "greater_equal", "equal")}
CALLS |= {f"fft.{name}(waves)": named(name, "waves", space="fft") for name in ("ifftn", "irfftn")}
CALLS |= {f"fft.{name}(a)": named(name, "a", space="fft") for name in ("rfftn", "ihfft")}
CALLS |= {
    "triu_indices(64)": (lambda lib, x: lib.triu_indices(64), lambda lib, x: lib.triu_indices(64, 64, device=x.a.device)),
    "kaiser(64, 12.0)": (lambda lib, x: lib.kaiser(64, 12.0),
                         lambda lib, x: lib.kaiser_window(64, True, 12.0, device=x.a.device)),
    "cummin(v)": (lambda lib, x: lib.cummin(x.v), lambda lib, x: lib.cummin(x.v, 0)),
    "cumulative_prod(a, 1)": (lambda lib, x: lib.cumulative_prod(x.a, axis=1), lambda lib, x: lib.cumprod(x.a, 1)),
    "dot(v, v)": same(lambda lib, x: lib.dot(x.v, x.v)),
    "float_power(a, 2)": same(lambda lib, x: lib.float_power(x.a, 2)),
    "ldexp(a, classes)": same(lambda lib, x: lib.ldexp(x.a, x.classes)),
    "histogram(v, 16)": (lambda lib, x: lib.histogram(x.v, 16)[0], lambda lib, x: lib.histc(x.v, 16)),
    "unravel_index(classes, (8, 8))": same(lambda lib, x: lib.unravel_index(x.classes, (8, 8))),
    "vsplit(a, 2)": same(lambda lib, x: lib.vsplit(x.a, 2)),
    "dsplit(images, 2)": same(lambda lib, x: lib.dsplit(x.images, 2)),
    "array_split(a, 3)": (lambda lib, x: lib.array_split(x.a, 3), lambda lib, x: lib.tensor_split(x.a, 3)),
    "array_equal(a, b)": (lambda lib, x: lib.array_equal(x.a, x.b), lambda lib, x: lib.equal(x.a, x.b)),
    "percentile(a, 30, 1)": (lambda lib, x: lib.percentile(x.a, 30, axis=1), lambda lib, x: lib.quantile(x.a, 0.3, dim=1)),
    "nanpercentile(a, 30, 1)": (lambda lib, x: lib.nanpercentile(x.a, 30, axis=1),
                                lambda lib, x: lib.nanquantile(x.a, 0.3, dim=1)),
    "nanmedian(a, 1)": (lambda lib, x: lib.nanmedian(x.a, axis=1), lambda lib, x: lib.nanmedian(x.a, 1)),
    "unique_counts(a)": (lambda lib, x: lib.unique_counts(x.a), lambda lib, x: lib.unique(x.a, return_counts=True)),
    "unique(a, inverse)": (lambda lib, x: lib.unique(x.a, return_inverse=True),
                           lambda lib, x: lib.unique(x.a, return_inverse=True)),
    "a[places, places] = 0": same(lambda lib, x: x.b.__setitem__((x.places, x.places), 0)),
    "a[:, places] = 0": same(lambda lib, x: x.b.__setitem__((slice(None), x.places), 0)),
    "a[mask] = b[mask]": same(lambda lib, x: x.b.__setitem__(x.mask, x.a[x.mask])),
    "a[None, places]": same(lambda lib, x: x.a[None, x.places]),
    "a[0, places]": same(lambda lib, x: x.a[0, x.places]),
    "append(v, v)": (lambda lib, x: lib.append(x.v, x.v), lambda lib, x: lib.cat([x.v, x.v])),
    "array(list of 64)": (lambda lib, x: lib.array(LIST), lambda lib, x: lib.tensor(LIST, device=x.a.device)),
    "linalg.lu_solve": (lambda lib, x: lib.linalg.lu_solve(lib.linalg.lu_factor(x.definite), x.a),
                        lambda lib, x: lib.linalg.lu_solve(*lib.linalg.lu_factor(x.definite), x.a)),
    "linalg.cond(definite, 1)": same(lambda lib, x: lib.linalg.cond(x.definite, 1)),
    "adaptive_avg_pool3d(volumes, 2)": (lambda lib, x: lib.ml.adaptive_avg_pool3d(x.volumes, 2),
                                        lambda lib, x: lib.nn.functional.adaptive_avg_pool3d(x.volumes, 2)),
    "adaptive_max_pool3d(volumes, 2)": (lambda lib, x: lib.ml.adaptive_max_pool3d(x.volumes, 2),
                                        lambda lib, x: lib.nn.functional.adaptive_max_pool3d(x.volumes, 2)),
    "adaptive_max_pool1d(lines, 2)": (lambda lib, x: lib.ml.adaptive_max_pool1d(x.lines, 2),
                                      lambda lib, x: lib.nn.functional.adaptive_max_pool1d(x.lines, 2)),
    "adaptive_avg_pool2d(images, 3)": (lambda lib, x: lib.ml.adaptive_avg_pool2d(x.images, 3),
                                       lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x.images, 3)),
    "conv_transpose3d(volumes, cubes)": (lambda lib, x: lib.ml.conv_transpose3d(x.volumes, x.cubes),
                                         lambda lib, x: lib.nn.functional.conv_transpose3d(x.volumes, x.cubes)),
    "conv2d(images, kernels, same)": (
        lambda lib, x: lib.ml.conv2d(x.images, x.kernels, x.channels, padding="same"),
        lambda lib, x: lib.nn.functional.conv2d(x.images, x.kernels, x.channels, padding="same")),
    "conv3d(volumes, cubes, bias, padding)": (
        lambda lib, x: lib.ml.conv3d(x.volumes, x.cubes, x.channels, padding=1),
        lambda lib, x: lib.nn.functional.conv3d(x.volumes, x.cubes, x.channels, padding=1)),
    "conv_transpose2d(images, kernels, bias)": (
        lambda lib, x: lib.ml.conv_transpose2d(x.images, x.kernels, x.channels, stride=(2, 2)),
        lambda lib, x: lib.nn.functional.conv_transpose2d(x.images, x.kernels, x.channels, stride=(2, 2))),
    "conv_transpose3d(volumes, cubes, bias)": (
        lambda lib, x: lib.ml.conv_transpose3d(x.volumes, x.cubes, x.channels),
        lambda lib, x: lib.nn.functional.conv_transpose3d(x.volumes, x.cubes, x.channels)),
    "adaptive_avg_pool1d(lines, 5)": (lambda lib, x: lib.ml.adaptive_avg_pool1d(x.lines, 5),
                                      lambda lib, x: lib.nn.functional.adaptive_avg_pool1d(x.lines, 5)),
    "ml.pad(images, 1, reflect)": (lambda lib, x: lib.ml.pad(x.images, (1, 1, 1, 1), "reflect"),
                                   lambda lib, x: lib.nn.functional.pad(x.images, (1, 1, 1, 1), "reflect")),
    "upsample(lines, 128)": (lambda lib, x: lib.ml.upsample(x.lines, 128, mode="linear"),
                             lambda lib, x: lib.nn.functional.interpolate(x.lines, 128, mode="linear")),
    "roll(a, (1, -2), (0, 1))": same(lambda lib, x: lib.roll(x.a, (1, -2), (0, 1))),
    "waves * 2j": same(lambda lib, x: x.waves * 2j),
    "waves + 1": same(lambda lib, x: x.waves + 1),
    "einsum('ij,jk,k->i', a, b, v)": same(lambda lib, x: lib.einsum("ij,jk,k->i", x.a, x.b, x.v)),
    "max_pool2d(images, 2, indices)": (lambda lib, x: lib.ml.max_pool2d(x.images, 2, return_indices=True),
                                       lambda lib, x: lib.nn.functional.max_pool2d(x.images, 2, return_indices=True)),
    "binary_cross_entropy(chances, chances)": (
        lambda lib, x: lib.ml.binary_cross_entropy(x.chances, x.chances),
        lambda lib, x: lib.nn.functional.binary_cross_entropy(x.chances, x.chances)),
    "binomial(10, 0.3, (64, 64))": (
        lambda lib, x: lib.random.binomial(10, 0.3, (64, 64)),
        lambda lib, x: lib.binomial(lib.full((64, 64), 10.0, device=x.a.device), lib.full((64, 64), 0.3, device=x.a.device))),
    "poisson(3.0, (64, 64))": (lambda lib, x: lib.random.poisson(3.0, (64, 64)),
                               lambda lib, x: lib.poisson(lib.full((64, 64), 3.0, device=x.a.device))),
    "standard_gamma(a)": (lambda lib, x: lib.random.standard_gamma(x.a), lambda lib, x: lib._standard_gamma(x.a)),
    "xavier_uniform((64, 64))": (
        lambda lib, x: lib.ml.init.xavier_uniform((64, 64)),
        lambda lib, x: lib.nn.init.xavier_uniform_(lib.empty((64, 64), device=x.a.device))),
    "kaiming_normal((64, 64))": (
        lambda lib, x: lib.ml.init.kaiming_normal((64, 64)),
        lambda lib, x: lib.nn.init.kaiming_normal_(lib.empty((64, 64), device=x.a.device))),
}
