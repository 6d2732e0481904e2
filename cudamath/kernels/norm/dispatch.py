"""Layer, RMS, group and batch norm, and their gradients: the versions of each, and the choice among
them.

Tables of versions: FORWARD and BACKWARD of rows (layer and RMS norm; FORWARD also of the groups of
group norm), GROUP_NORM_BACKWARD, BATCH_NORM_FORWARD and BATCH_NORM_BACKWARD. Their files have the
formulas and the measurements: forward.py, backward.py, group_norm_backward.py, batch_norm.py and
batch_norm_backward.py.

Weight and bias have x's dtype or float32. An input that is missing is None for the planners. A
kernel that is compiled without it (see `Parts`) gets any array in its place and does not touch it.
mean and rstd are for the gradient: without one they are arrays of no elements, and not written. Of
rows of 64 float32 they are 1.6 percent of all bytes.
"""

from __future__ import annotations

import functools
import math

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.decorators import WARP
from ..compiler.lazy_numba import SIMULATOR
from ..lib.row_layout import fitting, spread
from ..lib.versions import Version, always, choose, never
from . import backward_parts, group_norm_parts, row_parts
from .problem import Backward, BatchBackward, BatchForward, Forward, GroupBackward
from .row_parts import LONG_GROUP, Channels

# elements of an input, and of a channel, up to which one launch beats three (of 4,096 in a channel
# three took 10 us, one 16)
ONE_BLOCK, ONE_BLOCK_CHANNEL = 1 << 16, 1024
# bytes of a row between borders from which on it is read by whole accesses: forward and in 16-bit
# gradients, in gradients of more bits. An H100: rms of 385 16-bit numbers 49 -> 39 us; layer of 443
# 210 -> 128, of 1,903 215 -> 106, of 4,095 127 -> 78, of 851 32-bit numbers 113 -> 102; gradients
# of 443 16-bit numbers 281 -> 173, of 1,601 173 -> 117, of 4,095 173 -> 178, of 851 32-bit numbers
# 187 -> 216 (of more not measured)
SHIFTED, SHIFTED_GRADIENT = 512, 8 << 10
KEPT = 2 << 10  # bytes of shared memory that blocks need besides what they hold


def held_by_block(p: Forward) -> bool:
    return p.shape is not None


def held_by_cluster(p: Forward) -> bool:
    return row_parts.fits_cluster(p.columns, p.width, p.x, p.channels)


def prefers_cluster(p: Forward) -> bool:
    """Rows that no block holds, and groups that are long enough."""
    alone = spread(p.columns, p.width, fitting(row_parts.HELD, p.x.dtype))
    return alone is None or p.channels is not None and p.columns >= LONG_GROUP


def begins_between_borders(p: Forward | Backward) -> bool:
    return p.shifted is not None and p.x.size > 0


def prefers_shifted(p: Forward) -> bool:
    """Rows that are long enough for their ends, which are written one by one, not to matter."""
    return p.columns * p.x.itemsize >= SHIFTED


def prefers_shifted_gradient(p: Backward) -> bool:
    """The same."""
    narrow = p.x.itemsize == 2
    return p.columns * p.x.itemsize >= (SHIFTED if narrow else SHIFTED_GRADIENT)


FORWARD = (
    Version(
        "cluster",
        "norm.forward_cluster.plan",
        held_by_cluster,
        prefers_cluster,
        "a cluster's registers hold the row, and channels are found in few instructions",
    ),
    Version(
        "shifted",
        "norm.forward_shifted.plan",
        begins_between_borders,
        prefers_shifted,
        "rows begin between the borders of the accesses that a block holds",
    ),
    Version("rows", "norm.forward.plan_rows", held_by_block, reason="a block holds the row"),
    Version("long_rows", "norm.forward.plan_long_rows", reason="no block holds the row"),
    Version("plain", "norm.forward.plan_plain", prefers=never),
)


def has_rows(p: Backward) -> bool:
    return p.x.size > 0


def has_tma(p: Backward) -> bool:
    return has_rows(p) and backward_parts.fits_tma(p.shape, p.columns, p.x)


def prefers_tma(p: Backward) -> bool:
    """With a residual, rows of several warps only."""
    return p.shape is not None and (p.shape.threads > WARP or not p.parts.residual)


def gradient_held_by_block(p: Backward) -> bool:
    return has_rows(p) and p.shape is not None


def gradient_held_by_cluster(p: Backward) -> bool:
    return has_rows(p) and backward_parts.fits_cluster(
        p.columns, *p.long_access, p.x, p.param.dtype
    )


def prefers_gradient_cluster(p: Backward) -> bool:
    """Rows that no block holds; but for 16-bit rows between borders, which long_rows reads twice
    and yet is faster with (an H100: 16,384 rows of 14,511 1.6 ms, a cluster 2.7)."""
    _, edges = p.long_access
    return p.shape is None and p.shifted is None and not (edges and p.x.itemsize == 2)


BACKWARD = (
    Version(
        "tma",
        "norm.backward_tma.plan",
        has_tma,
        prefers_tma,
        "16-bit rows of a warp or more, loaded ahead by TMA",
    ),
    Version(
        "cluster",
        "norm.backward_cluster.plan",
        gradient_held_by_cluster,
        prefers_gradient_cluster,
        "a cluster's shared memory holds the row",
    ),
    Version(
        "shifted",
        "norm.backward_shifted.plan",
        begins_between_borders,
        prefers_shifted_gradient,
        "rows begin between the borders of the accesses that a block holds",
    ),
    Version(
        "rows", "norm.backward.plan_rows", gradient_held_by_block, reason="a block holds the row"
    ),
    Version("long_rows", "norm.backward.plan_long_rows", has_rows, reason="no block holds the row"),
    Version("plain", "norm.backward.plan_plain", prefers=never),
)


def has_samples(p: GroupBackward) -> bool:
    return p.x.size > 0


def group_held_by_block(p: GroupBackward) -> bool:
    return has_samples(p) and group_norm_parts.fits_block(p.x, p.width, p.channels)


GROUP_NORM_BACKWARD = (
    Version(
        "cluster",
        "norm.group_norm_backward_cluster.plan",
        group_held_by_block,
        reason="the registers of a block or a cluster hold the group",
    ),
    Version(
        "long_groups",
        "norm.group_norm_backward.plan_long_groups",
        has_samples,
        reason="no block or cluster holds the group",
    ),
    Version("plain", "norm.group_norm_backward.plan_plain", has_samples, never),
    Version("empty", "norm.group_norm_backward.plan_empty", reason="there are no samples"),
)


def is_small(p: BatchForward) -> bool:
    """Few numbers, also of each channel."""
    return p.x.size <= ONE_BLOCK and p.x.size // p.x.shape[1] <= ONE_BLOCK_CHANNEL


def is_held(p: BatchForward) -> bool:
    """Channels in runs of whole accesses of 16 bytes, for which there is shared memory; numbers of
    16 or 32 bits."""
    geo = p.geometry
    whole = geo.segments and geo.width * p.x.itemsize == 16 and p.x.itemsize < 8
    if SIMULATOR or not whole:
        return False
    return p.channel_bytes <= devices.properties(p.x.device).max_shared_memory - KEPT


def prefers_held(p: BatchForward) -> bool:
    """Channels of which a multiprocessor holds two, or so many that all have one."""
    device = devices.properties(p.x.device)
    twice = 2 * p.channel_bytes <= device.max_shared_memory - KEPT
    return twice or p.x.shape[1] >= device.multiprocessors


BATCH_NORM_FORWARD = (
    Version(
        "one_block",
        "norm.batch_norm_one_block.plan",
        prefers=is_small,
        reason="few numbers: a block per channel does all in one launch",
    ),
    Version(
        "held",
        "norm.batch_norm_held.plan",
        is_held,
        prefers_held,
        "a block per channel, whose shared memory holds it, does all in one launch",
    ),
    Version(
        "split_channels",
        "norm.batch_norm.plan_split_channels",
        reason="several blocks share a channel",
    ),
    Version("plain", "norm.batch_norm.plan_plain", prefers=never),
)


def has_elements(p: BatchBackward) -> bool:
    return p.x.size > 0


BATCH_NORM_BACKWARD = (
    Version(
        "split_channels",
        "norm.batch_norm_backward.plan_split_channels",
        has_elements,
        reason="several blocks share a channel",
    ),
    Version("plain", "norm.batch_norm_backward.plan_plain", always, never),
)


def forward(
    x: Layout,
    weight: Layout | None,
    bias: Layout | None,
    residual: Layout | None,
    columns: int,
    eps: float,
    *,
    center: bool = True,
    channels: Channels | None = None,
    statistics: bool = True,
    version: str | None = None,
) -> Plan:
    """The plan of rows of `columns` elements -> y like x, with statistics mean (if `center`) and
    rstd (rows,), with a residual x + it."""
    problem = Forward(x, weight, bias, residual, columns, eps, center, channels, statistics)
    if x.size == 0:
        return Plan(problem.outputs, [])
    return choose("norm", FORWARD, problem, version)


def layer_norm(
    x: Layout,
    weight: Layout | None,
    bias: Layout | None,
    residual: Layout | None,
    *,
    columns: int,
    eps: float,
    statistics: bool = True,
) -> Plan:
    """x: (..., columns); weight, bias: columns -> y like x, with statistics mean and rstd (rows,),
    with a residual x + it."""
    return forward(x, weight, bias, residual, columns, eps, statistics=statistics)


def rms_norm(
    x: Layout,
    weight: Layout | None,
    residual: Layout | None,
    *,
    columns: int,
    eps: float,
    statistics: bool = True,
) -> Plan:
    """x: (..., columns); weight: columns -> y like x, with statistics rstd (rows,), with a residual
    x + it."""
    return forward(x, weight, None, residual, columns, eps, center=False, statistics=statistics)


def group_norm(
    x: Layout,
    weight: Layout | None,
    bias: Layout | None,
    *,
    groups: int,
    eps: float,
    statistics: bool = True,
    version: str | None = None,
) -> Plan:
    """x: (N, C, ...), C order; weight, bias: (C,) -> y like x, with statistics mean and rstd (N *
    groups,)."""
    channels = Channels(groups, x.shape[1] // groups, math.prod(x.shape[2:]))
    return forward(
        x,
        weight,
        bias,
        None,
        channels.share * channels.run,
        eps,
        channels=channels,
        statistics=statistics,
        version=version,
    )


# A function that keeps the result alone asks for a plan without the statistics (Op.bound).
for planner in (layer_norm, rms_norm, group_norm):
    planner.alone = functools.partial(planner, statistics=False)  # type: ignore[attr-defined]


def backward(
    g: Layout,
    x: Layout,
    weight: Layout | None,
    mean: Layout | None,
    rstd: Layout,
    extra: Layout | None,
    columns: int,
    biased: bool,
    *,
    version: str | None = None,
) -> Plan:
    """The plan of rows of `columns` elements -> dx, and dweight, dbias if there."""
    problem = Backward(g, x, weight, mean, rstd, extra, columns, biased)
    return choose("norm gradient", BACKWARD, problem, version)


def layer_norm_grad(
    g: Layout,
    x: Layout,
    weight: Layout | None,
    mean: Layout,
    rstd: Layout,
    extra: Layout | None,
    *,
    columns: int,
    biased: bool,
) -> Plan:
    """g, x, extra: (..., columns); weight: columns; mean, rstd: (rows,) -> dx, dweight, dbias."""
    return backward(g, x, weight, mean, rstd, extra, columns, biased)


def rms_norm_grad(
    g: Layout, x: Layout, weight: Layout | None, rstd: Layout, extra: Layout | None, *, columns: int
) -> Plan:
    """g, x, extra: (..., columns); weight: columns; rstd: (rows,) -> dx, dweight."""
    return backward(g, x, weight, None, rstd, extra, columns, False)


def group_norm_grad(
    g: Layout,
    x: Layout,
    weight: Layout | None,
    mean: Layout,
    rstd: Layout,
    *,
    groups: int,
    biased: bool,
    version: str | None = None,
) -> Plan:
    """g, x: (N, C, ...), C order; weight: (C,) or None; mean, rstd: (N * groups,) -> dx, dweight,
    dbias."""
    problem = GroupBackward(g, x, weight, mean, rstd, groups, biased)
    return choose("group norm gradient", GROUP_NORM_BACKWARD, problem, version)


def batch_forward(
    x: Layout,
    weight: Layout,
    residual: Layout | None,
    momentum: float,
    eps: float,
    relu: bool,
    *,
    version: str | None = None,
) -> Plan:
    """The plan of batch norm in training; inputs x, weight, bias, running mean, running variance,
    residual."""
    problem = BatchForward(x, weight, residual, momentum, eps, relu)
    if x.size == 0:
        return Plan(problem.outputs, [])
    return choose("batch norm", BATCH_NORM_FORWARD, problem, version)


def batch_norm_train(
    x: Layout,
    weight: Layout,
    bias: Layout,
    running_mean: Layout,
    running_var: Layout,
    residual: Layout | None = None,
    *,
    momentum: float,
    eps: float,
    relu: bool,
) -> Plan:
    """x, residual: (N, C, ...), others (C,) -> y like x, mean, rstd, new running mean, new running
    variance (C,)."""
    return batch_forward(x, weight, residual, momentum, eps, relu)


def batch_norm_inference(
    x: Layout,
    running_mean: Layout,
    running_var: Layout,
    weight: Layout | None,
    bias: Layout | None,
    residual: Layout | None = None,
    *,
    eps: float,
    relu: bool,
) -> Plan:
    """x, residual: (N, C, ...), others (C,) -> y like x. Without weight and bias: 1 and 0."""
    from .batch_norm import inference

    return inference(x, running_mean, running_var, weight, bias, residual, eps=eps, relu=relu)


def batch_backward(
    g: Layout,
    x: Layout,
    weight: Layout,
    y: Layout | None,
    relu: bool,
    more: Layout | None = None,
    *,
    version: str | None = None,
) -> Plan:
    """The plan of the gradient of batch norm; inputs g, x, weight, bias, mean, rstd; with y (see
    BatchBackward) y, and the residual's gradient is a fourth output; with more, more."""
    problem = BatchBackward(g, x, weight, y, relu, more)
    return choose("batch norm gradient", BATCH_NORM_BACKWARD, problem, version)


def batch_norm_grad(
    g: Layout,
    x: Layout,
    weight: Layout,
    bias: Layout,
    mean: Layout,
    rstd: Layout,
    *,
    relu: bool,
) -> Plan:
    """g, x: (N, C, ...); weight, bias, mean, rstd: (C,) -> dx, dweight, dbias."""
    return batch_backward(g, x, weight, None, relu)


def batch_norm_residual_grad(
    g: Layout,
    x: Layout,
    weight: Layout,
    bias: Layout,
    mean: Layout,
    rstd: Layout,
    y: Layout,
    more: Layout | None = None,
) -> Plan:
    """As `batch_norm_grad`, after a residual and relu gave y: (N, C, ...) -> dx, dweight, dbias,
    dresidual. The gradient is g + more."""
    return batch_backward(g, x, weight, y, True, more)
