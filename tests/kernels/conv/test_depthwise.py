"""Depthwise convolution on a GPU by strips (kernels/conv/depthwise/nchw.py): its schemes, its
kernels by name, its tiles; weight gradients of small groups (kernels/conv/wgrad_few_channels.py);
filters of one tap (kernels/conv/pointwise.py)."""

import itertools

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.steps import Call, Launch
from cudamath.core.layout import Layout, is_channels_last
from cudamath.kernels.compiler.lazy_numba import SIMULATOR, cuda
from cudamath.kernels.conv import dgrad_few_channels, wgrad_few_channels
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv import pointwise as conv_pointwise
from cudamath.kernels.conv.depthwise import nchw as depthwise_nchw
from cudamath.kernels.conv.depthwise import nhwc as depthwise_nhwc
from cudamath.kernels.conv.problem import ROLES, Problem
from cudamath.kernels.copy import channels_last as copy_channels_last
from cudamath.runtime import cublas, cudnn
from cudamath.runtime.device import assume
from cudamath.testing import layout_of, simulate
from tests.ml.test_conv import BF16, F16, F32, F64, check, numbers, reference
from tests.ml.test_conv import on_gpu as placed

KINDS = ("forward", "input", "weight")
CASES = [  # images, channels, height, width; taps; stride; padding
    ((2, 3, 9, 11), (3, 3), (1, 1), (1, 1)),
    ((2, 3, 10, 8), (3, 3), (2, 2), (1, 1)),
    ((3, 2, 7, 12), (7, 7), (1, 1), (3, 3)),
    ((2, 2, 9, 14), (5, 2), (2, 1), (0, 3)),
    ((1, 4, 1, 19), (1, 4), (1, 2), (0, 5)),  # more padding than taps
    ((5, 2, 4, 4), (3, 3), (2, 2), (0, 0)),  # the last row and column meet no result
]
LARGER = [
    ((64, 3, 14, 14), (3, 3), (1, 1), (1, 1)),  # many images per block
    ((2, 2, 56, 56), (7, 7), (1, 1), (3, 3)),
    ((2, 2, 300, 600), (5, 5), (1, 1), (2, 2)),  # many blocks per image
    ((2, 3, 301, 270), (3, 3), (2, 2), (1, 1)),
]


LAST = [  # channels in chunks of 32, 16 and 8 lanes, the last of which some leave idle
    ((3, 64, 9, 13), (3, 3), (1, 1), (1, 1)),
    ((2, 96, 12, 7), (5, 5), (2, 2), (2, 2)),
    ((1, 67, 10, 9), (7, 7), (1, 1), (3, 3)),
    ((5, 144, 30, 22), (3, 3), (2, 2), (1, 1)),
    ((2, 10, 65, 33), (4, 4), (1, 1), (1, 1)),
]
APART = [  # the same, and the distance of taps
    ((2, 4, 11, 13), (3, 3), (1, 1), (2, 2), 2),
    ((1, 6, 19, 14), (5, 3), (2, 1), (3, 1), 3),
    ((2, 3, 13, 17), (7, 2), (1, 4), (6, 0), 2),
]


def problem(shape, taps, stride, padding, dtype, dilation=1):
    """(operands and options of each kind, expected results, largest possible sums)."""
    x, w = numbers(shape, dtype), numbers((shape[1], 1, *taps), dtype, 1)
    where = {
        **{"stride": stride, "padding": padding},
        **{"groups": shape[1], "dilation": dilation},
    }
    g = numbers(reference(x, w, **where).shape, dtype, 7)
    y, dx, dw, _ = reference(x, w, **where, grad=g)
    sizes = reference(*map(np.abs, (x, w)), **where, grad=np.abs(g))
    margins = (padding[0], padding[0], padding[1], padding[1])
    options = {
        "stride": stride,
        "padding": margins,
        "dilation": (dilation, dilation),
        "groups": shape[1],
    }
    return {
        "forward": ((x, w), {"version": "fprop_depthwise_nchw"}, y, sizes[0]),
        "input": ((g, w), {"size": shape[2:], "version": "dgrad_depthwise_nchw"}, dx, sizes[1]),
        "weight": ((g, x), {"kernel": taps, "version": "wgrad_depthwise_nchw"}, dw, sizes[2]),
    }, options


NHWC = {
    "forward": "fprop_depthwise_nhwc",
    "input": "dgrad_depthwise_nhwc",
    "weight": "wgrad_depthwise_nhwc",
}


PLANNERS = {
    "forward": conv_dispatch.conv2d,
    "input": conv_dispatch.conv2d_input_grad,
    "weight": conv_dispatch.conv2d_weight_grad,
}


def on_gpu(kind, arrays, options):
    """The result of one version."""
    inputs = [cm.asarray(a, device="cuda") for a in arrays]
    layouts = [a._layout for a in inputs]
    return PLANNERS[kind](*layouts, **options).bind(kind, layouts)(*inputs)


@pytest.mark.parametrize(
    ("taps", "steps", "before"),
    [*itertools.product((1, 2, 3, 7), ((1, 1), (1, 2), (2, 1)), (-2, 0, 1, 3))],
)
def test_a_strip_meets_what_its_results_meet(taps, steps, before):
    """Against the definition, at several places of a line."""
    up, down = steps  # a stride of the image or of the results, never of both
    axis = depthwise_nchw.Axis(taps, up, down, before, 4 * up)
    low, high = axis.reach
    for strip in range(3):
        met = {
            (strip * 4 * down + place, strip * axis.wide + i, t)
            for place in range(low, high + 1)
            for i, t in axis.pairs(place)
        }
        wanted = {
            ((p * down - before + t) // up, p, t)
            for p in range(strip * axis.wide, (strip + 1) * axis.wide)
            for t in range(taps)
            if (p * down - before + t) % up == 0
        }
        assert met == wanted


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("case", "dtype"),
    [*itertools.product([*CASES, *LARGER], [F32, BF16]), (CASES[1], F64), (CASES[1], F16)],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_by_name(case, kind, dtype):
    problems, options = problem(*case, dtype)
    arrays, more, expected, size = problems[kind]
    first, again = (on_gpu(kind, arrays, {**more, **options}) for _ in range(2))
    check(first, expected, size, dtype, kind)
    assert first.tobytes() == again.tobytes()


def channels_last(a):
    """The same numbers, their channels last in memory."""
    return np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *itertools.product([*CASES, *LARGER, *LAST, *APART], [F32, BF16]),
        (CASES[1], F16),
        (CASES[1], F64),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_channels_last_by_name(case, kind, dtype):
    shape, taps, stride, padding, *apart = case
    problems, options = problem(shape, taps, stride, padding, dtype, *apart)
    arrays, more, expected, size = problems[kind]
    inputs = [
        cm.asarray(np.ascontiguousarray(a.transpose(0, 2, 3, 1)), device="cuda").transpose(
            0, 3, 1, 2
        )
        for a in arrays
    ]
    layouts = [a._layout for a in inputs]
    out = PLANNERS[kind](*layouts, **{**more, **options, "version": NHWC[kind]}).bind(
        kind, layouts
    )(*inputs)
    check(out, expected, size, dtype, kind)
    if kind != "weight" and not inputs[0]._layout.contiguous:  # of 1 x 1 pixels both are the same
        assert is_channels_last(out._layout)


@pytest.mark.gpu
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
def test_a_bias(last):
    """Of any stride, to whatever kernel depthwise convolutions go."""
    x, w, bias = (
        numbers((3, 6, 9, 10), F32),
        numbers((6, 1, 3, 3), F32, 1),
        numbers((12,), F32, 2)[::2],
    )
    expected = reference(x, w, bias, padding=1, groups=6)
    size = reference(np.abs(x), np.abs(w), np.abs(bias), padding=1, groups=6)
    images = (
        cm.asarray(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), device="cuda").transpose(
            0, 3, 1, 2
        )
        if last
        else cm.asarray(x, device="cuda")
    )
    y = cm.ml.conv2d(
        images,
        cm.asarray(w, device="cuda"),
        cm.asarray(numbers((12,), F32, 2), device="cuda")[::2],
        padding=1,
        groups=6,
    )
    check(y, expected, size, F32, "y")


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [*CASES, *APART], ids=str)
def test_channels_last_in_the_simulator(monkeypatch, case, kind, dtype):
    """As many strips in a thread as there are rows of them, in half of the cases."""
    monkeypatch.setattr(depthwise_nhwc, "multiprocessors", lambda _: 1)
    monkeypatch.setattr(depthwise_nhwc, "ENOUGH_THREADS", 1 if case[2] == (1, 1) else 1 << 20)
    shape, taps, stride, padding, *apart = case
    problems, options = problem(shape, taps, stride, padding, dtype, *apart)
    arrays, more, expected, size = problems[kind]
    arrays = [channels_last(a) for a in arrays]
    plan = PLANNERS[kind](*map(layout_of, arrays), **{**more, **options, "version": NHWC[kind]})
    check(simulate(plan, *arrays), expected, size, dtype, kind)


def sum_without_shuffles(threads, T):
    """For the simulator, which has no shuffles: the sum over a warp through shared memory."""

    @cuda.jit(device=True)
    def total(v):
        parts = cuda.shared.array(depthwise_nchw.THREADS, T)
        t = cuda.threadIdx.x
        parts[t] = v
        cuda.syncthreads()
        v = T(0)
        for i in range(t // threads * threads, (t // threads + 1) * threads):
            v += parts[i]
        cuda.syncthreads()
        return v

    return total


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize(
    ("case", "kind"),
    [*itertools.product(CASES[:2] + CASES[3:], KINDS[:2]), (CASES[5], "weight")],
    ids=str,
)
def test_in_the_simulator(monkeypatch, case, kind, dtype):
    monkeypatch.setattr(depthwise_nchw, "group_sum", sum_without_shuffles)
    problems, options = problem(*case, dtype)
    arrays, more, expected, size = problems[kind]
    plan = PLANNERS[kind](*map(layout_of, arrays), **more, **options)
    check(simulate(plan, *arrays), expected, size, dtype, kind)


@pytest.mark.parametrize(
    ("planes", "size", "stride"),
    [
        (8192, (56, 56), 1),
        (16384, (28, 28), 2),
        (7, (7, 7), 1),
        (1, (4, 4), 1),
        (3, (1000, 3000), 1),
        (3, (999, 1), 2),
        (64, (1, 4096), 1),
    ],
)
@pytest.mark.parametrize("taps", [(1, 1), (3, 3), (7, 7), (2, 5)])
def test_tiles_cover_the_results_and_fit(planes, size, stride, taps):
    for up, down in ((1, stride), (stride, 1)):
        how = depthwise_nchw.scheme(taps, (up, up), (down, down), (taps[0] // 2, taps[1] // 2))
        cut = depthwise_nchw.tiles(how, planes, *size, 1)
        assert cut.tiles_down * cut.tall >= size[0] > (cut.tiles_down - 1) * cut.tall
        assert cut.tiles_across * cut.broad >= size[1] > (cut.tiles_across - 1) * cut.broad
        assert cut.shared <= depthwise_nchw.ROOM and 1 <= cut.count <= planes
        last = (
            (cut.tall - depthwise_nchw.HIGH) * down // up + how.height,
            (cut.broad - how.columns.wide) * down // up,
        )
        assert last[0] <= cut.rows and last[1] + 4 * how.vectors <= cut.pitch


def test_division_by_multiplication():
    """Of every number that places in shared memory are, and some more, by every divisor that a tile
    may have."""
    n = np.arange(1 << 16, dtype=np.uint64)
    for d in (1, 2, 3, 5, 7, 14, 31, 62, 100, 641, 4097, depthwise_nchw.ROOM):
        assert np.array_equal(
            (n * np.uint64(depthwise_nchw.inverse(d))) >> np.uint64(32), n // np.uint64(d)
        )


@pytest.mark.parametrize(
    ("weight", "outputs", "stride", "dilation", "expected"),
    [
        ((8, 1, 3, 3), 8, 1, 1, True),
        ((8, 1, 7, 7), 8, 2, 1, True),
        ((16, 1, 3, 3), 16, 1, 1, False),
        ((8, 2, 3, 3), 8, 1, 1, False),
        ((8, 1, 9, 3), 8, 1, 1, False),
        ((8, 1, 3, 3), 8, 3, 1, False),
        ((8, 1, 3, 3), 8, 1, 2, False),
    ],
)
def test_what_is_served(weight, outputs, stride, dilation, expected):
    x, w, y = (Layout.new(shape, F32, 0) for shape in ((1, 8, 9, 9), weight, (1, outputs, 9, 9)))
    problem = Problem("forward", x, w, y, None, (stride,) * 2, (0,) * 4, (dilation,) * 2, 8)
    assert conv_dispatch.is_depthwise(problem) == expected


@pytest.mark.parametrize(
    ("kind", "taps", "stride", "dilation", "expected"),
    [
        ("forward", 7, 2, 2, True),
        ("forward", 3, 9, 1, True),
        ("forward", 3, 10, 1, False),  # strips meet 33 columns
        ("weight", 7, 1, 5, False),
        ("input", 5, 4, 2, True),
        ("input", 5, 3, 1, False),
        ("forward", 9, 1, 1, False),
    ],
)
def test_what_is_served_channels_last(kind, taps, stride, dilation, expected):
    shapes = (1, 8, 64, 64), (8, 1, taps, taps), (1, 8, 9, 9)
    x, w, y = (Layout.new(shape, F32, 0) for shape in shapes)
    problem = Problem(kind, x, w, y, None, (stride,) * 2, (0,) * 4, (dilation,) * 2, 8)
    assert conv_dispatch.is_depthwise_last(problem) == expected
    if expected:
        how = depthwise_nhwc.scheme(problem, depthwise_nhwc.shares(problem).high)
        assert max(how.height, how.columns.reach[1] - how.columns.reach[0] + 1) <= 32


# -------------------- weight gradients of small groups


FEW = [  # images, groups, outputs and channels of a group, height, width; taps; stride; padding
    (2, 2, 3, 2, 9, 11, (3, 3), (1, 1), (1, 1)),
    (3, 2, 2, 5, 8, 10, (2, 3), (2, 1), (0, 1)),
    (
        2,
        1,
        6,
        3,
        9,
        12,
        (7, 7),
        (2, 2),
        (3, 3),
    ),  # one group: more taps, its outputs shared between blocks
    (1, 1, 2, 4, 5, 9, (3, 5), (1, 2), (1, 0)),
    (3, 1, 66, 1, 3, 4, (2, 1), (1, 1), (0, 0)),
]
LARGER_FEW = [
    (5, 4, 8, 8, 56, 56, (3, 3), (1, 1), (1, 1)),
    (3, 2, 8, 8, 41, 70, (3, 3), (2, 2), (1, 1)),
    (2, 3, 1, 8, 7, 7, (3, 3), (1, 1), (1, 1)),
    (2, 2, 8, 3, 150, 200, (3, 1), (1, 2), (1, 0)),
    (5, 1, 64, 3, 224, 224, (7, 7), (2, 2), (3, 3)),
    (3, 1, 96, 3, 110, 61, (7, 5), (2, 1), (3, 2)),
    (2, 1, 130, 4, 40, 333, (3, 3), (1, 1), (1, 1)),
]


def few(case, dtype):
    """(operands, options, expected, largest possible sums) of a weight gradient."""
    images, groups, outputs, channels, height, width, taps, stride, padding = case
    x, w = (
        numbers((images, groups * channels, height, width), dtype),
        numbers((groups * outputs, channels, *taps), dtype, 1),
    )
    where = {"stride": stride, "padding": padding, "groups": groups}
    g = numbers(reference(x, w, **where).shape, dtype, 7)
    size = reference(*map(np.abs, (x, w)), **where, grad=np.abs(g))[2]
    options = {
        "stride": stride,
        "padding": (padding[0],) * 2 + (padding[1],) * 2,
        "dilation": (1, 1),
        "groups": groups,
        "version": "wgrad_few_channels",
        "kernel": taps,
    }
    return (g, x), options, reference(x, w, **where, grad=g)[2], size


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("case", FEW + LARGER_FEW, ids=str)
def test_few_by_name(case, dtype):
    arrays, options, expected, size = few(case, dtype)
    first, again = (on_gpu("weight", arrays, options) for _ in range(2))
    check(first, expected, size, dtype, "few")
    assert first.tobytes() == again.tobytes()


@pytest.mark.simulator
@pytest.mark.parametrize("case", FEW, ids=str)
def test_few_in_the_simulator(case):
    arrays, options, expected, size = few(case, F32)
    with assume((9, 0)):
        plan = PLANNERS["weight"](*map(layout_of, arrays), **options)
    check(simulate(plan, *arrays), expected, size, F32, "few")


@pytest.mark.parametrize("taps", [(1, 1), (3, 3), (2, 3)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(56, 56), (7, 7), (1, 1), (300, 500), (14, 65)])
@pytest.mark.parametrize("group", [(8, 8), (1, 2), (5, 3)])
def test_tiles_of_groups_cover_the_results_and_fit(group, size, stride, taps):
    """Planes of neighbouring channels begin in different banks."""
    how = depthwise_nchw.scheme(taps, (1, 1), (stride,) * 2, (taps[0] // 2, taps[1] // 2))
    cut = wgrad_few_channels.tiles(how, *group, *size, 1, 1)
    assert cut.tiles_down * cut.tall >= size[0] > (cut.tiles_down - 1) * cut.tall
    assert cut.tiles_across * cut.broad >= size[1] > (cut.tiles_across - 1) * cut.broad
    assert (
        group[1] * cut.rows * cut.pitch + group[0] * cut.rows_dy * cut.pitch_dy
        <= wgrad_few_channels.ROOM
    )
    assert (
        cut.tall - depthwise_nchw.HIGH
    ) * stride + how.height <= cut.rows and cut.tall <= cut.rows_dy
    assert (cut.broad - 4) * stride + 4 * how.vectors <= cut.pitch and cut.broad <= cut.pitch_dy
    assert cut.rows * cut.pitch % 8 == cut.rows_dy * cut.pitch_dy % 8 == 4


@pytest.mark.parametrize(
    ("x", "filters", "stride", "dtype", "tf32", "chosen"),
    [
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, F32, False, True),
        ((128, 3, 32, 32), (64, 3, 3, 3), 1, F32, False, True),
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, F32, True, True),
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, F16, False, False),
        ((64, 3, 224, 224), (63, 3, 7, 7), 2, F32, False, False),
        ((64, 3, 224, 224), (64, 3, 11, 11), 4, F32, False, False),
        ((64, 8, 224, 224), (64, 8, 7, 7), 2, F32, False, False),
    ],
)
def test_where_weights_of_one_group_run(monkeypatch, x, filters, stride, dtype, tf32, chosen):
    monkeypatch.setattr(cudnn, "available", lambda: False)
    pad = filters[2] // 2
    grad = Layout.new(
        (x[0], filters[0], *[(n + 2 * pad - filters[2]) // stride + 1 for n in x[2:]]), dtype, 0
    )
    with assume((9, 0)):
        plan = conv_dispatch.conv2d_weight_grad(
            grad,
            Layout.new(x, dtype, 0),
            kernel=filters[2:],
            stride=(stride,) * 2,
            padding=(pad,) * 4,
            dilation=(1, 1),
            groups=1,
            tf32=tf32,
        )
    assert ("conv2d_few_weight" in [step.kernel.__name__ for step in plan.steps]) == chosen


@pytest.mark.parametrize("size", [(112, 112), (7, 7), (1, 1), (300, 500), (14, 65)])
@pytest.mark.parametrize("outputs, channels", [(64, 3), (64, 4), (2, 1), (26, 4)])
@pytest.mark.parametrize("taps, stride", [((7, 7), 2), ((7, 7), 1), ((3, 3), 1), ((1, 1), 2)])
def test_tiles_of_one_group_fit(outputs, channels, size, taps, stride):
    how, alone = (
        depthwise_nchw.scheme(taps, (1, 1), (stride,) * 2, (taps[0] // 2, taps[1] // 2)),
        wgrad_few_channels.ALONE,
    )
    cut = wgrad_few_channels.tiles(how, outputs, channels, *size, 1, 1, alone.room)
    assert channels * cut.rows * cut.pitch + outputs * cut.rows_dy * cut.pitch_dy <= alone.room
    assert (
        outputs // 2 * channels <= alone.threads
        and 2 * taps[0] * taps[1] * alone.threads <= alone.room
    )
    assert (
        alone.blocks * 4 * alone.room <= 227 << 10 and 4 * alone.room <= 99 << 10
    )  # also where blocks may have less
    assert outputs * cut.rows_dy * cut.pitch_dy < 1 << 16


# -------------------- gradients of images of few channels

FEW_CHANNELS = [  # images, channels, height, width; filters, taps; stride; padding
    ((2, 3, 13, 18), (5, (7, 7)), (2, 2), (3, 3)),
    ((1, 1, 9, 8), (11, (3, 3)), (1, 1), (1, 1)),
    ((2, 4, 12, 10), (3, (5, 2)), (2, 1), (0, 1)),
    ((1, 2, 7, 23), (1, (1, 4)), (1, 2), (0, 5)),  # more padding than taps
    ((2, 3, 8, 8), (4, (2, 2)), (2, 2), (0, 0)),
    ((1, 3, 9, 10), (2, (1, 1)), (2, 2), (0, 0)),  # most pixels meet no tap
    (
        (1, 1, 71, 70),
        (9, (2, 2)),
        (2, 1),
        (0, 1),
    ),  # several tiles, and planes that do not go into shared memory at once
]
LARGER_FEW_CHANNELS = [
    ((3, 3, 224, 224), (64, (7, 7)), (2, 2), (3, 3)),
    ((2, 4, 150, 333), (19, (7, 6)), (2, 2), (2, 3)),  # several tiles across
    ((2, 3, 64, 80), (70, (3, 3)), (1, 1), (1, 1)),
]


def few_channels(case, dtype):
    """(operands, options, expected, largest possible sums) of a gradient of images."""
    shape, (outputs, taps), stride, padding = case
    x, w = numbers(shape, dtype), numbers((outputs, shape[1], *taps), dtype, 1)
    where = {"stride": stride, "padding": padding}
    g = numbers(reference(x, w, **where).shape, dtype, 7)
    options = {
        "stride": stride,
        "padding": (padding[0],) * 2 + (padding[1],) * 2,
        "dilation": (1, 1),
        "groups": 1,
        "version": "dgrad_few_channels",
        "size": shape[2:],
    }
    expected, size = (reference(f(x), f(w), **where, grad=f(g))[1] for f in (np.asarray, np.abs))
    return (g, w), options, expected, size


@pytest.mark.gpu
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("case", FEW_CHANNELS + LARGER_FEW_CHANNELS, ids=str)
def test_few_channels_by_name(case, dtype, last):
    (g, w), options, expected, size = few_channels(case, dtype)
    inputs = [placed(g, last), cm.asarray(w, device="cuda")]
    layouts = [a._layout for a in inputs]
    run = conv_dispatch.conv2d_input_grad(*layouts, **options).bind("input", layouts)
    first, again = run(*inputs), run(*inputs)
    check(first, expected, size, dtype, "few")
    assert first.tobytes() == again.tobytes()


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("case", FEW_CHANNELS, ids=str)
def test_few_channels_in_the_simulator(case, dtype):
    arrays, options, expected, size = few_channels(case, dtype)
    check(
        simulate(conv_dispatch.conv2d_input_grad(*map(layout_of, arrays), **options), *arrays),
        expected,
        size,
        dtype,
        "few",
    )


def test_a_case_of_several_tiles_and_turns():
    """One of those that the simulator computes."""
    (_, _, *size), (planes, taps), *_ = FEW_CHANNELS[-1]
    cut = dgrad_few_channels.tiles(
        depthwise_nchw.scheme(taps, (2, 1), (1, 1), (1, 0)), planes, *size, 1
    )
    assert cut.tiles_down * cut.tiles_across > 1 and 1 < cut.count < planes


@pytest.mark.parametrize("taps", [(1, 1), (7, 7), (2, 3)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(224, 224), (7, 7), (1, 1), (300, 500), (14, 1065)])
def test_tiles_of_few_channels_cover_the_images_and_fit(size, stride, taps):
    """A strip a thread; what a tile's strips read lies in shared memory, and places there are
    16-bit numbers."""
    how = depthwise_nchw.scheme(taps, (stride,) * 2, (1, 1), (taps[0] // 2, taps[1] // 2))
    cut = dgrad_few_channels.tiles(how, 64, *size, 1)
    assert cut.tiles_down * cut.tall >= size[0] > (cut.tiles_down - 1) * cut.tall
    assert cut.tiles_across * cut.broad >= size[1] > (cut.tiles_across - 1) * cut.broad
    assert (
        cut.down * cut.across <= depthwise_nchw.THREADS
        and cut.broad == cut.across * how.columns.wide
    )
    assert (cut.tall - depthwise_nchw.HIGH) // stride + how.height <= cut.rows
    assert (cut.broad - how.columns.wide) // stride + 4 * how.vectors <= cut.pitch
    assert cut.count * (cut.rows * cut.pitch + 4 * taps[0] * taps[1]) <= dgrad_few_channels.ROOM
    assert cut.count * cut.rows * cut.pitch < 1 << 16 and 1 <= cut.count <= 64


@pytest.mark.parametrize(
    ("shape", "filters", "stride", "dtype", "tf32", "chosen"),
    [
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, F32, False, True),
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, F32, True, True),
        (
            (64, 3, 224, 224),
            (60, 3, 7, 7),
            2,
            BF16,
            False,
            True,
        ),  # no multiple of eight, which tensor cores would take
        ((64, 3, 224, 224), (64, 3, 3, 3), 1, F32, False, True),
        ((64, 3, 224, 224), (64, 3, 3, 3), 1, BF16, False, False),
        ((64, 8, 224, 224), (64, 8, 7, 7), 2, F32, False, False),
        ((64, 3, 224, 224), (64, 3, 11, 11), 2, F32, False, False),
        ((64, 3, 224, 224), (64, 3, 7, 7), 4, F32, False, False),
    ],
)
def test_where_gradients_of_few_channels_run(
    monkeypatch, shape, filters, stride, dtype, tf32, chosen
):
    monkeypatch.setattr(cudnn, "available", lambda: False)
    pad = filters[2] // 2
    grad = Layout.new(
        (shape[0], filters[0], *[(n + 2 * pad - filters[2]) // stride + 1 for n in shape[2:]]),
        dtype,
        0,
    )
    with assume((9, 0)):
        plan = conv_dispatch.conv2d_input_grad(
            grad,
            Layout.new(filters, dtype, 0),
            size=shape[2:],
            stride=(stride,) * 2,
            padding=(pad,) * 4,
            dilation=(1, 1),
            groups=1,
            tf32=tf32,
        )
    names = [step.kernel.__name__ for step in plan.steps]
    assert (names == ["conv2d_few_input"]) == chosen
    if not chosen and shape[0] > 2:
        assert (
            "conv2d_input_direct" not in names and "conv2d_direct" not in names
        )  # 64 images by those: 40 ms


# -------------------- filters of one tap, by cuBLAS


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "outputs"),
    [((3, 5, 7, 9), 4), ((1, 16, 1, 1), 8), ((9, 1, 6, 4), 1), ((5, 48, 16, 8), 64)],
)
def test_one_tap_image_by_image(shape, outputs, kind, dtype):
    """By cuBLAS, and 16-bit numbers by the products of images."""
    x, w = numbers(shape, dtype), numbers((outputs, shape[1], 1, 1), dtype, 1)
    g = numbers((shape[0], outputs, *shape[2:]), dtype, 7)
    y, dx, dw, _ = reference(x, w, grad=g)
    sizes = reference(*map(np.abs, (x, w)), grad=np.abs(g))
    arrays, more, expected, size = {
        "forward": ((x, w), {}, y, sizes[0]),
        "input": ((g, w), {"size": shape[2:]}, dx, sizes[1]),
        "weight": ((g, x), {"kernel": (1, 1)}, dw, sizes[2]),
    }[kind]
    options = {
        "stride": (1, 1),
        "padding": (0,) * 4,
        "dilation": (1, 1),
        "groups": 1,
        "version": "pointwise_images" if dtype.itemsize == 2 else "pointwise_cublas",
    }
    check(on_gpu(kind, arrays, {**more, **options}), expected, size, dtype, kind)


APART = [
    ((2, 5, 7, 9), 4, (2, 2), (0, 0, 0, 0)),
    ((1, 3, 6, 8), 1, (3, 1), (0, 0, 0, 0)),
    ((3, 1, 5, 5), 6, (1, 2), (0, 0, 0, 0)),
    ((2, 3, 6, 7), 4, (2, 2), (1, 2, 3, 0)),
    ((1, 2, 2, 5), 3, (3, 2), (4, 1, 0, 5)),
    ((1, 2, 1, 4), 3, (2, 3), (1, 0, 2, 2)),
]


def apart(shape, outputs, stride, padding, dtype):
    """(operands, options, expected, largest possible sums) of a gradient of images at every second
    or third pixel."""
    x, w = numbers(shape, dtype), numbers((outputs, shape[1], 1, 1), dtype, 1)
    around = [(0, 0), (0, 0), padding[:2], padding[2:]]
    inside = (
        slice(None),
        slice(None),
        slice(padding[0], padding[0] + shape[2]),
        slice(padding[2], padding[2] + shape[3]),
    )
    image = np.pad(x, around)
    g = numbers(reference(image, w, stride=stride).shape, dtype, 7)
    expected, size = (
        reference(f(image), f(w), stride=stride, grad=f(g))[1][inside] for f in (np.asarray, np.abs)
    )
    return (
        (g, w),
        {"stride": stride, "padding": padding, "dilation": (1, 1), "groups": 1, "size": shape[2:]},
        expected,
        size,
    )


@pytest.mark.gpu
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("version", ["pointwise_cublas", "dgrad_simt", "dgrad_direct", None])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("case", [*APART, ((4, 64, 33, 34), 48, (2, 2), (0, 1, 1, 0))], ids=str)
def test_one_tap_apart(case, dtype, version, last):
    (g, w), options, expected, size = apart(*case, dtype)
    inputs = [placed(g, last), cm.asarray(w, device="cuda")]
    layouts = [a._layout for a in inputs]
    plan = conv_dispatch.conv2d_input_grad(*layouts, **options, version=version)
    check(plan.bind("input", layouts)(*inputs), expected, size, dtype, str(version))
    biased = conv_dispatch.conv2d_input_grad(
        *layouts, Layout.new((case[0][1],), dtype, 0), **options, version=version
    )
    bias = numbers((case[0][1],), dtype, 3)
    found = biased.bind("input", [*layouts, Layout.new(bias.shape, dtype, 0)])(
        *inputs, cm.asarray(bias, device="cuda")
    )
    check(
        found, expected + bias[:, None, None], size + abs(bias)[:, None, None], dtype, "with a bias"
    )


@pytest.mark.simulator
@pytest.mark.parametrize("case", APART, ids=str)
def test_products_put_apart_in_the_simulator(case, monkeypatch):
    """By cuBLAS, whose product NumPy computes here, and by our kernels: zeros between, and a bias
    there too."""
    arrays, options, expected, size = apart(*case, F32)
    asked = []
    monkeypatch.setattr(cublas, "available", lambda: True)
    monkeypatch.setattr(cublas, "gemm", lambda *given: asked.append(given))
    layouts = [Layout.new(a.shape, F32, 0) for a in arrays]
    with assume((9, 0)):
        plan = conv_dispatch.conv2d_input_grad(*layouts, **options, version="pointwise_cublas")
    ((_, m, n, k, of_w, of_dy, of_dx, count),) = asked
    assert (of_w, of_dy, of_dx) == (
        cublas.Matrix(1, m),
        cublas.Matrix(0, n, k * n),
        cublas.Matrix(0, n, m * n),
    )

    class Products:
        """Launched as kernels are."""

        def __getitem__(self, where):
            def products(w, dy, dx):
                w, dy, dx = [x._ary for x in (w, dy, dx)]  # the simulator's arrays hold NumPy's
                dx.reshape(count, m, n)[:] = w.reshape(k, m).T @ dy.reshape(count, k, n)

            return products

    plan.steps = [
        Launch(Products(), 1, 1, step.args) if isinstance(step, Call) else step
        for step in plan.steps
    ]
    check(simulate(plan, *arrays), expected, size, F32, "cublas")
    bias = numbers((case[0][1],), F32, 3)
    with assume((9, 0)):
        alone, plan = (
            conv_dispatch.conv2d_input_grad(*layouts, *more, **options, version="dgrad_direct")
            for more in ((), (Layout.new(bias.shape, F32, 0),))
        )
    check(simulate(alone, *arrays), expected, size, F32, "direct")
    check(
        simulate(plan, *arrays, bias),
        expected + bias[:, None, None],
        size + abs(bias)[:, None, None],
        F32,
        "with a bias",
    )


def test_where_products_put_apart_run(monkeypatch):
    """Large ones by cuBLAS, one product; without it by our tiles, all zeros at once: one launch for
    them, not three."""
    where = {
        "stride": (2, 2),
        "padding": (0,) * 4,
        "dilation": (1, 1),
        "groups": 1,
        "size": (56, 56),
    }
    layouts = [Layout.new(shape, F32, 0) for shape in ((64, 512, 28, 28), (512, 256, 1, 1))]
    for able in (True, False):
        monkeypatch.setattr(cublas, "available", lambda able=able: able)
        monkeypatch.setattr(cudnn, "available", lambda: False)
        monkeypatch.setattr(cublas, "gemm", lambda *given: "gemm")
        with assume((9, 0)):
            steps = conv_dispatch.conv2d_input_grad(*layouts, **where).steps
        names = ["gemm" if isinstance(step, Call) else step.kernel.__name__ for step in steps]
        assert names == (
            ["gemm", "fill_line", "strided"]
            if able
            else ["fill_line", "pack_weights", "conv2d_implicit_gemm"]
        )


# -------------------- filters of one tap, by wgmma


def one_tap(shape, outputs, kind, dtype):
    """(operands, expected results, largest possible sums) of filters of one tap; the forward
    convolution has a bias."""
    x, w, bias = (
        numbers(shape, dtype),
        numbers((outputs, shape[1], 1, 1), dtype, 1),
        numbers((outputs,), dtype, 3),
    )
    g = numbers((shape[0], outputs, *shape[2:]), dtype, 7)
    y, dx, dw, _ = reference(x, w, bias, grad=g)
    sizes = reference(*map(np.abs, (x, w, bias)), grad=np.abs(g))
    return {
        "forward": ((x, w, bias), y, sizes[0]),
        "input": ((g, w), dx, sizes[1]),
        "weight": ((g, x), dw, sizes[2]),
    }[kind]


def product_problem(kind, result, layouts, **where):
    """Of the operands' layouts, and perhaps a bias; result: its shape."""
    out = copy_channels_last.result(layouts[0], result)
    arrays = dict(zip(ROLES[kind], (*layouts[:2], out), strict=True))
    return Problem(kind, **arrays, bias=layouts[2] if layouts[2:] else None, **where)


@pytest.mark.parametrize("kind", KINDS)
def test_one_tap_as_a_product(kind):
    """What TMA is told of the operands, as NumPy reads it; and which are no single product."""
    if SIMULATOR:
        pytest.skip("the simulator has no tensor cores")
    shape, outputs = (3, 64, 5, 7), 72
    operands, expected, _ = one_tap(shape, outputs, kind, BF16)
    operands = operands[:2]
    layouts = [copy_channels_last.as_channels_last(Layout.new(a.shape, BF16, 0)) for a in operands]
    with assume((9, 0)):
        problem = product_problem(kind, expected.shape, layouts)
        assert conv_dispatch.is_product_sm90(problem)
        (launch,) = conv_pointwise.as_product(problem, "sm90 64x64").steps
        for more in ({"stride": (2, 1)}, {"padding": (0, 0, 1, 0)}):
            odd = product_problem(kind, expected.shape, layouts, **more)
            assert not conv_dispatch.is_product(odd)
    a, b, c = [launch.args[i] for i in (0, 1, 5)]
    m, n = map(int, launch.args[12:14])
    memory = [
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)).astype(np.float64).ravel() for x in operands
    ]
    left, right = (memory[t.array.index].reshape(t.shape)[0] for t in (a, b))
    left, right = (
        x if x.shape[0] == size else x.T for x, size in ((left, m), (right, n))
    )  # (m, k), (n, k)
    found = left @ right.T
    assert found.shape == tuple(c.shape[1:]) == (m, n) and (c.array.kind, c.array.index) == ("y", 0)
    exact = expected if kind != "forward" else reference(*operands)
    np.testing.assert_allclose(
        found.ravel(),
        np.ascontiguousarray(exact.transpose(0, 2, 3, 1)).ravel(),
        rtol=1e-12,
        atol=1e-12,
    )


@pytest.mark.gpu
@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "outputs"),
    [((3, 64, 7, 9), 72), ((2, 8, 9, 9), 24), ((4, 264, 14, 14), 136), ((1, 16, 1, 1), 8)],
)
def test_one_tap_as_a_product_on_the_gpu(shape, outputs, kind, dtype, last):
    if cm.cuda.devices()[0].capability[0] != 9:
        pytest.skip("kernels of compute capability 9.0")
    operands, expected, size = one_tap(shape, outputs, kind, dtype)
    given = [placed(a, last and a.ndim == 4) for a in operands]
    layouts = [a._layout for a in given]
    problem = product_problem(kind, expected.shape, layouts)
    for version in ("sm90", "sm90 64x256 pingpong", "sm90 256x64", "cublas"):
        if version == "cublas" and kind == "forward":
            assert not conv_dispatch.is_product_cublas(problem)  # nothing follows its products
            continue
        plan = conv_pointwise.as_product(problem, version)
        run = plan.bind("conv2d", layouts)
        first = run(*given)
        check(first, expected, size, dtype, f"{kind} {version}")
        assert first.tobytes() == run(*given).tobytes()
