"""Resizing and padding of images: the versions, and the choice among them.

Tables: RESIZE, of both directions, and PAD.

    whole_factors   (upsample_integer.py) images in C order that grow by whole factors: shares are
                    constants of the kernel
    shift           (pad.py) images of which almost everything only moves, as in padding
    tables          (resize.py) any size, order and mode
    axes            (pad_axes.py) padding with one value along any axes
    fill_and_copy   (pad.py) padding of any array in several launches
"""

from __future__ import annotations

from typing import Any

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...core.specs.resample import MIXED, Axis
from ..lib.versions import Version, choose
from .problem import Pad, Resize


def is_contiguous(p: Resize) -> bool:
    return p.x.contiguous and p.y.contiguous and p.y.size > 0


def is_padding(p: Resize) -> bool:
    """Modes that move elements and do not resample them."""
    return not any(mode in MIXED or mode.startswith("nearest") for mode, _ in p.axes)


def has_words(p: Pad) -> bool:
    """An array in C order, of elements of at most a word."""
    return p.x.contiguous and p.x.size > 0 and p.x.itemsize <= 8


RESIZE = (
    Version(
        "whole_factors",
        "image.upsample_integer.plan",
        is_contiguous,
        reason="images in C order grow by whole factors",
    ),
    Version("shift", "image.pad.plan_resize", is_padding, reason="almost everything only moves"),
    Version("tables", "image.resize.plan", reason="any size, order and mode"),
)

PAD = (
    Version("shift", "image.pad.plan_shift", reason="almost everything only moves: one launch"),
    Version(
        "axes",
        "image.pad_axes.plan",
        has_words,
        reason="up to four axes grow: one launch writes each element once",
    ),
    Version("fill_and_copy", "image.pad.plan_fill_and_copy", reason="any array"),
)


def resize(
    x: Layout,
    *,
    size: tuple[int, int],
    axes: tuple[Axis, Axis],
    version: str | None = None,
    **_: Any,
) -> Plan:
    """x (N, C, H, W), in C order or channels last -> (N, C, *size), in the same; axes: rows and
    columns (core/specs/resample.py)."""
    return choose("resize", RESIZE, Resize(x, size, axes, False), version)


def resize_grad(
    g: Layout,
    *,
    size: tuple[int, int],
    axes: tuple[Axis, Axis],
    version: str | None = None,
    **_: Any,
) -> Plan:
    """g (N, C, P, Q), in C order or channels last -> (N, C, *size), in the same: the gradient of
    images of this size."""
    return choose("resize gradient", RESIZE, Resize(g, size, axes, True), version)


def pad(x: Layout, *, widths: tuple[tuple[int, int], ...], version: str | None = None) -> Plan:
    """x in the middle of an array filled with one value; scalars: ``ops.shape.bits(value)``."""
    return choose("pad", PAD, Pad(x, widths), version)
