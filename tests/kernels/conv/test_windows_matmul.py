"""Convolutions of 16-bit images as windows written out and a product of matrices
(kernels/conv/windows_matmul.py)."""

import numpy as np
import pytest

from cudamath.core.layout import Layout
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv.problem import Problem
from cudamath.runtime.device import assume
from cudamath.testing import layout_of, simulate
from tests.kernels.conv.test_depthwise import PLANNERS, channels_last
from tests.kernels.conv.test_depthwise import on_gpu as placed
from tests.kernels.conv.test_im2col import CASES, operands_of
from tests.ml.test_conv import BF16, F16, F32, check

APART = [  # images; filters; stride; padding; dilation
    ((2, 3, 8, 6), (5, 3, 4, 3), (4, 3), (0, 0), (1, 1)),
    ((3, 8, 9, 7), (4, 8, 2, 2), (3, 2), (0, 0), (1, 1)),  # pixels between windows and behind them
    ((1, 40, 4, 4), (24, 40, 4, 4), (4, 4), (0, 0), (1, 1)),  # one window: a matrix times a vector
]
LONG = [
    ((2, 64, 28, 28), (72, 64, 14, 14), (14, 14), (0, 0), (1, 1)),
    ((4, 240, 35, 35), (96, 240, 14, 14), (14, 14), (0, 0), (1, 1)),  # of 16 rows, without cuBLAS
    ((1, 320, 7, 7), (64, 320, 3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 33, 9, 10), (40, 33, 5, 3), (2, 1), (2, 1), (1, 1)),
]


def is_able(kind, case):
    """Whether an input gradient has windows that are apart, or no stride."""
    return kind == "forward" or case in APART or max(case[2]) == 1 or case in LONG[:2]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("case", [*CASES, *APART, *LONG], ids=str)
@pytest.mark.parametrize("kind", ["forward", "input"])
def test_windows(case, kind, last, dtype):
    operands, options, exact, size = operands_of(case, dtype)[kind]
    if last:
        operands = [channels_last(a) for a in operands]
    options = {**options, "version": "windows_matmul"}
    if not is_able(kind, case):
        with pytest.raises(ValueError, match="version 'windows_matmul' does not support"):
            placed(kind, operands, options)
    else:
        first, again = (placed(kind, operands, options) for _ in range(2))
        check(first, exact, size, dtype, kind)
        assert np.asarray(first).tobytes() == np.asarray(again).tobytes()


@pytest.mark.simulator
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("case", [*CASES[:3], *APART], ids=str)
@pytest.mark.parametrize("kind", ["forward", "input"])
def test_windows_in_the_simulator(case, kind, last):
    if not is_able(kind, case):
        return
    operands, options, exact, size = operands_of(case, BF16)[kind]
    if last:
        operands = [channels_last(a) for a in operands]
    with assume((7, 5)):
        plan = PLANNERS[kind](*map(layout_of, operands), **options, version="windows_matmul")
    check(simulate(plan, *operands), exact, size, BF16, kind)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16, F32, np.dtype("f8")], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("case", [*APART, *LONG[:2]], ids=str)
def test_windows_of_images(case, last, dtype):
    operands, options, exact, size = operands_of(case, dtype)["input"]
    if last:
        operands = [channels_last(a) for a in operands]
    options = {**options, "version": "windows_of_images"}
    first, again = (placed("input", operands, options) for _ in range(2))
    check(first, exact, size, dtype, "input")
    assert np.asarray(first).tobytes() == np.asarray(again).tobytes()


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("case", APART, ids=str)
def test_windows_of_images_in_the_simulator(case, last, dtype):
    operands, options, exact, size = operands_of(case, dtype)["input"]
    if last:
        operands = [channels_last(a) for a in operands]
    with assume((7, 5)):
        plan = PLANNERS["input"](*map(layout_of, operands), **options, version="windows_of_images")
    check(simulate(plan, *operands), exact, size, dtype, "input")


@pytest.mark.parametrize(
    ("kind", "taps", "stride", "padding", "dtype", "groups", "expected"),
    [
        ("forward", 3, 2, 1, BF16, 1, True),
        ("forward", 1, 1, 0, BF16, 1, False),
        ("forward", 3, 1, 1, F32, 1, False),
        ("forward", 3, 1, 1, BF16, 2, False),
        ("input", 4, 4, 0, BF16, 1, True),
        ("input", 4, 4, 1, BF16, 1, False),
        ("input", 4, 3, 0, BF16, 1, False),
        ("input", 3, 1, 2, F16, 1, True),
        ("input", 3, 1, 3, F16, 1, False),  # dy would lose its border
    ],
)
def test_what_is_served(kind, taps, stride, padding, dtype, groups, expected):
    side = (16 + 2 * padding - taps) // stride + 1
    shapes = (1, 8, 16, 16), (8, 8 // groups, taps, taps), (1, 8, side, side)
    x, w, y = (Layout.new(shape, dtype, 0) for shape in shapes)
    problem = Problem(kind, x, w, y, None, (stride,) * 2, (padding,) * 4, (1, 1), groups)
    assert conv_dispatch.windows_fit(problem) == expected


def test_patches_with_few_results_go_this_way():
    """Where a kernel that gathers windows has one tile."""
    x, w = (Layout.new(shape, BF16, 0) for shape in ((8, 320, 28, 28), (32, 320, 14, 14)))
    options = {"stride": (14, 14), "padding": (0,) * 4, "dilation": (1, 1), "groups": 1}
    with assume((9, 0)):
        assert conv_dispatch.version_of(Problem.forward(x, w, None, **options), "") == (
            "windows_matmul"
        )
