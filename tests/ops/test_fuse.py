"""cm.fuse: fused functions against the same functions as they are, and their gradients; in the
simulator and on a GPU."""

from __future__ import annotations

import functools
import importlib
import math
import types

import numpy as np
import optree
import pytest
from compiled_facts import compile_plan
from emulated_gpu import emulated_gpu
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.core.array import wrap
from cudamath.core.devices import CPU
from cudamath.core.dispatch import planner_calls
from cudamath.core.dispatch.plan import Plan
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.generated import fusion
from cudamath.ml import loss_elementwise
from cudamath.testing import assert_close, simulate

F32 = np.float32


def normal(shape, dtype=F32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def drawn(name, shapes, dtype):
    """Random; for maxima of differences such that 16 bits tell all candidates apart, and the
    gradient goes to the same one."""
    if name != "largest of what is centred":
        return [normal(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    ((rows, columns),) = shapes
    order, row = (
        np.random.default_rng(0).permutation(columns) - columns // 2,
        np.arange(rows)[:, None],
    )
    return [(order[(np.arange(columns) + 5 * row) % columns] / 2 + row).astype(dtype)]


def gelu(x):
    return 0.5 * x * (1 + cm.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, w, b):
    apart = x - x.mean(-1, keepdims=True)
    return apart / cm.sqrt((apart * apart).mean(-1, keepdims=True) + 1e-5) * w + b


def softmax(x):
    e = cm.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def standard(x):
    return (x - cm.expand_dims(cm.mean(x, -1), -1)) / (cm.std(x, -1, keepdims=True) + 0.1)


def fields(x, y, steps):
    """Two that spread and react."""
    for _ in range(steps):
        r = x * y
        x, y = x + cm.roll(x, 1, 0) - r, y + cm.roll(y, -1, 1) + r
    return x, y


def many(x, y):
    z = x * 2 + y
    return {
        "sum": z.sum(-1),
        "z": cm.where(z > 0, z, 0.1 * z),
        "max": (z * z).max(-1, keepdims=True),
    }


def forces(place, mass):
    """Of points on each other: sums over the middle axis, of what a sum of three terms makes."""
    apart = place[None] - place[:, None]
    square = (apart**2).sum(-1) + 0.1
    return (apart * (mass / (square * cm.sqrt(square)))[..., None]).sum(1)


def forces_first(place, mass):
    """The same, with the coordinates in front, as means over the last axis."""
    apart = place[:, None] - place[:, :, None]
    square = (apart**2).sum(0) + 0.1
    return (apart * (mass / (square * cm.sqrt(square)))).mean(-1)


#: name -> (function, shapes of its arguments, kernels of rows and others that it takes)
FUNCTIONS = {
    "gelu": (gelu, [(5, 7)], 1),
    "real parts": (lambda x, y: cm.real((x + 1j * y) * (y - 2j * x)) * x.real, [(3, 4), (4,)], 1),
    "imaginary parts": (
        lambda x, y: cm.imag((x + 1j * y) * (y - 2j * x)) * (x * 1j).imag - cm.imag(y),
        [(3, 4), (4,)],
        1,
    ),
    "chain": (
        lambda x, y, z: cm.exp(-((x - y) ** 2)) * z / (1 + abs(y)) - cm.ml.silu(z),
        [(3, 4), (4,), (3, 1)],
        1,
    ),
    "layer norm": (layer_norm, [(3, 12), (12,), (12,)], 1),
    "softmax": (softmax, [(2, 3, 9)], 1),
    "standard": (standard, [(4, 10)], 1),
    "mean square": (lambda x, y: ((x - y) ** 2).mean(), [(3, 7), (3, 7)], 1),
    "sum of rows": (lambda x, b: cm.ml.relu(x + b).sum(-1), [(6, 5), (5,)], 1),
    "sum of columns": (lambda x: (x * x).sum(0), [(6, 5)], 1),
    "norm": (lambda x: x / cm.linalg.vector_norm(x, axis=-1, keepdims=True), [(4, 6)], 1),
    "norms": (
        lambda x: (
            x / cm.linalg.vector_norm(x, axis=-1, keepdims=True, ord=1)
            + cm.linalg.vector_norm(x, axis=-1, keepdims=True, ord=float("inf"))
        ),
        [(4, 6)],
        1,
    ),
    "columns then elements": (lambda x: (x - x.mean(0)) * 2, [(6, 5)], 1),
    "transposed": (lambda x, y: x.T * 2 + y, [(5, 4), (4, 5)], 1),
    "rows of a transposed array": (
        lambda x, y: x.T.sum(-1, keepdims=True) + x.T * y,
        [(5, 4), (4, 5)],
        1,
    ),
    "a little array across": (
        lambda x, w: (x * w.T, cm.tanh(x + w.T)),
        [(32, 3, 8), (8, 3)],
        1,
    ),
    "rows and a little array across": (
        lambda x, w: (softmax(x * w.T), (x + w.T).mean(-1)),
        [(32, 3, 8), (8, 3)],
        1,
    ),
    "both ways": (
        lambda x: x.sum(-1, keepdims=True) * x + x.T.max(-1, keepdims=True) * x.T,
        [(5, 5)],
        1,
    ),
    "rows of permuted axes": (
        lambda x, y: softmax(cm.permute_dims(x, (2, 0, 1))) - cm.permute_dims(y, (1, 2, 0)),
        [(3, 4, 2), (4, 2, 3)],
        1,
    ),
    "turned back": (
        lambda x, y: (x.T.max(-1, keepdims=True) + x.T).T * y + (x.T + x.T.sum(0)).T,
        [(2, 5), (2, 5)],
        2,
    ),
    "returned turned": (lambda x: (x.T.max(-1, keepdims=True) + x.T).T, [(2, 5)], 1),
    "largest of what is centred": (
        lambda x: (x.T - x.T.mean(-2, keepdims=True)).max(1, keepdims=True),
        [(6, 33)],
        1,
    ),
    "beside nothing": (lambda x, y: y.sum(-1, keepdims=True) + y, [(0, 3), (3,)], 1),
    "comparison": (lambda x, y: cm.where((x > y) & (x < 2), x, y), [(9,), ()], 1),
    "least": (lambda x: (x - x.min(-1, keepdims=True)).max((0, 1)), [(3, 5)], 1),
    "several": (many, [(4, 6), (6,)], 1),
    "reshaped": (lambda x, y: cm.exp((x * 2).reshape((6, -1))) + y, [(2, 3, 4), (4,)], 2),
    "new axes": (
        lambda x, y: (x[:, None] * y[None] - y[..., None].sum((0, 2))[None]).sum(-1),
        [(3, 4), (2, 4)],
        1,
    ),
    "repeated": (lambda x: (cm.broadcast_to(x, (3, 4)) * 2, x), [(4,)], 1),
    "numbers": (
        lambda x, y: (
            x * cm.sqrt(cm.asarray(2.0, x.dtype))
            + cm.ones((3, 4), x.dtype) * y.var((0, 1))
            - cm.exp(1.5).astype(x.dtype)
        ),
        [(3, 4), (2, 5)],
        1,
    ),
    "of constants": (
        lambda x, m: (
            x * cm.ones((3, 4), x.dtype).sum(0) + cm.zeros((4,), x.dtype).max(-1) + x.var(0, mean=m)
        ),
        [(3, 4), (1, 4)],
        1,
    ),
    "distances": (
        lambda x, y: cm.sqrt(((x[:, None] - y[None]) ** 2).sum(-1) + 0.1),
        [(4, 3), (5, 3)],
        1,
    ),
    "forces": (forces, [(70, 3), (70,)], 1),
    "forces, coordinates first": (
        lambda place, mass: forces(place.T, mass).T * 2 + forces_first(place, mass),
        [(3, 70), (70,)],
        3,
    ),
    "extremes of two coordinates": (
        lambda x: (
            forces(x, (x * x).sum(-1)) + cm.exp(x[:, None] * x[None].sum(-1, keepdims=True)).max(1)
        ),
        [(66, 2)],
        4,
    ),
    "brightness": (lambda x: x - (x * 0.5).mean(-1, keepdims=True) * x, [(4, 5, 3)], 1),
    "two of the first axis": (lambda x: (x * x).sum(0, keepdims=True) + x, [(2, 5)], 1),
    "coordinates of coordinates": (
        lambda x: ((x[:, None] * x[None]).sum(-1) * 2).sum(0) + (x - 1).sum(1).sum(),
        [(3, 2)],
        1,
    ),
    "many coordinates": (
        lambda a, b, c, d: (a * b * c * d + a).sum(-1),
        [(6, 4), (6, 4), (6, 4), (6, 4)],
        1,
    ),
    "complex numbers": (
        lambda x, y: cm.std(x + 1j * y, -1, keepdims=True) * x + cm.var(y + 1j * x),
        [(3, 4), (3, 4)],
        4,
    ),
    "one number": (lambda x, y: x / cm.sqrt((x * x).sum() + (y * y).sum()), [(), (5,)], 2),
    "of one element": (
        lambda x, y: (x * x).mean(-1) + (x + 1).max((1,)) * y.min((-1,)),
        [(6, 1), (6, 1)],
        1,
    ),
    "rolled": (
        lambda x: cm.roll(x, 1, 0) * x + cm.roll(x, -2, 1) - cm.roll(x, (1, 2), (0, 1)),
        [(4, 6)],
        1,
    ),
    "rolled fields of three steps": (lambda x, y: fields(x, y, 3), [(4, 5), (4, 5)], 3),
    "rolled alone": (lambda x: cm.roll(x, 3), [(7,)], 1),
    "rolled as it is made": (lambda x: cm.roll(cm.sin(x), 1, 1) * cm.sin(x), [(3, 5)], 2),
    "rolled again": (lambda x: cm.roll(cm.roll(x, 1, 0) + x, 2, 1) + x, [(3, 5)], 2),
    "rolled planes": (
        lambda x, y: cm.roll(x, (1, -1, 2), (0, 1, 2)) * cm.roll(y, 1, 0) + x,
        [(3, 4, 5), (4, 5)],
        1,
    ),
    "rolled and repeated": (
        lambda x, y: (
            cm.roll(x, 2, 0)[:, None] * cm.roll(y, 1) + cm.roll(x, 1)[:, None] * x[:, None]
        ),
        [(4,), (6,)],
        1,
    ),
    "rolled beside sums of rows": (
        lambda x: (cm.roll(x, 1, 1) * x + x.sum(-1, keepdims=True), cm.roll(x, 1, 0).max(1)),
        [(5, 33)],
        1,
    ),
    "rolled, turned": (lambda x: cm.roll(x.T, 1, 1) * x.T + cm.roll(x, 1, 1).T, [(4, 5)], 1),
    "coordinates rolled": (lambda x: (cm.roll(x, 1, 1) * x).sum(-1) + 1, [(6, 3)], 1),
    "cast": (lambda x: (x.astype("float16") * 3).astype("float32") + 1, [(8,)], 1),
    "exponents": (lambda x: cm.ldexp(x, (x * 3).astype("int64")) + cm.ldexp(x, 2), [(8,)], 1),
}
DIFFERENTIABLE = [n for n in FUNCTIONS if n not in ("cast", "exponents")]


def flat(tree):
    import optree

    return optree.tree_leaves(tree)


def card_of(function, arrays):
    """The fused function behind `cm.fuse`, which calls a function on the CPU as it is."""
    import optree

    fuse = importlib.import_module("cudamath.fuse")

    leaves, structure = optree.tree_flatten((tuple(arrays), {}))
    return fuse._card(function, "test", leaves, structure)[0]


@pytest.fixture
def simulated(monkeypatch):
    """Plans run in the simulator, on CPU arrays; how many did is counted."""
    ran = []

    def bind(self, name, layouts, scalars=0, device=None):
        def run(*arrays):
            ran.append(self)
            out = simulate(self, *[x._data for x in arrays])
            return tuple(map(wrap, out)) if isinstance(out, tuple) else wrap(out)

        return run

    monkeypatch.setattr(Plan, "bind", bind)
    return ran


def arguments(name, dtype=F32):
    return drawn(name, FUNCTIONS[name][1], dtype)


@pytest.mark.simulator
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_in_the_simulator(name, simulated):
    function, _, kernels = FUNCTIONS[name]
    with cm.device("cpu"):
        arrays = [cm.asarray(a) for a in arguments(name)]
        exact = flat(function(*[cm.asarray(a.astype(np.float64)) for a in arguments(name)]))
        found = card_of(function, arrays)(*arrays)
        assert len(simulated) == kernels
        for y, wanted in zip(found, exact, strict=True):
            assert y.shape == wanted.shape
            assert_close(
                y, np.asarray(wanted), rtol=3e-6 if name != "cast" else 2e-3, atol=2e-6, what=name
            )


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *[(n, np.dtype(np.float64)) for n in DIFFERENTIABLE],
        *[
            (n, np.dtype(cm.bfloat16))
            for n in (
                "least",
                "several",
                "softmax",
                "layer norm",
                "columns then elements",
                "reshaped",
                "extremes of two coordinates",
            )
        ],
    ],
    ids=str,
)
def test_gradients_in_the_simulator(name, dtype, simulated):
    function, eps = FUNCTIONS[name][0], 1e-11 if dtype == np.float64 else 2e-2
    with cm.device("cpu"):
        arrays = [cm.asarray(a) for a in arguments(name, dtype)]
        y, pull = cm.vjp(lambda *xs: flat(function(*xs)), *[x.astype("float64") for x in arrays])
        g = [cm.asarray(normal(each.shape, dtype, 9)) for each in y]
        wanted = pull([each.astype("float64") for each in g])
        card = card_of(function, arrays)
        found = card.vjp(tuple(g), None, *arrays)
        for each, exact in zip(found, wanted, strict=True):
            assert each.shape == exact.shape and each.dtype == dtype
            assert_close(
                each,
                exact.to_numpy(),
                rtol=eps,
                atol=eps * np.abs(exact.to_numpy()).max(initial=1),
                what=name,
            )


@pytest.mark.simulator
def test_forces_in_segments_of_rows(simulated, monkeypatch):
    """Few rows are divided among groups of threads, each of which leaves one value of each
    coordinate."""
    fusion = importlib.import_module("cudamath.kernels.generated.fusion")
    monkeypatch.setattr(fusion, "SEGMENT", 32)
    monkeypatch.setattr(importlib.import_module("cudamath.fuse").reductions, "sum", cm.sum)
    with cm.device("cpu"):
        arrays = [cm.asarray(a) for a in arguments("forces")]
        exact = forces(*[cm.asarray(a.astype(np.float64)) for a in arguments("forces")])
        (found,) = card_of(forces, arrays)(*arrays)
    assert [s.grid[0] for s in simulated[0].steps[-1:]] == [70 * 3]
    assert_close(found, exact.to_numpy(), rtol=3e-6, atol=2e-6, what="forces")


@pytest.mark.simulator
@pytest.mark.parametrize("shape", [(3, 4, 16), (2, 600), (1, 2100)], ids=str)
def test_rolled_rows_in_whole_accesses(simulated, monkeypatch, shape):
    """By as many threads as on a GPU: several elements an access, but for what is rolled along the
    columns."""
    fusion = importlib.import_module("cudamath.kernels.generated.fusion")
    monkeypatch.setattr(fusion, "SIMULATOR", False)
    x, y = drawn("rolled", [shape, shape], F32)
    far = (1,) * len(shape), tuple(range(len(shape)))
    with cm.device("cpu"):
        card = card_of(
            lambda x, y: cm.roll(x, *far) * cm.roll(y, -1, 0) + x - cm.roll(y, 5, -1),
            [cm.asarray(x), cm.asarray(y)],
        )
        (found,) = card(cm.asarray(x), cm.asarray(y))
    assert [math.prod(s.block) >= 32 for s in simulated[0].steps] == [True]
    exact = np.roll(x, *far) * np.roll(y, -1, 0) + x - np.roll(y, 5, -1)
    np.testing.assert_allclose(np.asarray(found), exact, 1e-6, 1e-6)


@pytest.mark.simulator
def test_an_array_that_repeats_is_not_copied(simulated):
    """Along the columns: it has one value per row; along all of them: one in all."""
    given = drawn("repeats", [(4, 9), (4, 1), (1, 1)], F32)
    with cm.device("cpu"):
        x, *others = map(cm.asarray, given)
        arrays = [x, *[cm.broadcast_to(y, (4, 9)) for y in others]]
        card = card_of(lambda x, y, z: (x * y + z, x - z), arrays)
        found = card(*arrays)
    ((step,),) = [plan.steps for plan in simulated]
    x, y, z = given
    for one, other in zip(found, (x * y + z, x - z), strict=True):
        assert_close(one, other, rtol=3e-6, atol=2e-6, what="repeats")


def leapfrog(place, velocity, mass):
    """Places that are computed before all pairs of them are."""
    place = place + 0.01 * (velocity + 0.005 * forces(place, mass))
    return place, velocity + forces(place, mass)


@pytest.mark.simulator
def test_what_many_elements_would_compute_again_is_computed_once(simulated, monkeypatch):
    monkeypatch.setattr(importlib.import_module("cudamath.fuse"), "LARGE", 1000)
    given = drawn("leapfrog", [(70, 3), (70, 3), (70,)], F32)
    with cm.device("cpu"):
        arrays = [cm.asarray(a) for a in given]
        exact = leapfrog(*[cm.asarray(a.astype(np.float64)) for a in given])
        found = card_of(leapfrog, arrays)(*arrays)
        assert len(simulated) == 4
    for y, wanted in zip(found, exact, strict=True):
        assert_close(y, wanted.to_numpy(), rtol=3e-6, atol=2e-6, what="leapfrog")


@pytest.mark.parametrize(("large", "rises"), [(1000, False), (10**9, True)])
def test_all_pairs_compute_the_forces_of_their_own_step_alone(large, rises, monkeypatch):
    """Where places are not computed once, before all pairs read them, each pair computes them anew:
    the kernels of later steps compute more."""
    monkeypatch.setattr(importlib.import_module("cudamath.fuse"), "LARGE", large)
    given = drawn("leapfrog", [(70, 3), (70, 3), (70,)], F32)
    work: list[int] = []

    def observe(call, _plan):
        if call.planner == "generated.fusion.fused" and math.prod(call.params["shape"]) >= 4900:
            work.append(len(call.params["program"].values))

    with emulated_gpu(monkeypatch):
        arrays = [cm.asarray(a) for a in given]
        planner_calls.observers.append(observe)
        try:
            found = cm.fuse(leapfrog)(*arrays)
        finally:
            planner_calls.observers.remove(observe)
        found = [y.to_numpy() for y in found]
    with cm.device("cpu"):
        exact = leapfrog(*[cm.asarray(a.astype(np.float64)) for a in given])
    assert len(work) >= 2 and (max(work) > 1.5 * work[0]) == rises
    for y, wanted in zip(found, exact, strict=True):
        assert_close(y, wanted.to_numpy(), rtol=3e-6, atol=2e-6, what="leapfrog")


def many_of_each(*xs):
    """Two results of the same, another one of all, and a sum of rows."""
    down = functools.reduce(lambda a, b: a * 0.5 + b, xs)
    up = functools.reduce(lambda a, b: a * 0.25 + b, xs[::-1])
    return down - up, cm.where(down > up, down, -up), (down * up).sum(-1)


def deep(x, y):
    """2,000 steps, of which each is an operand twice: turns by numbers that 16 bits hold."""
    for k in range(1000):
        x = x - y * (k % 7 / 128)
        y = y + x * (1 / 128)
    return x, y


def compared(*xs):
    """As many arrays beside an element that is looked for."""
    down = functools.reduce(lambda a, b: a * 0.5 + b, xs)
    return functools.reduce(lambda a, b: a * 0.25 + b, xs), cm.where(down == down * 1.0, down, 0)


def largest(*xs):
    """One number a row of each array."""
    return (xs[0] * sum([x.max(-1, keepdims=True) for x in xs]),)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "function, count",
    [(many_of_each, 26), (deep, 2), (compared, 40), (largest, 17)],
    ids=["many", "deep", "==", "extremes"],
)
@pytest.mark.parametrize("shape", [(5, 7), (5, 1)], ids=["elements", "rows"])
def test_what_is_too_much_for_a_kernel_becomes_several(function, count, dtype, shape, monkeypatch):
    """Each reads no more arrays and computes no more values than one may. Nothing is rounded to 16
    bits between them."""
    host = [cm.asarray(normal(shape, F32, k), device="cpu").astype(dtype) for k in range(count)]
    programs, rounds = [], set()

    def observe(call, _plan):
        if call.planner == "generated.fusion.fused":
            programs.append((call.params["program"], len(call.inputs)))
            rounds.add(call.params.get("rounds", False))

    with emulated_gpu(monkeypatch):
        planner_calls.observers.append(observe)
        try:
            found = cm.fuse(function)(*[cm.asarray(x.to_numpy(), device="cuda") for x in host])
        finally:
            planner_calls.observers.remove(observe)
        found = [y.to_numpy().astype(np.float64) for y in found]
    with cm.device("cpu"):
        wide = [x.astype("float64") for x in host]
        exact = [y.to_numpy() for y in function(*wide)]
    assert len(programs) > 1
    for program, inputs in programs:
        assert inputs <= 16 and len(program.values) <= 1024 + 17  # and casts of what it leaves
    assert rounds == {function is compared}
    rounding = {"float32": 1e-4, "float64": 1e-12, "bfloat16": 0.01}[dtype]
    for y, wanted in zip(found, exact, strict=True):
        assert_close(y, wanted, rtol=rounding, atol=rounding * np.abs(wanted).max())


def test_third_derivatives_of_elliptic_functions_are_kernels_of_bounded_size(monkeypatch):
    """14 arrays and 3,400 values, on 11,000 paths deeper than Python's stack."""
    x = [normal((3, 4), np.float64), np.random.default_rng(1).uniform(0.1, 0.8, (3, 4))]

    def slopes(order, u, m):
        function = lambda u, m: sum([y.sum() for y in cm.special.ellipj(u, m)])  # noqa: E731
        for k in range(order):
            inner = function
            function = lambda u, m, f=inner, k=k: sum(  # noqa: E731
                [(g * (k + 1)).sum() for g in cm.grad(f, (0, 1))(u, m)]
            )
        return float(function(u, m))

    with cm.device("cpu"):
        exact = slopes(3, *map(cm.asarray, x))
    with emulated_gpu(monkeypatch):
        found = slopes(3, *[cm.asarray(a, device="cuda") for a in x])
    assert found == pytest.approx(exact, rel=1e-10)


INF = math.inf
#: loss, x, target, what the sum's slopes by both are, and the second one by x
AT_LIMITS = {
    "binary_cross_entropy": (
        cm.ml.binary_cross_entropy,
        [0, 1, 0, 1, 0.5],
        [0, 1, 1, 0, 0.25],
        [0, 0, -1e12, 1e12, 1],
        [100, -100, 100, -100, 0],
        None,
    ),
    "bce_with_logits": (
        functools.partial(cm.ml.bce_with_logits, pos_weight=3.0),
        [0, 0, 800, -800],
        [0, 1, 0.5, 1],
        [0.5, -1.5, 0.5, -3],
        [2 * math.log(2), 2 * math.log(2), -800, 2400],
        [0.25, 0.75, 0, 0],
    ),
    "kl_div": (cm.ml.kl_div, [-1, -2], [0, 0.5], [0, -0.5], [-INF, 3 - math.log(2)], [0, 0]),
    "kl_div (log)": (
        functools.partial(cm.ml.kl_div, log_target=True),
        [-1, -2],
        [-INF, -1],
        [0, -1 / math.e],
        [0, 2 / math.e],
        [0, 0],
    ),
    "huber_loss": (cm.ml.huber_loss, [INF, 0.5, -3], [0, 0, 0], [1, 0.5, -1], [-1, -0.5, 1], None),
}


def slopes_at_limits(name, fused):
    """Of a loss made by `fused(function, *arrays)`, which returns the gradient of its sum by all
    arrays."""
    loss, x, t, by_x, by_t, second = AT_LIMITS[name]
    x, t = cm.asarray(x, dtype="float64"), cm.asarray(t, dtype="float64")
    for reduction, scale in (("sum", 1), ("mean", 1 / x.size)):
        found = fused(lambda x, t: loss(x, t, reduction=reduction), x, t)  # noqa: B023
        for one, expected in zip(found, (by_x, by_t), strict=True):
            assert_close(one, scale * np.array(expected), rtol=1e-12, atol=1e-12, what=name)
    if second is not None:
        found, _ = fused(lambda x, t: cm.grad(lambda x: loss(x, t, reduction="sum"))(x).sum(), x, t)
        assert_close(found, np.array(second), rtol=1e-12, atol=1e-12, what=name)


@pytest.mark.simulator
@pytest.mark.parametrize(
    "name", ["kl_div (log)", "huber_loss"]
)  # of others Python's functions there raise at the limits
def test_losses_at_their_limits_in_the_simulator(name, simulated):
    with cm.device("cpu"):
        slopes_at_limits(
            name,
            lambda function, *arrays: card_of(function, arrays).vjp((cm.ones(()),), None, *arrays),
        )


@pytest.mark.parametrize("name", AT_LIMITS)
def test_losses_at_their_limits(name, device):
    slopes_at_limits(name, lambda function, *arrays: cm.grad(cm.fuse(function), (0, 1))(*arrays))


@pytest.mark.parametrize("name", AT_LIMITS)
def test_formulas_of_losses_at_their_limits(name, monkeypatch):
    """What is traced, with arrays of the CPU."""
    monkeypatch.setattr(loss_elementwise, "TRACED", CPU)
    knows_no_call = types.SimpleNamespace(again=lambda *_: None, remember=lambda *_, **__: None)
    monkeypatch.setattr(loss_elementwise, "_card", lambda x, t: knows_no_call)
    with cm.device("cpu"):
        slopes_at_limits(name, lambda function, *arrays: cm.grad(function, (0, 1))(*arrays))


def test_a_view_as_its_own_dtype_is_the_array(device):
    """Only other dtypes would want the bytes, which an array that is fused does not have."""
    x = cm.asarray(np.arange(6.0))
    fused = cm.fuse(lambda x: x.view("float64") * 2 + 1)
    assert fused(x).tolist() == (np.arange(6.0) * 2 + 1).tolist()
    with pytest.raises(TypeError, match="^fuse: what is fused has no bytes to view"):
        cm.fuse(lambda x: x.view("int64") + 1)(x)


@pytest.mark.simulator
def test_zeros_have_signs_in_the_simulator(monkeypatch):
    """0.0 and -0.0 are equal, and their kernels were one: in the body of a function, and as its
    argument."""
    with simulated_gpu(monkeypatch):
        x = cm.asarray([1.0, -2.0])
        inside = [
            cm.fuse(lambda x, zero=zero: cm.copysign(x, zero))(x).tolist() for zero in (0.0, -0.0)
        ]
        rows = [
            cm.fuse(lambda x, zero=zero: cm.copysign(x, zero) + x.sum())(x).tolist()
            for zero in (0.0, -0.0)
        ]
        given = cm.fuse(lambda x, zero: cm.copysign(x, zero))
        assert inside == [given(x, zero).tolist() for zero in (0.0, -0.0)] == [[1, 2], [-1, -2]]
        assert rows == [[0, 1], [-2, -3]]


def several(x, y):
    """Two results with a value per element."""
    return x * y + 1, x - y


#: Arguments of `several`: contiguous, with gaps, transposed, one number a row, of two lengths.
WALKED = {
    "whole": lambda a: (a, a * 2),
    "columns left out": lambda a: (a[:, :, :4], a[:, :, 1:]),
    "rows left out": lambda a: (a[:, :2], a[:, 1:]),
    "planes left out": lambda a: (a[::2], a[1::2]),
    "transposed": lambda a: (a.T, a.T + 1),
    "transposed in part": lambda a: (a, a.transpose(1, 0, 2).copy().transpose(1, 0, 2)),
    "one a row": lambda a: (a, a[:, :, :1]),
    "one a plane": lambda a: (a, a[:, :1, :1]),
    "one row": lambda a: (a, a[:1, :1]),
    "one column": lambda a: (a[:, :, 1:2], a[:, :, 3:4]),
    "one element": lambda a: (a[1:2, 1:2, 1:2], a[:1, :1, :1]),
    "backwards": lambda a: (a[::-1], a[:, ::-1]),
}


@pytest.mark.simulator
@pytest.mark.parametrize("name", WALKED)
@pytest.mark.parametrize("enough", [1, 20, 1000])
def test_several_results_in_segments(name, enough, monkeypatch):
    """Rows that follow each other are one, which is cut where this fills the device."""
    monkeypatch.setattr(fusion, "ELEMENTWISE_THREADS", 1)
    monkeypatch.setattr(fusion, "FEW", enough)
    x, y = WALKED[name](np.arange(60.0).reshape(4, 3, 5))
    with simulated_gpu(monkeypatch):
        a, b = cm.fuse(several)(cm.array(x), cm.array(y))
        np.testing.assert_array_equal(a.to_numpy(), x * y + 1)
        np.testing.assert_array_equal(b.to_numpy(), x - y)


def several_empty(xp, a, b):
    return xp.exp(a), a.T * 2, b + 1


def sums_of_both(xp, a, b):
    return a.sum(axis=0), b.sum(axis=1, keepdims=True), a.sum()


def each_with_the_other(xp, a, b):
    return xp.exp(a) + b.sum(), b * a.sum()


@pytest.mark.simulator
@pytest.mark.parametrize("function", [several_empty, sums_of_both, each_with_the_other])
@pytest.mark.parametrize(
    "shapes", [((0, 3), (3, 0)), ((3, 0), (0, 3)), ((2, 3), (3, 0)), ((0, 0), (1, 1))], ids=str
)
def test_several_results_some_without_elements(shapes, function, monkeypatch):
    """Results of several shapes, of which some have no elements, and sums over none."""
    a, b = (normal(shape, np.float64) for shape in shapes)
    with simulated_gpu(monkeypatch):
        found = cm.fuse(functools.partial(function, cm))(cm.array(a), cm.array(b))
        for ours, theirs in zip(found, function(np, a, b), strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours.to_numpy(), theirs, 1e-12, 1e-12)


def standardized(x):
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), x.max(-1)


@pytest.mark.simulator
def test_few_long_rows(monkeypatch):
    """Reductions of them have kernels of their own, with the same values."""
    monkeypatch.setattr(fusion, "LONG", 16)
    x = normal((2, 37), np.float64)
    truth = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), x.max(-1)
    with simulated_gpu(monkeypatch):
        for ours, theirs in zip(cm.fuse(standardized)(cm.array(x)), truth, strict=True):
            np.testing.assert_allclose(ours.to_numpy(), theirs, 1e-12, 1e-12)


@pytest.mark.parametrize("shape", [(1 << 22,), (2, 1 << 21), (1 << 20, 4), (1 << 11, 1 << 11)])
@pytest.mark.parametrize("function", [lambda x: several(x, 3), standardized])
def test_one_long_row_fills_the_device(shape, function, fake):
    """Many blocks walk an array of 4 million elements, whatever its shape."""
    cm.fuse(function)(cm.empty(shape, "float32", device="cuda"))
    grids = [math.prod(grid) for name, grid, *_ in fake.launches if name == "fused_rows"]
    assert grids and min(grids) >= 128, fake.launches


@pytest.mark.simulator
def test_arrays_of_the_gpu_that_are_no_arguments(monkeypatch):
    """They were said to be on another device than "traced"."""
    with simulated_gpu(monkeypatch):
        x, w = cm.ones((3, 4)), cm.ones(4)
        for function in (
            lambda x: x * w,
            lambda x: cm.where(x > 0, w, x),
            lambda x: cm.grad(lambda x: (w * x).sum())(x),
        ):
            with pytest.raises(
                TypeError, match=r"^fuse: all arrays must be arguments; .* of shape \(4,\)"
            ):
                cm.fuse(function)(x)


@pytest.mark.simulator
def test_the_default_dtype_may_change_in_the_simulator(monkeypatch):
    """What numbers inside the function were was remembered, with its kernel."""
    function = cm.fuse(lambda x: x * cm.sqrt(2.0) + cm.ones(3))
    with simulated_gpu(monkeypatch):
        x = cm.ones(3, "float32")
        for dtype in ("float64", "float32", "float64"):
            cm.set_default_dtype(dtype)
            try:
                assert function(x).dtype == dtype
            finally:
                cm.set_default_dtype("float64")


ROUNDED_ONCE = [
    1 + 2.0**-11 + 2.0**-30,
    1 + 2.0**-11,
    3.0,
]  # in float32 the first is the second, a tie that goes to 1


@pytest.mark.simulator
@pytest.mark.parametrize(("source", "target"), [("c8", "c16"), ("c16", "c8"), ("f4", "c8")])
def test_complex_numbers_of_another_width(source, target, simulated):
    """Both parts arrive; of a real number's the second is zero."""
    x = np.array([1, -2, 3]).astype(source) * np.array(1 + 2j if source[0] == "c" else 1, source)
    with cm.device("cpu"):
        given = cm.asarray(x)
        (found,) = card_of(lambda x: [(x * 2).astype(target) + 1], [given])(given)
        assert simulated and found.dtype == target
        np.testing.assert_array_equal(found.to_numpy(), (x * 2).astype(target) + 1)


@pytest.mark.simulator
def test_doubles_become_halves_at_once(simulated):
    with cm.device("cpu"):
        x = cm.asarray(np.array(ROUNDED_ONCE))
        (found,) = card_of(lambda x: [(x * 1.0).astype("float16")], [x])(x)
        assert simulated and found.tolist() == np.array(ROUNDED_ONCE).astype("f2").tolist() == [
            1 + 2.0**-10,
            1,
            3,
        ]


def test_doubles_become_halves_at_once_in_one_kernel(device):
    x = cm.asarray(np.array(ROUNDED_ONCE))
    assert cm.fuse(lambda x: (x * 1.0).astype("float16"))(x).tolist() == [1 + 2.0**-10, 1, 3]


@pytest.mark.compiles
@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("layer norm", "fused_rows"),
        ("mean square", "fused_rows"),
        ("gelu", "vector"),
        ("real parts", "rows"),
        ("imaginary parts", "rows"),
        ("transposed", "tiled_vector"),
    ],
)
def test_compiles_without_spills(name, kernel, monkeypatch):
    function, shapes, _ = FUNCTIONS[name]
    seen = []

    def bind(self, label, layouts, scalars=0, device=None):
        seen.extend(compile_plan(self, layouts, (9, 0)))
        return lambda *arrays: (
            tuple([cm.zeros(y.shape, y.dtype) for y in self.outputs])
            if len(self.outputs) > 1
            else cm.zeros(self.outputs[0].shape, self.outputs[0].dtype)
        )

    monkeypatch.setattr(Plan, "bind", bind)
    with cm.device("cpu"):
        arrays = [cm.ones(tuple(64 * n for n in shape), "float32") for shape in shapes]
        card_of(function, arrays)(*arrays)
    assert seen[0].kernel == kernel and all(each.spills == 0 for each in seen)


def test_on_the_cpu_it_is_the_function():
    calls = []

    @cm.fuse
    def twice(tree, factor=2.0):
        """Doubles."""
        calls.append(tree["x"].device)
        return {"y": tree["x"] * factor}

    with cm.device("cpu"):
        for _ in range(2):
            assert twice({"x": cm.array([1.0, 2.0])}, factor=3.0)["y"].tolist() == [3.0, 6.0]
        assert calls == ["traced", "cpu", "cpu"]  # traced once
        for _ in range(2):
            assert cm.grad(lambda x: twice({"x": x})["y"].sum())(cm.array([1.0])).tolist() == [2.0]
        assert calls[3:] == ["traced", "cpu", "traced", "cpu"]  # the function and its gradient
    assert twice.__name__ == "twice" and twice.__doc__ == "Doubles."


def test_gradients_on_the_cpu_are_those_of_the_function():
    with cm.device("cpu"):
        for name in ("gelu", "layer norm", "softmax", "several"):
            function, shapes, _ = FUNCTIONS[name]
            arrays = [cm.asarray(x) for x in drawn(name, shapes, np.float64)]
            places = tuple(range(len(arrays)))

            def loss(*xs, function=function):
                ys = optree.tree_leaves(function(*xs))
                return sum((y**2 * (i + 1)).sum() for i, y in enumerate(ys))

            for order in (lambda f: cm.grad(f, places), lambda f: cm.grad(squares(f, places))):
                found, wanted = (
                    order(functools.partial(loss, function=f))(*arrays)
                    for f in (cm.fuse(function), function)
                )
                for a, b in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())


def squares(f, places):
    """The sum of the squares of a function's gradients, to be differentiated once more."""
    return lambda *xs: sum((g**2).sum() for g in cm.grad(f, places)(*xs))


def test_results_on_the_cpu_are_arrays_of_their_own():
    """As on a GPU, where the kernel writes all of them: neither arguments nor views."""
    with cm.device("cpu"):
        x = cm.ones((2, 3))
        for y in cm.fuse(lambda x: (x, x[None], x.T, cm.broadcast_to(x.sum(), (2,))))(x):
            assert y.flags.owndata or not np.may_share_memory(y.to_numpy(), x.to_numpy())
            y += 1
        assert x.tolist() == [[1.0] * 3] * 2


REFUSED = {
    "matmul": (lambda x: x @ x.T, "matmul"),
    "sort": (lambda x: cm.sort(x), "sort is neither"),
    "if": (lambda x: x if x.sum() > 0 else -x, "values of an array"),
    "float": (lambda x: x * float(x.max()), "values of an array"),
    "int": (lambda x: x * int(x.max()), "values of an array"),
    "item": (lambda x: x * x.max().item(), "values of an array"),
    "tolist": (lambda x: x * x.tolist()[0][0], "values of an array"),
    "to_numpy": (lambda x: x * x.to_numpy().sum(), "values of an array"),
    "NumPy": (lambda x: x * np.asarray(x), "values of an array"),
    "print": (lambda x: (print(x), x)[1], "values of an array"),
    "format": (lambda x: (f"{x.sum():.2f}", x)[1], "values of an array"),
    "while": (lambda x: next(x for _ in iter(int, 1) if not x.any()), "values of an array"),
    "mask": (lambda x: x[x > 0], "values of an array|neither elementwise"),
    "part": (lambda x: x[1:] * 2, "took a part"),
    "number": (lambda x: x.sum() and 1.0, "values of an array"),
    "no array": (lambda x: (x, 1.0), "must return arrays"),
    "in place": (lambda x: x.__iadd__(1), "in place"),
    "assignment": (lambda x: x.__setitem__(0, 1.0), "in place|took a part"),
    "brought": (lambda x: x * cm.asarray([1.0, 2, 3]), "must be arguments"),
    "random": (lambda x: x + cm.random.normal(size=(3, 3)), "neither elementwise"),
    "constant": (lambda x: (x * 2, cm.exp(2.0)), "depends on no argument"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_fused_says_why_and_the_same_on_both_devices(name, fake):
    function, says = REFUSED[name]
    words = []
    for place in ("cpu", "cuda"):
        x = cm.asarray(normal((3, 3), F32, 0), device=place)
        for _ in range(2):  # refused again, too
            with pytest.raises(TypeError, match=f"^fuse: .*({says})") as refused:
                cm.fuse(function)(x)
            words.append(str(refused.value))
    assert len(set(words)) == 1
    assert not fake.calls["cuLaunchKernel"]


@pytest.mark.parametrize("function", [cm.prod, lambda x: cm.diag(x).sum()], ids=["prod", "diag"])
def test_gradients_that_cannot_be_fused_say_so_on_both_devices(function):
    """The value is fused, its gradient is not: refused where the gradient is taken."""
    with cm.device("cpu"):
        x = cm.ones((3, 3))
        fused = cm.fuse(function)
        assert float(fused(x)) == float(function(x))
        with pytest.raises(TypeError) as on_cpu:
            cm.grad(fused)(x)
        with pytest.raises(TypeError, match="^fuse: ") as on_gpu:
            card_of(lambda x: [function(x)], [x]).vjp((cm.ones(()),), None, x)
        assert str(on_cpu.value) == str(on_gpu.value)


def test_arguments_without_a_hash_are_refused(fake):
    for place in ("cpu", "cuda"):
        with pytest.raises(TypeError, match=r"^fuse: arguments must be arrays or hashable .*'set'"):
            cm.fuse(lambda x, s: x)(cm.ones(3, device=place), {1})


def test_the_gradient_of_a_part_says_so_too():
    """x[:2] begins where x does, which is all that a view needs to be seen."""
    with cm.device("cpu"):
        x = cm.ones((3, 3))
        with pytest.raises(TypeError, match="^fuse: .*took a part"):
            card_of(lambda x: x[:2] * 2, [x]).vjp((cm.ones((2, 3)),), None, x)


# -------------------- on a GPU

BIG = {
    "gelu": [(1000, 1003)],
    "chain": [(300, 512), (512,), (300, 1)],
    "layer norm": [(100, 768), (768,), (768,)],
    "softmax": [(7, 5, 1000)],
    "standard": [(50, 33)],
    "mean square": [(1 << 21,), (1 << 21,)],
    "sum of rows": [(64, 40_000), (40_000,)],
    "sum of columns": [(513, 260)],
    "transposed": [(260, 132), (132, 260)],
    "norm": [(3, 5, 100_000)],
    "several": [(70, 512), (512,)],
}


#: Functions in whose gradients rounding decides which of two elements is the largest.
EXTREMES = ("several",)


def decided_by_rounding(function, host, g, slopes):
    """Where gradients change with the last bits of 16-bit arguments: among many elements two are as
    large after rounding. They are few."""
    found = [np.zeros(y.shape, bool) for y in slopes]
    rng = np.random.default_rng(3)
    for _ in range(12):
        near = [a.astype(np.float64) * (1 + rng.uniform(-1, 1, a.shape) / 128) for a in host]
        y, pull = cm.vjp(lambda *xs: flat(function(*xs)), *map(cm.asarray, near))
        others = pull([cm.asarray(each.astype(x.dtype)) for each, x in zip(g, y, strict=True)])
        for there, a, b in zip(found, slopes, others, strict=True):
            a, b = np.asarray(a), np.asarray(b)
            there |= np.abs(a - b) > 0.05 * np.abs(a).max(initial=1.0)
    assert all(there.mean() < 0.05 for there in found)
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.dtype(cm.bfloat16)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_the_gpu(name, dtype):
    function, small, _ = FUNCTIONS[name]
    fused = cm.fuse(function)
    eps = {8: 1e-11, 4: 3e-5}.get(np.dtype(dtype).itemsize, 2e-2)
    for shapes in filter(None, (small, BIG.get(name))):
        host = drawn(name, shapes, dtype)
        with cm.device("cpu"):
            exact, pull = cm.vjp(
                lambda *xs: flat(function(*xs)), *[cm.asarray(a.astype(np.float64)) for a in host]
            )
            g = [normal(y.shape, dtype, 5) for y in exact]
            slopes = pull(
                [cm.asarray(each.astype(y.dtype)) for each, y in zip(g, exact, strict=True)]
            )
            sudden = [np.zeros(y.shape, bool) for y in slopes]
            if name in EXTREMES and eps > 1e-3:
                sudden = decided_by_rounding(function, host, g, slopes)
        with cm.device("cuda"):
            arrays = [cm.asarray(a) for a in host]
            found, pull = cm.vjp(lambda *xs: flat(fused(*xs)), *arrays)
            gradients = pull(
                [cm.asarray(each, dtype=y.dtype) for each, y in zip(g, found, strict=True)]
            )
            everywhere = [np.zeros(y.shape, bool) for y in exact]
            for y, wanted, unknown in zip(
                [*found, *gradients], [*exact, *slopes], [*everywhere, *sudden], strict=True
            ):
                assert y.shape == wanted.shape
                most = np.abs(np.asarray(wanted)).max(initial=1.0)
                assert_close(
                    np.where(unknown, np.asarray(wanted), np.asarray(y.astype(np.float64))),
                    np.asarray(wanted),
                    rtol=eps,
                    atol=(eps if name != "cast" else 0.05) * most,
                    what=name,
                )
            again = flat(fused(*arrays))
            assert all(a.tobytes() == b.tobytes() for a, b in zip(again, found, strict=True))


@pytest.mark.gpu
def test_rows_are_divided_as_exactly_as_by_the_operator():
    """Quotients of rows and one number each have the bits of NumPy's, but the very small, which may
    be off by two units."""
    rng = np.random.default_rng(1)
    shape = 512, 256
    x = (rng.standard_normal(shape) * np.exp2(rng.integers(-90, 90, shape))).astype(F32)
    y = (rng.standard_normal((512, 1)) * np.exp2(rng.integers(-110, 110, (512, 1)))).astype(F32)
    y[:12, 0] = np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, 3.0, 2.0**127, 1e-38, 1e-42, 1e-45, 3e38
    x[:, :6] = 0.0, -0.0, np.inf, -np.inf, np.nan, 1.0
    with np.errstate(all="ignore"):
        wanted = x / y
    with cm.device("cuda"):
        found, _ = cm.fuse(lambda x, y: (x / y, x.max(-1)))(x, y)
    found = found.to_numpy()
    apart = np.abs(found.view(np.int32).astype(np.int64) - wanted.view(np.int32))
    small = (np.abs(x) < 2.0**-100) | (np.abs(wanted) < 2.0**-100)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    assert np.all((apart == 0) | np.isnan(wanted) | (small & (apart <= 2)))
    assert np.count_nonzero(~small & np.isfinite(wanted)) > 100_000


@pytest.mark.gpu
def test_second_order_on_the_gpu():
    x = normal((6, 8), np.float64)

    def twice(function):
        return cm.grad(lambda x: (cm.grad(lambda x: (function(x) ** 2).sum())(x) ** 2).sum())

    with cm.device("cpu"):
        wanted = twice(softmax)(cm.asarray(x)).to_numpy()
    with cm.device("cuda"):
        assert_close(twice(cm.fuse(softmax))(cm.asarray(x)), wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.gpu
def test_constants_and_trees_on_the_gpu():
    @functools.partial(cm.fuse)
    def scaled(tree, factor, shift=0):
        return [tree["a"] * factor, {"b": tree["b"] + shift, "c": cm.ones_like(tree["b"])}]

    with cm.device("cuda"):
        for factor in (2, 3.5):
            first, rest = scaled({"a": cm.arange(4), "b": cm.array([1.0])}, factor, shift=1)
            assert first.tolist() == [0, factor, 2 * factor, 3 * factor] and rest["b"].tolist() == [
                2.0
            ]
            assert rest["c"].tolist() == [1.0]
