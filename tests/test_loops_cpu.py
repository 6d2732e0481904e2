"""Compiled elementwise loops on the CPU (cpu/loops.py): NumPy's results bit for bit, once Numba is there."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import cudamath as cm
from cudamath.cpu import loops
from cudamath.ops import ufunc

ARITHMETIC = ["add", "subtract", "multiply", "divide"]
UNARY = ["abs", "isnan", "negative", "sqrt", "square"]
NAMES = sorted(ufunc._LOOPS)
SPECIAL = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-45, 3e38, -3e38, 1e308, 5e-324]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """From the second call on, of arrays of any size whose memory is kept."""
    monkeypatch.setattr(ufunc, "_OFTEN", 2)
    with cm.device("cpu"):
        for name in NAMES:
            getattr(cm, name).card.plans.clear()
        yield
        for name in NAMES:
            getattr(cm, name).card.plans.clear()


def same(got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_array_equal(got.to_numpy(), expected)
    if expected.dtype.kind == "f":
        known = ~np.isnan(expected)
        assert np.array_equal(np.signbit(got.to_numpy())[known], np.signbit(expected)[known])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name, dtype", [*((name, "f4") for name in NAMES if name not in UNARY),
                                         *((name, "f8") for name in ("add", "divide", "greater", "maximum"))])
def test_bit_for_bit(name, dtype):
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), "f8").clip(-np.finfo(dtype).max, np.finfo(dtype).max)
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        x, y = (np.concatenate([pairs[:, i].astype(dtype), rng.standard_normal(70_000).astype(dtype)]) for i in (0, 1))
        function, exact = getattr(cm, name), getattr(np, name)
        a, b = cm.asarray(x), cm.asarray(y)
        expected, scaled, swapped = exact(x, y), exact(x, 0.1), exact(0.1, x)
    for _ in range(4):
        same(function(a, b), expected)
        same(function(a, 0.1), scaled)
        same(function(0.1, a), swapped)
    runs = [function.card.plans[key] for key in ((a._layout, b._layout), (a._layout, float), (float, a._layout))]
    assert all("looped" in run.__qualname__ for run in runs)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name, dtype", [*((name, "f4") for name in UNARY), ("sqrt", "f8"), ("isnan", "f8")])
def test_bit_for_bit_of_one(name, dtype):
    rng = np.random.default_rng(4)
    x = np.concatenate([np.array(SPECIAL).clip(-np.finfo(dtype).max, np.finfo(dtype).max).astype(dtype), [np.inf, -np.inf],
                        rng.standard_normal(70_000)]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    a, function = cm.asarray(x), getattr(cm, name)
    for _ in range(5):  # both ways through the array
        same(function(a), expected)
    assert "looped" in function.card.plans[a._layout].__qualname__


@pytest.mark.parametrize("shape", [(40_000,), (200, 300), (20, 50, 60), (1, 40_000, 1)])
def test_shapes_scalars_that_change_and_views(shape):
    x = np.random.default_rng(2).standard_normal(shape, dtype=np.float32)
    a = cm.asarray(x)
    for k in range(6):
        same(a * float(k), x * np.float32(k))
        same(k - a, np.float32(k) - x)
        same(a * 3, x * np.float32(3))
        same(a + a, x + x)
        same(a > k / 2, x > k / 2)
        same(a[..., ::-1] + a, x[..., ::-1] + x)      # not in C order, broadcasts, other dtypes: NumPy's loops
        same(a + a.reshape(-1)[:1], x + x.reshape(-1)[:1])
        same(a + a.astype("f8"), x + x.astype("f8"))
        same(a.astype("i4") + 1, x.astype("i4") + 1)
    held = [a * float(k) for k in range(9)]
    for k, each in enumerate(held):
        same(each, x * np.float32(k))


def test_gradients_and_errors_stay():
    x = np.random.default_rng(3).standard_normal(40_000)
    a = cm.asarray(x)
    for _ in range(4):
        gradient = cm.grad(lambda a: ((a * a + 2.0 * a) / 3.0 - a).sum())(a)
        np.testing.assert_allclose(gradient.to_numpy(), (2 * x + 2) / 3 - 1, rtol=1e-14, atol=1e-15)
        assert cm.grad(lambda c: (a * c).sum())(2.0).item() == pytest.approx(x.sum())
        with pytest.raises(ValueError, match="^add: "):
            a + a[:-1]
        assert (a + 1j).dtype == np.complex128


def test_numba_is_not_imported_for_this():
    program = ("import sys, cudamath as cm\ncm.set_default_device('cpu')\na = cm.ones(40_000, dtype='float32')\n"
               "for _ in range(100): a + a\nprint('numba' in sys.modules, a.sum(), 'numba' in sys.modules)\n"
               "for _ in range(100): a + a\nrun = cm.add.card.plans[a._layout, a._layout]\nprint(run.__qualname__)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    said = done.stdout.split()
    assert said[:3] == ["False", "40000.0", "True"] and "looped" in said[3]


def test_every_loop_is_used():
    made = {name for name, value in vars(loops).items() if hasattr(value, "py_func")}
    assert made == set(NAMES) and set(ARITHMETIC) < made
