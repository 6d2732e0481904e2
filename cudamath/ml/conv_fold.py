"""Convolutions of stride two over images of few channels, as ones of stride one over folded images.

Row 2 p + r - padding of x, which output row p meets at tap r, is one of the two rows of folded row p + r' - padding', if r
is counted so that r - padding is even where r' begins. So filters get zeros in front where the padding is odd, and behind
where their size then is; folded like the images, they have half the taps along each axis and four times the channels.
"""

from __future__ import annotations

from ..core.array import ndarray
from ..core.op import Op
from ..ops.padding import pad
from ..runtime.device import capability

CHANNELS = 16  # what tensor cores sum at a time


def serves(x: ndarray, weight: ndarray, stride: tuple[int, ...], dilation: tuple[int, ...], groups: int) -> bool:
    """Whether folding pays: 16-bit images of a few channels, where tensor cores read 16 (compute capability 9.0)."""
    return (x._layout.device >= 0 and x.itemsize == 2 and stride == (2, 2) and dilation == (1, 1) and groups == 1
            and 4 * x.shape[1] <= CHANNELS and weight.shape[0] % 8 == 0 and min(weight.shape[2:]) > 1
            and 0 not in x.shape and capability(x._layout.device)[0] == 9)


def folded(x: ndarray, weight: ndarray, padding: tuple[int, ...]
           ) -> tuple[ndarray, ndarray, tuple[int, int, int, int]] | None:
    """(images, filters, padding) of the convolution of stride one; None if what it would see is more than zeros too much."""
    kernel = weight.shape[2:]
    front, taps, margins = [], [], []
    for i in (0, 1):
        before, after = padding[2 * i:2 * i + 2]
        front.append(before % 2)
        taps.append((kernel[i] + front[i] + 1) // 2)
        size = (x.shape[2 + i] + before + after - kernel[i]) // 2 + 1
        begin = (before + front[i]) // 2
        end = size - (x.shape[2 + i] + 1) // 2 - begin + taps[i] - 1
        if end < 0:
            return None
        margins += [begin, end]
    zeros = [(front[i], 2 * taps[i] - kernel[i] - front[i]) for i in (0, 1)]
    filters = _conv_fold(pad(weight, ((0, 0), (0, 0), *zeros)), channels=CHANNELS)
    top, bottom, left, right = margins
    return _conv_fold(x, channels=CHANNELS), filters, (top, bottom, left, right)


def _conv_fold_rule(g: ndarray, _y: None, x: ndarray, *, channels: int) -> tuple:
    return (_conv_unfold(g, shape=x.shape),)


def _conv_unfold_rule(g: ndarray, _x: None, y: ndarray, *, shape: tuple[int, ...]) -> tuple:
    return (_conv_fold(g, channels=y.shape[1]),)


_conv_fold = Op("conv_fold", cpu="conv_fold.conv_fold", cuda="conv_fold.conv_fold", vjp=_conv_fold_rule)
_conv_unfold = Op("conv_unfold", cpu="conv_fold.conv_unfold", cuda="conv_fold.conv_unfold", vjp=_conv_unfold_rule)
