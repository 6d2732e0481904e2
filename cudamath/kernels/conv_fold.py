"""Folding images: every 2 x 2 pixels become one, of four times the channels.

    y[n, (2 a + b) C + c, i, j] = x[n, c, 2 i + a, 2 j + b],   zeros beyond the edges and in the channels that are left

Tensor cores multiply 16 channels at a time. The first convolution of most networks sees 3 (red, green, blue) and has a
stride of two: a product of 3 numbers would fill a fifth of them. Folded, its 12 numbers fill three quarters, and it has a
quarter of the taps (ml/conv_fold.py).

A thread makes a pixel of y: channels last, so it writes them side by side, 16 bytes at once. `unfold` goes back, an element
a thread; it is the gradient, and the gradient of filters alone, which are few.
The floor is memory: read x, write y.
"""

import functools

from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan
from .build import blocks, codec
from .conv_layout import as_last
from .lazy import cuda
from .rows import vector_width, writer

THREADS = 256


@functools.cache
def fold(dtype, own, channels, width):
    """x: (N, own, H, W), y: (N * P * Q * channels,), channels last; a thread a pixel of y, which writes `width` at a time."""
    load, _, T = codec(dtype)
    write = writer(dtype, width)

    @cuda.jit
    def conv_fold(x, y, tall, wide):
        i = cuda.grid(1)
        images, _, height, columns = x.shape
        v = cuda.local.array(channels, T)
        if i < images * tall * wide:
            n, h, w = i // (tall * wide), i // wide % tall * 2, i % wide * 2
            for e in range(channels):
                c, at = e % own, e // own
                row, column = h + at // 2, w + at % 2
                v[e] = T(0)
                if at < 4 and row < height and column < columns:
                    v[e] = load(x[n, c, row, column])
            for e in range(0, channels, width):
                write(y, i * channels + e, v, e)

    return conv_fold


@cuda.jit
def conv_unfold_kernel(y, x, own, height, columns):
    """y: (N, channels, P, Q), x: (N * height * columns * own,), channels last; one thread an element of x."""
    i = cuda.grid(1)
    if i < x.size:
        c, w, h, n = i % own, i // own % columns, i // (own * columns) % height, i // (own * columns * height)
        x[i] = y[n, (h % 2 * 2 + w % 2) * own + c, h // 2, w // 2]


def conv_fold(x: Layout, *, channels: int) -> Plan:
    """x (N, C, H, W) -> (N, channels, (H + 1) // 2, (W + 1) // 2), channels last; 4 C <= channels."""
    tall, wide = [(n + 1) // 2 for n in x.shape[2:]]
    out = as_last(x, (x.shape[0], channels, tall, wide))
    if not out.size:
        return Plan([out], [])
    kernel = fold(x.dtype, x.shape[1], channels, vector_width(channels, out))
    return Plan([out], [Launch(kernel, blocks(x.shape[0] * tall * wide, THREADS), THREADS,
                               [Input(0), Output(0).view((out.size,)), tall, wide])])


def conv_unfold(y: Layout, *, shape: tuple[int, ...]) -> Plan:
    """y (N, channels, P, Q) -> x of `shape` (N, C, H, W), channels last."""
    out = as_last(y, shape)
    return Plan([out], [Launch(conv_unfold_kernel, blocks(out.size, THREADS), THREADS,
                               [Input(0), Output(0).view((out.size,)), shape[1], *shape[2:]])] if out.size else [])
