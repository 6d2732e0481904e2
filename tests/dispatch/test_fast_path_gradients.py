"""Replays of calls whose gradient is recorded: they skip the checks, and the gradient is that of
the function as written."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import pytest
from record_types import Array, Row
from records import ROWS

import cudamath as cm
from cudamath.core.dispatch import fast_path

forget = fast_path.forget


def gradients(
    row: Row, arrays: list[np.ndarray], which: tuple[int, ...], again: bool
) -> list[np.ndarray]:
    """Gradients, by some of the arguments, of the sum of squares of what the row's function
    returns; and of one of these."""
    given: list[Any] = [cm.asarray(a) for a in arrays]

    def value(*xs: cm.ndarray) -> cm.ndarray:
        full = list(given)
        for i, x in zip(which, xs, strict=True):
            full[i] = x
        out = row.run(cm, *full)
        return sum(
            cm.real(y * cm.conj(y)).sum()
            for y in (out if isinstance(out, (tuple, list)) else [out])
            if y.dtype in (np.float64, np.complex128)
        )

    if not again:
        forget()
    xs = [given[i] for i in which]
    found = list(cm.grad(value, tuple(range(len(which))))(*xs))
    if row.second:
        if not again:
            forget()
        found += cm.grad(
            lambda *xs: sum((g * g).sum() for g in cm.grad(value, tuple(range(len(which))))(*xs)),
            tuple(range(len(which))),
        )(*xs)
    return [np.asarray(g) for g in found]


@pytest.mark.parametrize("row", [row for row in ROWS if row.grad], ids=lambda row: row.name)
def test_replayed_gradients(device, row):
    """By all arguments and by each alone, one way and then another; twice, of other numbers."""
    floats = tuple(i for i, a in enumerate(row.inputs) if isinstance(a, Array) and not a.constant)
    choices = dict.fromkeys([floats, *[(i,) for i in floats], floats])
    first = row.arrays(np.dtype(np.float64))
    second = [a * 1.0078125 if a.dtype == np.float64 else a for a in first]
    wanted = {
        (which, number): gradients(row, arrays, which, False)
        for which, (number, arrays) in itertools.product(choices, enumerate((first, second)))
    }
    forget()
    for _ in range(2):
        for (which, number), each in wanted.items():
            for found, right in zip(
                gradients(row, (first, second)[number], which, True), each, strict=True
            ):
                np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize(
    ("module", "checks", "name"),
    [
        ("ml.conv", "_operands", "ml.conv2d"),
        ("ml.conv_transpose", "_operands", "ml.conv_transpose2d"),
        ("ops.linalg.norms", "_numbers", "linalg.vector_norm"),
        ("ops.scan", "_total", "cumsum"),
        ("ops.index", "_integers", "take"),
        ("ops.join", "_inputs", "concat"),
        ("ml.norm", "_row_operands", "ml.layer_norm"),
        ("ml.norm", "_row_operands", "ml.rms_norm"),
    ],
)
def test_replays_with_gradients_skip_the_checks(monkeypatch, module, checks, name):
    """At the second call: what would check the arguments is not there."""
    row = next(row for row in ROWS if row.name == name)
    with cm.device("cpu"):
        arrays = row.arrays(np.dtype(np.float64))
        forget()
        wanted = gradients(row, arrays, (0,), True)
        monkeypatch.setattr(importlib.import_module(f"cudamath.{module}"), checks, None)
        for found, right in zip(gradients(row, arrays, (0,), True), wanted, strict=True):
            np.testing.assert_array_equal(found, right)


def test_work_outside_the_op_is_replayed(device):
    """A row of an embedding gets no gradient, also where one was taken of the same layouts before,
    without that."""
    places, table = cm.asarray([0, 2, 1, 2]), cm.ones((3, 2))
    for padding, counts in itertools.product((1, None, 2, 1), (range(2))):
        wanted = np.array([1.0, 1, 2])
        if padding is not None:
            wanted[padding] = 0
        found = cm.grad(lambda t, p=padding: cm.ml.embedding(places, t, padding_idx=p).sum())(table)
        assert found.tolist() == [[n, n] for n in wanted], counts


def test_saved_inputs_changed_in_place_are_refused(device):
    """What is looked up is recorded like any other call: arrays that are kept may not be
    changed."""
    x, w = cm.ones((1, 2, 5, 5)), cm.ones((3, 2, 3, 3))
    for _ in range(3):
        y, pull = cm.vjp(cm.ml.conv2d, x, w)
        assert pull(y)[1].shape == w.shape
        w += 1.0
        with pytest.raises(RuntimeError, match="changed in place"):
            pull(y)


def test_a_function_that_differentiates_inside_is_run_as_it_is(device):
    """What its own gradient records is not recorded in a replay of the call."""

    @fast_path.fast_path("x")
    def slope(x):
        return cm.grad(lambda x: (cm.sin(x) * x).sum())(x * 3)

    for first in (1.0, 2.0, 3.0, 4.0):
        x = np.arange(3.0) + first
        found = slope(cm.asarray(x))
        np.testing.assert_allclose(
            np.asarray(found), np.cos(3 * x) * 3 * x + np.sin(3 * x), atol=1e-11
        )
        assert found._node is None
