"""Manipulation against NumPy: values, shapes, dtypes, what is a view, gradients, errors, and the
kernels by name.

Every operation here is linear, so its gradient has a truth of its own: <g, f(x)> = <f'(g), x> for
all x and g. With small integers in float64 both sides are exact.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.copy import dispatch as copy_dispatch
from cudamath.kernels.copy import planners as copy_planners
from cudamath.kernels.copy import strided as copy_strided
from cudamath.kernels.image import dispatch as image_dispatch

DTYPES = [
    np.dtype(t)
    for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
]
DTYPES.append(np.dtype(cm.bfloat16))


def same(ours, expected):
    """Equal in shape, dtype and every element."""
    expected = np.asarray(expected)
    assert isinstance(ours, (cm.ndarray, np.generic))
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    wide = (
        np.float32 if expected.dtype == cm.bfloat16 else expected.dtype
    )  # NaN of bfloat16 differs from itself
    np.testing.assert_array_equal(np.asarray(ours).astype(wide), expected.astype(wide))


@st.composite
def keys_of_view(draw, max_dims=3, min_dims=0, min_side=0):
    """(shape of a base, slices, order of axes): how to make the same strided view in both
    libraries."""
    shape = draw(
        st.lists(st.integers(min_side, 4), min_size=min_dims, max_size=max_dims).map(tuple)
    )
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in shape]
    return (
        tuple(n * abs(s) for n, s in zip(shape, steps, strict=True)),
        steps,
        draw(st.permutations(range(len(shape)))),
    )


def pair(case, dtype=np.float64, start=1):
    """The view of such a description, as (cudamath, NumPy)."""
    shape, steps, order = case
    base = (np.arange(start, start + np.prod(shape, dtype=int)) % 97).reshape(shape).astype(dtype)
    cut = (..., *[slice(None, None, s) for s in steps])
    ours = cm.asarray(base)[cut]
    return cm.permute_dims(ours, tuple(order)), base[cut].transpose(order)


def check_adjoint(function, *inputs):
    """<g, f(x)> = <pull(g), x> exactly, for float64 arrays of small integers; the gradient has x's
    shape and dtype."""
    y, pull = cm.vjp(function, *inputs)
    outputs = y if isinstance(y, tuple | list) else (y,)
    weights = [
        ((np.arange(o.size) * 7 + 3 * k) % 11 - 5.0).reshape(o.shape) for k, o in enumerate(outputs)
    ]
    given_ = [cm.asarray(w, device=inputs[0].device) for w in weights]
    gradients = pull(type(y)(given_) if isinstance(y, tuple | list) else given_[0])
    left = sum(np.vdot(w, np.asarray(o)) for w, o in zip(weights, outputs, strict=True))
    right = sum(
        np.vdot(np.asarray(g), np.asarray(x)) for g, x in zip(gradients, inputs, strict=True)
    )
    for g, x in zip(gradients, inputs, strict=True):
        assert (g.shape, g.dtype) == (x.shape, x.dtype)
    assert left == right


def is_view(ours, of, theirs, base):
    """Whether ours shares memory with its input exactly when NumPy's does (on the CPU, where that
    can be seen)."""
    if (
        base.size and theirs.ndim and ours.device == "cpu"
    ):  # NumPy makes scalars of views without dimensions
        assert np.shares_memory(np.asarray(ours), np.asarray(of)) == np.shares_memory(theirs, base)


# -------------------- one input


VIEWS = {
    "transpose": (0, lambda d, x: {}),
    "matrix_transpose": (2, lambda d, x: {}),
    "squeeze": (0, lambda d, x: {}),
    "expand_dims": (0, lambda d, x: {"axis": d.draw(st.integers(-x.ndim - 1, x.ndim))}),
    "flip": (0, lambda d, x: {"axis": d.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))}),
    "diagonal": (2, lambda d, x: {"offset": d.draw(st.integers(-3, 3))}),
    "rot90": (2, lambda d, x: {"k": d.draw(st.integers(-5, 5))}),
    "atleast_1d": (0, lambda d, x: {}),
    "atleast_2d": (0, lambda d, x: {}),
    "ravel": (0, lambda d, x: {}),
}
COPIES = {
    "copy": (0, lambda d, x: {}),
    "roll": (
        0,
        lambda d, x: {
            "shift": d.draw(st.integers(-9, 9)),
            "axis": d.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)])),
        },
    ),
    "repeat": (
        1,
        lambda d, x: {
            "repeats": d.draw(st.integers(0, 3)),
            "axis": d.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)])),
        },
    ),
}


@pytest.mark.parametrize("name", [*VIEWS, *COPIES])
@given(st.data(), st.sampled_from(DTYPES))
def test_one_input(device, name, data, dtype):
    least, arguments = (VIEWS | COPIES)[name]
    case = data.draw(keys_of_view(min_dims=least))
    ours, theirs = pair(case, dtype)
    kwargs = arguments(data, theirs)
    result, expected = getattr(cm, name)(ours, **kwargs), getattr(np, name)(theirs, **kwargs)
    same(result, expected)
    if name in VIEWS:
        is_view(result, ours, expected, theirs)
    check_adjoint(lambda x: getattr(cm, name)(x, **kwargs), pair(case)[0])


@given(keys_of_view(), st.data(), st.sampled_from(DTYPES))
def test_reshape(device, case, data, dtype):
    ours, theirs = pair(case, dtype)
    sizes = list(theirs.shape)
    if len(sizes) > 1 and data.draw(st.booleans()):
        i = data.draw(st.integers(0, len(sizes) - 2))
        sizes[i : i + 2] = [sizes[i] * sizes[i + 1]]
    sizes.insert(data.draw(st.integers(0, len(sizes))), 1)
    if sizes and theirs.size and data.draw(st.booleans()):
        sizes[data.draw(st.integers(0, len(sizes) - 1))] = -1
    expected = theirs.reshape(sizes)
    result = cm.reshape(ours, tuple(sizes))
    same(result, expected)
    is_view(result, ours, expected, theirs)
    same(ours.reshape(*sizes), expected)
    copied = cm.reshape(ours, sizes, copy=True)
    same(copied, expected)
    if theirs.size and device == "cpu":
        assert not np.shares_memory(np.asarray(copied), np.asarray(ours))
    check_adjoint(lambda x: cm.reshape(x, sizes), pair(case)[0])


def test_reshape_errors(device):
    x = cm.zeros((2, 3))
    with pytest.raises(ValueError, match=r"^reshape: cannot give 6 elements the shape \(4, -1\)"):
        cm.reshape(x, (4, -1))
    with pytest.raises(ValueError, match="^reshape: .* as a view"):
        cm.reshape(x.T, 6, copy=False)
    with pytest.raises(TypeError, match="^reshape: shape must be"):
        cm.reshape(x, (2, 1.5))


@given(keys_of_view(max_dims=4, min_dims=1), st.data())
def test_orders_of_axes(device, case, data):
    ours, theirs = pair(case)
    axis = st.integers(-theirs.ndim, theirs.ndim - 1)
    i, j = data.draw(axis), data.draw(axis)
    order = tuple(data.draw(st.permutations(range(theirs.ndim))))
    same(cm.swapaxes(ours, i, j), np.swapaxes(theirs, i, j))
    same(cm.moveaxis(ours, i, j), np.moveaxis(theirs, i, j))
    same(
        cm.moveaxis(ours, range(theirs.ndim)[:2], order[:2]),
        np.moveaxis(theirs, range(theirs.ndim)[:2], order[:2]),
    )
    same(cm.permute_dims(ours, order), np.transpose(theirs, order))
    same(ours.T, theirs.T)
    check_adjoint(lambda x: cm.moveaxis(cm.swapaxes(cm.permute_dims(x, order), i, j), j, i), ours)


def test_errors_of_axes(device):
    x = cm.zeros((2, 3))
    for call, text in [
        (lambda: cm.permute_dims(x, (0,)), "permute_dims: axes .* do not name each"),
        (lambda: cm.permute_dims(x, (0, 0)), "permute_dims: repeated axis"),
        (lambda: cm.transpose(x, (0, 2)), "transpose: axis 2 is out of bounds"),
        (lambda: cm.swapaxes(x, 0, 2), "swapaxes: axis 2 is out of bounds"),
        (lambda: cm.moveaxis(x, (0, 1), 0), "moveaxis: source"),
        (lambda: cm.expand_dims(x, axis=4), "expand_dims: axis 4 is out of bounds"),
        (lambda: cm.squeeze(x, axis=0), r"squeeze: axes \[0\] of shape \(2, 3\)"),
        (lambda: cm.flip(x, axis=2), "flip: axis 2 is out of bounds"),
        (lambda: cm.matrix_transpose(cm.zeros(3)), "matrix_transpose: wants at least 2"),
        (lambda: cm.rot90(x, axes=(0, 0)), "rot90: repeated axis"),
        (lambda: cm.diagonal(cm.zeros(3)), "diagonal: wants at least 2"),
        (lambda: cm.broadcast_to(x, (3, 3)), r"broadcast_to: an array of shape \(2, 3\) cannot"),
        (lambda: cm.broadcast_to(x, (3,)), r"broadcast_to: an array of shape \(2, 3\) cannot"),
        (
            lambda: cm.broadcast_arrays(x, cm.zeros(2)),
            "broadcast_arrays: shapes .* cannot be broadcast",
        ),
    ]:
        with pytest.raises(ValueError, match="^" + text):
            call()


@given(keys_of_view(max_dims=4, min_dims=2), st.data())
def test_diagonals_of_planes(device, case, data):
    ours, theirs = pair(case)
    i, j = data.draw(st.permutations(range(theirs.ndim)))[:2]
    offset = data.draw(st.integers(-4, 4))
    same(cm.diagonal(ours, offset=offset, axis1=i, axis2=j), np.diagonal(theirs, offset, i, j))
    check_adjoint(lambda x: cm.diagonal(x, offset=offset, axis1=i, axis2=j), ours)


@given(keys_of_view(), st.lists(st.integers(0, 3), max_size=2), st.data())
def test_broadcast_to(device, case, front, data):
    ours, theirs = pair(case)
    grown = [data.draw(st.integers(0, 3)) if n == 1 else n for n in theirs.shape]
    shape = (*front, *grown)
    same(cm.broadcast_to(ours, shape), np.broadcast_to(theirs, shape))
    ones = np.ones(shape)
    for a, b in zip(
        cm.broadcast_arrays(ours, ones), np.broadcast_arrays(theirs, ones), strict=True
    ):
        same(a, b)
    check_adjoint(lambda x: cm.broadcast_to(x, shape), ours)
    assert cm.broadcast_shapes(ours.shape, shape) == shape


@given(keys_of_view(min_dims=1), st.data())
def test_tile_and_repeat(device, case, data):
    ours, theirs = pair(case)
    repetitions = data.draw(st.lists(st.integers(0, 3), max_size=4))
    same(cm.tile(ours, repetitions), np.tile(theirs, repetitions))
    check_adjoint(lambda x: cm.tile(x, repetitions), ours)
    axis = data.draw(st.integers(-theirs.ndim, theirs.ndim - 1))
    counts = data.draw(
        st.lists(st.integers(0, 3), min_size=theirs.shape[axis], max_size=theirs.shape[axis])
    )
    counts = np.array(counts, np.int64)
    same(cm.repeat(ours, counts, axis=axis), np.repeat(theirs, counts, axis=axis))
    check_adjoint(lambda x: cm.repeat(x, counts, axis=axis), ours)


def test_tile_and_repeat_errors(device):
    x = cm.zeros(3)
    with pytest.raises(ValueError, match="^tile: negative"):
        cm.tile(x, -1)
    with pytest.raises(ValueError, match=r"^repeat: repeats of shape \(2,\)"):
        cm.repeat(x, [1, 2])
    with pytest.raises(ValueError, match="^repeat: repeats cannot be negative"):
        cm.repeat(x, [1, 2, -1])
    with pytest.raises(TypeError, match="^repeat: repeats must be integers"):
        cm.repeat(x, 1.5)


@given(
    keys_of_view(min_dims=1),
    st.data(),
    st.sampled_from(["edge", "reflect", "symmetric", "wrap", "constant"]),
    st.sampled_from(DTYPES),
)
def test_pad(device, case, data, mode, dtype):
    ours, theirs = pair(case, dtype)
    widths = [(data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7))) for _ in theirs.shape]
    if mode != "constant" and any(
        sum(w) and not n for w, n in zip(widths, theirs.shape, strict=True)
    ):
        with pytest.raises(ValueError, match="^pad: can.t extend empty axis"):
            cm.pad(ours, widths, mode)
        return
    same(cm.pad(ours, widths, mode), np.pad(theirs, widths, mode))
    if mode == "constant":
        same(
            cm.pad(ours, 1, constant_values=3),
            np.pad(theirs, 1, constant_values=np.asarray(3, dtype)),
        )
    check_adjoint(lambda x: cm.pad(x, widths, mode), pair(case)[0])


def test_pad_arguments(device):
    x = np.arange(6.0).reshape(2, 3)
    for widths in (1, (1, 2), [(1, 2)], [(1, 0), (0, 2)]):
        same(cm.pad(cm.asarray(x), widths, "edge"), np.pad(x, widths, "edge"))
    with pytest.raises(ValueError, match="^pad: mode"):
        cm.pad(x, 1, "mirror")
    with pytest.raises(ValueError, match="^pad: index can.t contain negative values"):
        cm.pad(x, -1)
    with pytest.raises(ValueError, match="^pad: pad_width .* does not fit"):
        cm.pad(x, [(1, 1)] * 3)
    with pytest.raises(TypeError, match="^pad: `pad_width` must be of integral type"):
        cm.pad(x, 1.5)


@given(keys_of_view(min_dims=1), st.data())
def test_roll_of_several_axes(device, case, data):
    ours, theirs = pair(case)
    axes = data.draw(st.lists(st.integers(-theirs.ndim, theirs.ndim - 1), min_size=1, max_size=3))
    shifts = data.draw(st.lists(st.integers(-9, 9), min_size=len(axes), max_size=len(axes)))
    same(cm.roll(ours, shifts, axis=axes), np.roll(theirs, shifts, axis=axes))
    same(cm.roll(ours, shifts[0], axis=axes), np.roll(theirs, shifts[0], axis=axes))
    check_adjoint(lambda x: cm.roll(x, shifts, axis=axes), ours)


# -------------------- several inputs, outputs


@given(st.data(), st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_concat_and_stack(device, data, first, second):
    case = data.draw(keys_of_view(min_dims=1))
    ours, theirs = pair(case, first)
    axis = data.draw(st.integers(-theirs.ndim, theirs.ndim - 1))
    other = np.moveaxis(
        np.ones((data.draw(st.integers(0, 3)), *np.moveaxis(theirs, axis, 0).shape[1:])), 0, axis
    )
    other = other.astype(second)
    dtype = cm.result_type(ours, cm.asarray(other))
    expected = np.concatenate([theirs.astype(dtype), other.astype(dtype)], axis)
    same(cm.concat([ours, other], axis=axis), expected)
    same(cm.concatenate([ours, other], axis), expected)
    same(
        cm.concat([ours, other], axis=None),
        np.concatenate([theirs.ravel().astype(dtype), other.ravel().astype(dtype)]),
    )
    same(cm.concat([ours]), theirs)
    place = data.draw(st.integers(-theirs.ndim - 1, theirs.ndim))
    same(cm.stack([ours, ours], axis=place), np.stack([theirs, theirs], place))
    same(cm.vstack([ours, ours]), np.vstack([theirs, theirs]))
    same(cm.hstack([ours, ours]), np.hstack([theirs, theirs]))
    x, y = pair(case)[0], cm.asarray(np.arange(other.size, dtype=np.float64).reshape(other.shape))
    check_adjoint(lambda x, y: cm.concat([x, y, x], axis=axis), x, y)
    check_adjoint(lambda x, y: cm.stack([x, y, x], axis=place), x, x)


def test_concat_errors(device):
    x = cm.zeros((2, 3))
    for call, text in [
        (lambda: cm.concat([]), "concat: need at least one array"),
        (
            lambda: cm.concat([x, cm.zeros((3, 2))]),
            r"concat: shapes must .* axis 0, got \(2, 3\), \(3, 2\)",
        ),
        (lambda: cm.concat([x, cm.zeros(3)]), "concat: shapes must be equal"),
        (lambda: cm.concat([cm.zeros(()), cm.zeros(())]), "concat: 0-d arrays"),
        (lambda: cm.concat([x, x], axis=2), "concat: axis 2 is out of bounds"),
        (
            lambda: cm.stack([x, cm.zeros((2, 4))]),
            r"stack: wants arrays of one shape, got \(2, 3\), \(2, 4\)",
        ),
        (lambda: cm.stack([x], axis=3), "stack: axis 3 is out of bounds"),
    ]:
        with pytest.raises(ValueError, match="^" + text):
            call()


@given(keys_of_view(min_dims=1), st.data())
def test_splits(device, case, data):
    ours, theirs = pair(case)
    axis = data.draw(st.integers(-theirs.ndim, theirs.ndim - 1))
    where = data.draw(st.one_of(st.integers(1, 5), st.lists(st.integers(-5, 5), max_size=3)))

    def check(results, expected):
        assert len(results) == len(expected)
        for a, b in zip(results, expected, strict=True):
            same(a, b)
            is_view(a, ours, b, theirs)

    check(cm.array_split(ours, where, axis), np.array_split(theirs, where, axis))
    check(cm.unstack(ours, axis=axis), np.unstack(theirs, axis=axis))
    if isinstance(where, list) or theirs.shape[axis] % where == 0:
        check(cm.split(ours, where, axis), np.split(theirs, where, axis))
    else:
        with pytest.raises(ValueError, match="^split: .* cannot be divided into"):
            cm.split(ours, where, axis)
    check_adjoint(lambda x: cm.array_split(x, where, axis), ours)
    with pytest.raises(ValueError, match="^array_split: wants at least one part"):
        cm.array_split(ours, 0)


# -------------------- casts


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_astype(device, source, target):
    values = np.array([0, 1, 2, 3, 100, 0.5, 1.75, 1e-3])
    if source.kind not in "ub" and target.kind != "u":
        values = np.concatenate([values, -values])
    x = values.astype(source)
    if source.kind == "c":
        x = x + 1j
    expected = (x.real if source.kind == "c" and target.kind not in "cb" else x).astype(target)
    for n in (len(x), 5, 0):  # vectors of four, and not
        same(cm.astype(cm.asarray(x[:n]), target), expected[:n])
    same(cm.astype(cm.asarray(x)[::-1], target), expected[::-1])
    same(cm.asarray(x).astype(target, copy=False), expected)


def test_astype_rounds_to_nearest_even_and_keeps_specials(device):
    half = np.float32(
        [1 + 2**-11, 1 + 3 * 2**-11, 65519, 65520, 2**-25, 2**-24, np.inf, -np.inf, np.nan, -0.0]
    )
    brain = np.float32([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, 1e-45, np.inf, -np.inf, np.nan, -0.0])
    with np.errstate(over="ignore"):
        same(cm.astype(cm.asarray(half), "f2"), half.astype("f2"))
    same(cm.astype(cm.asarray(brain), "bfloat16"), brain.astype(cm.bfloat16))
    double = np.float64(
        [1 + 2**-11 + 2**-40, 1 + 2**-11 - 2**-40, 1 + 2**-11, 65519.999999999, 1e-300]
    )
    same(cm.astype(cm.asarray(double), "f2"), double.astype("f2"))  # one rounding, not two


@pytest.mark.parametrize("dtype", ["f2", "f4", "bfloat16", "c8", "c16"])
def test_astype_gradient_goes_back_to_the_dtype(device, dtype):
    x = cm.asarray([1.0, 2.0]).astype(dtype)
    y, pull = cm.vjp(lambda x: cm.astype(x, "c16" if "c" in dtype else "f8"), x)
    (g,) = pull(cm.asarray(np.array([3.0, 4.0], y.dtype)))
    same(g, np.array([3.0, 4.0]).astype(x.dtype))


def test_astype_arguments(device):
    x = cm.asarray([1, 2])
    assert cm.astype(x, x.dtype, copy=False) is x
    assert cm.astype(x, x.dtype).ptr != x.ptr
    with pytest.raises(TypeError, match="^astype: "):
        cm.astype(x, "U3")


@given(keys_of_view(max_dims=4), st.sampled_from(["c8", "c16"]))
def test_copies_of_views_of_views(device, case, dtype):
    ours, theirs = pair(case, dtype)
    same(cm.copy(ours), theirs)
    same(cm.flatten(ours), theirs.ravel())


def test_second_gradients_pass_through_views(device):
    x = cm.asarray([1.0, 2.0, 3.0, 4.0])

    def f(x):
        y = cm.concat([cm.flip(x), cm.pad(x, 1)]).reshape(2, 5).T
        return (y * y * y).sum()

    # The cube of every element twice: second derivative 12 x on the diagonal.
    second = cm.grad(lambda x: (cm.grad(f)(x) * cm.asarray([1.0, 10.0, 100.0, 1000.0])).sum())(x)
    same(second, 12 * np.array([1.0, 2.0, 3.0, 4.0]) * [1, 10, 100, 1000])


# -------------------- kernels by name


def named(plan):
    return [step.kernel.__name__ for step in plan.steps]


def on_gpu(shape, dtype, strides=None, aligned=True):
    plain = Layout.new(shape, np.dtype(dtype), 0)
    return (
        plain
        if strides is None and aligned
        else Layout.of(shape, strides or plain.strides, plain.dtype, 0, aligned)
    )


def test_planner_chooses():
    assert named(copy_planners.copy(on_gpu((64, 64), "f4"))) == ["line_vector"]
    assert named(copy_planners.copy(on_gpu((64, 64), "f4"), dtype=np.dtype(cm.bfloat16))) == [
        "line_cast"
    ]
    assert named(copy_planners.copy(on_gpu((64, 64), "f4", aligned=False))) == ["line"]
    assert named(copy_planners.copy(on_gpu((3,), "f4"))) == ["line"]
    assert named(copy_planners.copy(on_gpu((64, 64), "f4", (4, 256)))) == ["tiled_vector"]
    assert named(copy_planners.copy(on_gpu((64, 63), "f4", (4, 256)))) == ["tiled"]
    assert named(copy_planners.copy(on_gpu((8, 56, 56, 64), "f2", (401408, 112, 2, 6272)))) == [
        "tiled_vector"
    ]  # NCHW -> NHWC
    assert named(copy_planners.copy(on_gpu((64, 4), "f4", (4, 256)))) == ["strided"]
    # many elements in rows of some length: upside down, every other plane, with a cast
    assert named(copy_planners.copy(on_gpu((3000, 1671), "u1", (-1671, 1)))) == ["strided_rows"]
    assert named(copy_planners.copy(on_gpu((50, 40, 33), "f4", (16_000, 200, 4)))) == [
        "strided_rows"
    ]
    assert named(
        copy_planners.copy(on_gpu((3000, 67), "f4", (300, 4)), dtype=np.dtype(np.float64))
    ) == ["strided_rows"]
    assert named(copy_planners.copy(on_gpu((3000, 31), "f4", (200, 4)))) == ["strided"]
    assert named(copy_planners.copy(on_gpu((300, 67), "f4", (300, 4)))) == ["strided"]
    assert named(copy_planners.copy(on_gpu((0, 3), "f4"))) == []
    # equally transposed on both sides: a straight line after sorting
    transposed = on_gpu((64, 64), "f4", (4, 256))
    assert named(copy_planners.copy_into(transposed, transposed)) == ["line_vector"]
    # six dimensions that do not merge: the kernel of elementwise operations
    strides = tuple(4 * 3**i for i in range(6))
    assert named(copy_planners.copy(on_gpu((2,) * 6, "f4", strides))) == ["plain"]


def sim(plan, *inputs, scalars=()):
    return cm.testing.simulate(plan, *inputs, scalars=scalars)


def layouts(*arrays):
    return [cm.testing.layout_of(x) for x in arrays]


@pytest.mark.simulator
@pytest.mark.parametrize(
    "source, target",
    [
        ("f4", "f4"),
        ("f4", "f2"),
        ("f2", "f8"),
        ("i4", "?"),
        ("c8", "c8"),
        ("c16", "c16"),
        ("?", "f4"),
        ("i1", "c8"),
        ("c8", "f4"),
        ("f8", "f2"),
        ("bfloat16", "f4"),
    ],
)
@pytest.mark.parametrize("n", [1, 255, 257, 1027])
def test_line_simulated(source, target, n):
    source, target = (
        np.dtype(cm.bfloat16) if t == "bfloat16" else np.dtype(t) for t in (source, target)
    )
    x = (np.arange(n) % 13).astype(source)
    plan = copy_planners.copy(*layouts(x), dtype=target)
    assert named(plan) == ["line"] or source == "c16"
    np.testing.assert_array_equal(
        sim(plan, x), (x.real if target.kind == "f" else x).astype(target)
    )


@pytest.mark.simulator
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 6])
def test_strided_simulated(rank):
    x = np.arange(3 ** min(rank, 4) * 2 ** max(rank - 4, 0) * 2**rank, dtype=np.int32)
    shape = (2,) * max(rank - 4, 0) + (3,) * min(rank, 4)
    x = x.reshape([2 * n for n in shape])[(slice(None, None, 2),) * rank]
    plan = copy_planners.copy(*layouts(x))
    assert named(plan) == ["strided" if rank <= 4 else "plain"]
    np.testing.assert_array_equal(sim(plan, x), x)


@pytest.mark.simulator
@pytest.mark.parametrize("target", ["i4", "f8"])
@pytest.mark.parametrize("shape", [(5, 2100), (7, 69), (3, 2, 35), (2, 3, 2, 257)])
def test_rows_simulated(shape, target, monkeypatch):
    """Rows of several pieces, and several rows of a block; the last of each in part; with a cast,
    an element a thread."""
    for module in (copy_dispatch, copy_strided):
        monkeypatch.setattr(module, "MANY", 2)
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    x = x[::-1, 1:] if len(shape) == 2 else np.flip(x, (0, 2))[..., 1:]
    plan = copy_planners.copy(*layouts(x), dtype=np.dtype(target))
    assert named(plan) == ["strided_rows"]
    np.testing.assert_array_equal(sim(plan, x), x)


@pytest.mark.simulator
@pytest.mark.parametrize("target", ["i4", "f8"])
@pytest.mark.parametrize(
    "shape, axis", [((1100,), 0), ((3, 40), 1), ((2, 3, 70), 2), ((2, 3, 70), 0)]
)
def test_repeated_simulated(shape, axis, target, monkeypatch):
    """Places before and between the other axes; several pieces of a row; rows of a block."""
    for module in (copy_dispatch, copy_strided):
        monkeypatch.setattr(module, "MANY", 2)
    x = np.expand_dims(np.arange(2 * np.prod(shape), dtype=np.int32)[::2].reshape(shape), axis)
    x = np.broadcast_to(x, (*x.shape[:axis], 3, *x.shape[axis + 1 :]))
    plan = copy_planners.copy(*layouts(x), dtype=np.dtype(target))
    assert named(plan) == ["repeated_rows"]
    np.testing.assert_array_equal(sim(plan, x), x)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
def test_runs_on_gpu(dtype):
    rng = np.random.default_rng(3)
    for shape, length in (((245, 1457), 2), ((31, 99), 3), ((37,), 4099), ((30, 50, 7), 16)):
        x = rng.integers(0, 200, shape).astype(dtype)
        ours = cm.asarray(x, device="cuda")
        same(cm.repeat(ours, length, axis=-1), np.repeat(x, length, axis=-1))
        same(cm.repeat(ours[..., ::-2], length, axis=-1), np.repeat(x[..., ::-2], length, axis=-1))
        into = cm.zeros((x.size * length + 1,), dtype, device="cuda")
        into[1:].reshape(*shape, length)[...] = ours[..., None]  # not at the borders of accesses
        same(into[1:], np.repeat(x, length, axis=-1).ravel())


def test_planner_repeats():
    """Few places of many elements in rows, or whole accesses of a dense result."""
    assert named(copy_planners.copy(on_gpu((7, 2, 99_999), "i8", (799_992, 0, 8)))) == [
        "repeated_rows"
    ]
    assert named(copy_planners.copy(on_gpu((5, 99_999), "f4", (0, 4)))) == ["repeated_rows"]
    assert named(copy_planners.copy(on_gpu((99_999, 5), "f4", (4, 0)))) == ["broadcast"]
    assert named(copy_planners.copy(on_gpu((9999, 3, 2, 7, 2), "u1", (21, 7, 0, 1, 0)))) == [
        "broadcast"
    ]
    assert named(copy_planners.copy(on_gpu((99, 99_999), "f4", (0, 4)))) == ["broadcast"]
    assert named(copy_planners.copy(on_gpu((9999, 5, 7), "f2", (14, 0, 2)))) == ["broadcast"]
    assert named(copy_planners.copy(on_gpu((5, 999), "f4", (0, 4)))) == ["strided"]


@pytest.mark.simulator
@pytest.mark.parametrize("shape", [(16, 33), (33, 16), (1, 40, 20), (2, 17, 31)])
def test_tiled_simulated(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape).swapaxes(-1, -2)
    plan = copy_planners.copy(*layouts(x))
    assert named(plan) == ["tiled"]
    np.testing.assert_array_equal(sim(plan, x), x)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
def test_fill_and_pad_simulated(dtype):
    from cudamath.ops.shape import bits

    value = np.dtype(dtype).type(7)
    for base in ((9,), (16,), (3, 6), (2, 131), (66, 3), (2, 3, 5)):
        for part in (
            lambda x: x,
            lambda x: x[..., ::2],
            lambda x: x.T[1:],
            lambda x: x[::-3],
            lambda x: x[..., 1:],
        ):
            whole = np.zeros(base, dtype)
            x = part(whole)
            expected = np.zeros(base, dtype)
            part(expected)[...] = 7
            sim(copy_planners.fill(*layouts(x)), x, scalars=bits(value, x.dtype))
            np.testing.assert_array_equal(whole, expected)
    x = np.arange(6).reshape(2, 3).astype(dtype)
    plan = image_dispatch.pad(*layouts(x), widths=((1, 0), (2, 1)))
    out = sim(plan, x, scalars=bits(value, x.dtype))
    np.testing.assert_array_equal(out, np.pad(x, ((1, 0), (2, 1)), constant_values=7))


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["i8", "u1", "f2", "f4", "f8"])
def test_ramp_simulated(dtype):
    n = 120 if dtype == "u1" else 300  # the simulator's small integers do not wrap
    (layout,) = layouts(np.zeros(n, dtype))
    y = sim(copy_planners.ramp(layout=layout, device=layout.device, count=n - 1), scalars=(3, 2, 7))
    expected = (3 + 2 * np.arange(n)).astype(dtype)
    expected[n - 1] = 7
    np.testing.assert_array_equal(y, expected)


@pytest.mark.simulator
def test_unview_simulated():
    g = np.arange(1, 4, dtype="f4")
    out = sim(copy_planners.unview(*layouts(g), shape=(4, 5), view=((3,), (6,), 1)), g)
    expected = np.zeros((4, 5), "f4")
    expected[range(3), range(1, 4)] = g
    np.testing.assert_array_equal(out, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copy_kernels_on_gpu(dtype):
    """Sizes that straddle blocks, vectors and squares, aligned and not, and orders of axes."""
    x = (np.arange(3 * 130 * 67) % 251).reshape(3, 130, 67).astype(dtype)
    with cm.device("cuda"):
        ours = cm.asarray(x)
        for n in (1, 2, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 8192, 26130):
            same(cm.copy(ours.reshape(-1)[:n]), x.ravel()[:n])
            same(cm.copy(ours.reshape(-1)[1:n]), x.ravel()[1:n])
        for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
            same(cm.copy(ours.transpose(order)), x.transpose(order))
            same(cm.copy(ours[:, ::2, 1:].transpose(order)), x[:, ::2, 1:].transpose(order))
        wide = np.resize(np.arange(251).astype(dtype), (6, 7, 5, 1671))
        turned = cm.asarray(wide)
        same(cm.copy(turned.reshape(210, 1671)[::-1]), wide.reshape(210, 1671)[::-1])
        same(cm.copy(turned[::-1, :, ::-1, :67:-1]), wide[::-1, :, ::-1, :67:-1])
        same(cm.copy(turned[1:, ::2, 1:, 3:36]), wide[1:, ::2, 1:, 3:36])
        target = cm.zeros((67, 130, 3), dtype)
        target[...] = ours.T
        same(target, x.T)
        target[1:, ::3] = ours.T[1:, ::3] if dtype.kind == "?" else 5
        expected = x.T.copy()
        expected[1:, ::3] = x.T[1:, ::3] if dtype.kind == "?" else 5
        same(target, expected)


def test_windows_of_images_as_columns(device):
    x = np.arange(2 * 3 * 7 * 6, dtype=np.float32).reshape(2, 3, 7, 6)
    windows = cm.lib.stride_tricks.sliding_window_view(
        cm.asarray(x, device=device), (3, 2), axis=(2, 3)
    )
    for order in ((1, 4, 5, 0, 2, 3), (0, 2, 3, 1, 4, 5), (5, 3, 1, 4, 2, 0)):
        expected = np.lib.stride_tricks.sliding_window_view(x, (3, 2), axis=(2, 3)).transpose(order)
        same(cm.copy(windows.transpose(order)), expected)
        same(windows.transpose(order).astype("float64"), expected.astype(np.float64))


@pytest.mark.parametrize("at", [0, 31, 63])
def test_arrays_of_64_axes_are_tiled_and_repeated(device, at):
    """Each axis becomes two on the way, and no array has more than 64."""
    shape = tuple(3 if i == at else 1 for i in range(64))
    x = np.arange(3.0).reshape(shape)
    reps = tuple(2 if i in (at, (at + 5) % 64) else 1 for i in range(64))
    np.testing.assert_array_equal(cm.tile(cm.asarray(x), reps).to_numpy(), np.tile(x, reps))
    np.testing.assert_array_equal(cm.tile(cm.asarray(3.0), reps).to_numpy(), np.tile(3.0, reps))
    for axis in (at, (at + 5) % 64):
        y = cm.repeat(cm.asarray(x), 2, axis)
        np.testing.assert_array_equal(y.to_numpy(), np.repeat(x, 2, axis))
    y = cm.kron(cm.asarray(x), cm.asarray(x))
    assert y.shape == tuple(9 if i == at else 1 for i in range(64))
    np.testing.assert_array_equal(y.to_numpy().ravel(), np.kron(x.ravel(), x.ravel()))
    g = cm.grad(
        lambda x: (
            cm.tile(x, reps) * cm.asarray(np.tile(cm.stop_gradient(x).to_numpy(), reps))
        ).sum()
    )
    np.testing.assert_array_equal(g(cm.asarray(x)).to_numpy(), 4 * x)
