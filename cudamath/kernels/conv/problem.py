"""The problem that a convolution's planner solves: layouts, options, and the quantities that choose
a version.

A convolution and its two gradients are one sum of products, read in three ways (fprop_simt.py).
A `Problem` names the three arrays by their role in that sum: images `x`, filters `weight`, and
results `y`. Its `kind` says which of the three is computed:

    kind         operands     result
    "forward"    x, weight    y
    "input"      y, weight    x          the gradient of the images
    "weight"     y, x         weight     the gradient of the filters
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.dispatch import autotune
from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.layout import Layout, is_channels_last
from ...runtime.device import capability
from ..compiler.decorators import device_function
from ..copy.channels_last import result
from ..elementwise.launches import plain
from ..lib.codec import codec
from ..matmul.sm90_tiles import is_tile
from .geometry import DIRECT, LEAST_OUTPUTS

Pair = tuple[int, int]
Lengths = tuple[int, ...]  # along rows and columns, or along planes, rows and columns

#: The names of operands and result (the last) of each kind.
ROLES = {
    "forward": ("x", "weight", "y"),
    "input": ("y", "weight", "x"),
    "weight": ("y", "x", "weight"),
}
#: Tiles pay for fewer than LEAST_OUTPUTS outputs if sums have DEEP_SUM terms and there are
#: MUCH_WORK multiply-adds (3 outputs of 32 channels: 6 times as fast).
DEEP_SUM, MUCH_WORK = 64, 1 << 24
DIRECT_TERMS = 256  # of a sum, and DIRECT multiply-adds: up to these one launch is faster


@dataclass(frozen=True)
class Problem:
    """One convolution of images or volumes, or one of its gradients.

    Parameters
    ----------
    kind : str
        "forward", "input" or "weight".
    x, weight, y : Layout
        Images (N, G*C, H, W), filters (G*M, C, R, S), results (N, G*M, P, Q). Volumes have one axis
        more.
    bias : Layout, optional
        One number for each channel of the result; the third operand.
    stride, dilation : tuple of int
        Along each axis.
    padding : tuple of int
        Before and after each axis.
    groups : int
        The number G of groups of channels.
    tf32 : bool
        Whether float32 may be rounded to TF32.
    """

    kind: str
    x: Layout
    weight: Layout
    y: Layout
    bias: Layout | None = None
    stride: Lengths = (1, 1)
    padding: Lengths = (0, 0, 0, 0)
    dilation: Lengths = (1, 1)
    groups: int = 1
    tf32: bool = False

    @classmethod
    def forward(
        cls,
        x: Layout,
        weight: Layout,
        bias: Layout | None = None,
        *,
        stride: Lengths,
        padding: Lengths,
        dilation: Lengths,
        groups: int,
        tf32: bool = False,
    ) -> Problem:
        """x (N, G*C, H, W), weight (G*M, C, R, S), bias (G*M,) -> y (N, G*M, P, Q)."""
        y = result(x, forward_shape(x, weight, stride, padding, dilation))
        return cls("forward", x, weight, y, bias, stride, padding, dilation, groups, tf32)

    @classmethod
    def input_gradient(
        cls,
        grad: Layout,
        weight: Layout,
        bias: Layout | None = None,
        *,
        size: Lengths,
        stride: Lengths,
        padding: Lengths,
        dilation: Lengths,
        groups: int,
        tf32: bool = False,
    ) -> Problem:
        """grad (N, G*M, P, Q), weight (G*M, C, R, S), bias (G*C,), size (H, W) -> (N, G*C, H,
        W)."""
        x = result(grad, (grad.shape[0], groups * weight.shape[1], *size))
        return cls("input", x, weight, grad, bias, stride, padding, dilation, groups, tf32)

    @classmethod
    def weight_gradient(
        cls,
        grad: Layout,
        x: Layout,
        *,
        kernel: Lengths,
        stride: Lengths,
        padding: Lengths,
        dilation: Lengths,
        groups: int,
        tf32: bool = False,
    ) -> Problem:
        """grad (N, G*M, P, Q), x (N, G*C, H, W), kernel (R, S) -> (G*M, C, R, S)."""
        weight = result(x, (grad.shape[1], x.shape[1] // groups, *kernel))
        return cls("weight", x, weight, grad, None, stride, padding, dilation, groups, tf32)

    def __str__(self) -> str:
        shapes = ", ".join(f"{role} {getattr(self, role).shape}" for role in ROLES[self.kind])
        return (
            f"{self.kind} of {self.dtype} {shapes}, stride {self.stride}, padding {self.padding}, "
            f"dilation {self.dilation}, groups {self.groups}"
        )

    @property
    def key(self) -> str:
        """All that a plan depends on, in words."""
        strides = [layout.strides for layout in (*self.inputs, self.out)]
        return f"{self}, strides {strides}, tf32 {self.tf32}, bias {self.bias is not None}"

    # ---------------- arrays

    @functools.cached_property
    def operands(self) -> tuple[Layout, Layout]:
        """The two operands, without the bias."""
        first, second, _ = ROLES[self.kind]
        return getattr(self, first), getattr(self, second)

    @functools.cached_property
    def inputs(self) -> tuple[Layout, ...]:
        """The operands and, if there is one, the bias."""
        return self.operands if self.bias is None else (*self.operands, self.bias)

    @functools.cached_property
    def out(self) -> Layout:
        """The result."""
        layout: Layout = getattr(self, ROLES[self.kind][2])
        return layout

    @property
    def dtype(self) -> np.dtype:
        return self.out.dtype

    @property
    def itemsize(self) -> int:
        return self.out.itemsize

    @property
    def device(self) -> int:
        return self.out.device

    @property
    def capability(self) -> tuple[int, int]:
        """The device's compute capability."""
        return capability(self.device)

    @functools.cached_property
    def empty(self) -> bool:
        """Whether an operand or the result has no elements."""
        return not (self.x.size and self.weight.size and self.y.size)

    @functools.cached_property
    def contiguous(self) -> bool:
        """Whether both operands lie in C order."""
        return all(layout.contiguous for layout in self.operands)

    @functools.cached_property
    def channels_last(self) -> bool:
        """Whether the first operand lies channels last, and not in C order as well."""
        return is_channels_last(self.operands[0]) and not self.operands[0].contiguous

    @functools.cached_property
    def library_last(self) -> bool:
        """Whether cuDNN sees all arrays channels last: 16-bit numbers, and what does not lie in C
        order. That is how most of its kernels for these read them."""
        return self.itemsize == 2 or not (self.contiguous and self.out.contiguous)

    @property
    def on_tensor_cores(self) -> bool:
        """Whether a library multiplies on tensor cores: 16-bit numbers and TF32."""
        return self.itemsize == 2 or self.tf32 and self.itemsize == 4

    @property
    def float32(self) -> bool:
        """Whether it computes in float32 without rounding to TF32."""
        return self.itemsize == 4 and not self.tf32

    # ---------------- sizes

    @property
    def taps(self) -> Lengths:
        """Of a filter, along each axis."""
        return self.weight.shape[2:]

    @functools.cached_property
    def windows(self) -> bool:
        """Whether filters have more than one tap."""
        return math.prod(self.taps) > 1

    @property
    def group_channels(self) -> int:
        """Channels of the images of one group."""
        return self.weight.shape[1]

    @property
    def group_outputs(self) -> int:
        """Channels of the results of one group."""
        return self.weight.shape[0] // self.groups

    @functools.cached_property
    def positions(self) -> int:
        """Pixels of all results: N * P * Q."""
        return self.y.shape[0] * math.prod(self.y.shape[2:])

    @functools.cached_property
    def terms(self) -> int:
        """Products in the sum of one result of the forward convolution."""
        return math.prod(self.weight.shape[1:])

    @functools.cached_property
    def multiply_adds(self) -> int:
        """All products, those with padding included."""
        return self.y.size * self.terms

    # ---------------- measurements

    @functools.cached_property
    def measurement(self) -> autotune.Decision | None:
        """The fastest candidate that was timed for about this size; see `fastest`."""
        return self.fastest()

    @property
    def measured(self) -> str:
        """The method of `measurement`, without its tile or plan; "" where nothing was timed."""
        return self.measurement.choice.split()[0] if self.measurement else ""

    def fastest(
        self, methods: tuple[str, ...] | None = None, whole: bool = False
    ) -> autotune.Decision | None:
        """The fastest of the timed candidates, of float32 in C order and of 16-bit numbers channels
        last.

        Candidates are named by method, with a tile or plan behind: "simt", "sm80", "sm90",
        "pointwise_matmul TILE", "pointwise_cublas", "im2col_cublas", "cudnn PLAN". methods: those
        that can run; whole: without tiles that split a sum.
        """
        if self.itemsize > 4 or not all(
            is_channels_last(layout) if self.itemsize == 2 else layout.contiguous
            for layout in self.operands
        ):
            return None
        images, channels, *size = self.x.shape
        key = tuning_key(
            self.dtype,
            self.kind,
            self.taps,
            self.stride,
            self.dilation,
            channels // max(self.group_channels, 1),
        )
        sizes = images, channels, math.prod(size), self.weight.shape[0]
        able = METHODS if methods is None else methods

        def is_candidate(text: str) -> bool:
            method, _, rest = text.partition(" ")
            if method == "pointwise_matmul" and rest:
                return method in able and is_tile(rest, whole)
            return method in able and (method == "cudnn" or not rest)

        return autotune.lookup("conv2d", self.device, key, sizes, is_candidate)


#: The methods that tables of measurements name.
METHODS = (
    "simt",
    "sm80",
    "sm90",
    "pointwise_matmul",
    "pointwise_cublas",
    "im2col_cublas",
    "cudnn",
)


def tuning_key(
    dtype: np.dtype,
    kind: str,
    taps: Lengths,
    stride: Lengths,
    dilation: Lengths = (1, 1),
    groups: int = 1,
) -> str:
    """The key of a problem in tables of measurements, besides its sizes."""
    words = [str(dtype), kind, "x".join(map(str, taps)), f"stride {'x'.join(map(str, stride))}"]
    if max(dilation) > 1:
        words.append(f"dilation {'x'.join(map(str, dilation))}")
    if groups > 1:
        words.append(f"groups {groups}")
    return " ".join(words)


def forward_shape(
    x: Layout, weight: Layout, stride: Lengths, padding: Lengths, dilation: Lengths
) -> Lengths:
    """The shape of the results of a forward convolution."""
    size = [
        (n + padding[2 * i] + padding[2 * i + 1] - dilation[i] * (weight.shape[2 + i] - 1) - 1)
        // stride[i]
        + 1
        for i, n in enumerate(x.shape[2:])
    ]
    return (x.shape[0], weight.shape[0], *size)


# -------------------- rules that several planners share


def has_32_bit_offsets(layout: Layout) -> bool:
    """Whether offsets in an operand, and their sums, are 32-bit numbers. Operands with negative
    strides, or strides that are not whole elements, are copied first (geometry.Sources)."""
    if any(stride < 0 or stride % layout.itemsize for stride in layout.strides):
        layout = layout.like()
    last = sum(
        (n - 1) * (stride // layout.itemsize)
        for n, stride in zip(layout.shape, layout.strides, strict=True)
    )
    return 1 + last < 1 << 30


def tiles_pay(outputs: int, terms: int, results: int) -> bool:
    """Whether SIMT tiles pay for so many outputs of a group, terms of a sum, and results in all."""
    return outputs >= LEAST_OUTPUTS or (terms >= DEEP_SUM and results * terms >= MUCH_WORK)


def is_small(terms: int, multiply_adds: int) -> bool:
    """Whether one launch of the direct kernel takes less time than tiles, which take several."""
    return terms <= DIRECT_TERMS and multiply_adds <= DIRECT


def meeting_taps(problem: Problem) -> int:
    """The most taps that meet one element of an input gradient: with a stride, not all of them."""
    return math.prod(
        [-(-taps // stride) for taps, stride in zip(problem.taps, problem.stride, strict=True)]
    )


# -------------------- biases, for versions whose kernels add none


@functools.cache
def _sum_with_bias(dtype: np.dtype) -> Any:
    """Device function: an element and the bias of its channel."""
    load, store, _ = codec(dtype)

    @device_function
    def added(a, b):
        return store(load(a) + load(b))

    return added


def add_bias(plan: Plan | None, problem: Problem) -> Plan | None:
    """The plan, and behind it the launch that adds the problem's bias, if there is one. Results
    are images (N, C, H, W) or volumes; the bias is the third operand."""
    if plan is None or problem.bias is None:
        return plan
    (out,) = plan.outputs
    strides = (0, problem.bias.strides[0], *[0] * (len(out.shape) - 2))
    plan.steps.append(
        plain(
            _sum_with_bias(out.dtype),
            (True, True),
            [Output(0), Input(2).view(out.shape, strides)],
            Output(0),
            out.shape,
        )
    )
    return plan
