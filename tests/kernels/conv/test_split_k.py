"""Sums split over blocks, added by kernels that begin early (kernels/lib/split_k_reduce.py): the
launch read as the kernel reads it, without a GPU; then the kernel."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.plan import Plan
from cudamath.core.layout import Layout
from cudamath.kernels.lib import split_k_reduce
from tests.ml.test_conv import BF16, F16, needs_tensor_cores

F32 = np.dtype(np.float32)
CASES = [
    (4, 5),
    (12, 2),
    (64, 126),
    (64, 256),
    (68, 128),
    (4096, 33),
    (1000, 32),
    (1028, 31),
    (2052, 7),
    (260, 66),
    (36, 8),
    (131072, 16),
    (270340, 5),
    (600000, 3),
    (262144, 4),
    (36864, 128),
    (73728, 44),
]


def plan_of(n, splits, dtype):
    """The plan, and the layout of the parts."""
    out, parts = Layout.new((n,), dtype, 0), Layout.new((splits, n), F32, 0)
    return Plan(
        [out], [split_k_reduce.add(out, splits, Input(0).flat, Output(0).flat, early=True)]
    ), parts


@pytest.mark.parametrize(("n", "splits"), CASES)
def test_every_part_is_added_once(n, splits):
    """Threads of a launch and the parts they add, in NumPy: each part of each sum once, by threads
    that exchange theirs."""
    (launch,) = plan_of(n, splits, BF16)[0].steps
    assert launch.kernel.__name__ == "add_splits_early" and launch.early and launch.cluster == 1
    names = launch.kernel.py_func.__code__.co_freevars
    inside = dict(
        zip(names, [cell.cell_contents for cell in launch.kernel.py_func.__closure__], strict=True)
    )
    lanes, each, width, across = [inside[name] for name in ("lanes", "each", "width", "across")]
    assert each <= 8 and width >= 8, (
        "more than registers hold, or less than a line of the cache together"
    )
    times = np.zeros((splits, n // 4), int)
    block, warp, y, x = np.ogrid[: launch.grid[0], : launch.block[0] // 32, : 32 // width, :width]
    place = width * (block if across else 8 * block + warp) + x + 0 * (y + warp)
    first = 32 // width * warp + y if across else y + 0 * warp
    there = place < n // 4
    for k in range(each):
        part = np.broadcast_to(first + k * lanes, place.shape)
        np.add.at(times, (part[there & (part < splits)], place[there & (part < splits)]), 1)
    assert (times == 1).all()


@pytest.mark.parametrize(
    ("n", "splits", "lanes"),
    [
        (4, 2, 2),
        (1 << 20, 2, 1),
        (262144, 4, 2),
        (589824, 5, 1),
        (65536, 16, 4),
        (4096, 126, 32),
        (16384, 66, 32),
        (147456, 22, 4),
        (73728, 44, 8),
    ],
)
def test_how_many_share_the_parts(n, splits, lanes):
    """Enough to fill the device, but few enough that each has several."""
    assert split_k_reduce.lanes_for(n, splits) == lanes


def test_more_parts_than_registers_hold():
    (launch,) = plan_of(64, split_k_reduce.MANY * split_k_reduce.EACH + 1, BF16)[0].steps
    assert launch.kernel.__name__ == "add_splits" and not launch.early


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16, F32], ids=str)
@pytest.mark.parametrize(("n", "splits"), CASES)
def test_sums_on_the_gpu(n, splits, dtype):
    needs_tensor_cores()
    plan, parts = plan_of(n, splits, dtype)
    values = np.random.default_rng(0).normal(size=(splits, n)).astype(F32)
    values[-1, 1] = np.inf  # the part that threads without one of their own have read, too
    run = plan.bind("conv2d", [parts])
    given = cm.asarray(values, device="cuda:0")
    first, exact = run(given).to_numpy(), values.astype(np.float64).sum(0)
    assert first[1] == np.inf and first.tobytes() == run(given).to_numpy().tobytes()
    values, found, exact = (np.delete(a, 1, -1) for a in (values, first, exact))
    rounding = {BF16: 2**-8, F16: 2**-11, F32: 0}[dtype]
    bound = 17 * 2**-24 * np.abs(values.astype(np.float64)).sum(0) + rounding * np.abs(exact)
    assert (np.abs(found.astype(np.float64) - exact) <= bound).all()
