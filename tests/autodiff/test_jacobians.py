"""Jacobians, Hessians, linearize, custom_jvp and trees: beside central differences, formulas and
each other."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm

WAYS = pytest.mark.parametrize("way", ["jacrev", "jacfwd", "jacobian"])


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(0.5, 2, shape)


def differences(fn, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The Jacobian by central differences, y.shape + x.shape."""
    columns = []
    for i in range(x.size):
        moved = np.zeros(x.size)
        moved[i] = step
        moved = moved.reshape(x.shape)
        columns.append((fn(x + moved) - fn(x - moved)) / (2 * step))
    y = columns[0].shape
    return np.stack(columns, -1).reshape((*y, *x.shape))


@WAYS
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_jacobian_is_that_of_differences(way, shape, device):
    a = numbers(4, *shape)

    def fn(xp, x):
        return xp.tanh(x * a).sum(axis=0) * x.sum() + x**3

    x = numbers(*shape)
    ours = getattr(cm, way)(lambda x: fn(cm, x))
    a, host = cm.asarray(a), a
    result = np.asarray(ours(cm.asarray(x)))
    a = host
    np.testing.assert_allclose(result, differences(lambda x: fn(np, x), x), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_hessian_is_that_of_differences(shape, device):
    x = numbers(*shape)

    def slope(x):
        return 2 * x * np.sum(np.sin(x)) + np.sum(x**2) * np.cos(x)

    hessian = cm.hessian(lambda x: (x**2).sum() * cm.sin(x).sum())(cm.asarray(x))
    np.testing.assert_allclose(np.asarray(hessian), differences(slope, x), rtol=1e-6, atol=1e-8)


@WAYS
def test_trees_and_several_arguments(way):
    w, b = cm.asarray(numbers(3)), cm.asarray(2.0, dtype="float64")

    def fn(p, scale, kind):
        assert kind == "linear"
        return {"y": p["w"] * p["b"] * scale, "n": (p["w"].sum(),)}

    jacobian = getattr(cm, way)(fn, (0, 1))({"w": w, "b": b}, b, kind="linear")
    first, second = jacobian["y"]
    np.testing.assert_allclose(first["w"].to_numpy(), np.eye(3) * 4)
    np.testing.assert_allclose(first["b"].to_numpy(), w.to_numpy() * 2)
    np.testing.assert_allclose(second.to_numpy(), w.to_numpy() * 2)
    assert jacobian["n"][0][0]["w"].tolist() == [1, 1, 1]
    assert float(jacobian["n"][0][1]) == 0
    alone = getattr(cm, way)(fn, -1)({"w": w, "b": b}, b, **{"kind": "linear"})
    np.testing.assert_allclose(alone["y"].to_numpy(), w.to_numpy() * 2)


@WAYS
def test_aux_and_empty_arrays(way):
    jacobian, aux = getattr(cm, way)(lambda x: (x * 2, "aside"), has_aux=True)(cm.ones(2))
    assert jacobian.tolist() == [[2, 0], [0, 2]] and aux == "aside"
    empty = getattr(cm, way)(lambda x: x[:0])(cm.ones(2))
    assert empty.shape == (0, 2) and empty.dtype == cm.ones(2).dtype
    assert getattr(cm, way)(lambda x: x.sum() * cm.ones(3, dtype=x.dtype))(cm.ones(0)).shape == (
        3,
        0,
    )


def test_blocks_of_hessian():
    x, y = cm.asarray(numbers(2)), cm.asarray(numbers(3))
    blocks = cm.hessian(lambda x, y: (x**2).sum() * (y**3).sum(), (0, 1))(x, y)
    a, b = x.to_numpy(), y.to_numpy()
    np.testing.assert_allclose(blocks[0][0].to_numpy(), 2 * np.eye(2) * np.sum(b**3))
    np.testing.assert_allclose(blocks[0][1].to_numpy(), np.outer(2 * a, 3 * b**2))
    np.testing.assert_allclose(blocks[1][0].to_numpy(), np.outer(3 * b**2, 2 * a))
    np.testing.assert_allclose(blocks[1][1].to_numpy(), np.diag(6 * b) * np.sum(a**2))
    hessian, aux = cm.hessian(lambda x: ((x**3).sum(), 7), has_aux=True)(x)
    np.testing.assert_allclose(hessian.to_numpy(), np.diag(6 * a))
    assert aux == 7


def test_they_compose():
    x = cm.asarray(numbers(3))
    third = cm.jacfwd(cm.hessian(lambda x: (x**4).sum()))(x)
    diagonal = np.einsum("iii->i", third.to_numpy())
    np.testing.assert_allclose(diagonal, 24 * x.to_numpy())
    through = cm.grad(lambda x: cm.hessian(lambda x: (x**3).sum())(x).sum())(x)
    np.testing.assert_allclose(through.to_numpy(), np.full(3, 6.0))


def test_dtypes():
    for dtype in ("float32", "float16", "bfloat16"):
        assert cm.jacrev(lambda x: x * x)(cm.ones(2, dtype=dtype)).dtype == dtype
        assert cm.hessian(lambda x: (x * x).sum())(cm.ones(2, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("way", ["jacrev", "jacfwd", "jacobian", "hessian"])
def test_errors_name_the_function(way):
    transform = getattr(cm, way)
    named = rf"^({way}|jacfwd): "  # a Hessian is the Jacobian of a gradient
    with pytest.raises(TypeError, match=rf"^{way}: "):
        transform(3)
    with pytest.raises(TypeError, match=named + "wants real floating-point arrays, an argument is"):
        transform(lambda x: x)(cm.ones(2, dtype="int32"))
    with pytest.raises(TypeError, match=named + "wants real floating-point arrays, a result is"):
        transform(lambda x: x > 0)(cm.ones(2))
    with pytest.raises(ValueError, match=named + "argnums 1 but"):
        transform(lambda x: x, 1)(cm.ones(2))
    with pytest.raises(ValueError, match=named + r"argnums \(0, -1\) name"):
        transform(lambda x: x, (0, -1))(cm.ones(2))
    with pytest.raises(TypeError, match="with has_aux the function must return a pair"):
        transform(lambda x: x, has_aux=True)(cm.ones(2))


def test_linearize(device):
    x, n = cm.asarray(numbers(3)), 3
    calls = []

    def fn(x, n):
        calls.append(1)
        return {"y": x**n, "sign": x > 0}

    y, push = cm.linearize(fn, x, n)
    for seed in range(3):
        v = cm.asarray(np.random.default_rng(seed).normal(size=3))
        value, derivative = cm.jvp(fn, (x, n), (v, None))
        assert push(v, None)["y"].tolist() == derivative["y"].tolist()
        assert push(v, None)["sign"] is None and value["y"].tolist() == y["y"].tolist()
    assert len(calls) == 4
    with pytest.raises(TypeError, match="^linearize: wants 2 tangents, one a primal, got 1"):
        push(x)
    with pytest.raises(ValueError, match="^linearize: the tangent must be float64"):
        push(x[:2], None)
    with pytest.raises(TypeError, match="^linearize: wants None as the tangent of a constant"):
        push(x, x)
    with pytest.raises(TypeError, match="^linearize: "):
        cm.linearize(3, x)


def rule_of_product() -> cm.custom_jvp:
    @cm.custom_jvp
    def product(x, y):
        return {"exp": cm.exp(x["a"]) * y, "sum": x["a"].sum()}

    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        out = product(x, y)
        slope = out["exp"] * dx["a"]
        if dy is not None:
            slope = slope + cm.exp(x["a"]) * dy
        return out, {"exp": slope, "sum": dx["a"].sum()}

    product.defjvp(rule)
    return product


def test_custom_jvp(device):
    """Gradients of first and second order, and derivatives, are those without a rule."""
    product = rule_of_product()
    x, v = cm.asarray(numbers(3)), cm.asarray(numbers(3)[::-1].copy())

    def ruled(x, y):
        out = product({"a": x}, y)
        return (out["exp"] ** 2).sum() + out["sum"]

    def plain(x, y):
        return ((cm.exp(x) * y) ** 2).sum() + x.sum()

    for ours, truth in (
        (cm.grad(ruled, (0, 1))(x, v), cm.grad(plain, (0, 1))(x, v)),
        (cm.grad(ruled)(x, 2.0), cm.grad(plain)(x, 2.0)),
        (cm.hessian(ruled, (0, 1))(x, v), cm.hessian(plain, (0, 1))(x, v)),
        (cm.jvp(ruled, (x, v), (v, x)), cm.jvp(plain, (x, v), (v, x))),
    ):
        for a, b in zip(cm.tree.leaves(ours), cm.tree.leaves(truth), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12)


def test_rule_is_used():
    @cm.custom_jvp
    def thrice(x):
        return x * 3

    thrice.defjvp(lambda p, t: (thrice(*p), t[0] * 5))
    assert cm.grad(thrice)(1.0).item() == 5 and float(thrice(cm.ones(()))) == 3
    assert thrice.__name__ == "thrice"


def test_errors_of_custom_jvp():
    @cm.custom_jvp
    def twice(x):
        return x * 2

    slope = cm.grad(lambda x: twice(x).sum())
    assert twice(cm.ones(2)).tolist() == [2, 2]
    with pytest.raises(TypeError, match="custom_jvp: twice has no rule of its derivative"):
        slope(cm.ones(2))
    twice.defjvp(lambda p, t: t[0])
    with pytest.raises(TypeError, match="^custom_jvp: twice: the rule must return a pair"):
        slope(cm.ones(2))
    twice.defjvp(lambda p, t: (p[0], {"y": t[0]}))
    with pytest.raises(TypeError, match="^custom_jvp: twice must return arrays, got dict"):
        slope(cm.ones(2))
    product = rule_of_product()
    product.defjvp(lambda p, t: (p[1], [t[1]]))
    with pytest.raises(ValueError, match="^custom_jvp: product: the derivative has structure"):
        cm.grad(lambda x: product({"a": x}, x)["sum"])(cm.ones(2))
    twice.defjvp(lambda p, t: (p[0], t[0][:1]))
    with pytest.raises(ValueError, match="^custom_jvp: twice: the derivative must be float"):
        slope(cm.ones(2))
    with pytest.raises(TypeError, match="^custom_jvp: "):
        cm.custom_jvp(3)
    with pytest.raises(TypeError, match="^custom_jvp: "):
        twice.defjvp(3)

    def outer(x):
        @cm.custom_jvp
        def inner(y):
            return x * y

        inner.defjvp(lambda p, t: (inner(*p), t[0]))
        return inner(x).sum()

    with pytest.raises(TypeError, match="^custom_jvp: inner closes over"):
        cm.grad(outer)(cm.ones(2))


def test_tree():
    tree = {"b": [1, 2], "a": (3, None)}
    leaves, structure = cm.tree.flatten(tree)
    assert leaves == cm.tree.leaves(tree) == [3, 1, 2]
    assert structure == cm.tree.structure(tree) and cm.tree.unflatten(structure, leaves) == tree
    assert cm.tree.map(lambda x, y: x + y, tree, tree) == {"b": [2, 4], "a": (6, None)}
    assert cm.tree.reduce(lambda a, b: a + b, tree) == 6
    assert cm.tree.reduce(lambda a, b: a + b, (), 1) == 1
    with pytest.raises(ValueError, match="^tree.map: a tree has structure"):
        cm.tree.map(lambda x, y: x, tree, [1])
    with pytest.raises(ValueError, match="^tree.unflatten: .* has 3 leaves, got 1"):
        cm.tree.unflatten(structure, [1])
    with pytest.raises(TypeError, match="^tree.unflatten: "):
        cm.tree.unflatten(3, [1])
    with pytest.raises(TypeError, match="^tree.reduce: "):
        cm.tree.reduce(lambda a, b: a, ())
    for wrong in (lambda: cm.tree.map(3, tree), lambda: cm.tree.reduce(3, tree)):
        with pytest.raises(TypeError, match="^tree.(map|reduce): "):
            wrong()
    deep: list = []
    deep.append(deep)
    for function in (cm.tree.leaves, cm.tree.structure, cm.tree.flatten):
        with pytest.raises(ValueError, match=rf"^tree.{function.__name__}: "):
            function(deep)
