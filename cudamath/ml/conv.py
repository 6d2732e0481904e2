"""Convolutions: the cards of conv2d and of its two gradients, and what is made of them.

conv1d is a conv2d of images one row high. conv3d, where no single launch does it (conv3d_cards.py),
is one whose channels are those of all planes that a window meets: the planes are laid side by side
in memory first, once for each tap along the depth. conv_transpose2d is conv2d's input gradient, as
a function.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, Op
from ..core.dtypes import float32
from ..core.typing import ArrayLike
from ..ops.join import stack
from ..ops.linalg.products import tf32_allowed
from ..ops.padding import _pad, pad
from ..ops.shape import expand_dims, moveaxis, reshape, squeeze
from .conv3d_cards import _conv3d, by_library, little

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose2d"]

_AXES = {1: "", 2: " or two (rows, columns)", 3: " or three (planes, rows, columns)"}
_COUNT = {1: "an integer", 2: "one or two integers", 3: "one or three integers"}
_SHAPE = {1: "L", 2: "H, W", 3: "D, H, W"}
_TAPS = {1: "R", 2: "R, S", 3: "T, R, S"}
_ALONG = {1: ("columns",), 2: ("rows", "columns"), 3: ("planes", "rows", "columns")}


_MOST = (1 << 31) - 1  # what kernels and compiled loops take as an integer of 32 bits


def several(name: str, what: str, value: Any, least: int, rank: int) -> tuple[int, ...]:
    """`value`, one integer or one for each of `rank` axes, as `rank` integers that are at least
    `least`."""
    try:
        found = tuple(
            [
                operator.index(v)
                for v in (value if isinstance(value, (tuple, list)) else (value,) * rank)
            ]
        )
    except TypeError:
        raise ValueError(
            f"{name}: wants {what} as an integer{_AXES[rank]}, got {value!r}"
        ) from None
    if len(found) != rank or min(found) < least:
        raise ValueError(f"{name}: wants {what} as {_COUNT[rank]} >= {least}, got {value!r}")
    if max(found) > _MOST:
        raise ValueError(f"{name}: wants {what} of at most {_MOST}, got {value!r}")
    return found


def pair(name: str, what: str, value: Any, least: int) -> tuple[int, int]:
    """`value`, one integer or two (rows, columns), as two that are at least `least`."""
    rows, columns = several(name, what, value, least, 2)
    return rows, columns


def images(name: str, x: Any, rank: int = 2) -> ndarray:
    """x as a floating-point array (N, C, H, W), or of another number of spatial axes."""
    x = require(name, x, FLOATING)
    if x.ndim != rank + 2:
        raise ValueError(f"{name}: wants x of shape (N, C, {_SHAPE[rank]}), got shape {x.shape}")
    return x


def _margins(
    name: str,
    padding: Any,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    kernel: tuple[int, ...],
) -> tuple[int, ...]:
    """Padding before and after each axis: (top, bottom, left, right) for two."""
    rank = len(kernel)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"{name}: wants padding as integers, 'same' or 'valid', got {padding!r}"
            )
        if padding == "same" and max(stride) != 1:
            raise ValueError(f"{name}: padding 'same' wants stride 1, got stride {stride}")
        both = [
            d * (n - 1) if padding == "same" else 0 for d, n in zip(dilation, kernel, strict=True)
        ]
        return tuple([half for n in both for half in (n // 2, n - n // 2)])
    return tuple([n for n in several(name, "padding", padding, 0, rank) for _ in (0, 1)])


def _operands(
    name: str, rank: int, x: Any, weight: Any, bias: Any, groups: Any, transposed: bool = False
) -> tuple[list[ndarray], int]:
    """x, weight and, if there is one, bias, of one dtype and of shapes that fit; groups."""
    x = images(name, x, rank)
    weight = require(name, weight, FLOATING, "weights")
    wanted = "(C, K / groups, " if transposed else "(K, C / groups, "
    if weight.ndim != rank + 2 or 0 in weight.shape[2:]:
        raise ValueError(
            f"{name}: wants weight of shape {wanted}{_TAPS[rank]}), got shape {weight.shape}"
        )
    try:
        groups = operator.index(groups)
    except TypeError:
        raise ValueError(f"{name}: wants groups as an integer, got {groups!r}") from None
    channels, first = x.shape[1], weight.shape[0]
    if groups < 1 or channels % groups or first % groups:
        raise ValueError(
            f"{name}: groups must divide the {channels} channels of x {x.shape} and the {first} "
            f"{'channels' if transposed else 'outputs'} of weight {weight.shape}, got "
            f"groups={groups}"
        )
    if transposed and first != channels:
        raise ValueError(
            f"{name}: x {x.shape} has {channels} channels, so weight wants {channels} in its "
            "first axis, got "
            f"weight {weight.shape}"
        )
    if not transposed and weight.shape[1] * groups != channels:
        raise ValueError(
            f"{name}: x {x.shape} has {channels} channels in {groups} groups, so weight wants "
            f"{channels // groups} in its second axis, got weight {weight.shape}"
        )
    outputs = weight.shape[1] * groups if transposed else first
    operands = [x, weight]
    if bias is not None:
        operands.append(require(name, bias, FLOATING, "biases"))
        if operands[2].shape != (outputs,):
            raise ValueError(
                f"{name}: wants bias of shape ({outputs},) for weight {weight.shape}, "
                f"got shape {operands[2].shape}"
            )
    if any(a.dtype != x.dtype for a in operands):
        found = ", ".join(str(a.dtype) for a in operands)
        raise TypeError(f"{name}: wants x, weight and bias of one dtype, got {found}")
    return operands, groups


def _windows(
    name: str, rank: int, x: ndarray, weight: ndarray, stride: Any, padding: Any, dilation: Any
) -> dict[str, tuple[int, ...]]:
    """stride, padding (before and after each axis) and dilation, checked against the shapes."""
    strides, dilations = (
        several(name, what, value, 1, rank)
        for what, value in (("stride", stride), ("dilation", dilation))
    )
    margins = _margins(name, padding, strides, dilations, weight.shape[2:])
    for i in range(rank):
        padded = x.shape[2 + i] + margins[2 * i] + margins[2 * i + 1]
        window = dilations[i] * (weight.shape[2 + i] - 1) + 1
        if window > padded:
            raise ValueError(
                f"{name}: a window of {window} {_ALONG[rank][i]} (weight {weight.shape}, dilation "
                f"{dilations}) is larger than the {padded} of the padded images (x {x.shape}, "
                "padding "
                f"{padding!r})"
            )
    return {"stride": strides, "padding": margins, "dilation": dilations}


def _tf32(x: ndarray) -> bool:
    """Whether a GPU may round these numbers to TF32."""
    return x.dtype == float32 and tf32_allowed()


@fast_path("x", "weight", "bias")
def conv2d(
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] | str = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> ndarray:
    """Two-dimensional convolution of images (cross-correlation, as in every ML library).

    y[n, k, p, q] = bias[k] + sum over c, r, s of
    weight[k, c, r, s] * x[n, c', p * stride + r * dilation - padding, q * stride + s * dilation -
    padding], where x is 0 outside, and c' is channel c of the group that output k belongs to. P =
    floor((H + 2 padding - dilation (R - 1) - 1) / stride) + 1; Q alike.

    Parameters
    ----------
    x : array (N, C, H, W) of float16, bfloat16, float32 or float64
        Images. 16-bit numbers are summed in float32. Any strides.
    weight : array (K, C / groups, R, S), dtype of `x`
        Filters.
    bias : array (K,), dtype of `x`, optional
        Added to every position.
    stride : int or (rows, columns), at least 1, default 1
        Distance between windows, and between the taps of a window.
    padding : int or (rows, columns), at least 0; or "valid" (none) or "same", default 0
        Zeros around the images. "same" keeps H x W (stride 1 only); an odd total puts the extra one
        below and right.
    dilation : int or (rows, columns), at least 1, default 1
        Distance between windows, and between the taps of a window.
    groups : int, default 1
        Splits channels and outputs into this many equal groups; an output sees the channels of its
        own group only. groups = C is a depthwise convolution.

    Returns
    -------
    ndarray
        (N, K, P, Q), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point, or the dtypes differ.
    ValueError
        Shapes that do not fit each other or `groups`; a stride, padding or dilation out of range; a
        window larger than the padded images.

    Notes
    -----
    Gradient: with respect to x, weight and bias, of any order. Every sum is taken in a fixed order:
    the same inputs give the same bits. In 16 bits, an infinity or NaN of x may make the gradients
    of all taps of its channel NaN. Whether one in a filter, over zeros of the padding, gives NaN or
    nothing depends on the algorithm (as in PyTorch on the CPU).

    Accuracy: float32 stays float32, unless `set_matmul_precision("tf32")` lets cuDNN round its
    inputs to 10 bits. Large float32 convolutions that go to cuDNN (`cm.explain` says which) may be
    done through Fourier's or Winograd's transform: errors are then within 2e-6 of the largest sum
    of |products| of the result, where they are otherwise within 2e-6 of each one's own. An infinity
    reaches the results whose windows hold it, behind a transform, too: what is not finite is added
    up anew there. Version "folded" (16-bit images of up to 4 channels) also multiplies zeros:
    beside an infinity it finds NaN up to 3 pixels further than others. So does "whole_channels" (16
    bits, groups of few channels): beside an infinity or NaN, results of neighbouring groups may be
    NaN.

    Speed: on a GPU keep 16-bit images and weights channels last in memory, (N, H, W, C) seen
    through `.transpose(0, 3, 1, 2)`: tensor cores read them so, and results come so. Others are
    turned in a pass of their own.

    References
    ----------
    .. [1] Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.asarray([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]])
    >>> edges = cm.asarray([[[[1.0, -1.0]]]])
    >>> cm.ml.conv2d(x, edges).tolist()
    [[[[-1.0, -1.0], [-1.0, -1.0], [-1.0, -1.0]]]]
    >>> cm.ml.conv2d(x, cm.ones((4, 1, 3, 3)), cm.ones(4), stride=2, padding=1).shape
    (1, 4, 2, 2)
    """
    (x, weight, *biases), groups = _operands("conv2d", 2, x, weight, bias, groups)
    where = _windows("conv2d", 2, x, weight, stride, padding, dilation)
    return _conv2d(x, weight, *biases, **where, groups=groups, tf32=_tf32(x))


@fast_path("x", "weight", "bias")
def conv1d(
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    stride: int = 1,
    padding: int | str = 0,
    dilation: int = 1,
    groups: int = 1,
) -> ndarray:
    """One-dimensional convolution of sequences (cross-correlation, as in every ML library).

    y[n, k, p] = bias[k] + sum over c, r of weight[k, c, r] * x[n, c', p * stride + r * dilation -
    padding], where x is 0 outside, and c' is channel c of the group that output k belongs to. P =
    floor((L + 2 padding - dilation (R - 1) - 1) / stride) + 1.

    Parameters
    ----------
    x : array (N, C, L) of float16, bfloat16, float32 or float64
        Sequences. 16-bit numbers are summed in float32.
    weight : array (K, C / groups, R), dtype of `x`
        Filters.
    bias : array (K,), dtype of `x`, optional
        Added to every position.
    stride : int, default 1
        As in `conv2d`, along the one axis.
    padding : int or str, default 0
        As in `conv2d`, along the one axis.
    dilation, groups : int, default 1
        As in `conv2d`, along the one axis.

    Returns
    -------
    ndarray
        (N, K, P), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point, or the dtypes differ.
    ValueError
        Shapes that do not fit each other or `groups`; a stride, padding or dilation out of range; a
        window larger than the padded images.

    Notes
    -----
    Gradient: with respect to x, weight and bias, of any order. Every sum is taken in a fixed order.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.conv1d([[[1.0, 2.0, 4.0, 7.0]]], [[[-1.0, 1.0]]]).tolist()
    [[[1.0, 2.0, 3.0]]]
    """
    (x, weight, *biases), groups = _operands("conv1d", 1, x, weight, bias, groups)
    where = _windows("conv1d", 1, x, weight, stride, padding, dilation)
    y = _conv2d(
        expand_dims(x, axis=2),
        expand_dims(weight, axis=2),
        *biases,
        stride=(1, *where["stride"]),
        padding=(0, 0, *where["padding"]),
        dilation=(1, *where["dilation"]),
        groups=groups,
        tf32=_tf32(x),
    )
    return squeeze(y, axis=2)


@fast_path("x", "weight", "bias")
def conv3d(
    x: Any,
    weight: Any,
    bias: ArrayLike | None = None,
    *,
    stride: int | tuple[int, int, int] = 1,
    padding: int | tuple[int, int, int] | str = 0,
    dilation: int | tuple[int, int, int] = 1,
    groups: int = 1,
) -> ndarray:
    """Three-dimensional convolution of volumes or videos.

    Cross-correlation, as in every ML library.

    y[n, k, o, p, q] = bias[k] + sum over c, t, r, s of weight[k, c, t, r, s] *
    x[n, c', o * stride + t * dilation - padding, (rows alike), (columns alike)], where x is 0
    outside, and c' is channel c of the group that output k belongs to. Sizes of y as in `conv2d`,
    along three axes.

    Parameters
    ----------
    x : array (N, C, D, H, W) of float16, bfloat16, float32 or float64
        Volumes. 16-bit numbers are summed in float32.
    weight : array (K, C / groups, T, R, S), dtype of `x`
        Filters.
    bias : array (K,), dtype of `x`, optional
        Added to every position.
    stride : int or (planes, rows, columns), default 1
        As in `conv2d`, along three axes; padding "valid" and "same" too.
    padding : int or (planes, rows, columns), default 0
        As in `conv2d`, along three axes; padding "valid" and "same" too.
    dilation : int or (planes, rows, columns), default 1
        As in `conv2d`, along three axes; padding "valid" and "same" too.
    groups : int, default 1
        As in `conv2d`.

    Returns
    -------
    ndarray
        (N, K, O, P, Q), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point, or the dtypes differ.
    ValueError
        Shapes that do not fit each other or `groups`; a stride, padding or dilation out of range; a
        window larger than the padded images.

    Notes
    -----
    Gradient: with respect to x, weight and bias, of any order. Every sum is taken in a fixed order.

    Memory: on a GPU, where there is much to do or no cuDNN, the planes that the windows meet are
    copied once for each of the T taps along the depth (no copy if T, the stride and the padding of
    the depth are 1, 1 and 0).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.conv3d(cm.ones((1, 1, 3, 3, 3)), cm.ones((1, 1, 2, 3, 3))).tolist()
    [[[[[18.0]], [[18.0]]]]]
    """
    (x, weight, *biases), groups = _operands("conv3d", 3, x, weight, bias, groups)
    where = _windows("conv3d", 3, x, weight, stride, padding, dilation)
    results = [
        (
            n
            + sum(where["padding"][2 * i : 2 * i + 2])
            - where["dilation"][i] * (weight.shape[2 + i] - 1)
            - 1
        )
        // where["stride"][i]
        + 1
        for i, n in enumerate(x.shape[2:])
    ]
    shape = x.shape[0], weight.shape[0], *results
    small = little(math.prod(shape), weight)
    if small or by_library(
        "forward", math.prod(shape), [x, weight, *biases], shape, **where, groups=groups
    ):
        return _conv3d(x, weight, *biases, **where, groups=groups, library=not small)
    (step, *strides), (before, after, *margins), (apart, *dilations) = (
        where["stride"],
        where["padding"],
        where["dilation"],
    )
    taps = weight.shape[2]
    if before or after:
        zeros = (0, 0)  # 16 bytes of them
        x = _pad(x, scalars=zeros, widths=((0, 0), (0, 0), (before, after), (0, 0), (0, 0)))
    planes = (x.shape[2] - apart * (taps - 1) - 1) // step + 1
    met = [x[:, :, t * apart : t * apart + (planes - 1) * step + 1 : step] for t in range(taps)]
    if x._node is None:  # one view of all, in which planes occur again
        layout = met[0]._layout
        shape, (of_n, of_c, of_plane, *inside) = layout.shape, layout.strides
        everything = (
            (shape[0], planes, shape[1], taps, *shape[3:]),
            (of_n, of_plane, of_c, x.strides[2] * apart, *inside),
        )
        side_by_side = met[0]._view(layout.view(*everything))
    else:
        side_by_side = moveaxis(
            stack(met, axis=2) if taps > 1 else met[0][:, :, None], 3, 1
        )  # (N, O, C, T, H, W)
    count, _, channels = side_by_side.shape[:3]
    y = _conv2d(
        reshape(side_by_side, (count * planes, channels * taps, *x.shape[3:])),
        reshape(weight, (weight.shape[0], weight.shape[1] * taps, *weight.shape[3:])),
        *biases,
        stride=tuple(strides),
        padding=tuple(margins),
        dilation=tuple(dilations),
        groups=groups,
        tf32=_tf32(x),
    )
    return moveaxis(reshape(y, (count, planes, *y.shape[1:])), 1, 2)


@fast_path("x", "weight", "bias")
def conv_transpose2d(
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    output_padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> ndarray:
    """Transposed convolution: every pixel of x adds its copy of the filter to y.

    The input gradient of `conv2d`.

    y[n, k, h, w] = bias[k] + sum of weight[c, k, r, s] * x[n, c, p, q] over all c of k's group and
    all p, q, r, s with p * stride + r * dilation - padding = h and q * stride + s * dilation -
    padding = w. H' = (H - 1) stride - 2 padding + dilation (R - 1) + output_padding + 1; W' alike.

    Parameters
    ----------
    x : array (N, C, H, W) of float16, bfloat16, float32 or float64
        Images. 16-bit numbers are summed in float32.
    weight : array (C, K / groups, R, S), dtype of `x`
        Filters: one for each channel of `x`.
    bias : array (K,), dtype of `x`, optional
        Added to every position.
    stride : int or (rows, columns), at least 1, default 1
        Distance between the copies, and between the taps of one.
    padding : int or (rows, columns), at least 0, default 0
        What is cut off at each edge of y: the padding of the convolution whose gradient this is.
    output_padding : int or (rows, columns), at least 0, less than `stride` or `dilation`, default 0
        Rows and columns more, below and right.
    dilation : int or (rows, columns), at least 1, default 1
        Distance between the copies, and between the taps of one.
    groups : int, default 1
        Splits channels and outputs into this many equal groups.

    Returns
    -------
    ndarray
        (N, K, H', W'), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point, or the dtypes differ.
    ValueError
        Shapes that do not fit each other or `groups`; options out of range; nothing left of y.

    Notes
    -----
    Gradient: with respect to x, weight and bias, of any order. Every sum is taken in a fixed order.

    References
    ----------
    .. [1] Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.conv_transpose2d([[[[1.0, 2.0]]]], [[[[1.0, 10.0]]]], stride=2).tolist()
    [[[[1.0, 10.0, 2.0, 20.0]]]]
    """
    name = "conv_transpose2d"
    (x, weight, *biases), groups = _operands(name, 2, x, weight, bias, groups, transposed=True)
    strides, dilations = pair(name, "stride", stride, 1), pair(name, "dilation", dilation, 1)
    margins, more = (
        pair(name, "padding", padding, 0),
        pair(name, "output_padding", output_padding, 0),
    )
    if any(m >= max(s, d) for m, s, d in zip(more, strides, dilations, strict=True)):
        raise ValueError(
            f"{name}: wants output_padding less than stride or dilation, got output_padding "
            f"{more}, stride "
            f"{strides}, dilation {dilations}"
        )
    size = tuple(
        [
            (x.shape[2 + i] - 1) * strides[i]
            - 2 * margins[i]
            + dilations[i] * (weight.shape[2 + i] - 1)
            + more[i]
            + 1
            for i in (0, 1)
        ]
    )
    if min(size) < 1:
        raise ValueError(
            f"{name}: nothing is left of y: its size would be {size} (x {x.shape}, weight "
            f"{weight.shape}, stride "
            f"{strides}, padding {margins}, dilation {dilations})"
        )
    # The convolution whose gradient this is has less padding below and right by what output_padding
    # adds; rows and columns that none of its windows would reach are zeros.
    ends = [max(0, p - m) for p, m in zip(margins, more, strict=True)]
    empty = [max(0, m - p - (s - 1)) for p, m, s in zip(margins, more, strides, strict=True)]
    where: dict[str, Any] = {
        "size": tuple([n - e for n, e in zip(size, empty, strict=True)]),
        "stride": strides,
        "padding": (margins[0], ends[0], margins[1], ends[1]),
        "dilation": dilations,
        "groups": groups,
    }
    if max(empty):
        y = pad(
            _conv2d_input_grad(x, weight, **where), ((0, 0), (0, 0), (0, empty[0]), (0, empty[1]))
        )
        return y + biases[0][:, None, None] if biases else y
    return _conv2d_input_grad(x, weight, *biases, **where)


# The three are one trilinear form in (x, weight, gradient): the gradients of each are the other
# two, to any order. A gradient that nothing waits for (of the images, in a network's first layer)
# is not computed.


def _conv2d_rule(
    g: ndarray, _y: None, x: ndarray, weight: ndarray, *_bias: None, **where: Any
) -> tuple:
    return (
        _conv2d_input_grad(g, weight, size=x.shape[2:], **where) if x._node else None,
        _conv2d_weight_grad(g, x, kernel=weight.shape[2:], **where) if weight._node else None,
        *[g.sum(axis=(0, 2, 3)) for _ in _bias],
    )


def _input_grad_rule(
    g: ndarray, _y: None, grad: ndarray, weight: ndarray, *_bias: None, size: Any, **where: Any
) -> tuple:
    return (
        _conv2d(g, weight, **where) if grad._node else None,
        _conv2d_weight_grad(grad, g, kernel=weight.shape[2:], **where) if weight._node else None,
        *[g.sum(axis=(0, 2, 3)) for _ in _bias],
    )


def _weight_grad_rule(
    g: ndarray, _y: None, grad: ndarray, x: ndarray, *, kernel: Any, **where: Any
) -> tuple:
    return (
        _conv2d(x, g, **where) if grad._node else None,
        _conv2d_input_grad(grad, g, size=x.shape[2:], **where) if x._node else None,
    )


_conv2d = Op("conv2d", cpu="conv.conv2d", cuda="conv.dispatch.conv2d", vjp=_conv2d_rule)
_conv2d_input_grad = Op(
    "_conv2d_input_grad",
    cpu="conv.conv2d_input_grad",
    cuda="conv.dispatch.conv2d_input_grad",
    vjp=_input_grad_rule,
)
_conv2d_weight_grad = Op(
    "_conv2d_weight_grad",
    cpu="conv.conv2d_weight_grad",
    cuda="conv.dispatch.conv2d_weight_grad",
    vjp=_weight_grad_rule,
)
