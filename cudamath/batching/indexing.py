"""Rules of gathers and scatters.

Where the indices differ from call to call, the number of the call is an index more, in front of
them.
"""

from __future__ import annotations

from typing import Any

from ..core import batched
from ..core.array import ndarray
from ..core.batched import Call, rules
from ..core.shapes import normalize_axis
from ..ops.index import _gather, _gather_grad, _index_add, _scatter
from ..ops.shape import broadcast_to, moveaxis
from ..ops.where import where
from .rules import iota, line, refused


def _indices(call: Call, first: int) -> list[ndarray]:
    """The index arrays from input `first` on, the number of the call in front of them."""
    given = [line(call.all(i)) for i in range(first, len(call.arrays))]
    ndim = given[0].ndim - 1
    numbers = iota(call, ndim, given[0].device)
    return [line(numbers + given[0] * 0), *given]


def _differ(call: Call, first: int) -> bool:
    return any([call.differs(i) for i in range(first, len(call.arrays))])


def gathered(call: Call) -> Any:
    """x[..., indices, ...] on neighbouring axes."""
    axis, count = call.params["axis"], len(call.arrays) - 1
    if not _differ(call, 1):
        return call.run(
            line(call.all(0)), *[line(call.one(i + 1)) for i in range(count)], axis=axis + 1
        )
    if not call.differs(0):
        y = call.run(line(call.one(0)), *[line(call.all(i + 1)) for i in range(count)])
        return moveaxis(y, axis, 0)
    x = line(moveaxis(call.all(0), 0, axis))
    return moveaxis(_gather(x, *_indices(call, 1), axis=axis), axis, 0)


def gather_grad(call: Call) -> Any:
    """Zeros of a shape with g added at the indices."""
    axis, shape = call.params["axis"], call.params["shape"]
    if not _differ(call, 1):
        rest = [line(call.one(i)) for i in range(1, len(call.arrays))]
        return call.run(line(call.all(0)), *rest, axis=axis + 1, shape=(call.size, *shape))
    g = line(moveaxis(call.all(0), 0, axis))
    wide = (*shape[:axis], call.size, *shape[axis:])
    return moveaxis(_gather_grad(g, *_indices(call, 1), shape=wide, axis=axis), axis, 0)


rules["index"] = rules["take"] = gathered
rules["index_grad"] = gather_grad
rules |= dict.fromkeys(
    [f"index_add ({part})" for part in ("places", "sums", "sources", "chosen sums")],
    refused("a program makes it of sums that are batched already"),
)


def scattered(call: Call) -> Any:
    """x[..., indices, ...] = values in place, or += and the like. The index arrays are the inputs
    behind the values, where there are any."""
    frame, axis = call.frame, call.params["axis"]
    target = call.arrays[0]
    first = 1 if call.op.name == "index_put_number" else 2
    into = frame.written(target, call.arrays[1:], call.op.name)
    if not frame.differs(target):
        return call.run(into, *[call.one(i) for i in range(1, len(call.arrays))])
    count = len(call.arrays) - first
    shape = (
        *target.shape[:axis],
        *call.shape(first),
        *target.shape[axis + count :],
    )
    values = batched.aligned(frame, call.arrays[1:first], len(shape))
    if not _differ(call, first):
        call.run(
            into,
            *values,
            *[line(call.one(i)) for i in range(first, len(call.arrays))],
            axis=axis + 1,
        )
        return None
    moved = [moveaxis(v, 0, axis) if v.ndim > len(shape) else v for v in values]
    moved = [v if v.ndim > len(shape) else _opened(v, axis, len(shape)) for v in moved]
    call.run(moveaxis(into, 0, axis), *moved, *_indices(call, first), axis=axis)
    return None


def _opened(v: ndarray, axis: int, ndim: int) -> ndarray:
    """Values that all calls share, with an axis for the batch where the target has it."""
    v = v.reshape(*[1] * (ndim - v.ndim), *v.shape)
    return v.reshape(*v.shape[:axis], 1, *v.shape[axis:])


rules["index_put"] = rules["index_put_number"] = rules["add_at"] = scattered


def put_flat(call: Call) -> Any:
    """x[index] = values on a vector; there is one value, or one for each position."""
    frame, target = call.frame, call.arrays[0]
    into = frame.written(target, call.arrays[1:], "put")
    if not frame.differs(target):
        return call.run(into, call.one(1), call.one(2))
    n = target.size
    index = line(call.all(2))
    index = where(index < 0, index + n, index)
    values = line(call.all(1))
    if values.shape[1] != index.shape[1]:
        values = line(broadcast_to(values, index.shape))
    numbers = iota(call, 1, index.device)
    _scatter(into, values, line(numbers + index * 0), index, axis=0)
    return None


rules["put"] = put_flat


def put_along(call: Call) -> Any:
    """x[i, index[i, j, k], k] = values[i, j, k] in place."""
    frame, target = call.frame, call.arrays[0]
    into = frame.written(target, call.arrays[1:], "put_along_axis")
    if not frame.differs(target):
        return call.run(into, *[call.one(i) for i in range(1, len(call.arrays))])
    rest = [line(call.all(i)) for i in range(1, len(call.arrays))]
    return call.run(into, *rest, axis=call.params["axis"] + 1)


rules["put_along_axis"] = put_along


def added(call: Call) -> Any:
    """x with values[..., j, ...] added at index[j] along an axis."""
    axis = normalize_axis("index_add", call.params["axis"], len(call.shape(0)))
    if not call.differs(1):
        return call.run(line(call.all(0)), line(call.one(1)), line(call.all(2)), axis=axis + 1)
    x = moveaxis(call.all(0), axis + 1, 1)
    values = moveaxis(call.all(2), axis + 1, 1)
    n, index = x.shape[1], line(call.all(1))
    places = where(index < 0, index + n, index) + iota(call, 1, index.device) * n
    y = _index_add(
        line(x.reshape(call.size * n, *x.shape[2:])),
        places.reshape(places.size),
        line(values.reshape(places.size, *values.shape[2:])),
        axis=0,
    )
    return moveaxis(y.reshape(x.shape), 1, axis + 1)


rules["index_add"] = added
