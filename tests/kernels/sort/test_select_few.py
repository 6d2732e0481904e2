"""The first few elements of lines (kernels/sort/select_few.py): equal elements, lines that are cut,
lines that lie apart."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.sort import dispatch as sort_dispatch
from cudamath.kernels.sort import select_few
from cudamath.testing import layout_of, simulate

REAL = ["?", "i1", "u2", "f2", cm.bfloat16, "f4", "i8", "f8"]


def order_of(x, axis, descending):
    """The stable order by NumPy: in descending order too, where NaN comes first."""
    x = x.astype("f4") if x.dtype == cm.bfloat16 else x
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def drawn(shape, dtype, many=1000):
    """Numbers that repeat, signed zeros, infinities, NaNs of both signs."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, many, shape)
    x = (x - many // 2 if np.dtype(dtype).kind not in "bu" else x).astype(dtype)
    if x.dtype.kind == "f" or x.dtype == cm.bfloat16:
        x.flat[::7], x.flat[1::7], x.flat[2::61], x.flat[3::71] = 0.0, -0.0, np.nan, -np.nan
        x.flat[4::53], x.flat[5::53] = np.inf, -np.inf
    return x


def check(run, x, axis, count, launches=None):
    for descending in (False, True):
        plan = sort_dispatch.topk(
            layout_of(x) if isinstance(x, np.ndarray) else x,
            axis=axis,
            count=count,
            descending=descending,
            version="select_few",
        )
        if launches:
            assert [step.kernel.__name__ for step in plan.steps] == ["select_few"] * launches
        values, places = run(plan, x)
        order = np.take(order_of(x, axis, descending), range(count), axis)
        np.testing.assert_array_equal(places, order)
        assert values.tobytes() == np.take_along_axis(x, order, axis).tobytes()


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_a_line_simulated(dtype):
    check(simulate, drawn((300,), dtype), 0, 5, launches=1)


@pytest.mark.simulator
def test_equal_elements_simulated():
    """More of them than are ranked: their positions are counted."""
    check(simulate, np.full((1, 600), 7, "i2"), 1, 3, launches=1)
    check(simulate, drawn((600,), "f4", 2), 0, 100)


@pytest.mark.simulator
def test_lines_that_are_cut_simulated(monkeypatch):
    """Into parts, whose first elements are cut again."""
    monkeypatch.setattr(select_few, "PART", 64)
    check(simulate, drawn((2, 333), "f4"), 1, 20, launches=3)


@pytest.mark.simulator
def test_lines_that_lie_apart_simulated():
    check(simulate, drawn((200, 2), "i4"), 0, 9, launches=1)


def test_long_lines_that_lie_apart_are_copied():
    plan = sort_dispatch.topk(
        Layout.new((1 << 10, 1 << 10), np.dtype("f4"), 0), axis=0, count=5, descending=True
    )
    assert len(plan.steps) == 2


def on_gpu(plan, x):
    there = cm.asarray(x, device="cuda")
    return [y.to_numpy() for y in plan.bind("select", [there._layout])(there)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_on_gpu(dtype):
    for shape, axis in (
        ((2,), 0),
        ((600,), 0),
        ((4184,), 0),
        ((8192,), 0),
        ((8193,), 0),
        ((300, 129), 1),
        ((1733, 40), 0),
        ((3, 100_000), 1),
        ((1 << 20,), 0),
    ):
        for count in {1, 5, 100, 256}:
            if count <= shape[axis] // 2:
                for many in (2, 1000):
                    check(on_gpu, drawn(shape, dtype, many), axis, count)


@pytest.mark.parametrize("shape, axis", [((4184,), 0), ((9, 1000), 1), ((300, 40), 0)])
def test_topk(device, shape, axis):
    """Whatever finds them: the first of equal elements first, and a gradient."""
    x = drawn(shape, "f4", 50)
    for k in (1, 5, 100):
        for largest in (True, False):
            order = np.take(order_of(x, axis, largest), range(k), axis)
            values, places = cm.topk(cm.asarray(x, device=device), k, axis, largest=largest)
            np.testing.assert_array_equal(places.to_numpy(), order)
            assert values.to_numpy().tobytes() == np.take_along_axis(x, order, axis).tobytes()
            y = cm.asarray(np.nan_to_num(x), device=device)
            found = cm.grad(
                lambda y, k=k, largest=largest: cm.topk(y, k, axis, largest=largest)[0].sum()
            )(y)
            assert float(found.sum()) == k * x.size // x.shape[axis]
