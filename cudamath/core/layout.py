"""Layout: all that is known of an array except where its bytes are.

Layouts are interned: arrays that agree in shape, strides, dtype, device and alignment share one
object, so that a plan is found by the identity of layouts, and what follows from a shape is
computed once, not per call.
"""

from __future__ import annotations

from math import prod

import numpy as np

from . import shapes
from .devices import CPU

Shape = tuple[int, ...]

_interned: dict[tuple, Layout] = {}
_MOST = 1 << 16
_MOST_AXES = 64  # NumPy's


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

    @staticmethod
    def of(
        shape: Shape, strides: Shape, dtype: np.dtype, device: int, aligned: bool = True
    ) -> Layout:
        """The one Layout with these properties."""
        key = (shape, strides, dtype, device, aligned)
        found = _interned.get(key)
        if found is None:
            if (
                len(_interned) >= _MOST
            ):  # layouts still in use live on; equal ones made later merely get a new plan
                _interned.clear()
            found = object.__new__(Layout)
            found.shape, found.strides, found.dtype, found.device, found.aligned = key
            found.ndim = len(shape)
            found.size = prod(shape)
            found.itemsize = dtype.itemsize
            found.nbytes = found.size * found.itemsize
            if (
                found.nbytes >> 63
                or found.ndim > _MOST_AXES
                or not found.size
                and prod([n or 1 for n in shape]) >> 60
            ):
                raise ValueError(
                    f"an array of {dtype} of shape {shape} is too large: {found.nbytes} bytes, "
                    f"{found.ndim} axes"
                )
            found.contiguous = shapes.is_contiguous(shape, strides, found.itemsize)
            found.in_lines = found.contiguous and found.ndim > 0
            found = _interned.setdefault(key, found)
        return found

    @staticmethod
    def new(shape: Shape, dtype: np.dtype, device: int) -> Layout:
        """The layout of a new array: C order."""
        return Layout.of(shape, shapes.contiguous_strides(shape, dtype.itemsize), dtype, device)

    def like(self, shape: Shape | None = None, dtype: np.dtype | None = None) -> Layout:
        """The layout of a new array on the same device; shape and dtype are this one's unless
        given."""
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
