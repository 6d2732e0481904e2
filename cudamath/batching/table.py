"""The table of rules: which card is batched how.

Most cards need no entry. Elementwise cards align their operands and broadcast
(`core.batched.elementwise`), reductions count their axes from one, views are views of the physical
array, new arrays are shared by all calls, and what is composed of other functions is batched with
these (`by_kind`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import batched, shapes
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.batched import Call, rules
from ..core.layout import Layout
from ..core.levels import work
from ..ops import reduce
from ..ops.index import _gather
from ..ops.reduction_op import ReductionOp
from ..ops.shape import _broadcast, _window, permute_dims
from ..ops.transfer import _imag, _real
from .rules import Rule, along, broadcast, further, line, refused, stacked, with_first


def reduced(call: Call) -> Any:
    """A reduction, of all but the batch."""
    x, axis = call.all(0), call.params["axis"]
    if call.op.reduction.places and len(axis) != 1:  # a place among all elements of a call
        y = call.run(x.reshape(call.size, -1), axis=(1,), keepdims=False)
        return y.reshape(call.size, *[1] * (x.ndim - 1)) if call.params["keepdims"] else y
    changed: dict[str, Any] = {"axis": further(axis)}
    if "shape" in call.params:  # what its gradient needs of x, which is () where none is recorded
        changed["shape"] = x.shape if x._node is not None else ()
    return call.run(x, **changed)


def by_kind(op: Any) -> Rule:
    """The rule of a card without an entry, by what it is."""
    if isinstance(op, ReductionOp):
        return reduced
    return refused("it has no rule")


rules["*"] = by_kind

_STACKED = """
    cholesky eig eigh eigvals eigvalsh exchanged_rows frexp inv inv_and_sign inverse_values lu
    companion fiedler_companion leslie toeplitz circulant hankel hankel_of_column
    lu_factor lu_solve median_lines nan_quantile order_statistics qr qr_r slogdet
    solve solve_triangular svd svdvals tril trunc_normal average
"""
_ALONG = """
    argpartition argsort cumulative gradient leading log_softmax log_softmax_grad partition softmax
    softmax_grad sort take_along_axis take_along_axis_grad topk power_norm concat
"""
rules.update(dict.fromkeys(_STACKED.split(), stacked))
rules.update(dict.fromkeys(_ALONG.split(), along("axis")))
rules.update(dict.fromkeys("fft_c2c fft_c2r fft_cosines fft_r2c".split(), along("axes")))
rules.update(dict.fromkeys("where where_number".split(), broadcast))
rules["pad"] = with_first(widths=(0, 0))
rules["roll"] = with_first(shifts=0)

_SHAPES = "the shape of its result depends on values, so the calls' results have no common shape"
_CHOOSING = (
    "nonzero chosen distinct distinct_runs count_new combined_rows product_counts product_lengths "
    "product_rows"
)
rules.update(dict.fromkeys(_CHOOSING.split(), refused(_SHAPES)))
rules["linears"] = refused("a program makes it of products that are batched already")


def _crossed(call: Call) -> Any:
    ndim = max([len(call.shape(i)) for i in range(2)])
    return call.run(*[line(x) for x in batched.aligned(call.frame, call.arrays, ndim)])


rules["cross"] = _crossed


def _copied(call: Call) -> Any:
    return call.run(call.all(0))


rules["copy"] = rules["astype"] = _copied


def _counted(call: Call) -> Any:
    count = reduce.count_nonzero(call.all(0), axis=tuple(range(1, call.arrays[0].ndim + 1)))
    return count.reshape(call.size, 1)


rules["count_true"] = _counted


def _unviewed(call: Call) -> Any:
    g = line(call.all(0))
    shape, (seen, strides, offset) = call.params["shape"], call.params["view"]
    size = 1
    for n in shape:
        size *= n
    return call.run(
        g,
        shape=(call.size, *shape),
        view=((call.size, *seen), (size, *strides), offset),
    )


rules["unview"] = _unviewed


# -------------------- in place


def _filled(call: Call) -> Any:
    frame = call.frame
    target = frame.written(call.arrays[0], (), "fill")
    call.run(target)
    return None


def _copied_into(call: Call) -> Any:
    target, source = call.arrays
    into = call.frame.written(target, (source,), "setitem")
    if not call.frame.differs(target):
        call.run(into, call.one(1))
        return None
    call.run(into, *batched.aligned(call.frame, [source], target._layout.ndim))
    return None


def _where_into(call: Call) -> Any:
    target, *rest = call.arrays
    into = call.frame.written(target, rest, "setitem")
    call.run(into, *batched.aligned(call.frame, rest, target._layout.ndim))
    return None


rules["fill"] = _filled
rules["copy_into"] = _copied_into
rules["where_into"] = _where_into


# -------------------- views of physical arrays whose gradient is recorded


def recorded_view(x: ndarray, layout: Layout, offset: int) -> ndarray:
    """A view of a recorded array in another layout, recorded. Axes of step 0 are broadcast axes;
    the rest is a window, whose elements are different ones."""
    own = x._layout
    if layout.dtype != own.dtype:  # parts of complex numbers
        half = offset % own.itemsize
        complex_layout = own.view(layout.shape, layout.strides, 0)
        return (_imag if half else _real)(
            recorded_view(x, complex_layout, offset - half), offset=half
        )
    if not own.contiguous:  # it has no gaps: see Frame._over
        x = permute_dims(x, shapes.axes_by_stride(own.strides))
    repeated = [step == 0 and n > 1 for n, step in zip(layout.shape, layout.strides, strict=True)]
    shape = tuple([1 if r else n for r, n in zip(repeated, layout.shape, strict=True)])
    size = own.itemsize
    view = (shape, tuple([step // size for step in layout.strides]), offset // size)
    here = (shape, layout.strides, offset)
    if shapes.overlaps_itself(shape, layout.strides, size):  # sliding windows
        places = np.full((), view[2])
        for n, step in zip(shape, view[1], strict=True):
            places = places[..., None] + np.arange(n) * step
        flat = x.reshape(x.size)
        return _gather(flat, asarray(places, device=x.device), axis=0)
    out = _window(x, here=here, view=view, shape=x.shape)
    return _broadcast(out, shape=layout.shape, old=shape) if any(repeated) else out


work.recorded_view = recorded_view
