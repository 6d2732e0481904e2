"""Rules of optimizers, of clipped gradients, of quantized numbers, and between processes."""

from __future__ import annotations

import math
from typing import Any

from ..core.array import ndarray
from ..core.batched import Call, rules
from ..core.dispatch.op import registry
from ..core.dtypes import compute_dtype
from ..core.specs.optimizer import PLAIN, Form
from ..ops.elementwise import expm1, isnan, minimum, sign, sqrt
from ..ops.join import concat
from ..ops.padding import pad
from ..ops.reduce import sum as total
from ..ops.shape import astype, broadcast_to, moveaxis
from ..ops.where import where
from .rules import line, merged, parted, refused

#: How many states a parameter has.
_STATES = {
    "sgd_update": 0,
    "sgd_update (momentum)": 1,
    "adam_update": 2,
    "rmsprop_update": 1,
    "lion_update": 1,
}


def stepped(call: Call) -> Any:
    """Steps of an optimizer, in place: of each element by itself."""
    form = call.params.get("form", PLAIN)
    extra = range(len(call.arrays) - form.extra, len(call.arrays))
    written = set(call.op.writes(len(call.arrays), call.params))
    targets = {i: call.frame.written(call.arrays[i], call.arrays, call.op.name) for i in written}
    if any([call.frame.differs(call.arrays[i]) for i in extra]):
        _step_by_parts(call, form, targets)
        return None
    call.run(
        *[
            targets[i] if i in written else call.one(i) if i in extra else line(call.all(i))
            for i in range(len(call.arrays))
        ]
    )
    return None


def _step_by_parts(call: Call, form: Form, targets: dict[int, ndarray]) -> None:
    """The same where the rate, the factor or the number of steps differ from call to call: by
    operations of arrays. The formulas are those of kernels/optim/steps.py."""
    states = _STATES[call.op.name]
    last = len(call.arrays) - form.extra
    extra = [call.all(i) for i in range(last, len(call.arrays))]
    lr, decay, *numbers = call.scalars
    factor = extra.pop() if form.factor else None
    lr = extra.pop() if form.rate else lr
    kept = None if factor is None else isnan(factor)  # such a step is left out
    if call.op.name in ("adam_update", "lion_update"):
        decay = 1 - lr * decay
    if call.op.name == "adam_update":
        step = extra[0] + 1
        rest1, rest2 = numbers[1], numbers[3]
        rate = lr / -expm1(step * math.log1p(-rest1)) if rest1 < 1 else lr
        inverse = 1 / sqrt(-expm1(step * math.log1p(-rest2))) if rest2 < 1 else 1.0
        lr, numbers[4] = rate, inverse
        targets[last][...] = step if kept is None else where(kept, extra[0], step)
    count = last // (2 + states + form.copies)
    for i in range(count):
        ours = range(i, last, count)
        p, g = call.all(ours[0]), call.all(ours[1])
        wide = compute_dtype(p.dtype)
        decays = form.decays is None or form.decays[i]
        more = list(numbers)
        undecayed = 0.0 if call.op.name.startswith(("sgd", "rms")) else 1.0
        if call.op.name == "adam_update" and not decays:
            more[0] = 0.0
        values = [_beside(v, p.ndim) for v in (lr, decay if decays else undecayed, *more)]
        g = astype(g, wide, copy=False)
        g = g if factor is None else g * _beside(factor, p.ndim)
        now = [astype(call.all(k), wide, copy=False) for k in (ours[0], *ours[2 : 2 + states])]
        then = _RULES[call.op.name](call.params, g, now, values)
        if kept is not None:
            leave = _beside(kept, p.ndim)
            then = [where(leave, old, new) for old, new in zip(now, then, strict=True)]
        for k, new in zip((ours[0], *ours[2 : 2 + states]), then, strict=True):
            targets[k][...] = new
        if form.copies and ours[-1] in targets:
            targets[ours[-1]][...] = then[0]


def _beside(value: Any, ndim: int) -> Any:
    """A number of each call, to broadcast with a parameter."""
    return value.reshape(-1, *[1] * (ndim - 1)) if isinstance(value, ndarray) else value


def _plain(_params: dict, g: ndarray, now: list, values: list) -> list:
    (p,), (lr, decay, *_) = now, values
    return [p - lr * (g + decay * p)]


def _momentum(params: dict, g: ndarray, now: list, values: list) -> list:
    (p, u), (lr, decay, momentum, *_) = now, values
    d = g + decay * p
    u = momentum * u + d
    return [p - lr * (d + momentum * u if params["nesterov"] else u), u]


def _adam(_params: dict, g: ndarray, now: list, values: list) -> list:
    (p, m, v), (lr, keep, l2, rest1, beta2, rest2, inverse, eps) = now, values
    x = p * keep
    d = g + l2 * x
    m = m + rest1 * (d - m)
    v = beta2 * v + rest2 * (d * d)
    return [x - lr * m / (sqrt(v) * inverse + eps), m, v]


def _rmsprop(_params: dict, g: ndarray, now: list, values: list) -> list:
    (p, v), (lr, decay, alpha, rest, eps, *_) = now, values
    d = g + decay * p
    v = alpha * v + rest * d * d
    return [p - lr * d / (sqrt(v) + eps), v]


def _lion(_params: dict, g: ndarray, now: list, values: list) -> list:
    (p, m), (lr, keep, beta1, rest1, beta2, rest2, *_) = now, values
    return [keep * p - lr * sign(beta1 * m + rest1 * g), beta2 * m + rest2 * g]


_RULES = {
    "sgd_update": _plain,
    "sgd_update (momentum)": _momentum,
    "adam_update": _adam,
    "rmsprop_update": _rmsprop,
    "lion_update": _lion,
}
rules.update(dict.fromkeys(_STATES, stepped))


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
        if call.arrays[4] is not None:
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


# -------------------- between processes

_COLLECTIVES = """
    all_reduce|all_reduce (max, min)|broadcast (processes)|all_gather|reduce_scatter|all_to_all|send
    |recv
"""
rules.update(
    dict.fromkeys(
        [name.strip() for name in _COLLECTIVES.split("|")],
        refused(
            "what processes exchange must not depend on whether one of them maps; call it outside "
            "of vmap"
        ),
    )
)
