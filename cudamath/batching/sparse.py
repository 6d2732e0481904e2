"""Rules of products with sparse matrices.

Where all calls share the matrix, the columns of all calls are columns of one product. Otherwise the
matrices of the calls are the blocks on the diagonal of a large one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.batched import Call, rules
from ..ops.creation import zeros
from ..ops.index import take_along_axis
from ..ops.join import concatenate
from ..ops.shape import moveaxis
from ..ops.where import where
from .rules import iota, line, merged, parted


def _shifted(call: Call, index: int, step: int) -> ndarray:
    """Indices of all calls, (calls, n), as those of one matrix: each call's are further by
    `step`."""
    own = call.all(index)
    wide = np.int64 if step * call.size > np.iinfo(np.int32).max else own.dtype
    each = iota(call, 1, own.device) * step
    return merged(own.astype(wide) + each.astype(wide))


def _starts(call: Call, index: int, stored: int) -> ndarray:
    """`indptr` of all calls' matrices, one below the other."""
    whole = call.all(index)
    wide = np.int64 if stored * call.size > np.iinfo(np.int32).max else whole.dtype
    firsts = whole[:, :-1].astype(wide) + (iota(call, 1, whole.device) * stored).astype(wide)
    end = whole[-1:, -1].astype(wide) + (call.size - 1) * stored
    return concatenate([line(firsts).reshape(-1), end])


def matrix_product(call: Call) -> Any:
    """data, indices, indptr and b (n, k), as products and triangular solutions take them."""
    b = call.all(3)
    if not any([call.differs(i) for i in range(3)]):
        columns = line(moveaxis(b, 0, 1)).reshape(b.shape[1], -1 if b.size else 0)
        matrix = [call.one(i) for i in range(3)]
        more = [None if x is None else call.one(i + 4) for i, x in enumerate(call.arrays[4:])]
        y = call.run(*matrix, columns, *more)
        return moveaxis(y.reshape(y.shape[0], call.size, b.shape[2]), 1, 0)
    width = call.shape(0)[2] if len(call.shape(0)) == 3 else 1
    stored = call.shape(1)[0]
    values = call.all(0)
    if len(call.arrays) > 8 and call.arrays[8] is not None:
        values = take_along_axis(values, call.all(8), axis=1)
    y = call.run(
        merged(values),
        _shifted(call, 1, b.shape[1] // width),
        _starts(call, 2, stored),
        merged(b),
        *[None] * (len(call.arrays) - 4),
    )
    return parted(y, call.size)


def sampled(call: Call) -> Any:
    """rows, columns, indptr, a (m, k) and b (n, k)."""
    stored = call.shape(0)[0]
    a, b = call.all(3), call.all(4)
    y = call.run(
        _shifted(call, 0, a.shape[1]),
        _shifted(call, 1, b.shape[1]),
        _starts(call, 2, stored),
        merged(a),
        merged(b),
    )
    return y.reshape(call.size, stored)


def row_extremes(call: Call) -> Any:
    """data and indptr: the rows of all calls, one below the other."""
    stored = call.shape(0)[0]
    places = call.run(merged(call.all(0)), _starts(call, 1, stored)).reshape(call.size, -1)
    own = places - iota(call, 1, places.device) * stored
    return where(places < 0, places, own)


def row_diagonal(call: Call) -> Any:
    """data, indices and indptr: the rows of all calls, one below the other, and the columns as much
    further, so that the calls' diagonals lie on one."""
    count, rows = call.params["count"], call.shape(2)[0] - 1
    whole = call.run(
        merged(call.all(0)),
        _shifted(call, 1, rows),
        _starts(call, 2, call.shape(0)[0]),
        count=(call.size - 1) * rows + count,
    )
    rest = zeros(rows - count, dtype=whole.dtype, device=whole.device)
    return concatenate([whole, rest]).reshape(call.size, rows)[:, :count]


rules["row_extremes"] = row_extremes
rules["row_diagonal"] = row_diagonal
rules.update(dict.fromkeys("csr_product bsr_product spsolve_triangular".split(), matrix_product))
rules["sampled_product"] = sampled
