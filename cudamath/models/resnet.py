"""ResNet: the image classifier of He et al., as functions of a tree of parameters.

    params, stats = resnet.create(resnet.SIZES["resnet50"], rng=cm.random.default_rng(0))
    (loss, stats), grads = cm.value_and_grad(resnet.loss, has_aux=True)(params, stats, images,
    labels, config)

A block adds what its convolutions make of x to x itself: y = relu(x + f(x)). So gradients reach
every layer by a path of additions, and a network of 50 layers trains like one of 5. f is two 3x3
convolutions ("basic"), or, where there are many channels, a 1x1 convolution to a quarter of them, a
3x3 one there, and a 1x1 one back ("bottleneck"). Every convolution is followed by a batch
normalisation. Four stages, each with half the rows and columns and twice the channels of the last.

Parameters and running statistics are dicts with the names that published weights have
("layer1.0.conv1.weight"). Filters lie channels last, (K, R, S, C): tensor cores read them so. On a
GPU the images in between lie so too. All of it computes in the dtype of the filters: for 16-bit
numbers pass `ml.amp.cast(params, "bfloat16", keep=lambda p: p.ndim < 2)`.

Sources: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015; in its
bottlenecks the 3x3 convolution has the stride, as in all newer implementations; the last
normalisation of each block starts at zero (Goyal et al., 2017).
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import cudamath as cm
from cudamath import ml

__all__ = ["SIZES", "Config", "classify", "create", "forward", "loss", "pretrained"]

Tree = dict[str, cm.ndarray]


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes of a network.

    blocks: of each stage; bottleneck: which kind of block; width: channels of the first stage (a
    bottleneck's result has four times as many); channels: of the images; classes; small: for images
    of few pixels: the first convolution is 3x3 and keeps their size, where otherwise it is 7x7, and
    with the pooling after it leaves a quarter of rows and columns.
    """

    blocks: tuple[int, ...]
    bottleneck: bool = False
    width: int = 64
    channels: int = 3
    classes: int = 1000
    small: bool = False

    def __post_init__(self) -> None:
        if not self.blocks or min(*self.blocks, self.width, self.channels, self.classes) < 1:
            raise ValueError(f"resnet: wants stages, and sizes of at least 1, got {self}")


#: The published sizes, and one for the handwritten digits of 8x8 pixels.
SIZES = {
    "digits": Config((1, 1, 1), width=16, channels=1, classes=10, small=True),
    "resnet18": Config((2, 2, 2, 2)),
    "resnet34": Config((3, 4, 6, 3)),
    "resnet50": Config((3, 4, 6, 3), bottleneck=True),
    "resnet101": Config((3, 4, 23, 3), bottleneck=True),
}


@dataclasses.dataclass(frozen=True)
class _Block:
    """Where a block stands: its name, channels before it, inside, and after it, and the stride of
    its first 3x3."""

    name: str
    before: int
    inside: int
    after: int
    stride: int

    @property
    def turns(self) -> bool:
        """Whether x must be brought to the shape of f(x), by a 1x1 convolution."""
        return self.stride > 1 or self.before != self.after


def _blocks(config: Config) -> list[_Block]:
    found = []
    before = config.width
    for stage, count in enumerate(config.blocks):
        inside = config.width << stage
        after = inside * (4 if config.bottleneck else 1)
        for i in range(count):
            found.append(
                _Block(f"layer{stage + 1}.{i}", before, inside, after, 2 if stage and not i else 1)
            )
            before = after
    return found


def create(
    config: Config, *, rng: cm.random.Generator, device: str | None = None
) -> tuple[Tree, Tree]:
    """Fresh (parameters, running statistics), float32.

    Filters are normal with the deviation that keeps the gradients' variance through relu
    (`ml.init.kaiming_normal`).

    >>> import cudamath as cm
    >>> from cudamath.models import resnet
    >>> params, stats = resnet.create(resnet.SIZES["resnet50"], rng=cm.random.default_rng(0))
    >>> sum(p.size for p in params.values()), params["layer4.2.conv2.weight"].shape
    (25557032, (512, 3, 3, 512))
    """
    params: Tree = {}
    stats: Tree = {}

    def convolution(
        name: str, norm: str, before: int, after: int, taps: int, scale: float = 1.0
    ) -> None:
        filters = ml.init.kaiming_normal(
            (after, before, taps, taps), mode="fan_out", nonlinearity="relu", rng=rng, device=device
        )
        params[f"{name}.weight"] = filters.transpose(0, 2, 3, 1).copy()
        params[f"{norm}.weight"] = ml.init.ones(after, device=device) * scale
        params[f"{norm}.bias"] = ml.init.zeros(after, device=device)
        stats[f"{norm}.running_mean"] = ml.init.zeros(after, device=device)
        stats[f"{norm}.running_var"] = ml.init.ones(after, device=device)

    convolution("conv1", "bn1", config.channels, config.width, 3 if config.small else 7)
    for block in _blocks(config):
        at = block.name
        if config.bottleneck:
            convolution(f"{at}.conv1", f"{at}.bn1", block.before, block.inside, 1)
            convolution(f"{at}.conv2", f"{at}.bn2", block.inside, block.inside, 3)
            convolution(f"{at}.conv3", f"{at}.bn3", block.inside, block.after, 1, 0.0)
        else:
            convolution(f"{at}.conv1", f"{at}.bn1", block.before, block.inside, 3)
            convolution(f"{at}.conv2", f"{at}.bn2", block.inside, block.after, 3, 0.0)
        if block.turns:
            convolution(f"{at}.downsample.0", f"{at}.downsample.1", block.before, block.after, 1)
    bound = block.after**-0.5
    params["fc.weight"] = rng.uniform(
        -bound, bound, (config.classes, block.after), "float32", device
    )
    params["fc.bias"] = rng.uniform(-bound, bound, config.classes, "float32", device)
    return params, stats


class _Layers:
    """The layers by their names; collects the new running statistics."""

    def __init__(self, params: Tree, stats: Tree, training: bool):
        self.params, self.stats, self.training = params, stats, training
        self.new: Tree = {}

    def convolve(self, x: cm.ndarray, name: str, stride: int = 1) -> cm.ndarray:
        """(N, C, H, W) -> (N, K, H / stride, W / stride), without a bias: the normalisation after
        it has one."""
        filters = self.params[f"{name}.weight"].transpose(0, 3, 1, 2)
        return ml.conv2d(x, filters, stride=stride, padding=filters.shape[-1] // 2)

    def normalize(
        self, x: cm.ndarray, name: str, *, relu: bool = True, residual: cm.ndarray | None = None
    ) -> cm.ndarray:
        """Batch normalisation, plus `residual`, then relu: one operation."""
        mean, var = f"{name}.running_mean", f"{name}.running_var"
        operands = (
            x,
            self.stats[mean],
            self.stats[var],
            self.params[f"{name}.weight"],
            self.params[f"{name}.bias"],
        )
        after: dict[str, Any] = {"activation": "relu" if relu else None, "residual": residual}
        if not self.training:
            return ml.batch_norm(*operands, **after)
        x, self.new[mean], self.new[var] = ml.batch_norm(*operands, training=True, **after)
        return x


def forward(
    params: Tree, stats: Tree, x: cm.ndarray, config: Config, *, training: bool = False
) -> tuple[cm.ndarray, Tree]:
    """Images (N, channels, H, W) -> (logits (N, classes), new running statistics).

    Parameters
    ----------
    params, stats : dict of arrays
        From `create` or `pretrained`. The statistics stay float32 whatever the filters are.
    x : array, floating-point
        On a GPU best channels last in memory; otherwise a copy is made.
    config : Config
    training : bool
        Normalise by the batch's own statistics; the running ones returned are updated. Otherwise
        they are `stats`.

    >>> import cudamath as cm
    >>> from cudamath.models import resnet
    >>> config = resnet.SIZES["digits"]
    >>> params, stats = resnet.create(config, rng=cm.random.default_rng(0))
    >>> resnet.forward(params, stats, cm.zeros((2, 1, 8, 8)), config)[0].shape
    (2, 10)
    """
    if x.ndim != 4 or x.shape[1] != config.channels:
        raise ValueError(f"resnet: wants images (N, {config.channels}, H, W), got shape {x.shape}")
    net = _Layers(params, stats, training)
    x = x.astype(params["conv1.weight"].dtype, copy=False)
    if x.device.type == "cuda":
        x = cm.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    x = net.normalize(net.convolve(x, "conv1", 1 if config.small else 2), "bn1")
    if not config.small:
        x = ml.max_pool2d(x, 3, 2, padding=1)
    for block in _blocks(config):
        at = block.name
        skipped = x
        if block.turns:
            skipped = net.normalize(
                net.convolve(x, f"{at}.downsample.0", block.stride),
                f"{at}.downsample.1",
                relu=False,
            )
        if config.bottleneck:
            x = net.normalize(net.convolve(x, f"{at}.conv1"), f"{at}.bn1")
            x = net.normalize(net.convolve(x, f"{at}.conv2", block.stride), f"{at}.bn2")
            x = net.normalize(net.convolve(x, f"{at}.conv3"), f"{at}.bn3", residual=skipped)
        else:
            x = net.normalize(net.convolve(x, f"{at}.conv1", block.stride), f"{at}.bn1")
            x = net.normalize(net.convolve(x, f"{at}.conv2"), f"{at}.bn2", residual=skipped)
    features = cm.mean(x, axis=(2, 3))
    return ml.linear(
        features, params["fc.weight"], params["fc.bias"].astype(x.dtype, copy=False)
    ), net.new or stats


def loss(
    params: Tree, stats: Tree, x: cm.ndarray, labels: cm.ndarray, config: Config
) -> tuple[cm.ndarray, Tree]:
    """Mean cross-entropy of a batch in training, float32 or wider, and the new running statistics.

    labels: (N,) integers. What `cm.value_and_grad(..., has_aux=True)` expects.
    """
    logits, stats = forward(params, stats, x, config, training=True)
    return ml.cross_entropy(
        logits.astype(cm.result_type(logits, cm.float32), copy=False), labels
    ), stats


def classify(params: Tree, stats: Tree, x: cm.ndarray, config: Config) -> cm.ndarray:
    """Images -> the classes (N,) that have the highest scores, int64."""
    return cm.argmax(forward(params, stats, x, config)[0], axis=1)


def pretrained(
    path: str | os.PathLike[str], config: Config, *, device: str | None = None
) -> tuple[Tree, Tree]:
    """(parameters, running statistics) from a safetensors file with the names of torchvision's
    ResNets.

    Its filters are (K, C, R, S). Dtypes stay what they are in the file. ValueError where the file
    does not fit `config`: an array is missing, superfluous or of another shape.
    """
    held = {
        name: value
        for name, value in cm.load(path, device=device).items()
        if not name.endswith("num_batches_tracked")
    }
    fresh = create(config, rng=cm.random.default_rng(0), device="cpu")
    found = {
        name: value.transpose(0, 2, 3, 1).copy() if value.ndim == 4 else value
        for name, value in held.items()
    }
    wanted = {name: value.shape for tree in fresh for name, value in tree.items()}
    shapes = {name: value.shape for name, value in found.items()}
    wrong = [
        f"{name} is {shapes.get(name, 'missing')}, wanted {wanted.get(name, 'not at all')}"
        for name in wanted | shapes
        if shapes.get(name) != wanted.get(name)
    ]
    if wrong:
        more = f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise ValueError(
            f"resnet: {os.fspath(path)} does not fit {config}: {'; '.join(wrong[:8])}{more}"
        )
    params, stats = ({name: found[name] for name in tree} for tree in fresh)
    return params, stats
