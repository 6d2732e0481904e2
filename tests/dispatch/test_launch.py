"""From a plan to the driver: argument words, generated run code, compiled-kernel cache, users'
kernels."""

import ctypes
import functools
import inspect
import os
import pathlib
import re
import struct
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest
from fake_driver import bind, gpu, public
from threads import together

import cudamath as cm
from cudamath.core.dispatch.arguments import (
    Addresses,
    Constant,
    Flag,
    Input,
    Output,
    Scalar,
    Temp,
    Ticket,
)
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.plan_codegen import MOST_NAMED, array_words
from cudamath.core.dispatch.steps import Call, Launch, triple
from cudamath.core.layout import Layout
from cudamath.cuda import kernels as user_kernels
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.compiler.compile import compile_cubin
from cudamath.runtime import cubin_cache, kernel_errors, kernel_launch, stream
from cudamath.runtime.memory import pool_of
from cudamath.runtime.roofline import Work
from cudamath.runtime.state import runtime

ROOT = pathlib.Path(__file__).parents[2]


# -------------------- words


@pytest.mark.parametrize(
    "shape, order",
    [((3,), "C"), ((2, 3), "C"), ((2, 3), "F"), ((), "C"), ((0, 4), "C"), ((2, 1, 5), "C")],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
def test_array_words_are_numbas(shape, order, dtype):
    """Numba's own flattening of an array argument for a kernel: meminfo, parent, size, itemsize,
    data, shape, strides."""
    lazy_numba.numba_cuda()  # NumPy 2.5 lacks a name that it needs
    from numba.core import types
    from numba.cuda import compile as compile_cuda
    from numba.cuda.core import registry  # noqa: F401  numba-cuda's data models

    x = np.zeros(shape, dtype, order=order)
    words = array_words(Layout.of(x.shape, x.strides, x.dtype, 0))
    seen = x if x.ndim else x.reshape(1)
    assert words == [0, 0, x.size, x.itemsize, 0, *seen.shape, *seen.strides]
    kinds = types.void(types.Array(types.float32, seen.ndim, "A"), types.complex64)
    code, _ = compile_cuda(
        lambda a, z: None, kinds, output="ptx", abi="numba", device=False, cc=(9, 0)
    )
    assert (
        re.findall(r"\.param \.(\w+)", code) == ["u64"] * len(words) + ["f32"] * 2
    )  # as many words as we give


@pytest.mark.parametrize(
    "value, raw",
    [
        (5, struct.pack("<q", 5)),
        (-5, struct.pack("<q", -5)),
        ((1 << 64) - 1, b"\xff" * 8),
        (np.int32(-1), b"\xff" * 4 + b"\0" * 4),
        (np.float32(1.5), struct.pack("<f", 1.5) + b"\0" * 4),
        (np.float64(1.5), struct.pack("<d", 1.5)),
        (np.uint8(7), b"\x07" + b"\0" * 7),
    ],
)
def test_scalar_words(value, raw):
    assert struct.pack("<q", kernel_launch.word(value)) == raw


def test_a_block_is_what_the_driver_reads():
    import ctypes

    block = kernel_launch.Block((1, -2, 3), work=Work(5.0, "tf32"))
    block.q[1] = 77
    block.f[4] = 1.5  # the low half of word 2
    addresses = (ctypes.c_void_p * 5).from_address(block.pointer)
    assert ctypes.c_int64.from_address(addresses[1]).value == 77
    assert ctypes.c_float.from_address(addresses[2]).value == 1.5
    assert addresses[2] - addresses[0] == 16
    behind = [
        ctypes.c_int64.from_address(a).value for a in addresses[3:]
    ]  # the arguments: the profiler's
    assert Work.read(*behind, 8) == Work(5.0, "tf32", 8)


@pytest.mark.parametrize(
    "size, three",
    [(5, (5, 1, 1)), ((2, 3), (2, 3, 1)), ((2, 3, 4), (2, 3, 4)), (np.int64(7), (7, 1, 1))],
)
def test_triple(size, three):
    assert triple(size) == three


# -------------------- run code, by kernels in Python


def test_one_input(fake):
    def double(x, y):
        y[...] = 2 * x

    x = gpu(np.arange(6.0).reshape(2, 3))
    run = bind(
        double, [x], [((2, 3), "f8")], [Input(0), Output(0)], grid=(3, 2), block=(32, 4), shared=100
    )
    assert np.asarray(run(x)).tolist() == [[0, 2, 4], [6, 8, 10]]
    name, grid, block, shared, *_ = fake.launches[0]
    assert (name, grid, block, shared) == ("double", (3, 2, 1), (32, 4, 1), 100)
    y = run(run(x))
    assert y.tolist() == [[0, 4, 8], [12, 16, 20]] and y.device == "cuda:0" and y._node is None
    assert str(runtime.functions[int(next(iter(runtime.functions)))]) == "double"


def test_a_kernel_that_waits_itself_may_begin_early(fake):
    def double(x, y):
        y[...] = 2 * x

    side, x = cm.cuda.Stream(), gpu(np.arange(6.0))
    step = Launch(double, (3, 2), (32, 4), [Input(0), Output(0)], 100, early=True).with_args(
        [Input(0), Output(0)]
    )
    run = Plan([Layout.new((6,), np.dtype("f8"), 0)], [step]).bind("double", [x._layout])
    with side:
        side.wait(x._owner.stream)
        assert run(x).tolist() == [0, 2, 4, 6, 8, 10]
    assert (
        fake.launches[0][1:5] == ((3, 2, 1), (32, 4, 1), 100, side.handle)
        and fake.calls["cuLaunchKernelEx"] == 1
    )
    with cm.cuda.profile() as p:  # each launch is timed: they run one after the other
        run(x)
    assert fake.calls["cuLaunchKernelEx"] == 1 and [row["name"] for row in p.stats()] == ["double"]
    run(x)
    assert fake.calls["cuLaunchKernelEx"] == 2


def test_a_kernel_whose_blocks_wait_for_one_another_is_launched_as_such(fake):
    def double(x, y):
        y[...] = 2 * x

    def bound(grid, shared=100):
        step = Launch(double, grid, 256, [Input(0), Output(0)], shared, cooperative=True)
        step = step.with_args(step.args)
        return Plan([Layout.new((6,), np.dtype("f8"), 0)], [step]).bind("double", [x._layout])

    x, seen, extended = gpu(np.arange(6.0)), [], fake.cuLaunchKernelEx
    run = bound((4, 25))
    launcher = kernel_launch.prepare_launcher()

    def watched(config, *rest):
        seen.extend((a.id, a.value.cooperative) for a in config.attrs[: config.numAttrs])
        return extended(config, *rest)

    launcher["launch_extended"] = watched
    assert run(x).tolist() == [0, 2, 4, 6, 8, 10]
    assert fake.launches[0][1:4] == ((4, 25, 1), (256, 1, 1), 100)
    with cm.cuda.profile() as p:  # a timed launch is no other one
        run(x)
    assert [row["name"] for row in p.stats()] == ["double"]
    launcher["in_order"] = True  # nor is one of a process that launches nothing early
    run(x)
    with cm.cuda.capture() as graph:
        y = run(x)
    graph.replay()
    assert y.tolist() == [0, 2, 4, 6, 8, 10]
    assert seen == [("CU_LAUNCH_ATTRIBUTE_COOPERATIVE", 1)] * 4
    # the fake device has 100 multiprocessors, each for 4 of these blocks, or for 1 of much memory
    assert bound(400)(x).tolist() == [0, 2, 4, 6, 8, 10]
    assert bound(100, 200 << 10)(x).tolist() == [0, 2, 4, 6, 8, 10]
    for grid, shared in ((401, 100), (101, 200 << 10)):
        with pytest.raises(RuntimeError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
            bound(grid, shared)(x)
    with pytest.raises(AssertionError, match="may not begin early"):
        Launch(double, 1, 32, [], early=True, cooperative=True)


def test_strided_inputs_arrive_with_their_strides(fake):
    def add(x, y, out):
        assert x.strides == (8, 24) and y.strides == (-24, 0)
        out[...] = x + y

    host = np.arange(6.0).reshape(2, 3)
    x, y = gpu(host), gpu(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]))
    xt = x._view(x._layout.view((3, 2), (8, 24)))
    flipped = y._view(y._layout.view((3, 2), (-24, 0), 48), 48)
    run = bind(add, [xt, flipped], [((3, 2), "f8")], [Input(0), Input(1), Output(0)])
    assert run(xt, flipped).tolist() == (host.T + np.array([[7.0], [4.0], [1.0]])).tolist()


def test_views_flat_and_offsets(fake):
    def kernel(flat, part, out):
        assert flat.shape == (6,) and part.shape == (2, 2)
        out[...] = flat.sum() + part

    x = gpu(np.arange(6.0).reshape(2, 3))
    run = bind(
        kernel,
        [x],
        [((2, 2), "f8")],
        [Input(0).flat, Input(0).view((2, 2), (24, 8), offset=8), Output(0)],
    )
    assert run(x).tolist() == [[16, 17], [19, 20]]


@pytest.mark.parametrize(
    "n, kept", [(5, 3 * 512), (500, 4096 + 512)], ids=["in one small buffer", "apart"]
)
def test_many_inputs_several_outputs_and_scratch(fake, n, kept):
    def first(a, b, c, scratch, out):
        scratch[...] = a + b
        out[...] = scratch * c

    def second(scratch, other):
        other[...] = scratch.astype(np.float32).sum()

    xs = [gpu(np.full(n, v)) for v in (1.0, 2.0, 3.0)]
    layouts = [x._layout for x in xs]
    plan = Plan(
        [Layout.new((n,), np.dtype("f8"), 0), Layout.new((), np.dtype("f4"), 0)],
        [
            Launch(first, 1, 32, [Input(0), Input(1), Input(2), Temp(0), Output(0)]),
            Launch(second, 1, 32, [Temp(0), Output(1)]),
        ],
        [Layout.new((n,), np.dtype("f8"), 0)],
    )
    used = pool_of(0).used
    y, z = plan.bind("op", layouts)(*xs)
    assert (
        y.tolist() == [9.0] * n and float(z) == 3.0 * n and z.shape == () and z.dtype == np.float32
    )
    assert (
        pool_of(0).used == used + kept
    )  # scratch is free again, unless it is small: then it lies beside small results
    del y
    assert float(z) == 3.0 * n
    del z
    assert pool_of(0).used == used
    assert Plan([], []).bind("nothing", layouts)(*xs) == ()


@pytest.mark.parametrize(
    "dtype, values",
    [
        ("f4", [1.5, -0.0, np.inf, 2]),
        ("f8", [1.5, 1e300, -3]),
        ("i4", [5, -5, 1 << 31 - 1]),
        ("i8", [-1, 1 << 62]),
        ("u8", [(1 << 64) - 1, 0]),
        ("u1", [255]),
        ("i8", [True, np.int32(7)]),
        ("c8", [2, 1.5 - 2j]),
        ("c16", [True, 1e300, 3j]),
    ],
)
def test_run_time_scalars(fake, dtype, values):
    def put(out, first, value, last):
        assert first == last == np.float32(0.25)
        out[...] = value

    run = bind(
        put,
        [],
        [((1,), dtype)],
        [Output(0), Scalar(1, "f4"), Scalar(0, dtype), Scalar(1, "f4")],
        scalars=2,
        device=0,
    )
    for value in values:
        assert np.asarray(run(value, 0.25))[0] == np.dtype(dtype).type(value)
    with pytest.raises(OverflowError, match="^op: int too large to convert"):
        run(0, 10**400)


def test_fixed_scalars_constants_and_tables(fake):
    table = np.array([[1, 2], [3, 4]], np.int32)

    def kernel(out, n, factor, constant, addresses):
        out[...] = n * factor + constant.sum()
        assert constant.tolist() == [[1, 2], [3, 4]] and addresses.tolist() == [a.ptr, b.ptr]

    a, b = gpu([1.0]), gpu([2.0])
    run = bind(
        kernel,
        [a, b],
        [((1,), "f8")],
        [Output(0), 3, np.float32(0.5), Constant(table), Addresses(0, 1)],
    )
    assert run(a, b).tolist() == [11.5]
    uploads = fake.calls["cuMemcpyHtoDAsync"]
    run(a, b)
    assert fake.calls["cuMemcpyHtoDAsync"] == uploads


@pytest.mark.parametrize("count", [2, MOST_NAMED, MOST_NAMED + 1, 300])
def test_plans_of_few_and_of_many_arrays(fake, count):
    """The kernel gets each argument that the plan names, however many arrays there are."""
    order = [count - 1, *range(0, count, 2), 1]

    def kernel(out, last, first, addresses, whole, real):
        out[...] = 100 * last + first + whole * real
        assert addresses.tolist() == [arrays[i].ptr for i in order]

    arrays = [gpu([float(i)]) for i in range(count)]
    arguments = [Output(0), Input(count - 1), Input(0), Addresses(*order)]
    numbers = [Scalar(0, np.int64), Scalar(1, np.float64)]
    run = bind(kernel, arrays, [((1,), "f8")], arguments + numbers, scalars=2)
    assert run(*arrays, 3, 0.5).tolist() == [100 * (count - 1) + 1.5]
    side = cm.cuda.Stream()
    with side:  # each array notes who uses it
        run(*arrays, 3, 0.5)
    assert all([x._owner.users == [side] for x in arrays])


def test_an_index_error_names_the_line(fake):
    def check(x, flag, ticket):
        if x[0] > 5:
            flag[0] = ticket

    x, bad = gpu([1]), gpu([9])
    run = public(bind(check, [x], [], [Input(0), Flag(), Ticket()], name="take"))
    run(x)
    cm.cuda.synchronize()
    run(bad)
    line = sys._getframe().f_lineno - 1
    with pytest.raises(
        IndexError, match=f"take: an index is out of range, called at {re.escape(__file__)}:{line} "
    ):
        cm.cuda.synchronize()
    cm.cuda.synchronize()  # told once


@pytest.mark.parametrize(
    "kind",
    [
        (1, "take", IndexError, "take: an index is out of range"),
        # named by the function that the user called, whose name is that of `public`'s here
        (-1, "cholesky", np.linalg.LinAlgError, "function: not positive definite"),
    ],
    ids=["index", "decomposition"],
)
def test_an_error_of_a_replayed_graph_names_the_line_of_the_captured_call(fake, kind, monkeypatch):
    """However many other calls there have been since."""
    sign, name, error, message = kind

    def check(x, out, flag, ticket):
        out[...] = x
        if x[0] > 5:
            flag[0] = sign * ticket

    monkeypatch.setitem(kernel_errors.failures, "cholesky", "not positive definite")
    x = gpu([1])
    looked = public(
        bind(check, [x], [((1,), x.dtype)], [Input(0), Output(0), Flag(), Ticket()], name=name)
    )
    step = cm.cuda.graph(lambda x: looked(x))
    line = sys._getframe().f_lineno - 1
    step(x)
    step(x)
    cm.cuda.synchronize()
    ctypes.c_int64.from_address(x.ptr).value = 9  # another argument would be captured anew
    step(x)
    for _ in range(5000):
        kernel_errors.ticket("other")
    with pytest.raises(error, match=f"^{message}, called at {re.escape(__file__)}:{line} "):
        cm.cuda.synchronize()


def test_library_calls(fake):
    seen = []
    x = gpu(np.arange(4.0))
    plan = Plan(
        [Layout.new((4,), np.dtype("f8"), 0)],
        [
            Call(
                lambda s, a, b, n, v: seen.append((s, a, b, n, v)),
                [Input(0).view((2,), offset=16), Output(0), 7, Scalar(0, "f8")],
            )
        ],
    )
    y = plan.bind("op", [x._layout], 1)(x, 2.5)
    assert seen == [(stream.current_stream(), x.ptr + 16, y.ptr, 7, 2.5)]


def test_an_empty_grid_launches_nothing(fake):
    x = gpu(np.zeros((0, 3)))
    run = bind(lambda x, y: None, [x], [((0, 3), "f8")], [Input(0), Output(0)], grid=0)
    assert run(x).shape == (0, 3) and not fake.launches


def test_plans_follow_the_current_stream(fake):
    def copy(x, y):
        y[...] = x

    side, x = cm.cuda.Stream(), gpu([1.0])
    run = bind(copy, [x], [((1,), "f8")], [Input(0), Output(0)])
    with side:
        side.wait(x._owner.stream)
        y = run(x)
    assert (
        fake.launches[-1][4] == side.handle and y._owner.stream is side and x._owner.users == [side]
    )
    side.synchronize()
    assert np.asarray(y).tolist() == [1.0]


def test_plans_run_on_the_device_of_their_arrays(fake):
    def copy(x, y):
        y[...] = x

    x, y = gpu([1.0], 0), gpu([2.0], 1)
    runs = [bind(copy, [each], [((1,), "f8")], [Input(0), Output(0)]) for each in (x, y)]
    before = cm.cuda.current_device()
    assert [run(each).item() for run, each in zip(runs, (x, y), strict=True)] == [1.0, 2.0]
    assert cm.cuda.current_device() == before and fake.current == 100 + before


def test_threads_have_streams_and_devices_of_their_own(fake):
    def copy(x, y):
        y[...] = x

    arrays = [gpu(np.full(50, float(i)), i) for i in (0, 1)]
    runs = [bind(copy, [x], [((50,), "f8")], [Input(0), Output(0)]) for x in arrays]

    def work(index):
        cm.cuda.set_device(index)
        for turn in range(100):
            assert cm.cuda.current_device() == index
            i = (index + (turn % 3 == 0)) % 2
            assert runs[i](arrays[i]).tolist() == [float(i)] * 50
            if turn % 10 == 0:
                with cm.cuda.Stream() as s:
                    s.wait(cm.cuda.external_stream(0))
                    assert runs[index](arrays[index])._owner.stream is s

    together(6, lambda i: work(i % 2))


# -------------------- failures


def test_a_refused_launch_names_the_kernel_and_leaves_the_pool_as_it_was(fake):
    def big(x, y):
        pass

    x = gpu([1.0])
    run = bind(big, [x], [((100_000,), "f8")], [Input(0), Output(0)], block=2048)
    used = pool_of(0).used
    with pytest.raises(cm.cuda.CudaError, match="big: CUDA_ERROR_INVALID_CONFIGURATION") as caught:
        run(x)
    assert caught.value.status == fake.CUresult.CUDA_ERROR_INVALID_CONFIGURATION
    del caught
    assert pool_of(0).used == used
    with pytest.raises(cm.cuda.CudaError):
        run(x)  # its argument block is there again


def test_an_asynchronous_fault_names_the_last_launches(fake):
    def early(x):
        pass

    def late(x):
        pass

    x = gpu([1.0])
    for kernel in (early, late):
        bind(kernel, [x], [], [Input(0)])(x)
    fake.lost = fake.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    message = (
        "ILLEGAL_ADDRESS .reported asynchronously; last launches, newest first: late, "
        "early; with cm.cuda.launch_lines"
    )
    with pytest.raises(cm.cuda.CudaError, match=message):
        cm.cuda.synchronize()


def test_an_asynchronous_fault_names_the_lines_on_demand(fake):
    def kernel(x):
        pass

    x = gpu([1.0])
    run = bind(kernel, [x], [], [Input(0)])
    with cm.cuda.launch_lines():
        run(x)
    line = inspect.currentframe().f_lineno - 1
    run(x)
    fake.lost = fake.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(
        cm.cuda.CudaError, match=rf"newest first: kernel, kernel at \S*test_launch.py:{line}\)"
    ):
        cm.cuda.synchronize()


# -------------------- the cache on disk


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setitem(cubin_cache.statistics, "compiled", 0)
    monkeypatch.setitem(cubin_cache.statistics, "loaded_from_disk", 0)
    return tmp_path / "kernels"


def counts():
    return cubin_cache.statistics["compiled"], cubin_cache.statistics["loaded_from_disk"]


def test_a_kernel_is_compiled_once(cache):
    code = b"\x7fELF code"
    assert cubin_cache.cached_cubin("key", lambda: code) == code and counts() == (1, 0)
    assert cubin_cache.cached_cubin(
        "key", lambda: pytest.fail("compiled again")
    ) == code and counts() == (1, 1)
    assert cubin_cache.cached_cubin("other", lambda: b"\x7fELF2") == b"\x7fELF2"
    info = cm.cuda.cache_info()
    assert (info["kernels"], info["compiled"], info["loaded_from_disk"], info["directory"]) == (
        2,
        2,
        1,
        str(cache),
    )
    assert cm.cuda.clear_kernel_cache() == 2 and cm.cuda.cache_info()["kernels"] == 0


@pytest.mark.parametrize("damage", [b"", b"\x7fELF trunc", b"garbage"])
def test_a_damaged_file_is_compiled_again(cache, damage):
    cubin_cache.cached_cubin("key", lambda: b"\x7fELF code, all of it")
    (path,) = cache.glob("*.cubin")
    path.write_bytes(damage)
    assert (
        cubin_cache.cached_cubin("key", lambda: b"\x7fELF code, all of it")
        == b"\x7fELF code, all of it"
    )
    assert counts() == (2, 0)
    assert (
        cubin_cache.cached_cubin("key", lambda: pytest.fail("not repaired"))
        == b"\x7fELF code, all of it"
    )


def test_an_unwritable_folder_costs_only_the_warm_start(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("a file where the folder should be")
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(file / "kernels"))
    assert cubin_cache.cached_cubin("key", lambda: b"\x7fELF") == b"\x7fELF"


def test_a_failed_compilation_leaves_nothing(cache):
    def broken():
        raise ValueError("no")

    with pytest.raises(ValueError):
        cubin_cache.cached_cubin("key", broken)
    assert not list(cache.glob("*"))
    assert cubin_cache.cached_cubin("key", lambda: b"\x7fELF") == b"\x7fELF"


def test_a_second_process_compiles_nothing(tmp_path):
    source = textwrap.dedent("""
        import numpy as np
        from cudamath.core.layout import Layout
        from cudamath.kernels.elementwise.dispatch import elementwise
        from cudamath.runtime import kernel_launch as module, cubin_cache
        from cudamath.runtime.device import assume
        from cudamath.runtime.state import runtime
        x = Layout.new((1000,), np.dtype("f4"), 0)
        with assume((9, 0)):
            f4 = np.dtype("f4")
            p = elementwise(x, x, expression="x * y + 1", compute=f4, output=f4)
            (step,) = p.steps
            code = runtime.compiler(step.kernel, p.signature(step, [x, x]), (9, 0))
        counts = cubin_cache.statistics
        print(counts["compiled"], counts["loaded_from_disk"], len(code) > 1000)
        """)
    environment = {**os.environ, "CUDAMATH_CACHE_DIR": str(tmp_path)}
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    said = [
        subprocess.run(
            [sys.executable, "-c", source],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.split()
        for _ in range(2)
    ]
    assert said == [["1", "0", "True"], ["0", "1", "True"]]


@pytest.mark.parametrize(
    "call",
    [
        lambda a, out: cm.matmul(a.reshape(64, -1), a, out=out),
        lambda a, out: cm.sum(a, axis=0, out=out[0]),
        lambda a, out: cm.max(a, axis=0, out=out[0]),
        lambda a, out: cm.add(out[1], a[0] if a.shape[0] == 8 else 1.0, out=out[0]),
    ],
    ids=["matmul", "sum", "max", "add"],
)
def test_results_written_elsewhere_know_the_layouts_of_operands(fake, call):
    """Sums of 8 and of 16 rows have targets of one layout, and are other launches."""
    fake.idle = True  # what is launched counts
    rows = [gpu(np.ones((n, 64), np.float32)) for n in (8, 16)]
    out, launched = gpu(np.zeros((64, 64), np.float32)), []
    for a in rows * 2:
        fake.launches.clear()
        call(a, out)
        launched.append([[str(part) for part in each] for each in fake.launches])
    described = [
        [(name, grid, re.sub(r"\d{9,}", "address", words)) for name, grid, *_, words in each]
        for each in launched
    ]
    assert described[0] and described[0] != described[1]
    assert described[2:] == described[:2]


# -------------------- users' kernels


def scale(x, factor, out):
    """Python for the fake, `cuda.jit` for a GPU."""
    out[...] = x * factor


@pytest.fixture
def users(fake, monkeypatch):
    """Users' kernels are Python functions here: nothing is compiled by Numba."""

    class Kernel:
        def __init__(self, function):
            self.function, self.__name__ = function, function.__name__

        def __call__(self, *args):
            self.function(*args)

        def cubin(self, signature, capability):
            return fake.compiler(self.function, signature, capability)

    monkeypatch.setattr(
        "cudamath.kernels.generated.user_kernels.user_kernel", functools.cache(Kernel)
    )
    return fake


def test_launch(users):
    x = gpu(np.arange(4, dtype=np.float32))
    out = gpu(np.zeros(4, np.float32))
    cm.cuda.launch(scale, 2, (32, 2), x, 3, out)
    cm.cuda.launch(scale, [2], 64, x, np.float32(0.5), out)
    assert out.tolist() == [0.0, 0.5, 1.0, 1.5]
    (first, second) = users.launches
    assert (
        first[:3] == ("scale", (2, 1, 1), (32, 2, 1))
        and first[5][1] == 3
        and first[5][1].dtype == np.int64
    )
    assert second[5][1] == 0.5 and second[5][1].dtype == np.float32 and len(users.libraries) == 2
    cm.cuda.launch(
        scale, 2, 64, gpu(np.arange(9, dtype=np.float32)), 3, gpu(np.zeros(9, np.float32))
    )
    assert len(users.libraries) == 2  # sizes are not compiled in


def test_launches_that_differ_in_one_argument(users):
    """Each is launched as it was asked for, whatever was launched before."""
    x, out = gpu(np.arange(1, 5, dtype=np.float32)), gpu(np.zeros(4, np.float32))
    wide = gpu(np.arange(1, 5, dtype=np.float64)), gpu(np.zeros(4))
    square = gpu(np.eye(2, dtype=np.float32)), gpu(np.zeros((2, 2), np.float32))

    def double(x, factor, out):
        out[...] = 2 * x * factor

    calls = [
        (scale, 1, 32, (x, 3, out), 0),
        (scale, 1, 32, (x, 3.0, out), 0),
        (scale, 1, 32, (x, np.float32(3), out), 0),
        (scale, 1, 32, (x, np.int8(3), out), 0),
        (scale, 1, 32, (x, True, out), 0),
        (scale, 1, 32, (wide[0], 3, wide[1]), 0),
        (scale, 1, 32, (square[0], 3, square[1]), 0),
        (scale, 2, 32, (x, 3, out), 0),
        (scale, 1, 64, (x, 3, out), 0),
        (scale, 1, 32, (x, 3, out), 128),
        (double, 1, 32, (x, 3, out), 0),
    ]
    for kernel, grid, block, arguments, shared in calls * 2:
        x, factor, out = *arguments[:2], gpu(np.zeros_like(arguments[2].to_numpy()))
        begun = len(users.launches)
        cm.cuda.launch(kernel, grid, block, x, factor, out, shared=shared)
        name, launched, threads, *_ = users.launches[begun]
        assert (name, launched, threads) == (kernel.__name__, (grid, 1, 1), (block, 1, 1))
        factor *= 2 if kernel is double else 1
        np.testing.assert_array_equal(out.to_numpy(), factor * x.to_numpy())


def test_launch_takes_page_locked_numpy_arrays(users):
    for make in (cm.cuda.pinned, cm.cuda.managed):
        x, out = make(4, "float64"), make(4, "float64")
        x[...], out[...] = 2, 0
        cm.cuda.launch(scale, 1, 32, x, 1.5, out[::-1])
        cm.cuda.synchronize()
        assert out.tolist() == [3.0] * 4
        for view in (x, x[1:], x[2:]):  # of 16 bytes, where it begins
            address = view.__array_interface__["data"][0]
            found = user_kernels._array("launch", view)
            assert found.ptr == address and found._layout.aligned == (address % 16 == 0)


def test_launch_refuses(users):
    x = gpu([1.0])
    for args, error, message in [
        (
            (np.zeros(3), 1, x),
            TypeError,
            "launch: a NumPy array .float64, shape .3,.. is not on the GPU",
        ),
        (("word", 1, x), TypeError, "launch: argument 0 is a str; wants arrays on the GPU"),
        ((x, 1j, x), TypeError, "launch: argument 1 is a complex"),
        ((x, np.float16(1), x), TypeError, "launch: argument 1 is a scalar of float16"),
        (
            (cm.zeros(3, device="cpu"), 1, x),
            cm.cuda.DeviceError,
            "launch: an array argument is on the CPU",
        ),
        (
            (x, 1, gpu([1.0], 1)),
            cm.cuda.DeviceError,
            "launch: arrays are on different devices: cuda:0 .* cuda:1",
        ),
    ]:
        with pytest.raises(error, match=message):
            cm.cuda.launch(scale, 1, 32, *args)
    for grid in (0, -1, (2, 0), 1.5):
        with pytest.raises((ValueError, TypeError)):
            cm.cuda.launch(scale, grid, 32, x, 1, x)
    with pytest.raises(TypeError, match="launch: wants a @cuda.jit kernel, got int"):
        cm.cuda.launch(3, 1, 32, x)


def test_resources(users):
    x = gpu([1.0])
    compiled = cm.cuda.compile_kernel(scale, x, 1.0, x)
    assert (compiled.name, compiled.registers, compiled.max_threads) == ("scale", 32, 1024)
    assert (
        compiled.occupancy(512) == 1.0
        and compiled.blocks_per_multiprocessor(128) == 4
        and compiled.occupancy(128) == 0.25
    )
    assert cm.cuda.occupancy(scale, (16, 8), x, 1.0, x) == 0.25
    assert cm.cuda.suggest_launch(scale, 10_000, x, 1.0, x) == (20, 512)
    assert cm.cuda.suggest_launch(scale, 1, x, 1.0, x) == (1, 512)
    with pytest.raises(ValueError, match="suggest_launch: count must be at least 1"):
        cm.cuda.suggest_launch(scale, 0, x, 1.0, x)
    compiled(1, 32, x, 2.0, x)
    assert x.tolist() == [2.0]


def test_a_users_kernel_sees_numbas_types():
    from numba import cuda, types

    from cudamath.kernels.compiler import storage_types
    from cudamath.kernels.generated.user_kernels import seen, user_kernel

    argument_type = functools.partial(storage_types.argument_type, seen=seen)

    def layout(dtype, shape=(4,)):
        return Layout.new(shape, np.dtype(dtype), 0)

    assert argument_type(layout(np.float16)).dtype == types.float16
    assert argument_type(layout(bool)).dtype == types.boolean
    assert argument_type(layout(ml_dtypes.bfloat16)).dtype == types.uint16
    assert argument_type(layout("f4", (2, 3))) == types.Array(types.float32, 2, "C")
    assert argument_type(Layout.of((2, 3), (4, 8), np.dtype("f4"), 0)).layout == "A"
    assert argument_type(np.dtype("i8")) == types.int64

    @cuda.jit
    def fill(x, value):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = value

    code = compile_cubin(user_kernel(fill), [layout(np.float16), np.dtype("f4")], (9, 0))
    assert code[:4] == b"\x7fELF" and user_kernel(fill) is user_kernel(fill)


# -------------------- on a GPU


def jitted():
    from numba import cuda

    @cuda.jit
    def scale(x, factor, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * factor

    return scale


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_users_kernel_on_a_gpu(dtype):
    kernel = jitted()
    x = cm.arange(1000, device="cuda").astype(dtype)
    out = cm.zeros(1000, dtype=dtype, device="cuda")
    cm.cuda.launch(kernel, 4, 256, x, 2, out)
    assert (np.asarray(out) == np.asarray(x) * 2).all()
    cm.cuda.launch(kernel, 4, 256, x[::-1], 1, out)
    assert (np.asarray(out) == np.asarray(x)[::-1]).all()


@pytest.mark.gpu
def test_numba_can_launch_the_same_kernel_on_the_same_arrays():
    x, out = cm.ones(100, device="cuda"), cm.zeros(100, device="cuda")
    jitted()[1, 128](x, 3.0, out)
    assert out.tolist() == [3.0] * 100


@pytest.mark.gpu
def test_resources_on_a_gpu():
    x = cm.zeros(1000, device="cuda")
    compiled = cm.cuda.compile_kernel(jitted(), x, 1.0, x)
    assert (
        0 < compiled.registers <= 255
        and compiled.max_threads >= 256
        and 0 < compiled.occupancy(256) <= 1
    )
    grid, block = cm.cuda.suggest_launch(jitted(), 1000, x, 1.0, x)
    assert grid * block >= 1000 and block % 32 == 0


@pytest.mark.gpu
def test_managed_memory_on_a_gpu():
    x, out = cm.cuda.managed(100, "float32"), cm.cuda.managed(100, "float32")
    x[...] = 2
    cm.cuda.launch(jitted(), 1, 128, x, np.float32(1.5), out)
    cm.cuda.synchronize()
    assert (out == 3).all()


@pytest.mark.gpu
def test_an_index_error_on_a_gpu_names_the_line():
    x, bad = cm.arange(10, device="cuda"), cm.asarray([3, 99], device="cuda")
    y = cm.take(x, bad)
    line = sys._getframe().f_lineno - 1
    with pytest.raises(
        IndexError, match=f"take: an index is out of range, called at {re.escape(__file__)}:{line}"
    ):
        np.asarray(y)
    assert x.tolist() == list(range(10))
