"""core/shapes.py against NumPy: every function is a property of NumPy's own strides and shapes."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from cudamath.core import shapes

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
FULL_SHAPES = st.lists(st.integers(1, 4), max_size=4).map(tuple)


@st.composite
def views(draw, shape_strategy=SHAPES):
    """A NumPy array of int16 with steps, reversals, permuted and broadcast axes, and the values 0,
    1, 2, ..."""
    shape = draw(shape_strategy)
    steps = [draw(st.sampled_from([1, 1, 2, -1, -2])) for _ in shape]
    base = np.arange(
        np.prod([n * abs(s) for n, s in zip(shape, steps, strict=True)], dtype=int), dtype=np.int16
    )
    x = base.reshape([n * abs(s) for n, s in zip(shape, steps, strict=True)])
    x = x[(..., *[slice(None, None, s) for s in steps])]
    x = x.transpose(draw(st.permutations(range(x.ndim))))
    if draw(st.booleans()) and x.ndim < 4:
        x = np.broadcast_to(x, (draw(st.integers(1, 3)), *x.shape))
    return x


def strided(x, shape, strides):
    return as_strided(x, shape, strides, writeable=False)


@given(SHAPES, st.sampled_from([1, 2, 8]))
def test_contiguous_strides(shape, itemsize):
    assert shapes.contiguous_strides(shape, itemsize) == np.empty(shape, f"V{itemsize}").strides


@given(views())
def test_is_contiguous(x):
    assert shapes.is_contiguous(x.shape, x.strides, 2) == x.flags.c_contiguous


@given(views())
def test_axes_by_stride(x):
    order = shapes.axes_by_stride(x.strides)
    assert sorted(order) == list(range(x.ndim))
    widths = [abs(x.strides[i]) for i in order]
    assert widths == sorted(widths, reverse=True)


@given(views())
def test_axes_as_read(x):
    """Another place of an axis that was repeated or has one element may read the same values."""
    assert (
        x.transpose(shapes.axes_as_read(x.shape, x.strides)).ravel().tolist()
        == x.ravel(order="K").tolist()
    )


@given(views(), st.data())
def test_collapse(x, data):
    # A second operand of the same shape with other strides: a broadcast of some of the axes.
    kept = [data.draw(st.booleans()) for _ in x.shape]
    small = np.arange(
        np.prod([n for n, k in zip(x.shape, kept, strict=True) if k], dtype=int), dtype=np.int16
    )
    y = np.broadcast_to(
        small.reshape([n if k else 1 for n, k in zip(x.shape, kept, strict=True)]), x.shape
    )
    shape, x_strides, y_strides = shapes.collapse(x.shape, x.strides, y.strides)
    assert strided(x, shape, x_strides).ravel().tolist() == x.ravel().tolist()
    assert strided(y, shape, y_strides).ravel().tolist() == y.ravel().tolist()
    assert 1 not in shape
    for i in range(len(shape) - 1):  # nothing more to merge
        assert any(s[i] != shape[i + 1] * s[i + 1] for s in (x_strides, y_strides))


@given(FULL_SHAPES)
def test_collapse_contiguous_is_one_line(shape):
    strides = np.empty(shape, np.int16).strides
    size = int(np.prod(shape))
    assert shapes.collapse(shape, strides) == (((size,), (2,)) if size > 1 else ((), ()))


@given(st.lists(SHAPES, max_size=4))
def test_broadcast_shapes(several):
    try:
        expected = np.broadcast_shapes(*several)
    except ValueError:
        with pytest.raises(ValueError, match=r"^add: shapes .* cannot be broadcast"):
            shapes.broadcast_shapes("add", *several)
    else:
        assert shapes.broadcast_shapes("add", *several) == expected


@given(views(), SHAPES)
def test_broadcast_strides(x, other):
    try:
        to_shape = np.broadcast_shapes(x.shape, other)
    except ValueError:
        assume(False)
    expected = np.broadcast_to(x, to_shape)
    strides = shapes.broadcast_strides(x.shape, x.strides, to_shape)
    if x.size:  # strides into nothing mean nothing
        assert np.array_equal(strided(x, to_shape, strides), expected)
    assert all(s == e for s, e, n in zip(strides, expected.strides, to_shape, strict=True) if n > 1)


@given(st.integers(-6, 6), st.integers(0, 5))
def test_normalize_axis(axis, ndim):
    if -ndim <= axis < ndim:
        assert shapes.normalize_axis("sum", axis, ndim) == axis % ndim
        assert shapes.normalize_axis("sum", np.int32(axis), ndim) == axis % ndim
    else:
        with pytest.raises(ValueError, match=f"^sum: axis {axis} is out of bounds"):
            shapes.normalize_axis("sum", axis, ndim)


def test_normalize_axes():
    assert shapes.normalize_axes("sum", None, 3) == (0, 1, 2)
    assert shapes.normalize_axes("sum", -1, 3) == (2,)
    assert shapes.normalize_axes("sum", [2, -3], 3) == (2, 0)
    assert shapes.normalize_axes("sum", (), 3) == ()
    with pytest.raises(ValueError, match="^sum: repeated axis"):
        shapes.normalize_axes("sum", (0, -3), 3)
    with pytest.raises(ValueError, match="^sum: axis 3 is out of bounds"):
        shapes.normalize_axes("sum", (0, 3), 3)
    for bad in (1.0, "0", (0, 1.5)):
        with pytest.raises(TypeError, match="^sum: axis must be an integer"):
            shapes.normalize_axes("sum", bad, 3)


def test_normalize_shape():
    assert shapes.normalize_shape("zeros", 3) == (3,)
    assert shapes.normalize_shape("zeros", np.int64(3)) == (3,)
    assert shapes.normalize_shape("zeros", [2, np.int8(0)]) == (2, 0)
    assert shapes.normalize_shape("zeros", ()) == ()
    with pytest.raises(ValueError, match="^zeros: negative size"):
        shapes.normalize_shape("zeros", (2, -1))
    for bad in (2.0, (2, 1.5), None, "3"):
        with pytest.raises(TypeError, match="^zeros: shape must be"):
            shapes.normalize_shape("zeros", bad)


NEW_SHAPES = st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4, 6, 8, 12]), max_size=4).map(tuple)


@given(SHAPES, NEW_SHAPES)
def test_resolve_shape(shape, new_shape):
    x = np.empty(shape)
    try:
        expected = x.reshape(new_shape).shape
    except ValueError:
        with pytest.raises(ValueError, match="^reshape: "):
            shapes.resolve_shape("reshape", x.size, new_shape)
    else:
        assert shapes.resolve_shape("reshape", x.size, new_shape) == expected


@st.composite
def reshapes(draw):
    """An array and a shape of as many elements: neighbours merged, then sizes split, then ones put
    in."""
    x = draw(views(FULL_SHAPES))
    sizes = list(x.shape)
    for _ in range(draw(st.integers(0, 3))):
        if len(sizes) > 1:
            i = draw(st.integers(0, len(sizes) - 2))
            sizes[i : i + 2] = [sizes[i] * sizes[i + 1]]
    for _ in range(draw(st.integers(0, 2))):
        if sizes:
            i = draw(st.integers(0, len(sizes) - 1))
            part = draw(st.sampled_from([n for n in range(1, sizes[i] + 1) if sizes[i] % n == 0]))
            sizes[i : i + 1] = [part, sizes[i] // part]
    for _ in range(draw(st.integers(0, 2))):
        sizes.insert(draw(st.integers(0, len(sizes))), 1)
    return x, tuple(sizes)


@given(reshapes())
def test_reshape_strides(case):
    x, new_shape = case
    expected = x.reshape(new_shape)
    strides = shapes.reshape_strides(x.shape, x.strides, new_shape, x.itemsize)
    assert (strides is None) == (not np.shares_memory(x, expected))
    if strides is not None:
        assert np.array_equal(strided(x, new_shape, strides), expected)
        assert all(
            s == e for s, e, n in zip(strides, expected.strides, new_shape, strict=True) if n > 1
        )


def test_reshape_strides_without_elements():
    assert shapes.reshape_strides((0, 3), (7, 5), (3, 0, 2), 4) == (0, 0, 0)


@given(views())
def test_byte_bounds(x):
    low, high = np.lib.array_utils.byte_bounds(x)
    address = x.__array_interface__["data"][0]
    if x.size:
        assert shapes.byte_bounds(x.shape, x.strides, 2) == (low - address, high - address)
    else:
        assert shapes.byte_bounds(x.shape, x.strides, 2) == (0, 0)


@given(st.data())
def test_may_overlap(data):
    memory = np.arange(24, dtype=np.int16)

    def part():
        start, stop = sorted((data.draw(st.integers(0, 24)), data.draw(st.integers(0, 24))))
        return memory[start:stop][:: data.draw(st.sampled_from([1, 2, 3, -1, -2]))]

    a, b = part(), part()
    described = [(x.__array_interface__["data"][0], x.shape, x.strides, 2) for x in (a, b)]
    assert shapes.may_overlap(*described) == np.may_share_memory(a, b)


@given(st.data())
def test_not_beside(data):
    """Exact for blocks and for columns of a matrix, never wrong where it says that two arrays are
    apart."""
    rows, columns = (data.draw(st.integers(1, 6)) for _ in range(2))
    memory = np.arange(rows * columns * 2, dtype=np.int16).reshape(rows, columns, 2)

    def part(columns_alone):
        ends = [
            sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))
            for n in memory.shape
        ]
        cuts = [slice(*each, data.draw(st.sampled_from([1, 2, 3]))) for each in ends]
        x = memory[:, cuts[1].start : cuts[1].stop] if columns_alone else memory[tuple(cuts)]
        return (
            x
            if columns_alone
            else x[
                :: data.draw(st.sampled_from([1, -1])), :, :: data.draw(st.sampled_from([1, -1]))
            ]
        )

    columns_alone = data.draw(st.booleans())
    a, b = part(columns_alone), part(columns_alone)
    assume(a.size and b.size)
    at = b.__array_interface__["data"][0]
    near = shapes.not_beside(
        (a.__array_interface__["data"][0], a.shape, a.strides, 2), (b.shape, b.strides, 2), [at]
    )
    assert near in ([], [at])
    assert near or not np.shares_memory(a, b)
    if columns_alone:
        assert bool(near) == np.shares_memory(a, b)


@given(views(FULL_SHAPES))
def test_overlaps_itself_on_views(x):
    # In these arrays every element has a value of its own, so repeated values are shared elements.
    # (A stride of an array whose steps interlock never occurs here, so the answer is exact.)
    assert shapes.overlaps_itself(x.shape, x.strides, 2) == (len(set(x.ravel().tolist())) < x.size)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(-12, 12)), max_size=3),
    st.sampled_from([1, 2, 4]),
)
def test_overlaps_itself_never_misses(dims, itemsize):
    shape, strides = tuple(n for n, _ in dims), tuple(s for _, s in dims)
    offsets = [
        sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(*shape)
    ]
    touched = [offset + byte for offset in offsets for byte in range(itemsize)]
    if len(set(touched)) < len(touched):
        assert shapes.overlaps_itself(shape, strides, itemsize)


def test_overlaps_itself_windows():
    assert shapes.overlaps_itself((3, 2), (4, 4), 4)  # sliding windows share elements
    assert not shapes.overlaps_itself((3, 2), (8, 4), 4)
    assert not shapes.overlaps_itself((0, 5), (0, 0), 4)
