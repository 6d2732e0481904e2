"""The memory pool, against the fake driver; then the same on a GPU."""

import ctypes
import gc
import threading
import weakref

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from threads import together

import cudamath as cm
from cudamath.core.asarray import upload
from cudamath.runtime import memory, stream
from cudamath.runtime.memory import Buffer, human, parse_size, pool_of, rounded
from cudamath.runtime.state import runtime

KB, MB = 1 << 10, 1 << 20


# -------------------- sizes


@given(st.integers(0, 1 << 45))
def test_rounding_wastes_little(nbytes):
    size = rounded(nbytes)
    assert size >= max(nbytes, 1) and size % 512 == 0 and rounded(size) == size
    assert size - nbytes <= (512 if nbytes <= MB else nbytes / 8)


@pytest.mark.parametrize(
    "nbytes, size",
    [
        (0, 512),
        (1, 512),
        (512, 512),
        (513, 1024),
        (MB, MB),
        (MB + 1, MB + MB // 8),
        (2 * MB, 2 * MB),
        (2 * MB + 1, 2 * MB + MB // 4),
    ],
)
def test_rounding(nbytes, size):
    assert rounded(nbytes) == size


@pytest.mark.parametrize(
    "text, nbytes",
    [
        ("2GB", 2 << 30),
        ("2 GiB", 2 << 30),
        ("512 MiB", 512 << 20),
        ("1.5K", 1536),
        ("7", 7),
        ("7b", 7),
        (123, 123),
        ("1T", 1 << 40),
    ],
)
def test_sizes_in_words(text, nbytes):
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "much", "-1GB", "GB", "1QB"])
def test_sizes_that_cannot_be_read(text):
    with pytest.raises(ValueError, match="set_cache_size: "):
        parse_size(text)


def test_human():
    assert [human(n) for n in (0, 1023, 1536, 3 << 20, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.50 KiB",
        "3.00 MiB",
        "5.00 TiB",
    ]


# -------------------- reuse and statistics


def figures(index=0):
    pool = pool_of(index)
    return pool.used, pool.reserved, pool.cached


def test_a_freed_block_serves_the_next_request_of_its_size(fake):
    s = stream.current_stream()
    first = Buffer(600, s)
    address = first.address
    assert figures() == (1024, 1024, 0)
    del first
    assert figures() == (0, 1024, 1024)
    again = Buffer(1000, s)  # rounds to the same size
    assert again.address == address and fake.calls["cuMemAllocAsync"] == 1
    other = Buffer(1025, s)
    assert other.address != address and figures() == (1024 + 1536, 1024 + 1536, 0)


def test_peaks_and_counts(fake):
    s = stream.current_stream()
    a, b = Buffer(MB, s), Buffer(MB, s)
    del a, b
    stats = cm.cuda.memory_stats()
    assert (stats["allocated"], stats["peak"], stats["reserved"], stats["cached"]) == (
        0,
        2 * MB,
        2 * MB,
        2 * MB,
    )
    assert (stats["allocations"], stats["releases"], stats["fragmentation"]) == (2, 0, 0.5)
    assert stats["free"] + 2 * MB == stats["total"] == fake.limit
    cm.cuda.reset_peak_memory_stats()
    assert cm.cuda.max_memory_allocated() == 0 and cm.cuda.memory_stats()["reserved_peak"] == 2 * MB
    cm.cuda.empty_cache()
    stats = cm.cuda.memory_stats()
    assert (stats["reserved"], stats["releases"], stats["fragmentation"]) == (0, 2, 0.0)
    assert not fake.blocks
    assert "reserved" in cm.cuda.memory_summary()


def test_streams_do_not_share_free_blocks(fake):
    default, side = stream.current_stream(), cm.cuda.Stream()
    first = Buffer(MB, default)
    address = first.address
    del first
    second = Buffer(MB, side)
    assert second.address != address


def test_a_stream_that_ends_returns_its_blocks(fake):
    side = cm.cuda.Stream()
    for_later = Buffer(MB, side)
    Buffer(2 * MB, side)
    del side
    assert figures() == (MB, 3 * MB, 2 * MB)  # the live buffer keeps its stream
    del for_later
    assert figures() == (0, 0, 0)
    cm.cuda.synchronize()
    assert not fake.blocks and len(fake.streams) == 2


def test_pools_of_devices_are_apart(fake):
    a = cm.asarray(np.zeros(MB, np.uint8), device="cuda:1")
    assert figures(0) == (0, 0, 0) and figures(1) == (MB, MB, 0)
    assert (
        cm.cuda.memory_allocated(1) == cm.cuda.memory_allocated("cuda:1") == MB
        and cm.cuda.memory_reserved(0) == 0
    )
    del a
    cm.cuda.empty_cache(1)
    assert cm.cuda.memory_reserved(1) == 0


def test_blocks_of_a_stream_that_dies_first_in_a_cycle_go_back_too(fake):
    class Model:
        pass

    model = Model()
    model.stream = cm.cuda.Stream()
    with model.stream:
        model.x = cm.asarray(np.zeros(MB, np.uint8), device="cuda:0")
    model.itself = model
    del model
    gc.collect()
    assert figures() == (0, MB, MB)  # in a free list of the default stream
    assert sum(pool_of(0).free_blocks().values()) == 1
    address = Buffer(MB, stream.current_stream()).address
    assert address in fake.blocks and fake.calls["cuMemAllocAsync"] == 1
    cm.cuda.empty_cache()
    cm.cuda.synchronize()
    assert figures() == (0, 0, 0) and not fake.blocks


@pytest.mark.parametrize("function", ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"])
def test_a_block_whose_reuse_cannot_be_ordered_is_freed_later(fake, function):
    owner, user = cm.cuda.current_stream(), cm.cuda.Stream()
    buffer = Buffer(MB, owner)
    buffer.used_on(user)
    fake.fail[function] = fake.CUresult.CUDA_ERROR_INVALID_VALUE
    del buffer
    assert not fake.fail and figures() == (0, MB, MB)
    other = Buffer(MB, owner)  # not the block that `user` may still be using
    assert fake.calls["cuMemAllocAsync"] == 2
    del other
    cm.cuda.empty_cache()
    cm.cuda.synchronize()
    assert figures() == (0, 0, 0) and not fake.blocks


def test_a_block_that_the_driver_does_not_take_back_is_freed_later(fake):
    cm.cuda.set_cache_size(0)
    buffer = Buffer(MB, stream.current_stream())
    fake.fail["cuMemFreeAsync"] = fake.CUresult.CUDA_ERROR_INVALID_VALUE
    del buffer
    assert not fake.fail and figures() == (0, MB, MB)
    cm.cuda.empty_cache()
    assert figures() == (0, 0, 0)


def test_a_stream_that_cannot_be_ended_loses_no_memory(fake):
    side = cm.cuda.Stream()
    Buffer(MB, side)
    Buffer(2 * MB, side)
    fake.fail["cuMemFreeAsync"] = fake.CUresult.CUDA_ERROR_INVALID_VALUE
    del side
    cm.cuda.empty_cache()
    assert figures() == (0, 0, 0)


def test_a_constant_whose_copy_fails_takes_no_more_memory(fake):
    for _ in range(3):
        fake.fail["cuMemcpyHtoDAsync"] = fake.CUresult.CUDA_ERROR_INVALID_VALUE
        with pytest.raises(cm.cuda.CudaError):
            memory.constant(b"abc", 0)
    memory.constant(b"abc", 0)
    assert fake.calls["cuMemAllocAsync"] == 1


# -------------------- limits and exhaustion


def test_exhaustion_trims_first(fake):
    fake.limit = 4 * MB
    s = stream.current_stream()
    Buffer(3 * MB, s)  # dies: cached
    b = Buffer(2 * MB, s)
    assert figures() == (2 * MB, 2 * MB, 0) and pool_of(0).releases == 1
    del b


def test_exhaustion_says_what_there_is_and_changes_nothing(fake):
    fake.limit = 8 * MB
    s = stream.current_stream()
    held = [Buffer(MB, s) for _ in range(3)] + [Buffer(2 * MB, s)]
    before = figures()
    with pytest.raises(cm.cuda.OutOfMemoryError) as caught:
        Buffer(100 * MB, s)
    gc.collect()
    assert figures() == before and pool_of(0).peak == before[0]
    message = str(caught.value)
    for part in (
        "cuda:0: cannot allocate 104.00 MiB",
        "In use 5.00 MiB",
        "reserved 5.00 MiB",
        "largest cached block 0 B",
        "free on the device 3.00 MiB of 8.00 MiB",
        "Biggest holders: 3.00 MiB in 3 buffers of 1.00 MiB, 2.00 MiB in 1 buffer of 2.00 MiB",
    ):
        assert part in message
    assert isinstance(caught.value, MemoryError)
    assert len(held) == 4


def test_a_failed_array_changes_nothing(fake):
    fake.limit = MB
    before = figures()
    with pytest.raises(cm.cuda.OutOfMemoryError):
        upload(np.zeros(2 * MB, np.uint8), 0)
    assert figures() == before


def test_limit(fake):
    cm.cuda.set_memory_fraction(4 * MB / fake.limit)
    s = stream.current_stream()
    keep = Buffer(3 * MB, s)
    with pytest.raises(
        cm.cuda.OutOfMemoryError, match="set_memory_fraction / CUDAMATH_MEMORY_FRACTION is 4.00 MiB"
    ):
        Buffer(2 * MB, s)
    del keep
    Buffer(4 * MB, s)  # the cached 3 MiB make room
    assert figures()[1] == 4 * MB
    for fraction in (0, -1, 1.5):
        with pytest.raises(ValueError, match="set_memory_fraction: fraction must be in"):
            cm.cuda.set_memory_fraction(fraction)


def test_limits_from_the_environment(fake, monkeypatch):
    monkeypatch.setenv("CUDAMATH_MEMORY_FRACTION", "0.5")
    monkeypatch.setenv("CUDAMATH_CACHE_SIZE", "2MB")
    assert (pool_of(0).limit, pool_of(0).cache_limit) == (fake.limit // 2, 2 * MB)
    for variable in ("CUDAMATH_MEMORY_FRACTION", "CUDAMATH_CACHE_SIZE"):
        with (
            monkeypatch.context() as patch,
            pytest.raises(ValueError, match=f"^{variable}=many: .*'many'"),
        ):
            patch.setenv(variable, "many")
            pool_of(1)


def test_cache_limit(fake):
    s = stream.current_stream()
    Buffer(4 * MB, s)
    assert figures()[2] == 4 * MB
    cm.cuda.set_cache_size("3MB")  # what is above goes at once
    assert figures()[2] == 0
    a, b = Buffer(2 * MB, s), Buffer(2 * MB, s)
    del a
    assert figures() == (2 * MB, 4 * MB, 2 * MB)
    del b  # 4 MiB would be cached: this one goes back
    assert figures() == (0, 2 * MB, 2 * MB)
    cm.cuda.set_cache_size(None)
    Buffer(8 * MB, s)
    assert figures()[2] == 10 * MB


def test_configure_pool(fake):
    with pytest.raises(ValueError, match="configure_pool: initial .* is more than max"):
        cm.cuda.configure_pool(initial="2MB", max="1MB")
    cm.cuda.configure_pool(initial="1MB", max="4MB", cache=MB)
    pool = pool_of(0)
    assert (pool.limit, pool.cache_limit, pool.used, pool.reserved) == (4 * MB, MB, 0, 0)
    with pytest.raises(cm.cuda.OutOfMemoryError, match="cannot allocate 2.00 GiB"):
        cm.cuda.configure_pool(initial="2GB", max="2GB")


def test_callback(fake):
    told = []
    cm.cuda.configure_pool(max=10 * MB)
    cm.cuda.set_memory_callback(
        lambda stats: told.append((stats["event"], stats["requested"], stats["reserved"])),
        threshold=0.5,
    )
    s = stream.current_stream()
    held = [Buffer(MB, s) for _ in range(8)]
    assert told == [("high", MB, 6 * MB)]  # once, on the way up
    with pytest.raises(cm.cuda.OutOfMemoryError):
        Buffer(4 * MB, s)
    assert told[1:] == [("exhausted", 4 * MB, 8 * MB)]
    held.clear()
    cm.cuda.empty_cache()
    held = [Buffer(MB, s) for _ in range(6)]
    assert [event for event, *_ in told[2:]] == ["high"]
    cm.cuda.set_memory_callback(None)
    del held
    with pytest.raises(ValueError, match="threshold must be in"):
        cm.cuda.set_memory_callback(print, threshold=0)


# -------------------- who holds what


def test_snapshot(fake):
    x = upload(np.zeros((2, 300), np.float32), 0)
    y = x._view(x._layout.view((300,), (4,)))
    big = upload(np.zeros(4000), 0)
    rows = cm.cuda.memory_snapshot()
    assert [row["nbytes"] for row in rows] == [rounded(32000), rounded(2400)]
    assert sorted(rows[1]["arrays"]) == ["float32[2, 300]", "float32[300]"] and rows[0][
        "arrays"
    ] == ["float64[4000]"]
    assert rows[0]["address"] == big.ptr and rows[0]["line"] is None and rows[0]["device"] == 0
    assert cm.cuda.memory_snapshot(1) == []
    del y


def test_snapshot_beside_proxies_of_what_is_gone(fake):
    """Such an object raises where it is asked for its class."""
    there = threading.Event()
    kept = [weakref.proxy(there)]
    del there
    x = upload(np.zeros(300), 0)
    with pytest.raises(ReferenceError):
        isinstance(kept[0], np.ndarray)
    assert [row["nbytes"] for row in cm.cuda.memory_snapshot()] == [rounded(x.nbytes)]


def test_debugging_names_lines_and_leaks(fake):
    before = upload(np.zeros(10), 0)
    allocate = memory.allocate
    with cm.cuda.memory_debugging() as report:
        kept = [upload(np.zeros(100 * KB, np.uint8), 0) for _ in range(2)]  # line A
        gone = upload(np.zeros(5 * KB), 0)
        del gone
        assert cm.cuda.memory_snapshot()[0]["line"].startswith(__file__)
    assert memory.allocate is allocate
    ((line, count, nbytes),) = report.by_line()
    assert line == f"{__file__}:{test_debugging_names_lines_and_leaks.__code__.co_firstlineno + 4}"
    assert (count, nbytes) == (2, 200 * KB)
    assert str(report).endswith(line) and "200.00 KiB in    2" in str(report)
    del kept
    with cm.cuda.memory_debugging() as report:
        reused = upload(np.zeros(100 * KB, np.uint8), 0)
        del reused
    assert report.leaks == [] and "nothing" in str(report)
    assert before.shape == (10,)


# -------------------- several streams


def fill(x, value):
    """A stand-in for a kernel that writes: queued on the current stream, run when something
    waits."""
    s = stream.current_stream()
    if x._owner.stream is not s:
        x._owner.used_on(s)
    memory.upload(x._data, np.full(x.shape, value, x.dtype).ctypes.data, x.nbytes, s)


def test_a_block_used_on_a_second_stream_waits_for_it(fake):
    """The copy on the side stream is late: were the block reused at once, it would copy what came
    after."""
    side = cm.cuda.Stream()
    x = upload(np.full(1000, 1.0), 0)
    side.wait(stream.current_stream())
    out = upload(np.zeros(1000), 0)
    side.wait(stream.current_stream())
    x.copy_to(out, stream=side)
    del x
    y = upload(np.full(1000, 2.0), 0)  # takes x's block
    cm.cuda.current_stream().synchronize()
    side.synchronize()
    assert out.to_numpy().tolist() == [1.0] * 1000
    assert y.to_numpy().tolist() == [2.0] * 1000


def test_a_stream_that_another_library_ended_loses_no_memory(fake):
    cm.cuda.current_stream()
    _, handle = fake.cuStreamCreate("CU_STREAM_NON_BLOCKING")
    theirs = cm.cuda.external_stream(handle)
    x = Buffer(MB, cm.cuda.current_stream())
    x.used_on(theirs)
    fake.cuStreamDestroy(handle)
    del x
    assert figures() == (0, MB, MB)
    Buffer(MB, cm.cuda.current_stream())
    assert pool_of(0).allocations == 1


def test_memory_is_given_back_after_another_library_ended_its_stream(fake):
    cm.cuda.current_stream()
    _, handle = fake.cuStreamCreate("CU_STREAM_NON_BLOCKING")
    with cm.cuda.external_stream(handle):
        x = Buffer(MB, cm.cuda.current_stream())
        cm.cuda.empty_cache()  # waits for what runs here
    del x
    fake.cuStreamDestroy(handle)
    cm.cuda.empty_cache()
    assert figures() == (0, 0, 0)


class PoolMachine(RuleBasedStateMachine):
    """Buffers come, are written and read on any stream, and go. Every read must see its own
    buffer's last write."""

    def __init__(self):
        super().__init__()
        from fake_driver import installed

        self.patch = pytest.MonkeyPatch()
        self.context = installed(self.patch, limit=64 * KB)
        self.fake = self.context.__enter__()
        self.streams = [stream.current_stream(), cm.cuda.Stream(), cm.cuda.Stream()]
        self.buffers = []  # [Buffer, value or None, the stream that wrote it last]
        self.reads = []  # (host array, expected)
        self.count = 0

    sizes = st.sampled_from([1, 512, 513, 2000, 5000])
    which = st.integers(0, 2)
    any_buffer = st.integers(0, 1 << 20)

    @rule(size=sizes, on=which)
    def take(self, size, on):
        try:
            self.buffers.append([Buffer(size, self.streams[on]), None, self.streams[on]])
        except cm.cuda.OutOfMemoryError:
            assert sum(b.size for b, *_ in self.buffers) + rounded(size) > 64 * KB

    def use(self, buffer, s):
        if buffer.stream is not s:
            buffer.used_on(s)

    @precondition(lambda self: self.buffers)
    @rule(pick=any_buffer, on=which)
    def write(self, pick, on):
        row, s = self.buffers[pick % len(self.buffers)], self.streams[on]
        if row[2] is not s:
            s.wait(row[2])  # what users do: order the data; memory is the pool's business
        self.use(row[0], s)
        self.count += 1
        data = np.full(row[0].size // 8, self.count, np.int64)
        memory.upload(row[0].address, data.ctypes.data, data.nbytes, s)
        row[1:] = [self.count, s]

    @precondition(lambda self: any(row[1] for row in self.buffers))
    @rule(pick=any_buffer, on=which)
    def read(self, pick, on):
        rows = [row for row in self.buffers if row[1]]
        row, s = rows[pick % len(rows)], self.streams[on]
        if row[2] is not s:
            s.wait(row[2])
        self.use(row[0], s)
        host = memory.HostBuffer(row[0].size)
        memory.download(host.address, row[0].address, row[0].size, s, wait=False)
        row[2] = s  # later writers order themselves after this read
        self.reads.append((host, row[1]))

    @precondition(lambda self: self.buffers)
    @rule(pick=any_buffer)
    def drop(self, pick):
        self.buffers.pop(pick % len(self.buffers))

    @rule()
    def trim(self):
        pool_of(0).trim()

    @rule(limit=st.sampled_from([None, 0, 4 * KB]))
    def limit_cache(self, limit):
        cm.cuda.set_cache_size(limit)

    @rule(on=which)
    def wait(self, on):
        self.streams[on].synchronize()

    @invariant()
    def statistics_add_up(self):
        pool = pool_of(0)
        assert pool.used == sum(b.size for b, *_ in self.buffers)
        assert pool.cached == sum(size * count for size, count in pool.free_blocks().items())
        assert pool.reserved <= 64 * KB and pool.peak >= pool.used
        if pool.cache_limit == 0:
            assert pool.cached == 0
        addresses = [b.address for b, *_ in self.buffers]
        assert len(set(addresses)) == len(addresses)

    def teardown(self):
        try:
            for s in reversed(
                self.streams
            ):  # the default stream last: what others should have waited for comes late
                s.synchronize()
            for host, expected in self.reads:
                assert set(np.frombuffer(host.bytes(), np.int64)) == {expected}
            self.buffers.clear()
            pool_of(0).trim()
            assert pool_of(0).reserved == 0 and not self.fake.blocks
        finally:
            self.streams.clear()
            self.context.__exit__(None, None, None)
            self.patch.undo()


TestPool = PoolMachine.TestCase
TestPool.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, derandomize=True
)


def test_threads_and_streams_together(fake):
    """Threads take, use and drop buffers on streams of their own and shared ones; nothing is lost
    or handed out twice."""
    shared = cm.cuda.Stream()

    def work(seed):
        rng = np.random.default_rng(seed)
        own = cm.cuda.Stream()
        held = []
        for turn in range(150):
            s = (own, shared, cm.cuda.current_stream(0))[rng.integers(3)]
            b = Buffer(int(rng.integers(1, 4000)), s)
            other = (own, shared)[rng.integers(2)]
            if other is not s:
                b.used_on(other)
            held.append((b, b.address))
            if turn % 10 == 0:
                pool_of(0).free_blocks()
            if turn % 50 == 0:
                pool_of(0).trim()
            if len(held) > 20:
                held.pop(int(rng.integers(20)))
        assert all(b.address == address for b, address in held)

    together(6, work)
    gc.collect()
    pool = pool_of(0)
    assert pool.used == 0 and pool.cached == sum(size * n for size, n in pool.free_blocks().items())
    pool.trim()
    assert pool.reserved == 0


def test_a_live_address_belongs_to_one_buffer_whatever_the_threads(fake):
    taken, lock, errors = set(), threading.Lock(), []

    def work(_):
        s = cm.cuda.current_stream(0)
        for _ in range(400):
            b = Buffer(512, s)
            with lock:
                if b.address in taken:
                    errors.append(b.address)
                taken.add(b.address)
            with lock:
                taken.discard(b.address)
            del b

    together(8, work)
    assert not errors and pool_of(0).used == 0


# -------------------- other memory


def test_pinned_and_managed(fake):
    for make in (cm.cuda.pinned, cm.cuda.managed):
        host = make((3, 4), "float32")
        assert (
            isinstance(host, np.ndarray)
            and host.shape == (3, 4)
            and host.dtype == np.float32
            and len(fake.host) == 1
        )
        host[...] = 7
        view = host[1:]
        del host
        assert view.sum() == 56 and len(fake.host) == 1  # a view keeps the memory
        del view
        assert not fake.host
    assert cm.cuda.pinned(0).shape == (0,) and cm.cuda.pinned((), "bfloat16").shape == ()
    with pytest.raises(ValueError, match="pinned: negative size"):
        cm.cuda.pinned(-1)
    fake.fail["cuMemHostAlloc"] = fake.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(
        cm.cuda.OutOfMemoryError, match="pinned: the system has no 4.00 MiB of pinned memory left"
    ):
        cm.cuda.pinned(MB)


def test_upload_of_pinned_memory_may_be_reused_on_return(fake):
    host = cm.cuda.pinned(100, "float64")
    host[...] = 1
    x = upload(host, 0)
    host[...] = 2
    assert x.to_numpy().tolist() == [1.0] * 100


def test_asynchronous_copies(fake):
    side = cm.cuda.Stream()
    x = upload(np.arange(100.0), 0)
    side.wait(cm.cuda.current_stream())
    host = cm.cuda.pinned(100, "float64")
    host[...] = 0
    x.copy_to(host, stream=side)
    assert host.sum() == 0  # queued, not done
    side.synchronize()
    assert host.tolist() == list(range(100))


def test_host_memory_goes_when_no_copy_is_under_way_any_more(fake):
    """However the wait for the copy ended; and not while a graph is captured."""
    x = upload(np.arange(100.0), 0)
    x.to_numpy()
    for function in ("cuStreamSynchronize", "cuMemcpyDtoHAsync"):
        held = len(fake.host)
        fake.fail[function] = fake.CUresult.CUDA_ERROR_INVALID_VALUE
        with pytest.raises(cm.cuda.CudaError):
            x.to_numpy()
        cm.cuda.synchronize()
        assert len(fake.host) == held - 1
        assert x.to_numpy().tolist() == list(range(100)) and len(fake.host) == held
    host = cm.cuda.pinned(100, "float64")
    with cm.cuda.Stream() as side:
        side.wait(cm.cuda.current_stream())
        x.copy_to(host, stream=side)
    fake.fail["cuCtxSynchronize"] = fake.CUresult.CUDA_ERROR_INVALID_VALUE
    del host
    assert len(fake.host) == held + 1  # the device could not be waited for
    cm.cuda.empty_cache()
    assert len(fake.host) == held
    host = cm.cuda.pinned(100, "float64")
    with cm.cuda.capture():
        del host
        assert len(fake.host) == held + 1
        x + 1
    cm.cuda.empty_cache()
    assert len(fake.host) == held and not runtime.ended_host_memory


def test_new_blocks_of_the_fake_hold_what_shows(fake):
    """Also large ones, whose memory the C library takes from the system and gives back at once."""
    for size in (1, 2, 513, 96 * MB):
        address = fake.take(0, size)
        seen = np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)
        assert (seen[::2] == 0xA5).all() and (seen[1::2] == 0xFF).all()


def test_generated_code_makes_the_buffer_that_a_call_makes(fake):
    s = stream.current_stream()
    names = {**memory.code_names(), "y_size": rounded(600), "stream": s}
    exec("\n".join(memory.buffer_code("y")), names)
    plain, generated = Buffer(600, s), names["y_buffer"]
    assert type(generated) is Buffer and generated.address == names["y_address"]
    fields = set(Buffer.__slots__) - {"address"}
    assert fields == {"size", "stream", "users"}
    assert all(getattr(generated, name) == getattr(plain, name) for name in fields)
    assert pool_of(0).used == 2048


def test_tables_of_addresses_are_uploaded_once(fake):
    s = stream.current_stream()
    first = memory.address_table((1, 2, 3), s)
    assert (
        memory.address_table((1, 2, 3), s) == first and memory.address_table((1, 2, 4), s) != first
    )
    host = np.empty(3, np.int64)
    memory.download(host.ctypes.data, first, 24, s)
    assert host.tolist() == [1, 2, 3] and fake.calls["cuMemcpyHtoDAsync"] == 2
    side = cm.cuda.Stream()
    assert memory.address_table((1, 2, 3), side) != first
    for i in range(2 * memory.MOST_UPLOADS):
        memory.address_table((i,), s)
    assert len(runtime.uploads) == memory.MOST_UPLOADS


def test_constants_are_uploaded_once(fake):
    address = memory.constant(b"12345678", 0)
    assert memory.constant(b"12345678", 0) == address != memory.constant(b"12345678", 1)
    host = np.empty(8, np.uint8)
    memory.download(host.ctypes.data, address, 8, stream.current_stream())
    assert host.tobytes() == b"12345678"


def test_without_a_gpu_memory_is_empty():
    if cm.cuda.is_available():
        pytest.skip("there is a GPU")
    assert (
        cm.cuda.memory_allocated()
        == cm.cuda.memory_reserved()
        == cm.cuda.max_memory_allocated()
        == 0
    )
    assert cm.cuda.memory_stats()["total"] == 0 and cm.cuda.memory_snapshot() == []
    cm.cuda.empty_cache()
    cm.cuda.reset_peak_memory_stats()
    with cm.cuda.memory_debugging() as report:
        pass
    assert report.leaks == []


# -------------------- on a GPU


@pytest.mark.gpu
def test_statistics_on_a_gpu():
    cm.cuda.empty_cache()
    before = cm.cuda.memory_stats()
    x = cm.zeros(10 * MB, dtype="uint8", device="cuda")
    assert cm.cuda.memory_allocated() - before["allocated"] == 10 * MB
    del x
    assert cm.cuda.memory_allocated() == before["allocated"]
    cm.cuda.empty_cache()
    assert cm.cuda.memory_reserved() <= before["reserved"]


@pytest.mark.gpu
def test_huge_allocation_leaves_statistics_as_before():
    cm.cuda.empty_cache()
    names = ("allocated", "reserved", "peak")
    before = [cm.cuda.memory_stats()[name] for name in names]
    with pytest.raises(
        cm.cuda.OutOfMemoryError, match="cannot allocate 8.00 TiB: the device has no more"
    ):
        cm.empty(1 << 43, dtype="uint8", device="cuda")
    assert [cm.cuda.memory_stats()[name] for name in names] == before
    assert cm.ones(3, device="cuda").tolist() == [1.0] * 3  # the device is as before


@pytest.mark.gpu
def test_pinned_copies_on_a_gpu():
    side = cm.cuda.Stream(0)
    source, target = cm.cuda.pinned(MB), cm.cuda.pinned(MB)
    source[...] = np.arange(MB) % 1000
    x = cm.empty(MB, dtype="float32", device="cuda:0")
    side.wait(cm.cuda.current_stream(0))
    cm.asarray(source, device="cpu").copy_to(x, stream=side)
    x.copy_to(target, stream=side)
    side.synchronize()
    assert (target == source).all()
    y = cm.asarray(source, device="cuda:0")
    source[...] = 0
    assert (y.to_numpy() == target).all()


@pytest.mark.gpu
def test_memory_debugging_on_a_gpu():
    a = cm.ones(1000, device="cuda")
    with cm.cuda.memory_debugging() as report:
        kept = a + 1
        (a * 2).sum()
    assert [row["arrays"] for row in report.leaks] == [["float64[1000]"]]
    assert report.leaks[0]["line"].startswith(__file__)
    assert kept.shape == (1000,)
