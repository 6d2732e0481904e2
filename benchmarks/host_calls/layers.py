"""Activations, layers, losses and initial weights."""

from __future__ import annotations

from .arguments import Pair, named

CALLS: dict[str, Pair] = {
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
    "silu(a)": (lambda lib, x: lib.ml.silu(x.a), lambda lib, x: lib.nn.functional.silu(x.a)),
    "leaky_relu(a)": (lambda lib, x: lib.ml.leaky_relu(x.a), lambda lib, x: lib.nn.functional.leaky_relu(x.a)),
    "huber_loss(a, b)": (lambda lib, x: lib.ml.huber_loss(x.a, x.b), lambda lib, x: lib.nn.functional.huber_loss(x.a, x.b)),
    "bce_with_logits(a, b)": (lambda lib, x: lib.ml.bce_with_logits(x.a, x.b),
                              lambda lib, x: lib.nn.functional.binary_cross_entropy_with_logits(x.a, x.b)),
    "nll_loss(a, classes)": (lambda lib, x: lib.ml.nll_loss(x.a, x.classes),
                             lambda lib, x: lib.nn.functional.nll_loss(x.a, x.classes)),
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
    "max_pool2d(images, 2, indices)": (lambda lib, x: lib.ml.max_pool2d(x.images, 2, return_indices=True),
                                       lambda lib, x: lib.nn.functional.max_pool2d(x.images, 2, return_indices=True)),
    "binary_cross_entropy(chances, chances)": (
        lambda lib, x: lib.ml.binary_cross_entropy(x.chances, x.chances),
        lambda lib, x: lib.nn.functional.binary_cross_entropy(x.chances, x.chances)),
    "xavier_uniform((64, 64))": (
        lambda lib, x: lib.ml.init.xavier_uniform((64, 64)),
        lambda lib, x: lib.nn.init.xavier_uniform_(lib.empty((64, 64), device=x.a.device))),
    "kaiming_normal((64, 64))": (
        lambda lib, x: lib.ml.init.kaiming_normal((64, 64)),
        lambda lib, x: lib.nn.init.kaiming_normal_(lib.empty((64, 64), device=x.a.device))),
}
CALLS |= {f"ml.{name}(a)": named(name, "a", space="ml", theirs="nn.functional", torch=torch) for name, torch in {
    "sigmoid": "", "tanh": "", "relu6": "", "selu": "", "celu": "", "mish": "", "hardswish": "", "hardsigmoid": "",
    "log_sigmoid": "logsigmoid", "softsign": ""}.items()}
CALLS |= {f"{name}({', '.join(map(str, (*arrays, *more)))})":
          named(name, *arrays, more=more, space="ml", theirs="nn.functional") for name, arrays, more in (
              ("conv1d", ("lines", "taps"), ()), ("conv3d", ("volumes", "cubes"), ()),
              ("conv_transpose1d", ("lines", "taps"), ()),
              ("max_pool1d", ("lines",), (2,)), ("avg_pool1d", ("lines",), (2,)), ("adaptive_avg_pool1d", ("lines",), (2,)),
              ("max_pool3d", ("volumes",), (2,)), ("avg_pool3d", ("volumes",), (2,)))}
