"""The card row_extremes: its kernel and its CPU function beside a loop over rows, and its batches;
extremes of sparse arrays along axes beside SciPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from gradient_checks import MACHINES, run_version

import cudamath as cm
from cudamath.cpu.sparse import products as host
from cudamath.kernels.sparse import row_extremes as planners
from cudamath.sparse import reductions
from cudamath.testing import layout_of


def rows_of(dtype, lengths, seed=0):
    """(data, indptr): few different values, so that many are equal; NaN among floats."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 7, sum(lengths)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        data[rng.random(data.size) < 0.2] = np.nan
    return data, np.cumsum([0, *lengths]).astype(np.int32)


def by_loop(data, indptr, largest, skips):
    """By NumPy's max and min of each row; of equal elements the last of the largest ones, the first
    of the smallest."""
    out = []
    for start, end in itertools.pairwise(indptr):
        row = data[start:end]
        if not row.size:
            out.append(-1)
            continue
        numbers = row[row == row]
        if not numbers.size or (numbers.size < row.size and not skips):
            equal = np.flatnonzero(row != row)[-1:]
        else:
            equal = np.flatnonzero(row == (numbers.max() if largest else numbers.min()))
        out.append(start + (equal[-1] if largest else equal[0]))
    return np.array(out)


LENGTHS = ([0, 3, 1, 0, 5, 2], [40, 0, 200, 1, 33], [1, 2, 1, 1, 2], [0, 0])


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("machine", [*MACHINES, "host"])
def test_by_name(machine, dtype):
    for lengths, largest, skips in itertools.product(LENGTHS, (True, False), (True, False)):
        data, indptr = rows_of(dtype, lengths)
        how = {"largest": largest, "skips": skips}
        if machine == "host":
            places = host.row_extremes(data, indptr, **how)
        else:
            places = run_version(
                machine, lambda *a, how=how: planners.row_extremes(*a, **how), data, indptr
            )
        np.testing.assert_array_equal(places, by_loop(data, indptr, largest, skips))


def test_one_launch():
    data, indptr = rows_of("f4", LENGTHS[1])
    plan = planners.row_extremes(layout_of(data), layout_of(indptr), largest=True, skips=False)
    assert len(plan.steps) == 1


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize("dtype", ["i4", "u1", "f4", "f8", "c8"])
def test_beside_scipy(format, dtype, device):
    theirs = scipy.sparse.random_array((30, 20), density=0.2, rng=1, dtype="f8")
    theirs = (theirs * 9 - (4 if dtype != "u1" else 0) * (theirs != 0)).astype(dtype)
    theirs = theirs.asformat(format)
    ours = getattr(cm.sparse, f"{format}_array")(theirs)
    for name, axis in itertools.product(("max", "min", "nanmax", "nanmin"), (0, 1, None)):
        if dtype == "c8" and name.startswith("nan"):
            continue
        a, b = (getattr(x, name)(axis) for x in (ours, theirs))
        if axis is None:
            assert complex(a) == complex(b)
        else:
            np.testing.assert_array_equal(a.toarray().to_numpy(), b.toarray())


def test_batches():
    """The matrices of a batch, one below the other."""
    data = np.stack([rows_of("f8", LENGTHS[0], seed)[0] for seed in range(3)])
    indptr = rows_of("f8", LENGTHS[0])[1]
    how = {"largest": True, "skips": True}

    def places(data, indptr):
        return reductions._row_extremes(data, indptr, **how)

    shared = cm.vmap(places, (0, None))(cm.asarray(data), cm.asarray(indptr))
    own = cm.vmap(places)(cm.asarray(data), cm.asarray(np.stack([indptr] * 3)))
    for ours in (shared, own):
        expected = [by_loop(each, indptr, **how) for each in data]
        np.testing.assert_array_equal(ours.to_numpy(), expected)
