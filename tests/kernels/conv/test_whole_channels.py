"""Groups merged and channels filled up for tensor cores (kernels/conv/whole_channels.py)."""

import functools
import math

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.conv import dgrad_simt, direct, wgrad_simt, whole_channels
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv.problem import Problem
from cudamath.kernels.copy.channels_last import as_channels_last
from cudamath.runtime.device import assume
from cudamath.testing import layout_of, simulate
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

#: Images, filters, groups, stride: groups merged two by two, all of them, depthwise; odd channels,
#: odd outputs, both.
SMALL = [
    ((1, 32, 1, 2), (32, 8, 2, 1), 4, 1),
    ((1, 8, 2, 2), (16, 2, 3, 3), 4, 2),
    ((1, 16, 2, 3), (16, 1, 3, 2), 16, 2),
    ((1, 3, 2, 3), (8, 3, 2, 2), 1, 1),
    ((1, 8, 3, 2), (5, 8, 3, 2), 1, 2),
    ((1, 3, 3, 2), (5, 3, 3, 3), 1, 1),
]


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("x_shape, w_shape, groups, stride", SMALL)
def test_whole_channels_in_the_simulator(x_shape, w_shape, groups, stride, last):
    """Around kernels that need no tensor cores; with a bias."""
    monkey = pytest.MonkeyPatch()
    monkey.setattr(whole_channels, "ENOUGH", 16)
    monkey.setattr(wgrad_simt, "REDUCERS", 8)  # of 128 threads of a weight most would idle here
    x, w = numbers(x_shape, F16), numbers(w_shape, F16, 1)
    b, c = numbers(w_shape[:1], F16, 3), numbers(x_shape[1:2], F16, 4)
    strides, margins, dilation, size = geometry(x_shape, w_shape, stride, 1, 1)
    g = numbers((x_shape[0], w_shape[0], *size), F16, 2)
    if last:
        x, w, g = (
            np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (x, w, g)
        )
    where = {"stride": strides, "padding": margins, "dilation": dilation, "groups": groups}
    how = {"stride": stride, "padding": 1, "groups": groups}
    (y, dx, dw, _), sizes = (
        reference(f(x), f(w), f(b), **how, grad=f(g)) for f in (np.asarray, np.abs)
    )
    lx, lw, lb, lg, lc = map(layout_of, (x, w, b, g, c))
    channels = c[:, None, None].astype(np.float64)
    try:
        for problem, inner, arrays, exact, scale in (
            (Problem.forward(lx, lw, lb, **where), direct.forward, (x, w, b), y, sizes[0]),
            (
                Problem.input_gradient(lg, lw, lc, size=x_shape[2:], **where),
                dgrad_simt.direct,
                (g, w, c),
                dx + channels,
                sizes[1] + abs(channels),
            ),
            (
                Problem.weight_gradient(lg, lx, kernel=w_shape[2:], **where),
                wgrad_simt.direct,
                (g, x),
                dw,
                sizes[2],
            ),
        ):
            plan = whole_channels.plan(problem, inner)
            assert plan.outputs[0] is problem.out
            check(simulate(plan, *arrays), exact, scale, F16, problem.kind)
    finally:
        monkey.undo()


@pytest.mark.parametrize(
    ("channels", "outputs", "groups", "merged"),
    [
        (4, 4, 32, 16),  # 64 channels
        (8, 16, 32, 8),
        (24, 24, 4, 4),  # pairs have 48
        (12, 12, 6, 6),  # all: no fewer are whole steps of 16
        (4, 4, 3, 1),  # never whole pieces
        (64, 64, 4, 2),
        (5, 5, 16, 16),
    ],
)
def test_how_many_groups_are_merged(channels, outputs, groups, merged):
    x, w, y = (
        Layout.new(shape, BF16, 0)
        for shape in (
            (2, channels * groups, 8, 8),
            (outputs * groups, channels, 1, 1),
            (2, outputs * groups, 8, 8),
        )
    )
    problem = Problem("forward", x, w, y, groups=groups)
    assert whole_channels.groups_to_merge(problem) == merged
    inner = whole_channels.widened(problem)
    assert (inner is None) == (merged == 1)
    if inner is not None:
        assert inner.groups * merged == groups and inner.x is x and inner.y is y
        assert math.prod(inner.weight.shape) == merged * w.size


def test_where_channels_are_whole_already():
    x, w = (Layout.new(shape, BF16, 0) for shape in ((2, 64, 8, 8), (32, 64, 3, 3)))
    where = dict(stride=(1, 1), padding=(1,) * 4, dilation=(1, 1), groups=1)
    assert whole_channels.widened(Problem.forward(x, w, **where)) is None
    with assume((9, 0)), pytest.raises(ValueError, match="'whole_channels' does not support"):
        conv_dispatch.conv2d(x, w, **where, version="whole_channels")


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
@pytest.mark.parametrize("kind", ["forward", "input", "weight"])
def test_the_product_runs_on_tensor_cores(kind, capability):
    """Filters are filled, copied and multiplied; a gradient's diagonal is copied."""
    if lazy_numba.SIMULATOR:
        pytest.skip("the simulator has no tensor cores")
    x, w, y = (
        as_channels_last(Layout.new(shape, BF16, 0))
        for shape in ((4, 256, 28, 28), (256, 8, 3, 3), (4, 256, 28, 28))
    )
    where = dict(stride=(1, 1), padding=(1,) * 4, dilation=(1, 1), groups=32)
    planners = {
        "forward": functools.partial(conv_dispatch.conv2d, x, w),
        "input": functools.partial(conv_dispatch.conv2d_input_grad, y, w, size=(28, 28)),
        "weight": functools.partial(conv_dispatch.conv2d_weight_grad, y, x, kernel=(3, 3)),
    }
    with assume(capability):
        plan = planners[kind](**where, version="whole_channels")
    names = [step.kernel.__name__ for step in plan.steps if isinstance(step, Launch)]
    assert any("mma" in name for name in names), names
    assert plan.outputs[0] is {"forward": y, "input": x, "weight": w}[kind]
    assert any(temp.shape == (256, 64, 3, 3) for temp in plan.temps)


def test_grouped_convolutions_get_it():
    """Of 16 channels a group, tiles of 64 outputs would be empty by three quarters."""
    x, w = (
        as_channels_last(Layout.new(shape, BF16, 0))
        for shape in ((32, 512, 28, 28), (512, 16, 3, 3))
    )
    where = dict(stride=(1, 1), padding=(1,) * 4, dilation=(1, 1), groups=32)
    with assume((9, 0)):
        assert conv_dispatch.conv2d(x, w, **where).why.startswith("whole_channels: ")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize(
    "x_shape, w_shape, groups, stride",
    [
        ((4, 128, 14, 15), (128, 4, 3, 3), 32, 1),
        ((2, 256, 9, 8), (128, 8, 3, 3), 32, 2),
        ((3, 64, 11, 12), (64, 1, 5, 5), 64, 1),
        ((2, 33, 17, 18), (65, 33, 3, 3), 1, 1),
        ((2, 100, 9, 9), (20, 100, 1, 1), 1, 1),
        ((2, 96, 10, 10), (48, 24, 4, 4), 4, 2),
    ],
)
def test_whole_channels_by_name(x_shape, w_shape, groups, stride, last, dtype):
    needs_tensor_cores()
    x, w, b = numbers(x_shape, dtype), numbers(w_shape, dtype, 1), numbers(w_shape[:1], dtype, 3)
    strides, margins, dilation, size = geometry(x_shape, w_shape, stride, 1, 1)
    g = numbers((x_shape[0], w_shape[0], *size), dtype, 2)
    where = {"stride": strides, "padding": margins, "dilation": dilation, "groups": groups}
    exact, sizes = (
        reference(f(x), f(w), f(b), stride=stride, padding=1, groups=groups, grad=f(g))
        for f in (np.asarray, np.abs)
    )
    ours = [on_gpu(a, last) for a in (x, w, g)]
    for planner, inputs, at in (
        (conv_dispatch.conv2d, [ours[0], ours[1], cm.asarray(b, device="cuda")], 0),
        (functools.partial(conv_dispatch.conv2d_input_grad, size=x_shape[2:]), ours[:0:-1], 1),
        (
            functools.partial(conv_dispatch.conv2d_weight_grad, kernel=w_shape[2:]),
            [ours[2], ours[0]],
            2,
        ),
    ):
        layouts = [a._layout for a in inputs]
        run = planner(*layouts, **where, version="whole_channels").bind("whole", layouts)
        first = run(*inputs)
        check(first, exact[at], sizes[at], dtype, str(at))
        assert first.tobytes() == run(*inputs).tobytes()
