"""Numbers and little arrays read by the host: the kernels that write them into host memory in the simulator, and who waits."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.core import array, posted, reading
from cudamath.kernels import posting
from cudamath.runtime import device, memory
from cudamath.testing import layout_of, simulate

DTYPES = ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "bfloat16"]


def numbers(shape, dtype, seed=0):
    made = np.random.default_rng(seed).standard_normal(shape) * 99
    return (made > 0 if dtype == "?" else made).astype(cm.dtype(dtype) if dtype == "bfloat16" else dtype)


@pytest.fixture
def often(monkeypatch):
    """Every read but the first of a layout is by a kernel."""
    monkeypatch.setattr(reading, "OFTEN", 1)
    if not posted.IN_ORDER:
        pytest.skip("a processor that may read memory out of order")


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_write_the_bytes_and_the_ticket(dtype):
    """Of numbers beside the ticket, of arrays behind those of all blocks, and nothing else."""
    x = np.asarray(numbers((), dtype))
    words = np.zeros(max(x.itemsize // 4, 1), np.int64)
    simulate(posting.number(layout_of(x), layout_of(words)), x, words, scalars=(0x7FFFFFFF,))
    assert (words >> 32 == 0x7FFFFFFF).all()
    assert (words & 0xFFFFFFFF).astype(np.uint32).tobytes()[: x.itemsize] == x.tobytes()
    for size in (1, 33, 4096 // x.itemsize, 9001 // x.itemsize):
        x = numbers(size, dtype)
        room = np.full(posted.HEAD + x.nbytes + 16, 7, np.uint8)
        blocks = -(-x.nbytes // posted.CHUNK)
        simulate(posting.array(layout_of(x), layout_of(room)), x, room, scalars=(12345678901,))
        assert room[: 8 * blocks].view(np.int64).tolist() == [12345678901] * blocks
        assert room[posted.HEAD : posted.HEAD + x.nbytes].tobytes() == x.tobytes()
        assert (room[8 * blocks : posted.HEAD] == 7).all() and (room[-16:] == 7).all()


@pytest.mark.simulator
def test_what_is_read_is_what_is_there(monkeypatch, often):
    """By one launch and no copy, from the second time on; of whatever dtype and place in memory, again and again."""
    with simulated_gpu(monkeypatch):
        fake = device.driver()
        for dtype in DTYPES:
            for seed in range(3):
                value = numbers((5, 3), dtype, seed)
                x = cm.asarray(value)
                before = fake.calls["cuMemcpyDtoHAsync"], len(fake.launches)
                got = x[2, 1].item()
                assert got == value[2, 1].item() and type(got) is type(value[2, 1].item())
                found = x.to_numpy()
                assert found.dtype == value.dtype and found.flags.owndata and found.flags.writeable
                np.testing.assert_array_equal(found, value)
                copies, launches = fake.calls["cuMemcpyDtoHAsync"] - before[0], len(fake.launches) - before[1]
                assert (copies, launches) == ((0, 2) if seed else (2, 0))
                assert x[1:].to_numpy().tolist() == value[1:].tolist()  # which begins wherever it does
        x = cm.asarray(np.arange(6.0))
        assert float(x.sum()) == 15 and [float(v) for v in x] == [0, 1, 2, 3, 4, 5] and int(x[3]) == 3 and bool(x[1])
        assert x[::2].tolist() == [0, 2, 4] and x[:0].tolist() == [] and complex(x[2]) == 2
        many = np.arange(1 << 16, dtype="f4")
        for _ in range(3):
            assert cm.asarray(many).to_numpy().tobytes() == many.tobytes()  # too many: by the driver


def test_what_lies_askew_is_copied_by_the_driver(fake, often):
    """A kernel would have to read each number by its bytes."""
    with cm.device("cuda:0"):
        x = cm.asarray(np.arange(8, dtype="f4"))
        askew = array.over(x[1:3]._layout, x._data + 2, x._owner)
        for read in (posted.number_reader(x[0]._layout)(array.over(x[0]._layout, x._data + 1, x._owner)),
                     posted.array_reader(askew._layout)(askew)):
            assert read is None
        assert fake.launches == []


def test_who_sees_no_ticket_has_the_driver_copy(fake, often, monkeypatch):
    """Where kernels do not run, as behind a tool that replaces launches: the value is right nevertheless."""
    monkeypatch.setattr(fake, "cuLaunchKernel", lambda *_: (0,), raising=False)
    with cm.device("cuda:0"):
        x = cm.asarray(np.arange(4.0))
        for _ in range(3):
            assert float(x[3]) == 3 and x.tolist() == [0, 1, 2, 3]


def test_not_during_a_capture_nor_a_profile(fake, often, monkeypatch):
    with cm.device("cuda:0"):
        x = cm.asarray(np.arange(4.0))
        read = posted.array_reader(x._layout)
        monkeypatch.setattr(memory, "observe", lambda kind, nbytes, stream, work: work())
        assert read(x) is None and x.tolist() == x.tolist() == [0, 1, 2, 3]
        monkeypatch.setattr(memory, "observe", None)
        stream = cm.cuda.Stream()
        with stream:
            stream.capturing = True
            with pytest.raises(RuntimeError, match="cannot be part of a CUDA graph"):
                x.to_numpy()
            stream.capturing = False
    assert fake.launches == []


@pytest.mark.simulator
def test_streams_and_errors(monkeypatch, often):
    """A stream on which something was read may end; what a kernel has flagged raises at the read."""
    with simulated_gpu(monkeypatch):
        x = cm.asarray(np.arange(4.0))
        cm.cuda.synchronize()  # streams are not ordered
        stream = cm.cuda.Stream()
        with stream:
            for _ in range(3):
                assert float(x[1]) == 1 and x.tolist() == [0, 1, 2, 3]
        cm.cuda.synchronize()
        ended = weakref.ref(stream)
        del stream, x
        gc.collect()
        assert ended() is None
        x = cm.asarray(np.arange(4.0))
        for _ in range(3):
            y = x[cm.asarray([1, 9])]
            with pytest.raises(IndexError, match="out of range"):
                float(y[0])
            assert float(x[1]) == 1


@pytest.mark.gpu
def test_on_a_gpu_behind_work_and_from_threads(often):
    """Of every dtype; behind products that take long; on streams of threads, each in a room of its own."""
    with cm.device("cuda"):
        for dtype in DTYPES:
            for seed in range(4):
                value = numbers((9, 50), dtype, seed)
                x = cm.asarray(value)
                assert x[5, 7].item() == value[5, 7].item()
                assert x.to_numpy().tobytes() == value.tobytes()
        big, count, row = cm.ones((4096, 4096), dtype="float32"), cm.zeros(()), cm.zeros(3000, dtype="int32")
        for i in range(1, 200):
            if i % 20 == 0:
                big = big @ big * 1e-4
            count += 1
            row += 1
            assert float(count) == i and (row.to_numpy() == i).all()
        wrong = []

        def work(first):
            with cm.device("cuda"), cm.cuda.Stream():
                one, many = cm.full((), float(first)), cm.full(2000, float(first))
                for i in range(1, 300):
                    one += 1
                    many += 1
                    if float(one) != first + i or not (many.to_numpy() == first + i).all():
                        wrong.append((first, i))

        threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
