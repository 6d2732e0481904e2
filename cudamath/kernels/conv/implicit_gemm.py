"""A convolution, or its input gradient, as matrix products of channels: the common part of the
planners for tensor cores.

A product has a row (or column) for each output pixel and one for each output channel. It sums over
taps and channels. The input gradient of a convolution with strides is several products
(fprop_simt.py), one for each residue of the rows and columns of x. In each of them the taps are
walked backwards, so that their places in dy go forwards.
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from ...core.dispatch.arguments import Input
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..copy.channels_last import ReorderedPlan
from .geometry import Walk, residues
from .problem import Pair, Problem, add_bias


class Product(NamedTuple):
    """Output pixels (images, rows, columns of pixels), how they lie in y, and the taps they sum."""

    size: tuple[int, int, int]
    rows: Walk  # input row = start + row * step, of the first tap
    columns: Walk  # .tap: rows (columns) of the input from one tap to the next, not negative
    taps: Pair  # how many down, right
    tap: tuple[int, int, int]  # number of the first in w, to the next down, right
    offset: int  # bytes, of the first pixel in y
    strides: tuple[int, int, int]


#: launch(products, problem, images, filters, bias, y, across) -> Launches, or None where sizes
#: forbid it. All arrays lie channels last. across: filters are summed along their outputs.
Launcher = Callable[..., list[Launch] | None]


def _pixel_strides(out: Layout) -> tuple[int, int, int]:
    """Bytes from image to image, row to row, pixel to pixel of channels-last images."""
    _, channels, height, width = out.shape
    step = channels * out.itemsize
    return height * width * step, width * step, step


def forward(launch: Launcher, problem: Problem) -> Plan | None:
    """The plan of a forward convolution; None where `launch` cannot do it."""
    plan = ReorderedPlan(problem.y, *problem.operands)
    stride, padding, dilation = problem.stride, problem.padding, problem.dilation
    walks = [Walk(-padding[2 * i], stride[i], dilation[i]) for i in (0, 1)]
    taps_down, taps_right = problem.taps
    product = Product(
        (problem.y.shape[0], *problem.y.shape[2:]),
        *walks,
        (taps_down, taps_right),
        (0, taps_right, 1),
        0,
        _pixel_strides(problem.y),
    )
    bias = None if problem.bias is None else Input(2)
    steps = launch([product], problem, *plan.operands, bias, plan.target, False)
    if steps is None:
        return None
    plan.steps += steps
    return plan.build()


def input_gradient(launch: Launcher, problem: Problem) -> Plan | None:
    """The plan of the gradient of images; None where `launch` cannot do it."""
    plan = ReorderedPlan(problem.x, *problem.operands)
    stride, padding, dilation = problem.stride, problem.padding, problem.dilation
    kernel = problem.taps
    image, row, pixel = _pixel_strides(problem.x)
    axes = [
        residues(kernel[i], problem.x.shape[2 + i], stride[i], padding[2 * i], dilation[i])
        for i in (0, 1)
    ]
    products = []
    for (top, tall, r, rows), (left, wide, s, columns) in itertools.product(*axes):
        down, right = range(kernel[0])[r], range(kernel[1])[s]
        walks = [
            Walk(walk.start + walk.tap * (len(taps) - 1) if taps else 0, 1, -walk.tap)
            for walk, taps in ((rows, down), (columns, right))
        ]
        where: dict[str, Any] = {
            "taps": (0, 0),
            "tap": (0, 0, 0),
        }  # no taps: these pixels are zeros
        if down and right:
            where = {
                "taps": (len(down), len(right)),
                "tap": (down[-1] * kernel[1] + right[-1], -down.step * kernel[1], -right.step),
            }
        products.append(
            Product(
                (problem.x.shape[0], tall, wide),
                *walks,
                **where,
                offset=top * row + left * pixel,
                strides=(image, stride[0] * row, stride[1] * pixel),
            )
        )
    alone = dataclasses.replace(problem, bias=None)
    steps = launch(products, alone, *plan.operands, None, plan.target, True)
    if steps is None:
        return None
    plan.steps += steps
    return add_bias(plan.build(), problem)
