"""The elementwise generator, each kernel version by name, at sizes on both sides of its tiles; and
every scalar expression.

In Numba's simulator a kernel calls Python's `math`, which computes in float64 and raises where C
returns NaN or infinity; here it gets NumPy's functions instead, which behave as C's and the GPU's
do.
"""

from __future__ import annotations

import functools
import itertools
import math
import types
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
import simulated_gpu
from records import ELEMENTWISE, Elementwise
from strategies import BF16, awkward, kind, numbers, of_kinds

import cudamath as cm
from cudamath.core.dispatch.arguments import Output
from cudamath.core.dispatch.plan import Plan
from cudamath.core.layout import Layout
from cudamath.core.shapes import broadcast_shapes
from cudamath.kernels.elementwise import generator, launches
from cudamath.kernels.elementwise.dispatch import elementwise
from cudamath.kernels.elementwise.problem import ElementwiseProblem
from cudamath.kernels.ptx import vector_access
from cudamath.ops.ufunc import resolve
from cudamath.testing import layout_of, simulate
from tests.ops.test_values import SPECIAL, check, check_special, result_dtype

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # 0 / 0 in the simulator's threads

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
HALF = np.dtype(np.float16)


@pytest.fixture(autouse=True, scope="module")
def c_math():
    """NumPy's functions under the names of the math module, for kernels in the simulator."""
    from cudamath.kernels.compiler import lazy_numba
    from cudamath.kernels.elementwise import complex_functions, scalar_functions

    if not lazy_numba.SIMULATOR:
        yield
        return
    names = {
        "acos": "arccos",
        "acosh": "arccosh",
        "asin": "arcsin",
        "asinh": "arcsinh",
        "atan": "arctan",
        "atan2": "arctan2",
        "atanh": "arctanh",
    }
    stand_in = types.SimpleNamespace(**vars(math))
    for name in vars(math):
        function = getattr(np, names.get(name, name), None)
        if isinstance(function, np.ufunc):
            setattr(stand_in, name, function)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        for module in (scalar_functions, complex_functions):
            patch.setattr(module, "math", stand_in)
        scalar_functions.functions.cache_clear()
        yield


def plan(row: Elementwise, *operands: Layout | np.dtype, version: str | None) -> Plan:
    """The plan a call of `row` with these operands makes, in one version."""

    card = cm.core.dispatch.op.registry[row.name]
    common = functools.reduce(
        cm.result_type, [o.dtype if isinstance(o, Layout) else o for o in operands]
    )
    compute, output = resolve(row.name, card.ufunc, common)
    return elementwise(
        *operands,
        expression=card.expression(compute),
        compute=compute,
        output=output,
        version=version,
    )


def row_named(name: str) -> Elementwise:
    return next(row for row in ELEMENTWISE if row.name == name)


def expected(row: Elementwise, *arrays: np.ndarray) -> np.ndarray:
    dtype = result_dtype(row, *[a.dtype for a in arrays])
    with np.errstate(all="ignore"):
        return row.numpy(*[a.astype(F32) if a.dtype == BF16 else a for a in arrays]).astype(dtype)


# -------------------- every expression

SIMULATED = [
    (row, np.dtype(dtype))
    for row in ELEMENTWISE
    for dtype in ("?", "i4", "u1", "f2", cm.bfloat16, "f4", "f8", "c8", "c16")
    if np.dtype(dtype) in of_kinds("c" if row.name == "conj" else row.kinds)
]


@pytest.mark.simulator
@pytest.mark.parametrize(("row", "dtype"), SIMULATED, ids=[f"{r.name}-{d}" for r, d in SIMULATED])
def test_expressions_in_the_simulator(row, dtype):
    """The scalar expression of every card against NumPy, on random and on awkward numbers."""
    rng = np.random.default_rng(1)
    arrays = [numbers(rng, 24, dtype, row.low, row.high) for _ in range(row.inputs)]
    if row.wild:
        some = awkward(dtype)
        if row.name == "reciprocal" and kind(dtype) in "iu":
            some = some[some != 0]
        some = some[:: 3 if row.inputs == 1 and some.size > 50 else 12 if some.size > 50 else 1]
        pairs = [
            np.array(c, dtype)
            for c in zip(*itertools.product(*[some[:14]] * row.inputs), strict=True)
        ]
        arrays = [np.concatenate([a, p]) for a, p in zip(arrays, pairs, strict=True)]
    if row.name == "pow" and kind(dtype) == "i":
        arrays[1] = np.abs(arrays[1])
    out = simulate(plan(row, *[layout_of(a) for a in arrays], version="plain"), *arrays)
    check(row, cm.asarray(out, device="cpu"), arrays)


@pytest.mark.simulator
@pytest.mark.parametrize(
    "name",
    ["exp", "expm1", "sqrt", "sign", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atanh", "atan"],
)
def test_complex_special_cases_in_the_simulator(name):
    """Infinite parts, zeros and NaN."""
    row = row_named(name)
    check_special(row, simulate(plan(row, layout_of(SPECIAL), version="plain"), SPECIAL))


# -------------------- versions at their borders

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 255, 256, 257]
BIG = [1023, 1024, 1025, 4095, 4096, 4097, 16 * 256 * 3 + 5, (1 << 16) + 13, 1 << 20]
DTYPES = [np.dtype(t) for t in ("u1", "f2", cm.bfloat16, "i4", "f4", "f8", "c8", "c16")]


@pytest.mark.simulator
@pytest.mark.parametrize("size", SIZES[-6:])
@pytest.mark.parametrize("dtype", [HALF, F32], ids=str)
def test_plain_in_the_simulator(size, dtype):
    rng = np.random.default_rng(size)
    a, b = numbers(rng, size, dtype), numbers(rng, size, dtype)
    add = row_named("add")
    out = simulate(plan(add, layout_of(a), layout_of(b), version="plain"), a, b)
    np.testing.assert_array_equal(out, expected(add, a, b))


@pytest.mark.simulator
@pytest.mark.parametrize("size", [1, 3, 4, 7, 1020, 1021, 1023, 1024, 1025, 1027])
@pytest.mark.parametrize("ahead", [1, 2])
def test_vectors_in_the_simulator(ahead, size, monkeypatch):
    """All elements are computed, also those that fill no access, by aligned accesses."""
    from cudamath.kernels.compiler.lazy_numba import cuda
    from cudamath.kernels.elementwise import dispatch, generator, launches

    def load_vector(a, i, width):
        assert i % width == 0
        return [a[i + k] for k in range(width)]

    def store_vector(a, i, values):
        assert i % len(values) == 0
        for k, value in enumerate(values):
            a[i + k] = value

    monkeypatch.setattr(generator, "load_vector", load_vector, raising=False)
    monkeypatch.setattr(generator, "store_vector", store_vector, raising=False)
    generator.vector_kernel.cache_clear()
    add = cuda.jit(device=True)(lambda x, y: x + y)
    a, b = np.arange(size, dtype="f4"), np.full(size, 0.5, "f4")
    x = layout_of(a)
    p = dispatch.ElementwiseProblem(add, [x, x], x, Output(0))
    made = launches.by_vectors(p) if ahead == 1 else launches.by_vectors_ahead(p)
    np.testing.assert_array_equal(simulate(Plan([x], [made]), a, b), a + b)
    generator.vector_kernel.cache_clear()


@pytest.mark.simulator
@pytest.mark.parametrize(
    "shapes",
    [((3, 1, 5), (4, 1)), ((), (2, 3)), ((7,), (1,)), ((2, 3, 2, 3), (3, 1, 3)), ((1, 1), ())],
    ids=str,
)
@pytest.mark.parametrize("version", ["plain", "small"])
def test_strides_in_the_simulator(shapes, version):
    rng = np.random.default_rng(0)
    a, b = (
        np.asarray(numbers(rng, tuple(2 * n for n in s), F32))[
            (..., *[slice(None, None, 2 if n > 1 else -2) for n in s])
        ]
        for s in shapes
    )
    if version == "small" and max(map(len, shapes)) > 3:
        pytest.skip("more dimensions than it has arguments for")
    row = row_named("multiply")
    out = simulate(plan(row, layout_of(a), layout_of(b), version=version), a, b)
    assert out.shape == broadcast_shapes("", *shapes)
    np.testing.assert_array_equal(out, a * b)
    out = simulate(plan(row, layout_of(a.T), layout_of(a.T), version=version), a.T, a.T)
    np.testing.assert_array_equal(out, a.T * a.T)


#: A block's width at least; less; of many dimensions, the first of which four elements of a thread
#: share or cannot share.
LONG_ROWS = [
    (9, 300),
    (3, 4, 259),
    (2, 2, 3, 256),
    (2500,),
    (30, 255),
    (4, 3, 5, 6),
    (8, 2, 3, 2, 5),
    (6, 3, 4, 50),
]


@pytest.mark.simulator
@pytest.mark.parametrize("shape", LONG_ROWS, ids=str)
def test_several_elements_a_thread_in_the_simulator(shape, monkeypatch):
    """What a million elements run through: places found by additions, from row to row and beyond,
    or a share of the first dimension apart."""
    from cudamath.kernels.elementwise import launches

    monkeypatch.setattr(launches, "MANY", 1)
    rng = np.random.default_rng(0)
    a, b = (
        numbers(rng, tuple(n + 1 for n in shape), F32)[tuple([slice(1, None)] * len(shape))]
        for _ in range(2)
    )
    product = plan(row_named("multiply"), layout_of(a), layout_of(b), version="plain")
    np.testing.assert_array_equal(simulate(product, a, b), a * b)
    np.testing.assert_array_equal(
        simulate(plan(row_named("negative"), layout_of(a), version="plain"), a), -a
    )


@pytest.mark.simulator
@pytest.mark.parametrize(
    "name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
)
def test_integers_of_both_signs_in_the_simulator(name):
    """int64 with uint64 must not meet in float64."""
    a = np.array([-1, 0, 2**53 + 1, 2**63 - 1, -(2**63), 5])
    b = np.array([2**64 - 1, 0, 2**53, 2**63 - 1, 2**63, 5], np.uint64)
    row = row_named(name)
    for x, y in ((a[:, None], b), (b[:, None], a)):
        out = simulate(plan(row, layout_of(x), layout_of(y), version="plain"), x, y)
        np.testing.assert_array_equal(out, getattr(np, name)(x, y))


@pytest.mark.simulator
def test_run_time_scalars_in_the_simulator():
    a = np.arange(40, dtype=np.int32)
    out = simulate(
        plan(row_named("remainder"), layout_of(a), a.dtype, version="plain"), a, scalars=(-7,)
    )
    np.testing.assert_array_equal(out, a % -7)
    b = a.astype(F32)
    out = simulate(plan(row_named("divide"), F32, layout_of(b), version="plain"), b, scalars=(2.5,))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, np.float32(2.5) / b)


def run(made: Plan, *arrays: np.ndarray, scalars: tuple = ()) -> np.ndarray:
    """A plan on the GPU."""
    inputs = [cm.asarray(a, device="cuda") for a in arrays]
    return made.bind("test", [x._layout for x in inputs], len(scalars))(
        *inputs, *scalars
    ).to_numpy()


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["plain", "vector", "vector_ahead"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_versions_on_the_gpu(version, dtype):
    for size in SIZES + BIG:
        if version.startswith("vector") and kind(dtype) == "c":
            continue  # complex numbers are left to `plain`
        rng = np.random.default_rng(size)
        a, b = numbers(rng, size, dtype), numbers(rng, size, dtype)
        for name in ("add", "equal"):
            row = row_named(name)
            out = run(
                plan(
                    row,
                    Layout.new((size,), dtype, 0),
                    Layout.new((size,), dtype, 0),
                    version=version,
                ),
                a,
                b,
            )
            np.testing.assert_array_equal(
                out, expected(row, a, b), err_msg=f"{name} {version} {dtype} {size}"
            )


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape", [(1100, 1021), (5, 700, 301), (3, 7, 200, 256), (1 << 20,), (9000, 120)], ids=str
)
@pytest.mark.parametrize("dtype", [HALF, F32, F64, np.dtype(np.complex64)], ids=str)
def test_parts_of_large_arrays_on_the_gpu(shape, dtype):
    """Several elements a thread of `plain`, whose rows are at least as long as a block is wide, but
    for the last shape."""
    rng = np.random.default_rng(0)
    a, b = (numbers(rng, tuple(n + 1 for n in shape), dtype) for _ in range(2))
    part = tuple([slice(1, None)] * len(shape))
    there, other = cm.asarray(a, device="cuda"), cm.asarray(b, device="cuda")
    np.testing.assert_array_equal((there[part] + other[part]).to_numpy(), a[part] + b[part])
    np.testing.assert_array_equal((-there[part]).to_numpy(), -a[part])
    np.testing.assert_array_equal((there[part] * 2).to_numpy(), a[part] * 2)


#: Operands of which rows begin between the borders of accesses, and no two axes merge.
BROADCAST = [
    ((9, 7, 4, 1), (9, 1, 4, 1)),
    ((5, 33), (33,)),
    ((5, 33), (5, 1)),
    ((3, 5, 7), (5, 1)),
    ((3, 1, 5, 2), (1, 4, 1, 2)),
    ((1, 3), (31, 1)),
    ((2, 3, 2, 3, 2), (2, 1, 2, 1, 2)),
]


@pytest.mark.simulator
@pytest.mark.parametrize("shapes", BROADCAST, ids=str)
def test_broadcast_operands_are_read_one_by_one(shapes, monkeypatch):
    """Version "broadcast", with accesses of several elements in Python."""

    simulated_gpu.give_vectors_and_warps(monkeypatch)
    for name in ("load_vector", "store_vector"):
        monkeypatch.setattr(generator, name, getattr(vector_access, name), raising=False)
    rng = np.random.default_rng(0)
    arrays = [numbers(rng, shape, F32, -9, 9) for shape in shapes]
    function = generator.scalar_function("x - y", (F32, F32), F32, F32)
    wanted = np.subtract(*arrays)
    target = Layout.new(wanted.shape, F32, 0)
    layouts = [Layout.new(shape, F32, 0) for shape in shapes]
    problem = ElementwiseProblem(function, layouts, target, Output(0))
    assert problem.has_parts
    step = launches.by_parts(problem)
    out = np.full(wanted.size, np.nan, F32)
    step.kernel[step.grid, step.block](*[a.ravel() for a in arrays], out, *step.args[3:])
    np.testing.assert_array_equal(out.reshape(wanted.shape), wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [d for d in DTYPES if kind(d) != "c"], ids=str)
def test_broadcast_on_the_gpu(dtype):
    """Version "broadcast" beside NumPy: rows between borders, either operand broadcast. Complex
    numbers are left to `plain`."""
    rng = np.random.default_rng(0)
    for shapes in [*BROADCAST, ((901, 656, 4), (901, 1, 4)), ((70_001, 33), (33,))]:
        a, b = (numbers(rng, shape, dtype) for shape in shapes)
        for x, y in ((a, b), (b, a)):
            for name in ("subtract", "less"):
                row = row_named(name)
                layouts = [Layout.new(v.shape, dtype, 0) for v in (x, y)]
                out = run(plan(row, *layouts, version="broadcast"), x, y)
                np.testing.assert_array_equal(out, expected(row, x, y), err_msg=f"{name} {shapes}")


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["plain", "vector", "vector_ahead"])
def test_mixed_widths_on_the_gpu(version):
    """Operands of different sizes share a thread's elements: the narrowest moves 16 bytes, the
    others more."""
    rng = np.random.default_rng(0)
    for size in (16, 17, 4096, 70_001):
        for d, e in itertools.product(
            [np.dtype(t) for t in ("u1", "f2", "f4", "f8", "i8")], repeat=2
        ):
            a, b = numbers(rng, size, d, 0, 9), numbers(rng, size, e, 0, 9)
            row = row_named("maximum")
            out = run(
                plan(row, Layout.new((size,), d, 0), Layout.new((size,), e, 0), version=version),
                a,
                b,
            )
            np.testing.assert_array_equal(out, np.maximum(a, b), err_msg=f"{d} {e} {size}")
        a = numbers(rng, size, F32)
        out = run(
            plan(row_named("multiply"), Layout.new((size,), F32, 0), F32, version=version),
            a,
            scalars=(2.5,),
        )
        np.testing.assert_array_equal(out, a * np.float32(2.5))


#: Of dtypes that meet in each kind of numbers.
MET = [np.dtype(t) for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2")] + [
    np.dtype(t) for t in (cm.bfloat16, "f4", "f8", "c8", "c16")
]


def assert_met(out: np.ndarray, row: Elementwise, a: np.ndarray, b: np.ndarray) -> None:
    """`out` is what NumPy gives, of complex products but for the last bits."""
    halves = {a.dtype, b.dtype} == {HALF, BF16}
    truth = row.numpy(*[x.astype(F32) if halves or x.dtype == BF16 else x for x in (a, b)])
    wanted = truth.dtype if halves else result_dtype(row, a.dtype, b.dtype)
    assert out.dtype == wanted
    rtol = {np.dtype("c8"): 3e-7, np.dtype("c16"): 5e-16}.get(out.dtype, 0)
    what = f"{row.name} {a.dtype} {b.dtype}"
    np.testing.assert_allclose(out, truth.astype(out.dtype), rtol=rtol, err_msg=what)


@pytest.mark.simulator
@pytest.mark.parametrize("first", MET, ids=str)
def test_small_arrays_of_any_two_dtypes_in_the_simulator(first):
    """One kernel for all dtypes: what it loads and stores is what their codes say."""
    rng = np.random.default_rng(0)
    for second in MET:
        a, b = numbers(rng, (3, 5), first, 1, 60), numbers(rng, (5, 6), second, 1, 60)[:, ::2].T
        for name in ("multiply", "less", "floor_divide"):
            row, card = row_named(name), cm.core.dispatch.op.registry[name]
            if cm.result_type(a.dtype, b.dtype) in card.category:
                made = plan(row, layout_of(a), layout_of(b), version="small")
                assert made.steps[0].kernel.__name__ == "small"
                assert_met(simulate(made, a, b), row, a, b)
        if kind(first) in "iu":
            made = plan(row_named("remainder"), layout_of(a), a.dtype, version="small")
            np.testing.assert_array_equal(simulate(made, a, scalars=(7,)), a % 7)


@pytest.mark.gpu
@pytest.mark.parametrize("first", MET, ids=str)
def test_small_arrays_of_any_two_dtypes_on_the_gpu(first):
    """One kernel for all dtypes and strides."""
    rng = np.random.default_rng(0)
    for second in MET:
        a, b = numbers(rng, (5, 7, 6), first, 1, 60), numbers(rng, (5, 7, 6), second, 1, 60)
        there = [cm.asarray(each, device="cuda") for each in (a, b)]
        for name in ("multiply", "equal", "maximum", "floor_divide", "pow", "less"):
            row = row_named(name)
            card = cm.core.dispatch.op.registry[name]
            common = cm.result_type(a.dtype, b.dtype)
            if common not in card.category or name == "pow" and kind(common) not in "iu":
                continue
            for part in (
                lambda x, y: (x, y),
                lambda x, y: (y[0, 0], x),
                lambda x, y: (x.T, y.T),
                lambda x, y: (x[::-1, 2:5], y[:, 1:4, ::-1]),
                lambda x, y: (x[:, None, 1], y[2, :, :]),
            ):
                x, y = part(*there)
                made = plan(row, x._layout, y._layout, version="small")
                out = made.bind("test", [x._layout, y._layout])(x, y).to_numpy()
                assert_met(out, row, *part(a, b))


def of_one_dtype(dtype: np.dtype, execute: Callable[..., np.ndarray], count: int) -> None:
    """Every expression in the version of small arrays; and numbers beside arrays."""
    rng = np.random.default_rng(0)
    for row in ELEMENTWISE:
        if dtype not in of_kinds("c" if row.name == "conj" else row.kinds):
            continue
        arrays = [numbers(rng, count, dtype, row.low, row.high) for _ in range(row.inputs)]
        if row.name == "pow" and kind(dtype) == "i":
            arrays[1] = np.abs(arrays[1])
        layouts = [layout_of(a) for a in arrays]
        out = execute(plan(row, *layouts, version="small"), *arrays)
        check(row, cm.asarray(out, device="cpu"), arrays)
    if kind(dtype) in "biu":
        return

    a, number = numbers(rng, count, dtype), 2.5 + 1j if kind(dtype) == "c" else 2.5
    by_value = cm.core.dtypes.compute_dtype(dtype)
    multiply = {"expression": "x * y", "compute": dtype, "output": dtype, "version": "small"}
    out = execute(elementwise(layout_of(a), by_value, **multiply), a, scalars=(number,))
    truth = expected(row_named("multiply"), a, np.full_like(a, number))
    np.testing.assert_allclose(out, truth, rtol=3e-7 if kind(dtype) == "c" else 0)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", MET, ids=str)
def test_small_arrays_of_one_dtype_in_the_simulator(dtype):
    of_one_dtype(dtype, simulate, 20)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", MET, ids=str)
def test_small_arrays_of_one_dtype_on_the_gpu(dtype):
    of_one_dtype(dtype, run, 300)


WHOLE = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4")]


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize(
    "row",
    [r for r in ELEMENTWISE if np.dtype("i4") in of_kinds(r.kinds)],
    ids=lambda row: row.name,
)
def test_whole_numbers_may_be_computed_in_int64_in_the_simulator(row, dtype):
    """Wrapped to a narrower dtype, what int64 gives is what NumPy gives in that dtype, awkward
    numbers included: the rule by which small arrays share kernels."""
    from cudamath.kernels.elementwise import dispatch, problem

    card = cm.core.dispatch.op.registry[row.name]
    if dtype not in card.category:
        pytest.skip("not for this dtype")
    compute, output = resolve(row.name, card.ufunc, dtype)
    if problem.kind(compute) != np.int64:
        pytest.skip("computed in floating point")
    some = awkward(dtype)
    if row.name in ("reciprocal", "pow"):
        some = some[some > 0]
    arrays = [
        np.array(c, dtype) for c in zip(*itertools.product(*[some] * row.inputs), strict=True)
    ]
    formula = problem.Formula(card.expression(compute), compute, output)
    reads, result = formula.kinds([dtype] * row.inputs)
    assert set(reads) == {np.dtype(np.int64)}
    wide = [a.astype(np.int64) for a in arrays]
    made = dispatch.elementwise(
        *map(layout_of, wide),
        expression=formula.expression,
        compute=np.dtype(np.int64),
        output=result,
        version="plain",
    )
    with np.errstate(all="ignore"):
        truth = row.numpy(*arrays).astype(output)
    np.testing.assert_array_equal(simulate(made, *wide).astype(output), truth)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "other"),
    [
        ((5, 8), (8,)),
        ((5, 8), (5, 1)),
        ((3, 5, 32), (1, 5, 1)),
        ((7, 4, 64), (7, 1, 64)),
        ((1000, 256), (256,)),
        ((64, 1024), (64, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [HALF, F32, F64], ids=str)
def test_rows_on_the_gpu(shape, other, dtype):
    rng = np.random.default_rng(0)
    a, b = numbers(rng, shape, dtype), numbers(rng, other, dtype)
    for name in ("subtract", "less"):
        row = row_named(name)
        if a.shape[-1] % (16 // result_dtype(row, dtype, dtype).itemsize):
            continue
        made = plan(row, Layout.new(shape, dtype, 0), Layout.new(other, dtype, 0), version="rows")
        assert made.steps[0].kernel.__name__ == "rows"
        np.testing.assert_array_equal(run(made, a, b), expected(row, a, np.broadcast_to(b, shape)))


def test_the_version_fits_the_layouts():
    """Which version a call gets, on layouts alone."""
    from cudamath.kernels.compiler import lazy_numba

    if lazy_numba.SIMULATOR:
        pytest.skip("the simulator knows `plain` alone")
    row = row_named("add")

    def version(*layouts: Layout) -> str:
        return plan(row, *layouts, version=None).steps[0].kernel.__name__

    big = Layout.new((64, 256), F32, 0)
    assert version(big, big) == "vector"
    assert version(big, Layout.new((256,), F32, 0)) == "rows"
    for n, tiled, plain in ((256, "small", "small"), (512, "tiled_vector", "plain")):
        like = Layout.new((64, n), F32, 0)
        assert version(like, Layout.of((64, n), (4, 256), F32, 0)) == tiled
        assert version(like, Layout.of((64, n), (8 * n, 8), F32, 0)) == plain
        assert version(Layout.of((64, n), like.strides, F32, 0, aligned=False), like) == plain
        for dtypes in ((F64, F64), (F32, HALF), (np.dtype(np.int32),) * 2, (F32, F64)):
            chosen = version(*[Layout.new((64, n), d, 0) for d in dtypes])
            assert chosen == ("small" if n == 256 else "vector"), dtypes
    of_six = Layout.of((2,) * 6, tuple([8 * 3**d for d in range(6)]), F64, 0)
    assert version(of_six, of_six) == "plain"  # more dimensions than its arguments tell
    assert (
        plan(row, Layout.new((0, 3), F32, 0), Layout.new((0, 3), F32, 0), version="vector").steps
        == []
    )
    # four elements a thread, and one where they fill no access
    for elements, grid in ((1024, 1), (1023, 2), (1346, 2), (2 << 10 | 3, 3), (1 << 18, 256)):
        x = Layout.new((elements,), F32, 0)
        assert plan(row, x, x, version="vector").steps[0].grid == (grid, 1, 1)
    for function, elements, dtype, name in (
        ("sqrt", 1 << 22, HALF, "vector_ahead"),
        ("sqrt", 1 << 22, F32, "vector"),
        ("sqrt", 1 << 20, HALF, "vector"),
        ("exp", 1 << 22, HALF, "vector"),
        ("reciprocal", 1 << 22, HALF, "vector_ahead"),
        ("abs", 1 << 22, HALF, "vector"),
    ):
        assert (
            plan(row_named(function), Layout.new((elements,), dtype, 0), version=None)
            .steps[0]
            .kernel.__name__
            == name
        )


def test_functions_of_float32_are_the_devices_of_float32():
    """Those of float64 give the same numbers, rounded, and take sixty times as long on many
    devices."""
    from cudamath.kernels.compiler import lazy_numba
    from cudamath.kernels.elementwise import scalar_functions

    if lazy_numba.SIMULATOR:
        pytest.skip("the simulator has NumPy's")
    narrow, wide = map(
        scalar_functions.functions, (lazy_numba.types.float32, lazy_numba.types.float64)
    )
    for name in ("cbrt", "exp2", "nextafter"):
        assert wide[name] is getattr(lazy_numba.libdevice, name)
        assert narrow[name] is getattr(lazy_numba.libdevice, f"{name}f")


@pytest.mark.simulator
@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "gammaincinv"])
@pytest.mark.parametrize("dtype, bound", [(np.float64, 2e-13), (np.float32, 1e-6)])
def test_sums_of_special_functions_end_by_the_dtype(name, dtype, bound):
    """Those of float64 go on until their digits are there."""
    a, x = np.array([0.5, 3, 20, 80, 2.25]), np.array([0.2, 0.7, 0.35, 0.9, 0.05])
    if name != "gammaincinv":
        x *= 2 * a
    a, x = a.astype(dtype), x.astype(dtype)
    kind = np.dtype(dtype)
    expression = f"special_{name}(x, y)"
    layouts = [layout_of(v) for v in (a, x)]
    made = elementwise(*layouts, expression=expression, compute=kind, output=kind, version="plain")
    expected = getattr(scipy.special, name)(a.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(simulate(made, a, x), expected, bound)
