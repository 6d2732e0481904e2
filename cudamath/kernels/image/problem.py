"""Resizing and padding as problems: the layouts and parameters of a call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...core.layout import Layout
from ...core.specs.resample import Axis
from ..lib.windows import ordered_as


@dataclass(frozen=True)
class Resize:
    """Images x (N, C, H, W), in C order or channels last, made images of this size; or, `gradient`,
    gradients x of resized images made those of images of this size. axes: rows and columns
    (core/specs/resample.py)."""

    x: Layout
    size: tuple[int, int]
    axes: tuple[Axis, Axis]
    gradient: bool

    @cached_property
    def y(self) -> Layout:
        """The result, in the order of x."""
        return ordered_as(self.x, (*self.x.shape[:2], *self.size))

    @property
    def old(self) -> tuple[int, ...]:
        """Rows and columns of the images that are resized,"""
        return self.size if self.gradient else self.x.shape[2:]

    @property
    def new(self) -> tuple[int, ...]:
        """and of those that they become."""
        return self.x.shape[2:] if self.gradient else self.size


@dataclass(frozen=True)
class Pad:
    """x in the middle of an array filled with one value."""

    x: Layout
    widths: tuple[tuple[int, int], ...]

    @cached_property
    def y(self) -> Layout:
        shape = [n + sum(width) for n, width in zip(self.x.shape, self.widths, strict=True)]
        return self.x.like(tuple(shape))
