"""Where the elements of a sparse array lie: arrays of integers, and what is found out about them.

A position of an array (major, n_minor) has the key major * n_minor + minor. Elements in the order
of their keys without duplicates are *canonical*.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.call_record import open_records, traced
from ..ops.creation import asarray, ones, zeros
from ..ops.elementwise import equal, not_equal
from ..ops.index import take
from ..ops.join import concatenate, stack
from ..ops.masks import flatnonzero
from ..ops.ranges import arange
from ..ops.scan import cumulative_sum
from ..ops.search import searchsorted
from ..ops.sort import argsort
from .products import csr_product, row_starts

Shape = tuple[int, ...]


def index_dtype(*sizes: int) -> np.dtype:
    """The integers of indices: int32 where all sizes allow it, as in SciPy."""
    return np.dtype(np.int32 if max(sizes, default=0) <= np.iinfo(np.int32).max else np.int64)


def sizes_of(name: str, shape: Any, dims: tuple[int, ...] = (2,)) -> Shape:
    """A shape as a tuple of ints; ValueError for negative sizes and numbers of axes not in
    `dims`."""
    try:
        sizes = tuple(int(n) if int(n) == n else -1 for n in shape)
    except TypeError:
        raise TypeError(f"{name}: wants a shape, got {shape!r:.60}") from None
    if len(sizes) not in dims or min(sizes, default=0) < 0:
        kinds = " or ".join(f"{n}-D" for n in dims)
        raise ValueError(
            f"{name}: wants a {kinds} shape of sizes that are not negative, got {shape}"
        )
    if math.prod(sizes) > np.iinfo(np.int64).max:
        raise ValueError(f"{name}: shape {sizes} has more positions than 64-bit integers count")
    return sizes


def as_given(x: Any) -> Any:
    """An array of a device as it is, anything else as NumPy's: indices that come from the host are
    checked there, which waits for no device."""
    on_device = isinstance(x, ndarray) or hasattr(x, "__cuda_array_interface__")
    return x if on_device else np.asarray(x)


def _values(name: str, *numbers: Any) -> list[int] | None:
    """Numbers of the device or the host; None while a program is traced, which has no values."""
    if isinstance(numbers[0], ndarray):
        return None if open_records and traced() else stack(list(numbers)).tolist()
    return [int(n) for n in numbers]


def check_indices(name: str, indices: Any, size: int, axis: int) -> None:
    """ValueError unless all indices lie in 0 .. size - 1. A program that is traced is not
    checked."""
    if indices.size and (ends := _values(name, indices.min(), indices.max())):
        low, high = ends
        if low < 0 or high >= size:
            wrong = low if low < 0 else high
            raise ValueError(
                f"{name}: index {wrong} of axis {axis} is outside 0 .. {size - 1}, the array's "
                f"{size} positions"
            )


def check_starts(name: str, indptr: Any, stored: int) -> None:
    """ValueError unless `indptr` ascends from 0 to the number of stored elements. A program that is
    traced is not checked."""
    steps = indptr[1:] - indptr[:-1]
    ends = indptr[:1].min(), indptr[-1:].min(), (steps if steps.size else indptr).min()
    if values := _values(name, *ends):
        first, last, least = values
        if first != 0 or last != stored or least < 0:
            raise ValueError(
                f"{name}: wants an indptr that ascends from 0 to {stored}, the number of stored "
                f"elements; it goes from {first} to {last} with a least step of {least}"
            )


def keys_of(major: ndarray, minor: ndarray, n_minor: int) -> ndarray:
    """The keys of positions, int64."""
    return major.astype(np.int64) * n_minor + minor


def strictly_ascending(keys: ndarray) -> bool:
    """Whether positions are canonical (waits for the device)."""
    return keys.size < 2 or bool((keys[1:] > keys[:-1]).all())


def positions(keys: ndarray, n_minor: int, dtype: np.dtype) -> tuple[ndarray, ndarray]:
    """(major, minor) of keys."""
    major = keys // max(n_minor, 1)
    return major.astype(dtype), (keys - major * n_minor).astype(dtype)


def segment_sums(values: ndarray, starts: ndarray) -> ndarray:
    """The sums of values[starts[i] : starts[i + 1]], one after another; of booleans whether any is
    true."""
    wide = values.astype(np.int64) if values.dtype.kind == "b" else values
    each = arange(values.size, dtype=starts.dtype, device=values.device)
    one = ones(values.size, dtype=wide.dtype, device=values.device)
    sums = csr_product(one, each, starts, wide.reshape(-1, 1)).reshape(-1)
    return not_equal(sums, 0) if values.dtype.kind == "b" else sums


def summed(keys: ndarray, values: ndarray) -> tuple[ndarray, ndarray]:
    """Keys in order, each once, and the sums of their values."""
    if keys.size:
        order = argsort(keys, stable=True)
        keys, values = keys[order], values[order]
        begins = concatenate([asarray([True], device=keys.device), keys[1:] != keys[:-1]])
        starts = flatnonzero(begins)
        if starts.size < keys.size:
            end = asarray([keys.size], dtype=starts.dtype, device=keys.device)
            keys, values = keys[starts], segment_sums(values, concatenate([starts, end]))
    return keys, values


def found(keys: ndarray, wanted: ndarray) -> tuple[ndarray, ndarray]:
    """Of each wanted key: a place in the ascending `keys`, and whether the key is there."""
    if not keys.size:
        none = zeros(wanted.size, dtype=np.int64, device=wanted.device)
        return none, not_equal(none, 0)
    at = searchsorted(keys, wanted)
    at = at.clip(max=keys.size - 1)
    return at, equal(take(keys, at), wanted)


def expanded(starts: ndarray, counts: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """(owner, place) for every element of the runs starts[i] .. starts[i] + counts[i] - 1, run
    after run, and where each run begins among them, with their number at the end (waits for the
    device, for that number)."""
    begins = cumulative_sum(counts, dtype=np.int64, include_initial=True)
    total = int(begins[-1])
    each = arange(total, dtype=np.int64, device=starts.device)
    owner = searchsorted(begins[1:], each, side="right")
    return owner, each + (starts - begins[:-1])[owner], begins


def compressed(keys: ndarray, shape: Shape, dtype: np.dtype) -> tuple[ndarray, ndarray]:
    """(indices, indptr) of ascending keys in an array (n_major, n_minor)."""
    major, minor = positions(keys, shape[1], dtype)
    return minor, row_starts(major, shape[0])
