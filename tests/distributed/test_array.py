"""Arrays that are divided among processes: the values and gradients of NumPy's and of one
process's, in every layout, also where an axis cannot be divided equally."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from processes import each

import cudamath as cm
from cudamath import distributed

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)

#: Of two axes, over the lines (rows, columns) of a mesh.
LAYOUTS = [("-", "-"), ("r", "-"), ("-", "r"), ("r", "c"), ("c", "r"), ("c", "-")]


def together(device, fn, count=4):
    """What fn(rank, lines) gives in each of four threads; lines: name -> line of a mesh."""

    def one(rank):
        with cm.device(device):
            shape = (2, count // 2) if count > 1 else (1, 1)
            rows, columns = distributed.mesh(*shape)
            return fn(rank, {"r": rows, "c": columns, "-": None})

    found = each(count, one)
    for problem in found:
        if isinstance(problem, Exception):
            raise problem
    return found


def layout_of(lines, names):
    return tuple([lines[name] for name in names])


@pytest.mark.parametrize("shape", [(8, 4), (5, 3), (1, 7), (3, 0)])
def test_every_layout_becomes_every_other(device, shape):
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)

    def one(rank, lines):
        for before, after in itertools.product(LAYOUTS, repeat=2):
            a = distributed.shard(x, layout_of(lines, before))
            b = a.reshard(layout_of(lines, after))
            assert (b.shape, b.ndim, b.size, b.dtype, len(b)) == (
                *(shape, 2, x.size, x.dtype, shape[0]),
            )
            np.testing.assert_array_equal(b.to_numpy(), x, err_msg=f"{before} {after}")
            own = distributed.shard(cm.asarray(x), layout_of(lines, after)).to_local()
            np.testing.assert_array_equal(b.to_local().to_numpy(), own.to_numpy())
            c = distributed.from_piece(b.to_local(), b.layout)
            assert c.shape == shape
            np.testing.assert_array_equal(c.T.to_numpy(), x.T)

    together(device, one)


@pytest.mark.parametrize("names", LAYOUTS, ids="".join)
def test_elementwise(device, names):
    rng = np.random.default_rng(0)
    x, y, row, column = (rng.normal(size=n) for n in ((5, 6), (5, 6), 6, (5, 1)))

    def one(rank, lines):
        a = distributed.shard(x, layout_of(lines, names))
        b = distributed.shard(y, (None, None))
        whole = cm.asarray(row)
        pairs = [
            (a + b, x + y),
            (b - a, y - x),
            (2 * a, 2 * x),
            (a * column, x * column),
            (whole * a, row * x),
            (a / cm.asarray(column), x / column),
            (-(abs(a) ** 2), -(np.abs(x) ** 2)),
            (2.0**a, 2.0**x),
            (1.0 - a, 1.0 - x),
            (a > b, x > y),
            ((a > 0) & (b > 0), (x > 0) & (y > 0)),
            (cm.exp(a), np.exp(x)),
            (np.hypot(a, b), np.hypot(x, y)),
            (cm.maximum(0.5, a), np.maximum(0.5, x)),
            (distributed.apply(cm.where, a > 0, a, row), np.where(x > 0, x, row)),
            (a.astype("float32"), x.astype("float32")),
        ]
        for i, (found, expected) in enumerate(pairs):
            assert found.layout == a.layout and found.dtype == expected.dtype, i
            np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-6, err_msg=str(i))

    together(device, one)


@pytest.mark.parametrize("names", LAYOUTS, ids="".join)
@pytest.mark.parametrize("shape", [(8, 4), (5, 3), (1, 2)])
def test_reductions(device, names, shape):
    x = np.random.default_rng(0).normal(size=shape)

    def one(rank, lines):
        a = distributed.shard(x, layout_of(lines, names))
        for name, axis, keepdims in itertools.product(
            ("sum", "mean", "max", "min"), (None, 0, 1, -1, (0, 1)), (False, True)
        ):
            found = getattr(a, name)(axis, keepdims=keepdims)
            expected = getattr(x, name)(axis=axis, keepdims=keepdims)
            assert isinstance(found, distributed.Array) is bool(expected.ndim)
            whole = found.to_numpy() if expected.ndim else np.asarray(found)
            assert whole.shape == expected.shape
            np.testing.assert_allclose(whole, expected, rtol=1e-12, atol=1e-14)
        i = distributed.shard(np.arange(6), (lines["r"],))
        assert int(i.max()) == 5 and int(i.min()) == 0 and int(i.sum()) == 15

    together(device, one)


def goes_together(first, second):
    """Whether a product of these layouts is defined."""
    inner = first[1] if first[1] != "-" else second[0]
    lines = [name for name in (first[0], inner, second[1]) if name != "-"]
    return second[0] in ("-", inner) and len(set(lines)) == len(lines)


def test_products(device):
    rng = np.random.default_rng(0)
    x, y, v = rng.normal(size=(5, 6)), rng.normal(size=(6, 7)), rng.normal(size=6)

    def one(rank, lines):
        count = 0
        for first, second in itertools.product(LAYOUTS, repeat=2):
            a = distributed.shard(x, layout_of(lines, first))
            b = distributed.shard(y, layout_of(lines, second))
            if not goes_together(first, second):
                with pytest.raises(ValueError, match="matmul: divided in ways that do not go toge"):
                    a @ b
                continue
            count += 1
            np.testing.assert_allclose((a @ b).to_numpy(), x @ y, rtol=1e-12)
            np.testing.assert_allclose((a @ cm.asarray(v)).to_numpy(), x @ v, rtol=1e-12)
            np.testing.assert_allclose((cm.asarray(v) @ b).to_numpy(), v @ y, rtol=1e-12)
        line = distributed.shard(v, (lines["c"],))
        assert float(line @ line) == pytest.approx(v @ v)
        assert count > 15

    together(device, one)


@pytest.mark.parametrize("names", LAYOUTS, ids="".join)
def test_gradients(device, names):
    """Those of one process: with respect to divided and to whole arrays, in all processes."""
    rng = np.random.default_rng(0)
    x, w, b, m = (rng.normal(size=n) for n in ((5, 6), (6, 3), 3, (5, 1)))

    def loss(p, x, reshard=lambda y, how: y):
        y = cm.tanh(x @ p["w"] + p["b"])
        z = reshard(y, "whole") * p["m"]
        z = reshard(z, "turned")
        total = (z * z).sum(0) * 0.5
        return total.mean() + (z.max(0) * z.min(axis=1).max()).sum() + cm.exp(-y).mean()

    with cm.device(device):
        params = {"w": cm.asarray(w), "b": cm.asarray(b), "m": cm.asarray(m)}
        expected, (wanted, of_x) = cm.value_and_grad(loss, argnums=(0, 1))(params, cm.asarray(x))

    def one(rank, lines):
        def reshard(y, how):
            if how == "whole":
                return y.reshard((None, None)) if isinstance(y, distributed.Array) else y
            if not isinstance(y, distributed.Array):
                return y
            return y.reshard((lines["c"], lines["r"]))

        params = {"w": cm.asarray(w), "b": cm.asarray(b), "m": cm.asarray(m)}
        if names[1] == "-":
            params["w"] = distributed.shard(
                params["w"], (None, lines["r" if names[0] == "c" else "c"])
            )
        a = distributed.shard(cm.asarray(x), layout_of(lines, names))
        value, (grads, g) = cm.value_and_grad(loss, argnums=(0, 1))(params, a, reshard)
        assert g.layout == a.layout and g.to_local().shape == a.to_local().shape
        numbers = {k: y.to_numpy() for k, y in grads.items()}
        return float(value), numbers, g.to_numpy()

    for value, grads, g in together(device, one):
        assert value == pytest.approx(float(expected), rel=1e-12)
        np.testing.assert_allclose(g, of_x.to_numpy(), rtol=1e-10, atol=1e-13)
        for name, y in grads.items():
            np.testing.assert_allclose(
                y, wanted[name].to_numpy(), rtol=1e-10, atol=1e-13, err_msg=name
            )


def test_gradients_of_gradients(device):
    x = np.random.default_rng(0).normal(size=(5, 4))

    def penalty(x):
        return (cm.grad(lambda x: ((x @ x.T) ** 2).sum())(x) ** 2).sum()

    with cm.device(device):
        expected = cm.grad(penalty)(cm.asarray(x)).to_numpy()

    def one(rank, lines):
        a = distributed.shard(cm.asarray(x), (None, lines["r"]))
        return cm.grad(penalty)(a).to_numpy()

    for found in together(device, one):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_an_optimizer_takes_divided_arrays(device):
    rng = np.random.default_rng(0)
    w, x, y = rng.normal(size=(6, 4)), rng.normal(size=(8, 6)), rng.normal(size=(8, 4))

    def loss(p, x, y):
        return ((x @ p["w"] - y) ** 2).mean()

    def train(p, x, y):
        state, values = cm.ml.adam_init(p), []
        for _ in range(4):
            value, grads = cm.value_and_grad(loss)(p, x, y)
            cm.ml.adamw_update(p, grads, state, lr=1e-2)
            values.append(float(value))
        return values

    with cm.device(device):
        expected = train({"w": cm.array(w)}, cm.asarray(x), cm.asarray(y))

    def one(rank, lines):
        p = {"w": distributed.shard(cm.array(w), (None, lines["c"]))}
        return train(p, distributed.shard(x, (lines["r"], None)), cm.asarray(y))

    for values in together(device, one):
        np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_who_has_the_largest_shares_its_gradient(device):
    def one(rank, lines):
        a = distributed.shard(cm.asarray([3.0, 1.0, 3.0]), (lines["r"],))
        return cm.grad(lambda a: a.max())(a).to_numpy()

    for g in together(device, one):
        np.testing.assert_array_equal(g, [0.5, 0, 0.5])


def test_nan_is_the_largest(device):
    def one(rank, lines):
        a = distributed.shard(np.array([1.0, np.nan, 3.0, 2.0]), (lines["r"],))
        return float(a.max()), float(a.min())

    assert np.isnan(together(device, one)).all()


def test_a_process_alone(device):
    x = np.arange(6.0).reshape(2, 3)

    def one(rank, lines):
        a = distributed.shard(x, (lines["r"], lines["c"]))
        return (
            (a @ a.reshard((None, None)).T).to_numpy(),
            float(a.sum()),
            a.reshard((lines["c"], None)).to_numpy(),
        )

    ((product, total, again),) = together(device, one, count=1)
    np.testing.assert_array_equal(product, x @ x.T)
    assert total == 15
    np.testing.assert_array_equal(again, x)


def test_wrong_use():
    def one(rank, lines):
        r, c = lines["r"], lines["c"]
        x = distributed.shard(np.ones((4, 4)), (r, None))
        cases = [
            (lambda: distributed.shard(np.ones(3), (r, None)), ValueError, "wants a layout of 1"),
            (lambda: distributed.shard(np.ones((3, 3)), (r, r)), ValueError, "two axes along one"),
            (lambda: distributed.shard(np.ones(3), ("r",)), TypeError, "a line of a mesh, or None"),
            (lambda: x + x.T, ValueError, r"add: would divide two axes .*reshard"),
            (lambda: x + x.reshard((c, None)), ValueError, "add: divided in different ways"),
            (lambda: x + distributed.shard(np.ones((4, 4)), (None, r)), ValueError, "two axes"),
            (lambda: x + np.ones(3), ValueError, r"add: shapes \(4, 4\), \(3,\) do not broadcast"),
            (lambda: distributed.apply(cm.sum, x), ValueError, "sum: an elementwise function"),
            (lambda: x @ np.ones((3, 2)), ValueError, r"matmul: .*shapes \(4, 4\) and \(3, 2\)"),
            (lambda: np.asarray(x), TypeError, "x.to_numpy"),
            (lambda: np.add.reduce(x), TypeError, "add"),
            (lambda: x.sum(axis=2), ValueError, "sum: axis 2"),
        ]
        for call, kind, words in cases:
            with pytest.raises(kind, match=words):
                call()
        assert "axis 0 over 2; here (2, 4)" in repr(x)
        with pytest.raises(TypeError, match="unhashable"):
            hash(x)
        lengths = 2 - (rank > 1)  # of pieces along the rows
        return distributed.from_piece(np.ones(lengths + 2 * (rank > 1)), (r,))

    with pytest.raises(ValueError, match=r"from_piece: wants pieces of \[3, 2\] .*got \[2, 3\]"):
        together("cpu", one)


def test_extremes_of_nothing_are_refused():
    def one(rank, lines):
        distributed.shard(np.ones((3, 0)), (lines["r"], None)).max(1)

    with pytest.raises(ValueError, match=r"max: no elements along axes \(1,\) of shape \(3, 0\)"):
        together("cpu", one)
