"""Weight gradients of filters of one tap whose tiles two blocks share
(kernels/conv/wgrad_sm90_pointwise.py): plans read as the kernel reads them, without a GPU; then the
kernel.
"""

import numpy as np
import pytest

from cudamath.core.layout import Layout
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv import wgrad_sm90_pointwise
from cudamath.kernels.conv.problem import Problem
from cudamath.kernels.conv.wgrad_sm90 import PIXELS
from cudamath.kernels.copy import channels_last
from cudamath.runtime.device import assume
from tests.ml.test_conv import BF16, F16, check, needs_tensor_cores, numbers, on_gpu, reference

STILL = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
CASES = [  # images, channels, rows, columns, outputs: one tile and several, whole ones and not
    (3, 128, 9, 8, 128),
    (11, 136, 14, 14, 200),
    (25, 8, 9, 9, 24),
    (7, 328, 9, 7, 136),
    (2, 64, 8, 8, 72),
    (5, 200, 10, 13, 264),
]


def arrays_of(images, channels, tall, wide, outputs):
    """dy, x, the weight gradient and its largest possible sums."""
    x, grad, w = (
        numbers((images, channels, tall, wide), BF16),
        numbers((images, outputs, tall, wide), BF16, 2),
        np.zeros((outputs, channels, 1, 1), BF16),
    )
    return grad, x, reference(x, w, grad=grad)[2], reference(np.abs(x), w, grad=np.abs(grad))[2]


def gradient(images, channels, tall, wide, outputs, **where):
    """The planner's problem."""
    x, weight, y = (
        channels_last.as_channels_last(Layout.new(shape, BF16, 0))
        for shape in (
            (images, channels, tall, wide),
            (outputs, channels, 1, 1),
            (images, outputs, tall, wide),
        )
    )
    return Problem("weight", x, weight, y, **where)


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_blocks_sum_all_pixels(case, parts):
    """The blocks' walk through pixels and tiles, in NumPy: each half of a tile is what both of its
    pair have summed."""
    grad, x, exact, _ = arrays_of(*case)
    with assume((9, 0)):
        plan = wgrad_sm90_pointwise.weight_gradient(gradient(*case), parts=parts)
    launch, *added = plan.steps
    of_grads, of_images, of_result, _, *rest = launch.args
    across, tiles, steps, units, channels, outputs = map(int, rest)
    parts, positions = units // 2, grad.size // outputs
    assert launch.early and launch.cluster == 2 and launch.shared <= 227 << 10
    assert len(added) == (parts > 1) and (channels, outputs) == exact.shape[1::-1]
    assert of_grads.shape == (positions, outputs) and of_images.shape == (positions, channels)
    assert of_grads.box == of_images.box == (PIXELS, 64) and launch.grid[0] == tiles * units
    assert parts > 1 or (of_result.shape, of_result.box) == ((1, outputs, channels), (1, 64, 64))
    dy, pixels = (
        a.astype(np.float64).transpose(0, 2, 3, 1).reshape(positions, -1) for a in (grad, x)
    )
    found, times = np.zeros((outputs, channels)), np.zeros((outputs, channels), int)
    for block in range(launch.grid[0]):
        pair, rank = divmod(block, 2)
        part, tile = divmod(pair, tiles)
        row, column = divmod(tile, across)
        for sender in (0, 1):
            unit = 2 * part + sender
            begin, end = (PIXELS * (steps * n // units) for n in (unit, unit + 1))
            assert begin < end
            m, c = (
                slice(128 * row, 128 * row + 128),
                slice(128 * column + 64 * rank, 128 * column + 64 * rank + 64),
            )
            found[m, c] += dy[begin:end, m].T @ pixels[begin:end, c]
            times[m, c] += 1
    assert (times == units).all()
    np.testing.assert_allclose(found, exact[:, :, 0, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("case", "pairs"),
    [
        ((64, 512, 7, 7, 2048), 1),
        ((64, 2048, 7, 7, 512), 1),
        ((64, 256, 14, 14, 1024), 4),
        ((64, 128, 28, 28, 512), 16),
        ((1, 128, 8, 16, 128), 1),
        ((1, 128, 8, 8, 128), None),
    ],
)
def test_how_many_pairs_there_are(case, pairs):
    """As many as fill the device; none for one step."""
    problem = gradient(*case)
    with assume((9, 0)):
        able = conv_dispatch.has_pairs(problem)
        assert able == (pairs is not None)
        if able:
            plan = wgrad_sm90_pointwise.weight_gradient(problem)
            tiles = -(-case[1] // 128) * -(-case[4] // 128)
            assert plan.steps[0].grid[0] == 2 * pairs * tiles


def test_what_pairs_cannot_do():
    last = lambda *shape: channels_last.as_channels_last(Layout.new(shape, BF16, 0))  # noqa: E731
    x, w, y = last(3, 136, 9, 8), last(128, 136, 1, 1), last(3, 128, 9, 8)
    with assume((9, 0)):
        able = conv_dispatch.has_pairs
        assert able(Problem("weight", x, w, y))
        assert not able(Problem("weight", x, last(128, 136, 3, 3), y, padding=(1, 1, 1, 1)))
        assert not able(Problem("weight", x, w, last(3, 128, 5, 4), stride=(2, 2)))
        assert not able(Problem("weight", last(3, 132, 9, 8), last(128, 132, 1, 1), y))
        assert not able(Problem("weight", x, last(128, 68, 1, 1), y, groups=2))
        assert not able(gradient(1, 128, 8, 8, 128))  # one step


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_pairs_on_the_gpu(case, dtype):
    needs_tensor_cores()
    grad, x, exact, bound = arrays_of(*case)
    grad, x = on_gpu(grad.astype(dtype), True), on_gpu(x.astype(dtype), True)
    inputs = [grad._layout, x._layout]
    out = channels_last.result(x._layout, exact.shape)
    for parts in (1, 2, 5):
        plan = wgrad_sm90_pointwise.weight_gradient(
            Problem("weight", x._layout, out, grad._layout), parts=parts
        )
        run = plan.bind("conv2d", inputs)
        first = run(grad, x)
        check(first, exact, bound, dtype, f"{parts} parts")
        assert first.tobytes() == run(grad, x).tobytes()


@pytest.mark.gpu
def test_pairs_by_name_in_any_order():
    """Also of arrays in C order."""
    needs_tensor_cores()
    grad, x, exact, bound = arrays_of(5, 200, 10, 13, 264)
    for last in (True, False):
        pair = [on_gpu(a, last) for a in (grad, x)]
        inputs = [a._layout for a in pair]
        plan = conv_dispatch.conv2d_weight_grad(
            *inputs, kernel=(1, 1), **STILL, version="wgrad_sm90_pointwise"
        )
        assert "conv2d_weight_pairs" in [step.kernel.__name__ for step in plan.steps]
        check(plan.bind("conv2d", inputs)(*pair), exact, bound, BF16, f"last {last}")
