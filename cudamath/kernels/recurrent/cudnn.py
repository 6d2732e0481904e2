"""All layers of a recurrent network, and their gradient, by cuDNN.

The library overwrites its reserve when it takes the gradient, and adds to the gradient of the
weights. A call writes into nothing but its results, so it copies the reserve before, and lets the
gradient begin with zeros. The weights of all layers arrive as one vector, which is one copy of
them; their gradients are views of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call
from ...core.layout import Layout
from ...core.specs.recurrent import Layers, tensors
from ...runtime import cudnn_recurrent
from ...runtime.cudnn_recurrent import Problem, Recurrent

BYTES = np.dtype(np.uint8)


def problem(
    x: Layout,
    *,
    kind: str,
    units: int,
    out: int,
    layers: int,
    directions: int,
    bias: bool,
    lengths: tuple[int, ...] | None,
    tf32: bool,
    training: bool,
    version: str,
) -> Problem:
    """The problem as the library sees it. x: (steps, batch, features)."""
    return Problem(
        kind,
        x.dtype,
        *x.shape,
        units,
        out,
        layers,
        directions,
        bias,
        lengths,
        tf32 and x.dtype == np.float32,
        training,
        version,
        x.device,
    )


def library(p: Problem) -> Recurrent | None:
    """The library's layers, if it has them with the weights in the order of `tensors`."""
    layers = Layers(p.kind, p.features, p.units, p.out, p.layers, p.directions, p.bias)
    size = p.dtype.itemsize
    places = {(t.end, t.role): t for t in tensors(layers)}
    starts = []
    for end in range(layers.ends):
        for role in ("ih", "hh"):
            start, rows = places[end, role].start, p.units
            for k in range(layers.gates):
                bias = places[end, f"bias_{role}"].start + k * rows if p.bias else None
                matrix = start + k * rows * places[end, role].shape[1]
                starts.append((matrix * size, -1 if bias is None else bias * size))
        if layers.projected:
            starts.append((places[end, "hr"].start * size, -1))
    return cudnn_recurrent.recurrent(p, tuple(starts))


def _given(p: Problem) -> Recurrent:
    one = library(p)
    if one is None:
        raise AssertionError(f"cuDNN does not support {p}")
    return one


def _numbered(layouts: Sequence[Layout | None]) -> list[Any]:
    """The arguments of a call: inputs are numbered without those that are missing."""
    number = itertools.count()
    return [0 if each is None else Input(next(number)) for each in layouts]


def layers(p: Problem, x: Layout, w: Layout, h: Layout | None, c: Layout | None) -> Plan:
    """x: (steps, batch, features), w: the weights (count,), h and c: (ends, batch, size) or None ->
    y (steps, batch, directions size), the reserve in bytes, h, and c of an LSTM."""
    one, ends = _given(p), p.layers * p.directions
    outputs = [
        x.like((p.steps, p.batch, p.out * p.directions)),
        Layout.new((one.reserve,), BYTES, x.device),
        x.like((ends, p.batch, p.out)),
    ]
    if p.kind == "lstm":
        outputs.append(x.like((ends, p.batch, p.units)))
    results: list[Any] = [Output(i) for i in range(len(outputs))]
    results += [0] * (4 - len(results))
    workspace = Layout.new((one.workspace,), BYTES, x.device)
    call = Call(one.forward, [*_numbered([x, w, h, c]), *results, Temp(0)])
    return Plan(outputs, [call], [workspace], f"{p.version}: one call for all layers and steps")


def layers_grad(
    p: Problem,
    x: Layout,
    w: Layout,
    y: Layout,
    reserve: Layout,
    dy: Layout,
    h: Layout | None,
    c: Layout | None,
    dh: Layout | None,
    dc: Layout | None,
) -> Plan:
    """What `layers` took and gave, and the gradients of y, h and c -> those of x, w, and, if they
    were given, h and c."""
    one = _given(p)
    given = _numbered([x, w, y, reserve, dy, h, c, dh, dc])
    outputs = [x.like(), w.like(), *[each.like() for each in (h, c) if each is not None]]
    results: list[Any] = [Output(i) for i in range(len(outputs))]
    results += [0] * (4 - len(outputs))
    workspace = Layout.new((one.workspace,), BYTES, x.device)
    call = Call(one.backward, [*given, *results, Temp(0), Temp(1)])
    return Plan(outputs, [call], [workspace, reserve.like()], f"{p.version}: two calls")
