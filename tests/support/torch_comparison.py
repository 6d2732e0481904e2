"""Functions and their derivatives beside PyTorch's; what imports this is skipped without it."""

import pytest
from gradient_checks import numbers

import cudamath as cm
from cudamath.testing import assert_close

torch = pytest.importorskip("torch")


def agree(ours, theirs, *arrays, second=True, rtol=1e-9):
    """Value, first and second derivatives by all arrays. (What depends on nothing has a derivative
    of 0.)"""
    there = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = theirs(*there)
    weights = numbers(tuple(expected.shape), seed=1)
    which = tuple(range(len(arrays)))
    assert_close(ours(*map(cm.asarray, arrays)), expected.detach().numpy(), rtol=rtol, atol=rtol)
    first = torch.autograd.grad(
        (expected * torch.tensor(weights)).sum(), there, create_graph=second, materialize_grads=True
    )
    pull = cm.grad(lambda *a: (ours(*a) * weights).sum(), which)
    for a, b in zip(pull(*arrays), first, strict=True):
        assert_close(
            a, b.detach().numpy(), rtol=rtol, atol=rtol * max(1.0, float(b.detach().abs().max()))
        )
    if second:
        square = sum((g * g).sum() for g in first) + sum(0 * a.sum() for a in there)
        again = torch.autograd.grad(square, there, materialize_grads=True)
        found = cm.grad(lambda *a: sum((g * g).sum() for g in pull(*a)), which)(*arrays)
        for a, b in zip(found, again, strict=True):
            assert_close(
                a,
                b.numpy(),
                rtol=rtol * 10,
                atol=rtol * 10 * max(1.0, float(b.detach().abs().max())),
            )
