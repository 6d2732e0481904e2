"""Arrays of other libraries in and out without a copy: NumPy, torch (CPU and CUDA), CuPy; both
protocols; lifetimes."""

import ctypes
import gc
import operator
import subprocess
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

import cudamath as cm
from cudamath.core.asarray import upload
from cudamath.core.interop import dlpack
from cudamath.runtime.memory import pool_of
from cudamath.runtime.state import runtime

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def values(dtype):
    x = np.arange(12).reshape(3, 4) % 5
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


class Exporter:
    """Another library's array: it only speaks DLPack."""

    def __init__(self, x, old=False, copy=None):
        self.x, self.old, self.copy, self.asked = x, old, copy, []

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        if self.old and "max_version" in arguments:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.x.__dlpack__(**{"copy": self.copy} | arguments)


# -------------------- on the CPU


def test_numpy_shares_memory():
    host = np.arange(12.0).reshape(3, 4)
    for seen in (host, host.T, host[::2, ::-1], host[:, :1], np.broadcast_to(host, (2, 3, 4))):
        x = cm.asarray(seen, device="cpu")
        assert (
            x.ptr == seen.ctypes.data
            and x.strides == seen.strides
            and np.shares_memory(x.to_numpy(), host)
        )
        assert (np.asarray(x) == seen).all() and np.shares_memory(np.asarray(x), host)
    x = cm.asarray(host, device="cpu")
    host[0, 0] = 77
    assert x[0, 0].item() == 77
    x[0, 1] = 55.0
    assert host[0, 1] == 55
    back = np.from_dlpack(x)
    assert np.shares_memory(back, host) and back.strides == host.strides
    del back
    assert not np.shares_memory(cm.asarray(host, device="cpu", copy=True).to_numpy(), host)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_on_the_cpu(torch, dtype):
    host = values(dtype)
    t = torch.from_dlpack(cm.asarray(host, device="cpu"))
    assert (
        str(t.dtype) == f"torch.{dtype}" and t.data_ptr() == host.ctypes.data and t.shape == (3, 4)
    )
    assert t.to(torch.complex128).tolist() == host.astype(complex).tolist()
    for seen, expected in (
        (t, host),
        (t.T, host.T),
        (t[1:, ::2], host[1:, ::2]),
        (t[:, None], host[:, None]),
        (t[0, 0], host[0, 0]),
    ):
        x = cm.asarray(seen)
        assert (
            x.device == "cpu"
            and x.ptr == seen.data_ptr()
            and x.dtype == host.dtype
            and x.shape == expected.shape
        )
        assert x.tobytes() == expected.tobytes()
    x, address = cm.from_dlpack(t.clone()), t.data_ptr()
    del t
    gc.collect()
    assert (
        x.tobytes() == host.tobytes() and x.ptr != address
    )  # the tensor lives as long as our array


def test_torch_writes_show(torch):
    x = cm.zeros(4, device="cpu")
    t = torch.from_dlpack(x)
    t += 3
    assert x.tolist() == [3] * 4
    x += 1
    assert t.tolist() == [4] * 4


def fields(of, count=5):
    """A field of records that are no multiple of its size apart, forwards, backwards and in two
    dimensions."""
    records = np.zeros(count, [("a", of), ("b", "V3")])
    records["a"] = np.arange(count)
    square = np.zeros((2, 3), records.dtype)
    square["a"] = np.arange(6).reshape(2, 3)
    return [records["a"], records["a"][::-1], square["a"].T, square["a"][:, ::-2]]


@pytest.mark.parametrize("dtype", ["int16", "float32", "float64", "complex128", "bfloat16"])
def test_strides_that_dlpack_cannot_say_are_copied(torch, dtype):
    for host in fields(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype):
        x = cm.asarray(host, device="cpu")
        assert x.strides == host.strides and any(s % host.itemsize for s in host.strides)
        for copy in (None, True):
            t = torch.from_dlpack(Exporter(x, copy=copy))
            assert (
                t.shape == host.shape
                and t.to(torch.complex128).tolist() == host.astype(complex).tolist()
            )
            assert t.data_ptr() != host.ctypes.data
        with pytest.raises(BufferError, match=r"^__dlpack__: strides \(.*that would need a copy"):
            x.__dlpack__(copy=False)
        one = x[:1].T[:1].T  # no step is ever taken
        back = (
            np.from_dlpack(one)
            if dtype != "bfloat16"
            else torch.from_dlpack(one).to(torch.float32).numpy()
        )
        assert back.tolist() == one.tolist() and (
            dtype == "bfloat16" or np.shares_memory(back, host)
        )


def test_a_copy_says_that_it_is_one():
    x = cm.zeros((2, 3), device="cpu")
    for copy in (None, False, True):
        capsule = x.__dlpack__(max_version=(1, 0), copy=copy)
        assert dlpack._opened(capsule)[1].flags == (
            2 if copy else 0
        )  # bits of the specification: 1 read-only, 2 copied


def test_torch_that_needs_a_gradient_is_refused(torch):
    with pytest.raises(BufferError, match="^asarray: .*grad"):
        cm.asarray(torch.ones(3, requires_grad=True))


def test_torch_that_is_conjugate_or_negative_by_a_bit_is_refused(torch):
    """torch itself refuses the former and exports the latter as it lies in memory: with the wrong
    sign."""
    z = (torch.ones(2, 3, dtype=torch.complex64) * 1j).conj()
    for take in (cm.asarray, cm.from_dlpack):
        with pytest.raises(BufferError, match=f"^{take.__name__}: .*conj"):
            take(z)
        with pytest.raises(
            BufferError, match=rf"^{take.__name__}: torch.float32 of shape \(2, 3\) .*resolve_neg"
        ):
            take(z.imag)
        assert take(z.imag.resolve_neg()).tolist() == z.imag.tolist() == [[-1.0] * 3] * 2
        assert take(z.resolve_conj()).tolist() == [[-1j] * 3] * 2


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_torch_that_has_no_dtype_here_is_refused(torch):
    with pytest.raises(TypeError, match="^from_dlpack: DLPack type "):
        cm.from_dlpack(torch.zeros(3).to(torch.complex32))


@pytest.mark.parametrize("old", [False, True])
def test_lent_memory_goes_back(old):
    x = cm.asarray(np.arange(5.0), device="cpu")
    data = weakref.ref(x._data)
    y = cm.from_dlpack(Exporter(x, old))
    address = x.ptr
    del x
    gc.collect()
    assert y.ptr == address and data() is not None
    view = y[1:]
    del y
    assert view.tolist() == [1, 2, 3, 4] and data() is not None
    del view
    assert data() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_capsule_nobody_took_goes_back(version, dtype):
    x = cm.zeros(3, dtype, device="cpu")
    data = weakref.ref(x._data)
    capsule = x.__dlpack__(max_version=version)
    del x
    assert data() is not None
    del capsule
    assert data() is None


def test_what_is_lent_may_end_while_an_exception_is_on_its_way():
    """As where a consumer refuses what it is given: its own exception arrives, and the memory goes
    back."""
    x = cm.zeros(3, device="cpu")
    data = weakref.ref(x._data)
    with pytest.raises(IndexError, match="only integers, slices"):
        operator.getitem(np.from_dlpack(x), "text")  # the operands end where the call has failed
    with pytest.raises(TypeError, match="not subscriptable"):
        operator.getitem(x.__dlpack__(), "text")
    del x
    assert data() is None
    x = cm.zeros(3, "bfloat16", device="cpu")
    data = weakref.ref(x._data)
    with pytest.raises((BufferError, RuntimeError), match="Unsupported dtype"):
        np.from_dlpack(x)
    del x
    assert data() is None


def test_memory_that_is_lent_when_the_interpreter_ends():
    """Consumers drop it after this package's modules are gone: nothing may be called back, nor
    freed under them."""
    code = """if True:
        import builtins, numpy as np, cudamath as cm
        x = cm.arange(10.0, device="cpu")
        builtins.kept = [np.from_dlpack(x), x.__dlpack__(), cm.from_dlpack(np.arange(3.0))]
        builtins.kept.append(cm.from_dlpack(x))
        try:
            import torch
            torch.kept = builtins.kept_too = torch.from_dlpack(x)
        except ImportError:
            pass
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_capsule_serves_once():
    capsule = cm.zeros(3, device="cpu").__dlpack__()

    class Once(Exporter):
        def __dlpack__(self, **arguments):
            return capsule

    once = Once(cm.zeros(3, device="cpu"))
    x = cm.from_dlpack(once)
    with pytest.raises((ValueError, BufferError)):
        cm.from_dlpack(once)
    assert x.shape == (3,)


def test_the_name_of_a_capsule_that_was_taken_stays():
    """Its end, in another library's code, asks for the name."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    kept = []
    for old, label in ((True, b"used_dltensor"), (False, b"used_dltensor_versioned")):
        capsule = np.arange(3.0).__dlpack__(max_version=None if old else (1, 0))

        class Once(Exporter):
            def __dlpack__(self, capsule=capsule, **arguments):
                return capsule

        x = cm.from_dlpack(Once(np.arange(3.0)))
        kept += [
            bytes([i]) * len(label) for i in range(100)
        ]  # takes the place of bytes that were freed
        assert name(capsule) == label and x.shape == (3,)


def test_read_only_memory_stays_read_only():
    host = np.arange(3.0)
    host.flags.writeable = False
    x = cm.from_dlpack(Exporter(cm.asarray(host, device="cpu")))
    assert not x.to_numpy().flags.writeable


def test_what_dlpack_cannot_say():
    for dtype in ("float8_e4m3", "float8_e5m2"):
        with pytest.raises(BufferError, match="__dlpack__: float8.* has no DLPack type"):
            cm.asarray(
                np.zeros(3, cm.float8_e4m3 if dtype.endswith("m3") else cm.float8_e5m2),
                device="cpu",
            ).__dlpack__()

    class Elsewhere(Exporter):
        def __dlpack_device__(self):
            return (10, 0)  # ROCm

    with pytest.raises(
        BufferError, match="from_dlpack: cannot take an array from DLPack device type 10"
    ):
        cm.from_dlpack(Elsewhere(cm.zeros(3, device="cpu")))


# -------------------- the GPU side of the protocols, by the fake driver


def test_dlpack_between_gpu_libraries(fake):
    x = upload(np.arange(12.0).reshape(3, 4), 0)
    lender = Exporter(x)
    y = cm.asarray(lender)
    assert y.ptr == x.ptr and y.device == "cuda:0" and y.tolist() == x.tolist()
    assert lender.asked == [{"max_version": (1, 0), "stream": 1}]
    t = x._view(x._layout.view((4, 3), (8, 32)))
    z = cm.from_dlpack(Exporter(t))
    assert z.ptr == x.ptr and z.strides == (8, 32) and z.shape == (4, 3)
    used = pool_of(0).used
    del x, t, lender
    gc.collect()
    assert pool_of(0).used == used
    del y, z
    gc.collect()
    assert pool_of(0).used == 0


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_lent_memory_of_a_gpu_may_end_while_an_exception_is_on_its_way(fake, version):
    with pytest.raises(TypeError, match="not subscriptable"):
        operator.getitem(upload(np.zeros(1000), 0).__dlpack__(max_version=version), "text")
    assert pool_of(0).peak and not pool_of(0).used


def test_dlpack_orders_the_consumers_stream_after_ours(fake):
    theirs = cm.cuda.Stream()
    x = upload(np.arange(4.0), 0)  # queued on our stream
    x.__dlpack__(stream=theirs.ptr)
    out = np.empty(4)
    fake.cuMemcpyDtoHAsync(out.ctypes.data, x.ptr, 32, theirs.ptr)  # the consumer's work
    assert out.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="__dlpack__: stream 0 is ambiguous"):
        x.__dlpack__(stream=0)
    waits = fake.calls["cuStreamWaitEvent"]
    x.__dlpack__(stream=-1)
    x.__dlpack__(stream=1)
    assert fake.calls["cuStreamWaitEvent"] == waits


def test_cuda_array_interface(fake):
    x = upload(np.arange(12, dtype=np.float32).reshape(3, 4), 0)
    interface = x.__cuda_array_interface__
    assert interface == {
        "shape": (3, 4),
        "typestr": "<f4",
        "data": (x.ptr, False),
        "version": 3,
        "strides": None,
        "stream": 1,
    }
    seen = x._view(x._layout.view((4, 2), (4, 32)))
    assert seen.__cuda_array_interface__["strides"] == (4, 32)

    class Foreign:
        def __init__(self, interface):
            self.__cuda_array_interface__ = interface

    foreign = Foreign(seen.__cuda_array_interface__)
    y = cm.asarray(foreign)
    assert y.ptr == x.ptr and y.strides == (4, 32) and y.shape == (4, 2)
    assert x.flags.owndata and not y.flags.owndata  # as NumPy's, of memory that another has
    kept = weakref.ref(foreign)
    del foreign
    assert kept() is not None
    del y
    assert kept() is None
    with pytest.raises(TypeError, match="asarray: arrays of datetime64"):
        cm.asarray(Foreign({**interface, "typestr": "<M8[s]"}))
    with pytest.raises(AttributeError, match="the array is on the CPU"):
        cm.zeros(3, device="cpu").__cuda_array_interface__  # noqa: B018
    bf16 = upload(np.zeros(3, ml_dtypes.bfloat16), 0)
    with pytest.raises(AttributeError, match="use DLPack"):
        bf16.__cuda_array_interface__  # noqa: B018
    assert (
        not hasattr(bf16, "__cuda_array_interface__")
        and cm.from_dlpack(Exporter(bf16)).dtype == ml_dtypes.bfloat16
    )


class Described:
    """Another library's array, by what it says of itself."""

    def __init__(self, x, reading=False, **more):
        self.x = x
        self.__cuda_array_interface__ = (
            x.__cuda_array_interface__ | {"data": (x.ptr, reading)} | more
        )


def test_numbers_where_a_gpu_cannot_read_them(fake):
    """The first kernel that read one would have lost the context, and all that is in it. (The
    layouts are the same.)"""
    for _ in range(2):
        x = upload(np.arange(16, dtype="f4"), 0)
        for at in (2, 1):
            part = x[at : at + 8]
            for dtype in ("f8", "i8", "c8", "c16"):
                if at == 2:
                    assert part.view(dtype).to_numpy().tobytes() == part.to_numpy().tobytes()
                else:
                    with pytest.raises(
                        ValueError,
                        match=f"^view: {np.dtype(dtype)} of shape .* multiples of 8 bytes only",
                    ):
                        part.view(dtype)
            assert part.view("i4").view("u1").view("f4").shape == (8,)
        with pytest.raises(ValueError, match="^view: float32 of shape"):
            x.view("u1")[3:7].view("f4")
        for more in (
            {"typestr": "<f8", "shape": (3,), "data": (x.ptr + 4, False)},
            {"typestr": "<f8", "shape": (3,), "strides": (12,)},
        ):
            with pytest.raises(
                ValueError, match="^asarray: float64 of shape .* multiples of 8 bytes only"
            ):
                cm.asarray(Described(x, **more))
        assert cm.asarray(Described(x, typestr="<f8", shape=(3,), strides=(16,))).shape == (3,)


def lent_to_read(x, protocol):
    """The memory of `x` as it comes from a library that lends it to be read."""
    y = cm.asarray(Described(x, True))
    return y if protocol == "cuda array interface" else cm.from_dlpack(Exporter(y))


#: (the name in the error, a change of a (4, 4) float32 array by an equal one, a mask, and places in
#: it)
CHANGES = [
    ("setitem", lambda x, y, mask, at: operator.setitem(x, ..., 1.0)),
    ("setitem", lambda x, y, mask, at: operator.setitem(x, slice(None), y)),
    ("setitem", lambda x, y, mask, at: operator.setitem(x, ..., np.ones((4, 4), np.float32))),
    ("setitem", lambda x, y, mask, at: operator.setitem(x, (1, 2), 1.0)),
    ("setitem", lambda x, y, mask, at: operator.setitem(x, mask, 1.0)),
    ("setitem", lambda x, y, mask, at: operator.setitem(x, at, 1.0)),
    ("setitem", lambda x, y, mask, at: operator.setitem(x, at, y[:2])),
    ("setitem", lambda x, y, mask, at: x.fill(3)),
    (
        "setitem",
        lambda x, y, mask, at: operator.setitem(x[1:].T, ..., 1.0),
    ),  # views: of known forms, and of new ones
    ("setitem", lambda x, y, mask, at: operator.setitem(x.reshape(16)[::3], ..., 1.0)),
    ("add", lambda x, y, mask, at: operator.iadd(x, 1)),
    ("add", lambda x, y, mask, at: operator.iadd(x, y)),
    ("multiply", lambda x, y, mask, at: operator.imul(x, x)),
    ("add", lambda x, y, mask, at: cm.add(y, y, out=x)),
    ("add", lambda x, y, mask, at: cm.add(x, y, out=x)),
    ("exp", lambda x, y, mask, at: cm.exp(y, out=x, where=mask)),
    ("clip", lambda x, y, mask, at: cm.clip(y, 0, 1, out=x)),
    ("sum", lambda x, y, mask, at: cm.sum(y, axis=0, out=x[0])),
    ("matmul", lambda x, y, mask, at: cm.matmul(y, y, out=x)),
    ("copyto", lambda x, y, mask, at: cm.copyto(x, y)),
    ("copyto", lambda x, y, mask, at: cm.copyto(x, y, where=mask)),
    ("put", lambda x, y, mask, at: cm.put(x, at, y[0, :2])),
    ("putmask", lambda x, y, mask, at: cm.putmask(x, mask, 1.0)),
    ("put_along_axis", lambda x, y, mask, at: cm.put_along_axis(x, at.reshape(1, 2), 1.0, axis=1)),
    ("fill_diagonal", lambda x, y, mask, at: cm.fill_diagonal(x, 1.0)),
    ("add_at", lambda x, y, mask, at: cm.add_at(x, at, y[:2])),
    ("copy_to", lambda x, y, mask, at: y.copy_to(x)),
    ("sgd_update", lambda x, y, mask, at: cm.ml.sgd_update([x], [y], lr=0.1)),
]


@pytest.mark.parametrize("protocol", ["dlpack", "cuda array interface"])
@pytest.mark.parametrize(
    ("name", "change"), CHANGES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CHANGES)]
)
def test_memory_of_a_gpu_that_is_lent_to_be_read_is_not_changed(
    fake, monkeypatch, protocol, name, change
):
    """Neither at first nor where such a change of other arrays has been seen before. (Kernels do
    nothing here.)"""
    runtime.compiler = lambda kernel, *rest: fake.compiler(lambda *arguments: None, *rest)
    host = np.arange(16, dtype=np.float32).reshape(4, 4)
    source, other, mask, at = [upload(part, 0) for part in (host, host, host > 3, np.array([0, 2]))]
    x = lent_to_read(source, protocol)
    assert not x.flags.writeable and source.flags.writeable
    for _ in range(2):
        fake.launches.clear()
        with pytest.raises(ValueError, match=f"^{name}: .*read-only"):
            change(x, other, mask, at)
        seen = [
            words[4]
            for launch in fake.launches
            for _, words, _ in filter(lambda part: type(part) is tuple, launch[-1])
        ]
        assert not [address for address in seen if 0 <= address - source.ptr < source.nbytes]
        assert source.tolist() == host.tolist()
        for _ in range(2):  # of an array that may be changed
            change(upload(host, 0), other, mask, at)


def test_what_is_lent_to_be_read_is_lent_on_to_be_read(fake):
    x = lent_to_read(upload(np.arange(4.0), 0), "cuda array interface")
    assert x.__cuda_array_interface__["data"] == (x.ptr, True) and x[1:].__cuda_array_interface__[
        "data"
    ] == (x.ptr + 8, True)
    assert (
        dlpack._opened(x.__dlpack__(max_version=(1, 0)))[1].flags == 1
    )  # bit of the specification: read-only
    with pytest.raises(BufferError, match="^__dlpack__: float64 .* is read-only"):
        x.__dlpack__()
    free = x.to("cpu").to("cuda:0")
    free[...] = np.ones(4)
    assert free.flags.writeable and free.tolist() == [1] * 4 and x.tolist() == [0, 1, 2, 3]


def test_a_graph_does_not_change_what_is_lent_to_be_read(fake):
    step = cm.cuda.graph(lambda total, batch: batch.copy_to(total))
    batch = upload(np.ones(4), 0)
    for _ in range(3):  # runs, records, replays
        total = upload(np.zeros(4), 0)
        step(total, batch)
        assert total.tolist() == [1] * 4
        kept = total  # the next one lies elsewhere
    source = upload(np.zeros(4), 0)
    with pytest.raises(ValueError, match="^graph: .*read-only"):
        step(lent_to_read(source, "dlpack"), batch)
    assert source.tolist() == [0] * 4 and kept is total


def test_a_mask_is_not_lost(fake):
    x = upload(np.arange(4.0), 0)
    assert cm.asarray(Described(x, mask=None)).tolist() == [0, 1, 2, 3]
    with pytest.raises(
        TypeError, match=r"^asarray: a mask would be lost of float64 of shape \(4,\)"
    ):
        cm.asarray(Described(x, mask=Described(x)))


@pytest.mark.parametrize("protocol", ["dlpack", "cuda array interface"])
def test_memory_lent_to_the_default_stream_is_reused_after_it(fake, protocol):
    """The consumer's copy is queued there when it drops the array: our next array must not
    overwrite it."""
    cm.cuda.current_stream()
    out = cm.cuda.pinned(4, "float64")
    default = cm.cuda.external_stream(0)
    with cm.cuda.Stream() as ours:
        x = upload(np.arange(4.0), 0)
        if protocol == "dlpack":
            lent = x.__dlpack__(stream=1)
        else:
            lent, waited = x, x.__cuda_array_interface__["stream"]
            assert waited == ours.ptr
            default.wait(cm.cuda.external_stream(waited))
        fake.cuMemcpyDtoHAsync(out.ctypes.data, x.ptr, 32, 0)
        del x, lent
        again = upload(np.full(4, -1.0), 0)  # takes the block
        ours.synchronize()
        default.synchronize()
        assert out.tolist() == [0, 1, 2, 3] and again.tolist() == [-1] * 4


# -------------------- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_on_a_gpu(torch, dtype):
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    host = values(dtype)
    x = cm.asarray(host, device="cuda:0")
    t = torch.from_dlpack(x)
    assert t.data_ptr() == x.ptr and t.device.index == 0 and str(t.dtype) == f"torch.{dtype}"
    for seen, expected in ((t, host), (t.T, host.T), (t[1:, ::2], host[1:, ::2])):
        y = cm.asarray(seen)
        assert y.ptr == seen.data_ptr() and y.device == "cuda:0" and y.dtype == host.dtype
        assert y.to_numpy().tobytes() == np.ascontiguousarray(expected).tobytes()
    if dtype not in ("bfloat16", "bool"):
        assert (cm.asarray(t + t).to_numpy() == host + host).all()
        assert torch.as_tensor(x, device="cuda").data_ptr() == x.ptr


@pytest.mark.gpu
def test_torch_streams_on_a_gpu(torch):
    """Work of both libraries, each on its own stream, stays in order through the protocol."""
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    side = torch.cuda.Stream()
    for turn in range(10):
        with torch.cuda.stream(side):
            t = torch.full((1 << 22,), float(turn), device="cuda:0")
            for _ in range(10):
                t = t + 1
            with cm.cuda.external_stream(side.cuda_stream, 0):
                x = cm.asarray(t)
                y = x * 2
                back = torch.from_dlpack(y) - 1
        side.synchronize()
        assert bool((back == 2 * (turn + 10) - 1).all())
    with cm.cuda.Stream(0) as ours:
        t = torch.full((1 << 22,), 3.0, device="cuda:0")
        x = cm.asarray(t)  # our stream waits for torch's
        y = x + 1
        back = torch.from_dlpack(y)  # torch's stream waits for ours
        assert bool((back == 4).all())
        del t, x
        ours.synchronize()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_cupy_on_a_gpu(cupy, dtype):
    host = values(dtype)
    theirs = cupy.asarray(host)
    for seen, expected in ((theirs, host), (theirs.T, host.T), (theirs[1:, ::-2], host[1:, ::-2])):
        x = cm.asarray(seen)
        assert x.ptr == seen.data.ptr and x.dtype == host.dtype and x.strides == seen.strides
        assert x.to_numpy().tobytes() == np.ascontiguousarray(expected).tobytes()
    x = cm.asarray(host, device="cuda:0")
    for back in (cupy.asarray(x), cupy.from_dlpack(x)):
        assert back.data.ptr == x.ptr and (back.get() == host).all()
    with cupy.cuda.Stream(non_blocking=True) as s:
        y = cm.asarray(cupy.arange(1000, dtype="float32") * 2)
        with cm.cuda.external_stream(s.ptr, 0):
            assert (y + 1).to_numpy()[-1] == 1999


@pytest.mark.gpu
def test_numba_on_a_gpu():
    from numba import cuda

    x = cm.arange(10, dtype="float32", device="cuda:0")
    view = cuda.as_cuda_array(x)
    assert view.__cuda_array_interface__["data"][
        0
    ] == x.ptr and view.copy_to_host().tolist() == list(range(10))
    y = cm.asarray(cuda.to_device(np.arange(5.0)))
    assert y.device == "cuda:0" and y.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.gpu
def test_memory_of_torch_outlives_the_tensor_on_a_gpu(torch):
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    x = cm.asarray(torch.arange(1000.0, device="cuda:0"))
    noise = [torch.full((1000,), -1.0, device="cuda:0") for _ in range(20)]
    assert (x.to_numpy() == np.arange(1000)).all() and len(noise) == 20
    t = torch.from_dlpack(cm.arange(1000.0, device="cuda:0"))
    more = [cm.full(1000, -1.0, device="cuda:0") for _ in range(20)]
    assert t.cpu().tolist() == list(range(1000)) and len(more) == 20


def test_memory_that_holds_negatives_is_refused(device):
    """PyTorch exports it without a word."""

    class Negative:
        dtype, shape = "float32", (2,)

        def __init__(self, answer):
            self.is_neg = lambda: answer

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            return np.ones(2, "f4").__dlpack__()

    assert cm.from_dlpack(Negative(False)).tolist() == [1, 1]
    with pytest.raises(BufferError, match=r"^from_dlpack: float32 of shape \(2,\) is negative"):
        cm.from_dlpack(Negative(True))
