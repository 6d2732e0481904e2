"""Convolutions of volumes by one launch, and the choice between its two versions.

Where there is little to do, the direct kernels of direct.py, dgrad_simt.py and wgrad_simt.py run;
they walk planes besides rows and columns. Where there is more, cuDNN runs, if it is installed.
Larger ones, and all of them without cuDNN, become convolutions of images (ml/conv.py).
"""

import dataclasses

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...runtime import cudnn
from ..copy.channels_last import result
from ..lib.versions import Version, choose
from .problem import Lengths, Problem, forward_shape


@dataclasses.dataclass(frozen=True)
class VolumeProblem(Problem):
    """A problem of volumes. library: whether cuDNN is preferred."""

    library: bool = False


def _possible(problem: VolumeProblem) -> bool:
    return problem.out.size > 0 and cudnn.available()


def _library(problem: VolumeProblem) -> bool:
    return problem.library


_CUDNN = Version(
    "cudnn",
    "conv.cudnn.of_volumes",
    supports=_possible,
    prefers=_library,
    reason="one launch, where the images that volumes are made of take several",
)
_LITTLE = "little work: one launch takes less time than several"
FORWARD = (_CUDNN, Version("fprop_direct", "conv.direct.forward", reason=_LITTLE))
INPUT_GRADIENT = (_CUDNN, Version("dgrad_direct", "conv.dgrad_simt.direct", reason=_LITTLE))
WEIGHT_GRADIENT = (_CUDNN, Version("wgrad_direct", "conv.wgrad_simt.direct", reason=_LITTLE))


def _result(like: Layout, shape: Lengths, library: bool) -> Layout:
    """The layout of a result: C order. Where cuDNN reads and writes 16-bit numbers, it is the order
    of the operand."""
    return result(like, shape) if library and like.itemsize == 2 else like.like(shape)


def served(
    kinds: tuple[str, ...],
    operand: Layout,
    weight: Layout,
    bias: Layout | None,
    shape: Lengths,
    stride: Lengths,
    padding: Lengths,
    dilation: Lengths,
) -> bool:
    """Whether cuDNN computes all these kinds. The first kind is about to run, of volumes `operand`
    with these filters to volumes of this shape; the others, its gradients, may follow."""
    if not cudnn.available():
        return False
    from .cudnn import of_volumes

    other = _result(operand, shape, True)
    x, y = (other, operand) if kinds[0] == "input" else (operand, other)
    for kind in kinds:
        problem = VolumeProblem(
            kind,
            x,
            _result(x, weight.shape, True) if kind == "weight" else weight,
            y,
            bias if kind == kinds[0] else None,
            stride,
            padding,
            dilation,
            library=True,
        )
        if of_volumes(problem) is None:
            return False
    return True


# -------------------- planners


def conv3d(
    x: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    stride: Lengths,
    padding: Lengths,
    dilation: Lengths,
    groups: int,
    library: bool = False,
    version: str | None = None,
) -> Plan:
    """x (N, G*C, D, H, W), weight (G*M, C, T, R, S), bias (G*M,) -> (N, G*M, O, P, Q). library: by
    cuDNN, if it can."""
    y = _result(x, forward_shape(x, weight, stride, padding, dilation), library)
    problem = VolumeProblem(
        "forward", x, weight, y, bias, stride, padding, dilation, groups, library=library
    )
    return choose("conv3d", FORWARD, problem, version)


def conv3d_input_grad(
    grad: Layout,
    weight: Layout,
    bias: Layout | None = None,
    *,
    size: Lengths,
    stride: Lengths,
    padding: Lengths,
    dilation: Lengths,
    groups: int,
    library: bool = False,
    version: str | None = None,
) -> Plan:
    """grad (N, G*M, O, P, Q), weight (G*M, C, T, R, S), bias (G*C,), size (D, H, W) -> (N, G*C, D,
    H, W)."""
    x = _result(grad, (grad.shape[0], groups * weight.shape[1], *size), library)
    problem = VolumeProblem(
        "input", x, weight, grad, bias, stride, padding, dilation, groups, library=library
    )
    return choose("conv3d_input_grad", INPUT_GRADIENT, problem, version)


def conv3d_weight_grad(
    grad: Layout,
    x: Layout,
    *,
    kernel: Lengths,
    stride: Lengths,
    padding: Lengths,
    dilation: Lengths,
    groups: int,
    library: bool = False,
    version: str | None = None,
) -> Plan:
    """grad (N, G*M, O, P, Q), x (N, G*C, D, H, W), kernel (T, R, S) -> (G*M, C, T, R, S)."""
    weight = _result(x, (grad.shape[1], x.shape[1] // groups, *kernel), library)
    problem = VolumeProblem(
        "weight", x, weight, grad, None, stride, padding, dilation, groups, library=library
    )
    return choose("conv3d_weight_grad", WEIGHT_GRADIENT, problem, version)
