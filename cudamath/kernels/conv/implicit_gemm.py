"""A convolution, or its input gradient, as matrix products of channels: what the tensor-core
kernels have in common.

A product has a row (or column) for each output pixel and one for each output channel, and sums over
taps and channels. The input gradient of a convolution with strides is several products
(fprop_simt.py), one for each residue of the rows and columns of x; in each the taps are walked
backwards, so that their places in dy go forwards.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from ...core.dispatch.arguments import Input
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..copy.channels_last import Turned
from .geometry import Walk, residues

Pair = tuple[int, int]


class Product(NamedTuple):
    """Output pixels (images, rows, columns of pixels), how they lie in y, and the taps they sum."""

    size: tuple[int, int, int]
    rows: Walk  # input row = start + row * step, of the first tap
    columns: Walk  # .tap: rows (columns) of the input from one tap to the next, not negative
    taps: Pair  # how many down, right
    tap: tuple[int, int, int]  # number of the first in w, to the next down, right
    offset: int  # bytes, of the first pixel in y
    strides: tuple[int, int, int]


#: launch(products, images, their shape, filters, their shape, bias, y, dtype, across, groups) ->
#: Launches, or None where it cannot be done; all arrays channels last. across: filters are summed
#: along their outputs.
Launcher = Callable[..., list[Launch] | None]


def _pixel_strides(out: Layout) -> tuple[int, int, int]:
    """Bytes from image to image, row to row, pixel to pixel of channels-last images."""
    _, channels, height, width = out.shape
    step = channels * out.itemsize
    return height * width * step, width * step, step


def forward(
    launch: Launcher,
    out: Layout,
    x: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    stride: Pair,
    padding: tuple[int, int, int, int],
    dilation: Pair,
    groups: int,
) -> Plan | None:
    """x (N, G*C, H, W), weight (G*M, C, R, S), bias (G*M,) -> out (N, G*M, P, Q); None where
    `launch` cannot do it."""
    turned = Turned(out, x, weight)
    walks = [Walk(-padding[2 * i], stride[i], dilation[i]) for i in (0, 1)]
    taps_down, taps_right = weight.shape[2:]
    product = Product(
        (out.shape[0], *out.shape[2:]),
        *walks,
        (taps_down, taps_right),
        (0, taps_right, 1),
        0,
        _pixel_strides(out),
    )
    steps = launch(
        [product],
        turned.operands[0],
        x.shape,
        turned.operands[1],
        weight.shape,
        None if bias is None else Input(2),
        turned.target,
        x.dtype,
        False,
        groups,
    )
    if steps is None:
        return None
    turned.steps += steps
    return turned.plan()


def input_gradient(
    launch: Launcher,
    out: Layout,
    grad: Layout,
    weight: Layout,
    *,
    stride: Pair,
    padding: tuple[int, int, int, int],
    dilation: Pair,
    groups: int,
) -> Plan | None:
    """grad (N, G*M, P, Q), weight (G*M, C, R, S) -> out (N, G*C, H, W); None where `launch` cannot
    do it."""
    turned = Turned(out, grad, weight)
    kernel = weight.shape[2:]
    image, row, pixel = _pixel_strides(out)
    axes = [
        residues(kernel[i], out.shape[2 + i], stride[i], padding[2 * i], dilation[i])
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
                (out.shape[0], tall, wide),
                *walks,
                **where,
                offset=top * row + left * pixel,
                strides=(image, stride[0] * row, stride[1] * pixel),
            )
        )
    steps = launch(
        products,
        turned.operands[0],
        grad.shape,
        turned.operands[1],
        weight.shape,
        None,
        turned.target,
        grad.dtype,
        True,
        groups,
    )
    if steps is None:
        return None
    turned.steps += steps
    return turned.plan()
