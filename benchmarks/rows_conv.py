"""Rows of convolutions in bfloat16: ResNet-50's layers at 64 images, and a large one; forward and both gradients.

All arrays lie channels last, which is the best layout of both libraries; torch may time its candidates first
(cudnn.benchmark). "cudamath" is what the public function does; the other names are versions of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import Bind, Call, normal, row

#: name -> images, channels, rows and columns; outputs, taps down and right; stride
LAYERS = {
    "large": (32, 64, 128, 128, 3, 1),
    "56_1x1": (64, 64, 56, 64, 1, 1), "56_3x3": (64, 64, 56, 64, 3, 1), "56_widen": (64, 64, 56, 256, 1, 1),
    "56_narrow": (64, 256, 56, 64, 1, 1), "28_stride": (64, 128, 56, 128, 3, 2), "28_skip": (64, 256, 56, 512, 1, 2),
    "28_3x3": (64, 128, 28, 128, 3, 1), "28_widen": (64, 128, 28, 512, 1, 1), "28_narrow": (64, 512, 28, 128, 1, 1),
    "14_stride": (64, 256, 28, 256, 3, 2), "14_3x3": (64, 256, 14, 256, 3, 1), "14_widen": (64, 256, 14, 1024, 1, 1),
    "14_narrow": (64, 1024, 14, 256, 1, 1), "7_stride": (64, 512, 14, 512, 3, 2), "7_3x3": (64, 512, 7, 512, 3, 1),
    "7_widen": (64, 512, 7, 2048, 1, 1), "7_narrow": (64, 2048, 7, 512, 1, 1),
}


def ours(kind: str, where: dict[str, Any], version: str | None = None, dtype: str = "bfloat16") -> Bind:
    """cudamath's function, or one version of it; kind: "forward", "input" or "weight". Arrays come channels last."""

    def bind(lib: Any, x: Any, w: Any, g: Any) -> Call:
        from cudamath.core.op import Op
        from cudamath.ml import conv

        x, w, g = (lib.astype(a, dtype).transpose(0, 3, 1, 2) for a in (x, w, g))
        card, first, second, more = {
            "forward": (conv._conv2d, x, w, {}),
            "input": (conv._conv2d_input_grad, g, w, {"size": x.shape[2:]}),
            "weight": (conv._conv2d_weight_grad, g, x, {"kernel": w.shape[2:]})}[kind]
        options = {**more, "stride": (where["stride"],) * 2, "padding": (where["padding"],) * 4, "dilation": (1, 1),
                   "groups": 1}
        if version is not None:
            card = Op(f"benchmark of {version}", cpu=card.cpu, cuda=card.cuda)
            options["version"] = version
        return lambda: card(first, second, **options)

    return bind


def torchs(kind: str, where: dict[str, Any]) -> Bind:
    """torch's."""

    def bind(lib: Any, x: Any, w: Any, g: Any) -> Call:
        lib.backends.cudnn.benchmark = True
        x, w, g = (a.bfloat16().permute(0, 3, 1, 2) for a in (x, w, g))
        if kind == "forward":
            return lambda: lib.conv2d(x, w, **where)
        wanted = [kind == "input", kind == "weight", False]
        stride, padding = [where["stride"]] * 2, [where["padding"]] * 2
        return lambda: lib.ops.aten.convolution_backward(g, x, w, None, stride, padding, [1, 1], False, [0, 0], 1, wanted)

    return bind


def layer(name: str, images: int, channels: int, size: int, outputs: int, taps: int, stride: int) -> None:
    """Three rows: forward, and the gradients of the images and of the weights."""
    after = (size - 1) // stride + 1
    where = {"stride": stride, "padding": taps // 2}
    shapes = (images, size, size, channels), (outputs, taps, taps, channels), (images, after, after, outputs)
    flops = 2 * images * after**2 * outputs * channels * taps**2
    arguments: Callable[[np.random.Generator], tuple[np.ndarray, ...]] = normal(*shapes)
    size_in_bytes = 2 * sum(int(np.prod(shape)) for shape in shapes)
    for kind in ("forward", "input", "weight"):
        row(f"conv_bf16_{name}_{kind}", "device", f"conv2d {kind}, bf16, {images}x{channels}x{size}x{size} * "
            f"{outputs}x{channels}x{taps}x{taps}, stride {stride}", arguments,
            {"cudamath": ours(kind, where), "torch": torchs(kind, where),
             **{version: ours(kind, where, version) for version in ("wgmma", "mma", "cudnn")}},
            work=flops, unit="FLOP", ceiling="FLOP16", traffic=size_in_bytes, copies=max(2, (200 << 20) // size_in_bytes))


for _name, _shape in LAYERS.items():
    layer(_name, *_shape)
