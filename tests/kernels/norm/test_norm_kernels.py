"""Kernels of layer, RMS, group and (in part) batch norm, each version by name, against float64."""

import numpy as np
import pytest
from gradient_checks import DTYPES, MACHINES, TOLERANCE, numbers, run_version, versions, wide
from simulated_gpu import give_row_accesses

from cudamath.testing import assert_close
from tests.ml.test_norm import batch_gradients, channels, others, row_gradients, row_reference


@pytest.mark.parametrize("dtype, param", [(d, d) for d in DTYPES] + [("bfloat16", "float32")])
@pytest.mark.parametrize("machine, version", versions("plain", "rows", "long_rows"))
def test_row_versions(machine, version, dtype, param):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    small = machine == "simulator"
    many = [(200, 8), (40000, 4), (5, 129), (5000, 768), (700, 1024), (9, 4096)]
    many += [(70, 8191)] if version != "rows" else []  # which no group of threads holds twice
    for rows, columns in [(3, 7), (19, 24)] if small else [(3, 7), *many]:
        x, g = numbers((rows, columns), dtype, scale=2, shift=1), numbers((rows, columns), dtype, 1)
        w, b = numbers((columns,), param, 2), numbers((columns,), param, 3)
        loose = dict(
            rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6, what=f"{rows} x {columns}"
        )
        summed = dict(
            rtol=TOLERANCE[param] * 4,
            atol=TOLERANCE[dtype if param == dtype else "float32"] * 6 * rows**0.5,
        )
        y, mean, rstd = run_version(
            machine,
            lambda x, w, b, columns=columns: norm_dispatch.forward(
                x, w, b, None, columns, 1e-5, version=version
            ),
            x,
            w,
            b,
        )
        assert_close(y, row_reference(x, w, b), **loose)
        found = run_version(
            machine,
            lambda g, x, w, m, s, columns=columns: norm_dispatch.backward(
                g, x, w, m, s, None, columns, True, version=version
            ),
            g,
            x,
            w,
            mean,
            rstd,
        )
        expected = row_gradients(g, x, w, True)
        assert_close(found[0], expected[0], **loose)
        for i in (1, 2):
            assert_close(found[i], expected[i], **summed)
        y, rstd = run_version(
            machine,
            lambda x, w, columns=columns: norm_dispatch.forward(
                x, w, None, None, columns, 1e-5, center=False, version=version
            ),
            x,
            w,
        )
        assert_close(y, row_reference(x, w), **loose)
        found = run_version(
            machine,
            lambda g, x, w, s, columns=columns: norm_dispatch.backward(
                g, x, w, None, s, None, columns, False, version=version
            ),
            g,
            x,
            w,
            rstd,
        )
        expected = row_gradients(g, x, w, False)
        assert_close(found[0], expected[0], **loose)
        assert_close(found[1], expected[1], **summed)


def access_wide(monkeypatch, width):
    """In the simulator: accesses of so many numbers, to rows that begin between their borders;
    rows of any length by two warps, few threads of the last sums."""
    from cudamath.kernels.norm import backward, backward_shifted, forward, problem

    give_row_accesses(monkeypatch)
    monkeypatch.setattr(backward, "LAST", 4)
    for module in (forward, backward):
        monkeypatch.setattr(module, "LONG", 64)
        monkeypatch.setattr(module, "long_rows", module.long_rows.__wrapped__)  # not those cached
    for module in (backward, backward_shifted):
        monkeypatch.setattr(module, "multiprocessors", lambda _: 4)
    for kind in (problem.Forward, problem.Backward):
        monkeypatch.setattr(kind, "long_access", (width, True))


def check_shifted_gradients(machine, g, x, w, mean, rstd, extra):
    """Of layer norm with all parts, of one without weights, and of RMS norm."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    (rows, columns), dtype, param = x.shape, x.dtype.name, w.dtype.name
    loose = dict(rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6, what=f"{rows} x {columns}")
    summed = dict(
        rtol=TOLERANCE[param] * 4,
        atol=TOLERANCE[dtype if param == dtype else "float32"] * 6 * rows**0.5,
    )

    def shifted(g, x, w, m, s, h=None, biased=True):
        return norm_dispatch.backward(g, x, w, m, s, h, columns, biased, version="shifted")

    found = run_version(machine, shifted, g, x, w, mean, rstd, extra)
    expected = row_gradients(g, x, w, True)
    assert_close(found[0], expected[0] + wide(extra), **loose)
    for i in (1, 2):
        assert_close(found[i], expected[i], **summed)
    dx, dbias = run_version(machine, lambda g, x, m, s: shifted(g, x, None, m, s), g, x, mean, rstd)
    assert_close(dx, row_gradients(g, x, np.ones(columns), True)[0], **loose)
    assert_close(dbias, expected[2], **summed | {"rtol": TOLERANCE[dtype] * 4})
    root = (1 / np.sqrt((wide(x) ** 2).mean(1) + 1e-5)).astype(rstd.dtype)
    found = run_version(
        machine, lambda g, x, w, s: shifted(g, x, w, None, s, biased=False), g, x, w, root
    )
    expected = row_gradients(g, x, w, False)
    assert_close(found[0], expected[0], **loose)
    assert_close(found[1], expected[1], **summed)


@pytest.mark.parametrize(
    "dtype, param, width",
    [
        ("float32", "float32", 4),
        ("bfloat16", "bfloat16", 8),
        ("bfloat16", "float32", 8),
        ("float16", "float16", 8),
        ("float64", "float64", 2),
    ],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_shifted_rows(machine, dtype, param, width, monkeypatch):
    """Rows that begin between the borders of accesses are held by whole ones: each distance from
    the borders, rows of a warp and of a block, the last access of all at the array's end; with and
    without parameters and a residual. What weights and neighbours are beyond the ends changes
    nothing."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    simulated = machine == "simulator"
    if simulated:
        access_wide(monkeypatch, width)
    longest, even = 20_011, 8194
    if dtype == "float64":  # shorter rows fit a block, and even ones begin at borders
        longest, even = 16_001, 8195
    large = [(60, longest), (33, 3001), (19, even), (1000, 1601), (3, 16_383)]
    for rows, columns in [(9, 19), (11, 75), (1, 41)] if simulated else large:
        what = f"{rows} x {columns}"
        x, h = (numbers((rows, columns), dtype, s, scale=2, shift=1) for s in range(2))
        w, b = numbers((columns,), param, 2), numbers((columns,), param, 3)
        loose = dict(rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6, what=what)

        def shifted(x, w=None, b=None, h=None, center=True, columns=columns):
            return norm_dispatch.forward(
                x, w, b, h, columns, 1e-5, center=center, version="shifted"
            )

        y, mean, rstd = run_version(machine, shifted, x, w, b)
        assert_close(y, row_reference(x, w, b), **loose)
        assert_close(mean, wide(x).mean(1), rtol=1e-5, atol=1e-5, what=what)
        assert_close(rstd, 1 / np.sqrt(wide(x).var(1) + 1e-5), rtol=1e-5, what=what)
        y, _ = run_version(machine, lambda x, w: shifted(x, w, center=False), x, w)
        assert_close(y, row_reference(x, w), **loose)
        total = (wide(x) + wide(h)).astype(x.dtype)
        y, _, _, found = run_version(machine, lambda x, b, h: shifted(x, None, b, h), x, b, h)
        assert_close(found, total, rtol=0)
        assert_close(y, row_reference(total, np.ones(columns), b), **loose)
        g = numbers((rows, columns), dtype, 4)
        if columns * x.itemsize < 16_000:
            check_shifted_gradients(machine, g, x, w, mean, rstd, h)
    x = numbers((5, 19 if simulated else 3001), dtype)
    x[1::2] = np.nan
    y = run_version(
        machine,
        lambda x: norm_dispatch.forward(x, None, None, None, x.shape[1], 1e-5, version="shifted"),
        x,
    )[0]
    assert np.isnan(wide(y)[1::2]).all() and not np.isnan(wide(y)[::2]).any()


@pytest.mark.parametrize("dtype, width", [("float32", 4), ("bfloat16", 8), ("float64", 2)])
@pytest.mark.parametrize("machine", MACHINES)
@np.errstate(invalid="ignore")
def test_long_rows_between_borders(machine, dtype, width, monkeypatch):
    """Rows that begin between the borders of accesses are read and written by whole accesses, but
    for their ends."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    if machine == "simulator":
        access_wide(monkeypatch, width)
    large = [(60, 20_011), (33, 3001), (4, 70_001), (7, 3)]
    small = [(3, 19), (4, 3), (3, 64 * width + 19)]  # of which the threads go round
    small += [(18, 131)] * (dtype == "float32")  # columns of two blocks
    for rows, columns in small if machine == "simulator" else large:
        x, g = numbers((rows, columns), dtype, scale=2, shift=1), numbers((rows, columns), dtype, 1)
        w, b = numbers((columns,), dtype, 2), numbers((columns,), dtype, 3)
        w[0] = np.inf  # read for what lies before a row, and then not used
        loose = dict(
            rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6, what=f"{rows} x {columns}"
        )
        y, mean, rstd = run_version(
            machine,
            lambda x, w, b, columns=columns: norm_dispatch.forward(
                x, w, b, None, columns, 1e-5, version="long_rows"
            ),
            x,
            w,
            b,
        )
        assert np.isinf(wide(y)[:, 0]).all()
        assert_close(y[:, 1:], row_reference(x, w, b)[:, 1:], **loose)
        w[0] = 1
        dx, dweight, dbias = run_version(
            machine,
            lambda g, x, w, m, s, columns=columns: norm_dispatch.backward(
                g, x, w, m, s, None, columns, True, version="long_rows"
            ),
            g,
            x,
            w,
            mean,
            rstd,
        )
        expected = row_gradients(g, x, w, True)
        assert_close(dx, expected[0], **loose)
        for found, sums in ((dweight, expected[1]), (dbias, expected[2])):
            assert_close(
                found, sums, rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6 * rows**0.5
            )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("machine, version", versions("plain", "rows", "long_rows"))
def test_row_versions_with_a_residual_and_without_parameters(machine, version, dtype):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    for rows, columns in (
        [(3, 7)] if machine == "simulator" else [(3, 7), (300, 33), (5000, 768), (700, 1600)]
    ):
        x, r, g, extra = (numbers((rows, columns), dtype, seed) for seed in range(4))
        h = (wide(x) + wide(r)).astype(x.dtype)
        ones = np.ones(columns, x.dtype)
        loose = dict(
            rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6, what=f"{rows} x {columns}"
        )
        y, mean, rstd, found = run_version(
            machine,
            lambda x, r, columns=columns: norm_dispatch.forward(
                x, None, None, r, columns, 1e-5, version=version
            ),
            x,
            r,
        )
        assert_close(found, h, rtol=0)
        assert_close(y, row_reference(h, ones, np.zeros_like(ones)), **loose)
        dx, dbias = run_version(
            machine,
            lambda g, h, m, s, e, columns=columns: norm_dispatch.backward(
                g, h, None, m, s, e, columns, True, version=version
            ),
            g,
            found,
            mean,
            rstd,
            extra,
        )
        expected = row_gradients(g, h, ones, True)
        assert_close(dx, expected[0] + wide(extra), **loose)
        assert_close(
            dbias, expected[2], rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6 * rows**0.5
        )


@pytest.mark.parametrize(
    "dtype, param", [("float32", "float32"), ("bfloat16", "float32"), ("float64", "float64")]
)
@pytest.mark.parametrize("machine, version", versions("plain", "rows", "long_rows"))
def test_group_norm_versions(machine, version, dtype, param):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    shapes = [((2, 6, 5), 3), ((3, 32, 16, 16), 4), ((2, 8, 9, 9), 8)]
    for shape, groups in shapes[:1] if machine == "simulator" else shapes:
        x, w, b = (
            numbers(shape, dtype, scale=2, shift=1),
            numbers(shape[1:2], param, 1),
            numbers(shape[1:2], param, 2),
        )
        y, mean, _ = run_version(
            machine,
            lambda x, w, b, groups=groups: norm_dispatch.group_norm(
                x, w, b, groups=groups, eps=1e-5, version=version
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
        assert_close(y, expected, rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6)
        assert_close(
            mean, rows.mean(-1).ravel(), rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE["float32"]
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("machine, version", versions("plain", "rows", "long_rows", "cluster"))
def test_without_statistics(machine, version, dtype):
    """Plans of what a caller has alone who asks for no gradient."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    columns, long = (7, 9) if machine == "simulator" else (768, 20_000)
    columns = long if version == "cluster" else columns
    x, r = numbers((5, columns), dtype, scale=2, shift=1), numbers((5, columns), dtype, 1)
    w, b, h = (
        numbers((columns,), dtype, 2),
        numbers((columns,), dtype, 3),
        (wide(x) + wide(r)).astype(x.dtype),
    )
    near = dict(rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6)
    y, found = run_version(
        machine,
        lambda x, w, b, r: norm_dispatch.forward(
            x, w, b, r, columns, 1e-5, statistics=False, version=version
        ),
        x,
        w,
        b,
        r,
    )
    assert_close(found, h, rtol=0)
    assert_close(y, row_reference(h, w, b), **near)
    y = run_version(
        machine,
        lambda x, w: norm_dispatch.forward(
            x, w, None, None, columns, 1e-5, center=False, statistics=False, version=version
        ),
        x,
        w,
    )
    assert_close(y, row_reference(x, w), **near)
    planes = numbers((3, 4, 5, -(-long // 10)), dtype, scale=2, shift=1)
    y = run_version(
        machine,
        lambda x: norm_dispatch.group_norm(
            x, None, None, groups=2, eps=1e-5, version=version, statistics=False
        ),
        planes,
    )
    rows = wide(planes).reshape(6, -1)
    expected = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    assert_close(y, expected.reshape(planes.shape), **near)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("version", ["plain", "split_channels"])
def test_batch_norm_gradient_knows_that_the_mean_is_rounded(machine, version, relu):
    """A mean of 3000 is off by up to 1.2e-4 in float32, for all elements alike: times the sum of g
    that is a large error."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    for shape in (
        [(40, 3), (6, 2, 50)]
        if machine == "simulator"
        else [(5000, 4), (50_000, 3), (64, 3, 40, 40)]
    ):
        x, g = numbers(shape, "float32", shift=3e3), numbers(shape, "float32", 1, shift=2)
        c = shape[1]
        w, b = (
            numbers((c,), "float32", 2),
            np.full(c, 99 if relu else 0, "float32"),
        )  # relu: all is positive
        mean, rstd = wide(x).mean(others(x)), 1 / np.sqrt(wide(x).var(others(x)) + 1e-5)
        found = run_version(
            machine,
            lambda g, x, w, *_: norm_dispatch.batch_backward(g, x, w, None, relu, version=version),
            g,
            x,
            w,
            b,
            (mean + 1e-4).astype("float32"),
            rstd.astype("float32"),
        )
        expected = batch_gradients(g, x, w)
        size = (x.size // c) ** 0.5
        for got, right, atol in zip(found, expected, (5e-6, 3e-6 * size, 3e-6 * size), strict=True):
            assert_close(got, right, rtol=1e-6, atol=atol, what=f"{shape}")
