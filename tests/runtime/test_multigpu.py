"""Two GPUs: arrays and operations on each, copies between them, their own pools, streams and
handles."""

import numpy as np
import pytest
from threads import together

import cudamath as cm
from cudamath.runtime import cublas, stream

pytestmark = pytest.mark.multigpu

BOTH = ("cuda:0", "cuda:1")


@pytest.fixture(autouse=True)
def back_to_the_first():
    yield
    if cm.cuda.device_count():
        cm.cuda.set_device(0)
        for index in (0, 1):
            cm.cuda.synchronize(index)


@pytest.mark.parametrize("place", BOTH)
def test_operations_on_each(place):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(64, 48)).astype("f4"), rng.normal(size=(48, 32)).astype("f4")
    x, y = cm.asarray(a, device=place), cm.asarray(b, device=place)
    results = {
        "add": (x + 1, a + 1),
        "exp": (cm.exp(x), np.exp(a)),
        "matmul": (x @ y, a @ b),
        "sum": (x.sum(axis=0), a.sum(0)),
        "softmax": (cm.ml.softmax(x), np.exp(a) / np.exp(a).sum(1, keepdims=True)),
        "view": (x[::2, 3:].T, a[::2, 3:].T),
        "where": (cm.where(x > 0, x, 0), np.where(a > 0, a, 0)),
        "take": (cm.take(x, cm.asarray([3, 1], device=place), axis=0), a[[3, 1]]),
    }
    for name, (ours, expected) in results.items():
        assert ours.device == place, name
        np.testing.assert_allclose(ours.to_numpy(), expected, rtol=2e-4, atol=2e-5, err_msg=name)
    assert cm.cuda.current_device() == 0


@pytest.mark.parametrize("place", BOTH)
def test_random_numbers_are_the_same_on_each(place):
    draw = cm.random.default_rng(7).normal(size=1000, dtype="float32", device=place)
    assert draw.device == place
    assert (
        draw.to_numpy().tobytes()
        == cm.random.default_rng(7).normal(size=1000, dtype="float32", device="cpu").tobytes()
    )


@pytest.mark.parametrize("place", BOTH)
def test_gradients_on_each(place):
    g = cm.grad(lambda p: (cm.tanh(p["w"]) ** 2).sum())(
        {"w": cm.asarray(np.linspace(-1, 1, 50), device=place)}
    )
    w = np.linspace(-1, 1, 50)
    assert g["w"].device == place
    np.testing.assert_allclose(
        g["w"].to_numpy(), 2 * np.tanh(w) * (1 - np.tanh(w) ** 2), rtol=1e-12
    )


@pytest.mark.parametrize("shape", [(0,), (), (5,), (1000, 1000), (3, 1 << 20)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_copies_between(shape, dtype):
    host = np.arange(int(np.prod(shape))).reshape(shape) % 100
    x = cm.asarray(host, device="cuda:0").astype(dtype)
    y = x.to("cuda:1")
    assert y.device == "cuda:1" and y.dtype == x.dtype and y.tobytes() == x.tobytes()
    z = (y + y).to("cuda:0")
    assert z.tobytes() == (x + x).tobytes()


def test_copies_of_views_and_order():
    x = cm.asarray(np.arange(10000.0).reshape(100, 100), device="cuda:0")
    for _ in range(
        20
    ):  # each copy sees the addition before it, and the next addition does not disturb the copy
        x = x + 1
        kept = x[::2, ::-1].to("cuda:1")
        x = x * 1.0
    assert (kept.to_numpy() == (np.arange(10000.0).reshape(100, 100) + 20)[::2, ::-1]).all()


def test_gradient_through_a_copy():
    x = cm.asarray(np.arange(5.0), device="cuda:0")
    g = cm.grad(lambda x: (x.to("cuda:1") ** 2).sum())(x)
    assert g.device == "cuda:0" and g.tolist() == [0, 2, 4, 6, 8]


def test_copy_peer_and_peer_access():
    able = cm.cuda.peer_access(0, 1)
    assert isinstance(able, bool) and cm.cuda.peer_access(0, 1) is able
    source, target = cm.arange(1000.0, device="cuda:0"), cm.empty(1000, device="cuda:1")
    assert (
        cm.cuda.copy_peer(target, source) is target and (target.to_numpy() == np.arange(1000)).all()
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: a @ b,
        lambda a, b: cm.concat([a, b]),
        lambda a, b: cm.where(a > 0, a, b),
        lambda a, b: cm.ml.linear(a, b),
        lambda a, b: cm.maximum(b, a),
    ],
)
def test_mixed_devices_are_named(call):
    a, b = cm.ones((4, 4), device="cuda:0"), cm.ones((4, 4), device="cuda:1")
    with pytest.raises(
        cm.cuda.DeviceError, match="arrays are on different devices: cuda:. .* and cuda:. "
    ):
        call(a, b)
    with pytest.raises(cm.cuda.DeviceError, match="arrays are on different devices"):
        a += b
    with pytest.raises(cm.cuda.DeviceError, match="arrays are on different devices"):
        a + cm.ones((4, 4), device="cpu")
    assert (a + a).tolist() == [[2.0] * 4] * 4


def test_pools_are_apart():
    before = [cm.cuda.memory_allocated(i) for i in (0, 1)]
    x = cm.zeros(1 << 20, dtype="uint8", device="cuda:1")
    assert [cm.cuda.memory_allocated(i) - was for i, was in zip((0, 1), before, strict=True)] == [
        0,
        1 << 20,
    ]
    y = x.to("cuda:0")
    assert [cm.cuda.memory_allocated(i) - was for i, was in zip((0, 1), before, strict=True)] == [
        1 << 20
    ] * 2
    del x, y
    assert [cm.cuda.memory_allocated(i) for i in (0, 1)] == before
    cm.cuda.empty_cache(1)


def test_exhaustion_of_one_leaves_the_other():
    with pytest.raises(cm.cuda.OutOfMemoryError, match="cuda:1: cannot allocate 8.00 TiB"):
        cm.empty(1 << 43, dtype="uint8", device="cuda:1")
    for place in BOTH:
        assert cm.ones(3, device=place).tolist() == [1.0] * 3


def test_streams_and_handles_are_apart():
    streams = [cm.cuda.Stream(i) for i in (0, 1)]
    for s in streams:
        with s:
            assert cm.cuda.current_device() == s.device
            x = cm.ones((64, 64), dtype="float32", device=f"cuda:{s.device}")
            assert (x @ x).to_numpy()[0, 0] == 64 and x._owner.stream is s
    assert cm.cuda.current_device() == 0
    if cublas.available():
        handles = [cublas.handle(stream.default_stream(i)) for i in (0, 1)]
        assert handles[0] is not handles[1] and [h.device for h in handles] == [0, 1]
    for place in BOTH:
        x = cm.ones((64, 64), dtype="float32", device=place)
        assert (x @ x).to_numpy()[0, 0] == 64


def test_default_device():
    with cm.device("cuda:1"):
        assert (
            cm.zeros(3).device == "cuda:1"
            and cm.cuda.current_device() == 1
            and cm.cuda.Stream().device == 1
        )
    cm.cuda.set_device(1)
    assert cm.zeros(3).device == "cuda:1"
    cm.cuda.set_device(0)
    assert cm.zeros(3).device == "cuda:0"


def test_threads_one_for_each():
    def work(index):
        cm.cuda.set_device(index)
        for n in range(1, 100):
            x = cm.full((n, n), 2.0, dtype="float32")
            assert x.device == f"cuda:{index}" and float((x @ x).sum()) == 4.0 * n**3

    together(4, lambda i: work(i % 2))


@pytest.mark.parametrize("place", BOTH)
def test_graphs_on_each(place):
    step = cm.cuda.graph(lambda x: cm.exp(x) @ x)
    for turn in range(4):
        x = np.full((8, 8), turn / 10)
        out = step(cm.asarray(x, device=place))
        assert out.device == place
        np.testing.assert_allclose(out.to_numpy(), np.exp(x) @ x, rtol=1e-12)
    with pytest.raises(cm.cuda.DeviceError, match="graph: arrays are on different devices"):
        cm.cuda.graph(lambda x, y: x)(cm.ones(3, device="cuda:0"), cm.ones(3, device="cuda:1"))


def test_index_errors_name_their_device():
    bad = cm.take(cm.arange(5, device="cuda:1"), cm.asarray([9], device="cuda:1"))
    cm.cuda.synchronize(0)  # not this one's
    with pytest.raises(IndexError, match="take: .*cuda:1"):
        bad.to_numpy()


def test_torch_and_cupy_on_the_second():
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("torch sees fewer than two GPUs")
    t = torch.arange(10.0, device="cuda:1")
    x = cm.asarray(t)
    assert (
        x.device == "cuda:1"
        and x.ptr == t.data_ptr()
        and (x * 2).tolist() == [2.0 * i for i in range(10)]
    )
    assert torch.from_dlpack(x + 1).device.index == 1
    assert cm.ones(3, device="cuda:0").tolist() == [1.0] * 3
