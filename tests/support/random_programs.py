"""Random programs: functions of a few arrays, made of elementwise operations, reductions, products,
indexing, gradients, loops and conditions, writes in place and random draws, by a seed.

A program is a list of instructions, chosen before it runs; so it runs alike at each call. The
shapes are those of small matrices, so that nearly every operation fits nearly every operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cudamath as cm

ROWS, COLUMNS = 3, 4
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
    "rolled": lambda x: cm.roll(x, 1, axis=0),
    "flipped": lambda x: x[::-1],
    "masked": lambda x: cm.where(x > 0, x, 0.1),
    "normed": lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1),
    "set": lambda x: x.at[1:, 2].set(0.5),
    "taken": lambda x: x[cm.array([2, 0, 1])],
    "halves": lambda x: cm.concat([x[:, 2:], x[:, :2]], axis=1),
    "gradient": lambda x: cm.grad(lambda y: (cm.sin(y) * y).sum())(x),
    "scan": lambda x: cm.scan(lambda c, row: (0.5 * c + row, c * row), x[0], x)[1],
    "scan pulled": lambda x: cm.grad(
        lambda y: (cm.scan(lambda c, row: (cm.sin(c) * row, c), y[0], y)[1] ** 2).sum()
    )(x).copy(),
    # loops and conditions of a program give C order, others what their function gives
    "loop": lambda x: cm.fori_loop(0, 3, lambda i, c: c + 0.5 * x, x).copy(),
    "second": lambda x: cm.grad(lambda y: (cm.grad(lambda z: (z**3).sum())(y) ** 2).sum())(x),
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
}
WRITES: dict[str, Callable] = {
    "iadd": lambda x, y: x.__iadd__(0.5 * y),
    "imul of a row": lambda x, y: x[1].__imul__(0.5),
    "set": lambda x, y: x.__setitem__(..., y),
    "set a part": lambda x, y: x.__setitem__((slice(None), slice(1, 3)), y[:, :2]),
    "fill a part": lambda x, y: x.__setitem__(0, 0.25),
    "out": lambda x, y: cm.multiply(x, y, out=x),
    "scatter": lambda x, y: x.__setitem__(cm.array([0, 2]), y[:2]),
    "step": lambda x, y: cm.ml.sgd_update([x], [y.copy()], lr=0.1) and None,
}


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
    """

    def __init__(
        self, seed: int, length: int = 12, draws: bool = True, without: tuple[str, ...] = ()
    ):
        rng = np.random.default_rng(seed)
        self.seed, self.inputs = seed, int(rng.integers(1, 4))
        self.dtype = np.dtype(rng.choice(["float32", "float64"]))
        self.instructions: list[tuple[str, str, int, int]] = []
        count = self.inputs
        for _ in range(length):
            kind = rng.choice(
                ["unary", "binary", "write", "draw"],
                p=[0.4, 0.35, 0.18, 0.07 if draws else 0] if draws else [0.45, 0.35, 0.2, 0],
            )
            table: dict[str, Any] = {
                "unary": UNARY,
                "binary": BINARY,
                "write": WRITES,
                "draw": {"": 0},
            }[kind]
            name = str(rng.choice([name for name in table if name not in without]))
            x, y = (int(rng.integers(0, count)) for _ in range(2))
            self.instructions.append((str(kind), name, x, y))
            count += kind != "write"
        self.returned = sorted({int(i) for i in rng.integers(0, count, 3)})

    def arrays(self, call: int) -> list[np.ndarray]:
        """Arguments of a call."""
        rng = np.random.default_rng([self.seed, call])
        return [rng.uniform(-1, 1, (ROWS, COLUMNS)).astype(self.dtype) for _ in range(self.inputs)]

    def function(self, source: Any) -> Callable:
        """The program as a function that draws from this generator."""

        def program(*arguments: Any) -> Any:
            values = list(arguments)
            for kind, name, i, j in self.instructions:
                if kind == "unary":
                    values.append(UNARY[name](values[i]))
                elif kind == "binary":
                    values.append(BINARY[name](values[i], values[j]))
                elif kind == "draw":
                    values.append(values[i] + source.normal(size=(ROWS, COLUMNS), dtype=self.dtype))
                elif not (name in ("out", "iadd", "step") and values[i].strides[-1] <= 0):
                    target = values[i]
                    if name == "step" and not target.is_contiguous:
                        continue
                    WRITES[name](target, values[j].copy() if i != j else target.copy())
            return [values[k] for k in self.returned], values[self.returned[0]].sum()

        return program

    def __repr__(self) -> str:
        return f"RandomProgram({self.seed}): {self.instructions} -> {self.returned}"
