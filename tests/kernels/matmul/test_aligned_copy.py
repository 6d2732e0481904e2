"""Matrices copied so that their rows begin at multiples of 16 bytes
(kernels/matmul/aligned_copy.py)."""

import ml_dtypes
import numpy as np
import pytest
from gradient_checks import MACHINES, run_version

from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.plan import Plan
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.lib.integers import blocks
from cudamath.kernels.matmul import aligned_copy
from cudamath.runtime.device import assume
from cudamath.testing import layout_of

DTYPES = [np.int8, ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, np.float32, np.float64]
SHAPES = [
    (5, 17),
    (1, 1),
    (3, 16),
    (300, 129),
    (2, 3, 35),
]  # the last: matrices of a batch, one after the other


def moving(*layouts):
    """The plan that copies these; its results are whole lines of 16 bytes."""
    rows = [aligned_copy.rows_of(Input(i), Output(i), view) for i, view in enumerate(layouts)]
    outs = [
        Layout.new(
            (blocks(r.columns * x.itemsize, 16) * 16 // x.itemsize * r.count,), x.dtype, x.device
        )
        for r, x in zip(rows, layouts, strict=True)
    ]
    return Plan(outs, [aligned_copy.launch(rows, layouts[0].itemsize)])


def expected(x):
    """The copy by NumPy."""
    unit = 16 // x.itemsize
    whole = x.reshape(-1, x.shape[-1])
    return np.pad(whole.view(f"u{x.itemsize}"), ((0, 0), (0, -x.shape[-1] % unit))).ravel()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_and_two(machine, dtype, shape):
    rng = np.random.default_rng(3)
    x, y = (
        rng.integers(0, 200, s).astype(np.uint8).astype(dtype)
        if np.dtype(dtype).itemsize > 1
        else rng.integers(0, 256, s).astype(np.uint8).view(dtype)
        for s in (shape, (7, 40))
    )
    for arrays in ((x,), (x, y), (y, x)):
        found = run_version(machine, moving, *arrays)
        for one, given in zip(
            found if isinstance(found, (list, tuple)) else [found], arrays, strict=True
        ):
            one = np.asarray(one.to_numpy() if hasattr(one, "to_numpy") else one)
            np.testing.assert_array_equal(one.view(f"u{given.itemsize}"), expected(given))


@pytest.mark.parametrize("machine", MACHINES)
def test_every_other_row(machine):
    x = np.arange(12 * 19, dtype=np.int8).reshape(12, 19)
    found = run_version(machine, lambda x: moving(x.view((6, 18), (38, 1))), x)
    found = np.asarray(found.to_numpy() if hasattr(found, "to_numpy") else found)
    np.testing.assert_array_equal(found.view(np.uint8), expected(np.ascontiguousarray(x[::2, :18])))


def test_what_is_left_to_copies():
    """Columns apart, rows backwards or unevenly spaced, vectors, nothing."""
    x = layout_of(np.zeros((4, 6, 10), np.int8))
    for shape, strides in (
        ((6, 5), (10, 2)),
        ((6, 10), (-10, 1)),
        ((4, 3, 10), (60, 10, 1)),
        ((10,), (1,)),
        ((0, 10), (10, 1)),
        ((4, 6, 10), (0, 10, 1)),
        ((10, 6), (1, 10)),
    ):
        assert aligned_copy.rows_of(Input(0), Output(0), x.view(shape, strides)) is None
    assert aligned_copy.rows_of(Input(0), Output(0), x).count == 24


@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="tensor cores have no simulator")
def test_odd_operands_are_moved_at_once():
    """Both in one launch; what lies across is turned by copies."""
    from cudamath.kernels.matmul.dispatch import matmul

    def names(a, b, **more):
        with assume((9, 0)):
            return [step.kernel.__name__ for step in matmul(a, b, version="sm90", **more).steps]

    for dtype in (ml_dtypes.bfloat16, np.float16):
        a, b = (layout_of(np.zeros(s, dtype)) for s in ((2047, 2045), (2045, 2047)))
        assert names(a, b) == ["pitched", "matmul_wgmma"]
        assert names(
            layout_of(np.zeros((2047, 2048), dtype)), layout_of(np.zeros((2048, 2047), dtype))
        ) == ["pitched", "matmul_wgmma"]
        assert names(*[layout_of(np.zeros((2048, 2048), dtype))] * 2) == ["matmul_wgmma"]
    a = layout_of(np.zeros((2047, 2047), np.float32))
    assert names(a, a.view(a.shape, a.strides[::-1]), tf32=True) == ["pitched", "matmul_wgmma"]
    assert sorted(names(a, a, tf32=True)) == ["matmul_wgmma", "pitched", "tiled"]
