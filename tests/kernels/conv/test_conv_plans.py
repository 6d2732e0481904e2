"""Where convolutions run, and on which of cuDNN's plans: decided from layouts, without a GPU;
stand-ins for the library."""

import re
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import MagicMock

import ml_dtypes
import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.conv import cudnn as conv_cudnn
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv import work
from cudamath.kernels.conv.geometry import Walk
from cudamath.kernels.conv.implicit_gemm import Product
from cudamath.kernels.conv.problem import ROLES, Problem
from cudamath.kernels.conv.tiles_sm90 import possible
from cudamath.kernels.copy import channels_last
from cudamath.kernels.lib.versions import ordered
from cudamath.runtime import cublas, cudnn
from cudamath.runtime.device import assume
from cudamath.testing import layout_of

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32 = np.dtype(np.float16), np.dtype(np.float32)
TABLES = {
    "forward": conv_dispatch.FORWARD,
    "input": conv_dispatch.INPUT_GRADIENT,
    "weight": conv_dispatch.WEIGHT_GRADIENT,
}


def problem_of(kind, out, first, second, stride=(1, 1), groups=1, **where):
    """A problem of these layouts: of the result and of the operands."""
    arrays = dict(zip(ROLES[kind], (first, second, out), strict=True))
    return Problem(kind, **arrays, stride=stride, groups=groups, **where)


def order(*arguments, **where):
    """The methods that are tried, first to last: names of versions without their direction."""
    problem = problem_of(*arguments, **where)
    names = [v.name for v in ordered(TABLES[problem.kind], problem)]
    return [re.sub("^[fdw](prop|grad)_", "", name) for name in names]


@pytest.mark.parametrize(
    ("dtype", "capability", "channels", "expected"),
    [
        (BF16, (9, 0), 64, ["conv2d_wgmma"]),
        (F16, (9, 0), 24, ["conv2d_wgmma"]),
        (BF16, (8, 0), 64, ["conv2d_mma"]),
        (BF16, (12, 0), 64, ["conv2d_mma"]),
        (BF16, (7, 5), 64, ["pack_weights", "conv2d_implicit_gemm"]),
        (F32, (9, 0), 64, ["pack_weights", "conv2d_implicit_gemm"]),
        (
            BF16,
            (9, 0),
            3,
            ["pack_weights", "conv2d_implicit_gemm"],
        ),  # rows of 6 bytes: neither TMA nor 16-byte copies
    ],
)
def test_versions_without_cudnn(monkeypatch, dtype, capability, channels, expected):
    """What runs where: 16-bit numbers of whole pieces of channels on tensor cores, as far as the
    device has them."""
    if lazy_numba.SIMULATOR:
        pytest.skip("the simulator has no tensor cores")
    monkeypatch.setattr(cudnn, "available", lambda: False)
    last = lambda *shape: channels_last.as_channels_last(layout_of(np.zeros(shape, dtype)))  # noqa: E731
    where = dict(stride=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), groups=1)
    with assume(capability):
        plan = conv_dispatch.conv2d(last(32, channels, 29, 29), last(64, channels, 3, 3), **where)
        assert [step.kernel.__name__ for step in plan.steps] == expected
        turned = conv_dispatch.conv2d(
            layout_of(np.zeros((32, channels, 29, 29), dtype)), last(64, channels, 3, 3), **where
        )
        assert len(turned.steps) == len(expected) + 2 * ("mma" in expected[0])  # x there, y back
        assert turned.outputs[0].contiguous and plan.outputs[0].strides[1] == dtype.itemsize


def test_the_smallest_are_one_launch():
    """Forward and backward, where a result has few terms and there are few results, in any dtype;
    with a stride and a bias."""
    for dtype in (F32, F16, BF16):
        x, w, dy, b = (
            Layout.new(shape, np.dtype(dtype), 0)
            for shape in ((4, 8, 8, 8), (8, 8, 3, 3), (4, 8, 6, 6), (8,))
        )
        where = dict(stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1)
        with assume((9, 0)):
            plans = [
                conv_dispatch.conv2d(x, w, b, **where),
                conv_dispatch.conv2d_input_grad(dy, w, b, size=(8, 8), **where),
                conv_dispatch.conv2d_input_grad(
                    x, w, b, size=(17, 17), **{**where, "stride": (2, 2)}
                ),
                conv_dispatch.conv2d_weight_grad(dy, x, kernel=(3, 3), **where),
            ]
        assert [[step.kernel.__name__ for step in plan.steps] for plan in plans] == [
            ["conv2d_direct"],
            ["conv2d_input_direct"],
            ["conv2d_input_direct"],
            ["conv2d_weight_direct"],
        ]


def test_strided_input_gradients_are_one_launch_where_others_are_several(monkeypatch):
    """Little work takes one launch of the direct kernel, more takes the products of residues."""
    monkeypatch.setattr(cudnn, "available", lambda: False)
    where = dict(stride=(2, 2), padding=(0,) * 4, dilation=(1, 1), groups=1)
    for shape, direct in (((1, 32, 8, 8), True), ((16, 32, 16, 16), False)):
        grad, w = (Layout.new(each, F32, 0) for each in (shape, (32, 32, 3, 3)))
        with assume((9, 0)):
            plan = conv_dispatch.conv2d_input_grad(
                grad, w, size=tuple(2 * n + 1 for n in shape[2:]), **where
            )
        assert (len(plan.steps) == 1) == direct


@pytest.mark.parametrize(
    ("kind", "out", "first", "second", "stride", "groups", "ours"),
    [
        ("forward", (64, 64, 56, 56), (64, 64, 56, 56), (64, 64, 3, 3), 1, 1, False),
        ("forward", (128, 48, 31, 31), (128, 1, 64, 64), (48, 1, 4, 4), 2, 1, True),
        ("forward", (4, 8, 8, 8), (4, 8, 8, 8), (8, 8, 3, 3), 1, 1, True),
        ("forward", (8, 64, 8, 8), (8, 32, 16, 16), (64, 32, 3, 3), 2, 1, False),
        ("input", (4, 8, 8, 8), (4, 8, 8, 8), (8, 8, 3, 3), 1, 1, True),
        ("input", (8, 32, 33, 33), (8, 32, 16, 16), (32, 32, 3, 3), 2, 1, False),
        ("input", (8, 4, 65, 65), (8, 32, 32, 32), (32, 4, 3, 3), 2, 1, True),
        ("weight", (8, 8, 3, 3), (4, 8, 8, 8), (4, 8, 8, 8), 1, 1, True),
        ("weight", (64, 64, 3, 3), (64, 64, 28, 28), (64, 64, 56, 56), 2, 1, True),
        ("weight", (256, 8, 3, 3), (64, 256, 56, 56), (64, 256, 56, 56), 1, 32, True),
        ("weight", (128, 1, 3, 3), (64, 128, 56, 56), (64, 128, 56, 56), 1, 128, True),
        ("forward", (64, 256, 56, 56), (64, 256, 56, 56), (256, 8, 3, 3), 1, 32, True),
    ],
)
def test_where_float32_goes_to_the_library(
    monkeypatch, kind, out, first, second, stride, groups, ours
):
    """As measured on an H200: not where work is little, channels are few or groups many."""
    monkeypatch.setattr(cudnn, "available", lambda: True)
    layouts = [Layout.new(shape, F32, 0) for shape in (out, first, second)]
    with assume((9, 0), memory_bandwidth=4.8e12):
        first_of_all = order(kind, *layouts, (stride, stride), groups)[0]
        assert (first_of_all not in ("cudnn", "cudnn_fourier")) == ours, first_of_all
        monkeypatch.setattr(cudnn, "available", lambda: False)
        assert not {"cudnn", "cudnn_fourier"} & {*order(kind, *layouts, (stride, stride), groups)}


@pytest.mark.parametrize(
    ("grad", "weight", "stride", "first"),
    [
        ((64, 512, 28, 28), (512, 64, 3, 3), 1, "sm90_shared_taps"),
        ((64, 512, 28, 28), (512, 64, 3, 3), 2, "sm90_shared_taps"),
        ((64, 64, 56, 56), (64, 64, 3, 3), 1, "sm90_shared_taps"),  # all rows of taps together
        ((64, 512, 7, 7), (512, 512, 3, 3), 1, "sm90_shared_taps"),
    ],
)
def test_where_weight_gradients_of_16_bits_run(monkeypatch, grad, weight, stride, first):
    monkeypatch.setattr(cudnn, "available", lambda: True)
    images = (grad[0], weight[1], *[n * stride for n in grad[2:]])
    layouts = [
        channels_last.as_channels_last(Layout.new(shape, BF16, 0))
        for shape in (weight, grad, images)
    ]
    with assume((9, 0), memory_bandwidth=4.8e12):
        assert order("weight", *layouts, (stride, stride))[0] == first


@pytest.mark.parametrize(
    ("x", "weight", "forward", "input"),
    [
        ((32, 64, 128, 128), (128, 64, 3, 3), "conv2d_wgmma_kept", "conv2d_wgmma_kept"),
        ((64, 128, 56, 56), (128, 128, 3, 3), "conv2d_wgmma", "conv2d_wgmma"),  # filters of 288 KiB
        ((32, 64, 128, 128), (64, 64, 5, 5), "conv2d_wgmma", "conv2d_wgmma"),
        ((1, 64, 28, 28), (64, 64, 3, 3), "conv2d_wgmma", "conv2d_wgmma"),  # too few tiles
        (
            (32, 64, 128, 128),
            (72, 64, 3, 3),
            "conv2d_wgmma_kept",
            "conv2d_wgmma",
        ),  # no whole steps of channels
    ],
)
def test_where_filters_stay_in_shared_memory(monkeypatch, x, weight, forward, input):
    monkeypatch.setattr(cudnn, "available", lambda: False)
    shapes = x, weight, (x[0], weight[0], *x[2:])
    images, filters, grad = (
        channels_last.as_channels_last(Layout.new(shape, BF16, 0)) for shape in shapes
    )
    margin = weight[2] // 2
    where = dict(stride=(1, 1), padding=(margin,) * 4, dilation=(1, 1), groups=1)
    with assume((9, 0)):
        plans = (
            conv_dispatch.conv2d(images, filters, **where),
            conv_dispatch.conv2d_input_grad(grad, filters, size=x[2:], **where),
        )
    assert [plan.steps[0].kernel.__name__ for plan in plans] == [forward, input]


def test_where_depthwise_convolutions_of_images_channels_last_run(monkeypatch):
    """Beside the library, whose forward ones take less time at this size on an H200 than ours did,
    and twenty times as long at others."""
    monkeypatch.setattr(cudnn, "available", lambda: True)
    for dtype, kind, expected in (
        (BF16, "forward", "depthwise_nhwc"),
        (BF16, "input", "depthwise_nhwc"),
        (BF16, "weight", "depthwise_nhwc"),
    ):
        x, w = (
            channels_last.as_channels_last(Layout.new(shape, dtype, 0))
            for shape in ((64, 128, 56, 56), (128, 1, 3, 3))
        )
        layouts = {"forward": (x, x, w), "input": (x, x, w), "weight": (w, x, x)}[kind]
        with assume((9, 0), memory_bandwidth=4.8e12):
            found = order(kind, *layouts, (1, 1), 128, padding=(1,) * 4)
            measured = ("cudnn", "depthwise_nhwc", "depthwise_nchw")
            assert next(name for name in found if name in measured) == expected


@pytest.mark.parametrize("kind", ["forward", "input", "weight"])
def test_what_was_measured_of_float32_decides(monkeypatch, tmp_path, kind):
    """Also which of the library's plans is taken."""
    from cudamath.core.dispatch import autotune

    monkeypatch.setenv("CUDAMATH_TUNE_CACHE", str(tmp_path / "tune.json"))
    monkeypatch.setattr(cudnn, "available", lambda: True)
    asked = []
    monkeypatch.setattr(cudnn, "convolution", lambda *_, plan, **__: asked.append(plan))
    x, w, y = (
        Layout.new(shape, F32, 0) for shape in ((64, 8, 9, 9), (16, 8, 3, 3), (64, 16, 9, 9))
    )
    layouts = {"forward": (y, x, w), "input": (x, y, w), "weight": (w, y, x)}[kind]
    where = dict(padding=(1, 1, 1, 1))
    for times, expected, plan in (
        ({"cudnn a": 2.0, "cudnn b": 1.0, "simt": 3.0}, "cudnn", "b"),
        ({"cudnn": 2.0, "simt": 1.0}, "simt", ""),
        ({"cudnn": 2.0}, "cudnn", ""),
    ):
        autotune.save("assumed", "conv2d", f"float32 {kind} 3x3 stride 1x1", (64, 8, 81, 16), times)
        with assume((9, 0)):
            assert order(kind, *layouts)[0] == expected
            assert problem_of(kind, *layouts, dilation=(2, 2)).measurement is None
            assert conv_cudnn.convolution(problem_of(kind, *layouts, **where)) is None
            assert asked.pop() == plan
            assert conv_cudnn.convolution(problem_of(kind, *layouts, **where, tf32=True)) is None
            assert asked.pop() == ""
            last = [channels_last.as_channels_last(layout) for layout in layouts]
            assert conv_cudnn.convolution(problem_of(kind, *last, **where)) is None
            assert asked.pop() == ""


def test_what_was_measured_of_16_bit_numbers_decides(monkeypatch, tmp_path):
    """Of images channels last."""
    from cudamath.core.dispatch import autotune

    monkeypatch.setenv("CUDAMATH_TUNE_CACHE", str(tmp_path / "tune.json"))
    monkeypatch.setattr(cudnn, "available", lambda: True)
    asked = []
    monkeypatch.setattr(cudnn, "convolution", lambda *_, plan, **__: asked.append(plan))
    straight = [
        Layout.new(shape, BF16, 0) for shape in ((16, 8, 3, 3), (64, 16, 9, 9), (64, 8, 9, 9))
    ]
    layouts = [channels_last.as_channels_last(layout) for layout in straight]
    for times, expected, plan in (
        ({"cudnn a": 2.0, "cudnn b": 1.0, "sm90": 3.0}, "cudnn", "b"),
        ({"cudnn a": 2.0, "sm90": 1.0}, "sm90_shared_taps", ""),
    ):
        autotune.save("assumed", "conv2d", "bfloat16 weight 3x3 stride 1x1", (64, 8, 81, 16), times)
        with assume((9, 0)):
            assert order("weight", *layouts)[0] == expected
            assert problem_of("weight", *straight).measurement is None
            assert (
                conv_cudnn.convolution(problem_of("weight", *layouts, padding=(1,) * 4)) is None
                and asked.pop() == plan
            )


def test_what_was_measured_of_one_tap_decides(monkeypatch, tmp_path):
    """The kind of product, its tile, and no split of the sum where a bias follows."""
    from cudamath.core.dispatch import autotune

    if lazy_numba.SIMULATOR:
        pytest.skip("the simulator has no tensor cores")
    monkeypatch.setenv("CUDAMATH_TUNE_CACHE", str(tmp_path / "tune.json"))
    monkeypatch.setattr(cudnn, "available", lambda: True)
    asked = []
    monkeypatch.setattr(cudnn, "convolution", lambda *_, plan, **__: asked.append(plan))
    shapes = (32, 256, 9, 9), (32, 192, 9, 9), (256, 192, 1, 1)
    y, x, w = (channels_last.as_channels_last(Layout.new(shape, BF16, 0)) for shape in shapes)
    where = dict(stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1))
    with assume((9, 0)):
        times = {
            "cudnn a": 4.0,
            "pointwise_cublas": 3.0,
            "pointwise_matmul 64x256 pingpong": 2.0,
            "pointwise_matmul 64x64 split 2": 1.0,
            "sm90": 5.0,
        }
        autotune.save(
            "assumed", "conv2d", "bfloat16 forward 1x1 stride 1x1", (32, 192, 81, 256), times
        )
        assert order("forward", y, x, w)[0] == "pointwise_matmul"
        assert conv_cudnn.convolution(problem_of("forward", y, x, w)) is None and asked.pop() == ""
        plan = conv_dispatch.conv2d(x, w, **where, groups=1)
        assert [step.kernel.__name__ for step in plan.steps] == ["matmul_wgmma", "add_splits_early"]
        assert "pointwise_matmul" in plan.why
        with_bias = conv_dispatch.conv2d(x, w, Layout.new((256,), BF16, 0), **where, groups=1)
        assert [step.kernel.__name__ for step in with_bias.steps] == ["matmul_wgmma"]
        autotune.save(
            "assumed",
            "conv2d",
            "bfloat16 forward 1x1 stride 1x1",
            (32, 192, 81, 256),
            {**times, "pointwise_cublas": 0.5},
        )
        assert "pointwise_cublas" not in order("forward", y, x, w)  # cuBLAS is not there
        monkeypatch.setattr(cublas, "available", lambda: True)
        assert order("forward", y, x, w)[0] == "pointwise_cublas"


@pytest.fixture
def offers(monkeypatch):
    """offers(*names): the graph of a stand-in for cuDNN's front end, with plans of these names. The
    plans that were built: `built(graph)`."""
    module = MagicMock(cudnnGraphNotSupportedError=LookupError)
    monkeypatch.setattr(cudnn, "_bindings", lambda: module)
    monkeypatch.setattr(cudnn, "handle", lambda stream: SimpleNamespace(raw=0, lock=nullcontext()))
    monkeypatch.setattr(cudnn, "streams", MagicMock())
    monkeypatch.setattr(
        cudnn, "pool_of", lambda device: SimpleNamespace(beside_capture=lambda work: work(None))
    )

    def offer(*names):
        cudnn.convolution.cache_clear()
        graph = module.backend_graph.return_value = MagicMock()
        graph.get_execution_plan_count.return_value = len(names)
        graph.get_workspace_size.return_value = 0
        graph.get_plan_name_at_index.side_effect = names.__getitem__
        return graph

    yield offer
    cudnn.convolution.cache_clear()


def built(graph):
    """The plans that a graph was asked to build since it was asked for this, the last one runs."""
    found = [call.args[0] for call in graph.build_plan_at_index.call_args_list]
    graph.build_plan_at_index.reset_mock()
    return found


@pytest.mark.parametrize("dtype, wide", [("f8", "DOUBLE"), ("f4", "FLOAT"), ("f2", "FLOAT")])
def test_cudnn_adds_up_in_no_less_than_the_dtype(offers, dtype, wide):
    """float64 in float64, the others in float32."""
    offers("a")
    where = dict(stride=(1, 1), before=(0, 0), after=(0, 0), dilation=(1, 1))
    x, w, y = (cudnn.Tensor((2, 2, 1, 1), (2, 1, 1, 1)) for _ in range(3))
    assert cudnn.convolution("forward", np.dtype(dtype), x, w, y, **where) is not None
    module = cudnn._bindings()
    told = module.backend_graph.call_args.kwargs
    for what in ("compute_data_type", "intermediate_data_type"):
        assert told[what] is getattr(module.data_type, wide)


@pytest.mark.parametrize("kind", ["forward", "input", "weight"])
def test_a_plan_of_cudnns_is_taken_by_its_name(offers, kind):
    """Of three plans, of which one cannot be built."""
    graph = offers("a", "b", "c")

    def build(index):
        if index == 1:
            raise RuntimeError("no kernel image")

    graph.build_plan_at_index.side_effect = build
    x, w, y = (
        cudnn.Tensor(shape, dnn_strides)
        for shape, dnn_strides in (
            ((2, 4, 5, 5), (100, 25, 5, 1)),
            ((6, 4, 3, 3), (36, 9, 3, 1)),
            ((2, 6, 5, 5), (150, 25, 5, 1)),
        )
    )
    where = dict(stride=(1, 1), before=(1, 1), after=(1, 1), dilation=(1, 1))
    assert cudnn.plans(kind, F32, x, w, y, **where) == ["a", "c"]
    built(graph)
    for plan, asked in (("c", [2]), ("", [0]), ("gone", [0])):
        for _ in range(2):  # it is made once
            assert cudnn.convolution(kind, F32, x, w, y, **where, plan=plan).graph is graph
        assert built(graph) == asked
    graph.check_support.side_effect = LookupError
    cudnn.convolution.cache_clear()
    assert (
        cudnn.convolution(kind, F32, x, w, y, **where) is None
        and cudnn.plans(kind, F32, x, w, y, **where) == []
    )


def test_a_plan_that_is_predicted_to_be_clearly_faster_is_taken(offers):
    """Of those that can be built. Where nothing is known of the one that the library ranks first,
    this one stands, whatever the others take."""
    names = ("eng9", "eng1_k2=4_k13=1", "eng2_k13=1", "eng2_k13=0", "eng3")
    x, w, y = (cudnn.Tensor(s, (1, 1, 1, 1)) for s in ((2, 4, 5, 5), (6, 4, 3, 3), (2, 6, 5, 5)))
    where = dict(stride=(1, 1), before=(1, 1), after=(1, 1), dilation=(1, 1))
    ranked = {"eng1_k2=4": 100.0, "eng2": 70.0, "eng3": 50.0, "eng4": 10.0}
    for times, refused, asked in (
        (ranked, {0}, [0, 1, 4]),  # eng9 is refused, eng4 is not there
        (ranked, {0, 4}, [0, 1, 4, 2]),
        (ranked, {0, 2, 4}, [0, 1, 4, 2, 1]),  # the first one again
        ({**ranked, "eng2": 99.0, "eng3": 95.0}, {0}, [0, 1]),  # not clearly
        (ranked, {}, [0]),  # nothing is known of eng9
        ({**ranked, "eng9": 200.0}, {}, [0, 4]),
    ):
        graph = offers(*names)

        def build(index, refused=refused):
            if index in refused:
                raise LookupError("excluded")

        graph.build_plan_at_index.side_effect = build
        predicted = (*times.items(),)
        assert cudnn.convolution("forward", F32, x, w, y, **where, predicted=predicted)
        assert built(graph) == asked
    graph.build_plan_at_index.side_effect = LookupError
    cudnn.convolution.cache_clear()
    assert cudnn.convolution("forward", F32, x, w, y, **where, predicted=predicted) is None


def test_a_hidden_transform_of_cudnns_is_refused(offers):
    """Weight gradients of 5 x 5 taps of float32, by the library's engine 17, err by 5e-3: neither a
    rank nor a prediction brings it, and it is not among the plans without transforms."""
    graph = offers("eng17_k25=0", "eng1", "eng67_k2=12", "eng1")
    x, y = (cudnn.Tensor((2, c, 9, 9), (81 * c, 81, 9, 1)) for c in (4, 6))
    where = dict(stride=(1, 1), before=(2, 2), after=(2, 2), dilation=(1, 1))
    times = (("eng17", 1.0), ("eng1", 2.0))
    for taps, own in ((5, [1]), (3, [0])):
        w = cudnn.Tensor((6, 4, taps, taps), (4 * taps**2, taps**2, taps, 1))
        offered = cudnn.plans("weight", F32, x, w, y, **where, transforms=False)
        assert offered == [*(["eng17_k25=0"] * (taps == 3)), "eng1", "eng67_k2=12"]
        assert cudnn.plans("weight", F32, x, w, y, **where)[0] == "eng17_k25=0"  # with an error
        built(graph)
        cudnn.convolution("weight", F32, x, w, y, **where, predicted=times)
        assert built(graph) == own


def test_cudnn_reads_a_bias_in_one_run(monkeypatch):
    """It is told no stride of the bias: one that has any is copied first."""
    from cudamath.core.dispatch.arguments import Input
    from cudamath.core.dispatch.steps import Call

    class Convolution:
        workspace, transformed, __name__ = 16, False, "stand-in"

        def __call__(self, *_):
            raise AssertionError("planned, not called")

    monkeypatch.setattr(cudnn, "convolution", lambda *_, **__: Convolution())
    x, w, y = (layout_of(np.zeros(shape)) for shape in ((2, 4, 5, 5), (6, 4, 3, 3), (2, 6, 3, 3)))
    for bias in (np.zeros(6), np.zeros(6)[::-1], np.zeros(12)[::2]):
        problem = Problem("forward", x, w, y, layout_of(bias))
        with assume((9, 0)):
            plan = conv_cudnn.convolution(problem)
        (call,) = [step for step in plan.steps if isinstance(step, Call)]
        assert (call.args[3] == Input(2)) == (bias.strides == (8,))
        assert plan.layout(call.args[3], [x, w, layout_of(bias)]).strides == (8,)


def test_a_bias_of_volumes_is_added_by_the_library_if_it_can(monkeypatch):
    """One launch, where the library has a plan with a bias; else another one adds it."""
    asked = []

    def stand_in(problem, **_):
        asked.append(problem.bias is not None)
        return None if asked[-1] and refuses else object()

    monkeypatch.setattr(conv_cudnn, "convolution", stand_in)
    monkeypatch.setattr(conv_cudnn, "add_bias", lambda plan, problem: ("added", plan))
    x, w, y = (layout_of(np.zeros((2, n, 3, 3, 3), "f4")) for n in (4, 6, 6))
    problem = Problem("forward", x, w, y, layout_of(np.zeros(6, "f4")))
    refuses = False
    assert not isinstance(conv_cudnn.of_volumes(problem), tuple) and asked == [True]
    refuses = True
    assert conv_cudnn.of_volumes(problem)[0] == "added" and asked == [True, True, False]


@pytest.mark.parametrize("kind", ["forward", "input"])
@pytest.mark.parametrize("size", [(5,), (5, 7), (2, 5, 7)])
def test_the_product_of_filters_of_one_tap_and_images(kind, size):
    """All places of an image are columns: of images along any number of axes."""
    x, y, w = (layout_of(np.zeros(s, "f4")) for s in ((3, 8, *size), (3, 6, *size), (6, 8, *size)))
    w = w.like((6, 8, *[1] * len(size)))
    product = work.image_product(Problem(kind, x, w, y))
    m, k = (6, 8) if kind == "forward" else (8, 6)
    assert product.a.shape == (m, k) and product.b.shape == (3, k, int(np.prod(size)))


def test_what_tma_can_number():
    """Offsets of taps have 8 bits, corners 8 with a sign, steps go up to 8."""

    def product(taps=(3, 3), tap=1, start=0, step=1, of=9):
        walk = Walk(start, step, tap)
        return Product((2, of, of), walk, walk, taps, (0, 0, 0), 0, (0, 0, 0))

    for n, tap, fits in ((3, 127, True), (3, 128, False), (256, 1, True), (257, 1, False)):
        for taps in ((n, 1), (1, n)):
            assert possible(product(taps, tap), (9, 9)) == fits
    for start, fits in ((-128, True), (-129, False)):
        assert possible(product(start=start, of=140), (20, 20)) == fits
    assert possible(product(step=8), (65, 65)) and not possible(product(step=9), (73, 73))


@pytest.mark.parametrize("taps, there", [(2, False), (3, True), (16, True), (17, False)])
def test_fourier_transforms_are_of_3_to_16_taps(monkeypatch, taps, there):
    monkeypatch.setattr(cudnn, "available", lambda: True)
    shapes = (2, 16, 64, 64), (2, 16, 64, 64), (16, 16, taps, taps)
    with assume((9, 0)):
        methods = order("forward", *(Layout.new(shape, F32, 0) for shape in shapes), (1, 1), 1)
    assert ("cudnn_fourier" in methods) == there


def test_distances_beyond_32_bits_reach_the_kernel():
    """Images of 2^33 bytes each: their distance is a number of 64 bits."""
    if lazy_numba.SIMULATOR:
        pytest.skip("the simulator has no tensor cores")
    from cudamath.kernels.conv import fprop_dgrad_sm80

    size = 4096, 4096
    x, w, y = (
        channels_last.as_channels_last(Layout.new(shape, BF16, 0))
        for shape in ((2, 8, *size), (256, 8, 1, 1), (2, 256, *size))
    )
    with assume((8, 0)):
        plan = fprop_dgrad_sm80.forward(Problem("forward", x, w, y))
    (step,) = [s for s in plan.steps if "conv2d_mma" in getattr(s.kernel, "__name__", "")]
    assert 2 * 256 * 4096**2 in [int(n) for n in step.args if isinstance(n, np.int64)]


@pytest.mark.parametrize("image", [(1, 40_000), (40_000, 1)])
def test_sizes_beyond_16_bits_reach_the_weight_gradient(image):
    """Heights, widths and numbers of channels are whole numbers of 32 bits in the kernel."""
    if lazy_numba.SIMULATOR:
        pytest.skip("the simulator has no tensor cores")
    from cudamath.kernels.conv import wgrad_sm80

    for channels, size in ((8, image), (40_000, (2, 3))):
        x, w, y = (
            layout_of(np.broadcast_to(np.zeros((), BF16), shape)).like()
            for shape in ((2, channels, *size), (8, channels, 1, 1), (2, 8, *size))
        )
        with assume((8, 0)):
            plan = wgrad_sm80.weight_gradient(Problem("weight", x, w, y))
        (step,) = [s for s in plan.steps if "weight_mma" in getattr(s.kernel, "__name__", "")]
        numbers = [n for n in step.args if isinstance(n, np.integer)]
        assert {channels, *size} <= {int(n) for n in numbers}
        assert {n.dtype for n in numbers} == {np.dtype(np.int32)}


@pytest.mark.simulator
def test_filters_are_packed_with_zeros_around():
    """Taps and outputs of a group are rounded up; strides are any."""
    from cudamath.kernels.conv import fprop_simt

    w = np.random.default_rng(2).standard_normal((2, 5, 3, 3, 2)).astype(F32)[:, :, ::-1]
    groups, outputs, taps = 2, 5, w[0, 0].size
    packed = np.zeros((groups, 24, 8), F32)
    packed[:, :taps, :outputs] = w.reshape(groups, outputs, taps).transpose(0, 2, 1)
    launch = Launch(fprop_simt.pack_weights(F32), packed.size // 32, 32, [Input(0), Output(0)])
    plan = Plan([Layout.new(packed.shape, F32, 0)], [launch])
    np.testing.assert_array_equal(cm.testing.simulate(plan, w), packed)


def test_without_a_gpu_there_is_no_cudnn():
    if cm.cuda.device_count() == 0:
        assert not cudnn.available()
