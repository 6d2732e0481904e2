"""cm.elementwise and cm.reduction: scalar Python functions on arrays, against NumPy."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import lazy_numba
from cudamath.testing import assert_close, layout_of, simulate

F32 = np.dtype(np.float32)


def wave(x, y):
    if x > 0.0:
        return math.sin(x) * y
    return 0.5 * y


def wave_reference(x, y):
    return np.where(x > 0, np.sin(x) * y, 0.5 * y)


def normal(shape, dtype=F32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, cm.bfloat16], ids=str)
@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4,)), ((5,), (5,)), ((), (2, 3)), ((0, 2), (2,)), ((64, 40), (64, 1))],
    ids=str,
)
def test_elementwise(device, shapes, dtype):
    f = cm.elementwise(wave)
    x, y = normal(shapes[0], dtype), normal(shapes[1], dtype, 1)
    out = f(cm.asarray(x), cm.asarray(y))
    wanted = wave_reference(x.astype(np.float64), y.astype(np.float64))
    assert out.dtype == dtype and out.shape == wanted.shape
    eps = {8: 1e-14, 4: 1e-6}.get(out.itemsize, 2.0**-7)
    assert_close(out, wanted, rtol=eps, atol=eps * 0.1)
    assert_close(
        f(cm.asarray(x).T, 1.0),
        wave_reference(x.astype(np.float64).T, 1.0),
        rtol=eps,
        atol=eps * 0.1,
    )


def test_scalars_dtypes_and_names(device):
    f = cm.elementwise(wave)
    x = cm.asarray(normal((6,)))
    assert f(x, 2.0).dtype == F32 and f(2.0, x).dtype == F32
    assert_close(
        f(x, 2.0), wave_reference(x.to_numpy().astype(np.float64), 2.0), rtol=1e-6, atol=1e-7
    )
    assert_close(f(1.0, 2.0), math.sin(1.0) * 2.0, rtol=1e-14)
    odd = cm.elementwise(lambda n: n % 2 == 1, dtype="bool")
    assert odd(cm.asarray([1, 2, 3])).tolist() == [True, False, True]
    collatz = cm.elementwise(lambda n: n // 2 if n % 2 == 0 else 3 * n + 1)
    assert (
        collatz(cm.asarray([6, 7])).tolist() == [3, 22]
        and collatz(cm.asarray([6])).dtype == np.int64
    )
    assert f.__name__ == "wave"


def test_gradients(device):
    f = cm.elementwise(
        lambda x, y: x * x * y, gradients=[lambda x, y: 2.0 * x * y, lambda x, y: x * x]
    )
    x, y = cm.array([1.0, 2.0]), cm.array([[3.0], [5.0]])
    dx, dy = cm.grad(lambda x, y: f(x, y).sum(), (0, 1))(x, y)
    assert dx.tolist() == [16.0, 32.0] and dy.tolist() == [[5.0], [5.0]]
    with pytest.raises(TypeError, match="^elementwise: wave has no gradient; give its derivatives"):
        cm.grad(lambda x: cm.elementwise(wave)(x, 1.0).sum())(x)


def log_sum(a, b):
    top = max(a, b)
    return (
        top if a == b and a == -math.inf else top + math.log(math.exp(a - top) + math.exp(b - top))
    )


LENGTH = cm.reduction(lambda a, b: a + b, 0.0, each=lambda v: v * v, last=lambda s: math.sqrt(s))
LOG_SUM = cm.reduction(log_sum, -math.inf)
POSITIVE = cm.reduction(lambda a, b: a + b, 0, each=lambda v: 1 if v > 0 else 0, dtype="int64")


@pytest.mark.parametrize("dtype", [np.float64, np.float32, cm.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((4, 5), 1),
        ((4, 5), 0),
        ((3, 4, 5), (0, 2)),
        ((7,), None),
        ((300, 200), None),
        ((2, 0), 1),
        ((), None),
    ],
    ids=str,
)
def test_reduction(device, shape, axis, dtype):
    x = normal(shape, dtype)
    wide = x.astype(np.float64)
    eps = {8: 1e-13, 4: 1e-5}.get(np.dtype(dtype).itemsize, 2.0**-7)
    for keepdims in (False, True):
        out = LENGTH(cm.asarray(x), axis, keepdims=keepdims)
        wanted = np.sqrt((wide * wide).sum(axis, keepdims=keepdims))
        assert out.dtype == dtype and out.shape == wanted.shape
        assert_close(out, wanted, rtol=eps, atol=eps)
    logs = LOG_SUM(cm.asarray(x), axis)
    with np.errstate(all="ignore"):
        assert_close(logs, np.log(np.exp(wide).sum(axis)), rtol=eps, atol=eps)
    many = POSITIVE(cm.asarray(x), axis)
    assert many.dtype == np.int64
    assert_close(many, (wide > 0).sum(axis), rtol=0)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: cm.elementwise(wave)(cm.ones(3), cm.ones(4)),
            ValueError,
            r"^wave: shapes \(3,\) and \(4,\)",
        ),
        (lambda: cm.elementwise(wave)(), TypeError, "at least one operand"),
        (
            lambda: cm.elementwise(wave, gradients=[wave])(cm.ones(2), 1.0),
            TypeError,
            "1 gradients, got 2",
        ),
        (lambda: cm.reduction(wave, 0.0)(cm.ones(3), 1), ValueError, "^reduction: axis 1"),
        (
            lambda: cm.reduction(wave, 0.0)(cm.ones(3, "complex64")),
            TypeError,
            "^reduction: .*complex64",
        ),
        (
            lambda: cm.grad(lambda x: cm.reduction(wave, 0.0)(x))(cm.ones(3)),
            TypeError,
            "^reduction: wave has no gradient",
        ),
    ],
)
def test_errors(device, call, error, says):
    with pytest.raises(error, match=says):
        call()


def nameless(x):
    return x * undefined  # type: ignore[name-defined]  # noqa: F821


def often(x):
    return x if x > 0 else None


@pytest.mark.filterwarnings("ignore:Compilation requested")  # Numba, the second time
@pytest.mark.parametrize(
    "function", [nameless, often, lambda x: [x], lambda x: x + 1j, lambda x: "x"]
)
def test_functions_that_cannot_be_compiled(device, function):
    """Whatever Numba raises, on whichever device: a TypeError that names the function, each
    time."""
    x = cm.ones(3, "float32")
    for f in (cm.elementwise(function), cm.reduction(lambda a, b: a + b, 0.0, each=function)):
        for _ in range(2):
            with pytest.raises(
                TypeError, match="^(elementwise|reduction): .*(nameless|often|<lambda>)"
            ):
                f(x)
    assert cm.elementwise(lambda x: x + 1j, dtype="complex64")(x).tolist() == [1 + 1j] * 3


def test_defaults(device):
    f = cm.elementwise(lambda x, y=3.0, z=1: x * y + z)
    x = cm.asarray([1.0, 2.0], "float32")
    assert (
        f(x).tolist() == [4, 7]
        and f(x, 2.0).tolist() == [3, 5]
        and f(x, x, 0.5).tolist() == [1.5, 4.5]
    )
    assert f(x).dtype == np.float32
    with pytest.raises(TypeError, match="elementwise: .*4 operands"):
        f(x, 1, 2, 3)


def test_functions_may_call_functions_of_numba(device):
    numba = pytest.importorskip("numba")
    half = numba.njit(lambda v: v * 0.5)
    x = cm.asarray([1.0, -3.0])
    assert cm.elementwise(lambda v: half(v) if v > 0.0 else v)(x).tolist() == [0.5, -3.0]
    assert float(cm.reduction(lambda a, b: a + b, 0.0, each=lambda v: half(v))(x)) == -1.0


@pytest.mark.simulator
def test_in_the_simulator():
    from cudamath.kernels.generated import user_kernels

    x, y = normal((5, 6)), normal((6,), seed=1)
    plan = user_kernels.elementwise(
        layout_of(x), layout_of(y), function=wave, compute=F32, output=F32
    )
    assert_close(
        simulate(plan, x, y), wave_reference(x.astype(np.float64), y), rtol=1e-6, atol=1e-7
    )
    functions = (lambda a, b: a + b, 0.0, lambda v: v * v, lambda s: math.sqrt(s))
    for axis in ((1,), (0,), (0, 1)):
        plan = user_kernels.reduction(
            layout_of(x), functions=functions, axis=axis, keepdims=False, dtype=F32, version="plain"
        )
        assert_close(simulate(plan, x), np.sqrt((x.astype(np.float64) ** 2).sum(axis)), rtol=1e-6)


@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
def test_float32_stays_float32():
    from cudamath.kernels.generated import user_kernels
    from cudamath.runtime.device import assume

    x = Layout.new((1024,), F32, 0)
    functions = (lambda a, b: a + b, 0.0, lambda v: v * 0.25, None)
    with assume((9, 0)):
        for plan in (
            user_kernels.elementwise(
                x,
                x,
                function=lambda a, b: a * 0.5 + b if b > 1.5 else a,
                compute=F32,
                output=F32,
                version="vector",
            ),
            user_kernels.reduction(x, functions=functions, axis=(0,), keepdims=False, dtype=F32),
        ):
            (step,) = plan.steps
            text = compiler.ptx_of(step.kernel, plan.signature(step, [x, x]), (9, 0))
            assert not [
                line
                for line in text.splitlines()
                if ".f64" in line and ".param" not in line and "ld." not in line
            ]


# -------------------- vectorize


def test_vectorize_is_numpys(device):
    def step(x, y):
        return x - y if x > y else x + y

    ours, theirs = cm.vectorize(step), np.vectorize(step)
    for x, y in (
        (np.arange(6).reshape(2, 3), 2),
        (np.linspace(0, 1, 4, dtype=np.float32), np.float32(0.5)),
        (np.arange(3.0)[:, None], np.arange(4)),
    ):
        found, expected = (
            ours(cm.asarray(x), cm.asarray(y) if isinstance(y, np.ndarray) else y),
            theirs(x, y),
        )
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-6)
    positive = cm.vectorize(lambda x: x > 0)
    assert positive(cm.array([-1, 2])).dtype == bool
    assert positive(cm.array([-1, 2])).tolist() == [False, True]
    root = cm.vectorize(lambda x: math.sqrt(x), otypes=["f"])
    assert root(cm.array([4.0, 9.0])).dtype == np.float32 and root(cm.zeros(0)).shape == (0,)


def test_vectorize_decorates(device):
    @cm.vectorize(otypes="d", doc="says what it does")
    def half(x):
        return x / 2

    assert half.__doc__ == "says what it does" and half.__name__ == "half"
    assert half(cm.array([1, 2])).tolist() == [0.5, 1.0]


LOOPS = {
    "signature": lambda xp, a: xp.vectorize(lambda x, y: (x * y).sum(), signature="(n),(n)->()")(
        a(np.ones((2, 3))), a(np.arange(3))
    ),
    "a function of arrays": lambda xp, a: xp.vectorize(xp.mean, signature="(n)->()")(
        a(np.arange(6.0).reshape(2, 3))
    ),
    "several results, not announced": lambda xp, a: xp.vectorize(lambda x, y: (x + y, x > y))(
        a([[1.0, 2.0], [3.0, 4.0]]), 2
    ),
    "several results": lambda xp, a: xp.vectorize(lambda x: (x, 2 * x), otypes="fd")(
        a(np.arange(3.0))
    ),
    "keywords": lambda xp, a: xp.vectorize(lambda x, y=2: x + y)(a(np.arange(3)), y=a(np.ones(3))),
    "excluded": lambda xp, a: xp.vectorize(lambda x, p: x * len(p), excluded={"p"})(
        a(np.arange(3)), p=[1, 2]
    ),
    "a partial function": lambda xp, a: xp.vectorize(functools.partial(pow, exp=2))(
        a(np.arange(3))
    ),
    "a method": lambda xp, a: xp.vectorize(Scale(3).by)(a(np.arange(3))),
}


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def by(self, x):
        return self.factor * x


@pytest.mark.parametrize("name", LOOPS)
def test_vectorize_in_a_loop(device, name):
    ours, theirs = LOOPS[name](cm, cm.asarray), LOOPS[name](np, np.asarray)
    pairs = [(ours, theirs)] if not isinstance(theirs, tuple) else zip(ours, theirs, strict=True)
    for one, other in pairs:
        assert isinstance(one, cm.ndarray) and one.device == device
        np.testing.assert_array_equal(one.to_numpy(), other, strict=True)


def test_vectorize_without_operands():
    assert cm.vectorize(lambda: 7)() == 7


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: cm.vectorize(3), TypeError, "^vectorize: wants a function of scalars, got int 3"),
        (
            lambda: cm.vectorize(lambda x: [x, x])(cm.ones(2)),
            TypeError,
            "^vectorize: <lambda> gives a list; several results are a tuple",
        ),
        (lambda: cm.vectorize(lambda x: x)(cm.ones(0)), ValueError, "^vectorize: .* wants otypes"),
    ],
)
def test_vectorize_errors(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_the_default_dtype_may_change(device):
    """What a number beside integers gave was remembered."""
    scaled, x = cm.elementwise(lambda x, y: x * y), cm.asarray([1, 2])
    for dtype in ("float64", "float32", "float64"):
        cm.set_default_dtype(dtype)
        try:
            assert scaled(x, 1.5).dtype == (x * 1.5).dtype == dtype
        finally:
            cm.set_default_dtype("float64")
