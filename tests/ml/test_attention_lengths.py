"""Attention on tensor cores where sequences have lengths, each version by name, against the CPU's
functions in float64."""

import numpy as np
import pytest
from gradient_checks import TOLERANCE, check_second_order, numbers, wide

import cudamath as cm
from cudamath.testing import assert_close
from tests.ml.test_attention import operands, run


@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint32", "uint8", "int8", "int32"])
@pytest.mark.parametrize("what", ["key_lengths", "query_lengths"])
def test_lengths_of_every_dtype_are_held_within_the_array(device, dtype, what):
    """As documented: beyond it there is no limit, below 0 there is nothing."""
    q, k, v = (cm.asarray(x) for x in operands((3, 2, 2, 5, 7, 8, 8), "float32"))
    info = np.iinfo(dtype)
    for values in (
        [info.max, 3, info.max - 1],
        [info.max // 2 + 1, 0, info.min],
        [min(n, info.max) for n in (1 << 31, 1 << 32, (1 << 32) + 2)],
    ):
        lengths = cm.asarray(np.array(values, dtype))
        held = np.clip(np.array(values, object), 0, 7 if what == "key_lengths" else 5)
        y = cm.ml.scaled_dot_product_attention(q, k, v, **{what: lengths})
        e = np.exp(wide(q) @ wide(k).swapaxes(2, 3) / np.sqrt(8))
        seen = np.arange(e.shape[3 if what == "key_lengths" else 2]) < held.astype(int)[:, None]
        e = e * (seen[:, None, None] if what == "key_lengths" else seen[:, None, :, None])
        total = e.sum(3, keepdims=True)
        expected = e / np.where(total == 0, 1, total) @ wide(v)
        assert abs(expected[0]).max() > 0
        assert_close(y, expected, rtol=1e-4, atol=1e-5)


def test_16_bit_lengths_of_more_keys_than_they_can_tell():
    """No limit is put on them that they cannot hold."""
    n, length = 70_000, 60_000
    q, k = cm.ones((1, 1, 1, 1), device="cpu"), cm.zeros((1, 1, n, 1), device="cpu")
    v = cm.asarray(np.arange(n).reshape(1, 1, n, 1) / n, device="cpu")
    lengths = cm.asarray(np.array([length], np.uint16), device="cpu")
    y = cm.ml.scaled_dot_product_attention(q, k, v.astype(q.dtype), key_lengths=lengths)
    assert_close(y, np.full((1, 1, 1, 1), (length - 1) / 2 / n), rtol=1e-5)


def test_lengths_beyond_the_array_at_second_order(device):
    """As at first order: against differences of the gradient."""
    beyond = cm.asarray(np.array([9, 4], np.int32))
    for what in ("key_lengths", "query_lengths"):
        check_second_order(
            lambda *a: cm.ml.scaled_dot_product_attention(*a, causal=True, **{what: beyond}),
            *operands((2, 2, 1, 5, 6, 3, 3)),
        )


@pytest.mark.gpu
@pytest.mark.parametrize(
    "version, queries",
    [("forward_sm90", 300), ("forward_sm90_split", 300), ("decode_split_kv", 2)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_tensor_core_versions_with_lengths(version, queries, causal):
    """What lies beyond them is not looked at, be it no number."""
    from cudamath.cpu import attention as cpu
    from cudamath.kernels.attention import dispatch as kernels

    q, k, v = operands((3, 4, 2, queries, 500, 128, 128), "bfloat16")
    present, filled = np.array([queries, 0, 1], np.int32), np.array([500, 300, 77], np.int32)
    options = {"causal": causal, "scale": 0.1, "dropping": False}
    expected, expected_lse = cpu.attention(*wide(q, k, v), None, present, filled, **options)
    for b in range(3):
        q[b, :, present[b] :] = k[b, :, filled[b] :] = v[b, :, filled[b] :] = np.nan
    y, lse = run(
        "gpu",
        lambda *a: kernels.attention(*a, **options, version=version),
        (q, k, v, None, present, filled),
        (),
    )
    assert_close(y, expected, rtol=3e-2, atol=3e-2)
    assert_close(lse, expected_lse, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape",
    [
        (4, 4, 2, 300, 500, 128),
        (4, 4, 4, 520, 333, 64),
        (4, 2, 1, 200, 300, 80),
        (4, 4, 2, 300, 500, 256),
        (4, 2, 2, 200, 300, 136),
    ],
    ids=str,
)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_on_tensor_cores_with_lengths(shape, causal):
    """What lies beyond them gets zeros, be it no number, and adds nothing; and twice the same
    bits."""
    from cudamath.cpu import attention as cpu
    from cudamath.kernels.attention import dispatch as kernels

    queries, keys, depth = shape[3:]
    q, k, v = operands((*shape, depth), "bfloat16")
    g = numbers(q.shape, "bfloat16", 6)
    lengths = np.array([queries, 0, 130, queries], np.int32), np.array([keys, 300, 77, 0], np.int32)
    options = {"causal": causal, "scale": 0.1, "dropping": False}
    expected, expected_lse = cpu.attention(*wide(q, k, v), None, *lengths, **options)
    slopes = cpu.attention_grad(
        *wide(g, q, k, v), expected, expected_lse, None, *lengths, **options
    )
    for b, (present, filled) in enumerate(zip(*lengths, strict=True)):
        g[b, :, present:] = q[b, :, present:] = k[b, :, filled:] = v[b, :, filled:] = np.nan
    y, lse = run(
        "gpu",
        lambda *a: kernels.attention(*a, **options, version="forward_sm90"),
        (q, k, v, None, *lengths),
        (),
    )

    large = "_large_heads" if depth > 128 else ""

    def back():
        return run(
            "gpu",
            lambda *a: kernels.attention_grad(*a, **options, version=f"backward_sm90{large}"),
            (g, q, k, v, y, lse, None, *lengths),
            (),
        )

    for a, b, c, what in zip(back(), back(), slopes, ("dq", "dk", "dv"), strict=True):
        size = max(1, np.abs(c).max())
        assert_close(
            a, c, rtol=4 * TOLERANCE["bfloat16"], atol=2 * TOLERANCE["bfloat16"] * size, what=what
        )
        assert np.array_equal(a.view(np.uint16), b.view(np.uint16)), what
