"""Self-attention on packed operands: against attention on separate ones, PyTorch, and each kernel
version by name."""

import ml_dtypes
import numpy as np
import pytest
from gradient_checks import (
    DTYPES,
    TOLERANCE,
    check_gradient,
    check_second_order,
    numbers,
    run_version,
    versions,
    wide,
)

import cudamath as cm
from cudamath.core.dispatch.arguments import ArrayArg
from cudamath.runtime.device import assume
from cudamath.testing import assert_close, layout_of


def definition(qkv, heads, causal=True, scale=None):
    """In float64, with all scores."""
    batch, length, width = qkv.shape
    q, k, v = np.moveaxis(wide(qkv).reshape(batch, length, 3, heads, -1), (2, 3), (0, 2))
    s = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        s = np.where(np.tri(length, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(batch, length, width // 3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal, scale", [(True, None), (False, 0.3)])
def test_values(device, dtype, causal, scale):
    for batch, length, heads, depth in (
        (2, 7, 3, 4),
        (1, 70, 2, 64),
        (2, 1, 1, 5),
        (0, 3, 2, 4),
        (3, 0, 2, 4),
    ):
        qkv = numbers((batch, length, 3 * heads * depth), dtype, 1)
        y = cm.ml.self_attention(cm.asarray(qkv), heads, causal=causal, scale=scale)
        assert y.dtype == qkv.dtype and y.shape == (batch, length, heads * depth)
        if y.size:
            assert_close(
                wide(y.to_numpy()),
                definition(qkv, heads, causal, scale),
                rtol=2 * TOLERANCE[dtype],
                atol=2 * TOLERANCE[dtype],
            )


def test_gradients(device):
    qkv = numbers((2, 4, 3 * 2 * 3), "float64", 2)
    for causal in (True, False):
        check_gradient(
            lambda x, c=causal: cm.ml.self_attention(x, 2, causal=c),
            lambda x, c=causal: definition(x, 2, c),
            qkv,
        )
        check_second_order(lambda x, c=causal: cm.ml.self_attention(x, 2, causal=c), qkv)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_against_torch(device, dtype):
    torch = pytest.importorskip("torch")
    batch, length, heads, depth = 2, 130, 3, 64
    values = numbers((batch, length, 3 * heads * depth), dtype, 3)
    g = numbers((batch, length, heads * depth), dtype, 4)
    theirs = torch.from_numpy(wide(values)).requires_grad_()
    q, k, v = theirs.reshape(batch, length, 3, heads, depth).permute(2, 0, 3, 1, 4)
    y = (
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        .transpose(1, 2)
        .reshape(g.shape)
    )
    y.backward(torch.from_numpy(wide(g)))
    ours, pull = cm.vjp(lambda x: cm.ml.self_attention(x, heads), cm.asarray(values))
    (slope,) = pull(cm.asarray(g))
    close = {"rtol": 4 * TOLERANCE[dtype], "atol": 4 * TOLERANCE[dtype]}
    assert_close(wide(ours.to_numpy()), y.detach().numpy(), **close)
    assert_close(wide(slope.to_numpy()), theirs.grad.numpy(), **close)


def test_errors():
    x = cm.ones((2, 3, 12))
    for error, words, call in [
        (
            ValueError,
            r"wants qkv \(B, S, 3 heads D\), got shape \(2, 3, 12\) with 3 heads",
            lambda: cm.ml.self_attention(x, 3),
        ),
        (ValueError, r"got shape \(3, 12\)", lambda: cm.ml.self_attention(x[0], 2)),
        (ValueError, "heads must be at least 1, got 0", lambda: cm.ml.self_attention(x, 0)),
        (
            ValueError,
            "D from 1 to 256, got 300",
            lambda: cm.ml.self_attention(cm.ones((1, 1, 900)), 1),
        ),
        (
            ValueError,
            "finite scale, got inf",
            lambda: cm.ml.self_attention(x, 2, scale=float("inf")),
        ),
        (TypeError, "int64", lambda: cm.ml.self_attention(np.ones((1, 1, 3), np.int64), 1)),
    ]:
        with pytest.raises(error, match="self_attention: .*" + words):
            call()


def of(direction, version, depth):
    """The name of a version for one direction."""
    if version != "sm90":
        return version
    large = "_large_heads" if direction == "backward" and depth > 128 else ""
    return f"{direction}_sm90{large}"


MACHINES = [*versions("simt", "sm80"), pytest.param("gpu", "sm90", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("machine, version", MACHINES)
@pytest.mark.parametrize("causal", [True, False])
def test_versions(machine, version, causal):
    """Every kernel on operands that lie side by side, against the CPU's functions in float64."""
    from cudamath.cpu import self_attention as cpu
    from cudamath.kernels.attention import packed_qkv as kernels

    dtype = "float32" if machine == "simulator" else "bfloat16"
    large = [(2, 300, 4, 64), (1, 257, 3, 128), (2, 130, 2, 80), (2, 200, 3, 192)]
    for batch, length, heads, depth in [(2, 5, 2, 4)] if machine == "simulator" else large:
        qkv, g = (
            numbers((batch, length, 3 * heads * depth), dtype, 1),
            numbers((batch, length, heads * depth), dtype, 2),
        )
        options = {"heads": heads, "causal": causal, "scale": 0.2}
        expected, expected_lse = cpu.self_attention(wide(qkv), **options)
        y, lse = run_version(
            machine,
            lambda *a, o=options: kernels.self_attention(
                *a, **o, version=of("forward", version, depth)
            ),
            qkv,
        )
        assert_close(
            wide(y),
            expected,
            rtol=2 * TOLERANCE[dtype],
            atol=4 * TOLERANCE[dtype],
            what=f"y {qkv.shape}",
        )
        assert_close(lse, expected_lse, rtol=1e-4, atol=1e-4, what=f"lse {qkv.shape}")
        slope = cpu.self_attention_grad(wide(g), wide(qkv), expected, expected_lse, **options)
        found = run_version(
            machine,
            lambda *a, o=options: kernels.self_attention_grad(
                *a, **o, version=of("backward", version, depth)
            ),
            g,
            qkv,
            y,
            lse,
        )
        assert_close(
            wide(found),
            slope,
            rtol=4 * TOLERANCE[dtype],
            atol=4 * TOLERANCE[dtype] * max(1, np.abs(slope).max()),
            what=f"dqkv {qkv.shape}",
        )


@pytest.mark.parametrize(
    "version, capability", [("simt", (7, 5)), ("sm80", (8, 0)), ("sm90", (9, 0))]
)
@pytest.mark.parametrize("depth", [64, 80, 128, 200, 256])
def test_gradients_are_written_where_they_lie_in_qkv(version, capability, depth):
    """The launches' arguments, without a GPU: rows of dqkv are those of qkv, three times as far
    apart as those of y."""
    from cudamath.kernels.attention import packed_qkv as kernels

    batch, length, heads = 2, 130, 3
    g, qkv = (
        layout_of(np.zeros((batch, length, n * heads * depth), ml_dtypes.bfloat16)) for n in (1, 3)
    )
    lse = layout_of(np.zeros((batch, heads, length), np.float32))
    with assume(capability):
        plan = kernels.self_attention_grad(
            g,
            qkv,
            g,
            lse,
            heads=heads,
            causal=True,
            scale=0.1,
            version=of("backward", version, depth),
        )
    written = {
        (arg.offset, arg.shape, arg.strides)
        for step in plan.steps
        for arg in step.args
        if isinstance(arg, ArrayArg) and arg.kind == "y"
    }
    width = heads * depth * 2
    expected = (batch, heads, length, depth), (3 * length * width, 2 * depth, 3 * width, 2)
    assert written == {(part * width, *expected) for part in range(3)}
