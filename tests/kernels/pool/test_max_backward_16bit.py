"""Gradients of maxima of overlapping windows from bytes, by name: simulated, and on a GPU; and the
quotients they need."""

import numpy as np
import pytest
from compiled_facts import compile_plan

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.kernels.lib import fast_division, vector_io
from cudamath.kernels.pool import dispatch as pool_dispatch
from cudamath.kernels.pool import max_backward_16bit, problem
from cudamath.runtime.device import assume

BF16 = np.dtype(cm.bfloat16)
#: windows, and images of such sizes: edges on all sides, one line alone, rows that no window
#: reaches, several bands of windows
WINDOWS = [
    ((3, 3), (2, 2), (1, 1), (12, 32)),
    ((3, 3), (2, 2), (1, 1), (11, 48)),
    ((3, 3), (1, 1), (1, 1), (5, 16)),
    ((2, 3), (1, 1), (0, 1), (3, 8)),
    ((3, 3), (3, 2), (0, 1), (9, 16)),
    ((1, 3), (1, 2), (0, 1), (3, 16)),
    ((3, 3), (2, 2), (1, 1), (1, 16)),
    ((2, 4), (3, 2), (1, 1), (7, 16)),
    ((3, 3), (2, 1), (1, 1), (6, 16)),
    ((1, 9), (1, 1), (0, 4), (2, 24)),
]


@pytest.fixture
def wide(monkeypatch):
    """Wide loads and stores as Python functions."""

    def load(a, i, count):
        assert i % count == 0 and 0 <= i <= a.size - count, "a wide load wants an aligned address"
        return tuple(a[int(i) : int(i) + count])

    def store(a, i, v):
        assert i % len(v) == 0 and 0 <= i <= a.size - len(v), "and so does a store"
        a[int(i) : int(i) + len(v)] = v

    monkeypatch.setattr(vector_io, "load_vector", load, raising=False)
    monkeypatch.setattr(vector_io, "store_vector", store, raising=False)
    monkeypatch.setattr(
        vector_io,
        "bfloats",
        lambda word: np.array([word], np.uint32).view(BF16).astype("f4"),
        raising=False,
    )
    monkeypatch.setattr(problem, "SIMULATOR", False)
    made = (max_backward_16bit.pool_bytes_grad, vector_io.fetcher, vector_io.writer)
    for factory in made:
        factory.cache_clear()
    yield
    for factory in made:
        factory.cache_clear()


def case(rng, images, kernel, stride, padding, size, dtype):
    """Gradients, notes of places that the windows may have taken, 255 for some, and the sums in
    float64."""
    results = [
        (n + 2 * pad - k) // s + 1
        for n, k, s, pad in zip(size, kernel, stride, padding, strict=True)
    ]
    g = rng.integers(-3, 4, (*images, *results)).astype(dtype)
    notes, sums = np.full(g.shape, 255, np.uint8), np.zeros((*images, *size))
    for at in np.ndindex(*g.shape):
        h, w = at[2] * stride[0] - padding[0], at[3] * stride[1] - padding[1]
        inside = [
            (r, s)
            for r in range(kernel[0])
            for s in range(kernel[1])
            if 0 <= h + r < size[0] and 0 <= w + s < size[1]
        ]
        if inside and rng.random() < 0.9:
            r, s = inside[rng.integers(len(inside))]
            notes[at] = r * kernel[1] + s
            sums[at[0], at[1], h + r, w + s] += float(g[at])
    return g, notes, sums


def planned(g, notes, kernel, stride, padding, size, version="max_16bit"):
    with assume((9, 0)):
        return pool_dispatch.max_pool2d_grad(
            g,
            notes,
            size=size,
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=(1, 1),
            version=version,
        )


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [BF16, np.dtype("f2")], ids=str)
@pytest.mark.parametrize("kernel, stride, padding, size", WINDOWS)
def test_bytes_simulated(wide, kernel, stride, padding, size, dtype):
    g, notes, sums = case(
        np.random.default_rng(sum(size)), (2, 2), kernel, stride, padding, size, dtype
    )
    plan = planned(*map(cm.testing.layout_of, (g, notes)), kernel, stride, padding, size)
    assert [step.kernel.__name__ for step in plan.steps] == ["pool_bytes_grad"]
    np.testing.assert_array_equal(cm.testing.simulate(plan, g, notes).astype("f8"), sums)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, np.dtype("f2")], ids=str)
@pytest.mark.parametrize(
    "kernel, stride, padding, size",
    [*WINDOWS, ((3, 3), (2, 2), (1, 1), (112, 112)), ((3, 3), (2, 2), (1, 1), (40, 1024))],
)
def test_bytes_on_gpu(kernel, stride, padding, size, dtype):
    g, notes, sums = case(
        np.random.default_rng(sum(size)), (3, 2), kernel, stride, padding, size, dtype
    )
    with cm.device("cuda"):
        there = cm.asarray(g), cm.asarray(notes)
        plan = planned(*[a._layout for a in there], kernel, stride, padding, size)
        assert [step.kernel.__name__ for step in plan.steps] == ["pool_bytes_grad"]
        np.testing.assert_array_equal(
            plan.bind("bytes", [a._layout for a in there])(*there).to_numpy().astype("f8"), sums
        )


def test_zeros_of_both_signs_give_zero(device):
    """A gradient of -0 added to nothing is 0, as wherever gradients are added up."""
    x = np.arange(64, dtype="f4").reshape(1, 1, 8, 8)
    _, pull = cm.vjp(lambda v: cm.ml.max_pool2d(v, 3, 2, 1), cm.asarray(x))
    assert not np.signbit(pull(cm.asarray(np.full((1, 1, 4, 4), -0.0, "f4")))[0].to_numpy()).any()


def test_quotients_by_multiplication():
    rng, multiples = np.random.default_rng(0), np.arange(1000)
    for divisor in (1, 2, 3, 7, 16, 129, 130, 1000, 1023, 65_537):
        for most in (1000, 1 << 20, (1 << 31) - 1):
            up = fast_division.reciprocal(divisor, most)
            if up:
                last = np.maximum(most // divisor - multiples, 0) * divisor
                i = np.concatenate([rng.integers(0, most, 1000), [0, most - 1, most], last])
                for n in (i, np.maximum(i - 1, 0)):
                    np.testing.assert_array_equal([int(v) * up >> 32 for v in n], n // divisor)
        assert fast_division.reciprocal(divisor, 1 << 31) == 0
    assert fast_division.reciprocal(16, (1 << 31) - 1) and fast_division.reciprocal(129, 1 << 22)
    assert not fast_division.reciprocal(65_537, 1 << 30)


@pytest.mark.skipif(SIMULATOR, reason="the simulator has no wide accesses")
def test_who_has_this_kernel():
    def name(n, dtype, kernel=(3, 3), stride=(2, 2), padding=(1, 1), size=(16, 32), notes="u1"):
        results = [
            (n + 2 * pad - k) // s + 1
            for n, k, s, pad in zip(size, kernel, stride, padding, strict=True)
        ]
        g, index = (Layout.new((n, 8, *results), np.dtype(t), 0) for t in (dtype, notes))
        return planned(g, index, kernel, stride, padding, size, None).steps[0].kernel.__name__

    assert name(2, BF16) == name(2, "f2") == "pool_bytes_grad"
    assert name(2, "f4") == name(2, "f8") == name(2, BF16, notes="i4") == "pool_rows_grad"
    assert name(2, BF16, kernel=(5, 5), padding=(2, 2)) == "pool_rows_grad"  # too many places
    assert (
        name(2, BF16, kernel=(7, 1), stride=(1, 1), padding=(3, 0)) == "pool_rows_grad"
    )  # too many rows
    assert name(1 << 20, BF16, size=(64, 32)) == "pool_rows_grad"  # places of more than 31 bits


@pytest.mark.compiles
@pytest.mark.skipif(SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize("kernel, stride, padding, size", [WINDOWS[0], WINDOWS[2], WINDOWS[7]])
def test_bytes_compile_without_spills(kernel, stride, padding, size):
    results = [
        (n + 2 * pad - k) // s + 1
        for n, k, s, pad in zip(size, kernel, stride, padding, strict=True)
    ]
    layouts = [Layout.new((2, 3, *results), t, 0) for t in (BF16, np.dtype("u1"))]
    (found,) = compile_plan(planned(*layouts, kernel, stride, padding, size), layouts, (9, 0))
    assert found.kernel == "pool_bytes_grad" and found.spills == 0 and found.registers <= 64, found
