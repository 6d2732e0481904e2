"""`cm.scan`, `cm.cond`, `cm.while_loop`, `cm.fori_loop`: values and gradients against NumPy's loops
in float64, called as they are and inside of `cm.jit`, and what they refuse."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

import cudamath as cm
from cudamath.programs.memory_plan import memory_plan

MODES = {"eager": lambda f: f, "jit": cm.jit}


@pytest.fixture(autouse=True)
def cpu():
    with cm.device("cpu"):
        yield


@pytest.fixture(params=MODES)
def mode(request):
    return MODES[request.param]


def arrays(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def close(a, b, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), tolerance, tolerance)


def slopes(f, args, i, step=1e-6):
    """Central differences of a function of NumPy arrays to a number, with respect to argument i."""
    out = np.zeros_like(args[i])
    for k in np.ndindex(out.shape):
        high, low = ([a.copy() for a in args] for _ in range(2))
        high[i][k] += step
        low[i][k] -= step
        out[k] = (f(*high) - f(*low)) / (2 * step)
    return out


# -------------------- scan


def reference(w, c, xs, reverse=False):
    ys = [None] * len(xs)
    for i in reversed(range(len(xs))) if reverse else range(len(xs)):
        c = np.tanh(c @ w + xs[i])
        ys[i] = (c * c).sum()
    return c, np.array(ys)


def number(w, c, xs, reverse=False):
    c, ys = reference(w, c, xs, reverse)
    return c.sum() + (ys * np.arange(1.0, 6)).sum()


def scanned(w, c, xs, reverse=False):
    def step(c, x):
        c = cm.tanh(c @ w + x)
        return c, (c * c).sum()

    return cm.scan(step, c, xs, reverse=reverse)


def loss(w, c, xs, reverse=False):
    c, ys = scanned(w, c, xs, reverse)
    return c.sum() + (ys * cm.arange(1.0, 6)).sum()


SHAPES = (3, 3), (3,), (5, 3)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_the_loop(mode, reverse):
    f = mode(lambda *args: scanned(*args, reverse))
    for seed in range(3):
        data = arrays(*SHAPES, seed=seed)
        for got, truth in zip(
            f(*map(cm.array, data)), reference(*data, reverse=reverse), strict=True
        ):
            close(got, truth, 1e-14)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_scan(mode, reverse):
    f = mode(lambda *args: cm.value_and_grad(lambda *a: loss(*a, reverse), (0, 1, 2))(*args))
    for seed in range(3):
        data = arrays(*SHAPES, seed=seed)
        value, gradients = f(*map(cm.array, data))
        close(value, number(*data, reverse=reverse), 1e-13)
        for i, g in enumerate(gradients):
            close(g, slopes(lambda *a: number(*a, reverse=reverse), data, i), 1e-7)


def test_second_derivatives_of_scan(mode):
    def steepness(w, c, xs):
        return sum([(g**2).sum() for g in cm.grad(loss, (0, 1, 2))(w, c, xs)])

    f = mode(lambda *args: cm.grad(steepness, (0, 1, 2))(*args))
    data = [0.5 * a for a in arrays(*SHAPES)]

    def truth(*args):
        return sum([(slopes(number, list(args), i, 1e-5) ** 2).sum() for i in range(3)])

    for _ in range(2):
        for i, g in enumerate(f(*map(cm.array, data))):
            close(g, slopes(truth, data, i, 1e-4), 2e-5)


def test_directional_derivatives_of_scan(mode):
    data, directions = arrays(*SHAPES), arrays(*SHAPES, seed=1)
    f = mode(lambda xs, vs: cm.jvp(loss, tuple(xs), tuple(vs)))
    for _ in range(2):
        value, slope = f(list(map(cm.array, data)), list(map(cm.array, directions)))
        close(value, number(*data), 1e-13)
        close(
            slope,
            sum([(slopes(number, data, i) * directions[i]).sum() for i in range(3)]),
            1e-7,
        )


def test_a_scan_is_one_node_whatever_its_length(capsys):
    def f(c, xs):
        def step(c, x):
            print("step")
            return c * 0.9 + x, c

        return cm.value_and_grad(lambda c: cm.scan(step, c, xs)[1].sum())(c)

    for length in (4, 400):
        jitted = cm.jit(f)
        data = [cm.array(a) for a in arrays((3,), (length, 3))]
        for a, b in zip(jitted(*data), jitted(*data), strict=True):
            close(a, b)
        (program,) = jitted.programs()
        assert [node.name for node in program.nodes].count("scan") == 2
        assert len(program.nodes) < 8 and capsys.readouterr().out.count("step") <= 3


def test_trees_numbers_and_nothing(mode):
    def f(xs, n):
        def step(c, x):
            c = {"n": c["n"] + 1, "s": c["s"] + x["a"].sum() + x["b"]}
            return c, (c["n"], None, [x["a"] * c["s"]])

        return cm.scan(step, {"n": 0, "s": n}, xs)

    a, b = arrays((4, 2), (4,))
    f = mode(f)
    for _ in range(2):
        carry, (counts, nothing, (products,)) = f({"a": cm.array(a), "b": cm.array(b)}, 0.5)
        sums = 0.5 + np.cumsum(a.sum(1) + b)
        assert carry["n"] == 4 and carry["n"].dtype == np.int64 and nothing is None
        assert counts.tolist() == [1, 2, 3, 4]
        close(carry["s"], sums[-1])
        close(products, a * sums[:, None])


def test_length_alone_and_the_carry_itself(mode):
    f = mode(lambda x: cm.scan(lambda c, _: (c, c + 1), x, length=3))
    for value in (2.0, 5.0):
        carry, ys = f(cm.full(2, value))
        assert carry.tolist() == [value] * 2 and ys.tolist() == [[value + 1] * 2] * 3


def test_integers_beside_differentiated_arrays(mode):
    def total(x, table):
        c, ys = cm.scan(lambda c, i: (c * table[i], i + 1), x, cm.array([2, 0, 1]))
        return c.sum() + 0 * ys.sum()

    f = mode(lambda x, table: cm.value_and_grad(total, (0, 1))(x, table))

    for _ in range(2):
        value, (gx, gt) = f(cm.array([1.0, 2.0]), cm.array([2.0, 3.0, 5.0]))
        assert float(value) == 90 and gx.tolist() == [30, 30] and gt.tolist() == [45, 30, 18]


def test_what_a_step_closes_over_is_read_at_each_call():
    w, table = cm.ones(2), cm.array([1.0, 2.0, 3.0])
    f = cm.jit(lambda x: cm.scan(lambda c, t: (c * w + t, c), x, table)[0])
    for k in range(1, 5):
        w[...] = k
        table[...] = 1
        assert f(cm.ones(2)).tolist() == [k**3 + k**2 + k + 1.0] * 2
    assert f.traces == 1


def test_a_step_that_closes_over_the_rows_themselves(mode):
    """The step reads all rows, and one of them is its own."""

    def total(x):
        def step(c, row):
            return c + ((x - row) ** 2).sum(), (x[0] - row).sum()

        return cm.scan(step, 0.0, x)[0]

    f = mode(lambda x: cm.value_and_grad(total)(x))
    (x,) = arrays((4, 3))
    differences = x[:, None] - x[None]
    for _ in range(2):
        value, g = f(cm.array(x))
        close(value, (differences**2).sum())
        close(g, 4 * differences.sum(1))


def test_scans_within_scans_and_gradients_within(mode):
    def f(x, ys):
        def outer(c, row):
            slope = cm.grad(lambda c: cm.scan(lambda d, y: (cm.sin(d) * y, d), c, row)[0].sum())(c)
            return c - 0.1 * slope, slope

        return cm.scan(outer, x, ys)

    def truth(x, ys):
        slopes_ = []
        for row in ys:
            values = [x]
            for y in row:
                values.append(np.sin(values[-1]) * y)
            g = np.ones_like(x)
            for d, y in zip(values[-2::-1], row[::-1], strict=True):
                g = g * np.cos(d) * y
            x = x - 0.1 * g
            slopes_.append(g)
        return x, np.array(slopes_)

    f = mode(f)
    for seed in range(2):
        data = arrays((2,), (3, 4), seed=seed)
        for a, b in zip(f(*map(cm.array, data)), truth(*data), strict=True):
            close(a, b, 1e-13)


def test_draws_in_a_scan_go_on_with_the_sequence():
    def f(x, rng):
        return cm.scan(lambda c, x: (c + rng.normal(size=2) * x, rng.uniform()), cm.zeros(2), x)

    jitted, x = cm.jit(f), cm.arange(3.0)
    one, other = cm.random.default_rng(4), cm.random.default_rng(4)
    jitted(x, one), f(x, other)
    for _ in range(3):
        for a, b in zip(jitted(x, one), f(x, other), strict=True):
            assert a.tolist() == b.tolist()
    assert one.state == other.state


def test_errors_of_scan(mode):
    xs = cm.ones((3, 2))

    def refused(kind, match, *args, **named):
        with pytest.raises(kind, match=match):
            mode(lambda: cm.scan(*args, **named))()

    refused(TypeError, "^scan: wants a function", 3, 0.0, xs)
    refused(TypeError, r"^scan: the function must return a pair", lambda c, x: c, 0.0, xs)
    refused(TypeError, r"^scan: the carry must stay int64", lambda c, x: (c + x[0], x), 0, xs)
    refused(ValueError, r"^scan: the carry must stay float64 of shape \(\), .* \(2,\)",
            lambda c, x: (c + x, x), 0.0, xs)  # fmt: skip
    refused(ValueError, "^scan: the carry must keep", lambda c, x: ((c, c), x), 0.0, xs)
    refused(ValueError, r"^scan: wants one number of rows.*\(3, 2\)\] and length 4",
            lambda c, x: (c, x), 0.0, xs, length=4)  # fmt: skip
    refused(ValueError, "^scan: wants one number of rows", lambda c, x: (c, x), 0.0)
    refused(ValueError, "^scan: wants one number of rows", lambda c, x: (c, x), 0.0, cm.ones(()))
    refused(TypeError, "^scan: wants arrays and numbers, got str", lambda c, x: (c, x), "a", xs)


def test_what_a_body_must_not_do_in_a_program():
    xs, state, rng = cm.ones((3, 2)), cm.zeros(2), cm.random.default_rng(0)
    with pytest.raises(cm.TraceError, match=r"scan: .* writes .* at .*test_control_flow.py:\d+"):
        cm.jit(lambda: cm.scan(lambda c, x: (state.__iadd__(x), x), cm.zeros(2), xs))()
    with pytest.raises(cm.TraceError, match=r"scan: .* draws random numbers at .*py:\d+"):
        cm.jit(
            cm.grad(lambda s: cm.scan(lambda c, x: (c * s + rng.normal(), x), 0.0, xs)[0].sum())
        )(cm.asarray(1.0))
    with pytest.raises(cm.TraceError, match=r"jit: scan read values at .*py:\d+"):
        cm.jit(lambda: cm.scan(lambda c, x: (c + float(x[0]), x), 0.0, xs))()


# -------------------- cond


def test_cond_takes_one_branch(mode):
    f = mode(lambda x: cm.cond(x.sum() > 0, lambda x: (x * 2, 1.0), lambda x: (-x, 0.0), x))
    for _ in range(2):
        for sign in (1.0, -1.0):
            y, flag = f(cm.full(2, sign * 3))
            assert y.tolist() == [6.0 if sign > 0 else 3.0] * 2 and flag == (sign > 0)


def test_gradients_of_cond(mode):
    def f(x, w):
        return cm.cond(x.sum() > 0, lambda x: (x**3 * w).sum(), lambda x: (x * w * w).sum(), x)

    first = mode(lambda x, w: cm.grad(f, (0, 1))(x, w))
    second = mode(
        lambda x, w: cm.grad(
            lambda *a: sum([(g**2).sum() for g in cm.grad(f, (0, 1))(*a)]), (0, 1)
        )(x, w)
    )
    w = np.array([0.5, -2.0])
    for _ in range(2):
        for x in (np.array([1.0, 2.0]), np.array([-1.0, -2.0])):
            up = x.sum() > 0
            dx, dw = first(cm.array(x), cm.array(w))
            close(dx, 3 * x**2 * w if up else w * w)
            close(dw, x**3 if up else 2 * x * w)
            dx, dw = second(cm.array(x), cm.array(w))
            # (3 x^2 w)^2 + x^6, or w^4 + 4 x^2 w^2
            close(dx, 36 * x**3 * w**2 + 6 * x**5 if up else 8 * x * w**2)
            close(dw, 18 * x**4 * w if up else 4 * w**3 + 8 * x**2 * w)


def test_what_the_other_branch_gives_does_not_matter(mode):
    def f(x):
        return cm.grad(lambda x: cm.cond(x > 0, cm.sqrt, lambda x: 0 * x, x))(x)

    f = mode(f)
    for _ in range(2):
        assert float(f(cm.asarray(4.0))) == 0.25
        assert float(f(cm.asarray(0.0))) == 0  # the slope of sqrt is infinite there


def test_cond_by_python_values_and_constants_among_operands(mode):
    f = mode(
        lambda x, flag, p: cm.cond(
            flag, lambda x, how, p: getattr(x, how)() * p, lambda x, how, p: x[0], x, "sum", p
        )
    )
    for _ in range(2):
        assert float(f(cm.arange(3.0), True, 2)) == 6 and float(f(cm.arange(3.0), False, 2)) == 0
    f = mode(lambda x: cm.cond(x[1] > 0, lambda x, k: x * k, lambda x, k: x + k, x, 3))
    for _ in range(2):
        assert f(cm.arange(3.0)).tolist() == [0, 3, 6] and f(cm.zeros(3)).tolist() == [3] * 3


def test_branches_and_loops_that_return_what_they_get(mode):
    """What a result shares with an argument depends on values, and so must not be shared."""
    f = mode(
        lambda x, y: cm.cond(x[0] > 0, lambda x, y: (x, x, y + 1), lambda x, y: (y, x, y), x, y)
    )
    h = mode(
        lambda x, n: cm.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[2], s[1]), (0, x, -x))
    )
    for first in (1.0, -1.0):
        x, y = cm.full(2, first), cm.full(2, 5.0)
        expected = [[first] * 2] * 2 + [[6] * 2] if first > 0 else [[5] * 2, [first] * 2, [5] * 2]
        assert [z.tolist() for z in f(x, y)] == expected
    for n in (0, 1, 2, 0, 3):
        _, a, b = h(cm.ones(2), cm.asarray(n))
        assert (a.tolist(), b.tolist()) == ([(-1.0) ** n] * 2, [-((-1.0) ** n)] * 2)


def test_errors_of_cond():
    x = cm.ones(2)
    with pytest.raises(TypeError, match="^cond: wants a function as false_fn"):
        cm.cond(True, cm.sin, 1, x)
    with pytest.raises(ValueError, match=r"^cond: wants one truth value, got shape \(2,\)"):
        cm.cond(x > 0, cm.sin, cm.cos, x)
    with pytest.raises(ValueError, match=r"^cond: wants one truth value, got shape \(2,\)"):
        cm.jit(lambda x: cm.cond(x > 0, cm.sin, cm.cos, x))(x)
    with pytest.raises(TypeError, match=r"^cond: .* float64 \(2,\) and float64 \(\)"):
        cm.jit(lambda x: cm.cond(x[0] > 0, cm.sin, lambda x: x[0], x))(x)
    with pytest.raises(ValueError, match=r"^cond: both functions must return the same structure"):
        cm.jit(lambda x: cm.cond(x[0] > 0, lambda x: [x], lambda x: (x,), x))(x)
    rng = cm.random.default_rng(0)
    with pytest.raises(cm.TraceError, match="cond: .* draws random numbers"):
        cm.jit(lambda x: cm.cond(x[0] > 0, lambda x: x + rng.normal(size=2), cm.sin, x))(x)


# -------------------- while_loop, fori_loop


def newton(x):
    return cm.while_loop(
        lambda s: cm.abs(s[0] * s[0] - x) > 1e-12,
        lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1),
        (x, 0),
    )


def test_while_loop_ends_where_its_condition_says(mode):
    f = mode(newton)
    for value in (2.0, 9.0, 1.0, 1e6):
        root, steps = f(cm.asarray(value))
        close(root, np.sqrt(value), 1e-13)
        assert (int(steps) == 0) == (value == 1)


@pytest.mark.parametrize("bound", [0, 1, 4, 50])
def test_bounded_while_loops_and_their_gradients(mode, bound):
    """x a^n, with the smallest n that is enough, or the bound."""

    def f(x, a):
        return cm.while_loop(lambda x: x < 100, lambda x: x * a, x, max_steps=bound)

    g = mode(lambda x, a: cm.value_and_grad(f, (0, 1))(x, a))
    for _ in range(2):
        for x, a in ((1.0, 3.0), (200.0, 3.0), (30.0, 2.0)):
            n = 0
            while n < bound and x * a**n < 100:
                n += 1
            value, (dx, da) = g(cm.asarray(x), cm.asarray(a))
            close(value, x * a**n)
            close(dx, a**n)
            close(da, n * x * a ** (n - 1))


def test_while_loops_without_a_bound_have_gradients_outside_of_programs():
    f = lambda x, a: cm.while_loop(lambda x: x < 100, lambda x: x * a, x)  # noqa: E731
    assert [float(g) for g in cm.grad(f, (0, 1))(2.0, 4.0)] == [64.0, 96.0]
    for wrt in (0, 1):
        with pytest.raises(cm.TraceError, match="while_loop has a gradient only if .* max_steps"):
            cm.jit(lambda x, a, wrt=wrt: cm.grad(f, wrt)(x, a))(cm.asarray(2.0), cm.asarray(4.0))
    # nothing is differentiated through it
    f = cm.jit(lambda x, a: cm.grad(lambda x: x * newton(a)[0])(x))
    for _ in range(2):
        close(f(cm.asarray(2.0), cm.asarray(9.0)), 3)


def test_fori_loop(mode):
    def f(x):
        return cm.fori_loop(1, 4, lambda i, c: c * x + i, x * 0)

    g = mode(lambda x: cm.value_and_grad(lambda x: f(x).sum())(x))
    for x in (np.array([2.0, 0.5]), np.array([1.0, -1.0])):
        value, slope = g(cm.array(x))
        close(value, (x * x + 2 * x + 3).sum())
        close(slope, 2 * x + 2)
    h = mode(lambda x: cm.fori_loop(0, 3, lambda i, c: c.at[i].set(x[2 - i]), x))
    for _ in range(2):
        assert h(cm.arange(3.0)).tolist() == [2, 1, 0]
    k = mode(lambda n, x: cm.fori_loop(0, n, lambda i, c: c + i, x))
    for n in (0, 1, 5):
        assert float(k(cm.asarray(n), cm.asarray(0.5))) == 0.5 + n * (n - 1) / 2
        assert float(mode(lambda x, n=n: cm.fori_loop(0, n, lambda i, c: c + i, x))(0.5)) == (
            0.5 + n * (n - 1) / 2
        )


def test_errors_of_loops():
    with pytest.raises(TypeError, match="^while_loop: wants a function as body_fun"):
        cm.while_loop(lambda x: True, 1, 0.0)
    with pytest.raises(ValueError, match="^while_loop: max_steps must not be negative, got -1"):
        cm.while_loop(lambda x: True, lambda x: x, 0.0, max_steps=-1)
    with pytest.raises(TypeError, match="^while_loop: the carry must stay int64"):
        cm.while_loop(lambda x: x < 1, lambda x: x + 0.5, 0)
    with pytest.raises(ValueError, match=r"^while_loop: wants one truth value, got shape \(2,\)"):
        cm.while_loop(lambda x: x < 1, lambda x: x, cm.ones(2))
    with pytest.raises(TypeError, match="^fori_loop: wants an integer as upper, got 2.5"):
        cm.fori_loop(0, 2.5, lambda i, x: x, 0.0)
    with pytest.raises(TypeError, match=r"^fori_loop: wants an integer as lower, got float64"):
        cm.fori_loop(cm.asarray(0.0), 2, lambda i, x: x, 0.0)
    with pytest.raises(TypeError, match="^fori_loop: the carry must stay"):
        cm.fori_loop(0, 2, lambda i, x: x + 0.5, 0)


def test_explain_shows_the_bodies():
    f = cm.jit(lambda x: cm.scan(lambda c, x: (cm.cond(x > 0, cm.sin, cm.cos, c), c), 0.0, x))
    f(cm.ones(3))
    text = f.describe()
    assert "3 times: 2 operations" in text and "if true: 1 operations" in text
    assert "sin(float64 ())" in text and "cos(float64 ())" in text
    # a step: greater 9 bytes, sin and cos 16 each, where c > 0 is one of x
    assert "bytes: 123 B" in text


def test_the_memory_of_a_loop_is_known():
    jitted = cm.jit(lambda x: cm.scan(lambda c, _: (cm.cumsum(c) * 0.5, c), x, length=10))
    x = cm.ones(1 << 14)
    jitted(x), jitted(x)
    plan = memory_plan(jitted.programs()[0])
    tracemalloc.start()
    try:
        jitted(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 9 * x.nbytes < peak <= plan.peak + (64 << 10)


def test_a_program_keeps_no_array_of_its_first_call():
    size = 1237

    def f(x):
        between = cm.sin(x)

        def total(x):
            c, ys = cm.scan(lambda c, row: (c * between + row.sum(), c), x, cm.ones((3, 2)))
            return cm.cond(c[0] > 0, lambda c: (c * between).sum(), lambda c: c.sum(), c) + ys.sum()

        return cm.value_and_grad(total)(x)[0]

    jitted = cm.jit(f)
    jitted(cm.ones(size))
    gc.collect()
    kept = [x for x in gc.get_objects() if type(x) is cm.ndarray and x.shape[-1:] == (size,)]
    assert kept == [] and len(jitted.programs()) == 1


def test_checkpoints_of_scans_and_scans_of_checkpoints(mode):
    def step(c, x):
        return cm.tanh(c * x), (c * c).sum()

    def run(f):
        def total(c, xs):
            c, ys = cm.scan(cm.checkpoint(step), c, xs)
            return c.sum() + ys.sum()

        return mode(lambda c, xs: cm.value_and_grad(f(total), (0, 1))(c, xs))

    data = arrays((3,), (4, 3))

    def number(c, xs):
        total = 0
        for x in xs:
            total, c = total + (c * c).sum(), np.tanh(c * x)
        return c.sum() + total

    for wrapped in (cm.checkpoint, lambda f: f):
        f = run(wrapped)
        for _ in range(2):
            value, gradients = f(*map(cm.array, data))
            close(value, number(*data))
            for i, g in enumerate(gradients):
                close(g, slopes(number, data, i), 1e-7)


def test_several_pulls_through_one_scan(mode):
    def f(c, xs, u, v):
        (_, _), pull = cm.vjp(lambda c: cm.scan(lambda c, x: (c * x, c + x), c, xs), c)
        return pull((u, xs * 0))[0], pull((v, xs))[0]

    f = mode(f)
    c, xs, u, v = arrays((3,), (4, 3), (3,), (3,))
    products = np.vstack([np.ones((1, 3)), np.cumprod(xs, 0)])
    for _ in range(2):
        first, second = f(*map(cm.array, (c, xs, u, v)))
        close(first, u * products[-1])
        close(second, v * products[-1] + (products[:-1] * xs).sum(0))


# -------------------- gradients within vmap, and vmap of gradients


MIXED = np.random.default_rng(5).normal(size=(3, 3)) * 0.3
LOOPS = {
    "fori_loop": lambda x: cm.fori_loop(0, 3, lambda i, c: c * x + cm.sin(c) + i, x),
    "scan": lambda x: cm.scan(lambda c, v: (cm.tanh(cm.asarray(MIXED) @ c) + v * x, c * v), x, x)[
        1
    ],
    "while_loop": lambda x: cm.while_loop(
        lambda c: (cm.abs(c) < 9).all(), lambda c: c * 1.5 + 0.1 * x**2, x, max_steps=6
    ),
    "cond": lambda x: cm.cond(x[0] > 0.7, lambda v: v * x, cm.sin, x),
    "a loop in a loop": lambda x: cm.fori_loop(
        0, 2, lambda i, c: cm.scan(lambda d, v: (d * 0.5 + v * c, None), c, x)[0], x
    ),
}
DERIVATIVES = {
    "grad": lambda f: cm.grad(lambda x: (f(x) ** 2).sum()),
    "jacrev": cm.jacrev,
    "jacfwd": cm.jacfwd,
    "hessian": lambda f: cm.hessian(lambda x: (f(x) ** 2).sum()),
    "linearize": lambda f: lambda x: cm.linearize(f, x)[1](x + 1),
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("loop", LOOPS)
def test_derivatives_of_loops_within_vmap_and_jit(loop, derivative):
    """As called without either, row by row: there the steps are Python's."""
    of = DERIVATIVES[derivative](LOOPS[loop])
    rows = cm.asarray(np.array([[1.0, 2, 3], [0.5, -1, 2]]))
    expected = [of(row) for row in rows]
    close(cm.vmap(of)(rows), expected)
    close(cm.jit(cm.vmap(of))(rows), expected)
    close(cm.jit(of)(rows[0]), expected[0])


def test_a_loop_without_bound_has_no_gradient_within_vmap():
    of = cm.vmap(cm.grad(lambda x: cm.while_loop(lambda c: c < 9, lambda c: c * x, x)))
    close(of(cm.asarray([2.0, 3.0])), [4 * 2.0**3, 2 * 3.0])
    with pytest.raises(cm.TraceError, match="while_loop: .*max_steps"):
        cm.jit(of)(cm.asarray([2.0, 3.0]))
