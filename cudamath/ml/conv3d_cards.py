"""The cards of convolutions of volumes where one launch of a GPU does them
(kernels/conv/conv3d.py): there is little to do, or neither little nor much, and cuDNN is
installed.

Others are made of convolutions of images (`conv3d`, `conv_transpose3d`). All three do the same
number of multiply-adds, so the gradients of what is small are small; of what goes to cuDNN, it is
asked for the gradients beforehand.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.array import ndarray
from ..core.dispatch.lazy_import import lazy
from ..core.dispatch.op import Op

LITTLE, TAPS = 1 << 21, 1 << 11  # multiply-adds, in all and for a result of either side
MUCH, SOME = (
    1 << 28,
    8,
)  # those below which cuDNN's one launch is taken; from how many channels and outputs on
#: The same of 16-bit numbers whose gradient is recorded: that of convolutions of images takes
#: several passes over memory (245 us where cuDNN's takes 40). But sums many times as long as there
#: are positions cuDNN leaves to a few multiprocessors (5,322 us where images take 258).
MUCH_RECORDED, LONG = 1 << 34, 4


def little(results: int, weight: ndarray) -> bool:
    """Whether a convolution with these filters that has `results` is sooner done by one launch than
    by several."""
    outputs, channels, *kernel = weight.shape
    taps = math.prod(kernel)
    return max(outputs, channels) * taps <= TAPS and results * channels * taps <= LITTLE


def by_library(
    kind: str,
    results: int,
    arrays: list[ndarray],
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> bool:
    """Whether volumes, filters and perhaps a bias, on a GPU, are sooner convolved by cuDNN to
    volumes of this shape, in one launch: "forward", or "input" (transposed). results: those of the
    convolution, or of the one whose gradient this is."""
    x, weight, *bias = [a._layout for a in arrays]
    recorded = any([a._node is not None for a in arrays])
    terms = math.prod(weight.shape[1:])
    products, positions = results * terms, results // max(weight.shape[0], 1)
    much = MUCH_RECORDED if recorded and x.itemsize == 2 and terms < LONG * positions else MUCH
    if not (
        0 < products < much
        and groups == 1
        and min(weight.shape[:2]) >= SOME
        and x.itemsize <= 4
        and x.device >= 0
        and all([a.device == x.device for a in (weight, *bias)])
    ):
        return False
    kinds = (
        (kind, *[k for k in ("forward", "input", "weight") if k != kind]) if recorded else (kind,)
    )
    return lazy("kernels", "conv.conv3d.served")(
        kinds, x, weight, bias[0] if bias else None, shape, stride, padding, dilation
    )


# The three are one trilinear form, as those of images: see conv.py.


def _conv3d_rule(
    g: ndarray, _y: None, x: ndarray, weight: ndarray, *_bias: None, **where: Any
) -> tuple:
    return (
        _conv3d_input_grad(g, weight, size=x.shape[2:], **where) if x._node else None,
        _conv3d_weight_grad(g, x, kernel=weight.shape[2:], **where) if weight._node else None,
        *[g.sum(axis=(0, 2, 3, 4)) for _ in _bias],
    )


def _input_grad_rule(
    g: ndarray, _y: None, grad: ndarray, weight: ndarray, *_bias: None, size: Any, **where: Any
) -> tuple:
    return (
        _conv3d(g, weight, **where) if grad._node else None,
        _conv3d_weight_grad(grad, g, kernel=weight.shape[2:], **where) if weight._node else None,
        *[g.sum(axis=(0, 2, 3, 4)) for _ in _bias],
    )


def _weight_grad_rule(
    g: ndarray, _y: None, grad: ndarray, x: ndarray, *, kernel: Any, **where: Any
) -> tuple:
    return (
        _conv3d(x, g, **where) if grad._node else None,
        _conv3d_input_grad(grad, g, size=x.shape[2:], **where) if x._node else None,
    )


_conv3d = Op("_conv3d", cpu="conv3d.conv3d", cuda="conv.conv3d.conv3d", vjp=_conv3d_rule)
_conv3d_input_grad = Op(
    "_conv3d_input_grad",
    cpu="conv3d.conv3d_input_grad",
    cuda="conv.conv3d.conv3d_input_grad",
    vjp=_input_grad_rule,
)
_conv3d_weight_grad = Op(
    "_conv3d_weight_grad",
    cpu="conv3d.conv3d_weight_grad",
    cuda="conv.conv3d.conv3d_weight_grad",
    vjp=_weight_grad_rule,
)
