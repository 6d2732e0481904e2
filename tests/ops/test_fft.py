"""cudamath.fft: fft, ifft, rfft, irfft, hfft, ihfft, their n-dimensional forms, frequencies and
shifts, against NumPy; the cards fft_c2c, fft_r2c and fft_c2r; what cuFFT is asked for; the cache of
its plans."""

from __future__ import annotations

import functools
import itertools
import types
from typing import Any

import numpy as np
import pytest
from compiled_facts import compile_plan
from fake_cufft import installed
from fake_driver import gpu
from gradient_checks import MACHINES, run_version
from host_plans import host_run
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BF16, eps, numbers, views

import cudamath as cm
from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Call, Launch
from cudamath.core.layout import Layout
from cudamath.kernels.numeric import fft as planners
from cudamath.runtime import cufft as runtime
from cudamath.runtime import library_paths, state, stream
from cudamath.testing import assert_close

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn"]
TWO = ["fft2", "ifft2", "rfft2", "irfft2"]
REAL_IN = ("rfft", "ihfft", "rfftn", "rfft2")
NORMS = [None, "backward", "ortho", "forward"]
TYPES = ["f4", "f8", "c8", "c16"]


def check(ours: cm.ndarray, theirs: np.ndarray, terms: int = 64) -> None:
    """NumPy's shape and dtype; errors grow with the logarithm of the number of terms."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    eps = np.finfo(theirs.dtype).eps
    size = float(np.abs(theirs).max(initial=0))
    assert_close(ours, theirs, rtol=0, atol=8 * eps * max(size, 1e-30) * max(np.log2(terms), 1))


def argument(name: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    wanted = np.dtype(dtype)
    return numbers(rng, shape, wanted.type(0).real.dtype if name in REAL_IN else wanted)


# -------------------- values


@settings(max_examples=40)
@given(data=st.data())
def test_along_one_axis(device, data):
    name, norm = data.draw(st.sampled_from(ONE)), data.draw(st.sampled_from(NORMS))
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    axis, n = (
        data.draw(st.integers(-len(shape), len(shape) - 1)),
        data.draw(st.sampled_from([None, None, 1, 2, 5, 8])),
    )
    if n is None and name in ("irfft", "hfft") and shape[axis] == 1:
        n = 3
    view = data.draw(views(shape))
    base = argument(
        name,
        np.random.default_rng(data.draw(st.integers(0, 99))),
        view.base,
        data.draw(st.sampled_from(TYPES)),
    )
    theirs = getattr(np.fft, name)(view.of(base), n, axis, norm)
    check(getattr(cm.fft, name)(view.of(cm.asarray(base)), n, axis, norm), theirs)


@settings(max_examples=40)
@given(data=st.data())
def test_along_several_axes(device, data):
    name, norm = data.draw(st.sampled_from(SEVERAL + TWO)), data.draw(st.sampled_from(NORMS))
    shape = tuple(data.draw(st.lists(st.integers(2, 5), min_size=2, max_size=5)))
    axes: Any = tuple(
        data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=4, unique=True))
    )
    s = tuple(data.draw(st.integers(1, 6)) for _ in axes) if data.draw(st.booleans()) else None
    if s is None and data.draw(st.booleans()):
        axes = None
    if name in TWO:
        axes, s = (-2, -1), data.draw(st.sampled_from([None, (3, 4)]))
    view = data.draw(views(shape))
    base = argument(name, np.random.default_rng(1), view.base, data.draw(st.sampled_from(TYPES)))
    ours = getattr(cm.fft, name)(view.of(cm.asarray(base)), s, axes, norm)
    check(ours, getattr(np.fft, name)(view.of(base), s, axes, norm), 4096)


@pytest.mark.parametrize("dtype", ["?", "i4", "u1", "f2", "bfloat16"])
def test_other_dtypes(device, dtype):
    """Integers and bool count as float64, 16-bit floats as float32; real results of these have 16
    bits."""
    base = numbers(
        np.random.default_rng(0), (3, 8), BF16 if dtype == "bfloat16" else np.dtype(dtype)
    )
    wide = base.astype(np.float32 if dtype in ("f2", "bfloat16") else np.float64)
    for name in ("fft", "rfft", "irfft"):
        y = getattr(cm.fft, name)(cm.asarray(base))
        if name == "irfft" and base.dtype.itemsize == 2:  # real and narrow again
            assert y.dtype == base.dtype
            exact = np.fft.irfft(wide)
            assert_close(y, exact, rtol=0, atol=eps(base.dtype) * np.abs(exact).max())
        else:
            check(y, getattr(np.fft, name)(wide))


@pytest.mark.parametrize("n", [1, 2, 3, 64, 997, 1000, 4096])
def test_lengths(device, n):
    rng = np.random.default_rng(n)
    z, x = numbers(rng, (2, n), np.dtype("c16")), numbers(rng, (2, n), np.dtype("f8"))
    check(cm.fft.fft(cm.asarray(z)), np.fft.fft(z), n)
    check(cm.fft.irfft(cm.asarray(z), n), np.fft.irfft(z, n), n)
    back = cm.fft.irfft(cm.fft.rfft(cm.asarray(x)), n)
    check(back, x, n)
    single = cm.fft.fft(cm.asarray(z.astype("c8")))
    assert single.dtype == np.complex64
    assert_close(single, np.fft.fft(z), rtol=0, atol=2e-6 * np.abs(np.fft.fft(z)).max())


def test_an_axis_named_twice(device):
    z = numbers(np.random.default_rng(0), (3, 4), np.dtype("c16"))
    check(cm.fft.fftn(cm.asarray(z), axes=(0, 0)), np.fft.fftn(z, axes=(0, 0)))
    check(cm.fft.fft2(cm.asarray(z), (-1, 3)), np.fft.fft2(z, (3, 3)))  # -1: as long as it is
    check(cm.fft.fftn(cm.asarray(z), axes=()), np.fft.fftn(z, axes=()))
    check(cm.fft.fftn(cm.asarray(z.real), axes=()), z.real.astype("c16"))
    check(cm.fft.fft2(cm.asarray(z.real), (-1, 6), (1, 1)), np.fft.fft2(z.real, (4, 6), (1, 1)))


def test_nothing_to_transform(device):
    empty = np.zeros((0, 4), "c8")
    check(cm.fft.fft(cm.asarray(empty)), np.fft.fft(empty))
    check(cm.fft.irfft(cm.asarray(empty)), np.fft.irfft(empty))
    check(cm.fft.fft(cm.asarray(empty), 3, 0), np.fft.fft(empty, 3, 0))


@pytest.mark.simulator
@pytest.mark.parametrize("n", [1, 2, 9, 300])
def test_frequencies_in_the_simulator(n):  # the card fft_frequencies

    for dtype, exact in (("f8", True), ("f4", False), ("f2", False)):
        for m, half, expected in (
            (n, (n + 1) // 2, np.fft.fftfreq),
            (n // 2 + 1, n // 2 + 1, np.fft.rfftfreq),
        ):
            plan = planners.frequencies(
                layout=Layout.new((m,), np.dtype(dtype), 0), device=0, half=half, n=n
            )
            got = cm.testing.simulate(plan, scalars=(1 / (n * 0.3),))
            np.testing.assert_allclose(
                got, expected(n, 0.3), rtol=0 if exact else {"f4": 3e-7, "f2": 1e-3}[dtype]
            )


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9])
def test_frequencies_and_shifts(device, n):
    for _ in range(2):  # on a GPU the second one is looked up
        np.testing.assert_array_equal(np.asarray(cm.fft.fftfreq(n, 0.3)), np.fft.fftfreq(n, 0.3))
        np.testing.assert_array_equal(np.asarray(cm.fft.rfftfreq(n, 0.3)), np.fft.rfftfreq(n, 0.3))
        np.testing.assert_array_equal(np.asarray(cm.fft.fftfreq(n)), np.fft.fftfreq(n))
        assert cm.fft.fftfreq(n, dtype="float32").dtype == np.float32
        with pytest.raises(TypeError, match="^fftfreq: a length must be an integer"):
            cm.fft.fftfreq(float(n), 0.3)
    assert (
        cm.fft.fftfreq(n, dtype="float32").dtype == np.float32
        and cm.fft.rfftfreq(n, dtype="float16").dtype == np.float16
    )
    x = np.arange(2 * n).reshape(2, n)
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, -1, (1, 0), ()):
            ours, theirs = (
                getattr(cm.fft, name)(cm.asarray(x), axes),
                getattr(np.fft, name)(x, axes),
            )
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(cm.fft.ifftshift(cm.fft.fftshift(x)), x)


def test_imaginary_parts_that_no_real_signal_has(device):
    """Of frequency 0 and n / 2 they are ignored, also after a transform along other axes; and the
    input stays what it is."""
    rng = np.random.default_rng(3)
    z = numbers(rng, (4, 5, 3), np.dtype("c16"))
    for n in (8, 9):
        x = cm.asarray(z.copy())
        check(cm.fft.irfftn(x, (4, n), (0, 1)), np.fft.irfftn(z, (4, n), (0, 1)))
        check(cm.fft.irfft(x, n, 1), np.fft.irfft(z, n, 1))
        np.testing.assert_array_equal(x, z)


def test_numpy_calls_ours(device):
    x = cm.asarray([1.0, 2.0, 4.0])
    out = np.fft.fft(x)
    assert isinstance(out, cm.ndarray)
    check(out, np.fft.fft(np.asarray(x)))


# -------------------- gradients


@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize(
    ("name", "size"),
    [(n, None) for n in (*ONE, *SEVERAL)] + [(n, size) for n in ONE for size in (5, 9)],
)
def test_gradients(device, name, size, norm):
    """A transform is linear: <w, F(x)> has the gradient F^T w whatever x is; read off by
    transforming unit vectors."""
    rng = np.random.default_rng(5)
    base = rng.normal(size=(4, 6))
    along = {"norm": norm} if size is None else {"norm": norm, "n": size, "axis": 0}
    shape = getattr(np.fft, name)(base, **along).shape
    re, im = rng.normal(size=shape), rng.normal(size=shape)

    def pairing(y: Any, xp: Any) -> Any:
        return (
            (xp.real(y) * re).sum() + (xp.imag(y) * im).sum()
            if y.dtype.kind == "c"
            else (y * re).sum()
        )

    def value(x: cm.ndarray) -> cm.ndarray:
        return pairing(getattr(cm.fft, name)(x, **along), cm)

    g = cm.grad(value)(cm.asarray(base))
    expected = np.zeros(base.size)
    for i in range(base.size):
        expected[i] = pairing(
            getattr(np.fft, name)(np.eye(1, base.size, i).reshape(base.shape), **along), np
        )
    assert_close(g, expected.reshape(base.shape), rtol=1e-12, atol=1e-12)


def test_second_order(device):
    """The power spectrum's gradient is 2 n x for a full transform: its own gradient, 2 n."""
    x = cm.asarray(np.random.default_rng(0).normal(size=6))
    power = lambda x: (cm.abs(cm.fft.fft(x)) ** 2).sum()  # noqa: E731
    assert_close(cm.grad(power)(x), 12 * np.asarray(x), rtol=1e-12)
    assert_close(cm.grad(lambda x: cm.grad(power)(x).sum())(x), np.full(6, 12.0), rtol=1e-10)


# -------------------- errors

F = cm.fft


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: F.fft(cm.ones(0)), ValueError, "^fft: Invalid number of FFT data points"),
        (lambda: F.fft(cm.ones(4), n=0), ValueError, r"^fft: .*\(0\)"),
        (lambda: F.irfft(cm.ones(1)), ValueError, r"^irfft: .*\(0\)"),
        (lambda: F.rfft(cm.ones(4), n=2.5), TypeError, "^rfft: .*integer"),
        (lambda: F.fft(cm.ones(4), axis=1), ValueError, "^fft: axis 1"),
        (lambda: F.fft(cm.ones(4), norm="both"), ValueError, "^fft: norm .*'both'"),
        (lambda: F.rfft(cm.ones(4, "complex64")), TypeError, "^rfft: .*complex64"),
        (lambda: F.fft2(cm.ones(4)), ValueError, "^fft2: axis -2"),
        (lambda: F.fftn(cm.ones((4, 4)), s=(2,), axes=(0, 1)), ValueError, "^fftn: Shape and axes"),
        (lambda: F.fftn(cm.ones(4), s=(2, 2)), ValueError, "^fftn: 2 lengths"),
        (lambda: F.rfftn(cm.asarray(1.0)), ValueError, "^rfftn: at least 1 axis"),
        (lambda: F.irfftn(cm.asarray(1.0)), ValueError, "^irfftn: at least 1 axis"),
        (lambda: F.fft("text"), TypeError, "^fft: "),
        (lambda: F.fftfreq(0), ValueError, "^fftfreq: "),
        (lambda: F.rfftfreq(4, dtype="int32"), TypeError, "^rfftfreq: .*int32"),
        (lambda: F.fftshift(cm.ones(3), axes=1), ValueError, "^fftshift: axis 1"),
    ],
)
def test_errors(device, call, error, says):
    with pytest.raises(error, match=says):
        call()


# -------------------- what cuFFT is asked for


@pytest.fixture
def fake_fft(monkeypatch, fake):
    """cuFFT's stand-in beside the fake driver."""
    return installed(monkeypatch)


SHAPES = [
    ((6, 4, 5), (2,)),
    ((6, 4, 5), (0,)),
    ((3, 4, 5), (1,)),
    ((18, 2, 2), (1,)),
    ((3, 4, 5), (0, 2)),
    ((3, 4, 5), (2, 0, 1)),
    ((2, 3, 2, 3), (3, 1, 0, 2)),
    ((1, 4, 1), (0, 1, 2)),
    ((7,), (0,)),
    ((2, 3, 18, 2), (0, 3)),
]


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("kind", "shape", "axes", "look"),
    [
        *[(kind, *one, "plain") for kind in ("c2c", "c2c of real", "r2c", "c2r") for one in SHAPES],
        *[
            (kind, *one, look)
            for kind in ("c2c", "c2c of real")
            for one in SHAPES[2:5]
            for look in ("transposed", "reversed", "broadcast", "odd")
        ],
        *[
            (kind, *one, look)
            for kind in ("r2c", "c2r")
            for one in SHAPES[4:6]
            for look in ("broadcast", "odd")
        ],
    ],
)
def test_plans_in_the_simulator(fake_fft, kind, shape, axes, look):
    """Every way of reading and writing: strides, groups of axes, several calls, moved axes."""
    check_plan(kind, shape, axes, look)
    if kind == "c2r" and shape[axes[-1]] > 1:
        check_plan(kind, shape, axes, look, even=1)


def check_plan(kind, shape, axes, look, even=0):
    rng = np.random.default_rng(0)
    dtype = np.dtype("f4" if kind in ("r2c", "c2c of real") else "c8")
    base = numbers(rng, shape, dtype)
    if look == "transposed":
        base = np.asfortranarray(base)
    elif look == "reversed":
        base = base[::-1]
    elif look == "broadcast":
        base = np.broadcast_to(base[:1], shape)
    elif look == "odd":
        base = numbers(rng, (*shape[:-1], shape[-1] + 1), dtype)[..., 1:]
    base = np.asarray(base)
    x = Layout.of(base.shape, base.strides, base.dtype, 0, base.ctypes.data % 16 == 0)
    before = base.copy()
    if kind.startswith("c2c"):
        plan, expected = (
            planners.c2c(x, axes=axes, inverse=True, scale=0.5),
            np.fft.ifftn(base, axes=axes, norm="forward") / 2,
        )
    elif kind == "r2c":
        plan, expected = planners.r2c(x, axes=axes, scale=0.5), np.fft.rfftn(base, axes=axes) / 2
    else:
        n = 2 * shape[axes[-1]] - 1 - even
        plan = planners.c2r(x, axes=axes, n=n, scale=0.5)
        expected = (
            np.fft.irfftn(base, (*[shape[a] for a in axes[:-1]], n), axes, norm="forward") / 2
        )
    (out,) = host_run(plan, base)
    assert out.dtype == expected.dtype
    assert_close(out, expected, rtol=0, atol=1e-5 * np.abs(expected).max(initial=1))
    np.testing.assert_array_equal(base, before)


def test_several_axes_back_to_real_numbers_are_one_call():
    x = Layout.new((189, 28, 9), np.dtype("c16"), 0)
    for axes in ((1, 2), (0, 2), (0, 1, 2)):
        steps = planners.c2r(x, axes=axes, n=16, scale=1.0).steps
        assert [type(step) for step in steps][:2] == [Launch, Call], axes
        assert len(steps) == 2 or axes == (0, 2)


def test_transforms_take_one_call_where_they_can():
    """Any axes of a row-major array, up to three, and one batch axis: no copy, no kernel."""
    x = Layout.new((8, 16, 32), np.dtype("c8"), 0)
    for axes in ((0,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        plan = planners.c2c(x, axes=axes, inverse=False, scale=1.0)
        assert [type(step) for step in plan.steps] == [Call] and not plan.temps, axes
    assert len(planners.c2c(x, axes=(1,), inverse=False, scale=1.0).steps) == 8
    columns = Layout.of((32, 16), (8, 256), np.dtype("c8"), 0)
    assert [
        type(step) for step in planners.c2c(columns, axes=(1,), inverse=False, scale=1.0).steps
    ] == [Call]
    far = Layout.new((64, 16, 32), np.dtype("c8"), 0)
    assert [
        type(step) for step in planners.c2c(far, axes=(1,), inverse=False, scale=1.0).steps
    ] == [Launch, Call, Launch]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_kernels(machine, dtype):
    """`scaled` and `hermitian` by name."""
    rng = np.random.default_rng(0)
    z = numbers(rng, (3, 5, 37), np.dtype(dtype))
    factor = z.real.dtype.type(0.25)

    def hermitian(x: Layout) -> Plan:
        return Plan(
            [x.like()],
            [
                Launch(
                    planners.hermitian(x.dtype, np.uint32),
                    3,
                    256,
                    [Input(0).flat, Output(0).flat, 5, 37, 1, 1, 1, 1, 1, factor],
                )
            ],
        )

    expected = z * factor
    expected[:, [0, 4]] = expected[:, [0, 4]].real
    np.testing.assert_array_equal(run_version(machine, hermitian, z), expected)

    def scaled(x: Layout) -> Plan:
        plan = planners.c2c(x, axes=(), inverse=False, scale=0.25)
        assert [step.kernel.__name__ for step in plan.steps][-1].startswith("scaled")
        return plan

    np.testing.assert_array_equal(run_version(machine, scaled, z), z * factor)
    even = numbers(rng, (3, 5, 138), np.dtype(dtype))
    np.testing.assert_array_equal(run_version(machine, scaled, even), even * factor)

    def conjugates(x: Layout, scale: float) -> Plan:
        plan = planners.c2c(x, axes=(), inverse=False, scale=1.0)
        return Plan(
            plan.outputs,
            [*plan.steps, *planners._scaling(Output(0), x, scale, conjugate=True)],
            plan.temps,
        )

    for x, scale in itertools.product((z, even), (1.0, 0.25)):
        found = run_version(machine, functools.partial(conjugates, scale=scale), x)
        np.testing.assert_array_equal(found, np.conj(x) * x.real.dtype.type(scale))


def test_ihfft_again_is_one_scaling(fake, monkeypatch):
    """The second call of the real transform's inverse: cuFFT and one kernel, which scales and
    conjugates; the same layout."""
    calls = []
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    monkeypatch.setattr(
        planners.cufft, "transform", lambda spec, inverse: lambda stream, *at: calls.append(spec)
    )
    with cm.device("cuda:0"):
        for x, how in (
            (np.ones((4, 6)), {}),
            (np.ones(7, "f4"), {"norm": "ortho"}),
            (np.ones((6, 2)), {"axis": 0}),
        ):
            x = cm.asarray(x)
            seen = []
            for _ in range(3):
                fake.launches.clear(), calls.clear()
                seen.append((cm.fft.ihfft(x, **how)._layout, len(calls), len(fake.launches)))
            assert [one[1:] for one in seen[1:]] == [(1, 1)] * 2 and len(
                {one[0] for one in seen}
            ) == 1


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_kernels_compile_without_spills(dtype):
    x = Layout.new((40, 8, 50), np.dtype(dtype), 0)
    for plan in (
        planners.c2r(x, axes=(2,), n=98, scale=0.5),
        planners.c2c(x, axes=(2,), inverse=True, scale=0.5),
    ):
        assert sum(isinstance(step, Launch) for step in plan.steps) == 1
        for capability in ((7, 5), (9, 0)):
            for found in compile_plan(plan, [x], capability):
                assert found.spills == 0 and found.registers <= 40


# -------------------- the cache of plans


def spec(n: int) -> runtime.Spec:
    return runtime.Spec(
        runtime.KINDS[np.dtype("c8"), np.dtype("c8")],
        (n,),
        runtime.Walk((n,), 1, n),
        runtime.Walk((n,), 1, n),
        1,
    )


def test_plans_are_kept_and_forgotten(fake_fft):
    """The latest MOST_PLANS of a device; one that was forgotten is made again when it is used."""
    x, y = gpu(np.ones(4, "c8")), gpu(np.zeros(4, "c8"))
    here = stream.current_stream(0)
    first = runtime.transform(spec(4), False)
    first(here, x._data, y._data)
    first(here, x._data, y._data)
    assert fake_fft.made == 1
    for n in range(5, 5 + runtime.MOST_PLANS - 1):
        runtime.plan(spec(n), 0)
    first(here, x._data, y._data)  # used again: the next to go is another
    runtime.plan(spec(1000), 0)
    assert fake_fft.made == runtime.MOST_PLANS + 1 and fake_fft.destroyed == 1
    assert spec(4) in state.runtime.fft_plans[0] and spec(5) not in state.runtime.fft_plans[0]
    for n in range(2000, 2000 + runtime.MOST_PLANS):
        runtime.plan(spec(n), 0)
    assert spec(4) not in state.runtime.fft_plans[0]
    made = fake_fft.made
    first(here, x._data, y._data)
    assert fake_fft.made == made + 1
    runtime.plan(spec(4), 1)
    assert len(state.runtime.fft_plans) == 2  # each device has its own


def test_workspace_is_the_pools(fake_fft):
    """Taken for the call, counted, and given back in the order of the stream."""
    fake_fft.work = 5000
    x, y = gpu(np.ones(4, "c8")), gpu(np.zeros(4, "c8"))
    here, other = stream.current_stream(0), stream.Stream(0)
    before = here.pool.used
    runtime.transform(spec(4), False)(here, x._data, y._data)
    assert here.pool.used == before and here.pool.peak >= before + 5000
    (area,) = fake_fft.areas.values()
    assert area in here.free[5120]
    runtime.transform(spec(4), False)(other, x._data, y._data)
    assert (
        fake_fft.areas[1] != area and fake_fft.streams[1] == other.ptr
    )  # two streams never share it


def test_errors_of_the_library(fake_fft, monkeypatch):
    words = r"^plan: fft: cuFFT, 1 transforms of \(666,\)"
    with pytest.raises(cm.cuda.OutOfMemoryError, match=words):
        runtime.plan(spec(666), 0)
    assert (
        fake_fft.made == 2 and not state.runtime.fft_plans[0]
    )  # once more with the pool's cache given back
    monkeypatch.setattr(
        library_paths,
        "find",
        lambda name: types.SimpleNamespace(path=None, looked="no libcufft", remedy="get it"),
    )
    with pytest.raises(
        cm.cuda.DeviceError, match="^fft: cuFFT was not found .*no libcufft.*get it"
    ):
        runtime.plan(spec(8), 0)


@pytest.mark.gpu
def test_memory_graphs_and_streams():
    """Workspaces are given back; a captured transform replays; two streams at once give the same
    bits."""
    with cm.device("cuda"):
        z = cm.asarray(numbers(np.random.default_rng(0), (64, 1009), np.dtype("c8")))
        want = np.asarray(cm.fft.fft(z))
        used = cm.cuda.memory_stats()["allocated"]
        for _ in range(3):
            cm.fft.fft(z)
        assert cm.cuda.memory_stats()["allocated"] == used
        step = cm.cuda.graph(lambda z: cm.fft.fft(z) * 2)
        for _ in range(3):
            out = step(z)
        np.testing.assert_array_equal(np.asarray(out), want * 2)
        streams = [cm.cuda.Stream() for _ in range(2)]
        results = []
        for _ in range(4):
            for one in streams:
                with one:
                    results.append(cm.fft.fft(z))
        for one in streams:  # reading on the current stream does not wait for them
            one.synchronize()
        for result in results:
            np.testing.assert_array_equal(np.asarray(result), want)


def test_halves_of_hermitian_signals_again(device):
    """A second call of the same kind goes straight to the plans of the first, for the same lengths,
    axes and factors only."""
    rng = np.random.default_rng(0)
    for dtype in ("f4", "f8", "i4"):
        x = (rng.standard_normal((6, 8)) * 9).astype(dtype)
        for _ in range(3):
            for told in (
                {},
                {"n": 5},
                {"axis": 0},
                {"norm": "ortho"},
                {"n": 9, "axis": 0, "norm": "forward"},
            ):
                got, want = (
                    cm.fft.ihfft(cm.asarray(x), **told),
                    np.fft.ihfft(x.astype("f8"), **told),
                )
                assert got.shape == want.shape and got.dtype == ("c8" if dtype == "f4" else "c16")
                np.testing.assert_allclose(
                    np.asarray(got), want, rtol=1e-5, atol=1e-5 if dtype == "f4" else 1e-13
                )
        with pytest.raises(ValueError, match="^ihfft: "):
            cm.fft.ihfft(cm.asarray(x), axis=2)
    x = cm.asarray(rng.standard_normal(6))
    (g,) = cm.vjp(cm.fft.ihfft, x)[1](cm.ones(4, "c16"))  # after calls without a gradient
    assert g.shape == (6,) and abs(np.asarray(g)[0] - 4 / 6) < 1e-14
