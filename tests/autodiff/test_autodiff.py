"""Gradients: the machinery (trees, levels, memory, errors). What each op's rule gives is tested in
test_gradients.py."""

import gc
import weakref

import numpy as np
import pytest
from threads import together

import cudamath as cm
from cudamath.core import recording
from cudamath.core.array import ndarray
from cudamath.core.autograd import backward as autograd_backward
from cudamath.core.autograd import tape


def arr(*values, dtype="float64"):
    return cm.asarray(np.array(values, dtype))


def leaf_values(tree):
    return {key: value.tolist() for key, value in tree.items()}


# -------------------- values


def test_trees(device):
    def loss(p, scale):
        return (p["w"][0] * p["w"][1]).sum() * scale + (p["b"] ** 2).sum()

    p = {"w": [arr(1, 2), arr(3, 4)], "b": (arr(5),)[0]}
    value, g = cm.value_and_grad(loss)(p, 10.0)
    assert float(value) == 10 * (3 + 8) + 25
    assert [x.tolist() for x in g["w"]] == [[30, 40], [10, 20]] and g["b"].tolist() == [10]
    assert isinstance(g["w"], list) and getattr(value, "_node", None) is None


def test_numpy_arrays_and_numbers_are_leaves(device):
    assert cm.grad(lambda x: (x**2).sum())(np.array([1.0, 2.0])).tolist() == [2, 4]
    assert cm.grad(lambda x: x * x)(3.0).item() == 6.0
    assert cm.grad(lambda t: t[0] * t[1])((2.0, 5.0))[0].item() == 5.0


def test_argnums(device):
    def f(x, y, z):
        return (x * y + z).sum()

    x, y, z = arr(1, 2), arr(3, 4), arr(5, 6)
    assert cm.grad(f, 1)(x, y, z).tolist() == [1, 2]
    assert cm.grad(f, -1)(x, y, z).tolist() == cm.grad(f, np.int64(2))(x, y, z).tolist() == [1, 1]
    gx, gz = cm.grad(f, (0, 2))(x, y, z)
    assert gx.tolist() == [3, 4] and gz.tolist() == [1, 1]
    (only,) = cm.grad(f, np.array([1]))(x, y, z)
    assert only.tolist() == [1, 2]
    with pytest.raises(
        ValueError, match="grad: argnums 3 but the function was called with 3 arguments"
    ):
        cm.grad(f, 3)(x, y, z)
    assert cm.grad(lambda x, *, k: (x * k).sum())(x, k=7.0).tolist() == [7, 7]


def test_has_aux(device):
    def f(x):
        y = x * 2
        return y.sum(), {"y": y, "note": "seen", "host": 3}

    (value, aux), g = cm.value_and_grad(f, has_aux=True)(arr(1, 2))
    assert (
        float(value) == 6
        and aux["y"].tolist() == [2, 4]
        and aux["note"] == "seen"
        and g.tolist() == [2, 2]
    )
    assert aux["y"]._node is None
    g, aux = cm.grad(f, has_aux=True)(arr(1, 2))
    assert g.tolist() == [2, 2] and aux["host"] == 3
    assert cm.grad(lambda x: (x.sum(), None), has_aux=True)(arr(1.0))[1] is None


def test_what_is_returned_aside_is_part_of_an_outer_gradient(device):
    """Of x^3 aside of x^2: the outer one is that of 2 x + x^3."""

    def outer(x):
        slope, aside = cm.grad(lambda x: ((x**2).sum(), x**3), has_aux=True)(x)
        return (slope + aside).sum()

    x = np.array([0.5, -2.0])
    np.testing.assert_allclose(cm.grad(outer)(cm.asarray(x)).to_numpy(), 2 + 3 * x**2)


@pytest.mark.parametrize(
    "result, told",
    [
        (lambda x: x[:2], "ndarray"),  # which could be taken apart like a pair
        (lambda x: (x.sum(),), "tuple of 1"),
        (lambda x: [x.sum(), 1, 2], "list of 3"),
        (lambda x: {"a": x.sum(), "b": 1}, "dict"),
    ],
)
def test_has_aux_wants_a_pair(result, told):
    x = cm.asarray([1.0, 2.0], device="cpu")
    for transform, name in ((cm.grad, "grad"), (cm.value_and_grad, "value_and_grad")):
        with pytest.raises(TypeError, match=rf"^{name}: .* a pair \(value, aux\), got {told}$"):
            transform(result, has_aux=True)(x)


def test_what_does_not_depend_has_zero_gradient(device):
    g = cm.grad(lambda p: (p["a"] * 2).sum())({"a": arr(1, 2), "b": arr(3, dtype="float32")})
    assert leaf_values(g) == {"a": [2, 2], "b": [0]} and g["b"].dtype == np.float32
    assert cm.grad(lambda x: cm.ones(()))(arr(1, 2)).tolist() == [0, 0]


def test_an_argument_used_many_times(device):
    assert cm.grad(lambda x: (x * x + x * x * x + x).sum())(arr(2.0)).tolist() == [4 + 12 + 1]
    assert cm.grad(lambda x: x * 1.0 + x * 1.0)(arr(2.0)[0]).item() == 2  # shape ()


def test_long_chains_do_not_recurse(device):
    def f(x):
        for _ in range(5000):
            x = x * 1.0001
        return x.sum()

    assert cm.grad(f)(arr(1.0)).tolist() == pytest.approx([1.0001**5000])


def test_dtypes_of_gradients(device):
    g = cm.grad(lambda p: (p[0] * p[1]).sum())((arr(1, 2, dtype="float32"), arr(3, 4)))
    assert [x.dtype for x in g] == [np.float32, np.float64]
    half = cm.grad(lambda x: (x * 2).sum())(arr(1, 2, dtype="float16"))
    assert half.dtype == np.float16 and half.tolist() == [2, 2]


def test_vjp(device):
    x, y = arr(1, 2), arr(3, 4)
    (s, p), pull = cm.vjp(lambda x, y: (x + y, x * y), x, y)
    assert s.tolist() == [4, 6] and p.tolist() == [3, 8] and s._node is None
    for _ in range(2):  # as often as called
        gx, gy = pull((arr(1, 0), arr(0, 1)))
        assert gx.tolist() == [1, 4] and gy.tolist() == [1, 2]
    assert pull((arr(2, 2), arr(0, 0)))[0].tolist() == [2, 2]
    _, pull = cm.vjp(lambda t: {"out": t["a"] * 2}, {"a": x})
    (g,) = pull({"out": np.ones(2)})
    assert g["a"].tolist() == [2, 2]
    _, pull = cm.vjp(lambda x: cm.ones(2), x)
    assert pull(arr(1, 1))[0].tolist() == [0, 0]


def test_vjp_checks_what_is_pulled():
    _, pull = cm.vjp(lambda x: x * 2, arr(1, 2))
    for bad, message in [
        ((arr(1, 1), arr(1, 1)), "vjp: the gradient has structure"),
        (
            arr(1, 2, 3),
            r"vjp: the gradient must be float64 of shape \(2,\) like the result, got float64 of "
            r"shape \(3,\)",
        ),
        (arr(1, 2, dtype="float32"), "must be float64 .* got float32"),
    ]:
        with pytest.raises(ValueError, match=message):
            pull(bad)
    with pytest.raises(TypeError, match="vjp: the function must return arrays, got float"):
        cm.vjp(lambda x: 2.0, arr(1.0))


# -------------------- orders


def test_higher_orders(device):
    f = lambda x: x**5  # noqa: E731
    expected = [5 * 16, 20 * 8, 60 * 4, 120 * 2, 120]
    for value in expected:
        f = cm.grad(f)
        assert f(2.0).item() == pytest.approx(value)


def test_hessian_vector_product(device):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4, 4))
    x, v = rng.normal(size=4), rng.normal(size=4)

    def f(x):
        return (cm.sin(cm.asarray(a) @ x)).sum()

    hv = cm.grad(lambda x: (cm.grad(f)(x) * v).sum())(cm.asarray(x))
    expected = a.T @ (-np.sin(a @ x) * (a @ v))
    np.testing.assert_allclose(np.asarray(hv), expected, rtol=1e-12)
    _, pull = cm.vjp(cm.grad(f), cm.asarray(x))
    np.testing.assert_allclose(np.asarray(pull(cm.asarray(v))[0]), expected, rtol=1e-12)


def test_a_gradient_inside_by_one_argument_outside_by_another(device):
    def outer(a, x):
        return cm.grad(lambda x: (a * x**3).sum())(x).sum()  # 3 a x^2

    assert cm.grad(outer, (0, 1))(arr(2.0), arr(5.0))[0].tolist() == [75]
    assert cm.grad(outer, (0, 1))(arr(2.0), arr(5.0))[1].tolist() == [60]


def test_vjp_inside_grad(device):
    def f(x):
        y, pull = cm.vjp(lambda z: z**3, x)
        return (pull(y)[0]).sum()  # y * 3 x^2 = 3 x^5

    assert cm.grad(f)(arr(2.0)).tolist() == [15 * 16]


def test_inner_levels_do_not_see_outer_constants(device):
    """Perturbation confusion: d/dx x * (d/dy (x + y)) = 1, not 2."""
    assert cm.grad(lambda x: x * cm.grad(lambda y: x + y)(1.0))(1.0).item() == 1.0


# -------------------- constants, in-place, errors


def test_stop_gradient(device):
    assert cm.grad(lambda x: (x * cm.stop_gradient(x)).sum())(arr(3.0)).tolist() == [3]
    x = arr(1.0)
    assert cm.stop_gradient(x).tolist() == [1] and cm.stop_gradient(x).ptr == x.ptr


def test_what_leaves_the_function_is_a_constant(device):
    seen = []

    def f(x):
        seen.append(x)
        return (x * x).sum()

    x = arr(2.0)
    g = cm.grad(f)(x)
    assert x._node is None and g._node is None
    x += 1  # the argument itself was never marked
    assert x.tolist() == [3]


def test_in_place_changes_are_refused_while_recording(device):
    def f(x, change):
        y = x * 2
        change(y, x)
        return y.sum()

    def add(y, x):
        y += 1

    def multiply(y, x):
        y *= x

    def put(y, x):
        y[0] = 7.0

    def into_constant(y, x):
        z = cm.zeros(2)
        z += x

    for change in (add, multiply, put, into_constant):
        with pytest.raises(RuntimeError, match="gradient is being recorded|while a gradient is"):
            cm.grad(f)(arr(1, 2), change)

    def constants_may(y, x):
        z = cm.zeros(2)
        z += 1

    assert cm.grad(f)(arr(1, 2), constants_may).tolist() == [2, 2]


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.__setitem__(slice(1), 1.0),
        lambda y: y[1:].__setitem__(0, 1.0),
        lambda y: y.sort(),
        lambda y: y.__imatmul__(cm.eye(2)),
        lambda y: cm.add(y, 1.0, out=y),
        lambda y: cm.exp(cm.ones(2), out=y),
        lambda y: cm.sum(cm.ones((2, 2)), axis=0, out=y),
        lambda y: cm.put(y, [0], 1.0),
        lambda y: cm.add_at(y, [0], 1.0),
        lambda y: cm.random.default_rng(0).shuffle(y),
        lambda y: cm.ones(2).copy_to(y),
    ],
)
def test_every_way_to_change_an_array_is_refused(device, change):
    with pytest.raises(
        RuntimeError, match="gradient is being recorded|while a gradient is recorded"
    ):
        cm.grad(lambda x: (change(x * 2.0), x.sum())[1])(arr(1, 2))


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.__setitem__(0, 5.0),
        lambda y: y[1:].__setitem__(0, 5.0),
        lambda y: y.__iadd__(1),
        lambda y: y.__imul__(y),
        lambda y: cm.add(y, 1.0, out=y),
        lambda y: cm.exp(cm.ones(2), out=y),
        lambda y: cm.sum(cm.ones((2, 2)), axis=0, out=y),
        lambda y: y.fill(2.0),
        lambda y: y.sort(),
        lambda y: cm.put(y, [0], 9.0),
        lambda y: cm.add_at(y, [0], 1.0),
        lambda y: y.__setitem__([1], 9.0),
        lambda y: y.__setitem__(cm.asarray([0]), 9.0),
        lambda y: y.__setitem__(y > 0, 9.0),
        lambda y: cm.copyto(y, 0.0),
        lambda y: cm.random.default_rng(0).shuffle(y),
        lambda y: cm.ones(2).copy_to(y),
        lambda y: cm.ml.sgd_update([y], [cm.ones(2)], lr=0.1),
    ],
)
def test_constants_that_change_after_their_use_give_no_wrong_gradient(device, change):
    def f(x, change):
        y = arr(3.0, 2.0)
        z = (x * y).sum()
        change(y)
        return z

    x = arr(1, 2)
    assert (
        cm.grad(f)(x, lambda y: None).tolist()
        == cm.grad(f)(x, lambda y: change(y.copy())).tolist()
        == [3, 2]
    )
    with pytest.raises(
        RuntimeError, match=r"^multiply: .*\(2,\).*changed in place after it was used"
    ):
        cm.grad(f)(x, change)
    with pytest.raises(RuntimeError, match="changed in place"):
        cm.vjp(lambda x: f(x, change), x)[1](cm.asarray(1.0))
    with pytest.raises(RuntimeError, match="changed in place"):
        cm.grad(lambda x: cm.checkpoint(lambda y: (y * y).sum() + 0 * f(y, change))(x * 2))(x)
    with pytest.raises(RuntimeError, match="changed in place"):
        cm.grad(lambda x: cm.grad(f)(x, change).sum())(x)


def test_arguments_and_residuals_that_change(device):
    """What a checkpointed function will be given again, and what a rule of one's own has kept."""
    layer = cm.checkpoint(lambda x, w: cm.tanh(x * w))
    mine = cm.custom_vjp(lambda x, w: x * w)
    mine.defvjp(lambda x, w: (mine(x, w), w), lambda w, g: (g * w, None))
    for function, name in ((layer, "checkpoint"), (mine, "custom_vjp")):

        def f(x, change, function=function):
            w = arr(3.0, 2.0)
            y = function(x, w).sum()
            if change:
                w[1] = 0.0
            return y

        assert cm.grad(f)(arr(0.0, 0.0), False).tolist() == [3, 2]
        with pytest.raises(RuntimeError, match=f"^{name}: .*changed in place after it was used"):
            cm.grad(f)(arr(0.0, 0.0), True)


def test_a_rule_of_ones_own_closes_over_constants(device):
    def f(w, kept):
        mine = cm.custom_vjp(lambda x: x * kept(w))
        mine.defvjp(lambda x: (x * kept(w), None), lambda _, g: (g * kept(w),))
        return mine(arr(3.0, 2.0) if kept is cm.sin else w * 2).sum()

    assert cm.grad(lambda w: f(cm.stop_gradient(w), cm.cos) + 0 * w.sum())(arr(0.0)).tolist() == [0]
    for kept in (cm.sin, cm.cos):  # with and without an argument that is differentiated
        with pytest.raises(
            TypeError,
            match=r"^custom_vjp: <lambda> closes over float64 of shape \(2,\).* stop_gradient",
        ):
            cm.grad(lambda w: f(w, kept))(arr(0.0, 1.0))  # noqa: B023


def test_constants_may_change_elsewhere_and_before(device):
    def f(x):
        table, total = cm.zeros((2, 3)), 0.0
        for i in range(3):
            table[:, i] = float(i + 1)  # beside the columns that were used
            total = total + (x * table[:, i]).sum()
        y = cm.ones(2)
        y += cm.stop_gradient(x).to_numpy()[0]
        y[0] = 5.0
        total = total + (x * y).sum()
        del y
        z = cm.ones(2)  # perhaps where y was
        z += 1
        return (
            total + (z + x).sum()
        )  # what an addition was given may change: its gradient does not read it

    def g(x):
        z = cm.ones(2)
        y = x + z
        z += 1
        return y.sum()

    assert cm.grad(f)(arr(1, 2)).tolist() == [12, 9] and cm.grad(g)(arr(1, 2)).tolist() == [1, 1]


@pytest.mark.parametrize(
    "result, seen",
    [
        (lambda x: x, r"float64 of shape \(2,\)"),
        (lambda x: (x > 0).all(), r"bool of shape \(\)"),
        (lambda x: 3.0, "float"),
        (lambda x: x.astype("int64").sum(), r"int64 of shape \(\)"),
        (lambda x: None, "NoneType"),
        (lambda x: (x.sum(), x), "tuple"),
        (lambda x: (x * 1j).sum(), r"complex128 of shape \(\)"),
    ],
)
def test_the_result_must_be_one_number(result, seen):
    for function in (cm.grad, cm.value_and_grad):
        wanted = (
            f"^{function.__name__}: the function must return one real floating-point number, "
            f"got {seen}"
        )
        with pytest.raises(TypeError, match=wanted):
            function(result)(arr(1, 2))


def test_arguments_must_be_floating_point():
    with pytest.raises(TypeError, match=r"grad: gradients are taken .* got int64 of shape \(2,\)"):
        cm.grad(lambda x: x.sum())(np.array([1, 2]))
    with pytest.raises(TypeError, match="vjp: gradients are taken .* got bool"):
        cm.vjp(lambda x: x, np.array([True]))
    with pytest.raises(TypeError, match="grad: "):
        cm.grad(lambda x: x.sum())({"a": "word"})
    assert cm.grad(lambda x, n: (x * n).sum())(arr(1.0), np.array([2])).tolist() == [
        2
    ]  # others may be anything


def test_an_error_inside_leaves_no_level_open():
    with pytest.raises(KeyError):
        cm.grad(lambda x: {}[1])(1.0)
    assert recording.state.depth == 0 and not recording.state.paused
    with pytest.raises(KeyError):
        cm.vjp(lambda x: {}[1], 1.0)
    assert recording.state.depth == 0
    assert cm.grad(lambda x: x * x)(3.0).item() == 6


def test_a_released_gradient_says_so():
    x = tape.leaf(arr(1.0))
    y = (x * x).sum()
    autograd_backward.backward([(y._node, cm.ones(()))], [x._node], {}, release=True)
    with pytest.raises(
        RuntimeError, match="its gradient was already taken and what it needs was released"
    ):
        autograd_backward.backward([(y._node, cm.ones(()))], [x._node], {}, release=True)


def test_nothing_is_recorded_outside():
    x = arr(1.0)
    assert (x * x)._node is None and cm.exp(x)._node is None and x[:1]._node is None


# -------------------- memory


def watch(refs, x):
    refs.append(weakref.ref(x))
    return x


def test_residuals_that_no_rule_needs_are_not_kept():
    """Of exp its result is kept, of add nothing."""
    refs = {}

    def f(x):
        a = x + 1.0
        refs["add"] = weakref.ref(a)
        b = cm.exp(a)
        refs["exp"] = weakref.ref(b)
        refs["memory of exp"] = weakref.ref(b._data)
        c = b + 2.0
        refs["memory of add"] = weakref.ref(c._data)
        del a, b
        out = c.sum()
        del c
        gc.collect()
        refs["seen"] = {name: r() is not None for name, r in refs.items()}
        return out

    with cm.device("cpu"):
        cm.grad(f)(cm.ones(1000))
    assert refs.pop("seen") == {
        "add": False,
        "exp": False,
        "memory of exp": True,
        "memory of add": False,
    }
    gc.collect()
    assert all(r() is None for r in refs.values())


def test_memory_is_released_on_the_way_back():
    """While the gradient is taken, what later nodes kept is already gone: by reference counts,
    without the collector."""
    alive = []

    def f(x):
        refs = []
        for _ in range(20):
            x = cm.exp(x * 0.1)
            refs.append(weakref.ref(x._data))
        f.refs = refs
        return x.sum()

    original = autograd_backward._add

    def counting(*args):
        alive.append(sum(r() is not None for r in f.refs))
        return original(*args)

    gc.collect()
    gc.disable()
    try:
        autograd_backward._add = counting
        with cm.device("cpu"):
            cm.grad(f)(cm.ones(1000))
    finally:
        autograd_backward._add = original
        gc.enable()
    assert max(alive) == 20 and alive[-1] <= 1 and alive == sorted(alive, reverse=True)
    assert all(r() is None for r in f.refs)


def test_a_forward_pass_leaves_no_cycles():
    """Arrays and nodes go when their last user does, also where no gradient is taken in the end."""
    gc.collect()
    gc.disable()
    try:
        x = tape.leaf(cm.ones(100))
        y = cm.exp(x) * x + cm.tanh(x)
        refs = [weakref.ref(x), weakref.ref(y)]
        nodes = sum(type(o) is tape.Node for o in gc.get_objects())
        assert nodes >= 5
        del x, y
        assert all(r() is None for r in refs)
        assert sum(type(o) is tape.Node for o in gc.get_objects()) == 0
    finally:
        gc.enable()


def test_vjp_keeps_what_it_needs_until_it_goes():
    with cm.device("cpu"):
        refs = []

        def f(x):
            y = cm.exp(x)
            refs.append(weakref.ref(y._data))
            return y * 1.0

        _, pull = cm.vjp(f, cm.ones(10))
        gc.collect()
        assert refs[0]() is not None
        assert pull(cm.ones(10))[0].shape == (10,)
        del pull
        gc.collect()
        assert refs[0]() is None


@pytest.mark.gpu
def test_gpu_memory_of_a_gradient():
    n = 1 << 20
    x = cm.ones(n, dtype="float32", device="cuda")
    cm.grad(lambda x: cm.exp(x * 0.5).sum())(x)
    gc.collect()  # what earlier tests left in cycles does not count
    cm.cuda.reset_peak_memory_stats()
    before = cm.cuda.memory_allocated()

    def chain(x):
        for _ in range(10):
            x = cm.exp(x * 0.1)
        return x.sum()

    cm.grad(chain)(x)
    gc.collect()
    assert cm.cuda.memory_allocated() == before
    assert (
        cm.cuda.max_memory_allocated() - before < 16 * 4 * n
    )  # ten results of exp, and what is under way


def test_threads_record_apart():
    def work(k):
        for _ in range(30):
            assert cm.grad(lambda x: (x**2 * k).sum())(arr(3.0)).tolist() == [6 * k]
            assert (arr([1.0]) * 2)._node is None

    together(6, work)


def test_the_wrapped_function_keeps_its_name():
    def loss(x):
        """What it is."""
        return x.sum()

    assert cm.grad(loss).__name__ == "loss" and cm.value_and_grad(loss).__doc__ == "What it is."
    assert isinstance(cm.grad(loss)(arr(1.0)), ndarray)


def test_gradients_of_parts_are_added_in_place(device, monkeypatch):
    """A loop over the slices of an array takes one pass over the whole, not one a slice; the
    gradient is the same."""
    x = cm.asarray(np.random.default_rng(0).normal(size=(40, 6)))

    def loss(x, parts):
        h = cm.ml.relu(x) if parts != "of two results" else cm.linalg.qr(x)[0]
        total = (h * h).sum()
        for i in range(40):
            total = (
                total
                + (
                    h[i, ::-1] ** 3 * h[(i * 7) % 40]
                    if parts != "diagonals"
                    else cm.diagonal(h, -i) ** 2
                ).sum()
            )
        return total + (h[:, :3] * h[:, 3:]).sum()

    calls, original = [], cm.ops.shape._window.add_into

    def counted(*args, **view):
        calls.append(original(*args, **view))
        return calls[-1]

    for parts in ("rows", "diagonals", "of two results"):
        calls.clear()
        monkeypatch.setattr(cm.ops.shape._window, "add_into", counted)
        found = cm.grad(loss)(x, parts)
        assert sum(calls) >= 35
        monkeypatch.setattr(cm.ops.shape._window, "add_into", None)
        np.testing.assert_allclose(
            np.asarray(found), np.asarray(cm.grad(loss)(x, parts)), rtol=1e-12, atol=1e-13
        )


def test_a_gradient_that_is_shared_is_not_added_to(device):
    """add passes the very same array on to both sides: what comes from a part of one must not reach
    the other."""

    def f(a, b):
        s = a + b
        return (s * 2.0).sum() + (a[1:] * 10.0).sum() + (a[:2] * 100.0).sum()

    x = arr(1, 2, 3)
    ga, gb = cm.grad(f, (0, 1))(x, x)
    assert ga.tolist() == [102, 112, 12] and gb.tolist() == [2, 2, 2]
    y, pull = cm.vjp(lambda a: (a * 1.0, a[1:] * 1.0, a[:1] * 1.0), x)
    u = arr(1, 1, 1)
    assert pull((u, arr(5, 5), arr(7)))[0].tolist() == [8, 6, 6] and u.tolist() == [1, 1, 1]
    y, pull = cm.vjp(lambda a: (a, a[1:], a[:1]), x)
    assert pull((u, arr(5, 5), arr(7)))[0].tolist() == [8, 6, 6] and u.tolist() == [1, 1, 1]


# -------------------- beside torch


def everything(xp, x, w, b, table, tokens, rows, mask):
    """Indexing, broadcasting, views, joins, reductions, selections: written once for both
    libraries."""
    h = table[tokens] + x[:, None, :] * b  # (4, 3, 5): gathered rows, broadcasts
    h = xp.tanh(h @ w)
    picked = h[rows, :, 1:4] - h[::2, -1:, :3]  # arrays and slices in one index; negative places
    joined = xp.concatenate([picked.reshape(2, 9), h[0].T.reshape(1, -1)[:, :9]], 0)
    chosen = xp.where(mask, joined, 0.1 * joined)
    largest = xp.amax(chosen, 1) if xp is cm else xp.amax(chosen, dim=1)
    e = xp.exp(chosen - largest[:, None])
    ordered = xp.sort(h.reshape(-1))[3:20] if xp is cm else xp.sort(h.reshape(-1))[0][3:20]
    running = xp.cumsum(ordered, 0)
    outer = xp.einsum("ij,kj->ik", joined, chosen)
    return (
        (xp.log(e.sum(-1)) + largest).sum()
        + (running**2).mean()
        + (outer * outer.T).sum()
        + (h[0, 0] / (2 + b)).sum()
    )


def test_a_function_of_everything_as_in_torch(device):
    """Gradients and products with the Hessian, by all arguments at once."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    floats = [rng.normal(size=s) for s in ((4, 5), (5, 5), (5,), (7, 5))]
    directions = [rng.normal(size=f.shape) for f in floats]
    whole = [rng.integers(0, 7, (4, 3)), np.array([3, 1]), rng.random((3, 9)) < 0.5]

    theirs = [torch.tensor(f, requires_grad=True) for f in floats]
    value = everything(torch, *theirs, *map(torch.tensor, whole))
    gradients = torch.autograd.grad(value, theirs, create_graph=True)
    products = torch.autograd.grad(
        sum((g * torch.tensor(d)).sum() for g, d in zip(gradients, directions, strict=True)), theirs
    )

    xs, vs = ([cm.asarray(f) for f in those] for those in (floats, directions))
    rest = [cm.asarray(a) for a in whole]
    ours = cm.value_and_grad(lambda *xs: everything(cm, *xs, *rest), (0, 1, 2, 3))
    found, slopes = ours(*xs)
    _, curvature = cm.jvp(lambda *xs: ours(*xs)[1], xs, vs)
    assert float(found) == pytest.approx(value.item(), rel=1e-13)
    for got, want in zip((*slopes, *curvature), (*gradients, *products), strict=True):
        np.testing.assert_allclose(np.asarray(got), want.detach().numpy(), rtol=1e-10, atol=1e-12)
