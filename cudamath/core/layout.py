"""Layout: the description of an array without the address of its bytes.

Layouts are interned: arrays of equal shape, strides, dtype, device and alignment share one Layout
object. So plans are looked up by the identity of layouts, and properties derived from a shape are
computed once, not per call.
"""

from __future__ import annotations

from math import prod

import numpy as np

from . import shapes
from .bounded_cache import make_room
from .devices import CPU

Shape = tuple[int, ...]

_interned: dict[tuple, Layout] = {}
_MOST = 1 << 16  # layouts


class Layout:
    """Shape, strides in bytes, dtype, device number (-1: CPU) and whether the first element is
    16-byte aligned."""

    __slots__ = (
        "shape",
        "strides",
        "dtype",
        "device",
        "aligned",
        "ndim",
        "size",
        "itemsize",
        "nbytes",
        "contiguous",
        "in_lines",
        "separate",
    )

    shape: Shape
    strides: Shape
    dtype: np.dtype
    device: int
    aligned: bool
    ndim: int
    size: int
    itemsize: int
    nbytes: int
    contiguous: bool
    in_lines: bool  # contiguous, and of one axis at least
    separate: bool  # no two elements share memory

    @staticmethod
    def of(
        shape: Shape, strides: Shape, dtype: np.dtype, device: int, aligned: bool = True
    ) -> Layout:
        """The one Layout with these properties."""
        key = (shape, strides, dtype, device, aligned)
        layout = _interned.get(key)
        if layout is None:
            layout = object.__new__(Layout)
            layout.shape, layout.strides, layout.dtype, layout.device, layout.aligned = key
            layout.ndim = len(shape)
            layout.size = prod(shape)
            layout.itemsize = dtype.itemsize
            layout.nbytes = layout.size * layout.itemsize
            if (
                layout.nbytes >> 63
                or layout.ndim > shapes.MOST_AXES
                or not layout.size
                and prod([n or 1 for n in shape]) >> 60
            ):
                raise ValueError(
                    f"an array of {dtype} of shape {shape} is too large: {layout.nbytes} bytes, "
                    f"{layout.ndim} axes"
                )
            layout.contiguous = shapes.is_contiguous(shape, strides, layout.itemsize)
            layout.in_lines = layout.contiguous and layout.ndim > 0
            layout.separate = layout.contiguous or not shapes.overlaps_itself(
                shape, strides, layout.itemsize
            )
            # A layout in use outlives the table; an equal one created later gets plans of its own.
            make_room(_interned, _MOST)
            layout = _interned.setdefault(key, layout)  # one object for all threads
        return layout

    @staticmethod
    def new(shape: Shape, dtype: np.dtype, device: int) -> Layout:
        """The layout of a new array: C order."""
        return Layout.of(shape, shapes.contiguous_strides(shape, dtype.itemsize), dtype, device)

    def like(self, shape: Shape | None = None, dtype: np.dtype | None = None) -> Layout:
        """The layout of a new array on the same device; shape and dtype default to
        this one's."""
        return Layout.new(
            self.shape if shape is None else tuple(shape),
            self.dtype if dtype is None else np.dtype(dtype),
            self.device,
        )

    def view(
        self, shape: Shape, strides: Shape, offset: int = 0, dtype: np.dtype | None = None
    ) -> Layout:
        """The layout of a view whose first element lies `offset` bytes from this one's."""
        aligned = self.aligned and offset % 16 == 0
        return Layout.of(
            shape,
            strides,
            self.dtype if dtype is None else dtype,
            self.device,
            aligned or self.device == CPU,
        )

    def __repr__(self) -> str:
        place = "cpu" if self.device == CPU else f"cuda:{self.device}"
        order = "" if self.contiguous else f", strides={self.strides}"
        return f"Layout({self.shape}, {self.dtype}{order}, {place})"

    def __reduce__(self) -> tuple:
        return Layout.of, (self.shape, self.strides, self.dtype, self.device, self.aligned)


def is_channels_last(layout: Layout) -> bool:
    """Whether images (N, C, ...) lie in memory as (N, ..., C). Axes of one element may have any
    stride."""
    shape, strides = layout.shape, layout.strides
    return shapes.is_contiguous(
        (*shape[:1], *shape[2:], *shape[1:2]),
        (*strides[:1], *strides[2:], *strides[1:2]),
        layout.itemsize,
    )
