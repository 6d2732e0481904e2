"""What NumPy's users are used to: `out=`, `where=`, `order=`, ufuncs and their methods, NumPy's
functions on our arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_comparison import CUBE, HOLES, MATRIX, RNG, WHOLE, agree

import cudamath as cm

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


# -------------------- out, where, initial, dtype, order


def test_out_where_dtype_of_elementwise_functions(device):
    x, y = cm.asarray(CUBE), cm.asarray(MATRIX)
    mask = MATRIX > 0
    out = cm.zeros((3, 4, 5))
    assert cm.add(x, y, out=out) is out and cm.add(x, y, out) is out
    agree(out, CUBE + MATRIX)
    expected = CUBE + MATRIX
    np.multiply(CUBE, 2.0, out=expected, where=mask)
    cm.multiply(x, 2.0, out=out, where=cm.asarray(mask))
    agree(out, expected)
    cm.sqrt(cm.abs(out), out=out)
    agree(out, np.sqrt(np.abs(expected)))
    cm.negative(out, out=out)  # into itself
    agree(out, -np.sqrt(np.abs(expected)))
    agree(cm.sqrt(cm.asarray(WHOLE), dtype="float32"), np.sqrt(WHOLE, dtype=np.float32))
    agree(cm.add(cm.asarray(WHOLE), 1, dtype=np.float64), np.add(WHOLE, 1, dtype=np.float64))
    assert cm.add(cm.asarray(WHOLE), cm.asarray(WHOLE), dtype="bfloat16").dtype == cm.bfloat16
    agree(cm.clip(x, -1.0, 1.0, out=out), np.clip(CUBE, -1, 1))
    agree(cm.clip(x, a_min=-1.0, a_max=None), np.clip(CUBE, -1, None))
    agree(cm.pow(x, 2, out=out), CUBE**2)
    agree(cm.round(x, 1, out=out), np.round(CUBE, 1))
    agree(cm.add(x, y, where=cm.asarray(mask)), np.where(mask, CUBE + MATRIX, 0))
    with pytest.raises(TypeError, match="^add: .*float64.*int64"):
        cm.add(x, y, out=cm.zeros((3, 4, 5), dtype="int64"))
    with pytest.raises(ValueError, match=r"^add: .*\(3, 4, 5\).*\(4, 5\)"):
        cm.add(x, y, out=cm.zeros((4, 5)))
    with pytest.raises(
        TypeError, match="^add: out must be an ndarray of this package, got numpy.ndarray"
    ):
        cm.add(x, y, out=np.zeros((3, 4, 5)))
    with pytest.raises(TypeError, match="^add: cannot compute in dtype int32"):
        cm.add(x, y, dtype="int32")
    with pytest.raises(RuntimeError, match="^(add|setitem): "):
        cm.grad(lambda v: cm.add(v, 1.0, out=cm.zeros((4, 5))).sum())(y)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all"])
@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
def test_out_where_initial_of_reductions(device, name, axis):
    mask = CUBE > -1
    mask[:, 0, 0] = True
    ours, theirs, x = getattr(cm, name), getattr(np, name), cm.asarray(CUBE)
    more = {"initial": 0.25} if name in ("max", "min") else {}
    agree(
        ours(x, axis=axis, where=cm.asarray(mask), **more),
        theirs(CUBE, axis=axis, where=mask, **more),
    )
    expected = theirs(CUBE, axis=axis, keepdims=True)
    out = cm.zeros(expected.shape, expected.dtype)
    assert ours(x, axis=axis, keepdims=True, out=out) is out
    agree(out, expected)
    if name in ("sum", "prod", "max", "min"):
        agree(ours(x, axis=axis, initial=3.5), theirs(CUBE, axis=axis, initial=3.5))
        agree(
            ours(cm.zeros((0, 3)), axis=0, initial=2.5),
            theirs(np.zeros((0, 3)), axis=0, initial=2.5),
        )
        agree(
            ours(cm.zeros((0, 3)), axis=1, initial=2.5),
            theirs(np.zeros((0, 3)), axis=1, initial=2.5),
        )
    if name in ("mean", "var", "std"):
        agree(ours(x, axis=axis, dtype="float32"), theirs(CUBE, axis=axis, dtype=np.float32))
    if name in ("var", "std"):
        z = MATRIX + 1j * MATRIX[::-1]
        agree(ours(cm.asarray(z), ddof=1), theirs(z, ddof=1))
    else:
        with pytest.raises(TypeError):
            ours(x, axis=axis, ddof=1)


@pytest.mark.parametrize(
    "name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"]
)
def test_nan_reductions_take_the_same_options(device, name):
    mask, x = CUBE > -2, cm.asarray(HOLES)
    more = {"initial": 0.25} if name in ("nanmax", "nanmin", "nansum", "nanprod") else {}
    for array, base in ((x, HOLES), (cm.asarray(WHOLE), WHOLE)):
        where = mask if base is HOLES else WHOLE < 2
        if base is WHOLE and more:
            more = {"initial": 1}
        expected = getattr(np, name)(base, axis=0, where=where, **more)
        agree(getattr(cm, name)(array, axis=0, where=cm.asarray(where), **more), expected)
    out = cm.zeros((3, 5))
    assert getattr(cm, name)(x, axis=1, out=out) is out
    agree(out, getattr(np, name)(HOLES, axis=1))


def test_reductions_that_want_an_initial_value(device):
    x = cm.asarray(CUBE)
    with pytest.raises(ValueError, match="^max: where= wants an initial value"):
        cm.max(x, where=x > 0)
    with pytest.raises(ValueError, match="^max: "):
        cm.max(cm.zeros((0, 3)), axis=0)


def test_order_and_flags(device):
    for make in (
        lambda xp, **k: xp.zeros((2, 3), **k),
        lambda xp, **k: xp.full((2, 3), 1.5, **k),
        lambda xp, **k: xp.asarray(xp.ones((2, 3)), **k),
        lambda xp, **k: xp.ones((2, 3)).astype("float32", **k),
        lambda xp, **k: xp.copy(xp.ones((2, 3)).T, **k),
        lambda xp, **k: xp.zeros_like(xp.ones((2, 3)).T, **k),
    ):
        for order in ("C", "F"):
            ours, theirs = make(cm, order=order), make(np, order=order)
            assert (ours.strides, ours.dtype) == (theirs.strides, theirs.dtype)
            for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED"):
                assert ours.flags[flag] == theirs.flags[flag]
    x, a = cm.asarray(CUBE), CUBE
    for order in ("C", "F", "A"):
        agree(x.reshape((5, -1), order=order), a.reshape((5, -1), order=order))
        agree(x.T.reshape((6, 10), order=order), a.T.reshape((6, 10), order=order))
        agree(x.T.ravel(order), a.T.ravel(order))
        agree(cm.flatten(x[:, ::2], order), a[:, ::2].flatten(order))
    assert (
        not cm.broadcast_to(x, (2, 3, 4, 5)).flags.writeable
        and x.flags.c_contiguous
        and x.T.flags.fnc
        and x.T.flags.forc
    )
    assert x.flags["C"] and not x[:, ::2].flags.contiguous
    with pytest.raises(KeyError, match="no flag 'Y'"):
        x.flags["Y"]
    with pytest.raises(ValueError, match="^zeros: order must be"):
        cm.zeros(3, order="X")
    with pytest.raises(TypeError, match="^astype: float64 cannot become int64 by the rule 'safe'"):
        x.astype("int64", casting="safe")


# -------------------- ufuncs and their methods, NumPy's functions on our arrays


UFUNCS = [
    "add",
    "multiply",
    "maximum",
    "minimum",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "fmax",
    "hypot",
    "logaddexp",
    "subtract",
]


@pytest.mark.parametrize("name", UFUNCS)
def test_ufunc_methods(device, name):
    base = (
        RNG.integers(0, 9, (3, 7, 2))
        if name.startswith(("bitwise", "logical"))
        else RNG.integers(1, 9, (3, 7, 2)) / 4
    )
    ours, theirs, x = getattr(cm, name), getattr(np, name), cm.asarray(base)
    for axis in (0, 1, -1):
        agree(ours.reduce(x, axis=axis), theirs.reduce(base, axis=axis))
        agree(
            ours.reduce(x, axis=axis, keepdims=True), theirs.reduce(base, axis=axis, keepdims=True)
        )
        if not name.startswith("logical"):
            agree(ours.accumulate(x, axis=axis), theirs.accumulate(base, axis=axis))
        agree(
            theirs.reduce(x, axis=axis), theirs.reduce(base, axis=axis)
        )  # through __array_ufunc__
    if name != "subtract":
        agree(ours.reduce(x, axis=None), theirs.reduce(base, axis=None))
    agree(ours.outer(x[0], x[1]), theirs.outer(base[0], base[1]))
    agree(theirs.outer(x[0], x[1]), theirs.outer(base[0], base[1]))


def test_ufunc_at(device):
    for name in ("add", "subtract", "multiply", "maximum", "minimum"):
        ours, theirs = cm.full(5, 1.5), np.full(5, 1.5)
        getattr(cm, name).at(ours, [0, 3, 0], cm.asarray([1.0, 2.0, 3.0]))
        getattr(np, name).at(theirs, [0, 3, 0], [1.0, 2.0, 3.0])
        agree(ours, theirs)
        getattr(np, name).at(ours, [1, 1], 1.0)
        getattr(np, name).at(theirs, [1, 1], 1.0)
        agree(ours, theirs)
    with pytest.raises(ValueError, match="^maximum.reduce: |^max: "):
        cm.maximum.reduce(cm.zeros(0))
    with pytest.raises(ValueError, match="^divide.reduce: "):
        cm.divide.reduce(cm.ones((2, 2)), axis=None)


PLACES = (
    np.array([0, 2, 0, -1, 2, 2]),
    [1, 1, 3],
    slice(1, None, 2),
    np.array([True, False, True, True]),
    (),
    ...,
)


@pytest.mark.parametrize(
    "name",
    [
        "divide",
        "power",
        "fmax",
        "hypot",
        "arctan2",
        "bitwise_or",
        "left_shift",
        "logical_or",
        "logical_xor",
        "negative",
        "sqrt",
        "square",
    ],
)
def test_ufunc_at_in_rounds(device, name):
    """Functions for which there is no scatter: each position in as many rounds as it occurs."""
    whole = name in ("bitwise_or", "left_shift")
    base = (
        np.arange(1, 5)
        if whole
        else np.arange(4) % 2 == 0
        if name.startswith("logical")
        else np.arange(1, 5) / 2
    )
    for places in PLACES:
        for turned in (False, True):
            theirs = base.copy()
            values = (
                ()
                if getattr(np, name).nin == 1
                else (
                    (np.arange(theirs[places].size) % 3 + 1)
                    .astype("i8" if whole else "f8")
                    .reshape(theirs[places].shape),
                )
            )
            ours = cm.asarray(base[::-1].copy())[::-1] if turned else cm.asarray(base, copy=True)
            getattr(np, name).at(theirs, places, *values)
            getattr(cm, name).at(
                ours,
                cm.asarray(places) if isinstance(places, np.ndarray) else places,
                *map(cm.asarray, values),
            )
            agree(ours, theirs)
            getattr(np, name).at(ours, places, *values)  # through __array_ufunc__
            getattr(np, name).at(theirs, places, *values)
            agree(ours, theirs)
    grid, expected = cm.ones((2, 3), "float32"), np.ones((2, 3), "f4")
    if name == "divide":
        cm.divide.at(grid, ([0, 1, 0], [2, 2, 2]), 4)
        np.divide.at(expected, ([0, 1, 0], [2, 2, 2]), 4)
        agree(grid, expected)
        cm.divide.at(grid, [0, 0], cm.asarray([2.0, 4.0, 8.0]))
        np.divide.at(expected, [0, 0], [2.0, 4.0, 8.0])
        agree(grid, expected)
        whole, rounded = cm.arange(3) + 5, np.arange(3) + 5  # results are converted
        cm.divide.at(whole, [0, 0, 1], 2)
        np.divide.at(rounded, [0, 0, 1], 2)
        agree(whole, rounded)
        with pytest.raises(IndexError):
            cm.divide.at(grid, [2], 2.0)
        with pytest.raises(RuntimeError, match="gradient"):
            cm.grad(lambda v: [cm.divide.at(v, [0], 2.0), v.sum()][1])(cm.ones(3))


@pytest.mark.parametrize(
    "name", ["bitwise_and", "bitwise_xor", "subtract", "divide", "fmax", "hypot", "gcd"]
)
def test_reductions_that_begin_with_a_number(device, name):
    base = (
        RNG.integers(1, 40, (3, 4, 2))
        if name.startswith(("bitwise", "gcd"))
        else RNG.integers(1, 9, (3, 4, 2)) / 4
    )
    ours, theirs = getattr(cm, name), getattr(np, name)
    for axis in (0, -1, *(((0, 2), None) if name not in ("subtract", "divide") else ())):
        for keepdims in (False, True):
            agree(
                ours.reduce(cm.asarray(base), axis=axis, initial=12, keepdims=keepdims),
                theirs.reduce(base, axis=axis, initial=12, keepdims=keepdims),
            )
    agree(
        ours.reduce(cm.asarray(base[:0]), axis=0, initial=12),
        theirs.reduce(base[:0], axis=0, initial=12),
    )
    chosen = base > 1
    if name in ("subtract", "divide"):
        with pytest.raises(ValueError, match=rf"^{name}.reduce: where= wants"):
            ours.reduce(cm.asarray(base), where=chosen, initial=12)
    else:
        agree(
            ours.reduce(cm.asarray(base), axis=1, where=cm.asarray(chosen), initial=12),
            theirs.reduce(base, axis=1, where=chosen, initial=12),
        )
    with pytest.raises(TypeError, match=rf"^{name}.reduce: takes no casting"):
        ours.reduce(cm.asarray(base), casting="no")


@pytest.mark.parametrize("name", ["logical_or", "logical_and"])
def test_sections_of_bools(device, name):
    for base in (RNG.random((3, 9)) < 0.5, RNG.integers(0, 2, (3, 9))):
        for starts in ([0, 3, 4], [5, 2, 2, 8]):
            ours, theirs = [
                getattr(xp, name).reduceat(xp.asarray(base), starts, axis=1) for xp in (cm, np)
            ]
            agree(ours, theirs)


NUMPY_CALLS: list[Callable[[Any], Any]] = [
    lambda x: np.sin(x),
    lambda x: np.add(x, 1.0),
    lambda x: np.multiply(2.0, x),
    lambda x: np.fmax(x, 0.5),
    lambda x: np.divmod(x, 1.5),
    lambda x: np.sqrt(np.abs(x), dtype=np.float64),
    lambda x: np.power(x, 2),
    lambda x: np.concatenate([x, x], axis=1),
    lambda x: np.stack([x, x]),
    lambda x: np.where(x > 0, x, 0),
    lambda x: np.sum(x, axis=0),
    lambda x: np.mean(x, axis=(0, 1), keepdims=True),
    lambda x: np.std(x, ddof=1),
    lambda x: np.max(x),
    lambda x: np.argmax(x, axis=1),
    lambda x: np.clip(x, -1, 1),
    lambda x: np.reshape(x, (5, -1)),
    lambda x: np.transpose(x),
    lambda x: np.einsum("ijk->kj", x),
    lambda x: np.linalg.norm(x, axis=1),
    lambda x: np.cumsum(x),
    lambda x: np.sort(x, axis=0),
    lambda x: np.median(x, axis=1),
    lambda x: np.percentile(x, 30),
    lambda x: np.diff(x),
    lambda x: np.tensordot(x, x, axes=([0, 1], [0, 1])),
    lambda x: np.nanmean(x, axis=0),
    lambda x: np.zeros_like(x),
    lambda x: np.expand_dims(x, 0),
    lambda x: np.roll(x, 2),
    lambda x: np.flip(x, 1),
    lambda x: np.pad(x, 1),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
    lambda x: np.isclose(x, x),
    lambda x: np.round(x, 1),
    lambda x: np.atleast_2d(x),
    lambda x: np.apply_along_axis(lambda v: v.sum(), 0, x),
    lambda x: np.broadcast_to(x, (2, *x.shape)),
    lambda x: np.cov(x[0]),
    lambda x: np.outer(x[0, 0], x[0, 1]),
    lambda x: np.take(x, [0, 2], axis=0),
    lambda x: np.nan_to_num(x),
]


@pytest.mark.parametrize("index", range(len(NUMPY_CALLS)))
def test_numpys_functions_on_our_arrays(device, index):
    agree(NUMPY_CALLS[index](cm.asarray(CUBE)), NUMPY_CALLS[index](CUBE))


def test_numpys_out(device):
    out = cm.zeros(CUBE.shape)
    assert np.add(cm.asarray(CUBE), 1.0, out=out) is out
    agree(out, CUBE + 1)
    total = cm.zeros((4, 5))
    assert np.sum(cm.asarray(CUBE), axis=0, out=total) is total
    agree(total, CUBE.sum(0))
    with pytest.raises(TypeError):
        np.isnat(cm.asarray(CUBE))  # nothing of that name here


def test_methods(device):
    x, a = cm.asarray(CUBE), CUBE.copy()
    for call in (
        lambda v: v.cumsum(axis=1),
        lambda v: v.argsort(axis=0),
        lambda v: v.diagonal(1, 1, 2),
        lambda v: v.trace(),
        lambda v: v.repeat(2, axis=1),
        lambda v: v.compress([True, False, True], axis=0),
        lambda v: v.conjugate(),
        lambda v: v.ravel().searchsorted(0.5) * 0,
        lambda v: v.view("int64"),
        lambda v: v.astype("float32").view("int16"),
        lambda v: v.astype("float32").reshape(5, 12).view("float64"),
        lambda v: v.sum(axis=0, initial=2.0),
        lambda v: v.mean(dtype="float32"),
        lambda v: v.clip(-1, 1),
        lambda v: v.round(1),
    ):
        theirs = call(a)
        if isinstance(theirs, np.generic | np.ndarray):
            agree(call(x), theirs)
    assert bytes(x) == bytes(a) and bytes(x.T) == bytes(a.T)
    y, b = cm.array(CUBE), CUBE.copy()
    y.sort(axis=1)
    b.sort(axis=1)
    agree(y, b)
    y.put([0, -1], [7.0, 8.0])
    b.put([0, -1], [7.0, 8.0])
    agree(y, b)
    assert [float(v) for v in x[0, :2].flat] == a[0, :2].ravel().tolist() and len(x.flat) == 60
    agree(x.flat[7:50:3], a.flat[7:50:3])
    agree(x.T.flat[7], a.T.flat[7])
    y.T.flat[3:9] = 0.5
    b.T.flat[3:9] = 0.5
    agree(y, b)
    with pytest.raises(ValueError, match="^view: "):
        x[:, :, ::2].view("float32")


def test_in_place_selections(device):
    for name, args in (
        ("put_along_axis", (np.array([[[1], [0], [3], [2]]]), 9.0, 2)),
        ("place", (CUBE > 1, [1.0, 2.0, 3.0])),
        ("putmask", (CUBE > 1, [1.0, 2.0, 3.0])),
        ("put_along_axis", (np.array([3, 50]), [1.0, 2.0], None)),
    ):
        ours, theirs = cm.array(CUBE), CUBE.copy()
        getattr(cm, name)(ours, *[cm.asarray(v) if isinstance(v, np.ndarray) else v for v in args])
        getattr(np, name)(theirs, *args)
        agree(ours, theirs)
    for shape in ((4, 3), (3, 3, 3)):
        ours, theirs = cm.zeros(shape), np.zeros(shape)
        cm.fill_diagonal(ours, [1.0, 2.0, 3.0])
        np.fill_diagonal(theirs, [1.0, 2.0, 3.0])
        agree(ours, theirs)


def test_put_along_axis_again_and_again(device):
    """Numbers and arrays, few and many places of a line, repeated ones, layouts seen before, memory
    that overlaps."""
    rng = np.random.default_rng(5)
    for shape, axis, m in (
        ((4, 5), 1, 1),
        ((4, 5), -1, 7),
        ((3, 4, 5), 0, 2),
        ((2, 3, 4), 1, 6),
        ((2, 90), 1, 80),
        ((1, 3), 1, 2),
    ):
        a = rng.standard_normal(shape).astype("f4")
        places = (*shape[: axis % len(shape)], m, *shape[axis % len(shape) + 1 :])
        for turn in range(2):
            index = rng.integers(-a.shape[axis], a.shape[axis], places).astype(
                "i8" if turn else "i4"
            )
            for values in (
                turn,
                2.5,
                rng.standard_normal(places).astype("f4"),
                rng.standard_normal(places),
                np.float32(3),
                rng.standard_normal(places[1:]).astype("f4"),
            ):
                for order in ("C", "F"):
                    ours, theirs = cm.asarray(a, order=order), a.copy()
                    cm.put_along_axis(
                        ours,
                        cm.asarray(index),
                        cm.asarray(values) if np.ndim(values) else values,
                        axis,
                    )
                    np.put_along_axis(theirs, index, values, axis)
                    np.testing.assert_array_equal(ours.to_numpy(), theirs)
    x = cm.asarray(np.array([[2, 0, 1], [1, 2, 0]]))
    cm.put_along_axis(x, x[:, :2], 9, 1)  # its own places
    assert x.tolist() == [[9, 0, 9], [1, 9, 9]]
    cm.put_along_axis(x, cm.asarray([[0, 1], [2, 1]]), x[:, 1:], 1)  # its own values
    assert x.tolist() == [[0, 9, 9], [1, 9, 9]]
    for _ in range(2):
        with pytest.raises(IndexError, match="^put_along"):
            cm.put_along_axis(x, cm.asarray([[3], [0]]), 1, 1)
            x.to_numpy()
    with pytest.raises(ValueError, match="as many dimensions"):
        cm.put_along_axis(x, cm.asarray([0, 1]), 1, 1)
    with pytest.raises(RuntimeError, match="^put_along_axis: .*gradient"):
        cm.grad(lambda v: [cm.put_along_axis(v, cm.zeros((2, 1), "int64"), 0.0, 1), v.sum()][1])(
            x.astype("float32")
        )


def test_grids(device):
    agree(cm.mgrid[0:2, 1:3:0.5], np.mgrid[0:2, 1:3:0.5])
    agree(cm.mgrid[0:5], np.mgrid[0:5])
    agree(list(cm.ogrid[0:2, 0:1:3j]), list(np.ogrid[0:2, 0:1:3j]))
    agree(
        cm.meshgrid(cm.arange(3), cm.arange(2.0), sparse=True),
        np.meshgrid(np.arange(3), np.arange(2.0), sparse=True),
    )
    rows = np.array([[0.0, 1.0], [2.0, 3.0]])
    for options in ({}, {"endpoint": False}, {"axis": -1}, {"dtype": "int64"}):
        agree(
            cm.linspace(cm.asarray(rows), 5.0, 4, **options), np.linspace(rows, 5.0, 4, **options)
        )
    assert cm.linspace(0, 1, 5, retstep=True)[1] == 0.25


def test_sliding_windows(device):
    x = cm.asarray(CUBE)
    for window, axis in ((2, 1), ((2, 3), (0, 2)), ((2, 2), (1, 1)), ((1, 2, 3), None), (0, 0)):
        ours = cm.lib.stride_tricks.sliding_window_view(x, window, axis)
        agree(ours, np.lib.stride_tricks.sliding_window_view(CUBE, window, axis))
    with pytest.raises(ValueError, match="^sliding_window_view: "):
        cm.sliding_window_view(x, 9, 0)
    with pytest.raises(ValueError, match="^setitem: "):
        cm.sliding_window_view(x, 2, 0)[...] = 0


def test_arrays_of_numpy_are_written_by_arrays_of_the_cpu():
    """`a += x` of NumPy's array and ours, and np.add(x, y, out=a): a keeps its dtype and its
    memory, as with two arrays of NumPy."""
    with cm.device("cpu"):
        x, mask = cm.asarray(MATRIX), cm.asarray(MATRIX > 0)
        a, expected = MATRIX.astype(np.float32), MATRIX.astype(np.float32)
        view = a[:]
        for operate in (operator.iadd, operator.isub, operator.imul, operator.itruediv):
            a, expected = operate(a, x), operate(expected, MATRIX)
            assert type(a) is np.ndarray
            np.testing.assert_array_equal(a, expected)
        np.testing.assert_array_equal(view, expected)
        assert np.add(x, x, out=a, where=mask) is a
        np.testing.assert_array_equal(a, np.add(MATRIX, MATRIX, out=expected, where=MATRIX > 0))
        np.add.accumulate(x, axis=0, out=a)
        np.testing.assert_array_equal(a, np.add.accumulate(MATRIX, axis=0, out=expected))
        whole = np.zeros(MATRIX.shape, int)
        with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output"):
            whole += x
        with pytest.raises(TypeError, match="gradient is being recorded and would be lost"):
            cm.grad(lambda v: np.add(v, 1.0, out=a).sum())(x)


@pytest.mark.gpu
def test_arrays_of_numpy_are_not_written_by_arrays_of_a_gpu():
    a = MATRIX.copy()
    with pytest.raises(TypeError, match="^add: out must be an ndarray of this package"):
        a += cm.asarray(MATRIX, device="cuda")
    np.testing.assert_array_equal(a, MATRIX)
