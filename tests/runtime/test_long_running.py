"""What programs that run for long meet: streams and threads of others, memory that runs out, errors
in between.

Against the fake driver, whose streams are lazy: work that is not ordered comes too late, and values
are wrong.
"""

import gc
import importlib
import sys
import threading
import types
import weakref

import numpy as np
import pytest
from fake_driver import FakeStream, bind, gpu
from fake_status import CUresult

import cudamath as cm
from cudamath.core.dispatch.arguments import Input, Output
from cudamath.runtime import (
    cubin_cache,
    cublas,
    cufft,
    cusolver,
    kernel_launch,
    library_paths,
    memory,
)
from cudamath.runtime.errors import check
from cudamath.runtime.memory import Buffer, pool_of

MB = 1 << 20


def _fill(x, out):
    out[...] = 7


def _add(x, y, out):
    out[...] = x + y


def _double(x, out):
    out[...] = 2 * x


def double(n=4):
    """An op on n float32."""
    return bind(
        _double, [gpu(np.zeros(n, "f4"))], [((n,), "f4")], [Input(0), Output(0)], name="double"
    )


def theirs(fake):
    """The handle of a stream that another library made."""
    cm.cuda.current_stream()
    return fake.cuStreamCreate("CU_STREAM_NON_BLOCKING")[1]


def in_thread(work):
    """`work()` in another thread, which ends."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


# -------------------- graphs


def test_what_a_graph_freezes_is_in_nobody_elses_way(fake):
    """Kernels that are still queued when a capture begins write into the blocks it takes over:
    after the host's data has been put there, if that goes into one of them."""
    x = gpu(np.zeros(4, "f4"))
    fill = bind(_fill, [x], [((4,), "f4")], [Input(0), Output(0)], name="fill")
    add = bind(_add, [x, x], [((4,), "f4")], [Input(0), Input(1), Output(0)], name="add")
    cm.cuda.synchronize()

    def step(x):
        y = add(x, cm.asarray(np.array([1, 2, 3, 4], "f4")))
        several = [fill(x) for _ in range(4)]
        del several
        return y

    graph = cm.cuda.graph(step)
    assert [y.tolist() for y in [graph(x) for _ in range(3)]] == [[1, 2, 3, 4]] * 3


def test_a_graph_keeps_its_transforms(fake, monkeypatch):
    """cuFFT's plans hold tables that the graph's nodes read."""
    destroyed, used = [], []

    class Library:
        cuFFTError = KeyError
        made = iter(range(1, 1000))
        create = staticmethod(lambda: next(Library.made))
        set_auto_allocation = set_stream = staticmethod(lambda *_: None)
        make_plan_many64 = staticmethod(lambda *_: 0)
        destroy = staticmethod(destroyed.append)
        exec_c2c = staticmethod(lambda plan, *_: used.append(plan))

    def transform(n):
        walk = cufft.Walk((n,), 1, n)
        cufft.transform(cufft.Spec(0x29, (n,), walk, walk, 1), False)(
            cm.cuda.current_stream(), 0, 0
        )

    monkeypatch.setattr(cufft, "_bindings", lambda: Library)
    monkeypatch.setattr(library_paths, "find", lambda name: types.SimpleNamespace(path="there"))
    with cm.cuda.capture() as recorded:
        transform(1009)
    for n in range(2, 3 + cufft.MOST_PLANS):
        transform(n)
    assert destroyed and used[0] not in destroyed
    del recorded
    gc.collect()
    assert used[0] in destroyed


def test_threads_replay_one_graph_in_turn(fake, monkeypatch):
    """Replays share memory: each waits for the one before, on whatever stream that was."""
    x, twice = gpu(np.ones(4, "f4")), double()
    twice(x)
    with cm.cuda.capture() as recorded:
        twice(x)
    inside, most = [], []
    launch = recorded._recording.graph.launch

    def slowly(where):
        inside.append(where)
        most.append(len(inside))
        threading.Event().wait(0.01)
        launch(where)
        inside.pop()

    monkeypatch.setattr(recorded._recording.graph, "launch", slowly)
    threads = [threading.Thread(target=recorded.replay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


# -------------------- streams of other libraries


def test_what_another_librarys_stream_owned_outlives_it(fake):
    twice = double(1 << 18)
    for _ in range(3):
        handle = theirs(fake)
        with cm.cuda.external_stream(handle):
            y = twice(gpu(np.ones(1 << 18, "f4")))
        fake.cuStreamDestroy(handle)
        assert twice(y).to_numpy()[-1] == 4
        del y
    cm.cuda.empty_cache()
    assert cm.cuda.memory_stats()["reserved"] == sum(
        b.size for b in gc.get_objects() if type(b) is Buffer
    )


def test_a_graph_last_replayed_on_another_librarys_stream_outlives_it(fake):
    x, twice = gpu(np.ones(4, "f4")), double()
    graph = cm.cuda.graph(lambda x: twice(x))
    graph(x), graph(x)
    handle = theirs(fake)
    with cm.cuda.external_stream(handle):
        graph(x)
    fake.cuStreamDestroy(handle)
    assert graph(x).tolist() == [2] * 4
    handle = theirs(fake)
    with cm.cuda.external_stream(handle):
        graph(x)
    fake.cuStreamDestroy(handle)
    before = pool_of(0).reserved
    del graph
    gc.collect()
    assert pool_of(0).reserved < before  # its memory was given back


@pytest.mark.parametrize("who", ["the thread itself", "another thread"])
def test_memory_of_another_librarys_stream_is_given_back_after_its_work(fake, who):
    x, twice = gpu(np.ones(4, "f4")), double()
    cm.cuda.synchronize()
    if who == "the thread itself":
        cm.cuda.set_cache_size(0)
    with cm.cuda.external_stream(theirs(fake)):
        twice(x)  # still queued when its result goes
        if who == "another thread":
            in_thread(cm.cuda.empty_cache)
        cm.cuda.external_stream(0).synchronize()
        cm.cuda.current_stream().synchronize()  # an AssertionError if the kernel's memory is gone


def test_a_new_stream_at_the_address_of_one_that_is_gone_waits_for_its_work(fake):
    x, twice = gpu(np.ones(4, "f4")), double()
    handle = theirs(fake)
    with cm.cuda.external_stream(handle):
        twice(x)
    waits = fake.calls["cuStreamWaitEvent"]
    with cm.cuda.external_stream(handle):
        assert fake.calls["cuStreamWaitEvent"] == waits + 1


def test_each_thread_has_a_default_stream_of_its_own(fake):
    """Address 2 is another stream in each thread: no blocks, no handles are shared."""
    cm.cuda.current_stream()
    fake.streams[0, 2] = FakeStream(0, 2)
    both, found = threading.Barrier(2), []

    def work():
        with cm.cuda.external_stream(2) as mine:
            address = Buffer(4096, mine).address
            both.wait(5)  # threads that live at the same time
            found.append((mine, address))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (first, here), (second, there) = found
    assert first is not second and here != there
    assert cm.cuda.external_stream(2) is cm.cuda.external_stream(2)


# -------------------- another library's device


def test_another_library_changes_the_device(fake):
    """torch.cuda.set_device(1) makes another context current behind our back."""
    x, twice = gpu(np.ones(4, "f4")), double()
    twice(x)  # there is a block for a result
    fake.contexts[-1:] = [101]
    with pytest.raises(
        cm.cuda.CudaError,
        match=r"another device current in this thread; cuda:0 is current again: repeat",
    ):
        twice(x)
    assert twice(x).tolist() == [2] * 4
    fake.contexts[-1:] = [101]
    buffer = Buffer(3 * MB, cm.cuda.current_stream())
    assert fake.blocks[buffer.address].device == 0


# -------------------- memory that runs out


def test_cached_blocks_make_room_for_libraries_and_kernels(fake):
    fake.limit = 64 * MB
    here = cm.cuda.current_stream()
    Buffer(48 * MB, here)
    assert pool_of(0).cached == 48 * MB
    pool_of(0).beside_capture(lambda side: check(fake.cuMemAllocAsync(32 * MB, side)))
    assert pool_of(0).cached == 0
    Buffer(16 * MB, here)
    fake.fail["cuLibraryLoadData"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert double()(gpu(np.ones(4, "f4"))).tolist() == [2] * 4
    assert 16 * MB not in pool_of(0).free_blocks()


def test_a_handle_that_cannot_be_made_gives_its_workspace_back(fake, monkeypatch):
    class Library:
        cuBLASError = type("cuBLASError", (Exception,), {})

        @staticmethod
        def create():
            raise Library.cuBLASError("CUBLAS_STATUS_ALLOC_FAILED")

    monkeypatch.setattr(cublas, "_bindings", lambda: Library)
    monkeypatch.setattr(library_paths, "find", lambda name: types.SimpleNamespace(path="there"))
    here = cm.cuda.current_stream()
    for _ in range(3):
        with pytest.raises(
            cm.cuda.OutOfMemoryError, match="cublasCreate: CUBLAS_STATUS_ALLOC_FAILED"
        ):
            cublas.handle(here)
        cm.cuda.synchronize()
        assert fake.in_use(0) == 0


def test_tables_of_any_number_of_shapes(fake):
    """A program that meets arrays of ever new lengths needs a table for each."""
    cm.cuda.current_stream()
    tables = {
        n: memory.constant(np.arange(n % 7, n % 7 + 3).tobytes() + n.to_bytes(8, "little"), 0)
        for n in range(6000)
    }
    assert len(set(tables.values())) == 6000 and not any(
        address % 16 for address in tables.values()
    )
    assert fake.in_use(0) < MB
    for n in (0, 17, 5999):
        host = np.zeros(4, np.int64)
        memory.download(host.ctypes.data, tables[n], 32, cm.cuda.current_stream())
        assert host.tolist() == [n % 7, n % 7 + 1, n % 7 + 2, n]
    big = memory.constant(bytes(MB), 0)
    assert memory.constant(bytes(MB), 0) == big
    fake.check(big, MB, 0)


# -------------------- errors in between


def test_a_table_whose_upload_failed_is_not_remembered(fake):
    here = cm.cuda.current_stream()
    fake.fail["cuMemcpyHtoDAsync"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(cm.cuda.OutOfMemoryError):
        memory.address_table((1, 2, 3), here)
    host = np.zeros(3, np.uint64)
    memory.download(host.ctypes.data, memory.address_table((1, 2, 3), here), 24, here)
    assert host.tolist() == [1, 2, 3]


def test_a_callback_that_raises_loses_no_memory(fake):
    here = cm.cuda.current_stream()

    def enough(stats):
        raise KeyError("enough")

    cm.cuda.set_memory_callback(enough, threshold=1e-9)
    with pytest.raises(KeyError, match="enough"):
        Buffer(MB, here)
    cm.cuda.set_memory_callback(None)
    assert pool_of(0).free_blocks() == {MB: 1}
    cm.cuda.empty_cache()
    assert pool_of(0).reserved == 0


# -------------------- libraries and threads


def test_threads_do_not_share_cusolvers_host_workspace(fake, monkeypatch):
    """All threads have the default stream, and so its handle; the library works in the host's
    memory without the GIL."""
    entered, done, alive = threading.Event(), threading.Event(), []
    made = []

    class Library:
        create = set_stream = create_params = create_syevj_info = create_gesvdj_info = destroy = (
            staticmethod(lambda *_: 1)
        )
        xgeev_buffer_size = staticmethod(lambda *_: (0, MB))
        xgetrf_buffer_size = staticmethod(lambda *_: (0, 8))
        xgetrf = staticmethod(lambda *_: None)

        @staticmethod
        def xgeev(*arguments):
            space = arguments[-3]
            entered.set()
            done.wait(5)
            alive.extend(x() is not None for x in made if x.address == space)

    class Noted(weakref.ref):
        __slots__ = ("address",)

    def empty(*given):
        space = np.empty(*given)
        made.append(Noted(space))
        made[-1].address = space.ctypes.data
        return space

    monkeypatch.setattr(cusolver, "_bindings", lambda: Library)
    monkeypatch.setattr(cusolver, "_errors", lambda: (KeyError,))
    monkeypatch.setattr(cusolver, "np", types.SimpleNamespace(empty=empty, uint8=np.uint8))
    monkeypatch.setattr(library_paths, "find", lambda name: types.SimpleNamespace(path="there"))
    here = cm.cuda.current_stream()
    run = cusolver.geev(np.dtype("f8"), 100, True, 1)
    thread = threading.Thread(target=lambda: (cm.cuda.current_stream(), run(here, 0, 0, 0, 0)))
    thread.start()
    assert entered.wait(5)
    cusolver.getrf(np.dtype("f8"), 3, 3, 10)(here, 0, 0, 0)
    done.set()
    thread.join()
    cusolver._handles.clear()
    assert alive and all(alive)


def test_a_thread_that_meets_a_hollow_package_gets_the_package(monkeypatch, tmp_path):
    """Bindings are imported without the packages around them; another thread may import those at
    that moment."""
    (tmp_path / "wide" / "narrow").mkdir(parents=True)
    (tmp_path / "wide" / "__init__.py").write_text("said = 'all of it'\n")
    (tmp_path / "wide" / "narrow" / "__init__.py").write_text("")
    (tmp_path / "wide" / "narrow" / "leaf.py").write_text(
        "import sys\nsys.wide_entered.set()\nsys.wide_goes_on.wait(5)\nvalue = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "wide_entered", entered := threading.Event(), raising=False)
    monkeypatch.setattr(sys, "wide_goes_on", goes_on := threading.Event(), raising=False)
    found = []
    loading = threading.Thread(
        target=lambda: found.append(library_paths.alone("wide.narrow.leaf").value)
    )
    loading.start()
    assert entered.wait(5)
    hollow = sys.modules["wide"]
    asking = threading.Thread(target=lambda: found.append(importlib.import_module("wide").said))
    asking.start()
    goes_on.set()
    loading.join(5)
    asking.join(5)
    assert sorted(found, key=str) == [3, "all of it"]
    assert hollow.said == "all of it" and sys.modules["wide"] is not hollow
    with pytest.raises(AttributeError):
        _ = hollow.no_such_name
    for name in [name for name in sys.modules if name.partition(".")[0] == "wide"]:
        del sys.modules[name]


def test_a_user_without_a_home(monkeypatch):
    for variable in ("CUDAMATH_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(kernel_launch.os.path, "expanduser", lambda path: path)
    cubin_cache._homeless.cache_clear()
    made = [cubin_cache.cached_cubin("a key of no home", lambda: b"machine code") for _ in range(2)]
    assert made == [b"machine code"] * 2 and cubin_cache.clear_kernel_cache() == 1
    cubin_cache._homeless.cache_clear()
