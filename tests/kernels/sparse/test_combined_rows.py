"""The card combined_rows: its kernels and its CPU function beside SciPy's."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import scipy.sparse as sp
from gradient_checks import MACHINES, run_version

from cudamath.cpu.sparse import products as host
from cudamath.kernels.sparse import combined_rows

FUNCTIONS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": lambda x, y: x.multiply(y),
    "maximum": lambda x, y: x.maximum(y),
    "minimum": lambda x, y: x.minimum(y),
    "not_equal": operator.ne,
    "less": operator.lt,
    "greater": operator.gt,
}
#: (columns, lengths of the first matrix's rows, of the second's)
SHAPES = {
    "short rows": (9, [3, 0, 1, 5, 2, 0], [0, 0, 4, 9, 1, 1]),
    "rows in many pieces": (900, [700, 0, 1, 300], [2, 0, 800, 310]),
    "rows without elements": (3, [0] * 3000 + [2], [1] + [0] * 3000),
    "one is empty": (7, [0, 0], [3, 7]),
    "no elements": (4, [0, 0, 0], [0, 0, 0]),
    "no rows": (4, [], []),
}


def matrix(columns, lengths, dtype, index, seed):
    """Few different values, so that many results are zero."""
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(columns, n, replace=False)) for n in lengths]
    indices = np.concatenate([np.zeros(0, int), *rows])
    values = rng.integers(0, 3, indices.size) - (0 if np.dtype(dtype).kind == "u" else 1)
    if np.dtype(dtype).kind == "c":
        values = values * (1 - 2j)
    x = sp.csr_array((len(lengths), columns), dtype=dtype if dtype != "f2" else "f4")
    x.data = values.astype(dtype)
    x.indices, x.indptr = indices.astype(index), np.cumsum([0, *lengths]).astype(index)
    return x


def check(machine, function, shape, dtype, index=np.int32, both=False):
    columns, *lengths = SHAPES[shape]
    a, b = (matrix(columns, each, dtype, index, seed) for seed, each in enumerate(lengths))
    arrays = [part for x in (a, b) for part in (x.data, x.indices, x.indptr)]
    how = {"function": function, "both": both}
    if machine == "host":
        got = host.combined_rows(*arrays, **how)
    else:
        got = run_version(machine, lambda *x: combined_rows.combined_rows(*x, **how), *arrays)
    places, values, starts = got
    stored = starts[-1]
    if dtype == "f2":
        a, b = a.astype("f4"), b.astype("f4")
    expected = sp.csr_array(FUNCTIONS[function](a, b))
    expected.eliminate_zeros()
    expected.sort_indices()
    assert starts.dtype == places.dtype == index
    np.testing.assert_array_equal(starts, expected.indptr)
    np.testing.assert_array_equal(places[:stored], expected.indices)
    np.testing.assert_array_equal(values[:stored], expected.data)
    assert values.dtype == (dtype if dtype == "f2" else expected.dtype)


HOST = [*MACHINES, "host"]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("machine", HOST)
def test_functions(machine, function):
    check(machine, function, "short rows", "f8")
    if function in ("add", "multiply"):
        check(machine, function, "rows in many pieces", "f4", both=function == "multiply")


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f2", "c8", "c16"])
@pytest.mark.parametrize("machine", HOST)
def test_dtypes(machine, dtype):
    check(machine, "add", "short rows", dtype)
    check(machine, "multiply", "short rows", dtype, np.int64, both=True)


@pytest.mark.parametrize("shape", list(SHAPES)[2:])
@pytest.mark.parametrize("machine", HOST)
def test_shapes(machine, shape):
    check(machine, "add", shape, "f4")
    check(machine, "multiply", shape, "f4", both=True)


@pytest.mark.parametrize("machine", HOST)
def test_nan_is_stored(machine):
    """A result that is NaN is none of the zeros that are left out."""
    starts = np.array([0, 2], np.int32)
    columns = np.array([0, 2], np.int32)
    arrays = [np.array([np.nan, 1.0]), columns, starts, np.array([1.0, -1.0]), columns, starts]
    how = {"function": "add", "both": False}
    if machine == "host":
        places, values, ends = host.combined_rows(*arrays, **how)
    else:
        places, values, ends = run_version(
            machine, lambda *x: combined_rows.combined_rows(*x, **how), *arrays
        )
    assert ends.tolist() == [0, 1] and places[0] == 0 and np.isnan(values[0])
