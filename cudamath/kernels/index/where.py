"""Selection by masks: `where`, with arrays or numbers, and in place.

These are the kernels of elementwise operations (elementwise/dispatch.py). Positions and elements
that a mask chooses: stream_compaction.py.
"""

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dtypes import bfloat16, float16
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.storage_types import storage
from ..elementwise.dispatch import launch, result_layout


def _by_value(dtype: np.dtype) -> np.dtype:
    """What a run-time scalar of a dtype is passed as: of 16-bit floats its bits."""
    return storage(dtype) if dtype in (float16, bfloat16) else dtype


@device_function
def _first_if(mask, a, b):
    return a if mask else b


@device_function
def _last_if(x, mask, value):
    return value if mask else x


def where(mask: Layout, a: Layout, b: Layout) -> Plan:
    """mask ? a : b, broadcast; a and b of one dtype."""
    shape = shapes.broadcast_shapes("where", mask.shape, a.shape, b.shape)
    out = result_layout([mask, a, b], shape, a.dtype)
    return Plan([out], [launch(_first_if, (mask, a, b), out, Output(0))])


def where_number(
    mask: Layout, a: Layout | None = None, *, swapped: bool, dtype: np.dtype | None = None
) -> Plan:
    """mask ? a : number, broadcast; swapped: mask ? number : a. Scalar: the number, in a's dtype
    (see `_by_value`). Without an array a: mask ? number : number, of this dtype; scalars: both."""
    if a is None:
        number, out = _by_value(dtype), result_layout([mask], mask.shape, dtype)
        return Plan([out], [launch(_first_if, (mask, number, number), out, Output(0))])
    number = _by_value(a.dtype)
    out = result_layout([mask, a], shapes.broadcast_shapes("where", mask.shape, a.shape), a.dtype)
    return Plan(
        [out],
        [launch(_first_if, (mask, number, a) if swapped else (mask, a, number), out, Output(0))],
    )


def where_into(x: Layout, mask: Layout, value: Layout | None = None) -> Plan:
    """``x = mask ? value : x`` in place; mask and value broadcast to x; x and value of one dtype.
    Without an array of values the scalar is the value, in x's dtype (see `_by_value`)."""
    return Plan(
        [],
        [launch(_last_if, (x, mask, _by_value(x.dtype) if value is None else value), x, Input(0))],
    )
