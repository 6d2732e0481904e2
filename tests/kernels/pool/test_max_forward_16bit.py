"""Maxima of overlapping windows by pairs of 16-bit floats, by name: in the simulator, whose pairs
are NumPy's, and on a GPU."""

import numpy as np
import pytest
from compiled_facts import compile_plan

import cudamath as cm
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.kernels.lib import vector_io
from cudamath.kernels.pool import dispatch as pool_dispatch
from cudamath.kernels.pool import max_forward_16bit, problem
from cudamath.runtime.device import assume, capability

DTYPES = [np.dtype("f2"), np.dtype(cm.bfloat16)]


def halves(word, dtype):
    return np.array([word], np.uint32).view(dtype)


def whole(pair):
    return np.array(pair).view(np.uint32)[0]


def permuted(a, b, digits):
    given, chosen = (
        np.array([a, b], np.uint32).view(np.uint8),
        [int(digits) >> 4 * k & 0xF for k in range(4)],
    )
    return given[chosen].view(np.uint32)[0]


def larger(dtype):
    """max.NaN of pairs, as the instruction set has it: NaN wins, and 0 is larger than -0."""

    def of(a, b):
        a, b = halves(a, dtype), halves(b, dtype)
        wide = np.maximum(a.astype("f4"), b.astype("f4"))
        wide = np.where((wide == 0) & ~(np.signbit(a) & np.signbit(b)), np.float32(0), wide)
        return whole(wide.astype(dtype))

    return of


def equal(dtype):
    return lambda a, b: whole(
        np.where(halves(a, dtype) == halves(b, dtype), np.uint16(0xFFFF), np.uint16(0))
    )


@pytest.fixture
def paired(monkeypatch):
    """The instructions as Python functions."""

    def load(a, i, count):
        assert i % count == 0, "a wide load wants an aligned address"
        return tuple(a[int(i) : int(i) + count])

    def store(a, i, v):
        assert i % len(v) == 0, "and so does a store"
        a[int(i) : int(i) + len(v)] = v

    monkeypatch.setattr(vector_io, "load_vector", load, raising=False)
    monkeypatch.setattr(vector_io, "store_vector", store, raising=False)
    for name, value in {
        "permute": permuted,
        "larger": {d: larger(d) for d in DTYPES},
        "equal": {d: equal(d) for d in DTYPES},
        "store_vector": store,
    }.items():
        monkeypatch.setattr(max_forward_16bit, name, value, raising=False)
    monkeypatch.setattr(problem, "SIMULATOR", False)
    made = (
        max_forward_16bit.pool_pairs,
        max_forward_16bit.picking,
        vector_io.fetcher,
        vector_io.writer,
    )
    for factory in made:
        factory.cache_clear()
    yield
    for factory in made:
        factory.cache_clear()


def images(rng, shape, dtype):
    """Few distinct numbers, so that many are equal; zeros of both signs, infinities, NaN, and an
    image of -inf alone."""
    x = rng.integers(-4, 5, shape).astype("f4")
    x[x == 0] *= rng.choice([-1.0, 1.0], (x == 0).sum())
    x[rng.random(shape) < 0.05] = np.inf
    x[rng.random(shape) < 0.4] = -np.inf
    x[rng.random(shape) < 0.03] = np.nan
    x[0, 0] = -np.inf
    return x.astype(dtype)


def reference(x, kernel, stride, padding):
    """(maxima, places in their windows): of the first maximum inside the image, or of the last
    NaN."""
    x = x.astype("f4")
    size = [
        (n + 2 * pad - k) // s + 1
        for n, k, s, pad in zip(x.shape[2:], kernel, stride, padding, strict=True)
    ]
    y, notes = np.full((*x.shape[:2], *size), -np.inf, "f4"), np.full((*x.shape[:2], *size), 255)
    for p, q in np.ndindex(*size):
        for r, s in np.ndindex(*kernel):
            h, w = p * stride[0] - padding[0] + r, q * stride[1] - padding[1] + s
            if 0 <= h < x.shape[2] and 0 <= w < x.shape[3]:
                taken = (
                    (notes[:, :, p, q] == 255)
                    | (x[:, :, h, w] > y[:, :, p, q])
                    | np.isnan(x[:, :, h, w])
                )
                y[:, :, p, q] = np.where(taken, x[:, :, h, w], y[:, :, p, q])
                notes[:, :, p, q] = np.where(taken, r * kernel[1] + s, notes[:, :, p, q])
    return y, notes


WINDOWS = [
    ((3, 3), (2, 2), (1, 1), (11, 32)),
    ((3, 3), (1, 1), (1, 1), (4, 16)),
    ((2, 3), (1, 1), (0, 1), (3, 8)),
    ((3, 3), (3, 2), (0, 1), (9, 16)),
    ((1, 3), (1, 2), (0, 1), (2, 16)),
    ((3, 3), (2, 2), (1, 1), (1, 16)),
    ((2, 4), (3, 2), (1, 1), (7, 16)),
    ((3, 3), (2, 2), (1, 1), (12, 48)),
]


def plans(layout, kernel, stride, padding):
    size = tuple(
        (n + 2 * pad - k) // s + 1
        for n, k, s, pad in zip(layout.shape[2:], kernel, stride, padding, strict=True)
    )
    where = {
        "size": size,
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": (1, 1),
    }
    version = "max_16bit"
    with assume((9, 0)):
        return (
            pool_dispatch.max_pool2d(layout, within=True, version=version, **where),
            pool_dispatch.max_pool2d_values(layout, version=version, **where),
        )


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kernel, stride, padding, shape", WINDOWS)
def test_pairs_simulated(paired, kernel, stride, padding, shape, dtype):
    x = images(np.random.default_rng(sum(shape)), (2, 3, *shape), dtype)
    expected, places = reference(x, kernel, stride, padding)
    for plan in plans(cm.testing.layout_of(x), kernel, stride, padding):
        assert [step.kernel.__name__ for step in plan.steps] == ["pool_pairs"]
        found = cm.testing.simulate(plan, x)
        y, notes = found if isinstance(found, tuple) else (found, places)
        np.testing.assert_array_equal(y.astype("f4"), expected)
        np.testing.assert_array_equal(notes, places)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "kernel, stride, padding, shape",
    [*WINDOWS, ((3, 3), (2, 2), (1, 1), (112, 112)), ((3, 3), (2, 2), (1, 1), (256, 256))],
)
def test_pairs_on_gpu(kernel, stride, padding, shape, dtype):
    """The kernel, and that maxima and gradient are the CPU's."""
    x = images(np.random.default_rng(sum(shape)), (3, 5, *shape), dtype)
    expected, places = reference(x, kernel, stride, padding)
    with cm.device("cuda"):
        there = cm.asarray(x)
        for plan in plans(there._layout, kernel, stride, padding):
            if capability(0) >= (9, 0):
                assert [step.kernel.__name__ for step in plan.steps] == ["pool_pairs"]
            found = plan.bind("pairs", [there._layout])(there)
            y, notes = (
                (v.to_numpy() for v in found)
                if isinstance(found, tuple)
                else (found.to_numpy(), places)
            )
            np.testing.assert_array_equal(y.astype("f4"), expected)
            np.testing.assert_array_equal(notes, places)
    g = np.random.default_rng(0).integers(-3, 4, expected.shape).astype(dtype)
    slopes = []
    for device in ("cuda", "cpu"):
        y, pull = cm.vjp(
            lambda v: cm.ml.max_pool2d(v, kernel, stride, padding), cm.asarray(x, device=device)
        )
        slopes.append(pull(cm.asarray(g, device=device))[0].to_numpy())
        np.testing.assert_array_equal(y.to_numpy().astype("f4"), expected)
    np.testing.assert_array_equal(*slopes)


@pytest.mark.compiles
@pytest.mark.skipif(SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kernel, stride, padding, shape", [WINDOWS[0], WINDOWS[6]])
def test_pairs_compile_without_spills(kernel, stride, padding, shape, dtype):
    from cudamath.core.layout import Layout

    layout = Layout.new((2, 3, *shape), dtype, 0)
    for plan in plans(layout, kernel, stride, padding):
        (found,) = compile_plan(plan, [layout], (9, 0))
        assert found.kernel == "pool_pairs" and found.spills == 0 and found.registers <= 72, found
