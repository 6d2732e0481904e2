"""From the loss of each target to the loss of all: sum, mean, or a copy. The loss has the dtype
that the logits are computed in: float32 for 16-bit ones.

A kernel of losses leaves `pairs`: of each target its loss and whether it counts. The sums have an
order that the targets' number fixes alone.
"""

import functools

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda
from ..lib.block_reduce import group_sum
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import RUN
from ..lib.widths import wide

LAST = 1024  # threads of the last kernel, which is one block
MANY = (
    1 << 14
)  # more pairs than this are first added by FOLDS blocks: of 65,536 in 6 us instead of 12 (H200)
FOLDS = 128


@functools.cache
def weigh(dtype):
    """Losses and counts times the weight of their class, one thread per target; pairs: (2, N * D);
    targets: (N * D,); weight: (C,) in compute precision."""

    @cuda.jit
    def loss_weigh(pairs, targets, weight, ignore):
        i = cuda.grid(1)
        if i < targets.size:
            target = targets[i]
            if (
                target != ignore and 0 <= target < weight.size
            ):  # the kernel before has said so if it lies elsewhere
                pairs[0, i] *= weight[target]
                pairs[1, i] *= weight[target]

    return loss_weigh


@functools.cache
def copy_losses(dtype):
    """Without reduction; pairs: (2, n); losses: (n,); divisor: (1,), set to 1."""
    T = codec(dtype)[2]

    @cuda.jit
    def loss_copy(pairs, losses, divisor):
        i = cuda.grid(1)
        if i < losses.size:
            losses[i] = pairs[0, i]
        if i == 0:
            divisor[0] = T(1)

    return loss_copy


@functools.cache
def fold(dtype):
    """FOLDS blocks of LAST threads add up a share of the pairs each; pairs: (2, n); sums: (2,
    FOLDS)."""
    T = codec(dtype)[2]
    total_of = group_sum(LAST, T)

    @bounded(LAST)
    def loss_fold(pairs, sums):
        loss = T(0)
        counted = T(0)
        for i in range(cuda.blockIdx.x * LAST + cuda.threadIdx.x, pairs.shape[1], FOLDS * LAST):
            loss += pairs[0, i]
            counted += pairs[1, i]
        loss = total_of(loss)
        counted = total_of(counted)
        if cuda.threadIdx.x == 0:
            sums[0, cuda.blockIdx.x] = loss
            sums[1, cuda.blockIdx.x] = counted

    return loss_fold


@functools.cache
def finish(dtype, mean):
    """One block of LAST threads; pairs: (2, n); loss: (1,), their sum or mean; divisor: (1,), by
    what was divided."""
    T = codec(dtype)[2]
    total_of = group_sum(LAST, T)

    @bounded(LAST)
    def loss_finish(pairs, loss, divisor):
        total, counted = T(0), T(0)
        for i in range(cuda.threadIdx.x, pairs.shape[1], LAST):
            total += pairs[0, i]
            counted += pairs[1, i]
        total = total_of(total)
        counted = total_of(counted)
        if cuda.threadIdx.x == 0:
            loss[0] = total / counted if mean else total
            divisor[0] = counted if mean else T(1)

    return loss_finish


@functools.cache
def plain_finish(dtype, mean):
    """As `finish`, by one thread: for the simulator."""
    T = codec(dtype)[2]

    @cuda.jit
    def loss_plain_finish(pairs, loss, divisor):
        total, counted = T(0), T(0)
        for start in range(0, pairs.shape[1], RUN):
            part = T(0)
            for i in range(start, min(start + RUN, pairs.shape[1])):
                part += pairs[0, i]
                counted += pairs[1, i]
            total += part
        loss[0] = total / counted if mean else total
        divisor[0] = counted if mean else T(1)

    return loss_plain_finish


def reduction_steps(
    dtype: np.dtype,
    targets: Layout,
    reduction: str,
    divisor,
    weight: Layout | None = None,
    ignore_index: int = 0,
    one_thread: bool = False,
) -> tuple[list[Launch], list[Layout]]:
    """From pairs in Temp(0) to Output(0), the loss, and `divisor`; the scratch arrays. weight: of
    Input(2), if there is one; one_thread: for the simulator."""
    T = wide(dtype)
    n = targets.size
    pairs = Temp(0).view((2, n))
    temps = [targets.like((2, *targets.shape), T)]
    steps = []
    if weight is not None:
        steps.append(
            Launch(weigh(T), blocks(n, 256), 256, [pairs, Input(1).flat, Input(2), ignore_index])
        )
    if reduction == "none":
        return [
            *steps,
            Launch(copy_losses(T), max(blocks(n, 256), 1), 256, [pairs, Output(0).flat, divisor]),
        ], temps
    if one_thread:
        return [
            *steps,
            Launch(plain_finish(T, reduction == "mean"), 1, 1, [pairs, Output(0), divisor]),
        ], temps
    if n > MANY:
        steps.append(Launch(fold(T), FOLDS, LAST, [pairs, Temp(1)]))
        temps.append(targets.like((2, FOLDS), T))
        pairs = Temp(1)
    steps.append(Launch(finish(T, reduction == "mean"), 1, LAST, [pairs, Output(0), divisor]))
    return steps, temps
