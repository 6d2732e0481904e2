"""Tensor maps: encoded once an address, safe under streams, graphs and two devices (fake driver);
real ones on a GPU."""

import ctypes
import struct

import numpy as np
import pytest
from fake_driver import bind, gpu

import cudamath as cm
from cudamath.core.dispatch.arguments import Input, Output, TensorMap
from cudamath.runtime import tensormap
from cudamath.runtime.errors import CudaError
from cudamath.runtime.state import runtime


def words(address):
    """The words of a (fake) map: address, rank, sizes."""
    return struct.unpack("<16Q", ctypes.string_at(address, tensormap.BYTES))


def mapped(seen, *inputs, shape=(4, 8), index=0):
    """`run` of a plan whose kernel notes the map of its input and that of its output."""

    def kernel(read, write, out):
        seen.append((words(int(read)), words(int(write)), int(read)))
        out[0] = 1

    arguments = [
        TensorMap(Input(0), shape, None, (2, 8)),
        TensorMap(Output(0), shape, None, (2, 8), swizzle=0),
        Output(0).flat,
    ]
    return bind(kernel, list(inputs), [(shape, np.float32)], arguments, device=index)


def test_maps_describe_their_arrays(fake):
    seen = []
    x = gpu(np.zeros((4, 8), np.float32))
    run = mapped(seen, x)
    y = run(x)
    cm.cuda.synchronize()
    ((read, write, _),) = seen
    assert read[:4] == (x.ptr, 2, 8, 4) and write[:4] == (y.ptr, 2, 8, 4)


def test_an_address_is_encoded_once(fake):
    seen = []
    x, z = gpu(np.zeros((4, 8), np.float32)), gpu(np.ones((4, 8), np.float32))
    run = mapped(seen, x)
    for _ in range(5):
        run(x)
        run(z)
    cm.cuda.synchronize()
    assert {s[2]: s[0][0] for s in seen} == {seen[0][2]: x.ptr, seen[1][2]: z.ptr}
    assert (
        fake.calls["cuTensorMapEncodeTiled"] == 3
    )  # x, z and the one output block that is used again and again


def test_every_stream_sees_a_map_that_is_there(fake):
    """The fake's streams run as late as they may: the map must not wait in the queue of the stream
    that met it first."""
    seen = []
    x = gpu(np.zeros((4, 8), np.float32))
    run = mapped(seen, x)
    first, second = cm.cuda.Stream(), cm.cuda.Stream()
    with first:
        run(x)
    with second:
        run(x)
    second.synchronize()
    assert len(seen) == 1 and seen[0][0][0] == x.ptr
    first.synchronize()
    assert len(seen) == 2 and seen[1][0][0] == x.ptr


def test_two_devices_have_maps_of_their_own(fake):
    seen = []
    for index in (0, 1):
        with cm.device(f"cuda:{index}"):
            x = gpu(np.zeros((4, 8), np.float32), index)
            mapped(seen, x, index=index)(x)
            cm.cuda.synchronize()
            assert seen[-1][0][0] == x.ptr
    assert seen[0][2] != seen[1][2] and len(runtime.tensor_maps) == 2


def test_a_full_table_starts_again(fake, monkeypatch):
    monkeypatch.setattr(tensormap, "HALF", 8)
    monkeypatch.setattr(tensormap, "CHUNK", 4)
    seen = []
    arrays = [gpu(np.zeros((4, 8), np.float32)) for _ in range(30)]
    run = mapped(seen, arrays[0])
    for x in arrays * 2:
        run(x)
    cm.cuda.synchronize()
    assert [s[0][0] for s in seen] == [
        x.ptr for x in arrays * 2
    ]  # every launch found its own map, though run late
    assert len(runtime.tensor_maps[0].blocks) == 4


def test_a_graph_keeps_its_maps(fake, monkeypatch):
    monkeypatch.setattr(tensormap, "HALF", 8)
    monkeypatch.setattr(tensormap, "CHUNK", 4)
    seen = []
    x = gpu(np.zeros((4, 8), np.float32))
    run = mapped(seen, x)
    step = cm.cuda.graph(run)
    step(x)
    for _ in range(20):
        z = gpu(np.zeros((4, 8), np.float32))
        run(z)
        seen.append(z)  # kept: the next one lies elsewhere
    del seen[:]
    step(x)
    cm.cuda.synchronize()
    assert seen[-1][0][0] not in (0, z.ptr)


def test_what_no_map_can_describe():
    for strides in ((24, 4), (32, 8)):
        with pytest.raises(AssertionError, match="multiples of 16"):
            TensorMap(Input(0), (4, 6), strides, (2, 6)).template(np.dtype(np.float32))
    with pytest.raises(AssertionError, match="offset 8"):
        TensorMap(Input(0).view((4, 8), offset=8), (4, 8), None, (2, 8)).template(
            np.dtype(np.float32)
        )


@pytest.mark.gpu
def test_the_driver_takes_them():
    template = tensormap.Template((3, 40, 64), (40 * 128, 128, 2), (1, 8, 64), "bfloat16")
    window = tensormap.Template(
        (2, 14, 14, 64),
        (14 * 14 * 128, 14 * 128, 128, 2),
        (64, 64),
        "bfloat16",
        lower=(-1, -1),
        upper=(-1, -1),
    )
    assert len(template.encode(1 << 20)) == len(window.encode(1 << 20)) == tensormap.BYTES
    assert template.encode(1 << 20) != template.encode(1 << 21)
    with pytest.raises(CudaError):
        template.encode(8)
