"""What NumPy's arrays have beside arithmetic: bases, the constructor, bytes, iterators, protocols;
keywords of ufuncs; inputs of bool; errors. NumPy's answer is the truth."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudamath as cm

VIEWS: list[Callable] = [
    lambda a: a[1:],
    lambda a: a[1:][:, 1:],
    lambda a: a.T,
    lambda a: a.reshape(6),
    lambda a: a.ravel(),
    lambda a: a.swapaxes(0, 1),
    lambda a: a.view(),
    lambda a: a.view("i4"),
    lambda a: a.diagonal(),
    lambda a: a[None],
    lambda a: a[:, :1].squeeze(),
]


@pytest.fixture(autouse=True)
def place(device: str):
    with cm.device(device):
        yield


def agree(got: Any, want: Any) -> None:
    """Values, dtype and shape."""
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            agree(g, w)
        return
    want = np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("view", VIEWS)
def test_base_of_views(view: Callable) -> None:
    """At each call, also where it is a replay."""
    a = cm.arange(6).reshape(2, 3).copy()
    for _ in range(3):
        assert view(a).base is a
        assert not view(a).flags.owndata


def test_base_of_new_arrays() -> None:
    a = cm.ones((2, 3))
    for make in (
        lambda: a + 1,
        lambda: a.copy(),
        lambda: a.T.copy("K"),
        lambda: a.flatten(),
        lambda: cm.zeros(3),
        lambda: a.sum(0),
    ):
        for _ in range(3):
            assert make().base is None


def test_a_base_keeps_no_gradient() -> None:
    seen = []

    def loss(x: Any) -> Any:
        seen.append(x[1:].base)
        return (x[1:] ** 2).sum()

    cm.grad(loss)(cm.ones(3))
    assert seen == [None]


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "?"])
def test_byteswap(dtype: str) -> None:
    value = np.array([[0, 1, 2], [3, 100, 127]]).astype(dtype)
    for x, want in ((cm.array(value), value), (cm.array(value).T, value.T)):
        assert x.byteswap().tobytes() == want.byteswap().tobytes()
    x = cm.array(value)
    assert x.byteswap(inplace=True) is x
    assert x.tobytes() == value.byteswap().tobytes()


def test_constructor() -> None:
    assert cm.ndarray((2, 3)).shape == (2, 3) and cm.ndarray(2, "i4").dtype == "i4"
    assert cm.ndarray((2, 3), order="F").strides == np.ndarray((2, 3), order="F").strides
    memory = np.arange(12, dtype="i2")
    mine = cm.array(memory)
    for options in (
        {"offset": 4},
        {"offset": 2, "strides": (2, 6)},
        {"order": "F"},
        {"strides": (-8, 2), "offset": 8},
    ):
        agree(
            cm.ndarray((2, 3), "i2", mine, **options), np.ndarray((2, 3), "i2", memory, **options)
        )
    view = cm.ndarray((2,), "i2", mine, 2)
    view[0] = 99
    assert int(mine[1]) == 99 and view.base is mine
    for wrong in (
        lambda xp, m: xp.ndarray((7, 3), "i2", m),
        lambda xp, m: xp.ndarray((2, 3), "i2", m, 14),
        lambda xp, m: xp.ndarray((2, 3), "i2", m, strides=(20, 2)),
        lambda xp, m: xp.ndarray((2, 3), "i2", m, strides=(2,)),
    ):
        with pytest.raises((TypeError, ValueError)) as theirs:
            wrong(np, memory)
        with pytest.raises(theirs.type, match="^ndarray: "):
            wrong(cm, mine)


def test_constructor_stays_within_the_buffer() -> None:
    """NumPy reads before it."""
    with pytest.raises(ValueError, match="^ndarray: .* reach beyond the 24 bytes"):
        cm.ndarray((2, 3), "i2", cm.arange(12, dtype="i2"), -2)


def test_constructor_over_bytes(device: str) -> None:
    if device == "cpu":
        agree(cm.ndarray(2, "i4", b"12345678"), np.ndarray(2, "i4", b"12345678"))
    assert cm.ndarray[Any, np.dtype].__origin__ is cm.ndarray


def test_dumps_and_resize(tmp_path: Any) -> None:
    x = cm.arange(4)
    agree(pickle.loads(x.dumps()), np.arange(4))
    x.dump(tmp_path / "x")
    agree(pickle.loads((tmp_path / "x").read_bytes()), np.arange(4))
    for shape in ((2, 3), (2,), 5):
        mine, theirs = cm.arange(4), np.arange(4)
        mine.resize(shape)
        theirs.resize(shape, refcheck=False)
        agree(mine, theirs)
    with pytest.raises(ValueError, match="^resize: .* own"):
        x[1:].resize(7)


def test_flags_of_the_host(device: str) -> None:
    x = cm.arange(3)
    if device != "cpu":
        with pytest.raises(ValueError, match="^setflags: "):
            x.setflags(write=False)
        with pytest.raises(ValueError, match="^data: "):
            _ = x.data
        return
    x.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    x.setflags(write=True)
    x[0] = 1
    assert bytes(x.data) == np.array([1, 1, 2]).tobytes()


ELEMENTS = np.arange(6).reshape(2, 3)


def test_flat_is_an_iterator() -> None:
    mine, theirs = cm.array(ELEMENTS).flat, ELEMENTS.flat
    for _ in range(6):
        assert (mine.index, mine.coords) == (theirs.index, theirs.coords)
        assert int(next(mine)) == int(next(theirs))
    with pytest.raises(StopIteration):
        next(mine)
    agree(cm.array(ELEMENTS).flat.copy(), ELEMENTS.flat.copy())
    agree(cm.array(ELEMENTS).flat == 2, ELEMENTS.flat == 2)
    agree(cm.array(ELEMENTS).flat < 2, ELEMENTS.flat < 2)


def test_broadcast() -> None:
    mine, theirs = cm.broadcast([[1], [2]], [3, 4, 5]), np.broadcast([[1], [2]], [3, 4, 5])
    for name in ("shape", "ndim", "nd", "size", "numiter", "index"):
        assert getattr(mine, name) == getattr(theirs, name)
    pairs = [tuple(map(int, pair)) for pair in theirs]
    assert [tuple(map(int, pair)) for pair in mine] == pairs
    mine.reset()
    assert tuple(map(int, next(mine))) == pairs[0] and mine.index == 1
    assert [len(list(each)) for each in cm.broadcast([1, 2], 3).iters] == [2, 2]
    with pytest.raises(ValueError, match="^broadcast: "):
        cm.broadcast([1, 2], [1, 2, 3])


TRUTHS = np.array([True, False, True])


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, b: xp.round(b),
        lambda xp, b: xp.around(b),
        lambda xp, b: b.round(),
        lambda xp, b: xp.conj(b),
        lambda xp, b: b.conj(),
        lambda xp, b: b.conjugate(),
        lambda xp, b: xp.cumulative_sum(b),
        lambda xp, b: xp.cumulative_prod(b),
        lambda xp, b: xp.vdot(b, b),
        lambda xp, b: xp.linalg.matrix_power(b[:, None] & b, 3),
        lambda xp, b: xp.repeat(xp.arange(3), b),
        lambda xp, b: xp.repeat(xp.arange(3), True),
        lambda xp, b: xp.take(xp.arange(3), b),
        lambda xp, b: xp.choose(b, [xp.arange(3), 5 + xp.arange(3)]),
        lambda xp, b: xp.tile(b, True),
        lambda xp, b: xp.vectorize(lambda v: v)(b),
        lambda xp, b: xp.vectorize(lambda v: not v)(b),
    ],
)
def test_bool_inputs(call: Callable) -> None:
    agree(call(cm, cm.array(TRUTHS)), call(np, TRUTHS))


@pytest.mark.parametrize(
    "call",
    [
        lambda xp: xp.linspace(0.0, 5e-324, 10),
        lambda xp: xp.linspace(0.0, 1e-45, 10, dtype="f4"),
        lambda xp: xp.linspace(1e-310, 2e-310, 7),
        lambda xp: xp.linspace(xp.zeros(2), xp.asarray([5e-324, 1e-323]), 10),
        lambda xp: xp.ones((2, 3, 4))[xp.asarray([], bool)],
        lambda xp: xp.ones((2, 3, 4))[:, xp.asarray([], bool)],
        lambda xp: xp.ones((2, 3, 4))[xp.ones((0, 3), bool)],
        lambda xp: xp.ones(2)[xp.asarray([], bool)],
        lambda xp: assigned(xp.ones((2, 3)), xp.asarray([], bool), 5),
        lambda xp: assigned(xp.ones((2, 3, 4)), xp.ones((0, 3), bool), 5),
        lambda xp: xp.squeeze(xp.ones(()), 0),
        lambda xp: xp.squeeze(xp.ones(()), -1),
        lambda xp: xp.argsort(xp.asarray(1.0)),
        lambda xp: xp.argsort(xp.asarray(1.0), 0),
        lambda xp: xp.argpartition(xp.asarray(1.0), 0),
        lambda xp: xp.mgrid[2:],
        lambda xp: xp.einsum("ij,jk", xp.ones((2, 2)), xp.ones((2, 2)), optimize=("greedy", 0)),
        lambda xp: xp.clip(xp.arange(4), min=2),
        lambda xp: xp.clip(xp.arange(4), a_min=None, a_max=2),
        lambda xp: xp.arange(4).clip(2),
        lambda xp: xp.nan_to_num(xp.asarray([xp.nan, 1.0]), nan=xp.asarray([3.0, 2.0])),
        lambda xp: xp.pad(
            xp.asarray([[1, 2], [3, 4]]),
            1,
            lambda v, w, axis, options: v.__setitem__(slice(0, w[0]), options["value"] + axis),
            value=9,
        ),
        lambda xp: xp.divmod(xp.arange(4), 3, xp.empty(4, int), xp.empty(4, int)),
        lambda xp: xp.modf(xp.asarray([1.5]), xp.empty(1), xp.empty(1)),
        lambda xp: xp.frexp(xp.asarray([1.5]), xp.empty(1), xp.empty(1, "i4")),
        lambda xp: xp.add(1, 2, signature="dd->d"),
        lambda xp: xp.add(xp.ones(2, "f4"), 2, sig=("f8", "f8", "f8")),
        lambda xp: xp.add(xp.ones(2), 2, subok=True, order="C"),
        lambda xp: xp.power(xp.ones(2), 2, subok=True, order="C"),
        lambda xp: xp.matmul(xp.ones((2, 2), "i4"), xp.ones((2, 2), "i4"), casting="unsafe"),
        lambda xp: xp.matmul(ELEMENTS_OF(xp).T, ELEMENTS_OF(xp).T, axes=[(1, 0), (0, 1), (1, 0)]),
        lambda xp: xp.matmul(ELEMENTS_OF(xp), xp.arange(3), axes=[(0, 1), (0,), (0,)]),
        lambda xp: xp.vecdot(ELEMENTS_OF(xp), ELEMENTS_OF(xp), axes=[0, 0, ()]),
        lambda xp: xp.vecdot(xp.ones(3), xp.ones(3), dtype="f4"),
    ],
)
def test_answers(call: Callable) -> None:
    want = call(np)
    for _ in range(2):
        agree(call(cm), want)


def assigned(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


def ELEMENTS_OF(xp: Any) -> Any:  # noqa: N802
    return xp.asarray(ELEMENTS)


TURNED = np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: x.copy(order="K"),
        lambda xp, x: x.copy(),
        lambda xp, x: x.copy(None),
        lambda xp, x: xp.copy(x),
        lambda xp, x: xp.array(x),
        lambda xp, x: xp.array(x, order="c"),
        lambda xp, x: xp.array(x, order="f"),
        lambda xp, x: xp.array(x, order=None),
        lambda xp, x: xp.zeros_like(x),
        lambda xp, x: xp.full_like(x, 2),
        lambda xp, x: xp.ones_like(x, order="a"),
        lambda xp, x: xp.ones_like(x, order="f"),
        lambda xp, x: xp.ones_like(x, order=None),
        lambda xp, x: xp.ones_like(x, shape=(5, 2, 3)),
        lambda xp, x: x.astype(xp.float64, order="K"),
        lambda xp, x: x.ravel("f"),
        lambda xp, x: x.ravel("k"),
        lambda xp, x: x.flatten(None),
        lambda xp, x: x.reshape((4, 6), order="f"),
        lambda xp, x: xp.zeros((2, 3), order="f"),
        lambda xp, x: xp.zeros((2, 3), order=None),
        lambda xp, x: xp.full((2, 3), 1, order="f"),
        lambda xp, x: xp.eye(2, 3, order="f"),
        lambda xp, x: xp.unravel_index(5, (2, 3), order=None)[0],
        lambda xp, x: xp.add(x, 1, order="F"),
        lambda xp, x: xp.add(x.T, 1, order="A"),
        lambda xp, x: xp.power(x, 1, order="F"),
        lambda xp, x: xp.matmul(x[0], x[0].T, order="F"),
        lambda xp, x: xp.einsum("ijk,k->ki", x, xp.ones(2), order="F"),
        lambda xp, x: xp.imag(x),
        lambda xp, x: xp.vander(xp.arange(3)),
        lambda xp, x: xp.correlate(xp.arange(2), xp.arange(4), "full"),
    ],
)
def test_orders_in_memory(call: Callable) -> None:
    want = call(np, TURNED)
    mine = cm.asarray(TURNED.transpose(2, 0, 1).copy()).transpose(1, 2, 0)
    assert mine.strides == TURNED.strides
    rtol = 0 if mine.device == "cpu" else 4e-16  # 3.0 ** 1 is off by one bit on a GPU
    for _ in range(3):
        got = call(cm, mine)
        np.testing.assert_allclose(np.asarray(got), want, rtol=rtol)
        if np.size(want) > 1:
            assert got.strides == want.strides


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda xp: xp.array(xp.ones((2, 3)), order="F", copy=False), "^array: .* without a copy"),
        (lambda xp: xp.reshape(xp.ones(3), 3, copy="False"), "^reshape: copy must be"),
        (lambda xp: xp.array([1], copy="no"), "^array: copy must be"),
        (lambda xp: xp.delete(xp.arange(3), True), "^delete: boolean index"),
        (lambda xp: xp.pad(xp.ones(2), 1, bad=3), r"^pad: .* mode 'constant'.*\['bad'\]"),
        (lambda xp: xp.pad(xp.ones(2), 1, "edge", constant_values=0), "^pad: .* mode 'edge'"),
        (lambda xp: xp.clip(xp.arange(2), 3), "missing 1 required positional argument: 'a_max'"),
        (lambda xp: xp.copyto(xp.ones(2), 1, where=xp.asarray([1, 0])), "^copyto: where must be"),
        (
            lambda xp: xp.nan_to_num(xp.ones(3), nan=xp.ones(2)),
            "^nan_to_num: an array of shape",
        ),
        (lambda xp: xp.einsum(xp.ones(3), [0], [1]), "^einsum: "),
        (lambda xp: xp.zeros(3, order="x"), "^zeros: order must be 'C' or 'F', got 'x'"),
        (lambda xp: xp.sort(xp.ones(3), order="x"), "^sort: order names fields"),
        (lambda xp: xp.add(1, 2, bad=3), r"^add\(\) got an unexpected keyword argument 'bad'"),
        (lambda xp: xp.put(xp.arange(3), xp.asarray([3]), 1), "^put: |^index"),
        (lambda xp: xp.put(xp.arange(3), [-4], 1), "^put: |^index"),
        (lambda xp: xp.matmul(xp.ones((2, 2)), xp.ones((2, 2)), axes=[(0, 1)]), "^matmul: axes"),
    ],
)
def test_errors(call: Callable, words: str) -> None:
    """Of NumPy's class, at the call."""
    with pytest.raises(Exception) as theirs:
        call(np)
    kinds = [k for k in (ValueError, TypeError, IndexError) if isinstance(theirs.value, k)]
    with pytest.raises(kinds[0], match=words):
        call(cm)


def test_can_cast_of_scalars() -> None:
    for scalar, kind in ((np.int8(3), "i1"), (np.int16(3), "i1"), (np.float32(3), "f8")):
        assert cm.can_cast(scalar, kind) == np.can_cast(scalar, kind)


def test_requirements() -> None:
    view = cm.ones((2, 3))[:1]
    assert cm.require(view) is view
    assert cm.require(view, None, ["O"]).base is None
    assert cm.require(cm.broadcast_to(cm.ones(2), (2, 2)), None, "W").flags.writeable


# -------------------- other libraries


class Taker:
    """An object that computes ufuncs itself."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return ufunc.__name__, method, [type(x).__name__ for x in inputs]


def test_objects_that_take_ufuncs() -> None:
    x, taker = cm.ones(3), Taker()
    for call in (
        lambda x: x < taker,
        lambda x: x + taker,
        lambda x: x == taker,
        lambda x: np.add(x, taker),
    ):
        assert call(x) == call(np.ones(3))
    assert cm.log(taker) == np.log(taker)
    assert cm.add(taker, 1) == np.add(taker, 1)


def test_series_keep_their_index() -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series([1.0, 2.0], index=["a", "b"])
    pandas.testing.assert_series_equal(cm.log(series), np.log(series))
    pandas.testing.assert_series_equal(cm.ones(2) + series, np.ones(2) + series)


def test_array_interface(device: str) -> None:
    x = cm.array([[1, 2], [3, 4]], "u1")
    if device != "cpu":
        assert not hasattr(x, "__array_interface__")
        return
    described = x.__array_interface__
    assert described["shape"] == (2, 2) and described["strides"] == (2, 1)
    shared = np.asarray(type("Lender", (), {"__array_interface__": described})())
    shared[0, 0] = 9
    assert int(x[0, 0]) == 9
    assert not hasattr(cm.ones(2, "bfloat16"), "__array_interface__")
    assert np.asarray(cm.ones(2, "bfloat16")).dtype == cm.bfloat16
    if sys.version_info >= (3, 12):
        assert memoryview(x).tolist() == [[9, 2], [3, 4]]


def test_gradients_do_not_leave_by_the_interface(device: str) -> None:
    with pytest.raises(TypeError, match="gradient"):
        cm.grad(lambda x: x.sum() * float(np.asarray(x).sum()))(cm.ones(3))


def test_pillow(device: str) -> None:
    image = pytest.importorskip("PIL.Image")
    if device == "cpu":
        x = np.arange(12, dtype="u1").reshape(3, 4)
        np.testing.assert_array_equal(np.asarray(image.fromarray(cm.array(x))), x)


def test_numba_takes_arrays(device: str) -> None:
    numba = pytest.importorskip("numba")
    from cudamath.cpu.lib import numba_arguments

    numba_arguments.register()

    @numba.njit
    def double(a):  # type: ignore[no-untyped-def]
        a[0] = 9.0
        return a * 2, a.sum(), a

    x = cm.array([1.0, 2.0])
    if device != "cpu":
        with pytest.raises(TypeError, match="^njit: wants arrays on the CPU"):
            double(x)
        return
    twice, total, same = double(x)
    assert twice.tolist() == [18.0, 4.0] and total == 11.0 and x.tolist() == [9.0, 2.0]
    same[1] = 7.0
    assert x.tolist() == [9.0, 7.0]


def test_texts_are_told() -> None:
    for texts in (["a", "b"], np.array(["a"]), "a"):
        with pytest.raises(TypeError, match="^asarray: wants numbers, got texts: .* begins with"):
            cm.asarray(texts)


def test_keywords_of_pytorch() -> None:
    x = cm.ones((2, 3))
    for _ in range(2):
        with pytest.raises(TypeError, match="^softmax.. got .* 'dim'; here it is axis=0$"):
            cm.ml.softmax(x, dim=0)  # type: ignore[call-arg]
        cm.ml.softmax(x, axis=0)
    q = cm.ones((1, 1, 2, 4))
    with pytest.raises(TypeError, match="'is_causal'; here it is causal=True$"):
        cm.ml.scaled_dot_product_attention(q, q, q, is_causal=True)  # type: ignore[call-arg]
