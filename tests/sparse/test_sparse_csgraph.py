"""Graphs beside SciPy's functions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.csgraph as theirs
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_arrays import dense, ours

import cudamath as cm

G = cm.sparse.csgraph
quickly = settings(max_examples=50, deadline=None)


@st.composite
def graphs(draw: Any, low: int = 1, most: int = 9) -> sp.csr_array:
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    weights = rng.integers(low, 9, (n, n)) * (
        rng.random((n, n)) < draw(st.sampled_from([0.1, 0.3]))
    )
    return sp.csr_array(weights.astype(np.float64))


def same_partition(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(((one[:, None] == one) == (other[:, None] == other)).all())


@quickly
@given(graphs(most=25), st.booleans(), st.sampled_from(["weak", "strong"]))
def test_components(x, directed, connection):
    count, labels = G.connected_components(ours(x), directed, connection)
    expected, names = theirs.connected_components(x, directed, connection)
    assert count == expected == G.connected_components(x, directed, connection, return_labels=False)
    assert labels.dtype == np.int32 and same_partition(dense(labels), names)
    if connection == "weak" or not directed:
        np.testing.assert_array_equal(dense(labels), names)


def test_components_of_a_long_path():
    n = 3000
    order = np.random.default_rng(0).permutation(n)
    x = cm.sparse.coo_array((np.ones(n - 1), (order[:-1], order[1:])), shape=(n, n))
    assert G.connected_components(x)[0] == 1
    assert G.connected_components(x, connection="strong")[0] == n


def test_more_nodes_than_16_bits_number():
    """A star, whose last node has one more behind it."""
    n = 70_000
    edges = np.r_[np.zeros(n - 2, int), n - 2], np.r_[1 : n - 1, n - 1]
    x = sp.csr_array((np.ones(n - 1), edges), shape=(n, n))
    for got, expected in zip(
        G.breadth_first_order(ours(x), 0), theirs.breadth_first_order(x, 0), strict=True
    ):
        np.testing.assert_array_equal(dense(got), expected)
    for connection in ("weak", "strong"):
        count, labels = G.connected_components(ours(x), connection=connection)
        expected, names = theirs.connected_components(x, connection=connection)
        assert count == expected == dense(labels).max() + 1
        assert connection == "strong" or (dense(labels) == names).all()
    order = dense(G.reverse_cuthill_mckee(ours(x)))
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


@quickly
@given(graphs(), st.booleans(), st.booleans(), st.booleans())
def test_laplacians(x, normed, use_out_degree, symmetrized):
    options = {"normed": normed, "use_out_degree": use_out_degree, "symmetrized": symmetrized}
    got, diagonal = G.laplacian(ours(x), return_diag=True, **options)
    lap, diag = theirs.laplacian(x, return_diag=True, **options)
    np.testing.assert_allclose(dense(got), dense(lap), atol=1e-12)
    np.testing.assert_allclose(dense(diagonal), diag, atol=1e-12)
    np.testing.assert_allclose(dense(G.laplacian(x.toarray(), **options)), dense(lap), atol=1e-12)
    v = np.arange(3.0 * x.shape[0]).reshape(-1, 3)
    for form in ("function", "lo"):
        applied, diagonal = G.laplacian(ours(x), return_diag=True, form=form, **options)
        np.testing.assert_allclose(dense(diagonal), diag, atol=1e-12)
        np.testing.assert_allclose(dense(applied(v)), lap @ v, atol=1e-10)
        np.testing.assert_allclose(dense(applied(v[:, 1])), lap @ v[:, 1], atol=1e-10)


def test_laplacian_dtypes():
    """The dtype is the result's: integers are normed as floating-point numbers."""
    x = np.array([[0, 1, 0], [4, 2, 0], [0, 0, 0]])
    for dtype, normed in itertools.product((np.int32, np.float32, np.complex128), (False, True)):
        lap, diagonal = G.laplacian(x, normed, True, dtype=dtype)
        exact, diag = theirs.laplacian(x, normed, True, dtype=dtype)
        assert lap.dtype == diagonal.dtype == dtype
        np.testing.assert_allclose(lap.to_numpy(), exact)
        np.testing.assert_allclose(diagonal.to_numpy(), diag)


@quickly
@given(graphs(most=15), st.booleans())
def test_breadth_first(x, directed):
    for start in range(min(3, x.shape[0])):
        nodes, before = G.breadth_first_order(ours(x), start, directed)
        expected, predecessors = theirs.breadth_first_order(x, start, directed)
        if directed:
            np.testing.assert_array_equal(dense(nodes), expected)
            np.testing.assert_array_equal(dense(before), predecessors)
        else:  # which neighbour comes first is not said
            assert set(dense(nodes)) == set(expected)
            reach = theirs.shortest_path(x, directed=False, unweighted=True, indices=start)
            assert (np.diff(reach[dense(nodes)]) >= 0).all()
            for node in dense(nodes)[1:]:
                assert reach[dense(before)[node]] == reach[node] - 1


@quickly
@given(graphs(), st.booleans(), st.booleans())
def test_shortest_paths(x, directed, unweighted):
    expected = theirs.shortest_path(x, "BF", directed, unweighted=unweighted)
    got = G.shortest_path(ours(x), directed=directed, unweighted=unweighted)
    np.testing.assert_array_equal(dense(got), expected)
    np.testing.assert_array_equal(
        dense(G.bellman_ford(x, directed, indices=[0], unweighted=unweighted)), expected[:1]
    )


def test_negative_weights():
    x = sp.csr_array(np.array([[0, 4, 5], [0, 0, -2], [0, 0, 0.0]]))
    np.testing.assert_array_equal(dense(G.bellman_ford(ours(x))), theirs.bellman_ford(x))
    x = sp.csr_array(np.array([[0, 1, 0], [0, 0, -3], [1, 0, 0.0]]))
    with pytest.raises(
        G.NegativeCycleError, match=r"^shortest_path: a cycle of the graph \(3, 3\)"
    ):
        G.shortest_path(ours(x))


@quickly
@given(graphs(most=30))
def test_reverse_cuthill_mckee(x):
    order = dense(G.reverse_cuthill_mckee(ours(x)))
    assert sorted(order) == [*range(x.shape[0])]


def test_reverse_cuthill_mckee_gives_bands():
    n = 200
    shuffled = np.random.default_rng(1).permutation(n)
    line = sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])
    x = line.tocsr()[shuffled][:, shuffled]
    order = dense(G.reverse_cuthill_mckee(ours(x)))
    rows, columns = x[order][:, order].nonzero()
    assert abs(rows - columns).max() == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: G.laplacian(np.ones((2, 3))), ValueError, r"^laplacian: .*\(2, 3\)"),
        (lambda: G.laplacian(np.eye(2), form="x"), ValueError, "^laplacian: wants a form"),
        (lambda: G.connected_components(np.eye(2), connection="x"), ValueError, "^connected_comp"),
        (lambda: G.breadth_first_order(np.eye(2), 5), ValueError, "^breadth_first_order: node 5"),
        (
            lambda: G.shortest_path(np.eye(2), method="FW"),
            NotImplementedError,
            "^shortest_path: has",
        ),
        (
            lambda: G.shortest_path(np.eye(2), indices=[4]),
            ValueError,
            "^shortest_path: wants indices",
        ),
        (
            lambda: G.bellman_ford(np.eye(2), return_predecessors=True),
            NotImplementedError,
            "^bellman_ford: finds no predecessors",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
