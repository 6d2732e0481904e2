"""Self-attention on packed queries, keys and values; see attention.py."""

import numpy as np

from . import attention


def _parts(qkv, heads):
    """(B, S, 3 H D) -> three views (B, H, S, D)."""
    batch, length, width = qkv.shape
    return qkv.reshape(batch, length, 3, heads, width // 3 // heads).transpose(2, 0, 3, 1, 4)


def _heads(x, heads):
    """(B, S, H D) -> a view (B, H, S, D)."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def self_attention(qkv, *, heads, causal, scale):
    """qkv (B, S, 3 H D) -> y (B, S, H D), lse (B, H, S)."""
    y, lse = attention.attention(*_parts(qkv, heads), causal=causal, scale=scale, dropping=False)
    return np.ascontiguousarray(y.swapaxes(1, 2)).reshape(*qkv.shape[:2], qkv.shape[2] // 3), lse


def self_attention_grad(g, qkv, y, lse, *, heads, causal, scale):
    """g, y (B, S, H D), qkv (B, S, 3 H D), lse (B, H, S) -> dqkv (B, S, 3 H D)."""
    q, k, v = _parts(qkv, heads)
    slopes = attention.attention_grad(
        _heads(g, heads), q, k, v, _heads(y, heads), lse, causal=causal, scale=scale, dropping=False
    )
    return np.stack([slope.swapaxes(1, 2) for slope in slopes], 2).reshape(qkv.shape)
