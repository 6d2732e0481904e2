"""Two sparse arrays, or a sparse and a dense one: elementwise functions and products.

Where no gradient is recorded, cards compute structure and values at once. Otherwise the structure
is found first, and the values by functions that carry their gradients: elements of canonical arrays
have ascending keys, so what two arrays store at equal positions is found by a search of one's keys
among the other's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.call_record import CHOSE, obstruct
from ..core.dispatch.op import Op
from ..core.dtypes import result_type
from ..kernels.lib.integers import power_of_two
from ..kernels.sparse.sparse_product import SOME, most_products
from ..ops.creation import zeros
from ..ops.elementwise import maximum, minimum
from ..ops.join import concatenate
from ..ops.masks import beginning, flatnonzero
from ..ops.ranges import arange
from ..ops.sets import unique
from ..ops.shape import broadcast_to
from ..ops.where import where
from .structure import expanded, found, index_dtype, keys_of, positions, sizes_of, summed

_combined_rows = Op(
    "combined_rows",
    cpu="sparse.products.combined_rows",
    cuda="sparse.combined_rows.combined_rows",
)
#: Functions of two numbers that this card has.
_COMBINED: dict[Callable, str] = {
    operator.add: "add",
    operator.sub: "subtract",
    operator.mul: "multiply",
    operator.ne: "not_equal",
    operator.lt: "less",
    operator.le: "less_equal",
    operator.gt: "greater",
    operator.ge: "greater_equal",
    maximum: "maximum",
    minimum: "minimum",
}
_OF_COMPLEX = ("add", "subtract", "multiply", "not_equal")


def recorded(*arrays: ndarray) -> bool:
    """Whether a gradient is recorded of any of them, or they are no arrays of one device."""
    return any([x._node is not None or x._layout.device < CPU for x in arrays])


def _at_once(a: Any, b: Any, function: Callable, both: bool) -> Any:
    """A function of two canonical arrays of one format, by one card; None where it has none. both:
    of the elements that both store."""
    name = _COMBINED.get(function)
    dtype = result_type(a.data, b.data)
    kinds = "iufc" if name in _OF_COMPLEX else "iuf"
    if name is None or dtype.kind not in kinds or recorded(a.data, b.data):
        return None
    parts = [(x.data.astype(dtype, copy=False), x._indices, x._indptr) for x in (a, b)]
    indices, data, indptr = _combined_rows(*parts[0], *parts[1], function=name, both=both)
    if data._layout.device == CPU:
        obstruct(CHOSE)
    else:
        stored = (int(indptr[-1]),)
        indices, data = beginning(indices, stored), beginning(data, stored)
    kind = index_dtype(*a.shape, data.size)
    structure = indices.astype(kind, copy=False), indptr.astype(kind, copy=False)
    return a._of(data, *structure, a.shape, True)


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
    made = _at_once(a, b, function, False)
    if made is None:
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
    made = _at_once(a, b, operator.mul, True)
    if made is not None:
        return made
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
    """The product of two sparse arrays."""
    flat = y.ndim == 1
    a = _two_axes(x)
    b = y.reshape(-1, 1) if flat else y
    if a.format == b.format == "csc":
        return sparse_product(b.T, a.T).T
    format = a.format if a.format in ("csr", "csc", "bsr") else "csr"
    if a.format == b.format == "dia":
        format = "dia"
    rows, others = a.tocsr(), b.tocsr()
    made = _by_rows(rows, others)
    if made is None:
        made = _by_sorting(rows, others)
    if x.ndim == 1 and flat:
        return made.toarray().reshape(())
    if x.ndim == 1 or flat:
        return made.reshape(-1)
    if format == "bsr":
        return made.tobsr(blocksize=(a.blocksize[0], b.blocksize[1] if b.format == "bsr" else 1))
    return made.asformat(format)


_product_counts, _product_lengths, _product_rows = (
    Op(name, cpu=f"sparse.products.{name}", cuda=f"sparse.sparse_product.{name}")
    for name in ("product_counts", "product_lengths", "product_rows")
)


def _by_rows(a: Any, b: Any) -> Any:
    """The product of two arrays in CSR by the kernels for rows; None where these cannot compute it:
    gradients are recorded, the numbers are booleans, or a row has too many products."""
    dtype = result_type(a.data, b.data)
    shape = rows, width = a.shape[0], b.shape[1]
    if dtype.kind not in "iufc" or width > np.iinfo(np.int32).max or recorded(a.data, b.data):
        return None
    b = b._summed()
    first, second = (a._indices, a._indptr), (b._indices, b._indptr)
    how: dict[str, Any] = {"width": width, "most": 1}
    chosen: tuple[ndarray, ...] = ()
    if a.data._layout.device != CPU:
        counts = _product_counts(*first, b._indptr)
        products = int(counts.max()) if rows else 0
        how["most"] = power_of_two(min(products, width))
        if how["most"] > most_products(a.data._layout.device, dtype):
            return None
        if products > SOME:
            chosen = flatnonzero(counts <= SOME), flatnonzero(counts > SOME)
    starts = _product_lengths(*first, *second, *chosen, **how).cumsum()
    stored = int(starts[-1])
    data = [x.data.astype(dtype, copy=False) for x in (a, b)]
    columns, values = _product_rows(
        data[0], *first, data[1], *second, starts, *chosen, stored=stored, **how
    )
    kind = index_dtype(*shape, stored)
    made = columns.astype(kind, copy=False), starts.astype(kind, copy=False)
    return a._of(values, *made, shape, True)


def _by_sorting(a: Any, b: Any) -> Any:
    """The product of two arrays in CSR: each element of a times the row of b that it meets, then
    the sums of equal positions."""
    starts = b._indptr[:-1]
    counts = b._indptr[1:] - starts
    owner, place, _ = expanded(starts[a._indices], counts[a._indices])
    keys = keys_of(a._majors()[owner], b._indices[place], b.shape[1])
    keys, values = summed(keys, a.data[owner] * b.data[place])
    shape = (a.shape[0], b.shape[1])
    kind = index_dtype(*shape)
    return a.kinds["coo"]._of(values, positions(keys, shape[1], kind), shape, True)
