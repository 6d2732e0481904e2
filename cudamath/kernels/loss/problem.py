"""Losses as problems: the layouts and parameters of a call, and what the choice among versions
needs of them. Logits are (N, C, D): samples, classes, positions per sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...core.dispatch.arguments import Flag, Input, Ticket
from ...core.layout import Layout
from ..lib.widths import vector_width, wide


@dataclass(frozen=True)
class CrossEntropy:
    """Cross entropy of logits x with class indices, targets (N, D); weight: (C,)."""

    x: Layout
    targets: Layout
    weight: Layout | None
    reduction: str
    ignore_index: int
    label_smoothing: float

    @property
    def smooth(self) -> bool:
        return self.label_smoothing != 0

    @property
    def outputs(self) -> list[Layout]:
        """Loss, stats (top and log_sum), divisor."""
        T = wide(self.x.dtype)
        loss = self.x.like(self.targets.shape if self.reduction == "none" else (), T)
        return [loss, self.x.like((2, *self.targets.shape), T), self.x.like((), T)]

    @property
    def settings(self) -> list:
        """Arguments of a kernel: ignore_index, smoothing, error flag and its ticket."""
        smoothing = wide(self.x.dtype).type(self.label_smoothing)
        return [self.ignore_index, smoothing, Flag(), Ticket()]


@dataclass(frozen=True)
class CrossEntropyBackward:
    """The gradient of cross entropy; inputs g, x, targets, stats, divisor."""

    g: Layout
    x: Layout
    label_smoothing: float
    ignore_index: int

    @property
    def smooth(self) -> bool:
        return self.label_smoothing != 0

    @property
    def reduced(self) -> bool:
        """Whether the gradient of one number comes in."""
        return self.g.ndim == 0

    @property
    def settings(self) -> list:
        """Arguments of a kernel: ignore_index, smoothing."""
        return [self.ignore_index, wide(self.x.dtype).type(self.label_smoothing)]


@dataclass(frozen=True)
class NegativeLogLikelihood:
    """nll_loss of x with class indices, targets (N, D); weight: (C,)."""

    x: Layout
    targets: Layout
    weight: Layout | None
    reduction: str
    ignore_index: int

    @property
    def outputs(self) -> list[Layout]:
        """Loss, divisor."""
        T = wide(self.x.dtype)
        loss = self.x.like(self.targets.shape if self.reduction == "none" else (), T)
        return [loss, self.x.like((), T)]

    @property
    def settings(self) -> list:
        """Arguments of a kernel: ignore_index, error flag and its ticket."""
        return [self.ignore_index, Flag(), Ticket()]


@dataclass(frozen=True)
class SoftTargets:
    """Cross entropy of logits x with probabilities q, both (N, C, D) in C order."""

    x: Layout
    q: Layout
    reduction: str
    label_smoothing: float


@dataclass(frozen=True)
class SoftTargetsBackward:
    """The gradient of SoftTargets; inputs g, x, q, stats, divisor."""

    g: Layout
    x: Layout
    q: Layout
    label_smoothing: float

    @property
    def reduced(self) -> bool:
        """Whether the gradient of one number comes in."""
        return self.g.ndim == 0


@dataclass(frozen=True)
class LinearLoss:
    """Losses of scores x (rows, columns), C order, which become their gradient; inputs x, targets
    (rows,), count ()."""

    x: Layout
    targets: Layout
    classes: int
    ignore_index: int

    @property
    def columns(self) -> int:
        return self.x.shape[1]

    @property
    def losses(self) -> Layout:
        return self.targets.like(dtype=wide(self.x.dtype))

    @property
    def rest(self) -> list:
        """Arguments of a kernel: classes, ignore_index, error flag and its ticket."""
        return [self.classes, self.ignore_index, Flag(), Ticket()]


@dataclass(frozen=True)
class PointwiseLoss:
    """The sum or mean of a loss of the elements of x and t, contiguous, of one shape and dtype."""

    x: Layout
    t: Layout
    kind: str
    reduction: str

    @property
    def divisor(self):
        """By which the sum is divided."""
        return wide(self.x.dtype).type(self.x.size if self.reduction == "mean" else 1)


@dataclass(frozen=True)
class PointwiseLossBackward:
    """The gradients of PointwiseLoss by x and by t; g: () or like x."""

    g: Layout
    x: Layout
    t: Layout
    kind: str

    @property
    def single(self) -> bool:
        """Whether the gradient of one number comes in."""
        return self.g.ndim == 0

    @cached_property
    def width(self) -> int:
        """Elements of an access."""
        arrays = (self.x, self.t) if self.single else (self.g, self.x, self.t)
        return vector_width(0, *arrays)


def flat_gradient(reduced: bool):
    """The argument of the incoming gradient, input 0: a number, or one for each target."""
    return Input(0) if reduced else Input(0).flat
