"""An index by which several sums are made is sorted once."""

from __future__ import annotations

import numpy as np
import pytest
from program_comparison import on

import cudamath as cm
from benchmarks.programs import peers
from cudamath.core.dispatch.lazy_import import lazy
from cudamath.kernels.index import scatter_add_sorted
from cudamath.programs import shared_sorts
from cudamath.programs.program import Program
from cudamath.testing import simulate

ROWS, COUNT = 6000, 9000  # more sums than other versions take; zeros that are no small constant


def arrays() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(2)
    x, y = (rng.normal(size=(COUNT, 3)).astype(np.float32) for _ in range(2))
    return x, y, rng.integers(-ROWS, ROWS, COUNT), rng.integers(0, ROWS, COUNT)


def sums(x, y, one, other):
    """Three by an index, of which two are equal, and one by another."""
    zeros = cm.zeros((ROWS, 3), x.dtype)
    a, b = cm.index_add(zeros, one, x), cm.index_add(zeros, one, x * y)
    return a, b + cm.index_add(zeros, one, x), cm.index_add(zeros, other, y)


def by_gradients(x, y, one, other):
    """The gradient of a gather, and a sum."""
    table = y[:ROWS]
    slope = cm.grad(lambda t: (t[one] * x).sum())(table)
    return slope, cm.index_add(cm.zeros_like(table), one, x)


def beside_others(x, y, one, other):
    """Added to what is not zero, along another axis, by an index that is written."""
    places = one.copy()
    a = cm.index_add(y[:ROWS], one, x)
    b = cm.index_add(cm.zeros((3, ROWS), x.dtype), one, x.T, axis=1)
    c = cm.index_add(cm.zeros((ROWS, 3), x.dtype), places, x)
    places[:] = other
    return a, b, c, cm.index_add(cm.zeros((ROWS, 3), x.dtype), places, x)


def spread(x, y, one, other):
    """What each row of a table gets from others: written in place, with weights, without, by one
    vector, and into what is no zeros."""
    table, weight, source = x[:ROWS], y[:, 0], other
    zeros = cm.zeros_like(table)
    a = zeros.at[one].add(table[source] * weight[:, None])
    b = zeros.at[one].add(a[source - ROWS])
    c = cm.zeros(ROWS, x.dtype)
    cm.add_at(c, one, weight * b[:, 0][source])
    return a, b, c, table.at[one].add(b[source])


def kept_rows(x, y, one, other):
    """Rows that are needed beside the sum, or whose table changes before it, are written."""
    table, zeros = x[:ROWS].copy(), cm.zeros((ROWS, 3), x.dtype)
    rows, more = table[other], table[other] * y
    table += 1
    return cm.index_add(zeros, one, rows), cm.index_add(zeros, one, more), rows, table


def compared(function, device: str = "emulated") -> Program:
    """The program on a GPU, emulated by default, whose values are NumPy's in float64, nearly."""
    x, y, one, other = arrays()
    with cm.device("cpu"):
        given = [cm.asarray(a) for a in (x.astype(np.float64), y.astype(np.float64), one, other)]
        wanted = [np.asarray(each) for each in function(*given)]
    with on(device):
        jitted = cm.jit(function)
        for _ in range(3):
            found = jitted(*map(cm.asarray, (x, y, one, other)))
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a.to_numpy(), b, 2e-5, 2e-5)
        (program,) = jitted.programs()
    return program


def names(program: Program) -> list[str]:
    return [node.name for node in program.nodes]


def test_an_index_is_sorted_once() -> None:
    program = compared(sums)
    assert names(program).count("index_add (places)") == 1
    assert names(program).count("index_add (sums)") == 2 and names(program).count("index_add") == 1
    assert "sorts: 2 sums by an index share its sort" in program.notes


def test_gradients_of_gathers_share_it() -> None:
    program = compared(by_gradients)
    assert names(program).count("index_add (places)") == 1
    assert names(program).count("index_add (sums)") == 2


def test_rows_are_read_where_an_index_chooses_them() -> None:
    program = compared(spread)
    assert names(program).count("index_add (chosen sums)") == 3
    assert names(program).count("index_add (places)") == 1
    assert not {"add_at", "copy"} & {*names(program)}
    assert "sums: 4 by an index write into no copy" in program.notes


@pytest.mark.gpu
@pytest.mark.parametrize("function", [sums, by_gradients, spread, kept_rows])
def test_on_a_gpu(function) -> None:
    compared(function, "cuda")


def test_rows_that_others_need_are_written() -> None:
    assert "index_add (chosen sums)" not in names(compared(kept_rows))


def test_what_is_read_or_written_meanwhile_stays_a_write() -> None:
    """What was read before, what is written twice, what is added to itself, and a maximum."""

    def function(x, y, one, other):
        a, b, c, d = (cm.zeros((ROWS, 3), x.dtype) for _ in range(4))
        seen = a[:2] + 1
        cm.add_at(a, one, x)
        cm.add_at(b, one, x)
        cm.add_at(b, other, y)
        c += 1
        cm.add_at(c, one, c[other])
        cm.maximum_at(d, one, x)
        return seen, a, b, c, d

    program = compared(function)
    assert names(program).count("add_at") == 5


def test_other_sums_stay() -> None:
    assert "index_add (places)" not in names(compared(beside_others))


def test_few_sources_are_not_sorted() -> None:
    """Other versions add them."""

    def few(x, one):
        zeros = cm.zeros((ROWS, 3), x.dtype)
        return cm.index_add(zeros, one, x), cm.index_add(zeros, one, x * 2)

    with on("emulated"):
        jitted = cm.jit(few)
        jitted(cm.ones((20, 3)), cm.asarray(np.arange(20)))
        (program,) = jitted.programs()
    assert "index_add (places)" not in names(program)


def test_the_graph_network_sorts_two_indices(monkeypatch) -> None:
    def sorting(package, path):  # its small size has few edges
        return (lambda *_, **__: True) if path.endswith(".sorts") else lazy(package, path)

    monkeypatch.setattr(shared_sorts, "lazy", sorting)
    results = []
    with on("emulated"):
        for kind in (peers.Eager, peers.Jit):
            peer = kind(*peers.small()["graph_network"], "cuda:0")
            results.append([peer.numpy(peer.step()) for _ in range(4)])
        (program,) = peer.run.programs()
    np.testing.assert_allclose(*results, 2e-5)
    assert names(program).count("index_add (places)") == 2 and "index_grad" not in names(program)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_in_the_simulator(dtype: str) -> None:
    rng = np.random.default_rng(4)
    g, places = rng.normal(size=(200, 5)).astype(dtype), rng.integers(-9, 9, 200)
    layouts = [cm.asarray(a, device="cpu")._layout for a in (g, places)]
    keys, order = simulate(scatter_add_sorted.sorted_places(layouts[1], rows=9), places)
    wanted = np.argsort(places % 9, kind="stable")
    np.testing.assert_array_equal(order, wanted)
    np.testing.assert_array_equal(keys, (places % 9)[wanted])
    more = [cm.asarray(a, device="cpu")._layout for a in (keys, order)]
    plan = scatter_add_sorted.sums_of_sorted(layouts[0], *more, shape=(9, 5))
    sums, exact = simulate(plan, g, keys, order), np.zeros((9, 5))
    np.add.at(exact, places, g.astype(np.float64))
    np.testing.assert_allclose(sums, exact, 1e-5 if dtype == "float32" else 1e-13, 1e-6)


@pytest.mark.simulator
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [(), (5,)])
def test_sums_of_chosen_rows_in_the_simulator(dtype: str, scaled: bool, columns: tuple) -> None:
    rng = np.random.default_rng(5)
    table, weights = rng.normal(size=(7, *columns)).astype(dtype), rng.normal(size=200)
    weights = weights.astype(dtype)
    places, index = rng.integers(0, 9, 200), rng.integers(-7, 7, 200)
    places[:80] = 4  # over several chunks
    places[places == 2] = 3  # nothing is added there
    order = np.argsort(places, kind="stable")
    keys = places[order].astype(np.uint32)

    def layout(array):
        return cm.asarray(array, device="cpu")._layout

    plan = scatter_add_sorted.sorted_sources(layout(index), layout(order), rows=7)
    sources = simulate(plan, index, order)
    np.testing.assert_array_equal(sources, (index % 7)[order])
    given = [table, keys, sources, *([weights[order]] if scaled else [])]
    plan = scatter_add_sorted.sums_of_chosen(*map(layout, given), shape=(9, *columns))
    exact = np.zeros((9, *columns))
    chosen = table[index].astype(np.float64)
    if scaled:
        chosen = chosen * weights.reshape(-1, *[1] * len(columns))
    np.add.at(exact, places, chosen)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(simulate(plan, *given), exact, tolerance, tolerance)


@pytest.mark.simulator
def test_a_source_out_of_range_is_an_error() -> None:
    index, order = np.array([0, 7, -7]), np.arange(3)
    layouts = [cm.asarray(a, device="cpu")._layout for a in (index, order)]
    with pytest.raises(IndexError):
        simulate(scatter_add_sorted.sorted_sources(*layouts, rows=7), index, order)


@pytest.mark.simulator
def test_a_place_out_of_range_is_an_error() -> None:
    places = np.array([0, 9, -9])
    layout = cm.asarray(places, device="cpu")._layout
    with pytest.raises(IndexError):
        simulate(scatter_add_sorted.sorted_places(layout, rows=9), places)


def test_sums_by_owner_are_sorted_for_where_several_share_the_sort():
    """Rows that one sum has added by their owners, as a graph network's."""
    from cudamath.core.layout import Layout
    from cudamath.kernels.index.dispatch import sorts
    from cudamath.runtime.device import assume

    values = Layout.new((200_000, 128), np.dtype("f4"), 0)
    index = Layout.new((200_000,), np.dtype("i8"), 0)
    with assume((9, 0)):
        found = [
            sorts("index_grad", values, index, shape=(20_000, 128), sums=sums) for sums in (1, 4)
        ]
    assert found == [False, True]
