"""Recurrent layers and their gradient, a step at a time.

The reserve holds, for each layer and direction, what the gradient uses: gates, cells (of a GRU the
state's part of the third gate), and states.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.dtypes import compute_dtype
from ..core.specs.recurrent import Layers, tensors


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))  # without overflow


def _layers(x: np.ndarray, params: dict) -> Layers:
    return Layers(params["kind"], x.shape[2], *[params[k] for k in Layers._fields[2:]])


def _weights(w: np.ndarray, layers: Layers) -> list[dict[str, np.ndarray]]:
    """Views of the vector of weights, by layer and direction, then by role."""
    found: list[dict[str, np.ndarray]] = [{} for _ in range(layers.ends)]
    for each in tensors(layers):
        found[each.end][each.role] = w[each.part].reshape(each.shape)
    return found


def _reserved(
    reserve: np.ndarray, layers: Layers, steps: int, batch: int, dtype: np.dtype
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Views of the reserve, by layer and direction: gates, cells, states."""
    cells = layers.units if layers.kind in ("lstm", "gru") else 0
    widths = layers.gates * layers.units, cells, layers.out
    values, start = reserve.view(dtype), 0
    for _ in range(layers.ends):
        found = []
        for width in widths:
            shape = steps, batch, width
            found.append(values[start : start + math.prod(shape)].reshape(shape))
            start += math.prod(shape)
        yield found[0], found[1], found[2]


def reserved_bytes(layers: Layers, steps: int, batch: int, dtype: np.dtype, training: bool) -> int:
    """The size of the reserve."""
    cells = layers.units if layers.kind in ("lstm", "gru") else 0
    width = layers.gates * layers.units + cells + layers.out
    size = layers.ends * steps * batch * width * compute_dtype(dtype).itemsize
    return size if training else 0


def _valid(lengths: tuple[int, ...] | None, steps: int) -> list[Any]:
    """For each step which sequences have it, (batch, 1)."""
    if lengths is None:
        return [True] * steps
    return [np.array(lengths)[:, None] > t for t in range(steps)]


def layers(x, w, h, c, *, lengths, tf32, training, version, **params):
    """x (steps, batch, features), w (count,), h and c (ends, batch, size) or None -> y, the
    reserve, h, and c of an LSTM."""
    form, dtype, (steps, batch, _) = _layers(x, params), x.dtype, x.shape
    T, valid = compute_dtype(dtype), _valid(lengths, steps)
    reserve = np.zeros(reserved_bytes(form, steps, batch, dtype, True), np.uint8)
    rows = x.astype(T)
    h = np.zeros((form.ends, batch, form.out), T) if h is None else h.astype(T)
    c = np.zeros((form.ends, batch, form.units), T) if c is None else c.astype(T)
    outputs = []
    kept = _reserved(reserve, form, steps, batch, T)
    for end, weights in enumerate(_weights(w.astype(T), form)):
        gates, cells, states = next(kept)
        backwards = end % form.directions == 1
        y = np.zeros((steps, batch, form.out), T)
        h[end], c[end] = _end(
            form, rows, weights, h[end], c[end], valid, backwards, gates, cells, states
        )
        y[...] = states if lengths is None else np.where(np.array(valid), states, 0)
        outputs.append(y)
        if len(outputs) == form.directions:
            rows, outputs = np.concatenate(outputs, axis=-1), []
    found = [rows.astype(dtype), reserve if training else reserve[:0], h.astype(dtype)]
    return (*found, c.astype(dtype)) if form.kind == "lstm" else tuple(found)


def _end(form, x, w, h, c, valid, backwards, gates, cells, states):
    """One layer in one direction: the last h and c. It fills gates, cells and states."""
    U, kind = form.units, form.kind
    inputs = x @ w["ih"].T
    bias = 0
    if form.bias:
        inputs += w["bias_ih"]
        bias = w["bias_hh"]
    for t in range(len(x))[:: -1 if backwards else 1]:
        v = h @ w["hh"].T + bias
        if kind == "gru":
            cells[t] = v[:, 2 * U :]
            both = _sigmoid(inputs[t][:, : 2 * U] + v[:, : 2 * U])
            n = np.tanh(inputs[t][:, 2 * U :] + both[:, :U] * cells[t])
            gates[t] = np.concatenate([both, n], axis=-1)
            new = n + both[:, U:] * (h - n)
        elif kind == "lstm":
            v += inputs[t]
            i, f, o = [_sigmoid(v[:, k * U : (k + 1) * U]) for k in (0, 1, 3)]
            g = np.tanh(v[:, 2 * U : 3 * U])
            gates[t] = np.concatenate([i, f, g, o], axis=-1)
            cells[t] = np.where(valid[t], f * c + i * g, c)
            c = cells[t]
            new = o * np.tanh(c)
            if form.projected:
                new = new @ w["hr"].T
        else:
            v += inputs[t]
            gates[t] = new = np.tanh(v) if kind == "tanh" else np.maximum(v, 0)
        states[t] = np.where(valid[t], new, h)
        h = states[t]
    return h, c


def layers_grad(x, w, y, reserve, dy, h, c, dh, dc, *, lengths, tf32, training, version, **params):
    """The gradients of x, w, and, if they were given, h and c."""
    form, dtype, (steps, batch, _) = _layers(x, params), x.dtype, x.shape
    T, valid = compute_dtype(dtype), _valid(lengths, steps)
    masks = None if lengths is None else np.array(valid)
    given = h is not None
    h, dh = [
        np.zeros((form.ends, batch, form.out), T) if a is None else a.astype(T) for a in (h, dh)
    ]
    c, dc = [
        np.zeros((form.ends, batch, form.units), T) if a is None else a.astype(T) for a in (c, dc)
    ]
    kept = list(_reserved(reserve, form, steps, batch, T))
    weights, dw = _weights(w.astype(T), form), np.zeros(w.shape, T)
    slopes = _weights(dw, form)
    into = dy.astype(T)
    for layer in reversed(range(form.layers)):
        ends = range(layer * form.directions, (layer + 1) * form.directions)
        if layer:
            below = [kept[e - form.directions][2] for e in ends]
            rows = np.concatenate(
                below if masks is None else [np.where(masks, b, 0) for b in below], axis=-1
            )
        else:
            rows = x.astype(T)
        total = np.zeros(rows.shape, T)
        for k, e in enumerate(ends):
            dx, dh[e], dc[e] = _end_grad(
                form, rows, weights[e], h[e], c[e], valid, k == 1, *kept[e],
                into[..., k * form.out : (k + 1) * form.out], dh[e], dc[e], slopes[e],
            )  # fmt: skip
            total += dx
        into = total
    found = [into.astype(dtype), dw.astype(dtype)]
    if given:
        found += [dh.astype(dtype), *([dc.astype(dtype)] if form.kind == "lstm" else [])]
    return tuple(found)


def _end_grad(form, x, w, h, c, valid, backwards, gates, cells, states, dy, dh, dc, slopes):
    """The gradients of x, h and c of one layer in one direction. It fills `slopes`."""
    U, kind, steps = form.units, form.kind, len(x)
    order = range(steps)[:: -1 if backwards else 1]
    du = np.zeros((*x.shape[:2], form.gates * U), x.dtype)  # of the products with x
    dv = np.zeros_like(du) if kind == "gru" else du  # of those with h
    ahead = {t: (None if k == 0 else order[k - 1]) for k, t in enumerate(order)}
    for t in reversed(order):
        dh = dh + np.where(valid[t], dy[t], 0)
        to_h, to_c = [np.where(valid[t], a, 0) for a in (dh, dc)]
        h_before, c_before = (h, c) if ahead[t] is None else (states[ahead[t]], cells[ahead[t]])
        if kind == "lstm":
            i, f, g, o = [gates[t][:, k * U : (k + 1) * U] for k in range(4)]
            bent = np.tanh(cells[t])
            if form.projected:
                slopes["hr"] += to_h.T @ (o * bent)
                to_h = to_h @ w["hr"]
            to_c = to_c + to_h * o * (1 - bent * bent)
            du[t] = np.concatenate(
                [
                    to_c * g * i * (1 - i),
                    to_c * c_before * f * (1 - f),
                    to_c * i * (1 - g * g),
                    to_h * bent * o * (1 - o),
                ],
                axis=-1,
            )
            du[t] = np.where(valid[t], du[t], 0)
            dc = to_c * f + np.where(valid[t], 0, dc)
            passed = 0
        elif kind == "gru":
            r, z, n = [gates[t][:, k * U : (k + 1) * U] for k in range(3)]
            to_n = to_h * (1 - z) * (1 - n * n)
            to_z = to_h * (h_before - n) * z * (1 - z)
            to_r = to_n * cells[t] * r * (1 - r)
            du[t] = np.concatenate([to_r, to_z, to_n], axis=-1)
            dv[t] = np.concatenate([to_r, to_z, to_n * r], axis=-1)
            passed = to_h * z
        else:
            y = gates[t]
            du[t] = to_h * (1 - y * y if kind == "tanh" else y > 0)
            passed = 0
        dh = np.where(valid[t], 0, dh) + passed + dv[t] @ w["hh"]
        slopes["hh"] += dv[t].T @ h_before
    slopes["ih"][...] = np.tensordot(du, x, ((0, 1), (0, 1)))
    if form.bias:
        slopes["bias_ih"][...], slopes["bias_hh"][...] = du.sum((0, 1)), dv.sum((0, 1))
    return du @ w["ih"], dh, dc
