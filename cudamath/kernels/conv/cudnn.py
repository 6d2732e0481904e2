"""Convolutions and their gradients through cuDNN, NVIDIA's library, where it is installed."""

import dataclasses
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call
from ...core.layout import Layout
from ...core.shapes import contiguous_strides
from ...runtime import cudnn
from ..copy.channels_last import ReorderedPlan, channels_last_strides
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from .not_finite import added_up_anew
from .problem import ROLES, Problem, add_bias
from .work import times_of_cudnn


def _tensors(problem: Problem, channels_last: bool) -> tuple[Any, ...]:
    """What the library is asked for: the kind, the dtype, images, filters and results."""
    strides = channels_last_strides if channels_last else contiguous_strides
    shapes = [layout.shape for layout in (problem.x, problem.weight, problem.y)]
    tensors = [cudnn.Tensor(shape, strides(shape, 1)) for shape in shapes]
    return problem.kind, problem.dtype, *tensors


def _windows(problem: Problem) -> dict[str, Any]:
    """The options with which it is asked."""
    return {
        "stride": problem.stride,
        "before": problem.padding[::2],
        "after": problem.padding[1::2],
        "dilation": problem.dilation,
        "tf32": problem.tf32,
        "device": problem.device,
    }


def names_of_plans(
    problem: Problem, channels_last: bool | None = None, transforms: bool = True
) -> list[str]:
    """The names of all plans that the library has for a problem, the best-ranked first: what
    `convolution` may be asked for as `engine`. transforms: those by Fourier's and Winograd's,
    too."""
    if channels_last is None:
        channels_last = problem.library_last
    tensors, windows = _tensors(problem, channels_last), _windows(problem)
    return cudnn.plans(*tensors, **windows, transforms=transforms)


def convolution(
    problem: Problem,
    engine: str = "",
    channels_last: bool | None = None,
    fourier: bool = False,
) -> Plan | None:
    """The plan of one library call; None if the library has nothing for the problem. Behind a call
    by a transform, a launch adds up anew what is not finite.

    engine: the name of one of the library's execution plans; by default the one that was measured
    to be the fastest, or one that is clearly faster by predicted times (work.py) than the library's
    own choice, or this. channels_last: how the library sees all arrays; by default as
    `Problem.library_last` says. fourier: by Fourier's transform."""
    if channels_last is None:
        channels_last = problem.library_last
    named = not engine and not fourier and not problem.tf32
    if named and channels_last == (problem.itemsize == 2):
        if problem.measured == "cudnn" and problem.measurement:
            engine = problem.measurement.choice.partition(" ")[2]
    known = not fourier and channels_last == problem.library_last
    reordered = ReorderedPlan(problem.out, *problem.operands, last=channels_last)
    bias = []
    if problem.bias is not None:  # read in one run
        bias = [Input(2)]
        if not (problem.bias.contiguous and problem.bias.aligned):
            straight = problem.bias.like()
            bias = [reordered.temp(straight)]
            reordered.steps += copy_part(whole(Input(2), problem.bias), whole(bias[0], straight))
    call = cudnn.convolution(
        *_tensors(problem, channels_last),
        **_windows(problem),
        bias=problem.bias is not None,
        plan=engine,
        fourier=fourier,
        predicted=tuple(times_of_cudnn(problem).items()) if known else (),
    )
    if call is None:
        return None
    arrays = dict(zip(ROLES[problem.kind], (*reordered.operands, reordered.target), strict=True))
    workspace = reordered.temp(Layout.new((call.workspace,), np.dtype(np.uint8), problem.device))
    tensors = [arrays[role] for role in ("x", "weight", "y")]
    reordered.steps.append(Call(call, [*tensors, *bias, workspace]))
    if call.transformed:
        added = bias[0] if bias else None
        reordered.steps.append(added_up_anew(problem, arrays, added, channels_last))
    return reordered.build()


def by_fourier(problem: Problem) -> Plan | None:
    """The plan of one library call, which computes by Fourier's transform."""
    if problem.kind != "input":
        return convolution(problem, channels_last=False, fourier=True)
    alone = dataclasses.replace(problem, bias=None)
    return add_bias(convolution(alone, channels_last=False, fourier=True), problem)


def input_gradient(problem: Problem) -> Plan | None:
    """The plan of the gradient of images, to which another launch adds the bias."""
    return add_bias(convolution(dataclasses.replace(problem, bias=None)), problem)


def of_volumes(problem: Problem) -> Plan | None:
    """The plan of a convolution of volumes, or of one of its gradients.

    The library sees 16-bit numbers channels last, as tensor cores read them, and others in C
    order."""
    channels_last = problem.itemsize == 2
    if problem.kind == "forward":
        plan = convolution(problem, channels_last=channels_last)
        if plan is not None or problem.bias is None:
            return plan
    alone = dataclasses.replace(problem, bias=None)
    return add_bias(convolution(alone, channels_last=channels_last), problem)
