"""Transposed convolutions of sequences and volumes, made of that of images."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.dtypes import compute_dtype
from ..ops.creation import zeros
from .conv import _conv2d_input_grad, _operands, conv_transpose2d, several
from .resize import pad

__all__ = ["conv_transpose1d", "conv_transpose3d"]


def conv_transpose1d(x: Any, weight: Any, bias: Any = None, *, stride: int = 1, padding: int = 0, output_padding: int = 0,
                     dilation: int = 1, groups: int = 1) -> ndarray:
    """Transposed convolution of sequences: `conv_transpose2d` along one axis, the input gradient of `conv1d`.

    Parameters
    ----------
    x : array (N, C, L) of float16, bfloat16, float32 or float64
        Sequences. 16-bit numbers are summed in float32.
    weight : array (C, K / groups, R), dtype of `x`
        Filters: one for each channel of `x`.
    bias : array (K,), dtype of `x`, optional
        Added to every position.
    stride, padding, output_padding, dilation, groups
        As in `conv_transpose2d`, along the one axis.

    Returns
    -------
    ndarray
        (N, K, L'), dtype of `x`; L' = (L - 1) stride - 2 padding + dilation (R - 1) + output_padding + 1.

    Raises
    ------
    TypeError, ValueError
        As `conv_transpose2d`.

    Gradient: with respect to x, weight and bias, of any order. Every sum is taken in a fixed order.

    >>> import cudamath as cm
    >>> cm.ml.conv_transpose1d([[[1.0, 2.0]]], [[[1.0, 10.0]]], stride=2).tolist()
    [[[1.0, 10.0, 2.0, 20.0]]]
    """
    name = "conv_transpose1d"
    key, given = (name, stride, padding, output_padding, groups, dilation), (x, weight)
    plain = bias is None and {*map(type, key[1:])} == {int}
    known = _conv2d_input_grad.again(key, given) if plain else None
    if known is not None:
        return known
    (x, weight, *biases), groups = _operands(name, 1, x, weight, bias, groups, transposed=True)
    (s,), (d,) = several(name, "stride", stride, 1, 1), several(name, "dilation", dilation, 1, 1)
    (p,), (more,) = several(name, "padding", padding, 0, 1), several(name, "output_padding", output_padding, 0, 1)
    _size(name, x, weight, (s,), (p,), (more,), (d,))
    arrays, how = (x[:, :, None], weight[:, :, None]), {"stride": (1, s), "padding": (0, p), "output_padding": (0, more),
                                                        "groups": groups, "dilation": (1, d)}
    rows = conv_transpose2d(*arrays, *biases, **how)  # type: ignore[arg-type]
    y = rows[:, :, 0]
    if plain:
        _conv2d_input_grad.remember_as(("conv_transpose2d", *how.values()), key, given, arrays, (rows, y))
    return y


def conv_transpose3d(x: Any, weight: Any, bias: Any = None, *, stride: int | tuple[int, int, int] = 1,
                     padding: int | tuple[int, int, int] = 0, output_padding: int | tuple[int, int, int] = 0,
                     dilation: int | tuple[int, int, int] = 1, groups: int = 1) -> ndarray:
    """Transposed convolution of volumes or videos: the input gradient of `conv3d`.

    Parameters
    ----------
    x : array (N, C, D, H, W) of float16, bfloat16, float32 or float64
        Volumes. 16-bit numbers are summed in float32.
    weight : array (C, K / groups, T, R, S), dtype of `x`
        Filters: one for each channel of `x`.
    bias : array (K,), dtype of `x`, optional
        Added to every position.
    stride, padding, output_padding, dilation : int or (planes, rows, columns)
        As in `conv_transpose2d`, along three axes.
    groups : int
        As in `conv_transpose2d`.

    Returns
    -------
    ndarray
        (N, K, D', H', W'), dtype of `x`; sizes as in `conv_transpose2d`.

    Raises
    ------
    TypeError, ValueError
        As `conv_transpose2d`.

    Gradient: with respect to x, weight and bias, of any order. Every sum is taken in a fixed order.

    Memory: the planes that the T taps along the depth give are held apart before they are added.

    >>> import cudamath as cm
    >>> cm.ml.conv_transpose3d(cm.ones((1, 1, 2, 1, 1)), cm.ones((1, 1, 2, 1, 1))).ravel().tolist()
    [1.0, 2.0, 1.0]
    """
    name = "conv_transpose3d"
    (x, weight, *biases), groups = _operands(name, 3, x, weight, bias, groups, transposed=True)
    strides, dilations = several(name, "stride", stride, 1, 3), several(name, "dilation", dilation, 1, 3)
    margins, more = several(name, "padding", padding, 0, 3), several(name, "output_padding", output_padding, 0, 3)
    depth = _size(name, x, weight, strides, margins, more, dilations)[0]
    (n, c, d, h, w), (_, outputs, taps, r, s) = x.shape, weight.shape
    flat: dict[str, Any] = {"stride": strides[1:], "padding": margins[1:], "output_padding": more[1:],
                            "dilation": dilations[1:]}
    planes = conv_transpose2d(x.transpose((0, 2, 1, 3, 4)).reshape((n * d, c, h, w)),
                              weight.reshape((c, outputs * taps, r, s)), groups=groups, **flat)
    rows, columns = planes.shape[2:]
    wide = planes.astype(compute_dtype(x.dtype), copy=False)
    apart = wide.reshape((n, d, outputs * groups, taps, rows, columns)).transpose((3, 0, 2, 1, 4, 5))
    y: Any = None
    for tap in range(taps):  # planes `stride` apart, put where this tap adds them
        before = tap * dilations[0] - margins[0]
        after = (taps - 1 - tap) * dilations[0] - (strides[0] - 1) - margins[0] + more[0]
        if max(-before, 0) + max(-after, 0) >= d * strides[0]:
            continue  # all of them lie in what the padding cuts off
        spread = pad(apart[tap].reshape((n, outputs * groups, d, 1, rows, columns)), (0, 0, 0, 0, 0, strides[0] - 1))
        spread = spread.reshape((n, outputs * groups, d * strides[0], rows, columns))
        put = pad(spread, (0, 0, 0, 0, before, after))
        y = put if y is None else y + put
    if y is None:
        y = zeros((n, outputs * groups, depth, rows, columns), dtype=wide.dtype, device=x.device)
    y = y.astype(x.dtype, copy=False)
    return y + biases[0][:, None, None, None] if biases else y


def _size(name: str, x: ndarray, weight: ndarray, strides: tuple[int, ...], margins: tuple[int, ...],
                more: tuple[int, ...], dilations: tuple[int, ...]) -> tuple[int, ...]:
    """The size of y. ValueError unless output_padding is small enough and something is left."""
    if any(m >= max(s, d) for m, s, d in zip(more, strides, dilations, strict=True)):
        raise ValueError(f"{name}: wants output_padding less than stride or dilation, got output_padding {more}, stride "
                         f"{strides}, dilation {dilations}")
    size = tuple([(n - 1) * s - 2 * p + d * (taps - 1) + m + 1 for n, taps, s, p, m, d in
                  zip(x.shape[2:], weight.shape[2:], strides, margins, more, dilations, strict=True)])
    if min(size) < 1:
        raise ValueError(f"{name}: nothing is left of y: its size would be {size} (x {x.shape}, weight {weight.shape}, stride "
                         f"{strides}, padding {margins}, dilation {dilations})")
    return size
