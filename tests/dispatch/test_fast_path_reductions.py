"""Replays of reductions with a dtype or degrees of freedom, of norms by NumPy's name and of traces
of batches, on other values."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.kernels.reduce import dispatch as reduce_dispatch
from cudamath.testing import layout_of, simulate

X = np.random.default_rng(0).standard_normal((3, 5, 7))
#: name -> (cudamath's call, NumPy's of float64, launches)
CALLS = {
    "sum, float64": (lambda x: cm.sum(x, dtype="float64"), np.sum, 1),
    "sum, float32": (lambda x: x.sum(1, dtype=cm.float32), lambda x: x.sum(1), 1),
    "prod, float64": (lambda x: cm.prod(x, -1, "float64"), lambda x: x.prod(-1), 1),
    "mean, float64": (lambda x: x.mean((0, 2), dtype="float64"), lambda x: x.mean((0, 2)), 1),
    "mean, float64, all": (
        lambda x: cm.mean(x, dtype=np.dtype("float64"), keepdims=True),
        lambda x: x.mean(keepdims=True),
        1,
    ),
    "var": (lambda x: cm.var(x, 1), lambda x: x.var(1), 1),
    "var, ddof 1": (lambda x: cm.var(x, 1, ddof=1), lambda x: x.var(1, ddof=1), 1),
    "var, correction 1": (lambda x: cm.var(x, 1, correction=1), lambda x: x.var(1, ddof=1), 1),
    "var, correction 1.5": (
        lambda x: cm.var(x, 1, correction=1.5),
        lambda x: x.var(1, ddof=1.5),
        1,
    ),
    "var, ddof 2, axis 0": (lambda x: cm.var(x, 0, ddof=2), lambda x: x.var(0, ddof=2), 1),
    "std, ddof 1": (
        lambda x: cm.std(x, (1, 2), ddof=1, keepdims=True),
        lambda x: x.std((1, 2), ddof=1, keepdims=True),
        1,
    ),
    "nanvar, ddof 1": (lambda x: cm.nanvar(x, 2, ddof=1), lambda x: np.nanvar(x, 2, ddof=1), 1),
    "trace": (lambda x: cm.linalg.trace(x), lambda x: np.trace(x, 0, -2, -1), 1),
    "trace, offset": (lambda x: cm.linalg.trace(x, offset=2), lambda x: np.trace(x, 2, -2, -1), 1),
    "trace, float64": (
        lambda x: cm.linalg.trace(x, dtype="float64"),
        lambda x: np.trace(x, 0, -2, -1),
        1,
    ),
}
for _ord in (1, -1, np.inf, -np.inf, "fro"):
    for _axis in ((1, 2), (2, 0), (-2, -1)):
        for _keep in (False, True):
            CALLS[f"norm, {_ord}, {_axis}, {_keep}"] = (
                lambda x, o=_ord, a=_axis, k=_keep: cm.norm(x, o, a, keepdims=k),
                lambda x, o=_ord, a=_axis, k=_keep: np.linalg.norm(x, o, a, keepdims=k),
                1 if _ord == "fro" else 2,
            )
    CALLS[f"matrix_norm, {_ord}"] = (
        lambda x, o=_ord: cm.matrix_norm(x, ord=o),
        lambda x, o=_ord: np.linalg.matrix_norm(x, ord=o),
        1 if _ord == "fro" else 2,
    )
    CALLS[f"norm of a matrix, {_ord}"] = (
        lambda x, o=_ord: cm.norm(x[0], o),
        lambda x, o=_ord: np.linalg.norm(x[0], o),
        1 if _ord == "fro" else 2,
    )
for _ord in (None, 0, 1, 2, 3, np.inf):
    CALLS[f"norm of lines, {_ord}"] = (
        lambda x, o=_ord: cm.norm(x, o, 1),
        lambda x, o=_ord: np.linalg.norm(x, o, 1),
        1,
    )


def numbers(seed, dtype):
    return np.random.default_rng(seed).standard_normal(X.shape).astype(dtype)


@pytest.mark.parametrize("dtype, rtol", [("float64", 1e-13), ("float32", 2e-5), ("float16", 4e-3)])
@pytest.mark.parametrize("name", CALLS)
def test_as_numpy(device, name, dtype, rtol):
    """Three times, of other numbers each time."""
    call, wanted, _ = CALLS[name]
    for seed in range(3):
        x = numbers(seed, dtype)
        got, want = call(cm.asarray(x)), np.asarray(wanted(x.astype(np.float64)))
        assert got.shape == want.shape and (
            got.dtype == np.dtype(name.split(", ")[1])
            if ", float" in name
            else got.dtype == x.dtype
        )
        near = max(rtol, 2e-6 if got.dtype == np.float32 else 0)  # float64 summed in float32
        np.testing.assert_allclose(np.asarray(got), want, rtol=near, atol=near)


@pytest.mark.parametrize("name", CALLS)
def test_replayed_reductions_skip_the_checks(fake, monkeypatch, name):
    """At the second call nothing is checked, and no more is launched than there are passes; the
    result lies as it did."""
    from cudamath.ops import reduction_op
    from cudamath.ops.linalg import matrix_functions, norms

    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    call, _, launches = CALLS[name]
    with cm.device("cuda:0"):
        x = cm.asarray(X.astype("float32"))
        wanted = call(x)._layout
        if name not in ("trace, float64", "trace, offset"):  # whose view is looked up
            monkeypatch.setattr(reduction_op, "axes_of", None)
            monkeypatch.setattr(norms, "normalize_axes", None)
            monkeypatch.setattr(matrix_functions, "diagonal", None)
        fake.launches.clear()
        assert call(x)._layout is wanted
        assert len(fake.launches) == launches, [launch[0] for launch in fake.launches]


def test_reductions_that_are_not_replayed(device):
    """Arguments that may mean something else the next time, and those that are errors every
    time."""
    x = cm.asarray(X.astype("float32"))
    for _ in range(2):
        assert cm.var(x, 1, ddof=1).shape == (3, 7)
        with pytest.raises(TypeError, match="^var: correction"):
            cm.var(x, 1, ddof="1")
        with pytest.raises(ValueError, match="^var: correction and ddof"):
            cm.var(x, 1, ddof=1, correction=1)
        with pytest.raises(TypeError, match="^sum: "):
            cm.sum(x, 1, dtype="no dtype")
    assert cm.sum(x, 1, dtype=float).dtype == np.float64
    cm.set_default_dtype("float32")
    try:
        assert cm.sum(x, 1, dtype=float).dtype == cm.ones(2, dtype=float).dtype
    finally:
        cm.set_default_dtype("float64")
    ddof = np.array(1.0)
    for number in (1, 2):  # an array may hold another number the next time
        ddof[...] = number
        np.testing.assert_allclose(
            np.asarray(cm.var(x, 1, ddof=ddof)), X.var(1, ddof=number), rtol=1e-5
        )


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_gradients_of_converted_means(device, dtype):
    """A recorded call after one that was not, and the other way round."""
    x = cm.asarray(X.astype("float32"))
    for _ in range(2):
        y = cm.mean(x, 1, dtype="float64")
        g = cm.grad(lambda x: (cm.mean(x, 1, dtype="float64") ** 2).sum())(x)
        assert (y.dtype, g.dtype) == (np.float64, np.float32)
        want = np.broadcast_to(2 / 5 * X.mean(1, keepdims=True), X.shape)
        np.testing.assert_allclose(np.asarray(g), want, rtol=1e-5, atol=1e-7)
        _, slope = cm.jvp(lambda x: cm.var(x, 1, ddof=1), (x,), (x,))
        np.testing.assert_allclose(np.asarray(slope), 2 * X.var(1, ddof=1), rtol=1e-4)
        assert cm.norm(x[0], np.inf).dtype == np.float32
        g = np.asarray(cm.grad(lambda x: cm.norm(x[0], np.inf))(x))
        row = np.abs(X[0]).sum(1).argmax()
        want = np.zeros_like(X)
        want[0, row] = np.sign(X[0, row])
        np.testing.assert_array_equal(g, want)


@pytest.mark.simulator
@pytest.mark.parametrize(
    "source, target", [("float32", "float64"), ("float16", "float32"), ("int16", "float64")]
)
def test_means_converted_as_they_are_read_simulated(source, target):
    x = (10 * X).astype(source)
    for axis in ((1,), (0, 2)):
        planned = reduce_dispatch.plan(
            layout_of(x),
            kind="mean",
            axis=axis,
            keepdims=False,
            dtype=np.dtype(target),
            version="plain",
        )
        assert len(planned.steps) == 1 and planned.outputs[0].dtype == target
        np.testing.assert_allclose(
            simulate(planned, x), x.astype("float64").mean(axis), rtol=4 * np.finfo(target).eps
        )
