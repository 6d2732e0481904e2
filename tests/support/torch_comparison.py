"""Functions and their derivatives beside PyTorch's.

Where PyTorch is not installed, something stands in for `torch`, and the values are those of
tests/data/torch_values.npz, which a run with PyTorch wrote:

    python -m pytest tests/ml/test_torch_parity.py tests/ml/test_torch_parity_options.py \
        tests/autodiff/test_peak_memory.py --record-torch

Of a large array the file has its size, a scale and some weighted sums, which differ if any element
does. A value's name there is that of the test, and its number in it.
"""

from __future__ import annotations

import collections
import functools
import importlib.util
import math
import os
import pathlib

import numpy as np
import pytest
from gradient_checks import numbers

import cudamath as cm
from cudamath.testing import assert_close

PATH = pathlib.Path(__file__).parents[1] / "data" / "torch_values.npz"
SUMS = 4  # of an array


class Absent:
    """What stands in a module's place where it is not installed: all its names, for tables of
    functions that are not called then."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_, **__):
        return self

    def __getitem__(self, _):
        return self


if importlib.util.find_spec("torch"):
    import torch
else:
    torch = Absent()
PRESENT = not isinstance(torch, Absent)

#: The values of this run, by name: for the file.
made: dict[str, np.ndarray] = {}
_counts: collections.Counter[str] = collections.Counter()


@functools.cache
def _stored():
    """Name -> array, of the file: all numbers in a row, and a line for each name."""
    found, at = {}, 0
    with np.load(PATH) as file:
        numbers = file["numbers"]
        for line in str(file["names"]).splitlines():
            name, _, lengths = line.rpartition(" ")
            shape = tuple(map(int, filter(None, lengths.split("x"))))
            count = math.prod(shape)
            found[name] = numbers[at : at + count].reshape(shape)
            at += count
    return found


def write():
    """Write the values of this run in the place of those of the same tests."""
    tests = {name.partition("#")[0] for name in made}
    values = dict(_stored()) if PATH.exists() else {}
    values = {name: x for name, x in values.items() if name.partition("#")[0] not in tests}
    values = dict(sorted({**values, **made}.items()))
    lines = [f"{name} {'x'.join(map(str, x.shape))}" for name, x in values.items()]
    np.savez_compressed(
        PATH,
        origin=np.array(f"PyTorch {torch.__version__} on the CPU, NumPy {np.__version__}"),
        names=np.array("\n".join(lines)),
        numbers=np.concatenate([x.astype(np.float64).ravel() for x in values.values()]),
    )


def _name():
    """Of the next value of the test that runs; the same on each device."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0].rpartition("/")[2]
    test = test.replace("[cuda", "[cpu")
    _counts[test] += 1
    return f"{test}#{_counts[test]}"


def _recorded(name):
    stored = _stored()
    if name not in stored:
        pytest.fail(f"{PATH.name} has no {name}: run this test with PyTorch and --record-torch")
    return stored[name]


def theirs(compute):
    """`compute()`, an array or number of PyTorch's, as a NumPy array."""
    name = _name()
    if PRESENT:
        value = compute()
        made[name] = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
    return made[name] if PRESENT else _recorded(name)


def _summary(x, most):
    """A scale of the errors of these sums, the sums, and the shape."""
    x = np.asarray(x, np.float64)
    flat = x.ravel()
    places = np.arange(1, flat.size + 1) * 0.7548776662466927
    sums = [np.cos(places * k + k) @ flat for k in range(1, SUMS + 1)]
    return np.array([np.abs(flat).sum() + flat.size * most, *sums, *x.shape])


def _close(x, expected, rtol, *, of_largest):
    """`expected` is a tensor, or None without PyTorch. Elements may differ by rtol of themselves
    and of 1, or of the largest."""
    name = _name()
    if PRESENT:
        b = expected.detach().numpy()
        most = max(1.0, float(np.abs(b).max(initial=0))) if of_largest else 1.0
        made[name] = _summary(b, most)
        assert_close(x, b, rtol=rtol, atol=rtol * most)
        return
    scale, *rest = _recorded(name)
    mine = _summary(x, 1.0)
    assert tuple(rest[SUMS:]) == tuple(mine[SUMS + 1 :]), "another shape than PyTorch's"
    np.testing.assert_allclose(mine[1 : SUMS + 1], rest[:SUMS], rtol=0, atol=rtol * scale)


def agree(ours, there, *arrays, second=True, rtol=1e-9):
    """Value, first and second derivatives by all arrays. (What depends on nothing has a derivative
    of 0.)"""
    which = tuple(range(len(arrays)))
    y = ours(*map(cm.asarray, arrays))
    weights = numbers(tuple(y.shape), seed=1)
    expected, first, again = None, [None] * len(arrays), [None] * len(arrays)
    if PRESENT:
        leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
        expected = there(*leaves)
        first = torch.autograd.grad(
            (expected * torch.tensor(weights)).sum(),
            leaves,
            create_graph=second,
            materialize_grads=True,
        )
        if second:
            square = sum((g * g).sum() for g in first) + sum(0 * a.sum() for a in leaves)
            again = torch.autograd.grad(square, leaves, materialize_grads=True)
    _close(y, expected, rtol, of_largest=False)
    pull = cm.grad(lambda *a: (ours(*a) * weights).sum(), which)
    for mine, other in zip(pull(*arrays), first, strict=True):
        _close(mine, other, rtol, of_largest=True)
    if second:
        found = cm.grad(lambda *a: sum((g * g).sum() for g in pull(*a)), which)(*arrays)
        for mine, other in zip(found, again, strict=True):
            _close(mine, other, rtol * 10, of_largest=True)
