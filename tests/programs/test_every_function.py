"""Every function of the records as a program: traced on some numbers, it gives on others what the
function itself gives, bit for bit, with its gradient. What cannot be traced says so."""

from __future__ import annotations

import numpy as np
import optree
import pytest
from records import ROWS

import cudamath as cm
from cudamath.core.array import ndarray

#: Rows whose result has a shape, or a place, that depends on values, or that read them on the CPU.
REFUSED = {
    "nonzero",
    "flatnonzero",
    "argwhere",
    "bincount",
    "unique",
    "unique_values",
    "unique_counts",
    "unique_inverse",
    "unique_all",
    "intersect1d",
    "union1d",
    "setdiff1d",
    "setxor1d",
}


@pytest.fixture(autouse=True)
def cpu():
    with cm.device("cpu"):
        yield


def same(a: object, b: object) -> None:
    """Equal structure, classes, dtypes and bits."""
    (left, form), (right, other) = optree.tree_flatten(a), optree.tree_flatten(b)
    assert form == other
    for x, y in zip(left, right, strict=True):
        assert type(x) is type(y)
        if isinstance(x, (ndarray, np.generic)):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
        else:
            assert x == y


def depends_on_values(row) -> bool:
    """Whether the row cannot be traced."""
    return row.name in REFUSED or "histogram_in_range" in row.cards


def refused(jitted, arrays) -> None:
    """The error names a line of this project's records."""
    with pytest.raises(cm.TraceError, match=r"jit: call .* at .*records.*\.py:\d+: "):
        jitted(*arrays)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row(row) -> None:
    def call(*arrays):
        return row.run(cm, *arrays)

    jitted = cm.jit(call)
    kinds = np.dtype(np.float64)
    first, second = ([cm.array(a) for a in row.arrays(kinds, seed)] for seed in (0, 1))
    if depends_on_values(row):
        refused(jitted, first)
        return
    same(jitted(*first), call(*first))
    same(jitted(*second), call(*second))
    assert jitted.traces == 1


@pytest.mark.parametrize("row", [row for row in ROWS if row.grad], ids=lambda row: row.name)
def test_gradient_of_row(row) -> None:
    arrays = [[cm.array(a) for a in row.arrays(np.dtype(np.float64), seed)] for seed in (0, 1)]
    which = [
        i
        for i, (a, x) in enumerate(zip(row.inputs, arrays[0], strict=True))
        if x.dtype == np.float64 and not getattr(a, "constant", False)
    ]

    def loss(*xs):
        results = optree.tree_leaves(row.run(cm, *xs))
        return sum([cm.sin(y).sum() for y in results if y.dtype.kind == "f"])

    def call(*xs):
        return cm.value_and_grad(loss, which)(*xs)

    jitted = cm.jit(call)
    if depends_on_values(row):
        refused(jitted, arrays[0])
        return
    for inputs in arrays:
        same(jitted(*inputs), call(*inputs))
    assert jitted.traces == 1
