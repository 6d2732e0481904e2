"""Devices, contexts, streams, events: against the fake driver, without a GPU, and on one."""

import contextlib
import enum
import gc
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import threading
import types

import numpy as np
import pytest
from threads import together

import cudamath as cm
from cudamath.core.asarray import upload
from cudamath.core.dispatch.op import registry
from cudamath.core.layout import Layout
from cudamath.runtime import device, kernel_launch, library_handles, library_paths, stream
from cudamath.runtime.errors import check, fail
from cudamath.runtime.state import device_cache, device_table, runtime

ROOT = pathlib.Path(__file__).parents[2]


# -------------------- the driver's names


def test_every_driver_function_we_call_exists():
    real = pytest.importorskip("cuda.bindings.driver")
    text = "".join(p.read_text() for p in (ROOT / "cudamath" / "runtime").rglob("*.py"))
    names = set(re.findall(r"\.((?:cu|CU)[A-Z_]\w+)", text)) | set(re.findall(r'"(cuM\w+)"', text))
    known = set(dir(real)) | {
        member for each in vars(real).values() if isinstance(each, type) for member in dir(each)
    }
    assert len(names) > 60
    errors = {
        name for name in names if re.fullmatch(r"cu[A-Z]+\w*Error", name)
    }  # of the library bindings
    assert names - known - errors == set()


def test_the_fake_knows_what_the_runtime_calls():
    from fake_driver import FakeDriver

    text = "".join(
        p.read_text()
        for p in (ROOT / "cudamath" / "runtime").rglob("*.py")
        if p.name != "cublas.py"
    )
    called = set(re.findall(r"\.(cu[A-Z]\w+)\(", text)) | set(re.findall(r'"(cuM\w+)"', text))
    assert {name for name in called if not hasattr(FakeDriver, name)} == set()


# -------------------- errors


def test_check():
    from fake_driver import CUresult

    assert check((CUresult.CUDA_SUCCESS,)) is None
    assert check((CUresult.CUDA_SUCCESS, 3)) == 3 and check((CUresult.CUDA_SUCCESS, 3, 4)) == (3, 4)
    with pytest.raises(cm.cuda.CudaError, match="^CUDA_ERROR_INVALID_VALUE$") as caught:
        check((CUresult.CUDA_ERROR_INVALID_VALUE, None))
    assert caught.value.status == 1 and isinstance(caught.value, RuntimeError)
    with pytest.raises(cm.cuda.OutOfMemoryError, match="^launch: CUDA_ERROR_OUT_OF_MEMORY$"):
        fail(CUresult.CUDA_ERROR_OUT_OF_MEMORY, "launch")


# -------------------- devices


def test_devices(fake):
    found = cm.cuda.devices()
    assert [(d.index, d.name, d.capability) for d in found] == [
        (0, "Fake 0", (9, 0)),
        (1, "Fake 1", (9, 0)),
    ]
    assert found[0].total_memory == fake.limit and found[0].multiprocessors == 100
    assert cm.cuda.is_available() and cm.cuda.device_count() == 2 and cm.cuda.current_device() == 0


@pytest.mark.parametrize("number", [2, -1, 99])
def test_a_bad_number_says_how_many_there_are(fake, number):
    for name, call in {
        "set_device": cm.cuda.set_device,
        "Stream": cm.cuda.Stream,
        "synchronize": cm.cuda.synchronize,
        "current_stream": cm.cuda.current_stream,
        "device": lambda i: cm.cuda.device(i).__enter__(),
        "memory_stats": cm.cuda.memory_stats,
        "peer_access": lambda i: cm.cuda.peer_access(0, i),
        "capture": cm.cuda.capture,
        "Event": lambda i: cm.cuda.Event(device=i),
    }.items():
        with pytest.raises(
            cm.cuda.DeviceError,
            match=f"^{name}: cuda:{number} was asked for but there are 2 devices: cuda:0..cuda:1$",
        ):
            call(number)
    with pytest.raises(
        TypeError, match="set_device: a device number must be an integer, got float"
    ):
        cm.cuda.set_device(0.5)
    with pytest.raises(cm.cuda.DeviceError, match="wants a CUDA device, got 'cpu'"):
        cm.cuda.synchronize("cpu")


def test_set_device_is_where_new_arrays_go(fake):
    assert cm.empty(3).device == "cuda:0"
    cm.cuda.set_device(1)
    assert (
        cm.cuda.current_device() == 1
        and cm.empty(3).device == "cuda:1"
        and cm.cuda.Stream().device == 1
    )
    cm.cuda.set_device(np.int64(0))
    assert cm.empty(3).device == "cuda:0" and fake.current == 100
    seen = []
    thread = threading.Thread(
        target=lambda: seen.append((cm.empty(3).device, cm.cuda.current_device()))
    )
    cm.cuda.set_device(1)
    thread.start()
    thread.join()
    assert seen == [("cuda:0", 0)]  # a choice of this thread only


@pytest.mark.parametrize(
    "enter",
    [lambda: cm.cuda.device(1), lambda: cm.device("cuda:1"), lambda: cm.cuda.device("cuda:1")],
)
def test_device_context(fake, enter):
    with enter() as place:
        assert (
            place == "cuda:1" and cm.cuda.current_device() == 1 and cm.empty(3).device == "cuda:1"
        )
        with cm.device("cpu"):
            assert cm.empty(3).device == "cpu" and cm.cuda.current_device() == 1
            with cm.cuda.device(0):
                assert cm.empty(3).device == "cuda:0" and cm.cuda.current_device() == 0
        assert cm.empty(3).device == "cuda:1" and fake.current == 101
    assert cm.cuda.current_device() == 0 and cm.empty(3).device == "cuda:0" and fake.current == 100
    with enter():
        pass
    assert cm.cuda.current_device() == 0 and fake.current == 100
    with pytest.raises(KeyError), enter():
        raise KeyError
    assert cm.cuda.current_device() == 0


def test_default_device(fake, monkeypatch):
    cm.set_default_device("cuda:1")
    assert cm.empty(3).device == "cuda:1" and cm.cuda.current_device() == 1
    cm.set_default_device("cpu")
    assert cm.empty(3).device == "cpu"
    runtime.default_device = None
    monkeypatch.setenv("CUDAMATH_DEVICE", "cuda:7")
    with pytest.raises(cm.cuda.DeviceError, match="cuda:7 was asked for but there are 2 devices"):
        cm.empty(3)


def test_looking_at_another_device_changes_nothing(fake):
    """Contexts are checked by the fake: were one left current, the next call on device 0 would
    fail."""
    x = upload(np.arange(3.0), 0)
    assert cm.cuda.current_device() == 0
    for look in (
        lambda: cm.cuda.current_stream(1),
        lambda: cm.cuda.memory_stats(1),
        lambda: cm.cuda.Stream(1),
        lambda: cm.cuda.synchronize(1),
        lambda: upload(np.arange(3.0), 1),
        lambda: cm.cuda.empty_cache(1),
        lambda: cm.cuda.peer_access(1, 0),
        lambda: cm.cuda.Event(device=1),
        lambda: upload(np.zeros(3), 1).tolist(),
    ):
        look()
        assert fake.current == 100 and cm.cuda.current_device() == 0
        assert x.tolist() == [0, 1, 2]


def test_copies_between_devices(fake):
    x = upload(np.arange(5.0), 0)
    y = x.to("cuda:1")
    assert y.device == "cuda:1" and y.tolist() == x.tolist()
    target = upload(np.zeros(5), 0)
    assert cm.cuda.copy_peer(target, y) is target and target.tolist() == x.tolist()
    assert fake.peers == {(101, 100), (100, 101)} and cm.cuda.peer_access(0, 1)
    assert fake.pool_access == {(0, 1), (1, 0)}  # of memory that streams allocate, too
    for bad, error, message in [
        ((x, np.zeros(5)), cm.cuda.DeviceError, "wants arrays on GPUs, got cpu"),
        (
            (x, upload(np.zeros(4), 1)),
            ValueError,
            "target is float64 of shape .5,., source float64",
        ),
        ((x, y[::2]), ValueError, "wants contiguous arrays"),
    ]:
        with pytest.raises(error, match="copy_peer: " + message):
            cm.cuda.copy_peer(*bad)


def test_a_copy_between_devices_waits_for_both(fake):
    """Lazy streams: the source is written, the target read, only when somebody waits; the order
    must come from events."""
    x = upload(np.arange(4.0), 0)
    y = x.to("cuda:1")
    del x
    again = upload(np.full(4, -1.0), 0)  # takes x's block
    cm.cuda.synchronize(0)
    assert y.tolist() == [0, 1, 2, 3] and again.tolist() == [-1] * 4


# -------------------- streams and events


def test_stream_stack(fake):
    default = cm.cuda.current_stream()
    a, b = cm.cuda.Stream(), cm.cuda.Stream(1)
    with a:
        assert cm.cuda.current_stream() is a
        with b:
            assert cm.cuda.current_stream() is b and cm.cuda.current_device() == 1
            assert cm.cuda.current_stream(0) is a
        assert cm.cuda.current_stream() is a and cm.cuda.current_stream(1) is not b
        with a, a:
            pass
        assert cm.cuda.current_stream() is a
    assert cm.cuda.current_stream() is default
    with pytest.raises(KeyError), a:
        raise KeyError
    assert cm.cuda.current_stream() is default and fake.current == 100
    assert "cuda:1" in repr(b) and a.device == 0 and a.ptr != b.ptr


def test_one_stream_in_several_threads(fake):
    """What was current before is each thread's own affair."""
    shared, errors = cm.cuda.Stream(), []
    barrier = threading.Barrier(4)

    def work():
        try:
            own = cm.cuda.Stream(0)
            with own:
                for _ in range(50):
                    barrier.wait(10)
                    with shared:
                        barrier.wait(10)
                        assert cm.cuda.current_stream() is shared
                    assert cm.cuda.current_stream() is own
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_order_and_queries(fake):
    a, b = cm.cuda.Stream(), cm.cuda.Stream()
    with a:
        x = upload(np.arange(3.0), 0)
    event = a.record()
    assert not a.query() and not event.query() and b.query()
    b.wait(event)
    b.synchronize()
    assert event.query() and a.query()
    with a:
        assert x.tolist() == [0, 1, 2]


def test_elapsed(fake):
    start, end = cm.cuda.Event().record(), cm.cuda.Event()
    x = upload(np.arange(3.0), 0)
    end.record()
    assert start.elapsed(end) == pytest.approx(2e-3) and cm.cuda.elapsed(
        start, end
    ) == start.elapsed(end)
    assert x.shape == (3,)
    with pytest.raises(cm.cuda.CudaError):
        start.elapsed(cm.cuda.Event())  # never recorded


def test_external_streams(fake):
    theirs = cm.cuda.Stream()
    s = cm.cuda.external_stream(theirs.ptr)
    assert s is cm.cuda.external_stream(theirs.ptr) and s.ptr == theirs.ptr
    assert cm.cuda.external_stream(0) is cm.cuda.external_stream(1) is cm.cuda.current_stream()
    handle = s.ptr
    with s:
        assert upload(np.arange(3.0), 0).tolist() == [0, 1, 2]
    del s
    assert (0, handle) in fake.streams  # it stays its library's
    with pytest.raises(
        TypeError, match="external_stream: wants the address of a CUstream .an int., got str"
    ):
        cm.cuda.external_stream("x")


def test_events_and_streams_end(fake):
    before = len(fake.streams), len(fake.events)
    s, e = cm.cuda.Stream(), cm.cuda.Event()
    s.wait(cm.cuda.current_stream())
    assert len(fake.streams) == before[0] + 1 and len(fake.events) == before[1] + 1
    del s, e
    assert (len(fake.streams), len(fake.events)) == before


def test_a_stream_of_another_library_is_waited_for(fake):
    """`__cuda_array_interface__` names the stream its data comes from."""
    theirs = cm.cuda.Stream()
    with theirs:
        x = upload(np.arange(4.0), 0)

    class Foreign:
        __cuda_array_interface__ = {**x.__cuda_array_interface__, "stream": theirs.ptr}

    y = cm.asarray(Foreign())
    cm.cuda.current_stream().synchronize()
    assert y.ptr == x.ptr and y.tolist() == [0, 1, 2, 3]


def test_foreign_memory_goes_back_after_our_work(fake):
    """Our copy on a side stream is queued when the lender gets its memory back and writes it again,
    on its stream."""
    lender = upload(np.arange(4.0), 0)

    class Foreign:
        __cuda_array_interface__ = lender.__cuda_array_interface__

    cm.cuda.synchronize()
    side, out = cm.cuda.Stream(), upload(np.zeros(4), 0)
    side.wait(cm.cuda.current_stream())
    y = cm.asarray(Foreign())
    y.copy_to(out, stream=side)
    del y
    cm.asarray(np.full(4, -1.0), device="cpu").copy_to(lender)
    side.synchronize()
    assert out.tolist() == [0, 1, 2, 3] and lender.tolist() == [-1] * 4


# -------------------- across a fork


def _in_child(queue):
    try:
        cm.cuda.synchronize()
    except Exception as error:
        queue.put((type(error).__name__, str(error)))
    else:
        queue.put("no error")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_use_after_a_fork_is_explained(fake):
    x = upload(np.zeros(3), 0)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_in_child, args=(queue,))
    process.start()
    said = queue.get(timeout=30)
    process.join()
    assert (
        said[0] == "DeviceError"
        and "forked after CUDA was set up" in said[1]
        and "'spawn'" in said[1]
    )
    assert x.tolist() == [0, 0, 0]  # the parent goes on


def test_handles_of_streams_that_end_during_a_capture_are_closed_after_it(fake):
    """A library waits for the whole device when it closes one, which a capture does not survive."""
    closed = []

    class Handle:
        def __init__(self, stream):
            pass

        def close(self):
            closed.append(stream.current_stream().capturing)

    library = library_handles.Handles(Handle)
    for other in (contextlib.nullcontext, cm.cuda.capture, contextlib.nullcontext):
        ends = stream.Stream(0)
        library.of(ends)
        before = len(closed)
        with other():
            del ends
            gc.collect()
            assert not library and len(closed) == before + (other is contextlib.nullcontext)
        assert len(closed) == before + 1
    assert closed == [False] * 3


def test_import_creates_no_context_and_no_numba():
    source = textwrap.dedent("""
        import sys, cudamath as cm
        names = ("numba", "numba.cuda", "cuda.bindings.driver", "nvmath")
        loaded = [name for name in names if name in sys.modules]
        print(loaded, cm.cuda.memory_allocated.__name__)
        """)
    said = subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout.strip() == "[] memory_allocated"


def test_validate_before_any_driver():
    assert device.validate.__doc__ and stream.Stream.__doc__
    with pytest.raises((cm.cuda.DeviceError, TypeError)):
        device.validate("cuda:0")


def test_every_public_name_is_there():
    for name in cm.cuda.__all__:
        assert getattr(cm.cuda, name).__doc__, name
    assert len(set(cm.cuda.__all__)) == len(cm.cuda.__all__)


# -------------------- on a GPU


@pytest.mark.gpu
def test_devices_on_a_gpu():
    for info in cm.cuda.devices():
        assert info.name and info.capability >= (7, 5) and info.multiprocessors > 0
        assert info.total_memory > 1 << 30 and info.max_shared_memory >= 48 << 10
    with pytest.raises(cm.cuda.DeviceError, match="99"):
        cm.cuda.set_device(99)


@pytest.mark.gpu
def test_streams_overlap_on_a_gpu():
    """Work on one stream ends while longer work on another, queued before it, is still under
    way."""
    long, short = cm.cuda.Stream(0), cm.cuda.Stream(0)
    x = cm.ones((4096, 4096), dtype="float32", device="cuda:0")
    y = cm.ones(100, device="cuda:0")
    x @ x, y + 1  # kernels are loaded, handles made
    cm.cuda.synchronize()
    with long:
        for _ in range(100):  # a quarter of a second
            x @ x
    with short:
        z = y + 1
    short.synchronize()
    assert not long.query()
    long.synchronize()
    assert long.query() and (z.to_numpy() == 2).all()


@pytest.mark.gpu
def test_events_on_a_gpu():
    x = cm.ones(1 << 24, dtype="float32", device="cuda:0")
    y = x + x
    start, end = cm.cuda.Event(device=0), cm.cuda.Event(device=0)
    s = cm.cuda.current_stream(0)
    start.record(s)
    for _ in range(100):
        y = x + x
    end.record(s)
    assert 0.5 < start.elapsed(end) < 1000 and end.query() and s.query()
    assert float(y[0]) == 2


@pytest.mark.gpu
def test_arrays_freed_on_one_stream_while_used_on_another_on_a_gpu():
    """The pool waits for the second stream before it hands the block out again."""
    side = cm.cuda.Stream(0)
    cm.random.seed(0)
    for turn in range(20):
        x = cm.full(1 << 20, float(turn), dtype="float32", device="cuda:0")
        side.wait(cm.cuda.current_stream(0))
        with side:
            busy = cm.ones((1024, 1024), dtype="float32", device="cuda:0")
            for _ in range(4):
                busy = busy @ busy * 0.001
            kept = x + 0
        del x
        other = cm.full(1 << 20, -1.0, dtype="float32", device="cuda:0")
        side.synchronize()
        with side:
            assert bool((kept == turn).all())
        assert bool((other == -1).all())


@pytest.mark.gpu
def test_threads_on_a_gpu():
    def work(seed):
        with cm.cuda.Stream(0):
            for n in range(1, 60):
                a = cm.full((n, 7), float(seed), dtype="float32", device="cuda:0")
                assert float((a @ a.T).sum()) == pytest.approx(7 * n * n * seed * seed)
                assert (a * 2 + n).to_numpy()[0, 0] == 2 * seed + n

    together(8, work)


def test_warm_up_waits_for_the_function(fake):
    """Its seconds are those until the device has done its work."""
    pending = []

    def work():
        target, stream = upload(np.zeros(3), 0), cm.cuda.current_stream(0)
        with fake.lock:
            fake.enqueue(stream.handle, lambda: pending.append(target))

    assert cm.cuda.warm_up(work, device="cuda:0") > 0
    assert len(pending) == 1


@pytest.mark.gpu
def test_warm_up_on_a_gpu():
    assert cm.cuda.warm_up(cm.exp, cm.zeros(10, device="cuda")) > 0
    assert cm.cuda.cache_info()["on_devices"] >= 1


def test_libraries_that_are_found_tell_their_versions():
    """By functions that they have: cuBLASLt's is not named as cuBLAS' is."""
    for name in library_paths._LIBRARIES:
        found = library_paths.find(name)
        assert "undefined symbol" not in found.looked, found
        assert (found.version is None) == (found.path is None)


@pytest.mark.gpu
def test_the_interpreter_exits_in_silence():
    """Streams, graphs and arrays that live to the end, in cycles: nobody writes to stderr while
    they are taken apart."""
    source = """
        import builtins
        import cudamath as cm
        step = cm.cuda.graph(lambda x: (x @ x, x.sum(), [x + 1]))
        x = cm.ones((64, 64), device="cuda")
        kept = [step(x) for _ in range(5)]
        with cm.cuda.Stream() as stream:
            kept.append(x * 2)
        kept.append([step, stream, kept])
        builtins.kept = kept
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=120
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    "static, allowed, wanted, asked",
    [
        (0, 48 << 10, 48 << 10, False),
        (512, 48 << 10, 48 << 10, True),
        (512, (48 << 10) - 512, (48 << 10) - 512, False),
        (512, (48 << 10) - 512, (48 << 10) - 511, True),
        (0, 48 << 10, 100 << 10, True),
        (512, 100 << 10, 48 << 10, False),
    ],
)
def test_shared_memory_beyond_48_kib_counts_what_the_kernel_has_itself(
    fake, monkeypatch, static, allowed, wanted, asked
):
    """48 KiB at run time and 512 bytes of its own: the driver refuses the launch unless they were
    requested."""
    own = {"SHARED_SIZE_BYTES": static, "MAX_DYNAMIC_SHARED_SIZE_BYTES": allowed}
    monkeypatch.setattr(kernel_launch.Function, "attribute", lambda self, name: own[name])
    calls = []
    monkeypatch.setattr(
        fake, "cuKernelSetAttribute", lambda kind, value, kernel, index: calls.append(value)
    )
    kernel_launch.Function("kernel", None, "handle", 0).allow_shared(wanted)
    assert calls == ([wanted] if asked else [])


# -------------------- keys of compiled kernels


def test_a_kernels_key_holds_what_it_calls_in_another_module(monkeypatch):
    """A device function reached as module.function: editing it must not leave kernels of its older
    version in use."""
    pytest.importorskip("numba.cuda")
    from cudamath.kernels.compiler import cache_key, decorators
    from cudamath.kernels.lib import tma_pipeline
    from cudamath.kernels.matmul import sm90 as matmul_sm90

    kernel = matmul_sm90.matmul_wgmma(matmul_sm90.Tile("bf16", "K", "K", 128, 256, False, "box"))
    before = cache_key.fingerprint(kernel)

    @decorators.device_function
    def advance(stage, phase, stages):
        return stage, phase

    assert cache_key.fingerprint(kernel) == before
    monkeypatch.setattr(tma_pipeline, "advance", advance)
    assert cache_key.fingerprint(kernel) != before


def test_a_kernels_key_holds_the_assembly_of_its_intrinsics():
    """Those of a kernel's own file, too: only the text of the ptx files is part of every key."""
    pytest.importorskip("numba.cuda")
    from cudamath.kernels.compiler import cache_key
    from cudamath.kernels.compiler.lazy_numba import cuda, types
    from cudamath.kernels.ptx import intrinsics

    def key(assembly, pure=True):
        f = intrinsics.instruction("f", assembly, types.float32, (types.float32,), "", pure=pure)

        @cuda.jit
        def kernel(x):
            x[0] = f(x[0])

        return cache_key.fingerprint(kernel)

    assert key("abs.f32 $0, $1;") == key("abs.f32 $0, $1;")
    assert (
        len({key("abs.f32 $0, $1;"), key("neg.f32 $0, $1;"), key("abs.f32 $0, $1;", pure=False)})
        == 3
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda m, njit, k: lambda v, factor=k: v * factor,
        lambda m, njit, k: (lambda h: lambda v: h(v))(njit(lambda v, factor=k: v * factor)),
        lambda m, njit, k: setattr(m, "K", k) or (lambda v: v * m.K),
        lambda m, njit, k: setattr(m.inner, "K", k) or (lambda v: v * m.inner.K),
        lambda m, njit, k: setattr(m, "scaled", njit(lambda v: v * k)) or (lambda v: m.scaled(v)),
        lambda m, njit, k: (lambda colours: lambda v: v * colours.RED)(
            enum.IntEnum("Colours", {"RED": k})
        ),
        lambda m, njit, k: (lambda h: lambda v: h(v))(njit(lambda v: v / 3.0 + v, fastmath=k == 3)),
    ],
    ids=[
        "default",
        "default of what it calls",
        "module",
        "module of a module",
        "function of a module",
        "enum",
        "fastmath",
    ],
)
def test_a_kernels_key_holds_what_the_users_function_means(make):
    """A constant that is edited, or another one in the same program: the kernel with the old one
    must not stay in use."""
    numba = pytest.importorskip("numba")
    pytest.importorskip("numba.cuda")
    from cudamath.kernels.compiler import cache_key
    from cudamath.kernels.generated import user_kernels
    from cudamath.runtime.device import assume

    def key(k):
        m = types.ModuleType("users")
        m.inner = types.ModuleType("users.inner")
        functions = (lambda a, b: a + b, 0.0, make(m, numba.njit, k), None)
        with assume((9, 0)):
            plan = user_kernels.reduction(
                Layout.new((64,), np.dtype("f4"), 0),
                functions=functions,
                axis=(0,),
                keepdims=False,
                dtype=np.dtype("f4"),
            )
        return [cache_key.fingerprint(step.kernel) for step in plan.steps]

    assert key(2) == key(2)
    assert key(2) != key(3)


def test_a_kernels_key_holds_no_functions_that_only_share_a_name():
    """`x.size` in a function that uses a module whose `size` is something else."""
    pytest.importorskip("numba.cuda")
    from cudamath.kernels.compiler import cache_key, decorators

    users, lock = types.ModuleType("users"), threading.Lock()
    users.K, users.size = (
        2,
        lambda: lock,
    )  # what a lock stands for in another process cannot be told
    assert cache_key.fingerprint(decorators.device_function(lambda x: x.size * users.K + cm.pi))


# -------------------- the state


def test_a_replaced_state_comes_back(fake):
    """Inside, the streams, pools and caches are those of another driver; afterwards all is as it
    was."""
    from fake_driver import FakeDriver, gpu

    from cudamath.runtime import memory

    x = gpu(np.arange(3.0))
    y = x + 1
    outer = stream.current_stream()
    before = {name: getattr(runtime, name) for name in type(runtime).__slots__}
    plans = {name: dict(card.plans) for name, card in registry.items() if hasattr(card, "plans")}
    other = FakeDriver(devices=1)
    with runtime.replaced(other, other.compiler):
        assert cm.cuda.device_count() == 1 and not runtime.pools
        assert not any(card.plans for card in registry.values() if hasattr(card, "plans"))
        assert stream.current_stream() is not outer and memory.pool_of(0) is not outer.pool
        assert (gpu(np.arange(3.0)) + 1).device == "cuda:0" and other.launches
        assert device.driver() is other
    assert all(getattr(runtime, name) is value for name, value in before.items())
    assert all(registry[name].plans == value for name, value in plans.items())
    assert cm.cuda.device_count() == 2 and stream.current_stream() is outer
    assert (x + 1).device == "cuda:0" and y.device == "cuda:0"


def test_registered_caches_are_emptied():
    @device_cache
    def answer():
        calls.append(1)
        return 42

    calls: list[int] = []
    table = device_table()
    table["kept"] = 1
    assert answer() == answer() == 42 and len(calls) == 1
    with runtime.replaced(None):
        assert answer() == 42 and len(calls) == 2 and not table
        table["lost"] = 2
    assert table == {"kept": 1} and answer() == 42 and len(calls) == 3
