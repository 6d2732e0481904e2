"""What a step of a plan passes to its kernel: arrays, scalars, addresses, tensor maps, flags."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime import tensormap
from .. import shapes
from ..layout import Layout


@dataclasses.dataclass(frozen=True)
class ArrayArg:
    """An array argument: the plan's i-th input (kind "x"), output ("y") or scratch array ("t"),
    perhaps reshaped."""

    kind: str
    index: int
    shape: tuple[int, ...] | None = None  # None: the array's own
    strides: tuple[int, ...] | None = None
    dtype: np.dtype | None = None
    offset: int = 0
    flattened: bool = False

    @property
    def flat(self) -> ArrayArg:
        """The same memory as one dimension; the array must be contiguous."""
        return dataclasses.replace(self, flattened=True)

    def view(
        self,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        dtype: Any = None,
        offset: int = 0,
    ) -> ArrayArg:
        """The same memory in another shape. Strides and offset in bytes; C order by default."""
        return ArrayArg(
            self.kind,
            self.index,
            tuple(shape),
            None if strides is None else tuple(strides),
            None if dtype is None else np.dtype(dtype),
            self.offset + offset,
        )

    def of(self, array: ArrayArg) -> ArrayArg:
        """The same view of another array of the plan."""
        return dataclasses.replace(self, kind=array.kind, index=array.index)

    def resolve(self, layout: Layout) -> Layout:
        """The layout that the kernel sees."""
        if self.flattened:
            if not layout.contiguous:
                raise AssertionError(f"a flat view wants a contiguous array, got {layout}")
            return Layout.new((layout.size,), layout.dtype, layout.device)
        if self.shape is None:
            return layout
        dtype = layout.dtype if self.dtype is None else self.dtype
        strides = (
            shapes.contiguous_strides(self.shape, dtype.itemsize)
            if self.strides is None
            else self.strides
        )
        return Layout.of(
            self.shape, strides, dtype, layout.device, layout.aligned and self.offset % 16 == 0
        )


def Input(index: int) -> ArrayArg:
    """The op's i-th input."""
    return ArrayArg("x", index)


def Output(index: int) -> ArrayArg:
    """The plan's i-th output."""
    return ArrayArg("y", index)


def Temp(index: int) -> ArrayArg:
    """The plan's i-th scratch array."""
    return ArrayArg("t", index)


@dataclasses.dataclass(frozen=True)
class Scalar:
    """The i-th run-time scalar of the call, as this dtype: a value that is not part of the plan's
    key."""

    index: int
    dtype: Any


class Addresses(tuple):
    """A device array (int64) of the addresses of these inputs: `Addresses(0, 1, 2)`."""

    def __new__(cls, *inputs: int) -> Addresses:
        return super().__new__(cls, inputs)


@dataclasses.dataclass(frozen=True, eq=False)
class Constant:
    """A NumPy array that the kernel reads, uploaded once."""

    array: np.ndarray


@dataclasses.dataclass(frozen=True)
class TensorMap:
    """The address (int64) of a tensor map, by which TMA loads and stores boxes of an array (compute
    capability 9.0).

    shape, strides, box, swizzle, steps, lower, upper: see runtime/tensormap.py's Template; sizes
    are in NumPy's order, strides in bytes, C order by default. kind: the array's dtype unless given
    ("tf32": float32 rounded on its way). The array's offset (`Input(0).view(..., offset=..)`)
    counts; address and strides are multiples of 16.
    """

    array: ArrayArg
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    box: tuple[int, ...]
    swizzle: int = 128
    steps: tuple[int, ...] | None = None
    lower: tuple[int, ...] | None = None
    upper: tuple[int, ...] | None = None
    kind: str | None = None

    def template(self, dtype: np.dtype) -> tensormap.Template:
        """What the runtime encodes, for an array of this dtype."""
        dtype = dtype if self.array.dtype is None else self.array.dtype
        strides = (
            shapes.contiguous_strides(self.shape, dtype.itemsize)
            if self.strides is None
            else self.strides
        )
        if strides[-1] != dtype.itemsize or any(n % 16 for n in (*strides[:-1], self.array.offset)):
            raise AssertionError(
                "a tensor map wants contiguous rows and other strides and offset in multiples of "
                "16 bytes, "
                f"got strides {strides}, offset {self.array.offset} for {dtype}"
            )
        return tensormap.Template(
            tuple(self.shape),
            tuple(strides),
            tuple(self.box),
            self.kind or dtype.name,
            self.swizzle,
            self.steps,
            self.lower,
            self.upper,
        )


@dataclasses.dataclass(frozen=True)
class Flag:
    """The device's error flag, int64 (1,): a kernel that meets a bad index writes its Ticket
    there."""


@dataclasses.dataclass(frozen=True)
class Ticket:
    """An int64 that stands for this call in the error flag; IndexError with the user's line follows
    at the next sync."""
