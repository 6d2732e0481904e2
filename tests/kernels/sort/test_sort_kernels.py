"""The kernels of sorting, scans and search by name: in the simulator, compiled, and at full size on
a GPU."""

import collections
import os

import numpy as np
import pytest
from simulated_gpu import Warps, give_vectors_and_warps

import cudamath as cm
from cudamath.core.dispatch.arguments import ArrayArg, Input, Output
from cudamath.core.layout import Layout
from cudamath.kernels.scan import dispatch as scan_dispatch
from cudamath.kernels.scan import strided as scan_strided
from cudamath.kernels.sort import (
    binary_search,
    bitonic,
    block_radix,
    onesweep,
    radix_keys,
    radix_select,
)
from cudamath.kernels.sort import dispatch as sort_dispatch
from cudamath.kernels.sort.problem import SortProblem, block_shape
from cudamath.ops import sort as ordering
from cudamath.runtime.device import assume, capability

REAL = ["?", "i1", "u2", "f2", cm.bfloat16, "f4", "i8", "f8"]


def sim(plan, *inputs):
    return cm.testing.simulate(plan, *inputs)


def layouts(*arrays):
    return [cm.testing.layout_of(x) for x in arrays]


def named(plan):
    return [step.kernel.__name__ for step in plan.steps]


def place_of_thread():
    """(block, thread) in the simulator."""
    import greenlet

    thread = greenlet.getcurrent()
    return int(thread.blockIdx.x), thread.thread_id


def numbers(shape, dtype):
    """Numbers that repeat, signed zeros, infinities, NaNs of both signs."""
    x = (np.arange(np.prod(shape, dtype=int)) * 7919 % 23 - 11).reshape(shape)
    if np.dtype(dtype).kind in "bu":
        x = abs(x)
    x = x.astype(dtype)
    if x.dtype.kind == "f" or x.dtype == cm.bfloat16:
        x.flat[::7], x.flat[1::7], x.flat[2::11], x.flat[3::11] = 0.0, -0.0, np.nan, -np.nan
        x.flat[4::13], x.flat[5::13] = np.inf, -np.inf
    return x


def order_of(x, axis, descending=False):
    x = x.astype("f4") if x.dtype == cm.bfloat16 else x
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def same_bits(got, expected):
    assert got.dtype == expected.dtype
    words = f"u{got.itemsize}"
    np.testing.assert_array_equal(got.view(words), np.ascontiguousarray(expected).view(words))


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("shape, axis, descending", [((3, 13), 1, False), ((9, 2), 0, True)])
def test_network_simulated(dtype, shape, axis, descending):
    x = numbers(shape, dtype)
    order = order_of(x, axis, descending)
    how = {"axis": axis, "descending": descending, "version": "bitonic"}
    same_bits(sim(sort_dispatch.sort(*layouts(x), **how), x), np.take_along_axis(x, order, axis))
    np.testing.assert_array_equal(sim(sort_dispatch.argsort(*layouts(x), **how), x), order)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "i8"])
@pytest.mark.parametrize("positions", [False, True])
def test_network_in_registers_simulated(dtype, positions, monkeypatch):
    """Rows whose partners are lanes of a warp at first, then threads of other warps."""
    give_vectors_and_warps(monkeypatch)
    x = numbers((3, 300), dtype)
    order = order_of(x, 1)
    with assume((9, 0)):
        plan = bitonic.in_registers(SortProblem(*layouts(x), 1, False, positions))
    assert named(plan) == ["sort_held"]
    if positions:
        np.testing.assert_array_equal(sim(plan, x), order)
    else:
        same_bits(sim(plan, x), np.take_along_axis(x, order, 1))


@pytest.mark.simulator
@pytest.mark.parametrize(("dtype", "shape"), [("u1", (2, 9000)), ("f2", (1, 4500))])
def test_onesweep_simulated(dtype, shape, monkeypatch):
    """Rows of several tiles: a block finds what the blocks before it have published."""
    give_vectors_and_warps(monkeypatch)
    warps, votes = Warps(), collections.defaultdict(list)

    def same_digit(digit):
        told, _ = warps.tell(int(digit))
        found = np.uint32(sum(1 << i for i, other in told.items() if other == int(digit)))
        votes[place_of_thread()].append(found)
        return found

    monkeypatch.setattr(onesweep, "same_digit", same_digit)
    monkeypatch.setattr(onesweep, "load_relaxed", lambda array, i: array[i])
    monkeypatch.setattr(onesweep, "store_relaxed", lambda array, i, v: array.__setitem__(i, v))
    x = numbers(shape, dtype)
    with assume((9, 0)):
        plan = onesweep.sort(SortProblem(*layouts(x), 1, False, True))
    assert named(plan).count("onesweep") == x.itemsize
    np.testing.assert_array_equal(sim(plan, x), order_of(x, 1))
    # A vote waits for the warp, but orders no memory. With the votes known, nobody waits for it.
    monkeypatch.setattr(onesweep, "same_digit", lambda digit: votes[place_of_thread()].pop(0))
    np.testing.assert_array_equal(sim(plan, x), order_of(x, 1))


@pytest.mark.simulator
@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize(
    "dtype, n, descending",
    [("?", 2, False), ("i1", 1030, True), (cm.bfloat16, 600, False), ("f4", 513, True)]
    + [("i8", 700, False), ("f8", 512, False), ("u4", 1, False)],
    ids=str,
)
def test_rows_in_a_block_simulated(dtype, n, descending, positions, monkeypatch):
    """Rows that end within a warp's keys, equal keys, a row of one number alone."""
    give_vectors_and_warps(monkeypatch)
    warps = Warps()

    def same_digit(digit):
        told, _ = warps.tell(int(digit))
        return np.uint32(sum(1 << i for i, other in told.items() if other == int(digit)))

    monkeypatch.setattr(block_radix, "same_digit", same_digit)
    monkeypatch.setattr(block_radix, "key_function", lambda coding: coding.key)
    x = numbers((3, n), dtype)
    x[1] = x[1, 0]
    if n == 700:
        x[2] *= 1 << 40  # digits that all share, ahead of others
    order = order_of(x, 1, descending)
    with assume((9, 0)):
        plan = block_radix.plan(SortProblem(*layouts(x), 1, descending, positions))
    assert named(plan) == ["sort_block"]
    same_bits(sim(plan, x), order if positions else np.take_along_axis(x, order, 1))


@pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="the simulator has no votes"
)
@pytest.mark.parametrize(
    "rows, n, dtype, positions, chosen",
    [
        (4330, 2091, "i8", True, "sort_block"),  # 941 us by a launch for each digit
        (16_384, 1024, "f4", False, "sort_block"),  # 506 us by a network
        (100_000, 64, "f4", True, "sort_rows"),
        (10_000, 256, "f4", True, "sort_held"),
        (3, 12_289, "f4", True, "onesweep"),
    ],
)
def test_version_of_rows(rows, n, dtype, positions, chosen):
    x = Layout.new((rows, n), np.dtype(dtype), 0)
    with assume((9, 0)):
        planner = sort_dispatch.argsort if positions else sort_dispatch.sort
        assert chosen in named(planner(x, axis=1, descending=False))


@pytest.mark.simulator
@pytest.mark.parametrize(
    "dtype, shape, axis, descending", [("i1", (2, 1030), 1, False), (cm.bfloat16, (13, 2), 0, True)]
)
def test_radix_simulated(dtype, shape, axis, descending):
    """Several rows, of several stretches."""
    x = numbers(shape, dtype)
    order = order_of(x, axis, descending)
    how = {"axis": axis, "descending": descending, "version": "radix"}
    plan = sort_dispatch.argsort(*layouts(x), **how)
    assert {"count_digits", "scan_counts", "move_keys"} <= set(named(plan))
    np.testing.assert_array_equal(sim(plan, x), order)
    if dtype == "i1":
        same_bits(
            sim(sort_dispatch.sort(*layouts(x), **how), x), np.take_along_axis(x, order, axis)
        )


@pytest.mark.simulator
@pytest.mark.parametrize(
    "kind, function",
    [
        ("sum", np.cumsum),
        ("prod", np.cumprod),
        ("max", np.maximum.accumulate),
        ("min", np.minimum.accumulate),
        ("nansum", np.nancumsum),
        ("nanprod", np.nancumprod),
        ("nanmax", np.fmax.accumulate),
        ("nanmin", np.fmin.accumulate),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "i4", "f2", "c8"])
@pytest.mark.parametrize(
    "shape, axis",
    [((2, 9), 1), ((70, 2), 0), ((2, 200), 1), ((3, 300), 0), ((3, 8, 7), 1), ((5, 1), 1)],
)
def test_scan_lines_simulated(kind, function, dtype, shape, axis):
    if dtype == "c8" and kind.endswith(("max", "min")):
        return
    x = (np.arange(np.prod(shape)) % 3 - 1).reshape(shape).astype(dtype)
    if kind.startswith("nan") and dtype != "i4":
        x.flat[::5] = np.nan
    target = np.dtype("i8") if dtype == "i4" and kind.endswith(("sum", "prod")) else x.dtype
    plan = scan_dispatch.scan(*layouts(x), kind=kind, axis=axis, dtype=target, version="lines")
    assert named(plan)[-1] == ("scan_lines" if shape[axis] > 9 else "scan_short_lines")
    np.testing.assert_array_equal(sim(plan, x), function(x, axis).astype(target))


@pytest.mark.simulator
@pytest.mark.parametrize(
    "dtype, target", [("f4", "f4"), ("?", "i8"), ("f2", "f8"), ("c8", "c16"), ("i4", "i8")]
)
def test_scan_of_single_elements_simulated(dtype, target):
    x = numbers((2, 1, 9), dtype)
    plan = scan_dispatch.scan(*layouts(x), kind="sum", axis=1, dtype=np.dtype(target))
    assert not {"scan_lines", "scan_short_lines"} & {*named(plan)}
    got = sim(plan, x)
    assert got.tobytes() == x.astype(target).tobytes()
    plan = scan_dispatch.scan(*layouts(x), kind="nansum", axis=1, dtype=np.dtype(target))
    np.testing.assert_array_equal(sim(plan, x), np.nancumsum(x.astype(target), 1))


@pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1",
    reason="the simulator knows `lines` alone by itself",
)
@pytest.mark.parametrize(
    "dtype, target, shape, lanes",
    [
        ("bfloat16", "bfloat16", (1 << 17, 1024), 32),
        ("f4", "f4", (1 << 20, 1024), 32),
        ("f2", "f2", (9, 1000), 32),
        ("f4", "f4", (300, 128), 8),
        ("f2", "f2", (9, 65), 16),
        ("i4", "i8", (8000, 2000), 32),
        ("f4", "f4", (8000, 4096), 32),
    ],
)
def test_short_rows_get_a_warp(dtype, target, shape, lanes):
    """Or a part of one: as many lanes as there are accesses for."""
    with assume((9, 0)):
        plan = scan_dispatch.scan(
            Layout.new(shape, cm.dtype(dtype), 0),
            kind="sum",
            axis=1,
            dtype=cm.dtype(target),
            version="rows",
        )
    assert named(plan) == ["scan_rows"]
    assert plan.steps[0].grid[0] == -(-shape[0] * lanes // 256)


@pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1",
    reason="the simulator knows `lines` alone by itself",
)
@pytest.mark.parametrize(
    "dtype, target, shape, axis, name",
    [
        ("f4", "f4", (8192, 8192), 0, "scan_columns"),
        ("f8", "f8", (8192, 8192), 0, "scan_columns"),
        ("f4", "f4", (64, 2048, 1024), 1, "scan_columns"),
        ("f2", "f2", (64, 2048, 1024), 1, "scan_columns"),
        ("f8", "f8", (647, 2185), 0, "line_totals"),
        ("f4", "f4", (20_000, 200), 1, "scan_rows"),
        ("f4", "f4", (9, 700_000), 1, "fill"),
    ],
)
def test_the_scan_fits_the_layout(dtype, target, shape, axis, name):
    """One pass where strips of columns are many; segments where lines are few; a warp or tiles for
    rows."""
    with assume((9, 0)):
        plan = scan_dispatch.scan(
            Layout.new(shape, np.dtype(dtype), 0), kind="sum", axis=axis, dtype=np.dtype(target)
        )
    assert named(plan)[0].startswith(name)


@pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1",
    reason="the simulator knows `lines` alone by itself",
)
@pytest.mark.parametrize(
    "dtype, target, shape, on_90, on_80, on_100",
    [
        ("f4", "f4", (1 << 26,), "scan_ring", "scan_tiles", "scan_tiles_early"),
        ("i4", "i8", (64, 1 << 20), "scan_ring", "scan_tiles", "scan_tiles_early"),
        ("?", "i8", (1 << 26,), "scan_ring", "scan_tiles", "scan_tiles_early"),
        ("f4", "f4", (1 << 17,), "scan_tiles_cluster", "scan_tiles", "scan_tiles_cluster"),
        ("f4", "f4", (64, (1 << 20) + 1), "scan_tiles_early", "scan_tiles", "scan_tiles_early"),
    ],
)
def test_long_rows_go_through_the_ring(dtype, target, shape, on_90, on_80, on_100):
    """Where tiles are many, rows have several and begin at the borders of 16 bytes; on 9.0
    alone. Tiles are of a cluster, or begin before the kernel before has ended, from 9.0 on."""
    x = Layout.new(shape, np.dtype(dtype), 0)
    for version, expected in (((9, 0), on_90), ((8, 0), on_80), ((10, 0), on_100)):
        with assume(version):
            plan = scan_dispatch.scan(x, kind="sum", axis=len(shape) - 1, dtype=np.dtype(target))
        alone = expected == "scan_tiles_cluster"
        assert named(plan) == ([] if alone else ["fill_line"]) + [expected]


@pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1",
    reason="the simulator knows `lines` alone by itself",
)
@pytest.mark.parametrize("shape, dtype", [((1 << 26,), "i8"), ((3, 1 << 20), "f4"), ((9, 7), "f8")])
@pytest.mark.parametrize("version", [(9, 0), (8, 0)])
def test_what_scans_publish_has_room(shape, dtype, version):
    """Each view of results and scratch lies within them."""
    x = Layout.new(shape, np.dtype(dtype), 0)
    with assume(version):
        plan = scan_dispatch.scan(x, kind="sum", axis=len(shape) - 1, dtype=x.dtype)
    arrays = {"x": [x], "y": plan.outputs, "t": plan.temps}
    for arg in (a for step in plan.steps for a in step.args if isinstance(a, ArrayArg)):
        whole = arrays[arg.kind][arg.index]
        seen = arg.resolve(whole)
        steps = zip(seen.shape, seen.strides, strict=True)
        end = arg.offset + seen.itemsize + sum((n - 1) * step for n, step in steps)
        assert end <= whole.nbytes, f"{arg} of {whole}"


@pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1",
    reason="the simulator knows `lines` alone by itself",
)
@pytest.mark.parametrize(
    "dtype, target, count, names",
    [
        ("f4", "f4", (1 << 26) + 3, ["fill_line", "scan_ring"]),
        ("f4", "f4", 300_001, ["fill_line", "scan_tiles_early"]),
        ("i4", "i8", 300_001, ["fill_line", "scan_tiles_early"]),
        ("f4", "f4", 20_001, ["scan_tiles_cluster"]),
        ("f8", "f8", 5_001, ["scan_tiles"]),
        ("f4", "f4", 100_001, ["scan_tiles_cluster"]),
        ("f2", "f2", 200_001, ["fill_line", "scan_tiles_early"]),
    ],
)
def test_one_row_has_whole_accesses_but_for_its_end(dtype, target, count, names):
    """The last elements follow in the same launch; but not of 16-bit results, from which no total
    goes on. One block takes a row by itself, or a cluster, as long as it can hold it."""
    x = Layout.new((count,), np.dtype(dtype), 0)
    with assume((9, 0)):
        plan = scan_dispatch.scan(x, kind="sum", axis=0, dtype=np.dtype(target))
    assert named(plan) == names


@pytest.mark.simulator
@pytest.mark.parametrize("dtype, target", [("f4", "f4"), ("i4", "i8"), ("?", "i8"), ("c8", "c8")])
def test_scan_tail_simulated(dtype, target):
    from cudamath.kernels.compiler.lazy_numba import cuda
    from cudamath.kernels.scan.tail import tail_scan

    scan_tail = tail_scan("sum", np.dtype(dtype), np.dtype(target))

    @cuda.jit
    def run(x, y, first):
        scan_tail(x, y, first, y[first - 1])

    x = (np.arange(11) % 3).astype(dtype)
    y = np.cumsum(x, dtype=target)
    expected = y.copy()
    y[8:] = 0
    held = x.view("u1") if dtype == "?" else x
    run[1, 1](held, y, 8)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    "kinds",
    [
        ("sum", "f4", "f4"),
        ("sum", "f8", "f8"),
        ("sum", "i4", "i8"),
        ("sum", "?", "i8"),
        ("max", "i1", "i1"),
        ("sum", "f2", "f2"),
        ("prod", "c8", "c8"),
        ("sum", "f4", "c16"),
    ],
)
def test_rings_fit_into_a_multiprocessor(kinds):
    """Shared memory of its blocks within 227 KB, tickets that are remembered, totals told of tiles
    that are on their way."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        pytest.skip("not for the simulator")
    from cudamath.kernels.scan import sm90 as scan_sm90

    kind, source, target = kinds[0], *map(np.dtype, kinds[1:])
    width, shape = scan_sm90.ring_widths(
        (kind, source, target), 1 << 20, Layout.new((1 << 20,), source, 0)
    )
    tile = scan_sm90.THREADS * shape.vectors * width
    stage, results = tile * source.itemsize, tile * target.itemsize
    assert shape.blocks * (stage * shape.stages + results + 3072) <= 227 << 10 and shape.vectors % 2
    assert 1 <= shape.lead <= shape.stages <= scan_sm90.QUEUE - 2
    assert stage // scan_sm90.WARPS % 16 == results // scan_sm90.WARPS % 16 == 0


@pytest.mark.simulator
@pytest.mark.parametrize("kind, function", [("sum", np.cumsum), ("nanmax", np.fmax.accumulate)])
@pytest.mark.parametrize("dtype", ["f4", "i4", "f2"])
@pytest.mark.parametrize("shape, axis", [((2, 70, 33), 1), ((16, 3), 0), ((1, 5), 0)])
def test_scan_columns_simulated(kind, function, dtype, shape, axis, monkeypatch):
    """Several tiles, of which the last ends within a thread; strips of which the last is one
    column."""
    monkeypatch.setattr(scan_strided, "THREADS", 64)
    monkeypatch.setattr(scan_strided, "WARPS", 2)
    x = (np.arange(np.prod(shape)) % 3 - 1).reshape(shape).astype(dtype)
    if kind.startswith("nan") and dtype != "i4":
        x.flat[::5] = np.nan
    target = np.dtype("i8") if dtype == "i4" and kind == "sum" else x.dtype
    plan = scan_dispatch.scan(*layouts(x), kind=kind, axis=axis, dtype=target, version="columns")
    assert named(plan) == ["scan_columns"]
    np.testing.assert_array_equal(sim(plan, x), function(x, axis).astype(target))


@pytest.mark.simulator
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "i8", "f2"])
def test_find_simulated(dtype, right, monkeypatch):
    table = np.take_along_axis(x := numbers((30,), dtype), order_of(x, 0), 0)
    x = numbers((3, 5), dtype)
    for held in (30, 8, 1):  # keys in shared memory: all, every fourth one, one
        monkeypatch.setattr(binary_search, "HELD", held)
        got = sim(binary_search.searchsorted(*layouts(table, x), right=right), table, x)
        np.testing.assert_array_equal(got, np.searchsorted(table, x, "right" if right else "left"))
        for edges in (table, table[::-1].copy(), table[:1], table[:2], table[1::-1].copy()):
            plan = binary_search.digitize(*layouts(edges, x), right=right)
            np.testing.assert_array_equal(sim(plan, edges, x), binned(x, edges, right))


def binned(x, edges, right):
    """np.digitize by what it is defined to be; NaN is the largest of all."""
    place = {v: k for k, v in enumerate(np.unique(np.concatenate([x.ravel(), edges])))}
    (x, edges) = ([place.get(v, len(place)) for v in a.ravel().tolist()] for a in (x, edges))
    falls = edges[0] > edges[-1]
    beyond = [
        [(e >= v if right else e > v) if falls else (e < v if right else e <= v) for e in edges]
        for v in x
    ]
    return np.sum(beyond, axis=1).reshape(3, 5)


@pytest.mark.simulator
def test_digitize_checks_its_edges_simulated():
    x = np.zeros(3)
    for edges in ([1.0, 3.0, 2.0], [3.0, 1.0, 2.0], [0.0, np.nan, 1.0]):
        with pytest.raises(IndexError):  # the flag, which is a ValueError on a GPU
            sim(
                binary_search.digitize(*layouts(np.array(edges), x), right=False),
                np.array(edges),
                x,
            )


def ranked(x, ranks):
    return np.sort(x.astype("f8") if x.dtype == cm.bfloat16 else x, -1)[..., list(ranks)].astype(
        "f8"
    )


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "i1", "u2", cm.bfloat16], ids=str)
def test_order_statistics_simulated(dtype, monkeypatch):
    """Digits of four bits, so that there are several even of bytes; ranks whose keys begin alike,
    and the NaNs' at the end."""
    radix_select.count_candidates.cache_clear(), radix_select.narrow.cache_clear()
    for name, value in {"DIGIT": 4, "VALUES": 16, "THREADS": 16, "EACH": 1, "ITEMS": 2}.items():
        monkeypatch.setattr(radix_select, name, value)
    x = numbers((2, 41), dtype)
    ranks = (0, 20, 21, 40)
    got = sim(radix_select.order_statistics(*layouts(x), ranks=ranks), x)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.astype("f8"), ranked(x, ranks))
    radix_select.count_candidates.cache_clear(), radix_select.narrow.cache_clear()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_order_statistics_on_gpu(dtype):
    for shape in ((1,), (3, 1000), (2, 300_001)):
        x = numbers(shape, dtype)
        n = shape[-1]
        for ranks in ((n - 1,), (n // 3, n // 2, n // 2, 0, n - 1)):
            there = cm.asarray(x, device="cuda")
            plan = radix_select.order_statistics(there._layout, ranks=ranks)
            got = plan.bind("select", [there._layout])(there).to_numpy()
            np.testing.assert_array_equal(got.astype("f8"), ranked(x, ranks))


def divided(x, rank, descending=False):
    """The positions in order, where the less ones end, and where the equal ones do."""
    order = order_of(x, 0, descending)
    line = x[order].astype("f8")
    same = (line == line[rank]) | (np.isnan(line) & np.isnan(line[rank]))
    return order, int(np.flatnonzero(same)[0]), int(np.flatnonzero(same)[-1]) + 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize(
    "shape", [(5, 1025), (3, 2999), (2, 8192), (1, 65_536), (3, 70_001), (2, 700_000)]
)
def test_divide_on_gpu(dtype, shape, monkeypatch):
    """Less ones in their order, equal ones in theirs, greater ones after them; twice the same."""
    monkeypatch.setattr(sort_dispatch, "MANY", 1)
    n = shape[1]
    x = np.random.default_rng(n).permutation(numbers(shape, dtype), axis=1)
    there = cm.asarray(x, device="cuda")
    for rank in (0, n // 2, n - 1):
        plan = sort_dispatch.argpartition(there._layout, axis=1, kth=(rank,))
        assert named(plan)[-1] == ("divide" if n > 8192 else "divide_line")
        run = plan.bind("argpartition", [there._layout])
        got = run(there).to_numpy()
        np.testing.assert_array_equal(got, run(there).to_numpy())
        values = (
            sort_dispatch.partition(there._layout, axis=1, kth=(rank,))
            .bind("partition", [there._layout])(there)
            .to_numpy()
        )
        same_bits(values, np.take_along_axis(x, got, 1))
        for line, found in zip(x, got, strict=True):
            order, begin, end = divided(line, rank)
            np.testing.assert_array_equal(found[:begin], np.sort(order[:begin]))
            np.testing.assert_array_equal(found[begin:end], order[begin:end])
            np.testing.assert_array_equal(np.sort(found[end:]), np.sort(order[end:]))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_leading_on_gpu(dtype):
    x = np.random.default_rng(1).permutation(numbers((70_001, 3), dtype), axis=0)
    there = cm.asarray(x, device="cuda")
    for descending in (False, True):
        for count in (1, 900, 30_000):
            plan = radix_select.leading(there._layout, axis=0, count=count, descending=descending)
            got = plan.bind("leading", [there._layout])(there).to_numpy()
            assert got.shape == (count, 3)
            for line, found in zip(x.T, got.T, strict=True):
                order, begin, _ = divided(line, count - 1, descending)
                np.testing.assert_array_equal(found[:begin], np.sort(order[:begin]))
                np.testing.assert_array_equal(found[begin:], order[begin:count])


def test_which_lines_are_divided():
    many = 1 << 20
    with cm.testing.assume((9, 0)):
        for shape, axis, kth, divides in (
            ((many,), 0, (3,), True),
            ((many,), 0, (3, 3), True),
            ((16, 1 << 16), 1, (3,), True),
            ((70_000, 2000), 0, (3,), False),
            ((many,), 0, (3, 4), False),
            ((99, 60_000), 1, (3,), False),
            ((many - 1,), 0, (3,), False),
            ((8192,), 0, (3,), True),
            ((8193,), 0, (3,), False),
        ):
            x = cm.testing.layout_of(np.empty(0, "f4")).like(shape)
            for planner in (sort_dispatch.partition, sort_dispatch.argpartition):
                kernels = named(planner(x, axis=axis, kth=kth))
                assert ("divide" in kernels or "divide_line" in kernels, "onesweep" in kernels) == (
                    divides,
                    not divides,
                )
        assert named(sort_dispatch.partition(x.like((9, 1024)), axis=1, kth=(3,))) == ["sort_held"]


def test_topk_of_long_lines(device, monkeypatch):
    """By selection where k is small: the first of equal ones first, NaN the largest."""
    monkeypatch.setattr(ordering, "_MANY", 1)
    for x in (
        numbers((2, 70_001), "f4"),
        np.full((1, 70_000), 2),
        np.random.default_rng(0).standard_normal((70_001, 1)),
    ):
        axis = int(np.argmax(x.shape))
        for k in (1, 2000, 20_000):
            for largest in (True, False):
                order = np.take(order_of(x, axis, largest), range(k), axis)
                values, positions = cm.topk(cm.asarray(x), k, axis, largest=largest)
                np.testing.assert_array_equal(positions.to_numpy(), order)
                same_bits(values.to_numpy(), np.take_along_axis(x, order, axis))


def test_quantiles_of_long_lines(device):
    """By selection, and, where a gradient is recorded, by a sort: the same."""
    rng = np.random.default_rng(0)
    for x in (
        rng.standard_normal((2, 70_001)),
        rng.integers(0, 9, (70_000, 1)).astype("f4"),
        np.full((3, 70_000), 2.5),
    ):
        axis = int(np.argmax(x.shape))
        for q in (0.5, [0.1, 1.0], np.linspace(0, 1, 7)):
            np.testing.assert_allclose(
                cm.quantile(cm.asarray(x), q, axis=axis), np.quantile(x, q, axis=axis), rtol=1e-6
            )
            slope = cm.grad(lambda v, q=q, axis=axis: cm.quantile(v, q, axis=axis).sum())(
                cm.asarray(x)
            )
            assert abs(float(slope.sum()) - np.size(q) * x.size / max(x.shape)) < 1e-3
        np.testing.assert_allclose(
            cm.median(cm.asarray(x), axis=axis), np.median(x, axis=axis), rtol=1e-7
        )
        x[0] = np.nan
        np.testing.assert_array_equal(cm.median(cm.asarray(x), axis=axis), np.median(x, axis=axis))


def members(x, table, invert=False):
    """By comparison of all with all: NaN is nowhere, and -0.0 is 0.0."""
    wide = [a.astype("f8") if a.dtype == cm.bfloat16 else a for a in (x, table)]
    return (wide[0][..., None] == wide[1]).any(-1) != invert


@pytest.mark.simulator
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "i8", "f2", "?", cm.bfloat16, "u1"], ids=str)
def test_isin_simulated(dtype, few, monkeypatch):
    monkeypatch.setattr(binary_search, "FEW", 256 if few else 0)
    x, table = numbers((3, 5), dtype), numbers((9,), dtype)[3:]
    table = table if few else np.take_along_axis(table, order_of(table, 0), 0)
    for invert in (False, True):
        plan = binary_search.isin(*layouts(x, table), invert=invert)
        assert named(plan)[-1] == ("among_few" if few else "among_sorted")
        np.testing.assert_array_equal(sim(plan, x, table), members(x, table, invert))


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_network_of_two_turns_simulated(dtype, monkeypatch):
    """As a block sorts rows of more than 2,048 elements: every thread makes two comparisons a
    round."""
    monkeypatch.setattr(bitonic, "PAIRS", 4)
    bitonic.sort_rows.cache_clear()
    x = numbers((2, 13), dtype)
    plan = sort_dispatch.sort(*layouts(x), axis=1, descending=False, version="bitonic")
    assert plan.steps[-1].block[0] * 2 * 2 >= 16
    same_bits(sim(plan, x), np.take_along_axis(x, order_of(x, 1), 1))
    bitonic.sort_rows.cache_clear()


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "i8"])
@pytest.mark.parametrize("n", [13, 100])
def test_network_by_warps_simulated(dtype, n, monkeypatch):
    """As on a GPU: among few neighbours warps go on by themselves, and all threads meet before the
    rows go out."""
    give_vectors_and_warps(monkeypatch)
    monkeypatch.setattr(bitonic, "SIMULATOR", False)
    bitonic.sort_rows.cache_clear()
    x = numbers((23, n), dtype)
    plan = sort_dispatch.sort(*layouts(x), axis=1, descending=False, version="bitonic")
    same_bits(sim(plan, x), np.take_along_axis(x, order_of(x, 1), 1))
    bitonic.sort_rows.cache_clear()


def table_of(dtype):
    """Numbers in and around a table whose places repeat, and its values."""
    x = np.array([-9, -2, -1.5, -1, 0, 0.25, 1, 2.75, 3, 4, 99, np.nan, np.inf, -np.inf]).astype(
        dtype
    )
    places = np.array([-1.5, -1, -1, 0, 1, 3, 4, 4]).astype(dtype)
    return x, places, np.array([1, 2, 2, -1, 0, 8, 3, -6]).astype(dtype)


#: Places and values of which one is infinite.
ENDLESS_TABLES = [
    ([-np.inf, 1], [0, 10]),
    ([0, np.inf], [0, 10]),
    ([-np.inf, np.inf], [3, 10]),
    ([-np.inf, -np.inf], [0, 10]),
    ([-np.inf, 1], [-np.inf, 10]),
    ([-np.inf, 1], [0, np.inf]),
    ([0, np.inf], [np.inf, 10]),
    ([0, np.inf], [0, -np.inf]),
]


def interpolated(x, places, values, left=None, right=None):
    wide = [a.astype("f8") for a in (x, places, values)]
    return np.interp(*wide, left=left, right=right).astype(x.dtype)


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("dtype", ["f4", "f2", cm.bfloat16, "f8"], ids=str)
def test_interp_simulated(dtype):
    arrays = table_of(dtype)
    T = np.float64 if dtype == "f8" else np.float32
    for left, right in ((None, None), (-5.0, None), (None, 7.0)):
        plan = binary_search.interp(
            *layouts(*arrays), sides=(left is not None) + 2 * (right is not None)
        )
        got = cm.testing.simulate(plan, *arrays, scalars=(T(left or 0), T(right or 0)))
        np.testing.assert_array_equal(
            got.astype("f8"), interpolated(*arrays, left, right).astype("f8")
        )
    for n, values in (
        (1, [3]),
        (4, [np.inf, np.inf, 1, -np.inf]),
        (4, [-np.inf, 2, np.inf, np.inf]),
    ):
        arrays = arrays[0], np.arange(n).astype(dtype) - 1, np.array(values).astype(dtype)
        got = cm.testing.simulate(
            binary_search.interp(*layouts(*arrays), sides=0), *arrays, scalars=(T(0), T(0))
        )
        np.testing.assert_array_equal(got.astype("f8"), interpolated(*arrays).astype("f8"))
    for places, values in ENDLESS_TABLES:
        arrays = [np.array(a).astype(dtype) for a in ([0.5, -2, np.nan], places, values)]
        got = cm.testing.simulate(
            binary_search.interp(*layouts(*arrays), sides=0), *arrays, scalars=(T(0), T(0))
        )
        np.testing.assert_array_equal(got.astype("f8"), interpolated(*arrays).astype("f8"))


@pytest.mark.parametrize("dtype", ["f4", "f2", cm.bfloat16, "f8"], ids=str)
def test_interp(device, dtype):
    x, places, values = table_of(dtype)
    for many in (1, 500):
        given = np.tile(x, (many, 1)).T[:, ::1]
        for left, right in ((None, None), (-5.0, None), (2, 7.0)):
            got = cm.interp(*map(cm.asarray, (given, places, values)), left, right)
            expected = interpolated(given, places, values, left, right)
            np.testing.assert_array_equal(got.to_numpy().astype("f8"), expected.astype("f8"))
    for n in (1, 2):
        got = cm.interp(cm.asarray(x), cm.asarray(places[:n]), cm.asarray(values[:n]))
        np.testing.assert_array_equal(
            got.to_numpy().astype("f8"), interpolated(x, places[:n], values[:n]).astype("f8")
        )
    for values in ([np.inf, np.inf, 1, -np.inf], [-np.inf, 2, np.inf, np.inf]):
        places, values = np.arange(4).astype(dtype) - 1, np.array(values).astype(dtype)
        got = cm.interp(*map(cm.asarray, (x, places, values)))
        np.testing.assert_array_equal(
            got.to_numpy().astype("f8"), interpolated(x, places, values).astype("f8")
        )
    for places, values in ENDLESS_TABLES:
        arrays = [np.array(a).astype(dtype) for a in ([0.5, -2, np.nan], places, values)]
        got = cm.interp(*map(cm.asarray, arrays))
        np.testing.assert_array_equal(
            got.to_numpy().astype("f8"), interpolated(*arrays).astype("f8")
        )


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_isin(device, dtype):
    for n, m in ((0, 3), (5, 0), (7, 1), (4099, 255), (4099, 256), (4099, 257), (300, 5000)):
        x, table = numbers((n,), dtype), np.roll(numbers((m,), dtype), 1)[: m - m // 3]
        for invert in (False, True):
            got = cm.isin(cm.asarray(x), cm.asarray(table), invert=invert)
            np.testing.assert_array_equal(got.to_numpy(), members(x, table, invert))
    grid = numbers((6, 8), dtype)
    got = cm.isin(cm.asarray(grid).T, cm.asarray(grid[:2]))
    np.testing.assert_array_equal(got[::2], members(grid.T, grid[:2].ravel())[::2])


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_keys_are_in_order(dtype):
    """The key, as Python integers: the order of keys is the order of numbers, NaN last, zeros
    equal."""
    x = np.unique(numbers((60,), dtype).astype("f8"))
    x = np.append(x[~np.isnan(x)], [np.nan]) if np.dtype(dtype).kind not in "biu" else x
    code = radix_keys.coding(np.dtype(dtype))
    words = x.astype(dtype).view(code.word)
    found = [int(code.key.py_func(w, code.no_flip)) for w in words]
    assert len(found) > 2 - (dtype == "?") and found == sorted(set(found))
    if np.dtype(dtype).kind not in "biu":
        zeros = np.array([0.0, -0.0]).astype(dtype).view(code.word)
        assert len({int(code.key.py_func(w, code.no_flip)) for w in zeros}) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("version, n", [("onesweep", 40_000), ("block_radix", 5_000)])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "f4", "i8", "f8"])
def test_digits_that_all_keys_share_on_gpu(dtype, version, n):
    """Passes that move nothing, in all places and numbers: the result is where it belongs, and the
    input as it was."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    rng, size = np.random.default_rng(0), word.itemsize
    for moving in {
        0,
        1,
        2,
        5,
        2 ** (size - 1),
        2**size - 2,
        2**size - 1,
        *rng.integers(0, 2**size, 6).tolist(),
    }:
        mask = sum(0xFF << 8 * p for p in range(size) if moving >> p & 1) & (1 << 8 * size) - 1
        bits = rng.integers(0, 1 << 8 * size, n, dtype=np.uint64) & np.uint64(mask) | np.uint64(
            0x3C3C3C3C3C3C3C3C & ~mask
        )
        x = bits.astype(word).view(dtype)
        x[np.isnan(x)] = 1
        there = cm.asarray(x, device="cuda")
        for descending in (False, True):
            order = order_of(x, 0, descending)
            ours = [
                planner(there._layout, axis=0, descending=descending, version=version).bind(
                    "x", [there._layout]
                )(there)
                for planner in (sort_dispatch.sort, sort_dispatch.argsort)
            ]
            assert ours[0].to_numpy().tobytes() == x[order].tobytes()
            np.testing.assert_array_equal(ours[1].to_numpy(), order)
            assert there.to_numpy().tobytes() == x.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "version", ["onesweep", "radix", "bitonic", "bitonic_registers", "block_radix"]
)
@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize(
    "shape",
    [(1,), (2, 1000), (3, 4096), (3, 4097), (1, 300_000), (90, 3000), (700, 130), (150, 10_001)],
)
def test_sort_on_gpu(version, dtype, shape):
    if version.startswith("bitonic") and shape[-1] > sort_dispatch.NETWORK:
        return
    problem = SortProblem(Layout.new(shape, np.dtype(dtype), 0), len(shape) - 1, False, True)
    if version == "block_radix" and block_shape(problem) is None:
        return
    x = numbers(shape, dtype)
    there = cm.asarray(x, device="cuda")
    axis = len(shape) - 1
    for descending in (False, True):
        order = order_of(x, axis, descending)
        for planner, expected in (
            (sort_dispatch.sort, np.take_along_axis(x, order, axis)),
            (sort_dispatch.argsort, order),
        ):
            plan = planner(there._layout, axis=axis, descending=descending, version=version)
            got = plan.bind("sort", [there._layout])(there).to_numpy()
            same_bits(got, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_sort_with_wide_counts_on_gpu(dtype, monkeypatch):
    """What arrays of 2^30 elements and more run through."""
    monkeypatch.setattr(onesweep, "_WIDE", 1)
    x = numbers((2, 20_000), dtype)
    there = cm.asarray(x, device="cuda")
    for planner, expected in (
        (sort_dispatch.sort, np.take_along_axis(x, order_of(x, 1), 1)),
        (sort_dispatch.argsort, order_of(x, 1)),
    ):
        plan = planner(there._layout, axis=1, descending=False, version="onesweep")
        same_bits(plan.bind("sort", [there._layout])(there).to_numpy(), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["tiles", "rows", "lines", "columns"])
@pytest.mark.parametrize(
    "dtype, target",
    [
        *[(d, d) for d in ("f4", "f8", "c16", "u1", "i2")],
        *[("i4", "i8"), ("?", "i8"), ("u1", "u8")],
    ],
)
@pytest.mark.parametrize(
    "shape, axis",
    [
        ((5,), 0),
        ((3, 8191), 1),
        ((2, 8193), 1),
        ((10_240,), 0),
        ((16_387,), 0),
        ((40_000,), 0),
        ((5, 65_536), 1),
        ((6_000_001,), 0),
        ((500, 77), 0),
        ((2, 1030, 33), 1),
        ((3, 232_727), 0),
        ((50, 8, 33), 1),
    ],
)
def test_scan_on_gpu(version, dtype, target, shape, axis):
    """Several groups of tiles, rows that end within a tile; twice the same bits."""
    shape, axis = (
        ((90, scan_dispatch.LONGEST), 1)
        if version == "rows" and shape[axis] > scan_dispatch.LONGEST
        else (shape, axis)
    )
    rng = np.random.default_rng(3)
    x = (
        rng.integers(0, 2, shape).astype(dtype)
        if np.dtype(dtype).kind in "biu"
        else rng.standard_normal(shape).astype(dtype)
    )
    there = cm.asarray(x, device="cuda")
    run = scan_dispatch.scan(
        there._layout, kind="sum", axis=axis, dtype=np.dtype(target), version=version
    ).bind("scan", [there._layout])
    results = [run(there).to_numpy() for _ in range(3)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    # One addition after another in float64 is no truth for sums of float64: they are better than
    # that here.
    expected = np.cumsum(
        x.astype({"f": np.longdouble, "c": np.clongdouble}.get(x.dtype.kind, target)), axis
    )
    expected = expected.astype(target) if x.dtype.kind in "biu" else expected  # modulo 256, say
    error = np.abs(results[0] - expected).max()
    assert error <= (
        0 if x.dtype.kind in "biu" else 64 * np.finfo(dtype).eps * np.abs(expected).max()
    )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f2", "bfloat16", "f4"])
@pytest.mark.parametrize(
    "shape",
    [
        (77, 5),
        (77, 8),
        (33, 40),
        (130, 64),
        (19, 100),
        (9, 256),
        (21, 500),
        (5, 1000),
        (5, 1001),
        (7, 1024),
        (3, 1032),
        (70, 2100),
        (2, 4096),
    ],
)
def test_scan_rows_on_gpu(dtype, shape):
    """Two to 32 lanes a row, rows that end within a block, a step and an access; sums that are
    whole numbers are exact."""
    x = np.random.default_rng(4).integers(-1, 2, shape)
    expected = np.cumsum(x, 1).astype("f8")
    assert np.abs(expected).max() <= 256  # bfloat16 holds these
    there = cm.asarray(x.astype("f4"), device="cuda").astype(dtype)
    there[0, 0] = expected[0] = np.inf
    plan = scan_dispatch.scan(there._layout, kind="sum", axis=1, dtype=there.dtype, version="rows")
    assert named(plan) == ["scan_rows"]
    np.testing.assert_array_equal(
        plan.bind("scan", [there._layout])(there).astype("f8").to_numpy(), expected
    )


@pytest.mark.gpu
@pytest.mark.parametrize("n", [300, 1025])
@pytest.mark.parametrize(
    "kind, function",
    [("nanmax", np.fmax), ("min", np.minimum), ("prod", np.multiply), ("nansum", np.add)],
)
def test_other_scan_rows_on_gpu(kind, function, n):
    rng = np.random.default_rng(5)
    x = (
        rng.choice([1.0, -1.0, 0.5, 2.0], (50, n))
        if kind == "prod"
        else rng.integers(-9, 10, (50, n)).astype("f8")
    )
    if kind.startswith("nan"):
        x[rng.random(x.shape) < 0.1] = np.nan
    there = cm.asarray(x, device="cuda")
    plan = scan_dispatch.scan(there._layout, kind=kind, axis=1, dtype=x.dtype, version="rows")
    whole = np.nan_to_num(x) if kind == "nansum" else x
    np.testing.assert_array_equal(
        plan.bind("scan", [there._layout])(there).to_numpy(), function.accumulate(whole, 1)
    )


@pytest.mark.gpu
@pytest.mark.parametrize(
    "kind, dtype, target",
    [
        ("sum", "f4", "f4"),
        ("sum", "f8", "f8"),
        ("sum", "i4", "i8"),
        ("sum", "?", "i8"),
        ("max", "i1", "i1"),
        ("sum", "f2", "f4"),
        ("sum", "c8", "c8"),
        ("sum", "f4", "c8"),
        ("nanmin", "f4", "f4"),
        ("sum", "u2", "u8"),
        ("sum", "f8", "f4"),
        ("sum", "f4", "c16"),
        ("sum", "i8", "i8"),
    ],
)
@pytest.mark.parametrize(
    "shape", [(5, 16 * 7), (2, 16 * 150_003), (300, 16 * 1030), (1, 16 * 300_001)]
)
def test_the_ring_on_gpu(kind, dtype, target, shape):
    """Rows of one tile and of many groups of tiles, ends within an access of a warp; twice the same
    bits."""
    if capability(0) != (9, 0):
        pytest.skip("needs compute capability 9.0")
    rng = np.random.default_rng(5)
    x = (
        rng.integers(0, 2, shape).astype(dtype)
        if dtype in "?i4u2i1"
        else rng.standard_normal(shape, "f4").astype(dtype)
    )
    if kind == "nanmin":
        x[rng.random(shape) < 0.1] = np.nan
    there = cm.asarray(x, device="cuda")
    plan = scan_dispatch.scan(
        there._layout, kind=kind, axis=1, dtype=np.dtype(target), version="ring"
    )
    assert named(plan)[-1] == "scan_ring"
    run = plan.bind("scan", [there._layout])
    first, *others = [run(there).to_numpy() for _ in range(3)]
    for other in others:
        np.testing.assert_array_equal(first, other)
    if kind != "sum":
        function = np.maximum if kind == "max" else np.fmin
        np.testing.assert_array_equal(first, function.accumulate(x, 1))
        return
    exact = x.dtype.kind in "biu"
    # One addition after another in float64 is no truth for sums of float64: they are better than
    # that here.
    expected = np.cumsum(
        x.astype({"f": np.longdouble, "c": np.clongdouble}.get(x.dtype.kind, target)), 1
    )
    precision = (
        0 if exact else max(np.finfo(dtype).eps if dtype != "f2" else 0, np.finfo(target).eps)
    )
    assert np.abs(first - expected).max() <= 64 * precision * np.abs(expected).max()


@pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="planned without the simulator"
)
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
@pytest.mark.parametrize("target, order", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("rows", [1, 3])
def test_what_passes_of_short_keys_read_and_write(dtype, target, order, rows):
    """The launches' arguments, each launch done by NumPy: a stable sort by one digit."""
    n, rng, dtype = 50, np.random.default_rng(3), np.dtype(dtype)
    x = rng.integers(0, np.iinfo(dtype).max, (rows, n), dtype, endpoint=True)
    temps, results = [], {}
    whose = lambda a: (a.kind, a.index)  # noqa: E731
    coding = radix_keys.coding(dtype)
    with assume((9, 0)):
        steps = onesweep.sweep_steps(
            Input(0),
            Output(0) if target else None,
            Output(1) if order else None,
            coding,
            (rows, n),
            coding.no_flip,
            0,
            temps,
        )
    passes = [step for step in steps if step.kernel.__name__ == "onesweep"]
    assert len(passes) == dtype.itemsize
    results[whose(Input(0))] = x
    for p, step in enumerate(passes):
        _, given, made, places, new_places, *_, spread, keep = step.args
        assert step.args[10] == p and spread == (2 if p == dtype.itemsize - 1 else 1)
        ahead = results[whose(given)]
        sorting = np.argsort(ahead >> np.array(8 * p, dtype) & 255, axis=1, kind="stable")
        if keep:
            assert whose(made) != whose(given)
            results[whose(made)] = np.take_along_axis(ahead, sorting, 1)
        if order:
            before = results[whose(places)] if p else np.broadcast_to(np.arange(n), (rows, n))
            assert p == 0 or whose(places) != whose(new_places)
            results[whose(new_places)] = np.take_along_axis(before, sorting, 1)
    if target:
        assert np.array_equal(results[whose(Output(0))], np.sort(x, axis=1))
    assert (whose(Output(0)) in results) == target
    if order:
        assert np.array_equal(results[whose(Output(1))], np.argsort(x, axis=1, kind="stable"))
