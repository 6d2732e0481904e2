"""Rules of cards that take vectors: convolutions, searches, histograms, rows in groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.batched import Call, rules
from ..core.dispatch.op import registry
from ..ops.creation import zeros
from ..ops.elementwise import isnan, less, maximum, minimum
from ..ops.index import take_along_axis
from ..ops.join import concat
from ..ops.padding import pad
from ..ops.shape import astype, broadcast_to, flip
from ..ops.sort import sort
from ..ops.stride_tricks import sliding_window_view
from ..ops.where import where
from .rules import iota, line, merged, refused


def slid(call: Call) -> Any:
    """y[k] = sum over i of a[k - before + i] w[i], a being 0 outside; turned: of w backwards."""
    before, after = call.params["before"], call.params["after"]
    a = pad(call.all(0), ((0, 0), (before, after))) if before or after else call.all(0)
    windows = sliding_window_view(a, call.shape(1)[0], axis=1)
    if not call.differs(1):
        w = call.one(1)
        return windows @ (flip(w, axis=0) if call.params["turned"] else w)
    w = call.all(1)
    w = flip(w, axis=1) if call.params["turned"] else w
    return (windows @ w[:, :, None])[..., 0]


rules["convolve"] = slid


# -------------------- searches


def _below(x: ndarray, y: ndarray) -> ndarray:
    """x < y, NaN being the largest."""
    if x.dtype.kind in "biu":
        return less(x, y)
    return less(x, y) | (isnan(y) & ~isnan(x))


def places_in(ordered: ndarray, numbers: ndarray, right: bool) -> ndarray:
    """How many elements of each row are less (right: not greater) than each number of that row:
    by bisection, all numbers at once."""
    n = ordered.shape[1]
    flat = numbers.reshape(numbers.shape[0], -1)
    low = zeros(flat.shape, dtype=np.int64, device=flat.device)
    high = low + n
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        seen = take_along_axis(ordered, minimum(middle, n - 1), axis=1)
        ahead = ~_below(flat, seen) if right else _below(seen, flat)
        open_ = low < high
        low, high = where(open_ & ahead, middle + 1, low), where(open_ & ~ahead, middle, high)
    return low.reshape(numbers.shape)


def searched(call: Call) -> Any:
    """Places of numbers among ordered ones."""
    if not call.differs(0):
        return call.run(line(call.one(0)), line(call.all(1)))
    return places_in(call.all(0), call.all(1), call.params["right"])


def binned(call: Call) -> Any:
    """The bins of numbers, between edges that ascend or descend. Whether those of each call do is
    not looked at."""
    if not call.differs(0):
        return call.run(line(call.one(0)), line(call.all(1)))
    edges, numbers, right = call.all(0), call.all(1), call.params["right"]
    n = edges.shape[1]
    if n < 2:
        return places_in(edges, numbers, not right)
    falls = _below(edges[:, -1], edges[:, 0]).reshape(-1, *[1] * (numbers.ndim - 1))
    up = places_in(edges, numbers, not right)
    return where(falls, n - places_in(flip(edges, axis=1), numbers, not right), up)


def contained(call: Call) -> Any:
    """Whether numbers occur in a vector; NaN occurs nowhere."""
    numbers = call.all(0)
    if not call.differs(1):
        return call.run(line(numbers), line(call.one(1)))
    table = call.all(1)
    invert = call.params["invert"]
    if not table.shape[1]:
        return (zeros(numbers.shape, dtype=bool, device=numbers.device)) | invert
    table = sort(table, axis=1)
    flat = numbers.reshape(numbers.shape[0], -1)
    at = minimum(places_in(table, flat, False), table.shape[1] - 1)
    found = (take_along_axis(table, at, axis=1) == flat).reshape(numbers.shape)
    return ~found if invert else found


def interpolated(call: Call) -> Any:
    """Linear interpolation in float64, between places and values of each call."""
    if not call.differs(1) and not call.differs(2):
        return call.run(line(call.all(0)), line(call.one(1)), line(call.one(2)))
    x, places, values = (astype(call.all(i), np.float64) for i in range(3))
    flat, n = x.reshape(call.size, -1), places.shape[1]
    at = maximum(minimum(places_in(places, flat, True) - 1, n - 2), 0)
    after = minimum(at + 1, n - 1)
    x0, y0 = take_along_axis(places, at, axis=1), take_along_axis(values, at, axis=1)
    x1, y1 = take_along_axis(places, after, axis=1), take_along_axis(values, after, axis=1)
    run = where(x1 == x0, 1, x1 - x0)
    y = y0 + (y1 - y0) / run * (flat - x0)
    y = where(flat == x1, y1, y)
    left, right = call.scalars
    sides = call.params["sides"]
    y = where(flat < places[:, :1], left if sides & 1 else values[:, :1], y)
    y = where(flat > places[:, -1:], right if sides & 2 else values[:, -1:], y)
    y = where(isnan(flat), flat, y)
    return astype(y.reshape(x.shape), call.arrays[0].dtype, copy=False)


rules["searchsorted"] = searched
rules["digitize"] = binned
rules["isin"] = contained
rules["interp"] = interpolated


# -------------------- counts


def counted(call: Call) -> Any:
    """How often each number below `bins` occurs: with other numbers for each call."""
    bins, x = call.params["bins"], line(call.all(0))
    places = x + iota(call, 1, x.device) * bins
    return call.run(places.reshape(x.size), bins=bins * call.size).reshape(call.size, bins)


rules["bincount"] = counted
rules["bin_sums"] = refused("their number is the largest number that occurs")


def _histogram(call: Call, x: ndarray, edges: ndarray) -> ndarray:
    """How many numbers of each row lie in each bin, the last of which has its upper edge."""
    bins = edges.shape[1] - 1
    flat = x.reshape(call.size, -1)
    at = places_in(edges, flat, True) - 1
    at = where(flat == edges[:, -1:], bins - 1, at)
    at = where((at < 0) | (at >= bins) | isnan(flat), bins, at)  # a bin for the others
    places = line(at + iota(call, 1, x.device) * (bins + 1))
    count = registry["bincount"](places.reshape(places.size), bins=(bins + 1) * call.size)
    return count.reshape(call.size, bins + 1)[:, :bins]


def histogram(call: Call) -> Any:
    """Counts between edges."""
    return _histogram(call, call.all(0), call.all(1))


def between(call: Call) -> Any:
    """Counts between two numbers, and the edges."""
    edges = call.run(line(call.all(0)).reshape(-1))[1]
    edges = broadcast_to(edges, (call.size, *edges.shape))
    return _histogram(call, call.all(0), edges), edges


rules["histogram"] = histogram
rules["histogram_between"] = between
rules["histogram_in_range"] = refused(
    "the ends of the bins are read, which differ; give their range or edges"
)


def grouped(call: Call) -> Any:
    """Rows in groups, whose ends are given: those of all calls one after another. A group of zeros
    follows each call's, for rows behind its last end."""
    x, ends = call.all(0), call.all(2)
    rows = x.shape[1]
    last = broadcast_to(iota(call, 1, x.device) * 0 + rows, (call.size, 1))
    ends = concat([ends, last.astype(ends.dtype)], axis=1)
    ends = ends + (iota(call, 1, x.device) * rows).astype(ends.dtype)
    flat = line(ends.reshape(ends.size))
    if call.op.name == "grouped_outer":
        y = call.run(merged(x), merged(call.all(1)), flat)
        y = y.reshape(call.size, -1, *y.shape[1:])
        return y[:, :-1]
    weight = call.all(1)
    none = zeros((call.size, 1, *weight.shape[2:]), dtype=weight.dtype, device=weight.device)
    weight = concat([weight, none], axis=1)
    y = call.run(merged(x), merged(weight), flat)
    return y.reshape(call.size, rows, -1)


rules["grouped_matmul"] = rules["grouped_outer"] = grouped
