"""Recurrent layers as loops over single sequences in NumPy, in float64, written from the formulas
of PyTorch's documentation; and problems of small sizes."""

from __future__ import annotations

import numpy as np

GATES = {"rnn": 1, "lstm": 4, "gru": 3}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def one_sequence(kind, xs, w, end, h, c, relu=False):
    """(outputs, h, c) of one direction of one layer for one sequence (steps, features)."""
    none = np.zeros(())
    b, d = w.get(f"bias_ih_{end}", none), w.get(f"bias_hh_{end}", none)
    ys = []
    for x in xs:
        u, v = w[f"weight_ih_{end}"] @ x + b, w[f"weight_hh_{end}"] @ h + d
        if kind == "rnn":
            h = np.maximum(u + v, 0) if relu else np.tanh(u + v)
        elif kind == "gru":
            (xr, xz, xn), (hr, hz, hn) = np.split(u, 3), np.split(v, 3)
            r, z = sigmoid(xr + hr), sigmoid(xz + hz)
            h = (1 - z) * np.tanh(xn + r * hn) + z * h
        else:
            i, f, g, o = np.split(u + v, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            if f"weight_hr_{end}" in w:
                h = w[f"weight_hr_{end}"] @ h
        ys.append(h)
    return np.array(ys), h, c


def reference(kind, x, w, h0, c0, lengths, layers, directions, relu=False):
    """(y, h, c) for x (steps, batch, features); h0, c0 (layers and directions, batch, units)."""
    steps, batch = x.shape[:2]
    h, c = h0.copy(), c0.copy()
    for layer in range(layers):
        parts = []
        for k, suffix in enumerate(("", "_reverse")[:directions]):
            y = np.zeros((steps, batch, h0.shape[2]))
            at = layer * directions + k
            for n in range(batch):
                xs = x[: lengths[n], n]
                ys, h[at, n], c[at, n] = one_sequence(
                    kind, xs[::-1] if k else xs, w, f"l{layer}{suffix}", h0[at, n], c0[at, n], relu
                )
                y[: lengths[n], n] = ys[::-1] if k else ys
            parts.append(y)
        x = np.concatenate(parts, -1)
    return x, h, c


def weights(kind, features, units, layers=1, directions=1, bias=True, out=None, seed=0):
    rng, gates, out = np.random.default_rng(seed), GATES[kind], out or units
    w = {}
    for layer in range(layers):
        for suffix in ("", "_reverse")[:directions]:
            end = f"l{layer}{suffix}"
            w[f"weight_ih_{end}"] = rng.normal(size=(gates * units, features))
            w[f"weight_hh_{end}"] = rng.normal(size=(gates * units, out))
            if bias:
                w[f"bias_ih_{end}"] = rng.normal(size=gates * units)
                w[f"bias_hh_{end}"] = rng.normal(size=gates * units)
            if out != units:
                w[f"weight_hr_{end}"] = rng.normal(size=(out, units))
        features = out * directions
    return w


CASES = {
    "rnn": ("rnn", {}),
    "lstm": ("lstm", {}),
    "gru": ("gru", {}),
    "rnn, two layers, both directions": ("rnn", {"layers": 2, "directions": 2}),
    "lstm, two layers, both directions": ("lstm", {"layers": 2, "directions": 2}),
    "gru, two layers, both directions": ("gru", {"layers": 2, "directions": 2}),
    "lstm, no bias": ("lstm", {"bias": False}),
    "gru, no bias": ("gru", {"bias": False, "directions": 2}),
    "lstm, projection": ("lstm", {"out": 2, "layers": 2, "directions": 2}),
}
STEPS, BATCH, FEATURES, UNITS = 5, 3, 4, 3


def problem(case):
    """(kind, options, x, weights, h, c) with random numbers."""
    kind, options = CASES[case]
    rng = np.random.default_rng(7)
    count = options.get("layers", 1) * options.get("directions", 1)
    return (
        kind,
        options,
        rng.normal(size=(STEPS, BATCH, FEATURES)),
        weights(kind, FEATURES, UNITS, **options),
        rng.normal(size=(count, BATCH, options.get("out", UNITS))),
        rng.normal(size=(count, BATCH, UNITS)),
    )
