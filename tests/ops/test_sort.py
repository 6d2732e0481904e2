"""Sorting and sets against NumPy: every dtype, axes, strides, NaN, signed zeros, empties; errors;
gradients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BF16, awkward, shapes, views

import cudamath as cm

REAL = [
    np.dtype(t) for t in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
] + [BF16]
EXAMPLES = settings(max_examples=25)


def wide(x):
    """What NumPy orders rightly: it does not know bfloat16's NaNs."""
    return x.astype(np.float32) if x.dtype == BF16 else x


def mixed(seed, shape, dtype):
    """Awkward numbers and a few small ones, so that many are equal."""
    rng = np.random.default_rng(seed)
    some = (
        awkward(dtype)
        if dtype.kind in "f" or dtype == BF16
        else np.arange(2 if dtype.kind == "b" else 9).astype(dtype)
    )
    return rng.choice(some, shape).astype(dtype)


def same(got, expected):
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(wide(np.asarray(got)), wide(expected))


def descending_order(x, axis):
    """A stable sort in descending order."""
    n = x.shape[axis]
    return n - 1 - np.flip(np.argsort(np.flip(wide(x), axis), axis, kind="stable"), axis)


@EXAMPLES
@given(data=st.data(), seed=st.integers(0, 9999), dtype=st.sampled_from(REAL))
def test_sort_and_argsort(device, data, seed, dtype):
    shape = data.draw(shapes())
    view = data.draw(views(shape))
    base = mixed(seed, view.base, dtype)
    x, ours = view.of(base), view.of(cm.asarray(base))
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    flat, along = (x.ravel(), 0) if axis is None else (x, axis)
    order = np.argsort(wide(flat), along, kind="stable")
    same(cm.argsort(ours, axis=axis), order)
    same(cm.sort(ours, axis=axis), np.take_along_axis(flat, order, along))
    down = descending_order(flat, along)
    same(cm.argsort(ours, axis, descending=True), down)
    same(cm.sort(ours, axis, descending=True), np.take_along_axis(flat, down, along))


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("n", [1, 2049, 4096, 4097, 10_000])
def test_long_lines(device, dtype, n):
    x = mixed(n, (3, n), dtype)
    order = np.argsort(wide(x), 1, kind="stable")
    same(cm.argsort(cm.asarray(x)), order)
    same(cm.sort(cm.asarray(x)), np.take_along_axis(x, order, 1))
    same(cm.sort(cm.asarray(x.T), axis=0), np.take_along_axis(x, order, 1).T)


def test_sort_keeps_signed_zeros_in_their_order(device):
    x = np.array([0.0, -0.0, 1.0, -0.0, 0.0, -1.0])
    np.testing.assert_array_equal(
        np.signbit(np.asarray(cm.sort(cm.asarray(x)))), [True, False, True, True, False, False]
    )


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_sort_complex(device, dtype):
    parts = np.array([0.0, 1.0, -1.0, np.nan, np.inf])
    x = np.empty((5, 5), dtype)
    x.real, x.imag = parts[:, None], parts
    x = np.random.default_rng(0).permutation(x.ravel())
    same(cm.sort(cm.asarray(x)), np.sort(x))
    same(cm.argsort(cm.asarray(x)), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(np.asarray(cm.partition(cm.asarray(x), 4)[4]), np.sort(x)[4])


@pytest.mark.parametrize("dtype", [t for t in REAL if t not in (BF16, "?")], ids=str)
def test_sort_complex_of_real_numbers(device, dtype):
    x = np.array([3, 1, 2, 1], dtype)
    same(cm.sort_complex(cm.asarray(x)), np.sort_complex(x))


@EXAMPLES
@given(seed=st.integers(0, 9999), n=st.integers(0, 40), count=st.integers(1, 4))
def test_lexsort(device, seed, n, count):
    rng = np.random.default_rng(seed)
    keys = [rng.integers(0, 4, n).astype(t) for t in ("f4", "i8", "u1", "f8")[:count]]
    same(cm.lexsort([cm.asarray(k) for k in keys]), np.lexsort(keys))
    same(cm.lexsort(cm.asarray(np.stack(keys).astype("f8"))), np.lexsort(keys))


@EXAMPLES
@given(data=st.data(), seed=st.integers(0, 9999), dtype=st.sampled_from(REAL))
def test_partition_and_topk(device, data, seed, dtype):
    shape = data.draw(shapes(3, 9).filter(lambda s: s and 0 not in s))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = mixed(seed, shape, dtype)
    k = data.draw(st.integers(-x.shape[axis], x.shape[axis] - 1))
    order = np.argsort(wide(x), axis, kind="stable")
    ordered = wide(np.take_along_axis(x, order, axis))
    for found in (
        cm.partition(cm.asarray(x), k, axis),
        cm.take_along_axis(cm.asarray(x), cm.argpartition(cm.asarray(x), [k, 0], axis), axis),
    ):
        assert found.dtype == dtype
        got = np.moveaxis(wide(np.asarray(found)), axis, -1)
        rank = k % x.shape[axis]
        np.testing.assert_array_equal(got[..., rank], np.take(ordered, k, axis))
        np.testing.assert_array_equal(np.sort(got, -1), np.moveaxis(ordered, axis, -1))
        np.testing.assert_array_equal(
            np.sort(got[..., :rank], -1), np.moveaxis(ordered, axis, -1)[..., :rank]
        )
    k = k % x.shape[axis]
    for largest in (True, False):
        picked = np.take(descending_order(x, axis) if largest else order, range(k), axis)
        values, positions = cm.topk(cm.asarray(x), k, axis, largest=largest)
        same(positions, picked)
        same(values, np.take_along_axis(x, picked, axis))


def test_gradients_lead_back(device):
    x = cm.asarray([[3.0, 1.0, 2.0], [5.0, 7.0, 6.0]])
    w = cm.asarray([[1.0, 10.0, 100.0]])
    for function in (cm.sort, lambda x: cm.partition(x, (0, 1)), lambda x: -cm.topk(-x, 3)[0]):
        assert cm.grad(lambda x, f=function: (f(x) * w).sum())(x).tolist() == [
            [100, 1, 10],
            [1, 100, 10],
        ]


@pytest.mark.parametrize("kind", ["quick", "Q", "heap", "m", "stab", "mergesort", "x", "", 3])
def test_kinds_are_read_by_their_first_letter(device, kind):
    x = np.array([3, 1, 2])
    for name in ("sort", "argsort"):
        try:
            expected = getattr(np, name)(x, kind=kind)
        except (ValueError, TypeError) as error:
            with pytest.raises(type(error), match=f"^{name}: kind must be"):
                getattr(cm, name)(cm.asarray(x), kind=kind)
        else:
            same(getattr(cm, name)(cm.asarray(x), kind=kind), expected)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: cm.sort(cm.zeros((2, 3)), 2), ValueError, "sort: .*2"),
        (lambda: cm.sort(cm.zeros(3), kind="bogus"), ValueError, "sort: kind .*bogus"),
        (lambda: cm.argsort(cm.asarray(3.0), 1), ValueError, "argsort: "),
        (lambda: cm.partition(cm.zeros(3), 3), ValueError, r"partition: kth 3 .*\(3,\)"),
        (lambda: cm.argpartition(cm.zeros(3), 1.5), TypeError, "argpartition: kth .*1.5"),
        (lambda: cm.topk(cm.zeros(3), 4), ValueError, r"topk: k = 4 .*\(3,\)"),
        (lambda: cm.lexsort(()), ValueError, "lexsort: "),
        (lambda: cm.lexsort((cm.zeros(3), cm.zeros(2))), ValueError, r"lexsort: .*\(3,\) \(2,\)"),
        (lambda: cm.unique(cm.zeros(2), axis=1), ValueError, "unique: "),
    ],
)
def test_errors(device, call, error, words):
    with pytest.raises(error, match=words):
        call()


# -------------------- sets


@EXAMPLES
@given(
    data=st.data(), seed=st.integers(0, 9999), dtype=st.sampled_from([t for t in REAL if t != BF16])
)
def test_unique(device, data, seed, dtype):
    shape = data.draw(shapes(3))
    x = mixed(seed, shape, dtype)
    for got, expected in zip(
        cm.unique(cm.asarray(x), True, True, True), np.unique(x, True, True, True), strict=True
    ):
        same(got, expected)
    for equal_nan in (True, False):
        same(cm.unique(cm.asarray(x), equal_nan=equal_nan), np.unique(x, equal_nan=equal_nan))
    for ours, theirs in zip(cm.unique_all(cm.asarray(x)), np.unique_all(x), strict=True):
        same(ours, theirs)


@pytest.mark.parametrize("n", [3, 2000])
def test_sets_have_no_gradient_whichever_way_they_take(device, n):
    x = cm.asarray(np.random.default_rng(3).integers(0, 50, n) / 4)
    y = cm.asarray([0.25, 0.5, 77.0])
    options = [
        {
            name: True
            for i, name in enumerate(("return_index", "return_inverse", "return_counts"))
            if bits >> i & 1
        }
        for bits in range(8)
    ]
    calls = [
        lambda x, o=o, more=more: cm.unique(x, **o, **more)
        for o in options
        for more in ({}, {"axis": 0}, {"equal_nan": False})
    ]
    calls += [
        cm.unique_values,
        cm.unique_counts,
        cm.unique_inverse,
        cm.unique_all,
        lambda x: cm.unique(x + 1j),
        lambda x: cm.unique(cm.stack([x, x], 1), axis=0),
        lambda x: cm.union1d(x, y),
    ]
    calls += [
        lambda x, f=f, a=a: f(x, y, assume_unique=a)
        for f in (cm.intersect1d, cm.setdiff1d, cm.setxor1d)
        for a in (False, True)
    ]
    calls.append(lambda x: cm.intersect1d(x, y, return_indices=True))
    for call in calls:

        def loss(x, call=call):
            found = call(x)
            values = found[0] if isinstance(found, tuple) else found
            return values.real.sum() + (x * 2).sum()

        assert cm.grad(loss)(x).tolist() == [2.0] * n


def test_unique_names_its_parts():
    found = cm.unique_all(cm.asarray([[2, 1], [2, 3]]))
    assert found.values.tolist() == [1, 2, 3] and found.counts.tolist() == [1, 2, 1]
    assert found.indices.tolist() == [1, 0, 3] and found.inverse_indices.tolist() == [
        [1, 0],
        [1, 2],
    ]
    assert cm.unique_counts(cm.asarray([1, 1])).counts.tolist() == [2]
    assert cm.unique_inverse(cm.asarray([[5], [4]])).inverse_indices.tolist() == [[1], [0]]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_along_an_axis(device, axis):
    x = np.random.default_rng(3).integers(0, 2, (6, 3, 2))
    expected = np.unique(x, True, True, True, axis=axis)
    for got, truth in zip(
        cm.unique(cm.asarray(x), True, True, True, axis=axis), expected, strict=True
    ):
        np.testing.assert_array_equal(np.asarray(got), truth)


@EXAMPLES
@given(
    seed=st.integers(0, 9999),
    sizes=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    dtypes=st.tuples(*[st.sampled_from(["i1", "i8", "u2", "f4", "f8"])] * 2),
)
def test_sets(device, seed, sizes, dtypes):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 9, n).astype(t) for n, t in zip(sizes, dtypes, strict=True))
    x, y = cm.asarray(a), cm.asarray(b)
    same(cm.isin(x, y), np.isin(a, b))
    same(cm.isin(x, y, invert=True), np.isin(a, b, invert=True))
    for name in ("intersect1d", "union1d", "setdiff1d", "setxor1d"):
        got, expected = getattr(cm, name)(x, y), getattr(np, name)(a, b)
        np.testing.assert_array_equal(np.asarray(got), expected, err_msg=name)
    for got, expected in zip(
        cm.intersect1d(x, y, return_indices=True),
        np.intersect1d(a, b, return_indices=True),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(got), expected)


def test_nan_is_in_no_set(device):
    x = cm.asarray([1.0, np.nan])
    assert cm.isin(x, x).tolist() == [True, False]
