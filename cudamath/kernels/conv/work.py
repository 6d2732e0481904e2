"""What each version of a convolution does on a problem (lib/prediction.py): from that the planner
predicts its time.

A convolution or a gradient is `count` products of matrices, see `product_of`. A version for tiles
counts the cycles of its own tiles; the libraries, whose tiles nobody knows, those of common ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...core.layout import is_channels_last
from ..lib.integers import blocks
from ..lib.prediction import Machine, Tiles, Work, tiled
from ..matmul.problem import Problem as MatmulProblem
from ..matmul.problem import transpose
from .problem import Problem, meeting_taps


class Product(NamedTuple):
    """rows x columns results with sums of channels x taps terms, `count` times."""

    rows: int
    columns: int
    channels: int
    taps: float
    count: int


def product_of(p: Problem) -> Product:
    """The products that a problem is. A gradient of images with a stride is one for each residue of
    its rows and columns that meets taps; a weight gradient sums over positions."""
    taps = math.prod(p.taps)
    if p.kind == "forward":
        return Product(p.group_outputs, p.positions, p.group_channels, taps, p.groups)
    if p.kind == "weight":
        return Product(p.group_outputs, p.group_channels * taps, p.positions, 1, p.groups)
    pixels = p.x.size // max(p.x.shape[1], 1)
    met = math.prod(min(s, n) for s, n in zip(p.stride, p.taps, strict=True))
    columns = blocks(pixels, math.prod(p.stride))
    return Product(p.group_channels, columns, p.group_outputs, taps / met, p.groups * met)


def traffic(p: Problem, last: bool | None = None) -> tuple[float, int]:
    """(bytes moved, launches besides the version's own). last: the order in which the version reads
    and writes, channels last or C order; arrays that lie otherwise are copied, and the bias of a
    gradient is added by another launch. By default any order, and the version adds it."""
    layouts = (*p.operands, p.out)
    moved = sum(layout.size for layout in layouts)
    if last is None:
        return p.itemsize * moved, 0
    lies = is_channels_last if last else (lambda layout: layout.contiguous)
    passes = [layout.size for layout in layouts if not lies(layout)]
    if p.bias is not None and p.kind == "input":
        passes.append(p.out.size)
    return p.itemsize * (moved + 2 * sum(passes)), len(passes)


def _named(method: str, p: Problem) -> str:
    """The kind of rates of a method whose kernels differ by direction and dtype."""
    strided = " strided" * (p.kind == "input" and max(p.stride) > 1)
    numbers = "tf32" if p.tf32 and p.itemsize == 4 else f"{8 * p.itemsize}-bit"
    return f"{method} {p.kind}{strided} {numbers}"


def _by_tiles(
    method: str,
    p: Problem,
    tiles: Tiles,
    tensor: bool,
    *,
    pad: int = 1,
    whole: int = 1,
    last: bool | None = None,
    launches: int = 1,
    longer: float = 1.0,
) -> Work:
    """The work of a version that cuts its products into tiles. pad: the channels of a step, to
    whose multiple those of a tap are filled up; whole: the same of a weight gradient's channels;
    longer: how many times the sums are longer than the problem's."""
    machine, product = Machine.of(p.device), product_of(p)
    if p.kind == "weight":
        columns = blocks(p.group_channels, whole) * whole * math.prod(p.taps)
        product = product._replace(columns=columns)
    inner = math.ceil(product.taps * blocks(product.channels, pad) * pad * longer)
    rate = machine.rate(p.dtype, tensor) / (2 if tensor and p.tf32 and p.itemsize == 4 else 1)
    cycles, splits = tiled(
        tiles,
        product.rows,
        product.columns,
        inner,
        product.count,
        machine.multiprocessors,
        rate,
    )
    moved, more = traffic(p, last)
    if splits > 1:
        moved, more = moved + 8 * splits * p.out.size, more + 1
    return Work(method, cycles, moved, launches + more)


# -------------------- tensor cores

SPLITS = (1, 2, 4, 8, 16, 32, 64)
SM90_SIZES = tuple((m, n) for m in (64, 128, 256) for n in range(64, 257, 32) if m * n <= 32768)


def _depth(p: Problem) -> int:
    """Channels of a step of fprop_dgrad_sm90.py."""
    channels = product_of(p).channels
    return next(d for d in (16, 32, 64) if channels <= d or d == 64)


def sm90(p: Problem) -> Work:
    """fprop_dgrad_sm90.py."""
    depth = _depth(p)
    return _by_tiles(
        _named("sm90", p), p, Tiles(SM90_SIZES, depth, feed=24), True, pad=depth, last=True
    )


def sm90_resident_filters(p: Problem) -> Work:
    """fprop_dgrad_sm90_resident_filters.py: no step brings filters, and one warpgroup stores while
    the other multiplies."""
    tiles = Tiles([(64, 128), (128, 128)], 64, 10, end=100, store=100)
    return _by_tiles("sm90_resident_filters", p, tiles, True, pad=64, last=True)


def sm90_weights(p: Problem) -> Work:
    """wgrad_sm90.py."""
    tiles = Tiles([(64, 256), (128, 128), (128, 256)], 64, end=4000, feed=24, splits=SPLITS)
    return _by_tiles("sm90_weights", p, tiles, True, whole=64, last=True)


def sm90_shared_taps(p: Problem) -> Work:
    """wgrad_sm90_shared_taps.py: a tile has a row of taps, or three rows; rows of pixels are longer
    by a step along them."""
    wide = max(p.y.shape[-1], 1)
    tiles = Tiles([(64, 192), (128, 192), (64, 576)], 64, end=4000, feed=48, splits=SPLITS)
    longer = (wide + 1) / wide
    return _by_tiles("sm90_shared_taps", p, tiles, True, whole=64, last=True, longer=longer)


def sm90_pairs(p: Problem) -> Work:
    """wgrad_sm90_pointwise.py: a pair of blocks has a tile."""
    tiles = Tiles([(128, 128)], 64, end=2000, feed=24, splits=(2, *SPLITS[2:]))
    return _by_tiles("sm90_pairs", p, tiles, True, last=True)


def sm80(p: Problem) -> Work:
    """fprop_dgrad_sm80.py and wgrad_sm80.py."""
    sizes = [(64, 128), (128, 128)] if p.kind != "weight" else [(128, 128)]
    splits = SPLITS if p.kind == "weight" else (1,)
    launches = math.prod(p.stride) if p.kind == "input" else 1
    tiles = Tiles(sizes, 32, 200, resident=2, splits=splits)
    return _by_tiles("sm80", p, tiles, True, last=True, launches=launches)


def space_to_depth(p: Problem) -> Work:
    """space_to_depth.py and dgrad_space_to_depth.py: folded pixels have 16 channels (of 2 x 2), or
    the filters 16 times the outputs (4 x 4); each array is copied once more."""
    machine = Machine.of(p.device)
    fold = 4 if p.kind == "input" else 2
    taps = math.prod(blocks(n, fold) + 1 for n in p.taps)
    pixels = (p.x.size // max(p.x.shape[1], 1)) // fold**2
    outputs = p.weight.shape[0]
    tiles = Tiles(SM90_SIZES, 16, feed=24, splits=SPLITS if p.kind == "weight" else (1,))
    sizes = {
        "forward": (outputs, p.positions, 16 * taps),
        "input": (64, pixels, blocks(outputs, 16) * 16 * taps),
        "weight": (outputs, 16 * taps, p.positions),
    }[p.kind]
    cycles, _ = tiled(tiles, *sizes, 1, machine.multiprocessors, machine.rate(p.dtype, True))
    moved, more = traffic(p, True)
    return Work(f"space_to_depth {p.kind}", cycles, moved + 2 * pixels * 4 * fold**2 * 2, 3 + more)


# -------------------- any device


def simt(p: Problem) -> Work:
    """fprop_simt.py, dgrad_simt.py, wgrad_simt.py."""
    rows = product_of(p).rows
    sizes = [(32 if rows <= 32 else 64 if rows <= 64 else 128, 128)]
    if p.itemsize == 8:
        sizes = [(32, 128)]
    phases = math.prod(p.stride) if p.kind == "input" else 1
    parts = SPLITS[:4] if p.groups == phases == 1 and p.itemsize == 4 else (1,)
    splits = SPLITS if p.kind == "weight" else parts
    launches = 3 if p.kind == "weight" else 1 + phases
    tiles = Tiles(sizes, 8, 300, resident=2, splits=splits)
    return _by_tiles(_named("simt", p), p, tiles, False, launches=launches)


LANES, ENOUGH = 16, 1 << 16  # threads that share a result, and that fill the device (direct.py)


def direct(p: Problem) -> Work:
    """direct.py and the kernels alike in dgrad_simt.py and wgrad_simt.py: each product costs two
    loads, and a thread waits for its own."""
    results = p.out.size
    terms = {
        "forward": p.terms,
        "weight": p.positions,
        "input": p.group_outputs * meeting_taps(p),
    }[p.kind]
    lanes = 256 if p.kind == "weight" else max(1, min(LANES, ENOUGH // max(results, 1), terms // 8))
    machine = Machine.of(p.device)
    alone = blocks(terms, lanes) * 300
    together = 16 * results * terms / (machine.multiprocessors * machine.rate(p.dtype, False))
    moved, more = traffic(p)
    return Work(f"direct {p.kind}", 1500 + alone + together, moved, 1 + more)


def _strips(method: str, p: Problem, last: bool | None, launches: int) -> Work:
    """Versions that keep strips of results in registers: arithmetic beside tensor cores."""
    machine = Machine.of(p.device)
    cycles = p.multiply_adds / (machine.multiprocessors * machine.rate(p.dtype, False))
    if p.kind == "input":
        cycles /= math.prod(p.stride)
    moved, more = traffic(p, last)
    return Work(_named(method, p), cycles, moved, launches + more)


def depthwise_nchw(p: Problem) -> Work:
    """depthwise_nchw.py."""
    return _strips("depthwise_nchw", p, False, 1 + (p.kind == "weight"))


def depthwise_nhwc(p: Problem) -> Work:
    """depthwise_nhwc.py."""
    return _strips("depthwise_nhwc", p, True, 1)


def few_channels(p: Problem) -> Work:
    """dgrad_few_channels.py and wgrad_few_channels.py."""
    grouped = " grouped" if p.groups > 1 else ""
    work = _strips("few_channels", p, False, 2)
    return work._replace(rates=f"few_channels {p.kind}{grouped}")


# -------------------- libraries

BLAS_SIZES = ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128))


def pointwise_matmul(p: Problem) -> Work:
    """pointwise.py by matmul/sm90.py."""
    splits = SPLITS[:4] if p.kind == "weight" else (1,)
    tiles = Tiles(BLAS_SIZES, 64, feed=24, splits=splits)
    method = "pointwise_matmul weight" if p.kind == "weight" else "pointwise_matmul"
    return _by_tiles(method, p, tiles, True, last=True)


def pointwise_cublas(p: Problem) -> Work:
    """pointwise.py by cuBLAS."""
    if p.itemsize == 2:
        tiles = Tiles(BLAS_SIZES, 64, feed=24, splits=SPLITS)
        return _by_tiles("pointwise_cublas", p, tiles, True, last=True)
    tiles = Tiles(BLAS_SIZES[:4], 8, 100, resident=2, splits=SPLITS)
    work = _by_tiles("pointwise_cublas float32", p, tiles, p.itemsize == 8, last=False)
    if p.kind == "weight":  # products image by image, then added
        work = work._replace(
            moved=work.moved + 2 * p.x.shape[0] * p.out.size * p.itemsize,
            launches=work.launches + 1,
        )
    if p.kind == "input" and max(p.stride) > 1:
        work = work._replace(moved=work.moved + p.itemsize * p.y.size, launches=work.launches + 2)
    return work


def image_product(problem: Problem) -> MatmulProblem:
    """The product of filters (or their transpose) and each image."""
    images, weight = problem.operands
    count, channels = images.shape[:2]
    each = images.like((count, channels, math.prod(images.shape[2:])))
    filters = weight.like(weight.shape[:2])
    return MatmulProblem(transpose(filters) if problem.kind == "input" else filters, each)


def image_products(p: Problem) -> Work:
    """pointwise.py, a weight gradient of 16-bit images in C order by cuBLAS: products image by
    image in float32, then added."""
    machine, taps = Machine.of(p.device), math.prod(p.y.shape[2:])
    count, outputs, channels = p.x.shape[0], p.y.shape[1], p.x.shape[1]
    cycles, _ = tiled(
        Tiles(BLAS_SIZES, 64, feed=24),
        *(outputs, channels, taps, count, machine.multiprocessors),
        machine.rate(p.dtype, True),
    )
    moved, more = traffic(p, False)
    partial = 4 * count * p.out.size
    return Work("pointwise_cublas images", cycles, moved + 2 * partial, 2 + more)


def im2col(p: Problem) -> Work:
    """im2col_cublas.py: windows are written and read, results copied once more."""
    tiles = Tiles(BLAS_SIZES[:4], 8, 100, resident=2, splits=SPLITS)
    work = _by_tiles("im2col_cublas", p, tiles, False, last=False, launches=3 + any(p.padding) * 2)
    product = product_of(p)
    windows = product.columns * product.channels * math.prod(p.taps)
    framed = 2 * p.operands[0].size * any(p.padding)
    moved = work.moved + p.itemsize * (2 * windows + framed + 2 * p.out.size)
    return work._replace(moved=moved)


FEW = 8  # channels below which tiles of tensor cores stay empty


def _kind_of_library(p: Problem) -> str:
    """What the library has kernels of its own for, or lacks them."""
    if p.groups > 1 and p.group_channels == 1:
        return " depthwise"
    if p.groups > 1:
        return " grouped"
    channels = p.x.shape[1], p.y.shape[1]
    if min(channels) < FEW:
        return " few"
    return " odd" if p.itemsize == 2 and any(c % FEW for c in channels) else " dense"


def cudnn(p: Problem) -> Work:
    """cudnn.py: by the library's own choice of a plan."""
    tensor = p.itemsize == 2 or p.tf32 and p.itemsize == 4
    last = p.itemsize == 2 or not (p.contiguous and p.out.contiguous)
    name = f"{_named('cudnn', p)}{_kind_of_library(p)}"
    if _kind_of_library(p) == " depthwise":
        return _strips("cudnn", p, last, 1)._replace(rates=name)
    if not tensor and last:
        name += " last"  # channels
    sizes = BLAS_SIZES if tensor else BLAS_SIZES[:4]
    if p.groups > 1:
        sizes = ((16, 128), (32, 128), *BLAS_SIZES[:4])
    depth = 64 if tensor else 8
    splits = SPLITS if p.kind == "weight" or not tensor else (1,)
    feed = 24 if tensor and p.groups == 1 else 0
    tiles = Tiles(sizes, depth, 100, feed=feed, splits=splits)
    return _by_tiles(
        name, p, tiles, tensor, pad=8 if tensor and p.kind != "weight" else 1, last=last
    )


#: Fourier's transforms of square tiles: their side, and Winograd's of 4 x 4 results of 3 x 3 taps.
FOURIER, WINOGRAD = (16, 32), 4


def transforms(p: Problem) -> Work:
    """cudnn.py, by Winograd's or Fourier's transforms. A tile costs its products of channels and
    outputs, one for each frequency, whatever the number of taps; transformed arrays are written and
    read."""
    machine, reach = Machine.of(p.device), max(p.taps)
    images, outputs, *size = p.y.shape
    channels = p.group_channels
    per_cycle = machine.multiprocessors * machine.rate(p.dtype, False)
    ways = [(side - reach + 1, side * (side // 2 + 1), 4) for side in FOURIER if side > reach]
    if p.kind == "weight" and reach == 3:
        ways = [(WINOGRAD, (WINOGRAD + 2) ** 2, 1)]
    found = []
    for own, frequencies, products in ways:  # products of real numbers for one of frequencies
        tiles = images * math.prod(blocks(n, own) for n in size)
        cycles = tiles * channels * outputs * frequencies * products / per_cycle
        numbers = frequencies * (tiles * (channels + outputs) + channels * outputs)
        found.append((cycles, numbers * (2 if products > 1 else 1)))
    cycles, numbers = min(found)
    moved, more = traffic(p, False)
    return Work(f"transforms {p.kind}", cycles, moved + 2 * p.itemsize * numbers, 4 + more)
