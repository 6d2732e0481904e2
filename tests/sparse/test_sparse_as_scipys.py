"""What random programs beside SciPy found: kinds of results, dtypes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.csgraph
from sparse_arrays import dense

import cudamath as cm

D = np.array([[0, 1, 2], [3, 0, 0], [0, 4, 0], [5, 0, 6]])


def both(format: str, array: np.ndarray = D) -> tuple[Any, Any]:
    kind = f"{format}_array"
    return getattr(cm.sparse, kind)(array), getattr(sp, kind)(array)


@pytest.mark.parametrize("format", ["coo", "csr", "csc"])
@pytest.mark.parametrize("key", [([1, 3], [0, 2]), ([], []), (np.array([2, 1, 1]), [1, 0, 0])])
def test_single_positions(format, key):
    """Of COO they are a sparse vector, of the others where there are none."""
    ours, theirs = both(format)
    ours, theirs = ours[key], theirs[key]
    assert cm.sparse.issparse(ours) == sp.issparse(theirs)
    np.testing.assert_array_equal(dense(ours), dense(theirs), strict=True)


def test_a_product_of_vectors_is_an_array_without_axes():
    ours, theirs = (s.coo_array(np.array([2, 0, 3.0])) for s in (cm.sparse, sp))
    product = ours @ ours
    assert isinstance(product, cm.ndarray) and product.shape == (theirs @ theirs).shape == ()
    assert product == 13


@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("f4", "i2"), ("c8", "f4"), ("i4", "i4")])
def test_a_quotient_of_sparse_arrays_has_scipys_dtype(dtypes):
    first, second = (np.array([[2, 1], [4, 3]], dtype) for dtype in dtypes)
    ours = cm.sparse.csr_array(first) / cm.sparse.csr_array(second)
    theirs = sp.csr_array(first) / sp.csr_array(second)
    np.testing.assert_array_equal(ours.to_numpy(), theirs, strict=True)


@pytest.mark.parametrize("shape, axis", [((0, 4), None), ((0, 4), 0), ((3, 0), 1)])
def test_a_mean_of_no_elements_is_an_error(shape, axis):
    for kind in (sp.csr_array, cm.sparse.csr_array):
        with pytest.raises(ZeroDivisionError):
            kind(shape).mean(axis=axis)
    assert (cm.sparse.csr_array((0, 4)).mean(axis=1)).shape == (0,)


def test_booleans_have_no_negative():
    for array in both("csr", D > 0):
        with pytest.raises(NotImplementedError, match="negati"):
            _ = -array


@pytest.mark.parametrize("shape, k", [((0, 4), 1), ((0, 4), 0), ((4, 0), -1), ((0, 0), 0)])
def test_diagonals_without_elements_are_set(shape, k):
    for kind in (sp.csr_array, cm.sparse.csr_array):
        array = kind(shape)
        array.setdiag(5, k)
        assert array.nnz == 0
    for kind in (sp.csr_array, cm.sparse.csr_array):
        with pytest.raises(ValueError):
            kind((3, 3)).setdiag(5, 3)


def test_infinities_and_nan_of_dense_graphs_are_no_edges():
    weights = np.array([[0, 1, np.nan], [np.inf, 0, 2], [3, -np.inf, 0]])
    for name in ("shortest_path", "connected_components", "minimum_spanning_tree"):
        if not hasattr(cm.sparse.csgraph, name):
            continue
        ours = getattr(cm.sparse.csgraph, name)(weights)
        theirs = getattr(scipy.sparse.csgraph, name)(weights)
        if isinstance(theirs, tuple):
            ours, theirs = ours[1], theirs[1]
        np.testing.assert_array_equal(dense(ours), dense(theirs))
    laplacian = cm.sparse.csgraph.laplacian(np.where(weights > 0, weights, 0))
    theirs = scipy.sparse.csgraph.laplacian(np.where(weights > 0, weights, 0))
    np.testing.assert_array_equal(dense(laplacian), dense(theirs))


@pytest.mark.parametrize("ncv, error", [([], TypeError), (4.5, ValueError), ("5", ValueError)])
def test_svds_wants_an_integer(ncv, error):
    with pytest.raises(error, match="^svds: wants .*ncv"):
        cm.sparse.linalg.svds(np.eye(10), k=3, ncv=ncv, solver="arpack")
