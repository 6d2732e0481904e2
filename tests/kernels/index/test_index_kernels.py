"""The kernels of indexing and of scatter-add by name: in the simulator, compiled, and at full size
on a GPU."""

import itertools

import numpy as np
import pytest
from simulated_gpu import give_vectors_and_warps, simulated_gpu

import cudamath as cm
from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.op import registry
from cudamath.core.dispatch.plan import Plan
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import simulator
from cudamath.kernels.copy.dispatch import copy_part
from cudamath.kernels.copy.parts import whole
from cudamath.kernels.index import dispatch as kernels
from cudamath.kernels.index import (
    embedding,
    gather,
    put_along_axis,
    scatter_add_slices,
    scatter_add_sorted,
    stream_compaction,
    where,
    work,
)
from cudamath.kernels.index import scatter as index_scatter
from cudamath.kernels.ptx import vector_access
from cudamath.kernels.sort import radix_sort
from cudamath.runtime.device import assume


def same(ours, expected):
    """Equal in shape, dtype and every element."""
    assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(ours.to_numpy(), expected)


def numbered(shape, dtype=np.float64):
    return (np.arange(1, 1 + np.prod(shape, dtype=int)) % 97).reshape(shape).astype(dtype)


def sim(plan, *inputs, scalars=()):
    return cm.testing.simulate(plan, *inputs, scalars=scalars)


#: Narrowed to 32 bits or fewer it would be 2, which all axes here have.
BEYOND = (1 << 32) + 2


def with_one_beyond(index, place=-1):
    """These positions, of which one is out of range by its upper bits alone."""
    index = index.astype(np.int64)
    index.flat[place] = BEYOND
    return index


def layouts(*arrays):
    return [cm.testing.layout_of(x) for x in arrays]


def named(plan):
    return [step.kernel.__name__ for step in plan.steps]


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "c16"])
@pytest.mark.parametrize("shape, axis", [((5, 4), 0), ((4, 5), 1), ((3, 5, 2), 1), ((5,), 0)])
@pytest.mark.parametrize("several", [False, True])
def test_gather_simulated(several, shape, axis, dtype, monkeypatch):
    """several: narrow words of a thread."""
    if several:
        monkeypatch.setattr(gather, "MANY", 1)
    x = numbered(shape, dtype)
    index = np.array([[4, -5], [0, 2]])
    plan = kernels.gather(*layouts(x, index), axis=axis)
    assert named(plan) == ["gather_rows"]
    np.testing.assert_array_equal(sim(plan, x, index), np.take(x, index, axis))
    with pytest.raises(IndexError):
        sim(plan, x, index + 1)
    turned = x.T.copy().T
    np.testing.assert_array_equal(
        sim(kernels.gather(*layouts(turned, index), axis=axis), turned, index),
        np.take(x, index, axis),
    )


@pytest.mark.simulator
@pytest.mark.parametrize(
    "dtype, shape, axis",
    [
        ("u1", (5, 65), 0),
        ("u1", (5, 300), 0),
        ("u1", (2, 4, 2 * 1001), 1),
        ("f2", (3, 4, 67), 1),
        ("f4", (6, 2, 65), 0),
    ],
)
def test_gather_of_rows_between_borders_simulated(dtype, shape, axis):
    """By words of 1, 2 and 4 bytes; of several pieces, of which the last one ends within."""
    x, index = numbered(shape, dtype), np.array([3, -4, 0, 1, -1])
    plan = kernels.gather(*layouts(x, index), axis=axis)
    assert named(plan) == ["gather_words"]
    np.testing.assert_array_equal(sim(plan, x, index), np.take(x, index, axis))
    with pytest.raises(IndexError):
        sim(plan, x, index + 6)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8"])
@pytest.mark.parametrize("shape, axis", [((3, 301, 197), 1), ((40, 20_001), 0), ((9, 81, 19), 0)])
def test_rows_between_borders_on_gpu(shape, axis, dtype):
    rng = np.random.default_rng(2)
    x, index = numbered(shape, dtype), rng.integers(-shape[axis], shape[axis], 133)
    with cm.device("cuda"):
        ours, places = cm.asarray(x), cm.asarray(index)
        plan = kernels.gather(ours._layout, places._layout, axis=axis)
        assert named(plan) == ["gather_words"]
        same(cm.take(ours, places, axis=axis), np.take(x, index, axis))


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["rows", "vectors"])
def test_gather_versions_on_the_gpu(version):
    rng = np.random.default_rng(0)
    x, index = rng.standard_normal((3, 301, 64)).astype("f4"), rng.integers(-301, 301, (17, 1001))
    there = cm.asarray(x, device="cuda"), cm.asarray(index, device="cuda")
    known = [a._layout for a in there]
    plan = kernels.gather(*known, axis=1, version=version)
    assert named(plan) == [f"gather_{version}"]
    same(plan.bind("a version", known)(*there), np.take(x, index, 1))


@pytest.mark.simulator
@pytest.mark.parametrize(
    "version, kernels_of",
    [(None, ["gather_pairs"]), ("rows", ["first_two_positions", "gather_rows"])],
)
def test_gather_by_two_arrays_simulated(version, kernels_of):
    x = numbered((3, 4, 5), "f4")
    i, j = np.array([[0, -1]]), np.array([[1], [3]])
    i, j = np.broadcast_arrays(i, j)
    plan = kernels.gather(*layouts(x, i, j), axis=1, version=version)
    np.testing.assert_array_equal(sim(plan, x, i, j), x[:, i, j])
    assert named(plan)[-len(kernels_of) :] == kernels_of
    far = [(with_one_beyond(i), j), (i, with_one_beyond(j))]
    for wrong in ((i + 4, j), (i, j + 4), (i - 4, j), (i, j - 9), *far):
        wrong = [a.copy() for a in wrong]
        plan = kernels.gather(*layouts(x, *wrong), axis=1, version=version)
        with pytest.raises(IndexError):
            sim(plan, x, *wrong)


@pytest.mark.simulator
def test_gather_by_three_arrays_simulated():
    x = numbered((3, 4, 5), "f4")
    arrays = np.array([0, -1, 2]), np.array([-4, 3, 1]), np.array([4, 0, -5])
    plan = kernels.gather(*layouts(x, *arrays), axis=0)
    assert named(plan) == ["first_two_positions", "next_position", "gather_rows"]
    np.testing.assert_array_equal(sim(plan, x, *arrays), x[arrays])
    for number in range(3):
        with pytest.raises(IndexError):
            sim(plan, x, *[a + 5 * (i == number) for i, a in enumerate(arrays)])
        with pytest.raises(IndexError):
            sim(plan, x, *[with_one_beyond(a) if i == number else a for i, a in enumerate(arrays)])


@pytest.mark.simulator
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_put_along_simulated(axis):
    """Of repeated places the last one wins; places out of range are an error, and nothing is
    written for them."""
    rng = np.random.default_rng(axis)
    a = numbered((3, 4, 5), "f4")
    shape = (*a.shape[:axis], 6, *a.shape[axis + 1 :])
    index = rng.integers(-a.shape[axis], a.shape[axis], shape).astype("i4")
    values = np.broadcast_to(rng.standard_normal(shape[2:]).astype("f4"), shape)
    for given, scalars in (((values,), ()), ((), (7.5,))):
        x, expected = a.copy(), a.copy()
        np.put_along_axis(expected, index, *given or scalars, axis)
        plan = put_along_axis.put_along(*layouts(x, index, *given), axis=axis)
        assert named(plan)[-1] == ("put_lines" if given else "put_number_lines")
        sim(plan, x, index, *given, scalars=scalars)
        np.testing.assert_array_equal(x, expected)
        with pytest.raises(IndexError):
            sim(plan, x, index + a.shape[axis], *given, scalars=scalars)
        far = with_one_beyond(index)
        plan = put_along_axis.put_along(*layouts(x, far, *given), axis=axis)
        with pytest.raises(IndexError):
            sim(plan, x, far, *given, scalars=scalars)


@pytest.mark.simulator
def test_scatter_simulated():
    index = np.array([1, -1, 1, 0, 1])
    for x in (
        np.zeros((4, 3), "f4"),
        np.zeros((6, 4), "f4").T[:, ::2],
        np.zeros((2, 4, 3), "f4").transpose(1, 2, 0),
    ):
        values = numbered((5, *x.shape[1:]), "i4")
        expected = x.copy()
        expected[index] = values
        plan = kernels.scatter(*layouts(x, values, index), axis=0)
        assert "assign_few" in named(plan)
        sim(plan, x, values, index)
        np.testing.assert_array_equal(x, expected)


@pytest.mark.simulator
def test_scatter_drops_what_is_beyond_simulated(monkeypatch):
    """A position that only its upper bits tell from row 2 neither takes that row from the others
    nor is written there, whatever the memory of claims held before; the rest is assigned."""
    plain = np.zeros
    monkeypatch.setattr(simulator, "poison", lambda nbytes: plain(max(nbytes, 2), np.uint8))
    for version, few, many in (("assign_few", 99, 99), ("place", 0, 99), ("once", 0, 1)):
        for name, value in {"FEW": few, "MANY": many, "CACHE": 1}.items():
            monkeypatch.setattr(kernels, name, value)
        for shape, index in itertools.product(
            [(10,)] if version == "once" else [(10,), (10, 3)],
            ([2, 2, 7, 0, 2, BEYOND], [BEYOND, 7, 0, 7, 1, 3], [1, BEYOND, 2, 9, 2, 4]),
        ):
            x, index = np.zeros(shape, "f4"), np.array(index * 4)
            values, there = numbered((index.size, *shape[1:]), "f4"), index != BEYOND
            expected = x.copy()
            expected[index[there]] = values[there]
            plan = kernels.scatter(*layouts(x, values, index), axis=0)
            assert version in named(plan)
            with pytest.raises(IndexError):
                sim(plan, x, values, index)
            np.testing.assert_array_equal(x, expected)


@pytest.mark.simulator
def test_one_number_is_not_put_beyond_simulated():
    index, other = np.array([0, -1, 3]), np.array([4, -5, 0])
    for arrays in (
        (with_one_beyond(index),),
        (with_one_beyond(index), other),
        (index, with_one_beyond(other)),
    ):
        x, there = np.zeros((4, 5), "f4"), slice(0, 2)
        expected = x.copy()
        expected[tuple(a[there] for a in arrays)] = 7
        plan = index_scatter.scatter_number(*layouts(x, *arrays), axis=0)
        with pytest.raises(IndexError):
            sim(plan, x, *arrays, scalars=(7.0,))
        np.testing.assert_array_equal(x, expected)


@pytest.mark.simulator
def test_scatter_in_two_launches_simulated(monkeypatch):
    """The last of equal positions wins, for rows of one word and of several; what is out of range
    is reported."""
    monkeypatch.setattr(kernels, "FEW", 0)
    rng = np.random.default_rng(0)
    for shape, m in (((10,), 40), ((7,), 7), ((1000,), 9), ((5, 3), 30), ((9, 4), 20)):
        x, index, values = (
            np.zeros(shape, "f4"),
            rng.integers(-shape[0], shape[0], m),
            numbered((m, *shape[1:]), "f4"),
        )
        expected = x.copy()
        expected[index] = values
        plan = kernels.scatter(*layouts(x, values, index), axis=0)
        assert named(plan) == ["place", "correct"]
        sim(plan, x, values, index)
        np.testing.assert_array_equal(x, expected)
        with pytest.raises(IndexError):
            sim(plan, x, values, np.full(m, shape[0]))
    x, index, j = np.zeros((3, 40, 5), "i2"), rng.integers(0, 4, 9), rng.integers(0, 2, 9)
    for few in (0, 99):
        monkeypatch.setattr(kernels, "FEW", few)
        expected = x.copy()
        expected[:, index, j] = numbered((3, 9))
        plan = kernels.scatter(*layouts(x, numbered((3, 9), "i2"), index, j), axis=1)
        assert named(plan)[-1] == ("assign_few" if few else "correct")
        sim(plan, x, numbered((3, 9), "i2"), index, j)
        np.testing.assert_array_equal(x, expected)
        x[:] = 0


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["i1", "f4"])
def test_scatter_by_bids_simulated(dtype, monkeypatch):
    """Small elements and their numbers in one word; the last of equal positions wins, also with the
    sign bit set."""
    monkeypatch.setattr(kernels, "FEW", 0)
    monkeypatch.setattr(kernels, "BIDDERS", 1)
    rng = np.random.default_rng(0)
    for x, index in (
        (np.zeros(10, dtype), rng.integers(-10, 10, 40)),
        (np.zeros(80, dtype)[::2], rng.permutation(40)[:12]),
    ):
        values = -numbered(index.size, dtype)
        expected = x.copy()
        expected[index] = values
        plan = kernels.scatter(*layouts(x, values, index), axis=0)
        assert named(plan) == ["fill_line", "bid", "award"]
        sim(plan, x, values, index)
        np.testing.assert_array_equal(x, expected)
    for beyond in (
        40,
        -41,
        (1 << 32) + 3,
        3 - (1 << 32),
        1 << 62,
    ):  # also in the upper 32 bits alone
        with pytest.raises(IndexError):
            sim(plan, x, values, np.full(index.size, beyond))
    np.testing.assert_array_equal(x, expected)
    for length, kind in ((61, "f4"), (60, "f8")):  # too many rows, too wide
        assert "bid" not in named(
            kernels.scatter(
                *layouts(np.zeros(length, kind), np.zeros(15, kind), np.arange(15)), axis=0
            )
        )


@pytest.mark.simulator
def test_scatter_by_stretches_simulated(monkeypatch):
    """Single elements of a long array, in stretches, with a bit for each row."""
    monkeypatch.setattr(index_scatter, "STRETCH", 16)
    for name, value in {"MANY": 1, "FEW": 0, "CACHE": 1}.items():
        monkeypatch.setattr(kernels, name, value)
    rng = np.random.default_rng(0)
    for rows, index, groups in (
        (10, rng.integers(-10, 10, 40), 3),
        (7, rng.permutation(7), 2),
        (100, rng.integers(0, 99, 9), 1),
        (33, np.repeat([32, 5, -1], 5), 1),
    ):
        monkeypatch.setattr(index_scatter, "MOST_STRETCHES", groups)
        x, values = np.zeros(rows, "f4"), numbered(index.size, "f4")
        expected = x.copy()
        expected[index] = values
        plan = kernels.scatter(*layouts(x, values, index), axis=0)
        assert named(plan) == ["fill_line", "once", "last"]
        assert plan.steps[1].grid[1] == groups
        sim(plan, x, values, index)
        np.testing.assert_array_equal(x, expected)
        with pytest.raises(IndexError):
            sim(plan, x, values, np.full(index.size, rows))
    # a table for 10 rows is too much for 9 positions
    monkeypatch.setattr(kernels, "SPARSE", 1)
    assert named(kernels.scatter(*layouts(np.zeros(10), np.zeros(9), np.arange(9)), axis=0)) == [
        "place",
        "correct",
    ]


@pytest.mark.parametrize("dtype", ["f4", "i1", "c16"])
def test_assignment_of_many(device, dtype, monkeypatch):
    """Positions in long arrays, by bids, claims, and bits in several stretches: each once, at
    random, some of them often."""
    monkeypatch.setattr(index_scatter, "STRETCH", 1 << 20)
    rng = np.random.default_rng(0)
    n = (1 << 19) + 77
    often = np.where(rng.random(n) < 0.3, 5, rng.integers(-n, n, n))
    for index, (bids, cache) in itertools.product(
        (rng.permutation(n), often, rng.integers(0, 9, n), np.full(n, n - 1)),
        ((1 << 25, 0), (0, 1 << 40), (0, 1 << 20)),
    ):
        monkeypatch.setattr(kernels, "BIDS", bids)
        monkeypatch.setattr(kernels, "CACHE", cache)
        registry["index_put"].plans.clear()
        for shape in ((n,), (n, 3)):
            x, values = np.zeros(shape, dtype), rng.integers(1, 99, shape).astype(dtype)
            ours = cm.asarray(x.copy())
            ours[cm.asarray(index)] = cm.asarray(values)
            x[index] = values
            same(ours, x)
            ours[cm.asarray(index[:4000])] = cm.asarray(values[:4000] + values.dtype.type(1))
            x[index[:4000]] = values[:4000] + values.dtype.type(1)
            same(ours, x)


@pytest.mark.simulator
def test_take_along_simulated():
    x = numbered((2, 5, 3), "f2")
    index = np.arange(12).reshape(2, 2, 3) % 10 - 5
    np.testing.assert_array_equal(
        sim(kernels.take_along(*layouts(x, index), axis=1), x, index),
        np.take_along_axis(x, index, 1),
    )
    g = numbered((2, 2, 3), "f2")
    out = sim(kernels.take_along_grad(*layouts(g, index), size=5, axis=1), g, index)
    expected = np.zeros_like(x)
    for b, j, a in np.ndindex(2, 2, 3):
        expected[b, index[b, j, a], a] += g[b, j, a]
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(IndexError):
        plan = kernels.take_along_grad(*layouts(g, index), size=5, axis=1)
        sim(plan, g, with_one_beyond(index))


#: name -> a call that looks up positions along the first axis of ten rows of three numbers.
LOOKUPS = {
    "rows": lambda x, i: x[i],
    "elements": lambda x, i: x[i, i % 3],
    "columns": lambda x, i: x.T[:, i],
    "take": lambda x, i: cm.take(x, i, axis=0),
    "take_along_axis": lambda x, i: cm.take_along_axis(x, i[:, None], axis=0),
    "embedding": lambda x, i: cm.ml.embedding(i, x),
    "one_hot": lambda x, i: cm.ml.one_hot(i, len(x)),
    "set rows": lambda x, i: x.__setitem__(i, 1.0),
    "set elements": lambda x, i: x.__setitem__((i, i % 3), 1.0),
    "put_along_axis": lambda x, i: cm.put_along_axis(x, i[:, None], 1.0, axis=0),
    "add.at": lambda x, i: cm.add.at(x, i, 1.0),
    "maximum.at": lambda x, i: cm.maximum.at(x, i, 1.0),
}


@pytest.mark.simulator
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("name", LOOKUPS)
def test_positions_that_only_their_upper_bits_tell(name, few, monkeypatch):
    """Narrowed to 32 bits or fewer they would be row 3: an error, in every kernel that looks up,
    and nothing is written. Row 3 itself is none."""
    give_vectors_and_warps(monkeypatch)
    for access in ("load_vector", "store_vector"):
        for module in (embedding, gather):
            monkeypatch.setattr(module, access, getattr(vector_access, access), raising=False)
    with simulated_gpu(monkeypatch):
        for beyond in (1 << 32, 1 << 16, -(1 << 32), 1 << 62, 0):
            index = np.arange(2 if few else 70) % 10
            index[1] = 3 + beyond
            x = cm.asarray(numbered((10, 3), "f4"))
            if not beyond:
                LOOKUPS[name](x, cm.asarray(index))
                cm.cuda.synchronize()
                continue
            with pytest.raises(IndexError):
                LOOKUPS[name](x, cm.asarray(index))
                cm.cuda.synchronize()


@pytest.mark.simulator
@pytest.mark.parametrize("counted", [False, True])
def test_what_votes_choose_simulated(counted, monkeypatch):
    """Stretches of one tile and of several: a mask of numbers, which lanes look at side by side."""
    give_vectors_and_warps(monkeypatch)
    if counted:
        monkeypatch.setattr(stream_compaction, "STRETCHES", 2)
    n = 3 * stream_compaction.TILE + 77
    mask = (np.random.default_rng(0).random(n) < 0.4).astype("i4")
    x = numbered((n,))
    operands, held = [mask, x], int(mask.sum())
    if counted:
        counts = sim(stream_compaction.count_true(*layouts(mask), version="votes"), mask)
        assert counts.sum() == held
        operands.append(counts)
    plan = stream_compaction.chosen(*layouts(*operands), capacity=held, version="votes")
    assert named(plan) == ["write_chosen"]
    found = sim(plan, *operands)
    if not counted:
        found, total = found
        assert total == held
    np.testing.assert_array_equal(found, x[mask != 0])


@pytest.mark.simulator
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 6])
def test_where_simulated(rank):
    shape = (3,) * min(rank, 4) + (2,) * max(rank - 4, 0)
    mask = numbered(shape) % 3 == 0
    a = numbered([2 * n for n in shape], "f4")[(slice(None, None, 2),) * rank]
    b = np.zeros(shape[-1:], "f4")
    plan = where.where(*layouts(mask, a, b))
    assert set(named(plan)) == {"plain"}
    np.testing.assert_array_equal(sim(plan, mask, a, b), np.where(mask, a, b))
    for swapped in (False, True):
        plan = where.where_number(*layouts(mask, a), swapped=swapped)
        number = np.float32(2.5)
        np.testing.assert_array_equal(
            sim(plan, mask, a, scalars=(2.5,)),
            np.where(mask, number, a) if swapped else np.where(mask, a, number),
        )
    plan = where.where_number(*layouts(mask), swapped=False, dtype=np.dtype("f4"))
    np.testing.assert_array_equal(
        sim(plan, mask, scalars=(2.5, -1)), np.where(mask, number, np.float32(-1))
    )
    x, expected, at = a.copy(), a.copy(), np.array([2, -1, 2])
    expected[at] = 2.5
    sim(index_scatter.scatter_number(*layouts(x, at), axis=0), x, at, scalars=(2.5,))
    np.testing.assert_array_equal(x, expected)
    x = a.copy()
    sim(where.where_into(*layouts(x, mask, b)), x, mask, b)
    np.testing.assert_array_equal(x, np.where(mask, b, a))
    sim(where.where_into(*layouts(x, mask)), x, mask, scalars=(2.5,))
    np.testing.assert_array_equal(x, np.where(mask, np.float32(2.5), a))


@pytest.mark.simulator
@pytest.mark.parametrize("counts", [1, 5, 256, 600])
def test_scan_simulated(counts):
    x = np.append(numbered((counts,), "i8"), -1)
    expected = np.append(0, np.cumsum(x[:-1]))
    radix_sort.scan_counts[1, radix_sort.RADIX_THREADS](x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.simulator
@pytest.mark.parametrize("m, rows", [(1, 1), (5, 70), (1024, 3), (1030, 100)])
def test_sort_simulated(m, rows):
    """Stable: equal keys keep their order; keys out of range come last."""
    positions = np.arange(m) * 7919 % (rows + 1) - 1
    steps, keys, order = scatter_add_sorted.sort_steps(Input(0), m, rows, 0, temps := [])
    plan = Plan([Layout.new((m,), np.dtype("i8"), 0)] * 2, [*steps, *copies(keys, order, m)], temps)
    k, o = sim(plan, positions)
    expected = np.where(positions < 0, rows, positions)
    np.testing.assert_array_equal(o, np.argsort(expected, kind="stable"))
    np.testing.assert_array_equal(k, np.sort(expected))


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("few", [kernels.FEW_SOURCES, 0], ids=["few", "sorted"])
@pytest.mark.parametrize("dtype", ["i1", "f2", "f4", "c8"])
def test_index_add_simulated(dtype, few, monkeypatch):
    monkeypatch.setattr(kernels, "FEW_SOURCES", few)
    x = numbered((3, 5, 4), dtype)[:, :, ::2] if few else numbered((3, 5, 2), dtype)
    for index in ([], [4, 0, -5, 4, 2, -1, 4], [3] * 40):
        values = (np.arange(3 * len(index) * 2).reshape(3, len(index), 2) % 4).astype(dtype)
        index = np.array(index, np.int32)
        expected = x.copy()
        np.add.at(expected, (slice(None), index), values)
        plan = kernels.index_add(*layouts(x, index, values), axis=1)
        assert not index.size or (named(plan) == ["add_few"]) == bool(few)
        np.testing.assert_array_equal(sim(plan, x, index, values), expected)
    if few:
        with pytest.raises(IndexError):
            sim(plan, x, index + 2, values)
    far = with_one_beyond(index)
    plan = kernels.index_add(*layouts(x, far, values), axis=1)
    with pytest.raises(IndexError):
        sim(plan, x, far, values)


@pytest.mark.simulator
def test_long_lines_gradient_simulated():
    """Lines of more steps than a thread takes: sorted by position."""
    m = kernels.FEW_STEPS + 6
    index = (np.arange(2 * m * 2) ** 2 % 5 - 2).reshape(2, m, 2)
    g = numbered((2, m, 2), "f4") % 7
    plan = kernels.take_along_grad(*layouts(g, index), size=5, axis=1)
    assert "along_positions" in named(plan)
    expected = np.zeros((2, 5, 2), "f4")
    for b, j, a in np.ndindex(g.shape):
        expected[b, index[b, j, a], a] += g[b, j, a]
    np.testing.assert_array_equal(sim(plan, g, index), expected)
    for wrong in (index + 5, with_one_beyond(index)):
        with pytest.raises(IndexError):
            sim(plan, g, wrong)


@pytest.mark.simulator
@pytest.mark.parametrize(
    "kind, function", [("max", np.maximum), ("min", np.minimum), ("multiply", np.multiply)]
)
@pytest.mark.parametrize("version", [None, "slices"])
def test_scatter_fold_simulated(kind, function, version):
    index = np.arange(70) ** 2 % 9 - 4
    values = numbered((70, 2), "f4") % 3 + 1
    x = numbered((9, 2), "f4")
    expected = x.copy()
    function.at(expected, index, values)
    with assume((8, 0)):
        plan = kernels.scatter_add(*layouts(x, values, index), axis=0, kind=kind, version=version)
    sim(plan, x, values, index)
    np.testing.assert_array_equal(x, expected)
    with pytest.raises(IndexError):
        sim(plan, x, values, with_one_beyond(index))


@pytest.mark.parametrize("base", ["zeros", "copy", "place"])
@pytest.mark.parametrize(
    "rows, after, m, dtype, chosen",
    [
        (2, 1000, 1024, "f4", "sum_slices"),  # 512 sources a row, a sort takes ten launches
        (7, 33, 5000, "u1", "sum_slices"),
        (10, 1, 100_000, "f4", "sum_slices"),
        (8192, 768, 131_072, "f4", "add_rows"),
        (2048, 768, 131_072, "f4", "sum_chunks"),  # 502 us, by owners 620
        (899_532, 2, 512, "u1", "fold_few"),
        (50_257, 7, 30_000, "f4", "sum_chunks"),
    ],
)
def test_version_of_sums(base, rows, after, m, dtype, chosen):
    """By predicted times: what a row's sources wait for, what is compared, read and sorted."""
    x, v, i = (
        Layout.new(s, np.dtype(t), 0)
        for s, t in (((rows, after), dtype), ((m, after), dtype), ((m,), "i8"))
    )
    with assume((9, 0)):
        plan = {
            "zeros": lambda: kernels.gather_grad(v, i, shape=x.shape, axis=0),
            "copy": lambda: kernels.index_add(x, i, v, axis=0),
            "place": lambda: kernels.scatter_add(x, v, i, axis=0),
        }[base]()
    assert chosen in named(plan), plan.why


def copies(keys, order, m):
    target = Layout.new((m,), np.dtype("i8"), 0)
    sources = (keys, Layout.new((m,), np.dtype("u4"), 0)), (order, target)
    return [
        launch
        for i, (a, vector) in enumerate(sources)
        for launch in copy_part(whole(a, vector), whole(Output(i), target))
    ]


@pytest.mark.simulator
@pytest.mark.parametrize(
    "m, rows, after, dtype",
    [
        (1, 3, 1, "f4"),
        (31, 4, 3, "f4"),
        (32, 1, 2, "f4"),
        (33, 2, 2, "f2"),
        (100, 3, 1, "f4"),
        (70, 40, 2, "f4"),
    ],
)
@pytest.mark.parametrize("version", ["fold", "sorted", "slices"])
def test_scatter_add_simulated(version, m, rows, after, dtype, monkeypatch):
    """Chunks that hold one key, many, the end of one and the start of another, or only the middle
    of a long one; slices of a few sources, and groups of few lanes."""
    for name, value in {"SLICE_THREADS": (64,), "SLICE_AHEAD": 2, "WORTH": 0}.items():
        monkeypatch.setattr(work, name, value)
    monkeypatch.setattr(scatter_add_slices, "SLICE_AHEAD", 2)
    index = np.arange(m) ** 2 % rows - rows * (np.arange(m) % 2)
    g = (numbered((2, m, after)) % 5).astype(dtype)
    expected = np.zeros((2, rows, after))
    np.add.at(np.moveaxis(expected, 1, 0), index, np.moveaxis(g.astype("f8"), 1, 0))
    x = numbered((2, after, rows), dtype).swapaxes(1, 2)
    with assume((8, 0)):
        how = {"axis": 1, "version": version}
        plan = kernels.gather_grad(*layouts(g, index), shape=(2, rows, after), **how)
        copied = kernels.index_add(*layouts(x, index, g), **how)
        how["version"] = "compare" if version == "fold" else version
        in_place = kernels.scatter_add(*layouts(x, g, index), **how)
    np.testing.assert_array_equal(sim(plan, g, index), expected.astype(dtype))
    expected += x
    np.testing.assert_array_equal(sim(copied, x, index, g), expected.astype(dtype))
    sim(in_place, x, g, index)
    np.testing.assert_array_equal(x, expected.astype(dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8"])
@pytest.mark.parametrize(
    "n, m, kind", [(4096, 4096, "i8"), (96, 48, "i4"), (6144, 3072, "u8"), (128, 120, "i1")]
)
def test_rows_brought_to_shared_memory_on_gpu(n, m, kind, dtype):
    with cm.device("cuda"):
        rows, rng = 2 * cm.cuda.devices()[0].multiprocessors + 3, np.random.default_rng(0)
        x = numbered((rows, n), dtype)
        index = rng.integers(
            0 if kind == "u8" else -min(n, 128), min(n, 128) if kind == "i1" else n, (rows, m)
        ).astype(kind)
        ours, places = cm.asarray(x), cm.asarray(index)
        assert named(kernels.take_along(ours._layout, places._layout, axis=1)) == ["along_rows"]
        same(cm.take_along_axis(ours, places, axis=1), np.take_along_axis(x, index.astype("i8"), 1))
        if kind != "i1":
            places[rows - 1, m - 1] = n
            with pytest.raises(IndexError):
                cm.take_along_axis(ours, places, axis=1)
                cm.cuda.synchronize()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f2", cm.bfloat16, "f8", "i4", "c8"])
@pytest.mark.parametrize(
    "rows, columns, m", [(50257, 768, 8192), (7, 33, 5000), (1, 5, 4099), (1000, 1, 100000)]
)
def test_rows_on_gpu(rows, columns, m, dtype):
    """Sizes of an embedding, few rows with many sources, one row, single elements; twice the same
    bits."""
    rng = np.random.default_rng(7)
    index = rng.integers(-rows, rows, m)
    x = (np.arange(rows * columns) % 61).reshape(rows, columns).astype(dtype)
    g = rng.integers(-2, 3, (m, columns)).astype(dtype)
    with cm.device("cuda"):
        same(cm.asarray(x)[index], x[index])
        order = np.argsort(index % rows, kind="stable")
        ends = np.flatnonzero(np.diff((index % rows)[order], append=-1))
        sums = np.add.reduceat(
            g[order].astype("c16" if dtype == "c8" else "f8"), np.append(0, ends[:-1] + 1), axis=0
        )
        expected = np.zeros((rows, columns), sums.dtype)
        expected[(index % rows)[order][ends]] = sums
        once = cm.index_add(cm.zeros((rows, columns), dtype), index, cm.asarray(g)).to_numpy()
        np.testing.assert_array_equal(once, expected.astype(dtype))
        noise = cm.asarray(rng.standard_normal((m, columns)).astype("f4"))
        results = [
            cm.index_add(cm.zeros((rows, columns), "f4"), index, noise).to_numpy() for _ in range(3)
        ]
        assert all(np.array_equal(results[0], r) for r in results[1:])
        y = cm.asarray(x)
        y[index] = g
        expected = x.copy()
        expected[index] = g
        same(y, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "c16"])
@pytest.mark.parametrize(
    "shape, axis", [((50, 512), 0), ((3, 7, 1600), 1), ((5, 12_304), 0), ((2, 9, 4, 768), 1)]
)
def test_long_rows_on_gpu(shape, axis, dtype):
    """A warp for a piece of a row: of one access per lane, of two, of three, pieces that end
    within; several boxes."""
    x, index = (
        numbered(shape, dtype),
        np.random.default_rng(1).integers(-shape[axis], shape[axis], 133),
    )
    with cm.device("cuda"):
        ours, places = cm.asarray(x), cm.asarray(index)
        assert named(kernels.gather(ours._layout, places._layout, axis=axis)) == ["gather_long"]
        same(cm.take(ours, places, axis=axis), np.take(x, index, axis))
        places[17] = shape[axis]
        with pytest.raises(IndexError):
            cm.take(ours, places, axis=axis)
            cm.cuda.synchronize()


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 1023, 1025, 300_000, 3_000_001])
def test_masks_on_gpu(n):
    x = (np.arange(n) * 7919 % 1000).astype("f4")
    with cm.device("cuda"):
        ours = cm.asarray(x)
        same(ours[ours > 500], x[x > 500])
        ours[ours > 900] = -1.0
        x[x > 900] = -1
        same(ours, x)
        ours[ours < 0] = cm.arange(int((x < 0).sum()), dtype="f4")
        x[x < 0] = np.arange((x < 0).sum())
        same(ours, x)


@pytest.mark.parametrize(
    ("shape", "m", "axis"),
    [((5, 300), 261, 1), ((3, 9, 40), 11, 1), ((30, 37), 41, 0), ((7,), 1025, 0)],
    ids=str,
)
@pytest.mark.parametrize("kind", [np.int64, np.uint8], ids=["int64", "uint8"])
def test_take_along_axis_beyond_a_block(device, shape, m, axis, kind):
    rng = np.random.default_rng(2)
    x, n = rng.standard_normal(shape).astype("f4"), shape[axis]
    places = rng.integers(
        0 if kind is np.uint8 else -n, min(n, 255), (*shape[:axis], m, *shape[axis + 1 :])
    ).astype(kind)
    got = cm.take_along_axis(cm.asarray(x), cm.asarray(places), axis=axis)
    np.testing.assert_array_equal(got.to_numpy(), np.take_along_axis(x, places, axis))
    if kind is np.int64:
        for wrong in (n, -n - 1):
            places.flat[-1] = wrong
            with pytest.raises(IndexError):
                cm.take_along_axis(cm.asarray(x), cm.asarray(places), axis=axis).to_numpy()


@pytest.mark.simulator
def test_take_along_several_blocks_simulated():
    x = np.random.default_rng(0).standard_normal((4, 6, 5)).astype("f4")
    places = np.random.default_rng(1).integers(-6, 6, (4, 60, 5))
    plan = kernels.take_along(*layouts(x, places), axis=1)
    np.testing.assert_array_equal(sim(plan, x, places), np.take_along_axis(x, places, 1))
    places[3, 59, 4] = 6
    with pytest.raises(IndexError):
        sim(plan, x, places)


@pytest.mark.simulator
def test_strides_of_axes_of_length_one_are_no_reason_to_copy():
    """A new key of an attention cache, a part of a larger array: one launch."""
    packed = numbered((1, 1, 3 * 8), np.float32)
    given = np.lib.stride_tricks.as_strided(packed, (2, 1, 2, 1, 4), (32, 96, 16, 96, 4))
    target, at = numbered((2, 1, 2, 5, 4), np.float32), np.array([3])
    source = Layout.new(packed.shape, packed.dtype, 0).view(given.shape, given.strides)
    plan = kernels.scatter(*layouts(target), source, *layouts(at), axis=3)
    assert named(plan) == ["assign_few"]
    expected = target.copy()
    expected[:, :, :, at] = given
    sim(plan, target, given, at)
    np.testing.assert_array_equal(target, expected)
