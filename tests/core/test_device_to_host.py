"""Numbers and little arrays read by the host: what is seen in page-locked memory, and who waits for
the driver."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest
from simulated_gpu import simulated_gpu
from threads import together

import cudamath as cm
from cudamath.core import bounded_cache
from cudamath.core.transfer import device_to_host
from cudamath.runtime.state import runtime

DTYPES = ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "bfloat16"]


def numbers(shape, dtype, seed=0):
    made = np.random.default_rng(seed).standard_normal(shape) * 99
    return (made > 0 if dtype == "?" else made).astype(
        cm.dtype(dtype) if dtype == "bfloat16" else dtype
    )


@pytest.fixture
def looking(monkeypatch):
    """The thread looks, whatever the processor; readers are made anew."""
    monkeypatch.setattr(device_to_host, "LOOKS", 3)


@pytest.fixture
def at_once(fake, looking, monkeypatch):
    """A fake driver whose copies are there as soon as they are asked for."""
    ask = fake.cuMemcpyDtoHAsync

    def copy(target, source, nbytes, on):
        status = ask(target, source, nbytes, on)
        fake.finish(fake.stream(on))
        return status

    monkeypatch.setattr(fake, "cuMemcpyDtoHAsync", copy, raising=False)
    return fake


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_that_are_seen_are_not_waited_for(at_once, dtype):
    """From the first on, in one room, whatever was there before."""
    with cm.device("cuda:0"):
        values = numbers(9, dtype)
        x = cm.asarray(values)
        cm.cuda.synchronize()
        before = at_once.calls["cuStreamSynchronize"], at_once.calls["cuMemHostAlloc"]
        for i in [*range(9), 0, 0, 8]:
            got = x[i].item()
            assert got == values[i].item() and type(got) is type(values[i].item())
        assert at_once.calls["cuStreamSynchronize"] == before[0]
        assert at_once.calls["cuMemHostAlloc"] - before[1] <= 2  # the room, and the flag of errors


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("part", ["whole", "first word", "last word"])
def test_a_number_that_looks_blank(at_once, dtype, part):
    """It takes a wait to know; the value is right."""
    dtype = cm.dtype(dtype)
    data = bytearray(range(1, dtype.itemsize + 1))
    size = min(4, dtype.itemsize)
    blank = {"whole": slice(None), "first word": slice(0, size), "last word": slice(-size, None)}[
        part
    ]
    data[blank] = bytes([device_to_host.BLANK]) * len(data[blank])
    value = np.frombuffer(bytes(data), dtype)
    with cm.device("cuda:0"):
        x = cm.asarray(value)
        for _ in range(2):
            before = at_once.calls["cuStreamSynchronize"]
            assert np.array(x[0].item(), dtype).tobytes() == value.tobytes()
            assert at_once.calls["cuStreamSynchronize"] == before + 1


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_a_number_is_taken_when_all_of_it_is_there(fake, looking, monkeypatch, dtype):
    """Its words may arrive in whatever order, the others at the latest when the stream is done."""
    ask, order = fake.cuMemcpyDtoHAsync, []

    def copy(target, source, nbytes, on):
        status = ask(target, source, nbytes, on)
        word = 4 * order.pop(0)
        ctypes.memmove(target + word, source + word, 4)  # ahead of the rest
        return status

    monkeypatch.setattr(fake, "cuMemcpyDtoHAsync", copy, raising=False)
    with cm.device("cuda:0"):
        values = numbers(5, dtype)
        x = cm.asarray(values)
        cm.cuda.synchronize()
        order += [*range(values.itemsize // 4)] * 2
        for i in range(len(order)):
            assert x[i % 5].item() == values[i % 5].item()


def test_what_is_not_seen_is_waited_for(fake):
    """Copies behind other work: numbers, little arrays and large ones, again and again, and NumPy
    owns what it gets."""
    with cm.device("cuda:0"):
        for dtype in DTYPES:
            for seed in range(3):
                value = numbers((5, 3), dtype, seed)
                x = cm.asarray(value)
                got = x[2, 1].item()
                assert got == value[2, 1].item() and type(got) is type(value[2, 1].item())
                found = x.to_numpy()
                assert found.dtype == value.dtype and found.flags.owndata and found.flags.writeable
                again = x.to_numpy()
                found[:] = 0
                np.testing.assert_array_equal(again, value)
                assert (
                    x[1:].to_numpy().tolist() == value[1:].tolist()
                )  # which begins wherever it does
        x = cm.asarray(np.arange(6.0))
        assert (
            [float(v) for v in x] == [0, 1, 2, 3, 4, 5]
            and int(x[3]) == 3
            and bool(x[1])
            and complex(x[2]) == 2
        )
        assert x[:0].tolist() == []
        for count in (device_to_host.MOST // 4, device_to_host.MOST // 4 + 1, 1 << 16):
            many = np.arange(count, dtype="f4")
            for _ in range(2):
                assert cm.asarray(many).to_numpy().tobytes() == many.tobytes()
    assert fake.launches == []


def test_page_locked_memory_is_waited_for(fake):
    """The driver's copy returns before it is done there."""
    for count in (5, 1 << 16):
        with cm.device("cuda:0"):
            x, target = cm.asarray(np.arange(float(count))), cm.cuda.pinned(count, "float64")
        x.copy_to(target)
        np.testing.assert_array_equal(target, np.arange(float(count)))


def test_tables_do_not_grow_for_ever(fake, monkeypatch):
    monkeypatch.setattr(bounded_cache, "MOST", 4)
    with cm.device("cuda:0"):
        for n in range(2, 30):
            assert cm.asarray(np.arange(n)).tolist() == [*range(n)]
        assert len(device_to_host.array_readers) <= 4
        (buffer,) = device_to_host._idle[0]
        assert len(buffer.views) <= 4


def test_not_during_a_capture_nor_unseen_by_a_profile(fake, monkeypatch):
    seen = []

    def observe(kind, nbytes, stream, work):
        seen.append((kind, nbytes))
        return work()

    with cm.device("cuda:0"):
        x = cm.asarray(np.arange(4.0))
        for _ in range(2):
            assert x.tolist() == [0, 1, 2, 3] and float(x[1]) == 1
        runtime.observe_copy = observe
        assert x.tolist() == [0, 1, 2, 3] and float(x[1]) == 1
        assert seen == [("copy device to host", 32), ("copy device to host", 8)]
        runtime.observe_copy = None
        stream = cm.cuda.Stream()
        with stream:
            stream.capturing = True
            for read in (x.to_numpy, x[1].item):
                with pytest.raises(RuntimeError, match="cannot be part of a CUDA graph"):
                    read()
            stream.capturing = False


def test_a_copy_that_fails_raises(fake):
    with cm.device("cuda:0"):
        x = cm.asarray(np.arange(4.0))
        for read in (x.tolist, x[3].item):
            right = read()
            for call in ("cuMemcpyDtoHAsync", "cuStreamSynchronize"):
                fake.fail[call] = fake.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
                with pytest.raises(cm.cuda.CudaError, match="ILLEGAL_ADDRESS"):
                    read()
                assert read() == right


def test_devices_and_threads_have_staging_buffers_of_their_own(fake):
    with cm.device("cuda:0"):
        x = cm.asarray(np.arange(4.0))
        with cm.device("cuda:1"):
            y = cm.asarray(np.arange(9.0))
            for _ in range(2):
                assert (
                    float(x[3]) == 3 and float(y[8]) == 8 and x.tolist() == [0, 1, 2, 3]
                )  # x from beside its device
                assert y.tolist() == [*range(9)]

    def work(_):
        with cm.device("cuda:0"):
            for _ in range(50):
                assert float(x[2]) == 2 and x.tolist() == [0, 1, 2, 3]

    together(4, work)


@pytest.mark.simulator
def test_streams_and_errors(monkeypatch):
    """A stream on which something was read may end; what a kernel has flagged raises at the
    read."""
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
            for read in (lambda y: float(y[0]), lambda y: y.tolist()):
                y = x[cm.asarray([1, 9])]
                with pytest.raises(IndexError, match="out of range"):
                    read(y)
                assert float(x[1]) == 1


@pytest.mark.gpu
def test_on_a_gpu_of_every_dtype_and_bit():
    """Numbers and arrays again and again, among them what looks blank, in whole or in parts."""
    with cm.device("cuda"):
        for dtype in DTYPES:
            for seed in range(4):
                value = numbers((9, 50), dtype, seed)
                x = cm.asarray(value)
                assert x[5, 7].item() == value[5, 7].item()
                assert x.to_numpy().tobytes() == value.tobytes()
        for dtype in DTYPES[1:]:
            size = cm.dtype(dtype).itemsize
            data = np.random.default_rng(0).integers(1, 127, (20, size), dtype="u1")
            data[5], data[6, :4], data[7, -4:], data[8, 0] = (device_to_host.BLANK,) * 4
            value = data.reshape(-1).view(cm.dtype(dtype))
            x = cm.asarray(value)
            for i in [*range(20), 5, 5, 6, 7, 8]:
                assert np.array(x[i].item(), value.dtype).tobytes() == value[i].tobytes()


@pytest.mark.gpu
def test_on_a_gpu_behind_work_and_from_threads():
    """Behind products that take long; a value after another; on streams of threads, each in a room
    of its own."""
    with cm.device("cuda"):
        big, count, row = (
            cm.ones((4096, 4096), dtype="float32"),
            cm.zeros(()),
            cm.zeros(3000, dtype="int32"),
        )
        for i in range(1, 200):
            if i % 20 == 0:
                big = big @ big * 1e-4
            count += 1
            row += 1
            assert float(count) == i and (row.to_numpy() == i).all()
        turn = cm.zeros((), dtype="complex128")
        for i in range(1, 3000):
            turn += 1 - 3j
            assert turn.item() == i * (1 - 3j)

    def work(k):
        with cm.device("cuda"), cm.cuda.Stream():
            one, many = cm.full((), 1000.0 * k), cm.full(2000, 1000.0 * k)
            for i in range(1, 300):
                one += 1
                many += 1
                assert float(one) == 1000 * k + i and (many.to_numpy() == 1000 * k + i).all()

    together(4, work)
