"""Rules of optimizers, of clipped gradients and of quantized numbers."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.batched import Call, rules
from ..core.dispatch.op import registry
from ..ops.elementwise import minimum, sqrt
from ..ops.join import concat
from ..ops.padding import pad
from ..ops.reduce import sum as total
from ..ops.shape import astype, broadcast_to, moveaxis
from ..ops.where import where
from .rules import line, merged, parted, refused


def stepped(call: Call) -> Any:
    """Steps of an optimizer, in place: of each element by itself. Numbers that are arrays (a count
    of steps, a rate, a factor) must be the same for all calls."""
    form = call.params["form"]
    extra = range(len(call.arrays) - form.extra, len(call.arrays))
    if any([call.differs(i) for i in extra]):
        raise TypeError(
            f"{call.op.name}: vmap: lr, factor and the number of steps must not differ from call "
            "to call; multiply the gradients instead, or make the state outside of the mapped "
            "function with None in in_axes"
        )
    written = set(call.op.writes(len(call.arrays), call.params))
    arrays = []
    for i, x in enumerate(call.arrays):
        if i in extra:
            arrays.append(call.one(i))
        elif i in written:
            arrays.append(call.frame.written(x, call.arrays, call.op.name))
        else:
            arrays.append(line(call.all(i)))
    call.run(*arrays)
    return None


_STEPS = "sgd_update|sgd_update (momentum)|adam_update|rmsprop_update|lion_update"
rules.update(dict.fromkeys(_STEPS.split("|"), stepped))


def _norms(call: Call) -> ndarray:
    """The norm of all gradients of each call."""
    wide = "float64" if any(x.dtype == "float64" for x in call.arrays) else "float32"
    squares: Any = 0.0
    for i in range(len(call.arrays)):
        g = astype(call.all(i), wide, copy=False).reshape(call.size, -1)
        squares = squares + total(g * g, axis=1)
    return sqrt(squares)


def clipped(call: Call) -> Any:
    """The norm of all gradients, and of each dtype the scaled ones in one array, each from a
    multiple of 8 on."""
    norm = _norms(call)
    scale = minimum(call.scalars[0] / (norm + 1e-6), 1.0)
    parts: dict[Any, list] = {}
    for i, x in enumerate(call.arrays):
        g = call.all(i).reshape(call.size, -1)
        g = astype(g * scale[:, None], x.dtype)
        parts.setdefault(x.dtype, []).append(pad(g, ((0, 0), (0, -x.size % 8))))
    return (norm, *[concat(part, axis=1) for part in parts.values()])


def factor(call: Call) -> Any:
    """The norm, and the factor that limits it; NaN where the norm is not finite."""
    norm = _norms(call)
    finite = norm < float("inf")
    return norm, where(finite, minimum(call.scalars[0] / (norm + 1e-6), 1.0), float("nan"))


rules["clip_grad_norm"] = clipped
rules["clip_factor"] = factor
rules["unscale"] = refused("it counts steps in the state of one scaler; scale outside of vmap")
rules["linear_loss"] = refused(
    "it writes gradients over scores; inside of vmap linear_cross_entropy is composed of others"
)


# -------------------- quantized numbers


def stored(call: Call) -> Any:
    """Stored numbers by scales, or their values. Scale i is that of `inner` elements, and after the
    last the first follows: the scales of all calls come one after another."""
    x, count = call.all(0), call.arrays[1].size
    packed = call.params["form"] == "int4" and call.op.name == "dequantize"
    run = count * call.params["inner"] // (2 if packed else 1)
    turns = call.arrays[0].size // run
    x = line(moveaxis(x.reshape(call.size, turns, run), 0, 1)).reshape(turns, call.size * run)
    y = call.run(x, *[merged(call.all(i)) for i in range(1, len(call.arrays))])
    y = moveaxis(y.reshape(turns, call.size, -1), 1, 0)
    shape = call.shape(0)
    if shape and y.shape[2] != run:  # two in a byte
        shape = (*shape[:-1], shape[-1] * y.shape[2] // run)
    return y.reshape(call.size, *shape)


def stored_rows(call: Call) -> Any:
    """Rows with scales of their own."""
    return parted(call.run(merged(call.all(0))), call.size)


rules["quantize"] = rules["dequantize"] = stored
rules["quantize (rows)"] = stored_rows


def _same(call: Call, *inputs: int) -> None:
    if any([call.differs(i) for i in inputs]):
        raise TypeError(
            f"{call.op.name}: vmap: a quantized weight must not differ from call to call; "
            "dequantize it"
        )


def packed_affine(call: Call) -> Any:
    """A layer whose quantized weight all calls share."""
    _same(call, 1, 2, 3, 4)
    rest = [call.one(i) for i in range(1, 5)]
    return call.run(line(call.all(0)), *rest, line(call.all(5)))


def affine_8_bits(call: Call) -> Any:
    """The same on 8-bit numbers."""
    _same(call, 1, 2, 3, 4)
    return call.run(line(call.all(0)), *[call.one(i) for i in range(1, 5)])


rules["linear (quantized weight)"] = packed_affine
rules["linear_quantized"] = affine_8_bits


def scaled_product(call: Call) -> Any:
    """(a b) scale_a scale_b + bias, of more rows where b is the same for all calls."""
    if any([call.differs(i) for i in range(1, len(call.arrays)) if i != 2]):
        wide = "int32" if call.arrays[0].dtype == "int8" else "float32"
        y = astype(call.all(0), wide) @ astype(call.all(1), wide)
        y = astype(y, "float32") * call.all(2)[:, :, None] * call.all(3)[:, None, :]
        if len(call.arrays) > 4 and call.arrays[4] is not None:
            y = y + astype(call.all(4), "float32")[:, None, :]
        return astype(y, call.params["dtype"])
    a, by = call.all(0), call.all(2)
    by = broadcast_to(by, a.shape[:2])
    rest = [call.one(i) for i in range(3, len(call.arrays))]
    y = call.run(merged(a), call.one(1), merged(by), *rest)
    return parted(y, call.size)


rules["scaled_matmul"] = scaled_product


def product_slope(call: Call) -> Any:
    """(g weight) f'(z)."""
    if not call.differs(1):
        return call.run(line(call.all(0)), line(call.one(1)), line(call.all(2)))
    g, weight, z = call.all(0), call.all(1), call.all(2)
    h = (g.reshape(call.size, -1, g.shape[-1]) @ weight).reshape(z.shape)
    slope = registry[f"{call.params['activation']}_grad"]
    return slope(h, z)  # type: ignore[call-arg]


rules["product_slope"] = product_slope
