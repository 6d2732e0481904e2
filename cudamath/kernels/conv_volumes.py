"""Convolutions of volumes where there is little to do: one launch of the plain kernels of conv_direct.py, conv_input.py
and conv_grad.py, which know planes besides rows and columns. (Larger ones become convolutions of images: ml/conv.py.)
"""

import math

from ..core.layout import Layout
from ..core.plan import Launch, Output, Plan
from . import conv_grad, conv_input, conv_simt
from .conv_direct import conv2d_direct
from .conv_simt import Sources, Walk, grouped

Triple = tuple[int, ...]  # planes, rows, columns; of padding: in front and behind of each


def _walks(stride: Triple, padding: Triple, dilation: Triple) -> list[Walk]:
    return [Walk(-front, step, apart) for front, step, apart in zip(padding[::2], stride, dilation, strict=True)]


def _plan(out: Layout, sources: Sources, *steps: Launch) -> Plan:
    return Plan([out], [*sources.steps, *steps], sources.temps)


def conv3d(x: Layout, weight: Layout, bias: Layout | None = None, *, stride: Triple, padding: Triple, dilation: Triple,
           groups: int) -> Plan:
    """x (N, G*C, D, H, W), weight (G*M, C, T, R, S), bias (G*M,) -> (N, G*M, O, P, Q)."""
    size = [(n + padding[2 * i] + padding[2 * i + 1] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i] + 1
            for i, n in enumerate(x.shape[2:])]
    out = x.like((x.shape[0], weight.shape[0], *size))
    if not out.size:
        return Plan([out], [])
    sources = Sources(*([x, weight] if bias is None else [x, weight, bias]))
    (x_arg, x), (w_arg, weight), *rest = sources.found
    return _plan(out, sources, conv_simt.direct(
        conv2d_direct, x.dtype, grouped(x_arg, x, groups, 1), grouped(w_arg, weight, groups, 0),
        rest[0][0] if rest else None, grouped(Output(0), out, groups, 1), math.prod(weight.shape[1:]),
        conv_simt.walks(*_walks(stride, padding, dilation))))


def conv3d_input_grad(grad: Layout, weight: Layout, bias: Layout | None = None, *, size: Triple, stride: Triple,
                      padding: Triple, dilation: Triple, groups: int) -> Plan:
    """grad (N, G*M, O, P, Q), weight (G*M, C, T, R, S), bias (G*C,), size (D, H, W) -> (N, G*C, D, H, W)."""
    out = grad.like((grad.shape[0], groups * weight.shape[1], *size))
    if not out.size:
        return Plan([out], [])
    sources = Sources(*([grad, weight] if bias is None else [grad, weight, bias]))
    (g_arg, grad), (w_arg, weight), *rest = sources.found
    return _plan(out, sources, conv_input.direct(
        grad.dtype, grouped(g_arg, grad, groups, 1), grouped(w_arg, weight, groups, 0), rest[0][0] if rest else None,
        grouped(Output(0), out, groups, 1), stride, padding[::2], dilation))


def conv3d_weight_grad(grad: Layout, x: Layout, *, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple,
                       groups: int) -> Plan:
    """grad (N, G*M, O, P, Q), x (N, G*C, D, H, W), kernel (T, R, S) -> (G*M, C, T, R, S)."""
    out = x.like((grad.shape[1], x.shape[1] // groups, *kernel))
    if not out.size:
        return Plan([out], [])
    sources = Sources(grad, x)
    (g_arg, grad), (x_arg, x) = sources.found
    return _plan(out, sources, conv_grad.direct(
        grad.dtype, grouped(g_arg, grad, groups, 1), grouped(x_arg, x, groups, 1), grouped(Output(0), out, groups, 0),
        *_walks(stride, padding, dilation)))
