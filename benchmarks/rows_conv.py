"""Rows of convolutions: ResNet-50's layers at 64 images, a large one, and such as have groups or
gaps between taps; forward and both gradients.

bfloat16 and TF32 arrays lie channels last, which is the best layout of both libraries; float32
arrays lie in C order, in which torch was the faster in all but 2 of 24 such rows. torch may time
its candidates first (cudnn.benchmark). "cudamath" is what the public function does; the other names
are versions of it.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.rows import Bind, Call, normal, row

#: name -> images, channels, rows and columns; outputs, taps down and right; stride
LAYERS = {
    "large": (32, 64, 128, 128, 3, 1),
    "stem": (64, 3, 224, 64, 7, 2),
    "56_1x1": (64, 64, 56, 64, 1, 1),
    "56_3x3": (64, 64, 56, 64, 3, 1),
    "56_widen": (64, 64, 56, 256, 1, 1),
    "56_narrow": (64, 256, 56, 64, 1, 1),
    "28_stride": (64, 128, 56, 128, 3, 2),
    "28_skip": (64, 256, 56, 512, 1, 2),
    "28_first": (64, 256, 56, 128, 1, 1),
    "14_first": (64, 512, 28, 256, 1, 1),
    "7_first": (64, 1024, 14, 512, 1, 1),
    "14_skip": (64, 512, 28, 1024, 1, 2),
    "7_skip": (64, 1024, 14, 2048, 1, 2),
    "28_3x3": (64, 128, 28, 128, 3, 1),
    "28_widen": (64, 128, 28, 512, 1, 1),
    "28_narrow": (64, 512, 28, 128, 1, 1),
    "14_stride": (64, 256, 28, 256, 3, 2),
    "14_3x3": (64, 256, 14, 256, 3, 1),
    "14_widen": (64, 256, 14, 1024, 1, 1),
    "14_narrow": (64, 1024, 14, 256, 1, 1),
    "7_stride": (64, 512, 14, 512, 3, 2),
    "7_3x3": (64, 512, 7, 512, 3, 1),
    "7_widen": (64, 512, 7, 2048, 1, 1),
    "7_narrow": (64, 2048, 7, 512, 1, 1),
}
#: the same, then dilation and groups
OTHERS = {
    "dilated": (32, 128, 56, 128, 3, 1, 2, 1),
    "groups_32": (64, 256, 56, 256, 3, 1, 1, 32),
    "depthwise_3x3": (64, 128, 56, 128, 3, 1, 1, 128),
    "depthwise_7x7": (64, 96, 56, 96, 7, 1, 1, 96),
    "depthwise_stride": (64, 256, 28, 256, 3, 2, 1, 256),
}
FEWER = (
    "large",
    "stem",
    "56_3x3",
    "56_widen",
    "28_stride",
    "28_skip",
    "28_3x3",
    "14_3x3",
    "14_narrow",
    "7_3x3",
    "7_widen",
)
LAST, FIRST = (0, 3, 1, 2), (0, 1, 2, 3)  # from memory to (images, channels, rows, columns)
#: kind of number -> (its dtype, bytes, order in memory, the ceiling measured beside, our methods)
NUMBERS = {
    "bf16": ("bfloat16", 2, LAST, "FLOP16", ("sm90",)),
    "tf32": ("float32", 4, LAST, "TF32", ()),
    "f32": ("float32", 4, FIRST, "FLOP", ("simt",)),
}


def ours(kind: str, where: dict[str, Any], numbers: str, method: str | None = None) -> Bind:
    """cudamath's function, or its preferred version of a method; kind: "forward", "input" or
    "weight"; numbers: see NUMBERS."""
    dtype, _, axes, *_ = NUMBERS[numbers]

    def bind(lib: Any, x: Any, w: Any, g: Any) -> Call:
        from cudamath.core.dispatch.op import Op
        from cudamath.kernels.conv import dispatch as conv_dispatch
        from cudamath.kernels.conv.problem import Problem
        from cudamath.ml import conv

        x, w, g = (lib.astype(a, dtype).transpose(axes) for a in (x, w, g))
        card: Any
        problem_of: Any
        card, problem_of, first, second, more = {
            "forward": (conv._conv2d, Problem.forward, x, w, {}),
            "input": (
                conv._conv2d_input_grad,
                Problem.input_gradient,
                g,
                w,
                {"size": x.shape[2:]},
            ),
            "weight": (
                conv._conv2d_weight_grad,
                Problem.weight_gradient,
                g,
                x,
                {"kernel": w.shape[2:]},
            ),
        }[kind]
        options = {
            **more,
            "stride": (where["stride"],) * 2,
            "padding": (where["padding"],) * 4,
            "dilation": (where["dilation"],) * 2,
            "groups": where["groups"],
            "tf32": numbers == "tf32",
        }
        if method is not None:
            card = Op(f"benchmark of {method}", cpu=card.cpu, cuda=card.cuda)
            problem = problem_of(first._layout, second._layout, **options)
            options["version"] = conv_dispatch.version_of(problem, method)
        return lambda: card(first, second, **options)

    return bind


def torchs(kind: str, where: dict[str, Any], numbers: str) -> Bind:
    """torch's."""
    dtype, _, axes, *_ = NUMBERS[numbers]

    def bind(lib: Any, x: Any, w: Any, g: Any) -> Call:
        lib.backends.cudnn.benchmark = True
        lib.backends.cudnn.allow_tf32 = numbers == "tf32"
        x, w, g = (a.to(getattr(lib, dtype)).permute(axes) for a in (x, w, g))
        if kind == "forward":
            return lambda: lib.conv2d(x, w, **where)
        wanted = [kind == "input", kind == "weight", False]
        how = (
            [where["stride"]] * 2,
            [where["padding"]] * 2,
            [where["dilation"]] * 2,
            False,
            [0, 0],
            where["groups"],
            wanted,
        )
        return lambda: lib.ops.aten.convolution_backward(g, x, w, None, *how)

    return bind


def shapes(
    order: tuple[int, ...],
    images: int,
    channels: int,
    size: int,
    outputs: int,
    taps: int,
    after: int | None = None,
) -> list[tuple[int, ...]]:
    """Of images, weights and results, as they lie in memory; after: rows of the results, by default
    those of the images."""
    each = (
        (images, channels, size, size),
        (outputs, channels, taps, taps),
        (images, outputs, *[after or size] * 2),
    )
    return [tuple(shape[order.index(axis)] for axis in range(4)) for shape in each]


def layer(
    numbers: str,
    name: str,
    images: int,
    channels: int,
    size: int,
    outputs: int,
    taps: int,
    stride: int,
    dilation: int = 1,
    groups: int = 1,
) -> None:
    """Three rows: forward, and the gradients of the images and of the weights."""
    _, width, order, ceiling, methods = NUMBERS[numbers]
    after = (size - 1) // stride + 1
    where = {
        "stride": stride,
        "padding": taps // 2 * dilation,
        "dilation": dilation,
        "groups": groups,
    }
    x, _, g = shapes(order, images, channels, size, outputs, taps, after)
    _, w, _ = shapes(order, images, channels // groups, size, outputs, taps)
    flops = 2 * images * after**2 * outputs * channels // groups * taps**2
    size_in_bytes = width * sum(math.prod(shape) for shape in (x, w, g))
    extra = "".join(
        f", {key} {where[key]}"
        for key in ("stride", "dilation", "groups")
        if where[key] > 1 or key == "stride"
    )
    for kind in ("forward", "input", "weight"):
        chosen = [*methods] * (groups == 1)
        chosen += ["pointwise_matmul"] * (chosen == ["sm90"] and taps == stride == 1)
        row(
            f"conv_{numbers}_{name}_{kind}",
            "device",
            f"conv2d {kind}, {numbers}, {images}x{channels}x{size}x{size} * "
            f"{outputs}x{channels // groups}x{taps}x{taps}{extra}",
            normal(x, w, g),
            {
                "cudamath": ours(kind, where, numbers),
                "torch": torchs(kind, where, numbers),
                **{method: ours(kind, where, numbers, method) for method in chosen},
            },
            work=flops,
            unit="FLOP",
            ceiling=ceiling,
            traffic=size_in_bytes,
            copies=max(2, (200 << 20) // size_in_bytes),
            hide_host=True,
        )


for _name, _shape in LAYERS.items():
    layer("bf16", _name, *_shape)
for _numbers in ("f32", "tf32"):
    for _name in FEWER:
        layer(_numbers, _name, *LAYERS[_name])
for _name, _where in OTHERS.items():
    for _numbers in (
        "bf16",
        "f32",
        *["tf32"] * (_name in ("dilated", "groups_32", "depthwise_3x3")),
    ):
        layer(_numbers, _name, *_where)
