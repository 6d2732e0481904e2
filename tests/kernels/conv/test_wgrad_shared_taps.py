"""Weight gradients whose taps of a row share their pixels (kernels/conv/wgrad_sm90_shared_taps.py),
float32 sums over channels split over blocks (kernels/conv/fprop_simt.py): their plans read as the
kernels read them, without a GPU; then the kernels."""

import numpy as np
import pytest

from cudamath.core.dispatch.arguments import Output
from cudamath.core.layout import Layout
from cudamath.kernels.conv import dgrad_simt, fprop_simt, wgrad_sm90_shared_taps
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv import geometry as conv_geometry
from cudamath.kernels.conv.problem import Problem
from cudamath.kernels.conv.wgrad_sm90 import PIXELS
from cudamath.kernels.copy import channels_last
from cudamath.runtime.device import assume
from tests.ml.test_conv import (
    BF16,
    F16,
    F32,
    check,
    geometry,
    needs_tensor_cores,
    numbers,
    on_gpu,
    reference,
)

CASES = [  # x, weight, stride, padding, dilation, groups
    ((3, 16, 6, 5), (72, 16, 3, 3), 1, 1, 1, 1),
    ((2, 16, 9, 28), (72, 16, 3, 3), 1, 1, 1, 1),
    ((2, 8, 7, 9), (200, 8, 2, 4), 1, 0, 1, 1),  # rows of x are longer than those of results
    ((2, 8, 7, 9), (72, 8, 3, 3), (2, 1), (1, 2), (1, 3), 1),
    ((2, 8, 4, 4), (72, 8, 3, 2), 1, (3, 5), 1, 1),  # more padding than taps
    ((9, 144, 3, 3), (144, 72, 3, 3), 1, 1, 1, 2),
    ((2, 8, 7, 9), (136, 8, 3, 3), 1, 2, 2, 1),
    ((3, 16, 9, 12), (72, 16, 3, 3), 2, 1, 1, 1),
    ((2, 8, 8, 11), (136, 8, 2, 4), (1, 2), (0, 3), (2, 1), 1),
    ((9, 72, 7, 7), (72, 72, 3, 3), 2, 0, 1, 1),
]
TOGETHER = [  # all rows of taps in a block, 64 outputs each
    ((3, 16, 6, 5), (64, 16, 3, 3), 1, 1, 1, 1),
    ((2, 72, 9, 28), (8, 72, 3, 2), 1, 1, 1, 1),
    ((2, 8, 7, 9), (48, 8, 2, 4), 1, 0, (2, 1), 1),
    ((3, 16, 9, 12), (64, 16, 3, 3), 2, 1, 1, 1),
    ((2, 8, 8, 11), (40, 8, 2, 4), (1, 2), (0, 3), (2, 1), 1),
    ((5, 144, 5, 4), (80, 72, 3, 3), 1, 1, 2, 2),
    ((9, 72, 7, 7), (136, 72, 3, 3), 1, 1, 1, 1),
]


def gradient_of(case):
    """x, dy, their weight gradient and its largest possible sums, and the options of planners."""
    x_shape, w_shape, *where = case
    options = dict(zip(("stride", "padding", "dilation", "groups"), where, strict=True))
    stride, margins, dilation, size = geometry(x_shape, w_shape, *where[:3])
    x, grad, w = (
        numbers(x_shape, BF16),
        numbers((x_shape[0], w_shape[0], *size), BF16, 2),
        np.zeros(w_shape, BF16),
    )
    exact = reference(x, w, **options, grad=grad)[2]
    bound = reference(np.abs(x), w, **options, grad=np.abs(grad))[2]
    return (
        x,
        grad,
        exact,
        bound,
        {"stride": stride, "padding": margins, "dilation": dilation, "groups": where[3]},
    )


def run_of_pixels(images, place, count, offset, tensor_map):
    """What TMA's im2col mode brings: `count` pixels from (column, row, image) on, moved by
    `offset`, within the map's box."""
    number, tall, wide, _ = images.shape
    _, step, across, _ = tensor_map.steps
    (top, left), (bottom, right) = tensor_map.lower, tensor_map.upper
    assert left <= place[0] < wide + right and top <= place[1] < tall + bottom
    found = np.zeros((count, images.shape[3]))
    column, row, image = place
    for i in range(count):
        h, v = row + offset[0], column + offset[1]
        if image < number and 0 <= h < tall and 0 <= v < wide:
            found[i] = images[image, h, v]
        column += across
        if column >= wide + right:
            column, row = left, row + step
            if row >= tall + bottom:
                row, image = top, image + 1
    return found


@pytest.mark.parametrize(
    ("case", "together"), [*((c, False) for c in CASES), *((c, True) for c in TOGETHER)], ids=str
)
def test_runs_of_pixels_hold_the_sums(case, together):
    """The kernel's walk through the boxes of its plan, in NumPy, against the definition."""
    x, grad, exact, _, options = gradient_of(case)
    outputs, channels, taps_down, taps_right = exact.shape
    last = [channels_last.as_channels_last(Layout.new(a.shape, BF16, 0)) for a in (x, exact, grad)]
    rows = taps_down if together else 1
    with assume((9, 0)):
        plan = wgrad_sm90_shared_taps.weight_gradient(
            Problem("weight", *last, **options), splits=2, rows=rows
        )
    launch, added = plan.steps
    assert (
        launch.early
        and added.early
        and added.kernel.__name__ == "add_splits_early"
        and launch.shared <= 227 << 10
    )
    of_grads, of_images, _, *rest = launch.args
    (
        tiles,
        group_tiles,
        across,
        share,
        positions,
        area,
        width,
        row_start,
        row_step,
        column_start,
        taps,
        down,
        chunks,
        own,
        own_outputs,
        every,
    ) = map(int, rest)
    groups = options["groups"]
    assert (every, taps, own, chunks, across) == (
        outputs,
        taps_down * taps_right,
        channels,
        -(-channels // 64),
        taps_down // rows * -(-channels // 64),
    )
    assert tiles == groups * group_tiles and share % PIXELS == 0 and launch.grid[0] == tiles * 2
    dy, images = (a.astype(np.float64).transpose(0, 2, 3, 1) for a in (grad, x))
    tile = wgrad_sm90_shared_taps.Tile(
        taps_right, options["dilation"][1], options["stride"][1], rows
    )
    assert launch.block[0] == tile.threads == (512 if tile.rows == 3 else 384)
    assert (of_grads.box[0], of_images.box[0]) == (PIXELS, tile.pixels) and tile.stage % 1024 == 0
    found = np.zeros(exact.shape)
    for at in range(0, positions, PIXELS):
        image, pixel = divmod(at, area)
        p, q = divmod(pixel, width)
        a = run_of_pixels(dy, (q, p, image), PIXELS, (0, 0), of_grads)
        for r in range(taps_down):
            place = column_start + q * tile.stride, row_start + p * row_step, image
            runs = [
                run_of_pixels(images, place, tile.pixels, (r * down, run), of_images)
                for run in range(tile.stride)
            ]
            for s in range(taps_right):
                first = s // tile.stride * tile.apart
                seen = runs[s % tile.stride][first : first + PIXELS]
                for g in range(groups):
                    m, c = (
                        slice(g * own_outputs, (g + 1) * own_outputs),
                        slice(g * own, (g + 1) * own),
                    )
                    found[m, :, r, s] += a[:, m].T @ seen[:, c]
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("x", "w", "stride", "dilation"),
    [
        ((2, 16, 8, 8), (72, 16, 3, 3), (1, 3), (1, 1)),
        ((2, 16, 8, 8), (72, 16, 3, 2), (1, 2), (1, 1)),
        ((2, 16, 8, 8), (72, 16, 3, 3), (1, 2), (1, 2)),
        ((2, 16, 8, 8), (72, 16, 3, 1), (1, 1), (1, 1)),
        ((2, 16, 8, 8), (64, 16, 3, 4), (1, 1), (1, 1)),
        ((2, 16, 8, 8), (64, 16, 1, 3), (1, 1), (1, 1)),
        ((2, 16, 8, 8), (64, 16, 4, 3), (1, 1), (1, 1)),
        ((2, 12, 8, 8), (72, 12, 3, 3), (1, 1), (1, 1)),
        ((2, 16, 8, 80), (72, 16, 3, 3), (1, 1), (1, 9)),
    ],
)
def test_what_taps_cannot_share(x, w, stride, dilation):
    _, margins, _, size = geometry(x, w, stride, 9, dilation)
    last = [
        channels_last.as_channels_last(Layout.new(shape, BF16, 0))
        for shape in (x, w, (x[0], w[0], *size))
    ]
    where = {"stride": stride, "padding": margins, "dilation": dilation, "groups": 1}
    problem = Problem("weight", *last, **where)
    with assume((9, 0)):
        assert (
            not conv_dispatch.taps_may_share(problem)
            or wgrad_sm90_shared_taps.weight_gradient(problem) is None
        )


@pytest.mark.parametrize(
    ("x", "w", "stride", "paired"),
    [
        ((64, 512, 7, 7), (512, 512, 3, 3), 1, True),
        ((64, 256, 14, 14), (256, 256, 3, 3), 1, False),  # 64 tiles and 16
        ((1, 64, 7, 7), (4096, 64, 3, 3), 1, False),  # one step
    ],
)
def test_two_blocks_share_a_tile(x, w, stride, paired):
    """Where tiles are half as many as multiprocessors and their partial sums many: then there is no
    second kernel."""
    _, margins, _, size = geometry(x, w, stride, 1, 1)
    last = [
        channels_last.as_channels_last(Layout.new(shape, BF16, 0))
        for shape in (x, w, (x[0], w[0], *size))
    ]
    where = {"stride": (stride, stride), "padding": margins, "dilation": (1, 1), "groups": 1}
    with assume((9, 0)):
        plan = wgrad_sm90_shared_taps.weight_gradient(Problem("weight", *last, **where))
    assert [step.cluster for step in plan.steps] == ([2] if paired else [1, 1] if x[0] > 1 else [1])
    assert not paired or plan.steps[0].grid[0] % 2 == 0 and not plan.temps


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize(
    ("case", "together"), [*((c, False) for c in CASES), *((c, True) for c in TOGETHER)], ids=str
)
def test_shared_taps_on_the_gpu(case, together, dtype):
    needs_tensor_cores()
    x, grad, exact, bound, options = gradient_of(case)
    x, grad = on_gpu(x.astype(dtype), True), on_gpu(grad.astype(dtype), True)
    layouts = [grad._layout, x._layout]
    out = channels_last.result(x._layout, exact.shape)
    problem = Problem("weight", x._layout, out, grad._layout, **options)
    rows = exact.shape[2] if together else 1
    for splits, paired in ((1, False), (2, False), (5, False), (None, True)):
        plan = wgrad_sm90_shared_taps.weight_gradient(
            problem, splits=splits, rows=rows, paired=paired
        )
        run = plan.bind("conv2d", layouts)
        first = run(grad, x)
        check(first, exact, bound, dtype, "paired" if paired else f"{splits} splits")
        assert first.tobytes() == run(grad, x).tobytes()


# -------------------- sums split over blocks


@pytest.mark.parametrize(
    ("tiles", "channels", "area", "results", "expected"),
    [
        (196, 256, 9, 64 * 196 * 256, 4),  # 14 x 14: 1.5 waves of half a block a multiprocessor
        (784, 128, 9, 32 * 3136 * 128, 1),  # three waves as it is
        (4096, 64, 9, 1 << 26, 1),
        (100, 3, 9, 12544, 1),
        (1, 16, 9, 1152, 1),
    ],
)
def test_how_many_splits(tiles, channels, area, results, expected):
    assert fprop_simt.choose_splits(tiles, channels, area, results, 132) == expected


@pytest.mark.parametrize("last", [False, True])
def test_views_of_split_sums(last):
    """The sum over the parts' views is the whole sum; a part's result is one piece of the scratch
    memory."""
    x, w = numbers((2, 12, 5, 4), F32), numbers((6, 12, 3, 2), F32, 1)
    if last:
        x, w = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (x, w))
    layouts = [Layout.of(a.shape, a.strides, F32, 0) for a in (x, w)]
    sources = conv_geometry.Sources(*layouts)
    out = channels_last.result(layouts[0], (2, 6, 5, 4))
    views = [
        conv_geometry.grouped(a, layout, 1, axis)
        for a, layout, axis in zip(
            (*(arg for arg, _ in sources.operands), Output(0)),
            (*layouts, out),
            (1, 0, 1),
            strict=True,
        )
    ]
    of_x, of_w, of_y = fprop_simt._split(sources, *views, 3)
    assert of_y.shape == (2, 3, 6, 5, 4) and sources.temps[0].shape == (3, 240)
    strided = lambda a, view: np.lib.stride_tricks.as_strided(a, view.shape, view.strides)  # noqa: E731
    parts, memory = np.zeros(3 * 240, F32), np.zeros(240, F32)
    strided(parts, of_y)[:] = np.einsum("ngchw,gmcrs->ngmhw", strided(x, of_x), strided(w, of_w))
    memory[:] = parts.reshape(3, 240).sum(0)
    got = np.lib.stride_tricks.as_strided(memory, out.shape, out.strides)
    np.testing.assert_allclose(got, np.einsum("nchw,mcrs->nmhw", x, w), rtol=1e-4, atol=1e-4)


def test_where_sums_are_split():
    """Float32 of more than 64 outputs, in one group, without biases and without a stride of the
    gradient."""
    x, w = Layout.new((8, 128, 7, 7), F32, 0), Layout.new((128, 128, 3, 3), F32, 0)
    where = {"padding": (1, 1, 1, 1)}
    names = lambda plan: [step.kernel.__name__ for step in plan.steps]  # noqa: E731
    whole, split = (
        ["pack_weights", "conv2d_implicit_gemm"],
        ["pack_weights", "conv2d_implicit_gemm", "add_splits"],
    )
    with assume((9, 0)):
        for plan in (
            fprop_simt.forward(Problem("forward", x, w, x, **where), splits=4),
            dgrad_simt.input_gradient(Problem("input", x, w, x, **where), splits=4),
        ):
            assert (
                names(plan) == split
                and plan.steps[1].grid[1] == 4
                and plan.temps[-1].shape == (4, 288, 128)
            )
        biased = Problem("forward", x, w, x, Layout.new((128,), F32, 0), **where)
        assert names(fprop_simt.forward(biased, splits=4)) == whole
        images = Layout.new((8, 128, 14, 14), F32, 0)
        strided = dgrad_simt.input_gradient(
            Problem("input", images, w, x, stride=(2, 2), **where), splits=4
        )
        assert "add_splits" not in names(strided)


@pytest.mark.gpu
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["y", "dx"])
def test_split_sums_on_the_gpu(kind, last):
    x, w = numbers((3, 96, 9, 7), F32), numbers((96, 96, 3, 3), F32, 1)
    grad = numbers(x.shape, F32, 2)
    exact, bound = (
        reference(a, b, padding=1, grad=g)[kind == "dx"]
        for a, b, g in ((x, w, grad), (np.abs(x), np.abs(w), np.abs(grad)))
    )
    inputs = [on_gpu(a, last) for a in ((x, w) if kind == "y" else (grad, w))]
    layouts = [a._layout for a in inputs]
    images, weight = layouts
    out = channels_last.result(images, x.shape)
    for splits in (1, 2, 6):
        if kind == "y":
            problem = Problem("forward", images, weight, out, padding=(1, 1, 1, 1))
            plan = fprop_simt.forward(problem, splits=splits)
        else:
            problem = Problem("input", out, weight, images, padding=(1, 1, 1, 1))
            plan = dgrad_simt.input_gradient(problem, splits=splits, tiles=True)
        run = plan.bind("conv2d", layouts)
        check(run(*inputs), exact, bound, F32, f"{splits} splits")


@pytest.mark.gpu
def test_the_version_by_name():
    needs_tensor_cores()
    x, grad, exact, bound, options = gradient_of(CASES[1])
    x, grad = on_gpu(x, False), on_gpu(grad, True)
    plan = conv_dispatch.conv2d_weight_grad(
        grad._layout, x._layout, kernel=(3, 3), **options, version="wgrad_sm90_shared_taps"
    )
    assert "conv2d_weight_wgmma_taps" in [step.kernel.__name__ for step in plan.steps]
    check(plan.bind("conv2d", [grad._layout, x._layout])(grad, x), exact, bound, BF16, "by name")
