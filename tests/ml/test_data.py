"""Batches: which rows, in which order, on which device; resuming, errors and endings of the thread;
tokens."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import cudamath as cm
from cudamath import data
from cudamath.runtime import kernel_errors


def threads():
    return [t for t in threading.enumerate() if t.name == "cudamath.data"]


def ended():
    """Wait for the threads of loaders that were dropped."""
    for thread in threads():
        thread.join(20)
    assert not threads()


def rows(loader, count):
    """The next batches as lists."""
    return [batch.tolist() for batch in loader.steps(count)]


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    gc.collect()
    ended()


PREFETCH = pytest.mark.parametrize("prefetch", [0, 1, 3])


# -------------------- which rows


@PREFETCH
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16", "uint8"])
def test_in_order(device, prefetch, dtype):
    x = np.arange(35).reshape(7, 5).astype(cm.bfloat16 if dtype == "bfloat16" else dtype)
    loader = data.batches(x, 3, prefetch=prefetch)
    assert len(loader) == 3
    for _ in range(2):
        found = list(loader)
        assert [b.shape for b in found] == [(3, 5), (3, 5), (1, 5)] and {
            b.device for b in found
        } == {cm.device(device)}
        assert all(b.dtype == x.dtype for b in found)
        np.testing.assert_array_equal(np.concatenate([b.to_numpy() for b in found]), x)
    assert len(data.batches(x, 3, drop_last=True)) == 2
    assert (
        rows(data.batches(np.arange(7), 3, drop_last=True, prefetch=prefetch), 4)
        == [[0, 1, 2], [3, 4, 5]] * 2
    )
    loader.close()


@PREFETCH
def test_shuffled_rows_stay_together(device, prefetch):
    x, y = np.random.default_rng(0).standard_normal((50, 2, 3)), np.arange(50)
    with data.batches({"x": x, "y": (y,)}, 8, shuffle=True, seed=5, prefetch=prefetch) as loader:
        epochs = []
        for _ in range(3):
            seen = []
            for batch in loader:
                label = batch["y"][0].to_numpy()
                np.testing.assert_array_equal(batch["x"].to_numpy(), x[label])
                seen += label.tolist()
            assert sorted(seen) == list(range(50))
            epochs.append(seen)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0] and epochs[0] != list(range(50))


def test_the_order_depends_on_seed_and_epoch_alone():
    def order(**options):
        with data.batches(np.arange(40), 7, shuffle=True, device="cpu", **options) as loader:
            return rows(loader, 12)

    assert order(seed=3) == order(seed=3, prefetch=0) == order(seed=3, prefetch=9)
    assert order(seed=3) != order(seed=4)
    # Philox keyed by the seed, its stream the epoch: the generator's own permutation
    for epoch in (0, 1):
        expected = cm.random.default_rng(3 | epoch << 64).permutation(40, device="cpu").tolist()
        assert sum(order(seed=3)[6 * epoch : 6 * epoch + 6], []) == expected


def test_memory_maps_and_odd_strides(device, tmp_path):
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    np.save(tmp_path / "x.npy", x)
    for source in (
        np.load(tmp_path / "x.npy", mmap_mode="r"),
        np.asfortranarray(x),
        np.repeat(x, 2, 0)[::2],
    ):
        for shuffle in (False, True):
            with data.batches((source, np.arange(20)), 6, shuffle=shuffle) as loader:
                for values, index in loader:
                    np.testing.assert_array_equal(values.to_numpy(), x[index.to_numpy()])


def test_batches_belong_to_the_reader():
    x = np.arange(4)
    with data.batches(x, 2, device="cpu") as loader:
        for batch in loader:
            batch[...] = 9
    assert x.tolist() == [0, 1, 2, 3]


# -------------------- where it is


@PREFETCH
def test_resumes_with_the_same_batches(device, prefetch):
    def loader():
        return data.batches(np.arange(20), 3, shuffle=True, seed=1, prefetch=prefetch)

    with loader() as whole:
        everything = rows(whole, 25)
    for stop in (0, 1, 6, 7, 8, 20):
        with loader() as first:
            assert rows(first, stop) == everything[:stop]
            state = first.state
            assert state == {"epoch": stop // 7, "batch": stop % 7}
        with loader() as second:
            second.state = state
            assert rows(second, 25 - stop) == everything[stop:]
            second.state = {"epoch": 0, "batch": 1}  # back again, with batches made ahead
            assert rows(second, 3) == everything[1:4]


def test_a_broken_loop_goes_on():
    with data.batches(np.arange(5), 2) as loader:
        assert next(iter(loader)).tolist() == [0, 1] and [b.tolist() for b in loader] == [
            [2, 3],
            [4],
        ]
        assert loader.state == {"epoch": 1, "batch": 0}
        loader.close()
        assert not threads() and rows(loader, 1) == [[0, 1]]


# -------------------- what goes wrong


def test_arguments():
    x = np.arange(6)
    for call, error, message in [
        (
            lambda: data.batches((x, x[:5]), 2),
            ValueError,
            r"batches: wants arrays of equally many rows, got \[6, 5\]",
        ),
        (lambda: data.batches([], 2), ValueError, "batches: wants at least one array"),
        (lambda: data.batches([[1, 2]], 2), TypeError, "batches: wants NumPy arrays .* got int"),
        (
            lambda: data.batches(np.array(1), 2),
            ValueError,
            "batches: wants arrays of rows, got a 0-d array",
        ),
        (
            lambda: data.batches(np.array(["a"]), 1),
            TypeError,
            "batches: arrays of <U1 are not supported",
        ),
        (lambda: data.batches(x[:0], 2), ValueError, "batches: 0 rows do not make one batch of 2"),
        (
            lambda: data.batches(x, 7, drop_last=True),
            ValueError,
            r"batches: 6 rows do not make one batch of 7 \(drop_last\)",
        ),
        (lambda: data.batches(x, 0), ValueError, "batches: wants size as an integer >= 1, got 0"),
        (
            lambda: data.batches(x, 2, prefetch=-1),
            ValueError,
            "batches: wants prefetch as an integer >= 0, got -1",
        ),
        (
            lambda: data.batches(x, 2, seed=-1),
            ValueError,
            "batches: wants seed as an integer >= 0, got -1",
        ),
        (
            lambda: data.batches(x, 2, seed=1 << 64),
            ValueError,
            r"batches: wants a seed in \[0, 2\^64\), got 1844674407",
        ),
        (
            lambda: data.batches(x, True),
            ValueError,
            "batches: wants size as an integer >= 1, got True",
        ),
        (lambda: setattr(data.batches(x, 2), "state", 3), ValueError, "batches: a state is"),
        (
            lambda: setattr(data.batches(x, 2), "state", {"epoch": 0, "batch": 3}),
            ValueError,
            "an epoch has 3 batches, the",
        ),
        (
            lambda: setattr(data.batches(x, 2), "state", {"epoch": 0}),
            ValueError,
            "batches: a state is",
        ),
    ]:
        with pytest.raises(error, match=message):
            call()


class Failing(np.ndarray):
    """Rows of which one cannot be read."""

    def __getitem__(self, key):
        if isinstance(key, slice) and key.start == 4:
            raise OSError("cannot read row 4")
        return super().__getitem__(key)


@PREFETCH
def test_errors_of_the_thread_surface_in_their_place(device, prefetch):
    with data.batches(np.arange(8).view(Failing), 2, prefetch=prefetch) as loader:
        assert rows(loader, 2) == [[0, 1], [2, 3]]
        for _ in range(2):
            with pytest.raises(OSError, match="cannot read row 4"):
                next(iter(loader))
            if not prefetch:
                break
        assert loader.state == {"epoch": 0, "batch": 2}
        loader.state = {"epoch": 0, "batch": 3}
        assert rows(loader, 1) == [[6, 7]]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_loader_with_an_error_is_garbage_like_any_other(device, prefetch):
    """The error's traceback leads to the loader, and the loader holds the error."""
    x = np.arange(12.0)
    loader = data.batches(x, 2, prefetch=prefetch)
    next(iter(loader))
    loader._maker.make = lambda *_: 1 // 0
    with pytest.raises(ZeroDivisionError):
        for _ in loader.steps(9):
            pass
    loader._maker.make = None
    gone = weakref.ref(loader), weakref.ref(x)
    del loader, x
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_memory_of_a_loader_that_ran_out_of_it_comes_back(fake):
    fake.limit = 1 << 20
    loader = data.batches(np.zeros((8, 40_000), "f8"), 1, prefetch=5, device="cuda")
    with pytest.raises(cm.cuda.OutOfMemoryError):
        kept = [x for x in loader]  # noqa: C416
    kept = loader = None  # noqa: F841
    gc.collect()
    cm.cuda.empty_cache()
    cm.cuda.synchronize()
    assert cm.cuda.memory_reserved() == 0 and not fake.host and not fake.blocks


def test_dropped_in_the_middle():
    loader = data.batches(np.arange(100), 2, device="cpu")
    next(iter(loader))
    assert len(threads()) == 1
    seen = weakref.ref(loader)
    del loader
    gc.collect()
    assert seen() is None
    ended()


def test_dropping_a_loader_waits_for_nothing():
    """A collection of garbage may do it while this thread has a lock that the loader's waits
    for."""
    lock, reached, taken = threading.RLock(), threading.Event(), []

    class Guarded(np.ndarray):
        def __getitem__(self, key):
            if key.start:
                reached.set()
                taken.append(lock.acquire(timeout=10))
                lock.release()
            return super().__getitem__(key)

    with lock:
        loader = data.batches(np.arange(100).view(Guarded), 2, device="cpu")
        assert next(iter(loader)).tolist() == [0, 1] and reached.wait(10)
        del loader
        gc.collect()
    ended()
    assert taken == [True]


def test_a_thread_that_nobody_holds_any_more_ends_before_the_interpreter():
    code = """if True:
        import time, numpy as np, cudamath as cm

        class Slow(np.ndarray):
            def __getitem__(self, key):
                time.sleep(0.5 * bool(key.start))
                print(key.start, flush=True)
                return super().__getitem__(key)

        loader = cm.data.batches(np.arange(100).view(Slow), 2, device="cpu")
        next(iter(loader))
        del loader
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n2\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_goes_on_with_the_same_batches():
    """Where its parent was, by a thread of its own; in the parent nothing changes."""
    code = """if True:
        import os, numpy as np, cudamath as cm
        loader = cm.data.batches(np.arange(40), 2, shuffle=True, seed=3, device="cpu")
        steps = loader.steps(60)
        before = [next(steps).tolist() for _ in range(3)]
        child = os.fork()
        rest = [batch.tolist() for batch in steps]
        loader.close()
        print(before + rest, loader.state, flush=True)
        if child:
            raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
    )
    with data.batches(np.arange(40), 2, shuffle=True, seed=3, device="cpu", prefetch=0) as loader:
        expected = f"{rows(loader, 60)} {loader.state}"
    assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", [expected] * 2)


def test_a_forked_process_cannot_have_batches_on_a_gpu(fake, monkeypatch):
    loader = data.batches(np.arange(40), 2, device="cuda:0")
    assert next(iter(loader)).tolist() == [0, 1]
    loader._worker.stop()
    loader._worker.join()  # as a fork has lost it
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for _ in range(2):
        with pytest.raises(cm.cuda.DeviceError, match="CUDA does not survive a fork"):
            next(iter(loader))
    ended()


# -------------------- on a stream of its own, against the fake driver


@PREFETCH
@pytest.mark.parametrize("place", [0, 1])
def test_values_arrive_in_order(fake, prefetch, place):
    x = np.random.default_rng(0).standard_normal((64, 33)).astype(np.float32)
    with data.batches(
        (x, np.arange(64)), 5, shuffle=True, device=f"cuda:{place}", prefetch=prefetch
    ) as loader:
        kept = []
        for batch, index in loader.steps(30):
            assert batch.device == f"cuda:{place}"
            kept = [*kept[-3:], (batch, index)]
            for b, i in kept[
                ::2
            ]:  # read late, and more than once: nothing may have been overwritten
                np.testing.assert_array_equal(b.to_numpy(), x[i.to_numpy()])
    assert {handle for device, handle in fake.streams if device == 1 - place} <= {0}


@PREFETCH
@pytest.mark.parametrize("how", ["close", "drop", "never asked"])
def test_nothing_leaks(fake, prefetch, how):
    cm.asarray(np.zeros(1), device="cuda:0")
    before = set(fake.streams), cm.cuda.memory_allocated(0)
    loader = data.batches(np.zeros((40, 100)), 4, device="cuda:0", prefetch=prefetch)
    if how != "never asked":
        assert len(list(loader.steps(3))) == 3
        assert 1 <= len(fake.host) <= prefetch + 1
    if how == "close":
        loader.close()
        assert not fake.host
    del loader
    gc.collect()
    ended()
    assert not fake.host
    assert (set(fake.streams), cm.cuda.memory_allocated(0)) == before


@PREFETCH
@pytest.mark.parametrize("how", ["read", "closed"])
def test_buffers_live_until_they_are_copied(fake, prefetch, how):
    """More batches than there are buffers, which nobody has read yet: a buffer is filled anew, and
    given back, when its copy is made."""
    x = np.random.default_rng(0).standard_normal((60, 7))
    loader = data.batches(x, 4, device="cuda:0", prefetch=prefetch)
    kept = list(loader.steps(15 if how == "read" else 1))
    if how == "closed":
        loader.close()
        ended()
    for i, batch in enumerate(kept):
        np.testing.assert_array_equal(batch.to_numpy(), x[4 * i : 4 * i + 4])


def test_running_out_of_memory_surfaces(fake):
    fake.limit = 1 << 20
    with data.batches(np.zeros((40, 1 << 18), np.float32), 4, device="cuda:0") as loader:
        with pytest.raises(cm.cuda.OutOfMemoryError):
            next(iter(loader))


@PREFETCH
@pytest.mark.parametrize("how", ["close", "drop"])
def test_what_the_users_kernels_have_found_is_not_swallowed(fake, monkeypatch, prefetch, how):
    """An index out of range is raised where the user synchronises, not where the loader ends."""
    wrong = []
    monkeypatch.setattr(threading, "excepthook", wrong.append)
    monkeypatch.setattr(sys, "unraisablehook", wrong.append)
    loader = data.batches(np.arange(100.0), 10, device="cuda:0", prefetch=prefetch)
    next(iter(loader))
    kernel_errors.view(0)[0] = kernel_errors.ticket("take")  # what a kernel writes
    if how == "close":
        loader.close()
    del loader
    gc.collect()
    ended()
    assert not wrong
    with pytest.raises(IndexError, match="^take: an index is out of range"):
        cm.cuda.synchronize()


def test_batches_feed_a_graph(fake):
    x = np.random.default_rng(0).standard_normal((24, 8))
    step = cm.cuda.graph(lambda total, batch: batch.copy_to(total))
    total = cm.asarray(np.zeros((4, 8)), device="cuda:0")
    with data.batches(x, 4, device="cuda:0") as loader:
        for i, batch in enumerate(loader.steps(12)):
            step(total, batch)
            np.testing.assert_array_equal(total.to_numpy(), x[i % 6 * 4 :][:4])


@pytest.mark.gpu
def test_copies_overlap_with_work():
    x = np.random.default_rng(0).standard_normal((64, 1 << 20)).astype(np.float32)
    with cm.device("cuda"), data.batches(x, 8, shuffle=True, seed=2) as loader:
        order = sum(
            [
                cm.random.default_rng(2 | e << 64).permutation(64, device="cpu").tolist()
                for e in range(3)
            ],
            [],
        )
        weights = cm.ones((1 << 20, 8), "float32")
        for i, batch in enumerate(loader.steps(24)):
            y = batch @ weights
            if i % 5 == 0:
                expected = x[order[8 * i : 8 * i + 8]].astype(np.float64).sum(1)
                np.testing.assert_allclose(y[:, 3].to_numpy(), expected, rtol=1e-4, atol=0.5)


@pytest.mark.gpu
def test_the_next_batches_arrive_while_the_device_works():
    """Copies have a stream of their own: they end long before the work that was queued earlier."""
    x = np.random.default_rng(0).standard_normal((64, 1 << 14)).astype(np.float32)
    with cm.device("cuda"), data.batches(x, 8, prefetch=2) as loader:
        steps = loader.steps(12)
        kept = [next(steps)]
        large = cm.zeros((8192, 8192), "float32")
        large @ large
        cm.cuda.synchronize()
        for _ in range(40):  # nearly a second
            large @ large
        worked = cm.cuda.Event(timing=False).record()
        kept += [next(steps) for _ in range(5)]  # two of them were under way before
        loader._maker.stream.record().synchronize()
        assert not worked.query()
        worked.synchronize()
        for i, batch in enumerate(kept):
            np.testing.assert_array_equal(batch.to_numpy(), x[i * 8 : i * 8 + 8])


# -------------------- tokens


@PREFETCH
@pytest.mark.parametrize("dtype", ["uint16", "int64", "uint8"])
def test_tokens(device, tmp_path, prefetch, dtype):
    sequence = np.random.default_rng(0).integers(0, 200, 101).astype(dtype)
    sequence.tofile(tmp_path / "raw.bin")
    np.save(tmp_path / "array.npy", sequence)
    for source in (sequence, str(tmp_path / "raw.bin"), tmp_path / "array.npy"):
        for step, count in ((None, 10), (3, 31), (40, 3)):
            windows = data.tokens(source, 10, step=step, dtype=dtype)
            assert len(windows) == count
            for shuffle in (False, True):
                with data.batches(
                    (windows, np.arange(count)), 4, shuffle=shuffle, prefetch=prefetch
                ) as loader:
                    for (x, y), index in loader:
                        assert (
                            x.dtype == y.dtype == np.int32 and x.is_contiguous and y.is_contiguous
                        )
                        for row, i in enumerate(index.tolist()):
                            at = (step or 10) * i
                            assert x[row].tolist() == sequence[at : at + 10].tolist()
                            assert y[row].tolist() == sequence[at + 1 : at + 11].tolist()


def test_tokens_arguments(tmp_path):
    with pytest.raises(TypeError, match=r"tokens: wants integers, got float64 of shape \(5,\)"):
        data.tokens(np.zeros(5), 2)
    for x, length in ((np.arange(5), 5), (np.zeros((5, 5), int), 2), (np.arange(0), 1)):
        with pytest.raises(
            ValueError,
            match=f"tokens: wants one dimension of more than length={length} tokens, got shape",
        ):
            data.tokens(x, length)
    with pytest.raises(ValueError, match="tokens: wants length as an integer >= 1, got 0"):
        data.tokens(np.arange(5), 0)
    with pytest.raises(ValueError, match="tokens: wants step as an integer >= 1, got -2"):
        data.tokens(np.arange(5), 2, step=-2)
    with pytest.raises(FileNotFoundError):
        data.tokens(os.fspath(tmp_path / "none.bin"), 3)


TEXT = "To be, or not to be: that is the question.\nçéß 你好 🙂"


def test_characters():
    tokenizer = data.CharTokenizer(TEXT)
    codes = tokenizer.encode(TEXT)
    assert codes.dtype == np.int32 and codes.tolist() == [sorted(set(TEXT)).index(c) for c in TEXT]
    assert tokenizer.decode(codes) == TEXT and tokenizer.decode(cm.asarray(codes)) == TEXT
    assert tokenizer.characters == "".join(sorted(set(TEXT))) and len(tokenizer) == len(set(TEXT))
    again = data.CharTokenizer(tokenizer.characters)
    assert again.encode(TEXT).tolist() == codes.tolist()
    assert tokenizer.encode("").size == 0 and tokenizer.decode([]) == ""
    with pytest.raises(
        ValueError, match=r"CharTokenizer: '!Xz' not among the \d+ characters it knows"
    ):
        tokenizer.encode("zebra!X")
    with pytest.raises(ValueError, match=r"CharTokenizer: wants tokens in \[0, \d+\), got -1 to 3"):
        tokenizer.decode([3, -1])
    with pytest.raises(
        TypeError, match=r"CharTokenizer: wants tokens as integers, got float64 of shape \(1,\)"
    ):
        tokenizer.decode([1.5])
    with pytest.raises(ValueError, match="CharTokenizer: wants a text of at least one character"):
        data.CharTokenizer("")


def test_bytes():
    tokenizer = data.ByteTokenizer()
    codes = tokenizer.encode(TEXT)
    assert (
        codes.dtype == np.int32
        and codes.tolist() == list(TEXT.encode())
        and tokenizer.decode(codes) == TEXT
    )
    assert (
        tokenizer.decode(codes[:-1]).endswith("\ufffd")
        and tokenizer.decode([]) == ""
        and len(tokenizer) == 256
    )
    with pytest.raises(
        ValueError, match=r"ByteTokenizer: wants tokens in \[0, 256\), got 3 to 256"
    ):
        tokenizer.decode([3, 256])
