"""jvp, checkpoint, custom_vjp: beside torch, differences, and the same without them."""

import contextlib
import functools
import gc
import math
import weakref
from fractions import Fraction

import numpy as np
import pytest
from records import ELEMENTWISE, ROWS, Array
from threads import together

import cudamath as cm
from cudamath.core import recording


def arr(*values, dtype="float64"):
    return cm.asarray(np.array(values, dtype))


def normals(*shape, seed=0, dtype="f8"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def bits(*arrays):
    return [np.asarray(x).tobytes() for x in arrays]


# -------------------- jvp


def test_jvp_as_torchs(device):
    torch = pytest.importorskip("torch")
    w, x, dw, dx = (
        normals(4, 3),
        normals(5, 4, seed=1),
        normals(4, 3, seed=2),
        normals(5, 4, seed=3),
    )

    def ours(p, x):
        h = cm.tanh(x @ p["w"])
        return {"h": h, "loss": (cm.ml.softmax(h) ** 2).sum()}

    def theirs(w, x):
        h = torch.tanh(x @ w)
        return h, (torch.softmax(h, -1) ** 2).sum()

    (h, loss), (dh, dloss) = torch.func.jvp(
        theirs, tuple(map(torch.tensor, (w, x))), tuple(map(torch.tensor, (dw, dx)))
    )
    y, dy = cm.jvp(
        ours, ({"w": cm.asarray(w)}, cm.asarray(x)), ({"w": cm.asarray(dw)}, cm.asarray(dx))
    )
    for got, want in ((y["h"], h), (y["loss"], loss), (dy["h"], dh), (dy["loss"], dloss)):
        np.testing.assert_allclose(np.asarray(got), want.numpy(), rtol=1e-12, atol=1e-14)
        assert got._node is None


def test_hessian_vector_products_as_torchs(device):
    """Forward over reverse, reverse over forward, reverse over reverse."""
    torch = pytest.importorskip("torch")
    a, x, v = normals(6, 6), normals(6, seed=1), normals(6, seed=2)

    def f(x):
        return (cm.sin(cm.asarray(a) @ x) * cm.exp(0.1 * x)).sum()

    expected = torch.autograd.functional.hvp(
        lambda x: (torch.sin(torch.tensor(a) @ x) * torch.exp(0.1 * x)).sum(),
        torch.tensor(x),
        torch.tensor(v),
    )[1].numpy()
    xs, vs = cm.asarray(x), cm.asarray(v)
    for found in (
        cm.jvp(cm.grad(f), (xs,), (vs,))[1],
        cm.grad(lambda x: cm.jvp(f, (x,), (vs,))[1])(xs),
        cm.vjp(cm.grad(f), xs)[1](vs)[0],
    ):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-11)


def test_jvp_of_jvp_and_of_tangents(device):
    """Third derivatives along a direction; a derivative is linear in the tangent."""
    x, v = arr(0.3, -0.7), arr(1.0, 2.0)

    def along(f):
        return lambda x: cm.jvp(f, (x,), (v,))[1]

    np.testing.assert_allclose(
        np.asarray(along(along(along(cm.sin)))(x)), -np.cos([0.3, -0.7]) * [1, 8], rtol=1e-12
    )
    g = cm.grad(lambda v: cm.jvp(lambda x: (x**3).sum(), (x,), (v,))[1])(v)
    np.testing.assert_allclose(np.asarray(g), 3 * np.array([0.3, -0.7]) ** 2, rtol=1e-12)


def test_jvp_through_integers_and_constants(device):
    x, n, table = (
        arr(1.0, 2.0, 3.0),
        cm.asarray([2, 0]),
        {"k": 3, "name": "cube", "mask": cm.asarray([True, False])},
    )

    def f(x, n, t, flag):
        assert flag is None and type(t["k"]) is int and t["name"] == "cube"
        chosen = x[n] ** t["k"]
        return cm.where(t["mask"], chosen, 0.0), cm.argmax(x), cm.ones(2)

    tangents = (arr(1.0, 10.0, 100.0), None, {"k": None, "name": None, "mask": None}, None)
    (y, at, one), (dy, none, zero) = cm.jvp(f, (x, n, table, None), tangents)
    assert y.tolist() == [27, 0] and dy.tolist() == [2700, 0] and int(at) == 2 and none is None
    assert one.tolist() == [1, 1] and zero.tolist() == [0, 0]
    y, dy = cm.jvp(lambda x: x.astype("int64").astype("float64") + x, (arr(1.5),), (arr(1.0),))
    assert y.tolist() == [2.5] and dy.tolist() == [1]
    assert cm.jvp(lambda x: x * x, (3.0,), (1.0,))[1].item() == 6


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: cm.jvp(cm.sin, x, (x,)),
            TypeError,
            "jvp: wants primals as a tuple or list, .* got ndarray",
        ),
        (lambda x: cm.jvp(cm.sin, (x,), x), TypeError, "jvp: wants tangents as a tuple or list"),
        (lambda x: cm.jvp(cm.sin, (x,), (x, x)), ValueError, "jvp: the tangents have structure"),
        (
            lambda x: cm.jvp(lambda t: t["a"], ({"a": x},), ({"b": x},)),
            ValueError,
            "jvp: the tangents have structure",
        ),
        (
            lambda x: cm.jvp(cm.sin, (x,), (cm.ones(3),)),
            ValueError,
            r"float64 of shape \(2,\) .* got float64 of shape \(3,\)",
        ),
        (lambda x: cm.jvp(cm.sin, (x,), (x.astype("float32"),)), ValueError, "got float32"),
        (
            lambda x: cm.jvp(lambda x, n: x, (x, cm.arange(2)), (x, x)),
            TypeError,
            r"None as the tangent .* \(int64 of shape",
        ),
        (
            lambda x: cm.jvp(lambda x, n: x, (x, "a"), (x, 1.0)),
            TypeError,
            r"None as the tangent of a constant \(str\), got float",
        ),
        (
            lambda x: cm.jvp(lambda x: 3.0, (x,), (x,)),
            TypeError,
            "jvp: the function must return arrays, got float",
        ),
        (
            lambda x: cm.vjp(lambda x: (x, 1), x, has_aux=False),
            TypeError,
            "vjp: the function must return arrays, got int",
        ),
        (
            lambda x: cm.grad(cm.sin, "0"),
            TypeError,
            "grad: argnums must be a position or several, got '0'",
        ),
        (
            lambda x: cm.grad(cm.sin, None),
            TypeError,
            "grad: argnums must be a position or several, got None",
        ),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call(arr(1.0, 2.0))
    assert recording.state.depth == 0 and not recording.state.paused


def test_vjp_with_aux(device):
    y, pull, aux = cm.vjp(lambda x: (x * 2, {"seen": x + 1, "n": 3}), arr(1.0, 2.0), has_aux=True)
    assert y.tolist() == [2, 4] and pull(arr(1, 1))[0].tolist() == [2, 2]
    assert aux["seen"].tolist() == [2, 3] and aux["seen"]._node is None and aux["n"] == 3


SMOOTH = [row for row in ROWS if row.grad and row.second]


@pytest.mark.parametrize("row", SMOOTH, ids=lambda row: row.name)
def test_jvp_and_vjp_agree(row):
    """<u, J v> = <J^T u, v>: gradients have been compared with differences, so this compares
    derivatives with them."""
    arrays = row.arrays(np.dtype("f8"))
    which = [i for i, a in enumerate(row.inputs) if isinstance(a, Array)]
    with cm.device("cpu"):

        def run(*xs):
            full = [cm.asarray(a) for a in arrays]
            for i, x in zip(which, xs, strict=True):
                full[i] = x
            out = row.run(cm, *full)
            return [
                y
                for y in (out if isinstance(out, (tuple, list)) else [out])
                if y.dtype == np.float64
            ]

        xs = [cm.asarray(arrays[i]) for i in which]
        if any(x.dtype != np.float64 for x in xs) or not run(*xs):
            pytest.skip("complex, or nothing real comes out")
        vs = [cm.asarray(normals(*x.shape, seed=1)) for x in xs]
        ys, dys = cm.jvp(run, xs, vs)
        us = [cm.asarray(normals(*y.shape, seed=2)) for y in ys]
        gradients = cm.vjp(run, *xs)[1](us)
        left = sum(float((u * d).sum()) for u, d in zip(us, dys, strict=True))
        terms = [np.asarray(g) * np.asarray(v) for g, v in zip(gradients, vs, strict=True)]
        right, size = sum(float(t.sum()) for t in terms), sum(float(np.abs(t).sum()) for t in terms)
        assert abs(left - right) <= 1e-9 * size + 1e-12


@pytest.mark.parametrize(
    "row", [row for row in ELEMENTWISE if any(row.grad)], ids=lambda row: row.name
)
def test_jvp_of_elementwise_functions(row):
    with cm.device("cpu"):
        rng = np.random.default_rng(0)
        xs = [cm.asarray(rng.uniform(row.low, row.high, 7)) for _ in range(row.inputs)]
        vs = [cm.asarray(normals(7, seed=3 + i)) for i in range(row.inputs)]
        y, dy = cm.jvp(row.function, xs, vs)
        gs = cm.vjp(row.function, *xs)[1](cm.ones_like(y))
        expected = sum(np.asarray(g) * np.asarray(v) for g, v in zip(gs, vs, strict=True))
        np.testing.assert_allclose(np.asarray(dy), expected, rtol=1e-9, atol=1e-12)


# -------------------- checkpoint


def layer(x, w, rng=None):
    h = cm.ml.gelu(x @ w)
    if rng is not None:
        h = cm.ml.dropout(h, 0.3, rng=rng) + cm.asarray(
            0.1 * rng.normal(size=h.shape), device=h.device
        )
    return h + x


def network(step, rng=None):
    def loss(ws, x):
        for w in ws:
            x = step(x, w, rng) if rng is not None else step(x, w)
        return (x * x).mean()

    return loss


@pytest.mark.parametrize("random", [False, True])
def test_checkpoint_changes_no_bit(device, random):
    ws, x = (
        [cm.asarray(0.3 * normals(8, 8, seed=i)) for i in range(4)],
        cm.asarray(normals(5, 8, seed=9)),
    )
    found = []
    for wrap in (lambda f: f, cm.checkpoint):
        rng = cm.random.default_rng(7) if random else None
        value, (gw, gx) = cm.value_and_grad(network(wrap(layer), rng), (0, 1))(ws, x)
        after = rng.state if random else None
        found.append((bits(value, *gw, gx), after, bits(rng.normal(size=3)) if random else None))
    assert found[0] == found[1]


def test_checkpoint_with_the_default_generator(device):
    """Other draws between forward and gradient do not disturb what is repeated."""
    x = cm.ones((50, 4))

    def run(wrap):
        cm.random.seed(3)
        block = wrap(lambda x: cm.ml.dropout(x * x, 0.5))
        y, pull = cm.vjp(lambda x: block(block(x)), x)
        cm.random.normal(size=10)
        first = pull(cm.ones_like(y))[0]
        return bits(y, first, pull(cm.ones_like(y))[0], cm.random.normal(size=3))

    assert run(lambda f: f) == run(cm.checkpoint)


def test_nested_checkpoints(device):
    ws, x = (
        [cm.asarray(0.3 * normals(6, 6, seed=i)) for i in range(4)],
        cm.asarray(normals(5, 6, seed=9)),
    )

    def run(wrap):
        rng = cm.random.default_rng(1)
        one = wrap(lambda x, w: layer(x, w, rng))
        two = wrap(lambda x, a, b: one(one(x, a), b))
        return bits(*cm.grad(lambda ws: two(two(x, *ws[:2]), *ws[2:]).sum())(ws))

    assert run(lambda f: f) == run(cm.checkpoint)


def test_checkpoint_sees_what_it_closes_over(device):
    """Arrays from outside have gradients too, whole ones and results of ops with several."""

    def f(wrap):
        def loss(p):
            scale = cm.exp(p["s"])
            vectors = cm.linalg.eigh(p["m"] + p["m"].T)

            def part(x):
                return (x @ vectors[1] * scale, {"kept": vectors[0] * 2, "x": x})

            y, more = wrap(part)(p["x"])
            return (y**2).sum() + (more["kept"] ** 3).sum() + more["x"].sum()

        return loss

    p = {"s": arr(0.1, 0.2, 0.3), "m": cm.asarray(normals(3, 3)), "x": cm.asarray(normals(4, 3))}
    plain, again = cm.grad(f(lambda g: g))(p), cm.grad(f(cm.checkpoint))(p)
    for key in p:
        assert bits(plain[key]) == bits(again[key])


def test_higher_orders_through_checkpoint(device):
    f = cm.checkpoint(lambda x: cm.sin(x) * x**3)
    for order, want in (
        (1, 3 * 0.49 * math.sin(0.7) + 0.343 * math.cos(0.7)),
        (2, -math.sin(0.7) * 0.343 + 6 * 0.49 * math.cos(0.7) + 6 * 0.7 * math.sin(0.7)),
    ):
        g = f
        for _ in range(order):
            g = cm.grad(g)
        assert g(cm.asarray(0.7)).item() == pytest.approx(want, rel=1e-12)
    inner = cm.checkpoint(lambda x: cm.grad(lambda z: (z**4).sum())(x))  # a gradient inside
    assert cm.grad(lambda x: inner(x).sum())(arr(2.0)).tolist() == [48]
    assert cm.jvp(f, (cm.asarray(0.7),), (cm.asarray(1.0),))[1].item() == pytest.approx(
        cm.grad(f)(0.7).item()
    )


def test_checkpoint_keeps_no_intermediates():
    """Between forward and gradient only the arguments of each segment live, and each is computed
    exactly twice."""
    refs, calls = [], []

    def segment(x):
        calls.append(1)
        for _ in range(3):
            x = cm.exp(x * 0.1)
            refs.append(weakref.ref(x._data))
        return x * 1.0

    alive = []

    def loss(x):
        for _ in range(5):
            x = cm.checkpoint(segment)(x)
        gc.collect()
        alive.append(sum(r() is not None for r in refs))
        return x.sum()

    with cm.device("cpu"):
        cm.grad(loss)(cm.ones(1000))
    gc.collect()
    assert alive == [0] and len(calls) == 10 and all(r() is None for r in refs)


def test_checkpoint_outside_a_gradient_and_names(device):
    calls = []

    @cm.checkpoint
    def f(x, *, k):
        """What it is."""
        calls.append(1)
        return {"y": x * k, "n": 3}

    assert f(arr(2.0), k=2.0)["y"].tolist() == [4] and len(calls) == 1
    assert f.__name__ == "f" and f.__doc__ == "What it is."
    assert (
        cm.grad(lambda x: f(x, k=3.0)["y"].sum())(arr(2.0)).tolist() == [3]
        and f(arr(1.0), k=1.0)["n"] == 3
    )
    assert cm.grad(lambda x: cm.checkpoint(lambda x: cm.ones(2))(x).sum())(arr(2.0)).tolist() == [0]
    assert cm.grad(lambda x: cm.checkpoint(lambda x: x)(x).sum())(arr(2.0)).tolist() == [1]


def test_checkpoint_sees_its_surroundings_as_they_were(device):
    """Functions made in a loop, whose variables change before the gradient is taken; and what
    cannot be had again."""
    x, y = arr(1.0, 2.0), arr(1.0, 2.0)

    def layers(x, keep):
        for w, power in ((2.0, 1), (3.0, 2), (5.0, 1)):
            w = arr(w, w)
            x = keep(lambda x: w * x**power)(x)  # noqa: B023
        return x.sum()

    assert cm.grad(layers)(x, cm.checkpoint).tolist() == cm.grad(layers)(x, lambda f: f).tolist()
    names = {"cm": cm, "w": 2.0}
    exec(
        "layer = cm.checkpoint(lambda x: x * w)\n"
        "def f(x):\n    global w\n    y = layer(x)\n    w = 7.0\n    return y.sum()",
        names,
    )
    assert cm.grad(names["f"])(x).tolist() == [2, 2]
    for text, other, wrong in (
        ("x * sum", 2.0, False),
        ("x * sum", arr(1.0, 2.0), True),
        ("x.sum() * 2", arr(1.0, 2), False),
    ):
        value, pull = cm.vjp(
            cm.checkpoint(eval(f"lambda x: {text}", {"sum": other})), x
        )  # a global, or an attribute
        other += 4.0  # an array changes, of a number this name alone
        with (
            pytest.raises(RuntimeError, match="changed in place")
            if wrong
            else contextlib.nullcontext()
        ):
            pull(cm.ones_like(value))
    for function in (lambda x: (x + y) * x, functools.partial(lambda y, x: (x + y) * x, y)):
        value, pull = cm.vjp(cm.checkpoint(function), x)
        y[0] = 4.0
        with pytest.raises(RuntimeError, match="checkpoint: .*changed in place after it was used"):
            pull(cm.ones(2))

    def f(x):  # a variable that has no value yet at the first call
        part = cm.checkpoint(lambda x, read: x * later if read else x * 2)
        y = part(x, False)
        later = arr(3.0, 3.0)
        return (y + part(x, True)).sum()

    assert cm.grad(f)(x).tolist() == [5, 5]


def test_checkpoint_says_when_the_function_changes():
    turn = []

    def sizes(x):
        turn.append(1)
        return (
            cm.ml.dropout(x, 0.5) if len(turn) == 1 else cm.ml.dropout(cm.concat([x, x]), 0.5)[:2]
        )

    with pytest.raises(
        RuntimeError, match="checkpoint: sizes drew other random numbers when it was computed again"
    ):
        cm.grad(lambda x: cm.checkpoint(sizes)(x).sum())(arr(*range(1, 9)))

    def shapes(x):
        turn.append(1)
        return x * 2 if len(turn) % 2 else (x * 2).reshape(1, -1)

    with pytest.raises(RuntimeError, match="checkpoint: shapes returned something else"):
        turn.clear()
        cm.grad(lambda x: cm.checkpoint(shapes)(x).sum())(arr(1.0, 2.0))
    assert (
        recording.state.depth == 0 and recording.state.draws is None and not recording.state.paused
    )


def test_threads_checkpoint_apart():
    def work(seed):
        for _ in range(10):
            x, states = cm.asarray(normals(20, 4, seed=seed)), []
            for wrap in (lambda f: f, cm.checkpoint):
                rng = cm.random.default_rng(seed)
                states.append(
                    bits(
                        cm.grad(
                            lambda x, wrap=wrap, rng=rng: wrap(
                                lambda x: cm.ml.dropout(x**3, 0.5, rng=rng)
                            )(x).sum()
                        )(x)
                    )
                )
            assert states[0] == states[1]

    together(4, work)


@pytest.mark.gpu
def test_checkpoint_in_a_graph():
    """A training step with dropout, checkpointed, as a CUDA graph: the bits of the plain step,
    replay after replay."""
    ends = []
    for wrap, graph in ((lambda f: f, False), (cm.checkpoint, False), (cm.checkpoint, True)):
        with cm.device("cuda"):
            ws = [cm.asarray(0.3 * normals(32, 32, seed=i, dtype="f4")) for i in range(3)]
            x = cm.asarray(normals(16, 32, seed=9, dtype="f4"))
            rng = cm.random.default_rng(5)
            block = wrap(lambda x, w, rng=rng: cm.ml.dropout(cm.ml.gelu(x @ w), 0.2, rng=rng) + x)

            def step(ws, x, block=block):
                loss, g = cm.value_and_grad(network(block))(ws, x)
                cm.ml.sgd_update(ws, g, lr=0.1)
                return loss

            run = cm.cuda.graph(step) if graph else step
            losses = [float(run(ws, x)) for _ in range(6)]
            assert len(set(losses)) == 6 and (not graph or run.graphs == 1)
            ends.append((losses, bits(*ws)))
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.gpu
def test_memory_of_checkpoint_on_a_gpu():
    n, depth, width = 1 << 20, 8, 10

    def segment(x):
        for _ in range(width):
            x = cm.exp(x * 0.1)
        return x

    peaks = []
    for wrap in (lambda f: f, cm.checkpoint):

        def loss(x, wrap=wrap):
            for _ in range(depth):
                x = wrap(segment)(x)
            return x.sum()

        x = cm.ones(n, dtype="float32", device="cuda")
        cm.grad(loss)(x)
        gc.collect()
        before = cm.cuda.memory_allocated()
        cm.cuda.reset_peak_memory_stats()
        cm.grad(loss)(x)
        peaks.append((cm.cuda.max_memory_allocated() - before) / (4 * n))
    assert peaks[0] >= depth * width and peaks[1] <= depth + width + 6


# -------------------- custom_vjp


def make_log1pexp():
    """JAX's example: a softplus whose gradient is stable."""

    @cm.custom_vjp
    def log1pexp(x):
        """log(1 + e^x)"""
        return cm.log(1.0 + cm.exp(x))

    log1pexp.defvjp(lambda x: (log1pexp(x), x), lambda x, g: (g * (1.0 - 1.0 / (1.0 + cm.exp(x))),))
    return log1pexp


def test_custom_vjp(device):
    f = make_log1pexp()
    assert f.__name__ == "log1pexp" and f(arr(0.0)).tolist() == [math.log(2)]
    with np.errstate(over="ignore"):
        assert cm.grad(lambda x: f(x).sum())(arr(1000.0, 0.0)).tolist() == [1.0, 0.5]
    second = cm.grad(lambda x: cm.grad(lambda x: f(x).sum())(x).sum())(arr(0.3))
    s = 1 / (1 + math.exp(-0.3))
    assert second.tolist() == pytest.approx([s * (1 - s)])
    assert cm.jvp(f, (arr(0.3),), (arr(2.0),))[1].tolist() == pytest.approx([2 * s])
    third = cm.grad(cm.grad(cm.grad(f)))(0.3).item()
    assert third == pytest.approx(s * (1 - s) * (1 - 2 * s))


def test_custom_vjp_of_trees(device):
    seen = []

    @cm.custom_vjp
    def f(p, x, mode):
        return {"sum": p["w"] * x + p["b"], "product": p["w"] * x}

    def forward(p, x, mode):
        out = f(p, x, mode)
        return out, (p, x, out, mode)

    def backward(kept, g):
        p, x, out, mode = kept
        seen.append((mode, g["sum"].tolist(), g["product"].tolist(), out["product"]._node))
        return {"w": (g["sum"] + g["product"]) * x, "b": None, "name": None}, 3 * g["sum"], None

    f.defvjp(forward, backward)
    p, x = {"w": arr(2.0, 3.0), "b": arr(1.0, 1.0), "name": "n"}, arr(5.0, 7.0)

    def loss(w, b, x):
        return f({"w": w, "b": b, "name": "n"}, x, "fast")["sum"].sum()

    gw, gb, gx = cm.grad(loss, (0, 1, 2))(p["w"], p["b"], x)
    assert (gw.tolist(), gb.tolist(), gx.tolist()) == (
        [5, 7],
        [0, 0],
        [3, 3],
    )  # by the rule, not the truth
    assert seen == [("fast", [1, 1], [0, 0], None)]
    assert (
        cm.grad(lambda x: f(p, x, "slow")["product"].sum())(x).tolist() == [0, 0]
        and seen[-1][0] == "slow"
    )


def test_custom_vjp_releases_what_it_keeps():
    """A residual that is the result itself is no cycle; it goes when the gradient has been
    taken."""
    refs = []

    @cm.custom_vjp
    def f(x):
        return cm.exp(x)

    def forward(x):
        y = cm.exp(x)
        refs.append(weakref.ref(y._data))
        return y, y

    f.defvjp(forward, lambda y, g: (g * y,))
    gc.collect()
    gc.disable()
    try:
        with cm.device("cpu"):
            for order in (cm.grad, lambda f: cm.grad(lambda x: cm.grad(f)(x).sum())):
                assert order(lambda x: f(x).sum())(arr(0.0)).tolist() == [1]
        assert refs and all(r() is None for r in refs)
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("forward", "backward", "error", "words"),
    [
        (
            None,
            None,
            TypeError,
            r"custom_vjp: f has no gradient rule; set one by f.defvjp\(forward, backward\)",
        ),
        (
            lambda x: x,
            lambda r, g: (g,),
            TypeError,
            r"the forward function must return a pair \(result, residuals\), got ndarray",
        ),
        (
            lambda x: (3.0, x),
            lambda r, g: (g,),
            TypeError,
            "custom_vjp: f must return arrays, got float",
        ),
        (
            lambda x: (x * 2, x),
            lambda r, g: g,
            TypeError,
            "must return a tuple of 1 gradients, one an argument, got ndarray",
        ),
        (
            lambda x: (x * 2, x),
            lambda r, g: (g, g),
            TypeError,
            "a tuple of 1 gradients, one an argument, got 2",
        ),
        (
            lambda x: (x * 2, x),
            lambda r, g: (g[:1],),
            ValueError,
            r"must be float64 of shape \(2,\) like its .* \(1,\)",
        ),
        (
            lambda x: (x * 2, x),
            lambda r, g: ([g, g],),
            ValueError,
            "the gradient of argument 0 has structure|must be float64",
        ),
    ],
)
def test_custom_vjp_errors(forward, backward, error, words):
    @cm.custom_vjp
    def f(x):
        return x * 2

    if forward is not None:
        f.defvjp(forward, backward)
    assert f(arr(1.0)).tolist() == [2]
    with pytest.raises(error, match=words):
        cm.grad(lambda x: f(x).sum())(arr(1.0, 2.0))
    assert recording.state.depth == 0 and not recording.state.paused


def test_custom_vjp_structures():
    @cm.custom_vjp
    def f(t):
        return t["a"] * t["b"]

    f.defvjp(lambda t: (t["a"] * t["b"], t), lambda t, g: ({"a": g},))
    with pytest.raises(ValueError, match="custom_vjp: f: the gradient of argument 0 has structure"):
        cm.grad(lambda t: f(t).sum())({"a": arr(1.0), "b": arr(2.0)})


def test_stop_gradient_of_trees(device):
    def f(p):
        q = cm.stop_gradient({"w": p["w"] * 2, "n": 3, "list": [p["w"]]})
        return (p["w"] * q["w"] * q["list"][0]).sum() * q["n"]

    assert cm.grad(f)({"w": arr(2.0)})["w"].tolist() == [24]


@pytest.mark.gpu
def test_fused_functions_in_all_of_them():
    """jvp, checkpoint and custom_vjp of fused functions, and in them: as of the functions
    themselves."""
    straight = cm.custom_vjp(lambda x: cm.round(x))
    straight.defvjp(lambda x: (cm.round(x), None), lambda _, g: (g,))

    def standard(x, w):
        e = x - x.mean(-1, keepdims=True)
        return cm.tanh(e * w) / cm.sqrt((e * e).mean(-1, keepdims=True) + 1e-5)

    def stepped(x, w):
        return (straight(x * w) * x).sum(-1)

    x, w, v = (
        cm.asarray(normals(*shape, seed=i), device="cuda")
        for i, shape in enumerate([(6, 10), (10,), (6, 10)])
    )
    for function in (standard, stepped):
        found = []
        for f in (function, cm.fuse(function)):
            y, dy = cm.jvp(lambda x, f=f: f(x, w), (x,), (v,))
            hv = cm.jvp(cm.grad(lambda x, f=f: (f(x, w) ** 2).sum()), (x,), (v,))[1]
            gw, gx = cm.grad(lambda w, x, f=f: (cm.checkpoint(f)(x, w) ** 2).sum(), (0, 1))(w, x)
            found.append([np.asarray(a) for a in (y, dy, hv, gw, gx)])
        for plain, fused in zip(*found, strict=True):
            np.testing.assert_allclose(fused, plain, rtol=1e-9, atol=1e-10)


# -------------------- memory and integers


def test_a_cast_keeps_nothing():
    """What mixed precision casts is not held for the gradient's sake."""
    refs, alive = [], []

    def f(x):
        y = x * 2.0
        refs.append(weakref.ref(y._data))
        z = y.astype("float32")
        del y
        gc.collect()
        alive.append(refs[0]() is not None)
        return z.sum()

    with cm.device("cpu"):
        g = cm.grad(f)(cm.ones(1000))
    assert alive == [False] and g.dtype == np.float64 and float(g[0]) == 2


def test_nothing_flows_through_integers(device):
    def f(x):
        steps = x.astype("int64")
        return (steps.astype("float64") * x + steps * 2.0).sum()

    assert cm.grad(f)(arr(1.5, 2.5)).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_slope_of_fmod_is_whole(device, dtype):
    """By the divisor: -trunc of the exact quotient, also where x / y rounds up to a whole
    number."""
    rng = np.random.default_rng(0)
    x, y = (
        cm.asarray(rng.choice([-1, 1], 4000) * rng.uniform(0.5, 3, 4000), dtype=dtype)
        for _ in range(2)
    )
    slope = cm.grad(lambda x, y: cm.fmod(x, y).sum(), 1)(x, y)
    exact = [
        np.trunc(Fraction(float(a)) / Fraction(float(b)))
        for a, b in zip(np.asarray(x), np.asarray(y), strict=True)
    ]
    np.testing.assert_array_equal(
        np.asarray(slope).astype(np.float64), -np.array(exact, np.float64)
    )


def test_rules_may_change_their_gradient_in_place(device):
    """Others' gradients lay in the same memory: that of `w` came out three times too large, and so
    did the caller's own array."""

    @cm.custom_vjp
    def doubled(x):
        return 2 * x, 2 * x

    def backward(_, g):
        first, second = g
        first *= 3
        return (2 * first + 2 * second,)

    doubled.defvjp(lambda x: (doubled(x), ()), backward)
    a, w, b = (cm.asarray([1.0, 2.0]) for _ in range(3))

    def loss(w, b):
        m = a * w
        first, second = doubled(b)
        return ((m + first + second) ** 2).sum()

    slope = 2 * (np.array([1.0, 4.0]) + 4 * np.array([1.0, 2.0]))
    gw, gb = cm.grad(loss, (0, 1))(w, b)
    assert gw.tolist() == (slope * [1, 2]).tolist()
    assert gb.tolist() == (slope * 8).tolist()
    seed = cm.asarray([1.0, 1.0])
    _, pull = cm.vjp(doubled, b)
    assert pull((seed, seed))[0].tolist() == [8, 8]
    assert seed.tolist() == [1, 1]


def test_rules_may_return_what_they_kept(device):
    """The gradient was the argument itself, and a change of it in place one of the argument."""

    @cm.custom_vjp
    def f(x, y):
        return (x * y).sum()

    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda kept, g: kept)
    whole = cm.asarray([1.0, 2.0, 3.0, 4.0])
    for gradients in (
        cm.grad(f, (0, 1))(whole[:2], whole[2:]),
        cm.vjp(f, whole[:2], whole[2:])[1](cm.asarray(1.0)),
    ):
        for g in gradients:
            g += 10
    assert whole.tolist() == [1, 2, 3, 4]


def test_gradients_are_apart_from_each_cotangent(device):
    """Of cotangents that are views of one array the last alone was remembered."""
    cotangents = cm.asarray([1.0, 2.0, 3.0, 4.0])
    x, y = cm.asarray([1.0, 1.0]), cm.asarray([2.0, 2.0])
    _, pull = cm.vjp(lambda x, y: (cm.reshape(x, (2,)), cm.reshape(y, (2,))), x, y)
    for g in pull((cotangents[:2], cotangents[2:])):
        g += 10
    assert cotangents.tolist() == [1, 2, 3, 4]
