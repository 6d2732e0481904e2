"""Batch norm's kernels along runs, with more rounds, chunks and ends of runs than small arrays have
by themselves."""

import numpy as np
import pytest
from gradient_checks import MACHINES, TOLERANCE, numbers, run_version, wide

from cudamath.core.dtypes import bfloat16
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.runtime.device import assume
from cudamath.testing import assert_close
from tests.ml.test_norm import batch_gradients, batch_reference, others


@pytest.fixture
def few_threads(monkeypatch):
    """Blocks of two rows of two threads where the simulator runs, and of few blocks: the threads go
    round often."""
    from cudamath.kernels.norm import batch_norm, batch_norm_welford, problem

    def fewer(machine, channels):
        monkeypatch.setattr(batch_norm_welford, "BLOCKS", channels)
        if machine == "simulator":
            found = batch_norm_welford.geometry
            for module in (batch_norm, problem):
                monkeypatch.setattr(
                    module, "geometry", lambda *layouts: found(*layouts)._replace(block=(2, 2))
                )

    return fewer


def images(shape, dtype, kind):
    """Normal numbers with the means 0 or 3,000, or these with corners of 0 (from which a pivot is
    taken)."""
    x = numbers(
        shape,
        dtype,
        scale=1 if dtype == "float32" else 100,
        shift=0 if kind == "around zero" else 3e3,
    )
    if kind == "corners":
        x[:, :, :3] = 0
        x[:, :, -1] = 0
        x[shape[0] // 2] = 0
    return x


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["around zero", "around 3000", "corners"])
def test_many_rounds(machine, dtype, kind, few_threads):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    large = [(100, 2, 4104), (50, 3, 8200), (70, 2, 16), (4000, 3, 25), (40, 2, 5001)]
    for shape in [(29, 2, 75)] if machine == "simulator" else large:
        c = shape[1]
        few_threads(machine, c)
        x, g = images(shape, dtype, kind), numbers(shape, dtype, 1, shift=1)
        w, b = numbers((c,), "float32", 2), numbers((c,), "float32", 3)
        y, mean, rstd, _, var = run_version(
            machine,
            lambda x, w, *_: norm_dispatch.batch_forward(
                x, w, None, 1.0, 1e-5, False, version="split_channels"
            ),
            x,
            w,
            b,
            w,
            w,
        )
        assert_close(
            mean,
            wide(x).mean(others(x)),
            rtol=3e-7,
            atol=1e-5 * float(wide(x).std()),
            what=f"{shape}",
        )
        assert_close(var, wide(x).var(others(x), ddof=1), rtol=3e-6, what=f"{shape}")
        loose = dict(
            rtol=TOLERANCE[dtype] * 4,
            atol=max(TOLERANCE[dtype] * 6, 3e-4 if kind == "around 3000" else 0),
        )
        assert_close(y, batch_reference(x, w, b), **loose, what=f"{shape}")
        found = run_version(
            machine,
            lambda g, x, w, *_: norm_dispatch.batch_backward(
                g, x, w, None, False, version="split_channels"
            ),
            g,
            x,
            w,
            b,
            mean,
            rstd,
        )
        size = (x.size // c) ** 0.5
        for got, right, much in zip(found, batch_gradients(g, x, w), (1, size, size), strict=True):
            assert_close(
                got,
                right,
                rtol=loose["rtol"],
                atol=3e-6 * much + loose["atol"] * (much == 1),
                what=f"{shape}",
            )


@pytest.mark.parametrize("machine", MACHINES)
def test_many_additions_that_round_alike(machine, few_threads):
    """Float16 near 3,000 are even, so all distances to the mean have the same digits after the
    point; threads that stand where a corner of 0 is, and those beside them, have large sums of
    them."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    shape = (200 if machine == "simulator" else 4000, 3, 25)
    few_threads(machine, 3)
    x, g, w = (
        images(shape, "float16", "corners"),
        numbers(shape, "float16", 1, shift=1),
        np.ones(3, "float32"),
    )
    mean, rstd = wide(x).mean((0, 2)), 1 / np.sqrt(wide(x).var((0, 2)) + 1e-5)
    _, found, _ = run_version(
        machine,
        lambda g, x, w, *_: norm_dispatch.batch_backward(
            g, x, w, None, False, version="split_channels"
        ),
        g,
        x,
        w,
        w,
        mean.astype("float32"),
        rstd.astype("float32"),
    )
    xhat = np.abs((wide(x) - mean[:, None]) * rstd[:, None])
    # What is added up: g xhat, and xhat, whose sum is taken off it times the mean of g. One
    # rounding of all of that:
    terms = (np.abs(wide(g)) * xhat).sum((0, 2)) + np.abs(wide(g).mean((0, 2))) * xhat.sum((0, 2))
    assert_close(
        found,
        batch_gradients(g, x, w)[1],
        rtol=0,
        atol=np.finfo("float32").eps / 2 * float(terms.min()),
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_infinity_and_nan_stay_in_their_channel(machine, few_threads):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    few_threads(machine, 3)
    x = numbers((9, 3, 75), "float32")
    x[3, 0, 7], x[4, 1, 70] = np.inf, np.nan
    w = np.ones(3, "float32")
    y, mean, _, _, var = run_version(
        machine,
        lambda x, w, *_: norm_dispatch.batch_forward(
            x, w, None, 1.0, 1e-5, False, version="split_channels"
        ),
        x,
        w,
        w,
        w,
        w,
    )
    assert np.isnan(y[:, :2][~np.isfinite(x[:, :2])]).all() and np.isnan(y[:, 1]).all()
    assert not np.isfinite(mean[:2]).any() and not np.isfinite(var[:2]).any()
    assert_close(y[:, 2], batch_reference(x[:, 2:], w[:1], w[:1])[:, 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1, 2**14, 2**14), (3, 2, 2**29 + 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_grids_of_long_runs(shape, dtype):
    """A plane of 16,384 squared float32 had one chunk more than a grid has room for in its second
    dimension."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    x, w = (
        Layout.new(s, np.dtype(bfloat16 if dtype == "bfloat16" else dtype), 0)
        for s in (shape, shape[1:2])
    )
    for plan in (
        norm_dispatch.batch_forward(x, w, x, 0.1, 1e-5, True, version="split_channels"),
        norm_dispatch.batch_backward(x, x, w, None, True, version="split_channels"),
        norm_dispatch.batch_norm_inference(x, w, w, w, w, eps=1e-5, relu=False),
    ):
        for step in plan.steps:
            across, along, deep = step.grid
            assert across < 2**31 and max(along, deep) <= 65_535, step


@pytest.mark.parametrize("machine", MACHINES)
def test_chunks_along_the_first_dimension_of_a_grid(machine, few_threads, monkeypatch):
    from cudamath.kernels.norm import batch_norm_welford
    from cudamath.kernels.norm import dispatch as norm_dispatch

    shape = (3, 2, 75) if machine == "simulator" else (3, 2, 40_001)
    few_threads(machine, 2)
    monkeypatch.setattr(batch_norm_welford, "MOST_CHUNKS", 1)
    x, g, w, b = (numbers(s, "float32", seed) for seed, s in enumerate((shape, shape, (2,), (2,))))
    y, mean, rstd, *_ = run_version(
        machine,
        lambda x, w, *_: norm_dispatch.batch_forward(
            x, w, None, 1.0, 1e-5, False, version="split_channels"
        ),
        x,
        w,
        b,
        w,
        w,
    )
    assert_close(y, batch_reference(x, w, b), rtol=1e-5, atol=1e-5)
    dx, *_ = run_version(
        machine,
        lambda g, x, w, *_: norm_dispatch.batch_backward(
            g, x, w, None, False, version="split_channels"
        ),
        g,
        x,
        w,
        b,
        mean,
        rstd,
    )
    assert_close(dx, batch_gradients(g, x, w)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(SIMULATOR, reason="the simulator holds no channels")
def test_channels_that_lie_side_by_side_are_not_held():
    """A block holds a channel's runs of whole accesses; of images channels last there are none."""
    from cudamath.kernels.copy.channels_last import as_channels_last
    from cudamath.kernels.norm import dispatch as norm_dispatch
    from cudamath.kernels.norm.problem import BatchForward

    with assume((9, 0)):
        x, w = (Layout.new(shape, np.dtype("f4"), 0) for shape in ((16, 32, 8, 8), (32,)))
        for layout, held in ((x, True), (as_channels_last(x), False)):
            problem = BatchForward(layout, w, None, 0.1, 1e-5, False)
            assert norm_dispatch.is_held(problem) == held
