"""Elementwise work on arrays that lie across each other: both versions by name, at sizes on both
sides of their squares."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_facts import compile_plan

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.testing import layout_of, simulate

F32 = np.dtype(np.float32)
EXPRESSION = "x - y * 2"
BIG = 8192  # rows and columns of what has enough squares of 128 x 128


def plan(
    *layouts: Layout,
    version: str | None = None,
    expression: str = EXPRESSION,
    inplace: bool = False,
):
    from cudamath.kernels.elementwise.dispatch import elementwise

    dtype = layouts[0].dtype
    return elementwise(
        *layouts,
        expression=expression,
        compute=dtype,
        output=dtype,
        version=version,
        inplace=inplace,
    )


def numbers(shape, dtype=F32, seed=0):
    return np.random.default_rng(seed).integers(-20, 20, shape).astype(dtype)


#: (shape of the result, axes of x in memory, axes of y in memory), all by the result's axes
CASES = [
    ((16, 17), (0, 1), (1, 0)),
    ((33, 31), (1, 0), (0, 1)),
    ((64, 40), (1, 0), (1, 0)),
    ((3, 20, 33), (0, 2, 1), (0, 1, 2)),
    ((20, 3, 18), (2, 1, 0), (0, 1, 2)),
    ((2, 18, 2, 20), (0, 3, 2, 1), (0, 1, 2, 3)),
]


def arranged(shape, axes, dtype=F32, seed=0):
    """Random numbers of this shape whose axes follow each other in memory in this order."""
    inverse = np.argsort(axes)
    return numbers([shape[i] for i in axes], dtype, seed).transpose(inverse)


@pytest.mark.simulator
@pytest.mark.parametrize(("shape", "first", "second"), CASES[:5], ids=str)
def test_tiled_in_the_simulator(shape, first, second):
    x, y = arranged(shape, first), arranged(shape, second, seed=1)
    if (
        first == second
    ):  # the result takes the order of both: only a target of another order lies across
        y = y + 0
    made = plan(*map(layout_of, (x, y)), version=None if first == second else "tiled")
    assert made.steps[0].kernel.__name__ == (
        "plain" if first == second and x.strides == y.strides else "tiled"
    )
    np.testing.assert_array_equal(simulate(made, x, y), x - y * 2)


@pytest.mark.simulator
def test_tiled_with_one_value_a_row_and_a_scalar():
    x, y = numbers((24, 40)).T, numbers((40, 1))
    z = numbers((40, 24))
    out = simulate(
        plan(*map(layout_of, (x, y, z)), version="tiled", expression="x - y * 2 + z"), x, y, z
    )
    np.testing.assert_array_equal(out, x - y * 2 + z)
    target = z.copy()
    simulate(plan(layout_of(target), layout_of(x), version="tiled", inplace=True), target, x)
    np.testing.assert_array_equal(target, z - x * 2)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["i2", "u2"])
@pytest.mark.parametrize("shape", [(16, 24), (136, 152), (2, 24, 136)], ids=str)
def test_pairs_in_the_simulator(shape, dtype):
    x = np.random.default_rng(0).integers(0, 20_000, shape).astype(dtype)
    low, high = (
        (-9_000, -1) if dtype == "i2" else (20_000, 21_000)
    )  # numbers of both signs, or with the highest bit
    y = (
        np.random.default_rng(1)
        .integers(low, high, (*shape[:-2], *shape[:-3:-1]))
        .astype(dtype)
        .swapaxes(-1, -2)
    )
    made = plan(*map(layout_of, (x, y)), version="tiled_pairs", expression="x + y")
    assert [step.kernel.__name__ for step in made.steps] == ["tiled_pairs"]
    np.testing.assert_array_equal(simulate(made, x, y), x + y)
    column = x[..., :1].copy()
    made = plan(*map(layout_of, (y, column, x)), version="tiled_pairs", expression="x + y - z")
    np.testing.assert_array_equal(simulate(made, y, column, x), y + column - x)


def transposed(shape, dtype, aligned=True):
    return Layout.of(shape, (dtype.itemsize, shape[0] * dtype.itemsize), dtype, 0, aligned)


def test_the_version_fits_the_layouts():
    if lazy_numba.SIMULATOR:
        pytest.skip("the simulator knows the plain versions alone")

    def version(*layouts):
        return plan(*layouts).steps[0].kernel.__name__

    straight = Layout.new((256, 256), F32, 0)
    assert version(straight, transposed((256, 256), F32)) == "tiled_vector"
    assert version(Layout.new((256, 258), F32, 0), transposed((256, 258), F32)) == "tiled"
    assert version(straight, transposed((256, 256), F32, aligned=False)) == "tiled"
    assert version(Layout.new((4096, 8), F32, 0), transposed((4096, 8), F32)) == "plain"
    assert version(Layout.new((64, 64), F32, 0), transposed((64, 64), F32)) == "small"
    half = np.dtype(np.float16)
    for n, m, name in (
        (BIG, BIG, "tiled_pairs"),
        (BIG, BIG + 4, "tiled_vector"),
        (256, 256, "tiled_vector"),
        (BIG, BIG + 3, "tiled"),
    ):
        assert version(Layout.new((n, m), half, 0), transposed((n, m), half)) == name
    assert (
        version(Layout.new((BIG, BIG), half, 0), transposed((BIG, BIG), half, aligned=False))
        == "tiled"
    )
    assert version(Layout.new((BIG, BIG), F32, 0), transposed((BIG, BIG), F32)) == "tiled_vector"
    double = np.dtype(np.float64)  # two squares of 64 x 65 float64 are more than a block may have
    layouts = transposed((256, 256), double), Layout.new((256, 256), double, 0)
    assert version(*layouts) == "tiled_vector"


def test_results_lie_as_their_operands():
    """As in NumPy: what is made of arrays in one dense order has that order."""
    from cudamath.kernels.elementwise.dispatch import result_layout

    a, b = transposed((8, 6), F32), Layout.new((8, 6), F32, 0)
    half = np.dtype(np.float16)
    assert result_layout([a, a], (8, 6), half).strides == (2, 16)
    assert result_layout([a, b], (8, 6), F32).strides == b.strides
    assert result_layout([a, Layout.new((6,), F32, 0)], (8, 6), F32).strides == a.strides
    gaps = Layout.of((8, 6), (4, 64), F32, 0)
    assert result_layout([gaps, gaps], (8, 6), F32).strides == b.strides
    if not lazy_numba.SIMULATOR:
        assert plan(a, a).steps[0].kernel.__name__ == "vector"
        assert (
            plan(transposed((64, 64), F32), Layout.of((64,), (4,), F32, 0)).steps[0].kernel.__name__
            == "rows"
        )


@pytest.mark.compiles
@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize("version", ["tiled", "tiled_vector"])
def test_compiles_without_spills(version):
    layouts = [Layout.new((128, 128), F32, 0), transposed((128, 128), F32)]
    for capability in ((7, 5), (9, 0)):
        (found,) = compile_plan(plan(*layouts, version=version), layouts, capability)
        assert found.spills == 0 and found.registers <= 128, found
        assert found.shared == (64 * 65 * 4 if version == "tiled_vector" else 32 * 33 * 4)


@pytest.mark.compiles
@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
def test_pairs_compile_without_spills():
    layouts = [
        Layout.new((128, 128), np.dtype(cm.bfloat16), 0),
        transposed((128, 128), np.dtype(cm.bfloat16)),
    ]
    for capability in ((7, 5), (9, 0)):
        (found,) = compile_plan(plan(*layouts, version="tiled_pairs"), layouts, capability)
        assert found.spills == 0 and found.registers <= 64 and found.shared == 2 * 128 * 128, found


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "f2", cm.bfloat16, "f4", "f8", "i8", "c8"], ids=str)
def test_versions_on_the_gpu(dtype):
    dtype = np.dtype(dtype)
    squares = ((64, 64), (68, 60), (128, 256), (1000, 516), (4100, 36), (1000, 520), (16, 384))
    cases = [
        *CASES,
        *(((n, m), (0, 1), (1, 0)) for n, m in squares),
        ((5, 132, 260), (0, 2, 1), (0, 1, 2)),
        ((68, 7, 72), (2, 1, 0), (0, 1, 2)),
        ((5, 136, 264), (0, 2, 1), (0, 1, 2)),
        ((72, 8, 136), (2, 1, 0), (0, 1, 2)),
    ]
    for shape, first, second in cases:
        x, y = arranged(shape, first, dtype), arranged(shape, second, dtype, 1)
        for version in ("tiled", "tiled_vector", "tiled_pairs"):
            if (
                first == second
                or version == "tiled_vector"
                and (dtype.kind == "c" or any(n % 4 for n in shape))
            ):
                continue
            if version == "tiled_pairs" and (dtype.itemsize != 2 or any(n % 8 for n in shape)):
                continue
            ours = [
                cm.asarray(np.ascontiguousarray(v.transpose(axes)), device="cuda").transpose(
                    tuple(np.argsort(axes).tolist())
                )
                for v, axes in ((x, first), (y, second))
            ]
            made = plan(*[v._layout for v in ours], version=version, expression="x * y")
            out = made.bind("test", [v._layout for v in ours])(*ours).to_numpy()
            np.testing.assert_array_equal(
                out, (x * y).astype(dtype), err_msg=f"{version} {dtype} {shape}"
            )


@pytest.mark.gpu
def test_orders_on_the_gpu():
    with cm.device("cuda"):
        x = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
        a = cm.asarray(x)
        assert (a.T + 1).strides == (x.T + 1).strides == (a.T * a.T).strides
        np.testing.assert_array_equal((a.T + a.T).to_numpy(), x.T + x.T)
        np.testing.assert_array_equal((a.T + a.reshape(96, 64)).to_numpy(), x.T + x.reshape(96, 64))
        b = cm.asarray(x.copy())
        b[:, :64] += b[:, :64].T
        x[:, :64] += x[:, :64].T.copy()
        np.testing.assert_array_equal(b.to_numpy(), x)
