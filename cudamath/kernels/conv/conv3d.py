"""Convolutions of volumes by one launch: where there is little to do, of the plain kernels of
direct.py, dgrad_simt.py and wgrad_simt.py, which know planes besides rows and columns; where
there is more, of cuDNN's, where that is installed. (Larger ones, and all without it, become
convolutions of images: ml/conv.py.)
"""

import functools
import math

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime import cudnn
from ..copy.channels_last import result
from . import dgrad_simt, dispatch, fprop_simt, geometry, wgrad_simt
from .direct import conv2d_direct
from .geometry import Sources, Walk, grouped

Triple = tuple[int, ...]  # planes, rows, columns; of padding: in front and behind of each


# -------------------- cuDNN


@functools.lru_cache(maxsize=1024)
def by_library(
    kind: str,
    out: Layout,
    first: Layout,
    second: Layout,
    bias: Layout | None,
    stride: Triple,
    padding: Triple,
    dilation: Triple,
) -> Plan | None:
    """The plan of one of the three functions through cuDNN; None if it has nothing for it. Kept, as
    it takes milliseconds to make and is asked for twice: by `served`, and when it is to run.

    It sees 16-bit numbers channels last, as tensor cores read them, and others in C order."""

    def found(added: Layout | None) -> Plan | None:
        return dispatch.library(
            kind,
            out,
            first,
            second,
            added,
            stride=stride,
            padding=padding,
            dilation=dilation,
            tf32=False,
            last=out.itemsize == 2,
        )

    plan = found(bias) if kind == "forward" else None
    if plan is None and (kind != "forward" or bias is not None):
        plan = dispatch.biased(found(None), bias)
    if plan is not None:
        plan.why = "cudnn: one launch, where the images that volumes are made of take several"
    return plan


def _result(like: Layout, shape: tuple[int, ...], library: bool) -> Layout:
    """The layout of a result: in C order, but where cuDNN reads and writes 16-bit numbers as the
    operand lies."""
    return result(like, shape) if library and like.itemsize == 2 else like.like(shape)


def served(
    kinds: tuple[str, ...],
    given: Layout,
    weight: Layout,
    bias: Layout | None,
    shape: tuple[int, ...],
    stride: Triple,
    padding: Triple,
    dilation: Triple,
) -> bool:
    """Whether cuDNN does all these kinds. The first, of volumes `given` with these filters to
    volumes of this shape, is asked for; the others, its gradients, may be."""
    if not cudnn.available():
        return False
    other = _result(given, shape, True)
    x, y = (other, given) if kinds[0] == "input" else (given, other)
    operands = {
        "forward": (y, x, weight),
        "input": (x, y, weight),
        "weight": (_result(x, weight.shape, True), y, x),
    }
    return all(
        by_library(
            kind, *operands[kind], None if kind != kinds[0] else bias, stride, padding, dilation
        )
        is not None
        for kind in kinds
    )


# -------------------- planners


def _walks(stride: Triple, padding: Triple, dilation: Triple) -> list[Walk]:
    return [
        Walk(-front, step, apart)
        for front, step, apart in zip(padding[::2], stride, dilation, strict=True)
    ]


def _plan(out: Layout, sources: Sources, *steps: Launch) -> Plan:
    return Plan([out], [*sources.steps, *steps], sources.temps)


def conv3d(
    x: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    stride: Triple,
    padding: Triple,
    dilation: Triple,
    groups: int,
    library: bool = False,
) -> Plan:
    """x (N, G*C, D, H, W), weight (G*M, C, T, R, S), bias (G*M,) -> (N, G*M, O, P, Q). library: by
    cuDNN, if it can."""
    size = [
        (n + padding[2 * i] + padding[2 * i + 1] - dilation[i] * (weight.shape[2 + i] - 1) - 1)
        // stride[i]
        + 1
        for i, n in enumerate(x.shape[2:])
    ]
    out = _result(x, (x.shape[0], weight.shape[0], *size), library)
    if not out.size:
        return Plan([out], [])
    known = (
        by_library("forward", out, x, weight, bias, stride, padding, dilation) if library else None
    )
    if known is not None:
        return known
    sources = Sources(*([x, weight] if bias is None else [x, weight, bias]))
    (x_arg, x), (w_arg, weight), *rest = sources.found
    return _plan(
        out,
        sources,
        fprop_simt.direct(
            conv2d_direct,
            x.dtype,
            grouped(x_arg, x, groups, 1),
            grouped(w_arg, weight, groups, 0),
            rest[0][0] if rest else None,
            grouped(Output(0), out, groups, 1),
            weight.shape[1],
            math.prod(weight.shape[2:]),
            geometry.walks(*_walks(stride, padding, dilation)),
        ),
    )


def conv3d_input_grad(
    grad: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    size: Triple,
    stride: Triple,
    padding: Triple,
    dilation: Triple,
    groups: int,
    library: bool = False,
) -> Plan:
    """grad (N, G*M, O, P, Q), weight (G*M, C, T, R, S), bias (G*C,), size (D, H, W) -> (N, G*C, D,
    H, W)."""
    out = _result(grad, (grad.shape[0], groups * weight.shape[1], *size), library)
    if not out.size:
        return Plan([out], [])
    known = (
        by_library("input", out, grad, weight, bias, stride, padding, dilation) if library else None
    )
    if known is not None:
        return known
    sources = Sources(*([grad, weight] if bias is None else [grad, weight, bias]))
    (g_arg, grad), (w_arg, weight), *rest = sources.found
    return _plan(
        out,
        sources,
        dgrad_simt.direct(
            grad.dtype,
            grouped(g_arg, grad, groups, 1),
            grouped(w_arg, weight, groups, 0),
            rest[0][0] if rest else None,
            grouped(Output(0), out, groups, 1),
            stride,
            padding[::2],
            dilation,
        ),
    )


def conv3d_weight_grad(
    grad: Layout,
    x: Layout,
    *,
    kernel: Triple,
    stride: Triple,
    padding: Triple,
    dilation: Triple,
    groups: int,
    library: bool = False,
) -> Plan:
    """grad (N, G*M, O, P, Q), x (N, G*C, D, H, W), kernel (T, R, S) -> (G*M, C, T, R, S)."""
    out = _result(x, (grad.shape[1], x.shape[1] // groups, *kernel), library)
    if not out.size:
        return Plan([out], [])
    known = by_library("weight", out, grad, x, None, stride, padding, dilation) if library else None
    if known is not None:
        return known
    sources = Sources(grad, x)
    (g_arg, grad), (x_arg, x) = sources.found
    return _plan(
        out,
        sources,
        wgrad_simt.direct(
            grad.dtype,
            grouped(g_arg, grad, groups, 1),
            grouped(x_arg, x, groups, 1),
            grouped(Output(0), out, groups, 0),
            *_walks(stride, padding, dilation),
        ),
    )
