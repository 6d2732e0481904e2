"""Activations, layers, losses and initial weights."""

from __future__ import annotations

from .arguments import Function, Pair, named

CALLS: dict[str, Pair] = {
    "relu(a)": (lambda lib, x: lib.ml.relu(x.a), lambda lib, x: lib.relu(x.a)),
    "gelu(a)": (lambda lib, x: lib.ml.gelu(x.a), lambda lib, x: lib.nn.functional.gelu(x.a)),
    "softmax(a)": (lambda lib, x: lib.ml.softmax(x.a), lambda lib, x: lib.softmax(x.a, -1)),
    "log_softmax(a)": (
        lambda lib, x: lib.ml.log_softmax(x.a),
        lambda lib, x: lib.log_softmax(x.a, -1),
    ),
    "layer_norm(a, 64, v, v)": (
        lambda lib, x: lib.ml.layer_norm(x.a, 64, x.v, x.v),
        lambda lib, x: lib.nn.functional.layer_norm(x.a, (64,), x.v, x.v),
    ),
    "layer_norm(a, 64)": (
        lambda lib, x: lib.ml.layer_norm(x.a, 64),
        lambda lib, x: lib.nn.functional.layer_norm(x.a, (64,)),
    ),
    "rms_norm(a, 64, v)": (
        lambda lib, x: lib.ml.rms_norm(x.a, 64, x.v),
        lambda lib, x: lib.nn.functional.rms_norm(x.a, (64,), x.v),
    ),
    "group_norm(images, 2, weight, bias)": (
        lambda lib, x: lib.ml.group_norm(x.images, 2, x.channels, x.channels),
        lambda lib, x: lib.nn.functional.group_norm(x.images, 2, x.channels, x.channels),
    ),
    "batch_norm(images)": (
        lambda lib, x: lib.ml.batch_norm(x.images, x.channels, x.channels, x.channels, x.channels),
        lambda lib, x: lib.nn.functional.batch_norm(
            x.images, x.channels, x.channels, x.channels, x.channels
        ),
    ),
    "batch_norm(images, training)": (
        lambda lib, x: lib.ml.batch_norm(
            x.images, None, None, x.channels, x.channels, training=True
        ),
        lambda lib, x: lib.nn.functional.batch_norm(
            x.images, None, None, x.channels, x.channels, True
        ),
    ),
    "max_pool2d(images, 2)": (
        lambda lib, x: lib.ml.max_pool2d(x.images, 2),
        lambda lib, x: lib.nn.functional.max_pool2d(x.images, 2),
    ),
    "avg_pool2d(images, 2)": (
        lambda lib, x: lib.ml.avg_pool2d(x.images, 2),
        lambda lib, x: lib.nn.functional.avg_pool2d(x.images, 2),
    ),
    "conv2d(images, kernels)": (
        lambda lib, x: lib.ml.conv2d(x.images, x.kernels),
        lambda lib, x: lib.nn.functional.conv2d(x.images, x.kernels),
    ),
    "linear(a, b, v)": (
        lambda lib, x: lib.ml.linear(x.a, x.b, x.v),
        lambda lib, x: lib.nn.functional.linear(x.a, x.b, x.v),
    ),
    "scaled_dot_product_attention": (
        lambda lib, x: lib.ml.scaled_dot_product_attention(x.images, x.images, x.images),
        lambda lib, x: lib.nn.functional.scaled_dot_product_attention(x.images, x.images, x.images),
    ),
    "embedding(places, a)": (
        lambda lib, x: lib.ml.embedding(x.places, x.a),
        lambda lib, x: lib.nn.functional.embedding(x.places, x.a),
    ),
    "cross_entropy(a, classes)": (
        lambda lib, x: lib.ml.cross_entropy(x.a, x.classes),
        lambda lib, x: lib.nn.functional.cross_entropy(x.a, x.classes),
    ),
    "mse_loss(a, b)": (
        lambda lib, x: lib.ml.mse_loss(x.a, x.b),
        lambda lib, x: lib.nn.functional.mse_loss(x.a, x.b),
    ),
    "dropout(a, 0.1)": (
        lambda lib, x: lib.ml.dropout(x.a, 0.1),
        lambda lib, x: lib.nn.functional.dropout(x.a, 0.1),
    ),
    "silu(a)": (lambda lib, x: lib.ml.silu(x.a), lambda lib, x: lib.nn.functional.silu(x.a)),
    "leaky_relu(a)": (
        lambda lib, x: lib.ml.leaky_relu(x.a),
        lambda lib, x: lib.nn.functional.leaky_relu(x.a),
    ),
    "huber_loss(a, b)": (
        lambda lib, x: lib.ml.huber_loss(x.a, x.b),
        lambda lib, x: lib.nn.functional.huber_loss(x.a, x.b),
    ),
    "bce_with_logits(a, b)": (
        lambda lib, x: lib.ml.bce_with_logits(x.a, x.b),
        lambda lib, x: lib.nn.functional.binary_cross_entropy_with_logits(x.a, x.b),
    ),
    "nll_loss(a, classes)": (
        lambda lib, x: lib.ml.nll_loss(x.a, x.classes),
        lambda lib, x: lib.nn.functional.nll_loss(x.a, x.classes),
    ),
    "hardtanh(a)": (
        lambda lib, x: lib.ml.hardtanh(x.a),
        lambda lib, x: lib.nn.functional.hardtanh(x.a),
    ),
    "glu(a)": (lambda lib, x: lib.ml.glu(x.a), lambda lib, x: lib.nn.functional.glu(x.a)),
    "elu(a)": (lambda lib, x: lib.ml.elu(x.a), lambda lib, x: lib.nn.functional.elu(x.a)),
    "softplus(a)": (
        lambda lib, x: lib.ml.softplus(x.a),
        lambda lib, x: lib.nn.functional.softplus(x.a),
    ),
    "prelu(images, channels)": (
        lambda lib, x: lib.ml.prelu(x.images, x.channels),
        lambda lib, x: lib.nn.functional.prelu(x.images, x.channels),
    ),
    "conv_transpose2d(images, kernels)": (
        lambda lib, x: lib.ml.conv_transpose2d(x.images, x.kernels),
        lambda lib, x: lib.nn.functional.conv_transpose2d(x.images, x.kernels),
    ),
    "conv2d(images, kernels, bias, padding)": (
        lambda lib, x: lib.ml.conv2d(x.images, x.kernels, x.channels, padding=1),
        lambda lib, x: lib.nn.functional.conv2d(x.images, x.kernels, x.channels, padding=1),
    ),
    "adaptive_avg_pool2d(images, 2)": (
        lambda lib, x: lib.ml.adaptive_avg_pool2d(x.images, 2),
        lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x.images, 2),
    ),
    "adaptive_max_pool2d(images, 2)": (
        lambda lib, x: lib.ml.adaptive_max_pool2d(x.images, 2),
        lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x.images, 2),
    ),
    "interpolate(images, 2)": (
        lambda lib, x: lib.ml.interpolate(x.images, scale_factor=2),
        lambda lib, x: lib.nn.functional.interpolate(x.images, scale_factor=2),
    ),
    "instance_norm(images)": (
        lambda lib, x: lib.ml.instance_norm(x.images),
        lambda lib, x: lib.nn.functional.instance_norm(x.images),
    ),
    "one_hot(classes, 64)": (
        lambda lib, x: lib.ml.one_hot(x.classes, 64),
        lambda lib, x: lib.nn.functional.one_hot(x.classes, 64),
    ),
    "l1_loss(a, b)": (
        lambda lib, x: lib.ml.l1_loss(x.a, x.b),
        lambda lib, x: lib.nn.functional.l1_loss(x.a, x.b),
    ),
    "kl_div(a, b)": (
        lambda lib, x: lib.ml.kl_div(x.a, x.b),
        lambda lib, x: lib.nn.functional.kl_div(x.a, x.b),
    ),
    "smooth_l1_loss(a, b)": (
        lambda lib, x: lib.ml.smooth_l1_loss(x.a, x.b),
        lambda lib, x: lib.nn.functional.smooth_l1_loss(x.a, x.b),
    ),
    "cross_entropy(a, classes, smoothing)": (
        lambda lib, x: lib.ml.cross_entropy(x.a, x.classes, label_smoothing=0.1),
        lambda lib, x: lib.nn.functional.cross_entropy(x.a, x.classes, label_smoothing=0.1),
    ),
    "global_avg_pool2d(images)": (
        lambda lib, x: lib.ml.global_avg_pool2d(x.images),
        lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x.images, 1),
    ),
    "global_max_pool2d(images)": (
        lambda lib, x: lib.ml.global_max_pool2d(x.images),
        lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x.images, 1),
    ),
    "ml.pad(images, 1)": (
        lambda lib, x: lib.ml.pad(x.images, (1, 1, 1, 1)),
        lambda lib, x: lib.nn.functional.pad(x.images, (1, 1, 1, 1)),
    ),
    "interpolate(images, bilinear)": (
        lambda lib, x: lib.ml.interpolate(x.images, scale_factor=2, mode="bilinear"),
        lambda lib, x: lib.nn.functional.interpolate(x.images, scale_factor=2, mode="bilinear"),
    ),
    "mlp(a, b, v, b, v)": (
        lambda lib, x: lib.ml.mlp(x.a, x.b, x.v, x.b, x.v),
        lambda lib, x: lib.nn.functional.linear(
            lib.nn.functional.gelu(lib.nn.functional.linear(x.a, x.b, x.v), approximate="tanh"),
            x.b,
            x.v,
        ),
    ),
    "adaptive_avg_pool3d(volumes, 2)": (
        lambda lib, x: lib.ml.adaptive_avg_pool3d(x.volumes, 2),
        lambda lib, x: lib.nn.functional.adaptive_avg_pool3d(x.volumes, 2),
    ),
    "adaptive_max_pool3d(volumes, 2)": (
        lambda lib, x: lib.ml.adaptive_max_pool3d(x.volumes, 2),
        lambda lib, x: lib.nn.functional.adaptive_max_pool3d(x.volumes, 2),
    ),
    "adaptive_max_pool1d(lines, 2)": (
        lambda lib, x: lib.ml.adaptive_max_pool1d(x.lines, 2),
        lambda lib, x: lib.nn.functional.adaptive_max_pool1d(x.lines, 2),
    ),
    "adaptive_avg_pool2d(images, 3)": (
        lambda lib, x: lib.ml.adaptive_avg_pool2d(x.images, 3),
        lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x.images, 3),
    ),
    "conv_transpose3d(volumes, cubes)": (
        lambda lib, x: lib.ml.conv_transpose3d(x.volumes, x.cubes),
        lambda lib, x: lib.nn.functional.conv_transpose3d(x.volumes, x.cubes),
    ),
    "conv2d(images, kernels, same)": (
        lambda lib, x: lib.ml.conv2d(x.images, x.kernels, x.channels, padding="same"),
        lambda lib, x: lib.nn.functional.conv2d(x.images, x.kernels, x.channels, padding="same"),
    ),
    "conv3d(volumes, cubes, bias, padding)": (
        lambda lib, x: lib.ml.conv3d(x.volumes, x.cubes, x.channels, padding=1),
        lambda lib, x: lib.nn.functional.conv3d(x.volumes, x.cubes, x.channels, padding=1),
    ),
    "conv_transpose2d(images, kernels, bias)": (
        lambda lib, x: lib.ml.conv_transpose2d(x.images, x.kernels, x.channels, stride=(2, 2)),
        lambda lib, x: lib.nn.functional.conv_transpose2d(
            x.images, x.kernels, x.channels, stride=(2, 2)
        ),
    ),
    "conv_transpose3d(volumes, cubes, bias)": (
        lambda lib, x: lib.ml.conv_transpose3d(x.volumes, x.cubes, x.channels),
        lambda lib, x: lib.nn.functional.conv_transpose3d(x.volumes, x.cubes, x.channels),
    ),
    "adaptive_avg_pool1d(lines, 5)": (
        lambda lib, x: lib.ml.adaptive_avg_pool1d(x.lines, 5),
        lambda lib, x: lib.nn.functional.adaptive_avg_pool1d(x.lines, 5),
    ),
    "ml.pad(images, 1, reflect)": (
        lambda lib, x: lib.ml.pad(x.images, (1, 1, 1, 1), "reflect"),
        lambda lib, x: lib.nn.functional.pad(x.images, (1, 1, 1, 1), "reflect"),
    ),
    "upsample(lines, 128)": (
        lambda lib, x: lib.ml.upsample(x.lines, 128, mode="linear"),
        lambda lib, x: lib.nn.functional.interpolate(x.lines, 128, mode="linear"),
    ),
    "max_pool2d(images, 2, indices)": (
        lambda lib, x: lib.ml.max_pool2d(x.images, 2, return_indices=True),
        lambda lib, x: lib.nn.functional.max_pool2d(x.images, 2, return_indices=True),
    ),
    "binary_cross_entropy(chances, chances)": (
        lambda lib, x: lib.ml.binary_cross_entropy(x.chances, x.chances),
        lambda lib, x: lib.nn.functional.binary_cross_entropy(x.chances, x.chances),
    ),
    "xavier_uniform((64, 64))": (
        lambda lib, x: lib.ml.init.xavier_uniform((64, 64)),
        lambda lib, x: lib.nn.init.xavier_uniform_(lib.empty((64, 64), device=x.a.device)),
    ),
    "kaiming_normal((64, 64))": (
        lambda lib, x: lib.ml.init.kaiming_normal((64, 64)),
        lambda lib, x: lib.nn.init.kaiming_normal_(lib.empty((64, 64), device=x.a.device)),
    ),
}
CALLS |= {
    f"ml.{name}(a)": named(name, "a", space="ml", theirs="nn.functional", torch=torch)
    for name, torch in {
        "sigmoid": "",
        "tanh": "",
        "relu6": "",
        "selu": "",
        "celu": "",
        "mish": "",
        "hardswish": "",
        "hardsigmoid": "",
        "log_sigmoid": "logsigmoid",
        "softsign": "",
    }.items()
}
CALLS |= {
    f"{name}({', '.join(map(str, (*arrays, *more)))})": named(
        name, *arrays, more=more, space="ml", theirs="nn.functional"
    )
    for name, arrays, more in (
        ("conv1d", ("lines", "taps"), ()),
        ("conv3d", ("volumes", "cubes"), ()),
        ("conv_transpose1d", ("lines", "taps"), ()),
        ("max_pool1d", ("lines",), (2,)),
        ("avg_pool1d", ("lines",), (2,)),
        ("adaptive_avg_pool1d", ("lines",), (2,)),
        ("max_pool3d", ("volumes",), (2,)),
        ("avg_pool3d", ("volumes",), (2,)),
    )
}


def functional(ours: Function, theirs: Function) -> Pair:
    """What cudamath's `ml` (first argument) and PyTorch's `nn.functional` have."""
    return (lambda lib, x: ours(lib.ml, x)), (lambda lib, x: theirs(lib.nn.functional, x))


def alike(function: Function) -> Pair:
    """One expression for `ml` and `nn.functional`."""
    return functional(function, function)


CALLS |= {
    "relu(images)": alike(lambda F, x: F.relu(x.images)),
    "gelu(a, tanh)": alike(lambda F, x: F.gelu(x.a, approximate="tanh")),
    "leaky_relu(a, 0.2)": alike(lambda F, x: F.leaky_relu(x.a, 0.2)),
    "elu(a, 0.5)": alike(lambda F, x: F.elu(x.a, 0.5)),
    "hardtanh(a, 0, 6)": alike(lambda F, x: F.hardtanh(x.a, 0.0, 6.0)),
    "softmax(a, 0)": alike(lambda F, x: F.softmax(x.a, 0)),
    "log_softmax(a, 0)": alike(lambda F, x: F.log_softmax(x.a, 0)),
    "softmax(images, 1)": alike(lambda F, x: F.softmax(x.images, 1)),
    "dropout(a, evaluating)": alike(lambda F, x: F.dropout(x.a, 0.1, training=False)),
    "linear(a, b)": alike(lambda F, x: F.linear(x.a, x.b)),
    "linear(lines, a, v)": alike(lambda F, x: F.linear(x.lines, x.a, x.v)),
    "linear(v, a, v)": alike(lambda F, x: F.linear(x.v, x.a, x.v)),
    "linear(half, half)": alike(lambda F, x: F.linear(x.half, x.half)),
    "linear(brain, brain)": alike(lambda F, x: F.linear(x.brain, x.brain)),
    "linear(a, b, v), relu": functional(
        lambda F, x: F.linear(x.a, x.b, x.v, activation="relu"),
        lambda F, x: F.relu(F.linear(x.a, x.b, x.v)),
    ),
    "relu(linear(a, b, v))": alike(lambda F, x: F.relu(F.linear(x.a, x.b, x.v))),
    "layer_norm(lines, 64, v, v)": functional(
        lambda F, x: F.layer_norm(x.lines, 64, x.v, x.v),
        lambda F, x: F.layer_norm(x.lines, (64,), x.v, x.v),
    ),
    "layer_norm(a + b, 64, v, v)": alike(lambda F, x: F.layer_norm(x.a + x.b, (64,), x.v, x.v)),
    "layer_norm(a, 64, v, v), residual": functional(
        lambda F, x: F.layer_norm(x.a, 64, x.v, x.v, residual=x.b),
        lambda F, x: F.layer_norm(x.a + x.b, (64,), x.v, x.v),
    ),
    "layer_norm(half, 64)": alike(lambda F, x: F.layer_norm(x.half, (64,))),
    "layer_norm(images, (8, 8))": alike(lambda F, x: F.layer_norm(x.images, (8, 8))),
    "rms_norm(a, 64)": alike(lambda F, x: F.rms_norm(x.a, (64,))),
    "rms_norm(brain, 64)": alike(lambda F, x: F.rms_norm(x.brain, (64,))),
    "group_norm(images, 4)": alike(lambda F, x: F.group_norm(x.images, 4)),
    "batch_norm(images, relu)": functional(
        lambda F, x: F.batch_norm(
            x.images, x.channels, x.channels, x.channels, x.channels, activation="relu"
        ),
        lambda F, x: F.relu(F.batch_norm(x.images, x.channels, x.channels, x.channels, x.channels)),
    ),
    "batch_norm(lines)": alike(
        lambda F, x: F.batch_norm(x.lines, x.channels, x.channels, x.channels, x.channels)
    ),
    "instance_norm(images, weight, bias)": functional(
        lambda F, x: F.instance_norm(x.images, x.channels, x.channels),
        lambda F, x: F.instance_norm(x.images, None, None, x.channels, x.channels),
    ),
    "max_pool2d(images, 3, 2, 1)": alike(lambda F, x: F.max_pool2d(x.images, 3, 2, 1)),
    "avg_pool2d(images, 3, 2, 1)": alike(lambda F, x: F.avg_pool2d(x.images, 3, 2, 1)),
    "max_pool2d(halves, 2)": alike(lambda F, x: F.max_pool2d(x.halves, 2)),
    "conv2d(images, kernels, stride)": alike(
        lambda F, x: F.conv2d(x.images, x.kernels, x.channels, stride=2, padding=1)
    ),
    "conv2d(images, kernels[:, :1], groups)": alike(
        lambda F, x: F.conv2d(x.images, x.kernels[:, :1], padding=1, groups=8)
    ),
    "conv2d(images, kernels[:, :, :1, :1])": alike(
        lambda F, x: F.conv2d(x.images, x.kernels[:, :, :1, :1])
    ),
    "conv2d(images, kernels, dilation)": alike(
        lambda F, x: F.conv2d(x.images, x.kernels, dilation=2)
    ),
    "relu(conv2d(images, kernels, bias))": alike(
        lambda F, x: F.relu(F.conv2d(x.images, x.kernels, x.channels, padding=1))
    ),
    "conv2d(halves, sieves)": alike(lambda F, x: F.conv2d(x.halves, x.sieves, padding=1)),
    "conv3d(volumes, cubes, bias, stride)": alike(
        lambda F, x: F.conv3d(x.volumes, x.cubes, x.channels, stride=2, padding=1)
    ),
    "conv_transpose1d(lines, taps, bias, stride)": alike(
        lambda F, x: F.conv_transpose1d(x.lines, x.taps, x.channels, stride=2)
    ),
    "conv_transpose2d(images, kernels, bias, output_padding)": alike(
        lambda F, x: F.conv_transpose2d(
            x.images, x.kernels, x.channels, stride=2, padding=1, output_padding=1
        )
    ),
    "conv_transpose2d(halves, sieves, stride)": alike(
        lambda F, x: F.conv_transpose2d(x.halves, x.sieves, stride=2)
    ),
    "conv_transpose3d(volumes, cubes, bias, padding)": alike(
        lambda F, x: F.conv_transpose3d(x.volumes, x.cubes, x.channels, padding=1)
    ),
    "conv_transpose3d(volumes, cubes, bias, stride)": alike(
        lambda F, x: F.conv_transpose3d(x.volumes, x.cubes, x.channels, stride=2)
    ),
    "conv1d(lines, taps, bias, padding)": alike(
        lambda F, x: F.conv1d(x.lines, x.taps, x.channels, padding=1)
    ),
    "attention, causal": functional(
        lambda F, x: F.scaled_dot_product_attention(x.images, x.images, x.images, causal=True),
        lambda F, x: F.scaled_dot_product_attention(x.images, x.images, x.images, is_causal=True),
    ),
    "attention, 16 bits": alike(
        lambda F, x: F.scaled_dot_product_attention(x.halves, x.halves, x.halves)
    ),
    "attention, mask": functional(
        lambda F, x: F.scaled_dot_product_attention(
            x.images, x.images, x.images, mask=x.mask[:8, :8]
        ),
        lambda F, x: F.scaled_dot_product_attention(
            x.images, x.images, x.images, attn_mask=x.mask[:8, :8]
        ),
    ),
    "attention, bfloat16, causal": functional(
        lambda F, x: F.scaled_dot_product_attention(x.brains, x.brains, x.brains, causal=True),
        lambda F, x: F.scaled_dot_product_attention(x.brains, x.brains, x.brains, is_causal=True),
    ),
    "embedding(places.reshape(4, 8), a)": alike(
        lambda F, x: F.embedding(x.places.reshape(4, 8), x.a)
    ),
    "embedding(places, half)": alike(lambda F, x: F.embedding(x.places, x.half)),
    "embedding(places, a, padding)": alike(lambda F, x: F.embedding(x.places, x.a, padding_idx=0)),
    "one_hot(classes)": alike(lambda F, x: F.one_hot(x.classes)),
    "cross_entropy(half, classes)": alike(lambda F, x: F.cross_entropy(x.half, x.classes)),
    "cross_entropy(a, classes, none)": alike(
        lambda F, x: F.cross_entropy(x.a, x.classes, reduction="none")
    ),
    "cross_entropy(a, classes, sum)": alike(
        lambda F, x: F.cross_entropy(x.a, x.classes, reduction="sum")
    ),
    "cross_entropy(a, classes, weight)": alike(
        lambda F, x: F.cross_entropy(x.a, x.classes, weight=x.v)
    ),
    "cross_entropy(a, classes, ignored)": alike(
        lambda F, x: F.cross_entropy(x.a, x.classes, ignore_index=3)
    ),
    "cross_entropy(a, probabilities)": alike(lambda F, x: F.cross_entropy(x.a, x.chances)),
    "mse_loss(a, b, none)": alike(lambda F, x: F.mse_loss(x.a, x.b, reduction="none")),
    "mse_loss(a, b, sum)": alike(lambda F, x: F.mse_loss(x.a, x.b, reduction="sum")),
    "l1_loss(a, b, sum)": alike(lambda F, x: F.l1_loss(x.a, x.b, reduction="sum")),
    "huber_loss(a, b, 0.5)": alike(lambda F, x: F.huber_loss(x.a, x.b, delta=0.5)),
    "nll_loss(a, classes, sum)": alike(lambda F, x: F.nll_loss(x.a, x.classes, reduction="sum")),
    "kl_div(a, b, sum)": alike(lambda F, x: F.kl_div(x.a, x.chances, reduction="sum")),
    "bce_with_logits(a, b, weight)": functional(
        lambda F, x: F.bce_with_logits(x.a, x.chances, pos_weight=x.v),
        lambda F, x: F.binary_cross_entropy_with_logits(x.a, x.chances, pos_weight=x.v),
    ),
    "linear_cross_entropy(a, b, classes)": functional(
        lambda F, x: F.linear_cross_entropy(x.a, x.b, x.classes),
        lambda F, x: F.cross_entropy(F.linear(x.a, x.b), x.classes),
    ),
    "interpolate(images, (16, 16))": alike(lambda F, x: F.interpolate(x.images, (16, 16))),
    "upsample(images, 2)": alike(lambda F, x: F.upsample(x.images, scale_factor=2)),
    "interpolate(images, bilinear, corners)": alike(
        lambda F, x: F.interpolate(x.images, scale_factor=2, mode="bilinear", align_corners=True)
    ),
    "ml.pad(a, (1, 2))": alike(lambda F, x: F.pad(x.a, (1, 2))),
    "adaptive_avg_pool2d(images, 1)": alike(lambda F, x: F.adaptive_avg_pool2d(x.images, 1)),
    "mlp, relu": functional(
        lambda F, x: F.mlp(x.a, x.b, x.v, x.b, x.v, activation="relu"),
        lambda F, x: F.linear(F.relu(F.linear(x.a, x.b, x.v)), x.b, x.v),
    ),
    "quantize(a)": (
        lambda lib, x: lib.ml.quantize(x.chances).values,
        lambda lib, x: (
            (x.chances / (x.chances.abs().amax() / 127)).round().clamp(-127, 127).to(lib.int8)
        ),
    ),
    "rotary_tables(places, 64)": (
        lambda lib, x: lib.ml.rotary_tables(x.places, 64),
        lambda lib, x: (lambda angles: (lib.cos(angles), lib.sin(angles)))(
            x.places[:, None] * 10000.0 ** (-lib.arange(0, 64, 2, device=x.a.device) / 64)
        ),
    ),
    "rotary_embedding(images, cos, sin)": (
        lambda lib, x: lib.ml.rotary_embedding(x.images, x.a[:8, :4], x.b[:8, :4]),
        lambda lib, x: lib.cat(
            [
                x.images[..., :4] * x.a[:8, :4] - x.images[..., 4:] * x.b[:8, :4],
                x.images[..., 4:] * x.a[:8, :4] + x.images[..., :4] * x.b[:8, :4],
            ],
            -1,
        ),
    ),
    "zeros, weights": (
        lambda lib, x: lib.ml.init.zeros((64, 64)),
        lambda lib, x: lib.nn.init.zeros_(lib.empty((64, 64), device=x.a.device)),
    ),
}
