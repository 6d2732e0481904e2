"""What is not finite stays where it belongs: an infinite pixel reaches the results whose windows
hold it, and no others, by every version that computes float32. (In 16 bits some multiply it by
zeros: conv2d's docstring says which.)"""

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.conv import dispatch
from cudamath.kernels.conv.problem import Problem
from cudamath.runtime.device import assume
from cudamath.testing import simulate
from tests.ml.test_conv import F32, geometry, numbers, reference

#: x; weight; stride, padding, dilation, groups: edges of tiles and of strips, whole and not.
CASES = {
    "3 x 3": ((1, 8, 6, 7), (9, 8, 3, 3), 1, 1, 1, 1),
    "5 x 3, strided": ((2, 3, 9, 11), (4, 3, 5, 3), (2, 1), (2, 0), 1, 1),
    "dilated": ((1, 4, 9, 10), (6, 4, 3, 3), 1, 2, 2, 1),
    "one tap": ((2, 8, 5, 5), (8, 8, 1, 1), 1, 0, 1, 1),
    "apart": ((1, 4, 8, 8), (4, 4, 2, 2), 2, 0, 1, 1),
    "few channels": ((2, 3, 9, 10), (8, 3, 3, 3), 1, 1, 1, 1),
    "few channels, strided": ((1, 3, 11, 9), (8, 3, 7, 7), 2, 3, 1, 1),
    "depthwise": ((2, 4, 7, 6), (4, 1, 3, 3), 1, 1, 1, 4),
    "depthwise, strided": ((1, 8, 9, 11), (8, 1, 5, 5), 2, 2, 1, 8),
    "groups": ((1, 8, 6, 7), (12, 4, 3, 3), 1, 1, 1, 2),
}
KINDS = ("forward", "input", "weight")
#: They have bounds of registers, or shuffles: `test_versions_on_the_gpu` runs these.
NOT_SIMULATED = ("fprop_simt", "dgrad_simt", "wgrad_simt", "wgrad_depthwise_nchw")


def places(shape):
    """Corners and the middle of an image."""
    down, across = shape[2] - 1, shape[3] - 1
    return [(0, 0), (0, across), (down, 0), (down, across), (down // 2, across // 2)]


def asked(kind, case, last=False):
    """The problem, and its arrays without an infinity."""
    x_shape, w_shape, *where = case
    x, w = numbers(x_shape, F32), numbers(w_shape, F32, 1)
    stride, margins, dilation, size = geometry(x_shape, w_shape, *where[:3])
    y = numbers((x_shape[0], w_shape[0], *size), F32, 2)
    options = dict(stride=stride, padding=margins, dilation=dilation, groups=where[3])

    def layout(a):
        if not last or a is w:
            return Layout.new(a.shape, a.dtype, 0)
        n, c, h, v = a.shape
        return Layout.of(a.shape, (4 * h * v * c, 4, 4 * v * c, 4 * c), a.dtype, 0)

    if kind == "forward":
        return Problem.forward(layout(x), layout(w), None, **options), [x, w]
    if kind == "input":
        size = x_shape[2:]
        return Problem.input_gradient(layout(y), layout(w), None, size=size, **options), [y, w]
    kernel = w_shape[2:]
    return Problem.weight_gradient(layout(y), layout(x), kernel=kernel, **options), [y, x]


def reached(kind, case, pixel):
    """Which results an infinity there reaches."""
    x_shape, w_shape, *where = case
    x, w = np.zeros(x_shape), np.ones(w_shape)
    grad = np.zeros(reference(x, w, None, *where).shape)
    if kind == "input":
        grad[pixel] = 1
    else:
        x[pixel] = 1
        grad += kind == "weight"
    y, dx, dw, _ = reference(x, w, None, *where, grad)
    return {"forward": y, "input": dx, "weight": dw}[kind] > 0


def checked(kind, case, run, few=False):
    """run(*arrays) -> the result, for each place of the infinity, or a few."""
    _, arrays = asked(kind, case)
    number = 1 if kind == "weight" else 0  # of the images; of the results' gradient: "input"
    everywhere = places(arrays[number].shape)
    for place in everywhere[3:4] if few else everywhere:
        pixel = (arrays[number].shape[0] - 1, 1, *place)
        given = [a.copy() for a in arrays]
        given[number][pixel] = np.inf
        assert np.array_equal(~np.isfinite(run(*given)), reached(kind, case, pixel)), pixel


@pytest.mark.simulator
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_versions_in_the_simulator(name, kind):
    case, ran = CASES[name], []
    with assume((7, 5)):
        problem, _ = asked(kind, case)
        for version in dispatch.TABLES[kind]:
            if version.name in NOT_SIMULATED:
                continue
            if version.supports(problem) and (plan := version.plan(problem)) is not None:
                checked(kind, case, lambda *arrays, plan=plan: simulate(plan, *arrays), few=True)
                ran.append(version.name)
    assert any("direct" in each for each in ran)


@pytest.mark.gpu
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_versions_on_the_gpu(name, kind, last):
    """All that support the problem there, those of libraries too."""
    case, ran = CASES[name], []
    problem, _ = asked(kind, case, last)

    def placed(a):
        x = cm.asarray(a, device="cuda:0")
        turned = last and a.shape != case[1]
        return cm.asarray(x.transpose(0, 2, 3, 1).copy()).transpose(0, 3, 1, 2) if turned else x

    for version in dispatch.TABLES[kind]:
        if not version.supports(problem) or (plan := version.plan(problem)) is None:
            continue

        def run(*arrays, plan=plan):
            inputs = [placed(a) for a in arrays]
            return plan.bind("conv2d", [a._layout for a in inputs])(*inputs).to_numpy()

        try:
            checked(kind, case, run)
        except AssertionError as error:
            raise AssertionError(f"{version.name}: {error}") from None
        ran.append(version.name)
    assert len(ran) > 1
