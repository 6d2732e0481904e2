"""Scalars: what NumPy returns as a scalar is a value here too, on both devices."""

from __future__ import annotations

import copy
import json
import math
import numbers
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_place_writes import WRITES

import cudamath as cm

KINDS = ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "complex128"]


def value(x):
    """A scalar, array or nested list of them, as NumPy has it."""
    if isinstance(x, list | tuple):
        return [value(y) for y in x]
    return np.asarray(x)[()] if isinstance(x, cm.ndarray) else x


# -------------------- values


def test_an_element_stays_what_it_was(device):
    x = cm.array([1.0, 2.0])
    old = x[0]
    x[0] += 5
    assert (float(old), x.tolist()) == (1.0, [6.0, 2.0])
    x[0] = old
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("write", WRITES)
def test_no_write_reaches_an_element(device, write):
    x = cm.array([1.0, 2.0, 3.0])
    one, row = x[0], cm.stack([x, x])[1][2]
    WRITES[write](x)
    assert x[0] != 1.0 or write == "random"
    assert (float(one), float(row)) == (1.0, 3.0)


def test_accumulators_are_values(device):
    t, h, ts = cm.zeros(3).sum(), cm.array([0.5])[0], []
    for _ in range(4):
        t += h
        ts.append(t)
    assert value(ts) == [0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "float16", "float32", "float64"])
def test_methods_of_numpys_scalars(device, kind):
    for number in (0, 3, 7.5, 100):
        if kind[0] in "iu" and number != int(number):
            continue
        theirs = np.dtype(kind).type(number)
        ours = cm.array([number], dtype=kind)[0]
        assert ours.is_integer() == theirs.is_integer()
        if kind[0] == "f":
            assert ours.as_integer_ratio() == theirs.as_integer_ratio()
            continue
        assert ours.bit_count() == theirs.bit_count()
        assert (ours.numerator, ours.denominator) == (theirs.numerator, theirs.denominator)
    if kind[0] == "i":
        assert cm.array([-3], dtype=kind)[0].bit_count() == np.dtype(kind).type(-3).bit_count()
    if kind[0] == "f":
        whole = cm.array([np.inf, np.nan], dtype=kind)
        assert not whole[0].is_integer() and not whole[1].is_integer()
        with pytest.raises(OverflowError):
            whole[0].as_integer_ratio()
        with pytest.raises(ValueError):
            whole[1].as_integer_ratio()


INPLACE = ["+=", "-=", "*=", "/=", "//=", "%=", "**="]


@pytest.mark.parametrize("symbol", INPLACE)
def test_inplace_operators_make_new_scalars(device, symbol):
    scope = {"s": cm.array([7.0, 1.0])[0]}
    before = scope["s"]
    exec(f"s {symbol} 2", scope)
    expected = {"s": np.float64(7.0)}
    exec(f"s {symbol} 2", expected)
    assert float(scope["s"]) == expected["s"] and float(before) == 7.0


def test_arrays_without_dimensions_stay_arrays(device):
    for x in (
        cm.array(1.0),
        cm.zeros(()),
        cm.asarray(2.0),
        cm.ones(()),
        cm.full((), 3.0),
        cm.arange(3.0)[1, ...],
        cm.arange(1.0).reshape(()),
        cm.array(1.0).astype("float32"),
        cm.array(1.0).copy(),
        cm.where(cm.array(True), 1.0, 2.0),
    ):
        assert type(x) is cm.ndarray and x.shape == ()
        x[...] = 5
        x += 1
        assert float(x) == 6.0


def test_iteration_gives_values(device):
    x = cm.arange(3.0)
    seen = list(x)
    x += 10
    assert value(seen) == [0.0, 1.0, 2.0]
    assert [row.tolist() for row in cm.arange(4.0).reshape(2, 2)] == [[0.0, 1.0], [2.0, 3.0]]


def test_views_of_a_scalar_are_copies(device):
    s = cm.arange(3.0).sum()
    for view in (s[None], cm.reshape(s, (1,)), cm.expand_dims(s, 0), cm.atleast_1d(s), s[...]):
        view[...] = 7
    assert float(s) == 3.0
    for refused in (lambda: s.__setitem__(..., 1), lambda: s.__setitem__((), 1)):
        with pytest.raises((TypeError, AttributeError)):
            refused()
    with pytest.raises(IndexError):
        s[0]


#: Functions whose results are arrays that the user may write to.
ARRAYS = {
    "asarray": cm.asarray,
    "asarray with a dtype": lambda s: cm.asarray(s, "float32"),
    "array without a copy": lambda s: cm.array(s, copy=None),
    "array with ndmin": lambda s: cm.array(s, copy=None, ndmin=2),
    "ascontiguousarray": cm.ascontiguousarray,
    "asfortranarray": cm.asfortranarray,
    "require": cm.require,
    "from_dlpack": cm.from_dlpack,
    "atleast_1d": cm.atleast_1d,
    "atleast_2d": cm.atleast_2d,
    "atleast_3d": cm.atleast_3d,
    "several": lambda s: cm.atleast_1d(s, s)[1],
    "broadcast_arrays": lambda s: cm.broadcast_arrays(s, s)[0],
    "reshape": lambda s: cm.reshape(s, (1, 1)),
    "ravel": cm.ravel,
    "flatten": lambda s: s.flatten(),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_made_of_a_scalar_have_their_own_memory(device, name):
    """At a first call and at a replay."""
    for _ in range(3):
        s = cm.arange(3, dtype="bfloat16")[2]  # NumPy has no scalar of it, on either device
        y = ARRAYS[name](s)
        assert type(y) is cm.ndarray
        y[...] = 7
        assert (float(s), y.tolist()) == (2, np.full(y.shape, 7).tolist())


def test_a_scalar_is_no_array_without_a_copy(device):
    s = cm.arange(3, dtype="bfloat16")[2]
    for name in "asarray", "from_dlpack":
        with pytest.raises(ValueError, match=f"^{name}: a scalar of bfloat16"):
            getattr(cm, name)(s, copy=False)


def test_a_scalar_is_no_out(device):
    s = cm.arange(3.0).sum()
    with pytest.raises((TypeError, ValueError), match="add|sum"):
        cm.add(1, 2, out=s)
    with pytest.raises((TypeError, ValueError), match="sum"):
        cm.sum(cm.ones(3), out=s)


# -------------------- protocols


def test_values_that_are_no_numpy_scalars_count_as_scalars(device):
    """Those of bfloat16 are this package's own on the CPU too."""
    x = cm.asarray([[1, 2], [3, 4]], dtype="bfloat16")
    for value, number in ((x[0, 1], 2), (x.sum(), 10), (x.flat[2], 3), (x.T.flat[1], 3)):
        assert isinstance(value, cm.core.scalar.Scalar) and cm.isscalar(value)
        assert float(value) == number
    assert not cm.isscalar(x) and not cm.isscalar(cm.asarray(1, dtype="bfloat16"))
    part = x.T.flat[1:3]
    part[0] = 9
    assert x.tolist() == [[1, 2], [3, 4]] and part.tolist() == [9, 2]


@pytest.mark.parametrize("dtype", KINDS)
def test_scalars_act_as_numpys(device, dtype):
    data = np.array([1, 0, 3], dtype)
    ours, theirs = cm.array(data)[2], data[2]
    assert ours == theirs and hash(ours) == hash(theirs)
    assert repr(ours) == repr(theirs) and str(ours) == str(theirs)
    assert f"{ours}" == f"{theirs}" and ours.dtype == theirs.dtype
    assert {ours: 1}[theirs] == 1 and {theirs: 1}[ours] == 1
    assert type(ours.item()) is type(theirs.item())
    assert cm.isscalar(ours) and ours.shape == () and ours.ndim == 0
    for kind in (numbers.Number, numbers.Complex, numbers.Real, numbers.Integral):
        assert isinstance(ours, kind) == isinstance(theirs, kind), kind
    assert pickle.loads(pickle.dumps(ours)) == theirs
    assert copy.copy(ours) == copy.deepcopy(ours) == theirs
    assert bool(ours) == bool(theirs)
    if np.dtype(dtype).kind != "c":
        assert (int(ours), float(ours)) == (int(theirs), float(theirs))
        assert math.sqrt(ours) == math.sqrt(theirs)
    if np.dtype(dtype).kind in "iu":
        assert list(range(10))[ours] == 3 and "abcd"[ours] == "d" and ours.__index__() == 3
    if np.dtype(dtype).kind == "f":
        assert f"{ours:.3f}" == f"{theirs:.3f}" and round(ours) == round(theirs)


def test_scalars_are_numpys_on_the_cpu():
    with cm.device("cpu"):
        x = cm.arange(3.0)
        assert type(x[1]) is type(x.sum()) is type(x.sum() * 2) is type(cm.sin(x[1])) is np.float64
        assert json.dumps(x.mean()) == "1.0" and isinstance(x.mean(), float)
        assert isinstance(x.mean(), cm.floating) and isinstance(x.argmax(), cm.integer)
        pandas = pytest.importorskip("pandas")
        assert pandas.DataFrame([{"a": x.mean()}]).dtypes["a"] == np.float64


def test_functions_of_numpys_scalars_are_on_the_cpu(device):
    x = np.float64(2.0)
    assert type(cm.sqrt(x)) is np.float64 and cm.hypot(x, 3) == np.hypot(x, 3)
    assert cm.maximum(np.int8(3), np.int8(5)).dtype == np.int8
    assert (cm.ones(2) * x).tolist() == (x * cm.ones(2)).tolist() == [2.0, 2.0]
    assert (cm.ones(2, dtype="float32") * x).dtype == np.float64
    assert (cm.ones(2, dtype="float32") * np.float32(2)).dtype == np.float32


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_result_dtypes_of_scalars(device, dtype):
    ours, theirs = cm.array([1, 2], dtype), np.array([1, 2], dtype)
    for f in (
        lambda x: x[0] + 1,
        lambda x: x[0] + 1.5,
        lambda x: x[0] * x[1],
        lambda x: x.sum() / 3,
        lambda x: x.mean() + x,
        lambda x: -x.max(),
        lambda x: x.max() > 1,
        lambda x: x @ x,
        lambda x: divmod(x[1], 2)[0],
        lambda x: abs(x[0]),
        lambda x: x[0] ** 2,
        lambda x: 2 ** x[0],
        lambda x: x[0] // 2,
    ):
        assert f(ours).dtype == f(theirs).dtype
        np.testing.assert_allclose(value(f(ours)), f(theirs), rtol=1e-6)


CLASSES = "generic number integer signedinteger unsignedinteger inexact floating complexfloating"


@pytest.mark.parametrize("name", CLASSES.split())
def test_scalars_belong_to_numpys_classes(device, name):
    ours, theirs = getattr(cm, name), getattr(np, name)
    for dtype in KINDS:
        data = np.ones(1, dtype)
        assert isinstance(cm.array(data)[0], ours) == isinstance(data[0], theirs), dtype
        assert isinstance(data[0], ours) == isinstance(data[0], theirs)
        assert issubclass(data.dtype.type, ours) == issubclass(data.dtype.type, theirs)
        assert np.issubdtype(data.dtype, ours) == cm.issubdtype(data.dtype, ours)
        assert cm.issubdtype(data.dtype, ours) == np.issubdtype(data.dtype, theirs)
    assert not isinstance(1.0, ours) and not isinstance(cm.ones(()), ours)
    assert isinstance(cm.ones(2, dtype="bfloat16").sum(), ours) == issubclass(np.floating, theirs)


# -------------------- gradients


def test_scalars_are_differentiable(device):
    def f(x):
        total = x[0]
        for i in range(1, 3):
            total += x[i] * x[i - 1]
        return total * x.sum()

    x = cm.array([1.0, 2.0, 3.0])
    expected = [9 + 9 * (1 + 2), 9 + 9 * (1 + 3) - 9 + 0, 0]
    h, data = 1e-6, np.array([1.0, 2.0, 3.0])
    expected = [
        (float(f(cm.array(data + h * e))) - float(f(cm.array(data - h * e)))) / (2 * h)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(np.asarray(cm.grad(f)(x)), expected, rtol=1e-6)
    assert float(cm.grad(cm.grad(lambda t: t**3))(2.0)) == 12.0
    assert float(cm.grad(lambda t: t * t)(x[2])) == 6.0


# -------------------- random programs


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["read", "write", "iadd element", "iadd array", "iadd scalar", "view", "write view"]
            + ["sum", "scalar from scalars", "reverse", "swap", "fancy", "mask", "iadd view"]
        ),
        st.integers(0, 4),
        st.integers(0, 4),
        st.integers(-3, 3),
    ),
    min_size=1,
    max_size=12,
)


def run(xp, program):
    """A program of element reads, writes, in-place operators and views; all that it has seen."""
    x = xp.asarray(np.arange(1.0, 6.0))
    scalars, views = [xp.asarray(np.arange(2.0))[1]], [x]
    for what, i, j, number in program:
        s, v = scalars[i % len(scalars)], views[j % len(views)]
        if what == "read":
            scalars.append(v[i % len(v)])
        elif what == "write":
            v[i % len(v)] = s
        elif what == "iadd element":
            v[i % len(v)] += number
        elif what == "iadd array":
            x += number
        elif what == "iadd scalar":
            s += number
            scalars.append(s)
        elif what == "view":
            views.append(v[i % len(v) :])
        elif what == "write view":
            v[:] = s
        elif what == "iadd view":
            v[: i + 1] *= 2
        elif what == "sum":
            scalars.append(v.sum())
        elif what == "scalar from scalars":
            scalars.append(s * number - scalars[j % len(scalars)])
        elif what == "reverse":
            views.append(v[::-1])
        elif what == "swap":
            v[i % len(v)], v[j % len(v)] = v[j % len(v)], v[i % len(v)]
        elif what == "fancy":
            v[[i % len(v), j % len(v)]] = number
        elif what == "mask":
            v[v > number] = s
    return [x, *scalars, *views]


@pytest.mark.timeout(0 if "RANDOM_PROGRAMS" in os.environ else 600)
@settings(max_examples=int(os.environ.get("RANDOM_PROGRAMS", "200")))
@given(program=OPERATIONS)
def test_random_programs_mean_what_they_mean_in_numpy(device, program):
    for ours, theirs in zip(run(cm, program), run(np, program), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
