"""Rotary embedding in NumPy."""

from .lib.float32_sums import widen


def rotary(x, cos, sin, *, interleaved, inverse):
    """x (..., D), cos and sin broadcast to (..., R / 2): the first R numbers of each row are
    rotated in pairs. The result has x's dtype."""
    half = cos.shape[-1]
    y = widen(x).copy()
    first, second = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if interleaved
        else (slice(0, half), slice(half, 2 * half))
    )
    a, b = widen(x)[..., first], widen(x)[..., second]
    if inverse:
        sin = -sin
    y[..., first] = a * cos - b * sin
    y[..., second] = a * sin + b * cos
    return y.astype(x.dtype, copy=False)
