"""The common part of the convolutions by TMA and wgmma: counting tiles and pixels, storing sums,
and the TMA descriptors of images and filters.

The kernels are fprop_dgrad_sm90.py (any filters), fprop_dgrad_sm90_resident_filters.py (few
filters), and for weight gradients wgrad_sm90.py and wgrad_sm90_shared_taps.py. All have one
structure: a block has three warpgroups, one thread of the first fills the ring of stages, the other
two multiply (lib/tma_pipeline.py explains rings and descriptors).
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg, TensorMap
from ...core.dtypes import bfloat16
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, types
from .fprop_dgrad_sm80 import quad_columns
from .implicit_gemm import Product
from .problem import Pair

if not SIMULATOR:
    from ..ptx import vector_access


if not SIMULATOR:
    from ..ptx import sm80 as ptx_sm80

THREADS = 384  # three warpgroups
i32 = types.int32


# -------------------- counting


@device_function
def place_of(tile, product_tiles, group_tiles, across_tiles):
    """(product or split, group, row, column) of a tile, of which there are so many in a product, in
    a group, in a row."""
    product = ptx_sm80.divide_unsigned(tile, product_tiles)
    rest = i32(tile - product * product_tiles)
    group = ptx_sm80.divide_unsigned(rest, group_tiles)
    rest = i32(rest - group * group_tiles)
    row = ptx_sm80.divide_unsigned(rest, across_tiles)
    return product, group, row, i32(rest - row * across_tiles)


@device_function
def pixel_of(at, area, width):
    """(image, row, column) of a pixel, of which there are `area` in an image and `width` in a
    row."""
    image = ptx_sm80.divide_unsigned(at, area)
    rest = i32(at - image * area)
    row = ptx_sm80.divide_unsigned(rest, width)
    return image, row, i32(rest - row * width)


@device_function
def skip(stage, phase, count, stages):
    """The position in a ring `count` stages on. The number of stages is a constant, so the compiler
    divides by multiplying."""
    at, all_stages = types.uint32(stage + count), types.uint32(stages)
    return i32(at % all_stages), i32((phase + at // all_stages) & 1)


# -------------------- storing sums


@functools.cache
def outputs_of_pixel(dtype: np.dtype) -> Any:
    """A device function that rounds eight of a thread's sums for storing: (sums, index of the
    first, lane) -> four registers.

    They are, of outputs r and r + 8, two pixels each and the two eight pixels on. Transposed, 8 x 8
    numbers at a time, they are two outputs of one pixel; after two exchanges each of four
    neighbouring lanes holds eight outputs of one pixel, 16 bytes; odd lanes the eight upper
    outputs, lanes 2 and 3 the pixels eight on."""
    pack = ptx_sm80.pack_bf16 if dtype == bfloat16 else ptx_sm80.pack_f16
    transpose, turn = ptx_sm80.transpose_tile, quad_columns()

    @device_function
    def outputs_of_pixel(sums, e, lane):
        return turn(
            transpose(pack(sums[e], sums[e + 1])),
            transpose(pack(sums[e + 2], sums[e + 3])),
            transpose(pack(sums[e + 4], sums[e + 5])),
            transpose(pack(sums[e + 6], sums[e + 7])),
            lane,
        )

    return outputs_of_pixel


@device_function
def store_channels(partial, to, sums, e, channel, channels):
    """A thread's sums for one output and 64 channels under a tap, pairs eight channels apart, to
    float32 from `to` on: as many as there are, of which the first is number `channel`."""
    for k in range(8):
        if channel + 8 * k < channels:
            vector_access.store_vector(partial, to + 8 * k, (sums[e + 4 * k], sums[e + 4 * k + 1]))


# -------------------- descriptors of TMA


def reach(product: Product, size: Pair) -> tuple[Pair, Pair]:
    """The corners of the box of windows, as TMA takes them: of the first window, and of the last
    before the far edge."""
    lower = product.rows.start, product.columns.start
    bottom, right = [
        (product.size[1 + i] - 1) * walk.step + 1 + walk.start - size[i]
        for i, walk in enumerate((product.rows, product.columns))
    ]
    return lower, (bottom, right)


def possible(product: Product, size: Pair) -> bool:
    """Whether corners, steps and offsets lie within the bits that TMA has for them."""
    lower, upper = reach(product, size)
    return (
        all(-128 <= c <= 127 for c in (*lower, *upper))
        and max(product.rows.step, product.columns.step) <= 8
        and all(
            (n - 1) * walk.tap <= 255
            for n, walk in zip(product.taps, (product.rows, product.columns), strict=True)
        )
    )


def map_of_images(
    images: ArrayArg,
    shape: tuple[int, ...],
    box: Pair,
    corners: tuple[Pair, Pair],
    steps: Pair,
    dtype: np.dtype,
) -> TensorMap:
    """Images (N, C, H, W), channels last, of which TMA loads runs of pixels in its im2col mode.
    box: (pixels, channels); corners: see `reach`; steps: from window to window, down and right."""
    number, channels, height, width = shape
    strides = tuple(
        [dtype.itemsize * n for n in (height * width * channels, width * channels, channels, 1)]
    )
    return TensorMap(
        images,
        (number, height, width, channels),
        strides,
        box,
        dtype.itemsize * box[1],
        (1, *steps, 1),
        *corners,
        dtype.name,
    )


def map_of_filters(
    filters: ArrayArg,
    shape: tuple[int, ...],
    outputs: int,
    depth: int,
    across: bool,
    dtype: np.dtype,
) -> TensorMap:
    """Filters (K, C, R, S), channels last, of which TMA loads those of one tap: boxes of `outputs`
    rows of `depth` channels; across (rows are then summed): of `depth` rows of 64."""
    rows, channels, taps = shape[0], shape[1], shape[2] * shape[3]
    strides = tuple([dtype.itemsize * n for n in (taps * channels, channels, 1)])
    box = (depth, 1, 64) if across else (outputs, 1, depth)
    return TensorMap(
        filters, (rows, taps, channels), strides, box, dtype.itemsize * box[2], kind=dtype.name
    )
