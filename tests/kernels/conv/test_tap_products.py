"""Convolutions of few outputs by one product for all taps, and sums over them
(kernels/conv/tap_products.py)."""

import numpy as np
import pytest

from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dtypes import compute_dtype
from cudamath.core.layout import Layout
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv import tap_products
from cudamath.kernels.conv.problem import Problem
from cudamath.kernels.copy.channels_last import ReorderedPlan
from cudamath.kernels.copy.dispatch import copy_part
from cudamath.kernels.copy.parts import whole
from cudamath.runtime import cublas
from cudamath.runtime.device import assume
from cudamath.testing import layout_of, simulate
from tests.kernels.conv.test_depthwise import channels_last
from tests.kernels.conv.test_depthwise import on_gpu as placed
from tests.kernels.conv.test_im2col import CASES, operands_of
from tests.ml.test_conv import BF16, F16, F32, check

FEW = [  # images; filters; stride; padding; dilation
    ((2, 24, 9, 8), (3, 24, 4, 4), (1, 1), (1, 1), (1, 1)),
    ((1, 16, 11, 10), (2, 16, 3, 5), (2, 3), (1, 2), (1, 2)),  # steps that do not meet all pixels
    ((2, 3, 7, 12), (40, 3, 3, 3), (2, 2), (1, 1), (1, 1)),
]


def problem_of(kind, operands, options):
    names = {k: v for k, v in options.items() if k != "version"}
    make = Problem.forward if kind == "forward" else Problem.input_gradient
    return make(*map(layout_of, operands), **names)


def products_of(problem, operands):
    """What the product of matrices leaves."""
    images, filters = (np.asarray(a).astype("f8") for a in operands[:2])
    rows = np.moveaxis(images, 1, -1).reshape(-1, images.shape[1])
    own = compute_dtype(problem.dtype)
    if problem.kind == "forward" and not tap_products.outputs_first(problem):
        return (rows @ filters.transpose(1, 2, 3, 0).reshape(filters.shape[1], -1)).astype(own)
    if problem.kind == "forward":
        return (rows @ np.moveaxis(filters, 1, -1).reshape(-1, filters.shape[1]).T).astype(own)
    return (rows @ np.moveaxis(filters, 1, -1).reshape(filters.shape[0], -1)).astype(own)


@pytest.mark.simulator
@pytest.mark.parametrize("turned", [0, tap_products.TURNED])
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("case", [*CASES[:3], *FEW], ids=str)
@pytest.mark.parametrize("kind", ["forward", "input"])
def test_sums_over_taps_in_the_simulator(case, kind, dtype, turned, monkeypatch):
    monkeypatch.setattr(tap_products, "TURNED", turned)
    operands, options, exact, size = operands_of(case, dtype)[kind]
    operands = [channels_last(a) for a in operands]
    with assume((7, 5)):
        problem = problem_of(kind, operands, options)
        products = products_of(problem, operands)
        plan = tap_products.sums(layout_of(products), problem=problem)
    got = simulate(plan, products)
    check(got, exact, size, dtype, kind)


@pytest.mark.simulator
def test_filters_with_taps_ahead_in_the_simulator():
    w = np.arange(3 * 4 * 2 * 5, dtype="f4").reshape(3, 4, 2, 5)
    x = Layout.new((1, 4, 9, 9), F32, 0)
    options = {"stride": (1, 1), "padding": (0,) * 4, "dilation": (1, 1), "groups": 1}
    problem = Problem.forward(x, layout_of(channels_last(w)), **options)
    plan = ReorderedPlan(layout_of(np.empty((2, 5, 3, 4), "f4")), last=False)
    turned = tap_products._taps_first(plan, problem, Input(0))
    layout = plan.temps[turned.index]
    steps = [*plan.steps, *copy_part(whole(turned, layout), whole(Output(0), layout))]
    got = simulate(Plan([layout], steps, plan.temps), channels_last(w))
    np.testing.assert_array_equal(got, w.transpose(2, 3, 0, 1))


@pytest.mark.gpu
@pytest.mark.parametrize("turned", [0, tap_products.TURNED])
@pytest.mark.parametrize("dtype", [BF16, F16, F32, np.dtype("f8")], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("case", [*CASES, *FEW], ids=str)
@pytest.mark.parametrize("kind", ["forward", "input"])
def test_tap_products(case, kind, last, dtype, turned, monkeypatch):
    monkeypatch.setattr(tap_products, "TURNED", turned)
    operands, options, exact, size = operands_of(case, dtype)[kind]
    if last:
        operands = [channels_last(a) for a in operands]
    options = {**options, "version": "tap_products"}
    first, again = (placed(kind, operands, options) for _ in range(2))
    check(first, exact, size, dtype, kind)
    assert np.asarray(first).tobytes() == np.asarray(again).tobytes()


def test_last_layers_of_few_outputs_go_this_way(monkeypatch):
    """Where tiles of 64 outputs would be zeros but for three."""
    monkeypatch.setattr(cublas, "available", lambda: True)
    x, w = (Layout.new(s, BF16, 0) for s in ((16, 384, 35, 35), (3, 384, 4, 4)))
    options = {"stride": (1, 1), "padding": (1,) * 4, "dilation": (1, 1), "groups": 1}
    with assume((9, 0)):
        problem = Problem.forward(x, w, None, **options)
        assert conv_dispatch.version_of(problem, "") == "tap_products"
