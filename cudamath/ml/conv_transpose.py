"""Transposed convolutions of sequences and volumes, made of that of images.

Along the depth of volumes, every tap is an output of its own; overlap-add brings the planes
together (kernels/conv/overlap_add.py).
"""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.typing import ArrayLike
from ..ops.shape import expand_dims, squeeze
from .conv import _operands, conv_transpose2d, several
from .conv3d_cards import _conv3d_input_grad, by_library, little

__all__ = ["conv_transpose1d", "conv_transpose3d"]


@fast_path("x", "weight", "bias")
def conv_transpose1d(
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> ndarray:
    """Transposed convolution of sequences.

    `conv_transpose2d` along one axis, the input gradient of `conv1d`.

    Parameters
    ----------
    x : array (N, C, L) of float16, bfloat16, float32 or float64
        Sequences. 16-bit numbers are summed in float32.
    weight : array (C, K / groups, R), dtype of `x`
        Filters: one for each channel of `x`.
    bias : array (K,), dtype of `x`, optional
        Added to every position.
    stride : int, default 1
        As in `conv_transpose2d`, along the one axis.
    padding, output_padding : int, default 0
        As in `conv_transpose2d`, along the one axis.
    dilation, groups : int, default 1
        As in `conv_transpose2d`, along the one axis.

    Returns
    -------
    ndarray
        (N, K, L'), dtype of `x`; L' = (L - 1) stride - 2 padding + dilation (R - 1) +
        output_padding + 1.

    Raises
    ------
    TypeError
        `x` is not floating-point, or the dtypes differ.
    ValueError
        Shapes that do not fit each other or `groups`; options out of range; nothing left of y.

    Notes
    -----
    Gradient: with respect to x, weight and bias, of any order. Every sum is taken in a fixed order.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.conv_transpose1d([[[1.0, 2.0]]], [[[1.0, 10.0]]], stride=2).tolist()
    [[[1.0, 10.0, 2.0, 20.0]]]
    """
    name = "conv_transpose1d"
    (x, weight, *biases), groups = _operands(name, 1, x, weight, bias, groups, transposed=True)
    (s,), (d,) = several(name, "stride", stride, 1, 1), several(name, "dilation", dilation, 1, 1)
    (p,), (more,) = (
        several(name, "padding", padding, 0, 1),
        several(name, "output_padding", output_padding, 0, 1),
    )
    _size(name, x, weight, (s,), (p,), (more,), (d,))
    y = conv_transpose2d(
        expand_dims(x, axis=2),
        expand_dims(weight, axis=2),
        *biases,
        stride=(1, s),
        padding=(0, p),
        output_padding=(0, more),
        groups=groups,
        dilation=(1, d),
    )
    return squeeze(y, axis=2)


@fast_path("x", "weight", "bias")
def conv_transpose3d(
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    stride: int | tuple[int, int, int] = 1,
    padding: int | tuple[int, int, int] = 0,
    output_padding: int | tuple[int, int, int] = 0,
    dilation: int | tuple[int, int, int] = 1,
    groups: int = 1,
) -> ndarray:
    """Transposed convolution of volumes or videos: the input gradient of `conv3d`.

    Parameters
    ----------
    x : array (N, C, D, H, W) of float16, bfloat16, float32 or float64
        Volumes. 16-bit numbers are summed in float32.
    weight : array (C, K / groups, T, R, S), dtype of `x`
        Filters: one for each channel of `x`.
    bias : array (K,), dtype of `x`, optional
        Added to every position.
    stride : int or (planes, rows, columns), default 1
        As in `conv_transpose2d`, along three axes.
    padding, output_padding : int or (planes, rows, columns), default 0
        As in `conv_transpose2d`, along three axes.
    dilation : int or (planes, rows, columns), default 1
        As in `conv_transpose2d`, along three axes.
    groups : int, default 1
        As in `conv_transpose2d`.

    Returns
    -------
    ndarray
        (N, K, D', H', W'), dtype of `x`; sizes as in `conv_transpose2d`.

    Raises
    ------
    TypeError
        `x` is not floating-point, or the dtypes differ.
    ValueError
        Shapes that do not fit each other or `groups`; options out of range; nothing left of y.

    Notes
    -----
    Gradient: with respect to x, weight and bias, of any order. Every sum is taken in a fixed order.

    Memory: where there is much to do, or no cuDNN, the planes that the T taps along the depth give
    are held apart before they are added.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.conv_transpose3d(cm.ones((1, 1, 2, 1, 1)), cm.ones((1, 1, 2, 1, 1))).ravel().tolist()
    [1.0, 2.0, 1.0]
    """
    name = "conv_transpose3d"
    (x, weight, *biases), groups = _operands(name, 3, x, weight, bias, groups, transposed=True)
    strides, dilations = (
        several(name, "stride", stride, 1, 3),
        several(name, "dilation", dilation, 1, 3),
    )
    margins, more = (
        several(name, "padding", padding, 0, 3),
        several(name, "output_padding", output_padding, 0, 3),
    )
    size = _size(name, x, weight, strides, margins, more, dilations)
    # of the convolution whose gradient this is: output_padding is less padding behind, as in
    # conv_transpose2d
    ends = tuple([n for p, m in zip(margins, more, strict=True) for n in (p, max(0, p - m))])
    where: dict[str, Any] = {
        "stride": strides,
        "padding": ends,
        "dilation": dilations,
        "groups": groups,
    }
    small, shape = little(x.size, weight), (x.shape[0], weight.shape[1] * groups, *size)
    if all(m - p < s for m, p, s in zip(more, margins, strides, strict=True)) and (
        small or by_library("input", x.size, [x, weight, *biases], shape, **where)
    ):
        return _conv3d_input_grad(x, weight, *biases, size=size, **where, library=not small)
    (n, c, d, h, w), (_, outputs, taps, r, s) = x.shape, weight.shape
    how: dict[str, Any] = {
        "stride": strides[1:],
        "padding": margins[1:],
        "output_padding": more[1:],
        "dilation": dilations[1:],
    }
    planes = conv_transpose2d(
        x.transpose((0, 2, 1, 3, 4)).reshape((n * d, c, h, w)),
        weight.reshape((c, outputs * taps, r, s)),
        groups=groups,
        **how,
    )
    y = _overlap_add(
        planes,
        shape=shape,
        depth=d,
        taps=taps,
        step=strides[0],
        apart=dilations[0],
        before=margins[0],
    )
    return y + biases[0][:, None, None, None] if biases else y


def _size(
    name: str,
    x: ndarray,
    weight: ndarray,
    strides: tuple[int, ...],
    margins: tuple[int, ...],
    more: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[int, ...]:
    """The size of y. ValueError unless output_padding is small enough and something is left."""
    if any(m >= max(s, d) for m, s, d in zip(more, strides, dilations, strict=True)):
        raise ValueError(
            f"{name}: wants output_padding less than stride or dilation, got output_padding "
            f"{more}, stride "
            f"{strides}, dilation {dilations}"
        )
    size = tuple(
        [
            (n - 1) * s - 2 * p + d * (taps - 1) + m + 1
            for n, taps, s, p, m, d in zip(
                x.shape[2:], weight.shape[2:], strides, margins, more, dilations, strict=True
            )
        ]
    )
    if min(size) < 1:
        raise ValueError(
            f"{name}: nothing is left of y: its size would be {size} (x {x.shape}, weight "
            f"{weight.shape}, stride "
            f"{strides}, padding {margins}, dilation {dilations})"
        )
    return size


def _overlap_add_rule(
    g: ndarray, _y: None, _planes: None, *, shape: tuple[int, ...], **where: Any
) -> tuple:
    return (_overlap_take(g, **where),)


def _overlap_take_rule(g: ndarray, _planes: None, y: ndarray, **where: Any) -> tuple:
    return (_overlap_add(g, shape=y.shape, **where),)


_overlap_add = Op(
    "overlap_add",
    cpu="overlap_add.overlap_add",
    cuda="conv.overlap_add.overlap_add",
    vjp=_overlap_add_rule,
)
_overlap_take = Op(
    "overlap_take",
    cpu="overlap_add.overlap_take",
    cuda="conv.overlap_add.overlap_take",
    vjp=_overlap_take_rule,
)
