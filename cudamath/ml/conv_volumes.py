"""The cards of convolutions of volumes where there is little to do: on a GPU each is one launch (kernels/conv_volumes.py).

Larger ones are made of convolutions of images (`conv3d`, `conv_transpose3d`). All three do the same number of multiply-adds, so
the gradients of what is small are small.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.array import ndarray
from ..core.op import Op

LITTLE, TAPS = 1 << 21, 1 << 11  # multiply-adds, in all and for a result of either side


def little(results: int, weight: ndarray) -> bool:
    """Whether a convolution with these filters that has `results` is sooner done by one launch than by several."""
    outputs, channels, *kernel = weight.shape
    taps = math.prod(kernel)
    return max(outputs, channels) * taps <= TAPS and results * channels * taps <= LITTLE


# The three are one trilinear form, as those of images: see conv.py.


def _conv3d_rule(g: ndarray, _y: None, x: ndarray, weight: ndarray, *_bias: None, **where: Any) -> tuple:
    return (_conv3d_input_grad(g, weight, size=x.shape[2:], **where) if x._node else None,
            _conv3d_weight_grad(g, x, kernel=weight.shape[2:], **where) if weight._node else None,
            *[g.sum(axis=(0, 2, 3, 4)) for _ in _bias])


def _input_grad_rule(g: ndarray, _y: None, grad: ndarray, weight: ndarray, *_bias: None, size: Any, **where: Any) -> tuple:
    return (_conv3d(g, weight, **where) if grad._node else None,
            _conv3d_weight_grad(grad, g, kernel=weight.shape[2:], **where) if weight._node else None,
            *[g.sum(axis=(0, 2, 3, 4)) for _ in _bias])


def _weight_grad_rule(g: ndarray, _y: None, grad: ndarray, x: ndarray, *, kernel: Any, **where: Any) -> tuple:
    return (_conv3d(x, g, **where) if grad._node else None,
            _conv3d_input_grad(grad, g, size=x.shape[2:], **where) if x._node else None)


_conv3d = Op("_conv3d", cpu="conv_volumes.conv3d", cuda="conv_volumes.conv3d", vjp=_conv3d_rule)
_conv3d_input_grad = Op("_conv3d_input_grad", cpu="conv_volumes.conv3d_input_grad", cuda="conv_volumes.conv3d_input_grad",
                        vjp=_input_grad_rule)
_conv3d_weight_grad = Op("_conv3d_weight_grad", cpu="conv_volumes.conv3d_weight_grad", cuda="conv_volumes.conv3d_weight_grad",
                         vjp=_weight_grad_rule)
