"""Calls of sorting, scans, searches and counts that reach every kernel of theirs: a part of
test_compile.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from strategies import FLOATS

import cudamath as cm
from cudamath.kernels.scan import dispatch as scan_dispatch
from cudamath.kernels.sort import dispatch as sort_dispatch
from cudamath.ops.histogram import _bin_sums, _in_range


def ordering(t: np.dtype) -> None:
    """Sorts of short and of long lines, scans along rows and columns, searches, counts."""

    def made(shape: Any) -> cm.ndarray:
        return cm.empty(shape, t)

    x, line = made((40, 70)), made(70_000)
    for array in (x, line):
        (
            cm.cumsum(array, axis=0),
            cm.nancumprod(array, axis=-1),
            cm.sort(array),
            cm.argsort(array, descending=True),
        )
    (
        cm.cumsum(made((200, 20_000)), axis=0),
        cm.cumsum(made((5000, 9)), axis=1),
        cm.cumsum(made((2000, 130, 9)), axis=1),
    )
    columns = scan_dispatch.scan(
        x._layout,
        kind="sum",
        axis=0,
        dtype=np.dtype(int) if t.kind == "b" else t,
        version="columns",
    )
    columns.bind("columns", [x._layout])
    cm.cumsum(made(1 << 26)), cm.nancumprod(made(1 << 26))
    (
        cm.unique(line),
        cm.unique(x),
        cm.nonzero(x),
        cm.nonzero(line),
        cm.argwhere(x),
        x[x != 0],
        line[line != 0],
    )
    cm.sort(line[:4000]), cm.argsort(line[:4000])
    cm.sort(made((300, 2000))), cm.argsort(made((300, 4000)))
    cm.take(x, cm.zeros(9, "int32"), axis=0), cm.take(made((40, 72)), cm.zeros(9, "int32"), axis=0)
    if t.kind in "fcV":
        cm.average(x, weights=x), cm.average(x, 1, x)
    cm.cummax(x, axis=1), cm.cummin(line)
    cm.searchsorted(line, x), cm.searchsorted(line[:9], x, "right")
    cm.isin(x, line), cm.isin(x, line[:9])
    cm.maximum_at(x, cm.zeros(5, "int32"), 1), cm.minimum_at(x, cm.zeros(5, "int32"), 1)
    if t.kind == "c":
        for array in (x, line):
            cm.max(array), cm.min(array, 0), cm.argmax(array), cm.argmin(array, -1)
            cm.nanmax(array), cm.nanmin(array, 0), cm.maximum(array, array), cm.less(array, array)
        return
    plain = sort_dispatch.argsort(line._layout, axis=0, descending=False, version="radix")
    plain.bind("radix", [line._layout])
    cm.nancummin(x, axis=0), cm.nancummax(line)
    cm.unique_counts(x)
    for array in (made(1 << 21), *(line[:n] for n in (2000, 4000, 8000))):
        cm.partition(array, 9), cm.argpartition(array, 9), cm.topk(array, 9), cm.topk(array, 300)
    cm.histogram(x, [0, 1, 3]), cm.histogram(x, 5, (0, 1))
    if t.kind in "biu" or t in ("float32", "float64"):
        _in_range(line[:1000], bins=5), _in_range(line, bins=5), cm.histogram(x, 9000, (0, 1))
    if t.kind != "b":
        cm.digitize(x, line[:9]), cm.digitize(x, line)
    if t.kind in "iu":
        cm.bincount(line), cm.bincount(line, minlength=10_000)
        for minlength in (9, 2000, 20_000):
            for dtype in FLOATS:
                _bin_sums(cm.empty(70_000, dtype), line, bins=minlength)
    if t in FLOATS:
        cm.interp(x, line, line), cm.median(x), cm.median(x, axis=1)
        for method in (
            "linear",
            "lower",
            "higher",
            "midpoint",
            "nearest",
            "averaged_inverted_cdf",
            "closest_observation",
        ):
            cm.nanquantile(x, 0.3, axis=1, method=method)
        cm.nanmedian(x, axis=1), cm.nanmedian(line)
        cm.quantile(x, 0.3, axis=0), cm.median(line), cm.quantile(line, 0.3)
        cm.grad(lambda x: cm.sort(x, axis=1).sum())(x), cm.grad(lambda x: cm.sort(x).sum())(line)
