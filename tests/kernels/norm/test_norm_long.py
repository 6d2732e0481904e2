"""Norm kernels for long rows and for groups, by name: `shared`, a cluster's blocks to a row;
gradients by `ring`, `cluster`."""

import math
import types

import numpy as np
import pytest
from compiled_facts import compile_plan
from gradient_checks import TOLERANCE, check_resources, numbers, run_version, wide

from cudamath.core.dispatch.arguments import Output
from cudamath.core.dtypes import bfloat16
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.kernels.lib.versions import ordered
from cudamath.runtime.device import assume
from cudamath.testing import assert_close, simulate
from tests.ml.test_norm import channels, row_gradients, row_reference

gpu = pytest.mark.gpu


def looseness(dtype, rows=1):
    """Tolerances of what is rounded to this dtype, for sums over rows."""
    return {"rtol": TOLERANCE[dtype] * 4, "atol": TOLERANCE[dtype] * 6 * rows**0.5}


@gpu
@pytest.mark.parametrize(
    "dtype, param", [("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("float16", "float16")]
)
@pytest.mark.parametrize(
    "rows, columns",
    [
        (3, 800),
        (3, 768),
        (1003, 512),
        (7001, 768),
        (700, 1024),
        (3000, 1600),
        (2500, 4096),
        (265, 8192),
    ],
)
def test_gradients_by_ring(rows, columns, dtype, param):
    """Fewer rows than blocks, fewer than stages, many; columns that fill the threads and such that
    do not; groups of a warp."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    x, g, extra = (
        numbers((rows, columns), dtype, scale=2, shift=1),
        numbers((rows, columns), dtype, 1),
        numbers((rows, columns), dtype, 4),
    )
    w, b = numbers((columns,), param, 2), numbers((columns,), param, 3)
    summed = looseness(dtype if param == dtype else "float32", rows)
    _, mean, rstd = run_version(
        "gpu",
        lambda x, w, b: norm_dispatch.forward(x, w, b, None, columns, 1e-5, version="rows"),
        x,
        w,
        b,
    )
    for more in ((), (extra,)):
        found = [
            run_version(
                "gpu",
                lambda g, x, w, m, s, *h: norm_dispatch.backward(
                    g, x, w, m, s, *h or [None], columns, True, version="tma"
                ),
                g,
                x,
                w,
                mean,
                rstd,
                *more,
            )
            for _ in range(2)
        ]
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
        expected = row_gradients(g, x, w, True)
        assert_close(
            found[0][0], expected[0] + wide(extra) if more else expected[0], **looseness(dtype)
        )
        for i in (1, 2):
            assert_close(found[0][i], expected[i], **summed)
    (rstd,) = run_version(
        "gpu",
        lambda x: norm_dispatch.forward(
            x, None, None, None, columns, 1e-5, center=False, version="rows"
        ),
        x,
    )[1:]
    dx, dweight = run_version(
        "gpu",
        lambda g, x, w, s: norm_dispatch.backward(
            g, x, w, None, s, None, columns, False, version="tma"
        ),
        g,
        x,
        w,
        rstd,
    )
    expected = row_gradients(g, x, w, False)
    assert_close(dx, expected[0], **looseness(dtype))
    assert_close(dweight, expected[1], **summed)
    (dx,) = run_version(
        "gpu",
        lambda g, x, s: norm_dispatch.backward(
            g, x, None, None, s, None, columns, False, version="tma"
        ),
        g,
        x,
        rstd,
    )
    assert_close(dx, row_gradients(g, x, np.ones(columns), False)[0], **looseness(dtype))


@gpu
@pytest.mark.parametrize(
    "rows, columns, dtype, param",
    [
        (1, 8200, "bfloat16", "bfloat16"),
        (3, 10_000, "float16", "float16"),
        (150, 16_384, "bfloat16", "bfloat16"),
        (37, 16_392, "bfloat16", "float16"),
        (65, 20_008, "bfloat16", "float32"),
        (29, 65_536, "bfloat16", "bfloat16"),
        (14, 131_072, "bfloat16", "bfloat16"),
        (60, 131_064, "bfloat16", "bfloat16"),
        (70, 8196, "float32", "float32"),
        (49, 40_004, "float32", "bfloat16"),
        (43, 65_536, "float32", "float32"),
    ],
)
def test_gradients_by_cluster(rows, columns, dtype, param):
    """Two, four and eight blocks to a row; fewer rows than clusters, than stages, many; a last
    block that has less."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    x, g = numbers((rows, columns), dtype, scale=2, shift=1), numbers((rows, columns), dtype, 1)
    w, b = numbers((columns,), param, 2), numbers((columns,), param, 3)
    summed = looseness(param, rows)
    _, mean, rstd = run_version(
        "gpu",
        lambda x, w, b: norm_dispatch.forward(x, w, b, None, columns, 1e-5, version="cluster"),
        x,
        w,
        b,
    )
    found = [
        run_version(
            "gpu",
            lambda g, x, w, m, s: norm_dispatch.backward(
                g, x, w, m, s, None, columns, True, version="cluster"
            ),
            g,
            x,
            w,
            mean,
            rstd,
        )
        for _ in range(3)
    ]
    for other in found[1:]:
        for one, again in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, again)
    expected = row_gradients(g, x, w, True)
    assert_close(found[0][0], expected[0], **looseness(dtype))
    for i in (1, 2):
        assert_close(found[0][i], expected[i], **summed)
    extra = numbers((rows, columns), dtype, 4)  # rounded, and rounded again when this is added
    dx, dbias = run_version(
        "gpu",
        lambda g, x, m, s, h: norm_dispatch.backward(
            g, x, None, m, s, h, columns, True, version="cluster"
        ),
        g,
        x,
        mean,
        rstd,
        extra,
    )
    expected = row_gradients(g, x, np.ones(columns), True)
    assert_close(dx, expected[0] + wide(extra), **looseness(dtype))
    assert_close(dbias, expected[2], **looseness(dtype, rows))
    _, rstd = run_version(
        "gpu",
        lambda x: norm_dispatch.forward(
            x, None, None, None, columns, 1e-5, center=False, version="cluster"
        ),
        x,
    )
    dx, dweight = run_version(
        "gpu",
        lambda g, x, w, s: norm_dispatch.backward(
            g, x, w, None, s, None, columns, False, version="cluster"
        ),
        g,
        x,
        w,
        rstd,
    )
    expected = row_gradients(g, x, w, False)
    assert_close(dx, expected[0], **looseness(dtype))
    assert_close(dweight, expected[1], **summed)


@pytest.mark.parametrize(
    "dtype, columns, threads, held",
    [
        ("float32", 64, 16, 4),
        ("bfloat16", 64, 8, 8),
        ("bfloat16", 768, 32, 24),
        ("float32", 1024, 64, 16),
        ("float32", 4096, 256, 16),
        ("float32", 8192, 512, 16),
        ("float32", 16384, 512, 32),
        ("bfloat16", 4096, 128, 32),
        ("float64", 4096, 512, 8),
        ("float32", 4099, 1024, 5),
    ],
)
def test_how_rows_are_spread_over_threads(dtype, columns, threads, held):
    from cudamath.kernels.norm import dispatch as norm_dispatch
    from cudamath.kernels.norm.problem import Forward

    x = Layout.new((1 << 20, columns), np.dtype(bfloat16 if dtype == "bfloat16" else dtype), 0)
    with assume((9, 0)):
        step = norm_dispatch.forward(x, None, None, None, columns, 1e-5, version="rows").steps[0]
        shape = Forward(x, None, None, None, columns, 1e-5).shape
    assert (step.block[0], shape.vectors * shape.width) == (threads, held)


@pytest.mark.simulator
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("rows, columns", [(5, 7), (131, 8), (300, 3)])
def test_rows_of_one_thread(rows, columns, kept):
    """A block has 128 such rows, and does the last one again where it has fewer; full rows and
    others."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    x, r, g, extra = (
        numbers((rows, columns), "float32", seed, scale=2, shift=1) for seed in range(4)
    )
    w, b, h = numbers((columns,), "float32", 5), numbers((columns,), "float32", 6), x + r
    y, *statistics, found = run_version(
        "simulator",
        lambda x, w, b, r: norm_dispatch.forward(
            x, w, b, r, columns, 1e-5, statistics=kept, version="rows"
        ),
        x,
        w,
        b,
        r,
    )
    assert_close(found, h, rtol=0)
    assert_close(y, row_reference(h, w, b), **looseness("float32"))
    mean, rstd = wide(h).mean(1), 1 / np.sqrt(wide(h).var(1) + 1e-5)
    assert len(statistics) == 2 * kept
    for got, expected in zip(statistics, (mean, rstd) if kept else (), strict=True):
        assert_close(got, expected, rtol=1e-5, atol=1e-5)
    with assume((9, 0)):
        found = run_version(
            "simulator",
            lambda g, x, w, m, s, e: norm_dispatch.backward(
                g, x, w, m, s, e, columns, True, version="rows"
            ),
            g,
            h,
            w,
            mean.astype("f4"),
            rstd.astype("f4"),
            extra,
        )
    expected = row_gradients(g, h, w, True)
    assert_close(found[0], expected[0] + wide(extra), **looseness("float32", 10))
    for i in (1, 2):
        assert_close(found[i], expected[i], **looseness("float32", rows))


@gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [8, 40, 64, 128])
def test_groups_beyond_the_last_row(columns, dtype):
    """They do the last one again, with the same result."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    x, r = (
        numbers((1_200_011, columns), dtype, scale=2, shift=1),
        numbers((1_200_011, columns), dtype, 1),
    )
    w, b = numbers((columns,), dtype, 2), numbers((columns,), dtype, 3)
    h = (wide(x) + wide(r)).astype(x.dtype)
    y, mean, rstd, found = run_version(
        "gpu",
        lambda x, w, b, r: norm_dispatch.forward(x, w, b, r, columns, 1e-5, version="rows"),
        x,
        w,
        b,
        r,
    )
    assert_close(found, h, rtol=0)
    assert_close(y, row_reference(h, w, b), **looseness(dtype))
    assert_close(mean, wide(h).mean(1), rtol=1e-5, atol=1e-5)
    assert_close(rstd, 1 / np.sqrt(wide(h).var(1) + 1e-5), rtol=1e-5)
    y, _ = run_version(
        "gpu",
        lambda x, w: norm_dispatch.forward(
            x, w, None, None, columns, 1e-5, center=False, version="rows"
        ),
        x,
        w,
    )
    assert_close(y, row_reference(x, w), **looseness(dtype))


@pytest.mark.simulator
@pytest.mark.parametrize("weighted, biased", [(True, True), (True, False), (False, True)])
def test_last_sums_of_few_groups(weighted, biased):
    """One thread adds up a column's, in the groups' order."""
    from cudamath.core.dispatch.arguments import Input, Output
    from cudamath.core.dispatch.plan import Plan
    from cudamath.core.dispatch.steps import Launch
    from cudamath.kernels.norm.backward import FEW, finish_few
    from cudamath.kernels.norm.row_parts import Parts

    sums = numbers((2, 11, FEW + 3), "float32")
    column = Layout.new((FEW + 3,), np.dtype(np.float32), 0)
    kernel = finish_few(column.dtype, Parts(weight=weighted, bias=biased))
    step = Launch(kernel, (2, 2), FEW, [Input(0), Output(0), Output(1)])
    found = simulate(Plan([column, column], [step], several=True), sums)
    for which in range(2):
        if (weighted, biased)[which]:
            total = np.float32(0)
            for group in range(11):
                total = total + sums[which, group]
            np.testing.assert_array_equal(found[which], total)


def test_which_kernel_adds_the_last_sums():
    """A thread a column, up to LAST groups of so many columns that they fill the device; else
    several a column."""
    from cudamath.kernels.norm import backward
    from cudamath.kernels.norm.row_parts import Parts
    from cudamath.runtime.device import multiprocessors

    with assume((9, 0)):
        enough = backward.LANES * backward.BUSY * multiprocessors(0)
        for groups, columns, expected in (
            (1, enough, "norm_finish_few"),
            (backward.LAST, enough, "norm_finish_few"),
            (backward.LAST, enough - 1, "norm_finish"),
            (backward.LAST + 1, enough, "norm_finish"),
        ):
            problem = types.SimpleNamespace(
                summed=True,
                columns=columns,
                param=Layout.new((columns,), np.dtype("f4"), 0),
                parts=Parts(weight=True, bias=True),
                sums=(Output(1).flat, Output(2).flat),
                x=Layout.new((groups, columns), np.dtype("f4"), 0),
            )
            (step,) = backward.finish_sums(problem, groups)
            assert step.kernel.__name__ == expected, (groups, columns)


@gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    "columns", [264, 4096, 8192, 8200, 20_008, 32_768, 65_536, 131_072, 262_136]
)
def test_rows_shared_by_blocks(columns, dtype):
    """One, two, four and eight blocks, of 64 to 1,024 threads; a mean far from 0 in float32."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    x = numbers((7, columns), dtype, scale=2, shift=30 if dtype == "float32" else 1)
    w, b = numbers((columns,), dtype, 2), numbers((columns,), dtype, 3)
    y, mean, rstd = run_version(
        "gpu",
        lambda x, w, b: norm_dispatch.forward(x, w, b, None, columns, 1e-5, version="cluster"),
        x,
        w,
        b,
    )
    loose = looseness(dtype)
    if dtype == "float32":
        loose["atol"] *= 2  # the mean, 30, is rounded
    assert_close(y, row_reference(x, w, b), **loose)
    assert_close(mean, wide(x).mean(1), rtol=1e-6)
    assert_close(rstd, 1 / np.sqrt(wide(x).var(1) + 1e-5), rtol=2e-6)
    y, _ = run_version(
        "gpu",
        lambda x, w: norm_dispatch.forward(
            x, w, None, None, columns, 1e-5, center=False, version="cluster"
        ),
        x,
        w,
    )
    assert_close(y, row_reference(x, w), **looseness(dtype))


@gpu
@pytest.mark.parametrize(
    "dtype, param",
    [
        ("bfloat16", "bfloat16"),
        ("bfloat16", "float32"),
        ("float32", "bfloat16"),
        ("float16", "float16"),
        ("float32", "float32"),
    ],
)
@pytest.mark.parametrize("columns", [16_648, 100_008, 131_072])
def test_weights_of_rows_shared_by_blocks(columns, dtype, param):
    """From shared memory, ahead into registers, or when they are wanted: with both, one or none of
    them, in either dtype."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    if dtype == "float32":
        columns //= 2
    x, w, b = (
        numbers((9, columns), dtype, scale=2, shift=1),
        numbers((columns,), param, 2),
        numbers((columns,), param, 3),
    )
    one, loose = np.ones(columns), looseness(dtype)
    (y,) = run_version(
        "gpu",
        lambda x, w, b: norm_dispatch.forward(x, w, b, None, columns, 1e-5, version="cluster"),
        x,
        w,
        b,
    )[:1]
    assert_close(y, row_reference(x, w, b), **loose)
    (y,) = run_version(
        "gpu",
        lambda x, w: norm_dispatch.forward(x, w, None, None, columns, 1e-5, version="cluster"),
        x,
        w,
    )[:1]
    assert_close(y, row_reference(x, w, 0 * one), **loose)
    (y,) = run_version(
        "gpu",
        lambda x, b: norm_dispatch.forward(x, None, b, None, columns, 1e-5, version="cluster"),
        x,
        b,
    )[:1]
    assert_close(y, row_reference(x, one, b), **loose)
    (y,) = run_version(
        "gpu",
        lambda x: norm_dispatch.forward(x, None, None, None, columns, 1e-5, version="cluster"),
        x,
    )[:1]
    assert_close(y, row_reference(x, one, 0 * one), **loose)
    (y,) = run_version(
        "gpu",
        lambda x, w: norm_dispatch.forward(
            x, w, None, None, columns, 1e-5, center=False, version="cluster"
        ),
        x,
        w,
    )[:1]
    assert_close(y, row_reference(x, w), **loose)


@pytest.mark.compiles
@pytest.mark.skipif(SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize("param", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    "weighted, biased", [(True, True), (True, False), (False, True), (False, False)]
)
def test_shared_rows_compile_without_spills(weighted, biased, param):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    x = Layout.new((9, 131_072), np.dtype(bfloat16), 0)
    p = Layout.new((131_072,), np.dtype(bfloat16 if param == "bfloat16" else param), 0)
    w, b = (p if given else None for given in (weighted, biased))
    with assume((9, 0)):
        plan = norm_dispatch.forward(x, w, b, None, 131_072, 1e-5, version="cluster")
    (found,) = compile_plan(plan, [v for v in (x, w, b) if v is not None], (9, 0))
    near = (weighted or biased) and 32 << 10
    assert found.kernel == "norm_shared" and found.spills == 0 and found.registers <= 64, found
    assert near <= found.shared < near + 2048, found


@gpu
@pytest.mark.parametrize(
    "dtype, param", [("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16")]
)
@pytest.mark.parametrize(
    "shape, groups",
    [
        ((3, 32, 16, 16), 4),
        ((3, 6, 4, 26), 2),
        ((2, 64, 64, 64), 2),
        ((5, 12, 100, 80), 3),
        ((2, 8, 8), 1),
    ],
)
def test_groups_shared_by_blocks(shape, groups, dtype, param):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    x, w, b = (
        numbers(shape, dtype, scale=2, shift=1),
        numbers(shape[1:2], param, 1),
        numbers(shape[1:2], param, 2),
    )
    y, mean, _ = run_version(
        "gpu",
        lambda x, w, b: norm_dispatch.group_norm(
            x, w, b, groups=groups, eps=1e-5, version="cluster"
        ),
        x,
        w,
        b,
    )
    rows = wide(x).reshape(shape[0], groups, -1)
    spread = np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    expected = ((rows - rows.mean(-1, keepdims=True)) / spread).reshape(shape) * channels(
        wide(w), x
    ) + channels(wide(b), x)
    assert_close(y, expected, **looseness(dtype))
    assert_close(mean, rows.mean(-1).ravel(), rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE["float32"])
    y, _, _ = run_version(
        "gpu",
        lambda x: norm_dispatch.group_norm(
            x, None, None, groups=groups, eps=1e-5, version="cluster"
        ),
        x,
    )
    assert_close(
        y, ((rows - rows.mean(-1, keepdims=True)) / spread).reshape(shape), **looseness(dtype)
    )


def test_channels_are_found_by_multiplication():
    """The fraction gives the quotient that a division gives where `fits_cluster` says so; at the
    borders of channels above all."""
    from cudamath.kernels.norm import row_parts
    from cudamath.kernels.norm.row_parts import Channels

    x = Layout.new((1 << 18,), np.dtype(np.float32), 0)
    rng = np.random.default_rng(0)
    with assume((9, 0)):
        for run in (*range(1, 70), 784, 3136, 4095, 4096, 4097, 65_535, 131_071, 1 << 18):
            share = (1 << 18) // run
            assert row_parts.fits_cluster(share * run, 4, x, Channels(1, share, run))
            starts = np.unique(np.r_[0, 1, share - 1, rng.integers(0, share, 50)]) * run
            columns = np.r_[starts, starts + run - 1, starts + run // 2]
            inverse = (1 << row_parts.SHIFT) // run + 1
            assert int(columns.max()) * inverse < 1 << 63
            assert (columns * inverse >> row_parts.SHIFT == columns // run).all(), run
        assert not row_parts.fits_cluster(1 << 18, 4, x, Channels(1, 1, 1 << 25))
        assert math.prod(row_parts.spread_cluster(1 << 18, True, x.dtype)) == 8192
        assert math.prod(row_parts.spread_cluster(1 << 18, True, bfloat16)) == 4096
    with assume((8, 0)):
        assert not row_parts.fits_cluster(1 << 16, 4, x, None)


def preferred(table, problem):
    """The name of the version that runs."""
    return ordered(table, problem)[0].name


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)])
def test_which_version(capability):
    """Groups and rows that no block holds go to a cluster where there are some; float64 and odd
    rows do not."""
    from cudamath.kernels.norm import dispatch as norm_dispatch
    from cudamath.kernels.norm.problem import Forward
    from cudamath.kernels.norm.row_parts import Channels

    def best(columns, channels=None, dtype=np.float32, aligned=True, center=True):
        x = Layout.of((1 << 18,), (np.dtype(dtype).itemsize,), np.dtype(dtype), 0, aligned)
        problem = Forward(x, None, None, None, columns, 1e-5, center, channels)
        return preferred(norm_dispatch.FORWARD, problem)

    cluster = "cluster" if capability >= (9, 0) else "long_rows"
    with assume(capability):
        assert best(4096) == best(32_768) == "rows"
        assert best(65_536) == cluster
        assert best(65_537) == best(65_536, dtype=np.float64) == "long_rows"
        assert best(4097) == best(4098, dtype=bfloat16) == best(2049, dtype=np.float64) == "shifted"
        assert best(4096, aligned=False) == best(127) == best(255, dtype=bfloat16) == "rows"
        assert best(385, dtype=bfloat16) == best(769, center=False) == "shifted"
        assert best(4096, Channels(32, 4, 1024)) == best(32_768, Channels(32, 8, 4096)) == "cluster"
        assert best(64, Channels(32, 4, 16)) == "rows"
        assert best(4096, Channels(32, 4, 1024), aligned=False) == "rows"
        assert best(131_072, Channels(8, 32, 4096)) == cluster


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 0)])
def test_which_gradient(capability):
    """Rows of 16-bit numbers that take at least a warp go through the ring where there is TMA, and
    room; with a residual those that take more. There a cluster takes rows that no block can hold.
    """
    from cudamath.kernels.norm import dispatch as norm_dispatch
    from cudamath.kernels.norm.problem import Backward

    def best(columns, residual=False, dtype=bfloat16, weight=None):
        x = Layout.new((1 << 18,), np.dtype(dtype), 0)
        rstd = Layout.new(((1 << 18) // columns,), np.dtype(np.float32), 0)
        w = None if weight is None else Layout.new((columns,), np.dtype(weight), 0)
        extra = x if residual else None
        problem = Backward(x, x, w, rstd, rstd, extra, columns, True)
        return preferred(norm_dispatch.BACKWARD, problem)

    has_tma = capability == (9, 0)
    ring, long = ("tma", "cluster") if has_tma else ("rows", "long_rows")
    single = np.float32
    with assume(capability):
        assert best(4096) == best(1000, True, weight=single) == ring
        assert best(768) == best(512) == ring
        assert best(768, True) == best(4096, dtype=single) == "rows"
        assert best(256) == "rows"
        assert best(1004, weight=single) == best(255) == best(1023, dtype=single) == "rows"
        assert best(131_067) == best(16_385, dtype=np.float64) == "long_rows"
        assert best(257) == best(8185, True) == best(4091, True, single) == "shifted"
        assert best(131_072) == best(65_536, True, weight=single) == long
        assert best(4097, dtype=single) == best(65_533, dtype=single) == long
        assert best(14_511) == best(8193, True, weight=single) == best(8187) == "long_rows"
        assert best(65_536, dtype=single) == long
        assert best(131_080) == best(65_540, dtype=single) == "long_rows"
        assert best(65_540, weight=single) == best(65_537, dtype=single) == "long_rows"


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)])
def test_registers(capability):
    """Nothing spills, in the variants that have the least room; without clusters as well."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    def lay(*shape, dtype=np.float32):
        return Layout.new(shape, np.dtype(dtype), 0)

    for dtype in (np.dtype(np.float32), np.dtype(bfloat16)):
        planes, c = lay(4, 64, 64, 64, dtype=dtype), lay(64)
        with assume(capability):
            plan = norm_dispatch.group_norm(planes, c, c, groups=8, eps=1e-5, version="cluster")
        assert plan.steps[0].cluster == (
            1 if capability < (9, 0) else 4 if dtype.itemsize == 4 else 2
        )
        check_resources(plan, [planes, c, c], capability)
        long = [
            lay(300, 131_072, dtype=dtype),
            lay(300, 131_072, dtype=dtype),
            lay(131_072, dtype=dtype),
            lay(300),
            lay(300),
        ]
        with assume(capability):
            plan = norm_dispatch.backward(*long, None, 131_072, True, version="long_rows")
        assert plan.steps[1].grid == (
            131_072 * dtype.itemsize // 512,
            3,
            1,
        )  # 32 accesses of 16 bytes a block, 8 x 16 rows
        check_resources(plan, long, capability)
        odd, w = lay(300, 131_071, dtype=dtype), lay(131_071, dtype=dtype)
        with assume(capability):
            plans = [
                norm_dispatch.forward(odd, w, w, None, 131_071, 1e-5, version="long_rows"),
                norm_dispatch.backward(
                    odd, odd, w, lay(300), lay(300), None, 131_071, True, version="long_rows"
                ),
            ]
        between, weight = lay(300, 20_001, dtype=dtype), lay(20_001)
        with assume(capability):
            shifted = norm_dispatch.forward(between, weight, weight, None, 20_001, 1e-5)
        assert shifted.steps[0].kernel.__name__ == "norm_shifted_rows"
        check_resources(shifted, [between, weight, weight], capability)
        n = 16_006 // dtype.itemsize
        between, weight = lay(300, n, dtype=dtype), lay(n)
        inputs = [between, between, weight, lay(300), lay(300)]
        with assume(capability):
            shifted = norm_dispatch.backward(*inputs, None, n, True)
        assert shifted.steps[0].kernel.__name__ == "norm_shifted_rows_grad"
        check_resources(shifted, inputs, capability)
        for plan, inputs in zip(
            plans, ([odd, w, w], [odd, odd, w, lay(300), lay(300)]), strict=True
        ):
            check_resources(plan, inputs, capability)
        if capability == (9, 0):
            n = 262_144 // dtype.itemsize
            long = [
                lay(300, n, dtype=dtype),
                lay(300, n, dtype=dtype),
                lay(n, dtype=dtype),
                lay(300),
                lay(300),
            ]
            with assume(capability):
                plan = norm_dispatch.backward(*long, None, n, True, version="cluster")
            assert (plan.steps[0].grid, plan.steps[0].cluster) == (
                (112, 1, 1),
                8,
            )  # 14 clusters, of 132 multiprocessors
            check_resources(plan, long, capability)
            for param in (np.float32, bfloat16):
                n = 29_129 * 2 // dtype.itemsize
                odd = [
                    *[lay(300, n, dtype=dtype)] * 2,
                    lay(n, dtype=np.dtype(param)),
                    *[lay(300)] * 2,
                ]
                with assume(capability):
                    plan = norm_dispatch.backward(*odd, None, n, True, version="cluster")
                check_resources(plan, odd, capability)
    if capability == (9, 0):
        inputs = [
            lay(300, 4096, dtype=bfloat16),
            lay(300, 4096, dtype=bfloat16),
            lay(4096),
            lay(300),
            lay(300),
            lay(300, 4096, dtype=bfloat16),
        ]
        with assume(capability):
            check_resources(
                norm_dispatch.backward(*inputs, 4096, True, version="tma"), inputs, capability
            )
