"""Behind a version by a transform, what is not finite is added up anew
(kernels/conv/not_finite.py)."""

import ml_dtypes
import numpy as np
import pytest

from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.conv import cudnn as conv_cudnn
from cudamath.kernels.conv import not_finite, work
from cudamath.kernels.conv.problem import ROLES, Problem
from cudamath.runtime import cudnn
from cudamath.runtime.device import assume
from cudamath.testing import compile_plan, layout_of, simulate
from tests.kernels.conv.test_conv_plans import built, offers  # noqa: F401
from tests.kernels.conv.test_not_finite import KINDS, reached
from tests.ml.test_conv import F32, F64, geometry, numbers, reference

BF16 = np.dtype(ml_dtypes.bfloat16)
#: x; weight; stride, padding, dilation, groups
CASES = {
    "3 x 3": ((2, 5, 6, 7), (4, 5, 3, 3), 1, 1, 1, 1),
    "5 x 3, strided": ((1, 3, 9, 11), (4, 3, 5, 3), (2, 1), (2, 0), 1, 1),
    "groups, dilated": ((1, 4, 7, 8), (6, 2, 3, 3), 1, 2, 2, 2),
    "more than a block": ((2, 9, 17, 19), (15, 9, 3, 3), 1, 1, 1, 1),
}


def problem_of(kind, case, last=False, dtype=F32, bias=False):
    """A problem in either order; its operands; its exact result."""
    x_shape, w_shape, *where = case
    x, w = numbers(x_shape, dtype), numbers(w_shape, dtype, 1)
    stride, margins, dilation, size = geometry(x_shape, w_shape, *where[:3])
    grad = numbers((x_shape[0], w_shape[0], *size), dtype, 2)
    wide = [a.astype("f8") for a in (x, w, grad)]
    y, dx, dw, _ = reference(*wide[:2], None, *where, wide[2])
    options = dict(stride=stride, padding=margins, dilation=dilation, groups=where[3])
    operands, exact = {"forward": ([x, w], y), "input": ([grad, w], dx), "weight": ([grad, x], dw)}[
        kind
    ]
    if last:
        operands = [in_order(a) for a in operands]
    layouts = [layout_of(a) for a in operands]
    if kind == "weight":
        made = Problem.weight_gradient(*layouts, kernel=w_shape[2:], **options)
        return made, operands, exact
    if bias:
        added = numbers((exact.shape[1],), dtype, 3)
        operands, exact = [*operands, added], exact + added.astype("f8")[:, None, None]
        layouts.append(layout_of(added))
    if kind == "forward":
        return Problem.forward(*layouts, **options), operands, exact
    return Problem.input_gradient(*layouts, size=x_shape[2:], **options), operands, exact


def in_order(a):
    """Channels last."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)


def run(problem, operands, result):
    """The launch alone, on a copy of this result."""
    plan = not_finite.copied(layout_of(result), *map(layout_of, operands), problem=problem)
    return simulate(plan, result, *operands)


@pytest.mark.simulator
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_finite_is_taken_from_the_definition(name, kind, last):
    """At random places; whatever is finite stays, right or wrong."""
    rng = np.random.default_rng(7)
    for bias in (False, True) if kind != "weight" else (False,):
        with assume((7, 5)):
            problem, operands, exact = problem_of(kind, CASES[name], last, bias=bias)
            result = rng.standard_normal(exact.shape).astype(F32)
            places = rng.random(exact.shape) < 0.05
            places.flat[[0, -1]] = True
            result[places] = rng.choice([np.inf, -np.inf, np.nan], places.sum())
            if last:
                result = in_order(result)
            found = run(problem, operands, result)
            np.testing.assert_array_equal(found[~places], result[~places])
            np.testing.assert_allclose(found[places], exact[places], rtol=2e-5, atol=2e-5)


@pytest.mark.simulator
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_finite_keeps_its_bits(kind):
    """Zeros of either sign, subnormal and largest numbers too."""
    with assume((7, 5)):
        problem, operands, exact = problem_of(kind, CASES["3 x 3"])
        result = np.random.default_rng(8).standard_normal(exact.shape).astype(F32)
        result.flat[:4] = -0.0, 1e-45, np.finfo(F32).max, -np.finfo(F32).max
        found = run(problem, operands, result)
    assert found.tobytes() == result.tobytes()


@pytest.mark.simulator
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_an_infinity_reaches_what_meets_it(kind):
    """Where the transform has made NaN of everything."""
    case = CASES["3 x 3"]
    with assume((7, 5)):
        problem, operands, exact = problem_of(kind, case)
        pixel = (1, 2, 5, 3)
        operands[1 if kind == "weight" else 0][pixel] = np.inf
        found = run(problem, operands, np.full(exact.shape, np.nan, F32))
    assert np.array_equal(~np.isfinite(found), reached(kind, case, pixel))


@pytest.mark.simulator
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_volumes_and_wide_numbers(kind):
    """Volumes in float32; images in bfloat16 and float64."""
    rng = np.random.default_rng(9)
    x, w = (1, 2, 3, 4, 5), (3, 2, 2, 3, 2)
    with assume((7, 5)):
        shapes = {"x": x, "weight": w, "y": (1, 3, 2, 4, 4)}
        arrays = {role: rng.standard_normal(shape).astype(F32) for role, shape in shapes.items()}
        layouts = {role: layout_of(a) for role, a in arrays.items()}
        where = dict(stride=(1,) * 3, padding=(0, 0, 1, 1, 0, 0), dilation=(1,) * 3)
        problem = Problem(kind, **layouts, **where)
        framed = np.pad(arrays["x"].astype("f8"), [(0, 0)] * 3 + [(1, 1), (0, 0)])
        windows = np.lib.stride_tricks.sliding_window_view(framed, w[2:], (2, 3, 4))
        if kind == "forward":
            exact = np.einsum("ncopqtrs,mctrs->nmopq", windows, arrays["weight"])
        elif kind == "weight":
            exact = np.einsum("ncopqtrs,nmopq->mctrs", windows, arrays["y"])
        else:
            exact = np.zeros(framed.shape)
            for t, r, s in np.ndindex(w[2:]):
                part = np.einsum("nmopq,mc->ncopq", arrays["y"], arrays["weight"][:, :, t, r, s])
                exact[:, :, t : t + 2, r : r + 4, s : s + 4] += part
            exact = exact[:, :, :, 1:-1]
        operands = [arrays[role] for role in ROLES[kind][:2]]
        found = run(problem, operands, np.full(exact.shape, np.nan, F32))
        np.testing.assert_allclose(found, exact, rtol=2e-5, atol=2e-5)
        for dtype, tolerance in ((BF16, 2e-2), (F64, 1e-12)):
            problem, operands, exact = problem_of(kind, CASES["3 x 3"], dtype=dtype)
            found = run(problem, operands, np.full(exact.shape, np.inf).astype(dtype))
            np.testing.assert_allclose(
                found.astype("f8"), exact, rtol=tolerance, atol=5 * tolerance
            )


@pytest.mark.compiles
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("kind", KINDS)
def test_compiles_without_spills(kind, last):
    for capability in ((7, 5), (9, 0)):
        with assume(capability):
            problem, operands, _ = problem_of(kind, CASES["3 x 3"], last)
            layouts = [problem.out, *map(layout_of, operands)]
            plan = not_finite.copied(*layouts, problem=problem)
        found = [f for f in compile_plan(plan, layouts, capability) if "not_finite" in f.kernel]
        assert len(found) == 1 and found[0].spills == 0 and found[0].registers <= 96, found


# -------------------- which plans have it


def names_of(plan):
    """The kernels of a plan behind the library's call."""
    return [step.kernel.__name__ for step in plan.steps if isinstance(step, Launch)]


EXPECTED = {
    "forward": "conv2d_not_finite",
    "input": "conv2d_input_not_finite",
    "weight": "conv2d_weight_not_finite",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_by_fouriers_transform_has_it(kind, offers):  # noqa: F811
    """Of which the library says by its notes that it is one; the bias comes last in gradients."""
    graph = offers("eng1", cudnn.FOURIER[kind] + "k1=0")
    graph.build_plan_at_index.side_effect = fails_at_last(graph)
    with assume((9, 0)):
        problem, *_ = problem_of(kind, CASES["3 x 3"], bias=kind != "weight")
        plan = conv_cudnn.by_fourier(problem)
    assert names_of(plan)[0] == EXPECTED[kind]
    assert len(plan.steps) == 2 + (kind == "input")
    if kind != "weight":
        biased = plan.steps[1].args[6]
        assert biased == (kind == "forward")


def fails_at_last(graph):
    """A plan can be built once; then its note excludes it."""
    times = []

    def build(index):
        times.append(index)
        if times.count(1) > 1:
            raise RuntimeError("excluded")

    return build


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_other_plans_have_it_where_a_transform_runs(kind, dtype, offers):  # noqa: F811
    """Weight gradients of float32 by engine 17, whether by rank or by name; none else."""
    names = ["eng17_k25=0", "eng1"]
    with assume((9, 0)):
        problem, *_ = problem_of(kind, CASES["3 x 3"], last=dtype == BF16, dtype=dtype)
        for engine, taken in (("", 0), ("eng17_k25=0", 0), ("eng1", 1)):
            graph = offers(*names)
            plan = conv_cudnn.convolution(problem, engine)
            assert built(graph)[-1] == taken
            there = kind == "weight" and dtype == F32 and taken == 0
            assert names_of(plan) == [EXPECTED[kind]] * there, engine


def test_a_plan_by_an_announced_transform_has_it_by_name(offers):  # noqa: F811
    graph, builds = offers("eng1", "eng6"), []

    def build(index):
        builds.append(index)
        if builds == [1]:
            raise RuntimeError("excluded by its note")

    graph.build_plan_at_index.side_effect = build
    with assume((9, 0)):
        problem, *_ = problem_of("forward", CASES["3 x 3"])
        plan = conv_cudnn.convolution(problem, "eng6")
    assert builds == [1, 1] and names_of(plan) == ["conv2d_not_finite"]


def test_its_bytes_and_its_launch_are_predicted():
    """Of Fourier's transform, of engine 17, and where the library may choose this."""
    case = ((64, 128, 28, 28), (128, 128, 3, 3), 1, 1, 1, 1)
    x, w, *where = case
    stride, margins, dilation, _ = geometry(x, w, *where[:3])
    options = dict(stride=stride, padding=margins, dilation=dilation, groups=1)
    layout = Layout.new(x, F32, 0)
    with assume((9, 0)):
        problem = Problem.weight_gradient(layout, layout, kernel=(3, 3), **options)
        name = "eng17"
        more = work.cudnn_plan(problem, name, work.tiles_of_cudnn()[work.plans_kind(problem)][name])
        other = work.cudnn_plan(
            problem, "eng1_k2=6", work.tiles_of_cudnn()[work.plans_kind(problem)][name]
        )
        assert more.launches == other.launches + 1
        assert more.moved == other.moved + problem.out.nbytes
        assert work.may_be_transformed(problem)
        wide = Problem.weight_gradient(layout, layout, kernel=(5, 5), **options)
        assert not work.may_be_transformed(wide)
        forward = Problem.forward(layout, Layout.new(w, F32, 0), **options)
        assert not work.may_be_transformed(forward)
        assert work.fourier(forward).launches == 5
