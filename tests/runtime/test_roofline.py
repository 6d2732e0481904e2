"""What the profiler says of operations: of every product, convolution, attention and transform, by
whichever kernel."""

import types

import ml_dtypes
import numpy as np
import pytest
from fake_driver import gpu, installed

import cudamath as cm
from cudamath.core.dispatch import steps as dispatch_steps
from cudamath.core.dispatch.arguments import Input, Output, Temp
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Call
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.lib import flop_counts
from cudamath.runtime import cublas, cudnn, device
from cudamath.runtime.roofline import PER_CLOCK, Work, peak
from cudamath.runtime.state import runtime

BF16 = np.dtype(ml_dtypes.bfloat16)
pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator has no tensor cores")


@pytest.fixture(params=[(8, 0), (9, 0)], ids=str)
def profiled(request, monkeypatch):
    """Calls on a fake device of each kind, in kernels of ours, which do nothing there; what the
    profiler says of them."""
    with (
        installed(monkeypatch, limit=1 << 34) as fake,
        device.assume(request.param),
        cm.device("cuda:0"),
    ):
        runtime.compiler = lambda kernel, *rest: fake.compiler(lambda *_: None, *rest)
        monkeypatch.setattr(fake, "cuLaunchKernel", lambda *_: (0,))
        monkeypatch.setattr(cudnn, "available", lambda: False)
        monkeypatch.setattr(cublas, "available", lambda: False)
        yield operations


def operations(call, *shapes, dtype=np.float32):
    """The sum over what ran, kernel by kernel, of one call."""
    arrays = [cm.zeros(shape, dtype) for shape in shapes]
    with cm.cuda.profile() as p:
        call(*arrays)
    known = {row["name"]: row["operations"] for row in p.stats() if row["operations"]}
    assert known, [row["name"] for row in p.stats()]
    return sum(known.values())


def gradients(call, count):
    """The gradients of the sum of what `call` returns."""
    return lambda *xs: cm.grad(lambda *xs: call(*xs).sum(), tuple(range(count)))(*xs)


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=str)
def test_products(profiled, dtype):
    assert profiled(cm.matmul, (64, 128), (128, 32), dtype=dtype) == 2 * 64 * 128 * 32
    assert (
        profiled(cm.matmul, (3, 1, 64, 128), (5, 128, 32), dtype=dtype) == 3 * 5 * 2 * 64 * 128 * 32
    )
    assert profiled(cm.matmul, (128,), (128, 32), dtype=dtype) == 2 * 128 * 32
    both = gradients(cm.matmul, 2)
    assert (
        profiled(both, (64, 128), (128, 32), dtype=dtype)
        == 2 * 2 * 64 * 128 * 32 + 2 * 64 * 128 * 32
    )
    assert profiled(cm.ml.linear, (4, 16, 128), (64, 128), (64,), dtype=dtype) == 2 * 64 * 128 * 64
    ends = np.array([16, 64])
    grouped = gradients(lambda x, w: cm.ml.grouped_matmul(x, w, ends), 2)
    assert profiled(grouped, (64, 128), (2, 128, 32), dtype=dtype) == 3 * 2 * 64 * 128 * 32
    mlp = lambda x, a, b: cm.ml.mlp(x, a, None, b, None)  # noqa: E731
    assert profiled(mlp, (64, 128), (256, 128), (64, 256), dtype=dtype) == 2 * 64 * 256 * (128 + 64)


def test_complex_products(profiled):
    assert profiled(cm.matmul, (64, 128), (128, 32), dtype=np.complex64) == 8 * 64 * 128 * 32


@pytest.mark.parametrize(
    "form, options", [("int8", {"axis": 0}), ("int4", {"group": 64}), ("float8_e4m3", {})]
)
def test_quantized_products(profiled, form, options):
    packed = cm.ml.quantize(cm.zeros((64, 128), BF16), form, **options)
    for rows in (1, 64):
        assert (
            profiled(lambda x: cm.ml.linear(x, packed), (rows, 128), dtype=BF16)
            == 2 * rows * 128 * 64
        )
        if form != "int4":
            assert (
                profiled(lambda x: cm.ml.linear_quantized(x, packed), (rows, 128), dtype=BF16)
                == 2 * rows * 128 * 64
            )


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=str)
@pytest.mark.parametrize(
    "x, w, more",
    [
        ((2, 64, 14, 14), (64, 64, 3, 3), {"padding": 1}),
        ((2, 64, 14, 14), (32, 64, 1, 1), {}),
        ((2, 3, 15, 13), (16, 3, 5, 3), {"dilation": 2}),
        ((2, 64, 14, 14), (64, 1, 3, 3), {"groups": 64, "padding": 1}),
        ((2, 8, 20), (16, 8, 3), {}),
        ((2, 4, 5, 6, 7), (8, 4, 3, 3, 3), {"stride": 2}),
        ((2, 64, 8, 14, 14), (64, 64, 3, 3, 3), {"padding": (0, 1, 1)}),
    ],
)
def test_convolutions(profiled, dtype, x, w, more):
    function = {3: cm.ml.conv1d, 4: cm.ml.conv2d, 5: cm.ml.conv3d}[len(x)]
    call = lambda x, w: function(x, w, **more)  # noqa: E731
    with cm.device("cpu"):
        places = call(cm.zeros(x), cm.zeros(w)).shape
    once = 2 * int(np.prod(places)) * int(np.prod(w[1:]))
    assert profiled(call, x, w, dtype=dtype) == once
    assert profiled(gradients(call, 2), x, w, dtype=dtype) == 3 * once


def test_strided_input_gradient(profiled):
    """One launch for each phase of the stride: together they do what the mathematics asks for."""
    once = 2 * 2 * 32 * 7 * 7 * 64 * 9
    assert (
        profiled(
            lambda x: cm.ml.conv_transpose2d(
                x, cm.zeros((32, 64, 3, 3), BF16), stride=2, padding=1, output_padding=1
            ),
            (2, 32, 7, 7),
            dtype=BF16,
        )
        == once
    )


@pytest.mark.parametrize("dtype, width", [(np.float32, 16), (BF16, 64), (BF16, 256)], ids=str)
@pytest.mark.parametrize(
    "queries, keys, causal", [(80, 80, False), (80, 80, True), (48, 96, True), (96, 48, True)]
)
def test_attention(profiled, dtype, width, queries, keys, causal):
    allowed = np.tri(queries, keys, keys - queries).sum() if causal else queries * keys
    call = lambda q, k, v: cm.ml.scaled_dot_product_attention(q, k, v, causal=causal)  # noqa: E731
    shapes = [(2, 4, queries, width), (2, 2, keys, width), (2, 2, keys, width)]
    once = 2 * 2 * 4 * allowed * width  # of one product
    assert profiled(call, *shapes, dtype=dtype) == 2 * once
    backward = profiled(gradients(call, 3), *shapes, dtype=dtype) - 2 * once
    assert backward / once in (
        5,
        7,
        8,
    )  # in one kernel; one for queries and one for keys; these twice


def test_self_attention(profiled):
    call = lambda x: cm.ml.self_attention(x, 4, causal=True)  # noqa: E731
    once = 2 * 2 * 4 * (80 * 81 // 2) * 64
    assert profiled(call, (2, 80, 3 * 256), dtype=BF16) == 2 * once
    assert profiled(gradients(call, 1), (2, 80, 3 * 256), dtype=BF16) / once in (7, 9)


def test_the_counts_are_torchs(profiled):
    """PyTorch counts products, convolutions and their gradients too."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    F = torch.nn.functional

    def theirs(call, *shapes):
        xs = [torch.zeros(shape, requires_grad=True) for shape in shapes]
        with FlopCounterMode(display=False) as counter:
            torch.autograd.grad(call(*xs).sum(), xs)
        return counter.get_total_flops()

    for ours, other, shapes in (
        (cm.matmul, torch.matmul, ((5, 6, 7), (5, 7, 8))),
        (cm.ml.linear, F.linear, ((6, 7), (8, 7))),
        (cm.ml.conv2d, F.conv2d, ((2, 3, 9, 8), (4, 3, 3, 2))),
    ):
        assert profiled(gradients(ours, len(shapes)), *shapes) == theirs(other, *shapes)


def layouts(*shapes, dtype=np.float32):
    return [Layout.new(shape, np.dtype(dtype), 0) for shape in shapes]


def test_what_is_not_known():
    """Lengths lie on the device; elementwise work is not counted; two kernels that share a
    product."""
    q, y = layouts((1, 2, 8, 4), (1, 2, 8, 4))
    (lengths,) = layouts((1,), dtype=np.int32)
    plan = Plan([y], [Call(lambda *_: None, [Input(0), Output(0)])])
    params = {"causal": False, "scale": 1.0}
    for rest in ((None, None, lengths), (None, lengths)):
        assert (
            flop_counts.of("scaled_dot_product_attention", plan, (q, q, q, *rest), params)[
                0
            ].operations
            is None
        )
    assert flop_counts.of("exp", plan, (q,), {})[0].operations is None
    first, second = (
        dispatch_steps.Launch(types.SimpleNamespace(__name__=name), 1, 1, [])
        for name in ("conv2d_a", "conv2d_b")
    )
    assert flop_counts._shared([first, second], [8.0]) == [None, None] and flop_counts._shared(
        [first, first], [8.0]
    ) == [4, 4]
    assert flop_counts._shared([first, second], [8.0, 2.0]) == [8, 2]
    assert (
        flop_counts.of("matmul", Plan(layouts((0, 3)), []), tuple(layouts((0, 4), (4, 3))), {})
        == []
    )


def test_library_calls():
    """Bytes: each array once, without workspace and repetitions. Transforms: 5 N log2 N operations,
    half of it for reals."""
    a, b, y, wide, space = (
        *layouts((4, 8), (8, 2), (4, 2), (4, 8)),
        Layout.new((99,), np.dtype(np.uint8), 0),
    )
    plan = Plan(
        [y],
        [Call(lambda *_: None, [Input(0), Input(1), Input(0), Output(0), Temp(0), Temp(1), 3])],
        [wide, space],
    )
    assert flop_counts.of("matmul", plan, (a, b), {}) == [
        Work(2 * 4 * 8 * 2, "float32", 4 * (32 + 16 + 8 + 32))
    ]
    row = Call(lambda *_: None, [Input(0).view((5, 4, 8), (0, 32, 4))])
    assert flop_counts.of("exp", Plan([y], [row]), (a,), {}) == [Work(nbytes=128)]
    x, z = layouts((16, 64), (16, 64), dtype=np.complex64)
    transform = Call(lambda *_: None, [Input(0), Output(0)])
    (found,) = flop_counts.of(
        "fft_c2c", Plan([z], [transform]), (x,), {"axes": (0, 1), "inverse": False, "scale": 1.0}
    )
    assert found == Work(5 * 1024 * 10, "float32", 2 * 8 * 1024)
    (real,), (half,) = layouts((16, 64)), layouts((16, 33), dtype=np.complex64)
    for name, source, target in (("fft_r2c", real, half), ("fft_c2r", half, real)):
        (found,) = flop_counts.of(
            name, Plan([target], [transform]), (source,), {"axes": (1,), "scale": 1.0}
        )
        assert found.operations == 2.5 * 1024 * 6


@pytest.mark.parametrize(
    "dtype, params, unit",
    [
        (np.float32, {}, "float32"),
        (np.float32, {"tf32": True}, "tf32"),
        (np.float64, {"tf32": True}, "float64"),
        (np.float16, {}, "float16"),
        (BF16, {}, "bfloat16"),
        (np.complex64, {}, "float32"),
        (np.complex128, {}, "float64"),
        (np.int8, {}, "int8"),
        (cm.float8_e4m3, {}, "float8"),
        (cm.float8_e5m2, {}, "float8"),
        (BF16, {"form": "int8"}, "int8"),
        (BF16, {"form": "float8_e4m3fn"}, "float8"),
        (BF16, {"form": "int4", "group": 64}, "bfloat16"),
    ],
)
def test_units(dtype, params, unit):
    assert flop_counts._unit(np.dtype(dtype), params) == unit and all(
        unit in rates for rates in PER_CLOCK.values()
    )


def test_peak(fake, monkeypatch):
    about = device.info(0)
    assert (
        about.capability == (9, 0)
        and peak(0, "bfloat16") == about.multiprocessors * about.clock * 4096
    )
    assert peak(0, "int32") == 0  # nobody knows
    monkeypatch.setattr(
        device, "info", lambda index: device.DeviceInfo(0, "", (8, 7), 0, 10, 0, 0, 0.0, 1e9)
    )
    assert peak(0, "float16") == 10e9 * 1024  # as 8.6
    monkeypatch.setattr(
        device, "info", lambda index: device.DeviceInfo(0, "", (7, 0), 0, 10, 0, 0, 0.0, 1e9)
    )
    assert peak(0, "float16") == 0


def test_rates(fake, monkeypatch):
    """What the table, the rows and the trace make of the operations of a launch and of a library
    call."""
    x = gpu(np.zeros((4, 8)))
    plan = Plan(
        [],
        [
            dispatch_steps.Launch(lambda *_: None, 1, 32, [Input(0)]),
            Call(lambda *_: None, [Input(0)]),
        ],
    )
    plan.works = [Work(1e6, "float32"), Work(3e6, "int32", 128)]
    run = plan.bind("product", [x._layout])
    with cm.cuda.profile() as p:
        run(x)
        run(x)
    launch, call = sorted(p.stats(), key=lambda row: row["kind"])
    assert launch["operations"] == 2e6 and call["operations"] == 6e6 and call["nbytes"] == 256
    for row in (launch, call):
        assert row["tflop_per_s"] == pytest.approx(row["operations"] / row["total_us"] / 1e6)
        assert row["of_bandwidth"] == pytest.approx(
            row["gb_per_s"] * 1e9 / device.info(0).memory_bandwidth
        )
    assert launch["of_arithmetic"] == pytest.approx(
        launch["tflop_per_s"] * 1e12 / peak(0, "float32")
    )
    assert launch["of_peak"] == max(launch["of_arithmetic"], launch["of_bandwidth"])
    assert (
        call["of_arithmetic"] is None and call["of_peak"] == call["of_bandwidth"]
    )  # the rate is not known
    assert "TFLOP/s" in str(p) and f"{launch['tflop_per_s']:.3g}" in str(p)


@pytest.mark.parametrize(
    "work, known",
    [
        (Work(123.5, "int8"), Work(123.5, "int8", 7)),
        (Work(2.0**60 + 4096, "float64", 99), Work(2.0**60 + 4096, "float64", 7)),
        (Work(5.0, "int32"), Work(5.0, "", 7)),
        (Work(), Work(None, "", 7)),
    ],
)
def test_words(work, known):
    """What of a work goes into an argument block and comes out: its bytes are read from the
    arguments."""
    assert Work.read(*work.words(), 7) == known


@pytest.mark.gpu
@pytest.mark.parametrize(
    "call, shapes, dtype, expected",
    [
        (cm.matmul, [(2048, 1024), (1024, 512)], "float32", 2 * 2048 * 1024 * 512),
        (cm.matmul, [(2048, 1024), (1024, 512)], "bfloat16", 2 * 2048 * 1024 * 512),
        (
            lambda x, w: cm.ml.conv2d(x, w, padding=1),
            [(8, 64, 56, 56), (64, 64, 3, 3)],
            "float16",
            2 * 8 * 64 * 56 * 56 * 64 * 9,
        ),
        (
            cm.ml.scaled_dot_product_attention,
            [(2, 8, 512, 64)] * 3,
            "bfloat16",
            4 * 2 * 8 * 512 * 512 * 64,
        ),
        (cm.fft.fft, [(64, 1024)], "complex64", 5 * 64 * 1024 * 10),
    ],
)
def test_operations_on_a_gpu(call, shapes, dtype, expected):
    arrays = [cm.ones(shape, dtype=dtype, device="cuda") for shape in shapes]
    call(*arrays)
    with cm.cuda.profile() as p:
        for _ in range(3):
            call(*arrays)
    rows = [row for row in p.stats() if row["operations"]]
    assert sum(row["operations"] for row in rows) == 3 * expected
    for row in rows:
        assert 0 < row["of_arithmetic"] < 1.1 and 0 < row["tflop_per_s"]
