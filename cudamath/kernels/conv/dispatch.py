"""Convolution: which of its versions runs when. The kernels: direct.py, fprop_simt.py,
dgrad_simt.py, fprop_dgrad_sm80.py, fprop_dgrad_sm90.py; cuDNN: here.

A convolution and its two gradients are one sum of products, read three ways (fprop_simt.py's
header). Versions:

``direct``, ``weight_direct``       a few threads per output, one block per weight: where there is
                                    little to do, one
                                    launch is sooner done than several.
``depthwise``                       one filter per channel: strips of results in registers, images
                                    in shared memory.
``depthwise_last``                  the same but for weight gradients, images channels last: pixels
                                    from the cache.
``few``                             weight gradients of groups of up to 8 channels and outputs or of
                                    one group of up to 4
                                    channels, and the gradient of images of up to 4 channels, in the
                                    same way.
``folded``                          16-bit images of up to 4 channels on tensor cores: forward and
                                    weight gradients of stride 2
                                    by 2 x 2 pixels as one (space_to_depth.py), gradients of images
                                    by 4 x 4 (dgrad_space_to_depth.py).
``implicit_gemm``, ``weight_gemm``  a matrix product over a table of taps, in registers; any GPU,
any dtype.
``mma``                             the same on tensor cores, 16-bit numbers, compute capability 8.0
                                    on.
``wgmma``                           the same by the means of compute capability 9.0:
                                    fprop_dgrad_sm90.py, wgrad_sm90.py; where
                                    taps can share pixels, weight gradients by
                                    wgrad_sm90_shared_taps.py, filters of one tap by
                                    wgrad_sm90_pointwise.py; where filters are few enough to stay in
                                    shared memory, by fprop_dgrad_sm90_resident_filters.py.
``product``                         filters of one tap, 16-bit numbers channels last: one matrix
                                    product, by the same means.
``cudnn``                           NVIDIA's library, where it is installed.
``cublas``                          filters of one tap as matrix products: 16-bit numbers channels
                                    last, others in C order.
``columns``                         float32: windows written out (im2col), and one matrix product by
                                    cuBLAS.

Tensor cores read channels: 16-bit images are best kept *channels last* (the strides of (N, H, W,
C), seen as (N, C, H, W)). Results lie as the images do. For the last three, operands that lie
otherwise are turned first, in a pass over their memory that costs about as much as an addition; so
the same numbers give the same bits however they lie.

By default, 16-bit convolutions with windows or strides, and their gradients, run by ``wgmma`` (on
an H200 faster than the library on ResNet-50's layers), those over images of few channels by
``folded``; 1 x 1 ones as was measured: where little is summed by ``product``, else by ``cudnn`` or
``cublas``; weight gradients of small images by ``cudnn``; without it, by ``product``, ``wgmma`` or
``mma``. Filters of one channel each go to ``depthwise`` where images lie in C order, else to
``depthwise_last``, but for weight gradients and 16-bit forward convolutions, the library's. Other
float32 goes where it was measured to be fastest (core/dispatch/autotune.py, which also names the
one of cuDNN's plans), as do 16-bit weight gradients. Where nothing was measured, its size decides,
alone and at once (`_sooner`): little goes to the direct kernels, more to ``cudnn``; a process's
first one waits for the library to be loaded, as torch's does. The rest, and all where the libraries
are missing, runs in our own kernels.

Measured (row versions_conv_bfloat16):
(32, 64, 128, 128) * (128, 64, 3, 3), bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                            TFLOP/s      of cuDNN
    conv2d_implicit_gemm       22.0          0.04
    conv2d_mma                  214          0.35
    conv2d_wgmma                696          1.13
    cuDNN                       616          1.00

(end of what was measured)

Slow kernels run between the fast ones here. Under the steady load of the row
conv_bf16_large_forward the power limit leaves `wgmma` and cuDNN alike about 570 TFLOP/s.

Measured (row versions_conv_float32):
(32, 64, 128, 128) * (128, 64, 3, 3), float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                            TFLOP/s      of cuDNN
    conv2d_direct               3.4          0.08
    conv2d_implicit_gemm       34.1          0.83
    cuDNN                      41.3          1.00

(end of what was measured)
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dispatch import autotune
from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call
from ...core.layout import Layout
from ...core.shapes import contiguous_strides
from ...runtime import cudnn
from ...runtime.device import capability
from ..compiler.decorators import device_function
from ..copy.channels_last import Turned, last_strides, lies_last, result
from ..copy.strided import copy_part, whole
from ..elementwise.generator import plain
from ..lib.codec import codec
from . import (
    depthwise_nchw,
    depthwise_nhwc,
    dgrad_few_channels,
    dgrad_simt,
    dgrad_space_to_depth,
    fprop_dgrad_sm80,
    fprop_dgrad_sm90,
    fprop_dgrad_sm90_resident_filters,
    fprop_simt,
    geometry,
    im2col_cublas,
    space_to_depth,
    wgrad_few_channels,
    wgrad_simt,
    wgrad_sm80,
    wgrad_sm90,
    wgrad_sm90_pointwise,
    wgrad_sm90_shared_taps,
)
from . import pointwise as conv_pointwise

Pair = tuple[int, int]
Lengths = tuple[int, ...]  # along rows and columns, or along planes, rows and columns
NAMED = (
    "wgmma",
    "product",
    "cudnn",
    "mma",
    "depthwise",
    "depthwise_last",
    "few",
    "folded",
    "cublas",
    "columns",
)
LARGE = 1 << 28  # multiply-adds from which float32 may go to the library
SOME = (
    8  # channels and outputs, from which on less than that may go there, too: it takes one launch
)
FEW = (
    1 << 24
)  # multiply-adds from which gradients of images of few channels have a kernel of their own
FOLDED = 1 << 23  # the same by tensor cores, of 16-bit numbers
FEW_WEIGHTS = 1 << 26  # the same of weights of a group alone, and from how many outputs on
FEW_OUTPUTS = 32
WEIGHTS = 1 << 22  # up to which weight gradients do; beyond, ours have enough blocks


# -------------------- cuDNN

ROLES = {"forward": "xwy", "input": "ywx", "weight": "yxw"}  # first and second operand, result


def timed_as(
    dtype: np.dtype,
    kind: str,
    taps: Lengths,
    stride: Lengths,
    dilation: Lengths = (1, 1),
    groups: int = 1,
) -> str:
    """What tables of measurements tell apart besides the sizes."""
    told = {"stride": stride, **({"dilation": dilation} if max(dilation) > 1 else {})}
    words = [f"{what} {'x'.join(map(str, pair))}" for what, pair in told.items()] + [
        f"groups {groups}"
    ] * (groups > 1)
    return f"{dtype} {kind} {'x'.join(map(str, taps))} {' '.join(words)}"


def measured(
    kind: str,
    out: Layout,
    first: Layout,
    second: Layout,
    stride: Lengths,
    dilation: Lengths,
    able: list[str] | None = None,
    without: str = "-",
) -> autotune.Decision | None:
    """The fastest candidate timed for a convolution of about this size, float32 in C order or
    16-bit numbers channels last: "cudnn PLAN", "cublas", "columns", "wgmma", "product TILE",
    "ours". able, without: see tune.lookup."""
    shapes = dict(zip(ROLES[kind], (first.shape, second.shape, out.shape), strict=True))
    (images, channels, *size), (outputs, per_group, *taps) = shapes["x"], shapes["w"]
    if out.itemsize > 4 or not all(
        lies_last(x) if out.itemsize == 2 else x.contiguous for x in (first, second)
    ):
        return None
    told = timed_as(out.dtype, kind, tuple(taps), stride, dilation, channels // max(per_group, 1))
    return autotune.lookup(
        "conv2d", out.device, told, (images, channels, math.prod(size), outputs), able, without
    )


def library(
    kind: str,
    out: Layout,
    first: Layout,
    second: Layout,
    bias: Layout | None = None,
    *,
    stride: Lengths,
    padding: Lengths,
    dilation: Lengths,
    tf32: bool,
    plan: str = "",
    last: bool | None = None,
) -> Plan | None:
    """The plan of one of the three functions through cuDNN, of images or volumes; None if it has
    nothing for it. plan: the name of the one that it takes, by default the one measured to be the
    fastest. last: whether it sees everything channels last.

    float32 and float64 images in C order stay so: that is how most of its kernels for these read
    them."""
    if last is None:
        last = out.itemsize == 2 or not all(x.contiguous for x in (out, first, second))
    turned = Turned(out, first, second, last=last)
    names = ROLES[kind]
    added = []
    if bias is not None:  # which it wants in one run
        added = [Input(2)]
        if not (bias.contiguous and bias.aligned):
            added = [turned.temp(bias.like())]
            turned.steps += copy_part(whole(Input(2), bias), whole(added[0], bias.like()))
    shapes = dict(zip(names, (first.shape, second.shape, out.shape), strict=True))
    order = last_strides if last else contiguous_strides
    tensors = [cudnn.Tensor(shapes[name], order(shapes[name], 1)) for name in "xwy"]
    exact = out.dtype == np.float32 and not tf32
    timed = (
        measured(kind, out, first, second, stride, dilation)
        if last == (out.itemsize == 2) and not tf32
        else None
    )
    if timed and timed.choice.startswith("cudnn"):
        plan = plan or timed.choice.partition(" ")[2]
    if not plan and exact and kind == "weight" and shapes["x"][1] > shapes["w"][1] > 1:
        return None  # in groups: by Winograd's transforms, which its plan does not say
    found = cudnn.convolution(
        kind,
        out.dtype,
        *tensors,
        stride=stride,
        before=padding[::2],
        after=padding[1::2],
        dilation=dilation,
        bias=bias is not None,
        tf32=tf32,
        device=out.device,
        plan=plan,
    )
    if found is None:
        return None
    arguments = dict(zip(names, (*turned.operands, turned.target), strict=True))
    workspace = turned.temp(Layout.new((found.workspace,), np.dtype(np.uint8), out.device))
    turned.steps.append(Call(found, [*[arguments[name] for name in "xwy"], *added, workspace]))
    return turned.plan()


def one_tap(
    version: str,
    kind: str,
    out: Layout,
    first: Layout,
    second: Layout,
    bias: Layout | None = None,
    *,
    stride: Pair,
    padding: tuple[int, int, int, int],
) -> Plan | None:
    """``product``, with the tile that was measured to be the fastest, or ``cublas``."""
    if version == "cublas":
        if out.itemsize == 2:
            return conv_pointwise.as_product(
                kind, out, first, second, bias, stride=stride, padding=padding, version=version
            )
        return conv_pointwise.by_images(
            kind, out, first, second, bias, stride=stride, padding=padding
        )
    timed = measured(
        kind, out, first, second, stride, (1, 1), ["product"], "-" if bias is None else "split"
    )
    version = timed.choice.replace("product", "sm90") if timed else "sm90"
    return conv_pointwise.as_product(
        kind, out, first, second, bias, stride=stride, padding=padding, version=version
    )


# -------------------- planners


def _little(
    kind: str, out: Layout, first: Layout, second: Layout, stride: Pair, groups: int, single: bool
) -> bool:
    """Whether there is so little to do that one launch of a plain kernel is sooner done than what
    else there is: several launches of others, or a `single` one of cuDNN's."""
    if kind == "input":
        last = lies_last(first) and not first.contiguous
        return dgrad_simt.little(
            out.size, (second.shape[0] // groups, *second.shape[1:]), stride, single, last
        )
    each = math.prod(second.shape[1:] if kind == "forward" else (first.shape[0], *first.shape[2:]))
    return out.size * each <= geometry.DIRECT and (
        kind == "weight" or each <= fprop_simt.DIRECT_TAPS
    )


@functools.cache
def _sum(dtype: np.dtype) -> Any:
    load, store, _ = codec(dtype)

    @device_function
    def added(a, b):
        return store(load(a) + load(b))

    return added


def biased(plan: Plan | None, bias: Layout | None) -> Plan | None:
    """The plan of images (N, C, H, W) from two operands, or of volumes, and behind it a launch that
    adds a third one to each channel."""
    if plan is None or bias is None:
        return plan
    (out,) = plan.outputs
    view = Input(2).view(out.shape, (0, bias.strides[0], *[0] * (len(out.shape) - 2)))
    plan.steps.append(plain(_sum(out.dtype), (True, True), [Output(0), view], Output(0), out.shape))
    return plan


def _sooner(
    kind: str, products: int, channels: int, window: bool, stride: int, dilation: int
) -> bool:
    """Whether float32 with so many multiply-adds, of a size that nobody timed, is sooner done by
    cuDNN than by our tiles.

    Images (4, 16, 8, 8) to (8, 64, 16, 16), as many outputs, 3 x 3 taps; back to back on an H200,
    us (ours, cuDNN):

                          2^19       2^21       2^23       2^25       2^26
        forward           17, 10     17, 12     63, 17     63, 17     64, 17
        input             17, 10     17, 10     62, 18     63, 19     63, 20
        input, stride 2   52, 15     52, 15     107, 19    106, 30    108, 43
        weight            16, 9      16, 9      23, 28     24, 24     26, 33

    Forward and input of (8, 32, 16, 16) with a dilation of 2: 29, 11; of (8, 128, 28, 28) with one
    tap: 26, 13 and 26, 14.
    """
    if products >= LARGE:  # of 3 channels forward: 530 us, 743; 64 x 3 x 224^2, 7 x 7, stride 2
        return channels >= SOME if kind == "forward" else window and stride == 1
    return channels >= SOME and (
        kind != "weight" or window and stride == dilation == 1 and products <= WEIGHTS
    )


def _order(
    version: str | None,
    kind: str,
    out: Layout,
    first: Layout,
    second: Layout,
    stride: Pair,
    groups: int,
    tf32: bool,
    dilation: Pair = (1, 1),
) -> list[str]:
    """The versions to try before the plain ones, which can do anything: the best first, as measured
    on an H200."""
    if version is not None:
        return [version] if version in NAMED else []
    if not (out.size and first.size and second.size):
        return []
    channels = first.shape[1], out.shape[1], second.shape[1]
    _, per_group, *kernel = (out if kind == "weight" else second).shape
    window = kernel[0] * kernel[1] > 1
    library = [] if out.dtype not in cudnn.DTYPES or not cudnn.available() else ["cudnn"]
    filters, images = (out, second) if kind == "weight" else (second, out)
    if groups > 1 and depthwise_nchw.serves(
        filters.shape, first.shape[1], images.shape[1], stride, dilation
    ):
        if lies_last(first) and not first.contiguous and kind != "weight" and out.itemsize <= 4:
            ours = (
                kind == "input" or out.itemsize == 4
            )  # cuDNN takes 0.6 to 0.75 of our time 16-bit forward
            return ["depthwise_last", *library] if ours else [*library, "depthwise_last"]
        return ["depthwise", *library] if first.contiguous else [*library, "depthwise"]
    if (
        kind == "weight"
        and out.itemsize == 4
        and first.contiguous
        and second.contiguous
        and wgrad_few_channels.serves(out.shape, 4, groups, stride, dilation)
    ):
        return ["few"]
    products = (out if kind == "forward" else first).size * per_group * kernel[0] * kernel[1]
    sooner = (
        out.itemsize == 4
        and not tf32
        and bool(library)
        and groups == 1
        and _sooner(kind, products, min(channels), window, max(stride), max(dilation))
    )
    if kind == "input":
        folded = products >= FOLDED and dgrad_space_to_depth.serves(
            out, second.shape, groups, stride, dilation
        )
        few = (
            products >= FEW
            and (out.itemsize == 4 and not tf32 or max(stride) > 1)
            and dgrad_few_channels.serves(second.shape, out.itemsize, groups, stride, dilation)
        )
        if folded or few:
            return [*["folded"] * folded, *["few"] * few, *library]
    if out.itemsize == 8 or _little(kind, out, first, second, stride, groups, sooner):
        return []
    if kind != "input" and space_to_depth.serves(
        second if kind == "weight" else first, filters.shape, groups, stride, dilation
    ):
        return ["folded", *library] if products >= LARGE else [*library, "folded"]
    if (
        kind == "weight"
        and out.itemsize == 4
        and not tf32
        and first.contiguous
        and second.contiguous
        and products >= FEW_WEIGHTS
        and out.shape[0] >= FEW_OUTPUTS
        and capability(out.device) >= (8, 0)
        and wgrad_few_channels.serves_alone(out.shape, 4, groups, stride, dilation)
    ):
        return ["few", *library]
    if out.itemsize == 4 and not tf32:  # float32 as float32: see this file's header
        timed = measured(kind, out, first, second, stride, dilation)
        large = (
            kind == "input" and not window and max(stride) > 1 and products >= LARGE and groups == 1
        )
        best = ["cublas"] * large  # a product, and zeros
        if timed is not None:
            best += [timed.choice] * (
                timed.choice != "ours" and not timed.choice.startswith("cudnn")
            )
            return best + library * (timed.choice != "ours")
        return best + library * sooner
    ours = [
        name
        for name, module in (("wgmma", fprop_dgrad_sm90), ("mma", fprop_dgrad_sm80))
        if module.serves(out.dtype, capability(out.device), *channels)
    ]
    timed = measured(kind, out, first, second, stride, dilation) if out.itemsize == 2 else None
    if "wgmma" in ours and not window and max(stride) == groups == 1:
        ours = ["product", *ours]
    if timed is not None:
        best = timed.choice.split()[0]
        rest = (
            library + ours
            if best == "cudnn"
            else [*["cublas"] * (best == "cublas"), *ours, *library]
        )
        return sorted(rest, key=best.__ne__)  # the others as they are
    if "wgmma" in ours and (
        window or max(stride) > 1
        if kind != "weight"
        else wgrad_sm90_shared_taps.worth(first.shape, out.shape, stride, groups)
    ):
        return ["wgmma", *library, *ours[1:]]  # small groups: not by wgmma
    return library + ours


def _planned(
    version: str | None,
    order: list[str],
    ways: dict[str, Callable[[], Plan | None]],
    plain: Callable[[], Plan],
) -> Plan:
    """The plan of the first version that can do it."""
    for name in order:
        plan = ways[name]()
        if plan is not None:
            plan.why = (
                f"requested: {name}"
                if version
                else f"{name}: the fastest measured on an H200 that can do this"
            )
            return plan
        if version is not None:
            raise ValueError(f"conv2d: version {version!r} cannot do this")
    plan = plain()
    plan.why = (
        f"requested: {version}" if version else "the kernel of any device: nothing faster is here"
    )
    return plan


def conv2d(
    x: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    stride: Pair,
    padding: tuple[int, int, int, int],
    dilation: Pair,
    groups: int,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """x (N, G*C, H, W), weight (G*M, C, R, S), bias (G*M,); padding (top, bottom, left, right) ->
    (N, G*M, P, Q).

    version: "depthwise", "depthwise_last", "wgmma", "product", "cudnn", "cublas", "columns", "mma",
    "implicit_gemm" or "direct"; by default what is best here and suits the sizes."""
    size = [
        (n + padding[2 * i] + padding[2 * i + 1] - dilation[i] * (weight.shape[2 + i] - 1) - 1)
        // stride[i]
        + 1
        for i, n in enumerate(x.shape[2:])
    ]
    out = result(x, (x.shape[0], weight.shape[0], *size))
    where: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    return _planned(
        version,
        _order(version, "forward", out, x, weight, stride, groups, tf32, dilation),
        {
            "depthwise": lambda: depthwise_nchw.conv2d(out, x, weight, bias, **where),
            "depthwise_last": lambda: depthwise_nhwc.conv2d(out, x, weight, bias, **where),
            "folded": lambda: space_to_depth.conv2d(out, x, weight, bias, **where, groups=groups),
            "cublas": lambda: one_tap(
                "cublas", "forward", out, x, weight, bias, stride=stride, padding=padding
            ),
            "columns": lambda: im2col_cublas.forward(out, x, weight, bias, **where, groups=groups),
            "product": lambda: one_tap(
                "product", "forward", out, x, weight, bias, stride=stride, padding=padding
            ),
            "wgmma": lambda: (
                fprop_dgrad_sm90_resident_filters.conv2d(
                    out, x, weight, bias, **where, groups=groups
                )
                or fprop_dgrad_sm90.conv2d(out, x, weight, bias, **where, groups=groups)
            ),
            "cudnn": lambda: library("forward", out, x, weight, bias, **where, tf32=tf32),
            "mma": lambda: fprop_dgrad_sm80.conv2d(out, x, weight, bias, **where, groups=groups),
        },
        lambda: fprop_simt.conv2d(out, x, weight, bias, **where, groups=groups, version=version),
    )


def conv2d_input_grad(
    grad: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    size: Pair,
    stride: Pair,
    padding: tuple[int, int, int, int],
    dilation: Pair,
    groups: int,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """grad (N, G*M, P, Q), weight (G*M, C, R, S), bias (G*C,), size (H, W) -> (N, G*C, H, W).
    Versions as conv2d."""
    out = result(grad, (grad.shape[0], groups * weight.shape[1], *size))
    where: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    ways: dict[str, Callable[[], Plan | None]] = {
        "depthwise": lambda: depthwise_nchw.conv2d_input_grad(out, grad, weight, **where),
        "depthwise_last": lambda: depthwise_nhwc.conv2d_input_grad(out, grad, weight, **where),
        "few": lambda: dgrad_few_channels.conv2d_input_grad(
            out, grad, weight, **where, groups=groups
        ),
        "folded": lambda: dgrad_space_to_depth.conv2d_input_grad(
            out, grad, weight, **where, groups=groups
        ),
        "cublas": lambda: one_tap(
            "cublas", "input", out, grad, weight, stride=stride, padding=padding
        ),
        "columns": lambda: im2col_cublas.input_gradient(out, grad, weight, **where, groups=groups),
        "product": lambda: one_tap(
            "product", "input", out, grad, weight, stride=stride, padding=padding
        ),
        "wgmma": lambda: (
            fprop_dgrad_sm90_resident_filters.conv2d_input_grad(
                out, grad, weight, **where, groups=groups
            )
            or fprop_dgrad_sm90.conv2d_input_grad(out, grad, weight, **where, groups=groups)
        ),
        "cudnn": lambda: library("input", out, grad, weight, **where, tf32=tf32),
        "mma": lambda: fprop_dgrad_sm80.conv2d_input_grad(
            out, grad, weight, **where, groups=groups
        ),
    }
    return _planned(
        version,
        _order(version, "input", out, grad, weight, stride, groups, tf32, dilation),
        {name: lambda way=way: biased(way(), bias) for name, way in ways.items()},  # type: ignore[misc]
        lambda: dgrad_simt.conv2d_input_grad(
            out, grad, weight, bias, **where, groups=groups, version=version
        ),
    )


def conv2d_weight_grad(
    grad: Layout,
    x: Layout,
    *,
    kernel: Pair,
    stride: Pair,
    padding: tuple[int, int, int, int],
    dilation: Pair,
    groups: int,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """grad (N, G*M, P, Q), x (N, G*C, H, W), kernel (R, S) -> (G*M, C, R, S).

    version: "depthwise", "few", "wgmma", "product", "cudnn", "cublas", "mma", "weight_gemm" or
    "weight_direct"; by default what is best here and suits the sizes."""
    out = result(x, (grad.shape[1], x.shape[1] // groups, *kernel))
    where: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    return _planned(
        version,
        _order(version, "weight", out, grad, x, stride, groups, tf32, dilation),
        {
            "depthwise": lambda: depthwise_nchw.conv2d_weight_grad(out, grad, x, **where),
            "few": lambda: wgrad_few_channels.conv2d_weight_grad(
                out, grad, x, **where, groups=groups
            ),
            "folded": lambda: space_to_depth.conv2d_weight_grad(
                out, grad, x, **where, groups=groups
            ),
            "cublas": lambda: one_tap(
                "cublas", "weight", out, grad, x, stride=stride, padding=padding
            ),
            "product": lambda: one_tap(
                "product", "weight", out, grad, x, stride=stride, padding=padding
            ),
            "wgmma": lambda: (
                wgrad_sm90_pointwise.conv2d_weight_grad(out, grad, x, **where, groups=groups)
                or wgrad_sm90_shared_taps.conv2d_weight_grad(out, grad, x, **where, groups=groups)
                or wgrad_sm90.conv2d_weight_grad(out, grad, x, **where, groups=groups)
            ),
            "cudnn": lambda: library("weight", out, grad, x, **where, tf32=tf32),
            "mma": lambda: wgrad_sm80.conv2d_weight_grad(out, grad, x, **where, groups=groups),
        },
        lambda: wgrad_simt.conv2d_weight_grad(
            out.like(), grad, x, **where, groups=groups, version=version
        ),
    )
