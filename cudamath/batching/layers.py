"""Rules of neural networks' layers.

Samples are independent: the batch of `vmap` becomes a part of the samples' axis. Where parameters
differ from call to call it becomes a part of the channels: a convolution of so many more groups.
"""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.batched import Call, rules
from ..core.dispatch.op import registry
from ..ops.creation import zeros
from ..ops.elementwise import multiply
from ..ops.index import _gather
from ..ops.join import stack
from ..ops.reduce import sum as total
from ..ops.shape import astype, broadcast_to, matrix_transpose, moveaxis
from .rules import folded, iota, line, merged, parted

#: Cards whose inputs all have a sample in each entry of their first axis.
_SAMPLES = """
    avg_pool2d _avg_pool2d_grad avg_pool3d adaptive_pool max_pool2d max_pool3d _max_pool2d_grad
    _max_pool2d_take resize _resize_grad self_attention self_attention_grad one_hot overlap_take
"""
rules.update(dict.fromkeys(_SAMPLES.split(), folded))


rules["max_pool2d (with positions)"] = folded


def _overlapped(call: Call) -> Any:
    shape = call.params["shape"]
    y = call.run(merged(call.all(0)), shape=(call.size * shape[0], *shape[1:]))
    return parted(y, call.size)


rules["overlap_add"] = _overlapped


# -------------------- convolutions


def channels_in(x: ndarray) -> ndarray:
    """(batch, N, C, ...) as (N, batch * C, ...)."""
    x = line(moveaxis(x, 0, 1))
    return x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])


def channels_out(y: ndarray, size: int) -> ndarray:
    """(N, batch * C, ...) as (batch, N, C, ...)."""
    n, c = y.shape[:2]
    return moveaxis(y.reshape(n, size, c // size if size else 0, *y.shape[2:]), 1, 0)


def convolved(call: Call) -> Any:
    """x (N, C, ...) by weights (K, C / groups, ...) and a bias, or the gradient by x."""
    if not any([call.differs(i) for i in range(1, len(call.arrays))]):
        rest = [line(call.one(i)) for i in range(1, len(call.arrays))]
        return parted(call.run(merged(call.all(0)), *rest), call.size)
    groups = call.params["groups"]
    forward = not call.op.name.endswith("input_grad")
    rest = [merged(call.all(i)) for i in range(1, len(call.arrays))]
    if not call.differs(0) and groups == 1 and forward:  # the same images for all weights
        y = call.run(line(call.one(0)), *rest)
    else:
        y = call.run(channels_in(call.all(0)), *rest, groups=groups * call.size)
    return channels_out(y, call.size)


def weight_grad(call: Call) -> Any:
    """Gradients by the weights: of each call its own, as of so many groups."""
    groups = call.params["groups"]
    if not call.differs(1) and groups == 1:
        y = call.run(channels_in(call.all(0)), line(call.one(1)))
    else:
        y = call.run(channels_in(call.all(0)), channels_in(call.all(1)), groups=groups * call.size)
    return parted(y, call.size)


rules.update(
    dict.fromkeys("conv2d _conv2d_input_grad _conv3d _conv3d_input_grad".split(), convolved)
)
rules["_conv2d_weight_grad"] = rules["_conv3d_weight_grad"] = weight_grad


# -------------------- normalisations


def of_channels(call: Call) -> Any:
    """Batch normalisation: statistics and parameters (C,) of each channel; the batch becomes a part
    of the channels."""
    arrays: list[Any] = []
    for i, x in enumerate(call.arrays):
        if x is None:
            arrays.append(None)
        else:
            arrays.append(merged(call.all(i)) if x.ndim == 1 else channels_in(call.all(i)))
    found = call.run(*arrays)

    def back(y: ndarray) -> ndarray:
        return y.reshape(call.size, -1) if y.ndim == 1 else channels_out(y, call.size)

    return tuple([back(y) for y in found]) if isinstance(found, tuple) else back(found)


_CHANNELS = "batch_norm batch_norm_grad batch_norm_residual_grad batch_norm_inference"
rules.update(dict.fromkeys(_CHANNELS.split(), of_channels))


def _beside(parameter: ndarray, x: ndarray, axis: int) -> ndarray:
    """A parameter of each call (batch, *shape), to broadcast with x (batch, ...), where its shape
    begins at an axis."""
    ahead = [1] * (axis - 1)
    behind = [1] * (x.ndim - axis - parameter.ndim + 1)
    return parameter.reshape(parameter.shape[0], *ahead, *parameter.shape[1:], *behind)


def _scaled(call: Call, y: ndarray, weight: int, bias: int | None, axis: int) -> ndarray:
    """y weight + bias, parameters of each call."""
    out = y
    if call.arrays[weight] is not None:
        out = out * _beside(call.all(weight), y, axis)
    if bias is not None and call.arrays[bias] is not None:
        out = out + _beside(call.all(bias), y, axis)
    return astype(out, y.dtype, copy=False)


def of_rows(call: Call) -> Any:
    """Layer and RMS normalisation: x, weight, (bias,) residual -> y, statistics (rows,), (x +
    residual)."""
    parameters = range(1, len(call.arrays) - 1)
    x, residual = line(call.all(0)), line(call.all(len(call.arrays) - 1))
    if any([call.differs(i) for i in parameters]):
        plain = call.run(x, *[None for _ in parameters], residual)
        bias = 2 if len(parameters) > 1 else None
        axis = x.ndim - max(call.arrays[i].ndim for i in parameters if call.arrays[i] is not None)
        y, rest = _scaled(call, plain[0], 1, bias, axis), plain[1:]
    else:
        y, *rest = call.run(x, *[line(call.one(i)) for i in parameters], residual)
    return (y, *[s.reshape(call.size, -1) if s.ndim == 1 else s for s in rest])


def rows_grad(call: Call) -> Any:
    """g, x, weight, (mean,) rstd, extra -> dx + extra, and the sums by weight (and bias) of each
    call."""
    g, x = line(call.all(0)), line(call.all(1))
    weight, *statistics = range(2, len(call.arrays) - 1)
    extra = line(call.all(len(call.arrays) - 1))
    stats = [merged(call.all(i)) for i in statistics]
    biased = call.params.get("biased")
    if call.arrays[weight] is None:
        return call.run(g, x, None, *stats, extra)
    axis = x.ndim - call.arrays[weight].ndim
    scaled = line(astype(g * _beside(call.all(weight), g, axis), g.dtype, copy=False))
    plain = {"biased": False} if biased is not None else {}
    dx = call.run(scaled, x, None, *stats, extra, **plain)[0]
    normal, wide = x, call.arrays[weight].dtype
    sizes = (*x.shape[:axis], *[1] * (x.ndim - axis))
    if len(stats) > 1:
        normal = normal - stats[0].reshape(sizes)
    normal = normal * stats[-1].reshape(sizes)
    rows = tuple(range(1, axis))
    slopes = [astype(total(g * normal, axis=rows), wide, copy=False)]
    if biased:
        slopes.append(astype(total(g, axis=rows), wide, copy=False))
    return (dx, *slopes)


rules["layer_norm"] = rules["rms_norm"] = of_rows
rules["layer_norm_grad"] = rules["rms_norm_grad"] = rows_grad


def of_groups(call: Call) -> Any:
    """Group normalisation: x (N, C, ...), weight, bias (C,) -> y, statistics (N * groups,)."""
    x = merged(call.all(0))
    if call.differs(1) or call.differs(2):
        y, mean, rstd = parted(call.run(x, None, None), call.size)
        return _scaled(call, y, 1, 2, 2), mean, rstd
    return parted(call.run(x, line(call.one(1)), line(call.one(2))), call.size)


def groups_grad(call: Call) -> Any:
    """g, x, weight, mean, rstd -> dx, and the sums by weight and bias of each call."""
    g, x, mean, rstd = call.all(0), call.all(1), merged(call.all(3)), merged(call.all(4))
    groups, biased = call.params["groups"], call.params["biased"]
    weight = call.arrays[2]
    scaled = g
    if weight is not None:
        scaled = astype(g * _beside(call.all(2), g, 2), g.dtype, copy=False)
    dx = parted(call.run(merged(scaled), merged(x), None, mean, rstd, biased=False)[0], call.size)
    axes = (1, *range(3, x.ndim))
    slopes = []
    if weight is not None:
        normal = x.reshape(call.size, x.shape[1], groups, -1)
        sizes = (call.size, x.shape[1], groups, 1)
        normal = (normal - mean.reshape(sizes)) * rstd.reshape(sizes)
        found = total(multiply(g, normal.reshape(x.shape)), axis=axes)
        slopes.append(astype(found, weight.dtype, copy=False))
    if biased:
        kind = x.dtype if weight is None else weight.dtype
        slopes.append(astype(total(g, axis=axes), kind, copy=False))
    return (dx, *slopes)


rules["group_norm"] = of_groups
rules["group_norm_grad"] = groups_grad


# -------------------- attention, products, embeddings


def attended(call: Call) -> Any:
    """q, k, v (B, H, S, D), a mask that broadcasts to (B, H, Sq, Sk), lengths (B,); or the
    gradient of such, with g in front and y and lse behind v."""
    own = 6 if call.op.name == "attention_grad" else 3
    arrays: list[Any] = []
    for i, x in enumerate(call.arrays):
        if x is None:
            arrays.append(None)
        elif i == own and x.ndim == 4 and x.shape[0] == 1:  # one mask for all samples of a call
            if call.differs(i):
                mask = call.all(i)
                mask = broadcast_to(mask, (call.size, call.shape(0)[0], *mask.shape[2:]))
                arrays.append(merged(mask))
            else:
                arrays.append(line(call.one(i)))
        elif i == own and x.ndim < 4:
            mask = call.all(i).reshape(call.size, *[1] * (4 - x.ndim), *x.shape)
            mask = broadcast_to(mask, (call.size, call.shape(0)[0], *mask.shape[2:]))
            arrays.append(merged(mask))
        else:
            arrays.append(merged(call.all(i)))
    return parted(call.run(*arrays), call.size)


rules["scaled_dot_product_attention"] = rules["attention_grad"] = attended


def _affine(call: Call, x: ndarray, weight: int, bias: int | None) -> ndarray:
    """x weight^T + bias, x (batch, ..., k), of parameters that may differ from call to call."""
    inner = x.reshape(x.shape[0], -1, x.shape[-1]) if x.ndim != 3 else x
    y = inner @ matrix_transpose(call.all(weight))
    if bias is not None and call.arrays[bias] is not None:
        y = y + call.all(bias)[:, None]
    return y.reshape(*x.shape[:-1], y.shape[-1])


def _activated(z: ndarray, activation: str) -> ndarray:
    return registry[activation](z) if activation else z


def affine(call: Call) -> Any:
    """activation(x weight^T + bias) + residual."""
    if not call.differs(1) and not call.differs(2):
        return call.run(line(call.all(0)), line(call.one(1)), line(call.one(2)), line(call.all(3)))
    y = _activated(_affine(call, call.all(0), 1, 2), call.params["activation"])
    return y if call.arrays[3] is None else y + call.all(3)


def perceptron(call: Call) -> Any:
    """x, w1, b1, w2, b2, residual -> y, h, z."""
    if not any([call.differs(i) for i in range(1, 5)]):
        rest = [line(call.one(i)) for i in range(1, 5)]
        return call.run(line(call.all(0)), *rest, line(call.all(5)))
    z = _affine(call, call.all(0), 1, 2)
    h = _activated(z, call.params["activation"])
    y = _affine(call, h, 3, 4)
    return y if call.arrays[5] is None else y + call.all(5), h, z


rules["linear"] = affine
rules["mlp"] = rules["mlp (recomputed)"] = perceptron


def embedded(call: Call) -> Any:
    """Rows of a table."""
    if not call.differs(1):
        indices = line(call.all(0))
        y = call.run(indices.reshape(indices.size), line(call.one(1)))
        return y.reshape(*indices.shape, y.shape[1])
    classes = call.params["classes"]
    table = line(call.all(1)[:, :classes])
    if not call.differs(0):
        return _gather(table, line(call.one(0)), axis=1)
    indices = line(call.all(0))
    numbers = iota(call, 1, indices.device)
    return _gather(table, line(numbers + indices * 0), indices, axis=0)


rules["embedding"] = embedded


def turned(call: Call) -> Any:
    """Rotary embeddings: angles broadcast to the rows."""
    x = line(call.all(0))
    angles = []
    for i in (1, 2):
        angle = call.all(i)
        missing = x.ndim - angle.ndim
        angles.append(line(angle.reshape(call.size, *[1] * missing, *angle.shape[1:])))
    return call.run(x, *angles)


rules["rotary_embedding"] = turned


# -------------------- recurrent layers


def _one_by_one(call: Call) -> Any:
    """One call after the other: weights that differ have no common op, and a reserve is of the
    library that made it."""

    def inputs(k: int) -> list[Any]:
        found: list[Any] = []
        for i in range(len(call.arrays)):
            if not call.differs(i):
                found.append(call.one(i))
            elif call.size:
                found.append(call.all(i)[k])
            else:  # of no calls only the shapes are wanted
                found.append(zeros(call.shape(i), call.all(i).dtype, device=call.all(i).device))
        return found

    results = [call.run(*inputs(k)) for k in range(max(call.size, 1))]
    return tuple([stack(list(each))[: call.size] for each in zip(*results, strict=True)])


rules["recurrent_layers"] = rules["recurrent_layers_grad"] = _one_by_one
