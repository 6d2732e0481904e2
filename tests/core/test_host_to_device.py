"""Little arrays of the host on their way to a GPU: copied by way of a room from the second of a
layout on."""

from __future__ import annotations

import numpy as np
import pytest
from threads import together

import cudamath as cm
from cudamath.core import bounded_cache
from cudamath.core.transfer import host_to_device
from cudamath.runtime.state import runtime

DTYPES = [np.dtype(t) for t in ("?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16")] + [
    cm.dtype("bfloat16")
]
SHAPES = [(), (1,), (7,), (3, 5), (2, 0), (16, 16, 4)]


def numbers(shape, dtype, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 99).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_arrays_arrive(fake, shape, dtype):
    """Whatever their strides, first and later; what is made of them is no view of anything."""
    with cm.device("cuda:0"):
        made = []
        for seed in range(4):
            value = numbers(shape, dtype, seed)
            turned = value.T.copy().T if seed % 2 else value[::-1].copy()[::-1] if shape else value
            arrays = [
                cm.asarray(value),
                cm.array(turned),
                cm.asarray(value.tolist(), dtype),
                cm.asarray(value, "c16"),
            ]
            made += [(value, x) for x in arrays]
            assert [x.dtype for x in arrays] == [dtype] * 3 + ["c16"] and {
                x.shape for x in arrays
            } == {shape}
            assert all(x.is_contiguous or x.T.is_contiguous for x in arrays)  # in NumPy's order
        for value, x in made:
            x, value = (x, value) if x.is_contiguous else (x.T, value.T)
            np.testing.assert_array_equal(x.to_numpy(), value.astype(x.dtype))


def test_the_callers_array_may_change_at_once(fake):
    """Also one in page-locked memory, which the device reads later."""
    with cm.device("cuda:0"):
        for host in (np.zeros(40, "f4"), cm.cuda.pinned(40, "f4"), cm.cuda.pinned(1 << 16, "f4")):
            for i in range(1, 4):
                host[...] = i
                x = cm.asarray(host)
                host[...] = -1
                assert (x.to_numpy() == i).all()


def test_what_goes_by_way_of_a_room(fake):
    """One copy and no question; what is too large goes straight."""
    with cm.device("cuda:0"):
        for count, questions in (
            (1, 0),
            (host_to_device.MOST // 4, 0),
            (host_to_device.MOST // 4 + 1, 1),
        ):
            value = np.arange(count, dtype="f4")
            cm.asarray(value)
            before = dict(fake.calls)
            x = cm.asarray(value)
            assert fake.calls["cuMemcpyHtoDAsync"] == before["cuMemcpyHtoDAsync"] + 1
            assert (
                fake.calls["cuPointerGetAttribute"] == before["cuPointerGetAttribute"] + questions
            )
            np.testing.assert_array_equal(x.to_numpy(), value)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_assignment_is_one_copy(fake, dtype):
    """To all of an array or to a part of it that lies in one piece, of the same shape and dtype;
    whatever host strides."""
    with cm.device("cuda:0"):
        for count in (6, host_to_device.MOST // 8):  # through a staging buffer, and straight
            expected = np.zeros((8, count), dtype)
            x = cm.asarray(expected)
            cm.cuda.synchronize()
            fake.launches.clear()
            for i, key in enumerate([..., slice(None), slice(2, 5), 7, (3, slice(1, 4)), (1, ...)]):
                value = numbers((*expected[key].shape[::-1], 2), dtype, i)[..., 0].T
                before, used = fake.calls["cuMemcpyHtoDAsync"], cm.cuda.memory_allocated()
                x[key] = value
                expected[key] = value
                assert (fake.calls["cuMemcpyHtoDAsync"], cm.cuda.memory_allocated()) == (
                    before + 1,
                    used,
                )
                np.testing.assert_array_equal(x.to_numpy(), expected)
            assert fake.launches == []


def test_the_callers_memory_may_change_after_an_assignment(fake):
    with cm.device("cuda:0"):
        for host in (np.zeros(40, "f4"), cm.cuda.pinned(40, "f4"), cm.cuda.pinned(1 << 16, "f4")):
            x, z = cm.asarray(host), cm.asarray(np.zeros(0))
            for i in range(1, 4):
                host[...] = i
                x[...] = host
                host[...] = -1
                assert (x.to_numpy() == i).all()
                z[...] = np.zeros(0)


def test_assignment_on_another_stream_keeps_the_memory(fake):
    """The array's block is not given to others before the copy has run."""
    with cm.device("cuda:0"):
        host = np.ones(300, "f4")
        x = cm.asarray(host)
        cm.cuda.synchronize()
        stream = cm.cuda.Stream()
        with stream:
            x[...] = host * 2
            assert stream in (x._owner.users or ())
            assert (x.to_numpy() == 2).all()


def test_each_device_and_dtype_has_its_own(fake):
    with cm.device("cuda:0"):
        for _ in range(3):
            for dtype in ("i4", ">i4", "f4", "u4"):
                value = np.arange(1, 6).astype(dtype)
                for device in ("cuda:0", "cuda:1", "cpu"):
                    x = cm.asarray(value, device=device)
                    assert str(x.device) == device and x.tolist() == [1, 2, 3, 4, 5]
                    assert x.dtype == value.dtype.newbyteorder("=")


def test_copy_false_and_subclasses(fake):
    class Named(np.ndarray):
        pass

    with cm.device("cuda:0"):
        value = np.arange(6.0)
        for _ in range(2):
            cm.asarray(value)
            with pytest.raises(
                ValueError,
                match="^asarray: ndarray cannot become an array on cuda:0 without a copy",
            ):
                cm.asarray(value, copy=False)
            assert cm.asarray(value.view(Named)).tolist() == value.tolist()
            with pytest.raises(TypeError, match="^asarray: .* a mask would be lost"):
                cm.asarray(np.ma.masked_greater(value, 3))


def test_in_a_graph_and_under_a_profile(fake, monkeypatch):
    """A graph has the values of its capture; a profile sees the copy."""
    with cm.device("cuda:0"):
        value = np.arange(3.0)
        for _ in range(2):
            y = cm.asarray(value)
        with cm.cuda.capture() as graph:
            x = cm.asarray(value)
            y[...] = value
        value[:] = 7
        y[...] = value
        graph.replay()
        assert x.tolist() == y.tolist() == [0, 1, 2]
        seen = []
        runtime.observe_copy = lambda kind, nbytes, _, work: seen.append((kind, nbytes)) or work()
        x = cm.asarray(value)
        y[...] = value
        assert seen == [("copy host to device", 24)] * 2
        runtime.observe_copy = None
        assert x.tolist() == y.tolist() == [7, 7, 7]


def test_a_copy_that_fails_raises(fake):
    with cm.device("cuda:0"):
        value = np.arange(4.0)
        for _ in range(2):
            cm.asarray(value)
        used = cm.cuda.memory_allocated()
        fake.fail["cuMemcpyHtoDAsync"] = fake.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
        with pytest.raises(cm.cuda.CudaError, match="ILLEGAL_ADDRESS"):
            cm.asarray(value)
        assert cm.cuda.memory_allocated() == used
        x = cm.asarray(value)
        fake.fail["cuMemcpyHtoDAsync"] = fake.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
        with pytest.raises(cm.cuda.CudaError, match="ILLEGAL_ADDRESS"):
            x[...] = value
        assert cm.asarray(value).tolist() == [0, 1, 2, 3]


def test_the_table_does_not_grow_for_ever(fake, monkeypatch):
    monkeypatch.setattr(bounded_cache, "MOST", 4)
    with cm.device("cuda:0"):
        for n in [*range(1, 30), 1, 2]:
            assert cm.asarray(np.arange(n)).tolist() == [*range(n)]
        assert len(host_to_device.writers) <= 4


def check_from_threads(device, rounds):
    def work(k):
        with cm.device(device):
            host = np.zeros((5, 9), "f4")
            for i in range(rounds):
                host[...] = 1000 * k + i
                x = cm.asarray(host)
                host[...] = -1
                assert (x.to_numpy() == 1000 * k + i).all()

    together(4, work)


def test_threads_have_staging_buffers_of_their_own(fake):
    check_from_threads("cuda:0", 30)


@pytest.mark.gpu
def test_on_a_gpu_behind_work():
    """The device is busy when the caller's memory changes: pageable, page-locked, and a list; of
    every dtype; from threads."""
    check_from_threads("cuda", 300)
    with cm.device("cuda"):
        big = cm.ones((4096, 4096), dtype="float32")
        for dtype in DTYPES:
            for host in (np.empty((9, 50), dtype), cm.cuda.pinned((9, 50), dtype)):
                kept = []
                for seed in range(6):
                    big = big @ big * 1e-4
                    value = numbers((9, 50), dtype, seed)
                    host[...] = value
                    kept.append((value, cm.asarray(host)))
                    host[...] = 0
                for value, x in kept:
                    assert x.to_numpy().tobytes() == value.tobytes()
                x, y = cm.zeros((9, 50), dtype), cm.zeros((3, 9, 50), dtype)
                host[...] = value
                big = big @ big * 1e-4
                x[...] = host
                y[1] = host
                y[2] = host.T.copy().T
                host[...] = 0
                assert x.to_numpy().tobytes() == value.tobytes()
                assert [part.tobytes() for part in y.to_numpy()] == [
                    host.tobytes(),
                    value.tobytes(),
                    value.tobytes(),
                ]
