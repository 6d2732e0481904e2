"""Arrays without bytes, from which `fuse` learns what a function computes.

A traced array is an ndarray on the device number TRACED; its `_data` is a Symbol: an argument, a
constant, or an op and its operands. Everything before the launch (checks, promotion, broadcasting,
views, recording of gradients) works on it as on any other array, because it only needs layouts.
Where a plan would be bound, a Symbol is made instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import shapes
from .array import ndarray
from .devices import TRACED
from .dtypes import FLOATING, real_dtype
from .layout import Layout

#: The ops, besides elementwise cards and reductions, that can be part of a fused kernel.
FUSIBLE = ("where", "where_number", "copy", "astype")
#: What may look for a number that was found elsewhere: the gradient of a maximum.
EQUALITY = ("x == y", "x != y")
#: Those whose elements are others of the operand, which is an array then: read where they lie.
MOVING = ("roll", "placed")

_IN_PLACE = "fuse: a function that is fused makes new arrays; it changed one in place"
_PART = "fuse: a function that is fused sees arrays whole; it took a part of one of shape {}"


class Symbol:
    """The value of a traced array. `operands`: (Symbol, layout through which it is seen) or a
    Python scalar."""

    __slots__ = ("kind", "layout", "operands", "params")

    def __init__(self, kind: str, layout: Layout, operands: tuple = (), params: Any = None):
        self.kind, self.layout, self.operands, self.params = kind, layout, operands, params

    def __add__(
        self, offset: int
    ) -> Symbol:  # a view of an array adds a byte offset to its address
        if offset:
            raise TypeError(_PART.format(self.layout.shape))
        return self


def traced(symbol: Symbol) -> ndarray:
    """The array whose value a symbol is."""
    out = object.__new__(ndarray)
    out._layout, out._data, out._owner, out._node = symbol.layout, symbol, None, None
    out._base = None
    return out


def argument(shape: tuple[int, ...], dtype: np.dtype, index: int) -> ndarray:
    """The i-th argument of the function that is traced."""
    return traced(Symbol("argument", Layout.new(shape, dtype, TRACED), (), index))


def constant(host: np.ndarray) -> ndarray:
    """A NumPy array of one element as a traced array."""
    if host.size != 1:
        raise no_argument(host)
    return traced(
        Symbol("constant", Layout.new(host.shape, host.dtype, TRACED), (), host.reshape(-1)[0])
    )


def no_argument(x: Any) -> TypeError:
    """The error about an array that is none of the function's arguments."""
    return TypeError(
        f"fuse: all arrays must be arguments; the function brought one of shape {x.shape}"
    )


def operand(x: Any) -> Any:
    """An operand as a Symbol keeps it."""
    return (x._data, x._layout) if isinstance(x, ndarray) else x


class TracedPlan:
    """What a planner returns for traced arrays: nothing to launch, a Symbol to make."""

    def __init__(self, run: Callable):
        self.run = run

    def bind(self, *_: Any) -> Callable:
        return self.run


def elementwise(
    kinds: tuple, expression: str, compute: np.dtype, target: Layout, inplace: bool
) -> TracedPlan:
    """The plan of an elementwise card. kinds: a Layout or a scalar's dtype for each operand; `run`
    gets the arrays first."""
    if inplace:
        raise TypeError(_IN_PLACE)
    scalar = [not isinstance(kind, Layout) for kind in kinds]
    order = sorted(range(len(kinds)), key=scalar.__getitem__)

    def run(*operands: Any) -> ndarray:
        placed = dict(zip(order, map(operand, operands), strict=True))
        return traced(
            Symbol(
                "elementwise",
                target,
                tuple([placed[i] for i in range(len(kinds))]),
                (expression, compute),
            )
        )

    return TracedPlan(run)


def part(x: ndarray, expression: str) -> ndarray:
    """A real number of each complex one, by a scalar expression."""
    layout = x._layout
    target = Layout.new(layout.shape, real_dtype(layout.dtype), TRACED)
    return elementwise((layout,), expression, layout.dtype, target, False).run(x)


def op(name: str, layouts: tuple[Layout | None, ...], params: dict[str, Any]) -> Callable:
    """What any other op runs on traced arrays; TypeError if it is none that can be part of a kernel
    of its neighbours."""
    if name == "fill":
        return _fill
    if name == "unview":
        return _unview(layouts[0], **params)  # type: ignore[arg-type]
    if name == "where_number":
        return _where_number([x for x in layouts if x is not None], **params)
    if name in (*FUSIBLE, *MOVING):
        present = [x for x in layouts if x is not None]
        shape = shapes.broadcast_shapes(name, *[x.shape for x in present])
        dtype = params.get("dtype")
        target = Layout.new(shape, present[-1].dtype if dtype is None else np.dtype(dtype), TRACED)
    elif "kind" in params and "keepdims" in params and layouts[0] is not None:
        axis, keep = params["axis"], params["keepdims"]
        shape = tuple(
            [1 if i in axis else n for i, n in enumerate(layouts[0].shape) if keep or i not in axis]
        )
        target = Layout.new(shape, np.dtype(params["dtype"]), TRACED)
        name = "reduce"
    else:
        raise TypeError(
            f"fuse: {name} is neither elementwise, nor a reduction, nor a roll; call it outside "
            "the fused function"
        )

    def run(*operands: Any) -> ndarray:
        return traced(Symbol(name, target, tuple([operand(x) for x in operands]), params))

    return run


def placed(
    x: ndarray, shape: tuple[int, ...], starts: tuple[int, ...], negative: bool = False
) -> ndarray:
    """An array of zeros of this shape, in which a traced array stands from these indices on.
    negative: zeros are -0.0, to which any number may be added and has its own bits."""
    target = Layout.new(shape, x._layout.dtype, TRACED)
    params = {"starts": starts, "negative": negative}
    return traced(Symbol("placed", target, (operand(x),), params))


def _where_number(layouts: list[Layout], swapped: bool, dtype: np.dtype | None = None) -> Callable:
    """`where` with one number, or two: `run` gets the mask, perhaps an array, and the numbers."""
    shape = shapes.broadcast_shapes("where", *[x.shape for x in layouts])
    target = Layout.new(shape, layouts[-1].dtype if dtype is None else np.dtype(dtype), TRACED)

    def run(*given: Any) -> ndarray:
        arrays, numbers = list(given[: len(layouts)]), given[len(layouts) :]
        kind = target.dtype  # numbers of 16 bits come as these, which kernels take
        host = [
            np.uint16(x).view(kind) if kind.itemsize == 2 and kind in FLOATING else x
            for x in numbers
        ]
        values = [constant(np.asarray(x, kind)) for x in host]
        chosen = [*arrays[1:], *values]
        chosen = chosen[::-1] if swapped else chosen
        return traced(Symbol("where", target, tuple(map(operand, [arrays[0], *chosen]))))

    return run


def _unview(layout: Layout, shape: tuple[int, ...], view: tuple) -> Callable:
    """The gradient of x[:, None] and the like, x of this shape: what was seen is all of x, but for
    axes of length 1."""
    shape_of_view, steps, offset = view
    own = zip(shape, shapes.contiguous_strides(shape, 1), strict=True)
    if offset or [(n, s) for n, s in own if n != 1] != [
        (n, s) for n, s in zip(shape_of_view, steps, strict=True) if n != 1
    ]:
        raise TypeError(_PART.format(shape))
    strides = iter([s for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1])
    target = layout.view(shape, tuple([0 if n == 1 else next(strides) for n in shape]))
    return lambda g: g._view(target)


def _fill(out: ndarray, *halves: int) -> None:
    """A new array filled with one value: a constant, seen through an array of that shape."""
    if isinstance(out._data, Symbol):  # or a view of it, which the value would not reach
        raise TypeError(_IN_PLACE)
    data = np.array(halves, np.uint64).tobytes()[: out.itemsize]
    value = np.frombuffer(data, np.uint8).view(out.dtype)[0]
    out._data = Symbol("constant", out._layout, (), value)
