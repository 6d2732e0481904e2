"""Convolutions of float32 as windows written out and a product by cuBLAS
(kernels/conv/im2col_cublas.py)."""

import numpy as np
import pytest

from cudamath.core.dispatch import autotune
from cudamath.core.dispatch.steps import Call, Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv import im2col_cublas
from cudamath.kernels.conv.problem import Problem
from cudamath.runtime import cublas
from cudamath.runtime.device import assume
from cudamath.testing import simulate
from tests.kernels.conv.test_depthwise import on_gpu as placed
from tests.ml.test_conv import F32, check, numbers, reference

CASES = [  # images; filters; stride; padding; dilation
    ((2, 3, 7, 6), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1)),
    ((3, 2, 8, 9), (5, 2, 2, 3), (2, 1), (0, 2), (1, 1)),
    ((2, 4, 9, 11), (3, 4, 3, 3), (1, 1), (2, 2), (2, 2)),
    ((1, 1, 5, 4), (1, 1, 5, 1), (1, 1), (2, 0), (1, 1)),
]


def operands_of(case, dtype=F32):
    """kind -> (operands, options, exact result, largest possible sums)."""
    shape, filters, stride, padding, dilation = case
    x, w = numbers(shape, dtype), numbers(filters, dtype, 1)
    where = {"stride": stride, "padding": padding, "dilation": dilation}
    y = reference(x, w, **where)
    g = numbers(y.shape, dtype, 7)
    exact, size = (
        reference(*(f(a) for a in (x, w)), grad=f(g), **where) for f in (np.asarray, np.abs)
    )
    options = {
        "stride": stride,
        "padding": (padding[0], padding[0], padding[1], padding[1]),
        "dilation": dilation,
        "groups": 1,
    }
    return {
        "forward": ((x, w), options, exact[0], size[0]),
        "input": ((g, w), {**options, "size": shape[2:]}, exact[1], size[1]),
    }


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", ["forward", "input"])
def test_columns(case, kind):
    operands, options, exact, size = operands_of(case)[kind]
    if kind == "input" and max(case[2]) > 1:
        with pytest.raises(ValueError, match="version 'im2col_cublas' does not support"):
            placed(kind, operands, {**options, "version": "im2col_cublas"})
    else:
        found = placed(kind, operands, {**options, "version": "im2col_cublas"})
        check(found, exact, size, F32, kind)


@pytest.mark.simulator
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", ["forward", "input"])
def test_windows_and_product_simulated(case, kind, monkeypatch):
    """All but the product, which NumPy computes of the windows and filters as they are laid out for
    cuBLAS."""
    operands, options, exact, _ = operands_of(case)[kind]
    layouts = [Layout.new(a.shape, F32, 0) for a in operands]
    if kind == "forward":
        problem, planner = Problem.forward(*layouts, **options), im2col_cublas.forward
    else:
        problem, planner = (
            Problem.input_gradient(*layouts, **options),
            im2col_cublas.input_gradient,
        )
    monkeypatch.setattr(cublas, "available", lambda: True)
    asked = []
    monkeypatch.setattr(cublas, "gemm", lambda *given: asked.append(given))
    if kind == "input" and max(case[2]) > 1:
        assert not conv_dispatch.im2col_fits(problem)
        return
    assert conv_dispatch.im2col_fits(problem)
    with assume((9, 0)):
        plan = planner(problem)
    ((_, m, n, k, *matrices),) = asked
    assert matrices == [cublas.Matrix(0, k), cublas.Matrix(1, k), cublas.Matrix(0, n)]

    class Product:
        """Launched as kernels are."""

        def __getitem__(self, where):
            def product(a, b, c):
                a, b, c = [x._ary for x in (a, b, c)]  # the simulator's arrays hold NumPy's
                c.reshape(m, n)[:] = a.reshape(m, k) @ b.reshape(n, k).T

            return product

    plan.steps = [
        Launch(Product(), 1, 1, step.args) if isinstance(step, Call) else step
        for step in plan.steps
    ]
    np.testing.assert_allclose(simulate(plan, *operands), exact, rtol=1e-4, atol=1e-4)


def test_the_table_may_name_im2col(tmp_path, monkeypatch):
    """Where it was the fastest, unless there is a bias, which the product has no place for."""
    if SIMULATOR:
        pytest.skip("the simulator has no tables")
    monkeypatch.setattr(cublas, "available", lambda: True)
    monkeypatch.setenv("CUDAMATH_TUNE_CACHE", str(tmp_path / "tune.json"))
    x, w, bias = (Layout.new(s, F32, 0) for s in ((64, 512, 7, 7), (512, 512, 3, 3), (512,)))
    where = {"stride": (1, 1), "padding": (1,) * 4, "dilation": (1, 1), "groups": 1}
    with assume((9, 0)):
        autotune.save(
            "assumed",
            "conv2d",
            "float32 forward 3x3 stride 1x1",
            (64, 512, 49, 512),
            {"im2col_cublas": 4.0, "simt": 7.0},
        )
        plan = conv_dispatch.conv2d(x, w, **where)
        assert sum(isinstance(step, Call) for step in plan.steps) == 1 and "im2col" in plan.why
        assert "im2col" not in conv_dispatch.conv2d(x, w, bias, **where).why
        many = Layout.new((1 << 14, 512, 7, 7), F32, 0)
        problem = Problem.forward(many, w, **where)
        assert im2col_cublas.forward(problem) is None  # too much memory
