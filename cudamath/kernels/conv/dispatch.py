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
    pointwise_matmul     filters of one tap, 16-bit numbers channels last: one product by
                         matmul/sm90.py
    pointwise_cublas     filters of one tap as products by cuBLAS: 16-bit numbers channels last,
                         others in C order
    im2col_cublas        float32: windows written out, and one product by cuBLAS
    cudnn                NVIDIA's library, where it is installed

Tensor cores read channels: 16-bit images are best kept *channels last* (the strides of (N, H, W,
C), seen as (N, C, H, W)). Results lie as the images do. Versions for tensor cores and the libraries
copy operands that lie otherwise, in a pass over their memory that costs about as much as an
addition. So the same numbers give the same bits in any layout.

How versions are preferred, as measured on an H200:

- 16-bit convolutions with windows or strides, and their gradients, run by `sm90`, which is faster
  than the library on ResNet-50's layers; over images of few channels by `space_to_depth`.
- 16-bit convolutions of one tap follow the measurements: `pointwise_matmul` where sums are short,
  else `cudnn` or `pointwise_cublas`. Without cuDNN: `pointwise_matmul`, `sm90` or `sm80`.
- Weight gradients of small 16-bit images go to `cudnn`.
- Filters of one channel each go to `depthwise_nchw` where images lie in C order, else to
  `depthwise_nhwc`. The library takes weight gradients and 16-bit forward convolutions of images
  channels last.
- Other float32, and 16-bit weight gradients, go where tables of measurements send them
  (core/dispatch/autotune.py); these also name one of cuDNN's plans.
- Where nothing was measured, the size decides alone (`float32_suits_cudnn`): little work goes to
  the direct kernels, more to `cudnn`. A process's first such call waits until the library is
  loaded, as torch's does.
- The rest, and all where the libraries are missing, runs in our own kernels.

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

from ...core.dispatch.plan import Plan
from ...core.dtypes import bfloat16, float16
from ...core.layout import Layout
from ...runtime import cublas, cudnn
from ...runtime.device import multiprocessors
from ..lib.integers import blocks
from ..lib.versions import Version, choose, ordered
from .geometry import DIRECT, LEAST_OUTPUTS
from .problem import Lengths, Pair, Problem, has_32_bit_offsets, is_small, meeting_taps, tiles_pay

# Ranks of preference: the versions of the highest rank that support a problem are tried first.
NEVER, YES, FASTER, FASTEST = 0, 1, 2, 3  # FASTER: than the library; FASTEST: by a measurement

LARGE = 1 << 28  # multiply-adds from which float32 may go to the library,
LEAST_CHANNELS = 8  # and below which it may from so many channels and outputs: one launch
MOST_WEIGHT_WORK = 1 << 22  # up to which weight gradients may; beyond, ours have enough blocks
DGRAD_FEW_WORK = 1 << 24  # multiply-adds from which few_channels pays for gradients of images,
DGRAD_FOLDED_WORK = 1 << 23  # and space_to_depth
WGRAD_FEW_WORK = 1 << 26  # multiply-adds from which few_channels pays for the weights of one group,
WGRAD_FEW_OUTPUTS = 32  # and outputs
DGRAD_DIRECT_WORK = 1 << 23  # multiply-adds up to which one launch takes less time than several
DGRAD_DIRECT_WORK_NHWC = 1 << 21  # channels last: neighbours read far apart, and launches are fewer
DGRAD_DIRECT_WORK_ALONE = 1 << 18  # compared with a single product, or with cuDNN
DGRAD_DIRECT_TERMS = 1 << 10  # in the sum of one result


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
    """One group, up to 128 outputs, and sums over whole steps of 64 channels. The planner
    computes whether shared memory has room."""
    summed, outputs = p.operands[0].shape[1], p.out.shape[1]
    no_bias = p.kind == "input" or p.bias is None
    return has_sm90(p) and p.groups == 1 and no_bias and summed % 64 == 0 and outputs <= 128


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


def has_cudnn(p: Problem) -> bool:
    return not p.empty and p.dtype in cudnn.DTYPES and cudnn.available()


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


# -------------------- where versions are preferred


def float32_suits_cudnn(p: Problem) -> bool:
    """Whether float32 of a size without a measurement takes less time by cuDNN than by our tiles.

    Images (4, 16, 8, 8) to (8, 64, 16, 16), as many outputs, 3 x 3 taps; back to back on an H200,
    us (ours, cuDNN):

        multiply-adds         2^19       2^21       2^23       2^25       2^26
        forward             17, 10     17, 12     63, 17     63, 17     64, 17
        input               17, 10     17, 10     62, 18     63, 19     63, 20
        input, stride 2     52, 15     52, 15    107, 19    106, 30    108, 43
        weight               16, 9      16, 9     23, 28     24, 24     26, 33

    Forward and input of (8, 32, 16, 16) with a dilation of 2: 29, 11; of (8, 128, 28, 28) with one
    tap: 26, 13 and 26, 14. Large ones of 3 channels, forward, 64 x 3 x 224^2, 7 x 7 taps, stride 2:
    530, 743.
    """
    if not p.float32 or p.groups > 1 or not has_cudnn(p):
        return False
    stride, dilation = max(p.stride), max(p.dilation)
    enough = min(p.x.shape[1], p.y.shape[1], p.group_channels) >= LEAST_CHANNELS
    if p.multiply_adds >= LARGE:
        return enough if p.kind == "forward" else p.windows and stride == 1
    return enough and (
        p.kind != "weight"
        or p.windows
        and stride == dilation == 1
        and p.multiply_adds <= MOST_WEIGHT_WORK
    )


def dgrad_is_direct(p: Problem, single: bool = False) -> bool:
    """Whether one launch of the direct kernel takes less time than the products of the residues.
    single: than one launch of cuDNN's; without a stride there is one product anyway."""
    terms = p.group_outputs * meeting_taps(p)
    if single or max(p.stride) == 1:
        most = DGRAD_DIRECT_WORK_ALONE
    else:
        most = DGRAD_DIRECT_WORK_NHWC if p.channels_last else DGRAD_DIRECT_WORK
    return terms <= DGRAD_DIRECT_TERMS and p.x.size * terms <= most


def is_little(p: Problem) -> bool:
    """Whether one launch of a direct kernel takes less time than any other version."""
    if p.kind == "input":
        return dgrad_is_direct(p, float32_suits_cudnn(p))
    return p.multiply_adds <= DIRECT if p.kind == "weight" else is_small(p.terms, p.multiply_adds)


def prefers_depthwise_nhwc(p: Problem) -> int:
    return YES if p.groups > 1 and p.channels_last and p.itemsize <= 4 else NEVER


def prefers_depthwise_nchw(p: Problem) -> int:
    nhwc = p.kind != "weight" and prefers_depthwise_nhwc(p)
    return YES if p.groups > 1 and not nhwc else NEVER


def prefers_wgrad_few_channels(p: Problem) -> int:
    """float32 in C order: groups always, one group from a certain size on."""
    if p.itemsize != 4 or not p.contiguous or p.groups > 1 and is_depthwise(p):
        return NEVER
    if p.groups > 1:
        return YES
    return (
        YES
        if not p.tf32
        and not is_little(p)
        and p.multiply_adds >= WGRAD_FEW_WORK
        and p.group_outputs >= WGRAD_FEW_OUTPUTS
        and p.capability >= (8, 0)
        else NEVER
    )


def prefers_dgrad_few_channels(p: Problem) -> int:
    pays = p.multiply_adds >= DGRAD_FEW_WORK and (p.float32 or max(p.stride) > 1)
    return YES if pays else NEVER


def prefers_folding_4x4(p: Problem) -> int:
    return YES if p.multiply_adds >= DGRAD_FOLDED_WORK else NEVER


def prefers_folding_2x2(p: Problem) -> int:
    return NEVER if is_little(p) else YES


def prefers_method(p: Problem, method: str, rank: int = YES) -> int:
    """The rank of one of the versions for 16-bit numbers: FASTEST by a measurement, or `rank`."""
    if is_little(p):
        return NEVER
    return FASTEST if p.itemsize == 2 and p.measured == method else rank


def prefers_pointwise_cublas(p: Problem) -> int:
    if p.itemsize != 4:
        return prefers_method(p, "pointwise_cublas", NEVER)
    if not p.float32 or is_little(p):
        return NEVER
    large = p.kind == "input" and max(p.stride) > 1 and p.multiply_adds >= LARGE
    return YES if large or p.measured == "pointwise_cublas" else NEVER


def prefers_im2col(p: Problem) -> int:
    suits = p.float32 and not is_little(p) and p.measured == "im2col_cublas"
    return YES if suits else NEVER


def sm90_beats_library(p: Problem) -> bool:
    """Whether TMA and wgmma are faster than the library where nothing was measured: with windows or
    strides; for weight gradients where taps that share pixels fill the device."""
    if not has_sm90(p) or p.itemsize == 2 and p.measured:
        return False
    if p.kind != "weight":
        return p.windows or max(p.stride) > 1
    from .wgrad_sm90_shared_taps import fills_device

    return fills_device(p)


def prefers_sm90(p: Problem) -> int:
    if is_little(p):
        return NEVER
    return prefers_method(p, "sm90", FASTER if sm90_beats_library(p) else YES)


def prefers_pairs(p: Problem) -> int:
    """Where tiles of 128 x 128 are full, and two blocks for each do not exceed the device."""
    outputs, channels = p.weight.shape[:2]
    tiles = blocks(outputs, 128) * blocks(channels, 128)
    suits = min(outputs, channels) >= 128 and 2 * tiles <= multiprocessors(p.device)
    return prefers_sm90(p) if suits else NEVER


def prefers_sm80(p: Problem) -> int:
    return prefers_method(p, "sm80")


def prefers_pointwise_matmul(p: Problem) -> int:
    return prefers_method(p, "pointwise_matmul")


def prefers_cudnn(p: Problem) -> int:
    """The library's place among the versions that support a problem."""
    if p.groups > 1 and is_depthwise(p):
        if p.kind != "weight" and prefers_depthwise_nhwc(p):
            return YES if p.kind == "input" or p.itemsize == 4 else FASTER  # 0.6 to 0.75 of ours
        return YES if p.operands[0].contiguous else FASTER
    if p.kind == "weight" and wgrad_has_few_channels(p) and prefers_wgrad_few_channels(p):
        return NEVER if p.groups > 1 else YES
    if p.kind == "input" and (
        folds_4x4(p)
        and prefers_folding_4x4(p)
        or dgrad_has_few_channels(p)
        and prefers_dgrad_few_channels(p)
    ):
        return YES
    if p.itemsize == 8 or is_little(p):
        return NEVER
    if p.kind != "input" and folds_2x2(p):
        return YES if p.multiply_adds >= LARGE else FASTER
    if p.float32:
        fastest = p.measured != "simt" if p.measured else float32_suits_cudnn(p)
        return YES if fastest else NEVER
    if p.itemsize == 2 and p.measured:
        return prefers_method(p, "cudnn")
    return FASTER


def prefers_fprop_tiles(p: Problem) -> int:
    pay = tiles_pay(p.group_outputs, p.terms, p.y.size)
    return YES if pay and not is_small(p.terms, p.multiply_adds) else NEVER


def prefers_dgrad_tiles(p: Problem) -> int:
    terms = p.group_outputs * p.taps[0] * p.taps[1] * p.group_channels
    pay = tiles_pay(p.group_channels, terms // (p.stride[0] * p.stride[1]), p.x.size)
    return YES if pay and not dgrad_is_direct(p) else NEVER


def prefers_wgrad_tiles(p: Problem) -> int:
    return YES if p.group_outputs >= LEAST_OUTPUTS and p.multiply_adds > DIRECT else NEVER


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

# versions of several tables
POINTWISE_CUBLAS = Version(
    "pointwise_cublas",
    "conv.pointwise.by_cublas",
    is_product_cublas,
    prefers_pointwise_cublas,
    MEASURED,
)
POINTWISE_MATMUL = Version(
    "pointwise_matmul",
    "conv.pointwise.by_matmul",
    is_product_sm90,
    prefers_pointwise_matmul,
    "filters of one tap: one product of matrices",
)
CUDNN = Version("cudnn", "conv.cudnn.convolution", has_cudnn, prefers_cudnn, LIBRARY)

FORWARD = (
    Version(
        "fprop_depthwise_nhwc",
        "conv.depthwise_nhwc.forward",
        is_depthwise,
        prefers_depthwise_nhwc,
        BY_STRIPS,
    ),
    Version(
        "fprop_depthwise_nchw",
        "conv.depthwise_nchw.forward",
        is_depthwise,
        prefers_depthwise_nchw,
        BY_STRIPS,
    ),
    Version(
        "fprop_space_to_depth",
        "conv.space_to_depth.forward",
        folds_2x2,
        prefers_folding_2x2,
        FOLDED,
    ),
    POINTWISE_CUBLAS,
    Version("im2col_cublas", "conv.im2col_cublas.forward", im2col_fits, prefers_im2col, MEASURED),
    POINTWISE_MATMUL,
    Version(
        "fprop_sm90_resident_filters",
        "conv.fprop_dgrad_sm90_resident_filters.forward",
        filters_may_stay,
        prefers_sm90,
        f"{TMA}; filters stay in shared memory",
    ),
    Version("fprop_sm90", "conv.fprop_dgrad_sm90.forward", has_sm90, prefers_sm90, TMA),
    Version("fprop_sm80", "conv.fprop_dgrad_sm80.forward", has_sm80, prefers_sm80, MMA),
    CUDNN,
    Version("fprop_simt", "conv.fprop_simt.forward", fprop_fits_tiles, prefers_fprop_tiles, TILES),
    Version("fprop_direct", "conv.direct.forward", reason=LITTLE),
)

INPUT_GRADIENT = (
    Version(
        "dgrad_depthwise_nhwc",
        "conv.depthwise_nhwc.input_gradient",
        is_depthwise,
        prefers_depthwise_nhwc,
        BY_STRIPS,
    ),
    Version(
        "dgrad_depthwise_nchw",
        "conv.depthwise_nchw.input_gradient",
        is_depthwise,
        prefers_depthwise_nchw,
        BY_STRIPS,
    ),
    Version(
        "dgrad_space_to_depth",
        "conv.dgrad_space_to_depth.input_gradient",
        folds_4x4,
        prefers_folding_4x4,
        FOLDED,
    ),
    Version(
        "dgrad_few_channels",
        "conv.dgrad_few_channels.input_gradient",
        dgrad_has_few_channels,
        prefers_dgrad_few_channels,
        FEW_CHANNELS,
    ),
    POINTWISE_CUBLAS,
    Version(
        "im2col_cublas",
        "conv.im2col_cublas.input_gradient",
        im2col_fits,
        prefers_im2col,
        MEASURED,
    ),
    POINTWISE_MATMUL,
    Version(
        "dgrad_sm90_resident_filters",
        "conv.fprop_dgrad_sm90_resident_filters.input_gradient",
        filters_may_stay,
        prefers_sm90,
        f"{TMA}; filters stay in shared memory",
    ),
    Version("dgrad_sm90", "conv.fprop_dgrad_sm90.input_gradient", has_sm90, prefers_sm90, TMA),
    Version("dgrad_sm80", "conv.fprop_dgrad_sm80.input_gradient", has_sm80, prefers_sm80, MMA),
    Version("cudnn", "conv.cudnn.input_gradient", has_cudnn, prefers_cudnn, LIBRARY),
    Version(
        "dgrad_simt",
        "conv.dgrad_simt.input_gradient",
        dgrad_fits_tiles,
        prefers_dgrad_tiles,
        TILES,
    ),
    Version("dgrad_direct", "conv.dgrad_simt.direct", reason=LITTLE),
)

WEIGHT_GRADIENT = (
    Version(
        "wgrad_depthwise_nchw",
        "conv.depthwise_nchw.weight_gradient",
        is_depthwise,
        prefers_depthwise_nchw,
        BY_STRIPS,
    ),
    Version(
        "wgrad_few_channels",
        "conv.wgrad_few_channels.weight_gradient",
        wgrad_has_few_channels,
        prefers_wgrad_few_channels,
        FEW_CHANNELS,
    ),
    Version(
        "wgrad_space_to_depth",
        "conv.space_to_depth.weight_gradient",
        folds_2x2,
        prefers_folding_2x2,
        FOLDED,
    ),
    POINTWISE_CUBLAS,
    POINTWISE_MATMUL,
    Version(
        "wgrad_sm90_pointwise",
        "conv.wgrad_sm90_pointwise.weight_gradient",
        has_pairs,
        prefers_pairs,
        f"{TMA}; two blocks exchange the halves of a tile",
    ),
    Version(
        "wgrad_sm90_shared_taps",
        "conv.wgrad_sm90_shared_taps.weight_gradient",
        taps_may_share,
        prefers_sm90,
        f"{TMA}; the taps of a row share their pixels",
    ),
    Version("wgrad_sm90", "conv.wgrad_sm90.weight_gradient", has_sm90, prefers_sm90, TMA),
    Version("wgrad_sm80", "conv.wgrad_sm80.weight_gradient", has_sm80, prefers_sm80, MMA),
    CUDNN,
    Version(
        "wgrad_simt",
        "conv.wgrad_simt.weight_gradient",
        wgrad_fits_tiles,
        prefers_wgrad_tiles,
        TILES,
    ),
    Version("wgrad_direct", "conv.wgrad_simt.direct", reason=LITTLE),
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
