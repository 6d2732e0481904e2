"""Rows added by index without a sort, by name: in the simulator, whose threads meet as a warp's
lanes do, and on a GPU."""

import numpy as np
import pytest
from simulated_gpu import give_row_accesses

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.index import dispatch, owners, scatter_add_few
from cudamath.kernels.index import scatter_add_by_owner as kernels
from cudamath.kernels.lib import vector_io as rows_kit
from cudamath.runtime.device import assume


def layouts(*arrays):
    return [cm.testing.layout_of(x) for x in arrays]


def named(plan):
    return [step.kernel.__name__ for step in plan.steps]


def lay(*shape, dtype="f4"):
    return Layout.new(shape, np.dtype(dtype), 0)


@pytest.fixture
def small(monkeypatch):
    """Blocks of two warps, and few of them, in the simulator."""
    give_row_accesses(monkeypatch)
    for name, value in {
        "WARPS": 2,
        "THREADS": 64,
        "NUMBERS": 5,
        "AHEAD": 2,
        "OFTEN": 5,
        "GROUPS": 8,
        "DEEP": 2,
        "OFTEN_THREADS": 64,
        "OFTEN_BLOCKS": 0,
    }.items():
        monkeypatch.setattr(kernels, name, value)
    for name, value in {"SIMULATOR": False, "LEAST": 16, "OWNERS": 2}.items():
        monkeypatch.setattr(owners, name, value)
    monkeypatch.setattr(dispatch, "FEW_SOURCES", 0)
    scatter_add_few.fold_few.cache_clear()
    made = kernels.add_rows, kernels.add_often, rows_kit.fetcher, rows_kit.writer
    for factory in made:
        factory.cache_clear()
    yield
    for factory in made:
        factory.cache_clear()


def sources(rng, rows, m, columns, dtype, often):
    """(table, index, values, expected sums); a share `often` of the indices is the same one."""
    index = rng.integers(-rows, rows, m)
    index[rng.random(m) < often] = rows // 2
    values = rng.integers(-9, 9, (m, columns)).astype(dtype)
    sums = np.zeros((rows, columns))
    np.add.at(sums, index, values.astype("f8"))
    return rng.integers(-9, 9, (rows, columns)).astype(dtype), index, values, sums


@pytest.mark.simulator
@pytest.mark.parametrize(
    "rows, m, columns, dtype, often",
    [
        (50, 200, 12, "f4", 0.2),
        (7, 70, 4, "f4", 0),
        (300, 133, 2, "f8", 0.5),
        (20, 60, 72, "f2", 0.1),
        (1, 5, 8, "i4", 0),
        (3, 7, 1028, "f4", 0),
    ],
)
def test_add_rows_simulated(small, rows, m, columns, dtype, often):
    """More rows than blocks and fewer, rows without sources, with some, with more than OFTEN;
    zeros, a copy, in place."""
    x, index, values, sums = sources(np.random.default_rng(rows), rows, m, columns, dtype, often)
    with assume((8, 0)):
        gradient = dispatch.gather_grad(*layouts(values, index), shape=x.shape, axis=0)
        copied = dispatch.index_add(*layouts(x, index, values), axis=0)
        in_place = dispatch.scatter_add(*layouts(x, values, index), axis=0)
    for plan in (gradient, copied, in_place):
        assert named(plan) == ["add_rows", "add_often"][: 1 + (m > 5)]  # OFTEN here
    np.testing.assert_array_equal(cm.testing.simulate(gradient, values, index), sums)
    np.testing.assert_array_equal(cm.testing.simulate(copied, x, index, values), sums + x)
    expected = sums + x
    cm.testing.simulate(in_place, x, values, index)
    np.testing.assert_array_equal(x, expected)
    index[m // 2] = rows
    with pytest.raises(IndexError):
        cm.testing.simulate(gradient, values, index)


@pytest.mark.simulator
def test_sources_beyond_16_bits_simulated(small):
    """The last ones of 33,000, all in one row of its owner but for a few."""
    rows, m = 4, 33_000
    index = np.full(m, 1)
    index[-70:] = np.arange(70) % rows
    values = np.arange(m * 4, dtype="f4").reshape(m, 4) % 7
    sums = np.zeros((rows, 4), "f4")
    np.add.at(sums, index, values)
    with assume((8, 0)):
        plan = dispatch.gather_grad(
            *layouts(values, index), shape=(rows, 4), axis=0, version="by_owner"
        )
    assert named(plan) == ["add_rows", "add_often"]
    np.testing.assert_array_equal(cm.testing.simulate(plan, values, index), sums)


@pytest.mark.slow
@pytest.mark.simulator
def test_rows_of_more_accesses_than_16_bits_count_simulated(small):
    """One of 32,800 accesses of two numbers."""
    rng = np.random.default_rng(0)
    _, index, values, sums = sources(rng, 1, 2, 65_600, "f8", 0)
    with assume((8, 0)):
        plan = dispatch.gather_grad(*layouts(values, index), shape=sums.shape, axis=0)
    assert named(plan) == ["add_rows"]
    np.testing.assert_array_equal(cm.testing.simulate(plan, values, index), sums)


@pytest.mark.simulator
@pytest.mark.parametrize("kind, function", [("max", np.maximum), ("multiply", np.multiply)])
def test_other_folds_simulated(small, kind, function):
    """Not only sums; and rows chosen along two axes."""
    rng = np.random.default_rng(0)
    x, values = rng.integers(1, 3, (6, 5, 8)).astype("f4"), rng.integers(1, 3, (60, 8)).astype("f4")
    i, j = rng.integers(-6, 6, 60), rng.integers(-5, 5, 60)
    expected = x.copy()
    function.at(expected, (i, j), values)
    with assume((8, 0)):
        plan = dispatch.scatter_add(*layouts(x, values, i, j), axis=0, kind=kind)
    assert named(plan) == ["first_two_positions", "add_rows", "add_often"]
    cm.testing.simulate(plan, x, values, i, j)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.simulator
@pytest.mark.parametrize(
    "kind, function",
    [("add", np.add), ("multiply", np.multiply), ("max", np.maximum), ("min", np.minimum)],
)
@pytest.mark.parametrize(
    "dtype, index",
    [
        ("f4", [2]),
        ("f4", [4, 0, -5, 4, 2, -1, 4]),
        ("i4", [3] * 40),
        ("f2", [1, 0, 1]),
        ("f8", [[0, -1], [4, 4]]),
    ],
)
def test_fold_few_simulated(kind, function, dtype, index):
    """In place, in strides, rows along the middle axis and the first; what nobody chose stays, -0.0
    too."""
    rng, index = np.random.default_rng(1), np.array(index, np.int32)
    for axis, x in (
        (1, rng.integers(1, 3, (3, 5, 8)).astype(dtype)[:, :, ::2]),
        (0, rng.integers(1, 3, (5, 6)).astype(dtype)),
    ):
        if dtype != "i4":
            x[0] *= -1
            x[0, 3] = -0.0
        expected, shape = x.copy(), (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
        values = (
            rng.permutation(np.arange(1, 1 + np.prod(shape)) % 20 // 19 + 1)
            .reshape(shape)
            .astype(dtype)
        )  # few are 2
        function.at(expected, (slice(None),) * axis + (index,), values)
        plan = dispatch.scatter_add(*layouts(x, values, index), axis=axis, kind=kind)
        assert named(plan) == ["fold_few"] and not plan.temps
        cm.testing.simulate(plan, x, values, index)
        np.testing.assert_array_equal(x, expected)
        np.testing.assert_array_equal(np.signbit(x), np.signbit(expected))
        with pytest.raises(IndexError):
            cm.testing.simulate(plan, x, values, index + np.int32(10))
        np.testing.assert_array_equal(x, expected)


@pytest.mark.simulator
def test_fold_few_by_two_axes_simulated():
    """And in the order of the sources: 1e8 and -1e8 cancel only so."""
    x, i = np.zeros((4, 3), "f4"), np.array([3, -1, 3, 0])
    values = np.array([1e8, -1e8, 1, 5], "f4")
    j = np.array([1, 1, -2, 0])
    plan = dispatch.scatter_add(*layouts(x, values, i, j), axis=0)
    assert named(plan) == ["first_two_positions", "fold_few"]
    cm.testing.simulate(plan, x, values, i, j)
    assert (x[3, 1], x[0, 0]) == (1, 5) and np.count_nonzero(x) == 2


@pytest.mark.gpu
@pytest.mark.parametrize(
    "kind, function", [("add", np.add), ("multiply", np.multiply), ("max", np.maximum)]
)
@pytest.mark.parametrize("version", ["compare", "slices"])
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i4", "u1", "c8"])
def test_few_sources_or_rows_on_gpu(version, kind, function, dtype):
    """Blocks that share a row's sources; slices of one block and of many."""
    if kind == "max" and dtype == "c8":
        pytest.skip("complex numbers have no order")
    rng = np.random.default_rng(5)
    for shape, m in (
        ((64, 64), 32),
        ((3, 1700), 20),
        ((5, 7), 380),
        ((100_000, 3), 500),
        ((9,), 1000),
        ((2, 3), 1024),
        ((64, 70), 50_000),
        ((2, 1000), 9_000),
        ((30,), 300_000),
    ):
        if m > 1024 if version == "compare" else shape[0] > 64:
            continue
        if dtype == "f2" and m > 900 * shape[0]:  # NumPy rounds each sum, and stays at 2,048
            continue
        x, values = rng.integers(1, 3, shape).astype(dtype), np.ones((m, *shape[1:]), dtype)
        values[:8] = 2
        index = rng.integers(-shape[0], shape[0], m)
        ours = [cm.asarray(a, device="cuda") for a in (x.copy(), values, index)]
        there = [a._layout for a in ours]
        plan = dispatch.scatter_add(*there, axis=0, kind=kind, version=version)
        run = plan.bind(version, there)
        with np.errstate(all="ignore"):
            for _ in range(2):
                run(*ours)
                function.at(x, index, values)
                np.testing.assert_array_equal(ours[0].to_numpy(), x)


@pytest.mark.skipif(owners.SIMULATOR, reason="the simulator has no wide loads")
def test_what_goes_without_a_sort():
    """Long, aligned rows of real numbers along the first axis, and not too many blocks that look at
    too many indices."""

    def steps(shape, m, dtype="f4", axis=0):
        with assume((9, 0)):
            g = lay(*shape[:axis], m, *shape[axis + 1 :], dtype=dtype)
            return named(dispatch.gather_grad(g, lay(m, dtype="i8"), shape=shape, axis=axis))

    for shape, m, dtype in (
        ((50257, 128), 8192, "f4"),
        ((50257, 384), 65536, cm.bfloat16),
        ((600_000, 64), 4096, "f4"),
    ):
        assert steps(shape, m, dtype) == ["add_rows", "add_often_early"]
    for shape, m, dtype, axis in (
        ((50257, 60), 8192, "f4", 0),
        ((50257, 70), 8192, "f4", 0),
        ((700_000, 64), 4096, "f4", 0),
        ((600_000, 64), 1 << 20, "f4", 0),
        ((50257, 768), 8192, "c8", 0),
        ((50257, 768), 8192, "i1", 0),
        ((3, 5000, 768), 8192, "f4", 1),
        ((2048, 768), 1 << 17, "f4", 0),
    ):
        assert "sum_chunks" in steps(shape, m, dtype, axis)
    assert [owners.owners_of(rows) for rows in (1, 128 * 640, 128 * 640 + 1, 600_000)] == [
        128,
        128,
        256,
        1024,
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f2", cm.bfloat16, "f8", "i4", "u2"])
@pytest.mark.parametrize(
    "rows, m, columns, often",
    [
        (50257, 8192, 768, 0.1),
        (1000, 20_000, 776, 1),
        (200, 5000, 128, 0),
        (200_000, 3000, 136, 0),
        (5000, 70_000, 264, 0.01),
    ],
)
def test_add_rows_on_gpu(rows, m, columns, often, dtype, monkeypatch):
    """Sums of whole numbers, and twice the same bits of any; two axes; an index that does not
    exist."""
    others = [v for v in dispatch.GATHER_GRADIENT if v.name != "hashed"]  # its own test's
    monkeypatch.setattr(dispatch, "GATHER_GRADIENT", others)
    rng = np.random.default_rng(3)
    index = rng.integers(-rows, rows, m)
    index[rng.random(m) < often] = rows // 2
    values = rng.integers(0, 3, (m, columns))
    order = np.argsort(index % rows, kind="stable")
    found, starts = np.unique((index % rows)[order], return_index=True)
    sums = np.zeros((rows, columns), "i8")
    sums[found] = np.add.reduceat(values[order], starts, axis=0)
    with cm.device("cuda"):
        g, places = cm.asarray(values.astype(dtype)), cm.asarray(index)
        plan = dispatch.gather_grad(g._layout, places._layout, shape=(rows, columns), axis=0)
        assert named(plan)[0] == "add_rows"
        wide = "f4" if dtype != "f8" else "f8"
        memory = [
            cm.full((rows, columns), 7, dtype=dtype)
        ]  # what rows without sources must not keep
        memory.clear()
        got = plan.bind("rows", [g._layout, places._layout])(g, places).to_numpy()
        np.testing.assert_array_equal(got, sums.astype(wide).astype(dtype))
        x = cm.asarray(((np.arange(rows * columns) % 61).reshape(rows, columns)).astype(dtype))
        whole = (x.to_numpy().astype("i8") + sums).astype(wide).astype(dtype)
        slope = cm.grad(lambda t: (t[places].astype("f4") * values).sum())(x.astype("f4"))
        np.testing.assert_array_equal(slope.to_numpy(), sums)
        np.testing.assert_array_equal(cm.index_add(x, places, g).to_numpy(), whole)
        y = x.copy()
        cm.add_at(y, places, g)
        np.testing.assert_array_equal(y.to_numpy(), whole)
        if rows == 1000:
            y = x.reshape(10, 100, columns).copy()
            cm.add_at(y, (places // 100, places % 100), g)
            np.testing.assert_array_equal(y.to_numpy().reshape(rows, columns), whole)
        noise = cm.asarray(rng.standard_normal((m, columns), dtype="f4"))
        once = cm.index_add(cm.zeros((rows, columns), "f4"), places, noise).to_numpy()
        exact = np.zeros((rows, columns))
        exact[found] = np.add.reduceat(noise.to_numpy().astype("f8")[order], starts, axis=0)
        np.testing.assert_allclose(once, exact, rtol=0, atol=2e-6 * np.bincount(index % rows).max())
        for _ in range(3):
            np.testing.assert_array_equal(
                cm.index_add(cm.zeros((rows, columns), "f4"), places, noise).to_numpy(), once
            )
        places[m // 2] = rows
        with pytest.raises(IndexError):
            cm.index_add(x, places, g)
            cm.cuda.synchronize()
