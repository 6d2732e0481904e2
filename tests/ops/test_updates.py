"""x.at[key]: values against NumPy's assignments and ufunc.at, gradients against differences."""

import numpy as np
import pytest
from fake_driver import gpu
from hypothesis import given, settings
from hypothesis import strategies as st
from index_keys import SHAPE_AND_KEY
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.core.dispatch import fast_path

AT = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "min": np.minimum,
    "max": np.maximum,
}
KINDS = ["set", *AT]


def reference(kind, x, key, values):
    """What NumPy makes of a copy of x."""
    out = np.array(x)
    selected = out[key].shape
    values = np.asarray(values)
    values = values.reshape(values.shape[max(values.ndim - len(selected), 0) :])
    values = np.broadcast_to(values, selected)  # as assignments do, and ufunc.at does not
    if kind == "set":
        out[key] = values
    else:
        AT[kind].at(out, key, values)
    return out


def numbers(shape, seed=0, dtype="float64"):
    """Numbers in [0.5, 2), all different."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    values = 0.5 + 1.5 * rng.permutation(count) / max(count, 1)
    return np.asarray(values, dtype).reshape(shape)


def updated(kind, x, key, values):
    return getattr(x.at[key], kind)(values)


# -------------------- values

KEYS = {
    "integer": 1,
    "last": -1,
    "slice": slice(1, None),
    "steps backwards": slice(None, None, -2),
    "ellipsis": ...,
    "new axis": None,
    "two integers": (2, 1),
    "all of a column": (slice(None), 1),
    "empty slice": slice(2, 2),
    "list": [0, 2],
    "repeated": [0, 2, 0, 0],
    "negative": np.array([-1, 0, -4]),
    "0-d array": np.array(2),
    "unsigned": np.array([3, 1], "uint8"),
    "two arrays": ([0, 1, 1], [2, 0, 0]),
    "broadcast arrays": (np.array([[0], [1]]), np.array([0, 2, 2])),
    "array and slice": ([1, 1, 0], slice(None, 2)),
    "slice and array": (slice(1, 3), [2, 2]),
    "array, new axis": ([1, 1], None, 0),
    "mask": np.arange(12).reshape(4, 3) % 3 == 1,
    "mask of rows": np.array([True, False, True, True]),
    "mask of columns": (slice(None), np.array([True, False, True])),
    "mask and array": (np.array([True, False, True, False]), [1, 1]),
    "mask of nothing": np.zeros((4, 3), bool),
    "literal True": True,
    "literal False": False,
    "no positions": np.zeros(0, int),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KEYS)
def test_values(device, name, kind):
    key = KEYS[name]
    host = numbers((4, 3))
    selected = host[key].shape
    for shape in {selected, (), (1, *selected), *([selected[1:]] if selected else [])}:
        values = numbers(shape, 1)
        wanted = reference(kind, host, key, values)
        x = cm.asarray(host)
        for v in (cm.asarray(values), values, values.tolist())[: 3 if values.size else 2]:
            for _ in range(2):  # the second time as a replay
                out = updated(kind, x, key, v)
                np.testing.assert_allclose(np.asarray(out), wanted, rtol=1e-14)
                assert out.dtype == x.dtype and out.device == x.device
            np.testing.assert_array_equal(np.asarray(x), host)  # unchanged
            out[...] = 0.0
            np.testing.assert_array_equal(np.asarray(x), host)  # nor do they share memory
    np.testing.assert_array_equal(np.asarray(cm.asarray(host).at[key].get()), host[key])


@settings(max_examples=200)
@given(SHAPE_AND_KEY, st.sampled_from(KINDS), st.booleans())
def test_any_key(case, kind, scalar):
    """Whatever NumPy accepts gives NumPy's numbers, whatever it refuses is an IndexError."""
    shape, key = case
    host = numbers(shape)
    with cm.device("cpu"):
        x = cm.asarray(host)
        try:
            selected = host[key].shape
        except IndexError:
            with pytest.raises(IndexError):
                updated(kind, x, key, 2.0)
            return
        values = 2.0 if scalar else numbers(selected, 1)
        np.testing.assert_allclose(
            np.asarray(updated(kind, x, key, values)),
            reference(kind, host, key, values),
            rtol=1e-14,
        )
        np.testing.assert_array_equal(np.asarray(x), host)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "complex128"]
)
def test_dtypes(device, dtype):
    host = np.arange(1, 6).astype(dtype)
    key = [0, 3, 0, 1]
    values = np.array([3, 2, 4, 5], dtype)
    inexact, real = host.dtype.kind in "fc", host.dtype.kind != "c"
    kinds = ["set", "add", "subtract", "multiply", "power"]
    for kind in kinds + ["divide"] * inexact + ["min", "max"] * real:
        out = updated(kind, cm.asarray(host), key, cm.asarray(values))
        with np.errstate(over="ignore"):
            wanted = reference(kind, host, key, values)
        assert out.dtype == wanted.dtype
        np.testing.assert_allclose(
            np.asarray(out), wanted, rtol={"float16": 4e-3, "float32": 1e-6}.get(dtype, 1e-14)
        )


def test_bools(device):
    x = cm.asarray([True, False, True])
    assert x.at[1].set(True).tolist() == [True] * 3
    assert x.at[[0, 0]].min([True, False]).tolist() == [False, False, True]
    assert x.at[x].max(False).tolist() == [True, False, True]
    with pytest.raises(TypeError, match="^at.add: wants numeric arrays, got bool"):
        x.at[0].add(1)


def test_of_repeated_positions_the_last_one_is_set(device):
    x = cm.zeros(3).at[[0, 1, 0, 0]].set(cm.asarray([1.0, 2.0, 3.0, 4.0]))
    assert x.tolist() == [4, 2, 0]


def test_elements_that_are_not_chosen_keep_their_bits(device):
    host = np.array([-0.0, np.nan, np.inf, -2.0, 3.0])
    for kind in KINDS:
        for key in ([4, 4], 4, slice(4, None), np.arange(5) == 4):
            out = np.asarray(updated(kind, cm.asarray(host), key, 1.5))
            assert out[:4].tobytes() == host[:4].tobytes(), (kind, key)


def test_views_and_broadcast_arrays(device):
    x = cm.broadcast_to(cm.asarray([1.0, 2.0]), (3, 2))
    assert x.at[1, 0].set(5.0).tolist() == [[1, 2], [5, 2], [1, 2]]
    y = cm.arange(6.0).reshape(2, 3).T
    assert y.at[[0, 0]].add(y[:2]).tolist() == [[1, 10], [1, 4], [2, 5]]


def test_values_are_cast(device):
    x = cm.zeros(3, "int64")
    assert x.at[0].set(2.7).tolist() == [2, 0, 0]  # as in an assignment
    assert x.at[[0, 0]].add(2.0).tolist() == [4, 0, 0]
    with pytest.raises(TypeError, match="^at.add: values of float64 would lose their fractions"):
        x.at[0].add(0.5)
    with pytest.raises(TypeError, match="^at.divide: wants floating-point or complex"):
        x.at[0].divide(2)


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes_name_the_method(kind):
    x = cm.ones((2, 3), device="cpu")
    for key, values, error in (
        (5, 1.0, IndexError),
        ([0, 7], 1.0, IndexError),
        ((0, 0, 0), 1.0, IndexError),
        ("a", 1.0, IndexError),
        (([0, 1], [0, 1, 2]), 1.0, IndexError),
        (np.ones(3, bool), 1.0, IndexError),
        (0, np.ones(2), ValueError),
        ([0, 1], np.ones((3, 2, 3)), ValueError),
        (0, "a", TypeError),
    ):
        for _ in range(2):
            with pytest.raises(error, match=rf"^at\.{kind}: "):
                updated(kind, x, key, values)


def test_a_chain_of_updates(device):
    x = cm.zeros(4)
    y = x.at[0].set(1.0).at[1:3].add(2.0).at[[3, 3]].add([1.0, 2.0]).at[-1].multiply(10)
    assert y.tolist() == [1, 2, 2, 30] and x.tolist() == [0] * 4


@pytest.mark.simulator
@pytest.mark.parametrize("kind", KINDS)
def test_values_in_the_simulator(kind, monkeypatch):
    with simulated_gpu(monkeypatch):
        host = numbers((4, 3))
        for name in (
            "integer",
            "slice",
            "repeated",
            "two arrays",
            "mask of rows",
            "array and slice",
        ):
            key = KEYS[name]
            values = numbers(host[key].shape, 1)
            x = cm.asarray(host)
            for _ in range(2):
                out = updated(kind, x, key, cm.asarray(values))
                np.testing.assert_allclose(
                    np.asarray(out), reference(kind, host, key, values), rtol=1e-12
                )
            np.testing.assert_array_equal(np.asarray(x), host)


# -------------------- gradients


def check(kind, key, host, values, device="cpu", rtol=2e-6):
    """Gradients of a weighted sum of the result, by x and by the values, against differences of
    what NumPy computes."""
    weights = numbers(host.shape, 7) - 1

    def loss(x, v):
        return (updated(kind, x, key, v) * cm.asarray(weights)).sum()

    found = cm.grad(loss, (0, 1))(cm.asarray(host), cm.asarray(values))
    for which, g in enumerate(found):
        arrays = [np.asarray(host), np.asarray(values)]
        numeric = np.zeros(arrays[which].shape)
        for i in np.ndindex(numeric.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [a.copy() for a in arrays]
                moved[which][i] += step
                ends.append((reference(kind, moved[0], key, moved[1]) * weights).sum())
            numeric[i] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(np.asarray(g), numeric, rtol=rtol, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KEYS)
def test_gradients(device, name, kind):
    key, host = KEYS[name], numbers((4, 3))
    selected = host[key].shape
    for shape in {selected, (), (1, *selected[1:])}:
        try:
            np.broadcast_to(np.empty(shape), selected)
        except ValueError:
            continue
        check(kind, key, host, numbers(shape, 1) + np.asarray(0.01))


@pytest.mark.parametrize("key", [[0, 1, 0, 0], ([0, 0, 1], [1, 1, 0]), np.array([[0, 0], [2, 0]])])
def test_zeros_among_the_factors(device, key):
    """Of one zero at a position the gradient is the product of the others; of two it is zero."""
    host = numbers((3, 2))
    count = host[key].shape
    for zeros in (1, 2, 3):
        values = numbers(count, 3)
        values.reshape(-1)[:zeros] = 0
        check("multiply", key, host, values)
        host[0, 0] = 0
        check("multiply", key, host, values)


def test_infinite_factors(device):
    """Behind a mask no position has another factor, by which one could be divided."""
    x, mask = cm.asarray([2.0, 3.0, 5.0]), np.array([True, False, True])
    slope = cm.grad(lambda v: x.at[mask].multiply(v).sum())(cm.asarray([np.inf, 7.0]))
    assert slope.tolist() == [2.0, 5.0]


@pytest.mark.parametrize("kind", ["set", "add", "multiply", "power", "divide", "max"])
@pytest.mark.parametrize("key", [1, [0, 2, 0], np.array([True, False, True])], ids=str)
def test_second_derivatives(device, kind, key):
    host = numbers((3,)) / 4 + 0.75
    values = numbers(host[key].shape, 1) / 4 + np.asarray(0.76)

    def slope(x, v):
        a, b = cm.grad(lambda x, v: (updated(kind, x, key, v) ** 3).sum(), (0, 1))(x, v)
        return (a * a).sum() + 2 * (b * b).sum()

    found = cm.grad(slope, (0, 1))(cm.asarray(host), cm.asarray(values))
    for which, g in enumerate(found):
        arrays = [np.asarray(host), np.asarray(values)]
        numeric = np.zeros(arrays[which].shape)
        for i in np.ndindex(numeric.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [a.copy() for a in arrays]
                moved[which][i] += step
                ends.append(float(slope(*map(cm.asarray, moved))))
            numeric[i] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(np.asarray(g), numeric, rtol=1e-6, atol=1e-6)


def test_ties_share_the_gradient(device):
    """As in maximum: x and two of the values attain it."""
    x, v = cm.asarray([3.0, 1.0]), cm.asarray([3.0, 2.0, 3.0])
    for kind, sign in (("max", 1), ("min", -1)):
        a, b = cm.grad(lambda x, v: updated(kind, sign * x, [0, 0, 0], sign * v)[0], (0, 1))(x, v)  # noqa: B023
        np.testing.assert_allclose(np.asarray(a), [sign / 3, 0])
        np.testing.assert_allclose(np.asarray(b), [sign / 3, 0, sign / 3])


def test_gradients_do_not_see_elements_that_are_not_chosen(device):
    """The logarithm of a negative number, an infinity times zero, NaN."""
    host = np.array([-1.0, np.inf, np.nan, 4.0])
    for key in (3, [3, 3], np.arange(4) == 3, (np.arange(4) == 3,), slice(3, None)):
        for kind in KINDS:
            a, b = cm.grad(lambda x, v: updated(kind, x, key, v)[3], (0, 1))(  # noqa: B023
                cm.asarray(host), cm.asarray(0.5)
            )
            assert a[:3].tolist() == [0, 0, 0] and np.isfinite(float(a[3])), (kind, key)
            assert np.isfinite(float(b)), (kind, key)
            through = cm.grad(lambda x: updated(kind, x, key, 0.5)[:3].sum())(cm.asarray(host))  # noqa: B023
            assert through.tolist() == [1, 1, 1, 0], (kind, key)


def test_complex_gradients(device):
    x = np.array([1 + 2j, 3 - 1j, 0.5j])
    v = np.array([2 - 1j, 1j, 1 + 1j])
    w = np.array([1 - 1j, 2j, 3.0])
    for kind in ("set", "add", "multiply", "divide"):

        def loss(x, v, kind=kind):
            return cm.abs(updated(kind, x, [0, 2, 0], v) * cm.asarray(w)).sum()

        found = cm.grad(loss, (0, 1))(cm.asarray(x), cm.asarray(v))
        for which, g in enumerate(found):
            for i in range(3):
                slopes = []
                for direction in (1, 1j):
                    ends = []
                    for step in (1e-6, -1e-6):
                        moved = [x.copy(), v.copy()]
                        moved[which][i] += step * direction
                        ends.append(
                            np.abs(reference(kind, moved[0], [0, 2, 0], moved[1]) * w).sum()
                        )
                    slopes.append((ends[0] - ends[1]) / 2e-6)
                np.testing.assert_allclose(
                    complex(g[i]), slopes[0] + 1j * slopes[1], rtol=1e-5, atol=1e-7
                )


def test_x_is_unchanged_inside_vjp(device):
    host = numbers((4,))
    x = cm.asarray(host)

    def loss(x):
        squares = x * x  # whose rule reads x later
        y = x.at[0].set(7.0).at[[1, 1]].multiply(3.0)
        return (squares * y).sum() + x[0]

    g = cm.grad(loss)(x)
    y = host * [0, 9, 1, 1] + [7, 0, 0, 0]
    np.testing.assert_allclose(
        np.asarray(g), 2 * host * y + host**2 * [0, 9, 1, 1] + [1, 0, 0, 0], rtol=1e-12
    )
    np.testing.assert_array_equal(np.asarray(x), host)


def test_values_of_another_dtype_get_their_own_gradient(device):
    x, v = cm.ones(3, "float32"), cm.asarray([2.0, 3.0])
    a, b = cm.grad(lambda x, v: (x.at[[0, 0]].add(v) ** 2).sum(), (0, 1))(x, v)
    assert a.dtype == np.float32 and b.dtype == np.float64
    assert a.tolist() == [12, 2, 2] and b.tolist() == [12, 12]
    g = cm.grad(lambda v: cm.zeros(3, "complex128").at[1].set(v).real.sum())(cm.asarray(2.0))
    assert g.dtype == np.float64 and float(g) == 1


@pytest.mark.simulator
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_in_the_simulator(kind, monkeypatch):
    with simulated_gpu(monkeypatch):
        for key in (1, [0, 2, 0], (slice(None), [1, 1])):
            host = numbers((3, 2))
            check(kind, key, host, numbers(host[key].shape, 1) + 0.01)


# -------------------- with the rest of the package


def test_calls_are_replayed():
    x, i, v = (
        cm.arange(5.0, device="cpu"),
        cm.asarray([0, 3, 0], device="cpu"),
        cm.ones(3, device="cpu"),
    )
    fast_path.forget()
    for _ in range(3):
        assert x.at[i].add(v).tolist() == [2, 1, 2, 4, 4]
        assert cm.grad(lambda x: (x.at[i].add(v) ** 2).sum())(x).tolist() == [4, 2, 4, 8, 8]
    functions = [table for table in fast_path._tables if table]
    assert functions  # some calls are replays, with the same results


def test_in_graphs_of_the_cpu():
    """A graph could hold them: they read nothing."""
    with cm.device("cpu"):
        x, i = cm.arange(4.0), cm.asarray([0, 0, 3])
        step = cm.cuda.graph(lambda x, i: x.at[i].add(1.0).at[x > 1].multiply(2.0).at[0].set(-1.0))
        for _ in range(3):
            assert step(x, i).tolist() == [-1, 1, 4, 8]


def test_fused():
    with cm.device("cpu"):
        x = cm.asarray([-1.0, 2.0, -3.0])
        for kind in KINDS:
            function = cm.fuse(lambda x: updated(kind, x, x < 0, 2.0) * 2)  # noqa: B023
            np.testing.assert_array_equal(
                np.asarray(function(x)), 2 * reference(kind, np.asarray(x), [0, 2], 2.0)
            )
        with pytest.raises(TypeError, match="fuse: "):
            cm.fuse(lambda x: x.at[[0, 1]].add(1.0))(x)


def test_checkpoints_and_jvp(device):
    x, t = cm.asarray([1.0, 2.0, 3.0]), cm.asarray([0.5, 1.0, -1.0])

    def f(x):
        return (x.at[[0, 0, 2]].multiply(x) ** 2).sum()

    plain = cm.grad(f)(x)
    np.testing.assert_allclose(np.asarray(cm.grad(cm.checkpoint(f))(x)), np.asarray(plain))
    _, slope = cm.jvp(f, (x,), (t,))
    np.testing.assert_allclose(float(slope), float((plain * t).sum()))


@pytest.mark.simulator
def test_results_are_written_into_arrays_of_any_layout(monkeypatch):
    """In C order, in the other one, with gaps, by turns: each has a plan of its own. Of a shape
    that a longer row could hold."""
    x = np.random.default_rng(4).standard_normal((3, 4, 5))
    calls = {
        "sum": (lambda out: cm.sum(ours, 0, out=out), x.sum(0)),
        "clip": (lambda out: cm.clip(ours[1], -0.5, 0.5, out=out), x[1].clip(-0.5, 0.5)),
        "negative": (lambda out: cm.negative(ours[2], out=out), -x[2]),
        "add": (lambda out: cm.add(ours[0], ours[1], out=out), x[0] + x[1]),
    }
    with simulated_gpu(monkeypatch):
        ours = cm.asarray(x)
        made = (
            lambda: cm.zeros((4, 5)),
            lambda: cm.zeros((5, 4)).T,
            lambda: cm.zeros((8, 10))[::2, 1::2],
            lambda: cm.zeros((4, 9))[:, 2:7],
        )
        for name, (call, expected) in calls.items():
            for make in (*made, *reversed(made)):
                out = make()
                call(out)
                np.testing.assert_allclose(out.to_numpy(), expected, 1e-12, 1e-12, err_msg=name)


def test_lists_with_arrays_of_a_gpu_come_to_the_host(fake):
    """Beside numbers, nested, in a dtype that is asked for."""
    row, one = gpu([1.0, 2.0]), gpu(np.asarray(7.0))
    for there, dtype, expected in (
        ([row, [3.0, 4.0]], None, [[1.0, 2.0], [3.0, 4.0]]),
        ((one, 2.0), None, [7.0, 2.0]),
        ([[one, one], row], "float32", [[7.0, 7.0], [1.0, 2.0]]),
    ):
        y = cm.asarray(there, dtype=dtype, device="cpu")
        np.testing.assert_array_equal(y.to_numpy(), expected)
        assert y.dtype == (dtype or "float64")
