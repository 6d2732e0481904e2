"""How far attention and its gradients are from the exact ones, beside PyTorch's, on a GPU: at most
twice as far."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm

pytestmark = pytest.mark.gpu


def exact(torch, q, k, v, g, causal):
    """y, dq, dk, dv in float64 on the GPU, from the 16-bit operands."""
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1), -torch.inf
        )
    y = torch.softmax(scores, -1) @ v
    return y.detach(), *torch.autograd.grad(y, (q, k, v), g.double())


def apart(result, truth):
    """The root mean square and the largest of the differences."""
    error = result.double() - truth
    return float(error.square().mean().sqrt()), float(error.abs().max())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("depth", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_at_most_twice_pytorchs_error(dtype, depth, causal):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU here")
    torch.manual_seed(depth)
    q, k, v, g = (
        torch.randn(2, 4, 1000, depth, device="cuda").to(getattr(torch, dtype)) for _ in range(4)
    )
    theirs = [x.clone().requires_grad_() for x in (q, k, v)]
    y = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=causal)
    theirs = [y.detach(), *torch.autograd.grad(y, theirs, g)]
    arrays = [cm.from_dlpack(x) for x in (q, k, v)]
    value, back = cm.vjp(lambda *a: cm.ml.scaled_dot_product_attention(*a, causal=causal), *arrays)
    ours = [torch.from_dlpack(x) for x in (value, *back(cm.from_dlpack(g)))]
    for name, mine, other, truth in zip(
        ("y", "dq", "dk", "dv"), ours, theirs, exact(torch, q, k, v, g, causal), strict=True
    ):
        errors, limits = apart(mine, truth), apart(other, truth)
        assert np.isfinite(errors).all()
        print(
            f"{dtype} {depth} causal {causal} {name}: error {errors[0]:.3g} / {errors[1]:.3g}, "
            f"PyTorch's {limits[0]:.3g} / "
            f"{limits[1]:.3g}"
        )
        assert errors[0] <= 2 * limits[0] and errors[1] <= 2 * limits[1], name
