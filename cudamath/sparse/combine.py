"""Two sparse arrays, or a sparse and a dense one: elementwise functions and products.

Elements of canonical arrays have ascending keys, so what two arrays store at equal positions is
found by a search of one's keys among the other's. All of it are functions of the values, which
carry their gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..ops.creation import zeros
from ..ops.join import concatenate
from ..ops.masks import flatnonzero
from ..ops.ranges import arange
from ..ops.sets import unique
from ..ops.shape import broadcast_to
from ..ops.where import where
from .structure import expanded, found, index_dtype, keys_of, positions, sizes_of, summed


def _as_pair(x: Any, y: Any) -> tuple[Any, Any]:
    """Both in the compressed format of the first (CSR where it has another), without duplicates."""
    x = x._compressed()._summed()
    return x, y.asformat(x.format)._summed()


def _at(keys: ndarray, own: ndarray, values: ndarray) -> ndarray:
    """The values at these keys: zeros where an array whose own keys these are has none."""
    if not own.size:
        return zeros(keys.size, dtype=values.dtype, device=values.device)
    place, there = found(own, keys)
    return where(there, values[place], zeros((), dtype=values.dtype, device=values.device))


def elementwise(
    x: Any, y: Any, function: Callable[[ndarray, ndarray], ndarray], format: str = "csr"
) -> Any:
    """function(x, y) for arrays of one shape, where function(0, 0) is 0. Zeros are not stored. The
    result has x's format where that is compressed, else the one given, or CSR for COO."""
    if x.ndim == 1:
        rows = elementwise(x.reshape(1, -1), y.reshape(1, -1), function)
        return rows.reshape(-1)
    a, b = _as_pair(x, y)
    one, other = a._keys(), b._keys()
    keys = unique(concatenate([one, other]))
    values = function(_at(keys, one, a.data), _at(keys, other, b.data))
    kept = flatnonzero(values != 0)
    made = a._of_keys(keys[kept], values[kept])
    return made if x.format in ("csr", "csc", "coo") else like(made, x, format)


def like(made: Any, x: Any, format: str) -> Any:
    """An array in a format; in blocks of x's size where x has blocks."""
    blocks = format == x.format == "bsr"
    return made.tobsr(blocksize=x.blocksize) if blocks else made.asformat(format)


def _both(x: Any, y: Any) -> Any:
    """The products of elements at the positions that both arrays store."""
    a, b = _as_pair(x, y)
    keys = a._keys()
    place, there = found(b._keys(), keys)
    kept = flatnonzero(there)
    values = a.data[kept] * b.data[place[kept]]
    nonzero = flatnonzero(values != 0)
    return a._of_keys(keys[kept][nonzero], values[nonzero])


def _two_axes(x: Any) -> Any:
    return x.reshape(1, -1) if x.ndim == 1 else x


def _stretched(x: Any, shape: tuple[int, ...]) -> Any:
    """A sparse array with two axes, broadcast."""
    if x.shape == shape:
        return x
    wrong = [i for i in range(2) if x.shape[i] not in (1, shape[i])]
    if wrong:
        raise ValueError(f"multiply: shapes {x.shape} and {shape} do not broadcast")
    elements = x.tocoo()
    times = [shape[i] if x.shape[i] == 1 else 1 for i in range(2)]
    count, copies = elements.nnz, times[0] * times[1]
    each = arange(count * copies, dtype=np.int64, device=x.device)
    which, source = each // max(count, 1), each % max(count, 1)
    offsets = which // times[1], which % times[1]
    kind = index_dtype(*shape)
    coords = tuple(
        [
            (index[source] + more).astype(kind)
            for index, more in zip(elements.coords, offsets, strict=True)
        ]
    )
    return x.kinds["coo"]._of(elements.data[source], coords, shape)


def multiply(x: Any, y: Any) -> Any:
    """Products of elements; `y` is sparse or dense, and shapes broadcast."""
    made = _products(x, y)
    if x.format == "dia" and (isinstance(y, ndarray) or y.format == "dia"):
        return made if isinstance(made, ndarray) else made.asformat("dia")
    return like(made, x, "bsr") if x.format == "bsr" and not isinstance(y, ndarray) else made


def _products(x: Any, y: Any) -> Any:
    if isinstance(y, ndarray):
        return _times_dense(x, y)
    flat = x.ndim == y.ndim == 1
    if x.shape != y.shape:
        a, b = _two_axes(x), _two_axes(y)
        pairs = list(zip(a.shape, b.shape, strict=True))
        if any(m != n and 1 not in (m, n) for m, n in pairs):
            raise ValueError(f"multiply: shapes {x.shape} and {y.shape} do not broadcast")
        shape = sizes_of("multiply", [n if m == 1 else m for m, n in pairs])
        out = _both(_stretched(a, shape).asformat(a._compressed().format), _stretched(b, shape))
        return out.reshape(-1) if flat else out
    if flat:
        return _both(_two_axes(x), _two_axes(y)).reshape(-1)
    return _both(x, y)


def _times_dense(x: Any, y: ndarray) -> Any:
    """Products of stored elements with those of a dense array, in coordinate format."""
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ValueError(f"multiply: shapes {x.shape} and {y.shape} do not broadcast") from None
    if len(shape) > 2:
        return x.toarray() * y
    full = x if len(shape) == x.ndim else _two_axes(x)
    elements = (full if full.shape == shape else _stretched(_two_axes(full), shape)).tocoo()
    return elements._with_data(elements.data * broadcast_to(y, shape)[elements.coords])


def sparse_product(x: Any, y: Any) -> Any:
    """The product of two sparse arrays: each element of x times the row of y that it meets, then
    the
    sums of equal positions."""
    flat = y.ndim == 1
    a = _two_axes(x)
    b = y.reshape(-1, 1) if flat else y
    format = a.format if a.format in ("csr", "csc", "bsr") else "csr"
    if a.format == b.format == "dia":
        format = "dia"
    rows, others = a.tocsr(), b.tocsr()
    starts = others._indptr[:-1]
    counts = others._indptr[1:] - starts
    owner, place = expanded(starts[rows._indices], counts[rows._indices])
    keys = keys_of(rows._majors()[owner], others._indices[place], b.shape[1])
    keys, values = summed(keys, rows.data[owner] * others.data[place])
    shape = (a.shape[0], b.shape[1])
    kind = index_dtype(*shape)
    made = a.kinds["coo"]._of(values, positions(keys, shape[1], kind), shape, True)
    if x.ndim == 1 and flat:
        return made.sum()
    if x.ndim == 1 or flat:
        return made.reshape(-1)
    if format == "bsr":
        return made.tobsr(blocksize=(a.blocksize[0], b.blocksize[1] if b.format == "bsr" else 1))
    return made.asformat(format)
