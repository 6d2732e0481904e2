"""Convolutions of filters that stay in shared memory
(kernels/conv/fprop_dgrad_sm90_resident_filters.py): plans read as the kernel reads them, without a
GPU; then the kernel."""

import numpy as np
import pytest

from cudamath.core.layout import Layout
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv import fprop_dgrad_sm90_resident_filters
from cudamath.kernels.conv.problem import Problem
from cudamath.kernels.copy import channels_last
from cudamath.runtime.device import assume
from tests.kernels.conv.test_wgrad_shared_taps import run_of_pixels
from tests.ml.test_conv import (
    BF16,
    F16,
    check,
    geometry,
    needs_tensor_cores,
    numbers,
    on_gpu,
    reference,
)

CASES = [  # x, weight, padding, dilation
    ((3, 64, 6, 5), (128, 64, 3, 3), 1, 1),
    ((2, 64, 9, 28), (64, 64, 3, 3), 1, 1),
    ((2, 64, 7, 9), (72, 64, 2, 3), 0, 1),
    ((2, 64, 9, 9), (64, 64, 3, 2), 1, (1, 2)),
    ((3, 64, 4, 4), (64, 64, 3, 3), (0, 4), 1),  # more padding than taps
    ((2, 128, 7, 9), (64, 128, 3, 3), 1, 1),
    ((2, 64, 9, 11), (128, 64, 3, 3), 2, 2),
]
PLANNERS = {
    False: fprop_dgrad_sm90_resident_filters.forward,
    True: fprop_dgrad_sm90_resident_filters.input_gradient,
}


def problem_of(across, out, images, w, options):
    """The planner's problem; all layouts."""
    if across:
        return Problem("input", out, w, images, **options)
    return Problem("forward", images, w, out, **options)


def pixels(w, across):
    """Of a tile for these filters."""
    return fprop_dgrad_sm90_resident_filters.PIXELS[64 if w.shape[across] <= 64 else 128]


def is_too_much(w, across):
    """Whether the kernel may decline these filters: channels that are no whole steps, or more than
    shared memory holds."""
    return across and (
        w.shape[0] % 64 != 0
        or w.shape[0] == 128
        and w.shape[2] * w.shape[3] * 64 * w.shape[0] > 100_000
    )


def arrays_of(case, across):
    """The images read and the filters, the result, its largest possible sums, and the options of
    planners."""
    x_shape, w_shape, padding, dilation = case
    stride, margins, spread, size = geometry(x_shape, w_shape, 1, padding, dilation)
    options = {"padding": padding, "dilation": dilation}
    x, w, grad = (
        numbers(x_shape, BF16),
        numbers(w_shape, BF16, 1),
        numbers((x_shape[0], w_shape[0], *size), BF16, 2),
    )
    exact = reference(x, w, **options, grad=grad)[across]
    bound = reference(np.abs(x), np.abs(w), **options, grad=np.abs(grad))[across]
    return (
        grad if across else x,
        w,
        exact,
        bound,
        {"stride": stride, "padding": margins, "dilation": spread, "groups": 1},
    )


@pytest.mark.parametrize("across", [False, True], ids=["forward", "input"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_runs_of_pixels_hold_the_sums(case, across):
    """The kernel's walk through the boxes of its plan, in NumPy, against the definition."""
    images, w, exact, _, options = arrays_of(case, across)
    layouts = [
        channels_last.as_channels_last(Layout.new(a.shape, BF16, 0)) for a in (exact, images, w)
    ]
    with assume((9, 0)):
        wanted = problem_of(across, *layouts, options)
        assert PLANNERS[across](wanted) is None  # too few tiles
        plan = PLANNERS[across](wanted, pixels=pixels(w, across))
    if plan is None:  # too many filters, or channels that are no whole steps
        assert is_too_much(w, across)
        return
    (launch,) = plan.steps
    of_images, of_filters, _, *rest = launch.args
    (
        tiles,
        positions,
        area,
        width,
        real,
        row_start,
        column_start,
        first,
        down_w,
        right_w,
        down,
        steps,
        outputs,
        image_step,
        row_step,
        step,
    ) = map(int, rest)
    tile = fprop_dgrad_sm90_resident_filters.Tile(
        64 if outputs <= 64 else 128,
        pixels(w, across),
        w.shape[2:],
        images.shape[1] // 64,
        options["dilation"][1],
    )
    assert (
        launch.shared == tile.shared <= 227 << 10
        and tile.stages >= 2
        and steps == tile.taps[0] * tile.chunks
    )
    assert tiles == -(-positions // tile.pixels) and of_images.box == (tile.run, 64)
    assert of_filters.box == ((64, 1, 64) if across else (tile.outputs, 1, 64))
    memory = np.zeros(exact.size)
    seen, filters = (
        images.astype(np.float64).transpose(0, 2, 3, 1),
        w.astype(np.float64).reshape(*w.shape[:2], -1),
    )
    for at in range(0, tiles * tile.pixels, tile.pixels):
        image, pixel = divmod(at, area)
        p, q = divmod(pixel, width)
        found = np.zeros((tile.pixels, outputs))
        for i in range(tile.taps[0]):
            run = run_of_pixels(
                seen, (column_start + q, row_start + p, image), tile.run, (i * down, 0), of_images
            )
            for j in range(tile.taps[1]):
                tap = filters[:, :, first + i * down_w + j * right_w]
                found += run[j * tile.apart : j * tile.apart + tile.pixels] @ (
                    tap if across else tap.T
                )
        for n in range(tile.pixels):
            image, pixel = divmod(at + n, area)
            p, q = divmod(pixel, width)
            if at + n < positions and q < real:
                to = (image * image_step + p * row_step + q * step) // 2
                memory[to : to + outputs] = found[n]
    result = np.lib.stride_tricks.as_strided(
        memory, exact.shape, [s * 4 for s in plan.outputs[0].strides]
    )
    np.testing.assert_allclose(result, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("outputs", "positions", "pixels"),
    [
        (128, 32 * 128 * 129, 144),  # 27.8 turns instead of 25.02
        (64, 64 * 56 * 57, 224),  # 6.9 instead of 6.05
        (64, 32 * 128 * 129, 256),  # 15.6: as good as any
        (64, 132 * 256 * 3, 256),
    ],
)
def test_tiles_that_leave_no_turn_to_a_few(outputs, positions, pixels):
    assert fprop_dgrad_sm90_resident_filters.choose(outputs, positions, 132) == pixels


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("across", [False, True], ids=["forward", "input"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kept_filters_on_the_gpu(case, across, dtype):
    needs_tensor_cores()
    images, w, exact, bound, options = arrays_of(case, across)
    images, w = on_gpu(images.astype(dtype), True), on_gpu(w.astype(dtype), True)
    layouts = [images._layout, w._layout]
    out = channels_last.result(layouts[0], exact.shape)
    wanted = problem_of(across, out, *layouts, options)
    plan = PLANNERS[across](wanted, pixels=pixels(w, across))
    if plan is None:
        assert is_too_much(w, across)
        pytest.skip("more filters than fit into shared memory, or channels that are no whole steps")
    run = plan.bind("conv2d", layouts)
    first = run(images, w)
    check(first, exact, bound, dtype, "kept")
    assert first.tobytes() == run(images, w).tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("across", [False, True], ids=["forward", "input"])
def test_many_tiles_on_the_gpu(across):
    """What planners choose where each warpgroup has several tiles, beside the kernel that brings
    filters for every step: each rounds its float32 sums once to bfloat16, so they differ by one
    rounding at most."""
    needs_tensor_cores()
    shape, weight = (48 if across else 32, 64, 56, 56), (128, 64, 3, 3)
    drawn = (
        numbers((shape[0], weight[0], *shape[2:]) if across else shape, BF16),
        numbers(weight, BF16, 1),
    )
    (images, w), sizes = ([on_gpu(f(a), True) for a in drawn] for f in (np.asarray, np.abs))
    layouts = [images._layout, w._layout]
    where = {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    if across:
        where["size"] = shape[2:]
        plan, other = (
            conv_dispatch.conv2d_input_grad(*layouts, **where, version=version)
            for version in ("dgrad_sm90_resident_filters", "dgrad_sm90")
        )
    else:
        plan, other = (
            conv_dispatch.conv2d(*layouts, **where, version=version)
            for version in ("fprop_sm90_resident_filters", "fprop_sm90")
        )
    assert (
        plan.steps[0].kernel.__name__ == "conv2d_wgmma_kept"
        and other.steps[0].kernel.__name__ == "conv2d_wgmma"
    )
    run = other.bind("conv2d", layouts)
    exact, bound = (
        np.asarray(run(*arrays).to_numpy(), np.float64) for arrays in ((images, w), sizes)
    )
    check(plan.bind("conv2d", layouts)(images, w), exact, bound, BF16, "many tiles")
