"""CUDA graphs of functions, against the fake driver; then on a GPU."""

import gc
import warnings

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.asarray import upload
from cudamath.core.dispatch.arguments import Addresses, Input, Output, Scalar, Temp
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.runtime import memory, stream
from cudamath.runtime.memory import pool_of

N = 4


def gpu(values, index=0):
    return upload(np.asarray(values, np.float64), index)


def op(kernel, inputs, outputs=1, temps=0, scalars=0, extra=(), index=0):
    """An op on arrays of N float64."""
    layout = Layout.new((N,), np.dtype("f8"), index)
    args = [
        *map(Input, range(inputs)),
        *map(Temp, range(temps)),
        *map(Output, range(outputs)),
        *(Scalar(i, "f8") for i in range(scalars)),
        *extra,
    ]
    plan = Plan([layout] * outputs, [Launch(kernel, 1, 32, args)], [layout] * temps)
    return plan.bind(kernel.__name__, [layout] * inputs, scalars, index)


def _add(x, y, out):
    out[...] = x + y


def _double(x, out):
    out[...] = 2 * x


def _increase(x, y):
    x += y


def _square(x, scratch, out):
    scratch[...] = x
    out[...] = scratch * x


@pytest.fixture
def ops(fake):
    class Ops:
        add = staticmethod(op(_add, 2))
        double = staticmethod(op(_double, 1))
        increase = staticmethod(op(_increase, 2, 0))
        square = staticmethod(op(_square, 1, temps=1))

    Ops.fake = fake
    return Ops


def counted(fn):
    """`fn` that counts its Python runs in `.runs`."""

    def wrapper(*args, **kwargs):
        wrapper.runs += 1
        return fn(*args, **kwargs)

    wrapper.runs = 0
    return wrapper


# -------------------- values


def test_replays_give_what_the_function_gives(ops):
    fn = counted(lambda x, y: {"sum": ops.add(ops.square(x), y), "twice": (ops.double(y),)})
    step = cm.cuda.graph(fn)
    y = gpu([1, 2, 3, 4])
    kept = []
    for turn in range(6):
        x = gpu(np.arange(N) + turn)
        out = step(x, y)
        kept.append((out, (np.arange(N) + turn) ** 2 + [1, 2, 3, 4]))
    assert fn.runs <= 3 and step.graphs == 1 and ops.fake.calls["cuGraphLaunch"] >= 4
    for out, expected in kept:  # results are the caller's: later replays leave them alone
        assert out["sum"].tolist() == expected.tolist() and out["twice"][0].tolist() == [2, 4, 6, 8]


def test_one_driver_call_replaces_the_launches(ops):
    x = gpu([1, 2, 3, 4])

    def fn(x):
        for _ in range(10):
            x = ops.double(x)
        return x

    step = cm.cuda.graph(fn)
    step(x)
    step(x)
    launches = ops.fake.calls["cuLaunchKernel"]
    assert step(x).tolist() == [1024 * v for v in (1, 2, 3, 4)]
    assert ops.fake.calls["cuLaunchKernel"] == launches


def test_parameters_are_updated_in_place(ops):
    """The same arrays at each call: used where they are, each update done exactly once."""
    w, state = gpu([0] * N), gpu([0] * N)

    def step(tree, x):
        ops.increase(tree["w"], x)
        ops.increase(tree["state"], tree["w"])
        return tree["w"]

    graphed = cm.cuda.graph(step)
    expected_w = expected_state = 0
    for turn in range(1, 7):
        out = graphed({"w": w, "state": state}, gpu([turn] * N))
        expected_w += turn
        expected_state += expected_w
        assert out is w  # an argument returned is the caller's own
        assert w.tolist() == [expected_w] * N and state.tolist() == [expected_state] * N


def test_an_array_that_moves_is_updated_in_place_too(ops):
    """It is copied in; what the function changed in it is copied back."""
    step = cm.cuda.graph(lambda x: ops.increase(x, one))
    one = gpu([1] * N)
    arrays = [gpu([10 * i] * N) for i in range(3)]
    for turn in range(6):
        step(arrays[turn % 3])
    assert [x.tolist() for x in arrays] == [[10 * i + 2] * N for i in range(3)]
    assert step.graphs == 1


def test_numpy_arrays_are_read_at_each_call(ops):
    host = np.zeros(N)
    step = cm.cuda.graph(lambda x, y: ops.add(x, y))
    y = gpu([1] * N)
    for turn in range(5):
        host[...] = turn
        assert step(host, y).tolist() == [turn + 1] * N
    assert step.graphs == 1


def test_another_structure_layout_or_value_has_a_graph_of_its_own(ops):
    def fn(x, times=1, flags=()):
        for _ in range(times):
            x = ops.double(x)
        return x

    fn = counted(fn)
    step = cm.cuda.graph(fn)
    x = gpu([1] * N)
    for _ in range(3):
        assert step(x).tolist() == [2] * N
        assert step(x, times=3).tolist() == [8] * N
        assert step(x, 2).tolist() == [4] * N
    assert step.graphs == 3 and fn.runs == 6
    step(x, flags=(None, "a"))
    assert fn.runs == 7 and step.graphs == 3
    step.clear()
    assert step.graphs == 0
    with pytest.raises(
        TypeError, match="graph: arguments must be arrays or hashable values, got .*'set'"
    ):
        step(x, flags={1, 2})


def test_kinds_of_arguments_are_forgotten_in_the_end(ops, monkeypatch):
    monkeypatch.setattr("cudamath.cuda.graphs.MOST_GRAPHS", 3)
    step, x = cm.cuda.graph(lambda x, n: ops.double(x)), gpu([1] * N)
    for n in range(6):
        step(x, n)
        step(x, n)
    assert step.graphs == 3


def test_a_value_that_changes_is_never_frozen(ops):
    scale = op(lambda x, out, factor: out.__setitem__(..., x * factor), 1, scalars=1)
    step, x = cm.cuda.graph(lambda x, rate: scale(x, rate)), gpu([1] * N)
    assert [step(x, rate).tolist() for rate in (0.5, 0.25, 0.5, 0.5, 0.125)] == [
        [r] * N for r in (0.5, 0.25, 0.5, 0.5, 0.125)
    ]


def test_numbers_that_always_change_are_named(ops):
    scale = op(lambda x, out, factor: out.__setitem__(..., x * factor), 1, scalars=1)
    step, x = cm.cuda.graph(lambda x, flag, rate: scale(x, rate)), gpu([1] * N)
    with pytest.warns(
        RuntimeWarning,
        match=r"graph: 8 calls in a row .* changes at each \(7, 8\); pass it as a 0-d array",
    ):
        for rate in range(1, 12):
            assert step(x, True, rate).tolist() == [rate] * N
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rate in (1, 1, 2, 2, 20, 21, 22, 23, 24, 25, 1, 26, 27, 28):
            step(x, False, rate)


def test_on_another_stream(ops):
    step = cm.cuda.graph(lambda x: ops.double(ops.square(x)))
    streams = [cm.cuda.Stream() for _ in range(3)]
    results = []
    for turn in range(9):
        with streams[turn % 3] as s:
            x = gpu([turn] * N)
            results.append((step(x), 2 * turn**2, s))
    for out, expected, s in reversed(results):
        s.synchronize()
        with s:
            assert out.tolist() == [expected] * N


def test_on_another_device(ops):
    double, before = op(_double, 1, index=1), cm.cuda.current_device()
    step = cm.cuda.graph(lambda x: double(x))
    for turn in range(4):
        out = step(gpu([turn] * N, 1))
        assert out.device == "cuda:1" and out.tolist() == [2 * turn] * N
    assert cm.cuda.current_device() == before == 0


# -------------------- memory


def test_memory_of_a_graph_is_nobody_elses(ops):
    """Scratch of the graph stays with it when the pool is trimmed and when others allocate."""
    step = cm.cuda.graph(lambda x: ops.add(ops.square(x), ops.double(x)))
    x = gpu([3] * N)
    step(x)
    step(x)
    for _ in range(4):
        cm.cuda.empty_cache()
        noise = [gpu([-1] * N) for _ in range(20)]
        assert step(x).tolist() == [15] * N
        assert all(n.tolist() == [-1] * N for n in noise)


def test_a_capture_borrows_what_the_call_before_freed(ops):
    """So that a function's work holds memory once, not once as it is and once in its graph; what is
    not needed goes back."""
    step = cm.cuda.graph(lambda x: ops.add(ops.square(x), ops.double(x)))
    x = gpu([3] * N)
    step(x)
    idle = [gpu([1] * N) for _ in range(9)]
    del idle
    reserved, free = pool_of(0).reserved, sum(pool_of(0).free_blocks().values())
    assert step(x).tolist() == [15] * N
    assert step.graphs == 1 and pool_of(0).reserved == reserved
    assert not any(s.borrowed or s.lender for s in pool_of(0).streams)
    assert 0 < sum(map(len, stream.default_stream(0).free.values())) < free


def test_memory_that_a_capture_borrowed_can_be_trimmed(ops):
    x, idle = gpu([1] * N), [gpu([1] * N) for _ in range(9)]
    del idle

    def fn(x):
        if stream.current_stream().capturing:
            reserved = pool_of(0).reserved
            pool_of(0).trim()  # as where memory runs out
            assert pool_of(0).reserved < reserved
        return ops.double(x)

    step = cm.cuda.graph(fn)
    assert [step(x).tolist() for _ in range(3)] == [[2] * N] * 3


def test_arrays_that_a_graph_uses_may_die(ops):
    """Weights captured by the closure are dropped by the user: their memory stays with the
    graph."""
    w = gpu([5] * N)
    holder = [w]
    step = cm.cuda.graph(lambda x: ops.add(x, holder[0]))
    x = gpu([1] * N)
    step(x)
    step(x)
    used = pool_of(0).used
    holder.clear()
    del w
    assert pool_of(0).used == used  # still in use, by the graph
    noise = [gpu([-1] * N) for _ in range(20)]
    cm.cuda.empty_cache()
    assert step(x).tolist() == [6] * N
    assert all(n.tolist() == [-1] * N for n in noise)
    del noise
    before = pool_of(0).used
    step.clear()
    assert pool_of(0).used < before


def test_a_graph_gives_everything_back(ops):
    x, y = gpu([1] * N), gpu([2] * N)
    ops.add(x, y).tolist()
    memory.constant(b"so that the pool has its side stream", 0)
    cm.cuda.empty_cache()
    fake = ops.fake
    before = (pool_of(0).used, pool_of(0).reserved, len(fake.blocks), len(fake.streams))
    step = cm.cuda.graph(lambda a, b: ops.add(ops.square(a), b))
    for _ in range(4):
        step(gpu([1] * N), y)
    assert len(fake.executables) == 1 and not fake.graphs
    step.clear()
    gc.collect()
    cm.cuda.empty_cache()
    cm.cuda.synchronize()
    assert (pool_of(0).used, pool_of(0).reserved, len(fake.blocks), len(fake.streams)) == before
    assert not fake.executables and len(fake.events) <= 1


def test_a_running_replay_ends_before_its_memory_goes(ops):
    """Neither the graph's scratch nor the arrays it kept are handed on while a replay is queued."""
    x, w = gpu([1] * N), gpu([5] * N)
    with cm.cuda.capture() as recorded:
        ops.increase(x, ops.add(ops.square(x), w))
    side = cm.cuda.Stream()
    side.wait(cm.cuda.current_stream())
    with side:
        for _ in range(3):
            recorded.replay()
    del w, recorded  # the replays have not run yet
    gc.collect()
    noise = [gpu([-1] * N) for _ in range(10)]
    cm.cuda.current_stream().synchronize()
    with side:
        assert x.tolist() == [((1 + 6) + 49 + 5) + 61**2 + 5] * N
    assert all(n.tolist() == [-1] * N for n in noise)


def test_tables_of_addresses_live_with_the_graph(ops):
    def gather(a, b, out, table):
        assert len(table) == 2
        out[...] = a + b

    layout = Layout.new((N,), np.dtype("f8"), 0)
    run = Plan(
        [layout], [Launch(gather, 1, 32, [Input(0), Input(1), Output(0), Addresses(0, 1)])]
    ).bind("gather", [layout] * 2)
    a, b = gpu([1] * N), gpu([2] * N)
    step = cm.cuda.graph(run)
    for turn in range(4):
        assert step(a, b).tolist() == [3] * N
        for i in range(300):  # every other table is forgotten meanwhile
            memory.address_table((turn, i), stream.current_stream())


def test_host_arrays_inside_are_those_of_the_capture(ops):
    host = np.full(N, 7.0)
    step = cm.cuda.graph(lambda x: ops.add(x, upload(host, 0)))
    x = gpu([1] * N)
    assert step(x).tolist() == step(x).tolist() == [8] * N
    host[...] = 100  # frozen: a replay never reads host memory
    noise = [gpu([-1] * N) for _ in range(5)]
    assert step(x).tolist() == [8] * N and len(noise) == 5


# -------------------- refusals


def refusals(ops):
    x = gpu([1] * N)
    side = cm.cuda.Stream()
    event = cm.cuda.Event().record()
    rng = cm.random.default_rng(0)
    elsewhere, there = op(_double, 1, index=1), gpu([1] * N, 1)
    memory.constant(b"so that the pool has its side stream", 0)
    return {
        "copy to the host": lambda a: a.tolist(),
        "synchronize": lambda a: cm.cuda.synchronize(),
        "with stream": lambda a: side.__enter__(),
        "random.uniform": lambda a: rng.uniform(size=N, device="cpu"),
        "random.default_rng": lambda a: cm.random.default_rng(),
        "Generator.spawn": lambda a: rng.spawn(1),
        "Generator.state": lambda a: rng.state,
        "set_device": lambda a: cm.cuda.set_device(1),
        "graph": lambda a: elsewhere(there),
        "copy between devices": lambda a: memory.copy_peer(
            a.ptr, stream.stream_of(0), x.ptr, stream.stream_of(0), 8
        ),
        "Event.synchronize": lambda a: event.synchronize(),
    }


@pytest.mark.parametrize(
    "name",
    [
        "copy to the host",
        "synchronize",
        "with stream",
        "random.uniform",
        "random.default_rng",
        "Generator.spawn",
        "Generator.state",
        "set_device",
        "graph",
        "copy between devices",
        "Event.synchronize",
    ],
)
def test_what_a_graph_cannot_hold_is_refused(ops, name):
    action = refusals(ops)[name]
    calls = []

    def fn(x):
        calls.append(x)
        out = ops.double(x)
        if len(calls) > 1:
            action(out)
        return out

    step, x = cm.cuda.graph(fn), gpu([1] * N)
    assert step(x).tolist() == [2] * N
    calls[1:] = []
    before = (pool_of(0).used, len(ops.fake.streams))
    at = cm.cuda.current_stream()
    for _ in range(2):  # and again: it is not captured half
        with pytest.raises(RuntimeError, match=f"{name}: cannot be part of a CUDA graph"):
            step(x)
        del calls[1:]
    gc.collect()
    assert cm.cuda.current_stream() is at and not at.capturing
    assert (pool_of(0).used, len(ops.fake.streams)) == before
    assert step.graphs == 0 and not ops.fake.graphs and not ops.fake.executables
    assert ops.double(x).tolist() == [2] * N  # everything works on


def test_a_users_error_leaves_nothing(ops):
    calls = []

    def fn(x):
        calls.append(ops.double(x))
        if len(calls) == 2:
            raise KeyError("mine")
        return calls.pop()

    step, x = cm.cuda.graph(fn), gpu([1] * N)
    step(x)
    calls.append(None)
    with pytest.raises(KeyError, match="mine"):
        step(x)
    calls.clear()
    gc.collect()
    assert (
        not ops.fake.graphs and not ops.fake.executables and len(ops.fake.streams) == 2
    )  # memory was borrowed
    assert step(x).tolist() == [2] * N


def test_another_library_that_breaks_the_capture_is_reported(ops):
    def fn(x):
        ops.fake.cuStreamSynchronize(stream.current_stream().handle)
        return ops.double(x)

    step, x = cm.cuda.graph(fn), gpu([1] * N)
    step(x)
    with pytest.raises(
        cm.cuda.CudaError,
        match="graph: the capture was broken .CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
    ):
        step(x)
    assert ops.double(x).tolist() == [2] * N


def test_graphs_do_not_nest(ops):
    inner = cm.cuda.graph(ops.double)
    outer = cm.cuda.graph(lambda x: inner(x))
    x = gpu([1] * N)
    assert outer(x).tolist() == [2] * N
    with pytest.raises(
        RuntimeError, match="graph: cannot be part of a CUDA graph: graphs do not nest"
    ):
        outer(x)


def test_gradients_through_a_graph_are_refused(ops):
    step = cm.cuda.graph(ops.double)
    with pytest.raises(TypeError, match="graph: a gradient is being recorded"):
        cm.vjp(lambda x: step(x), gpu([1] * N))


def test_arguments_are_checked(ops):
    step = cm.cuda.graph(ops.double)
    for other in (gpu([1] * N, 1), cm.asarray(np.zeros(N), device="cpu")):
        with pytest.raises(cm.cuda.DeviceError, match="graph: arrays are on different devices"):
            step(gpu([1] * N), other)
    with pytest.raises(TypeError, match="graph: wants a function, got int"):
        cm.cuda.graph(3)


# -------------------- on the CPU


@pytest.fixture(params=["cpu", "beside a GPU"])
def host(request):
    """Arrays on the CPU, without a GPU and where there is one."""
    if request.param != "cpu":
        request.getfixturevalue("fake")
    elif cm.cuda.is_available():
        pytest.skip("there is a GPU")
    with cm.device("cpu"):
        yield


def test_on_the_cpu_the_function_runs(host):
    @cm.cuda.graph
    @counted
    def step(state, x, rate=0.5):
        state["sum"] += rate * x
        return {"mean": (state["sum"] * state["sum"]).mean(), "sum": state["sum"]}

    state, total = {"sum": cm.zeros(N)}, np.zeros(N)
    for k in range(1, 6):
        x = np.arange(float(N)) * k
        out = step(state, x if k % 2 else cm.asarray(x), rate=0.25)
        total += 0.25 * x
        np.testing.assert_array_equal(state["sum"].to_numpy(), total)
        assert out["sum"] is state["sum"] and float(out["mean"]) == (total**2).mean()
        assert x.tolist() == (np.arange(float(N)) * k).tolist()
    assert step.__wrapped__.runs == 5 and step.graphs == 0
    step.clear()


def test_numpy_arguments_are_not_changed_on_either_device(host):
    def fn(x):
        x += 1
        return x

    step, x = cm.cuda.graph(fn), np.zeros(N)
    for _ in range(3):
        assert step(x).tolist() == [1.0] * N and x.tolist() == [0.0] * N


WAITING = {
    "float": lambda x: x * float(x.sum()),
    "bool": lambda x: x if x.sum() > 0 else -x,
    "int": lambda x: x * int(x.sum()),
    "item": lambda x: x * x.sum().item(),
    "tolist": lambda x: (x.tolist(), x)[1],
    "to_numpy": lambda x: (x.to_numpy(), x)[1],
    "NumPy": lambda x: x * np.asarray(x).sum(),
    "print": lambda x: (repr(x), x)[1],
    "inside": lambda x: cm.grad(lambda x: x.sum() * float(cm.stop_gradient(x).max()))(x),
}


@pytest.mark.parametrize("name", [*WAITING, "mask", "nonzero"])
def test_reading_is_refused_at_the_second_call(name, ops):
    """On the CPU in the words in which a GPU refuses it."""
    more = {"mask": lambda x: x[x > 0], "nonzero": lambda x: cm.nonzero(x)[0]}
    function = {**WAITING, **more}[name]
    if name not in more and name != "inside":  # kernels do not run on the fake driver
        shown = cm.cuda.graph(lambda x: ops.double(x).to_numpy())
        x = gpu([1] * N)
        shown(x)
        with pytest.raises(RuntimeError) as on_gpu:
            shown(x)
    step, x = cm.cuda.graph(function), cm.ones(N, device="cpu")
    step(x)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="^copy to the host: .* CUDA graph") as on_cpu:
            step(x)
    if name not in more and name != "inside":
        assert str(on_cpu.value) == str(on_gpu.value)
    assert cm.cuda.graph(lambda x: x + 1)(x).tolist() == [2.0] * N  # nothing stays behind


def test_what_else_a_graph_cannot_hold_is_refused_on_the_cpu(host):
    x = cm.ones(N)
    inner = cm.cuda.graph(lambda x: x + 1)

    def synchronizes(x):
        cm.cuda.synchronize()
        return x

    for fn, says in ((lambda x: inner(x), "graph: .*do not nest"), (synchronizes, "synchronize")):
        outer = cm.cuda.graph(fn)
        outer(x)
        with pytest.raises(RuntimeError, match=f"^{says}.*|cannot be part of a CUDA graph"):
            outer(x)
    with pytest.raises(TypeError, match="graph: a gradient is being recorded"):
        cm.vjp(lambda x: inner(x), x)
    with pytest.raises(TypeError, match="graph: arguments must be arrays or hashable values"):
        inner({1})
    with pytest.raises(KeyError, match="mine"):
        cm.cuda.graph(lambda x: {}["mine"])(x)
    scaled = cm.cuda.graph(lambda x, rate: x * rate)
    with pytest.warns(RuntimeWarning, match="graph: 8 calls in a row and nothing to replay"):
        for k in range(8):
            scaled(x, 0.5 + k)


# -------------------- capture()


def test_capture(ops):
    x = gpu([1] * N)
    ops.double(x)
    with cm.cuda.capture() as recorded:
        y = ops.double(ops.double(x))
    assert recorded.nodes == 2
    for value in (3, 5):
        memory.upload(
            x.ptr, np.full(N, float(value)).ctypes.data, x.nbytes, stream.current_stream()
        )
        recorded.replay()
        assert y.tolist() == [4 * value] * N


def test_a_graph_that_ends_while_another_is_captured(ops):
    """Each takes the name of the one before, which dies inside."""
    x = gpu([1] * N)
    for _ in range(3):
        with cm.cuda.capture() as recorded:
            y = ops.double(x)
    recorded.replay()
    assert y.tolist() == [2] * N


def test_capture_of_nothing(ops):
    with cm.cuda.capture() as recorded:
        pass
    assert recorded.nodes == 0
    recorded.replay()


# -------------------- on a GPU


@pytest.mark.gpu
def test_graph_on_a_gpu():
    def fn(tree, x, rate):
        tree["w"] += rate * x.sum(axis=0).reshape(64, 1)
        return (x @ tree["w"]).sum(), cm.exp(-x)

    fn = counted(fn)
    step = cm.cuda.graph(fn)
    rng = np.random.default_rng(0)
    w = np.zeros((64, 8))
    tree, rate = {"w": cm.asarray(w, device="cuda", copy=True)}, cm.asarray(0.5, device="cuda")
    results = []
    for turn in range(6):
        x = rng.normal(size=(32, 64))
        w = w + (0.5 + turn) * x.sum(axis=0)[:, None]
        rate[...] = 0.5 + turn
        results.append((step(tree, cm.asarray(x, device="cuda"), rate), (x @ w).sum(), np.exp(-x)))
        np.testing.assert_allclose(tree["w"].to_numpy(), w, rtol=1e-9, atol=1e-9)
    for (loss, e), expected_loss, expected_e in results:
        np.testing.assert_allclose(float(loss), expected_loss, rtol=1e-9)
        np.testing.assert_allclose(e.to_numpy(), expected_e, rtol=1e-12)
    assert fn.runs <= 3 and step.graphs == 1


def own_kernels(x, w, b):
    """The linear layer without cuBLAS."""
    return (x[:, None, :] * w).sum(-1) + b


@pytest.mark.gpu
@pytest.mark.parametrize("layer", [own_kernels, cm.ml.linear])
def test_a_training_step_on_a_gpu(layer):
    """Gradient and optimizer in one graph: bit for bit the same parameters as without, by our
    kernels and by cuBLAS."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(64, 10)).astype("f4"), rng.integers(0, 3, 64)
    start = {"w": rng.normal(size=(3, 10)).astype("f4"), "b": np.zeros(3, "f4")}

    def step(p, x, y):
        loss, g = cm.value_and_grad(lambda p: cm.ml.cross_entropy(layer(x, p["w"], p["b"]), y))(p)
        for name in p:
            p[name] -= 0.1 * g[name]
        return loss

    ended = []
    for run in (step, cm.cuda.graph(step)):
        p = {name: cm.asarray(v, device="cuda", copy=True) for name, v in start.items()}
        xs, ys = cm.asarray(x, device="cuda"), cm.asarray(y, device="cuda")
        losses = [float(run(p, xs, ys)) for _ in range(8)]
        assert losses[-1] < losses[0]
        ended.append(np.concatenate([losses, *[v.to_numpy().ravel() for v in p.values()]]))
    assert ended[0].tobytes() == ended[1].tobytes()


@pytest.mark.gpu
def test_refusals_on_a_gpu():
    x = cm.ones(10, device="cuda")
    for bad in (
        lambda x: float((x + 1).sum()),
        lambda x: cm.random.uniform(size=10, device="cpu"),
        lambda x: x[x > 0],
        lambda x: cm.cuda.synchronize(),
    ):
        step = cm.cuda.graph(bad)
        step(x)
        used = cm.cuda.memory_allocated()
        with pytest.raises(RuntimeError, match="cannot be part of a CUDA graph"):
            step(x)
        gc.collect()
        assert cm.cuda.memory_allocated() == used
        assert float((x + 1).sum()) == 20


@pytest.mark.gpu
def test_memory_of_a_graph_on_a_gpu():
    step = cm.cuda.graph(lambda x: cm.exp(x) * 2 + x)
    x = cm.zeros(100_000, device="cuda")
    step(x)
    step(x)
    cm.cuda.empty_cache()
    noise = [cm.ones(100_000, device="cuda") for _ in range(10)]
    assert (step(x).to_numpy() == 2).all() and all((n.to_numpy() == 1).all() for n in noise)


@pytest.mark.gpu
def test_capture_on_a_gpu():
    x = cm.ones(1000, device="cuda")
    y = cm.exp(x) @ x + cm.exp(x) @ (x + 1)
    with cm.cuda.capture() as recorded:
        y = cm.exp(x) @ x
    assert recorded.nodes >= 2
    x[...] = 0
    recorded.replay()
    assert float(y) == 0.0
    with cm.cuda.capture() as recorded:  # the first one ends inside
        y = cm.exp(x) @ (x + 1)
    recorded.replay()
    assert float(y) == 1000.0


def test_a_result_keeps_the_order_of_its_elements(ops):
    def turned(x):
        y = ops.double(x)
        layout = Layout.of((2, 2), (8, 16), np.dtype(np.float64), 0)  # in Fortran's order
        return y._view(layout)

    step, x = cm.cuda.graph(turned), gpu([1, 2, 3, 4])
    for _ in range(3):
        y = step(x)
        assert y.strides == (8, 16)
        assert y._view(Layout.new((4,), y.dtype, 0)).tolist() == [2, 4, 6, 8]
