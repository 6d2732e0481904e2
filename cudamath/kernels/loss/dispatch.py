"""Losses and their gradients: the versions of each, and the choice among them.

Tables: CROSS_ENTROPY and CROSS_ENTROPY_BACKWARD (class indices; cross_entropy.py has the formulas),
NEGATIVE_LOG_LIKELIHOOD, SOFT_TARGETS and SOFT_TARGETS_BACKWARD (probabilities;
cross_entropy_soft_targets.py), LINEAR_LOSS (the gradient takes the place of the scores;
linear_cross_entropy.py), POINTWISE_LOSS and POINTWISE_LOSS_BACKWARD (element by element;
elementwise_losses.py).
"""

from __future__ import annotations

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...runtime.device import capability
from ..compiler.lazy_numba import SIMULATOR
from ..lib.versions import Version, choose
from ..lib.widths import vector_width
from .problem import (
    CrossEntropy,
    CrossEntropyBackward,
    LinearLoss,
    NegativeLogLikelihood,
    PointwiseLoss,
    PointwiseLossBackward,
    SoftTargets,
    SoftTargetsBackward,
)

LONG = 4096  # classes from which rows are long
FEW_LOGITS = 1 << 14  # up to which one block reads them all: some microseconds, as long as a launch
FEW_TARGETS = 4096  # of nll_loss that one block also adds up: one launch fewer

Indexed = CrossEntropy | CrossEntropyBackward
Soft = SoftTargets | SoftTargetsBackward


def has_rows(p: Indexed | Soft) -> bool:
    """One position per sample: the logits of a target are a run of memory."""
    return p.x.shape[2] == 1


def prefers_long_rows(p: Indexed) -> bool:
    """Thousands of classes, of up to 4 bytes, in accesses of 16 bytes."""
    return p.x.itemsize <= 4 and p.x.shape[1] >= LONG and vector_width(0, p.x) > 1


def is_little(p: CrossEntropy) -> bool:
    return p.x.size <= FEW_LOGITS


CROSS_ENTROPY = (
    Version(
        "long_rows",
        "loss.cross_entropy_long_rows.plan",
        has_rows,
        prefers_long_rows,
        "thousands of classes in few instructions each",
    ),
    Version(
        "one_block",
        "loss.cross_entropy.plan_one_block",
        has_rows,
        is_little,
        "few logits: one launch",
    ),
    Version("rows", "loss.cross_entropy.plan_rows", has_rows, reason="rows are runs of memory"),
    Version(
        "plain", "loss.cross_entropy.plan_plain", reason="neighbours read neighbouring positions"
    ),
)

CROSS_ENTROPY_BACKWARD = (
    Version(
        "long_rows",
        "loss.cross_entropy_long_rows.plan_grad",
        has_rows,
        prefers_long_rows,
        "thousands of classes in few instructions each",
    ),
    Version(
        "rows", "loss.cross_entropy.plan_rows_grad", has_rows, reason="rows are runs of memory"
    ),
    Version(
        "plain",
        "loss.cross_entropy.plan_plain_grad",
        reason="neighbours read neighbouring positions",
    ),
)


def is_one_sum(p: NegativeLogLikelihood) -> bool:
    return p.reduction != "none" and p.weight is None


def has_few_targets(p: NegativeLogLikelihood) -> bool:
    return p.targets.size <= FEW_TARGETS


NEGATIVE_LOG_LIKELIHOOD = (
    Version(
        "one_block",
        "loss.cross_entropy.plan_nll_one_block",
        is_one_sum,
        has_few_targets,
        "few targets: one launch",
    ),
    Version("plain", "loss.cross_entropy.plan_nll", reason="a thread per target"),
)

SOFT_TARGETS = (
    Version(
        "rows",
        "loss.cross_entropy_soft_targets.plan_rows",
        has_rows,
        reason="rows are runs of memory",
    ),
    Version(
        "plain",
        "loss.cross_entropy_soft_targets.plan_plain",
        reason="neighbours read neighbouring positions",
    ),
)

SOFT_TARGETS_BACKWARD = (
    Version(
        "rows",
        "loss.cross_entropy_soft_targets.plan_rows_grad",
        has_rows,
        reason="rows are runs of memory",
    ),
    Version(
        "plain",
        "loss.cross_entropy_soft_targets.plan_plain_grad",
        reason="neighbours read neighbouring positions",
    ),
)


def is_simulated(_problem: object) -> bool:
    return SIMULATOR


def has_units(p: LinearLoss) -> bool:
    """16-bit numbers in rows of 16-byte units, on SM 8.0 and later."""
    whole = p.x.itemsize == 2 and p.columns % 8 == 0 and p.x.aligned
    return whole and not SIMULATOR and capability(p.x.device) >= (8, 0)


LINEAR_LOSS = (
    Version("plain", "loss.linear_cross_entropy.plan_plain", prefers=is_simulated),
    Version(
        "packed",
        "loss.linear_cross_entropy.plan_packed",
        has_units,
        reason="16-bit numbers in units of 16 bytes, by powers of 2",
    ),
    Version("rows", "loss.linear_cross_entropy.plan_rows", reason="other dtypes and rows"),
)

POINTWISE_LOSS = (
    Version("plain", "loss.elementwise_losses.plan_plain", prefers=is_simulated),
    Version("blocks", "loss.elementwise_losses.plan_blocks", reason="any size"),
)


def is_contiguous(p: PointwiseLossBackward) -> bool:
    return p.x.contiguous and p.t.contiguous and (p.single or p.g.contiguous)


POINTWISE_LOSS_BACKWARD = (
    Version(
        "one_launch",
        "loss.elementwise_losses.plan_grads",
        is_contiguous,
        reason="contiguous arrays are read once for both gradients",
    ),
    Version(
        "two_launches", "loss.elementwise_losses.plan_grads_apart", reason="arrays with strides"
    ),
)


def cross_entropy(
    x: Layout,
    targets: Layout,
    weight: Layout | None = None,
    *,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    version: str | None = None,
) -> Plan:
    """x: (N, C, D), targets: (N, D), weight: (C,) -> loss () or (N, D), stats (2, N, D): top and
    log_sum, divisor ()."""
    problem = CrossEntropy(x, targets, weight, reduction, ignore_index, label_smoothing)
    return choose("cross_entropy", CROSS_ENTROPY, problem, version)


def cross_entropy_grad(
    g: Layout,
    x: Layout,
    targets: Layout,
    stats: Layout,
    divisor: Layout,
    *,
    ignore_index: int,
    label_smoothing: float,
    version: str | None = None,
) -> Plan:
    """g: () or (N, D), x: (N, C, D), targets: (N, D), stats: (2, N, D), divisor: () -> like x."""
    problem = CrossEntropyBackward(g, x, label_smoothing, ignore_index)
    return choose("cross_entropy gradient", CROSS_ENTROPY_BACKWARD, problem, version)


def nll_loss(
    x: Layout, targets: Layout, weight: Layout | None = None, *, reduction: str, ignore_index: int
) -> Plan:
    """x: (N, C, D), targets: (N, D), weight: (C,) -> loss () or (N, D), divisor ()."""
    problem = NegativeLogLikelihood(x, targets, weight, reduction, ignore_index)
    return choose("nll_loss", NEGATIVE_LOG_LIKELIHOOD, problem)


def nll_loss_grad(
    g: Layout,
    targets: Layout,
    divisor: Layout,
    *,
    classes: int,
    ignore_index: int,
    dtype: np.dtype,
) -> Plan:
    """g: () or (N, D), targets: (N, D), divisor: () -> (N, C, D) in dtype."""
    from .cross_entropy import plan_nll_grad

    return plan_nll_grad(g, targets, classes, ignore_index, dtype)


def soft_cross_entropy(
    x: Layout, q: Layout, *, reduction: str, label_smoothing: float, version: str | None = None
) -> Plan:
    """x, q: (N, C, D), C order -> loss () or (N, D), stats (3, N, D): top, log_sum, W; divisor
    ()."""
    problem = SoftTargets(x, q, reduction, label_smoothing)
    return choose("soft_cross_entropy", SOFT_TARGETS, problem, version)


def soft_cross_entropy_grad(
    g: Layout,
    x: Layout,
    q: Layout,
    stats: Layout,
    divisor: Layout,
    *,
    label_smoothing: float,
    version: str | None = None,
) -> Plan:
    """g: () or (N, D), x, q: (N, C, D), stats: (3, N, D), divisor: () -> like x."""
    problem = SoftTargetsBackward(g, x, q, label_smoothing)
    return choose("soft_cross_entropy gradient", SOFT_TARGETS_BACKWARD, problem, version)


def linear_loss(
    x: Layout,
    targets: Layout,
    count: Layout,
    *,
    classes: int,
    ignore_index: int,
    version: str | None = None,
) -> Plan:
    """Scores x (rows, columns), C order, changed; targets (rows,) integers; count () -> losses
    (rows,). count: how many targets are not ignored, in the dtype that x computes in."""
    return choose(
        "linear_loss", LINEAR_LOSS, LinearLoss(x, targets, classes, ignore_index), version
    )


def loss(x: Layout, t: Layout, *, kind: str, reduction: str, version: str | None = None) -> Plan:
    """x, t of one shape and dtype; scalars: parameter -> the loss () (both contiguous then), or
    that of each element."""
    if reduction == "none":
        from .elementwise_losses import plan_elements

        return plan_elements(x, t, kind)
    return choose(kind, POINTWISE_LOSS, PointwiseLoss(x, t, kind, reduction), version)


def loss_grad(g: Layout, x: Layout, t: Layout, *, kind: str, by: int) -> Plan:
    """g: () or like x; scalars: parameter, scale -> g * scale * slope, `by` x (0) or t (1)."""
    from .elementwise_losses import plan_grad

    return plan_grad(g, x, t, kind, by)


def loss_grads(g: Layout, x: Layout, t: Layout, *, kind: str) -> Plan:
    """The same by x and by t."""
    return choose(f"{kind} gradient", POINTWISE_LOSS_BACKWARD, PointwiseLossBackward(g, x, t, kind))
