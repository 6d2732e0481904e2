"""Edges of bins of equal width, in the bits of numpy.linspace."""

import functools
from typing import Any

import numpy as np

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, libdevice
from ..compiler.storage_types import numba_type
from ..lib.rounding import rounded_product


@functools.cache
def edges_between(edge: np.dtype) -> tuple[Any, Any, Any]:
    """Device functions. (low, high) -> the first and the last edge; (first, last, bins) -> (step,
    bins per unit); (i, first, last, step, bins) -> edge i, in the bits of numpy.linspace."""
    E = numba_type(edge)
    product = rounded_product(edge)
    quotient = None if SIMULATOR else libdevice.fdiv_rn if edge == np.float32 else libdevice.ddiv_rn

    @device_function
    def divided(a, b):
        return E(a / b) if SIMULATOR else quotient(a, b)

    @device_function
    def apart(low, high):
        equal = low == high
        return (E(low - E(0.5)), E(high + E(0.5))) if equal else (low, high)

    @device_function
    def steps(first, last, bins):
        width = E(last - first)
        return divided(width, E(bins)), divided(E(bins), width)

    @device_function
    def edge_at(i, first, last, step, bins):
        return last if i == bins else E(product(E(i), step) + first)

    return apart, steps, edge_at


@functools.cache
def write_edges(edge: np.dtype) -> Any:
    """edges = numpy.linspace(first, last, bins + 1), made in float64; counts = 0."""
    E = numba_type(edge)
    steps, edge_at = edges_between(np.dtype(np.float64))[1:]

    @cuda.jit
    def write_edges(
        first, last, edges, counts
    ):  # first, last: float64; edges: (bins + 1,) of E; counts: (bins,) int64
        i = cuda.grid(1)
        bins = counts.size
        if i <= bins:
            edges[i] = E(edge_at(i, first, last, steps(first, last, bins)[0], bins))
        if i < bins:
            counts[i] = 0

    return write_edges
