"""ndarray itself: attributes, protocols, pickling, printing, copies, iteration, conversion, other
libraries' arrays."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BF16, DTYPES, numbers, shapes, views

import cudamath as cm

BASE = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)


def same(ours, expected) -> None:
    expected = np.asarray(expected)
    assert isinstance(ours, (cm.ndarray, np.generic))
    assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
    wide = np.float32 if expected.dtype == BF16 else expected.dtype
    np.testing.assert_array_equal(np.asarray(ours).astype(wide), expected.astype(wide))


# -------------------- attributes


@given(data=st.data())
def test_attributes_are_numpys(device, data):
    view = data.draw(views(data.draw(shapes())))
    dtype = data.draw(st.sampled_from(DTYPES))
    base = numbers(np.random.default_rng(0), view.base, dtype)
    ours, theirs = view.of(cm.asarray(base)), view.of(base)
    same(ours, theirs)
    for name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
        assert getattr(ours, name) == getattr(theirs, name), name
    for size, mine, other in zip(ours.shape, ours.strides, theirs.strides, strict=True):
        assert size < 2 or ours.size == 0 or mine == other
    assert ours.is_contiguous == theirs.flags.c_contiguous
    same(ours.T, theirs.T)
    if ours.ndim > 1:
        same(ours.mT, theirs.mT)
    same(ours.real, theirs.real)
    if dtype.kind == "c":
        same(ours.imag, theirs.imag)
    if ours.ndim:
        assert len(ours) == len(theirs)
    else:
        with pytest.raises(TypeError, match="0-d"):
            len(ours)


def test_device(device):
    x = cm.zeros(3)
    assert x.device == device
    assert str(x.device) == ("cpu" if device == "cpu" else "cuda:0")
    assert x.device.type == device
    assert x.to(device) is x
    assert x.to(device, copy=True) is not x
    assert hash(x.device) == hash(cm.device(device)) and x.device != "cuda:7"


def test_default_device():
    before = cm.default_device()
    with cm.device("cpu"):
        assert cm.default_device() == "cpu" and cm.zeros(1).device == "cpu"
        cm.set_default_device(before)
        assert cm.default_device() == "cpu"  # the context counts for more
    assert cm.default_device() == before


def test_arrays_have_no_hash():
    with pytest.raises(TypeError, match="unhashable"):
        hash(cm.zeros(2))


# -------------------- NumPy's protocols


def test_array_protocol(device):
    x = cm.asarray(BASE)
    np.testing.assert_array_equal(np.asarray(x), BASE)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.array(x) is not np.asarray(x)
    made = np.array(x, copy=True)
    made[:] = 0
    same(x, BASE)
    if device == "cpu":
        assert np.shares_memory(np.asarray(x), np.asarray(x))
        assert np.shares_memory(np.asarray(x, copy=False), np.asarray(x))
    else:
        with pytest.raises(ValueError, match="^__array__: .*cuda:0"):
            np.asarray(x, copy=False)
    with pytest.raises(ValueError, match="copy"):  # NumPy's own words on the CPU
        np.asarray(x, dtype=np.float64, copy=False)
    assert np.asarray(cm.ones(2, "bfloat16")).dtype == BF16


def test_array_ufunc(device):
    """NumPy's ufuncs on our arrays are our functions, on our device; whatever is not ours is
    refused, not converted."""
    x, y = cm.asarray(BASE), cm.asarray(BASE + 1)
    same(np.add(x, y), BASE + BASE + 1)
    same(np.add(BASE, y), BASE + BASE + 1)
    same(np.exp(x), np.exp(BASE)) if device == "cpu" else np.testing.assert_allclose(
        np.exp(x), np.exp(BASE), rtol=1e-6
    )
    same(np.multiply(x, 2.5), BASE * np.float32(2.5))
    same(BASE * y, BASE * (BASE + 1))
    same(np.float32(3) - x, 3 - BASE)
    same(np.float64(3) - x, np.float64(3) - BASE)
    same(np.matmul(x, y.mT), np.matmul(BASE, (BASE + 1).mT))
    same(np.power(x, 2), BASE**2)
    same(np.isnan(x), np.isnan(BASE))
    assert isinstance(np.conjugate(x), cm.ndarray)
    same(np.add.outer(x[0], y[0, 0]), np.add.outer(BASE[0], BASE[0, 0] + 1))
    with pytest.raises(TypeError):
        np.isnat(x)  # not ours
    same(np.add.reduceat(x, [0, 1]), np.add.reduceat(BASE, [0, 1]))
    same(np.subtract.reduceat(x, [0, 1]), np.subtract.reduceat(BASE, [0, 1]))
    same(np.frexp(x)[0], np.frexp(BASE)[0])


def test_array_ufunc_out_and_where(device):
    x, y = cm.asarray(BASE), cm.asarray(BASE + 1)
    out = cm.zeros(BASE.shape, "float32")
    assert np.add(x, y, out=out) is out
    same(out, 2 * BASE + 1)
    assert np.negative(x, out=(out,)) is out
    same(out, -BASE)
    np.add(x, y, out=out, where=BASE > 3)
    same(out, np.where(BASE > 3, 2 * BASE + 1, -BASE))
    same(np.add.reduce(x, axis=1), BASE.sum(axis=1))
    same(np.maximum.reduce(x), BASE.max(axis=0))


def test_array_function(device):
    x = cm.asarray(BASE)
    same(np.concatenate([x, x], axis=1), np.concatenate([BASE, BASE], axis=1))
    same(np.sum(x, axis=0), BASE.sum(axis=0))
    same(np.where(x > 3, x, 0), np.where(BASE > 3, BASE, np.float32(0)))
    same(np.reshape(x, (6, 4)), BASE.reshape(6, 4))
    same(np.transpose(x), BASE.T)
    same(np.stack([x, x]), np.stack([BASE, BASE]))
    assert float(np.linalg.norm(x)) == pytest.approx(float(np.linalg.norm(BASE)))
    assert np.shape(x) == (2, 3, 4) and np.ndim(x) == 3 and np.size(x) == 24
    if device == "cpu":
        same(np.i0(x / 8), np.i0(BASE / 8))
    else:  # a GPU's rounding is its own
        bessel = np.i0(x / 8)
        assert isinstance(bessel, cm.ndarray) and bessel.dtype == np.float32
        np.testing.assert_allclose(np.asarray(bessel), np.i0(BASE.astype(float) / 8), rtol=1e-6)
    same(np.emath.sqrt(x), np.sqrt(BASE))
    for unknown in (lambda: np.is_busday(x), lambda: np.busday_count(x, x)):
        with pytest.raises(TypeError, match="implement|cudamath"):
            unknown()


def test_array_namespace():
    x = cm.zeros(2)
    assert x.__array_namespace__().__name__ == "cudamath"
    assert x.__array_namespace__(api_version="2024.12") is x.__array_namespace__()
    with pytest.raises(ValueError, match="^__array_namespace__: .*1999"):
        x.__array_namespace__(api_version="1999.01")


# -------------------- pickling, copies, printing


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pickle(device, dtype):
    for base in (
        numbers(np.random.default_rng(0), (3, 4), dtype),
        np.zeros((), dtype),
        np.zeros((0, 2), dtype),
    ):
        x = cm.asarray(base)
        back = pickle.loads(pickle.dumps(x))
        same(back, base)
        assert back.device == x.device
        if base.ndim == 2:
            same(pickle.loads(pickle.dumps(x.T)), base.T)


def test_copies(device):
    x = cm.array(BASE)
    for made in (x.copy(), copy.copy(x), copy.deepcopy(x), cm.array(x), cm.asarray(x, copy=True)):
        same(made, BASE)
        made[...] = 0
        same(x, BASE)
    tree = copy.deepcopy({"a": [x, x]})
    same(tree["a"][1], BASE)
    assert cm.asarray(x) is x
    base = BASE.copy()
    cm.array(base)[0, 0, 0] = 99
    assert base[0, 0, 0] == 0
    same(x.T.copy(), BASE.T)
    assert x.T.copy().is_contiguous


def test_printing(device):
    place = f", device='{cm.zeros(()).device}'"  # which NumPy's have not
    assert repr(cm.asarray([1.5, 2.0])) == f"array([1.5, 2. ]{place})"
    assert repr(cm.asarray([1, 2])) == f"array([1, 2]{place})"
    assert repr(cm.asarray(3)) == f"array(3{place})"
    assert repr(cm.zeros((0, 2))) == f"array([], shape=(0, 2), dtype=float64{place})"
    assert (
        repr(cm.asarray(np.float32([[1, 2], [3, 4]])))
        == f"array([[1., 2.],\n       [3., 4.]], dtype=float32{place})"
    )
    assert repr(cm.ones(2, "bfloat16")) == f"array([1, 1], dtype=bfloat16{place})"
    assert str(cm.asarray([1.5, 2.0])) == "[1.5 2. ]"
    assert len(repr(cm.zeros(1_000_000))) < 100
    assert f"{cm.asarray(2.5):.2f}" == "2.50" and f"{cm.asarray([1, 2])}" == "[1 2]"
    with pytest.raises(TypeError):
        f"{cm.asarray([1, 2]):.2f}"
    html = cm.zeros((2, 3), "float32")._repr_html_()
    assert "(2, 3) float32 on " in html and "24 B" in html and "monospace" in html
    assert "[[0. 0. 0.]\n [0. 0. 0.]]" in html
    assert "() float64" in cm.asarray(1.0)._repr_html_()
    assert "<script" not in cm.asarray([1])._repr_html_()


# -------------------- as a Python object


def test_iteration(device):
    x = cm.asarray(BASE)
    rows = list(x)
    assert len(rows) == 2
    for ours, theirs in zip(rows, BASE, strict=True):
        same(ours, theirs)
    first, second = x
    same(second, BASE[1])
    assert [float(v) for v in cm.asarray([1.0, 2.0])] == [1.0, 2.0]
    assert list(cm.zeros((0, 3))) == []
    with pytest.raises(TypeError, match="0-d"):
        iter(cm.asarray(1.0))
    assert [v.item() for v in reversed(cm.arange(3))] == [2, 1, 0]
    assert dict(zip("ab", cm.arange(2).tolist(), strict=True)) == {"a": 0, "b": 1}
    assert max(cm.asarray([3, 1, 2])).item() == 3


def test_containment(device):
    x = cm.asarray(BASE)
    assert 3 in x and 99 not in x and np.float32(5) in x and cm.asarray(7.0) in x
    assert np.nan not in cm.asarray([np.nan])
    assert 1 not in cm.zeros(0)
    assert BASE[0] in x  # as in NumPy: any equal element


def test_scalar_conversion(device):
    assert (
        float(cm.asarray(2.5)) == 2.5 and int(cm.asarray(7)) == 7 and complex(cm.asarray(1j)) == 1j
    )
    for kind in (int, float, complex):
        with pytest.raises(TypeError, match="^only arrays of no dimensions"):
            kind(cm.asarray([7]))
    assert bool(cm.asarray([True])) is True and bool(cm.asarray(0.0)) is False
    assert cm.asarray(3).item() == 3 and type(cm.asarray(3).item()) is int
    assert cm.asarray(BASE).item(1, 2, 3) == 23.0
    assert type(cm.ones((), "bfloat16").item()) is float
    assert (
        operator.index(cm.asarray(4)) == 4
        and [10, 20, 30][cm.asarray(1)] == 20
        and list(range(cm.asarray(2))) == [0, 1]
    )
    assert cm.asarray([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert (
        cm.asarray(BASE).tobytes() == BASE.tobytes()
        and cm.asarray(BASE).T.tobytes() == BASE.T.tobytes()
    )
    assert round(cm.asarray(2.567), 1) == 2.6 and round(cm.asarray(2.567)) == 3
    for convert in (float, int, complex):
        with pytest.raises((ValueError, TypeError)):
            convert(cm.asarray([1.0, 2.0]))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(cm.asarray([1, 2]))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(cm.zeros(0))
    with pytest.raises(TypeError, match="index"):
        operator.index(cm.asarray(1.0))
    with pytest.raises(TypeError, match="index"):
        operator.index(cm.asarray([1]))


OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]
BIT_OPERATORS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("op", OPERATORS + BIT_OPERATORS, ids=lambda f: f.__name__)
def test_operators(device, op):
    a, b = (
        (np.array([1, 2, 3]), np.array([3, 2, 1]))
        if op in BIT_OPERATORS
        else (np.array([1.0, 2, 3]), np.array([3.0, 2, 1]))
    )
    x, y = cm.asarray(a), cm.asarray(b)
    if (
        op is operator.pow and device == "cuda"
    ):  # CUDA's pow is within 2 ulp, not exact for whole numbers
        for ours, theirs in (
            (op(x, y), op(a, b)),
            (op(2, x), op(2, a)),
            (op(x, b), op(a, b)),
            (op(a, y), op(a, b)),
        ):
            assert isinstance(ours, cm.ndarray) and ours.dtype == theirs.dtype
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=2 * np.finfo(float).eps)
        return
    same(op(x, y), op(a, b))
    same(op(x, 2), op(a, 2))
    same(op(2, x), op(2, a))
    same(op(x, b), op(a, b))  # a NumPy array on either side
    same(op(a, y), op(a, b))
    same(op(x, b.tolist()), op(a, b))
    same(op(b.tolist(), x), op(b, a))
    same(op(x, a.dtype.type(2)), op(a, a.dtype.type(2)))


@pytest.mark.parametrize(
    "op", [operator.neg, operator.pos, operator.abs, operator.invert], ids=lambda f: f.__name__
)
def test_unary_operators(device, op):
    a = np.array([1, -2, 3])
    same(op(cm.asarray(a)), op(a))


IN_PLACE = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
]


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda f: f.__name__)
def test_in_place_operators(device, op):
    a = np.array([[5.0, 7.0], [9.0, 11.0]])
    for other in (2.0, np.array([2.0, 3.0]), 3):
        x, theirs = cm.array(a), a.copy()
        view = x.T
        result = op(x, cm.asarray(other) if isinstance(other, np.ndarray) else other)
        assert result is x
        same(x, op(theirs, other))
        same(view, np.asarray(x).T)
    x = cm.array(a)
    x @= cm.asarray([[0.0, 1.0], [1.0, 0.0]])
    same(x, a[:, ::-1])


class Other:
    """An object with operators of its own."""

    def __radd__(self, x):
        return "other"

    def __eq__(self, x):
        return "equal"

    __hash__ = None


def test_unknown_objects_get_their_turn():
    x = cm.ones(2)
    assert x + Other() == "other"
    assert (x == Other()) == "equal"
    with pytest.raises(TypeError):
        x + object()
    with pytest.raises(TypeError):
        x - "text"
    with pytest.raises(TypeError):
        None * x
    for other in (None, "text", object(), {}, len):
        assert (x == other).tolist() == (np.ones(2) == other).tolist() == [False, False]
        assert (x != other).tolist() == (np.ones(2) != other).tolist() == [True, True]
    assert None not in x


# -------------------- other libraries


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != BF16], ids=str)
def test_dlpack_with_numpy(dtype):
    base = numbers(np.random.default_rng(0), (4, 6), dtype)
    with cm.device("cpu"):
        for view in (base, base.T, base[::2, 1:], base[:0], np.asarray(base[0, 0])):
            taken = cm.from_dlpack(view)
            same(taken, view)
            assert not view.size or np.shares_memory(np.asarray(taken), view)
            x = cm.asarray(view)
            back = np.from_dlpack(x)
            np.testing.assert_array_equal(back, view)
            assert not view.size or np.shares_memory(back, view)


def test_dlpack_keeps_memory_alive():
    with cm.device("cpu"):
        x = cm.array(BASE)
        lent = np.from_dlpack(x)
        del x
        junk = [np.ones_like(BASE) for _ in range(50)]
        np.testing.assert_array_equal(lent, BASE)
        del junk
        capsule = cm.array(BASE).__dlpack__()  # never consumed: must be given back without harm
        del capsule
        assert cm.zeros(2).__dlpack_device__() == (1, 0)
        with pytest.raises(TypeError, match="^from_dlpack: "):
            cm.from_dlpack([1, 2])
        with pytest.raises(BufferError, match="^__dlpack__: "):
            cm.zeros(2).__dlpack__(dl_device=(2, 0))


def test_read_only_arrays_stay_so():
    base = BASE.copy()
    base.flags.writeable = False
    with cm.device("cpu"):
        for x in (cm.asarray(base), cm.asarray(base)[0], cm.from_dlpack(base)):
            with pytest.raises((ValueError, BufferError), match="read-only"):
                x += 1
            with pytest.raises((ValueError, BufferError), match="read-only"):
                x[...] = 1
    np.testing.assert_array_equal(base, BASE)


TORCH = [
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "bool",
]


@pytest.mark.parametrize("name", TORCH)
def test_torch(name):
    torch = pytest.importorskip("torch")
    with cm.device("cpu"):
        t = (torch.arange(24).reshape(4, 6) % 2).to(getattr(torch, name))
        for seen in (t, t.T, t[::2, 1:]):
            x = cm.asarray(seen)
            assert x.dtype == np.dtype(getattr(cm, name)) and x.shape == tuple(seen.shape)
            assert x.ptr == seen.data_ptr()
            assert x.astype("complex128").tolist() == seen.to(torch.complex128).tolist()
            back = torch.from_dlpack(x)
            assert back.dtype == seen.dtype and back.data_ptr() == x.ptr and torch.equal(back, seen)
        x = cm.asarray(t)
        t[0, 0] = 1
        assert x[0, 0].item() == 1
        if name == "float32":
            same(x + t, (t + t).numpy())
            same(t.numpy() + x, (t + t).numpy())
            assert isinstance(cm.matmul(t, t.T), cm.ndarray)


def test_torch_views_outlive_their_owner():
    torch = pytest.importorskip("torch")
    with cm.device("cpu"):
        x = cm.asarray(torch.arange(1000.0))
        junk = [torch.zeros(1000) for _ in range(20)]
        assert x[999].item() == 999.0
        del junk
        t = torch.from_dlpack(cm.arange(1000, dtype="float32"))
        junk = [cm.zeros(1000, "float32") for _ in range(20)]
        assert t[999].item() == 999.0
        del junk


def test_what_is_no_array():
    for wrong in ("text", object(), {"a": 1}, [1, "a"], None, {1, 2}, b"bytes", [[1, 2], [3]]):
        with pytest.raises((TypeError, ValueError), match="^asarray: "):
            cm.asarray(wrong)
        with pytest.raises((TypeError, ValueError), match="^add: "):
            cm.add(wrong, cm.ones(2))


def test_what_is_taken():
    import array as std

    with cm.device("cpu"):
        same(cm.asarray(std.array("d", [1, 2])), np.array([1.0, 2.0]))
        same(cm.asarray(range(3)), np.arange(3))
        same(cm.asarray([cm.asarray([1, 2]), cm.asarray([3, 4])]), np.array([[1, 2], [3, 4]]))
        same(cm.asarray([np.float32(1), np.float32(2)]), np.float32([1, 2]))
        same(cm.asarray(np.matrix([[1, 2]])), np.array([[1, 2]]))
        same(cm.asarray(memoryview(b"ab")), np.array([97, 98], np.uint8))
        same(cm.asarray([]), np.array([]))
        same(cm.asarray(True), np.array(True))
        same(cm.asarray(1 << 40), np.array(1 << 40))
        same(cm.asarray(np.ma.array([1, 2])), np.array([1, 2]))
        same(cm.asarray(BASE.astype(">f4")), BASE)
        same(cm.asarray(2**63), np.array(2**63, np.uint64))
