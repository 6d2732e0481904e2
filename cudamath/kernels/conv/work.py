"""What each version of a convolution does on a problem (lib/prediction.py): from that the planner
predicts its time.

A convolution or a gradient is `count` products of matrices, see `product_of`. A version for tiles
counts the cycles of its own tiles; the libraries, whose tiles nobody knows, those of common ones.
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
from typing import NamedTuple

from ...core.layout import is_channels_last
from ...runtime import cudnn as library
from ..lib.integers import blocks
from ..lib.prediction import Machine, Tiles, Work, has_rates, microseconds, tiled
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
    gradient is added by another launch. By default any order, and the version adds it. Strides that
    are longer than filters leave pixels out."""
    layouts = (*p.operands, p.out)
    met = math.prod(min(1.0, n / s) for s, n in zip(p.stride, p.taps, strict=True))
    moved = sum(layout.size * (met if layout is p.x else 1.0) for layout in p.operands)
    moved += p.out.size
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
    return f"{method} {p.kind}{strided} {_numbers(p)}"


def _numbers(p: Problem) -> str:
    """Numbers, as kinds of rates have them."""
    return "tf32" if p.tf32 and p.itemsize == 4 else f"{8 * p.itemsize}-bit"


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
        machine,
        rate,
    )
    moved, more = traffic(p, last)
    if splits > 1:
        moved, more = moved + 8 * splits * p.out.size, more + 1
    return Work(method, cycles, moved, launches + more)


NARROW = 3.0  # what a copy of less than 8 channels costs more than its bytes

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
    """Folded pixels have 16 channels (of 2 x 2), or the filters 16 times the outputs (4 x 4); each
    array is copied once more."""
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
    cycles, _ = tiled(tiles, *sizes, 1, machine, machine.rate(p.dtype, True))
    moved, more = traffic(p, True)
    folded = NARROW * 2 * p.itemsize * pixels * 4 * fold**2
    return Work(f"space_to_depth {p.kind}", cycles, moved + folded, 3 + more)


# -------------------- any device


MOST_SPLITS = 16
ALONE = 0.7  # time of a block with a multiprocessor to itself, relative to two that share one
RATE = 4  # taps a microsecond of two blocks that share one (NVIDIA H200)
MEMORY = 2e6  # bytes of partial sums a microsecond: half the bandwidth of a copy


def choose_splits(tiles: int, channels: int, area: int, results: int, many: int) -> int:
    """Into how many parts the sums over `channels` of `area` taps each are split, for least time:
    waves of two blocks a multiprocessor, of which there are `many`, then the parts written and
    read."""

    def cost(splits: int) -> float:
        waves = ALONE if tiles * splits <= many else blocks(tiles * splits, 2 * many)
        return waves * (channels // splits) * area / RATE + (splits > 1) * (
            5 + 8 * splits * results / MEMORY
        )

    return min(
        (
            n
            for n in range(1, MOST_SPLITS + 1)
            if channels % n == 0 and channels * area >= 256 * n or n == 1
        ),
        key=cost,
    )


def simt(p: Problem) -> Work:
    """fprop_simt.py, dgrad_simt.py, wgrad_simt.py."""
    product = product_of(p)
    rows, columns = product.rows, product.columns
    sizes = [(32 if rows <= 32 else 64 if rows <= 64 else 128, 128)]
    if p.itemsize == 8:
        sizes = [(32, 128)]
    phases = math.prod(p.stride) if p.kind == "input" else 1
    splits: tuple[int, ...] = SPLITS
    if p.kind != "weight":
        many = Machine.of(p.device).multiprocessors
        number, area = blocks(rows, 128) * blocks(columns, 128), math.prod(p.taps)
        whole = p.groups == phases == 1 and p.itemsize == 4 and rows > 64 and p.out.size % 4 == 0
        alone = p.bias is None or p.kind == "input"
        parts = choose_splits(number, product.channels, area, p.out.size, many)
        splits = (parts if whole and alone else 1,)
    launches = 3 if p.kind == "weight" else 1 + phases
    tiles = Tiles(sizes, 8, 300, resident=2, splits=splits)
    return _by_tiles(_named("simt", p), p, tiles, False, launches=launches)


LANES, ENOUGH = 16, 1 << 16  # threads that share a result, and that fill the device (direct.py)


def direct(p: Problem) -> Work:
    """direct.py and the kernels alike in dgrad_simt.py and wgrad_simt.py: a thread finds the places
    of its result, then each product costs two loads, twice as long where neighbours do not lie side
    by side. In weight gradients 256 threads share a result, and add up their sums at the end."""
    results, machine = p.out.size, Machine.of(p.device)
    if p.kind == "weight":
        alone = blocks(p.positions, 256) * 300
        each = 200 * (max(p.positions, 256) + 1024)
    else:
        terms = p.terms if p.kind == "forward" else p.group_outputs * meeting_taps(p)
        lanes = max(1, min(LANES, ENOUGH // max(results, 1), terms // 8))
        alone = 600 + blocks(terms, lanes) * 100
        side_by_side = p.kind == "forward" and p.contiguous and p.out.contiguous
        each = 1900 + (22 if side_by_side else 45) * terms
    together = results * each / (machine.multiprocessors * machine.rate(p.dtype, False))
    moved, more = traffic(p)
    return Work(f"direct {p.kind}", alone + together, moved, 1 + more)


def _strips(method: str, p: Problem, last: bool | None, launches: int) -> Work:
    """Versions that keep strips of results in registers: arithmetic beside tensor cores."""
    machine = Machine.of(p.device)
    cycles = p.multiply_adds / (machine.multiprocessors * machine.rate(p.dtype, False))
    if p.kind == "input":
        cycles /= math.prod(p.stride)
    moved, more = traffic(p, last)
    return Work(_named(method, p), cycles, moved, launches + more)


def depthwise_nchw(p: Problem) -> Work:
    """depthwise/nchw.py."""
    return _strips("depthwise_nchw", p, False, 1 + (p.kind == "weight"))


STRIP = 4  # rows and columns of results
INSTRUCTIONS = 128  # of threads, that a multiprocessor begins in a cycle


def depthwise_nhwc(p: Problem) -> Work:
    """depthwise/nhwc.py: a strip of results reads the pixels that it meets. Each takes some
    instructions besides those that multiply, and so does a result, which is stored or, in a weight
    gradient, read."""
    machine, (images, channels, *sizes) = Machine.of(p.device), p.y.shape
    steps = [(n, 1) for n in p.stride]
    if p.kind == "input":
        (images, channels, *sizes), steps = p.x.shape, [(1, n) for n in p.stride]
    pixels = multiplied = strips = 1.0
    for size, taps, apart, (down, up) in zip(sizes, p.taps, p.dilation, steps, strict=True):
        pixels *= ((STRIP - 1) * down + apart * (taps - 1)) // up + 1
        multiplied *= STRIP * taps / up
        strips *= blocks(size, STRIP)
    each = multiplied * INSTRUCTIONS / machine.rate(p.dtype, False) + 5 * pixels + 4 * STRIP**2
    cycles = images * channels * strips * each / (machine.multiprocessors * INSTRUCTIONS)
    moved, more = traffic(p, True)
    weight = p.kind == "weight"
    return Work(_named("depthwise_nhwc", p), cycles, moved, 1 + weight + more)


def few_channels(p: Problem) -> Work:
    """dgrad_few_channels.py and wgrad_few_channels.py."""
    grouped = " grouped" if p.groups > 1 else ""
    work = _strips("few_channels", p, False, 2)
    return work._replace(rates=f"few_channels {p.kind}{grouped} {8 * p.itemsize}-bit")


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
    if p.kind == "weight":
        return image_products(p)
    tiles = Tiles(BLAS_SIZES[:4], 8, 100, resident=2, splits=SPLITS)
    work = _by_tiles("pointwise_cublas float32", p, tiles, p.itemsize == 8, last=False)
    if p.kind == "input" and max(p.stride) > 1:
        work = work._replace(moved=work.moved + p.itemsize * p.y.size, launches=work.launches + 2)
    return work


def image_product(problem: Problem) -> MatmulProblem:
    """The product of filters (or their transpose) and each image. The transpose of filters of
    several taps has a row for each channel and tap."""
    images, weight = problem.operands
    count, channels = images.shape[:2]
    each = images.like((count, channels, math.prod(images.shape[2:])))
    filters = weight.like((weight.shape[0], weight.size // weight.shape[0]))
    return MatmulProblem(transpose(filters) if problem.kind == "input" else filters, each)


def image_products(p: Problem) -> Work:
    """pointwise.py, a weight gradient of images in C order by cuBLAS: products image by image,
    which the library does not split, then added."""
    machine, area = Machine.of(p.device), math.prod(p.y.shape[2:])
    count, outputs, channels = p.x.shape[0], p.y.shape[1], p.x.shape[1]
    tiles = Tiles(BLAS_SIZES, 64, feed=24)
    if p.itemsize > 2:
        tiles = Tiles(BLAS_SIZES[:4], 8, 100, resident=2, splits=SPLITS if count == 1 else (1,))
    cycles, _ = tiled(
        tiles,
        *(outputs, channels, area, count, machine),
        machine.rate(p.dtype, p.itemsize in (2, 8)),
    )
    moved, more = traffic(p, False)
    partial = 2 * max(p.itemsize, 4) * count * p.out.size
    numbers = "images" if p.itemsize == 2 else "float32 weight"
    return Work(f"pointwise_cublas {numbers}", cycles, moved + partial, 2 + more)


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
USUAL = {1, 3, 5}  # taps of a side, of which the library knows its fastest kernels


def _kind_of_library(p: Problem) -> str:
    """What the library has kernels of its own for, or lacks them."""
    usual = {*p.taps} <= USUAL and max(p.stride) <= 2
    rare = "" if usual else " rare"
    if p.groups > 1 and p.group_channels == 1:
        return f" depthwise{rare}"
    if p.groups > 1:
        return f" grouped{rare}"
    channels = p.x.shape[1], p.y.shape[1]
    one_tap = "" if p.windows else " pointwise"
    if min(channels) < FEW:
        return f" few{one_tap}"
    if p.itemsize == 2 and any(c % FEW for c in channels):
        return f" odd{one_tap}"
    return rare or f" dense{one_tap}"


def cudnn(p: Problem) -> Work:
    """cudnn.py: the least predicted time of its plans, or else that of the library's own choice."""
    return next(iter(plans_of_cudnn(p).values()), None) or cudnn_choice(p)


def added_up_anew(p: Problem, work: Work) -> Work:
    """not_finite.py behind a version by a transform: the result is read once more."""
    return work._replace(moved=work.moved + p.out.nbytes, launches=work.launches + 1)


def may_be_transformed(p: Problem) -> bool:
    """Whether the library's own choice may be by a transform that it does not announce."""
    return (
        p.kind == "weight"
        and p.itemsize == 4
        and max(p.stride) == max(p.dilation) == 1
        and not library.hides_transforms(p.kind, p.dtype, p.x.shape, p.weight.shape)
    )


def cudnn_choice(p: Problem) -> Work:
    """By the library's own choice of a plan."""
    tensor, last = p.on_tensor_cores, p.library_last
    name = f"{_named('cudnn', p)}{_kind_of_library(p)}"
    if " depthwise" in name:
        return _strips("cudnn", p, last, 1)._replace(rates=name)
    if not tensor and last:
        name += " last"  # channels
    sizes = BLAS_SIZES if tensor else BLAS_SIZES[:4]
    if p.groups > 1:
        sizes = ((16, 128), (32, 128), *BLAS_SIZES[:4])
    depth = 64 if tensor else 8
    splits = SPLITS if p.kind == "weight" or not tensor else (1,)
    feed = 40 if tensor and p.groups == 1 else 0
    if p.kind == "weight" and max(p.stride) > 1:
        name += " strided"
    tiles = Tiles(sizes, depth, 100, feed=feed, store=30 if tensor else 10, splits=splits)
    pad = 8 if tensor and p.kind != "weight" else 1
    work = _by_tiles(name, p, tiles, tensor, pad=pad, last=last)
    return added_up_anew(p, work) if may_be_transformed(p) else work


FEW_FAMILIES = 3


class PlanTiles(NamedTuple):
    """The tiles of a family of cuDNN's plans, as their times show them: rows and columns, blocks
    that a multiprocessor holds, whether sums are split."""

    rows: int
    columns: int
    resident: int
    split: bool


@functools.cache
def tiles_of_cudnn() -> dict[str, dict[str, PlanTiles]]:
    """Kind of problems -> family of plans -> its tiles (cudnn_plans.json)."""
    file = pathlib.Path(__file__).parent / "cudnn_plans.json"
    table = json.loads(file.read_text(encoding="utf-8"))
    return {
        kind: {name: PlanTiles(*numbers) for name, numbers in plans.items()}
        for kind, plans in table.items()
    }


def cudnn_plan(p: Problem, name: str, tiles: PlanTiles) -> Work:
    """By the library's plans of this family (runtime/cudnn.py), of which the one runs that the
    library ranks first."""
    tensor, last = p.on_tensor_cores, p.library_last
    words = []
    if p.groups > 1:
        words.append("depthwise" if p.group_channels == 1 else "grouped")
    if last and not tensor:
        words.append("last")
    if len(p.taps) > 2:
        words.append("volumes")
    words.append(name)
    if p.kind != "forward" and max(p.stride) > 1:
        words.append("strided")
    cut = Tiles(
        [tiles[:2]],
        64 if tensor else 8,
        100,
        feed=24 if tensor else 0,
        resident=tiles.resident,
        splits=SPLITS if tiles.split else (1,),
    )
    pad = 8 if tensor and p.kind != "weight" and p.groups == 1 else 1
    work = _by_tiles(f"{plans_kind(p)} {' '.join(words)}", p, cut, tensor, pad=pad, last=last)
    return added_up_anew(p, work) if library.is_unannounced(p.kind, p.dtype, name) else work


def plans_kind(p: Problem) -> str:
    """The kind of problems in which plans of one family do the same."""
    return f"cudnn_plan {p.kind} {_numbers(p)}"


def plans_of_cudnn(p: Problem) -> dict[str, Work]:
    """The families of the library's plans of which times are known for such problems: what they do,
    those with the least predicted times first. None if they are few: then the library may have
    better ones."""
    machine, shapes = Machine.of(p.device), (p.x.shape, p.weight.shape)
    hidden = library.hides_transforms(p.kind, p.dtype, *shapes)
    found = {}
    for name, tiles in tiles_of_cudnn().get(plans_kind(p), {}).items():
        if hidden and library.is_unannounced(p.kind, p.dtype, name):
            continue
        work = cudnn_plan(p, name, tiles)
        if has_rates(work.rates):
            found[name] = work
    if len(found) < FEW_FAMILIES:
        return {}
    return dict(sorted(found.items(), key=lambda item: microseconds(item[1], machine)))


def times_of_cudnn(p: Problem) -> dict[str, float]:
    """The predicted times of these families, microseconds."""
    machine = Machine.of(p.device)
    return {name: microseconds(work, machine) for name, work in plans_of_cudnn(p).items()}


def fourier(p: Problem) -> Work:
    """cudnn.py, by Fourier's transform of whole images, their sides filled up to powers of two, and
    of filters as large. A frequency costs a product of channels and outputs, whatever the number of
    taps; transformed arrays are written and read."""
    machine, reach = Machine.of(p.device), max(p.taps)
    images, outputs, *size = p.y.shape
    channels = p.group_channels
    side = 1 << (max(*size, *p.x.shape[2:]) + reach - 2).bit_length()
    frequencies = side * (side // 2 + 1)
    products = 4 * images * channels * outputs * frequencies  # of complex numbers
    cycles = products / (machine.multiprocessors * machine.rate(p.dtype, False))
    numbers = 2 * frequencies * (images * (channels + outputs) + channels * outputs)
    moved, more = traffic(p, False)
    work = Work(f"cudnn_fourier {p.kind}", cycles, moved + 2 * p.itemsize * numbers, 4 + more)
    return added_up_anew(p, work)
