"""Pooling as problems: the layouts and parameters of a call, and what the choice among versions
needs of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from ...core.layout import Layout, is_channels_last
from ...runtime.device import capability
from ..compiler.lazy_numba import SIMULATOR
from ..lib.fast_division import reciprocal
from ..lib.windows import MOST, Window, channels_width, ordered_as
from .argmax_encoding import BYTE, HALVES, NOTE, NOTED

#: Results of a thread of max_forward_16bit.py (16 bytes), and positions of a window that it has
#: registers for.
HALVES_WIDTH, HALVES_PLACES = 8, 9


def in_one_order(*layouts: Layout) -> bool:
    """Whether images all lie in C order, or all channels last."""
    return all(a.contiguous for a in layouts) or all(is_channels_last(a) for a in layouts)


def is_small(window: Window) -> bool:
    """Whether a kernel may unroll the window."""
    return window.rows * window.columns <= MOST and window.down * window.right <= MOST // 4


@dataclass(frozen=True)
class Forward:
    """Pooling of x (N, C, H, W) to images of this size. kind: "max"; "notes": the maximum and where
    it is, "bytes": where it is in its window; "mean", "padded mean" (the padding counts) or
    "sum / 7" (divided by that)."""

    x: Layout
    size: tuple[int, int]
    window: Window
    kind: str

    @property
    def in_one_order(self) -> bool:
        return in_one_order(self.x)

    @cached_property
    def outputs(self) -> list[Layout]:
        """y in the order of x, and with positions those."""
        y = ordered_as(self.x, (*self.x.shape[:2], *self.size))
        index = [ordered_as(y, y.shape, BYTE if self.kind == "bytes" else NOTE)]
        return [y, *index * (self.kind in NOTED)]

    @property
    def y(self) -> Layout:
        return self.outputs[0]

    @property
    def images(self) -> tuple[int, int]:
        """(images, channels): in C order each channel is an image."""
        n, c = self.x.shape[:2]
        return (n * c, 1) if self.x.contiguous else (n, c)

    @property
    def across(self) -> bool:
        """Windows tile the image, and a thread owns neighbours of a row."""
        fits = self.size[1] * self.window.columns <= self.x.shape[3]
        return self.images[1] == 1 and self.window.tiles and fits and self.window.columns <= 4

    @cached_property
    def overlapping(self) -> int:
        """Results of a row that a thread of overlapping_windows.py owns, or 0."""
        if self.images[1] > 1 or self.across:
            return 0
        return overlapping_width(self.x, self.y, self.window)

    @property
    def width(self) -> int:
        """Results that a thread owns."""
        if self.overlapping:
            return self.overlapping
        c = self.images[1]
        along = gcd(self.size[1], self.x.shape[3]) if self.across else c
        return channels_width(along, [self.x, self.y])

    @property
    def reciprocals(self) -> tuple[int, int]:
        """See fast_division.split; 0 where there is none."""
        n, (p, q) = self.images[0], self.size
        return reciprocal(q // self.width, self.y.size // self.width), reciprocal(p, n * p)

    @property
    def has_halves(self) -> bool:
        """Whether max_forward_16bit.py applies. `set` of bfloat16 is an instruction of SM 9.0."""
        return (
            self.overlapping == HALVES_WIDTH
            and self.x.dtype in HALVES
            and self.kind in ("max", "bytes")
            and self.window.row_step == 1
            and self.window.rows * self.window.columns <= HALVES_PLACES
            and capability(self.x.device) >= (9, 0)
            and all(self.reciprocals)
            and self.x.size < 1 << 31
        )


@dataclass(frozen=True)
class Backward:
    """The gradient of pooling, kind as in Forward: grad and, for maxima, index (N, C, P, Q) to
    images of this size."""

    grad: Layout
    index: Layout | None
    size: tuple[int, int]
    window: Window
    kind: str

    @property
    def in_one_order(self) -> bool:
        """Images in one order, and positions that are read by wide accesses."""
        if self.index is None:
            return in_one_order(self.grad)
        return self.index.aligned and in_one_order(self.grad, self.index)

    @property
    def inputs(self) -> list[Layout]:
        return [self.grad] if self.index is None else [self.grad, self.index]

    @cached_property
    def dx(self) -> Layout:
        """In the order of grad."""
        return ordered_as(self.grad, (*self.grad.shape[:2], *self.size))

    @property
    def images(self) -> tuple[int, int]:
        """(images, channels): in C order each channel is an image. dx of one row and column lies in
        both orders, so that grad decides."""
        n, c = self.grad.shape[:2]
        return (n * c, 1) if self.grad.contiguous else (n, c)

    @property
    def tiles(self) -> bool:
        """Windows tile the image."""
        window, (p, q) = self.window, self.grad.shape[2:]
        whole = self.size == (p * window.rows, q * window.columns)
        return self.images[1] == 1 and window.tiles and whole and window.columns <= 4

    @cached_property
    def overlapping(self) -> int:
        """Windows whose columns a thread of overlapping_windows.py owns, or 0."""
        if self.images[1] > 1:
            return 0
        return overlapping_width_backward(self.grad, self.dx, self.window, self.kind)


def overlapping_width(x: Layout, y: Layout, window: Window) -> int:
    """Results that a thread of `pool_rows` owns, or 0 where it does not apply. x, y: (N, C, rows,
    columns) in C order."""
    width, columns, results = 16 // max(x.itemsize, y.itemsize), x.shape[3], y.shape[3]
    reach = window.left + window.columns + width * window.right
    good = (
        not SIMULATOR
        and x.aligned
        and y.aligned
        and window.column_step == 1
        and window.columns >= window.right
        and results % width == 0
        and columns % width == 0
        and results * window.right <= columns
        and reach <= 40
    )
    return width if good and width > 1 else 0


def overlapping_width_backward(grad: Layout, dx: Layout, window: Window, kind: str) -> int:
    """Windows whose columns a thread of `pool_rows_grad` owns, or 0 where it does not apply. All
    (N, C, rows, columns) in C order. As many as 16 bytes hold of the gradient, but more than four
    only beside notes that are bytes."""
    good = (
        not SIMULATOR
        and grad.aligned
        and dx.aligned
        and (window.row_step, window.column_step) == (1, 1)
        and window.columns >= window.right
        and grad.shape[3] * window.right == dx.shape[3]
    )
    most = 16 // (grad.itemsize if kind == "bytes" else max(grad.itemsize, 4))
    return next(
        (
            width
            for width in (most, 4, 2)
            if good
            and width <= most
            and grad.shape[3] % width == 0
            and width * window.down * window.right <= 32
        ),
        0,
    )
