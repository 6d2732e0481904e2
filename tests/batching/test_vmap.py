"""`vmap` itself: axes, trees, errors, what it composes with."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import cudamath as cm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3, 5))


@pytest.fixture(autouse=True)
def on_the_cpu():
    with cm.device("cpu"):
        yield


def array(x: Any = X) -> cm.ndarray:
    return cm.asarray(x)


def test_axes_of_arguments_and_results():
    x = array()
    for axis in (0, 1, 2, -1, -3):
        for to in (0, 1, -1):
            got = cm.vmap(lambda a: a.sum(axis=0) * 2, axis, to)(x)
            wanted = np.stack(
                [np.take(X, i, axis).sum(axis=0) * 2 for i in range(X.shape[axis])], to
            )
            np.testing.assert_allclose(got.to_numpy(), wanted)


def test_trees_of_axes_fit_the_beginning_of_the_arguments():
    tree = {"a": array(), "b": (array(X[0]), array(X[0].T))}

    def fn(t: Any, y: Any) -> Any:
        return {"sum": t["a"].sum() + y, "both": (t["b"][0], t["b"][1] + t["b"][0])}

    axes = ({"a": 1, "b": (0, -1)}, None)
    got = cm.vmap(fn, axes, {"sum": 0, "both": (1, 0)})(tree, 2.0)
    np.testing.assert_allclose(got["sum"].to_numpy(), X.sum(axis=(0, 2)) + 2)
    np.testing.assert_allclose(got["both"][0].to_numpy(), X[0].T)
    np.testing.assert_allclose(got["both"][1].to_numpy(), 2 * X[0])


def test_keywords_are_mapped_over_axis_0():
    got = cm.vmap(lambda x, *, shift: x + shift)(array(), shift=array(np.arange(4.0)))
    np.testing.assert_allclose(got.to_numpy(), X + np.arange(4.0)[:, None, None])


def test_results_that_do_not_differ_are_repeated_or_returned_once():
    once, repeated = cm.vmap(lambda x: (cm.ones(2), 3), out_axes=0)(array())
    assert once.shape == (4, 2) and repeated.tolist() == [3] * 4
    once[0] = 7  # memory of its own
    assert once.tolist() == [[7, 7], [1, 1], [1, 1], [1, 1]]
    assert cm.vmap(lambda x: (x, cm.ones(2)), out_axes=(0, None))(array())[1].shape == (2,)


def test_results_share_no_memory_with_arguments():
    x = array(X.copy())
    y = cm.vmap(lambda a: a)(x)
    y[0] = 0
    np.testing.assert_array_equal(x.to_numpy(), X)
    z = cm.vmap(lambda a: a.T[1:])(x)
    z[...] = 0
    np.testing.assert_array_equal(x.to_numpy(), X)


def test_a_batch_of_none_and_of_one():
    assert cm.vmap(lambda x: x.sum(axis=0))(cm.zeros((0, 3, 2))).shape == (0, 2)
    assert cm.vmap(lambda x: x * 2)(cm.ones((1, 3))).tolist() == [[2.0] * 3]


def test_axis_size():
    assert cm.vmap(lambda x: x * 2, None, axis_size=3)(cm.ones(2)).shape == (3, 2)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: cm.vmap(3), TypeError, "vmap: wants a function"),
        (
            lambda: cm.vmap(cm.add)(cm.ones((2, 3)), cm.ones(3)),
            ValueError,
            "vmap: the batches differ in length: argument 0 of shape (2, 3): 2 along axis 0, "
            "argument 1 of shape (3,): 3 along axis 0",
        ),
        (
            lambda: cm.vmap(cm.add, (0, 2))(cm.ones((2, 3)), cm.ones((3, 2))),
            ValueError,
            "vmap: argument 1 of shape (3, 2) has no axis 2",
        ),
        (
            lambda: cm.vmap(cm.sin)(2.0),
            ValueError,
            "vmap: argument 0 of shape () has no axis 0",
        ),
        (lambda: cm.vmap(cm.sin, None)(cm.ones(2)), ValueError, "vmap: nothing is mapped"),
        (
            lambda: cm.vmap(cm.add, (0,))(cm.ones(2), cm.ones(2)),
            ValueError,
            "vmap: in_axes has 1 entries, but the function was called with 2 arguments",
        ),
        (
            lambda: cm.vmap(lambda x: x["a"], ({"b": 0},))({"a": cm.ones(2)}),
            ValueError,
            "vmap: in_axes ({'b': 0},) does not fit",
        ),
        (lambda: cm.vmap(cm.sin, "a")(cm.ones(2)), TypeError, "vmap: in_axes wants integers"),
        (
            lambda: cm.vmap(cm.sin, out_axes=None)(cm.ones(2)),
            ValueError,
            "vmap: out_axes is None for a result of shape () that differs",
        ),
        (
            lambda: cm.vmap(cm.sin, out_axes=2)(cm.ones((2, 3))),
            ValueError,
            "vmap: out_axes 2 is out of bounds for a result of shape (3,)",
        ),
        (
            lambda: cm.vmap(lambda x: "text")(cm.ones(2)),
            TypeError,
            "vmap: the function must return arrays, got str",
        ),
        (lambda: cm.vmap(cm.sin)("text"), TypeError, "vmap: argument 0 is mapped over axis 0"),
        (
            lambda: cm.vmap(cm.sin, axis_size=3)(cm.ones(2)),
            ValueError,
            "vmap: the batches differ in length: argument 0 of shape (2,): 2 along axis 0, "
            "axis_size: 3",
        ),
    ],
)
def test_errors_name_vmap_and_show_shapes(call: Any, kind: type, words: str):
    with pytest.raises(kind, match=re.escape(words)):
        call()


# -------------------- values, writes


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * float(x[0, 0]),
        lambda x: np.asarray(x),
        lambda x: x.tolist(),
        lambda x: x[x > 0],
        lambda x: cm.nonzero(x),
        lambda x: cm.unique(x),
    ],
)
def test_values_that_differ_are_not_read(fn: Any):
    with pytest.raises(TypeError, match="vmap: "):
        cm.vmap(fn)(array())


def test_values_that_all_calls_share_may_be_read():
    def fn(x: Any) -> Any:
        steps = cm.arange(3)
        return x * int(steps.sum()) if steps.max() > 1 else x

    np.testing.assert_allclose(cm.vmap(fn)(array()).to_numpy(), 3 * X)


def test_arrays_made_inside_take_values_that_differ():
    def fn(x: Any) -> Any:
        out = cm.zeros((2, 5))
        row = out[1]  # a view, made before its elements differ
        out[0] = x[0]
        row += x[1]
        row[:2] = 1
        out[:, 4] *= 2
        return out

    wanted = np.stack([X[:, 0], X[:, 1]], 1)
    wanted[:, 1, :2] = 1
    wanted[:, :, 4] *= 2
    np.testing.assert_allclose(cm.vmap(fn)(array()).to_numpy(), wanted)


def test_arguments_are_written_as_by_the_calls():
    x = array(X.copy())

    def fn(row: Any) -> Any:
        row[0] = row[1]
        row[2, 1:3] += 1
        return row.sum()

    cm.vmap(fn)(x)
    wanted = X.copy()
    wanted[:, 0] = wanted[:, 1]
    wanted[:, 2, 1:3] += 1
    np.testing.assert_allclose(x.to_numpy(), wanted)


def test_arrays_from_outside_take_no_values_that_differ():
    outside = cm.zeros(5)

    def fn(x: Any) -> Any:
        outside[...] = x[0]
        return x

    with pytest.raises(ValueError, match="setitem: vmap: values that differ from call to call"):
        cm.vmap(fn)(array())
    assert outside.tolist() == [0.0] * 5

    def adds(x: Any) -> Any:
        nonlocal outside
        outside += x[0]
        return x

    with pytest.raises(ValueError, match="add: vmap: values that differ"):
        cm.vmap(adds)(array())


def test_an_array_that_left_its_call_is_told():
    kept = []
    cm.vmap(lambda x: (kept.append(x), x)[1])(array())
    with pytest.raises(RuntimeError, match="vmap: an array .* has ended"):
        kept[0] + 1
    with pytest.raises(RuntimeError, match="vmap: an array .* has ended"):
        cm.vmap(lambda x: x + kept[0])(array())


def test_what_is_printed():
    shown = []
    cm.vmap(lambda x: (shown.append(repr(x)), shown.append(str(cm.zeros(2))), x)[2])(array())
    assert shown == [
        "<vmap: float64 of shape (3, 5), one of 4 calls>",
        "<vmap: float64 of shape (2,), shared by 4 calls>",
    ]


# -------------------- what it composes with


def test_nested_calls_over_different_axes():
    a, b = array(X[:, 0]), array(X[:2, 1])
    got = cm.vmap(lambda x: cm.vmap(lambda y: cm.outer(x, y))(b))(a)
    wanted = np.einsum("ai,bj->abij", X[:, 0], X[:2, 1])
    np.testing.assert_allclose(got.to_numpy(), wanted)
    inner_alone = cm.vmap(lambda x: cm.vmap(lambda y: y * 2)(b))(a)
    np.testing.assert_allclose(inner_alone.to_numpy(), np.stack([2 * X[:2, 1]] * 4))


def test_derivatives_of_all_kinds():
    def f(x: Any) -> Any:
        return cm.sin(x) * (x * x).sum()

    x = array(X[:, 0])
    for transformed in (
        cm.jacrev(f),
        cm.jacfwd(f),
        cm.hessian(lambda x: f(x).sum()),
        lambda x: cm.jvp(f, (x,), (cm.ones(5),))[1],
        lambda x: cm.vjp(f, x)[1](cm.ones(5))[0],
    ):
        got = cm.vmap(transformed)(x)
        wanted = np.stack([np.asarray(transformed(row)) for row in x])
        np.testing.assert_allclose(got.to_numpy(), wanted, rtol=1e-12)


def test_inside_and_outside_of_jit():
    def f(x: Any) -> Any:
        y = cm.zeros(5)
        y[1:] = cm.sort(x[0])[1:]
        return cm.exp(y) @ x.T

    wanted = cm.vmap(f)(array()).to_numpy()
    program = cm.jit(cm.vmap(f))
    for _ in range(3):
        np.testing.assert_allclose(program(array()).to_numpy(), wanted)
    assert not program(array()[:2]).shape[0] == 4


def test_draws_differ_from_call_to_call():
    rng = cm.random.default_rng(3)
    got = cm.vmap(lambda x: x * 0 + rng.normal(size=5))(array(X[:, 0]))
    wanted = cm.random.default_rng(3).normal(size=(4, 5))
    np.testing.assert_array_equal(got.to_numpy(), wanted.to_numpy())
    again = cm.vmap(lambda x: rng.random())(array(X[:, 0]))
    assert len(set(again.tolist())) == 4 and again.shape == (4,)


def test_dropout_differs_from_call_to_call():
    x = cm.ones((4, 100))
    y = cm.vmap(lambda a: cm.ml.dropout(a, 0.5, rng=cm.random.default_rng(1)))(x).to_numpy()
    assert len({row.tobytes() for row in y}) == 4


def test_gradients_of_each_sample_of_a_small_network():
    rng = np.random.default_rng(2)
    params = {
        "conv": cm.asarray(rng.normal(size=(4, 1, 3, 3)) * 0.5),
        "bias": cm.asarray(rng.normal(size=4)),
        "head": cm.asarray(rng.normal(size=(3, 4 * 3 * 3)) * 0.2),
    }
    images, labels = cm.asarray(rng.normal(size=(6, 1, 8, 8))), cm.asarray(rng.integers(0, 3, 6))

    def loss(p: Any, image: Any, label: Any) -> Any:
        h = cm.ml.relu(cm.ml.conv2d(image[None], p["conv"], p["bias"]))
        h = cm.ml.max_pool2d(h, 2).reshape(1, -1)
        return cm.ml.cross_entropy(cm.ml.linear(h, p["head"]), label[None])

    got = cm.vmap(cm.grad(loss), (None, 0, 0))(params, images, labels)
    each = [cm.grad(loss)(params, x, y) for x, y in zip(images, labels, strict=True)]
    for name, g in got.items():
        wanted = np.stack([e[name].to_numpy() for e in each])
        np.testing.assert_allclose(g.to_numpy(), wanted, rtol=1e-10, atol=1e-13)


def test_a_rule_of_ones_own_is_used_inside():
    @cm.custom_vjp
    def doubled(x: Any) -> Any:
        return x * 1.0

    doubled.defvjp(lambda x: (doubled(x), x), lambda x, g: (2 * g,))
    got = cm.vmap(cm.grad(lambda x: doubled(x).sum()))(array())
    np.testing.assert_array_equal(got.to_numpy(), np.full_like(X, 2))


def loop(fn: Any, x: cm.ndarray) -> Any:
    """The stack of the calls."""
    return cm.stack([cm.asarray(fn(row)) for row in x])


def assert_slopes_equal(fn: Any, x: cm.ndarray) -> None:
    """Values of `vmap(fn)`, and gradients inside, outside and both, beside the stack of calls."""
    np.testing.assert_allclose(cm.vmap(fn)(x).to_numpy(), loop(fn, x).to_numpy(), rtol=1e-12)

    def number(row: Any) -> Any:
        return cm.sin(fn(row)).sum()

    inner = cm.grad(number)
    np.testing.assert_allclose(cm.vmap(inner)(x).to_numpy(), loop(inner, x).to_numpy(), rtol=1e-12)
    for one in (number, lambda row: cm.cos(inner(row)).sum()):
        got = cm.grad(lambda x: cm.vmap(one)(x).sum())(x)
        wanted = cm.grad(lambda x: loop(one, x).sum())(x)
        np.testing.assert_allclose(got.to_numpy(), wanted.to_numpy(), rtol=1e-10, atol=1e-14)


def test_rules_of_ones_own_have_effect_at_all_levels():
    @cm.custom_vjp
    def cubed(x: Any, scale: Any) -> Any:
        return x**3 * scale

    def forward(x: Any, scale: Any) -> Any:
        return cubed(x, scale), (x, scale)

    cubed.defvjp(forward, lambda kept, g: (7 * kept[0] * g, None))

    @cm.custom_jvp
    def doubled(x: Any) -> Any:
        return 2 * x

    doubled.defjvp(lambda primals, tangents: (doubled(*primals), 5 * primals[0] * tangents[0]))
    x = array(X[:, 0])
    assert_slopes_equal(lambda x: cubed(x, 2.0), x)
    assert_slopes_equal(doubled, x)
    shared = array(X[0, 0])
    got = cm.grad(lambda s: cm.vmap(lambda x: cubed(s * 1.0, x[0]).sum())(x).sum())(shared)
    np.testing.assert_allclose(got.to_numpy(), 4 * 7 * X[0, 0])


def test_constants_at_all_levels():
    x = array(X[:, 0])
    assert_slopes_equal(lambda x: cm.stop_gradient(x) * x, x)
    got = cm.grad(lambda x: cm.vmap(lambda x: cm.stop_gradient(x) * x)(x).sum())(x)
    np.testing.assert_allclose(got.to_numpy(), X[:, 0])


def test_checkpointed_functions():
    assert_slopes_equal(cm.checkpoint(lambda x: cm.exp(x * x)), array(X[:, 0]))


def test_jitted_and_fused_functions_inside_and_outside():
    def f(x: Any) -> Any:
        return cm.exp(x) / (1 + cm.exp(x).sum())

    x = array(X[:, 0])
    wanted = loop(f, x).to_numpy()
    for fn in (cm.vmap(cm.jit(f)), cm.jit(cm.vmap(f)), cm.vmap(cm.fuse(f)), cm.fuse(cm.vmap(f))):
        np.testing.assert_allclose(fn(x).to_numpy(), wanted, rtol=1e-12)
        np.testing.assert_allclose(fn(x).to_numpy(), wanted, rtol=1e-12)
    assert_slopes_equal(cm.jit(f), x)
    assert_slopes_equal(cm.fuse(f), x)


CONTROL = {
    "scan": lambda x: cm.scan(lambda c, r: (c * r + 1, c.sum()), x, x[:3])[0],
    "scan of rows": lambda x: cm.scan(lambda c, r: (c + r, c * r), 0.0, x)[1],
    "scan backwards": lambda x: cm.scan(lambda c, r: (c * 0.5 + r, c), 1.0, x, reverse=True)[1],
    "cond": lambda x: cm.cond(x[0] > 0, cm.sin, lambda x: x * 2, x),
    "cond of all": lambda x: cm.cond(cm.asarray(True), cm.sin, lambda x: x * 2, x),
    "while_loop": lambda x: cm.while_loop(
        lambda c: (c * c).sum() < 40, lambda c: c * 1.5, x, max_steps=9
    ),
    "fori_loop": lambda x: cm.fori_loop(0, 3, lambda i, c: c * x + i, x),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name: str):
    fn, x = CONTROL[name], array(X[:, 0])
    assert_slopes_equal(fn, x)
    wanted = loop(fn, x).to_numpy()
    np.testing.assert_allclose(cm.jit(cm.vmap(fn))(x).to_numpy(), wanted, rtol=1e-12)
    two = array(X)
    nested = cm.vmap(cm.vmap(fn))
    wanted = np.stack([loop(fn, rows).to_numpy() for rows in two])
    np.testing.assert_allclose(nested(two).to_numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(cm.jit(nested)(two).to_numpy(), wanted, rtol=1e-12)
    slope = cm.jit(cm.grad(lambda x: cm.vmap(lambda r: cm.sin(fn(r)).sum())(x).sum()))
    wanted = cm.grad(lambda x: loop(lambda r: cm.sin(fn(r)).sum(), x).sum())(x)
    np.testing.assert_allclose(slope(x).to_numpy(), wanted.to_numpy(), rtol=1e-10)


def test_a_loop_without_a_bound_ends_with_its_last_call():
    fn = lambda x: cm.while_loop(lambda c: c < 100, lambda c: c * 3, x)  # noqa: E731
    x = array([1.0, 50.0, 200.0])
    for f in (cm.vmap(fn), cm.jit(cm.vmap(fn))):
        assert f(x).tolist() == [243.0, 150.0, 200.0]


def test_functions_of_the_users_kernels():
    squares = cm.elementwise(lambda x, y: x * x + y)
    x = array(X[:, 0])
    got = cm.vmap(lambda x: squares(x, x[0]))(x)
    np.testing.assert_allclose(got.to_numpy(), X[:, 0] ** 2 + X[:, 0, :1])
    largest = cm.reduction(lambda a, b: a if a > b else b, -np.inf)
    np.testing.assert_array_equal(cm.vmap(largest)(array()).to_numpy(), X.max(axis=(1, 2)))


def test_updates_of_shared_arrays():
    shared = cm.zeros((3, 5))
    rows, places = array(X[:, 0]), array([0, 2, 1, 0])

    def fn(row: Any, place: Any) -> Any:
        return shared.at[place].set(row) + shared.at[1:].add(row)

    wanted = np.zeros((4, 3, 5))
    wanted[np.arange(4), [0, 2, 1, 0]] = X[:, 0]
    wanted[:, 1:] += X[:, None, 0]
    np.testing.assert_allclose(cm.vmap(fn)(rows, places).to_numpy(), wanted)


@pytest.mark.parametrize(
    ("update", "init", "options"),
    [
        (cm.ml.adam_update, cm.ml.adam_init, {}),
        (cm.ml.adamw_update, cm.ml.adam_init, {"weight_decay": 0.1}),
        (cm.ml.sgd_update, None, {}),
        (cm.ml.sgd_update, cm.ml.sgd_init, {"momentum": 0.9, "nesterov": True}),
        (cm.ml.rmsprop_update, None, {"weight_decay": 0.1}),
        (cm.ml.lion_update, None, {"weight_decay": 0.1}),
    ],
)
def test_optimizers_whose_rate_and_steps_differ(update: Any, init: Any, options: Any):
    """As the steps of an ensemble, each with its rate."""
    rates, g = array([0.1, 0.2, 0.05, 0.3]), array(X[::-1].copy())

    def steps(p: Any, g: Any, rate: Any) -> Any:
        params = {"p": p + cm.zeros(p.shape)}
        state = init(params) if init else None
        for _ in range(2):
            params, state = update(params, {"p": g}, state, lr=rate, **options)
        return params["p"]

    got = cm.vmap(steps)(array(), g, rates)
    each = [steps(array(p), array(q), array(r)) for p, q, r in zip(X, X[::-1], rates, strict=True)]
    np.testing.assert_allclose(got.to_numpy(), cm.stack(each).to_numpy(), rtol=1e-12)
    if init is cm.ml.adam_init:  # the states outside, with a count of steps each
        params = {"p": array(X.copy())}
        state = cm.vmap(init)(params)
        assert state["step"].shape == (4,)
        one = cm.vmap(lambda p, g, s: update(p, g, s, lr=0.1, **options))
        for _ in range(2):
            params, state = one(params, {"p": g}, state)
        each = [steps(array(p), array(q), 0.1) for p, q in zip(X, X[::-1], strict=True)]
        np.testing.assert_allclose(params["p"].to_numpy(), cm.stack(each).to_numpy(), rtol=1e-12)


def test_rules_are_imported_at_the_first_use():
    code = """
import sys
import cudamath as cm
rules = {"cudamath.batching.layers", "cudamath.batching.table"}
assert not rules & {*sys.modules}
cm.vmap(lambda x: x)(cm.ones(2))
assert rules <= {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("float32", "float32")])
@pytest.mark.parametrize("weighted", [True, False])
def test_gradients_of_the_bias_of_group_norm_have_its_dtype(dtypes, weighted):
    """They are the sums of what comes back; parameters of 16-bit numbers may be of float32."""
    if not weighted and dtypes[0] != dtypes[1]:
        dtypes = ("float16", "float16")
    x = array(RNG.normal(size=(3, 2, 4, 5))).astype(dtypes[0])
    w, b = (array(RNG.normal(size=(3, 4))).astype(dtypes[1]) for _ in range(2))
    back = RNG.integers(-3, 4, (2, 4, 5))

    def loss(x, w, b):
        y = cm.ml.group_norm(x, 2, w if weighted else None, b)
        return (y * cm.asarray(back, dtype=dtypes[0])).sum()

    db = cm.vmap(cm.grad(loss, 2))(x, w, b)
    assert db.dtype == dtypes[1]
    np.testing.assert_array_equal(db.to_numpy(), np.broadcast_to(back.sum((0, 2)), (3, 4)))
