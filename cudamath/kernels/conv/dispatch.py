"""Convolution of images and its two gradients: the versions of each, and the choice among them.

A convolution and its gradients are one sum of products, read in three ways (fprop_simt.py). Each
has a table of versions below: FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT. The methods behind their
names:

    direct               a few threads for a result, or a block for a weight; one launch, for little
                         work
    depthwise_nchw       one filter for each channel: strips of results in registers, images in
                         shared memory
    depthwise_nhwc       the same for images channels last, which it reads through the L1 cache
    few_channels         the same strips: weight gradients of groups of up to 8 channels and
                         outputs, or of one group of up to 4 channels; gradients of images of up to
                         4 channels
    space_to_depth       16-bit images of up to 4 channels on tensor cores: 2 x 2 pixels become one
                         (forward and weight gradient of stride 2), or 4 x 4 (gradient of images)
    simt                 an implicit GEMM over a table of taps, in registers: any GPU, any dtype
    sm80                 the same on tensor cores by mma.sync: 16-bit numbers, compute capability
                         8.0 and later
    sm90                 the same by TMA and wgmma: compute capability 9.0
      resident_filters   filters that stay in shared memory
      shared_taps        weight gradients whose taps of a row share their pixels
      pointwise          weight gradients of filters of one tap, by pairs of blocks
    whole_channels       16 bits: groups of few channels merged, odd channels filled up, for these
    pointwise_matmul     filters of one tap, 16-bit numbers channels last: one product by
                         matmul/sm90.py
    pointwise_cublas     filters of one tap as products by cuBLAS: 16-bit numbers channels last,
                         others in C order
    im2col_cublas        float32: windows written out, and one product by cuBLAS
    windows_matmul       16-bit numbers channels last: the same by the fastest version of matmul
    tap_products         few outputs: one product for all taps by cuBLAS, then sums over taps
    windows_of_images    input gradient in C order, windows apart: the same, a product an image
    cudnn                NVIDIA's library, where it is installed
    cudnn_fourier        the same by Fourier's transform, of float32

Tensor cores read channels: 16-bit images are best kept *channels last* (the strides of (N, H, W,
C), seen as (N, C, H, W)). Results lie as the images do. Versions for tensor cores and the libraries
copy operands that lie otherwise, in a pass over their memory that costs about as much as an
addition. So a version gives the same bits in any layout.

Each version states what it does on a problem (work.py): cycles, bytes, launches. From that and the
device's clock, bandwidth and number of multiprocessors its time is predicted (lib/prediction.py),
and the version with the least expected time runs; a measurement of about this size goes before
(core/dispatch/autotune.py), and also names one of cuDNN's plans. A process's first call of the
library waits until it is loaded, as torch's does.

Measured (row versions_conv_bfloat16):
(32, 64, 128, 128) * (128, 64, 3, 3), bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                            TFLOP/s      of cuDNN
    conv2d_implicit_gemm       22.0          0.04
    conv2d_mma                  214          0.35
    conv2d_wgmma                696          1.13
    cuDNN                       616          1.00

(end of what was measured)

Slow kernels run between the fast ones here. Under the steady load of the row
conv_bf16_large_forward the power limit leaves `fprop_sm90` and cuDNN about 570 TFLOP/s each.

Measured (row versions_conv_float32):
(32, 64, 128, 128) * (128, 64, 3, 3), float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                            TFLOP/s      of cuDNN
    conv2d_direct               3.4          0.08
    conv2d_implicit_gemm       34.1          0.83
    cuDNN                      41.3          1.00

(end of what was measured)
"""

from __future__ import annotations

import math

from ...core.dispatch.plan import Plan
from ...core.dtypes import bfloat16, compute_dtype, float16
from ...core.layout import Layout
from ...runtime import cublas, cudnn
from ..lib.prediction import Machine, Work
from ..lib.streams import streamed
from ..lib.versions import Version, choose, ordered
from ..matmul.dispatch import VERSIONS as MATMUL_VERSIONS
from ..matmul.problem import Problem as MatmulProblem
from . import tap_products, whole_channels, work
from .im2col_cublas import gradient_padding
from .problem import Lengths, Pair, Problem, has_32_bit_offsets
from .windows_matmul import are_apart, has_windows_of_results, product_of_windows, windows_bytes

# -------------------- conditions of the versions


def is_depthwise(p: Problem) -> bool:
    """One filter per channel, of up to 7 x 7 taps, at every pixel or every second."""
    return (
        not p.empty
        and p.group_channels == 1
        and p.x.shape[1] == p.y.shape[1]
        and max(p.taps) <= 7
        and max(p.stride) <= 2
        and max(p.dilation) == 1
    )


def is_depthwise_last(p: Problem) -> bool:
    """One filter per channel, of up to 7 x 7 taps, whose strips of four results meet no more pixels
    of a row than a word has bits; the steps of a gradient of images begin with each strip."""
    apart = [a * (n - 1) for a, n in zip(p.dilation, p.taps, strict=True)]
    steps = (1, 1) if p.kind == "input" else p.stride
    return (
        not p.empty
        and p.group_channels == 1
        and p.x.shape[1] == p.y.shape[1]
        and max(p.taps) <= 7
        and all(3 * n + reach < 32 for n, reach in zip(steps, apart, strict=True))
        and (p.kind != "input" or all(4 % n == 0 for n in p.stride))
    )


def wgrad_has_few_channels(p: Problem) -> bool:
    """Groups of up to 8 channels and outputs and 3 x 3 taps; or one group of up to 4 channels, 7 x
    7 taps and an even number of outputs."""
    if p.groups > 1:
        few = max(p.group_outputs, p.group_channels) <= 8 and max(p.taps) <= 3
    else:
        few = p.group_channels <= 4 and p.group_outputs % 2 == 0 and max(p.taps) <= 7
    return few and not p.empty and p.itemsize <= 4 and max(p.stride) <= 2 and max(p.dilation) == 1


def dgrad_has_few_channels(p: Problem) -> bool:
    """Up to 4 channels and 7 x 7 taps, at every pixel or every second."""
    return (
        not p.empty
        and p.itemsize <= 4
        and p.groups == 1
        and p.group_channels <= 4
        and max(p.taps) <= 7
        and max(p.stride) <= 2
        and max(p.dilation) == 1
    )


def folds_2x2(p: Problem) -> bool:
    """16-bit images of up to 4 channels, windows of stride 2, and a device of `sm90`."""
    return (
        _has_sm90(p, p.weight.shape[0])
        and p.stride == (2, 2)
        and p.dilation == (1, 1)
        and p.groups == 1
        and p.group_channels <= 4
        and min(p.taps) > 1
    )


def folds_4x4(p: Problem) -> bool:
    """16-bit images of up to 4 channels, strides of 1, 2 and 4, on tensor cores."""
    return (
        _has_sm80(p, p.weight.shape[0])
        and p.groups == 1
        and p.group_channels <= 4
        and all(4 % n == 0 for n in p.stride)
        and max(p.dilation) == 1
    )


def _has_sm80(p: Problem, *channels: int) -> bool:
    """16-bit numbers on tensor cores; pieces of 16 bytes hold 8 channels of one group."""
    return (
        not p.empty
        and p.dtype in (bfloat16, float16)
        and p.capability >= (8, 0)
        and all(c % 8 == 0 and c for c in channels)
    )


def _has_sm90(p: Problem, *channels: int) -> bool:
    """The same by TMA, whose strides are multiples of 16 bytes, and wgmma."""
    return _has_sm80(p, *channels) and p.capability[0] == 9


def has_sm80(p: Problem) -> bool:
    return _has_sm80(p, p.group_channels, p.group_outputs)


def has_sm90(p: Problem) -> bool:
    return _has_sm90(p, p.group_channels, p.group_outputs)


def filters_may_stay(p: Problem) -> bool:
    """One group, up to 128 outputs, two or three taps to a row, at every pixel, and sums over whole
    steps of 64 channels. The planner computes whether shared memory has room."""
    summed, outputs = p.operands[0].shape[1], p.out.shape[1]
    no_bias = p.kind == "input" or p.bias is None
    rows = p.taps[1] in (2, 3) and max(p.stride) == 1
    return (
        has_sm90(p) and p.groups == 1 and no_bias and rows and summed % 64 == 0 and outputs <= 128
    )


def taps_may_share(p: Problem) -> bool:
    """2 to 4 taps along rows, and a stride along rows that some of them share."""
    stride, apart = p.stride[1], p.dilation[1]
    return has_sm90(p) and stride < p.taps[1] <= 4 and (apart == 1 or stride == 1 and apart <= 8)


def is_pointwise(p: Problem) -> bool:
    """Filters of one tap, in one group, without padding."""
    return not p.empty and not p.windows and p.groups == 1 and not any(p.padding)


def is_product(p: Problem) -> bool:
    """Pointwise at every pixel: one product of matrices."""
    return is_pointwise(p) and max(p.stride) == 1


def is_product_sm90(p: Problem) -> bool:
    return is_product(p) and has_sm90(p)


def has_pairs(p: Problem) -> bool:
    """A product of two steps of 64 pixels, one for each block of a pair."""
    return is_product_sm90(p) and p.positions > 64


def is_product_cublas(p: Problem) -> bool:
    """A product that cuBLAS computes. An input gradient may have a stride and padding, of float32
    and float64: its products are copied to their places among zeros."""
    strided = p.kind == "input" and max(p.stride) > 1 and p.itemsize >= 4
    one_tap = not p.empty and not p.windows and p.groups == 1 if strided else is_product(p)
    no_bias = p.kind == "input" or p.bias is None
    return one_tap and no_bias and cublas.available()


def multiplies_images(p: Problem) -> bool:
    """A product of 16-bit numbers for each image, at every pixel."""
    weight = p.kind == "weight"
    unbiased = p.kind == "input" or p.bias is None
    return (
        p.itemsize == 2
        and is_product(p)
        and (cublas.available() if weight else unbiased)
        and p.dtype in cublas.DTYPES
    )


def im2col_fits(p: Problem) -> bool:
    """float32 in C order. An input gradient has no stride, and no more padding than taps."""
    if p.kind == "input":
        simple = max(p.stride) == 1 and all(
            p.padding[i] <= p.dilation[i // 2] * (p.taps[i // 2] - 1) for i in range(4)
        )
    else:
        simple = p.bias is None
    return (
        simple
        and not p.empty
        and p.itemsize == 4
        and p.groups == 1
        and p.out.contiguous
        and p.operands[0].contiguous
        and cublas.available()
    )


def windows_fit(p: Problem) -> bool:
    """16-bit numbers, of one group. Windows of an input gradient share no pixel, or there is no
    stride."""
    return (
        not p.empty
        and p.itemsize == 2
        and p.groups == 1
        and p.windows
        and (p.kind == "forward" or are_apart(p) or has_windows_of_results(p))
    )


def windows_of_images_fit(p: Problem) -> bool:
    """An input gradient of one group whose windows share no pixel."""
    return not p.empty and p.groups == 1 and p.windows and p.itemsize > 1 and are_apart(p)


def taps_fit(p: Problem) -> bool:
    """Real numbers of one group, up to 7 x 7 taps, whose products a thread holds."""
    return (
        not p.empty
        and p.groups == 1
        and p.windows
        and math.prod(p.taps) <= MOST_TAPS
        and p.dtype.kind != "c"
        and p.dtype in cublas.DTYPES
        and cublas.available()
        and has_32_bit_offsets(p.x)
        and has_32_bit_offsets(p.y)
    )


def has_cudnn(p: Problem) -> bool:
    return not p.empty and p.dtype in cudnn.DTYPES and cudnn.available()


def may_be_widened(p: Problem) -> bool:
    """16-bit numbers on tensor cores, of groups that can be merged or channels that can be filled
    up."""
    return (
        not p.empty
        and p.itemsize == 2
        and p.capability >= (8, 0)
        and (p.groups > 1 or p.group_channels % 8 + p.group_outputs % 8 > 0)
        and whole_channels.widened(p) is not None
    )


def has_fourier(p: Problem) -> bool:
    """float32, 3 x 3 taps or more in one group, at every pixel."""
    return (
        has_cudnn(p)
        and p.float32
        and p.groups == 1
        and 3 <= min(p.taps)
        and max(p.taps) <= 16
        and max(p.stride) == max(p.dilation) == 1
    )


def fprop_fits_tiles(p: Problem) -> bool:
    """Offsets in 32 bits, and a grid of as many groups."""
    return (
        p.out.size > 0
        and p.terms > 0
        and p.groups <= 65535
        and p.positions < 1 << 30
        and p.terms * p.weight.shape[0] < 1 << 30
        and has_32_bit_offsets(p.x)
    )


def dgrad_fits_tiles(p: Problem) -> bool:
    return p.out.size > 0


def wgrad_fits_tiles(p: Problem) -> bool:
    """Offsets in 32 bits, and a grid of as many groups."""
    return (
        p.out.size > 0
        and p.positions > 0
        and p.groups <= 65535
        and has_32_bit_offsets(p.y)
        and has_32_bit_offsets(p.x)
    )


# -------------------- versions

MEASURED = "the fastest that was measured"
LIBRARY = "NVIDIA's library: measurements or the size are in its favour"
BY_STRIPS = "strips of results in registers read each pixel for all its taps"
FEW_CHANNELS = "few channels: strips in registers, where a tile would stay nearly empty"
FOLDED = "few channels: folded pixels fill the tensor cores"
TMA = "TMA brings the windows and wgmma multiplies them"
MMA = "tensor cores by mma.sync"
TILES = "the tiles of any device: nothing faster supports this"
LITTLE = "little work, or nothing to share: one launch"

# -------------------- channels made whole


def on_tensor_cores(p: Problem) -> list[Version]:
    """The versions for tensor cores that support a problem, those to be tried first first."""
    named = [v for v in TABLES[p.kind] if "_sm80" in v.name or "_sm90" in v.name]
    return ordered(named, p)


BESIDE = 1.1  # what whole_channels costs more than its parts


def work_of_whole_channels(p: Problem) -> Work:
    """The work of the wider problem, and of the copies into it and out of it."""
    inner = whole_channels.widened(p)
    inside = on_tensor_cores(inner)[0].work(inner)
    pairs = [(getattr(p, role), getattr(inner, role)) for role in ("x", "weight", "y")]
    copied = sum(
        (work.NARROW if min(own.shape[1], wide.shape[1]) < whole_channels.PIECE else 1.0)
        * (2 * own.size + wide.size)
        for own, wide in pairs
        if wide is not own
    )
    return inside._replace(
        cycles=BESIDE * inside.cycles,
        moved=BESIDE * (inside.moved + p.itemsize * copied),
        launches=inside.launches + 2 * sum(wide is not own for own, wide in pairs),
    )


def work_of_images(p: Problem) -> Work:
    """The work of the product of each image, and of copies into C order and out of it."""
    if p.kind == "weight":
        return work.image_products(p)
    product = work.image_product(p)
    inside = ordered(MATMUL_VERSIONS, product)[0].work(product)
    moved, more = work.traffic(p, False)
    once = p.itemsize * sum(layout.size for layout in (*p.operands, p.out))
    return inside._replace(moved=inside.moved + moved - once, launches=inside.launches + more)


PIECE = 8  # channels that a copy of windows moves at once
TAP, MOST_TAPS = 16, 49  # instructions of a tap's product that is added; taps, at most
LANES = 128  # of a multiprocessor


def work_of_windows(p: Problem) -> Work:
    """The work of the product of windows, and of the copies that write them, a frame of zeros, and
    filters backwards."""
    product = product_of_windows(p)
    inside = ordered(MATMUL_VERSIONS, product)[0].work(product)
    moved, more = work.traffic(p, True)
    apart = p.kind == "input" and are_apart(p)
    backwards = p.kind == "input" and not apart
    framed = any(gradient_padding(p) if backwards else p.padding)
    images = p.operands[0].nbytes
    once = sum(layout.nbytes for layout in (p.weight, p.x if p.kind == "input" else p.y))
    if apart:
        once = p.weight.nbytes + p.y.nbytes
    narrow = work.NARROW if (p.y if backwards else p.x).shape[1] % PIECE else 1.0
    copied = narrow * windows_bytes(p) + 2 * framed * images + 2 * backwards * p.weight.nbytes
    return inside._replace(
        rates="windows_matmul",
        moved=inside.moved + moved - once + copied,
        launches=inside.launches + more + 1 + 2 * framed + backwards,
    )


# Instructions of a result's thread: where it lies, by 64-bit divisions; each tap that is looked for
# between strides. So 2 x 192 x 160 x 160 -> 128, 3 x 3, stride 2, float32, takes 2,000 us, and
# 16 x 80 x 128 x 128 -> 16, 4 x 4, 1,831 (`dgrad_simt` 1,408 and 1,132; fitted to these, H100)
PLACE, LOOKED_FOR = 700, 90


def work_of_taps(p: Problem) -> Work:
    """The work of the product of all taps by cuBLAS, and of the sums over them."""
    pixels, each, terms = tap_products.shape_of_products(p)
    images = p.operands[0]
    product = MatmulProblem(images.like((pixels, terms)), images.like((terms, each)))
    inside = next(v for v in MATMUL_VERSIONS if v.name == "cublas").work(product)
    moved, more = work.traffic(p, True)
    taps = math.prod(p.taps)
    machine, size = Machine.of(p.device), compute_dtype(p.dtype).itemsize
    strided = p.kind == "input"
    sums = streamed(machine, p.out.size, taps, LOOKED_FOR if strided else TAP, taps)
    sums += p.out.size * PLACE / (LANES * machine.multiprocessors)
    read = p.out.size * taps if strided else pixels * each  # those that are none, too
    written = float(pixels * each + read) * size
    turned = p.kind == "forward" and not tap_products.outputs_first(p)
    return inside._replace(
        cycles=inside.cycles + sums,
        moved=moved + written,
        launches=inside.launches + 1 + turned + more,
    )


def work_of_window_images(p: Problem) -> Work:
    """The work of the product of each image, and of the copy of its windows to their places."""
    inside = work_of_images(p)
    copied = p.itemsize * p.x.size + p.itemsize * p.y.size // p.y.shape[1] * p.x.shape[1] * (
        p.taps[0] * p.taps[1]
    )
    return inside._replace(moved=inside.moved + copied, launches=inside.launches + 1)


def by_whole_channels(p: Problem) -> Plan | None:
    """The plan by the first version that can compute the wider problem."""
    return whole_channels.plan(
        p, lambda inner: next(filter(None, (v.plan(inner) for v in on_tensor_cores(inner))), None)
    )


FEW_TIMES = 0.7  # the favour of versions that were timed on a dozen problems alone

# versions of several tables
WHOLE_CHANNELS = Version(
    "whole_channels",
    "conv.dispatch.by_whole_channels",
    may_be_widened,
    reason="groups merged, or channels filled up, for tensor cores",
    work=work_of_whole_channels,
)
POINTWISE_CUBLAS = Version(
    "pointwise_cublas",
    "conv.pointwise.by_cublas",
    is_product_cublas,
    reason=MEASURED,
    work=work.pointwise_cublas,
)
POINTWISE_MATMUL = Version(
    "pointwise_matmul",
    "conv.pointwise.by_matmul",
    is_product_sm90,
    reason="filters of one tap: one product of matrices",
    work=work.pointwise_matmul,
)
WINDOWS_MATMUL = {
    kind: Version(
        "windows_matmul",
        f"conv.windows_matmul.{function}",
        windows_fit,
        reason="few results of long sums: windows written out, and one product of matrices",
        work=work_of_windows,
    )
    for kind, function in (("forward", "forward"), ("input", "input_gradient"))
}
TAP_PRODUCTS = Version(
    "tap_products",
    "conv.tap_products.plan",
    taps_fit,
    reason="few outputs: one product for all taps, then sums over them",
    work=work_of_taps,
    favour=FEW_TIMES,
)
WINDOWS_OF_IMAGES = Version(
    "windows_of_images",
    "conv.windows_matmul.gradient_of_images",
    windows_of_images_fit,
    reason="windows that share no pixel: a product for each image, and a copy to their places",
    work=work_of_window_images,
    favour=FEW_TIMES,
)
POINTWISE_IMAGES = Version(
    "pointwise_images",
    "conv.pointwise.by_images",
    multiplies_images,
    reason="filters of one tap: a product for each image, as it lies",
    work=work_of_images,
)
CUDNN_FOURIER = Version(
    "cudnn_fourier",
    "conv.cudnn.by_fourier",
    has_fourier,
    reason="NVIDIA's library, by Fourier's transform",
    work=work.fourier,
)
CUDNN = Version("cudnn", "conv.cudnn.convolution", has_cudnn, reason=LIBRARY, work=work.cudnn)

FORWARD = (
    Version(
        "fprop_depthwise_nhwc",
        "conv.depthwise.nhwc.forward",
        is_depthwise_last,
        reason=BY_STRIPS,
        work=work.depthwise_nhwc,
    ),
    Version(
        "fprop_depthwise_nchw",
        "conv.depthwise.nchw.forward",
        is_depthwise,
        reason=BY_STRIPS,
        work=work.depthwise_nchw,
    ),
    Version(
        "fprop_space_to_depth",
        "conv.space_to_depth.fprop_wgrad.forward",
        folds_2x2,
        reason=FOLDED,
        work=work.space_to_depth,
    ),
    POINTWISE_CUBLAS,
    Version(
        "im2col_cublas",
        "conv.im2col_cublas.forward",
        im2col_fits,
        reason=MEASURED,
        work=work.im2col,
    ),
    POINTWISE_MATMUL,
    POINTWISE_IMAGES,
    TAP_PRODUCTS,
    WINDOWS_MATMUL["forward"],
    Version(
        "fprop_sm90_resident_filters",
        "conv.fprop_dgrad_sm90_resident_filters.forward",
        filters_may_stay,
        reason=f"{TMA}; filters stay in shared memory",
        work=work.sm90_resident_filters,
    ),
    Version("fprop_sm90", "conv.fprop_dgrad_sm90.forward", has_sm90, reason=TMA, work=work.sm90),
    Version("fprop_sm80", "conv.fprop_dgrad_sm80.forward", has_sm80, reason=MMA, work=work.sm80),
    WHOLE_CHANNELS,
    CUDNN_FOURIER,
    CUDNN,
    Version(
        "fprop_simt", "conv.fprop_simt.forward", fprop_fits_tiles, reason=TILES, work=work.simt
    ),
    Version("fprop_direct", "conv.direct.forward", reason=LITTLE, work=work.direct),
)

INPUT_GRADIENT = (
    Version(
        "dgrad_depthwise_nhwc",
        "conv.depthwise.nhwc.input_gradient",
        is_depthwise_last,
        reason=BY_STRIPS,
        work=work.depthwise_nhwc,
    ),
    Version(
        "dgrad_depthwise_nchw",
        "conv.depthwise.nchw.input_gradient",
        is_depthwise,
        reason=BY_STRIPS,
        work=work.depthwise_nchw,
    ),
    Version(
        "dgrad_space_to_depth",
        "conv.space_to_depth.dgrad.input_gradient",
        folds_4x4,
        reason=FOLDED,
        work=work.space_to_depth,
    ),
    Version(
        "dgrad_few_channels",
        "conv.dgrad_few_channels.input_gradient",
        dgrad_has_few_channels,
        reason=FEW_CHANNELS,
        work=work.few_channels,
    ),
    POINTWISE_CUBLAS,
    Version(
        "im2col_cublas",
        "conv.im2col_cublas.input_gradient",
        im2col_fits,
        reason=MEASURED,
        work=work.im2col,
    ),
    POINTWISE_MATMUL,
    POINTWISE_IMAGES,
    TAP_PRODUCTS,
    WINDOWS_MATMUL["input"],
    WINDOWS_OF_IMAGES,
    Version(
        "dgrad_sm90_resident_filters",
        "conv.fprop_dgrad_sm90_resident_filters.input_gradient",
        filters_may_stay,
        reason=f"{TMA}; filters stay in shared memory",
        work=work.sm90_resident_filters,
    ),
    Version(
        "dgrad_sm90", "conv.fprop_dgrad_sm90.input_gradient", has_sm90, reason=TMA, work=work.sm90
    ),
    Version(
        "dgrad_sm80", "conv.fprop_dgrad_sm80.input_gradient", has_sm80, reason=MMA, work=work.sm80
    ),
    WHOLE_CHANNELS,
    CUDNN_FOURIER,
    Version("cudnn", "conv.cudnn.input_gradient", has_cudnn, reason=LIBRARY, work=work.cudnn),
    Version(
        "dgrad_simt",
        "conv.dgrad_simt.input_gradient",
        dgrad_fits_tiles,
        reason=TILES,
        work=work.simt,
    ),
    Version("dgrad_direct", "conv.dgrad_simt.direct", reason=LITTLE, work=work.direct),
)

WEIGHT_GRADIENT = (
    Version(
        "wgrad_depthwise_nhwc",
        "conv.depthwise.nhwc.weight_gradient",
        is_depthwise_last,
        reason=BY_STRIPS,
        work=work.depthwise_nhwc,
    ),
    Version(
        "wgrad_depthwise_nchw",
        "conv.depthwise.nchw.weight_gradient",
        is_depthwise,
        reason=BY_STRIPS,
        work=work.depthwise_nchw,
    ),
    Version(
        "wgrad_few_channels",
        "conv.wgrad_few_channels.weight_gradient",
        wgrad_has_few_channels,
        reason=FEW_CHANNELS,
        work=work.few_channels,
    ),
    Version(
        "wgrad_space_to_depth",
        "conv.space_to_depth.fprop_wgrad.weight_gradient",
        folds_2x2,
        reason=FOLDED,
        work=work.space_to_depth,
    ),
    POINTWISE_CUBLAS,
    POINTWISE_MATMUL,
    POINTWISE_IMAGES,
    Version(
        "wgrad_sm90_pointwise",
        "conv.wgrad_sm90_pointwise.weight_gradient",
        has_pairs,
        reason=f"{TMA}; two blocks exchange the halves of a tile",
        work=work.sm90_pairs,
    ),
    Version(
        "wgrad_sm90_shared_taps",
        "conv.wgrad_sm90_shared_taps.weight_gradient",
        taps_may_share,
        reason=f"{TMA}; the taps of a row share their pixels",
        work=work.sm90_shared_taps,
    ),
    Version(
        "wgrad_sm90",
        "conv.wgrad_sm90.weight_gradient",
        has_sm90,
        reason=TMA,
        work=work.sm90_weights,
    ),
    Version("wgrad_sm80", "conv.wgrad_sm80.weight_gradient", has_sm80, reason=MMA, work=work.sm80),
    WHOLE_CHANNELS,
    CUDNN_FOURIER,
    CUDNN,
    Version(
        "wgrad_simt",
        "conv.wgrad_simt.weight_gradient",
        wgrad_fits_tiles,
        reason=TILES,
        work=work.simt,
    ),
    Version(
        "wgrad_direct",
        "conv.wgrad_simt.direct",
        reason=LITTLE,
        work=work.direct,
        favour=1.25,  # one launch for five, each of which costs the host, too
    ),
)

TABLES = {"forward": FORWARD, "input": INPUT_GRADIENT, "weight": WEIGHT_GRADIENT}


def version_of(problem: Problem, method: str) -> str | None:
    """The name of the version that runs if only those of one method may, such as "sm90". For
    measurements and tests."""
    for version in ordered(TABLES[problem.kind], problem):
        if method in version.name and version.plan(problem) is not None:
            return version.name
    return None


# -------------------- planners


def conv2d(
    x: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    stride: Pair,
    padding: Lengths,
    dilation: Pair,
    groups: int,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """x (N, G*C, H, W), weight (G*M, C, R, S), bias (G*M,); padding (top, bottom, left, right) ->
    (N, G*M, P, Q). version: a name in FORWARD; by default the preferred one."""
    problem = Problem.forward(
        x,
        weight,
        bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        tf32=tf32,
    )
    return choose("conv2d", FORWARD, problem, version)


def conv2d_input_grad(
    grad: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    size: Pair,
    stride: Pair,
    padding: Lengths,
    dilation: Pair,
    groups: int,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """grad (N, G*M, P, Q), weight (G*M, C, R, S), bias (G*C,), size (H, W) -> (N, G*C, H, W).
    version: a name in INPUT_GRADIENT; by default the preferred one."""
    problem = Problem.input_gradient(
        grad,
        weight,
        bias,
        size=size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        tf32=tf32,
    )
    return choose("conv2d_input_grad", INPUT_GRADIENT, problem, version)


def conv2d_weight_grad(
    grad: Layout,
    x: Layout,
    *,
    kernel: Pair,
    stride: Pair,
    padding: Lengths,
    dilation: Pair,
    groups: int,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """grad (N, G*M, P, Q), x (N, G*C, H, W), kernel (R, S) -> (G*M, C, R, S). version: a name in
    WEIGHT_GRADIENT; by default the preferred one."""
    problem = Problem.weight_gradient(
        grad,
        x,
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        tf32=tf32,
    )
    return choose("conv2d_weight_grad", WEIGHT_GRADIENT, problem, version)
