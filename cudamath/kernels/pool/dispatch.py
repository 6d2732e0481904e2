"""Pooling: the versions of both directions, and the choice among them.

The idea. Forward, a thread owns one output and reads its window. Backward, a thread owns one
*input* position and reads the windows that cover it: p from ceil((h + padding - extent) / stride)
to floor((h + padding) / stride), where extent = dilation * (R - 1). So every sum belongs to one
thread and has a fixed order: no atomics, the same bits every time. For the maximum, the forward
kernel records where it found it. Backward, a window contributes if its record names the thread's
own position.

The floor is bytes(x) + bytes(y), and for maxima of which a gradient is taken one byte more per
output, the position (argmax_encoding.py).

Versions, from simple to fast. Tables: FORWARD and BACKWARD.

1. `plain`             (plain.py) One thread per result, any strides. The L1 cache serves the
                       overlap of windows. The costs are divisions and loops of unknown length.
2. `constant_windows`  (constant_windows.py) Images in C order or channels last. The window is a
                       constant, so loops unroll, and divisions by the stride become shifts.
                       Channels last, a thread owns neighbouring channels: every access is 16 bytes.
3. `tiling_windows`    Backward, windows that tile the image (stride = size, nothing left over): a
                       thread owns neighbouring windows of a row, whose rows it writes by wide
                       accesses. Forward, `constant_windows` does the same.
4. `overlapping_rows`  (overlapping_windows.py) Windows that overlap along the rows of images in C
                       order: a thread owns neighbouring windows and reads their columns together.
5. `max_16bit`         (max_forward_16bit.py) Such windows of 16-bit floats, two results at a time
                       (SM 9.0 and later). Backward (max_backward_16bit.py), from positions that are
                       bytes.
"""

from __future__ import annotations

from typing import Any

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR
from ..lib.versions import Version, choose
from ..lib.windows import Window
from .argmax_encoding import BYTE
from .problem import Backward, Forward, is_small

Two = tuple[int, int]


def has_one_order(p: Forward | Backward) -> bool:
    return p.in_one_order


def prefers_constants(p: Forward | Backward) -> bool:
    """Windows that a kernel unrolls. The simulator is for the plain version."""
    return not SIMULATOR and is_small(p.window)


def has_overlap(p: Forward | Backward) -> bool:
    return p.in_one_order and p.overlapping > 0


def has_halves(p: Forward) -> bool:
    return p.in_one_order and p.has_halves


def has_bytes(p: Backward) -> bool:
    return p.kind == "bytes" and has_overlap(p)


def has_tiles(p: Backward) -> bool:
    return p.in_one_order and p.tiles


FORWARD = (
    Version(
        "max_16bit",
        "pool.max_forward_16bit.plan",
        has_halves,
        prefers_constants,
        "16-bit maxima, two results at a time",
    ),
    Version(
        "overlapping_rows",
        "pool.overlapping_windows.plan_forward",
        has_overlap,
        prefers_constants,
        "neighbouring windows of a row share columns",
    ),
    Version(
        "constant_windows",
        "pool.constant_windows.plan_forward",
        has_one_order,
        prefers_constants,
        "a small window, images in C order or channels last",
    ),
    Version(
        "plain", "pool.plain.plan_forward", reason="other strides, or windows too large to unroll"
    ),
)

BACKWARD = (
    Version(
        "tiling_windows",
        "pool.overlapping_windows.plan_backward_tiling",
        has_tiles,
        prefers_constants,
        "windows tile the image",
    ),
    Version(
        "max_16bit",
        "pool.max_backward_16bit.plan",
        has_bytes,
        prefers_constants,
        "16-bit gradients, and positions that are bytes",
    ),
    Version(
        "overlapping_rows",
        "pool.overlapping_windows.plan_backward",
        has_overlap,
        prefers_constants,
        "neighbouring windows of a row share columns",
    ),
    Version(
        "constant_windows",
        "pool.constant_windows.plan_backward",
        has_one_order,
        prefers_constants,
        "a small window, images in C order or channels last",
    ),
    Version(
        "plain", "pool.plain.plan_backward", reason="other strides, or windows too large to unroll"
    ),
)


def max_pool2d(
    x: Layout,
    *,
    size: Two,
    kernel: Two,
    stride: Two,
    padding: Two,
    dilation: Two,
    within: bool = False,
    version: str | None = None,
    **_: Any,
) -> Plan:
    """x (N, C, H, W) -> maxima (N, C, P, Q) and their positions h * W + w, int32 (-1: none).
    within: only the gradient reads these, so that they may be bytes: positions in the windows."""
    window = Window(*kernel, *stride, *padding, *dilation)
    problem = Forward(x, size, window, "bytes" if within else "notes")
    return choose("max_pool2d", FORWARD, problem, version)


def max_pool2d_values(
    x: Layout,
    *,
    size: Two,
    kernel: Two,
    stride: Two,
    padding: Two,
    dilation: Two,
    version: str | None = None,
    **_: Any,
) -> Plan:
    """x (N, C, H, W) -> maxima (N, C, P, Q) alone."""
    problem = Forward(x, size, Window(*kernel, *stride, *padding, *dilation), "max")
    return choose("max_pool2d", FORWARD, problem, version)


def max_pool2d_grad(
    grad: Layout,
    index: Layout,
    *,
    size: Two,
    kernel: Two,
    stride: Two,
    padding: Two,
    dilation: Two,
    version: str | None = None,
    **_: Any,
) -> Plan:
    """grad, index (N, C, P, Q) -> (N, C, H, W); size (H, W)."""
    window = Window(*kernel, *stride, *padding, *dilation)
    kind = "bytes" if index.dtype == BYTE else "notes"
    problem = Backward(grad, index, size, window, kind)
    return choose("max_pool2d gradient", BACKWARD, problem, version)


def max_pool2d_take(
    x: Layout,
    index: Layout,
    *,
    kernel: Two,
    stride: Two,
    padding: Two,
    dilation: Two,
    **_: Any,
) -> Plan:
    """x (N, C, H, W), index (N, C, P, Q) -> x at these positions (N, C, P, Q), 0 where there is
    none."""
    from .plain import plan_take

    return plan_take(x, index, Window(*kernel, *stride, *padding, *dilation))


def avg_pool2d(
    x: Layout,
    *,
    size: Two,
    kernel: Two,
    stride: Two,
    padding: Two,
    count_include_pad: bool,
    divisor: int = 0,
    version: str | None = None,
    **_: Any,
) -> Plan:
    """x (N, C, H, W) -> means (N, C, P, Q); divisor: what is divided by, 0 for the number of
    positions."""
    window = Window(*kernel, *stride, *padding)
    problem = Forward(x, size, window, kind_of_mean(count_include_pad, divisor))
    return choose("avg_pool2d", FORWARD, problem, version)


def avg_pool2d_grad(
    grad: Layout,
    *,
    size: Two,
    kernel: Two,
    stride: Two,
    padding: Two,
    count_include_pad: bool,
    divisor: int = 0,
    version: str | None = None,
    **_: Any,
) -> Plan:
    """grad (N, C, P, Q) -> (N, C, H, W); size (H, W)."""
    window = Window(*kernel, *stride, *padding)
    problem = Backward(grad, None, size, window, kind_of_mean(count_include_pad, divisor))
    return choose("avg_pool2d gradient", BACKWARD, problem, version)


def kind_of_mean(count_include_pad: bool, divisor: int) -> str:
    """The kind (see problem.Forward) of a mean."""
    return f"sum / {divisor}" if divisor else "padded mean" if count_include_pad else "mean"
