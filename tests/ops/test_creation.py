"""Creation against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cudamath as cm

DTYPES = [
    np.dtype(t)
    for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
]
DTYPES.append(np.dtype(cm.bfloat16))
REAL = [t for t in DTYPES if t.kind != "c" and t.kind != "b"]


def same(ours, expected):
    """Equal in shape, dtype and every element (NaN equals NaN)."""
    expected = np.asarray(expected)
    assert isinstance(ours, (cm.ndarray, np.generic))
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(ours), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), 3, (0,), (2, 0), (2, 3), (7, 5, 3), 1025])
def test_filled(device, dtype, shape):
    same(cm.zeros(shape, dtype), np.zeros(shape, dtype))
    same(cm.ones(shape, dtype), np.ones(shape, dtype))
    value = {"?": True, "c": 1.5 - 2j}.get(dtype.kind, 3)
    same(cm.full(shape, value, dtype), np.full(shape, value, dtype))
    x = cm.zeros(shape, dtype)
    same(cm.full_like(x, value), np.full(shape, value, dtype))
    same(cm.ones_like(x), np.ones(shape, dtype))
    same(cm.zeros_like(cm.ones_like(x)), np.zeros(shape, dtype))
    for made in (cm.empty(shape, dtype), cm.empty_like(x)):
        assert (made.shape, made.dtype) == (x.shape, x.dtype)
    same(cm.zeros_like(x, dtype="int8"), np.zeros(shape, "i1"))


@pytest.mark.parametrize("order", "CFAK")
def test_full_like_passes_a_gradient_on(device, order):
    weights = np.arange(6.0).reshape(2, 3)
    for like in (cm.zeros((2, 3)), cm.zeros((3, 2)).T):
        made, pull = cm.vjp(
            lambda v, like=like: cm.full_like(like, v, order=order), np.array([1.0, 2.0, 3.0])
        )
        same(made, np.full((2, 3), [1.0, 2.0, 3.0]))
        assert made.flags.f_contiguous == (
            order == "F" or order in "AK" and like.flags.f_contiguous
        )
        assert pull(weights)[0].tolist() == weights.sum(0).tolist()


def test_full_takes_the_dtype_of_its_value(device):
    for value in (True, 3, 2.5, 1j, np.float32(2), np.int8(1)):
        same(cm.full(2, value), np.full(2, value))
    for value in (2**63 - 1, 2**63, 2**64 - 1, -(2**63)):
        same(cm.full(2, value), np.full(2, value))
    with pytest.raises(OverflowError, match=f"^full: {2**64} as uint64"):
        cm.full(2, 2**64)
    same(cm.full((2, 3), [1, 2, 3]), np.full((2, 3), [1, 2, 3]))
    same(cm.full((2, 3), np.float16([1, 2, 3]), "f8"), np.full((2, 3), [1.0, 2.0, 3.0]))
    for value in (np.nan, np.inf, -0.0):
        same(cm.full(3, value, "f2"), np.full(3, value, "f2"))
    assert np.signbit(np.asarray(cm.full(1, -0.0)))[0]


def test_default_dtype(device):
    cm.set_default_dtype("float32")
    try:
        for x in (cm.zeros(2), cm.full(2, 0.5), cm.linspace(0, 1), cm.arange(0.5)):
            assert x.dtype == np.float32
        assert cm.full(2, 1j).dtype == np.complex64
        assert cm.arange(3).dtype == np.int64
    finally:
        cm.set_default_dtype("float64")


INTS = st.integers(-40, 40)
FLOATS = st.floats(-20, 20, width=16)


@given(INTS, INTS, INTS.filter(bool))
def test_arange_of_integers(device, start, stop, step):
    same(cm.arange(start, stop, step), np.arange(start, stop, step))
    same(cm.arange(stop), np.arange(stop))
    same(cm.arange(start, stop), np.arange(start, stop))
    same(cm.arange(start, stop, step, "i2"), np.arange(start, stop, step, "i2"))


@given(FLOATS, FLOATS, FLOATS.filter(lambda s: abs(s) > 0.05))
def test_arange_of_floats(device, start, stop, step):
    # On a GPU the product and the sum are one fused operation: half a unit in the last place of the
    # largest term.
    for dtype in (None, "f4"):
        expected = np.arange(start, stop, step, dtype)
        ours = cm.arange(start, stop, step, dtype)
        assert ours.shape == expected.shape and ours.dtype == expected.dtype
        atol = 0 if device == "cpu" else 60 * np.finfo(expected.dtype).eps
        np.testing.assert_allclose(np.asarray(ours), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_arange_dtypes(device, dtype):
    same(cm.arange(3, 20, 2, dtype), np.arange(3, 20, 2).astype(dtype))
    same(cm.arange(0, 0, 1, dtype), np.arange(0).astype(dtype))


def test_arange_of_large_integers(device):
    same(cm.arange(2**62, 2**62 + 3), np.arange(2**62, 2**62 + 3))
    same(cm.arange(2**63, 2**63 + 3, dtype="u8"), np.arange(2**63, 2**63 + 3, dtype="u8"))
    same(cm.arange(np.int32(3), cm.asarray(7)), np.arange(3, 7))


def test_arange_errors(device):
    with pytest.raises(ZeroDivisionError, match="^arange: step must not be 0"):
        cm.arange(0, 3, 0)
    with pytest.raises(ValueError, match="^arange: .*no finite number"):
        cm.arange(0, np.inf)
    with pytest.raises(TypeError, match="^arange: bool has no 3 numbers"):
        cm.arange(3, dtype=bool)


@given(FLOATS, FLOATS, st.integers(0, 50), st.booleans())
def test_linspace(device, start, stop, num, endpoint):
    for dtype in (None, "f4", "f2", "i4"):
        expected = np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
        ours = cm.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
        assert ours.shape == expected.shape and ours.dtype == expected.dtype
        # NumPy computes in float64 and rounds once; ours rounds the product and the sum: two units
        # of the larger end.
        atol = (
            2 * np.finfo(expected.dtype).eps * max(abs(start), abs(stop))
            if expected.dtype.kind == "f"
            else 0
        )
        np.testing.assert_allclose(np.asarray(ours), expected, rtol=0, atol=atol)
        if num and endpoint and num > 1:
            assert ours[-1].item() == expected[-1]


def test_linspace_of_complex_numbers_and_errors(device):
    same(cm.linspace(0, 1 + 1j, 3), np.linspace(0, 1 + 1j, 3))
    with pytest.raises(ValueError, match="^linspace: num"):
        cm.linspace(0, 1, -1)


SIZES = st.integers(0, 5)


@given(SIZES, SIZES, st.integers(-6, 6), st.sampled_from(DTYPES))
def test_eye_and_tri(device, n, m, k, dtype):
    same(cm.eye(n, m, k=k, dtype=dtype), np.eye(n, m, k).astype(dtype))
    same(cm.tri(n, m, k=k, dtype=dtype), np.tri(n, m, k).astype(dtype))
    same(cm.eye(n), np.eye(n))
    same(cm.identity(n), np.identity(n))
    turned = cm.eye(n, m, k, dtype, "F")
    same(turned, np.eye(n, m, k, order="F").astype(dtype))
    assert turned.flags.f_contiguous


@given(st.lists(SIZES, min_size=2, max_size=3), st.integers(-6, 6), st.sampled_from(DTYPES))
def test_triangles(device, shape, k, dtype):
    x = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)
    same(cm.tril(cm.asarray(x), k=k), np.tril(x, k))
    same(cm.triu(cm.asarray(x), k=k), np.triu(x, k))


@given(st.lists(SIZES, min_size=1, max_size=2), st.integers(-6, 6), st.sampled_from(DTYPES))
def test_diag(device, shape, k, dtype):
    x = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)
    same(cm.diag(cm.asarray(x), k=k), np.diag(x, k))


def test_triangle_and_diag_errors(device):
    for function in (cm.tril, cm.triu):
        with pytest.raises(
            ValueError,
            match=rf"^{function.__name__}: wants at least 1 dimension, got float64 of shape \(\)",
        ):
            function(cm.zeros(()))
    with pytest.raises(ValueError, match="^diag: wants 1 or 2"):
        cm.diag(cm.zeros((2, 2, 2)))


@given(st.lists(SIZES, max_size=4), st.sampled_from(["xy", "ij"]))
def test_meshgrid(device, sizes, indexing):
    vectors = [np.arange(n) + 10.0 * i for i, n in enumerate(sizes)]
    ours, expected = (
        cm.meshgrid(*vectors, indexing=indexing),
        np.meshgrid(*vectors, indexing=indexing),
    )
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected, strict=True):
        same(a, b)


def test_meshgrid_errors(device):
    with pytest.raises(ValueError, match="^meshgrid: indexing"):
        cm.meshgrid(cm.zeros(2), indexing="yx")


def test_asarray(device):
    same(cm.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
    same(cm.asarray((1.0, 2)), np.array([1.0, 2.0]))
    same(cm.asarray(3), np.array(3))
    same(cm.asarray(np.float32(2.5)), np.array(2.5, "f4"))
    same(cm.asarray([1, 2], "bfloat16"), np.array([1, 2]).astype(cm.bfloat16))
    same(cm.asarray(cm.asarray([1, 2]), dtype="f4"), np.array([1, 2], "f4"))
    x = cm.asarray([1, 2])
    assert cm.asarray(x) is x
    y = cm.array(x)
    y[0] = 9
    same(x, np.array([1, 2]))
    with pytest.raises(ValueError, match="asarray: "):
        cm.asarray(x, dtype="f4", copy=False)
    with pytest.raises(TypeError, match="asarray: "):
        cm.asarray("text")


def test_array_copies_and_asarray_shares_host_memory():
    host = np.arange(3.0)
    with cm.device("cpu"):
        shared, copied = cm.asarray(host), cm.array(host)
        host[0] = 7
        assert shared[0].item() == 7 and copied[0].item() == 0
        assert np.shares_memory(np.asarray(cm.from_dlpack(host)), host)
    with pytest.raises(TypeError, match="^from_dlpack: list has no"):
        cm.from_dlpack([1, 2])


def test_shape_errors(device):
    for function in (cm.zeros, cm.ones, cm.empty):
        with pytest.raises(ValueError, match=rf"^{function.__name__}: negative size"):
            function((2, -1))
        with pytest.raises(TypeError, match=rf"^{function.__name__}: shape must be"):
            function(2.5)
    with pytest.raises(ValueError, match="^eye: negative size"):
        cm.eye(-1)
