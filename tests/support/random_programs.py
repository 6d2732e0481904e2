"""Random programs: functions of a few arrays, made of elementwise operations, reductions, products,
indexing, gradients, loops and conditions, writes in place, and random draws, by a seed. Some
instructions are what newcomers write by hand: layers, losses, optimizers, derivatives within a
loss.

A program is a list of instructions, chosen before it runs; so it runs alike at each call. All
values are matrices of one shape, so that every operation fits every operand. A `wide` program also
varies the shape, the dtype, how its arguments lie in memory, and what it finds outside: an array
that it reads and writes, and a number among its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import cudamath as cm

ROWS, COLUMNS = 3, 4
SHAPES = [(3, 4)] * 4 + [(1, 4), (4, 4), (2, 8), (5, 3), (4, 1), (6, 16)]
DTYPES = ["float32"] * 3 + ["float64"] * 3 + ["float16", "bfloat16"]


def _turned(x: Any) -> Any:
    """Rows in another order, by an array of indices."""
    n = x.shape[0]
    return x[cm.array([(2 * k + 2) % n if n % 2 else n - 1 - k for k in range(n)])]


def _labels(x: Any) -> Any:
    """One class a row."""
    return cm.array([(3 * k + 1) % x.shape[1] for k in range(x.shape[0])])


def _gates(x: Any) -> Any:
    """Halves of the columns, gated by one another; an odd column is left out and put back."""
    half = x.shape[1] // 2
    a, b, rest = x[:, :half], x[:, half : 2 * half], x[:, 2 * half :]
    return cm.concat([cm.ml.sigmoid(a) * cm.tanh(b), cm.ml.silu(b) * a, rest], axis=1)


def _split(x: Any) -> Any:
    """The gradient of such a split."""
    return cm.grad(lambda y: (_gates(y) ** 2).sum())(x)


def _attention(x: Any) -> Any:
    """Rows that attend to each other, with one head."""
    y = x.reshape(1, x.shape[0], 1, x.shape[1])
    return cm.ml.scaled_dot_product_attention(y, y, 0.5 * y).reshape(x.shape)


def _nested(x: Any) -> Any:
    """A loop of loops."""

    def outer(c: Any, row: Any) -> tuple:
        inner, _ = cm.scan(lambda d, y: (0.5 * d + y * row, None), c, x)
        return cm.tanh(inner), inner

    return cm.scan(outer, x[0], x, reverse=True)[1]


def _chosen(x: Any) -> Any:
    """Elements in the order of other elements."""
    return cm.take_along_axis(x, cm.argsort(cm.cos(3 * x), axis=1), axis=1)


def _step(x: Any, y: Any) -> None:
    """A step of an optimizer, which wants arrays in C order."""
    p, g = cm.empty(x.shape, dtype=x.dtype), cm.empty(x.shape, dtype=x.dtype)
    p[...], g[...] = x, y
    cm.ml.sgd_update([p], [g], lr=0.1)
    x[...] = p


def _halves_turned(x: Any) -> Any:
    """Rotary embeddings, by halves; an odd column is left out and put back."""
    half = x.shape[1] // 2
    y, rest = x[:, : 2 * half], x[:, 2 * half :]
    angles = (cm.arange(2 * half) * 0.3 + 0.1).astype(x.dtype)
    other = cm.concat([-y[:, half:], y[:, :half]], axis=1)
    return cm.concat([y * cm.cos(angles) + other * cm.sin(angles), rest], axis=1)


def _weights(y: Any) -> Any:
    """A square matrix for rows."""
    return 0.5 * y.T @ y


def _network(w: Any, x: Any) -> Any:
    """Rows through two layers of the same weights."""
    return cm.tanh(cm.tanh(x @ w) @ w + x)


def _physics(x: Any, y: Any) -> Any:
    """The gradient of a loss of values, and of first and second derivatives."""
    x, y = cm.tanh(x), cm.tanh(y)

    def loss(w: Any) -> Any:
        def slopes(x: Any) -> Any:
            return cm.grad(lambda x: _network(w, x).sum())(x)

        curved = cm.grad(lambda x: (slopes(x) * x).sum())(x)
        return ((_network(w, x) * slopes(x) + curved) ** 2).mean()

    return cm.grad(loss)(_weights(y))[: x.shape[0]].sum(0, keepdims=True) * x


def _points(x: Any, y: Any) -> Any:
    """The same, of slopes that are taken row by row."""
    x, y = cm.tanh(x), cm.tanh(y)

    def loss(w: Any) -> Any:
        slopes = cm.vmap(cm.grad(lambda row: cm.tanh(w @ cm.tanh(row @ w)).sum()))(x)
        return (slopes**2).sum() + (cm.tanh(x) @ w).sum()

    return cm.grad(loss)(_weights(y))[:1] + x


def _attention_by_hand(x: Any) -> Any:
    """Rows that attend to each other, masked by a sum."""
    x = cm.tanh(x)
    scores = x @ x.T * 0.4 + (cm.tril(cm.ones_like(x @ x.T)) - 1) * 3
    weights = cm.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ x


def _normed_by_hand(x: Any) -> Any:
    middle = x - x.mean(-1, keepdims=True)
    return middle / cm.sqrt((middle**2).mean(-1, keepdims=True) + 0.1)


def _block(x: Any, y: Any) -> Any:
    """A layer of a transformer by hand."""
    x, w = cm.tanh(x), _weights(cm.tanh(y))
    x = x + _attention_by_hand(_normed_by_hand(_halves_turned(x) + y[:1])) @ w
    z = _normed_by_hand(x) @ w
    return x + (0.5 * z * (1 + cm.tanh(0.8 * (z + 0.04 * z * z * z)))) @ w


def _steps(x: Any, y: Any) -> Any:
    """The gradient by numbers that each of some steps uses."""
    x, y = cm.tanh(x), cm.tanh(y)

    def loss(p: dict) -> Any:
        z = x
        for k in range(3):
            z = z + p["rate"] * cm.sin(z * y + k) - p["pull"] * z
        return (z**2).mean()

    slopes = cm.grad(loss)({"rate": y.mean(), "pull": 0.1 * y.max()})
    return x * slopes["rate"] + slopes["pull"]


def _optimized(x: Any, y: Any) -> Any:
    """Steps of an optimizer by hand, in passes over all weights."""
    p = {"a": x, "b": y, "c": x[0]}
    g = cm.grad(lambda p: ((cm.tanh(p["a"] * p["b"]) + p["c"]) ** 2).mean())(p)
    scale = cm.minimum(1.0, 1 / (0.1 + sum([(a**2).sum() for a in g.values()])))
    g = cm.tree.map(lambda a: a * scale.astype(a.dtype), g)
    m = cm.tree.map(lambda a: 0.1 * a, g)
    v = cm.tree.map(lambda a: 0.5 + 0.01 * a * a, g)
    p = cm.tree.map(lambda p, m, v: p - 0.1 * m / (cm.sqrt(v) + 0.1), p, m, v)
    return p["a"] * p["b"] + p["c"]


def _cells(x: Any, y: Any) -> Any:
    """The gradient of a loop whose steps multiply by two matrices."""
    x, y = cm.tanh(x), cm.tanh(y)
    w = _weights(y)

    def loss(w: Any) -> Any:
        def step(h: Any, row: Any) -> tuple:
            gate = cm.ml.sigmoid(row @ w + h @ w)
            h = gate * h + (1 - gate) * cm.tanh(h @ w - row)
            return h, h

        return (cm.scan(step, y[0], x)[1] ** 2).sum()

    return x + cm.grad(loss)(w)[:1]


def _loss_by_hand(x: Any) -> Any:
    top = x.max(-1, keepdims=True)
    total = cm.log(cm.exp(x - top).sum(-1, keepdims=True)) + top
    return (total - cm.take_along_axis(x, _labels(x)[:, None], axis=-1)).mean()


UNARY: dict[str, Callable] = {
    "negative": lambda x: -x,
    "sin": lambda x: cm.sin(x),
    "tanh": lambda x: cm.tanh(x),
    "exp": lambda x: cm.exp(-abs(x)),
    "sqrt": lambda x: cm.sqrt(abs(x)),
    "gelu": lambda x: cm.ml.gelu(x),
    "scaled": lambda x: 0.5 * x + 1,
    "wide": lambda x: x.astype("float64").astype(x.dtype),
    "narrow": lambda x: x.astype("float16").astype(x.dtype),
    "copy": lambda x: x.copy(),
    "softmax": lambda x: cm.ml.softmax(x, axis=-1),
    "cumsum": lambda x: cm.cumsum(x, axis=1),
    "sorted": lambda x: cm.sort(x, axis=-1),
    "transposed twice": lambda x: (x.T + 1).T,
    "rolled": lambda x: cm.roll(x, 1, axis=0) - 0.5 * cm.roll(x, -1, axis=1),
    "flipped": lambda x: x[::-1],
    "masked": lambda x: cm.where(x > 0, x, 0.1),
    "normed": lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1),
    "set": lambda x: x.at[1:, x.shape[1] // 2].set(0.5),
    "taken": _turned,
    "halves": lambda x: cm.concat([x[:, 2:], x[:, :2]], axis=1),
    "gradient": lambda x: cm.grad(lambda y: (cm.sin(y) * y).sum())(x),
    "scan": lambda x: cm.scan(lambda c, row: (0.5 * c + row, c * row), x[0], x)[1],
    "scan pulled": lambda x: cm.grad(
        lambda y: (cm.scan(lambda c, row: (cm.sin(c) * row, c), y[0], y)[1] ** 2).sum()
    )(x).copy(),
    # loops and conditions of a program give C order, others what their function gives
    "loop": lambda x: cm.fori_loop(0, 3, lambda i, c: c + 0.5 * x, x).copy(),
    "second": lambda x: cm.grad(lambda y: (cm.grad(lambda z: (z**3).sum())(y) ** 2).sum())(x),
    "nested": lambda x: _nested(x).copy(),
    "rms norm": lambda x: cm.ml.rms_norm(x + 0.1, x.shape[1], eps=1e-5),
    "layer norm": lambda x: cm.ml.layer_norm(x, x.shape[1], x[0], 0.5 * x[0]),
    "log softmax": lambda x: cm.ml.log_softmax(x, axis=1),
    "columns": lambda x: x - x.mean(axis=0) + x.max(axis=0) * x.min(),
    "gates": _gates,
    "gates pulled": _split,
    "attention": _attention,
    "chosen": _chosen,
    "added at": lambda x: cm.zeros_like(x).at[cm.array([0] * x.shape[0])].add(x),
    "shifted": lambda x: cm.pad(x, ((0, 0), (1, 0)))[:, :-1],
    "triangle": lambda x: cm.triu(x) + cm.tril(x, -1) * 2,
    "loss pulled": lambda x: cm.grad(lambda y: cm.ml.cross_entropy(y, _labels(y)))(x),
    "norm pulled": lambda x: cm.grad(
        lambda y: (cm.ml.rms_norm(y + cm.tanh(y), y.shape[1], eps=1e-5) * y).sum()
    )(x),
    "recomputed": lambda x: cm.grad(lambda y: cm.checkpoint(lambda z: cm.sin(z * z))(y).sum())(x),
    "jvp": lambda x: cm.jvp(lambda y: cm.tanh(y) * y, (x,), (0.5 * x,))[1],
    "between": lambda x: cm.where((x > -0.5) & ~(x > 0.5), x * x, abs(x)),
    "clipped": lambda x: cm.clip(x, -0.6, 0.4),
    "reshaped": lambda x: x.reshape(-1)[::-1].reshape(x.shape),
    "turned": lambda x: x.reshape(x.shape[::-1]).T * 0.5,
    "complex": lambda x: (cm.exp(1j * x) * (1 + x)).real.astype(x.dtype),
    "whole": lambda x: x + (cm.arange(x.shape[1]) // 2 - 1).astype(x.dtype),
    "bits": lambda x: ((0.7 * x + 0.1).view(f"int{8 * x.itemsize}") & -4).view(x.dtype) * 2,
    "parts of complex": lambda x: (1j * x + cm.exp(x)).imag.astype(x.dtype) + x,
    "halves turned": _halves_turned,
    "halves turned, pulled": lambda x: cm.grad(lambda y: (_halves_turned(y) ** 2 * x).sum())(x),
    "normed by hand": _normed_by_hand,
    "attention by hand": _attention_by_hand,
    "attention by hand, pulled": lambda x: cm.grad(lambda y: (_attention_by_hand(y) ** 2).sum())(x),
    "loss by hand, pulled": lambda x: cm.grad(_loss_by_hand)(cm.tanh(x) * 2),
    "chosen between numbers": lambda x: (
        cm.where(cm.arange(x.shape[1]) % 2 == 0, 1.5, -0.5).astype(x.dtype) * x
    ),
    "rows chosen twice": lambda x: cm.grad(
        lambda y: (y[(i := _labels(y) % y.shape[0])] * x).sum() + (cm.sin(y[i]) ** 2).sum()
    )(x),
    "overwritten": lambda x: (y := cm.sin(x), y.__setitem__(..., cm.cos(x)), y * 2)[2],
    "row norms": lambda x: x / (1 + cm.linalg.norm(x, axis=1, keepdims=True)),
}
BINARY: dict[str, Callable] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (1 + y * y),
    "maximum": lambda x, y: cm.maximum(x, y),
    "where": lambda x, y: cm.where(x < y, x, y),
    "row": lambda x, y: x + y[:1],
    "column sum": lambda x, y: x + y.sum(axis=1, keepdims=True),
    "total": lambda x, y: x * y.mean(),
    # a rolled array has the same sum but for rounding, which differs by device
    "cond": lambda x, y: cm.cond(
        x.sum() > y.sum() + 0.01, cm.add, lambda x, y: x * y[0], x, y
    ).copy(),
    "cond pulled": lambda x, y: cm.grad(
        lambda z: cm.cond(y[0, 0] > 0, lambda z: cm.sin(z) * y, lambda z: z * z, z).sum()
    )(x).copy(),
    "product": lambda x, y: (x @ y.T) @ x,
    "pulled": lambda x, y: cm.value_and_grad(lambda w: cm.tanh(x @ w.T).sum())(y)[1],
    "linear": lambda x, y: cm.ml.linear(cm.ml.relu(cm.ml.linear(x, y)), x.T, y[0]) + y,
    "product and bias": lambda x, y: cm.ml.gelu((x @ y.T) @ y + y[0]) + x,
    "norm of sum": lambda x, y: cm.ml.rms_norm(x + y, x.shape[1], y[0], 1e-5) + (x + y),
    "residual pulled": lambda x, y: cm.grad(
        lambda z: (cm.ml.layer_norm(z + y, z.shape[1]) * y + (z + y)).sum()
    )(x),
    "einsum": lambda x, y: cm.einsum("ij,kj,kl->il", x, y, 0.5 * y),
    "outer": lambda x, y: (x[:, :1] * y[:1]) - (y[:, -1:] + x[-1:]),
    "weights pulled": lambda x, y: (
        cm.grad(lambda p: (cm.tanh(x @ p["w"] + p["b"]) ** 2).mean())({"w": y.T @ y, "b": y[0]})[
            "w"
        ][: x.shape[0]].sum(0, keepdims=True)
        * x
    ),
    "the same operation": lambda x, y: (
        cm.sin(x) @ (w := _weights(y)) + cm.cos(x) @ w + cm.ml.linear(x, w) - (x * y) @ w
    ),
    "physics": _physics,
    "points": _points,
    "block": _block,
    "block pulled": lambda x, y: cm.grad(lambda z: (_block(z, y) ** 2).mean())(x),
    "block's weights pulled": lambda x, y: cm.grad(lambda z: (_block(x, z) ** 2).mean())(y),
    "steps": _steps,
    "optimized": _optimized,
    "cells": _cells,
    "gathered and added": lambda x, y: cm.zeros_like(x).at[_labels(x) % x.shape[0]].add(x * y),
    "rows of": lambda x, y: cm.ml.embedding(_labels(x) % x.shape[0], y) * x,
    "stacked": lambda x, y: cm.stack([x, y])[::-1].sum(0) * cm.stack([x, y], axis=1)[:, 0],
}
WRITES: dict[str, Callable] = {
    "iadd": lambda x, y: x.__iadd__(0.5 * y),
    "imul of a row": lambda x, y: x[-1].__imul__(0.5),
    "set": lambda x, y: x.__setitem__(..., y),
    "set a part": lambda x, y: x.__setitem__((slice(None), slice(1, 3)), y[:, 1:3]),
    "fill a part": lambda x, y: x.__setitem__(0, 0.25),
    "out": lambda x, y: cm.multiply(x, y, out=x),
    "scatter": lambda x, y: x.__setitem__(cm.array([0, x.shape[0] - 1]), y[[0, -1]]),
    "step": _step,
    "column": lambda x, y: x[:, 0].__isub__(y[:, -1]),
    "view": lambda x, y: x.T.__imul__(y.T * 0.5),
}
DRAWS: dict[str, Callable] = {
    "normal": lambda x, rng: x + rng.normal(size=x.shape, dtype="float32").astype(x.dtype),
    "uniform": lambda x, rng: x * rng.uniform(size=x.shape[1]).astype(x.dtype),
    "dropout": lambda x, rng: cm.ml.dropout(x, 0.3, rng=rng),
    "dropout pulled": lambda x, rng: cm.grad(
        lambda y: (cm.ml.dropout(cm.sin(y), 0.3, rng=rng) ** 2).sum()
    )(x),
}
#: What a loop adds up in the order of its steps, the function as its gradients come.
SUMMED = ("cells",)
#: What rounding may decide: the order, or the side, of nearly equal numbers.
SUDDEN = ("cond", "cond pulled", "masked", "between", "chosen", "narrow")
FORMS = ("plain", "plain", "transposed", "part", "flipped", "shared", "same")


class RandomProgram:
    """A program of a seed.

    Parameters
    ----------
    seed : int
        Decides everything.
    length : int
        Number of instructions.
    draws : bool
        Whether it draws random numbers.
    without : tuple of str
        Instructions that it does not have.
    wide : bool
        Whether shape, dtype, arguments and surroundings vary.
    """

    def __init__(
        self,
        seed: int,
        length: int = 12,
        draws: bool = True,
        without: tuple[str, ...] = (),
        wide: bool = False,
    ):
        rng = np.random.default_rng(seed)
        self.seed, self.inputs, self.wide = seed, int(rng.integers(1, 4)), wide
        self.dtype = np.dtype(rng.choice(["float32", "float64"]))
        self.shape = ROWS, COLUMNS
        self.forms = ["plain"] * self.inputs
        self.has_state = self.has_number = False
        if wide:
            self.shape = SHAPES[rng.integers(len(SHAPES))]
            self.dtype = np.dtype(_NAMED.get(name := str(rng.choice(DTYPES)), name))
            self.forms = [str(rng.choice(FORMS[: 5 if k == 0 else 7])) for k in range(self.inputs)]
            self.has_state, self.has_number = rng.random() < 0.3, rng.random() < 0.2
        self.steady = wide and rng.random() < 0.3
        self.donated = tuple(
            [k for k in range(self.inputs) if wide and not self.steady and rng.random() < 0.2]
        )
        self.instructions: list[tuple[str, str, int, int]] = []
        count = self.inputs + self.has_state
        for _ in range(length):
            kind = rng.choice(
                ["unary", "binary", "write", "draw"],
                p=[0.4, 0.35, 0.18, 0.07] if draws else [0.45, 0.35, 0.2, 0],
            )
            table = {"unary": UNARY, "binary": BINARY, "write": WRITES, "draw": DRAWS}[kind]
            names = [name for name in table if name not in without]
            names += ["copy"] * (2 * (kind == "unary"))
            name = str(rng.choice(names))
            # half of the time what is new, so that little is computed in vain
            x, y = (
                int(rng.integers(max(0, count - 3) if rng.random() < 0.5 else 0, count))
                for _ in range(2)
            )
            self.instructions.append((str(kind), name, x, y))
            count += kind != "write"
        self.returned = sorted({int(i) for i in rng.integers(0, count, 3)})
        self.nudge = 0.0  # by how much of itself each element of an argument is off, at most

    def arrays(self, call: int) -> list[np.ndarray]:
        """The elements of the arguments of a call."""
        rng = np.random.default_rng([self.seed, call])
        return [rng.uniform(-1, 1, self.shape).astype(self.dtype) for _ in range(self.inputs)]

    def arguments(self, call: int, dtype: Any = None) -> list[Any]:
        """The array arguments of a call on the default device, as their forms say."""
        out: list[Any] = []
        rows, columns = self.shape
        for form, a in zip(self.forms, self.arrays(call), strict=True):
            a = a if dtype is None else a.astype(dtype)
            if self.nudge:
                a = a * (1 + self.nudge * np.random.default_rng(call).uniform(-1, 1, a.shape))
            if form == "transposed":
                out.append(cm.array(np.ascontiguousarray(a.T)).T)
            elif form == "part":
                out.append(cm.array(np.pad(a, ((1, 0), (2, 1))))[1:, 2 : 2 + columns])
            elif form == "flipped":
                out.append(cm.array(np.ascontiguousarray(a[::-1]))[::-1])
            elif form == "shared":  # with a row more, which the next argument begins at
                base = cm.array(np.concatenate([a, a[:1]]))
                out[-1], more = base[:-1], base[1:]
                out.append(more)
            elif form == "same":
                out.append(out[-1])
            else:
                out.append(cm.array(a))
        return out

    def numbers(self, call: int) -> tuple:
        """The arguments of a call that are no arrays."""
        return ((0.5, 2)[call % 2],) if self.has_number else ()

    def state(self, dtype: Any = None) -> Any:
        """What the function finds outside, on the default device."""
        rng = np.random.default_rng([self.seed, 1 << 20])
        values = rng.uniform(-1, 1, self.shape).astype(self.dtype)
        return cm.array(values if dtype is None else values.astype(dtype))

    def function(self, source: Any, state: Any = None) -> Callable:
        """The program as a function that draws from this generator, and finds this array
        outside."""

        def program(*arguments: Any) -> Any:
            arrays = arguments[: self.inputs]
            values = [*arrays, state] if self.has_state else list(arrays)
            if self.has_number:
                values[0] = values[0] * arguments[-1]
            for kind, name, i, j in self.instructions:
                if kind == "unary":
                    values.append(UNARY[name](values[i]))
                elif kind == "binary":
                    values.append(BINARY[name](values[i], values[j]))
                elif kind == "draw":
                    values.append(DRAWS[name](values[i], source))
                elif 0 not in (target := values[i]).strides:  # repeated elements are not written
                    WRITES[name](target, values[j].copy() if i != j else target.copy())
            return [values[k] for k in self.returned], values[self.returned[0]].sum()

        return program

    def __repr__(self) -> str:
        more = f"{self.dtype} {self.shape}, {self.forms}" if self.wide else f"{self.dtype}"
        more += f", state {self.has_state}, number {self.has_number}" if self.wide else ""
        return f"RandomProgram({self.seed}; {more}): {self.instructions} -> {self.returned}"


_NAMED = {"bfloat16": ml_dtypes.bfloat16}
