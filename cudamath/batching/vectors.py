"""Rules of cards that take vectors: histograms, searches, convolutions."""

from __future__ import annotations

from typing import Any

from ..core.batched import Call, rules
from ..ops.creation import zeros
from ..ops.join import concat
from ..ops.shape import broadcast_to
from .rules import iota, line, merged


def counted(call: Call) -> Any:
    """How often each number below `bins` occurs: with other numbers for each call."""
    bins, x = call.params["bins"], line(call.all(0))
    places = x + iota(call, 1, x.device) * bins
    return call.run(places.reshape(x.size), bins=bins * call.size).reshape(call.size, bins)


def summed(call: Call) -> Any:
    """The sums of the weights where x is each number below `bins`."""
    bins, x = call.params["bins"], line(call.all(1))
    places = x + iota(call, 1, x.device) * bins
    y = call.run(merged(call.all(0)), places.reshape(x.size), bins=bins * call.size)
    return y.reshape(call.size, bins)


rules["bincount"] = counted
rules["bin_sums"] = summed


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
