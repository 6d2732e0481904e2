"""Gradients of every differentiable function against central differences of NumPy's answer in
float64, to 1e-6; second order; gradients through broadcasts, scalars, views and shared values; the
machinery of grad, value_and_grad and vjp."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import ELEMENTWISE, ROWS, Array, Elementwise, Row
from strategies import FLOATS, broadcastable, eps, numbers, views

import cudamath as cm

STEP = 1e-5  # central differences are then good to about 1e-10
F64, C128 = np.dtype(np.float64), np.dtype(np.complex128)


def pairing(weights: list[np.ndarray], out: Any) -> cm.ndarray:
    """Re <w, f(x)>: one number that depends on every element of a result (or of several)."""
    out = list(out) if isinstance(out, (tuple, list)) else [out]
    total = None
    for w, y in zip(weights, out, strict=True):
        part = cm.real((y * cm.asarray(w)).sum())
        total = part if total is None else total + part
    return total


def along(gradients: Any, directions: list[np.ndarray]) -> tuple[float, float]:
    """The derivative along a direction that gradients promise, and the size of the terms that make
    it up."""
    terms = [
        (np.conj(np.asarray(g).astype(C128)) * d).real
        for g, d in zip(gradients, directions, strict=True)
    ]
    return sum(float(t.sum()) for t in terms), sum(float(np.abs(t).sum()) for t in terms)


def direction(rng: np.random.Generator, a: np.ndarray) -> np.ndarray:
    d = rng.uniform(-1, 1, a.shape)
    return d + 1j * rng.uniform(-1, 1, a.shape) if a.dtype.kind == "c" else d


def check_gradient(
    run: Callable, truth: Callable, arrays: list[np.ndarray], which: list[int], *, second: bool
) -> None:
    """Gradients of Re <w, run(*arrays)> by the arrays at `which`: against differences of `truth`,
    in random directions."""
    rng = np.random.default_rng(11)
    weights = [np.asarray(direction(rng, np.asarray(e))) for e in truth(*arrays)]
    places = tuple(range(len(which)))

    def value(*xs: cm.ndarray) -> cm.ndarray:
        full: list[Any] = list(arrays)
        for i, x in zip(which, xs, strict=True):
            full[i] = x
        return pairing(
            weights,
            run(*[x if isinstance(x, (cm.ndarray, float, int)) else cm.asarray(x) for x in full]),
        )

    def moved(directions: list[np.ndarray], h: float) -> list[Any]:
        full = list(arrays)
        for i, d in zip(which, directions, strict=True):
            full[i] = full[i] + h * d
        return full

    xs = [cm.asarray(arrays[i]) for i in which]
    gradients = cm.grad(value, places)(*xs)
    for g, x in zip(gradients, xs, strict=True):
        assert (g.shape, g.dtype, g.device) == (x.shape, x.dtype, x.device)
    for _ in range(2):
        ds = [direction(rng, arrays[i]) for i in which]
        up, down = (
            sum(
                float((np.asarray(e) * w).sum().real)
                for e, w in zip(truth(*moved(ds, h)), weights, strict=True)
            )
            for h in (STEP, -STEP)
        )
        promised, size = along(gradients, ds)
        assert abs((up - down) / (2 * STEP) - promised) <= 1e-6 * size + 1e-9
    if not second:
        return
    # the gradient is right; so the gradient of <v, gradient> must be its difference
    vs = [direction(rng, arrays[i]) for i in which]

    def slope(*xs: cm.ndarray) -> cm.ndarray:
        return pairing(vs, cm.grad(value, places)(*xs))

    gradients = cm.grad(slope, places)(*xs)
    ds = [direction(rng, arrays[i]) for i in which]
    up, down = (float(slope(*[cm.asarray(moved(ds, h)[i]) for i in which])) for h in (STEP, -STEP))
    promised, size = along(gradients, ds)
    assert abs((up - down) / (2 * STEP) - promised) <= 1e-6 * size + 1e-8


# -------------------- every function

DIFFERENTIABLE = [row for row in ELEMENTWISE if any(row.grad)]


def elementwise_inputs(
    row: Elementwise, dtype: np.dtype, *shapes: tuple[int, ...]
) -> list[np.ndarray]:
    rng = np.random.default_rng(len(row.name))
    return [numbers(rng, shape, dtype, row.low, row.high) for shape in shapes]


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=lambda row: row.name)
def test_elementwise(device, row):
    arrays = elementwise_inputs(row, F64, *[(3, 4)] * row.inputs)
    which = [i for i, there in enumerate(row.grad) if there]
    check_gradient(row.function, lambda *a: [row.numpy(*a)], arrays, which, second=True)


@pytest.mark.parametrize(
    "row", [r for r in DIFFERENTIABLE if "c" in r.kinds], ids=lambda row: row.name
)
def test_complex(device, row):
    """d Re <w, f(z)> = Re <conj(gradient), dz>: of real and imaginary part, holomorphic or not."""
    arrays = elementwise_inputs(row, C128, *[(3, 4)] * row.inputs)
    if row.name == "abs" or row.name == "sign":
        arrays = [a + 4 for a in arrays]
    truth = (lambda z: [z / np.abs(z)]) if row.name == "sign" else lambda *a: [row.numpy(*a)]
    check_gradient(row.function, truth, arrays, list(range(row.inputs)), second=True)


@pytest.mark.parametrize(
    "row", [r for r in DIFFERENTIABLE if r.inputs == 2], ids=lambda row: row.name
)
def test_broadcast_operands(device, row):
    """A gradient has the shape of its input: it is summed over what was repeated."""
    which = [i for i, there in enumerate(row.grad) if there]
    for shapes in (
        ((3, 1), (4,)),
        ((), (2, 3)),
        ((2, 1, 3), (2, 4, 1)),
        ((1,), ()),
        ((0, 3), (3,)),
    ):
        arrays = elementwise_inputs(row, F64, *shapes)
        check_gradient(row.function, lambda *a: [row.numpy(*a)], arrays, which, second=False)


@pytest.mark.parametrize(
    "row", [r for r in DIFFERENTIABLE if r.inputs == 2], ids=lambda row: row.name
)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_python_scalars(device, row, dtype):
    """A scalar on one side: the other side's gradient is right and stays in its dtype."""
    (x,) = elementwise_inputs(row, dtype, (5,))
    for place, there in enumerate(row.grad):
        for scalar in (2, 1.5):

            def run(v: cm.ndarray, place: int = place, scalar: float = scalar) -> cm.ndarray:
                return row.function(*((v, scalar) if place == 0 else (scalar, v)))

            if not there:
                continue
            if dtype == F64:
                check_gradient(
                    run,
                    lambda v, place=place, scalar=scalar: [
                        row.numpy(*((v, scalar) if place == 0 else (scalar, v)))
                    ],
                    [x],
                    [0],
                    second=True,
                )
            else:
                wide = np.asarray(cm.grad(lambda v: run(v).sum())(cm.asarray(x.astype(np.float64))))
                g = cm.grad(lambda v: run(v).sum())(cm.asarray(x))
                assert g.dtype == dtype
                np.testing.assert_allclose(
                    np.asarray(g).astype(np.float64),
                    wide,
                    rtol=16 * eps(dtype),
                    atol=4 * eps(dtype),
                )


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad], ids=lambda row: row.name)
def test_rows(device, row: Row):
    arrays = row.arrays(F64)
    which = [i for i, a in enumerate(row.inputs) if isinstance(a, Array) and not a.constant]
    check_gradient(
        lambda *xs: row.run(cm, *xs),
        lambda *a: row.expected(list(a)),
        arrays,
        which,
        second=row.second,
    )


@pytest.mark.parametrize(
    "row", [*[r for r in ROWS if r.grad and r.second], *DIFFERENTIABLE], ids=lambda row: row.name
)
def test_third_order(device, row):
    """What a forward pass hands to its gradient besides results (means, norms) is a function of the
    inputs, too: it is the third derivative that tells. The second one is right (see above), so its
    differences are the truth."""
    if isinstance(row, Row):
        arrays, run = row.arrays(F64), functools.partial(row.run, cm)
        which = [i for i, a in enumerate(row.inputs) if isinstance(a, Array) and not a.constant]
    else:
        arrays, run = elementwise_inputs(row, F64, *[(3, 4)] * row.inputs), row.function
        which = [i for i, there in enumerate(row.grad) if there]
    rng, places = np.random.default_rng(7), tuple(range(len(which)))
    outputs = run(*[cm.asarray(a) for a in arrays])
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    weights = [direction(rng, np.asarray(y)) for y in outputs]

    def value(*xs: cm.ndarray) -> cm.ndarray:
        full = [cm.asarray(a) for a in arrays]
        for i, x in zip(which, xs, strict=True):
            full[i] = x
        return pairing(weights, run(*full))

    vs, us, ds = ([direction(rng, arrays[i]) for i in which] for _ in range(3))

    def slope(*xs: cm.ndarray) -> cm.ndarray:
        return pairing(vs, cm.grad(value, places)(*xs))

    def curve(*xs: cm.ndarray) -> cm.ndarray:
        return pairing(us, cm.grad(slope, places)(*xs))

    promised, size = along(cm.grad(curve, places)(*[cm.asarray(arrays[i]) for i in which]), ds)
    up, down = (
        float(curve(*[cm.asarray(arrays[i] + h * d) for i, d in zip(which, ds, strict=True)]))
        for h in (STEP, -STEP)
    )
    assert abs((up - down) / (2 * STEP) - promised) <= 1e-5 * size + 1e-7


@pytest.mark.parametrize(
    "norm",
    [
        lambda x: cm.ml.layer_norm(x, 3),
        lambda x: cm.ml.rms_norm(x, 3),
        cm.ml.instance_norm,
        lambda x: cm.ml.group_norm(x, 1),
        lambda x: cm.ml.softmax(x, -1),
    ],
)
def test_third_order_of_nothing(device, norm):
    def once_more(f):
        return lambda x: (cm.grad(f)(x) * x).sum()

    x = cm.ones((0, 2, 3))
    assert cm.grad(once_more(once_more(lambda x: (norm(x) ** 2).sum())))(x).shape == x.shape


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("row", [r for r in ROWS if r.grad], ids=lambda row: row.name)
def test_gpu_agrees_with_cpu(row: Row, dtype):
    """Forward and gradient on both devices, within the row's error (twice: both may be off)."""
    arrays = row.arrays(dtype)
    which = [i for i, a in enumerate(row.inputs) if isinstance(a, Array)]
    rng = np.random.default_rng(0)
    weights = [numbers(rng, e.shape, np.dtype(np.float32), -1, 1) for e in row.expected(arrays)]
    found = {}
    for place in ("cpu", "cuda"):
        with cm.device(place):

            def value(*xs: cm.ndarray) -> cm.ndarray:
                full = [cm.asarray(a) for a in arrays]
                for i, x in zip(which, xs, strict=True):
                    full[i] = x
                return pairing(weights, row.run(cm, *full))

            found[place] = cm.grad(value, tuple(range(len(which))))(
                *[cm.asarray(arrays[i]) for i in which]
            )
    for c, g in zip(found["cpu"], found["cuda"], strict=True):
        assert g.device == "cuda" and g.dtype == c.dtype
        c, g = np.asarray(c).astype(np.float64), np.asarray(g).astype(np.float64)
        np.testing.assert_allclose(
            g, c, rtol=0, atol=4 * max(row.error, 8) * eps(dtype) * np.abs(c).max(initial=0)
        )


# -------------------- strides, sharing, special places


@given(data=st.data())
def test_strides_and_broadcasts(device, data):
    """Gradients through any views of any shapes: the sum of the gradient's elements is that of
    contiguous copies."""
    shapes = data.draw(broadcastable(2))
    seen = [data.draw(views(shape)) for shape in shapes.input_shapes]
    rng = np.random.default_rng(0)
    bases = [rng.uniform(1, 2, v.base) for v in seen]
    w = rng.uniform(-1, 1, shapes.result_shape)

    def value(a: cm.ndarray, b: cm.ndarray) -> cm.ndarray:
        x, y = seen[0].of(a), seen[1].of(b)
        return (x * y / (x + y) * cm.asarray(w)).sum()

    ga, gb = cm.grad(value, (0, 1))(*[cm.asarray(b) for b in bases])
    assert (ga.shape, gb.shape) == (seen[0].base, seen[1].base)
    x, y = seen[0].of(bases[0]), seen[1].of(bases[1])
    for base, view, g, other in ((bases[0], seen[0], ga, y), (bases[1], seen[1], gb, x)):
        whole = w * other**2 / (x + y) ** 2
        # scatter the gradient of the view back by the positions of its elements
        positions = view.of(np.arange(base.size).reshape(base.shape))
        expected = np.bincount(
            np.broadcast_to(positions, w.shape).ravel(), whole.ravel(), minlength=base.size
        )
        np.testing.assert_allclose(
            np.asarray(g).ravel(), expected[: base.size], rtol=1e-12, atol=1e-12
        )


def test_a_value_used_several_times(device):
    x = cm.asarray([1.0, 2.0, 3.0])
    assert cm.grad(lambda x: (x * x + x * 3 - x).sum())(x).tolist() == [4.0, 6.0, 8.0]
    assert cm.grad(lambda x: (x - x).sum())(x).tolist() == [0.0, 0.0, 0.0]
    assert cm.grad(lambda x: (x[:2] + x[1:]).sum())(x).tolist() == [1.0, 2.0, 1.0]
    assert cm.grad(lambda x: cm.add(x, x.T).sum())(x).tolist() == [2.0, 2.0, 2.0]


def test_constants_have_a_gradient_of_zero(device):
    x = cm.asarray([1.25, -2.5])
    for function in (
        cm.floor,
        cm.ceil,
        cm.trunc,
        cm.rint if hasattr(cm, "rint") else cm.round,
        cm.sign,
    ):
        assert cm.grad(lambda x, f=function: f(x).sum())(x).tolist() == [0.0, 0.0]
    assert cm.grad(lambda x: (x > 0).astype(x.dtype).sum())(x).tolist() == [0.0, 0.0]
    assert cm.grad(lambda x: cm.asarray(3.0))(x).tolist() == [0.0, 0.0]


def test_where_a_formula_would_divide_by_zero(device):
    """Powers at 0, and selections whose other branch is infinite, have finite gradients."""
    x = cm.asarray([0.0, 2.0])
    for y, expected in (
        (2, [0, 4]),
        (1, [1, 1]),
        (0, [0, 0]),
        (3.0, [0, 12]),
        (cm.asarray([2.0, 0.0]), [0, 0]),
        (cm.asarray([0.0, 3.0]), [0, 12]),
    ):
        assert cm.grad(lambda x, y=y: (x**y).sum())(x).tolist() == expected
    assert cm.grad(lambda y: (x**y).sum())(cm.asarray([1.0, 1.0])).tolist() == [0.0, 2 * np.log(2)]
    assert cm.grad(lambda y: (0.0**y).sum())(cm.asarray([1.0])).tolist() == [0.0]
    assert np.isnan(cm.grad(lambda y: cm.pow(-2.0, y).sum())(cm.asarray([2.0])).item())
    assert cm.grad(lambda x: cm.where(x > 0, cm.log(cm.where(x > 0, x, 1)), 0).sum())(
        x
    ).tolist() == [0.0, 0.5]
    assert cm.grad(lambda x: cm.abs(x).sum())(x).tolist() == [0.0, 1.0]
    assert cm.grad(lambda x: cm.maximum(x, 2.0).sum())(x).tolist() == [0.0, 0.5]  # a tie is shared


def test_mixed_dtypes(device):
    """Each input's gradient comes in its own dtype; integers and bool take part as constants."""
    a, b = cm.asarray(np.float32([1, 2])), cm.asarray(np.float64([3, 4]))
    ga, gb = cm.grad(lambda a, b: (a * b).sum(), (0, 1))(a, b)
    assert (ga.dtype, gb.dtype) == (np.float32, np.float64)
    assert (ga.tolist(), gb.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    half, brain = cm.asarray(np.float16([1.5])), cm.asarray(np.array([2.5], cm.bfloat16))
    gh, gb = cm.grad(lambda a, b: (a * b).sum(), (0, 1))(half, brain)
    assert (gh.dtype, gb.dtype) == (np.float16, cm.bfloat16)
    assert (gh.item(), gb.item()) == (2.5, 1.5)
    assert cm.grad(lambda x: (x * cm.asarray([1, 2]) * cm.asarray([True, False])).sum())(
        b
    ).tolist() == [1.0, 0.0]
    z = cm.grad(lambda x: cm.real((x * cm.asarray([1 + 2j, 3j])).sum()))(b)
    assert z.dtype == np.float64 and z.tolist() == [1.0, 0.0]


def test_higher_orders(device):
    f: Callable = lambda x: cm.sin(x) * x**3  # noqa: E731
    x = 0.7
    truth = [
        np.sin(x) * x**3,
        np.cos(x) * x**3 + 3 * x**2 * np.sin(x),
        (-np.sin(x)) * x**3 + 6 * x**2 * np.cos(x) + 6 * x * np.sin(x),
        -np.cos(x) * x**3 - 9 * x**2 * np.sin(x) + 18 * x * np.cos(x) + 6 * np.sin(x),
    ]
    for expected in truth:
        assert abs(float(f(cm.asarray(x))) - expected) < 1e-12
        f = cm.grad(f)


# -------------------- the machinery


def test_trees_and_aux(device):
    params = {"w": cm.asarray([[1.0, 2.0]]), "b": [cm.asarray(0.5), (cm.asarray([3.0]),)]}

    def loss(p: Any, scale: float) -> tuple[cm.ndarray, dict[str, Any]]:
        y = (p["w"] ** 2).sum() * scale + p["b"][0] * p["b"][1][0].sum()
        return y, {"twice": y * 2, "text": "kept"}

    (value, aux), g = cm.value_and_grad(loss, has_aux=True)(params, 2.0)
    assert (float(value), float(aux["twice"]), aux["text"]) == (11.5, 23.0, "kept")
    assert (
        g["w"].tolist() == [[4.0, 8.0]]
        and g["b"][0].item() == 3.0
        and g["b"][1][0].tolist() == [0.5]
    )
    g, aux = cm.grad(loss, has_aux=True)(params, 2.0)
    assert g["w"].tolist() == [[4.0, 8.0]]
    a, b = cm.grad(lambda x, y: (x * y).sum(), (0, -1))(cm.asarray([1.0]), cm.asarray([2.0]))
    assert (a.tolist(), b.tolist()) == ([2.0], [1.0])


def test_vjp(device):
    x, y = cm.asarray([1.0, 2.0]), cm.asarray([3.0, 4.0])
    (total, product), pull = cm.vjp(lambda a, b: (a + b, a * b), x, y)
    assert (total.tolist(), product.tolist()) == ([4.0, 6.0], [3.0, 8.0])
    for _ in range(2):  # as often as wanted
        ga, gb = pull((cm.asarray([1.0, 0.0]), cm.asarray([0.0, 1.0])))
        assert (ga.tolist(), gb.tolist()) == ([1.0, 4.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="^vjp: "):
        pull(cm.asarray([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"^vjp: .*\(2,\).*\(3,\)"):
        pull((cm.asarray([1.0, 0.0, 0.0]), cm.asarray([0.0, 1.0])))


def test_stop_gradient(device):
    x = cm.asarray([2.0, 3.0])
    assert cm.grad(lambda x: (x * cm.stop_gradient(x)).sum())(x).tolist() == [2.0, 3.0]
    assert cm.grad(lambda x: cm.stop_gradient(x * x).sum())(x).tolist() == [0.0, 0.0]


def test_a_recorded_value_cannot_be_changed(device):
    def f(x: cm.ndarray) -> cm.ndarray:
        y = x * 2
        y += 1
        return y.sum()

    def g(x: cm.ndarray) -> cm.ndarray:
        y = x * 2
        y[0] = 1
        return y.sum()

    def h(x: cm.ndarray) -> cm.ndarray:
        y = cm.zeros(2)
        y += x
        return y.sum()

    for function in (f, g, h):
        with pytest.raises(RuntimeError, match="gradient"):
            cm.grad(function)(cm.asarray([1.0, 2.0]))


def test_nothing_is_recorded_outside(device):
    x = cm.asarray([1.0, 2.0])
    kept = []
    cm.grad(lambda x: (kept.append(x), (x * 2).sum())[1])(x)
    assert x._node is None and (x * 2)._node is None
    value, _ = cm.value_and_grad(lambda x: (x * 2).sum())(x)
    assert getattr(value, "_node", None) is None
    assert (kept[0] * 2).tolist() == [2.0, 4.0]  # a leaf that escaped is still an array


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: cm.grad(lambda x: x)(cm.ones(3)), TypeError, r"float64 of shape \(3,\)"),
        (lambda: cm.grad(lambda x: x.sum() > 0)(cm.ones(3)), TypeError, "bool"),
        (lambda: cm.grad(lambda x: 3.0)(cm.ones(3)), TypeError, "float"),
        (lambda: cm.grad(lambda x: x.sum())(cm.arange(3)), TypeError, r"int64 of shape \(3,\)"),
        (lambda: cm.grad(lambda x: x.sum(), 1)(cm.ones(3)), ValueError, "argnums 1"),
        (lambda: cm.grad(lambda x: (x * x).sum())(cm.asarray([1j])), TypeError, "complex128"),
        (lambda: cm.vjp(lambda x: 3.0, cm.ones(2)), TypeError, "float"),
    ],
)
def test_errors(device, call, error, says):
    with pytest.raises(error, match=f"^(grad|vjp): .*{says}"):
        call()
    assert (cm.ones(2) * 2)._node is None  # recording is over, also after an error
