"""Calls of the public functions that attacks repeat: those of the records, their gradients, and
draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from records import ELEMENTWISE, ROWS, Array
from strategies import numbers

import cudamath as cm

F32 = np.dtype(np.float32)


class Call(NamedTuple):
    """name: of the function, and what is done with it. prepare(device): a function without
    arguments that makes the call on arrays of its own."""

    name: str
    prepare: Callable[[str], Callable[[], Any]]


def _value(row, xs, device):
    arrays = [cm.asarray(a, device=device) for a in xs]
    return lambda: row.run(cm, *arrays)


def _gradient(row, xs, device):
    which = tuple(i for i, a in enumerate(row.inputs) if isinstance(a, Array))
    arrays = [cm.asarray(a, device=device) for a in xs]

    def loss(*some):
        full = list(arrays)
        for i, x in zip(which, some, strict=True):
            full[i] = x
        out = row.run(cm, *full)
        out = out if isinstance(out, (tuple, list)) else [out]
        return sum(cm.real((y * 1).sum()) for y in out)

    gradient = cm.grad(loss, tuple(range(len(which))))
    return lambda: gradient(*[arrays[i] for i in which])


def _elementwise(row, device):
    rng = np.random.default_rng(0)
    kind = np.dtype("f4") if "f" in row.kinds else np.dtype("i4")
    arrays = [
        cm.asarray(numbers(rng, (3, 5), kind, row.low, row.high), device=device)
        for _ in range(row.inputs)
    ]
    return lambda: row.function(*arrays)


def calls() -> list[Call]:
    found = [
        Call(row.name, lambda device, row=row: _elementwise(row, device)) for row in ELEMENTWISE
    ]
    for row in ROWS:
        xs = row.arrays(F32)
        found.append(Call(row.name, lambda device, row=row, xs=xs: _value(row, xs, device)))
        if row.grad:
            found.append(
                Call(
                    f"gradient of {row.name}",
                    lambda device, row=row, xs=xs: _gradient(row, xs, device),
                )
            )
    return found


def outputs(result: Any) -> list[np.ndarray]:
    """The arrays of a result, on the host."""
    if isinstance(result, (tuple, list)):
        return [x for part in result for x in outputs(part)]
    if isinstance(result, dict):
        return outputs(list(result.values()))
    return [np.asarray(result)]
