"""Other dtypes, dimensions, layouts and options of common calls, which take other paths through the
code.
"""

from __future__ import annotations

from .arguments import Function, Pair, named, same

#: What is asked of every dtype. Sums of narrow integers are int64 in both libraries.
OF_ANY: dict[str, Function] = {
    "{0} + {0}": lambda lib, x: x + x,
    "{0} * 2": lambda lib, x: x * 2,
    "{0} > {0}": lambda lib, x: x > x,
    "{0} == 1": lambda lib, x: x == 1,
    "{0}.sum()": lambda lib, x: x.sum(),
    "{0}.sum(0)": lambda lib, x: x.sum(0),
    "{0}.max()": lambda lib, x: x.max(),
    "maximum({0}, {0})": lambda lib, x: lib.maximum(x, x),
    "{0}.T.reshape(-1)": lambda lib, x: x.T.reshape(-1),
    "{0}[1:3] = 1": lambda lib, x: x.__setitem__(slice(1, 3), 1),
    "zeros_like({0})": lambda lib, x: lib.zeros_like(x),
    "abs({0})": lambda lib, x: abs(x),
}
OF_FLOATS: dict[str, Function] = {
    "{0} / {0}": lambda lib, x: x / x,
    "{0} * 0.5": lambda lib, x: x * 0.5,
    "{0}.mean()": lambda lib, x: x.mean(),
    "{0}.mean(1)": lambda lib, x: x.mean(1),
    "exp({0})": lambda lib, x: lib.exp(x),
    "sqrt({0})": lambda lib, x: lib.sqrt(x),
    "{0} @ {0}": lambda lib, x: x @ x,
    "var({0})": lambda lib, x: lib.var(x),
    "isnan({0})": lambda lib, x: lib.isnan(x),
    "-{0}": lambda lib, x: -x,
    "{0} ** 2": lambda lib, x: x**2,
    "clip({0}, 0.2, 0.8)": lambda lib, x: lib.clip(x, 0.2, 0.8),
}
OF_INTEGERS: dict[str, Function] = {
    "{0} // 2": lambda lib, x: x // 2,
    "{0} % 3": lambda lib, x: x % 3,
    "{0} & 3": lambda lib, x: x & 3,
    "{0} << 1": lambda lib, x: x << 1,
    "{0} >> 1": lambda lib, x: x >> 1,
    "{0} / 2": lambda lib, x: x / 2,
    "clip({0}, 2, 5)": lambda lib, x: lib.clip(x, 2, 5),
    "{0}.min()": lambda lib, x: x.min(),
}


def of(name: str, function: Function) -> Pair:
    """A function of the library and of the array of this name."""
    return same(lambda lib, x: function(lib, getattr(x, name)))


CALLS: dict[str, Pair] = {
    title.format(name): of(name, function)
    for names, functions in (
        (("half", "brain", "double", "whole", "short"), OF_ANY),
        (("half", "brain", "double"), OF_FLOATS),
        (("whole", "short"), OF_INTEGERS),
    )
    for name in names
    for title, function in functions.items()
}
CALLS |= {
    f"{activation}({name})": named(activation, name, space="ml", theirs="nn.functional")
    for name in ("half", "brain")
    for activation in ("relu", "gelu", "silu")
}
for _name in ("half", "brain", "double", "turned", "v"):
    for _softmax in ("softmax", "log_softmax"):
        CALLS[f"{_softmax}({_name})"] = (
            named(_softmax, _name, space="ml")[0],
            named(_softmax, _name, more=(-1,))[1],
        )
CALLS |= {
    # dtypes that meet, and casts
    "half + a": same(lambda lib, x: x.half + x.a),
    "whole * a": same(lambda lib, x: x.whole * x.a),
    "a * mask": same(lambda lib, x: x.a * x.mask),
    "mask + mask": same(lambda lib, x: x.mask + x.mask),
    "mask.sum()": same(lambda lib, x: x.mask.sum()),
    "mask.sum(1)": same(lambda lib, x: x.mask.sum(1)),
    "mask & mask": same(lambda lib, x: x.mask & x.mask),
    "mask | mask": same(lambda lib, x: x.mask | x.mask),
    "mask ^ mask": same(lambda lib, x: x.mask ^ x.mask),
    "mask == mask": same(lambda lib, x: x.mask == x.mask),
    "where(mask, half, half)": same(lambda lib, x: lib.where(x.mask, x.half, x.half)),
    "where(mask, whole, 0)": same(lambda lib, x: lib.where(x.mask, x.whole, 0)),
    "a.astype(float64)": (lambda lib, x: x.a.astype("float64"), lambda lib, x: x.a.to(lib.float64)),
    "a.astype(bfloat16)": (
        lambda lib, x: x.a.astype(lib.bfloat16),
        lambda lib, x: x.a.to(lib.bfloat16),
    ),
    "a.astype(int32)": (lambda lib, x: x.a.astype(lib.int32), lambda lib, x: x.a.to(lib.int32)),
    "half.astype(float32)": (
        lambda lib, x: x.half.astype(lib.float32),
        lambda lib, x: x.half.float(),
    ),
    "whole.astype(float32)": (
        lambda lib, x: x.whole.astype("float32"),
        lambda lib, x: x.whole.float(),
    ),
    "mask.astype(float32)": (
        lambda lib, x: x.mask.astype("float32"),
        lambda lib, x: x.mask.float(),
    ),
    "a.astype(bool)": (lambda lib, x: x.a.astype(bool), lambda lib, x: x.a.bool()),
    "bytes / 255": same(lambda lib, x: x.bytes / 255),
    "bytes.astype(float32)": (
        lambda lib, x: x.bytes.astype("float32"),
        lambda lib, x: x.bytes.float(),
    ),
    "bytes + bytes": same(lambda lib, x: x.bytes + x.bytes),
    "bytes.sum()": same(lambda lib, x: x.bytes.sum()),
    "bytes > 100": same(lambda lib, x: x.bytes > 100),
    "whole.mean()": (lambda lib, x: x.whole.mean(), lambda lib, x: x.whole.double().mean()),
    "sqrt(whole)": same(lambda lib, x: lib.sqrt(x.whole)),
    "whole.prod()": same(lambda lib, x: x.whole[0].prod()),
    "sort(whole)": same(lambda lib, x: lib.sort(x.whole)),
    "cumsum(whole, 0)": same(lambda lib, x: lib.cumsum(x.whole, 0)),
    "whole[places]": same(lambda lib, x: x.whole[x.places]),
    "half[places]": same(lambda lib, x: x.half[x.places]),
    "half.sum(), float32": (
        lambda lib, x: x.half.sum(dtype="float32"),
        lambda lib, x: x.half.sum(dtype=lib.float32),
    ),
    "a.sum(), float64": (
        lambda lib, x: x.a.sum(dtype="float64"),
        lambda lib, x: x.a.sum(dtype=lib.float64),
    ),
    "a.mean(1), float64": (
        lambda lib, x: x.a.mean(1, dtype="float64"),
        lambda lib, x: x.a.mean(1, dtype=lib.float64),
    ),
    "waves.sum()": same(lambda lib, x: x.waves.sum()),
    "waves * waves": same(lambda lib, x: x.waves * x.waves),
    "waves @ waves": same(lambda lib, x: x.waves @ x.waves),
    "exp(waves)": same(lambda lib, x: lib.exp(x.waves)),
    "ones_like(a, int64)": (
        lambda lib, x: lib.ones_like(x.a, dtype="int64"),
        lambda lib, x: lib.ones_like(x.a, dtype=lib.int64),
    ),
    # no dimensions, no elements
    "number + number": same(lambda lib, x: x.number + x.number),
    "number * 2.0": same(lambda lib, x: x.number * 2.0),
    "a * number": same(lambda lib, x: x.a * x.number),
    "number - a": same(lambda lib, x: x.number - x.a),
    "exp(number)": same(lambda lib, x: lib.exp(x.number)),
    "number > 0": same(lambda lib, x: x.number > 0),
    "where(number > 0, a, b)": same(lambda lib, x: lib.where(x.number > 0, x.a, x.b)),
    "number.reshape(1)": same(lambda lib, x: x.number.reshape(1)),
    "float(number)": same(lambda lib, x: float(x.number)),
    "stack([number, number])": same(lambda lib, x: lib.stack([x.number, x.number])),
    "nothing + nothing": same(lambda lib, x: x.nothing + x.nothing),
    "nothing * 2.0": same(lambda lib, x: x.nothing * 2.0),
    "nothing.sum()": same(lambda lib, x: x.nothing.sum()),
    "nothing @ a": same(lambda lib, x: x.nothing @ x.a),
    "concat([nothing, a])": (
        lambda lib, x: lib.concat([x.nothing, x.a]),
        lambda lib, x: lib.cat([x.nothing, x.a]),
    ),
    "exp(nothing)": same(lambda lib, x: lib.exp(x.nothing)),
    # one dimension
    "v + v": same(lambda lib, x: x.v + x.v),
    "v * 2.0": same(lambda lib, x: x.v * 2.0),
    "v.sum()": same(lambda lib, x: x.v.sum()),
    "v.mean()": same(lambda lib, x: x.v.mean()),
    "v.max()": same(lambda lib, x: x.v.max()),
    "v.argmax()": same(lambda lib, x: x.v.argmax()),
    "v.std()": same(lambda lib, x: x.v.std()),
    "v @ v": same(lambda lib, x: x.v @ x.v),
    "v @ a": same(lambda lib, x: x.v @ x.a),
    "v[3]": same(lambda lib, x: x.v[3]),
    "v[1:]": same(lambda lib, x: x.v[1:]),
    "v[1:] - v[:-1]": same(lambda lib, x: x.v[1:] - x.v[:-1]),
    "v[::-1]": (lambda lib, x: x.v[::-1], lambda lib, x: lib.flip(x.v, (0,))),
    "v[:, None] * v": same(lambda lib, x: x.v[:, None] * x.v),
    "v[v > 0.5]": same(lambda lib, x: x.v[x.v > 0.5]),
    "sort(v)": same(lambda lib, x: lib.sort(x.v)),
    "flip(v)": (lambda lib, x: lib.flip(x.v), lambda lib, x: lib.flip(x.v, (0,))),
    "exp(v) / exp(v).sum()": same(lambda lib, x: lib.exp(x.v) / lib.exp(x.v).sum()),
    # three dimensions
    "lines + lines": same(lambda lib, x: x.lines + x.lines),
    "lines + v": same(lambda lib, x: x.lines + x.v),
    "lines * channels[:, None]": same(lambda lib, x: x.lines * x.channels[:, None]),
    "lines.sum(-1)": same(lambda lib, x: x.lines.sum(-1)),
    "lines.sum(1)": same(lambda lib, x: x.lines.sum(1)),
    "lines.sum((0, 2))": same(lambda lib, x: x.lines.sum((0, 2))),
    "lines.mean((0, 2), keepdims)": (
        lambda lib, x: x.lines.mean((0, 2), keepdims=True),
        lambda lib, x: x.lines.mean((0, 2), keepdim=True),
    ),
    "lines @ a": same(lambda lib, x: x.lines @ x.a),
    "lines @ lines.swapaxes(1, 2)": same(lambda lib, x: x.lines @ x.lines.swapaxes(1, 2)),
    "lines.reshape(4, -1)": same(lambda lib, x: x.lines.reshape(4, -1)),
    "lines[:, 0]": same(lambda lib, x: x.lines[:, 0]),
    "lines[..., 0]": same(lambda lib, x: x.lines[..., 0]),
    "lines[:, :, places]": same(lambda lib, x: x.lines[:, :, x.places]),
    "max(lines, 1)": (lambda lib, x: lib.max(x.lines, axis=1), lambda lib, x: lib.amax(x.lines, 1)),
    "argmax(lines, 1)": (
        lambda lib, x: lib.argmax(x.lines, axis=1),
        lambda lib, x: lib.argmax(x.lines, 1),
    ),
    "softmax(lines, 1)": (
        lambda lib, x: lib.ml.softmax(x.lines, 1),
        lambda lib, x: lib.softmax(x.lines, 1),
    ),
    "lines.transpose(2, 0, 1)": (
        lambda lib, x: x.lines.transpose(2, 0, 1),
        lambda lib, x: x.lines.permute(2, 0, 1),
    ),
    "copy of lines.transpose(2, 0, 1)": (
        lambda lib, x: x.lines.transpose(2, 0, 1).copy(order="C"),
        lambda lib, x: x.lines.permute(2, 0, 1).contiguous(),
    ),
    "cumsum(lines, 1)": same(lambda lib, x: lib.cumsum(x.lines, 1)),
    "concat([lines, lines], 1)": (
        lambda lib, x: lib.concat([x.lines, x.lines], axis=1),
        lambda lib, x: lib.cat([x.lines, x.lines], 1),
    ),
    "images.sum((0, 2, 3))": same(lambda lib, x: x.images.sum((0, 2, 3))),
    "images * channels[:, None, None]": same(lambda lib, x: x.images * x.channels[:, None, None]),
    "images.reshape(4, -1)": same(lambda lib, x: x.images.reshape(4, -1)),
    # not contiguous
    "turned + a": same(lambda lib, x: x.turned + x.chances),
    "turned + turned": same(lambda lib, x: x.turned + x.turned),
    "turned * 2.0": same(lambda lib, x: x.turned * 2.0),
    "exp(turned)": same(lambda lib, x: lib.exp(x.turned)),
    "turned > 0": same(lambda lib, x: x.turned > 0),
    "where(mask, turned, a)": same(lambda lib, x: lib.where(x.mask, x.turned, x.chances)),
    "turned.sum()": same(lambda lib, x: x.turned.sum()),
    "turned.sum(1)": same(lambda lib, x: x.turned.sum(1)),
    "turned.mean(0)": same(lambda lib, x: x.turned.mean(0)),
    "turned.max()": same(lambda lib, x: x.turned.max()),
    "argmax(turned, 1)": (
        lambda lib, x: lib.argmax(x.turned, axis=1),
        lambda lib, x: lib.argmax(x.turned, 1),
    ),
    "turned @ a": same(lambda lib, x: x.turned @ x.chances),
    "turned[places]": same(lambda lib, x: x.turned[x.places]),
    "sort(turned)": same(lambda lib, x: lib.sort(x.turned)),
    "cumsum(turned, 0)": same(lambda lib, x: lib.cumsum(x.turned, 0)),
    "concat([turned, a])": (
        lambda lib, x: lib.concat([x.turned, x.chances]),
        lambda lib, x: lib.cat([x.turned, x.chances]),
    ),
    "turned.copy()": (lambda lib, x: x.turned.copy(), lambda lib, x: x.turned.clone()),
    "strip + strip": same(lambda lib, x: x.strip + x.strip),
    "strip * 2.0": same(lambda lib, x: x.strip * 2.0),
    "exp(strip)": same(lambda lib, x: lib.exp(x.strip)),
    "strip.sum()": same(lambda lib, x: x.strip.sum()),
    "strip.sum(1)": same(lambda lib, x: x.strip.sum(1)),
    "strip.mean()": same(lambda lib, x: x.strip.mean()),
    "strip @ strip.T": same(lambda lib, x: x.strip @ x.strip.T),
    "strip.copy()": (lambda lib, x: x.strip.copy(), lambda lib, x: x.strip.clone()),
    "relu(turned)": (lambda lib, x: lib.ml.relu(x.turned), lambda lib, x: lib.relu(x.turned)),
    "linear(turned, a, v)": (
        lambda lib, x: lib.ml.linear(x.turned, x.a, x.v),
        lambda lib, x: lib.nn.functional.linear(x.turned, x.a, x.v),
    ),
    "layer_norm(turned, 64)": (
        lambda lib, x: lib.ml.layer_norm(x.turned, 64),
        lambda lib, x: lib.nn.functional.layer_norm(x.turned, (64,)),
    ),
    # results given
    "add(a, b, out=c)": same(lambda lib, x: lib.add(x.a, x.b, out=x.c)),
    "multiply(a, 0.5, out=c)": same(lambda lib, x: lib.multiply(x.a, 0.5, out=x.c)),
    "exp(a, out=c)": same(lambda lib, x: lib.exp(x.chances, out=x.c)),
    "maximum(a, b, out=c)": same(lambda lib, x: lib.maximum(x.a, x.b, out=x.c)),
    "matmul(a, b, out=c)": same(lambda lib, x: lib.matmul(x.chances, x.chances, out=x.c)),
    "clip(a, 0.2, 0.8, out=c)": same(lambda lib, x: lib.clip(x.a, 0.2, 0.8, out=x.c)),
    "sum(a, 1, out=c[0])": same(lambda lib, x: lib.sum(x.chances, 1, out=x.c[0])),
    "sum(a, where=mask)": (
        lambda lib, x: lib.sum(x.a, where=x.mask),
        lambda lib, x: lib.where(x.mask, x.a, 0).sum(),
    ),
    "add(a, b, where=mask, out=c)": (
        lambda lib, x: lib.add(x.a, x.b, where=x.mask, out=x.c),
        lambda lib, x: x.c.copy_(lib.where(x.mask, x.a + x.b, x.c)),
    ),
}
