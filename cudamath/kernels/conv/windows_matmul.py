"""Convolutions as products of matrices: the windows of all results are written out.

Of 16-bit images channels last they are the rows of one product, taps before channels, as filters
lie:

    forward         Y (pixels x outputs) = X's windows (pixels x taps channels) @ w.T
    input gradient  dX's windows = dY (pixels x outputs) @ w, where no two windows share a pixel:
                    each pixel is copied from the one that has it, others are 0;
                    dX = dY's windows @ w, its taps walked backwards, where there is no stride

It pays where there are few results with long sums: patches of 14 x 14 pixels become tokens, the
last layers of a network see 7 x 7 pixels of a thousand channels. A kernel that gathers windows
itself has a tile or two for a hundred multiprocessors then, and does not split sums; versions of
matmul do. Windows take as many times the memory of the images as pixels have windows: once, where
these do not overlap.

Images in C order have an input gradient by a product each, where no two windows share a pixel:

    w.T (channels taps x outputs) @ dY (outputs x pixels) = dX's windows, a tap a plane,

which are copied to their places: transposed convolutions that enlarge an image. A kernel that
gathers walks through stride^2 times as many products of zeros, or over the taps of each pixel.
"""

from __future__ import annotations

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ..copy.channels_last import ReorderedPlan, as_channels_last
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import Part, whole
from ..lib.plan_edit import renumber
from ..matmul.dispatch import matmul
from ..matmul.problem import Problem as MatmulProblem
from ..matmul.problem import transpose
from .im2col_cublas import gradient_padding
from .problem import Lengths, Pair, Problem, add_bias
from .work import image_product

MOST = 1 << 28  # bytes that the windows may take


def are_apart(problem: Problem) -> bool:
    """Whether no two windows share a pixel, and all lie inside the image."""
    steps = zip(problem.stride, problem.taps, strict=True)
    return (
        not any(problem.padding)
        and max(problem.dilation) == 1
        and all(step >= taps for step, taps in steps)
    )


def has_windows_of_results(problem: Problem) -> bool:
    """Whether an input gradient is a convolution of dy with no less than no padding."""
    return max(problem.stride) == 1 and min(gradient_padding(problem)) >= 0


def product_of_windows(problem: Problem) -> MatmulProblem:
    """The product of matrices."""
    x, weight, y = problem.x, problem.weight, problem.y
    outputs, channels, *_ = weight.shape
    if problem.kind == "forward":
        filters = transpose(weight.like((outputs, problem.terms)))
        return MatmulProblem(x.like((problem.positions, problem.terms)), filters)
    if are_apart(problem):
        filters = weight.like((outputs, problem.terms))
        return MatmulProblem(y.like((problem.positions, outputs)), filters)
    terms = weight.size // channels
    pixels = x.size // channels
    return MatmulProblem(y.like((pixels, terms)), transpose(weight.like((channels, terms))))


def windows_bytes(problem: Problem) -> int:
    """What the windows take."""
    product = product_of_windows(problem)
    apart = problem.kind == "input" and are_apart(problem)
    rows, columns = product.a.shape[0], (product.b if apart else product.a).shape[1]
    return rows * columns * problem.itemsize


def _multiplied(
    plan: ReorderedPlan, problem: Problem, images: ArrayArg, filters: ArrayArg, out: ArrayArg
) -> None:
    """Append the product of `images` and `filters`, which leaves `out`."""
    wanted = product_of_windows(problem)
    product = matmul(wanted.a, wanted.b)
    places: dict[ArrayArg, ArrayArg] = {  # which lie as matrices do
        Input(0): images.view(wanted.a.shape),
        Input(1): filters.view(wanted.b.shape, wanted.b.strides),
        Output(0): out.view(product.outputs[0].shape),
    }
    places |= {Temp(i): plan.temp(scratch) for i, scratch in enumerate(product.temps)}
    plan.steps += renumber(product.steps, places)


def _windows(images: Part, problem: Problem, results: Layout, stride: Pair) -> Part:
    """The windows of all results in framed images channels last: (N, P, Q, R, S, C)."""
    image, channel, row, pixel = images.layout.strides
    count, channels, *_ = images.layout.shape
    (down, across), apart = stride, problem.dilation
    layout = Layout.of(
        (count, *results.shape[2:], *problem.taps, channels),
        (image, row * down, pixel * across, row * apart[0], pixel * apart[1], channel),
        results.dtype,
        results.device,
    )
    return images._replace(layout=layout)


def _gathered(
    plan: ReorderedPlan, problem: Problem, results: Layout, stride: Pair, padding: Lengths
) -> ArrayArg:
    """Append what writes the windows of the first operand."""
    images = whole(plan.operands[0], as_channels_last(problem.operands[0]))
    windows = _windows(_framed(plan, images, padding), problem, results, stride)
    rows = results.like(windows.layout.shape)
    target = plan.temp(rows)
    plan.steps += copy_part(windows, whole(target, rows))
    return target


def _framed(plan: ReorderedPlan, source: Part, padding: Lengths) -> Part:
    """A copy of images with zeros around them; themselves without padding."""
    if not any(padding):
        return source
    count, channels, height, width = source.layout.shape
    top, bottom, left, right = padding
    shape = (count, channels, height + top + bottom, width + left + right)
    larger = as_channels_last(source.layout, shape)
    framed = whole(plan.temp(larger), larger)
    inner = framed.slice(2, top, height).slice(3, left, width)
    plan.steps += fill_part(framed, np.uint64(0), np.uint64(0), None)
    plan.steps += copy_part(source, inner)
    return framed


def forward(problem: Problem) -> Plan | None:
    """x (N, C, H, W), weight (K, C, R, S), bias (K,) -> y (N, K, P, Q); None where the windows take
    more than MOST bytes."""
    if windows_bytes(problem) > MOST:
        return None
    plan = ReorderedPlan(problem.out, *problem.operands)
    rows = _gathered(plan, problem, problem.y, problem.stride, problem.padding)
    _multiplied(plan, problem, rows, plan.operands[1], plan.target)
    return add_bias(plan.build(), problem)


def input_gradient(problem: Problem) -> Plan | None:
    """y (N, K, P, Q), weight (K, C, R, S), bias (C,) -> x (N, C, H, W); None where the windows take
    more than MOST bytes."""
    if windows_bytes(problem) > MOST:
        return None
    plan = ReorderedPlan(problem.out, *problem.operands)
    (_scattered if are_apart(problem) else _walked_backwards)(plan, problem)
    return add_bias(plan.build(), problem)


def gradient_of_images(problem: Problem) -> Plan:
    """The same by a product for each image, in C order. Windows take no more than the images."""
    plan = ReorderedPlan(problem.out, *problem.operands, last=False)
    wanted = image_product(problem)
    product, x = matmul(wanted.a, wanted.b), problem.x
    count, channels, *_ = x.shape
    rows = x.like((count, channels, *problem.taps, *problem.y.shape[2:]))
    source = plan.temp(rows)
    places: dict[ArrayArg, ArrayArg] = {
        Input(0): plan.operands[1].view(wanted.a.shape, wanted.a.strides),
        Input(1): plan.operands[0].view(wanted.b.shape),
        Output(0): source.view(product.outputs[0].shape),
    }
    places |= {Temp(i): plan.temp(scratch) for i, scratch in enumerate(product.temps)}
    plan.steps += renumber(product.steps, places)
    images = whole(plan.target, plan.target_layout)
    if rows.size != x.size:
        plan.steps += fill_part(images, np.uint64(0), np.uint64(0), None)
    image, channel, row, pixel = plan.target_layout.strides
    (down, across), (_, _, *taps, high, wide) = problem.stride, rows.shape
    windows = Layout.of(
        (count, channels, high, taps[0], wide, taps[1]),
        (image, channel, row * down, row, pixel * across, pixel),
        x.dtype,
        x.device,
    )
    steps = tuple([rows.strides[i] for i in (0, 1, 4, 2, 5, 3)])
    taken = Layout.of(windows.shape, steps, x.dtype, x.device)
    plan.steps += copy_part(Part(source, taken), images._replace(layout=windows))
    return add_bias(plan.build(), problem)


def _scattered(plan: ReorderedPlan, problem: Problem) -> None:
    """Append the product that leaves windows, and what copies these to their places."""
    images = whole(plan.target, as_channels_last(problem.x))
    windows = _windows(images, problem, problem.y, problem.stride)
    rows = problem.x.like(windows.layout.shape)
    source = plan.temp(rows)
    _multiplied(plan, problem, plan.operands[0], plan.operands[1], source)
    if rows.size != problem.x.size:
        plan.steps += fill_part(images, np.uint64(0), np.uint64(0), None)
    plan.steps += copy_part(whole(source, rows), windows)


def _walked_backwards(plan: ReorderedPlan, problem: Problem) -> None:
    """Append what writes dy's windows and the filters backwards, and their product."""
    rows = _gathered(plan, problem, problem.x, (1, 1), gradient_padding(problem))
    outputs, channels, *taps = problem.weight.shape
    output, channel, down, right = as_channels_last(problem.weight).strides
    backwards = Layout.of(
        (channels, *taps, outputs),
        (channel, -down, -right, output),
        problem.dtype,
        problem.device,
    )
    first = down * (taps[0] - 1) + right * (taps[1] - 1)
    straight = problem.weight.like(backwards.shape)
    filters = plan.temp(straight)
    plan.steps += copy_part(Part(plan.operands[1], backwards, first), whole(filters, straight))
    _multiplied(plan, problem, rows, filters, plan.target)
