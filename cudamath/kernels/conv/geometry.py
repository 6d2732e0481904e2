"""Geometry that the convolution kernels share: views of operands, walks along axes, SIMT tiles, and
the residues of a stride.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Temp
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype, float64
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.dispatch import copy_part
from ..copy.parts import whole

if not SIMULATOR:
    from ..ptx.vector_access import load_vector


POSITIONS = 128  # columns of a tile
DEPTH = 8  # taps (or positions, in the weight gradient) that shared memory holds at a time
PITCH = POSITIONS + 4  # of a shared row: stores by neighbouring taps hit different banks
SIZE_B = 2 * DEPTH * PITCH  # two slabs in turn
#: Row of a tap or position that does not exist: any sum with it stays outside the images.
OUTSIDE = -(1 << 30)
LEAST_OUTPUTS = 8  # per group, below which a tile would stay nearly empty
DIRECT = 1 << 18  # multiply-adds up to which one launch of a direct kernel is faster


class Tile(NamedTuple):
    """rows: outputs m a block computes; down: warps along m; high: outputs a thread has."""

    rows: int
    down: int
    high: int

    @property
    def threads(self) -> int:
        return 128 * self.down


TILES = {128: Tile(128, 2, 8), 64: Tile(64, 1, 8), 32: Tile(32, 1, 4)}


@cuda.jit(device=True)
def split_position(n, area, width):
    """n = (image * area) + (row * width) + column -> image, row, column; 32-bit unsigned
    divisions."""
    image = types.int32(types.uint32(n) // types.uint32(area))
    rest = types.int32(n - image * area)
    row = types.int32(types.uint32(rest) // types.uint32(width))
    return image, row, types.int32(rest - row * width)


@functools.cache
def multiply_slab(C: Any, tile: Tile) -> Any:
    """The DEPTH inner steps of a slab, and where a thread's outputs and positions lie."""
    high, pitch_a = tile.high, tile.rows + 4

    @cuda.jit(device=True)
    def step(slab_a, slab_b, k, m, n, a, b, total):
        """slab_a (2 * DEPTH * pitch_a), slab_b (2 * DEPTH * PITCH), a (8,), b (8,), total (high *
        8,) in registers: total[8 i + j] += A[k, m_i] B[k, n_j]."""
        at = k * pitch_a + m
        a[0], a[1], a[2], a[3] = load_vector(slab_a, at, 4)
        if high == 8:
            a[4], a[5], a[6], a[7] = load_vector(slab_a, at + 32, 4)
        at = k * PITCH + n
        b[0], b[1], b[2], b[3] = load_vector(slab_b, at, 4)
        b[4], b[5], b[6], b[7] = load_vector(slab_b, at + 16, 4)
        for i in range(high):
            for j in range(8):
                total[8 * i + j] += a[i] * b[j]

    @cuda.jit(device=True)
    def multiply(slab_a, slab_b, k, m, n, a, b, total):
        """The same for k .. k + 7. Written out, not a loop: so ptxas mixes the loads of one step
        with the arithmetic of another."""
        step(slab_a, slab_b, k + 0, m, n, a, b, total)
        step(slab_a, slab_b, k + 1, m, n, a, b, total)
        step(slab_a, slab_b, k + 2, m, n, a, b, total)
        step(slab_a, slab_b, k + 3, m, n, a, b, total)
        step(slab_a, slab_b, k + 4, m, n, a, b, total)
        step(slab_a, slab_b, k + 5, m, n, a, b, total)
        step(slab_a, slab_b, k + 6, m, n, a, b, total)
        step(slab_a, slab_b, k + 7, m, n, a, b, total)

    return multiply


@cuda.jit(device=True)
def place_in_tile(thread, rows_per_warp):
    """First output and first position of a thread in its tile."""
    lane, warp = thread & 31, thread >> 5
    m = (warp >> 2) * rows_per_warp + ((lane >> 1) & 7) * 4
    n = (warp & 3) * 32 + ((lane >> 4) * 2 + (lane & 1)) * 4
    return m, n


class View(NamedTuple):
    """Where an operand of five dimensions lies, or of volumes of six: strides and offset in
    bytes."""

    argument: ArrayArg
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def array(self) -> ArrayArg:
        return self.argument.view(self.shape, self.strides, offset=self.offset)

    def volumes(self) -> ArrayArg:
        """As volumes: images are one plane deep."""
        if len(self.shape) == 6:
            return self.array()
        (*first, h, w), (*apart, row, column) = self.shape, self.strides
        return self.argument.view(
            (*first, 1, h, w), (*apart, row * h, row, column), offset=self.offset
        )

    def line(self, itemsize: int) -> ArrayArg:
        """The memory it covers as one dimension (strides are not negative)."""
        return self.argument.view((max(self.span(itemsize), 1),), (itemsize,), offset=self.offset)

    def span(self, itemsize: int) -> int:
        return 1 + sum(
            (n - 1) * stride // itemsize for n, stride in zip(self.shape, self.strides, strict=True)
        )


class Walk(NamedTuple):
    """Along one axis: input = start + position * step + tap * tap_step."""

    start: int
    step: int
    tap: int


class Sources:
    """The inputs of a plan, with negative strides (and strides that are not whole elements) copied
    away first."""

    def __init__(self, *layouts: Layout):
        self.temps: list[Layout] = []
        self.steps: list[Launch] = []
        self.operands = []
        for i, layout in enumerate(layouts):
            argument = Input(i)
            if any(stride < 0 or stride % layout.itemsize for stride in layout.strides):
                argument, copied = self.temp(layout.like()), layout.like()
                self.steps += copy_part(whole(Input(i), layout), whole(argument, copied))
                layout = copied
            self.operands.append((argument, layout))

    def temp(self, layout: Layout) -> ArrayArg:
        self.temps.append(layout)
        return Temp(len(self.temps) - 1)


def grouped(argument: ArrayArg, layout: Layout, groups: int, axis: int) -> View:
    """View of (N, G*C, H, W) as (N, G, C, H, W) (axis 1), or of (G*M, C, R, S) as (G, M, C, R, S)
    (axis 0); volumes alike."""
    shape, strides = list(layout.shape), list(layout.strides)
    each = shape[axis] // groups
    return View(
        argument,
        (*shape[:axis], groups, each, *shape[axis + 1 :]),
        (*strides[:axis], each * strides[axis], strides[axis], *strides[axis + 1 :]),
    )


ALONG_DEPTH = Walk(0, 1, 1)  # of images, which are one plane deep, as are their filters


def walks(*along: Walk) -> list[int]:
    """Numbers of the walks along planes (of volumes), rows and columns."""
    return [*itertools.chain.from_iterable((*(ALONG_DEPTH,) * (3 - len(along)), *along))]


def numbers(*values: int) -> list[Any]:
    return [np.int64(v) for v in values]


def tap_table(
    channels: int,
    height: int,
    width: int,
    rows: Walk,
    columns: Walk,
    x: View,
    itemsize: int,
    length: int,
) -> np.ndarray:
    """(length, 4) int32: place in x, 0, row, column of each tap; rows past the last tap lie
    OUTSIDE."""
    c, r, s = (
        grid.ravel()
        for grid in np.meshgrid(range(channels), range(height), range(width), indexing="ij")
    )
    h, v = r * rows.tap, s * columns.tap
    place = (c * x.strides[2] + h * x.strides[3] + v * x.strides[4]) // itemsize
    table = np.full((length, 4), (0, 0, OUTSIDE, OUTSIDE), np.int32)
    table[: len(c)] = np.stack([place, 0 * c, h, v], 1)
    return table


def choose_tile(outputs: int, dtype: np.dtype) -> Tile:
    """The smallest tile that holds all outputs, or the largest; float64 sums take the registers of
    two."""
    if outputs <= 32 or compute_dtype(dtype) == float64:
        return TILES[32]
    return TILES[64 if outputs <= 64 else 128]


def fits(view: View, itemsize: int) -> bool:
    """Whether places in an operand, and their sums, are 32-bit numbers."""
    return view.span(itemsize) < 1 << 30


def residues(
    kernel: int, size: int, stride: int, padding: int, dilation: int
) -> list[tuple[int, int, slice, Walk]]:
    """How a stride splits the input gradient along one axis.

    For each residue of the input coordinates: (first, how many, their taps, where these meet the
    gradient)."""
    found = []
    for residue in range(stride):
        taps = [t for t in range(kernel) if (residue - t * dilation) % stride == 0]
        row = -((residue - padding) // stride)  # number of the first one that is no padding
        first = row * stride + residue - padding
        count = -(-(size - first) // stride)
        step = taps[1] - taps[0] if len(taps) > 1 else 1
        part = slice(taps[0], taps[-1] + 1, step) if taps else slice(0, 0, 1)
        start = row + (residue - taps[0] * dilation) // stride if taps else 0
        if count > 0:
            found.append((first, count, part, Walk(start, 1, -(step * dilation // stride))))
    return found
