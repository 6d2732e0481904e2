"""Convolutions over folded images: every two by two pixels one pixel of four times the channels
(kernels/conv/space_to_depth/fprop_wgrad.py), and gradients of images, every four by four pixels one
(kernels/conv/space_to_depth/dgrad.py)."""

import functools

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.plan import Plan
from cudamath.core.layout import Layout
from cudamath.kernels.conv import cudnn as conv_cudnn
from cudamath.kernels.conv import direct, wgrad_simt
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv.problem import Problem
from cudamath.kernels.conv.space_to_depth import dgrad, fprop_wgrad
from cudamath.runtime import cudnn
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

FOLDED = [
    ((2, 3, 16, 16), (8, 3, 7, 7), 3),
    ((1, 3, 15, 18), (8, 3, 7, 7), 3),
    ((2, 1, 9, 10), (8, 1, 3, 3), 1),
    ((1, 4, 8, 11), (16, 4, 2, 5), 0),
    ((2, 3, 13, 12), (8, 3, 3, 4), (2, 1)),
    ((1, 2, 7, 7), (8, 2, 5, 5), 4),
]
SMALL = [
    ((1, 3, 4, 5), (1, 3, 7, 7), 3),
    ((2, 1, 5, 6), (3, 1, 3, 3), 1),
    ((1, 4, 4, 7), (2, 4, 2, 5), 0),
    ((1, 3, 7, 6), (2, 3, 3, 4), (2, 1)),
    ((1, 2, 3, 3), (1, 2, 3, 3), 4),
    ((1, 3, 11, 11), (1, 3, 2, 2), 0),
]  # five results of six folded rows


@pytest.mark.simulator
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("x_shape, w_shape, padding", SMALL)
def test_folded_convolution_in_the_simulator(x_shape, w_shape, padding, last, monkeypatch):
    """Images and filters folded, around kernels that need no tensor cores; with a bias; and the
    gradient of filters."""
    monkeypatch.setattr(wgrad_simt, "REDUCERS", 8)  # of 128 threads of a weight most would idle
    x, w, b = numbers(x_shape, F16), numbers(w_shape, F16, 1), numbers(w_shape[:1], F16, 3)
    stride, margins, dilation, size = geometry(x_shape, w_shape, 2, padding, 1)
    g = numbers((x_shape[0], w_shape[0], *size), F16, 2)
    if last:
        x, w, g = (
            np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (x, w, g)
        )
    where = {"stride": stride, "padding": margins, "dilation": dilation, "groups": 1}
    y, _, dw, _ = reference(x, w, b, stride=2, padding=padding, grad=g)
    y_size, _, dw_size, _ = reference(
        abs(x), abs(w), abs(b), stride=2, padding=padding, grad=abs(g)
    )
    lx, lw, lb, lg = map(layout_of, (x, w, b, g))
    plan = fprop_wgrad.forward(Problem.forward(lx, lw, lb, **where), convolve=direct.forward)
    check(simulate(plan, x, w, b), y, y_size, F16, "y")
    plan = fprop_wgrad.weight_gradient(
        Problem.weight_gradient(lg, lx, kernel=w_shape[2:], **where), convolve=wgrad_simt.direct
    )
    check(simulate(plan, g, x), dw, dw_size, F16, "dw")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("x_shape, w_shape, padding", FOLDED)
def test_folded_convolution_by_name(x_shape, w_shape, padding, last, dtype):
    needs_tensor_cores()
    x, w, b = numbers(x_shape, dtype), numbers(w_shape, dtype, 1), numbers(w_shape[:1], dtype, 3)
    stride, margins, dilation, size = geometry(x_shape, w_shape, 2, padding, 1)
    g = numbers((x_shape[0], w_shape[0], *size), dtype, 2)
    options = {
        "stride": stride,
        "padding": margins,
        "dilation": dilation,
        "groups": 1,
    }
    exact, sizes = (
        reference(f(x), f(w), f(b), stride=2, padding=padding, grad=f(g))
        for f in (np.asarray, np.abs)
    )
    ours = [on_gpu(a, last) for a in (x, w, g)]
    forward = functools.partial(conv_dispatch.conv2d, version="fprop_space_to_depth")
    gradient_of_filters = functools.partial(
        conv_dispatch.conv2d_weight_grad, kernel=w_shape[2:], version="wgrad_space_to_depth"
    )
    for planner, inputs, at, what in (
        (forward, [ours[0], ours[1], cm.asarray(b, device="cuda")], 0, "y"),
        (gradient_of_filters, [ours[2], ours[0]], 2, "dw"),
    ):
        layouts = [a._layout for a in inputs]
        run = planner(*layouts, **options).bind("folded", layouts)
        first = run(*inputs)
        check(first, exact[at], sizes[at], dtype, what)
        assert first.tobytes() == run(*inputs).tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize(
    "x_shape, w_shape, padding", [*FOLDED, ((8, 3, 224, 224), (64, 3, 7, 7), 3)]
)
def test_few_channels_on_tensor_cores(x_shape, w_shape, padding, dtype):
    x, w = numbers(x_shape, dtype), numbers(w_shape, dtype, 1)
    size = geometry(x_shape, w_shape, 2, padding, 1)[3]
    b, g = numbers(w_shape[:1], dtype, 3), numbers((x_shape[0], w_shape[0], *size), dtype, 2)
    last = [np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in (x, w)]
    y, dx, dw, db = reference(x, w, b, stride=2, padding=padding, grad=g)
    bounds = reference(abs(x), abs(w), abs(b), stride=2, padding=padding, grad=abs(g))
    with cm.device("cuda"):
        for a, f in (
            (cm.asarray(x), cm.asarray(w)),
            tuple(cm.moveaxis(cm.asarray(v), -1, 1) for v in last),
        ):
            found, pull = cm.vjp(
                lambda x, w, b: cm.ml.conv2d(x, w, b, stride=2, padding=padding),
                a,
                f,
                cm.asarray(b),
            )
            for one, wanted, bound, what in zip(
                (found, *pull(cm.asarray(g))),
                (y, dx, dw, db),
                bounds,
                ("y", "dx", "dw", "db"),
                strict=True,
            ):
                check(one, wanted, bound, dtype, what)


# -------------------- gradients of images, 4 x 4 pixels as one

IMAGES = [  # images, channels, height, width; filters, taps; stride; padding
    ((1, 3, 7, 10), (8, (7, 7)), (2, 2), (3, 3)),
    ((2, 3, 8, 4), (16, (3, 3)), (2, 2), (1, 1)),
    ((1, 1, 9, 8), (8, (3, 3)), (1, 1), (1, 1)),
    ((1, 4, 6, 5), (24, (5, 2)), (2, 1), (0, 1)),
    ((1, 2, 3, 11), (8, (1, 4)), (1, 2), (0, 5)),  # more padding than taps
    (
        (1, 3, 11, 8),
        (8, (4, 4)),
        (4, 4),
        (0, 0),
    ),  # windows side by side, and rows that none of them meets
    ((1, 3, 5, 6), (8, (1, 1)), (2, 2), (0, 0)),  # most pixels meet no tap
]
LARGER_IMAGES = [
    ((3, 3, 224, 224), (64, (7, 7)), (2, 2), (3, 3)),
    ((2, 3, 225, 230), (72, (7, 7)), (2, 2), (3, 3)),
    ((2, 4, 150, 333), (200, (7, 6)), (2, 2), (2, 3)),
    ((2, 3, 64, 80), (72, (3, 3)), (1, 1), (1, 1)),
    ((2, 3, 227, 227), (96, (11, 11)), (4, 4), (2, 2)),
]


def gradient(case, dtype, most=256):
    """(operands, options, expected, largest possible sums) of a gradient of images; of so many
    filters at most."""
    shape, (outputs, taps), stride, padding = case
    outputs = min(outputs, most)
    x, w = numbers(shape, dtype), numbers((outputs, shape[1], *taps), dtype, 1)
    where = {"stride": stride, "padding": padding}
    g = numbers(reference(x, w, **where).shape, dtype, 7)
    options = {
        "stride": stride,
        "padding": (padding[0],) * 2 + (padding[1],) * 2,
        "dilation": (1, 1),
        "groups": 1,
    }
    expected, size = (reference(f(x), f(w), **where, grad=f(g))[1] for f in (np.asarray, np.abs))
    return (g, w), options, expected, size


@pytest.mark.simulator
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("case", IMAGES, ids=str)
def test_folded_gradient_in_the_simulator(case, last):
    """Its own kernels, around the convolution that needs no tensor cores."""
    (g, w), options, expected, size = gradient(case, F16, 2)
    if last:
        g, w = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (g, w))
    grad, weight = layout_of(g), layout_of(w)
    problem = Problem.input_gradient(grad, weight, size=expected.shape[2:], **options)
    plan = dgrad.input_gradient(problem, convolve=direct.forward)
    names = [step.kernel.__name__ for step in plan.steps]
    assert names[0] == "fold_filters" and "unfold_images" in names[2:]
    check(simulate(plan, g, w), expected, size, F16, "folded")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("case", IMAGES + LARGER_IMAGES, ids=str)
def test_folded_gradient_by_name(case, last, dtype):
    needs_tensor_cores()
    arrays, options, expected, size = gradient(case, dtype)
    inputs = [on_gpu(a, last) for a in arrays]
    layouts = [a._layout for a in inputs]
    plan = conv_dispatch.conv2d_input_grad(
        *layouts, **options, size=expected.shape[2:], version="dgrad_space_to_depth"
    )
    assert "conv2d_wgmma" in [step.kernel.__name__ for step in plan.steps]
    run = plan.bind("input", layouts)
    first = run(*inputs)
    check(first, expected, size, dtype, "folded")
    assert first._layout == plan.outputs[0] and first.tobytes() == run(*inputs).tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("case", IMAGES, ids=str)
def test_folded_gradient_by_older_tensor_cores(case):
    arrays, options, expected, size = gradient(case, BF16)
    inputs = [on_gpu(a, True) for a in arrays]
    layouts = [a._layout for a in inputs]
    with assume((8, 0)):
        plan = conv_dispatch.conv2d_input_grad(
            *layouts, **options, size=expected.shape[2:], version="dgrad_space_to_depth"
        )
    assert "conv2d_mma" in [step.kernel.__name__ for step in plan.steps]
    check(plan.bind("input", layouts)(*inputs), expected, size, BF16, "folded")


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("taps", [1, 2, 3, 7, 11])
@pytest.mark.parametrize("before", [0, 1, 3, 12])
def test_taps_of_folded_rows(taps, stride, before):
    """Every row of dx meets all those rows of dy that the definition says, and each at one tap."""
    along = dgrad.axis(taps, stride, before)
    for h in range(40):
        i, a = divmod(h, 4)
        met = {}
        for t in range(along.taps):
            r = along.first + a - t * stride
            if 0 <= r < taps:
                met[r] = i * along.step + t - along.back
        assert met == {
            r: (h + before - r) // stride for r in range(taps) if (h + before - r) % stride == 0
        }


@pytest.mark.parametrize(
    ("shape", "filters", "stride", "dtype", "capability", "chosen"),
    [
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, BF16, (9, 0), "conv2d_wgmma"),
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, F16, (8, 0), "conv2d_mma"),
        ((64, 3, 224, 224), (64, 3, 3, 3), 1, BF16, (9, 0), "conv2d_wgmma"),
        ((64, 3, 224, 224), (64, 3, 11, 11), 4, BF16, (9, 0), "conv2d_wgmma"),
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, BF16, (7, 5), None),
        (
            (64, 3, 224, 224),
            (68, 3, 7, 7),
            2,
            BF16,
            (9, 0),
            None,
        ),  # filters that are no multiple of eight
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, np.dtype("float32"), (9, 0), None),
    ],
)
def test_where_gradients_are_folded(monkeypatch, shape, filters, stride, dtype, capability, chosen):
    monkeypatch.setattr(cudnn, "available", lambda: False)
    grad = Layout.new((shape[0], filters[0], *[(n - 1) // stride + 1 for n in shape[2:]]), dtype, 0)
    with assume(capability):
        plan = conv_dispatch.conv2d_input_grad(
            grad,
            Layout.new(filters, dtype, 0),
            size=shape[2:],
            stride=(stride,) * 2,
            padding=(filters[2] // 2,) * 4,
            dilation=(1, 1),
            groups=1,
        )
    names = [step.kernel.__name__ for step in plan.steps]
    assert (
        (chosen in names and {"fold_filters", "unfold_images"} <= {*names})
        if chosen
        else names == ["conv2d_few_input"]
    )


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize(
    ("images", "filters", "taps", "dtype", "capability", "chosen"),
    [
        (64, 64, 7, BF16, (9, 0), True),
        (64, 64, 7, F16, (9, 0), True),
        (64, 60, 7, BF16, (9, 0), False),
        (64, 64, 7, BF16, (8, 0), False),
        (64, 64, 7, np.dtype("float32"), (9, 0), False),
    ],
)
def test_where_convolutions_are_folded(
    monkeypatch, library, images, filters, taps, dtype, capability, chosen
):
    monkeypatch.setattr(cudnn, "available", lambda: library)
    monkeypatch.setattr(conv_cudnn, "convolution", lambda _: Plan([], []))
    x, w = (
        Layout.new((images, 3, 224, 224), dtype, 0),
        Layout.new((filters, 3, taps, taps), dtype, 0),
    )
    grad = Layout.new((images, filters, 112, 112), dtype, 0)
    where = {"stride": (2, 2), "padding": (taps // 2,) * 4, "dilation": (1, 1), "groups": 1}
    with assume(capability):
        plans = [
            conv_dispatch.conv2d(x, w, **where),
            conv_dispatch.conv2d_weight_grad(grad, x, kernel=(taps, taps), **where),
        ]
    assert [plan.why.split(":")[0].endswith("space_to_depth") for plan in plans] == [chosen] * 2
