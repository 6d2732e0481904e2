"""Indexing against NumPy: keys of every kind, read and written, gradients, scatter, selection."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from index_keys import SHAPE_AND_KEY

import cudamath as cm
from cudamath.core import advanced_indexing, indexing

DTYPES = [
    np.dtype(t)
    for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
]
DTYPES.append(np.dtype(cm.bfloat16))
INDEX_DTYPES = ["i1", "u1", "i2", "i4", "u4", "i8", "u8"]


def same(ours, expected):
    """Equal in shape, dtype and every element."""
    expected = np.asarray(expected)
    assert isinstance(ours, (cm.ndarray, np.generic))
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(ours), expected)


def numbered(shape, dtype=np.float64):
    return (np.arange(1, 1 + np.prod(shape, dtype=int)) % 97).reshape(shape).astype(dtype)


def raises_on(device, error, call, match=None):
    """The call raises: at once on the CPU, at the latest at the next synchronisation on a GPU."""
    with pytest.raises(error, match=match):
        call()
        if device == "cuda":
            cm.cuda.synchronize()


# -------------------- keys


def on_device(key):
    """The key's NumPy arrays as arrays of the default device."""
    if isinstance(key, tuple):
        return tuple(on_device(item) for item in key)
    return cm.asarray(key) if isinstance(key, np.ndarray) else key


@settings(max_examples=300)
@given(SHAPE_AND_KEY, st.booleans(), st.sampled_from(DTYPES))
def test_getitem(device, case, converted, dtype):
    shape, key = case
    x = numbered(shape, dtype)
    ours = cm.asarray(x)
    given_ = on_device(key) if converted else key
    try:
        expected = x[key]
    except (IndexError, ValueError) as error:
        raises_on(device, type(error), lambda: ours[given_])
        return
    result = ours[given_]
    same(result, expected)
    if device == "cpu" and isinstance(expected, np.ndarray) and expected.size:
        assert np.shares_memory(np.asarray(result), x) == np.shares_memory(expected, x)


@settings(max_examples=300)
@given(SHAPE_AND_KEY, st.data())
def test_getitem_gradient(device, case, data):
    """<g, x[key]> = <pull(g), x>, exactly, in small integers; for views of x too."""
    shape, key = case
    x = cm.asarray(numbered(shape))
    if data.draw(st.booleans()):
        x = cm.copy(x.T).T
    try:
        expected = numbered(shape)[key]
    except (IndexError, ValueError):
        return
    y, pull = cm.vjp(lambda x: x[key], x)
    same(y, expected)
    weights = ((np.arange(y.size) * 7) % 11 - 5.0).reshape(y.shape)
    (g,) = pull(cm.asarray(weights))
    assert (g.shape, g.dtype) == (x.shape, x.dtype)
    assert np.vdot(np.asarray(g), np.asarray(x)) == np.vdot(weights, expected)
    h, back = cm.vjp(lambda w: pull(w)[0], cm.asarray(weights))
    same(h, np.asarray(g))
    same(back(x)[0], expected)  # the gradient of the gradient takes again


@settings(max_examples=300)
@given(
    SHAPE_AND_KEY,
    st.sampled_from(["scalar", "full", "row", "other dtype", "misfit"]),
    st.sampled_from(DTYPES),
    st.data(),
)
def test_setitem(device, case, what, dtype, data):
    shape, key = case
    x = numbered(shape, dtype)
    turned = data.draw(st.booleans())  # write through a view
    x = x.T.copy().T if turned else x
    ours = cm.asarray(x.T.copy()).T if turned else cm.asarray(x.copy())
    try:
        target = x[key].shape
    except (IndexError, ValueError) as error:
        raises_on(device, type(error), lambda: ours.__setitem__(key, 1))
        return
    value = {
        "scalar": True if dtype.kind == "b" else 1.0 if dtype.kind != "c" else 1 + 2j,
        "full": numbered(target, dtype)[None]
        if target and data.draw(st.booleans())
        else numbered(target, dtype),
        "row": numbered(target[-1:], dtype),
        "other dtype": numbered(target, "u1"),
        "misfit": np.ones((*target, 2, 5), dtype),
    }[what]
    try:
        x[key] = value
    except (ValueError, TypeError):  # TypeError: what NumPy says where x has no dimensions
        raises_on(device, ValueError, lambda: ours.__setitem__(key, value))
        return
    ours[on_device(key) if data.draw(st.booleans()) else key] = value
    same(ours, x)


@settings(max_examples=500)
@given(SHAPE_AND_KEY)
def test_parsing_alone(case):
    """core/indexing.py: the view by its strides, the normal form carried out by plain NumPy."""
    from numpy.lib.stride_tricks import as_strided

    shape, key = case
    x = numbered(shape, np.int64)
    try:
        expected = x[key]
    except (IndexError, ValueError) as error:
        with pytest.raises((type(error), ValueError)):  # ValueError: np.broadcast_shapes below
            form = advanced_indexing.advanced(x.shape, x.strides, key)
            for array, axis in zip(form.arrays, form.axes, strict=True):  # (out of range)
                if array.dtype != bool:
                    np.empty(form.shape)[(slice(None),) * axis + (array,)]
            np.broadcast_shapes(
                *[np.nonzero(a)[0].shape if a.dtype == bool else a.shape for a in form.arrays]
            )
            pytest.fail("no error")
        return
    view = indexing.basic(x.shape, x.strides, key)
    if view is not None and isinstance(expected, np.ndarray) and expected.size:
        assert view[0] == expected.shape
        assert view[2] == expected.__array_interface__["data"][0] - x.__array_interface__["data"][0]
        assert all(
            a == b for a, b, n in zip(view[1], expected.strides, view[0], strict=True) if n > 1
        )
    form = advanced_indexing.advanced(x.shape, x.strides, key)
    base = np.empty(form.shape, "i8")
    if x.size:
        base = as_strided(x.reshape(-1)[form.offset // 8 :], form.shape, form.strides)
    arrays = [part for a in form.arrays for part in (np.nonzero(a) if a.dtype == bool else (a,))]
    common = np.broadcast_shapes(*[a.shape for a in arrays])
    rest = [i for i in range(base.ndim) if i not in form.indexed]
    found = base.transpose(*form.indexed, *rest)[tuple(arrays)] if arrays else base
    found = np.moveaxis(
        found, range(len(common)), range(form.position, form.position + len(common))
    )
    assert advanced_indexing.result_shape(form, common) == found.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "key, text",
    [
        (5, r"index 5 is out of bounds for axis 0 with size 3"),
        ((0, -5), r"index -5 is out of bounds for axis 1 with size 4"),
        ((0, 0, 0), r"too many indices for array: array is 2-dimensional, but 3 were indexed"),
        ((..., 0, ...), r"an index can only have a single ellipsis"),
        (1.0, r"only integers, slices"),
        ("a", r"only integers, slices"),
        (
            np.array([1.0]),
            r"arrays used as indices must be of integer \(or boolean\) type, got float64 of shape "
            r"\(1,\)",
        ),
        (
            np.zeros((2, 4), bool),
            r"boolean index did not match indexed array along axis 0; size of axis is 3 but .* is "
            r"2",
        ),
        (
            ([0, 1], [0, 1, 2]),
            r"shape mismatch: indexing arrays could not be broadcast together with shapes \(2,\) "
            r"\(3,\)",
        ),
    ],
)
def test_index_errors(device, key, text):
    x = cm.zeros((3, 4))
    with pytest.raises(IndexError, match="^index: " + text):
        x[key]
    with pytest.raises(IndexError, match="^index: " + text):
        x[key] = 1
    with pytest.raises(IndexError):
        np.zeros((3, 4))[key]


def test_two_ellipses_between_places(device):
    """Behind them there is no axis left."""
    for x in (cm.zeros((3, 4, 5)), np.zeros((3, 4, 5))):
        with pytest.raises(IndexError, match="an index can only have a single ellipsis"):
            x[[0], ..., ..., 0]


def test_out_of_range(device):
    x = cm.asarray(numbered((3, 4)))
    for bad in ([0, 3], [-4], np.array([[7]])):
        raises_on(device, IndexError, lambda bad=bad: x[bad])
        raises_on(device, IndexError, lambda bad=bad: x[:, 1:][1, bad])
        raises_on(device, IndexError, lambda bad=bad: cm.take(x, bad, axis=0))
        raises_on(device, IndexError, lambda bad=bad: x.__setitem__((slice(None), [9]), 0))
        raises_on(device, IndexError, lambda bad=bad: cm.add_at(x, bad, 1.0))
        raises_on(device, IndexError, lambda bad=bad: cm.index_add(x, np.ravel(bad), 1.0))
    raises_on(device, IndexError, lambda: cm.take_along_axis(x, cm.asarray([[4]]), axis=1))
    raises_on(device, IndexError, lambda: cm.put(x, [12], 0.0), "^put: ")
    with pytest.raises(IndexError, match=r"^take: axis 0 of shape \(0, 2\) is empty"):
        cm.take(cm.zeros((0, 2)), [0], axis=0)
    same(cm.take(cm.zeros((0, 2)), np.zeros(0, int), axis=0), np.zeros((0, 2)))
    # After an error everything goes on as before. (On a GPU an update's valid positions have been
    # written by then.)
    x = cm.asarray(numbered((3, 4)))
    same(x[[0, -1]], numbered((3, 4))[[0, -1]])


def test_0d_arrays_and_numpy_integers(device):
    x = numbered((3, 4))
    ours = cm.asarray(x)
    same(ours[np.int8(1)], x[1])
    same(ours[cm.asarray(1)], x[1])
    same(ours[cm.asarray(1), cm.asarray([2, 0])], x[1, [2, 0]])
    same(ours[True], x[True])
    same(ours[cm.asarray(False)], x[np.array(False)])
    same(cm.asarray(5.0)[()], np.array(5.0))
    same(cm.asarray(5.0)[...], np.array(5.0))


# -------------------- assignment


def test_setitem_overlapping(device):
    """NumPy assigns as if the value had been copied first."""
    for target, source in [
        (np.s_[1:], np.s_[:-1]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[::-1], np.s_[:]),
        ([4, 3, 2, 1, 0], np.s_[:5]),
        (np.s_[:5], [4, 3, 2, 1, 0]),
    ]:
        x = numbered((8,))
        ours = cm.asarray(x.copy())
        x[target] = x[source].copy()
        ours[target] = ours[source]
        same(ours, x)


def test_setitem_errors(device):
    x = cm.zeros((2, 3))
    for key in (np.s_[0], [0], np.array([True, False])):
        with pytest.raises(
            ValueError, match=r"^setitem: an array of shape \(2,\) cannot be broadcast to"
        ):
            x[key] = np.ones(2)
    with pytest.raises(ValueError, match="^setitem: elements of this array .* share memory"):
        cm.broadcast_to(cm.zeros(3), (2, 3))[0] = 1

    def changes(x):
        x[0] = 1.0
        return x.sum()

    with pytest.raises(
        RuntimeError, match="^setitem: an array of shape .* cannot be changed in place while"
    ):
        cm.grad(changes)(cm.zeros(3))

    def loses(x):
        y = cm.zeros(3)
        y[1:] = x[1:]
        return y.sum()

    with pytest.raises(
        RuntimeError, match="^setitem: a gradient is recorded for the assigned value"
    ):
        cm.grad(loses)(cm.zeros(3))


@pytest.mark.parametrize("dtype", ["f4", "i8", "u1", "f2", "?"])
def test_a_number_at_places(device, dtype):
    x, places = (np.arange(60) % 5).reshape(5, 4, 3).astype(dtype), np.array([[4, 0], [-2, 0]])
    ours = cm.asarray(x, device=device)
    for value in (1, 3.0, True, 200 if dtype == "u1" else 7):
        for view, own in ((ours, x), (ours[1:, ::2], x[1:, ::2]), (ours.T[:, 1], x.T[:, 1])):
            at = places % own.shape[0] if own.shape[0] < 5 else places
            view[cm.asarray(at, device=device)] = value
            own[at] = value
            same(ours, x)
    raises_on(device, IndexError, lambda: ours.__setitem__(cm.asarray([5], device=device), 1))
    raises_on(device, IndexError, lambda: ours.__setitem__(cm.asarray([-6], device=device), 1))
    line, host = cm.asarray([2, 0, 1, 0], device=device), np.array([2, 0, 1, 0])
    line[line], host[host] = 3, 3
    same(line, host)


def test_all_of_an_array_from_one_like_it(device):
    x, y = cm.zeros(6, device=device), cm.asarray(np.arange(6.0), device=device)
    for key in (slice(None), ..., slice(None)):
        x[key] = y
        same(x, np.arange(6.0))
        y += 1
        x[key] = y
        same(x, np.arange(1.0, 7.0))
        y -= 1
    x[:], host = y, np.arange(6.0)
    for _ in range(2):  # a shifted part of itself, of the same layout
        x[1:5][:] = x[:4]
        host[1:5] = host[:4].copy()
        same(x, host)
    with pytest.raises(RuntimeError, match="^setitem: "):
        cm.grad(lambda y: (x.__setitem__(slice(None), y), x.sum())[1])(y)


def test_setitem_casts_scalars_as_numpy(device):
    x = cm.zeros(3, "i2")
    x[0] = 7.9
    x[1] = True
    same(x, np.array([7, 1, 0], "i2"))
    with pytest.raises(OverflowError):
        x[0] = 70000
    y = cm.zeros(2, "f2")
    y[0], y[1] = np.float64(1.1), cm.asarray(2.2)
    same(y, np.array([1.1, 2.2], "f2"))


@given(st.lists(st.integers(-5, 4), max_size=40), st.sampled_from(DTYPES))
def test_repeated_positions_last_wins(device, positions, dtype):
    x = np.zeros((5, 3), dtype)
    values = numbered((len(positions), 3), dtype)
    ours = cm.asarray(x.copy())
    index = np.array(positions, np.int64)
    x[index] = values
    ours[index] = values
    same(ours, x)


@given(SHAPE_AND_KEY, st.sampled_from(["i4", "f4", "f8", "c16"]))
def test_add_at(device, case, dtype):
    shape, key = case
    x = numbered(shape, dtype)
    ours = cm.asarray(x.copy())
    try:
        values = numbered(x[key].shape, dtype)
    except (IndexError, ValueError) as error:
        raises_on(device, type(error), lambda: cm.add_at(ours, key, 1))
        return
    np.add.at(x, key, values)  # small integers: exact in any order
    cm.add_at(ours, key, values)
    same(ours, x)


@given(
    st.lists(st.integers(-4, 3), max_size=50),
    st.sampled_from(["f2", "f4", "f8", "c8", "i1", "i8", cm.bfloat16]),
    st.sampled_from([(0, (4, 3)), (1, (3, 4)), (-1, (2, 3, 4)), (1, (2, 4, 3)), (0, (4,))]),
)
def test_index_add(device, positions, dtype, where):
    axis, shape = where
    positions = np.array(positions, np.int64)
    x = (
        numbered(shape, dtype) % np.asarray(5).astype(dtype)
        if np.dtype(dtype).kind in "iu"
        else numbered(shape, dtype)
    )
    values = np.moveaxis(
        (np.arange(positions.size * x.size // 4) % 3 - 1)
        .astype("f8")
        .reshape(positions.size, *np.moveaxis(x, axis, 0).shape[1:]),
        0,
        axis,
    )
    expected = x.astype("c16")
    np.add.at(np.moveaxis(expected, axis, 0), positions, np.moveaxis(values, axis, 0))
    if np.dtype(dtype).kind != "c":
        expected = expected.real
    same(
        cm.index_add(cm.asarray(x), positions, values.astype(dtype), axis=axis),
        expected.astype(dtype),
    )


@given(st.sampled_from(INDEX_DTYPES), st.data(), st.sampled_from(DTYPES))
def test_take(device, index_dtype, data, dtype):
    shape = data.draw(hnp.array_shapes(max_dims=3, min_side=1, max_side=4))
    x = numbered(shape, dtype)
    axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
    n = x.size if axis is None else x.shape[axis]
    least = 0 if index_dtype[0] == "u" else -n
    indices = data.draw(
        hnp.arrays(
            index_dtype,
            hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
            elements=st.integers(least, n - 1),
        )
    )
    same(
        cm.take(cm.asarray(x), cm.asarray(indices), axis=axis),
        np.take(x, indices.astype("i8"), axis),
    )
    same(
        cm.take(cm.asarray(x).T, indices, axis), np.take(x.T, indices.astype("i8"), axis)
    ) if axis is None else None


@given(st.data(), st.sampled_from(DTYPES))
def test_take_along_axis(device, data, dtype):
    shape = data.draw(hnp.array_shapes(max_dims=3, min_side=1, max_side=4))
    x = numbered(shape, dtype)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    wanted = list(shape)
    wanted[axis] = data.draw(st.integers(0, 5))
    other = (axis + 1) % x.ndim
    if x.ndim > 1 and data.draw(st.booleans()):
        wanted[other] = 1  # broadcasts
    indices = data.draw(
        hnp.arrays(np.int64, tuple(wanted), elements=st.integers(-shape[axis], shape[axis] - 1))
    )
    expected = np.take_along_axis(x, indices, axis)
    same(cm.take_along_axis(cm.asarray(x), indices, axis), expected)
    same(cm.take_along_axis(cm.asarray(x.T.copy()).T, cm.asarray(indices), axis=axis), expected)
    a = cm.asarray(numbered(shape))
    y, pull = cm.vjp(lambda a: cm.take_along_axis(a, indices, axis), a)
    weights = ((np.arange(y.size) * 7) % 11 - 5.0).reshape(y.shape)
    g = np.asarray(pull(cm.asarray(weights))[0])
    assert np.vdot(g, numbered(shape)) == np.vdot(weights, np.asarray(y))
    truth = np.zeros(shape)
    wide = np.broadcast_to(indices, y.shape)
    for at in np.ndindex(*y.shape):
        to = list(at)
        to[axis] = wide[at]
        truth[tuple(to)] += weights[at]
    np.testing.assert_array_equal(g, truth)


def test_take_errors(device):
    x = cm.zeros((2, 3))
    for call, error, text in [
        (lambda: cm.take(x, [0.5]), TypeError, "take: wants integer indices, got float64 of shape"),
        (lambda: cm.take(x, [0], axis=2), ValueError, "take: axis 2 is out of bounds"),
        (
            lambda: cm.take_along_axis(x, cm.zeros(2, "i8"), 0),
            ValueError,
            "take_along_axis: indices of shape",
        ),
        (
            lambda: cm.take_along_axis(x, cm.zeros((2, 2), "i8"), 0),
            ValueError,
            "take_along_axis: shapes",
        ),
        (
            lambda: cm.index_add(x, [[0]], 1.0),
            ValueError,
            "index_add: indices must have 1 dimension",
        ),
        (lambda: cm.index_add(x, [0], np.ones(4)), ValueError, "index_add: an array of shape"),
        (
            lambda: cm.index_add(x > 0, [0], True),
            TypeError,
            "index_add: wants numeric arrays, got bool",
        ),
    ]:
        with pytest.raises(error, match="^" + text):
            call()


@given(
    st.lists(st.integers(-6, 5), max_size=9),
    st.integers(1, 9),
    st.sampled_from(DTYPES),
    st.booleans(),
)
def test_put(device, positions, count, dtype, turned):
    x = numbered((2, 3), dtype)
    x = x.T.copy().T if turned else x
    ours = cm.asarray(x.T.copy()).T if turned else cm.asarray(x.copy())
    values = numbered((count,), dtype)
    np.put(x, np.array(positions, np.int64), values)
    cm.put(ours, np.array(positions, np.int64), values)
    same(ours, x)


# -------------------- selection


@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.data())
def test_where(device, first, second, data):
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4, min_side=0)
    )
    mask = data.draw(hnp.arrays(bool, shapes.input_shapes[0]))
    a, b = (
        numbered(shapes.input_shapes[1], first),
        numbered(shapes.input_shapes[2], second) + np.asarray(1, second),
    )
    dtype = cm.result_type(first, second)
    expected = np.where(mask, a.astype(dtype), b.astype(dtype))
    same(cm.where(cm.asarray(mask), cm.asarray(a), cm.asarray(b)), expected)
    dtype = cm.result_type(cm.asarray(a), 1)
    same(
        cm.where(mask, cm.asarray(a), 1),
        np.where(mask, a.astype(dtype), np.asarray(1).astype(dtype)),
    )


@pytest.mark.parametrize("dtype", [d for d in DTYPES if np.dtype(d).kind in "iuf"])
def test_where_of_an_array_and_a_number(device, dtype):
    """The card where_number where it can be, on contiguous, broadcast and transposed arrays;
    elsewhere the number's array."""
    x = numbered((5, 6), dtype)
    ours, masks = (
        cm.asarray(x),
        [np.arange(30).reshape(5, 6) % 3 == 0, np.arange(6) % 2 == 0, np.arange(5)[:, None] > 2],
    )
    numbers = [3, 0, 100] if np.dtype(dtype).kind in "iu" else [3, 0.5, np.inf, 1e300, -7.25, 2**60]
    with np.errstate(over="ignore"):
        for mask in masks:
            for number in numbers:
                told = np.asarray(number).astype(dtype)
                same(cm.where(cm.asarray(mask), ours, number), np.where(mask, x, told))
                same(cm.where(cm.asarray(mask), number, ours), np.where(mask, told, x))
        same(
            cm.where(cm.asarray(masks[0]).T, ours.T, 1),
            np.where(masks[0].T, x.T, np.asarray(1, dtype)),
        )
    if np.dtype(dtype).kind in "iu":
        assert cm.where(cm.asarray(masks[0]), ours, 0.5).dtype == np.float64
    with pytest.raises(ValueError, match="^where: shapes"):
        cm.where(cm.asarray(masks[0]), ours[:, :4], 1)


@given(st.data())
def test_where_gradient(device, data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4))
    mask = data.draw(hnp.arrays(bool, shapes.input_shapes[0]))
    a, b = (cm.asarray(numbered(s)) for s in shapes.input_shapes[1:])
    y, pull = cm.vjp(lambda a, b: cm.where(mask, a, b), a, b)
    weights = ((np.arange(y.size) * 7) % 11 - 5.0).reshape(y.shape)
    ga, gb = pull(cm.asarray(weights))
    assert (ga.shape, gb.shape) == (a.shape, b.shape)
    assert np.vdot(np.asarray(ga), np.asarray(a)) + np.vdot(
        np.asarray(gb), np.asarray(b)
    ) == np.vdot(weights, np.asarray(y))
    wide = np.broadcast_to(mask, y.shape)
    assert np.asarray(ga).sum() == weights[wide].sum()
    assert np.asarray(gb).sum() == weights[~wide].sum()


def test_where_arguments(device):
    x = cm.asarray([0.0, 2.0])
    same(cm.where(x, 1, 2), np.where([0.0, 2.0], 1, 2))
    same(cm.where(cm.asarray([True, False]), 1.0, x.astype("f4")), np.array([1.0, 2.0], "f4"))
    assert [a.tolist() for a in cm.where(x)] == [[1]]
    with pytest.raises(ValueError, match="^where: wants both"):
        cm.where(x, 1)
    with pytest.raises(ValueError, match="^where: shapes .* cannot be broadcast"):
        cm.where(x, cm.zeros(3), 0)


@given(st.data(), st.sampled_from(DTYPES))
def test_nonzero(device, data, dtype):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
    x = data.draw(hnp.arrays(bool, shape)).astype(dtype)
    if dtype.kind in "fc" and x.size:
        x.ravel()[0] = -0.0
    for ours, theirs in [(cm.asarray(x), x), (cm.asarray(x).T, x.T)]:
        found, expected = cm.nonzero(ours), np.nonzero(theirs)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
        same(cm.argwhere(ours), np.argwhere(theirs))
        same(cm.flatnonzero(ours), np.flatnonzero(theirs))


def test_nonzero_of_0d(device):
    with pytest.raises(ValueError, match="^nonzero: wants at least 1 dimension"):
        cm.nonzero(cm.asarray(3))


FOLDS = {
    "add_at": np.add,
    "multiply_at": np.multiply,
    "maximum_at": np.maximum,
    "minimum_at": np.minimum,
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "f2"])
def test_folding_into_positions(device, name, dtype):
    """Repeated positions count each time; integer arrays, masks, slices and several arrays as
    keys."""
    rng = np.random.default_rng(4)
    i = rng.integers(-5, 5, 40)
    for key, shape in (
        ((i,), (40, 3)),
        ((i, i % 3), (40,)),
        ((slice(1, 4),), (3, 3)),
        ((i > 0)[:5], (1, 3)),
    ):
        x = rng.integers(1, 9, (5, 3)).astype(dtype)
        values = rng.integers(1, 3, shape).astype(dtype)
        if name == "multiply_at":
            values = np.minimum(
                values, np.arange(values.size).reshape(shape) % 20 // 19 + 1
            ).astype(dtype)
        ours = cm.asarray(x.copy())
        getattr(cm, name)(
            ours,
            tuple(cm.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
            if isinstance(key, tuple)
            else cm.asarray(key),
            cm.asarray(values),
        )
        FOLDS[name].at(x, key, values)
        np.testing.assert_array_equal(np.asarray(ours), x)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "u8"])
def test_extremes_with_numbers_that_the_dtype_does_not_hold(device, dtype):
    """The nearest that it holds stands for them: -1 is no maximum of uint8."""
    limits, values = np.iinfo(dtype), np.array([-(2**40), -1, 7, 300, 2**40])
    for name, choose in (("maximum_at", max), ("minimum_at", min)):
        x = cm.full(5, 5, dtype=dtype)
        getattr(cm, name)(x, cm.arange(5), cm.asarray(values))
        expected = [min(max(choose(5, int(v)), limits.min), limits.max) for v in values]
        assert x.tolist() == expected, name


def test_nan_wins_a_maximum(device):
    x = cm.asarray([0.0, 0.0])
    cm.maximum_at(x, [0, 0, 1], cm.asarray([1.0, np.nan, 2.0]))
    np.testing.assert_array_equal(np.asarray(x), [np.nan, 2])


def test_take_names_itself():
    with pytest.raises(IndexError, match="take: index 7 is out of bounds"), cm.device("cpu"):
        cm.take(cm.zeros(3), cm.asarray([7]))


def test_one_index_array(device):
    """The short way of x[i] and x[i] = v meets what the long one does: 0-d arrays, other dtypes,
    values that broadcast."""
    x = cm.asarray(np.arange(12.0).reshape(3, 4))
    i, rows = cm.asarray([2, 0, -1]), np.arange(12.0).reshape(3, 4)[[2, 0, -1]]
    np.testing.assert_array_equal(x[i], rows)
    np.testing.assert_array_equal(
        x[i.astype("uint8") % 3], np.arange(12.0).reshape(3, 4)[[2, 0, 0]]
    )
    np.testing.assert_array_equal(x[i.reshape(3, 1)], rows[:, None])
    for value in (
        7,
        2.5,
        [1, 2, 3, 4],
        cm.asarray([[1], [2], [3]], dtype="int32"),
        np.ones((1, 3, 4)),
    ):
        ours, theirs = x.copy(), np.arange(12.0).reshape(3, 4)
        ours[cm.asarray([2, 0, 1])] = value
        theirs[[2, 0, 1]] = np.asarray(value) if isinstance(value, cm.ndarray) else value
        np.testing.assert_array_equal(ours, theirs)
    ours = x.copy()
    ours[cm.asarray([0, 1, 2])] = ours[::-1]  # overlapping memory
    np.testing.assert_array_equal(ours, np.arange(12.0).reshape(3, 4)[::-1])
    with pytest.raises(IndexError, match="too many indices"):
        cm.asarray(5.0)[i]
    with pytest.raises(ValueError, match="^setitem: "):
        ours[i] = [1.0, 2.0]
    slope = cm.grad(lambda v: (v[i] ** 2).sum())(x)
    np.testing.assert_array_equal(
        slope, 2 * np.arange(12.0).reshape(3, 4) * np.array([[1], [0], [2]])
    )


@pytest.mark.parametrize(
    "chosen",
    [
        lambda x, i: cm.take_along_axis(x, i[None], 1),
        lambda x, i: cm.take(x, i, axis=1),
        lambda x, i: x[0, i],
        lambda x, i: cm.index_add(cm.zeros(3, device="cpu"), i, x[0, :2]),
        lambda x, i: x.at[0, i].multiply(5.0),
    ],
)
def test_an_index_that_the_host_changes_before_the_gradient(chosen):
    """A gradient writes at no place that the forward pass would have refused."""
    host = np.array([0, 1])
    index, x = cm.asarray(host, device="cpu", copy=False), cm.ones((4, 3), device="cpu")
    y, pull = cm.vjp(lambda x: chosen(x, index), x)
    host[...] = 7
    with pytest.raises(IndexError, match="^[a-z_]+: index 7 is out of bounds for axis . "):
        pull(cm.ones_like(y))


def test_put_is_checked_at_the_call(fake, monkeypatch):
    """On a GPU: places of the host before anything runs; for those of the device the call waits,
    and what the kernel has found is raised."""
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        x, places, value = map(cm.asarray, (np.ones((2, 2)), np.array([0, 3]), np.ones(1)))
        fake.launches.clear()
        for wrong in ([4], -5, np.array([[0, 9]])):
            with pytest.raises(IndexError, match="^put: index .* out of bounds"):
                cm.put(x, wrong, value)
        assert not fake.launches
        waits = fake.calls["cuStreamSynchronize"]
        cm.put(x, places, value)
        assert fake.calls["cuStreamSynchronize"] == waits + 1
        cm.put(x, places, value, "clip")
        assert fake.calls["cuStreamSynchronize"] == waits + 1
